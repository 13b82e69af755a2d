/*
 * For tests of the interpreter for many ranks: reads a staged module, gives
 * it a schedule and runs it.  Include cmocka first.
 */
#ifndef TESTS_UNIT_T_SIM_H
#define TESTS_UNIT_T_SIM_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/sim/sim.h"

#define SEED 7

static struct {
	struct ir_ctx c;
	struct ir_module *m;
	struct sched *sched;
	struct ranks ranks;
	struct sim_options o;
	struct sim_result res;
} t;

/* All that was reported so far. */
static inline const char *
messages(void)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, &t.c.perm);
	for (i = 0; i < t.c.diags.records.n; i++) {
		buf_printf(&b, "%s\n", t.c.diags.records.at[i].text);
	}
	return buf_text(&b);
}

static inline void
open_text(const struct mem *mem, const char *text)
{
	uint32_t base;

	memset(&t.res, 0, sizeof t.res);
	t.o = (struct sim_options){ .seed = SEED, .steps = 1 };
	ir_ctx_init(&t.c, mem);
	source_add(&t.c.sources, "t.ir", text, strlen(text), &base);
	t.m = ir_read(&t.c, t.c.sources.files.n - 1);
	if (!t.m || !ir_verify(t.m)) {
		fail_msg("%s\n%s", messages(), text);
	}
}

/* The forwards of one stage, over all microbatches. */
static inline struct sched *
forwards(uint32_t nmicrobatches)
{
	struct sched *s = sched_new(&t.c.perm, 1, 1, nmicrobatches);
	struct sched_action a = { .kind = SCHED_F };

	for (; a.microbatch < nmicrobatches; a.microbatch++) {
		sched_add(&t.c.perm, s, 0, a);
	}
	return s;
}

static inline void
close_text(void)
{
	ir_ctx_release(&t.c);
}

static inline bool
run(struct sched *s)
{
	const char *why;

	t.sched = s;
	if (!ranks_open(&t.ranks, t.m, s, NULL, &why)) {
		fail_msg("%s", why);
	}
	return sim_run(&t.ranks, &t.o, &t.res);
}

static inline void
must_run(struct sched *s)
{
	if (!run(s)) {
		fail_msg("%s", messages());
	}
}

static inline void
near(const char *what, double got, double want)
{
	double scale = fabs(want) > 1 ? fabs(want) : 1;

	if (!(fabs(got - want) <= 1e-12 * scale)) {
		fail_msg("%s: %.17g, and %.17g is expected\n%s", what, got,
			 want, t.c.sources.files.at[0].text);
	}
}

#endif

/*
 * What the tests of schedules share.
 */
#ifndef T_SCHED_H
#define T_SCHED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/sched/sched.h"

static struct {
	struct mem mem;
	struct arena a;
	struct sources sources;
	struct diags diags;
} t;

static inline void
start(void)
{
	arena_init(&t.a, &t.mem);
	source_init(&t.sources, &t.a);
	diag_init(&t.diags, &t.a, &t.sources);
}

static inline int
setup(void **state)
{
	(void)state;
	mem_init(&t.mem);
	start();
	return 0;
}

static inline int
teardown(void **state)
{
	(void)state;
	arena_release(&t.a);
	return 0;
}

static inline struct sched *
make(const char *name, uint32_t nranks, uint32_t chunks, uint32_t m)
{
	const char *why;
	struct sched *s = sched_make(&t.a, name, nranks, chunks, m, &why);

	if (!s) {
		fail_msg("%s", why);
	}
	return s;
}

static inline struct sched *
read_bytes(const char *text, size_t n, struct sched_left *left)
{
	uint32_t base;

	assert_true(source_add(&t.sources, "my.csv", text, n, &base));
	return sched_read(&t.a, &t.diags, t.sources.files.n - 1, left);
}

static inline struct sched *
read_text(const char *text)
{
	return read_bytes(text, strlen(text), NULL);
}

static inline const char *
print(const struct sched *s)
{
	struct buf b;

	buf_init(&b, &t.a);
	sched_print(s, &b);
	return buf_text(&b);
}

/* All that was reported since the last call. */
static inline const char *
messages(void)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	const char *copy;

	assert_non_null(f);
	diag_flush(&t.diags, f);
	fclose(f);
	t.diags.errors = 0;
	copy = arena_strndup(&t.a, text, n);
	free(text);
	return copy;
}

static inline void
accepted(const struct sched *s, struct sched_verdict *v)
{
	if (!sched_check(&t.a, s, v)) {
		fail_msg("%s\n%s", v->remarks.at[0].text, print(s));
	}
}

/* F takes 1, B 2, I and W 1 each, spread over the stages of a rank. */
static inline void
times(const struct sched *s, struct sched_timeline *l)
{
	struct sched_cost *cost = arena_alloc(&t.a, s->nstages * sizeof *cost);
	double part = (double)s->nranks / s->nstages;
	uint32_t i;

	for (i = 0; i < s->nstages; i++) {
		cost[i].us[SCHED_F] = cost[i].us[SCHED_I] = part;
		cost[i].us[SCHED_B] = 2 * part;
		cost[i].us[SCHED_W] = part;
	}
	assert_true(sched_time(&t.a, s, cost, l));
}

static inline uint32_t
draw(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return n ? (uint32_t)(*seed >> 33) % n : 0;
}

#endif

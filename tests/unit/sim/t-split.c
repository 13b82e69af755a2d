/*
 * The split program is the program: random small models under random plans
 * over up to 16 ranks.  All ranks run in one process, and the loss, every
 * gradient and every stored tensor of three optimizer steps are those of the
 * unsplit program to 1e-9.
 *
 * make check tries some of 240 on each day.  SPLIT_PAIRS=N how many, all of
 * them, SPLIT_SEED=S from which seed, SPLIT_SECONDS=T goes on for so long
 * instead.  A pair that fails is made smaller as long as it
 * fails, and printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "frontend/eval/eval.h"
#include "frontend/frontend.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-split.h"

#define PAIRS 240
#define DAYS 4		/* in which make check tries so many */
#define STEPS 3
#define CLOSE 1e-9

enum outcome { SAME, REFUSED, DIFFERENT };

/* One pair being run. */
struct run {
	struct ir_ctx c;
	const struct pair *p;
	struct eval_steps *course;
	struct eval_worst worst;
	const char *why;	/* it is not the same */
};

static struct ir_module *
compile(struct run *r)
{
	const char *text = model_text(&r->c.perm, r->p);
	uint32_t base;

	if (!source_add(&r->c.sources, "model", text, strlen(text), &base)) {
		return NULL;
	}
	return fe_compile(&r->c, r->c.sources.files.n - 1);
}

/* Prices that say nothing: any legal placement may come out. */
static void
shuffle(struct run *r, struct ir_module *m)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1 };

	s.key = intern_str(&r->c.syms, "place.shuffle");
	s.num[0] = r->p->n[NR_SHUFFLE];
	if (r->p->n[NR_SHUFFLE] > 0) {
		VEC_PUSH(&r->c.perm, &m->settings, s);
	}
}

static bool
after(void *user, const struct sim_result *result)
{
	struct run *r = user;

	eval_steps_compare(r->course, result, &r->worst);
	return r->worst.off <= CLOSE;
}

static enum outcome
simulate(struct run *r, struct ir_module *m, struct sched *s)
{
	struct sim_options o = { .seed = 7, .steps = STEPS, .after = after,
				 .user = r };
	struct sim_result result;
	const char *why;
	struct ranks ranks;

	if (!ranks_open(&ranks, m, s, NULL, &why)) {
		r->why = why;
		return DIFFERENT;
	}
	if (sim_run(&ranks, &o, &result) && r->worst.off <= CLOSE) {
		return SAME;
	}
	r->why = r->worst.off <= CLOSE ? "the ranks do not run"
		: arena_printf(&r->c.perm, "%s %s of step %u is %.1e apart",
			       r->worst.kind, r->worst.name, r->worst.step,
			       r->worst.off);
	return DIFFERENT;
}

static enum outcome
run_pair(struct run *r)
{
	struct ir_eval_options eval = { .seed = 7 };
	struct ir_module *whole = compile(r), *m = compile(r);
	struct sched *s;
	struct plan plan;

	if (!whole || !m || pass_apply(whole, "train", true) != PASS_OK) {
		r->why = "the model does not compile";
		return DIFFERENT;
	}
	shuffle(r, m);
	if (!plan_pin(m, plan_text(&r->c.perm, r->p)) ||
	    !plan_read(m, &plan)) {
		return REFUSED;
	}
	s = plan_schedule(m, &plan, &r->c.perm);
	if (!s || pass_apply(m, "split", true) != PASS_OK) {
		return REFUSED;
	}
	r->course = eval_steps_run(whole, &eval, STEPS);
	if (!r->course) {
		r->why = "the unsplit program does not run";
		return DIFFERENT;
	}
	return simulate(r, m, s);
}

static enum outcome
outcome(const struct pair *p, bool tell)
{
	struct run r = { .p = p };
	enum outcome o;

	ir_ctx_init(&r.c, NULL);
	o = run_pair(&r);
	if (tell) {
		diag_flush(&r.c.diags, stderr);
		if (r.why) {
			fprintf(stderr, "%s\n", r.why);
		}
		fprintf(stderr, "%s--pin %s%s\n", model_text(&r.c.perm, p),
			plan_text(&r.c.perm, p),
			p->n[NR_SHUFFLE] ? " (prices shuffled)" : "");
	}
	ir_ctx_release(&r.c);
	return o;
}

/* Each number as low as it goes while the pair still fails. */
static struct pair
shrink(struct pair p)
{
	bool again = true;
	int i, v;

	while (again) {
		again = false;
		for (i = 0; i < NR_COUNT; i++) {
			for (v = numbers[i].low; v < p.n[i]; v++) {
				struct pair q = p;

				q.n[i] = v;
				make_sense(&q);
				if (outcome(&q, false) == DIFFERENT &&
				    memcmp(&q, &p, sizeof p) != 0) {
					p = q;
					again = true;
					break;
				}
			}
		}
	}
	return p;
}

static uint64_t
from_env(const char *name, uint64_t absent)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 10) : absent;
}

/* Of a fifth of the pairs keys and values are of latents, in turns of the two
 * ways that there are. */
static struct pair
draw_pair(uint64_t seed)
{
	struct pair p = random_pair(seed);

	p.n[NR_LATENT] = seed % 5 == 0 ? 1 + (int)(seed / 5 % 2) : 0;
	return p;
}

static void
test_pairs(void **state)
{
	uint64_t seed = from_env("SPLIT_SEED", 1), pairs, seconds;
	bool is_asked = t_soaks() || getenv("SPLIT_SEED") ||
			getenv("SPLIT_PAIRS") || getenv("SPLIT_SECONDS");
	uint64_t i, done[2] = { 0, 0 };
	time_t start = time(NULL);

	(void)state;
	seconds = from_env("SPLIT_SECONDS", 0);
	pairs = from_env("SPLIT_PAIRS", is_asked ? PAIRS : PAIRS / DAYS);
	for (i = 0; seconds ? (uint64_t)(time(NULL) - start) < seconds
			    : done[SAME] < pairs; i++) {
		struct pair p;
		enum outcome o;

		if (!is_asked && !t_today(i, DAYS)) {
			continue;
		}
		p = draw_pair(seed + i);
		o = outcome(&p, false);
		if (o == DIFFERENT) {
			p = shrink(p);
			fprintf(stderr, "seed %llu, made smaller:\n",
				(unsigned long long)(seed + i));
			outcome(&p, true);
			fail_msg("seed %llu", (unsigned long long)(seed + i));
		}
		if (o == REFUSED && getenv("SPLIT_TELL")) {
			outcome(&p, true);
		}
		done[o]++;
	}
	printf("seeds %llu to %llu: %llu pairs the same, %llu refused\n",
	       (unsigned long long)seed, (unsigned long long)(seed + i - 1),
	       (unsigned long long)done[SAME],
	       (unsigned long long)done[REFUSED]);
	assert_true(done[REFUSED] * 10 <= done[SAME] + 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pairs) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

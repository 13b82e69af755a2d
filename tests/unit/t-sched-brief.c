/* t-sched-brief.c - schedules that are run without most of their middle. */
#include "t-sched.h"

#include <math.h>

/* Of how stages differ: ends are slower or quicker, or all are as they are. */
enum costs { ALIKE, FIRST_SLOW, LAST_SLOW, MIDDLE_SLOW, ENDS_QUICK, ANY,
	     NCOSTS };

static struct sched_briefs briefs;
static struct arena kept;

static double
share(uint64_t *seed)
{
	return draw(seed, 1 << 20) / (double)(1 << 20);
}

static struct sched_cost *
costs_of(const struct sched *s, enum costs which, double hop_us,
	 uint64_t *seed)
{
	struct sched_cost *c = arena_alloc(&t.a, s->nstages * sizeof *c);
	uint32_t i, n = s->nstages;

	for (i = 0; i < n; i++) {
		bool end = i == 0 || i + 1 == n;
		double part = (which == FIRST_SLOW && i == 0) ||
			      (which == LAST_SLOW && i + 1 == n) ||
			      (which == MIDDLE_SLOW && i == n / 2) ? 1.7
			: which == ENDS_QUICK && end ? 0.6
			: which == ANY ? 0.5 + share(seed) : 1;

		c[i].us[SCHED_F] = 103.1 * part;
		c[i].us[SCHED_B] = 217.3 * part;
		c[i].us[SCHED_I] = 115.7 * part;
		c[i].us[SCHED_W] = 101.6 * part;
		c[i].hop_us = hop_us;
	}
	return c;
}

/* The part of the steps that it ran; costs are other ones the next time. */
static double
compare(const struct sched_def *def, uint32_t p, uint32_t v, uint32_t m,
	enum costs which, double hop_us, uint64_t *seed)
{
	const struct sched *s = make(def->name, p, v, m);
	struct sched_cost *costs = costs_of(s, which, hop_us, seed);
	struct sched_timeline whole;
	uint64_t before = briefs.steps;
	double us;

	assert_true(sched_span(&t.a, s, costs, &whole));
	assert_true(sched_makespan(&briefs, &t.a, def, p, v, m, costs, &us));
	if (fabs(us / whole.makespan_us - 1) > 1e-12) {
		fail_msg("%s P=%u v=%u M=%u, costs %d, hop %g: %.17g, not "
			 "%.17g", def->name, p, v, m, which, hop_us, us,
			 whole.makespan_us);
	}
	return (double)(briefs.steps - before) /
	       (s->ranks[0].actions.n * p);
}

static void
like_the_whole(void **state)
{
	static const double hops[] = { 0, 3.3, 90.9, 250 };
	uint64_t seed = 20251123;
	uint32_t d, p, v, m;
	double part = 0, n = 0;

	(void)state;
	for (d = 0; d < sched_ndefs; d++) {
		const struct sched_def *def = &sched_defs[d];
		uint32_t most = def->max_chunks ? def->max_chunks : 4;

		for (p = 1; p <= 9; p++) {
			for (v = def->min_chunks; v <= most; v++) {
				for (m = 1; m < 400; m += 1 + m / 3, n++) {
					enum costs c = draw(&seed, NCOSTS);

					part += compare(def, p, v, m, c,
							hops[draw(&seed, 4)],
							&seed);
					arena_release(&t.a);
					start();
				}
			}
		}
	}
	assert_true(part < 0.9 * n);
}

/* What is left out is most of it. */
static void
is_short(void **state)
{
	uint32_t d, n;

	(void)state;
	for (d = 0; d < sched_ndefs; d++) {
		const struct sched_def *def = &sched_defs[d];
		uint32_t v = def->max_chunks == 1 ? 1 : 2;
		uint32_t more, again;

		n = sched_held_of(def, 8, v, 1024, &more);
		if (def->repeats == SCHED_NEVER) {
			assert_int_equal(n, 2);
			assert_int_equal(more, 1022);
			continue;
		}
		assert_in_range(n, 16, 64);
		again = sched_held_of(def, 8, v, 1032, &more);
		assert_int_equal(n, again);
		n = sched_held_of(def, 8, v, 1027, &more);
		assert_in_range(n, 16, 64 + 3 * 9);
		assert_int_equal(sched_held_of(def, 8, v, 20, &more), 20);
		assert_int_equal(more, 0);
	}
	/* groups of nine and ten repeat nowhere */
	assert_int_equal(sched_held_of(sched_find("interleaved"), 8, 2, 61, &n),
			 61);
}

static uint32_t
grown(uint32_t last, uint32_t before, uint32_t times)
{
	return last + times * (last - before);
}

/* Held slots are as many as in the whole. */
static void
hold_as_many(const struct sched_def *def, uint32_t p, uint32_t v, uint32_t m)
{
	struct sched_verdict whole, x, less = { 0 };
	uint32_t times, n = sched_held_of(def, p, v, m, &times), r;

	assert_true(sched_check(&t.a, make(def->name, p, v, m), &whole));
	assert_true(sched_check(&t.a, make(def->name, p, v, n), &x));
	less = x;
	if (times) {
		assert_true(sched_check(&t.a, make(def->name, p, v, n - 1),
					&less));
	}
	for (r = 0; r < p; r++) {
		assert_int_equal(grown(x.peak[r], less.peak[r], times),
				 whole.peak[r]);
	}
	for (r = 0; r < p * v; r++) {
		assert_int_equal(grown(x.stage_peak[r], less.stage_peak[r],
				       times), whole.stage_peak[r]);
	}
}

static void
holds_as_many(void **state)
{
	uint32_t d, p, m;

	(void)state;
	for (d = 0; d < sched_ndefs; d++) {
		const struct sched_def *def = &sched_defs[d];
		uint32_t v = def->max_chunks == 1 ? 1 : 2;

		for (p = 2; p <= 8; p++) {
			for (m = 1; m < 100; m += m < 90 ? 7 : 1) {
				hold_as_many(def, p, v, m);
				arena_release(&t.a);
				start();
			}
		}
	}
}

/* Few of many microbatches are run, and who waits is found once. */
static void
is_quick(void **state)
{
	uint64_t seed = 7, before;
	uint32_t d, i, kept_n;
	double us;

	(void)state;
	for (d = 0; d < sched_ndefs; d++) {
		const struct sched_def *def = &sched_defs[d];
		uint32_t v = def->max_chunks == 1 ? 1 : 2;
		struct sched *s = make(def->name, 4, v, 4);

		before = briefs.steps;
		kept_n = briefs.at.n;
		for (i = 0; i < 10; i++) {
			assert_true(sched_makespan(&briefs, &t.a, def, 4, v,
				1000, costs_of(s, LAST_SLOW, 2, &seed), &us));
		}
		assert_in_range(briefs.at.n - kept_n, 1, 2);
		if (def->repeats != SCHED_NEVER) {
			assert_in_range((briefs.steps - before) / 10, 50,
					200 * 4 * v);
		}
	}
	assert_false(sched_makespan(&briefs, &t.a, sched_find("zbv"), 4, 1,
				    8, NULL, &us));
}

static int
setup_briefs(void **state)
{
	int bad = setup(state);

	arena_init(&kept, &t.mem);
	briefs = (struct sched_briefs){ .arena = &kept };
	return bad;
}

static int
drop_briefs(void **state)
{
	arena_release(&kept);
	return teardown(state);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_briefs, drop_briefs)
	const struct CMUnitTest tests[] = {
		TEST(like_the_whole),
		TEST(is_short),
		TEST(holds_as_many),
		TEST(is_quick),
	};

	return cmocka_run_group_tests_name("sched-brief", tests, NULL, NULL);
}

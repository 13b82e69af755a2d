/* Schedules that are run without most of their middle. */
#include "t-sched.h"

#include "ir/memo.h"

#include <math.h>

/* Of how stages differ: ends are slower or quicker, or all are as they are. */
enum costs { ALIKE, FIRST_SLOW, LAST_SLOW, MIDDLE_SLOW, ENDS_QUICK, ANY,
	     NCOSTS };

static struct sched_briefs briefs;
static struct memo kept;

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
		/* of the first microbatch, whose sums are only stored */
		c[i].less_us = (share(seed) - 0.3) * 90;
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
		assert_in_range(n, 8, 32);
		again = sched_held_of(def, 8, v, 1032, &more);
		assert_int_equal(n, again);
		n = sched_held_of(def, 8, v, 1027, &more);
		assert_in_range(n, 8, 32 + 3 * 9);
		assert_int_equal(sched_held_of(def, 8, v, 7, &more), 7);
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

/*
 * Begun with one part and not ended with the other, at most: by stage, and
 * after these by rank.
 */
static uint32_t *
held(const struct sched *s, uint8_t from, uint8_t to)
{
	uint32_t n = s->nstages + s->nranks, r, i, k;
	uint32_t *now = arena_alloc(&t.a, n * sizeof *now);
	uint32_t *most = arena_alloc(&t.a, n * sizeof *most);

	for (r = 0; r < s->nranks; r++) {
		for (i = 0; i < s->ranks[r].actions.n; i++) {
			const struct sched_action *x =
				&s->ranks[r].actions.at[i];
			uint32_t at[] = { x->stage, s->nstages + r };

			for (k = 0; k < 2; k++) {
				uint8_t does = sched_kinds[x->kind].does;
				uint32_t *here = &now[at[k]];

				*here += (does & from) != 0;
				if (*here > most[at[k]]) {
					most[at[k]] = *here;
				}
				*here -= (does & to) != 0;
			}
		}
	}
	return most;
}

/* Held slots are as many as in the whole. */
static void
hold_as_many(const struct sched_def *def, uint32_t p, uint32_t v, uint32_t m)
{
	static const uint8_t spans[][2] = {
		{ SCHED_FORWARD, SCHED_INPUT },
		{ SCHED_FORWARD, SCHED_WEIGHTS },
		{ SCHED_INPUT, SCHED_WEIGHTS }
	};
	uint32_t times, n = sched_held_of(def, p, v, m, &times), i, k;
	const struct sched *whole = make(def->name, p, v, m);
	const struct sched *brief = make(def->name, p, v, n);
	const struct sched *less = times ? make(def->name, p, v, n - 1) : brief;

	for (i = 0; i < 3; i++) {
		uint8_t from = spans[i][0], to = spans[i][1];
		const uint32_t *all = held(whole, from, to);
		const uint32_t *x = held(brief, from, to);
		const uint32_t *y = held(less, from, to);

		for (k = 0; k < p * v + p; k++) {
			if (grown(x[k], y[k], times) != all[k]) {
				fail_msg("%s P=%u v=%u M=%u, span %u: %u in "
					 "%u, not %u", def->name, p, v, m, i,
					 grown(x[k], y[k], times), n, all[k]);
			}
		}
	}
}

static void
holds_as_many(void **state)
{
	uint32_t d, p, v, m;

	(void)state;
	for (d = 0; d < sched_ndefs; d++) {
		const struct sched_def *def = &sched_defs[d];
		uint32_t most = def->max_chunks ? def->max_chunks : 4;

		for (p = 2; p <= 8; p++) {
			for (v = def->min_chunks; v <= most; v++) {
				for (m = 1; m < 100; m += m < 90 ? 7 : 1) {
					hold_as_many(def, p, v, m);
					arena_release(&t.a);
					start();
				}
			}
		}
	}
}

/* So many microbatches later. */
static bool
is_later(const struct sched_action *x, const struct sched_action *y,
	 uint32_t by)
{
	return x->kind == y->kind && x->stage == y->stage &&
	       x->microbatch + by == y->microbatch;
}

/* Windows in which each kind of each stage comes as often. */
static void
assert_even(const struct sched *s, const struct sched_action *x, uint32_t n,
	    uint32_t times)
{
	uint32_t *of = arena_alloc(&t.a, s->nstages * SCHED_NKINDS *
				   sizeof *of), i;

	for (i = 0; i < n; i++) {
		of[x[i].stage * SCHED_NKINDS + x[i].kind]++;
	}
	for (i = 0; i < s->nstages * SCHED_NKINDS; i++) {
		assert_true(of[i] == 0 || of[i] == times);
	}
}

/*
 * What a rank does in the one and not in the other stands in its list in one
 * piece, of whole windows, after one like them that both have.
 */
static void
assert_lacks_windows(const struct sched *whole, const struct sched *brief,
		     uint32_t rank)
{
	const struct sched_list *l = &whole->ranks[rank];
	const struct sched_list *b = &brief->ranks[rank];
	const struct sched_action *x = l->actions.at, *y = b->actions.at;
	uint32_t period = whole->def->repeats == SCHED_EACH ? 1
		: whole->nranks;
	uint32_t size = l->actions.n / whole->nmicrobatches * period;
	uint32_t less = l->actions.n - b->actions.n, at = 0, i;

	while (at < b->actions.n && is_later(&y[at], &x[at], 0)) {
		at++;
	}
	assert_true(at >= size && less % size == 0);
	for (i = at; i < b->actions.n; i++) {
		assert_true(is_later(&y[i], &x[i + less], whole->nmicrobatches
				     - brief->nmicrobatches));
	}
	for (i = at; i < at + less; i++) {
		assert_true(is_later(&x[i - size], &x[i], period));
	}
	assert_even(whole, &x[at - size], size, period);
}

static uint32_t
lack_windows(const struct sched_def *def, uint32_t p, uint32_t v)
{
	uint32_t m, r, shorter = 0;

	for (m = 1; m < 100; m += m < 85 ? 7 : 1) {
		const struct sched *s = make(def->name, p, v, m);
		const struct sched *b = sched_holding(&t.a, s);

		for (r = 0; b != s && r < p; r++) {
			assert_lacks_windows(s, b, r);
		}
		shorter += b != s;
		arena_release(&t.a);
		start();
	}
	return shorter;
}

/* And nothing between its actions changes but for that. */
static void
holds_the_same(void **state)
{
	uint32_t d, p, v, shorter;
	struct sched *s;

	(void)state;
	for (d = 0; d < sched_ndefs; d++) {
		const struct sched_def *def = &sched_defs[d];
		uint32_t most = def->max_chunks ? def->max_chunks : 4;

		for (p = 1, shorter = 0; p <= 8; p++) {
			for (v = def->min_chunks; v <= most; v++) {
				shorter += lack_windows(def, p, v);
			}
		}
		assert_true((shorter > 100) ==
			    (def->repeats != SCHED_NEVER));
	}
	s = make("1f1b", 4, 1, 100);
	s->def = NULL;
	assert_ptr_equal(sched_holding(&t.a, s), s);
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
		kept_n = kept.of[MEMO_BRIEFS].at.n;
		for (i = 0; i < 10; i++) {
			assert_true(sched_makespan(&briefs, &t.a, def, 4, v,
				1000, costs_of(s, LAST_SLOW, i, &seed), &us));
		}
		assert_in_range(kept.of[MEMO_BRIEFS].at.n - kept_n, 1,
				kept_n ? 2 : 3);
		if (def->repeats != SCHED_NEVER) {
			assert_in_range((briefs.steps - before) / 10, 50,
					200 * 4 * v);
		}
	}
	assert_false(sched_makespan(&briefs, &t.a, sched_find("zbv"), 4, 1, 8,
				    costs_of(make("1f1b", 4, 1, 8), ALIKE, 2,
					     &seed), &us));
}

/* What was dropped is found again, and takes as long. */
static void
is_found_again(void **state)
{
	const struct sched_def *def = sched_find("interleaved");
	struct sched *s = make(def->name, 4, 2, 4);
	const struct sched_cost *costs;
	double before, after;
	uint64_t seed = 1, steps;

	(void)state;
	costs = costs_of(s, LAST_SLOW, 2, &seed);
	assert_true(sched_makespan(&briefs, &t.a, def, 4, 2, 1000, costs,
				   &before));
	steps = briefs.steps;
	memo_drop(&kept, MEMO_BRIEFS);
	memo_drop(&kept, MEMO_SPANS);
	assert_true(sched_makespan(&briefs, &t.a, def, 4, 2, 1000, costs,
				   &after));
	assert_true(after == before);
	assert_int_equal(briefs.steps, 2 * steps);
}

/* With the same costs nothing is run again; with others, or more, it is. */
static void
is_known(void **state)
{
	const struct sched_def *def = sched_find("interleaved");
	struct sched *s = make(def->name, 4, 2, 4);
	struct sched_cost *costs;
	uint64_t seed = 1, steps;
	double us, again;

	(void)state;
	costs = costs_of(s, ANY, 2, &seed);
	assert_true(sched_makespan(&briefs, &t.a, def, 4, 2, 1000, costs,
				   &us));
	steps = briefs.steps;
	assert_true(sched_makespan(&briefs, &t.a, def, 4, 2, 1000, costs,
				   &again));
	assert_true(us == again);
	assert_int_equal(briefs.steps, steps);
	assert_true(sched_makespan(&briefs, &t.a, def, 4, 2, 1004, costs,
				   &again));
	assert_true(us < again);
	assert_true(briefs.steps > steps);
	steps = briefs.steps;
	costs[7].hop_us += 1;
	costs[7].us[SCHED_B] += 100;
	assert_true(sched_makespan(&briefs, &t.a, def, 4, 2, 1000, costs,
				   &again));
	assert_true(us < again);
	assert_true(briefs.steps > steps);
}

static int
setup_briefs(void **state)
{
	int bad = setup(state);

	memo_init(&kept, &t.mem, MEMO_BYTES);
	briefs = (struct sched_briefs){ .memo = &kept };
	return bad;
}

static int
drop_briefs(void **state)
{
	memo_release(&kept);
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
		TEST(holds_the_same),
		TEST(is_quick),
		TEST(is_found_again),
		TEST(is_known),
	};

	return cmocka_run_group_tests_name("sched-brief", tests, NULL, NULL);
}

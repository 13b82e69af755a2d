/*
 * Which ways to recompute the stages of a rank take, of pipelines that are
 * drawn with several stages on a rank and little memory.  No ways that fit take
 * less than a bound of those that are chosen, roughly or exactly, by programs
 * for one sequence or for the plan's lengths.  What is chosen follows neither
 * from the limit of the search, nor from what the memo has kept.
 *
 * SEARCH_BOUNDS=N draws more of them, SEARCH_SEED=S others.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "t-trial.h"

/* What is as good as nothing, of sums of times and of whole steps. */
#define LITTLE 1e-9
#define NEAR 1e-5

/* Draws a plan whose ranks have so many stages.  False: it is none. */
static bool
draw_interleaved(const struct space *s, bool moe, int64_t chunks,
		 struct drawn *x)
{
	if (!draw_pipeline(s, moe, x) || x->g.pp == 1) {
		return false;
	}
	x->t.sched = sched_find("interleaved");
	x->t.chunks = chunks;
	x->key.split = false;
	return x->g.pp * chunks <= s->nlayers &&
	       x->t.nmicrobatches % x->g.pp == 0;
}

/* A plan that is tried, with its quickest ways.  False: it is none. */
static bool
open_trial(struct search *s, struct drawn *d, struct trial *x)
{
	*x = trial_begin(s, &d->t);
	d->key.solo = x->key.solo;
	x->key = d->key;
	x->p.offload = x->key.offload;
	x->cost = piece_cost_of(&s->pieces, &x->key, x->t);
	if (!x->cost) {
		return false;
	}
	draw_layers(x);
	trial_set_chosen(x, false);	/* what all ways take at least */
	assert_true(trial_bound(x));
	x->ways_of = piece_choices_of(&s->pieces, &x->key, x->t);
	assert_non_null(x->ways_of);
	trial_set_fixed(x);
	space_count_slots(&s->space, x->t);
	trial_set_plain(x);
	return true;
}

/* Draws models and plans, of so many stages a rank, for each of which `check`
 * is called. */
static void
each_plan(void (*check)(struct search *, struct drawn *, void *), void *user,
	  uint32_t least, uint32_t most)
{
	static const char *const clusters[] = { "h100x8x8", "rtx4090x8x4" };
	uint32_t chunks = least + draw(most - least + 1), i, left = 2;
	bool moe = draw(4) == 0;
	struct trial_stand x;
	char text[4096];
	struct drawn d;

	snprintf(text, sizeof text, moe ? experts : draw(2) ? dense : heavy,
		 32, (int)(2 * chunks + draw(4)));
	open_search(&x, text, clusters[draw(2)]);
	for (i = 0; i < 60 && left > 0; i++) {
		if (draw_interleaved(&x.s.space, moe, chunks, &d)) {
			check(&x.s, &d, user);
			arena_release(&x.s.space.tmp);
			left--;
		}
	}
	close_search(&x);
}

/* ---- all ways of a rank ---- */

/*
 * Bytes of a rank by the ways of its stages, as the search lays them out; or of
 * its saves on the host, if the device has memory for these ways.
 */
static double
bytes_of(struct trial_rank *f, const uint32_t *nth)
{
	bool fits = true;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i]);

		f->keeps[i] = of->keeps[nth[i]];
		if (!f->made) {
			f->keeps[i].temp = of->other.temp;
		}
		fits &= !f->hosted || !trial_is_too_large(f, f->of[i], nth[i]);
	}
	return !f->hosted ? trial_moving_bytes(f->x, f->rank, f->keeps)
		: fits ? trial_host_bytes(f) : INFINITY;
}

static double
us_of(const struct trial_rank *f, const uint32_t *nth)
{
	double us = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		us += trial_ways_of(f, f->of[i])->us[nth[i]];
	}
	return us;
}

/* The least time of all ways of all stages that keep at most so much. */
static double
least_of(struct trial_rank *f, double room)
{
	uint32_t nth[SPACE_UNITS] = { 0 }, nways = f->x->ways_of->at.n, i = 0;
	double least = INFINITY;

	while (i < f->n) {
		double us = us_of(f, nth);

		if (us < least && bytes_of(f, nth) <= room) {
			least = us;
		}
		for (i = 0; i < f->n && ++nth[i] == nways; i++) {
			nth[i] = 0;
		}
	}
	return least;
}

/* What was seen of ranks whose ways were all looked at. */
struct looked {
	int n, full, left, slower, hosted;
	int missed;	/* none was found, and none proved not to fit */
};

/*
 * Chooses roughly or exactly: of what fits nothing takes less than the bound,
 * and none is chosen that takes more than the bound says.
 */
static double
check_choice(struct trial_rank *f, double room, double least_us,
	     struct looked *to)
{
	uint32_t nth[SPACE_UNITS], i;
	double us, near_us = trial_near_us(f) + LITTLE * fabs(least_us);

	f->none = false;
	if (!trial_choose(f, room)) {
		assert_true(!f->none || isinf(least_us));
		return INFINITY;
	}
	for (i = 0; i < f->n; i++) {
		nth[i] = f->x->choice[f->of[i]];
	}
	us = us_of(f, nth);
	assert_true(bytes_of(f, nth) <= room);
	assert_true(us >= least_us - LITTLE * fabs(least_us));
	assert_true(us - f->left_us <= least_us + near_us);
	to->left += f->left_us > near_us;
	return us;
}

/* Leaves a device so little memory that some ways do not fit. */
static void
draw_temps(struct trial_rank *f, const uint32_t *nth)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		f->keeps[i] = trial_ways_of(f, f->of[i])->keeps[nth[i]];
	}
	f->free_bytes = trial_moving_bytes(f->x, f->rank, f->keeps);
	trial_set_room(f);
}

static void
check_rank(struct trial *x, uint32_t rank, bool made, struct looked *to)
{
	struct trial_rank f = open_rank(x, rank);
	uint32_t nth[SPACE_UNITS], nways = x->ways_of->at.n, i;
	double room, least_us, us, rough_us;

	f.made = made;
	for (i = 0; i < f.n; i++) {
		nth[i] = draw(nways);
	}
	f.hosted = x->key.offload & PLAN_OFFLOAD_SAVES;
	if (f.hosted) {
		draw_temps(&f, nth);
	}
	room = fmin(bytes_of(&f, nth), 1e15) * (draw(4) ? 1 : .9);
	least_us = least_of(&f, room);
	if (f.hosted) {
		x->share[rank] = room;
	} else {
		f.free_bytes = room;
	}
	to->hosted += f.hosted;
	f.rough = true;
	rough_us = check_choice(&f, room, least_us, to);
	f.rough = false;
	us = check_choice(&f, room, least_us, to);
	assert_true(us <= rough_us + trial_near_us(&f));
	to->slower += us < rough_us - trial_near_us(&f);
	to->full += isinf(least_us);
	to->missed += isfinite(least_us) && isinf(us);
	to->n++;
}

static void
check_ranks(struct search *s, struct drawn *d, void *user)
{
	struct trial x;
	uint32_t i;

	if (!open_trial(s, d, &x) ||
	    pow(x.ways_of->at.n, (double)d->t.chunks) > 4e5) {
		return;
	}
	for (i = 0; i < d->g.pp; i += 1 + draw(3)) {
		check_rank(&x, i, false, user);
		check_rank(&x, i, true, user);
	}
}

static void
test_all_ways(void **state)
{
	int64_t n = env("SEARCH_BOUNDS", 12), i;
	struct looked to = { 0 };

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		each_plan(check_ranks, &to, 3, 4);
	}
	print_message("%d ranks, %d of them with saves on hosts, %d full: %d "
		      "choices leave a bound, %d rough ones are slower\n",
		      to.n, to.hosted, to.full, to.left, to.slower);
	assert_true(to.n > 2 * n && to.full < to.n / 2 && to.hosted > n / 4);
	assert_true(to.left > 0 && to.slower > 0);
	assert_true(to.missed <= to.n / 20);
}

/* ---- more stages than sets are looked at of ---- */

/*
 * Of more than eight stages some share their ways: what others may take less
 * is by all memory of the rank, also if the ways were chosen in less.
 */
static void
check_grouped(struct search *s, struct drawn *d, void *user)
{
	int *less = user;
	struct trial_rank f;
	struct trial x;
	double us, all_us;
	uint32_t i;

	if (!open_trial(s, d, &x)) {
		return;
	}
	f = open_rank(&x, draw((uint32_t)d->g.pp));
	for (i = 0; i < f.n; i++) {
		x.choice[f.of[i]] = draw(x.ways_of->at.n);
	}
	f.free_bytes = trial_chosen_bytes(&f, false);
	if (!trial_choose(&f, f.free_bytes)) {
		return;
	}
	all_us = trial_chosen_us(&f);
	assert_true(f.grouped_us >= 0);
	for (i = 1; i < 8 && trial_choose(&f, f.free_bytes *
					  (1 - .02 * i)); i++) {
		us = trial_chosen_us(&f);
		assert_true(us - f.grouped_us <=
			    all_us + LITTLE * fabs(all_us));
		*less += us > all_us + trial_near_us(&f);
	}
}

static void
test_grouped(void **state)
{
	int64_t n = env("SEARCH_BOUNDS", 12), i;
	int less = 0;

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		each_plan(check_grouped, &less, SPACE_UNITS + 1, 16);
	}
	print_message("%d choices in less memory take more\n", less);
	assert_true(less > n / 2);
}

/* ---- ways that are too slow ---- */

/* What a rank takes at least, with that way for all its stages. */
static double
own_us(const struct trial_rank *f, uint32_t way)
{
	struct trial *x = f->x;
	const struct piece_choice *c = &x->ways_of->at.at[way];
	double least[SCHED_NKINDS], us = 0;
	uint32_t i, k;

	for (i = 0; i < f->n; i++) {
		uint32_t stage = f->of[i];
		int64_t lo = x->first[stage], hi = lo + x->layers[stage];

		piece_stage_least(&x->s->space, x->cost, c->maps,
				  x->dev_of[stage], lo, hi, least);
		trial_raise_to_params(x, stage, least);
		trial_raise_to_saves(x, stage, c, least);
		for (k = 0; k < SCHED_NKINDS; k++) {
			us += least[k];
		}
	}
	return us;
}

/* What is below a limit with these ways is not above it with all that take as
 * much: of each way for all stages.  Returns how often that is near. */
static int
check_way(struct trial_rank *f, uint32_t way)
{
	struct search *s = f->x->s;
	double us = own_us(f, way), lo = 0, hi = 1e12, guess_us = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		guess_us += trial_ways_of(f, f->of[i])->us[way];
	}
	for (i = 0; i < 80; i++) {	/* the limit of these ways */
		s->worst_us = (lo + hi) / 2;
		*(trial_is_slow(f->x, f->rank, us) ? &lo : &hi) = s->worst_us;
	}
	s->worst_us = hi * (1 + LITTLE);
	assert_false(trial_is_slow_from(f, guess_us));
	s->worst_us = hi * .98;
	return trial_is_slow_from(f, guess_us);
}

static void
check_slow(struct search *s, struct drawn *d, void *user)
{
	int *near = user;
	struct trial x;
	uint32_t i;

	if (!open_trial(s, d, &x)) {
		return;
	}
	trial_step_us(&x);
	for (i = 0; i < x.ways_of->at.n; i++) {
		struct trial_rank f = open_rank(&x, i % (uint32_t)d->g.pp);

		*near += check_way(&f, i);
	}
}

static void
test_slow(void **state)
{
	int64_t n = env("SEARCH_BOUNDS", 12), i;
	int near = 0;

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		each_plan(check_slow, &near, 3, 12);
	}
	print_message("%d bounds are near\n", near);
	assert_true(near > 4 * n);
}

/* ---- below a limit ---- */

/* What is found of a plan below a limit. */
struct answer {
	double step_us, open_us;
	struct search_found best;
};

static struct answer
try_below(struct search *s, struct drawn *d, double worst_us)
{
	struct search_report *out = s->out;
	struct trial x = trial_begin(s, &d->t);
	struct answer to = { .step_us = INFINITY };

	x.key = d->key;
	s->worst_us = worst_us;
	s->open_us = out->ways_us = out->unmade_us = INFINITY;
	s->enough = 1;
	s->close.n = out->found.n = 0;
	trial_sharding(&x);
	if (out->found.n) {
		to.best = out->found.at[0];
		to.step_us = to.best.step_us;
	}
	to.open_us = s->open_us;
	return to;
}

/* Sets memory to what fits with some ways and not with the quickest. */
static void
draw_memory(struct trial *x)
{
	struct search *s = x->s;
	struct target_group *on =
		(struct target_group *)s->space.devs.at[x->dev[0]];
	double most = 0, least = 0;
	uint32_t i;

	for (i = 0; i < x->t->g->pp; i++) {
		struct trial_rank f = open_rank(x, i);

		most = fmax(most, x->fixed[i] + trial_chosen_bytes(&f, false));
		trial_choose_least(&f);
		least = fmax(least,
			     x->fixed[i] + trial_chosen_bytes(&f, false));
	}
	on->device.memory_bytes += least + (most - least) * .01 *
		(5 + draw(90)) - target_free_bytes(on);
}

/* How often a plan was tried, and found. */
struct limits {
	int n, found, open, unfit;
};

/*
 * With a limit above the step, the plan is found as it is without one, but for
 * ways that take more in sum and wait less: where those that take least are
 * above the limit by a bound, others are not tried, and that is said.  With a
 * limit below the step nothing is found, and no more is claimed.
 */
static void
check_limits(struct search *s, struct drawn *d, struct limits *to,
	     const struct answer *all)
{
	static const double above[] = { 1 + NEAR, 1.001, 1.02, 1.5 };
	double open_us = fmin(all->open_us, all->step_us);
	struct answer x;
	size_t i;

	for (i = 0; i < sizeof above / sizeof *above; i++) {
		uint64_t run = s->out->run;

		x = try_below(s, d, all->step_us * above[i]);
		assert_true(fabs(x.step_us - all->step_us) <=
			    NEAR * all->step_us ||
			    (s->out->run == run &&
			     s->out->ways_us <= all->step_us));
		assert_true(x.open_us >= open_us * (1 - NEAR));
	}
	x = try_below(s, d, all->step_us * (1 - NEAR));
	assert_true(isinf(x.step_us));
	assert_true(x.open_us >= open_us * (1 - NEAR));
	to->open += open_us < all->step_us * (1 - NEAR);
	to->found++;
}

static void
check_answer(struct search *s, struct drawn *d, void *user)
{
	struct limits *to = user;
	struct search_unfit unfit;
	struct answer all;
	struct trial x;
	int i;

	if (!open_trial(s, d, &x)) {
		return;
	}
	draw_memory(&x);
	for (i = 0; i < 3; i++) {
		all = try_below(s, d, INFINITY);
		to->n++;
		if (isinf(all.step_us)) {
			break;
		}
		check_limits(s, d, to, &all);
		/* its arena lacks memory */
		unfit = (struct search_unfit){
			all.best.plan, all.best.fullest,
			(double)all.best.capacity * .01 * draw(3) + 1
		};
		VEC_PUSH(&s->space.keep, &s->unfit, unfit);
		to->unfit++;
	}
	memset(&s->unfit, 0, sizeof s->unfit);
}

static void
test_limits(void **state)
{
	int64_t n = env("SEARCH_BOUNDS", 12), i;
	struct limits to = { 0 };

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		each_plan(check_answer, &to, 3, draw(3) ? 5 : 12);
	}
	print_message("of %d plans %d are found, %d leave a bound\n", to.n,
		      to.found, to.open);
	assert_true(to.found > n && to.open > 0);
}

/*
 * Where arenas leave none of the evenest ways, the others have no bound by
 * these: a plan whose ranks took some roughly was left out so.
 */
static void
test_evenest(void **state)
{
	struct limits to = { 0 };
	uint64_t was = seed;

	(void)state;
	seed = 402;
	drawn = 0;
	each_plan(check_answer, &to, 3, draw(3) ? 5 : 12);
	seed = was;
	assert_int_equal(to.found, 6);
}

/*
 * Programs of a plan may take more than its pieces.  Then the limit is theirs,
 * or plans between the two would be left out.
 */
static void
check_settled(struct search *s, struct drawn *d, void *user)
{
	struct answer all;
	int *n = user;

	all = try_below(s, d, INFINITY);
	if (isinf(all.step_us)) {
		return;
	}
	all.best.step_us *= 1.01;
	VEC_PUSH(&s->space.keep, &s->settled, all.best);
	assert_true(try_below(s, d, all.best.step_us).step_us ==
		    all.best.step_us);
	assert_true(s->worst_us >= all.best.step_us);
	memset(&s->settled, 0, sizeof s->settled);
	++*n;
}

static void
test_settled(void **state)
{
	int n = 0, i;

	(void)state;
	for (i = 0; i < 4; i++) {
		each_plan(check_settled, &n, 2, 4);
	}
	assert_true(n > 2);
}

/* ---- what is kept ---- */

/*
 * Ways of stages whose slots and times are alike, and that differ in what else
 * they keep: its bytes decide what fits.
 */
static void
draw_ways(struct trial_rank *f)
{
	uint32_t n = f->x->ways_of->at.n, i, w, k;
	double most = 0, bytes;

	for (i = 0; i < f->n; i++) {
		struct trial_ways *to = &f->ways[f->x->like[f->of[i]]];

		to->other = (struct piece_bytes){ .temp = 0 };
		for (w = 0; w < n; w++) {
			struct piece_bytes *b = &to->keeps[w];

			memset(b, 0, sizeof *b);
			to->us[w] = 10.0 * w;
			b->slot[MEMORY_TO_INPUT] = 1000 - 30.0 * w;
			for (k = 0; k < 2; k++) {
				b->sends[k] = 500.0 * draw(4);
			}
			b->top[MEMORY_TO_INPUT] = 100.0 * draw(4);
		}
	}
	for (i = 0; i < f->n; i++) {
		f->keeps[i] = trial_ways_of(f, f->of[i])->keeps[0];
	}
	for (i = 0; i < 6; i++) {
		for (k = 0; k < f->n; k++) {
			f->keeps[k] = trial_ways_of(f, f->of[k])
				->keeps[draw(n)];
		}
		bytes = trial_moving_bytes(f->x, f->rank, f->keeps);
		most = i ? fmin(most, bytes) : bytes;
	}
	f->free_bytes = 1000 * floor(most / 1000);
}

/* What is chosen, with all that a caller is told of it. */
struct said {
	bool ok, none;
	uint32_t choice[64];
	double left_us, taken;
};

static struct said
choose_with(struct trial_rank *f, struct memo *memo)
{
	struct said to;
	uint32_t i;

	memset(&to, 0, sizeof to);
	f->x->s->memo = memo;
	f->none = false;
	f->taken = -1;
	to.ok = trial_choose(f, f->free_bytes);
	for (i = 0; to.ok && i < f->n; i++) {
		to.choice[i] = f->x->choice[f->of[i]];
	}
	to.none = f->none;
	to.left_us = f->left_us;
	to.taken = f->taken;
	return to;
}

static void
check_kept(struct search *s, struct drawn *d, void *user)
{
	struct memo *memo = s->memo;
	struct trial x;
	uint32_t i;
	int *n = user;

	if (!open_trial(s, d, &x)) {
		return;
	}
	for (i = 0; i < 40; i++) {
		struct trial_rank f = open_rank(&x, i % (uint32_t)d->g.pp);
		struct said own, kept;
		uint32_t k;

		for (k = 0; k < f.n; k++) {
			trial_ways_of(&f, f.of[k]);
		}
		draw_ways(&f);
		own = choose_with(&f, NULL);
		kept = choose_with(&f, memo);
		assert_memory_equal(&own, &kept, sizeof own);
		*n += own.ok;
	}
}

static void
test_kept(void **state)
{
	int64_t n = env("SEARCH_BOUNDS", 12), i;
	int ok = 0;

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		each_plan(check_kept, &ok, 3, 4);
	}
	print_message("%d choices\n", ok);
	assert_true(ok > 10 * n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_ways),
		cmocka_unit_test(test_grouped),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_evenest),
		cmocka_unit_test(test_settled),
		cmocka_unit_test(test_kept)
	};

	seed = (uint64_t)env("SEARCH_SEED", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Memory of plans: of drawn models, clusters with pipelines, plans and ways to
 * recompute, no arena of rank programs is smaller than the bounds by which the
 * search leaves plans out: of these ways, and of any.  And in the bytes that
 * drawn ways keep, the search chooses none that take more, and knows what those
 * take that it passes over.
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

/* How near bounds come to arenas: the sum of their ratios. */
struct nearness {
	/* any: with any ways; kept: by the program as pinned alone */
	double ratios, any, kept;
	int n, several;		/* ranks; of these, with several stages */
	int above;
	int slower, quicker;	/* ways that are chosen: see check_quickest */
	int refused, forgotten;	/* choices: see check_left */
};

/*
 * All choices of one or two stages are found, each once and in the order of
 * their time.
 */
static void
check_turns(struct trial *x, uint32_t rank)
{
	struct trial_rank f = open_rank(x, rank);
	uint32_t turns = 0, nways = x->ways_of->at.n;
	uint32_t *was = arena_dup(&x->s->space.tmp, x->choice,
				  x->nstages * sizeof *was);
	double us = -INFINITY;

	for (; f.seen && trial_choose(&f, 1e15); turns++) {
		assert_true(trial_chosen_us(&f) >= us);
		us = trial_chosen_us(&f);
	}
	assert_int_equal(turns, f.n > TUPLES_STAGES ? 0
			 : f.n > 1 ? nways * nways : nways);
	memcpy(x->choice, was, x->nstages * sizeof *was);
}

/*
 * In the bytes that drawn ways keep, none are chosen that take more, but for
 * what is said to be left.
 */
static void
check_quickest(struct trial *x, uint32_t rank, struct nearness *near)
{
	struct trial_rank f = open_rank(x, rank);
	uint32_t *was = arena_dup(&x->s->space.tmp, x->choice,
				  x->nstages * sizeof *was);
	double bytes = trial_chosen_bytes(&f, false);
	double us = trial_chosen_us(&f);

	if (trial_choose(&f, bytes)) {
		near->slower += trial_chosen_us(&f) - f.left_us >
				us + 1e-9 * fabs(us);
		near->quicker += trial_chosen_us(&f) < us;
	} else {
		near->slower++;
	}
	memcpy(x->choice, was, x->nstages * sizeof *was);
}

/* The rank that has most, with the present choices, and its bytes. */
static uint32_t
fullest_of(struct trial *x, double *bytes)
{
	uint32_t pp = (uint32_t)x->t->g->pp, fullest = 0, i;

	for (i = 0, *bytes = 0; i < pp; i++) {
		struct trial_rank f = open_rank(x, i);
		double is = x->fixed[i] + trial_chosen_bytes(&f, false);

		fullest = is > *bytes ? i : fullest;
		*bytes = fmax(*bytes, is);
	}
	return fullest;
}

/*
 * What ways of several stages that are passed over may take less is known to
 * the end: where arenas of those that were chosen lack memory, what all take at
 * least rises no more.  A guess takes choices that are met on the way, and so
 * passes over most.
 */
static void
check_left(struct trial *x, struct nearness *near)
{
	struct search *s = x->s;
	struct search_unfit unfit = { .lacks = 1 };
	struct target_device *d;
	struct target_group *on;
	const struct piece_choices *ways = x->ways_of;
	struct trial_fit fit;
	double bytes, least_us = INFINITY, us;
	uint32_t i;

	x->ways_of = NULL;	/* what all ways take at least */
	trial_set_chosen(x, false);
	assert_true(trial_bound(x));
	x->ways_of = ways;
	unfit.rank = fullest_of(x, &bytes);
	on = (struct target_group *)s->space.devs.at[x->dev[unfit.rank]];
	d = &on->device;
	d->memory_bytes += bytes - target_free_bytes(on) + 1;
	s->guessing = true;
	for (i = 0; i < 4 && x->t->chunks > TUPLES_STAGES &&
	     trial_fits(x, &fit) == TRIAL_FITS; i++) {
		struct trial_rank f = open_rank(x, unfit.rank);

		us = trial_chosen_us(&f) - x->left[unfit.rank];
		near->forgotten += us > least_us + 1e-9 * fabs(least_us);
		near->refused += i > 0;
		least_us = fmin(least_us, us);
		trial_plan(x, &unfit.plan);
		VEC_PUSH(&s->space.tmp, &s->unfit, unfit);
	}
	memset(&s->unfit, 0, sizeof s->unfit);
	s->guessing = false;
}

/* What a rank has at least with any ways; `made`: by the programs of all. */
static double
least_of_any(struct trial *x, uint32_t rank, bool made)
{
	struct trial_rank f = open_rank(x, rank);
	uint32_t *was = arena_dup(&x->s->space.tmp, x->choice,
				  x->nstages * sizeof *was);
	double least;

	least = trial_least_bytes(&f, made ? TRIAL_MADE : TRIAL_SURE);
	memcpy(x->choice, was, x->nstages * sizeof *was);
	return x->fixed[rank] + least;
}

static void
check_ranks(struct trial *x, const struct memory *mem, const struct plan *p,
	    struct nearness *near)
{
	uint32_t n = (uint32_t)x->t->chunks, i, k;
	struct piece_bytes *b = arena_alloc(&x->s->space.tmp, n * sizeof *b);
	struct piece_kept kept;

	piece_find_kept(&x->s->pieces, &x->key, x->t, &kept);
	for (i = 0; i < mem->nranks; i++) {
		double is = (double)mem->rank[i].total, least, sure, made;
		double keeps = trial_kept_bytes(x, i, &kept);

		check_turns(x, i);
		check_quickest(x, i, near);
		for (k = 0; k < n; k++) {
			trial_stage_bytes(x, x->stages[i * n + k], &b[k]);
		}
		least = x->fixed[i] + trial_rank_bytes(x, i, b);
		near->ratios += least / is;
		near->n++;
		near->several += n > 1;
		sure = least_of_any(x, i, false);
		made = n > 1 || x->ways_of->at.n < 9
			? least_of_any(x, i, true) : sure;
		near->any += made / is;
		near->kept += keeps / is;
		near->above += least > is || sure > made || made > least ||
			       keeps > least;
		if (least > is || sure > made || made > least ||
		    keeps > least) {
			print_message("seed %d, rank %d of pp=%d, tp=%d, dp=%d,"
				" ep=%d, cp=%d, %s, zero=%d, microbatch=%d,"
				" offload %d: %.0f, with any ways %.0f, "
				"%.0f and %.0f, of %.0f\n", (int)seed,
				(int)i, (int)p->pp, (int)p->tp, (int)p->dp,
				(int)p->ep, (int)p->cp, p->schedule, p->zero,
				(int)p->microbatch, (int)p->offload, least,
				keeps, sure, made, is);
		}
	}
}

static void
check_plan(struct trial_stand *st, struct drawn *d, struct nearness *near)
{
	struct search *s = &st->s;
	struct trial x = trial_begin(s, &d->t);
	struct ir_module *m;
	struct plan p;
	struct ir_ctx c;
	struct sched *sched;
	struct memory mem;
	struct ranks r;
	const char *why = "";
	uint32_t i;

	d->key.solo = x.key.solo;
	x.key = d->key;
	x.p.offload = x.key.offload;
	x.cost = piece_cost_of(&s->pieces, &x.key, x.t);
	if (!x.cost) {
		return;
	}
	draw_layers(&x);
	x.ways_of = piece_choices_of(&s->pieces, &x.key, x.t);
	assert_non_null(x.ways_of);
	for (i = 0; i < x.nstages; i++) {
		x.choice[i] = draw(x.ways_of->at.n);
		if (i && draw(3)) {
			x.choice[i] = x.choice[i - 1];
		}
	}
	trial_set_fixed(&x);
	space_count_slots(&s->space, x.t);
	trial_set_plain(&x);
	trial_plan(&x, &p);
	ir_ctx_child(&c, &st->c);
	m = ir_copy(s->space.m, &c);
	plan_write(m, &p);
	if (pass_apply_for(m, "optimize,cse,dce,place,recompute,stage,chunk",
			   &st->t, true, &st->memo, false) == PASS_OK) {
		sched = ranks_schedule(m, &st->memo, &c.perm);
		assert_non_null(sched);
		assert_true(ranks_open(&r, m, sched, &st->memo, &why));
		assert_true(memory_plan(&r, NULL, 0, &c.perm, &mem, &why));
		check_ranks(&x, &mem, &p, near);
		check_left(&x, near);
	}
	ir_ctx_release(&c);
	arena_release(&s->space.tmp);
}

static void
check_drawn(const char *model, bool moe, struct nearness *near)
{
	static const char *const clusters[] = { "h100x8x8", "rtx4090x8x4",
						"a100x8x8" };
	struct trial_stand x;
	struct drawn d;
	int i;

	open_search(&x, model, clusters[draw(3)]);
	for (i = 0; i < 12; i++) {
		if (draw_pipeline(&x.s.space, moe, &d)) {
			check_plan(&x, &d, near);
		}
	}
	close_search(&x);
}

static void
test_arenas(void **state)
{
	int64_t n = env("SEARCH_BOUNDS", 40) / 4, i;
	struct nearness near = { 0 };
	char text[4096];

	(void)state;
	for (i = 0; i < n; i++, seed++) {
		drawn = 0;
		snprintf(text, sizeof text, dense, 32, 3 + draw(8));
		check_drawn(text, false, &near);
		snprintf(text, sizeof text, heavy, 32, 3 + draw(8));
		check_drawn(text, false, &near);
		snprintf(text, sizeof text, experts, 32, 2 + draw(5));
		check_drawn(text, true, &near);
		check_drawn(tied, false, &near);
	}
	print_message("%d ranks, %d with several stages: bounds are %.4f of "
		      "arenas, with any ways %.4f, before these are made "
		      "%.4f, %d above\n", near.n, near.several,
		      near.ratios / near.n, near.any / near.n,
		      near.kept / near.n, near.above);
	assert_true(near.several > 5 * n && near.n > 2 * near.several);
	print_message("chosen ways: %d quicker than drawn ones, %d slower\n",
		      near.quicker, near.slower);
	print_message("choices refused: %d, bounds forgotten %d\n",
		      near.refused, near.forgotten);
	assert_true(near.refused > n / 4 || n < 10);
	assert_int_equal(near.forgotten, 0);
	assert_int_equal(near.above, 0);
	assert_int_equal(near.slower, 0);
	assert_true(near.quicker > near.n / 4);
	assert_true(near.ratios > 0.99 * near.n);
	assert_true(near.kept > 0.3 * near.n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arenas)
	};

	seed = (uint64_t)env("SEARCH_SEED", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Tries one plan with one sharding: chooses layers by stage and what these
 * recompute, and finds whether the plan fits and how long its step is.  Bounds
 * come first: the schedule is run only if the plan may still win by them.
 */
#include "passes/trial/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the best so far ---- */

static void
keep_priced(struct trial *x, const struct trial_fit *f)
{
	const struct space_plan *t = x->t;
	const struct space_degrees *g = t->g;
	struct search_priced e = {
		g->tp, g->cp, g->ep, g->pp, g->dp, t->microbatch,
		t->nmicrobatches, t->chunks, t->sched->name, x->key.zero,
		x->key.sequence, x->key.offload, trial_is_tight(x),
		x->p.step_us, (int64_t)f->most
	};

	if (x->s->o->keeps_priced && !x->s->guessing) {
		VEC_PUSH(x->s->a, &x->s->out->all, e);
	}
}

/*
 * With `distinct`, whether a plan that is found and like e is at least as
 * good; else that plan is removed.
 */
static bool
is_hidden(struct trial *x, const struct search_found *e)
{
	struct search_report *out = x->s->out;
	uint32_t i, k;

	for (i = 0; i < out->found.n; i++) {
		if (!search_is_alike(&out->found.at[i].plan, &e->plan)) {
			continue;
		}
		if (out->found.at[i].step_us <= e->step_us) {
			return true;
		}
		for (k = i + 1; k < out->found.n; k++) {
			out->found.at[k - 1] = out->found.at[k];
		}
		out->found.n--;
		return false;
	}
	return false;
}

/*
 * Keeps a plan if it is below the plans found.  The step of one whose programs
 * were made is theirs: a composed price that was too low would leave out plans
 * between the two, and hide others of its kind.
 */
static void
take(struct trial *x, const struct trial_fit *f)
{
	const struct search_found *made;
	struct search_report *out = x->s->out;
	uint32_t top = search_nkept(x->s), i;
	struct search_found e = {
		.step_us = x->p.step_us, .bytes = (int64_t)f->most,
		.capacity = (int64_t)(f->most - f->over), .fullest = f->fullest
	};

	keep_priced(x, f);
	trial_note_close(x, x->p.step_us);
	if (e.step_us * (1 - PIECE_NEAR) >= x->s->worst_us) {
		return;
	}
	trial_plan(x, &e.plan);
	made = search_settled(x->s, &e.plan);
	e.step_us = made ? made->step_us : e.step_us;
	/* the limit may be its own step: then it is found again */
	if (e.step_us > x->s->worst_us ||
	    (!made && e.step_us >= x->s->worst_us) ||
	    (x->s->o->distinct && is_hidden(x, &e))) {
		return;
	}
	if (out->found.n < top) {	/* else e replaces the last one */
		VEC_PUSH(x->s->a, &out->found, e);
	}
	for (i = out->found.n - 1; i > 0 &&
	     out->found.at[i - 1].step_us > e.step_us; i--) {
		out->found.at[i] = out->found.at[i - 1];
	}
	out->found.at[i] = e;
	search_set_worst(x->s);
}

/* ---- bounds ---- */

/* Whether its bound is above the plans found, with its present choices. */
static bool
is_cut(struct trial *x)
{
	trial_set_chosen(x, true);
	return !trial_bound(x) || trial_is_above(x, false) ||
	       trial_is_above(x, true);
}

/*
 * Whether the plan's bound is too high whatever it recomputes: its update is
 * the same with all ways, so it counts before any of these is priced.  The
 * first walk cuts nothing for good, and only wants a quick plan: there it may
 * take what the program takes that recomputes nothing.
 */
static bool
is_plain_cut(struct trial *x)
{
	x->ways_of = x->known = NULL;
	x->left_us = x->any_us = 0;
	memset(x->left, 0, (size_t)x->t->g->pp * sizeof *x->left);
	memset(x->choice, 0, x->nstages * sizeof *x->choice);
	memset(x->quickest, 0, x->nstages * sizeof *x->quickest);
	memset(x->sure, 0, x->nstages * sizeof *x->sure);
	trial_set_chosen(x, x->s->guessing ||
			    x->s->space.pinned[SPACE_PIN_RECOMPUTE]);
	return !trial_bound(x) || trial_is_above(x, false) ||
	       (isfinite(x->s->worst_us) && trial_is_above(x, true));
}

/*
 * The same where the placement's ways are known: with each of them maps take
 * time, too.
 */
static bool
is_known_cut(struct trial *x, const struct piece_choices *ways)
{
	x->known = ways;
	if (x->chosen[0]) {
		return false;
	}
	if (!trial_bound(x) || trial_is_above(x, isfinite(x->s->worst_us))) {
		return true;
	}
	x->any_us = x->bound_us;
	return false;
}

/* The best choices of a trial so far. */
struct chosen {
	double step_us;		/* INFINITY: none was priced */
	uint32_t *choice;	/* by stage */
	struct trial_fit fit;
};

/*
 * Of ranks that share a host others may have more of it, and the plan may be
 * quicker then: what it takes at least with any ways is no part of the gap
 * either.
 */
static void
note_shares(struct trial *x)
{
	bool shared = false;
	uint32_t i;

	for (i = 0; i < x->t->g->pp; i++) {
		shared |= x->shared[i];
	}
	if (shared && trial_is_tight(x) && !x->s->guessing) {
		x->s->out->ways_us = fmin(x->s->out->ways_us, x->any_us);
	}
}

/*
 * Ranks may wait less for stages that take other ways than the chosen ones,
 * which are the least in sum: what a plan with any of these takes at least is
 * no part of the gap.
 */
static void
note_others(struct trial *x)
{
	if (x->t->chunks > 1 && trial_is_tight(x) && !x->s->guessing &&
	    trial_bound(x)) {
		trial_step_us(x);
		x->s->out->ways_us = fmin(x->s->out->ways_us,
					  trial_others_us(x));
	}
}

/* Prices the plan with ways with which it fits, and keeps the best. */
static enum trial_outcome
price_choices(struct trial *x, struct chosen *best)
{
	struct trial_fit f;
	enum trial_verdict has = trial_fits(x, &f);

	if (has > TRIAL_CUT) {
		return OUTCOME_FULL;
	}
	if (has == TRIAL_CUT || is_cut(x) || !trial_run(x)) {
		x->s->out->cut += has != TRIAL_CUT;
		note_others(x);
		note_shares(x);
		return has == TRIAL_CUT || trial_is_tight(x)
			? OUTCOME_CUT_TIGHT : OUTCOME_CUT;
	}
	if (x->p.step_us < best->step_us) {
		best->step_us = x->p.step_us;
		best->fit = f;
		memcpy(best->choice, x->choice,
		       x->nstages * sizeof *best->choice);
	}
	return trial_is_tight(x) ? OUTCOME_TIGHT : OUTCOME_FITS;
}

/*
 * Tries the plan with the choice of how its stages recompute.  Where stages of
 * a rank take different ways, ranks wait for the slowest of them.  So tries
 * both ends of the front of a rank's sum and its slowest stage: the second only
 * if a plan with its sum may be better.
 */
static enum trial_outcome
with_choices(struct trial *x)
{
	struct chosen best = { .step_us = INFINITY };
	enum trial_outcome outcome;
	double least_us;

	best.choice = arena_alloc(&x->s->space.tmp,
				  x->nstages * sizeof *best.choice);
	outcome = price_choices(x, &best);
	if (!isfinite(best.step_us)) {
		return outcome;
	}
	least_us = best.step_us - x->left_us;
	note_others(x);
	note_shares(x);
	if (x->t->chunks > 1 && trial_is_tight(x) && !x->s->guessing) {
		x->evenly = true;
		price_choices(x, &best);
		x->evenly = false;
	}
	trial_least(x, least_us);
	if (least_us < x->s->worst_us && !x->s->guessing &&
	    least_us < best.step_us) {
		x->s->open_us = fmin(x->s->open_us, least_us);
	}
	x->p.step_us = best.step_us;
	memcpy(x->choice, best.choice, x->nstages * sizeof *x->choice);
	take(x, &best.fit);
	return trial_is_tight(x) ? OUTCOME_TIGHT : OUTCOME_FITS;
}

/*
 * Tries the plan with its ZeRO and its layers by stage.  The first walk takes
 * what recomputing adds from the programs for one sequence; the second makes
 * the plan's own.
 */
static enum trial_outcome
with_layers(struct trial *x)
{
	const struct piece_choices *ways;
	enum trial_verdict has;

	x->s->out->priced++;
	if (is_plain_cut(x)) {
		x->s->out->cut++;
		return OUTCOME_CUT;
	}
	if (trial_is_surely_full(x)) {
		x->s->out->full++;
		return OUTCOME_FULL;
	}
	ways = piece_choices_of(&x->s->pieces, &x->key, x->t);
	if (!ways) {
		return OUTCOME_NONE;
	}
	if (ways->leaves && !x->s->guessing) {
		x->s->out->unmade_us = fmin(x->s->out->unmade_us,
					    trial_step_us(x));
	}
	if (is_known_cut(x, ways)) {
		x->s->out->cut++;
		return OUTCOME_CUT;
	}
	x->ways_of = ways;
	has = trial_may_fit(x);
	if (has != TRIAL_FITS) {
		*(has == TRIAL_CUT ? &x->s->out->cut : &x->s->out->full) += 1;
		return has == TRIAL_CUT ? OUTCOME_CUT_TIGHT : OUTCOME_FULL;
	}
	return trial_cost(x, 0) ? with_choices(x) : OUTCOME_NONE;
}

/* Sets layers that are `part` of `of` steps on the way from `from` to `to`. */
static void
mix_layers(uint32_t n, const int64_t *from, const int64_t *to, int64_t part,
	   int64_t of, int64_t *layers)
{
	int64_t a = 0, b = 0, last = 0, at;
	uint32_t i;

	for (i = 0; i < n; i++) {
		a += from[i];
		b += to[i];
		at = (a * (of - part) + b * part + of / 2) / of;
		layers[i] = at - last;
		last = at;
	}
}

/*
 * The quickest layers by stage may give quick devices more than they can hold.
 * Bisects between these and even ones, for the nearest to the quickest that
 * fits without recomputing.
 */
static void
with_fewer(struct trial *x, const int64_t *even, const int64_t *quick)
{
	int64_t lo = 0, hi = 0, a = 0, b = 0, steps;
	uint32_t i;

	for (i = 0; i < x->nstages; i++) {
		a += even[i];
		b += quick[i];
		hi = llabs(a - b) > hi ? llabs(a - b) : hi;
	}
	for (steps = hi; hi - lo > 1;) {
		int64_t *layers = arena_alloc(&x->s->space.tmp, x->nstages *
					      sizeof *layers);
		int64_t mid = (lo + hi) / 2;
		enum trial_outcome outcome;

		mix_layers(x->nstages, even, quick, mid, steps, layers);
		trial_set_layers(x, layers);
		outcome = with_layers(x);
		if (outcome == OUTCOME_CUT || outcome == OUTCOME_FITS) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
}

/* Tries even layers by stage, and those with the quickest slowest stage. */
static enum trial_outcome
with_spreads(struct trial *x)
{
	struct search *s = x->s;
	int64_t *even = arena_alloc(&s->space.tmp, x->nstages * sizeof *even);
	size_t bytes = x->nstages * sizeof *even;
	enum trial_outcome outcome, other;

	plan_spread(s->space.nlayers, x->nstages, even);
	trial_set_layers(x, s->space.pinned[SPACE_PIN_STAGES] &&
			    s->space.base.nstages == x->nstages
			 ? s->space.base.layers : even);
	outcome = with_layers(x);
	if ((x->t->chunks == 1 || s->space.devs.n > 1) && x->nstages > 1 &&
	    !s->space.even && !s->space.pinned[SPACE_PIN_STAGES]) {
		int64_t *layers = arena_alloc(&s->space.tmp, bytes);

		piece_balance(&s->space, x->cost, x->nstages, x->dev_of,
			      layers);
		trial_set_layers(x, layers);
		if (memcmp(layers, even, bytes) != 0) {
			other = with_layers(x);
			outcome = other > outcome ? other : outcome;
			if (s->space.devs.n > 1 && other > OUTCOME_FITS) {
				with_fewer(x, even, layers);
			}
		}
	}
	return outcome;
}

static void
set_sharding(struct trial *x, struct piece_cost *cost)
{
	x->update = NULL;
	x->made = NULL;
	x->ways_of = x->known = NULL;
	memset(&x->p, 0, sizeof x->p);
	x->p.offload = x->key.offload;
	x->cost = cost;
}

enum trial_outcome
trial_sharding(struct trial *x)
{
	set_sharding(x, piece_cost_of(&x->s->pieces, &x->key, x->t));
	return x->cost ? with_spreads(x) : OUTCOME_NONE;
}

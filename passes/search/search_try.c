/*
 * Tries one plan with one sharding: chooses layers by stage and what these
 * recompute, and finds whether the plan fits and how long its step is.  Bounds
 * come first: the schedule is run only if the plan may still win by them.
 */
#include "passes/search/search_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * The programs of a plan are not made if its step is guessed to be longer than
 * the best by this factor.
 */
#define NO_MORE 1.02

/* ---- layers by stage ---- */

static void
set_layers(struct trial *x, int64_t *layers)
{
	uint32_t i;

	x->layers = layers;
	for (i = 1; i < x->nstages; i++) {
		x->first[i] = x->first[i - 1] + layers[i - 1];
	}
}

/* ---- the best so far ---- */

static void
take(struct trial *x, const struct trial_fit *f)
{
	struct search_report *out = x->s->out;
	uint32_t top = search_nkept(x->s), i;
	struct search_found e = {
		.step_us = x->p.step_us, .bytes = (int64_t)f->most,
		.capacity = (int64_t)(f->most - f->over), .fullest = f->fullest
	};

	if (e.step_us >= x->s->worst_us) {
		return;
	}
	trial_plan(x, &e.plan);
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

/* ---- the microbatch that a sharding is placed for ---- */

struct search_best *
trial_best(const struct trial *x)
{
	uint32_t i;

	for (i = 0; i < x->s->bests.n; i++) {
		if (search_same_sharding(&x->s->bests.at[i].key, &x->key)) {
			return &x->s->bests.at[i];
		}
	}
	return NULL;
}

/*
 * Factor that makes a step a lower bound.  In the first walk, the sharding may
 * later be placed for this microbatch, and then take less.
 */
static double
own(const struct trial *x)
{
	const struct search_key *key = x->proxy ? &x->proxy->key : &x->key;

	return (x->s->guessing || x->proxy) &&
	       search_placed_for(x->s, key) != x->t->microbatch
		? SEARCH_OWN : 1;
}

static void
note_best(struct trial *x)
{
	struct search_best *b = trial_best(x);
	struct search_best e = { x->key, x->t->microbatch, x->p.step_us };

	if (!x->s->guessing) {
		return;
	}
	if (!b) {
		VEC_PUSH(&x->s->keep, &x->s->bests, e);
	} else if (e.us < b->us) {
		*b = e;
	}
}

/* ---- bounds ---- */

void
trial_least(struct trial *x, double us)
{
	x->least_us = fmin(x->least_us, us);
}

/* Factor that makes a composed time a lower bound. */
static double
least_share_of(const struct trial *x)
{
	return own(x) / (x->state == TRIAL_MADE || x->proxy ? 1 : NO_MORE);
}

/*
 * Whether the plan's lower bound is above the plans found.  beside_us: what the
 * step takes beside its pipeline.
 */
static bool
is_above(struct trial *x, double beside_us)
{
	double us = (x->bound_us + beside_us) * least_share_of(x);

	if (us < x->s->worst_us) {
		return false;
	}
	x->pipe_us = fmin(x->pipe_us, x->bound_us);
	trial_least(x, us);
	return true;
}

/* The same by its pipeline; for a proxy, with exchange among data ranks. */
static bool
is_pipe_above(struct trial *x)
{
	return is_above(x, !x->proxy ? 0
			: search_data_us(x->s, &x->key, x->t,
					 search_has_exchange(&x->proxy->key),
					 x->bound_us));
}

static bool
is_cut(struct trial *x)
{
	if (!trial_compose(x)) {
		return true;
	}
	x->bound_us = trial_bound_us(x);
	return is_pipe_above(x);
}

/* Rounded down: a composed sum in another order must not be less. */
bool
trial_is_busy(struct trial *x, uint32_t rank)
{
	x->bound_us = (x->plain_us[rank] + trial_rebuild_us(x, rank)) *
		      (1 - SEARCH_NEAR);
	return is_pipe_above(x);
}

bool
trial_is_cut(struct trial *x)
{
	if (is_cut(x)) {
		return true;
	}
	trial_compose_update(x);
	return is_above(x, trial_update_us(x) * (1 - SEARCH_NEAR));
}

/*
 * Whether to run the schedule.  The first walk only needs about how long the
 * best step is, and the best microbatch of each sharding that may be among the
 * best if it is placed for that microbatch.
 */
static bool
is_asked_now(struct trial *x, double us)
{
	const struct search_best *b = trial_best(x);

	if (!x->s->guessing || us < x->s->worst_us ||
	    (us * SEARCH_OWN < x->s->worst_us && (!b || us < b->us))) {
		return true;
	}
	x->pipe_us = fmin(x->pipe_us, x->bound_us);
	trial_least(x, us * least_share_of(x));
	return false;
}

/*
 * Runs the schedule if the plan may still win with its update; false if it was
 * not run, or stalls.  The update is priced last, since few shardings get so
 * far.  It rules out no other ZeRO, which may hide beside kernels exchange that
 * the update waits for.  A plan that fits without recomputing is run anyway:
 * its pipeline shows whether ZeRO 0 may be better.
 */
static bool
is_run(struct trial *x, enum trial_outcome outcome)
{
	double update_us;

	trial_compose_update(x);
	update_us = trial_update_us(x) * (1 - SEARCH_NEAR);
	return (outcome == OUTCOME_FITS ||
		(!is_above(x, update_us) &&
		 is_asked_now(x, x->bound_us + update_us))) &&
	       trial_run(x);
}

/* Whether the plan's bound is too high even without recomputing. */
static bool
is_plain_cut(struct trial *x)
{
	uint32_t *choice = x->choice;
	bool cut;

	x->choice = arena_alloc(&x->s->tmp, x->nstages * sizeof *choice);
	cut = is_cut(x);
	x->choice = choice;
	x->plain_us = x->bounds;
	return cut;
}

/*
 * Where no choice fits by guesses, checks the one that keeps the fewest bytes
 * with its programs.
 */
static enum trial_verdict
fits_after_all(struct trial *x, struct trial_fit *f)
{
	x->state = TRIAL_GUESSED;
	return trial_fits(x, f);
}

/* The outcome of a plan once its programs are made. */
static enum trial_outcome
as_made(struct trial *x, enum trial_outcome outcome, struct trial_fit *f)
{
	enum trial_verdict has;

	x->state = TRIAL_MADE;
	if (outcome == OUTCOME_FITS) {	/* nothing is recomputed */
		return outcome;
	}
	has = trial_fits(x, f);
	if (has > TRIAL_CUT) {
		return OUTCOME_FULL;
	}
	return has == TRIAL_CUT || is_cut(x) ? OUTCOME_CUT_TIGHT : outcome;
}

/*
 * The outcome with the choices of how to recompute.  These are guessed first,
 * since making programs takes longer; in the first walk, only guessed.
 */
static enum trial_outcome
recomputed(struct trial *x, enum trial_verdict has, struct trial_fit *f)
{
	enum trial_outcome outcome = OUTCOME_FITS;
	uint32_t i;

	for (i = 0; i < x->nstages; i++) {
		outcome = x->choice[i] ? OUTCOME_TIGHT : outcome;
	}
	if (outcome == OUTCOME_TIGHT && is_cut(x)) {
		return OUTCOME_CUT_TIGHT;
	}
	has = has == TRIAL_MAY_FIT ? fits_after_all(x, f) : has;
	if (has != TRIAL_FITS) {
		return has == TRIAL_CUT ? OUTCOME_CUT_TIGHT : OUTCOME_FULL;
	}
	if (x->s->guessing) {
		return outcome;
	}
	if (outcome == OUTCOME_TIGHT && !is_run(x, outcome)) {
		return OUTCOME_CUT_TIGHT;
	}
	if (outcome == OUTCOME_TIGHT &&
	    x->p.step_us >= x->s->worst_us * NO_MORE) {
		x->pipe_us = fmin(x->pipe_us, x->p.pipe_us);
		trial_least(x, x->p.step_us / NO_MORE);
		return OUTCOME_CUT_TIGHT;
	}
	return as_made(x, outcome, f);
}

/* Tries the plan with its ZeRO and its layers by stage. */
static enum trial_outcome
with_layers(struct trial *x)
{
	enum trial_verdict has;
	enum trial_outcome outcome;
	struct trial_fit f;

	x->s->out->priced++;
	x->state = TRIAL_MADE;
	if (is_plain_cut(x)) {
		x->s->out->cut++;
		return OUTCOME_CUT;
	}
	x->state = isfinite(x->s->worst_us) ? TRIAL_HOPED : TRIAL_GUESSED;
	has = trial_fits(x, &f);
	if (has > TRIAL_MAY_FIT) {
		return has == TRIAL_CUT ? OUTCOME_CUT_TIGHT : OUTCOME_FULL;
	}
	outcome = recomputed(x, has, &f);
	if ((outcome == OUTCOME_FITS || outcome == OUTCOME_TIGHT) &&
	    is_run(x, outcome)) {
		note_best(x);
		trial_least(x, x->p.step_us *
			      (outcome == OUTCOME_FITS ? own(x)
						       : least_share_of(x)));
		x->pipe_us = fmin(x->pipe_us, x->p.pipe_us);
		take(x, &f);
	}
	return outcome;
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
		int64_t *layers = arena_alloc(&x->s->tmp, x->nstages *
					      sizeof *layers);
		int64_t mid = (lo + hi) / 2;
		enum trial_outcome outcome;

		mix_layers(x->nstages, even, quick, mid, steps, layers);
		set_layers(x, layers);
		outcome = with_layers(x);
		x->may_fit |= outcome != OUTCOME_FULL;
		if (outcome == OUTCOME_CUT || outcome == OUTCOME_FITS) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
}

/*
 * Tries layers by stage with the bounds of a proxy.  OUTCOME_FITS: the plan may
 * win.
 */
static enum trial_outcome
as_proxy(struct trial *x)
{
	enum trial_verdict has;
	struct trial_fit f;

	x->state = TRIAL_MADE;
	memset(x->choice, 0, x->nstages * sizeof *x->choice);
	if (is_plain_cut(x)) {
		return OUTCOME_CUT;
	}
	x->state = TRIAL_GUESSED;
	has = trial_fits(x, &f);
	if (has > TRIAL_CUT) {
		return OUTCOME_FULL;
	}
	if (has == TRIAL_CUT || is_cut(x)) {
		return OUTCOME_CUT_TIGHT;
	}
	x->may_win = true;
	return OUTCOME_FITS;
}

/* Tries even layers by stage, and those with the quickest slowest stage. */
static enum trial_outcome
with_spreads(struct trial *x, enum trial_outcome (*with)(struct trial *x))
{
	struct search *s = x->s;
	int64_t *even = arena_alloc(&s->tmp, x->nstages * sizeof *even);
	size_t bytes = x->nstages * sizeof *even;
	enum trial_outcome outcome, other;

	plan_spread(s->nlayers, x->nstages, even);
	set_layers(x, s->pinned[PIN_STAGES] &&
		   s->base.nstages == x->nstages ? s->base.layers : even);
	outcome = with(x);
	x->may_fit |= outcome != OUTCOME_FULL;
	if ((x->t->chunks == 1 || s->devs.n > 1) && x->nstages > 1 &&
	    !s->even && !s->pinned[PIN_STAGES]) {
		int64_t *layers = arena_alloc(&s->tmp, bytes);

		search_balance(s, x->cost, x->nstages, x->dev_of, layers);
		set_layers(x, layers);
		if (memcmp(layers, even, bytes) != 0) {
			other = with(x);
			x->may_fit |= other != OUTCOME_FULL;
			outcome = other > outcome ? other : outcome;
			if (s->devs.n > 1 && other > OUTCOME_FITS) {
				with_fewer(x, even, layers);
			}
		}
	}
	return outcome;
}

static void
set_sharding(struct trial *x, struct search_cost *cost)
{
	x->update = NULL;
	x->made = NULL;
	x->pipe_us = INFINITY;
	memset(&x->p, 0, sizeof x->p);
	x->cost = cost;
}

enum trial_outcome
trial_sharding(struct trial *x)
{
	set_sharding(x, search_cost_of(x->s, &x->key, x->t));
	return x->cost ? with_spreads(x, with_layers) : OUTCOME_NONE;
}

/* Tries the plan with the bounds of a proxy.  OUTCOME_NONE: it may win. */
static enum trial_outcome
with_proxy(struct trial *x, struct search_proxy *proxy)
{
	enum trial_outcome outcome;

	set_sharding(x, proxy->cost);
	x->update = proxy->update;
	x->proxy = proxy;
	x->may_win = false;
	outcome = with_spreads(x, as_proxy);
	x->proxy = NULL;
	set_sharding(x, NULL);
	return x->may_win ? OUTCOME_NONE : outcome;
}

enum trial_outcome
trial_proxy(struct trial *x)
{
	struct search_proxy proxy;
	enum trial_outcome outcome;

	if (trial_is_asked(x) ||
	    !search_find_proxy(x->s, &x->key, x->t, false, &proxy)) {
		return OUTCOME_NONE;
	}
	outcome = with_proxy(x, &proxy);
	if (outcome == OUTCOME_NONE && !proxy.both &&
	    search_find_proxy(x->s, &x->key, x->t, true, &proxy)) {
		outcome = with_proxy(x, &proxy);
	}
	return outcome;
}

/*
 * Tries one plan with each ZeRO and `sequence`, and with the optimizer's state
 * on the device or the host.  What saves memory but costs time is tried only
 * where memory is short.
 */
#include "passes/search/search_trial.h"

#include <math.h>

/*
 * Allowance: a sharding may gain this much more than others did from a
 * placement for its microbatch.
 */
#define GAIN 0.995

/*
 * The microbatch for which to place the sharding: that of this plan, if this is
 * the sharding's best plan and near the best of all; else 0.
 */
static int64_t
own_microbatch(const struct trial *x)
{
	const struct search_best *b = x->s->guessing ? NULL : trial_best(x);
	int64_t mb = x->t->microbatch;

	return b && b->microbatch == mb &&
	       b->us * SEARCH_OWN < x->s->near_us &&
	       search_placed_for(x->s, &x->key) != mb &&
	       b->us * GAIN * search_gain(x->s, &x->key, mb) < x->s->near_us
		? mb : 0;
}

/* ---- bounds, before anything is placed ---- */

/*
 * Notes a sharding that is left out by a rule, not by a proof: the report
 * counts these.
 */
static void
note_rule(struct trial *x)
{
	struct search *s = x->s;
	uint64_t hash = search_hash_sharding(&x->key);
	uint32_t at = 0;

	while ((at = table_find(&s->ruled_out_table, hash, at)) != 0) {
		if (search_same_sharding(&s->ruled_out.at[at], &x->key)) {
			return;
		}
	}
	at = table_add(&s->keep, &s->ruled_out_table, hash);
	while (s->ruled_out.n <= at) {	/* entry 0 is unused */
		VEC_PUSH(&s->keep, &s->ruled_out, x->key);
	}
}

/*
 * Whether weights, gradients and optimizer state alone exceed the capacity of a
 * mean rank.
 */
static bool
is_too_large(const struct trial *x)
{
	const struct search_group *g = x->t->g;

	return !trial_is_asked(x) &&
	       search_least_bytes(x->s, g, x->key.zero, x->key.offload) >
	       g->capacity;
}

/*
 * Whether the sharding need not be placed: with it, a lower bound of the plan
 * is no less than the plans found.
 */
static bool
is_bound_above(struct trial *x)
{
	struct search *s = x->s;

	if (search_is_above(s, &x->key, x->t, s->worst_us)) {
		return true;
	}
	if (!search_seems_above(s, &x->key, x->t, s->worst_us)) {
		uint64_t learnt = s->learnt;

		search_bound_sharding(s, &x->key, x->t);
		if (s->learnt == learnt ||
		    !search_seems_above(s, &x->key, x->t, s->worst_us)) {
			return false;
		}
	}
	note_rule(x);
	return true;
}

/* ---- results of earlier walks ---- */

static uint32_t
way_of(const struct trial *x, int zero, bool offload)
{
	return (uint32_t)zero | (uint32_t)offload << 2 |
	       (uint32_t)x->key.sequence << 3;
}

static struct search_way *
find_way(const struct trial *x, uint32_t way)
{
	uint32_t at = x->ways ? *x->ways : 0;

	while (at && x->s->ways.at[at].way != way) {
		at = x->s->ways.at[at].next;
	}
	return at ? &x->s->ways.at[at] : NULL;
}

/* Notes a way's outcome, and the lower bound of its step, rounded down. */
static void
note_way(struct trial *x, uint32_t way, enum trial_outcome outcome, double us)
{
	struct search *s = x->s;
	struct search_way *old = find_way(x, way);
	struct search_way w = {
		.us = (float)(us * (1 - SEARCH_NEAR)), .way = (uint8_t)way,
		.outcome = (uint8_t)outcome
	};

	if (!x->ways) {
		return;
	}
	if (old) {
		w.next = old->next;
		*old = w;
		return;
	}
	if (!s->ways.n) {
		VEC_PUSH(&s->keep, &s->ways, w);
	}
	w.next = *x->ways;
	*x->ways = s->ways.n;
	VEC_PUSH(&s->keep, &s->ways, w);
}

static bool
is_way_above(const struct trial *x, uint32_t way)
{
	const struct search_way *w = find_way(x, way);

	return w && w->outcome != OUTCOME_FULL && isfinite(x->s->worst_us) &&
	       w->us >= x->s->worst_us;
}

/*
 * Whether an earlier walk found that the step is too long.  ZeRO 0 is judged by
 * the run of ZeRO 1, so this is run unless both are too long.
 */
static bool
is_seen_above(const struct trial *x, uint32_t way)
{
	return is_way_above(x, way) &&
	       ((way & 3) != 1 || x->s->pinned[PIN_ZERO] ||
		is_way_above(x, way - 1));
}

/* The outcome of such a way: if it fitted then, its bound excludes it now. */
static enum trial_outcome
cut_again(struct trial *x, uint32_t way)
{
	const struct search_way *w = find_way(x, way);

	x->s->out->cut++;
	trial_least(x, w->us);
	return w->outcome == OUTCOME_TIGHT ? OUTCOME_CUT_TIGHT :
	       w->outcome == OUTCOME_FITS  ? OUTCOME_CUT :
					     (enum trial_outcome)w->outcome;
}

/* ---- one sharding ---- */

static enum trial_outcome
try_zero(struct trial *x, int zero, bool offload)
{
	enum trial_outcome outcome;
	bool large;

	x->key.zero = zero;
	x->key.offload = offload;
	x->key.microbatch = own_microbatch(x);
	large = is_too_large(x);
	/* ZeRO 1 is checked if large, too: if above, 2 and 3 are not tried */
	if ((!large || zero == 1) && is_bound_above(x)) {
		trial_least(x, x->s->worst_us);
		x->s->out->cut++;
		return OUTCOME_CUT;
	}
	if (large) {
		x->s->out->full++;
		return OUTCOME_FULL;
	}
	x->looked = true;
	outcome = trial_proxy(x);
	if (outcome != OUTCOME_NONE) {
		x->s->out->cut++;
		note_rule(x);
		return outcome;
	}
	return trial_sharding(x);
}

/* Tries a way, unless it did not fit with a smaller microbatch. */
static enum trial_outcome
with_zero(struct trial *x, int zero, bool offload)
{
	uint32_t way = way_of(x, zero, offload);
	double least_us = x->least_us;
	enum trial_outcome outcome;

	x->cost = NULL;
	x->may_fit = x->looked = false;
	if ((x->full & 1u << way) && !trial_is_asked(x)) {
		x->s->out->full++;
		return OUTCOME_FULL;
	}
	if (is_seen_above(x, way)) {
		return cut_again(x, way);
	}
	x->least_us = INFINITY;
	outcome = try_zero(x, zero, offload);
	if (outcome == OUTCOME_FULL && !x->may_fit) {
		x->full |= 1u << way;
	}
	/* others are quick to bound again */
	if (x->looked || zero == 0) {
		note_way(x, way, outcome, x->least_us);
	}
	trial_least(x, least_us);
	return outcome;
}

/* ---- ZeRO, sequence, offload ---- */

/* Whether each stage may fit if ZeRO splits nothing. */
static bool
whole_fits(struct trial *x)
{
	int64_t lo = 0;
	uint32_t i;

	for (i = 0; i < x->nstages; lo += x->layers[i++]) {
		if (search_whole_bytes(x->s, trial_update(x), lo,
				       lo + x->layers[i]) >
		    search_capacity(x->s, x->dev_of[i])) {
			return false;
		}
	}
	return true;
}

/*
 * Whether ZeRO 0 may be better than 1.  With it stages take the same time,
 * unless `place` decides a tie in another way.  They recompute no less, since
 * less memory is free; and no fewer bytes of weights and gradients are
 * exchanged.  If ZeRO 1 was not placed, its lower bound holds for 0, too.
 */
static bool
may_be_whole(struct trial *x, enum trial_outcome outcome)
{
	const struct search_group *g = x->t->g;
	uint32_t way = way_of(x, 0, x->key.offload);
	int zero = x->key.zero;
	double us;

	if (!x->cost) {
		return outcome != OUTCOME_FULL;
	}
	if (!whole_fits(x) ||
	    !isfinite(x->pipe_us)) {	/* nothing was run */
		note_way(x, way, OUTCOME_CUT, INFINITY);
		return false;
	}
	us = fmax(x->pipe_us - trial_data_us(x), 0) * SEARCH_SAME +
	     g->sum_us + g->gather_us;
	if (us < x->s->worst_us) {
		return true;
	}
	trial_least(x, us);
	note_way(x, way, OUTCOME_CUT, us * SEARCH_OWN);
	x->key.zero = 0;
	note_rule(x);
	x->key.zero = zero;
	return false;
}

/* The ZeRO to begin with: 1 if several ranks hold the same weights. */
static int
mildest(const struct trial *x)
{
	const struct search_group *g = x->t->g;

	return x->s->pinned[PIN_ZERO] ? x->s->base.zero
		: g->dp * g->ep > 1;
}

static int
strictest(const struct trial *x)
{
	const struct search_group *g = x->t->g;

	return x->s->pinned[PIN_ZERO] ? x->s->base.zero
		: g->dp * g->cp * g->ep > 1 ? 3 : 0;
}

/*
 * Whether ZeRO 2 may be quicker than `mild`.  In a step of one microbatch both
 * exchange the same, but ZeRO 2 sums gradients beside backward instead of after
 * it.  So it saves no more than the part of this that backward can hide.
 */
static bool
may_hide(const struct trial *x, int mild, bool offload)
{
	const struct search_way *w = find_way(x, way_of(x, mild, offload));
	double hidden_us = (1 - PRICE_SLOWED) * x->t->g->sum_us;

	return x->t->nmicrobatches == 1 && strictest(x) > mild && w &&
	       w->us - hidden_us < x->s->worst_us;
}

/*
 * Tries each ZeRO, with the optimizer's state on the device or on the host.  A
 * stricter ZeRO is tried only where memory is tight with the mildest, and with
 * the host only where it is tight on the device.  outcome, by ZeRO: that on the
 * device; this call replaces it.
 */
static enum trial_outcome
with_states(struct trial *x, bool offload, enum trial_outcome outcome[4])
{
	int mild = mildest(x), zero;
	enum trial_outcome best;

	best = outcome[mild] = with_zero(x, mild, offload);
	if (mild == 1 && !x->s->pinned[PIN_ZERO] &&
	    may_be_whole(x, outcome[mild])) {
		with_zero(x, 0, offload);
	}
	if (outcome[mild] < OUTCOME_CUT_TIGHT && may_hide(x, mild, offload)) {
		outcome[2] = with_zero(x, 2, offload);
	}
	for (zero = mild + 1; outcome[mild] >= OUTCOME_CUT_TIGHT &&
			      zero <= strictest(x); zero++) {
		if (outcome[zero] >= OUTCOME_CUT_TIGHT) {
			outcome[zero] = with_zero(x, zero, offload);
		}
		best = outcome[zero] < best ? outcome[zero] : best;
	}
	return best;
}

/* Tries all ZeRO and offload.  False: nothing fits. */
static bool
with_all(struct trial *x)
{
	const struct search *s = x->s;
	enum trial_outcome outcome[4] = {
		OUTCOME_FULL, OUTCOME_FULL, OUTCOME_FULL, OUTCOME_FULL
	}, here, there = OUTCOME_FULL;

	if (s->pinned[PIN_OFFLOAD]) {
		return with_states(x, s->base.offload, outcome) != OUTCOME_FULL;
	}
	here = with_states(x, false, outcome);
	if (s->t->device.host_bytes_us > 0 &&
	    outcome[mildest(x)] >= OUTCOME_CUT_TIGHT) {
		there = with_states(x, true, outcome);
	}
	return here != OUTCOME_FULL || there != OUTCOME_FULL;
}

/* ---- plans ---- */

/*
 * Sets the rank and the device group of each stage, as the schedule assigns
 * stages to ranks.
 */
static void
rank_stages(struct trial *x)
{
	uint32_t pp = (uint32_t)x->t->g->pp, chunks = (uint32_t)x->t->chunks;
	struct arena *a = &x->s->tmp;
	uint32_t i;

	x->rank_of = arena_alloc(a, x->nstages * sizeof *x->rank_of);
	x->stages = arena_alloc(a, x->nstages * sizeof *x->stages);
	x->first = arena_alloc(a, x->nstages * sizeof *x->first);
	for (i = 0; i < x->nstages; i++) {
		x->rank_of[i] = x->t->sched->vshape && i / pp % 2
			? pp - 1 - i % pp : i % pp;
		x->stages[x->rank_of[i] * chunks + i / pp] = i;
	}
	x->dev = search_devs_of_ranks(x->s, x->t->g, a);
	x->dev_of = arena_alloc(a, x->nstages * sizeof *x->dev_of);
	for (i = 0; i < x->nstages; i++) {
		x->dev_of[i] = x->dev[x->rank_of[i]];
	}
}

static struct trial
begin(struct search *s, struct search_try *t)
{
	const struct search_group *g = t->g;
	struct trial x = {
		.s = s, .t = t, .nstages = (uint32_t)(g->pp * t->chunks),
		.key = { .tp = g->tp, .cp = g->cp, .ep = g->ep,
			 .data = g->dp > 1, .sequence = s->base.sequence,
			 .split = t->sched->split,
			 .solo = s->nlayers < 3 && g->pp * t->chunks == 1 },
		.least_us = INFINITY
	};

	rank_stages(&x);
	x.choice = arena_alloc(&s->tmp, x.nstages * sizeof *x.choice);
	return x;
}

void
search_try_plan(struct search *s, struct search_try *t,
		struct search_seen *seen)
{
	const struct search_group *g = t->g;
	struct trial x;
	bool fits;

	if (s->pinned[PIN_STAGES] &&
	    s->base.nstages != (uint32_t)(g->pp * t->chunks)) {
		return;
	}
	x = begin(s, t);
	x.full = seen->full;
	x.ways = &seen->ways;
	fits = with_all(&x);
	if (g->tp > 1 && !s->pinned[PIN_SEQUENCE]) {
		x.key.sequence = false;
		fits |= with_all(&x);
	}
	seen->us = x.least_us;
	seen->none = !fits;
	seen->full = (uint16_t)x.full;
}

void
search_retry_plan(struct search *s, const struct plan *p)
{
	struct search_try t = {
		.microbatch = p->microbatch,
		.nmicrobatches = p->nmicrobatches, .chunks = p->interleave,
		.sched = sched_find(p->schedule)
	};
	struct trial x;
	uint32_t i;

	for (i = 0; i < s->groups.n; i++) {
		const struct search_group *g = &s->groups.at[i];

		if (g->tp == p->tp && g->cp == p->cp && g->ep == p->ep &&
		    g->pp == p->pp && g->dp == p->dp) {
			t.g = g;
		}
	}
	x = begin(s, &t);
	x.key.sequence = p->sequence;
	with_zero(&x, p->zero, p->offload);
	arena_release(&s->tmp);
}

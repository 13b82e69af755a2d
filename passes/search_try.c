/*
 * One plan: what is settled last (ZeRO, stages, recomputation), whether it
 * fits, and how long its step is.  Bounds come first: the schedule is run
 * only if the sum of its parts may still win.
 */
#include "passes/search_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A step that is guessed this far above the best is not made. */
#define NO_MORE 1.02

/* ---- its stages ---- */

/* By stage, in the order in which schedules hand them to ranks. */
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
	x->seat = search_seats(x->s, x->t->g, a);
	x->seat_of = arena_alloc(a, x->nstages * sizeof *x->seat_of);
	for (i = 0; i < x->nstages; i++) {
		x->seat_of[i] = x->seat[x->rank_of[i]];
	}
}

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
	uint32_t top = search_top(x->s), i;
	struct search_found e = {
		.step_us = x->p.step_us, .bytes = (int64_t)f->most,
		.room = (int64_t)(f->most - f->over), .fullest = f->fullest
	};

	if (e.step_us >= x->s->worst_us) {
		return;
	}
	trial_plan(x, &e.plan);
	if (out->found.n < top) {	/* else the last one goes */
		VEC_PUSH(x->s->a, &out->found, e);
	}
	for (i = out->found.n - 1; i > 0 &&
	     out->found.at[i - 1].step_us > e.step_us; i--) {
		out->found.at[i] = out->found.at[i - 1];
	}
	out->found.at[i] = e;
	search_set_worst(x->s);
}

/* What became of a plan: the worst of several, in this order. */
enum fate {
	NONE,		/* there is no such placement */
	CUT,		/* its bound is above what was found */
	FITS,
	CUT_TIGHT,	/* the same, by what it has to recompute */
	TIGHT,		/* it fits by recomputing only */
	FULL		/* it does not fit */
};

/* ---- the microbatch that a width is placed for ---- */

static struct search_best *
best_of(const struct trial *x)
{
	uint32_t i;

	for (i = 0; i < x->s->bests.n; i++) {
		if (search_same_width(&x->s->bests.at[i].key, &x->key)) {
			return &x->s->bests.at[i];
		}
	}
	return NULL;
}

/*
 * So much of what it takes, a plan may take at the least if its width is
 * placed for it: the first way through the space is to find that out.
 */
static double
own(const struct trial *x)
{
	const struct search_key *key = x->stand ? &x->stand->key : &x->key;

	return (x->s->guessing || x->stand) &&
	       search_placed_for(x->s, key) != x->t->microbatch
		? SEARCH_OWN : 1;
}

static void
note_best(struct trial *x)
{
	struct search_best *b = best_of(x);
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

/* This one, if it is of the width's best plan, near the best of all; or 0. */
static int64_t
own_microbatch(const struct trial *x)
{
	const struct search_best *b = x->s->guessing ? NULL : best_of(x);

	return b && b->microbatch == x->t->microbatch &&
	       b->us * SEARCH_OWN < x->s->near_us &&
	       search_placed_for(x->s, &x->key) != b->microbatch
		? b->microbatch : 0;
}

/* ---- bounds ---- */

/* What was tried takes no less. */
static void
note_least(struct trial *x, double us)
{
	x->least_us = fmin(x->least_us, us);
}

/* So much of what is composed, it takes at the least. */
static double
sure(const struct trial *x)
{
	return own(x) / (x->state == TRIAL_MADE || x->stand ? 1 : NO_MORE);
}

/* With what it takes beside its pipeline. */
static bool
is_above(struct trial *x, double beside_us)
{
	double us = (x->bound_us + beside_us) * sure(x);

	if (us < x->s->worst_us) {
		return false;
	}
	x->pipe_us = fmin(x->pipe_us, x->bound_us);
	note_least(x, us);
	return true;
}

static bool
is_cut(struct trial *x)
{
	if (!trial_compose(x)) {
		return true;
	}
	x->bound_us = trial_bound_us(x);
	return is_above(x, x->stand ? x->stand->beside_us : 0);
}

bool
trial_is_late(struct trial *x)
{
	if (is_cut(x)) {
		return true;
	}
	trial_compose_update(x);
	return is_above(x, trial_update_us(x) * (1 - SEARCH_NEAR));
}

/*
 * Only what may still win with its update is run.  That is priced last, since
 * few widths get so far; and without it no other ZeRO is ruled out, which
 * may exchange beside its kernels what an update has to wait for.  What fits
 * as it is placed is run anyway: its pipeline says if ZeRO 0 may be better.
 */
static bool
is_run(struct trial *x, enum fate fate)
{
	trial_compose_update(x);
	return (fate == FITS ||
		!is_above(x, trial_update_us(x) * (1 - SEARCH_NEAR))) &&
	       trial_run(x);
}

/* As if nothing were built again. */
static bool
is_plain_cut(struct trial *x)
{
	uint32_t *choice = x->choice;
	bool cut;

	x->choice = arena_alloc(&x->s->tmp, x->nstages * sizeof *choice);
	cut = is_cut(x);
	x->choice = choice;
	return cut;
}

/* What may fit, as it is. */
static bool
fits_after_all(struct trial *x, struct trial_fit *f)
{
	x->state = TRIAL_GUESSED;
	return trial_fits(x, f) == TRIAL_FITS;
}

/* With its programs made. */
static enum fate
as_made(struct trial *x, enum fate fate, struct trial_fit *f)
{
	enum trial_room has;

	x->state = TRIAL_MADE;
	if (fate == FITS) {	/* nothing is rebuilt */
		return fate;
	}
	has = trial_fits(x, f);
	if (has > TRIAL_LATE) {
		return FULL;
	}
	return has == TRIAL_LATE || is_cut(x) ? CUT_TIGHT : fate;
}

/*
 * How it recomputes is guessed first, since making that takes longer; and
 * nothing else, on the first way through the space, which finds out what a
 * step takes about.
 */
static enum fate
recomputed(struct trial *x, enum trial_room has, struct trial_fit *f)
{
	enum fate fate = FITS;
	uint32_t i;

	for (i = 0; i < x->nstages; i++) {
		fate = x->choice[i] ? TIGHT : fate;
	}
	if (fate == TIGHT && is_cut(x)) {
		return CUT_TIGHT;
	}
	if (has == TRIAL_MAY_FIT && !fits_after_all(x, f)) {
		return FULL;
	}
	if (x->s->guessing) {
		return fate;
	}
	if (fate == TIGHT && !is_run(x, fate)) {
		return CUT_TIGHT;
	}
	if (fate == TIGHT && x->p.step_us >= x->s->worst_us * NO_MORE) {
		note_least(x, x->p.step_us / NO_MORE);
		return CUT_TIGHT;
	}
	return as_made(x, fate, f);
}

/* With ZeRO and layers chosen. */
static enum fate
with_layers(struct trial *x)
{
	enum trial_room has;
	enum fate fate;
	struct trial_fit f;

	x->s->out->priced++;
	x->state = TRIAL_MADE;
	if (is_plain_cut(x)) {
		x->s->out->cut++;
		return CUT;
	}
	x->state = isfinite(x->s->worst_us) ? TRIAL_HOPED : TRIAL_GUESSED;
	has = trial_fits(x, &f);
	if (has > TRIAL_MAY_FIT) {
		return FULL;
	}
	fate = recomputed(x, has, &f);
	if ((fate == FITS || fate == TIGHT) && is_run(x, fate)) {
		note_best(x);
		note_least(x, x->p.step_us *
			      (fate == FITS ? own(x) : sure(x)));
		x->pipe_us = fmin(x->pipe_us, x->p.pipe_us);
		take(x, &f);
	}
	return fate;
}

/* Widths that only a rule says are above are counted at the end. */
static void
note_rule(struct trial *x)
{
	struct search *s = x->s;
	uint64_t hash = search_hash_width(&x->key);
	uint32_t at = 0;

	while ((at = table_find(&s->ruled_out_table, hash, at)) != 0) {
		if (search_same_width(&s->ruled_out.at[at], &x->key)) {
			return;
		}
	}
	at = table_add(&s->keep, &s->ruled_out_table, hash);
	while (s->ruled_out.n <= at) {	/* the first is none */
		VEC_PUSH(&s->keep, &s->ruled_out, x->key);
	}
}

/* What it keeps alone has no room, wherever it lies: nothing is placed. */
static bool
is_too_large(const struct trial *x)
{
	const struct search_group *g = x->t->g;

	return !trial_is_asked(x) &&
	       search_least_bytes(x->s, g, x->key.zero, x->key.offload) >
	       g->room;
}

/* Its floor is no less than what was found. */
static bool
is_below(struct trial *x)
{
	struct search *s = x->s;

	if (search_is_above(s, &x->key, x->t, s->worst_us)) {
		return true;
	}
	if (!search_seems_above(s, &x->key, x->t, s->worst_us)) {
		uint64_t learnt = s->learnt;

		search_foresee(s, &x->key, x->t);
		if (s->learnt == learnt ||
		    !search_seems_above(s, &x->key, x->t, s->worst_us)) {
			return false;
		}
	}
	note_rule(x);
	return true;
}

/* Layers after `part` of `of` steps from one spread to the other. */
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
 * The quickest spread gives quick devices more than they have room for; the
 * nearest to it that fits as it is placed lies on the way from the even one.
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
		enum fate fate;

		mix_layers(x->nstages, even, quick, mid, steps, layers);
		set_layers(x, layers);
		fate = with_layers(x);
		if (fate == CUT || fate == FITS) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
}

/* With a spread of layers, as it is stood in for: FITS if it may win. */
static enum fate
stood_in(struct trial *x)
{
	struct trial_fit f;

	x->state = TRIAL_MADE;
	memset(x->choice, 0, x->nstages * sizeof *x->choice);
	if (is_plain_cut(x)) {
		return CUT;
	}
	x->state = TRIAL_GUESSED;
	if (trial_fits(x, &f) == TRIAL_HOPELESS) {
		return FULL;
	}
	if (is_cut(x)) {
		return CUT_TIGHT;
	}
	x->may_win = true;
	return FITS;
}

/* The even spread of layers and the quickest one, each by itself. */
static enum fate
with_spreads(struct trial *x, enum fate (*with)(struct trial *x))
{
	struct search *s = x->s;
	int64_t *even = arena_alloc(&s->tmp, x->nstages * sizeof *even);
	size_t bytes = x->nstages * sizeof *even;
	enum fate fate, other;

	plan_spread(s->nlayers, x->nstages, even);
	set_layers(x, s->pinned[PIN_STAGES] &&
		   s->base.nstages == x->nstages ? s->base.layers : even);
	fate = with(x);
	if ((x->t->chunks == 1 || s->seats.n > 1) && x->nstages > 1 &&
	    !s->even && !s->pinned[PIN_STAGES]) {
		int64_t *layers = arena_alloc(&s->tmp, bytes);

		search_balance(s, x->cost, x->nstages, x->seat_of, layers);
		set_layers(x, layers);
		if (memcmp(layers, even, bytes) != 0) {
			other = with(x);
			fate = other > fate ? other : fate;
			if (s->seats.n > 1 && other > FITS) {
				with_fewer(x, even, layers);
			}
		}
	}
	return fate;
}

static void
set_width(struct trial *x, struct search_cost *cost)
{
	x->update = NULL;
	x->made = NULL;
	x->pipe_us = INFINITY;
	memset(&x->p, 0, sizeof x->p);
	x->cost = cost;
}

/* As wide as the key says. */
static enum fate
with_width(struct trial *x)
{
	set_width(x, search_cost_of(x->s, &x->key, x->t));
	return x->cost ? with_spreads(x, with_layers) : NONE;
}

/*
 * Tried as another width first, which takes and holds no more, that one is not
 * made if it cannot win or does not fit.  NONE: it may.
 */
static enum fate
with_stand_in(struct trial *x)
{
	struct search_stand stand;
	enum fate fate;

	if (trial_is_asked(x) ||
	    !search_stand_in(x->s, &x->key, x->t, &stand)) {
		return NONE;
	}
	set_width(x, stand.cost);
	x->update = stand.update;
	x->stand = &stand;
	x->may_win = false;
	fate = with_spreads(x, stood_in);
	x->stand = NULL;
	set_width(x, NULL);
	return x->may_win ? NONE : fate;
}

static enum fate
with_zero(struct trial *x, int zero, bool offload)
{
	enum fate fate;
	bool large;

	x->key.zero = zero;
	x->key.offload = offload;
	x->key.microbatch = own_microbatch(x);
	x->cost = NULL;
	large = is_too_large(x);
	/* with 1, it says that nobody needs to ask for 2 and 3 */
	if ((!large || zero == 1) && is_below(x)) {
		note_least(x, x->s->worst_us);
		x->s->out->cut++;
		return CUT;
	}
	if (large) {
		x->s->out->full++;
		return FULL;
	}
	fate = with_stand_in(x);
	if (fate != NONE) {
		x->s->out->cut++;
		note_rule(x);
		return fate;
	}
	return with_width(x);
}

/* Whether stages may have room if dp cuts nothing. */
static bool
whole_fits(struct trial *x)
{
	int64_t lo = 0;
	uint32_t i;

	for (i = 0; i < x->nstages; lo += x->layers[i++]) {
		if (search_whole_bytes(x->s, trial_update(x), lo,
				       lo + x->layers[i]) >
		    search_room(x->s, x->seat_of[i])) {
			return false;
		}
	}
	return true;
}

/*
 * Stages take what they took with ZeRO 1, but for what solvers choose among
 * equals; and of weights and gradients no less is exchanged.  Of a width that
 * was not placed, its floor says it.
 */
static bool
may_be_whole(struct trial *x)
{
	const struct search_group *g = x->t->g;
	int zero = x->key.zero;
	double us;

	if (!x->cost) {
		return true;
	}
	if (!whole_fits(x) ||
	    !isfinite(x->pipe_us)) {	/* there is no such schedule */
		return false;
	}
	us = fmax(x->pipe_us - trial_data_us(x), 0) * SEARCH_SAME +
	     g->sum_us + g->gather_us;
	if (us < x->s->worst_us) {
		return true;
	}
	note_least(x, us);
	x->key.zero = 0;
	note_rule(x);
	x->key.zero = zero;
	return false;
}

/* What costs time to save memory only where memory asks for it. */
static bool
with_all(struct trial *x)
{
	const struct search *s = x->s;
	bool data = x->t->g->dp > 1, host = s->t->device.host_bytes_us > 0;
	int zero = s->pinned[PIN_ZERO] ? s->base.zero : data;
	enum fate fate, best;

	if (s->pinned[PIN_OFFLOAD]) {
		fate = with_zero(x, zero, s->base.offload);
		host = false;
	} else {
		fate = with_zero(x, zero, false);
	}
	if ((fate == FITS || fate == CUT) && data && !s->pinned[PIN_ZERO] &&
	    may_be_whole(x)) {
		with_zero(x, 0, x->key.offload);
	}
	if (fate < CUT_TIGHT) {
		return true;
	}
	best = fate;
	if (data && !s->pinned[PIN_ZERO]) {
		fate = with_zero(x, 2, x->key.offload);
		best = fate < best ? fate : best;
		fate = with_zero(x, 3, x->key.offload);
		best = fate < best ? fate : best;
	}
	if (host) {
		fate = with_zero(x, zero, true);
		best = fate < best ? fate : best;
	}
	return best != FULL;
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
search_one(struct search *s, struct search_try *t, struct search_seen *seen)
{
	const struct search_group *g = t->g;
	struct trial x;
	bool fits;

	if (s->pinned[PIN_STAGES] &&
	    s->base.nstages != (uint32_t)(g->pp * t->chunks)) {
		return;
	}
	x = begin(s, t);
	fits = with_all(&x);
	if (g->tp > 1 && !s->pinned[PIN_SEQUENCE]) {
		x.key.sequence = false;
		x.key.offload = false;
		fits |= with_all(&x);
	}
	seen->us = x.least_us;
	seen->full = !fits;
}

void
search_again(struct search *s, const struct plan *p)
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

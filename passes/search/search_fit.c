/*
 * Whether a plan fits: computes the bytes of each rank of its pipeline, and
 * chooses how stages recompute so that these fit.  Used by search_try.c.
 */
#include "passes/search/search_trial.h"

#include <math.h>
#include <string.h>

/* fmax, without its rules for NaN: no argument is, and calls are many. */
static double
larger(double a, double b)
{
	return a > b ? a : b;
}

/*
 * Guessed bytes by which choices shrink a stage's slot of the span
 * MEMORY_TO_INPUT, from forward to the first half of backward.
 */
struct less {
	double *of;	/* by choice */
	double *till;	/* by choice: largest `of` up to it */
};

/* Successive equal stages of a rank. */
struct run {
	uint32_t stage;		/* one of them */
	uint32_t n;
	/* how many slots they need, if they share none */
	double slots[SEARCH_NSPANS];
	const struct less *less;	/* NULL: no choices yet */
};

/* The bytes of several stages of a rank. */
struct held {
	double each[SEARCH_NSPANS];	/* of slots, if stages share none */
	double most[SEARCH_NSPANS];	/* of the largest slot */
	double temp, update, waits;
};

/* The fitting of one rank. */
struct fit {
	struct trial *x;
	uint32_t rank;
	const uint32_t *of;	/* its stages */
	uint32_t n;
	struct run *runs;
	uint32_t nruns;
	/* capacity for tensors that do not live all step */
	double free_bytes;
	/* by stage, for the first of equal stages */
	struct less *less;
};

/*
 * Sets the runs of the rank.  There are few, since most stages are the same
 * number of layers of one kind.
 */
static void
find_runs(struct fit *f)
{
	const struct trial *x = f->x;
	struct run *r = NULL;
	uint32_t i, k;

	f->nruns = 0;
	for (i = 0; i < f->n; i++) {
		if (!r || x->like[r->stage] != x->like[f->of[i]]) {
			r = &f->runs[f->nruns++];
			*r = (struct run){ .stage = f->of[i] };
		}
		r->n++;
		for (k = 0; k < SEARCH_NSPANS; k++) {
			r->slots[k] += x->t->slots->stage[k][f->of[i]];
		}
	}
}

/* ---- bytes of stages ---- */

/*
 * Moves the slots of layers [lo, hi) to the host, if they are to lie there;
 * two layers of each kind pass through the device.
 */
static void
host_saves(const struct trial *x, const struct search_cost *c, int64_t lo,
	   int64_t hi, struct search_bytes *b)
{
	uint32_t i, k;

	if (!(x->key.offload & PLAN_OFFLOAD_SAVES)) {
		return;
	}
	for (i = 0; i < x->s->nkinds; i++) {
		const struct search_kind *kind = &x->s->kinds[i];
		int64_t from = kind->first > lo ? kind->first : lo;
		int64_t end = kind->first + kind->iterations;
		int64_t n = (end < hi ? end : hi) - from;

		for (k = 0; k < SEARCH_NSPANS && n > 0; k++) {
			b->temp += (n > 1 ? 2 : 1) *
				larger(c->bytes[PIECE_BODY + i].slot[k], 0);
		}
	}
	for (k = 0; k < SEARCH_NSPANS; k++) {
		b->host[k] = larger(b->slot[k], 0);
		b->slot[k] = 0;
	}
}

/* Bytes of one stage with a choice, from its programs. */
static void
stage_bytes(struct trial *x, uint32_t stage, uint32_t choice,
	    struct search_bytes *b)
{
	int64_t lo = x->first[stage];
	struct search_cost *c = choice ? trial_cost(x, choice) : NULL;

	if (c) {
		search_stage_bytes(x->s, c, lo, lo + x->layers[stage], b);
		host_saves(x, c, lo, lo + x->layers[stage], b);
	} else {
		*b = x->plain[stage];
	}
}

/* Adds a run, where each stage has the bytes b. */
static void
hold(const struct trial *x, struct held *h, const struct search_bytes *b,
     const struct run *r)
{
	uint32_t k;

	for (k = 0; k < SEARCH_NSPANS; k++) {
		double slot = larger(b->slot[k], 0);

		h->each[k] += slot * r->slots[k];
		h->most[k] = larger(h->most[k], slot);
	}
	h->temp = larger(h->temp, b->temp);
	h->update = larger(h->update, x->update_temp[r->stage]);
	h->waits += x->nstages > 1 ? b->waits * r->n : 0;
}

static void
hold_both(struct held *h, const struct held *other)
{
	uint32_t k;

	for (k = 0; k < SEARCH_NSPANS; k++) {
		h->each[k] += other->each[k];
		h->most[k] = larger(h->most[k], other->most[k]);
	}
	h->temp = larger(h->temp, other->temp);
	h->update = larger(h->update, other->update);
	h->waits += other->waits;
}

/*
 * Bytes of the slots of a span.  All stages of a rank share their slots where
 * that needs less: then all slots have the largest size, and there are as many
 * as the rank holds at once.
 */
static double
span_bytes(const struct fit *f, uint32_t span, double each, double most)
{
	double shared = most * f->x->t->slots->rank[span][f->rank];

	return shared < each ? shared : each;
}

static double
held_bytes(const struct fit *f, const struct held *h)
{
	double bytes = h->waits;
	uint32_t k;

	for (k = 0; k < SEARCH_NSPANS; k++) {
		bytes += span_bytes(f, k, h->each[k], h->most[k]);
	}
	return larger(bytes + h->temp, h->update);
}

/* ---- guesses ---- */

/*
 * Guesses the bytes of a rank for many choices.  In guesses, a choice changes
 * only the span MEMORY_TO_INPUT, so the others are summed once.
 */
struct guess {
	const struct fit *f;
	const struct run *runs;
	uint32_t nruns;
	struct held others;	/* all other runs of the rank */
	struct held all;	/* others, and these without recomputing */
	/* of the spans that do not change, and of transfers */
	double bytes;
};

static void
guess_open(struct guess *g, const struct fit *f, const struct held *others,
	   const struct run *runs, uint32_t nruns)
{
	uint32_t i, k;

	*g = (struct guess){ .f = f, .runs = runs, .nruns = nruns,
			     .others = *others, .all = *others };
	for (i = 0; i < nruns; i++) {
		hold(f->x, &g->all, &f->x->plain[runs[i].stage], &runs[i]);
	}
	g->bytes = g->all.waits;
	for (k = MEMORY_TO_INPUT + 1; k < SEARCH_NSPANS; k++) {
		g->bytes += span_bytes(f, k, g->all.each[k], g->all.most[k]);
	}
}

static double
with_slots(const struct guess *g, double each, double most)
{
	return larger(g->bytes + span_bytes(g->f, MEMORY_TO_INPUT, each, most) +
		      g->all.temp, g->all.update);
}

static double
less_slot(const struct guess *g, const struct run *r, double less)
{
	const struct search_bytes *b = &g->f->x->plain[r->stage];

	return larger(b->slot[MEMORY_TO_INPUT] - less, 0);
}

static double
guess_bytes(const struct guess *g, uint32_t choice)
{
	double each = g->others.each[MEMORY_TO_INPUT];
	double most = g->others.most[MEMORY_TO_INPUT];
	uint32_t i;

	for (i = 0; i < g->nruns; i++) {
		const struct run *r = &g->runs[i];
		double slot = less_slot(g, r, r->less ? r->less->of[choice]
						      : 0);

		each += slot * r->slots[MEMORY_TO_INPUT];
		most = larger(most, slot);
	}
	return with_slots(g, each, most);
}

/*
 * The first of n choices that fits by a guess of one run.  Bisects on `till`,
 * which never falls.
 */
static uint32_t
first_guess(const struct guess *g, uint32_t n)
{
	const struct run *r = &g->runs[0];
	double each = g->others.each[MEMORY_TO_INPUT];
	double most = g->others.most[MEMORY_TO_INPUT];
	uint32_t lo = 0, hi = n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		double slot = less_slot(g, r, r->less->till[mid]);

		if (with_slots(g, each + slot * r->slots[MEMORY_TO_INPUT],
			       larger(most, slot)) <= g->f->free_bytes) {
			hi = mid;
		} else {
			lo = mid + 1;
		}
	}
	return lo;
}

static const struct less *
less_of(const struct fit *f, uint32_t stage)
{
	struct trial *x = f->x;
	struct less *less = &f->less[x->like[stage]];
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	uint32_t n = x->cost->choices.n, i;

	if (less->of) {
		return less;
	}
	less->of = arena_alloc_raw(&x->s->tmp, n * sizeof *less->of);
	less->till = arena_alloc_raw(&x->s->tmp, n * sizeof *less->till);
	for (i = 0; i < n; i++) {
		const struct search_choice *c = &x->cost->choices.at[i];

		less->of[i] = search_saved_bytes(x->s, c, lo, hi);
		less->till[i] = i ? larger(less->till[i - 1], less->of[i])
				  : less->of[i];
	}
	return less;
}

/* ---- choices of how to recompute ---- */

/*
 * Bytes of the rank without tensors that live all step, from programs, with one
 * choice for all its stages.
 */
static double
moving_bytes(const struct fit *f, uint32_t choice)
{
	struct held all = { .temp = 0 };
	struct search_bytes b;
	uint32_t i;

	for (i = 0; i < f->nruns; i++) {
		stage_bytes(f->x, f->runs[i].stage, choice, &b);
		hold(f->x, &all, &b, &f->runs[i]);
	}
	return held_bytes(f, &all);
}

/*
 * Whether the rank fits with one choice for all its stages.  If the trial is in
 * the state TRIAL_MADE, programs check what fits by guesses.
 */
static bool
fits_alike(const struct fit *f, const struct guess *g, uint32_t choice,
	   double *bytes)
{
	*bytes = guess_bytes(g, choice);
	if (*bytes <= f->free_bytes && choice && f->x->state == TRIAL_MADE) {
		*bytes = moving_bytes(f, choice);
	}
	return *bytes <= f->free_bytes;
}

bool
trial_is_asked(const struct trial *x)
{
	return !isfinite(x->s->worst_us) && !x->s->guessing;
}

/*
 * Sets the mildest choice with which the rank fits, the same for all its
 * stages.  Before a plan counts as full, programs are made of the choice that
 * keeps the fewest bytes.
 */
static enum trial_verdict
fit_alike(const struct fit *f, uint32_t *choice, double *bytes)
{
	struct held none = { .temp = 0 };
	struct trial *x = f->x;
	struct guess g;
	double least;
	uint32_t c, i;

	guess_open(&g, f, &none, f->runs, f->nruns);
	*choice = 0;
	if (fits_alike(f, &g, 0, bytes)) {
		return TRIAL_FITS;
	}
	if (x->key.offload & PLAN_OFFLOAD_SAVES) {	/* it keeps none here */
		return TRIAL_FULL;
	}
	search_choices(x->s, &x->key, x->t, x->cost);
	for (i = 0; i < f->nruns; i++) {
		f->runs[i].less = less_of(f, f->runs[i].stage);
	}
	least = *bytes;
	for (c = 1; c < x->cost->choices.n; c++) {
		if (fits_alike(f, &g, c, bytes)) {
			*choice = c;
			return TRIAL_FITS;
		}
		if (*bytes < least) {
			least = *bytes;
			*choice = c;
		}
	}
	*bytes = moving_bytes(f, *choice);
	return *bytes <= f->free_bytes ? TRIAL_FITS : TRIAL_FULL;
}

/* A run of one stage. */
static struct run
alone(const struct fit *f, uint32_t stage)
{
	struct run r = { .stage = stage, .n = 1, .less = less_of(f, stage) };
	uint32_t k;

	for (k = 0; k < SEARCH_NSPANS; k++) {
		r.slots[k] = f->x->t->slots->stage[k][stage];
	}
	return r;
}

/* Bytes of stages by guesses, and from made programs. */
struct ways {
	struct held guessed, made;
};

static void
hold_stage(const struct fit *f, struct ways *w, const struct run *r,
	   uint32_t choice)
{
	struct search_bytes b = f->x->plain[r->stage];

	b.slot[MEMORY_TO_INPUT] -= r->less->of[choice];
	hold(f->x, &w->guessed, &b, r);
	if (f->x->state == TRIAL_MADE) {
		stage_bytes(f->x, r->stage, choice, &b);
		hold(f->x, &w->made, &b, r);
	}
}

/*
 * The mildest choice with which a stage fits beside the others of its rank, at
 * most `most`.
 */
static uint32_t
mildest(const struct fit *f, const struct ways *others, const struct run *r,
	uint32_t most)
{
	bool made = f->x->state == TRIAL_MADE;
	struct guess g;
	struct ways all;
	uint32_t c;

	guess_open(&g, f, &others->guessed, r, 1);
	for (c = first_guess(&g, most); made && c < most; c++) {
		if (guess_bytes(&g, c) > f->free_bytes) {
			continue;
		}
		all = *others;
		hold_stage(f, &all, r, c);
		if (held_bytes(f, &all.made) <= f->free_bytes) {
			break;
		}
	}
	return c;
}

/*
 * Gives each stage of a rank that fits with the choice `most` a milder choice
 * if it fits, too; the last stage first.  `before` and `behind` are the bytes
 * of the stages before and after it.  Returns the bytes of the rank.
 */
static double
fit_milder(const struct fit *f, uint32_t most)
{
	struct trial *x = f->x;
	struct arena *a = &x->s->tmp;
	struct ways *before = arena_alloc_raw(a, (f->n + 1) * sizeof *before);
	struct run *run = arena_alloc_raw(a, f->n * sizeof *run);
	struct ways behind = { .made.temp = 0 }, both;
	uint32_t i;

	before[0] = behind;
	for (i = 0; i < f->n; i++) {
		before[i + 1] = before[i];
		run[i] = alone(f, f->of[i]);
		hold_stage(f, &before[i + 1], &run[i], most);
	}
	for (i = f->n; i-- > 0;) {
		struct run *r = &run[i];

		both = before[i];
		hold_both(&both.guessed, &behind.guessed);
		hold_both(&both.made, &behind.made);
		x->choice[r->stage] = mildest(f, &both, r, most);
		hold_stage(f, &behind, r, x->choice[r->stage]);
	}
	return held_bytes(f, x->state == TRIAL_MADE ? &behind.made
						    : &behind.guessed);
}

static void
set_degrees(const struct trial *x, struct plan *p)
{
	const struct search_group *g = x->t->g;

	*p = x->s->base;
	p->tp = g->tp;
	p->cp = g->cp;
	p->ep = g->ep;
	p->dp = g->dp;
	p->pp = g->pp;
	p->microbatch = x->t->microbatch;
	p->nmicrobatches = x->t->nmicrobatches;
	p->interleave = x->t->chunks;
	p->schedule = x->t->sched->name;
	p->zero = x->key.zero;
	p->sequence = x->key.sequence;
	p->offload = x->key.offload;
}

static double
learned_bound(const struct trial *x, uint32_t rank)
{
	struct plan p;

	if (!x->s->learned_bounds.n) {
		return 0;
	}
	set_degrees(x, &p);
	return search_learned_bound(x->s, &p, rank);
}

/* Capacity of a rank less its tensors that live all step, and learned bound. */
static double
moving_capacity(const struct trial *x, uint32_t rank)
{
	return search_capacity(x->s, x->dev[rank]) - learned_bound(x, rank) -
	       x->fixed[rank];
}

/* Turns to a rank. */
static void
set_rank(struct fit *f, uint32_t rank)
{
	f->rank = rank;
	f->of = &f->x->stages[rank * f->n];
	f->free_bytes = moving_capacity(f->x, rank);
}

/* A rank with one choice for all its stages. */
struct alike {
	enum trial_verdict has;
	uint32_t choice;
	double bytes;
};

static struct alike
try_alike(struct fit *f)
{
	struct alike out;
	uint32_t i;

	find_runs(f);
	out.has = fit_alike(f, &out.choice, &out.bytes);
	for (i = 0; i < f->n; i++) {
		f->x->choice[f->of[i]] = out.choice;
	}
	return out;
}

/* The guessed time that the rank recomputes. */
static double
guess_us(const struct fit *f)
{
	const struct trial *x = f->x;
	double us = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		uint32_t stage = f->of[i];
		int64_t lo = x->first[stage];

		us += search_extra_us(x->s, &x->cost->choices
					       .at[x->choice[stage]],
				      lo, lo + x->layers[stage]);
	}
	return us;
}

/*
 * Of all choices with which the rank fits if all its stages have it, the one
 * from which making stages milder leaves the least to recompute: a stronger
 * one for the first stages may leave the others nothing.
 */
static uint32_t
best_start(struct fit *f, uint32_t first)
{
	enum trial_state state = f->x->state;
	struct held none = { .temp = 0 };
	double best_us = INFINITY, us, bytes;
	uint32_t best = first, c;
	struct guess g;

	f->x->state = TRIAL_GUESSED;
	guess_open(&g, f, &none, f->runs, f->nruns);
	for (c = first; c < f->x->cost->choices.n; c++) {
		if (!fits_alike(f, &g, c, &bytes)) {
			continue;
		}
		fit_milder(f, c);
		us = guess_us(f);
		if (us < best_us) {
			best_us = us;
			best = c;
		}
	}
	f->x->state = state;
	return state == TRIAL_GUESSED || fits_alike(f, &g, best, &bytes)
		? best : first;
}

/*
 * Makes the choices of the rank milder where that fits, and notes the rank if
 * it is the fullest so far.
 */
static void
settle_rank(struct fit *f, struct alike *rank, struct trial_fit *out)
{
	double all = search_capacity(f->x->s, f->x->dev[f->rank]);
	double fixed = f->x->fixed[f->rank];
	uint32_t i;

	if (rank->has <= TRIAL_FITS && rank->choice && f->n > 1) {
		find_runs(f);
		for (i = 0; i < f->nruns; i++) {
			f->runs[i].less = less_of(f, f->runs[i].stage);
		}
		rank->bytes = fit_milder(f, f->x->strong
			? best_start(f, rank->choice) : rank->choice);
	}
	if (fixed + rank->bytes - all > out->over) {
		out->most = fixed + rank->bytes;
		out->over = fixed + rank->bytes - all;
		out->fullest = f->rank;
	}
}

/* Sets `recompute`: one for all stages, or a list if stages differ. */
static void
set_recompute(const struct trial *x, struct plan *p)
{
	bool alike = true;
	uint32_t i;

	if (!x->cost->choices.n) {
		return;
	}
	for (i = 1; i < x->nstages; i++) {
		alike &= x->choice[i] == x->choice[0];
	}
	p->recompute = x->cost->choices.at[x->choice[0]].words;
	p->recompute_of = alike ? NULL
		: arena_alloc(x->s->a, x->nstages * sizeof *p->recompute_of);
	for (i = 0; !alike && i < x->nstages; i++) {
		p->recompute_of[i] = x->cost->choices.at[x->choice[i]].words;
	}
}

void
trial_plan(const struct trial *x, struct plan *p)
{
	set_degrees(x, p);
	p->nstages = x->nstages;
	p->nranks = x->t->g->used;
	p->layers = arena_dup(x->s->a, x->layers, x->nstages *
			      sizeof *x->layers);
	set_recompute(x, p);
}

/* Sets x->like and x->fixed. */
static void
set_fixed(struct trial *x)
{
	struct search_update *u = trial_update(x);
	uint32_t n = x->nstages, i;
	double each = 0;

	x->like = arena_alloc_raw(&x->s->tmp, n * sizeof *x->like);
	x->fixed = arena_alloc(&x->s->tmp, (size_t)x->t->g->pp *
			       sizeof *x->fixed);
	for (i = 0; i < n; i++) {
		int64_t lo = x->first[i], hi = lo + x->layers[i];
		bool again = i && search_same_stage(x->s, x->first[i - 1], lo,
						    hi);

		x->like[i] = again ? x->like[i - 1] : i;
		each = again ? each : search_fixed_bytes(x->s, u, lo, hi);
		x->fixed[x->rank_of[i]] += each;
	}
}

/* Whether all ranks have memory for the tensors that live all step. */
static bool
has_memory(const struct trial *x)
{
	uint32_t i;

	for (i = 0; i < x->t->g->pp; i++) {
		if (moving_capacity(x, i) < 0) {
			return false;
		}
	}
	return true;
}

/* Sets x->plain and x->update_temp. */
static void
set_plain(struct trial *x)
{
	struct search_update *u = trial_update(x);
	uint32_t n = x->nstages, i;

	search_measure(x->s, &x->key, x->t, x->cost);
	x->plain = arena_alloc_raw(&x->s->tmp, n * sizeof *x->plain);
	x->update_temp =
		arena_alloc_raw(&x->s->tmp, n * sizeof *x->update_temp);
	for (i = 0; i < n; i++) {
		int64_t lo = x->first[i], hi = lo + x->layers[i];

		if (x->like[i] != i) {
			x->plain[i] = x->plain[i - 1];
			x->update_temp[i] = x->update_temp[i - 1];
			continue;
		}
		search_stage_bytes(x->s, x->cost, lo, hi, &x->plain[i]);
		host_saves(x, x->cost, lo, hi, &x->plain[i]);
		x->update_temp[i] = search_update_temp(x->s, u, lo, hi);
	}
}

/* Whether a stage of the rank has another choice than the stage before it. */
static bool
is_new(const struct fit *f)
{
	const uint32_t *choice = f->x->choice;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		if (choice[f->of[i]] != (f->rank ? choice[f->of[i] - 1] : 0)) {
			return true;
		}
	}
	return false;
}

/* Notes, of the plans that do not fit, the one that lacks the fewest bytes. */
static void
note_near(const struct trial *x, const struct trial_fit *f)
{
	const struct target_group *on = x->s->devs.at[x->dev[f->fullest]];
	struct search_report *out = x->s->out;
	struct search_near *n = &out->least;

	if (out->any_near && f->over >= (double)(n->bytes - n->capacity)) {
		return;
	}
	out->any_near = true;
	n->bytes = (int64_t)f->most;
	n->capacity = (int64_t)(f->most - f->over);
	n->device = x->s->devs.n > 1 ? on->device.name : "";
	n->fullest = f->fullest;
	trial_plan(x, &n->plan);
}

/*
 * Fits ranks by guesses.  First, each rank gets one choice for all its stages:
 * if a rank does not fit, no choice needs to be made milder.
 */
static enum trial_verdict
guess_ranks(struct fit *f, struct trial_fit *out)
{
	struct trial *x = f->x;
	uint32_t pp = (uint32_t)x->t->g->pp, n, i;
	struct alike *rank = arena_alloc_raw(&x->s->tmp, pp * sizeof *rank);
	enum trial_verdict all = TRIAL_FITS;
	bool asked = trial_is_asked(x);

	for (n = 0; n < pp && (all <= TRIAL_FITS || asked); n++) {
		set_rank(f, n);
		rank[n] = try_alike(f);
		all = rank[n].has > all ? rank[n].has : all;
	}
	if (all > TRIAL_FITS && !asked) {
		return all;
	}
	for (i = 0; i < n; i++) {
		set_rank(f, i);
		settle_rank(f, &rank[i], out);
	}
	return all;
}

/*
 * Fits ranks by programs.  The rank with the highest bound so far comes first:
 * if it takes too long, no programs are needed for others.
 */
static enum trial_verdict
make_ranks(struct fit *f, struct trial_fit *out)
{
	struct trial *x = f->x;
	uint32_t pp = (uint32_t)x->t->g->pp, first = x->busiest, i;
	enum trial_verdict all = TRIAL_FITS;
	bool asked = trial_is_asked(x);
	struct alike rank;

	for (i = 0; i < pp && (all <= TRIAL_FITS || asked); i++) {
		set_rank(f, i == 0 ? first : i - (i <= first));
		rank = try_alike(f);
		settle_rank(f, &rank, out);
		all = rank.has > all ? rank.has : all;
		if (all == TRIAL_FITS && is_new(f) && trial_is_cut(x)) {
			all = TRIAL_CUT;
		}
	}
	return all;
}

/* Whether all ranks fit; sets how their stages recompute. */
static enum trial_verdict
fit_ranks(struct trial *x, struct trial_fit *out)
{
	struct fit f = { .x = x, .n = (uint32_t)x->t->chunks };
	enum trial_verdict all;

	f.runs = arena_alloc(&x->s->tmp, f.n * sizeof *f.runs);
	f.less = arena_alloc(&x->s->tmp, x->nstages * sizeof *f.less);
	all = x->state == TRIAL_MADE ? make_ranks(&f, out)
				     : guess_ranks(&f, out);
	x->s->out->full += all > TRIAL_CUT;
	if (all > TRIAL_CUT && trial_is_asked(x)) {
		note_near(x, out);
	}
	return all;
}

enum trial_verdict
trial_fits(struct trial *x, struct trial_fit *f)
{
	*f = (struct trial_fit){ .over = -INFINITY };
	set_fixed(x);
	if (!trial_is_asked(x) && !has_memory(x)) {
		x->s->out->full++;
		return TRIAL_FULL;
	}
	search_count_slots(x->s, x->t);
	set_plain(x);
	if (x->key.offload && !trial_fits_hosts(x)) {
		x->s->out->full++;
		return TRIAL_FULL;
	}
	memset(x->choice, 0, x->nstages * sizeof *x->choice);
	return fit_ranks(x, f);
}

/*
 * Whether a plan fits: computes the bytes of each rank of its pipeline, and
 * chooses how stages recompute so that these fit.  Used by search_try.c.
 */
#include "passes/search/search_trial.h"
#include "passes/solve/knapsack.h"

#include <math.h>
#include <string.h>

#define NEAR 1e-4		/* choices of times so near are as good */

/* fmax, without its rules for NaN: no argument is, and calls are many. */
static double
larger(double a, double b)
{
	return a > b ? a : b;
}

/*
 * What a stage takes and keeps by each way to recompute, as the programs for
 * one sequence say of the plan's microbatch.
 */
struct stage_ways {
	double *us;		/* against the quickest way */
	struct piece_bytes *keeps;
	uint32_t least;		/* the way that keeps least */
};

/* The fitting of one rank. */
struct fit {
	struct trial *x;
	uint32_t rank;
	const uint32_t *of;	/* its stages */
	uint32_t n;
	/* capacity for tensors that do not live all step */
	double free_bytes;
	/* by stage, for the first of equal stages */
	struct stage_ways *ways;
	struct piece_bytes *keeps;	/* by stage of the rank */
	bool full;		/* a rank before does not fit */
	double left_us;		/* see trial.left_us, for one microbatch */
	struct arena tmp;	/* lives as long as a choice is made */
};

/* ---- bytes ---- */

/*
 * Bytes of the rank without tensors that live all step; `made`: from the
 * programs of the choices, not from those for one sequence.
 */
static double
moving_bytes(const struct fit *f, bool made)
{
	struct trial *x = f->x;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		uint32_t stage = f->of[i], choice = x->choice[stage];

		if (choice && made) {
			trial_stage_bytes(x, stage, &f->keeps[i]);
		} else {
			f->keeps[i] = choice
				? f->ways[x->like[stage]].keeps[choice]
				: x->plain[stage];
		}
	}
	return trial_rank_bytes(x, f->rank, f->keeps);
}

/* Bytes of the rank without what layers save, with the quickest ways. */
static double
other_bytes(const struct fit *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		f->keeps[i] = f->x->plain[f->of[i]];
		memset(f->keeps[i].slot, 0, sizeof f->keeps[i].slot);
	}
	return trial_moving_bytes(f->x, f->rank, f->keeps);
}

/* ---- choices of how to recompute ---- */

static const struct stage_ways *
ways_of(const struct fit *f, uint32_t stage)
{
	struct trial *x = f->x;
	struct stage_ways *w = &f->ways[x->like[stage]];
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	double times = (double)x->t->microbatch, least = INFINITY, all;
	uint32_t n = x->ways_of->at.n, i, k;

	if (w->us) {
		return w;
	}
	w->us = arena_alloc_raw(&x->s->space.tmp, n * sizeof *w->us);
	w->keeps = arena_alloc_raw(&x->s->space.tmp, n * sizeof *w->keeps);
	for (i = 0; i < n; i++) {
		const struct piece_choice *c = &x->ways_of->at.at[i];
		struct piece_bytes *b = &w->keeps[i];

		w->us[i] = times * piece_extra_us(&x->s->space, c, lo, hi);
		*b = x->plain[stage];
		b->temp = larger(b->temp + times * c->temp, 0);
		for (k = 0, all = 0; k < SPACE_NSPANS; k++) {
			double less = times * piece_saved_bytes(&x->s->space,
								c, k, lo, hi);

			b->slot[k] = larger(b->slot[k] - less, 0);
			all += b->slot[k];
		}
		w->least = all < least ? i : w->least;
		least = all < least ? all : least;
	}
	return w;
}

/* Bytes of a stage's slots; of the whole rank's, if all are as large as its. */
static double
slot_bytes(const struct fit *f, uint32_t stage, const struct piece_bytes *b,
	   bool shared)
{
	const struct space_slots *t = f->x->t->slots;
	double bytes = 0;
	uint32_t k;

	for (k = 0; k < SPACE_NSPANS; k++) {
		bytes += b->slot[k] * (shared ? t->rank[k][f->rank]
					      : t->stage[k][stage]);
	}
	return bytes;
}

/* Chooses the quickest way with which a stage keeps at most `room`. */
static bool
quickest_within(struct fit *f, uint32_t stage, double room)
{
	const struct stage_ways *w = ways_of(f, stage);
	uint32_t *choice = &f->x->choice[stage], i;
	bool any = false;

	for (i = 0; i < f->x->ways_of->at.n; i++) {
		if (slot_bytes(f, stage, &w->keeps[i], true) <= room &&
		    (!any || w->us[i] < w->us[*choice])) {
			*choice = i;
			any = true;
		}
	}
	return any;
}

/* Chooses where stages share their slots; returns the time, or infinity. */
static double
choose_shared(struct fit *f, double room)
{
	double us = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		if (!quickest_within(f, f->of[i], room)) {
			return INFINITY;
		}
		us += ways_of(f, f->of[i])->us[f->x->choice[f->of[i]]];
	}
	return us;
}

/* What is as good as nothing, of the time of a microbatch on the rank. */
static double
near_us(const struct fit *f)
{
	return NEAR * f->x->bound_us / (double)f->x->t->nmicrobatches;
}

/*
 * Chooses where each stage has slots of its own, if that takes less than us.
 * False: it does not.
 */
static bool
choose_each(struct fit *f, double room, double us)
{
	struct trial *x = f->x;
	struct arena *a = &f->tmp;
	uint32_t nways = x->ways_of->at.n, i, c;
	struct knapsack_stage *at = arena_alloc_raw(a, f->n * sizeof *at);
	uint32_t *way = arena_alloc_raw(a, f->n * sizeof *way);
	struct knapsack all = { at, f->n, nways, room, near_us(f), us, x->open,
			      INFINITY, 0 };
	double each_us = 0;

	for (i = 0; i < f->n; i++) {
		const struct stage_ways *w = ways_of(f, f->of[i]);
		double *bytes = arena_alloc_raw(a, nways * sizeof *bytes);

		for (c = 0; c < nways; c++) {
			bytes[c] = slot_bytes(f, f->of[i], &w->keeps[c],
					      false);
		}
		at[i] = (struct knapsack_stage){ w->us, bytes };
	}
	if (!knapsack_choose(a, &all, way)) {
		return false;
	}
	x->s->out->looked += all.looked;
	for (i = 0; i < f->n; i++) {
		each_us += at[i].us[way[i]];
	}
	f->left_us = larger(fmin(us, each_us) - all.left_us, 0);
	for (i = 0; each_us < us && i < f->n; i++) {
		x->choice[f->of[i]] = way[i];
	}
	return each_us < us;
}

/*
 * Chooses the ways that take least and keep at most `room` with the temporary
 * bytes of the quickest ones.  False: none do.
 */
static bool
choose(struct fit *f, double room)
{
	double us;
	bool fits;

	f->left_us = 0;
	room -= other_bytes(f);
	us = choose_shared(f, room);
	fits = (f->n > 1 && choose_each(f, room, us)) ||
	       isfinite(us);
	arena_release(&f->tmp);
	return fits;
}

/* Chooses for each stage the way that keeps least. */
static void
choose_least(struct fit *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		f->x->choice[f->of[i]] = ways_of(f, f->of[i])->least;
	}
}

/* Bytes of the slots that a stage holds when its rank first holds most. */
static double
bytes_then(const struct fit *f, uint32_t stage, const struct piece_bytes *b)
{
	double bytes = 0;
	uint32_t k;

	for (k = 0; k < SPACE_NSPANS; k++) {
		bytes += b->slot[k] * f->x->t->slots->then[k][stage];
	}
	return bytes;
}

/*
 * A lower bound of the bytes of the rank's stages with any ways, as the
 * programs for one sequence say.  However slots are shared, those of a span
 * take no less than what they hold at any one time.
 */
static double
least_bytes(struct fit *f)
{
	double slots = 0, temp = 0;
	uint32_t i, c;

	for (i = 0; i < f->n; i++) {
		const struct stage_ways *w = ways_of(f, f->of[i]);
		double least = INFINITY, both = INFINITY;

		for (c = 0; c < f->x->ways_of->at.n; c++) {
			const struct piece_bytes *b = &w->keeps[c];
			double own = bytes_then(f, f->of[i], b);

			least = own < least ? own : least;
			both = own + b->temp < both ? own + b->temp : both;
		}
		slots += least;
		temp = larger(temp, both - least);
	}
	for (i = 0; i < f->n; i++) {
		f->keeps[i] = f->x->plain[f->of[i]];
		memset(f->keeps[i].slot, 0, sizeof f->keeps[i].slot);
		f->keeps[i].temp = temp;
	}
	return slots + trial_moving_bytes(f->x, f->rank, f->keeps);
}

/*
 * Whether other ways may make the rank fit.  The first walk knows their costs
 * from the programs for one sequence; but before a rank counts as full there,
 * the programs of the ways that keep the fewest bytes are made.
 */
static bool
may_fit(struct fit *f)
{
	return !f->full && (!f->x->s->guessing ||
			    least_bytes(f) * (1 - PIECE_NEAR) <=
			    f->free_bytes);
}

/*
 * Chooses how the rank's stages recompute, and sets its bytes.  Ways are chosen
 * by what they keep for one sequence.  By programs of the plan's length the
 * choice may keep more: then less room is left to it, by that much.  Before a
 * rank counts as full, the programs that keep the fewest bytes are made.  Where
 * an earlier rank is full, only these bytes are needed, for the report.
 */
static enum trial_verdict
fit_rank(struct fit *f, double *bytes)
{
	bool made = !f->x->s->guessing;
	double room = f->free_bytes;
	bool may;
	uint32_t i;

	f->left_us = 0;
	for (i = 0; i < f->n; i++) {
		f->x->choice[f->of[i]] = 0;
	}
	*bytes = moving_bytes(f, made);
	if (*bytes <= f->free_bytes) {
		return TRIAL_FITS;
	}
	/* the space has no slower ways with that: see docs/search.md */
	if (f->x->key.offload & PLAN_OFFLOAD_SAVES) {
		return TRIAL_FULL;
	}
	may = may_fit(f);
	while (may && choose(f, room)) {
		*bytes = moving_bytes(f, made);
		if (*bytes <= f->free_bytes) {
			return TRIAL_FITS;
		}
		room -= *bytes - f->free_bytes + 1;
	}
	choose_least(f);
	*bytes = moving_bytes(f, true);
	return *bytes <= f->free_bytes ? TRIAL_FITS : TRIAL_FULL;
}

static double
learned_bound(const struct trial *x, uint32_t rank)
{
	struct plan p;

	if (!x->s->learned_bounds.n) {
		return 0;
	}
	trial_keys(x, &p);
	p.nstages = x->nstages;
	p.layers = x->layers;
	return search_learned_bound(x->s, &p, rank);
}

/* Capacity of a rank less its tensors that live all step, and learned bound. */
static double
moving_capacity(const struct trial *x, uint32_t rank)
{
	return space_capacity(&x->s->space, x->dev[rank]) -
	       learned_bound(x, rank) - x->fixed[rank];
}

/* Turns to a rank. */
static void
set_rank(struct fit *f, uint32_t rank)
{
	f->rank = rank;
	f->of = &f->x->stages[rank * f->n];
	f->free_bytes = moving_capacity(f->x, rank);
}

/* Fits a rank, and notes it if it is the fullest so far. */
static enum trial_verdict
try_rank(struct fit *f, uint32_t rank, struct trial_fit *out)
{
	double all = space_capacity(&f->x->s->space, f->x->dev[rank]);
	double fixed = f->x->fixed[rank], bytes;
	enum trial_verdict has;

	set_rank(f, rank);
	has = fit_rank(f, &bytes);
	if (fixed + bytes - all > out->over) {
		out->most = fixed + bytes;
		out->over = fixed + bytes - all;
		out->fullest = rank;
	}
	return has;
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

/*
 * Notes, of the plans that do not fit, the one that lacks the fewest bytes.
 * They include what its program was found to have beyond the sum of pieces.
 */
static void
note_near(const struct trial *x, const struct trial_fit *f)
{
	const struct target_group *on = x->s->space.devs.at[x->dev[f->fullest]];
	struct search_report *out = x->s->out;
	struct search_near *n = &out->least;
	double learned = learned_bound(x, f->fullest);

	learned = isfinite(learned) ? learned : 0;
	if (out->any_near && f->over + learned >=
			     (double)(n->bytes - n->capacity)) {
		return;
	}
	out->any_near = true;
	n->bytes = (int64_t)(f->most + learned);
	n->capacity = (int64_t)(f->most - f->over);
	n->device = x->s->space.devs.n > 1 ? on->device.name : "";
	n->fullest = f->fullest;
	trial_plan(x, &n->plan);
}

/*
 * The rank that comes first: one that no way makes fit, by the programs for one
 * sequence, or the one with the highest bound so far.  If that is full or takes
 * too long, no choices are needed for others.
 */
static uint32_t
first_rank(struct fit *f)
{
	uint32_t first = f->x->busiest, i;
	double most = 0, over;

	for (i = 0; i < f->x->t->g->pp; i++) {
		set_rank(f, i);
		over = moving_bytes(f, false) - f->free_bytes;
		if (over > most) {	/* of the quickest ways */
			choose_least(f);
			over = moving_bytes(f, false) - f->free_bytes;
		}
		if (over > most) {
			most = over;
			first = i;
		}
	}
	memset(f->x->choice, 0, f->x->nstages * sizeof *f->x->choice);
	return first;
}

/* Whether all ranks fit; sets how their stages recompute. */
static enum trial_verdict
fit_ranks(struct trial *x, struct trial_fit *out)
{
	struct fit f = { .x = x, .n = (uint32_t)x->t->chunks };
	uint32_t pp = (uint32_t)x->t->g->pp, first, i;
	enum trial_verdict all = TRIAL_FITS, has;
	bool asked = trial_is_asked(x);

	arena_init(&f.tmp, &x->s->space.m->ctx->mem);
	f.ways = arena_alloc(&x->s->space.tmp, x->nstages * sizeof *f.ways);
	f.keeps = arena_alloc(&x->s->space.tmp, f.n * sizeof *f.keeps);
	first = first_rank(&f);
	trial_set_chosen(x, false);
	for (i = 0; i < pp && (all <= TRIAL_FITS || asked); i++) {
		uint32_t rank = i == 0 ? first : i - (i <= first);

		f.full = all > TRIAL_CUT;
		has = try_rank(&f, rank, out);
		x->chosen[rank] = true;
		all = has > all ? has : all;
		x->left_us += (double)x->t->nmicrobatches * f.left_us;
		if (all == TRIAL_FITS && is_new(&f) &&
		    (!trial_bound(x) || trial_is_above(x, true))) {
			all = TRIAL_CUT;
		}
	}
	x->s->out->full += all > TRIAL_CUT;
	if (all > TRIAL_CUT && asked) {
		note_near(x, out);
	}
	return all;
}

enum trial_verdict
trial_fits(struct trial *x, struct trial_fit *f)
{
	*f = (struct trial_fit){ .over = -INFINITY };
	/* what an arena taught may have been the memory of hosts */
	x->drives_help |= x->s->learned_bounds.n > 0;
	trial_set_fixed(x);
	if (!trial_is_asked(x) && !has_memory(x)) {
		x->s->out->full++;
		return TRIAL_FULL;
	}
	space_count_slots(&x->s->space, x->t);
	trial_set_plain(x);
	if (x->key.offload && !trial_fits_hosts(x)) {
		x->drives_help = true;
		x->s->out->full++;
		return TRIAL_FULL;
	}
	memset(x->choice, 0, x->nstages * sizeof *x->choice);
	x->left_us = 0;
	return fit_ranks(x, f);
}

/*
 * How the stages of a rank recompute: what each way takes and keeps, which ways
 * together take least, and what any ways keep at least.  Used by search_fit.c.
 */
#include "passes/search/search_fit.h"
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

/* ---- what ways take and keep ---- */

static const struct trial_ways *
ways_of(const struct trial_rank *f, uint32_t stage)
{
	struct trial *x = f->x;
	struct trial_ways *w = &f->ways[x->like[stage]];
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

double
trial_chosen_bytes(const struct trial_rank *f, bool made)
{
	struct trial *x = f->x;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		uint32_t stage = f->of[i], choice = x->choice[stage];

		if (choice && made) {
			trial_stage_bytes(x, stage, &f->keeps[i]);
		} else {
			f->keeps[i] = choice
				? ways_of(f, stage)->keeps[choice]
				: x->plain[stage];
		}
	}
	return trial_rank_bytes(x, f->rank, f->keeps);
}

double
trial_chosen_us(const struct trial_rank *f)
{
	double us = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		us += ways_of(f, f->of[i])->us[f->x->choice[f->of[i]]];
	}
	return us;
}

/* ---- choices that take least ---- */

/* How slots of a rank's stages count, each by itself. */
enum sharing {
	ALONE,		/* each stage has its own, as many as it needs */
	SHARED,		/* of a stage that has all slots of the rank */
	THEN		/* those that it has when the rank first has most */
};

static double
slot_bytes(const struct trial_rank *f, uint32_t stage,
	   const double slot[SPACE_NSPANS], enum sharing how)
{
	const struct space_slots *t = f->x->t->slots;
	double bytes = 0;
	uint32_t k;

	for (k = 0; k < SPACE_NSPANS; k++) {
		bytes += slot[k] * (how == ALONE  ? t->stage[k][stage]
				    : how == SHARED ? t->rank[k][f->rank]
						    : t->then[k][stage]);
	}
	return bytes;
}

/* Bytes of the rank without what layers save, with the quickest ways. */
static double
other_bytes(const struct trial_rank *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		f->keeps[i] = f->x->plain[f->of[i]];
		memset(f->keeps[i].slot, 0, sizeof f->keeps[i].slot);
	}
	return trial_moving_bytes(f->x, f->rank, f->keeps);
}

/* Bytes of what layers save with these ways, as the arena shares slots. */
static double
pool_bytes(const struct trial_rank *f, const uint32_t *way)
{
	struct trial *x = f->x;
	double bytes = 0;
	uint32_t k, i;

	for (k = 0; k < SPACE_NSPANS; k++) {
		for (i = 0; i < f->n; i++) {
			const struct trial_ways *w = ways_of(f, f->of[i]);

			x->slot[i] = w->keeps[way[i]].slot[k];
		}
		bytes += space_pool_bytes(&x->s->space, x->t->slots, k, f->rank,
					  f->of, f->n, x->slot,
					  SPACE_AS_LAID_OUT);
	}
	return bytes;
}

/* The quickest way with which a stage keeps at most `most_bytes`. */
static bool
quickest_within(const struct trial_rank *f, uint32_t stage, double most_bytes,
		uint32_t *way)
{
	const struct trial_ways *w = ways_of(f, stage);
	bool any = false;
	uint32_t i;

	for (i = 0; i < f->x->ways_of->at.n; i++) {
		if (slot_bytes(f, stage, w->keeps[i].slot, SHARED) <=
			    most_bytes &&
		    (!any || w->us[i] < w->us[*way])) {
			*way = i;
			any = true;
		}
	}
	return any;
}

/* Ways of a rank's stages that together fit. */
struct fitting {
	double us;		/* INFINITY: none is known */
	double bytes;		/* of what layers save, as they were found */
	uint32_t *way;		/* by stage of the rank */
};

/* Takes ways that fit in so many bytes, if they are the quickest so far. */
static void
offer(const struct trial_rank *f, struct fitting *best, const uint32_t *way,
      double bytes)
{
	double us = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		us += ways_of(f, f->of[i])->us[way[i]];
	}
	if (us < best->us) {
		best->us = us;
		best->bytes = bytes;
		memcpy(best->way, way, f->n * sizeof *way);
	}
}

/* Where all stages share their slots, each has a way that fits in one. */
static void
choose_shared(struct trial_rank *f, double most_bytes, struct fitting *best)
{
	uint32_t *way = arena_alloc(&f->tmp, f->n * sizeof *way), i;
	double bytes = 0;

	for (i = 0; i < f->n; i++) {
		const struct trial_ways *w = ways_of(f, f->of[i]);

		if (!quickest_within(f, f->of[i], most_bytes, &way[i])) {
			return;
		}
		bytes = larger(bytes, slot_bytes(f, f->of[i],
						 w->keeps[way[i]].slot,
						 SHARED));
	}
	offer(f, best, way, bytes);
}

double
trial_near_us(const struct trial_rank *f)
{
	return NEAR * f->x->bound_us / (double)f->x->t->nmicrobatches;
}

/*
 * Solves the problem where slots count by stage.  Sets `way`, and in *least_us
 * what any ways take at least then, if they are quicker than `us` by more than
 * trial_near_us().  False: none fit.
 */
static bool
choose_each(struct trial_rank *f, double most_bytes, enum sharing how,
	    double us, uint32_t *way, double *least_us)
{
	struct trial *x = f->x;
	struct arena *a = &f->tmp;
	uint32_t nways = x->ways_of->at.n, i, c;
	struct knapsack_stage *at = arena_alloc_raw(a, f->n * sizeof *at);
	struct knapsack all = { at, f->n, nways, most_bytes, trial_near_us(f),
				us, x->open, INFINITY, 0 };
	double each_us = 0;

	for (i = 0; i < f->n; i++) {
		const struct trial_ways *w = ways_of(f, f->of[i]);
		double *bytes = arena_alloc_raw(a, nways * sizeof *bytes);

		for (c = 0; c < nways; c++) {
			bytes[c] = slot_bytes(f, f->of[i], w->keeps[c].slot,
					      how);
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
	*least_us = fmin(fmin(each_us, us), all.left_us);
	return true;
}

/*
 * The quickest ways of two stages, which share slots or do not: all pairs are
 * looked at, whose bytes are those that the arena gives them.
 */
static void
choose_two(struct trial_rank *f, double most_bytes, struct fitting *best)
{
	const double *us[2] = { ways_of(f, f->of[0])->us,
				ways_of(f, f->of[1])->us };
	uint32_t way[2];
	double bytes;

	f->x->s->out->looked += (uint64_t)f->x->ways_of->at.n *
				f->x->ways_of->at.n;
	for (way[0] = 0; way[0] < f->x->ways_of->at.n; way[0]++) {
		for (way[1] = 0; way[1] < f->x->ways_of->at.n; way[1]++) {
			if (us[0][way[0]] + us[1][way[1]] >= best->us) {
				continue;
			}
			bytes = pool_bytes(f, way);
			if (bytes <= most_bytes) {
				offer(f, best, way, bytes);
			}
		}
	}
}

/*
 * The quickest ways of several stages, if each has slots of its own.  If they
 * share slots in groups there may be quicker ones.  However they do, slots take
 * no less than what they hold when the rank has most: so no ways are quicker
 * than those that fit if these alone count.
 */
static void
choose_several(struct trial_rank *f, double most_bytes, struct fitting *best)
{
	uint32_t *way = arena_alloc(&f->tmp, f->n * sizeof *way);
	double us = best->us, bytes = 0, least_us;
	uint32_t i;

	if (choose_each(f, most_bytes, ALONE, us, way, &least_us)) {
		for (i = 0; i < f->n; i++) {
			const struct trial_ways *w = ways_of(f, f->of[i]);

			bytes += slot_bytes(f, f->of[i], w->keeps[way[i]].slot,
					    ALONE);
		}
		offer(f, best, way, bytes);
		f->left_us = larger(best->us - least_us, 0);
	}
	if (isfinite(best->us) &&
	    choose_each(f, most_bytes, THEN, best->us, way, &least_us)) {
		f->grouped_us = larger(best->us - least_us, 0);
	}
}

/*
 * Gives a stage a quicker way with which all fit, as the arena shares slots: of
 * all stages the one that gains most.  False: there is none.
 */
static bool
quicken_one(struct trial_rank *f, double most_bytes, uint32_t *way)
{
	uint32_t n = f->x->ways_of->at.n, at = 0, to = 0, i, c;
	double gain = 0;

	for (i = 0; i < f->n; i++) {
		const double *us = ways_of(f, f->of[i])->us;
		uint32_t was = way[i];

		for (c = 0; c < n; c++) {
			way[i] = c;
			if (us[was] - us[c] > gain &&
			    pool_bytes(f, way) <= most_bytes) {
				gain = us[was] - us[c];
				at = i;
				to = c;
			}
		}
		way[i] = was;
	}
	f->x->s->out->looked += (uint64_t)f->n * n;
	if (gain > 0) {
		way[at] = to;
	}
	return gain > 0;
}

#define FEW_STAGES 8	/* of more, the slots of too many sets are counted */

/* Gives stages quicker ways, one after the other, as long as all fit. */
static void
quicken(struct trial_rank *f, double most_bytes, struct fitting *best)
{
	double us = best->us;
	uint32_t *way;

	if (!f->x->quicker || !isfinite(us) || f->n > FEW_STAGES) {
		return;
	}
	way = arena_dup(&f->tmp, best->way, f->n * sizeof *way);
	while (quicken_one(f, most_bytes, way)) {
	}
	offer(f, best, way, pool_bytes(f, way));
	f->left_us = larger(f->left_us - (us - best->us), 0);
	f->grouped_us = larger(f->grouped_us - (us - best->us), 0);
}

bool
trial_choose(struct trial_rank *f, double most_bytes)
{
	struct fitting best = { .us = INFINITY };
	double other = other_bytes(f);
	uint32_t i;

	f->left_us = f->grouped_us = 0;
	best.way = arena_alloc(&f->tmp, f->n * sizeof *best.way);
	most_bytes -= other;
	choose_shared(f, most_bytes, &best);
	if (f->x->evenly) {
		/* none but these */
	} else if (f->n == 2) {
		choose_two(f, most_bytes, &best);
	} else if (f->n > 2) {
		quicken(f, most_bytes, &best);
		choose_several(f, most_bytes, &best);
		quicken(f, most_bytes, &best);
	}
	for (i = 0; isfinite(best.us) && i < f->n; i++) {
		f->x->choice[f->of[i]] = best.way[i];
	}
	f->taken = other + best.bytes;
	arena_release(&f->tmp);
	return isfinite(best.us);
}

/* ---- ways that keep least ---- */

void
trial_choose_least(struct trial_rank *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		f->x->choice[f->of[i]] = ways_of(f, f->of[i])->least;
	}
}

/*
 * What a stage keeps at least with a way, as the program for one sequence is.
 * What is recomputed is in layers: after them, all ways save the same.
 */
static void
set_sure(const struct trial_rank *f, uint32_t stage, uint32_t way,
	 struct piece_bytes *b)
{
	const struct trial *x = f->x;
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	uint32_t k;

	piece_least_bytes(&x->s->space, &x->ways_of->at.at[way], lo, hi,
			  x->key.solo, (double)x->t->microbatch, b);
	for (k = 0; x->plain && k < SPACE_NSPANS; k++) {
		b->top[k] += x->plain[stage].end[k];
	}
}

static void
set_bytes(const struct trial_rank *f, uint32_t stage, uint32_t way,
	  enum trial_source from, struct piece_bytes *b)
{
	if (from == TRIAL_SURE) {
		set_sure(f, stage, way, b);
	} else if (from == TRIAL_MADE) {
		f->x->choice[stage] = way;
		trial_stage_bytes(f->x, stage, b);
	} else {
		*b = ways_of(f, stage)->keeps[way];
	}
}

static double
sent_bytes(const struct trial_rank *f, const struct piece_bytes *b)
{
	double copies = f->x->t->nmicrobatches > 1 ? 2 : 1;

	return copies * (b->sends[0] + b->sends[1]);
}

/* Bytes of a stage by itself but for temporary ones, when its rank has most. */
static double
bytes_then(const struct trial_rank *f, uint32_t stage,
	   const struct piece_bytes *b)
{
	return slot_bytes(f, stage, b->slot, THEN) +
	       slot_bytes(f, stage, b->top, THEN) + sent_bytes(f, b);
}

double
trial_sure_bytes(const struct trial_rank *f, uint32_t stage, uint32_t way)
{
	struct piece_bytes b;

	set_sure(f, stage, way, &b);
	return bytes_then(f, stage, &b);
}

/* What a stage has at least of each kind of bytes, with any of its ways. */
struct least {
	struct piece_bytes each;	/* by itself, whatever way has it */
	/* then, without temporary bytes and with them */
	double own, both;
	uint32_t way;		/* that has the latter */
	bool *left;		/* by way: it is one of them */
};

static void
lower_all(struct piece_bytes *to, const struct piece_bytes *b)
{
	uint32_t k;

	for (k = 0; k < SPACE_NSPANS; k++) {
		to->slot[k] = b->slot[k] < to->slot[k] ? b->slot[k]
						       : to->slot[k];
		to->top[k] = b->top[k] < to->top[k] ? b->top[k] : to->top[k];
	}
	for (k = 0; k < 2; k++) {
		to->sends[k] = b->sends[k] < to->sends[k] ? b->sends[k]
							  : to->sends[k];
	}
	to->temp = b->temp < to->temp ? b->temp : to->temp;
}

static void
lower(struct least *to, double own, uint32_t way, const struct piece_bytes *b)
{
	if (!isfinite(to->own)) {
		to->each = *b;
	}
	lower_all(&to->each, b);
	to->own = own < to->own ? own : to->own;
	if (own + b->temp < to->both) {
		to->both = own + b->temp;
		to->way = way;
	}
}

/*
 * Finds what each stage has at least.  Ways with which a stage has more than
 * `most` by those for one sequence are left out: they do not fit whatever the
 * others have.  sure: by stage, what these have.
 */
static void
find_least(struct trial_rank *f, enum trial_source from,
	   const struct least *sure, double most, struct least *to)
{
	uint32_t n = f->x->ways_of->at.n, i, c;
	struct piece_bytes b;
	double others = 0;

	for (i = 0; sure && i < f->n; i++) {
		others += sure[i].own;
	}
	for (i = 0; i < f->n; i++) {
		to[i] = (struct least){ .own = INFINITY, .both = INFINITY };
		to[i].left = arena_alloc(&f->tmp, n);
		for (c = 0; c < n; c++) {
			if (sure) {
				set_sure(f, f->of[i], c, &b);
				if (others - sure[i].own +
				    bytes_then(f, f->of[i], &b) > most) {
					continue;
				}
			}
			to[i].left[c] = true;
			set_bytes(f, f->of[i], c, from, &b);
			lower(&to[i], bytes_then(f, f->of[i], &b), c, &b);
		}
	}
}

/*
 * However slots are shared, those of a span take no less than what they have at
 * any one time: so the bytes of stages add up, and each has at least that of
 * its best way.  The function with most temporary bytes is of one stage, whose
 * own and temporary bytes are of one way.
 */
static double
least_then(const struct trial_rank *f, const struct least *at)
{
	double all = 0, temp = 0;
	uint32_t i;

	for (i = 0; i < f->n && isfinite(at[i].own); i++) {
		all += at[i].own;
		temp = larger(temp, at[i].both - at[i].own);
	}
	return i < f->n ? INFINITY : all + temp;	/* no way is left */
}

/* Whatever stages share slots, with these bytes but temporary ones. */
static double
pooled_bytes(const struct trial_rank *f, const struct least *at)
{
	struct trial *x = f->x;
	double all = 0;
	uint32_t k, i;

	for (k = 0; k < 2 * SPACE_NSPANS; k++) {
		uint32_t span = k % SPACE_NSPANS;

		for (i = 0; i < f->n; i++) {
			const struct piece_bytes *b = &at[i].each;

			x->slot[i] = larger(k == span ? b->slot[span]
						      : b->top[span], 0);
		}
		all += space_pool_bytes(&x->s->space, x->t->slots, span,
					f->rank, f->of, f->n, x->slot,
					SPACE_AT_LEAST);
	}
	for (i = 0; i < f->n; i++) {
		all += sent_bytes(f, &at[i].each);
	}
	return all;
}

/*
 * The same with temporary bytes of a stage, which are of one way with what that
 * keeps: the least over its ways, if all other stages have their least.
 */
static double
with_temp(const struct trial_rank *f, struct least *at, uint32_t i,
	  enum trial_source from)
{
	struct piece_bytes each = at[i].each;
	double least = INFINITY, all;
	uint32_t c;

	for (c = 0; c < f->x->ways_of->at.n; c++) {
		if (at[i].left[c]) {
			set_bytes(f, f->of[i], c, from, &at[i].each);
			all = pooled_bytes(f, at) + at[i].each.temp;
			least = all < least ? all : least;
		}
	}
	at[i].each = each;
	return least;
}

static double
least_pooled(const struct trial_rank *f, struct least *at,
	     enum trial_source from)
{
	double most = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		const uint32_t *like = f->x->like;

		if (i == 0 || like[f->of[i]] != like[f->of[i - 1]]) {
			most = larger(most, with_temp(f, at, i, from));
		}
	}
	return most;
}

double
trial_least_bytes(struct trial_rank *f, enum trial_source from)
{
	struct least *at = arena_alloc(&f->tmp, f->n * sizeof *at);
	struct least *sure = NULL;
	double bytes;
	uint32_t i;

	if (from == TRIAL_MADE) {
		sure = arena_alloc(&f->tmp, f->n * sizeof *sure);
		find_least(f, TRIAL_SURE, NULL, INFINITY, sure);
	}
	find_least(f, from, sure, f->free_bytes, at);
	bytes = least_then(f, at);
	if (sure && f->n > 1 && bytes <= f->free_bytes) {
		bytes = larger(bytes, least_pooled(f, at, from));
	}
	for (i = 0; i < f->n; i++) {
		f->x->choice[f->of[i]] = at[i].way;
	}
	arena_release(&f->tmp);
	return larger(bytes, f->x->update_temp[f->rank]);
}

/* Tries each way of a stage of the rank; keeps that with the fewest bytes. */
static bool
lower_stage(struct trial_rank *f, uint32_t i, double *bytes)
{
	uint32_t *choice = &f->x->choice[f->of[i]], was = *choice, best = was;
	uint32_t c;

	for (c = 0; c < f->x->ways_of->at.n; c++) {
		double of;

		*choice = c;
		of = trial_chosen_bytes(f, true);
		if (of < *bytes) {
			*bytes = of;
			best = c;
		}
	}
	*choice = best;
	return best != was;
}

void
trial_lower_bytes(struct trial_rank *f)
{
	double bytes = trial_chosen_bytes(f, true);
	bool lower = true;
	uint32_t i;

	while (lower) {
		lower = false;
		for (i = 0; i < f->n; i++) {
			lower |= lower_stage(f, i, &bytes);
		}
	}
}

/*
 * How the stages of a rank recompute: what each way takes and keeps, which ways
 * together take least, and what any ways keep at least.  Used by search_fit.c.
 */
#include "passes/search/search_fit.h"
#include "passes/solve/lagrange.h"
#include "passes/solve/pooling.h"

#include <math.h>
#include <string.h>

#define NEAR 1e-6		/* choices of times so near are as good */

/* fmax, without its rules for NaN: no argument is, and calls are many. */
static double
larger(double a, double b)
{
	return a > b ? a : b;
}

/* ---- what ways take and keep ---- */

/* What a stage keeps with a way: as the programs for one sequence say. */
static void
guess_bytes(const struct trial *x, uint32_t stage, uint32_t way,
	    struct piece_bytes *b)
{
	const struct piece_choice *c = &x->ways_of->at.at[way];
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	double times = (double)x->t->microbatch;
	uint32_t k;

	*b = x->plain[stage];
	b->temp = larger(b->temp + times * c->temp, 0);
	for (k = 0; k < SPACE_NSPANS; k++) {
		b->slot[k] = larger(b->slot[k] - times * piece_saved_bytes(
			&x->s->space, c, k, lo, hi), 0);
	}
}

/* The same as the programs of the plan's lengths say. */
static void
made_bytes(const struct trial_rank *f, uint32_t stage, uint32_t way,
	   struct piece_bytes *b)
{
	uint32_t was = f->x->choice[stage];

	f->x->choice[stage] = way;
	trial_stage_bytes(f->x, stage, b);
	f->x->choice[stage] = was;
}

static const struct trial_ways *
ways_of(const struct trial_rank *f, uint32_t stage)
{
	struct trial *x = f->x;
	struct trial_ways *w = &f->ways[x->like[stage]];
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	double least = INFINITY, all;
	uint32_t n = x->ways_of->at.n, i, k;

	if (w->us && w->made == f->made) {
		return w;
	}
	w->made = f->made;
	w->us = arena_alloc_raw(&x->s->space.tmp, n * sizeof *w->us);
	w->keeps = arena_alloc_raw(&x->s->space.tmp, n * sizeof *w->keeps);
	for (i = 0; i < n; i++) {
		struct piece_bytes *b = &w->keeps[i];

		w->us[i] = (double)x->t->microbatch * piece_extra_us(
			&x->s->space, &x->ways_of->at.at[i], lo, hi);
		if (f->made) {
			made_bytes(f, stage, i, b);
		} else {
			guess_bytes(x, stage, i, b);
		}
		for (k = 0, all = 0; k < SPACE_NSPANS; k++) {
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

/* Bytes of a stage's slots, each span's that many times. */
static double
then_bytes(const struct trial_rank *f, uint32_t stage,
	   const double slot[SPACE_NSPANS])
{
	const struct space_slots *t = f->x->t->slots;
	double bytes = 0;
	uint32_t k;

	for (k = 0; k < SPACE_NSPANS; k++) {
		bytes += slot[k] * t->then[k][stage];
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

/* A rank while its ways are chosen. */
struct choosing {
	struct trial_rank *f;
	double most_bytes;	/* of what layers save */
	struct pooling p;	/* of its units of stages: see space_unit */
	double taken;		/* what the ways have that fit_in saw last */
};

/* Whether these ways of units fit, as the arena shares slots. */
static bool
fit_in(void *user, const uint32_t *nth)
{
	struct choosing *c = user;
	struct trial_rank *f = c->f;
	struct trial *x = f->x;
	double bytes = 0;
	uint32_t k, i;

	for (k = 0; k < SPACE_NSPANS; k++) {
		for (i = 0; i < f->n; i++) {
			x->slot[i] = ways_of(f, f->of[i])
				->keeps[nth[space_unit(i, f->n)]].slot[k];
		}
		bytes += space_pool_bytes(&x->s->space, x->t->slots, k, f->rank,
					  f->of, f->n, x->slot,
					  SPACE_AS_LAID_OUT);
	}
	c->taken = bytes <= c->most_bytes ? bytes : c->taken;
	return bytes <= c->most_bytes;
}

/* Whether n stages of the rank are like others, one by one. */
static bool
are_like(const struct trial_rank *f, uint32_t i, uint32_t j, uint32_t n)
{
	const uint32_t *like = f->x->like;
	uint32_t k;

	for (k = 0; k < n && like[f->of[i + k]] == like[f->of[j + k]]; k++) {
	}
	return k == n;
}

/* The ways of n stages of the rank together, from the i-th on. */
static struct pooling_ways
ways_of_unit(struct trial_rank *f, uint32_t i, uint32_t n)
{
	uint32_t nways = f->x->ways_of->at.n, j, k, w;
	struct pooling_way *at = arena_alloc(&f->tmp, nways * sizeof *at);

	for (j = 0; j < n; j++) {
		const struct trial_ways *of = ways_of(f, f->of[i + j]);

		for (w = 0; w < nways; w++) {
			at[w].nth = w;
			at[w].us += of->us[w];
			for (k = 0; k < SPACE_NSPANS; k++) {
				at[w].size[k] = larger(at[w].size[k],
						       of->keeps[w].slot[k]);
			}
		}
	}
	return (struct pooling_ways){ at, pooling_sort(at, nways), n };
}

/* Sets the units of the rank's stages. */
static void
set_units(struct trial_rank *f, struct pooling *p)
{
	uint32_t first[SPACE_UNITS], i, j, n;

	for (i = 0; i < f->n; i += n) {
		uint32_t unit = p->n++;

		first[unit] = i;
		for (n = 0; i + n < f->n &&
		     space_unit(i + n, f->n) == unit; n++) {
		}
		for (j = 0; j < unit && (p->ways[j].parts != n ||
					 !are_like(f, first[j], i, n)); j++) {
		}
		p->ways[unit] = j < unit ? p->ways[j] : ways_of_unit(f, i, n);
	}
}

double
trial_near_us(const struct trial_rank *f)
{
	return NEAR * f->x->bound_us / (double)f->x->t->nmicrobatches;
}

/*
 * What any ways take at least, however slots are shared: then they take no less
 * than what they hold when the rank has most.
 */
static double
least_us(struct trial_rank *f, double most_bytes)
{
	uint32_t nways = f->x->ways_of->at.n, i, w;
	size_t n = (size_t)f->n * nways;
	struct lagrange p = {
		.n = f->n, .nways = nways, .room = most_bytes,
		.us = arena_alloc_raw(&f->tmp, n * sizeof *p.us),
		.bytes = arena_alloc_raw(&f->tmp, n * sizeof *p.bytes)
	};

	for (i = 0; i < f->n; i++) {
		const struct trial_ways *of = ways_of(f, f->of[i]);

		for (w = 0; w < nways; w++) {
			p.us[i * nways + w] = of->us[w];
			p.bytes[i * nways + w] =
				then_bytes(f, f->of[i], of->keeps[w].slot);
		}
	}
	return lagrange_least_us(&p);
}

/* Partial choices of a set of stages: a bound of those that are dropped beyond
 * so many counts in the gap. */
#define MOST_OPEN 256

_Static_assert((int)SPACE_UNITS <= POOLING_STAGES &&
	       (int)SPACE_NSPANS <= POOLING_KINDS,
	       "a rank's stages and spans are those of a pooling");

bool
trial_choose(struct trial_rank *f, double most_bytes)
{
	struct trial *x = f->x;
	double other = other_bytes(f), us = 0;
	struct choosing c = {
		.f = f, .most_bytes = most_bytes - other,
		.p = { .room = most_bytes - other, .near_us = trial_near_us(f),
		       .most = x->exact ? MOST_OPEN : 0, .evenly = x->evenly,
		       .fits = fit_in, .user = &c }
	};
	uint32_t nth[SPACE_UNITS], i;
	bool ok;

	set_units(f, &c.p);
	for (i = 0; i < SPACE_NSPANS; i++) {
		c.p.slots[i] = space_set_slots(&x->s->space, x->t->slots, i,
					       f->rank, f->of, f->n);
	}
	ok = pooling_choose(&f->tmp, &c.p, nth);
	x->s->out->looked += c.p.looked;
	for (i = 0; ok && i < f->n; i++) {
		x->choice[f->of[i]] = nth[space_unit(i, f->n)];
	}
	us = ok ? trial_chosen_us(f) : 0;
	f->left_us = larger(us - c.p.left_us, 0);
	f->grouped_us = 0;
	if (ok && f->n > 1 && (f->n > SPACE_UNITS || x->t->sched->split)) {
		f->grouped_us = larger(us - f->left_us -
				       least_us(f, c.most_bytes), 0);
	}
	f->taken = other + c.taken;
	arena_release(&f->tmp);
	return ok;
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
	double bytes, room, temp = 0;
	bool lower = true;
	uint32_t i;

	trial_choose_least(f);
	bytes = trial_chosen_bytes(f, true);
	while (lower) {
		lower = false;
		for (i = 0; i < f->n; i++) {
			lower |= lower_stage(f, i, &bytes);
		}
	}
	/* of temporary bytes others may have fewer */
	room = f->free_bytes - other_bytes(f);
	for (i = 0; i < f->n; i++) {
		temp = larger(temp, f->keeps[i].temp);
	}
	f->left_us = larger(trial_chosen_us(f) - least_us(f, room + temp), 0);
	arena_release(&f->tmp);
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
	} else {
		made_bytes(f, stage, way, b);
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
	return then_bytes(f, stage, b->slot) +
	       then_bytes(f, stage, b->top) + sent_bytes(f, b);
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
lower(struct least *to, double own, const struct piece_bytes *b)
{
	if (!isfinite(to->own)) {
		to->each = *b;
	}
	lower_all(&to->each, b);
	to->own = own < to->own ? own : to->own;
	to->both = own + b->temp < to->both ? own + b->temp : to->both;
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
			lower(&to[i], bytes_then(f, f->of[i], &b), &b);
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

	if (from == TRIAL_MADE) {
		sure = arena_alloc(&f->tmp, f->n * sizeof *sure);
		find_least(f, TRIAL_SURE, NULL, INFINITY, sure);
	}
	find_least(f, from, sure, f->free_bytes, at);
	bytes = least_then(f, at);
	if (sure && f->n > 1 && bytes <= f->free_bytes) {
		bytes = larger(bytes, least_pooled(f, at, from));
	}
	arena_release(&f->tmp);
	return larger(bytes, f->x->update_temp[f->rank]);
}

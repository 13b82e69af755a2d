/*
 * What a rank takes at least, if its stages recompute so much that it fits.
 * With this a plan is left out before the programs of any slower way are made.
 *
 * Proof.  Let stage i take at least u(i, w) with way w and keep at least
 * b(i, w), and let the stages of a rank together have at most B bytes.  For any
 * price p >= 0 of a byte, ways w(i) that fit take
 *
 *   sum of u(i, w(i)) >= sum of u(i, w(i)) + p (sum of b(i, w(i)) - B)
 *                     >= sum of the least u(i, w) + p b(i, w) over w, less p B.
 *
 * The last is a bound for each p, and the best p is found by bisection (the
 * Lagrangian bound of a multiple-choice knapsack).  u is piece_stage_least with
 * the maps of the way, b is trial_sure_bytes.
 */
#include "passes/search/search_fit.h"

#include <math.h>
#include <string.h>

#define STEPS 24	/* until the price is found, about */

/* A rank: by stage and way, what it takes and keeps at least. */
struct rank_ways {
	uint32_t n, nways;
	double *us, *bytes;
	double free_bytes;	/* for all of them */
};

static void
price_stage(const struct trial_rank *f, uint32_t stage, double *us)
{
	const struct trial *x = f->x;
	int64_t lo = x->first[stage], hi = lo + x->layers[stage];
	double least[SCHED_NKINDS];
	uint32_t c, k;

	for (c = 0; c < x->ways_of->at.n; c++) {
		const struct piece_choice *way = &x->ways_of->at.at[c];

		piece_stage_least(&x->s->space, x->cost, way->maps,
				  x->dev_of[stage], lo, hi, least);
		for (k = 0, us[c] = 0; k < SCHED_NKINDS; k++) {
			us[c] += least[k];
		}
	}
}

static void
price_ways(struct trial_rank *f, struct rank_ways *x)
{
	const uint32_t *like = f->x->like;
	size_t bytes;
	uint32_t i, c;

	x->n = f->n;
	x->nways = f->x->ways_of->at.n;
	x->free_bytes = f->free_bytes;
	bytes = (size_t)x->n * x->nways * sizeof *x->us;
	x->us = arena_alloc_raw(&f->tmp, bytes);
	x->bytes = arena_alloc_raw(&f->tmp, bytes);
	for (i = 0; i < x->n; i++) {
		double *us = &x->us[i * x->nways];

		if (i && like[f->of[i]] == like[f->of[i - 1]] &&
		    f->x->dev_of[f->of[i]] == f->x->dev_of[f->of[i - 1]]) {
			memcpy(us, us - x->nways, x->nways * sizeof *us);
		} else {
			price_stage(f, f->of[i], us);
		}
		for (c = 0; c < x->nways; c++) {
			x->bytes[i * x->nways + c] =
				trial_sure_bytes(f, f->of[i], c);
		}
	}
}

/* The bound with that price of a byte.  *over: bytes that are too many then. */
static double
priced_us(const struct rank_ways *x, double price, double *over)
{
	double all = 0, bytes = 0;
	uint32_t i, c;

	for (i = 0; i < x->n; i++) {
		const double *us = &x->us[i * x->nways];
		const double *of = &x->bytes[i * x->nways];
		double least = us[0] + price * of[0];
		uint32_t way = 0;

		for (c = 1; c < x->nways; c++) {
			double all_us = us[c] + price * of[c];

			way = all_us < least ? c : way;
			least = all_us < least ? all_us : least;
		}
		all += least;
		bytes += of[way];
	}
	*over = bytes - x->free_bytes;
	return all - price * x->free_bytes;
}

/* The best bound that is found. */
static double
best_us(const struct rank_ways *x)
{
	double over, best = priced_us(x, 0, &over), lo = 0, hi = INFINITY;
	double price = best / x->free_bytes;
	uint32_t i;

	for (i = 0; (i > 0 || over > 0) && i < STEPS; i++) {
		best = fmax(best, priced_us(x, price, &over));
		*(over > 0 ? &lo : &hi) = price;
		price = isfinite(hi) ? (lo + hi) / 2 : 4 * price;
	}
	return best;
}

bool
trial_is_slow_rank(struct trial_rank *f)
{
	struct trial *x = f->x;
	struct rank_ways p;
	double us;

	/* first walk: see trial_is_asked; without maps all ways are alike */
	if (f->full || x->s->guessing || trial_is_asked(x) ||
	    x->ways_of->at.n == 1 || x->s->space.devs.n > 1) {
		return false;
	}
	price_ways(f, &p);
	us = best_us(&p) * (1 - PIECE_NEAR);
	arena_release(&f->tmp);
	return trial_is_slow(x, f->rank, us);
}

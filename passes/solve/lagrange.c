/*
 * Proof.  Let stage i take u(i, w) with way w and keep b(i, w), and let all
 * stages have B bytes.  For any price p >= 0 of a byte, ways w(i) that fit take
 *
 *   sum of u(i, w(i)) >= sum of u(i, w(i)) + p (sum of b(i, w(i)) - B)
 *                     >= sum of the least u(i, w) + p b(i, w) over w, less p B.
 *
 * The last is a bound for each p, and the best p is found by bisection (the
 * Lagrangian bound of a multiple-choice knapsack).
 */
#include "passes/solve/lagrange.h"

#include <math.h>

#define STEPS 24	/* until the price is found, about */

void
lagrange_open(struct arena *a, struct lagrange *x, uint32_t n, uint32_t nways,
	      double room)
{
	size_t all = (size_t)n * nways;

	*x = (struct lagrange){ .n = n, .nways = nways, .room = room,
				.us = arena_alloc_raw(a, all * sizeof *x->us),
				.bytes = arena_alloc_raw(a, all *
							 sizeof *x->bytes) };
}

/* The bound with that price of a byte.  *over: bytes that are too many then. */
static double
priced_us(const struct lagrange *x, double price, double *over)
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
	*over = bytes - x->room;
	return all - price * x->room;
}

/* The time of the slowest ways, of those that there are. */
static double
most_us(const struct lagrange *x)
{
	double all = 0, most;
	uint32_t i, c;

	for (i = 0; i < x->n; i++) {
		for (c = 0, most = 0; c < x->nways; c++) {
			double us = x->us[i * x->nways + c];

			most = isfinite(us) ? fmax(most, us) : most;
		}
		all += most;
	}
	return all;
}

double
lagrange_least_us(const struct lagrange *x)
{
	double over, best = priced_us(x, 0, &over), lo = 0, hi = INFINITY;
	double price = most_us(x) / x->room;
	uint32_t i;

	for (i = 0; (i > 0 || over > 0) && i < STEPS; i++) {
		best = fmax(best, priced_us(x, price, &over));
		*(over > 0 ? &lo : &hi) = price;
		price = isfinite(hi) ? (lo + hi) / 2 : 4 * price;
	}
	return best;
}

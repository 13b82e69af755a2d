/*
 * Issue slots of what becomes of a contraction's sums, as cost_slots.def has
 * them, and the time that they add to its products.
 */
#include "passes/price/cost.h"

#include <math.h>

#define SLOTS(name, slots, what) [COSTS_##name] = (slots),
const double cost_slots[COSTS_NKINDS] = {
#include "passes/price/cost_slots.def"
};
#undef SLOTS

/* Threads whose instructions a multiprocessor issues in a cycle. */
#define ISSUED 128
/* Elements of a tile of both warpgroups. */
#define TILE (128 * 256)
/* Elements of a tile of a team that takes turns. */
#define TURNS_TILE (128 * 128)

/* Most vectors whose loads are in flight, and the elements of these, for which
 * a thread has registers. */
#define MOST_AT_ONCE 4
#define EARLY 32

int64_t
cost_at_once(int64_t loads, int64_t lanes, bool pair, int64_t vectors,
	     int64_t threads)
{
	int64_t n = loads ? MOST_AT_ONCE : 1;
	/* of so many turns the last may be of some threads alone */
	bool uneven = vectors % threads != 0 &&
		      vectors >= MOST_AT_ONCE * threads;

	while (n > 1 && (n * (pair ? 2 : 1) * lanes * loads > EARLY ||
			 (!uneven && vectors % (n * threads) != 0))) {
		n /= 2;
	}
	return n;
}

double
cost_wait_slots(int64_t loads, int64_t lanes, bool pair, int64_t elems,
		int64_t threads)
{
	int64_t each = lanes * (pair ? 2 : 1);

	return !loads ? 0 : cost_slots[COSTS_WAIT] / (double)(each *
		cost_at_once(loads, lanes, pair, elems / each, threads));
}

double
cost_last_tiles(const struct target_device *d, double sums)
{
	return fmin(1, TILE * (double)d->units / sums);
}

/* What other warps add, which do one tile at a time. */
static double
warps_us(const struct target_device *d, const struct cost_put *x, double sums,
	 double math_us)
{
	double each_us = x->warps_slots * COST_ALONE /
			 (COST_WARPS_THREADS * d->clock_mhz);

	return fmax(sums * each_us / (double)d->units - math_us, 0) +
	       TILE * each_us;
}

/* What those add who multiply; in turns, or after a tile of both. */
static double
own_us(const struct target_device *d, const struct cost_put *x, double sums,
       double math_us)
{
	double each_us = x->slots / (ISSUED * d->clock_mhz);
	double all_us = sums * each_us / (double)d->units;

	return fmin(all_us, fmax(COST_TURNS_TIMES * math_us, all_us) +
			    TURNS_TILE * each_us - math_us);
}

bool
cost_put_by_warps(const struct target_device *d, const struct cost_put *x,
		  double sums, double math_us)
{
	return x->slots > 0 && x->beside == COST_BESIDE_WARPS &&
	       warps_us(d, x, sums, math_us) < own_us(d, x, sums, math_us);
}

double
cost_put_us(const struct target_device *d, const struct cost_put *x,
	    double sums, double math_us)
{
	double each_us = x->slots / (ISSUED * d->clock_mhz);
	double all_us = sums * each_us / (double)d->units;
	double last_us = TURNS_TILE * each_us;

	if (x->slots <= 0) {
		return 0;
	}
	switch (x->beside) {
	case COST_BESIDE_TURNS:
		return own_us(d, x, sums, math_us);
	case COST_BESIDE_WARPS:
		return fmin(own_us(d, x, sums, math_us),
			    warps_us(d, x, sums, math_us));
	case COST_BESIDE_THREAD:
		return fmax(all_us - math_us, 0) + last_us;
	default:
		return all_us;
	}
}

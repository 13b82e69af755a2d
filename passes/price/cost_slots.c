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
/* Elements of a tile of a team that takes turns; and the cycles of its stages
 * in those of a tile of both, by the estimate that chooses tiles: 722 for what
 * two tiles of 128 x 128 load, where 128 x 256 multiply in 1078
 * (codegen/cuda/dot/cuda_dot90.c). */
#define TURNS_TILE (128 * 128)
#define TURNS_TIMES (2 * 722 / 1078.)

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
		return fmin(all_us, fmax(TURNS_TIMES * math_us, all_us) +
				    last_us - math_us);
	case COST_BESIDE_THREAD:
		return fmax(all_us - math_us, 0) + last_us;
	default:
		return all_us;
	}
}

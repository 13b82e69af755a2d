/*
 * What the instructions cost that follow a tile's products, as counted in
 * kernels; passes/price/cost_slots.def has the counts.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

/* Of a thread, for all of its sums of a tile on which an epilogue runs. */
static double
epilogue_slots(const struct dot90 *p)
{
	double each = cost_slots[COSTS_COPY] +
		      p->nest.slots / (double)dot90_each(p);
	int64_t parts = dot90_width(p) / p->part *
			(dot90_by_warps(p) ? dot90_units(p) : 1);

	return each * (double)(p->rows * p->cols) /
	       (double)dot90_team_threads(p) +
	       cost_slots[COSTS_PART] * (double)parts;
}

/* Of a launch. */
static double
mean_slots(const struct dot90 *p, double (*of)(const struct dot90 *))
{
	double all = 0;
	uint32_t i;

	for (i = 0; i < p->nmembers; i++) {
		const struct dot90 *q = &p->member[i];

		all += of(q) * (double)(q->row_blocks *
			q->col_blocks * q->d->batch.size);
	}
	return all / (double)p->tiles;
}

double
dot90_beside_slots(const struct dot90 *p)
{
	double each;

	if (p->nmembers) {
		return mean_slots(p, dot90_beside_slots);
	}
	if (!p->beside) {
		return 0;
	}
	each = p->beside_nest.slots +
	       cost_wait_slots(p->beside_nest.loads, p->beside_nest.lanes,
			       p->beside_nest.pair, p->rows * p->part,
			       DOT90_BESIDE);
	return each / (double)dot90_each(p) * (double)(p->rows * p->cols) /
	       DOT90_BESIDE;
}

double
dot90_put_slots(const struct dot90 *p)
{
	const struct cu_dot *d = p->d;
	double each;

	if (p->nmembers) {
		return mean_slots(p, dot90_put_slots);
	}
	if (p->beside) {
		return cost_slots[COSTS_STAGE] * (double)(p->rows * p->cols) /
		       (double)dot90_team_threads(p);
	}
	if (p->part && d->result == CU_DOT_BOX) {
		return epilogue_slots(p);
	}
	if (p->box) {
		each = cost_slots[p->adds ? COSTS_ADD_BOX : COSTS_BOX];
	} else if (!p->part) {
		each = cost_slots[d->result == CU_DOT_ADD ? COSTS_ADD
						       : COSTS_STORE];
	} else {
		each = cost_slots[COSTS_ADD_HALF];
	}
	return each * (double)(p->rows * p->cols) /
	       (double)dot90_team_threads(p);
}

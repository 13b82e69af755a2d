/*
 * What the instructions cost that follow a tile's products, as counted in
 * kernels; cuda_dot90_slots.def has the counts.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#define SLOTS(name, slots, what) DOT90_##name,
enum dot90_slots {
#include "codegen/cuda/dot/cuda_dot90_slots.def"
	DOT90_NSLOTS
};
#undef SLOTS

#define SLOTS(name, slots, what) slots,
static const double slots_of[DOT90_NSLOTS] = {
#include "codegen/cuda/dot/cuda_dot90_slots.def"
};
#undef SLOTS

/* What a thread does for each part of a tile that goes through shared memory,
 * whatever the part has: where it lies, which of its sums are in it, and two
 * barriers (counted 2026-11-30: 40 of 324 for a part of 32 columns). */
#define PART 40

double
dot90_nest_slots(const struct cu_dot *d)
{
	struct arena *a = d->k->c->a;
	struct cu_nest nest = cu_nest_of(a, d->x,
					 ir_type(d->k->c->m, d->value));
	struct cu_leaf leaf = { .value = d->value, .at = "leaf" };
	const struct cg_split whole = { .chunks = 1 };
	const struct cu_place none = { 0 };

	cu_place_leaf(a, &nest, &leaf, &d->dims[0], &whole, &none,
		      d->m.size * d->n.size);
	cu_place_leaf(a, &nest, &leaf, &d->dims[1], &whole, &none, d->n.size);
	cu_place_leaf(a, &nest, &leaf, &d->dims[2], &whole, &none, 1);
	cu_nest_add_leaf(a, &nest, leaf);
	return cu_nest_slots(d->k, &nest);
}

/* Of a thread, for all of its sums of a tile on which an epilogue runs. */
static double
epilogue_slots(const struct dot90 *p)
{
	double each = slots_of[DOT90_COPY] + p->nest_slots;
	int64_t parts = p->cols / p->part *
			(dot90_by_warps(p) ? dot90_units(p) : 1);

	return each * (double)(p->rows * p->cols) /
	       (double)dot90_team_threads(p) + PART * (double)parts;
}

/* Of a launch. */
static double
mean_slots(const struct dot90 *p)
{
	double all = 0;
	uint32_t i;

	for (i = 0; i < p->nmembers; i++) {
		const struct dot90 *q = &p->member[i];

		all += dot90_put_slots(q) * (double)(q->row_blocks *
			q->col_blocks * q->d->batch.size);
	}
	return all / (double)p->tiles;
}

double
dot90_put_slots(const struct dot90 *p)
{
	const struct cu_dot *d = p->d;
	double each;

	if (p->nmembers) {
		return mean_slots(p);
	}
	if (p->part && d->result == CU_DOT_BOX) {
		return epilogue_slots(p);
	}
	if (p->box) {
		each = slots_of[p->adds ? DOT90_ADD_BOX : DOT90_BOX];
	} else if (!p->part) {
		each = slots_of[d->result == CU_DOT_ADD ? DOT90_ADD
						       : DOT90_STORE];
	} else {
		each = slots_of[DOT90_ADD_HALF];
	}
	return each * (double)(p->rows * p->cols) /
	       (double)dot90_team_threads(p);
}

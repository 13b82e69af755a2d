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

/* Operations of the epilogue for each element. */
static double
epilogue_flops(const struct cu_dot *d)
{
	struct ir_module *m = d->k->c->m;
	double all = 0;
	uint32_t i;

	for (i = 0; i < d->x->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, d->x->nodes.at[i]);

		all += x->result == d->value ? 0 : ir_local_flops(m, x);
	}
	return all / ((double)d->batch.size * (double)d->m.size *
		      (double)d->n.size);
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
	if (p->box) {
		each = slots_of[p->adds ? DOT90_ADD_BOX : DOT90_BOX];
	} else if (!p->part) {
		each = slots_of[d->result == CU_DOT_ADD ? DOT90_ADD
						       : DOT90_STORE];
	} else if (d->result == CU_DOT_BOX) {
		each = slots_of[DOT90_LEAF] +
		       slots_of[DOT90_FLOP] * epilogue_flops(d);
	} else {
		each = slots_of[DOT90_ADD_HALF];
	}
	return each * (double)(p->rows * p->cols) /
	       (double)dot90_team_threads(p);
}

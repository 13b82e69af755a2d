/*
 * What the instructions cost that follow a tile's products, as counted in
 * kernels; passes/price/cost_slots.def has the counts.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

double
dot90_nest_slots(const struct cu_dot *d, bool own_type)
{
	const struct ir_module *m = d->k->c->m;
	struct arena *a = d->k->c->a;
	struct cu_nest nest = cu_nest_of(a, d->x,
					 ir_type(d->k->c->m, d->value));
	const struct cg_split whole = { .chunks = 1 };
	struct cu_leaf leaf = { .value = d->value, .at = "leaf",
				.own_type = own_type };
	const struct cu_place none = { 0 };
	uint32_t i;

	cu_place_leaf(a, &nest, &leaf, &d->dims[0], &whole, &none,
		      d->m.size * d->n.size);
	cu_place_leaf(a, &nest, &leaf, &d->dims[1], &whole, &none, d->n.size);
	cu_place_leaf(a, &nest, &leaf, &d->dims[2], &whole, &none, 1);
	cu_nest_add_leaf(a, &nest, leaf);
	for (i = 0; i < d->x->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, d->x->nodes.at[i]);

		/* the other one of a pair */
		if (ir_is(n->op, IRF_CONTRACTS) && n->result != d->value) {
			leaf.value = n->result;
			cu_nest_add_leaf(a, &nest, leaf);
		}
	}
	return cu_nest_slots(d->k, &nest, own_type);
}

/* Of a thread, for all of its sums of a tile on which an epilogue runs. */
static double
epilogue_slots(const struct dot90 *p)
{
	double each = cost_slots[COSTS_COPY] +
		      p->nest_slots / (double)dot90_each(p);
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
	if (p->nmembers) {
		return mean_slots(p, dot90_beside_slots);
	}
	return !p->beside ? 0 : p->beside_slots / (double)dot90_each(p) *
		(double)(p->rows * p->cols) / DOT90_BESIDE;
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

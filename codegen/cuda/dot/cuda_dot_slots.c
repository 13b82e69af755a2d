/*
 * What the instructions cost that follow the products of a tile which all
 * threads of a block have multiplied, as counted in kernels;
 * passes/price/cost_slots.def has the counts, and the price counts the same
 * from a kernel's nodes.
 */
#include "codegen/cuda/dot/cuda_dot.h"

/* Rows of the least box on which an epilogue runs. */
#define BOX_ROWS 16

/* Sets how many positions of each dim a box has. */
static void
count_box(struct cu_nest *n, const struct cg_dims *d, const struct cg_split *s)
{
	uint32_t i;

	for (i = 0; i < d->n && i <= s->cut; i++) {
		if (d->at[i] >= 0) {
			n->count[d->at[i]] = i < s->cut ? 1
				: s->chunks > 1 ? s->step : 0;
		}
	}
}

struct cu_nest_cost
cu_dot_nest_cost(const struct cu_dot *d, bool own_type, bool by_vectors)
{
	const struct ir_module *m = d->k->c->m;
	struct arena *a = d->k->c->a;
	struct cu_nest nest = cu_nest_of(a, d->x,
					 ir_type(d->k->c->m, d->value));
	const struct cg_split whole = { .chunks = 1 };
	struct cu_leaf leaf = { .value = d->value, .at = "leaf",
				.own_type = own_type,
				.bytes = by_vectors ? 16 : 0 };
	const struct cg_split one = { .cut = d->dims[0].n - 1, .step = 1,
				      .chunks = 2 };
	const struct cg_split rows = cu_split_of(&d->dims[1], BOX_ROWS,
						 BOX_ROWS);
	const struct cu_place none = { 0 };
	uint32_t i;

	cu_place_leaf(a, &nest, &leaf, &d->dims[0], &whole, &none,
		      d->m.size * d->n.size);
	cu_place_leaf(a, &nest, &leaf, &d->dims[1], &whole, &none, d->n.size);
	cu_place_leaf(a, &nest, &leaf, &d->dims[2], &whole, &none, 1);
	count_box(&nest, &d->dims[0], &one);
	count_box(&nest, &d->dims[1], &rows);
	cu_nest_add_leaf(a, &nest, leaf);
	for (i = 0; i < d->x->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, d->x->nodes.at[i]);

		/* the other one of a pair */
		if (ir_is(n->op, IRF_CONTRACTS) && n->result != d->value) {
			leaf.value = n->result;
			cu_nest_add_leaf(a, &nest, leaf);
		}
	}
	return cu_nest_cost_of(d->k, &nest);
}

/* Of a row of experts, which a warp has: vectors of its lanes in turns. */
static double
row_slots(const struct cu_nest_cost *c, int64_t cols)
{
	int64_t each = c->lanes * (c->pair ? 2 : 1);
	double turns = (double)num_ceil_div(cols, 32 * each);

	return cost_slots[COSTS_ROW] + turns *
	       (cost_slots[COSTS_PLACE] + c->slots * (double)each);
}

double
cu_dot_put_slots(const struct cu_dot *d, const struct cu_tile *t, bool partial)
{
	const struct cu_nest_cost *c = &d->nest;
	double sums = (double)(t->m * t->n) / (double)t->threads;
	double rows = 32 * (double)t->m / (double)t->threads;

	if (partial || d->result == CU_DOT_STORE) {
		return cost_slots[COSTS_PAIR] * sums;
	}
	if (d->result == CU_DOT_ADD) {
		return cost_slots[COSTS_PAIR_ADD] * sums;
	}
	if (d->by_rows) {
		return cost_slots[COSTS_LINE] * sums +
		       rows * row_slots(c, t->n);
	}
	return (cost_slots[COSTS_LINE] + c->slots + cost_slots[COSTS_PLACE] /
		(double)(c->lanes * (c->pair ? 2 : 1))) * sums;
}

void
cu_dot_put_comment(struct cu_func *f, const struct cu_dot *d)
{
	cu_comment(f, "after the products: some %.0f issue slots of a thread",
		   cu_dot_put_slots(d, &d->tile, d->splits > 1 || d->apart));
}

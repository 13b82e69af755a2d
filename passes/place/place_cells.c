/*
 * The options of what outlives a region: stored tensors, gradients, saves.
 * Each name is one variable, since a reader finds the placement that was
 * written.  The tensor axis splits weights if it can; the expert axis splits
 * experts.  The optimizer's state has the placement of its weight, or ZeRO
 * splits it.
 */
#include "passes/place/place_choice.h"

/* The dim by which ZeRO splits a weight, or what belongs to it; 0: none. */
static dim_id
zero_dim(struct choice *c, uint32_t weight, value_id v)
{
	enum place_kind kind = c->p->kind;
	value_id param = c->p->facts->cells.at[weight].param;

	if (kind != PLACE_DATA && kind != PLACE_EXPERT) {
		return 0;
	}
	return place_ask_zero(c, weight && param ? param : v);
}

/* A weight: split over the tensor axis if it can be; experts over theirs. */
static void
weight_options(struct choice *c, struct cell *x, bool picked, value_id v)
{
	const struct place *p = c->p;
	const struct ir_type *type = ir_type(p->m, v);
	uint32_t open = place_open(p, place_like(p, v));
	dim_id zero = zero_dim(c, 0, v);
	uint32_t i;

	for (i = 0; i < type->ndims; i++) {
		dim_id d = type->dims[i];

		if ((p->kind == PLACE_TENSOR && p->facts->tensor[d] &&
		     open >> (PLACE_SPLIT + i) & 1) ||
		    (p->kind == PLACE_EXPERT && picked &&
		     p->facts->experts[d])) {
			place_add_option(x, along(IR_IS_SPLIT, d));
		}
	}
	if (x->n == 0) {
		place_add_option(x, p->plan->zero == 3 && zero
			? along(IR_IS_SPLIT, zero) : along(IR_IS_WHOLE, 0));
	}
}

/* The optimizer's state is placed like its weight, or split by ZeRO. */
static void
state_options(struct choice *c, struct cell *x, uint32_t of, value_id v)
{
	const struct cell *weight = &c->cell[of];
	const struct ir_type *type = ir_type(c->p->m, v);
	uint32_t w = weight->made ? of : 0, i;
	dim_id zero = zero_dim(c, w, v);

	for (i = 0; w && i < weight->n; i++) {
		struct ir_along s = weight->opt[i];

		if (s.how == IR_IS_WHOLE && zero && c->p->plan->zero >= 1) {
			s = along(IR_IS_SPLIT, zero);
		}
		if (s.how != IR_IS_SPLIT || ir_type_has(type, s.dim)) {
			place_add_option(x, s);
		}
	}
	if (!x->n) {
		place_add_option(x, along(IR_IS_WHOLE, 0));
	}
}

static void
gradient_options(struct choice *c, struct cell *x, uint32_t of, value_id v)
{
	const struct place *p = c->p;
	const struct cell *w = &c->cell[of];
	dim_id zero = zero_dim(c, of, v);
	uint32_t i;

	if (p->kind == PLACE_TIME) {
		place_add_option(x, along(IR_IS_WHOLE, 0));
		return;
	}
	if (zero && p->plan->zero >= 2 && w->made &&
	    w->opt[0].how == IR_IS_WHOLE) {
		place_add_option(x, along(IR_IS_SPLIT, zero));
		return;
	}
	for (i = 0; w->made && i < w->n; i++) {
		if (w->opt[i].how == IR_IS_SPLIT) {
			place_add_option(x, w->opt[i]);
		}
	}
	if (x->n) {
		return;	/* split like its weight, not an undivided sum */
	}
	place_add_option(x, along(IR_IS_PART, 0));
	place_add_option(x, along(IR_IS_WHOLE, 0));
	if (zero && p->plan->zero == 1) {
		place_add_option(x, along(IR_IS_SPLIT, zero));
	}
}

/* A save is priced by the memory it takes until backward. */
static void
price_stash(struct choice *c, const struct cell *x, value_id v)
{
	place_add_due(c, (struct due){
		.kind = DUE_HELD, .of = v, .by.cell = x,
		.table = solve_add_unary(c->s, x->var)
	});
}

struct cell *
place_cell(struct choice *c, node_id id)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	value_id v = n->nargs ? ir_args(c->p->m, n)[0] : n->result;
	uint32_t at = c->p->facts->cell[id];
	const struct place_named *of = &c->p->facts->cells.at[at];
	struct cell *x = &c->cell[at];

	if (x->made) {
		return x;
	}
	if (of->kind == CELL_STASH) {
		place_all_options(c, x, v);
	} else if (of->kind == CELL_GRADIENT) {
		gradient_options(c, x, of->weight, v);
	} else if (c->p->kind == PLACE_TIME) {
		place_add_option(x, along(IR_IS_WHOLE, 0));
	} else if (ir_is(n->op, IRF_PARAM)) {
		weight_options(c, x, of->picked, v);
	} else {
		state_options(c, x, of->weight, v);
	}
	place_new_cell(c, x, id);
	if (of->kind == CELL_STASH && !c->update &&
	    c->p->kind != PLACE_TIME) {
		price_stash(c, x, v);
	}
	return x;
}

void
place_find_weights(struct choice *c)
{
	const struct place_facts *f = c->p->facts;
	node_id id;

	for (id = 1; id < c->p->nnodes; id++) {
		const struct ir_node *n = ir_node(c->p->m, id);

		if (f->cell[id] && ir_is(n->op, IRF_PARAM) &&
		    f->uses[n->result]) {
			place_cell(c, id);
		}
	}
}

/*
 * What outlasts a region: stored tensors, gradients, saves.  Each name is one
 * variable, since whoever reads it finds it as it was written.
 *
 * Weights lie as the axis is there for: split over the tensor axis if they
 * can be, experts over theirs.  What the optimizer keeps lies as its weight
 * does, or is cut by ZeRO.
 */
#include "passes/place_choice.h"

#include <string.h>

enum cell
place_cell_kind(enum ir_op op)
{
	return ir_is(op, IRF_STASH) ? CELL_STASH
		: op == IR_ACCUMULATE || op == IR_GRADIENT ? CELL_GRADIENT
		: CELL_STORED;
}

static sym_t
name_of(const struct place *p, const struct ir_node *n)
{
	return ir_attr(p->m, n, IR_ATTR_NAME)->text;
}

/* "w" of the state "w.exp_avg", if w is a weight that was seen. */
static sym_t
weight_of(const struct choice *c, sym_t name)
{
	struct ir_ctx *ctx = c->p->m->ctx;
	const char *text = ir_text(ctx, name), *dot = strrchr(text, '.');
	sym_t w;

	if (!dot) {
		return 0;
	}
	w = intern(&ctx->syms, text, (size_t)(dot - text));
	return w < ctx->syms.text.n && c->cell[CELL_STORED][w].made ? w : 0;
}

/* The dim by which ZeRO cuts what belongs to the weight of that name. */
static dim_id
zero_dim(const struct choice *c, sym_t weight, const struct ir_type *type)
{
	enum place_kind kind = c->p->kind;

	if (kind != PLACE_DATA && kind != PLACE_EXPERT) {
		return 0;
	}
	if (weight && c->weight_type[weight]) {
		type = c->weight_type[weight];
	}
	return place_zero_dim(c->p, type);
}

/* A weight: split over the tensor axis if it can be; experts over theirs. */
static void
weight_options(struct choice *c, struct thing *t, bool picked,
	       const struct ir_type *type)
{
	const struct place *p = c->p;
	dim_id zero = zero_dim(c, 0, type);
	uint32_t i;

	for (i = 0; i < type->ndims; i++) {
		dim_id d = type->dims[i];

		if ((p->kind == PLACE_TENSOR && p->may[d] &&
		     p->facts->tensor[d]) ||
		    (p->kind == PLACE_EXPERT && picked &&
		     p->facts->experts[d])) {
			place_add_option(c, t, along(IR_IS_SPLIT, d));
		}
	}
	if (t->n == 0) {
		place_add_option(c, t, p->plan->zero == 3 && zero
			? along(IR_IS_SPLIT, zero) : along(IR_IS_WHOLE, 0));
	}
}

/* What the optimizer keeps lies as the weight does, or is cut by ZeRO. */
static void
state_options(struct choice *c, struct thing *t, sym_t name,
	      const struct ir_type *type)
{
	const struct place *p = c->p;
	sym_t w = weight_of(c, name);
	const struct thing *weight = w ? &c->cell[CELL_STORED][w] : NULL;
	dim_id zero = zero_dim(c, w, type);
	uint32_t i;

	for (i = 0; weight && i < weight->n; i++) {
		struct ir_along s = weight->opt[i].at;

		if (s.how == IR_IS_WHOLE && zero && p->plan->zero >= 1) {
			s = along(IR_IS_SPLIT, zero);
		}
		place_add_option(c, t, s);
	}
	if (!t->n) {
		place_add_option(c, t, along(IR_IS_WHOLE, 0));
	}
}

static void
gradient_options(struct choice *c, struct thing *t, sym_t name,
		 const struct ir_type *type)
{
	const struct place *p = c->p;
	const struct thing *w = &c->cell[CELL_STORED][name];
	dim_id zero = zero_dim(c, name, type);
	uint32_t i;

	if (p->kind == PLACE_TIME) {
		place_add_option(c, t, along(IR_IS_WHOLE, 0));
		return;
	}
	if (zero && p->plan->zero >= 2 && w->made &&
	    w->opt[0].at.how == IR_IS_WHOLE) {
		place_add_option(c, t, along(IR_IS_SPLIT, zero));
		return;
	}
	for (i = 0; w->made && i < w->n; i++) {
		if (w->opt[i].at.how == IR_IS_SPLIT) {
			place_add_option(c, t, w->opt[i].at);
		}
	}
	if (t->n) {
		return;		/* as its weight, not a sum as large as all */
	}
	place_add_option(c, t, along(IR_IS_PART, 0));
	place_add_option(c, t, along(IR_IS_WHOLE, 0));
	if (zero && p->plan->zero == 1) {
		place_add_option(c, t, along(IR_IS_SPLIT, zero));
	}
}

/* What is kept from forward to backward takes room meanwhile. */
static void
price_stash(struct choice *c, const struct thing *t, node_id id)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	value_id v = n->nargs ? ir_args(c->p->m, n)[0] : n->result;
	double *price = arena_alloc(&c->p->scratch, t->n * sizeof *price);
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		price[i] = c->times * place_held(c->p, v, t->opt[i].at);
	}
	solve_factor(c->s, 1, &t->var, price);
}

struct thing *
place_cell(struct choice *c, node_id id, const struct ir_type *type)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	enum cell kind = place_cell_kind((enum ir_op)n->op);
	sym_t name = name_of(c->p, n);
	struct thing *t = &c->cell[kind][name];

	if (t->made) {
		return t;
	}
	if (kind == CELL_STASH) {
		place_all_options(c, t, type);
	} else if (kind == CELL_GRADIENT) {
		gradient_options(c, t, name, type);
	} else if (c->p->kind == PLACE_TIME) {
		place_add_option(c, t, along(IR_IS_WHOLE, 0));
	} else if (ir_is(n->op, IRF_PARAM)) {
		weight_options(c, t, c->picked[name], type);
	} else {
		state_options(c, t, name, type);
	}
	place_new_var(c, t, id);
	if (kind == CELL_STASH && !c->update && c->p->kind != PLACE_TIME) {
		price_stash(c, t, id);
	}
	return t;
}

void
place_find_weights(struct choice *c)
{
	const struct ir_module *m = c->p->m;
	node_id id;

	for (id = 1; id < c->p->nnodes; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (ir_is(n->op, IRF_PARAM)) {
			c->picked[name_of(c->p, n)] |=
				c->p->facts->picked[n->result];
		}
	}
	for (id = 1; id < c->p->nnodes; id++) {
		const struct ir_node *n = ir_node(m, id);

		if (ir_is(n->op, IRF_PARAM) && c->uses[n->result]) {
			c->weight_type[name_of(c->p, n)] =
				ir_type(m, n->result);
			place_cell(c, id, ir_type(m, n->result));
		}
	}
}

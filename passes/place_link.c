/*
 * Variables and the prices between two of them: how a value is made, what
 * else it is converted to, and what it costs to have it as a node wants it.
 */
#include "passes/place_choice.h"

#include <math.h>
#include <string.h>

#define MOST_OPTIONS 256

/* ---- variables ---- */

void
place_new_var(struct choice *c, struct thing *t, node_id owner)
{
	t->made = true;
	t->var = solve_var(c->s, t->n);
	VEC_PUSH(&c->p->scratch, &c->owner, owner);
}

void
place_add_option(struct choice *c, struct thing *t, struct ir_along at)
{
	if (t->n == t->cap) {
		vec_grow(&c->p->scratch, (void **)&t->opt, &t->cap,
			 sizeof *t->opt);
	}
	t->opt[t->n++] = (struct option){ .at = at };
}

void
place_all_options(struct choice *c, struct thing *t, const struct ir_type *type)
{
	const struct place *p = c->p;
	const bool *may = c->update ? p->late : p->may;
	bool real = ir_dtypes[type->dtype].is_float;
	uint32_t i;

	place_add_option(c, t, along(IR_IS_WHOLE, 0));
	if (c->update && p->kind == PLACE_TIME) {
		return;
	}
	for (i = 0; i < type->ndims; i++) {
		if (may[type->dims[i]]) {
			place_add_option(c, t, along(IR_IS_SPLIT,
						     type->dims[i]));
		}
	}
	if (real) {
		place_add_option(c, t, along(IR_IS_PART, 0));
	}
	if (real && p->kind == PLACE_EXPERT && !c->update) {
		place_add_option(c, t, along(IR_IS_ROUTED, 0));
	}
}

/* ---- values ---- */

static bool
same(struct ir_along a, struct ir_along b)
{
	return a.how == b.how && a.dim == b.dim;
}

/* What else a value may be converted to for those who share the copy. */
static bool
may_also(struct ir_along s)
{
	return s.how != IR_IS_PART;
}

/* Each option beside each copy that costs something, if several use it. */
static void
add_copies(struct choice *c, value_id v, const struct option *to, uint32_t nto,
	   double *price)
{
	struct thing *t = &c->value[v], base = *t;
	uint32_t i, j;

	for (i = 0; c->uses[v] > 1 && i < base.n; i++) {
		for (j = 0; j < nto; j++) {
			double cost;

			if (same(base.opt[i].at, to[j].at) ||
			    !may_also(to[j].at) || t->n == MOST_OPTIONS) {
				continue;
			}
			cost = place_convert(c->p, v, base.opt[i].at,
					     to[j].at, c->routable[v]);
			if (isinf(cost)) {
				continue;
			}
			place_add_option(c, t, base.opt[i].at);
			t->opt[t->n - 1].also = to[j].at;
			t->opt[t->n - 1].two = true;
			price[t->n - 1] = cost * c->times;
		}
	}
}

static void
value_var(struct choice *c, value_id v, const struct option *to, uint32_t nto,
	  node_id owner)
{
	struct thing *t = &c->value[v];
	double price[MOST_OPTIONS];

	memset(price, 0, t->n * sizeof *price);
	add_copies(c, v, to, nto, price);
	place_new_var(c, t, owner);
	solve_factor(c->s, 1, &t->var, price);
}

void
place_value_var(struct choice *c, value_id v, node_id owner)
{
	value_var(c, v, c->value[v].opt, c->value[v].n, owner);
}

void
place_value(struct choice *c, value_id v, node_id owner)
{
	place_all_options(c, &c->value[v], ir_type(c->p->m, v));
	place_value_var(c, v, owner);
}

static bool
is_made(const struct thing *node, struct ir_along at)
{
	uint32_t i;

	for (i = 0; i < node->n; i++) {
		if (same(node->way[i]->out, at)) {
			return true;
		}
	}
	return false;
}

/* What no way makes would be refused at once; it may be a copy. */
void
place_result(struct choice *c, value_id v, node_id owner)
{
	struct option few[IR_MAX_DIMS + 3];	/* whole, a part, routed */
	struct thing all = { .opt = few, .cap = IR_MAX_DIMS + 3 };
	uint32_t i;

	place_all_options(c, &all, ir_type(c->p->m, v));
	for (i = 0; i < all.n; i++) {
		if (is_made(&c->node[owner], all.opt[i].at)) {
			place_add_option(c, &c->value[v], all.opt[i].at);
		}
	}
	value_var(c, v, all.opt, all.n, owner);
}

/* ---- links ---- */

/* The price of having a value as `want`, given what there is of it. */
static double
reach(const struct choice *c, value_id v, const struct option *o,
      struct ir_along want, bool routable)
{
	double alone = place_convert(c->p, v, o->at, want, routable);
	enum ir_op op;

	if (o->two && same(o->also, want) &&
	    (routable || want.how != IR_IS_ROUTED)) {
		return 0;
	}
	if (o->two && place_conversion(c->p, o->also, want, &op) &&
	    !ir_is(op, IRF_TALKS)) {
		return fmin(alone, place_convert(c->p, v, o->also, want,
						 routable));
	}
	return alone;
}

/* The price of each option; several nodes may want a value alike. */
static const double *
fit(struct choice *c, value_id v, struct ir_along want, bool routable)
{
	struct thing *t = &c->value[v];
	const struct fit *known = t->fits;
	struct fit *f;
	uint32_t j;

	for (; known; known = known->next) {
		if (same(known->want, want) && known->routable == routable) {
			return known->price;
		}
	}
	f = arena_room(&c->p->scratch, sizeof *f + t->n * sizeof *f->price);
	*f = (struct fit){ want, routable, t->fits };
	for (j = 0; j < t->n; j++) {
		f->price[j] = reach(c, v, &t->opt[j], want, routable);
	}
	t->fits = f;
	return f->price;
}

/* Entries of one row of a table. */
static void
set_row(const struct choice *c, const struct solve_pair *l, uint32_t i,
	const double *price, uint32_t n)
{
	double *at = l->at + i * l->of_u;
	uint32_t j;

	for (j = 0; j < n; j++, at += l->of_v) {
		*at = c->times * price[j];
	}
}

/* Nothing where options are what is wanted, and all else forbidden. */
static void
set_same(const struct solve_pair *l, uint32_t i, struct ir_along want,
	 const struct thing *t)
{
	double *at = l->at + i * l->of_u;
	uint32_t j;

	for (j = 0; j < t->n; j++, at += l->of_v) {
		*at = same(want, t->opt[j].at) ? 0 : INFINITY;
	}
}

/* a, a cell, is what value v was made as. */
void
place_link_same(struct choice *c, const struct thing *a, value_id v)
{
	const struct thing *t = &c->value[v];
	struct solve_pair l = solve_pair(c->s, a->var, t->var);
	uint32_t i;

	for (i = 0; i < a->n; i++) {
		set_same(&l, i, a->opt[i].at, t);
	}
}

/* What a microbatch adds to a gradient is a part of the sum over them. */
static double
add_over_time(const struct place *p, const struct option *o)
{
	return o->at.how == IR_IS_PART ||
	       (o->at.how == IR_IS_WHOLE && p->ranks == 1) ? 0 : INFINITY;
}

/* Value v goes into a, a cell, converted if need be. */
void
place_link_into(struct choice *c, const struct thing *a, value_id v, bool sums)
{
	const struct thing *t = &c->value[v];
	struct solve_pair l = solve_pair(c->s, a->var, t->var);
	bool time = sums && c->p->kind == PLACE_TIME && !c->update;
	uint32_t i, j;

	for (i = 0; i < a->n; i++) {
		for (j = 0; time && j < t->n; j++) {
			l.at[i * l.of_u + j * l.of_v] =
				add_over_time(c->p, &t->opt[j]);
		}
		if (!time) {
			set_row(c, &l, i, fit(c, v, a->opt[i].at, false),
				t->n);
		}
	}
}

/* ---- nodes ---- */

/* Marks what may be routed: operands beside an index of experts. */
bool
place_can_route(enum ir_op op, uint32_t k)
{
	return ir_is(op, IRF_INDEXED) && ir_is(op, IRF_CONTRACTS) &&
	       ir_ops[op].dtypes[k] != 'i';
}

void
place_link_operand(struct choice *c, node_id id, uint32_t k)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	value_id v = ir_args(c->p->m, n)[k];
	const struct thing *a = &c->node[id], *t = &c->value[v];
	struct solve_pair l = solve_pair(c->s, a->var, t->var);
	bool routable = place_can_route((enum ir_op)n->op, k);
	uint32_t i;

	for (i = 0; i < a->n; i++) {
		set_row(c, &l, i, fit(c, v, a->way[i]->in[k], routable),
			t->n);
	}
}

void
place_link_result(struct choice *c, node_id id)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	const struct thing *a = &c->node[id], *t = &c->value[n->result];
	struct solve_pair l = solve_pair(c->s, a->var, t->var);
	uint32_t i;

	for (i = 0; i < a->n; i++) {
		set_same(&l, i, a->way[i]->out, t);
	}
}

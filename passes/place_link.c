/*
 * Variables and the prices between two of them: how a value is made, what
 * else it is converted to, and what it costs to have it as a node wants it.
 */
#include "passes/place_choice.h"

#include <math.h>
#include <string.h>

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

/* What else a value may be converted to for those who share the copy. */
static bool
may_also(struct ir_along s)
{
	return s.how != IR_IS_PART;
}

/*
 * Prices a value's options, once those of `at` are known: each alone, and if
 * several nodes use it, each beside each copy that costs something.
 */
void
place_value_var(struct choice *c, value_id v, node_id owner)
{
	struct thing *t = &c->value[v], base = *t;
	double price[256];
	uint32_t i, j;

	memset(price, 0, sizeof price);
	for (i = 0; c->uses[v] > 1 && i < base.n; i++) {
		for (j = 0; j < base.n; j++) {
			struct ir_along to = base.opt[j].at;
			double cost = place_convert(c->p, v, base.opt[i].at,
						    to, c->routable[v]);

			if (i == j || !may_also(to) || isinf(cost) ||
			    t->n == 256) {
				continue;
			}
			place_add_option(c, t, base.opt[i].at);
			t->opt[t->n - 1].also = to;
			t->opt[t->n - 1].two = true;
			price[t->n - 1] = cost * c->times;
		}
	}
	place_new_var(c, t, owner);
	solve_factor(c->s, 1, &t->var, price);
}

void
place_value(struct choice *c, value_id v, node_id owner)
{
	place_all_options(c, &c->value[v], ir_type(c->p->m, v));
	place_value_var(c, v, owner);
}

/* ---- links ---- */

/* The price of having a value as `want`, given what there is of it. */
static double
reach(const struct choice *c, value_id v, const struct option *o,
      struct ir_along want, bool routable)
{
	double alone = place_convert(c->p, v, o->at, want, routable);
	enum ir_op op;

	if (o->two && ir_along_equal(o->also, want) &&
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

/* A table between the two, as the solver wants it: the later runs fastest. */
struct link {
	uint32_t vars[2];
	size_t of_a, of_b;	/* strides */
	double *at;		/* good until the next is opened */
};

static struct link
open_link(struct choice *c, const struct thing *a, const struct thing *b)
{
	size_t n = (size_t)a->n * b->n;
	struct link l = { { a->var, b->var }, b->n, 1, c->table };

	if (n > c->table_cap) {
		c->table_cap = 2 * n;
		l.at = c->table = arena_alloc(&c->p->scratch, c->table_cap *
					      sizeof *c->table);
	}
	if (b->var < a->var) {
		l = (struct link){ { b->var, a->var }, 1, a->n, l.at };
	}
	return l;
}

static void
add_link(struct choice *c, const struct link *l)
{
	solve_factor(c->s, 2, l->vars, l->at);
}

/* a, a cell, is what value v was made as. */
void
place_link_same(struct choice *c, const struct thing *a, value_id v)
{
	const struct thing *t = &c->value[v];
	struct link l = open_link(c, a, t);
	uint32_t i, j;

	for (i = 0; i < a->n; i++) {
		for (j = 0; j < t->n; j++) {
			bool same = ir_along_equal(a->opt[i].at, t->opt[j].at);

			l.at[i * l.of_a + j * l.of_b] = same ? 0 : INFINITY;
		}
	}
	add_link(c, &l);
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
	struct link l = open_link(c, a, t);
	bool time = sums && c->p->kind == PLACE_TIME && !c->update;
	uint32_t i, j;

	for (i = 0; i < a->n; i++) {
		for (j = 0; j < t->n; j++) {
			double *price = &l.at[i * l.of_a + j * l.of_b];

			*price = time ? add_over_time(c->p, &t->opt[j])
				: c->times * reach(c, v, &t->opt[j],
						   a->opt[i].at, false);
		}
	}
	add_link(c, &l);
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
	struct link l = open_link(c, a, t);
	bool routable = place_can_route((enum ir_op)n->op, k);
	uint32_t i, j;

	for (i = 0; i < a->n; i++) {
		for (j = 0; j < t->n; j++) {
			l.at[i * l.of_a + j * l.of_b] = c->times *
				reach(c, v, &t->opt[j],
				      a->way[i].in[k], routable);
		}
	}
	add_link(c, &l);
}

void
place_link_result(struct choice *c, node_id id)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	const struct thing *a = &c->node[id], *t = &c->value[n->result];
	struct link l = open_link(c, a, t);
	uint32_t i, j;

	for (i = 0; i < a->n; i++) {
		for (j = 0; j < t->n; j++) {
			l.at[i * l.of_a + j * l.of_b] =
				ir_along_equal(a->way[i].out,
					       t->opt[j].at) ? 0 : INFINITY;
		}
	}
	add_link(c, &l);
}

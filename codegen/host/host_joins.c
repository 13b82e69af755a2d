/*
 * How other programs see a tensor.  A weight [heads, hd, hidden] is a matrix of
 * two dims to whoever multiplies with it: dims that are contracted together
 * are one to others, and so are those that are not.  What the ops of the
 * program do with a tensor says which; a tensor that is only added or
 * multiplied element by element keeps its dims, unless its name ends in
 * `.bias`, which is a vector everywhere.
 */
#include "codegen/host/host.h"

#include <string.h>

#define UNSEEN (-1)		/* of joins: no op has said anything */

struct join_search {
	struct cg_code *c;
	const struct ir_module *m;
	value_id *weight;	/* by value: the weight that it is, or 0 */
};

static int64_t *
joins_of(struct cg_code *c, sym_t name)
{
	while (c->joins.n <= name) {
		VEC_PUSH(c->a, &c->joins, UNSEEN);
	}
	return &c->joins.at[name];
}

static bool
is_among(const struct ir_attr *a, dim_id d)
{
	uint32_t i;

	for (i = 0; a && i < a->ndims; i++) {
		if (a->dims[i] == d) {
			return true;
		}
	}
	return false;
}

/* An op contracts, or normalizes over, some dims of a weight. */
static void
narrow_joins(struct join_search *x, value_id weight, const struct ir_node *n)
{
	const struct ir_node *w = ir_node(x->m,
					  x->m->values.at[weight].node);
	const struct ir_type *t = ir_type(x->m, weight);
	const struct ir_attr *over = ir_attr(x->m, n, IR_ATTR_OVER);
	const struct ir_attr *of = ir_is(n->op, IRF_INDEXED)
		? ir_attr(x->m, n, IR_ATTR_OF) : NULL;
	int64_t *all = joins_of(x->c, ir_attr(x->m, w, IR_ATTR_NAME)->text);
	int64_t joins = 0;
	uint8_t i;

	for (i = 1; i < t->ndims; i++) {
		dim_id a = t->dims[i - 1], b = t->dims[i];

		if (is_among(over, a) == is_among(over, b) &&
		    !is_among(of, a) && !is_among(of, b)) {
			joins |= (int64_t)1 << i;
		}
	}
	*all = *all == UNSEEN ? joins : *all & joins;
}

static bool
same_dims(const struct ir_type *a, const struct ir_type *b)
{
	return a->ndims == b->ndims &&
	       memcmp(a->dims, b->dims, a->ndims * sizeof *a->dims) == 0;
}

/* Whether operand k decides which dims of it belong together. */
static bool
decides(const struct ir_node *n, uint32_t k)
{
	return !ir_is(n->op, IRF_PAIRS) &&
	       (ir_is(n->op, IRF_CONTRACTS | IRF_INDEXED) ||
		(ir_is(n->op, IRF_ROWWISE) && k > 0));
}

static void
visit(struct join_search *x, const struct ir_node *n)
{
	const value_id *args = ir_args(x->m, n);
	uint32_t k;

	if (ir_is(n->op, IRF_LOADED)) {
		x->weight[n->result] = n->result;
		return;
	}
	for (k = 0; k < n->nargs; k++) {
		value_id w = x->weight[args[k]];

		if (w && decides(n, k)) {
			narrow_joins(x, w, n);
		} else if (w && n->result && k == 0 &&
			   same_dims(ir_type(x->m, w),
				     ir_type(x->m, n->result))) {
			x->weight[n->result] = w;
		}
	}
}

/* All nodes, in order: what a value is made of comes before it. */
static void
find_joins(struct cg_code *c)
{
	struct join_search x = { .c = c, .m = c->m };
	node_id i;

	x.weight = arena_alloc(c->a, c->m->values.n * sizeof *x.weight);
	joins_of(c, 0);
	for (i = 1; i < c->m->nodes.n; i++) {
		visit(&x, ir_node(c->m, i));
	}
}

int64_t
host_joins(struct cg_code *c, node_id node)
{
	const struct ir_node *n = ir_node(c->m, node);
	sym_t name = ir_attr(c->m, n, IR_ATTR_NAME)->text;
	const char *text = ir_text(c->m->ctx, name);
	size_t length = strlen(text);
	int64_t joins;

	if (c->joins.n == 0) {
		find_joins(c);
	}
	joins = *joins_of(c, name);
	if (joins != UNSEEN) {
		return joins;
	}
	return length >= 5 && strcmp(text + length - 5, ".bias") == 0
		? ((int64_t)1 << ir_type(c->m, n->result)->ndims) - 2 : 0;
}

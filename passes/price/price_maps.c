/*
 * The trait lone_maps: software that runs a model op by op has one kernel for
 * each elementwise op of the model's text and one for its derivative, and each
 * reads and writes memory where ours would be fused.  Nodes that come from one
 * op are recognised by their span.
 */
#include "passes/price/price.h"

#include <string.h>

/* An op of the model's text in one region. */
struct text_op {
	struct span span;
	node_id first;
	double bytes;
	double logits;		/* elements of the loss's operand */
	bool back;
	bool rows;		/* it reduces over rows */
	bool turns;		/* it is a rotary embedding */
};

struct price_maps {
	struct pricing *p;
	node_id *of;		/* by node: the first of its op, or 0 */
	bool *escapes;		/* by value: another op reads it */
	node_id *seen;		/* by value: the op that read it last */
	VEC(struct text_op) ops;
};

static bool
is_map(const struct ir_node *n)
{
	return !ir_is(n->op, IRF_CONTRACTS) && !ir_is(n->op, IRF_SOURCE) &&
	       !ir_is(n->op, IRF_SINK) && n->result;
}

static bool
has_maps(const struct kernel *k)
{
	return k->kind == KERNEL_MAP || k->kind == KERNEL_ROWWISE ||
	       k->kind == KERNEL_CONTRACTION;
}

static struct text_op *
op_of(struct price_maps *x, node_id id)
{
	const struct ir_node *n = ir_node(x->p->m, id);
	struct text_op new = { .span = n->span, .first = id };
	uint32_t i;

	for (i = 0; i < x->ops.n; i++) {
		struct text_op *o = &x->ops.at[i];

		if (o->span.lo == n->span.lo && o->span.hi == n->span.hi) {
			return o;
		}
	}
	VEC_PUSH(&x->p->m->ctx->tmp, &x->ops, new);
	return &x->ops.at[x->ops.n - 1];
}

static void
find_ops(struct price_maps *x, const struct kernel_list *l)
{
	uint32_t i, j;

	x->ops.n = 0;
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		for (j = k->ncopies; has_maps(k) && j < k->nodes.n; j++) {
			node_id id = k->nodes.at[j];

			if (is_map(ir_node(x->p->m, id))) {
				x->of[id] = op_of(x, id)->first;
			}
		}
	}
}

/* Values that another op than their own reads. */
static void
find_escapes(struct price_maps *x, region_id r)
{
	const struct ir_module *m = x->p->m;
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i, j;

	for (i = 0; i < region->nodes.n; i++) {
		node_id id = region->nodes.at[i];
		const struct ir_node *n = ir_node(m, id);

		for (j = 0; j < n->nargs; j++) {
			value_id v = ir_args(m, n)[j];
			node_id maker = m->values.at[v].node;

			if (maker && x->of[maker] &&
			    x->of[maker] != x->of[id]) {
				x->escapes[v] = true;
			}
		}
	}
	for (i = 0; i < region->results.n; i++) {
		x->escapes[region->results.at[i]] = true;
	}
}

static void
add_node(struct price_maps *x, node_id id, struct text_op *o)
{
	const struct ir_module *m = x->p->m;
	const struct ir_node *n = ir_node(m, id);
	uint32_t j;

	for (j = 0; j < n->nargs; j++) {
		value_id v = ir_args(m, n)[j];
		node_id maker = m->values.at[v].node;

		if ((!maker || x->of[maker] != o->first) &&
		    x->seen[v] != o->first) {
			x->seen[v] = o->first;
			o->bytes += kernel_bytes(m, v);
		}
	}
	for (j = 0; j < n->nresults; j++) {
		if (x->escapes[n->result + j]) {
			o->bytes += kernel_bytes(m, n->result + j);
		}
	}
	/* the derivative of such software's log-softmax reduces rows */
	o->rows |= ir_is(n->op, IRF_ROWWISE) || n->op == IR_ONEHOT;
	o->turns |= ir_op_takes(n->op, IR_ATTR_THETA) != IR_TAKES_NOT;
	if (n->op == IR_CROSS_ENTROPY || n->op == IR_ONEHOT) {
		value_id v = n->op == IR_ONEHOT ? n->result
						: ir_args(m, n)[0];

		o->back = n->op == IR_ONEHOT;
		o->logits = kernel_bytes(m, v) * 8 /
			    ir_dtypes[ir_type(m, v)->dtype].bits;
	}
}

/*
 * The trait wide_logits, the loss over fp32 logits, in bytes of a logit.
 * Forward: a cast (2 + 4) and log-softmax (4 + 4).  Backward: the fill of a
 * gradient (4), the derivative of log-softmax (4 + 4 + 4) and a cast (4 + 2).
 */
#define LOSS_BYTES 14
#define LOSS_BACK_BYTES 22
#define LOSS_KERNELS 3

/*
 * The trait lone_norms, in bytes of an element of 16 bits where one kernel has
 * 4.  An RMS norm: a cast (2 + 4), the square (4 + 4), its mean (4), the
 * product with its root (4 + 4), a cast (4 + 2), the product with the weight
 * (2 + 2).  As much for any other reduction of rows but the loss.  A rotary
 * embedding: a cast (2 + 4), the product (4 + 4), a cast (4 + 2).  Backward,
 * both have at least as many.
 */
#define NORM_TIMES 9
#define NORM_KERNELS 6
#define ROTARY_TIMES 5
#define ROTARY_KERNELS 3

static void
price_op(const struct price_maps *x, const struct text_op *o,
	 struct price_func *f)
{
	enum cost_kind kind = o->rows ? COST_ROWS : COST_MAP;
	double bytes = o->bytes;
	uint32_t n = 1;

	if (x->p->traits->lone_norms && o->logits <= 0 &&
	    (o->rows || o->turns)) {
		bytes *= o->turns ? ROTARY_TIMES : NORM_TIMES;
		n = o->turns ? ROTARY_KERNELS : NORM_KERNELS;
		kind = COST_MAP;
	}
	if (x->p->traits->wide_logits && o->logits > 0) {
		bytes = o->logits * (o->back ? LOSS_BACK_BYTES : LOSS_BYTES);
		n = LOSS_KERNELS;
		kind = COST_MAP;
	}
	price_bytes(x->p, kind, bytes, n, f);
}

void
price_maps_open(struct pricing *p)
{
	struct arena *a = &p->m->ctx->tmp;
	struct price_maps *x = arena_alloc(a, sizeof *x);

	x->p = p;
	x->of = arena_alloc(a, p->m->nodes.n * sizeof *x->of);
	x->escapes = arena_alloc(a, p->m->values.n * sizeof *x->escapes);
	x->seen = arena_alloc(a, p->m->values.n * sizeof *x->seen);
	p->maps = x;
}

void
price_maps(struct pricing *p, const struct kernel_list *l, struct price_func *f)
{
	struct price_maps *x = p->maps;
	uint32_t i, j;

	find_ops(x, l);
	find_escapes(x, l->region);
	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		for (j = k->ncopies; has_maps(k) && j < k->nodes.n; j++) {
			node_id id = k->nodes.at[j];

			if (x->of[id]) {
				add_node(x, id, op_of(x, id));
			}
		}
	}
	for (i = 0; i < x->ops.n; i++) {
		price_op(x, &x->ops.at[i], f);
	}
}

/*
 * Which contractions may be members of one launch (fuse_launch.c): those that
 * share operands, those that add up, and pairs.  Nothing here depends on sizes.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

/* ---- which contractions ---- */

static const struct ir_node *
dot_of(const struct fuse *f, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(f->m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_CONTRACTS)) {
			return n;
		}
	}
	return NULL;
}

static enum ir_dtype
type_of(const struct fuse *f, const struct ir_node *n, uint32_t arg)
{
	return (enum ir_dtype)ir_type(f->m, ir_args(f->m, n)[arg])->dtype;
}

bool
fuse_can_share(const struct fuse *f, const struct kernel *k)
{
	const struct ir_node *n;
	enum ir_dtype t;

	if (k->kind != KERNEL_CONTRACTION || k->launch || k->parts ||
	    k->work->coll.axes) {
		return false;
	}
	n = dot_of(f, k);
	t = n->nargs == 2 ? type_of(f, n, 0) : IR_F32;
	return (t == IR_BF16 || t == IR_F16 || t == IR_F8E4M3) &&
	       type_of(f, n, 1) == t;
}

/* Whether a factor has the same dims in both rules. */
static bool
same_factor(const struct ir_rule *a, const struct ir_rule *b, const char *name)
{
	const struct ir_factor *x = ir_rule_factor(a, name);
	const struct ir_factor *y = ir_rule_factor(b, name);

	return x && y && x->n == y->n &&
	       memcmp(x->dims, y->dims, x->n * sizeof *x->dims) == 0;
}

uint32_t
fuse_shared_operands(const struct fuse *f, const struct kernel *a,
		     const struct kernel *b)
{
	const struct ir_node *x = dot_of(f, a), *y = dot_of(f, b);
	const value_id *u = ir_args(f->m, x), *v = ir_args(f->m, y);
	struct ir_rule r, s;

	if (x->op != y->op || type_of(f, x, 0) != type_of(f, y, 0) ||
	    (u[0] != v[0] && u[1] != v[1])) {
		return 0;
	}
	ir_bind(f->m, x, &r);
	ir_bind(f->m, y, &s);
	if (!same_factor(&r, &s, "B") || !same_factor(&r, &s, "over")) {
		return 0;
	}
	return (u[0] == v[0] && same_factor(&r, &s, "M") ? 1 : 0) |
	       (u[1] == v[1] && same_factor(&r, &s, "N") ? 2 : 0);
}

/* ---- which of them add up ---- */

/* How often a region and those inside read a value; as its result: often. */
static uint32_t
reads_in(const struct ir_module *m, region_id id, value_id v)
{
	const struct ir_region *r = &m->regions.at[id];
	uint32_t n = 0, i, k;

	for (i = 0; i < r->results.n; i++) {
		n += r->results.at[i] == v ? 2 : 0;
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, r->nodes.at[i]);

		for (k = 0; k < x->nargs; k++) {
			n += ir_args(m, x)[k] == v;
		}
		n += x->region ? reads_in(m, x->region, v) : 0;
	}
	return n;
}

/* The node of kernel k that adds v to the product of the contraction n; or
 * NULL. */
static const struct ir_node *
adder_of(const struct fuse *f, const struct kernel *k, const struct ir_node *n,
	 value_id v)
{
	const struct ir_module *m = f->m;
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, k->nodes.at[i]);
		const value_id *args = ir_args(m, x);

		if (x->op == IR_ADD && (args[0] == v || args[1] == v) &&
		    (args[0] == n->result || args[1] == n->result)) {
			return x;
		}
	}
	return NULL;
}

/* The contraction's result or, of a later member, the sum so far, if that is
 * all that the kernel makes; else 0. */
static value_id
partial_of(const struct fuse *f, const struct kernel *k, bool later)
{
	const struct ir_node *last = ir_node(f->m, k->nodes.at[k->nodes.n - 1]);

	return k->ncopies == 0 && k->outputs.n == 1 &&
	       k->nodes.n == (later ? 2 : 1) &&
	       k->outputs.at[0].value == last->result ? last->result : 0;
}

/* Whether one of its nodes adds to a sum of gradients, or replaces a tensor. */
static bool
has_sink(const struct fuse *f, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n &&
	     !ir_is(ir_node(f->m, k->nodes.at[i])->op, IRF_SINK); i++) {
	}
	return i < k->nodes.n;
}

bool
fuse_adds_to(const struct fuse *f, region_id in, const struct kernel *a,
	     bool later, const struct kernel *b)
{
	const struct ir_node *x = dot_of(f, a), *y = dot_of(f, b), *add;
	value_id v = partial_of(f, a, later);
	const struct ir_type *t;
	struct ir_rule r, s;

	add = v && x->op == y->op && b->ncopies == 0 &&
	      type_of(f, x, 0) == type_of(f, y, 0)
		? adder_of(f, b, y, v) : NULL;
	if (!add || has_sink(f, b) || kernel_makes(b, y->result)) {
		return false;
	}
	t = ir_type(f->m, v);
	ir_bind(f->m, x, &r);
	ir_bind(f->m, y, &s);
	return ir_type_equal(t, ir_type(f->m, y->result)) &&
	       ir_type_equal(t, ir_type(f->m, add->result)) &&
	       same_factor(&r, &s, "B") && same_factor(&r, &s, "M") &&
	       same_factor(&r, &s, "N") && reads_in(f->m, in, v) == 1 &&
	       reads_in(f->m, in, y->result) == 1;
}

/* ---- which of them are pairs ---- */

/* Whether all that the kernel does to its product is maps of whole elements,
 * of the type's dims. */
static bool
has_maps_alone(const struct fuse *f, const struct kernel *k,
	       const struct ir_node *dot)
{
	const struct ir_type *t = ir_type(f->m, dot->result), *u;
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(f->m, k->nodes.at[i]);

		if (n == dot) {
			continue;
		}
		u = ir_type(f->m, n->result);
		if (!ir_is(n->op, IRF_MAP) || ir_is(n->op, IRF_SINK) ||
		    ir_is(n->op, IRF_ROWWISE) || u->ndims != t->ndims ||
		    memcmp(u->dims, t->dims, t->ndims * sizeof *t->dims) ||
		    memcmp(u->cut, t->cut, t->ndims * sizeof *t->cut)) {
			return false;
		}
	}
	return k->ncopies == 0;
}

/* Whether kernel k, of that contraction, reads v by maps alone, whose elements
 * are at the same places, or not at all; and nobody has a view of v, which k's
 * nodes may read. */
static bool
reads_in_place(const struct fuse *f, const struct kernel_list *l,
	       const struct kernel *k, const struct ir_node *dot, value_id v)
{
	const struct ir_type *t = ir_type(f->m, dot->result);
	const struct ir_type *u = ir_type(f->m, v);
	const value_id *args = ir_args(f->m, dot);
	uint32_t i, j;

	for (i = 0; i < l->free.n; i++) {
		const struct ir_node *n = ir_node(f->m, l->free.at[i]);

		for (j = 0; n->nresults && j < n->nargs; j++) {
			if (ir_args(f->m, n)[j] == v) {
				return false;
			}
		}
	}
	return !kernel_reads(k, v) ||
	       (args[0] != v && args[1] != v && u->ndims == t->ndims &&
		memcmp(u->dims, t->dims, t->ndims * sizeof *t->dims) == 0);
}

bool
fuse_is_pair(const struct fuse *f, const struct kernel_list *l,
	     const struct kernel *a, const struct kernel *b)
{
	const struct ir_node *x = dot_of(f, a), *y = dot_of(f, b);
	struct ir_rule r, s;
	uint32_t i;

	if (!(fuse_shared_operands(f, a, b) & 1) || !kernel_needs(b, a) ||
	    !ir_type_equal(ir_type(f->m, x->result),
			   ir_type(f->m, y->result)) ||
	    !has_maps_alone(f, a, x) || !has_maps_alone(f, b, y)) {
		return false;
	}
	ir_bind(f->m, x, &r);
	ir_bind(f->m, y, &s);
	for (i = 0; i < a->outputs.n &&
	     reads_in_place(f, l, b, y, a->outputs.at[i].value); i++) {
	}
	return i == a->outputs.n && same_factor(&r, &s, "N");
}

/* How often nodes of kernel k read v. */
static uint32_t
reads_of(const struct ir_module *m, const struct kernel *k, value_id v)
{
	uint32_t n = 0, i, j;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *x = ir_node(m, k->nodes.at[i]);

		for (j = 0; j < x->nargs; j++) {
			n += ir_args(m, x)[j] == v;
		}
	}
	return n;
}

uint32_t
fuse_unread(const struct fuse *f, const struct kernel_list *l,
	    const struct kernel *pair)
{
	uint32_t unread = 0, i, j;

	for (i = 0; i < pair->outputs.n && i < 32; i++) {
		value_id v = pair->outputs.at[i].value;
		uint32_t readers = 0;

		for (j = 0; j < l->at.n; j++) {
			readers += kernel_reads(&l->at.at[j], v);
		}
		if (readers == 1 && reads_in(f->m, l->region, v) ==
		    reads_of(f->m, &pair[0], v) + reads_of(f->m, &pair[1], v)) {
			unread |= 1u << i;
		}
	}
	return unread;
}

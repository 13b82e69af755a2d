/*
 * Groups weights by use, for the summary and the optimizer, and says which are
 * matrices.  The use follows from the ops that
 * read a weight, never from its name: a table that is looked up is an
 * embedding; a matrix of an indexed contraction holds experts; one whose
 * product is the model's result is the head; one whose product reaches
 * attention, or which multiplies the result of attention, is attention's; any
 * other contracted matrix is the mlp's; the rest (norms, biases) is other.
 *
 * A product reaches something through maps, slices, norms and contractions, but
 * not through an op on two tensors of one shape: that is a residual sum or a
 * gate, where one block of the model ends.
 */
#include "passes/weight_use.h"

#include <string.h>

enum use {
	/* of any value: what it reaches and derives from */
	TO_ATTENTION = 1 << 0, TO_RESULT = 1 << 1, FROM_ATTENTION = 1 << 2,
	/* of a weight: the ops that read it */
	LOOKED_UP = 1 << 3, EXPERTS = 1 << 4, CONTRACTED = 1 << 5,
	HEAD = 1 << 6, ATTENTION = 1 << 7
};

#define FLOWS (TO_ATTENTION | TO_RESULT)
#define ROLES (LOOKED_UP | EXPERTS | CONTRACTED | HEAD | ATTENTION)

struct uses {
	const struct ir_module *m;
	const struct ir_type *tokens;
	struct pass_use *at;
};

static bool
is_attention(const struct ir_node *n)
{
	return ir_is(n->op, IRF_CONTRACTS) && ir_is(n->op, IRF_CACHED);
}

/* A residual sum or a gate: two operands of one shape. */
static bool
ends_flow(const struct ir_module *m, const struct ir_node *n)
{
	return ir_is(n->op, IRF_MAP) && n->nargs == 2 &&
	       ir_type_equal(ir_type(m, ir_args(m, n)[0]),
			     ir_type(m, ir_args(m, n)[1]));
}

/* How many experts the index chooses for one token. */
static int64_t
picked(const struct uses *u, const struct ir_type *index)
{
	int64_t n = 1;
	uint8_t i;

	for (i = 0; i < index->ndims; i++) {
		if (!ir_type_has(u->tokens, index->dims[i]) &&
		    !num_mul(n, ir_dim_size(u->m, index->dims[i]), &n)) {
			return INT64_MAX;
		}
	}
	return n;
}

static void
use_indexed(struct uses *u, const struct ir_node *n)
{
	const struct ir_attr *of = ir_attr(u->m, n, IR_ATTR_OF);
	const value_id *args = ir_args(u->m, n);
	const struct ir_type *index = NULL;
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		if (!ir_dtypes[ir_type(u->m, args[i])->dtype].is_float) {
			index = ir_type(u->m, args[i]);
		}
	}
	for (i = 0; of && index && i < n->nargs; i++) {
		const struct ir_type *t = ir_type(u->m, args[i]);
		struct pass_use *use = &u->at[args[i]];

		if (t == index || !ir_type_has(t, of->dims[0])) {
			continue;
		}
		if (ir_is(n->op, IRF_CONTRACTS)) {
			use->bits |= EXPERTS;
			use->of = ir_dim_size(u->m, of->dims[0]);
			use->picked = picked(u, index);
		} else {
			use->bits |= LOOKED_UP;
		}
	}
}

static void
use_contraction(struct uses *u, const struct ir_node *n)
{
	const value_id *args = ir_args(u->m, n);
	uint32_t out = u->at[n->result].bits, bits = CONTRACTED, i;

	for (i = 0; i < n->nargs; i++) {
		out |= u->at[args[i]].bits & FROM_ATTENTION;
	}
	bits |= out & TO_RESULT ? HEAD : 0;
	bits |= out & (TO_ATTENTION | FROM_ATTENTION) ? ATTENTION : 0;
	for (i = 0; i < n->nargs; i++) {
		u->at[args[i]].bits |= bits | (out & TO_ATTENTION);
		u->at[args[i]].product = u->m->values.at[n->result].node;
		u->at[args[i]].operand = i;
	}
}

static void
use_operands(struct uses *u, const struct ir_node *n)
{
	const value_id *args = ir_args(u->m, n);
	const struct pass_use *out = &u->at[n->result];
	uint32_t i;

	if (ir_is(n->op, IRF_INDEXED)) {
		use_indexed(u, n);
	}
	if (is_attention(n)) {
		for (i = 0; i < n->nargs; i++) {
			u->at[args[i]].bits |= TO_ATTENTION;
		}
	} else if (ir_is(n->op, IRF_CONTRACTS)) {
		use_contraction(u, n);
	} else if (!ends_flow(u->m, n)) {
		for (i = 0; i < n->nargs; i++) {
			u->at[args[i]].bits |= out->bits & FLOWS;
		}
	}
	/* a cast or slice of a weight has the weight's use */
	if (n->nargs == 1) {
		u->at[args[0]].bits |= out->bits & ROLES;
		if (out->of) {
			u->at[args[0]].of = out->of;
			u->at[args[0]].picked = out->picked;
		}
		if (out->product) {
			u->at[args[0]].product = out->product;
			u->at[args[0]].operand = out->operand;
		}
	}
}

static void
flow_forward(struct uses *u, const struct ir_node *n)
{
	uint32_t bits = 0, i;

	for (i = 0; i < n->nargs; i++) {
		bits |= u->at[ir_args(u->m, n)[i]].bits & FROM_ATTENTION;
	}
	if (is_attention(n)) {
		u->at[n->result].bits |= FROM_ATTENTION;
	} else if (!ir_is(n->op, IRF_CONTRACTS) && !ends_flow(u->m, n)) {
		u->at[n->result].bits |= bits;
	}
}

static void
use_region(struct uses *u, region_id id, bool is_model)
{
	const struct ir_region *r = &u->m->regions.at[id];
	uint32_t i;

	for (i = 0; is_model && i < r->results.n; i++) {
		u->at[r->results.at[i]].bits |= TO_RESULT;
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(u->m, r->nodes.at[i]);

		if (!ir_is(n->op, IRF_REGION | IRF_CALLS)) {
			flow_forward(u, n);
		}
	}
	for (i = r->nodes.n; i-- > 0;) {
		const struct ir_node *n = ir_node(u->m, r->nodes.at[i]);

		if (ir_is(n->op, IRF_REGION)) {
			use_region(u, n->region, false);
		} else if (!ir_is(n->op, IRF_CALLS)) {
			use_operands(u, n);
		}
	}
}

/*
 * Backward reads a weight again, as a node of its own.  The first node of a
 * name gets the contraction of a later one if it has none, as where `narrow`
 * rounds what forward contracts: both contractions show the same two sides of
 * the matrix.
 */
static void
share_products(struct uses *u, region_id id, node_id *by_name)
{
	const struct ir_region *r = &u->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(u->m, r->nodes.at[i]);
		struct pass_use *use = &u->at[n->result], *had;
		node_id *first;

		if (n->region) {
			share_products(u, n->region, by_name);
		}
		if (!ir_is(n->op, IRF_PARAM)) {
			continue;
		}
		first = &by_name[ir_attr(u->m, n, IR_ATTR_NAME)->text];
		if (!*first) {
			*first = r->nodes.at[i];
			continue;
		}
		had = &u->at[ir_node(u->m, *first)->result];
		if (!had->product) {
			had->product = use->product;
			had->operand = use->operand;
		}
	}
}

struct pass_use *
pass_uses(struct ir_module *m, const struct ir_type *tokens)
{
	struct arena *a = &m->ctx->tmp;
	struct uses u = { m, tokens, NULL };
	size_t nsyms = m->ctx->syms.text.n;
	node_id *by_name = arena_alloc_raw(a, nsyms * sizeof *by_name);
	func_id f;

	u.at = arena_alloc(a, m->values.n * sizeof *u.at);
	for (f = 1; f < m->funcs.n; f++) {
		use_region(&u, m->funcs.at[f].body, m->funcs.at[f].is_model);
		memset(by_name, 0, nsyms * sizeof *by_name);
		share_products(&u, m->funcs.at[f].body, by_name);
	}
	return u.at;
}

enum pass_group
pass_group_of(const struct pass_use *u)
{
	if (u->bits & LOOKED_UP) {
		return GROUP_EMBEDDING;
	}
	if (u->bits & EXPERTS) {
		return GROUP_EXPERTS;
	}
	if (!(u->bits & CONTRACTED)) {
		return GROUP_OTHER;
	}
	return u->bits & HEAD ? GROUP_HEAD
		: u->bits & ATTENTION ? GROUP_ATTENTION : GROUP_MLP;
}

/* Whether dim d of operand k is one that the contraction has in others too. */
static bool
is_batch(const struct ir_module *m, const struct ir_node *n, uint32_t k,
	 dim_id d)
{
	const struct ir_attr *of = ir_attr(m, n, IR_ATTR_OF);
	uint32_t i;

	if (of && of->dims[0] == d) {	/* an expert's number */
		return true;
	}
	for (i = 0; i < n->nargs; i++) {
		if (i != k && ir_type_has(ir_type(m, ir_args(m, n)[i]), d)) {
			return true;
		}
	}
	return false;
}

bool
pass_is_matrix(const struct ir_module *m, const struct pass_use *u,
	       const struct ir_type *t, struct pass_matrix *out)
{
	const struct ir_node *n = ir_node(m, u->product);
	const struct ir_attr *over;
	uint8_t i, k;

	memset(out, 0, sizeof *out);
	over = u->product ? ir_attr(m, n, IR_ATTR_OVER) : NULL;
	if (!over || u->bits & (LOOKED_UP | HEAD)) {
		return false;
	}
	for (i = 0; i < t->ndims; i++) {
		for (k = 0; k < over->ndims && over->dims[k] != t->dims[i];
		     k++) {
			continue;
		}
		if (k < over->ndims) {
			out->cols[out->ncols++] = t->dims[i];
		} else if (!is_batch(m, n, u->operand, t->dims[i])) {
			out->rows[out->nrows++] = t->dims[i];
		}
	}
	return out->nrows > 0 && out->ncols > 0;
}

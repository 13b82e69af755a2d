/*
 * Finds how a program that serves may store its weights in fewer bits, for
 * quantise.c, which does so, and for what prices such a program.  What is found
 * is the same for each format; whoever asks knows which formats hold weights
 * outside of layers, and which have groups.
 *
 * A weight stays as it is declared if no contraction reads it, or anything but
 * contractions and look-ups of whole rows; if contractions sum over different
 * dims of it, or dims that do not lie side by side; or if their result chooses
 * experts.
 */
#include "passes/pass.h"

#include <string.h>

enum verdict { UNSEEN, ROUNDS, STAYS };

struct storing {
	const struct ir_module *m;
	struct pass_stored *as;	/* by name of a weight */
	uint8_t *verdict;	/* by name: enum verdict */
	bool *is_wide;		/* by name: it has no groups */
	dim_id *looked_up;	/* by name: along what rows are; or 0 */
	bool *in_layer;		/* by value: it is a weight of a layer */
	bool *chooses;		/* by value: an index depends on it */
};

static const struct ir_node *
weight_of(const struct storing *x, value_id v)
{
	const struct ir_node *n = ir_node(x->m, x->m->values.at[v].node);

	return x->m->values.at[v].node && n->op == IR_WEIGHT ? n : NULL;
}

static sym_t
name_of(const struct storing *x, const struct ir_node *weight)
{
	return ir_attr(x->m, weight, IR_ATTR_NAME)->text;
}

/* Whether the contracted dims of a weight lie side by side, beside others. */
static bool
is_matrix(const struct ir_type *t, const struct ir_attr *over)
{
	uint32_t i, n = 0, ends = 0;

	for (i = 0; i < t->ndims; i++) {
		bool is = ir_attr_has(over, t->dims[i]);

		n += is;
		ends += is && (i + 1 == t->ndims ||
			       !ir_attr_has(over, t->dims[i + 1]));
	}
	return n == over->ndims && n > 0 && ends == 1 && n < t->ndims;
}

static bool
same_dims(const struct ir_attr *a, const struct ir_attr *b)
{
	return a->ndims == b->ndims &&
	       memcmp(a->dims, b->dims, a->ndims * sizeof *a->dims) == 0;
}

/*
 * Whether operand k of a contraction may be in groups: the weight of a layer,
 * in rows of whole groups, and of a dot on the right.
 */
static bool
has_groups(const struct storing *x, const struct ir_node *n, uint32_t k)
{
	value_id v = ir_args(x->m, n)[k];
	int64_t row = ir_row_elems(x->m, ir_type(x->m, v),
				   ir_attr(x->m, n, IR_ATTR_OVER));

	return x->in_layer[v] && (n->op == IR_DOT_AT || k == 1) && row > 0 &&
	       row % IR_GROUP == 0;
}

/* Whether contractions and look-ups of the weight agree what a row is. */
static bool
agrees(const struct storing *x, sym_t name, const struct ir_attr *over)
{
	return x->verdict[name] != ROUNDS ||
	       same_dims(over, &x->as[name].over);
}

static bool
contracts(const struct storing *x, const struct ir_node *n, uint32_t k)
{
	const struct ir_attr *over = ir_attr(x->m, n, IR_ATTR_OVER);
	const value_id *args = ir_args(x->m, n);

	if (n->op != IR_DOT && (n->op != IR_DOT_AT || k != 2)) {
		return false;
	}
	return !x->chooses[n->result] &&
	       !weight_of(x, args[n->op == IR_DOT ? !k : 0]) &&
	       is_matrix(ir_type(x->m, args[k]), over);
}

/* Rows of a weight of that name are looked up along d. */
static void
look_up(struct storing *x, sym_t name, dim_id d)
{
	dim_id *row = &x->looked_up[name];

	x->verdict[name] = *row && *row != d ? STAYS : x->verdict[name];
	*row = d;
	x->is_wide[name] = true;
}

/* Operand k of a node is a weight: says whether it may be rounded. */
static void
judge(struct storing *x, const struct ir_node *n, uint32_t k)
{
	value_id v = ir_args(x->m, n)[k];
	const struct ir_attr *over = ir_attr(x->m, n, IR_ATTR_OVER);
	const struct ir_node *w = weight_of(x, v);
	sym_t name;

	if (!w) {
		return;
	}
	name = name_of(x, w);
	x->as[name].is_outer |= !x->in_layer[v];
	if (ir_dtypes[ir_type(x->m, v)->dtype].bits <= 8) {
		x->verdict[name] = STAYS;
	} else if (n->op == IR_GATHER && k == 0) {
		look_up(x, name, ir_attr(x->m, n, IR_ATTR_OF)->dims[0]);
	} else if (!contracts(x, n, k) || !agrees(x, name, over) ||
		   x->verdict[name] == STAYS) {
		x->verdict[name] = STAYS;
	} else {
		x->verdict[name] = ROUNDS;
		x->as[name].over = *over;
		x->is_wide[name] |= !has_groups(x, n, k);
	}
}

static void
judge_region(struct storing *x, region_id id, bool in_layer)
{
	const struct ir_region *r = &x->m->regions.at[id];
	uint32_t i, k;

	pass_find_choices(x->m, r, x->chooses);
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->m, r->nodes.at[i]);

		if (n->op == IR_WEIGHT) {
			x->in_layer[n->result] = in_layer;
		}
		for (k = 0; k < n->nargs; k++) {
			judge(x, n, k);
		}
		if (n->region) {
			judge_region(x, n->region, true);
		}
	}
	for (i = 0; i < r->results.n; i++) {
		const struct ir_node *w = weight_of(x, r->results.at[i]);

		if (w) {
			x->verdict[name_of(x, w)] = STAYS;
		}
	}
}

/* What may be rounded; of whose rows a part would be looked up may not. */
static void
settle(struct storing *x, sym_t names)
{
	sym_t i;

	for (i = 0; i < names; i++) {
		struct pass_stored *as = &x->as[i];

		as->is_rounded = x->verdict[i] == ROUNDS &&
			(!x->looked_up[i] ||
			 !ir_attr_has(&as->over, x->looked_up[i]));
		as->in_groups = as->is_rounded && !x->is_wide[i];
	}
}

const struct pass_stored *
pass_find_stored(const struct ir_module *m, struct arena *a)
{
	sym_t names = m->ctx->syms.text.n;
	struct storing x = { .m = m };

	x.as = arena_alloc(a, names * sizeof *x.as);
	x.verdict = arena_alloc(a, names * sizeof *x.verdict);
	x.is_wide = arena_alloc(a, names * sizeof *x.is_wide);
	x.looked_up = arena_alloc(a, names * sizeof *x.looked_up);
	x.in_layer = arena_alloc(a, m->values.n * sizeof *x.in_layer);
	x.chooses = arena_alloc(a, m->values.n * sizeof *x.chooses);
	judge_region(&x, m->funcs.at[ir_model(m)].body, false);
	settle(&x, names);
	return x.as;
}

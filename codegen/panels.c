/*
 * Weights that may lie in panels: those of a program that never writes them,
 * if all that reads them is contractions over the same last dims, as their
 * right operand, and look-ups of rows.  Whether one does is the back end's
 * choice, which its vectors and this rank's shards decide.
 */
#include "codegen/kernel.h"

#include <string.h>

struct panel_search {
	struct ir_module *m;
	bool all;		/* also those that are not frozen */
	/* by name */
	struct cg_panel_weights out;
	bool *stays;
};

/* Whether v is a weight in 8 bits, or that as wider numbers. */
static bool
has_8_bits(const struct ir_module *m, value_id v)
{
	const struct ir_node *w = ir_rounded_weight(m, v);

	return w && ir_dtypes[ir_type(m, w->result)->dtype].bits == 8;
}

/* The name of the weight that v is, or that it widens; 0: it is none. */
static sym_t
weight_of(const struct panel_search *x, value_id v)
{
	node_id id = x->m->values.at[v].node;
	const struct ir_node *n = ir_node(x->m, id);

	if (id && n->op == IR_CAST && has_8_bits(x->m, v)) {
		id = x->m->values.at[ir_args(x->m, n)[0]].node;
		n = ir_node(x->m, id);
	}
	return id && n->op == IR_WEIGHT
		? ir_attr(x->m, n, IR_ATTR_NAME)->text : 0;
}

/* Whether operand k is what a contraction multiplies with, or chooses from. */
static bool
is_right(const struct ir_node *n, uint32_t k)
{
	return k == (n->op == IR_DOT_AT ? 2 : 1) &&
	       (n->op == IR_DOT || n->op == IR_DOT_F32 || n->op == IR_DOT_AT);
}

/* How many of the last dims are the contracted ones, in their order, after
 * others that are the columns of the result; 0: they are not. */
static uint8_t
contracted(struct ir_module *m, const struct ir_node *n, uint32_t k)
{
	const struct ir_type *t = ir_type(m, ir_args(m, n)[k]);
	const struct ir_attr *over = ir_attr(m, n, IR_ATTR_OVER);
	const struct ir_factor *columns;
	struct ir_rule r;
	uint32_t i, first;

	if (!is_right(n, k) || over->ndims >= t->ndims) {
		return 0;
	}
	first = t->ndims - over->ndims;
	ir_bind(m, n, &r);
	columns = ir_rule_factor(&r, "N");
	for (i = 0; i < over->ndims; i++) {
		if (!ir_attr_has(over, t->dims[first + i])) {
			return 0;
		}
	}
	return columns->n > 0 && columns->n <= first &&
	       memcmp(columns->dims, t->dims + first - columns->n,
		      columns->n * sizeof *columns->dims) == 0
		? over->ndims : 0;
}

static bool
looks_up(const struct panel_search *x, const struct ir_node *n, uint32_t k)
{
	return n->op == IR_GATHER && k == 0 &&
	       ir_attr(x->m, n, IR_ATTR_OF)->dims[0] ==
	       ir_type(x->m, ir_args(x->m, n)[0])->dims[0];
}

static void
judge(struct panel_search *x, const struct ir_node *n, uint32_t k)
{
	value_id v = ir_args(x->m, n)[k];
	sym_t name = weight_of(x, v);
	uint8_t had, over;

	if (!name || looks_up(x, n, k) ||
	    (n->op == IR_CAST && has_8_bits(x->m, v))) {
		return;
	}
	had = x->out.over[name];
	over = contracted(x->m, n, k);
	if (n->op == IR_DOT_AT && has_8_bits(x->m, v)) {
		over = 0;	/* experts in 8 bits are packed from rows */
	}
	x->stays[name] |= !over || (had && had != over);
	x->out.over[name] = over;
}

static void
judge_region(struct panel_search *x, region_id id)
{
	const struct ir_region *r = &x->m->regions.at[id];
	uint32_t i, k;
	sym_t name;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(x->m, r->nodes.at[i]);

		name = n->op == IR_WEIGHT ? weight_of(x, n->result) : 0;
		if (name && !x->all && !ir_attr(x->m, n, IR_ATTR_FROZEN)) {
			x->stays[name] = true;
		}
		for (k = 0; k < n->nargs; k++) {
			judge(x, n, k);
		}
		if (n->region) {
			judge_region(x, n->region);
		}
	}
	for (i = 0; i < r->results.n; i++) {
		x->stays[weight_of(x, r->results.at[i])] = true;
	}
}

struct cg_panel_weights
cg_find_panels(struct ir_module *m, struct arena *a)
{
	size_t names = m->ctx->syms.text.n;
	struct panel_search x = { .m = m,
			    .all = ir_setting(m, "program.serves") != NULL };
	sym_t i;
	func_id f;

	x.out.names = (uint32_t)names;
	x.out.over = arena_alloc(a, (names + 1) * sizeof *x.out.over);
	x.stays = arena_alloc(&m->ctx->tmp, (names + 1) * sizeof *x.stays);
	for (f = 1; f < m->funcs.n; f++) {
		judge_region(&x, m->funcs.at[f].body);
	}
	for (i = 0; i < names; i++) {
		x.out.over[i] = x.stays[i] ? 0 : x.out.over[i];
	}
	return x.out;
}

bool
cg_panel_of(const struct cg_panel_weights *x, const struct cg_site *s,
	    value_id v, struct cg_panel *out)
{
	const struct ir_node *n = ir_node(s->m, s->m->values.at[v].node);
	const struct ir_type *t = ir_type(s->m, v);
	uint32_t over, i;
	sym_t name;

	*out = (struct cg_panel){ 0 };
	if (!x->over || !s->m->values.at[v].node || n->op != IR_WEIGHT) {
		return false;
	}
	name = ir_attr(s->m, n, IR_ATTR_NAME)->text;
	over = name < x->names ? x->over[name] : 0;
	if (over == 0) {
		return false;
	}
	out->row = 1;
	for (i = t->ndims - over; i < t->ndims; i++) {
		out->row *= cg_local_size(s->m, s->at, t->dims[i], t->cut[i]);
	}
	i = t->ndims - over - 1;
	out->last = cg_local_size(s->m, s->at, t->dims[i], t->cut[i]);
	return true;
}

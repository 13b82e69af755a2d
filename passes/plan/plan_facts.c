/*
 * Finds what a plan depends on in a model: the number of layers, and the dims
 * that axes may split.  Works before and after inlining and autodiff, and on
 * rank programs, where it counts the layers of all stages.
 */
#include "passes/plan/plan_keys.h"
#include "passes/pass.h"

#include <string.h>

const char *
plan_axis_name(enum plan_axis axis)
{
	return plan_rows[PLAN_KEY_PP + axis].key;
}

int64_t
plan_degree(const struct plan *p, enum plan_axis axis)
{
	switch (axis) {
	case PLAN_PP:
		return p->pp;
	case PLAN_DP:
		return p->dp;
	case PLAN_EP:
		return p->ep;
	case PLAN_CP:
		return p->cp;
	default:
		return p->tp;
	}
}

/*
 * Layers that remain go to the middle stages, since the first stage also has
 * the embedding and the last one the logits.
 */
void
plan_spread(int64_t nlayers, uint32_t nstages, int64_t *layers)
{
	int64_t each = nlayers / nstages, left = nlayers % nstages;
	int64_t first = (nstages - left) / 2, i;

	for (i = 0; i < nstages; i++) {
		layers[i] = each + (i >= first && i < first + left);
	}
}

struct look {
	struct ir_module *m;
	struct plan_facts *out;
	int64_t *layers;	/* by func: layers in its body */
	dim_id batch;		/* dim named so, used or not */
};

static void
shortest(const struct ir_module *m, dim_id d, dim_id *to)
{
	if (!*to || ir_dim_size(m, d) < ir_dim_size(m, *to)) {
		*to = d;
	}
}

/* Whether no value with the batch dim was found yet. */
static bool
wants_batch(const struct look *l)
{
	return l->out->batch != l->batch;
}

static void
see_type(struct look *l, const struct ir_type *t)
{
	if (wants_batch(l) && ir_type_has(t, l->batch)) {
		l->out->batch = l->batch;
	}
}

static void
see_weight(struct look *l, const struct ir_type *t)
{
	struct plan_facts *f = l->out;
	uint8_t i;

	for (i = 0; i < t->ndims; i++) {
		if (!f->longest || ir_dim_size(l->m, t->dims[i]) >
				   ir_dim_size(l->m, f->longest)) {
			f->longest = t->dims[i];
		}
	}
}

/* Nodes that are examined even if the batch dim was found. */
#define SEEN (IRF_PARAM | IRF_CONTRACTS | IRF_PAIRS)

static void
see_node(struct look *l, const struct ir_node *n)
{
	const struct ir_attr *of;
	uint32_t i;

	for (i = 0; i < n->nresults && wants_batch(l); i++) {
		see_type(l, ir_type(l->m, n->result + i));
	}
	if (ir_is(n->op, IRF_PARAM)) {
		see_weight(l, ir_type(l->m, n->result));
	}
	if (ir_is(n->op, IRF_INDEXED) && ir_is(n->op, IRF_CONTRACTS)) {
		of = ir_attr(l->m, n, IR_ATTR_OF);
		shortest(l->m, of->dims[0], &l->out->experts);
	}
	if (ir_is(n->op, IRF_PAIRS)) {
		struct ir_rule r;

		ir_bind(l->m, n, &r);
		shortest(l->m, ir_rule_factor(&r, "t")->dims[0],
			 &l->out->seq);
	}
}

static void
see_region(struct look *l, region_id id)
{
	uint32_t i;

	for (i = 0; i < l->m->regions.at[id].params.n; i++) {
		see_type(l, ir_type(l->m, l->m->regions.at[id].params.at[i]));
	}
	for (i = 0; i < l->m->regions.at[id].nodes.n; i++) {
		const struct ir_node *n = ir_node(l->m,
			l->m->regions.at[id].nodes.at[i]);

		if (wants_batch(l) || ir_is(n->op, SEEN)) {
			see_node(l, n);
		}
		if (ir_is(n->op, IRF_REGION)) {
			see_region(l, n->region);
		}
	}
}

/*
 * Counts layers: the iterations of repeats that carry values, in a body and in
 * the functions it calls.  Reversed repeats are gradients and do not count.
 */
static int64_t
count_layers(const struct look *l, region_id id)
{
	const struct ir_region *r = &l->m->regions.at[id];
	int64_t n = 0, more;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *node = ir_node(l->m, r->nodes.at[i]);

		more = 0;
		if (ir_is(node->op, IRF_CALLS)) {
			more = l->layers[node->callee];
		} else if (ir_is(node->op, IRF_REGION) && node->nresults &&
			   !ir_attr(l->m, node, IR_ATTR_REVERSE)) {
			more = ir_attr_int(l->m, node, IR_ATTR_COUNT, 0);
		}
		if (!num_add(n, more, &n)) {
			return INT64_MAX;
		}
	}
	return n;
}

/* Counts the layers of all stages, in their forward functions. */
static int64_t
count_staged(const struct look *l)
{
	const struct ir_module *m = l->m;
	int64_t n = 0;
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		const char *name = ir_text(m->ctx, m->funcs.at[f].name);
		const char *end = strrchr(name, '_');

		if (end && strcmp(end, "_forward") == 0 &&
		    !num_add(n, l->layers[f], &n)) {
			return INT64_MAX;
		}
	}
	return n;
}

const char *
plan_recompute_hint(const struct ir_module *m)
{
	const char *what = "none";
	uint32_t i;

	for (i = 0; i < m->hints.n; i++) {
		const struct ir_hint *h = &m->hints.at[i];

		if (strcmp(ir_text(m->ctx, h->verb), "recompute") == 0) {
			what = ir_text(m->ctx, h->what);
		}
	}
	return what;
}

void
plan_facts(struct ir_module *m, struct plan_facts *out)
{
	struct look l = { .m = m, .out = out };
	bool *live = pass_live_funcs(m);
	func_id f, model = ir_model(m);

	memset(out, 0, sizeof *out);
	l.batch = ir_dim_find(m, intern_str(&m->ctx->syms, "batch"));
	l.layers = arena_alloc(&m->ctx->tmp, m->funcs.n * sizeof *l.layers);
	for (f = 1; f < m->funcs.n; f++) {	/* callees come first */
		l.layers[f] = count_layers(&l, m->funcs.at[f].body);
		if (live[f]) {
			see_region(&l, m->funcs.at[f].body);
		}
	}
	out->staged = !model;
	out->nlayers = model ? l.layers[model] : count_staged(&l);
	out->recompute = plan_recompute_hint(m);
}

bool
plan_can_rebuild(struct ir_module *m, const char *name,
		 struct diag_near *near)
{
	sym_t sym = intern_str(&m->ctx->syms, name);
	bool *tried = arena_alloc(&m->ctx->tmp, m->ctx->syms.text.n);
	uint16_t op_name = 0;
	enum ir_op op;
	bool is_op = ir_find_op(name, &op) &&
		     ir_ops[op].recompute != IR_RC_NEVER;
	value_id v;

	diag_near_init(near, name);
	for (v = 1; v < m->values.n; v++) {
		const struct ir_value *x = &m->values.at[v];

		if ((x->hint && x->hint == sym) ||
		    (is_op && x->node && ir_node(m, x->node)->op == op)) {
			return true;
		}
		if (x->hint && !tried[x->hint]) {
			tried[x->hint] = true;
			diag_near_try(near, ir_text(m->ctx, x->hint));
		}
		op_name = x->node ? ir_node(m, x->node)->op : op_name;
		if (x->node && ir_ops[op_name].recompute != IR_RC_NEVER) {
			diag_near_try(near, ir_ops[op_name].name);
		}
	}
	return false;
}

/*
 * autodiff: appends the backward program.
 *
 * It needs a flat module whose model returns one number, the loss.  It appends
 * the derivatives of the forward nodes in reverse order, and an `accumulate`
 * for every weight that the loss depends on.  For each repeat it appends a
 * second repeat that runs the iterations backward and carries the gradients.
 * Values of the forward body that backward needs pass through `save` and
 * `saved`, so that recomputation only has to remove saves.  A value that is a
 * view of another value is not saved but made again from that one.
 *
 * It runs after inline, since a gradient has the full name of its weight, and
 * before cse and dce, which merge duplicates and remove unused derivatives.
 */
#include "passes/derive.h"

#include <string.h>

#define MAX_VIEWS 8	/* longest chain that is made again */

/* A forward region and the region of its gradients. */
struct frame {
	struct frame *outer;
	region_id forward, backward;	/* equal in the model's body */
	value_id *local;	/* by value: it, in `backward` */
	sym_t var;		/* the repeat's, or 0 */
};

struct autodiff {
	struct pass_ctx *p;
	struct ir_module *m;
	uint32_t nvalues;	/* of the forward program */
	region_id *home;	/* by value: the region it belongs to */
	bool *active;		/* by value: it depends on a weight */
	value_id *grad;		/* by value: its gradient so far */
	struct frame *frame;
	uint32_t nsaves;
	bool failed;
};

static void sweep(struct autodiff *a, region_id forward, uint32_t n);

/* ---- what depends on weights ---- */

static bool
is_float(const struct autodiff *a, value_id v)
{
	return ir_dtypes[ir_type(a->m, v)->dtype].is_float;
}

/* Marks active values of a region; true if there are new ones. */
static bool
spread_activity(struct autodiff *a, region_id id)
{
	const struct ir_region *r = &a->m->regions.at[id];
	bool changed = false;
	uint32_t i, k;

	for (i = 0; i < r->params.n; i++) {
		a->home[r->params.at[i]] = id;
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(a->m, r->nodes.at[i]);
		bool on = pass_is_trained(a->m, n);

		for (k = 0; k < n->nargs && !n->region; k++) {
			on |= a->active[ir_args(a->m, n)[k]];
		}
		if (n->region) {
			const struct ir_region *b =
				&a->m->regions.at[n->region];

			for (k = 0; k < n->nargs; k++) {
				if (a->active[ir_args(a->m, n)[k]] ||
				    a->active[b->results.at[k]]) {
					a->active[b->params.at[k]] = true;
				}
			}
			changed |= spread_activity(a, n->region);
		}
		for (k = 0; k < n->nresults; k++) {
			value_id v = n->result + k;
			bool now = on || (n->region && a->active[
				a->m->regions.at[n->region].results.at[k]]);

			a->home[v] = id;
			now = now && is_float(a, v);
			changed |= now && !a->active[v];
			a->active[v] |= now;
		}
	}
	return changed;
}

/* ---- stand-ins for forward values ---- */

static struct frame *
frame_of(struct autodiff *a, value_id v)
{
	struct frame *f = a->frame;

	while (f && f->forward != a->home[v]) {
		f = f->outer;
	}
	if (!f) {
		die("value %u is of no region around", v);
	}
	return f;
}

/* "save3.{i}.{j}": one tensor per iteration of each enclosing repeat. */
static sym_t
save_name(struct autodiff *a, const struct frame *f)
{
	struct ir_ctx *c = a->m->ctx;
	struct buf b;

	buf_init(&b, &c->tmp);
	buf_printf(&b, "save%u", a->nsaves++);
	for (; f->outer; f = f->outer) {
		buf_printf(&b, ".{%s}", ir_text(c, f->var));
	}
	return intern_str(&c->syms, buf_text(&b));
}

static value_id
save(struct autodiff *a, struct frame *f, value_id v)
{
	struct span span = { 0, 0 };
	sym_t name = save_name(a, f);
	struct ir_new n;
	value_id s;

	ir_new_init(&n, IR_SAVE, span);
	ir_new_arg(&n, v);
	ir_new_text(&n, IR_ATTR_NAME, name);
	derive_sink(a->m, f->forward, &n);
	ir_new_init(&n, IR_SAVED, span);
	ir_new_text(&n, IR_ATTR_NAME, name);
	n.types[0] = *ir_type(a->m, v);
	n.hint = a->m->values.at[v].hint;
	s = derive_append(a->m, f->backward, &n);
	pass_count(a->p, "values saved", 1);
	return s;
}

/*
 * Whether v is the operand of its node, only moved or converted, so that
 * backward can make it again without arithmetic.
 */
static bool
is_view(const struct autodiff *a, value_id v)
{
	const struct ir_node *n = ir_node(a->m, a->m->values.at[v].node);

	return n->nargs == 1 && !n->region &&
	       ir_ops[n->op].recompute == IR_RC_CHEAP &&
	       *ir_ops[n->op].flops == '\0' && !ir_is(n->op, IRF_CACHED);
}

static int64_t
bytes_of(const struct autodiff *a, value_id v)
{
	const struct ir_type *t = ir_type(a->m, v);
	int64_t elems, bytes;

	return ir_type_elems(a->m, t, &elems) &&
	       num_mul(elems, ir_dtypes[t->dtype].bits / 8, &bytes)
		? bytes : INT64_MAX;
}

/* How many more bytes are saved if backward needs v. */
static int64_t
price(struct autodiff *a, value_id v, int views)
{
	const struct frame *f = frame_of(a, v);
	node_id maker = a->m->values.at[v].node;
	int64_t own, other;

	if (f->forward == f->backward || f->local[v] ||
	    (maker && derive_reads_again(ir_node(a->m, maker)->op))) {
		return 0;
	}
	own = bytes_of(a, v);
	if (views == MAX_VIEWS || !is_view(a, v)) {
		return own;
	}
	other = price(a, ir_args(a->m, ir_node(a->m, maker))[0], views + 1);
	return other < own ? other : own;
}

/*
 * Returns v in the backward region.  Weights and constants are read again, not
 * saved.  For a view, its operand is saved if that needs fewer bytes: a mask of
 * bytes and not its cast, or a value that is saved anyway.
 */
static value_id
stand_in(struct autodiff *a, value_id v, int views)
{
	struct frame *f = frame_of(a, v);
	node_id maker = a->m->values.at[v].node;
	value_id from = 0;

	if (f->forward == f->backward) {
		return v;
	}
	if (f->local[v]) {
		return f->local[v];
	}
	if (views < MAX_VIEWS && is_view(a, v)) {
		from = ir_args(a->m, ir_node(a->m, maker))[0];
	}
	if (from && price(a, from, views + 1) < bytes_of(a, v)) {
		from = stand_in(a, from, views + 1);
		f->local[v] = derive_copy(a->m, f->backward, maker, &from);
	} else if (maker && derive_reads_again(ir_node(a->m, maker)->op)) {
		f->local[v] = derive_copy(a->m, f->backward, maker, NULL);
	} else {
		f->local[v] = save(a, f, v);
	}
	return f->local[v];
}

/* A value that a derivative has added to forward is not a view, and has one
 * use. */
static value_id
local(void *user, value_id v)
{
	struct autodiff *a = user;

	if (v < a->nvalues) {
		return stand_in(a, v, 0);
	}
	return a->frame->forward == a->frame->backward ? v
		: save(a, a->frame, v);
}

/* ---- adding up gradients ---- */

static void
sink(struct autodiff *a, value_id weight, value_id g)
{
	struct ir_node w = *ir_node(a->m, a->m->values.at[weight].node);
	struct ir_new n;

	ir_new_init(&n, IR_ACCUMULATE, w.span);
	ir_new_arg(&n, derive_fit(a->m, a->frame->backward, g,
				  ir_type(a->m, weight), w.span));
	ir_new_text(&n, IR_ATTR_NAME,
		    ir_attr(a->m, &w, IR_ATTR_NAME)->text);
	derive_sink(a->m, a->frame->backward, &n);
}

static bool
is_param(const struct autodiff *a, value_id v)
{
	node_id n = a->m->values.at[v].node;

	return n && ir_is(ir_node(a->m, n)->op, IRF_PARAM);
}

/* Adds g to v's gradient; accumulates at once if v is an outer weight. */
static void
add_grad(struct autodiff *a, value_id v, value_id g)
{
	struct ir_new n;

	if (is_param(a, v) && a->home[v] != a->frame->forward) {
		sink(a, v, g);
	} else if (!a->grad[v]) {
		a->grad[v] = g;
	} else {
		ir_new_init(&n, IR_ADD, a->m->nodes.at[a->m->values.at[v]
							 .node].span);
		ir_new_arg(&n, a->grad[v]);
		ir_new_arg(&n, g);
		a->grad[v] = derive_append(a->m, a->frame->backward, &n);
	}
}

static value_id
grad_or_zero(struct autodiff *a, value_id v)
{
	struct span none = { 0, 0 };
	region_id r = a->frame->backward;

	return a->grad[v]
		? derive_fit(a->m, r, a->grad[v], ir_type(a->m, v), none)
		: derive_full(a->m, r, 0, ir_type(a->m, v), none);
}

/* ---- nodes ---- */

static bool
is_balanced(const struct autodiff *a, value_id v)
{
	const struct ir_node *n = ir_node(a->m, a->m->values.at[v].node);

	return ir_is(n->op, IRF_PARAM) && ir_attr(a->m, n, IR_ATTR_BALANCE);
}

/* False after an error: counts belong to a weight with `balance`, and nothing
 * else does. */
static bool
check_balance(struct autodiff *a, const struct ir_node *n, uint32_t k)
{
	bool counts = ir_is(n->op, IRF_COUNTS) && k == 1;

	if (is_balanced(a, ir_args(a->m, n)[k]) == counts) {
		return true;
	}
	diag_error(&a->m->ctx->diags, n->span, counts ?
		   "%s counts for operand %u, and expects a weight with "
		   "`balance` there" :
		   "%s has a gradient for operand %u, and a weight with "
		   "`balance` is moved by counts alone",
		   ir_ops[n->op].name, k + 1);
	a->failed = true;
	return false;
}

static void
grad_node(struct autodiff *a, node_id id)
{
	struct ir_node n = *ir_node(a->m, id);
	struct derive d;
	uint32_t k;

	if (!a->grad[n.result]) {
		return;
	}
	if (ir_is(n.op, IRF_PARAM)) {
		sink(a, n.result, a->grad[n.result]);
		return;
	}
	if (n.nargs == 0) {
		return;
	}
	derive_init(&d, a->m, id);
	d.region = a->frame->backward;
	d.forward = a->frame->forward;
	d.local = local;
	d.user = a;
	d.g = derive_fit(a->m, d.region, a->grad[n.result],
			 ir_type(a->m, n.result), n.span);
	for (k = 0; k < n.nargs; k++) {
		value_id v = ir_args(a->m, &n)[k];

		if (!a->active[v] || !is_float(a, v)) {
			continue;
		}
		if (!derive_has(n.op, k)) {
			diag_error(&a->m->ctx->diags, n.span, "%s has no "
				   "derivative for operand %u, and a weight "
				   "is after it", ir_ops[n.op].name, k + 1);
			a->failed = true;
			return;
		}
		if (!check_balance(a, &n, k)) {
			return;
		}
		add_grad(a, v, derive_operand(&d, k));
	}
}

/* ---- repeats ---- */

/* What the backward repeat carries: gradients of results, then of `outer`. */
struct carry {
	struct ir_node n;	/* the forward repeat */
	struct ir_region body;	/* copied before changes */
	bool *on;		/* by result: it carries a gradient */
	VEC(value_id) outer;	/* not weights; defined outside */
	VEC(value_id) outer_grad;	/* initial gradients */
};

static bool
is_inside(const struct autodiff *a, region_id r, region_id around)
{
	while (r && r != around) {
		node_id owner = a->m->regions.at[r].owner;

		r = owner ? a->home[ir_node(a->m, owner)->result] : 0;
	}
	return r == around;
}

static void
add_outer(struct autodiff *a, struct carry *c, region_id around, value_id v)
{
	uint32_t i;

	if (v >= a->nvalues || !a->active[v] || is_param(a, v) ||
	    is_inside(a, a->home[v], around)) {
		return;
	}
	for (i = 0; i < c->outer.n; i++) {
		if (c->outer.at[i] == v) {
			return;
		}
	}
	VEC_PUSH(&a->m->ctx->tmp, &c->outer, v);
}

/* Finds the outer active values that a body or a repeat in it uses. */
static void
find_outer(struct autodiff *a, struct carry *c, region_id around,
	   region_id id)
{
	const struct ir_region *r = &a->m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(a->m, r->nodes.at[i]);

		for (k = 0; k < n->nargs; k++) {
			add_outer(a, c, around, ir_args(a->m, n)[k]);
		}
		if (n->region) {
			find_outer(a, c, around, n->region);
		}
	}
	for (i = 0; i < r->results.n; i++) {
		add_outer(a, c, around, r->results.at[i]);
	}
}

/* The repeat's variable, added if missing: it names saves by iteration. */
static sym_t
trip_variable(struct autodiff *a, node_id id)
{
	struct ir_module *m = a->m;
	const struct ir_attr *var = ir_attr(m, ir_node(m, id), IR_ATTR_VAR);
	struct ir_node *n;
	struct ir_new copy;
	uint32_t i, first;
	sym_t name;

	if (var) {
		return var->text;
	}
	name = intern_str(&m->ctx->syms,
			  arena_printf(&m->ctx->tmp, "iteration%u", id));
	ir_new_init(&copy, IR_REPEAT, (struct span){ 0, 0 });
	n = &m->nodes.at[id];
	first = m->attrs.n;
	for (i = 0; i < n->nattrs; i++) {
		struct ir_attr at = m->attrs.at[n->attrs + i];

		/* order in ops.def: count start var reverse name */
		if (at.key == IR_ATTR_REVERSE || at.key == IR_ATTR_NAME) {
			break;
		}
		VEC_PUSH(&m->ctx->perm, &m->attrs, at);
	}
	ir_new_text(&copy, IR_ATTR_VAR, name);
	VEC_PUSH(&m->ctx->perm, &m->attrs, copy.attrs[0]);
	for (; i < n->nattrs; i++) {
		struct ir_attr at = m->attrs.at[n->attrs + i];

		VEC_PUSH(&m->ctx->perm, &m->attrs, at);
	}
	n->attrs = first;
	n->nattrs++;
	return name;
}

/* Adds parameters to the backward body: the gradients that it carries. */
static void
enter_repeat(struct autodiff *a, struct carry *c, struct frame *f)
{
	uint32_t i, k = 0;

	f->outer = a->frame;
	f->local = arena_alloc(&a->m->ctx->tmp,
			       a->nvalues * sizeof *f->local);
	a->frame = f;
	for (i = 0; i < c->n.nresults; i++) {
		if (c->on[i]) {
			ir_param_add(a->m, f->backward, ir_type(a->m,
				     c->body.params.at[i]), 0);
		}
	}
	for (i = 0; i < c->outer.n; i++) {
		value_id v = c->outer.at[i];

		VEC_PUSH(&a->m->ctx->tmp, &c->outer_grad, a->grad[v]);
		a->grad[v] = ir_param_add(a->m, f->backward,
					  ir_type(a->m, v), 0);
	}
	for (i = 0; i < c->n.nresults; i++) {
		if (c->on[i]) {
			add_grad(a, c->body.results.at[i], a->m->regions
				 .at[f->backward].params.at[k++]);
		}
	}
}

static void
leave_repeat(struct autodiff *a, struct carry *c, struct frame *f)
{
	struct arena *perm = &a->m->ctx->perm;
	uint32_t i;
	value_id g;

	for (i = 0; i < c->n.nresults; i++) {
		if (c->on[i]) {
			g = grad_or_zero(a, c->body.params.at[i]);
			VEC_PUSH(perm, &a->m->regions.at[f->backward].results,
				 g);
		}
	}
	for (i = 0; i < c->outer.n; i++) {
		g = grad_or_zero(a, c->outer.at[i]);
		VEC_PUSH(perm, &a->m->regions.at[f->backward].results, g);
		a->grad[c->outer.at[i]] = c->outer_grad.at[i];
	}
	a->frame = f->outer;
}

/* Appends the backward repeat and adds its results to gradients. */
static void
append_repeat(struct autodiff *a, struct carry *c, const struct frame *f)
{
	struct ir_new n;
	uint32_t i, k = 0;
	value_id v;

	ir_new_init(&n, IR_REPEAT, c->n.span);
	n.region = f->backward;
	for (i = 0; i < c->n.nattrs; i++) {
		struct ir_attr at = a->m->attrs.at[c->n.attrs + i];

		if (at.key != IR_ATTR_REVERSE) {
			*ir_new_attr(&n, at.key) = at;
		}
	}
	if (!ir_attr(a->m, &c->n, IR_ATTR_REVERSE)) {
		ir_new_attr(&n, IR_ATTR_REVERSE);
	}
	for (i = 0; i < c->n.nresults; i++) {
		if (c->on[i]) {
			ir_new_arg(&n, grad_or_zero(a, c->n.result + i));
		}
	}
	for (i = 0; i < c->outer.n; i++) {
		ir_new_arg(&n, grad_or_zero(a, c->outer.at[i]));
	}
	for (i = 0; i < n.nargs; i++) {
		n.types[i] = *ir_type(a->m, n.args[i]);
	}
	n.nresults = n.nargs;
	v = derive_append(a->m, a->frame->backward, &n);
	/* first the outer values: one may also be an operand */
	for (i = 0; i < c->outer.n; i++) {
		a->grad[c->outer.at[i]] = v + (n.nargs - c->outer.n) + i;
	}
	for (i = 0; i < c->n.nresults; i++) {
		if (c->on[i]) {
			add_grad(a, ir_args(a->m, &c->n)[i], v + k++);
		}
	}
}

static void
grad_repeat(struct autodiff *a, node_id id)
{
	struct frame f = { .var = 0 };
	struct carry c;
	uint32_t i, all;
	bool any = false;

	memset(&c, 0, sizeof c);
	f.var = trip_variable(a, id);
	c.n = *ir_node(a->m, id);
	c.body = a->m->regions.at[c.n.region];
	c.on = arena_alloc(&a->m->ctx->tmp, c.n.nresults * sizeof *c.on + 1);
	for (i = 0; i < c.n.nresults; i++) {
		any |= a->grad[c.n.result + i] != 0;
		c.on[i] = a->active[c.body.params.at[i]] &&
			  is_float(a, c.body.params.at[i]);
	}
	if (!any) {
		return;
	}
	find_outer(a, &c, c.n.region, c.n.region);
	all = c.n.nresults + c.outer.n;
	if (all > IR_MAX_ARGS) {
		diag_error(&a->m->ctx->diags, c.n.span, "the backward of this "
			   "repeat carries %u values, and %d is the limit",
			   all, IR_MAX_ARGS);
		a->failed = true;
		return;
	}
	f.forward = c.n.region;
	f.backward = ir_region_add(a->m, 0);
	enter_repeat(a, &c, &f);
	sweep(a, c.n.region, c.body.nodes.n);
	leave_repeat(a, &c, &f);
	append_repeat(a, &c, &f);
}

/* Differentiates the first n nodes of a region, last to first. */
static void
sweep(struct autodiff *a, region_id forward, uint32_t n)
{
	while (n-- > 0 && !a->failed) {
		node_id id = a->m->regions.at[forward].nodes.at[n];
		const struct ir_node *node = ir_node(a->m, id);

		if (node->region) {
			grad_repeat(a, id);
		} else if (!ir_is(node->op, IRF_SINK)) {
			grad_node(a, id);
		}
	}
}

static bool
find_loss(struct autodiff *a, value_id *loss)
{
	const struct ir_func *f = &a->m->funcs.at[ir_model(a->m)];
	const struct ir_region *r = &a->m->regions.at[f->body];

	*loss = r->results.at[0];
	if (r->results.n != 1 || ir_type(a->m, *loss)->ndims != 0 ||
	    !is_float(a, *loss)) {
		diag_error(&a->m->ctx->diags, f->span, "to train, a model "
			   "returns one number, and this returns %s",
			   ir_type_text(a->m, ir_type(a->m, *loss)));
		return false;
	}
	return true;
}

static bool
has_frozen(const struct ir_module *m)
{
	node_id n = 1;

	while (n < m->nodes.n && (!ir_is(ir_node(m, n)->op, IRF_PARAM) ||
				  pass_is_trained(m, ir_node(m, n)))) {
		n++;
	}
	return n < m->nodes.n;
}

bool
pass_autodiff(struct pass_ctx *p, struct ir_module *m)
{
	struct arena *tmp = &m->ctx->tmp;
	region_id body = m->funcs.at[ir_model(m)].body;
	struct autodiff a = { .p = p, .m = m, .nvalues = m->values.n };
	struct frame f = { .forward = body, .backward = body };
	struct span none = { 0, 0 };
	value_id loss;
	uint32_t n;

	if (pass_props(m) & PROP_BACKWARD) {
		diag_error(&m->ctx->diags, m->funcs.at[ir_model(m)].span,
			   "this model has its backward program already");
		return false;
	}
	if (!find_loss(&a, &loss)) {
		return false;
	}
	a.home = arena_alloc(tmp, a.nvalues * sizeof *a.home);
	a.active = arena_alloc(tmp, a.nvalues * sizeof *a.active);
	a.grad = arena_alloc(tmp, a.nvalues * sizeof *a.grad);
	while (spread_activity(&a, body)) {
		continue;
	}
	a.frame = &f;
	n = m->regions.at[body].nodes.n;
	if (!a.active[loss] && has_frozen(m)) {
		diag_error(&m->ctx->diags, m->funcs.at[ir_model(m)].span,
			   "all weights that reach the loss are frozen: there "
			   "is nothing to train");
		return false;
	}
	if (a.active[loss]) {
		a.grad[loss] = derive_full(m, body, 1, ir_type(m, loss), none);
		sweep(&a, body, n);
	}
	return !a.failed;
}

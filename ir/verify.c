/*
 * The verifier: all rules that a pass could break, checked after each one.  It
 * relies on nothing but the arrays' lengths: each id is checked before it is
 * followed, so that a broken module is reported and does not crash it.
 *
 * Order: dims, expressions, settings and hints, then, if these are well-formed,
 * the functions in order, each walked as it is printed.
 */
#include "ir/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct span nowhere = { 0, 0 };

/* ---- regions ---- */

static void walk_nodes(struct verifier *v, const struct ir_region *r,
		       int depth);

/*
 * Marks the region's parameters as defined; NULL, or what is wrong with them.
 */
static const char *
enter(struct verifier *v, region_id id)
{
	struct arena *a = &v->ctx->tmp;
	const struct ir_region *r = &v->m->regions.at[id];
	uint32_t i;

	if (r->params.n > IR_MAX_ARGS) {
		return arena_printf(a, "expected at most %d parameters, found "
				    "%" PRIu32, IR_MAX_ARGS, r->params.n);
	}
	for (i = 0; i < r->params.n; i++) {
		value_id p = r->params.at[i];
		const struct ir_value *val = &v->m->values.at[p];
		const char *fault;

		if (!p || p >= v->m->values.n || val->region != id ||
		    val->node || val->index != i || v->seen[p]) {
			return arena_printf(a, "expected parameter %" PRIu32
					    " of region %" PRIu32 ", found "
					    "value %" PRIu32 ", which is not",
					    i, id, p);
		}
		v->seen[p] = SEEN;
		fault = ver_type_fault(v, val->type);
		if (fault || (val->hint && !ver_is_name(v, val->hint,
							false))) {
			v->seen[p] = SEEN_BROKEN;
			return fault ? fault : "expected a name as hint";
		}
	}
	return NULL;
}

/* Ends the scope of all that the region defines. */
static void
leave(struct verifier *v, const struct ir_region *r)
{
	uint32_t i, k;

	for (i = 0; i < r->params.n && i < IR_MAX_ARGS; i++) {
		if (r->params.at[i] < v->m->values.n) {
			v->seen[r->params.at[i]] = SEEN_GONE;
		}
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n;

		if (!r->nodes.at[i] || r->nodes.at[i] >= v->m->nodes.n) {
			continue;
		}
		n = ir_node(v->m, r->nodes.at[i]);
		for (k = 0; k < n->nresults &&
			    k < v->m->values.n - n->result; k++) {
			if (n->result < v->m->values.n &&
			    v->seen[n->result + k] != SEEN_NOT) {
				v->seen[n->result + k] = SEEN_GONE;
			}
		}
	}
}

static bool
check_repeat(struct verifier *v, const struct ir_node *n, node_id id,
	     int depth)
{
	const struct ir_attr *var = ir_attr(v->m, n, IR_ATTR_VAR);
	const struct ir_region *r;
	const char *fault;
	bool ok;

	if (!n->region || n->region >= v->m->regions.n ||
	    v->region_seen[n->region] ||
	    v->m->regions.at[n->region].owner != id) {
		return ver_broken(v, n, "expected a region of its own, found "
				  "region %" PRIu32, n->region);
	}
	if (depth > IR_MAX_DEPTH) {
		return ver_broken(v, n, "expected repeats at most %d deep, "
				  "found one more", IR_MAX_DEPTH);
	}
	v->region_seen[n->region] = true;
	r = &v->m->regions.at[n->region];
	fault = enter(v, n->region);
	if (fault) {
		return ver_broken(v, n, "%s", fault);
	}
	if (!ver_carried(v, n)) {
		return false;
	}
	if (var) {
		VEC_PUSH(&v->ctx->tmp, &v->vars, var->text);
	}
	walk_nodes(v, r, depth + 1);
	ok = ver_yield(v, n);
	v->vars.n -= var != NULL;
	leave(v, r);
	return ok;
}

static bool
check_node(struct verifier *v, node_id id, region_id region, int depth)
{
	const struct ir_node *n = ir_node(v->m, id);
	enum ir_op op = (enum ir_op)n->op;
	const struct ir_attr *name;
	const char *fault;

	if (!ver_attrs(v, n) || !ver_operands(v, n) ||
	    !ver_rule(v, n) || !ver_relations(v, n) ||
	    !ver_template(v, n)) {
		return false;
	}
	fault = ir_place_fault(v->m, n);
	if (fault) {
		return ver_broken(v, n, "%s", fault);
	}
	if (!ir_is(op, IRF_REGION) && n->region) {
		return ver_broken(v, n, "expected no region, found %" PRIu32,
				  n->region);
	}
	if (!ir_is(op, IRF_CALLS) && n->callee) {
		return ver_broken(v, n, "expected no callee, found %" PRIu32,
				  n->callee);
	}
	name = ir_attr(v->m, n, IR_ATTR_NAME);
	if (ir_is(op, IRF_SOURCE) && name) {
		struct named e = { region, name->text, n->op, id };

		VEC_PUSH(&v->ctx->tmp, &v->named, e);
	}
	if (ir_is(op, IRF_REGION)) {
		return check_repeat(v, n, id, depth);
	}
	return !ir_is(op, IRF_CALLS) || ver_call(v, n);
}

/* Marks the node's results as broken, so that their uses are not reported. */
static void
give_up(struct verifier *v, const struct ir_node *n, node_id id)
{
	uint32_t k;

	for (k = 0; k < n->nresults; k++) {
		value_id r = n->result + k;

		if (r < v->m->values.n && v->m->values.at[r].node == id) {
			v->seen[r] = SEEN_BROKEN;
		}
	}
}

static void
walk_nodes(struct verifier *v, const struct ir_region *r, int depth)
{
	region_id region = (region_id)(r - v->m->regions.at);
	uint32_t i, k;

	for (i = 0; i < r->nodes.n; i++) {
		node_id id = r->nodes.at[i];
		const struct ir_node *n;
		bool sound;

		if (!id || id >= v->m->nodes.n || v->node_seen[id]) {
			ver_fail(v, nowhere, "region %" PRIu32 ": expected a "
				 "node from 1 to %" PRIu32 " that no region "
				 "has yet, found %" PRIu32, region,
				 v->m->nodes.n - 1, id);
			continue;
		}
		v->node_seen[id] = true;
		n = ir_node(v->m, id);
		if (!ver_ids(v, n, id)) {
			give_up(v, n, id);
			continue;
		}
		sound = ver_results(v, n);
		if (sound) {
			check_node(v, id, region, depth);
		}
		for (k = 0; k < n->nresults; k++) {
			v->seen[n->result + k] = sound ? SEEN : SEEN_BROKEN;
		}
	}
}

/* ---- functions ---- */

static void
number_value(struct verifier *v, value_id id)
{
	if (id && id < v->m->values.n && !v->number[id]) {
		v->number[id] = ++v->next;
		v->home[id] = v->func;
	}
}

/*
 * Gives values the numbers that they are printed with, for messages.  Nothing
 * has been checked yet, so each region is visited once, whatever refers to it.
 */
static void
number_region(struct verifier *v, region_id id)
{
	const struct ir_region *r = &v->m->regions.at[id];
	uint32_t i, k;

	v->region_numbered[id] = true;
	for (i = 0; i < r->params.n; i++) {
		number_value(v, r->params.at[i]);
	}
	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n;

		if (r->nodes.at[i] >= v->m->nodes.n) {
			continue;
		}
		n = ir_node(v->m, r->nodes.at[i]);
		for (k = 0; k < n->nresults; k++) {
			number_value(v, n->result + k);
		}
		if (n->region && n->region < v->m->regions.n &&
		    !v->region_numbered[n->region] &&
		    v->depth < IR_MAX_DEPTH) {
			v->depth++;
			number_region(v, n->region);
			v->depth--;
		}
	}
}

static bool
check_func(struct verifier *v, func_id id, bool *seen)
{
	const struct ir_func *f = &v->m->funcs.at[id];
	const struct ir_region *body;
	const char *what = f->is_model ? "the model"
		: arena_printf(&v->ctx->tmp, "layer `%s`",
			       ver_text(v, f->name)), *fault;
	bool silent;

	if (!f->is_model && !ver_is_name(v, f->name, false)) {
		return ver_fail(v, f->span, "layer %" PRIu32 ": expected a "
				"name, found \"%s\"", id,
				ver_text(v, f->name));
	}
	if (!f->is_model && !ver_first_time(seen, f->name)) {
		return ver_fail(v, f->span, "%s: expected one layer of that "
				"name, found a second", what);
	}
	if (ir_model(v->m) && f->is_model != (id == v->m->funcs.n - 1)) {
		return ver_fail(v, f->span, "%s: expected one model, after all "
				"layers, found function %" PRIu32 " of %"
				PRIu32, what, id, v->m->funcs.n - 1);
	}
	body = &v->m->regions.at[f->body];
	if (body->owner || v->region_seen[f->body]) {
		return ver_fail(v, f->span, "%s: expected a region of its own, "
				"found region %" PRIu32, what, f->body);
	}
	if (f->is_model && body->params.n) {
		return ver_fail(v, f->span, "the model: expected no "
				"parameters, found %" PRIu32, body->params.n);
	}
	v->region_seen[f->body] = true;
	v->func = id;
	v->next = 0;
	number_region(v, f->body);
	fault = enter(v, f->body);
	if (fault) {
		return ver_fail(v, f->span, "%s: %s", what, fault);
	}
	walk_nodes(v, body, 1);
	fault = ver_region_fault(v, body, &silent);
	if (!fault && f->is_model && body->results.n == 0) {
		fault = "expected a result, found none";
	}
	leave(v, body);
	return !fault || silent || ver_fail(v, f->span, "%s: %s", what, fault);
}

static void
check_funcs(struct verifier *v)
{
	bool *seen = ver_no_names(v);
	func_id f;

	for (f = 1; f < v->m->funcs.n; f++) {
		const struct ir_func *func = &v->m->funcs.at[f];

		/* calls refer to these, so they are checked first */
		if (!func->body || func->body >= v->m->regions.n) {
			ver_fail(v, func->span, "function %" PRIu32
				 ": expected a region from 1 to %" PRIu32
				 ", found %" PRIu32, f, v->m->regions.n - 1,
				 func->body);
			return;
		}
	}
	if (!ir_model(v->m) && (v->m->axes.n <= 1 || v->m->funcs.n <= 1)) {
		ver_fail(v, nowhere, "expected one model, found none");
	}
	for (f = 1; f < v->m->funcs.n && v->ok; f++) {
		check_func(v, f, seen);
	}
}

/* ---- one name, one tensor ---- */

static int
by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->region != y->region) {
		return x->region < y->region ? -1 : 1;
	}
	if (x->name != y->name) {
		return x->name < y->name ? -1 : 1;
	}
	if (x->op != y->op) {
		return x->op < y->op ? -1 : 1;
	}
	return (x->node > y->node) - (x->node < y->node);
}

/*
 * Checks that sources of one name in one region have one type: they are one
 * tensor.
 */
static void
check_named(struct verifier *v)
{
	const struct ir_module *m = v->m;
	uint32_t i;

	if (v->named.n > 1) {
		qsort(v->named.at, v->named.n, sizeof *v->named.at, by_name);
	}
	for (i = 1; i < v->named.n; i++) {
		const struct named *e = &v->named.at[i];
		const struct ir_node *a = ir_node(m, e[-1].node);
		const struct ir_node *b = ir_node(m, e->node);

		if (e[-1].region != e->region || e[-1].name != e->name ||
		    (a->op == b->op && ir_type_equal(ir_type(m, a->result),
						     ir_type(m, b->result))) ||
		    (a->op != b->op && !(ir_is(a->op, IRF_STORED) &&
					 ir_is(b->op, IRF_STORED)))) {
			continue;
		}
		ver_broken(v, b, "expected one tensor named \"%s\", a %s of "
			   "type %s, found one of type %s",
			   ir_text(v->ctx, e->name), ir_ops[a->op].name,
			   ir_type_text(m, ir_type(m, a->result)),
			   ir_type_text(m, ir_type(m, b->result)));
	}
}

bool
ir_verify(struct ir_module *m)
{
	struct verifier v = { .m = m, .ctx = m->ctx, .ok = true };
	struct arena *a = &m->ctx->tmp;

	v.seen = arena_alloc(a, m->values.n * sizeof *v.seen);
	v.number = arena_alloc(a, m->values.n * sizeof *v.number);
	v.home = arena_alloc(a, m->values.n * sizeof *v.home);
	v.node_seen = arena_alloc(a, m->nodes.n * sizeof *v.node_seen);
	v.region_seen = arena_alloc(a, m->regions.n * sizeof *v.region_seen);
	v.region_numbered = arena_alloc(a, m->regions.n);
	v.terms = arena_alloc(a, m->exprs.n * sizeof *v.terms);
	v.expr_dim = arena_alloc(a, m->exprs.n * sizeof *v.expr_dim);
	ver_header(&v);
	if (v.ok) {
		check_funcs(&v);
		check_named(&v);
	}
	return v.ok;
}

/*
 * The verifier's rules for one node: its ids, the types of its results, its
 * operands, its op's rule, and how calls and repeats fit what they run.
 */
#include "ir/verify.h"

#include <inttypes.h>

/* ---- types and values ---- */

/*
 * Checks that axes exist, each in one place, and that nothing is set after the
 * last dim.
 */
static const char *
ver_placement_fault(struct verifier *v, const struct ir_type *t)
{
	uint32_t seen = (t->sum | t->routed) << 1, i, cut;

	if ((t->sum & t->routed) || seen >> v->m->axes.n) {
		return "expected each axis of the mesh once in a type";
	}
	for (i = 0; i < IR_MAX_DIMS; i++) {
		for (cut = t->cut[i]; cut; cut >>= 4) {
			axis_id a = cut & 15;

			if (i >= t->ndims || !a || a >= v->m->axes.n ||
			    seen >> a & 1) {
				return "expected each axis of the mesh once "
				       "in a type";
			}
			seen |= 1u << a;
		}
	}
	return NULL;
}

const char *
ver_type_fault(struct verifier *v, type_id id)
{
	struct arena *a = &v->ctx->tmp;
	const struct ir_type *t;
	uint32_t n = v->ctx->types->at.n;
	int64_t elems;
	uint8_t i, j;

	if (id >= n) {
		return arena_printf(a, "expected a type below %" PRIu32
				    ", found %" PRIu32, n, id);
	}
	t = ir_type_of(v->ctx, id);
	if (t->dtype >= IR_DTYPE_COUNT || t->ndims > IR_MAX_DIMS) {
		return arena_printf(a, "expected an element type below %d and "
				    "at most %d dims, found %d and %d",
				    IR_DTYPE_COUNT, IR_MAX_DIMS, t->dtype,
				    t->ndims);
	}
	if (t->of >= v->m->dims.n || ir_dtypes[t->dtype].is_float != !t->of) {
		return arena_printf(a, "expected an index, and only that, to "
				    "be into a dim, found %s into `%s`",
				    ir_dtypes[t->dtype].name,
				    ver_dim(v, t->of));
	}
	for (i = 0; i < t->ndims; i++) {
		if (!t->dims[i] || t->dims[i] >= v->m->dims.n) {
			return arena_printf(a, "expected dims from 1 to %"
					    PRIu32 " in a type, found %"
					    PRIu32, v->m->dims.n - 1,
					    t->dims[i]);
		}
		for (j = 0; j < i; j++) {
			if (t->dims[i] == t->dims[j]) {
				return arena_printf(a, "expected each dim "
						    "once in a type, found "
						    "`%s` twice",
						    ver_dim(v, t->dims[i]));
			}
		}
	}
	if (ver_placement_fault(v, t)) {
		return ver_placement_fault(v, t);
	}
	if (!ir_type_elems(v->m, t, &elems)) {
		return arena_printf(a, "expected fewer than 2^63 elements, "
				    "found %s with more",
				    ir_type_text(v->m, t));
	}
	return NULL;
}

/* NULL if the value may be used here, else why not. */
static const char *
use_fault(struct verifier *v, value_id id, bool *silent)
{
	struct arena *a = &v->ctx->tmp;
	const struct ir_func *f;

	*silent = false;
	if (!id || id >= v->m->values.n) {
		return arena_printf(a, "expected a value from 1 to %" PRIu32
				    ", found %" PRIu32, v->m->values.n - 1,
				    id);
	}
	f = &v->m->funcs.at[v->home[id]];
	switch ((enum seen)v->seen[id]) {
	case SEEN:
		return NULL;
	case SEEN_BROKEN:
		*silent = true;
		return "";
	case SEEN_NOT:
		return arena_printf(a, "expected a value that is defined "
				    "above, found %s, which is not",
				    ver_value(v, id));
	default:
		if (v->home[id] != v->func) {
			return arena_printf(a, "expected a value of this "
					    "function, found %s of layer `%s`",
					    ver_value(v, id),
					    ver_text(v, f->name));
		}
		return arena_printf(a, "expected a value in scope, found %s "
				    "of a repeat that has ended",
				    ver_value(v, id));
	}
}

/* ---- nodes ---- */

bool
ver_ids(struct verifier *v, const struct ir_node *n, node_id id)
{
	const struct ir_module *m = v->m;
	bool many = n->op < IR_OP_COUNT &&
		    ir_is((enum ir_op)n->op, IRF_REGION | IRF_CALLS);
	int least = n->op < IR_OP_COUNT &&
		    ir_is((enum ir_op)n->op, IRF_REGION | IRF_SINK) ? 0 : 1;
	int most = many ? IR_MAX_ARGS : n->op < IR_OP_COUNT &&
		   ir_is((enum ir_op)n->op, IRF_SINK) ? 0 : 1;
	uint32_t i;

	if (n->op >= IR_OP_COUNT) {
		return ver_broken(v, n, "expected an op from 0 to %d, found "
				  "%d", IR_OP_COUNT - 1, n->op);
	}
	if (n->args > m->args.n || n->nargs > m->args.n - n->args ||
	    n->attrs > m->attrs.n || n->nattrs > m->attrs.n - n->attrs) {
		return ver_broken(v, n, "expected operands and attributes "
				  "inside the %" PRIu32 " and %" PRIu32
				  " that there are, found %d at %" PRIu32
				  " and %d at %" PRIu32, m->args.n,
				  m->attrs.n, n->nargs, n->args, n->nattrs,
				  n->attrs);
	}
	if (n->nresults < least || n->nresults > most ||
	    n->nargs > IR_MAX_ARGS) {
		return ver_broken(v, n, "expected %d to %d results and at most "
				  "%d operands, found %d and %d", least, most,
				  IR_MAX_ARGS, n->nresults, n->nargs);
	}
	if (n->nresults == 0) {
		return n->result == 0 ||
		       ver_broken(v, n, "expected no result, found value %"
				  PRIu32, n->result);
	}
	if (!n->result || n->result >= m->values.n ||
	    n->nresults > m->values.n - n->result) {
		return ver_broken(v, n, "expected results from 1 to %" PRIu32
				  ", found %d from %" PRIu32, m->values.n - 1,
				  n->nresults, n->result);
	}
	for (i = 0; i < n->nresults; i++) {
		const struct ir_value *r = &m->values.at[n->result + i];

		if (r->node != id || r->index != i) {
			return ver_broken(v, n, "expected result %" PRIu32
					  " of node %" PRIu32 ", found %"
					  PRIu32 " of node %" PRIu32, i, id,
					  r->index, r->node);
		}
	}
	return true;
}

bool
ver_results(struct verifier *v, const struct ir_node *n)
{
	uint32_t i;

	for (i = 0; i < n->nresults; i++) {
		value_id id = n->result + i;
		const struct ir_value *r = &v->m->values.at[id];
		const char *fault = ver_type_fault(v, r->type);

		if (fault) {
			return ver_broken(v, n, "%s", fault);
		}
		if (r->hint && !ver_is_name(v, r->hint, false)) {
			return ver_broken(v, n, "expected a name as hint, "
					  "found \"%s\"",
					  ver_text(v, r->hint));
		}
	}
	return true;
}

bool
ver_operands(struct verifier *v, const struct ir_node *n)
{
	int want = ir_ops[n->op].nargs;
	uint32_t i;

	if (want >= 0 && n->nargs != want) {
		return ver_broken(v, n, "expected %d operand%s, found %d",
				  want, want == 1 ? "" : "s", n->nargs);
	}
	for (i = 0; i < n->nargs; i++) {
		bool silent;
		const char *fault = use_fault(v, ir_args(v->m, n)[i],
					      &silent);

		if (fault) {
			return !silent && ver_broken(v, n, "operand %" PRIu32
						     ": %s", i + 1, fault);
		}
	}
	return true;
}

bool
ver_rule(struct verifier *v, const struct ir_node *n)
{
	const struct ir_type *types[IR_MAX_ARGS];
	const struct ir_type *found = ir_type(v->m, n->result);
	struct ir_type want = *found;
	const char *why;
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		types[i] = ir_type(v->m, ir_args(v->m, n)[i]);
	}
	if (!ir_infer(v->m, (enum ir_op)n->op, types, n->nargs,
		      v->m->attrs.at + n->attrs, n->nattrs, &want, &why)) {
		return ver_broken(v, n, "%s", why);
	}
	if (!ir_type_equal(&want, found)) {
		return ver_broken(v, n, "expected a result of type %s, found "
				  "%s", ir_type_text(v->m, &want),
				  ir_type_text(v->m, found));
	}
	if (found->dtype == IR_INT4 && n->op != IR_WEIGHT &&
	    !ir_is(n->op, IRF_CONVERTS)) {
		return ver_broken(v, n, "expected int4 of a weight alone, "
				  "found %s", ir_type_text(v->m, found));
	}
	/* a weight, constant or mask consists of numbers */
	if (!ir_dtypes[found->dtype].is_float &&
	    (ir_op_takes((enum ir_op)n->op, IR_ATTR_INIT) ||
	     ir_op_takes((enum ir_op)n->op, IR_ATTR_VALUE) ||
	     ir_op_takes((enum ir_op)n->op, IR_ATTR_RATE))) {
		return ver_broken(v, n, "expected a float type, found %s",
				  ir_type_text(v->m, found));
	}
	return true;
}

static bool
same_type(struct verifier *v, const struct ir_node *n, const char *what,
	  uint32_t i, value_id want, value_id found)
{
	return ir_type_equal(ir_type(v->m, want), ir_type(v->m, found)) ||
	       ver_broken(v, n, "%s %" PRIu32 ": expected type %s, found %s",
			  what, i + 1, ir_type_text(v->m, ir_type(v->m, want)),
			  ir_type_text(v->m, ir_type(v->m, found)));
}

bool
ver_call(struct verifier *v, const struct ir_node *n)
{
	const struct ir_module *m = v->m;
	const struct ir_region *body;
	const struct ir_func *f;
	uint32_t i;

	if (!n->callee || n->callee >= v->func) {
		return ver_broken(v, n, "expected a layer above, one of 1 to %"
				  PRIu32 ", found %" PRIu32, v->func - 1,
				  n->callee);
	}
	f = &m->funcs.at[n->callee];
	body = &m->regions.at[f->body];
	if (n->nargs != body->params.n || n->nresults != body->results.n) {
		return ver_broken(v, n, "expected %" PRIu32 " operands and %"
				  PRIu32 " results, those of layer `%s`, "
				  "found %d and %d", body->params.n,
				  body->results.n, ver_text(v, f->name),
				  n->nargs, n->nresults);
	}
	for (i = 0; i < n->nargs; i++) {
		if (!same_type(v, n, "operand", i, body->params.at[i],
			       ir_args(m, n)[i])) {
			return false;
		}
	}
	for (i = 0; i < n->nresults; i++) {
		if (!same_type(v, n, "result", i, body->results.at[i],
			       n->result + i)) {
			return false;
		}
	}
	return true;
}

/* ---- repeats ---- */

const char *
ver_region_fault(struct verifier *v, const struct ir_region *r, bool *silent)
{
	struct arena *a = &v->ctx->tmp;
	uint32_t i;

	*silent = false;
	if (r->results.n > IR_MAX_ARGS) {
		return arena_printf(a, "expected at most %d results, found %"
				    PRIu32, IR_MAX_ARGS, r->results.n);
	}
	for (i = 0; i < r->results.n; i++) {
		const char *fault = use_fault(v, r->results.at[i], silent);

		if (fault) {
			return *silent ? fault
				: arena_printf(a, "result %" PRIu32 ": %s",
					       i + 1, fault);
		}
	}
	return NULL;
}

bool
ver_carried(struct verifier *v, const struct ir_node *n)
{
	const struct ir_region *r = &v->m->regions.at[n->region];
	uint32_t i;

	if (n->nargs != n->nresults || r->params.n != n->nresults) {
		return ver_broken(v, n, "expected as many operands and "
				  "parameters as results, %d, found %d and %"
				  PRIu32, n->nresults, n->nargs,
				  r->params.n);
	}
	for (i = 0; i < n->nresults; i++) {
		if (!same_type(v, n, "operand", i, n->result + i,
			       ir_args(v->m, n)[i]) ||
		    !same_type(v, n, "parameter", i, n->result + i,
			       r->params.at[i])) {
			return false;
		}
	}
	return true;
}

bool
ver_yield(struct verifier *v, const struct ir_node *n)
{
	const struct ir_region *r = &v->m->regions.at[n->region];
	bool silent;
	const char *fault = ver_region_fault(v, r, &silent);
	uint32_t i;

	if (fault) {
		return !silent && ver_broken(v, n, "yield: %s", fault);
	}
	if (r->results.n != n->nresults) {
		return ver_broken(v, n, "yield: expected %d values, found %"
				  PRIu32, n->nresults, r->results.n);
	}
	for (i = 0; i < n->nresults; i++) {
		if (!same_type(v, n, "yield of value", i, n->result + i,
			       r->results.at[i])) {
			return false;
		}
	}
	return true;
}

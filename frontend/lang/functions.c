/*
 * Functions that are more than one op: those that make weights, named by the
 * call's @, and those that make several nodes.  A new one is a row of the
 * table at the end; linear.c and dropout.c hold two of them.
 */
#include "frontend/lang/call.h"

#include <string.h>

/* ---- weights ---- */

bool
call_dtype(struct call *c, enum ir_dtype *dtype)
{
	const struct ast_expr *e = call_named(c, "dtype");

	if (!e) {
		return true;
	}
	if (e->kind != AST_NAME) {
		diag_error(c->l->diags, e->span,
			   "the name of an element type is expected, as "
			   "`dtype = f32`");
		return false;
	}
	return lower_dtype(c->l, e->sym, e->span, dtype);
}

static bool
init_args(struct call *c, struct ir_new *n, const char *init)
{
	const struct ast_expr *e = call_named(c, "init");
	const struct ast_expr *std = call_named(c, "std");
	struct lower *l = c->l;
	double v = 0;

	if (e) {
		init = e->kind == AST_NAME ? lower_text(l, e->sym) : "";
		if (lower_word("normal ones zeros", init) < 0) {
			diag_error(l->diags, e->span,
				   "`init` is normal, ones or zeros");
			return false;
		}
	}
	ir_new_text(n, IR_ATTR_INIT, lower_sym(l, init));
	if (!std || strcmp(init, "normal") != 0) {
		if (std) {
			diag_error(l->diags, std->span, "`std` is the spread "
				   "of `init = normal`, and this is `init = "
				   "%s`", init);
		}
		return !std;
	}
	if (!lower_number(l, std, "`std`", &v)) {
		return false;
	}
	if (v < 0 || v > 1e6) {
		diag_error(l->diags, std->span, "`std` is %s, and 0 to 1e6 is "
			   "legal", lower_number_text(l, v));
		return false;
	}
	ir_new_num(n, IR_ATTR_STD, v);
	return true;
}

value_id
call_weight(struct call *c, enum ir_op op, const char *suffix,
	    const struct ir_type *type, const char *init)
{
	struct lower *l = c->l;
	struct tensor_name t;
	struct ir_new n;
	value_id v;
	sym_t name;

	ir_new_init(&n, op, c->e->span);
	n.types[0] = *type;
	name = lower_tensor_name(l, c->e, suffix, type, &t);
	if (!name) {
		return 0;
	}
	if (strcmp(suffix, ".bias") == 0) {
		ir_new_text(&n, IR_ATTR_INIT, lower_sym(l, init));
	} else if (!init_args(c, &n, init)) {
		return 0;
	}
	ir_new_text(&n, IR_ATTR_NAME, name);
	v = lower_append(l, &n, c->e);
	t.value = v;
	t.region = l->scope->region;
	return v && lower_add_tensor(l, &t) ? v : 0;
}

bool
call_add_dims(struct call *c, struct ir_type *t, const dim_id *d, uint32_t n)
{
	for (; n > 0; n--, d++) {
		if (t->ndims == IR_MAX_DIMS) {
			diag_error(c->l->diags, c->e->span, "a weight has at "
				   "most %d dims", IR_MAX_DIMS);
			return false;
		}
		if (ir_type_has(t, *d)) {
			diag_error(c->l->diags, c->e->span, "`%s` would stand "
				   "twice in the weight",
				   ir_dim_name(c->l->m, *d));
			return false;
		}
		t->dims[t->ndims++] = *d;
	}
	return true;
}

value_id
call_cast(struct call *c, value_id v, enum ir_dtype dtype)
{
	struct ir_new n;

	if (ir_type(c->l->m, v)->dtype == dtype) {
		return v;
	}
	ir_new_init(&n, IR_CAST, c->e->span);
	ir_new_arg(&n, v);
	n.types[0].dtype = (uint8_t)dtype;
	return lower_append(c->l, &n, c->e);
}

bool
call_takes_number(struct call *c, uint32_t i)
{
	if (ir_dtypes[ir_type(c->l->m, c->args[i])->dtype].is_float) {
		return true;
	}
	diag_error(c->l->diags, c->arg_at[i], "%s takes numbers, and this is "
		   "an index, %s", c->name,
		   lower_type_text(c->l, c->args[i]));
	return false;
}

static bool
fn_embed(struct call *c, value_id *out)
{
	enum ir_dtype dtype = c->l->dtype;
	struct ir_type t = { 0 };
	struct ir_new n;
	value_id w;

	if (ir_type(c->l->m, c->args[0])->of != c->dims[0]) {
		diag_error(c->l->diags, c->arg_at[0], "embed looks up rows of "
			   "`%s`, so an index into it is expected, and this "
			   "is %s", ir_dim_name(c->l->m, c->dims[0]),
			   lower_type_text(c->l, c->args[0]));
		return false;
	}
	if (!call_dtype(c, &dtype) || !call_add_dims(c, &t, c->dims, 1) ||
	    !call_add_dims(c, &t, c->to, c->nto)) {
		return false;
	}
	t.dtype = (uint8_t)dtype;
	w = call_weight(c, IR_WEIGHT, ".weight", &t, "normal");
	if (!w) {
		return false;
	}
	ir_new_init(&n, IR_GATHER, c->e->span);
	ir_new_arg(&n, w);
	ir_new_arg(&n, c->args[0]);
	ir_new_dim(&n, IR_ATTR_OF, c->dims[0]);
	*out = lower_append(c->l, &n, c->e);
	return *out != 0;
}

static bool
bare_tensor(struct call *c, enum ir_op op, const char *init, value_id *out)
{
	enum ir_dtype dtype = c->l->dtype;
	struct ir_type t = { 0 };

	if (!call_dtype(c, &dtype) ||
	    !call_add_dims(c, &t, c->dims, c->ndims)) {
		return false;
	}
	t.dtype = (uint8_t)dtype;
	*out = call_weight(c, op, "", &t, init);
	return *out != 0;
}

static bool
fn_weight(struct call *c, value_id *out)
{
	return bare_tensor(c, IR_WEIGHT, "normal", out);
}

static bool
fn_state(struct call *c, value_id *out)
{
	return bare_tensor(c, IR_BUFFER, "zeros", out);
}

/* What a norm runs over: the last dim, unless told. */
static bool
norm_over(struct call *c, struct ir_type *t)
{
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	const struct ast_expr *e = call_named(c, "over");
	uint8_t i;

	if (!call_takes_number(c, 0)) {
		return false;
	}
	if (!e && x->ndims == 0) {
		diag_error(c->l->diags, c->arg_at[0], "%s needs a dim to run "
			   "over, and this is %s", c->name,
			   ir_type_text(c->l->m, x));
		return false;
	}
	if (!e) {
		t->dims[t->ndims++] = x->dims[x->ndims - 1];
		return true;
	}
	if (!call_dims(c, e, t->dims, &t->ndims)) {
		return false;
	}
	for (i = 0; i < t->ndims; i++) {
		if (!ir_type_has(x, t->dims[i])) {
			diag_error(c->l->diags, e->span, "`%s` is no dim of "
				   "%s", ir_dim_name(c->l->m, t->dims[i]),
				   ir_type_text(c->l->m, x));
			return false;
		}
	}
	return true;
}

/* rmsnorm, layernorm: the op with weights over the same dims. */
static bool
norm(struct call *c, enum ir_op op, bool bias, value_id *out)
{
	const struct ast_expr *e = call_named(c, "eps");
	struct ir_type t = { .dtype = ir_type(c->l->m, c->args[0])->dtype };
	value_id w, b = 0;
	struct ir_new n;
	double eps = 1e-5;
	uint8_t i;

	if (!norm_over(c, &t) || (e && !call_positive(c, e, "eps", &eps))) {
		return false;
	}
	w = call_weight(c, IR_WEIGHT, ".weight", &t, "ones");
	b = w && bias ? call_weight(c, IR_WEIGHT, ".bias", &t, "zeros") : 0;
	if (!w || (bias && !b)) {
		return false;
	}
	ir_new_init(&n, op, c->e->span);
	ir_new_arg(&n, c->args[0]);
	ir_new_arg(&n, w);
	if (bias) {
		ir_new_arg(&n, b);
	}
	for (i = 0; i < t.ndims; i++) {
		ir_new_dim(&n, IR_ATTR_OVER, t.dims[i]);
	}
	ir_new_num(&n, IR_ATTR_EPS, eps);
	*out = lower_append(c->l, &n, c->e);
	return *out != 0;
}

static bool
fn_rmsnorm(struct call *c, value_id *out)
{
	return norm(c, IR_RMSNORM, false, out);
}

static bool
fn_layernorm(struct call *c, value_id *out)
{
	return norm(c, IR_LAYERNORM, true, out);
}

static bool
fn_cast(struct call *c, value_id *out)
{
	enum ir_dtype dtype = c->l->dtype;

	if (!call_takes_number(c, 0) || !call_dtype(c, &dtype)) {
		return false;
	}
	*out = call_cast(c, c->args[0], dtype);
	return *out != 0;
}

/* The mean over all tokens of the loss of each. */
static bool
fn_cross_entropy(struct call *c, value_id *out)
{
	const struct ir_type *t;
	struct ir_new n;
	value_id v;
	uint8_t i;

	if (!ir_type(c->l->m, c->args[1])->of) {
		diag_error(c->l->diags, c->arg_at[1], "cross_entropy's second "
			   "operand is the right answers: an index is "
			   "expected, and this is %s",
			   lower_type_text(c->l, c->args[1]));
		return false;
	}
	ir_new_init(&n, IR_CROSS_ENTROPY, c->e->span);
	ir_new_arg(&n, c->args[0]);
	ir_new_arg(&n, c->args[1]);
	v = lower_append(c->l, &n, c->e);
	if (!v) {
		return false;
	}
	ir_new_init(&n, IR_MEAN, c->e->span);
	ir_new_arg(&n, v);
	t = ir_type(c->l->m, v);
	for (i = 0; i < t->ndims; i++) {
		ir_new_dim(&n, IR_ATTR_OVER, t->dims[i]);
	}
	*out = lower_append(c->l, &n, c->e);
	return *out != 0;
}

/* One slice per dim behind the arrow; together they are all of it. */
static bool
fn_split(struct call *c, value_id *out)
{
	struct ir_module *m = c->l->m;
	int64_t at = 0, whole = ir_dim_size(m, c->dims[0]);
	struct ir_new n;
	uint32_t i;

	for (i = 0; i < c->nto; i++) {
		if (!num_add(at, ir_dim_size(m, c->to[i]), &at)) {
			at = INT64_MAX;
		}
	}
	if (at != whole) {
		struct span parts = span_join(c->to_at[0],
					      c->to_at[c->nto - 1]);

		diag_error(c->l->diags, parts, "these parts come to %lld, and "
			   "`%s` is %lld", (long long)at,
			   ir_dim_name(m, c->dims[0]), (long long)whole);
		return false;
	}
	for (at = 0, i = 0; i < c->nto; i++) {
		ir_new_init(&n, IR_SLICE, c->e->span);
		ir_new_arg(&n, c->args[0]);
		ir_new_dim(&n, IR_ATTR_OF, c->dims[0]);
		ir_new_dim(&n, IR_ATTR_TO, c->to[i]);
		ir_new_int(&n, IR_ATTR_AT, at);
		out[i] = lower_append(c->l, &n, c->e);
		if (!out[i]) {
			return false;
		}
		at += ir_dim_size(m, c->to[i]);
	}
	return true;
}

#define NONE 0, 0
#define SOME 1, IR_MAX_DIMS
const struct call_fn call_functions[] = {
	/* name, { operands, dims before ->, behind it, usage },
	 * weights, many results, named arguments, flags */
	{ "linear",
	  { 1, 2, NONE, SOME, "linear(x -> dim, ...) or linear(x, index -> "
	    "dim, ...)" },
	  true, false, "over dtype init std tied", "bias transposed",
	  call_linear },
	{ "embed",
	  { 1, 1, 1, 1, SOME, "embed(index, dim -> dim, ...)" },
	  true, false, "dtype init std", "", fn_embed },
	{ "weight",
	  { NONE, SOME, NONE, "weight(dim, ...)" },
	  true, false, "dtype init std", "", fn_weight },
	{ "state",
	  { NONE, SOME, NONE, "state(dim, ...)" },
	  true, false, "dtype init std", "", fn_state },
	{ "rmsnorm",
	  { 1, 1, NONE, NONE, "rmsnorm(x, eps = 1e-5, over = dim)" },
	  true, false, "eps over", "", fn_rmsnorm },
	{ "layernorm",
	  { 1, 1, NONE, NONE, "layernorm(x, eps = 1e-5, over = dim)" },
	  true, false, "eps over", "", fn_layernorm },
	{ "dropout",
	  { 1, 1, NONE, NONE, "dropout(x, p = 0.1)" },
	  true, false, "p", "", call_dropout },
	{ "cast",
	  { 1, 1, NONE, NONE, "cast(x, dtype = f32)" },
	  false, false, "dtype", "", fn_cast },
	{ "cross_entropy",
	  { 2, 2, NONE, NONE, "cross_entropy(logits, labels)" },
	  false, false, "", "", fn_cross_entropy },
	{ "split",
	  { 1, 1, 1, 1, SOME, "a, b = split(x, dim -> dim, dim)" },
	  false, true, "", "", fn_split },
};
const size_t call_nfunctions =
	sizeof call_functions / sizeof *call_functions;

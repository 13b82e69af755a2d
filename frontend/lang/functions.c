/*
 * Functions that are more than one op: those that make weights, named by the
 * call's @, and those that make several nodes.  A new one is a row of the
 * table at the end.
 */
#include "frontend/lang/call.h"

#include <string.h>

static value_id
call_cast(struct fe_call *c, value_id v, enum ir_dtype dtype)
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

static bool
call_takes_number(struct fe_call *c, uint32_t i)
{
	if (ir_dtypes[ir_type(c->l->m, c->args[i])->dtype].is_float) {
		return true;
	}
	diag_error(c->l->diags, c->arg_at[i], "%s takes numbers, and this is "
		   "an index, %s", c->name,
		   lower_type_text(c->l, c->args[i]));
	return false;
}

/* ---- embeddings, tensors and norms ---- */

static bool
fn_embed(struct fe_call *c, value_id *out)
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
bare_tensor(struct fe_call *c, enum ir_op op, const char *init, value_id *out)
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
fn_weight(struct fe_call *c, value_id *out)
{
	return bare_tensor(c, IR_WEIGHT, call_named(c, "balance") ? "zeros" :
			   "normal", out);
}

static bool
fn_state(struct fe_call *c, value_id *out)
{
	return bare_tensor(c, IR_BUFFER, "zeros", out);
}

/* What a norm runs over: `over`, or the last dim. */
static bool
norm_over(struct fe_call *c, struct ir_type *t)
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
			diag_error(c->l->diags, e->span, "`%s` is not a dim of "
				   "%s", ir_dim_name(c->l->m, t->dims[i]),
				   ir_type_text(c->l->m, x));
			return false;
		}
	}
	return true;
}

/* 1 + w, where what a checkpoint has is the distance from 1. */
static value_id
plus_one(struct fe_call *c, value_id w)
{
	struct ir_new one, sum;

	ir_new_init(&one, IR_CONST, c->e->span);
	ir_new_num(&one, IR_ATTR_VALUE, 1);
	one.types[0].dtype = ir_type(c->l->m, w)->dtype;
	ir_new_init(&sum, IR_ADD, c->e->span);
	ir_new_arg(&sum, w);
	ir_new_arg(&sum, lower_append(c->l, &one, c->e));
	return lower_append(c->l, &sum, c->e);
}

/* rmsnorm, layernorm: the op with weights over the same dims. */
static bool
norm(struct fe_call *c, enum ir_op op, bool bias, value_id *out)
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
	w = call_weight(c, IR_WEIGHT, ".weight", &t,
			call_has_flag(c, "plus_one") ? "zeros" : "ones");
	if (w && call_has_flag(c, "plus_one")) {
		w = plus_one(c, w);
	}
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
fn_rmsnorm(struct fe_call *c, value_id *out)
{
	return norm(c, IR_RMSNORM, false, out);
}

static bool
fn_layernorm(struct fe_call *c, value_id *out)
{
	return norm(c, IR_LAYERNORM, true, out);
}

static bool
fn_cast(struct fe_call *c, value_id *out)
{
	enum ir_dtype dtype = c->l->dtype;

	if (!call_takes_number(c, 0) || !call_dtype(c, &dtype)) {
		return false;
	}
	*out = call_cast(c, c->args[0], dtype);
	return *out != 0;
}

/* One slice for each dim after the arrow; together they are all of it. */
static bool
fn_split(struct fe_call *c, value_id *out)
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

/*
 * ---- dropout(x, p = 0.1) ----
 *
 * x times a mask of zeros and ones, over 1 - p, so that the mean stays.  The
 * mask is a source of one byte an element, which backward reads again: what
 * is in it follows from its name, not from the state of a generator.
 */

/* Elements are dropped with the chance p. */
static bool
chance(struct fe_call *c, double *p)
{
	const struct ast_expr *e = call_named(c, "p");
	struct diags *d = c->l->diags;

	if (!e) {
		diag_error(d, c->e->span, "dropout needs `p`, the chance that "
			   "an element is dropped: it is written dropout(x, "
			   "p = 0.1)");
		return false;
	}
	if (!lower_number(c->l, e, "`p`", p)) {
		return false;
	}
	if (*p < 0 || *p >= 1) {
		diag_error(d, e->span, "`p` is %s, and 0 to less than 1 is "
			   "legal", lower_number_text(c->l, *p));
		return false;
	}
	return true;
}

static value_id
mask(struct fe_call *c, double p)
{
	struct lower *l = c->l;
	struct tensor_name t;
	struct ir_new n;
	sym_t name = lower_mask_name(l, c->e, &t);

	if (!name || !lower_add_tensor(l, &t)) {
		return 0;
	}
	ir_new_init(&n, IR_DROPOUT_MASK, c->e->span);
	n.types[0] = *ir_type(l->m, c->args[0]);
	n.types[0].dtype = IR_F8E4M3;
	ir_new_text(&n, IR_ATTR_NAME, name);
	ir_new_num(&n, IR_ATTR_RATE, p);
	return lower_append(l, &n, c->e);
}

static value_id
times(struct fe_call *c, value_id a, value_id b)
{
	struct ir_new n;

	ir_new_init(&n, IR_MUL, c->e->span);
	ir_new_arg(&n, a);
	ir_new_arg(&n, b);
	return lower_append(c->l, &n, c->e);
}

static bool
fn_dropout(struct fe_call *c, value_id *out)
{
	value_id x = c->args[0], m, by;
	double p;

	if (!call_takes_number(c, 0) || !chance(c, &p)) {
		return false;
	}
	*out = x;
	if (p == 0) {
		return true;
	}
	m = mask(c, p);
	m = m ? call_cast(c, m, ir_type(c->l->m, x)->dtype) : 0;
	x = m ? times(c, x, m) : 0;
	by = x ? lower_constant(c->l, 1 / (1 - p), x, c->e->span) : 0;
	*out = by ? times(c, x, by) : 0;
	return *out != 0;
}

/* ---- linear: what is contracted ---- */

/* What linear contracts without `over`: all dims but batch, seq and those of
 * the index. */
static bool
default_over(struct fe_call *c, dim_id *over, uint8_t *n)
{
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	const struct ir_type *e = c->nargs > 1 ? ir_type(c->l->m, c->args[1])
					       : NULL;
	uint8_t i;

	for (*n = i = 0; i < x->ndims; i++) {
		const char *name = ir_dim_name(c->l->m, x->dims[i]);

		if (strcmp(name, "batch") != 0 && strcmp(name, "seq") != 0 &&
		    !(e && ir_type_has(e, x->dims[i]))) {
			over[(*n)++] = x->dims[i];
		}
	}
	if (*n == 0) {
		diag_error(c->l->diags, c->arg_at[0], "linear finds no dim to "
			   "contract in %s: without `over = ...` it contracts "
			   "all dims but batch, seq and those of an index",
			   ir_type_text(c->l->m, x));
	}
	return *n > 0;
}

static bool
linear_over(struct fe_call *c, dim_id *over, uint8_t *n)
{
	const struct ast_expr *e = call_named(c, "over");
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	uint32_t i;

	if (e ? !call_dims(c, e, over, n) : !default_over(c, over, n)) {
		return false;
	}
	for (i = 0; i < *n; i++) {
		if (!ir_type_has(x, over[i])) {
			diag_error(c->l->diags, e->span, "`%s` cannot be "
				   "contracted: it is not a dim of %s",
				   ir_dim_name(c->l->m, over[i]),
				   ir_type_text(c->l->m, x));
			return false;
		}
	}
	for (i = 0; i < c->nto; i++) {
		const char *name = ir_dim_name(c->l->m, c->to[i]);

		if (call_has_dim(over, *n, c->to[i])) {
			diag_error(c->l->diags, c->to_at[i], "`%s` is both "
				   "contracted and made: declare a second dim "
				   "of its size", name);
			return false;
		}
		if (!e && ir_type_has(x, c->to[i])) {
			diag_error(c->l->diags, c->to_at[i], "`%s` is a dim "
				   "of %s already: say `over = ...` if each "
				   "%s has weights of its own", name,
				   ir_type_text(c->l->m, x), name);
			return false;
		}
	}
	return true;
}

/* The dim of the index operand, 0 without one; false after reporting. */
static bool
linear_index(struct fe_call *c, dim_id *of)
{
	*of = c->nargs > 1 ? ir_type(c->l->m, c->args[1])->of : 0;
	if (c->nargs > 1 && !*of) {
		diag_error(c->l->diags, c->arg_at[1], "linear's second "
			   "operand chooses among weights: an index is "
			   "expected, and this is %s",
			   lower_type_text(c->l, c->args[1]));
		return false;
	}
	return call_takes_number(c, 0);
}

static value_id
add_bias(struct fe_call *c, value_id y, dim_id of, enum ir_dtype dtype)
{
	struct ir_type t = { .dtype = (uint8_t)dtype };
	struct ir_new n;
	value_id b;

	if (!call_add_dims(c, &t, &of, of ? 1 : 0) ||
	    !call_add_dims(c, &t, c->to, c->nto)) {
		return 0;
	}
	b = call_weight(c, IR_WEIGHT, ".bias", &t, "zeros");
	if (b && of) {
		ir_new_init(&n, IR_GATHER, c->e->span);
		ir_new_arg(&n, b);
		ir_new_arg(&n, c->args[1]);
		ir_new_dim(&n, IR_ATTR_OF, of);
		b = lower_append(c->l, &n, c->e);
	}
	if (!b) {
		return 0;
	}
	ir_new_init(&n, IR_ADD, c->e->span);
	ir_new_arg(&n, y);
	ir_new_arg(&n, b);
	return lower_append(c->l, &n, c->e);
}

static bool
fn_linear(struct fe_call *c, value_id *out)
{
	enum ir_dtype dtype = c->l->dtype;
	const struct ast_expr *tied = call_named(c, "tied");
	dim_id over[IR_MAX_DIMS] = { 0 }, of;
	struct ir_type t = { 0 };
	bool in_first = call_has_flag(c, "transposed");
	struct ir_new n;
	value_id w, x;
	uint8_t nover, i;

	if (!call_dtype(c, &dtype) || !linear_index(c, &of) ||
	    !linear_over(c, over, &nover) ||
	    !call_add_dims(c, &t, &of, of ? 1 : 0) ||
	    !call_add_dims(c, &t, in_first ? over : c->to,
			   in_first ? nover : c->nto) ||
	    !call_add_dims(c, &t, in_first ? c->to : over,
			   in_first ? c->nto : nover)) {
		return false;
	}
	t.dtype = (uint8_t)dtype;
	w = tied ? call_tied_weight(c, tied, &t)
		 : call_weight(c, IR_WEIGHT, ".weight", &t, "normal");
	x = w ? call_cast(c, c->args[0], ir_type(c->l->m, w)->dtype) : 0;
	if (!x) {
		return false;
	}
	ir_new_init(&n, of ? IR_DOT_AT : IR_DOT, c->e->span);
	ir_new_arg(&n, x);
	if (of) {
		ir_new_arg(&n, c->args[1]);
		ir_new_dim(&n, IR_ATTR_OF, of);
	}
	ir_new_arg(&n, w);
	for (i = 0; i < nover; i++) {
		ir_new_dim(&n, IR_ATTR_OVER, over[i]);
	}
	*out = lower_append(c->l, &n, c->e);
	if (*out && call_has_flag(c, "bias")) {
		*out = add_bias(c, *out, of, dtype);
	}
	return *out != 0;
}

/* ---- the table ---- */

#define NONE 0, 0
#define SOME 1, IR_MAX_DIMS
const struct call_fn call_functions[] = {
	/* name, { operands, dims before ->, after it, usage },
	 * weights, many results, named arguments, flags */
	{ "linear",
	  { 1, 2, NONE, SOME, "linear(x -> dim, ...) or linear(x, index -> "
	    "dim, ...)" },
	  true, false, "over dtype init std tied",
	  "bias transposed frozen",
	  fn_linear },
	{ "embed",
	  { 1, 1, 1, 1, SOME, "embed(index, dim -> dim, ...)" },
	  true, false, "dtype init std", "frozen", fn_embed },
	{ "weight",
	  { NONE, SOME, NONE, "weight(dim, ...)" },
	  true, false, "dtype init std balance", "frozen", fn_weight },
	{ "state",
	  { NONE, SOME, NONE, "state(dim, ...)" },
	  true, false, "dtype init std", "", fn_state },
	{ "rmsnorm",
	  { 1, 1, NONE, NONE, "rmsnorm(x, eps = 1e-5, over = dim)" },
	  true, false, "eps over", "plus_one frozen", fn_rmsnorm },
	{ "layernorm",
	  { 1, 1, NONE, NONE, "layernorm(x, eps = 1e-5, over = dim)" },
	  true, false, "eps over", "plus_one frozen", fn_layernorm },
	{ "dropout",
	  { 1, 1, NONE, NONE, "dropout(x, p = 0.1)" },
	  true, false, "p", "", fn_dropout },
	{ "cast",
	  { 1, 1, NONE, NONE, "cast(x, dtype = f32)" },
	  false, false, "dtype", "", fn_cast },
	{ "cross_entropy",
	  { 2, 4, NONE, NONE, "cross_entropy(logits, labels, counts, total, "
	    "ignore = index)" },
	  false, false, "ignore", "", call_cross_entropy },
	{ "split",
	  { 1, 1, 1, 1, SOME, "a, b = split(x, dim -> dim, dim)" },
	  false, true, "", "", fn_split },
};
const size_t call_nfunctions =
	sizeof call_functions / sizeof *call_functions;

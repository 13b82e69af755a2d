/*
 * Functions that are more than one op: those that make weights, named by the
 * call's @, and those that make several nodes.  A new one is a row of the
 * table at the end.  And what a call of an op must hold to beyond its row.
 */
#include "frontend/call.h"

#include <string.h>

/* ---- between the attributes of an op ---- */

/* What `at` cuts out lies inside the dim. */
static bool
check_cut(struct call *c, const struct ir_new *n)
{
	struct ir_module *m = c->l->m;
	const struct ir_attr *at = call_attr(n, IR_ATTR_AT);
	const struct ir_attr *to = call_attr(n, IR_ATTR_TO);
	dim_id of = call_attr(n, IR_ATTR_OF)->dims[0];
	int64_t size = to ? ir_dim_size(m, to->dims[0]) : 1;
	int64_t last = ir_dim_size(m, of) - size;

	if (at->i <= last || last < 0) {
		return true;	/* a size too large is the rule's matter */
	}
	diag_error(c->l->diags, call_named(c, "at")->span, "`at` is %lld, and "
		   "0 to %lld is legal to take %lld of the %lld of `%s`",
		   (long long)at->i, (long long)last, (long long)size,
		   (long long)ir_dim_size(m, of), ir_dim_name(m, of));
	return false;
}

static bool
check_groups(struct call *c, const struct ir_new *n)
{
	struct ir_module *m = c->l->m;
	const struct ir_attr *a = call_attr(n, IR_ATTR_TOP_GROUPS);
	dim_id of = call_attr(n, IR_ATTR_OF)->dims[0];
	dim_id to = call_attr(n, IR_ATTR_TO)->dims[0];
	int64_t groups = call_attr(n, IR_ATTR_GROUPS)->i;
	int64_t top = a ? a->i : groups;
	int64_t whole = ir_dim_size(m, of), room;
	const struct ast_expr *e = call_named(c, "groups");

	if (whole % groups != 0) {
		diag_error(c->l->diags, e->span, "`%s` = %lld cannot be cut "
			   "into %lld groups of one size", ir_dim_name(m, of),
			   (long long)whole, (long long)groups);
		return false;
	}
	room = top * (whole / groups);
	e = call_named(c, "top_groups");
	if (top > groups) {
		diag_error(c->l->diags, e->span, "`top_groups` is %lld, and "
			   "there are %lld groups", (long long)top,
			   (long long)groups);
		return false;
	}
	if (e && ir_dim_size(m, to) > room) {
		diag_error(c->l->diags, e->span, "%lld of %lld groups hold "
			   "%lld of `%s`, and `%s` = %lld are to be chosen",
			   (long long)top, (long long)groups, (long long)room,
			   ir_dim_name(m, of), ir_dim_name(m, to),
			   (long long)ir_dim_size(m, to));
		return false;
	}
	return true;
}

/* Attributes that mean something only beside another. */
static const struct {
	enum ir_attr_key key, needs;
} companions[] = {
	{ IR_ATTR_LOW, IR_ATTR_FACTOR },
	{ IR_ATTR_HIGH, IR_ATTR_FACTOR },
	{ IR_ATTR_ORIGINAL, IR_ATTR_FACTOR },
	{ IR_ATTR_TOP_GROUPS, IR_ATTR_GROUPS },
};

static bool
check_companions(struct call *c)
{
	size_t i;

	for (i = 0; i < sizeof companions / sizeof *companions; i++) {
		const char *name = ir_attrs[companions[i].key].name;
		const char *needs = ir_attrs[companions[i].needs].name;
		const struct ast_expr *e = call_named(c, name);

		if (e && !call_named(c, needs)) {
			diag_error(c->l->diags, e->span, "`%s` means nothing "
				   "without `%s = ...`", name, needs);
			return false;
		}
	}
	return true;
}

/* Rotary pairs need an even dim; the band that is stretched, two ends. */
static bool
check_rotary(struct call *c)
{
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	dim_id d = x->ndims ? x->dims[x->ndims - 1] : 0;
	const struct ast_expr *low = call_named(c, "low");
	const struct ast_expr *high = call_named(c, "high");
	double lo, hi;

	if (d && ir_dim_size(c->l->m, d) % 2 != 0) {
		diag_error(c->l->diags, c->arg_at[0], "%s turns pairs, and "
			   "the last dim of %s, `%s` = %lld, is odd", c->name,
			   lower_type_text(c->l, c->args[0]),
			   ir_dim_name(c->l->m, d),
			   (long long)ir_dim_size(c->l->m, d));
		return false;
	}
	if (low && high && lower_number(c->l, low, "`low`", &lo) &&
	    lower_number(c->l, high, "`high`", &hi) && lo >= hi) {
		diag_error(c->l->diags, low->span, "`low` is %s, and it must "
			   "be below `high` = %s",
			   lower_number_text(c->l, lo),
			   lower_number_text(c->l, hi));
		return false;
	}
	return true;
}

/* Where the dim of an attribute was written. */
static struct span
dim_span(const struct call *c, const struct ir_attr *a, dim_id d)
{
	const struct ast_expr *e = call_named(c, ir_attrs[a->key].name);
	uint32_t i;

	for (i = 0; i < c->ndims; i++) {
		if (c->dims[i] == d) {
			return c->dim_at[i];
		}
	}
	return e ? e->span : c->e->span;
}

/* The dims that attributes name are dims of the operands that need them. */
static bool
check_has_dims(struct call *c, const struct ir_new *n)
{
	enum ir_attr_key key;
	struct ir_rule r;
	uint8_t i, k, j;

	ir_rule_read(&r, n->op);
	for (i = 0; i < r.nf; i++) {
		const struct ir_attr *a = r.f[i].by_attr &&
			ir_find_attr(r.f[i].name, &key) ? call_attr(n, key)
							: NULL;

		for (k = 0; a && k < r.nops; k++) {
			const struct ir_type *t = ir_type(c->l->m, c->args[k]);

			for (j = 0; r.f[i].in & 1u << k && j < a->ndims &&
				    ir_type_has(t, a->dims[j]); j++) {
				continue;
			}
			if (!(r.f[i].in & 1u << k) || j == a->ndims) {
				continue;
			}
			diag_error(c->l->diags, dim_span(c, a, a->dims[j]),
				   "`%s` is no dim of %s, operand %d of %s",
				   ir_dim_name(c->l->m, a->dims[j]),
				   ir_type_text(c->l->m, t), k + 1, c->name);
			return false;
		}
	}
	return true;
}

bool
call_check_op(struct call *c, const struct ir_new *n)
{
	return check_has_dims(c, n) && check_companions(c) &&
	       (!call_attr(n, IR_ATTR_AT) || check_cut(c, n)) &&
	       (!call_attr(n, IR_ATTR_GROUPS) || check_groups(c, n)) &&
	       (!call_attr(n, IR_ATTR_THETA) || check_rotary(c));
}

/* ---- weights ---- */

static bool
dtype_arg(struct call *c, enum ir_dtype *dtype)
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
	ir_new_text(n, IR_ATTR_INIT, intern_str(&l->ctx->syms, init));
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

/*
 * A weight (or state) node named by the call's @ and a suffix.  What the call
 * says of its weight's start does not hold for the bias, which is zero.
 */
static value_id
make_weight(struct call *c, enum ir_op op, const char *suffix,
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
		ir_new_text(&n, IR_ATTR_INIT,
			    intern_str(&l->ctx->syms, init));
	} else if (!init_args(c, &n, init)) {
		return 0;
	}
	ir_new_text(&n, IR_ATTR_NAME, name);
	v = lower_append(l, &n, c->e);
	t.value = v;
	t.region = l->scope->region;
	return v && lower_add_tensor(l, &t) ? v : 0;
}

static bool
in_scope(const struct lower *l, region_id region)
{
	const struct scope *s = l->scope;

	while (s && s->region != region) {
		s = s->outer;
	}
	return s != NULL;
}

/* What the weight that is shared says must not be said again. */
static bool
check_tied(struct call *c)
{
	static const char *const own[] = { "init", "std", "dtype" };
	int i;

	for (i = 0; i < 3; i++) {
		const struct ast_expr *e = call_named(c, own[i]);

		if (e) {
			diag_error(c->l->diags, e->span, "`%s` belongs to the "
				   "call that makes the weight, and `tied` "
				   "shares one", own[i]);
			return false;
		}
	}
	if (c->e->at && !call_has_flag(c, "bias")) {
		diag_error(c->l->diags, c->e->at_span, "`tied` shares a "
			   "weight, so `@` names nothing here");
		return false;
	}
	return true;
}

/* The same dims, in any order: `transposed` may differ. */
static bool
fits_tied(struct call *c, const struct ir_type *want,
	  const struct tensor_name *t, struct span at)
{
	const struct ir_type *have = ir_type(c->l->m, t->value);
	uint8_t i = 0;

	while (i < want->ndims && ir_type_has(have, want->dims[i])) {
		i++;
	}
	if (i == want->ndims && have->ndims == want->ndims) {
		return true;
	}
	diag_error(c->l->diags, at, "`%s` is %s, and this call needs %s",
		   lower_text(c->l, t->written), ir_type_text(c->l->m, have),
		   ir_type_text(c->l->m, want));
	diag_note(c->l->diags, t->span, "it is made here");
	return false;
}

/* `tied = "name"`: the weight of type `want` that an earlier call made. */
static value_id
tied_weight(struct call *c, const struct ast_expr *e,
	    const struct ir_type *want)
{
	const struct func_info *f = &c->l->funcs.at[c->l->func];
	struct diag_near near;
	uint32_t i;

	if (!check_tied(c)) {
		return 0;
	}
	if (e->kind != AST_STR) {
		diag_error(c->l->diags, e->span, "`tied` is the quoted @ name "
			   "of an earlier call");
		return 0;
	}
	diag_near_init(&near, lower_text(c->l, e->sym));
	for (i = 0; i < f->tensors.n; i++) {
		const struct tensor_name *t = &f->tensors.at[i];

		if (!t->value || !t->written) {
			continue;
		}
		if (t->written == e->sym && !in_scope(c->l, t->region)) {
			diag_error(c->l->diags, e->span, "`%s` is made in a "
				   "repeat, and out of reach behind it",
				   lower_text(c->l, e->sym));
			diag_note(c->l->diags, t->span, "it is made here");
			return 0;
		}
		if (t->written == e->sym) {
			return fits_tied(c, want, t, e->span) ? t->value : 0;
		}
		diag_near_try(&near, lower_text(c->l, t->written));
	}
	diag_error(c->l->diags, e->span, "no weight above is named `%s`%s",
		   lower_text(c->l, e->sym),
		   diag_near_text(&near, &c->l->ctx->tmp));
	return 0;
}

static bool
is_in(const dim_id *list, uint32_t n, dim_id d)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (list[i] == d) {
			return true;
		}
	}
	return false;
}

/*
 * What linear contracts unless told: every dim of x that is not one of a
 * token's coordinates (batch, seq) nor of the index.
 */
static bool
default_over(struct call *c, dim_id *over, uint8_t *n)
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
			   "contract in %s: it leaves batch, seq and the dims "
			   "of an index alone, unless told `over = ...`",
			   ir_type_text(c->l->m, x));
	}
	return *n > 0;
}

static bool
linear_over(struct call *c, dim_id *over, uint8_t *n)
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
				   "contracted: it is no dim of %s",
				   ir_dim_name(c->l->m, over[i]),
				   ir_type_text(c->l->m, x));
			return false;
		}
	}
	for (i = 0; i < c->nto; i++) {
		const char *name = ir_dim_name(c->l->m, c->to[i]);

		if (is_in(over, *n, c->to[i])) {
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

/* Appends dims to a weight's type, each of which it has once. */
static bool
add_dims(struct call *c, struct ir_type *t, const dim_id *d, uint32_t n)
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

static value_id
cast_to(struct call *c, value_id v, enum ir_dtype dtype)
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

/* Says so if operand i is an index, where numbers are expected. */
static bool
is_number_operand(struct call *c, uint32_t i)
{
	if (ir_dtypes[ir_type(c->l->m, c->args[i])->dtype].is_float) {
		return true;
	}
	diag_error(c->l->diags, c->arg_at[i], "%s takes numbers, and this is "
		   "an index, %s", c->name,
		   lower_type_text(c->l, c->args[i]));
	return false;
}

/* The index operand of linear: says so if it is none. */
static bool
linear_index(struct call *c, dim_id *of)
{
	*of = c->nargs > 1 ? ir_type(c->l->m, c->args[1])->of : 0;
	if (c->nargs > 1 && !*of) {
		diag_error(c->l->diags, c->arg_at[1], "linear's second "
			   "operand chooses among weights: an index is "
			   "expected, and this is %s",
			   lower_type_text(c->l, c->args[1]));
		return false;
	}
	return is_number_operand(c, 0);
}

static value_id
add_bias(struct call *c, value_id y, dim_id of, enum ir_dtype dtype)
{
	struct ir_type t = { .dtype = (uint8_t)dtype };
	struct ir_new n;
	value_id b;

	if (!add_dims(c, &t, &of, of ? 1 : 0) ||
	    !add_dims(c, &t, c->to, c->nto)) {
		return 0;
	}
	b = make_weight(c, IR_WEIGHT, ".bias", &t, "zeros");
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
fn_linear(struct call *c, value_id *out)
{
	enum ir_dtype dtype = c->l->dtype;
	const struct ast_expr *tied = call_named(c, "tied");
	dim_id over[IR_MAX_DIMS] = { 0 }, of;
	struct ir_type t = { 0 };
	bool in_first = call_has_flag(c, "transposed");
	struct ir_new n;
	value_id w, x;
	uint8_t nover, i;

	if (!dtype_arg(c, &dtype) || !linear_index(c, &of) ||
	    !linear_over(c, over, &nover) ||
	    !add_dims(c, &t, &of, of ? 1 : 0) ||
	    !add_dims(c, &t, in_first ? over : c->to,
		      in_first ? nover : c->nto) ||
	    !add_dims(c, &t, in_first ? c->to : over,
		      in_first ? c->nto : nover)) {
		return false;
	}
	t.dtype = (uint8_t)dtype;
	w = tied ? tied_weight(c, tied, &t)
		 : make_weight(c, IR_WEIGHT, ".weight", &t, "normal");
	x = w ? cast_to(c, c->args[0], ir_type(c->l->m, w)->dtype) : 0;
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
	if (!dtype_arg(c, &dtype) || !add_dims(c, &t, c->dims, 1) ||
	    !add_dims(c, &t, c->to, c->nto)) {
		return false;
	}
	t.dtype = (uint8_t)dtype;
	w = make_weight(c, IR_WEIGHT, ".weight", &t, "normal");
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

	if (!dtype_arg(c, &dtype) || !add_dims(c, &t, c->dims, c->ndims)) {
		return false;
	}
	t.dtype = (uint8_t)dtype;
	*out = make_weight(c, op, "", &t, init);
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
	return bare_tensor(c, IR_STATE, "zeros", out);
}

/* What a norm runs over: the last dim, unless told. */
static bool
norm_over(struct call *c, struct ir_type *t)
{
	const struct ir_type *x = ir_type(c->l->m, c->args[0]);
	const struct ast_expr *e = call_named(c, "over");
	uint8_t i;

	if (!is_number_operand(c, 0)) {
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
	w = make_weight(c, IR_WEIGHT, ".weight", &t, "ones");
	b = w && bias ? make_weight(c, IR_WEIGHT, ".bias", &t, "zeros") : 0;
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

	if (!is_number_operand(c, 0) || !dtype_arg(c, &dtype)) {
		return false;
	}
	*out = cast_to(c, c->args[0], dtype);
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
	  fn_linear },
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

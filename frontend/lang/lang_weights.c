/*
 * Weights of calls: the element type, the dims, how a weight starts, and the
 * one that `tied` shares.  All functions that make a weight use it.
 */
#include "frontend/lang/call.h"

#include <string.h>

/* ---- a weight of the call's own ---- */

bool
call_dtype(struct fe_call *c, enum ir_dtype *dtype)
{
	const struct ast_expr *e = call_named(c, "dtype");

	if (!e) {
		return true;
	}
	if (e->kind != AST_NAME) {
		diag_error(c->l->diags, e->span,
			   "the name of an element type is expected, such as "
			   "`dtype = f32`");
		return false;
	}
	return lower_dtype(c->l, e->sym, e->span, dtype);
}

static bool
init_args(struct fe_call *c, struct ir_new *n, const char *init)
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

static bool
balance_arg(struct fe_call *c, struct ir_new *n)
{
	const struct ast_expr *e = call_named(c, "balance");
	double v = 0;

	if (!e) {
		return true;
	}
	if (!lower_number(c->l, e, "`balance`", &v)) {
		return false;
	}
	if (!(v > 0) || v > 1) {
		diag_error(c->l->diags, e->span, "`balance` is %s, and above 0 "
			   "to 1 is legal", lower_number_text(c->l, v));
		return false;
	}
	ir_new_num(n, IR_ATTR_BALANCE, v);
	return true;
}

value_id
call_weight(struct fe_call *c, enum ir_op op, const char *suffix,
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
	if (!balance_arg(c, &n)) {
		return 0;
	}
	if (call_has_flag(c, "frozen")) {
		ir_new_attr(&n, IR_ATTR_FROZEN);
	}
	v = lower_append(l, &n, c->e);
	t.value = v;
	t.region = l->scope->region;
	return v && lower_add_tensor(l, &t) ? v : 0;
}

bool
call_add_dims(struct fe_call *c, struct ir_type *t, const dim_id *d, uint32_t n)
{
	for (; n > 0; n--, d++) {
		if (t->ndims == IR_MAX_DIMS) {
			diag_error(c->l->diags, c->e->span, "a weight has at "
				   "most %d dims", IR_MAX_DIMS);
			return false;
		}
		if (ir_type_has(t, *d)) {
			diag_error(c->l->diags, c->e->span, "`%s` would be "
				   "twice in the weight",
				   ir_dim_name(c->l->m, *d));
			return false;
		}
		t->dims[t->ndims++] = *d;
	}
	return true;
}

/* ---- a weight that is shared ---- */

static bool
in_scope(const struct lower *l, region_id region)
{
	const struct scope *s = l->scope;

	while (s && s->region != region) {
		s = s->outer;
	}
	return s != NULL;
}

/* What belongs to the shared weight cannot be given with `tied`. */
static bool
check_tied(struct fe_call *c)
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
	if (call_has_flag(c, "frozen") && !call_has_flag(c, "bias")) {
		diag_error(c->l->diags, c->e->span, "`frozen` belongs to the "
			   "call that makes the weight, and `tied` shares one");
		return false;
	}
	if (c->e->at && !call_has_flag(c, "bias")) {
		diag_error(c->l->diags, c->e->at_span, "`tied` shares a "
			   "weight, so `@` names nothing here");
		return false;
	}
	return true;
}

/* Whether the dims are the same in any order: `transposed` may differ. */
static bool
fits_tied(struct fe_call *c, const struct ir_type *want,
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
value_id
call_tied_weight(struct fe_call *c, const struct ast_expr *e,
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
				   "repeat, and cannot be used after it",
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

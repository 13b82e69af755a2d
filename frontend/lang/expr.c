/*
 * Expressions and calls.  An argument is an expression and an expression may
 * be a call, so the two are one recursion and one file.  What is called is a
 * row of functions.c, an op, or else a layer; functions and ops read their
 * arguments by the functions of call.h.
 */
#include "frontend/lang/call.h"

#include <string.h>

static bool lower_call(struct lower *l, const struct ast_expr *e,
		       uint32_t max, value_id *out, uint32_t *n);
static bool lower_expr(struct lower *l, const struct ast_expr *e,
		       struct lower_operand *out);

/* ---- expressions ---- */

static bool
name_expr(struct lower *l, const struct ast_expr *e, struct lower_operand *out)
{
	struct variable *b = lower_lookup(l, e->sym);
	dim_id d;

	if (b) {
		b->used = true;
		out->is_value = true;
		out->value = b->value;
		return b->value != 0;
	}
	if (lower_implicit_input(l, e->sym)) {
		out->is_value = true;
		out->value = lower_implicit_value(l, e);
		return out->value != 0;
	}
	d = lower_find_dim(l, e->sym);
	if (d) {
		out->is_value = false;
		out->num = (double)ir_dim_size(l->m, d);
		return true;
	}
	return lower_unknown_name(l, e, "", "");
}

static bool
bin_expr(struct lower *l, const struct ast_expr *e, struct lower_operand *out)
{
	struct lower_operand a, b;
	bool ok = lower_expr(l, e->lhs, &a);

	ok &= lower_expr(l, e->rhs, &b);
	return ok && lower_binary(l, e, a, b, out);
}

static bool
lower_expr(struct lower *l, const struct ast_expr *e, struct lower_operand *out)
{
	uint32_t n = 0;

	memset(out, 0, sizeof *out);
	switch (e->kind) {
	case AST_NUM:
		out->num = e->num;
		return true;
	case AST_NAME:
		return name_expr(l, e, out);
	case AST_BIN:
		return bin_expr(l, e, out);
	case AST_NEG:
		return lower_expr(l, e->lhs, out) && lower_negated(l, e, out);
	case AST_CALL:
		if (lower_is_number_call(l, e)) {
			return lower_expr(l, e->args->expr, out) &&
			       lower_number_function(l, e, out);
		}
		out->is_value = true;
		return lower_call(l, e, 1, &out->value, &n);
	default:
		diag_error(l->diags, e->span, "a value is expected, and this "
			   "is a %s", e->kind == AST_STR ? "text" : "list");
		return false;
	}
}

bool
lower_value(struct lower *l, const struct ast_expr *e, value_id *out)
{
	struct lower_operand o;

	if (!lower_expr(l, e, &o)) {
		return false;
	}
	if (!o.is_value) {
		diag_error(l->diags, e->span,
			   "a value is expected, and this is the number %s",
			   lower_number_text(l, o.num));
		return false;
	}
	*out = o.value;
	return true;
}

bool
lower_number(struct lower *l, const struct ast_expr *e, const char *what,
	     double *out)
{
	struct lower_operand o;

	if (e->kind == AST_STR || e->kind == AST_TUPLE) {
		diag_error(l->diags, e->span, "%s is a number, and this is a "
			   "%s", what, e->kind == AST_STR ? "text" : "list");
		return false;
	}
	if (!lower_expr(l, e, &o)) {
		return false;
	}
	if (o.is_value) {
		diag_error(l->diags, e->span, "%s is a number, and this is %s",
			   what, lower_type_text(l, o.value));
		return false;
	}
	*out = o.num;
	return true;
}

bool
lower_results(struct lower *l, const struct ast_expr *e, uint32_t max,
	      value_id *out, uint32_t *n)
{
	if (e->kind == AST_CALL && !lower_is_number_call(l, e)) {
		return lower_call(l, e, max, out, n);
	}
	*n = 1;
	return lower_value(l, e, &out[0]);
}

/* ---- sorting arguments ---- */

/* Whether this is a number beside a value: min(x, 7). */
static bool
is_number_operand(const struct fe_call *c, const struct ast_expr *e)
{
	struct lower *l = c->l;
	enum ir_op op;

	return c->nargs == 1 && c->args[0] && lower_is_number(l, e) &&
	       !lower_declared(l, AST_LAYER, c->e->sym) &&
	       ir_find_op(c->name, &op) && ir_is(op, IRF_COMMUTES) &&
	       ir_dtypes[ir_type(l->m, c->args[0])->dtype].is_float;
}

static bool
positional(struct fe_call *c, const struct ast_expr *e)
{
	bool number = is_number_operand(c, e);
	struct lower_operand o;
	uint32_t i = c->nargs;

	if (e->kind == AST_NAME && !lower_is_value(c->l, e->sym)) {
		return call_bare_name(c, e);
	}
	if (i >= IR_MAX_ARGS) {
		if (i == IR_MAX_ARGS) {
			diag_error(c->l->diags, e->span, "a call takes at "
				   "most %d operands, and this is one more",
				   IR_MAX_ARGS);
			c->nargs++;	/* reported once */
		}
		return false;
	}
	c->nargs++;
	c->arg_at[i] = e->span;
	if (number) {
		c->args[i] = !lower_expr(c->l, e, &o) ? 0 :
			lower_constant(c->l, o.num, c->args[0], e->span);
		return c->args[i] != 0;
	}
	if (lower_value(c->l, e, &c->args[i])) {
		return true;
	}
	if (e->kind == AST_NUM && *c->named) {
		diag_note(c->l->diags, e->span, "a number is given by name, "
			  "and %s takes %s", c->name, call_words(c));
	}
	return false;
}

static bool
sort_args(struct fe_call *c)
{
	const struct ast_arg *a;
	const struct ast_name *n;
	uint32_t errors = c->l->diags->errors;
	bool ok = true;

	for (a = c->e->args; a && !fe_too_many_errors(c->l->ctx,
			c->l->errors_before); a = a->next) {
		ok &= a->name.sym ? call_check_named(c, a)
				  : positional(c, a->expr);
	}
	for (n = c->e->arrow; n; n = n->next) {
		ok &= call_arrow_name(c, n);
	}
	return ok && c->l->diags->errors == errors;
}

bool
call_sort(struct fe_call *c, const struct call_takes *t)
{
	return sort_args(c) && call_counts(c, t);
}

bool
call_positive(struct fe_call *c, const struct ast_expr *e, const char *what,
	      double *out)
{
	const char *quoted = arena_printf(&c->l->ctx->tmp, "`%s`", what);

	if (!lower_number(c->l, e, quoted, out)) {
		return false;
	}
	if (*out <= 0) {
		diag_error(c->l->diags, e->span, "%s is %s, and it must be "
			   "above 0", quoted, lower_number_text(c->l, *out));
		return false;
	}
	return true;
}

/* ---- calls ---- */

static bool
call_function(struct fe_call *c, const struct call_fn *f, uint32_t max,
	      value_id *out, uint32_t *n)
{
	c->named = f->named;
	c->flags = f->flags;
	if (!call_sort(c, &f->takes)) {
		return false;
	}
	*n = f->many ? c->nto : 1;
	if (*n > max) {
		diag_error(c->l->diags, c->e->span, "%s makes %u values, "
			   "expected %u: it is written %s", c->name,
			   *n, max, f->takes.usage);
		return false;
	}
	return f->run(c, out);
}

static bool
call_layer(struct fe_call *c, func_id f, uint32_t max, value_id *out,
	   uint32_t *n)
{
	struct call_takes takes;

	c->l->funcs.at[f].called = true;
	if (call_layer_is_broken(c, f)) {
		return false;
	}
	call_layer_takes(c, f, &takes);
	return call_sort(c, &takes) && call_layer_node(c, f, max, out, n);
}

static bool
lower_call(struct lower *l, const struct ast_expr *e, uint32_t max,
	   value_id *out, uint32_t *n)
{
	struct fe_call c = { .l = l, .e = e, .name = lower_text(l, e->sym) };
	func_id f = lower_meaning(l, e->sym)->func;
	const struct call_fn *fn = call_find(c.name);
	enum ir_op op;
	bool is_op = !fn && ir_find_op(c.name, &op) && ir_ops[op].nargs > 0;

	if (f) {
		return call_layer(&c, f, max, out, n);
	}
	if (e->at && (fn ? !fn->weights : is_op)) {
		diag_error(l->diags, e->at_span, "%s has no weights, so `@` "
			   "names nothing here", c.name);
		return false;
	}
	if (fn) {
		return call_function(&c, fn, max, out, n);
	}
	*n = 1;
	return is_op ? call_op.run(&c, out) : call_unknown(&c);
}

/*
 * What operators make of two numbers, of two values, and of one of each, and
 * which expressions are numbers: those of numbers and dims alone.
 */
#include "frontend/lang/call.h"

#include <math.h>
#include <string.h>

static bool
fold_numbers(struct lower *l, const struct ast_expr *e, double a, double b,
	     double *out)
{
	switch (e->op) {
	case '+':
		*out = a + b;
		break;
	case '-':
		*out = a - b;
		break;
	case '*':
		*out = a * b;
		break;
	default:
		*out = a / b;
		break;
	}
	if (!isfinite(*out)) {
		diag_error(l->diags, e->span, "%s %c %s is not a finite number",
			   lower_number_text(l, a), e->op,
			   lower_number_text(l, b));
		return false;
	}
	return true;
}

/* An index is a position, not a number: reports it as an operand. */
static bool
is_arithmetic(struct lower *l, const struct ast_expr *e, char op,
	      const struct lower_operand *o)
{
	if (!o->is_value ||
	    ir_dtypes[ir_type(l->m, o->value)->dtype].is_float) {
		return true;
	}
	diag_error(l->diags, e->span, "`%c` takes numbers, and this is an "
		   "index, %s", op, lower_type_text(l, o->value));
	return false;
}

/* The first dim of a that b lacks, or 0. */
static dim_id
dim_not_in(const struct ir_type *a, const struct ir_type *b)
{
	uint8_t i = 0;

	while (i < a->ndims && ir_type_has(b, a->dims[i])) {
		i++;
	}
	return i < a->ndims ? a->dims[i] : 0;
}

/* Elementwise between types: one must have all dims of the other. */
static bool
operands_fit(struct lower *l, const struct ast_expr *e, value_id a,
	     value_id b)
{
	const struct ir_type *x = ir_type(l->m, a), *y = ir_type(l->m, b);
	const struct ir_type *most = y->ndims > x->ndims ? y : x;
	const struct ir_type *least = most == x ? y : x;
	dim_id extra = dim_not_in(least, most);

	if (extra) {
		diag_error(l->diags, e->span, "`%c` takes an operand that has "
			   "all dims of the other: %s lacks `%s`, and %s "
			   "lacks `%s`", e->op, ir_type_text(l->m, most),
			   ir_dim_name(l->m, extra),
			   ir_type_text(l->m, least),
			   ir_dim_name(l->m, dim_not_in(most, least)));
	} else if (x->dtype != y->dtype) {
		diag_error(l->diags, e->span, "`%c` does not mix %s and %s: "
			   "cast one of them", e->op,
			   ir_dtypes[x->dtype].name, ir_dtypes[y->dtype].name);
	} else {
		return true;
	}
	lower_note_operand(l, e->lhs, a);
	lower_note_operand(l, e->rhs, b);
	return false;
}

/* Whether an expression is made of numbers and dims alone. */
bool
lower_is_number(struct lower *l, const struct ast_expr *e)
{
	switch (e->kind) {
	case AST_NUM:
		return true;
	case AST_NAME:
		return !lower_is_value(l, e->sym) &&
		       lower_meaning(l, e->sym)->dim;
	case AST_BIN:
		return lower_is_number(l, e->lhs) && lower_is_number(l, e->rhs);
	case AST_NEG:
		return lower_is_number(l, e->lhs);
	case AST_CALL:
		return lower_is_number_call(l, e);
	default:
		return false;
	}
}

/* sqrt, exp, log of a plain number, so that 1 / sqrt(hd) is one. */
bool
lower_is_number_call(struct lower *l, const struct ast_expr *e)
{
	const struct ast_arg *a = e->args;

	return a && !a->next && !a->name.sym && !e->has_arrow && !e->at &&
	       lower_word("sqrt exp log", lower_text(l, e->sym)) >= 0 &&
	       lower_is_number(l, a->expr);
}

bool
lower_binary(struct lower *l, const struct ast_expr *e, struct lower_operand a,
	     struct lower_operand b, struct lower_operand *out)
{
	enum ir_op op = e->op == '+' ? IR_ADD : e->op == '-' ? IR_SUB
		      : e->op == '*' ? IR_MUL : IR_DIV;
	struct ir_new n;

	if (!is_arithmetic(l, e->lhs, e->op, &a) ||
	    !is_arithmetic(l, e->rhs, e->op, &b)) {
		return false;
	}
	if (!a.is_value && !b.is_value) {
		out->is_value = false;
		return fold_numbers(l, e, a.num, b.num, &out->num);
	}
	if (op == IR_DIV && !b.is_value && b.num == 0) {
		diag_error(l->diags, e->rhs->span, "`/` divides %s by 0",
			   lower_type_text(l, a.value));
		return false;
	}
	if (!a.is_value) {
		a.value = lower_constant(l, a.num, b.value, e->lhs->span);
	}
	if (!b.is_value) {
		b.value = lower_constant(l, b.num, a.value, e->rhs->span);
	}
	if (!a.value || !b.value) {
		return false;
	}
	if (!operands_fit(l, e, a.value, b.value)) {
		return false;
	}
	ir_new_init(&n, op, e->span);
	ir_new_arg(&n, a.value);
	ir_new_arg(&n, b.value);
	out->is_value = true;
	out->value = lower_append(l, &n, e);
	return out->value != 0;
}

bool
lower_negated(struct lower *l, const struct ast_expr *e,
	      struct lower_operand *out)
{
	struct ir_new n;

	if (!out->is_value) {
		out->num = -out->num;
		return true;
	}
	if (!is_arithmetic(l, e->lhs, '-', out)) {
		return false;
	}
	ir_new_init(&n, IR_NEG, e->span);
	ir_new_arg(&n, out->value);
	out->value = lower_append(l, &n, e);
	return out->value != 0;
}

bool
lower_number_function(struct lower *l, const struct ast_expr *e,
		      struct lower_operand *out)
{
	const char *f = lower_text(l, e->sym);
	double v;

	v = f[0] == 's' ? sqrt(out->num) : f[0] == 'e' ? exp(out->num)
						       : log(out->num);
	if (!isfinite(v)) {
		diag_error(l->diags, e->span, "%s(%s) is not a finite number",
			   f, lower_number_text(l, out->num));
		return false;
	}
	out->num = v;
	return true;
}

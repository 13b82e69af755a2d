/*
 * Appends nodes to the IR.  If the rule of an op does not hold, the message
 * shows the rule at the call, and notes show the type of each operand.
 */
#include "frontend/lang/lower.h"

#include <math.h>

void
lower_note_operand(struct lower *l, const struct ast_expr *e, value_id v)
{
	struct variable *b = e->kind == AST_NAME ? lower_lookup(l, e->sym)
						: NULL;

	if (b && b->value) {
		diag_note(l->diags, b->span, "`%s` is %s",
			  lower_text(l, b->name),
			  lower_type_text(l, b->value));
	} else if (v) {
		diag_note(l->diags, e->span, "this is %s",
			  lower_type_text(l, v));
	}
}

/* Whether an argument before `a` has its name: one note is enough. */
static bool
named_before(const struct ast_arg *args, const struct ast_arg *a)
{
	for (; args != a; args = args->next) {
		if (a->expr->kind == AST_NAME &&
		    args->expr->kind == AST_NAME &&
		    args->expr->sym == a->expr->sym) {
			return true;
		}
	}
	return false;
}

value_id
lower_append_in(struct lower *l, region_id r, struct ir_new *n,
		struct span at)
{
	const char *why = NULL;
	value_id v = ir_append(l->m, r, n, &why);

	if (!v) {
		diag_error(l->diags, at, "%s", why);
	}
	return v;
}

value_id
lower_append(struct lower *l, struct ir_new *n, const struct ast_expr *e)
{
	value_id v = lower_append_in(l, l->scope->region, n, e->span);
	const struct ast_arg *a = e->args;
	uint32_t i;

	if (v) {
		return v;
	}
	if (e->kind == AST_BIN && n->nargs == 2) {
		lower_note_operand(l, e->lhs, n->args[0]);
		lower_note_operand(l, e->rhs, n->args[1]);
	}
	for (i = 0; e->kind == AST_CALL && a && i < n->nargs; a = a->next) {
		bool value = a->expr->kind == AST_CALL ||
			     a->expr->kind == AST_BIN ||
			     a->expr->kind == AST_NEG ||
			     (a->expr->kind == AST_NAME &&
			      lower_is_value(l, a->expr->sym));

		if (!a->name.sym && value) {
			if (!named_before(e->args, a)) {
				lower_note_operand(l, a->expr, n->args[i]);
			}
			i++;
		}
	}
	return 0;
}

bool
lower_holds(struct lower *l, enum ir_dtype type, double v, struct span at)
{
	const struct ir_dtype_info *t = &ir_dtypes[type];

	if (fabs(v) <= t->most && (v == 0 || fabs(v) >= t->least / 2)) {
		return true;
	}
	diag_error(l->diags, at, "%s is %s in %s, whose numbers are 0 or from "
		   "%.3g to %.5g", lower_number_text(l, v),
		   fabs(v) > 1 ? "infinite" : "0", t->name, t->least,
		   t->most);
	return false;
}

value_id
lower_constant(struct lower *l, double v, value_id like, struct span at)
{
	enum ir_dtype type = ir_type(l->m, like)->dtype;
	struct ir_new n;
	const char *why = NULL;
	value_id r;

	if (!lower_holds(l, type, v, at)) {
		return 0;
	}
	ir_new_init(&n, IR_CONST, at);
	ir_new_num(&n, IR_ATTR_VALUE, v);
	n.types[0].dtype = type;
	r = ir_append(l->m, l->scope->region, &n, &why);
	if (!r) {
		die("a constant that is not legal: %s", why);
	}
	return r;
}

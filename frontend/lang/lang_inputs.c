/*
 * Inputs that need no declaration: the nodes of `tokens` and `labels`.
 */
#include "frontend/lang/lower.h"

/* Its type, or false after saying which dim it lacks. */
static bool
implicit_type(struct lower *l, const struct ast_expr *e, struct ir_type *t)
{
	static const char *const dims[] = { "batch", "seq", "vocab" };
	dim_id d[3];
	int i;

	for (i = 0; i < 3; i++) {
		const char *name = lower_text(l, e->sym);

		d[i] = lower_find_dim(l, lower_sym(l, dims[i]));
		if (!d[i]) {
			diag_error(l->diags, e->span, "`%s` is idx<vocab>"
				   "[batch, seq] unless declared by `input`, "
				   "and no dim is named `%s`", name, dims[i]);
			return false;
		}
	}
	*t = (struct ir_type){ .dtype = IR_IDX, .ndims = 2, .of = d[2],
			       .dims = { d[0], d[1] } };
	return true;
}

value_id
lower_implicit_value(struct lower *l, const struct ast_expr *e)
{
	value_id *place = lower_implicit_input(l, e->sym);
	const struct scope *s = l->scope;
	struct ir_new n;

	if (*place) {
		return *place;
	}
	ir_new_init(&n, IR_INPUT, e->span);
	n.hint = e->sym;
	ir_new_text(&n, IR_ATTR_NAME, e->sym);
	if (!implicit_type(l, e, &n.types[0])) {
		return 0;
	}
	while (s->outer) {
		s = s->outer;
	}
	*place = lower_append_in(l, s->region, &n, e->span);
	return *place;
}

/*
 * Expressions: inputs, arithmetic between values and numbers, and what a name
 * that is no value may be.
 */
#include "frontend/lang/lower.h"

#include <math.h>
#include <string.h>

/* ---- inputs ---- */

/* `tokens` and `labels` exist in a model's body without being declared. */
static value_id *
implicit_place(struct lower *l, sym_t name)
{
	const char *s = lower_text(l, name);

	if (!l->m->funcs.at[l->func].is_model ||
	    lower_meaning(l, name)->dim) {
		return NULL;
	}
	return strcmp(s, "tokens") == 0 ? &l->tokens
	     : strcmp(s, "labels") == 0 ? &l->labels : NULL;
}

bool
lower_is_value(struct lower *l, sym_t name)
{
	return lower_lookup(l, name) || implicit_place(l, name);
}

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

/* The input node, which belongs to the model itself; 0 after reporting. */
static value_id
implicit_input(struct lower *l, const struct ast_expr *e)
{
	value_id *place = implicit_place(l, e->sym);
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

void
lower_input(struct lower *l, const struct ast_stmt *s)
{
	const struct ast_name *name = &s->params->name;
	const struct binding *old = lower_lookup(l, name->sym);
	value_id *place = implicit_place(l, name->sym);
	struct ir_new n;
	value_id v = 0;

	ir_new_init(&n, IR_INPUT, s->span);
	n.hint = name->sym;
	ir_new_text(&n, IR_ATTR_NAME, name->sym);
	if (old || (place && *place)) {
		diag_error(l->diags, name->span, "`%s` %s",
			   lower_text(l, name->sym), old
			   ? "is assigned above, and cannot be an input too"
			   : "is used above, as the input that it is unless "
			   "declared");
		return;
	}
	if (lower_type(l, s->params, &n.types[0])) {
		v = lower_append_in(l, l->scope->region, &n, s->span);
	}
	lower_bind(l, name, v);
}

/* ---- expressions ---- */

/* A name that means something, but no value: says what it is. */
static const char *
other_meaning(struct lower *l, sym_t name)
{
	const char *text = lower_text(l, name);
	enum ir_op op;

	if (lower_repeat_of(l, name)) {
		return "the variable of a repeat, which stands in the names "
		       "of weights only";
	}
	if (lower_meaning(l, name)->func || lower_is_function(text) ||
	    (ir_find_op(text, &op) && ir_ops[op].nargs > 0)) {
		return "no value but what makes one: it is called, with "
		       "operands in parentheses";
	}
	return strcmp(text, "tokens") == 0 || strcmp(text, "labels") == 0
	       ? "an input of the model: hand it to the layer as an operand"
	       : NULL;
}

/* Whether the name was a variable of a repeat above; says so. */
static bool
is_gone(struct lower *l, const struct ast_expr *e)
{
	const struct meaning *means = lower_meaning(l, e->sym);

	if (!means->gone_in || means->gone_in != l->func) {
		return false;
	}
	diag_error(l->diags, e->span, "`%s` ended with the repeat that made "
		   "it: a repeat hands on what had a value before it",
		   lower_text(l, e->sym));
	diag_note(l->diags, means->gone, "it is made here");
	return true;
}

bool
lower_unknown_name(struct lower *l, const struct ast_expr *e,
		   const char *function, const char *flags)
{
	const char *text = lower_text(l, e->sym);
	const char *other = other_meaning(l, e->sym);
	const struct binding *b;
	struct diag_near near;
	uint32_t i;

	if (other) {
		diag_error(l->diags, e->span, "`%s` is %s", text, other);
		return false;
	}
	if (is_gone(l, e)) {
		return false;
	}
	diag_near_init(&near, text);
	for (i = l->vars.n; i > 0 && l->vars.n - i < MAX_TRIES; i--) {
		diag_near_try(&near, lower_text(l, l->vars.at[i - 1].name));
	}
	lower_near(l, &near, flags);
	diag_error(l->diags, e->span, "no value%s%s is named `%s`%s",
		   *flags ? ", dim or flag of " : "", *flags ? function : "",
		   text, diag_near_text(&near, &l->ctx->tmp));
	b = near.best ? lower_lookup(l, lower_sym(l, near.best))
		      : NULL;
	if (b) {
		diag_note(l->diags, b->span, "`%s` is declared here",
			  near.best);
	}
	return false;
}

static bool
name_expr(struct lower *l, const struct ast_expr *e, struct operand *out)
{
	struct binding *b = lower_lookup(l, e->sym);
	dim_id d;

	if (b) {
		b->used = true;
		out->is_value = true;
		out->value = b->value;
		return b->value != 0;
	}
	if (implicit_place(l, e->sym)) {
		out->is_value = true;
		out->value = implicit_input(l, e);
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
		diag_error(l->diags, e->span, "%s %c %s is no finite number",
			   lower_number_text(l, a), e->op,
			   lower_number_text(l, b));
		return false;
	}
	return true;
}

/* An index is a place, not a number: says so if o is one. */
static bool
is_arithmetic(struct lower *l, const struct ast_expr *e, char op,
	      const struct operand *o)
{
	if (!o->is_value ||
	    ir_dtypes[ir_type(l->m, o->value)->dtype].is_float) {
		return true;
	}
	diag_error(l->diags, e->span, "`%c` takes numbers, and this is an "
		   "index, %s", op, lower_type_text(l, o->value));
	return false;
}

/* The first dim of a that b has not, or 0. */
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

static bool
bin_expr(struct lower *l, const struct ast_expr *e, struct operand *out)
{
	enum ir_op op = e->op == '+' ? IR_ADD : e->op == '-' ? IR_SUB
		      : e->op == '*' ? IR_MUL : IR_DIV;
	struct operand a, b;
	struct ir_new n;
	bool ok = lower_expr(l, e->lhs, &a);

	ok &= lower_expr(l, e->rhs, &b);
	if (!ok || !is_arithmetic(l, e->lhs, e->op, &a) ||
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

static bool
neg_expr(struct lower *l, const struct ast_expr *e, struct operand *out)
{
	struct ir_new n;

	if (!lower_expr(l, e->lhs, out)) {
		return false;
	}
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

static bool is_number_call(struct lower *l, const struct ast_expr *e);

/* Whether an expression is made of numbers and dims alone. */
static bool
is_number(struct lower *l, const struct ast_expr *e)
{
	switch (e->kind) {
	case AST_NUM:
		return true;
	case AST_NAME:
		return !lower_is_value(l, e->sym) &&
		       lower_meaning(l, e->sym)->dim;
	case AST_BIN:
		return is_number(l, e->lhs) && is_number(l, e->rhs);
	case AST_NEG:
		return is_number(l, e->lhs);
	case AST_CALL:
		return is_number_call(l, e);
	default:
		return false;
	}
}

/* sqrt, exp, log of a plain number, so that 1 / sqrt(hd) is one. */
static bool
is_number_call(struct lower *l, const struct ast_expr *e)
{
	const struct ast_arg *a = e->args;

	return a && !a->next && !a->name.sym && !e->has_arrow && !e->at &&
	       lower_word("sqrt exp log", lower_text(l, e->sym)) >= 0 &&
	       is_number(l, a->expr);
}

static bool
number_call(struct lower *l, const struct ast_expr *e, struct operand *out)
{
	const char *f = lower_text(l, e->sym);
	double v;

	if (!lower_expr(l, e->args->expr, out)) {
		return false;
	}
	v = f[0] == 's' ? sqrt(out->num) : f[0] == 'e' ? exp(out->num)
						       : log(out->num);
	if (!isfinite(v)) {
		diag_error(l->diags, e->span, "%s(%s) is no finite number",
			   f, lower_number_text(l, out->num));
		return false;
	}
	out->num = v;
	return true;
}

bool
lower_expr(struct lower *l, const struct ast_expr *e, struct operand *out)
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
		return neg_expr(l, e, out);
	case AST_CALL:
		if (is_number_call(l, e)) {
			return number_call(l, e, out);
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
	struct operand o;

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
	struct operand o;

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
	if (e->kind == AST_CALL && !is_number_call(l, e)) {
		return lower_call(l, e, max, out, n);
	}
	*n = 1;
	return lower_value(l, e, &out[0]);
}

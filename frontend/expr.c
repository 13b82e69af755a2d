/*
 * Expressions: variables, arithmetic between values and numbers, and the one
 * place that appends a node and, when its rule does not hold, explains it.
 */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

/* ---- variables ---- */

struct binding *
lower_lookup(struct lower *l, sym_t name)
{
	uint32_t i = lower_meaning(l, name)->var;

	return i ? &l->vars.at[i - 1] : NULL;
}

void
lower_push_var(struct lower *l, const struct ast_name *n, value_id v,
	       bool used)
{
	struct meaning *means = lower_meaning(l, n->sym);
	struct binding b = { n->sym, v, n->span, used, means->var };

	VEC_PUSH(&l->ctx->perm, &l->vars, b);
	means->var = l->vars.n;
}

void
lower_pop_vars(struct lower *l)
{
	while (l->vars.n > l->scope->first) {
		const struct binding *b = &l->vars.at[--l->vars.n];
		struct meaning *means = lower_meaning(l, b->name);

		means->var = b->hidden;
		means->gone_in = l->scope->outer ? l->func : 0;
		means->gone = b->span;
	}
}

/* What a model is for counts as used, and so does what begins with _. */
static bool
is_result(struct lower *l, sym_t name)
{
	const char *s = lower_text(l, name);

	return strcmp(s, "loss") == 0 || strcmp(s, "logits") == 0 ||
	       s[0] == '_';
}

void
lower_bind(struct lower *l, const struct ast_name *n, value_id v)
{
	struct binding *old = lower_lookup(l, n->sym);
	dim_id d = lower_meaning(l, n->sym)->dim;
	const char *name = lower_text(l, n->sym);

	if (d && !old && lower_warn(l, WARN_SHADOW, n->span, "variable `%s` "
				    "hides the dim of that name", name) &&
	    l->m->dims.at[d].span.hi) {
		diag_note(l->diags, l->m->dims.at[d].span,
			  "the dim is declared here");
	}
	if (old && !old->used && lower_warn(l, WARN_UNUSED_VALUE, old->span,
					    "the value of `%s` is never used",
					    name)) {
		diag_note(l->diags, n->span, "it is replaced here");
	}
	if (old && (size_t)(old - l->vars.at) >= l->scope->first) {
		old->value = v;
		old->span = n->span;
		old->used = is_result(l, n->sym);
	} else {
		lower_push_var(l, n, v, is_result(l, n->sym));
	}
}

const char *
lower_type_text(struct lower *l, value_id v)
{
	return ir_type_text(l->m, ir_type(l->m, v));
}

const char *
lower_number_text(struct lower *l, double v)
{
	struct buf b;

	buf_init(&b, &l->ctx->tmp);
	buf_double(&b, v);
	return buf_text(&b);
}

/* ---- appending ---- */

static void
note_operand(struct lower *l, const struct ast_expr *e, value_id v)
{
	struct binding *b = e->kind == AST_NAME ? lower_lookup(l, e->sym)
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

/* Whether an argument before a has the same name: one note is enough. */
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
lower_append(struct lower *l, struct ir_new *n, const struct ast_expr *e)
{
	const char *why = NULL;
	value_id v = ir_append(l->m, l->scope->region, n, &why);
	const struct ast_arg *a = e->args;
	uint32_t i;

	if (v) {
		return v;
	}
	diag_error(l->diags, e->span, "%s", why);
	if (e->kind == AST_BIN && n->nargs == 2) {
		note_operand(l, e->lhs, n->args[0]);
		note_operand(l, e->rhs, n->args[1]);
	}
	for (i = 0; e->kind == AST_CALL && a && i < n->nargs; a = a->next) {
		bool value = a->expr->kind == AST_CALL ||
			     a->expr->kind == AST_BIN ||
			     a->expr->kind == AST_NEG ||
			     (a->expr->kind == AST_NAME &&
			      lower_is_value(l, a->expr->sym));

		if (!a->name.sym && value) {
			if (!named_before(e->args, a)) {
				note_operand(l, a->expr, n->args[i]);
			}
			i++;
		}
	}
	return 0;
}

/* A constant beside `like`. */
static value_id
constant(struct lower *l, double v, value_id like, struct span at)
{
	struct ir_new n;
	const char *why = NULL;
	value_id r;

	ir_new_init(&n, IR_CONST, at);
	ir_new_num(&n, IR_ATTR_VALUE, v);
	n.types[0].dtype = ir_type(l->m, like)->dtype;
	r = ir_append(l->m, l->scope->region, &n, &why);
	if (!r) {
		die("a constant that is not legal: %s", why);
	}
	return r;
}

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

		d[i] = lower_find_dim(l, intern_str(&l->ctx->syms, dims[i]));
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
	const char *why = NULL;
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
	*place = ir_append(l->m, s->region, &n, &why);
	if (!*place) {
		diag_error(l->diags, e->span, "%s", why);
	}
	return *place;
}

void
lower_input(struct lower *l, const struct ast_stmt *s)
{
	const struct ast_name *name = &s->params->name;
	const struct binding *old = lower_lookup(l, name->sym);
	value_id *place = implicit_place(l, name->sym);
	const char *why = NULL;
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
		v = ir_append(l->m, l->scope->region, &n, &why);
	}
	if (why) {
		diag_error(l->diags, s->span, "%s", why);
	}
	lower_bind(l, name, v);
}

/* ---- expressions ---- */

/* A name that means something, but no value: says what it is. */
static const char *
other_meaning(struct lower *l, sym_t name)
{
	const char *text = lower_text(l, name);
	const struct scope *s;
	enum ir_op op;

	for (s = l->scope; s->outer; s = s->outer) {
		if (s->var == name) {
			return "the variable of a repeat, which stands in the "
			       "names of weights only";
		}
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
	b = near.best ? lower_lookup(l, intern_str(&l->ctx->syms, near.best))
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
	note_operand(l, e->lhs, a);
	note_operand(l, e->rhs, b);
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
	if (!a.is_value) {
		a.value = constant(l, a.num, b.value, e->lhs->span);
	}
	if (!b.is_value) {
		b.value = constant(l, b.num, a.value, e->rhs->span);
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

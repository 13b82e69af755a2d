/*
 * Expressions and calls.  An argument is an expression and an expression may
 * be a call, so the two are one recursion and one file.  What is called is a
 * row of functions.c, an op, or else a layer; functions and ops read their
 * arguments by the call_ functions here.
 */
#include "frontend/lang/call.h"

#include <math.h>
#include <string.h>

/* A number or a value. */
struct lower_operand {
	bool is_value;
	value_id value;
	double num;
};

static bool lower_call(struct lower *l, const struct ast_expr *e,
		       uint32_t max, value_id *out, uint32_t *n);
static bool lower_expr(struct lower *l, const struct ast_expr *e,
		       struct lower_operand *out);

/* ---- expressions ---- */

/* What a name is that is not a value; NULL if it means nothing. */
static const char *
other_meaning(struct lower *l, sym_t name)
{
	const char *text = lower_text(l, name);
	enum ir_op op;

	if (lower_repeat_of(l, name)) {
		return "the variable of a repeat, which only names of weights "
		       "may use";
	}
	if (lower_meaning(l, name)->func || lower_is_function(text) ||
	    (ir_find_op(text, &op) && ir_ops[op].nargs > 0)) {
		return "a function: it is called, with operands in parentheses";
	}
	return strcmp(text, "tokens") == 0 || strcmp(text, "labels") == 0
	       ? "an input of the model: pass it to the layer as an operand"
	       : NULL;
}

/* Whether the name was a variable of a repeat above; reports it. */
static bool
is_out_of_scope(struct lower *l, const struct ast_expr *e)
{
	const struct meaning *means = lower_meaning(l, e->sym);

	if (!means->gone_in || means->gone_in != l->func) {
		return false;
	}
	diag_error(l->diags, e->span, "`%s` ended with the repeat that made "
		   "it: a repeat keeps only what had a value before it",
		   lower_text(l, e->sym));
	diag_note(l->diags, means->gone, "it is made here");
	return true;
}

static bool
unknown_name(struct lower *l, const struct ast_expr *e,
	     const char *function, const char *flags)
{
	const char *text = lower_text(l, e->sym);
	const char *other = other_meaning(l, e->sym);
	const struct variable *b;
	struct diag_near near;
	uint32_t i;

	if (other) {
		diag_error(l->diags, e->span, "`%s` is %s", text, other);
		return false;
	}
	if (is_out_of_scope(l, e)) {
		return false;
	}
	diag_near_init(&near, text);
	for (i = l->vars.n; i > 0 && l->vars.n - i < MAX_TRIES; i--) {
		diag_near_try(&near, lower_text(l, l->vars.at[i - 1].name));
	}
	if (l->m->funcs.at[l->func].is_model) {
		diag_near_try(&near, "tokens");
		diag_near_try(&near, "labels");
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
	return unknown_name(l, e, "", "");
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

static bool
bin_expr(struct lower *l, const struct ast_expr *e, struct lower_operand *out)
{
	enum ir_op op = e->op == '+' ? IR_ADD : e->op == '-' ? IR_SUB
		      : e->op == '*' ? IR_MUL : IR_DIV;
	struct lower_operand a, b;
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
neg_expr(struct lower *l, const struct ast_expr *e, struct lower_operand *out)
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
number_call(struct lower *l, const struct ast_expr *e,
	    struct lower_operand *out)
{
	const char *f = lower_text(l, e->sym);
	double v;

	if (!lower_expr(l, e->args->expr, out)) {
		return false;
	}
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
	if (e->kind == AST_CALL && !is_number_call(l, e)) {
		return lower_call(l, e, max, out, n);
	}
	*n = 1;
	return lower_value(l, e, &out[0]);
}

/* ---- calls: what they name ---- */

static const struct call_fn *
find_function(const char *name)
{
	size_t i;

	for (i = 0; i < call_nfunctions; i++) {
		if (strcmp(call_functions[i].name, name) == 0) {
			return &call_functions[i];
		}
	}
	return NULL;
}

bool
lower_is_function(const char *name)
{
	return find_function(name) != NULL;
}

bool
call_has_flag(const struct fe_call *c, const char *word)
{
	int i = lower_word(c->flags, word);

	return i >= 0 && (c->flag_bits & 1u << i);
}

const struct ast_expr *
call_named(const struct fe_call *c, const char *word)
{
	const struct ast_arg *a;

	for (a = c->e->args; a; a = a->next) {
		if (a->name.sym &&
		    strcmp(lower_text(c->l, a->name.sym), word) == 0) {
			return a->expr;
		}
	}
	return NULL;
}

/* ---- sorting arguments ---- */

/* All named arguments and flags that a call may have, for a message. */
static const char *
words_text(const struct fe_call *c)
{
	const char *named = lower_words(c->l, c->named, "and");
	const char *flags = lower_words(c->l, c->flags, "and");

	if (!*flags) {
		return *named ? named : "neither named arguments nor flags";
	}
	return arena_printf(&c->l->ctx->tmp, "%s%sthe flag%s %s", named,
			    *named ? ", and " : "",
			    strchr(c->flags, ' ') ? "s" : "", flags);
}

/* `word = ...`: known, and given once. */
static bool
check_named(struct fe_call *c, const struct ast_arg *a)
{
	const char *word = lower_text(c->l, a->name.sym);
	struct diag_near near;
	const struct ast_arg *b;

	for (b = c->e->args; b != a; b = b->next) {
		if (b->name.sym == a->name.sym) {
			diag_error(c->l->diags, a->name.span,
				   "`%s` is given twice", word);
			return false;
		}
	}
	if (lower_word(c->named, word) >= 0) {
		return true;
	}
	if (lower_word(c->flags, word) >= 0) {
		diag_error(c->l->diags, a->name.span, "`%s` of %s is a flag, "
			   "written without a value", word, c->name);
		return false;
	}
	diag_near_init(&near, word);
	lower_near(c->l, &near, c->named);
	lower_near(c->l, &near, c->flags);
	diag_error(c->l->diags, a->name.span, "%s takes no `%s`%s: it takes "
		   "%s", c->name, word,
		   diag_near_text(&near, &c->l->ctx->tmp), words_text(c));
	return false;
}

/* Whether a bare name is one of the call's flags, which is then set. */
static bool
set_flag(struct fe_call *c, sym_t name, struct span at)
{
	const char *word = lower_text(c->l, name);
	int flag = lower_word(c->flags, word);

	if (flag < 0) {
		return false;
	}
	if (c->flag_bits & 1u << flag) {
		diag_error(c->l->diags, at, "the flag `%s` is given twice",
			   word);
	}
	c->flag_bits |= 1u << flag;
	return true;
}

bool
call_has_dim(const dim_id *list, uint32_t n, dim_id d)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (list[i] == d) {
			return true;
		}
	}
	return false;
}

static bool
add_dim(struct fe_call *c, dim_id d, struct span at, bool after)
{
	dim_id *list = after ? c->to : c->dims;
	uint32_t *n = after ? &c->nto : &c->ndims;

	if (!after && call_has_dim(list, *n, d)) {
		diag_error(c->l->diags, at, "`%s` is given twice",
			   ir_dim_name(c->l->m, d));
		return false;
	}
	if (*n == IR_MAX_DIMS) {
		diag_error(c->l->diags, at, "a call takes at most %d dims, "
			   "and this is one more", IR_MAX_DIMS);
		return false;
	}
	(after ? c->to_at : c->dim_at)[*n] = at;
	list[(*n)++] = d;
	return true;
}

/* Reports a bare word that is a named argument of the call, or a flag of
 * other functions; false if it is neither. */
static bool
report_word(struct fe_call *c, sym_t name, struct span at)
{
	const char *word = lower_text(c->l, name);

	if (lower_word(c->named, word) >= 0) {
		diag_error(c->l->diags, at, "`%s` of %s takes a value: "
			   "%s = ...", word, c->name, word);
		return true;
	}
	if (lower_is_flag(word)) {
		diag_error(c->l->diags, at, "%s takes no flag `%s`: it takes "
			   "%s", c->name, word, words_text(c));
		return true;
	}
	return false;
}

/* A name before the arrow that is not a variable: a flag or a dim. */
static bool
bare_name(struct fe_call *c, const struct ast_expr *e)
{
	dim_id d;

	if (set_flag(c, e->sym, e->span)) {
		return true;
	}
	d = lower_find_dim(c->l, e->sym);
	if (d) {
		return add_dim(c, d, e->span, false);
	}
	return !report_word(c, e->sym, e->span) &&
	       unknown_name(c->l, e, c->name, c->flags);
}

/* A name after the arrow: a dim or a flag. */
static bool
arrow_name(struct fe_call *c, const struct ast_name *n)
{
	dim_id d;

	if (set_flag(c, n->sym, n->span)) {
		return true;
	}
	if (!lower_find_dim(c->l, n->sym) &&
	    report_word(c, n->sym, n->span)) {
		return false;
	}
	d = lower_dim_or_flag(c->l, n->sym, n->span, c->name, c->flags);
	return d && add_dim(c, d, n->span, true);
}

/* Whether this is a number beside a value: min(x, 7). */
static bool
is_number_operand(const struct fe_call *c, const struct ast_expr *e)
{
	struct lower *l = c->l;
	enum ir_op op;

	return c->nargs == 1 && c->args[0] && is_number(l, e) &&
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
		return bare_name(c, e);
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
			  "and %s takes %s", c->name, words_text(c));
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
		ok &= a->name.sym ? check_named(c, a)
				  : positional(c, a->expr);
	}
	for (n = c->e->arrow; n; n = n->next) {
		ok &= arrow_name(c, n);
	}
	return ok && c->l->diags->errors == errors;
}

/* ---- how many of each ---- */

/* The span of the first one too many, or of the whole call. */
static bool
check_count(struct fe_call *c, const char *what, const char *where, uint32_t n,
	    const struct span *at, uint32_t lo, uint32_t hi,
	    const char *usage)
{
	const char *given = n == 0 ? "none is" : n == 1 ? "1 is"
		: arena_printf(&c->l->ctx->tmp, "%u are", n);

	if (n >= lo && n <= hi) {
		return true;
	}
	diag_error(c->l->diags, n > hi ? at[hi] : c->e->span,
		   "%s takes %s, and %s given: it is written %s", c->name,
		   lower_count_text(c->l, what, where, lo, hi), given, usage);
	return false;
}

bool
call_sort(struct fe_call *c, const struct call_takes *t)
{
	const char *where = t->max_to ? " before `->`" : "";

	return sort_args(c) &&
	       check_count(c, "operand", "", c->nargs, c->arg_at,
			   t->min_args, t->max_args, t->usage) &&
	       check_count(c, "dim", where, c->ndims, c->dim_at, t->min_dims,
			   t->max_dims, t->usage) &&
	       check_count(c, "dim", " after `->`", c->nto, c->to_at,
			   t->min_to, t->max_to, t->usage);
}

bool
call_dims(struct fe_call *c, const struct ast_expr *e, dim_id *list, uint8_t *n)
{
	struct ast_arg one = { .expr = (struct ast_expr *)e };
	const struct ast_arg *a = e->kind == AST_TUPLE ? e->args : &one;

	for (*n = 0; a; a = a->next) {
		dim_id d;

		if (a->expr->kind != AST_NAME) {
			diag_error(c->l->diags, a->expr->span,
				   "the name of a dim is expected");
			return false;
		}
		if (*n == IR_MAX_DIMS) {
			diag_error(c->l->diags, a->expr->span, "a list of "
				   "dims has at most %d, and this is one more",
				   IR_MAX_DIMS);
			return false;
		}
		d = lower_dim(c->l, a->expr->sym, a->expr->span);
		if (!d) {
			return false;
		}
		if (call_has_dim(list, *n, d)) {
			diag_error(c->l->diags, a->expr->span,
				   "`%s` is given twice",
				   ir_dim_name(c->l->m, d));
			return false;
		}
		list[(*n)++] = d;
	}
	return true;
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

/* ---- functions ---- */

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

/* ---- layers ---- */

static bool
check_operands(struct fe_call *c, func_id f)
{
	struct ir_module *m = c->l->m;
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];
	const struct ast_param *p = c->l->funcs.at[f].layer->params;
	uint32_t i;

	for (i = 0; i < c->nargs; i++, p = p->next) {
		const struct ir_type *want = ir_type(m, r->params.at[i]);
		const struct ir_type *have = ir_type(m, c->args[i]);

		if (!ir_type_equal(want, have)) {
			diag_error(c->l->diags, c->arg_at[i], "operand %u of "
				   "layer `%s` is %s, and %s is expected",
				   i + 1, c->name, ir_type_text(m, have),
				   ir_type_text(m, want));
			diag_note(c->l->diags, p->name.span,
				  "operand `%s` is declared here",
				  lower_text(c->l, p->name.sym));
			return false;
		}
	}
	return true;
}

/* Checks the operands and results of the call against the layer's head. */
static bool
check_layer(struct fe_call *c, func_id f, uint32_t max)
{
	struct ir_module *m = c->l->m;
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];
	struct call_takes takes = { .min_args = r->params.n,
				    .max_args = r->params.n };
	const struct ast_param *p;
	struct buf b;

	buf_init(&b, &c->l->ctx->tmp);
	buf_printf(&b, "%s(", c->name);
	for (p = c->l->funcs.at[f].layer->params; p; p = p->next) {
		buf_printf(&b, "%s%s", lower_text(c->l, p->name.sym),
			   p->next ? ", " : "");
	}
	buf_putc(&b, ')');
	takes.usage = buf_text(&b);
	c->named = c->flags = "";
	if (!call_sort(c, &takes)) {
		return false;
	}
	if (r->results.n > max) {
		diag_error(c->l->diags, c->e->span, "layer `%s` returns %u "
			   "values, expected %u", c->name,
			   r->results.n, max);
		diag_note(c->l->diags, m->funcs.at[f].span,
			  "it is declared here");
		return false;
	}
	return check_operands(c, f);
}

static bool
has_missing(const value_id *v, uint32_t n)
{
	while (n > 0 && v[n - 1]) {
		n--;
	}
	return n > 0;
}

/* Whether the layer's head or results had errors: calls report nothing. */
static bool
is_broken(const struct ir_region *r)
{
	return r->results.n == 0 || has_missing(r->params.at, r->params.n) ||
	       has_missing(r->results.at, r->results.n);
}

static bool
call_layer(struct fe_call *c, func_id f, uint32_t max, value_id *out,
	   uint32_t *n)
{
	struct ir_module *m = c->l->m;
	struct ir_new node;
	uint32_t errors = c->l->diags->errors, i;
	sym_t name;

	c->l->funcs.at[f].called = true;
	if (is_broken(&m->regions.at[m->funcs.at[f].body]) ||
	    !check_layer(c, f, max)) {
		return false;
	}
	name = lower_call_name(c->l, c->e, f);
	if (c->l->diags->errors != errors) {
		return false;
	}
	*n = m->regions.at[m->funcs.at[f].body].results.n;
	ir_new_init(&node, IR_CALL, c->e->span);
	node.callee = f;
	node.nargs = c->nargs;
	memcpy(node.args, c->args, c->nargs * sizeof c->args[0]);
	node.nresults = *n;
	for (i = 0; i < *n; i++) {
		node.types[i] = *ir_type(m,
			m->regions.at[m->funcs.at[f].body].results.at[i]);
	}
	if (name) {
		ir_new_text(&node, IR_ATTR_NAME, name);
	}
	out[0] = lower_append(c->l, &node, c->e);
	for (i = 1; i < *n; i++) {
		out[i] = out[0] + i;
	}
	return out[0] != 0;
}

/* ---- which of the three it is ---- */

static bool
unknown_call(struct fe_call *c)
{
	struct lower *l = c->l;
	/* a layer further down, or the one that holds the call */
	const struct ast_name *below = lower_declared(l, AST_LAYER,
						      c->e->sym);
	const struct variable *b = lower_lookup(l, c->e->sym);
	struct diag_near near;
	func_id f;
	size_t i;

	if (below) {
		diag_error(l->diags, c->e->name_span, "layer `%s` is called "
			   "before its end: a layer calls only layers above "
			   "it, and never itself", c->name);
		diag_note(l->diags, below->span, "layer `%s` is here",
			  c->name);
		return false;
	}
	if (b) {
		diag_error(l->diags, c->e->name_span, "`%s` is a value, and "
			   "cannot be called", c->name);
		diag_note(l->diags, b->span, "`%s` is declared here", c->name);
		return false;
	}
	diag_near_init(&near, c->name);
	for (i = 0; i < call_nfunctions; i++) {
		diag_near_try(&near, call_functions[i].name);
	}
	for (i = 0; i < IR_OP_COUNT; i++) {
		if (ir_ops[i].nargs > 0) {
			diag_near_try(&near, ir_ops[i].name);
		}
	}
	for (f = 1; f < l->m->funcs.n && f < MAX_TRIES; f++) {
		diag_near_try(&near, lower_text(l, l->m->funcs.at[f].name));
	}
	diag_error(l->diags, c->e->name_span, "no function or layer is named "
		   "`%s`%s", c->name, diag_near_text(&near, &l->ctx->tmp));
	return false;
}

static bool
lower_call(struct lower *l, const struct ast_expr *e, uint32_t max,
	   value_id *out, uint32_t *n)
{
	struct fe_call c = { .l = l, .e = e, .name = lower_text(l, e->sym) };
	func_id f = lower_meaning(l, e->sym)->func;
	const struct call_fn *fn = find_function(c.name);
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
	return is_op ? call_op.run(&c, out) : unknown_call(&c);
}

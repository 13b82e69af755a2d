/*
 * The arguments of a call that are names: words with and without a value, and
 * dims; and how many of each there are.
 */
#include "frontend/lang/call.h"

#include <string.h>

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

/* All named arguments and flags that a call may have, for a message. */
const char *
call_words(const struct fe_call *c)
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
bool
call_check_named(struct fe_call *c, const struct ast_arg *a)
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
		   diag_near_text(&near, &c->l->ctx->tmp), call_words(c));
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
			   "%s", c->name, word, call_words(c));
		return true;
	}
	return false;
}

/* A name before the arrow that is not a variable: a flag or a dim. */
bool
call_bare_name(struct fe_call *c, const struct ast_expr *e)
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
	       lower_unknown_name(c->l, e, c->name, c->flags);
}

/* A name after the arrow: a dim or a flag. */
bool
call_arrow_name(struct fe_call *c, const struct ast_name *n)
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
call_counts(struct fe_call *c, const struct call_takes *t)
{
	const char *where = t->max_to ? " before `->`" : "";

	return check_count(c, "operand", "", c->nargs, c->arg_at,
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

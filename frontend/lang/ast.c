/*
 * Builders of the tree, which the grammar calls.  An expression that nests too
 * deep is reported here, once, and replaced by a leaf, so that no later walk
 * of the tree can overflow the stack.
 */
#include "frontend/lang/ast.h"

#include <math.h>
#include <string.h>

struct ast_name *
ast_name(struct fe_parser *p, sym_t s, struct span at)
{
	struct ast_name *n = arena_alloc(p->arena, sizeof *n);

	n->sym = s;
	n->span = at;
	return n;
}

static struct ast_expr *
new_expr(struct fe_parser *p, enum ast_expr_kind kind, struct span at)
{
	struct ast_expr *e = arena_alloc(p->arena, sizeof *e);

	e->kind = kind;
	e->span = at;
	return e;
}

/*
 * Sets e's depth from its children's; false if that is too deep.  The
 * leaf that replaces it keeps a depth past the limit, so that the expressions
 * around it are replaced too, without a second message.
 */
static bool
deepen(struct fe_parser *p, struct ast_expr *e, const struct ast_expr *child)
{
	if (child->depth >= e->depth) {
		e->depth = (uint16_t)(child->depth + 1);
	}
	if (e->depth <= AST_MAX_DEPTH) {
		return true;
	}
	if (e->depth == AST_MAX_DEPTH + 1) {
		diag_error(&p->ctx->diags, e->span, "this expression nests "
			   "deeper than %d: give names to parts of it",
			   AST_MAX_DEPTH);
	}
	e->kind = AST_NUM;
	e->lhs = e->rhs = NULL;
	e->args = NULL;
	e->depth = AST_MAX_DEPTH + 1;
	return false;
}

struct ast_expr *
ast_number(struct fe_parser *p, const char *text, size_t n, struct span at)
{
	struct ast_expr *e = new_expr(p, AST_NUM, at);

	e->is_int = num_parse_int(text, n, &e->i);
	if (!num_parse_double(text, n, &e->num)) {
		diag_error(&p->ctx->diags, at,
			   "`%.*s%s` is longer, larger or nearer to 0 than a "
			   "number may be: up to 63 characters, 0 or from "
			   "5e-324 to 1.797e308", n > 40 ? 40 : (int)n, text,
			   n > 40 ? "..." : "");
	}
	return e;
}

struct ast_expr *
ast_leaf(struct fe_parser *p, enum ast_expr_kind kind, sym_t s,
	 struct span at)
{
	struct ast_expr *e = new_expr(p, kind, at);

	e->sym = s;
	return e;
}

struct ast_expr *
ast_bin(struct fe_parser *p, char op, struct ast_expr *a, struct ast_expr *b)
{
	struct ast_expr *e = new_expr(p, AST_BIN, span_join(a->span, b->span));

	e->op = op;
	e->lhs = a;
	e->rhs = b;
	if (deepen(p, e, a)) {
		deepen(p, e, b);
	}
	return e;
}

struct ast_expr *
ast_neg(struct fe_parser *p, struct ast_expr *a, struct span at)
{
	struct ast_expr *e = new_expr(p, AST_NEG, at);

	e->lhs = a;
	deepen(p, e, a);
	return e;
}

struct ast_expr *
ast_call(struct fe_parser *p, struct ast_name *name, struct ast_arg *args,
	 struct span at)
{
	struct ast_expr *e = new_expr(p, name ? AST_CALL : AST_TUPLE, at);
	struct ast_arg *a;

	if (name) {
		e->sym = name->sym;
		e->name_span = name->span;
	}
	e->args = args;
	for (a = args; a && deepen(p, e, a->expr); a = a->next) {
		continue;
	}
	return e;
}

struct ast_arg *
ast_arg(struct fe_parser *p, struct ast_name *name, struct ast_expr *e)
{
	struct ast_arg *a = arena_alloc(p->arena, sizeof *a);

	if (name) {
		a->name = *name;
	}
	a->expr = e;
	return a;
}

struct ast_expr *
ast_arrow_call(struct fe_parser *p, struct ast_name *name,
	       struct ast_arg *args, struct ast_arg *after, struct span at)
{
	struct ast_arg *a, *rest, *named = NULL, **tail = &named;
	struct ast_name *n, *arrow = NULL;
	uint32_t errors = p->ctx->diags.errors;
	struct ast_expr *e;

	for (a = ast_args_reverse(after); a; a = rest) {
		rest = a->next;
		if (a->name.sym) {
			a->next = named;
			named = a;
		} else if (a->expr->kind == AST_NAME) {
			n = ast_name(p, a->expr->sym, a->expr->span);
			n->next = arrow;
			arrow = n;
		} else {
			diag_error(&p->ctx->diags, a->expr->span,
				   "the name of a dim is expected after `->`");
		}
	}
	if (!arrow && p->ctx->diags.errors == errors) {
		diag_error(&p->ctx->diags, at,
			   "no dim follows the `->` of this call");
	}
	while (*tail) {		/* both lists are newest first */
		tail = &(*tail)->next;
	}
	*tail = args;
	e = ast_call(p, name, ast_args_reverse(named), at);
	e->arrow = ast_names_reverse(arrow);
	e->has_arrow = true;
	return e;
}

struct ast_stmt *
ast_stmt(struct fe_parser *p, enum ast_stmt_kind kind, struct span at)
{
	struct ast_stmt *s = arena_alloc(p->arena, sizeof *s);

	s->kind = kind;
	s->span = at;
	return s;
}

struct ast_stmt *
ast_hint(struct fe_parser *p, const char *verb, struct ast_name *what,
	 struct ast_name *axis, struct span at)
{
	struct ast_stmt *s = ast_stmt(p, AST_HINT, at);

	s->names = ast_name(p, intern_str(&p->ctx->syms, verb), at);
	s->names->next = what;
	what->next = axis;
	return s;
}

struct ast_stmt *
ast_repeat(struct fe_parser *p, struct ast_expr *count, struct ast_name *var,
	   struct ast_expr *from, struct span at)
{
	struct ast_stmt *s = ast_stmt(p, AST_REPEAT, at);

	s->exprs = ast_arg(p, NULL, count);
	if (from) {
		s->exprs->next = ast_arg(p, NULL, from);
	}
	if (var) {
		s->var = *var;
	}
	return s;
}

struct ast_setting *
ast_setting(struct fe_parser *p, const struct ast_name *key,
	    struct ast_expr *value)
{
	struct ast_setting *s = arena_alloc(p->arena, sizeof *s);

	s->key = *key;
	s->value = value;
	return s;
}

struct ast_block *
ast_block(struct fe_parser *p, const char *kind, struct ast_name *name,
	  struct span at)
{
	struct ast_block *b = arena_alloc(p->arena, sizeof *b);

	b->kind.sym = intern_str(&p->ctx->syms, kind);
	b->kind.span.lo = at.lo;
	b->kind.span.hi = at.lo + (uint32_t)strlen(kind);
	if (name) {
		b->name = *name;
	}
	b->span = at;
	return b;
}

bool
ast_plain_number(const struct ast_expr *e, double *out)
{
	double a, b;

	switch (e->kind) {
	case AST_NUM:
		*out = e->num;
		return true;
	case AST_NEG:
		if (!ast_plain_number(e->lhs, &a)) {
			return false;
		}
		*out = -a;
		return true;
	case AST_BIN:
		if (!ast_plain_number(e->lhs, &a) ||
		    !ast_plain_number(e->rhs, &b)) {
			return false;
		}
		*out = e->op == '+' ? a + b : e->op == '-' ? a - b
		     : e->op == '*' ? a * b : a / b;
		return isfinite(*out);
	default:
		return false;
	}
}

#define REVERSE(name, type) \
	struct type * \
	name(struct type *list) \
	{ \
		struct type *done = NULL, *rest; \
		for (; list; list = rest) { \
			rest = list->next; \
			list->next = done; \
			done = list; \
		} \
		return done; \
	}

REVERSE(ast_names_reverse, ast_name)
REVERSE(ast_args_reverse, ast_arg)
REVERSE(ast_stmts_reverse, ast_stmt)
REVERSE(ast_params_reverse, ast_param)
REVERSE(ast_settings_reverse, ast_setting)
REVERSE(ast_blocks_reverse, ast_block)

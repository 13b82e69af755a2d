/*
 * The tree as source text again, in one canonical form: what --emit=ast
 * prints parses to the same tree.
 */
#include "frontend/lang/ast.h"

#include <inttypes.h>
#include <string.h>

struct ast_printer {
	struct ir_ctx *ctx;
	struct buf *out;
	int depth;
};

static void print_stmts(struct ast_printer *p, const struct ast_stmt *s);

static const char *
text(const struct ast_printer *p, sym_t s)
{
	return ir_text(p->ctx, s);
}

static void
indent(struct ast_printer *p)
{
	int i;

	for (i = 0; i < p->depth; i++) {
		buf_puts(p->out, "  ");
	}
}

static void
print_names(struct ast_printer *p, const struct ast_name *n)
{
	const char *comma = "";

	for (; n; n = n->next, comma = ", ") {
		buf_printf(p->out, "%s%s", comma, text(p, n->sym));
	}
}

/* ---- expressions ---- */

/* 1 for + and -, 2 for * and /, 3 for what never needs parentheses. */
static int
binds(const struct ast_expr *e)
{
	if (e->kind == AST_BIN) {
		return e->op == '+' || e->op == '-' ? 1 : 2;
	}
	return 3;
}

static void print_expr(struct ast_printer *p, const struct ast_expr *e);

static void
print_inner(struct ast_printer *p, const struct ast_expr *e, int at_least)
{
	bool wrap = binds(e) < at_least;

	buf_puts(p->out, wrap ? "(" : "");
	print_expr(p, e);
	buf_puts(p->out, wrap ? ")" : "");
}

static void
print_args(struct ast_printer *p, const struct ast_arg *a, bool named,
	   const char **comma)
{
	for (; a; a = a->next) {
		if ((a->name.sym != 0) != named) {
			continue;
		}
		buf_puts(p->out, *comma);
		if (named) {
			buf_printf(p->out, "%s = ", text(p, a->name.sym));
		}
		print_expr(p, a->expr);
		*comma = ", ";
	}
}

/* Operands, dims after the arrow, then named arguments. */
static void
print_call(struct ast_printer *p, const struct ast_expr *e)
{
	const char *comma = "";

	buf_printf(p->out, "%s(", e->kind == AST_CALL ? text(p, e->sym) : "");
	print_args(p, e->args, false, &comma);
	if (e->has_arrow) {
		buf_puts(p->out, " -> ");
		print_names(p, e->arrow);
		comma = e->arrow ? ", " : "";
	}
	print_args(p, e->args, true, &comma);
	buf_putc(p->out, ')');
	if (e->at) {
		buf_printf(p->out, " @ \"%s\"", text(p, e->at));
	}
}

static void
print_expr(struct ast_printer *p, const struct ast_expr *e)
{
	switch (e->kind) {
	case AST_NUM:
		if (e->is_int) {
			buf_printf(p->out, "%" PRId64, e->i);
		} else {
			buf_double(p->out, e->num);
		}
		break;
	case AST_NAME:
		buf_puts(p->out, text(p, e->sym));
		break;
	case AST_STR:
		buf_printf(p->out, "\"%s\"", text(p, e->sym));
		break;
	case AST_BIN:
		print_inner(p, e->lhs, binds(e));
		buf_printf(p->out, " %c ", e->op);
		print_inner(p, e->rhs, binds(e) + 1);
		break;
	case AST_NEG:
		buf_putc(p->out, '-');
		print_inner(p, e->lhs, 3);
		break;
	case AST_CALL:
	case AST_TUPLE:
		print_call(p, e);
		break;
	}
}

/* ---- statements ---- */

static void
print_params(struct ast_printer *p, const struct ast_param *a)
{
	const char *comma = "";

	for (; a; a = a->next, comma = ", ") {
		buf_printf(p->out, "%s%s", comma, text(p, a->name.sym));
		if (a->of.sym) {
			buf_printf(p->out, ": idx<%s>", text(p, a->of.sym));
		} else if (a->dtype.sym) {
			buf_printf(p->out, ": %s", text(p, a->dtype.sym));
		}
		buf_putc(p->out, '[');
		print_names(p, a->dims);
		buf_putc(p->out, ']');
	}
}

static void
print_body(struct ast_printer *p, const struct ast_stmt *body)
{
	buf_puts(p->out, " {\n");
	p->depth++;
	print_stmts(p, body);
	p->depth--;
	indent(p);
	buf_puts(p->out, "}\n");
}

static void
print_repeat(struct ast_printer *p, const struct ast_stmt *s)
{
	buf_puts(p->out, "repeat ");
	print_expr(p, s->exprs->expr);
	if (s->var.sym) {
		buf_printf(p->out, " as %s", text(p, s->var.sym));
	}
	if (s->exprs->next) {
		buf_puts(p->out, " from ");
		print_expr(p, s->exprs->next->expr);
	}
	print_body(p, s->body);
}

static void
print_hint(struct ast_printer *p, const struct ast_stmt *s)
{
	const struct ast_name *what = s->names->next;

	buf_printf(p->out, "%s %s", text(p, s->names->sym),
		   text(p, what->sym));
	if (what->next) {
		buf_printf(p->out, " on %s", text(p, what->next->sym));
	}
	buf_puts(p->out, ";\n");
}

static void
print_stmt(struct ast_printer *p, const struct ast_stmt *s)
{
	const char *comma = "";

	indent(p);
	switch (s->kind) {
	case AST_DIM:
		buf_puts(p->out, "dim ");
		/* fall through */
	case AST_ASSIGN:
		print_names(p, s->names);
		buf_puts(p->out, " = ");
		print_expr(p, s->exprs->expr);
		buf_puts(p->out, ";\n");
		break;
	case AST_RETURN:
		buf_puts(p->out, "return ");
		print_args(p, s->exprs, false, &comma);
		buf_puts(p->out, ";\n");
		break;
	case AST_DTYPE:
		buf_printf(p->out, "dtype %s;\n", text(p, s->names->sym));
		break;
	case AST_INPUT:
		buf_puts(p->out, "input ");
		print_params(p, s->params);
		buf_puts(p->out, ";\n");
		break;
	case AST_HINT:
		print_hint(p, s);
		break;
	case AST_REPEAT:
		print_repeat(p, s);
		break;
	case AST_LAYER:
		buf_printf(p->out, "layer %s(", text(p, s->names->sym));
		print_params(p, s->params);
		buf_putc(p->out, ')');
		print_body(p, s->body);
		break;
	}
}

static void
print_stmts(struct ast_printer *p, const struct ast_stmt *s)
{
	for (; s; s = s->next) {
		print_stmt(p, s);
	}
}

void
fe_print_ast(struct ir_ctx *c, const struct ast_file *f, struct buf *out)
{
	struct ast_printer p = { .ctx = c, .out = out };
	const struct ast_block *b;
	const struct ast_setting *s;

	for (b = f->blocks; b; b = b->next) {
		buf_printf(out, "%s%s", b == f->blocks ? "" : "\n",
			   text(&p, b->kind.sym));
		if (b->name.sym) {
			buf_printf(out, " %s", text(&p, b->name.sym));
		}
		buf_puts(out, " {\n");
		p.depth = 1;
		print_stmts(&p, b->body);
		for (s = b->settings; s; s = s->next) {
			buf_printf(out, "  %s = ", text(&p, s->key.sym));
			print_expr(&p, s->value);
			buf_puts(out, ";\n");
		}
		buf_puts(out, "}\n");
	}
}

/*
 * The tree that the parser builds: names as written, nothing looked up.
 * Private to frontend/lang; all of it lives in ctx->perm.
 */
#ifndef FRONTEND_AST_H
#define FRONTEND_AST_H

#include "frontend/frontend.h"

/* A name and its place in the text. */
struct ast_name {
	sym_t sym;
	struct span span;
	struct ast_name *next;
};

enum ast_expr_kind { AST_NUM, AST_NAME, AST_STR, AST_BIN, AST_NEG, AST_CALL,
		     AST_TUPLE };

struct ast_arg;

struct ast_expr {
	enum ast_expr_kind kind;
	uint16_t depth;		/* of the tree below, for AST_MAX_DEPTH */
	char op;		/* AST_BIN: + - * / */
	bool is_int;		/* AST_NUM: written without point or e */
	double num;
	int64_t i;		/* AST_NUM with is_int */
	sym_t sym;		/* name, text, or what is called */
	struct ast_expr *lhs, *rhs;	/* AST_BIN, AST_NEG (lhs) */
	struct ast_arg *args;	/* AST_CALL, AST_TUPLE */
	struct ast_name *arrow;	/* AST_CALL: names after -> */
	bool has_arrow;
	sym_t at;		/* AST_CALL: @ "name" */
	struct span at_span;
	struct span name_span;	/* AST_CALL: of what is called */
	struct span span;
};

/* `expr`, or `name = expr` when name.sym is set. */
struct ast_arg {
	struct ast_name name;
	struct ast_expr *expr;
	struct ast_arg *next;
};

struct ast_param {
	struct ast_name name;
	struct ast_name dtype;	/* sym 0: the model's */
	struct ast_name of;	/* idx<of> */
	struct ast_name *dims;
	struct ast_param *next;
};

enum ast_stmt_kind { AST_ASSIGN, AST_REPEAT, AST_RETURN, AST_DIM, AST_DTYPE,
		     AST_LAYER, AST_INPUT, AST_HINT };

struct ast_stmt {
	enum ast_stmt_kind kind;
	struct ast_name *names;	/* assigned; DIM, DTYPE, LAYER: its name;
				 * HINT: verb, what, axis */
	struct ast_arg *exprs;	/* ASSIGN, DIM, REPEAT (count, start): 1+;
				 * RETURN: all that is returned */
	struct ast_param *params;	/* LAYER, INPUT */
	struct ast_stmt *body;	/* LAYER, REPEAT */
	struct ast_name var;	/* REPEAT: `as` */
	struct span span;
	struct ast_stmt *next;
};

/* train, serve, target, plan: `key = value;` */
struct ast_setting {
	struct ast_name key;
	struct ast_expr *value;
	struct ast_setting *next;
};

struct ast_block {
	struct ast_name kind;	/* model, train, serve, target, plan */
	struct ast_name name;	/* sym 0: none */
	struct ast_stmt *body;	/* model; hints of a plan */
	struct ast_setting *settings;
	struct span span;
	struct ast_block *next;
};

struct ast_file {
	struct ast_block *blocks;
	struct span start;	/* the text's first byte */
};

#define AST_MAX_DEPTH 200	/* of an expression */
#define AST_MAX_NAME 255
#define AST_MAX_WORDS 1000000	/* of a file: bounds memory and time */
#define AST_MAX_ERRORS 64	/* then the rest is not looked at */

/* A word of the text: a token, its kind as the grammar numbers it. */
struct ast_word {
	int kind;
	struct span span;
	sym_t sym;		/* names, texts, reserved words */
	struct ast_expr *number;
};

/* A bracket that is open, to show what is never closed. */
struct ast_bracket {
	int close;
	struct span span;
};

/* What the parser and the scanner share. */
struct fe_parser {
	struct ir_ctx *ctx;
	struct arena *arena;
	const char *text;	/* the scanner's copy: read word by word */
	const char *source;	/* the text as it is */
	uint32_t base;		/* source offset of the text's first byte */
	struct ast_file *file;
	uint32_t errors_before;
	void *scanner;
	struct ast_word word, before;	/* the last one read, and its left */
	uint32_t words;		/* read so far */
	VEC(struct ast_bracket) open;
	bool spoilt;		/* the scanner complained in this statement */
	bool noted;		/* an open `{` was shown */
	int again[2], nagain;	/* words that are read before the next one */
	uint32_t repaired;	/* where a `;` was inserted last */
	bool pairs;		/* the text is KEY=VALUE,.. of an option */
};

static inline bool
fe_too_many_errors(const struct ir_ctx *c, uint32_t before)
{
	return c->diags.errors - before >= AST_MAX_ERRORS;
}

/* ---- lexer.l: words, for the parser's messages ------------------------- */

/* "`x`", "the reserved word `on`", "the end of the file"; in the arena. */
const char *fe_word_text(struct fe_parser *p, const struct ast_word *w);
bool fe_is_reserved(const struct ast_word *w);
/* Whether a line ends before the last word. */
bool fe_starts_line(const struct fe_parser *p);
/*
 * Where a `;` is missing at the end of a line or a block, gives one to the
 * parser and the last word again, so that the next statement is read too.
 */
void fe_insert_semicolon(struct fe_parser *p);

/* ---- lang_plan.c -------------------------------------------------------- */

/* One `key = value;` of a plan block. Reports what is wrong with it. */
void fe_set_plan_key(struct ir_module *m, const struct ast_setting *s);

/* ---- ast.c: builders, called from the grammar's actions --------------- */

struct ast_name *ast_name(struct fe_parser *p, sym_t s, struct span at);
struct ast_expr *ast_number(struct fe_parser *p, const char *text, size_t n,
			    struct span at);
struct ast_expr *ast_leaf(struct fe_parser *p, enum ast_expr_kind kind,
			  sym_t s, struct span at);
struct ast_expr *ast_bin(struct fe_parser *p, char op, struct ast_expr *a,
			 struct ast_expr *b);
struct ast_expr *ast_neg(struct fe_parser *p, struct ast_expr *a,
			 struct span at);
struct ast_expr *ast_call(struct fe_parser *p, struct ast_name *name,
			  struct ast_arg *args, struct span at);
/* name(args -> after): dims, and among them named arguments. */
struct ast_expr *ast_arrow_call(struct fe_parser *p, struct ast_name *name,
				struct ast_arg *args, struct ast_arg *after,
				struct span at);
struct ast_arg *ast_arg(struct fe_parser *p, struct ast_name *name,
			struct ast_expr *e);
struct ast_stmt *ast_stmt(struct fe_parser *p, enum ast_stmt_kind kind,
			  struct span at);
/* axis, var and from may be NULL, and a block's name. */
struct ast_stmt *ast_hint(struct fe_parser *p, const char *verb,
			  struct ast_name *what, struct ast_name *axis,
			  struct span at);
struct ast_stmt *ast_repeat(struct fe_parser *p, struct ast_expr *count,
			    struct ast_name *var, struct ast_expr *from,
			    struct span at);
struct ast_setting *ast_setting(struct fe_parser *p, const struct ast_name *key,
				struct ast_expr *value);
struct ast_block *ast_block(struct fe_parser *p, const char *kind,
			    struct ast_name *name, struct span at);

/* Arithmetic between plain numbers; false, without a message, if the
 * expression is anything else. */
bool ast_plain_number(const struct ast_expr *e, double *out);

/* Lists are built newest first; these reverse them. */
struct ast_name *ast_names_reverse(struct ast_name *n);
struct ast_arg *ast_args_reverse(struct ast_arg *a);
struct ast_stmt *ast_stmts_reverse(struct ast_stmt *s);
struct ast_param *ast_params_reverse(struct ast_param *p);
struct ast_setting *ast_settings_reverse(struct ast_setting *s);
struct ast_block *ast_blocks_reverse(struct ast_block *b);

#endif

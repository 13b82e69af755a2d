/*
 * What the files that turn the tree into IR share.  lower.c walks blocks,
 * layers and statements; expr.c and what call.h lists do expressions and
 * calls; settings.c the blocks of `key = value;` and the hints.  They call
 * lang_names.c and tensors.c for what names mean, lang_append.c to add nodes,
 * and words.c for messages.
 * Private to frontend/lang.
 */
#ifndef FRONTEND_LOWER_H
#define FRONTEND_LOWER_H

#include "frontend/lang/ast.h"

/* A variable and its current value. */
struct variable {
	sym_t name;
	value_id value;		/* 0 after an error: uses report nothing */
	struct span span;	/* where it was assigned */
	bool used;
	uint32_t hidden;	/* the variable that it hides: meaning.var */
};

/* The body of the model, a layer or a repeat. */
struct scope {
	struct scope *outer;	/* NULL: the function's own */
	region_id region;
	uint32_t first;		/* of its variables in lower.vars */
	sym_t var;		/* repeat: its variable, may be 0 */
	bool var_is_made;	/* the model's text gives it none */
	int64_t lo, hi;		/* repeat: the variable's range */
	struct span span;
};

#define MAX_RANGES 4
#define MAX_TRIES 10000		/* names compared for a suggestion */

/*
 * The tensors that one name template covers: each {} runs over a range.
 * Two templates clash when the texts are equal and all ranges meet.
 */
struct tensor_name {
	sym_t text;		/* placeholders as {} */
	uint8_t n;
	/* lo, lo + by, ... below hi */
	int64_t lo[MAX_RANGES], hi[MAX_RANGES], by[MAX_RANGES];
	struct span span;
	value_id value;		/* weights of this function, for `tied` */
	region_id region;	/* of the weight */
	sym_t written;		/* the @ as written, for `tied` */
	bool drawn;		/* a dropout mask: in no checkpoint */
};

/* What is known of a function besides its IR. */
struct func_info {
	VEC(struct tensor_name) tensors;
	bool called;
	const struct ast_stmt *layer;	/* NULL: the model */
};

/* What a name means now, in each of the three kinds; 0 is nothing. */
struct meaning {
	uint32_t var;		/* 1 + index into lower.vars */
	dim_id dim;
	func_id func;
	/* where a repeat of function gone_in, now closed, assigned it */
	func_id gone_in;
	struct span gone;
};

struct lower {
	struct ir_ctx *ctx;
	struct ir_module *m;
	struct diags *diags;
	uint32_t errors_before;		/* and warnings that are errors */
	enum ir_dtype dtype;	/* of values and weights without a dtype */
	struct scope *scope;
	func_id func;
	VEC(struct variable) vars;	/* of the open scopes, inner last */
	VEC(struct meaning) names;	/* by sym_t */
	VEC(struct func_info) funcs;	/* by func_id */
	VEC(bool) dim_used;		/* by dim_id */
	const struct ast_file *file;
	const struct ast_stmt *body;	/* of the model */
	value_id tokens, labels;	/* the implicit inputs, once used */
	uint32_t depth, autonames, warnings;
	bool stopped;		/* a wrong dim or dtype: no body is lowered */
};

/* ---- words.c ---------------------------------------------------------- */

/*
 * A warning, unless there were errors, which may have caused it, or enough
 * warnings already; false if it was not recorded, so that no note follows.
 */
bool lower_warn(struct lower *l, enum diag_warning w, struct span at,
		const char *fmt, ...) BASE_PRINTF(4, 5);
/* Index of a word in a list with blanks between its words, or -1. */
int lower_word(const char *list, const char *word);
/* "a, b or c" of such a list, with `last` before the last word. */
const char *lower_words(struct lower *l, const char *list, const char *last);
void lower_add_word(struct buf *list, const char *word);
/* Tries each word of such a list. */
void lower_near(struct lower *l, struct diag_near *near, const char *list);
/* Whether the word is a flag of calls, so that no dim may have the name. */
bool lower_is_flag(const char *word);
const char *lower_type_text(struct lower *l, value_id v);
/* The shortest text of a number, in the run's tmp. */
const char *lower_number_text(struct lower *l, double v);
/* "no dim", "1 operand", "2 to 8 dims after `->`" */
const char *lower_count_text(struct lower *l, const char *what,
			     const char *where, uint32_t lo, uint32_t hi);

/* ---- lang_names.c: what a name means ---------------------------------- */

struct meaning *lower_meaning(struct lower *l, sym_t name);
/* Where a dim or a layer of the model is declared, or NULL. */
const struct ast_name *lower_declared(const struct lower *l,
				      enum ast_stmt_kind kind, sym_t name);

/* The variable of that name, or NULL; valid until another one is bound. */
struct variable *lower_lookup(struct lower *l, sym_t name);
void lower_bind(struct lower *l, const struct ast_name *n, value_id v);
/* A variable of the innermost scope, which hides what its name meant. */
void lower_push_var(struct lower *l, const struct ast_name *n, value_id v,
		    bool used);
void lower_push_scope(struct lower *l, struct scope *s, region_id r,
		      struct span at);
/* Ends its variables too, and warns of those that nothing used. */
void lower_pop_scope(struct lower *l);
/* The repeat around this place whose variable has the name, or NULL. */
const struct scope *lower_repeat_of(const struct lower *l, sym_t var);
/* Where the model keeps `tokens` or `labels`; NULL if the name is neither. */
value_id *lower_implicit_input(struct lower *l, sym_t name);
/* The input node, which belongs to the model itself; 0 after reporting. */
value_id lower_implicit_value(struct lower *l, const struct ast_expr *e);
/* Whether a name is a value, or an implicit input that can become one. */
bool lower_is_value(struct lower *l, sym_t name);

void lower_declare_dim(struct lower *l, const struct ast_stmt *s);
dim_id lower_add_dim(struct lower *l, sym_t name, int64_t size, expr_id expr,
		     struct span at);
/* 0 if there is none, without a message; the dim counts as used. */
dim_id lower_find_dim(struct lower *l, sym_t name);
/* 0 after reporting. */
dim_id lower_dim(struct lower *l, sym_t name, struct span at);
/* The same where a flag of `function` is legal too: the message lists them. */
dim_id lower_dim_or_flag(struct lower *l, sym_t name, struct span at,
			 const char *function, const char *flags);
/*
 * A whole number over dims, from lo to hi.  *expr is how it was written, or 0
 * for a plain number.  False after reporting.
 */
bool lower_int(struct lower *l, const struct ast_expr *e, const char *what,
	       int64_t lo, int64_t hi, int64_t *value, expr_id *expr);
bool lower_dtype(struct lower *l, sym_t name, struct span at,
		 enum ir_dtype *dtype);
/* The type of a layer's operand or of an input. */
bool lower_type(struct lower *l, const struct ast_param *p,
		struct ir_type *t);

/* ---- tensors.c: names in checkpoints ---------------------------------- */

/*
 * The tensor name `at` + suffix of a weight with these dims (none: a call).
 * Checks placeholders, makes up a name when there is none, and records it.
 * 0 after reporting.
 */
sym_t lower_tensor_name(struct lower *l, const struct ast_expr *call,
			const char *suffix, const struct ir_type *type,
			struct tensor_name *out);
/* The same for a dropout mask, which need not be named by the user. */
sym_t lower_mask_name(struct lower *l, const struct ast_expr *call,
		      struct tensor_name *out);
/* Adds it to this function's tensors; false, reported, if it is there. */
bool lower_add_tensor(struct lower *l, const struct tensor_name *t);
/* The same for all tensors of a layer that is called. */
sym_t lower_call_name(struct lower *l, const struct ast_expr *call,
		      func_id callee);

/* ---- lang_append.c ---------------------------------------------------- */

/*
 * Appends to the current region; on failure reports the rule at e and shows
 * the operands' types.
 */
value_id lower_append(struct lower *l, struct ir_new *n,
		      const struct ast_expr *e);
/* To that region; the message shows no operands. */
value_id lower_append_in(struct lower *l, region_id r, struct ir_new *n,
			 struct span at);
/* Does an element of that type hold v? False after reporting. */
bool lower_holds(struct lower *l, enum ir_dtype type, double v,
		 struct span at);
/* A number as a value whose elements are as those of `like`; 0: reported. */
value_id lower_constant(struct lower *l, double v, value_id like,
			struct span at);
/* Notes the type of an operand, where its variable was assigned. */
void lower_note_operand(struct lower *l, const struct ast_expr *e,
			value_id v);

/* ---- expr.c ----------------------------------------------------------- */

bool lower_value(struct lower *l, const struct ast_expr *e, value_id *out);
bool lower_number(struct lower *l, const struct ast_expr *e,
		  const char *what, double *out);
/* Up to max results, for `a, b = ...`. */
bool lower_results(struct lower *l, const struct ast_expr *e, uint32_t max,
		   value_id *out, uint32_t *n);

/* ---- lang_unknown.c ---------------------------------------------------- */

/* Whether a row of functions.c has the name, which is no op and no layer. */
bool lower_is_function(const char *name);

/* ---- settings_legal.c ------------------------------------------------- */

enum setting_kind {
	SETTING_INT, SETTING_NUM, SETTING_PAIR, SETTING_WORD, SETTING_TEXT
};

/* A row of settings.def. */
struct setting_row {
	const char *block, *key;
	enum setting_kind kind;
	double lo, hi;
	const char *words;
};

/* Of `train` and `optimizer.lr`; NULL: there is none. */
const struct setting_row *setting_row(const char *block, const char *key);
/* Reports an unknown key and lists those of its group: "optimizer." or "". */
void setting_unknown(struct lower *l, const char *block, const char *group,
		     const char *key, struct span at);
/* Each is false after reporting. `word` is NULL for a value that is none. */
bool setting_number(struct lower *l, const struct setting_row *r, double v,
		    struct span at);
bool setting_no_pair(struct lower *l, const struct setting_row *r,
		     struct span at);
bool setting_word(struct lower *l, const struct setting_row *r,
		  const char *word, struct span at);
/* "0 to 1000" */
const char *setting_range(struct lower *l, const struct setting_row *r);
/* Of IR text: each setting by itself, then all together. */
void lower_check_settings(struct lower *l);
/* Whether settings that are legal each are possible together. */
void lower_settings_agree(struct lower *l);

/* ---- settings.c ------------------------------------------------------- */

void lower_settings(struct lower *l, const struct ast_block *b);
/* The dim `batch`, unless the model declares it. */
void lower_declare_batch(struct lower *l);
void lower_hint(struct lower *l, const struct ast_stmt *s);
/* The legal axes of `shard`, and words of `recompute`. */
extern const char lower_hint_axes[], lower_hint_recompute[];
/* Warns about hints that nothing in the finished module matches. */
void lower_unused_hints(struct lower *l);

/* ---- lang_export.c ---------------------------------------------------- */

/* The block `export`; the dims that it names are declared. */
void lower_export(struct lower *l, const struct ast_block *b);

static inline const char *
lower_text(const struct lower *l, sym_t s)
{
	return ir_text(l->ctx, s);
}

static inline sym_t
lower_sym(struct lower *l, const char *text)
{
	return intern_str(&l->ctx->syms, text);
}

#endif

/*
 * A call and its arguments, sorted by what they are.  expr.c evaluates them,
 * call_args.c sorts those that are names, and expr.c calls a layer by
 * call_layer.c, or runs a row of functions.c (functions that make weights or
 * several nodes), or the one row of lang_ops.c, which is for every op.
 */
#ifndef FRONTEND_CALL_H
#define FRONTEND_CALL_H

#include "frontend/lang/lower.h"

struct fe_call {
	struct lower *l;
	const struct ast_expr *e;
	const char *name;
	value_id args[IR_MAX_ARGS];
	struct span arg_at[IR_MAX_ARGS];
	uint32_t nargs;
	/* before the arrow, and after it */
	dim_id dims[IR_MAX_DIMS], to[IR_MAX_DIMS];
	struct span dim_at[IR_MAX_DIMS], to_at[IR_MAX_DIMS];
	uint32_t ndims, nto;
	const char *named, *flags;	/* legal words, with blanks between */
	uint32_t flag_bits;		/* bit k: the k-th word of flags */
};

/* How many of each a function, an op or a layer may have. */
struct call_takes {
	uint32_t min_args, max_args;
	uint32_t min_dims, max_dims;	/* before the arrow */
	uint32_t min_to, max_to;	/* after it */
	const char *usage;		/* how it is written */
};

/* One row per function. */
struct call_fn {
	const char *name;
	struct call_takes takes;
	bool weights;			/* has weights, which `@` names */
	bool many;			/* one result per dim after it */
	const char *named, *flags;
	bool (*run)(struct fe_call *c, value_id *out);
};

/* A number or a value. */
struct lower_operand {
	bool is_value;
	value_id value;
	double num;
};

/* ---- lang_unknown.c ---------------------------------------------------- */

/* The row of functions.c of that name, or NULL. */
const struct call_fn *call_find(const char *name);
/* Reports a name that is no value; of a call it may be one of its flags. */
bool lower_unknown_name(struct lower *l, const struct ast_expr *e,
			const char *function, const char *flags);
/* Reports a call of what is no function and no layer above. */
bool call_unknown(struct fe_call *c);

/* ---- operators.c -------------------------------------------------------- */

/* Whether an expression is made of numbers and dims alone. */
bool lower_is_number(struct lower *l, const struct ast_expr *e);
/* sqrt, exp, log of a plain number, so that 1 / sqrt(hd) is one. */
bool lower_is_number_call(struct lower *l, const struct ast_expr *e);
/* What e makes of its operands, which are evaluated; false: reported. */
bool lower_binary(struct lower *l, const struct ast_expr *e,
		  struct lower_operand a, struct lower_operand b,
		  struct lower_operand *out);
/* The same of one operand, in place. */
bool lower_negated(struct lower *l, const struct ast_expr *e,
		   struct lower_operand *out);
bool lower_number_function(struct lower *l, const struct ast_expr *e,
			   struct lower_operand *out);

/* ---- call_args.c -------------------------------------------------------- */

bool call_has_flag(const struct fe_call *c, const char *word);
/* The argument `word = ...`, or NULL. */
const struct ast_expr *call_named(const struct fe_call *c, const char *word);
bool call_has_dim(const dim_id *list, uint32_t n, dim_id d);
/* All named arguments and flags that a call may have, for a message. */
const char *call_words(const struct fe_call *c);
/* `word = ...`: known, and given once. */
bool call_check_named(struct fe_call *c, const struct ast_arg *a);
/* A name before the arrow that is not a variable, and one after it: a flag or
 * a dim. */
bool call_bare_name(struct fe_call *c, const struct ast_expr *e);
bool call_arrow_name(struct fe_call *c, const struct ast_name *n);
/* Whether there are as many of each as it takes. */
bool call_counts(struct fe_call *c, const struct call_takes *t);
/* `dim` or `(dim, dim)`, each once; false after reporting. */
bool call_dims(struct fe_call *c, const struct ast_expr *e, dim_id *list,
	       uint8_t *n);

/* ---- call_layer.c ------------------------------------------------------- */

/* Whether the layer's head or results had errors: calls report nothing. */
bool call_layer_is_broken(const struct fe_call *c, func_id f);
void call_layer_takes(struct fe_call *c, func_id f, struct call_takes *takes);
/* The call, of sorted arguments, as a node. */
bool call_layer_node(struct fe_call *c, func_id f, uint32_t max, value_id *out,
		     uint32_t *n);

/* ---- expr.c ----------------------------------------------------------- */

/* Sorts the arguments by c->named and c->flags, and counts them. */
bool call_sort(struct fe_call *c, const struct call_takes *t);
/* A number that must be above 0. */
bool call_positive(struct fe_call *c, const struct ast_expr *e,
		   const char *what, double *out);

/* ---- functions.c, lang_ops.c: rows that expr.c runs ------------------- */

extern const struct call_fn call_functions[];
extern const size_t call_nfunctions;
/* Any op of ir/ops.def by its name; its row has what it may be given. */
extern const struct call_fn call_op;

/* ---- lang_weights.c --------------------------------------------------- */

/* The argument `dtype = ...`, if there is one; false after reporting. */
bool call_dtype(struct fe_call *c, enum ir_dtype *dtype);
/*
 * A weight (or state) node named by the call's @ and a suffix; 0 after
 * reporting.  `init` is how it starts if the call has no `init =`; a bias
 * always starts so.
 */
value_id call_weight(struct fe_call *c, enum ir_op op, const char *suffix,
		     const struct ir_type *type, const char *init);
/* Appends dims to a weight's type; it may have each only once. */
bool call_add_dims(struct fe_call *c, struct ir_type *t, const dim_id *d,
		   uint32_t n);
/* `tied = "name"`: the weight of type `want` that an earlier call made. */
value_id call_tied_weight(struct fe_call *c, const struct ast_expr *e,
			  const struct ir_type *want);

/* ---- lang_loss.c ------------------------------------------------------ */

/* cross_entropy(logits, labels, counts, total, ignore = index) */
bool call_cross_entropy(struct fe_call *c, value_id *out);

#endif

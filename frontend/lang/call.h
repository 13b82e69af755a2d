/*
 * A call's arguments, sorted by what they are.  call.c sorts them, lang_ops.c
 * knows the ops, functions.c and linear.c hold what is more than an op:
 * functions that make weights, or several nodes.
 */
#ifndef FRONTEND_CALL_H
#define FRONTEND_CALL_H

#include "frontend/lang/lower.h"

struct call {
	struct lower *l;
	const struct ast_expr *e;
	const char *name;
	value_id args[IR_MAX_ARGS];
	struct span arg_at[IR_MAX_ARGS];
	uint32_t nargs;
	/* before the arrow, and behind it */
	dim_id dims[IR_MAX_DIMS], to[IR_MAX_DIMS];
	struct span dim_at[IR_MAX_DIMS], to_at[IR_MAX_DIMS];
	uint32_t ndims, nto;
	const char *named, *flags;	/* words it takes, space separated */
	uint32_t flag_bits;		/* bit k: the k-th word of flags */
};

/* How many of each a function, an op or a layer takes. */
struct call_takes {
	uint32_t min_args, max_args;
	uint32_t min_dims, max_dims;	/* before the arrow */
	uint32_t min_to, max_to;	/* behind it */
	const char *usage;		/* how it is written */
};

/* One row per function. */
struct call_fn {
	const char *name;
	struct call_takes takes;
	bool weights;			/* takes `@` */
	bool many;			/* one result per dim behind it */
	const char *named, *flags;
	bool (*run)(struct call *c, value_id *out);
};

/* ---- call.c ----------------------------------------------------------- */

bool call_has_flag(const struct call *c, const char *word);
/* The argument `word = ...`, or NULL. */
const struct ast_expr *call_named(const struct call *c, const char *word);
bool call_has_dim(const dim_id *list, uint32_t n, dim_id d);
/* Sorts the arguments by c->named and c->flags, and counts them. */
bool call_sort(struct call *c, const struct call_takes *t);
/* `dim` or `(dim, dim)`, each once; false after reporting. */
bool call_dims(struct call *c, const struct ast_expr *e, dim_id *list,
	       uint8_t *n);
/* A number that must be above 0. */
bool call_positive(struct call *c, const struct ast_expr *e,
		   const char *what, double *out);

/* ---- lang_ops.c --------------------------------------------------------- */

bool call_op(struct call *c, enum ir_op op, value_id *out);

/* ---- functions.c ------------------------------------------------------ */

extern const struct call_fn call_functions[];
extern const size_t call_nfunctions;

/* The argument `dtype = ...`, if there is one; false after reporting. */
bool call_dtype(struct call *c, enum ir_dtype *dtype);
/*
 * A weight (or state) node named by the call's @ and a suffix.  What the call
 * says of its weight's start does not hold for the bias, which is zero.
 */
value_id call_weight(struct call *c, enum ir_op op, const char *suffix,
		     const struct ir_type *type, const char *init);
/* Appends dims to a weight's type, each of which it has once. */
bool call_add_dims(struct call *c, struct ir_type *t, const dim_id *d,
		   uint32_t n);
value_id call_cast(struct call *c, value_id v, enum ir_dtype dtype);
/* Says so if operand i is an index, where numbers are expected. */
bool call_takes_number(struct call *c, uint32_t i);

/* ---- dropout.c -------------------------------------------------------- */

bool call_dropout(struct call *c, value_id *out);

/* ---- linear.c --------------------------------------------------------- */

bool call_linear(struct call *c, value_id *out);

#endif

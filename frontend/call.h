/*
 * A call's arguments, sorted by what they are; shared by call.c, which sorts
 * them and knows ops and layers, and functions.c, which holds what is more
 * than an op: functions that make weights, or several nodes.
 */
#ifndef FRONTEND_CALL_H
#define FRONTEND_CALL_H

#include "frontend/lower.h"

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

extern const struct call_fn call_functions[];
extern const size_t call_nfunctions;

bool call_has_flag(const struct call *c, const char *word);
/* The argument `word = ...`, or NULL. */
const struct ast_expr *call_named(const struct call *c, const char *word);
/* `dim` or `(dim, dim)`, each once; false after reporting. */
bool call_dims(struct call *c, const struct ast_expr *e, dim_id *list,
	       uint8_t *n);
const struct ir_attr *call_attr(const struct ir_new *n,
				enum ir_attr_key key);
/* functions.c: what attributes of an op must be beside each other. */
bool call_check_op(struct call *c, const struct ir_new *n);
/* A number that must be above 0. */
bool call_positive(struct call *c, const struct ast_expr *e,
		   const char *what, double *out);

#endif

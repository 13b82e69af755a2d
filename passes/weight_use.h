/* Private header of the summary and of optimize: what a weight is used for. */
#ifndef PASSES_WEIGHT_USE_H
#define PASSES_WEIGHT_USE_H

#include "passes/pass.h"

struct pass_use {
	uint32_t bits;		/* enum use of weight_use.c */
	int64_t picked, of;	/* one token uses `picked` of `of` experts */
	/* a contraction that reads it, and as which operand; 0: none does */
	node_id product;
	uint32_t operand;
};

/* A weight as matrices, one for each index of the dims that are in neither. */
struct pass_matrix {
	dim_id rows[IR_MAX_DIMS], cols[IR_MAX_DIMS];
	uint8_t nrows, ncols;
};

/* By value, in ctx->tmp.  `tokens` is the type of the model's token input. */
struct pass_use *pass_uses(struct ir_module *m, const struct ir_type *tokens);
enum pass_group pass_group_of(const struct pass_use *u);
/*
 * Whether a weight of type t is a matrix of a layer inside the model: it is
 * contracted, not looked up, and not the head.
 */
bool pass_is_matrix(const struct ir_module *m, const struct pass_use *u,
		    const struct ir_type *t, struct pass_matrix *out);

#endif

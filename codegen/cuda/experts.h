/*
 * Contractions whose matrix an index chooses, between the files of experts*.c.
 *
 * What an expert is chosen for is a pair: a token and one of its choices.
 * First steps sort pairs by expert, in their order; then those of an expert
 * are a contraction like others, whose rows are picked by a list.
 */
#ifndef CODEGEN_CUDA_EXPERTS_H
#define CODEGEN_CUDA_EXPERTS_H

#include "codegen/cuda/dot.h"

/* Dims that are counted by one number, the last fastest. */
struct cu_counted {
	uint32_t n;
	int64_t size;
	struct {
		int64_t size;
		int64_t stride[2];	/* in the operands of `dot` */
		int64_t index;		/* in the index */
		int64_t out;		/* in the result */
		int at;			/* place in the result's type, or -1 */
	} at[IR_MAX_DIMS];
};

struct cu_experts {
	struct cu_dot dot;	/* a row, or a column, is operand 0's */
	struct ir_rule rule;
	const struct ir_type *types[2];	/* of the operands */
	const struct ir_type *chosen;	/* the index's type */
	uint32_t index;		/* operand */
	/* pairs; rows of each: dims beside them that have the same expert */
	struct cu_counted pairs, rows;
	dim_id of;
	uint32_t cut, spread;	/* of `of` */
	int64_t n;		/* experts that are here */
	bool others;		/* pairs of other experts make zeros */
	int64_t most;		/* rows of a block */
	/* i32 in shared room, bytes; by expert, the last for those elsewhere */
	int64_t first;		/* its first pair in `order`; one more */
	int64_t block;		/* its first block of rows; one more */
	int64_t order;		/* pairs, sorted */
	int64_t counts;		/* by block of the steps that sort */
	int64_t sorters;	/* such blocks */
};

/* ---- experts.c ---------------------------------------------------------- */

/* C text: a list in shared room, const i32 *. */
const char *cu_experts_list(struct cu_func *f, int64_t list);
/* C text, i64: elements from 0 to int pair `p` and row `in` of it, in an
 * operand, or in the result (2). */
const char *cu_experts_at(struct arena *a, const struct cu_experts *x,
			  int which);

/* ---- experts_sort.c ----------------------------------------------------- */

void cu_experts_sort(struct cu_experts *x);

/* ---- experts_at.c, experts_to.c: dot_at, dot_to -------------------------- */

/* Factors, tile and blocks. False: something is empty, or no tile does. */
bool cu_experts_plan_at(struct cu_experts *x);
bool cu_experts_plan_to(struct cu_experts *x);
/* The step behind sorting. */
bool cu_experts_at_step(struct cu_experts *x);
bool cu_experts_to_step(struct cu_experts *x);

#endif

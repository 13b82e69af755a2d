/*
 * Contractions whose matrix an index chooses, between the files of experts*.c.
 *
 * What an expert is chosen for is a pair: a token and one of its choices.
 * First steps sort pairs by expert, in their order; then those of an expert
 * are a contraction like others, whose rows are picked by a list.
 */
#ifndef CODEGEN_CUDA_EXPERTS_H
#define CODEGEN_CUDA_EXPERTS_H

#include "codegen/cuda/dot/cuda_dot.h"
#include "codegen/experts/experts.h"

struct cu_experts {
	struct cu_dot dot;
	struct cg_picks p;
	bool to;		/* dot_to; else dot_at */
	struct cu_ways ways;
	int64_t most;		/* rows of a block */
	/* i32 in shared room, bytes; by expert, the last for those elsewhere */
	int64_t first;		/* its first pair in `order`; one more */
	int64_t block;		/* its first block of rows; one more */
	int64_t order;		/* pairs, sorted */
	int64_t counts;		/* by block of the steps that sort */
	int64_t sorters;	/* such blocks */
};

/* ---- cuda_experts_plan.c ------------------------------------------------ */

/* Factors, tile and blocks. False: something is empty, or no tile does. */
bool cu_experts_plan(struct cu_experts *x);

/* ---- cuda_experts_sort.c ------------------------------------------------ */

void cu_experts_sort(struct cu_experts *x);
/* C text: a list in shared room, const i32 *. */
const char *cu_experts_list(struct cu_func *f, int64_t list);
/* C text, i64: elements from 0 to int pair `p` and row `in` of it, in an
 * operand, or in the result (2). */
const char *cu_experts_at(struct arena *a, const struct cu_experts *x,
			  int which);

/* ---- cuda_experts_at.c, cuda_experts_to.c: dot_at, dot_to --------------- */

/* The step behind sorting. */
bool cu_experts_at_step(struct cu_experts *x);
bool cu_experts_to_step(struct cu_experts *x);

#endif

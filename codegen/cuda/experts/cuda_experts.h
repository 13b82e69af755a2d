/*
 * Contractions with experts as CUDA C, for the files of codegen/cuda/experts/
 * alone; cuda.h has what others call.
 *
 * First steps sort pairs (a token and one of its choices) by expert, in their
 * order.  Then the rows of an expert are contracted as usual, but read through
 * a list.
 */
#ifndef CODEGEN_CUDA_EXPERTS_H
#define CODEGEN_CUDA_EXPERTS_H

#include "codegen/cuda/dot/cuda_dot.h"
#include "codegen/experts/experts.h"

struct cu_experts {
	struct cu_dot dot;
	struct cg_picks p;
	bool to;		/* dot_to; else dot_at */
	struct cu_candidates candidates;
	int64_t most;		/* most rows of a block */
	/* lists of i32: bytes in shared scratch.  By expert; the last entry
	 * counts experts on other ranks: */
	int64_t first;	/* its first pair in `order`, and one entry more */
	int64_t block;	/* its first block of rows, and one entry more */
	int64_t order;		/* sorted pairs */
	/* pairs of each expert, by block of the sorting steps */
	int64_t counts;
	int64_t sorters;	/* blocks of the sorting steps */
};

/* ---- cuda_experts_plan.c ------------------------------------------------ */

/* Finds factors, tile and blocks.  False: something is empty, or no tile
 * fits. */
bool cu_experts_plan(struct cu_experts *x);

/* ---- cuda_experts_sort.c ------------------------------------------------ */

void cu_experts_sort(struct cu_experts *x);
/* C text: a list in shared scratch, const i32 *. */
const char *cu_experts_list(struct cu_func *f, int64_t list);
/* C text, i64: offset in elements of pair `p` and its row `in` (int variables),
 * in operand `which`, or in the result (2). */
const char *cu_experts_at(struct arena *a, const struct cu_experts *x,
			  int which);

/* ---- cuda_experts_at.c, cuda_experts_to.c: dot_at, dot_to --------------- */

/* Emits the step after sorting. */
bool cu_experts_at_step(struct cu_experts *x);
/* What the epilogue of dot_at costs, on a row. */
struct cu_nest_cost cu_experts_row_cost(const struct cu_experts *x);
bool cu_experts_to_step(struct cu_experts *x);

#endif

/*
 * Attention for sm_90a, between attention90*.c.  A block has three warpgroups:
 * one copies, two multiply, 64 rows each.
 */
#ifndef CODEGEN_CUDA_ATTENTION90_H
#define CODEGEN_CUDA_ATTENTION90_H

#include "codegen/cuda/attention/cuda_attention.h"

#define CA90_ROWS 128
#define CA90_GROUP_ROWS 64	/* of a warpgroup */
#define CA90_FEW 64		/* rows that do not fill tiles */
#define CA90_BOX_COLS 64
#define CA90_BOX_ROW 128	/* bytes */
#define CA90_PRODUCER 128	/* threads */
#define CA90_CONSUMERS 256

/* An operand in global memory, and a tile of it in shared memory. */
struct ca_side {
	struct cg_map map;
	uint32_t number;		/* of the map */
	bool keys;			/* its places are keys' */
	int64_t at, bytes, rows, cols;
	int64_t chunks;			/* boxes of a tile, by columns */
};

/* False: the copying unit cannot read input `in`. */
bool ca_side_of(const struct attn *t, uint32_t in, int64_t rows,
		struct ca_side *x);
/* Orders the boxes of a tile whose first row is at place `pos`, of `head` or
 * `kv` and `bat`, to byte `to`; barrier `bar` counts them (C text). */
void ca_side_load(struct cu_func *f, const struct attn *t,
		  const struct ca_side *x, const char *to, const char *bar,
		  const char *pos);

/* Columns of results as a product has them, at least so many. */
int64_t ca_wide(int64_t cols);
/* sum[1][][4] = x y^T, by descriptors of where these are; and commits. */
void ca_wg_pairs(struct cu_func *f, const struct attn *t, const char *sum,
		 const struct ca_side *x, const char *x_at,
		 const struct ca_side *y, const char *y_at);
/* sum += w y, where w[][4] is in registers, and y's rows are not dense. */
void ca_wg_on(struct cu_func *f, const struct attn *t, const char *sum,
	      int64_t cols, const char *w, const struct ca_side *y,
	      const char *y_at);
/* All but so many groups of products are done; those of `sum` are. */
void ca_wg_wait(struct cu_func *f, int behind, const char *sum,
		int64_t cols);
/* What is made of sums is made here: compilers would rather make it behind the
 * next wait, when no product goes on beside it. */
void ca_wg_pin(struct cu_func *f, const char *sum, int64_t cols);
/* What a thread has of sums s is what it has of a left operand w. */
void ca_wg_pack(struct cu_func *f, const struct attn *t, const char *w,
		const char *s, int64_t cols);

#endif

/*
 * Attention for sm_90a and sm_100a, for the files cuda_attention90*.c.  A block
 * has three warpgroups: one copies, two multiply, 64 rows each; on sm_100a one
 * thread of the first multiplies.
 */
#ifndef CODEGEN_CUDA_ATTENTION90_H
#define CODEGEN_CUDA_ATTENTION90_H

#include "codegen/cuda/attention/cuda_attention.h"

#define CA90_ROWS 128
#define CA90_GROUP_ROWS 64	/* rows of a warpgroup */
#define CA90_FEW 64		/* so few rows do not fill tiles */
#define CA90_BOX_COLS 64
#define CA90_BOX_ROW 128	/* bytes */
#define CA90_PRODUCER 128	/* threads */
#define CA90_CONSUMERS 256

/* An operand in global memory, and a tile of it in shared memory. */
struct ca_side {
	struct cg_map map;
	uint32_t number;		/* index of the map */
	bool keys;			/* its rows are keys */
	int64_t at, bytes, rows, cols;
	int64_t chunks;			/* boxes of a tile, along columns */
};

/* Finds input `in`.  False: the copying unit cannot read it. */
bool ca_side_of(const struct attn *t, uint32_t in, int64_t rows,
		struct ca_side *x);
/* Emits the copies of a tile whose first row is at `pos`, of `head` or `kv` and
 * `bat`, to byte `to`; they arrive at barrier `bar` (C text). */
void ca_side_load(struct cu_func *f, const struct attn *t,
		  const struct ca_side *x, const char *to, const char *bar,
		  const char *pos);

/* Declares `group`: of which of the warpgroups that multiply a thread is. */
void ca90_declare_group(struct cu_func *f);

/* Bytes that blocks may read or write again and again before those of other
 * heads begin: they stay in the L2 cache. */
int64_t ca90_cached_bytes(const struct attn *t);
/* Offset of columns 16 i in a descriptor, in units of 16 bytes. */
long long ca_side_column(const struct ca_side *x, int64_t i);
/* C text: the type of tiles, as functions of the prelude are named by it. */
const char *ca_type(const struct attn *t);
/* Columns of a product with at least so many columns. */
int64_t ca_wide(int64_t cols);
/* Emits sum[1][][4] = x y^T, for descriptors x_at and y_at, and commits. */
void ca_wg_pairs(struct cu_func *f, const struct attn *t, const char *sum,
		 const struct ca_side *x, const char *x_at,
		 const struct ca_side *y, const char *y_at);
/* Emits sum += w y, where w[][4] is in registers, and y is transposed;
 * commits. */
void ca_wg_on(struct cu_func *f, const struct attn *t, const char *sum,
	      int64_t cols, const char *w, const struct ca_side *y,
	      const char *y_at);
/* Waits until all but `behind` groups of products are done; those of `sum`
 * are. */
void ca_wg_wait(struct cu_func *f, int behind, const char *sum,
		int64_t cols);
/* Uses of sums stay after this place: the compiler would move them after the
 * next wait, where no product overlaps with them. */
void ca_wg_pin(struct cu_func *f, const char *sum, int64_t cols);
/* Packs sums s to the left operand w of the next product: the same thread has
 * the same elements of both. */
void ca_wg_pack(struct cu_func *f, const struct attn *t, const char *w,
		const char *s, int64_t cols);

/* ---- cuda_attention90_lanes.c: tensor memory ---------------------------- */

#define CA_TC_COLUMNS 512	/* all there are */
#define CA_TC_AT_ONCE 32	/* columns that a warp loads or stores */
/* Registers of a thread that copies or multiplies, and of one that has rows:
 * 128 and 256 threads have 64512 of 65536.  The assembler for sm_103a needs
 * more than 56 for what issues products of wide heads. */
#define CA_TC_FEWER 72
#define CA_TC_MORE 216
#define CA_TC_NEXT_ROWS "(16 << 16)"	/* 16 lanes further, in an address */

/* Emits the allocation of all columns by warp 1, with a barrier of the block,
 * and declares their address, `all`, which passes through the shared memory at
 * `at` (C text), its byte `byte`; and what frees them at the block's end. */
void ca_tc_open(struct cu_func *f, const char *at, int64_t byte);
void ca_tc_close(struct cu_func *f);
/* Declares the form of a product with so many columns; `across`: its right
 * operand is transposed. */
void ca_tc_form(struct cu_func *f, const struct attn *t, const char *name,
		int64_t cols, bool across);
/* Emits sum = x y^T, for descriptors x_at and y_at, in the form `pairs`. */
void ca_tc_pairs(struct cu_func *f, const char *sum, const struct ca_side *x,
		 const char *x_at, const struct ca_side *y, const char *y_at);
/* Emits sum += w y, or sum = w y where `more` (C text) is 0; w is in tensor
 * memory, and y is transposed. */
void ca_tc_on(struct cu_func *f, const char *sum, const char *w,
	      const struct ca_side *y, const char *y_at, const char *form,
	      const char *more);
/* Emits loads of to[cols / 8][4] from 16 lanes at `at`, before tc_wait. */
void ca_tc_load(struct cu_func *f, const char *to, const char *at,
		int64_t cols);
/* Emits stores of s[cols / 8][4] as 16-bit elements to 16 lanes at `at`, before
 * tc_wait_st. */
void ca_tc_store(struct cu_func *f, const struct attn *t, const char *at,
		 const char *s, int64_t cols);
/* A warp arrives at mbarrier `bar`: all its lanes have loaded and stored what
 * others wait for. */
void ca_tc_arrive(struct cu_func *f, const char *bar);

#endif

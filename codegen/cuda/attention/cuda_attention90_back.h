/*
 * The gradients of attention with the copying unit, for cuda_attention90_back.c
 * (wgmma, sm_90a) and cuda_attention90_back_tensor.c (tcgen05, sm_100a).  Tiles
 * of rows, the ring of columns, what is copied and loaded, weights and results
 * are the same; what multiplies differs.
 */
#ifndef CODEGEN_CUDA_ATTENTION90_BACK_H
#define CODEGEN_CUDA_ATTENTION90_BACK_H

#include "codegen/cuda/attention/cuda_attention90.h"
#include "codegen/cuda/attention/cuda_attention_back.h"

/* Threads that load numbers of columns: the first of the warpgroup, or, with
 * tcgen05, the last. */
#define CA90_BRINGERS 64

/* What a generation of tensor cores has. */
struct ca90_back_unit {
	bool tensor;		/* sums lie in tensor memory */
	int64_t cols[2];	/* columns of a tile, the first that fit */
	int64_t wide, values;	/* the most columns of d and of v */
	int64_t arrivals;	/* that free a stage */
	int64_t bars;		/* bytes of barriers */
	double reached[2];	/* share of mma's rate, by columns */
};

struct ca90_back {
	struct ca_back s;
	const struct ca90_back_unit *unit;
	struct ca_side x[2], y[2];	/* tiles of rows; tiles of columns */
	/* With tcgen05 tiles 1 have a ring of their own, whose stage is
	 * `stage1` in the text. */
	int64_t stages1;
	int64_t ring, numbers, bars;	/* bytes, in shared memory */
	int64_t step[2];	/* bytes from a stage to the next */
};

/* ---- cuda_attention90_back_ring.c --------------------------------------- */

/* Bytes of the numbers of a stage's columns; 0 if they are keys. */
int ca90_back_numbers(const struct ca90_back *p);
/* Emits the loads of rows and of all columns, by threads of the first
 * warpgroup. */
void ca90_back_load(struct ca90_back *p);
/* C text: the stage of tile i of the columns of this iteration. */
const char *ca90_back_stage(const struct ca90_back *p, int i);
/* Declares a descriptor of tile i of the columns of stage `stage` (C text);
 * across: transposed. */
void ca90_back_tile(struct ca90_back *p, const char *name, int i,
		    const char *stage, bool across);
/* If columns are queries: declares `use`, the bytes to the numbers of `stage`;
 * and declares the columns of this iteration. */
void ca90_back_columns(struct ca90_back *p);
/* Waits until tile i of this iteration has arrived, and with tile 0 the
 * numbers; with wgmma, all of it. */
void ca90_back_wait(struct ca90_back *p, int i);

/* ---- cuda_attention90_back_tensor.c ------------------------------------- */

#define CA90_BACK_BARS 96	/* bytes of barriers of its own */

/* Emits, for one thread, barriers of its own; and the allocation, with a
 * barrier of the block. */
void ca90_back_bars(struct ca90_back *p);
void ca90_back_open(struct ca90_back *p);
/* What the thread that multiplies does; and what the warps with rows do. */
void ca90_back_multiply(struct ca90_back *p);
bool ca90_back_weigh(struct ca90_back *p);

#endif

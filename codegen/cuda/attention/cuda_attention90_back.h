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
	/*
	 * With all three gradients, where, in bytes: dS of a tile, twice, and
	 * the parts of DQ of two tiles, in shared memory; all of DQ, and the
	 * number of key blocks that have added to each tile, in shared
	 * scratch.
	 */
	bool joint;
	/* A block has two blocks of keys, `half' 0 and 1 in the text, and
	 * begins the second one at the last tile of queries. */
	bool paired;
	struct cost_joint how;
	int64_t first;		/* the launch's first head of keys */
	int64_t late;		/* of paired: the first tile of half 0 */
	int64_t slopes, part;
	int64_t sums, counts, ticket;
};

/* With all three gradients: tiles of queries of a head; f32 sums of one. */
static inline int64_t
ca90_joint_tiles(const struct ca90_back *p)
{
	return ca_ceil_div(p->s.t->queries, p->s.form.cols);
}

/* The same of which there are two sums, from tile `late' on. */
static inline int64_t
ca90_joint_again(const struct ca90_back *p)
{
	return p->paired ? ca90_joint_tiles(p) - p->late : 0;
}

static inline int64_t
ca90_joint_elems(const struct ca90_back *p)
{
	return p->s.form.cols * p->s.out_slope;
}

/* ---- cuda_attention90_back_ring.c --------------------------------------- */

/* Bytes of the numbers of a stage's columns; 0 if they are keys. */
int ca90_back_numbers(const struct ca90_back *p);
/* Emits the loads of rows and of all columns, by threads of the first
 * warpgroup. */
void ca90_back_load(struct ca90_back *p);
/* Opens a loop over iterations `it` of the columns.  With pairs `it` is
 * declared already, and goes on in the second half: beside a number of those in
 * earlier halves the threads that load would have too few registers. */
void ca90_back_each(struct ca90_back *p);
/* C text: which iteration it is, with pairs, of its half. */
const char *ca90_back_it(const struct ca90_back *p);
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

/* ---- cuda_attention90_joint.c: all three gradients ---------------------- */

#define CA90_JOINT_PARTS 2	/* of DQ in shared memory */
/* Bytes: a block's number, and two barriers for each part. */
#define CA90_JOINT_BARS (16 + 16 * CA90_JOINT_PARTS)

/* Declares barriers of its own, and has one thread initialise them; then takes
 * the block's number and declares it, with a barrier of the block or
 * cluster. */
void ca90_joint_declare(struct ca90_back *p);
void ca90_joint_bars(struct ca90_back *p);
void ca90_joint_open(struct ca90_back *p);
/* Declares where the block is; with pairs, which halves it has. */
void ca90_joint_place(struct ca90_back *p);
/* With pairs, declares `it`, opens the loop over halves, and declares where one
 * is; closes it: all threads meet, since results have passed through what is
 * loaded next. */
void ca90_joint_open_half(struct ca90_back *p);
void ca90_joint_close_half(struct ca90_back *p);
/* What the threads that add to DQ do, one for each part. */
void ca90_joint_add(struct ca90_back *p);
/* A warpgroup with rows: declares `keys`, the right operand of the product for
 * its columns of DQ; clears weights of rows behind the last key, since that
 * product sums over rows; shares dS, packed in `q`, and issues the product;
 * and stores what it made. */
void ca90_joint_keys(struct ca90_back *p);
void ca90_joint_mask(struct ca90_back *p);
void ca90_joint_share(struct ca90_back *p);
void ca90_joint_put(struct ca90_back *p);

/* ---- cuda_attention90_back.c -------------------------------------------- */

/* Whether these kernels can do it: decides how it is cut up. */
bool ca90_back_suits(struct ca90_back *p);
/* Emits the step. */
bool ca90_back_emit(struct ca90_back *p);

#endif

/*
 * Attention forward with the copying unit, for cuda_attention90_forward.c
 * (wgmma, sm_90a) and cuda_attention90_tensor.c (tcgen05, sm_100a).  Items,
 * rings of keys and values, the warp that copies, and what becomes of scores
 * and results are the same; what multiplies differs.
 */
#ifndef CODEGEN_CUDA_ATTENTION90_FORWARD_H
#define CODEGEN_CUDA_ATTENTION90_FORWARD_H

#include "codegen/cuda/attention/cuda_attention90.h"
#include "codegen/cuda/attention/cuda_attention_forward.h"

#define CA90_STAGES 2

/* What a generation of tensor cores has. */
struct ca90_unit {
	bool tensor;		/* sums lie in tensor memory */
	int64_t part;		/* rows of a warpgroup */
	int64_t tiles;		/* tiles of 16 rows of a warp */
	int64_t arrivals;	/* that free a stage */
	double reached[2];	/* of 128 keys, and of 64 */
};

struct ca90_forward {
	struct ca_forward s;
	const struct ca90_unit *unit;
	struct ca_side side[3];		/* ATTN_Q, ATTN_K, ATTN_V */
	int64_t bars;			/* bytes, in shared memory */
	/* Sums are staged beside the tiles, and a block takes several items;
	 * else there is no space for both. */
	bool lasts;
	int64_t items, blocks, heads;	/* heads of a section */
	bool takes;			/* blocks take items from a counter */
};

/* ---- cuda_attention90_items.c ------------------------------------------- */

/* How items are ordered and given to blocks: sets items, blocks and heads. */
void ca90_share_out(struct ca90_forward *p);
/*
 * Opens the loop over a block's items, and declares where one is: head, bat,
 * row0, live, kv, its keys, and tiles of them.  First for the warp that copies,
 * of which lane 0 goes on, and closes that; then for other warps, which wait
 * for the queries before they read them.  `turn` is the phase of the queries.
 */
void ca90_open_taking(struct ca90_forward *p);
void ca90_close_taking(struct ca90_forward *p);
void ca90_open_items(struct ca90_forward *p);
void ca90_wait_queries(struct ca90_forward *p);
/* Says which item it is, once the queries' place is free. */
void ca90_say_item(struct ca90_forward *p);
/* A warp is done with the queries. */
void ca90_free_queries(struct ca90_forward *p);
/* C text: a barrier of ring `in` and its stage `stage`; and the stage itself.
 * Queries have one stage. */
const char *ca90_bar(struct ca90_forward *p, uint32_t in, bool empty,
		     const char *stage);
const char *ca90_place(struct ca90_forward *p, uint32_t in, const char *stage);
/* C text: the stage of tile `tile` of this item; `slot` tiles came before the
 * item. */
const char *ca90_stage_of(struct ca90_forward *p, const char *tile);
/* Waits until the copies of tile `tile` have arrived. */
void ca90_wait_full(struct ca90_forward *p, uint32_t in, const char *tile);
/* Results of an item, once tiles are done with: they may take their place. */
bool ca90_put_results(struct ca90_forward *p);

/* ---- cuda_attention90_weigh.c ------------------------------------------- */

/* Declares what a row's weights are relative to, after ca_forward_begin(). */
void ca90_weigh_begin(struct ca90_forward *p);
/* Turns products of the keys from key0 on into weights, and adds these up.
 * Where sums of values are to be rescaled `rises` is set, and `fades`, by what;
 * first: there are none yet, and neither is `rises`. */
void ca90_weigh(struct ca90_forward *p, bool first);

/* ---- cuda_attention90_tensor.c ------------------------------------------ */

/* Emits, for one thread, barriers of its own; and the allocation, with a
 * barrier of the block. */
void ca90_tensor_bars(struct ca90_forward *p);
void ca90_tensor_open(struct ca90_forward *p);
/* What the thread that multiplies does; and a warpgroup with its rows. */
void ca90_tensor_multiply(struct ca90_forward *p);
bool ca90_tensor_weigh(struct ca90_forward *p);

#endif

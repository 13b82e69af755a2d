/*
 * What flows back through attention, between cuda_attention_back.c, which has
 * it for any device, and cuda_attention90_back.c, which has it for sm_90a:
 * which columns are looked at, weights and slopes, and what becomes of sums
 * are the same text.
 */
#ifndef CODEGEN_CUDA_ATTENTION_BACK_H
#define CODEGEN_CUDA_ATTENTION_BACK_H

#include "codegen/cuda/attention/cuda_attention.h"

struct ca_back {
	struct attn *t;
	struct cu_func f;
	struct ca_form form;
	bool keys;			/* rows are keys */
	bool slope, weight;		/* DQ or DK is made; DV */
	int64_t out_slope, out_weight;	/* columns of them in a block */
	int64_t out_blocks;
	struct ca_tile x0, x1;		/* of rows: q or k, dout or v */
	struct ca_tile y0, y1;		/* of columns: k or q, v or dout */
	struct ca_tile z;		/* y0's or y1's block of columns,
					 * where these are in chunks */
	int64_t lse, delta, from, to;	/* of columns: bytes from a stage */
	int64_t stage;			/* bytes from one to the next */
	int64_t pass, rows, blocks, smem;
	int64_t threads;		/* that have sums */
	const char *thread, *meet;	/* C text: one's number; they meet */
};

/* Multiplications of a query and a key: S, dP unless values alone are made,
 * and what is made of both. */
static inline int64_t
ca_back_products(const struct ca_back *s)
{
	return s->t->d + (s->slope ? s->t->d + s->t->dv : 0) +
	       (s->weight ? s->t->dv : 0);
}

/* ---- cuda_attention_back.c ---------------------------------------------- */

/* The grid, and words about it. */
void ca_back_open(struct ca_back *s);
/* Declares head or kv, bat, row0, live, and kv of a head. */
void ca_back_place(struct ca_back *s);
/* Declares begin, tiles, and count: tiles of all heads, from head0 on. */
void ca_back_columns(struct ca_back *s);
/* Rows that are queries: declares what a thread's have of their own. */
void ca_back_rows(struct ca_back *s);
/* Columns that are queries: threads bring to stage `into` what these have of
 * their own. */
void ca_back_numbers(struct ca_back *s);
/* Declares where the columns of turn `it` (C text) are; to be loaded, or used
 * from shared memory, by `use`. */
void ca_back_tile(struct ca_back *s, const char *it, bool loaded);
/* Declares sums: dx, dv. */
void ca_back_begin(struct ca_back *s);
/* Scores s become weights; and times what flows into them, ds less what each
 * query has, what flows back. */
void ca_back_weigh(struct ca_back *s);
void ca_back_slope(struct ca_back *s);
/* Behind the last tile. */
bool ca_back_put(struct ca_back *s);

/* The form of the best way by mma; NULL: none is better than what was taken
 * before. */
const struct ca_form *ca_back_choose(struct ca_back *s, struct cu_ways *w);
/* The step of that form. */
bool ca_back_emit(struct ca_back *s, const struct ca_form *form);

/* ---- cuda_attention90_back.c -------------------------------------------- */

/* Whether there is a way by wgmma, and it is the choice so far. */
bool ca_back90_way(const struct ca_back *asked, struct cu_ways *w);
bool ca_back90(const struct ca_back *asked);

#endif

/*
 * The gradients of attention: what cuda_attention_back.c (mma, any
 * architecture) and cuda_attention90_back.c (wgmma, sm_90a) share.  Which
 * columns are read, how weights and gradients of scores are computed, and what
 * becomes of sums is the same text.
 */
#ifndef CODEGEN_CUDA_ATTENTION_BACK_H
#define CODEGEN_CUDA_ATTENTION_BACK_H

#include "codegen/cuda/attention/cuda_attention.h"

struct ca_back {
	struct attn *t;
	struct cu_func f;
	struct ca_form form;
	bool keys;
	bool slope, weight;		/* it makes DQ or DK; it makes DV */
	int64_t out_slope, out_weight;	/* columns of these in a block */
	int64_t out_blocks;
	struct ca_tile x0, x1;		/* tiles of rows: q or k; dout or v */
	struct ca_tile y0, y1;	/* tiles of columns: k or q; v or dout */
	/* with chunks: the block's columns of y0 or y1 */
	struct ca_tile z;
	/* numbers of each column: bytes from a stage's start */
	int64_t lse, delta, from, to;
	int64_t stage;			/* bytes of a stage */
	int64_t pass, rows, blocks, smem;
	/* blocks of a cluster, each with as many of a kv head's heads, whose
	 * sums are added in the end; 1: a block has them all */
	int64_t apart;
	int64_t gather;		/* with apart: bytes, where rows are added */
	int64_t threads;		/* threads that multiply */
	/* C text: a thread's number; synchronizes these threads */
	const char *thread, *meet;
	/* C text, if columns have numbers and several are one thread's: its
	 * first one, and how far apart they are; NULL: column TID */
	const char *loads;
	int64_t loaders;
	/* Those that load numbers of columns store an lse in powers of 2, and
	 * not those that use it, of which there are more. */
	bool scales;
	const char *nth;	/* C text: counts a head's tiles; or NULL */
	bool turns;	/* in half 1 (C text) the last tiles come first */
};

/* Multiplications for each pair of a query and a key: S; dP unless only values'
 * gradients are made; and the products with both. */
static inline int64_t
ca_back_products(const struct ca_back *s)
{
	return s->t->d + (s->slope ? s->t->d + s->t->dv : 0) +
	       (s->weight ? s->t->dv : 0);
}

/* ---- cuda_attention_back.c ---------------------------------------------- */

/* Sets the grid, and writes a comment about it. */
void ca_back_open(struct ca_back *s);
void ca_back_place(struct ca_back *s);
/* If rows are queries: declares kv. */
void ca_back_kv(struct ca_back *s);
/* Declares begin, tiles, and count, the tiles of all heads from head0 on. */
void ca_back_columns(struct ca_back *s);
/* If rows are queries: declares the numbers of a thread's queries (lse, delta,
 * range of keys). */
void ca_back_rows(struct ca_back *s);
/* If columns are queries: loads their numbers into stage `into`. */
void ca_back_numbers(struct ca_back *s);
/* Declares the columns of iteration `it` (C text): `loaded`, to be loaded; else
 * to be used from shared memory. */
void ca_back_tile(struct ca_back *s, const char *it, bool loaded);
/* C text: which tile of a head's columns iteration `it' has, and of which of
 * the block's heads. */
const char *ca_back_nth_tile(const struct ca_back *s, const char *it);
const char *ca_back_nth_head(const struct ca_back *s, const char *it);
void ca_back_begin(struct ca_back *s);
/* How often all threads of a cluster meet in ca_back_put. */
int ca_back_meetings(const struct ca_back *s);
/* Turns scores s into weights; and weights into gradients of scores, s * (ds -
 * delta). */
void ca_back_weigh(struct ca_back *s);
void ca_back_slope(struct ca_back *s);
/* After the last tile: what becomes of sums. */
bool ca_back_put(struct ca_back *s);

/* The form of the best candidate with mma; NULL: none is better than those
 * added before. */
const struct ca_form *ca_back_choose(struct ca_back *s,
				     struct cu_candidates *w);
/* Emits the step in that form. */
bool ca_back_emit(struct ca_back *s, const struct ca_form *form);

/* ---- cuda_attention90_back.c -------------------------------------------- */

/* Whether there is a candidate with wgmma or tcgen05. */
bool ca_back90_takes(const struct ca_back *asked);
/* Adds it.  False: there is none, or it is not the choice so far. */
bool ca_back90_candidate(const struct ca_back *asked, struct cu_candidates *w);
bool ca_back90(const struct ca_back *asked);

/* ---- cuda_attention90_joint_steps.c ------------------------------------- */

/* Whether one kernel makes all three gradients, and is predicted to take less
 * time than two. */
bool ca_back90_joint_pays(const struct ca_back *asked);
/* Emits its steps. */
bool ca_back90_joint(const struct ca_back *asked);

#endif

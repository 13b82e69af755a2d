/*
 * Attention forward of single queries, as of sequences that decode: a step that
 * lists them, one that computes their keys, and one that joins the parts.
 */
#ifndef CODEGEN_CUDA_ATTENTION_SINGLE_H
#define CODEGEN_CUDA_ATTENTION_SINGLE_H

#include "codegen/cuda/attention/cuda_attention_forward.h"

/*
 * An item is some parts of one query's keys, for heads of one kv head, which
 * are the rows of its tiles.  Each item of a query has a slot, with its numbers
 * of all heads.
 */
struct ca_single {
	struct ca_forward s;	/* of an item: `rows` heads */
	struct cost_single of;
	int64_t block;		/* queries of a block of the other form */
	bool always;		/* no query is in a block */
	/* Values are the first columns of keys, as of latents: `outs` warps
	 * have the same heads, share their scores, and have some columns
	 * each. */
	bool wide;
	int64_t scores;		/* bytes, in shared memory: where they do */
	int64_t units;		/* items for all heads of a kv head */
	int64_t outs;		/* parts of the columns of results */
	int64_t cols;		/* columns of results that a slot has */
	int64_t stages, stage_bytes;	/* tiles of keys and values */
	int64_t scratch;	/* bytes, in shared scratch; and in it: */
	struct cost_single_scratch in;
};

/* Items of one kv head, for each part of a query. */
static inline int64_t
ca_single_items_of_kv(const struct ca_single *x)
{
	return x->units * (x->wide ? 1 : x->outs);
}

/* C text: a pointer to what is at that byte of it. */
static inline const char *
ca_single_at(const struct ca_single *x, const char *type, int64_t at)
{
	return arena_printf(x->s.t->k->c->a, "((%s *)(a.shared + %lld))", type,
			    (long long)(x->scratch + at));
}

/* ---- cuda_attention_list.c ---------------------------------------------- */

void ca_single_list(struct ca_single *x);

/* ---- cuda_attention_single.c -------------------------------------------- */

/* Single queries beside blocks of s, which has its form.  NULL: they do not fit
 * shared memory, and all queries are in blocks. */
struct ca_single *ca_single_open(const struct ca_forward *s);
void ca_single_items(struct ca_single *x);

/* ---- cuda_attention_join.c ---------------------------------------------- */

/* Joins items of each query, and puts its results. */
bool ca_single_join(struct ca_single *x);

#endif

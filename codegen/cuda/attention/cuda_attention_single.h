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
 * of all heads.  What is listed is in shared scratch, at these bytes.
 */
struct ca_single {
	struct ca_forward s;	/* of an item: `rows` heads */
	int64_t block;		/* queries of a block of the other form */
	bool always;		/* no query is in a block */
	int64_t units;		/* items for all heads of a kv head */
	int64_t outs;		/* blocks that divide the columns of results */
	int64_t cols;		/* columns of results that a slot has */
	int64_t stages, stage_bytes;	/* tiles of keys and values */
	int64_t slots;
	int64_t nitems;		/* i32: how many there are, of one unit */
	int64_t items;		/* i32[slots][3]: query, its parts from, to */
	int64_t first;		/* i32[queries]: the first slot */
	int64_t count;		/* i32[queries]: slots; 0: it is in a block */
	int64_t sums;		/* f32[slots][heads][2]: largest score, sum */
	int64_t results;	/* f32[slots][heads][cols] */
};

/* C text: a pointer to what is listed there. */
static inline const char *
ca_single_at(const struct ca_single *x, const char *type, int64_t at)
{
	return arena_printf(x->s.t->k->c->a, "((%s *)(a.shared + %lld))", type,
			    (long long)at);
}

/* ---- cuda_attention_list.c ---------------------------------------------- */

/* Reserves shared scratch. */
void ca_single_place(struct ca_single *x);
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

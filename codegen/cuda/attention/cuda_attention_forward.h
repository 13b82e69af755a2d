/*
 * Attention forward: what cuda_attention_forward.c (mma, any architecture) and
 * cuda_attention90_forward.c (wgmma, sm_90a) share.  Which keys are read, how
 * scores become weights, and what becomes of sums is the same text.
 */
#ifndef CODEGEN_CUDA_ATTENTION_FORWARD_H
#define CODEGEN_CUDA_ATTENTION_FORWARD_H

#include "codegen/cuda/attention/cuda_attention.h"

struct ca_forward {
	struct attn *t;
	struct cu_func f;
	struct ca_form form;
	struct ca_tile q, k, v;
	int64_t rows, blocks, smem;
	int64_t threads;		/* threads that multiply */
	/* C text: a thread's number; synchronizes these threads */
	const char *thread, *meet;
	int64_t pass, lse;		/* bytes, in shared memory */
	int64_t stage;			/* the same, of sums */
	/* These threads put the results of `part` rows, the first of which is
	 * part `nth` (C text) of the block; NULL: the block has one part. */
	int64_t part;
	const char *nth;
	bool out;			/* it makes OUT; else LSE alone */
	bool raw;	/* scores are scaled only when they become weights */
	bool late;	/* sums are rescaled later, by `fades` */
	bool parts;	/* keys of a query are in parts */
	bool kept;	/* sums of all parts are in registers; else at `all` */
	int64_t all;	/* bytes, in shared memory: sums of all parts */
	bool heads;	/* rows are heads of one query */
};

/* Multiplications for each pair of a query and a key. */
static inline int64_t
ca_forward_products(const struct ca_forward *s)
{
	return s->t->d + (s->out ? s->t->dv : 0);
}

/* By what a score is multiplied when it becomes the exponent of a weight. */
static inline double
ca_forward_by(const struct ca_forward *s)
{
	return s->raw ? s->t->scale * CA_LOG2E : 1;
}

/* ---- cuda_attention_forward.c ------------------------------------------- */

struct ca_forward ca_forward_of(struct attn *t);
/* Sets the grid, and writes a comment about it. */
void ca_forward_open(struct ca_forward *s);
/* Declares head, bat, row0, live and, with sums, out0. */
void ca_forward_place(struct ca_forward *s);
/* Declares the keys that some query of the block sees (begin, end), and those
 * that all of them see (sure_from, sure_to). */
void ca_forward_keys(struct ca_forward *s);
/* Declares each row's largest score and sum of weights. */
void ca_forward_begin(struct ca_forward *s);
/* Makes of products, of the keys from key0 on, scores: biased, capped, and
 * CA_LEAST where a query does not see the key. */
void ca_forward_scores(struct ca_forward *s);
/* Turns products of the keys from key0 on into weights, relative to the largest
 * score so far. */
void ca_forward_weigh(struct ca_forward *s);
/* Declares `first`, the sink of `head`, in the unit of scores. */
void ca_forward_declare_sink(struct ca_forward *s);
/* Adds the sink, `first`, to a whole row: to its largest score, all_top, and
 * its sum, x.  Sets fade, by which results of the row are multiplied then. */
void ca_forward_add_sink(struct ca_forward *s);
/* C text: the unit of a row's largest score, in the natural logarithm. */
const char *ca_forward_unit(struct ca_forward *s);
/* After the last tile, when no thread reads tiles any more: what becomes of
 * sums. */
bool ca_forward_put(struct ca_forward *s);

/* The form of the best candidate with mma; NULL: none is better than those
 * added before. */
const struct ca_form *ca_forward_choose(struct ca_forward *s,
					struct cu_candidates *w);
/* Lays out the step in that form; false: it does not fit.  And emits it.  ends:
 * C text, whether a block has nothing to do; NULL: none has. */
bool ca_forward_lay_out(struct ca_forward *s, const struct ca_form *form);
bool ca_forward_emit(struct ca_forward *s, const char *ends);

/* ---- cuda_attention_parts.c --------------------------------------------- */

/* Parts have COST_PART keys, or 2, 4, 8 .. times as many.  The first one begins
 * at a multiple of CA_PART_UNIT keys. */
#define CA_PART_UNIT 128

/* Whether the keys of each query are in parts: in C text, of
 * ca_part_keys(range) keys each, if it sees keys in a range of so many from the
 * first part's start on. */
bool ca_has_parts(const struct attn *t);
/* Reserves shared memory at s->smem for sums of all parts, unless they
 * are kept. */
void ca_parts_place(struct ca_forward *s);
/* Declares a thread's sums of all parts; and sets them to those of none. */
void ca_parts_declare(struct ca_forward *s);
void ca_parts_begin(struct ca_forward *s);
/* Declares old_by and by, what sums so far and sums of a part are multiplied by
 * when they are added up, and top, the largest score: of `had` and `more`, the
 * largest scores of both.  by: as ca_forward_by. */
void ca_parts_join(struct cu_func *f, const struct attn *t, const char *by);
/* The part of each row ends: joins it, and begins another one.  And: replaces
 * sums of a part, of which there is none, by those of all. */
void ca_parts_next(struct ca_forward *s);
void ca_parts_take(struct ca_forward *s);
/* For a block of queries.  Before the loop over tiles; before a tile, joins
 * those rows whose next part begins at key0; after the loop, has sums of all
 * parts take the place of those of the last part, with sums of whole rows. */
void ca_parts_of_block(struct ca_forward *s);
void ca_parts_of_rows(struct ca_forward *s);
void ca_parts_end(struct ca_forward *s);

/* ---- cuda_attention_again.c --------------------------------------------- */

/* If values say which keys a query sees: replaces staged rows of OUT that are
 * not finite by what comes of the keys that they see alone.  All threads meet
 * before, and after. */
void ca_forward_again(struct ca_forward *s, const struct ca_put *out);

/* ---- cuda_attention90_forward.c ----------------------------------------- */

/* Adds the candidates with wgmma.  Returns the columns of the one that is the
 * choice so far; 0: none is. */
int64_t ca_forward90_cols(struct attn *t, struct cu_candidates *w);
bool ca_forward90(struct attn *t, int64_t cols);

#endif

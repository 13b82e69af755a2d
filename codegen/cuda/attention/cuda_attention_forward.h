/*
 * Attention itself, between cuda_attention_forward.c, which has it for any
 * device, and cuda_attention90_forward.c, which has it for sm_90a: which keys
 * are looked at, weights of scores, and what becomes of sums are the same
 * text.
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
	int64_t threads;		/* that have sums */
	const char *thread, *meet;	/* C text: one's number; they meet */
	int64_t pass, lse;		/* bytes, in shared memory */
	bool out;			/* else the logs alone */
	bool raw;			/* scores are scaled in the exponent */
	bool late;			/* sums fade later, by `fades` */
};

/* Multiplications of a query and a key. */
static inline int64_t
ca_forward_products(const struct ca_forward *s)
{
	return s->t->d + (s->out ? s->t->dv : 0);
}

/* ---- cuda_attention_forward.c ------------------------------------------- */

struct ca_forward ca_forward_of(struct attn *t);
/* The grid, and words about it. */
void ca_forward_open(struct ca_forward *s);
/* Declares head, bat, row0, live, kv and, with sums, out0. */
void ca_forward_place(struct ca_forward *s);
/* Declares which keys some query here sees (begin, end), and which all of them
 * see (sure_from, sure_to). */
void ca_forward_keys(struct ca_forward *s);
/* Declares sums, and what weights are made by. */
void ca_forward_begin(struct ca_forward *s);
/* Scores of the keys from key0 on become weights, by the largest so far. */
void ca_forward_weigh(struct ca_forward *s);
/* Behind the last tile, when nobody reads tiles any more. */
bool ca_forward_put(struct ca_forward *s);

/* The form of the best way by mma; NULL: none is better than what was taken
 * before. */
const struct ca_form *ca_forward_choose(struct ca_forward *s,
					struct cu_ways *w);
/* The step of that form. */
bool ca_forward_emit(struct ca_forward *s, const struct ca_form *form);

/* ---- cuda_attention90_forward.c ----------------------------------------- */

/* Columns of the best way by wgmma, or of the one that is wanted; 0: it is not
 * for wgmma. */
int64_t ca_forward90_cols(struct attn *t, struct cu_ways *w);
bool ca_forward90(struct attn *t, int64_t cols);

#endif

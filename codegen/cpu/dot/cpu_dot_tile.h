/*
 * Private to cpu_dot_tile*.c: the microkernel while it is emitted.
 */
#ifndef CPU_DOT_TILE_H
#define CPU_DOT_TILE_H

#include "codegen/cpu/dot/cpu_dot.h"

struct dot_tile {
	struct ll *l;
	const struct dot_unit *u;
	uint32_t nv;		/* vectors; at the right end fewer */
	struct ll_value *a, *b, *c, *words, *ldc, *add;
	struct ll_value *next, *next_ld, *lines, *nlines;
	struct ll_value *apart;	/* panels of B: from one to the next */
};

/* Bytes of B from word to word, and where vector v of a word is. */
static inline int64_t
dot_tile_word_bytes(const struct dot_tile *t)
{
	return t->u->panels ? dot_word_bytes(t->u) : 4 * dot_nr(t->u);
}

static inline struct ll_value *
dot_tile_vector_at(const struct dot_tile *t, struct ll_value *word,
		   uint32_t v)
{
	return t->u->panels ? ll_plus(t->l, word, ll_mul_n(t->l, t->apart, v))
			    : ll_plus_n(t->l, word, 4 * v * t->u->lanes);
}

/* ---- cpu_dot_tile_ahead.c: the loop over k, and what it prefetches ------- */

/*
 * Prefetches a part of what is far away, in each of as many stretches of the
 * loop as the tile has rows; `r` is the number of one.
 */
void dot_tile_prefetch_row(const struct dot_tile *t, struct ll_value *r);
/* Words of a stretch, if there are so many in all. */
struct ll_value *dot_tile_stretch_words(const struct dot_tile *t,
					struct ll_value *all);

/* ---- cpu_dot_tile_amx.c: in AMX tiles ------------------------------------ */

/* Emits the product, and the return. */
void dot_tile_amx(const struct dot_tile *t);

#endif

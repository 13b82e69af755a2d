/*
 * The microkernel's loop over k is in as many stretches as the tile has rows.
 * Each prefetches a part of what is far away: all at once it would delay
 * everything else that misses the first-level cache.  Of the tensor that is
 * added to, these are the next tile's rows, as this tile's would come too late
 * if k is short.
 */
#include "codegen/cpu/dot/cpu_dot_tile.h"

void
dot_tile_prefetch_row(const struct dot_tile *t, struct ll_value *r)
{
	struct ll *l = t->l;
	struct ll_value *row, *lines;
	struct ll_loop i;
	uint32_t v;

	row = ll_plus(l, t->next, ll_bin(l, LL_MUL, r, t->next_ld));
	lines = ll_plus(l, t->lines,
			ll_mul_n(l, ll_bin(l, LL_MUL, r, t->nlines), 8));
	for (v = 0; v < t->nv; v++) {
		ll_prefetch(l, ll_plus_n(l, row, 4 * v * t->u->lanes));
	}
	ll_loop(l, &i, ll_i64(l, 0), t->nlines, 1, NULL, 0);
	ll_prefetch(l, ll_load(l, ll_type(LL_PTR, 1),
			       ll_plus(l, lines, ll_mul_n(l, i.i, 8))));
	ll_loop_end(l, &i, NULL);
}

struct ll_value *
dot_tile_stretch_words(const struct dot_tile *t, struct ll_value *all)
{
	int64_t each = (int64_t)t->u->mr * t->u->words;

	all = ll_add(t->l, all, ll_i64(t->l, each - 1));
	return ll_mul_n(t->l, ll_div_n(t->l, all, each), t->u->words);
}

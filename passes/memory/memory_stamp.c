/*
 * Memory that knows who wrote it last: stretches of one stamp each, in the
 * order of where they lie.
 */
#include "passes/memory/memory_check.h"

#include <string.h>

static int
cuts(const struct bytes *b, int64_t at)
{
	uint32_t lo = 0, hi = b->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (b->at[mid].hi <= at) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return (int)lo;
}

/* The stretches that [lo, hi) touches are cut off, and one put there. */
void
memory_stamp(struct arena *a, struct bytes *b, int64_t lo, int64_t hi,
	     uint64_t stamp)
{
	uint32_t first = (uint32_t)cuts(b, lo), last = first, n = 0;
	struct stretch put[3];

	while (last < b->n && b->at[last].lo < hi) {
		last++;
	}
	if (first < last && b->at[first].lo < lo) {
		put[n++] = (struct stretch){ b->at[first].lo, lo,
					     b->at[first].stamp };
	}
	put[n++] = (struct stretch){ lo, hi, stamp };
	if (first < last && b->at[last - 1].hi > hi) {
		put[n++] = (struct stretch){ hi, b->at[last - 1].hi,
					     b->at[last - 1].stamp };
	}
	if (b->n + 3 > b->cap) {
		b->at = arena_grow(a, b->at, b->cap * sizeof *b->at,
				   (2 * b->cap + 64) * sizeof *b->at);
		b->cap = 2 * b->cap + 64;
	}
	memmove(b->at + first + n, b->at + last,
		(b->n - last) * sizeof *b->at);
	memcpy(b->at + first, put, n * sizeof *put);
	b->n = b->n - (last - first) + n;
}

bool
memory_has_stamp(const struct bytes *b, int64_t lo, int64_t hi,
		 uint64_t stamp)
{
	uint32_t i = (uint32_t)cuts(b, lo);

	while (lo < hi) {
		if (i == b->n || b->at[i].lo > lo ||
		    b->at[i].stamp != stamp) {
			return false;
		}
		lo = b->at[i++].hi;
	}
	return true;
}

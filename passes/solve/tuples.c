/*
 * With any way of the first stage, choices are the quicker, the quicker the
 * other stage's way is: so the next choice is the quickest of one for each way
 * of the first stage.  All are not sorted: the first that fits is mostly among
 * the first of those whose least bytes do.
 */
#include "passes/solve/tuples.h"

#include <math.h>
#include <stdlib.h>

/* Ways of the stage beside the first; of one stage alone, one that is none. */
static uint32_t
others(const struct tuples *x)
{
	return x->n > 1 ? x->nways : 1;
}

struct way {
	double us;
	uint32_t nth;
};

static int
by_us(const void *a, const void *b)
{
	const struct way *x = a, *y = b;

	return x->us != y->us ? (x->us < y->us ? -1 : 1)
			      : (x->nth > y->nth) - (x->nth < y->nth);
}

void
tuples_open(struct arena *a, struct tuples *x)
{
	uint32_t n = others(x), i;
	struct way *at = arena_alloc_raw(a, n * sizeof *at);

	for (i = 0; i < n; i++) {
		at[i] = (struct way){ x->n > 1 ? x->us[1][i] : 0, i };
	}
	qsort(at, n, sizeof *at, by_us);
	x->order = arena_alloc_raw(a, n * sizeof *x->order);
	for (i = 0; i < n; i++) {
		x->order[i] = at[i].nth;
	}
}

/* What a choice takes: in sum, its slowest stage, and its first. */
struct taken {
	double us, slowest_us, first_us;
	uint32_t choice;
};

/*
 * Of choices that take the same, such as two ways of stages that are alike, the
 * one whose first stage is quicker comes first: the backward of a pipeline's
 * first stages ends its step, when ranks have nothing else to do.
 */
static bool
is_quicker(const struct tuples *x, const struct taken *a,
	   const struct taken *b)
{
	if (x->evenly && a->slowest_us != b->slowest_us) {
		return a->slowest_us < b->slowest_us;
	}
	if (a->us != b->us) {
		return a->us < b->us;
	}
	return a->first_us != b->first_us ? a->first_us < b->first_us
					  : a->choice < b->choice;
}

/* The next choice with that way of the first stage.  False: none is left. */
static bool
next_with(struct tuples *x, double room, uint32_t way, struct taken *to)
{
	uint32_t n = others(x), i = x->seen[way], other;
	double bytes = x->bytes[0][way];

	while (i < n && bytes + (x->n > 1 ? x->bytes[1][x->order[i]] : 0) >
	       room) {
		i++;
	}
	x->looked += 1 + i - x->seen[way];
	x->seen[way] = i;
	if (i == n) {
		return false;
	}
	other = x->order[i];
	*to = (struct taken){ x->us[0][way], x->us[0][way], x->us[0][way],
			      other * x->nways + way };
	if (x->n > 1) {
		to->us += x->us[1][other];
		to->slowest_us = fmax(to->slowest_us, x->us[1][other]);
	}
	return true;
}

bool
tuples_next(struct tuples *x, double room, uint32_t *nth)
{
	struct taken least = { INFINITY, INFINITY, INFINITY, UINT32_MAX }, of;
	uint32_t i;

	for (i = 0; i < x->nways; i++) {
		if (next_with(x, room, i, &of) && is_quicker(x, &of, &least)) {
			least = of;
		}
	}
	if (least.choice == UINT32_MAX) {
		return false;
	}
	nth[0] = least.choice % x->nways;
	nth[x->n - 1] = x->n > 1 ? least.choice / x->nways : nth[0];
	x->seen[nth[0]]++;
	return true;
}

/*
 * Choices are few, so the next one is found by a look at all of them.  The
 * first that fits is mostly among the first of those whose least bytes do: they
 * are not sorted.
 */
#include "passes/solve/tuples.h"

#include <math.h>

uint32_t
tuples_choices(uint32_t n, uint32_t nways)
{
	return n > 1 ? nways * nways : nways;
}

/* What a choice takes: in sum, its slowest stage, and its first. */
struct taken {
	double us, slowest_us, first_us;
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
	return a->us != b->us ? a->us < b->us
			      : a->first_us < b->first_us;
}

bool
tuples_next(struct tuples *x, double room, uint32_t *nth)
{
	uint32_t all = tuples_choices(x->n, x->nways), best = all, i;
	struct taken least = { INFINITY, INFINITY, INFINITY };

	for (i = 0; i < all; i++) {
		uint32_t a = i % x->nways, b = i / x->nways;
		struct taken of = { x->us[0][a], x->us[0][a], x->us[0][a] };
		double bytes = x->bytes[0][a];

		if (x->n > 1) {
			of.us += x->us[1][b];
			of.slowest_us = fmax(of.slowest_us, x->us[1][b]);
			bytes += x->bytes[1][b];
		}
		if (bytes <= room && !x->seen[i] &&
		    is_quicker(x, &of, &least)) {
			least = of;
			best = i;
		}
	}
	if (best < all) {
		x->seen[best] = true;
		nth[0] = best % x->nways;
		nth[x->n - 1] = x->n > 1 ? best / x->nways : nth[0];
	}
	return best < all;
}

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

/* What a choice takes: in sum, and its slowest stage. */
struct taken {
	double us, slowest_us;
};

static bool
is_quicker(const struct tuples *x, const struct taken *a,
	   const struct taken *b)
{
	return x->evenly && a->slowest_us != b->slowest_us
		? a->slowest_us < b->slowest_us : a->us < b->us;
}

bool
tuples_next(struct tuples *x, double room, uint32_t *nth)
{
	uint32_t all = tuples_choices(x->n, x->nways), best = all, i;
	struct taken least = { INFINITY, INFINITY };

	for (i = 0; i < all; i++) {
		uint32_t a = i % x->nways, b = i / x->nways;
		struct taken of = { x->us[0][a], x->us[0][a] };
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

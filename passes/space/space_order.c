/*
 * The order in which degrees are looked at: which come first, and which stand
 * side by side.
 */
#include "passes/space/space.h"

#include <string.h>

/* Moves the i-th degrees of the order forward. */
static void
move(uint32_t *order, uint32_t i, uint32_t to)
{
	uint32_t g = order[i];

	memmove(&order[to + 1], &order[to], (i - to) * sizeof g);
	order[to] = g;
}

void
space_vary(const struct space *s, uint32_t *order, uint32_t most)
{
	const struct space_degrees *at = s->degrees.at;
	uint32_t n = 0, i, k;

	for (i = 0; i < s->degrees.n && n < most; i++) {
		for (k = 0; k < n && !space_same_sharding(&at[order[k]],
							  &at[order[i]]);
		     k++) {
		}
		if (k == n) {
			move(order, i, n++);
		}
	}
}

void
space_lead(const struct space *s, uint32_t *order, const struct plan *p)
{
	uint32_t i;

	for (i = 0; i < s->degrees.n; i++) {
		if (space_has_degrees(p, &s->degrees.at[order[i]])) {
			move(order, i, 0);
		}
	}
}

void
space_cluster(const struct space *s, uint32_t *order, uint32_t n)
{
	const struct space_degrees *at = s->degrees.at;
	uint32_t end, i, k;

	for (i = 0; i < n; i = end) {
		end = i + 1;
		for (k = end; k < n; k++) {
			if (space_same_sharding(&at[order[i]], &at[order[k]])) {
				move(order, k, end++);
			}
		}
	}
}

bool
space_is_new_row(const struct space *s, const uint32_t *order, uint32_t i)
{
	const struct space_degrees *at = s->degrees.at;

	return i == 0 || !space_same_sharding(&at[order[i - 1]], &at[order[i]]);
}

/*
 * Placements that change hands: another thread's store works on some of them,
 * and on new ones, while this store works on others.
 */
#include "passes/pieces/piece_parts.h"

/* Kernels are no longer listed here: the other store may find them again. */
static void
unlist(struct piece_store *s)
{
	uint32_t n = 0, i;

	for (i = 0; i < s->lists.n; i++) {
		struct piece_kernels *k = s->lists.at[i];

		k->listed = !k->on->away;
		s->lists.at[n] = k;
		n += k->listed;
	}
	s->lists.n = n;
}

void
piece_lend(struct piece_store *s)
{
	uint32_t i;

	s->asked = NULL;
	for (i = 0; i < s->placed.n; i++) {
		s->placed.at[i]->away = !s->placed.at[i]->m;
	}
	unlist(s);
}

bool
piece_may_lend(const struct piece_store *s, const struct space_degrees *g)
{
	uint32_t i;

	for (i = 0; i < s->placed.n; i++) {
		if (space_same_sharding(&s->placed.at[i]->g, g) &&
		    !s->placed.at[i]->away) {
			return false;
		}
	}
	return true;
}

void
piece_regain(struct piece_store *s, const struct space_degrees *g)
{
	uint32_t i;

	for (i = 0; i < s->placed.n; i++) {
		struct piece_placed *w = s->placed.at[i];

		if (!g || space_same_sharding(&w->g, g)) {
			w->away = false;
		}
	}
}

void
piece_borrow(struct piece_store *s, struct piece_placed *const *of, uint32_t n,
	     const struct space_degrees *g)
{
	uint32_t i;

	s->asked = NULL;
	s->placed.n = 0;
	for (i = 0; i < n; i++) {
		if (space_same_sharding(&of[i]->g, g)) {
			VEC_PUSH(&s->space->keep, &s->placed, of[i]);
		}
	}
}

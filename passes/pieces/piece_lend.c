/*
 * Placements that change hands: another thread's store works on some of them,
 * and on new ones, while this store works on others.
 */
#include "passes/pieces/piece_parts.h"

void
piece_lend(struct piece_store *s)
{
	uint32_t i;

	piece_drop_programs(s);
	s->asked = NULL;
	for (i = 0; i < s->placed.n; i++) {
		s->placed.at[i]->away = true;
	}
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

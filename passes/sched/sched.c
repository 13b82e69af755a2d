/*
 * Schedules as lists of actions. One table says what each kind of action does
 * and needs. All other code reads that table, except for the generators in
 * sched_make.c, which write kinds by their letters.
 */
#include "passes/sched/sched.h"

#include <inttypes.h>
#include <string.h>

const struct sched_kind_info sched_kinds[SCHED_NKINDS] = {
#define KIND(letter, does, here, before, after, what) \
	{ #letter, does, here, before, after, what },
	SCHED_KINDS(KIND)
#undef KIND
};

struct sched *
sched_new(struct arena *a, uint32_t nranks, uint32_t nstages,
	  uint32_t nmicrobatches)
{
	struct sched *s = arena_alloc(a, sizeof *s);

	s->nranks = nranks;
	s->nstages = nstages;
	s->nmicrobatches = nmicrobatches;
	s->rank_of = arena_alloc(a, nstages * sizeof *s->rank_of);
	s->ranks = arena_alloc(a, nranks * sizeof *s->ranks);
	return s;
}

void
sched_reserve(struct arena *a, struct sched *s, uint32_t rank, uint32_t n)
{
	struct sched_list *l = &s->ranks[rank];
	struct sched_action *at;

	if (n > l->actions.cap) {
		at = arena_alloc_raw(a, n * sizeof *at);
		if (l->actions.n) {
			memcpy(at, l->actions.at, l->actions.n * sizeof *at);
		}
		l->actions.at = at;
		l->actions.cap = n;
	}
}

void
sched_add(struct arena *a, struct sched *s, uint32_t rank,
	  struct sched_action action)
{
	if (rank >= s->nranks || action.kind >= SCHED_NKINDS ||
	    action.stage >= s->nstages ||
	    action.microbatch >= s->nmicrobatches) {
		die("an action that is not of this schedule");
	}
	VEC_PUSH(a, &s->ranks[rank].actions, action);
	s->def = NULL;
}

/* Whether the schedule has actions of that kind. */
static bool
runs_kind(const struct sched_def *def, uint32_t kind)
{
	return kind == SCHED_F || (kind != SCHED_B) == def->split;
}

struct sched_times *
sched_times(struct arena *a, const struct sched *s)
{
	struct sched_times *n = arena_alloc(a, s->nstages * sizeof *n);
	uint32_t i, k;

	for (i = 0; s->def && i < s->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			n[i].of[k] = runs_kind(s->def, k) ? s->nmicrobatches
							   : 0;
		}
	}
	for (i = 0; !s->def && i < s->nranks; i++) {
		const struct sched_list *l = &s->ranks[i];

		for (k = 0; k < l->actions.n; k++) {
			n[l->actions.at[k].stage].of[l->actions.at[k].kind]++;
		}
	}
	return n;
}

uint8_t *
sched_first_weights(struct arena *a, const struct sched *s)
{
	uint8_t *kind = arena_alloc(a, s->nstages);
	bool *known = arena_alloc(a, s->nstages * sizeof *known);
	uint32_t i, r;

	for (i = 0; s->def && i < s->nstages; i++) {
		kind[i] = s->def->split ? SCHED_W : SCHED_B;
	}
	for (r = 0; !s->def && r < s->nranks; r++) {
		for (i = 0; i < s->ranks[r].actions.n; i++) {
			const struct sched_action *x =
				&s->ranks[r].actions.at[i];

			if (sched_kinds[x->kind].does & SCHED_WEIGHTS &&
			    !known[x->stage]) {
				known[x->stage] = true;
				kind[x->stage] = x->kind;
			}
		}
	}
	return kind;
}

const char *
sched_name(struct arena *a, const struct sched_action *action)
{
	return arena_printf(a, "%u%s%u", action->stage,
			    sched_kinds[action->kind].letter,
			    action->microbatch);
}

static uint32_t
add_needs(uint32_t stage, uint32_t parts, struct sched_need *need)
{
	uint32_t part, n = 0;

	for (part = 0; part < SCHED_NPARTS; part++) {
		if (parts & 1u << part) {
			need[n].stage = stage;
			need[n++].part = part;
		}
	}
	return n;
}

uint32_t
sched_needs(const struct sched *s, const struct sched_action *action,
	    struct sched_need need[SCHED_MAX_NEEDS])
{
	const struct sched_kind_info *k = &sched_kinds[action->kind];
	uint32_t stage = action->stage, n = add_needs(stage, k->here, need);

	if (stage > 0) {
		n += add_needs(stage - 1, k->before, need + n);
	}
	if (stage + 1 < s->nstages) {
		n += add_needs(stage + 1, k->after, need + n);
	}
	return n;
}

bool
sched_has_kind(const struct sched *s, const struct sched_times *n,
	       uint32_t kind)
{
	uint32_t i;

	for (i = 0; i < s->nstages && !n[i].of[kind]; i++) {
	}
	return i < s->nstages;
}

const char *
sched_shape_text(struct arena *a, uint32_t nranks, uint32_t nstages,
		 uint32_t nmicrobatches)
{
	return arena_printf(a, "%" PRIu32 " rank%s, %" PRIu32 " stage%s, %"
			    PRIu32 " microbatch%s", nranks,
			    nranks == 1 ? "" : "s", nstages,
			    nstages == 1 ? "" : "s", nmicrobatches,
			    nmicrobatches == 1 ? "" : "es");
}

/*
 * Slots of saves.  A slot holds what one microbatch of one stage saves for one
 * span; there are as many as the schedule has microbatches in that span at
 * once.  Stages of a rank share a pool of slots where that takes fewer bytes:
 * those of an interleaved schedule have slots of one size, and do not need
 * their most at the same time.
 */
#include "passes/memory/memory_parts.h"

#include <stdlib.h>

const struct memory_lifetime memory_lifetimes[MEMORY_NSPANS] = {
	[MEMORY_TO_INPUT] = { SCHED_FORWARD, SCHED_INPUT },
	[MEMORY_TO_WEIGHTS] = { SCHED_FORWARD, SCHED_WEIGHTS },
	[MEMORY_BETWEEN] = { SCHED_INPUT, SCHED_WEIGHTS },
	[MEMORY_TOP + MEMORY_TO_INPUT] = { SCHED_FORWARD, SCHED_INPUT },
	[MEMORY_TOP + MEMORY_TO_WEIGHTS] = { SCHED_FORWARD, SCHED_WEIGHTS },
	[MEMORY_TOP + MEMORY_BETWEEN] = { SCHED_INPUT, SCHED_WEIGHTS }
};

/* The stages of one rank that save something for a span. */
struct slot_groups {
	struct memory_work *w;
	const struct sched_list *list;
	enum memory_span span;
	uint32_t *stages, n;	/* those of the largest slots first */
	uint32_t *group;	/* by stage, from 1; 0: of another rank */
	uint32_t ngroups;
	int64_t *bytes;		/* by group: of its largest slot */
};

static int64_t
bytes_of(const struct slot_groups *s, uint32_t stage)
{
	return s->w->out->stage[stage].saves[s->span].bytes;
}

/* Slots that the groups `a` and `b` need together, at most. */
static uint32_t
most_slots(const struct slot_groups *s, uint32_t a, uint32_t b)
{
	uint32_t now = 0, peak = 0, i;

	for (i = 0; i < s->list->actions.n; i++) {
		const struct sched_action *x = &s->list->actions.at[i];
		uint8_t does = sched_kinds[x->kind].does;
		uint32_t g = s->group[x->stage];

		if (g == 0 || (g != a && g != b)) {
			continue;
		}
		now += (does & memory_lifetimes[s->span].from) != 0;
		peak = now > peak ? now : peak;
		now -= (does & memory_lifetimes[s->span].to) != 0;
	}
	return peak;
}

/* Stages of equal slots share a pool, and others where that is smaller. */
static void
find_groups(struct slot_groups *s)
{
	uint32_t i, k, g;

	for (i = 0; i < s->n; i++) {
		int64_t bytes = bytes_of(s, s->stages[i]);

		if (i == 0 || bytes != s->bytes[s->ngroups]) {
			s->bytes[++s->ngroups] = bytes;
		}
		s->group[s->stages[i]] = s->ngroups;
	}
	for (g = 1, k = 2; k <= s->ngroups; k++) {
		if (s->bytes[g] * most_slots(s, g, k) >
		    s->bytes[g] * most_slots(s, g, g) +
		    s->bytes[k] * most_slots(s, k, k)) {
			g = k;
			continue;
		}
		for (i = 0; i < s->n; i++) {
			if (s->group[s->stages[i]] == k) {
				s->group[s->stages[i]] = g;
			}
		}
	}
}

static void
make_pool(struct slot_groups *s, uint32_t rank, uint32_t group)
{
	struct memory *out = s->w->out;
	struct memory_pool pool = { .rank = rank, .span = s->span,
				    .bytes = s->bytes[group],
				    .slots = most_slots(s, group, group) };
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		if (s->group[s->stages[i]] == group) {
			out->stage[s->stages[i]].saves[s->span].pool =
				out->pools.n;
		}
	}
	VEC_PUSH(s->w->a, &out->pools, pool);
}

/* Sorted by bytes, in place; there are few. */
static void
add_stage(struct slot_groups *s, uint32_t stage)
{
	uint32_t i = s->n++;

	for (; i > 0 && bytes_of(s, s->stages[i - 1]) < bytes_of(s, stage);
	     i--) {
		s->stages[i] = s->stages[i - 1];
	}
	s->stages[i] = stage;
}

/* How many slots each stage needs if it shares none. */
static void
find_unshared(struct slot_groups *s)
{
	struct memory *out = s->w->out;
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		s->group[s->stages[i]] = i + 1;
	}
	for (i = 0; i < s->n; i++) {
		out->stage[s->stages[i]].saves[s->span].slots = s->n == 1
			? out->pools.at[out->pools.n - 1].slots
			: most_slots(s, i + 1, i + 1);
	}
}

static void
pool_rank(struct memory_work *w, uint32_t rank, enum memory_span span)
{
	uint32_t n = w->out->nstages, i;
	struct slot_groups s = { .w = w, .span = span,
			   .list = &w->holding->ranks[rank] };

	s.stages = arena_alloc(&w->tmp, n * sizeof *s.stages);
	s.group = arena_alloc(&w->tmp, n * sizeof *s.group);
	s.bytes = arena_alloc(&w->tmp, (n + 1) * sizeof *s.bytes);
	for (i = 0; i < n; i++) {
		if (w->out->stage[i].rank == rank && bytes_of(&s, i)) {
			add_stage(&s, i);
		}
	}
	if (s.n == 0) {
		return;
	}
	find_groups(&s);
	for (i = 0; i < s.n; i++) {
		uint32_t g = s.group[s.stages[i]];

		if (i == 0 || g != s.group[s.stages[i - 1]]) {
			make_pool(&s, rank, g);
		}
	}
	find_unshared(&s);
}

void
memory_slots(struct memory_work *w)
{
	struct memory *out = w->out;
	uint32_t i, k;

	for (i = 0; i < out->buffers.n; i++) {
		struct memory_buffer *b = memory_at(w, i);

		if (b->kind == MEMORY_SAVES) {
			out->stage[b->stage].saves[b->span].bytes +=
				b->bytes * b->items;
		}
	}
	for (i = 0; i < out->nranks; i++) {
		for (k = 0; k < MEMORY_NSPANS; k++) {
			pool_rank(w, i, (enum memory_span)k);
		}
	}
}

/* ---- which slot ---- */

/* The slots of one pool, while a rank runs its actions. */
struct slot_use {
	struct memory *mem;
	uint32_t pool;
	bool *used;		/* by slot */
	uint32_t below;		/* all slots below are used */
};

static uint32_t
first_free_slot(struct slot_use *g)
{
	uint32_t n = g->mem->pools.at[g->pool].slots, i;

	for (i = g->below; i < n; i++) {
		if (!g->used[i]) {
			g->used[i] = true;
			g->below = i + 1;
			return i;
		}
	}
	die("a pool has fewer slots than microbatches use");
}

static void
assign_pool(struct slot_use *g, const struct sched *s)
{
	const struct memory_pool *pool = &g->mem->pools.at[g->pool];
	const struct sched_list *l = &s->ranks[pool->rank];
	uint32_t i;

	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *x = &l->actions.at[i];
		struct memory_stage *of = &g->mem->stage[x->stage];
		uint8_t does = sched_kinds[x->kind].does;
		uint32_t *slot = &of->slot[pool->span][x->microbatch];

		if (of->saves[pool->span].bytes == 0 ||
		    of->saves[pool->span].pool != g->pool) {
			continue;
		}
		if (does & memory_lifetimes[pool->span].from) {
			*slot = first_free_slot(g);
		}
		if (does & memory_lifetimes[pool->span].to) {
			g->used[*slot] = false;
			g->below = *slot < g->below ? *slot : g->below;
		}
	}
}

void
memory_assign_slots(const struct ranks *r, struct arena *a, struct memory *mem)
{
	uint32_t i, k;

	for (i = 0; i < mem->nstages; i++) {
		for (k = 0; k < MEMORY_NSPANS; k++) {
			mem->stage[i].slot[k] = arena_alloc(a,
				r->nmicrobatches * sizeof(uint32_t));
		}
	}
	for (i = 0; i < mem->pools.n; i++) {
		struct slot_use g = { mem, i, NULL, 0 };

		g.used = arena_alloc(a, mem->pools.at[i].slots);
		assign_pool(&g, r->sched);
	}
}

/*
 * When everything happens.  Each rank runs its list in order and waits at
 * an action until what it needs has come in, so the times do not depend on
 * the order in which the ranks are looked at here.
 */
#include "passes/sched.h"

#include <string.h>

#define NOWHERE UINT32_MAX

/* Ranks that may be able to go on, each at most once. */
struct queue {
	uint32_t *rank;
	bool *queued;
	uint32_t head, n, cap;
};

static void
enqueue(struct queue *q, uint32_t rank)
{
	if (!q->queued[rank]) {
		q->queued[rank] = true;
		q->rank[(q->head + q->n++) % q->cap] = rank;
	}
}

static uint32_t
dequeue(struct queue *q)
{
	uint32_t rank = q->rank[q->head];

	q->head = (q->head + 1) % q->cap;
	q->n--;
	q->queued[rank] = false;
	return rank;
}

static size_t
place_index(const struct sched *s, struct sched_need need,
	    uint32_t microbatch)
{
	return ((size_t)need.stage * s->nmicrobatches + microbatch) *
	       SCHED_NPARTS + need.part;
}

struct sched_place
sched_doer(const struct sched *s, const struct sched_timeline *t,
	   struct sched_need need, uint32_t microbatch)
{
	return t->doer[place_index(s, need, microbatch)];
}

static void
find_doers(struct arena *a, const struct sched *s, struct sched_timeline *t)
{
	size_t n = (size_t)s->nstages * s->nmicrobatches * SCHED_NPARTS;
	uint32_t r, i;

	t->doer = arena_alloc(a, n * sizeof *t->doer);
	memset(t->doer, 0xff, n * sizeof *t->doer);
	for (r = 0; r < s->nranks; r++) {
		for (i = 0; i < s->ranks[r].actions.n; i++) {
			const struct sched_action *act =
				&s->ranks[r].actions.at[i];
			struct sched_need own = { act->stage, 0 };
			struct sched_place *p;

			for (; own.part < SCHED_NPARTS; own.part++) {
				p = &t->doer[place_index(s, own,
							 act->microbatch)];
				if (sched_kinds[act->kind].does >> own.part &
				    1 && p->rank == NOWHERE) {
					p->rank = r;
					p->at = i;
				}
			}
		}
	}
}

/* When the action can start; false if something it needs has not run yet. */
static bool
ready(const struct sched *s, const struct sched_timeline *t,
      const struct sched_cost *costs, uint32_t rank,
      const struct sched_action *act, double *start_us)
{
	struct sched_need need[SCHED_MAX_NEEDS];
	uint32_t n = sched_needs(s, act, need), i;

	for (i = 0; i < n; i++) {
		struct sched_place p = sched_doer(s, t, need[i],
						  act->microbatch);
		uint32_t link = need[i].stage < act->stage ? need[i].stage
							   : act->stage;
		double us;

		if (p.rank == NOWHERE || p.at >= t->done[p.rank]) {
			return false;
		}
		us = t->events[p.rank][p.at].end_us;
		if (costs && p.rank != rank) {
			us += costs[link].hop_us;
		}
		if (us > *start_us) {
			*start_us = us;
		}
	}
	return true;
}

/* Runs one rank as far as it can go, and wakes those it has served. */
static void
advance(const struct sched *s, struct sched_timeline *t,
	const struct sched_cost *costs, uint32_t rank, struct queue *q)
{
	const struct sched_list *list = &s->ranks[rank];

	while (t->done[rank] < list->actions.n) {
		uint32_t i = t->done[rank];
		const struct sched_action *act = &list->actions.at[i];
		double us = costs ? costs[act->stage].us[act->kind] : 1;
		double start_us = i ? t->events[rank][i - 1].end_us : 0;

		if (!ready(s, t, costs, rank, act, &start_us)) {
			return;
		}
		t->events[rank][i].start_us = start_us;
		t->events[rank][i].end_us = start_us + us;
		t->busy_us[rank] += us;
		t->done[rank]++;
		if (act->stage > 0) {
			enqueue(q, s->rank_of[act->stage - 1]);
		}
		if (act->stage + 1 < s->nstages) {
			enqueue(q, s->rank_of[act->stage + 1]);
		}
	}
}

static void
add_up(const struct sched *s, struct sched_timeline *t)
{
	uint32_t r;

	for (r = 0; r < s->nranks; r++) {
		const struct sched_event *e = t->events[r];
		uint32_t n = t->done[r];

		if (n && e[n - 1].end_us > t->makespan_us) {
			t->makespan_us = e[n - 1].end_us;
		}
		if (n && e[n - 1].end_us - e[0].start_us > t->longest_us) {
			t->longest_us = e[n - 1].end_us - e[0].start_us;
		}
	}
	for (r = 0; r < s->nranks; r++) {
		t->idle[r] = t->makespan_us > 0 ?
			1 - t->busy_us[r] / t->makespan_us : 0;
	}
}

bool
sched_time(struct arena *a, const struct sched *s,
	   const struct sched_cost *costs, struct sched_timeline *t)
{
	struct queue q = { .cap = s->nranks };
	bool all = true;
	uint32_t r;

	memset(t, 0, sizeof *t);
	t->events = arena_alloc(a, s->nranks * sizeof *t->events);
	t->done = arena_alloc(a, s->nranks * sizeof *t->done);
	t->busy_us = arena_alloc(a, s->nranks * sizeof *t->busy_us);
	t->idle = arena_alloc(a, s->nranks * sizeof *t->idle);
	q.rank = arena_alloc(a, s->nranks * sizeof *q.rank);
	q.queued = arena_alloc(a, s->nranks * sizeof *q.queued);
	find_doers(a, s, t);
	for (r = 0; r < s->nranks; r++) {
		t->events[r] = arena_alloc(a, s->ranks[r].actions.n *
					   sizeof **t->events);
		enqueue(&q, r);
	}
	while (q.n > 0) {
		r = dequeue(&q);
		advance(s, t, costs, r, &q);
	}
	for (r = 0; r < s->nranks; r++) {
		all = all && t->done[r] == s->ranks[r].actions.n;
	}
	add_up(s, t);
	return all;
}

double
sched_bubble(const struct sched *s, const struct sched_timeline *t)
{
	double busy_us = 0;
	uint32_t r;

	for (r = 0; r < s->nranks; r++) {
		busy_us += t->busy_us[r];
	}
	return t->longest_us > 0 ?
		1 - busy_us / s->nranks / t->longest_us : 0;
}

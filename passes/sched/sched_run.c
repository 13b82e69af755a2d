/*
 * When each action of a schedule starts and ends. Each rank runs its list in
 * order and waits at an action until what it needs has arrived. So the times do
 * not depend on the order in which this file visits the ranks.
 */
#include "passes/sched/sched.h"

#include <math.h>
#include <string.h>

#define NOWHERE UINT32_MAX

/* A queue of the ranks that may be able to go on, each at most once. */
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

void
sched_find_doers(struct arena *a, const struct sched *s,
		 struct sched_timeline *t)
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

/* ---- the work of a kind of action, for all microbatches ---- */

/* When one part of a stage's work ends, by microbatch; NaN: it has not run. */
struct row {
	double *end_us;
	double hop_us;		/* until it arrives */
};

struct work {
	struct row need[SCHED_MAX_NEEDS];
	double *gives[SCHED_NPARTS];	/* rows that it fills in */
	uint32_t nneeds, ngives;
	double us;
	double less_us;		/* of the first that gives gradients */
	bool *begun;		/* whether that has run; NULL: it gives none */
	uint32_t wakes[2], nwakes;	/* ranks of the adjacent stages */
};

/* The parts that some kind of action waits for. */
static uint32_t
awaited(void)
{
	uint32_t parts = 0, k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		parts |= sched_kinds[k].here | sched_kinds[k].before |
			 sched_kinds[k].after;
	}
	return parts;
}

static void
set_needs(const struct sched *s, const struct sched_cost *costs,
	  double *const *rows, const struct sched_action *act, struct work *w)
{
	struct sched_need need[SCHED_MAX_NEEDS];
	uint32_t i;

	w->nneeds = sched_needs(s, act, need);
	for (i = 0; i < w->nneeds; i++) {
		uint32_t of = need[i].stage, link = of < act->stage ? of
								 : act->stage;

		w->need[i].end_us = rows[of * SCHED_NPARTS + need[i].part];
		w->need[i].hop_us = costs && s->rank_of[of] !=
				    s->rank_of[act->stage]
			? costs[link].hop_us : 0;
	}
}

static void
set_work(const struct sched *s, const struct sched_cost *costs,
	 double *const *rows, uint32_t stage, uint32_t kind, struct work *w)
{
	struct sched_action act = { .kind = (uint8_t)kind, .stage = stage };
	uint32_t i;

	set_needs(s, costs, rows, &act, w);
	for (i = 0; i < SCHED_NPARTS; i++) {
		if (sched_kinds[kind].does & awaited() & 1u << i) {
			w->gives[w->ngives++] = rows[stage * SCHED_NPARTS + i];
		}
	}
	w->us = costs ? costs[stage].us[kind] : 1;
	w->less_us = costs ? costs[stage].less_us : 0;
	if (stage > 0) {
		w->wakes[w->nwakes++] = s->rank_of[stage - 1];
	}
	if (stage + 1 < s->nstages) {
		w->wakes[w->nwakes++] = s->rank_of[stage + 1];
	}
}

/* Work by stage and kind. */
static struct work *
all_work(struct arena *a, const struct sched *s,
	 const struct sched_cost *costs)
{
	uint32_t n = s->nmicrobatches, parts = awaited(), i, k;
	struct work *w = arena_alloc(a, s->nstages * SCHED_NKINDS * sizeof *w);
	double **rows = arena_alloc(a, s->nstages * SCHED_NPARTS *
				    sizeof *rows);
	bool *begun = arena_alloc(a, s->nstages * sizeof *begun);

	for (i = 0; i < s->nstages * SCHED_NPARTS; i++) {
		if (parts & 1u << i % SCHED_NPARTS) {
			rows[i] = arena_alloc(a, n * sizeof **rows);
			memset(rows[i], 0xff, n * sizeof **rows);
		}
	}
	for (i = 0; i < s->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			set_work(s, costs, rows, i, k,
				 &w[i * SCHED_NKINDS + k]);
			w[i * SCHED_NKINDS + k].begun =
				sched_kinds[k].does & SCHED_WEIGHTS
					? &begun[i] : NULL;
		}
	}
	return w;
}

/* ---- running ---- */

/*
 * Raises *start_us to when the action can start. False if something that it
 * needs has not run yet.
 */
static bool
ready(const struct work *w, uint32_t microbatch, double *start_us)
{
	uint32_t i;

	for (i = 0; i < w->nneeds; i++) {
		double us = w->need[i].end_us[microbatch];

		if (isnan(us)) {
			return false;
		}
		us += w->need[i].hop_us;
		if (us > *start_us) {
			*start_us = us;
		}
	}
	return true;
}

static void
put_end(const struct work *w, uint32_t microbatch, double end_us)
{
	uint32_t i;

	for (i = 0; i < w->ngives; i++) {
		if (isnan(w->gives[i][microbatch])) { /* the first end counts */
			w->gives[i][microbatch] = end_us;
		}
	}
}

/* The time of the stage's next action of a kind. */
static double
take(const struct work *w)
{
	bool first = w->begun && !*w->begun;

	if (first) {
		*w->begun = true;
	}
	return first ? w->us - w->less_us : w->us;
}

/*
 * Runs one rank as far as it can go, and queues the ranks that may wait for its
 * results.
 */
static void
advance(const struct sched *s, struct sched_timeline *t,
	const struct work *all, uint32_t rank, struct queue *q)
{
	const struct sched_list *list = &s->ranks[rank];
	uint32_t i = t->done[rank], k;
	double end_us = t->end_us[rank], busy_us = t->busy_us[rank];

	for (; i < list->actions.n; i++) {
		const struct sched_action *act = &list->actions.at[i];
		const struct work *w = &all[act->stage * SCHED_NKINDS +
					    act->kind];
		double start_us = end_us, us;

		if (!ready(w, act->microbatch, &start_us)) {
			break;
		}
		us = take(w);
		end_us = start_us + us;
		busy_us += us;
		put_end(w, act->microbatch, end_us);
		if (i == 0) {
			t->begin_us[rank] = start_us;
		}
		if (t->events) {
			t->events[rank][i] = (struct sched_event){ start_us,
								   end_us };
		}
		for (k = 0; k < w->nwakes; k++) {
			enqueue(q, w->wakes[k]);
		}
	}
	t->done[rank] = i;
	t->end_us[rank] = end_us;
	t->busy_us[rank] = busy_us;
}

static void
add_up(const struct sched *s, struct sched_timeline *t)
{
	uint32_t r;

	for (r = 0; r < s->nranks; r++) {
		t->makespan_us = fmax(t->makespan_us, t->end_us[r]);
		t->longest_us = fmax(t->longest_us,
				     t->end_us[r] - t->begin_us[r]);
	}
	for (r = 0; r < s->nranks; r++) {
		t->idle[r] = t->makespan_us > 0 ?
			1 - t->busy_us[r] / t->makespan_us : 0;
	}
}

static bool
run_all(struct arena *a, const struct sched *s, const struct sched_cost *costs,
	struct sched_timeline *t)
{
	struct queue q = { .cap = s->nranks };
	const struct work *all = all_work(a, s, costs);
	bool ends = true;
	uint32_t r;

	t->done = arena_alloc(a, s->nranks * sizeof *t->done);
	t->begin_us = arena_alloc(a, s->nranks * sizeof *t->begin_us);
	t->end_us = arena_alloc(a, s->nranks * sizeof *t->end_us);
	t->busy_us = arena_alloc(a, s->nranks * sizeof *t->busy_us);
	t->idle = arena_alloc(a, s->nranks * sizeof *t->idle);
	q.rank = arena_alloc(a, s->nranks * sizeof *q.rank);
	q.queued = arena_alloc(a, s->nranks * sizeof *q.queued);
	for (r = 0; r < s->nranks; r++) {
		enqueue(&q, r);
	}
	while (q.n > 0) {
		r = dequeue(&q);
		advance(s, t, all, r, &q);
	}
	for (r = 0; r < s->nranks; r++) {
		ends = ends && t->done[r] == s->ranks[r].actions.n;
	}
	add_up(s, t);
	return ends;
}

bool
sched_span(struct arena *a, const struct sched *s,
	   const struct sched_cost *costs, struct sched_timeline *t)
{
	memset(t, 0, sizeof *t);
	return run_all(a, s, costs, t);
}

bool
sched_time(struct arena *a, const struct sched *s,
	   const struct sched_cost *costs, struct sched_timeline *t)
{
	uint32_t r;

	memset(t, 0, sizeof *t);
	t->events = arena_alloc(a, s->nranks * sizeof *t->events);
	for (r = 0; r < s->nranks; r++) {
		t->events[r] = arena_alloc(a, s->ranks[r].actions.n *
					   sizeof **t->events);
	}
	return run_all(a, s, costs, t);
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

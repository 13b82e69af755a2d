/*
 * Enumerates the plans with given degrees: microbatches, schedules and numbers
 * of stages on a rank.  A number is left out if stages have as many layers with
 * the number before.
 */
#include "passes/space/space.h"

#include <string.h>

/* Limits of schedules that are not pinned. */
#define MOST_STAGES 1024
#define MOST_CELLS (1 << 19)	/* stages times microbatches */

struct counted_plans {
	struct space *s;
	void (*f)(void *user, struct space_plan *t);	/* or NULL */
	void *user;
	double n;		/* plans so far */
};

/*
 * Whether the schedule is too long to try.  It is run action by action, so a
 * thousand stages on a rank or a million microbatches take minutes.
 */
static bool
is_too_long(const struct space *s, const struct space_plan *t, int64_t chunks)
{
	int64_t stages = t->g->pp * chunks;

	return (stages > MOST_STAGES && chunks > 1 &&
		!s->pinned[SPACE_PIN_INTERLEAVE]) ||
	       (t->nmicrobatches > MOST_CELLS / stages &&
		!s->pinned[SPACE_PIN_MICROBATCH]);
}

static void
one(struct counted_plans *e, struct space_plan *t, const struct sched_def *def,
    int64_t chunks)
{
	struct space *s = e->s;

	if (is_too_long(s, t, chunks) ||
	    sched_why_not(&s->tmp, def->name, (uint32_t)t->g->pp,
			  (uint32_t)chunks, (uint32_t)t->nmicrobatches) ||
	    (t->g->pp == 1 && chunks > 1) ||	/* no plan: plan.md */
	    t->g->pp * chunks > s->nlayers + (s->nlayers == 0)) {
		return;
	}
	e->n++;
	t->sched = def;
	t->chunks = chunks;
	t->slots = NULL;
	if (e->f) {
		e->f(e->user, t);
	}
	t->nth++;
	arena_release(&s->tmp);
}

static void
each_chunks(struct counted_plans *e, struct space_plan *t,
	    const struct sched_def *def)
{
	const struct space *s = e->s;
	int64_t most = s->nlayers / t->g->pp, v, size = 0;

	most = def->max_chunks && def->max_chunks < most
		? def->max_chunks : most;
	/* the loop need not go on beyond is_too_long */
	most = MOST_STAGES / t->g->pp < most
		? MOST_STAGES / t->g->pp : most;
	if (s->pinned[SPACE_PIN_INTERLEAVE]) {
		one(e, t, def, s->base.interleave);
		return;
	}
	for (v = def->min_chunks; v <= most || v == def->min_chunks; v++) {
		int64_t now = num_ceil_div(s->nlayers, t->g->pp * v);

		/* with one stage a rank, others are the same as 1f1b, which is
		 * tried too unless another is pinned */
		if (now != size && (v > 1 || def->max_chunks == 1 ||
				    s->pinned[SPACE_PIN_SCHEDULE])) {
			one(e, t, def, v);
		}
		size = now;
	}
}

static void
each_schedule(struct counted_plans *e, struct space_plan *t)
{
	const struct space *s = e->s;
	bool pinned = s->pinned[SPACE_PIN_SCHEDULE];
	const char *pin = pinned ? s->base.schedule : NULL;
	uint32_t i;

	/* with one rank all schedules are the same */
	if (t->g->pp == 1 && !pin) {
		one(e, t, sched_find("1f1b"), 1);
		return;
	}
	for (i = 0; i < sched_ndefs; i++) {
		if (!pin || strcmp(pin, sched_defs[i].name) == 0) {
			each_chunks(e, t, &sched_defs[i]);
		}
	}
}

/* The smallest divisor of n that is at least `least`, which is at most n. */
static int64_t
divisor(int64_t n, int64_t least)
{
	int64_t q;

	for (; least <= n / least; least++) {
		if (n % least == 0) {
			return least;
		}
	}
	for (q = n / least; n % q; q--) {
	}
	return n / q;
}

int64_t
space_microbatches(const struct space *s, const struct space_degrees *g,
		   int64_t microbatch)
{
	return num_ceil_div(s->batch, microbatch * g->dp * g->ep);
}

double
space_each_plan(struct space *s, const struct space_degrees *g,
		void (*f)(void *user, struct space_plan *t), void *user)
{
	int64_t share = space_microbatches(s, g, 1), mb, next;
	int64_t most = plan_largest_microbatch(s->batch, g->dp * g->ep);
	bool pinned = s->pinned[SPACE_PIN_MICROBATCH];
	struct space_plan t = { .g = g };
	struct counted_plans e = { s, f, user, 0 };

	for (mb = pinned ? s->base.microbatch : 1; mb <= most; mb = next) {
		t.microbatch = mb;
		t.nmicrobatches = space_microbatches(s, g, mb);
		each_schedule(&e, &t);
		next = num_ceil_div(3 * mb, 2);
		next = pinned || next > share ? share + 1
					      : divisor(share, next);
	}
	return e.n;
}

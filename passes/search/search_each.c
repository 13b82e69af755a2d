/*
 * Enumerates the plans with given degrees: microbatches, schedules and numbers
 * of stages on a rank.  A number is left out if stages have as many layers with
 * the number before.
 */
#include "passes/search/search_parts.h"

#include <string.h>

typedef void each_fn(struct search *s, struct search_try *t);

/*
 * Whether the schedule is too long to try.  It is run action by action, so a
 * thousand stages on a rank or a million microbatches take minutes.
 */
static bool
is_too_long(const struct search *s, const struct search_try *t, int64_t chunks)
{
	int64_t stages = t->g->pp * chunks;

	return (stages > SEARCH_MOST_STAGES && chunks > 1 &&
		!s->pinned[PIN_INTERLEAVE]) ||
	       (t->nmicrobatches > SEARCH_MOST_CELLS / stages &&
		!s->pinned[PIN_MICROBATCH]);
}

static void
one(struct search *s, struct search_try *t, const struct sched_def *def,
    int64_t chunks, each_fn *f)
{
	if (is_too_long(s, t, chunks) ||
	    sched_why_not(&s->tmp, def->name, (uint32_t)t->g->pp,
			  (uint32_t)chunks, (uint32_t)t->nmicrobatches) ||
	    t->g->pp * chunks > s->nlayers + (s->nlayers == 0)) {
		return;
	}
	s->out->space++;
	if (!f) {
		return;
	}
	t->sched = def;
	t->chunks = chunks;
	t->slots = NULL;
	f(s, t);
	t->nth++;
	arena_release(&s->tmp);
}

static void
each_chunks(struct search *s, struct search_try *t,
	    const struct sched_def *def, each_fn *f)
{
	int64_t most = s->nlayers / t->g->pp, v, size = 0;

	most = def->max_chunks && def->max_chunks < most
		? def->max_chunks : most;
	/* the loop need not go on beyond is_too_long */
	most = SEARCH_MOST_STAGES / t->g->pp < most
		? SEARCH_MOST_STAGES / t->g->pp : most;
	if (s->pinned[PIN_INTERLEAVE]) {
		one(s, t, def, s->base.interleave, f);
		return;
	}
	for (v = def->min_chunks; v <= most || v == def->min_chunks; v++) {
		int64_t now = num_ceil_div(s->nlayers, t->g->pp * v);

		/* with one stage a rank, others are the same as 1f1b */
		if (now != size && (v > 1 || def->max_chunks == 1)) {
			one(s, t, def, v, f);
		}
		size = now;
	}
}

static void
each_schedule(struct search *s, struct search_try *t, each_fn *f)
{
	const char *pin = s->pinned[PIN_SCHEDULE] ? s->base.schedule : NULL;
	uint32_t i;

	/* with one rank all schedules are the same */
	if (t->g->pp == 1 && !pin) {
		one(s, t, sched_find("1f1b"), 1, f);
		return;
	}
	for (i = 0; i < sched_ndefs; i++) {
		if (!pin || strcmp(pin, sched_defs[i].name) == 0) {
			each_chunks(s, t, &sched_defs[i], f);
		}
	}
}

/* Counts degrees whose weights, gradients and optimizer state do not fit. */
static void
too_large(struct search *s, const struct search_group *g, int zero,
	  double bytes)
{
	struct search_near *n = &s->out->bare;
	struct plan *p = &n->plan;

	s->out->groups_full++;
	if (s->out->any_bare && bytes >= (double)n->bytes) {
		return;
	}
	s->out->any_bare = true;
	*p = s->base;
	p->tp = g->tp;
	p->cp = g->cp;
	p->ep = g->ep;
	p->dp = g->dp;
	p->pp = g->pp;
	p->zero = g->dp > 1 ? zero : 0;
	p->offload = search_may_offload(s);
	n->bytes = (int64_t)bytes;
	n->capacity = (int64_t)g->capacity;
	n->device = s->devs.n > 1
		? target_kinds(s->o->target, 0, g->used, s->a) : "";
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

void
search_each_plan(struct search *s, const struct search_group *g, each_fn *f)
{
	int64_t share = search_microbatches(s, g, 1), mb, next;
	int64_t most = plan_largest_microbatch(s->batch, g->dp * g->ep);
	bool pinned = s->pinned[PIN_MICROBATCH];
	struct search_try t = { .g = g };
	int zero = s->pinned[PIN_ZERO] ? s->base.zero : 3;
	double bytes = search_least_bytes(s, g, zero, search_may_offload(s));

	if (f && bytes > g->capacity) {
		too_large(s, g, zero, bytes);
		f = NULL;
	}
	for (mb = pinned ? s->base.microbatch : 1; mb <= most; mb = next) {
		t.microbatch = mb;
		t.nmicrobatches = search_microbatches(s, g, mb);
		each_schedule(s, &t, f);
		next = num_ceil_div(3 * mb, 2);
		next = pinned || next > share ? share + 1
					      : divisor(share, next);
	}
}

/*
 * Looks at all plans of some degrees, unless earlier walks exclude them.
 */
#include "passes/search/search_parts.h"

#include <math.h>
#include <stdio.h>

static struct search_seen *
seen(struct search *s, const struct space_plan *t)
{
	uint32_t g = t->g->nth;

	while (s->seen[g].n <= t->nth) {
		VEC_PUSH(&s->space.keep, &s->seen[g],
			 ((struct search_seen){ 0 }));
	}
	return &s->seen[g].at[t->nth];
}

/* Prints progress to a terminal, from the first second on. */
static void
show(struct search *s)
{
	double since = search_seconds(s);

	if (!s->o->shows || since < s->shown_s + 1) {
		return;
	}
	s->shown_s = since;
	fprintf(stderr, "\rsearch: %.0f s, %llu placements, best %.3f ms ",
		since, (unsigned long long)s->pieces.placements,
		isfinite(s->worst_us) ? s->worst_us / 1e3 : 0);
}

/*
 * Tries a plan, unless an earlier walk excludes it.  This holds for all later
 * walks: prices do not change, and capacities do not grow.
 */
static void
look_at(void *user, struct space_plan *t)
{
	struct search *s = user;
	struct search_seen own = { 0 }, *x = s->is_ahead ? &own : seen(s, t);

	if (s->is_ahead && t->nth < s->seen[t->g->nth].n) {
		own = s->seen[t->g->nth].at[t->nth];
	}
	/* the walk waits for the row of a thread that looks ahead */
	if (search_is_stopped(s, 0) || (s->is_ahead && search_is_over(s))) {
		return;
	}
	if (x->us < s->worst_us || !isfinite(s->worst_us)) {
		show(s);
		search_try_plan(s, t, x);
	} else if (x->none) {
		s->out->full++;
	} else {
		s->out->cut++;
	}
}

/* Notes degrees whose weights, gradients and optimizer state do not fit. */
static void
note_bare(struct search *s, const struct space_degrees *g, int zero,
	  double bytes)
{
	struct search_near *n = &s->out->bare;

	s->out->groups_full++;
	if (s->out->any_bare && bytes >= (double)n->bytes) {
		return;
	}
	s->out->any_bare = true;
	n->plan = s->space.base;
	space_set_degrees(&n->plan, g);
	n->plan.zero = g->dp > 1 ? zero : 0;
	n->plan.offload = space_may_offload(&s->space);
	n->bytes = (int64_t)bytes;
	n->capacity = (int64_t)g->capacity;
	n->device = s->space.devs.n > 1
		? target_kinds(s->o->target, 0, g->used, s->a) : "";
}

/* Whether the states of a mean rank fit, with the strictest ZeRO. */
static bool
has_memory(struct search *s, const struct space_degrees *g)
{
	const struct space *x = &s->space;
	int zero = space_strictest_zero(x);
	double bytes = bound_least_bytes(&s->bounds, g, zero,
					 space_may_offload(x));

	if (bytes > g->capacity) {
		note_bare(s, g, zero, bytes);
	}
	return bytes <= g->capacity;
}

/* Leaves all plans of the degrees open, as an interrupt ends the search. */
static void
leave_open(struct search *s, const struct space_degrees *g)
{
	double n = space_each_plan(&s->space, g, NULL, NULL);

	s->out->space += n;
	s->out->open += (uint64_t)n;
	s->open_us = fmin(s->open_us, bound_degrees_us(&s->bounds, g));
}

void
search_look_at(struct search *s, uint32_t at)
{
	const struct space_degrees *g =
		&s->space.degrees.at[s->order[at]];
	bool above = bound_degrees_us(&s->bounds, g) >= s->worst_us;

	s->out->groups_cut += above;
	if (!above && !s->guessing && search_is_interrupted(s)) {
		leave_open(s, g);
	} else if (!above && has_memory(s, g)) {
		s->out->space += space_each_plan(&s->space, g, look_at, s);
	} else if (!above || !s->guessing) {	/* only count them */
		s->out->space += space_each_plan(&s->space, g, NULL, NULL);
	}
}

/*
 * How many plans a search keeps, and when it ends before it has looked at all.
 */
#include "passes/search/search_parts.h"

#include <math.h>
#include <time.h>

/* plans kept beyond those wanted, since not all fit in the end */
#define KEPT 3
/* Plans whose bound is up to this factor of the best are tried. */
#define BEYOND (1 + PIECE_NEAR)
/*
 * Nodes of programs that are placed, thrice of those that are priced, where
 * seconds do not limit them: 3 to 8 s of a loaded core for deepseek-v3 on
 * 16,384 GPUs.
 */
#define MOST_PLACED 1700000
/*
 * Most nodes of a program, where effort is limited: a memory plan takes 800
 * bytes for each.
 */
#define MOST_NODES 300000

uint32_t
search_nwanted(const struct search *s)
{
	return s->o->top ? s->o->top : 1;
}

uint32_t
search_nkept(const struct search *s)
{
	return 2 * s->o->top + KEPT;
}

void
search_set_worst(struct search *s)
{
	const struct search_found *at = s->out->found.at;
	uint32_t n = s->out->found.n, top = search_nkept(s);

	if (n >= s->enough) {
		s->worst_us = fmin(s->worst_us, BEYOND *
				   at[s->enough - 1].step_us);
	}
	if (n == top) {
		s->worst_us = fmin(s->worst_us, at[top - 1].step_us);
	}
}

uint64_t
search_effort(const struct search_report *r)
{
	return r->placed_nodes / 8 + r->staged_nodes / 96 + r->priced / 8 +
	       r->looked / 8192 + r->nodes / 96;
}

void
search_count(struct search *s)
{
	s->out->placements = s->pieces.placements;
	s->out->placed_nodes = s->pieces.placed_nodes;
	s->out->staged_nodes = s->pieces.staged_nodes;
}

bool
search_is_stopped(struct search *s, uint64_t nodes)
{
	uint64_t most = s->o->effort;

	if (most) {
		search_count(s);
		s->out->stopped |= nodes > MOST_NODES ||
				   search_effort(s->out) + nodes / 96 >= most;
	}
	return s->out->stopped;
}

double
search_seconds(const struct search *s)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9 - s->begin_s;
}

bool
search_is_interrupted(const struct search *s)
{
	return s->o->interrupted && *s->o->interrupted;
}

/* What is used of the limit, which is 1. */
static double
used(const struct search *s)
{
	return s->o->seconds > 0 ? search_seconds(s) / s->o->seconds
		: (double)(s->pieces.placed_nodes +
			   2 * s->pieces.priced_nodes) / MOST_PLACED;
}

bool
search_is_over(const struct search *s)
{
	return search_is_interrupted(s) || used(s) > 1;
}

bool
search_is_late(const struct search *s)
{
	return search_is_interrupted(s) || used(s) > 0.5;
}

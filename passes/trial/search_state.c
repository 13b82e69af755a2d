/*
 * How many plans a search keeps, when it ends before it has looked at all, and
 * what its rank programs have shown.
 */
#include "passes/trial/search_state.h"

#include <math.h>
#include <string.h>
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

/* ---- plans whose programs were made ---- */

bool
search_is_alike(const struct plan *a, const struct plan *b)
{
	return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep &&
	       a->pp == b->pp && a->dp == b->dp && a->zero == b->zero &&
	       a->offload == b->offload &&
	       strcmp(a->schedule, b->schedule) == 0;
}

bool
search_is_same(const struct plan *a, const struct plan *b)
{
	return search_is_alike(a, b) && a->microbatch == b->microbatch &&
	       a->interleave == b->interleave && a->sequence == b->sequence;
}

static const char *
recompute_of(const struct plan *p, uint32_t stage)
{
	return p->recompute_of ? p->recompute_of[stage] : p->recompute;
}

double
search_lacks(const struct search *s, const struct plan *p, uint32_t rank,
	     const uint32_t *of, uint32_t n, const char *const *words)
{
	double lacks = 0;
	uint32_t i, k;

	for (i = 0; i < s->unfit.n; i++) {
		const struct search_unfit *x = &s->unfit.at[i];

		if (!search_is_same(&x->plan, p) ||
		    x->plan.nstages != p->nstages ||
		    memcmp(x->plan.layers, p->layers,
			   p->nstages * sizeof *p->layers) != 0) {
			continue;
		}
		for (k = 0; k < n && x->rank == rank && isfinite(x->lacks) &&
		     strcmp(recompute_of(&x->plan, of[k]), words[k]) == 0;
		     k++) {
		}
		if (k == n || !isfinite(x->lacks)) {
			lacks = x->lacks > lacks ? x->lacks : lacks;
		}
	}
	return lacks;
}

static bool
same_stages(const struct plan *a, const struct plan *b)
{
	uint32_t i;

	for (i = 0; i < a->nstages && a->nstages == b->nstages; i++) {
		if (a->layers[i] != b->layers[i] ||
		    strcmp(recompute_of(a, i), recompute_of(b, i)) != 0) {
			return false;
		}
	}
	return a->nstages == b->nstages;
}

const struct search_found *
search_settled(const struct search *s, const struct plan *p)
{
	uint32_t i;

	for (i = 0; i < s->settled.n; i++) {
		const struct plan *x = &s->settled.at[i].plan;

		if (search_is_same(x, p) && same_stages(x, p)) {
			return &s->settled.at[i];
		}
	}
	return NULL;
}

bool
search_is_double(const struct search *s, uint32_t i)
{
	const struct search_found *at = s->settled.at;
	uint32_t k;

	for (k = 0; k < i && s->o->distinct; k++) {
		if (search_is_alike(&at[k].plan, &at[i].plan)) {
			return true;
		}
	}
	return false;
}

double
search_settled_us(const struct search *s, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < s->settled.n; i++) {
		n -= search_is_double(s, i) ? 0 : 1;
		if (n == 0) {
			return s->settled.at[i].step_us;
		}
	}
	return INFINITY;
}

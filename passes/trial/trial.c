/*
 * A plan that is tried: how it begins, and what it is as a plan.
 */
#include "passes/trial/trial.h"

#include <math.h>

/*
 * Sets the rank and the device group of each stage, as the schedule assigns
 * stages to ranks.
 */
static void
rank_stages(struct trial *x)
{
	uint32_t pp = (uint32_t)x->t->g->pp, chunks = (uint32_t)x->t->chunks;
	struct arena *a = &x->s->space.tmp;
	uint32_t i;

	x->rank_of = arena_alloc(a, x->nstages * sizeof *x->rank_of);
	x->stages = arena_alloc(a, x->nstages * sizeof *x->stages);
	x->first = arena_alloc(a, x->nstages * sizeof *x->first);
	x->like = arena_alloc(a, x->nstages * sizeof *x->like);
	for (i = 0; i < x->nstages; i++) {
		x->rank_of[i] = x->t->sched->vshape && i / pp % 2
			? pp - 1 - i % pp : i % pp;
		x->stages[x->rank_of[i] * chunks + i / pp] = i;
	}
	x->dev = space_devs_of_ranks(&x->s->space, x->t->g, a);
	x->chosen = arena_alloc(a, pp * sizeof *x->chosen);
	x->left = arena_alloc(a, pp * sizeof *x->left);
	x->work = arena_alloc(a, pp * sizeof *x->work);
	x->share = arena_alloc(a, pp * sizeof *x->share);
	x->shared = arena_alloc(a, pp * sizeof *x->shared);
	x->dev_of = arena_alloc(a, x->nstages * sizeof *x->dev_of);
	for (i = 0; i < x->nstages; i++) {
		x->dev_of[i] = x->dev[x->rank_of[i]];
	}
}

struct trial
trial_begin(struct search *s, struct space_plan *t)
{
	const struct space_degrees *g = t->g;
	struct trial x = {
		.s = s, .t = t, .nstages = (uint32_t)(g->pp * t->chunks),
		.key = { .tp = g->tp, .cp = g->cp, .ep = g->ep,
			 .data = g->dp > 1, .sequence = s->space.base.sequence,
			 .split = t->sched->split,
			 .solo = (s->space.nlayers < 3 || s->bounds.ties) &&
				 g->pp * t->chunks == 1 },
		.least_us = INFINITY
	};

	rank_stages(&x);
	x.choice = arena_alloc(&s->space.tmp, x.nstages * sizeof *x.choice);
	x.sure = arena_alloc(&s->space.tmp, x.nstages * sizeof *x.sure);
	x.quickest = arena_alloc(&s->space.tmp, x.nstages * sizeof *x.quickest);
	x.slot = arena_alloc(&s->space.tmp, (size_t)t->chunks *
			     sizeof *x.slot);
	return x;
}

bool
trial_is_asked(const struct trial *x)
{
	return !isfinite(x->s->worst_us) && !x->s->guessing;
}

void
trial_set_layers(struct trial *x, int64_t *layers)
{
	uint32_t i;

	x->layers = layers;
	for (i = 1; i < x->nstages; i++) {
		x->first[i] = x->first[i - 1] + layers[i - 1];
		x->like[i] = piece_same_stage(&x->s->space, x->first[i - 1],
					      x->first[i],
					      x->first[i] + layers[i])
			? x->like[i - 1] : i;
	}
}

bool
trial_has_link(const struct trial *x)
{
	return x->key.offload & (PLAN_OFFLOAD_SAVES | PLAN_OFFLOAD_PARAMS);
}

bool
trial_is_tight(const struct trial *x)
{
	uint32_t i;

	for (i = 0; i < x->nstages && x->choice[i] == x->quickest[i]; i++) {
	}
	return i < x->nstages;
}

/* ---- the plan ---- */

void
trial_keys(const struct trial *x, struct plan *p)
{
	*p = x->s->space.base;
	space_set_degrees(p, x->t->g);
	p->microbatch = x->t->microbatch;
	p->nmicrobatches = x->t->nmicrobatches;
	p->interleave = x->t->chunks;
	p->schedule = x->t->sched->name;
	p->zero = x->key.zero;
	p->sequence = x->key.sequence;
	p->offload = x->key.offload;
}

/* Sets `recompute`: one for all stages, or a list if stages differ. */
static void
set_recompute(const struct trial *x, struct plan *p)
{
	bool alike = true;
	uint32_t i;

	for (i = 1; i < x->nstages; i++) {
		alike &= x->choice[i] == x->choice[0];
	}
	p->recompute = x->ways_of->at.at[x->choice[0]].words;
	p->recompute_of = alike ? NULL
		: arena_alloc(x->s->a, x->nstages * sizeof *p->recompute_of);
	for (i = 0; !alike && i < x->nstages; i++) {
		p->recompute_of[i] = x->ways_of->at.at[x->choice[i]].words;
	}
}

void
trial_plan(const struct trial *x, struct plan *p)
{
	trial_keys(x, p);
	p->nstages = x->nstages;
	p->nranks = x->t->g->used;
	p->layers = arena_dup(x->s->a, x->layers, x->nstages *
			      sizeof *x->layers);
	set_recompute(x, p);
}

/* ---- plans that come close ---- */

#define MOST_CLOSE 6

/*
 * What ways between those of the stages and the next quicker ones may save of
 * the step, if what is on a front between two ways takes no less than the
 * quicker one.
 */
static double
between_us(const struct trial *x)
{
	uint32_t n = (uint32_t)x->t->chunks, i;
	double most = 0, us = 0;

	for (i = 0; i < x->nstages; i++) {
		uint32_t stage = x->stages[i], choice = x->choice[stage];
		int64_t lo = x->first[stage], hi = lo + x->layers[stage];
		const struct piece_choice *at = &x->ways_of->at.at[choice];

		us = i % n ? us : 0;
		us += choice ? piece_extra_us(&x->s->space, at, lo, hi) -
			       piece_extra_us(&x->s->space, at - 1, lo, hi) : 0;
		most = fmax(most, us);
	}
	return most * (double)(x->t->microbatch * x->t->nmicrobatches);
}

/* The index of a plan among those that are close, or where it may go. */
static uint32_t
index_of(const struct search *s, const struct plan *p)
{
	const struct search_close *at = s->close.at;
	uint32_t i, last = 0;

	for (i = 0; i < s->close.n && !search_is_same(&at[i].plan, p); i++) {
		last = at[i].us > at[last].us ? i : last;
	}
	return i < s->close.n || i < MOST_CLOSE ? i : last;
}

void
trial_note_close(const struct trial *x, double us)
{
	struct search *s = x->s;
	struct search_close c, *at = s->close.at;
	uint32_t i;
	bool same;

	for (i = 0; i < x->nstages && !x->choice[i]; i++) {
	}
	if (s->guessing || s->is_ahead || !x->ways_of || !x->ways_of->leaves ||
	    i == x->nstages) {
		return;
	}
	c.us = us;
	c.least_us = us - between_us(x);
	if (c.least_us >= s->worst_us) {
		return;
	}
	trial_keys(x, &c.plan);
	i = index_of(s, &c.plan);
	same = i < s->close.n && search_is_same(&at[i].plan, &c.plan);
	if (i < s->close.n && us >= at[i].us && !same) {
		return;
	}
	c.widened = same && at[i].widened;
	trial_plan(x, &c.plan);
	if (i < s->close.n) {
		at[i] = c;
	} else {
		VEC_PUSH(&s->space.keep, &s->close, c);
	}
}

/*
 * The device groups of the target: which there are, which one is quickest, and
 * on which of them the ranks of a pipeline lie.
 */
#include "passes/search/search_parts.h"

#include <math.h>

/* Leaves out the rates for 8 bits. */
double
search_float_rate(const struct target_device *d)
{
	double best = 0;
	int i;

	for (i = 0; i < TARGET_NRATES; i++) {
		best = i == TARGET_INT8 || i == TARGET_FP8 ? best
			: fmax(best, d->flops_us[i]);
	}
	return best;
}

double
search_best_rate(const struct target_group *g)
{
	const struct target_device *d = &g->device;
	double rate = search_float_rate(d) *
		      fmax(d->matrix_eff, d->attention_eff);
	uint32_t i;

	for (i = 0; i < g->nof; i++) {
		rate = fmin(i ? rate : INFINITY, search_best_rate(g->of[i]));
	}
	return rate;
}

const struct target_group *
search_quickest(const struct search *s)
{
	const struct target_group *best = s->devs.at[0];
	uint32_t i;

	for (i = 1; i < s->ngroups; i++) {
		const struct target_group *g = s->devs.at[i];

		best = search_best_rate(g) > search_best_rate(best) ? g : best;
	}
	return best;
}

static uint32_t
dev_of(const struct search *s, const struct target_group *g)
{
	uint32_t i;

	for (i = 0; i < s->devs.n && s->devs.at[i] != g; i++) {
	}
	return i;
}

/* Lists distinct device groups first, then sets of adjacent ones. */
void
search_find_devs(struct search *s)
{
	const struct target *t = s->o->target;
	uint32_t n, i;

	for (n = 0; n < t->groups.n; n++) {
		for (i = 0; i + n < t->groups.n; i++) {
			const struct target_group *g = target_span(t, i,
								   i + n);

			if (dev_of(s, g) == s->devs.n) {
				VEC_PUSH(&s->keep, &s->devs, g);
			}
		}
		s->ngroups = n ? s->ngroups : s->devs.n;
	}
}

void
search_devs(const struct search *s, const struct search_group *g,
	    struct arena *a, struct target_devs *out)
{
	const int64_t degree[PLAN_NAXES] = {
		[PLAN_PP] = g->pp, [PLAN_DP] = g->dp, [PLAN_EP] = g->ep,
		[PLAN_CP] = g->cp, [PLAN_TP] = g->tp
	};
	const enum plan_axis *mesh = s->base.mesh;
	bool outer = true;
	int i;

	for (i = 0; i < PLAN_NAXES && mesh[i] != PLAN_PP; i++) {
		outer &= degree[mesh[i]] == 1;
	}
	target_devs_assign(s->o->target, g->used, (uint32_t)g->pp, outer, a,
			   out);
}

uint32_t *
search_devs_of_ranks(const struct search *s, const struct search_group *g,
	     struct arena *a)
{
	uint32_t *dev = arena_alloc(a, (size_t)g->pp * sizeof *dev), i;
	struct target_devs at;

	search_devs(s, g, a, &at);
	for (i = 0; i < (uint32_t)g->pp; i++) {
		dev[i] = dev_of(s, target_devs_of(&at, i));
	}
	return dev;
}

double
search_capacity(const struct search *s, uint32_t dev)
{
	return floor(target_free_bytes(s->devs.at[dev]));
}

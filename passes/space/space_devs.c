/*
 * The device groups of the target: which there are, which one is quickest, and
 * on which of them the ranks of a pipeline lie.
 */
#include "passes/space/space.h"

#include <math.h>

/* Leaves out the rates for 8 bits and fewer. */
double
space_float_rate(const struct target_device *d)
{
	double best = 0;
	int i;

	for (i = 0; i < TARGET_NRATES; i++) {
		best = i == TARGET_INT8 || i == TARGET_FP8 || i == TARGET_FP4
			? best : fmax(best, d->flops_us[i]);
	}
	return best;
}

double
space_best_rate(const struct target_group *g)
{
	const struct target_device *d = &g->device;
	double rate = space_float_rate(d) *
		      fmax(d->matrix_eff, d->attention_eff);
	uint32_t i;

	for (i = 0; i < g->nof; i++) {
		rate = fmin(i ? rate : INFINITY, space_best_rate(g->of[i]));
	}
	return rate;
}

const struct target_group *
space_quickest(const struct space *s)
{
	const struct target_group *best = s->devs.at[0];
	uint32_t i;

	for (i = 1; i < s->nsingle; i++) {
		const struct target_group *g = s->devs.at[i];

		best = space_best_rate(g) > space_best_rate(best) ? g : best;
	}
	return best;
}

static uint32_t
dev_of(const struct space *s, const struct target_group *g)
{
	uint32_t i;

	for (i = 0; i < s->devs.n && s->devs.at[i] != g; i++) {
	}
	return i;
}

/* Lists distinct device groups first, then sets of adjacent ones. */
void
space_find_devs(struct space *s)
{
	const struct target *t = s->target;
	uint32_t n, i;

	for (n = 0; n < t->groups.n; n++) {
		for (i = 0; i + n < t->groups.n; i++) {
			const struct target_group *g = target_span(t, i,
								   i + n);

			if (dev_of(s, g) == s->devs.n) {
				VEC_PUSH(&s->keep, &s->devs, g);
			}
		}
		s->nsingle = n ? s->nsingle : s->devs.n;
	}
}

void
space_devs(const struct space *s, const struct space_degrees *g,
	   struct arena *a, struct target_devs *out)
{
	const enum plan_axis *mesh = s->base.mesh;
	bool outer = true;
	int i;

	for (i = 0; i < PLAN_NAXES && mesh[i] != PLAN_PP; i++) {
		outer &= space_degree(g, mesh[i]) == 1;
	}
	target_devs_assign(s->target, g->used, (uint32_t)g->pp, outer, a,
			   out);
}

uint32_t *
space_devs_of_ranks(const struct space *s, const struct space_degrees *g,
		    struct arena *a)
{
	uint32_t *dev = arena_alloc(a, (size_t)g->pp * sizeof *dev), i;
	struct target_devs at;

	space_devs(s, g, a, &at);
	for (i = 0; i < (uint32_t)g->pp; i++) {
		dev[i] = dev_of(s, target_devs_of(&at, i));
	}
	return dev;
}

double
space_capacity(const struct space *s, uint32_t dev)
{
	return floor(target_free_bytes(s->devs.at[dev]));
}

double
space_all_memory(const struct target *t)
{
	double all = 0;
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *g = &t->groups.at[i];
		const struct target_device *d = &g->device;
		double n = (double)(g->devices * g->nodes);

		if (d->nvme_bytes_us > 0 && d->nvme_memory_bytes <= 0) {
			all = INFINITY;	/* no limit is known */
		}
		all += n * (d->memory_bytes + d->host_memory_bytes +
			    (d->nvme_bytes_us > 0 ? d->nvme_memory_bytes : 0));
	}
	return all;
}

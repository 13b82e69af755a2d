/*
 * Degrees: by axis, as part of a plan, and compared.
 */
#include "passes/space/space.h"

int64_t
space_degree(const struct space_degrees *g, enum plan_axis axis)
{
	const int64_t degree[PLAN_NAXES] = {
		[PLAN_PP] = g->pp, [PLAN_DP] = g->dp, [PLAN_EP] = g->ep,
		[PLAN_CP] = g->cp, [PLAN_TP] = g->tp
	};

	return degree[axis];
}

int64_t
space_apart(const struct space *s, const struct space_degrees *g,
	    enum plan_axis axis)
{
	int64_t apart = 1;
	int i;

	for (i = PLAN_NAXES; s->base.mesh[i - 1] != axis; i--) {
		apart *= space_degree(g, s->base.mesh[i - 1]);
	}
	return apart;
}

bool
space_has_degrees(const struct plan *p, const struct space_degrees *g)
{
	return g->tp == p->tp && g->cp == p->cp && g->ep == p->ep &&
	       g->pp == p->pp && g->dp == p->dp;
}

void
space_set_degrees(struct plan *p, const struct space_degrees *g)
{
	p->tp = g->tp;
	p->cp = g->cp;
	p->ep = g->ep;
	p->dp = g->dp;
	p->pp = g->pp;
}

bool
space_same_sharding(const struct space_degrees *a,
		    const struct space_degrees *b)
{
	return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep;
}

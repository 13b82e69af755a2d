/*
 * Whether hosts have memory for the optimizer's state that a plan offloads.
 * The devices of a node share its host, and may run several ranks of a
 * pipeline.  So nodes are checked, not ranks, once layers by stage are known.
 */
#include "passes/search/search_trial.h"

/*
 * Notes, of plans that do not fit in the memory of hosts, the one that needs
 * least.
 */
static void
note_host(struct trial *x, const struct target_host *h)
{
	struct search_report *out = x->s->out;
	struct search_near *n = &out->host;

	if (out->any_host && h->bytes >= (double)n->bytes) {
		return;
	}
	out->any_host = true;
	n->bytes = (int64_t)h->bytes;
	n->capacity = (int64_t)h->has;
	n->device = "";
	trial_plan(x, &n->plan);
}

/*
 * Distance in devices between successive ranks of the pipeline: the product of
 * the axes inside of pp.
 */
static int64_t
pipes_apart(const struct trial *x)
{
	const struct search_group *g = x->t->g;
	const int64_t degree[PLAN_NAXES] = {
		[PLAN_PP] = g->pp, [PLAN_DP] = g->dp, [PLAN_EP] = g->ep,
		[PLAN_CP] = g->cp, [PLAN_TP] = g->tp
	};
	int64_t apart = 1;
	int i;

	for (i = PLAN_NAXES; x->s->base.mesh[i - 1] != PLAN_PP; i--) {
		apart *= degree[x->s->base.mesh[i - 1]];
	}
	return apart;
}

bool
trial_fits_hosts(struct trial *x)
{
	struct search_update *u = trial_update(x);
	uint32_t pp = (uint32_t)x->t->g->pp, i;
	double *bytes = arena_alloc(&x->s->tmp, pp * sizeof *bytes);
	struct target_hosted h = { x->t->g->used, pp, pipes_apart(x), bytes };
	struct target_host full;

	for (i = 0; i < x->nstages; i++) {
		bytes[x->rank_of[i]] += search_host_bytes(x->s, u, x->first[i],
				x->first[i] + x->layers[i]);
	}
	full = target_fullest_host(x->s->o->target, &h);
	if (full.has <= 0 || full.bytes <= full.has) {
		return true;
	}
	if (trial_is_asked(x)) {
		note_host(x, &full);
	}
	return false;
}

/*
 * Whether hosts have memory for what a plan offloads.
 * The devices of a node share its host, and may run several ranks of a
 * pipeline.  So nodes are checked, not ranks, once layers by stage are known.
 */
#include "passes/trial/trial.h"

/*
 * Notes, of plans that do not fit in the memory of hosts, the one that needs
 * least.
 */
static void
note_host(struct trial *x, const struct target_host *h, bool drives)
{
	struct search_report *out = x->s->out;
	struct search_near *n = &out->host;

	if (out->any_host && h->bytes >= (double)n->bytes) {
		return;
	}
	out->any_host = true;
	n->bytes = (int64_t)h->bytes;
	n->capacity = (int64_t)h->has;
	n->device = drives ? "nvme_memory" : "host_memory";
	trial_plan(x, &n->plan);
}

/* Bytes of what layers save, on the host of a rank. */
static double
saves_bytes(struct trial *x, uint32_t rank)
{
	uint32_t n = (uint32_t)x->t->chunks, k, i;
	const uint32_t *of = &x->stages[rank * n];
	double bytes = 0;

	for (k = 0; k < SPACE_NSPANS; k++) {
		for (i = 0; i < n; i++) {
			x->slot[i] = x->plain[of[i]].host[k];
		}
		bytes += space_pool_bytes(&x->s->space, x->t->slots, k, rank,
					  of, n, x->slot);
	}
	return bytes;
}

/* Whether nodes have room for that, in their memory or on their drives. */
static bool
has_room(struct trial *x, const double *bytes, bool drives)
{
	struct target_hosted h = { x->t->g->used, (uint32_t)x->t->g->pp,
				   space_apart(&x->s->space, x->t->g,
						PLAN_PP), bytes, drives };
	struct target_host full = target_fullest_host(x->s->o->target, &h);

	if (!target_has_room(&full) && trial_is_asked(x)) {
		note_host(x, &full, drives);
	}
	return target_has_room(&full);
}

bool
trial_fits_hosts(struct trial *x)
{
	const struct space *space = &x->s->space;
	struct piece_update *u = trial_update(x);
	bool drives = plan_on_drives(x->key.offload) != 0;
	uint32_t pp = (uint32_t)x->t->g->pp, i;
	double *state = arena_alloc(&x->s->space.tmp, pp * sizeof *state);
	double *host = arena_alloc(&x->s->space.tmp, pp * sizeof *host);

	for (i = 0; i < x->nstages; i++) {
		int64_t lo = x->first[i], hi = lo + x->layers[i];
		double there = piece_sum(space, u->drives, lo, hi);

		state[x->rank_of[i]] += there;
		host[x->rank_of[i]] += piece_sum(space, u->host, lo, hi) -
				       there;
	}
	for (i = 0; i < pp; i++) {
		host[i] += saves_bytes(x, i);
	}
	return has_room(x, host, false) && (!drives ||
					    has_room(x, state, true));
}

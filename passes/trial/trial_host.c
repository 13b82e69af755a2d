/*
 * Whether hosts have memory for what a plan offloads.
 * The devices of a node share its host, and may run several ranks of a
 * pipeline.  So nodes are checked, not ranks, once layers by stage are known.
 */
#include "passes/trial/trial_fit.h"

#include <math.h>

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

struct trial_states
trial_find_states(struct trial *x)
{
	const struct space *space = &x->s->space;
	struct piece_update *u = trial_update(x);
	size_t size = (size_t)x->t->g->pp * sizeof(double);
	struct trial_states of = { arena_alloc(&x->s->space.tmp, size),
			     arena_alloc(&x->s->space.tmp, size) };
	uint32_t i;

	for (i = 0; i < x->nstages; i++) {
		int64_t lo = x->first[i], hi = lo + x->layers[i];
		double there = piece_sum(space, u->drives, lo, hi);

		of.drives[x->rank_of[i]] += there;
		of.host[x->rank_of[i]] += piece_sum(space, u->host, lo, hi) -
					  there;
	}
	return of;
}

double
trial_least_saves(struct trial *x, uint32_t stage, uint32_t way)
{
	return trial_then_bytes(x, stage, trial_sure_of(x, stage)[way].slot);
}

/* Adds to what ranks have on hosts what they save there with any ways. */
static void
add_least_saves(struct trial *x, double *bytes)
{
	double least = 0;
	uint32_t i, w;

	for (i = 0; i < x->nstages && x->key.offload & PLAN_OFFLOAD_SAVES;
	     i++) {
		least = INFINITY;
		for (w = 0; w < x->ways_of->at.n; w++) {
			least = lesser(least, trial_least_saves(x, i, w));
		}
		bytes[x->rank_of[i]] += least;
	}
}

/* The most that ranks may have, if all others of their nodes have least. */
struct most {
	struct trial *x;
	struct target_hosted hosted;
	const double *states;	/* of hosted.bytes, what is not saved */
};

static void
see_most(void *user, const struct target_host *h)
{
	struct most *m = user;
	int64_t i, k;

	for (i = h->lo; i < h->hi && h->has > 0; i++) {
		uint32_t rank = target_place(&m->hosted, i);
		double times = 0, own = m->hosted.bytes[rank] -
					m->states[rank];

		for (k = h->lo; k < h->hi; k++) {
			times += target_place(&m->hosted, k) == rank;
		}
		m->x->share[rank] = lesser(m->x->share[rank],
			(h->has - h->bytes) / times + own);
	}
}

bool
trial_may_fit_hosts(struct trial *x)
{
	struct trial_states of = trial_find_states(x);
	uint32_t pp = (uint32_t)x->t->g->pp, i;
	struct most m = {
		x, { x->t->g->used, pp,
		     space_apart(&x->s->space, x->t->g, PLAN_PP),
		     NULL, false }, of.host
	};
	double *bytes = arena_dup(&x->s->space.tmp, of.host,
				  pp * sizeof *bytes);

	add_least_saves(x, bytes);
	for (i = 0; i < pp; i++) {
		x->share[i] = INFINITY;
	}
	m.hosted.bytes = bytes;
	if (x->key.offload & PLAN_OFFLOAD_SAVES) {
		target_each_host(x->s->o->target, &m.hosted, see_most, &m);
	}
	return has_room(x, bytes, false) &&
	       (!plan_on_drives(x->key.offload) ||
		has_room(x, of.drives, true));
}

double
trial_host_bytes(const struct trial_rank *f)
{
	struct trial *x = f->x;
	double bytes = 0;
	uint32_t k, i;

	for (k = 0; k < SPACE_NSPANS && x->key.offload & PLAN_OFFLOAD_SAVES;
	     k++) {
		for (i = 0; i < f->n; i++) {
			x->slot[i] = f->keeps[i].host[k];
		}
		bytes += space_pool_bytes(&x->s->space, x->t->slots, k, f->rank,
					  f->of, f->n, x->slot);
	}
	return bytes;
}

void
trial_add_saves(struct trial_rank *f, double *bytes, double *saves)
{
	uint32_t i;

	for (i = 0; i < f->x->t->g->pp; i++) {
		trial_turn_to(f, i);
		trial_chosen_bytes(f, !f->x->s->guessing);
		saves[i] = trial_host_bytes(f);
		bytes[i] += saves[i];
	}
}

void
trial_note_hosts(struct trial_rank *f)
{
	struct trial *x = f->x;
	struct trial_states of = trial_find_states(x);
	double *saves = arena_alloc(&x->s->space.tmp, (size_t)x->t->g->pp *
				    sizeof *saves);

	trial_add_saves(f, of.host, saves);
	has_room(x, of.host, false);
}

/*
 * How ranks share the memory of their node's host, if what layers save lies
 * there.  A host of one rank of the pipeline is that rank's.  If there are
 * several, each gets what it has if the slowest of them is as quick as it can
 * be, and a part of what is left: other shares may be better.
 */
#include "passes/trial/trial_fit.h"

#include <math.h>

/* The ranks of a node. */
struct node {
	uint32_t n;
	uint32_t *of;		/* places in the pipeline */
	double *times;		/* so many of each are in the node */
	double room;		/* bytes for what all of them save */
};

#define PRICES 48		/* of a byte on the host, each half again as
				 * high as the one before */

/*
 * Ways of a rank, and what they take more than the quickest and have on the
 * host.  Of one stage all of them; of more those that take least if a byte has
 * some price.
 */
struct host_point {
	double us, bytes;
};

/* Points of a rank. */
struct host_points {
	const struct host_point *at;	/* NULL: not known yet */
	uint32_t n;
};

/* Ranks while they get shares. */
struct shares {
	struct trial_rank *f;
	struct target_hosted hosted;
	double *saves;		/* by rank, of the quickest ways */
	struct host_points *points;	/* by rank */
};

/* ---- ways of a rank ---- */

/* Ways of the rank at a price of a byte, as guessed. */
static struct host_point
choose_at(struct trial_rank *f, double price)
{
	struct host_point p = { 0, 0 };
	double least, us;
	uint32_t i, w;

	for (i = 0; i < f->n; i++) {
		const struct trial_ways *of = trial_ways_of(f, f->of[i]);
		uint32_t best = 0;

		least = INFINITY;
		for (w = 0; w < f->x->ways_of->at.n; w++) {
			us = of->us[w] + price *
				trial_then_bytes(f->x, f->of[i],
						 of->keeps[w].host);
			best = us < least ? w : best;
			least = lesser(least, us);
		}
		p.us += of->us[best];
		f->keeps[i] = of->keeps[best];
	}
	p.bytes = trial_host_bytes(f);
	return p;
}

/* All ways of a rank of one stage. */
static struct host_points
all_ways(struct trial_rank *f)
{
	struct trial *x = f->x;
	const struct trial_ways *of = trial_ways_of(f, f->of[0]);
	uint32_t n = x->ways_of->at.n, i;
	struct host_point *at = arena_alloc(&x->s->space.tmp, n * sizeof *at);

	for (i = 0; i < n; i++) {
		f->keeps[0] = of->keeps[i];
		at[i].us = of->us[i];
		at[i].bytes = trial_host_bytes(f);
	}
	return (struct host_points){ at, n };
}

static struct host_points
points_of(struct shares *s, uint32_t rank)
{
	struct trial *x = s->f->x;
	double price = x->bound_us / (double)x->t->nmicrobatches /
		       (s->saves[rank] + 1) / 1024;
	struct host_points *to = &s->points[rank];
	struct host_point *at;
	uint32_t i;

	if (to->at) {
		return *to;
	}
	trial_turn_to(s->f, rank);
	if (s->f->n == 1) {
		*to = all_ways(s->f);
		return *to;
	}
	at = arena_alloc(&x->s->space.tmp, PRICES * sizeof *at);
	for (i = 0; i < PRICES; i++, price *= 1.5) {
		at[i] = choose_at(s->f, price);
	}
	*to = (struct host_points){ at, PRICES };
	return *to;
}

/* ---- ranks of a node ---- */

/* The fewest bytes of a rank that takes at most `us` for a microbatch. */
static double
rank_bytes(struct shares *s, uint32_t rank, double us)
{
	const struct trial *x = s->f->x;
	double fewest = s->saves[rank];
	struct host_points p;
	uint32_t i;

	us -= x->work[rank] / (double)x->t->nmicrobatches;
	if (us < 0) {
		return fewest;
	}
	p = points_of(s, rank);
	for (i = 0; i < p.n; i++) {
		if (p.at[i].us <= us) {
			fewest = lesser(fewest, p.at[i].bytes);
		}
	}
	return fewest;
}

static double
node_bytes(struct shares *s, const struct node *node, double us)
{
	double all = 0;
	uint32_t i;

	for (i = 0; i < node->n; i++) {
		all += node->times[i] * rank_bytes(s, node->of[i], us);
	}
	return all;
}

/* The least time of the slowest rank with which the node has room. */
static double
slowest_us(struct shares *s, const struct node *node)
{
	const struct trial *x = s->f->x;
	double lo = 0, hi = 0;
	uint32_t i;

	for (i = 0; i < node->n; i++) {
		hi = larger(hi, x->work[node->of[i]] /
				(double)x->t->nmicrobatches);
	}
	for (i = 0; i < 16 && node_bytes(s, node, hi) > node->room; i++) {
		lo = hi;
		hi *= 2;
	}
	while (hi - lo > 1e-5 * hi) {
		double mid = (lo + hi) / 2;

		if (node_bytes(s, node, mid) <= node->room) {
			hi = mid;
		} else {
			lo = mid;
		}
	}
	return hi;
}

/*
 * Gives the ranks of a node shares, which add up to what it has room for.
 * needs: of their quickest ways.
 */
static void
share_room(struct shares *s, const struct node *node, double needs)
{
	struct trial *x = s->f->x;
	bool fits = needs <= node->room;
	double us = fits ? 0 : slowest_us(s, node), ranks = 0;
	double all = fits ? needs : node_bytes(s, node, us);
	uint32_t i;

	for (i = 0; i < node->n; i++) {
		ranks += node->times[i];
	}
	for (i = 0; i < node->n; i++) {
		uint32_t rank = node->of[i];
		double has = fits ? s->saves[rank] : rank_bytes(s, rank, us);

		/* if no ways are known to fit, none has what it needs */
		has = all > node->room ? has * (node->room / all)
			: has + (node->room - all) / ranks;
		x->share[rank] = lesser(x->share[rank], has);
		x->shared[rank] |= node->n > 1;
	}
}

/* ---- nodes ---- */

/* Adds a rank to those of a node. */
static void
add_rank(struct node *node, uint32_t rank)
{
	uint32_t i;

	for (i = 0; i < node->n && node->of[i] != rank; i++) {
	}
	node->of[i] = rank;
	node->times[i]++;
	node->n += i == node->n;
}

static void
see_host(void *user, const struct target_host *h)
{
	struct shares *s = user;
	struct trial *x = s->f->x;
	struct arena *a = &x->s->space.tmp;
	size_t n = (size_t)(h->hi - h->lo);
	struct node node = { 0 };
	double needs = 0;
	int64_t i;

	if (h->has <= 0) {
		return;
	}
	node.of = arena_alloc(a, n * sizeof *node.of);
	node.times = arena_alloc(a, n * sizeof *node.times);
	for (i = h->lo; i < h->hi; i++) {
		uint32_t rank = target_place(&s->hosted, i);

		add_rank(&node, rank);
		needs += s->saves[rank];
	}
	node.room = fmax(h->has - (h->bytes - needs), 0);
	x->drives_help |= needs > node.room;
	share_room(s, &node, needs);
}

void
trial_set_shares(struct trial_rank *f)
{
	struct trial *x = f->x;
	struct arena *a = &x->s->space.tmp;
	uint32_t pp = (uint32_t)x->t->g->pp, i;
	struct shares s = { .f = f };
	struct trial_states of;

	for (i = 0; i < pp; i++) {
		x->share[i] = INFINITY;
		x->shared[i] = false;
	}
	if (!(x->key.offload & PLAN_OFFLOAD_SAVES)) {
		return;
	}
	of = trial_find_states(x);
	s.saves = arena_alloc(a, pp * sizeof *s.saves);
	s.points = arena_alloc(a, pp * sizeof *s.points);
	trial_add_saves(f, of.host, s.saves);
	trial_set_chosen(x, true);
	if (trial_bound(x)) {
		s.hosted = (struct target_hosted){
			x->t->g->used, pp,
			space_apart(&x->s->space, x->t->g, PLAN_PP), of.host,
			false
		};
		target_each_host(x->s->o->target, &s.hosted, see_host, &s);
	}
}

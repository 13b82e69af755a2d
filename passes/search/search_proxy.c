/*
 * Proxies: lower bounds of the time and bytes of each piece of a sharding that
 * is not placed, from another that is.  search_try.c tries a plan with these,
 * with its own schedule, stages and recomputing, and leaves it out if it cannot
 * win.
 *
 * What is saved from forward to backward depends only on how far tensors are
 * split, and on `sequence`.  Weights, gradients and optimizer state are scaled
 * to the plan's own ZeRO.  The time is the largest lower bound known from any
 * sharding.
 */
#include "passes/search/search_parts.h"

#include <math.h>

/*
 * A rank saves from forward to backward at least this part of its share of what
 * all ranks of the proxy save, with any ZeRO, data ranks, `sequence` and
 * schedule.  The ratio was 1.000 in 2,200,000 pairs of pieces of all examples;
 * it was 0.988 in one of 1,200,000 of drawn models, where saves of a few bytes
 * are aligned.
 */
#define HELD 0.985
/*
 * When backward is split into two functions, activations live at least as long
 * as before; between the two, at least half of their bytes are live (measured:
 * 0.528 at the least of 54,000 pieces).
 */
#define BETWEEN 0.5
/*
 * The least part of the proxy's temporary bytes that a function needs: measured
 * 0.89 at the least of 14,000, apart from a few KiB.
 */
#define TEMPS 0.85

/* The share of b's rank in what a rank of a has, with fewer tensor ranks. */
static double
part_of(const struct search_key *a, const struct search_key *b)
{
	return (double)a->tp / (double)b->tp;
}

static bool
holds_no_more(const struct search_sharding *w, const struct search_key *key)
{
	const struct search_key *k = &w->key;

	return !w->bad && !k->choice && !k->microbatch && !k->split &&
	       k->solo == key->solo && k->ep == key->ep && k->cp == key->cp &&
	       key->tp % k->tp == 0 && (k->tp == key->tp || k->cp == 1) &&
	       (k->sequence || !key->sequence || k->tp == 1);
}

/*
 * Whether the time of k is a lower bound, also with recomputing: where ZeRO
 * splits gradients or weights in a microbatch, recomputing gathers them again.
 */
static bool
takes_no_more(const struct search *s, const struct search_key *k,
	      const struct search_key *key)
{
	return search_is_bound_for(s, k, key) &&
	       (k->zero < 2 || k->zero <= key->zero);
}

/* Whether a is a better proxy for key than b. */
static bool
is_nearer(const struct search *s, const struct search_key *a,
	  const struct search_key *b, const struct search_key *key)
{
	bool of_a = takes_no_more(s, a, key), of_b = takes_no_more(s, b, key);

	return a->tp != b->tp ? a->tp > b->tp
		: a->sequence != b->sequence ? a->sequence == key->sequence
		: of_a != of_b ? of_a
		: search_cost_share(s, a, key, false) >
		  search_cost_share(s, b, key, false);
}

/*
 * The best proxy; with `both`, one that bounds the time of recomputing, too.
 * NULL: there is none, or the sharding itself is made.
 */
static struct search_sharding *
find_nearest(const struct search *s, const struct search_key *key, bool both)
{
	struct search_sharding *best = NULL;
	uint32_t i;

	for (i = 0; i < s->shardings.n; i++) {
		struct search_sharding *w = s->shardings.at[i];

		if (search_same_key(&w->key, key)) {
			return NULL;
		}
		if (holds_no_more(w, key) &&
		    (!both || takes_no_more(s, &w->key, key)) &&
		    (!best || is_nearer(s, &w->key, &best->key, key))) {
			best = w;
		}
	}
	return best;
}

/*
 * Whether temporary bytes of k bound those of key.  With ZeRO 0 gradients may
 * be summed on arrival, with 2 and 3 they always are.
 */
static bool
is_alike(const struct search_key *k, const struct search_key *key)
{
	return k->tp == key->tp && k->split == key->split &&
	       k->sequence == key->sequence &&
	       (k->zero == 1 ? key->zero > 0 : k->zero == 0 && !k->data);
}

static void
scale_bytes(const struct search_proxy *x, const struct search_key *key,
	    const struct search_cost *c, struct search_cost *out)
{
	double held = HELD * x->part;
	uint32_t i, k;

	for (i = 0; i < PIECE_MAX; i++) {
		const struct search_bytes *b = &c->bytes[i];

		for (k = 0; k < SEARCH_NSPANS; k++) {
			out->bytes[i].slot[k] = held * b->slot[k];
		}
		if (key->split) {
			out->bytes[i].slot[MEMORY_BETWEEN] =
				held * BETWEEN * b->slot[MEMORY_TO_INPUT];
		}
		out->bytes[i].waits = x->part * b->waits;
	}
}

/* Sets temporary bytes to the largest lower bound. */
static void
set_temps(struct search *s, const struct search_key *key,
	  const struct search_try *t, struct search_cost *out)
{
	uint32_t i, k;

	for (i = 0; i < s->shardings.n; i++) {
		const struct search_key *of = &s->shardings.at[i]->key;
		const struct search_cost *c;

		if (!holds_no_more(s->shardings.at[i], key) ||
		    !is_alike(of, key)) {
			continue;
		}
		c = search_cost_of(s, of, t);
		for (k = 0; k < PIECE_MAX; k++) {
			out->bytes[k].temp = fmax(out->bytes[k].temp,
						  TEMPS * c->bytes[k].temp);
		}
	}
}

/*
 * Sets times to the largest lower bounds that are known for the key, and with
 * x->both no less than the proxy's own share of the price of its pieces.
 */
static void
scale_us(struct search *s, const struct search_proxy *x,
	 const struct search_key *key, const struct search_try *t,
	 struct search_cost *c, struct search_cost *out)
{
	enum sched_kind rest = key->split ? SCHED_W : SCHED_B;
	bool own = x->both;
	double n = (double)t->microbatch;
	struct search_pieces us;
	uint32_t i, k;

	search_known_pieces(s, key, t, &us);
	if (own) {
		search_price(s, &x->key, t, c, 0);
	}
	for (i = 0; i < PIECE_BODY + s->nkinds; i++) {
		struct price_func *fn = out->on[0]->fn[i];
		double all = n * us.all[i];

		for (k = 0; own && k < SCHED_NKINDS; k++) {
			fn[k == SCHED_B ? rest : k].total_us +=
				x->share * search_least_us(s, c, i, k);
		}
		fn[SCHED_F].total_us = fmax(fn[SCHED_F].total_us,
					    n * us.forward[i]);
		for (k = 0; k < SCHED_NKINDS; k++) {
			all -= fn[k].total_us;
		}
		fn[rest].total_us += fmax(all, 0);
	}
}

void
search_proxy_choices(struct search *s, const struct search_proxy *x,
		     const struct search_try *t)
{
	struct search_cost *c = search_cost_of(s, &x->key, t);
	uint32_t i, k;

	search_choices(s, &x->key, t, c);
	for (i = x->cost->choices.n; i < c->choices.n; i++) {
		struct search_choice one = c->choices.at[i];

		for (k = 0; k < s->nkinds; k++) {
			one.extra_us[k] *= x->share;
			one.less[k] *= x->part;
		}
		VEC_PUSH(&s->tmp, &x->cost->choices, one);
	}
}

static struct search_cost *
cost_as(struct search *s, const struct search_proxy *x,
	const struct search_key *key, const struct search_try *t)
{
	struct search_cost *c = search_cost_of(s, &x->key, t);
	struct search_cost *out = arena_alloc(&s->tmp, sizeof *out);

	out->microbatch = c->microbatch;
	out->dp = c->dp;
	out->on = arena_alloc(&s->tmp, sizeof *out->on);
	out->on[0] = arena_alloc(&s->tmp, sizeof *out->on[0]);
	out->hop_us = x->part * search_hop_us(s, &x->key, t, c);
	out->hop_pp = t->g->pp;
	scale_us(s, x, key, t, c, out);
	scale_bytes(x, key, c, out);
	set_temps(s, key, t, out);
	return out;
}

bool
search_find_proxy(struct search *s, const struct search_key *key,
		const struct search_try *t, bool both,
		struct search_proxy *out)
{
	const struct search_sharding *w = NULL;
	struct search_key here = *key;

	here.offload = false;
	if (s->devs.n == 1 && !key->microbatch) {
		w = find_nearest(s, &here, both);
	}
	if (!w) {
		return false;
	}
	out->key = w->key;
	out->both = takes_no_more(s, &w->key, key);
	out->share = !out->both ? 0
		: search_cost_share(s, &w->key, key,
			       w->on->at.microbatch > t->microbatch);
	out->part = part_of(&w->key, key);
	out->cost = cost_as(s, out, key, t);
	out->update = arena_alloc(&s->tmp, sizeof *out->update);
	search_fix_as(w, key, t->g->dp, out->update);
	return true;
}

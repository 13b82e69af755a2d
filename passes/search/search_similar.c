/*
 * Estimates from similar shardings, which save placements: lower bounds for a
 * sharding that is not placed, from others that were priced; and what a
 * placement made for a given microbatch may gain.
 */
#include "passes/search/search_parts.h"

#include <math.h>

/* ---- with the same axes ---- */

bool
search_is_plain(const struct search_key *k)
{
	return !k->choice && !k->split && !k->microbatch;
}

/* The greatest common divisor of all dims that an axis splits. */
static int64_t
find_parts(const struct ir_module *m, axis_id a)
{
	int64_t parts = 0;
	uint32_t v;

	for (v = 1; v < m->values.n; v++) {
		struct ir_along x = ir_along(ir_type(m, v), a);

		if (x.how == IR_IS_SPLIT) {
			parts = num_gcd(ir_dim_size(m, x.dim), parts);
		}
	}
	return parts;
}

/* Whether w's tensor ranks are one axis, which can have the length tp. */
static bool
may_split(struct search *s, struct search_sharding *w, int64_t tp)
{
	if (!w->parts) {
		search_reopen(s, w);
		w->parts = search_axis(w->m, "tpr") ? 1
			: find_parts(w->m, search_axis(w->m, "tp"));
	}
	return w->parts % tp == 0;
}

/*
 * Whether the placement of the key would have the same axes as w's, maybe of
 * other lengths.  With ZeRO 0 and 1, w's data axis may have length 1, since
 * data ranks communicate in updates only.
 */
static bool
is_like(struct search *s, struct search_sharding *w,
	const struct search_key *key)
{
	const struct search_key *k = &w->key;

	return !w->bad && search_is_plain(k) && search_same_programs(k, key) &&
	       (k->data == key->data || (k->data && k->zero < 2)) &&
	       (k->cp > 1) == (key->cp > 1) && (k->ep > 1) == (key->ep > 1) &&
	       (k->tp == key->tp ||
		(k->tp > 1 && key->tp > 1 && may_split(s, w, key->tp)));
}

/* ---- with more tensor ranks than one that is placed ---- */

/*
 * The bound of a rank is SUM_SHARE of a sum: its part of the time of a single
 * rank, and a share of the excess, the time by which a rank of the other
 * sharding exceeds its own part.  The share is LONGER if the other has only
 * fewer tensor ranks, at most EXPERTS if fewer ranks split its experts, and at
 * most OTHER if its `sequence` differs.  Measured for all examples on
 * clusters of H100, A100 and RTX 4090, at three microbatches, each placed for
 * any of these: the ratio without SUM_SHARE was at least 0.990 in 210,676 pairs
 * with LONGER, 0.991 in 136,992 with EXPERTS, 0.985 in 158,872 with OTHER.
 * Split contexts were not measured, and get no bound.
 */
#define SUM_SHARE 0.98
#define LONGER 0.9
#define EXPERTS 0.6
#define OTHER 0.35

/*
 * Whether w may serve as a bound for t.  A placement for a larger microbatch
 * may not: it may communicate more than t needs.
 */
static bool
is_usable(const struct search_sharding *w, const struct search_try *t)
{
	return !w->bad && search_is_plain(&w->key) && w->key.zero < 2 &&
	       w->on->at.microbatch <= t->microbatch;
}

/* The share of k's excess that counts in the bound of key; 0: no bound. */
static double
excess_share(const struct search_key *k, const struct search_key *key)
{
	double share = k->sequence == key->sequence ? LONGER : OTHER;

	if (k->tp == 1 || key->tp % k->tp != 0 || key->ep % k->ep != 0 ||
	    k->cp > 1 || key->cp > 1 || k->solo != key->solo ||
	    k->data != key->data) {
		return 0;
	}
	return k->ep == key->ep ? share : fmin(share, EXPERTS);
}

static bool
is_better(const struct search_key *a, const struct search_key *b,
	  const struct search_key *key)
{
	double x = excess_share(a, key), y = excess_share(b, key);

	return x != y ? x > y : a->tp != b->tp ? a->tp > b->tp : a->ep > b->ep;
}

/* The sharding whose excess counts most; NULL: none. */
static struct search_sharding *
nearest(const struct search *s, const struct search_key *key,
       const struct search_try *t)
{
	struct search_sharding *best = NULL;
	uint32_t i;

	for (i = 0; i < s->shardings.n; i++) {
		struct search_sharding *w = s->shardings.at[i];

		if (is_usable(w, t) && excess_share(&w->key, key) > 0 &&
		    (!best || is_better(&w->key, &best->key, key))) {
			best = w;
		}
	}
	return best;
}

/* The usable sharding with one tensor rank and that ep; NULL: none. */
static struct search_sharding *
single(const struct search *s, const struct search_key *key,
       const struct search_try *t, int64_t ep)
{
	uint32_t i;

	for (i = 0; i < s->shardings.n; i++) {
		struct search_sharding *w = s->shardings.at[i];
		const struct search_key *k = &w->key;

		if (is_usable(w, t) && k->tp == 1 && k->ep == ep &&
		    k->cp == 1 && k->solo == key->solo) {
			return w;
		}
	}
	return NULL;
}

static void
pieces_of(struct search *s, const struct search_sharding *w,
	  const struct search_try *t, struct search_pieces *out)
{
	struct search_cost *c = search_cost_of(s, &w->key, t);

	search_price(s, &w->key, t, c, 0);
	search_least_pieces(s, c, out);
}

/*
 * The bound of a piece from times: `us` in the other sharding, `one` on a
 * single tensor rank with the key's ep, `other_single` with the other's ep.
 */
static double
least(const struct search_key *key, double one, const struct search_key *other,
      double other_single, double us)
{
	double more = fmax(us - other_single / (double)other->tp, 0);

	return SUM_SHARE * (one / (double)key->tp +
			    excess_share(other, key) * more);
}

void
search_bound_tensor(struct search *s, const struct search_key *key,
	     const struct search_try *t)
{
	struct search_sharding *w = nearest(s, key, t), *one, *other_single;
	struct search_pieces part, other_part, other, us;
	uint32_t i;

	if (!w || key->zero > 1 || search_tensor_bound_from(s, key, t) == w) {
		return;
	}
	one = single(s, key, t, key->ep);
	other_single = single(s, key, t, w->key.ep);
	if (!one || !other_single) {
		return;
	}
	pieces_of(s, one, t, &part);
	pieces_of(s, other_single, t, &other_part);
	pieces_of(s, w, t, &other);
	for (i = 0; i < PIECE_MAX; i++) {
		us.all[i] = least(key, part.all[i], &w->key, other_part.all[i],
				  other.all[i]);
		us.forward[i] = least(key, part.forward[i], &w->key,
				      other_part.forward[i], other.forward[i]);
	}
	search_add_tensor_bound(s, key, t, w, &us);
}

/* ---- bounds for a sharding that is not placed ---- */

/* The better bound for the key of `best` and w: with more ranks. */
static struct search_sharding *
better_bound(const struct search *s, struct search_sharding *best,
      struct search_sharding *w, const struct search_key *key)
{
	const struct search_key *k = &w->key;
	bool fits = !w->bad && search_is_plain(k) &&
		    search_is_bound_for(s, k, key);

	return fits && (!best || k->tp * k->cp > best->key.tp * best->key.cp)
		? w : best;
}

static bool
is_as_wide(const struct search_sharding *w, const struct search_key *key)
{
	return w->key.tp * w->key.cp == key->tp * key->cp;
}

/*
 * With ZeRO 2 and 3, the same key with ZeRO 1 is bounded instead: it takes
 * nearly as long, and more shardings have its axes.
 */
void
search_bound_sharding(struct search *s, const struct search_key *key,
	       const struct search_try *t)
{
	struct search_sharding *like = NULL, *narrow = NULL;
	struct search_key whole = *key;
	struct search_cost *c;
	uint32_t i;

	if (search_is_known(s, key, t)) {
		return;
	}
	for (i = 0; i < s->shardings.n; i++) {
		struct search_sharding *w = s->shardings.at[i];

		if (search_same_key(&w->key, key)) {
			return;
		}
		like = !like && is_like(s, w, key) ? w : like;
		narrow = better_bound(s, narrow, w, key);
	}
	if (like) {
		search_price_as(s, like, key, t);
	} else if (key->zero > 1 && !(narrow && is_as_wide(narrow, key))) {
		whole.zero = 1;
		search_bound_sharding(s, &whole, t);
	} else if (narrow) {
		c = search_cost_of(s, &narrow->key, t);
		search_price(s, &narrow->key, t, c, 0);
		search_bound_tensor(s, key, t);
	}
}

uint32_t
search_unplaced(const struct search *s)
{
	uint32_t i, k, n = 0;

	for (i = 1; i < s->ruled_out.n; i++) {
		for (k = 0; k < s->placed.n &&
		     !search_same_sharding(&s->placed.at[k]->key,
					&s->ruled_out.at[i]); k++) {
		}
		n += k == s->placed.n;
	}
	return n;
}

/* ---- gains of a placement for a microbatch ---- */

/*
 * Whether both keys are the same apart from ZeRO, ep, offload and the
 * microbatch.
 */
static bool
gains_alike(const struct search_key *a, const struct search_key *b)
{
	struct search_key like = *a;

	like.ep = b->ep;
	like.zero = b->zero;
	like.offload = b->offload;
	like.microbatch = b->microbatch;
	return search_same_key(&like, b);
}

/*
 * The cost of the key's first placement at the microbatch and dp of `like`;
 * NULL: it was not priced.
 */
static const struct search_cost *
priced_before(const struct search *s, const struct search_key *key,
	      const struct search_cost *like)
{
	struct search_key k = *key;
	const struct search_sharding *w;
	const struct search_cost *c;

	k.microbatch = 0;
	w = search_find_sharding(s, &k);
	for (c = w ? w->costs : NULL;
	     c && (c->microbatch != like->microbatch || c->dp != like->dp ||
		   !c->on[0]); c = c->next) {
	}
	return c;
}

/* The least ratio, over pieces, of the times in a and in b; at most 1. */
static double
least_part(const struct search *s, const struct search_cost *a,
	   const struct search_cost *b)
{
	struct search_pieces x, y;
	double least = 1;
	uint32_t i;

	search_least_pieces(s, a, &x);
	search_least_pieces(s, b, &y);
	for (i = 0; i < PIECE_MAX; i++) {
		least = x.all[i] < least * y.all[i] ? x.all[i] / y.all[i]
						    : least;
	}
	return least;
}

double
search_gain(const struct search *s, const struct search_key *key,
	    int64_t microbatch)
{
	double least = 0;
	uint32_t i;

	for (i = 0; i < s->shardings.n; i++) {
		const struct search_sharding *w = s->shardings.at[i];
		const struct search_cost *c, *was;

		if (w->key.microbatch != microbatch || w->bad ||
		    !gains_alike(&w->key, key)) {
			continue;
		}
		if (search_same_sharding(&w->key, key)) {
			return 0;	/* it is already placed for it */
		}
		for (c = w->costs; c; c = c->next) {
			was = c->on[0] ? priced_before(s, &w->key, c) : NULL;
			if (was) {
				least = fmax(least, least_part(s, c, was));
			}
		}
	}
	return least;
}

/*
 * Widths that are like others: what those say of one that is not placed, and
 * what a placement for a microbatch gains.
 */
#include "passes/search/search_parts.h"

#include <math.h>

/* ---- one that is not placed ---- */

bool
search_is_plain(const struct search_key *k)
{
	return !k->choice && !k->split && !k->microbatch;
}

/* Among how many ranks of an axis all that it splits may be split. */
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

/* Whether its one axis of tensor ranks can be so long. */
static bool
may_split(struct search *s, struct search_width *w, int64_t tp)
{
	if (!w->parts) {
		search_open_again(s, w);
		w->parts = search_axis(w->m, "tpr") ? 1
			: find_parts(w->m, search_axis(w->m, "tp"));
	}
	return w->parts % tp == 0;
}

/*
 * Axes for the same things: placements differ in how long these are.  A single
 * data rank is one of an axis, too, where it exchanges in its update only.
 */
static bool
is_like(struct search *s, struct search_width *w,
	const struct search_key *key)
{
	const struct search_key *k = &w->key;

	return !w->bad && search_is_plain(k) && search_same_stages(k, key) &&
	       (k->data == key->data || (k->data && k->zero < 2)) &&
	       (k->cp > 1) == (key->cp > 1) && (k->ep > 1) == (key->ep > 1) &&
	       (k->tp == key->tp ||
		(k->tp > 1 && key->tp > 1 && may_split(s, w, key->tp)));
}

/* The widest that it is no wider than, if it is placed and may be priced. */
static struct search_width *
wider(const struct search *s, struct search_width *best,
      struct search_width *w, const struct search_key *key)
{
	const struct search_key *k = &w->key;
	bool fits = !w->bad && search_is_plain(k) &&
		    search_is_no_wider(s, k, key);

	return fits && (!best || k->tp * k->cp > best->key.tp * best->key.cp)
		? w : best;
}

static bool
is_as_wide(const struct search_width *w, const struct search_key *key)
{
	return w->key.tp * w->key.cp == key->tp * key->cp;
}

/*
 * With ZeRO 2 and 3 it takes nearly all of what it takes with 1, and of that
 * more widths have the same axes.
 */
void
search_foresee(struct search *s, const struct search_key *key,
	       const struct search_try *t)
{
	struct search_width *like = NULL, *narrow = NULL;
	struct search_key whole = *key;
	struct search_cost *c;
	uint32_t i;

	if (search_is_known(s, key, t)) {
		return;
	}
	for (i = 0; i < s->widths.n; i++) {
		struct search_width *w = s->widths.at[i];

		if (search_same_key(&w->key, key)) {
			return;
		}
		like = !like && is_like(s, w, key) ? w : like;
		narrow = wider(s, narrow, w, key);
	}
	if (like) {
		search_price_as(s, like, key, t);
	} else if (key->zero > 1 && !(narrow && is_as_wide(narrow, key))) {
		whole.zero = 1;
		search_foresee(s, &whole, t);
	} else if (narrow) {
		c = search_cost_of(s, &narrow->key, t);
		search_price(s, &narrow->key, t, c, 0);
		search_widen(s, key, t);
	}
}

uint32_t
search_unplaced(const struct search *s)
{
	uint32_t i, k, n = 0;

	for (i = 1; i < s->ruled_out.n; i++) {
		for (k = 0; k < s->placed.n &&
		     !search_same_width(&s->placed.at[k]->key,
					&s->ruled_out.at[i]); k++) {
		}
		n += k == s->placed.n;
	}
	return n;
}

/* ---- placed for a microbatch ---- */

/* Of all widths but for ZeRO and experts' ranks, those of that one. */
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

/* What it took as it was placed before, at that size; NULL: not known. */
static const struct search_cost *
priced_before(const struct search *s, const struct search_key *key,
	      const struct search_cost *like)
{
	struct search_key k = *key;
	const struct search_width *w;
	const struct search_cost *c;

	k.microbatch = 0;
	w = search_find_width(s, &k);
	for (c = w ? w->costs : NULL;
	     c && (c->microbatch != like->microbatch || c->dp != like->dp ||
		   !c->on[0]); c = c->next) {
	}
	return c;
}

/* What a piece takes in one, of what it takes in the other, at the least. */
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

	for (i = 0; i < s->widths.n; i++) {
		const struct search_width *w = s->widths.at[i];
		const struct search_cost *c, *was;

		if (w->key.microbatch != microbatch || w->bad ||
		    !gains_alike(&w->key, key)) {
			continue;
		}
		if (search_same_width(&w->key, key)) {
			return 0;	/* there it is */
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

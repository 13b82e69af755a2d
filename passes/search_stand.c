/*
 * A width that stands in for another one, which is not placed yet: what the
 * other one takes and holds at the least, piece by piece, so that a plan of
 * it is tried with its schedule, its stages and what they must rebuild to
 * fit.  Widths that differ in ZeRO only hold the same from forward to
 * backward, and less or more of weights, gradients and states.  One that is
 * narrower holds more of each, and all its ranks together take no more.
 */
#include "passes/search_parts.h"

#include <math.h>

/*
 * From forward to backward it holds so much of what the other one holds, at
 * the least: 0.967 in one of 1,620 pieces, 0.977 of 99 in 100.
 */
#define HELD 0.96

/*
 * Those of a width that splits tensors further hold their part of what all
 * those of a narrower one hold, at the least: 1.000 in one of 4,899 pairs of
 * widths.  What is there while a function runs may be less.
 */
static double
part_of(const struct search_key *a, const struct search_key *b)
{
	return (double)a->tp / (double)b->tp;
}

/*
 * A backward in two functions takes no less than in one, and keeps what that
 * keeps, or longer: so it was in 470 pairs of widths, but for what data ranks
 * exchange in it with ZeRO 2 and 3.
 */
static bool
stands_for(const struct search_width *w, const struct search_key *key)
{
	const struct search_key *k = &w->key;

	return !w->bad && !k->choice && !k->microbatch &&
	       (k->split == key->split || (!k->split && k->zero < 2)) &&
	       k->cp == key->cp &&
	       (k->tp == key->tp || k->cp == 1) &&
	       search_is_no_wider(k, key);
}

/* Whether a stands for it better than b. */
static bool
is_nearer(const struct search_key *a, const struct search_key *b,
	  const struct search_key *key)
{
	return a->tp != b->tp ? a->tp > b->tp
		: a->split != b->split ? a->split == key->split
		: search_share(a, key) > search_share(b, key);
}

/* The nearest to it of what stands for it; NULL: none, or it is made. */
static struct search_width *
stand_of(const struct search *s, const struct search_key *key)
{
	struct search_width *best = NULL;
	uint32_t i;

	for (i = 0; i < s->widths.n; i++) {
		struct search_width *w = s->widths.at[i];

		if (search_same_key(&w->key, key)) {
			return NULL;
		}
		if (stands_for(w, key) &&
		    (!best || is_nearer(&w->key, &best->key, key))) {
			best = w;
		}
	}
	return best;
}

/* One of these for another. */
struct stand {
	struct search *s;
	const struct search_width *w;
	const struct search_key *key;
	const struct search_try *t;
	struct search_cost *cost;
	double share, part;	/* of what that takes, and holds */
};

static void
scale_bytes(const struct stand *x, struct search_cost *out)
{
	bool alike = x->part == 1 && x->w->key.split == x->key->split;
	uint32_t i, k;

	for (i = 0; i < PIECE_MAX; i++) {
		const struct search_bytes *b = &x->cost->bytes[i];

		for (k = 0; k < SEARCH_NSPANS; k++) {
			out->bytes[i].slot[k] = HELD * x->part * b->slot[k];
		}
		out->bytes[i].temp = alike ? HELD * b->temp : 0;
		out->bytes[i].waits = x->part * b->waits;
	}
}

/*
 * What tensor ranks exchange does not shrink with their part, so what is known
 * of its own lengths says more.
 */
static void
scale_us(const struct stand *x, struct search_cost *out)
{
	const struct search_known *known;
	enum sched_kind rest = x->key->split ? SCHED_W : SCHED_B;
	double share;
	uint32_t i, k;

	known = search_known_share(x->s, x->key, x->t, &share);
	for (i = 0; i < PIECE_MAX; i++) {
		struct price_func *fn = out->on[0]->fn[i];
		double all = 0;

		for (k = 0; k < SCHED_NKINDS; k++) {
			double us = x->share *
				search_least_us(x->s, x->cost, i, k);

			fn[k == SCHED_B ? rest : k].total_us += us;
			all += us;
		}
		if (known && x->part < 1) {
			double more = share * (double)x->t->microbatch;

			fn[SCHED_F].total_us = fmax(fn[SCHED_F].total_us,
				more * known->us.forward[i]);
			all = fmax(all, more * known->us.all[i]);
		}
		for (k = 0; k < SCHED_NKINDS; k++) {
			all -= fn[k].total_us;
		}
		fn[rest].total_us += fmax(all, 0);
	}
}

static void
scale_choices(const struct stand *x, struct search_cost *out)
{
	uint32_t i, k;

	for (i = 0; i < x->cost->choices.n; i++) {
		struct search_choice c = x->cost->choices.at[i];

		for (k = 0; k < x->s->nkinds; k++) {
			c.extra_us[k] *= x->share;
			c.less[k] *= x->part;
		}
		VEC_PUSH(&x->s->tmp, &out->choices, c);
	}
}

static struct search_cost *
cost_as(const struct stand *x)
{
	struct search *s = x->s;
	const struct search_key *key = &x->w->key;
	struct search_cost *out = arena_alloc(&s->tmp, sizeof *out);

	search_price(s, key, x->t, x->cost, 0);
	search_choices(s, key, x->t, x->cost);
	out->microbatch = x->cost->microbatch;
	out->dp = x->cost->dp;
	out->on = arena_alloc(&s->tmp, sizeof *out->on);
	out->on[0] = arena_alloc(&s->tmp, sizeof *out->on[0]);
	out->hop_us = x->part * search_hop(s, key, x->t, x->cost);
	out->hop_pp = x->t->g->pp;
	scale_us(x, out);
	scale_bytes(x, out);
	scale_choices(x, out);
	return out;
}

bool
search_stand_in(struct search *s, const struct search_key *key,
		const struct search_try *t, struct search_stand *out)
{
	struct search_key here = *key;
	struct stand x = { .s = s, .key = key, .t = t };

	here.offload = false;
	x.w = s->seats.n > 1 || key->microbatch ? NULL : stand_of(s, &here);
	if (!x.w) {
		return false;
	}
	x.share = search_share(&x.w->key, key);
	x.part = part_of(&x.w->key, key);
	x.cost = search_cost_of(s, &x.w->key, t);
	out->key = x.w->key;
	out->cost = cost_as(&x);
	out->update = arena_alloc(&s->tmp, sizeof *out->update);
	search_fix_as(x.w, key, t->g->dp, out->update);
	return true;
}

/*
 * Stage after stage, the answers for the first stages that no other answer
 * beats in both time and bytes.  An answer is left out if a bound of its rest,
 * where stages may take parts of two ways, is not below the best answer known
 * (Dyer, Kayal, Walker 1984; Pisinger 1995).
 */
#include "passes/solve/knapsack.h"

#include <math.h>
#include <stdlib.h>

/* A stage's move from one way to another that keeps less. */
struct knapsack_move {
	uint32_t stage, to;
	double us, less;	/* what it takes more, keeps less */
};

/* Ways for the first stages. */
struct partial {
	double us, bytes, bound_us;
	uint32_t from;		/* index among those of one stage less */
	uint32_t way;
};

/* The sums and moves of a problem while it is solved. */
struct knapsack_state {
	struct arena *a;
	const struct knapsack_stage *at;
	uint32_t n, nways, most;
	double room, enough_us;	/* answers above it are not looked for */
	double left_us;		/* least bound of answers that were dropped */
	struct knapsack_move *moves;	/* of all, the cheapest byte first */
	uint32_t nmoves;
	uint64_t looked;	/* at moves and partial answers */
	uint32_t *ways;		/* of the stage that is looked at */
	uint32_t *order;	/* all ways, the quickest first */
	const double *sorted_us;	/* by these times; NULL: not sorted */
	/* by move: the time and bytes of all moves before it */
	double *more_us, *less;
	/* by stage: sums over it and later ones with their quickest ways */
	double *us, *bytes;
};

static int
by_ratio(const void *a, const void *b)
{
	const struct knapsack_move *x = a, *y = b;
	double p = x->us * y->less, q = y->us * x->less;

	return p != q ? (p < q ? -1 : 1)
	     : x->stage != y->stage ? (x->stage < y->stage ? -1 : 1)
	     : x->to < y->to ? -1 : x->to > y->to;
}

/* The quickest way; of several, the one that keeps least, then the first. */
static uint32_t
quickest(const struct knapsack_state *k, uint32_t stage)
{
	const struct knapsack_stage *x = &k->at[stage];
	uint32_t best = 0, i;

	for (i = 1; i < k->nways; i++) {
		if (x->us[i] < x->us[best] ||
		    (x->us[i] == x->us[best] && x->bytes[i] < x->bytes[best])) {
			best = i;
		}
	}
	return best;
}

/*
 * Adds the moves along the lower convex hull of a stage's ways: each step saves
 * its bytes for less time than all steps after it.
 */
static void
add_moves(struct knapsack_state *k, uint32_t stage)
{
	const struct knapsack_stage *x = &k->at[stage];
	uint32_t at = quickest(k, stage), next, i;

	for (;; at = next) {
		struct knapsack_move best = { .less = 0 };

		for (i = 0, next = at; i < k->nways; i++) {
			struct knapsack_move m = {
				stage, i, x->us[i] - x->us[at],
				x->bytes[at] - x->bytes[i]
			};
			double p = m.us * best.less, q = best.us * m.less;

			if (m.less > 0 && (next == at || p < q ||
					   (p == q && m.less > best.less))) {
				best = m;
				next = i;
			}
		}
		if (next == at) {
			return;
		}
		k->moves[k->nmoves++] = best;
	}
}

/* Sets the sums of the moves of stages from `stage` on; drops the others. */
static void
sum_moves(struct knapsack_state *k, uint32_t stage)
{
	uint32_t n = 0, i;

	k->looked += k->nmoves;
	for (i = 0; i < k->nmoves; i++) {
		if (k->moves[i].stage >= stage) {
			k->moves[n] = k->moves[i];
			k->more_us[n + 1] = k->more_us[n] + k->moves[n].us;
			k->less[n + 1] = k->less[n] + k->moves[n].less;
			n++;
		}
	}
	k->nmoves = n;
}

static void
open_state(struct knapsack_state *k)
{
	uint32_t i, q;

	k->moves = arena_alloc_raw(k->a, (size_t)k->n * k->nways *
				   sizeof *k->moves);
	k->more_us = arena_alloc_raw(k->a, ((size_t)k->n * k->nways + 1) *
				     sizeof *k->more_us);
	k->less = arena_alloc_raw(k->a, ((size_t)k->n * k->nways + 1) *
				  sizeof *k->less);
	k->more_us[0] = k->less[0] = 0;
	k->ways = arena_alloc_raw(k->a, k->nways * sizeof *k->ways);
	k->order = arena_alloc_raw(k->a, k->nways * sizeof *k->order);
	k->us = arena_alloc(k->a, (k->n + 1) * sizeof *k->us);
	k->bytes = arena_alloc(k->a, (k->n + 1) * sizeof *k->bytes);
	for (i = k->n; i-- > 0;) {
		q = quickest(k, i);
		k->us[i] = k->us[i + 1] + k->at[i].us[q];
		k->bytes[i] = k->bytes[i + 1] + k->at[i].bytes[q];
		add_moves(k, i);
	}
	qsort(k->moves, k->nmoves, sizeof *k->moves, by_ratio);
	sum_moves(k, 0);
}

/*
 * The least time of the stages of the sums, the first of which is `stage`,
 * within `room`, if they may take parts of two ways; infinite if they do not
 * fit.
 */
static double
rest_us(const struct knapsack_state *k, uint32_t stage, double room)
{
	double over = k->bytes[stage] - room;
	uint32_t lo = 0, hi = k->nmoves;

	if (over <= 0) {
		return k->us[stage];
	}
	if (k->less[hi] < over) {
		return INFINITY;
	}
	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (k->less[mid] < over) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return k->us[stage] + k->more_us[lo] +
	       k->moves[lo].us * (over - k->less[lo]) / k->moves[lo].less;
}

/* An answer: moves in order until it fits, as it does after all of them. */
static void
first_answer(const struct knapsack_state *k, uint32_t *way, double *us)
{
	double over = k->bytes[0] - k->room;
	uint32_t i;

	for (i = 0; i < k->n; i++) {
		way[i] = quickest(k, i);
	}
	*us = k->us[0];
	for (i = 0; over > 0 && i < k->nmoves; i++) {
		way[k->moves[i].stage] = k->moves[i].to;
		over -= k->moves[i].less;
		*us += k->moves[i].us;
	}
}

static int
by_us(const void *a, const void *b)
{
	const struct partial *x = a, *y = b;

	return x->us != y->us ? (x->us < y->us ? -1 : 1)
	     : x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1)
	     : x->from != y->from ? (x->from < y->from ? -1 : 1)
	     : x->way < y->way ? -1 : x->way > y->way;
}

static int
by_bound(const void *a, const void *b)
{
	const struct partial *x = a, *y = b;

	return x->bound_us != y->bound_us
		? (x->bound_us < y->bound_us ? -1 : 1) : by_us(a, b);
}

/* Moves the one with the least bound to the front. */
static void
bring_least(struct partial *at, uint32_t n)
{
	struct partial first = at[0];
	uint32_t least = 0, i;

	for (i = 1; i < n; i++) {
		if (at[i].bound_us <= at[least].bound_us &&
		    by_bound(&at[i], &at[least]) < 0) {
			least = i;
		}
	}
	at[0] = at[least];
	at[least] = first;
}

/* Drops those of n that x is no worse than; returns how many are left. */
static uint32_t
drop_beaten(const struct partial *x, struct partial *at, uint32_t n)
{
	uint32_t left = 0, i;

	for (i = 0; i < n; i++) {
		if (at[i].us < x->us || at[i].bytes < x->bytes) {
			at[left++] = at[i];
		}
	}
	return left;
}

/*
 * Keeps those of n that no other beats, or of these the ones with the least
 * bounds; returns their number.  One that beats another has no higher bound, so
 * it comes before it.
 */
static uint32_t
keep_best(struct knapsack_state *k, struct partial *at, uint32_t n)
{
	uint32_t kept = 0;

	while (kept < n && kept < k->most) {
		bring_least(at + kept, n - kept);
		kept++;
		n = kept + drop_beaten(&at[kept - 1], at + kept, n - kept);
	}
	if (kept == n) {
		qsort(at, n, sizeof *at, by_us);
	} else {
		bring_least(at + kept, n - kept);
		k->left_us = fmin(k->left_us, at[kept].bound_us);
	}
	return kept;
}

/* Sorts the ways by time, unless it was done: stages may share their times. */
static void
sort_ways(struct knapsack_state *k, const double *us)
{
	uint32_t i, j;

	if (k->sorted_us == us) {
		return;
	}
	for (i = 0; i < k->nways; i++) {
		for (j = i; j > 0 && us[k->order[j - 1]] > us[i]; j--) {
			k->order[j] = k->order[j - 1];
		}
		k->order[j] = i;
	}
	k->sorted_us = us;
}

/*
 * Sets k->ways to those of a stage that none beats, the quickest first, so that
 * each keeps less than those before it; returns their number.  Of ways with the
 * same time, the first that keeps least is there.
 */
static uint32_t
best_ways(struct knapsack_state *k, const struct knapsack_stage *x)
{
	uint32_t n = 0, i;

	sort_ways(k, x->us);
	for (i = 0; i < k->nways; i++) {
		uint32_t w = k->order[i];

		if (n && x->bytes[w] >= x->bytes[k->ways[n - 1]]) {
			continue;
		}
		n -= n && x->us[k->ways[n - 1]] == x->us[w];
		k->ways[n++] = w;
	}
	return n;
}

/*
 * Extends n partial answers by a way of a stage; returns their number.  Ways
 * come in the order of their time, and later stages take no less than with
 * their quickest ways: once that is too much, so it is for all ways after it.
 */
static uint32_t
extend(struct knapsack_state *k, uint32_t stage, const struct partial *from,
       uint32_t n, struct partial *to)
{
	const struct knapsack_stage *x = &k->at[stage];
	uint32_t nways = best_ways(k, x), m = 0, i, j;

	sum_moves(k, stage + 1);
	k->looked += (uint64_t)n * nways;
	for (i = 0; i < n; i++) {
		for (j = 0; j < nways; j++) {
			uint32_t w = k->ways[j];
			struct partial p = { from[i].us + x->us[w],
					     from[i].bytes + x->bytes[w],
					     0, i, w };

			if (p.us + k->us[stage + 1] >= k->enough_us) {
				break;
			}
			p.bound_us = p.us + rest_us(k, stage + 1,
						    k->room - p.bytes);
			if (p.bound_us < k->enough_us) {
				to[m++] = p;
			}
		}
	}
	return keep_best(k, to, m);
}

/* Whether the ways that keep least fit. */
static bool
can_fit(const struct knapsack *x)
{
	double bytes = 0, least;
	uint32_t i, k;

	for (i = 0; i < x->n; i++) {
		for (k = 0, least = INFINITY; k < x->nways; k++) {
			double bytes_k = x->at[i].bytes[k];

			least = bytes_k < least ? bytes_k : least;
		}
		bytes += least;
	}
	return bytes <= x->room;
}

bool
knapsack_choose(struct arena *a, struct knapsack *x, uint32_t *way)
{
	struct knapsack_state k = { .a = a, .at = x->at, .n = x->n,
				    .nways = x->nways, .most = x->most,
				    .room = x->room, .left_us = INFINITY };
	struct partial none = { 0 }, *last = &none, *next;
	struct partial **all;
	uint32_t open = 1, i, best;
	double us;

	x->left_us = INFINITY;
	if (!can_fit(x)) {
		return false;
	}
	open_state(&k);
	first_answer(&k, way, &us);
	k.enough_us = fmin(us - x->near_us, x->below_us);
	if (rest_us(&k, 0, k.room) >= k.enough_us) {
		x->looked += k.looked;
		return true;
	}
	all = arena_alloc(a, k.n * sizeof *all);
	for (i = 0; i < k.n && open; i++) {
		next = arena_alloc_raw(a, (size_t)open * k.nways *
				       sizeof *next);
		open = extend(&k, i, last, open, next);
		all[i] = last = next;
	}
	x->left_us = k.left_us;
	x->looked += k.looked;
	best = 0;	/* the quickest that is kept, if any is */
	while (open && i-- > 0) {
		way[i] = all[i][best].way;
		best = all[i][best].from;
	}
	return true;
}

/*
 * A pool is a set of stages and a size, and each of its stages takes the
 * quickest way that has slots of at most this size.  So an answer is a
 * partition of the stages into sets, with a size for each, and its time and
 * bytes are sums over its pools.
 *
 * Lower bound.  For any price p >= 0 of a byte, answers that fit take at least
 * the least time + p bytes of any partition, less p room (the Lagrangian bound
 * of a multiple-choice knapsack).  That least is a recurrence over sets of
 * stages: of a set, the first stage is in a pool with some of the others.  The
 * best p is where two answers on the hull of time and bytes meet at the room.
 *
 * The exact answer is the same recurrence with all partial answers that no
 * other one of the same stages beats in time and bytes, but for those whose
 * bound, with what the other stages take at least at the price p, is not below
 * an answer that is known.
 */
#include "passes/solve/pooling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 32	/* until the best price is found, at most */

/* Slots as large as those of a way of one of the stages. */
struct pooling_level {
	double size;
	/* by the first stage of those that are alike: the quickest way within
	 * that, and its time; INFINITY: there is none */
	uint32_t way[POOLING_STAGES];
	double us[POOLING_STAGES];
};

/* A pool of a set of stages with such slots. */
struct point {
	double us, bytes;
	double slowest_us;	/* of its stages' parts */
	uint32_t level;
};

/* The pools of a set of stages that no other one beats, the quickest first. */
struct points {
	struct point *at;
	uint32_t n;
	/* the first set with as many stages of each kind, and slots */
	uint32_t like;
	uint64_t count;		/* of stages, a byte for each kind */
};

/* Pools of some stages, the last of which is `pool`. */
struct partial {
	double us, bytes, bound_us;
	const struct partial *from;
	const struct point *point;
	uint32_t pool;
};

/* Those of some stages that no other beats, the quickest first. */
struct partials {
	VEC(struct partial) at;
};

struct pooling_state {
	struct arena *a;
	struct pooling *x;
	uint32_t nsets;		/* of stages */
	uint32_t like[POOLING_STAGES];	/* the first stage with its ways */
	struct pooling_level *levels;
	uint32_t nlevels;
	struct points *pools;	/* by set of stages */
	uint32_t *firsts, nfirst;	/* sets that are like none before */
	double most_us;		/* that a part of a stage may take */
	double price, weight;	/* of a byte, and of a microsecond */
	/* by set, at these prices: of one pool, then of any partition */
	double *one, *all;
	const struct point **point;	/* by set: its pool then */
	uint32_t *first;	/* by set: the pool of its first stage */
	/* all prices of a byte that were tried, with s->all of each */
	double prices[STEPS + 2], *least[STEPS + 2];
	uint32_t nprices;
	double *fewest;		/* by set: the bytes of any partition */
	struct partials *open;	/* by set */
};

/* ---- ways ---- */

uint32_t
pooling_sort(struct pooling_way *at, uint32_t n)
{
	uint32_t left = 0, i, j;

	for (i = 1; i < n; i++) {
		struct pooling_way x = at[i];

		for (j = i; j > 0 && (at[j - 1].us > x.us ||
				      (at[j - 1].us == x.us &&
				       at[j - 1].size > x.size)); j--) {
			at[j] = at[j - 1];
		}
		at[j] = x;
	}
	for (i = 0; i < n; i++) {
		if (left == 0 || at[i].size < at[left - 1].size) {
			at[left++] = at[i];
		}
	}
	return left;
}

/* Sets what stages take with slots of that size. */
static void
set_level(const struct pooling_state *s, const struct pooling_way *x,
	  struct pooling_level *to)
{
	uint32_t i, w;

	to->size = x->size;
	for (i = 0; i < s->x->n; i++) {
		const struct pooling_ways *of = &s->x->ways[i];

		for (w = 0; s->like[i] == i && w < of->n &&
		     of->at[w].size > x->size; w++) {
		}
		to->way[i] = w;
		to->us[i] = w < of->n ? of->at[w].us : INFINITY;
	}
}

static int
by_size(const void *a, const void *b)
{
	const struct pooling_level *x = a, *y = b;

	return x->size > y->size ? -1 : x->size < y->size;
}

/*
 * Finds which stages are alike, and all levels, the largest first: so pools of
 * a set come in the order of their time.
 */
static void
find_levels(struct pooling_state *s)
{
	const struct pooling_ways *of = s->x->ways;
	uint32_t n = 0, i, j, w;

	for (i = 0; i < s->x->n; i++) {
		for (j = 0; of[j].at != of[i].at; j++) {
		}
		s->like[i] = j;
		n += j == i ? of[i].n : 0;
	}
	s->levels = arena_alloc_raw(s->a, n * sizeof *s->levels);
	for (i = 0; i < s->x->n; i++) {
		for (w = 0; s->like[i] == i && w < of[i].n; w++) {
			set_level(s, &of[i].at[w], &s->levels[s->nlevels++]);
		}
	}
	qsort(s->levels, s->nlevels, sizeof *s->levels, by_size);
}

/* ---- pools ---- */

/* Adds a pool in order, unless another beats it; drops those that it beats. */
static void
add_point(struct points *to, const struct point *x)
{
	uint32_t i = to->n, n;

	while (i > 0 && (to->at[i - 1].us > x->us ||
			 (to->at[i - 1].us == x->us &&
			  to->at[i - 1].bytes > x->bytes))) {
		i--;
	}
	if (i > 0 && to->at[i - 1].bytes <= x->bytes) {
		return;
	}
	for (n = i; n < to->n && to->at[n].bytes >= x->bytes; n++) {
	}
	memmove(&to->at[i + 1], &to->at[n], (to->n - n) * sizeof *to->at);
	to->at[i] = *x;
	to->n += i + 1 - n;
}

/* A set's pool with slots of that level; infinite time if there is none. */
static struct point
point_of(const struct pooling_state *s, uint32_t set, uint32_t level)
{
	const struct pooling *x = s->x;
	const struct pooling_level *v = &s->levels[level];
	struct point p = { 0, 0, -INFINITY, level };
	uint64_t count = s->pools[set].count;
	uint32_t i;

	for (i = 0; count; i++, count >>= 8) {
		if (count & 255) {
			double part_us = v->us[i] / x->ways[i].parts;

			p.us += (double)(count & 255) * v->us[i];
			p.slowest_us = part_us > p.slowest_us ? part_us
							      : p.slowest_us;
		}
	}
	p.bytes = v->size * x->slots[set];
	return p;
}

static bool
are_alike(const struct pooling_state *s, uint32_t a, uint32_t b)
{
	return s->x->slots[a] == s->x->slots[b] &&
	       s->pools[a].count == s->pools[b].count;
}

/*
 * Finds the pools of a set, unless it is like another; at: memory for one of
 * each level.
 */
static void
find_pools_of(struct pooling_state *s, uint32_t set, struct point *at)
{
	struct points *to = &s->pools[set], all = { .at = at };
	uint32_t i;

	*to = (struct points){ .like = set };
	for (i = 0; set >> i; i++) {
		to->count += (uint64_t)(set >> i & 1) << 8 * s->like[i];
	}
	for (i = 0; i < s->nfirst; i++) {
		if (are_alike(s, s->firsts[i], set)) {
			*to = s->pools[s->firsts[i]];
			return;
		}
	}
	s->firsts[s->nfirst++] = set;
	for (i = 0; i < s->nlevels; i++) {
		struct point p = point_of(s, set, i);

		if (isfinite(p.us)) {
			add_point(&all, &p);
		}
	}
	to->n = all.n;
	to->at = arena_dup(s->a, all.at, all.n * sizeof *all.at);
}

static void
find_pools(struct pooling_state *s)
{
	struct point *at = arena_alloc_raw(s->a, (s->nlevels + 1) *
					   sizeof *at);
	uint32_t set;

	s->firsts = arena_alloc_raw(s->a, s->nsets * sizeof *s->firsts);
	s->pools = arena_alloc_raw(s->a, s->nsets * sizeof *s->pools);
	for (set = 1; set < s->nsets; set++) {
		find_pools_of(s, set, at);
	}
	s->x->looked += (uint64_t)s->nfirst * s->nlevels;
}

/* ---- bounds ---- */

/* The least cost of a pool of the set, at the present prices. */
static void
price_pool(struct pooling_state *s, uint32_t set)
{
	const struct points *p = &s->pools[set];
	uint32_t i;

	if (p->like != set) {
		s->one[set] = s->one[p->like];
		s->point[set] = s->point[p->like];
		return;
	}
	s->one[set] = INFINITY;
	for (i = 0; i < p->n; i++) {
		double cost = s->weight * p->at[i].us +
			      s->price * p->at[i].bytes;

		if (cost < s->one[set] &&
		    p->at[i].slowest_us <= s->most_us) {
			s->one[set] = cost;
			s->point[set] = &p->at[i];
		}
	}
}

/* Sets the least cost of a set by the costs of pools and of smaller sets. */
static void
divide_set(struct pooling_state *s, uint32_t set)
{
	uint32_t low = set & -set, rest = set ^ low, part;

	s->all[set] = s->one[set];
	s->first[set] = set;
	for (part = rest; part; ) {	/* of those not in its pool */
		double cost = s->one[set ^ part] + s->all[part];

		if (cost < s->all[set]) {
			s->all[set] = cost;
			s->first[set] = set ^ part;
		}
		part = (part - 1) & rest;
	}
}

/* Sets the least cost of each set of stages. */
static void
price_sets(struct pooling_state *s, double weight, double price)
{
	uint32_t set;

	s->weight = weight;
	s->price = price;
	for (set = 1; set < s->nsets; set++) {
		price_pool(s, set);
		divide_set(s, set);
	}
}

/* Takes the ways of a pool. */
static void
take_pool(const struct pooling_state *s, uint32_t pool, const struct point *p,
	  uint32_t *nth)
{
	uint32_t i;

	for (i = 0; pool >> i; i++) {
		if (pool >> i & 1) {
			uint32_t j = s->like[i];

			nth[i] = s->x->ways[j].at[
				s->levels[p->level].way[j]].nth;
		}
	}
}

/* An answer, at the present prices. */
struct pooling_answer {
	double us, bytes;
	uint32_t nth[POOLING_STAGES];
};

static void
read_answer(const struct pooling_state *s, struct pooling_answer *to)
{
	uint32_t set = s->nsets - 1, pool;

	to->us = to->bytes = 0;
	for (; set; set ^= pool) {
		const struct point *p;

		pool = s->first[set];
		p = s->point[pool];
		to->us += p->us;
		to->bytes += p->bytes;
		take_pool(s, pool, p, to->nth);
	}
}

static void
offer(struct pooling_state *s, const struct pooling_answer *x,
      struct pooling_answer *best)
{
	if (x->us < best->us && x->bytes <= s->x->room &&
	    s->x->fits(s->x->user, x->nth)) {
		*best = *x;
	}
}

/* Keeps what sets of stages take at least at the present price of a byte. */
static void
keep_price(struct pooling_state *s)
{
	s->prices[s->nprices] = s->price;
	s->least[s->nprices++] = arena_dup(s->a, s->all, s->nsets *
					   sizeof *s->all);
}

/*
 * Finds the price with the best bound, which it returns, and the best of the
 * answers on the way that fit.  lo: quick, and too large; hi: slow, and not too
 * large.
 */
static double
find_price(struct pooling_state *s, struct pooling_answer lo,
	   struct pooling_answer hi, struct pooling_answer *best)
{
	double bound_us = lo.us;
	struct pooling_answer mid;
	uint32_t i;

	for (i = 0; i < STEPS && hi.us > lo.us && lo.bytes > s->x->room; i++) {
		double p = (hi.us - lo.us) / (lo.bytes - hi.bytes);

		price_sets(s, 1, p);
		keep_price(s);
		bound_us = fmax(bound_us, s->all[s->nsets - 1] -
				p * s->x->room);
		read_answer(s, &mid);
		offer(s, &mid, best);
		if (mid.us + p * mid.bytes >= (hi.us + p * hi.bytes) *
		    (1 - 1e-12)) {
			break;		/* none is below the line */
		}
		*(mid.bytes > s->x->room ? &lo : &hi) = mid;
	}
	return bound_us;
}

/* ---- partial answers ---- */

static int
by_us(const void *a, const void *b)
{
	const struct partial *x = a, *y = b;

	return x->us < y->us ? -1 : x->us > y->us;
}

static int
by_bound(const void *a, const void *b)
{
	const struct partial *x = a, *y = b;

	return x->bound_us != y->bound_us
		? (x->bound_us < y->bound_us ? -1 : 1) : by_us(a, b);
}

/* Of too many partial answers, keeps those with the least bounds. */
static void
keep_best(struct pooling_state *s, struct partials *p)
{
	if (p->at.n > s->x->most) {
		qsort(p->at.at, p->at.n, sizeof *p->at.at, by_bound);
		p->at.n = s->x->most;
		s->x->left_us = fmin(s->x->left_us,
				     p->at.at[p->at.n].bound_us);
		qsort(p->at.at, p->at.n, sizeof *p->at.at, by_us);
	}
}

/* Adds one in order, unless another beats it; drops those that it beats. */
static void
add_partial(struct pooling_state *s, struct partials *p,
	    const struct partial *x)
{
	struct partial *at;
	uint32_t lo = 0, hi = p->at.n, n = hi;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (p->at.at[mid].us <= x->us) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	if (lo > 0 && p->at.at[lo - 1].bytes <= x->bytes) {
		return;
	}
	lo -= lo > 0 && p->at.at[lo - 1].us == x->us;
	for (hi = lo; hi < n && p->at.at[hi].bytes >= x->bytes; hi++) {
	}
	VEC_PUSH(s->a, &p->at, *x);
	at = p->at.at;
	memmove(&at[lo + 1], &at[hi], (n - hi) * sizeof *at);
	at[lo] = *x;
	p->at.n = n + 1 - (hi - lo);
}

/* What other stages take at least in so many bytes; the first price is 0. */
static double
rest_us(const struct pooling_state *s, uint32_t rest, double bytes)
{
	double most = s->least[0][rest];
	uint32_t i;

	for (i = 1; i < s->nprices; i++) {
		double us = s->least[i][rest] - s->prices[i] * bytes;

		most = us > most ? us : most;
	}
	return most;
}

/* Extends a partial answer of a set by a pool of other stages. */
static void
extend(struct pooling_state *s, const struct partial *from, uint32_t set,
       uint32_t pool, double enough_us)
{
	const struct points *p = &s->pools[pool];
	uint32_t rest = (s->nsets - 1) ^ set ^ pool, i;
	double room = s->x->room - from->bytes;

	s->x->looked += p->n;
	for (i = 0; i < p->n; i++) {
		const struct point *q = &p->at[i];
		struct partial to = { from->us + q->us, from->bytes + q->bytes,
				      0, from, q, pool };

		if (to.us + s->least[0][rest] >= enough_us) {
			break;
		}
		if (q->bytes + s->fewest[rest] > room ||
		    q->slowest_us > s->most_us) {
			continue;
		}
		to.bound_us = to.us + rest_us(s, rest, room - q->bytes);
		if (to.bound_us < enough_us) {
			add_partial(s, &s->open[set | pool], &to);
		}
	}
}

/* Finds all answers below enough_us that no other beats, the quickest first. */
static void
find_all(struct pooling_state *s, double enough_us)
{
	uint32_t full = s->nsets - 1, set, part, i;
	static const struct partial none;
	struct partials *open = arena_alloc(s->a, s->nsets * sizeof *open);

	s->open = open;
	VEC_PUSH(s->a, &open[0].at, none);
	for (set = 0; set < full; set++) {
		uint32_t rest = full ^ set, low = rest & -rest, more;

		keep_best(s, &s->open[set]);
		more = rest ^ low;
		for (part = more; open[set].at.n; part = (part - 1) & more) {
			for (i = 0; i < open[set].at.n; i++) {
				extend(s, &open[set].at.at[i], set, part | low,
				       enough_us);
			}
			if (!part) {
				break;
			}
		}
	}
	keep_best(s, &open[full]);
}

/* Takes the first of these that fits indeed.  False: there is none. */
static bool
take_first(struct pooling_state *s, struct pooling_answer *best)
{
	uint32_t full = s->nsets - 1, i;

	for (i = 0; i < s->open[full].at.n; i++) {
		const struct partial *p = &s->open[full].at.at[i];
		struct pooling_answer x = { .us = p->us, .bytes = p->bytes };

		for (; p->point; p = p->from) {
			take_pool(s, p->pool, p->point, x.nth);
		}
		if (s->x->fits(s->x->user, x.nth)) {
			*best = x;
			return true;
		}
		s->x->left_us = fmin(s->x->left_us, x.us);
	}
	return false;
}

#define NEAREST 16	/* part of what is known that is looked at first */

/*
 * Finds the best answer, if it is below the one that is known: first those near
 * the bound, as the best mostly is, and what is near is soon found.
 */
static void
find_best(struct pooling_state *s, double least_us, struct pooling_answer *best)
{
	double known_us = best->us - s->x->near_us;
	double more_us = (known_us - least_us) / NEAREST;
	bool found = false;

	for (; !found && isfinite(known_us) && more_us < known_us - least_us;
	     more_us *= 2) {
		find_all(s, least_us + more_us);
		found = take_first(s, best);
	}
	if (!found) {
		find_all(s, known_us);
		take_first(s, best);
	}
}

/* ---- the choice ---- */

static void
open_state(struct pooling_state *s, struct arena *a, struct pooling *x)
{
	*s = (struct pooling_state){ .a = a, .x = x, .nsets = 1u << x->n,
				     .most_us = INFINITY };
	s->one = arena_alloc(a, s->nsets * sizeof *s->one);
	s->all = arena_alloc(a, s->nsets * sizeof *s->all);
	s->point = arena_alloc(a, s->nsets * sizeof *s->point);
	s->first = arena_alloc(a, s->nsets * sizeof *s->first);
}

#define LITTLE 1e-9		/* more than sums of bytes may be off */

/*
 * Whether any pools may have room: those of the ways with the smallest slots,
 * whose bytes need no list of pools.
 */
static bool
may_have_room(struct pooling_state *s)
{
	const struct pooling *x = s->x;
	double size[POOLING_STAGES], most;
	uint32_t set, i, w;

	for (i = 0; i < x->n; i++) {
		size[i] = INFINITY;
		for (w = 0; w < x->ways[i].n; w++) {
			size[i] = fmin(size[i], x->ways[i].at[w].size);
		}
		if (isinf(size[i])) {
			return false;
		}
	}
	for (set = 1; set < s->nsets; set++) {
		for (i = 0, most = -INFINITY; set >> i; i++) {
			most = set >> i & 1 && size[i] > most ? size[i] : most;
		}
		s->one[set] = most * x->slots[set];
		divide_set(s, set);
	}
	return s->all[s->nsets - 1] <= x->room + LITTLE * fabs(x->room);
}

/* The answer with the fewest bytes. */
static bool
find_least(struct pooling_state *s, struct pooling_answer *to)
{
	price_sets(s, 0, 1);
	if (!isfinite(s->all[s->nsets - 1])) {
		return false;
	}
	read_answer(s, to);
	return to->bytes <= s->x->room;
}

static int
by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Sets most_us to the least with which some ways fit. */
static void
find_evenest(struct pooling_state *s)
{
	const struct pooling *x = s->x;
	VEC(double) times = { 0 };
	uint32_t lo = 0, hi, mid, i, w;
	struct pooling_answer least;

	for (i = 0; i < x->n; i++) {
		for (w = 0; s->like[i] == i && w < x->ways[i].n; w++) {
			VEC_PUSH(s->a, &times, x->ways[i].at[w].us /
					       x->ways[i].parts);
		}
	}
	qsort(times.at, times.n, sizeof *times.at, by_value);
	for (hi = times.n - 1; lo < hi;) {
		mid = lo + (hi - lo) / 2;
		s->most_us = times.at[mid];
		if (find_least(s, &least)) {
			hi = mid;
		} else {
			lo = mid + 1;
		}
	}
	s->most_us = times.at[hi];
}

bool
pooling_share(struct arena *a, struct pooling *x, uint32_t *nth)
{
	struct pooling_answer best = { .us = INFINITY }, lo, hi;
	struct pooling_state s;
	double least_us = INFINITY;

	x->left_us = INFINITY;
	open_state(&s, a, x);
	x->none = !may_have_room(&s);
	if (x->none) {
		return false;
	}
	find_levels(&s);
	find_pools(&s);
	x->none = !find_least(&s, &hi);
	if (x->none) {
		return false;
	}
	if (x->evenly) {
		find_evenest(&s);
		find_least(&s, &hi);
	}
	s.fewest = arena_dup(a, s.all, s.nsets * sizeof *s.all);
	offer(&s, &hi, &best);
	price_sets(&s, 1, 0);
	keep_price(&s);
	read_answer(&s, &lo);
	offer(&s, &lo, &best);
	if (best.us > lo.us + x->near_us) {
		least_us = find_price(&s, lo, hi, &best);
	}
	if (least_us < best.us - x->near_us && x->most) {
		find_best(&s, least_us, &best);
	} else if (least_us < best.us - x->near_us) {
		x->left_us = least_us;
	}
	if (isfinite(best.us)) {
		memcpy(nth, best.nth, x->n * sizeof *nth);
		x->left_us = x->left_us < best.us ? x->left_us : INFINITY;
	}
	return isfinite(best.us);
}

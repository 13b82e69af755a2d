/*
 * Pools beside what stages need for a while, one at a time: of that only the
 * most counts.  An answer whose stages need at most t of it has the rest of the
 * room for its pools, and ways that need no more: so the best is the best of
 * pooling_share over all t that a way needs, and if none of these has room for
 * any pools, there is no answer.
 *
 * The same is asked again and again, whenever a plan is looked at anew: so what
 * was answered is kept, by a hash of all that it follows from.
 */
#include "ir/memo.h"
#include "passes/solve/pooling.h"

#include <math.h>
#include <string.h>

/* Ways that need no more than that. */
static struct pooling_ways
within(struct arena *a, const struct pooling_ways *x, double temp)
{
	struct pooling_way *at = arena_alloc_raw(a, x->n * sizeof *at);
	uint32_t n = 0, i;

	for (i = 0; i < x->n; i++) {
		if (x->at[i].temp <= temp) {
			at[n++] = x->at[i];
		}
	}
	return (struct pooling_ways){ at, pooling_sort(at, n), x->parts };
}

/* The first stage with the ways of stage i. */
static uint32_t
first_like(const struct pooling *x, uint32_t i)
{
	uint32_t j;

	for (j = 0; x->ways[j].at != x->ways[i].at; j++) {
	}
	return j;
}

/* Sets the time of ways that were chosen, and of the slowest part. */
static void
set_time(const struct pooling *x, const uint32_t *nth, double *us,
	 double *slowest_us)
{
	uint32_t i, w;

	*us = 0;
	*slowest_us = -INFINITY;
	for (i = 0; i < x->n; i++) {
		const struct pooling_ways *of = &x->ways[i];

		for (w = 0; of->at[w].nth != nth[i]; w++) {
		}
		*us += of->at[w].us;
		*slowest_us = fmax(*slowest_us, of->at[w].us / of->parts);
	}
}

/* Chooses with at most so much, and keeps the best. */
static void
choose_within(struct arena *a, struct pooling *x, double temp, double *best_us,
	      double *best_slowest_us, uint32_t *nth)
{
	struct pooling y = *x;
	uint32_t found[POOLING_STAGES], i;
	double us, slowest_us;

	y.room -= temp;
	for (i = 0; i < x->n; i++) {
		uint32_t like = first_like(x, i);

		y.ways[i] = like < i ? y.ways[like]
				     : within(a, &x->ways[i], temp);
	}
	if (pooling_share(a, &y, found)) {
		set_time(x, found, &us, &slowest_us);
		if (x->evenly && slowest_us != *best_slowest_us
			? slowest_us < *best_slowest_us : us < *best_us) {
			*best_us = us;
			*best_slowest_us = slowest_us;
			memcpy(nth, found, x->n * sizeof *nth);
		}
	}
	x->left_us = fmin(x->left_us, y.left_us);
	x->none = x->none && y.none;
	x->looked = y.looked;
}

/* Whether a way before, of one of the stages up to i, needs as much. */
static bool
was_before(const struct pooling *x, uint32_t i, uint32_t w)
{
	uint32_t j, k;

	for (j = 0; j <= i; j++) {
		for (k = 0; k < (j < i ? x->ways[j].n : w); k++) {
			if (x->ways[j].at[k].temp == x->ways[i].at[w].temp) {
				return true;
			}
		}
	}
	return false;
}

static bool
choose_anew(struct arena *a, struct pooling *x, uint32_t *nth)
{
	double us = INFINITY, slowest_us = INFINITY;
	uint32_t i, w;

	x->left_us = INFINITY;
	x->none = true;
	for (i = 0; i < x->n; i++) {
		for (w = 0; first_like(x, i) == i && w < x->ways[i].n; w++) {
			if (!was_before(x, i, w)) {
				choose_within(a, x, x->ways[i].at[w].temp, &us,
					      &slowest_us, nth);
			}
		}
	}
	x->left_us = x->left_us < us ? x->left_us : INFINITY;
	return isfinite(us);
}

/* ---- answers that are kept ---- */

struct pooling_kept {
	bool ok, none;
	uint32_t nth[POOLING_STAGES];
	double left_us, taken;	/* the latter INFINITY: as it was */
	uint64_t looked;	/* more than before */
};

static void
add_ways(struct hash *key, const struct pooling_ways *x)
{
	uint32_t i;

	hash_add(key, x->n);
	hash_add(key, x->parts);
	for (i = 0; i < x->n; i++) {
		hash_add_number(key, x->at[i].us);
		hash_add_number(key, x->at[i].size);
		hash_add_number(key, x->at[i].temp);
		hash_add(key, x->at[i].nth);
	}
}

/* All that the answer follows from. */
static struct hash
key_of(const struct pooling *x)
{
	struct hash key = x->key;
	uint32_t set, i;

	hash_add(&key, x->n);
	for (i = 0; i < x->n; i++) {
		hash_add(&key, first_like(x, i));
		if (first_like(x, i) == i) {
			add_ways(&key, &x->ways[i]);
		}
	}
	for (set = 1; set < 1u << x->n; set++) {
		hash_add(&key, x->slots[set]);
	}
	hash_add_number(&key, x->room);
	hash_add_number(&key, x->near_us);
	hash_add(&key, x->most);
	hash_add(&key, x->evenly);
	return key;
}

/* Chooses, and keeps what is chosen. */
static void
keep_choice(struct arena *a, struct pooling *x, struct arena *kept,
	    struct hash key, struct pooling_kept *to)
{
	double was = x->taken;
	uint64_t looked = x->looked;

	x->taken = INFINITY;
	to->ok = choose_anew(a, x, to->nth);
	to->none = x->none;
	to->left_us = x->left_us;
	to->taken = x->taken;
	to->looked = x->looked - looked;
	x->taken = was;
	x->looked = looked;
	if (kept) {
		memo_keep(x->memo, MEMO_POOLS, key, to);
	}
}

bool
pooling_choose(struct arena *a, struct pooling *x, uint32_t *nth)
{
	struct hash key = key_of(x);
	struct pooling_kept *at = memo_find(x->memo, MEMO_POOLS, key);
	struct arena *kept;

	if (!at) {
		kept = memo_arena(x->memo, MEMO_POOLS);
		at = arena_alloc(kept ? kept : a, sizeof *at);
		keep_choice(a, x, kept, key, at);
	}
	x->none = at->none;
	x->left_us = at->left_us;
	x->taken = isfinite(at->taken) ? at->taken : x->taken;
	x->looked += at->looked;
	if (at->ok) {
		memcpy(nth, at->nth, x->n * sizeof *nth);
	}
	return at->ok;
}

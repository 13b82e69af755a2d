/*
 * Offsets for blocks with lifetimes, in as few bytes as a greedy search finds.
 * The most bytes alive at once are a lower bound.  Blocks are placed one by
 * one into the tightest gap between those alive at the same time.  Several
 * orders are tried (Pisarchyk and Lee, arXiv:2001.03288, compare such orders).
 * If none reaches the bound, the block that ends highest is moved to the front
 * of each of them, again and again, whether or not that helps at once: so those
 * that were hard to place come first (Joslin and Clements, "Squeaky Wheel"
 * Optimization, JAIR 10, 1999).
 */
#include "ir/memo.h"
#include "passes/memory/memory.h"

#include <string.h>

/* Times that the highest block of an order is moved at most: so many, and as
 * many as compare about so many blocks; and of all orders once more, as many as
 * compare so many, if these are more times. */
#define MIN_LIFTS 6
#define LIFT_STEPS 1000000
#define MORE_STEPS 10000000

/* A block that was placed. */
struct placed {
	uint32_t from, to;
	int64_t offset, end;
};

struct pack {
	struct memory_block *b;
	uint32_t n;
	uint32_t *order, *kept;	/* kept: see lift */
	uint32_t highest;	/* see try_order */
	struct placed *placed;	/* ascending by offset */
	int64_t *best;		/* offsets */
	int64_t best_bytes;
};

/* ---- the lower bound ---- */

int64_t
memory_bound(struct arena *a, const struct memory_block *b, uint32_t n,
	     uint32_t *step)
{
	int64_t now = 0, most = 0, *change;
	uint32_t steps = 0, i;

	for (i = 0; i < n; i++) {
		steps = b[i].to > steps ? b[i].to : steps;
	}
	change = arena_alloc(a, ((size_t)steps + 2) * sizeof *change);
	for (i = 0; i < n; i++) {
		change[b[i].from] += b[i].bytes;
		change[b[i].to + 1] -= b[i].bytes;
	}
	*step = 0;
	for (i = 0; i <= steps; i++) {
		now += change[i];
		if (now > most) {
			most = now;
			*step = i;
		}
	}
	return most;
}

/* ---- one order ---- */

/* The smallest gap that x fits in, or the end of all blocks alive with it. */
static int64_t
gap_for(const struct pack *p, uint32_t count, const struct memory_block *x)
{
	int64_t end = 0, best = -1, smallest = INT64_MAX;
	uint32_t i;

	for (i = 0; i < count; i++) {
		const struct placed *y = &p->placed[i];

		if (x->from > y->to || y->from > x->to) {
			continue;	/* they are never alive together */
		}
		if (y->offset - end >= x->bytes && y->offset - end < smallest) {
			smallest = y->offset - end;
			best = end;
		}
		end = y->end > end ? y->end : end;
	}
	return best >= 0 ? best : end;
}

/* Keeps `placed` sorted by offset. */
static void
insert_placed(struct pack *p, uint32_t count, const struct memory_block *x)
{
	uint32_t i = count;

	while (i > 0 && p->placed[i - 1].offset > x->offset) {
		p->placed[i] = p->placed[i - 1];
		i--;
	}
	p->placed[i] = (struct placed){ x->from, x->to, x->offset,
					x->offset + x->bytes };
}

/*
 * Places all in this order, unless it exceeds the best; keeps a better one.
 * Sets p->highest to the block that ends highest of those that were placed.
 */
static void
try_order(struct pack *p)
{
	int64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < p->n && bytes < p->best_bytes; i++) {
		struct memory_block *x = &p->b[p->order[i]];

		x->offset = gap_for(p, i, x);
		insert_placed(p, i, x);
		if (x->offset + x->bytes > bytes) {
			bytes = x->offset + x->bytes;
			p->highest = p->order[i];
		}
	}
	if (bytes < p->best_bytes) {
		p->best_bytes = bytes;
		for (i = 0; i < p->n; i++) {
			p->best[i] = p->b[i].offset;
		}
	}
}

/* ---- orders ---- */

enum rule { BY_BYTES, BY_AREA, BY_SPAN, BY_START, NRULES };

struct key {
	double a, b;
	uint32_t which;
};

static struct key
key_of(const struct memory_block *x, enum rule rule, uint32_t which)
{
	double bytes = (double)x->bytes, span = x->to - x->from + 1.0;

	switch (rule) {
	case BY_BYTES:
		return (struct key){ bytes, span, which };
	case BY_AREA:
		return (struct key){ bytes * span, bytes, which };
	case BY_SPAN:
		return (struct key){ span, bytes, which };
	default:
		return (struct key){ -(double)x->from, bytes, which };
	}
}

static inline bool
comes_before(const struct key *x, const struct key *y)
{
	return x->a != y->a ? x->a > y->a
		: x->b != y->b ? x->b > y->b : x->which < y->which;
}

/* Merges the sorted [0, half) and [half, n) of `from`. */
static void
merge(const struct key *from, uint32_t half, uint32_t n, struct key *to)
{
	uint32_t i = 0, k = half, at;

	for (at = 0; at < n; at++) {
		bool first = i < half &&
			(k == n || comes_before(&from[i], &from[k]));

		to[at] = first ? from[i++] : from[k++];
	}
}

/* Sorts [0, n); `spare` has as many. */
static void
sort_keys(struct key *keys, uint32_t n, struct key *spare)
{
	struct key *from = keys, *to = spare, *other;
	uint32_t run, i;

	for (run = 1; run < n; run *= 2) {
		for (i = 0; i < n; i += 2 * run) {
			uint32_t left = n - i;

			merge(from + i, run < left ? run : left,
			      2 * run < left ? 2 * run : left, to + i);
		}
		other = from;
		from = to;
		to = other;
	}
	if (from != keys) {
		memcpy(keys, from, n * sizeof *keys);
	}
}

static void
sort(struct pack *p, enum rule rule, struct key *keys)
{
	uint32_t i;

	for (i = 0; i < p->n; i++) {
		keys[i] = key_of(&p->b[i], rule, i);
	}
	sort_keys(keys, p->n, keys + p->n);
	for (i = 0; i < p->n; i++) {
		p->order[i] = keys[i].which;
	}
}

/*
 * Moves the block that ended highest to the front, as often as is worth it, or
 * until an order comes again with nothing better in between: from there on all
 * would.  Each order is compared with one that is kept, another one after twice
 * as many steps (Brent's cycle detection).
 */
static void
lift(struct pack *p, uint64_t most, int64_t bound)
{
	uint64_t keep = 1, i;
	size_t bytes = p->n * sizeof *p->order;
	int64_t kept_bytes = 0;
	uint32_t at;

	for (i = 1; i <= most && p->best_bytes > bound; i++) {
		for (at = 0; p->order[at] != p->highest; at++) {
		}
		memmove(p->order + 1, p->order, at * sizeof *p->order);
		p->order[0] = p->highest;
		try_order(p);
		if (kept_bytes == p->best_bytes &&
		    memcmp(p->order, p->kept, bytes) == 0) {
			break;
		}
		if (i == keep) {
			memcpy(p->kept, p->order, bytes);
			kept_bytes = p->best_bytes;
			keep *= 2;
		}
	}
}

/* Offsets in p->best. */
static void
search(struct pack *p, struct arena *a)
{
	struct key *keys = arena_alloc_raw(a, 2 * p->n * sizeof *keys);
	uint64_t pairs = (uint64_t)p->n * p->n;
	uint64_t few = MIN_LIFTS + LIFT_STEPS / pairs;
	uint64_t more = MIN_LIFTS + MORE_STEPS / pairs;
	uint32_t rounds = more > few ? 3 : 2, i, step;
	int64_t bound = memory_bound(a, p->b, p->n, &step);

	p->best_bytes = INT64_MAX;
	p->order = arena_alloc(a, p->n * sizeof *p->order);
	p->kept = arena_alloc(a, p->n * sizeof *p->kept);
	p->placed = arena_alloc(a, p->n * sizeof *p->placed);
	for (i = 0; i < rounds * NRULES && p->best_bytes > bound; i++) {
		sort(p, (enum rule)(i % NRULES), keys);
		try_order(p);
		if (i >= NRULES) {
			lift(p, i < 2 * NRULES ? few : more, bound);
		}
	}
}

/* What was found for the same blocks, or is found now. */
struct known_pack {
	int64_t bytes, *offset;
};

static struct hash
key_of_blocks(const struct memory_block *b, uint32_t n)
{
	struct hash key = { 1, n };
	uint32_t i;

	for (i = 0; i < n; i++) {
		hash_add(&key, (uint64_t)b[i].bytes);
		hash_add(&key, (uint64_t)b[i].from << 32 | b[i].to);
	}
	return key;
}

int64_t
memory_pack(struct memo *memo, struct arena *a, struct memory_block *b,
	    uint32_t n)
{
	struct hash key = key_of_blocks(b, n);
	struct pack p = { .b = b, .n = n };
	struct known_pack *x;
	struct arena *kept;
	uint32_t i;

	if (n == 0) {
		return 0;
	}
	x = memo_find(memo, MEMO_PACKS, key);
	if (!x) {
		kept = memo_arena(memo, MEMO_PACKS);
		p.best = arena_alloc(kept ? kept : a, n * sizeof *p.best);
		search(&p, a);
		x = arena_dup(kept ? kept : a, &(struct known_pack){
			p.best_bytes, p.best }, sizeof *x);
		if (kept) {
			memo_keep(memo, MEMO_PACKS, key, x);
		}
	}
	for (i = 0; i < n; i++) {
		b[i].offset = x->offset[i];
	}
	return x->bytes;
}

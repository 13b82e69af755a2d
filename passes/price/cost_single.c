/*
 * Attention of a step that serves on a GPU: what kernels of single queries
 * (codegen/cuda/attention/cuda_attention_single.c) do, and the scratch in which
 * their items leave what they made.  Code generation and prices both ask here,
 * so that the price, and the memory that a plan counts, are those of what is
 * emitted.
 */
#include "passes/price/cost.h"

#include <math.h>

/* Queries of a step that are always single ones. */
#define ALWAYS 16
#define TILE_ROWS 16		/* heads of a warp */
#define NARROW_TILES 4		/* warps of an item */
#define WIDE_WARPS 8		/* the same, that share scores */
#define SHARES 4		/* items for each multiprocessor, at least */
#define SLOT_BYTES ((int64_t)64 << 20)	/* of all slots */
#define SCRATCH_ALIGN 256	/* where a part of scratch begins */

static int64_t
ceil_div(int64_t n, int64_t of)
{
	return n > 0 ? (n + of - 1) / of : 1;
}

static int64_t
round_up(int64_t n, int64_t to)
{
	return (n + to - 1) / to * to;
}

int64_t
cost_part_keys(int64_t keys)
{
	int64_t n = COST_PART;

	while (n * COST_PARTS < keys) {
		n *= 2;
	}
	return n;
}

int64_t
cost_single_outs(const struct cost_single *x)
{
	return ceil_div(x->v, COST_OUT_COLS);
}

int64_t
cost_single_cols(const struct cost_single *x)
{
	int64_t n = cost_single_outs(x);

	return n * round_up(ceil_div(x->v, n), 16);
}

bool
cost_single_is_wide(const struct cost_single *x)
{
	int64_t n = cost_single_outs(x);

	return x->within && !x->exact && n > 1 && n <= WIDE_WARPS &&
	       cost_single_cols(x) <= round_up(x->d, 16);
}

bool
cost_single_is_always(const struct cost_single *x, bool wide)
{
	return x->queries <= ALWAYS ||
	       (wide && x->heads / x->kv >= TILE_ROWS);
}

int64_t
cost_single_tiles(const struct cost_single *x, bool wide)
{
	int64_t tiles = ceil_div(x->heads / x->kv, TILE_ROWS);
	int64_t most = wide ? WIDE_WARPS / cost_single_outs(x) : NARROW_TILES;

	return tiles < most ? tiles : most;
}

int64_t
cost_single_items(int64_t units)
{
	return SHARES * units;
}

/* For all parts there may be, or for as many as are kept. */
static int64_t
slots_of(const struct cost_single *x, bool always)
{
	int64_t parts = x->queries + 4 * ceil_div(x->keys, COST_PART);
	int64_t each = 4 * x->heads * (cost_single_cols(x) + 2);
	int64_t n = SLOT_BYTES / each;

	parts = parts < x->queries * COST_PARTS ? parts
						: x->queries * COST_PARTS;
	n = n < parts ? n : parts;
	return always && n < x->queries ? x->queries : n;
}

struct cost_single_scratch
cost_single_scratch(const struct cost_single *x, bool always)
{
	struct cost_single_scratch s = {
		.slots = slots_of(x, always)
	};
	int64_t rows = s.slots * x->heads;

	s.items = SCRATCH_ALIGN;
	s.first = s.items + round_up(4 * 3 * s.slots, SCRATCH_ALIGN);
	s.count = s.first + round_up(4 * x->queries, SCRATCH_ALIGN);
	s.sums = s.count + round_up(4 * x->queries, SCRATCH_ALIGN);
	s.results = s.sums + round_up(4 * 2 * rows, SCRATCH_ALIGN);
	s.bytes = s.results + 4 * rows * cost_single_cols(x);
	return s;
}

/* ---- prices ---- */

/* The list of items, items, what joins them, and blocks. */
double
cost_single_launches(const struct cost_single *x)
{
	return cost_single_is_always(x, cost_single_is_wide(x)) ? 3 : 4;
}

double
cost_single_bytes(const struct cost_single *x)
{
	bool wide = cost_single_is_wide(x);

	return (double)cost_single_scratch(x, cost_single_is_always(x, wide))
		.bytes;
}

double
cost_single_scores(const struct cost_single *x)
{
	return cost_single_is_wide(x) ? 1 : (double)cost_single_outs(x);
}

void
cost_single_keys(const struct cost_single *x, int64_t units,
		 struct cost_keys *k)
{
	bool wide = cost_single_is_wide(x);
	int64_t shared = x->heads / x->kv;
	int64_t each = TILE_ROWS * cost_single_tiles(x, wide);
	int64_t keys = (int64_t)fmax(k->keys, 1);
	double items = (double)(x->kv * ceil_div(shared, each) *
				(wide ? 1 : cost_single_outs(x)));
	double parts = ceil((double)keys / (double)cost_part_keys(keys));
	double most = floor(k->sequences * parts * items /
			    (double)cost_single_items(units));

	k->rows = (double)round_up(shared, TILE_ROWS);
	k->scores = cost_single_scores(x);
	k->left = 2 * 4 * k->sequences * k->queries * (double)x->heads *
		  (double)(cost_single_cols(x) + 2) *
		  (parts > fmax(most, 1) ? parts : 1);
}

/*
 * Attention of a step that serves on a GPU: what kernels of single queries
 * (codegen/cuda/attention/cuda_attention_single.c) do, and the scratch in which
 * their items leave what they made.  Code generation and prices both ask here,
 * so that the price, and the memory that a plan counts, are those of what is
 * emitted.
 */
#include "passes/price/cost.h"

#include <math.h>
#include <string.h>

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

/* ---- shared memory ---- */

int64_t
cost_shared_bytes(const char *arch)
{
	static const struct {
		const char *arch;
		int64_t bytes;
	} of[] = { { "sm_80", COST_SHARED_80 }, { "sm_86", COST_SHARED_SMALL },
		   { "sm_89", COST_SHARED_SMALL }, { "sm_90a", COST_SHARED_90 },
		   { "sm_100a", COST_SHARED_90 }, { "sm_103a", COST_SHARED_90 },
		   { "sm_120a", COST_SHARED_SMALL } };
	size_t i;

	for (i = 0; i < sizeof of / sizeof *of; i++) {
		if (strcmp(of[i].arch, arch) == 0) {
			return of[i].bytes;
		}
	}
	return 0;
}

/* Columns of results of a block. */
static int64_t
out_cols(const struct cost_single *x)
{
	return cost_single_cols(x) / cost_single_outs(x);
}

/* A tile whose rows are padded (cuda_attention_tile.c). */
static int64_t
tile_bytes(const struct cost_single *x, int64_t rows, int64_t cols)
{
	return rows * (round_up(cols, 16) * (x->exact ? 4 : 2) + 16);
}

/* Weights of so many rows on their way to the next product, if they are not in
 * registers; and a thread's sums of all parts, with two numbers for each of
 * two rows. */
static int64_t
pass_bytes(const struct cost_single *x, int64_t rows, int64_t keys)
{
	return x->exact ? 4 * rows * (keys + 4) : 0;
}

static int64_t
sums_bytes(const struct cost_single *x, int64_t threads)
{
	return 4 * threads * (4 + out_cols(x) / 2);
}

/* Forms of a block of queries whose warps have 16 each, as
 * cuda_attention_forward.c lists them: the first that fits. */
int64_t
cost_single_tile_keys(const struct cost_single *x)
{
	static const struct {
		int64_t warps, keys, chunk;
	} forms[] = { { 4, 64, 0 }, { 4, 32, 0 }, { 2, 32, 0 }, { 4, 32, 64 } };
	size_t i;

	for (i = 0; i < sizeof forms / sizeof *forms; i++) {
		int64_t d = forms[i].chunk ? forms[i].chunk : x->d;
		int64_t rows = 16 * forms[i].warps, keys = forms[i].keys;
		int64_t tiles = tile_bytes(x, rows, d) +
				tile_bytes(x, keys, d) +
				tile_bytes(x, keys, out_cols(x)) +
				pass_bytes(x, rows, keys);
		int64_t stage = 4 * rows * (out_cols(x) + 4) + 4 * rows;
		bool is_idle = forms[i].chunk >= x->d &&
			       forms[i].chunk >= x->v;

		tiles = tiles > stage ? tiles : stage;
		if (!is_idle && (x->shared_bytes <= 0 ||
				 round_up(tiles, 16) + sums_bytes(x, 2 * rows)
				 <= x->shared_bytes)) {
			return keys;
		}
	}
	return 0;
}

/* Whether items with so many tiles of heads fit beside so many stages of keys
 * (cuda_attention_single.c). */
static bool
fits(const struct cost_single *x, bool wide, int64_t tiles, int64_t stages)
{
	int64_t keys = cost_single_tile_keys(x), rows = 16 * tiles;
	int64_t threads = 2 * rows * (wide ? cost_single_outs(x) : 1);
	int64_t stage = tile_bytes(x, keys, x->d) +
			(wide ? 0 : tile_bytes(x, keys, out_cols(x)));
	int64_t bytes = tile_bytes(x, rows, x->d) + stages * stage +
			pass_bytes(x, rows, keys) +
			(wide ? 4 * rows * keys : 0);

	if (!wide || x->slopes) {
		bytes = round_up(bytes, 16) + sums_bytes(x, threads);
	}
	return keys > 0 && (x->shared_bytes <= 0 || bytes <= x->shared_bytes);
}

/* ---- items ---- */

static int64_t
most_tiles(const struct cost_single *x, bool wide)
{
	int64_t tiles = ceil_div(x->heads / x->kv, TILE_ROWS);
	int64_t most = wide ? WIDE_WARPS / cost_single_outs(x) : NARROW_TILES;

	return tiles < most ? tiles : most;
}

bool
cost_single_is_wide(const struct cost_single *x)
{
	int64_t n = cost_single_outs(x);

	return x->within && !x->exact && n > 1 && n <= WIDE_WARPS &&
	       cost_single_cols(x) <= round_up(x->d, 16) &&
	       fits(x, true, 1, 2);
}

bool
cost_single_fits(const struct cost_single *x)
{
	return cost_single_is_wide(x) || fits(x, false, 1, 1);
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
	int64_t n = most_tiles(x, wide);

	while (n > 1 && !fits(x, wide, n, wide ? 2 : 1)) {
		n--;
	}
	return n;
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
	return !cost_single_fits(x) ? 1
		: cost_single_is_always(x, cost_single_is_wide(x)) ? 3 : 4;
}

double
cost_single_bytes(const struct cost_single *x)
{
	bool wide = cost_single_is_wide(x);

	return !cost_single_fits(x) ? 0 : (double)
		cost_single_scratch(x, cost_single_is_always(x, wide)).bytes;
}

double
cost_single_scores(const struct cost_single *x)
{
	return cost_single_is_wide(x) ? 1 : (double)cost_single_outs(x);
}

bool
cost_single_is_sync(const struct cost_single *x)
{
	return !x->exact;
}

double
cost_single_parts(double queries, double keys)
{
	int64_t n = (int64_t)fmax(keys, 1);

	return queries * ceil((double)n / (double)cost_part_keys(n));
}

/* Of a number that lies so in memory. */
static double
lying_bytes(const struct cost_single *x, double bytes)
{
	return bytes > 0 ? bytes : x->exact ? 4 : 2;
}

/* Bytes of a key that the items of a query load for one kv head: all of it
 * each, and of its value what they make; of latents the value is in the key. */
static double
loaded_bytes(const struct cost_single *x, bool wide)
{
	int64_t tiles = cost_single_tiles(x, wide);
	double units = (double)ceil_div(x->heads / x->kv, TILE_ROWS * tiles);
	double key = lying_bytes(x, x->key_bytes) * (double)x->d;
	double value = lying_bytes(x, x->value_bytes) * (double)x->v;

	return units * (wide ? key
			     : (double)cost_single_outs(x) * key + value);
}

void
cost_single_keys(const struct cost_single *x, int64_t units,
		 struct cost_keys *k)
{
	bool wide = cost_single_is_wide(x);
	int64_t shared = x->heads / x->kv;
	int64_t each = TILE_ROWS * cost_single_tiles(x, wide);
	double items = (double)(x->kv * ceil_div(shared, each) *
				(wide ? 1 : cost_single_outs(x)));
	double parts = cost_single_parts(1, k->keys);
	double most = floor((k->sequences * parts + k->beside) * items /
			    (double)cost_single_items(units));

	k->rows = (double)round_up(shared, TILE_ROWS);
	k->scores = cost_single_scores(x);
	k->loaded = (double)x->kv * loaded_bytes(x, wide);
	k->left = 2 * 4 * k->sequences * k->queries * (double)x->heads *
		  (double)(cost_single_cols(x) + 2) *
		  (parts > fmax(most, 1) ? parts : 1);
}

/*
 * What llmc's kernels of attention take on sm_90a, in cycles of a
 * multiprocessor at its boost clock; and whether one kernel or step makes all
 * three gradients, there and on CPUs: on sm_90a where one is faster than two.
 *
 * Two warpgroups of a block multiply and compute, and each waits for what it
 * has multiplied.  So little of one overlaps with the other that a tile takes
 * as long as its products, at the stated rate, and the instructions that a
 * scheduler issues for it, one after the other, and SHOWN times that: what was
 * measured on an H200 is 1.11 times of it for attention forward (heads of 128,
 * docs/gpu.md) and 1.15 for two kernels (heads of 64), and what
 * FlashAttention-3 has published for an H100, which makes the five products by
 * the same instructions and adds in any order, 1.06 to 1.10 (574.7 TFLOP/s,
 * heads of 128, 16 of them, causal, 8192 tokens; pull request 1893 of
 * Dao-AILab/flash-attention).
 *
 * A fixed order of the sums of DQ costs a longer tail, since blocks with most
 * pairs must come last, waits, and turns.
 */
#include "passes/price/cost.h"

#define RATE 2048	/* products of 16 bits in a cycle, of one unit */
#define SHOWN 1.1
/* Instructions that a scheduler issues for a tile of 128 keys and 64 queries:
 * two warps' of the main loop, in bench/gpu/sass.tsv.  Of one kernel; and of
 * two, besides those for each element of a head. */
#define SLOTS_ONE 1386
#define SLOTS_TWO 1354
#define SLOTS_TWO_EACH 5.1
/* The same of forward, for a tile of 128 queries and 128 keys: 633 of a warp
 * with heads of 128, 585 with heads of 64; and what an item, 128 queries of a
 * head, takes besides its tiles: 1033 of a warp. */
#define SLOTS_FORWARD 1074
#define SLOTS_FORWARD_EACH 1.5
#define SLOTS_ITEM 2066
#define FORWARD_QUERIES 128
/* Of a tile of gradients. */
#define TILE_PAIRS ((double)(COST_JOINT_KEYS * COST_JOINT_QUERIES))
/* Bytes that reach memory in a cycle, for each of its multiprocessors: 3.35
 * TB/s, 132 of them, 1.83 GHz, at 0.9. */
#define BYTES 12.5
/*
 * Cycles of a turn at a tile of DQ: its number is read, 32 KiB are added and
 * have arrived, the number is written.  With one turn after the other in a
 * block, the gradients of 32 heads of 128, 8 of keys, 4096 tokens, causal, took
 * 1173 us on an H200, for which this is solved.
 */
#define TURN 6900
/* Parts of DQ that a block has, whose turns overlap. */
#define TURNS 2
/* Cycles of a block besides its products; and of a launch of three kernels
 * beside one of two, or of one. */
#define BLOCK 7000
#define LAUNCH 5000
#define MOST_APART 8
#define MOST_LAUNCHES 4

static int64_t
blocks_of(int64_t n, int64_t each)
{
	return (n + each - 1) / each;
}

/* ---- what it takes ---- */

bool
cost_joint_suits(const struct cost_gradients *g)
{
	return g->d > COST_JOINT_ABOVE && g->d <= COST_JOINT_HEAD &&
	       g->d % 8 == 0 && g->dv > 0 && g->dv <= COST_JOINT_HEAD &&
	       g->dv % 8 == 0 && g->queries > COST_JOINT_QUERIES &&
	       g->keys > COST_JOINT_QUERIES && g->kv * g->batches > 0 &&
	       (!g->causal || g->queries == g->keys);
}

int64_t
cost_joint_bytes(const struct cost_gradients *g, int64_t pairs)
{
	int64_t tiles = pairs * g->shared *
			blocks_of(g->queries, COST_JOINT_QUERIES);
	int64_t elems = COST_JOINT_QUERIES * COST_JOINT_HEAD;

	return (4 * tiles * (elems + 1) + 4 + 15) / 16 * 16;
}

static bool
divide(const struct cost_gradients *g, struct cost_joint *j)
{
	int64_t all = g->kv * g->batches, n;

	for (n = 1; n <= all && n <= MOST_LAUNCHES; n++) {
		j->pairs = all / n;
		if (all % n == 0 && cost_joint_bytes(g, j->pairs) <=
				    g->scratch) {
			return true;
		}
	}
	return false;
}

/* ---- what it costs ---- */

/* Cycles of a tile, of so many products for each pair, and instructions. */
static double
tile_cycles(int64_t products, double slots)
{
	return SHOWN * (TILE_PAIRS * (double)products / RATE + slots);
}

/* Cycles of a block's longest row of tiles, for one head. */
static double
longest(const struct cost_gradients *g)
{
	double cycles = tile_cycles(3 * g->d + 2 * g->dv, SLOTS_ONE);
	double turn = (double)TURN / TURNS;

	return (double)blocks_of(g->queries, COST_JOINT_QUERIES) *
	       (cycles > turn ? cycles : turn);
}

/*
 * Blocks that begin at their diagonal begin in the order of their length, and
 * the longest come last: half of one is the tail.  Without a mask all blocks
 * begin at the same tile, and wait for each other there.
 */
static double
cycles_of_one(const struct cost_gradients *g, const struct cost_joint *j)
{
	double units = (double)g->units;
	double of_keys = (double)blocks_of(g->keys, COST_JOINT_KEYS);
	double blocks = of_keys * (double)(j->pairs * j->apart);
	double launches = (double)(g->kv * g->batches / j->pairs);
	double all = (double)(g->shared / j->apart) * longest(g);
	double mean = g->causal ? all * (of_keys + 1) / (2 * of_keys) : all;
	double waits = g->causal ? 0 : TURN * (of_keys - 1);
	double maps = (double)(j->pairs * g->shared * g->queries) *
		      COST_JOINT_HEAD * 6 / (BYTES * units);
	double sum = blocks * (mean + BLOCK) / units;
	double end = g->causal ? all / 2 : waits;

	return ((sum + end > all + waits ? sum + end : all + waits) + maps +
		2 * LAUNCH) * launches - LAUNCH;
}

/* Into how many blocks of a cluster the heads of a kv head are divided. */
static int64_t
apart_of(const struct cost_gradients *g)
{
	struct cost_joint best = { g->kv * g->batches, 1 }, j = best;

	for (j.apart = 2; j.apart <= MOST_APART && j.apart <= g->shared;
	     j.apart++) {
		if (g->shared % j.apart == 0 &&
		    cycles_of_one(g, &j) < cycles_of_one(g, &best)) {
			best = j;
		}
	}
	return best.apart;
}

/* Two kernels, whose longest blocks come first. */
static double
cycles_of_two(const struct cost_gradients *g)
{
	double units = (double)g->units;
	double heads = (double)(g->batches * g->kv * g->shared);
	double of_keys = (double)blocks_of(g->keys, COST_JOINT_KEYS);
	double slots = SLOTS_TWO +
		       SLOTS_TWO_EACH * (double)(g->d + g->dv) / 2;
	double tiles = of_keys *
		       (double)blocks_of(g->queries, COST_JOINT_QUERIES);

	if (g->causal) {	/* half a block beyond the diagonal */
		tiles *= (of_keys + 1) / (2 * of_keys);
	}
	return heads * (tiles * tile_cycles(4 * g->d + 3 * g->dv, slots) +
			2 * of_keys * BLOCK) / units;
}

bool
cost_joint_choose(const struct cost_gradients *g, struct cost_joint *out)
{
	return cost_joint_suits(g) && divide(g, out) &&
	       (out->apart = apart_of(g)) > 0;
}

bool
cost_joint_is_less(const struct cost_gradients *g, const struct cost_joint *j)
{
	return cycles_of_one(g, j) < cycles_of_two(g);
}

double
cost_gradients_us(const struct target_device *d,
		  const struct cost_gradients *g, const struct cost_joint *j)
{
	double rows = (double)(g->batches * g->kv * g->shared * g->queries);
	double cycles = j ? cycles_of_one(g, j) : cycles_of_two(g);

	return cycles / d->clock_mhz + 3 * d->launch_us +
	       rows * (double)g->dv * 4 /
	       (d->memory_bytes_us * d->memory_eff);
}

double
cost_gradients_least_us(const struct target_device *d, double pairs,
			double head_dim)
{
	double one = SHOWN * (5 * head_dim / RATE + SLOTS_ONE / TILE_PAIRS);
	double two = SHOWN * (7 * head_dim / RATE +
			      (SLOTS_TWO + SLOTS_TWO_EACH * head_dim) /
			      TILE_PAIRS);

	return pairs * (one < two ? one : two) /
	       ((double)d->units * d->clock_mhz);
}

/* ---- forward ---- */

/* Cycles of a pair of a query and a key, a tile's share each. */
static double
pair_cycles(double d, double dv)
{
	double slots = SLOTS_FORWARD + SLOTS_FORWARD_EACH * (d + dv) / 2;

	return SHOWN * ((d + dv) / RATE +
			slots / (FORWARD_QUERIES * COST_JOINT_KEYS));
}

/*
 * Blocks take items one after the other, the longest first, so the last ones to
 * end have a short one more.  Without a mask all are as long.
 */
double
cost_forward_us(const struct target_device *d, const struct cost_gradients *g)
{
	double units = (double)g->units;
	int64_t rows = blocks_of(g->queries, FORWARD_QUERIES);
	double items = (double)(g->batches * g->kv * g->shared * rows);
	double tile = pair_cycles((double)g->d, (double)g->dv) *
		      FORWARD_QUERIES * COST_JOINT_KEYS;
	double row = (double)blocks_of(g->keys, COST_JOINT_KEYS) * tile +
		     SLOTS_ITEM;
	double mean = g->causal
		? tile * (double)(rows + 1) / 2 + SLOTS_ITEM : row;
	double all = g->causal ? items * mean / units + tile
		: (double)blocks_of((int64_t)items, g->units) * row;

	return (all > row ? all : row) / d->clock_mhz + d->launch_us;
}

double
cost_forward_least_us(const struct target_device *d, double pairs,
		      double head_dim)
{
	return pairs * pair_cycles(head_dim, head_dim) /
	       ((double)d->units * d->clock_mhz);
}

/* ---- on a CPU ---- */

/*
 * The gradient of the queries is in f32 and transposed, in blocks of two
 * vectors; it is counted in vectors of AVX-512 whichever the CPU has.
 */
#define CPU_LANES 16
#define CPU_JOINT_BYTES (1 << 20)	/* about a core's second-level cache */
#define CPU_JOINT_ITEMS 4	/* with fewer, workers would be idle */
#define CPU_FEW_KEYS 256

bool
cost_cpu_joint(const struct cost_gradients *g)
{
	int64_t queries = blocks_of(g->queries, 2 * CPU_LANES) * 2 * CPU_LANES;
	int64_t d = blocks_of(g->d, CPU_LANES) * CPU_LANES;

	return 4 * d * queries * g->shared <= CPU_JOINT_BYTES &&
	       (g->batches * g->kv >= CPU_JOINT_ITEMS ||
		g->keys <= CPU_FEW_KEYS);
}

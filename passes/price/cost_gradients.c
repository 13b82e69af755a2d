/*
 * What llmc's kernels of attention take on sm_90a, in cycles of a
 * multiprocessor at its boost clock; and whether one kernel or step makes all
 * three gradients, there and on CPUs: on sm_90a where one is faster than two.
 *
 * Two warpgroups of a block multiply and compute, and each waits for what it
 * has multiplied.  So little of one overlaps with the other that a tile takes
 * as long as its products, at the stated rate, and the instructions that a
 * scheduler issues for it, one after the other, and SHOWN times that.  What was
 * measured on an H200 (docs/gpu.md) is 1.14 times of it for attention forward
 * (heads of 128) and 1.30 for gradients by two kernels (heads of 64, where
 * exponentials take their unit as long as all instructions are issued).  What
 * FlashAttention-3 has published of five products for an H100, 574.7 TFLOP/s in
 * any order, is 1.24 to 1.28, if its instructions are as many as llmc's (heads
 * of 128, 16 of them, causal, 8192 tokens; pull request 1893 of
 * Dao-AILab/flash-attention).
 *
 * Instructions are those on the way that most tiles take.  Tiles on the
 * diagonal are masked besides; and of an item of forward one tile more than the
 * first is taken to raise references of weights, and so to rescale sums.
 *
 * A fixed order of the sums of DQ costs waits and turns, and without pairs of
 * keys a longer tail, since blocks with most pairs of a query and a key must
 * come last.
 */
#include "passes/price/cost.h"

#define RATE 2048	/* products of 16 bits in a cycle, of one unit */
#define SHOWN 1.25
#define SHOWN_FORWARD 1.15
/* Instructions that a scheduler issues for a tile of 128 keys and 64 queries:
 * two warps' of the main loop, `least` in bench/gpu/sass.tsv, as
 * COST_JOINT_SLOTS are of one kernel.  Of two, besides those for each element
 * of a head; and of either for the two tiles of a block of keys that a causal
 * mask cuts. */
#define SLOTS_TWO 918
#define SLOTS_TWO_EACH 2.125
#define MASKS_ONE 600
#define MASKS_TWO 884
/* The same of forward, for a tile of 128 queries and 128 keys: 374 of a warp
 * with heads of 128, 365 with heads of 64; what an item, 128 queries of a head,
 * takes besides its tiles, 1031 of a warp, and a tile that raises references;
 * and its mask. */
#define SLOTS_FORWARD 712
#define SLOTS_FORWARD_EACH 0.28
#define RAISED 1	/* tiles of an item that raise them: assumed */
#define SLOTS_RAISE 316
#define SLOTS_ITEM (2062 + RAISED * SLOTS_RAISE)
#define MASKS_FORWARD 290
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

bool
cost_joint_is_paired(const struct cost_gradients *g)
{
	return g->causal && g->keys > COST_JOINT_KEYS;
}

/* Of an odd number of parts of the keys the middle one is late, and alone. */
int64_t
cost_joint_late(const struct cost_gradients *g)
{
	return blocks_of(g->keys, COST_JOINT_KEYS) / 2 *
	       (COST_JOINT_KEYS / COST_JOINT_QUERIES);
}

int64_t
cost_joint_bytes(const struct cost_gradients *g, int64_t pairs)
{
	int64_t of_head = blocks_of(g->queries, COST_JOINT_QUERIES);
	int64_t again = cost_joint_is_paired(g) ? of_head - cost_joint_late(g)
						: 0;
	int64_t tiles = pairs * g->shared * (of_head + again);
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
	double cycles = tile_cycles(3 * g->d + 2 * g->dv, COST_JOINT_SLOTS);
	double turn = (double)TURN / TURNS;

	return (double)blocks_of(g->queries, COST_JOINT_QUERIES) *
	       (cycles > turn ? cycles : turn);
}

/* Cycles of what follows the sums of one kernel, of each launch. */
static double
after_cycles(const struct cost_gradients *g, const struct cost_joint *j)
{
	double bytes = cost_joint_is_paired(g) ? 8 : 6;

	return (double)(j->pairs * g->shared * g->queries) * COST_JOINT_HEAD *
	       bytes / (BYTES * (double)g->units) + 2 * LAUNCH;
}

/* All blocks have pairs of keys with as many tiles: waves of them. */
static double
cycles_of_pairs(const struct cost_gradients *g, const struct cost_joint *j)
{
	int64_t of_keys = blocks_of(g->keys, COST_JOINT_KEYS);
	int64_t blocks = (of_keys + 1) / 2 * j->pairs * j->apart;
	double launches = (double)(g->kv * g->batches / j->pairs);
	double heads = (double)(g->shared / j->apart);
	double all = heads * (longest(g) * (double)(of_keys + 1) /
			      (double)of_keys + 2 * SHOWN * MASKS_ONE) +
		     2 * BLOCK;

	return ((double)blocks_of(blocks, g->units) * all + TURN +
		after_cycles(g, j)) * launches - LAUNCH;
}

/*
 * Of few keys there is one block, and without a mask all begin at the same
 * tile, and wait for each other there.
 */
static double
cycles_of_one(const struct cost_gradients *g, const struct cost_joint *j)
{
	double of_keys = (double)blocks_of(g->keys, COST_JOINT_KEYS);
	double blocks = of_keys * (double)(j->pairs * j->apart);
	double launches = (double)(g->kv * g->batches / j->pairs);
	double all = (double)(g->shared / j->apart) * longest(g);
	double waits = TURN * (of_keys - 1);
	double sum = blocks * (all + BLOCK) / (double)g->units;

	if (cost_joint_is_paired(g)) {
		return cycles_of_pairs(g, j);
	}
	return ((sum > all ? sum : all) + waits + after_cycles(g, j)) *
	       launches - LAUNCH;
}

/* Into how many blocks of a cluster the heads of a kv head are divided, of
 * launches of so many of these. */
static int64_t
apart_of(const struct cost_gradients *g, int64_t pairs)
{
	struct cost_joint best = { pairs, 1 }, j = best;

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
	double block = 2 * BLOCK;

	if (g->causal) {	/* half a block beyond the diagonal */
		tiles *= (of_keys + 1) / (2 * of_keys);
		block += SHOWN * MASKS_TWO;
	}
	return heads * (tiles * tile_cycles(4 * g->d + 3 * g->dv, slots) +
			of_keys * block) / units;
}

bool
cost_joint_choose(const struct cost_gradients *g, struct cost_joint *out)
{
	return cost_joint_suits(g) && divide(g, out) &&
	       (out->apart = apart_of(g, out->pairs)) > 0;
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
	double one = SHOWN * (5 * head_dim / RATE +
			      COST_JOINT_SLOTS / TILE_PAIRS);
	double two = SHOWN * (7 * head_dim / RATE +
			      (SLOTS_TWO + SLOTS_TWO_EACH * head_dim) /
			      TILE_PAIRS);

	return pairs * (one < two ? one : two) /
	       ((double)d->units * d->clock_mhz);
}

/* ---- forward ---- */

double
cost_forward_slots(double d, double dv)
{
	return SLOTS_FORWARD + SLOTS_FORWARD_EACH * (d + dv) / 2;
}

/* Cycles of a pair of a query and a key, a tile's share each. */
static double
pair_cycles(double d, double dv, double slots)
{
	return SHOWN_FORWARD *
	       ((d + dv) / RATE + slots / (FORWARD_QUERIES * COST_JOINT_KEYS));
}

/*
 * Blocks take items one after the other, the longest first, so the last ones to
 * end have a short one more.  Without a mask all are as long.
 */
double
cost_forward_of_us(const struct target_device *d,
		   const struct cost_gradients *g, double slots)
{
	double units = (double)g->units;
	int64_t rows = blocks_of(g->queries, FORWARD_QUERIES);
	double items = (double)(g->batches * g->kv * g->shared * rows);
	double tile = pair_cycles((double)g->d, (double)g->dv, slots) *
		      FORWARD_QUERIES * COST_JOINT_KEYS;
	double row = (double)blocks_of(g->keys, COST_JOINT_KEYS) * tile +
		     SLOTS_ITEM;
	double mean = g->causal
		? tile * (double)(rows + 1) / 2 + SLOTS_ITEM + MASKS_FORWARD
		: row;
	double all = g->causal ? items * mean / units + tile
		: (double)blocks_of((int64_t)items, g->units) * row;

	return (all > row ? all : row) / d->clock_mhz + d->launch_us;
}

double
cost_forward_us(const struct target_device *d, const struct cost_gradients *g)
{
	return cost_forward_of_us(d, g, cost_forward_slots((double)g->d,
							   (double)g->dv));
}

double
cost_forward_least_us(const struct target_device *d, double pairs,
		      double head_dim)
{
	return pairs * pair_cycles(head_dim, head_dim,
				   cost_forward_slots(head_dim, head_dim)) /
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

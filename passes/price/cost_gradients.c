/*
 * Whether one kernel or step makes all three gradients of attention, on sm_90a
 * and on CPUs.  On sm_90a one does that is faster than two, in cycles of the
 * device.  All constants are from documentation and
 * published measurements; none was measured with these kernels.
 *
 * FlashAttention-3 makes the same five products by the same instructions.  On
 * an H100 it reached 574.7 TFLOP/s with sums of DQ in any order and 474.0 in a
 * fixed one (heads of 128, 16 of them, causal, 8192 tokens; pull request 1893
 * of Dao-AILab/flash-attention), that is 0.58 and 0.48 of the peak.  What a
 * fixed order costs is not a share of the products: it is a longer tail, since
 * blocks with most pairs must come last, and waits.
 */
#include "passes/price/cost.h"

#define RATE 1024	/* products of 16 bits by mma in a cycle, of one unit */
/* Shares of mma's rate: of two kernels, as cuda_attention90_back.c has it; and
 * of one.  Its five products read 256 KiB of shared memory for each tile of 128
 * keys and 64 queries, and 112 KiB pass besides: 2944 cycles for 2560 of
 * products, where seven have 3328 for 3584. */
#define REACHED_TWO 0.9
#define REACHED_ONE 0.84
/* Bytes that reach memory in a cycle, for each of its multiprocessors: 3.35
 * TB/s, 132 of them, 1.755 GHz, at 0.9. */
#define BYTES 13
/* Cycles from a block's addition to the next one's of the same tile: until the
 * sums have arrived, and the number, and it is read. */
#define NEXT 1500
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

/* Cycles of a block's longest row of tiles, for one head. */
static double
longest(const struct cost_gradients *g)
{
	return (double)(COST_JOINT_KEYS * g->queries) *
	       (double)(3 * g->d + 2 * g->dv) / (REACHED_ONE * RATE);
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
	double waits = g->causal ? 0 : NEXT * (of_keys - 1);
	double maps = (double)(j->pairs * g->shared * g->queries) *
		      COST_JOINT_HEAD * 10 / (BYTES * units);
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
	double pairs = heads * (double)(g->queries * g->keys) /
		       (g->causal ? 2 : 1);
	double blocks = 2.0 * heads *
			(double)blocks_of(g->keys, COST_JOINT_KEYS);

	return pairs * (double)(4 * g->d + 3 * g->dv) /
	       (REACHED_TWO * RATE * units) + blocks * BLOCK / units;
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

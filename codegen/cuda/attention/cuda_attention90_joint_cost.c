/*
 * Whether one kernel for all three gradients of attention is faster than two,
 * in cycles of the device.  All constants are from documentation and published
 * measurements; none was measured with these kernels.
 *
 * FlashAttention-3 makes the same five products by the same instructions.  On
 * an H100 it reached 574.7 TFLOP/s with sums of DQ in any order and 474.0 in a
 * fixed one (heads of 128, 16 of them, causal, 8192 tokens; pull request 1893
 * of Dao-AILab/flash-attention), that is 0.58 and 0.48 of the peak.  What a
 * fixed order costs is not a share of the products: it is a longer tail, since
 * blocks with most pairs must come last, and waits.
 */
#include "codegen/cuda/attention/cuda_attention90_back.h"

#define RATE 1024		/* as cuda_attention_candidates.c counts */
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

/* ---- what it takes ---- */

int64_t
ca90_joint_tiles(const struct ca90_back *p)
{
	return ca_ceil_div(p->s.t->queries, p->s.form.cols);
}

int64_t
ca90_joint_elems(const struct ca90_back *p)
{
	return p->s.form.cols * p->s.out_slope;
}

int64_t
ca90_joint_bytes(const struct ca90_back *p)
{
	int64_t tiles = p->pairs * p->s.t->shared * ca90_joint_tiles(p);

	return attn_round_up(4 * tiles * (ca90_joint_elems(p) + 1) + 4, 16);
}

bool
ca90_joint_divide(struct ca90_back *p)
{
	const struct attn *t = p->s.t;
	int64_t most = t->k->c->joint_scratch, all = p->pairs, n;

	most = most ? most : CG_JOINT_SCRATCH;
	for (n = 1; n <= all && n <= MOST_LAUNCHES; n++) {
		p->pairs = all / n;
		if (all % n == 0 &&
		    t->k->out->shared_bytes + t->g->back->align +
		    ca90_joint_bytes(p) <= most) {
			return true;
		}
	}
	return false;
}

/* ---- what it costs ---- */

/* Cycles of a block's longest row of tiles, for one head. */
static double
longest(const struct ca90_back *p)
{
	const struct attn *t = p->s.t;

	return (double)(p->s.rows * t->queries) *
	       (double)(3 * t->d + 2 * t->dv) / (REACHED_ONE * RATE);
}

/*
 * Blocks that begin at their diagonal begin in the order of their length, and
 * the longest come last: half of one is the tail.  Without a mask all blocks
 * begin at the same tile, and wait for each other there.
 */
static double
cycles_apart(const struct ca90_back *p, int64_t apart)
{
	const struct attn *t = p->s.t;
	double units = (double)t->k->c->units;
	double blocks = (double)(p->s.blocks * p->pairs * apart);
	double launches = (double)(t->kv * t->batches / p->pairs);
	double all = (double)(t->shared / apart) * longest(p);
	double mean = t->causal ? all * (p->s.blocks + 1) /
				  (2.0 * (double)p->s.blocks) : all;
	double waits = t->causal ? 0 : NEXT * (double)(p->s.blocks - 1);
	double maps = (double)(p->pairs * t->shared * t->queries) *
		      (double)p->s.out_slope * 10 / (BYTES * units);
	double sum = blocks * (mean + BLOCK) / units;
	double end = t->causal ? all / 2 : waits;

	return ((sum + end > all + waits ? sum + end : all + waits) + maps +
		2 * LAUNCH) * launches - LAUNCH;
}

int64_t
ca90_joint_apart(const struct ca90_back *p)
{
	const struct attn *t = p->s.t;
	int64_t best = 1, n;

	for (n = 2; n <= MOST_APART && n <= t->shared; n++) {
		if (t->shared % n == 0 && cycles_apart(p, n) <
					  cycles_apart(p, best)) {
			best = n;
		}
	}
	return best;
}

/* Two kernels, whose longest blocks come first. */
static double
cycles_of_two(const struct ca90_back *p)
{
	const struct attn *t = p->s.t;
	double units = (double)t->k->c->units;
	double pairs = (double)(t->batches * t->heads) *
		       (double)(t->queries * t->keys) / (t->causal ? 2 : 1);
	double blocks = 2.0 * (double)(p->s.blocks * t->heads * t->batches);

	return pairs * (double)(4 * t->d + 3 * t->dv) /
	       (REACHED_TWO * RATE * units) + blocks * BLOCK / units;
}

bool
ca90_joint_is_less(const struct ca90_back *p)
{
	return cycles_apart(p, p->s.apart) < cycles_of_two(p);
}

/*
 * Kernels: the time is the larger of math over the achievable rate and bytes
 * over the achievable bandwidth (the roofline: Williams, Waterman, Patterson,
 * CACM 52(4), 2009), plus a launch.  The achievable rate follows from the tiles
 * of a kernel; docs/cost.md has the formulas and how well they hold.
 */
#include "passes/price/cost.h"

#include <math.h>

/*
 * mma.sync, which is all that sm_80 has, reaches 62-65% of sm_90's peak,
 * where wgmma reaches 88-96% (Luo et al., arXiv:2402.13499): 0.63 / 0.95.
 */
#define NARROW 0.66
/*
 * Weights that kernels widen are multiplied by it on any GPU, which is that
 * share of the 4096 FLOPs of a multiprocessor of sm_90 in a cycle, and so at
 * most as much on later ones; and widened by instructions of which a
 * multiprocessor issues 4 in a cycle, a warp 314 for 2112 bytes of 4 bits of a
 * tile of few rows, and 460 for 4096 of 8 bits (docs/cuda.md).
 */
#define SYNC_FLOPS (NARROW * 4096)
#define WIDENED_4_BYTES (4 * 2112 / 314.)
#define WIDENED_8_BYTES (4 * 4096 / 460.)

/*
 * The bandwidth that a kind of kernel reaches, relative to memory_eff (that of
 * a contraction with few rows, which streams its weights): medians over long
 * rows of Vidur's profiles on A100 and H100 (kernels.tsv: add, mlp_act and
 * attn_rope of one rank, input_layernorm, emb), which agree on both; quantize
 * from GEMM rows of fp8 on H100 and B200, whose time at n = 1024 is that of
 * m k and not of the contraction.
 */
static const double kinds[COST_NKINDS] = {
	[COST_MAP] = 1.12, [COST_GATED] = 0.68, [COST_ROTARY] = 0.58,
	[COST_ROWS] = 0.44, [COST_GATHER] = 0.22, [COST_QUANTIZE] = 0.48
};

/* Kernels: a scale set to 0, the largest value, the scale, the rounding. */
#define QUANTIZE_LAUNCHES 4

double
cost_rate_bytes(enum target_rate r)
{
	static const double bytes[TARGET_NRATES] = {
		[TARGET_FP32] = 4, [TARGET_TF32] = 4, [TARGET_BF16] = 2,
		[TARGET_FP16] = 2, [TARGET_FP8] = 1, [TARGET_INT8] = 1,
		[TARGET_FP4] = 0.5
	};

	return bytes[r];
}

/* Of a type that the device has no rate for: the first that it has here. */
double
cost_flops_us(const struct target_device *d, enum target_rate r)
{
	static const enum target_rate or_else[TARGET_NRATES][6] = {
		[TARGET_FP32] = { TARGET_FP32, TARGET_TF32, TARGET_BF16,
				  TARGET_FP16 },
		[TARGET_TF32] = { TARGET_TF32, TARGET_FP32, TARGET_BF16,
				  TARGET_FP16 },
		[TARGET_BF16] = { TARGET_BF16, TARGET_FP16, TARGET_TF32,
				  TARGET_FP32 },
		[TARGET_FP16] = { TARGET_FP16, TARGET_BF16, TARGET_TF32,
				  TARGET_FP32 },
		[TARGET_FP8] = { TARGET_FP8, TARGET_BF16, TARGET_FP16,
				 TARGET_TF32, TARGET_FP32 },
		[TARGET_INT8] = { TARGET_INT8, TARGET_FP8, TARGET_BF16,
				  TARGET_FP16, TARGET_TF32, TARGET_FP32 },
		[TARGET_FP4] = { TARGET_FP4, TARGET_FP8, TARGET_BF16,
				 TARGET_FP16, TARGET_TF32, TARGET_FP32 }
	};
	size_t i;

	for (i = 0; i < 6; i++) {
		if (d->flops_us[or_else[r][i]] > 0) {
			return d->flops_us[or_else[r][i]];
		}
	}
	return 0;
}

static struct cost
total(double math_us, double memory_us, double launch_us)
{
	struct cost c = { .math_us = math_us, .memory_us = memory_us,
			  .launch_us = launch_us };

	c.us = (math_us > memory_us ? math_us : memory_us) + launch_us;
	return c;
}

/* ---- contractions ---- */

/* Sizes of a tile, and in how many pieces k may be cut. */
static const struct { double m, n; } tiles[] = {
	{ 256, 128 }, { 128, 256 }, { 128, 128 }, { 64, 256 }, { 256, 64 },
	{ 128, 64 }, { 64, 128 }, { 64, 64 }, { 128, 32 }, { 32, 128 }
};
static const double pieces[] = { 1, 2, 4, 8 };

/*
 * An element that is copied by itself is read from memory, and stored before
 * the next one is read (codegen/cuda/dot/cuda_dot_load.c), so each of a block's
 * threads waits for each of its own: some 400 cycles, on V100, A100 and H100
 * (doi.org/10.1016/j.ultsonch.2023.106546, table 3).  Code generation does not
 * count that where it chooses tiles, so it takes the one that is best without.
 */
#define SINGLE_CYCLES 400
#define SINGLE_THREADS 256
#define SINGLE_TILE 2		/* in tiles: 128 x 128 */

#define NTILES (sizeof tiles / sizeof *tiles)
#define NPIECES (sizeof pieces / sizeof *pieces)
#define LEAST_PIECE 256		/* of k: shorter ones are all prologue */
/* of k in a last wave that is cut alone, and of its partial sums: as in
 * codegen/cuda/dot/cuda_dot90_parts.c */
#define MOST_TAILS 16
#define MOST_TAIL_BYTES 0x1p26

/* What the search over tiles reads of a contraction and a device. */
struct tile_limits {
	double units;
	double flops_us;	/* of one unit */
	double feed_bytes_us;	/* into one unit */
	double fill;		/* in elements of k */
	double elem_bytes;
	double stored_bytes;	/* of the n side, as it comes from memory */
	double memory_bytes_us, launch_us;
	double single_us[2];	/* of an element of k of a row, see SINGLE */
};

/* ceil of a number that is not negative, without a call. */
static inline double
up(double v)
{
	double whole;

	if (!(v < 0x1p52)) {	/* above it every double is whole */
		return v;
	}
	whole = (double)(int64_t)v;
	return whole < v ? whole + 1 : whole;
}

/* k cut into n pieces. */
struct k_split {
	double n, steps;
	double sums_us;	/* partial sums in fp32, and a kernel to add them */
};

static size_t
splits_of(const struct tile_limits *c, const struct cost_contraction *x,
	  struct k_split out[NPIECES])
{
	size_t i;

	for (i = 0; i < NPIECES; i++) {
		if (i > 0 && x->k / pieces[i] < LEAST_PIECE) {
			break;
		}
		out[i].n = pieces[i];
		out[i].steps = up(x->k / pieces[i]);
		out[i].sums_us = i == 0 ? 0 : c->launch_us / 2 +
			4 * pieces[i] * x->m * x->n * x->batch /
			c->memory_bytes_us;
	}
	return i;
}

/* One tile, and how many of them. */
struct tiling {
	double count, elems, step_us, fill_us;
};

/*
 * llmc's kernels by wgmma and tcgen05 cut no tile of a full wave.  Each tile of
 * the last one is cut in as many pieces of k as are best, which are spread over
 * all units; only their sums are partial (codegen/cuda/dot/cuda_dot90_parts.c).
 */
static double
tail_us(const struct cost_contraction *x, const struct tile_limits *c,
	const struct tiling *t)
{
	double full = (double)(int64_t)(t->count / c->units);
	double rest = t->count - full * c->units, n;
	double whole_us = up(x->k) * t->step_us + t->fill_us;
	double best = rest > 0 ? whole_us : 0;

	for (n = 2; rest > 0 && n <= MOST_TAILS && x->k / n >= LEAST_PIECE &&
	     4 * n * rest * t->elems <= MOST_TAIL_BYTES; n++) {
		double us = up(rest * n / c->units) *
			    (up(x->k / n) * t->step_us + t->fill_us) +
			    c->launch_us / 2 +
			    4 * n * rest * t->elems / c->memory_bytes_us;

		best = us < best ? us : best;
	}
	return full * whole_us + best;
}

/*
 * A tile's step through k is the larger of its math and of bringing in its
 * two edges; the steps that fill and drain its pipeline come on top.
 */
static struct tiling
tiling_of(const struct cost_contraction *x, const struct tile_limits *c,
	  size_t tile)
{
	double m = tiles[tile].m, n = tiles[tile].n;
	double math_us = 2 * m * n / c->flops_us;
	double feed_us = (m * c->elem_bytes + n * c->stored_bytes) /
			 c->feed_bytes_us;
	double copy_us = m * c->single_us[0] + n * c->single_us[1];
	double step_us = math_us > feed_us ? math_us : feed_us;

	return (struct tiling){
		.count = up(x->m / m) * up(x->n / n) * x->batch,
		.elems = m * n,
		.step_us = step_us > copy_us ? step_us : copy_us,
		.fill_us = c->fill * math_us
	};
}

/*
 * Tiles run in waves, one on each unit, and the last wave takes as long as a
 * full one (NVIDIA, Matrix Multiplication Background, "Wave Quantization").
 */
static double
tile_us(const struct cost_contraction *x, const struct tile_limits *c,
	size_t tile, const struct k_split *splits, size_t nsplits)
{
	const struct tiling t = tiling_of(x, c, tile);
	double best = INFINITY;
	size_t i;

	if (x->own_tail) {
		return tail_us(x, c, &t);
	}
	for (i = 0; i < nsplits; i++) {
		const struct k_split *s = &splits[i];
		double waves = up(t.count * s->n / c->units);
		double us = waves * (s->steps * t.step_us + t.fill_us) +
			    s->sums_us;

		best = us < best ? us : best;
	}
	return best;
}

static double
best_tile_us(const struct cost_contraction *x, const struct tile_limits *c)
{
	struct k_split splits[NPIECES];
	size_t n = splits_of(c, x, splits), j;
	double best = INFINITY;

	if (x->single[0] || x->single[1]) {
		return tile_us(x, c, SINGLE_TILE, splits, n);
	}
	for (j = 0; j < NTILES; j++) {
		double us = tile_us(x, c, j, splits, n);

		best = us < best ? us : best;
	}
	return best;
}

/*
 * A CPU reads the n side of a contraction of up to so many rows in place, and
 * transposes it in registers, which takes as long as so many rows more
 * (codegen/cpu/dot/cpu_dot_stream.c; measured on Zen 4, where a core takes 126
 * cycles for a KB of bf16 with one row, 169 with four and 185 with eight, from
 * its caches).  There are no tiles then.
 */
#define CPU_FEW_ROWS 8
#define CPU_TURN_ROWS 5
/* From panels it transposes nothing: 4 and 8 rows take what their products do.
 * Products of one or two rows wait for those before, as long as so many rows
 * take (56 cycles for a KB there). */
#define CPU_CHAIN_ROWS 5.5
/* Of 8 bits it widens them in registers: 64 numbers, of which a row's products
 * take two instructions, by six, of which four take the units that multiply,
 * and with the loads of these as long as so many rows.  Three panels at once
 * do not wait.  A target may say how many rows it is there. */
#define CPU_WIDEN_ROWS 4

static double
few_rows_us(const struct target_device *d, const struct cost_contraction *x,
	    const struct tile_limits *c)
{
	double widen = d->widen_rows > 0 ? d->widen_rows : CPU_WIDEN_ROWS;
	bool is_int4 = x->stored_bytes > 0 && x->stored_bytes < 1;
	double rows = is_int4 && d->widen_int4_rows > 0
		? x->m + d->widen_int4_rows
		: !x->panels ? x->m + CPU_TURN_ROWS
		: x->stored_bytes == 1 ? x->m + widen
		: fmax(x->m, CPU_CHAIN_ROWS);

	return 2 * rows * x->n * x->k * x->batch / (c->flops_us * c->units);
}

static struct tile_limits
limits_of(const struct target_device *d, const struct cost_contraction *x)
{
	double bytes = cost_rate_bytes(x->rate);
	struct tile_limits c = {
		.units = (double)d->units, .elem_bytes = bytes,
		.stored_bytes = x->stored_bytes > 0 ? x->stored_bytes : bytes,
		.memory_bytes_us = d->memory_bytes_us * d->memory_eff,
		.launch_us = d->launch_us
	};
	int i;

	c.flops_us = cost_flops_us(d, x->rate) * d->matrix_eff *
		     (x->narrow ? NARROW : 1) / c.units;
	if (x->widened) {
		c.flops_us = fmin(c.flops_us, SYNC_FLOPS * d->clock_mhz *
					      d->matrix_eff);
	}
	for (i = 0; i < 2; i++) {
		c.single_us[i] = x->single[i] ? SINGLE_CYCLES /
			(double)SINGLE_THREADS / d->clock_mhz : 0;
	}
	c.feed_bytes_us = d->matrix_feed * d->clock_mhz;
	/* bytes fill a pipeline, not elements */
	c.fill = d->matrix_fill * 2 / bytes;
	return c;
}

/* What follows products that take so long. */
static double
own_put_us(const struct target_device *d, const struct cost_contraction *x,
	   double math_us)
{
	return cost_put_us(d, &x->put, x->batch * x->m * x->n, math_us);
}

/* Of its operands, of which so much is read for it, and its result. */
static double
shared_memory_us(const struct cost_contraction *x, const struct tile_limits *c,
		 double left, double right)
{
	return x->batch * ((left * x->m * c->elem_bytes +
			    right * x->n * c->stored_bytes) * x->k +
			   x->m * x->n * x->out_bytes) / c->memory_bytes_us;
}

static double
memory_us(const struct cost_contraction *x, const struct tile_limits *c)
{
	return shared_memory_us(x, c, 1, 1);
}

double
cost_widening_us(const struct target_device *d,
		 const struct cost_contraction *x)
{
	struct tile_limits c = limits_of(d, x);

	return !x->widened ? 0 : x->batch * x->n * x->k * c.stored_bytes /
		((c.stored_bytes < 1 ? WIDENED_4_BYTES : WIDENED_8_BYTES) *
		 d->clock_mhz * c.units);
}

/* Of experts: of few rows a tile by later instructions is mostly empty. */
static double
either_us(const struct target_device *d, const struct cost_contraction *x)
{
	struct cost_contraction old = *x, late = *x;
	struct tile_limits c;
	double us;

	old.narrow = true;
	late.m = fmax(x->m, COST_TILE_ROWS);
	c = limits_of(d, &old);
	us = best_tile_us(&old, &c);
	c = limits_of(d, &late);
	return fmin(us, best_tile_us(&late, &c));
}

struct cost
cost_contraction(const struct target_device *d,
		 const struct cost_contraction *x)
{
	bool is_few = target_is_cpu(d) && x->m <= CPU_FEW_ROWS;
	struct tile_limits c = limits_of(d, x);
	double beside_us = x->widened_apart ? 0 : cost_widening_us(d, x);
	double tiles_us = is_few ? few_rows_us(d, x, &c)
		: fmax(x->either ? either_us(d, x) : best_tile_us(x, &c),
		       beside_us);
	struct cost cost = total(tiles_us + own_put_us(d, x, tiles_us),
				 memory_us(x, &c), d->launch_us);

	if (x->widened_apart) {
		cost.us += cost_widening_us(d, x);
	}
	return cost;
}

double
cost_contraction_among_us(const struct target_device *d,
			  const struct cost_contraction *x, uint32_t n,
			  uint32_t at, bool by_rows)
{
	struct tile_limits c = limits_of(d, x);
	double best = INFINITY, own = 0;
	uint32_t i;
	size_t j;

	for (j = 0; j < NTILES; j++) {
		struct tiling all = tiling_of(&x[at], &c, j);
		double count = all.count, us;

		for (i = 0; i < n; i++) {
			all.count += i == at ? 0
				: tiling_of(&x[i], &c, j).count;
		}
		us = tail_us(x, &c, &all);
		if (us < best) {
			best = us;
			own = us * count / all.count;
		}
	}
	own += own_put_us(d, &x[at], own);
	return fmax(own, shared_memory_us(&x[at], &c, by_rows ? 1 : 1. / n,
					  by_rows ? 1. / n : 1)) +
	       d->launch_us / n;
}

double
cost_contraction_summed_us(const struct target_device *d,
			   const struct cost_contraction *x, uint32_t n,
			   uint32_t at)
{
	struct tile_limits c = limits_of(d, x);
	struct cost_contraction all = x[0], own = x[at];
	double best = INFINITY, own_us = 0;
	uint32_t i;
	size_t j;

	for (i = 1; i < n; i++) {
		all.k += x[i].k;
	}
	for (j = 0; j < NTILES; j++) {
		struct tiling t = tiling_of(&all, &c, j);
		double us = tail_us(&all, &c, &t);

		if (us < best) {
			best = us;
			own_us = us * (own.k * t.step_us + t.fill_us / n) /
				 (all.k * t.step_us + t.fill_us);
		}
	}
	own.out_bytes /= n;
	own_us += own_put_us(d, &own, best);
	return fmax(own_us, memory_us(&own, &c)) + d->launch_us / n;
}

/* Its tiles, of the kind that takes least, evenly on all units; or its bytes,
 * with the share of the larger operand, of filling tiles and of the result that
 * one of most has. */
static double
even_us(const struct target_device *d, const struct cost_contraction *x)
{
	struct tile_limits c = limits_of(d, x);
	struct cost_contraction least = *x;
	double best = INFINITY;
	size_t j;

	for (j = 0; j < NTILES; j++) {
		struct tiling t = tiling_of(x, &c, j);

		best = fmin(best, t.count / c.units * (x->k * t.step_us +
						t.fill_us / COST_MAX_LAUNCH));
	}
	least.out_bytes /= COST_MAX_LAUNCH;
	return fmax(best, x->m * c.elem_bytes > x->n * c.stored_bytes
		? shared_memory_us(&least, &c, 1. / COST_MAX_LAUNCH, 1)
		: shared_memory_us(&least, &c, 1, 1. / COST_MAX_LAUNCH));
}

static double
split_us(const struct target_device *d, const struct cost_contraction *x)
{
	struct cost c = cost_contraction(d, x);
	double rows = x->panels ? 1 : 1 + CPU_TURN_ROWS / (double)CPU_FEW_ROWS;
	double few_us = 2 * rows * x->m * x->n * x->k * x->batch /
			(cost_flops_us(d, x->rate) * d->matrix_eff *
			 (x->narrow ? NARROW : 1));
	bool is_few = target_is_cpu(d) && x->m > CPU_FEW_ROWS;

	return fmax(is_few ? fmin(c.math_us, few_us) : c.math_us, c.memory_us);
}

double
cost_contraction_split_us(const struct target_device *d,
			  const struct cost_contraction *x)
{
	struct cost_contraction other = *x;

	other.own_tail = false;
	return x->own_tail ? fmin(even_us(d, x), split_us(d, &other))
			   : split_us(d, x);
}

double
cost_read_bytes_us(const struct target_device *d)
{
	return d->read_bytes_us > 0 ? d->read_bytes_us
				    : d->memory_bytes_us * d->memory_eff;
}

/*
 * Weights of 16 and 32 bits that lie in rows, of which a CPU reads several at
 * once, come in at that part of the rate of panels, which lie as they are read:
 * of GB/s of a core for one row, 0.71 on Zen 4 and 0.84 on Sapphire Rapids, and
 * by code for x86-64-v4 and v3 0.89 and 0.8 (docs/codegen.md; bench/serve/rows
 * with and without -r).
 */
#define CPU_ROWS_READ 0.8

double
cost_weight_bytes_us(const struct target_device *d,
		     const struct cost_contraction *x)
{
	bool in_rows = target_is_cpu(d) && x->m <= CPU_FEW_ROWS &&
		       !x->panels && x->stored_bytes == 0;

	return cost_read_bytes_us(d) * (in_rows ? CPU_ROWS_READ : 1);
}

/*
 * A CPU's core waits for memory with the instructions that compute, as far as
 * it does not see past them, so a part of the shorter time comes on top.  A GPU
 * has other warps meanwhile.
 */
double
cost_read_us(const struct target_device *d, double read_us, double math_us)
{
	return fmax(read_us, math_us) +
	       d->read_shown * fmin(read_us, math_us);
}

/* ---- attention ---- */

/*
 * A block of 128 queries runs over their keys (Dao, arXiv:2307.08691, section
 * 3); a causal one stops after its diagonal, on average half a block too late.
 */
#define QUERY_BLOCK 128

/*
 * exp: 16 a unit and cycle since sm_70 (CUDA Programming Guide, throughput).
 * Half of it hides behind the other half's products (Shah et al.,
 * arXiv:2407.08608, section 3.1).
 */
#define EXP_PER_CYCLE 16
#define EXP_SHOWN 0.5

/* Keys that a query sees on average, in whole blocks. */
static double
keys_seen(const struct cost_attention *x, double block)
{
	double keys = x->keys;

	if (x->causal) {
		keys = x->keys - x->queries + (x->queries + block) / 2;
	}
	if (x->window > 0 && keys > x->window + block) {
		keys = x->window + block;
	}
	return keys < x->keys ? keys : x->keys;
}

/*
 * On a CPU a block has as many queries, but computes 32 of them at a time, and
 * only the keys that these see (two vectors of AVX-512: codegen/cpu/).
 */
#define CPU_BLOCK 32

/*
 * A CPU computes it in f32, whatever it is of: see
 * codegen/cpu/cpu_attention.h.
 */
static enum target_rate
attention_rate(const struct target_device *d, const struct cost_attention *x)
{
	return target_is_cpu(d) ? TARGET_FP32 : x->rate;
}

/*
 * FLOPs of a matrix unit of sm_80 in a cycle: 312 TFLOP/s, 108 units, 1.41 GHz;
 * and the part of them that attention gets there (a100-sxm's attention_eff).
 */
#define SM80_CYCLE_FLOPS 2048
#define SM80_ATTENTION_EFF 0.58

/* A device whose units multiply no faster than those of sm_80 has no other
 * instruction. */
double
cost_sync_flops_us(const struct target_device *d, enum target_rate r)
{
	double own = cost_flops_us(d, r) / (double)d->units;

	return own < 1.01 * SM80_CYCLE_FLOPS * d->clock_mhz ? own
		: fmin(own * NARROW, SYNC_FLOPS * d->clock_mhz);
}

/*
 * FLOPs of one unit in a microsecond.  A kernel with the instructions of sm_80
 * gets what these reach on a later device.  One that was tiled and scheduled
 * for sm_80 takes the cycles of sm_80 on any later device: its speed grows with
 * units and clock alone.
 */
static double
attention_flops_us(const struct target_device *d,
		   const struct cost_attention *x)
{
	double own = cost_flops_us(d, attention_rate(d, x)) /
		     (double)d->units;
	double sm80 = SM80_CYCLE_FLOPS * d->clock_mhz;
	double eff = d->attention_eff;

	if (own < 1.01 * sm80) {
		return own * eff;
	}
	return x->dated ? sm80 * SM80_ATTENTION_EFF : eff *
	       (x->narrow ? cost_sync_flops_us(d, attention_rate(d, x)) : own);
}

/* The time of all blocks on all units; `products` contractions per pair. */
static double
attention_us(const struct target_device *d, const struct cost_attention *x,
	     double products)
{
	double block = x->queries < QUERY_BLOCK ? x->queries : QUERY_BLOCK;
	double blocks = x->batch * x->heads * ceil(x->queries / block);
	double seen = keys_seen(x, target_is_cpu(d) && block > CPU_BLOCK ?
				   CPU_BLOCK : block);
	double longest = x->causal ? x->keys : seen;
	double pair_us, tail;

	pair_us = 2 * products * x->head_dim / attention_flops_us(d, x) +
		  EXP_SHOWN / (EXP_PER_CYCLE * d->clock_mhz);
	if (x->window > 0 && longest > x->window + block) {
		longest = x->window + block;
	}
	blocks /= (double)d->units;
	if (blocks <= 1) {
		return block * pair_us * (longest + d->attention_fill);
	}
	/* long blocks start first, so the last wave is half a mean one */
	tail = x->causal ? 0.5 : ceil(blocks) - blocks < 0.5 ?
	       ceil(blocks) - blocks : 0.5;
	blocks = (blocks + tail) * (seen + d->attention_fill);
	longest += d->attention_fill;
	return block * pair_us * (blocks > longest ? blocks : longest);
}

/* Queries, keys, values and results, each once. */
static double
attention_bytes(const struct cost_attention *x)
{
	return cost_rate_bytes(x->rate) * x->batch * x->head_dim *
	       2 * (x->heads * x->queries + x->kv_heads * x->keys);
}

struct cost
cost_attention(const struct target_device *d, const struct cost_attention *x)
{
	return total(attention_us(d, x, 2),
		     attention_bytes(x) / (d->memory_bytes_us * d->memory_eff),
		     d->launch_us);
}

/* Bytes of an element of each query's head, so many times. */
static double
query_bytes(const struct cost_attention *x, double each)
{
	return x->batch * x->heads * x->queries * x->head_dim * each;
}

/*
 * Five products where forward has two (arXiv:2307.08691, section 3.1.2), in
 * three kernels: the sums of dO O, the products, dQ from fp32.  Those two
 * maps read O, dO and 4 bytes of dQ for each of 2, and write dQ.
 */
struct cost
cost_attention_backward(const struct target_device *d,
			const struct cost_attention *x)
{
	double elem = cost_rate_bytes(x->rate);
	double bandwidth = d->memory_bytes_us * d->memory_eff;
	double maps_us = query_bytes(x, 3 * elem + 4) / bandwidth;

	return total(attention_us(d, x, 5) + maps_us,
		     2 * attention_bytes(x) / bandwidth + maps_us,
		     3 * d->launch_us);
}

/*
 * Scores and their gradients in both of two kernels: three products for dQ,
 * four for dK and dV.  A map sums dO O.
 */
struct cost
cost_attention_backward_apart(const struct target_device *d,
			      const struct cost_attention *x)
{
	double bandwidth = d->memory_bytes_us * d->memory_eff;
	double maps_us = query_bytes(x, 2 * cost_rate_bytes(x->rate)) /
			 bandwidth;

	return total(attention_us(d, x, 3) + attention_us(d, x, 4) + maps_us,
		     3 * attention_bytes(x) / bandwidth + maps_us,
		     3 * d->launch_us);
}

struct cost
cost_attention_backward_least(const struct target_device *d,
			      const struct cost_attention *x)
{
	struct cost one = cost_attention_backward(d, x);
	struct cost two = cost_attention_backward_apart(d, x);

	return one.us < two.us ? one : two;
}

/* ---- what only moves bytes ---- */

struct cost
cost_bytes(const struct target_device *d, enum cost_kind kind, double bytes)
{
	double bandwidth = d->memory_bytes_us * d->memory_eff * kinds[kind];

	return total(0, bytes / bandwidth,
		     (kind == COST_QUANTIZE ? QUANTIZE_LAUNCHES : 1) *
		     d->launch_us);
}

/*
 * Attention of sequences that decode: each has a query, or a few where tokens
 * are guessed, and keys and values of its own in a cache, which are read once
 * for all queries and heads that share them.
 */
#include "passes/price/cost.h"

#include <math.h>
#include <string.h>

/*
 * Queries that share keys are the rows of a tile, and the matrix instructions
 * of sm_80 and later have 16 (PTX ISA, mma.m16n8k16), so fewer take as long.
 */
#define QUERY_ROWS 16
/*
 * A CPU has no such rows: it multiplies vectors of keys and values by a number
 * of each head, after it has loaded and widened them and transposed the keys,
 * which are as many instructions for a vector as four heads' products
 * (codegen/cpu/cpu_attention_single.c: of two vectors of 16 bit keys a load,
 * four shuffles and two that widen, of one of values two and its part of
 * finding the row).
 */
#define CPU_TURN_HEADS 4
/*
 * Its scores are of as many keys as a vector has floats, of which the last ones
 * of a sequence may not exist; sequences end anywhere in a vector.  A CPU that
 * has a name of its own is taken to have AVX-512.
 */
static double
vector_keys(const struct target_device *d)
{
	return strcmp(d->arch, "x86-64-v3") == 0 ? 8
		: strcmp(d->arch, "x86-64-v2") == 0 ||
		  strcmp(d->arch, "x86-64") == 0 ? 4 : 16;
}

/*
 * What a worker of a CPU computes at least: one query with up to 32 heads of a
 * kv head, and of its keys a part, where there are more than 512 (at most 16
 * parts: codegen/cpu/cpu_attention_parts.c).  Of 64 queries and kv heads, or
 * more, each is one worker's.
 */
#define CPU_UNIT_HEADS 32
#define CPU_PART_KEYS 512
#define CPU_MOST_PARTS 16
#define CPU_WHOLE_PAIRS 64

/*
 * FLOPs of a key.  Latent attention decodes in the space of what is cached:
 * queries and results are multiplied by the matrices that would compute keys
 * and values, which are contractions of the model of the same size
 * (DeepSeek-V2, arXiv:2405.04434, section 2.1.2).
 */
static double
flops_of_key(const struct target_device *d, const struct cost_keys *x)
{
	double shared = x->latent > 0 ? x->heads : x->heads / x->kv;
	double more = target_is_cpu(d) ? 1 + CPU_TURN_HEADS / shared
		    : x->rows > 0 ? x->rows / shared
		    : fmax(QUERY_ROWS / (x->queries * shared), 1);
	double scored = !target_is_cpu(d) ? 1
		: 1 + (vector_keys(d) - 1) / 2 / fmax(x->keys, 1);

	return 2 * x->queries * x->heads * more *
	       (x->latent > 0 ? 2 * x->latent
			      : x->d * scored * fmax(x->scores, 1) + x->v);
}

/*
 * How much longer a CPU's units take for what sequences ask of their keys than
 * if it could be divided among all of them evenly.
 */
static double
uneven(const struct target_device *d, const struct cost_keys *x)
{
	double kv = x->latent > 0 ? 1 : x->kv, units = (double)d->units, n;

	if (!target_is_cpu(d) || units <= 1) {
		return 1;
	}
	n = fmax(x->sequences, 1) * kv * ceil(x->heads / kv / CPU_UNIT_HEADS);
	if (n < CPU_WHOLE_PAIRS) {
		n *= fmin(fmax(ceil(x->keys / CPU_PART_KEYS), 1),
			  CPU_MOST_PARTS);
	}
	return ceil(n / units) * units / n;
}

/* Numbers of a CPU's keys are widened to f32, whatever they are.  This
 * compiler's kernels multiply them by mma.sync on a GPU. */
static double
flops_us(const struct target_device *d, const struct cost_keys *x)
{
	enum target_rate rate = target_is_cpu(d) ? TARGET_FP32 : x->rate;

	return (x->rows > 0 ? cost_sync_flops_us(d, rate) * (double)d->units
			    : cost_flops_us(d, rate)) *
	       (d->keys_eff > 0 ? d->keys_eff : d->attention_eff);
}

/* Until multiprocessors have loaded all tiles, which come from the L2 cache
 * where several items read the same keys. */
static double
load_us(const struct target_device *d, const struct cost_keys *x)
{
	return x->loaded <= 0 || d->matrix_feed <= 0 ? 0
		: x->sequences * x->keys * x->loaded /
		  (d->matrix_feed * d->clock_mhz * (double)d->units);
}

struct cost
cost_keys(const struct target_device *d, const struct cost_keys *x)
{
	double keys = x->sequences * x->keys;
	double shown = d->keys_eff > 0 ? d->keys_shown : d->read_shown;
	struct cost c = { 0 };

	c.memory_us = (keys * x->bytes + x->left) / cost_read_bytes_us(d);
	c.math_us = fmax(keys * flops_of_key(d, x) * uneven(d, x) /
			 flops_us(d, x), load_us(d, x));
	c.us = fmax(c.memory_us, c.math_us) +
	       shown * fmin(c.memory_us, c.math_us);
	return c;
}

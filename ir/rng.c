/*
 * The counter-based generator.  Every number is a function of (name of its
 * stream, seed, global index) alone, so any split of a tensor over machines
 * draws the same elements, and nothing is kept between draws.
 *
 * Philox-4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3" (SC 2011).
 *
 * A normal is a sum of eight uniforms (Irwin-Hall), not Box-Muller: libm's
 * log and cos differ in the last bits between machines and devices, and a
 * weight must not.  Here all is integer arithmetic up to one division, which
 * IEEE 754 rounds the same way everywhere.  Mean 0 and variance 1 are exact;
 * the kurtosis is 0.15 under a normal's, and no draw is further than 4.9
 * standard deviations out, which initial weights do not mind.
 */
#include "ir/ir.h"

#define ROUNDS 10

static void
philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4])
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t x[4] = { (uint32_t)low, (uint32_t)(low >> 32),
			  (uint32_t)high, (uint32_t)(high >> 32) };
	int i;

	for (i = 0; i < ROUNDS; i++) {
		uint64_t a = (uint64_t)0xd2511f53u * x[0];
		uint64_t b = (uint64_t)0xcd9e8d57u * x[2];

		x[0] = (uint32_t)(b >> 32) ^ x[1] ^ k0;
		x[1] = (uint32_t)b;
		x[2] = (uint32_t)(a >> 32) ^ x[3] ^ k1;
		x[3] = (uint32_t)a;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	for (i = 0; i < 4; i++) {
		out[i] = x[i];
	}
}

void
ir_philox(uint64_t key, uint64_t counter, uint32_t out[4])
{
	philox(key, counter, 0, out);
}

/* The finaliser of SplitMix64: every bit in reaches every bit out. */
static uint64_t
mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t
ir_rng_key(const char *name, uint64_t seed)
{
	uint64_t h = 0xcbf29ce484222325u;	/* FNV-1a, 64 bits */

	for (; *name; name++) {
		h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	}
	/* the increment keeps seed 0 from being mix's fixed point */
	return mix(h ^ mix(seed + 0x9e3779b97f4a7c15u));
}

double
ir_rng_normal(uint64_t key, uint64_t index)
{
	/*
	 * Eight whole numbers of 0..65535: their sum has mean 8 * 65535 / 2
	 * and variance 8 * (65536^2 - 1) / 12 = 2863311530.  This is its
	 * root, 53509.91992145007873..., to the nearest double.
	 */
	const double sd = 0x1.a20bd6fff1bdfp+15;
	int32_t sum = -8 * 65535 / 2;
	uint32_t x[4];
	int i;

	ir_philox(key, index, x);
	for (i = 0; i < 4; i++) {
		sum += (int32_t)(x[i] & 0xffff) + (int32_t)(x[i] >> 16);
	}
	return sum / sd;
}

/* The upper 64 bits of a * b. */
static uint64_t
mul_high(uint64_t a, uint64_t b)
{
	uint64_t al = (uint32_t)a, ah = a >> 32;
	uint64_t bl = (uint32_t)b, bh = b >> 32;
	uint64_t mid = ah * bl + ((al * bl) >> 32);
	uint64_t low = al * bh + (uint32_t)mid;

	return ah * bh + (mid >> 32) + (low >> 32);
}

/*
 * floor(u * n / 2^64) of 64 random bits u.  The chances of two outcomes
 * differ by less than n / 2^64 of themselves, under 2^-16 for the largest
 * dim there may be; rejection would remove that and cost the fixed place of
 * each draw.
 */
int64_t
ir_rng_below(uint64_t key, uint64_t index, int64_t n)
{
	uint32_t x[4];

	ir_philox(key, index, x);
	return (int64_t)mul_high((uint64_t)x[1] << 32 | x[0], (uint64_t)n);
}

/*
 * The step is the counter's high half, so a mask needs no key of its own per
 * step; a block of four words makes four neighbours.  The comparison is one
 * of whole numbers: the chance is rate, rounded down to a multiple of 2^-32.
 */
bool
ir_rng_keeps(uint64_t key, uint64_t step, uint64_t index, double rate)
{
	uint32_t x[4];

	philox(key, index / 4, step, x);
	return x[index % 4] >= (uint32_t)(rate * 0x1p32);
}

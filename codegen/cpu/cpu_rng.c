/*
 * The random numbers of ir/rng.c as emitted code: the same bits, a vector at a
 * time.  Words of 32 bits are held in lanes of 64 with upper halves 0, so that
 * a product of two words is one instruction, and keys need no shuffles.
 */
#include "codegen/cpu/cpu.h"

#define ROUNDS 10
#define LOW32 0xffffffff

static struct ll_value *
num(struct ll *l, struct ll_value *x, uint64_t v)
{
	return ll_int(l, ll_typeof(l, x), (int64_t)v);
}

static struct ll_value *
op_num(struct ll *l, enum ll_op op, struct ll_value *x, uint64_t v)
{
	return ll_bin(l, op, x, num(l, x, v));
}

static struct ll_value *
low(struct ll *l, struct ll_value *x)
{
	return op_num(l, LL_AND, x, LOW32);
}

static struct ll_value *
high(struct ll *l, struct ll_value *x)
{
	return op_num(l, LL_LSHR, x, 32);
}

static struct ll_value *
spread(struct ll *l, struct ll_value *x, uint32_t lanes)
{
	return lanes > 1 ? ll_splat(l, x, lanes) : x;
}

/* Four words of Philox 4x32-10 for a scalar key and a counter, whose low half
 * has any lanes and whose high half is a scalar.  The keys of the rounds are
 * scalars, which LLVM moves out of loops. */
static void
philox(struct ll *l, struct ll_value *key, struct ll_value *counter,
       struct ll_value *upper, struct ll_value *x[4])
{
	uint32_t lanes = ll_typeof(l, counter).lanes;
	struct ll_value *k0 = low(l, key), *k1 = high(l, key), *a, *b;
	int i;

	x[0] = low(l, counter);
	x[1] = high(l, counter);
	x[2] = spread(l, low(l, upper), lanes);
	x[3] = spread(l, high(l, upper), lanes);
	for (i = 0; i < ROUNDS; i++) {
		a = op_num(l, LL_MUL, x[0], 0xd2511f53);
		b = op_num(l, LL_MUL, x[2], 0xcd9e8d57);
		x[0] = ll_bin(l, LL_XOR, high(l, b), x[1]);
		x[0] = ll_bin(l, LL_XOR, x[0], spread(l, k0, lanes));
		x[1] = low(l, b);
		x[2] = ll_bin(l, LL_XOR, high(l, a), x[3]);
		x[2] = ll_bin(l, LL_XOR, x[2], spread(l, k1, lanes));
		x[3] = low(l, a);
		k0 = low(l, op_num(l, LL_ADD, k0, 0x9e3779b9));
		k1 = low(l, op_num(l, LL_ADD, k1, 0xbb67ae85));
	}
}

uint64_t
cg_rng_hash(const char *name)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *name; name++) {
		h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	}
	return h;
}

static struct ll_value *
mix(struct ll *l, struct ll_value *z)
{
	z = ll_bin(l, LL_XOR, z, op_num(l, LL_LSHR, z, 30));
	z = op_num(l, LL_MUL, z, 0xbf58476d1ce4e5b9u);
	z = ll_bin(l, LL_XOR, z, op_num(l, LL_LSHR, z, 27));
	z = op_num(l, LL_MUL, z, 0x94d049bb133111ebu);
	return ll_bin(l, LL_XOR, z, op_num(l, LL_LSHR, z, 31));
}

struct ll_value *
cg_rng_key(struct ll *l, struct ll_value *hash, struct ll_value *seed)
{
	seed = mix(l, op_num(l, LL_ADD, seed, 0x9e3779b97f4a7c15u));
	return mix(l, ll_bin(l, LL_XOR, hash, seed));
}

/* The sum of eight halves of words, as in ir_rng_normal.  The one division is
 * rounded by IEEE 754 as it is there. */
struct ll_value *
cg_rng_normal(struct ll *l, struct ll_value *key, struct ll_value *index)
{
	const double sd = 0x1.a20bd6fff1bdfp+15;
	struct ll_value *x[4], *sum = num(l, index, (uint64_t)-262140);
	int i;

	philox(l, key, index, ll_i64(l, 0), x);
	for (i = 0; i < 4; i++) {
		sum = ll_bin(l, LL_ADD, sum, op_num(l, LL_AND, x[i], 0xffff));
		sum = ll_bin(l, LL_ADD, sum, op_num(l, LL_LSHR, x[i], 16));
	}
	/* few CPUs convert i64 lanes to f64; the sum fits 32 bits */
	sum = ll_cast(l, ll_cast(l, sum, LL_I32), LL_F64);
	return ll_bin(l, LL_DIV, sum, ll_num(l, ll_typeof(l, sum), sd));
}

/* The upper half of the product of 64 random bits and n. */
struct ll_value *
cg_rng_below(struct ll *l, struct ll_value *key, struct ll_value *index,
	     int64_t n)
{
	uint64_t nl = (uint64_t)n & LOW32, nh = (uint64_t)n >> 32;
	struct ll_value *x[4], *mid, *part, *y;

	philox(l, key, index, ll_i64(l, 0), x);
	mid = op_num(l, LL_MUL, x[1], nl);
	mid = ll_bin(l, LL_ADD, mid, high(l, op_num(l, LL_MUL, x[0], nl)));
	part = op_num(l, LL_MUL, x[0], nh);
	part = ll_bin(l, LL_ADD, part, low(l, mid));
	y = op_num(l, LL_MUL, x[1], nh);
	y = ll_bin(l, LL_ADD, y, high(l, mid));
	return ll_bin(l, LL_ADD, y, high(l, part));
}

struct ll_value *
cg_rng_keeps(struct ll *l, struct ll_value *key, struct ll_value *step,
	     struct ll_value *index, double rate)
{
	struct ll_value *x[4], *one = num(l, index, 1), *zero, *bit, *even;

	philox(l, key, op_num(l, LL_LSHR, index, 2), step, x);
	zero = num(l, index, 0);
	bit = ll_test(l, LL_EQ, ll_bin(l, LL_AND, index, one), zero);
	even = ll_select(l, bit, x[0], x[1]);
	one = ll_select(l, bit, x[2], x[3]);
	bit = ll_test(l, LL_EQ, op_num(l, LL_AND, index, 2), zero);
	bit = ll_select(l, bit, even, one);
	return ll_test(l, LL_GE, bit, num(l, index,
					  (uint32_t)(rate * 0x1p32)));
}

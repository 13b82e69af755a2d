/*
 * Weights that are stored in 8 bits, as contractions load them.  Each of their
 * numbers is exact in f32 and in bf16; scales are applied to sums, after the
 * contraction.
 */
#include "codegen/cpu/cpu_dot.h"

#include <math.h>

int64_t
dot_base_bytes(enum ll_base base)
{
	return base == LL_F32 ? 4 : base == LL_I8 ? 1 : 2;
}

static struct ll_value *
with(struct ll *l, enum ll_op op, struct ll_value *v, int64_t n)
{
	return ll_bin(l, op, v, ll_int(l, ll_typeof(l, v), n));
}

/*
 * The exponent and mantissa of an f8e4m3, where f32 has them, are the number
 * divided by 2 to the difference of the biases; subnormal ones, too.
 */
struct ll_value *
dot_widen(struct ll *l, struct ll_value *v, uint8_t dtype)
{
	const struct ll_type f32 = ll_type(LL_F32, ll_typeof(l, v).lanes);
	struct ll_value *size, *x, *sign;

	if (dtype == IR_INT8) {
		return ll_cast(l, v, LL_F32);
	}
	size = with(l, LL_AND, v, 0x7f);
	sign = with(l, LL_AND, v, INT64_C(0x80000000));
	x = ll_bits(l, with(l, LL_SHL, size, 20), f32);
	x = ll_bin(l, LL_MUL, x, ll_num(l, f32, ldexp(1, 120)));
	x = ll_select(l, ll_test(l, LL_EQ, size,
				 ll_int(l, ll_typeof(l, v), 0x7f)),
		      ll_num(l, f32, NAN), x);
	x = ll_bits(l, x, ll_typeof(l, v));
	return ll_bits(l, ll_bin(l, LL_OR, x, sign), f32);
}

/*
 * Byte i, 0 or 1, of each word, as f32: the int8 plus 128 becomes the lowest
 * bits of a float whose unit is that byte's lowest bit, and what stands there
 * for zero is subtracted.  Both are exact.  With AVX-512 these are two
 * instructions, neither of which is a shift: those take the units that
 * transpose.
 */
static struct ll_value *
byte_of(struct ll *l, struct ll_value *words, int i)
{
	const struct ll_type f32 = ll_type(LL_F32, ll_typeof(l, words).lanes);
	int64_t unit = (int64_t)(127 + 23 - 8 * i) << 23;
	struct ll_value *x;

	x = with(l, LL_AND, words, (int64_t)0xff << 8 * i);
	x = with(l, LL_XOR, x, unit | (int64_t)0x80 << 8 * i);
	return ll_bin(l, LL_SUB, ll_bits(l, x, f32),
		      ll_num(l, f32, ldexp(1, 23 - 8 * i) + 128));
}

/* Element i of each 4-byte word, as f32. */
static struct ll_value *
elem_of(struct ll *l, struct ll_value *words, uint8_t dtype, int i)
{
	if (dtype == IR_INT8 && ll_has(l, "avx512f")) {
		return byte_of(l, i < 2 ? words : with(l, LL_LSHR, words, 16),
			       i % 2);
	}
	words = i == 3 ? words : with(l, LL_SHL, words, 24 - 8 * i);
	return dot_widen(l, with(l, LL_ASHR, words, 24), dtype);
}

struct ll_value *
dot_widen_word(struct ll *l, const struct dot_unit *u, struct ll_value *words,
	       uint8_t dtype, int i)
{
	struct ll_value *low, *high;

	if (u->per_word == 1) {
		return elem_of(l, words, dtype, i);
	}
	low = elem_of(l, words, dtype, 2 * i);
	high = elem_of(l, words, dtype, 2 * i + 1);
	low = with(l, LL_LSHR, ll_bits(l, low, ll_typeof(l, words)), 16);
	high = with(l, LL_AND, ll_bits(l, high, ll_typeof(l, words)),
		    (int64_t)0xffff0000);
	return ll_bin(l, LL_OR, low, high);
}

struct ll_value *
dot_widen_elems(struct ll *l, struct ll_value *v, uint8_t dtype, bool pairs)
{
	uint32_t n = ll_typeof(l, v).lanes;

	v = dot_widen(l, ll_cast(l, v, LL_I32), dtype);
	if (pairs) {	/* the upper halves, as nothing is in the lower ones */
		v = ll_bits(l, v, ll_type(LL_I32, n));
		v = ll_cast(l, with(l, LL_LSHR, v, 16), LL_I16);
		v = ll_bits(l, v, ll_type(LL_BF16, n));
	}
	return v;
}

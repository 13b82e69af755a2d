/*
 * Weights that are stored in 8 bits, as contractions load them.  Each of their
 * numbers is exact in f32 and in bf16; scales are applied to sums, after the
 * contraction.  An int8 is from -127 to 127: no byte is -128.
 */
#include "codegen/cpu/cpu_dot.h"

#include <math.h>
#include <string.h>

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

/*
 * ---- by tables ----
 *
 * AVX512-VBMI looks up each of 64 bytes among 128: the lower and the upper byte
 * of a bf16 by the magnitude of a number.  Of 64 numbers that is 6
 * instructions, where the arithmetic above takes 13.
 */

#define MAGNITUDES 128	/* what a byte is, without its sign */
#define TABLE_BYTES 64	/* a table of all is two registers */

bool
dot_has_tables(struct ll *l, const struct dot_unit *u)
{
	return u->kind == DOT_PAIRS && ll_has(l, "avx512vbmi");
}

/* The bf16 of a magnitude. */
static uint32_t
bf16_of(uint8_t dtype, int m)
{
	int exponent = m >> 3, fraction = m & 7;
	float f = dtype == IR_INT8 ? (float)m : m == 0x7f ? NAN
		: (float)ldexp(fraction | (exponent ? 8 : 0),
			       (exponent ? exponent : 1) - 10);
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return bits >> 16 & 0x7fff;
}

/* Lower bytes of all magnitudes in the first two, upper ones in the others. */
void
dot_load_tables(struct ll *l, uint8_t dtype, struct ll_value **tables)
{
	const struct ll_type t = ll_type(LL_I8, TABLE_BYTES);
	int64_t words[DOT_TABLES * TABLE_BYTES / 8] = { 0 };
	struct ll_value *data;
	int m, i;

	for (m = 0; m < MAGNITUDES; m++) {
		uint64_t bits = bf16_of(dtype, m);
		uint64_t *low = (uint64_t *)&words[m / 8];

		*low |= (bits & 0xff) << m % 8 * 8;
		low[MAGNITUDES / 8] |= bits >> 8 << m % 8 * 8;
	}
	data = ll_table(l, words, DOT_TABLES * TABLE_BYTES / 8);
	for (i = 0; i < DOT_TABLES; i++) {
		tables[i] = ll_load(l, t, ll_plus_n(l, data, i * TABLE_BYTES));
	}
}

static struct ll_value *
look_up(struct ll *l, struct ll_value *const *table, struct ll_value *at)
{
	struct ll_value *args[] = { table[0], at, table[1] };

	return ll_intrinsic(l, "llvm.x86.avx512.vpermi2var.qi.512",
			    ll_type(LL_I8, TABLE_BYTES), args, 3);
}

/*
 * Lower bytes and upper bytes are looked up, and take turns.  The units that
 * look up and that transpose are the same, so signs are set beside them.
 */
void
dot_widen_halves(struct ll *l, struct ll_value *const *tables,
		 struct ll_value *bytes, uint8_t dtype, struct ll_value **out)
{
	struct ll_value *zero = ll_zero(l, ll_typeof(l, bytes));
	struct ll_value *at = bytes, *low, *high, *is_negative;
	int pick[TABLE_BYTES], half, i;

	if (dtype == IR_INT8) {
		is_negative = ll_test(l, LL_LT, bytes, zero);
		at = ll_sub(l, zero, bytes);
		at = ll_select(l, is_negative, at, bytes);
	}
	low = look_up(l, tables, at);
	high = look_up(l, tables + 2, at);
	high = ll_bin(l, LL_OR, high, with(l, LL_AND, bytes, 0x80));
	for (half = 0; half < 2; half++) {
		for (i = 0; i < TABLE_BYTES; i++) {
			pick[i] = i / 16 * 16 + 8 * half + i % 16 / 2 +
				  (i % 2 ? TABLE_BYTES : 0);
		}
		out[half] = ll_shuffle(l, low, high, pick, TABLE_BYTES);
	}
}

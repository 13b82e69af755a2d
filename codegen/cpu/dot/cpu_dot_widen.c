/*
 * Weights that are stored in 8 or 4 bits, as contractions load them.  Each of
 * their numbers is exact in f32 and in bf16; scales are applied to sums: after
 * the contraction, or of an int4 to the sum of each half of a group.  Only for
 * AMX an int4 is multiplied by its scale first.  An int8 is from -127 to 127,
 * an int4 from -7 to 7: no byte is -128.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#include <math.h>
#include <string.h>

struct dot_size
dot_size_along(enum ll_base base, uint8_t dtype)
{
	if (base == LL_I8 && dtype == IR_INT4) {
		return (struct dot_size){ 1, 2 };
	}
	return (struct dot_size){ base == LL_F32 ? 4 : base == LL_I8 ? 1 : 2,
				  1 };
}

struct dot_size
dot_size_apart(enum ll_base base, uint8_t dtype)
{
	return base == LL_I8 && dtype == IR_INT4
		? (struct dot_size){ IR_GROUP / 2 + 2, IR_GROUP }
		: dot_size_along(base, dtype);
}

struct ll_value *
dot_bytes_of(struct ll *l, struct dot_size z, struct ll_value *elems)
{
	return ll_div_n(l, ll_mul_n(l, elems, z.bytes), z.elems);
}

static struct ll_value *
with(struct ll *l, enum ll_op op, struct ll_value *v, int64_t n)
{
	return ll_bin(l, op, v, ll_int(l, ll_typeof(l, v), n));
}

struct ll_value *
dot_widen(struct ll *l, struct ll_value *v, uint8_t dtype)
{
	return dtype == IR_INT8 ? ll_cast(l, v, LL_F32)
		: cg_cpu_widen_f8(l, v, (enum ir_dtype)dtype);
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

/* Floats as bf16, where nothing is in their lower halves. */
static struct ll_value *
upper_halves(struct ll *l, struct ll_value *v)
{
	uint32_t n = ll_typeof(l, v).lanes;

	v = ll_bits(l, v, ll_type(LL_I32, n));
	v = ll_cast(l, with(l, LL_LSHR, v, 16), LL_I16);
	return ll_bits(l, v, ll_type(LL_BF16, n));
}

/* ---- int4: eight in a word ---- */

/* Where the lowest bit of number i of a word is: see RT_ELEM_I4. */
static int64_t
bit_of(int i)
{
	return i % 2 * 16 + i / 2 * 4;
}

/* The 16 numbers that four bits are, one or two times, as bf16 or as f32. */
static struct ll_value *
all_int4(struct ll *l, struct ll_type t)
{
	bool is_f32 = t.base == LL_F32;
	int64_t words[8] = { 0 };
	uint32_t i;

	for (i = 0; i < t.lanes; i++) {
		float f = (float)((int)(i % 16 ^ 8) - 8);
		uint32_t bits;

		memcpy(&bits, &f, sizeof bits);
		words[is_f32 ? i / 2 : i / 4] |= (int64_t)((uint64_t)
			(is_f32 ? bits : bits >> 16) << (is_f32 ? i % 2 * 32
							 : i % 4 * 16));
	}
	return ll_load(l, t, ll_table(l, words, 8));
}

/*
 * Word i, as the unit multiplies it.  AVX-512 looks numbers up by the lowest
 * bits of lanes, whatever is above them: a pair of bf16 by those of both halves
 * of a word.
 */
static struct ll_value *
int4_word(struct ll *l, const struct dot_unit *u, struct ll_value *words,
	  int i)
{
	const struct ll_type f32 = ll_type(LL_F32, u->lanes);
	const struct ll_type halves = ll_type(LL_I16, 2 * u->lanes);
	struct ll_value *args[2], *at;

	at = with(l, LL_LSHR, words, bit_of(u->per_word * i));
	if (u->kind == DOT_PAIRS) {
		args[0] = all_int4(l, halves);
		args[1] = ll_bits(l, at, halves);
		at = ll_intrinsic(l, "llvm.x86.avx512.permvar.hi.512", halves,
				  args, 2);
		return ll_bits(l, at, ll_typeof(l, words));
	}
	if (u->lanes == 16) {
		args[0] = all_int4(l, f32);
		args[1] = at;
		return ll_intrinsic(l, "llvm.x86.avx512.permvar.sf.512", f32,
				    args, 2);
	}
	at = with(l, LL_SHL, words, 28 - bit_of(i));
	return ll_cast(l, with(l, LL_ASHR, at, 28), LL_F32);
}

struct ll_value *
dot_widen_int4s(struct ll *l, struct ll_value *words, bool pairs)
{
	uint32_t n = 8 * ll_typeof(l, words).lanes, i;
	const struct ll_type t = ll_type(LL_I32, n);
	int64_t shifts[32] = { 0 };
	struct ll_value *v;
	int pick[64];

	for (i = 0; i < n; i++) {
		pick[i] = (int)i / 8;
		shifts[i / 2] |= (28 - bit_of((int)i % 8)) << i % 2 * 32;
	}
	v = n == 8 ? ll_splat(l, words, n)
		   : ll_shuffle(l, words, words, pick, n);
	v = ll_bin(l, LL_SHL, v, ll_load(l, t, ll_table(l, shifts, n / 2)));
	v = ll_cast(l, with(l, LL_ASHR, v, 28), LL_F32);
	return pairs ? upper_halves(l, v) : v;
}

struct ll_value *
dot_scale_int4s(struct ll *l, struct ll_value *words, struct ll_value *scale)
{
	struct ll_value *v = dot_widen_int4s(l, words, false);

	scale = ll_load(l, ll_type(LL_BF16, 1), scale);
	scale = ll_splat(l, ll_cast(l, scale, LL_F32), ll_typeof(l, v).lanes);
	return ll_cast(l, ll_bin(l, LL_MUL, v, scale), LL_BF16);
}

struct ll_value *
dot_widen_word(struct ll *l, const struct dot_unit *u, struct ll_value *words,
	       uint8_t dtype, int i)
{
	struct ll_value *low, *high;

	if (dtype == IR_INT4) {
		return int4_word(l, u, words, i);
	}
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
	v = dot_widen(l, ll_cast(l, v, LL_I32), dtype);
	return pairs ? upper_halves(l, v) : v;
}

/*
 * ---- by tables ----
 *
 * AVX512-VBMI looks up each of 64 bytes among 128: the lower and the upper byte
 * of a bf16 by the magnitude of a number.  Of 64 numbers that is 6
 * instructions, where the arithmetic above takes 13.  To f32 it is 4 more: less
 * than the arithmetic of an f8e4m3, but not of an int8, which is 9.
 */

#define MAGNITUDES 128	/* what a byte is, without its sign */
#define TABLE_BYTES 64	/* a table of all is two registers */

bool
dot_has_tables(struct ll *l, const struct dot_unit *u, uint8_t dtype)
{
	return ll_has(l, "avx512vbmi") &&
	       (u->kind == DOT_PAIRS ||
		(u->kind == DOT_FMA && dtype == IR_F8E4M3));
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
static void
widen(struct ll *l, struct ll_value *const *tables, struct ll_value *bytes,
      uint8_t dtype, bool of_words, struct ll_value *out[2])
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
			pick[i] = (of_words ? i / 4 * 4 + 2 * half + i % 4 / 2
					    : i / 16 * 16 + 8 * half +
					      i % 16 / 2) +
				  (i % 2 ? TABLE_BYTES : 0);
		}
		out[half] = ll_shuffle(l, low, high, pick, TABLE_BYTES);
	}
}

/* The same as words of the unit. */
static void
widen_to_words(struct ll *l, const struct dot_unit *u,
	       struct ll_value *const *tables, struct ll_value *bytes,
	       uint8_t dtype, bool of_words, struct ll_value **out)
{
	const struct ll_type pairs = ll_type(LL_I32, u->lanes);
	struct ll_value *half[2];
	int i;

	widen(l, tables, bytes, dtype, of_words, half);
	for (i = 0; i < 2; i++) {
		if (u->kind == DOT_PAIRS) {
			out[i] = half[i];
		} else {
			dot_split(l, ll_bits(l, half[i], pairs), out + 2 * i);
		}
	}
}

void
dot_widen_halves(struct ll *l, const struct dot_unit *u,
		 struct ll_value *const *tables, struct ll_value *bytes,
		 uint8_t dtype, struct ll_value **out)
{
	widen_to_words(l, u, tables, bytes, dtype, false, out);
}

void
dot_widen_words(struct ll *l, const struct dot_unit *u,
		struct ll_value *const *tables, struct ll_value *words,
		uint8_t dtype, struct ll_value **out)
{
	words = ll_bits(l, words, ll_type(LL_I8, TABLE_BYTES));
	widen_to_words(l, u, tables, words, dtype, true, out);
}

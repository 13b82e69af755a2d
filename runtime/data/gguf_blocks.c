/*
 * How the numbers of a tensor lie in a GGUF file: see gguf.h.  Types with a
 * block store so many numbers of a row in so many bytes, in few bits each,
 * with scales for all or some of them; each function here widens one block.
 * What a number is, and in which order its products and sums are rounded, is
 * that of ggml's own functions that widen to f32.
 *
 * Where a product is subtracted from or added to, it has a statement of its
 * own, as a compiler may else round the two operations as one.
 */
#include "runtime/data/gguf.h"

#include "runtime/elems.h"

#include <math.h>

enum { SUPER = 256 }; /* numbers of a block that has several scales */

static float
half(const unsigned char *p)
{
	return (float)rt_widen_float((uint64_t)p[0] | (uint64_t)p[1] << 8, 5,
				     10, false);
}

/* ---- blocks of 32, with one scale ------------------------------------- */

/* Q8_0: f16 scale, i8 numbers[32] */
static void
widen_q8_0(const unsigned char *b, float *out)
{
	float d = half(b);
	int i;

	for (i = 0; i < 32; i++) {
		out[i] = d * (float)(int8_t)b[2 + i];
	}
}

/*
 * Numbers of four bits, or of five with `high`, which has the fifth of each:
 * the low halves of 16 bytes, then the high ones.
 */
static void
small_numbers(const unsigned char *q, const unsigned char *high, int *out)
{
	int i;

	for (i = 0; i < 16; i++) {
		out[i] = q[i] & 15;
		out[16 + i] = q[i] >> 4;
	}
	for (i = 0; high && i < 32; i++) {
		out[i] |= (high[i / 8] >> i % 8 & 1) << 4;
	}
}

/* Each number less `zero`, times the scale. */
static void
widen_symmetric(const unsigned char *scale, const unsigned char *high,
		const unsigned char *q, int zero, float *out)
{
	float d = half(scale);
	int n[32], i;

	small_numbers(q, high, n);
	for (i = 0; i < 32; i++) {
		out[i] = d * (float)(n[i] - zero);
	}
}

/* Each number times the scale, and the least of them, which is after it. */
static void
widen_from_least(const unsigned char *scale, const unsigned char *high,
		 const unsigned char *q, float *out)
{
	float d = half(scale), least = half(scale + 2), product;
	int n[32], i;

	small_numbers(q, high, n);
	for (i = 0; i < 32; i++) {
		product = d * (float)n[i];
		out[i] = product + least;
	}
}

/* f16 scale, u8 numbers[16] */
static void
widen_q4_0(const unsigned char *b, float *out)
{
	widen_symmetric(b, NULL, b + 2, 8, out);
}

/* f16 scale, f16 least, u8 numbers[16] */
static void
widen_q4_1(const unsigned char *b, float *out)
{
	widen_from_least(b, NULL, b + 4, out);
}

/* f16 scale, u32 fifth bits, u8 numbers[16] */
static void
widen_q5_0(const unsigned char *b, float *out)
{
	widen_symmetric(b, b + 2, b + 6, 16, out);
}

/* f16 scale, f16 least, u32 fifth bits, u8 numbers[16] */
static void
widen_q5_1(const unsigned char *b, float *out)
{
	widen_from_least(b, b + 4, b + 8, out);
}

/* What the numbers of IQ4_NL and IQ4_XS stand for. */
static const int8_t uneven[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10,
	1, 13, 25, 38, 53, 69, 89, 113
};

static void
widen_uneven(float scale, const unsigned char *q, float *out)
{
	int n[32], i;

	small_numbers(q, NULL, n);
	for (i = 0; i < 32; i++) {
		out[i] = scale * (float)uneven[n[i]];
	}
}

/* f16 scale, u8 numbers[16] */
static void
widen_iq4_nl(const unsigned char *b, float *out)
{
	widen_uneven(half(b), b + 2, out);
}

/* MXFP4: u8 exponent of a scale, floats of four bits[16].  What those stand
 * for is doubled here, so the scale is half of what the exponent says. */
static void
widen_mxfp4(const unsigned char *b, float *out)
{
	static const int8_t doubled[16] = { 0, 1, 2, 3, 4, 6, 8, 12,
					    0, -1, -2, -3, -4, -6, -8, -12 };
	float d = ldexpf(1, b[0] - 128);
	int n[32], i;

	small_numbers(b + 1, NULL, n);
	for (i = 0; i < 32; i++) {
		out[i] = d * (float)doubled[n[i]];
	}
}

/* ---- blocks of 256, with scales of scales ------------------------------ */

/* Number i of two bits: of each 32 bytes, byte i has the numbers i, i + 32,
 * i + 64 and i + 96. */
static int
two_bits(const unsigned char *q, int i)
{
	return q[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

/*
 * Q2_K: u8 scales[16], u8 numbers[64], f16 scale, f16 scale of the least.
 * Each 16 numbers have a scale, and a number that is subtracted.
 */
static void
widen_q2_k(const unsigned char *b, float *out)
{
	float d = half(b + 80), least = half(b + 82);
	int i;

	for (i = 0; i < SUPER; i++) {
		float scale = d * (float)(b[i / 16] & 15);
		float less = least * (float)(b[i / 16] >> 4);
		float product = scale * (float)two_bits(b + 16, i);

		out[i] = product - less;
	}
}

/* Scale i of 16 of six bits each: four are in a half of one of the first
 * eight bytes, two in a quarter of one of the last four. */
static int
scale_of_q3_k(const unsigned char *s, int i)
{
	int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;

	return (low | (s[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32;
}

/*
 * Q3_K: u8 third bits[32], u8 numbers[64], u8 scales[12], f16 scale.  The low
 * two bits lie as those of Q2_K; a number whose third bit is 0 is four less.
 */
static void
widen_q3_k(const unsigned char *b, float *out)
{
	float d = half(b + 108);
	int i;

	for (i = 0; i < SUPER; i++) {
		float scale = d * (float)scale_of_q3_k(b + 96, i / 16);
		int n = two_bits(b + 32, i);

		n -= b[i % 32] >> i / 32 & 1 ? 0 : 4;
		out[i] = scale * (float)n;
	}
}

/* Scale i of 8 of six bits each, and what is subtracted: the first four are
 * bytes, those of the others were put into what is left of these. */
static void
scales_of_q4_k(const unsigned char *s, int i, int *scale, int *least)
{
	if (i < 4) {
		*scale = s[i] & 63;
		*least = s[i + 4] & 63;
	} else {
		*scale = (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
		*least = s[i + 4] >> 4 | s[i] >> 6 << 4;
	}
}

/* Numbers of four bits or, with `high`, of five: of each 64 the first 32 are
 * low halves of 32 bytes, the others the high ones. */
static void
widen_by_32(const unsigned char *b, const unsigned char *high,
	    const unsigned char *q, float *out)
{
	float d = half(b), least = half(b + 2);
	int i, scale, of_least;

	for (i = 0; i < SUPER; i++) {
		float wide, less, product;
		int n = q[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;

		scales_of_q4_k(b + 4, i / 32, &scale, &of_least);
		n += high ? (high[i % 32] >> i / 32 & 1) << 4 : 0;
		wide = d * (float)scale;
		less = least * (float)of_least;
		product = wide * (float)n;
		out[i] = product - less;
	}
}

/* f16 scale, f16 scale of the least, u8 scales[12], u8 numbers[128] */
static void
widen_q4_k(const unsigned char *b, float *out)
{
	widen_by_32(b, NULL, b + 16, out);
}

/* The same, with u8 fifth bits[32] before the numbers. */
static void
widen_q5_k(const unsigned char *b, float *out)
{
	widen_by_32(b, b + 16, b + 48, out);
}

/*
 * Q6_K: u8 low bits[128], u8 high bits[64], i8 scales[16], f16 scale.  Of each
 * 128 numbers the first 64 are low halves of 64 bytes, the others the high
 * ones; bytes of high bits lie as those of Q2_K.
 */
static void
widen_q6_k(const unsigned char *b, float *out)
{
	float d = half(b + 208);
	int i;

	for (i = 0; i < SUPER; i++) {
		float scale = d * (float)(int8_t)b[192 + i / 16];
		int n = b[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15;

		n |= two_bits(b + 128, i) << 4;
		out[i] = scale * (float)(n - 32);
	}
}

/* IQ4_XS: f16 scale, u16 high bits of scales, u8 low bits of scales[4], then
 * eight blocks of 32 as those of IQ4_NL. */
static void
widen_iq4_xs(const unsigned char *b, float *out)
{
	int high = b[2] | b[3] << 8, i;
	float d = half(b);

	for (i = 0; i < SUPER / 32; i++) {
		int scale = b[4 + i / 2] >> i % 2 * 4 & 15;

		scale |= (high >> i * 2 & 3) << 4;
		widen_uneven(d * (float)(scale - 32), b + 8 + i * 16,
			     out + i * 32);
	}
}

/* ---- blocks of 256 that are -1, 0 and 1 by one scale ------------------- */

/* TQ2_0: u8 numbers[64], f16 scale */
static void
widen_tq2_0(const unsigned char *b, float *out)
{
	float d = half(b + 64);
	int i;

	for (i = 0; i < SUPER; i++) {
		out[i] = d * (float)(two_bits(b, i) - 1);
	}
}

/* Numbers of `bytes` bytes, `each` in a byte: its digits in base three, of
 * byte / 256 as a fraction, the first digit of all bytes first. */
static float *
widen_digits(const unsigned char *q, int bytes, int each, float d, float *out)
{
	int digit, i, power = 1;

	for (digit = 0; digit < each; digit++, power *= 3) {
		for (i = 0; i < bytes; i++) {
			int rest = q[i] * power & 255;

			*out++ = d * (float)((rest * 3 >> 8) - 1);
		}
	}
	return out;
}

/* TQ1_0: u8 numbers[32], of five each, u8[16] the same, u8[4] of four each,
 * f16 scale */
static void
widen_tq1_0(const unsigned char *b, float *out)
{
	float d = half(b + 52);

	out = widen_digits(b, 32, 5, d, out);
	out = widen_digits(b + 32, 16, 5, d, out);
	widen_digits(b + 48, 4, 4, d, out);
}

/* ---- all of them ------------------------------------------------------ */

static const struct rt_gguf_type types[] = {
	{ 0, "F32", RT_F32, 1, 4, NULL },
	{ 1, "F16", RT_F16, 1, 2, NULL },
	{ 2, "Q4_0", RT_F32, 32, 18, widen_q4_0 },
	{ 3, "Q4_1", RT_F32, 32, 20, widen_q4_1 },
	{ 6, "Q5_0", RT_F32, 32, 22, widen_q5_0 },
	{ 7, "Q5_1", RT_F32, 32, 24, widen_q5_1 },
	{ 8, "Q8_0", RT_F32, 32, 34, widen_q8_0 },
	{ 10, "Q2_K", RT_F32, SUPER, 84, widen_q2_k },
	{ 11, "Q3_K", RT_F32, SUPER, 110, widen_q3_k },
	{ 12, "Q4_K", RT_F32, SUPER, 144, widen_q4_k },
	{ 13, "Q5_K", RT_F32, SUPER, 176, widen_q5_k },
	{ 14, "Q6_K", RT_F32, SUPER, 210, widen_q6_k },
	{ 20, "IQ4_NL", RT_F32, 32, 18, widen_iq4_nl },
	{ 23, "IQ4_XS", RT_F32, SUPER, 136, widen_iq4_xs },
	{ 30, "BF16", RT_BF16, 1, 2, NULL },
	{ 34, "TQ1_0", RT_F32, SUPER, 54, widen_tq1_0 },
	{ 35, "TQ2_0", RT_F32, SUPER, 66, widen_tq2_0 },
	{ 39, "MXFP4", RT_F32, 32, 17, widen_mxfp4 },
};

enum { NTYPES = sizeof(types) / sizeof(types[0]) };

const char rt_gguf_types[] = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "
			     "Q2_K to Q6_K, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0 or "
			     "MXFP4";

/* Those that are not read, by their number. */
static const char *const others[] = {
	[9] = "Q8_1", [15] = "Q8_K", [16] = "IQ2_XXS", [17] = "IQ2_XS",
	[18] = "IQ3_XXS", [19] = "IQ1_S", [21] = "IQ3_S", [22] = "IQ2_S",
	[24] = "I8", [25] = "I16", [26] = "I32", [27] = "I64", [28] = "F64",
	[29] = "IQ1_M", [40] = "NVFP4", [41] = "Q1_0"
};

const char *
rt_gguf_type_name(uint64_t number)
{
	const char *name = number < sizeof(others) / sizeof(others[0])
		? others[number] : NULL;

	return name ? name : "which is not known";
}

const struct rt_gguf_type *
rt_gguf_type(uint64_t number)
{
	size_t i;

	for (i = 0; i < NTYPES; i++) {
		if ((uint64_t)types[i].number == number) {
			return &types[i];
		}
	}
	return NULL;
}

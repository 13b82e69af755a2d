/*
 * prelude-common.h - arithmetic that NVRTC and the emulator share: names of
 * functions, weights of 4 and 8 bits, rotations, reductions of a warp, random
 * numbers.
 */

/* ---- functions ---------------------------------------------------------- */

#define f_exp(x) expf(x)
#define f_exp2(x) exp2f(x)
#define f_log(x) logf(x)
#define f_tanh(x) tanhf(x)
#define f_erf(x) erff(x)
#define f_floor(x) floorf(x)
#define f_abs(x) fabsf(x)
#define f_sin(x) sinf(x)
#define f_cos(x) cosf(x)
#define f_pow(x, y) powf(x, y)
#define fma_f32(a, b, c) fmaf(a, b, c)
#define d_exp(x) exp(x)
#define d_log(x) log(x)
#define d_sqrt(x) sqrt(x)
#define d_sin(x) sin(x)
#define d_cos(x) cos(x)
#define d_tanh(x) tanh(x)
#define d_erf(x) erf(x)
#define d_pow(x, y) pow(x, y)
#define d_floor(x) floor(x)
#define d_abs(x) fabs(x)
#define d_min(x, y) fmin(x, y)
#define d_max(x, y) fmax(x, y)

FN f64
d_sigmoid(f64 x)
{
	return 1.0 / (1.0 + exp(-x));
}

/* One instruction on sm_90 and later. */
FN i32
max3_i32(i32 a, i32 b, i32 c)
{
	i32 most = a > b ? a : b;

	return most > c ? most : c;
}

/* ---- 16 bytes ----------------------------------------------------------- */

FN u32x4
u32x4_of(u32 x, u32 y, u32 z, u32 w)
{
	u32x4 r;

	r.x = x;
	r.y = y;
	r.z = z;
	r.w = w;
	return r;
}

FN f32x4
f32x4_of(f32 x, f32 y, f32 z, f32 w)
{
	f32x4 r;

	r.x = x;
	r.y = y;
	r.z = z;
	r.w = w;
	return r;
}

FN u32x2
u32x2_of(u32 x, u32 y)
{
	u32x2 r;

	r.x = x;
	r.y = y;
	return r;
}

/* ---- weights of 4 bits: RT_ELEM_I4 of the runtime's abi.h ---------------- */

/*
 * Two numbers, the lowest four bits of both halves of a word, as bf16: with 8
 * added they are the lowest bits of 128 to 143, from which 136 is subtracted.
 * As f16 they are those of 1024 to 1039.  Both are exact.
 */
FN u32
int4_bf16(u32 x)
{
	return sub_bf16(and_xor(x, 0x000f000fu, 0x43084308u), 0x43084308u);
}

FN u32
int4_f16(u32 x)
{
	return sub_f16(and_xor(x, 0x000f000fu, 0x64086408u), 0x64086408u);
}

/* The scale in the upper half of a word, if it is an odd group's, or the
 * lower. */
FN f32
int4_scale(u32 x, int odd)
{
	return bits_f32(odd ? x & 0xffff0000u : x << 16);
}

/* Number q of a row of k, times its scale, which is exact in f32. */
FN f32
int4_f32(const i8 *row, int q, int k)
{
	const int at = q / 8 * 4 + q % 2 * 2 + q % 8 / 4;
	const int x = (u8)row[at] >> q / 2 % 2 * 4 & 15;

	return (f32)((x ^ 8) - 8) *
	       bf16_f32(*(const bf16 *)(row + k / 2 + q / 128 * 2));
}

/* ---- weights of 8 bits --------------------------------------------------- */

/*
 * The two lowest bytes of a word as int8, in f32: with 128 added they are the
 * lowest bits of a number whose unit is theirs.
 */
FN f32
int8_first(u32 x)
{
	return bits_f32(and_xor(x, 0xffu, 0x4b000080u)) - 8388736.0f;
}

FN f32
int8_second(u32 x)
{
	return bits_f32(and_xor(x, 0xff00u, 0x47008000u)) - 32896.0f;
}

FN u32
int8_bf16(u32 x)
{
	return pack_bf16(int8_first(x), int8_second(x));
}

FN u32
int8_f16(u32 x)
{
	return pack_f16(int8_first(x), int8_second(x));
}

/*
 * The same of e4m3: their exponent and mantissa, where a wider type has them,
 * are the number divided by 2 to the difference of the biases; subnormal ones,
 * too.  No weight is a NaN: 480 comes of it.
 */
FN u32
e4m3_bf16(u32 x)
{
	x = bytes_apart(x);
	return mul_bf16((x & 0x80008000u) | (x >> 4 & 0x07f007f0u),
			0x7b807b80u);
}

FN u32
e4m3_f16(u32 x)
{
	x = bytes_apart(x);
	return mul_f16((x & 0x80008000u) | (x >> 1 & 0x3f803f80u),
		       0x5c005c00u);
}

/* ---- descriptors of tcgen05 (PTX ISA, 9.7.16.4) -------------------------- */

/* An operand in shared memory: strides as those of wg_desc. */
FN u64
tc_desc(u32 at, int lead_bytes, int stride_bytes, int swizzle)
{
	u64 mode = swizzle == 128 ? 2 : swizzle == 64 ? 4 : swizzle == 32
		? 6 : 0;

	return (u64)((at & 0x3ffff) >> 4) |
		(u64)((u32)lead_bytes >> 4 & 0x3fff) << 16 |
		(u64)((u32)stride_bytes >> 4 & 0x3fff) << 32 |
		(u64)1 << 46 | mode << 61;
}

/* Types of operands, of tc_mma_f16, tc_mma_tf32 and tc_mma_f8. */
#define TC_F16 0
#define TC_BF16 1
#define TC_TF32 2
#define TC_E4M3 0

/* A product of 128 rows and n columns, a multiple of 16 up to 256, with sums in
 * f32; an operand is along k, or along m or n if it is transposed. */
FN u32
tc_form(int type, int n, int trans_a, int trans_b)
{
	return 1u << 4 | (u32)type << 7 | (u32)type << 10 |
		(u32)trans_a << 15 | (u32)trans_b << 16 | (u32)n / 8 << 17 |
		128u / 16 << 24;
}

/* ---- rotations by angles in units of 2^-32 turns ------------------------ */

/* Half a quarter turn, and half of what turn_rest() rounds off. */
#define TURN_ROUND 0x20000040u

/*
 * The angle t beyond the nearest quarter turn, in radians, of t + TURN_ROUND.
 * 23 of its 30 bits are kept, rounded: it is off by up to 2^-26 turns.  With
 * the polynomials below (Cephes, sinf), sines and cosines are off by less than
 * 2^-22.
 */
FN f32
turn_rest(u32 t)
{
	u32 bits = (t & 0x3fffffffu) >> 7;

	return (bits_f32(0x3f800000u + bits) - 1.5f) * 1.57079633f;
}

FN f32
turn_short_sin(f32 x)
{
	f32 z = x * x;
	f32 p = fma_f32(z, -1.9515295891e-4f, 8.3321608736e-3f);

	p = fma_f32(z, p, -1.6666654611e-1f);
	return fma_f32(x * z, p, x);
}

FN f32
turn_short_cos(f32 x)
{
	f32 z = x * x;
	f32 p = fma_f32(z, 2.443315711809948e-5f, -1.388731625493765e-3f);

	p = fma_f32(z, p, 4.166664568298827e-2f);
	p = fma_f32(z, p, -0.5f);
	return fma_f32(z, p, 1.0f);
}

/*
 * x times a frequency in units of 2^-64 turns, for |x| < 2^31, without f64:
 * exactly if x is whole; a fraction is rounded down to 2^-31.
 */
FN u32
turn_scaled(f32 x, u64 by)
{
	f32 whole = f_floor(x);
	u64 rest = (u64)(u32)((x - whole) * 2147483648.0f) << 1;

	return (u32)(((u64)(i64)(i32)whole * by + rest * (by >> 32)) >> 32);
}

/* Selected by masks: a kernel has sine and cosine of each angle, which share
 * both polynomials if neither depends on a condition. */
FN f32
turn_sin(u32 t)
{
	u32 at = t + TURN_ROUND, odd = (u32)((i32)(at << 1) >> 31);
	f32 x = turn_rest(at);
	u32 s = f32_bits(turn_short_sin(x)), c = f32_bits(turn_short_cos(x));

	return bits_f32(((s & ~odd) | (c & odd)) ^ (at & 0x80000000u));
}

FN f32
turn_cos(u32 t)
{
	u32 at = t + TURN_ROUND, odd = (u32)((i32)(at << 1) >> 31);
	f32 x = turn_rest(at);
	u32 s = f32_bits(turn_short_sin(x)), c = f32_bits(turn_short_cos(x));

	return bits_f32(((c & ~odd) | (s & odd)) ^
			((at + 0x40000000u) & 0x80000000u));
}

/* ---- over a warp, the same tree on all lanes ---------------------------- */

FN f32
warp_sum_f32(f32 x)
{
	x += shfl_xor_f32(x, 16);
	x += shfl_xor_f32(x, 8);
	x += shfl_xor_f32(x, 4);
	x += shfl_xor_f32(x, 2);
	return x + shfl_xor_f32(x, 1);
}

FN f32
warp_max_f32(f32 x)
{
	x = f_max(x, shfl_xor_f32(x, 16));
	x = f_max(x, shfl_xor_f32(x, 8));
	x = f_max(x, shfl_xor_f32(x, 4));
	x = f_max(x, shfl_xor_f32(x, 2));
	return f_max(x, shfl_xor_f32(x, 1));
}

/* ---- elements of 8 bits, where the machine has no instruction ----------- */

/* Corrects the exponent, which is too small by 120. */
FN f32
e4m3_f32(e4m3 x)
{
	u32 m = x & 0x7fu;
	f32 r = bits_f32(m << 20) * 0x1p120f;

	r = m == 0x7f ? bits_f32(0x7fc00000u) : r;
	return x & 0x80 ? -r : r;
}

FN f32
e5m2_f32(e5m2 x)
{
	return f16_f32((f16)(x << 8));
}

/* Rounds subnormal numbers by adding a number whose last bit is theirs. */
FN u8
llmc_to_e4m3(f32 v)
{
	u32 x = f32_bits(v), s = x >> 24 & 0x80, r;

	x &= 0x7fffffffu;
	if (x > 0x7f800000u) {
		return (u8)(s | 0x7f);
	}
	if (x < 0x3c800000u) {
		r = f32_bits(bits_f32(x) + 0x1p14f) - 0x46800000u;
	} else {
		r = (x + 0x7ffff + (x >> 20 & 1) - (120u << 23)) >> 20;
	}
	return (u8)(s | (r > 0x7e ? 0x7e : r));
}

FN u8
llmc_to_e5m2(f32 v)
{
	u32 x = f32_bits(v), s = x >> 24 & 0x80, r;

	x &= 0x7fffffffu;
	if (x > 0x7f800000u) {
		return (u8)(s | 0x7f);
	}
	if (x < 0x38800000u) {
		r = f32_bits(bits_f32(x) + 0x1p7f) - 0x43000000u;
	} else {
		r = (x + 0xfffff + (x >> 21 & 1) - (112u << 23)) >> 21;
	}
	return (u8)(s | (r > 0x7b ? 0x7b : r));
}

#ifndef LLMC_HAS_F8
FN e4m3
f32_e4m3(f32 v)
{
	return llmc_to_e4m3(v);
}

FN e5m2
f32_e5m2(f32 v)
{
	return llmc_to_e5m2(v);
}
#endif

/* ---- random numbers: Philox-4x32-10, as ir/rng.c ------------------------ */

FN void
rng_philox(u64 key, u64 low, u64 high, u32 out[4])
{
	u32 k0 = (u32)key, k1 = (u32)(key >> 32);
	u32 x0 = (u32)low, x1 = (u32)(low >> 32);
	u32 x2 = (u32)high, x3 = (u32)(high >> 32);
	int i;

	for (i = 0; i < 10; i++) {
		u64 a = (u64)0xd2511f53u * x0;
		u64 b = (u64)0xcd9e8d57u * x2;

		x0 = (u32)(b >> 32) ^ x1 ^ k0;
		x1 = (u32)b;
		x2 = (u32)(a >> 32) ^ x3 ^ k1;
		x3 = (u32)a;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	out[0] = x0;
	out[1] = x1;
	out[2] = x2;
	out[3] = x3;
}

FN u64
rng_mix(u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* The key of a name's hash and the run's seed. */
FN u64
rng_key(u64 hash, u64 seed)
{
	return rng_mix(hash ^ rng_mix(seed + 0x9e3779b97f4a7c15ull));
}

FN f64
rng_normal(u64 key, i64 index)
{
	i32 sum = -8 * 65535 / 2;
	u32 x[4];
	int i;

	rng_philox(key, (u64)index, 0, x);
	for (i = 0; i < 4; i++) {
		sum += (i32)(x[i] & 0xffff) + (i32)(x[i] >> 16);
	}
	return sum / 0x1.a20bd6fff1bdfp+15;
}

FN i64
rng_below(u64 key, i64 index, i64 n)
{
	u32 x[4];

	rng_philox(key, (u64)index, 0, x);
	return (i64)mul_high((u64)x[1] << 32 | x[0], (u64)n);
}

FN int
rng_keeps(u64 key, u64 step, u64 index, f64 rate)
{
	u32 x[4], y;

	rng_philox(key, index >> 2, step, x);
	y = index & 1 ? index & 2 ? x[3] : x[1] : index & 2 ? x[2] : x[0];
	return y >= (u32)(rate * 0x1p32);
}

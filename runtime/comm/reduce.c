/*
 * Sums and maxima of elements in memory. Types narrower than f32 are summed in
 * f32 and rounded once.  Loops run over blocks of a constant length, which
 * compilers vectorize.
 */
#include "runtime/comm/transport.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* ---- 16-bit floats ---- */

static inline float
from_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline uint32_t
to_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float
from_bf16(uint16_t h)
{
	return from_bits((uint32_t)h << 16);
}

static inline uint16_t
to_bf16(float f)
{
	uint32_t u = to_bits(f), up = u + 0x7fff + (u >> 16 & 1);

	/* a NaN must not round to infinity */
	return (uint16_t)((f != f ? u | 0x400000 : up) >> 16);
}

/* Multiplying by 2^112 moves the exponent to f32's bias, of subnormals too. */
static inline float
from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	float f = from_bits((uint32_t)(h & 0x7fff) << 13) * 0x1p112f;
	uint32_t u = to_bits(f);

	/* infinities and NaN have become 2^16 or more */
	u |= f >= 65536.0f ? 0x7f800000 : 0;
	return from_bits(u | sign);
}

/* Adding a power of two rounds at the last bit of f16. */
static inline uint16_t
to_f16(float f)
{
	uint32_t u = to_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
	uint32_t small, normal, h;

	small = to_bits(from_bits(a) + 0.5f) - 0x3f000000;
	normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
	h = a < 0x38800000 ? small : normal;
	h = a >= 0x477ff000 ? 0x7c00 : h;
	h = a > 0x7f800000 ? 0x7e00 : h;
	return (uint16_t)(h | sign);
}

/* ---- loops ---- */

#define SAME(x) (x)

/* The maximum of NaN and a number is NaN, in any order. */
#define MAX_OF(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define SUM_OF(a, b) ((a) + (b))
/* Overflow wraps. */
#define SUM_OF_INT(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))

/* Blocks of LANES elements, then the rest one by one. */
#define LOOP(stmt)                                                          \
	do {                                                                \
		int64_t i, j, k;                                            \
		for (i = 0; i + LANES <= n; i += LANES) {                   \
			for (k = 0; k < LANES; k++) {                       \
				j = i + k;                                  \
				stmt;                                       \
			}                                                   \
		}                                                           \
		for (j = i; j < n; j++) {                                   \
			stmt;                                               \
		}                                                           \
	} while (0)

#define OF_TYPE(name, type, wide, in, out, sum)                             \
	static void widen_##name(wide *restrict acc,                        \
				 const type *restrict from, int64_t n)      \
	{                                                                   \
		LOOP(acc[j] = in(from[j]));                                 \
	}                                                                   \
	static void sum_##name(wide *restrict acc,                          \
			       const type *restrict from, int64_t n)        \
	{                                                                   \
		LOOP(acc[j] = sum(acc[j], in(from[j])));                    \
	}                                                                   \
	static void max_##name(wide *restrict acc,                          \
			       const type *restrict from, int64_t n)        \
	{                                                                   \
		LOOP(wide v = in(from[j]); acc[j] = MAX_OF(acc[j], v));     \
	}                                                                   \
	static void narrow_##name(type *restrict to,                        \
				  const wide *restrict acc, int64_t n)      \
	{                                                                   \
		LOOP(to[j] = out(acc[j]));                                  \
	}

OF_TYPE(f64, double, double, SAME, SAME, SUM_OF)
OF_TYPE(f32, float, float, SAME, SAME, SUM_OF)
OF_TYPE(bf16, uint16_t, float, from_bf16, to_bf16, SUM_OF)
OF_TYPE(f16, uint16_t, float, from_f16, to_f16, SUM_OF)
OF_TYPE(i32, int32_t, int32_t, SAME, SAME, SUM_OF_INT)

#define BY_ELEM(call)                                                       \
	switch (e) {                                                        \
	case RT_ELEM_F64:                                                   \
		call##_f64(to, from, n);                                    \
		break;                                                      \
	case RT_ELEM_F32:                                                   \
		call##_f32(to, from, n);                                    \
		break;                                                      \
	case RT_ELEM_BF16:                                                  \
		call##_bf16(to, from, n);                                   \
		break;                                                      \
	case RT_ELEM_F16:                                                   \
		call##_f16(to, from, n);                                    \
		break;                                                      \
	case RT_ELEM_I32:                                                   \
		call##_i32(to, from, n);                                    \
		break;                                                      \
	case RT_ELEM_U8:	/* never summed */                       \
	case RT_ELEM_I8:                                                    \
	case RT_ELEM_E4M3:                                                  \
	case RT_ELEM_I4:                                                    \
		break;                                                      \
	}

void
rt_widen(enum rt_elem e, void *restrict to, const void *restrict from,
	 int64_t n)
{
	BY_ELEM(widen)
}

void
rt_narrow(enum rt_elem e, void *restrict to, const void *restrict from,
	  int64_t n)
{
	BY_ELEM(narrow)
}

void
rt_fold(enum rt_elem e, enum rt_coll_op op, void *restrict to,
	const void *restrict from, int64_t n)
{
	if (op == RT_COLL_MAX) {
		BY_ELEM(max)
	} else {
		BY_ELEM(sum)
	}
}

int64_t
rt_acc_bytes(enum rt_elem e)
{
	return e == RT_ELEM_F64 ? 8 : 4;
}

/* The neutral element of sums is -0: adding +0 would turn -0 into +0. */
void
rt_neutral(enum rt_elem e, enum rt_coll_op op, void *acc, int64_t n)
{
	bool max = op == RT_COLL_MAX;
	double *f64 = acc;
	float *f32 = acc;
	int32_t *i32 = acc;

	switch (e) {
	case RT_ELEM_F64:
		LOOP(f64[j] = max ? (double)-INFINITY : -0.0);
		break;
	case RT_ELEM_I32:
		LOOP(i32[j] = max ? INT32_MIN : 0);
		break;
	default:
		LOOP(f32[j] = max ? -INFINITY : -0.0f);
		break;
	}
}

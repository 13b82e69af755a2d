/* Elements in files and in memory: see elems.h. */
#include "runtime/elems.h"

#include <string.h>

/* Files are little-endian, and copied as they are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the runtime is for little-endian machines");

int64_t
rt_elems_bytes(enum rt_elem e, int64_t n)
{
	return e == RT_ELEM_I4 ? n / RT_GROUP * (RT_GROUP / 2 + 2)
			       : n * rt_elem_bytes(e);
}

int64_t
rt_elem_bytes(enum rt_elem e)
{
	switch (e) {
	case RT_ELEM_F64:
		return 8;
	case RT_ELEM_BF16:
	case RT_ELEM_F16:
		return 2;
	case RT_ELEM_U8:
	case RT_ELEM_I8:
	case RT_ELEM_E4M3:
		return 1;
	default:
		return 4;
	}
}

enum rt_dtype
rt_elem_dtype(enum rt_elem e)
{
	static const enum rt_dtype dtypes[] = {
		[RT_ELEM_F64] = RT_F64,	  [RT_ELEM_F32] = RT_F32,
		[RT_ELEM_BF16] = RT_BF16, [RT_ELEM_F16] = RT_F16,
		[RT_ELEM_I32] = RT_I32,	  [RT_ELEM_U8] = RT_U8,
		[RT_ELEM_I8] = RT_I8,	  [RT_ELEM_E4M3] = RT_F8_E4M3,
		[RT_ELEM_I4] = RT_I8,	/* files have none of 4 bits */
	};

	return dtypes[e];
}

bool
rt_elems_are_real(enum rt_dtype d)
{
	return d == RT_F64 || d == RT_F32 || d == RT_BF16 || d == RT_F16;
}

bool
rt_elems_convertible(enum rt_dtype from, enum rt_elem to)
{
	enum rt_dtype d = rt_elem_dtype(to);

	return from == d || (rt_elems_are_real(from) && rt_elems_are_real(d));
}

/* ---- numbers ------------------------------------------------------- */

/* The nearest float of 1 + e + m bits; of two the even one. */
static uint64_t
narrow(double d, int e, int m)
{
	uint64_t bits, sign, f, half, rest, top = ((uint64_t)1 << e) - 1;
	int x, shift = 52 - m;

	memcpy(&bits, &d, sizeof(d));
	sign = bits >> 63 << (e + m);
	f = bits & (((uint64_t)1 << 52) - 1);
	x = (int)(bits >> 52 & 0x7ff);
	if (x == 0x7ff) {
		/* A NaN stays a NaN when its low bits are cut off. */
		return sign | top << m | f >> shift |
		       (f ? (uint64_t)1 << (m - 1) : 0);
	}
	x += (int)(top >> 1) - 1023;
	if (x >= (int)top) {
		return sign | top << m;
	}
	if (x < 1) {
		if (1 - x > m + 1) {
			return sign;
		}
		f |= (uint64_t)1 << 52;
		shift += 1 - x;
		x = 0;
	}
	half = (uint64_t)1 << (shift - 1);
	rest = f & (2 * half - 1);
	f >>= shift;
	if (rest > half || (rest == half && (f & 1))) {
		f++;	/* may carry into the exponent, as it should */
	}
	return sign | (((uint64_t)x << m) + f);
}

static double
get(enum rt_dtype d, const void *p, int64_t i)
{
	uint16_t half;
	int32_t word;
	double wide;
	float f;

	switch (d) {
	case RT_I32:
		memcpy(&word, (const char *)p + 4 * i, 4);
		return word;
	case RT_F64:
		memcpy(&wide, (const char *)p + 8 * i, 8);
		return wide;
	case RT_F32:
		memcpy(&f, (const char *)p + 4 * i, 4);
		return (double)f;
	default:
		memcpy(&half, (const char *)p + 2 * i, 2);
		return d == RT_BF16 ? rt_widen_float(half, 8, 7, false)
				    : rt_widen_float(half, 5, 10, false);
	}
}

double
rt_elem_number(const char *at, int64_t elem, int64_t i)
{
	/* bytes are not numbers: nothing that is read so has them */
	return elem >= RT_ELEM_U8 ? 0
		: get(rt_elem_dtype((enum rt_elem)elem), at, i);
}

static void
put(enum rt_elem e, void *p, int64_t i, double d)
{
	uint32_t word;
	uint16_t half;

	switch (e) {
	case RT_ELEM_F64:
		memcpy((char *)p + 8 * i, &d, 8);
		break;
	case RT_ELEM_F32:
		word = (uint32_t)narrow(d, 8, 23);
		memcpy((char *)p + 4 * i, &word, 4);
		break;
	default:
		half = (uint16_t)(e == RT_ELEM_BF16 ? narrow(d, 8, 7) :
						      narrow(d, 5, 10));
		memcpy((char *)p + 2 * i, &half, 2);
		break;
	}
}

/* The common case; all others convert through doubles. */
static void
bf16_to_f32(const void *in, void *out, int64_t n)
{
	uint16_t half;
	uint32_t word;
	int64_t i;

	for (i = 0; i < n; i++) {
		memcpy(&half, (const char *)in + 2 * i, 2);
		word = (uint32_t)half << 16;
		memcpy((char *)out + 4 * i, &word, 4);
	}
}

void
rt_elems_convert(enum rt_dtype from, const void *in, enum rt_elem to,
		 void *out, int64_t n)
{
	int64_t i;

	if (from == rt_elem_dtype(to)) {
		memcpy(out, in, (size_t)(n * rt_elem_bytes(to)));
	} else if (from == RT_BF16 && to == RT_ELEM_F32) {
		bf16_to_f32(in, out, n);
	} else {
		for (i = 0; i < n; i++) {
			put(to, out, i, get(from, in, i));
		}
	}
}

/* ---- sums ---------------------------------------------------------- */

/* For a given index, a bijection of the element's bits. */
static uint64_t
mix(uint64_t bits, uint64_t number)
{
	uint64_t x = bits + number * 0x9e3779b97f4a7c15u;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 29;
}

#define EACH(type)                                               \
	for (i = 0; i < n; i++) {                                \
		memcpy(&type, (const char *)p + i * bytes, sizeof(type)); \
		sum += mix(type, (uint64_t)(at + i));            \
	}                                                        \
	break

uint64_t
rt_elems_sum(int bytes, const void *p, int64_t at, int64_t n)
{
	uint8_t one;
	uint16_t two;
	uint32_t four;
	uint64_t eight, sum = 0;
	int64_t i;

	switch (bytes) {
	case 1:
		EACH(one);
	case 2:
		EACH(two);
	case 4:
		EACH(four);
	default:
		EACH(eight);
	}
	return sum;
}

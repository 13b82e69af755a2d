/*
 * Elements in memory and in files: sizes, conversions, checksums.  All folders
 * of runtime/ that move or convert elements use it.
 */
#ifndef RT_ELEMS_H
#define RT_ELEMS_H

#include <stdbool.h>
#include <string.h>

#include "runtime/abi.h"
#include "runtime/rt.h"

static inline double
rt_from_bits(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

/*
 * The double that equals an IEEE-like float of 1 + e + m bits, m < 52.  With
 * `finite` (E4M3) the top exponent holds numbers too, and only all ones is a
 * NaN.  Inline, so that e and m are constants in the loops that call it.
 */
static inline double
rt_widen_float(uint64_t v, int e, int m, bool finite)
{
	const uint64_t top = (UINT64_C(1) << e) - 1;
	const uint64_t ones = (UINT64_C(1) << m) - 1;
	const uint64_t bias = top >> 1;
	uint64_t sign = v >> (e + m) << 63;
	uint64_t exponent = v >> m & top;
	uint64_t fraction = v & ones;
	double d;

	if (exponent == top && (!finite || fraction == ones)) {
		return rt_from_bits(sign | UINT64_C(0x7ff) << 52 |
				    fraction << (52 - m));
	}
	if (exponent > 0) {
		return rt_from_bits(sign | (exponent + 1023 - bias) << 52 |
				    fraction << (52 - m));
	}
	/* Zero or subnormal: fraction * 2^(1 - bias - m), which is exact. */
	d = (double)fraction * rt_from_bits((1024 - bias - (uint64_t)m) << 52);
	return sign ? -d : d;
}

int64_t rt_elem_bytes(enum rt_elem e);	/* not of RT_ELEM_I4 */
/* Bytes of n elements; of RT_ELEM_I4 of whole groups. */
int64_t rt_elems_bytes(enum rt_elem e, int64_t n);
/* Element i of those at `at`, enum rt_elem, as a double. */
double rt_elem_number(const char *at, int64_t elem, int64_t i);

/* The dtype in files of what memory holds. */
enum rt_dtype rt_elem_dtype(enum rt_elem e);

/* F64, F32, BF16 or F16: what data/round.c rounds. */
bool rt_elems_are_real(enum rt_dtype d);
/* Whether stored elements can be read as those: equal types, or both real. */
bool rt_elems_convertible(enum rt_dtype from, enum rt_elem to);
/* Converts n elements, rounding to nearest even. */
void rt_elems_convert(enum rt_dtype from, const void *in, enum rt_elem to,
		      void *out, int64_t n);

/*
 * A checksum over n elements of 1, 2, 4 or 8 bytes, the first of which is
 * element `at` of a tensor: a hash of each element and its index, added modulo
 * 2^64.  So checksums of parts add up to that of the whole, whichever rank
 * computes them, and changing one element always changes it.
 */
uint64_t rt_elems_sum(int bytes, const void *p, int64_t at, int64_t n);

#endif

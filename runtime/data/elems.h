/* Private to runtime/data/: elements in files and in memory. */
#ifndef RT_ELEMS_H
#define RT_ELEMS_H

#include <stdbool.h>

#include "runtime/abi.h"
#include "runtime/rt.h"

/* The dtype in files of what memory holds. */
enum rt_dtype rt_elem_dtype(enum rt_elem e);

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

/*
 * elems.h - private to runtime/: elements in files and in memory.
 */
#ifndef RT_ELEMS_H
#define RT_ELEMS_H

#include <stdbool.h>

#include "runtime/abi.h"
#include "runtime/rt.h"

/* How the format of files calls what memory holds. */
enum rt_dtype rt_elem_dtype(enum rt_elem e);

/* Can these be read as those?  Bits that are alike, or real numbers. */
bool rt_elems_convertible(enum rt_dtype from, enum rt_elem to);
/* n elements, rounded to the nearest, of two such to the even one. */
void rt_elems_convert(enum rt_dtype from, const void *in, enum rt_elem to,
		      void *out, int64_t n);

/*
 * A sum over n elements of 1, 2, 4 or 8 bytes, of which the first is number
 * `at` of a tensor: each element and its number go through a mixer and what
 * comes out is added, modulo 2^64.  So sums of parts add up to the sum of the
 * whole, whoever computes them; one changed element always changes it.
 */
uint64_t rt_elems_sum(int bytes, const void *p, int64_t at, int64_t n);

#endif

/* Reads bytes and numbers of an opened .safetensors file. */
#include "runtime/rt.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/elems.h"
#include "runtime/data/gguf.h"
#include "runtime/data/quantised.h"
#include "runtime/data/safetensors.h"

enum {
	CHUNK_BYTES = 32768, /* a multiple of every element size */
};

static const struct {
	const char *name;
	int bits;
	bool readable; /* by rt_st_read_f64() */
} dtypes[RT_DTYPE_COUNT] = {
	[RT_BOOL] = { "BOOL", 8, true },
	[RT_F4] = { "F4", 4, false },
	[RT_F6_E2M3] = { "F6_E2M3", 6, false },
	[RT_F6_E3M2] = { "F6_E3M2", 6, false },
	[RT_U8] = { "U8", 8, true },
	[RT_I8] = { "I8", 8, true },
	[RT_F8_E5M2] = { "F8_E5M2", 8, true },
	[RT_F8_E4M3] = { "F8_E4M3", 8, true },
	[RT_F8_E8M0] = { "F8_E8M0", 8, false },
	[RT_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", 8, false },
	[RT_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", 8, false },
	[RT_I16] = { "I16", 16, true },
	[RT_U16] = { "U16", 16, true },
	[RT_F16] = { "F16", 16, true },
	[RT_BF16] = { "BF16", 16, true },
	[RT_I32] = { "I32", 32, true },
	[RT_U32] = { "U32", 32, true },
	[RT_F32] = { "F32", 32, true },
	[RT_C64] = { "C64", 64, false },
	[RT_F64] = { "F64", 64, true },
	[RT_I64] = { "I64", 64, true },
	[RT_U64] = { "U64", 64, true },
};

const char *
rt_dtype_name(enum rt_dtype dtype)
{
	return dtypes[dtype].name;
}

int
rt_dtype_bits(enum rt_dtype dtype)
{
	return dtypes[dtype].bits;
}

/* ---- reading ------------------------------------------------------- */

int64_t
rt_st_elems(const struct rt_st_tensor *t)
{
	int64_t elems = 1;
	int i;

	for (i = 0; i < t->ndim; i++) {
		elems *= t->shape[i];
	}
	return elems;
}

/* RT_RANGE unless first .. first + n - 1 lies in 0 .. all - 1. */
static enum rt_status
check_range(const struct rt_shard *s, const struct rt_st_tensor *t,
	    int64_t first, int64_t n, int64_t all, const char *unit,
	    struct rt_error *err)
{
	if (first >= 0 && n >= 0 && first <= all && n <= all - first) {
		return RT_OK;
	}
	return rt_fail(err, RT_RANGE, rt_shard_where(s, t, -1),
		       "asked for %" PRId64 " %s from %" PRId64
		       " on, expected a part of its %" PRId64,
		       n, unit, first, all);
}

enum rt_status
rt_st_read_raw(const struct rt_st *st, const struct rt_st_tensor *t,
	       int64_t first_byte, int64_t n_bytes, void *out,
	       struct rt_error *err)
{
	const struct rt_shard *s = &st->shards[t->shard];
	enum rt_status status;

	status = check_range(s, t, first_byte, n_bytes, t->end - t->begin,
			     "bytes", err);
	if (status != RT_OK) {
		return status;
	}
	if (t->packed) {
		return rt_packed_read(st, t, first_byte / 4, n_bytes / 4, out,
				      err);
	}
	if (t->view) {
		int bytes = dtypes[t->dtype].bits / 8;

		return rt_gguf_read(st, t, first_byte / bytes, n_bytes / bytes,
				    out, err);
	}
	return rt_shard_read(s, t, s->data_at + t->begin + first_byte, n_bytes,
			     out, err);
}

/* A little-endian integer of 1, 2, 4 or 8 bytes. */
static inline uint64_t
load_little_endian(const unsigned char *p, int bytes)
{
	uint64_t v = 0;
	int i;

	for (i = 0; i < bytes; i++) {
		v |= (uint64_t)p[i] << 8 * i;
	}
	return v;
}

/* Whether a double equals v: its significant bits are 53 at most. */
static bool
is_exact(uint64_t v)
{
	while (v > UINT64_C(1) << 53 && (v & 1) == 0) {
		v >>= 1;
	}
	return v <= UINT64_C(1) << 53;
}

static uint64_t
int_magnitude(uint64_t v, bool is_signed)
{
	return is_signed && v >> 63 ? -v : v;
}

/* The first of n elements that no double equals, or n. */
static int64_t
first_inexact(enum rt_dtype dtype, const unsigned char *p, int64_t n)
{
	int64_t i;

	if (dtype == RT_BOOL) {
		for (i = 0; i < n && p[i] <= 1; i++) {
			continue;
		}
		return i;
	}
	if (dtype == RT_I64 || dtype == RT_U64) {
		for (i = 0; i < n; i++) {
			if (!is_exact(int_magnitude(load_little_endian(p + 8 *
								       i, 8),
						    dtype == RT_I64))) {
				break;
			}
		}
		return i;
	}
	return n;
}

/* Two's complement, without implementation-defined conversions. */
static inline double
from_signed(uint64_t v, int bytes)
{
	uint64_t half = UINT64_C(1) << (8 * bytes - 1);

	if (v < half) {
		return (double)v;
	}
	return -(double)(bytes == 8 ? -v : (half << 1) - v);
}

#define EACH(bytes, expr)                       \
	for (i = 0; i < n; i++) {               \
		v = load_little_endian(p + (bytes)*i, bytes); \
		out[i] = (expr);                \
	}                                       \
	break

/*
 * Converts n elements of a readable type.  Each type has its own loop, in which
 * its size is a constant.
 */
static void
convert(enum rt_dtype dtype, const unsigned char *p, int64_t n, double *out)
{
	uint64_t v;
	int64_t i;

	switch (dtype) {
	case RT_BOOL:
	case RT_U8:
		EACH(1, (double)v);
	case RT_U16:
		EACH(2, (double)v);
	case RT_U32:
		EACH(4, (double)v);
	case RT_U64:
		EACH(8, (double)v);
	case RT_I8:
		EACH(1, from_signed(v, 1));
	case RT_I16:
		EACH(2, from_signed(v, 2));
	case RT_I32:
		EACH(4, from_signed(v, 4));
	case RT_I64:
		EACH(8, from_signed(v, 8));
	case RT_F8_E4M3:
		EACH(1, rt_widen_float(v, 4, 3, true));
	case RT_F8_E5M2:
		EACH(1, rt_widen_float(v, 5, 2, false));
	case RT_F16:
		EACH(2, rt_widen_float(v, 5, 10, false));
	case RT_BF16:
		EACH(2, rt_widen_float(v, 8, 7, false));
	case RT_F32:
		EACH(4, rt_widen_float(v, 8, 23, false));
	case RT_F64:
		EACH(8, rt_from_bits(v));
	default:
		break;
	}
}

/* Reports element `elem`, at p, which no double equals. */
static enum rt_status
fail_inexact(const struct rt_shard *s, const struct rt_st_tensor *t,
	     int64_t elem, const unsigned char *p, struct rt_error *err)
{
	int bytes = dtypes[t->dtype].bits / 8;
	uint64_t v = load_little_endian(p, bytes);
	bool negative = t->dtype == RT_I64 && v >> 63;
	struct rt_where where =
		rt_shard_where(s, t, s->data_at + t->begin + elem * bytes);

	if (t->dtype == RT_BOOL) {
		return rt_fail(err, RT_FORMAT, where,
			       "found %" PRIu64 " as element %" PRId64
			       " of a BOOL, expected 0 or 1",
			       v, elem);
	}
	return rt_fail(err, RT_FORMAT, where,
		       "found %s%" PRIu64 " as element %" PRId64
		       ", expected an integer that a double holds exactly",
		       negative ? "-" : "", int_magnitude(v, negative), elem);
}

enum rt_status
rt_st_read_f64(const struct rt_st *st, const struct rt_st_tensor *t,
	       int64_t first, int64_t n, double *out, struct rt_error *err)
{
	const struct rt_shard *s = &st->shards[t->shard];
	unsigned char chunk[CHUNK_BYTES];
	int bytes = dtypes[t->dtype].bits / 8;
	enum rt_status status;
	int64_t part, good;

	if (!dtypes[t->dtype].readable) {
		return rt_fail( err, RT_FORMAT, rt_shard_where(s, t, -1),
			"unsupported dtype %s, expected BOOL, U8 to U64, I8 to "
			"I64, F8_E4M3, F8_E5M2, F16, BF16, F32 or F64 to read "
			       "as numbers", dtypes[t->dtype].name);
	}
	status = check_range(s, t, first, n, rt_st_elems(t), "elements", err);
	while (status == RT_OK && n > 0) {
		part = CHUNK_BYTES / bytes;
		if (part > n) {
			part = n;
		}
		status = rt_st_read_raw(st, t, first * bytes, part * bytes,
					chunk, err);
		if (status != RT_OK) {
			break;
		}
		good = first_inexact(t->dtype, chunk, part);
		if (good < part) {
			return fail_inexact(s, t, first + good,
					    chunk + good * bytes, err);
		}
		convert(t->dtype, chunk, part, out);
		first += part;
		out += part;
		n -= part;
	}
	return status;
}

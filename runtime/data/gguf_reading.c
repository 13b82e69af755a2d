/*
 * Reads bytes, numbers and texts of a GGUF file, one after the other, keys and
 * their values, and says where it is wrong: see gguf.h.
 */
#include "runtime/data/gguf_reading.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum {
	VERSION = 3,
	LEAST_KEY_BYTES = 8 + 4 + 1,
	MOST_KEY_BYTES = 65535,
	ALIGNMENT = 32, /* unless a key says another */
};

void
rt_gguf_begin(struct gguf_reading *r, const char *path,
	      const struct rt_alloc *alloc, struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	char *copy = rt_join(&a, path, strlen(path), "");

	memset(r, 0, sizeof(*r));
	r->err = err;
	r->st = rt_st_new(a, 1);
	r->buffer = rt_resize(&a, NULL, RT_GGUF_BUFFER, 1);
	if (!copy || !r->st || !r->buffer) {
		rt_release(&a, copy);
		r->status = rt_no_memory(err, path);
	} else {
		r->status = rt_st_add_shard(r->st, copy, err);
		rt_gguf_begin_part(r, &r->st->shards[0]);
	}
}

void
rt_gguf_begin_part(struct gguf_reading *r, struct rt_shard *s)
{
	r->s = s;
	r->at = r->from = r->held = 0;
	r->alignment = ALIGNMENT;
	r->seen = 0;
	r->split = (struct gguf_split){ -1, -1, -1 };
}

void
rt_gguf_fail(struct gguf_reading *r, int64_t at, const char *fmt, ...)
{
	struct rt_where where = rt_shard_where(r->s, NULL, at);
	va_list ap;

	if (r->status == RT_OK) {
		where.tensor = r->tensor;
		va_start(ap, fmt);
		r->status = rt_vfail(r->err, RT_FORMAT, where, fmt, ap);
		va_end(ap);
	}
}

int64_t
rt_gguf_padded(const struct gguf_reading *r, int64_t n)
{
	return (n + r->alignment - 1) / r->alignment * r->alignment;
}

const unsigned char *
rt_gguf_take(struct gguf_reading *r, int64_t n)
{
	int64_t left = r->s->file_bytes - r->at, some;
	const unsigned char *at;

	if (r->status != RT_OK) {
		return NULL;
	}
	if (n > left) {
		rt_gguf_fail(r, r->at, "found the end of the file %" PRId64 " "
			     "bytes on, expected %" PRId64 " more", left, n);
		return NULL;
	}
	if (r->at < r->from || r->at + n > r->from + r->held) {
		some = left < RT_GGUF_BUFFER ? left : RT_GGUF_BUFFER;
		r->held = 0;
		r->status = rt_shard_read(r->s, NULL, r->at, some, r->buffer,
					  r->err);
		if (r->status != RT_OK) {
			return NULL;
		}
		r->from = r->at;
		r->held = some;
	}
	at = r->buffer + (r->at - r->from);
	r->at += n;
	return at;
}

uint64_t
rt_gguf_number(struct gguf_reading *r, int bytes)
{
	const unsigned char *p = rt_gguf_take(r, bytes);
	uint64_t v = 0;
	int i;

	for (i = 0; p && i < bytes; i++) {
		v |= (uint64_t)p[i] << 8 * i;
	}
	return v;
}

void
rt_gguf_skip(struct gguf_reading *r, uint64_t n, int each, const char *what)
{
	int64_t left = r->s->file_bytes - r->at;

	if (r->status != RT_OK) {
		return;
	}
	if (n > (uint64_t)left / (uint64_t)each) {
		rt_gguf_fail(r, r->at, "found %" PRIu64 " %s, expected at most "
			     "the %" PRId64 " that the file has bytes for", n,
			     what, left / each);
		return;
	}
	r->at += (int64_t)n * each;
}

uint64_t
rt_gguf_text(struct gguf_reading *r, char *out, size_t size)
{
	uint64_t n = rt_gguf_number(r, 8);
	size_t some = n < size - 1 ? (size_t)n : size - 1;
	const unsigned char *p;

	out[0] = '\0';
	if (r->status == RT_OK &&
	    n > (uint64_t)(r->s->file_bytes - r->at)) {
		rt_gguf_skip(r, n, 1, "bytes of a text");
		return n;
	}
	p = rt_gguf_take(r, (int64_t)some);
	if (p) {
		memcpy(out, p, some);
		out[some] = '\0';
		rt_gguf_skip(r, n - some, 1, "bytes of a text");
	}
	return n;
}

/* ---- keys and values --------------------------------------------------- */

static const int value_bytes[RT_GGUF_NVALUES] = {
	[RT_GGUF_U8] = 1, [RT_GGUF_I8] = 1, [RT_GGUF_U16] = 2,
	[RT_GGUF_I16] = 2, [RT_GGUF_U32] = 4, [RT_GGUF_I32] = 4,
	[RT_GGUF_F32] = 4, [RT_GGUF_BOOL] = 1, [RT_GGUF_U64] = 8,
	[RT_GGUF_I64] = 8, [RT_GGUF_F64] = 8
};

void
rt_gguf_read_head(struct gguf_reading *r, uint64_t *tensors, uint64_t *keys)
{
	const unsigned char *magic = rt_gguf_take(r, 4);
	uint64_t version;

	if (magic && memcmp(magic, "GGUF", 4) != 0) {
		rt_gguf_fail(r, 0, "found no 'GGUF' at the beginning, expected "
			     "it");
	}
	version = rt_gguf_number(r, 4);
	if (r->status == RT_OK && version != VERSION) {
		rt_gguf_fail(r, 4, "found version %" PRIu64 " of GGUF, "
			     "expected %d", version, VERSION);
	}
	*tensors = rt_gguf_number(r, 8);
	*keys = rt_gguf_number(r, 8);
	if (r->status == RT_OK) {
		int64_t at = r->at;

		rt_gguf_skip(r, *tensors, RT_GGUF_LEAST_TENSOR, "tensors");
		r->at = at;
		rt_gguf_skip(r, *keys, LEAST_KEY_BYTES, "keys");
		r->at = at;
	}
}

static bool
check_value(struct gguf_reading *r, uint64_t type)
{
	if (r->status == RT_OK && type >= RT_GGUF_NVALUES) {
		rt_gguf_fail(r, r->at - 4, "found a value of type %" PRIu64
			     ", expected 0 to %d", type, RT_GGUF_NVALUES - 1);
	}
	return r->status == RT_OK;
}

bool
rt_gguf_read_key(struct gguf_reading *r, char *key, size_t size,
		 uint64_t *type)
{
	int64_t at = r->at;
	uint64_t n = rt_gguf_text(r, key, size);

	*type = rt_gguf_number(r, 4);
	if (r->status == RT_OK && (n < 1 || n > MOST_KEY_BYTES)) {
		rt_gguf_fail(r, at, "found a key of %" PRIu64 " bytes, "
			     "expected 1 to %d", n, MOST_KEY_BYTES);
	}
	return check_value(r, *type);
}

bool
rt_gguf_read_list(struct gguf_reading *r, uint64_t *type, uint64_t *n)
{
	*type = rt_gguf_number(r, 4);
	*n = rt_gguf_number(r, 8);
	if (check_value(r, *type) && *type == RT_GGUF_LIST) {
		rt_gguf_fail(r, r->at - 12, "found a list of lists, expected "
			     "none");
	}
	if (r->status == RT_OK) {
		int64_t at = r->at;

		rt_gguf_skip(r, *n, *type == RT_GGUF_TEXT ? 8
			     : value_bytes[*type], "elements of a list");
		r->at = at;
	}
	return r->status == RT_OK;
}

static void
skip_list(struct gguf_reading *r)
{
	uint64_t type, n, i;
	char none[1];

	if (!rt_gguf_read_list(r, &type, &n)) {
		return;
	}
	if (type != RT_GGUF_TEXT) {
		rt_gguf_skip(r, n, value_bytes[type], "elements of a list");
	}
	for (i = 0; type == RT_GGUF_TEXT && i < n && r->status == RT_OK; i++) {
		rt_gguf_text(r, none, sizeof(none));
	}
}

void
rt_gguf_skip_value(struct gguf_reading *r, uint64_t type)
{
	char none[1];

	if (type == RT_GGUF_TEXT) {
		rt_gguf_text(r, none, sizeof(none));
	} else if (type == RT_GGUF_LIST) {
		skip_list(r);
	} else {
		rt_gguf_skip(r, 1, value_bytes[type], "values");
	}
}

int64_t
rt_gguf_whole(struct gguf_reading *r, const char *key, uint64_t type,
	      uint64_t least)
{
	static const bool is_whole[RT_GGUF_NVALUES] = {
		[RT_GGUF_U8] = true, [RT_GGUF_U16] = true, [RT_GGUF_U32] = true,
		[RT_GGUF_I32] = true, [RT_GGUF_U64] = true, [RT_GGUF_I64] = true
	};
	int64_t at = r->at;
	uint64_t v = UINT64_MAX;

	if (is_whole[type]) {
		v = rt_gguf_number(r, value_bytes[type]);
	}
	if (r->status == RT_OK && (v < least || v > INT32_MAX)) {
		rt_gguf_fail(r, at, "found a value of '%s' that is no whole "
			     "number of %" PRIu64 " to %d, expected one",
			     rt_show_name(key).text, least, INT32_MAX);
	}
	return (int64_t)v;
}

double
rt_gguf_real(struct gguf_reading *r, uint64_t type)
{
	bool has_sign = type == RT_GGUF_I8 || type == RT_GGUF_I16 ||
			type == RT_GGUF_I32 || type == RT_GGUF_I64;
	int bytes = value_bytes[type];
	uint64_t bits;
	double d;
	float f;

	if (bytes == 0 || type == RT_GGUF_BOOL) {
		rt_gguf_skip_value(r, type);
		return NAN;
	}
	bits = rt_gguf_number(r, bytes);
	if (has_sign && bits >> (8 * bytes - 1)) {
		/* what is missing to 2^(8 * bytes) */
		return -(double)((~bits + 1) & UINT64_MAX >> (64 - 8 * bytes));
	}
	if (type == RT_GGUF_F64) {
		memcpy(&d, &bits, sizeof(d));
		return d;
	}
	if (type == RT_GGUF_F32) {
		uint32_t low = (uint32_t)bits;

		memcpy(&f, &low, sizeof(f));
		return (double)f;
	}
	return (double)bits;
}

/*
 * Reads bytes, numbers and texts of a GGUF file, one after the other, and says
 * where it is wrong: see gguf.h.
 */
#include "runtime/data/gguf_reading.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

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

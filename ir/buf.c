/*
 * Growing text in an arena.  All printers of the compiler write to one, and the
 * driver alone writes it to a file, so that no output is ever incomplete.
 */
#include "ir/base.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void
buf_init(struct buf *b, struct arena *a)
{
	memset(b, 0, sizeof *b);
	b->arena = a;
}

/* Makes space for so many bytes more and the NUL after them. */
static void
grow(struct buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 64;
	char *at;

	while (cap < b->n + more + 1) {
		cap *= 2;
	}
	at = arena_alloc_raw(b->arena, cap);
	if (b->n) {
		memcpy(at, b->at, b->n);
	}
	b->at = at;
	b->cap = cap;
}

static void
put(struct buf *b, const char *s, size_t n)
{
	if (n) {
		memcpy(b->at + b->n, s, n);
	}
	b->n += n;
	b->at[b->n] = '\0';
}

/* Adds text that does not fit at once to a buffer of fixed capacity. */
static void
put_parts(struct buf *b, const char *s, size_t n)
{
	size_t part;

	for (; n; s += part, n -= part) {
		if (b->n + 1 == b->cap) {
			b->full(b);
		}
		part = b->cap - b->n - 1;
		part = part < n ? part : n;
		put(b, s, part);
	}
}

void
buf_add(struct buf *b, const char *s, size_t n)
{
	if (n < b->cap - b->n) {
		put(b, s, n);
	} else if (b->full) {
		put_parts(b, s, n);
	} else {
		grow(b, n);
		put(b, s, n);
	}
}

void
buf_puts(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void
buf_putc(struct buf *b, char c)
{
	if (b->cap - b->n > 1) {	/* most are packed byte by byte */
		b->at[b->n++] = c;
		b->at[b->n] = '\0';
	} else {
		buf_add(b, &c, 1);
	}
}

void
buf_int(struct buf *b, int64_t v)
{
	uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
	char text[24], *end = text + sizeof text, *p = end;

	do {
		*--p = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	if (v < 0) {
		*--p = '-';
	}
	buf_add(b, p, (size_t)(end - p));
}

/*
 * Adds the part of the format that is plain text, %s and whole numbers without
 * flags, which most formats are.  Returns where the first other conversion is,
 * which vsnprintf does, or the end.
 */
static const char *
put_plain(struct buf *b, const char *fmt, va_list *ap)
{
	size_t n = strcspn(fmt, "%");

	buf_add(b, fmt, n);
	for (fmt += n; *fmt; fmt += n) {
		if (fmt[1] == 's') {
			buf_puts(b, va_arg(*ap, const char *));
		} else if (fmt[1] == 'u') {
			buf_int(b, va_arg(*ap, unsigned));
		} else if (fmt[1] == 'd') {
			buf_int(b, va_arg(*ap, int));
		} else if (fmt[1] == 'c') {
			buf_putc(b, (char)va_arg(*ap, int));
		} else {
			break;
		}
		n = strcspn(fmt + 2, "%");
		buf_add(b, fmt + 2, n);
		n += 2;
	}
	return fmt;
}

static void
put_format(struct buf *b, const char *fmt, va_list ap)
{
	size_t left = b->cap - b->n;
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(b->at + b->n, left, fmt, ap);
	if (n < 0) {
		die("bad format \"%s\"", fmt);
	}
	if ((size_t)n >= left) {	/* it was cut off */
		if (b->full) {
			die("a buffer that does not grow takes no formats");
		}
		grow(b, (size_t)n);
		vsnprintf(b->at + b->n, (size_t)n + 1, fmt, again);
	}
	va_end(again);
	b->n += (size_t)n;
}

void
buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list rest;

	if (!b->cap) {
		grow(b, 0);
		put(b, "", 0);
	}
	va_copy(rest, ap);
	fmt = put_plain(b, fmt, &rest);
	if (*fmt) {
		put_format(b, fmt, rest);
	}
	va_end(rest);
}

void
buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void
buf_double(struct buf *b, double v)
{
	char text[40], *e;
	int digits, n = 0;

	if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v &&
	    (v != 0 || !signbit(v))) {
		buf_int(b, (int64_t)v);
		return;
	}
	for (digits = 1; digits <= 17; digits++) {
		n = snprintf(text, sizeof text, "%.*g", digits, v);
		if (strtod(text, NULL) == v) {
			break;
		}
	}
	/* libcs differ in the exponent's digits: 1e-5 and 1e-05 */
	e = strpbrk(text, "e");
	buf_add(b, text, e ? (size_t)(e - text) : (size_t)n);
	if (e) {
		buf_putc(b, 'e');
		buf_int(b, strtol(e + 1, NULL, 10));
	}
}

size_t
buf_utf8_len(const char *text, size_t n)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t k, i;

	if (s[0] < 0x80) {
		return 1;
	}
	k = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || k > n) {
		return 0;
	}
	for (i = 1; i < k; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) {
		return 0;
	}
	return k;
}

void
buf_json(struct buf *b, const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t i, k;

	buf_putc(b, '"');
	for (i = 0; i < n; i += k) {
		k = buf_utf8_len(s + i, n - i);
		if (k == 0) {
			buf_puts(b, "\xef\xbf\xbd");
			k = 1;
		} else if (p[i] == '"' || p[i] == '\\') {
			buf_printf(b, "\\%c", p[i]);
		} else if (p[i] == '\n') {
			buf_puts(b, "\\n");
		} else if (p[i] < 0x20) {
			buf_printf(b, "\\u%04x", p[i]);
		} else {
			buf_add(b, s + i, k);
		}
	}
	buf_putc(b, '"');
}

bool
text_ends_in(const char *text, const char *tail)
{
	size_t n = strlen(text), k = strlen(tail);

	return n >= k && strcmp(text + n - k, tail) == 0;
}

void
buf_grouped(struct buf *b, int64_t v)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%" PRId64, v), i;

	for (i = 0; i < n; i++) {
		buf_putc(b, text[i]);
		if (text[i] != '-' && i + 1 < n && (n - 1 - i) % 3 == 0) {
			buf_putc(b, ',');
		}
	}
}

void
buf_short(struct buf *b, double v)
{
	static const char *const units[] = { "", " K", " M", " B", " T" };
	int i = 0;

	while (v >= 999.5 && i < 4) {
		v /= 1000;
		i++;
	}
	buf_printf(b, "%.4g%s", v, units[i]);
}

const char *
buf_between(size_t i, size_t n)
{
	return i == 0 ? "" : i + 1 < n ? ", " : " and ";
}

const char *
buf_text(struct buf *b)
{
	return b->at ? b->at : "";
}

char *
arena_printf(struct arena *a, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, a);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	return b.at;
}

/*
 * Text that grows; see text.h.
 */
#include "runtime/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LEAST 256		/* bytes of a text that grows */

/* What `capacity` grows to for n bytes and a NUL. */
static size_t
grown(size_t capacity, size_t n)
{
	while (capacity <= n) {
		capacity *= 2;
	}
	return capacity;
}

size_t
rt_text_capacity(size_t n)
{
	return grown(LEAST, n);
}

/* Makes space for n more bytes and a NUL. */
static bool
reserve(struct rt_text *t, size_t n)
{
	size_t capacity = grown(t->capacity ? t->capacity : LEAST, t->n + n);
	char *p;

	if (capacity > t->capacity && !t->failed) {
		p = rt_resize(&t->alloc, t->at, capacity, 1);
		t->failed = !p;
		t->at = p ? p : t->at;
		t->capacity = p ? capacity : t->capacity;
	}
	return !t->failed;
}

void
rt_text_add(struct rt_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !reserve(t, (size_t)n)) {
		return;
	}
	va_start(ap, fmt);
	vsnprintf(t->at + t->n, t->capacity - t->n, fmt, ap);
	va_end(ap);
	t->n += (size_t)n;
}

void
rt_text_bytes(struct rt_text *t, const char *s, size_t n)
{
	if (n > 0 && reserve(t, n)) {
		memcpy(t->at + t->n, s, n);
		t->n += n;
		t->at[t->n] = '\0';
	}
}

static bool
is_escaped(char c)
{
	return c == '"' || c == '\\' || (unsigned char)c < 0x20;
}

void
rt_text_chars(struct rt_text *t, const char *s, size_t n)
{
	size_t i, plain;

	rt_text_add(t, "\"");
	for (i = 0; i < n; i += plain) {
		plain = 0;
		while (i + plain < n && !is_escaped(s[i + plain])) {
			plain++;
		}
		if (plain > 0) {
			rt_text_bytes(t, s + i, plain);
		} else if (s[i] == '"' || s[i] == '\\') {
			rt_text_add(t, "\\%c", s[i]);
			plain = 1;
		} else {
			rt_text_add(t, "\\u%04x", (unsigned)s[i]);
			plain = 1;
		}
	}
	rt_text_add(t, "\"");
}

void
rt_text_string(struct rt_text *t, const char *s)
{
	rt_text_chars(t, s, strlen(s));
}

void
rt_text_release(struct rt_text *t)
{
	rt_release(&t->alloc, t->at);
	t->at = NULL;
}

static size_t
least3(size_t a, size_t b, size_t c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

size_t
rt_edit_distance(const char *a, const char *b)
{
	size_t n = strlen(b), row[64], i, j, old, above;

	if (n >= 64) {
		return n;
	}
	for (j = 0; j <= n; j++) {
		row[j] = j;
	}
	for (i = 1; a[i - 1]; i++) {
		old = row[0];
		row[0] = i;
		for (j = 1; j <= n; j++) {
			above = row[j];
			row[j] = least3(above + 1, row[j - 1] + 1,
					old + (a[i - 1] != b[j - 1]));
			old = above;
		}
	}
	return row[n];
}

void
rt_line_add(struct rt_line *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->at + t->n, sizeof(t->at) - t->n, fmt, ap);
	va_end(ap);
	t->n += n > 0 ? (size_t)n : 0;
	t->n = t->n < sizeof(t->at) ? t->n : sizeof(t->at) - 1;
}

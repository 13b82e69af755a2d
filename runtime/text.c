/*
 * Text that grows; see text.h.
 */
#include "runtime/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Makes space for n more bytes and a NUL. */
static bool
reserve(struct rt_text *t, size_t n)
{
	size_t capacity = t->capacity ? t->capacity : 256;
	char *p;

	while (capacity - t->n <= n) {
		capacity *= 2;
	}
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
rt_text_string(struct rt_text *t, const char *s)
{
	rt_text_add(t, "\"");
	for (; *s; s++) {
		if (*s == '"' || *s == '\\') {
			rt_text_add(t, "\\%c", *s);
		} else if ((unsigned char)*s < 0x20) {
			rt_text_add(t, "\\u%04x", (unsigned)*s);
		} else {
			rt_text_add(t, "%c", *s);
		}
	}
	rt_text_add(t, "\"");
}

void
rt_text_release(struct rt_text *t)
{
	rt_release(&t->alloc, t->at);
	t->at = NULL;
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

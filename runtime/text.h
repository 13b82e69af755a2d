/*
 * Private to runtime/: text that is composed piece by piece, mostly JSON.
 */
#ifndef RT_TEXT_H
#define RT_TEXT_H

#include <stdbool.h>

#include "runtime/error.h"

/* Text that grows. After a failed allocation it stays `failed`, and as it
 * was. */
struct rt_text {
	struct rt_alloc alloc;
	char *at;
	size_t n, capacity;
	bool failed;
};

/* Bytes that are allocated for a text of n, with a NUL. */
size_t rt_text_capacity(size_t n);
void rt_text_add(struct rt_text *t, const char *fmt, ...) RT_PRINTF(2, 3);
/* Appends n bytes, which may be NULs. */
void rt_text_bytes(struct rt_text *t, const char *s, size_t n);
/* Appends a JSON string, with its quotes; of n bytes, which may be NULs. */
void rt_text_string(struct rt_text *t, const char *s);
void rt_text_chars(struct rt_text *t, const char *s, size_t n);
void rt_text_release(struct rt_text *t);

/* How many characters are to be changed, added or removed; of names shorter
 * than 64. */
size_t rt_edit_distance(const char *a, const char *b);

/* Text of one message, cut when its array is full. */
struct rt_line {
	char at[2048];
	size_t n;
};

void rt_line_add(struct rt_line *t, const char *fmt, ...) RT_PRINTF(2, 3);

#endif

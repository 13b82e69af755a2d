/*
 * text.h - private to runtime/: text that is put together, JSON above all.
 */
#ifndef RT_TEXT_H
#define RT_TEXT_H

#include <stdbool.h>

#include "runtime/error.h"

/* Text that grows.  Once memory is out it stays `failed` and as it is. */
struct rt_text {
	struct rt_alloc alloc;
	char *at;
	size_t n, room;
	bool failed;
};

void rt_text_add(struct rt_text *t, const char *fmt, ...) RT_PRINTF(2, 3);
/* A string of JSON, with its quotes. */
void rt_text_string(struct rt_text *t, const char *s);
void rt_text_release(struct rt_text *t);

/* Text that grows until its room is full: one message. */
struct rt_line {
	char at[2048];
	size_t n;
};

void rt_line_add(struct rt_line *t, const char *fmt, ...) RT_PRINTF(2, 3);

#endif

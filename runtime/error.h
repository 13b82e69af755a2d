/*
 * Private to runtime/: errors and memory.
 */
#ifndef RT_ERROR_H
#define RT_ERROR_H

#include <stdarg.h>

#include "runtime/rt.h"

#if defined(__GNUC__)
#define RT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define RT_PRINTF(f, a)
#endif

/* What an error is about; `path` and `tensor` may be NULL. */
struct rt_where {
	const char *path; /* shown as "path: " */
	const char *tensor; /* shown as "tensor 'name': " */
	int64_t offset; /* -1: at no particular byte */
};

#define RT_NOWHERE ((struct rt_where){ NULL, NULL, -1 })

/*
 * A name for a message: cut to a fixed length, control characters replaced.
 * Returned by value, so that it can be an argument of the call that prints it.
 */
struct rt_shown {
	char text[72];
};

/* Writes the error, if err is not NULL, and returns `status`. */
enum rt_status rt_fail(struct rt_error *err, enum rt_status status,
		       struct rt_where where, const char *fmt, ...)
	RT_PRINTF(4, 5);
enum rt_status rt_vfail(struct rt_error *err, enum rt_status status,
			struct rt_where where, const char *fmt, va_list ap)
	RT_PRINTF(4, 0);

/* The same for RT_NOMEM; path may be NULL. */
enum rt_status rt_no_memory(struct rt_error *err, const char *path);

/* The beginning of a name, or the end of a path: the part that identifies
 * it. */
struct rt_shown rt_show_name(const char *name);
struct rt_shown rt_show_path(const char *path);

/* The allocator itself, or the C library's for NULL. */
struct rt_alloc rt_alloc_or_libc(const struct rt_alloc *alloc);

/*
 * Resizes p to n elements of `size` bytes; NULL if that overflows or memory is
 * out, and p is unchanged. n = 0 asks for one byte, so that NULL always means
 * failure.
 */
void *rt_resize(const struct rt_alloc *alloc, void *p, size_t n, size_t size);
void rt_release(const struct rt_alloc *alloc, void *p);

/* The first n bytes of `dir` and then `name`, allocated; NULL: no memory. */
char *rt_join(const struct rt_alloc *alloc, const char *dir, size_t n,
	      const char *name);

bool rt_ends_in(const char *text, const char *tail);
/* Bytes of the character that s starts with, 0 if it is none (RFC 3629). */
size_t rt_utf8_len(const unsigned char *s, size_t left);

#endif

/*
 * Errors and memory of the runtime.
 */
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory -------------------------------------------------------- */

static void *
libc_realloc(void *user, void *p, size_t n)
{
	(void)user;
	if (n == 0) {
		free(p);
		return NULL;
	}
	return realloc(p, n);
}

struct rt_alloc
rt_alloc_or_libc(const struct rt_alloc *alloc)
{
	struct rt_alloc libc = { libc_realloc, NULL };

	return alloc ? *alloc : libc;
}

void *
rt_resize(const struct rt_alloc *alloc, void *p, size_t n, size_t size)
{
	if (n > SIZE_MAX / size) {
		return NULL;
	}
	return alloc->realloc(alloc->user, p, n ? n * size : 1);
}

void
rt_release(const struct rt_alloc *alloc, void *p)
{
	if (p) {
		alloc->realloc(alloc->user, p, 0);
	}
}

enum rt_status
rt_no_memory(struct rt_error *err, const char *path)
{
	struct rt_where where = { path, NULL, -1 };

	return rt_fail(err, RT_NOMEM, where, "out of memory");
}

bool
rt_ends_in(const char *text, const char *tail)
{
	size_t n = strlen(text), m = strlen(tail);

	return n >= m && strcmp(text + n - m, tail) == 0;
}

char *
rt_join(const struct rt_alloc *alloc, const char *dir, size_t n,
	const char *name)
{
	size_t len = strlen(name) + 1;
	char *path;

	path = rt_resize(alloc, NULL, n + len, 1);
	if (path) {
		memcpy(path, dir, n);
		memcpy(path + n, name, len);
	}
	return path;
}

/* ---- UTF-8 --------------------------------------------------------- */

size_t
rt_utf8_len(const unsigned char *s, size_t left)
{
	unsigned char lo = 0x80, hi = 0xbf; /* of the second byte */
	size_t len, i;

	if (s[0] < 0x80) {
		return 1;
	}
	if (s[0] < 0xc2 || s[0] > 0xf4) {
		return 0;
	}
	len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0) {
		lo = 0xa0; /* else overlong */
	} else if (s[0] == 0xed) {
		hi = 0x9f; /* else a surrogate */
	} else if (s[0] == 0xf0) {
		lo = 0x90; /* else overlong */
	} else if (s[0] == 0xf4) {
		hi = 0x8f; /* else past U+10FFFF */
	}
	if (left < len || s[1] < lo || s[1] > hi) {
		return 0;
	}
	for (i = 2; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	return len;
}

/* ---- errors -------------------------------------------------------- */

/* Replaces control characters and invalid UTF-8, which a terminal might act
 * on. */
static void
clean(char *text)
{
	unsigned char *s = (unsigned char *)text;
	size_t left = strlen(text), len;

	while (left > 0) {
		len = rt_utf8_len(s, left);
		if (len == 0 || s[0] < 0x20 || s[0] == 0x7f) {
			*s = '?';
			len = 1;
		} else if (s[0] == 0xc2 && s[1] < 0xa0) {
			s[0] = s[1] = '?'; /* U+0080 to U+009F */
		}
		s += len;
		left -= len;
	}
}

struct rt_shown
rt_show_name(const char *name)
{
	struct rt_shown out;
	size_t max = sizeof(out.text) - sizeof("..."), n = strlen(name);

	if (n <= max) {
		memcpy(out.text, name, n + 1);
	} else {
		n = max;
		while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80) {
			n--;
		}
		memcpy(out.text, name, n);
		memcpy(out.text + n, "...", sizeof("..."));
	}
	clean(out.text);
	return out;
}

struct rt_shown
rt_show_path(const char *path)
{
	struct rt_shown out;
	size_t max = sizeof(out.text) - sizeof("..."), n = strlen(path);

	if (n <= max) {
		memcpy(out.text, path, n + 1);
	} else {
		path += n - max;
		while (((unsigned char)*path & 0xc0) == 0x80) {
			path++;
		}
		memcpy(out.text, "...", 3);
		memcpy(out.text + 3, path, strlen(path) + 1);
	}
	clean(out.text);
	return out;
}

enum rt_status
rt_vfail(struct rt_error *err, enum rt_status status, struct rt_where where,
	 const char *fmt, va_list ap)
{
	size_t at = 0, size;

	if (!err) {
		return status;
	}
	err->status = status;
	err->offset = where.offset;
	size = sizeof(err->message);
	/* The lengths of both prefixes are bounded and fit together, see
	 * rt_shown. */
	if (where.path) {
		at += (size_t)snprintf(err->message + at, size - at,
				       "%s: ", rt_show_path(where.path).text);
	}
	if (where.tensor) {
		at += (size_t)snprintf(
			err->message + at, size - at,
			"tensor '%s': ", rt_show_name(where.tensor).text);
	}
	vsnprintf(err->message + at, size - at, fmt, ap);
	return status;
}

enum rt_status
rt_fail(struct rt_error *err, enum rt_status status, struct rt_where where,
	const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	rt_vfail(err, status, where, fmt, ap);
	va_end(ap);
	return status;
}

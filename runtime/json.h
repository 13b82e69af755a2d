/*
 * Private to runtime/: a JSON reader for formats whose nesting is known
 * beforehand.
 *
 * The reader returns one token at a time and never recurses.  After its first
 * failure every function returns false and keeps the error, so that a caller
 * may check once, at the end.
 */
#ifndef RT_JSON_H
#define RT_JSON_H

#include <stdbool.h>

#include "runtime/error.h"

struct rt_json {
	char *text; /* strings are decoded in place, see below */
	size_t len;
	size_t at; /* next byte to look at */
	int64_t base; /* offset of text[0] in its file */
	const char *path; /* for messages, may be NULL */
	const char *tensor; /* likewise; set by the caller as it goes */
	enum rt_status status;
	struct rt_error *err;
	bool allows_nul; /* in strings: set by rt_json_any_text() */
};

/* Fails unless the whole text is UTF-8; call it before all else. */
bool rt_json_check_utf8(struct rt_json *j);

/* Fails at a byte of the text, or at no byte for NULL; returns false. */
bool rt_json_fail(struct rt_json *j, enum rt_status status, const char *at,
		  const char *fmt, ...) RT_PRINTF(4, 5);

/* Enters an object or an array. */
bool rt_json_open(struct rt_json *j, char bracket);

/*
 * Goes to the next element of what rt_json_open() entered: false at the
 * closing bracket, which it consumes, and on failure.  *i, 0 at first,
 * counts the elements.
 */
bool rt_json_more(struct rt_json *j, char bracket, size_t *i);

/*
 * A string, decoded in place over its own source (which is never shorter)
 * and ended by a NUL; it lives as long as the text.  A string that itself
 * holds a NUL is refused: names end up in C strings, where it would hide
 * the rest.
 */
bool rt_json_string(struct rt_json *j, const char **out);

/* The same of n bytes, which may be NULs. */
bool rt_json_any_text(struct rt_json *j, const char **out, size_t *n);

/* A string and the ':' after it. */
bool rt_json_key(struct rt_json *j, const char **out);

/* An integer from 0 to INT64_MAX; no sign, fraction or leading zero. */
bool rt_json_int(struct rt_json *j, int64_t *out);

/* As rt_json_int(), but a fraction of zeros may follow: "12.0". */
bool rt_json_whole(struct rt_json *j, int64_t *out);

/*
 * The first byte of the next value: a bracket, a quote, a digit or `-`, or
 * the first letter of true, false and null; -1 at the end of the text.
 */
int rt_json_peek(struct rt_json *j);

/*
 * A number, true, false or null, as its *n bytes at *out stand in the text; a
 * string is refused.
 */
bool rt_json_word(struct rt_json *j, const char **out, size_t *n);

/* true or false. */
bool rt_json_bool(struct rt_json *j, bool *out);

/* Whether null comes next; it is consumed then. */
bool rt_json_null(struct rt_json *j);

/* Any one value, checked and dropped; nested at most 64 deep. */
bool rt_json_skip(struct rt_json *j);

/* Fails unless only the bytes of `allowed` are left. */
bool rt_json_end(struct rt_json *j, const char *allowed);

#endif

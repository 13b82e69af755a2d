/*
 * Private to gram_pattern.c and gram_chars.c: a pattern while it is read.
 */
#ifndef RT_GRAM_PATTERN_H
#define RT_GRAM_PATTERN_H

#include "runtime/grammar/gram.h"

struct pattern_reader {
	struct gram_pattern *p;
	const char *s;		/* of the pattern */
	size_t n, at;		/* up to n */
	bool apart;		/* alternatives stand in groups alone */
	int places, depth, steps;
	const char *why;	/* what is wrong with it, or NULL */
	size_t wrong_at;	/* the byte that is */
};

/* What is wrong at a byte, if nothing was before; false. */
static inline bool
gram_pattern_fail(struct pattern_reader *x, size_t at, const char *why)
{
	if (!x->why) {
		x->why = why;
		x->wrong_at = at;
	}
	return false;
}

/* The next byte; -1: the end. */
static inline int
gram_pattern_peek(const struct pattern_reader *x)
{
	return x->at < x->n ? (unsigned char)x->s[x->at] : -1;
}

/* ---- gram_chars.c ---- */

enum { GRAM_SET_RANGES = 32 };

/* Characters: of ASCII, and ranges beyond, which may overlap. */
struct char_set {
	bool ascii[128];
	struct gram_range beyond[GRAM_SET_RANGES + 1];
	int n;
};

/* Reads a character as it stands, by itself or after a backslash, or several by
 * an escape, which are added. */
bool gram_chars_one(struct pattern_reader *x, struct char_set *set);
/* The same of what follows an opening square bracket, which is at a byte. */
bool gram_chars_class(struct pattern_reader *x, size_t open,
		      struct char_set *set);
/* Adds any character. */
void gram_chars_any(struct char_set *set);
/* Whether JSON writes a character of ASCII without an escape. */
bool gram_chars_is_plain(int c);

#endif

/*
 * Characters of patterns: single ones, classes and their negations, and
 * escapes, of all of Unicode.
 */
#include "runtime/grammar/gram_pattern.h"

#include <stdlib.h>
#include <string.h>

#define LAST_CHAR 0x10ffff

bool
gram_chars_is_plain(int c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static bool
is_in_class(char class, int c)
{
	bool digit = c >= '0' && c <= '9';

	switch (class) {
	case 'd':
		return digit;
	case 'w':
		return digit || c == '_' || (c >= 'a' && c <= 'z') ||
		       (c >= 'A' && c <= 'Z');
	default:
		return c == ' ' || (c >= 9 && c <= 13);
	}
}

/* Adds a range to one that it touches, if there is one. */
static bool
widen(struct char_set *set, uint32_t first, uint32_t last)
{
	int i;

	for (i = 0; i < set->n; i++) {
		struct gram_range *r = &set->beyond[i];

		if (first <= r->last + 1 && last + 1 >= r->first) {
			r->first = first < r->first ? first : r->first;
			r->last = last > r->last ? last : r->last;
			return true;
		}
	}
	return false;
}

/* False: the set is full, at a byte. */
static bool
add_range(struct pattern_reader *x, size_t at, struct char_set *set,
	  uint32_t first, uint32_t last)
{
	uint32_t i;

	for (i = first; i <= last && i < 128; i++) {
		set->ascii[i] = true;
	}
	first = first < 128 ? 128 : first;
	if (last < 128 || widen(set, first, last)) {
		return true;
	}
	if (set->n == GRAM_SET_RANGES) {
		return gram_pattern_fail(x, at, "has a class of more than 32 "
					 "ranges beyond ASCII");
	}
	set->beyond[set->n++] = (struct gram_range){ first, last };
	return true;
}

void
gram_chars_any(struct char_set *set)
{
	memset(set->ascii, true, sizeof set->ascii);
	set->beyond[0] = (struct gram_range){ 128, LAST_CHAR };
	set->n = 1;
}

/* ---- one character ---- */

/* Four digits of \u. */
static bool
read_hex(struct pattern_reader *x, uint32_t *out)
{
	int i, c;

	for (*out = 0, i = 0; i < 4; i++, x->at++) {
		c = gram_pattern_peek(x);
		if (c >= '0' && c <= '9') {
			c -= '0';
		} else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
			c = (c | 0x20) - 'a' + 10;
		} else {
			return gram_pattern_fail(x, x->at, "has a \\u without "
				"four digits");
		}
		*out = *out * 16 + (uint32_t)c;
	}
	return true;
}

/* After \u: a character, or the first half of one that two make. */
static bool
read_unicode(struct pattern_reader *x, size_t at, uint32_t *out)
{
	uint32_t low;

	if (!read_hex(x, out)) {
		return false;
	}
	if (*out < 0xd800 || *out > 0xdfff) {
		return true;
	}
	if (*out < 0xdc00 && x->at + 1 < x->n && x->s[x->at] == '\\' &&
	    x->s[x->at + 1] == 'u') {
		x->at += 2;
		if (!read_hex(x, &low)) {
			return false;
		}
		*out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
		if (low >= 0xdc00 && low <= 0xdfff) {
			return true;
		}
	}
	return gram_pattern_fail(x, at, "has half of a character by \\u");
}

/* What follows a backslash: *single is a character, or -1, and those that it
 * stands for are added. */
static bool
read_escape(struct pattern_reader *x, struct char_set *set, int64_t *single)
{
	size_t at = x->at - 1;
	int c = gram_pattern_peek(x), i;
	bool not = c == 'D' || c == 'W' || c == 'S';
	char class = (char)(not ? c - 'A' + 'a' : c);
	uint32_t code = (uint32_t)c;

	*single = -1;
	x->at++;
	if (class == 'd' || class == 'w' || class == 's') {
		for (i = 0; i < 128; i++) {
			set->ascii[i] = set->ascii[i] ||
					is_in_class(class, i) != not;
		}
		return !not || add_range(x, at, set, 128, LAST_CHAR);
	}
	if (c == 'u') {
		if (!read_unicode(x, at, &code)) {
			return false;
		}
	} else if (c < 0x20 || c > 0x7e || is_in_class('w', c)) {
		return gram_pattern_fail(x, at, "has an escape that is not "
					 "known here");
	}
	*single = code;
	return true;
}

/* One character, which is not added, or several by an escape: *single is -1
 * then. */
static bool
read_one(struct pattern_reader *x, struct char_set *set, int64_t *single)
{
	const unsigned char *s = (const unsigned char *)x->s + x->at;
	size_t at = x->at, n = rt_utf8_len(s, x->n - x->at), i;
	uint32_t code;

	if (n == 0) {
		return gram_pattern_fail(x, at, "is no UTF-8");
	}
	x->at += n;
	if (*s == '\\') {
		return read_escape(x, set, single);
	}
	code = n == 1 ? *s : *s & 0xffu >> (n + 1);
	for (i = 1; i < n; i++) {
		code = code << 6 | (s[i] & 0x3f);
	}
	*single = code;
	return true;
}

bool
gram_chars_one(struct pattern_reader *x, struct char_set *set)
{
	size_t at = x->at;
	int64_t c;

	return read_one(x, set, &c) &&
	       (c < 0 || add_range(x, at, set, (uint32_t)c, (uint32_t)c));
}

/* ---- classes ---- */

static int
by_first(const void *a, const void *b)
{
	const struct gram_range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* Whether there are characters from one number to another: halves of pairs are
 * none. */
static bool
has_character(uint32_t first, uint32_t last)
{
	return first <= last && (first < 0xd800 || last > 0xdfff);
}

/* All characters but those of the set. */
static void
negate(struct char_set *set)
{
	struct gram_range was[GRAM_SET_RANGES];
	uint32_t next = 128;
	int n = set->n, i;

	memcpy(was, set->beyond, (size_t)n * sizeof *was);
	qsort(was, (size_t)n, sizeof *was, by_first);
	for (i = 0; i < 128; i++) {
		set->ascii[i] = !set->ascii[i];
	}
	set->n = 0;
	for (i = 0; i < n; i++) {
		if (has_character(next, was[i].first - 1)) {
			set->beyond[set->n++] = (struct gram_range){
				next, was[i].first - 1
			};
		}
		next = was[i].last >= next ? was[i].last + 1 : next;
	}
	if (next <= LAST_CHAR) {
		set->beyond[set->n++] = (struct gram_range){ next, LAST_CHAR };
	}
}

/* A character of a class, a range of them, or several by an escape. */
static bool
read_member(struct pattern_reader *x, struct char_set *set)
{
	int64_t first, last;
	size_t at = x->at;

	if (!read_one(x, set, &first)) {
		return false;
	}
	if (gram_pattern_peek(x) != '-' || x->at + 1 >= x->n ||
	    x->s[x->at + 1] == ']') {
		return first < 0 || add_range(x, at, set, (uint32_t)first,
					      (uint32_t)first);
	}
	x->at++;
	if (!read_one(x, set, &last)) {
		return false;
	}
	if (first < 0 || last < first) {
		return gram_pattern_fail(x, at, "has a range that is none");
	}
	return add_range(x, at, set, (uint32_t)first, (uint32_t)last);
}

bool
gram_chars_class(struct pattern_reader *x, size_t open, struct char_set *set)
{
	bool not = gram_pattern_peek(x) == '^';

	x->at += not;
	if (gram_pattern_peek(x) == ']') {
		return gram_pattern_fail(x, open, "has an empty class");
	}
	while (gram_pattern_peek(x) != ']') {
		if (gram_pattern_peek(x) < 0) {
			return gram_pattern_fail(x, open, "has a class "
						 "without an end");
		}
		if (!read_member(x, set)) {
			return false;
		}
	}
	x->at++;
	if (not) {
		negate(set);
	}
	return true;
}

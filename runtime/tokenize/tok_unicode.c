/*
 * Characters, their categories, and sets of them.
 */
#include "runtime/tokenize/tok_unicode.h"

#include <stdlib.h>
#include <string.h>

/* ---- bytes ------------------------------------------------------------ */

bool
rt_bytes_reserve(const struct rt_alloc *a, struct rt_bytes *b, size_t n)
{
	size_t want, cap;
	char *more;

	if (n > SIZE_MAX / 4 - b->n) {
		return false;
	}
	want = b->n + n + RT_BYTES_SLACK;
	if (want <= b->cap) {
		return true;
	}
	cap = want + want / 2;
	more = rt_resize(a, b->at, cap, 1);
	if (!more) {
		return false;
	}
	/* what is read of the slack must be something */
	memset(more + b->cap, 0, cap - b->cap);
	b->at = more;
	b->cap = cap;
	return true;
}

bool
rt_bytes_add(const struct rt_alloc *a, struct rt_bytes *b, const char *s,
	     size_t n)
{
	if (!rt_bytes_reserve(a, b, n)) {
		return false;
	}
	if (n > 0) {
		memcpy(b->at + b->n, s, n);
	}
	b->n += n;
	return true;
}

/* ---- UTF-8 ------------------------------------------------------------ */

uint32_t
rt_utf8_get(const char *s, size_t *len)
{
	const unsigned char *u = (const unsigned char *)s;

	if (u[0] < 0x80) {
		*len = 1;
		return u[0];
	}
	if (u[0] < 0xe0) {
		*len = 2;
		return (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3f);
	}
	if (u[0] < 0xf0) {
		*len = 3;
		return (uint32_t)(u[0] & 0x0f) << 12 |
		       (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
	}
	*len = 4;
	return (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 |
	       (uint32_t)(u[2] & 0x3f) << 6 | (u[3] & 0x3f);
}

size_t
rt_utf8_put(uint32_t c, char *s)
{
	if (c < 0x80) {
		s[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		s[0] = (char)(0xc0 | c >> 6);
		s[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		s[0] = (char)(0xe0 | c >> 12);
		s[1] = (char)(0x80 | (c >> 6 & 0x3f));
		s[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	s[0] = (char)(0xf0 | c >> 18);
	s[1] = (char)(0x80 | (c >> 12 & 0x3f));
	s[2] = (char)(0x80 | (c >> 6 & 0x3f));
	s[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

size_t
rt_utf8_before(const char *s, size_t n)
{
	size_t len = 1;

	while (len < n && len < 4 && ((unsigned char)s[n - len] & 0xc0) ==
	       0x80) {
		len++;
	}
	return len;
}

size_t
rt_utf8_check(const char *s, size_t n)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t at = 0, len;
	uint64_t eight;

	while (at < n) {
		while (n - at >= 8) {
			memcpy(&eight, s + at, 8);
			if (eight & UINT64_C(0x8080808080808080)) {
				break;
			}
			at += 8;
		}
		while (at < n && u[at] < 0x80) {
			at++;
		}
		while (at < n && u[at] >= 0x80) {
			len = rt_utf8_len(u + at, n - at);
			if (len == 0) {
				return at;
			}
			at += len;
		}
	}
	return n;
}

/* ---- categories ------------------------------------------------------- */

enum { LETTERS = 0x1f, MARKS = 0xe0, DECIMAL = 1 << 8, LETTER_NUMBER = 1 << 9,
	CONNECTOR = 1 << 11 };

static const uint32_t spaces[][2] = {
	{ 0x9, 0xe }, { 0x20, 0x21 }, { 0x85, 0x86 }, { 0xa0, 0xa1 },
	{ 0x1680, 0x1681 }, { 0x2000, 0x200b }, { 0x2028, 0x202a },
	{ 0x202f, 0x2030 }, { 0x205f, 0x2060 }, { 0x3000, 0x3001 },
};

/* Of words without a category that says so: joiners, letters in circles. */
static const uint32_t words[][2] = {
	{ 0x200c, 0x200e }, { 0x24b6, 0x24ea }, { 0x1f130, 0x1f14a },
	{ 0x1f150, 0x1f16a }, { 0x1f170, 0x1f18a },
};

static bool
is_in(const uint32_t (*at)[2], size_t n, uint32_t c)
{
	size_t i;

	for (i = 0; i < n && c >= at[i][0]; i++) {
		if (c < at[i][1]) {
			return true;
		}
	}
	return false;
}

bool
rt_unicode_is_space(uint32_t c)
{
	return is_in(spaces, sizeof spaces / sizeof *spaces, c);
}

int
rt_unicode_category(uint32_t c)
{
	size_t lo = 0, hi = rt_unicode_ncategories, mid;

	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (rt_unicode_categories[mid] >> 5 <= c) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return (int)(rt_unicode_categories[lo] & 31);
}

bool
rt_unicode_is_word(uint32_t c)
{
	uint32_t bit = UINT32_C(1) << rt_unicode_category(c);

	return (bit & (LETTERS | MARKS | DECIMAL | LETTER_NUMBER | CONNECTOR))
	       || is_in(words, sizeof words / sizeof *words, c);
}

uint32_t
rt_unicode_mask(const char *name, size_t n)
{
	const char *all = RT_UNICODE_CATEGORIES;
	uint32_t mask = 0;
	size_t i;

	for (i = 0; all[2 * i] && (n == 1 || n == 2); i++) {
		if (all[2 * i] == name[0] &&
		    (n == 1 || all[2 * i + 1] == name[1])) {
			mask |= UINT32_C(1) << i;
		}
	}
	return mask;
}

/* ---- sets ------------------------------------------------------------- */

bool
rt_charset_range(const struct rt_alloc *a, struct rt_charset *s,
		 uint32_t from, uint32_t to)
{
	uint32_t (*more)[2];

	if (from >= to) {
		return true;
	}
	if (s->n == s->cap) {
		more = rt_resize(a, s->at, s->cap ? 2 * s->cap : 16,
				 sizeof *s->at);
		if (!more) {
			return false;
		}
		s->cap = s->cap ? 2 * s->cap : 16;
		s->at = more;
	}
	s->at[s->n][0] = from;
	s->at[s->n++][1] = to;
	return true;
}

bool
rt_charset_categories(const struct rt_alloc *a, struct rt_charset *s,
		      uint32_t mask)
{
	size_t n = rt_unicode_ncategories, i;
	bool ok = true;

	for (i = 0; i < n && ok; i++) {
		uint32_t row = rt_unicode_categories[i];
		uint32_t end = i + 1 < n ? rt_unicode_categories[i + 1] >> 5
					 : RT_UNICODE_END;

		if (mask >> (row & 31) & 1) {
			ok = rt_charset_range(a, s, row >> 5, end);
		}
	}
	return ok;
}

bool
rt_charset_spaces(const struct rt_alloc *a, struct rt_charset *s)
{
	size_t i;
	bool ok = true;

	for (i = 0; i < sizeof spaces / sizeof *spaces && ok; i++) {
		ok = rt_charset_range(a, s, spaces[i][0], spaces[i][1]);
	}
	return ok;
}

static int
compare_ranges(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return x[0] < y[0] ? -1 : x[0] > y[0];
}

void
rt_charset_settle(struct rt_charset *s)
{
	size_t i, n = 0;

	if (s->n == 0) {
		return;
	}
	qsort(s->at, s->n, sizeof *s->at, compare_ranges);
	for (i = 1; i < s->n; i++) {
		if (s->at[i][0] > s->at[n][1]) {
			n++;
			s->at[n][0] = s->at[i][0];
			s->at[n][1] = s->at[i][1];
		} else if (s->at[i][1] > s->at[n][1]) {
			s->at[n][1] = s->at[i][1];
		}
	}
	s->n = n + 1;
}

bool
rt_charset_invert(const struct rt_alloc *a, struct rt_charset *s)
{
	struct rt_charset old;
	uint32_t from = 0;
	bool ok = true;
	size_t i;

	rt_charset_settle(s);
	old = *s;
	memset(s, 0, sizeof *s);
	for (i = 0; i < old.n && ok; i++) {
		ok = rt_charset_range(a, s, from, old.at[i][0]);
		from = old.at[i][1];
	}
	ok = ok && rt_charset_range(a, s, from, RT_UNICODE_END);
	rt_release(a, old.at);
	return ok;
}

bool
rt_charset_has(const struct rt_charset *s, uint32_t c)
{
	size_t i;

	for (i = 0; i < s->n && s->at[i][0] <= c; i++) {
		if (c < s->at[i][1]) {
			return true;
		}
	}
	return false;
}

/*
 * See mutate.h.  Text is cut into words, numbers, strings and single bytes; a
 * change replaces one of these or some lines.  Of bytes that are no text,
 * little-endian numbers become the ends of their ranges.
 */
#include "tests/fuzz/mutate.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct text {
	uint8_t *at;
	size_t n, most;
	uint64_t seed;
};

/* Below n, which is not 0 (splitmix64). */
static size_t
draw(struct text *t, size_t n)
{
	uint64_t x = t->seed += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (size_t)((x ^ x >> 31) % n);
}

/*
 * Puts `with` in the place of `length` bytes, so often in a row; less often
 * if there is no place for as many.
 */
static void
put(struct text *t, size_t at, size_t length, const void *with, size_t n,
    size_t times)
{
	size_t rest = t->n - at - length, place = t->most - (t->n - length), i;
	uint8_t *copy;

	times = n == 0 ? 0 : times < place / n ? times : place / n;
	copy = malloc(n + 1);
	if (!copy) {
		abort();
	}
	if (n > 0) {	/* it may lie in what is moved */
		memcpy(copy, with, n);
	}
	memmove(t->at + at + n * times, t->at + at + length, rest);
	for (i = 0; i < times; i++) {
		memcpy(t->at + at + i * n, copy, n);
	}
	t->n = at + n * times + rest;
	free(copy);
}

/* ---- words --------------------------------------------------------- */

static bool
is_name(uint8_t c)
{
	return isalnum(c) || c == '_';
}

/* The word, number, string or byte that stands at `at`. */
static size_t
length_at(const struct text *t, size_t at)
{
	const uint8_t *p = t->at;
	size_t end = at + 1;

	if (isdigit(p[at])) {
		while (end < t->n && (is_name(p[end]) || p[end] == '.')) {
			end++;
		}
	} else if (is_name(p[at])) {
		while (end < t->n && is_name(p[end])) {
			end++;
		}
	} else if (p[at] == '"') {
		while (end < t->n && p[end] != '"' && p[end] != '\n') {
			end++;
		}
		end += end < t->n;
	}
	return end - at;
}

/* Where a word of that kind begins, from a drawn place on; n: nowhere. */
static size_t
find(struct text *t, int (*is)(int))
{
	size_t from = draw(t, t->n), i;

	for (i = 0; i < t->n; i++) {
		size_t at = (from + i) % t->n;

		if (is(t->at[at]) && (at == 0 || !is_name(t->at[at - 1]))) {
			return at;
		}
	}
	return t->n;
}

/* ---- changes ------------------------------------------------------- */

static void
change_number(struct text *t)
{
	static const char *const ends[] = {
		"0", "-1", "1", "2", "3", "7", "100", "1024", "10007",
		"1000000", "1048576", "16777216", "1000000000", "2147483647",
		"2147483648", "4294967296", "281474976710656",
		"9223372036854775807", "9223372036854775808",
		"18446744073709551616", "1e30", "1e308", "1e309", "1e-300",
		"nan", "inf", "0.5", "-0.0", "0x10",
	};
	const char *with = ends[draw(t, sizeof ends / sizeof *ends)];
	size_t at = find(t, isdigit);

	if (at == t->n) {
		return;
	}
	if (draw(t, 16) == 0) {	/* or a huge decimal */
		put(t, at, length_at(t, at), "7", 1, 1 + draw(t, 5000));
	} else if (draw(t, 4) == 0) {	/* or some thousand times as much */
		put(t, at + length_at(t, at), 0, "0", 1, 1 + draw(t, 6));
	} else {
		put(t, at, length_at(t, at), with, strlen(with), 1);
	}
}

/*
 * Several that follow become as large, each of which is legal where what they
 * make together is not: products of dims, sums of sizes.
 */
static void
change_dims(struct text *t)
{
	static const char *const sizes[] = {
		"1048576", "16777216", "1073741824", "2147483647",
		"4294967296", "1000000007",
	};
	const char *with = sizes[draw(t, sizeof sizes / sizeof *sizes)];
	size_t at = find(t, isdigit), left = 2 + draw(t, 4);

	while (left > 0 && at < t->n) {
		if (isdigit(t->at[at]) &&
		    (at == 0 || !is_name(t->at[at - 1]))) {
			put(t, at, length_at(t, at), with, strlen(with), 1);
			left--;
		}
		at += length_at(t, at);
	}
}

static size_t
line_begin(const struct text *t, size_t at)
{
	while (at > 0 && t->at[at - 1] != '\n') {
		at--;
	}
	return at;
}

static size_t
line_end(const struct text *t, size_t at)
{
	while (at < t->n && t->at[at] != '\n') {
		at++;
	}
	return at + (at < t->n);
}

/* How often something is repeated: rarely by the thousand. */
static size_t
many(struct text *t)
{
	static const size_t times[] = { 2, 3, 8, 9, 65, 200, 1000, 10000 };

	return times[draw(t, sizeof times / sizeof *times)];
}

static void
repeat_lines(struct text *t)
{
	size_t from = line_begin(t, draw(t, t->n)), to = from, i;

	for (i = draw(t, 8) + 1; i > 0; i--) {
		to = line_end(t, to);
	}
	put(t, from, to - from, t->at + from, to - from, many(t));
}

static void
drop_or_swap(struct text *t)
{
	size_t a = line_begin(t, draw(t, t->n)), b;

	if (draw(t, 2)) {
		put(t, a, line_end(t, a) - a, "", 0, 0);
		return;
	}
	b = line_begin(t, draw(t, t->n));
	put(t, a, 0, t->at + b, line_end(t, b) - b, 1);
}

static void
nest(struct text *t)
{
	static const char pairs[][3] = { "()", "[]", "{}" };
	const char *pair = pairs[draw(t, 3)];
	size_t at = draw(t, t->n), depth = many(t), length = length_at(t, at);

	if (draw(t, 4)) {
		put(t, at + length, 0, pair + 1, 1, depth);
	}
	put(t, at, 0, pair, 1, depth);
}

static void
long_name(struct text *t)
{
	static const size_t lengths[] = { 2, 64, 255, 256, 4096, 100000 };
	size_t at = find(t, isalpha), length;

	if (at < t->n) {
		length = length_at(t, at);
		put(t, at, length, t->at + at, length,
		    1 + lengths[draw(t, 6)] / length);
	}
}

static void
copy_word(struct text *t)
{
	size_t from = draw(t, t->n), to = draw(t, t->n);

	put(t, to, length_at(t, to), t->at + from, length_at(t, from), 1);
}

static void
drop_word(struct text *t)
{
	size_t at = draw(t, t->n);

	put(t, at, length_at(t, at), "", 0, 0);
}

/* Ever more dims, operands, elements. */
static void
long_list(struct text *t)
{
	size_t at = draw(t, t->n), i;

	for (i = 0; i < t->n && !strchr("[(,=", t->at[at]); i++) {
		at = (at + 1) % t->n;
	}
	put(t, at + 1 < t->n ? at + 1 : t->n, 0, "a, ", 3, many(t));
}

/* ---- bytes --------------------------------------------------------- */

static void
change_bytes(struct text *t)
{
	static const uint64_t ends[] = {
		0, 1, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000,
		0xffffffff, (uint64_t)1 << 40, INT64_MAX, UINT64_MAX,
	};
	uint64_t v = ends[draw(t, sizeof ends / sizeof *ends)];
	size_t bytes = draw(t, 2) ? 8 : 4, at = draw(t, t->n), i;

	if (t->n > bytes && draw(t, 2)) {	/* headers come first */
		at = draw(t, t->n < 64 ? t->n : 64);
	}
	for (i = 0; i < bytes && at + i < t->n; i++) {
		t->at[at + i] = (uint8_t)(v >> 8 * i);
	}
}

/* ------------------------------------------------------------------- */

size_t
fuzz_mutate(uint8_t *data, size_t size, size_t most, uint64_t seed)
{
	static void (*const changes[])(struct text *) = {
		change_number, change_number, change_number, change_dims,
		repeat_lines, repeat_lines, drop_or_swap, nest, long_name,
		copy_word, drop_word, long_list,
	};
	struct text t = { data, size, most, seed };
	bool binary = size > 0 && memchr(data, '\0', size);
	size_t i;

	for (i = 1 + draw(&t, 3); i > 0 && t.n > 0; i--) {
		if (binary && draw(&t, 4)) {
			change_bytes(&t);
		} else {
			changes[draw(&t, sizeof changes /
				     sizeof *changes)](&t);
		}
	}
	return t.n;
}

/*
 * Patterns of strings: regular expressions whose places are at most 64, so that
 * those which a text may be at are the bits of a number (V. Glushkov, "The
 * abstract theory of automata", 1961).
 *
 * A string that follows one has only characters that need no escape, of ASCII.
 */
#include "runtime/grammar/gram.h"

#include <string.h>

enum {
	GROUPS = 32,		/* one in another */
	STEPS = 4096,		/* of its reader, with what counts repeat */
};

/* A part of a pattern: the places that it may begin and end at. */
struct pattern_part {
	uint64_t first, last;
	bool empty;		/* nothing will do, too */
};

struct pattern_reader {
	struct gram_pattern *p;
	const char *s;		/* of the pattern */
	size_t n, at;
	int places, depth, steps;
	const char *why;	/* what is wrong with it, or NULL */
};

static bool
fail(struct pattern_reader *x, const char *why)
{
	x->why = x->why ? x->why : why;
	return false;
}

/* The next byte; -1: the end, which is before the last one, `$'. */
static int
peek(const struct pattern_reader *x)
{
	return x->at + 1 < x->n ? (unsigned char)x->s[x->at] : -1;
}

/* ---- sets of characters ---- */

struct char_set {
	bool has[128];
};

static bool
is_plain(int c)
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

/* What follows a backslash; *single: the character that it is, or -1. */
static bool
read_escape(struct pattern_reader *x, struct char_set *set, int *single)
{
	int c = peek(x), i;
	bool not = c == 'D' || c == 'W' || c == 'S';
	char class = (char)(not ? c - 'A' + 'a' : c);

	*single = -1;
	x->at++;
	if (class == 'd' || class == 'w' || class == 's') {
		for (i = 0; i < 128; i++) {
			set->has[i] = set->has[i] ||
				      is_in_class(class, i) != not;
		}
		return true;
	}
	if (c < 0x20 || c > 0x7e || is_in_class('w', c)) {
		return fail(x, "has an escape that is not known here");
	}
	*single = c;
	set->has[c] = true;
	return true;
}

/* One character of a class, or several by an escape. */
static bool
read_member(struct pattern_reader *x, struct char_set *set, int *single)
{
	int c = peek(x);

	if (c < 0 || c > 0x7e) {
		return fail(x, "has a class without an end, or with more than "
			    "ASCII");
	}
	x->at++;
	if (c == '\\') {
		return read_escape(x, set, single);
	}
	*single = c;
	set->has[c] = true;
	return true;
}

/* What follows an opening square bracket. */
static bool
read_class(struct pattern_reader *x, struct char_set *set)
{
	bool not = peek(x) == '^';
	int from, to, i;

	x->at += not;
	if (peek(x) == ']') {
		return fail(x, "has an empty class");
	}
	while (peek(x) != ']') {
		if (!read_member(x, set, &from)) {
			return false;
		}
		if (peek(x) != '-' || x->at + 1 >= x->n ||
		    x->s[x->at + 1] == ']') {
			continue;
		}
		x->at++;
		if (!read_member(x, set, &to) || from < 0 || to < from) {
			return fail(x, "has a range that is none");
		}
		for (i = from; i <= to; i++) {
			set->has[i] = true;
		}
	}
	x->at++;
	for (i = 0; i < 128 && not; i++) {
		set->has[i] = !set->has[i];
	}
	return true;
}

/* ---- parts ---- */

static bool read_choice(struct pattern_reader *x, struct pattern_part *out);

/* A new place that is passed by one of the characters. */
static bool
add_place(struct pattern_reader *x, const struct char_set *set,
	  struct pattern_part *out)
{
	uint64_t bit;
	bool any = false;
	int i;

	if (x->places == 64) {
		return fail(x, "has more than 64 characters, with what counts "
			    "repeat");
	}
	bit = UINT64_C(1) << x->places++;
	for (i = 0; i < 128; i++) {
		if (set->has[i] && is_plain(i)) {
			x->p->accepts[i] |= bit;
			any = true;
		} else if (set->has[i]) {
			/* by a class, and then beyond ASCII, too */
			x->p->others |= bit;
		}
	}
	*out = (struct pattern_part){ bit, bit, false };
	return any || fail(x, "has a place without a character of ASCII that "
			   "needs no escape in JSON");
}

static bool
read_group(struct pattern_reader *x, struct pattern_part *out)
{
	if (peek(x) == '?') {
		if (x->at + 1 >= x->n || x->s[x->at + 1] != ':') {
			return fail(x, "has a group of a kind that is not "
				    "known here");
		}
		x->at += 2;
	}
	if (++x->depth > GROUPS) {
		return fail(x, "has too many groups in groups");
	}
	if (!read_choice(x, out)) {
		return false;
	}
	x->depth--;
	if (peek(x) != ')') {
		return fail(x, "has a group without an end");
	}
	x->at++;
	return true;
}

static bool
read_atom(struct pattern_reader *x, struct pattern_part *out)
{
	struct char_set set = { { false } };
	int c = peek(x), i, single;

	if (++x->steps > STEPS) {
		return fail(x, "is too long with what its counts repeat");
	}
	x->at++;
	if (c == '(') {
		return read_group(x, out);
	}
	if (c == '[') {
		return read_class(x, &set) && add_place(x, &set, out);
	}
	if (c == '\\') {
		return read_escape(x, &set, &single) &&
		       add_place(x, &set, out);
	}
	if (c < 0x20 || c > 0x7e || strchr("*+?{}])^$", c)) {
		return fail(x, "has a mark where a character is expected, or "
			    "more than ASCII");
	}
	for (i = 0; i < 128; i++) {
		set.has[i] = c == '.' || c == i;
	}
	return add_place(x, &set, out);
}

/* Whatever `last' ends may be followed by what `first' begins. */
static void
lead_on(struct gram_pattern *p, uint64_t last, uint64_t first)
{
	int i;

	for (i = 0; i < 64; i++) {
		if (last >> i & 1) {
			p->follow[i] |= first;
		}
	}
}

/* Appends b to a. */
static void
append(struct gram_pattern *p, struct pattern_part *a,
       const struct pattern_part *b)
{
	lead_on(p, a->last, b->first);
	a->first |= a->empty ? b->first : 0;
	a->last = b->last | (b->empty ? a->last : 0);
	a->empty = a->empty && b->empty;
}

/* A number of at most two digits. */
static bool
read_number(struct pattern_reader *x, int *out)
{
	int c = peek(x), digits = 0;

	for (*out = 0; c >= '0' && c <= '9'; c = peek(x), digits++) {
		*out = *out * 10 + (c - '0');
		x->at++;
		if (digits == 2) {
			break;
		}
	}
	return (digits > 0 && digits < 3 && *out <= 64) ||
	       fail(x, "has a count that is no number up to 64");
}

/* How often an atom may come, of which 1 is said by nothing; most = -1: any
 * number of times. */
static bool
read_count(struct pattern_reader *x, int *least, int *most)
{
	int c = peek(x);

	*least = *most = 1;
	if (c == '*' || c == '+' || c == '?') {
		*least = c == '+';
		*most = c == '?' ? 1 : -1;
		x->at++;
	} else if (c == '{') {
		x->at++;
		if (!read_number(x, least)) {
			return false;
		}
		*most = *least;
		if (peek(x) == ',') {
			x->at++;
			*most = -1;
			if (peek(x) != '}' && !read_number(x, most)) {
				return false;
			}
		}
		if (peek(x) != '}' || (*most >= 0 && *most < *least)) {
			return fail(x, "has a count that is none");
		}
		x->at++;
	} else {
		return true;
	}
	/* which of several ways is preferred does not matter */
	x->at += peek(x) == '?';
	return true;
}

/* An atom as often as is said: each time with places of its own. */
static bool
read_repeated(struct pattern_reader *x, struct pattern_part *out)
{
	struct pattern_part one;
	size_t begin = x->at, end;
	int least, most, times, i;

	if (!read_atom(x, &one) || !read_count(x, &least, &most)) {
		return false;
	}
	end = x->at;
	times = most < 0 ? (least > 0 ? least : 1) : most;
	*out = (struct pattern_part){ 0, 0, true };
	for (i = 0; i < times; i++) {
		if (i > 0) {
			x->at = begin;
			if (!read_atom(x, &one)) {
				return false;
			}
		}
		if (most < 0 && i == times - 1) {
			lead_on(x->p, one.last, one.first);
		}
		one.empty = one.empty || i >= least;
		append(x->p, out, &one);
	}
	x->at = end;
	return true;
}

static bool
read_choice(struct pattern_reader *x, struct pattern_part *out)
{
	struct pattern_part branch = { 0, 0, true }, next;

	*out = (struct pattern_part){ 0, 0, false };
	for (;;) {
		int c = peek(x);

		if (c == '|' || c == ')' || c < 0) {
			out->first |= branch.first;
			out->last |= branch.last;
			out->empty = out->empty || branch.empty;
			branch = (struct pattern_part){ 0, 0, true };
			if (c != '|') {
				return true;
			}
			if (x->depth == 0) {
				return fail(x, "has alternatives outside of "
					    "a group");
			}
			x->at++;
		} else {
			if (!read_repeated(x, &next)) {
				return false;
			}
			append(x->p, &branch, &next);
		}
	}
}

const char *
gram_pattern_read(struct gram_pattern *p, const char *s, size_t n)
{
	struct pattern_reader x = { .p = p, .s = s, .n = n, .at = 1 };
	struct pattern_part all;
	size_t slashes = 0;

	*p = (struct gram_pattern){ 0 };
	while (n >= 2 + slashes && s[n - 2 - slashes] == '\\') {
		slashes++;
	}
	if (n < 2 || s[0] != '^' || s[n - 1] != '$' || slashes % 2) {
		return "is not known here unless it is of whole texts: ^..$";
	}
	if (read_choice(&x, &all) && peek(&x) >= 0) {
		fail(&x, "has a bracket that ends no group");
	}
	p->first = all.first;
	p->last = all.last;
	p->empty = all.empty;
	return x.why;
}

/* Goes on by what leads to some places. */
static bool
go_on(const struct gram_pattern *p, int64_t *places, uint64_t accepts)
{
	uint64_t from = (uint64_t)*places, to = from ? 0 : p->first;
	int i;

	for (i = 0; from; i++, from >>= 1) {
		to |= from & 1 ? p->follow[i] : 0;
	}
	*places = (int64_t)(to & accepts);
	return *places != 0;
}

bool
gram_pattern_next(const struct gram_pattern *p, int64_t *places,
		  unsigned char byte)
{
	return go_on(p, places, byte < 128 ? p->accepts[byte] : 0);
}

bool
gram_pattern_next_other(const struct gram_pattern *p, int64_t *places)
{
	return go_on(p, places, p->others);
}

bool
gram_pattern_may_end(const struct gram_pattern *p, int64_t places)
{
	return places ? ((uint64_t)places & p->last) != 0 : p->empty;
}

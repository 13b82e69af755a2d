/*
 * Patterns of strings: regular expressions whose places are at most 64, so that
 * those which a text may be at are the bits of a number (V. Glushkov, "The
 * abstract theory of automata", 1961).
 *
 * A place is passed by a character, which is one byte of ASCII or several of
 * UTF-8: while its bytes come, those that have come are of a range of
 * characters, and some of this range must pass a place.  A string that follows
 * a pattern has only characters that JSON writes without an escape.
 */
#include "runtime/grammar/gram_pattern.h"

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

/* ---- parts ---- */

static bool read_choice(struct pattern_reader *x, struct pattern_part *out);

/* Characters beyond ASCII pass a place.  False: there are too many ranges. */
static bool
add_range(struct pattern_reader *x, const struct gram_range *r, uint64_t bit)
{
	struct gram_pattern *p = x->p;
	int i;

	for (i = 0; i < p->nbeyond; i++) {
		if (p->beyond[i].first == r->first &&
		    p->beyond[i].last == r->last) {
			p->passes[i] |= bit;
			return true;
		}
	}
	if (i == GRAM_PATTERN_RANGES) {
		return false;
	}
	p->beyond[i] = *r;
	p->passes[i] = bit;
	p->nbeyond++;
	return true;
}

/* A new place that is passed by one of the characters, which are at a byte. */
static bool
add_place(struct pattern_reader *x, size_t at, const struct char_set *set,
	  struct pattern_part *out)
{
	bool any = set->n > 0;
	uint64_t bit;
	int i;

	if (x->places == 64) {
		return gram_pattern_fail(x, at, "has more than 64 characters, "
					 "with what counts repeat");
	}
	bit = UINT64_C(1) << x->places++;
	for (i = 0; i < 128; i++) {
		if (set->ascii[i] && gram_chars_is_plain(i)) {
			x->p->accepts[i] |= bit;
			any = true;
		} else if (set->ascii[i]) {
			x->p->escaped |= bit;
		}
	}
	for (i = 0; i < set->n; i++) {
		if (!add_range(x, &set->beyond[i], bit)) {
			return gram_pattern_fail(x, at, "has more than 64 "
				"ranges of characters beyond ASCII");
		}
	}
	*out = (struct pattern_part){ bit, bit, false };
	return any || gram_pattern_fail(x, at, "has a place without a "
		"character that needs no escape in JSON");
}

/* What follows an opening bracket, which is at a byte. */
static bool
read_group(struct pattern_reader *x, size_t open, struct pattern_part *out)
{
	if (gram_pattern_peek(x) == '?') {
		if (x->at + 1 >= x->n || x->s[x->at + 1] != ':') {
			return gram_pattern_fail(x, open, "has a group of a "
				"kind that is not known here");
		}
		x->at += 2;
	}
	if (++x->depth > GROUPS) {
		return gram_pattern_fail(x, open, "has too many groups in "
					 "groups");
	}
	if (!read_choice(x, out)) {
		return false;
	}
	x->depth--;
	if (gram_pattern_peek(x) != ')') {
		return gram_pattern_fail(x, open, "has a group without an end");
	}
	x->at++;
	return true;
}

/* False: it is too long. */
static bool
take_step(struct pattern_reader *x)
{
	return ++x->steps <= STEPS ||
	       gram_pattern_fail(x, x->at, "is too long with what its counts "
				 "repeat");
}

static bool
read_atom(struct pattern_reader *x, struct pattern_part *out)
{
	struct char_set set = { .n = 0 };
	size_t at = x->at;
	int c = gram_pattern_peek(x);

	if (!take_step(x)) {
		return false;
	}
	if (c == '(') {
		x->at++;
		return read_group(x, at, out);
	}
	if (c < 0x20 || c == 0x7f || strchr("*+?{}])^$", c)) {
		return gram_pattern_fail(x, at, "has a mark where a character "
					 "is expected");
	}
	if (c == '[' || c == '.') {
		x->at++;
	}
	if (c == '.') {
		gram_chars_any(&set);
	} else if (c == '[' ? !gram_chars_class(x, at, &set)
			    : !gram_chars_one(x, &set)) {
		return false;
	}
	return add_place(x, at, &set, out);
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
	int c = gram_pattern_peek(x), digits = 0;

	for (*out = 0; c >= '0' && c <= '9'; digits++) {
		*out = *out * 10 + (c - '0');
		x->at++;
		if (digits == 2) {
			break;
		}
		c = gram_pattern_peek(x);
	}
	return (digits > 0 && digits < 3 && *out <= 64) ||
	       gram_pattern_fail(x, x->at, "has a count that is no number up "
				 "to 64");
}

/* How often an atom may come, of which 1 is said by nothing; most = -1: any
 * number of times. */
static bool
read_count(struct pattern_reader *x, int *least, int *most)
{
	int c = gram_pattern_peek(x);

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
		if (gram_pattern_peek(x) == ',') {
			x->at++;
			*most = -1;
			if (gram_pattern_peek(x) != '}' &&
			    !read_number(x, most)) {
				return false;
			}
		}
		if (gram_pattern_peek(x) != '}' ||
		    (*most >= 0 && *most < *least)) {
			return gram_pattern_fail(x, x->at, "has a count that "
						 "is none");
		}
		x->at++;
	} else {
		return true;
	}
	/* which of several ways is preferred does not matter */
	x->at += gram_pattern_peek(x) == '?';
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
		int c = gram_pattern_peek(x);

		if (c == '|' || c == ')' || c < 0) {
			out->first |= branch.first;
			out->last |= branch.last;
			out->empty = out->empty || branch.empty;
			branch = (struct pattern_part){ 0, 0, true };
			if (c != '|') {
				return true;
			}
			if (x->depth == 0 && x->apart) {
				return gram_pattern_fail(x, x->at, "has "
					"alternatives outside of a group");
			}
			/* one that is empty has no atom */
			if (!take_step(x)) {
				return false;
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

/* Whether the last character is a `$` that no backslash makes one. */
static bool
is_ended(const char *s, size_t n)
{
	size_t slashes = 0;

	while (n >= 2 + slashes && s[n - 2 - slashes] == '\\') {
		slashes++;
	}
	return n > 0 && s[n - 1] == '$' && slashes % 2 == 0;
}

const char *
gram_pattern_read(struct gram_pattern *p, const char *s, size_t n, bool whole,
		  size_t *at)
{
	bool begins = n > 0 && s[0] == '^', ends = is_ended(s, n);
	struct pattern_reader x = { .p = p, .s = s, .n = n - ends,
				    .at = begins, .apart = begins && ends };
	struct pattern_part all;

	*p = (struct gram_pattern){ 0 };
	*at = 0;
	if (whole && !x.apart) {
		return "is not known here unless it is of whole texts: ^..$";
	}
	if (read_choice(&x, &all) && gram_pattern_peek(&x) >= 0) {
		gram_pattern_fail(&x, x.at, "has a bracket that ends no group");
	}
	p->first = all.first;
	p->last = all.last;
	p->empty = all.empty;
	while (x.why && x.wrong_at > 0) {
		*at += ((unsigned char)s[--x.wrong_at] & 0xc0) != 0x80;
	}
	*at += x.why != NULL;
	return x.why;
}

/* ---- texts ---- */

/* Goes on by what leads to some places. */
static bool
go_on(const struct gram_pattern *p, int64_t *places, uint64_t accepts,
      bool ended)
{
	uint64_t from = (uint64_t)*places, to = from ? 0 : p->first;
	int i;

	for (i = 0; from; i++, from >>= 1) {
		to |= from & 1 ? p->follow[i] : 0;
	}
	to &= accepts;
	*places = ended ? (int64_t)to : *places;
	return to != 0;
}

/* Places that some of these characters beyond ASCII pass. */
static uint64_t
passed_by(const struct gram_pattern *p, uint32_t first, uint32_t last)
{
	uint64_t places = 0;
	int i;

	for (i = 0; i < p->nbeyond; i++) {
		if (p->beyond[i].first <= last && p->beyond[i].last >= first) {
			places |= p->passes[i];
		}
	}
	return places;
}

bool
gram_pattern_next(const struct gram_pattern *p, struct gram_way *way,
		  int64_t *places, unsigned char byte)
{
	uint32_t first, last, left = 6 * (uint32_t)way->rest;

	if (byte < 0x80) {
		return go_on(p, places, p->accepts[byte], true);
	}
	way->begun = byte >= 0xc0 ? byte & 0x3fu >> way->rest
				  : way->begun << 6 | (byte & 0x3fu);
	if (way->rest == 0) {
		return go_on(p, places, passed_by(p, way->begun, way->begun),
			     true);
	}
	first = way->begun << left | (way->lo & 0x3fu) << (left - 6);
	last = way->begun << left | (way->hi & 0x3fu) << (left - 6) |
	       ((1u << (left - 6)) - 1);
	return go_on(p, places, passed_by(p, first, last), false);
}

bool
gram_pattern_next_escaped(const struct gram_pattern *p, int64_t *places)
{
	return go_on(p, places, p->escaped, true);
}

bool
gram_pattern_may_end(const struct gram_pattern *p, int64_t places)
{
	return places ? ((uint64_t)places & p->last) != 0 : p->empty;
}

/*
 * Characters of a pattern: read one by one, escapes, and the sets that these
 * and what stands in brackets are.
 */
#include "runtime/tokenize/tok_regex_parse.h"

#include <stdio.h>

bool
rt_regex_refuse(struct re_parser *r, size_t at, const char *what)
{
	r->e->status = RT_FORMAT;
	r->e->at = at;
	snprintf(r->e->message, sizeof r->e->message, "%s", what);
	return false;
}

bool
rt_regex_no_memory(struct re_parser *r)
{
	rt_regex_refuse(r, r->at, "out of memory");
	r->e->status = RT_NOMEM;
	return false;
}

bool
rt_regex_new_set(struct re_parser *r, uint32_t *set)
{
	struct rt_regex_program *p = r->p;
	struct rt_charset *more;

	if (p->nsets == p->sets_cap) {
		more = rt_resize(r->alloc, p->sets, p->sets_cap ?
				 2 * p->sets_cap : 16, sizeof *more);
		if (!more) {
			return rt_regex_no_memory(r);
		}
		p->sets = more;
		p->sets_cap = p->sets_cap ? 2 * p->sets_cap : 16;
	}
	memset(&p->sets[p->nsets], 0, sizeof *p->sets);
	*set = (uint32_t)p->nsets++;
	return true;
}

/* Adds another set, or what is not in it. */
static bool
merge_set(struct re_parser *r, uint32_t to, struct rt_charset *from,
	  bool invert)
{
	bool ok = !invert || rt_charset_invert(r->alloc, from);
	size_t i;

	for (i = 0; i < from->n && ok; i++) {
		ok = rt_charset_range(r->alloc, &r->p->sets[to],
				      from->at[i][0], from->at[i][1]);
	}
	rt_release(r->alloc, from->at);
	return ok || rt_regex_no_memory(r);
}

/* \p{..}, after its p. */
static bool
property(struct re_parser *r, uint32_t set, bool invert, size_t start)
{
	struct rt_charset c = { 0 };
	const char *end;
	uint32_t mask;
	size_t n;

	end = re_peek(r) == '{' ? memchr(r->s + r->at, '}', r->n - r->at)
				: NULL;
	if (!end) {
		return rt_regex_refuse(r, start, "\\p without {..}");
	}
	r->at++;
	if (re_peek(r) == '^') {
		r->at++;
		invert = !invert;
	}
	n = (size_t)(end - r->s) - r->at;
	mask = rt_unicode_mask(r->s + r->at, n);
	if (!mask) {
		return rt_regex_refuse(r, start,
				       "a property that is no general "
				       "category of Unicode, such as L or Lu");
	}
	r->at += n + 1;
	if (!rt_charset_categories(r->alloc, &c, mask)) {
		rt_release(r->alloc, c.at);
		return rt_regex_no_memory(r);
	}
	return merge_set(r, set, &c, invert);
}

static bool
hex(struct re_parser *r, size_t least, size_t most, uint32_t *out)
{
	size_t i;

	*out = 0;
	for (i = 0; i < most; i++) {
		int c = re_peek(r);
		int v = c >= '0' && c <= '9' ? c - '0'
			: c >= 'a' && c <= 'f' ? c - 'a' + 10
			: c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;

		if (v < 0) {
			break;
		}
		*out = *out << 4 | (uint32_t)v;
		r->at++;
	}
	if (i < least || *out >= RT_UNICODE_END) {
		return rt_regex_refuse(r, r->at,
				       "an escape without its hex digits");
	}
	return true;
}

/*
 * What follows a backslash: a character, or a set that is added (*one is
 * false).
 */
bool
rt_regex_escaped(struct re_parser *r, uint32_t set, uint32_t *c, bool *one)
{
	static const char from[] = "nrtfv0ea", to[] = "\n\r\t\f\v\0\033\a";
	size_t start = r->at - 1;
	struct rt_charset s = { 0 };
	int x = re_peek(r);
	const char *hit;
	bool ok;

	*one = true;
	if (x < 0 || x >= 0x80) {
		return rt_regex_refuse(r, start, "a backslash before nothing");
	}
	r->at++;
	hit = memchr(from, x, sizeof from - 1);
	if (hit && x != '0') {
		*c = (unsigned char)to[hit - from];
		return true;
	}
	if (x == 'x' && re_accept(r, "{")) {
		return hex(r, 1, 6, c) && (re_accept(r, "}") ||
			rt_regex_refuse(r, start, "\\x{ without }"));
	}
	if (x == 'x' || x == 'u') {
		return hex(r, x == 'u' ? 4 : 1, x == 'u' ? 4 : 2, c);
	}
	if (!((x >= '0' && x <= '9') || (x >= 'a' && x <= 'z') ||
	      (x >= 'A' && x <= 'Z'))) {
		*c = (uint32_t)x;
		return true;
	}
	*one = false;
	if (x == 'p' || x == 'P') {
		return property(r, set, x == 'P', start);
	}
	if (x == 's' || x == 'S') {
		ok = rt_charset_spaces(r->alloc, &s);
	} else if (x == 'd' || x == 'D') {
		ok = rt_charset_categories(r->alloc, &s,
					   rt_unicode_mask("Nd", 2));
	} else {
		return rt_regex_refuse(
			r, start,
			"an escape other than \\s \\S \\d \\D "
			"\\p{..} \\P{..} \\n \\r \\t \\x \\u and marks");
	}
	if (!ok) {
		rt_release(r->alloc, s.at);
		return rt_regex_no_memory(r);
	}
	return merge_set(r, set, &s, x == 'S' || x == 'D');
}

uint32_t
rt_regex_next_char(struct re_parser *r)
{
	size_t len;
	uint32_t c = rt_utf8_get(r->s + r->at, &len);

	r->at += len;
	return c;
}

/* One character of a set, or a range, or an escape. */
static bool
set_item(struct re_parser *r, uint32_t set)
{
	size_t start = r->at;
	uint32_t from, to;
	bool one = true;

	if (re_accept(r, "\\")) {
		if (!rt_regex_escaped(r, set, &from, &one)) {
			return false;
		}
	} else {
		from = rt_regex_next_char(r);
	}
	if (!one) {
		return true;
	}
	to = from;
	if (r->n - r->at >= 2 && r->s[r->at] == '-' &&
	    r->s[r->at + 1] != ']') {
		r->at++;
		if (re_accept(r, "\\")) {
			if (!rt_regex_escaped(r, set, &to, &one)) {
				return false;
			}
		} else {
			to = rt_regex_next_char(r);
		}
		if (!one || to < from) {
			return rt_regex_refuse(r, start,
					       "a range that ends before it "
					       "begins");
		}
	}
	return rt_charset_range(r->alloc, &r->p->sets[set], from, to + 1) ||
	       rt_regex_no_memory(r);
}

/* [..], after its bracket. */
bool
rt_regex_bracket(struct re_parser *r, uint32_t *set)
{
	size_t start = r->at - 1, first;
	bool invert = re_accept(r, "^");

	if (!rt_regex_new_set(r, set)) {
		return false;
	}
	for (first = r->at; re_peek(r) != ']' || r->at == first;) {
		if (re_peek(r) < 0) {
			return rt_regex_refuse(r, start, "[ without ]");
		}
		if (re_peek(r) == '[' || (r->n - r->at >= 2 &&
				       memcmp(r->s + r->at, "&&", 2) == 0) ||
		    (re_peek(r) == ']' && r->at == first)) {
			return rt_regex_refuse(r, r->at,
					       "a set within a set, or an "
					       "empty one");
		}
		if (!set_item(r, *set)) {
			return false;
		}
	}
	r->at++;
	if (invert && !rt_charset_invert(r->alloc, &r->p->sets[*set])) {
		return rt_regex_no_memory(r);
	}
	if (r->any_case) {
		return rt_regex_refuse(r, start,
				       "a set in a group without case");
	}
	return true;
}

/* Adds to a set what `.' is. */
bool
rt_regex_all_but_line_end(struct re_parser *r, uint32_t set)
{
	return (rt_charset_range(r->alloc, &r->p->sets[set], '\n', '\n' + 1) &&
		rt_charset_invert(r->alloc, &r->p->sets[set])) ||
	       rt_regex_no_memory(r);
}

/*
 * A letter without case is both of its letters and what folds to them: the
 * long s and the sign of kelvin.  Oniguruma also matches some pairs by one
 * character, such as `ss' by a sharp s.
 */
bool
rt_regex_other_cases(struct re_parser *r, uint32_t set, uint32_t c,
		     size_t start)
{
	static const char pairs[] = "ss st ff fi fl ";
	struct rt_charset *s = &r->p->sets[set];
	uint32_t low = c | 0x20;
	char pair[4] = { (char)r->before, (char)low, ' ', 0 };
	bool ok;

	if (c >= 0x80) {
		return rt_regex_refuse(r, start,
				       "a character outside ASCII in a group "
				       "without case");
	}
	if (low < 'a' || low > 'z') {
		r->before = 0;
		return true;
	}
	if (r->before && strstr(pairs, pair)) {
		return rt_regex_refuse(r, start,
				       "two letters without case that one "
				       "character stands for");
	}
	r->before = low;
	ok = rt_charset_range(r->alloc, s, low, low + 1) &&
	     rt_charset_range(r->alloc, s, low - 0x20, low - 0x1f) &&
	     (low != 's' || rt_charset_range(r->alloc, s, 0x17f, 0x180)) &&
	     (low != 'k' || rt_charset_range(r->alloc, s, 0x212a, 0x212b));
	return ok || rt_regex_no_memory(r);
}

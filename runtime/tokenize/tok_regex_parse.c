/*
 * Patterns: text to a tree, and the tree to a program of the kind that a
 * nondeterministic automaton runs (Thompson's).
 */
#include "runtime/tokenize/tok_regex.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 50, MAX_OPS = 4000, FOREVER = -1, MAX_TIMES = 1000 };

enum node_kind { EMPTY, SET, CAT, ALT, REPEAT, AHEAD, NOT_AHEAD };

struct re_node {
	enum node_kind kind;
	uint32_t a, b;		/* operands; a: the set */
	int least, most;	/* of REPEAT */
	bool lazy;
};

struct re_parser {
	struct rt_regex_program *p;
	const struct rt_alloc *alloc;
	const char *s;
	size_t n, at;
	struct rt_regex_error *e;
	struct re_node *nodes;
	size_t nnodes, cap;
	bool any_case;
	uint32_t before;	/* the letter before, of any case; 0: none */
	int depth;
};

static bool alternatives(struct re_parser *r, uint32_t *out);

static bool
refuse(struct re_parser *r, size_t at, const char *what)
{
	r->e->status = RT_FORMAT;
	r->e->at = at;
	snprintf(r->e->message, sizeof r->e->message, "%s", what);
	return false;
}

static bool
out_of_memory(struct re_parser *r)
{
	refuse(r, r->at, "out of memory");
	r->e->status = RT_NOMEM;
	return false;
}

static int
peek(const struct re_parser *r)
{
	return r->at < r->n ? (unsigned char)r->s[r->at] : -1;
}

static bool
accept(struct re_parser *r, const char *text)
{
	size_t n = strlen(text);

	if (r->n - r->at < n || memcmp(r->s + r->at, text, n) != 0) {
		return false;
	}
	r->at += n;
	return true;
}

static bool
add_node(struct re_parser *r, struct re_node node, uint32_t *out)
{
	struct re_node *more;

	if (r->nnodes == r->cap) {
		more = rt_resize(r->alloc, r->nodes, r->cap ? 2 * r->cap : 64,
				 sizeof *more);
		if (!more) {
			return out_of_memory(r);
		}
		r->nodes = more;
		r->cap = r->cap ? 2 * r->cap : 64;
	}
	r->nodes[r->nnodes] = node;
	*out = (uint32_t)r->nnodes++;
	return true;
}

/* ---- sets ------------------------------------------------------------- */

static bool
new_set(struct re_parser *r, uint32_t *set)
{
	struct rt_regex_program *p = r->p;
	struct rt_charset *more;

	if (p->nsets == p->sets_cap) {
		more = rt_resize(r->alloc, p->sets, p->sets_cap ?
				 2 * p->sets_cap : 16, sizeof *more);
		if (!more) {
			return out_of_memory(r);
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
	return ok || out_of_memory(r);
}

/* \p{..}, after its p. */
static bool
property(struct re_parser *r, uint32_t set, bool invert, size_t start)
{
	struct rt_charset c = { 0 };
	const char *end;
	uint32_t mask;
	size_t n;

	end = peek(r) == '{' ? memchr(r->s + r->at, '}', r->n - r->at) : NULL;
	if (!end) {
		return refuse(r, start, "\\p without {..}");
	}
	r->at++;
	if (peek(r) == '^') {
		r->at++;
		invert = !invert;
	}
	n = (size_t)(end - r->s) - r->at;
	mask = rt_unicode_mask(r->s + r->at, n);
	if (!mask) {
		return refuse(r, start, "a property that is no general "
			      "category of Unicode, such as L or Lu");
	}
	r->at += n + 1;
	if (!rt_charset_categories(r->alloc, &c, mask)) {
		rt_release(r->alloc, c.at);
		return out_of_memory(r);
	}
	return merge_set(r, set, &c, invert);
}

static bool
hex(struct re_parser *r, size_t least, size_t most, uint32_t *out)
{
	size_t i;

	*out = 0;
	for (i = 0; i < most; i++) {
		int c = peek(r);
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
		return refuse(r, r->at, "an escape without its hex digits");
	}
	return true;
}

/*
 * What follows a backslash: a character, or a set that is added (*one is
 * false).
 */
static bool
escaped(struct re_parser *r, uint32_t set, uint32_t *c, bool *one)
{
	static const char from[] = "nrtfv0ea", to[] = "\n\r\t\f\v\0\033\a";
	size_t start = r->at - 1;
	struct rt_charset s = { 0 };
	int x = peek(r);
	const char *hit;
	bool ok;

	*one = true;
	if (x < 0 || x >= 0x80) {
		return refuse(r, start, "a backslash before nothing");
	}
	r->at++;
	hit = memchr(from, x, sizeof from - 1);
	if (hit && x != '0') {
		*c = (unsigned char)to[hit - from];
		return true;
	}
	if (x == 'x' && accept(r, "{")) {
		return hex(r, 1, 6, c) && (accept(r, "}") ||
			refuse(r, start, "\\x{ without }"));
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
		return refuse(r, start, "an escape other than \\s \\S \\d \\D "
			      "\\p{..} \\P{..} \\n \\r \\t \\x \\u and marks");
	}
	if (!ok) {
		rt_release(r->alloc, s.at);
		return out_of_memory(r);
	}
	return merge_set(r, set, &s, x == 'S' || x == 'D');
}

static uint32_t
next_char(struct re_parser *r)
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

	if (accept(r, "\\")) {
		if (!escaped(r, set, &from, &one)) {
			return false;
		}
	} else {
		from = next_char(r);
	}
	if (!one) {
		return true;
	}
	to = from;
	if (r->n - r->at >= 2 && r->s[r->at] == '-' &&
	    r->s[r->at + 1] != ']') {
		r->at++;
		if (accept(r, "\\")) {
			if (!escaped(r, set, &to, &one)) {
				return false;
			}
		} else {
			to = next_char(r);
		}
		if (!one || to < from) {
			return refuse(r, start, "a range that ends before it "
				      "begins");
		}
	}
	return rt_charset_range(r->alloc, &r->p->sets[set], from, to + 1) ||
	       out_of_memory(r);
}

/* [..], after its bracket. */
static bool
bracket(struct re_parser *r, uint32_t *out)
{
	size_t start = r->at - 1, first;
	struct re_node node = { .kind = SET };
	bool invert = accept(r, "^");
	uint32_t set;

	if (!new_set(r, &set)) {
		return false;
	}
	for (first = r->at; peek(r) != ']' || r->at == first;) {
		if (peek(r) < 0) {
			return refuse(r, start, "[ without ]");
		}
		if (peek(r) == '[' || (r->n - r->at >= 2 &&
				       memcmp(r->s + r->at, "&&", 2) == 0) ||
		    (peek(r) == ']' && r->at == first)) {
			return refuse(r, r->at, "a set within a set, or an "
				      "empty one");
		}
		if (!set_item(r, set)) {
			return false;
		}
	}
	r->at++;
	if (invert && !rt_charset_invert(r->alloc, &r->p->sets[set])) {
		return out_of_memory(r);
	}
	if (r->any_case) {
		return refuse(r, start, "a set in a group without case");
	}
	node.a = set;
	return add_node(r, node, out);
}

/* Adds to a set what `.' is. */
static bool
all_but_line_end(struct re_parser *r, uint32_t set)
{
	return (rt_charset_range(r->alloc, &r->p->sets[set], '\n', '\n' + 1) &&
		rt_charset_invert(r->alloc, &r->p->sets[set])) ||
	       out_of_memory(r);
}

/*
 * A letter without case is both of its letters and what folds to them: the
 * long s and the sign of kelvin.  Oniguruma also matches some pairs by one
 * character, such as `ss' by a sharp s.
 */
static bool
other_cases(struct re_parser *r, uint32_t set, uint32_t c, size_t start)
{
	static const char pairs[] = "ss st ff fi fl ";
	struct rt_charset *s = &r->p->sets[set];
	uint32_t low = c | 0x20;
	char pair[4] = { (char)r->before, (char)low, ' ', 0 };
	bool ok;

	if (c >= 0x80) {
		return refuse(r, start, "a character outside ASCII in a group "
			      "without case");
	}
	if (low < 'a' || low > 'z') {
		r->before = 0;
		return true;
	}
	if (r->before && strstr(pairs, pair)) {
		return refuse(r, start, "two letters without case that one "
			      "character stands for");
	}
	r->before = low;
	ok = rt_charset_range(r->alloc, s, low, low + 1) &&
	     rt_charset_range(r->alloc, s, low - 0x20, low - 0x1f) &&
	     (low != 's' || rt_charset_range(r->alloc, s, 0x17f, 0x180)) &&
	     (low != 'k' || rt_charset_range(r->alloc, s, 0x212a, 0x212b));
	return ok || out_of_memory(r);
}

/* ---- the tree --------------------------------------------------------- */

/* One character, or an escape, or a dot: a set of its own. */
static bool
single(struct re_parser *r, uint32_t *out)
{
	struct re_node node = { .kind = SET };
	size_t start = r->at;
	bool one = true;
	uint32_t c;

	if (!new_set(r, &node.a)) {
		return false;
	}
	if (accept(r, ".")) {
		return all_but_line_end(r, node.a) && add_node(r, node, out);
	}
	if (accept(r, "\\")) {
		if (!escaped(r, node.a, &c, &one)) {
			return false;
		}
	} else {
		c = next_char(r);
	}
	if (one && !rt_charset_range(r->alloc, &r->p->sets[node.a], c,
				     c + 1)) {
		return out_of_memory(r);
	}
	if (r->any_case && (one ? !other_cases(r, node.a, c, start)
			    : !refuse(r, start, "a set in a group without "
				      "case"))) {
		return false;
	}
	return add_node(r, node, out);
}

/* (?=x) and (?!x), of one character. */
static bool
look(struct re_parser *r, bool wanted, size_t start, uint32_t *out)
{
	struct re_node node = { .kind = wanted ? AHEAD : NOT_AHEAD };
	uint32_t inner;

	if (!alternatives(r, &inner)) {
		return false;
	}
	if (r->nodes[inner].kind != SET) {
		return refuse(r, start, "a look at more than one character");
	}
	node.a = r->nodes[inner].a;
	return (accept(r, ")") || refuse(r, start, "( without )")) &&
	       add_node(r, node, out);
}

/* What follows a parenthesis. */
static bool
group(struct re_parser *r, uint32_t *out)
{
	size_t start = r->at - 1;
	bool before = r->any_case, ok;

	if (++r->depth > MAX_DEPTH) {
		return refuse(r, start, "more than 50 groups in each other");
	}
	if (accept(r, "?=")) {
		ok = look(r, true, start, out);
	} else if (accept(r, "?!")) {
		ok = look(r, false, start, out);
	} else {
		if (accept(r, "?i:")) {
			r->any_case = true;
			r->before = 0;
		} else if (!accept(r, "?:") && peek(r) == '?') {
			return refuse(r, start, "a group other than (..), "
				      "(?:..), (?i:..), (?=..) and (?!..)");
		}
		ok = alternatives(r, out) && (accept(r, ")") ||
			refuse(r, start, "( without )"));
		r->any_case = before;
	}
	r->depth--;
	return ok;
}

/* `$': the end, or a line end, comes next. */
static bool
line_end(struct re_parser *r, uint32_t *out)
{
	struct re_node node = { .kind = NOT_AHEAD };

	return new_set(r, &node.a) && all_but_line_end(r, node.a) &&
	       add_node(r, node, out);
}

static bool
atom(struct re_parser *r, uint32_t *out)
{
	size_t start = r->at;

	if (accept(r, "(")) {
		return group(r, out);
	}
	if (accept(r, "[")) {
		return bracket(r, out);
	}
	if (accept(r, "$")) {
		return line_end(r, out);
	}
	if (strchr("^*+?{", peek(r))) {
		return refuse(r, start, peek(r) == '^' ? "a beginning"
			      : "a repetition of nothing");
	}
	return single(r, out);
}

static bool
number(struct re_parser *r, int *out)
{
	size_t start = r->at;

	*out = 0;
	while (peek(r) >= '0' && peek(r) <= '9' && *out <= MAX_TIMES) {
		*out = *out * 10 + (peek(r) - '0');
		r->at++;
	}
	return (r->at > start && *out <= MAX_TIMES) ||
	       refuse(r, start, "a repetition without a number of at most "
		      "1000");
}

/* {n}, {n,} or {n,m}, after the brace. */
static bool
times(struct re_parser *r, int *least, int *most)
{
	size_t start = r->at - 1;

	if (!number(r, least)) {
		return false;
	}
	*most = *least;
	if (accept(r, ",")) {
		*most = FOREVER;
		if (peek(r) != '}' && !number(r, most)) {
			return false;
		}
	}
	if (!accept(r, "}") || (*most != FOREVER && *most < *least)) {
		return refuse(r, start, "a repetition that is none of {n}, "
			      "{n,} and {n,m}");
	}
	return true;
}

static bool
may_be_empty(const struct re_parser *r, uint32_t i)
{
	const struct re_node *x = &r->nodes[i];

	switch (x->kind) {
	case SET:
		return false;
	case CAT:
		return may_be_empty(r, x->a) && may_be_empty(r, x->b);
	case ALT:
		return may_be_empty(r, x->a) || may_be_empty(r, x->b);
	case REPEAT:
		return x->least == 0 || may_be_empty(r, x->a);
	default:
		return true;
	}
}

static bool
repeated(struct re_parser *r, uint32_t *out)
{
	struct re_node node = { .kind = REPEAT };
	bool braces = false;
	size_t start;

	if (!atom(r, &node.a)) {
		return false;
	}
	start = r->at;
	if (accept(r, "*")) {
		node.most = FOREVER;
	} else if (accept(r, "+")) {
		node.least = 1;
		node.most = FOREVER;
	} else if (accept(r, "?")) {
		node.most = 1;
	} else if (accept(r, "{")) {
		braces = true;
		if (!times(r, &node.least, &node.most)) {
			return false;
		}
	} else {
		*out = node.a;
		return true;
	}
	r->before = 0;
	if (may_be_empty(r, node.a)) {
		return refuse(r, start, "a repetition of what may be empty");
	}
	node.lazy = !braces && accept(r, "?");
	if (peek(r) >= 0 && strchr("*+?{", peek(r))) {
		return refuse(r, r->at, "a repetition of a repetition, or one "
			      "that gives nothing back");
	}
	return add_node(r, node, out);
}

static bool
sequence(struct re_parser *r, uint32_t *out)
{
	struct re_node node = { .kind = CAT };
	bool any = false;
	uint32_t next;

	r->before = 0;
	while (peek(r) >= 0 && peek(r) != '|' && peek(r) != ')') {
		if (!repeated(r, &next)) {
			return false;
		}
		if (any) {
			node.a = *out;
			node.b = next;
			if (!add_node(r, node, out)) {
				return false;
			}
		} else {
			*out = next;
		}
		any = true;
	}
	return any || add_node(r, (struct re_node){ .kind = EMPTY }, out);
}

static bool
alternatives(struct re_parser *r, uint32_t *out)
{
	struct re_node node = { .kind = ALT };

	if (!sequence(r, out)) {
		return false;
	}
	while (accept(r, "|")) {
		node.a = *out;
		if (!sequence(r, &node.b) || !add_node(r, node, out)) {
			return false;
		}
	}
	return true;
}

/* ---- the program ------------------------------------------------------ */

static bool
add_op(struct re_parser *r, enum rt_regex_kind kind, size_t x, size_t y)
{
	struct rt_regex_program *p = r->p;
	struct rt_regex_op *more;

	if (p->n == MAX_OPS) {
		return refuse(r, 0, "a pattern that is too long with its "
			      "repetitions written out");
	}
	if (p->n == p->cap) {
		more = rt_resize(r->alloc, p->ops, p->cap ? 2 * p->cap : 64,
				 sizeof *more);
		if (!more) {
			return out_of_memory(r);
		}
		p->ops = more;
		p->cap = p->cap ? 2 * p->cap : 64;
	}
	p->ops[p->n++] = (struct rt_regex_op){ kind, (uint32_t)x,
					       (uint32_t)y };
	return true;
}

static bool emit(struct re_parser *r, uint32_t i);

/* A fork whose one way is the next op; the other is set later. */
static bool
fork_op(struct re_parser *r)
{
	return add_op(r, RT_RE_SPLIT, r->p->n + 1, 0);
}

static void
join_fork(struct re_parser *r, size_t at, size_t to, bool lazy)
{
	struct rt_regex_op *op = &r->p->ops[at];

	op->y = (uint32_t)to;
	if (lazy) {
		op->y = op->x;
		op->x = (uint32_t)to;
	}
}

static bool
emit_repeat(struct re_parser *r, const struct re_node *x)
{
	size_t forks[MAX_TIMES], n = 0, at;
	int i;

	for (i = 0; i < x->least; i++) {
		if (!emit(r, x->a)) {
			return false;
		}
	}
	if (x->most == FOREVER) {
		at = r->p->n;
		if (!fork_op(r) || !emit(r, x->a) ||
		    !add_op(r, RT_RE_JUMP, at, 0)) {
			return false;
		}
		join_fork(r, at, r->p->n, x->lazy);
		return true;
	}
	for (; i < x->most; i++) {
		forks[n++] = r->p->n;
		if (!fork_op(r) || !emit(r, x->a)) {
			return false;
		}
	}
	while (n > 0) {
		join_fork(r, forks[--n], r->p->n, x->lazy);
	}
	return true;
}

static bool
emit(struct re_parser *r, uint32_t i)
{
	struct re_node x = r->nodes[i];
	size_t at, jump;

	switch (x.kind) {
	case EMPTY:
		return true;
	case SET:
		return add_op(r, RT_RE_SET, x.a, 0);
	case AHEAD:
		return add_op(r, RT_RE_NEXT, x.a, 0);
	case NOT_AHEAD:
		return add_op(r, RT_RE_NOT_NEXT, x.a, 0);
	case CAT:
		return emit(r, x.a) && emit(r, x.b);
	case REPEAT:
		return emit_repeat(r, &x);
	case ALT:
		break;
	}
	at = r->p->n;
	if (!fork_op(r) || !emit(r, x.a)) {
		return false;
	}
	jump = r->p->n;
	if (!add_op(r, RT_RE_JUMP, 0, 0)) {
		return false;
	}
	join_fork(r, at, r->p->n, false);
	if (!emit(r, x.b)) {
		return false;
	}
	r->p->ops[jump].x = (uint32_t)r->p->n;
	return true;
}

bool
rt_regex_parse(struct rt_regex_program *p, const struct rt_alloc *a,
	       const char *pattern, size_t n, struct rt_regex_error *e)
{
	struct re_parser r = { .p = p, .alloc = a, .s = pattern, .n = n,
			       .e = e };
	uint32_t root = 0;
	bool ok;
	size_t i;

	memset(p, 0, sizeof *p);
	if (n > RT_REGEX_MAX_BYTES) {
		return refuse(&r, 0, "a pattern of more than 4096 bytes");
	}
	ok = alternatives(&r, &root);
	if (ok && r.at < r.n) {
		ok = refuse(&r, r.at, ") without (");
	}
	if (ok && may_be_empty(&r, root)) {
		ok = refuse(&r, 0, "a pattern that matches nothing at all");
	}
	ok = ok && emit(&r, root) && add_op(&r, RT_RE_MATCH, 0, 0);
	rt_release(a, r.nodes);
	for (i = 0; i < p->nsets; i++) {
		rt_charset_settle(&p->sets[i]);
	}
	return ok;
}

void
rt_regex_program_release(struct rt_regex_program *p, const struct rt_alloc *a)
{
	size_t i;

	for (i = 0; i < p->nsets; i++) {
		rt_release(a, p->sets[i].at);
	}
	rt_release(a, p->sets);
	rt_release(a, p->ops);
	memset(p, 0, sizeof *p);
}

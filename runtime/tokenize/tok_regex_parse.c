/*
 * Patterns: text to a tree.
 */
#include "runtime/tokenize/tok_regex_parse.h"

enum { MAX_DEPTH = 50 };

static bool alternatives(struct re_parser *r, uint32_t *out);

static bool
add_node(struct re_parser *r, struct re_node node, uint32_t *out)
{
	struct re_node *more;

	if (r->nnodes == r->cap) {
		more = rt_resize(r->alloc, r->nodes, r->cap ? 2 * r->cap : 64,
				 sizeof *more);
		if (!more) {
			return rt_regex_no_memory(r);
		}
		r->nodes = more;
		r->cap = r->cap ? 2 * r->cap : 64;
	}
	r->nodes[r->nnodes] = node;
	*out = (uint32_t)r->nnodes++;
	return true;
}

/* One character, or an escape, or a dot: a set of its own. */
static bool
single(struct re_parser *r, uint32_t *out)
{
	struct re_node node = { .kind = SET };
	size_t start = r->at;
	bool one = true;
	uint32_t c;

	if (!rt_regex_new_set(r, &node.a)) {
		return false;
	}
	if (re_accept(r, ".")) {
		return rt_regex_all_but_line_end(r, node.a) &&
		       add_node(r, node, out);
	}
	if (re_accept(r, "\\")) {
		if (!rt_regex_escaped(r, node.a, &c, &one)) {
			return false;
		}
	} else {
		c = rt_regex_next_char(r);
	}
	if (one && !rt_charset_range(r->alloc, &r->p->sets[node.a], c,
				     c + 1)) {
		return rt_regex_no_memory(r);
	}
	if (r->any_case && (one ? !rt_regex_other_cases(r, node.a, c, start) :
				  !rt_regex_refuse(r, start,
						   "a set in a group without "
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
		return rt_regex_refuse(r, start,
				       "a look at more than one character");
	}
	node.a = r->nodes[inner].a;
	return (re_accept(r, ")") ||
		rt_regex_refuse(r, start, "( without )")) &&
	       add_node(r, node, out);
}

/* What follows a parenthesis. */
static bool
group(struct re_parser *r, uint32_t *out)
{
	size_t start = r->at - 1;
	bool before = r->any_case, ok;

	if (++r->depth > MAX_DEPTH) {
		return rt_regex_refuse(r, start,
				       "more than 50 groups in each other");
	}
	if (re_accept(r, "?=")) {
		ok = look(r, true, start, out);
	} else if (re_accept(r, "?!")) {
		ok = look(r, false, start, out);
	} else {
		if (re_accept(r, "?i:")) {
			r->any_case = true;
			r->before = 0;
		} else if (!re_accept(r, "?:") && re_peek(r) == '?') {
			return rt_regex_refuse(r, start,
				"a group other than (..), (?:..), (?i:..), "
				"(?=..) and (?!..)");
		}
		ok = alternatives(r, out) && (re_accept(r, ")") ||
			rt_regex_refuse(r, start, "( without )"));
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

	return rt_regex_new_set(r, &node.a) &&
	       rt_regex_all_but_line_end(r, node.a) && add_node(r, node, out);
}

/* [..], after its bracket. */
static bool
bracket(struct re_parser *r, uint32_t *out)
{
	struct re_node node = { .kind = SET };

	return rt_regex_bracket(r, &node.a) && add_node(r, node, out);
}

static bool
atom(struct re_parser *r, uint32_t *out)
{
	size_t start = r->at;

	if (re_accept(r, "(")) {
		return group(r, out);
	}
	if (re_accept(r, "[")) {
		return bracket(r, out);
	}
	if (re_accept(r, "$")) {
		return line_end(r, out);
	}
	if (strchr("^*+?{", re_peek(r))) {
		return rt_regex_refuse(r, start, re_peek(r) == '^'
				? "a beginning" : "a repetition of nothing");
	}
	return single(r, out);
}

static bool
number(struct re_parser *r, int *out)
{
	size_t start = r->at;

	*out = 0;
	while (re_peek(r) >= '0' && re_peek(r) <= '9' && *out <= RE_MAX_TIMES) {
		*out = *out * 10 + (re_peek(r) - '0');
		r->at++;
	}
	return (r->at > start && *out <= RE_MAX_TIMES) ||
	       rt_regex_refuse(r, start,
			       "a repetition without a number of at most "
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
	if (re_accept(r, ",")) {
		*most = RE_FOREVER;
		if (re_peek(r) != '}' && !number(r, most)) {
			return false;
		}
	}
	if (!re_accept(r, "}") || (*most != RE_FOREVER && *most < *least)) {
		return rt_regex_refuse(r, start,
				       "a repetition that is none of {n}, "
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
	if (re_accept(r, "*")) {
		node.most = RE_FOREVER;
	} else if (re_accept(r, "+")) {
		node.least = 1;
		node.most = RE_FOREVER;
	} else if (re_accept(r, "?")) {
		node.most = 1;
	} else if (re_accept(r, "{")) {
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
		return rt_regex_refuse(r, start,
				       "a repetition of what may be empty");
	}
	node.lazy = !braces && re_accept(r, "?");
	if (re_peek(r) >= 0 && strchr("*+?{", re_peek(r))) {
		return rt_regex_refuse(r, r->at,
				       "a repetition of a repetition, or one "
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
	while (re_peek(r) >= 0 && re_peek(r) != '|' && re_peek(r) != ')') {
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
	while (re_accept(r, "|")) {
		node.a = *out;
		if (!sequence(r, &node.b) || !add_node(r, node, out)) {
			return false;
		}
	}
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
		return rt_regex_refuse(&r, 0,
				       "a pattern of more than 4096 bytes");
	}
	ok = alternatives(&r, &root);
	if (ok && r.at < r.n) {
		ok = rt_regex_refuse(&r, r.at, ") without (");
	}
	if (ok && may_be_empty(&r, root)) {
		ok = rt_regex_refuse(&r, 0,
				     "a pattern that matches nothing at all");
	}
	ok = ok && rt_regex_emit(&r, root);
	rt_release(a, r.nodes);
	for (i = 0; i < p->nsets; i++) {
		rt_charset_settle(&p->sets[i]);
	}
	return ok;
}

/*
 * Added tokens: found in a text before it is split, the longest at each place.
 */
#include "runtime/tokenize/tok.h"

#include <inttypes.h>
#include <string.h>

/* ---- reading ---------------------------------------------------------- */

static bool
read_member(struct rt_json *j, struct tok_added *x)
{
	static const struct {
		const char *name;
		size_t at;
	} flags[] = {
		{ "single_word", offsetof(struct tok_added, single_word) },
		{ "lstrip", offsetof(struct tok_added, lstrip) },
		{ "rstrip", offsetof(struct tok_added, rstrip) },
		{ "normalized", offsetof(struct tok_added, normalized) },
		{ "special", offsetof(struct tok_added, special) },
	};
	int64_t at = (int64_t)j->at;
	const char *key;
	size_t i;

	if (!rt_json_key(j, &key)) {
		return false;
	}
	if (strcmp(key, "id") == 0) {
		return rt_json_int(j, &x->id);
	}
	if (strcmp(key, "content") == 0) {
		return rt_json_string(j, &x->content);
	}
	for (i = 0; i < sizeof flags / sizeof *flags; i++) {
		if (strcmp(key, flags[i].name) == 0) {
			return rt_json_bool(j, (bool *)x + flags[i].at);
		}
	}
	return rt_json_fail(j, RT_FORMAT, j->text + at, "found the member `%s` "
			    "of an added token, which is not known here",
			    rt_show_name(key).text);
}

static bool
read_token(struct rt_json *j, struct tok_added *x)
{
	size_t i = 0;

	rt_json_peek(j);
	*x = (struct tok_added){ .id = -1, .at = (int64_t)j->at };
	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		if (!read_member(j, x)) {
			return false;
		}
	}
	if (j->status == RT_OK && (x->id < 0 || !x->content)) {
		return rt_json_fail(j, RT_FORMAT, j->text + x->at, "found an "
				    "added token without %s", x->content ?
				    "id" : "content");
	}
	if (j->status == RT_OK && !*x->content) {
		return rt_json_fail(j, RT_FORMAT, j->text + x->at, "found an "
				    "added token without text");
	}
	x->n = x->content ? (uint32_t)strlen(x->content) : 0;
	return j->status == RT_OK;
}

bool
rt_tok_added_read(struct rt_json *j, struct rt_tokenizer *t)
{
	struct tok_added *more;
	size_t i = 0, cap;

	if (rt_json_null(j)) {
		return true;
	}
	if (!rt_json_open(j, '[')) {
		return false;
	}
	while (rt_json_more(j, ']', &i)) {
		if (t->nadded == t->added_cap) {
			cap = t->added_cap ? 2 * t->added_cap : 64;
			more = rt_resize(&t->alloc, t->added, cap,
					 sizeof *more);
			if (!more) {
				return rt_json_fail(j, RT_NOMEM, NULL,
						    "out of memory");
			}
			t->added = more;
			t->added_cap = cap;
		}
		if (!read_token(j, &t->added[t->nadded])) {
			return false;
		}
		t->nadded++;
	}
	return j->status == RT_OK;
}

/* ---- the tree --------------------------------------------------------- */

enum { CONTENT_END = RT_UNICODE_END, WORD_FIRST, NEAR_BITS = 16 };

static uint64_t
near_bit(uint32_t a, uint32_t b)
{
	return ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u >>
	       (64 - NEAR_BITS);
}

static void
note_near(struct tok_matcher *m, uint32_t a, uint32_t b)
{
	uint64_t bit = near_bit(a, b);

	m->near[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool
is_near(const struct tok_matcher *m, uint32_t a, uint32_t b)
{
	uint64_t bit = near_bit(a, b);

	return m->near[bit / 64] >> bit % 64 & 1;
}

/* Which neighbours are within the token, and which characters are at its
 * ends. */
static void
note_neighbours(struct tok_matcher *m, const struct tok_added *x,
		const char *s, size_t n)
{
	uint32_t last = 0, c;
	size_t at, len;

	for (at = 0; at < n; at += len) {
		c = rt_utf8_get(s + at, &len);
		if (at > 0) {
			note_near(m, last, c);
		} else if (x->single_word) {
			note_near(m, WORD_FIRST, c);
		}
		last = c;
	}
	/* after a token a text begins anew, and may get something before it */
	note_near(m, last, CONTENT_END);
	m->lstrip |= x->lstrip;
	m->rstrip |= x->rstrip;
}

static bool
add_child(struct tok_matcher *m, const struct rt_alloc *a, uint32_t parent,
	  unsigned char byte, uint32_t *out)
{
	struct tok_node *more;
	size_t cap;

	if (m->n == m->cap) {
		cap = m->cap ? 2 * m->cap : 256;
		more = rt_resize(a, m->nodes, cap, sizeof *more);
		if (!more) {
			return false;
		}
		m->nodes = more;
		m->cap = cap;
	}
	m->nodes[m->n] = (struct tok_node){ 0, 0, -1, byte };
	if (m->n > 0) {
		m->nodes[m->n].next = m->nodes[parent].child;
		m->nodes[parent].child = (uint32_t)m->n;
	}
	*out = (uint32_t)m->n++;
	return true;
}

static uint32_t
child_of(const struct tok_matcher *m, uint32_t at, unsigned char byte)
{
	for (at = m->nodes[at].child; at && m->nodes[at].byte != byte;
	     at = m->nodes[at].next) {
	}
	return at;
}

bool
rt_tok_matcher_add(struct tok_matcher *m, const struct rt_alloc *a,
		   const struct tok_added *x, int32_t index,
		   const char *content, size_t n)
{
	uint32_t at = 0, child;
	size_t i;

	if (n == 0) {
		return true;
	}
	if (m->n == 0 && !add_child(m, a, 0, 0, &at)) {
		return false;
	}
	m->any = true;
	m->begins[(unsigned char)content[0]] = true;
	for (i = 0; i < n; i++) {
		child = child_of(m, at, (unsigned char)content[i]);
		if (!child && !add_child(m, a, at, (unsigned char)content[i],
					 &child)) {
			return false;
		}
		at = child;
	}
	m->nodes[at].token = index;
	note_neighbours(m, x, content, n);
	return true;
}

/* ---- matching --------------------------------------------------------- */

/* The longest token at a place, or -1. */
static int32_t
longest(const struct tok_matcher *m, const char *s, size_t n, size_t *bytes)
{
	int32_t found = -1;
	uint32_t at = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		at = child_of(m, at, (unsigned char)s[i]);
		if (!at) {
			break;
		}
		if (m->nodes[at].token >= 0) {
			found = m->nodes[at].token;
			*bytes = i + 1;
		}
	}
	return found;
}

static bool
is_alone(const char *s, size_t n, size_t from, size_t to)
{
	size_t len;

	return (from == 0 || !rt_unicode_is_word(rt_utf8_get(s + from -
		rt_utf8_before(s, from), &len))) &&
	       (to == n || !rt_unicode_is_word(rt_utf8_get(s + to, &len)));
}

static void
strip(const struct tok_added *x, const char *s, size_t n, size_t done,
      struct tok_match *out)
{
	size_t len;

	while (x->lstrip && out->from > done) {
		len = rt_utf8_before(s, out->from);
		if (!rt_unicode_is_space(rt_utf8_get(s + out->from - len,
						     &len))) {
			break;
		}
		out->from -= len;
	}
	if (x->lstrip && out->from < done) {
		out->from = done;
	}
	while (x->rstrip && out->to < n &&
	       rt_unicode_is_space(rt_utf8_get(s + out->to, &len))) {
		out->to += len;
	}
}

int32_t
rt_tok_matcher_find(const struct tok_matcher *m, const char *s, size_t n)
{
	size_t bytes = 0;
	int32_t token = m->any ? longest(m, s, n, &bytes) : -1;

	return token >= 0 && bytes == n ? token : -1;
}

bool
rt_tok_next_added(const struct rt_tokenizer *t, const struct tok_matcher *m,
		  const char *s, size_t n, size_t *at, size_t done,
		  struct tok_match *out)
{
	size_t i = *at, bytes = 0;

	while (i < n) {
		const struct tok_added *x;
		int32_t token;

		while (i < n && !m->begins[(unsigned char)s[i]]) {
			i++;
		}
		token = i < n ? longest(m, s + i, n - i, &bytes) : -1;
		if (token < 0) {
			i++;
			continue;
		}
		x = &t->added[token];
		*at = i + bytes;
		if (!x->single_word || is_alone(s, n, i, *at)) {
			*out = (struct tok_match){ i, *at, x };
			strip(x, s, n, done, out);
			return true;
		}
		i = *at;
	}
	*at = n;
	return false;
}

bool
rt_tok_matcher_parts(const struct tok_matcher *m, uint32_t a, uint32_t b)
{
	bool space = rt_unicode_is_space(a);

	if (!m->any) {
		return true;
	}
	/* spaces may be a part of the token before them, or of the next one */
	return !is_near(m, a, b) && !is_near(m, a, CONTENT_END) &&
	       !is_near(m, WORD_FIRST, b) &&
	       !(space && (m->lstrip || m->rstrip));
}

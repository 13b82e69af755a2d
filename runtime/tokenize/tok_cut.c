/*
 * Where a document may be cut so that the ids of its parts are those of the
 * whole.  That is decided by the two characters at the cut alone: they are
 * followed through added tokens, normalizers and pre-tokenizers, each of which
 * may forbid the cut, leave it open, or end a piece there whatever is around.
 * If all leave it open, no merge may join the symbols on both sides.
 */
#include "runtime/tokenize/tok.h"

#include <string.h>

enum verdict { NEVER, OPEN, SURE };

/* A character as it is on its way through the steps. */
struct cut_char {
	char s[4];
	size_t n;
	uint32_t c;
};

static struct cut_char
char_at(const char *s)
{
	struct cut_char x;

	x.c = rt_utf8_get(s, &x.n);
	memcpy(x.s, s, x.n);
	return x;
}

/* Makes it the last or the first character of a text; false: it is empty. */
static bool
become(struct cut_char *x, const char *s, size_t n, bool last)
{
	if (n == 0) {
		return false;
	}
	*x = char_at(last ? s + n - rt_utf8_before(s, n) : s);
	return true;
}

static bool
is_in(const struct tok_part *p, const struct cut_char *x)
{
	size_t at, len;

	if (p->regex) {
		return rt_regex_touches(p->regex, x->c);
	}
	for (at = 0; at < p->pattern_bytes; at += len) {
		if (rt_utf8_get(p->pattern + at, &len) == x->c) {
			return true;
		}
	}
	return false;
}

static bool
is_all(const struct tok_part *p, const struct cut_char *x)
{
	return !p->regex && p->pattern_bytes == x->n &&
	       memcmp(p->pattern, x->s, x->n) == 0;
}

/* ---- normalizers ------------------------------------------------------ */

static bool
replace_side(const struct tok_part *p, struct cut_char *x, bool last)
{
	if (is_all(p, x)) {
		return become(x, p->content, p->content_bytes, last);
	}
	return !is_in(p, x);
}

static enum verdict
normalizer(const struct rt_tokenizer *t, const struct tok_part *p,
	   struct cut_char *a, struct cut_char *b)
{
	bool ok = true;

	if (p->type == TOK_NFC) {
		ok = rt_nfc_starts(t->nfc, a->c) && rt_nfc_starts(t->nfc, b->c);
	} else if (p->type == TOK_REPLACE) {
		ok = replace_side(p, a, true) && replace_side(p, b, false);
	}
	return ok ? OPEN : NEVER;
}

/* ---- pre-tokenizers --------------------------------------------------- */

/* What is cut by the matches of a pattern. */
static enum verdict
splitter(const struct tok_part *p, const struct cut_char *a,
	 const struct cut_char *b)
{
	bool simple = p->how == TOK_ISOLATED || p->how == TOK_REMOVED;

	if (p->regex && !rt_regex_parts(p->regex, a->c, b->c)) {
		return NEVER;
	}
	if (simple && (p->regex ? rt_regex_always(p->regex, a->c) ||
				  rt_regex_always(p->regex, b->c)
				: is_all(p, a) || is_all(p, b))) {
		return SURE;
	}
	if (simple && p->regex) {
		return OPEN;
	}
	return is_in(p, a) || is_in(p, b) ? NEVER : OPEN;
}

static enum verdict
spaces(const struct tok_part *p, struct cut_char *a, struct cut_char *b)
{
	if (a->c == ' ') {
		become(a, p->content, p->content_bytes, true);
	}
	if (b->c == ' ') {
		become(b, p->content, p->content_bytes, false);
	}
	return p->split && memcmp(b->s, p->content, p->content_bytes) == 0 &&
	       b->n == p->content_bytes ? SURE : OPEN;
}

static enum verdict
pretokenizer(const struct tok_part *p, struct cut_char *a, struct cut_char *b)
{
	if (p->type == TOK_METASPACE) {
		return spaces(p, a, b);
	}
	return p->type == TOK_BYTE_LEVEL && !p->use_regex ? OPEN
		: splitter(p, a, b);
}

/* ---- the model -------------------------------------------------------- */

static enum verdict
joined(const struct rt_tokenizer *t, const struct cut_char *a,
       const struct cut_char *b)
{
	const struct tok_model *m = &t->model;
	int32_t left, right;

	if (m->ignore_merges) {
		return NEVER;
	}
	if (t->bytes) {
		left = m->alphabet[(unsigned char)a->s[a->n - 1]];
		right = m->alphabet[(unsigned char)b->s[0]];
	} else {
		left = rt_tok_symbol(m, a->s, a->n, a->c);
		right = rt_tok_symbol(m, b->s, b->n, b->c);
	}
	return left < 0 || right < 0 || rt_tok_joins(m, left, right) ? NEVER
								      : SURE;
}

bool
rt_may_cut(const struct rt_tokenizer *t, const char *text, size_t at)
{
	struct cut_char a = char_at(text + at - rt_utf8_before(text, at));
	struct cut_char b = char_at(text + at);
	enum verdict v = rt_tok_matcher_parts(&t->raw, a.c, b.c) ? OPEN : NEVER;
	size_t i;

	/*
	 * Something is put before each piece of an earlier step: whether the
	 * cut begins one would have to be known when it is encoded.
	 */
	for (i = 1; i < t->pretokenizer.n; i++) {
		if (t->pretokenizer.at[i].always) {
			return false;
		}
	}

	for (i = 0; i < t->normalizer.n && v == OPEN; i++) {
		v = normalizer(t, &t->normalizer.at[i], &a, &b);
	}
	if (v == OPEN && !rt_tok_matcher_parts(&t->normal, a.c, b.c)) {
		v = NEVER;
	}
	for (i = 0; i < t->pretokenizer.n && v == OPEN; i++) {
		v = pretokenizer(&t->pretokenizer.at[i], &a, &b);
	}
	return (v == OPEN ? joined(t, &a, &b) : v) == SURE;
}

/*
 * The bytes of tokens, as trees; see gram.h.
 */
#include "runtime/grammar/gram.h"

#include <stdlib.h>
#include <string.h>

/* Longer ones are left out: no token of a text is so long. */
enum { LONGEST = 256 };

struct spelled {
	const char *bytes;
	size_t n;
	int32_t token;
};

/* ---- trees ---- */

static int
by_spelling(const void *a, const void *b)
{
	const struct spelled *x = a, *y = b;
	size_t n = x->n < y->n ? x->n : y->n;
	int d = memcmp(x->bytes, y->bytes, n);

	d = d ? d : (x->n > y->n) - (x->n < y->n);
	return d ? d : (x->token > y->token) - (x->token < y->token);
}

static size_t
common(const struct spelled *a, const struct spelled *b)
{
	size_t n = a->n < b->n ? a->n : b->n, i = 0;

	while (i < n && a->bytes[i] == b->bytes[i]) {
		i++;
	}
	return i;
}

static bool
allocate(struct gram_trie *t, size_t nodes, size_t tokens)
{
	t->byte = malloc(nodes + 1);
	t->depth = malloc((nodes + 1) * sizeof *t->depth);
	t->end = malloc((nodes + 1) * sizeof *t->end);
	t->first = malloc((nodes + 1) * sizeof *t->first);
	t->token = malloc((tokens + 1) * sizeof *t->token);
	return t->byte && t->depth && t->end && t->first && t->token;
}

static void
release(struct gram_trie *t)
{
	free(t->byte);
	free(t->depth);
	free(t->end);
	free(t->first);
	free(t->token);
}

/* Adds the nodes of one more token; open[d] is the node of depth d that has not
 * come to its end. */
static void
add_spelling(struct gram_trie *t, const struct spelled *s, size_t same,
	     size_t depth, int32_t *open)
{
	size_t d;

	for (d = same; d < depth; d++) {
		t->end[open[d]] = t->n;
	}
	for (d = same; d < s->n; d++) {
		t->byte[t->n] = (unsigned char)s->bytes[d];
		t->depth[t->n] = (uint16_t)d;
		t->first[t->n] = t->ntokens;
		open[d] = t->n++;
	}
	t->token[t->ntokens++] = s->token;
}

/* Of n tokens, which are sorted. */
static bool
build(struct gram_trie *t, const struct spelled *s, size_t n)
{
	int32_t open[LONGEST];
	size_t nodes = 0, i, d, same;

	for (i = 0; i < n; i++) {
		nodes += s[i].n - (i ? common(&s[i - 1], &s[i]) : 0);
	}
	if (nodes >= INT32_MAX || !allocate(t, nodes, n)) {
		return false;
	}
	for (i = 0; i < n; i++) {
		same = i ? common(&s[i - 1], &s[i]) : 0;
		add_spelling(t, &s[i], same, i ? s[i - 1].n : 0, open);
	}
	for (d = 0; n > 0 && d < s[n - 1].n; d++) {
		t->end[open[d]] = t->n;
	}
	t->first[t->n] = t->ntokens;
	return true;
}

/* ---- vocabularies ---- */

/* The characters of a token that has only whole ones without escapes; else
 * 0. */
static uint16_t
count_chars(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	uint16_t count = 0;
	size_t i, len;

	for (i = 0; i < n; i += len) {
		len = rt_utf8_len(p + i, n - i);
		if (len == 0 || p[i] < 0x20 || p[i] == '"' || p[i] == '\\') {
			return 0;
		}
		count++;
	}
	return count;
}

static bool
read_tokens(struct rt_spellings *s,
	    char *(*bytes)(void *user, int64_t token, size_t *n), void *user)
{
	size_t n = (size_t)s->vocab, i;

	s->bytes = calloc(n, sizeof *s->bytes);
	s->lengths = calloc(n, sizeof *s->lengths);
	s->chars = calloc(n, sizeof *s->chars);
	s->plain = calloc(n / 64 + 1, sizeof *s->plain);
	if (!s->bytes || !s->lengths || !s->chars || !s->plain) {
		return false;
	}
	for (i = 0; i < n; i++) {
		s->bytes[i] = bytes(user, (int64_t)i, &s->lengths[i]);
		if (!s->bytes[i] || s->lengths[i] > LONGEST) {
			s->lengths[i] = 0;
			continue;
		}
		s->longest = s->lengths[i] > s->longest ? s->lengths[i]
							: s->longest;
		s->chars[i] = count_chars(s->bytes[i], s->lengths[i]);
		s->most_chars = s->chars[i] > s->most_chars ? s->chars[i]
							    : s->most_chars;
		s->plain[i / 64] |= (uint64_t)(s->chars[i] > 0) << i % 64;
	}
	return true;
}

static bool
build_tries(struct rt_spellings *s)
{
	struct spelled *t = malloc((size_t)s->vocab * sizeof *t + 1);
	size_t n = 0, odd = 0, i;
	bool ok = t;

	for (i = 0; ok && i < (size_t)s->vocab; i++) {
		if (s->lengths[i] > 0) {
			t[n++] = (struct spelled){ s->bytes[i], s->lengths[i],
						   (int32_t)i };
		}
	}
	if (ok) {
		qsort(t, n, sizeof *t, by_spelling);
		ok = build(&s->all, t, n);
	}
	for (i = 0; ok && i < n; i++) {
		if (s->chars[t[i].token] == 0) {
			t[odd++] = t[i];
		}
	}
	ok = ok && build(&s->odd, t, odd);
	free(t);
	return ok;
}

/* Whether a tree has a byte as a token. */
static bool
has_byte(const struct gram_trie *t, int byte)
{
	int32_t i;

	for (i = 0; i < t->n; i = t->end[i]) {
		if (t->byte[i] == byte) {
			return t->first[i + 1] > t->first[i];
		}
	}
	return false;
}

/* Of all that a text may need: ASCII without control characters, and what
 * others are of in UTF-8, which names and constants may have. */
static int
missing_byte(const struct gram_trie *t)
{
	int c;

	for (c = 0x20; c < 0xf5; c++) {
		if (c != 0x7f && c != 0xc0 && c != 0xc1 && !has_byte(t, c)) {
			return c;
		}
	}
	return -1;
}

enum rt_status
rt_spellings_open(struct rt_spellings **out, int64_t vocab,
		  char *(*bytes)(void *user, int64_t token, size_t *n),
		  void *user, struct rt_error *err)
{
	struct rt_spellings *s = calloc(1, sizeof *s);
	enum rt_status status = RT_OK;
	int missing;

	*out = s;
	if (!s) {
		return rt_no_memory(err, NULL);
	}
	s->vocab = vocab;
	if (!read_tokens(s, bytes, user) || !build_tries(s)) {
		status = rt_no_memory(err, NULL);
	} else if ((missing = missing_byte(&s->all)) >= 0) {
		status = rt_fail(err, RT_RANGE, RT_NOWHERE, "the vocabulary "
			"has no token of byte 0x%02x alone, so not each answer "
			"that is begun could be completed", missing);
	}
	if (status != RT_OK) {
		rt_spellings_free(s);
		*out = NULL;
	}
	return status;
}

void
rt_spellings_free(struct rt_spellings *s)
{
	int64_t i;

	if (!s) {
		return;
	}
	for (i = 0; s->bytes && i < s->vocab; i++) {
		free(s->bytes[i]);
	}
	free(s->bytes);
	free(s->lengths);
	free(s->chars);
	free(s->plain);
	release(&s->all);
	release(&s->odd);
	free(s);
}

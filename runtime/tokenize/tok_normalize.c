/*
 * Normalizers, in their order: each from one buffer into the other.
 */
#include "runtime/tokenize/tok.h"

#include <string.h>

enum {
	WORK_FREE = 1 << 20,
	/* Three jamo of 3 bytes are a syllable of 3, and a letter with two
	 * marks one of 2 or 3: no text is more than 3 times as long as what it
	 * is composed to, but for characters that have marks in excess. */
	LONGER = 3,
	MARKS = 64,
};

struct tok_work
rt_tok_work(size_t n)
{
	bool huge = n > (SIZE_MAX - WORK_FREE) / TOK_WORK_PER_BYTE;
	struct tok_work w = { 0, huge ? SIZE_MAX
			      : n * TOK_WORK_PER_BYTE + WORK_FREE };

	return w;
}

enum rt_status
rt_tok_too_much_work(struct rt_error *err)
{
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "a pattern of the tokenizer "
		       "looks at more than %d bytes for each byte of this text",
		       TOK_WORK_PER_BYTE);
}

size_t
rt_tok_search(const struct tok_part *p, const char *s, size_t n, size_t at,
	      size_t *to, struct tok_work *w)
{
	const char *hit;
	size_t len;

	while (at < n && w->done <= w->most) {
		if (p->regex) {
			*to = rt_regex_match(p->regex, s, n, at, &w->done);
			if (*to > at) {
				return at;
			}
			rt_utf8_get(s + at, &len);
			at += len;
			continue;
		}
		hit = memchr(s + at, p->pattern[0], n - at);
		at = hit ? (size_t)(hit - s) : n;
		if (n - at >= p->pattern_bytes &&
		    memcmp(s + at, p->pattern, p->pattern_bytes) == 0) {
			*to = at + p->pattern_bytes;
			return at;
		}
		at += at < n;
	}
	*to = n;
	return n;
}

enum rt_status
rt_tok_replace(const struct tok_part *p, const struct rt_alloc *a,
	       const char *s, size_t n, struct tok_work *w,
	       struct rt_bytes *out)
{
	size_t at = 0, from, to;
	bool ok = true;

	while (at < n && ok) {
		from = rt_tok_search(p, s, n, at, &to, w);
		if (w->done > w->most) {
			return RT_RANGE;
		}
		ok = rt_bytes_add(a, out, s + at, from - at) &&
		     (from == n || rt_bytes_add(a, out, p->content,
						p->content_bytes));
		at = to;
	}
	return ok ? RT_OK : RT_NOMEM;
}

static enum rt_status
normalize_by(const struct rt_tokenizer *t, const struct tok_part *p,
	     const char *s, size_t n, bool starts, struct rt_bytes *out)
{
	const struct rt_alloc *a = &t->alloc;
	struct tok_work w = rt_tok_work(n);

	if (p->type == TOK_NFC) {
		return rt_nfc_add(t->nfc, s, n, out);
	}
	if (p->type == TOK_REPLACE) {
		return rt_tok_replace(p, a, s, n, &w, out);
	}
	return (n == 0 || !starts ||
		rt_bytes_add(a, out, p->content, p->content_bytes)) &&
	       rt_bytes_add(a, out, s, n) ? RT_OK : RT_NOMEM;
}

enum rt_status
rt_tok_normalize(const struct rt_tokenizer *t, struct tok_buffers *b,
		 const char **s, size_t *n, bool starts)
{
	enum rt_status status = RT_OK;
	struct rt_bytes *out;
	size_t i, k = 0;

	for (i = 0; i < t->normalizer.n && status == RT_OK; i++) {
		const struct tok_part *p = &t->normalizer.at[i];

		if (p->type == TOK_NFC && rt_nfc_is_quick(t->nfc, *s, *n)) {
			continue;
		}
		out = &b->at[k];
		out->n = 0;
		status = rt_bytes_reserve(&t->alloc, out, *n + *n / 2)
			? normalize_by(t, p, *s, *n, starts, out) : RT_NOMEM;
		*s = out->at;
		*n = out->n;
		k ^= 1;
	}
	return status;
}

/* The end of the character that begins at a byte. */
static size_t
next_of(const char *s, size_t n, size_t at)
{
	do {
		at++;
	} while (at < n && (s[at] & 0xc0) == 0x80);
	return at;
}

size_t
rt_tokenizer_composed(const struct rt_tokenizer *t, const char *text, size_t n,
		      const char *to, size_t most, bool *part)
{
	struct rt_bytes out = { .at = NULL };
	size_t at = 0, found = 0;

	*part = false;
	if (n > LONGER * most + MARKS) {
		n = LONGER * most + MARKS;
		while ((text[n] & 0xc0) == 0x80) {
			n--;
		}
	}
	while (t->nfc && at < n && found == 0) {
		at = next_of(text, n, at);
		out.n = 0;
		if (rt_nfc_add(t->nfc, text, at, &out) != RT_OK) {
			break;
		}
		if (out.n < most || memcmp(out.at, to, most) != 0) {
			continue;
		}
		*part = true;
		found = out.n == most ? at : 0;
	}
	rt_release(&t->alloc, out.at);
	return found;
}

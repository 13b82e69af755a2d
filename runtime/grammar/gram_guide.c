/*
 * Which tokens may come next; see grammar.h.
 *
 * The tree of tokens is walked through with the ways to read the text, whose
 * levels are those of the tree: what the bytes of one token come to is known to
 * all that begin with them.  Where a way is inside a string, tokens of whole
 * characters are allowed without a look, so the walk has only those with a
 * quote, an escape or a part of a character.  That walk has all ways, as they
 * will be followed: where they become more than GRAM_WAYS, which of them are
 * left out depends on all of them.
 */
#include "runtime/grammar/gram.h"

#include <stdlib.h>
#include <string.h>

struct rt_guide {
	const struct rt_spellings *s;
	/* those of the text so far come first */
	struct gram_ways w;
	size_t n, nframes;
	/* where each level of a walk begins, and its frames end */
	size_t *level, *frames;
};

enum rt_status
rt_guide_open(struct rt_guide **out, const struct rt_grammar *g,
	      const struct rt_spellings *s, struct rt_error *err)
{
	struct rt_guide *x = calloc(1, sizeof *x);

	*out = x;
	if (x) {
		x->s = s;
		x->w.g = g;
		x->level = calloc(s->longest + 2, sizeof *x->level);
		x->frames = calloc(s->longest + 2, sizeof *x->frames);
		gram_begin(&x->w);
		x->n = x->w.n;
		x->nframes = x->w.nframes;
	}
	if (x && x->level && x->frames && !x->w.failed) {
		return RT_OK;
	}
	rt_guide_free(x);
	*out = NULL;
	return rt_no_memory(err, NULL);
}

void
rt_guide_free(struct rt_guide *x)
{
	if (x) {
		gram_ways_release(&x->w);
		free(x->level);
		free(x->frames);
		free(x);
	}
}

/* ---- what is allowed ---- */

/* Tokens of a tree after the ways from .. w.n - 1, which are taken off. */
static void
walk(struct rt_guide *x, const struct gram_trie *t, size_t from,
     uint64_t *bits)
{
	struct gram_ways *w = &x->w;
	int32_t i = 0, k;

	x->level[0] = from;
	x->level[1] = w->n;
	x->frames[0] = w->nframes;
	while (i < t->n && !w->failed) {
		size_t d = t->depth[i];

		w->n = x->level[d + 1];
		w->nframes = x->frames[d];
		if (gram_next(w, x->level[d], x->level[d + 1],
			      t->byte[i]) == 0) {
			i = t->end[i];
			continue;
		}
		x->level[d + 2] = w->n;
		x->frames[d + 1] = w->nframes;
		for (k = t->first[i]; k < t->first[i + 1]; k++) {
			bits[t->token[k] / 64] |= UINT64_C(1)
						  << t->token[k] % 64;
		}
		i++;
	}
	w->n = from;
	w->nframes = x->nframes;
}

/* Tokens of at most so many whole characters. */
static void
allow_plain(const struct rt_spellings *s, int64_t chars_left, uint64_t *bits)
{
	bool any = chars_left < 0 || chars_left >= s->most_chars;
	int64_t w, i;

	for (w = 0; w <= s->vocab / 64; w++) {
		uint64_t left = s->plain[w], word = any ? left : 0;

		for (i = w * 64; !any && left; i++, left >>= 1) {
			word |= (left & (s->chars[i] <= chars_left)) << i % 64;
		}
		bits[w] |= word;
	}
}

/* The larger number of characters, of which -1 is any number. */
static int64_t
larger(int64_t a, int64_t b)
{
	return a < 0 || b < 0 ? -1 : a > b ? a : b;
}

/* Whether a way is inside a string; *chars_left: of the strings. */
static bool
is_in_string(const struct rt_guide *x, int64_t *chars_left)
{
	bool any = false;
	size_t i;
	int64_t r;

	for (i = 0, *chars_left = 0; i < x->n; i++) {
		if (gram_is_open(&x->w, &x->w.at[i], &r)) {
			any = true;
			*chars_left = larger(*chars_left, r);
		}
	}
	return any;
}

/* Copies ways to the end, all or those that are in no string; returns how
 * many. */
static size_t
choose(struct rt_guide *x, bool all)
{
	struct gram_ways *w = &x->w;
	size_t i, n = 0;
	int64_t chars_left;

	for (i = 0; i < x->n; i++) {
		if (all || !gram_is_open(w, &w->at[i], &chars_left)) {
			w->at[w->n++] = w->at[i];
			n++;
		}
	}
	return n;
}

/* Where a way is inside a string, all are in one, or in a literal or a name;
 * whole characters make no way several. */
static void
allow_in_string(struct rt_guide *x, int64_t chars_left, uint64_t *bits)
{
	int64_t i;

	if (choose(x, false) > 0) {
		walk(x, &x->s->all, x->n, bits);
		for (i = 0; i <= x->s->vocab / 64; i++) {
			bits[i] &= x->s->plain[i];
		}
	}
	allow_plain(x->s, chars_left, bits);
	choose(x, true);
	walk(x, &x->s->odd, x->n, bits);
}

enum rt_status
rt_guide_allow(struct rt_guide *x, uint64_t *bits, bool *may_end,
	       struct rt_error *err)
{
	size_t words = (size_t)(x->s->vocab / 64 + 1);
	int64_t chars_left;

	memset(bits, 0, words * sizeof *bits);
	*may_end = gram_may_end(&x->w, 0, x->n);
	if (!gram_reserve(&x->w, x->n)) {
		return rt_no_memory(err, NULL);
	}
	if (is_in_string(x, &chars_left)) {
		allow_in_string(x, chars_left, bits);
	} else {
		choose(x, true);
		walk(x, &x->s->all, x->n, bits);
	}
	return x->w.failed ? rt_no_memory(err, NULL) : RT_OK;
}

/* ---- what has come ---- */

/* Whether nothing may follow.  What could end where it is may also go on: a
 * number, calls with nothing after them, and a text that is no JSON. */
static bool
is_over(struct rt_guide *x)
{
	struct gram_ways *w = &x->w;
	size_t n = 0, i;
	int byte;

	for (i = 0; i < x->n; i++) {
		if (!gram_may_end(w, i, i + 1)) {
			return false;
		}
	}
	for (byte = 0; byte < 256 && n == 0; byte++) {
		n = gram_next(w, 0, x->n, (unsigned char)byte);
	}
	w->n = x->n;
	return n == 0;
}

enum rt_status
rt_guide_take(struct rt_guide *x, int64_t token, bool *over,
	      struct rt_error *err)
{
	struct gram_ways *w = &x->w;
	size_t i, n;

	for (i = 0; i < x->s->lengths[token]; i++) {
		n = gram_next(w, 0, x->n, (unsigned char)x->s->bytes[token][i]);
		memmove(w->at, w->at + x->n, n * sizeof *w->at);
		w->n = x->n = n;
	}
	gram_forget(w);
	x->nframes = w->nframes;
	*over = is_over(x);
	return w->failed ? rt_no_memory(err, NULL) : RT_OK;
}

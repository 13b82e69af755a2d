/*
 * Byte pair encoding of one piece of text.
 *
 * A piece of bytes is a word.  A piece of characters, which may be a whole
 * document, is cut into words wherever no merge joins two neighbours, which
 * changes nothing.  The ids of short words are remembered.
 *
 * Of the pairs in a word the one of the lowest rank is merged first, the left
 * one of two.  Short words look for it from left to right each time; longer
 * ones keep a heap, so that no word takes more than n log n.
 */
#include "runtime/tokenize/tok.h"

#include <string.h>

enum {
	CACHE_BITS = 15,
	CACHED_BYTES = 27, CACHED_IDS = 8,
	SHORT = 48,	/* symbols */
};

#define NO_RANK UINT32_MAX

/* One cache line; bytes = 0: empty. */
struct bpe_cached {
	uint32_t ids[CACHED_IDS];
	uint8_t bytes, n;
	char text[CACHED_BYTES + 3];
};

struct bpe_symbol {
	int32_t id, before, next;	/* id -1: merged away */
};

struct tok_bpe {
	const struct rt_tokenizer *t;
	struct bpe_cached *cache;
	struct bpe_symbol *symbols;
	size_t n, cap;
	uint64_t *heap;		/* rank << 32 | index of the left symbol */
	size_t nheap, heap_cap;
};

struct tok_bpe *
rt_tok_bpe_open(const struct rt_tokenizer *t)
{
	struct tok_bpe *b = rt_resize(&t->alloc, NULL, 1, sizeof *b);

	if (!b) {
		return NULL;
	}
	memset(b, 0, sizeof *b);
	b->t = t;
	b->cache = rt_resize(&t->alloc, NULL, (size_t)1 << CACHE_BITS,
			     sizeof *b->cache);
	if (!b->cache) {
		rt_tok_bpe_free(b);
		return NULL;
	}
	memset(b->cache, 0, sizeof *b->cache << CACHE_BITS);
	return b;
}

void
rt_tok_bpe_free(struct tok_bpe *b)
{
	if (b) {
		const struct rt_alloc *a = &b->t->alloc;

		rt_release(a, b->cache);
		rt_release(a, b->symbols);
		rt_release(a, b->heap);
		rt_release(a, b);
	}
}

/* ---- symbols ---------------------------------------------------------- */

static bool
push(struct tok_bpe *b, int32_t id)
{
	struct bpe_symbol *more;
	size_t cap;

	if (b->n == b->cap) {
		cap = b->cap ? 2 * b->cap : 256;
		more = cap > INT32_MAX ? NULL
			: rt_resize(&b->t->alloc, b->symbols, cap,
				    sizeof *more);
		if (!more) {
			return false;
		}
		b->symbols = more;
		b->cap = cap;
	}
	b->symbols[b->n++].id = id;
	return true;
}

/* ---- short words ------------------------------------------------------ */

static uint32_t
rank_of(const struct tok_model *m, int32_t left, int32_t right, uint32_t *id)
{
	const struct tok_merge *x = rt_tok_merge(m, (uint32_t)left,
						 (uint32_t)right);

	if (!x) {
		return NO_RANK;
	}
	*id = x->id;
	return x->rank;
}

/* Merges n symbols in place; returns how many there are then. */
static size_t
merge_short(const struct tok_model *m, struct bpe_symbol *s, size_t n)
{
	uint32_t ranks[SHORT], ids[SHORT];
	size_t i, best;

	for (i = 0; i + 1 < n; i++) {
		ranks[i] = rank_of(m, s[i].id, s[i + 1].id, &ids[i]);
	}
	while (n > 1) {
		for (best = 0, i = 1; i + 1 < n; i++) {
			best = ranks[i] < ranks[best] ? i : best;
		}
		if (ranks[best] == NO_RANK) {
			break;
		}
		s[best].id = (int32_t)ids[best];
		n--;
		for (i = best + 1; i < n; i++) {
			s[i].id = s[i + 1].id;
			ranks[i - 1] = ranks[i];
			ids[i - 1] = ids[i];
		}
		if (best + 1 < n) {
			ranks[best] = rank_of(m, s[best].id, s[best + 1].id,
					      &ids[best]);
		}
		if (best > 0) {
			ranks[best - 1] = rank_of(m, s[best - 1].id,
						  s[best].id, &ids[best - 1]);
		}
	}
	return n;
}

/* ---- long words ------------------------------------------------------- */

static bool
heap_push(struct tok_bpe *b, uint64_t x)
{
	size_t i = b->nheap, up, cap;
	uint64_t *more;

	if (b->nheap == b->heap_cap) {
		cap = b->heap_cap ? 2 * b->heap_cap : 256;
		more = rt_resize(&b->t->alloc, b->heap, cap, sizeof *more);
		if (!more) {
			return false;
		}
		b->heap = more;
		b->heap_cap = cap;
	}
	b->nheap++;
	for (; i > 0 && b->heap[up = (i - 1) / 2] > x; i = up) {
		b->heap[i] = b->heap[up];
	}
	b->heap[i] = x;
	return true;
}

static uint64_t
heap_pop(struct tok_bpe *b)
{
	uint64_t top = b->heap[0], x = b->heap[--b->nheap];
	size_t i = 0, down;

	while ((down = 2 * i + 1) < b->nheap) {
		if (down + 1 < b->nheap && b->heap[down + 1] < b->heap[down]) {
			down++;
		}
		if (b->heap[down] >= x) {
			break;
		}
		b->heap[i] = b->heap[down];
		i = down;
	}
	b->heap[i] = x;
	return top;
}

static bool
queue(struct tok_bpe *b, struct bpe_symbol *s, int32_t left)
{
	uint32_t id, rank;

	if (left < 0 || s[left].next < 0) {
		return true;
	}
	rank = rank_of(&b->t->model, s[left].id, s[s[left].next].id, &id);
	return rank == NO_RANK || heap_push(b, (uint64_t)rank << 32 |
					    (uint32_t)left);
}

/* As merge_short(), of any number. */
static bool
merge_long(struct tok_bpe *b, struct bpe_symbol *s, size_t *n)
{
	size_t i, kept = 0;
	uint32_t id = 0;

	b->nheap = 0;
	for (i = 0; i < *n; i++) {
		s[i].before = (int32_t)i - 1;
		s[i].next = i + 1 < *n ? (int32_t)i + 1 : -1;
	}
	for (i = 0; i < *n; i++) {
		if (!queue(b, s, (int32_t)i)) {
			return false;
		}
	}
	while (b->nheap > 0) {
		uint64_t top = heap_pop(b);
		int32_t left = (int32_t)(top & UINT32_MAX), right;

		/* an entry whose pair is no more what it was is stale */
		right = s[left].id < 0 ? -1 : s[left].next;
		if (right < 0 || rank_of(&b->t->model, s[left].id,
					 s[right].id, &id) != top >> 32) {
			continue;
		}
		s[left].id = (int32_t)id;
		s[right].id = -1;
		s[left].next = s[right].next;
		if (s[left].next >= 0) {
			s[s[left].next].before = left;
		}
		if (!queue(b, s, left) || !queue(b, s, s[left].before)) {
			return false;
		}
	}
	for (i = 0; i < *n; i++) {
		if (s[i].id >= 0) {
			s[kept++].id = s[i].id;
		}
	}
	*n = kept;
	return true;
}

/* ---- words ------------------------------------------------------------ */

static bool
reserve_ids(struct rt_ids *out, size_t n)
{
	uint32_t *more;
	size_t cap;

	if (out->cap - out->n >= n) {
		return true;
	}
	cap = 2 * (out->n + n) + 64;
	more = rt_resize(&out->alloc, out->at, cap, sizeof *more);
	if (!more) {
		return false;
	}
	out->at = more;
	out->cap = cap;
	return true;
}

void
rt_ids_release(struct rt_ids *ids)
{
	if (ids->at) {
		rt_release(&ids->alloc, ids->at);
	}
	ids->at = NULL;
	ids->n = ids->cap = 0;
}

bool
rt_ids_add(struct rt_ids *ids, uint32_t id)
{
	if (!reserve_ids(ids, 1)) {
		return false;
	}
	ids->at[ids->n++] = id;
	return true;
}

static uint64_t
hash_word(const char *s, size_t n)
{
	uint64_t h = n, x, y;
	uint32_t a, c;

	if (n >= 8) {
		size_t i;

		for (i = 0; i + 8 < n; i += 8) {
			memcpy(&x, s + i, 8);
			h = (h ^ x) * 0x9fb21c651e98df25u;
			h ^= h >> 35;
		}
		memcpy(&x, s + n - 8, 8);
		h = (h ^ x) * 0x9fb21c651e98df25u;
	} else if (n >= 4) {
		memcpy(&a, s, 4);
		memcpy(&c, s + n - 4, 4);
		y = (uint64_t)a << 32 | c;
		h = (h ^ y) * 0x9fb21c651e98df25u;
	} else {
		y = (uint64_t)(unsigned char)s[0] << 16 |
		    (uint64_t)(unsigned char)s[n / 2] << 8 |
		    (unsigned char)s[n - 1];
		h = (h << 24 ^ y) * 0x9fb21c651e98df25u;
	}
	return h >> (64 - CACHE_BITS);
}

static bool
is_same(const char *a, const char *b, size_t n)
{
	uint64_t x, y;

	for (; n >= 8; n -= 8, a += 8, b += 8) {
		memcpy(&x, a, 8);
		memcpy(&y, b, 8);
		if (x != y) {
			return false;
		}
	}
	for (; n > 0; n--, a++, b++) {
		if (*a != *b) {
			return false;
		}
	}
	return true;
}

/* Merges the symbols of a word from b->symbols[from] on, which it drops. */
static bool
add_merged(struct tok_bpe *b, size_t from, struct rt_ids *out)
{
	struct bpe_symbol *s = b->symbols + from;
	size_t n = b->n - from, i;

	if (n > SHORT) {
		if (!merge_long(b, s, &n)) {
			return false;
		}
	} else if (n > 1) {
		n = merge_short(&b->t->model, s, n);
	}
	if (!reserve_ids(out, n)) {
		return false;
	}
	for (i = 0; i < n; i++) {
		out->at[out->n++] = (uint32_t)s[i].id;
	}
	b->n = from;
	return true;
}

/* The slot of a word; NULL: it is too long to be kept. */
static struct bpe_cached *
cached(struct tok_bpe *b, const char *s, size_t n)
{
	return n > CACHED_BYTES || n == 0 ? NULL : &b->cache[hash_word(s, n)];
}

static bool
is_hit(const struct bpe_cached *c, const char *s, size_t n)
{
	return c && c->bytes == n && is_same(c->text, s, n);
}

static bool
add_cached(const struct bpe_cached *c, struct rt_ids *out)
{
	if (!reserve_ids(out, CACHED_IDS)) {
		return false;
	}
	memcpy(out->at + out->n, c->ids, sizeof c->ids);
	out->n += c->n;
	return true;
}

static void
keep(struct bpe_cached *c, const char *s, size_t n, const uint32_t *ids,
     size_t nids)
{
	size_t i;

	if (c && nids <= CACHED_IDS) {
		c->bytes = (uint8_t)n;
		c->n = (uint8_t)nids;
		memcpy(c->text, s, n);
		for (i = 0; i < nids; i++) {
			c->ids[i] = ids[i];
		}
	}
}

/* The symbols of s[0..n) are the last in b; they become ids. */
static bool
add_word(struct tok_bpe *b, const char *s, size_t n, size_t from,
	 struct rt_ids *out)
{
	struct bpe_cached *c = cached(b, s, n);
	size_t before = out->n;

	if (is_hit(c, s, n)) {
		b->n = from;
		return add_cached(c, out);
	}
	if (!add_merged(b, from, out)) {
		return false;
	}
	keep(c, s, n, out->at + before, out->n - before);
	return true;
}

/* ---- pieces ----------------------------------------------------------- */

/* The token that a whole piece is, if merges are to be ignored then. */
static const struct tok_token *
whole_token(const struct tok_bpe *b, const char *s, size_t n)
{
	return b->t->model.ignore_merges
		? rt_tok_find(&b->t->model.words, s, n) : NULL;
}

/* A piece of a ByteLevel pre-tokenizer. */
static enum rt_status
add_bytes(struct tok_bpe *b, const char *s, size_t n, struct rt_ids *out)
{
	const struct tok_model *m = &b->t->model;
	struct bpe_cached *c = cached(b, s, n);
	const struct tok_token *t;
	size_t before = out->n, i;
	int32_t unknown = -1;

	if (is_hit(c, s, n)) {
		return add_cached(c, out) ? RT_OK : RT_NOMEM;
	}
	t = whole_token(b, s, n);
	if (t) {
		keep(c, s, n, &t->id, 1);
		return rt_ids_add(out, t->id) ? RT_OK : RT_NOMEM;
	}
	b->n = 0;
	for (i = 0; i < n; i++) {
		int32_t id = m->alphabet[(unsigned char)s[i]];

		if (id < 0 && (m->unk < 0 || (m->fuse_unk && unknown >= 0))) {
			continue;
		}
		unknown = id < 0 ? 0 : -1;
		if (!push(b, id < 0 ? (int32_t)m->unk : id)) {
			return RT_NOMEM;
		}
	}
	if (b->n == 0) {
		return RT_OK;
	}
	if (!add_merged(b, 0, out)) {
		return RT_NOMEM;
	}
	keep(c, s, n, out->at + before, out->n - before);
	return RT_OK;
}

/*
 * The bytes of a character that is not in the vocabulary, if all of them are.
 * *done is false if not.
 */
static bool
push_fallback(struct tok_bpe *b, const char *s, size_t n, bool *done)
{
	const struct tok_model *m = &b->t->model;
	size_t i;

	*done = m->byte_fallback;
	for (i = 0; i < n && *done; i++) {
		*done = m->byte_id[(unsigned char)s[i]] >= 0;
	}
	for (i = 0; i < n && *done; i++) {
		if (!push(b, m->byte_id[(unsigned char)s[i]])) {
			return false;
		}
	}
	return true;
}

/*
 * A piece of characters.  An unknown character is held until the next known
 * one comes, as in the package, where bytes may go before it.
 */
static enum rt_status
add_chars(struct tok_bpe *b, const char *s, size_t n, struct rt_ids *out)
{
	const struct tok_model *m = &b->t->model;
	const struct tok_token *t = whole_token(b, s, n);
	size_t at, len, word = 0;
	bool held = false, done, ok = true, may_cut = !m->ignore_merges;

	if (t) {
		return rt_ids_add(out, t->id) ? RT_OK : RT_NOMEM;
	}
	b->n = 0;
	for (at = 0; at < n && ok; at += len) {
		uint32_t c = rt_utf8_get(s + at, &len);
		int32_t id = rt_tok_symbol(m, s + at, len, c);

		if (id >= 0) {
			if (held) {
				ok = push(b, (int32_t)m->unk);
				held = false;
			} else if (b->n > 0 && may_cut &&
				   !rt_tok_joins(m, b->symbols[b->n - 1].id,
						 id)) {
				ok = add_word(b, s + word, at - word, 0, out);
				word = at;
			}
			ok = ok && push(b, id);
			continue;
		}
		ok = push_fallback(b, s + at, len, &done);
		if (done || m->unk < 0) {
			continue;
		}
		if (held && !m->fuse_unk) {
			ok = push(b, (int32_t)m->unk);
		}
		held = true;
	}
	if (ok && held) {
		ok = push(b, (int32_t)m->unk);
	}
	if (ok && b->n > 0) {
		ok = add_word(b, s + word, n - word, 0, out);
	}
	return ok ? RT_OK : RT_NOMEM;
}

enum rt_status
rt_tok_bpe_add(struct tok_bpe *b, const char *s, size_t n, struct rt_ids *out)
{
	if (n == 0) {
		return RT_OK;
	}
	return b->t->bytes ? add_bytes(b, s, n, out)
			   : add_chars(b, s, n, out);
}

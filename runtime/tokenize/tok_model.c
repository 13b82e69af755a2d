/*
 * The model: BPE, its vocabulary and its merges.
 */
#include "runtime/tokenize/tok.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { JOIN_BITS = 20, MAX_PASSES = 64, DIRECT = 0x10000 };

#define NO_PAIR UINT64_MAX

/* ---- hashing ---------------------------------------------------------- */

static uint64_t
hash_text(const char *s, size_t n)
{
	uint64_t h = n * 0x9e3779b97f4a7c15u, x;

	for (; n >= 8; n -= 8, s += 8) {
		memcpy(&x, s, 8);
		h = (h ^ x) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	for (x = 0; n > 0; n--, s++) {
		x = x << 8 | (unsigned char)*s;
	}
	h = (h ^ x) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 29;
}

static uint64_t
hash_pair(uint64_t pair)
{
	pair *= 0x9e3779b97f4a7c15u;
	return pair ^ pair >> 31;
}

/* ---- tokens by text --------------------------------------------------- */

static uint32_t *
slot_of(const struct tok_vocab *v, const char *s, size_t n)
{
	size_t mask = ((size_t)1 << v->bits) - 1;
	size_t i = (size_t)hash_text(s, n) & mask;

	while (v->slots[i]) {
		const struct tok_token *x = &v->at[v->slots[i] - 1];

		if (x->n == n && memcmp(x->s, s, n) == 0) {
			break;
		}
		i = (i + 1) & mask;
	}
	return &v->slots[i];
}

const struct tok_token *
rt_tok_find(const struct tok_vocab *v, const char *s, size_t n)
{
	uint32_t x = v->slots ? *slot_of(v, s, n) : 0;

	return x ? &v->at[x - 1] : NULL;
}

static bool
grow(struct tok_vocab *v, const struct rt_alloc *a)
{
	size_t cap = v->cap ? 2 * v->cap : 1024, i;
	struct tok_token *more = rt_resize(a, v->at, cap, sizeof *more);
	uint32_t *slots;
	int bits = 1;

	if (!more) {
		return false;
	}
	v->at = more;
	while ((size_t)1 << bits < 2 * cap) {
		bits++;
	}
	slots = rt_resize(a, NULL, (size_t)1 << bits, sizeof *slots);
	if (!slots) {
		return false;
	}
	memset(slots, 0, sizeof *slots << bits);
	rt_release(a, v->slots);
	v->slots = slots;
	v->bits = bits;
	v->cap = cap;
	for (i = 0; i < v->n; i++) {
		*slot_of(v, v->at[i].s, v->at[i].n) = (uint32_t)i + 1;
	}
	return true;
}

bool
rt_tok_add(struct tok_vocab *v, const struct tok_token *x,
	   const struct rt_alloc *a)
{
	if (v->n == v->cap && !grow(v, a)) {
		return false;
	}
	v->at[v->n] = *x;
	*slot_of(v, x->s, x->n) = (uint32_t)++v->n;
	return true;
}

/* ---- reading ---------------------------------------------------------- */

static bool
out_of_memory(struct rt_json *j)
{
	return rt_json_fail(j, RT_NOMEM, NULL, "out of memory");
}

static bool
read_vocab(struct rt_json *j, struct tok_model *m, const struct rt_alloc *a)
{
	struct tok_token x = { 0 };
	int64_t id;
	size_t i = 0;

	if (m->vocab.n > 0) {
		return rt_json_fail(j, RT_FORMAT, j->text + j->at,
				    "found a second vocab");
	}
	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		rt_json_peek(j);
		x.at = (int64_t)j->at;
		if (!rt_json_key(j, &x.s) || !rt_json_int(j, &id)) {
			return false;
		}
		x.n = (uint32_t)strlen(x.s);
		if (id > INT32_MAX) {
			return rt_json_fail(j, RT_FORMAT, j->text + x.at,
					    "found id %" PRId64 " of token "
					    "`%s`, expected one below 2^31",
					    id, rt_show_name(x.s).text);
		}
		x.id = (uint32_t)id;
		if (rt_tok_find(&m->vocab, x.s, x.n)) {
			return rt_json_fail(j, RT_FORMAT, j->text + x.at,
					    "found token `%s` twice",
					    rt_show_name(x.s).text);
		}
		if (!rt_tok_add(&m->vocab, &x, a)) {
			return out_of_memory(j);
		}
	}
	return j->status == RT_OK;
}

/* "a b", which is cut at its only space, or ["a", "b"]. */
static bool
read_merge(struct rt_json *j, struct tok_merge_text *x)
{
	const char *text, *none;
	size_t i = 0;
	char *space;

	rt_json_peek(j);
	x->at = (int64_t)j->at;
	if (rt_json_peek(j) == '[') {
		if (!rt_json_open(j, '[') || !rt_json_more(j, ']', &i) ||
		    !rt_json_string(j, &x->a) || !rt_json_more(j, ']', &i) ||
		    !rt_json_string(j, &x->b) || rt_json_more(j, ']', &i)) {
			return rt_json_fail(j, RT_FORMAT, j->text + x->at,
					    "found a merge of other than two "
					    "tokens");
		}
		return j->status == RT_OK;
	}
	if (!rt_json_string(j, &text)) {
		return false;
	}
	if (strncmp(text, "#version", 8) == 0) {
		x->a = NULL;
		return true;
	}
	/* strings are the reader's own text, which it has changed already */
	space = j->text + (text - j->text) + strcspn(text, " ");
	none = *space ? strchr(space + 1, ' ') : space;
	if (none) {
		return rt_json_fail(j, RT_FORMAT, j->text + x->at, "found "
				    "merge `%s`, expected two tokens with a "
				    "space between", rt_show_name(text).text);
	}
	*space = '\0';
	x->a = text;
	x->b = space + 1;
	return true;
}

static bool
read_merges(struct rt_json *j, struct tok_model *m, const struct rt_alloc *a)
{
	struct tok_merge_text x, *more;
	size_t i = 0, cap;

	if (m->texts || !rt_json_open(j, '[')) {
		return rt_json_fail(j, RT_FORMAT, j->text + j->at,
				    "found a second list of merges");
	}
	while (rt_json_more(j, ']', &i)) {
		if (!read_merge(j, &x)) {
			return false;
		}
		if (m->ntexts == m->texts_cap) {
			cap = m->texts_cap ? 2 * m->texts_cap : 1024;
			more = rt_resize(a, m->texts, cap, sizeof *more);
			if (!more) {
				return out_of_memory(j);
			}
			m->texts = more;
			m->texts_cap = cap;
		}
		if (x.a) {
			m->texts[m->ntexts++] = x;
		}
	}
	return j->status == RT_OK;
}

/* null, or what leaves words as they are. */
static bool
read_no_text(struct rt_json *j, const char *key)
{
	int64_t at = (int64_t)j->at;
	const char *text;

	if (rt_json_null(j)) {
		return true;
	}
	if (!rt_json_string(j, &text)) {
		return false;
	}
	return !*text || rt_json_fail(j, RT_FORMAT, j->text + at, "found `%s` "
				      "of the model, which is not known here: "
				      "`%s`", key, rt_show_name(text).text);
}

static bool
read_dropout(struct rt_json *j)
{
	int64_t at = (int64_t)j->at;

	if (rt_json_null(j)) {
		return true;
	}
	return rt_json_fail(j, RT_FORMAT, j->text + at, "found dropout of "
			    "merges, which is not known here: ids would not "
			    "be the same twice; it must be null");
}

static bool
read_type(struct rt_json *j)
{
	int64_t at = (int64_t)j->at;
	const char *type;

	if (!rt_json_string(j, &type)) {
		return false;
	}
	return strcmp(type, "BPE") == 0 ||
	       rt_json_fail(j, RT_FORMAT, j->text + at, "found a model of type "
			    "`%s`, expected BPE", rt_show_name(type).text);
}

static bool
read_model_member(struct rt_json *j, struct tok_model *m, const char *key,
		  int64_t at, const struct rt_alloc *a)
{
	if (strcmp(key, "type") == 0) {
		return read_type(j);
	}
	if (strcmp(key, "vocab") == 0) {
		return read_vocab(j, m, a);
	}
	if (strcmp(key, "merges") == 0) {
		return read_merges(j, m, a);
	}
	if (strcmp(key, "dropout") == 0) {
		return read_dropout(j);
	}
	if (strcmp(key, "unk_token") == 0) {
		m->at = at;
		return rt_json_null(j) || rt_json_string(j, &m->unk_token);
	}
	if (strcmp(key, "continuing_subword_prefix") == 0 ||
	    strcmp(key, "end_of_word_suffix") == 0) {
		return read_no_text(j, key);
	}
	if (strcmp(key, "fuse_unk") == 0) {
		return rt_json_bool(j, &m->fuse_unk);
	}
	if (strcmp(key, "byte_fallback") == 0) {
		return rt_json_bool(j, &m->byte_fallback);
	}
	if (strcmp(key, "ignore_merges") == 0) {
		return rt_json_bool(j, &m->ignore_merges);
	}
	return rt_json_fail(j, RT_FORMAT, j->text + at, "found the member `%s` "
			    "of the model, which is not known here",
			    rt_show_name(key).text);
}

bool
rt_tok_model_read(struct rt_json *j, struct tok_model *m,
		  const struct rt_alloc *a)
{
	const char *key;
	size_t i = 0;
	int64_t at;

	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		rt_json_peek(j);
		at = (int64_t)j->at;
		if (!rt_json_key(j, &key) ||
		    !read_model_member(j, m, key, at, a)) {
			return false;
		}
	}
	return j->status == RT_OK;
}

void
rt_tok_model_release(struct tok_model *m, const struct rt_alloc *a)
{
	rt_release(a, m->vocab.at);
	rt_release(a, m->vocab.slots);
	rt_release(a, m->texts);
	rt_release(a, m->merges);
	rt_release(a, m->chars);
	rt_release(a, m->joins);
	rt_release(a, m->words.at);
	rt_release(a, m->words.slots);
	rt_release(a, m->words_text);
}

/* ---- merges ----------------------------------------------------------- */

static struct tok_merge *
merge_slot(const struct tok_model *m, uint64_t pair)
{
	size_t mask = ((size_t)1 << m->merge_bits) - 1;
	size_t i = (size_t)hash_pair(pair) & mask;

	while (m->merges[i].pair != pair && m->merges[i].pair != NO_PAIR) {
		i = (i + 1) & mask;
	}
	return &m->merges[i];
}

const struct tok_merge *
rt_tok_merge(const struct tok_model *m, uint32_t left, uint32_t right)
{
	const struct tok_merge *x = merge_slot(m, (uint64_t)left << 32 |
					       right);

	return x->pair == NO_PAIR ? NULL : x;
}

static const struct tok_token *
wanted_token(struct rt_json *j, const struct tok_model *m,
	     const struct tok_merge_text *x, const char *s, size_t n)
{
	const struct tok_token *t = rt_tok_find(&m->vocab, s, n);

	if (!t) {
		rt_json_fail(j, RT_FORMAT, j->text + x->at, "found a merge of "
			     "`%s` and `%s`, and the vocabulary has no `%s`",
			     rt_show_name(x->a).text, rt_show_name(x->b).text,
			     rt_show_name(s).text);
	}
	return t;
}

static bool
settle_merge(struct rt_json *j, struct tok_model *m, size_t i,
	     struct rt_bytes *whole, const struct rt_alloc *a)
{
	const struct tok_merge_text *x = &m->texts[i];
	const struct tok_token *left, *right, *both;
	struct tok_merge *slot;

	whole->n = 0;
	if (!rt_bytes_add(a, whole, x->a, strlen(x->a)) ||
	    !rt_bytes_add(a, whole, x->b, strlen(x->b) + 1)) {
		return out_of_memory(j);
	}
	left = wanted_token(j, m, x, x->a, strlen(x->a));
	right = left ? wanted_token(j, m, x, x->b, strlen(x->b)) : NULL;
	both = right ? wanted_token(j, m, x, whole->at, whole->n - 1) : NULL;
	if (!both) {
		return false;
	}
	slot = merge_slot(m, (uint64_t)left->id << 32 | right->id);
	*slot = (struct tok_merge){ (uint64_t)left->id << 32 | right->id,
				    (uint32_t)i, both->id };
	return true;
}

static bool
settle_merges(struct rt_json *j, struct tok_model *m,
	      const struct rt_alloc *a)
{
	struct rt_bytes whole = { 0 };
	bool ok = true;
	size_t i;

	m->merge_bits = 4;
	while ((size_t)1 << m->merge_bits < 2 * (m->ntexts + m->ngiven)) {
		m->merge_bits++;
	}
	m->merges = rt_resize(a, NULL, (size_t)1 << m->merge_bits,
			      sizeof *m->merges);
	if (!m->merges) {
		return out_of_memory(j);
	}
	for (i = 0; i >> m->merge_bits == 0; i++) {
		m->merges[i].pair = NO_PAIR;
	}
	for (i = 0; i < m->ntexts && ok; i++) {
		ok = settle_merge(j, m, i, &whole, a);
	}
	for (i = 0; i < m->ngiven; i++) {
		*merge_slot(m, m->given[i].pair) = m->given[i];
	}
	rt_release(a, whole.at);
	return ok;
}

/* ---- symbols: what a word is made of before it is merged -------------- */

/* The printable bytes of Latin-1 are themselves; the others follow U+0100. */
uint32_t
rt_tok_char_of_byte(unsigned char byte)
{
	if (byte <= 0x20) {
		return 0x100u + byte;
	}
	if (byte >= 0x7f && byte <= 0xa0) {
		return 0x121u + byte - 0x7f;
	}
	return byte == 0xad ? 0x143 : byte;
}

int
rt_tok_byte_of_char(uint32_t c)
{
	if (c >= 0x100) {
		return c <= 0x120 ? (int)c - 0x100
			: c <= 0x142 ? (int)c - 0x121 + 0x7f
			: c == 0x143 ? 0xad : -1;
	}
	return c <= 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad ? -1
								   : (int)c;
}

int32_t
rt_tok_symbol(const struct tok_model *m, const char *s, size_t n, uint32_t c)
{
	const struct tok_token *t;

	if (c < DIRECT) {
		return m->chars[c];
	}
	t = rt_tok_find(&m->vocab, s, n);
	return t ? (int32_t)t->id : TOK_NONE;
}

static bool
settle_symbols(struct rt_json *j, struct tok_model *m,
	       const struct rt_alloc *a)
{
	const struct tok_token *t;
	char text[8];
	size_t i, len;
	uint32_t c;

	m->chars = rt_resize(a, NULL, DIRECT, sizeof *m->chars);
	if (!m->chars) {
		return out_of_memory(j);
	}
	memset(m->chars, 0xff, DIRECT * sizeof *m->chars);
	for (i = 0; i < m->vocab.n; i++) {
		t = &m->vocab.at[i];
		if (t->n == 0) {
			continue;
		}
		c = rt_utf8_get(t->s, &len);
		if (len == t->n && c < DIRECT) {
			m->chars[c] = (int32_t)t->id;
		}
	}
	for (i = 0; i < 256; i++) {
		m->alphabet[i] = m->chars[rt_tok_char_of_byte(
				(unsigned char)i)];
		snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
		t = rt_tok_find(&m->vocab, text, 6);
		m->byte_id[i] = t ? (int32_t)t->id : TOK_NONE;
	}
	return true;
}

/* ---- which symbols a merge may join ----------------------------------- */

/* The first and the last symbol of each token that merges make; -1: not known
 * yet. */
struct tok_ends {
	int32_t first, last;
};

static uint64_t
join_bit(int32_t left, int32_t right)
{
	return hash_pair((uint64_t)(uint32_t)left << 32 | (uint32_t)right) >>
	       (64 - JOIN_BITS);
}

bool
rt_tok_joins(const struct tok_model *m, int32_t left, int32_t right)
{
	uint64_t bit = join_bit(left, right);

	return m->joins_any || (m->joins[bit / 64] >> bit % 64 & 1);
}

static void
note_symbol(struct tok_ends *ends, int64_t id)
{
	if (id >= 0) {
		ends[id] = (struct tok_ends){ (int32_t)id, (int32_t)id };
	}
}

/* One round over all merges; true: it found something new. */
static bool
spread_ends(struct tok_model *m, struct tok_ends *ends)
{
	bool changed = false;
	size_t i;

	for (i = 0; i >> m->merge_bits == 0; i++) {
		const struct tok_merge *x = &m->merges[i];
		struct tok_ends *l, *r, *to;

		if (x->pair == NO_PAIR) {
			continue;
		}
		l = &ends[x->pair >> 32];
		r = &ends[x->pair & UINT32_MAX];
		to = &ends[x->id];
		if (l->first < 0 || r->first < 0) {
			continue;
		}
		if (to->first < 0) {
			*to = (struct tok_ends){ l->first, r->last };
			changed = true;
		} else if (to->first != l->first || to->last != r->last) {
			m->joins_any = true;
		}
	}
	return changed;
}

/* Whether a character may become the unknown token. */
static bool
may_be_unknown(const struct tok_model *m)
{
	int i;

	for (i = 0; i < 256 && m->byte_fallback; i++) {
		if (m->byte_id[i] < 0) {
			return true;
		}
	}
	return !m->byte_fallback;
}

static bool
settle_joins(struct rt_json *j, struct tok_model *m, size_t limit,
	     const struct rt_alloc *a)
{
	struct tok_ends *ends = rt_resize(a, NULL, limit, sizeof *ends);
	size_t i, len;
	int pass;

	m->joins = rt_resize(a, NULL, (size_t)1 << (JOIN_BITS - 6),
			     sizeof *m->joins);
	if (!ends || !m->joins) {
		rt_release(a, ends);
		return out_of_memory(j);
	}
	memset(m->joins, 0, sizeof *m->joins << (JOIN_BITS - 6));
	memset(ends, 0xff, limit * sizeof *ends);
	for (i = 0; i < m->vocab.n; i++) {
		if (m->vocab.at[i].n > 0) {
			rt_utf8_get(m->vocab.at[i].s, &len);
			if (len == m->vocab.at[i].n) {
				note_symbol(ends, m->vocab.at[i].id);
			}
		}
	}
	for (i = 0; i < 256 && m->byte_fallback; i++) {
		note_symbol(ends, m->byte_id[i]);
	}
	if (may_be_unknown(m)) {
		note_symbol(ends, m->unk);
	}
	for (pass = 0; pass < MAX_PASSES && spread_ends(m, ends); pass++) {
	}
	m->joins_any |= pass == MAX_PASSES;
	for (i = 0; i >> m->merge_bits == 0; i++) {
		const struct tok_merge *x = &m->merges[i];

		if (x->pair != NO_PAIR) {
			uint64_t bit = join_bit(ends[x->pair >> 32].last,
				ends[x->pair & UINT32_MAX].first);

			m->joins[bit / 64] |= UINT64_C(1) << bit % 64;
		}
	}
	rt_release(a, ends);
	return true;
}

/* ---- words that are tokens -------------------------------------------- */

/* The bytes that a token stands for; false: it is not of the alphabet. */
static bool
bytes_of(const struct tok_token *t, char *out, uint32_t *n)
{
	size_t at = 0, len;

	for (*n = 0; at < t->n; at += len) {
		int byte = rt_tok_byte_of_char(rt_utf8_get(t->s + at, &len));

		if (byte < 0) {
			return false;
		}
		out[(*n)++] = (char)byte;
	}
	return *n > 0;
}

static bool
settle_words(struct rt_json *j, struct tok_model *m, bool bytes,
	     const struct rt_alloc *a)
{
	struct tok_token x;
	size_t i, total = 1;
	char *at;

	for (i = 0; i < m->vocab.n; i++) {
		total += m->vocab.at[i].n;
	}
	m->words_text = at = rt_resize(a, NULL, total, 1);
	if (!at) {
		return out_of_memory(j);
	}
	for (i = 0; i < m->vocab.n; i++) {
		x = m->vocab.at[i];
		if (bytes) {
			if (!bytes_of(&m->vocab.at[i], at, &x.n)) {
				continue;
			}
			x.s = at;
			at += x.n;
		}
		if (!rt_tok_add(&m->words, &x, a)) {
			return out_of_memory(j);
		}
	}
	return true;
}

static bool
settle_unk(struct rt_json *j, struct tok_model *m)
{
	const struct tok_token *t;

	m->unk = TOK_NONE;
	if (!m->unk_token) {
		return true;
	}
	t = rt_tok_find(&m->vocab, m->unk_token, strlen(m->unk_token));
	if (!t || t->n == 0) {
		return rt_json_fail(j, RT_FORMAT, j->text + m->at, "found "
				    "unk_token `%s`, which is not in the "
				    "vocabulary",
				    rt_show_name(m->unk_token).text);
	}
	m->unk = t->id;
	return true;
}

bool
rt_tok_model_settle(struct rt_json *j, struct tok_model *m, bool bytes,
		    const struct rt_alloc *a)
{
	size_t limit = 0, i;
	bool ok;

	for (i = 0; i < m->vocab.n; i++) {
		if (m->vocab.at[i].id >= limit) {
			limit = (size_t)m->vocab.at[i].id + 1;
		}
	}
	ok = settle_unk(j, m) && settle_merges(j, m, a) &&
	     settle_symbols(j, m, a) && settle_joins(j, m, limit, a) &&
	     (!m->ignore_merges || settle_words(j, m, bytes, a));
	rt_release(a, m->texts);
	m->texts = NULL;
	return ok;
}

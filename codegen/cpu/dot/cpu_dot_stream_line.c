/*
 * Contractions of few rows: lines of B's rows are loaded and transposed in
 * registers, or widened, and their products with A's words are added to sums.
 */
#include "codegen/cpu/dot/cpu_dot_stream.h"

/*
 * Bytes of each row that are prefetched in advance, to the second-level cache:
 * rows whose bytes are a power of two share a few sets of the first, which
 * would not hold them until they are read.  On Zen 4 512 bytes are slower by 5
 * to 20%, and 2048 and 4096 no faster; prefetches to the first level were a
 * fifth slower.
 */
#define AHEAD 1024

struct ll_value *
dot_stream_row(const struct stream *x, struct ll_value *first, int64_t r)
{
	return ll_plus_n(x->l, first, r * x->s->row_bytes);
}

struct ll_value *
dot_stream_elems(const struct stream *x, struct ll_value *at,
		 struct ll_value *k)
{
	return ll_plus(x->l, at, dot_bytes_of(x->l, x->size, k));
}

/* Lanes of a and b in turn, of so many bytes: those of the lower or the upper
 * half of each STREAM_PART. */
static struct ll_value *
mix(struct ll *l, struct ll_value *a, struct ll_value *b, uint32_t bytes,
    bool upper)
{
	const struct ll_type words = ll_typeof(l, a);
	const struct ll_type t = ll_type(bytes == 8 ? LL_I64
					 : bytes == 4 ? LL_I32 : LL_I16,
					 words.lanes * 4 / bytes);
	uint32_t each = STREAM_PART / bytes, i;
	int pick[32];

	for (i = 0; i < t.lanes; i++) {
		uint32_t from = i / each * each + (upper ? each / 2 : 0) +
				i % each / 2;

		pick[i] = (int)(from + (i % 2 ? t.lanes : 0));
	}
	a = ll_bits(l, a, t);
	b = ll_bits(l, b, t);
	return ll_bits(l, ll_shuffle(l, a, b, pick, t.lanes), words);
}

/*
 * Transposes each square of four lanes in four vectors: dot_transpose in the
 * fewest shuffles.  If `halves`, lanes have half of that: the STREAM_PART of a
 * vector is then one of them from each of the four, and after it the next ones.
 */
static void
turn_fours(struct ll *l, struct ll_value **v, bool halves)
{
	uint32_t bytes = halves ? 2 : 4, i;
	struct ll_value *t[4];

	for (i = 0; i < 4; i++) {
		t[i] = mix(l, v[i / 2 * 2], v[i / 2 * 2 + 1], bytes, i % 2);
	}
	for (i = 0; i < 4; i++) {
		v[i] = mix(l, t[i / 2], t[2 + i / 2], 2 * bytes, i % 2);
	}
}

void
dot_stream_part(const struct stream *x, struct ll_value *at, int64_t apart,
		struct ll_value **out)
{
	const struct ll_type words = ll_type(LL_I32, 4);
	struct ll *l = x->l;
	int pick[16];
	uint32_t i, q, n;

	for (i = 0; i < 16; i++) {
		pick[i] = (int)i;
	}
	for (i = 0; i < 4; i++) {
		struct ll_value *part[4] = { NULL };

		for (q = 0; q < x->u->lanes / 4; q++) {
			part[q] = ll_load(l, ll_type(LL_I16, 8), ll_plus_n(
				l, at, (i + 4 * (int64_t)q) * apart));
			part[q] = ll_bits(l, part[q], words);
		}
		for (n = x->u->lanes / 4; n > 1; n /= 2) {
			for (q = 0; q < n / 2; q++) {
				part[q] = ll_shuffle(
					l, part[2 * q], part[2 * q + 1], pick,
					2 * ll_typeof(l, part[2 * q]).lanes);
			}
		}
		out[i] = part[0];
	}
	turn_fours(l, out, false);
}

/* Blocks of four lanes of a and b: those with an even or an odd number. */
static struct ll_value *
blocks_of(struct ll *l, struct ll_value *a, struct ll_value *b, bool odd)
{
	int pick[STREAM_LANES], i;

	for (i = 0; i < STREAM_LANES; i++) {
		pick[i] = i / 4 * 8 + (odd ? 4 : 0) + i % 4;
	}
	return ll_shuffle(l, a, b, pick, STREAM_LANES);
}

/* A STREAM_LINE at `at` of STREAM_LANES rows as 16 vectors of words, as in
 * dot_stream_part(), or of halves of words: each line is loaded once, whole. */
static void
load_line(const struct stream *x, struct ll_value *at, bool halves,
	  struct ll_value *out[STREAM_LANES])
{
	const struct ll_type line = ll_type(LL_I16, 2 * STREAM_LANES);
	const struct ll_type words = ll_type(LL_I32, STREAM_LANES);
	struct ll_value *v[STREAM_LANES], *even[2], *odd[2];
	struct ll *l = x->l;
	int i, j;

	for (i = 0; i < STREAM_LANES; i++) {
		v[i] = ll_bits(l, ll_load(l, line, dot_stream_row(x, at, i)),
			       words);
	}
	for (i = 0; i < STREAM_LANES; i += 4) {
		turn_fours(l, v + i, halves);
	}
	for (i = 0; i < 4; i++) {
		for (j = 0; j < 2; j++) {
			even[j] = blocks_of(l, v[8 * j + i], v[8 * j + 4 + i],
					    false);
			odd[j] = blocks_of(l, v[8 * j + i], v[8 * j + 4 + i],
					   true);
		}
		out[i] = blocks_of(l, even[0], even[1], false);
		out[4 + i] = blocks_of(l, odd[0], odd[1], false);
		out[8 + i] = blocks_of(l, even[0], even[1], true);
		out[12 + i] = blocks_of(l, odd[0], odd[1], true);
	}
}

/* Element i, 0 or 1, of each word, as f32. */
static struct ll_value *
elem_of(const struct stream *x, struct ll_value *words, int i)
{
	const struct ll_type t = ll_type(LL_I32, x->u->lanes);
	struct ll_value *half[2];
	struct ll *l = x->l;

	if (x->s->base == LL_F32) {
		return ll_bits(l, words, ll_type(LL_F32, x->u->lanes));
	}
	if (x->s->base == LL_BF16) {
		dot_split(l, words, half);
		return half[i];
	}
	words = i ? ll_bin(l, LL_LSHR, words, ll_int(l, t, 16)) : words;
	words = ll_cast(l, words, LL_I16);
	words = ll_bits(l, words, ll_type(LL_F16, x->u->lanes));
	return ll_cast(l, words, LL_F32);
}

/* Word i, as the unit multiplies it, of what a 4-byte word of B holds. */
static struct ll_value *
word_of(const struct stream *x, struct ll_value *words, int i)
{
	if (x->s->base == LL_I8) {
		return dot_widen_word(x->l, x->u, words, x->s->dtype, i);
	}
	return x->u->kind == DOT_FMA ? elem_of(x, words, i) : words;
}

/* Adds the products of word i at `a` with a vector of B's. */
static void
one_word(const struct stream *x, struct ll_value *a, int64_t i,
	 struct ll_value *b, struct ll_value **sum)
{
	enum ll_base word = x->u->kind == DOT_FMA ? LL_F32 : LL_I32;
	struct ll_value *v;
	uint32_t r;

	for (r = 0; r < x->s->rows; r++) {
		v = ll_load(x->l, ll_type(word, 1),
			    ll_plus_n(x->l, a, 4 * (i * x->s->rows + r)));
		v = ll_splat(x->l, v, x->u->lanes);
		sum[r] = dot_multiply_add(x->l, x->u, v, b, sum[r]);
	}
}

/* The products of n vectors of 4-byte words of B with words of A from `a` on.
 * Sums are those of one vector of columns. */
static void
products(const struct stream *x, struct ll_value *a, struct ll_value **words,
	 uint32_t n, struct ll_value **sum)
{
	int per = (int)x->per / (int)x->u->per_word, e;
	uint32_t i;

	for (i = 0; i < n; i++) {
		for (e = 0; e < per; e++) {
			one_word(x, a, (int64_t)i * per + e,
				 word_of(x, words[i], e), sum);
		}
	}
}

/* Those of a vector of words of 8 bits, of which halves were transposed. */
static void
products_of_halves(const struct stream *x, struct ll_value *a,
		   struct ll_value *halves, struct ll_value **sum)
{
	struct ll_value *words[4];
	int i;

	halves = ll_bits(x->l, halves, ll_type(LL_I8, STREAM_LINE));
	dot_widen_halves(x->l, x->u, x->tables, halves, x->s->dtype, words);
	for (i = 0; i < 4 / (int)x->u->per_word; i++) {
		one_word(x, a, i, words[i], sum);
	}
}

void
dot_stream_words(const struct stream *x, struct ll_value *a, struct ll_value *b,
		 int64_t apart, uint32_t n, struct ll_value **sum)
{
	struct ll_value *words[4];

	dot_stream_part(x, b, apart, words);
	products(x, a, words, n, sum);
}

struct ll_value *
dot_stream_word(const struct stream *x, struct ll_value *panel,
		struct ll_value *k)
{
	k = ll_div_n(x->l, k, x->u->per_word);
	return ll_plus(x->l, panel, ll_mul_n(x->l, k, 4 * x->s->rows));
}

struct ll_value *
dot_stream_ahead(const struct stream *x, struct ll_value *k)
{
	int64_t far = AHEAD / 4 * x->per;
	int64_t next = (int64_t)x->nv * x->u->lanes * x->s->row_bytes -
		       dot_bytes(x->size, x->s->k);
	struct ll *l = x->l;
	struct ll_value *here, *there;

	here = dot_stream_elems(x, x->b, ll_add(l, k, ll_i64(l, far)));
	there = ll_plus_n(l, here, next);
	return ll_select(l, ll_test(l, LL_LT, k, ll_i64(l, x->s->k - far)),
			 here, there);
}

/* The sums that part i of n of a line is added to. */
static struct ll_value **
sums_of(const struct stream *x, struct step *t, int i, int n)
{
	return t->sum + (x->u->scaled && i >= n / 2 ? x->s->rows : 0);
}

/*
 * A line of each of STREAM_LANES rows.  Those of `far` are prefetched one by
 * one among the products: together they cost a core of Zen 4 up to a fifth of
 * what it reads.
 */
static void
whole_line(const struct stream *x, struct step *t, struct ll_value *far)
{
	int64_t words = x->per / x->u->per_word;
	bool in_turn = x->u->scaled && x->s->rows <= 2;
	struct ll_value *a, *line[STREAM_LANES], **sum;
	int i, j;

	load_line(x, t->b, x->has_tables, line);
	for (j = 0; j < STREAM_LANES; j++) {
		i = in_turn ? j % 2 * STREAM_LANES / 2 + j / 2 : j;
		ll_prefetch_l2(x->l, dot_stream_row(x, far, j));
		a = ll_plus_n(x->l, t->a, i * words * 4 * x->s->rows);
		sum = sums_of(x, t, i, STREAM_LANES);
		if (x->has_tables) {
			products_of_halves(x, a, line[i], sum);
		} else {
			products(x, a, &line[i], 1, sum);
		}
	}
}

void
dot_stream_line(const struct stream *x, struct step *t, struct ll_value *far)
{
	int64_t words = STREAM_PART / 4 * x->per / x->u->per_word, part;
	struct ll_value *a, *b;
	uint32_t r;

	if (x->u->lanes == STREAM_LANES) {
		whole_line(x, t, far);
		return;
	}
	for (r = 0; r < x->u->lanes; r++) {
		ll_prefetch_l2(x->l, dot_stream_row(x, far, r));
	}
	for (part = 0; part < STREAM_LINE / STREAM_PART; part++) {
		a = ll_plus_n(x->l, t->a, part * words * 4 * x->s->rows);
		b = ll_plus_n(x->l, t->b, part * STREAM_PART);
		dot_stream_words(x, a, b, x->s->row_bytes, 4,
			   sums_of(x, t, (int)part, STREAM_LINE / STREAM_PART));
	}
}

/* Copies `left` elements of a row, and zeros up to n. */
static void
copy_last(const struct stream *x, struct ll_value *row, struct ll_value *left,
	  int64_t n, struct ll_value *to)
{
	const struct ll_type t = ll_type(x->per == 1 ? LL_I32
					 : x->per == 2 ? LL_I16 : LL_I8, 1);
	struct ll *l = x->l;
	int64_t e;

	for (e = 0; e < n; e++) {
		struct ll_value *is = ll_test(l, LL_LT, ll_i64(l, e), left);
		struct ll_value *v = ll_select(l, is, ll_i64(l, e),
					       ll_i64(l, 0));

		v = ll_load(l, t, dot_stream_elems(x, row, v));
		v = ll_select(l, is, v, ll_int(l, t, 0));
		ll_store(l, v, ll_plus_n(l, to, e * 4 / x->per));
	}
}

void
dot_stream_last(const struct stream *x, struct step *t)
{
	int64_t elems = (int64_t)x->u->words * x->u->per_word;
	struct ll_value *row;
	struct ll *l = x->l;
	struct ll_loop r;

	ll_loop(l, &r, ll_i64(l, 0), ll_i64(l, x->u->lanes), 1, NULL, 0);
	row = ll_plus(l, t->b, ll_mul_n(l, r.i, x->s->row_bytes));
	copy_last(x, row, t->left, elems,
		  ll_plus(l, x->last, ll_mul_n(l, r.i, STREAM_PART)));
	ll_loop_end(l, &r, NULL);
	dot_stream_words(x, t->a, x->last, STREAM_PART,
			 (uint32_t)(elems / x->per), t->sum);
}

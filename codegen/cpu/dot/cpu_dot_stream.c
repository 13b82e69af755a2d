/*
 * Contractions of few rows, as where a model generates a token at a time: each
 * element of B is used once or a few times, so the speed is that of memory.
 * B, whose rows are contiguous along k, is read in place by vector loads and
 * transposed in registers, or lies in panels (cpu_dot_panels.c).  Rows of A are
 * packed, as they are read again for every column.
 *
 * The sum of each element has the order that cpu_dot_tile.c gives it: over k
 * one product (of AVX-512 BF16 one pair, of AMX one tile of 32) after another,
 * from zero in each stretch of k, and stretches in their order.  So a row has
 * the same bits however many rows are computed with it.  Of an int4 a stretch
 * is half a group, which is half a line: both sums are computed at once.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#include <string.h>

#define MOST_ROWS 8
#define MOST_ROWS_AMX 16
#define LINE 64		/* bytes of a row that are read together */
#define PART 16		/* bytes that are transposed together, by 8 lanes */
#define MOST_LANES 16	/* these transpose a line at once */
/*
 * Bytes of each row that are prefetched in advance, to the second-level cache:
 * rows whose bytes are a power of two share a few sets of the first, which
 * would not hold them until they are read.  On Zen 4 512 bytes are slower by 5
 * to 20%, and 2048 and 4096 no faster; prefetches to the first level were a
 * fifth slower.
 */
#define AHEAD 1024

/* ---- which contractions ---- */

bool
dot_stream_find(const struct dot *d, struct dot_stream *s)
{
	bool tiles = d->unit.kind == DOT_TILES;
	uint32_t rows = tiles ? MOST_ROWS_AMX : 1;

	*s = (struct dot_stream){ 0 };
	if (d->result == DOT_ADD || d->n.n != 1 || d->over.n != 1 ||
	    !dot_factor_dense(&d->over, 1) || d->n.size < d->unit.lanes ||
	    d->m.size > (tiles ? MOST_ROWS_AMX : MOST_ROWS)) {
		return false;
	}
	/* a tile of B's rows is loaded whole */
	if (tiles && d->over.size % (d->unit.words * d->unit.per_word)) {
		return false;
	}
	while (rows < d->m.size) {
		rows *= 2;
	}
	s->rows = rows;
	s->base = d->source[1].base;
	s->dtype = (uint8_t)d->source[1].view.dtype;
	s->kind = (uint8_t)d->unit.kind;
	s->k = d->over.size;
	s->depth = d->depth;
	s->row_bytes = dot_bytes(dot_size_apart(s->base, s->dtype),
				 d->n.at[0].stride[1]);
	s->panels = d->unit.panels;
	/* four of the eight tiles of AMX are sums; of more rows of B at a time
	 * than 16 a core misses more (measured on Zen 4) */
	s->nv = tiles ? 4 : d->unit.lanes == MOST_LANES ? 1 : 2;
	if (s->panels) {
		s->nv = dot_panels_at_once(&d->unit, rows);
	}
	return true;
}

/* ---- code ---- */

struct stream {
	struct cg_cpu *c;
	struct ll *l;
	const struct dot_unit *u;
	const struct dot_stream *s;
	uint32_t nv;		/* vectors of columns, in AMX tiles of them */
	struct dot_size size;	/* of elements along k */
	int64_t per;		/* elements in 4 bytes */
	struct ll_value *a, *b, *to;	/* parameters */
	/* on the stack: sums of a stretch; the last few words of rows, or a
	 * tile */
	struct ll_value *sums, *last;
	/* of an int4: of each stretch, for all vectors of columns */
	struct ll_value *scales;
	struct ll_value *wide;	/* in AMX: a tile of B in bf16, if it is not */
	bool has_tables;	/* that widen a line of 8 bits */
	struct ll_value *tables[DOT_TABLES];
};

/* Where row r lies, if the first one is at `first`. */
static struct ll_value *
row_at(const struct stream *x, struct ll_value *first, int64_t r)
{
	return ll_plus_n(x->l, first, r * x->s->row_bytes);
}

static struct ll_value *
elems_at(const struct stream *x, struct ll_value *at, struct ll_value *k)
{
	return ll_plus(x->l, at, dot_bytes_of(x->l, x->size, k));
}

/* Lanes of a and b in turn, of so many bytes: those of the lower or the upper
 * half of each PART. */
static struct ll_value *
mix(struct ll *l, struct ll_value *a, struct ll_value *b, uint32_t bytes,
    bool upper)
{
	const struct ll_type words = ll_typeof(l, a);
	const struct ll_type t = ll_type(bytes == 8 ? LL_I64
					 : bytes == 4 ? LL_I32 : LL_I16,
					 words.lanes * 4 / bytes);
	uint32_t each = PART / bytes, i;
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
 * fewest shuffles.  If `halves`, lanes have half of that: the PART of a vector
 * is then one of them from each of the four, and after it the next ones.
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

/*
 * PART bytes at `at` of as many rows as a vector has lanes, `apart` bytes from
 * row to row, as four vectors of 4-byte words: one lane for each row.
 */
static void
load_part(const struct stream *x, struct ll_value *at, int64_t apart,
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
	int pick[MOST_LANES], i;

	for (i = 0; i < MOST_LANES; i++) {
		pick[i] = i / 4 * 8 + (odd ? 4 : 0) + i % 4;
	}
	return ll_shuffle(l, a, b, pick, MOST_LANES);
}

/* A LINE at `at` of MOST_LANES rows as 16 vectors of words, as in load_part(),
 * or of halves of words: each line is loaded once, whole. */
static void
load_line(const struct stream *x, struct ll_value *at, bool halves,
	  struct ll_value *out[MOST_LANES])
{
	const struct ll_type line = ll_type(LL_I16, 2 * MOST_LANES);
	const struct ll_type words = ll_type(LL_I32, MOST_LANES);
	struct ll_value *v[MOST_LANES], *even[2], *odd[2];
	struct ll *l = x->l;
	int i, j;

	for (i = 0; i < MOST_LANES; i++) {
		v[i] = ll_bits(l, ll_load(l, line, row_at(x, at, i)), words);
	}
	for (i = 0; i < MOST_LANES; i += 4) {
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

	halves = ll_bits(x->l, halves, ll_type(LL_I8, LINE));
	dot_widen_halves(x->l, x->u, x->tables, halves, x->s->dtype, words);
	for (i = 0; i < 4 / (int)x->u->per_word; i++) {
		one_word(x, a, i, words[i], sum);
	}
}

/* Those of n words, at most four, that are at `b` of each row. */
static void
some_words(const struct stream *x, struct ll_value *a, struct ll_value *b,
	   int64_t apart, uint32_t n, struct ll_value **sum)
{
	struct ll_value *words[4];

	load_part(x, b, apart, words);
	products(x, a, words, n, sum);
}

/* Word of A that multiplies element k of B. */
static struct ll_value *
word_at(const struct stream *x, struct ll_value *panel, struct ll_value *k)
{
	k = ll_div_n(x->l, k, x->u->per_word);
	return ll_plus(x->l, panel, ll_mul_n(x->l, k, 4 * x->s->rows));
}

/*
 * Where B is prefetched: AHEAD bytes on in the same rows, or in those of the
 * next group, which follow.  `k` is counted from the row's beginning.
 */
static struct ll_value *
ahead_of(const struct stream *x, struct ll_value *k)
{
	int64_t far = AHEAD / 4 * x->per;
	int64_t next = (int64_t)x->nv * x->u->lanes * x->s->row_bytes -
		       dot_bytes(x->size, x->s->k);
	struct ll *l = x->l;
	struct ll_value *here, *there;

	here = elems_at(x, x->b, ll_add(l, k, ll_i64(l, far)));
	there = ll_plus_n(l, here, next);
	return ll_select(l, ll_test(l, LL_LT, k, ll_i64(l, x->s->k - far)),
			 here, there);
}

/*
 * What the three steps along k do to the sums of a vector of columns, whose
 * first row has element k of a stretch at `b`, and A its word at `a`.
 */
struct step {
	struct ll_value *a, *b, *left;
	/* for each row of A; of an int4 for each half of a line */
	struct ll_value *sum[2 * MOST_ROWS];
};

/* The sums that part i of n of a line is added to. */
static struct ll_value **
sums_of(const struct stream *x, struct step *t, int i, int n)
{
	return t->sum + (x->u->scaled && i >= n / 2 ? x->s->rows : 0);
}

/*
 * A line of each of MOST_LANES rows.  Those of `far` are prefetched one by one
 * among the products: together they cost a core of Zen 4 up to a fifth of what
 * it reads.
 */
static void
whole_line(const struct stream *x, struct step *t, struct ll_value *far)
{
	int64_t words = x->per / x->u->per_word;
	bool in_turn = x->u->scaled && x->s->rows <= 2;
	struct ll_value *a, *line[MOST_LANES], **sum;
	int i, j;

	load_line(x, t->b, x->has_tables, line);
	for (j = 0; j < MOST_LANES; j++) {
		i = in_turn ? j % 2 * MOST_LANES / 2 + j / 2 : j;
		ll_prefetch_l2(x->l, row_at(x, far, j));
		a = ll_plus_n(x->l, t->a, i * words * 4 * x->s->rows);
		sum = sums_of(x, t, i, MOST_LANES);
		if (x->has_tables) {
			products_of_halves(x, a, line[i], sum);
		} else {
			products(x, a, &line[i], 1, sum);
		}
	}
}

/* A line of each row, while those of `far` are prefetched. */
static void
one_line(const struct stream *x, struct step *t, struct ll_value *far)
{
	int64_t words = PART / 4 * x->per / x->u->per_word, part;
	struct ll_value *a, *b;
	uint32_t r;

	if (x->u->lanes == MOST_LANES) {
		whole_line(x, t, far);
		return;
	}
	for (r = 0; r < x->u->lanes; r++) {
		ll_prefetch_l2(x->l, row_at(x, far, r));
	}
	for (part = 0; part < LINE / PART; part++) {
		a = ll_plus_n(x->l, t->a, part * words * 4 * x->s->rows);
		b = ll_plus_n(x->l, t->b, part * PART);
		some_words(x, a, b, x->s->row_bytes, 4,
			   sums_of(x, t, (int)part, LINE / PART));
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

		v = ll_load(l, t, elems_at(x, row, v));
		v = ll_select(l, is, v, ll_int(l, t, 0));
		ll_store(l, v, ll_plus_n(l, to, e * 4 / x->per));
	}
}

/*
 * The last elements of a stretch, `left` or at most those of unit.words words:
 * the rest of these words is zero, as packing would have it, and memory after
 * the row is not read.
 */
static void
last_words(const struct stream *x, struct step *t)
{
	int64_t elems = (int64_t)x->u->words * x->u->per_word;
	struct ll_value *row;
	struct ll *l = x->l;
	struct ll_loop r;

	ll_loop(l, &r, ll_i64(l, 0), ll_i64(l, x->u->lanes), 1, NULL, 0);
	row = ll_plus(l, t->b, ll_mul_n(l, r.i, x->s->row_bytes));
	copy_last(x, row, t->left, elems,
		  ll_plus(l, x->last, ll_mul_n(l, r.i, PART)));
	ll_loop_end(l, &r, NULL);
	some_words(x, t->a, x->last, PART,
		   (uint32_t)(elems / x->per), t->sum);
}

/* ---- loops over k ---- */

/* Where the sum of row r of A is, among those of vector v of columns. */
static struct ll_value *
sum_at(const struct stream *x, struct ll_value *sums, struct ll_value *v,
       uint32_t r)
{
	int64_t bytes = 4 * (int64_t)x->u->lanes;

	sums = ll_plus(x->l, sums, ll_mul_n(x->l, v, bytes * x->s->rows));
	return ll_plus_n(x->l, sums, bytes * r);
}

/*
 * A step of kind i for each vector of columns, one after the other: their sums
 * are in the first-level cache, as registers are few, and products of one begin
 * while those of the one before wait for each other.
 */
static void
each_vector(const struct stream *x, int i, struct ll_value *panel,
	    struct ll_value *from, struct ll_value *k, struct ll_value *left)
{
	const struct ll_type vec = ll_type(LL_F32, x->u->lanes);
	struct ll_value *at, *rows, *far;
	struct step t = { .left = left };
	struct ll *l = x->l;
	struct ll_loop v;
	uint32_t r;

	t.a = word_at(x, panel, k);
	k = ll_add(l, from, k);
	far = ahead_of(x, k);
	at = elems_at(x, x->b, k);
	ll_loop(l, &v, ll_i64(l, 0), ll_i64(l, x->nv), 1, NULL, 0);
	rows = ll_mul_n(l, v.i, x->u->lanes * x->s->row_bytes);
	t.b = ll_plus(l, at, rows);
	for (r = 0; r < x->s->rows; r++) {
		t.sum[r] = ll_load(l, vec, sum_at(x, x->sums, v.i, r));
	}
	if (i == 0) {
		one_line(x, &t, ll_plus(l, far, rows));
	} else if (i == 1) {
		some_words(x, t.a, t.b, x->s->row_bytes, 4, t.sum);
	} else {
		last_words(x, &t);
	}
	for (r = 0; r < x->s->rows; r++) {
		ll_store(l, t.sum[r], sum_at(x, x->sums, v.i, r));
	}
	ll_loop_end(l, &v, NULL);
}

/* Adds the products of a stretch, n elements from `from` on, to the sums. */
static void
one_stretch(const struct stream *x, struct ll_value *panel,
	    struct ll_value *from, struct ll_value *n)
{
	int64_t step[3] = { LINE / 4 * x->per, PART / 4 * x->per,
			    (int64_t)x->u->words * x->u->per_word };
	struct ll_value *at = ll_i64(x->l, 0), *to;
	struct ll *l = x->l;
	struct ll_loop k;
	int i;

	for (i = 0; i < 3; i++) {
		if (i && x->s->k % step[0] == 0 && x->s->depth % step[0] == 0) {
			break;
		}
		to = i < 2 ? ll_mul_n(l, ll_div_n(l, n, step[i]), step[i]) : n;
		ll_loop(l, &k, at, to, step[i], NULL, 0);
		each_vector(x, i, panel, from, k.i, ll_sub(l, n, k.i));
		ll_loop_end(l, &k, NULL);
		at = to;
	}
}

/* Bytes of a packed stretch of A. */
static int64_t
panel_bytes(const struct stream *x)
{
	return 4 * dot_panel_words_of(x->u, x->s->depth) * x->s->rows;
}

/* ---- scales of an int4 ---- */

/* Where those of group q are. */
static struct ll_value *
scales_at(const struct stream *x, struct ll_value *q)
{
	return ll_plus(x->l, x->scales,
		       ll_mul_n(x->l, q, 4 * (int64_t)x->nv * x->u->lanes));
}

/*
 * PART bytes are eight scales of a row.  They are transposed as numbers are:
 * words of two of them, one lane for each row.
 */
static void
eight_scales(const struct stream *x, struct ll_value *from,
	     struct ll_value *q, int64_t at)
{
	const struct ll_type t = ll_type(LL_I32, x->u->lanes);
	struct ll *l = x->l;
	struct ll_value *words[4], *to, *v;
	int i;

	load_part(x, ll_plus(l, from, ll_mul_n(l, q, 2)), x->s->row_bytes,
		  words);
	for (i = 0; i < 8; i++) {
		v = i % 2 ? ll_bin(l, LL_AND, words[i / 2],
				   ll_int(l, t, (int64_t)0xffff0000))
			  : ll_bin(l, LL_SHL, words[i / 2], ll_int(l, t, 16));
		to = scales_at(x, ll_add(l, q, ll_i64(l, i)));
		ll_store(l, v, ll_plus_n(l, to, at));
	}
}

/* The scale of group q of each row, one by one. */
static void
last_scales(const struct stream *x, struct ll_value *from, struct ll_value *q,
	    int64_t at)
{
	const struct ll_type word = ll_type(LL_I32, 1);
	struct ll *l = x->l;
	struct ll_value *v, *to;
	struct ll_loop r;

	from = ll_plus(l, from, ll_mul_n(l, q, 2));
	to = ll_plus_n(l, scales_at(x, q), at);
	ll_loop(l, &r, ll_i64(l, 0), ll_i64(l, x->u->lanes), 1, NULL, 0);
	v = ll_load(l, ll_type(LL_I16, 1),
		    ll_plus(l, from, ll_mul_n(l, r.i, x->s->row_bytes)));
	v = ll_bin(l, LL_SHL, ll_cast(l, v, LL_I32), ll_int(l, word, 16));
	ll_store(l, v, ll_plus(l, to, ll_mul_n(l, r.i, 4)));
	ll_loop_end(l, &r, NULL);
}

/* All of the columns at hand, to the stack. */
static void
load_scales(const struct stream *x)
{
	int64_t n = x->s->k / IR_GROUP, at;
	struct ll *l = x->l;
	struct ll_value *from;
	struct ll_loop q;
	uint32_t v;

	for (v = 0; v < x->nv; v++) {
		at = 4 * (int64_t)v * x->u->lanes;
		from = row_at(x, x->b, (int64_t)v * x->u->lanes);
		from = ll_plus_n(l, from, dot_bytes(x->size, x->s->k));
		ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, n / 8 * 8), 8, NULL, 0);
		eight_scales(x, from, q.i, at);
		ll_loop_end(l, &q, NULL);
		ll_loop(l, &q, ll_i64(l, n / 8 * 8), ll_i64(l, n), 1, NULL, 0);
		last_scales(x, from, q.i, at);
		ll_loop_end(l, &q, NULL);
	}
}

/* After a stretch: its sums are added to those before, and are zero again. */
static void
end_stretch(const struct stream *x, struct ll_value *is_first)
{
	const struct ll_type vec = ll_type(LL_F32, x->u->lanes);
	struct ll_value *sum, *to, *fresh, *more;
	struct ll *l = x->l;
	struct ll_loop i;

	ll_loop(l, &i, ll_i64(l, 0), ll_i64(l, x->nv * x->s->rows), 1, NULL,
		0);
	to = ll_mul_n(l, i.i, 4 * x->u->lanes);
	sum = ll_plus(l, x->sums, to);
	to = ll_plus(l, x->to, to);
	fresh = ll_load(l, vec, sum);
	more = ll_add(l, fresh, ll_load(l, vec, to));
	ll_store(l, ll_select(l, is_first, fresh, more), to);
	ll_store(l, ll_zero(l, vec), sum);
	ll_loop_end(l, &i, NULL);
}

/* Adds the products of group q, which is a line of each row, times its scales,
 * first those of its first half. */
static void
one_group(const struct stream *x, struct ll_value *q)
{
	const struct ll_type vec = ll_type(LL_F32, x->u->lanes);
	struct ll_value *k = ll_mul_n(x->l, q, IR_GROUP), *rows, *scale, *to;
	struct ll_value *far = ahead_of(x, k);
	struct ll *l = x->l;
	struct step t = { NULL };
	struct ll_loop v;
	uint32_t n = x->s->rows, r;

	t.a = ll_plus(l, x->a, ll_mul_n(l, q, panel_bytes(x)));
	ll_loop(l, &v, ll_i64(l, 0), ll_i64(l, x->nv), 1, NULL, 0);
	rows = ll_mul_n(l, v.i, x->u->lanes * x->s->row_bytes);
	t.b = ll_plus(l, elems_at(x, x->b, k), rows);
	for (r = 0; r < 2 * n; r++) {
		t.sum[r] = ll_zero(l, vec);
	}
	one_line(x, &t, ll_plus(l, far, rows));
	scale = scales_at(x, q);
	scale = ll_plus(l, scale, ll_mul_n(l, v.i, 4 * x->u->lanes));
	scale = ll_load(l, vec, scale);
	for (r = 0; r < n; r++) {
		to = sum_at(x, x->to, v.i, r);
		rows = dot_scale_add(l, t.sum[r], scale, ll_load(l, vec, to));
		ll_store(l, dot_scale_add(l, t.sum[n + r], scale, rows), to);
	}
	ll_loop_end(l, &v, NULL);
}

static void
sum_groups(const struct stream *x)
{
	struct ll *l = x->l;
	struct ll_loop q;

	load_scales(x);
	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, x->nv * x->s->rows), 1, NULL, 0);
	ll_store(l, ll_zero(l, ll_type(LL_F32, x->u->lanes)),
		 ll_plus(l, x->to, ll_mul_n(l, q.i, 4 * x->u->lanes)));
	ll_loop_end(l, &q, NULL);
	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, x->s->k / IR_GROUP), 1, NULL, 0);
	one_group(x, q.i);
	ll_loop_end(l, &q, NULL);
}

/* Stores sums at x->to: for each vector of columns one for each row. */
static void
sum_vectors(const struct stream *x)
{
	const struct dot_stream *s = x->s;
	struct ll *l = x->l;
	struct ll_value *from, *n;
	struct ll_loop q;

	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, x->nv * s->rows), 1, NULL, 0);
	ll_store(l, ll_zero(l, ll_type(LL_F32, x->u->lanes)),
		 ll_plus(l, x->sums, ll_mul_n(l, q.i, 4 * x->u->lanes)));
	ll_loop_end(l, &q, NULL);
	ll_loop(l, &q, ll_i64(l, 0),
		ll_i64(l, (s->k + s->depth - 1) / s->depth), 1, NULL, 0);
	from = ll_mul_n(l, q.i, s->depth);
	n = ll_min(l, ll_i64(l, s->depth), ll_sub(l, ll_i64(l, s->k), from));
	one_stretch(x, ll_plus(l, x->a, ll_mul_n(l, q.i, panel_bytes(x))),
		    from, n);
	end_stretch(x, ll_test(l, LL_EQ, q.i, ll_i64(l, 0)));
	ll_loop_end(l, &q, NULL);
}

/* 32 elements of a row of a narrow B from element k on, as bf16. */
static struct ll_value *
widened(const struct stream *x, struct ll_value *row, struct ll_value *k)
{
	struct ll_value *at = elems_at(x, row, k), *scale;
	struct ll *l = x->l;

	if (x->s->dtype != IR_INT4) {
		return dot_widen_elems(l, ll_load(l, ll_type(LL_I8, 32), at),
				       x->s->dtype, true);
	}
	scale = ll_mul_n(l, ll_div_n(l, k, IR_GROUP), 2);
	scale = ll_plus_n(l, ll_plus(l, row, scale),
			  dot_bytes(x->size, x->s->k));
	return dot_scale_int4s(l, ll_load(l, ll_type(LL_I32, 4), at), scale);
}

/* Loads 32 elements of 16 rows of B from element k on into a tile. */
static void
load_tile(const struct stream *x, int tile, struct ll_value *rows,
	  struct ll_value *k)
{
	int64_t apart = x->s->row_bytes;
	struct ll *l = x->l;
	struct ll_value *v, *at = elems_at(x, rows, k);
	int r;

	for (r = 0; r < 16 && x->s->base == LL_I8; r++) {
		v = widened(x, row_at(x, rows, r), k);
		v = ll_bits(l, v, ll_type(LL_I16, 32));
		ll_store(l, v, ll_plus_n(l, x->wide, 64 * r));
		apart = 64;
	}
	dot_amx(l, "llvm.x86.tileloadd64", &tile, 1,
		x->s->base == LL_I8 ? x->wide : at, ll_i64(l, apart));
}

/*
 * The same in AMX tiles: B's rows are those of the left operand, read in place;
 * the right one is A, 16 rows side by side.  Sums are turned at the end.
 */
static void
sum_tiles(const struct stream *x)
{
	int64_t elems = 32;
	struct ll_value *tile, *far, *turn;
	struct ll *l = x->l;
	struct ll_loop k;
	int v, r;

	turn = dot_turn_func(x->c, x->u, LL_F32, 16);
	for (v = 0; v < (int)x->nv; v++) {
		dot_amx(l, "llvm.x86.tilezero", &v, 1, NULL, NULL);
	}
	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, x->s->k), elems, NULL, 0);
	far = ahead_of(x, k.i);
	tile = ll_plus(l, x->a, ll_mul_n(l, k.i, 2 * 16));
	dot_amx(l, "llvm.x86.tileloadd64", (int[]){ 7 }, 1, tile,
		ll_i64(l, 64));
	for (v = 0; v < (int)x->nv; v++) {
		const int tiles[] = { v, 4 + v % 3, 7 };

		for (r = 0; r < 16; r++) {
			ll_prefetch(l, row_at(x, far, 16 * v + r));
		}
		load_tile(x, tiles[1], row_at(x, x->b, 16 * (int64_t)v), k.i);
		dot_amx(l, "llvm.x86.tdpbf16ps", tiles, 3, NULL, NULL);
	}
	ll_loop_end(l, &k, NULL);
	for (v = 0; v < (int)x->nv; v++) {
		struct ll_value *args[] = {
			x->last, ll_i64(l, 64), ll_plus_n(l, x->to, 1024 * v),
			ll_i64(l, 64)
		};

		dot_amx(l, "llvm.x86.tilestored64", &v, 1, x->last,
			ll_i64(l, 64));
		ll_call(l, turn, args, 4);
	}
}

/* The function void (a, b, to) for a group of nv vectors. */
static struct ll_value *
emit_sums(struct cg_cpu *c, const struct dot_unit *u,
	  const struct dot_stream *s, uint32_t nv)
{
	const struct ll_type p = ll_type(LL_PTR, 1), types[] = { p, p, p };
	struct stream x = { .c = c, .l = c->ll, .u = u, .s = s, .nv = nv };
	bool tiles = u->kind == DOT_TILES;
	struct ll_value *f;

	x.size = dot_size_along(s->base, s->dtype);
	x.per = 4 * x.size.elems / x.size.bytes;
	if (tiles) {	/* emitted before, as it is another function */
		dot_turn_func(c, u, LL_F32, 16);
	}
	f = ll_func(c->ll, arena_printf(c->a, "stream%u", c->nfuncs++),
		    ll_type(LL_VOID, 1), types, 3, false);
	ll_noalias(c->ll, f, 2);
	x.a = ll_param(c->ll, f, 0);
	x.b = ll_param(c->ll, f, 1);
	x.to = ll_param(c->ll, f, 2);
	x.has_tables = s->base == LL_I8 && s->dtype != IR_INT4 &&
		       dot_has_tables(c->ll, u, s->dtype);
	x.sums = ll_stack(c->ll, ll_type(LL_F32, 1), nv * s->rows * u->lanes);
	x.last = ll_stack(c->ll, ll_type(LL_F32, 1), tiles ? 256 : 64);
	if (u->scaled) {
		x.scales = ll_stack(c->ll, ll_type(LL_F32, 1),
				    s->k / IR_GROUP * nv * u->lanes);
	}
	if (x.has_tables) {
		dot_load_tables(c->ll, s->dtype, x.tables);
	}
	if (tiles && s->base == LL_I8) {
		x.wide = ll_stack(c->ll, ll_type(LL_F32, 1), 256);
	}
	if (tiles) {
		sum_tiles(&x);
	} else if (u->scaled) {
		sum_groups(&x);
	} else {
		sum_vectors(&x);
	}
	ll_return(c->ll, NULL);
	return f;
}

/* ---- all columns of an item ---- */

struct put {
	struct ll *l;
	const struct dot_unit *u;
	struct ll_value *to, *ld, *rows;
	struct ll_value *sums;	/* on the stack */
	int64_t apart;		/* of those of a vector and of the next one */
};

/*
 * Stores a group's sums at column `col`, of nv vectors; `mask`: lanes of the
 * only one.
 */
static void
put_sums(const struct put *p, struct ll_value *col, uint32_t nv,
	 struct ll_value *mask)
{
	const struct ll_type vec = ll_type(LL_F32, p->u->lanes);
	struct ll_value *from, *to, *v;
	struct ll *l = p->l;
	struct ll_loop r;
	uint32_t i;

	ll_loop(l, &r, ll_i64(l, 0), p->rows, 1, NULL, 0);
	from = ll_plus(l, p->sums, ll_mul_n(l, r.i, 4 * p->u->lanes));
	to = ll_plus(l, p->to, ll_bin(l, LL_MUL, r.i, p->ld));
	to = ll_plus(l, to, ll_mul_n(l, col, 4));
	for (i = 0; i < nv; i++) {
		v = ll_load(l, vec, ll_plus_n(l, from, (int64_t)i * p->apart));
		if (mask) {
			ll_store_if(l, v, to, mask);
		} else {
			ll_store(l, v, ll_plus_n(l, to, 4 * i * p->u->lanes));
		}
	}
	ll_loop_end(l, &r, NULL);
}

static void
call_sums(const struct put *p, struct ll_value *sums, struct ll_value *a,
	  struct ll_value *b, struct ll_value *col, int64_t row_bytes)
{
	struct ll_value *args[] = {
		a, ll_plus(p->l, b, ll_mul_n(p->l, col, row_bytes)), p->sums
	};

	ll_call(p->l, sums, args, 3);
}

/* Whole groups, then single vectors. */
static void
all_columns(struct cg_cpu *c, const struct dot_unit *u,
	    const struct dot_stream *s, struct ll_value *f,
	    struct ll_value *const *sums)
{
	int64_t lanes = u->lanes, group = s->nv * lanes;
	struct ll_value *a = ll_param(c->ll, f, 0), *b = ll_param(c->ll, f, 1);
	struct ll_value *cols = ll_param(c->ll, f, 5), *whole, *back, *mask;
	struct ll_value *left = ll_param(c->ll, f, 6);
	struct put p = { .l = c->ll, .u = u, .to = ll_param(c->ll, f, 2),
			 .ld = ll_param(c->ll, f, 3),
			 .rows = ll_param(c->ll, f, 4) };
	struct ll *l = c->ll;
	struct ll_loop i;

	p.apart = 4 * lanes * s->rows;
	p.sums = ll_stack(l, ll_type(LL_F32, 1), s->rows * group);
	whole = ll_mul_n(l, ll_div_n(l, cols, group), group);
	ll_loop(l, &i, ll_i64(l, 0), whole, group, NULL, 0);
	call_sums(&p, sums[0], a, b, i.i, s->row_bytes);
	put_sums(&p, i.i, s->nv, NULL);
	ll_loop_end(l, &i, NULL);
	ll_loop(l, &i, whole, cols, lanes, NULL, 0);
	/* a vector may read the operand's next columns; at its end, those
	 * before */
	back = ll_sub(l, ll_add(l, i.i, ll_i64(l, lanes)), left);
	back = ll_select(l, ll_test(l, LL_LT, back, ll_i64(l, 0)),
			 ll_i64(l, 0), back);
	whole = ll_sub(l, i.i, back);
	mask = ll_mask(l, ll_sub(l, cols, whole), u->lanes);
	mask = ll_bin(l, LL_XOR, mask, ll_mask(l, back, u->lanes));
	call_sums(&p, sums[1], a, b, whole, s->row_bytes);
	put_sums(&p, whole, 1, mask);
	ll_loop_end(l, &i, NULL);
	ll_return(l, NULL);
}

struct ll_value *
dot_stream_func(struct cg_cpu *c, const struct dot_unit *u,
		const struct dot_stream *s)
{
	const struct ll_type p = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { p, p, p, n, n, n, n };
	struct ll_value *(*emit)(struct cg_cpu *, const struct dot_unit *,
				 const struct dot_stream *, uint32_t) =
		s->panels ? dot_panel_sums : emit_sums;
	struct cg_cpu_stream made = { .key = *s };
	struct ll_value *sums[2];
	uint32_t i;

	for (i = 0; i < c->streams.n; i++) {
		const struct dot_stream *k = &c->streams.at[i].key;

		if (k->rows == s->rows && k->base == s->base &&
		    k->dtype == s->dtype && k->kind == s->kind &&
		    k->k == s->k && k->panels == s->panels &&
		    k->row_bytes == s->row_bytes) {
			return c->streams.at[i].func;
		}
	}
	sums[0] = emit(c, u, s, s->nv);
	sums[1] = s->nv == 1 ? sums[0] : emit(c, u, s, 1);
	made.func = ll_func(c->ll, arena_printf(c->a, "streams%u", c->nfuncs++),
			    ll_type(LL_VOID, 1), types, 7, false);
	all_columns(c, u, s, made.func, sums);
	VEC_PUSH(c->a, &c->streams, made);
	return made.func;
}

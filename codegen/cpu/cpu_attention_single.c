/*
 * Attention of one query at a time, with all heads of a kv head together: what
 * decoding sequences ask, each of which has one query and keys of its own.
 * Blocks of queries (cpu_attention_queries.c) would compute scores of all
 * queries of a block with the keys of each.
 *
 * Neighbouring keys are in the lanes of scores, and neighbouring columns in
 * those of results.  Keys and values are read where they lie, once for all
 * heads; keys are transposed in registers.  Each number is computed by the
 * operations of a block of queries in their order, so a query's bits do not
 * depend on which of both computes it.
 */
#include "codegen/cpu/cpu_attention.h"

#include <math.h>

#define MOST_HEADS 32		/* heads of an item, if they can be divided */
#define LEAST_HEADS 8
#define SCORE_HEADS 8		/* that share transposed keys in registers */
#define SUM_HEADS 4		/* a tile of results: heads by vectors */
#define SUM_VECTORS 4
#define MOST_LANES 16
#define LINE 64			/* bytes that are prefetched together */
#define AHEAD 4			/* vectors of keys */

struct att_single {
	struct attn *t;
	struct att_block b;	/* nq, and keys of a block: nothing else */
	bool always;		/* all queries of the step, whatever they see */
	int64_t heads, parts;	/* heads of an item; items of a kv head */
	/* offsets in scratch */
	int64_t lo, hi, pos;			/* i32, by query of a block */
	int64_t q, score, acc;			/* rows, by head */
	int64_t max, next, sum, alpha;		/* by head */
	int64_t k_rows, v_rows;		/* pointers, by key of a block */
	/* of the item: its query and first head; its kv head */
	struct att_index at;
	struct ll_value *kv;
	struct ll_value *first, *last;	/* keys: from first to before last */
	struct att_rows k, v;		/* of all keys */
	/* of a block of keys: its first one, and those that are seen */
	struct ll_value *key0, *from, *to;
};

/* Rows that are listed: of a block, and those that are prefetched. */
static int64_t
listed(const struct att_single *s)
{
	return s->b.nk + AHEAD * (int64_t)s->t->lanes;
}

/* ---- which queries ---- */

bool
att_has_single(const struct attn *t)
{
	return t->made[ATTN_OUT].value && attn_is_between(t) &&
	       t->heads_together && t->alibi <= 0 && !t->axes &&
	       t->spread[ATTN_KEYS] == UINT32_MAX &&
	       t->in[ATTN_K].col == 1 && t->in[ATTN_V].col == 1;
}

bool
att_is_all_single(const struct attn *t)
{
	return att_has_single(t) &&
	       t->queries * ATT_SPARSE <= 2 * (int64_t)t->lanes;
}

/* Heads of an item: many heads of a kv head are several items. */
static int64_t
heads_of_item(const struct attn *t)
{
	int64_t n = t->shared < MOST_HEADS ? t->shared : MOST_HEADS;

	while (n >= LEAST_HEADS && t->shared % n) {
		n--;
	}
	return t->shared % n ? t->shared : n;
}

int64_t
att_single_items(const struct attn *t)
{
	return t->queries * t->batches * t->kv *
	       (t->shared / heads_of_item(t));
}

struct att_single *
att_single_open(struct attn *t)
{
	struct att_single *s = arena_alloc(t->g->a, sizeof *s);
	int64_t n, padded;

	*s = (struct att_single){ .t = t, .heads = heads_of_item(t),
				  .always = att_is_all_single(t) };
	s->parts = t->shared / s->heads;
	s->b.nq = s->always ? 1 : 2 * (int64_t)t->lanes;
	s->b.nk = ATT_SELECTED_BLOCK;
	s->b.dp = attn_round_up(t->d, t->lanes);
	s->b.vp = attn_round_up(t->dv, t->lanes);
	n = s->heads;
	padded = attn_round_up(n, t->lanes);
	s->lo = att_own_alloc(t, s->b.nq);
	s->hi = att_own_alloc(t, s->b.nq);
	s->pos = att_own_alloc(t, s->b.nq);
	s->q = att_own_alloc(t, n * s->b.dp);
	s->score = att_own_alloc(t, n * s->b.nk);
	s->acc = att_own_alloc(t, n * s->b.vp);
	s->max = att_own_alloc(t, padded);
	s->next = att_own_alloc(t, padded);
	s->sum = att_own_alloc(t, padded);
	s->alpha = att_own_alloc(t, padded);
	s->k_rows = att_own_alloc(t, 2 * listed(s));
	s->v_rows = att_own_alloc(t, 2 * listed(s));
	return s;
}

/* ---- scratch ---- */

static struct ll_type
vector(const struct att_single *s)
{
	return ll_type(LL_F32, s->t->lanes);
}

/* Element `col` of row `head`. */
static struct ll_value *
row_at(struct att_single *s, int64_t offset, struct ll_value *head,
       int64_t row, struct ll_value *col)
{
	struct ll *l = s->t->l;

	return att_elem_at(l, att_elem_at(l, att_own_at(s->t, offset), head,
					  4 * row), col, 4);
}

/* The number of a head, of those that have one each. */
static struct ll_value *
number_at(struct att_single *s, int64_t offset, struct ll_value *head)
{
	return att_elem_at(s->t->l, att_own_at(s->t, offset), head, 4);
}

static struct ll_value *
nth(struct att_single *s, struct ll_value *head, uint32_t i)
{
	return ll_add(s->t->l, head, ll_i64(s->t->l, i));
}

/* Emits tiles of `rows` heads, and of the heads that are left. */
static void
each_tile(struct att_single *s, uint32_t rows,
	  void (*emit)(struct att_single *s, struct ll_value *head,
		       uint32_t rows))
{
	int64_t whole = s->heads / rows * rows;
	struct ll *l = s->t->l;
	struct ll_loop h;

	if (whole == rows) {
		emit(s, ll_i64(l, 0), rows);
	} else if (whole > 0) {
		ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, whole), rows, NULL, 0);
		emit(s, h.i, rows);
		ll_loop_end(l, &h, NULL);
	}
	if (whole < s->heads) {
		emit(s, ll_i64(l, whole), (uint32_t)(s->heads - whole));
	}
}

/* Lists where the rows of a block's keys are, and of some after it; after the
 * last one that is seen it is that again. */
static void
list_rows(struct att_single *s)
{
	struct ll *l = s->t->l;
	struct ll_value *last = ll_add(l, s->last, ll_i64(l, -1)), *key, *at;
	struct ll_loop i;

	ll_loop(l, &i, ll_i64(l, 0), ll_i64(l, listed(s)), 1, NULL, 0);
	key = ll_min(l, last, ll_add(l, s->key0, i.i));
	at = att_elem_at(l, att_own_at(s->t, s->k_rows), i.i, 8);
	ll_store(l, att_row_at(l, &s->k, key), at);
	at = att_elem_at(l, att_own_at(s->t, s->v_rows), i.i, 8);
	ll_store(l, att_row_at(l, &s->v, key), at);
	ll_loop_end(l, &i, NULL);
}

static struct ll_value *
listed_row(struct att_single *s, int64_t list, struct ll_value *i, int64_t more)
{
	struct ll *l = s->t->l;
	struct ll_value *at = att_elem_at(l, att_own_at(s->t, list), i, 8);

	return ll_load(l, ll_type(LL_PTR, 1), ll_plus_n(l, at, 8 * more));
}

/* ---- scores ---- */

/* Scores of some heads with as many keys as a vector has lanes. */
struct score_tile {
	struct att_single *s;
	struct ll_value *head;
	uint32_t heads;
	struct ll_value *keys[MOST_LANES];	/* where their rows are */
};

/* Adds the products of one column; x has the keys' numbers of it. */
static void
add_column(const struct score_tile *t, struct ll_value *x,
	   struct ll_value *col, int64_t more, struct ll_value **sums)
{
	struct att_single *s = t->s;
	struct ll *l = s->t->l;
	struct ll_value *q;
	uint32_t i;

	for (i = 0; i < t->heads; i++) {
		q = row_at(s, s->q, nth(s, t->head, i), s->b.dp, col);
		q = ll_load(l, ll_type(LL_F32, 1), ll_plus_n(l, q, 4 * more));
		sums[i] = ll_fma(l, x, ll_splat(l, q, s->t->lanes), sums[i]);
	}
}

/* Twice as many columns of bf16 as lanes: pairs are transposed as 32 bits. */
static void
add_pairs(const struct score_tile *t, struct ll_value *col,
	  struct ll_value **sums)
{
	uint32_t lanes = t->s->t->lanes, i;
	struct ll_type bits = ll_type(LL_I32, lanes), f32 = vector(t->s);
	struct ll *l = t->s->t->l;
	struct ll_value *x[MOST_LANES], *low, *high;

	for (i = 0; i < lanes; i++) {
		x[i] = ll_load(l, bits, att_elem_at(l, t->keys[i], col, 2));
	}
	att_turn_square(l, x, lanes);
	for (i = 0; i < lanes; i++) {
		low = ll_bin(l, LL_SHL, x[i], ll_int(l, bits, 16));
		high = ll_bin(l, LL_AND, x[i],
			      ll_int(l, bits, -(int64_t)0x10000));
		add_column(t, ll_bits(l, low, f32), col, 2 * i, sums);
		add_column(t, ll_bits(l, high, f32), col, 2 * i + 1, sums);
	}
}

/* As many columns as lanes, of which `live` exist. */
static void
add_square(const struct score_tile *t, struct ll_value *col, int64_t live,
	   struct ll_value **sums)
{
	uint32_t lanes = t->s->t->lanes, i;
	struct ll *l = t->s->t->l;
	struct ll_value *x[MOST_LANES];

	for (i = 0; i < lanes; i++) {
		x[i] = att_read_vector(l, &t->s->k, t->keys[i], col, live);
	}
	att_turn_square(l, x, lanes);
	for (i = 0; i < lanes && i < live; i++) {
		add_column(t, x[i], col, i, sums);
	}
}

/* Loops over columns in steps of `step`; returns where it ended. */
static int64_t
each_columns(const struct score_tile *t, int64_t from, int64_t step,
	     struct ll_value **sums)
{
	struct attn *a = t->s->t;
	int64_t to = from + (a->d - from) / step * step;
	struct ll_value *next[SCORE_HEADS];
	struct ll *l = a->l;
	struct ll_loop c;
	uint32_t i;

	if (from == to) {
		return from;
	}
	ll_loop(l, &c, ll_i64(l, from), ll_i64(l, to), step, sums, t->heads);
	for (i = 0; i < t->heads; i++) {
		next[i] = c.at[i];
	}
	if (step > a->lanes) {
		add_pairs(t, c.i, next);
	} else {
		add_square(t, c.i, step, next);
	}
	ll_loop_end(l, &c, next);
	for (i = 0; i < t->heads; i++) {
		sums[i] = c.at[i];
	}
	return to;
}

/* Every sum adds up its columns in their order. */
static void
multiply(const struct score_tile *t, struct ll_value **sums)
{
	struct attn *a = t->s->t;
	struct ll *l = a->l;
	int64_t at = 0;
	uint32_t i;

	for (i = 0; i < t->heads; i++) {
		sums[i] = ll_zero(l, vector(t->s));
	}
	if (t->s->k.elem == LL_BF16) {
		at = each_columns(t, at, 2 * (int64_t)a->lanes, sums);
	}
	at = each_columns(t, at, a->lanes, sums);
	if (at < a->d) {
		add_square(t, ll_i64(l, at), a->d - at, sums);
	}
}

/* Which lanes of the keys from `key` on the query sees. */
static struct ll_value *
seen_lanes(struct att_single *s, struct ll_value *key)
{
	struct ll *l = s->t->l;
	uint32_t lanes = s->t->lanes;
	struct ll_value *n[3] = { key, s->from, s->to };
	uint32_t i;

	for (i = 0; i < 3; i++) {
		n[i] = ll_splat(l, ll_cast(l, n[i], LL_I32), lanes);
	}
	n[0] = ll_bin(l, LL_ADD, n[0], ll_iota(l, ll_type(LL_I32, lanes)));
	n[1] = ll_test(l, LL_GE, n[0], n[1]);
	n[2] = ll_test(l, LL_LT, n[0], n[2]);
	return ll_bin(l, LL_AND, n[1], n[2]);
}

static void
prefetch_row(struct att_single *s, const struct att_rows *rows,
	     struct ll_value *row)
{
	int64_t bytes = rows->cols * att_elem_bytes(rows->elem), at;

	for (at = 0; at < bytes; at += LINE) {
		ll_prefetch_l2(s->t->l, ll_plus_n(s->t->l, row, at));
	}
}

/*
 * The rows of keys from number `in` of the block on, while those of keys after
 * them and the values of these are prefetched: rows are apart, so the processor
 * does not predict them.
 */
static void
find_keys(struct score_tile *t, struct ll_value *in)
{
	struct att_single *s = t->s;
	uint32_t lanes = s->t->lanes, i;
	struct ll_value *row;

	for (i = 0; i < lanes; i++) {
		t->keys[i] = listed_row(s, s->k_rows, in, i);
		row = listed_row(s, s->v_rows, in, i);
		prefetch_row(s, &s->v, row);
		row = listed_row(s, s->k_rows, in, i + AHEAD * lanes);
		prefetch_row(s, &s->k, row);
	}
}

/* Stores scores of a tile's heads, and their largest so far as `next`. */
static void
emit_scores(struct att_single *s, struct ll_value *head, uint32_t heads)
{
	struct score_tile t = { .s = s, .head = head, .heads = heads };
	struct ll *l = s->t->l;
	struct ll_value *most[SCORE_HEADS], *sums[SCORE_HEADS], *seen, *in;
	struct ll_value *none = ll_num(l, vector(s), -INFINITY);
	struct ll_loop k;
	uint32_t i;

	for (i = 0; i < heads; i++) {
		most[i] = ll_load(l, ll_type(LL_F32, 1),
				  number_at(s, s->max, nth(s, head, i)));
		most[i] = ll_splat(l, most[i], s->t->lanes);
	}
	ll_loop(l, &k, att_down(l, s->from, s->t->lanes), s->to, s->t->lanes,
		most, heads);
	in = ll_sub(l, k.i, s->key0);
	find_keys(&t, in);
	multiply(&t, sums);
	seen = seen_lanes(s, k.i);
	for (i = 0; i < heads; i++) {
		if (s->t->softcap > 0) {
			sums[i] = att_cap(s->t, sums[i]);
		}
		sums[i] = ll_select(l, seen, sums[i], none);
		ll_store(l, sums[i], row_at(s, s->score, nth(s, head, i),
					    s->b.nk, in));
		most[i] = att_max(l, sums[i], k.at[i]);
	}
	ll_loop_end(l, &k, most);
	for (i = 0; i < heads; i++) {
		in = ll_max(l, k.at[i]);
		ll_store(l, in, number_at(s, s->next, nth(s, head, i)));
	}
}

/* ---- weights ---- */

/* From `max` to `next`: the factors of earlier sums, by heads in lanes. */
static void
rescale(struct att_single *s)
{
	struct ll *l = s->t->l;
	struct ll_value *max, *next, *alpha, *sum;
	struct ll_loop h;

	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, s->heads), s->t->lanes, NULL,
		0);
	max = number_at(s, s->max, h.i);
	next = ll_load(l, vector(s), number_at(s, s->next, h.i));
	alpha = cg_exp(l, ll_bin(l, LL_SUB, ll_load(l, vector(s), max),
				 next));
	ll_store(l, alpha, number_at(s, s->alpha, h.i));
	sum = number_at(s, s->sum, h.i);
	ll_store(l, ll_bin(l, LL_MUL, ll_load(l, vector(s), sum), alpha), sum);
	ll_store(l, next, max);
	ll_loop_end(l, &h, NULL);
}

/* Scores become weights e^(score - max). */
static void
weigh(struct att_single *s)
{
	struct ll *l = s->t->l;
	struct ll_value *at, *max, *p;
	struct ll_loop h, k;

	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, s->heads), 1, NULL, 0);
	max = ll_load(l, ll_type(LL_F32, 1), number_at(s, s->max, h.i));
	max = ll_splat(l, max, s->t->lanes);
	ll_loop(l, &k, att_down(l, s->from, s->t->lanes), s->to, s->t->lanes,
		NULL, 0);
	at = row_at(s, s->score, h.i, s->b.nk, ll_sub(l, k.i, s->key0));
	p = ll_bin(l, LL_SUB, ll_load(l, vector(s), at), max);
	ll_store(l, cg_exp(l, p), at);
	ll_loop_end(l, &k, NULL);
	ll_loop_end(l, &h, NULL);
}

/* ---- values ---- */

/* A tile of results. */
struct value_tile {
	struct att_single *s;
	struct ll_value *head, *col;	/* its first ones */
	uint32_t heads, vectors;
	bool sums;		/* adds up the weights, too */
};

static struct ll_value *
acc_at(const struct value_tile *t, uint32_t i, uint32_t j)
{
	struct att_single *s = t->s;
	struct ll_value *at = row_at(s, s->acc, nth(s, t->head, i), s->b.vp,
				     t->col);

	return ll_plus_n(s->t->l, at, 4 * (int64_t)j * s->t->lanes);
}

static void
begin_tile(const struct value_tile *t, struct ll_value **x)
{
	struct att_single *s = t->s;
	struct ll *l = s->t->l;
	struct ll_value *alpha;
	uint32_t i, j, n = t->heads * t->vectors;

	for (i = 0; i < t->heads; i++) {
		struct ll_value *head = nth(s, t->head, i);

		alpha = ll_load(l, ll_type(LL_F32, 1),
				number_at(s, s->alpha, head));
		alpha = ll_splat(l, alpha, s->t->lanes);
		for (j = 0; j < t->vectors; j++) {
			x[i * t->vectors + j] = ll_bin(l, LL_MUL,
				ll_load(l, vector(s), acc_at(t, i, j)),
				alpha);
		}
		if (t->sums) {
			alpha = ll_load(l, ll_type(LL_F32, 1),
					number_at(s, s->sum, head));
			x[n + i] = ll_splat(l, alpha, s->t->lanes);
		}
	}
}

/* The value of a key, times the weight that each head gives it. */
static void
add_value(const struct value_tile *t, struct ll_value *key, int64_t live,
	  struct ll_value *const *from, struct ll_value **to)
{
	struct att_single *s = t->s;
	struct ll *l = s->t->l;
	int64_t lanes = s->t->lanes;
	struct ll_value *v[SUM_VECTORS], *row, *p, *in;
	uint32_t i, j, n = t->heads * t->vectors;

	in = ll_sub(l, key, s->key0);
	row = listed_row(s, s->v_rows, in, 0);
	for (j = 0; j < t->vectors; j++) {
		int64_t left = live - j * lanes;

		v[j] = att_read_vector(l, &s->v, row, ll_add(l, t->col,
					ll_i64(l, j * lanes)),
				       left < lanes ? left : lanes);
	}
	for (i = 0; i < t->heads; i++) {
		p = ll_load(l, ll_type(LL_F32, 1),
			    row_at(s, s->score, nth(s, t->head, i), s->b.nk,
				   in));
		p = ll_splat(l, p, s->t->lanes);
		for (j = 0; j < t->vectors; j++) {
			uint32_t k = i * t->vectors + j;

			to[k] = ll_fma(l, v[j], p, from[k]);
		}
		if (t->sums) {
			to[n + i] = ll_bin(l, LL_ADD, from[n + i], p);
		}
	}
}

/* The tile whose columns are `live`, over the keys of a block in order. */
static void
emit_values_tile(const struct value_tile *t, int64_t live)
{
	struct att_single *s = t->s;
	struct ll *l = s->t->l;
	struct ll_value *x[SUM_HEADS * (SUM_VECTORS + 1)];
	uint32_t n = t->heads * t->vectors, i;
	struct ll_loop k;

	begin_tile(t, x);
	ll_loop(l, &k, s->from, s->to, 1, x, n + (t->sums ? t->heads : 0));
	add_value(t, k.i, live, k.at, x);
	ll_loop_end(l, &k, x);
	for (i = 0; i < n; i++) {
		ll_store(l, k.at[i], acc_at(t, i / t->vectors,
					    i % t->vectors));
	}
	/* sums of weights are vectors of equal numbers, as the weights are */
	for (i = 0; t->sums && i < t->heads; i++) {
		struct ll_value *sum = ll_lane(l, k.at[n + i], 0);

		ll_store(l, sum, number_at(s, s->sum, nth(s, t->head, i)));
	}
}

/* acc += weights x values, in the order of keys. */
static void
emit_values(struct att_single *s, struct ll_value *head, uint32_t heads)
{
	struct value_tile t = { .s = s, .head = head, .heads = heads };
	int64_t step = SUM_VECTORS * (int64_t)s->t->lanes, at, left;
	int64_t whole = s->t->dv / step * step;
	struct ll *l = s->t->l;
	struct ll_loop c;

	/* the first tile alone adds up weights */
	t.sums = true;
	t.col = ll_i64(l, 0);
	t.vectors = (uint32_t)((s->b.vp < step ? s->b.vp : step) /
			       s->t->lanes);
	emit_values_tile(&t, s->t->dv < step ? s->t->dv : step);
	t.sums = false;
	if (whole > step) {
		ll_loop(l, &c, ll_i64(l, step), ll_i64(l, whole), step, NULL,
			0);
		t.col = c.i;
		emit_values_tile(&t, step);
		ll_loop_end(l, &c, NULL);
	}
	at = whole > step ? whole : step;
	left = s->t->dv - at;
	if (left > 0) {
		t.col = ll_i64(l, at);
		t.vectors = (uint32_t)((s->b.vp - at) / s->t->lanes);
		emit_values_tile(&t, left);
	}
}

/* ---- an item ---- */

static void
find_query(struct att_single *s, struct ll_value *item)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *kv = ll_i64(l, attn_divisor(t->kv));
	struct ll_value *all = ll_i64(l, attn_divisor(t->batches));
	struct ll_value *part = ll_rem_n(l, item, s->parts);

	item = ll_div_n(l, item, s->parts);
	s->kv = ll_bin(l, LL_REM, item, kv);
	item = ll_bin(l, LL_DIV, item, kv);
	att_batch(t, ll_bin(l, LL_REM, item, all), &s->at);
	s->at.pos = ll_bin(l, LL_DIV, item, all);
	s->at.head = ll_mul_n(l, s->kv, t->shared);
	s->at.head = ll_add(l, s->at.head, ll_mul_n(l, part, s->heads));
}

/* Finds the keys that the query sees.  Returns whether it is taken alone. */
static struct ll_value *
find_range(struct att_single *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	const struct ll_type i32 = ll_type(LL_I32, 1);
	struct att_tile x = { .b = &s->b };
	struct att_index i = s->at;
	struct ll_value *in, *live, *n[2];

	i.pos = att_down(l, s->at.pos, s->b.nq);
	in = ll_sub(l, s->at.pos, i.pos);
	live = ll_min(l, ll_sub(l, ll_i64(l, t->queries), i.pos),
		      ll_i64(l, s->b.nq));
	x.lo = att_own_at(t, s->lo);
	x.hi = att_own_at(t, s->hi);
	x.pos = att_own_at(t, s->pos);
	att_read_ranges(t, &x, &i, live);
	n[0] = ll_load(l, i32, att_elem_at(l, x.lo, in, 4));
	n[1] = ll_load(l, i32, att_elem_at(l, x.hi, in, 4));
	s->first = att_keys_below(t, ll_cast(l, n[0], LL_I64));
	s->last = att_keys_below(t, ll_add(l, ll_cast(l, n[1], LL_I64),
					   ll_i64(l, 1)));
	return s->always ? NULL : att_is_sparse(t, &x, live);
}

static void
begin_query(struct att_single *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *heads = ll_i64(l, s->heads), *sum, *sink;
	int64_t padded = attn_round_up(s->heads, t->lanes);
	struct att_index i = s->at;
	struct att_rows q;
	struct ll_loop h;

	q = att_rows_at(t, &t->in[ATTN_Q], &i, heads, t->d);
	q.row = t->in[ATTN_Q].head;
	att_read_rows(l, &q, att_own_at(t, s->q), s->b.dp, s->heads,
		      t->scale == 1 ? NULL
		      : ll_num(l, ll_type(LL_F32, 1), t->scale));
	att_fill(l, att_own_at(t, s->acc), s->heads * s->b.vp, 0);
	att_fill(l, att_own_at(t, s->next), padded, 0);
	sum = att_own_at(t, s->sum);
	att_weigh_begin_none(t, padded, att_own_at(t, s->max), sum);
	if (t->values[ATTN_SINK]) {
		ll_loop(l, &h, ll_i64(l, 0), heads, 1, NULL, 0);
		i.head = ll_add(l, s->at.head, h.i);
		sink = att_sink(t, &i);
		ll_store(l, sink, number_at(s, s->max, h.i));
		ll_store(l, ll_num(l, ll_type(LL_F32, 1), 1),
			 number_at(s, s->sum, h.i));
		ll_loop_end(l, &h, NULL);
	}
	i.head = s->kv;
	i.pos = ll_i64(l, 0);
	s->k = att_rows_at(t, &t->in[ATTN_K], &i, NULL, t->d);
	s->v = att_rows_at(t, &t->in[ATTN_V], &i, NULL, t->dv);
}

static void
each_block(struct att_single *s)
{
	struct ll *l = s->t->l;
	struct ll_loop k;

	ll_loop(l, &k, att_down(l, s->first, s->b.nk), s->last, s->b.nk, NULL,
		0);
	s->key0 = k.i;
	s->from = att_max(l, s->first, k.i);
	s->to = ll_min(l, s->last, ll_add(l, k.i, ll_i64(l, s->b.nk)));
	list_rows(s);
	each_tile(s, SCORE_HEADS, emit_scores);
	rescale(s);
	weigh(s);
	each_tile(s, SUM_HEADS, emit_values);
	ll_loop_end(l, &k, NULL);
}

/* Divides a head's result by its sum; 0 where there was no key. */
static void
divide(struct att_single *s, struct ll_value *head)
{
	struct ll *l = s->t->l;
	struct ll_value *zero = ll_zero(l, vector(s)), *by, *inverse, *at;
	struct ll_loop c;

	by = ll_load(l, ll_type(LL_F32, 1), number_at(s, s->sum, head));
	by = ll_splat(l, by, s->t->lanes);
	inverse = ll_bin(l, LL_DIV, ll_num(l, vector(s), 1), by);
	by = ll_select(l, ll_test(l, LL_GT, by, zero), inverse, zero);
	ll_loop(l, &c, ll_i64(l, 0), ll_i64(l, s->b.vp), s->t->lanes, NULL, 0);
	at = row_at(s, s->acc, head, s->b.vp, c.i);
	ll_store(l, ll_bin(l, LL_MUL, ll_load(l, vector(s), at), by), at);
	ll_loop_end(l, &c, NULL);
}

static bool
put_query(struct att_single *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *one = ll_i64(l, 1);
	struct att_index i = s->at;
	struct ll_loop h;
	bool ok;

	if (t->made[ATTN_LSE].value) {
		struct ll_value *max = att_own_at(t, s->max);
		struct ll_value *sum = att_own_at(t, s->sum);

		att_lse(t, attn_round_up(s->heads, t->lanes), max, sum,
			att_own_at(t, s->next));
	}
	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, s->heads), 1, NULL, 0);
	i.head = ll_add(l, s->at.head, h.i);
	divide(s, h.i);
	ok = att_store_result(t, ATTN_OUT, &i, row_at(s, s->acc, h.i, s->b.vp,
						      ll_i64(l, 0)),
			      s->b.vp, 1, one);
	if (ok && t->made[ATTN_LSE].value) {
		ok = att_store_result(t, ATTN_LSE, &i,
				      number_at(s, s->next, h.i), 1, 1, one);
	}
	ll_loop_end(l, &h, NULL);
	return ok;
}

bool
att_single_item(struct att_single *s, struct ll_value *item)
{
	struct ll_value *is;
	struct att_if sparse;
	bool ok;

	find_query(s, item);
	is = find_range(s);
	if (is) {
		att_if_begin(s->t->l, &sparse, is);
	}
	begin_query(s);
	each_block(s);
	ok = put_query(s);
	if (is) {
		att_if_end(s->t->l, &sparse);
	}
	return ok;
}

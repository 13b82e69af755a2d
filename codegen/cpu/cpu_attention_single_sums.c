/*
 * Scores and sums of single queries, all heads of an item together: see
 * cpu_attention_single.c.
 */
#include "codegen/cpu/cpu_attention.h"

#include <math.h>

#define SCORE_HEADS 8		/* that share transposed keys in registers */
#define SUM_HEADS 4		/* a tile of results: heads by vectors */
#define SUM_VECTORS 4
#define MOST_LANES 16
#define LINE 64			/* bytes that are prefetched together */

/* ---- scratch ---- */

static struct ll_type
vector(const struct att_single *s)
{
	return ll_type(LL_F32, s->t->lanes);
}

static struct ll_value *
nth(struct att_single *s, struct ll_value *head, uint32_t i)
{
	return ll_add(s->t->l, head, ll_i64(s->t->l, i));
}

struct ll_value *
att_head_row(struct att_single *s, int64_t offset, struct ll_value *head,
	     int64_t row, struct ll_value *col)
{
	struct ll *l = s->t->l;
	struct ll_value *at = att_own_at(s->t, offset);

	at = att_elem_at(l, at, head, 4 * row);
	return att_elem_at(l, at, col, 4);
}

struct ll_value *
att_head_number(struct att_single *s, int64_t offset, struct ll_value *head)
{
	return att_elem_at(s->t->l, att_own_at(s->t, offset), head, 4);
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

/* Lists where the rows of a block's keys are, and of the next block's, up to
 * whole vectors; after the last one that is seen it is that again. */
static void
list_rows(struct att_single *s)
{
	struct ll *l = s->t->l;
	struct ll_value *last = ll_add(l, s->last, ll_i64(l, -1)), *key, *at;
	struct ll_loop i;

	s->listed = att_up(l, ll_sub(l, s->last, s->key0), s->t->lanes);
	s->listed = ll_min(l, s->listed, ll_i64(l, 2 * s->b.nk));
	ll_loop(l, &i, ll_i64(l, 0), s->listed, 1, NULL, 0);
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
		q = att_head_row(s, s->q, nth(s, t->head, i), s->b.dp, col);
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

/* Four times as many columns of 8 bits as lanes, as 32 bits too. */
static void
add_quads(const struct score_tile *t, struct ll_value *col,
	  struct ll_value **sums)
{
	uint32_t lanes = t->s->t->lanes, i, j;
	struct ll_type bits = ll_type(LL_I32, lanes);
	struct ll *l = t->s->t->l;
	struct ll_value *x[MOST_LANES], *byte;

	for (i = 0; i < lanes; i++) {
		x[i] = ll_load(l, bits, att_elem_at(l, t->keys[i], col, 1));
	}
	att_turn_square(l, x, lanes);
	for (i = 0; i < lanes; i++) {
		for (j = 0; j < 4; j++) {
			byte = ll_bin(l, LL_SHL, x[i],
				      ll_int(l, bits, 24 - 8 * j));
			byte = ll_bin(l, LL_ASHR, byte, ll_int(l, bits, 24));
			byte = cg_cpu_widen_f8(l, byte, t->s->k.dtype);
			add_column(t, byte, col, 4 * i + j, sums);
		}
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
	if (step == 4 * (int64_t)a->lanes) {
		add_quads(t, c.i, next);
	} else if (step > a->lanes) {
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
	if (t->s->k.elem == LL_I8) {
		at = each_columns(t, at, 4 * (int64_t)a->lanes, sums);
	} else if (t->s->k.elem == LL_BF16) {
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
		ll_prefetch(s->t->l, ll_plus_n(s->t->l, row, at));
	}
}

/*
 * The rows of keys from number `in` of the block on, while their values are
 * prefetched: rows are apart, so the processor does not predict them.  The next
 * block's keys are prefetched among the sums of values, so that there are
 * requests to memory all the time.
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
	}
}

/* Prefetches the first keys, which no others are before. */
static void
prefetch_first(struct att_single *s)
{
	struct ll *l = s->t->l;
	struct ll_value *to = ll_min(l, s->last, ll_add(l, s->first,
						  ll_i64(l, s->b.nk)));
	struct ll_loop k;

	ll_loop(l, &k, s->first, to, 1, NULL, 0);
	prefetch_row(s, &s->k, att_row_at(l, &s->k, k.i));
	ll_loop_end(l, &k, NULL);
}

/* How far the keys from `key` on are after what alibi counts from; NULL: there
 * is none. */
static struct ll_value *
distances(struct att_single *s, struct ll_value *key)
{
	const struct ll_type many = ll_type(LL_I32, s->t->lanes);
	struct ll *l = s->t->l;
	struct ll_value *from;

	if (s->t->alibi <= 0) {
		return NULL;
	}
	from = ll_load(l, ll_type(LL_I32, 1), att_own_at(s->t, s->pos));
	key = ll_splat(l, ll_cast(l, key, LL_I32), s->t->lanes);
	key = ll_bin(l, LL_ADD, key, ll_iota(l, many));
	key = ll_bin(l, LL_SUB, key, ll_splat(l, from, s->t->lanes));
	return ll_cast(l, key, LL_F32);
}

/* Scores of a head, with its slope of alibi for each distance. */
static struct ll_value *
with_bias(struct att_single *s, struct ll_value *scores,
	  struct ll_value *distance, struct ll_value *head)
{
	struct ll *l = s->t->l;
	struct ll_value *fall = ll_load(l, ll_type(LL_F32, 1),
					att_head_number(s, s->fall, head));

	return ll_fma(l, distance, ll_splat(l, fall, s->t->lanes), scores);
}

/* Stores scores of a tile's heads, and their largest so far as `next`. */
static void
emit_scores(struct att_single *s, struct ll_value *head, uint32_t heads)
{
	struct score_tile t = { .s = s, .head = head, .heads = heads };
	struct ll *l = s->t->l;
	struct ll_value *most[SCORE_HEADS], *sums[SCORE_HEADS], *seen, *in;
	struct ll_value *far;
	struct ll_value *none = ll_num(l, vector(s), -INFINITY);
	struct ll_loop k;
	uint32_t i;

	for (i = 0; i < heads; i++) {
		most[i] = ll_load(l, ll_type(LL_F32, 1),
				  att_head_number(s, s->max, nth(s, head, i)));
		most[i] = ll_splat(l, most[i], s->t->lanes);
	}
	ll_loop(l, &k, att_down(l, s->from, s->t->lanes), s->to, s->t->lanes,
		most, heads);
	in = ll_sub(l, k.i, s->key0);
	find_keys(&t, in);
	multiply(&t, sums);
	seen = seen_lanes(s, k.i);
	far = distances(s, k.i);
	for (i = 0; i < heads; i++) {
		if (s->t->softcap > 0) {
			sums[i] = att_cap(s->t, sums[i]);
		}
		if (far) {
			sums[i] = with_bias(s, sums[i], far, nth(s, head, i));
		}
		sums[i] = ll_select(l, seen, sums[i], none);
		ll_store(l, sums[i], att_head_row(s, s->score, nth(s, head, i),
					    s->b.nk, in));
		most[i] = att_max(l, sums[i], k.at[i]);
	}
	ll_loop_end(l, &k, most);
	for (i = 0; i < heads; i++) {
		in = ll_max(l, k.at[i]);
		ll_store(l, in, att_head_number(s, s->next, nth(s, head, i)));
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
	max = att_head_number(s, s->max, h.i);
	next = ll_load(l, vector(s), att_head_number(s, s->next, h.i));
	alpha = cg_exp(l, ll_bin(l, LL_SUB, ll_load(l, vector(s), max),
				 next));
	ll_store(l, alpha, att_head_number(s, s->alpha, h.i));
	sum = att_head_number(s, s->sum, h.i);
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
	max = ll_load(l, ll_type(LL_F32, 1), att_head_number(s, s->max, h.i));
	max = ll_splat(l, max, s->t->lanes);
	ll_loop(l, &k, att_down(l, s->from, s->t->lanes), s->to, s->t->lanes,
		NULL, 0);
	at = att_head_row(s, s->score, h.i, s->b.nk, ll_sub(l, k.i, s->key0));
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
	struct ll_value *at = att_head_row(s, s->acc, nth(s, t->head, i),
					   s->b.vp, t->col);

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
				att_head_number(s, s->alpha, head));
		alpha = ll_splat(l, alpha, s->t->lanes);
		for (j = 0; j < t->vectors; j++) {
			x[i * t->vectors + j] = ll_bin(l, LL_MUL,
				ll_load(l, vector(s), acc_at(t, i, j)),
				alpha);
		}
		if (t->sums) {
			alpha = ll_load(l, ll_type(LL_F32, 1),
					att_head_number(s, s->sum, head));
			x[n + i] = ll_splat(l, alpha, s->t->lanes);
		}
	}
}

/* Prefetches the key of the next block with the number of this one. */
static void
prefetch_next(struct att_single *s, struct ll_value *in)
{
	struct ll *l = s->t->l;
	struct ll_value *next = ll_add(l, in, ll_i64(l, s->b.nk));

	next = ll_min(l, next, ll_add(l, s->listed, ll_i64(l, -1)));
	prefetch_row(s, &s->k, listed_row(s, s->k_rows, next, 0));
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
	if (t->sums) {
		prefetch_next(s, in);
	}
	row = listed_row(s, s->v_rows, in, 0);
	for (j = 0; j < t->vectors; j++) {
		int64_t left = live - j * lanes;

		v[j] = att_read_vector(l, &s->v, row, ll_add(l, t->col,
					ll_i64(l, j * lanes)),
				       left < lanes ? left : lanes);
	}
	for (i = 0; i < t->heads; i++) {
		p = ll_load(l, ll_type(LL_F32, 1),
			    att_head_row(s, s->score, nth(s, t->head, i),
					 s->b.nk, in));
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

		ll_store(l, sum, att_head_number(s, s->sum,
						 nth(s, t->head, i)));
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

/* ---- all blocks ---- */

void
att_single_blocks(struct att_single *s)
{
	struct ll *l = s->t->l;
	struct ll_loop k;

	prefetch_first(s);
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

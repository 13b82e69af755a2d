/*
 * A block of queries and a block of keys: scores, weights, and the gradient of
 * scores.
 */
#include "codegen/cpu/cpu_attention.h"

#include <math.h>

/* ---- scratch ---- */

#define KEYS_ALONE 256		/* up to so many keys are one block */
#define KEYS_BLOCK ATT_SELECTED_BLOCK

int64_t
att_keys_block(int64_t keys)
{
	return keys > KEYS_ALONE ? KEYS_BLOCK : keys > 0 ? keys : 1;
}

void
att_block_scratch(struct attn *t, struct att_block *b, int64_t nk)
{
	b->nq = 2 * (int64_t)t->lanes;
	b->nk = attn_round_up(nk, att_tile_rows(t->l));
	b->dp = attn_round_up(t->d, t->lanes);
	b->vp = attn_round_up(t->dv, t->lanes);
	b->key = att_own_alloc(t, b->nk * b->dp);
	b->v = att_own_alloc(t, b->nk * b->vp);
	b->key_pos = att_own_alloc(t, b->nk);
	b->score = att_own_alloc(t, b->nk * b->nq);
	b->slope = att_own_alloc(t, b->nk * b->nq);
	if (t->softcap > 0) {
		b->bend = att_own_alloc(t, b->nk * b->nq);
	}
}

/* i32 positions of places from `first` on; after the last live one its own. */
static void
positions(struct attn *t, struct ll_value *pieces, struct ll_value *first,
	  struct ll_value *live, int64_t count, struct ll_value *to)
{
	struct ll *l = t->l;
	struct ll_value *at;
	struct ll_loop i;

	ll_loop(l, &i, ll_i64(l, 0), ll_i64(l, count), 1, NULL, 0);
	at = ll_min(l, i.i, ll_add(l, live, ll_i64(l, -1)));
	at = att_position(l, pieces, ll_add(l, first, at));
	to = att_elem_at(l, to, i.i, 4);
	ll_store(l, ll_cast(l, at, LL_I32), to);
	ll_loop_end(l, &i, NULL);
}

/* The positions of keys that do not exist are after all queries. */
static void
hide_rest(struct attn *t, const struct att_block *b, struct ll_value *live)
{
	struct ll *l = t->l;
	struct ll_value *to = att_own_at(t, b->key_pos);
	struct ll_loop i;

	ll_loop(l, &i, live, ll_i64(l, b->nk), 1, NULL, 0);
	ll_store(l, ll_int(l, ll_type(LL_I32, 1), INT32_MAX),
		 att_elem_at(l, to, i.i, 4));
	ll_loop_end(l, &i, NULL);
}

void
att_read_keys(struct attn *t, const struct att_block *b,
	      const struct att_index *i, struct ll_value *live, bool with_v)
{
	struct att_rows rows = att_rows_at(t, &t->in[ATTN_K], i, live, t->d);

	att_read_rows(t->l, &rows, att_own_at(t, b->key), b->dp, b->nk, NULL);
	if (with_v) {
		rows = att_rows_at(t, &t->in[ATTN_V], i, live, t->dv);
		att_read_rows(t->l, &rows, att_own_at(t, b->v), b->vp, b->nk,
			 NULL);
	}
	if (attn_is_masked(t) || t->alibi > 0) {
		positions(t, t->pieces[ATTN_KEYS], i->pos, live, b->nk,
			  att_own_at(t, b->key_pos));
	}
	if (attn_is_masked(t)) {
		hide_rest(t, b, live);
	}
}

struct ll_value *
att_has_infinite(struct attn *t, const struct att_block *b)
{
	struct ll *l = t->l;
	const struct ll_type many = ll_type(LL_F32, t->lanes);
	struct ll_value *zero = ll_zero(l, many), *x = zero;
	struct ll_loop i;

	ll_loop(l, &i, ll_i64(l, 0), ll_i64(l, b->nk * b->vp), t->lanes, &x,
		1);
	x = ll_load(l, many, att_elem_at(l, att_own_at(t, b->v), i.i, 4));
	/* 0 times a number is 0, but of an infinity it is NaN */
	x = ll_fma(l, x, zero, i.at[0]);
	ll_loop_end(l, &i, &x);
	return ll_test(l, LL_NE, ll_sum(l, i.at[0]),
		       ll_zero(l, ll_type(LL_F32, 1)));
}

void
att_read_row(struct attn *t, const struct attn_view *v,
	     const struct att_index *i, struct ll_value *live, int64_t count,
	     double rest, struct ll_value *to)
{
	struct ll *l = t->l;
	const struct ll_type f32 = ll_type(LL_F32, 1);
	struct ll_value *at = att_ptr(t, v, i), *put;
	struct ll_loop q;

	ll_loop(l, &q, ll_i64(l, 0), live, 1, NULL, 0);
	put = att_elem_at(l, to, q.i, 4);
	at = att_elem_at(l, at, q.i, 4 * v->pos);
	ll_store(l, ll_load(l, f32, at), put);
	ll_loop_end(l, &q, NULL);
	ll_loop(l, &q, live, ll_i64(l, count), 1, NULL, 0);
	ll_store(l, ll_num(l, f32, rest), att_elem_at(l, to, q.i, 4));
	ll_loop_end(l, &q, NULL);
}

/* ---- scores ---- */

static struct ll_value *
row_at(struct attn *t, const struct att_tile *x, int64_t offset,
       struct ll_value *j, uint32_t v)
{
	struct ll_value *at = att_elem_at(t->l, att_own_at(t, offset), j,
				     4 * x->b->nq);

	return ll_plus_n(t->l, at, 4 * (int64_t)v * t->lanes);
}

static struct ll_type
vector(const struct attn *t)
{
	return ll_type(LL_F32, t->lanes);
}

static struct ll_value *
vector_at(struct attn *t, struct ll_value *pair, uint32_t v)
{
	return ll_plus_n(t->l, pair, 4 * (int64_t)v * t->lanes);
}

static void
rows_of(struct attn *t, const struct att_tile *x, int64_t keys, int64_t stride,
	int64_t cols, struct ll_value *b, int64_t to)
{
	struct ll *l = t->l;
	struct att_product p = { .a_row = stride, .a_col = 1, .b = b,
				 .b_row = x->b->nq, .c_row = x->b->nq,
				 .n = x->b->nq };

	p.a = att_own_at(t, keys);
	p.c = att_own_at(t, to);
	p.m_from = att_down(l, x->first, att_tile_rows(l));
	p.m_to = att_up(l, x->last, att_tile_rows(l));
	p.k_from = ll_i64(l, 0);
	p.k_to = ll_i64(l, cols);
	att_product(l, &p);
}

/* Begins the loop over all rows of a block's tiles. */
static void
each_row(struct attn *t, const struct att_tile *x, struct ll_loop *j)
{
	int64_t rows = att_tile_rows(t->l);
	struct ll_value *to = att_up(t->l, x->last, rows);

	ll_loop(t->l, j, att_down(t->l, x->first, rows), to, 1, NULL, 0);
}

/* The tangent of scores over the cap. */
static struct ll_value *
tangent(struct attn *t, struct ll_value *scores)
{
	struct ll_value *by = ll_num(t->l, vector(t), t->softcap);

	return cg_tanh(t->l, ll_bin(t->l, LL_DIV, scores, by));
}

struct ll_value *
att_cap(struct attn *t, struct ll_value *scores)
{
	return ll_bin(t->l, LL_MUL, tangent(t, scores),
		      ll_num(t->l, vector(t), t->softcap));
}

/* Replaces scores by capped ones, and stores their derivatives. */
static void
cap_scores(struct attn *t, const struct att_tile *x)
{
	struct ll *l = t->l;
	struct ll_value *by = ll_num(l, vector(t), t->softcap);
	struct ll_value *one = ll_num(l, vector(t), 1);
	struct ll_loop j;
	uint32_t v;

	each_row(t, x, &j);
	for (v = 0; v < 2; v++) {
		struct ll_value *at = row_at(t, x, x->b->score, j.i, v), *s;

		s = tangent(t, ll_load(l, vector(t), at));
		ll_store(l, ll_bin(l, LL_MUL, s, by), at);
		s = ll_bin(l, LL_SUB, one, ll_bin(l, LL_MUL, s, s));
		ll_store(l, s, row_at(t, x, x->b->bend, j.i, v));
	}
	ll_loop_end(l, &j, NULL);
}

/* Adds to scores how far their keys are after what alibi counts from, times
 * its slope. */
static void
add_alibi(struct attn *t, const struct att_tile *x)
{
	struct ll *l = t->l;
	struct ll_value *fall = ll_splat(l, x->fall, t->lanes), *key, *s;
	struct ll_type i32 = ll_type(LL_I32, t->lanes);
	struct ll_loop j;
	uint32_t v;

	each_row(t, x, &j);
	key = att_elem_at(l, att_own_at(t, x->b->key_pos), j.i, 4);
	key = ll_splat(l, ll_load(l, ll_type(LL_I32, 1), key), t->lanes);
	for (v = 0; v < 2; v++) {
		struct ll_value *at = row_at(t, x, x->b->score, j.i, v);

		s = ll_load(l, i32, vector_at(t, x->pos, v));
		s = ll_cast(l, ll_bin(l, LL_SUB, key, s), LL_F32);
		s = ll_fma(l, s, fall, ll_load(l, vector(t), at));
		ll_store(l, s, at);
	}
	ll_loop_end(l, &j, NULL);
}

void
att_scores(struct attn *t, const struct att_tile *x)
{
	rows_of(t, x, x->b->key, x->b->dp, t->d, x->qt, x->b->score);
	if (t->softcap > 0) {
		cap_scores(t, x);
	}
	if (x->fall) {
		add_alibi(t, x);
	}
}

/* ---- weights, block by block of keys ---- */

/* Updates the largest scores; those of masked keys become -inf. */
static void
largest(struct attn *t, const struct att_tile *x, struct ll_value *max,
	bool masked)
{
	struct ll *l = t->l;
	struct ll_value *most[2], *s;
	struct ll_loop j;
	uint32_t v;

	for (v = 0; v < 2; v++) {
		most[v] = ll_load(l, vector(t), vector_at(t, max, v));
	}
	ll_loop(l, &j, x->first, x->last, 1, most, 2);
	for (v = 0; v < 2; v++) {
		struct ll_value *at = row_at(t, x, x->b->score, j.i, v);

		s = ll_load(l, vector(t), at);
		if (masked) {
			s = ll_select(l, att_sees(t, x, j.i, v), s,
				      ll_num(l, vector(t), -INFINITY));
			ll_store(l, s, at);
		}
		most[v] = att_max(l, s, j.at[v]);
	}
	ll_loop_end(l, &j, most);
	for (v = 0; v < 2; v++) {
		ll_store(l, j.at[v], vector_at(t, max, v));
	}
}

/* Emits both ways, of which one is chosen when the program runs. */
static void
either(struct attn *t, const struct att_tile *x, struct ll_value *with,
       void (*emit)(struct attn *t, const struct att_tile *x,
		    struct ll_value *with, bool masked))
{
	struct ll *l = t->l;
	struct ll_block *yes, *no, *after;

	if (!x->masked) {
		emit(t, x, with, false);
		return;
	}
	yes = ll_block(l, NULL, "masked");
	no = ll_block(l, NULL, "plain");
	after = ll_block(l, NULL, "weighed");
	ll_branch(l, x->masked, yes, no);
	ll_at(l, yes);
	emit(t, x, with, true);
	ll_jump(l, after);
	ll_at(l, no);
	emit(t, x, with, false);
	ll_jump(l, after);
	ll_at(l, after);
}

void
att_weigh_more(struct attn *t, const struct att_tile *x, struct ll_value *max,
	     struct ll_value *sum, struct ll_value *alpha[2])
{
	struct ll *l = t->l;
	struct ll_value *old[2], *most[2], *sums[2], *p;
	struct ll_loop j;
	uint32_t v;

	for (v = 0; v < 2; v++) {
		old[v] = ll_load(l, vector(t), vector_at(t, max, v));
	}
	either(t, x, max, largest);
	for (v = 0; v < 2; v++) {
		most[v] = ll_load(l, vector(t), vector_at(t, max, v));
		alpha[v] = cg_exp(l, ll_bin(l, LL_SUB, old[v], most[v]));
		sums[v] = ll_load(l, vector(t), vector_at(t, sum, v));
		sums[v] = ll_bin(l, LL_MUL, sums[v], alpha[v]);
	}
	ll_loop(l, &j, x->first, x->last, 1, sums, 2);
	for (v = 0; v < 2; v++) {
		struct ll_value *at = row_at(t, x, x->b->score, j.i, v);

		p = ll_load(l, vector(t), at);
		p = cg_exp(l, ll_bin(l, LL_SUB, p, most[v]));
		ll_store(l, p, at);
		sums[v] = ll_bin(l, LL_ADD, j.at[v], p);
	}
	ll_loop_end(l, &j, sums);
	for (v = 0; v < 2; v++) {
		ll_store(l, j.at[v], vector_at(t, sum, v));
	}
}

void
att_weigh_begin_none(struct attn *t, int64_t count, struct ll_value *max,
		     struct ll_value *sum)
{
	att_fill(t->l, max, count, ATT_LEAST);
	att_fill(t->l, sum, count, 0);
}

struct ll_value *
att_sink(struct attn *t, const struct att_index *i)
{
	const struct ll_type f32 = ll_type(LL_F32, 1);
	struct ll *l = t->l;
	struct ll_value *least = ll_num(l, f32, ATT_LEAST), *sink, *none;

	sink = ll_load(l, f32, att_ptr(t, &t->in[ATTN_SINK], i));
	none = ll_test(l, LL_LT, sink, least);
	return ll_select(l, none, least, sink);
}

void
att_weigh_begin(struct attn *t, const struct att_index *i, int64_t count,
		struct ll_value *max, struct ll_value *sum)
{
	struct ll *l = t->l;
	struct ll_value *sink;
	struct ll_loop q;

	if (!t->values[ATTN_SINK]) {
		att_weigh_begin_none(t, count, max, sum);
		return;
	}
	sink = ll_splat(l, att_sink(t, i), t->lanes);
	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, count), t->lanes, NULL, 0);
	ll_store(l, sink, att_elem_at(l, max, q.i, 4));
	ll_loop_end(l, &q, NULL);
	att_fill(l, sum, count, 1);
}

/* Vector i of a row of queries. */
static struct ll_value *
vector_of(struct attn *t, struct ll_value *at, struct ll_value *i)
{
	return ll_load(t->l, vector(t), att_elem_at(t->l, at, i, 4));
}

void
att_lse(struct attn *t, int64_t count, struct ll_value *max,
	struct ll_value *sum, struct ll_value *to)
{
	struct ll *l = t->l;
	struct ll_value *zero = ll_zero(l, vector(t)), *s, *log;
	struct ll_loop i;

	ll_loop(l, &i, ll_i64(l, 0), ll_i64(l, count), t->lanes, NULL, 0);
	s = vector_of(t, sum, i.i);
	log = cg_log(l, s);
	log = ll_bin(l, LL_ADD, vector_of(t, max, i.i), log);
	s = ll_select(l, ll_test(l, LL_GT, s, zero), log, zero);
	ll_store(l, s, att_elem_at(l, to, i.i, 4));
	ll_loop_end(l, &i, NULL);
}

void
att_divide(struct attn *t, struct ll_value *acc, int64_t nq,
	   struct ll_value *rows_from, struct ll_value *rows_to,
	   struct ll_value *sum)
{
	struct ll *l = t->l;
	struct ll_value *zero = ll_zero(l, vector(t)), *by[2], *inverse, *at;
	struct ll_loop j;
	uint32_t v;

	for (v = 0; v < 2; v++) {
		by[v] = ll_load(l, vector(t), vector_at(t, sum, v));
		inverse = ll_bin(l, LL_DIV, ll_num(l, vector(t), 1), by[v]);
		by[v] = ll_select(l, ll_test(l, LL_GT, by[v], zero), inverse,
				  zero);
	}
	ll_loop(l, &j, rows_from, rows_to, 1, NULL, 0);
	for (v = 0; v < 2; v++) {
		at = vector_at(t, att_elem_at(l, acc, j.i, 4 * nq), v);
		ll_store(l, ll_bin(l, LL_MUL, ll_load(l, vector(t), at),
				   by[v]), at);
	}
	ll_loop_end(l, &j, NULL);
}

/* ---- weights, from LSE ---- */

static void
weigh(struct attn *t, const struct att_tile *x, struct ll_value *lse,
      bool masked)
{
	struct ll *l = t->l;
	int64_t rows = att_tile_rows(l);
	struct ll_value *sums[2], *to, *p;
	struct ll_loop j;
	uint32_t v;

	for (v = 0; v < 2; v++) {
		sums[v] = ll_load(l, vector(t), vector_at(t, lse, v));
	}
	to = att_up(l, x->last, rows);
	ll_loop(l, &j, att_down(l, x->first, rows), to, 1, NULL, 0);
	for (v = 0; v < 2; v++) {
		struct ll_value *at = row_at(t, x, x->b->score, j.i, v);

		p = ll_load(l, vector(t), at);
		p = cg_exp(l, ll_bin(l, LL_SUB, p, sums[v]));
		if (masked) {
			p = ll_select(l, att_sees(t, x, j.i, v), p,
				      ll_zero(l, vector(t)));
		}
		ll_store(l, p, at);
	}
	ll_loop_end(l, &j, NULL);
}

void
att_weigh(struct attn *t, const struct att_tile *x, struct ll_value *lse)
{
	either(t, x, lse, weigh);
}

/* ---- the gradient of scores ---- */

void
att_slopes(struct attn *t, const struct att_tile *x, struct ll_value *delta)
{
	struct ll *l = t->l;
	int64_t rows = att_tile_rows(l);
	struct ll_value *less[2], *to, *p, *s;
	struct ll_loop j;
	uint32_t v;

	rows_of(t, x, x->b->v, x->b->vp, t->dv, x->gt, x->b->slope);
	for (v = 0; v < 2; v++) {
		less[v] = ll_load(l, vector(t), vector_at(t, delta, v));
	}
	to = att_up(l, x->last, rows);
	ll_loop(l, &j, att_down(l, x->first, rows), to, 1, NULL, 0);
	for (v = 0; v < 2; v++) {
		struct ll_value *at = row_at(t, x, x->b->slope, j.i, v);

		p = ll_load(l, vector(t), row_at(t, x, x->b->score, j.i, v));
		s = ll_bin(l, LL_SUB, ll_load(l, vector(t), at), less[v]);
		s = ll_bin(l, LL_MUL, p, s);
		if (t->softcap > 0) {
			s = ll_bin(l, LL_MUL, s,
				   ll_load(l, vector(t), row_at(t, x,
					   x->b->bend, j.i, v)));
		}
		ll_store(l, s, at);
	}
	ll_loop_end(l, &j, NULL);
}

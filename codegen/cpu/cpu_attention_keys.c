/*
 * The step whose items are blocks of keys: gradients of keys and values,
 * which are sums over all queries that attend to them, in all heads of a kv
 * head.
 *
 * If the gradient of the queries fits the worker's scratch (cost_cpu_joint), an
 * item has all keys of a kv head: then scores are computed once for all three
 * gradients, with five products in place of seven.  No two workers add to the
 * same numbers, so the bits do not depend on how many there are.
 */
#include "codegen/cpu/cpu_attention.h"
#include "passes/price/cost.h"

struct by_keys {
	struct attn *t;
	struct att_block b;
	bool joint, alone;	/* alone: without LSE, as it has all keys */
	int64_t blocks;		/* of queries */
	int64_t q, qt, g, gt, lo, hi, pos, max, sum;	/* of one block */
	int64_t dk, dv, dq;	/* dq: of all blocks, transposed */
	struct att_index at;	/* of the item, its head a kv head */
	struct ll_value *live;	/* keys of the block */
};

/* A block of queries of one head. */
struct att_key_queries {
	struct ll_value *head, *first, *live, *dq;
	struct att_tile x;
};

static int64_t
query_blocks(const struct attn *t)
{
	return (t->queries + 2 * t->lanes - 1) / (2 * t->lanes);
}

bool
att_is_joint(const struct attn *t)
{
	const struct cost_gradients g = {
		.batches = t->batches, .kv = t->kv, .shared = t->shared,
		.queries = t->queries, .keys = t->keys, .d = t->d
	};

	return t->made[ATTN_DQ].value && t->heads_together &&
	       (t->made[ATTN_DK].value || t->made[ATTN_DV].value) &&
	       cost_cpu_joint(&g);
}

static void
open_keys(struct by_keys *s, struct attn *t)
{
	int64_t nq;

	*s = (struct by_keys){ .t = t, .joint = att_is_joint(t),
			       .alone = t->in[ATTN_L].place == ATTN_NONE,
			       .blocks = query_blocks(t) };
	att_block_scratch(t, &s->b, att_keys_block(t->keys));
	nq = s->b.nq;
	s->q = att_own_alloc(t, nq * s->b.dp);
	s->qt = att_own_alloc(t, nq * s->b.dp);
	s->g = att_own_alloc(t, nq * s->b.vp);
	s->gt = att_own_alloc(t, nq * s->b.vp);
	s->lo = att_own_alloc(t, nq);
	s->hi = att_own_alloc(t, nq);
	s->pos = att_own_alloc(t, nq);
	s->max = att_own_alloc(t, nq);
	s->sum = att_own_alloc(t, nq);
	s->dk = att_own_alloc(t, s->b.nk * s->b.dp);
	s->dv = att_own_alloc(t, s->b.nk * s->b.vp);
	s->dq = att_own_alloc(t, s->joint ? nq * s->b.dp * s->blocks * t->shared
				    : 0);
}

/* ---- queries ---- */

static void
read_matrix(struct by_keys *s, const struct attn_view *v,
	    const struct att_key_queries *q, int64_t cols, double by,
	    int64_t to, int64_t turned)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	int64_t wide = attn_round_up(cols, t->lanes);
	struct att_index i = s->at;
	struct ll_value *rows_to;
	struct att_rows rows;

	i.head = q->head;
	i.pos = q->first;
	rows = att_rows_at(t, v, &i, q->live, cols);
	att_read_rows(l, &rows, att_own_at(t, to), wide, s->b.nq,
		 by == 1 ? NULL : ll_num(l, ll_type(LL_F32, 1), by));
	rows_to = att_own_at(t, turned);
	att_transpose(l, att_own_at(t, to), wide, rows_to, s->b.nq, s->b.nq,
		      wide, NULL);
}

static void
read_block(struct by_keys *s, const struct att_key_queries *q)
{
	struct attn *t = s->t;
	struct att_index i = s->at;

	i.head = q->head;
	i.pos = q->first;
	read_matrix(s, &t->in[ATTN_Q], q, t->d, t->scale, s->q, s->qt);
	read_matrix(s, &t->in[ATTN_G], q, t->dv, 1, s->g, s->gt);
	if (s->alone) {
		struct ll_value *sum = att_own_at(t, s->sum);

		att_weigh_begin(t, &i, s->b.nq, att_own_at(t, s->max), sum);
	} else {
		att_read_row(t, &t->in[ATTN_L], &i, q->live, s->b.nq, ATT_FAR,
			     att_own_at(t, s->max));
	}
}

/* ---- products ---- */

/* to += (weights or their gradients) (dout or q), by key. */
static void
add_keys(struct by_keys *s, const struct att_tile *x, int64_t weights,
	 int64_t rows, int64_t wide, int64_t to)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct att_product p = { .a_row = s->b.nq, .a_col = 1, .b_row = wide,
				 .c_row = wide, .n = wide, .add = true };

	p.a = att_own_at(t, weights);
	p.b = att_own_at(t, rows);
	p.c = att_own_at(t, to);
	p.m_from = att_down(l, x->first, att_tile_rows(l));
	p.m_to = att_up(l, x->last, att_tile_rows(l));
	p.k_from = ll_i64(l, 0);
	p.k_to = ll_i64(l, s->b.nq);
	att_product(l, &p);
}

static void
add_queries(struct by_keys *s, const struct att_tile *x, struct ll_value *to)
{
	struct attn *t = s->t;
	struct att_product p = { .a_row = 1, .a_col = s->b.dp,
				 .b_row = s->b.nq, .c = to,
				 .c_row = s->b.nq, .n = s->b.nq,
				 .add = true };

	p.a = att_own_at(t, s->b.key);
	p.b = att_own_at(t, s->b.slope);
	p.m_from = ll_i64(t->l, 0);
	p.m_to = ll_i64(t->l, attn_round_up(t->d, att_tile_rows(t->l)));
	p.k_from = x->first;
	p.k_to = x->last;
	att_product(t->l, &p);
}

/* Sets rows of tiles that no query attends to to zero. */
static void
clear_between(struct by_keys *s, struct ll_value *from, struct ll_value *to)
{
	struct ll *l = s->t->l;
	struct ll_loop j;

	ll_loop(l, &j, from, to, 1, NULL, 0);
	att_fill(l, att_elem_at(l, att_own_at(s->t, s->b.score), j.i,
			   4 * s->b.nq), s->b.nq, 0);
	ll_loop_end(l, &j, NULL);
}

/* Weights of all keys at once, without LSE. */
static void
weigh_alone(struct by_keys *s, const struct att_key_queries *q)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	const struct att_tile *x = &q->x;
	struct ll_value *max = att_own_at(t, s->max), *unused[2];
	struct ll_value *sum = att_own_at(t, s->sum);
	int64_t rows = att_tile_rows(l);

	att_weigh_more(t, x, max, sum, unused);
	att_divide(t, att_own_at(t, s->b.score), s->b.nq, x->first, x->last,
		   sum);
	clear_between(s, att_down(l, x->first, rows), x->first);
	clear_between(s, x->last, att_up(l, x->last, rows));
}

static void
with_tile(struct by_keys *s, const struct att_key_queries *q)
{
	struct attn *t = s->t;
	const struct att_tile *x = &q->x;
	struct ll_value *delta = att_own_at(t, s->sum);
	struct att_index i = s->at;

	att_scores(t, x);
	if (s->alone) {
		weigh_alone(s, q);
	} else {
		att_weigh(t, x, att_own_at(t, s->max));
	}
	if (t->made[ATTN_DV].value) {
		add_keys(s, x, s->b.score, s->g, s->b.vp, s->dv);
	}
	if (!t->made[ATTN_DK].value && !s->joint) {
		return;
	}
	i.head = q->head;
	i.pos = q->first;
	att_read_row(t, &t->in[ATTN_DELTA], &i, q->live, s->b.nq, 0, delta);
	att_slopes(t, x, delta);
	if (t->made[ATTN_DK].value) {
		add_keys(s, x, s->b.slope, s->q, s->b.dp, s->dk);
	}
	if (s->joint) {
		add_queries(s, x, q->dq);
	}
}

/* ---- loops ---- */

static void
each_queries(struct by_keys *s, struct ll_value *head, struct ll_value *key0,
	     struct ll_value *nth)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct att_key_queries q = { .head = head };
	struct att_index i = s->at;
	struct ll_value *row, *fall = att_alibi_slope(t, head);
	struct att_if some;
	struct ll_loop loop;

	ll_loop(l, &loop, ll_i64(l, 0), ll_i64(l, t->queries), s->b.nq, NULL,
		0);
	q.first = loop.i;
	q.live = ll_min(l, ll_i64(l, s->b.nq),
			 ll_bin(l, LL_SUB, ll_i64(l, t->queries), loop.i));
	row = ll_add(l, ll_mul_n(l, nth, s->blocks * s->b.nq), loop.i);
	q.dq = att_elem_at(l, att_own_at(t, s->dq), row, 4 * s->b.dp);
	q.x = (struct att_tile){ .b = &s->b, .key0 = key0 };
	q.x.lo = att_own_at(t, s->lo);
	q.x.hi = att_own_at(t, s->hi);
	i.pos = q.first;
	q.x.pos = att_own_at(t, s->pos);
	q.x.fall = fall;
	att_read_ranges(t, &q.x, &i, q.live);
	q.x.qt = att_own_at(t, s->qt);
	q.x.gt = att_own_at(t, s->gt);
	att_find_seen(t, &q.x, q.first, q.live);
	att_if_begin(l, &some, ll_test(l, LL_LT, q.x.first, q.x.last));
	read_block(s, &q);
	with_tile(s, &q);
	att_if_end(l, &some);
	ll_loop_end(l, &loop, NULL);
}

/* All heads that share this kv head. */
static void
each_head(struct by_keys *s, struct ll_value *key0)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *head;
	struct ll_loop h;
	struct att_if mine;

	if (t->heads_together) {
		ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, t->shared), 1, NULL,
			0);
		head = ll_add(l, ll_mul_n(l, s->at.head, t->shared), h.i);
		each_queries(s, head, key0, h.i);
		ll_loop_end(l, &h, NULL);
		return;
	}
	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, t->heads), 1, NULL, 0);
	att_if_begin(l, &mine,
		     ll_test(l, LL_EQ, att_kv_head(t, h.i), s->at.head));
	each_queries(s, h.i, key0, ll_i64(l, 0));
	att_if_end(l, &mine);
	ll_loop_end(l, &h, NULL);
}

static bool
keys_block(struct by_keys *s, struct ll_value *key0)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct att_index i = s->at;
	bool ok = true;

	i.pos = key0;
	s->live = ll_min(l, ll_i64(l, s->b.nk),
			  ll_bin(l, LL_SUB, ll_i64(l, t->keys), key0));
	att_read_keys(t, &s->b, &i, s->live, t->in[ATTN_V].place != ATTN_NONE);
	att_fill(l, att_own_at(t, s->dk), s->b.nk * s->b.dp, 0);
	att_fill(l, att_own_at(t, s->dv), s->b.nk * s->b.vp, 0);
	each_head(s, key0);
	if (t->made[ATTN_DK].value) {
		ok = att_store_result(t, ATTN_DK, &i, att_own_at(t, s->dk),
				      s->b.dp, s->b.nk, s->live);
	}
	if (ok && t->made[ATTN_DV].value) {
		ok = att_store_result(t, ATTN_DV, &i, att_own_at(t, s->dv),
				      s->b.vp, s->b.nk, s->live);
	}
	return ok;
}

/* Stores the gradient of the queries of all heads, transposed back. */
static bool
put_queries(struct by_keys *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *row = att_own_at(t, s->q), *from, *live;
	struct ll_value *by = ll_num(l, ll_type(LL_F32, 1), t->scale);
	struct att_index i = s->at;
	struct ll_loop h, q;
	bool ok;

	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, t->shared), 1, NULL, 0);
	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, t->queries), s->b.nq, NULL, 0);
	i.head = ll_add(l, ll_mul_n(l, s->at.head, t->shared), h.i);
	i.pos = q.i;
	from = ll_add(l, ll_mul_n(l, h.i, s->blocks * s->b.nq), q.i);
	from = att_elem_at(l, att_own_at(t, s->dq), from, 4 * s->b.dp);
	att_transpose(l, from, s->b.nq, row, s->b.dp, s->b.dp, s->b.nq, by);
	live = ll_min(l, ll_i64(l, s->b.nq),
		       ll_bin(l, LL_SUB, ll_i64(l, t->queries), q.i));
	ok = att_store_result(t, ATTN_DQ, &i, row, s->b.dp, s->b.nq, live);
	ll_loop_end(l, &q, NULL);
	ll_loop_end(l, &h, NULL);
	return ok;
}

/* Finds the item's sequence and kv head.  Returns its first key. */
static struct ll_value *
open_item(struct by_keys *s, struct ll_value *item)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *kv = ll_i64(l, attn_divisor(t->kv));
	struct ll_value *all = ll_i64(l, attn_divisor(t->batches));

	s->at.head = ll_bin(l, LL_REM, item, kv);
	item = ll_bin(l, LL_DIV, item, kv);
	att_batch(t, ll_bin(l, LL_REM, item, all), &s->at);
	return ll_mul_n(l, ll_bin(l, LL_DIV, item, all), s->b.nk);
}

bool
att_keys_gradients(struct attn *t)
{
	struct ll *l = t->l;
	int64_t nk = attn_round_up(att_keys_block(t->keys), att_tile_rows(l));
	int64_t blocks = att_is_joint(t) ? 1 : (t->keys + nk - 1) / nk;
	struct ll_loop item, key;
	struct ll_value *key0;
	struct by_keys s;
	bool ok;

	att_step(t, "attention", blocks * t->batches * t->kv);
	open_keys(&s, t);
	att_items(t, &item);
	key0 = open_item(&s, item.i);
	if (s.joint) {
		att_fill(l, att_own_at(t, s.dq), s.b.nq * s.b.dp * s.blocks *
						 t->shared, 0);
		ll_loop(l, &key, ll_i64(l, 0), ll_i64(l, t->keys), s.b.nk,
			NULL, 0);
		key0 = key.i;
	}
	ok = keys_block(&s, key0);
	if (s.joint) {
		ll_loop_end(l, &key, NULL);
		ok = ok && put_queries(&s);
	}
	ll_loop_end(l, &item, NULL);
	att_step_end(t);
	return ok;
}

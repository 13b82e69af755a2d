/*
 * Steps whose items are blocks of queries: attention itself, LSE, and the
 * gradient of the queries if it is computed alone.  An item goes over the keys
 * that its queries attend to, block by block; several blocks of queries share
 * each block of keys that is read.  Where keys are added up in parts
 * (cpu_attention_parts.c), a query's sum is joined to that of its parts before
 * as its next part begins.
 */
#include "codegen/cpu/cpu_attention.h"

#define MOST_TOGETHER 4		/* blocks of queries of an item */

/* Blocks of queries on the rank, but at least one. */
static int64_t
all_blocks(const struct attn *t)
{
	int64_t nq = 2 * (int64_t)t->lanes;

	return t->queries > 0 ? (t->queries + nq - 1) / nq : 1;
}

/* ---- what the items of a step share ---- */

struct att_by_queries {
	struct attn *t;
	struct att_block b;
	bool back;		/* DQ, not OUT and LSE */
	bool dense;		/* blocks whose queries are sparse are left */
	bool has_parts;
	int64_t together, blocks;	/* of queries; items of a head */
	/* offsets in scratch; all but the first for each block of queries */
	int64_t row, qt, gt, lo, hi, pos, max, sum, acc;
	int64_t acc_cols;	/* of the result, in whole vectors */
	/* of parts: i32, where the first one begins and how long they are; the
	 * sums of all that are joined */
	int64_t start, size, all_max, all_sum, all_acc;
	/* of the item */
	struct att_index at;	/* of its first query */
	/* kv head; how many queries; the slope of alibi, or NULL */
	struct ll_value *kv, *live, *fall;
};

static void
open_queries(struct att_by_queries *s, struct attn *t, bool back)
{
	int64_t count = all_blocks(t), wide, n;

	*s = (struct att_by_queries){ .t = t, .back = back,
				      .dense = !back && att_has_single(t),
				      .has_parts = !back && att_has_parts(t) };
	att_block_scratch(t, &s->b, t->in[ATTN_K].is_selected || s->has_parts
			  ? ATT_SELECTED_BLOCK : att_keys_block(t->keys));
	s->together = count < MOST_TOGETHER ? count : MOST_TOGETHER;
	s->blocks = (count + s->together - 1) / s->together;
	wide = s->b.dp > s->b.vp ? s->b.dp : s->b.vp;
	n = s->together * s->b.nq;
	s->row = att_own_alloc(t, s->b.nq * wide);
	s->qt = att_own_alloc(t, n * s->b.dp);
	s->gt = att_own_alloc(t, back ? n * s->b.vp : 0);
	s->lo = att_own_alloc(t, n);
	s->hi = att_own_alloc(t, n);
	s->pos = att_own_alloc(t, n);
	s->max = att_own_alloc(t, n);
	s->sum = att_own_alloc(t, n);
	s->acc_cols = back ? s->b.dp : s->b.vp;
	s->acc = att_own_alloc(t, n * s->acc_cols);
	s->all_max = s->max;
	s->all_sum = s->sum;
	s->all_acc = s->acc;
	if (s->has_parts) {
		s->start = att_own_alloc(t, n);
		s->size = att_own_alloc(t, n);
		s->all_max = att_own_alloc(t, n);
		s->all_sum = att_own_alloc(t, n);
		s->all_acc = att_own_alloc(t, n * s->acc_cols);
	}
}

/* Items with most keys first: in causal attention, the last queries. */
static void
open_item(struct att_by_queries *s, struct ll_value *item)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *heads = ll_i64(l, attn_divisor(t->heads));
	struct ll_value *all = ll_i64(l, attn_divisor(t->batches)), *b;
	int64_t size = s->together * s->b.nq;

	s->at.head = ll_bin(l, LL_REM, item, heads);
	b = ll_bin(l, LL_DIV, item, heads);
	att_batch(t, ll_bin(l, LL_REM, b, all), &s->at);
	b = ll_bin(l, LL_SUB, ll_i64(l, s->blocks - 1),
		   ll_bin(l, LL_DIV, b, all));
	s->at.pos = ll_mul_n(l, b, size);
	s->live = ll_bin(l, LL_SUB, ll_i64(l, t->queries), s->at.pos);
	s->live = ll_min(l, s->live, ll_i64(l, size));
	s->kv = att_kv_head(t, s->at.head);
	s->fall = att_alibi_slope(t, s->at.head);
}

/* ---- blocks of queries ---- */

/* Its index in the item, and its first query in the item and on the rank. */
struct att_query_block {
	struct ll_value *n, *in_item, *query, *live;
};

static void
open_block(struct att_by_queries *s, struct ll_loop *loop,
	   struct att_query_block *x)
{
	struct ll *l = s->t->l;

	ll_loop(l, loop, ll_i64(l, 0), s->live, s->b.nq, NULL, 0);
	x->in_item = loop->i;
	x->n = ll_bin(l, LL_DIV, loop->i, ll_i64(l, s->b.nq));
	x->query = ll_add(l, s->at.pos, loop->i);
	x->live = ll_bin(l, LL_SUB, s->live, loop->i);
	x->live = ll_min(l, x->live, ll_i64(l, s->b.nq));
}

/* The block's part of scratch that has so many floats for each query. */
static struct ll_value *
part(struct att_by_queries *s, int64_t offset, const struct att_query_block *x,
     int64_t floats)
{
	return att_elem_at(s->t->l, att_own_at(s->t, offset), x->in_item,
		      4 * floats);
}

/* The block with no keys yet. */
static struct att_tile
tile_of(struct att_by_queries *s, const struct att_query_block *x)
{
	struct att_tile tile = { .b = &s->b, .fall = s->fall };

	tile.lo = part(s, s->lo, x, 1);
	tile.hi = part(s, s->hi, x, 1);
	tile.pos = part(s, s->pos, x, 1);
	return tile;
}

/* Reads q or dout of a block, transposed. */
static void
read_turned(struct att_by_queries *s, const struct attn_view *v,
	    const struct att_query_block *x, int64_t cols, double by,
	    struct ll_value *to)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	int64_t wide = attn_round_up(cols, t->lanes);
	struct att_index i = s->at;
	struct att_rows rows;

	i.pos = x->query;
	rows = att_rows_at(t, v, &i, x->live, cols);
	att_read_rows(l, &rows, att_own_at(t, s->row), wide, s->b.nq,
		 by == 1 ? NULL : ll_num(l, ll_type(LL_F32, 1), by));
	att_transpose(l, att_own_at(t, s->row), wide, to, s->b.nq, s->b.nq,
		      wide, NULL);
}

/* ---- parts of keys ---- */

/* Finds the parts of each query of a block. */
static void
find_parts(struct att_by_queries *s, const struct att_query_block *x,
	   const struct att_tile *tile)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *first, *last;
	struct att_parts p;
	struct ll_loop q;

	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, s->b.nq), 1, NULL, 0);
	att_range_at(t, tile, q.i, &first, &last);
	att_find_parts(t, first, last, &p);
	first = att_elem_at(l, part(s, s->start, x, 1), q.i, 4);
	ll_store(l, ll_cast(l, p.from, LL_I32), first);
	last = att_elem_at(l, part(s, s->size, x, 1), q.i, 4);
	ll_store(l, ll_cast(l, p.size, LL_I32), last);
	ll_loop_end(l, &q, NULL);
}

/* Vector v of a row of numbers of the block's queries. */
static struct ll_value *
vector_at(struct att_by_queries *s, struct ll_value *row, uint32_t v)
{
	return ll_plus_n(s->t->l, row, 4 * (int64_t)v * s->t->lanes);
}

/* Of vector v of queries those of which another part begins at the key. */
static struct ll_value *
begins(struct att_by_queries *s, const struct att_query_block *x,
       const struct att_tile *tile, struct ll_value *key, uint32_t v)
{
	struct ll *l = s->t->l;
	struct ll_type many = ll_type(LL_I32, s->t->lanes);
	struct ll_value *zero = ll_zero(l, many), *in, *size, *yes, *more;

	key = ll_splat(l, ll_cast(l, key, LL_I32), s->t->lanes);
	in = ll_load(l, many, vector_at(s, part(s, s->start, x, 1), v));
	in = ll_bin(l, LL_SUB, key, in);
	size = ll_load(l, many, vector_at(s, part(s, s->size, x, 1), v));
	/* a power of two */
	size = ll_bin(l, LL_ADD, size, ll_int(l, many, -1));
	yes = ll_test(l, LL_EQ, ll_bin(l, LL_AND, in, size), zero);
	more = ll_test(l, LL_GT, in, zero);
	yes = ll_bin(l, LL_AND, yes, more);
	more = ll_load(l, many, vector_at(s, tile->hi, v));
	return ll_bin(l, LL_AND, yes, ll_test(l, LL_LE, key, more));
}

/* Sets those numbers of a vector to x. */
static void
reset(struct ll *l, struct ll_value *is, double x, struct ll_value *at)
{
	struct ll_type many = ll_type(LL_F32, ll_typeof(l, is).lanes);

	ll_store(l, ll_select(l, is, ll_num(l, many, x),
			      ll_load(l, many, at)), at);
}

/* Joins sums of vector v of queries, of which `is` (NULL: all), to those of
 * their parts before, and begins others. */
static void
join_vector(struct att_by_queries *s, const struct att_query_block *x,
	    struct ll_value *is, uint32_t v)
{
	struct ll *l = s->t->l;
	struct ll_type many = ll_type(LL_F32, s->t->lanes);
	struct ll_value *max = vector_at(s, part(s, s->max, x, 1), v);
	struct ll_value *sum = vector_at(s, part(s, s->sum, x, 1), v);
	struct ll_value *all_max = vector_at(s, part(s, s->all_max, x, 1), v);
	struct ll_value *all_sum = vector_at(s, part(s, s->all_sum, x, 1), v);
	struct ll_value *at, *acc, *old, *more;
	struct att_sum all, one = { NULL };
	struct ll_loop j;

	all.max = ll_load(l, many, all_max);
	all.sum = ll_load(l, many, all_sum);
	one.max = ll_load(l, many, max);
	one.sum = ll_load(l, many, sum);
	att_join(l, &all, &one);
	if (is) {
		all.max = ll_select(l, is, all.max, ll_load(l, many, all_max));
		all.sum = ll_select(l, is, all.sum, ll_load(l, many, all_sum));
		reset(l, is, ATT_LEAST, max);
		reset(l, is, 0, sum);
	}
	ll_store(l, all.max, all_max);
	ll_store(l, all.sum, all_sum);
	ll_loop(l, &j, ll_i64(l, 0), ll_i64(l, s->acc_cols), 1, NULL, 0);
	acc = vector_at(s, att_elem_at(l, part(s, s->acc, x, s->acc_cols),
				       j.i, 4 * s->b.nq), v);
	at = vector_at(s, att_elem_at(l, part(s, s->all_acc, x, s->acc_cols),
				      j.i, 4 * s->b.nq), v);
	old = ll_load(l, many, at);
	more = att_joined(l, &all, old, ll_load(l, many, acc));
	ll_store(l, is ? ll_select(l, is, more, old) : more, at);
	if (is) {
		reset(l, is, 0, acc);
	}
	ll_loop_end(l, &j, NULL);
}

/* Where another part of some queries of the block begins at the key, joins
 * what these have. */
static void
join_before(struct att_by_queries *s, const struct att_query_block *x,
	    const struct att_tile *tile, struct ll_value *key)
{
	struct ll *l = s->t->l;
	struct ll_value *is[2], *any, *n[2];
	struct att_if some;
	uint32_t v;

	for (v = 0; v < 2; v++) {
		is[v] = begins(s, x, tile, key, v);
		n[v] = ll_sum(l, ll_cast(l, is[v], LL_I32));
	}
	any = ll_bin(l, LL_OR, n[0], n[1]);
	att_if_begin(l, &some, ll_test(l, LL_NE, any,
				       ll_zero(l, ll_type(LL_I32, 1))));
	for (v = 0; v < 2; v++) {
		join_vector(s, x, is[v], v);
	}
	att_if_end(l, &some);
}

static void
begin_parts(struct att_by_queries *s, const struct att_query_block *x)
{
	struct ll_value *sum;

	att_fill(s->t->l, part(s, s->all_acc, x, s->acc_cols),
		 s->b.nq * s->acc_cols, 0);
	sum = part(s, s->all_sum, x, 1);
	att_weigh_begin_none(s->t, s->b.nq, part(s, s->all_max, x, 1), sum);
}

/* ---- what they start with ---- */

/* What the queries of a block start with. */
static void
begin_block(struct att_by_queries *s, const struct att_query_block *x)
{
	struct attn *t = s->t;
	struct att_index i = s->at;

	i.pos = x->query;
	read_turned(s, &t->in[ATTN_Q], x, t->d, t->scale,
		    part(s, s->qt, x, s->b.dp));
	att_fill(t->l, part(s, s->acc, x, s->acc_cols),
		 s->b.nq * s->acc_cols, 0);
	if (s->back) {
		read_turned(s, &t->in[ATTN_G], x, t->dv, 1,
			    part(s, s->gt, x, s->b.vp));
		att_read_row(t, &t->in[ATTN_L], &i, x->live, s->b.nq, ATT_FAR,
			     part(s, s->max, x, 1));
		att_read_row(t, &t->in[ATTN_DELTA], &i, x->live, s->b.nq, 0,
			     part(s, s->sum, x, 1));
	} else {
		struct ll_value *sum = part(s, s->sum, x, 1);

		att_weigh_begin(t, &i, s->b.nq, part(s, s->max, x, 1),
				sum);
	}
	if (s->has_parts) {
		begin_parts(s, x);
	}
}

static void
read_queries(struct att_by_queries *s)
{
	struct attn *t = s->t;
	struct att_query_block x;
	struct att_tile tile;
	struct att_if seen;
	struct ll_loop loop;
	struct att_index i;

	open_block(s, &loop, &x);
	i = s->at;
	i.pos = x.query;
	tile = tile_of(s, &x);
	att_read_ranges(t, &tile, &i, x.live);
	if (s->has_parts) {
		find_parts(s, &x, &tile);
	}
	if (s->dense) {
		struct ll_value *sparse = att_is_sparse(t, &tile, x.live);

		att_hide_keys(t, &tile, sparse);
		att_if_begin(t->l, &seen, ll_test(t->l, LL_EQ, sparse,
			ll_int(t->l, ll_type(LL_I1, 1), 0)));
	}
	begin_block(s, &x);
	if (s->dense) {
		att_if_end(t->l, &seen);
	}
	ll_loop_end(t->l, &loop, NULL);
}

/* ---- blocks of keys ---- */

/* acc += (keys or values)^T (gradients of scores or weights). */
static struct att_product
sum_of(struct att_by_queries *s, const struct att_tile *x, struct ll_value *acc)
{
	struct attn *t = s->t;
	struct att_product p = { .a_row = 1, .b_row = s->b.nq, .c = acc,
				 .c_row = s->b.nq, .n = s->b.nq, .add = true };

	p.a = att_own_at(t, s->back ? s->b.key : s->b.v);
	p.a_col = s->back ? s->b.dp : s->b.vp;
	p.b = att_own_at(t, s->back ? s->b.slope : s->b.score);
	p.m_from = ll_i64(t->l, 0);
	p.m_to = ll_i64(t->l, attn_round_up(s->back ? t->d : t->dv,
					att_tile_rows(t->l)));
	p.k_from = x->first;
	p.k_to = x->last;
	return p;
}

struct seen_lanes {
	struct attn *t;
	const struct att_tile *x;
};

static struct ll_value *
lanes_that_see(void *of, struct ll_value *k, uint32_t v)
{
	struct seen_lanes *s = of;

	return att_sees(s->t, s->x, k, v);
}

/*
 * acc = acc alpha + values^T weights.  Values of keys that a query does not see
 * have weight 0, whose product with NaN or an infinity is NaN: where the block
 * has one of these, `infinite`, such products are left out.  Others are 0.
 */
static void
add_values(struct att_by_queries *s, const struct att_tile *x,
	   struct ll_value *acc, struct ll_value *const *alpha,
	   struct ll_value *infinite)
{
	struct seen_lanes seen = { s->t, x };
	struct att_product p = sum_of(s, x, acc);
	struct ll *l = s->t->l;
	struct ll_block *some, *all, *after;

	p.by = alpha;
	if (!infinite) {
		att_product(l, &p);
		return;
	}
	some = ll_block(l, NULL, "some");
	all = ll_block(l, NULL, "all");
	after = ll_block(l, NULL, "added");
	ll_branch(l, infinite, some, all);
	ll_at(l, all);
	att_product(l, &p);
	ll_jump(l, after);
	ll_at(l, some);
	p.lanes = lanes_that_see;
	p.of = &seen;
	att_product(l, &p);
	ll_jump(l, after);
	ll_at(l, after);
}

/* infinite: att_has_infinite of the keys' values; NULL: it does not matter. */
static void
with_keys(struct att_by_queries *s, struct ll_value *key0,
	  struct ll_value *infinite)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *max, *sum, *alpha[2];
	struct ll_loop loop;
	struct att_query_block q;
	struct att_product p;
	struct att_if some;
	struct att_tile x;

	open_block(s, &loop, &q);
	x = tile_of(s, &q);
	x.key0 = key0;
	x.qt = part(s, s->qt, &q, s->b.dp);
	x.gt = part(s, s->gt, &q, s->b.vp);
	max = part(s, s->max, &q, 1);
	sum = part(s, s->sum, &q, 1);
	att_find_seen(t, &x, q.query, q.live);
	att_if_begin(l, &some, ll_test(l, LL_LT, x.first, x.last));
	att_scores(t, &x);
	if (s->has_parts) {
		join_before(s, &q, &x, key0);
	}
	if (s->back) {
		att_weigh(t, &x, max);
		att_slopes(t, &x, sum);
		p = sum_of(s, &x, part(s, s->acc, &q, s->acc_cols));
		att_product(l, &p);
	} else {
		att_weigh_more(t, &x, max, sum, alpha);
		if (t->made[ATTN_OUT].value) {
			add_values(s, &x, part(s, s->acc, &q, s->acc_cols),
				   alpha, infinite);
		}
	}
	att_if_end(l, &some);
	ll_loop_end(l, &loop, NULL);
}

/* From the first key that a query of the item attends to, to the last one. */
static void
each_keys(struct att_by_queries *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *first, *last, *lo = att_own_at(t, s->lo);
	bool values = !s->back && t->made[ATTN_OUT].value &&
		      attn_is_between(t);
	struct att_index i = s->at;
	struct ll_loop k;

	att_find_keys(t, s->at.pos, s->live, lo, att_own_at(t, s->hi), &first,
		      &last);
	ll_loop(l, &k, att_down(l, first, s->b.nk), last, s->b.nk, NULL, 0);
	i.head = s->kv;
	i.pos = k.i;
	att_read_keys(t, &s->b, &i,
		      ll_min(l, ll_i64(l, s->b.nk),
			      ll_bin(l, LL_SUB, ll_i64(l, t->keys), k.i)),
		      s->back || t->made[ATTN_OUT].value);
	with_keys(s, k.i, values ? att_has_infinite(t, &s->b) : NULL);
	ll_loop_end(l, &k, NULL);
}

/* ---- results ---- */

static void
put_lse(struct att_by_queries *s, const struct att_query_block *x,
	struct att_index *i)
{
	struct attn *t = s->t;
	struct ll_value *to = att_own_at(t, s->row);
	struct ll_value *sum = part(s, s->all_sum, x, 1);

	att_lse(t, s->b.nq, part(s, s->all_max, x, 1), sum, to);
	att_store_result(t, ATTN_LSE, i, to, 1, s->b.nq, x->live);
}

static bool
put_block(struct att_by_queries *s, const struct att_query_block *x)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	enum attn_result r = s->back ? ATTN_DQ : ATTN_OUT;
	struct ll_value *acc, *row = att_own_at(t, s->row);
	struct ll_value *by = ll_num(l, ll_type(LL_F32, 1), t->scale);
	struct att_index i = s->at;
	bool ok = true;
	uint32_t v;

	i.pos = x->query;
	for (v = 0; s->has_parts && v < 2; v++) {
		join_vector(s, x, NULL, v);
	}
	if (t->made[r].value) {
		acc = part(s, s->all_acc, x, s->acc_cols);
		if (!s->back) {
			att_divide(t, acc, s->b.nq, ll_i64(l, 0),
				   ll_i64(l, t->dv),
				   part(s, s->all_sum, x, 1));
		}
		att_transpose(l, acc, s->b.nq, row, s->acc_cols, s->acc_cols,
			 s->b.nq, s->back ? by : NULL);
		ok = att_store_result(t, r, &i, row, s->acc_cols, s->b.nq,
				      x->live);
	}
	if (!s->back && t->made[ATTN_LSE].value) {
		put_lse(s, x, &i);
	}
	return ok;
}

static bool
put_item(struct att_by_queries *s)
{
	struct ll *l = s->t->l;
	struct att_query_block x;
	struct ll_value *hidden;
	struct att_tile tile;
	struct att_if seen;
	struct ll_loop loop;
	bool ok;

	open_block(s, &loop, &x);
	tile = tile_of(s, &x);
	if (s->dense) {
		hidden = att_is_hidden(s->t, &tile);
		att_if_begin(l, &seen, ll_test(l, LL_EQ, hidden,
			ll_int(l, ll_type(LL_I1, 1), 0)));
	}
	ok = put_block(s, &x);
	if (s->dense) {
		att_if_end(l, &seen);
	}
	ll_loop_end(l, &loop, NULL);
	return ok;
}

static bool
blocks_item(struct att_by_queries *s, struct ll_value *item)
{
	open_item(s, item);
	read_queries(s);
	each_keys(s);
	return put_item(s);
}

/*
 * Items of blocks, evenly among those of single queries, of which there is work
 * for few, or none, in some steps: workers take items that follow each other
 * together, and no worker is to have all blocks.
 */
static bool
either_item(struct att_by_queries *s, struct att_single *one,
	    struct ll_value *item, int64_t blocks)
{
	struct ll *l = s->t->l;
	int64_t all = blocks + att_single_items(one);
	struct ll_value *before, *after, *is_block;
	struct att_if in;
	bool ok;

	/* how many blocks are before this item, and before the next one */
	before = ll_div_n(l, ll_mul_n(l, item, blocks), all);
	after = ll_add(l, item, ll_i64(l, 1));
	after = ll_div_n(l, ll_mul_n(l, after, blocks), all);
	is_block = ll_test(l, LL_LT, before, after);
	att_if_begin(l, &in, is_block);
	ok = blocks_item(s, before);
	att_if_end(l, &in);
	att_if_begin(l, &in, ll_test(l, LL_EQ, before, after));
	ok = ok && att_single_item(one, ll_sub(l, item, before));
	att_if_end(l, &in);
	return ok;
}

static bool
step(struct attn *t, bool back)
{
	int64_t blocks = (all_blocks(t) + MOST_TOGETHER - 1) / MOST_TOGETHER *
			 t->batches * t->heads;
	struct att_single *one = !back && att_has_single(t)
		? att_single_open(t) : NULL;
	bool only = one && att_is_all_single(t);
	int64_t singles = one ? att_single_items(one) : 0;
	struct att_by_queries s;
	struct ll_loop item;
	bool ok;

	att_step(t, "attention", (only ? 0 : blocks) + singles);
	open_queries(&s, t, back);
	if (one) {
		int64_t own = only ? 0 : t->own;

		/* an item is of either, so both begin at the same place */
		t->own = 0;
		att_single_begin(one);
		t->own = t->own > own ? t->own : own;
	}
	att_items(t, &item);
	ok = !one ? blocks_item(&s, item.i)
	    : only ? att_single_item(one, item.i)
	    : either_item(&s, one, item.i, blocks);
	ll_loop_end(t->l, &item, NULL);
	att_step_end(t);
	return ok;
}

bool
att_forward(struct attn *t)
{
	return step(t, false);
}

bool
att_queries_gradient(struct attn *t)
{
	return step(t, true);
}

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

#define MOST_HEADS 32		/* heads of a unit, if they can be divided */
#define LEAST_HEADS 8

/* ---- which queries ---- */

bool
att_has_single(const struct attn *t)
{
	return t->made[ATTN_OUT].value && attn_is_between(t) &&
	       t->heads_together && !t->axes &&
	       t->spread[ATTN_KEYS] == UINT32_MAX &&
	       t->in[ATTN_K].col == 1 && t->in[ATTN_V].col == 1;
}

bool
att_is_all_single(const struct attn *t)
{
	return att_has_single(t) &&
	       t->queries * ATT_SPARSE <= 2 * (int64_t)t->lanes;
}

/* Heads of a unit: many heads of a kv head are several units. */
static int64_t
heads_of_unit(const struct attn *t)
{
	int64_t n = t->shared < MOST_HEADS ? t->shared : MOST_HEADS;

	while (n >= LEAST_HEADS && t->shared % n) {
		n--;
	}
	return t->shared % n ? t->shared : n;
}

/*
 * Items of the step, 2^bits if the work is listed.  Workers take items that
 * follow each other together, and at times there is work for few: so each has
 * an equal share of what there is, in its order, as units of a query read the
 * same rows.
 */
#define MOST_BITS 7

static uint32_t
bits_of(const struct att_single *s)
{
	int64_t all = (s->w.queries + s->w.slots) * s->w.units;
	uint32_t bits = 0;

	while (bits < MOST_BITS && all > (int64_t)1 << bits) {
		bits++;
	}
	return bits;
}

int64_t
att_single_items(const struct att_single *s)
{
	return s->is_listed ? (int64_t)1 << bits_of(s)
			    : s->w.queries * s->w.units;
}

/* Where an item's share of so many begins. */
static struct ll_value *
share_of(struct att_single *s, struct ll_value *item, struct ll_value *all)
{
	struct ll *l = s->t->l;

	return ll_bin(l, LL_LSHR, ll_bin(l, LL_MUL, item, all),
		      ll_i64(l, bits_of(s)));
}

struct att_single *
att_single_open(struct attn *t)
{
	struct att_single *s = arena_alloc(t->g->a, sizeof *s);

	*s = (struct att_single){ .t = t, .heads = heads_of_unit(t),
				  .always = att_is_all_single(t),
				  .has_parts = att_has_parts(t) };
	s->is_listed = s->has_parts || !s->always;
	s->units = t->shared / s->heads;
	s->w.queries = t->queries * t->batches;
	s->w.units = t->kv * s->units;
	s->b.nq = s->always ? 1 : 2 * (int64_t)t->lanes;
	s->b.nk = ATT_SELECTED_BLOCK;
	s->b.dp = attn_round_up(t->d, t->lanes);
	s->b.vp = attn_round_up(t->dv, t->lanes);
	if (s->is_listed) {
		att_single_list(s);
	}
	return s;
}

void
att_single_begin(struct att_single *s)
{
	struct attn *t = s->t;
	int64_t n = s->heads, padded = attn_round_up(n, t->lanes);
	int64_t rows = 2 * s->b.nk;	/* of a block, and of the next one */

	s->b.nq = 1;
	s->lo = att_own_alloc(t, s->b.nq);
	s->hi = att_own_alloc(t, s->b.nq);
	s->pos = att_own_alloc(t, s->b.nq);
	s->q = att_own_alloc(t, n * s->b.dp);
	s->score = att_own_alloc(t, n * s->b.nk);
	s->acc = att_own_alloc(t, n * s->b.vp);
	s->max = att_own_alloc(t, padded);
	s->fall = att_own_alloc(t, t->alibi > 0 ? padded : 0);
	s->next = att_own_alloc(t, padded);
	s->sum = att_own_alloc(t, padded);
	s->alpha = att_own_alloc(t, padded);
	s->k_rows = att_own_alloc(t, 2 * rows);
	s->v_rows = att_own_alloc(t, 2 * rows);
	s->all_max = s->max;
	s->all_sum = s->sum;
	s->all_acc = s->acc;
	if (s->has_parts) {
		s->all_max = att_own_alloc(t, padded);
		s->all_sum = att_own_alloc(t, padded);
		s->all_acc = att_own_alloc(t, n * s->b.vp);
	}
}

/* ---- the query of an item ---- */

/* Number `query` of all, and its heads of a unit. */
static void
find_query(struct att_single *s, struct ll_value *query, struct ll_value *unit)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *part = ll_rem_n(l, unit, s->units);

	s->kv = ll_div_n(l, unit, s->units);
	att_batch(t, ll_div_n(l, query, attn_divisor(t->queries)), &s->at);
	s->at.pos = ll_rem_n(l, query, attn_divisor(t->queries));
	s->at.head = ll_mul_n(l, s->kv, t->shared);
	s->at.head = ll_add(l, s->at.head, ll_mul_n(l, part, s->heads));
}

/* Finds the keys that the query sees. */
static void
find_range(struct att_single *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct att_tile x = { .b = &s->b };

	x.lo = att_own_at(t, s->lo);
	x.hi = att_own_at(t, s->hi);
	x.pos = att_own_at(t, s->pos);
	att_read_ranges(t, &x, &s->at, ll_i64(l, 1));
	att_range_at(t, &x, ll_i64(l, 0), &s->first, &s->last);
}

/* Keeps the slopes of alibi of the item's heads. */
static void
find_slopes(struct att_single *s)
{
	struct ll *l = s->t->l;
	struct ll_value *fall;
	struct ll_loop h;

	if (s->t->alibi <= 0) {
		return;
	}
	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, s->heads), 1, NULL, 0);
	fall = att_alibi_slope(s->t, ll_add(l, s->at.head, h.i));
	ll_store(l, fall, att_head_number(s, s->fall, h.i));
	ll_loop_end(l, &h, NULL);
}

static void
read_query(struct att_single *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct att_index i = s->at;
	struct att_rows q;

	q = att_rows_at(t, &t->in[ATTN_Q], &i, ll_i64(l, s->heads), t->d);
	q.row = t->in[ATTN_Q].head;
	att_read_rows(l, &q, att_own_at(t, s->q), s->b.dp, s->heads,
		      t->scale == 1 ? NULL
		      : ll_num(l, ll_type(LL_F32, 1), t->scale));
	i.head = s->kv;
	i.pos = ll_i64(l, 0);
	s->k = att_rows_at(t, &t->in[ATTN_K], &i, NULL, t->d);
	s->v = att_rows_at(t, &t->in[ATTN_V], &i, NULL, t->dv);
}

/* ---- parts of its keys ---- */

/* Sets sums of the item's heads to those of the sink. */
static void
add_sinks(struct att_single *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct att_index i = s->at;
	struct ll_value *sink;
	struct ll_loop h;

	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, s->heads), 1, NULL, 0);
	i.head = ll_add(l, s->at.head, h.i);
	sink = att_sink(t, &i);
	ll_store(l, sink, att_head_number(s, s->max, h.i));
	ll_store(l, ll_num(l, ll_type(LL_F32, 1), 1),
		 att_head_number(s, s->sum, h.i));
	ll_loop_end(l, &h, NULL);
}

/* Begins part `n`; the sink is in the first one. */
static void
begin_part(struct att_single *s, struct ll_value *n)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	int64_t padded = attn_round_up(s->heads, t->lanes);
	struct att_if is_first;
	struct ll_value *sum;

	att_fill(l, att_own_at(t, s->acc), s->heads * s->b.vp, 0);
	att_fill(l, att_own_at(t, s->next), padded, 0);
	sum = att_own_at(t, s->sum);
	att_weigh_begin_none(t, padded, att_own_at(t, s->max), sum);
	if (t->values[ATTN_SINK]) {
		att_if_begin(l, &is_first, ll_test(l, LL_EQ, n, ll_i64(l, 0)));
		add_sinks(s);
		att_if_end(l, &is_first);
	}
}

/* Computes part `n` of all. */
static void
compute_part(struct att_single *s, const struct att_parts *p,
	     struct ll_value *n)
{
	struct ll *l = s->t->l;
	struct ll_value *first = s->first, *last = s->last, *from;

	begin_part(s, n);
	from = ll_add(l, p->from, ll_bin(l, LL_MUL, n, p->size));
	s->first = att_max(l, first, from);
	s->last = ll_min(l, last, ll_add(l, from, p->size));
	att_single_blocks(s);
	s->first = first;
	s->last = last;
}

/* Sums of parts: the numbers of the item's heads, and their rows. */
struct part_sums {
	struct ll_value *max, *sum, *acc;
};

static struct part_sums
own_part(struct att_single *s)
{
	struct part_sums p;

	p.max = att_own_at(s->t, s->max);
	p.sum = att_own_at(s->t, s->sum);
	p.acc = att_own_at(s->t, s->acc);
	return p;
}

static struct part_sums
slot_part(struct att_single *s, struct ll_value *slot)
{
	struct ll *l = s->t->l;
	struct ll_value *i = ll_add(l, ll_mul_n(l, slot, s->t->heads),
				    s->at.head);
	struct part_sums p;

	p.max = att_work_at(s, s->w.max, i);
	p.sum = att_work_at(s, s->w.sum, i);
	i = ll_mul_n(l, i, s->b.vp);
	p.acc = att_work_at(s, s->w.acc, i);
	return p;
}

/* Keeps the part that was computed. */
static void
keep_part(struct att_single *s, struct ll_value *slot)
{
	struct part_sums from = own_part(s), to = slot_part(s, slot);
	struct ll *l = s->t->l;

	ll_copy(l, to.max, from.max, ll_i64(l, 4 * s->heads));
	ll_copy(l, to.sum, from.sum, ll_i64(l, 4 * s->heads));
	ll_copy(l, to.acc, from.acc, ll_i64(l, 4 * s->heads * s->b.vp));
}

static void
begin_all(struct att_single *s)
{
	struct attn *t = s->t;
	int64_t padded = attn_round_up(s->heads, t->lanes);
	struct ll_value *sum = att_own_at(t, s->all_sum);

	att_fill(t->l, att_own_at(t, s->all_acc), s->heads * s->b.vp, 0);
	att_weigh_begin_none(t, padded, att_own_at(t, s->all_max), sum);
}

/* Joins the numbers of heads; their factors become `alpha` and `next`. */
static void
join_numbers(struct att_single *s, const struct part_sums *part)
{
	struct ll *l = s->t->l;
	const struct ll_type many = ll_type(LL_F32, s->t->lanes);
	struct att_sum all, more = { NULL };
	struct ll_value *max, *sum;
	struct ll_loop h;

	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, s->heads), s->t->lanes, NULL,
		0);
	max = att_head_number(s, s->all_max, h.i);
	sum = att_head_number(s, s->all_sum, h.i);
	all.max = ll_load(l, many, max);
	all.sum = ll_load(l, many, sum);
	more.max = ll_load(l, many, att_elem_at(l, part->max, h.i, 4));
	more.sum = ll_load(l, many, att_elem_at(l, part->sum, h.i, 4));
	att_join(l, &all, &more);
	ll_store(l, all.max, max);
	ll_store(l, all.sum, sum);
	ll_store(l, all.by, att_head_number(s, s->alpha, h.i));
	ll_store(l, all.part_by, att_head_number(s, s->next, h.i));
	ll_loop_end(l, &h, NULL);
}

/* Joins the next part to all before it. */
static void
join_part(struct att_single *s, const struct part_sums *part)
{
	struct ll *l = s->t->l;
	const struct ll_type f32 = ll_type(LL_F32, 1);
	const struct ll_type many = ll_type(LL_F32, s->t->lanes);
	struct att_sum by = { NULL };
	struct ll_loop h, c;
	struct ll_value *at, *x, *row;

	join_numbers(s, part);
	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, s->heads), 1, NULL, 0);
	by.by = ll_load(l, f32, att_head_number(s, s->alpha, h.i));
	by.by = ll_splat(l, by.by, s->t->lanes);
	by.part_by = ll_load(l, f32, att_head_number(s, s->next, h.i));
	by.part_by = ll_splat(l, by.part_by, s->t->lanes);
	row = att_elem_at(l, part->acc, h.i, 4 * s->b.vp);
	ll_loop(l, &c, ll_i64(l, 0), ll_i64(l, s->b.vp), s->t->lanes, NULL, 0);
	at = att_head_row(s, s->all_acc, h.i, s->b.vp, c.i);
	x = ll_load(l, many, att_elem_at(l, row, c.i, 4));
	ll_store(l, att_joined(l, &by, ll_load(l, many, at), x), at);
	ll_loop_end(l, &c, NULL);
	ll_loop_end(l, &h, NULL);
}

/* ---- results ---- */

/* Divides a head's result by its sum; 0 where there was no key. */
static void
divide(struct att_single *s, struct ll_value *head)
{
	struct ll *l = s->t->l;
	const struct ll_type many = ll_type(LL_F32, s->t->lanes);
	struct ll_value *zero = ll_zero(l, many), *by, *inverse, *at;
	struct ll_loop c;

	by = ll_load(l, ll_type(LL_F32, 1),
		     att_head_number(s, s->all_sum, head));
	by = ll_splat(l, by, s->t->lanes);
	inverse = ll_bin(l, LL_DIV, ll_num(l, many, 1), by);
	by = ll_select(l, ll_test(l, LL_GT, by, zero), inverse, zero);
	ll_loop(l, &c, ll_i64(l, 0), ll_i64(l, s->b.vp), s->t->lanes, NULL, 0);
	at = att_head_row(s, s->all_acc, head, s->b.vp, c.i);
	ll_store(l, ll_bin(l, LL_MUL, ll_load(l, many, at), by), at);
	ll_loop_end(l, &c, NULL);
}

static bool
put_query(struct att_single *s)
{
	struct attn *t = s->t;
	struct ll *l = t->l;
	struct ll_value *one = ll_i64(l, 1), *row;
	struct att_index i = s->at;
	struct ll_loop h;
	bool ok;

	if (t->made[ATTN_LSE].value) {
		struct ll_value *max = att_own_at(t, s->all_max);
		struct ll_value *sum = att_own_at(t, s->all_sum);

		att_lse(t, attn_round_up(s->heads, t->lanes), max, sum,
			att_own_at(t, s->next));
	}
	ll_loop(l, &h, ll_i64(l, 0), ll_i64(l, s->heads), 1, NULL, 0);
	i.head = ll_add(l, s->at.head, h.i);
	divide(s, h.i);
	row = att_head_row(s, s->all_acc, h.i, s->b.vp, ll_i64(l, 0));
	ok = att_store_result(t, ATTN_OUT, &i, row, s->b.vp, 1, one);
	if (ok && t->made[ATTN_LSE].value) {
		row = att_head_number(s, s->next, h.i);
		ok = att_store_result(t, ATTN_LSE, &i, row, 1, 1, one);
	}
	ll_loop_end(l, &h, NULL);
	return ok;
}

/* ---- an item ---- */

/* Computes parts from `from` to before `to`.  A worker has all parts, and joins
 * them, or has one of them, and keeps it. */
static void
compute_parts(struct att_single *s, const struct att_parts *p,
	      struct ll_value *from, struct ll_value *to,
	      struct ll_value *is_whole, struct ll_value *slot)
{
	struct ll *l = s->t->l;
	struct ll_block *join, *keep, *next;
	struct part_sums part;
	struct ll_loop n;

	begin_all(s);
	ll_loop(l, &n, from, to, 1, NULL, 0);
	compute_part(s, p, n.i);
	join = ll_block(l, NULL, "join");
	keep = ll_block(l, NULL, "keep");
	next = ll_block(l, NULL, "next");
	ll_branch(l, is_whole, join, keep);
	ll_at(l, join);
	part = own_part(s);
	join_part(s, &part);
	ll_jump(l, next);
	ll_at(l, keep);
	keep_part(s, ll_add(l, slot, n.i));
	ll_jump(l, next);
	ll_at(l, next);
	ll_loop_end(l, &n, NULL);
}

/* Whether the part that was computed is the last one of the query's unit. */
static struct ll_value *
is_last(struct att_single *s, struct ll_value *query, struct ll_value *unit)
{
	struct ll *l = s->t->l;
	const struct ll_type i32 = ll_type(LL_I32, 1);
	struct ll_value *left;

	left = ll_add(l, ll_mul_n(l, query, s->w.units), unit);
	left = att_work_at(s, s->w.left, left);
	left = ll_add_atomic(l, left, ll_int(l, i32, -1));
	return ll_test(l, LL_EQ, left, ll_int(l, i32, 1));
}

static void
join_slots(struct att_single *s, const struct att_parts *p,
	   struct ll_value *slot)
{
	struct ll *l = s->t->l;
	struct part_sums part;
	struct ll_loop n;

	ll_loop(l, &n, ll_i64(l, 0), p->count, 1, NULL, 0);
	part = slot_part(s, ll_add(l, slot, n.i));
	join_part(s, &part);
	ll_loop_end(l, &n, NULL);
}

/* A query of which part `n` is computed, or with -1 all of it. */
static bool
with_parts(struct att_single *s, struct ll_value *query, struct ll_value *unit,
	   struct ll_value *n)
{
	struct ll *l = s->t->l;
	struct ll_value *is_whole, *from, *to, *slot;
	struct ll_block *one, *join, *put, *after;
	struct att_parts p;
	bool ok;

	att_find_parts(s->t, s->first, s->last, &p);
	is_whole = ll_test(l, LL_LT, n, ll_i64(l, 0));
	from = ll_select(l, is_whole, ll_i64(l, 0), n);
	to = ll_select(l, is_whole, p.count, ll_add(l, n, ll_i64(l, 1)));
	slot = att_work_load(s, s->w.slot, query);
	compute_parts(s, &p, from, to, is_whole, slot);
	one = ll_block(l, NULL, "one_part");
	join = ll_block(l, NULL, "join_parts");
	put = ll_block(l, NULL, "put");
	after = ll_block(l, NULL, "done");
	ll_branch(l, is_whole, put, one);
	ll_at(l, one);
	ll_branch(l, is_last(s, query, unit), join, after);
	ll_at(l, join);
	join_slots(s, &p, slot);
	ll_jump(l, put);
	ll_at(l, put);
	ok = put_query(s);
	ll_jump(l, after);
	ll_at(l, after);
	return ok;
}

/* Number i of all entries and units. */
static bool
compute(struct att_single *s, struct ll_value *i)
{
	struct ll *l = s->t->l;
	struct ll_value *query, *unit, *part = NULL;

	unit = ll_rem_n(l, i, s->w.units);
	query = ll_div_n(l, i, s->w.units);
	if (s->is_listed) {
		query = ll_mul_n(l, query, 2);
		part = att_work_load(s, s->w.entry,
				     ll_add(l, query, ll_i64(l, 1)));
		query = att_work_load(s, s->w.entry, query);
	}
	find_query(s, query, unit);
	find_range(s);
	find_slopes(s);
	read_query(s);
	if (s->has_parts) {
		return with_parts(s, query, unit, part);
	}
	begin_part(s, ll_i64(l, 0));
	att_single_blocks(s);
	return put_query(s);
}

bool
att_single_item(struct att_single *s, struct ll_value *item)
{
	struct ll *l = s->t->l;
	struct ll_value *all, *from, *to;
	struct ll_loop i;
	bool ok;

	if (!s->is_listed) {
		return compute(s, item);
	}
	all = att_work_load(s, s->w.entries, ll_i64(l, 0));
	all = ll_mul_n(l, all, s->w.units);
	from = share_of(s, item, all);
	to = share_of(s, ll_add(l, item, ll_i64(l, 1)), all);
	ll_loop(l, &i, from, to, 1, NULL, 0);
	ok = compute(s, i.i);
	ll_loop_end(l, &i, NULL);
	return ok;
}

/*
 * Which keys each query of a block sees: a range of positions, which causal,
 * window and the values `first` and `last` narrow.  The keys of a block are in
 * the order of positions, so what any query sees of it is a range, too.
 */
#include "codegen/cpu/cpu_attention.h"

#define FAR (1 << 30)		/* after the position of every key */

/* ---- of each query ---- */

/* The i64 of a bound, a whole number of 0 to FAR: f32 `x`, where it is none
 * rounded up to the next one. */
static struct ll_value *
bound_of(struct ll *l, struct ll_value *x)
{
	const struct ll_type f32 = ll_type(LL_F32, 1);
	struct ll_value *zero = ll_zero(l, f32), *far = ll_num(l, f32, FAR);
	struct ll_value *whole, *more;

	/* NaN becomes 0 */
	x = ll_select(l, ll_test(l, LL_GT, x, zero), x, zero);
	x = ll_select(l, ll_test(l, LL_LT, x, far), x, far);
	whole = ll_cast(l, x, LL_I64);
	more = ll_add(l, whole, ll_i64(l, 1));
	x = ll_test(l, LL_LT, ll_cast(l, whole, LL_F32), x);
	return ll_select(l, x, more, whole);
}

/* The number that a value has for the query at i. */
static struct ll_value *
number_at(struct attn *t, enum attn_input in, const struct att_index *i)
{
	return ll_load(t->l, ll_type(LL_F32, 1), att_ptr(t, &t->in[in], i));
}

/* The i64 of the last position, x rounded down; -1: none. */
static struct ll_value *
last_of(struct ll *l, struct ll_value *x)
{
	struct ll_value *floor = ll_math(l, "floor", &x, 1);
	struct ll_value *one = ll_num(l, ll_type(LL_F32, 1), 1);

	return ll_add(l, bound_of(l, ll_bin(l, LL_ADD, floor, one)),
		      ll_i64(l, -1));
}

/* The positions of the first and last key that the query at i sees; its own is
 * `at`. */
static void
range_of(struct attn *t, const struct att_index *i, struct ll_value *at,
	 struct ll_value **first, struct ll_value **last)
{
	struct ll *l = t->l;
	struct ll_value *from, *to;

	from = ll_i64(l, -FAR);
	to = t->causal ? at : ll_i64(l, FAR);
	if (t->window > 0) {
		from = ll_add(l, at, ll_i64(l, 1 - t->window));
	}
	if (attn_is_between(t)) {
		at = bound_of(l, number_at(t, ATTN_FIRST, i));
		from = att_max(l, from, at);
		at = last_of(l, number_at(t, ATTN_LAST, i));
		to = ll_min(l, to, at);
	}
	*first = from;
	*last = to;
}

static void
store_i32(struct ll *l, struct ll_value *x, struct ll_value *base,
	  struct ll_value *i)
{
	x = ll_cast(l, x, LL_I32);
	ll_store(l, x, att_elem_at(l, base, i, 4));
}

void
att_read_ranges(struct attn *t, const struct att_tile *x,
		const struct att_index *i, struct ll_value *live)
{
	struct ll *l = t->l;
	struct ll_value *at, *from, *to;
	struct att_index n = *i;
	struct ll_loop q;

	if (!attn_is_masked(t) && t->alibi <= 0) {
		return;
	}
	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, x->b->nq), 1, NULL, 0);
	n.pos = ll_min(l, q.i, ll_add(l, live, ll_i64(l, -1)));
	n.pos = ll_add(l, i->pos, n.pos);
	at = att_position(l, t->pieces[ATTN_QUERIES], n.pos);
	at = ll_add(l, at, ll_i64(l, t->shift));
	range_of(t, &n, at, &from, &to);
	store_i32(l, from, x->lo, q.i);
	store_i32(l, to, x->hi, q.i);
	store_i32(l, attn_is_from_last(t) ? to : at, x->pos, q.i);
	ll_loop_end(l, &q, NULL);
}

void
att_range_at(struct attn *t, const struct att_tile *x, struct ll_value *i,
	     struct ll_value **first, struct ll_value **last)
{
	struct ll *l = t->l;
	const struct ll_type i32 = ll_type(LL_I32, 1);
	struct ll_value *from, *to;

	from = ll_load(l, i32, att_elem_at(l, x->lo, i, 4));
	to = ll_load(l, i32, att_elem_at(l, x->hi, i, 4));
	*first = att_keys_below(t, ll_cast(l, from, LL_I64));
	*last = att_keys_below(t, ll_add(l, ll_cast(l, to, LL_I64),
					 ll_i64(l, 1)));
}

/* ---- of several queries ---- */

/* The least and the most of i32 numbers, as i64. */
static void
extremes(struct ll *l, struct ll_value *of, struct ll_value *count,
	 struct ll_value *out[2])
{
	const struct ll_type i32 = ll_type(LL_I32, 1);
	struct ll_value *init[2], *next[2], *x;
	struct ll_loop i;

	init[0] = init[1] = ll_load(l, i32, of);
	ll_loop(l, &i, ll_i64(l, 1), count, 1, init, 2);
	x = ll_load(l, i32, att_elem_at(l, of, i.i, 4));
	next[0] = ll_min(l, i.at[0], x);
	next[1] = att_max(l, i.at[1], x);
	ll_loop_end(l, &i, next);
	out[0] = ll_cast(l, i.at[0], LL_I64);
	out[1] = ll_cast(l, i.at[1], LL_I64);
}

/* The keys that any of some queries sees, and those that all see, as places
 * from [0] to before [1]. */
struct seen_keys {
	struct ll_value *any[2], *all[2];
};

static struct seen_keys
seen_by(struct attn *t, struct ll_value *query, struct ll_value *live,
	struct ll_value *lo, struct ll_value *hi)
{
	struct ll *l = t->l;
	struct ll_value *from[2], *to[2];
	struct seen_keys s;

	if (!attn_is_between(t)) {
		att_seen_keys(t, query, &s.any[0], &s.all[1]);
		query = ll_add(l, query, ll_add(l, live, ll_i64(l, -1)));
		att_seen_keys(t, query, &s.all[0], &s.any[1]);
		return s;
	}
	extremes(l, lo, live, from);
	extremes(l, hi, live, to);
	s.any[0] = att_keys_below(t, from[0]);
	s.any[1] = att_keys_below(t, ll_add(l, to[1], ll_i64(l, 1)));
	s.all[0] = att_keys_below(t, from[1]);
	s.all[1] = att_keys_below(t, ll_add(l, to[0], ll_i64(l, 1)));
	return s;
}

void
att_find_keys(struct attn *t, struct ll_value *query, struct ll_value *live,
	      struct ll_value *lo, struct ll_value *hi,
	      struct ll_value **first, struct ll_value **last)
{
	struct seen_keys s = seen_by(t, query, live, lo, hi);

	*first = s.any[0];
	*last = s.any[1];
}

struct ll_value *
att_is_sparse(struct attn *t, const struct att_tile *x, struct ll_value *live)
{
	struct ll *l = t->l;
	struct ll_value *init[3], *next[3], *from, *to, *all;
	struct ll_loop i;

	/* of those that see some: the first key, the last one, and how many */
	init[0] = ll_i64(l, t->keys);
	init[1] = init[2] = ll_i64(l, 0);
	ll_loop(l, &i, ll_i64(l, 0), live, 1, init, 3);
	att_range_at(t, x, i.i, &from, &to);
	to = att_max(l, from, to);
	all = ll_test(l, LL_LT, from, to);
	next[0] = ll_select(l, all, ll_min(l, from, i.at[0]), i.at[0]);
	next[1] = ll_select(l, all, att_max(l, to, i.at[1]), i.at[1]);
	next[2] = ll_add(l, i.at[2], ll_sub(l, to, from));
	ll_loop_end(l, &i, next);
	all = ll_mul_n(l, ll_sub(l, i.at[1], i.at[0]), 2 * t->lanes);
	return ll_test(l, LL_LT, ll_mul_n(l, i.at[2], ATT_SPARSE), all);
}

void
att_hide_keys(struct attn *t, const struct att_tile *x, struct ll_value *cond)
{
	const struct ll_type i32 = ll_type(LL_I32, 1);
	struct ll_value *lo, *hi, *at;
	struct ll *l = t->l;
	struct ll_loop i;

	lo = ll_int(l, i32, FAR);
	hi = ll_int(l, i32, -FAR);
	ll_loop(l, &i, ll_i64(l, 0), ll_i64(l, x->b->nq), 1, NULL, 0);
	at = att_elem_at(l, x->lo, i.i, 4);
	ll_store(l, ll_select(l, cond, lo, ll_load(l, i32, at)), at);
	at = att_elem_at(l, x->hi, i.i, 4);
	ll_store(l, ll_select(l, cond, hi, ll_load(l, i32, at)), at);
	ll_loop_end(l, &i, NULL);
}

struct ll_value *
att_is_hidden(struct attn *t, const struct att_tile *x)
{
	const struct ll_type i32 = ll_type(LL_I32, 1);

	/* the last key that a query sees is -1 at least */
	return ll_test(t->l, LL_EQ, ll_load(t->l, i32, x->hi),
		       ll_int(t->l, i32, -FAR));
}

static struct ll_value *
in_block(struct ll *l, struct ll_value *key, const struct att_tile *x)
{
	key = ll_bin(l, LL_SUB, key, x->key0);
	return ll_min(l, att_max(l, key, ll_i64(l, 0)),
		       ll_i64(l, x->b->nk));
}

void
att_find_seen(struct attn *t, struct att_tile *x, struct ll_value *query,
	struct ll_value *live)
{
	struct ll *l = t->l;
	struct seen_keys s = seen_by(t, query, live, x->lo, x->hi);
	int64_t rows = att_tile_rows(l);
	struct ll_value *a, *b;

	x->first = in_block(l, s.any[0], x);
	x->last = in_block(l, s.any[1], x);
	x->masked = NULL;
	if (!attn_is_masked(t)) {
		return;
	}
	/* all rows of tiles are computed: each is attended to, or masked */
	a = ll_add(l, x->key0, att_down(l, x->first, rows));
	b = ll_add(l, x->key0, att_up(l, x->last, rows));
	b = ll_test(l, LL_GT, b, s.all[1]);
	a = ll_test(l, LL_LT, a, s.all[0]);
	x->masked = ll_bin(l, LL_OR, a, b);
}

/* ---- pairs ---- */

struct ll_value *
att_sees(struct attn *t, const struct att_tile *x, struct ll_value *j,
	 uint32_t v)
{
	struct ll *l = t->l;
	const struct ll_type i32 = ll_type(LL_I32, 1);
	struct ll_type many = ll_type(LL_I32, t->lanes);
	int64_t at = 4 * (int64_t)v * t->lanes;
	struct ll_value *key, *yes = NULL, *from;

	key = ll_load(l, i32, att_elem_at(l, att_own_at(t, x->b->key_pos), j,
					  4));
	key = ll_splat(l, key, t->lanes);
	if (t->causal || attn_is_between(t)) {
		yes = ll_test(l, LL_LE, key,
			      ll_load(l, many, ll_plus_n(l, x->hi, at)));
	}
	if (t->window > 0 || attn_is_between(t)) {
		from = ll_test(l, LL_GE, key,
			       ll_load(l, many, ll_plus_n(l, x->lo, at)));
		yes = yes ? ll_bin(l, LL_AND, yes, from) : from;
	}
	return yes;
}

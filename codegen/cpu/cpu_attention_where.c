/*
 * From places of queries, keys and heads on a rank to positions in their whole
 * dims, and back.  For a dim that is not split they are the same; for others
 * rt_pieces has them.  Places are in the order of positions, so those below a
 * position are the first ones.
 */
#include "codegen/cpu/cpu_attention.h"

#include <math.h>
#include <stddef.h>

/* ---- pieces ---- */

/* Fields of piece i. */
struct att_piece {
	struct ll_value *start, *count;
};

static struct ll_value *
piece_count(struct ll *l, struct ll_value *pieces)
{
	return ll_load(l, ll_type(LL_I64, 1),
		       ll_plus_n(l, pieces, offsetof(struct rt_pieces, n)));
}

static struct att_piece
piece_at(struct ll *l, struct ll_value *pieces, struct ll_value *i)
{
	const struct ll_type i64 = ll_type(LL_I64, 1);
	struct att_piece p;

	pieces = att_elem_at(l, pieces, i, 2 * 8);
	pieces = ll_plus_n(l, pieces, offsetof(struct rt_pieces, at));
	p.start = ll_load(l, i64, pieces);
	p.count = ll_load(l, i64, ll_plus_n(l, pieces, 8));
	return p;
}

/* Whether from <= x < from + count. */
static struct ll_value *
inside(struct ll *l, struct ll_value *x, struct ll_value *from,
       struct ll_value *count)
{
	return ll_test(l, LL_ULT, ll_bin(l, LL_SUB, x, from), count);
}

struct ll_value *
att_position(struct ll *l, struct ll_value *pieces, struct ll_value *place)
{
	struct ll_value *init[2] = { ll_i64(l, 0), ll_i64(l, 0) }, *next[2];
	struct ll_value *at;
	struct ll_loop i;
	struct att_piece p;

	if (!pieces) {
		return place;
	}
	ll_loop(l, &i, ll_i64(l, 0), piece_count(l, pieces), 1, init, 2);
	p = piece_at(l, pieces, i.i);
	at = ll_add(l, p.start, ll_bin(l, LL_SUB, place, i.at[0]));
	next[0] = ll_add(l, i.at[0], p.count);
	next[1] = ll_select(l, inside(l, place, i.at[0], p.count), at,
			    i.at[1]);
	ll_loop_end(l, &i, next);
	return i.at[1];
}

/* The place of a position, or -1. */
static struct ll_value *
place_of(struct ll *l, struct ll_value *pieces, struct ll_value *position)
{
	struct ll_value *init[2] = { ll_i64(l, 0), ll_i64(l, -1) }, *next[2];
	struct ll_value *at;
	struct ll_loop i;
	struct att_piece p;

	if (!pieces) {
		return position;
	}
	ll_loop(l, &i, ll_i64(l, 0), piece_count(l, pieces), 1, init, 2);
	p = piece_at(l, pieces, i.i);
	at = ll_add(l, i.at[0], ll_bin(l, LL_SUB, position, p.start));
	next[0] = ll_add(l, i.at[0], p.count);
	next[1] = ll_select(l, inside(l, position, p.start, p.count), at,
			    i.at[1]);
	ll_loop_end(l, &i, next);
	return i.at[1];
}

static struct ll_value *
clamp(struct ll *l, struct ll_value *x, struct ll_value *most)
{
	return ll_min(l, att_max(l, x, ll_i64(l, 0)), most);
}

/* How many of n places have a position below this one. */
static struct ll_value *
places_below(struct ll *l, struct ll_value *pieces, int64_t n,
	     struct ll_value *position)
{
	struct ll_value *init[1] = { ll_i64(l, 0) }, *next[1], *x;
	struct ll_loop i;
	struct att_piece p;

	if (!pieces) {
		return clamp(l, position, ll_i64(l, n));
	}
	ll_loop(l, &i, ll_i64(l, 0), piece_count(l, pieces), 1, init, 1);
	p = piece_at(l, pieces, i.i);
	x = ll_bin(l, LL_SUB, position, p.start);
	next[0] = ll_add(l, i.at[0], clamp(l, x, p.count));
	ll_loop_end(l, &i, next);
	return i.at[0];
}

struct ll_value *
att_keys_below(struct attn *t, struct ll_value *position)
{
	return places_below(t->l, t->pieces[ATTN_KEYS], t->keys, position);
}

/* ---- heads, and which keys a query attends to ---- */

struct ll_value *
att_kv_head(struct attn *t, struct ll_value *head)
{
	struct ll *l = t->l;

	if (t->heads_together) {
		return ll_bin(l, LL_DIV, head, ll_i64(l, t->shared));
	}
	head = att_position(l, t->pieces[ATTN_HEADS], head);
	return place_of(l, t->pieces[ATTN_KV],
			ll_bin(l, LL_DIV, head, ll_i64(l, t->shared)));
}

/*
 * ir_alibi_slope of the head, as code: both of its exponents over 2 n, and 2^x
 * as e^(x ln 2).
 */
struct ll_value *
att_alibi_slope(struct attn *t, struct ll_value *head)
{
	const struct ll_type f32 = ll_type(LL_F32, 1);
	int64_t n = ir_alibi_base(ir_dim_size(t->g->m, t->dim[ATTN_HEADS]));
	struct ll *l = t->l;
	struct ll_value *of, *more, *some;

	if (t->alibi <= 0) {
		return NULL;
	}
	head = att_position(l, t->pieces[ATTN_HEADS], head);
	some = ll_add(l, ll_mul_n(l, head, 2), ll_i64(l, 2));
	more = ll_add(l, ll_mul_n(l, head, 2), ll_i64(l, 1 - 2 * n));
	of = ll_test(l, LL_LT, head, ll_i64(l, n));
	of = ll_cast(l, ll_select(l, of, some, more), LL_F32);
	of = ll_bin(l, LL_MUL, of, ll_num(l, f32, -log(2) * t->alibi /
					  (2 * (double)n)));
	return ll_lane(l, cg_exp(l, ll_splat(l, of, t->lanes)), 0);
}

void
att_seen_keys(struct attn *t, struct ll_value *query, struct ll_value **first,
	 struct ll_value **last)
{
	struct ll *l = t->l;
	struct ll_value *at = att_position(l, t->pieces[ATTN_QUERIES], query);

	at = ll_add(l, at, ll_i64(l, t->shift + 1));
	*first = ll_i64(l, 0);
	*last = ll_i64(l, t->keys);
	if (t->causal) {
		*last = att_keys_below(t, at);
	}
	if (t->window > 0) {
		at = ll_bin(l, LL_SUB, at, ll_i64(l, t->window));
		*first = att_keys_below(t, at);
	}
}

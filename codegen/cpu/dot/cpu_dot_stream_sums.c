/*
 * Contractions of few rows: the sums of a group of columns, over all of k, in
 * vectors, with the scales of an int4, or in the tiles of AMX.
 */
#include "codegen/cpu/dot/cpu_dot_stream.h"

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

	t.a = dot_stream_word(x, panel, k);
	k = ll_add(l, from, k);
	far = dot_stream_ahead(x, k);
	at = dot_stream_elems(x, x->b, k);
	ll_loop(l, &v, ll_i64(l, 0), ll_i64(l, x->nv), 1, NULL, 0);
	rows = ll_mul_n(l, v.i, x->u->lanes * x->s->row_bytes);
	t.b = ll_plus(l, at, rows);
	for (r = 0; r < x->s->rows; r++) {
		t.sum[r] = ll_load(l, vec, sum_at(x, x->sums, v.i, r));
	}
	if (i == 0) {
		dot_stream_line(x, &t, ll_plus(l, far, rows));
	} else if (i == 1) {
		dot_stream_words(x, t.a, t.b, x->s->row_bytes, 4, t.sum);
	} else {
		dot_stream_last(x, &t);
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
	int64_t step[3] = { STREAM_LINE / 4 * x->per, STREAM_PART / 4 * x->per,
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
 * STREAM_PART bytes are eight scales of a row.  They are transposed as numbers
 * are: words of two of them, one lane for each row.
 */
static void
eight_scales(const struct stream *x, struct ll_value *from,
	     struct ll_value *q, int64_t at)
{
	const struct ll_type t = ll_type(LL_I32, x->u->lanes);
	struct ll *l = x->l;
	struct ll_value *words[4], *to, *v;
	int i;

	dot_stream_part(x, ll_plus(l, from, ll_mul_n(l, q, 2)), x->s->row_bytes,
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
		from = dot_stream_row(x, x->b, (int64_t)v * x->u->lanes);
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
	struct ll_value *far = dot_stream_ahead(x, k);
	struct ll *l = x->l;
	struct step t = { NULL };
	struct ll_loop v;
	uint32_t n = x->s->rows, r;

	t.a = ll_plus(l, x->a, ll_mul_n(l, q, panel_bytes(x)));
	ll_loop(l, &v, ll_i64(l, 0), ll_i64(l, x->nv), 1, NULL, 0);
	rows = ll_mul_n(l, v.i, x->u->lanes * x->s->row_bytes);
	t.b = ll_plus(l, dot_stream_elems(x, x->b, k), rows);
	for (r = 0; r < 2 * n; r++) {
		t.sum[r] = ll_zero(l, vec);
	}
	dot_stream_line(x, &t, ll_plus(l, far, rows));
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
	struct ll_value *at = dot_stream_elems(x, row, k), *scale;
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
	struct ll_value *v, *at = dot_stream_elems(x, rows, k);
	int r;

	for (r = 0; r < 16 && x->s->base == LL_I8; r++) {
		v = widened(x, dot_stream_row(x, rows, r), k);
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
	far = dot_stream_ahead(x, k.i);
	tile = ll_plus(l, x->a, ll_mul_n(l, k.i, 2 * 16));
	dot_amx(l, "llvm.x86.tileloadd64", (int[]){ 7 }, 1, tile,
		ll_i64(l, 64));
	for (v = 0; v < (int)x->nv; v++) {
		const int tiles[] = { v, 4 + v % 3, 7 };

		for (r = 0; r < 16; r++) {
			ll_prefetch(l, dot_stream_row(x, far, 16 * v + r));
		}
		load_tile(x, tiles[1], dot_stream_row(x, x->b, 16 * (int64_t)v),
			  k.i);
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

struct ll_value *
dot_stream_sums(struct cg_cpu *c, const struct dot_unit *u,
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

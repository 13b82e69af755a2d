/*
 * Products of small matrices in a worker's scratch, and copies to and from
 * there.
 *
 * A product's tile is att_tile_rows rows of two vectors: with AVX-512 16 sums,
 * enough for two multiply-adds a cycle at a latency of four, and ten loads.
 */
#include "codegen/cpu/cpu_attention.h"

/* ---- small arithmetic ---- */

struct ll_value *
att_max(struct ll *l, struct ll_value *a, struct ll_value *b)
{
	return ll_select(l, ll_test(l, LL_GT, a, b), a, b);
}

struct ll_value *
att_down(struct ll *l, struct ll_value *a, int64_t to)
{
	return ll_mul_n(l, ll_bin(l, LL_DIV, a, ll_i64(l, to)), to);
}

struct ll_value *
att_up(struct ll *l, struct ll_value *a, int64_t to)
{
	return att_down(l, ll_add(l, a, ll_i64(l, to - 1)), to);
}

struct ll_value *
att_elem_at(struct ll *l, struct ll_value *base, struct ll_value *i,
	    int64_t bytes)
{
	return ll_plus(l, base, ll_mul_n(l, i, bytes));
}

void
att_if_begin(struct ll *l, struct att_if *f, struct ll_value *cond)
{
	struct ll_block *yes = ll_block(l, NULL, "if");

	f->after = ll_block(l, NULL, "after");
	ll_branch(l, cond, yes, f->after);
	ll_at(l, yes);
}

void
att_if_end(struct ll *l, struct att_if *f)
{
	ll_jump(l, f->after);
	ll_at(l, f->after);
}

/* ---- products ---- */

#define MAX_ROWS 8
#define MAX_VECTORS 2

uint32_t
att_tile_rows(const struct ll *l)
{
	return ll_lanes(l, LL_F32) >= 16 ? 8 : 4;
}

/* One tile of c. */
struct att_product_tile {
	const struct att_product *p;
	struct ll_type vector;
	uint32_t rows, vectors;
	struct ll_value *a, *b, *c;	/* where its first numbers lie */
	uint32_t by;			/* number of the first factor */
};

static struct ll_value *
c_at(struct ll *l, const struct att_product_tile *t, uint32_t i, uint32_t j)
{
	return ll_plus_n(l, t->c, 4 * (i * t->p->c_row +
				       (int64_t)j * t->vector.lanes));
}

static void
begin_sums(struct ll *l, const struct att_product_tile *t,
	   struct ll_value **sums)
{
	uint32_t i, j;

	for (i = 0; i < t->rows; i++) {
		for (j = 0; j < t->vectors; j++, sums++) {
			if (!t->p->add) {
				*sums = ll_zero(l, t->vector);
				continue;
			}
			*sums = ll_load(l, t->vector, c_at(l, t, i, j));
			if (t->p->by) {
				*sums = ll_bin(l, LL_MUL, *sums,
					       t->p->by[t->by + j]);
			}
		}
	}
}

static void
emit_tile(struct ll *l, const struct att_product_tile *t)
{
	struct ll_value *sums[MAX_ROWS * MAX_VECTORS];
	struct ll_value *b[MAX_VECTORS], *is[MAX_VECTORS], *a, *at;
	uint32_t n = t->rows * t->vectors, i, j;
	struct ll_loop k;

	begin_sums(l, t, sums);
	ll_loop(l, &k, t->p->k_from, t->p->k_to, 1, sums, n);
	for (j = 0; t->p->lanes && j < t->vectors; j++) {
		is[j] = t->p->lanes(t->p->of, k.i, t->by + j);
	}
	at = att_elem_at(l, t->b, k.i, 4 * t->p->b_row);
	for (j = 0; j < t->vectors; j++) {
		b[j] = ll_load(l, t->vector,
			       ll_plus_n(l, at, 4 * (int64_t)j *
						t->vector.lanes));
	}
	at = att_elem_at(l, t->a, k.i, 4 * t->p->a_col);
	for (i = 0; i < t->rows; i++) {
		a = ll_load(l, ll_type(LL_F32, 1),
			    ll_plus_n(l, at, 4 * i * t->p->a_row));
		a = ll_splat(l, a, t->vector.lanes);
		for (j = 0; j < t->vectors; j++) {
			uint32_t s = i * t->vectors + j;

			sums[s] = ll_fma(l, a, b[j], k.at[s]);
			if (t->p->lanes) {
				sums[s] = ll_select(l, is[j], sums[s],
						    k.at[s]);
			}
		}
	}
	ll_loop_end(l, &k, sums);
	for (i = 0; i < n; i++) {
		ll_store(l, k.at[i], c_at(l, t, i / t->vectors,
					  i % t->vectors));
	}
}

/* All rows of `vectors` vectors of columns, from column `col` on. */
static void
emit_column(struct ll *l, const struct att_product *p, struct ll_value *col,
	    uint32_t first, uint32_t vectors)
{
	struct att_product_tile t = { .p = p, .vectors = vectors, .by = first };
	struct ll_loop m;

	t.vector = ll_type(LL_F32, ll_lanes(l, LL_F32));
	t.rows = att_tile_rows(l);
	ll_loop(l, &m, p->m_from, p->m_to, t.rows, NULL, 0);
	t.a = att_elem_at(l, p->a, m.i, 4 * p->a_row);
	t.b = att_elem_at(l, p->b, col, 4);
	t.c = att_elem_at(l, att_elem_at(l, p->c, m.i, 4 * p->c_row), col, 4);
	emit_tile(l, &t);
	ll_loop_end(l, &m, NULL);
}

void
att_product(struct ll *l, const struct att_product *p)
{
	int64_t lanes = ll_lanes(l, LL_F32), n = p->n / lanes;
	int64_t pairs = n / MAX_VECTORS, step = MAX_VECTORS * lanes;
	struct ll_loop j;

	if (pairs == 1) {
		emit_column(l, p, ll_i64(l, 0), 0, MAX_VECTORS);
	} else if (pairs > 1) {
		ll_loop(l, &j, ll_i64(l, 0), ll_i64(l, pairs * step), step,
			NULL, 0);
		emit_column(l, p, j.i, 0, MAX_VECTORS);
		ll_loop_end(l, &j, NULL);
	}
	if (n % MAX_VECTORS) {
		emit_column(l, p, ll_i64(l, pairs * step),
			    (uint32_t)(pairs * MAX_VECTORS), 1);
	}
}

/* ---- copies ---- */

int64_t
att_elem_bytes(enum ll_base elem)
{
	return elem == LL_F64 ? 8 : elem == LL_F32 ? 4 : elem == LL_I8 ? 1 : 2;
}

struct ll_value *
att_widen(struct ll *l, const struct att_rows *rows, struct ll_value *x)
{
	if (rows->elem == LL_I8) {
		return cg_cpu_widen_f8(l, ll_cast(l, x, LL_I32), rows->dtype);
	}
	return rows->elem == LL_F32 ? x : ll_cast(l, x, LL_F32);
}

static struct ll_value *
scaled(struct ll *l, struct ll_value *v, struct ll_value *by)
{
	struct ll_type t = ll_typeof(l, v);

	return !by ? v : ll_bin(l, LL_MUL, v, t.lanes == 1 ? by
				: ll_splat(l, by, t.lanes));
}

/* One row of elements that are not contiguous. */
static void
read_single(struct ll *l, const struct att_rows *from, struct ll_value *at,
	    struct ll_value *to, struct ll_value *by)
{
	int64_t bytes = att_elem_bytes(from->elem);
	struct ll_value *x;
	struct ll_loop c;

	ll_loop(l, &c, ll_i64(l, 0), ll_i64(l, from->cols), 1, NULL, 0);
	x = ll_load(l, ll_type(from->elem, 1),
		    att_elem_at(l, at, c.i, bytes * from->col));
	x = att_widen(l, from, x);
	to = att_elem_at(l, to, c.i, 4);
	ll_store(l, scaled(l, x, by), to);
	ll_loop_end(l, &c, NULL);
}

struct ll_value *
att_read_vector(struct ll *l, const struct att_rows *from, struct ll_value *at,
		struct ll_value *c, int64_t live)
{
	uint32_t lanes = ll_lanes(l, LL_F32);
	struct ll_type t = ll_type(from->elem, lanes);
	struct ll_value *x;

	at = att_elem_at(l, at, c, att_elem_bytes(from->elem));
	x = live == lanes ? ll_load(l, t, at)
	    : ll_load_if(l, t, at, ll_mask(l, ll_i64(l, live), lanes));
	return att_widen(l, from, x);
}

static void
read_vector(struct ll *l, const struct att_rows *from, struct ll_value *at,
	    struct ll_value *to, struct ll_value *c, int64_t live,
	    struct ll_value *by)
{
	struct ll_value *x = att_read_vector(l, from, at, c, live);

	x = scaled(l, x, by);
	ll_store(l, x, att_elem_at(l, to, c, 4));
}

static void
read_row(struct ll *l, const struct att_rows *from, struct ll_value *at,
	 struct ll_value *to, struct ll_value *by)
{
	int64_t lanes = ll_lanes(l, LL_F32);
	int64_t whole = from->cols / lanes * lanes;
	struct ll_loop c;

	if (from->col != 1) {
		if (whole < from->cols) {
			ll_store(l, ll_zero(l, ll_type(LL_F32,
						       (uint32_t)lanes)),
				 ll_plus_n(l, to, 4 * whole));
		}
		read_single(l, from, at, to, by);
		return;
	}
	ll_loop(l, &c, ll_i64(l, 0), ll_i64(l, whole), lanes, NULL, 0);
	read_vector(l, from, at, to, c.i, lanes, by);
	ll_loop_end(l, &c, NULL);
	if (whole < from->cols) {
		read_vector(l, from, at, to, ll_i64(l, whole),
			    from->cols - whole, by);
	}
}

void
att_fill(struct ll *l, struct ll_value *at, int64_t elems, double x)
{
	uint32_t lanes = ll_lanes(l, LL_F32);
	struct ll_loop i;

	ll_loop(l, &i, ll_i64(l, 0), ll_i64(l, elems), lanes, NULL, 0);
	ll_store(l, ll_num(l, ll_type(LL_F32, lanes), x),
		 att_elem_at(l, at, i.i, 4));
	ll_loop_end(l, &i, NULL);
}

/* The number of row i in memory. */
static struct ll_value *
number_of(struct ll *l, const struct att_rows *rows, struct ll_value *i)
{
	struct ll_value *at;

	if (!rows->index) {
		return i;
	}
	at = att_elem_at(l, rows->index, i, rows->index_step);
	return ll_cast(l, ll_load(l, ll_type(LL_I32, 1), at), LL_I64);
}

struct ll_value *
att_row_at(struct ll *l, const struct att_rows *rows, struct ll_value *i)
{
	return att_elem_at(l, rows->at, number_of(l, rows, i),
			   att_elem_bytes(rows->elem) * rows->row);
}

void
att_read_rows(struct ll *l, const struct att_rows *from, struct ll_value *to,
	 int64_t stride, int64_t rows, struct ll_value *by)
{
	struct ll_value *row;
	struct ll_loop r;

	ll_loop(l, &r, ll_i64(l, 0), from->live, 1, NULL, 0);
	row = att_elem_at(l, to, r.i, 4 * stride);
	read_row(l, from, att_row_at(l, from, r.i), row, by);
	ll_loop_end(l, &r, NULL);
	ll_loop(l, &r, from->live, ll_i64(l, rows), 1, NULL, 0);
	att_fill(l, att_elem_at(l, to, r.i, 4 * stride),
		 attn_round_up(from->cols, ll_lanes(l, LL_F32)), 0);
	ll_loop_end(l, &r, NULL);
}

static void
write_vector(struct ll *l, const struct att_rows *to, struct ll_value *at,
	     struct ll_value *from, struct ll_value *c, int64_t live)
{
	uint32_t lanes = ll_lanes(l, LL_F32);
	struct ll_value *x = ll_load(l, ll_type(LL_F32, lanes),
				     att_elem_at(l, from, c, 4));

	x = to->elem == LL_F32 ? x : ll_cast(l, x, to->elem);
	at = att_elem_at(l, at, c, att_elem_bytes(to->elem));
	if (live == lanes) {
		ll_store(l, x, at);
	} else {
		ll_store_if(l, x, at, ll_mask(l, ll_i64(l, live), lanes));
	}
}

static void
write_row(struct ll *l, const struct att_rows *to, struct ll_value *at,
	  struct ll_value *from)
{
	int64_t lanes = ll_lanes(l, LL_F32), bytes = att_elem_bytes(to->elem);
	int64_t whole = to->cols / lanes * lanes;
	struct ll_value *x;
	struct ll_loop c;

	if (to->col != 1 || to->cols == 1) {
		ll_loop(l, &c, ll_i64(l, 0), ll_i64(l, to->cols), 1, NULL, 0);
		x = ll_load(l, ll_type(LL_F32, 1),
			    att_elem_at(l, from, c.i, 4));
		x = to->elem == LL_F32 ? x : ll_cast(l, x, to->elem);
		ll_store(l, x, att_elem_at(l, at, c.i, bytes * to->col));
		ll_loop_end(l, &c, NULL);
		return;
	}
	ll_loop(l, &c, ll_i64(l, 0), ll_i64(l, whole), lanes, NULL, 0);
	write_vector(l, to, at, from, c.i, lanes);
	ll_loop_end(l, &c, NULL);
	if (whole < to->cols) {
		write_vector(l, to, at, from, ll_i64(l, whole),
			     to->cols - whole);
	}
}

void
att_write_rows(struct ll *l, const struct att_rows *to, struct ll_value *from,
	  int64_t stride)
{
	int64_t apart = att_elem_bytes(to->elem) * to->row;
	struct ll_loop r;

	ll_loop(l, &r, ll_i64(l, 0), to->live, 1, NULL, 0);
	from = att_elem_at(l, from, r.i, 4 * stride);
	write_row(l, to, att_elem_at(l, to->at, r.i, apart), from);
	ll_loop_end(l, &r, NULL);
}

/* ---- rows to columns ---- */

#define MAX_LANES 16

/* In each round pairs of rows exchange halves, then quarters, and so on. */
void
att_turn_square(struct ll *l, struct ll_value **x, uint32_t lanes)
{
	struct ll_value *lo, *hi;
	int low[MAX_LANES], high[MAX_LANES];
	uint32_t half, i, j;

	for (half = lanes / 2; half > 0; half /= 2) {
		for (j = 0; j < lanes; j++) {
			bool upper = (j & half) != 0;

			low[j] = (int)(upper ? lanes + j - half : j);
			high[j] = (int)(upper ? lanes + j : j + half);
		}
		for (i = 0; i < lanes; i++) {
			if (i & half) {
				continue;
			}
			lo = ll_shuffle(l, x[i], x[i + half], low, lanes);
			hi = ll_shuffle(l, x[i], x[i + half], high, lanes);
			x[i] = lo;
			x[i + half] = hi;
		}
	}
}

void
att_transpose(struct ll *l, struct ll_value *from, int64_t from_row,
	 struct ll_value *to, int64_t to_row, int64_t rows, int64_t cols,
	 struct ll_value *by)
{
	uint32_t lanes = ll_lanes(l, LL_F32), i;
	struct ll_type t = ll_type(LL_F32, lanes);
	struct ll_value *x[MAX_LANES], *a, *b;
	struct ll_loop r, c;

	ll_loop(l, &r, ll_i64(l, 0), ll_i64(l, rows), lanes, NULL, 0);
	ll_loop(l, &c, ll_i64(l, 0), ll_i64(l, cols), lanes, NULL, 0);
	a = att_elem_at(l, att_elem_at(l, from, r.i, 4 * from_row), c.i, 4);
	b = att_elem_at(l, att_elem_at(l, to, c.i, 4 * to_row), r.i, 4);
	for (i = 0; i < lanes; i++) {
		x[i] = ll_load(l, t, ll_plus_n(l, a, 4 * i * from_row));
		x[i] = scaled(l, x[i], by);
	}
	att_turn_square(l, x, lanes);
	for (i = 0; i < lanes; i++) {
		ll_store(l, x[i], ll_plus_n(l, b, 4 * i * to_row));
	}
	ll_loop_end(l, &c, NULL);
	ll_loop_end(l, &r, NULL);
}

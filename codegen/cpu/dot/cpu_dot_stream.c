/*
 * Contractions of few rows, as where a model generates a token at a time: each
 * element of B is used once or a few times, so the speed is that of memory.
 * B, whose rows are contiguous along k, is read in place by vector loads and
 * transposed in registers, or lies in panels (cpu_dot_panels.c), or is
 * contiguous along columns (cpu_dot_stream_across.c).  Rows of A are packed, as
 * they are read again for every column.
 *
 * The sum of each element has the order that cpu_dot_tile.c gives it: over k
 * one product (of AVX-512 BF16 one pair, of AMX one tile of 32) after another,
 * from zero in each stretch of k, and stretches in their order.  So a row has
 * the same bits however many rows are computed with it.  Of an int4 a stretch
 * is half a group, which is half a line: both sums are computed at once.
 */
#include "codegen/cpu/dot/cpu_dot_stream.h"

/* ---- which contractions ---- */

/* Whether neighbouring columns of B are neighbours in memory, and whole words
 * along k are in each stretch; not of AMX, which has pairs of rows in tiles. */
static bool
is_across(const struct dot *d)
{
	return d->unit.kind != DOT_TILES && d->source[1].base != LL_I8 &&
	       !d->unit.panels && dot_factor_dense(&d->n, 1) &&
	       d->over.size % d->unit.per_word == 0 &&
	       d->depth % d->unit.per_word == 0;
}

bool
dot_stream_find(const struct dot *d, struct dot_stream *s)
{
	bool tiles = d->unit.kind == DOT_TILES;
	uint32_t rows = tiles ? 2 * STREAM_ROWS : 1;
	bool across = !dot_factor_dense(&d->over, 1);

	*s = (struct dot_stream){ 0 };
	if (d->result == DOT_ADD || d->n.n != 1 || d->over.n != 1 ||
	    (across && !is_across(d)) || d->n.size < d->unit.lanes ||
	    d->m.size > (tiles ? 2 * STREAM_ROWS : STREAM_ROWS)) {
		return false;
	}
	/* a tile of B's rows is loaded whole */
	if (tiles && d->over.size % (d->unit.words * d->unit.per_word)) {
		return false;
	}
	while (rows < d->m.size) {
		rows *= 2;
	}
	s->rows = rows;
	s->base = d->source[1].base;
	s->dtype = (uint8_t)d->source[1].view.dtype;
	s->kind = (uint8_t)d->unit.kind;
	s->k = d->over.size;
	s->depth = d->depth;
	s->row_bytes = dot_bytes(dot_size_apart(s->base, s->dtype),
				 d->n.at[0].stride[1]);
	s->k_bytes = !across ? 0 : dot_bytes(dot_size_apart(s->base, s->dtype),
					     d->over.at[0].stride[1]);
	s->panels = d->unit.panels;
	/* four of the eight tiles of AMX are sums; of more rows of B at a time
	 * than 16 a core misses more (measured on Zen 4) */
	s->nv = tiles ? 4 : d->unit.lanes == STREAM_LANES ? 1 : 2;
	if (s->panels) {
		s->nv = dot_panels_at_once(&d->unit, rows);
	} else if (across) {
		s->nv = dot_across_at_once(&d->unit, rows);
	}
	return true;
}

/* ---- all columns of an item ---- */

struct put {
	struct ll *l;
	const struct dot_unit *u;
	struct ll_value *to, *ld, *rows;
	struct ll_value *sums;	/* on the stack */
	int64_t apart; /* of those of a vector and of the next one */
};

/*
 * Stores a group's sums at column `col`, of nv vectors; `mask`: lanes of the
 * only one.
 */
static void
put_sums(const struct put *p, struct ll_value *col, uint32_t nv,
	 struct ll_value *mask)
{
	const struct ll_type vec = ll_type(LL_F32, p->u->lanes);
	struct ll_value *from, *to, *v;
	struct ll *l = p->l;
	struct ll_loop r;
	uint32_t i;

	ll_loop(l, &r, ll_i64(l, 0), p->rows, 1, NULL, 0);
	from = ll_plus(l, p->sums, ll_mul_n(l, r.i, 4 * p->u->lanes));
	to = ll_plus(l, p->to, ll_bin(l, LL_MUL, r.i, p->ld));
	to = ll_plus(l, to, ll_mul_n(l, col, 4));
	for (i = 0; i < nv; i++) {
		v = ll_load(l, vec, ll_plus_n(l, from, (int64_t)i * p->apart));
		if (mask) {
			ll_store_if(l, v, to, mask);
		} else {
			ll_store(l, v, ll_plus_n(l, to, 4 * i * p->u->lanes));
		}
	}
	ll_loop_end(l, &r, NULL);
}

static void
call_sums(const struct put *p, struct ll_value *sums, struct ll_value *a,
	  struct ll_value *b, struct ll_value *col, int64_t row_bytes)
{
	struct ll_value *args[] = {
		a, ll_plus(p->l, b, ll_mul_n(p->l, col, row_bytes)), p->sums
	};

	ll_call(p->l, sums, args, 3);
}

/* Whole groups, then single vectors. */
static void
all_columns(struct cg_cpu *c, const struct dot_unit *u,
	    const struct dot_stream *s, struct ll_value *f,
	    struct ll_value *const *sums)
{
	int64_t lanes = u->lanes, group = s->nv * lanes;
	struct ll_value *a = ll_param(c->ll, f, 0), *b = ll_param(c->ll, f, 1);
	struct ll_value *cols = ll_param(c->ll, f, 5), *whole, *back, *mask;
	struct ll_value *left = ll_param(c->ll, f, 6);
	struct put p = { .l = c->ll, .u = u, .to = ll_param(c->ll, f, 2),
			 .ld = ll_param(c->ll, f, 3),
			 .rows = ll_param(c->ll, f, 4) };
	struct ll *l = c->ll;
	struct ll_loop i;

	p.apart = 4 * lanes * s->rows;
	p.sums = ll_stack(l, ll_type(LL_F32, 1), s->rows * group);
	whole = ll_mul_n(l, ll_div_n(l, cols, group), group);
	ll_loop(l, &i, ll_i64(l, 0), whole, group, NULL, 0);
	call_sums(&p, sums[0], a, b, i.i, s->row_bytes);
	put_sums(&p, i.i, s->nv, NULL);
	ll_loop_end(l, &i, NULL);
	ll_loop(l, &i, whole, cols, lanes, NULL, 0);
	/* a vector may read the operand's next columns; at its end, those
	 * before */
	back = ll_sub(l, ll_add(l, i.i, ll_i64(l, lanes)), left);
	back = ll_select(l, ll_test(l, LL_LT, back, ll_i64(l, 0)),
			 ll_i64(l, 0), back);
	whole = ll_sub(l, i.i, back);
	mask = ll_mask(l, ll_sub(l, cols, whole), u->lanes);
	mask = ll_bin(l, LL_XOR, mask, ll_mask(l, back, u->lanes));
	call_sums(&p, sums[1], a, b, whole, s->row_bytes);
	put_sums(&p, whole, 1, mask);
	ll_loop_end(l, &i, NULL);
	ll_return(l, NULL);
}

struct ll_value *
dot_stream_func(struct cg_cpu *c, const struct dot_unit *u,
		const struct dot_stream *s)
{
	const struct ll_type p = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { p, p, p, n, n, n, n };
	struct ll_value *(*emit)(struct cg_cpu *, const struct dot_unit *,
				 const struct dot_stream *, uint32_t) =
		s->panels ? dot_panel_sums
		: s->k_bytes ? dot_across_sums : dot_stream_sums;
	struct cg_cpu_stream made = { .key = *s };
	struct ll_value *sums[2];
	uint32_t i;

	for (i = 0; i < c->streams.n; i++) {
		const struct dot_stream *k = &c->streams.at[i].key;

		if (k->rows == s->rows && k->base == s->base &&
		    k->dtype == s->dtype && k->kind == s->kind &&
		    k->k == s->k && k->panels == s->panels &&
		    k->row_bytes == s->row_bytes &&
		    k->k_bytes == s->k_bytes) {
			return c->streams.at[i].func;
		}
	}
	sums[0] = emit(c, u, s, s->nv);
	sums[1] = s->nv == 1 ? sums[0] : emit(c, u, s, 1);
	made.func = ll_func(c->ll, arena_printf(c->a, "streams%u", c->nfuncs++),
			    ll_type(LL_VOID, 1), types, 7, false);
	all_columns(c, u, s, made.func, sums);
	VEC_PUSH(c->a, &c->streams, made);
	return made.func;
}

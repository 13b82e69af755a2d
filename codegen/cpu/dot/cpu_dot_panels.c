/*
 * Contractions of few rows, of which B lies in panels (codegen/panels.c): its
 * vectors are loaded as they are, and lie in one direction, so that processors
 * prefetch them.  Sums have the order of cpu_dot_stream.c.
 */
#include "codegen/cpu/dot/cpu_dot_stream.h"

#include <string.h>

#define MOST_PANELS 4	/* that are read at once */

/*
 * A number of A that is loaded is multiplied with so many vectors, and all sums
 * are in registers, of which there are 32 or 16.  For few rows one panel is
 * quickest, if its sum does not wait longer for itself than for memory, as that
 * of vectors of several words does.  Four of the eight tiles of AMX are sums.
 */
uint32_t
dot_panels_at_once(const struct dot_unit *u, uint32_t rows)
{
	if (u->kind == DOT_TILES) {
		return 4;
	}
	if (u->lanes == 16 && rows < 4) {
		return u->parts > 1 ? 3 : 1;
	}
	if (u->lanes == 16) {
		return u->parts > 1 && rows > 4 ? 2 : 3;
	}
	return rows > 4 ? 1 : 2;
}

struct ll_value *
dot_panel_at(const struct dot *d, struct ll_value *at, struct ll_value *column,
	     struct ll_value *k)
{
	struct ll *l = d->c->ll;

	at = ll_plus(l, at, ll_mul_n(l, column, dot_column_bytes(d)));
	k = ll_div_n(l, k, d->unit.per_word);
	return ll_plus(l, at, ll_mul_n(l, k, dot_word_bytes(&d->unit)));
}

/* Panel v of what begins at `first`. */
static struct ll_value *
panel_at(const struct stream *x, struct ll_value *first, int64_t v)
{
	return ll_plus_n(x->l, first, v * x->u->lanes * x->s->row_bytes);
}

/* ---- in vectors ---- */

/*
 * Adds the products of a word of A at `a`, of each row, and of word i of each
 * panel's vector.  A number is loaded for all panels and then forgotten: those
 * of all rows would take as many registers.
 */
static void
one_word(const struct stream *x, struct ll_value *a,
	 struct ll_value *vec[MOST_PANELS][4], uint32_t i,
	 struct ll_value **sum)
{
	enum ll_base word = x->u->kind == DOT_FMA ? LL_F32 : LL_I32;
	struct ll_value *number, **to;
	uint32_t r, v;

	for (r = 0; r < x->s->rows; r++) {
		number = ll_load(x->l, ll_type(word, 1),
				 ll_plus_n(x->l, a, 4 * r));
		number = ll_splat(x->l, number, x->u->lanes);
		for (v = 0; v < x->nv; v++) {
			to = &sum[v * x->s->rows + r];
			*to = dot_multiply_add(x->l, x->u, number, vec[v][i],
					       *to);
		}
	}
}

/* The vector of B at `b` as words of the unit; prefetches another one. */
static void
load_words(const struct stream *x, struct ll_value *b, struct ll_value **out)
{
	enum ll_base word = x->u->kind == DOT_FMA && x->u->parts == 1
		? LL_F32 : LL_I32;
	struct ll_value *v;
	uint32_t i;

	ll_prefetch(x->l, ll_plus_n(x->l, b, DOT_PANEL_AHEAD));
	v = ll_load(x->l, ll_type(word, x->u->lanes), b);
	if (x->s->base != LL_I8 && x->u->parts == 2) {
		dot_split(x->l, v, out);
	} else if (x->s->base != LL_I8) {
		out[0] = v;
	} else if (x->has_tables) {
		dot_widen_words(x->l, x->u, x->tables, v, x->s->dtype, out);
	} else {
		for (i = 0; i < x->u->parts; i++) {
			out[i] = dot_widen_word(x->l, x->u, v, x->s->dtype,
						(int)i);
		}
	}
}

static void
find_tables(struct stream *x)
{
	x->has_tables = x->s->base == LL_I8 &&
			dot_has_tables(x->l, x->u, x->s->dtype);
	if (x->has_tables) {
		dot_load_tables(x->l, x->s->dtype, x->tables);
	}
}

/* The same of all words of the vectors at `b`, which is that of panel 0. */
static void
one_load(const struct stream *x, struct ll_value *a, struct ll_value *b,
	 struct ll_value **sum)
{
	struct ll_value *vec[MOST_PANELS][4];
	uint32_t v, i;

	for (v = 0; v < x->nv; v++) {
		load_words(x, panel_at(x, b, v), vec[v]);
	}
	for (i = 0; i < x->u->parts; i++) {
		one_word(x, ll_plus_n(x->l, a, 4 * i * x->s->rows), vec, i,
			 sum);
	}
}

/* Sums over so many words, of A from `a` on and of B from `b` on. */
static void
sum_words(const struct stream *x, struct ll_value *a, struct ll_value *b,
	  struct ll_value *words, struct ll_value **sum)
{
	const struct ll_type vec = ll_type(LL_F32, x->u->lanes);
	uint32_t n = x->nv * x->s->rows, i;
	struct ll *l = x->l;
	struct ll_loop k;

	for (i = 0; i < n; i++) {
		sum[i] = ll_zero(l, vec);
	}
	ll_loop(l, &k, ll_i64(l, 0), words, x->u->words, sum, n);
	memcpy(sum, k.at, n * sizeof *sum);
	a = ll_plus(l, a, ll_mul_n(l, k.i, 4 * x->s->rows));
	b = ll_plus(l, b, ll_mul_n(l, k.i, dot_word_bytes(x->u)));
	for (i = 0; i < x->u->words; i += x->u->parts) {
		struct ll_value *number = ll_plus_n(l, a, 4 * i * x->s->rows);
		struct ll_value *at;

		at = ll_plus_n(l, b, i * dot_word_bytes(x->u));
		one_load(x, number, at, sum);
	}
	ll_loop_end(l, &k, sum);
	memcpy(sum, k.at, n * sizeof *sum);
}

/* ---- in AMX tiles ---- */

/* 16 words of a panel are a right operand.  The left one is A, a row's 16 words
 * after another's. */
static void
in_tiles(const struct stream *x)
{
	struct ll_value *at, *tile;
	struct ll *l = x->l;
	struct ll_loop k;
	int v, r;

	for (v = 0; v < (int)x->nv; v++) {
		dot_amx(l, "llvm.x86.tilezero", &v, 1, NULL, NULL);
	}
	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, x->s->k), 32, NULL, 0);
	tile = ll_mul_n(l, k.i, 2 * 16);
	dot_amx(l, "llvm.x86.tileloadd64", (int[]){ 7 }, 1,
		ll_plus(l, x->a, tile), ll_i64(l, 64));
	for (v = 0; v < (int)x->nv; v++) {
		const int tiles[] = { v, 7, 4 + v % 3 };

		at = ll_plus(l, panel_at(x, x->b, v), tile);
		for (r = 0; r < 16; r++) {
			ll_prefetch(l, ll_plus_n(l, at, DOT_PANEL_AHEAD +
							64 * r));
		}
		dot_amx(l, "llvm.x86.tileloadd64", &tiles[2], 1, at,
			ll_i64(l, 64));
		dot_amx(l, "llvm.x86.tdpbf16ps", tiles, 3, NULL, NULL);
	}
	ll_loop_end(l, &k, NULL);
	for (v = 0; v < (int)x->nv; v++) {
		dot_amx(l, "llvm.x86.tilestored64", &v, 1,
			ll_plus_n(l, x->to, 1024 * v), ll_i64(l, 64));
	}
}

/* ---- widened, for many rows ---- */

/* The panel at `from` becomes words at `to`, in one of the unit's panels. */
static void
widen_panel(const struct stream *x, struct ll_value *from, struct ll_value *to,
	    struct ll_value *words)
{
	int64_t row = 4 * dot_nr(x->u);
	struct ll_value *vec[4], *at;
	struct ll *l = x->l;
	struct ll_loop w;
	uint32_t i;

	ll_loop(l, &w, ll_i64(l, 0), words, x->u->parts, NULL, 0);
	at = ll_mul_n(l, w.i, dot_word_bytes(x->u));
	load_words(x, ll_plus(l, from, at), vec);
	at = ll_plus(l, to, ll_mul_n(l, w.i, row));
	for (i = 0; i < x->u->parts; i++) {
		ll_store(l, vec[i], ll_plus_n(l, at, i * row));
	}
	ll_loop_end(l, &w, NULL);
}

struct ll_value *
dot_panel_packer_func(struct cg_cpu *c, const struct dot_pack *p)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { ptr, ptr, n, n, n, n };
	struct dot_stream s = { .base = p->base, .dtype = p->dtype };
	struct dot_unit u = *p->unit;
	struct stream x = { .l = c->ll, .u = &u, .s = &s };
	int64_t bytes = dot_size_along(p->base, p->dtype).bytes, column;
	struct ll_value *f, *words, *from, *to;
	struct ll *l = c->ll;
	struct ll_loop v;

	u.parts = p->parts;
	column = p->k->size * bytes;
	f = ll_func(l, arena_printf(c->a, "widen%u", c->nfuncs++),
		    ll_type(LL_VOID, 1), types, 6, false);
	ll_noalias(l, f, 0);
	find_tables(&x);
	words = dot_words(l, &u, ll_param(l, f, 5));
	from = ll_mul_n(l, ll_param(l, f, 2), column);
	from = ll_plus(l, ll_param(l, f, 1), from);
	from = ll_plus(l, from, ll_mul_n(l, ll_param(l, f, 4),
					u.lanes * bytes));
	ll_loop(l, &v, ll_i64(l, 0), ll_param(l, f, 3), u.lanes, NULL, 0);
	to = ll_mul_n(l, ll_div_n(l, v.i, dot_nr(&u)), dot_nr(&u));
	to = ll_bin(l, LL_MUL, to, words);
	to = ll_add(l, to, ll_rem_n(l, v.i, dot_nr(&u)));
	to = ll_plus(l, ll_param(l, f, 0), ll_mul_n(l, to, 4));
	widen_panel(&x, ll_plus(l, from, ll_mul_n(l, v.i, column)), to, words);
	ll_loop_end(l, &v, NULL);
	ll_return(l, NULL);
	return f;
}

/* ---- the functions ---- */

struct ll_value *
dot_panel_sums(struct cg_cpu *c, const struct dot_unit *u,
	       const struct dot_stream *s, uint32_t nv)
{
	const struct ll_type p = ll_type(LL_PTR, 1), types[] = { p, p, p };
	struct stream x = { .l = c->ll, .u = u, .s = s, .nv = nv };
	struct ll_value *f;

	f = ll_func(c->ll, arena_printf(c->a, "panels%u", c->nfuncs++),
		    ll_type(LL_VOID, 1), types, 3, false);
	ll_noalias(c->ll, f, 2);
	x.a = ll_param(c->ll, f, 0);
	x.b = ll_param(c->ll, f, 1);
	x.to = ll_param(c->ll, f, 2);
	find_tables(&x);
	if (u->kind == DOT_TILES) {
		in_tiles(&x);
	} else {
		dot_stream_stretches(&x, dot_word_bytes(u), sum_words);
	}
	ll_return(c->ll, NULL);
	return f;
}

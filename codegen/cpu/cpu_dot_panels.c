/*
 * Contractions of few rows, of which B lies in panels (codegen/panels.c): its
 * vectors are loaded as they are, and lie in one direction, so that processors
 * prefetch them.  Sums have the order of cpu_dot_stream.c.
 */
#include "codegen/cpu/cpu_dot.h"

#include <string.h>

#define MOST_SUMS 24	/* in registers */
#define AHEAD 4096	/* bytes of a panel that are prefetched in AMX */

/*
 * A number of A that is loaded is multiplied with so many vectors, and all sums
 * are in registers, of which there are 32 or 16.  For few rows one panel is
 * quickest, if its sum does not wait longer for itself than for memory; four of
 * the eight tiles of AMX are sums.
 */
uint32_t
dot_panels_at_once(const struct dot_unit *u, uint32_t rows)
{
	if (u->kind == DOT_TILES) {
		return 4;
	}
	if (u->lanes == 16) {
		return rows < 4 ? 1 : u->halves && rows > 4 ? 2 : 3;
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

struct panels {
	struct ll *l;
	const struct dot_unit *u;
	const struct dot_stream *s;
	uint32_t nv;		/* panels */
	struct ll_value *a, *b, *to;	/* parameters */
};

/* Panel v of what begins at `first`. */
static struct ll_value *
panel_at(const struct panels *x, struct ll_value *first, int64_t v)
{
	return ll_plus_n(x->l, first, v * x->u->lanes * x->s->row_bytes);
}

/* ---- in vectors ---- */

/* Adds products of a word of A at `a`, of each row, and of a vector of B. */
static void
one_vector(const struct panels *x, struct ll_value *a, struct ll_value *vec,
	   struct ll_value **sum)
{
	enum ll_base word = x->u->kind == DOT_FMA ? LL_F32 : LL_I32;
	struct ll_value *number;
	uint32_t r;

	for (r = 0; r < x->s->rows; r++) {
		number = ll_load(x->l, ll_type(word, 1),
				 ll_plus_n(x->l, a, 4 * r));
		number = ll_splat(x->l, number, x->u->lanes);
		sum[r] = dot_multiply_add(x->l, x->u, number, vec, sum[r]);
	}
}

/* The same of a word of B at `b`, of all panels. */
static void
one_word(const struct panels *x, struct ll_value *a, struct ll_value *b,
	 struct ll_value **sum)
{
	enum ll_base word = x->u->kind == DOT_FMA ? LL_F32 : LL_I32;
	struct ll_value *vec;
	uint32_t v;

	for (v = 0; v < x->nv; v++) {
		vec = ll_load(x->l, ll_type(word, x->u->lanes),
			      panel_at(x, b, v));
		one_vector(x, a, vec, sum + v * x->s->rows);
	}
}

/* The same of two words that are halves of one. */
static void
two_words(const struct panels *x, struct ll_value *a, struct ll_value *b,
	  struct ll_value **sum)
{
	struct ll_value *vec[2], *next;
	uint32_t v;

	for (v = 0; v < x->nv; v++) {
		dot_load_halves(x->l, x->u, panel_at(x, b, v), vec);
		one_vector(x, a, vec[0], sum + v * x->s->rows);
		next = ll_plus_n(x->l, a, 4 * x->s->rows);
		one_vector(x, next, vec[1], sum + v * x->s->rows);
	}
}

/* Sums over so many words, of A from `a` on and of B from `b` on. */
static void
sum_words(const struct panels *x, struct ll_value *a, struct ll_value *b,
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
	for (i = 0; i < x->u->words; i += x->u->halves ? 2 : 1) {
		struct ll_value *number = ll_plus_n(l, a, 4 * i * x->s->rows);
		struct ll_value *at;

		at = ll_plus_n(l, b, i * dot_word_bytes(x->u));
		(x->u->halves ? two_words : one_word)(x, number, at, sum);
	}
	ll_loop_end(l, &k, sum);
	memcpy(sum, k.at, n * sizeof *sum);
}

/* Stretches are added in their order. */
static void
in_vectors(const struct panels *x)
{
	const struct ll_type vec = ll_type(LL_F32, x->u->lanes);
	int64_t depth = x->s->depth, per = x->u->per_word;
	int64_t panel = 4 * dot_panel_words_of(x->u, depth) * x->s->rows;
	struct ll_value *sum[MOST_SUMS], *from, *n, *to, *first, *all;
	struct ll *l = x->l;
	struct ll_loop q;
	uint32_t i;

	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, (x->s->k + depth - 1) / depth),
		1, NULL, 0);
	from = ll_mul_n(l, q.i, depth);
	n = ll_min(l, ll_i64(l, depth), ll_sub(l, ll_i64(l, x->s->k), from));
	from = ll_mul_n(l, ll_div_n(l, from, per), dot_word_bytes(x->u));
	from = ll_plus(l, x->b, from);
	n = ll_div_n(l, n, per);
	sum_words(x, ll_plus(l, x->a, ll_mul_n(l, q.i, panel)), from, n, sum);
	first = ll_test(l, LL_EQ, q.i, ll_i64(l, 0));
	for (i = 0; i < x->nv * x->s->rows; i++) {
		to = ll_plus_n(l, x->to, 4 * (int64_t)i * x->u->lanes);
		all = ll_add(l, sum[i], ll_load(l, vec, to));
		ll_store(l, ll_select(l, first, sum[i], all), to);
	}
	ll_loop_end(l, &q, NULL);
}

/* ---- in AMX tiles ---- */

/* 16 words of a panel are a right operand.  The left one is A, a row's 16 words
 * after another's. */
static void
in_tiles(const struct panels *x)
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
			ll_prefetch(l, ll_plus_n(l, at, AHEAD + 64 * r));
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

struct ll_value *
dot_panel_sums(struct cg_cpu *c, const struct dot_unit *u,
	       const struct dot_stream *s, uint32_t nv)
{
	const struct ll_type p = ll_type(LL_PTR, 1), types[] = { p, p, p };
	struct panels x = { .l = c->ll, .u = u, .s = s, .nv = nv };
	struct ll_value *f;

	f = ll_func(c->ll, arena_printf(c->a, "panels%u", c->nfuncs++),
		    ll_type(LL_VOID, 1), types, 3, false);
	ll_noalias(c->ll, f, 2);
	x.a = ll_param(c->ll, f, 0);
	x.b = ll_param(c->ll, f, 1);
	x.to = ll_param(c->ll, f, 2);
	if (u->kind == DOT_TILES) {
		in_tiles(&x);
	} else {
		in_vectors(&x);
	}
	ll_return(c->ll, NULL);
	return f;
}

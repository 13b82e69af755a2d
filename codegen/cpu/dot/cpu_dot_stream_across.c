/*
 * Contractions of few rows, of which B is contiguous along its columns, as
 * where a matrix is multiplied from its other side: neighbouring columns of a
 * row of B are a vector, so nothing is transposed.  Where a word is a pair of
 * bf16, those of two rows take turns.  Sums have the order of cpu_dot_stream.c.
 */
#include "codegen/cpu/dot/cpu_dot_stream.h"

#include <string.h>

#define SUMS 16		/* in registers, beside what they are made of */
#define MOST_VECTORS 8
#define AHEAD_ROWS 16	/* of B that are prefetched in advance */

/* A number of A that is loaded is multiplied with so many vectors. */
uint32_t
dot_across_at_once(const struct dot_unit *u, uint32_t rows)
{
	uint32_t n = (u->lanes == STREAM_LANES ? SUMS : SUMS / 2) /
		     rows;

	return n > MOST_VECTORS ? MOST_VECTORS : n > 0 ? n : 1;
}

/* Vector v of the row of B at `at`, as 16 bits each if `words`, else as f32. */
static struct ll_value *
load_row(const struct stream *x, struct ll_value *at, uint32_t v, bool words)
{
	uint32_t lanes = x->u->lanes;
	struct ll_type f32 = ll_type(LL_F32, lanes);
	struct ll *l = x->l;
	struct ll_value *b;

	at = ll_plus_n(l, at, (int64_t)v * lanes * x->s->row_bytes);
	if (x->s->base == LL_F32) {
		return ll_load(l, f32, at);
	}
	if (x->s->base == LL_F16) {
		b = ll_load(l, ll_type(LL_F16, lanes), at);
		return ll_cast(l, b, LL_F32);
	}
	b = ll_cast(l, ll_load(l, ll_type(LL_I16, lanes), at), LL_I32);
	if (words) {
		return b;
	}
	b = ll_bin(l, LL_SHL, b, ll_int(l, ll_type(LL_I32, lanes), 16));
	return ll_bits(l, b, f32);
}

/* Vector v of the word that begins with the row of B at `at`. */
static struct ll_value *
word_of(const struct stream *x, struct ll_value *at, uint32_t v)
{
	const struct ll_type t = ll_type(LL_I32, x->u->lanes);
	struct ll *l = x->l;
	struct ll_value *a, *b;

	if (x->u->kind == DOT_FMA) {
		return load_row(x, at, v, false);
	}
	a = load_row(x, at, v, true);
	b = load_row(x, ll_plus_n(l, at, x->s->k_bytes), v, true);
	a = ll_bin(l, LL_AND, a, ll_int(l, t, 0xffff));
	return ll_bin(l, LL_OR, a, ll_bin(l, LL_SHL, b, ll_int(l, t, 16)));
}

/* Adds the products of a word of A at `a`, of each row, with B's at `b`. */
static void
one_word(const struct stream *x, struct ll_value *a, struct ll_value *b,
	 struct ll_value *const *from, struct ll_value **to)
{
	enum ll_base word = x->u->kind == DOT_FMA ? LL_F32 : LL_I32;
	struct ll *l = x->l;
	struct ll_value *vec[MOST_VECTORS], *number;
	uint32_t rows = x->s->rows, v, r, i;

	for (i = 0; i < x->u->per_word; i++) {
		ll_prefetch(l, ll_plus_n(l, b, (AHEAD_ROWS + i) *
						x->s->k_bytes));
	}
	for (v = 0; v < x->nv; v++) {
		vec[v] = word_of(x, b, v);
	}
	for (r = 0; r < rows; r++) {
		number = ll_load(l, ll_type(word, 1), ll_plus_n(l, a, 4 * r));
		number = ll_splat(l, number, x->u->lanes);
		for (v = 0; v < x->nv; v++) {
			to[v * rows + r] = dot_multiply_add(l, x->u, number,
				vec[v], from[v * rows + r]);
		}
	}
}

/* Sums over so many words, of A from `a` on and of B from `b` on. */
static void
sum_words(const struct stream *x, struct ll_value *a, struct ll_value *b,
	  struct ll_value *words, struct ll_value **sum)
{
	uint32_t sums = x->nv * x->s->rows, i;
	struct ll *l = x->l;
	struct ll_loop k;

	for (i = 0; i < sums; i++) {
		sum[i] = ll_zero(l, ll_type(LL_F32, x->u->lanes));
	}
	ll_loop(l, &k, ll_i64(l, 0), words, 1, sum, sums);
	a = ll_plus(l, a, ll_mul_n(l, k.i, 4 * x->s->rows));
	b = ll_plus(l, b, ll_mul_n(l, k.i, x->u->per_word * x->s->k_bytes));
	one_word(x, a, b, k.at, sum);
	ll_loop_end(l, &k, sum);
	memcpy(sum, k.at, sums * sizeof *sum);
}

struct ll_value *
dot_across_sums(struct cg_cpu *c, const struct dot_unit *u,
		const struct dot_stream *s, uint32_t nv)
{
	const struct ll_type p = ll_type(LL_PTR, 1), types[] = { p, p, p };
	struct stream x = { .c = c, .l = c->ll, .u = u, .s = s, .nv = nv };
	struct ll_value *f;

	f = ll_func(c->ll, arena_printf(c->a, "across%u", c->nfuncs++),
		    ll_type(LL_VOID, 1), types, 3, false);
	ll_noalias(c->ll, f, 2);
	x.a = ll_param(c->ll, f, 0);
	x.b = ll_param(c->ll, f, 1);
	x.to = ll_param(c->ll, f, 2);
	dot_stream_stretches(&x, u->per_word * s->k_bytes, sum_words);
	ll_return(c->ll, NULL);
	return f;
}

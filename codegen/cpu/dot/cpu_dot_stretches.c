/*
 * The order of sums that are in registers for a stretch of k: each stretch's
 * are added to those of the stretches before it, which are in memory meanwhile.
 */
#include "codegen/cpu/dot/cpu_dot_stream.h"

void
dot_stream_stretches(const struct stream *x, int64_t word_bytes,
		     dot_stream_words_fn *sum_words)
{
	const struct ll_type vec = ll_type(LL_F32, x->u->lanes);
	int64_t depth = x->s->depth, k = x->s->k, per = x->u->per_word;
	int64_t panel = 4 * dot_panel_words_of(x->u, depth) * x->s->rows;
	struct ll_value *sum[STREAM_SUMS], *from, *n, *to, *first, *all, *a;
	struct ll *l = x->l;
	struct ll_loop q;
	uint32_t i;

	ll_loop(l, &q, ll_i64(l, 0), ll_i64(l, (k + depth - 1) / depth), 1,
		NULL, 0);
	from = ll_mul_n(l, q.i, depth);
	n = ll_min(l, ll_i64(l, depth), ll_sub(l, ll_i64(l, k), from));
	from = ll_mul_n(l, ll_div_n(l, from, per), word_bytes);
	from = ll_plus(l, x->b, from);
	n = ll_div_n(l, n, per);
	a = ll_plus(l, x->a, ll_mul_n(l, q.i, panel));
	sum_words(x, a, from, n, sum);
	first = ll_test(l, LL_EQ, q.i, ll_i64(l, 0));
	for (i = 0; i < x->nv * x->s->rows; i++) {
		to = ll_plus_n(l, x->to, 4 * (int64_t)i * x->u->lanes);
		all = ll_add(l, sum[i], ll_load(l, vec, to));
		ll_store(l, ll_select(l, first, sum[i], all), to);
	}
	ll_loop_end(l, &q, NULL);
}

/*
 * The cache lines that packing will read next.  The microkernel prefetches them
 * while it multiplies: a block lies at strides that the processor does not
 * predict, and packing would wait for each line.  A list of addresses works for
 * every view, and costs the microkernel two instructions for each line.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#define LINE 64

static struct dot_size
size_of(const struct dot_pack *p, bool along_k)
{
	return along_k ? dot_size_along(p->base, p->dtype)
		       : dot_size_apart(p->base, p->dtype);
}

int64_t
dot_list_bytes(const struct dot_pack *p, int64_t rows, int64_t k)
{
	bool along_k = dot_factor_dense(p->k, p->which);
	int64_t runs = along_k ? rows : k;
	int64_t run = dot_bytes(size_of(p, along_k), along_k ? k : rows);

	return runs * ((run + LINE - 1) / LINE) * 8;
}

struct ll_value *
dot_lister_func(struct cg_cpu *c, const struct dot_pack *p)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1), n = ll_type(LL_I64, 1);
	const struct ll_type types[] = { ptr, ptr, n, n, n, n };
	bool along_k = dot_factor_dense(p->k, p->which);
	const struct cg_factor *fast = along_k ? p->k : p->rows;
	const struct cg_factor *slow = along_k ? p->rows : p->k;
	struct dot_size run_size = size_of(p, along_k);
	struct dot_size apart = size_of(p, !along_k);
	struct ll *l = c->ll;
	struct ll_value *f, *first[2], *count[2], *lines, *run, *to, *line;
	struct ll_loop s, i;
	int k;

	f = ll_func(l, arena_printf(c->a, "lines%u", c->nfuncs++), n, types,
		    6, false);
	for (k = 0; k < 2; k++) {	/* slow, fast */
		first[k] = ll_param(l, f, 2 + 2 * (k == along_k));
		count[k] = ll_param(l, f, 3 + 2 * (k == along_k));
	}
	lines = ll_add(l, dot_bytes_of(l, run_size, count[1]),
		       ll_i64(l, LINE - 1));
	lines = ll_div_n(l, lines, LINE);
	run = ll_plus(l, ll_param(l, f, 1),
		      dot_factor_at(l, fast, p->which, first[1],
				    run_size));
	ll_loop(l, &s, ll_i64(l, 0), count[0], 1, NULL, 0);
	run = ll_plus(l, run, dot_factor_at(l, slow, p->which,
					    ll_add(l, first[0], s.i), apart));
	to = ll_mul_n(l, ll_bin(l, LL_MUL, s.i, lines), 8);
	to = ll_plus(l, ll_param(l, f, 0), to);
	ll_loop(l, &i, ll_i64(l, 0), lines, 1, NULL, 0);
	line = ll_plus(l, run, ll_mul_n(l, i.i, LINE));
	ll_store(l, line, ll_plus(l, to, ll_mul_n(l, i.i, 8)));
	ll_loop_end(l, &i, NULL);
	ll_loop_end(l, &s, NULL);
	ll_return(l, ll_bin(l, LL_MUL, lines, count[0]));
	return f;
}

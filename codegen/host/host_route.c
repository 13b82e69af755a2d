/*
 * Rows that are routed to experts on other ranks.  A routed value has room
 * for the rows of the whole group, each at its own place: `dispatch` gives
 * all of them to all ranks, kernels leave out experts that are elsewhere, and
 * `combine` is a sum to which each row's own rank alone adds something.
 * Nothing is counted, dropped, or moved from its place, so what comes out
 * depends on no capacity, and talks move as much as in the worst case.
 */
#include "codegen/host/host.h"

#define ITEM_BYTES 65536	/* of rows that a worker looks at */

uint32_t
host_experts(const struct ir_module *m, const struct ir_node *n)
{
	const struct ir_attr *on = ir_attr(m, n, IR_ATTR_ON);
	uint32_t cut = 0, i;

	for (i = 0; i < on->ndims; i++) {
		cut |= (uint32_t)on->dims[i] << 4 * i;
	}
	return cut;
}

static int64_t
apart(const struct host_class *k, const struct ir_type *index, dim_id d)
{
	int64_t n = 1;
	uint32_t i;

	for (i = index->ndims; i-- > 0 && index->dims[i] != d; ) {
		n *= host_local(k, index->dims[i], index->cut[i]);
	}
	return i < index->ndims ? n : 0;
}

/* What stands behind the last dim of the index is one row. */
static void
find_rows(const struct host_class *k, const struct ir_type *t,
	  const struct ir_type *index, struct host_rows *out)
{
	uint32_t i = t->ndims, d;

	*out = (struct host_rows){ .n = 1,
			      .bytes = ir_dtypes[t->dtype].bits / 8 };
	while (i > 0 && !ir_type_has(index, t->dims[i - 1])) {
		i--;
		out->bytes *= host_local(k, t->dims[i], t->cut[i]);
	}
	out->ndims = i;
	for (d = 0; d < i; d++) {
		out->size[d] = host_local(k, t->dims[d], t->cut[d]);
		out->apart[d] = apart(k, index, t->dims[d]);
		out->n *= out->size[d];
	}
	out->per = out->bytes > 0 && out->bytes < ITEM_BYTES
		? ITEM_BYTES / out->bytes : 1;
}

/* ---- the kernel ---- */

static struct ll_value *
word(struct ll *l, struct ll_value *step, size_t member)
{
	return ll_load(l, ll_type(LL_PTR, 1),
		       ll_plus_n(l, ll_param(l, step, 0), (int64_t)member));
}

/* The expert of a row. */
static struct ll_value *
expert_of(struct ll *l, const struct host_rows *r, struct ll_value *index,
	  struct ll_value *row)
{
	struct ll_value *at = ll_i64(l, 0), *i;
	uint32_t k;

	for (k = r->ndims; k-- > 0; ) {
		struct ll_value *size = ll_i64(l, r->size[k]);

		i = ll_bin(l, LL_UREM, row, size);
		row = ll_bin(l, LL_UDIV, row, size);
		at = ll_bin(l, LL_ADD, at, ll_bin(l, LL_MUL, i,
					ll_i64(l, 4 * r->apart[k])));
	}
	return ll_cast(l, ll_load(l, ll_type(LL_I32, 1),
				  ll_plus(l, index, at)), LL_I64);
}

/* 1 if it is among the pieces, else 0. */
static struct ll_value *
is_among(struct ll *l, struct ll_value *pieces, struct ll_value *expert)
{
	const struct ll_type i64 = ll_type(LL_I64, 1);
	struct ll_value *none = ll_i64(l, 0), *at, *i, *next;
	struct ll_loop k;

	ll_loop(l, &k, ll_i64(l, 0), ll_load(l, i64, pieces), 1, &none, 1);
	at = ll_plus(l, pieces, ll_bin(l, LL_MUL, k.i, ll_i64(l, 16)));
	i = ll_bin(l, LL_SUB, expert,
		   ll_load(l, i64, ll_plus_n(l, at, (int64_t)
				offsetof(struct rt_pieces, at[0].start))));
	next = ll_test(l, LL_ULT, i,
		       ll_load(l, i64, ll_plus_n(l, at, (int64_t)
				offsetof(struct rt_pieces, at[0].count))));
	next = ll_bin(l, LL_OR, k.at[0],
		      ll_select(l, next, ll_i64(l, 1), none));
	ll_loop_end(l, &k, &next);
	return k.at[0];
}

static void
clear(struct ll *l, struct ll_value *at, int64_t bytes)
{
	enum ll_base base = bytes % 8 == 0 ? LL_I64
		: bytes % 4 == 0 ? LL_I32 : LL_I16;
	int64_t unit = base == LL_I64 ? 8 : base == LL_I32 ? 4 : 2;
	struct ll_loop k;

	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, bytes), unit, NULL, 0);
	ll_store(l, ll_zero(l, ll_type(base, 1)), ll_plus(l, at, k.i));
	ll_loop_end(l, &k, NULL);
}

/* at[0]: rows, at[1]: their experts, pieces[0]: those of this rank. */
static struct ll_value *
keep_step(struct ll *l, const char *name, const struct host_rows *r)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1), i64 = ll_type(LL_I64, 1);
	const struct ll_type params[] = { ptr, ptr, i64, i64 };
	struct ll_value *f = ll_func(l, name, ll_type(LL_VOID, 1), params, 4,
				     false);
	struct ll_value *at = word(l, f, offsetof(struct rt_call, at));
	struct ll_value *rows = ll_load(l, ptr, at);
	struct ll_value *index = ll_load(l, ptr, ll_plus_n(l, at, 8));
	struct ll_value *pieces = ll_load(l, ptr, word(l, f,
				offsetof(struct rt_call, pieces)));
	struct ll_value *per = ll_i64(l, r->per), *n = ll_i64(l, r->n), *to;
	struct ll_block *others, *next;
	struct ll_loop k;

	to = ll_bin(l, LL_MUL, ll_param(l, f, 3), per);
	to = ll_select(l, ll_test(l, LL_LT, to, n), to, n);
	ll_loop(l, &k, ll_bin(l, LL_MUL, ll_param(l, f, 2), per), to, 1,
		NULL, 0);
	others = ll_block(l, f, "others");
	next = ll_block(l, f, "next");
	ll_branch(l, ll_test(l, LL_EQ, ll_i64(l, 0), is_among(l, pieces,
				expert_of(l, r, index, k.i))), others, next);
	ll_at(l, others);
	clear(l, ll_plus(l, rows, ll_bin(l, LL_MUL, k.i,
					 ll_i64(l, r->bytes))), r->bytes);
	ll_jump(l, next);
	ll_at(l, next);
	ll_loop_end(l, &k, NULL);
	ll_return(l, NULL);
	return f;
}

void
host_keep_own(struct host_func *f, const struct ir_node *n,
	      struct ll_value *rows, struct ll_value *index)
{
	struct cg_code *c = f->c;
	const struct ir_type *t = ir_type(c->m, ir_args(c->m, n)[0]);
	const struct ir_type *at = ir_type(c->m, ir_args(c->m, n)[1]);
	struct ll_block *here = ll_here(c->ll);
	struct cg_kernel k = { .what = "rows of experts elsewhere" };
	struct cg_step s = { 0 };
	struct host_rows r;

	find_rows(f->k, t, at, &r);
	s.items = (r.n + r.per - 1) / r.per;
	if (r.bytes == 0 || s.items == 0) {
		return;
	}
	host_put(f, f->at, 0, rows);
	host_put(f, f->at, 1, index);
	host_put(f, f->pieces, 0, host_pieces(f, host_spread(c,
		ir_dim_size(c->m, at->of), host_experts(c->m, n))));
	if (c->arch) {
		host_service_keep_own(f, &r);
		return;
	}
	s.func = keep_step(c->ll, arena_printf(c->a, "keep%u", c->nfuncs++),
			   &r);
	ll_at(c->ll, here);
	VEC_PUSH(c->a, &k.steps, s);
	host_launch(f, host_own_kernel(c, &k, NULL,
				       (double)(r.n * r.bytes)));
}

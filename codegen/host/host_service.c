/*
 * Kernels of the host program's own: copies, the step's number, a square root,
 * fills, and rows that are set to zero.
 *
 * The host cannot touch a GPU's memory, so on GPUs they are functions of
 * codegen/cuda/prelude/services.cu, whose head lists their arguments.  Sizes
 * are arguments, so that one function of each serves all plans.
 *
 * A routed value has the rows of all ranks of the group, each at its own place:
 * dispatch sends all of them to all ranks, kernels leave out experts of other
 * ranks, and combine is a sum in which only the expert's rank has a row that is
 * not zero.  No row is dropped or moved from its place, so results depend on no
 * capacity; collectives always move as many bytes as in the worst case.
 */
#include "codegen/host/host.h"

#define THREADS 256
#define MOST_BLOCKS 1024	/* each loops over its share */

/* Rows of routed values. */
struct routed_rows {
	int64_t n, bytes, per; /* rows; bytes of one; rows of an item */
	uint32_t ndims;
	int64_t size[IR_MAX_DIMS];	/* of all dims that choose one */
	int64_t apart[IR_MAX_DIMS];	/* in the index; 0: not of it */
};

/* A function of services.cu; threads: how many have something to do. */
struct service {
	const char *func, *what;
	uint32_t nat, npieces, nnum;
	int64_t threads, at_bytes[2];
	double bytes;
};

static void
launch(struct host_func *f, const struct service *s)
{
	struct arena *a = f->c->a;
	struct cg_grid *g = arena_alloc(a, sizeof *g);
	struct cg_kernel k = { .what = s->what };
	const struct cg_operand operand = { 0 };
	const struct cg_spread spread = { 0 };
	const struct cg_num num = { 0 };
	struct cg_step step = { .grid = g };
	int64_t blocks = (s->threads + THREADS - 1) / THREADS;
	uint32_t i;

	*g = (struct cg_grid){ .func = s->func, .blocks = { 1, 1, 1 },
			       .threads = THREADS, .cluster = 1 };
	g->blocks[0] = blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS
							     : blocks;
	for (i = 0; i < s->nat; i++) {
		VEC_PUSH(a, &k.operands, operand);
	}
	for (i = 0; i < s->npieces; i++) {
		VEC_PUSH(a, &k.spreads, spread);
	}
	for (i = 0; i < s->nnum; i++) {
		VEC_PUSH(a, &k.nums, num);
	}
	VEC_PUSH(a, &k.steps, step);
	host_launch(f, host_own_kernel(f->c, &k, s->at_bytes, s->bytes));
}

static void
put_num(struct host_func *f, uint32_t i, int64_t v)
{
	host_store(f, f->num, i, ll_i64(f->c->ll, v));
}

static void
gpu_copy(struct host_func *f, struct ll_value *from,
		  struct ll_value *to, int64_t bytes)
{
	const struct service s = {
		"copy", arena_printf(f->c->a, "copy %lld bytes",
				     (long long)bytes), 2, 0, 1,
		bytes / 16 + 1, { bytes, bytes }, 2 * (double)bytes
	};

	host_store(f, f->at, 0, from);
	host_store(f, f->at, 1, to);
	put_num(f, 0, bytes);
	launch(f, &s);
}

void
host_service_number(struct host_func *f, int64_t number, struct ll_value *to)
{
	const struct service s = { "put_given", "number of the step", 1, 0,
				   1, 1, { 4 }, 4 };

	host_store(f, f->at, 0, to);
	put_num(f, 0, number);
	launch(f, &s);
}

void
host_service_root(struct host_func *f, struct ll_value *from,
		  struct ll_value *to)
{
	const struct service s = { "root", "root", 2, 0, 0, 1, { 4, 4 },
				   8 };

	host_store(f, f->at, 0, from);
	host_store(f, f->at, 1, to);
	launch(f, &s);
}

static void
gpu_keep_own(struct host_func *f, const struct routed_rows *x)
{
	const struct service s = { "keep_own", "rows of experts elsewhere",
				   2, 1, 3 + 2 * IR_MAX_DIMS, x->n * 32,
				   { x->n * x->bytes, -1 },
				   (double)(x->n * x->bytes) };
	uint32_t i;

	put_num(f, 0, x->n);
	put_num(f, 1, x->bytes);
	put_num(f, 2, x->ndims);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		bool is = i < x->ndims;

		put_num(f, 3 + i, is ? x->size[i] : 1);
		put_num(f, 3 + IR_MAX_DIMS + i, is ? x->apart[i] : 0);
	}
	launch(f, &s);
}

void
host_service_fill(struct host_func *f, const struct host_fill *x,
		  struct ll_value *key, struct ll_value *to)
{
	enum ir_dtype dtype = (enum ir_dtype)x->type.dtype;
	struct service s = { "fill", x->how == 'b' ? "draw" : "fill", 1,
			     IR_MAX_DIMS, 8 + IR_MAX_DIMS, 1, { 0 }, 0 };
	struct ir_module *m = f->c->m;
	uint32_t n = x->type.ndims - x->stacked, i;

	host_store(f, f->at, 0, to);
	host_store(f, f->num, 0, key);
	put_num(f, 1, x->how);
	put_num(f, 2, (int64_t)num_bits(x->std));
	put_num(f, 3, x->below);
	put_num(f, 4, host_elem(dtype));
	put_num(f, 5, n);
	put_num(f, 6, x->more);
	put_num(f, 7, x->shift);
	for (i = 0; i < IR_MAX_DIMS; i++) {
		uint32_t d = x->stacked + (i < n ? i : 0);
		int64_t size = n ? ir_dim_size(m, x->type.dims[d]) : 1;

		s.threads *= i < n ? host_local(f->k, x->type.dims[d],
						x->type.cut[d]) : 1;
		put_num(f, 8 + i, size);
		/* pieces of no dim are not read */
		host_store(f, f->pieces, i, host_pieces(f, n
			? host_add_spread(f->c, size, x->type.cut[d]) : 0));
	}
	s.at_bytes[0] = s.threads * ir_dtypes[dtype].bits / 8;
	s.bytes = (double)s.at_bytes[0];
	launch(f, &s);
}

/* ---- rows of routed values ---- */

#define ITEM_BYTES 65536	/* of rows of an item */

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

/* The dims after the last one of the index are one row. */
static void
find_rows(const struct host_class *k, const struct ir_type *t,
	  const struct ir_type *index, struct routed_rows *out)
{
	uint32_t i = t->ndims, d;

	*out = (struct routed_rows){ .n = 1,
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

static struct ll_value *
word(struct ll *l, struct ll_value *step, size_t member)
{
	return ll_load(l, ll_type(LL_PTR, 1),
		       ll_plus_n(l, ll_param(l, step, 0), (int64_t)member));
}

/* The expert of a row. */
static struct ll_value *
expert_of(struct ll *l, const struct routed_rows *r, struct ll_value *index,
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
keep_step(struct ll *l, const char *name, const struct routed_rows *r)
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
	struct routed_rows r;

	find_rows(f->k, t, at, &r);
	s.items = (r.n + r.per - 1) / r.per;
	if (r.bytes == 0 || s.items == 0) {
		return;
	}
	host_store(f, f->at, 0, rows);
	host_store(f, f->at, 1, index);
	host_store(f, f->pieces, 0, host_pieces(f, host_add_spread(c,
		ir_dim_size(c->m, at->of), host_experts_cut(c->m, n))));
	if (c->arch) {
		gpu_keep_own(f, &r);
		return;
	}
	s.func = keep_step(c->ll, arena_printf(c->a, "keep%u", c->nfuncs++),
			   &r);
	ll_at(c->ll, here);
	VEC_PUSH(c->a, &k.steps, s);
	host_launch(f, host_own_kernel(c, &k, NULL,
				       (double)(r.n * r.bytes)));
}

/* ---- copies ---- */

#define COPY_ITEM 65536		/* bytes that a worker copies at once */

/* at[0] to at[1], num[0] bytes. */
static struct ll_value *
copy_step(struct cg_code *c)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1), i64 = ll_type(LL_I64, 1);
	const struct ll_type params[] = { ptr, ptr, i64, i64 };
	struct ll_value *f = ll_func(c->ll, "copy", ll_type(LL_VOID, 1),
				     params, 4, false);
	struct ll_value *at, *from, *to, *bytes, *lo, *hi;
	struct ll *l = c->ll;

	at = ll_load(l, ptr, ll_plus_n(l, ll_param(l, f, 0), (int64_t)
				       offsetof(struct rt_call, at)));
	from = ll_load(l, ptr, at);
	to = ll_load(l, ptr, ll_plus_n(l, at, 8));
	bytes = ll_load(l, ptr, ll_plus_n(l, ll_param(l, f, 0), (int64_t)
					  offsetof(struct rt_call, num)));
	bytes = ll_load(l, i64, bytes);
	lo = ll_bin(l, LL_MUL, ll_param(l, f, 2), ll_i64(l, COPY_ITEM));
	hi = ll_bin(l, LL_MUL, ll_param(l, f, 3), ll_i64(l, COPY_ITEM));
	hi = ll_select(l, ll_test(l, LL_LT, hi, bytes), hi, bytes);
	bytes = ll_bin(l, LL_SUB, hi, lo);
	from = ll_plus(l, from, lo);
	ll_copy(l, ll_plus(l, to, lo), from, bytes);
	ll_return(l, NULL);
	return f;
}

static struct ll_value *
copy_kernel(struct cg_code *c, int64_t bytes)
{
	struct cg_kernel k = { .what = arena_printf(c->a, "copy %lld bytes",
						    (long long)bytes) };
	struct cg_step s = { .items = (bytes + COPY_ITEM - 1) / COPY_ITEM };
	struct ll_block *here = ll_here(c->ll);

	if (!c->copy) {
		c->copy = copy_step(c);
		ll_at(c->ll, here);
	}
	s.func = c->copy;
	VEC_PUSH(c->a, &k.steps, s);
	return host_own_kernel(c, &k, NULL, 2 * (double)bytes);
}

void
host_copy(struct host_func *f, struct ll_value *from, struct ll_value *to,
	  int64_t bytes)
{
	struct ll *l = f->c->ll;
	struct ll_block *yes = ll_block(l, f->func, "copy");
	struct ll_block *no = ll_block(l, f->func, "copied");

	ll_branch(l, ll_test(l, LL_NE, from, to), yes, no);
	ll_at(l, yes);
	if (f->c->arch) {
		gpu_copy(f, from, to, bytes);
	} else {
		host_store(f, f->at, 0, from);
		host_store(f, f->at, 1, to);
		host_store(f, f->num, 0, ll_i64(l, bytes));
		host_launch(f, copy_kernel(f->c, bytes));
	}
	ll_jump(l, no);
	ll_at(l, no);
}

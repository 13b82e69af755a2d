/*
 * Drawn numbers: weights and states of a new run, and inputs without data.
 * Each element depends on its place in the whole tensor alone, so that all
 * plans, and the interpreter, start with the same numbers.
 */
#include "codegen/host/host.h"

#include <string.h>

#define LANES 8
#define ITEM 16384		/* elements that a worker fills at once */

/* A step that is being emitted; a row is the whole last dim. */
struct host_filler {
	struct cg_code *c;
	const struct host_fill *x;
	struct ll *l;
	struct ll_value *func, *at, *table, *pieces, *seed;
	uint32_t nouter;	/* dims around a row */
	int64_t row, nrows;
	int64_t local[IR_MAX_DIMS], whole[IR_MAX_DIMS];
};

static enum ll_base
base_of(enum ir_dtype t)
{
	switch (host_elem(t)) {
	case RT_ELEM_F64:
		return LL_F64;
	case RT_ELEM_BF16:
		return LL_BF16;
	case RT_ELEM_F16:
		return LL_F16;
	case RT_ELEM_I32:
		return LL_I32;
	default:
		return LL_F32;
	}
}

static struct ll_value *
word(struct ll *l, struct ll_value *at, int64_t i, enum ll_base base)
{
	return ll_load(l, ll_type(base, 1), ll_plus_n(l, at, 8 * i));
}

/* The function i64 place(pieces, i): the position in place i. */
static struct ll_value *
place_func(struct cg_code *c)
{
	const struct ll_type i64 = ll_type(LL_I64, 1);
	const struct ll_type params[] = { ll_type(LL_PTR, 1), i64 };
	struct ll_value *f = ll_func(c->ll, "place", i64, params, 2, false);
	struct ll_value *p = ll_param(c->ll, f, 0), *i, *start, *count;
	struct ll_block *yes, *no;
	struct ll *l = c->ll;
	struct ll_loop k;

	i = ll_param(l, f, 1);
	ll_loop(l, &k, ll_i64(l, 0), word(l, p, 0, LL_I64), 1, &i, 1);
	start = ll_plus(l, p, ll_bin(l, LL_MUL, k.i, ll_i64(l, 16)));
	count = word(l, start, 3, LL_I64);
	start = word(l, start, 2, LL_I64);
	yes = ll_block(l, f, "here");
	no = ll_block(l, f, "behind");
	ll_branch(l, ll_test(l, LL_LT, k.at[0], count), yes, no);
	ll_at(l, yes);
	ll_return(l, ll_bin(l, LL_ADD, start, k.at[0]));
	ll_at(l, no);
	i = ll_bin(l, LL_SUB, k.at[0], count);
	ll_loop_end(l, &k, &i);
	ll_return(l, ll_i64(l, 0));
	return f;
}

/* One vector of the row's numbers; `index` of the first. */
static struct ll_value *
numbers(struct host_filler *f, struct ll_value *key, struct ll_value *index)
{
	const struct ll_type i64 = ll_type(LL_I64, LANES);
	const struct ll_type f64 = ll_type(LL_F64, LANES);
	enum ll_base base = base_of((enum ir_dtype)f->x->type.dtype);
	struct ll *l = f->l;
	struct ll_value *at;

	if (f->x->how == '0' || f->x->how == '1') {
		return ll_cast(l, ll_num(l, ll_type(LL_F32, LANES),
					 f->x->how - '0'), base);
	}
	at = ll_bin(l, LL_ADD, ll_splat(l, index, LANES), ll_iota(l, i64));
	if (f->x->how == 'b') {
		return ll_cast(l, cg_rng_below(l, key, at, f->x->below),
			       base);
	}
	at = cg_rng_normal(l, key, at);
	return ll_cast(l, ll_bin(l, LL_MUL, at, ll_num(l, f64, f->x->std)),
		       base);
}

/* `count` elements at `to`, whose first is element `index`. */
static void
fill_run(struct host_filler *f, struct ll_value *to, struct ll_value *key,
	 struct ll_value *index, struct ll_value *count)
{
	int64_t bytes = ir_dtypes[f->x->type.dtype].bits / 8;
	struct ll_value *left, *at;
	struct ll *l = f->l;
	struct ll_loop k;

	ll_loop(l, &k, ll_i64(l, 0), count, LANES, NULL, 0);
	left = ll_bin(l, LL_SUB, count, k.i);
	at = ll_plus(l, to, ll_bin(l, LL_MUL, k.i, ll_i64(l, bytes)));
	left = ll_mask(l, left, LANES);
	ll_store_if(l, numbers(f, key, ll_bin(l, LL_ADD, index, k.i)), at,
		    left);
	ll_loop_end(l, &k, NULL);
}

/* Pieces of the last dim, one after the other. */
static void
fill_row(struct host_filler *f, struct ll_value *to, struct ll_value *key,
	 struct ll_value *index)
{
	int64_t bytes = ir_dtypes[f->x->type.dtype].bits / 8;
	struct ll_value *p, *at, *start, *count;
	struct ll *l = f->l;
	struct ll_loop k;

	if (f->nouter == f->x->type.ndims) {
		fill_run(f, to, key, index, ll_i64(l, 1));
		return;
	}
	p = word(l, f->pieces, f->nouter, LL_PTR);
	ll_loop(l, &k, ll_i64(l, 0), word(l, p, 0, LL_I64), 1, &to, 1);
	at = ll_plus(l, p, ll_bin(l, LL_MUL, k.i, ll_i64(l, 16)));
	start = word(l, at, 2, LL_I64);
	count = word(l, at, 3, LL_I64);
	fill_run(f, k.at[0], key, ll_bin(l, LL_ADD, index, start), count);
	to = ll_plus(l, k.at[0], ll_bin(l, LL_MUL, count, ll_i64(l, bytes)));
	ll_loop_end(l, &k, &to);
}

/* The stored tensor of a row, and its first element's index there. */
static void
find_row(struct host_filler *f, struct ll_value *row, struct ll_value **slice,
	 struct ll_value **index)
{
	bool inner = f->nouter < f->x->type.ndims;
	int64_t step = inner ? f->whole[f->nouter] + f->x->more : 1, many = 1;
	struct ll *l = f->l;
	uint32_t i;

	*slice = ll_i64(l, 0);
	*index = ll_i64(l, f->x->shift);
	for (i = f->nouter; i-- > 0; ) {
		struct ll_value *n = ll_i64(l, f->local[i]), *at, **to;
		struct ll_value *args[2];
		int64_t *by = i < f->x->stacked ? &many : &step;

		args[0] = word(l, f->pieces, i, LL_PTR);
		args[1] = ll_bin(l, LL_REM, row, n);
		row = ll_bin(l, LL_DIV, row, n);
		at = ll_call(l, f->c->place, args, 2);
		to = i < f->x->stacked ? slice : index;
		*to = ll_bin(l, LL_ADD, *to,
			     ll_bin(l, LL_MUL, at, ll_i64(l, *by)));
		*by *= f->whole[i];
	}
}

static void
fill_rows(struct host_filler *f, struct ll_value *from, struct ll_value *to)
{
	int64_t bytes = ir_dtypes[f->x->type.dtype].bits / 8;
	struct ll_value *slice, *index, *key, *at;
	struct ll *l = f->l;
	struct ll_loop k;

	ll_loop(l, &k, from, to, 1, NULL, 0);
	find_row(f, k.i, &slice, &index);
	at = ll_plus(l, f->table, ll_bin(l, LL_MUL, slice, ll_i64(l, 8)));
	key = cg_rng_key(l, ll_load(l, ll_type(LL_I64, 1), at), f->seed);
	at = ll_plus(l, f->at, ll_bin(l, LL_MUL, k.i,
				      ll_i64(l, f->row * bytes)));
	fill_row(f, at, key, index);
	ll_loop_end(l, &k, NULL);
}

static void
measure(struct host_filler *f, const struct host_class *k)
{
	const struct ir_type *t = &f->x->type;
	uint32_t i;

	f->nouter = f->x->stacked < t->ndims ? t->ndims - 1u : t->ndims;
	f->nrows = 1;
	f->row = 1;
	for (i = 0; i < t->ndims; i++) {
		f->local[i] = host_local(k, t->dims[i], t->cut[i]);
		f->whole[i] = ir_dim_size(f->c->m, t->dims[i]);
		*(i < f->nouter ? &f->nrows : &f->row) *= f->local[i];
	}
}

static struct ll_value *
fill_step(struct host_filler *f, int64_t rows)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1), i64 = ll_type(LL_I64, 1);
	const struct ll_type params[] = { ptr, ptr, i64, i64 };
	struct ll_value *call, *at, *lo, *hi, *most;
	struct ll *l = f->l;

	f->func = ll_func(l, "fill", ll_type(LL_VOID, 1), params, 4, false);
	call = ll_param(l, f->func, 0);
	at = word(l, call, offsetof(struct rt_call, at) / 8, LL_PTR);
	f->at = word(l, at, 0, LL_PTR);
	f->table = word(l, at, 1, LL_PTR);
	f->pieces = word(l, call, offsetof(struct rt_call, pieces) / 8,
			 LL_PTR);
	at = word(l, call, offsetof(struct rt_call, num) / 8, LL_PTR);
	f->seed = word(l, at, 0, LL_I64);
	most = ll_i64(l, f->nrows);
	lo = ll_bin(l, LL_MUL, ll_param(l, f->func, 2), ll_i64(l, rows));
	hi = ll_bin(l, LL_MUL, ll_param(l, f->func, 3), ll_i64(l, rows));
	hi = ll_select(l, ll_test(l, LL_LT, hi, most), hi, most);
	fill_rows(f, lo, hi);
	ll_return(l, NULL);
	return f->func;
}

/* The kernel; equal ones are emitted once. */
static struct ll_value *
fill_kernel(struct host_func *h, const struct host_fill *x)
{
	struct cg_code *c = h->c;
	struct host_filler f = { .c = c, .x = x, .l = c->ll };
	struct ll_block *here = ll_here(c->ll);
	struct cg_kernel k = { 0 };
	struct cg_step s = { 0 };
	int64_t rows;
	sym_t key;

	measure(&f, h->k);
	key = intern(&c->keys, (const char *)&f.local, sizeof f.local);
	k.what = arena_printf(c->a, "fill %u %u %c %a %lld %lld %lld %u",
			      x->type.dtype, x->type.ndims, x->how, x->std,
			      (long long)x->below, (long long)x->more,
			      (long long)x->shift, x->stacked * 65536 + key);
	key = intern(&c->keys, (const char *)&f.whole, sizeof f.whole);
	key = intern_str(&c->keys, arena_printf(c->a, "%s %u", k.what, key));
	while (c->fills.n <= key) {
		VEC_PUSH(c->a, &c->fills, NULL);
	}
	if (c->fills.at[key] || f.nrows * f.row == 0) {
		return c->fills.at[key];
	}
	if (!c->place) {
		c->place = place_func(c);
	}
	k.what = x->how == 'b' ? "draw" : "fill";
	rows = f.row < ITEM ? ITEM / f.row : 1;
	s.func = fill_step(&f, rows);
	s.items = (f.nrows + rows - 1) / rows;
	VEC_PUSH(c->a, &k.steps, s);
	ll_at(c->ll, here);
	c->fills.at[key] = host_own_kernel(c, &k, NULL, (double)(f.nrows *
				f.row * ir_dtypes[x->type.dtype].bits / 8));
	return c->fills.at[key];
}

/* ---- the same on a GPU ---- */

/* The number of the stacked tensor that local slice i is. */
static struct ll_value *
slice_of(struct host_func *f, const struct host_fill *x, struct ll_value *i)
{
	struct cg_code *c = f->c;
	struct ll_value *slice = ll_i64(c->ll, 0);
	int64_t many = 1;
	uint32_t k;

	for (k = x->stacked; k-- > 0; ) {
		dim_id d = x->type.dims[k];
		int64_t size = ir_dim_size(c->m, d);
		struct ll_value *n = ll_i64(c->ll,
				host_local(f->k, d, x->type.cut[k]));
		struct ll_value *args[2], *at;

		args[0] = host_pieces(f, host_add_spread(c, size,
						     x->type.cut[k]));
		args[1] = ll_bin(c->ll, LL_REM, i, n);
		at = ll_call(c->ll, c->place, args, 2);
		i = ll_bin(c->ll, LL_DIV, i, n);
		slice = ll_bin(c->ll, LL_ADD, slice,
			       ll_bin(c->ll, LL_MUL, at,
				      ll_i64(c->ll, many)));
		many *= size;
	}
	return slice;
}

/* A launch for each stacked tensor of which the rank has a part. */
static void
fill_slices(struct host_func *f, const struct host_fill *x,
	    struct ll_value *table, struct ll_value *to)
{
	int64_t bytes = ir_dtypes[x->type.dtype].bits / 8, many = 1;
	struct ll_value *key, *at, *seed;
	struct ll_block *here = ll_here(f->c->ll);
	struct ll *l = f->c->ll;
	struct ll_loop i;
	uint32_t k;

	if (!f->c->place) {
		f->c->place = place_func(f->c);
		ll_at(l, here);
	}
	for (k = 0; k < x->type.ndims; k++) {
		*(k < x->stacked ? &many : &bytes) *=
			host_local(f->k, x->type.dims[k], x->type.cut[k]);
	}
	ll_loop(l, &i, ll_i64(l, 0), ll_i64(l, bytes ? many : 0), 1, NULL,
		0);
	at = ll_bin(l, LL_MUL, slice_of(f, x, i.i), ll_i64(l, 8));
	seed = host_env_field(f, offsetof(struct rt_env, seed), LL_I64);
	at = ll_plus(l, table, at);
	key = cg_rng_key(l, ll_load(l, ll_type(LL_I64, 1), at), seed);
	host_service_fill(f, x, key, ll_plus(l, to, ll_bin(l, LL_MUL, i.i,
						ll_i64(l, bytes))));
	ll_loop_end(l, &i, NULL);
}

/* ---- tensors ---- */

/* `hashes`: a table of the hash of each stacked tensor's name. */
static void
fill(struct host_func *f, const struct host_fill *x, struct ll_value *hashes,
     struct ll_value *to)
{
	struct ll_value *kernel;
	uint32_t i;

	if (f->c->arch) {
		fill_slices(f, x, hashes, to);
		return;
	}
	kernel = fill_kernel(f, x);
	if (!kernel) {
		return;
	}
	host_store(f, f->at, 0, to);
	host_store(f, f->at, 1, hashes);
	host_store(f, f->num, 0,
		   host_env_field(f, offsetof(struct rt_env, seed), LL_I64));
	for (i = 0; i < x->type.ndims; i++) {
		host_store(f, f->pieces, i, host_pieces(f, host_add_spread(f->c,
			 ir_dim_size(f->c->m, x->type.dims[i]),
			 x->type.cut[i])));
	}
	host_launch(f, kernel);
}

/* ---- weights ---- */

/* The name of stacked tensor i, with its place for each {dim}. */
static const char *
stacked_name(struct cg_code *c, const struct host_tensor *t,
	     const struct host_fill *x, int64_t i)
{
	const char *name = t->name;
	uint32_t k;

	for (k = x->stacked; k-- > 0; ) {
		int64_t n = ir_dim_size(c->m, x->type.dims[k]);
		const char *dim = arena_printf(c->a, "{%s}", ir_dim_name(c->m,
						x->type.dims[k]));
		const char *p;
		struct buf b;

		buf_init(&b, c->a);
		for (; (p = strstr(name, dim)) != NULL;
		     name = p + strlen(dim)) {
			buf_add(&b, name, (size_t)(p - name));
			buf_printf(&b, "%lld", (long long)(i % n));
		}
		buf_puts(&b, name);
		name = buf_text(&b);
		i /= n;
	}
	return name;
}

/* Tensors that are filled alike: only their places and names differ. */
struct host_like_fills {
	struct host_fill x;
	int64_t many;		/* stacked in each */
	VEC(int64_t) offsets;
	VEC(int64_t) hashes;	/* many of each */
};

struct host_all_fills {
	VEC(struct host_like_fills) at;
};

static struct host_fill
fill_of(const struct cg_code *c, const struct host_tensor *t)
{
	const struct ir_node *n = ir_node(c->m, t->node);
	const struct ir_attr *init = ir_attr(c->m, n, IR_ATTR_INIT);
	const char *how = init ? ir_text(c->m->ctx, init->text) : "normal";
	struct host_fill x = { .type = *ir_type(c->m, n->result), .how = 'n' };

	x.how = strcmp(how, "ones") == 0 ? '1'
		: strcmp(how, "zeros") == 0 ? '0' : 'n';
	if (x.how == 'n') {
		x.std = ir_attr_num(c->m, n, IR_ATTR_STD, 0.02);
		x.stacked = host_stacked_dims(c->m, &x.type, t->name);
	}
	return x;
}

static bool
are_alike(const struct host_fill *x, const struct host_fill *y)
{
	uint32_t i;

	for (i = 0; i < x->type.ndims; i++) {
		if (x->type.dims[i] != y->type.dims[i] ||
		    x->type.cut[i] != y->type.cut[i]) {
			return false;
		}
	}
	return x->type.ndims == y->type.ndims &&
	       x->type.dtype == y->type.dtype && x->how == y->how &&
	       x->std == y->std && x->stacked == y->stacked;
}

static void
add_hold(struct cg_code *c, struct host_all_fills *all,
	 const struct host_hold *h)
{
	const struct host_tensor *t = &c->tensors.at[h->tensor];
	const struct ir_node *n = ir_node(c->m, t->node);
	struct host_fill x = fill_of(c, t);
	struct host_like_fills *a;
	uint32_t i;
	int64_t k;

	/* rounded weights are always loaded */
	if (ir_attr(c->m, n, IR_ATTR_ROUNDED) || n->op == IR_SCALES) {
		return;
	}
	for (i = 0; i < all->at.n && !are_alike(&all->at.at[i].x, &x); i++) {
	}
	if (i == all->at.n) {
		VEC_PUSH(c->a, &all->at, ((struct host_like_fills){ .x = x,
							  .many = 1 }));
	}
	a = &all->at.at[i];
	for (i = 0; a->offsets.n == 0 && i < x.stacked; i++) {
		a->many *= ir_dim_size(c->m, x.type.dims[i]);
	}
	VEC_PUSH(c->a, &a->offsets, h->offset);
	for (k = 0; k < a->many; k++) {
		VEC_PUSH(c->a, &a->hashes, (int64_t)
			 cg_rng_hash(stacked_name(c, t, &x, k)));
	}
}

/* A loop over all of them, of which there may be one in each layer. */
static void
start_alike(struct host_func *f, const struct host_like_fills *a)
{
	struct ll *l = f->c->ll;
	struct ll_value *hashes, *to;
	struct host_fit fit;
	struct ll_loop k;

	host_find_fit(f->c->a, &a->offsets.n, 1, a->offsets.at, &fit);
	hashes = ll_table(l, a->hashes.at, a->hashes.n);
	ll_loop(l, &k, ll_i64(l, 0), ll_i64(l, a->offsets.n), 1, NULL, 0);
	to = ll_plus(l, f->arena, host_fit_value(l, &fit, &k.i));
	hashes = ll_plus(l, hashes, ll_bin(l, LL_MUL, k.i,
					   ll_i64(l, 8 * a->many)));
	fill(f, &a->x, hashes, to);
	ll_loop_end(l, &k, NULL);
}

struct ll_value *
host_start_func(struct cg_code *c, struct host_class *k)
{
	struct host_all_fills all = { { NULL, 0, 0 } };
	struct host_func f;
	uint32_t i;

	host_func_begin(c, k, arena_printf(c->a, "pipe%u_start", k->pipe),
			&f);
	for (i = 0; i < c->holds.n; i++) {
		if (c->holds.at[i].pipe == k->pipe) {
			add_hold(c, &all, &c->holds.at[i]);
		}
	}
	for (i = 0; i < all.at.n; i++) {
		start_alike(&f, &all.at.at[i]);
	}
	host_func_end(&f);
	return f.func;
}

/* ---- inputs ---- */

/* Tokens and labels are one sequence, from 0 on and from 1 on. */
static void
draw_input(struct host_func *f, const struct host_input *in)
{
	struct cg_code *c = f->c;
	const struct ir_node *n = ir_node(c->m, in->node);
	const char *name = ir_text(c->m->ctx, in->name);
	bool labels = strcmp(name, "labels") == 0;
	bool pairs = labels || strcmp(name, "tokens") == 0;
	struct host_fill x = { .type = *ir_type(c->m, n->result), .how = 'n',
			  .std = 1 };
	int64_t hash = (int64_t)cg_rng_hash(labels ? "tokens" : name);
	struct ll_value *hashes;

	if (!ir_dtypes[x.type.dtype].is_float) {
		x.how = 'b';
		x.below = ir_dim_size(c->m, x.type.of);
		x.more = pairs && x.type.ndims;
		x.shift = labels && x.type.ndims;
	}
	hashes = ll_table(c->ll, &hash, 1);
	fill(f, &x, hashes, host_item_at(f, c->mem.tensor[in->node] - 1));
}

struct ll_value *
host_draw_func(struct cg_code *c, struct host_class *k)
{
	struct host_inputs in;
	struct host_func f;
	uint32_t i;

	host_func_begin(c, k, arena_printf(c->a, "pipe%u_draw", k->pipe), &f);
	/* microbatches have inputs of their own */
	f.run.stage = 0;
	host_find_inputs(c, k->pipe, &in);
	for (i = 0; i < in.at.n; i++) {
		draw_input(&f, &in.at.at[i]);
	}
	host_func_end(&f);
	return f.func;
}

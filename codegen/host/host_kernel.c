/*
 * Kernels that compute the same are emitted once.  A kernel is written as text
 * without names, with values, dims and nodes numbered in order; kernels with
 * equal texts share one function.  All in which they differ, as where operands
 * lie, is an argument of the launch.
 */
#include "codegen/host/host.h"

#include <string.h>

struct canon {
	struct cg_code *c;
	const struct host_class *k;
	const struct kernel *x;
	struct buf text;
	VEC(value_id) values;
	VEC(node_id) nodes;
	VEC(dim_id) dims;
};

static uint32_t
place_of(const uint32_t *at, uint32_t n, uint32_t x)
{
	uint32_t i;

	for (i = 0; i < n && at[i] != x; i++) {
	}
	return i;
}

static void
put_dim(struct canon *w, dim_id d)
{
	uint32_t i = place_of(w->dims.at, w->dims.n, d);

	buf_printf(&w->text, "d%u", i);
	if (i == w->dims.n) {
		VEC_PUSH(w->c->a, &w->dims, d);
		buf_printf(&w->text, "=%lld",
			   (long long)ir_dim_size(w->c->m, d));
	}
}

static void
put_type(struct canon *w, const struct ir_type *t)
{
	uint32_t i;

	buf_printf(&w->text, ":%u+%x[", t->dtype, t->sum);
	for (i = 0; i < t->ndims; i++) {
		put_dim(w, t->dims[i]);
		buf_printf(&w->text, "/%x/%lld ", t->cut[i], (long long)
			   host_local(w->k, t->dims[i], t->cut[i]));
	}
	buf_putc(&w->text, ']');
	if (t->of) {
		put_dim(w, t->of);
	}
}

/* Names matter to launches alone; init and std to the start of a run. */
static bool
matters(const struct ir_attr *a)
{
	return a->key != IR_ATTR_NAME && a->key != IR_ATTR_INIT &&
	       a->key != IR_ATTR_STD && a->key != IR_ATTR_VAR &&
	       a->key != IR_ATTR_STAGE;
}

static void
put_attrs(struct canon *w, const struct ir_node *n)
{
	const struct ir_attr *a = w->c->m->attrs.at + n->attrs;
	uint32_t i, k;

	for (i = 0; i < n->nattrs; i++, a++) {
		if (!matters(a)) {
			continue;
		}
		buf_printf(&w->text, " %u=%lld,%a", a->key, (long long)a->i,
			   a->num);
		for (k = 0; k < a->ndims; k++) {
			if (ir_attrs[a->key].kind == ATTR_AXES) {
				buf_printf(&w->text, "a%u", a->dims[k]);
			} else {
				put_dim(w, a->dims[k]);
			}
		}
		if (ir_attrs[a->key].kind == ATTR_WORD ||
		    ir_attrs[a->key].kind == ATTR_NUMS) {
			buf_puts(&w->text, ir_text(w->c->m->ctx, a->text));
		}
	}
}

static void put_node(struct canon *w, node_id id);

static bool
is_input(const struct canon *w, value_id v)
{
	uint32_t i;

	for (i = 0; i < w->x->inputs.n; i++) {
		if (w->x->inputs.at[i].value == v) {
			return true;
		}
	}
	return false;
}

static void
put_rows(struct canon *w, value_id v)
{
	if (w->c->apart[v]) {
		buf_puts(&w->text, " apart");
	}
}

/* A value in memory is a number; a view or a constant is written in full. */
static void
put_value(struct canon *w, value_id v)
{
	uint32_t i = place_of(w->values.at, w->values.n, v);
	node_id maker = w->c->m->values.at[v].node;
	struct cg_panel panel;

	if (i == w->values.n && maker && !is_input(w, v) &&
	    ir_node(w->c->m, maker)->nresults == 1) {
		put_node(w, maker);
		i = place_of(w->values.at, w->values.n, v);
	}
	buf_printf(&w->text, " v%u", i);
	if (i == w->values.n) {
		VEC_PUSH(w->c->a, &w->values, v);
		put_type(w, ir_type(w->c->m, v));
		if (host_panel(w->k, v, &panel)) {
			buf_printf(&w->text, " in panels of %lld",
				   (long long)panel.row);
		}
	}
	put_rows(w, v);
}

static void
put_node(struct canon *w, node_id id)
{
	const struct ir_node *n = ir_node(w->c->m, id);
	uint32_t i;

	buf_putc(&w->text, '(');
	for (i = 0; i < n->nargs; i++) {
		put_value(w, ir_args(w->c->m, n)[i]);
	}
	buf_printf(&w->text, " %s", ir_ops[n->op].name);
	put_attrs(w, n);
	VEC_PUSH(w->c->a, &w->nodes, id);
	for (i = 0; i < n->nresults; i++) {
		VEC_PUSH(w->c->a, &w->values, n->result + i);
		put_type(w, ir_type(w->c->m, n->result + i));
		put_rows(w, n->result + i);
	}
	buf_putc(&w->text, ')');
}

static void
write_down(struct cg_code *c, struct host_class *k, const struct kernel *x,
	   struct canon *w)
{
	uint32_t i;

	*w = (struct canon){ .c = c, .k = k, .x = x };
	buf_init(&w->text, c->a);
	buf_printf(&w->text, "%u %u", x->kind, x->ncopies);
	for (i = 0; i < x->members.n; i++) {
		buf_printf(&w->text, " of %u", x->members.at[i].nodes.n);
	}
	for (i = 0; i < x->nodes.n; i++) {
		buf_printf(&w->text, " n%u",
			   place_of(w->nodes.at, w->nodes.n, x->nodes.at[i]));
		if (place_of(w->nodes.at, w->nodes.n, x->nodes.at[i]) ==
		    w->nodes.n) {
			put_node(w, x->nodes.at[i]);
		}
	}
	buf_puts(&w->text, " in");
	for (i = 0; i < x->inputs.n; i++) {
		put_value(w, x->inputs.at[i].value);
	}
	buf_puts(&w->text, " out");
	for (i = 0; i < x->outputs.n; i++) {
		put_value(w, x->outputs.at[i].value);
	}
	put_type(w, x->work->shape);
}

static sym_t
key_of(struct cg_code *c, struct canon *w)
{
	sym_t s = intern_str(&c->keys, buf_text(&w->text));

	while (c->kernels.n <= s) {
		VEC_PUSH(c->a, &c->kernels, NULL);
	}
	return s;
}

static void
keep_scratch(struct cg_code *c, struct host_class *k,
	   const struct cg_kernel *x)
{
	const uint32_t n[] = { x->operands.n, x->spreads.n, x->nums.n };
	uint32_t i;

	for (i = 0; i < 3; i++) {
		c->most[i] = n[i] > c->most[i] ? n[i] : c->most[i];
	}
	k->shared_bytes = x->shared_bytes > k->shared_bytes
		? x->shared_bytes : k->shared_bytes;
	k->own_bytes = x->own_bytes > k->own_bytes ? x->own_bytes
						   : k->own_bytes;
}

static void
keep_spreads(struct cg_code *c, const struct cg_kernel *x)
{
	uint32_t i, k;

	for (i = 0; i < x->spreads.n; i++) {
		host_add_spread(c, x->spreads.at[i].size, x->spreads.at[i].cut);
	}
	for (i = 0; i < x->nums.n; i++) {
		if (x->nums.at[i].kind == CG_AT) {
			host_coordinate(c, x->nums.at[i].node);
		}
	}
	for (i = 0; i < x->steps.n; i++) {
		const struct cg_step *s = &x->steps.at[i];

		if (s->func || s->grid) {
			continue;
		}
		if (!s->ndims) {
			host_add_spread(c, s->elems, 0);
		}
		for (k = 0; k < s->ndims; k++) {
			host_add_spread(c, s->from[k].size, s->from[k].cut);
			host_add_spread(c, s->to[k].size, s->to[k].cut);
		}
	}
}

/* Collectives inside of a kernel, which are of f32. */
static void
keep_colls(struct host_class *k, const struct cg_kernel *x)
{
	uint32_t i;

	for (i = 0; i < x->steps.n; i++) {
		const struct cg_step *s = &x->steps.at[i];
		struct host_coll t = { .axes = s->axes, .elem_bytes = 4,
				       .sums = s->op != RT_COLL_COPY,
				       .ndims = s->ndims };

		if (s->func || s->grid) {
			continue;
		}
		memcpy(t.in, s->from, sizeof t.in);
		memcpy(t.out, s->to, sizeof t.out);
		host_pack_scratch(k, &t, 1);
	}
}

/* Bytes of operands: on a GPU collectives run beside kernels, and a kernel
 * waits for those that touch its operands. */
static void
keep_bytes(struct cg_code *c, struct host_class *k, struct host_kernel *h)
{
	uint32_t i;

	if (!c->arch) {
		return;
	}
	h->at_bytes = arena_alloc(c->a, (h->k.operands.n + 1) *
				  sizeof *h->at_bytes);
	for (i = 0; i < h->k.operands.n; i++) {
		const struct cg_operand *o = &h->k.operands.at[i];

		h->at_bytes[i] = host_bytes(k, o->value ? o->value
			: ir_args(c->m, ir_node(c->m, o->sink))[0]);
	}
}

/* The number of the image that its functions will be in. */
static void
keep_source(struct cg_code *c, struct host_kernel *h)
{
	struct cg_source s = { h->k.name, h->k.source };

	h->image = c->sources.n;
	if (c->arch) {
		VEC_PUSH(c->a, &c->sources, s);
	}
}

static void
keep_ways(struct cg_code *c, struct host_kernel *h)
{
	uint32_t i;

	for (i = 0; c->tiling && i < c->tiling->last.n; i++) {
		VEC_PUSH(c->a, &h->ways, c->tiling->last.at[i]);
	}
}

int64_t
host_args_bytes(const struct cg_kernel *k)
{
	int64_t words = 8 * (int64_t)(k->operands.n + k->spreads.n +
				      k->nums.n + 2), most = words;
	uint32_t i;

	for (i = 0; i < k->steps.n; i++) {
		const struct cg_grid *g = k->steps.at[i].grid;
		int64_t bytes = (words + RT_MAP_ALIGN - 1) / RT_MAP_ALIGN *
				RT_MAP_ALIGN;

		if (g && g->maps.n) {
			bytes += (int64_t)g->maps.n * RT_MAP_BYTES;
			most = bytes > most ? bytes : most;
		}
	}
	return most;
}

bool
host_args_fit(struct cg_code *c, const struct cg_kernel *k, struct span span)
{
	int64_t bytes = host_args_bytes(k);

	if (!c->arch || bytes <= RT_ARGS_BYTES) {
		return true;
	}
	diag_error(&c->m->ctx->diags, span, "this is part of one kernel that "
		   "takes %lld bytes of arguments for its %u tensors, and a "
		   "GPU's takes at most %d: join fewer tensors element by "
		   "element before the next linear or norm",
		   (long long)bytes, (unsigned)k->operands.n, RT_ARGS_BYTES);
	return false;
}

/* All of a launch as one kernel of a GPU, if there is such a kernel. */
static bool
emit_members(struct cg_code *c, struct host_class *k, const struct kernel *x,
	     struct cg_kernel *out)
{
	const char *why;

	k->cuda.nfuncs = c->nfuncs;
	if (!c->arch || !cg_cuda_kernel(&k->cuda, x, out, &why) ||
	    host_args_bytes(out) > RT_ARGS_BYTES) {
		return false;
	}
	c->nfuncs = k->cuda.nfuncs;
	return true;
}

static bool
emit(struct cg_code *c, struct host_class *k, const struct kernel *x,
     struct cg_kernel *out)
{
	const char *why = "this kernel is not compiled yet";
	struct span span = ir_node(c->m, x->nodes.at[0])->span;
	bool ok;

	if (x->members.n > 0) {
		return emit_members(c, k, x, out);
	}
	k->cpu.nfuncs = k->cuda.nfuncs = c->nfuncs;
	ok = c->arch ? cg_cuda_kernel(&k->cuda, x, out, &why)
		     : cg_cpu_kernel(&k->cpu, x, out, &why);
	c->nfuncs = c->arch ? k->cuda.nfuncs : k->cpu.nfuncs;
	if (!ok) {
		diag_error(&c->m->ctx->diags, span, "%s", why);
	}
	return ok && host_args_fit(c, out, span);
}

/* Its name in answers and messages. */
static const char *
what_of(struct cg_code *c, const struct kernel *x)
{
	struct buf wide;

	buf_init(&wide, c->a);
	kernel_print(c->m, x, &wide);
	return kernel_squeezed(buf_text(&wide), c->a);
}

bool
host_emit_kernel(struct cg_code *c, struct host_class *k,
		 const struct kernel *x)
{
	uint32_t nfuncs = c->nfuncs;
	struct host_kernel *h;
	struct canon w;
	sym_t key;

	write_down(c, k, x, &w);
	key = key_of(c, &w);
	if (c->kernels.at[key] && c->kernels.at[key]->apart) {
		return true;
	}
	if (c->kernels.at[key]) {
		keep_scratch(c, k, &c->kernels.at[key]->k);
		keep_colls(k, &c->kernels.at[key]->k);
		return true;
	}
	h = arena_alloc(c->a, sizeof *h);
	if (!emit(c, k, x, &h->k)) {
		h->apart = x->members.n > 0;
		c->kernels.at[key] = h->apart ? h : NULL;
		return h->apart;
	}
	h->values.at = w.values.at;
	h->values.n = w.values.n;
	h->nodes.at = w.nodes.at;
	h->nodes.n = w.nodes.n;
	c->kernels.at[key] = h;
	keep_scratch(c, k, &h->k);
	keep_colls(k, &h->k);
	keep_spreads(c, &h->k);
	keep_bytes(c, k, h);
	keep_source(c, h);
	keep_ways(c, h);
	if (c->tiling && c->tiling->in->list) {
		host_add_trials(c, k, x, what_of(c, x), h, nfuncs);
	}
	return true;
}

void
host_use_kernel(struct cg_code *c, struct host_class *k, const struct kernel *x,
	 struct host_use *out)
{
	struct canon w;

	parts_open(c->m, x);
	write_down(c, k, x, &w);
	parts_close(c->m, x);
	out->kernel = c->kernels.at[key_of(c, &w)];
	out->values.at = w.values.at;
	out->values.n = w.values.n;
	out->nodes.at = w.nodes.at;
	out->nodes.n = w.nodes.n;
}

static uint32_t
known_place(const uint32_t *at, uint32_t n, uint32_t x)
{
	uint32_t i;

	for (i = 0; i < n && at[i] != x; i++) {
	}
	if (i == n) {
		die("a kernel uses what it does not name");
	}
	return i;
}

node_id
host_use_node(const struct host_use *u, node_id of)
{
	const struct host_kernel *h = u->kernel;

	return u->nodes.at[known_place(h->nodes.at, h->nodes.n, of)];
}

value_id
host_use_value(const struct host_use *u, value_id of)
{
	const struct host_kernel *h = u->kernel;

	return u->values.at[known_place(h->values.at, h->values.n, of)];
}

/* ---- as data ---- */

static struct ll_value *
grid_data(struct cg_code *c, const struct cg_grid *g, uint32_t image)
{
	struct rt_grid x = { .image = image, .threads = g->threads,
			     .cluster = g->cluster,
			     .smem_bytes = g->smem_bytes, .nmaps = g->maps.n };
	size_t size = HOST_WORDS(struct rt_map);
	struct ll_value **w = host_words(c, HOST_WORDS(struct rt_grid));
	struct ll_value **maps = host_words(c, g->maps.n * size);
	uint32_t i;

	for (i = 0; i < g->maps.n; i++) {
		struct rt_map map = host_map(&g->maps.at[i]);

		HOST_FILL(c, maps + i * size, map);
	}
	memcpy(x.blocks, g->blocks, sizeof x.blocks);
	HOST_FILL(c, w, x);
	HOST_SET(w, struct rt_grid, func, ll_text(c->ll, g->func));
	HOST_SET(w, struct rt_grid, maps,
		 host_data(c, maps, g->maps.n * size));
	return host_data(c, w, HOST_WORDS(struct rt_grid));
}

static struct ll_value *
steps_data(struct cg_code *c, const struct cg_kernel *k, uint32_t image)
{
	size_t size = HOST_WORDS(struct rt_step);
	struct ll_value **w = host_words(c, k->steps.n * size), **x = w;
	uint32_t i;

	for (i = 0; i < k->steps.n; i++, x += size) {
		const struct cg_step *s = &k->steps.at[i];
		struct rt_step step = { .items = s->items, .in = s->in,
					.out = s->out };

		HOST_FILL(c, x, step);
		if (s->func) {
			HOST_SET(x, struct rt_step, run, s->func);
		} else if (s->grid) {
			HOST_SET(x, struct rt_step, grid,
				 grid_data(c, s->grid, image));
		} else {
			HOST_SET(x, struct rt_step, coll,
				 host_step_coll(c, s, kernel_squeezed(k->what,
								       c->a)));
		}
	}
	return host_data(c, w, k->steps.n * size);
}

static struct ll_value *
kernel_data(struct cg_code *c, const char *what, const struct cg_kernel *k,
	    struct ll_value *steps, const int64_t *at_bytes, double flops,
	    double bytes, double us)
{
	struct ll_value **w = host_words(c, HOST_WORDS(struct rt_kernel));
	struct rt_kernel x = { .nsteps = k->steps.n, .nat = k->operands.n,
			       .npieces = k->spreads.n, .nnum = k->nums.n,
			       .flops = flops, .bytes = bytes, .us = us };

	HOST_FILL(c, w, x);
	HOST_SET(w, struct rt_kernel, what, ll_text(c->ll, what));
	HOST_SET(w, struct rt_kernel, steps, steps);
	if (at_bytes && k->operands.n) {
		HOST_SET(w, struct rt_kernel, at_bytes,
			 ll_table(c->ll, at_bytes, k->operands.n));
	}
	return host_data(c, w, HOST_WORDS(struct rt_kernel));
}

struct ll_value *
host_kernel_data(struct cg_code *c, struct host_kernel *h,
		 const struct kernel *x)
{
	struct price_func f = { 0 };
	struct kernel part;
	double flops, bytes;

	if (x->parts) {
		parts_kernel(c->m, x, c->a, &part);
		x = &part;
	}
	if (!h->steps) {
		h->steps = steps_data(c, &h->k, h->image);
	}
	price_kernel(&c->pricing, x, &f);
	price_kernel_work(&c->pricing, x, &flops, &bytes);
	return kernel_data(c, what_of(c, x), &h->k, h->steps,
			   h->at_bytes, flops, bytes, f.total_us);
}

struct ll_value *
host_own_kernel(struct cg_code *c, const struct cg_kernel *k,
		const int64_t *at_bytes, double bytes)
{
	/* services are the image after those of kernels */
	return kernel_data(c, k->what, k, steps_data(c, k, c->sources.n - 1),
			   at_bytes, 0, bytes, 0);
}

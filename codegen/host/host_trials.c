/*
 * All legal tiles of a contraction or a step of attention, for --autotune and
 * --trials: the kernel is emitted with each of them, together with the structs
 * that a rank launches it by, so that a GPU can measure it.
 */
#include "codegen/host/host.h"

#include <string.h>

#include "passes/price/cost.h"

#define MOST_TRIALS 8		/* of a contraction: the best by the table */

/* ---- structs of a launch ---- */

struct rt_map
host_map(const struct cg_map *m)
{
	struct rt_map out = { .operand = m->operand, .offset = m->offset,
			      .elem = m->elem, .ndims = m->ndims,
			      .swizzle = m->swizzle };

	memcpy(out.size, m->size, sizeof out.size);
	memcpy(out.stride, m->stride, sizeof out.stride);
	memcpy(out.box, m->box, sizeof out.box);
	return out;
}

static const struct rt_grid *
grid_of(struct arena *a, const struct cg_grid *g, uint32_t image)
{
	struct rt_grid *out = arena_alloc(a, sizeof *out);
	struct rt_map *maps = arena_alloc(a, (g->maps.n + 1) * sizeof *maps);
	uint32_t i;

	for (i = 0; i < g->maps.n; i++) {
		maps[i] = host_map(&g->maps.at[i]);
	}
	*out = (struct rt_grid){ .image = image, .func = g->func,
				 .threads = g->threads,
				 .cluster = g->cluster,
				 .smem_bytes = g->smem_bytes,
				 .nmaps = g->maps.n, .maps = maps };
	memcpy(out->blocks, g->blocks, sizeof out->blocks);
	return out;
}

/* NULL: ranks communicate in it. */
static const struct rt_kernel *
kernel_of(struct arena *a, const struct cg_kernel *k, uint32_t image)
{
	struct rt_kernel *out = arena_alloc(a, sizeof *out);
	struct rt_step *steps = arena_alloc(a, (k->steps.n + 1) *
					    sizeof *steps);
	uint32_t i;

	for (i = 0; i < k->steps.n; i++) {
		const struct cg_step *s = &k->steps.at[i];

		if (!s->grid) {
			return NULL;
		}
		steps[i] = (struct rt_step){ .items = s->items,
			.grid = grid_of(a, s->grid, image) };
	}
	*out = (struct rt_kernel){ .what = k->what, .nsteps = k->steps.n,
				   .steps = steps, .nat = k->operands.n,
				   .npieces = k->spreads.n,
				   .nnum = k->nums.n };
	return out;
}

static const struct rt_pieces *
pieces_of(const struct host_class *k, const struct cg_kernel *x)
{
	struct arena *a = k->c->a;
	struct rt_pieces *out = arena_alloc(a, (x->spreads.n + 1) *
					    sizeof *out);
	struct ir_pieces p;
	uint32_t i, j;

	for (i = 0; i < x->spreads.n; i++) {
		ir_pieces(k->c->m, x->spreads.at[i].size,
			  x->spreads.at[i].cut, k->at, &p);
		out[i].n = p.n;
		out[i].total = p.total;
		for (j = 0; j < p.n; j++) {
			out[i].at[j].start = p.at[j].start;
			out[i].at[j].count = p.at[j].count;
		}
	}
	return out;
}

/* A sum holds something: so it is with all microbatches but the first. */
static const int64_t *
nums_of(const struct host_class *k, const struct cg_kernel *x)
{
	int64_t *out = arena_alloc(k->c->a, (x->nums.n + 1) * sizeof *out);
	uint32_t i;

	for (i = 0; i < x->nums.n; i++) {
		const struct cg_num *n = &x->nums.at[i];

		out[i] = n->kind == CG_OLD ? 1
			: n->kind == CG_AT ? k->at[n->node] : 0;
	}
	return out;
}

/* Another tile may have the operands in another order. */
static uint32_t
tensor_of(const struct host_class *k, const struct cg_operand *o,
	  struct cg_contraction *to)
{
	struct ir_module *m = k->c->m;
	value_id v = o->value ? o->value : ir_args(m, ir_node(m, o->sink))[0];
	struct cg_tensor t = { .value = o->value, .sink = o->sink };
	int elem = host_stored_elem((enum ir_dtype)ir_type(m, v)->dtype);
	uint32_t i;

	for (i = 0; i < to->tensors.n; i++) {
		if (to->tensors.at[i].value == o->value &&
		    to->tensors.at[i].sink == o->sink) {
			to->tensors.at[i].written |= o->written;
			return i;
		}
	}
	t.bytes = host_bytes(k, v);
	if (o->value && k->c->apart[v]) {
		const struct ir_type *type = ir_type(m, v);
		uint32_t last = type->ndims - 1u;

		t.row = host_local(k, type->dims[last], type->cut[last]);
		t.pitch = cg_row_pitch(m, k->c->apart, v, t.row);
	}
	t.elem = elem < 0 ? RT_ELEM_U8 : elem;
	t.written = o->written;
	VEC_PUSH(k->c->a, &to->tensors, t);
	return i;
}

/* ---- trials ---- */

/* Of a kernel that communication does not cut into parts. */
static void
predict(struct cg_code *c, const struct kernel *kernel,
	struct cg_contraction *to)
{
	const struct target_device *device = &c->in.target->device;
	struct price_func f = { 0 };
	uint32_t i;

	to->peak_bytes_us = device->memory_bytes_us;
	for (i = 0; i < to->tensors.n && to->peak_flops_us == 0; i++) {
		const struct cg_tensor *t = &to->tensors.at[i];

		if (t->value && t->elem != RT_ELEM_I32) {
			to->peak_flops_us = cost_flops_us(device, price_rate(
				ir_type(c->m, t->value)->dtype));
		}
	}
	if (kernel->parts) {
		return;
	}
	price_kernel(&c->pricing, kernel, &f);
	to->us = f.total_us;
	price_kernel_work(&c->pricing, kernel, &to->flops, &to->bytes);
}

static void
add_trial(const struct host_class *k, const struct cg_kernel *x,
	  const struct cu_candidate *way, struct cg_contraction *to)
{
	struct cg_tiling *in = k->c->tiling->in;
	struct cg_source s = { x->name, x->source };
	struct arena *a = k->c->a;
	struct cg_trial t = { .tile = way->tile, .cycles = way->cycles,
			      .source = in->sources.n,
			      .shared_bytes = x->shared_bytes };
	uint32_t *operands = arena_alloc(a, (x->operands.n + 1) *
					 sizeof *operands), i;

	t.text = plan_tile_text(a, &way->tile);
	t.kernel = kernel_of(a, x, t.source);
	if (!t.kernel) {
		return;
	}
	t.pieces = pieces_of(k, x);
	t.nums = nums_of(k, x);
	t.operands = operands;
	for (i = 0; i < x->operands.n; i++) {
		operands[i] = tensor_of(k, &x->operands.at[i], to);
	}
	VEC_PUSH(a, &in->sources, s);
	VEC_PUSH(a, &to->trials, t);
}

static bool
is_way(const struct cu_candidates *w, const struct plan_tile *t)
{
	uint32_t i;

	for (i = 0; i < w->at.n; i++) {
		if (memcmp(&w->at.at[i].tile, t, sizeof *t) == 0) {
			return true;
		}
	}
	return false;
}

/* One more kernel of that name: a tile that is not legal for it is dropped. */
static void
keep_common(struct cg_contraction *x, const struct cu_candidates *w)
{
	uint32_t i, n = 0;

	for (i = 0; i < x->trials.n; i++) {
		if (is_way(w, &x->trials.at[i].tile)) {
			x->trials.at[n++] = x->trials.at[i];
		} else if (i == 0) {
			break;		/* they are not alike */
		}
	}
	x->trials.n = n;
	x->nkernels++;
}

static struct cg_contraction *
find(struct cg_tiling *in, const char *what)
{
	uint32_t i;

	for (i = 0; i < in->found.n; i++) {
		if (strcmp(in->found.at[i].what, what) == 0) {
			return &in->found.at[i];
		}
	}
	return NULL;
}

/* Emits the kernel again with this tile for one of its choices. */
static bool
emit_forced(struct cg_code *c, struct host_class *k,
	    const struct kernel *kernel, const char *what,
	    const struct plan_tile *tile, struct cg_kernel *out)
{
	struct cu_tiling *t = c->tiling;
	const struct cu_candidates *w;
	const char *why;
	bool ok;

	t->force = tile;
	t->force_what = what;
	ok = cg_cuda_kernel(&k->cuda, kernel, out, &why);
	t->force = NULL;
	w = ok ? cu_candidates_of(t, what) : NULL;
	return w && w->met;
}

static void
each_way(struct cg_code *c, struct host_class *k, const struct kernel *kernel,
	 const struct host_kernel *x, uint32_t nfuncs,
	 const struct cu_candidates *ways)
{
	struct cg_contraction *had = find(c->tiling->in, ways->what), new;
	struct cu_candidate best[MOST_TRIALS];
	struct cg_kernel made;
	uint32_t n, i;

	if (had) {
		keep_common(had, ways);
		return;
	}
	new = (struct cg_contraction){ .what = ways->what, .nkernels = 1,
				       .product = ways->product };
	n = cu_candidates_best(ways, MOST_TRIALS, best);
	add_trial(k, &x->k, &best[0], &new);
	for (i = 1; new.trials.n && i < n; i++) {
		k->cuda.nfuncs = nfuncs;
		if (emit_forced(c, k, kernel, ways->what, &best[i].tile,
				&made)) {
			add_trial(k, &made, &best[i], &new);
		}
	}
	predict(c, kernel, &new);
	VEC_PUSH(c->a, &c->tiling->in->found, new);
}

/* Whether it reads or makes indices, on which times depend. */
static bool
picks_rows(const struct ir_module *m, const struct cg_kernel *x)
{
	uint32_t i;

	for (i = 0; i < x->operands.n; i++) {
		value_id v = x->operands.at[i].value;

		if (v && ir_type(m, v)->dtype == IR_IDX) {
			return true;
		}
	}
	return false;
}

/* A kernel without a choice of tiles. */
static void
add_single(struct cg_code *c, struct host_class *k,
	   const struct kernel *kernel, const char *what,
	   const struct host_kernel *x)
{
	static const struct cu_candidate way = { .cycles = 0 };
	struct cg_contraction new = { .what = what, .nkernels = 1 };
	struct cg_contraction *had = find(c->tiling->in, what);

	if (had) {
		had->nkernels++;
		return;
	}
	if (!picks_rows(c->m, &x->k)) {
		add_trial(k, &x->k, &way, &new);
	}
	if (new.trials.n) {
		new.trials.at[0].text = "";
		predict(c, kernel, &new);
		VEC_PUSH(c->a, &c->tiling->in->found, new);
	}
}

/* A kernel of attention has several choices: each is tried by itself. */
void
host_add_trials(struct cg_code *c, struct host_class *k,
		const struct kernel *kernel, const char *what,
		const struct host_kernel *x, uint32_t nfuncs)
{
	uint32_t n = c->tiling->last.n, i;
	struct cu_candidates *all = n == 0 ? NULL
		: arena_dup(c->a, c->tiling->last.at, n * sizeof *all);

	for (i = 0; i < n; i++) {
		if (all[i].counted) {
			each_way(c, k, kernel, x, nfuncs, &all[i]);
		}
	}
	if (n == 0 && c->tiling->in->list_all) {
		add_single(c, k, kernel, what, x);
	}
}

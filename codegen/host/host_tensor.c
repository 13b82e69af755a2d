/*
 * Weights and states of the optimizer, by their names in checkpoints: one for
 * each iteration of the repeats around, and where each place of the pipeline
 * holds it.
 */
#include "codegen/host/host.h"

#include <stdlib.h>
#include <string.h>

static const struct span nowhere;

uint32_t
host_stacked_dims(const struct ir_module *m, const struct ir_type *t,
	     const char *name)
{
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		const char *dim = ir_dim_name(m, t->dims[i]);
		size_t n = strlen(dim);
		const char *p = strchr(name, '{');

		while (p && (strncmp(p + 1, dim, n) != 0 || p[n + 1] != '}')) {
			p = strchr(p + 1, '{');
		}
		if (!p) {
			break;
		}
	}
	return i;
}

/* ---- collecting ---- */

struct collect {
	struct cg_code *c;
	struct intern names;
	VEC(uint32_t) of;	/* by name: tensor + 1 */
	VEC(uint32_t) seen;	/* by tensor: place + 1 */
	uint32_t pipe;
	struct memory_run run;
};

static bool
lasts(const struct ir_node *n)
{
	return ir_is(n->op, IRF_STORED) && !ir_is(n->op, IRF_UNIQUE);
}

/* In a region, in all iterations of its repeats. */
static int64_t
count_region(const struct ir_module *m, region_id id)
{
	const struct ir_region *r = &m->regions.at[id];
	int64_t count = 0;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		count += lasts(n);
		if (n->region) {
			count += ir_attr_int(m, n, IR_ATTR_COUNT, 1) *
				 count_region(m, n->region);
		}
	}
	return count;
}

static int64_t
count_func(const struct cg_code *c, func_id f)
{
	return f ? count_region(c->m, c->m->funcs.at[f].body) : 0;
}

/* An update has every tensor that is updated, a forward all others. */
bool
host_tensors_fit(struct cg_code *c)
{
	int64_t updated = 0, read = 0, most;
	uint32_t i;

	for (i = 0; i < c->r->npipes; i++) {
		updated += count_func(c, c->r->update[i]);
	}
	for (i = 0; i < c->r->nstages; i++) {
		read += count_func(c, c->r->of_stage[i][SCHED_F]);
	}
	most = updated > read ? updated : read;
	if (most > HOST_MOST_TENSORS) {
		diag_error(&c->m->ctx->diags, nowhere, "code for %lld "
			   "weights and states is not compiled: a program "
			   "names each layer's, and at most %d are legal: "
			   "without -o and --emit=llvm such a model is "
			   "planned", (long long)most, HOST_MOST_TENSORS);
	}
	return most <= HOST_MOST_TENSORS;
}

static uint32_t
tensor_of(struct collect *x, const char *name, node_id node)
{
	struct host_tensor t = { .node = node, .pipe = x->pipe };
	sym_t s = intern_str(&x->names, name);

	while (x->of.n <= s) {
		VEC_PUSH(x->c->a, &x->of, 0);
	}
	if (!x->of.at[s]) {
		t.name = intern_text(&x->names, s);
		VEC_PUSH(x->c->a, &x->c->tensors, t);
		VEC_PUSH(x->c->a, &x->seen, 0);
		x->of.at[s] = x->c->tensors.n;
	}
	return x->of.at[s] - 1;
}

static void
collect_node(struct collect *x, node_id id, const struct memory_iterations *at)
{
	struct cg_code *c = x->c;
	const struct ir_node *n = ir_node(c->m, id);
	const char *name = host_full_name(c->a, c->m,
				     ir_attr(c->m, n, IR_ATTR_NAME)->text, at);
	struct host_hold h = { .pipe = x->pipe };

	h.tensor = tensor_of(x, name, id);
	if (x->seen.at[h.tensor] == x->pipe + 1) {
		return;
	}
	x->seen.at[h.tensor] = x->pipe + 1;
	h.offset = memory_item(&x->run, c->mem.tensor[id] - 1, at).offset;
	VEC_PUSH(c->a, &c->holds, h);
}

static void
collect_region(struct collect *x, region_id id,
	       const struct memory_iterations *outer)
{
	const struct ir_module *m = x->c->m;
	const struct ir_region *r = &m->regions.at[id];
	struct memory_iterations at = { NULL, 0, outer };
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (lasts(n)) {
			collect_node(x, r->nodes.at[i], outer);
		}
		if (!n->region) {
			continue;
		}
		at.repeat = n;
		for (at.index = 0; at.index < ir_attr_int(m, n, IR_ATTR_COUNT,
							1); at.index++) {
			collect_region(x, n->region, &at);
		}
	}
}

static void
collect_func(struct collect *x, func_id f)
{
	if (f) {
		collect_region(x, x->c->m->funcs.at[f].body, NULL);
	}
}

static int
by_name(const void *a, const void *b)
{
	return strcmp((*(struct host_tensor *const *)a)->name,
		      (*(struct host_tensor *const *)b)->name);
}

static void
number_all(struct cg_code *c)
{
	struct host_tensor **t = arena_alloc(c->a, (c->tensors.n + 1) *
					     sizeof *t);
	uint32_t i;

	for (i = 0; i < c->tensors.n; i++) {
		t[i] = &c->tensors.at[i];
	}
	qsort(t, c->tensors.n, sizeof *t, by_name);
	for (i = 0; i < c->tensors.n; i++) {
		t[i]->number = i;
	}
}

void
host_find_tensors(struct cg_code *c)
{
	struct collect x = { .c = c };
	uint32_t i, k;

	intern_init(&x.names, c->a);
	x.run = (struct memory_run){ .m = c->m, .mem = &c->mem,
				     .stage = UINT32_MAX };
	for (x.pipe = 0; x.pipe < c->r->npipes; x.pipe++) {
		for (i = 0; i < c->r->nstages; i++) {
			for (k = 0; k < SCHED_NKINDS; k++) {
				if (c->r->sched->rank_of[i] == x.pipe) {
					collect_func(&x,
						     c->r->of_stage[i][k]);
				}
			}
		}
		collect_func(&x, c->r->update[x.pipe]);
	}
	number_all(c);
}

/* ---- as data ---- */

/* Which dims of a weight share a scale. */
static int64_t
rounded_dims(const struct cg_code *c, const struct ir_node *n)
{
	const struct ir_attr *a = ir_attr(c->m, n, IR_ATTR_ROUNDED);
	const struct ir_type *type = ir_type(c->m, n->result);
	int64_t bits = 0;
	uint32_t i;

	for (i = 0; a && i < a->ndims; i++) {
		bits |= (int64_t)1 << ir_type_at(type, a->dims[i]);
	}
	return bits;
}

/* One more than the number of the weight that these are the scales of: its name
 * is theirs without IR_SCALES_SUFFIX.  0: the program has no such weight. */
static int64_t
weight_of(const struct cg_code *c, const struct host_tensor *scales)
{
	size_t n = strlen(scales->name) - strlen(IR_SCALES_SUFFIX);
	uint32_t i;

	for (i = 0; i < c->tensors.n; i++) {
		const char *name = c->tensors.at[i].name;

		if (strncmp(name, scales->name, n) == 0 && !name[n]) {
			return c->tensors.at[i].number + 1;
		}
	}
	return 0;
}

static void
put_tensor(struct cg_code *c, const struct host_tensor *t,
	   struct ll_value **w)
{
	const struct ir_node *n = ir_node(c->m, t->node);
	const struct ir_type *type = ir_type(c->m, n->result);
	struct rt_tensor x = { .loaded = ir_is(n->op, IRF_LOADED),
			       .frozen = ir_attr(c->m, n, IR_ATTR_FROZEN) !=
					 NULL,
			       .elem = host_stored_elem((enum ir_dtype)
							type->dtype),
			       .ndims = type->ndims };
	struct ll_value **names = host_words(c, type->ndims);
	struct ll_value **sizes = host_words(c, type->ndims);
	uint32_t i;

	for (i = 0; i < type->ndims; i++) {
		names[i] = ll_text(c->ll, ir_dim_name(c->m, type->dims[i]));
		sizes[i] = ll_i64(c->ll, ir_dim_size(c->m, type->dims[i]));
	}
	x.stacked = host_stacked_dims(c->m, type, t->name);
	x.joins = host_joins(c, t->node);
	x.rounded = rounded_dims(c, n);
	x.scales_of = n->op == IR_SCALES ? weight_of(c, t) : 0;
	x.frozen |= x.scales_of > 0;
	HOST_FILL(c, w, x);
	HOST_SET(w, struct rt_tensor, name, ll_text(c->ll, t->name));
	HOST_SET(w, struct rt_tensor, dims, host_data(c, names, type->ndims));
	HOST_SET(w, struct rt_tensor, sizes, host_data(c, sizes, type->ndims));
}

/* One table for all programs. */
static struct ll_value *
tensors_data(struct cg_code *c)
{
	size_t size = HOST_WORDS(struct rt_tensor);
	struct ll_value **w;
	uint32_t i;

	if (!c->tensor_data) {
		w = host_words(c, c->tensors.n * size);
		for (i = 0; i < c->tensors.n; i++) {
			put_tensor(c, &c->tensors.at[i],
				   w + c->tensors.at[i].number * size);
		}
		c->tensor_data = host_data(c, w, c->tensors.n * size);
	}
	return c->tensor_data;
}

static void
put_hold(struct cg_code *c, const struct host_class *k,
	 const struct host_hold *h, struct ll_value **w)
{
	const struct host_tensor *t = &c->tensors.at[h->tensor];
	value_id v = ir_node(c->m, t->node)->result;
	const struct ir_type *type = ir_type(c->m, v);
	size_t size = HOST_WORDS(struct rt_tensor);
	struct cg_panel p;

	HOST_SET(w, struct rt_hold, tensor,
		 ll_data_at(c->ll, tensors_data(c),
			    (uint32_t)(t->number * size)));
	HOST_SET(w, struct rt_hold, offset, ll_i64(c->ll, h->offset));
	HOST_SET(w, struct rt_hold, dims, host_spreads_of(c, type));
	HOST_SET(w, struct rt_hold, writes,
		 ll_i64(c->ll, t->pipe == h->pipe));
	if (host_panel(k, v, &p)) {
		HOST_SET(w, struct rt_hold, lanes, ll_i64(c->ll, p.lanes));
		HOST_SET(w, struct rt_hold, row, ll_i64(c->ll, p.row));
	}
}

void
host_put_holds(struct cg_code *c, const struct host_class *k,
	   struct ll_value **program)
{
	size_t size = HOST_WORDS(struct rt_hold);
	struct ll_value **w = host_words(c, c->holds.n * size);
	uint32_t i, n = 0;

	for (i = 0; i < c->holds.n; i++) {
		if (c->holds.at[i].pipe == k->pipe) {
			put_hold(c, k, &c->holds.at[i], w + n++ * size);
		}
	}
	HOST_SET(program, struct rt_program, nholds, ll_i64(c->ll, n));
	HOST_SET(program, struct rt_program, holds,
		 host_data(c, w, n * size));
}

void
host_put_tensors(struct cg_code *c, struct ll_value **plan)
{
	HOST_SET(plan, struct rt_plan, ntensors,
		 ll_i64(c->ll, c->tensors.n));
	HOST_SET(plan, struct rt_plan, tensors, tensors_data(c));
}

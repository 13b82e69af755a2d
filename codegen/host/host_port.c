/*
 * The inputs and results of a program, what is set to zero before a step, and
 * what is logged.
 */
#include "codegen/host/host.h"
#include "ir/train/step_numbers.h"

#include <string.h>

/* ---- inputs ---- */

static const char *
name_of(const struct cg_code *c, const struct ir_node *n)
{
	return ir_text(c->m->ctx, ir_attr(c->m, n, IR_ATTR_NAME)->text);
}

static void
find_inputs(const struct cg_code *c, region_id id, struct host_inputs *out)
{
	const struct ir_region *r = &c->m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);
		struct host_input x = { .node = r->nodes.at[i] };

		if (n->region) {
			find_inputs(c, n->region, out);
		}
		/* the runtime has these numbers */
		if (n->op != IR_INPUT ||
		    ir_number_find(name_of(c, n)) < IR_NUMBERS) {
			continue;
		}
		x.name = ir_attr(c->m, n, IR_ATTR_NAME)->text;
		for (k = 0; k < out->at.n && out->at.at[k].name != x.name;
		     k++) {
		}
		if (k == out->at.n) {
			VEC_PUSH(c->a, &out->at, x);
		}
	}
}

void
host_find_inputs(const struct cg_code *c, uint32_t pipe,
		 struct host_inputs *out)
{
	const struct ranks *r = c->r;
	uint32_t i, k;

	memset(out, 0, sizeof *out);
	for (i = 0; i < r->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			func_id f = r->of_stage[i][k];

			if (f && r->sched->rank_of[i] == pipe) {
				find_inputs(c, c->m->funcs.at[f].body, out);
			}
		}
	}
}

/* ---- ports ---- */

static void
put_port(struct cg_code *c, const char *name, const struct ir_type *t,
	 int64_t offset, int64_t apart, struct ll_value **w)
{
	struct rt_port x = { .elem = host_elem((enum ir_dtype)t->dtype),
			     .offset = offset, .apart = apart,
			     .below = t->of ? ir_dim_size(c->m, t->of) : 0,
			     .ndims = t->ndims, .sum = (int64_t)t->sum << 1 };
	struct ll_value **names = host_words(c, t->ndims);
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		names[i] = ll_text(c->ll, ir_dim_name(c->m, t->dims[i]));
	}
	HOST_FILL(c, w, x);
	HOST_SET(w, struct rt_port, name, ll_text(c->ll, name));
	HOST_SET(w, struct rt_port, names, host_data(c, names, t->ndims));
	HOST_SET(w, struct rt_port, dims, host_spreads_of(c, t));
}

static void
put_inputs(struct cg_code *c, const struct host_class *k,
	   struct ll_value **program)
{
	size_t size = HOST_WORDS(struct rt_port);
	struct host_inputs in;
	struct ll_value **w;
	uint32_t i;

	host_find_inputs(c, k->pipe, &in);
	w = host_words(c, in.at.n * size);
	for (i = 0; i < in.at.n; i++) {
		const struct ir_node *n = ir_node(c->m, in.at.at[i].node);
		const struct memory_buffer *b = &c->mem.buffers.at[
			c->mem.tensor[in.at.at[i].node] - 1];

		put_port(c, name_of(c, n), ir_type(c->m, n->result),
			 b->offset, b->copies > 1 ? b->apart : 0,
			 w + i * size);
	}
	HOST_SET(program, struct rt_program, ninputs,
		 ll_i64(c->ll, in.at.n));
	HOST_SET(program, struct rt_program, inputs,
		 host_data(c, w, in.at.n * size));
}

/* The buffers of results are in the order in which a function returns them. */
static void
put_results(struct cg_code *c, const struct host_class *k,
	    struct ll_value **program)
{
	uint32_t stage = c->r->nstages - 1, i, n = 0;
	func_id f = c->r->of_stage[stage][SCHED_F];
	size_t size = HOST_WORDS(struct rt_port);
	const struct ir_region *r =
		&c->m->regions.at[c->m->funcs.at[f].body];
	struct ll_value **w = host_words(c, r->results.n * size);

	for (i = 0; i < c->mem.buffers.n && n < r->results.n; i++) {
		const struct memory_buffer *b = &c->mem.buffers.at[i];
		sym_t hint;

		if (b->func != f || b->kind != MEMORY_OTHER ||
		    b->pipe != k->pipe) {
			continue;
		}
		hint = c->m->values.at[b->value].hint;
		put_port(c, hint ? ir_text(c->m->ctx, hint) : "result",
			 ir_type(c->m, b->value), b->offset,
			 b->copies > 1 ? b->apart : 0, w + n++ * size);
	}
	HOST_SET(program, struct rt_program, nresults, ll_i64(c->ll, n));
	HOST_SET(program, struct rt_program, results,
		 host_data(c, w, n * size));
}

/* ---- logits ---- */

static int64_t
where(void *user, const struct memory_run *run,
      const struct memory_iterations *at)
{
	const value_id *v = user;
	struct memory_spot spot;

	memory_where(run, *v, at, &spot);
	return spot.offset;
}

/* The logits that labels are compared with, if they are saved for backward. */
static value_id
find_logits(const struct cg_code *c, region_id id)
{
	const struct ir_region *r = &c->m->regions.at[id];
	value_id v = 0;
	uint32_t i, b;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);

		v = n->op == IR_CROSS_ENTROPY ? ir_args(c->m, n)[0] : v;
	}
	/* through a cast, for example */
	while (v && !c->mem.value[v].buffer) {
		const struct ir_node *n = ir_node(c->m,
						  c->m->values.at[v].node);

		v = n->nargs == 1 && ir_is(n->op, IRF_MAP)
			? ir_args(c->m, n)[0] : 0;
	}
	b = v ? c->mem.value[v].buffer : 0;
	return b && c->mem.buffers.at[b - 1].kind == MEMORY_SAVES ? v : 0;
}

static void
put_logits(struct cg_code *c, const struct host_class *k,
	   struct ll_value **program)
{
	uint32_t stage = c->r->nstages - 1;
	func_id id = c->r->of_stage[stage][SCHED_F];
	struct host_func f = { .c = c, .kind = SCHED_F };
	value_id v = find_logits(c, c->m->funcs.at[id].body);
	struct ll_value **w;
	struct host_fit fit;

	if (!v) {
		return;
	}
	f.k = (struct host_class *)k;
	f.run = (struct memory_run){ .m = c->m, .mem = &c->mem,
				     .stage = stage };
	host_find_turns(&f);
	host_sample(&f, where, &v, &fit);
	if (fit.all || fit.by[0].table) {	/* at no regular distance */
		return;
	}
	w = host_words(c, HOST_WORDS(struct rt_port));
	put_port(c, "logits", ir_type(c->m, v), fit.base, fit.by[0].stride,
		 w);
	HOST_SET(program, struct rt_program, logits,
		 host_data(c, w, HOST_WORDS(struct rt_port)));
}

/* ---- sums ---- */

/* Buffers that functions add to. */
static bool *
find_sums(const struct cg_code *c)
{
	bool *is_sum = arena_alloc(c->a, c->mem.buffers.n + 1);
	node_id id;

	for (id = 1; id < c->m->nodes.n; id++) {
		if (c->mem.tensor[id] &&
		    ir_is(ir_node(c->m, id)->op, IRF_SUMS)) {
			is_sum[c->mem.tensor[id] - 1] = true;
		}
	}
	return is_sum;
}

/* Where sums lie that the first launch of a step stores or, if not `stored`,
 * that are set to zero before it. */
static struct rt_range *
find_ranges(struct cg_code *c, const struct host_class *k, bool stored,
	    uint32_t *n)
{
	bool *is_sum = find_sums(c);
	VEC(struct rt_range) all = { 0 };
	uint32_t i;

	for (i = 0; i < c->mem.buffers.n; i++) {
		const struct memory_buffer *b = &c->mem.buffers.at[i];
		struct rt_range x = { b->offset,
				      b->bytes * b->items * b->copies };

		if (!is_sum[i] || b->pipe != k->pipe ||
		    stored != (k->openers[i] != NULL)) {
			continue;
		}
		if (all.n && all.at[all.n - 1].offset +
			     all.at[all.n - 1].bytes == x.offset) {
			all.at[all.n - 1].bytes += x.bytes;
		} else {
			VEC_PUSH(c->a, &all, x);
		}
	}
	*n = all.n;
	return all.at;
}

static struct ll_value *
ranges_data(struct cg_code *c, const struct rt_range *at, uint32_t n)
{
	size_t size = HOST_WORDS(struct rt_range);
	struct ll_value **w = host_words(c, n * size);
	uint32_t i;

	for (i = 0; i < n; i++) {
		w[i * size] = ll_i64(c->ll, at[i].offset);
		w[i * size + 1] = ll_i64(c->ll, at[i].bytes);
	}
	return host_data(c, w, n * size);
}

static void
put_sums(struct cg_code *c, const struct host_class *k,
	 struct ll_value **program)
{
	const struct rt_range *at;
	uint32_t n;

	at = find_ranges(c, k, false, &n);
	HOST_SET(program, struct rt_program, nzero, ll_i64(c->ll, n));
	HOST_SET(program, struct rt_program, zero, ranges_data(c, at, n));
	at = find_ranges(c, k, true, &n);
	HOST_SET(program, struct rt_program, nstored, ll_i64(c->ll, n));
	HOST_SET(program, struct rt_program, stored, ranges_data(c, at, n));
}

static void
put_watch(struct cg_code *c, const struct host_class *k,
	  struct ll_value **program)
{
	struct ll_value **w = host_words(c, HOST_WORDS(struct rt_watch));
	struct rt_watch x = { .elem = RT_ELEM_F32, .offset = k->watch_offset };

	if (!k->watches) {
		return;
	}
	HOST_FILL(c, w, x);
	HOST_SET(w, struct rt_watch, name, ll_text(c->ll, "gradient_norm"));
	HOST_SET(program, struct rt_program, nwatch, ll_i64(c->ll, 1));
	HOST_SET(program, struct rt_program, watch,
		 host_data(c, w, HOST_WORDS(struct rt_watch)));
}

void
host_put_ports(struct cg_code *c, const struct host_class *k,
	   struct ll_value **program)
{
	put_inputs(c, k, program);
	if (c->r->sched->rank_of[c->r->nstages - 1] == k->pipe) {
		put_results(c, k, program);
		put_logits(c, k, program);
	}
	put_sums(c, k, program);
	put_watch(c, k, program);
}

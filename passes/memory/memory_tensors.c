/*
 * Tensors that last for the whole step: weights, sums of gradients, optimizer
 * state, inputs.  A rank of the pipeline has each of them once, however many of
 * its stages use it; those of a repeat's iterations lie side by side.  Of an
 * input there is one piece for each microbatch.  Inputs come last: where all
 * that lasts from step to step lies does not depend on how large they are.
 */
#include "passes/memory/memory_parts.h"

#include <stdlib.h>
#include <string.h>

#include "passes/pass.h"

/* A node that names the tensors of some iterations. */
struct tensor_use {
	enum memory_kind kind;
	bool sum;		/* the sum that is accumulated under the name */
	bool in_layers;		/* the name has a repeat's variable */
	sym_t name;
	uint64_t order;	/* kind, input, sum and name: equal in one buffer */
	node_id node;
	value_id value;
	uint32_t stage;
	int64_t lo, hi;		/* of the outermost variable in the name */
	int64_t inner;		/* tensors of each */
};

struct tensor_uses {
	VEC(struct tensor_use) at;
};

/* ---- what a name means ---- */

static bool
names_tensor(enum ir_op op)
{
	return ir_is(op, IRF_SOURCE | IRF_SINK | IRF_KEEPS) &&
	       !ir_is(op, IRF_STASH | IRF_PEER) &&
	       ir_op_takes(op, IR_ATTR_NAME) == IR_TAKES_MUST &&
	       ir_op_takes(op, IR_ATTR_RATE) == IR_TAKES_NOT;
}

static bool
is_tensor(struct memory_work *w, const struct ir_node *n)
{
	uint8_t *is = &w->is_tensor[n->op];

	if (!*is) {
		*is = names_tensor((enum ir_op)n->op) + 1;
	}
	return *is > 1;
}

/* The weight w of a name like "w.exp_avg", or 0. */
static sym_t
owner_of(const struct memory_work *w, sym_t name)
{
	struct memory_owner *x = &w->owner[name];

	if (!x->known) {
		struct ir_ctx *c = w->m->ctx;
		const char *text = ir_text(c, name), *dot = strrchr(text, '.');
		sym_t of = dot ? intern(&c->syms, text, (size_t)(dot - text))
			       : 0;

		x->known = true;
		x->of = of < w->nsyms && w->is_weight[of] ? of : 0;
	}
	return x->of;
}

/* What stores a tensor is unique, too, and no input. */
static bool
is_input(const struct ir_node *n)
{
	return n->op == IR_INPUT;
}

static enum memory_kind
kind_of(const struct memory_work *w, const struct ir_node *n, sym_t name,
	bool update)
{
	if (ir_is(n->op, IRF_SUMS)) {
		return w->is_weight[name] ? MEMORY_GRADIENTS : MEMORY_OTHER;
	}
	if (ir_is(n->op, IRF_SINK)) {
		return w->is_weight[name] ? MEMORY_WEIGHTS
			: owner_of(w, name) ? MEMORY_OPTIMIZER : MEMORY_OTHER;
	}
	return ir_is(n->op, IRF_PARAM) ? MEMORY_WEIGHTS
		: update && !ir_is(n->op, IRF_UNIQUE) && owner_of(w, name)
		? MEMORY_OPTIMIZER : MEMORY_OTHER;
}

static bool
names_variable(const struct memory_work *w, sym_t name,
	       const struct ir_node *repeat)
{
	const struct ir_attr *var = ir_attr(w->m, repeat, IR_ATTR_VAR);

	return var && pass_mentions(ir_text(w->m->ctx, name),
				    ir_text(w->m->ctx, var->text));
}

/* ---- collecting ---- */

static void
add_use(struct memory_work *w, struct tensor_uses *all, node_id id,
	const struct memory_repeats *around, uint32_t stage)
{
	const struct ir_node *n = ir_node(w->m, id);
	struct tensor_use x = {
		.name = ir_attr(w->m, n, IR_ATTR_NAME)->text, .node = id,
		.sum = ir_is(n->op, IRF_SUMS), .stage = stage, .hi = 1,
		.inner = 1
	};
	bool each = false;

	x.kind = kind_of(w, n, x.name, stage == UINT32_MAX);
	x.order = (uint64_t)x.kind << 34 | (uint64_t)is_input(n) << 33 |
		  (uint64_t)x.sum << 32 | x.name;
	x.value = ir_is(n->op, IRF_SINK) ? ir_args(w->m, n)[0] : n->result;
	for (; around; around = around->outer) {
		if (!names_variable(w, x.name, around->repeat)) {
			continue;
		}
		x.inner *= each ? x.hi - x.lo : 1;
		x.lo = memory_start(w->m, around->repeat);
		x.hi = x.lo + memory_count(w->m, around->repeat);
		each = true;
	}
	x.in_layers = each;
	VEC_PUSH(&w->tmp, &all->at, x);
}

static void
scan(struct memory_work *w, struct tensor_uses *all, region_id r,
     const struct memory_repeats *outer, uint32_t stage)
{
	uint32_t i;

	for (i = 0; i < w->m->regions.at[r].nodes.n; i++) {
		node_id id = w->m->regions.at[r].nodes.at[i];
		const struct ir_node *n = ir_node(w->m, id);
		struct memory_repeats in = { n, outer };

		if (is_tensor(w, n)) {
			add_use(w, all, id, outer, stage);
		}
		if (n->region) {
			scan(w, all, n->region, &in, stage);
		}
	}
}

static void
find_weights(struct memory_work *w)
{
	node_id id;

	for (id = 1; id < w->m->nodes.n; id++) {
		const struct ir_node *n = ir_node(w->m, id);

		if (ir_is(n->op, IRF_PARAM)) {
			w->is_weight[ir_attr(w->m, n, IR_ATTR_NAME)->text] =
				true;
		}
	}
}

/* ---- ranges of one name ---- */

static int
by_tensor(const void *x, const void *y)
{
	const struct tensor_use *a = x, *b = y;

	return a->order != b->order ? (a->order > b->order) -
				      (a->order < b->order)
		: a->inner != b->inner ? (a->inner > b->inner) -
					 (a->inner < b->inner)
		: a->lo != b->lo ? (a->lo > b->lo) - (a->lo < b->lo)
		: (a->node > b->node) - (a->node < b->node);
}

/* Whether b continues the range of a that so far ends at hi. */
static bool
continues(const struct tensor_use *a, const struct tensor_use *b, int64_t hi)
{
	return a->order == b->order && a->inner == b->inner && b->lo <= hi;
}

/* Whether each microbatch has a piece of its own. */
static bool
is_cut_by_time(const struct memory_work *w, value_id v)
{
	const struct ir_type *t = ir_type(w->m, v);
	axis_id axes[IR_MAX_AXES];
	uint32_t i, k, n;

	for (i = 0; w->r->time && i < t->ndims; i++) {
		n = ir_cuts(t, i, axes);
		for (k = 0; k < n; k++) {
			if (axes[k] == w->r->time) {
				return true;
			}
		}
	}
	return false;
}

/* One buffer for n uses, from the first of them to hi. */
static void
make_buffer(struct memory_work *w, const struct tensor_use *x, uint32_t n,
	    int64_t hi)
{
	uint32_t b = memory_add(w, x->kind, memory_bytes(w, x->value)), i;
	struct memory_buffer *to = memory_at(w, b);

	to->stage = UINT32_MAX;
	to->func = 0;
	to->name = x->name;
	to->first = x->lo;
	to->in_layers = x->in_layers;
	to->items = (hi - x->lo) * x->inner;
	if (ir_is(ir_node(w->m, x->node)->op, IRF_STORED) &&
	    is_cut_by_time(w, x->value)) {
		to->copies = w->r->nmicrobatches;
	}
	to->apart = to->bytes * to->items;
	for (i = 0; i < n; i++) {
		int64_t bytes = memory_bytes(w, x[i].value);

		w->of_node[x[i].node] = b + 1;
		to->bytes = bytes > to->bytes ? bytes : to->bytes;
		if (!ir_is(ir_node(w->m, x[i].node)->op, IRF_SINK)) {
			w->out->value[x[i].value].buffer = b + 1;
		}
	}
	to->apart = to->bytes * to->items;
}

/* Ranges of one name that touch are one buffer. */
static void
make_buffers(struct memory_work *w, struct tensor_uses *all)
{
	uint32_t i, k;
	int64_t hi;

	if (all->at.n) {	/* else `at` may be NULL */
		qsort(all->at.at, all->at.n, sizeof *all->at.at, by_tensor);
	}
	for (i = 0; i < all->at.n; i = k) {
		hi = all->at.at[i].hi;
		for (k = i + 1; k < all->at.n && continues(&all->at.at[i],
					&all->at.at[k], hi); k++) {
			hi = all->at.at[k].hi > hi ? all->at.at[k].hi : hi;
		}
		make_buffer(w, &all->at.at[i], k - i, hi);
	}
}

/* ---- bytes by stage ---- */

/* By weight: bytes of its optimizer state on this rank. */
static int64_t *
state_bytes(struct memory_work *w, uint32_t first)
{
	int64_t *state = arena_alloc(&w->tmp, w->nsyms * sizeof *state);
	uint32_t i;

	for (i = first; i < w->out->buffers.n; i++) {
		const struct memory_buffer *b = memory_at(w, i);

		/* the ranges of one name follow each other */
		if (b->kind == MEMORY_OPTIMIZER &&
		    (i == first || b[-1].name != b->name)) {
			state[owner_of(w, b->name)] += b->bytes;
		}
	}
	return state;
}

/*
 * Counts a weight or gradient of `layers` layers of a stage.  Where these lie
 * on the host, two layers pass through the window of the device.
 */
static void
add_layers(const struct memory *m, uint32_t stage, const struct tensor_use *x,
	   const struct memory_buffer *b, int64_t layers)
{
	struct memory_stage *s = &m->stage[stage];

	if (!x->in_layers || x->kind >= MEMORY_OPTIMIZER) {
		return;
	}
	s->in_layers[x->kind] += layers * x->inner * b->bytes;
	s->window += memory_streams(m) ? (layers > 1 ? 2 : 1) * x->inner *
					 b->bytes : 0;
}

static void
count_stage(struct memory_work *w, const struct tensor_uses *all,
	    uint32_t stage, const int64_t *state)
{
	struct memory_stage *s = &w->out->stage[stage];
	int64_t *hi = arena_alloc(&w->tmp, (w->out->buffers.n + 1) *
				  sizeof *hi), items;
	bool *seen = arena_alloc(&w->tmp, w->out->buffers.n + 1);
	uint32_t i, at;

	/* they are sorted by where they start */
	for (i = 0; i < all->at.n; i++) {
		const struct tensor_use *x = &all->at.at[i];
		const struct memory_buffer *b;

		if (x->stage != stage) {
			continue;
		}
		at = w->of_node[x->node] - 1;
		b = memory_at(w, at);
		items = x->hi - (seen[at] && hi[at] > x->lo ? hi[at] : x->lo);
		seen[at] = true;
		if (items > 0) {
			add_layers(w->out, stage, x, b, items);
			items *= x->inner;
			hi[at] = x->hi;
			s->fixed[x->kind] += items * b->bytes * b->copies;
			s->fixed[MEMORY_OPTIMIZER] +=
				x->kind == MEMORY_WEIGHTS
				? items * state[x->name] : 0;
		}
	}
}

static void
scan_stage(struct memory_work *w, struct tensor_uses *all, uint32_t stage)
{
	uint32_t k;

	for (k = 0; k < SCHED_NKINDS; k++) {
		func_id f = w->r->of_stage[stage][k];

		if (f) {
			scan(w, all, w->m->funcs.at[f].body, NULL, stage);
		}
	}
}

void
memory_tensors(struct memory_work *w)
{
	const struct ranks *r = w->r;
	uint32_t i, first;
	int64_t *state;

	find_weights(w);
	for (w->pipe = 0; w->pipe < r->npipes; w->pipe++) {
		struct tensor_uses all = { 0 };
		func_id update = r->update[w->pipe];

		for (i = 0; i < r->nstages; i++) {
			if (r->sched->rank_of[i] == w->pipe) {
				scan_stage(w, &all, i);
			}
		}
		if (update) {
			scan(w, &all, w->m->funcs.at[update].body, NULL,
			     UINT32_MAX);
		}
		first = w->out->buffers.n;
		make_buffers(w, &all);
		state = state_bytes(w, first);
		for (i = 0; i < r->nstages; i++) {
			if (r->sched->rank_of[i] == w->pipe) {
				count_stage(w, &all, i, state);
			}
		}
	}
}

/*
 * Which launch is the first in a step to add to a gradient.  The gradient is
 * zero then, so a kernel that can (one with a number CG_OLD) stores instead of
 * adding; if that holds for all items of a tensor, it is not set to zero before
 * the step.  A rank runs the same actions in each step, so the schedule says
 * which launch it is.
 */
#include "codegen/host/host.h"

/* The first to add to an item of a buffer. */
struct host_opener {
	node_id node;		/* 0: nobody does */
	uint32_t stage, microbatch;
	int64_t iteration;	/* of all repeats around */
};

struct host_sum_walk {
	struct cg_code *c;
	struct host_class *k;
	struct memory_run run;
	bool *can_store;	/* by node */
};

static int64_t
iteration_of(const struct ir_module *m, const struct memory_iterations *at)
{
	int64_t iteration = 0, each = 1;

	for (; at; at = at->outer) {
		iteration += at->index * each;
		each *= ir_attr_int(m, at->repeat, IR_ATTR_COUNT, 1);
	}
	return iteration;
}

static struct host_opener *
opener_of(const struct cg_code *c, const struct host_class *k, node_id id,
	  const struct memory_run *run, const struct memory_iterations *at)
{
	uint32_t b = c->mem.tensor[id] - 1;
	const struct memory_buffer *x = &c->mem.buffers.at[b];
	int64_t offset = memory_item(run, b, at).offset - x->offset;

	return k->openers[b] ? k->openers[b] + offset / x->bytes : NULL;
}

/* ---- which kernels can store ---- */

static void
note_kernel(struct host_sum_walk *w, const struct kernel_list *l, uint32_t at)
{
	const struct kernel *x = host_launched(w->c, w->k, l, at);
	struct host_use u;
	uint32_t i;

	if (!x || x->kind == KERNEL_COLLECTIVE) {
		return;
	}
	host_use_kernel(w->c, w->k, x, &u);
	for (i = 0; i < u.kernel->k.nums.n; i++) {
		const struct cg_num *n = &u.kernel->k.nums.at[i];

		if (n->kind == CG_OLD) {
			w->can_store[host_use_node(&u, n->node)] = true;
		}
	}
}

static void
note_list(struct host_sum_walk *w, const struct kernel_list *l)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		if (l->at.at[i].body) {
			note_list(w, l->at.at[i].body);
		} else {
			note_kernel(w, l, i);
		}
	}
}

/* ---- the sums of a step ---- */

static void
run_kernel(struct host_sum_walk *w, const struct kernel *x,
	   const struct memory_iterations *at)
{
	struct cg_code *c = w->c;
	uint32_t i;

	for (i = 0; i < x->nodes.n; i++) {
		node_id id = x->nodes.at[i];
		struct host_opener *o;

		if (ir_node(c->m, id)->op != IR_ACCUMULATE) {
			continue;
		}
		o = opener_of(c, w->k, id, &w->run, at);
		if (o && !o->node) {
			*o = (struct host_opener){ id, w->run.stage,
						   w->run.microbatch,
						   iteration_of(c->m, at) };
		}
	}
}

static void
run_list(struct host_sum_walk *w, const struct kernel_list *l,
	 const struct memory_iterations *outer)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *x = &l->at.at[i];
		struct memory_iterations at = { NULL, 0, outer };

		if (!x->body) {
			run_kernel(w, x, outer);
			continue;
		}
		at.repeat = ir_node(w->c->m, x->nodes.at[0]);
		for (; at.index < x->body->count; at.index++) {
			run_list(w, x->body, &at);
		}
	}
}

/* A function's first run is enough: later ones add to the same tensors. */
static void
run_step(struct host_sum_walk *w)
{
	struct cg_code *c = w->c;
	const struct sched_list *l = &c->r->sched->ranks[w->k->pipe];
	bool (*ran)[SCHED_NKINDS] = arena_alloc(c->a, c->r->nstages *
						sizeof *ran);
	uint32_t i;

	for (i = 0; i < l->actions.n; i++) {
		const struct sched_action *a = &l->actions.at[i];
		func_id f = c->r->of_stage[a->stage][a->kind];

		if (!f || ran[a->stage][a->kind]) {
			continue;
		}
		ran[a->stage][a->kind] = true;
		w->run.stage = a->stage;
		w->run.microbatch = a->microbatch;
		note_list(w, c->all[f]->top);
		run_list(w, c->all[f]->top, NULL);
	}
}

/* ---- openers ---- */

static int64_t
items_of(const struct memory_buffer *b)
{
	return b->bytes > 0 ? b->items * b->copies : 0;
}

static bool
all_stored(const struct host_sum_walk *w, const struct host_opener *o,
	   int64_t n)
{
	while (n > 0 && o[n - 1].node && w->can_store[o[n - 1].node]) {
		n--;
	}
	return n == 0;
}

static void
find_openers(struct cg_code *c, struct host_class *k)
{
	uint32_t n = c->mem.buffers.n, i;
	struct host_sum_walk w = { .c = c, .k = k };

	w.run = (struct memory_run){ .m = c->m, .mem = &c->mem };
	w.can_store = arena_alloc(c->a, c->m->nodes.n);
	k->openers = arena_alloc(c->a, (n + 1) * sizeof *k->openers);
	for (i = 0; i < n; i++) {
		const struct memory_buffer *b = &c->mem.buffers.at[i];

		if (b->pipe == k->pipe && b->kind == MEMORY_GRADIENTS &&
		    items_of(b) > 0) {
			k->openers[i] = arena_alloc(c->a,
				(size_t)items_of(b) * sizeof **k->openers);
		}
	}
	run_step(&w);
	for (i = 0; i < n; i++) {
		if (k->openers[i] &&
		    !all_stored(&w, k->openers[i],
				items_of(&c->mem.buffers.at[i]))) {
			k->openers[i] = NULL;
		}
	}
}

void
host_find_openers(struct cg_code *c)
{
	uint32_t i;

	for (i = 0; i < c->classes.n; i++) {
		find_openers(c, &c->classes.at[i]);
	}
}

/* ---- when it runs ---- */

struct adding {
	const struct host_func *f;
	node_id node;
};

static int64_t
is_old(void *user, const struct memory_run *run,
       const struct memory_iterations *at)
{
	const struct adding *x = user;
	const struct cg_code *c = x->f->c;
	const struct host_opener *o;

	if (run->stage == UINT32_MAX) {
		return 1;
	}
	o = opener_of(c, x->f->k, x->node, run, at);
	return !o || o->node != x->node || o->stage != run->stage ||
	       o->microbatch != run->microbatch ||
	       o->iteration != iteration_of(c->m, at);
}

struct ll_value *
host_has_old(struct host_func *f, node_id id)
{
	struct adding x = { f, id };

	return host_sampled_value(f, is_old, &x);
}

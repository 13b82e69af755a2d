/*
 * Kernel groups of random modules and of random models under random plans:
 * each node is in one group, groups can run in their order with nothing but
 * what was written before, collectives keep their order, the work is that of
 * all nodes, and no group touches more memory than its nodes would alone.  What
 * a memo of all of them has is what is found without one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/memo.h"
#include "passes/kernels/kernels.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-ir.h"
#include "tests/unit/shared/t-split.h"

#define MODULES 400
#define PAIRS 100

struct look {
	struct ir_module *m;
	struct arena a;
	uint8_t *seen;		/* by node: in so many groups */
	bool *free;		/* by node */
	bool *memory;		/* by value: it lies there by now */
	uint32_t *kernel;	/* by node: the one at hand */
	uint32_t nkernels;
	double flops, nodes;	/* of kernels, of nodes */
	uint64_t merged, copies, parts, alike, joined;
	uint64_t launched, summed, paired, handed;
};

static bool
is_constant(struct look *l, value_id v)
{
	node_id id = l->m->values.at[v].node;
	const struct ir_node *n = ir_node(l->m, id);
	uint32_t i;

	if (!id || n->nresults != 1 || n->op == IR_DROPOUT_MASK ||
	    !(n->op == IR_CONST || n->nargs > 0) ||
	    !(n->op == IR_CONST || ir_is(n->op, IRF_MAP | IRF_MOVES))) {
		return false;
	}
	for (i = 0; i < n->nargs; i++) {
		if (!is_constant(l, ir_args(l->m, n)[i])) {
			return false;
		}
	}
	return true;
}

/* What a node that needs no kernel stands for; 0: a constant. */
static value_id
base_of(struct look *l, value_id v)
{
	for (;;) {
		node_id id = l->m->values.at[v].node;

		if (!id || !l->free[id]) {
			return v;
		}
		if (is_constant(l, v)) {
			return 0;
		}
		if (ir_node(l->m, id)->nargs == 0) {
			return v;
		}
		v = ir_args(l->m, ir_node(l->m, id))[0];
	}
}

/* The bytes of a node's result; of rows that a tensor gets, those of the rows
 * if they are more than it has places. */
static double
result_bytes(const struct ir_module *m, const struct ir_node *n)
{
	double bytes = kernel_bytes(m, n->result), rows;
	value_id v;

	if (!ir_is(n->op, IRF_KEEPS)) {
		return bytes;
	}
	v = ir_args(m, n)[0];
	rows = kernel_bytes(m, v) / ir_elem_bytes(ir_type(m, v)->dtype) *
	       ir_elem_bytes(ir_type(m, n->result)->dtype);
	return rows > bytes ? rows : bytes;
}

static bool
available(struct look *l, value_id v, uint32_t kernel)
{
	value_id b = base_of(l, v);
	node_id id = b ? l->m->values.at[b].node : 0;

	return !b || !id || l->free[id] || l->memory[b] ||
	       (kernel && l->kernel[id] == kernel);
}

/* Its nodes' operands are there, or made inside. */
static void
look_nodes(struct look *l, const struct kernel *k)
{
	double alone = 0, bytes;
	uint32_t i, j;

	l->nkernels++;
	for (i = 0; i < k->nodes.n; i++) {
		l->kernel[k->nodes.at[i]] = l->nkernels;
		l->seen[k->nodes.at[i]] += i >= k->ncopies;
	}
	l->merged += k->nodes.n - 1;
	l->copies += k->ncopies;
	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(l->m, k->nodes.at[i]);

		for (j = 0; j < n->nargs; j++) {
			value_id v = ir_args(l->m, n)[j];

			assert_true(available(l, v, l->nkernels));
			alone += kernel_bytes(l->m, v);
		}
		alone += n->nresults ? result_bytes(l->m, n) : 0;
		alone += ir_is(n->op, IRF_SINK) ? 2 * kernel_bytes(l->m,
			ir_args(l->m, n)[0]) : 0;
		if (!n->region && !n->callee) {
			l->nodes += ir_local_flops(l->m, n);
		}
	}
	bytes = k->work->read_bytes + k->work->write_bytes;
	assert_true(k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL ||
		    bytes <= alone * (1 + 1e-12));
	l->flops += k->work->flops;
	if (k->kind == KERNEL_CONTRACTION) {
		const struct kernel_dot *d = &k->work->dot;
		double dot = 2 * d->batch * d->m * d->n * d->k;

		assert_true(dot <= k->work->flops * 1.01 + 1e6);
	}
	for (i = 0; i < k->outputs.n; i++) {
		l->memory[k->outputs.at[i].value] = true;
	}
}

/* What an iteration reads of regions around it has been written. */
static void
look_outside(struct look *l, region_id r)
{
	const struct ir_region *region = &l->m->regions.at[r];
	uint32_t i, k;

	for (i = 0; i < region->nodes.n; i++) {
		node_id user = region->nodes.at[i];
		const struct ir_node *n = ir_node(l->m, user);

		/* one that needs no kernel reads nothing itself */
		for (k = 0; k < n->nargs && !l->free[user]; k++) {
			value_id v = base_of(l, ir_args(l->m, n)[k]);
			node_id id = v ? l->m->values.at[v].node : 0;

			if (id && l->seen[id] && !l->free[id]) {
				assert_true(l->memory[v]);
			}
		}
	}
}

static uint32_t
place_of(const struct ir_region *r, node_id id)
{
	uint32_t i;

	for (i = 0; r->nodes.at[i] != id; i++) {
	}
	return i;
}

/* A weight, which may be gathered anywhere; a sum, as soon as it is made. */
static bool
may_move(const struct look *l, const struct ir_node *n)
{
	node_id of = n->nargs ? l->m->values.at[ir_args(l->m, n)[0]].node : 0;

	return n->op == IR_ALL_REDUCE || n->op == IR_REDUCE_SCATTER ||
	       (n->op == IR_ALL_GATHER && of &&
		ir_is(ir_node(l->m, of)->op, IRF_PARAM));
}

/* A part is a share of what is whole, and all of them are the whole. */
static void
look_parts(struct look *l, const struct kernel *x)
{
	const struct kernel_work *had = x->work, *share;
	double n = x->parts->n, flops = x->kind == KERNEL_COLLECTIVE
		? 0 : had->dot.batch * had->dot.m * had->dot.n * had->dot.k;
	struct kernel part;
	int64_t by = 1;
	uint32_t i;

	for (i = 0; i < x->parts->ndims; i++) {
		assert_true(x->parts->at[i].by > 1);
		by *= x->parts->at[i].by;
	}
	assert_int_equal(by, x->parts->n);
	parts_kernel(l->m, x, &l->a, &part);
	share = part.work;
	assert_null(part.parts);
	assert_true(share->write_bytes * n == had->write_bytes);
	assert_true(share->read_bytes * n >= had->read_bytes);
	assert_true(share->dot.batch * share->dot.m * share->dot.n *
		    share->dot.k * n == flops || flops == 0);
	l->parts++;
}

/* The pair could run by more parts or fewer of the same dims, too. */
static void
look_alike(struct look *l, const struct kernel_list *list, uint32_t at)
{
	const struct kernel *x = &list->at.at[at];
	uint32_t dot = parts_led(list, at) ? at - 1 : x->until, n;
	struct kernel_parts p;

	for (n = 2; n <= KERNEL_MAX_PARTS; n *= 2) {
		if (parts_cut(l->m, x, n, &p) && parts_alike(&p, x->parts)) {
			assert_true(parts_fit(l->m, x, &list->at.at[dot],
					      &p));
			l->alike += n != x->parts->n;
		}
	}
}

/* What goes on beside kernels is waited for by the first that reads it. */
static void
look_until(struct look *l, const struct kernel_list *list, uint32_t at)
{
	const struct kernel *x = &list->at.at[at];
	uint32_t i, k, o;

	if (x->parts) {
		look_parts(l, x);
	}
	if (x->parts && x->kind == KERNEL_COLLECTIVE) {
		look_alike(l, list, at);
	}
	if (!x->until) {
		return;
	}
	if (x->kind == KERNEL_CONTRACTION) {	/* talked about by parts */
		assert_int_equal(x->until, at + 1);
		assert_true(parts_led(list, at + 1));
		assert_int_equal(list->at.at[at + 1].parts->n, x->parts->n);
		return;
	}
	assert_int_equal(x->kind, KERNEL_COLLECTIVE);
	assert_true(x->until > at + (x->parts ? 0 : 1) &&
		    x->until < list->at.n);
	for (i = at + 1; i <= x->until; i++) {
		const struct kernel *y = &list->at.at[i];
		bool is = false;

		for (k = 0; k < y->inputs.n; k++) {
			for (o = 0; o < x->outputs.n; o++) {
				is |= y->inputs.at[k].value ==
				      x->outputs.at[o].value;
			}
		}
		assert_int_equal(is, i == x->until);
	}
}

/*
 * What communicates does so as the program says, and what stages send as well.
 */
struct colls {
	const struct ir_region *region;
	uint32_t comm_node, peers;
};

static uint32_t
peers_before(const struct look *l, const struct ir_region *r, uint32_t at)
{
	uint32_t i, n = 0;

	for (i = 0; i < at; i++) {
		n += ir_is(ir_node(l->m, r->nodes.at[i])->op, IRF_PEER);
	}
	return n;
}

/*
 * Collectives that may be joined change places with each other; what stages
 * send does not move, and nothing passes it.
 */
static void
look_coll(const struct look *l, struct colls *t, node_id id)
{
	const struct ir_node *n = ir_node(l->m, id);
	uint32_t at = place_of(t->region, id);

	if (!ir_is(n->op, IRF_COMM | IRF_PEER) || may_move(l, n)) {
		return;
	}
	assert_int_equal(peers_before(l, t->region, at), t->peers);
	t->peers += ir_is(n->op, IRF_PEER);
	if (ir_setting_num(l->m, "join.link", 0) == 0) {
		assert_true(at >= t->comm_node);
		t->comm_node = at + 1;
	}
}

/* Each is a collective, with what puts it into a tensor. */
static void
look_joined(struct look *l, const struct kernel *x)
{
	uint32_t i, colls = 0;

	for (i = 0; i < x->nodes.n && x->work->coll.n > 1; i++) {
		const struct ir_node *n = ir_node(l->m, x->nodes.at[i]);

		colls += !ir_is(n->op, IRF_SINK);
		assert_true(ir_is(n->op, IRF_SINK) ||
			    n->op == x->work->coll.op);
	}
	assert_true(x->work->coll.n <= 1 || colls == x->work->coll.n);
	l->joined += colls;
}

/* What a pair hands on, which is in no memory, no node but theirs reads. */
static void
look_handed(struct look *l, const struct kernel *x)
{
	const struct kernel_launch *p = x->launch;
	uint32_t i, k;
	node_id id;

	for (i = 0; p->paired && p->at == 0 && i < x->outputs.n; i++) {
		value_id v = x->outputs.at[i].value;

		if (!kernel_hands_on(p, v)) {
			continue;
		}
		l->handed++;
		for (id = 1; id < l->m->nodes.n; id++) {
			const struct ir_node *n = ir_node(l->m, id);

			for (k = 0; k < n->nargs; k++) {
				assert_true(ir_args(l->m, n)[k] != v ||
					    kernel_has_node(p->of[0], id) ||
					    kernel_has_node(p->of[1], id));
			}
		}
	}
}

/* Contractions of one launch follow each other.  Those that add up, and a pair,
 * read what the one before makes; others nothing of each other. */
static void
look_launch(struct look *l, const struct kernel *x)
{
	uint32_t i;

	if (!x->launch) {
		return;
	}
	assert_true(x->launch->n > 1 && x->launch->at < x->launch->n);
	assert_int_equal(x->kind, KERNEL_CONTRACTION);
	assert_null(x->parts);
	for (i = 0; i < x->launch->n; i++) {
		const struct kernel *k = x - x->launch->at + i;

		assert_true(k->launch && k->launch->n == x->launch->n &&
			    k->launch->at == i &&
			    k->launch->sums == x->launch->sums &&
			    k->launch->paired == x->launch->paired &&
			    x->launch->of[i]->work == k->work);
		assert_int_equal(kernel_needs(x, k),
				 (x->launch->sums || x->launch->paired) &&
				 i + 1 == x->launch->at);
	}
	look_handed(l, x);
	l->launched++;
	l->summed += x->launch->sums;
	l->paired += x->launch->paired;
}

/* After the kernel that replaces a tensor no other reads the old value. */
static void
look_stores(const struct look *l, const struct kernel_list *list, uint32_t at)
{
	const struct kernel *x = &list->at.at[at], *k;
	uint32_t i, j;

	for (i = 0; i < x->nodes.n; i++) {
		const struct ir_node *n = ir_node(l->m, x->nodes.at[i]), *s;

		if (n->op != IR_STORE) {
			continue;
		}
		for (k = x + 1; k < list->at.at + list->at.n; k++) {
			for (j = 0; j < k->inputs.n; j++) {
				value_id v = k->inputs.at[j].value;
				node_id id = l->m->values.at[v].node;

				s = ir_node(l->m, id);
				assert_false(id && ir_is(s->op, IRF_STORED) &&
					ir_attr(l->m, s, IR_ATTR_NAME)->text ==
					ir_attr(l->m, n, IR_ATTR_NAME)->text);
			}
		}
	}
}

static void
look_region(struct look *l, const struct kernel_list *list)
{
	const struct ir_region *r = &l->m->regions.at[list->region];
	struct colls colls = { .region = r };
	uint32_t i, k;

	for (i = 0; i < list->free.n; i++) {
		l->free[list->free.at[i]] = true;
		l->seen[list->free.at[i]]++;
	}
	look_outside(l, list->region);
	for (i = 0; i < list->at.n; i++) {
		const struct kernel *x = &list->at.at[i];

		look_nodes(l, x);
		look_until(l, list, i);
		look_stores(l, list, i);
		if (x->kind == KERNEL_REPEAT) {
			assert_int_equal(x->nodes.n, 1);
			look_region(l, x->body);
		}
		look_joined(l, x);
		look_launch(l, x);
		for (k = 0; k < x->nodes.n; k++) {
			look_coll(l, &colls, x->nodes.at[k]);
		}
	}
	for (i = 0; i < r->nodes.n; i++) {
		assert_int_equal(l->seen[r->nodes.at[i]], 1);
	}
	for (i = 0; i < r->results.n; i++) {
		assert_true(available(l, r->results.at[i], 0));
	}
}

/* ---- a memo of all modules ---- */

struct known {
	struct mem mem;
	struct memo memo;
	uint64_t asked;
	/* contractions that share a launch, those of them that add up or are
	 * in pairs, and values that pairs hand on */
	uint64_t launched, summed, paired, handed;
};

static void
open_memo(struct known *x)
{
	*x = (struct known){ .asked = 0 };
	mem_init(&x->mem);
	memo_init(&x->memo, &x->mem, MEMO_BYTES);
}

static void
same_uses(const struct kernel_use *a, const struct kernel_use *b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		assert_int_equal(a[i].value, b[i].value);
		assert_true(a[i].bytes == b[i].bytes);
	}
}

static void
same_work(const struct kernel_work *a, const struct kernel_work *b)
{
	assert_true(a->flops == b->flops && a->read_bytes == b->read_bytes &&
		    a->write_bytes == b->write_bytes);
	assert_true(ir_type_equal(a->shape, b->shape));
	assert_memory_equal(&a->dot, &b->dot, sizeof a->dot);
	assert_int_equal(!a->attention, !b->attention);
	if (a->attention) {
		assert_memory_equal(a->attention, b->attention,
				    sizeof *a->attention);
	}
	assert_memory_equal(&a->coll, &b->coll, sizeof a->coll);
}

static void
same_kernel(const struct kernel *a, const struct kernel *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->nodes.n, b->nodes.n);
	assert_memory_equal(a->nodes.at, b->nodes.at,
			    a->nodes.n * sizeof *a->nodes.at);
	assert_int_equal(a->ncopies, b->ncopies);
	assert_int_equal(a->inputs.n, b->inputs.n);
	same_uses(a->inputs.at, b->inputs.at, a->inputs.n);
	assert_int_equal(a->outputs.n, b->outputs.n);
	same_uses(a->outputs.at, b->outputs.at, a->outputs.n);
	same_work(a->work, b->work);
	assert_int_equal(a->until, b->until);
	assert_int_equal(!a->parts, !b->parts);
	if (a->parts) {
		assert_memory_equal(a->parts, b->parts, sizeof *a->parts);
	}
}

static void
same_list(struct known *x, const struct kernel_list *a,
	  const struct kernel_list *b)
{
	uint32_t i;

	assert_int_equal(a->region, b->region);
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->at.n, b->at.n);
	assert_int_equal(a->free.n, b->free.n);
	if (a->free.n) {
		assert_memory_equal(a->free.at, b->free.at,
				    a->free.n * sizeof *a->free.at);
	}
	for (i = 0; i < a->at.n; i++) {
		same_kernel(&a->at.at[i], &b->at.at[i]);
		if (a->at.at[i].body) {
			same_list(x, a->at.at[i].body, b->at.at[i].body);
		}
	}
	x->asked++;
}

static void
same_all(struct known *x, const struct ir_module *m, struct kernels **a,
	 struct kernels **b)
{
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		same_list(x, a[f]->top, b[f]->top);
		assert_true(a[f]->flops == b[f]->flops);
	}
}

/* Of each repeat of a function, asked for alone. */
static void
look_inside(struct known *x, struct memo *memo, struct ir_module *m,
	    struct kernels **all, struct arena *a)
{
	struct fuse *fuse = kernels_open(m, memo, a);
	struct kernel_list *l;
	uint32_t i;
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		for (i = 0; i < all[f]->top->at.n; i++) {
			const struct kernel_list *body =
				all[f]->top->at.at[i].body;

			if (body) {
				l = kernels_inside(fuse, f, body->region, a);
				l->count = body->count;
				same_list(x, l, body);
			}
		}
	}
}

/* Once as the memo is, and once when it surely knows them. */
static void
look_again(struct known *x, struct ir_module *m, struct arena *a)
{
	struct kernels **all = kernels_all(m, NULL, a);

	same_all(x, m, kernels_all(m, &x->memo, a), all);
	same_all(x, m, kernels_all(m, &x->memo, a), all);
	look_inside(x, &x->memo, m, all, a);
	look_inside(x, NULL, m, all, a);
}

/* As it was opened when sizes were others. */
static void
look_open(struct known *x, struct fuse *f, struct ir_module *m, struct arena *a)
{
	struct kernels **now = arena_alloc(a, m->funcs.n * sizeof *now);
	func_id *ids = arena_alloc(a, m->funcs.n * sizeof *ids), i;

	for (i = 1; i < m->funcs.n; i++) {
		ids[i] = i;
	}
	kernels_some(f, ids, i, a, now);
	same_all(x, m, now, kernels_all(m, NULL, a));
}

/*
 * Every dim is twice as long, or every axis so long that what it cuts is tiny
 * beside the rest; or no longer.
 */
static void
stretch(struct ir_module *m, bool dims, bool back)
{
	int64_t by = dims ? 2 : 1 << 12;
	uint32_t i;

	for (i = 1; i < (dims ? m->dims.n : m->axes.n); i++) {
		int64_t *size = dims ? &m->dims.at[i].size
				     : &m->axes.at[i].size;

		*size = back ? *size / by : *size * by;
	}
}

static bool
is_twice(const struct ir_module *m, const struct ir_node *n)
{
	value_id *args = ir_args(m, n);

	return n->nargs == 2 && args[0] != args[1] &&
	       ir_type_equal(ir_type(m, args[0]), ir_type(m, args[1]));
}

/* What is nearly the same: it must not be taken for what is known. */
static void
look_near(struct known *x, struct ir_module *m, struct arena *a)
{
	node_id i, nth = m->nodes.n / 8 + 1;
	struct fuse *f;
	int dims;

	look_again(x, m, a);
	f = kernels_open(m, &x->memo, a);
	for (dims = 0; dims < 2; dims++) {
		look_open(x, f, m, a);
		stretch(m, dims, false);
		look_again(x, m, a);
		look_open(x, f, m, a);
		stretch(m, dims, true);
	}
	for (i = 1; i < m->nodes.n; i += nth) {
		while (i < m->nodes.n && !is_twice(m, ir_node(m, i))) {
			i++;
		}
		if (i < m->nodes.n) {	/* one operand, twice */
			value_id *v = ir_args(m, ir_node(m, i)), was = v[1];

			v[1] = v[0];
			look_again(x, m, a);
			v[1] = was;
		}
	}
}

static void
look(struct ir_module *m, struct known *memo, uint64_t *merged,
     uint64_t *copies, uint64_t *parts, uint64_t *alike, uint64_t *joined)
{
	struct look l = { .m = m };
	struct kernels **all;
	struct buf b;
	func_id f;

	arena_init(&l.a, &m->ctx->mem);
	l.seen = arena_alloc(&l.a, m->nodes.n);
	l.free = arena_alloc(&l.a, m->nodes.n);
	l.memory = arena_alloc(&l.a, m->values.n);
	l.kernel = arena_alloc(&l.a, m->nodes.n * sizeof *l.kernel);
	all = kernels_all(m, NULL, &l.a);
	for (f = 1; f < m->funcs.n; f++) {
		look_region(&l, all[f]->top);
	}
	assert_true(l.flops <= l.nodes * (1 + 1e-12) &&
		    l.flops >= l.nodes * (1 - 1e-12));
	buf_init(&b, &l.a);
	kernels_print(m, all, NULL, NULL, &b);
	look_near(memo, m, &l.a);
	*merged += l.merged;
	*copies += l.copies;
	*parts += l.parts;
	*alike += l.alike;
	*joined += l.joined;
	memo->launched += l.launched;
	memo->summed += l.summed;
	memo->paired += l.paired;
	memo->handed += l.handed;
	arena_release(&l.a);
}

static void
test_random(void **state)
{
	uint32_t made[IR_OP_COUNT] = { 0 };
	uint64_t seed, merged = 0, copies = 0, parts = 0, alike = 0;
	uint64_t joined = 0, modules = t_cases(MODULES);
	struct known memo;

	(void)state;
	open_memo(&memo);
	for (seed = 1; seed <= modules; seed++) {
		struct ir_ctx c;
		struct ir_module *m;

		ir_ctx_init(&c, NULL);
		m = make_module(&c, seed, made);
		look(m, &memo, &merged, &copies, &parts, &alike,
		     &joined);
		ir_ctx_release(&c);
	}
	memo_release(&memo.memo);
	assert_true(merged > modules / 4);
}

/*
 * A step's new state that a later kernel reads: it cannot be computed again
 * there, since the old one is gone.
 */
static void
test_replaced(void **state)
{
	static const char text[] =
		"llmc-ir 1\nmodule t\ndim a = 64\ndim b = 32\nmodel {\n"
		"  %0 = state name=\"s\" init=zeros : f32[a, b]\n"
		"  %1 = input name=\"x\" : f32[b]\n"
		"  %2 = add %0, %1 : f32[a, b]\n  store %2 name=\"s\"\n"
		"  %3 = mul %2, %2 : f32[a, b]\n"
		"  %4 = sum %3 over=(a, b) : f32[]\n"
		"  %5 = div %2, %4 : f32[a, b]\n  return %5\n}\n";
	uint64_t merged = 0, copies = 0, parts = 0, alike = 0, joined = 0;
	struct known memo;
	struct ir_module *m;
	struct ir_ctx c;
	uint32_t base;

	(void)state;
	open_memo(&memo);
	ir_ctx_init(&c, NULL);
	source_add(&c.sources, "t.ir", text, sizeof text - 1, &base);
	m = ir_read(&c, c.sources.files.n - 1);
	assert_non_null(m);
	look(m, &memo, &merged, &copies, &parts, &alike, &joined);
	ir_ctx_release(&c);
	memo_release(&memo.memo);
}

/* A gated MLP of half precision, with `rest`. */
static void
look_gated(const char *rest, struct known *memo)
{
	uint64_t merged = 0, copies = 0, parts = 0, alike = 0, joined = 0;
	struct ir_module *m;
	struct ir_ctx c;
	const char *text;
	uint32_t base;

	ir_ctx_init(&c, NULL);
	text = arena_printf(&c.perm,
		"llmc-ir 1\ndim a = 64\ndim b = 32\ndim c = 16\n"
		"dim k = 96\nset join.tiles = 1\nmodel {\n"
		"  %%0 = weight name=\"x\" : bf16[a, k]\n"
		"  %%1 = weight name=\"wg\" : bf16[b, k]\n"
		"  %%2 = weight name=\"wu\" : bf16[b, k]\n"
		"  %%3 = dot %%0, %%1 over=k : bf16[a, b]\n"
		"  %%4 = dot %%0, %%2 over=k : bf16[a, b]\n"
		"  %%5 = silu %%3 : bf16[a, b]\n%s}\n", rest);
	assert_true(source_add(&c.sources, "t.ir", text, strlen(text), &base));
	m = ir_read(&c, c.sources.files.n - 1);
	assert_non_null(m);
	look(m, memo, &merged, &copies, &parts, &alike, &joined);
	ir_ctx_release(&c);
}

/*
 * Two contractions are a pair where maps of the second one read what the first
 * one makes, at the same places; what nothing else reads is handed on.
 */
static void
test_pairs(void **state)
{
	static const struct {
		const char *rest;
		uint64_t paired, handed;
	} cases[] = {
		{ "  %6 = mul %5, %4 : bf16[a, b]\n  return %6\n", 2, 1 },
		{ "  %6 = mul %4, %5 : bf16[a, b]\n  return %3, %6\n", 2, 0 },
		/* by a view, or as an operand */
		{ "  %6 = slice %3 of=b to=c at=3 : bf16[a, c]\n"
		  "  %7 = silu %6 : bf16[a, c]\n"
		  "  %8 = mul %5, %4 : bf16[a, b]\n  return %7, %8\n", 0, 0 },
		{ "  %6 = dot %5, %2 over=b : bf16[a, k]\n"
		  "  return %4, %6\n", 0, 0 }
	};
	struct known memo;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		open_memo(&memo);
		look_gated(cases[i].rest, &memo);
		assert_int_equal(memo.paired, cases[i].paired);
		assert_int_equal(memo.handed, cases[i].handed);
		memo_release(&memo.memo);
	}
}

/*
 * The sum `h` is computed again where it is asked for, since its operands are
 * fewer bytes; but not of one row, which has as many as the bias.
 */
static void
test_sizes(void **state)
{
	static const char text[] =
		"model m { dim hidden = 64, up = 128, vocab = 256, seq = 99;"
		" x = embed(tokens, vocab -> hidden) @ \"wte\";"
		" h = x + weight(hidden) @ \"b\";"
		" y = h + linear(linear(layernorm(h) @ \"n\" -> up) @ \"u\""
		" -> hidden) @ \"f\";"
		" logits = linear(layernorm(y) @ \"l\" -> vocab) @ \"o\""
		" + linear(x -> vocab) @ \"o2\";"
		" loss = cross_entropy(logits, labels); }"
		" train { batch = 1; optimizer = sgd(lr = 0.1); }";
	uint32_t base, written[2];
	struct kernels *now;
	struct known memo;
	struct ir_module *m;
	struct ir_ctx c;
	int i;

	(void)state;
	open_memo(&memo);
	ir_ctx_init(&c, NULL);
	assert_true(source_add(&c.sources, "m", text, strlen(text), &base));
	m = fe_compile(&c, 0);
	assert_non_null(m);
	for (i = 0; i < 2; i++) {
		look_again(&memo, m, &c.perm);
		now = kernels_find(m, ir_model(m), NULL, &c.perm);
		written[i] = now->top->at.at[0].outputs.n;
		m->dims.at[ir_dim_find(m, intern_str(&c.syms, "seq"))].size =
			1;
	}
	assert_int_equal(written[0], 2);
	assert_int_equal(written[1], 3);
	ir_ctx_release(&c);
	memo_release(&memo.memo);
}

static void
test_models(void **state)
{
	uint64_t merged = 0, copies = 0, parts = 0, alike = 0, joined = 0;
	uint64_t done = 0, seed, pairs = t_cases(PAIRS);
	struct known memo;

	(void)state;
	open_memo(&memo);
	for (seed = 1; done < pairs; seed++) {
		struct pair p = random_pair(seed);
		bool whole = seed % 3 == 0;
		struct ir_module *m;
		const char *text;
		struct ir_ctx c;
		uint32_t base;

		ir_ctx_init(&c, NULL);
		text = model_text(&c.perm, &p);
		assert_true(source_add(&c.sources, "model", text,
				       strlen(text), &base));
		m = fe_compile(&c, c.sources.files.n - 1);
		assert_non_null(m);
		split_joins(m, seed);
		if ((whole || plan_pin(m, plan_text(&c.perm, &p))) &&
		    pass_apply(m, whole ? "train" : "split", false) ==
		    PASS_OK) {
			look(m, &memo, &merged, &copies, &parts, &alike,
			     &joined);
			done++;
		}
		ir_ctx_release(&c);
	}
	/* each is asked for twice, and some are like another model's */
	assert_true(memo.memo.of[MEMO_TEMPLATES].at.n <
		    memo.asked / 2 - pairs);
	memo_release(&memo.memo);
	assert_true(parts > pairs);
	assert_true(alike > 0);
	assert_true(merged > 100 * pairs);
	assert_true(joined > pairs);
	assert_true(memo.launched > pairs);
	assert_true(memo.summed > 0 && memo.summed < memo.launched);
	assert_true(seed < 2 * pairs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_models)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Where talk stands among the kernels of a region, so that it can go on beside
 * them (docs/kernels.md).  On a GPU a talk begins when the kernels before it
 * are done, and a kernel waits only for talks that touch what it touches.
 *
 * A weight that is gathered comes one contraction or attention earlier than
 * program order has it: behind that it is on its way.  What adds a reduced
 * gradient to its sum comes two of them later.  A reduction begins right
 * behind who makes its operand, and a sum over rows that are gathered comes
 * behind who reads the same row by row.  Nothing else moves: gathered weights
 * nobody writes before the update, so their gather may stand anywhere; and
 * talks keep one order on all ranks, as these run the same function.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

#define BEHIND 2	/* heavy kernels that a reduction may take */

static bool
is_heavy(const struct kernel *k)
{
	return k->kind == KERNEL_CONTRACTION || k->kind == KERNEL_ATTENTION;
}

/* A collective: nothing that is put into a tensor rides on it. */
static bool
is_comm(const struct kernel *k, enum ir_op op)
{
	return k->kind == KERNEL_COLLECTIVE && k->nodes.n == k->work->coll.n &&
	       k->inputs.n == k->work->coll.n &&
	       k->outputs.n == k->work->coll.n &&
	       k->work->coll.op == op;
}

static bool
gathers_weight(const struct fuse *f, const struct kernel *k)
{
	uint32_t i;
	node_id n;

	if (!is_comm(k, IR_ALL_GATHER)) {
		return false;
	}
	for (i = 0; i < k->inputs.n; i++) {
		n = f->m->values.at[k->inputs.at[i].value].node;
		if (!n || !ir_is(ir_node(f->m, n)->op, IRF_PARAM)) {
			return false;
		}
	}
	return true;
}

static bool
reduces(const struct kernel *k)
{
	return is_comm(k, IR_REDUCE_SCATTER) || is_comm(k, IR_ALL_REDUCE);
}

/* ---- what may wait ---- */

static sym_t
name_of(const struct fuse *f, node_id id)
{
	const struct ir_attr *a = ir_attr(f->m, ir_node(f->m, id),
					  IR_ATTR_NAME);

	return a ? a->text : 0;
}

static bool
names(const struct fuse *f, const struct kernel *k, sym_t name)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		if (name_of(f, k->nodes.at[i]) == name) {
			return true;
		}
	}
	return false;
}

static bool
only_adds(const struct fuse *f, const struct kernel *k)
{
	return k->kind == KERNEL_MAP && k->nodes.n == 1 &&
	       k->inputs.n == 1 && !k->outputs.n &&
	       ir_node(f->m, k->nodes.at[0])->op == IR_ACCUMULATE;
}

/* It only adds to one sum what a talk before it brings. */
static bool
may_wait(const struct fuse *f, const struct kernel_list *l, uint32_t at)
{
	const struct kernel *k = &l->at.at[at];
	uint32_t i;

	if (!only_adds(f, k)) {
		return false;
	}
	for (i = at; i-- > 0 && l->at.at[i].kind != KERNEL_REPEAT; ) {
		if (reduces(&l->at.at[i]) &&
		    l->at.at[i].outputs.at[0].value == k->inputs.at[0].value) {
			return true;
		}
	}
	return false;
}

/* Kernels that wait, in their order, and heavy ones since. */
struct waiting {
	VEC(struct kernel) at, out;
	VEC(uint32_t) since;
	uint32_t first;
};

static void
let_go(struct fuse *f, struct waiting *w, uint32_t to)
{
	for (; w->first < to; w->first++) {
		VEC_PUSH(&f->tmp, &w->out, w->at.at[w->first]);
	}
}

/* Sums of one name keep their order; a repeat is no place to cross. */
static void
make_way(struct fuse *f, struct waiting *w, const struct kernel *k)
{
	uint32_t i;

	if (k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL) {
		let_go(f, w, w->at.n);
	}
	for (i = w->at.n; i-- > w->first; ) {
		if (names(f, k, name_of(f, w->at.at[i].nodes.at[0]))) {
			let_go(f, w, i + 1);
		}
	}
}

static void
put_off(struct fuse *f, struct kernel_list *l)
{
	struct waiting w = { .first = 0 };
	uint32_t i, k;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *x = &l->at.at[i];

		make_way(f, &w, x);
		if (may_wait(f, l, i)) {
			VEC_PUSH(&f->tmp, &w.at, *x);
			VEC_PUSH(&f->tmp, &w.since, 0);
			continue;
		}
		VEC_PUSH(&f->tmp, &w.out, *x);
		for (k = w.first; is_heavy(x) && k < w.at.n; k++) {
			w.since.at[k]++;
		}
		while (w.first < w.at.n && w.since.at[w.first] == BEHIND) {
			let_go(f, &w, w.first + 1);
		}
	}
	let_go(f, &w, w.at.n);
	memcpy(l->at.at, w.out.at, w.out.n * sizeof *w.out.at);
}

/* ---- what comes early ---- */

/* The first that reads it; a repeat may. */
static uint32_t
first_reader(const struct kernel_list *l, uint32_t at)
{
	uint32_t i;

	for (i = at + 1; i < l->at.n &&
	     !kernel_needs(&l->at.at[i], &l->at.at[at]) &&
	     l->at.at[i].kind != KERNEL_REPEAT &&
	     l->at.at[i].kind != KERNEL_CALL; i++) {
	}
	return i;
}

static void
bring_forward(const struct fuse *f, struct kernel_list *l)
{
	struct kernel k;
	uint32_t i, to;

	for (i = 0; i < l->at.n; i++) {
		if (!gathers_weight(f, &l->at.at[i])) {
			continue;
		}
		to = first_reader(l, i);
		while (to-- > 0 && !is_heavy(&l->at.at[to]) &&
		       l->at.at[to].kind != KERNEL_REPEAT &&
		       l->at.at[to].kind != KERNEL_CALL) {
		}
		if (to >= i || !is_heavy(&l->at.at[to])) {
			continue;
		}
		k = l->at.at[i];
		memmove(&l->at.at[to + 1], &l->at.at[to],
			(i - to) * sizeof k);
		l->at.at[to] = k;
	}
}

/* Whether b has to stay behind a: it reads what that makes, or adds to it. */
static bool
comes_before(const struct fuse *f, const struct kernel *a,
	     const struct kernel *b)
{
	uint32_t i;

	if (kernel_needs(b, a)) {
		return true;
	}
	for (i = 0; i < b->nodes.n; i++) {
		sym_t name = name_of(f, b->nodes.at[i]);

		if (name && names(f, a, name)) {
			return true;
		}
	}
	return false;
}

/* A contraction of which nothing is left but a sum: a weight's gradient. */
static bool
only_sums(const struct kernel *k)
{
	return k->kind == KERNEL_CONTRACTION && k->outputs.n == 0;
}

/* The next contraction that reads it too, if it may come before `at`. */
static uint32_t
next_reader(const struct fuse *f, const struct kernel_list *l, uint32_t at,
	    value_id v)
{
	uint32_t i, k;

	for (i = at + 1; i < l->at.n && l->at.at[i].kind != KERNEL_REPEAT &&
	     l->at.at[i].kind != KERNEL_CALL; i++) {
		const struct kernel *x = &l->at.at[i];

		if (x->kind != KERNEL_CONTRACTION || only_sums(x) ||
		    !kernel_reads(x, v)) {
			continue;
		}
		for (k = at; k < i && !comes_before(f, &l->at.at[k], x);
		     k++) {
		}
		return k == i ? i : 0;
	}
	return 0;
}

/*
 * A sum over rows needs all of them, and what works on each row by itself can
 * begin with the first that are gathered: it comes before.
 */
static void
sum_late(const struct fuse *f, struct kernel_list *l)
{
	struct kernel k;
	uint32_t i, to, from;

	for (i = 0; i < l->at.n; i++) {
		if (!is_comm(&l->at.at[i], IR_ALL_GATHER)) {
			continue;
		}
		to = first_reader(l, i);
		if (to >= l->at.n || !only_sums(&l->at.at[to])) {
			continue;
		}
		from = next_reader(f, l, to,
				   l->at.at[i].outputs.at[0].value);
		if (from) {
			k = l->at.at[from];
			memmove(&l->at.at[to + 1], &l->at.at[to],
				(from - to) * sizeof k);
			l->at.at[to] = k;
		}
	}
}

/* The place behind the one that makes what it talks about; 0: none here. */
static uint32_t
behind_maker(const struct kernel_list *l, uint32_t at)
{
	value_id v = l->at.at[at].inputs.at[0].value;
	uint32_t i;

	for (i = at; i-- > 0 && l->at.at[i].kind != KERNEL_REPEAT &&
	     l->at.at[i].kind != KERNEL_CALL; ) {
		if (kernel_makes(&l->at.at[i], v)) {
			return i + 1;
		}
	}
	return 0;
}

/* What is added up is on its way as soon as it is made. */
static void
reduce_early(struct kernel_list *l)
{
	struct kernel k;
	uint32_t i, to;

	for (i = 0; i < l->at.n; i++) {
		if (!reduces(&l->at.at[i])) {
			continue;
		}
		to = behind_maker(l, i);
		if (to && to < i) {
			k = l->at.at[i];
			memmove(&l->at.at[to + 1], &l->at.at[to],
				(i - to) * sizeof k);
			l->at.at[to] = k;
		}
	}
}

void
fuse_spread_coll(struct fuse *f, struct kernel_list *l)
{
	if (!f->updates && l->at.n > 0) {
		put_off(f, l);
		sum_late(f, l);
		reduce_early(l);
		bring_forward(f, l);
	}
}

void
fuse_wait_comm(struct fuse *f, struct kernel_list *l)
{
	uint32_t i, to;

	for (i = 0; i < l->at.n && !f->updates; i++) {
		struct kernel *k = &l->at.at[i];

		k->until = 0;
		if (!gathers_weight(f, k) && !reduces(k)) {
			continue;
		}
		to = first_reader(l, i);
		if (to > i + 1 && to < l->at.n) {
			k->until = to;
		}
	}
}

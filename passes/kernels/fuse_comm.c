/*
 * Where collectives stand among the kernels of a region, so that they overlap
 * with kernels (docs/kernels.md).  On a GPU a collective begins when the
 * kernels before it are done, and a kernel waits only for the collectives
 * whose operands or results it uses.
 *
 * - The gather of a weight moves before the contraction or attention that
 *   precedes its reader.  No kernel writes weights before the update, so it may
 *   stand anywhere.
 * - The addition of a reduced gradient to its sum moves after two more
 *   contractions or attentions.
 * - A reduction moves to right after the kernel that makes its operand.
 * - A contraction that sums over gathered rows moves after one that reads the
 *   same rows one by one.
 *
 * Nothing else moves.  All ranks of a group run the same function, so their
 * collectives have one order.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

#define OVERLAPPED 2	/* heavy kernels beside a reduction */

static bool
is_heavy(const struct kernel *k)
{
	return k->kind == KERNEL_CONTRACTION || k->kind == KERNEL_ATTENTION;
}

/* Whether k is collectives of that op and nothing else, not even stores. */
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
is_reduction(const struct kernel *k)
{
	return is_comm(k, IR_REDUCE_SCATTER) || is_comm(k, IR_ALL_REDUCE);
}

/* ---- sums that move to later ---- */

static sym_t
name_of(const struct fuse *f, node_id id)
{
	const struct ir_attr *a = ir_attr(f->m, ir_node(f->m, id),
					  IR_ATTR_NAME);

	return a ? a->text : 0;
}

static bool
uses_name(const struct fuse *f, const struct kernel *k, sym_t name)
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

/* Whether it only adds the result of an earlier reduction to one sum. */
static bool
may_move_later(const struct fuse *f, const struct kernel_list *l, uint32_t at)
{
	const struct kernel *k = &l->at.at[at];
	uint32_t i;

	if (!only_adds(f, k)) {
		return false;
	}
	for (i = at; i-- > 0 && l->at.at[i].kind != KERNEL_REPEAT; ) {
		if (is_reduction(&l->at.at[i]) &&
		    l->at.at[i].outputs.at[0].value == k->inputs.at[0].value) {
			return true;
		}
	}
	return false;
}

/* Kernels that move to later, in their order. */
struct delayed {
	VEC(struct kernel) at, out;
	VEC(uint32_t) since;	/* heavy kernels since each of them */
	uint32_t first;		/* that is not in `out` yet */
};

static void
place_delayed(struct fuse *f, struct delayed *w, uint32_t to)
{
	for (; w->first < to; w->first++) {
		VEC_PUSH(&f->tmp, &w->out, w->at.at[w->first]);
	}
}

/* Places those that must not move past k: a repeat, or a user of the sum. */
static void
place_before(struct fuse *f, struct delayed *w, const struct kernel *k)
{
	uint32_t i;

	if (k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL) {
		place_delayed(f, w, w->at.n);
	}
	for (i = w->at.n; i-- > w->first; ) {
		if (uses_name(f, k, name_of(f, w->at.at[i].nodes.at[0]))) {
			place_delayed(f, w, i + 1);
		}
	}
}

static void
delay_sums(struct fuse *f, struct kernel_list *l)
{
	struct delayed w = { .first = 0 };
	uint32_t i, k;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *x = &l->at.at[i];

		place_before(f, &w, x);
		if (may_move_later(f, l, i)) {
			VEC_PUSH(&f->tmp, &w.at, *x);
			VEC_PUSH(&f->tmp, &w.since, 0);
			continue;
		}
		VEC_PUSH(&f->tmp, &w.out, *x);
		for (k = w.first; is_heavy(x) && k < w.at.n; k++) {
			w.since.at[k]++;
		}
		while (w.first < w.at.n && w.since.at[w.first] == OVERLAPPED) {
			place_delayed(f, &w, w.first + 1);
		}
	}
	place_delayed(f, &w, w.at.n);
	memcpy(l->at.at, w.out.at, w.out.n * sizeof *w.out.at);
}

/* ---- collectives that move to earlier ---- */

/* The first kernel that reads its result, or a repeat, which may. */
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
gather_early(const struct fuse *f, struct kernel_list *l)
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

bool
fuse_must_follow(const struct fuse *f, const struct kernel *a,
		 const struct kernel *b)
{
	uint32_t i;

	if (kernel_needs(b, a)) {
		return true;
	}
	for (i = 0; i < b->nodes.n; i++) {
		sym_t name = name_of(f, b->nodes.at[i]);

		if (name && uses_name(f, a, name)) {
			return true;
		}
	}
	return false;
}

/* A contraction whose result goes to a sum alone: a weight's gradient. */
static bool
only_sums(const struct kernel *k)
{
	return k->kind == KERNEL_CONTRACTION && k->outputs.n == 0;
}

/* The next contraction that reads v, if it may move before `at`; or 0. */
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
		for (k = at; k < i && !fuse_must_follow(f, &l->at.at[k], x);
		     k++) {
		}
		return k == i ? i : 0;
	}
	return 0;
}

/*
 * A contraction that sums over gathered rows needs all of them; one that reads
 * them one by one can begin with the first part, so it moves before.
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

/* The place after the kernel that makes its operand; 0: none here. */
static uint32_t
place_after_maker(const struct kernel_list *l, uint32_t at)
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

/* Reductions begin as soon as their operand is made. */
static void
reduce_early(struct kernel_list *l)
{
	struct kernel k;
	uint32_t i, to;

	for (i = 0; i < l->at.n; i++) {
		if (!is_reduction(&l->at.at[i])) {
			continue;
		}
		to = place_after_maker(l, i);
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
		delay_sums(f, l);
		sum_late(f, l);
		reduce_early(l);
		gather_early(f, l);
	}
}

void
fuse_wait_comm(struct fuse *f, struct kernel_list *l)
{
	uint32_t i, to;

	for (i = 0; i < l->at.n && !f->updates; i++) {
		struct kernel *k = &l->at.at[i];

		k->until = 0;
		if (!gathers_weight(f, k) && !is_reduction(k)) {
			continue;
		}
		to = first_reader(l, i);
		if (to > i + 1 && to < l->at.n) {
			k->until = to;
		}
	}
}

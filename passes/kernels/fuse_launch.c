/*
 * Contractions of one launch.  Those that read the same left operand by the
 * same rows, or the same right operand by the same columns, and sum over the
 * same positions have tiles that differ only in which member they are of: so
 * one launch makes the tiles of all of them, one after the other, and only one
 * last wave is not full (docs/kernels.md).  Nothing is copied, and each tensor
 * stays where it is.
 *
 * It runs after fuse_comm.c has moved collectives.  Members are brought
 * together: the later one to the earlier, if no communication is between, or
 * the earlier ones to the later, over communication that runs beside kernels.
 * A contraction that may run in parts with a collective stays alone, as do
 * those that wait for one beside kernels, as for a gathered weight, and those
 * with experts.  Nothing here depends on sizes: those of which there are
 * no such kernels are launched one by one.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

/* ---- which contractions ---- */

static const struct ir_node *
dot_of(const struct fuse *f, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(f->m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_CONTRACTS)) {
			return n;
		}
	}
	return NULL;
}

static enum ir_dtype
type_of(const struct fuse *f, const struct ir_node *n, uint32_t arg)
{
	return (enum ir_dtype)ir_type(f->m, ir_args(f->m, n)[arg])->dtype;
}

/* One of matrix units, of two operands of that type. */
static bool
can_share(const struct fuse *f, const struct kernel *k)
{
	const struct ir_node *n;
	enum ir_dtype t;

	if (k->kind != KERNEL_CONTRACTION || k->launch || k->parts ||
	    k->work->coll.axes) {
		return false;
	}
	n = dot_of(f, k);
	t = n->nargs == 2 ? type_of(f, n, 0) : IR_F32;
	return (t == IR_BF16 || t == IR_F16 || t == IR_F8E4M3) &&
	       type_of(f, n, 1) == t;
}

/* Whether a factor has the same dims in both rules. */
static bool
same_factor(const struct ir_rule *a, const struct ir_rule *b, const char *name)
{
	const struct ir_factor *x = ir_rule_factor(a, name);
	const struct ir_factor *y = ir_rule_factor(b, name);

	return x && y && x->n == y->n &&
	       memcmp(x->dims, y->dims, x->n * sizeof *x->dims) == 0;
}

/* Which operands both read in the same way, bit 0: the left one. */
static uint32_t
shared_operands(const struct fuse *f, const struct kernel *a,
		const struct kernel *b)
{
	const struct ir_node *x = dot_of(f, a), *y = dot_of(f, b);
	const value_id *u = ir_args(f->m, x), *v = ir_args(f->m, y);
	struct ir_rule r, s;

	if (x->op != y->op || type_of(f, x, 0) != type_of(f, y, 0) ||
	    (u[0] != v[0] && u[1] != v[1])) {
		return 0;
	}
	ir_bind(f->m, x, &r);
	ir_bind(f->m, y, &s);
	if (!same_factor(&r, &s, "B") || !same_factor(&r, &s, "over")) {
		return 0;
	}
	return (u[0] == v[0] && same_factor(&r, &s, "M") ? 1 : 0) |
	       (u[1] == v[1] && same_factor(&r, &s, "N") ? 2 : 0);
}

/* ---- which of them in one launch ---- */

/* So many, from place `first` on. */
struct launch {
	struct fuse *f;
	struct kernel_list *l;
	const bool *alone;	/* by place: see find_alone */
	uint32_t first, n;
	uint32_t shared;	/* operands that all have, bit 0: the left */
};

static bool
has_comm(const struct kernel *k)
{
	return k->kind == KERNEL_COLLECTIVE || k->work->coll.axes;
}

/* Whether kernel `at` may move to right after the members. */
static bool
can_come(const struct launch *x, uint32_t at)
{
	const struct kernel *k = x->l->at.at;
	uint32_t i;

	for (i = x->first + x->n; i < at; i++) {
		if (has_comm(&k[i]) || fuse_must_follow(x->f, &k[i], &k[at])) {
			return false;
		}
	}
	return true;
}

/* Whether a kernel up to `at` waits for the collective at place c. */
static bool
is_awaited(const struct launch *x, uint32_t c, uint32_t at)
{
	const struct kernel *k = x->l->at.at;
	uint32_t i;

	for (i = c + 1; k[c].until && i <= at && !kernel_needs(&k[i], &k[c]);
	     i++) {
	}
	return i <= at;
}

/* Whether all members may move to right before kernel `at`. */
static bool
can_go(const struct launch *x, uint32_t at)
{
	const struct kernel *k = x->l->at.at;
	uint32_t i, j;

	for (i = x->first + x->n; i < at; i++) {
		if (has_comm(&k[i]) && (k[i].kind != KERNEL_COLLECTIVE ||
					is_awaited(x, i, at))) {
			return false;
		}
		for (j = x->first; j < x->first + x->n; j++) {
			if (fuse_must_follow(x->f, &k[j], &k[i])) {
				return false;
			}
		}
	}
	return true;
}

static void
move_one(struct kernel_list *l, uint32_t from, uint32_t to)
{
	struct kernel k = l->at.at[from], *at = l->at.at;

	if (to < from) {
		memmove(&at[to + 1], &at[to], (from - to) * sizeof k);
	} else {
		memmove(&at[from], &at[from + 1], (to - from) * sizeof k);
	}
	at[to] = k;
}

/* By place: contractions that may run in parts with a collective, and those
 * that wait for one which runs beside kernels: others would wait with them. */
static const bool *
find_alone(struct fuse *f, const struct kernel_list *l)
{
	bool *alone = arena_alloc(&f->tmp, l->at.n + 1);
	const struct kernel *k = l->at.at;
	uint32_t i, dot;

	for (i = 0; i < l->at.n; i++) {
		if (parts_pair(f->m, l, i, &dot)) {
			alone[dot] = true;
		}
		for (dot = i + 1; k[i].kind == KERNEL_COLLECTIVE &&
		     k[i].until && dot < l->at.n &&
		     !kernel_needs(&k[dot], &k[i]); dot++) {
		}
		alone[dot] |= k[i].kind == KERNEL_COLLECTIVE && k[i].until;
	}
	return alone;
}

/* Whether kernel `at`, or the one that begins the launch, stays alone. */
static bool
is_alone(struct launch *x, uint32_t at)
{
	if (!x->alone) {
		x->alone = find_alone(x->f, x->l);
	}
	return x->alone[at] || (x->n == 1 && x->alone[x->first]);
}

/* Whether kernel `at` has become a member. */
static bool
add_member(struct launch *x, uint32_t at)
{
	struct kernel *k = x->l->at.at;
	uint32_t shared, i;

	if (!can_share(x->f, &k[at])) {
		return false;
	}
	shared = shared_operands(x->f, &k[x->first], &k[at]) & x->shared;
	if (!shared || is_alone(x, at)) {
		return false;
	}
	for (i = x->first; i < x->first + x->n; i++) {
		if (fuse_must_follow(x->f, &k[i], &k[at])) {
			return false;
		}
	}
	if (can_come(x, at)) {
		move_one(x->l, at, x->first + x->n);
	} else if (can_go(x, at)) {
		for (i = 0; i < x->n; i++) {
			move_one(x->l, x->first, at - 1);
		}
		x->first = at - x->n;
	} else {
		return false;
	}
	x->shared = shared;
	x->n++;
	return true;
}

/* The members have the launch from now on. */
static void
set_launch(const struct launch *x)
{
	struct kernel *k = x->l->at.at + x->first;
	struct kernel_launch all = { .n = x->n, .by_rows = x->shared == 2 };
	uint32_t i;

	for (i = 0; i < x->n; i++) {
		all.of[i] = k[i].work;
	}
	for (i = 0; i < x->n; i++) {
		all.at = i;
		k[i].launch = arena_dup(x->l->arena, &all, sizeof all);
	}
}

static bool
ends_region(const struct kernel *k)
{
	return k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL;
}

/* All members of the launch that kernel i may begin. */
static bool
find_members(struct launch *x, uint32_t i)
{
	const struct kernel *k = x->l->at.at;
	uint32_t at;

	x->first = i;
	x->n = 1;
	x->shared = 3;
	x->alone = NULL;
	if (!can_share(x->f, &k[i])) {
		return false;
	}
	for (at = i + 1; at < x->l->at.n && !ends_region(&k[at]) &&
	     x->n < KERNEL_MAX_LAUNCH; at++) {
		if (add_member(x, at)) {
			x->alone = NULL;	/* places have changed */
		}
	}
	return x->n > 1;
}

bool
fuse_launch(struct fuse *f, struct kernel_list *l)
{
	struct launch x = { .f = f, .l = l };
	bool any = false;
	uint32_t i;

	for (i = 0; f->launches && !f->updates && i < l->at.n; i++) {
		if (find_members(&x, i)) {
			set_launch(&x);
			any = true;
			/* another kernel is here now, if these moved on */
			i -= x.first > i;
		}
	}
	return any;
}

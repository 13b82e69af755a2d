/*
 * Contractions of one launch, of three kinds.
 *
 * Those that read the same left operand by the same rows, or the same right
 * operand by the same columns, and sum over the same positions have tiles that
 * differ only in which member they are of: so one launch makes the tiles of all
 * of them, one after the other, and only one last wave is not full
 * (docs/kernels.md).
 *
 * Those whose results are added to each other, as parts of one gradient are,
 * are one contraction whose positions to sum over are those of each member, one
 * member after the other: so one launch keeps the sum in registers, and stores
 * it once.
 *
 * Two that read one left operand, the second of which has maps that read the
 * result of the first, element by element, as the gate of an MLP and what it is
 * multiplied by, have each place of both results in one tile: so one launch
 * computes the maps of what is in registers, and stores the first result only
 * where others read it.
 *
 * Nothing is copied, and each tensor stays where it is.
 *
 * It runs after fuse_comm.c has moved collectives.  Members are brought
 * together: the later one to the earlier, if no communication is between, or
 * the earlier ones to the later, over communication that runs beside kernels.
 * Those that wait for a collective beside kernels, as for a gathered weight,
 * stay alone, and so do those with experts.  So does a contraction that may run
 * in parts with a collective, but for the last one of a sum whose reduction
 * runs beside kernels anyway.  Nothing here depends on sizes: those of which
 * there are no such kernels are launched one by one.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

/* ---- which of them in one launch ---- */

enum kind {
	SUMMED,			/* they add up */
	PAIRED,			/* the second one reads the first one's */
	SHARING,		/* they share operands */
	NKINDS
};

/* Which launches a contraction is not in. */
enum alone {
	ALONE_NOT,
	ALONE_UNLESS_SUMMED,
	ALONE
};

/* So many, from place `first` on. */
struct launch {
	struct fuse *f;
	struct kernel_list *l;
	const enum alone *alone;	/* by place: see find_alone */
	uint32_t first, n;
	enum kind kind;
	/* operands that all have, bit 0: the left; and with the next one */
	uint32_t shared, next;
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
note_step(struct fuse *f, struct fuse_step step)
{
	VEC_PUSH(&f->tmp, &f->steps, step);
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

static void
move_member(struct launch *x, uint32_t from, uint32_t to)
{
	if (from != to) {
		note_step(x->f, (struct fuse_step){ FUSE_MOVES, from, to });
		move_one(x->l, from, to);
	}
}

/*
 * Of the contraction at place `dot`, which may run in parts with collective c.
 * What a sum gains by one launch, a reduction that runs beside kernels does not
 * lose, unless the plan gives the number of parts.
 */
static enum alone
alone_in_parts(const struct fuse *f, const struct kernel_list *l, uint32_t c,
	       uint32_t dot)
{
	const struct kernel *k = &l->at.at[c];

	return dot < c && k->until && !f->in_parts &&
	       !ir_attr(f->m, ir_node(f->m, k->nodes.at[0]), IR_ATTR_CHUNKS)
		? ALONE_UNLESS_SUMMED : ALONE;
}

/* By place: contractions that may run in parts with a collective, and those
 * that wait for one which runs beside kernels: others would wait with them. */
static const enum alone *
find_alone(struct fuse *f, const struct kernel_list *l)
{
	enum alone *alone = arena_alloc(&f->tmp, (l->at.n + 1) * sizeof *alone);
	const struct kernel *k = l->at.at;
	uint32_t i, dot;

	for (i = 0; i < l->at.n; i++) {
		if (parts_pair(f->m, l, i, &dot) && alone[dot] != ALONE) {
			alone[dot] = alone_in_parts(f, l, i, dot);
		}
		for (dot = i + 1; k[i].kind == KERNEL_COLLECTIVE &&
		     k[i].until && dot < l->at.n &&
		     !kernel_needs(&k[dot], &k[i]); dot++) {
		}
		if (k[i].kind == KERNEL_COLLECTIVE && k[i].until) {
			alone[dot] = ALONE;
		}
	}
	return alone;
}

static bool
stays_alone(const struct launch *x, uint32_t at)
{
	return x->alone[at] == ALONE ||
	       (x->alone[at] == ALONE_UNLESS_SUMMED && x->kind != SUMMED);
}

/* Whether kernel `at`, or the one that begins the launch, stays alone. */
static bool
is_alone(struct launch *x, uint32_t at)
{
	if (!x->alone) {
		x->alone = find_alone(x->f, x->l);
	}
	return stays_alone(x, at) || (x->n == 1 && stays_alone(x, x->first));
}

/* Whether kernel `at` adds to what the last member makes. */
static bool
continues_sum(struct launch *x, uint32_t at)
{
	const struct kernel *k = x->l->at.at;

	return fuse_adds_to(x->f, x->l->region, &k[x->first + x->n - 1],
		       x->n > 1, &k[at]) &&
	       !is_alone(x, at);
}

/* Whether kernel `at` and the one that begins the launch are a pair. */
static bool
makes_pair(struct launch *x, uint32_t at)
{
	const struct kernel *k = x->l->at.at;

	return x->n == 1 && fuse_is_pair(x->f, x->l, &k[x->first], &k[at]) &&
	       !is_alone(x, at);
}

/* Whether kernel `at` reads an operand that all members have, and nothing that
 * one of them makes. */
static bool
shares_operand(struct launch *x, uint32_t at)
{
	const struct kernel *k = x->l->at.at;
	uint32_t shared, i;

	shared = fuse_shared_operands(x->f, &k[x->first], &k[at]) & x->shared;
	if (!shared || is_alone(x, at)) {
		return false;
	}
	for (i = x->first; i < x->first + x->n; i++) {
		if (fuse_must_follow(x->f, &k[i], &k[at])) {
			return false;
		}
	}
	x->next = shared;
	return true;
}

static bool
may_join(struct launch *x, uint32_t at)
{
	switch (x->kind) {
	case SUMMED:
		return continues_sum(x, at);
	case PAIRED:
		return makes_pair(x, at);
	default:
		return shares_operand(x, at);
	}
}

/* Whether kernel `at` has become a member. */
static bool
add_member(struct launch *x, uint32_t at)
{
	struct kernel *k = x->l->at.at;
	uint32_t i;

	if (!fuse_can_share(x->f, &k[at]) || !may_join(x, at)) {
		return false;
	}
	if (can_come(x, at)) {
		move_member(x, at, x->first + x->n);
	} else if (can_go(x, at)) {
		for (i = 0; i < x->n; i++) {
			move_member(x, x->first, at - 1);
		}
		x->first = at - x->n;
	} else {
		return false;
	}
	x->shared = x->next;
	x->n++;
	return true;
}

/* The members have the launch from now on. */
static void
set_launch(struct kernel_list *l, const struct fuse_step *step)
{
	struct kernel *k = l->at.at + step->a;
	bool paired = step->does == FUSE_PAIRED;
	struct kernel_launch all = {
		.n = paired ? 2 : step->b, .sums = step->does == FUSE_SUMS,
		.paired = paired, .unread = paired ? step->b : 0,
		.by_rows = step->does == FUSE_BY_ROWS
	};
	struct kernel *of = arena_dup(l->arena, k, all.n * sizeof *k);
	uint32_t i;

	for (i = 0; i < all.n; i++) {
		all.of[i] = &of[i];
	}
	for (i = 0; i < all.n; i++) {
		all.at = i;
		k[i].launch = arena_dup(l->arena, &all, sizeof all);
	}
}

static struct fuse_step
launch_step(const struct launch *x)
{
	if (x->kind == PAIRED) {
		return (struct fuse_step){
			FUSE_PAIRED, x->first,
			fuse_unread(x->f, x->l, &x->l->at.at[x->first])
		};
	}
	return (struct fuse_step){
		x->kind == SUMMED ? FUSE_SUMS
			: x->shared == 2 ? FUSE_BY_ROWS : FUSE_BY_COLUMNS,
		x->first, x->n
	};
}

static bool
ends_region(const struct kernel *k)
{
	return k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL;
}

/* All members of the launch of that kind which kernel i may begin. */
static bool
find_members(struct launch *x, uint32_t i, enum kind kind)
{
	const struct kernel *k = x->l->at.at;
	uint32_t at;

	x->first = i;
	x->n = 1;
	x->kind = kind;
	x->shared = x->next = 3;
	x->alone = NULL;
	if (!fuse_can_share(x->f, &k[i])) {
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

void
fuse_launch(struct fuse *f, struct kernel_list *l)
{
	struct launch x = { .f = f, .l = l };
	uint32_t kind, i;

	if (!f->launches || f->updates) {
		return;
	}
	for (kind = 0; kind < NKINDS; kind++) {
		for (i = 0; i < l->at.n; i++) {
			if (!find_members(&x, i, (enum kind)kind)) {
				continue;
			}
			note_step(f, launch_step(&x));
			set_launch(l, &f->steps.at[f->steps.n - 1]);
			/* another kernel is here now, if these moved on */
			i -= x.first > i;
		}
	}
}

void
fuse_launch_again(struct kernel_list *l, const struct fuse_step *steps,
		  uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (steps[i].does == FUSE_MOVES) {
			move_one(l, steps[i].a, steps[i].b);
		} else {
			set_launch(l, &steps[i]);
		}
	}
}

/*
 * Joins collectives of one op, one group of ranks and one type of element into
 * one call, which synchronises its ranks once (docs/kernels.md).  It runs after
 * fuse_comm.c has moved collectives, since it depends on where they are.
 *
 * Which are joined follows from two numbers of the target (price_joins.c): the
 * bytes that a link moves while a collective starts, and those that memory
 * moves in that time.  Fewer bytes take less time than the start that is
 * saved.  Either the later collective moves to the earlier one, if its operand
 * is made before; or the earlier one moves to the later, over kernels that take
 * less than a start.  The first reader of one result must not wait long for the
 * other.  Sums keep their value: each is added up in the order of ranks as
 * before.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

/*
 * Of a kernel, a bit for each name and value, by its hash.  Kernels without a
 * common bit have no common name or value, which settles most comparisons.
 */
struct join_marks {
	uint64_t names, reads, makes;
	uint64_t like;		/* equal for collectives that one call can
				 * hold; 0: of no such collective */
	bool opaque;
};

struct join {
	struct fuse *f;
	struct kernel_list *l;
	struct join_marks *marks;	/* by place in the list; or NULL */
	/* bytes that take as long as a start; work 0: no kernel runs beside a
	 * collective */
	double link, work;
	/* of the current collective: it may move before all kernels from
	 * there on; blocked: but not before the previous one */
	uint32_t to;
	bool blocked;
	/* no earlier one may move to it: too much work is between */
	bool far;
};

/* Whether nothing moves past k; a receive may take long. */
static bool
is_opaque(const struct kernel *k)
{
	return k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL ||
	       (k->kind == KERNEL_COLLECTIVE && !k->work->coll.axes);
}

/* ---- what one call can hold ---- */

/* Whether k is collectives of several ranks with one operand each. */
static bool
can_join(const struct join *j, const struct kernel *k)
{
	const struct ir_module *m = j->f->m;
	int64_t ranks = 1;
	axis_id a;

	if (k->kind != KERNEL_COLLECTIVE || k->inputs.n != k->work->coll.n ||
	    (k->work->coll.op != IR_ALL_REDUCE &&
	     k->work->coll.op != IR_REDUCE_SCATTER &&
	     k->work->coll.op != IR_ALL_GATHER)) {
		return false;
	}
	for (a = 1; a < m->axes.n; a++) {
		ranks *= k->work->coll.axes >> a & 1 ? m->axes.at[a].size : 1;
	}
	return ranks > 1;
}

static uint64_t
join_key(const struct join *j, const struct kernel *k)
{
	const struct ir_module *m = j->f->m;
	const struct ir_node *n = ir_node(m, k->nodes.at[0]);

	return can_join(j, k) ? (uint64_t)k->work->coll.axes << 32 |
				(uint64_t)k->work->coll.op << 8 |
				(ir_type(m, n->result)->dtype + 1u) : 0;
}

/* ---- what must not cross ---- */

static sym_t
name_of(const struct join *j, node_id id)
{
	const struct ir_attr *a = id ? ir_attr(j->f->m, ir_node(j->f->m, id),
					       IR_ATTR_NAME) : NULL;

	return a ? a->text : 0;
}

static void
mark_names(const struct join *j, const struct kernel *k, struct join_marks *x)
{
	const struct ir_module *m = j->f->m;
	uint32_t i;
	sym_t name;

	for (i = 0; i < k->nodes.n; i++) {
		name = name_of(j, k->nodes.at[i]);
		x->names |= name ? hash_bit(name) : 0;
	}
	for (i = 0; i < k->inputs.n; i++) {
		name = name_of(j, m->values.at[k->inputs.at[i].value].node);
		x->names |= name ? hash_bit(name) : 0;
		x->reads |= hash_bit(k->inputs.at[i].value);
	}
	for (i = 0; i < k->outputs.n; i++) {
		x->makes |= hash_bit(k->outputs.at[i].value);
	}
}

static const struct join_marks *
marks(const struct join *j, const struct kernel *k)
{
	return &j->marks[k - j->l->at.at];
}

/* kernel_needs, of two in the list. */
static bool
needs(const struct join *j, const struct kernel *k, const struct kernel *maker)
{
	return (!j->marks || (marks(j, k)->reads & marks(j, maker)->makes)) &&
	       kernel_needs(k, maker);
}

/* Whether k reads or writes the tensor, sum or save of that name. */
static bool
uses_name(const struct join *j, const struct kernel *k, sym_t name)
{
	const struct ir_module *m = j->f->m;
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		if (name_of(j, k->nodes.at[i]) == name) {
			return true;
		}
	}
	for (i = 0; i < k->inputs.n; i++) {
		if (name_of(j, m->values.at[k->inputs.at[i].value].node) ==
		    name) {
			return true;
		}
	}
	return false;
}

/* Whether a collective reads or writes something by a name that k uses. */
static bool
share_name(const struct join *j, const struct kernel *coll,
	   const struct kernel *k)
{
	const struct ir_module *m = j->f->m;
	uint32_t i;
	sym_t name;

	for (i = 0; i < coll->nodes.n; i++) {
		name = name_of(j, coll->nodes.at[i]);
		if (name && uses_name(j, k, name)) {
			return true;
		}
	}
	for (i = 0; i < coll->inputs.n; i++) {
		name = name_of(j, m->values.at[coll->inputs.at[i].value].node);
		if (name && uses_name(j, k, name)) {
			return true;
		}
	}
	return false;
}

/* Whether a collective may move past the kernels [from, to). */
static bool
can_cross(const struct join *j, const struct kernel *coll, uint32_t from,
	  uint32_t to)
{
	const struct join_marks *x = marks(j, coll), *y;
	uint32_t i;

	for (i = from; i < to; i++) {
		const struct kernel *k = &j->l->at.at[i];

		y = &j->marks[i];
		if (y->opaque || needs(j, coll, k) || needs(j, k, coll) ||
		    ((x->names & y->names) && share_name(j, coll, k))) {
			return false;
		}
	}
	return true;
}

/* Whether the current one may move to `first`; called from later to earlier. */
static bool
can_come(struct join *j, const struct kernel *coll, uint32_t first)
{
	while (!j->blocked && j->to > first) {
		j->blocked = !can_cross(j, coll, j->to - 1, j->to);
		j->to -= !j->blocked;
	}
	return j->to <= first;
}

/* ---- what it costs ---- */

/*
 * Whether the kernels [from, to), without `but`, take less time than a start; a
 * contraction never does.  Without overlap (work 0) waiting for them costs
 * nothing.
 */
static bool
is_short(const struct join *j, uint32_t from, uint32_t to, uint32_t but)
{
	double bytes = 0;
	uint32_t i;

	for (i = from; i < to; i++) {
		const struct kernel *k = &j->l->at.at[i];

		if (j->marks[i].opaque || k->kind == KERNEL_CONTRACTION ||
		    k->kind == KERNEL_ATTENTION) {
			return false;
		}
		bytes += i == but ? 0 : k->kind == KERNEL_COLLECTIVE
			? k->work->coll.bytes * j->work / j->link
			: k->work->read_bytes + k->work->write_bytes;
	}
	return j->work == 0 || bytes <= j->work;
}

/* The kernel that waits for a collective. */
static uint32_t
find_reader(const struct join *j, const struct kernel *coll, uint32_t from)
{
	uint32_t i;

	for (i = from; i < j->l->at.n && !j->marks[i].opaque &&
	     !needs(j, &j->l->at.at[i], coll); i++) {
	}
	return i;
}

/*
 * Collectives run in their order, so the second waits for the first anyway.
 * The reader of the first now waits for the second, too: that is short if the
 * second is small, or if its own reader follows soon.
 */
static bool
waits_shortly(const struct join *j, uint32_t first, uint32_t second)
{
	const struct kernel *b = &j->l->at.at[second];
	uint32_t ra, rb;

	if (b->work->coll.bytes <= j->link) {
		return true;
	}
	ra = find_reader(j, &j->l->at.at[first], first + 1);
	rb = find_reader(j, b, second + 1);
	return ra >= rb || is_short(j, ra, rb, second);
}

/* Whether there is communication between the two. */
static bool
has_comm_between(const struct join *j, uint32_t first, uint32_t second)
{
	uint32_t i;

	for (i = first + 1; i < second; i++) {
		if (j->l->at.at[i].work->coll.axes) {
			return true;
		}
	}
	return false;
}

/* ---- joining ---- */

static void
add_collective(struct join *j, struct kernel *to, const struct kernel *k)
{
	struct arena *a = j->f->a;
	struct kernel_work *work = arena_dup(j->f->a, to->work,
					     sizeof *work);
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		VEC_PUSH(a, &to->nodes, k->nodes.at[i]);
	}
	for (i = 0; i < k->inputs.n; i++) {
		VEC_PUSH(a, &to->inputs, k->inputs.at[i]);
	}
	for (i = 0; i < k->outputs.n; i++) {
		VEC_PUSH(a, &to->outputs, k->outputs.at[i]);
	}
	work->read_bytes += k->work->read_bytes;
	work->write_bytes += k->work->write_bytes;
	work->flops += k->work->flops;
	work->coll.bytes += k->work->coll.bytes;
	work->coll.n += k->work->coll.n;
	to->work = work;
}

/* Makes one of two, at the place `at` of one of them. */
static void
merge_at(struct join *j, uint32_t first, uint32_t second, uint32_t at)
{
	struct kernel *k = j->l->at.at;
	uint32_t gone = at == first ? second : first, rest;
	struct kernel both = k[first];

	add_collective(j, &both, &k[second]);
	k[at] = both;
	rest = --j->l->at.n - gone;
	memmove(&k[gone], &k[gone + 1], rest * sizeof *k);
	if (j->marks) {
		j->marks[at].names |= j->marks[gone].names;
		j->marks[at].reads |= j->marks[gone].reads;
		j->marks[at].makes |= j->marks[gone].makes;
		memmove(&j->marks[gone], &j->marks[gone + 1],
			rest * sizeof *j->marks);
	}
}

/*
 * Whether the first may move to the second.  Kernels that only store its result
 * move with it, to after both.
 */
static bool
can_follow(struct join *j, uint32_t first, uint32_t second)
{
	const struct kernel *a = &j->l->at.at[first], *k;
	uint32_t i;

	j->far = j->far || !is_short(j, first + 1, second, second);
	if (j->far || needs(j, &j->l->at.at[second], a)) {
		return false;
	}
	for (i = first + 1; i < second; i++) {
		k = &j->l->at.at[i];
		if (!needs(j, k, a)) {
			if (!can_cross(j, a, i, i + 1)) {
				return false;
			}
		} else if (k->kind == KERNEL_COLLECTIVE || k->outputs.n ||
			   !can_cross(j, k, i + 1, second + 1)) {
			return false;
		}
	}
	return true;
}

struct moved_kernel {
	struct kernel k;
	struct join_marks marks;
};

static void
put_moved(struct join *j, uint32_t to, const struct moved_kernel *x)
{
	j->l->at.at[to] = x->k;
	if (j->marks) {
		j->marks[to] = x->marks;
	}
}

/* Moves those kernels after the second; returns its new place. */
static uint32_t
move_stores(struct join *j, uint32_t first, uint32_t second)
{
	struct kernel *k = j->l->at.at;
	struct moved_kernel x = { .marks = { 0 } };
	VEC(struct moved_kernel) later = { 0 };
	uint32_t i, to = first + 1;

	for (i = first + 1; i <= second; i++) {
		x.k = k[i];
		if (j->marks) {
			x.marks = j->marks[i];
		}
		if (i < second && needs(j, &k[i], &k[first])) {
			VEC_PUSH(&j->f->tmp, &later, x);
		} else {
			put_moved(j, to++, &x);
		}
	}
	for (i = 0; i < later.n; i++) {
		put_moved(j, to + i, &later.at[i]);
	}
	return to - 1;
}

/* Joins the two at the place of the first, or of the second. */
static void
join_at(struct join *j, struct fuse_step step)
{
	uint32_t second = step.b;

	if (step.does == FUSE_COMES) {
		merge_at(j, step.a, second, step.a);
	} else {
		second = move_stores(j, step.a, second);
		merge_at(j, step.a, second, second);
	}
}

/* Joins the two, at the place of one of them, if that is quicker. */
static bool
join_pair(struct join *j, uint32_t first, uint32_t second)
{
	const struct kernel *a = &j->l->at.at[first];
	const struct kernel *b = &j->l->at.at[second];
	struct fuse_step step;
	bool comes;

	if (a->work->coll.n + b->work->coll.n > KERNEL_MAX_COLLS) {
		return false;
	}
	comes = can_come(j, b, first) &&
		(b->work->coll.bytes <= j->link ||
		 !has_comm_between(j, first, second));
	if ((!comes && !can_follow(j, first, second)) ||
	    !waits_shortly(j, first, second)) {
		return false;
	}
	step = (struct fuse_step){ comes ? FUSE_COMES : FUSE_FOLLOWS, first,
				   second };
	VEC_PUSH(&j->f->tmp, &j->f->steps, step);
	join_at(j, step);
	return true;
}

/* Joins a collective with the nearest earlier one, if there is any. */
static bool
join_earlier(struct join *j, uint32_t i)
{
	uint64_t like = j->marks[i].like;
	uint32_t k;

	j->to = i;
	j->blocked = j->far = false;
	for (k = i; k-- > 0 && !j->marks[k].opaque &&
	     !(j->blocked && j->far); ) {
		if (j->marks[k].like == like && join_pair(j, k, i)) {
			return true;
		}
	}
	return false;
}

/*
 * Whether an earlier collective is like that at place i, with nothing opaque
 * between the two.
 */
static bool
has_like(const struct join *j, uint32_t i)
{
	uint64_t like = j->marks[i].like;

	while (like && i-- > 0 && !j->marks[i].opaque) {
		if (j->marks[i].like == like) {
			return true;
		}
	}
	return false;
}

/* False: no two collectives could be one call. */
static bool
find_marks(struct join *j)
{
	uint32_t n = j->l->at.n, i;
	bool any = false;

	j->marks = arena_alloc_raw(&j->f->tmp, n * sizeof *j->marks);
	for (i = 0; i < n; i++) {
		const struct kernel *k = &j->l->at.at[i];

		j->marks[i] = (struct join_marks){
			.like = join_key(j, k), .opaque = is_opaque(k)
		};
		any = any || has_like(j, i);
	}
	for (i = 0; any && i < n; i++) {
		mark_names(j, &j->l->at.at[i], &j->marks[i]);
	}
	return any;
}

void
fuse_join(struct fuse *f, struct kernel_list *l)
{
	struct join j = { .f = f, .l = l, .link = f->join_link,
			  .work = f->join_work };
	uint32_t i;

	if (!f->joins || j.link <= 0 || !find_marks(&j)) {
		return;
	}
	for (i = 0; i < l->at.n; i++) {
		if (j.marks[i].like && join_earlier(&j, i)) {
			i--;
		}
	}
}

void
fuse_join_again(struct fuse *f, struct kernel_list *l,
		const struct fuse_step *steps, uint32_t n)
{
	struct join j = { .f = f, .l = l };
	uint32_t i;

	for (i = 0; i < n; i++) {
		join_at(&j, steps[i]);
	}
}

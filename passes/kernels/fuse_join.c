/*
 * Collectives of one op, one group and one type of element that are ready
 * near each other become one call of several talks, which waits for its
 * ranks once (docs/kernels.md).  It stands behind what moves single talks,
 * since it asks where they have come to stand.
 *
 * Which, follows from two numbers of the target: the bytes that a link moves
 * while a collective starts, and those that memory moves meanwhile.  What
 * has fewer costs less than the start that is saved.  A talk comes earlier,
 * to the one before it, where its operand is there; or that one comes later,
 * over kernels that take less than a start.  Who reads of one before the
 * other's reader must not wait for much.  Sums are what they were, in the
 * order of ranks.
 */
#include "passes/kernels/fuse.h"

#include <string.h>

/*
 * What is asked of a kernel again and again.  A bit for each name and value,
 * by its hash: kernels without a bit in common have none in common, and most
 * have not.
 */
struct marks {
	uint64_t names, reads, makes;
	uint64_t like;		/* talks that may be one: the same; else 0 */
	bool opaque;
};

struct join {
	struct fuse *f;
	struct kernel_list *l;
	struct marks *marks;	/* by place in the list */
	/* bytes that take as long as a start; work 0: nothing goes on beside
	 * talk */
	double link, work;
	/* of the talk that looks for one before it: it may stand in front of
	 * all from there on, and not of the one before that */
	uint32_t to;
	bool blocked;
	/* too much is done between them, so none before that may come to it */
	bool far;
};

/* Nothing passes it: what stages send each other may be long in coming. */
static bool
is_opaque(const struct kernel *k)
{
	return k->kind == KERNEL_REPEAT || k->kind == KERNEL_CALL ||
	       (k->kind == KERNEL_COLLECTIVE && !k->work->coll.axes);
}

/* ---- what may be one call ---- */

/* A value for each talk, and along ranks of which there are several. */
static bool
may_join(const struct join *j, const struct kernel *k)
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

/* Each sums a part, or each copies one. */
static uint64_t
like(const struct join *j, const struct kernel *k)
{
	const struct ir_module *m = j->f->m;
	const struct ir_node *n = ir_node(m, k->nodes.at[0]);

	return may_join(j, k) ? (uint64_t)k->work->coll.axes << 32 |
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

static struct marks
marks_of(const struct join *j, const struct kernel *k)
{
	const struct ir_module *m = j->f->m;
	struct marks x = { .like = like(j, k), .opaque = is_opaque(k) };
	uint32_t i;
	sym_t name;

	for (i = 0; i < k->nodes.n; i++) {
		name = name_of(j, k->nodes.at[i]);
		x.names |= name ? hash_bit(name) : 0;
	}
	for (i = 0; i < k->inputs.n; i++) {
		name = name_of(j, m->values.at[k->inputs.at[i].value].node);
		x.names |= name ? hash_bit(name) : 0;
		x.reads |= hash_bit(k->inputs.at[i].value);
	}
	for (i = 0; i < k->outputs.n; i++) {
		x.makes |= hash_bit(k->outputs.at[i].value);
	}
	return x;
}

static const struct marks *
marks(const struct join *j, const struct kernel *k)
{
	return &j->marks[k - j->l->at.at];
}

/* kernel_needs, of two in the list. */
static bool
needs(const struct join *j, const struct kernel *k, const struct kernel *maker)
{
	return (marks(j, k)->reads & marks(j, maker)->makes) &&
	       kernel_needs(k, maker);
}

/* The tensor, sum or stash is read, or put somewhere. */
static bool
names(const struct join *j, const struct kernel *k, sym_t name)
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

/* Something that a talk reads or puts somewhere has a name of the kernel's. */
static bool
share_name(const struct join *j, const struct kernel *coll,
	   const struct kernel *k)
{
	const struct ir_module *m = j->f->m;
	uint32_t i;
	sym_t name;

	for (i = 0; i < coll->nodes.n; i++) {
		name = name_of(j, coll->nodes.at[i]);
		if (name && names(j, k, name)) {
			return true;
		}
	}
	for (i = 0; i < coll->inputs.n; i++) {
		name = name_of(j, m->values.at[coll->inputs.at[i].value].node);
		if (name && names(j, k, name)) {
			return true;
		}
	}
	return false;
}

/* Whether a talk may stand on the other side of all kernels between. */
static bool
may_cross(const struct join *j, const struct kernel *coll, uint32_t from,
	  uint32_t to)
{
	const struct marks *x = marks(j, coll), *y;
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

/* The same of the talk at hand; places are asked for from the last on. */
static bool
may_come(struct join *j, const struct kernel *coll, uint32_t first)
{
	while (!j->blocked && j->to > first) {
		j->blocked = !may_cross(j, coll, j->to - 1, j->to);
		j->to -= !j->blocked;
	}
	return j->to <= first;
}

/* ---- what it costs ---- */

/*
 * Whether what is done between two places, but for one, takes less than a
 * start; contractions take long.  Where nothing goes on beside talk, all else
 * has to be done anyway.
 */
static bool
is_little(const struct join *j, uint32_t from, uint32_t to, uint32_t but)
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

/* Where a talk is waited for. */
static uint32_t
reader(const struct join *j, const struct kernel *coll, uint32_t from)
{
	uint32_t i;

	for (i = from; i < j->l->at.n && !j->marks[i].opaque &&
	     !needs(j, &j->l->at.at[i], coll); i++) {
	}
	return i;
}

/*
 * Talks run in their order, so the second always waits for the first.  Who
 * reads of the first now waits for the second too: that is little if it is
 * small, or if its own reader comes soon.
 */
static bool
waits_little(const struct join *j, uint32_t first, uint32_t second)
{
	const struct kernel *b = &j->l->at.at[second];
	uint32_t ra, rb;

	if (b->work->coll.bytes <= j->link) {
		return true;
	}
	ra = reader(j, &j->l->at.at[first], first + 1);
	rb = reader(j, b, second + 1);
	return ra >= rb || is_little(j, ra, rb, second);
}

/* So do those between, if it comes before them. */
static bool
passes_comm(const struct join *j, uint32_t first, uint32_t second)
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
take(struct join *j, struct kernel *to, const struct kernel *k)
{
	struct arena *a = j->f->a;
	struct kernel_work *work = arena_dup(j->f->shared, to->work,
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

/* Makes the second part of the first, where one of them stands. */
static void
merge(struct join *j, uint32_t first, uint32_t second, uint32_t at)
{
	struct kernel *k = j->l->at.at;
	uint32_t gone = at == first ? second : first, rest;
	struct kernel both = k[first];

	take(j, &both, &k[second]);
	k[at] = both;
	j->marks[at].names |= j->marks[gone].names;
	j->marks[at].reads |= j->marks[gone].reads;
	j->marks[at].makes |= j->marks[gone].makes;
	rest = --j->l->at.n - gone;
	memmove(&k[gone], &k[gone + 1], rest * sizeof *k);
	memmove(&j->marks[gone], &j->marks[gone + 1],
		rest * sizeof *j->marks);
}

/*
 * Whether the first may come to the second.  What only puts its result into
 * a tensor comes along, to behind both.
 */
static bool
may_follow(struct join *j, uint32_t first, uint32_t second)
{
	const struct kernel *a = &j->l->at.at[first], *k;
	uint32_t i;

	j->far = j->far || !is_little(j, first + 1, second, second);
	if (j->far || needs(j, &j->l->at.at[second], a)) {
		return false;
	}
	for (i = first + 1; i < second; i++) {
		k = &j->l->at.at[i];
		if (!needs(j, k, a)) {
			if (!may_cross(j, a, i, i + 1)) {
				return false;
			}
		} else if (k->kind == KERNEL_COLLECTIVE || k->outputs.n ||
			   !may_cross(j, k, i + 1, second + 1)) {
			return false;
		}
	}
	return true;
}

/* Where the second stands, when those have come behind it. */
static uint32_t
clear_way(struct join *j, uint32_t first, uint32_t second)
{
	struct kernel *k = j->l->at.at;
	struct moved {
		struct kernel k;
		struct marks marks;
	} x;
	VEC(struct moved) later = { 0 };
	uint32_t i, to = first + 1;

	for (i = first + 1; i <= second; i++) {
		x = (struct moved){ k[i], j->marks[i] };
		if (i < second && needs(j, &k[i], &k[first])) {
			VEC_PUSH(&j->f->tmp, &later, x);
		} else {
			k[to] = x.k;
			j->marks[to++] = x.marks;
		}
	}
	for (i = 0; i < later.n; i++) {
		k[to + i] = later.at[i].k;
		j->marks[to + i] = later.at[i].marks;
	}
	return to - 1;
}

/* Both are one, where the first one stands or the second one. */
static bool
join(struct join *j, uint32_t first, uint32_t second)
{
	const struct kernel *a = &j->l->at.at[first];
	const struct kernel *b = &j->l->at.at[second];
	bool comes;

	if (a->work->coll.n + b->work->coll.n > KERNEL_MAX_COLLS) {
		return false;
	}
	comes = may_come(j, b, first) &&
		(b->work->coll.bytes <= j->link ||
		 !passes_comm(j, first, second));
	if ((!comes && !may_follow(j, first, second)) ||
	    !waits_little(j, first, second)) {
		return false;
	}
	if (comes) {
		merge(j, first, second, first);
	} else {
		second = clear_way(j, first, second);
		merge(j, first, second, second);
	}
	return true;
}

/* To the nearest one before it that takes it, if one does. */
static bool
join_back(struct join *j, uint32_t i)
{
	uint64_t like = j->marks[i].like;
	uint32_t k;

	j->to = i;
	j->blocked = j->far = false;
	for (k = i; k-- > 0 && !j->marks[k].opaque &&
	     !(j->blocked && j->far); ) {
		if (j->marks[k].like == like && join(j, k, i)) {
			return true;
		}
	}
	return false;
}

/* False: there are no two talks. */
static bool
find_marks(struct join *j)
{
	uint32_t n = j->l->at.n, colls = 0, i;

	for (i = 0; i < n; i++) {
		colls += may_join(j, &j->l->at.at[i]);
	}
	if (colls < 2) {
		return false;
	}
	j->marks = arena_alloc_raw(&j->f->tmp, n * sizeof *j->marks);
	for (i = 0; i < n; i++) {
		j->marks[i] = marks_of(j, &j->l->at.at[i]);
	}
	return true;
}

bool
fuse_join(struct fuse *f, struct kernel_list *l)
{
	struct join j = { .f = f, .l = l };
	uint32_t n = l->at.n, i;

	j.link = f->join_link;
	j.work = f->join_work;
	if (!f->joins || j.link <= 0 || !find_marks(&j)) {
		return false;
	}
	for (i = 0; i < l->at.n; i++) {
		if (j.marks[i].like && join_back(&j, i)) {
			i--;
		}
	}
	return l->at.n < n;
}

/*
 * What a box costs, for those who choose its size: instructions of its loads,
 * expressions and stores, counted in the nest that will be emitted.
 *
 * An expression counts once for each element, or less often where it does not
 * change along a vector, or is the same for both halves of a rotation, which
 * one thread has; what changes nowhere is computed before the loops and is
 * free.  A product that is only added to something is part of the addition.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <string.h>

/* Of the elements that a root stores. */
struct box_cost {
	const struct nest *n;
	const struct cu_nest *box;
	uint8_t *seen;		/* by expression: it is counted */
	uint32_t *uses;		/* by expression */
	uint64_t rows;		/* loops of a box */
	uint64_t along;		/* those along vectors, or along a row */
	uint32_t vec;		/* one of these */
	uint64_t pair;		/* a loop over two halves, or 0 */
	double lanes;
	double slots;
	int64_t loads;		/* vectors in global memory */
};

/* ---- how often ---- */

/* For each element. */
static double
how_often(const struct box_cost *c, uint64_t loops)
{
	double often = loops & c->along ? 1 : 1 / c->lanes;

	/* what depends on the half alone is known when it is compiled */
	if (!(loops & (c->rows | c->along) & ~c->pair)) {
		return 0;
	}
	return c->pair && !(loops & c->pair) ? often / 2 : often;
}

static bool
is_vector(const struct box_cost *c, nest_id place)
{
	struct nest_affine a;
	uint32_t i;

	nest_affine(c->n, place, &a);
	for (i = 0; i < a.nrest; i++) {
		if (nest_at(c->n, a.rest[i].e)->loops & c->along) {
			return false;
		}
	}
	return a.coef[c->vec] == 1;
}

/* ---- what ---- */

static int64_t
bytes_of(const struct box_cost *c, uint32_t memory)
{
	return cu_elem_bytes((enum ir_dtype)c->n->memory.at[memory].dtype);
}

/* Slots of an element's access. */
static double
access_slots(const struct box_cost *c, nest_id place, uint32_t memory)
{
	switch (c->n->memory.at[memory].where) {
	case NEST_LEAF:
		return cost_slots[COSTS_SHARED] *
		       (double)bytes_of(c, memory) / 4;
	case NEST_TABLE:
		return cost_slots[COSTS_TABLE];
	default:
		return is_vector(c, place)
			? cost_slots[COSTS_ACCESS] / c->lanes
			: cost_slots[COSTS_SINGLE];
	}
}

static double
widen_slots(const struct box_cost *c, uint32_t memory)
{
	int64_t bytes = bytes_of(c, memory);

	return bytes == 1 ? cost_slots[COSTS_WIDEN_8]
		: bytes == 2 ? cost_slots[COSTS_WIDEN] : 0;
}

static bool
is_fused(const struct box_cost *c, nest_id id)
{
	const struct nest_expr *x = nest_at(c->n, id);

	return id && x->op == NEST_MUL && x->kind == NEST_FLOAT &&
	       c->uses[id] == 1 && how_often(c, x->loops) > 0;
}

static double
function_slots(const struct nest_expr *x)
{
	static const uint8_t of[][2] = {
		{ NEST_EXP, COSTS_EXP }, { NEST_LOG, COSTS_LOG },
		{ NEST_SQRT, COSTS_SQRT }, { NEST_TANH, COSTS_TANH },
		{ NEST_SIGMOID, COSTS_SIGMOID }, { NEST_ERF, COSTS_ERF },
		{ NEST_SIN, COSTS_ROTATE }, { NEST_COS, COSTS_ROTATE },
		{ NEST_KEEPS, COSTS_KEEPS }, { NEST_SUM, COSTS_REDUCE },
		{ NEST_MOST, COSTS_REDUCE }, { NEST_LEAST, COSTS_REDUCE }
	};
	size_t i;

	for (i = 0; i < sizeof of / sizeof *of; i++) {
		if (of[i][0] == x->op) {
			return cost_slots[of[i][1]];
		}
	}
	return cost_slots[COSTS_PLAIN];
}

/* Slots of an expression that is no load, once its operands are there. */
static double
expr_slots(const struct box_cost *c, const struct nest_expr *x)
{
	switch (x->op) {
	case NEST_NUM:
	case NEST_LOOP:
	case NEST_FROM:
	case NEST_WORD:
	case NEST_CALL:
		return 0;
	case NEST_ADD:
	case NEST_SUB:
		return x->kind == NEST_FLOAT && (is_fused(c, x->a) ||
			is_fused(c, x->b)) ? 0 : cost_slots[COSTS_PLAIN];
	case NEST_MUL:
		return cost_slots[x->kind == NEST_WIDE ? COSTS_TURN
						     : COSTS_PLAIN];
	case NEST_DIV:
		return cost_slots[x->kind == NEST_INT ? COSTS_PLAIN
						      : COSTS_DIV];
	case NEST_CAST:
		return x->kind == NEST_WIDE ? 0 : cost_slots[COSTS_WIDEN];
	default:
		return function_slots(x);
	}
}

static void
count(struct box_cost *c, nest_id id)
{
	const struct nest_expr *x = nest_at(c->n, id);
	double often = how_often(c, x->loops);
	struct nest_affine a;
	uint32_t i;

	if (!id || c->seen[id]) {
		return;
	}
	c->seen[id] = 1;
	if (x->op == NEST_LOAD) {
		c->slots += often * (access_slots(c, x->a, x->ref) +
				     widen_slots(c, x->ref));
		c->loads += c->n->memory.at[x->ref].where == NEST_OPERAND &&
			    is_vector(c, x->a);
		nest_affine(c->n, x->a, &a);
		for (i = 0; i < a.nrest; i++) {
			count(c, a.rest[i].e);
		}
		return;
	}
	c->slots += often * expr_slots(c, x);
	/* each element of the row is added to what a thread has so far */
	c->slots += x->over ? cost_slots[COSTS_PLAIN] : 0;
	count(c, x->a);
	count(c, x->b);
	count(c, x->c);
}

static void
count_root(struct box_cost *c, const struct nest_root *r)
{
	double store = access_slots(c, r->place, r->memory);

	count(c, r->value);
	c->slots += store + (bytes_of(c, r->memory) < 4
			     ? cost_slots[COSTS_ROUND] : 0);
	if (r->add) {
		c->slots += store + widen_slots(c, r->memory) +
			    cost_slots[COSTS_PLAIN];
	}
}

/* ---- a box ---- */

/* Of a loop in the box. */
static int64_t
size_of(const struct box_cost *c, uint32_t loop)
{
	int box = c->n->loops.at[loop].box;

	return box >= 0 && c->box->count[box] ? c->box->count[box]
		: c->n->loops.at[loop].size;
}

/* Sets the loops of a root's elements: vectors lie along the last loop, and
 * rows that are reduced along the loops of a row. */
static void
set_loops(struct box_cost *c, const struct nest_root *r)
{
	uint32_t i;

	c->rows = r->row_mask;
	c->along = c->pair = 0;
	for (i = 1; i < c->n->exprs.n; i++) {
		c->along |= nest_at(c->n, i)->over;
	}
	for (i = 0; i < r->ninner; i++) {
		c->along |= (uint64_t)1 << r->inner[i];
	}
	if (!c->along && r->nrows) {
		c->vec = r->rows[r->nrows - 1];
		c->along = (uint64_t)1 << c->vec;
	} else {
		c->vec = r->ninner ? r->inner[r->ninner - 1] : 0;
	}
	for (i = 0; i < r->nrows && !c->pair; i++) {
		if (r->rows[i] != c->vec && size_of(c, r->rows[i]) == 2) {
			c->pair = (uint64_t)1 << r->rows[i];
		}
	}
}

static int64_t
wider(const struct box_cost *c, nest_id place, uint32_t memory, int64_t than)
{
	const struct nest_memory *m = &c->n->memory.at[memory];
	bool vector = m->where == NEST_OPERAND ? is_vector(c, place)
		: m->where == NEST_LEAF &&
		  c->box->leaves.at[m->i].bytes == 16;

	return vector && bytes_of(c, memory) > than ? bytes_of(c, memory)
						     : than;
}

/* As many elements as make 16 bytes of the widest that lie along vectors, in
 * global memory or in a leaf that is read by them. */
static double
lanes_of(const struct box_cost *c)
{
	const struct nest *n = c->n;
	int64_t widest = 2;
	uint32_t i;

	for (i = 1; i < n->exprs.n; i++) {
		if (nest_at(n, i)->op == NEST_LOAD) {
			widest = wider(c, nest_at(n, i)->a, nest_at(n, i)->ref,
				       widest);
		}
	}
	for (i = 0; i < n->roots.n; i++) {
		widest = wider(c, n->roots.at[i].place, n->roots.at[i].memory,
			       widest);
	}
	return 16 / (double)widest;
}

struct cu_nest_cost
cu_nest_cost_of(const struct cu_kernel *k, const struct cu_nest *x)
{
	const struct nest_input like = { .box = &x->space };
	/* what a nest adds to a kernel's lists goes to copies of them */
	struct cg_kernel out = *k->out;
	struct cu_kernel own = *k;
	struct box_cost c = { 0 };
	struct nest *n;
	uint32_t i;

	own.out = &out;
	n = cu_nest_build(&own, x, &like);
	if (!n) {
		return (struct cu_nest_cost){ .lanes = 1 };
	}
	c.n = n;
	c.box = x;
	c.seen = arena_alloc(k->c->a, n->exprs.n);
	c.uses = arena_alloc(k->c->a, n->exprs.n * sizeof *c.uses);
	for (i = 1; i < n->exprs.n; i++) {
		c.uses[nest_at(n, i)->a]++;
		c.uses[nest_at(n, i)->b]++;
		c.uses[nest_at(n, i)->c]++;
	}
	for (i = 0; i < n->roots.n; i++) {
		c.uses[n->roots.at[i].value]++;
	}
	for (i = 0; i < n->roots.n; i++) {
		set_loops(&c, &n->roots.at[i]);
		c.lanes = lanes_of(&c);
		count_root(&c, &n->roots.at[i]);
	}
	return (struct cu_nest_cost){ .slots = c.slots,
				      .lanes = (int64_t)c.lanes,
				      .loads = c.loads, .pair = c.pair != 0 };
}

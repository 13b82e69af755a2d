/*
 * Dependences between the nodes of a region, and merging groups without making
 * a cycle.  Nodes depend on each other by values, by tensors that are read and
 * written by name, and by communication, which keeps the order of the program
 * so that all ranks have the same.
 */
#include "passes/kernels/fuse.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WINDOW 4096	/* groups between two that may merge */

/* ---- operands ---- */

/* Where the value is made in this region, or FUSE_NOWHERE. */
static uint32_t
made_at(const struct fuse *f, value_id base)
{
	node_id id = base ? f->m->values.at[base].node : 0;

	return !id || f->home[id] != f->region ||
	       fuse_class(f, id) == FUSE_FREE ? FUSE_NOWHERE
					      : f->place[id] - 1;
}

/* Of all places; merging reads them often. */
static void
find_operands(struct fuse *f)
{
	struct fuse_operand *o;
	uint32_t i, k, n = 0;

	f->operand = arena_alloc_raw(&f->tmp, (f->n + 1) * sizeof *f->operand);
	for (i = 0; i < f->n; i++) {
		f->operand[i] = n;
		n += ir_node(f->m, f->nodes[i])->nargs;
	}
	f->operand[f->n] = n;
	f->operands = o = arena_alloc_raw(&f->tmp, n * sizeof *o);
	for (i = 0; i < f->n; i++) {
		const struct ir_node *node = ir_node(f->m, f->nodes[i]);

		for (k = 0; k < node->nargs; k++, o++) {
			o->base = fuse_base(f, ir_args(f->m, node)[k],
					    &o->moved);
			o->maker = made_at(f, o->base);
		}
	}
}

/* ---- names ---- */

enum effect_of { OF_STASH, OF_GRADIENT, OF_TENSOR };

struct effects {
	VEC(struct fuse_effect) at;
};

bool
fuse_stores(const struct ir_node *n)
{
	const struct ir_op_info *op = &ir_ops[n->op];

	return (op->flags & IRF_SINK) && !op->flops[0] &&
	       !(op->flags & (IRF_STASH | IRF_PEER));
}

/* The tensor, sum or stash that a source reads or a sink writes. */
static bool
key_of(const struct fuse *f, const struct ir_node *n, uint64_t *key)
{
	uint32_t flags = ir_ops[n->op].flags;
	const struct ir_attr *name;
	enum effect_of of;

	if (!(flags & (IRF_SOURCE | IRF_SINK)) || (flags & IRF_PEER)) {
		return false;
	}
	name = ir_attr(f->m, n, IR_ATTR_NAME);
	if (!name || ir_op_takes(n->op, IR_ATTR_RATE)) {
		return false;
	}
	of = flags & IRF_STASH ? OF_STASH
		: (flags & IRF_STORED) || fuse_stores(n) ? OF_TENSOR
		: OF_GRADIENT;
	*key = (uint64_t)name->text << 2 | of;
	return true;
}

static void
add_effect(struct fuse *f, struct effects *e, const struct ir_node *n,
	   uint32_t place)
{
	struct fuse_effect x = { .place = place };

	if (key_of(f, n, &x.key)) {
		x.writes = ir_is(n->op, IRF_SINK);
		VEC_PUSH(&f->tmp, &e->at, x);
	}
}

/* The effects of an inner region, at the place of its repeat. */
static void
add_inner(struct fuse *f, struct effects *e, region_id r, uint32_t place)
{
	uint32_t i;

	for (i = 0; i < f->m->regions.at[r].nodes.n; i++) {
		node_id id = f->m->regions.at[r].nodes.at[i];
		const struct ir_node *n = ir_node(f->m, id);

		add_effect(f, e, n, place);
		if (n->region) {
			add_inner(f, e, n->region, place);
		}
	}
}

/* A source is read at its users' places, a save made at its value's. */
static void
add_place(struct fuse *f, struct effects *e, uint32_t place)
{
	const struct ir_node *n = ir_node(f->m, f->nodes[place]);
	const struct fuse_operand *o = fuse_operand(f, place, 0);
	uint32_t i;

	if (n->region) {
		add_inner(f, e, n->region, place);
	}
	if (n->callee) {
		add_inner(f, e, f->m->funcs.at[n->callee].body, place);
	}
	if (fuse_class(f, f->nodes[place]) == FUSE_FREE) {
		if (n->nargs && ir_is(n->op, IRF_SINK) &&
		    o->maker != FUSE_NOWHERE) {
			add_effect(f, e, n, o->maker);
		}
		return;
	}
	add_effect(f, e, n, place);
	for (i = 0; i < n->nargs; i++) {
		if (o[i].base && f->m->values.at[o[i].base].node) {
			const struct ir_node *s = ir_node(f->m,
				f->m->values.at[o[i].base].node);

			if (ir_is(s->op, IRF_SOURCE)) {
				add_effect(f, e, s, place);
			}
		}
	}
}

static int
by_key(const void *x, const void *y)
{
	const struct fuse_effect *a = x, *b = y;

	return a->key != b->key ? (a->key > b->key) - (a->key < b->key)
		: a->place != b->place ? (a->place > b->place) -
					 (a->place < b->place)
		: a->writes - b->writes;
}

static void
add_pred(struct fuse *f, uint32_t place, uint32_t before)
{
	if (place != before) {
		VEC_PUSH(&f->tmp, &f->preds[place], before);
	}
}

/*
 * The order of the n effects of one name: writes follow earlier effects, and
 * what replaces a tensor also follows later reads of it, which must see the
 * value from before the step.
 */
static void
order_name(struct fuse *f, const struct fuse_effect *e, uint32_t n,
	   uint32_t *last)
{
	uint32_t i, k;

	for (i = 0; i < n; i++) {
		bool stores = (e[i].key & 3) == OF_TENSOR && e[i].writes &&
			fuse_class(f, f->nodes[e[i].place]) == FUSE_SINK;

		for (k = 0; k < n; k++) {
			if (stores && !e[k].writes) {
				add_pred(f, e[i].place, e[k].place);
				last[e[i].place] = last[e[i].place] >
					e[k].place ? last[e[i].place]
					: e[k].place;
			} else if (k < i && (e[k].writes || e[i].writes)) {
				add_pred(f, e[i].place, e[k].place);
			}
		}
	}
}

bool
fuse_is_replaced(const struct fuse *f, value_id base)
{
	const struct ir_node *n = ir_node(f->m, f->m->values.at[base].node);
	uint64_t key;
	uint32_t i;

	if (!f->replaced.n || !ir_is(n->op, IRF_SOURCE) ||
	    !key_of(f, n, &key)) {
		return false;
	}
	for (i = 0; i < f->replaced.n && f->replaced.at[i] != key; i++) {
		continue;
	}
	return i < f->replaced.n;
}

/* Names that are only read, as most are, need no order. */
static void
keep_written(struct effects *e)
{
	uint64_t written = 0;
	uint32_t i, n;

	for (i = 0; i < e->at.n; i++) {
		written |= e->at.at[i].writes ? hash_bit(e->at.at[i].key) : 0;
	}
	for (i = n = 0; i < e->at.n; i++) {
		if (written & hash_bit(e->at.at[i].key)) {
			e->at.at[n++] = e->at.at[i];
		}
	}
	e->at.n = n;
}

static void
order_names(struct fuse *f, uint32_t *last)
{
	struct effects e = { 0 };
	uint32_t i, k;

	for (i = 0; i < f->n; i++) {
		add_place(f, &e, i);
	}
	keep_written(&e);
	if (e.at.n == 0) {
		return;
	}
	qsort(e.at.at, e.at.n, sizeof *e.at.at, by_key);
	for (i = 0; i < e.at.n; i = k) {
		bool writes = false;

		for (k = i; k < e.at.n && e.at.at[k].key == e.at.at[i].key;
		     k++) {
			writes |= e.at.at[k].writes;
		}
		if (writes && (e.at.at[i].key & 3) == OF_TENSOR) {
			VEC_PUSH(&f->tmp, &f->replaced, e.at.at[i].key);
		}
		if (writes && k - i > 1) {
			order_name(f, e.at.at + i, k - i, last);
		}
	}
}

/* ---- values and communication ---- */

bool
fuse_communicates(const struct fuse *f, node_id id)
{
	const struct ir_node *n = ir_node(f->m, id);

	return ir_is(n->op, IRF_COMM | IRF_PEER) ||
	       (fuse_class(f, id) != FUSE_FREE &&
		fuse_class(f, id) != FUSE_ELEM &&
		ir_attr(f->m, n, IR_ATTR_ON));
}

/* Whether the node or one inside of it communicates. */
static bool
has_comm(const struct fuse *f, node_id id)
{
	const struct ir_node *n = ir_node(f->m, id);
	region_id r = n->callee ? f->m->funcs.at[n->callee].body : n->region;
	uint32_t i;

	if (fuse_communicates(f, id)) {
		return true;
	}
	for (i = 0; r && i < f->m->regions.at[r].nodes.n; i++) {
		if (has_comm(f, f->m->regions.at[r].nodes.at[i])) {
			return true;
		}
	}
	return false;
}

static void
add_maker(struct fuse *f, uint32_t place, uint32_t maker)
{
	if (maker != FUSE_NOWHERE) {
		add_pred(f, place, maker);
	}
}

static void
order_value(struct fuse *f, uint32_t place, value_id v)
{
	add_maker(f, place, made_at(f, fuse_base(f, v, NULL)));
}

/* A repeat depends on what its body reads of the values around it. */
static void
order_inner(struct fuse *f, uint32_t place, region_id r)
{
	uint32_t i, k;

	for (i = 0; i < f->m->regions.at[r].nodes.n; i++) {
		const struct ir_node *n =
			ir_node(f->m, f->m->regions.at[r].nodes.at[i]);

		for (k = 0; k < n->nargs; k++) {
			order_value(f, place, ir_args(f->m, n)[k]);
		}
		if (n->region) {
			order_inner(f, place, n->region);
		}
	}
	for (i = 0; i < f->m->regions.at[r].results.n; i++) {
		order_value(f, place, f->m->regions.at[r].results.at[i]);
	}
}

static void
order_values(struct fuse *f)
{
	uint32_t i, k, comm_node = UINT32_MAX;

	for (i = 0; i < f->n; i++) {
		const struct ir_node *n = ir_node(f->m, f->nodes[i]);

		if (fuse_class(f, f->nodes[i]) == FUSE_FREE) {
			continue;
		}
		for (k = 0; k < n->nargs; k++) {
			add_maker(f, i, fuse_operand(f, i, k)->maker);
		}
		if (n->region) {
			order_inner(f, i, n->region);
		}
		if (has_comm(f, f->nodes[i])) {
			if (comm_node != UINT32_MAX) {
				add_pred(f, i, comm_node);
			}
			comm_node = i;
		}
	}
}

/* ---- groups ---- */

static struct ir_type
space_of(const struct fuse *f, const struct ir_node *n)
{
	struct ir_type none = { 0 };

	return n->nresults ? *ir_type(f->m, n->result)
		: n->nargs ? *ir_type(f->m, ir_args(f->m, n)[0]) : none;
}

static void
open_group(struct fuse *f, uint32_t place)
{
	const struct ir_node *n = ir_node(f->m, f->nodes[place]);
	enum fuse_class class = fuse_class(f, f->nodes[place]);
	struct fuse_group *g = &f->groups[place];

	g->head = class == FUSE_SINK ? FUSE_ELEM : class;
	g->space = space_of(f, n);
	g->dead = class == FUSE_FREE;
	if (class == FUSE_ROW) {
		g->head = FUSE_ELEM;
		g->needs_all = f->needs_all[place] = fuse_needs_all(f, n);
		g->reduced = !g->needs_all;
		g->space = g->needs_all ? *ir_type(f->m, ir_args(f->m, n)[0])
				   : fuse_rows(f, n);
	}
	VEC_PUSH(&f->tmp, &g->places, place);
	f->group_of[place] = place;
}

/*
 * Program order, except that what replaces a tensor comes after the last node
 * that reads the old value.
 */
static void
first_order(struct fuse *f, const uint32_t *last)
{
	uint32_t i, k, *moved = arena_alloc(&f->tmp, f->n * sizeof *moved);
	uint32_t *next = arena_alloc(&f->tmp, f->n * sizeof *next);

	/* moved, next: a list, by place, of the stores that come after it */
	for (i = f->n; i-- > 0; ) {
		if (last[i] > i) {
			next[i] = moved[last[i]];
			moved[last[i]] = i + 1;
		}
	}
	for (i = 0; i < f->n; i++) {
		if (!f->groups[i].dead && last[i] <= i) {
			f->order[f->norder++] = i;
		}
		for (k = moved[i]; k; k = next[k - 1]) {
			f->order[f->norder++] = k - 1;
		}
	}
	for (i = 0; i < f->norder; i++) {
		f->groups[f->order[i]].at = i;
	}
}

/* Places, without groups. */
static void
open_places(struct fuse *f, region_id r)
{
	const struct ir_region *region = &f->m->regions.at[r];
	uint32_t i;

	arena_release(&f->tmp);
	arena_init(&f->tmp, &f->m->ctx->mem);
	f->region = r;
	f->n = region->nodes.n;
	f->nodes = region->nodes.at;
	f->group_of = arena_alloc(&f->tmp, (f->n + 1) * sizeof *f->group_of);
	f->groups = arena_alloc(&f->tmp, (f->n + 1) * sizeof *f->groups);
	f->order = arena_alloc(&f->tmp, (f->n + 1) * sizeof *f->order);
	f->norder = f->mark = 0;
	f->asked.at = NULL;
	f->asked.n = f->asked.cap = 0;
	f->terms.at = NULL;
	f->terms.n = f->terms.cap = 0;
	f->replaced.at = NULL;
	f->replaced.n = f->replaced.cap = 0;
	for (i = 0; i < f->n; i++) {
		f->place[f->nodes[i]] = i + 1;
		f->home[f->nodes[i]] = r;
	}
}

void
fuse_open_region(struct fuse *f, region_id r)
{
	uint32_t i, *last;

	open_places(f, r);
	find_operands(f);
	f->needs_all = arena_alloc(&f->tmp, f->n + 1);
	f->preds = arena_alloc(&f->tmp, (f->n + 1) * sizeof *f->preds);
	last = arena_alloc(&f->tmp, (f->n + 1) * sizeof *last);
	for (i = 0; i < f->n; i++) {
		open_group(f, i);
	}
	order_values(f);
	order_names(f, last);
	first_order(f, last);
}

/* ---- merging ---- */

/* Whether a group depends directly on one that has the mark. */
static bool
depends_on_mark(const struct fuse *f, uint32_t group, uint32_t mark)
{
	const struct fuse_group *g = &f->groups[group];
	uint32_t i, k;

	for (i = 0; i < g->places.n; i++) {
		uint32_t p = g->places.at[i];

		for (k = 0; k < f->preds[p].n; k++) {
			uint32_t before = f->group_of[f->preds[p].at[k]];

			if (before != group &&
			    f->groups[before].mark == mark) {
				return true;
			}
		}
	}
	return false;
}

/* Adds the places of one group to another's, ascending. */
static void
add_places(struct fuse *f, uint32_t from, uint32_t to)
{
	struct fuse_group *a = &f->groups[from], *b = &f->groups[to];
	uint32_t n = a->places.n + b->places.n, i = 0, k = 0;
	uint32_t *both = arena_alloc(&f->tmp, n * sizeof *both);

	for (; i + k < n; ) {
		bool first = k == b->places.n ||
			(i < a->places.n && a->places.at[i] <
					    b->places.at[k]);

		both[i + k] = first ? a->places.at[i] : b->places.at[k];
		i += first;
		k += !first;
	}
	for (i = 0; i < a->places.n; i++) {
		f->group_of[a->places.at[i]] = to;
	}
	b->places.at = both;
	b->places.n = b->places.cap = n;
	a->places.n = 0;
	a->dead = true;
}

/*
 * Groups between the two that depend on the first must come after both.  If the
 * second depends on one of them, merging would make a cycle.
 */
bool
fuse_merge(struct fuse *f, uint32_t a, uint32_t b, uint32_t *into)
{
	uint32_t lo, hi, i, at, nlater = 0, *later;

	if (f->groups[a].at > f->groups[b].at) {
		uint32_t c = a;

		a = b;
		b = c;
	}
	lo = f->groups[a].at;
	hi = f->groups[b].at;
	if (hi - lo > MAX_WINDOW) {
		return false;
	}
	f->mark++;
	/* a direct dependence of the second on the first is no cycle */
	f->groups[a].mark = f->mark;
	for (i = lo + 1; i < hi; i++) {
		if (f->order[i] != FUSE_HOLE &&
		    depends_on_mark(f, f->order[i], f->mark)) {
			f->groups[f->order[i]].mark = f->mark;
			nlater++;
		}
	}
	f->groups[a].mark = 0;
	if (nlater && depends_on_mark(f, b, f->mark)) {
		return false;
	}
	later = arena_alloc(&f->tmp, (nlater + 1) * sizeof *later);
	for (i = lo + 1, at = lo, nlater = 0; i < hi; i++) {
		if (f->order[i] == FUSE_HOLE) {
			continue;
		}
		if (f->groups[f->order[i]].mark == f->mark) {
			later[nlater++] = f->order[i];
		} else {
			f->order[at++] = f->order[i];
		}
	}
	f->order[at++] = b;
	for (i = 0; i < nlater; i++) {
		f->order[at++] = later[i];
	}
	while (at <= hi) {
		f->order[at++] = FUSE_HOLE;
	}
	for (i = lo; i < hi; i++) {
		if (f->order[i] != FUSE_HOLE) {
			f->groups[f->order[i]].at = i;
		}
	}
	add_places(f, a, b);
	*into = b;
	return true;
}

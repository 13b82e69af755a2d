/*
 * Contexts, children of contexts, and copies of modules in them.  A search
 * tries many plans on one program, each in a context of its own, which is
 * released as a whole with its errors, while the program and its context stay
 * as they are.
 */
#include "ir/ir.h"

#include <string.h>

/* ---- contexts ---- */

void
ir_ctx_init(struct ir_ctx *c, const struct mem *m)
{
	struct mem libc;

	memset(c, 0, sizeof *c);
	if (m) {
		c->mem = *m;
	} else {
		mem_init(&libc);
		mem_pool_init(&c->pool, &libc, &c->mem);
	}
	arena_init(&c->perm, &c->mem);
	arena_init(&c->tmp, &c->mem);
	intern_init(&c->syms, &c->perm);
	source_init(&c->sources, &c->perm);
	diag_init(&c->diags, &c->perm, &c->sources);
	arena_init(&c->shared, &c->mem);
	c->types = ir_types_new(&c->shared);
}

void
ir_ctx_release(struct ir_ctx *c)
{
	arena_release(&c->shared);
	arena_release(&c->tmp);
	arena_release(&c->perm);
	mem_pool_release(&c->pool);
}

static void *
copy_items(struct arena *a, const void *from, size_t bytes, size_t capacity)
{
	return bytes ? memcpy(arena_alloc_raw(a, capacity), from, bytes) : NULL;
}

/*
 * Copies an array of the parent's arena to ours, with a capacity of `times` n.
 */
#define COPY_WITH_CAPACITY(arena, v, times) \
	((v)->cap = (times) * (v)->n, \
	 (void)((v)->at = copy_items((arena), (v)->at, \
		(v)->n * sizeof *(v)->at, (v)->cap * sizeof *(v)->at)))
#define COPY_VEC(arena, v) COPY_WITH_CAPACITY(arena, v, 1)

/*
 * The texts are not copied: they live as long as the parent.  The tables have
 * capacity for more names, as most children add some.
 */
static void
copy_names(struct intern *t, struct arena *a)
{
	t->arena = a;
	COPY_WITH_CAPACITY(a, &t->text, 2);
	COPY_WITH_CAPACITY(a, &t->len, 2);
	COPY_WITH_CAPACITY(a, &t->ids.links, 2);
	t->ids.slots = arena_dup(a, t->ids.slots,
				 t->ids.nslots * sizeof *t->ids.slots);
}

static void
copy_settings(struct diags *d, const struct diags *from)
{
	memcpy(d->on, from->on, sizeof d->on);
	memcpy(d->fatal, from->fatal, sizeof d->fatal);
	d->color = from->color;
	d->format = from->format;
}

/* Sets all of a new context but its memory and its types. */
static void
inherit(struct ir_ctx *c, const struct ir_ctx *parent)
{
	arena_init(&c->perm, &c->mem);
	arena_init(&c->tmp, &c->mem);
	c->syms = parent->syms;
	copy_names(&c->syms, &c->perm);
	c->sources = parent->sources;
	c->sources.arena = &c->perm;
	COPY_VEC(&c->perm, &c->sources.files);
	diag_init(&c->diags, &c->perm, &c->sources);
	copy_settings(&c->diags, &parent->diags);
	memcpy(c->rules, parent->rules, sizeof c->rules);
	memcpy(c->formulas, parent->formulas, sizeof c->formulas);
}

void
ir_ctx_child(struct ir_ctx *c, const struct ir_ctx *parent)
{
	memset(c, 0, sizeof *c);
	c->mem = parent->mem;
	inherit(c, parent);
	c->types = parent->types;
}

void
ir_ctx_apart(struct ir_ctx *c, const struct ir_ctx *parent)
{
	struct mem libc;

	memset(c, 0, sizeof *c);
	mem_init(&libc);
	mem_pool_init(&c->pool, &libc, &c->mem);
	inherit(c, parent);
	arena_init(&c->shared, &c->mem);
	c->types = ir_types_copy(parent->types, &c->shared);
}

/* ---- modules ---- */

/* Whether each name of `of` has the same id in c. */
static bool
knows_names(const struct ir_ctx *c, const struct ir_ctx *of)
{
	uint32_t n = of->syms.text.n;

	return c->syms.text.n >= n &&
	       c->syms.text.at[n - 1] == of->syms.text.at[n - 1];
}

/* All but values, nodes and regions. */
static struct ir_module *
copy_frame(const struct ir_module *m, struct arena *a, uint32_t times)
{
	struct ir_module *to = arena_dup(a, m, sizeof *m);

	COPY_WITH_CAPACITY(a, &to->dims, times);
	COPY_WITH_CAPACITY(a, &to->axes, times);
	COPY_WITH_CAPACITY(a, &to->exprs, times);
	COPY_WITH_CAPACITY(a, &to->funcs, times);
	COPY_WITH_CAPACITY(a, &to->settings, times);
	COPY_WITH_CAPACITY(a, &to->hints, times);
	return to;
}

static struct ir_module *
copy_module(const struct ir_module *m, struct arena *a, uint32_t times)
{
	struct ir_module *to = copy_frame(m, a, times);
	region_id r;

	COPY_WITH_CAPACITY(a, &to->values, times);
	COPY_WITH_CAPACITY(a, &to->nodes, times);
	COPY_WITH_CAPACITY(a, &to->regions, times);
	COPY_WITH_CAPACITY(a, &to->args, times);
	COPY_WITH_CAPACITY(a, &to->attrs, times);
	for (r = 0; r < to->regions.n; r++) {
		COPY_VEC(a, &to->regions.at[r].nodes);
		COPY_VEC(a, &to->regions.at[r].params);
		COPY_VEC(a, &to->regions.at[r].results);
	}
	return to;
}

struct ir_module *
ir_copy_in(const struct ir_module *m, struct arena *a)
{
	return copy_module(m, a, 1);
}

/*
 * Arrays get capacity for what passes will append: memory that is not touched
 * costs nothing, and an array that grows is in memory twice.
 */
struct ir_module *
ir_copy(const struct ir_module *m, struct ir_ctx *c)
{
	struct ir_module *to;

	if (!knows_names(c, m->ctx)) {
		die("a module is copied to a context without its names");
	}
	to = copy_module(m, &c->perm, 4);
	to->ctx = c;
	return to;
}

/* ---- what functions reach ---- */

static void
reach(struct ir_reached *x, const struct ir_module *m, region_id r)
{
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i, k;

	x->region[r] = 1;
	for (i = 0; i < region->params.n; i++) {
		x->value[region->params.at[i]] = 1;
	}
	for (i = 0; i < region->nodes.n; i++) {
		node_id id = region->nodes.at[i];
		const struct ir_node *n = ir_node(m, id);

		x->node[id] = 1;
		x->nargs += n->nargs;
		for (k = 0; k < n->nresults; k++) {
			x->value[n->result + k] = 1;
		}
		if (n->region) {
			reach(x, m, n->region);
		}
	}
}

/*
 * Numbers what is reached in the order of ids, so that walks by id meet the
 * same order.
 */
static uint32_t
number(uint32_t *to, uint32_t n)
{
	uint32_t i, next = 1;

	for (i = 1; i < n; i++) {
		to[i] = to[i] ? next++ : 0;
	}
	return next;
}

void
ir_reach(const struct ir_module *m, struct arena *a, struct ir_reached *x)
{
	func_id f;

	x->node = arena_alloc(a, m->nodes.n * sizeof *x->node);
	x->value = arena_alloc(a, m->values.n * sizeof *x->value);
	x->region = arena_alloc(a, m->regions.n * sizeof *x->region);
	x->nargs = 0;
	for (f = 1; f < m->funcs.n; f++) {
		reach(x, m, m->funcs.at[f].body);
	}
	x->nnodes = number(x->node, m->nodes.n);
	x->nvalues = number(x->value, m->values.n);
	x->nregions = number(x->region, m->regions.n);
}

/* ---- a module of what is reached alone ---- */

struct module_move {
	const struct ir_module *from;
	struct ir_module *to;
	struct arena *a;	/* of `to` */
	const struct ir_reached *as;
	/* by a node's first attribute: its new index, and 1 */
	uint32_t *attrs;
};

#define ROOM_FOR(arena, v, count) \
	((v)->n = 0, (v)->cap = (count), \
	 (void)((v)->at = arena_alloc_raw((arena), (count) * sizeof *(v)->at)))

static void
move_values(struct module_move *x)
{
	const struct ir_module *m = x->from;
	const struct ir_reached *as = x->as;
	struct ir_value *to;
	value_id v;

	ROOM_FOR(x->a, &x->to->values, as->nvalues);
	to = x->to->values.at;
	for (v = 0; v < m->values.n; v++) {
		if (!v || as->value[v]) {
			*to = m->values.at[v];
			to->node = as->node[to->node];
			to->region = as->region[to->region];
			to++;
		}
	}
	x->to->values.n = as->nvalues;
}

/* Counts the attributes of reached nodes, those that nodes share once. */
static uint32_t
count_attrs(struct module_move *x)
{
	const struct ir_module *m = x->from;
	uint32_t n = 0;
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		const struct ir_node *node = ir_node(m, id);

		if (x->as->node[id] && node->nattrs &&
		    !x->attrs[node->attrs]) {
			x->attrs[node->attrs] = 1;
			n += node->nattrs;
		}
	}
	return n;
}

/* Copies a node's attributes; those that nodes share are copied once. */
static uint32_t
move_attrs(struct module_move *x, const struct ir_node *n)
{
	uint32_t *at = &x->attrs[n->attrs];

	if (!n->nattrs) {
		return 0;
	}
	if (*at == 1) {
		*at += x->to->attrs.n + 1;
		memcpy(x->to->attrs.at + x->to->attrs.n,
		       x->from->attrs.at + n->attrs,
		       n->nattrs * sizeof *x->to->attrs.at);
		x->to->attrs.n += n->nattrs;
	}
	return *at - 2;
}

static void
move_nodes(struct module_move *x)
{
	const struct ir_module *m = x->from;
	struct ir_module *to = x->to;
	uint32_t nattrs = count_attrs(x), i;
	node_id id;

	ROOM_FOR(x->a, &to->args, x->as->nargs);
	ROOM_FOR(x->a, &to->attrs, nattrs);
	ROOM_FOR(x->a, &to->nodes, x->as->nnodes);
	for (id = 0; id < m->nodes.n; id++) {
		struct ir_node *n = &to->nodes.at[to->nodes.n];
		const value_id *args = m->args.at + m->nodes.at[id].args;

		if (id && !x->as->node[id]) {
			continue;
		}
		*n = m->nodes.at[id];
		n->args = to->args.n;
		for (i = 0; i < n->nargs; i++) {
			to->args.at[to->args.n++] = x->as->value[args[i]];
		}
		n->attrs = move_attrs(x, n);
		n->result = x->as->value[n->result];
		n->region = x->as->region[n->region];
		to->nodes.n++;
	}
}

/* Copies a region's list by the new ids of its items. */
#define MOVE_LIST(x, v, names) \
	do { \
		uint32_t list_i; \
		COPY_VEC((x)->a, (v)); \
		for (list_i = 0; list_i < (v)->n; list_i++) { \
			(v)->at[list_i] = (names)[(v)->at[list_i]]; \
		} \
	} while (0)

static void
move_regions(struct module_move *x)
{
	const struct ir_module *m = x->from;
	const struct ir_reached *as = x->as;
	region_id r;
	func_id f;

	ROOM_FOR(x->a, &x->to->regions, as->nregions);
	for (r = 0; r < m->regions.n; r++) {
		struct ir_region one = m->regions.at[r];

		if (!r || as->region[r]) {
			one.owner = as->node[one.owner];
			MOVE_LIST(x, &one.nodes, as->node);
			MOVE_LIST(x, &one.params, as->value);
			MOVE_LIST(x, &one.results, as->value);
			VEC_PUSH(x->a, &x->to->regions, one);
		}
	}
	for (f = 1; f < m->funcs.n; f++) {
		struct ir_func *to = &x->to->funcs.at[f];

		to->body = as->region[to->body];
	}
}

struct ir_module *
ir_compact(const struct ir_module *m, const struct ir_reached *as,
	   struct arena *a)
{
	struct module_move x = { .from = m, .a = a, .as = as,
			    .to = copy_frame(m, a, 1) };

	x.attrs = arena_alloc(&m->ctx->tmp, m->attrs.n * sizeof *x.attrs);
	move_values(&x);
	move_nodes(&x);
	move_regions(&x);
	return x.to;
}

struct ir_module *
ir_move(struct ir_module *m, struct ir_ctx *c)
{
	struct ir_ctx *from = m->ctx;
	struct ir_reached all;
	struct ir_module *to;
	sym_t s;

	if (c == from) {
		die("a module is moved to where it is");
	}
	for (s = c->syms.text.n; s < from->syms.text.n; s++) {
		intern(&c->syms, from->syms.text.at[s],
		       from->syms.len.at[s]);
	}
	ir_reach(m, &from->tmp, &all);
	to = ir_compact(m, &all, &c->perm);
	to->ctx = c;
	ir_ctx_release(from);
	return to;
}

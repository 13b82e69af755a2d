/*
 * Copies: a context beside another, and a module in it.  A search tries many
 * plans on one program: each in a context of its own, which is released as a
 * whole, errors included, and leaves the program and its context alone.
 */
#include "ir/ir.h"

#include <string.h>

/* ---- contexts ---- */

static void *
copy_items(struct arena *a, const void *from, size_t bytes, size_t room)
{
	return bytes ? memcpy(arena_room(a, room), from, bytes) : NULL;
}

/* Of an array in the parent's arena, one in ours, with room for `times` n. */
#define COPY_WITH_ROOM(arena, v, times) \
	((v)->cap = (times) * (v)->n, \
	 (void)((v)->at = copy_items((arena), (v)->at, \
		(v)->n * sizeof *(v)->at, (v)->cap * sizeof *(v)->at)))
#define COPY_VEC(arena, v) COPY_WITH_ROOM(arena, v, 1)

/* The texts stay where they are: they live as long as the parent. */
static void
copy_names(struct intern *t, struct arena *a)
{
	t->arena = a;
	COPY_VEC(a, &t->text);
	COPY_VEC(a, &t->len);
	t->slots = arena_dup(a, t->slots, t->nslots * sizeof *t->slots);
}

static void
copy_settings(struct diags *d, const struct diags *from)
{
	memcpy(d->on, from->on, sizeof d->on);
	memcpy(d->fatal, from->fatal, sizeof d->fatal);
	d->color = from->color;
	d->format = from->format;
}

void
ir_ctx_child(struct ir_ctx *c, const struct ir_ctx *parent)
{
	memset(c, 0, sizeof *c);
	c->mem = parent->mem;
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
	c->kernels = parent->kernels;
}

/* ---- modules ---- */

/* Whether each name of the one is the same name in the other. */
static bool
knows_names(const struct ir_ctx *c, const struct ir_ctx *of)
{
	uint32_t n = of->syms.text.n;

	return c->syms.text.n >= n &&
	       c->syms.text.at[n - 1] == of->syms.text.at[n - 1];
}

static struct ir_module *
copy_module(const struct ir_module *m, struct arena *a, uint32_t times)
{
	struct ir_module *to = arena_dup(a, m, sizeof *m);
	region_id r;

	COPY_WITH_ROOM(a, &to->dims, times);
	COPY_WITH_ROOM(a, &to->axes, times);
	COPY_WITH_ROOM(a, &to->exprs, times);
	COPY_WITH_ROOM(a, &to->values, times);
	COPY_WITH_ROOM(a, &to->nodes, times);
	COPY_WITH_ROOM(a, &to->regions, times);
	COPY_WITH_ROOM(a, &to->funcs, times);
	COPY_WITH_ROOM(a, &to->args, times);
	COPY_WITH_ROOM(a, &to->attrs, times);
	COPY_WITH_ROOM(a, &to->settings, times);
	COPY_WITH_ROOM(a, &to->hints, times);
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
 * With room for what passes are about to add: it costs nothing as long as it
 * is not touched, and an array that has to grow is there twice.
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

struct ir_module *
ir_move(struct ir_module *m, struct ir_ctx *c)
{
	struct ir_ctx *from = m->ctx;
	struct ir_module *to;
	sym_t s;

	for (s = c->syms.text.n; s < from->syms.text.n; s++) {
		intern(&c->syms, from->syms.text.at[s],
		       from->syms.len.at[s]);
	}
	to = copy_module(m, &c->perm, 1);
	to->ctx = c;
	ir_ctx_release(from);
	return to;
}

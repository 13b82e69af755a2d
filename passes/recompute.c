/*
 * recompute: drops what a repeat saves for its backward, and builds it again
 * there from what is still saved.
 *
 * Needs: the backward program.  Gives: the same gradients from fewer saved
 * bytes and more computation.  Which values go is said by `recompute NAME` in
 * the model: `full` keeps only what a trip starts from, `attention` drops
 * what attention makes, `none` (the default) changes nothing.  It stands
 * behind autodiff, whose saves it takes away, and before dce, which removes
 * the saves that nobody asks for any more.
 *
 * Rebuilt values stand at the head of the backward trip, as the forward trip
 * made them; nothing is rebuilt twice in a trip.
 */
#include "passes/derive.h"

#include <string.h>

struct recompute {
	struct pass_ctx *p;
	struct ir_module *m;
	bool (*drops)(const struct ir_node *n);
	region_id *home;	/* by value of the program as it was */
	node_id *save_of;	/* by name: who saves under it */
	region_id *saver;	/* by name: where */
	uint32_t nvalues;
	/* of the pair of regions at hand */
	region_id from, to;
	value_id *map;		/* by forward value: it, in `to` */
	uint32_t nsaves;
};

static bool
drops_all(const struct ir_node *n)
{
	(void)n;
	return true;
}

static bool
drops_attention(const struct ir_node *n)
{
	return ir_is(n->op, IRF_PAIRS);
}

/* ---- what there is ---- */

static bool
is_stash(const struct ir_node *n, bool sink)
{
	return ir_is(n->op, IRF_STASH) && ir_is(n->op, IRF_SINK) == sink;
}

static sym_t
name_of(const struct ir_module *m, const struct ir_node *n)
{
	return ir_attr(m, n, IR_ATTR_NAME)->text;
}

static void
find_values(struct recompute *c)
{
	struct ir_module *m = c->m;
	region_id r;
	uint32_t i, k;

	for (r = 1; r < m->regions.n; r++) {
		const struct ir_region *region = &m->regions.at[r];

		for (i = 0; i < region->params.n; i++) {
			c->home[region->params.at[i]] = r;
		}
		for (i = 0; i < region->nodes.n; i++) {
			node_id id = region->nodes.at[i];
			const struct ir_node *n = ir_node(m, id);

			for (k = 0; k < n->nresults; k++) {
				c->home[n->result + k] = r;
			}
			if (is_stash(n, true)) {
				c->save_of[name_of(m, n)] = id;
				c->saver[name_of(m, n)] = r;
			}
		}
	}
}

/* ---- building again ---- */

/* A value of the trip that stays: it is saved, if it was not. */
static value_id
keep(struct recompute *c, value_id v)
{
	struct ir_module *m = c->m;
	struct span none = { 0, 0 };
	node_id owner = m->regions.at[c->from].owner;
	const struct ir_attr *var = ir_attr(m, ir_node(m, owner),
					    IR_ATTR_VAR);
	sym_t name = intern_str(&m->ctx->syms, arena_printf(&m->ctx->tmp,
		"keep%u.{%s}", c->nsaves++, ir_text(m->ctx, var->text)));
	struct ir_new n;

	ir_new_init(&n, IR_SAVE, none);
	ir_new_arg(&n, v);
	ir_new_text(&n, IR_ATTR_NAME, name);
	derive_sink(m, c->from, &n);
	ir_new_init(&n, IR_SAVED, none);
	ir_new_text(&n, IR_ATTR_NAME, name);
	n.types[0] = *ir_type(m, v);
	n.hint = m->values.at[v].hint;
	return derive_append(m, c->to, &n);
}

/* Whether v can be made in the backward trip without being saved. */
static bool
can_rebuild(const struct recompute *c, value_id v)
{
	node_id maker = c->m->values.at[v].node;
	const struct ir_node *n = ir_node(c->m, maker);

	return maker && !n->region && n->nresults == 1 &&
	       !ir_is(n->op, IRF_UNIQUE) &&
	       (derive_reads_again(n->op) || c->drops(n));
}

static value_id rebuild(struct recompute *c, value_id v);

static value_id
clone(struct recompute *c, value_id v)
{
	node_id maker = c->m->values.at[v].node;
	value_id args[IR_MAX_ARGS];
	uint32_t i;

	for (i = 0; i < ir_node(c->m, maker)->nargs; i++) {
		args[i] = rebuild(c, ir_args(c->m, ir_node(c->m, maker))[i]);
	}
	pass_count(c->p, "nodes rebuilt", i > 0);
	return derive_copy(c->m, c->to, maker, args);
}

/* v, a value of the forward trip or from around both, in the backward one. */
static value_id
rebuild(struct recompute *c, value_id v)
{
	if (c->home[v] != c->from) {
		return v;
	}
	if (!c->map[v]) {
		c->map[v] = can_rebuild(c, v) ? clone(c, v) : keep(c, v);
	}
	return c->map[v];
}

/* ---- one backward region ---- */

/* Saves of a trip of the outermost repeats; deeper ones are left alone. */
static bool
find_pair(struct recompute *c, region_id to)
{
	const struct ir_region *r = &c->m->regions.at[to];
	region_id body = c->m->funcs.at[ir_model(c->m)].body;
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);
		node_id owner;

		if (!is_stash(n, false)) {
			continue;
		}
		c->from = c->saver[name_of(c->m, n)];
		c->to = to;
		owner = c->from ? c->m->regions.at[c->from].owner : 0;
		return owner && c->home[ir_node(c->m, owner)->result] == body;
	}
	return false;
}

/* What was made last comes first: all of it feeds what stood there before. */
static void
move_up(struct recompute *c, uint32_t before)
{
	struct ir_region *r = &c->m->regions.at[c->to];
	node_id *order = arena_alloc(&c->m->ctx->tmp,
				     r->nodes.n * sizeof *order);
	uint32_t n = 0, i;

	for (i = 0; i < r->nodes.n; i++) {
		if (is_stash(ir_node(c->m, r->nodes.at[i]), false)) {
			order[n++] = r->nodes.at[i];
		}
	}
	for (i = before; i < r->nodes.n; i++) {
		if (!is_stash(ir_node(c->m, r->nodes.at[i]), false)) {
			order[n++] = r->nodes.at[i];
		}
	}
	for (i = 0; i < before; i++) {
		if (!is_stash(ir_node(c->m, r->nodes.at[i]), false)) {
			order[n++] = r->nodes.at[i];
		}
	}
	memcpy(r->nodes.at, order, n * sizeof *order);
}

static void
do_pair(struct recompute *c)
{
	struct arena *tmp = &c->m->ctx->tmp;
	uint32_t before = c->m->regions.at[c->to].nodes.n, i;
	VEC(value_id) gone = { 0 };
	VEC(value_id) was = { 0 };
	value_id *use;

	c->map = arena_alloc(tmp, c->nvalues * sizeof *c->map);
	for (i = 0; i < before; i++) {
		node_id id = c->m->regions.at[c->to].nodes.at[i];
		const struct ir_node *n = ir_node(c->m, id), *saver;
		value_id v;

		if (!is_stash(n, false)) {
			continue;
		}
		saver = ir_node(c->m, c->save_of[name_of(c->m, n)]);
		v = ir_args(c->m, saver)[0];
		if (can_rebuild(c, v)) {
			VEC_PUSH(tmp, &gone, n->result);
			VEC_PUSH(tmp, &was, v);
		} else {
			c->map[v] = n->result;
		}
	}
	for (i = 0; i < gone.n; i++) {
		rebuild(c, was.at[i]);
	}
	move_up(c, before);
	use = arena_alloc(tmp, c->m->values.n * sizeof *use);
	for (i = 0; i < gone.n; i++) {
		use[gone.at[i]] = c->map[was.at[i]];
	}
	ir_replace_uses(c->m, use);
	pass_count(c->p, "saves dropped", gone.n);
}

/* The last `recompute` hint of the model, or NULL. */
static const char *
wanted(const struct ir_module *m)
{
	const char *what = NULL;
	uint32_t i;

	for (i = 0; i < m->hints.n; i++) {
		if (strcmp(ir_text(m->ctx, m->hints.at[i].verb),
			   "recompute") == 0) {
			what = ir_text(m->ctx, m->hints.at[i].what);
		}
	}
	return what;
}

bool
pass_recompute(struct pass_ctx *p, struct ir_module *m)
{
	struct recompute c = { .p = p, .m = m, .nvalues = m->values.n };
	struct arena *tmp = &m->ctx->tmp;
	const char *what = wanted(m);
	uint32_t nregions = m->regions.n;
	size_t names = m->ctx->syms.text.n;
	region_id r;

	if (!what || strcmp(what, "none") == 0) {
		return true;
	}
	c.drops = strcmp(what, "full") == 0 ? drops_all : drops_attention;
	c.home = arena_alloc(tmp, c.nvalues * sizeof *c.home);
	c.save_of = arena_alloc(tmp, names * sizeof *c.save_of);
	c.saver = arena_alloc(tmp, names * sizeof *c.saver);
	find_values(&c);
	for (r = 1; r < nregions; r++) {
		if (find_pair(&c, r)) {
			do_pair(&c);
		}
	}
	return true;
}

/*
 * recompute: drops what a repeat saves for its backward, and builds it again
 * there from what is still saved.
 *
 * Needs: the backward program.  Gives: the same gradients from fewer saved
 * bytes and more computation.  Which values go is said by the plan, or else
 * by the model's hint (recompute_set.c); nothing else does.  It stands behind
 * autodiff, whose saves it takes away, and before dce, which removes the
 * saves that nobody asks for any more.
 *
 * Rebuilt values stand at the head of the backward trip, as the forward trip
 * made them; nothing is rebuilt twice in a trip.  What a value is rebuilt
 * from goes back to what is saved, or to what cannot be rebuilt: what a trip
 * starts from, and what comes out of a repeat in it.  That is then kept, so
 * a value may cost more bytes dropped than saved.  Repeats in repeats are
 * like others: what is of the outer trip is rebuilt there.
 *
 * Where the stages of the plan drop different sets, repeats are first cut
 * between them (recompute_split.c).
 */
#include "passes/derive.h"
#include "passes/recompute.h"

#include <string.h>

struct recompute {
	struct pass_ctx *p;
	struct ir_module *m;
	uint32_t nvalues, nregions;	/* of the program as it was */
	region_id body;		/* the model's */
	region_id *home;	/* by value */
	region_id *parent;	/* by region */
	region_id *back;	/* by region: where its trips run backward */
	uint32_t *before;	/* by region: nodes that it had */
	node_id *save_of;	/* by name: who saves under it */
	bool *saved, *drops;	/* by value */
	value_id *map;		/* by forward value: it, in `back` */
	uint32_t nkept;
};

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

/* What a save keeps; it has no result, so its operand says where it is. */
static value_id
kept_by(const struct recompute *c, const struct ir_node *saved)
{
	node_id id = c->save_of[name_of(c->m, saved)];

	return id ? ir_args(c->m, ir_node(c->m, id))[0] : 0;
}

static void
find_values(struct recompute *c, region_id r)
{
	const struct ir_region *region = &c->m->regions.at[r];
	uint32_t i, k;

	c->before[r] = region->nodes.n;
	for (i = 0; i < region->params.n; i++) {
		c->home[region->params.at[i]] = r;
	}
	for (i = 0; i < region->nodes.n; i++) {
		node_id id = region->nodes.at[i];
		const struct ir_node *n = ir_node(c->m, id);

		for (k = 0; k < n->nresults; k++) {
			c->home[n->result + k] = r;
		}
		if (is_stash(n, true)) {
			c->save_of[name_of(c->m, n)] = id;
		}
		if (n->region) {
			c->parent[n->region] = r;
			find_values(c, n->region);
		}
	}
}

/* Region `to` runs backward what `from` ran; so do the regions around. */
static void
pair(struct recompute *c, region_id from, region_id to)
{
	while (from && from != c->body && to && to != c->body &&
	       !c->back[from]) {
		c->back[from] = to;
		from = c->parent[from];
		to = c->parent[to];
	}
}

static void
find_saved(struct recompute *c)
{
	region_id r;
	uint32_t i;

	for (r = 1; r < c->nregions; r++) {
		const struct ir_region *region = &c->m->regions.at[r];

		for (i = 0; c->parent[r] && i < region->nodes.n; i++) {
			const struct ir_node *n =
				ir_node(c->m, region->nodes.at[i]);
			value_id v = is_stash(n, false) ? kept_by(c, n) : 0;

			if (v) {
				pair(c, c->home[v], r);
				c->saved[v] = c->back[c->home[v]] == r;
			}
		}
	}
}

/* ---- building again ---- */

/* "keep0.{j}.{i}", as autodiff names what it saves. */
static sym_t
keep_name(struct recompute *c, region_id r)
{
	struct ir_ctx *ctx = c->m->ctx;
	struct buf b;

	buf_init(&b, &ctx->tmp);
	buf_printf(&b, "keep%u", c->nkept++);
	for (; c->parent[r]; r = c->parent[r]) {
		node_id owner = c->m->regions.at[r].owner;
		const struct ir_attr *var = ir_attr(c->m, ir_node(c->m, owner),
						    IR_ATTR_VAR);

		if (var) {
			buf_printf(&b, ".{%s}", ir_text(ctx, var->text));
		}
	}
	return intern_str(&ctx->syms, buf_text(&b));
}

/* A value of the trip that stays: it is saved, if it was not. */
static value_id
keep(struct recompute *c, value_id v)
{
	struct ir_module *m = c->m;
	struct span none = { 0, 0 };
	region_id from = c->home[v];
	sym_t name = keep_name(c, from);
	struct ir_new n;

	ir_new_init(&n, IR_SAVE, none);
	ir_new_arg(&n, v);
	ir_new_text(&n, IR_ATTR_NAME, name);
	derive_sink(m, from, &n);
	ir_new_init(&n, IR_SAVED, none);
	ir_new_text(&n, IR_ATTR_NAME, name);
	n.types[0] = *ir_type(m, v);
	n.hint = m->values.at[v].hint;
	pass_count(c->p, "inputs kept", 1);
	return derive_append(m, c->back[from], &n);
}

/* Whether v can be made in the backward trip from other values. */
static bool
can_rebuild(const struct recompute *c, value_id v)
{
	node_id maker = c->m->values.at[v].node;
	const struct ir_node *n = ir_node(c->m, maker);

	return maker && !n->region && n->nresults == 1 &&
	       !ir_is(n->op, IRF_UNIQUE);
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
	return derive_copy(c->m, c->back[c->home[v]], maker, args);
}

/* v, a value of a forward trip or from around all, in the backward one. */
static value_id
rebuild(struct recompute *c, value_id v)
{
	if (!c->back[c->home[v]]) {
		return v;
	}
	if (!c->map[v]) {
		c->map[v] = can_rebuild(c, v) ? clone(c, v) : keep(c, v);
	}
	return c->map[v];
}

/* ---- the backward regions ---- */

/* What stays saved stands for itself; the rest is made anew, and used. */
static void
replace(struct recompute *c)
{
	struct arena *tmp = &c->m->ctx->tmp;
	VEC(value_id) gone = { 0 };
	VEC(value_id) was = { 0 };
	value_id *use, v;
	region_id r;
	uint32_t i;

	for (r = 1; r < c->nregions; r++) {
		for (i = 0; i < c->before[r]; i++) {
			node_id id = c->m->regions.at[r].nodes.at[i];
			const struct ir_node *n = ir_node(c->m, id);

			v = is_stash(n, false) ? kept_by(c, n) : 0;
			if (v && c->saved[v] && c->drops[v] &&
			    can_rebuild(c, v)) {
				VEC_PUSH(tmp, &gone, n->result);
				VEC_PUSH(tmp, &was, v);
			} else if (v && c->saved[v]) {
				c->map[v] = n->result;
			}
		}
	}
	for (i = 0; i < gone.n; i++) {
		rebuild(c, was.at[i]);
	}
	use = arena_alloc(tmp, c->m->values.n * sizeof *use);
	for (i = 0; i < gone.n; i++) {
		use[gone.at[i]] = c->map[was.at[i]];
	}
	pass_count(c->p, "saves dropped", gone.n);
	ir_replace_uses(c->m, use);
}

/* What was made last comes first: all of it feeds what stood there before. */
static void
move_up(struct recompute *c, region_id id)
{
	struct ir_region *r = &c->m->regions.at[id];
	node_id *order = arena_alloc(&c->m->ctx->tmp,
				     r->nodes.n * sizeof *order);
	uint32_t before = c->before[id], n = 0, i;

	if (r->nodes.n == before) {
		return;
	}
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
recompute_init(struct recompute *c, struct pass_ctx *p, struct ir_module *m)
{
	struct arena *tmp = &m->ctx->tmp;
	size_t names = m->ctx->syms.text.n;

	memset(c, 0, sizeof *c);
	c->p = p;
	c->m = m;
	c->nvalues = m->values.n;
	c->nregions = m->regions.n;
	c->body = m->funcs.at[ir_model(m)].body;
	c->home = arena_alloc(tmp, c->nvalues * sizeof *c->home);
	c->parent = arena_alloc(tmp, c->nregions * sizeof *c->parent);
	c->back = arena_alloc(tmp, c->nregions * sizeof *c->back);
	c->before = arena_alloc(tmp, c->nregions * sizeof *c->before);
	c->save_of = arena_alloc(tmp, names * sizeof *c->save_of);
	c->saved = arena_alloc(tmp, c->nvalues * sizeof *c->saved);
	c->drops = arena_alloc(tmp, c->nvalues * sizeof *c->drops);
	c->map = arena_alloc(tmp, c->nvalues * sizeof *c->map);
}

/* The repeat of the model's body that the region is of, or is in. */
static region_id
outermost(const struct recompute *c, region_id r)
{
	while (c->parent[r] && c->parent[r] != c->body) {
		r = c->parent[r];
	}
	return r;
}

/* Each set on its own, of what the repeats save that drop it. */
static bool
find_drops(struct recompute *c, const char *const *what)
{
	struct arena *tmp = &c->m->ctx->tmp;
	bool *saved = arena_alloc(tmp, c->nvalues * sizeof *saved);
	bool *done = arena_alloc(tmp, c->nregions * sizeof *done), ok = true;
	region_id r, k;
	value_id v;

	for (r = 1; r < c->nregions; r++) {
		if (!what[r] || done[r]) {
			continue;
		}
		for (k = r; k < c->nregions; k++) {
			done[k] |= what[k] && strcmp(what[k], what[r]) == 0;
		}
		for (v = 1; v < c->nvalues; v++) {
			const char *is = c->saved[v]
				? what[outermost(c, c->home[v])] : NULL;

			saved[v] = is && strcmp(is, what[r]) == 0;
		}
		ok &= recompute_set(c->m, what[r], " of its stages",
				    c->nvalues, saved, c->drops);
	}
	return ok;
}

bool
pass_recompute(struct pass_ctx *p, struct ir_module *m)
{
	const char *all, **what = NULL;
	struct recompute c;
	struct plan plan;
	region_id r;

	if (!plan_recompute(m, &all) || (!all && !plan_read(m, &plan))) {
		return false;
	}
	if (!all && !plan.recompute_of) {
		all = plan.recompute;
	}
	if (all && strcmp(all, "none") == 0) {
		return true;
	}
	if (!all && !(what = recompute_split(p, m, &plan))) {
		return false;
	}
	recompute_init(&c, p, m);
	find_values(&c, c.body);
	find_saved(&c);
	if (all ? !recompute_set(m, all, "", c.nvalues, c.saved, c.drops)
		: !find_drops(&c, what)) {
		return false;
	}
	replace(&c);
	for (r = 1; r < c.nregions; r++) {
		if (c.back[r]) {
			move_up(&c, c.back[r]);
		}
	}
	return true;
}

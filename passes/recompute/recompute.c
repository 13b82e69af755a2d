/*
 * recompute: removes saves of a repeat, and computes those values again in the
 * backward repeat from values that are still saved.
 *
 * It needs the backward program, and trades saved bytes for computation; the
 * gradients stay the same.  The plan says which values are dropped, or else the
 * model's hint (recompute_set.c).  It runs after autodiff, whose saves it
 * removes, and after place: a recomputed value has the placement of the
 * original, and the collectives that lead to it run again.  So stages can
 * recompute different values, and placement is still decided once.
 *
 * Recomputed values are at the start of the backward iteration, in forward
 * order, each once per iteration.  A recomputation starts from saved values, or
 * from values that cannot be recomputed: those an iteration starts with, and
 * results of a nested repeat.  These are then saved, too, so dropping a value
 * can cost more bytes than it frees.  In nested repeats, a value is recomputed
 * in the backward repeat of its own repeat.
 *
 * If the stages of the plan drop different sets, repeats are first cut between
 * these stages (recompute_split.c).
 */
#include "passes/derive.h"
#include "passes/recompute/recompute.h"

#include <string.h>

struct recompute {
	struct pass_ctx *p;
	struct ir_module *m;
	struct recompute_saves s;
	bool *drops;		/* by value */
	uint32_t *before;	/* by region: its nodes at first */
	value_id *map;		/* by forward value: it, in backward */
	uint32_t nkept;
};

static bool
is_saved(const struct ir_node *n)
{
	return ir_is(n->op, IRF_STASH) && !ir_is(n->op, IRF_SINK);
}

/* ---- recomputing values ---- */

/* A name for a save, "keep0.{j}.{i}", formed as in autodiff. */
static sym_t
keep_name(struct recompute *c, region_id r)
{
	struct ir_ctx *ctx = c->m->ctx;
	struct buf b;

	buf_init(&b, &ctx->tmp);
	buf_printf(&b, "keep%u", c->nkept++);
	for (; c->s.parent[r]; r = c->s.parent[r]) {
		node_id owner = c->m->regions.at[r].owner;
		const struct ir_attr *var = ir_attr(c->m, ir_node(c->m, owner),
						    IR_ATTR_VAR);

		if (var) {
			buf_printf(&b, ".{%s}", ir_text(ctx, var->text));
		}
	}
	return intern_str(&ctx->syms, buf_text(&b));
}

/* Saves v and returns the `saved` of it in the backward region. */
static value_id
keep(struct recompute *c, value_id v)
{
	struct ir_module *m = c->m;
	struct span none = { 0, 0 };
	region_id from = c->s.home[v];
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
	return derive_append(m, c->s.back[from], &n);
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
	return ir_append_like(c->m, c->s.back[c->s.home[v]], maker, args);
}

/* Returns v in the backward region; v itself if it is outside of repeats. */
static value_id
rebuild(struct recompute *c, value_id v)
{
	if (!c->s.back[c->s.home[v]]) {
		return v;
	}
	if (!c->map[v]) {
		c->map[v] = recompute_can(c->s.m, v) ? clone(c, v) : keep(c, v);
	}
	return c->map[v];
}

/* ---- the backward regions ---- */

/* Replaces the reads of dropped saves by recomputed values. */
static void
replace(struct recompute *c)
{
	struct arena *tmp = &c->m->ctx->tmp;
	VEC(value_id) gone = { 0 };
	VEC(value_id) was = { 0 };
	value_id *use, v;
	region_id r;
	uint32_t i;

	for (r = 1; r < c->s.nregions; r++) {
		for (i = 0; i < c->before[r]; i++) {
			node_id id = c->m->regions.at[r].nodes.at[i];
			const struct ir_node *n = ir_node(c->m, id);

			v = is_saved(n) ? recompute_kept(&c->s, n) : 0;
			if (v && c->s.saved[v] && c->drops[v] &&
			    recompute_can(c->s.m, v)) {
				VEC_PUSH(tmp, &gone, n->result);
				VEC_PUSH(tmp, &was, v);
			} else if (v && c->s.saved[v]) {
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

/* Moves `saved`, then new nodes, to the start: older nodes use them. */
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
		if (is_saved(ir_node(c->m, r->nodes.at[i]))) {
			order[n++] = r->nodes.at[i];
		}
	}
	for (i = before; i < r->nodes.n; i++) {
		if (!is_saved(ir_node(c->m, r->nodes.at[i]))) {
			order[n++] = r->nodes.at[i];
		}
	}
	for (i = 0; i < before; i++) {
		if (!is_saved(ir_node(c->m, r->nodes.at[i]))) {
			order[n++] = r->nodes.at[i];
		}
	}
	memcpy(r->nodes.at, order, n * sizeof *order);
}

static void
recompute_init(struct recompute *c, struct pass_ctx *p, struct ir_module *m)
{
	struct arena *tmp = &m->ctx->tmp;
	region_id r;

	memset(c, 0, sizeof *c);
	c->p = p;
	c->m = m;
	recompute_find(m, &c->s);
	c->before = arena_alloc(tmp, c->s.nregions * sizeof *c->before);
	for (r = 1; r < c->s.nregions; r++) {
		c->before[r] = m->regions.at[r].nodes.n;
	}
	c->drops = arena_alloc(tmp, c->s.nvalues * sizeof *c->drops);
	c->map = arena_alloc(tmp, c->s.nvalues * sizeof *c->map);
}

/* Applies each set only to the saves of the repeats that drop it. */
static bool
find_drops(struct recompute *c, const char *const *what)
{
	struct arena *tmp = &c->m->ctx->tmp;
	bool *saved = arena_alloc(tmp, c->s.nvalues * sizeof *saved);
	bool *done = arena_alloc(tmp, c->s.nregions * sizeof *done), ok = true;
	region_id r, k;
	value_id v;

	for (r = 1; r < c->s.nregions; r++) {
		if (!what[r] || done[r]) {
			continue;
		}
		for (k = r; k < c->s.nregions; k++) {
			done[k] |= what[k] && strcmp(what[k], what[r]) == 0;
		}
		for (v = 1; v < c->s.nvalues; v++) {
			const char *is = c->s.saved[v]
				? what[recompute_block(&c->s, v)] : NULL;

			saved[v] = is && strcmp(is, what[r]) == 0;
		}
		ok &= recompute_set(c->m, what[r], c->s.nvalues, c->s.saved,
				    saved, c->drops);
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
	if (all ? !recompute_set(m, all, c.s.nvalues, c.s.saved, c.s.saved,
				 c.drops)
		: !find_drops(&c, what)) {
		return false;
	}
	replace(&c);
	for (r = 1; r < c.s.nregions; r++) {
		if (c.s.back[r]) {
			move_up(&c, c.s.back[r]);
		}
	}
	return pass_dce(p, m);	/* removes saves not read any more */
}

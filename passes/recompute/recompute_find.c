/*
 * Finds the values that repeats save for backward and which of them can be
 * recomputed.  The program itself tells which regions belong together: if a
 * region's `saved` reads what a repeat's body saves, it is the backward of that
 * body, and so on for the regions around both.
 */
#include "passes/recompute/recompute.h"

static sym_t
name_of(const struct ir_module *m, const struct ir_node *n)
{
	return ir_attr(m, n, IR_ATTR_NAME)->text;
}

/* A save has no result, so the value is its operand. */
value_id
recompute_kept(const struct recompute_saves *s, const struct ir_node *saved)
{
	node_id id = s->save_of[name_of(s->m, saved)];

	return id ? ir_args(s->m, ir_node(s->m, id))[0] : 0;
}

static void
find_values(struct recompute_saves *s, region_id r)
{
	const struct ir_region *region = &s->m->regions.at[r];
	uint32_t i, k;

	for (i = 0; i < region->params.n; i++) {
		s->home[region->params.at[i]] = r;
	}
	for (i = 0; i < region->nodes.n; i++) {
		node_id id = region->nodes.at[i];
		const struct ir_node *n = ir_node(s->m, id);

		for (k = 0; k < n->nresults; k++) {
			s->home[n->result + k] = r;
		}
		if (ir_is(n->op, IRF_STASH) && ir_is(n->op, IRF_SINK)) {
			s->save_of[name_of(s->m, n)] = id;
		}
		if (n->region) {
			s->parent[n->region] = r;
			find_values(s, n->region);
		}
	}
}

/* Records `to` as the backward of `from`, and so for enclosing regions. */
static void
pair(struct recompute_saves *s, region_id from, region_id to)
{
	while (from && from != s->body && to && to != s->body &&
	       !s->back[from]) {
		s->back[from] = to;
		from = s->parent[from];
		to = s->parent[to];
	}
}

static void
find_saved(struct recompute_saves *s)
{
	region_id r;
	uint32_t i;

	for (r = 1; r < s->nregions; r++) {
		const struct ir_region *region = &s->m->regions.at[r];

		for (i = 0; s->parent[r] && i < region->nodes.n; i++) {
			const struct ir_node *n =
				ir_node(s->m, region->nodes.at[i]);
			value_id v = ir_is(n->op, IRF_STASH) &&
				     !ir_is(n->op, IRF_SINK)
				? recompute_kept(s, n) : 0;

			if (v) {
				pair(s, s->home[v], r);
				s->saved[v] = s->back[s->home[v]] == r;
			}
		}
	}
}

bool
recompute_can(const struct ir_module *m, value_id v)
{
	node_id maker = m->values.at[v].node;
	const struct ir_node *n = ir_node(m, maker);

	return maker && !n->region && n->nresults == 1 &&
	       !ir_is(n->op, IRF_UNIQUE);
}

value_id
recompute_root(const struct ir_module *m, value_id v)
{
	node_id n = m->values.at[v].node;

	while (n && ir_is(ir_node(m, n)->op, IRF_CONVERTS)) {
		v = ir_args(m, ir_node(m, n))[0];
		n = m->values.at[v].node;
	}
	return v;
}

region_id
recompute_block(const struct recompute_saves *s, value_id v)
{
	region_id r = s->home[v];

	while (s->parent[r] && s->parent[r] != s->body) {
		r = s->parent[r];
	}
	return r;
}

void
recompute_find(struct ir_module *m, struct recompute_saves *s)
{
	struct arena *tmp = &m->ctx->tmp;
	size_t names = m->ctx->syms.text.n;

	s->m = m;
	s->nvalues = m->values.n;
	s->nregions = m->regions.n;
	s->body = m->funcs.at[ir_model(m)].body;
	s->home = arena_alloc(tmp, s->nvalues * sizeof *s->home);
	s->parent = arena_alloc(tmp, s->nregions * sizeof *s->parent);
	s->back = arena_alloc(tmp, s->nregions * sizeof *s->back);
	s->save_of = arena_alloc(tmp, names * sizeof *s->save_of);
	s->saved = arena_alloc(tmp, s->nvalues * sizeof *s->saved);
	find_values(s, s->body);
	find_saved(s);
}

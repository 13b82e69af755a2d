/*
 * dce: removes what nothing uses: nodes, carried values of repeats, whole
 * repeats, and layers that the model does not reach.  A carried value stays if
 * its result is used after the repeat, or if its value at the start of an
 * iteration is used by something that stays.  Inputs of the model always stay,
 * since its caller passes them.  Sinks stay, too, except a `save` whose value
 * no `saved` reads; and communication between stages, in which others wait.
 *
 * It needs no property and kills none.  It runs after other passes, to remove
 * what they leave unused.  It starts with every value dead and marks from
 * results and sinks, so one run finds everything.
 */
#include "passes/pass.h"

#include <string.h>

struct moved {
	value_id from, to;
};

struct stash {
	node_id node;
	uint32_t next;		/* same name; index + 1 */
};

struct dce {
	struct ir_module *m;
	struct arena *a;
	axis_id pp;		/* of the pipeline; 0: none */
	bool *live;		/* by value */
	bool *kept;		/* by node: a sink that stays */
	value_id *todo;		/* live values not visited yet */
	uint32_t ntodo;
	VEC(struct stash) stashes;	/* not known to be read */
	uint32_t *stash;	/* by name: last one, index + 1 */
	VEC(struct moved) moved;
	int64_t nodes, carried;
};

static inline void
mark(struct dce *d, value_id v)
{
	d->todo[d->ntodo] = v;
	d->ntodo += !d->live[v];
	d->live[v] = true;
}

static inline void
mark_all(struct dce *d, const value_id *v, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		mark(d, v[i]);
	}
}

/* Marks the sources of carried value k: its start and its next value. */
static void
mark_carried(struct dce *d, const struct ir_node *repeat, uint32_t k)
{
	mark(d, ir_args(d->m, repeat)[k]);
	mark(d, d->m->regions.at[repeat->region].results.at[k]);
}

/* Marks the stashes whose name `source` reads, in any function. */
static void
mark_stashes(struct dce *d, const struct ir_node *source)
{
	const struct ir_module *m = d->m;
	sym_t name = ir_attr(m, source, IR_ATTR_NAME)->text;
	uint32_t i = d->stash[name];

	for (d->stash[name] = 0; i; i = d->stashes.at[i - 1].next) {
		node_id id = d->stashes.at[i - 1].node;

		d->kept[id] = true;
		mark_all(d, ir_args(m, ir_node(m, id)), ir_node(m, id)->nargs);
	}
}

static void
mark_sources(struct dce *d)
{
	const struct ir_module *m = d->m;

	while (d->ntodo) {
		const struct ir_value *v =
			&m->values.at[d->todo[--d->ntodo]];
		node_id owner = v->node ? 0 : m->regions.at[v->region].owner;
		const struct ir_node *n = ir_node(m, v->node);

		if (owner) {
			mark_carried(d, ir_node(m, owner), v->index);
		} else if (v->node && ir_is(n->op, IRF_REGION)) {
			mark_carried(d, n, v->index);
		} else if (v->node && ir_is(n->op, IRF_STASH)) {
			mark_stashes(d, n);
		} else if (v->node) {
			mark_all(d, ir_args(m, n), n->nargs);
		}
	}
}

/*
 * Whether ranks of other pipeline stages wait in the node, as in the sum of the
 * norm, to which a stage without trained weights adds nothing.
 */
static bool
crosses_pipeline(const struct dce *d, const struct ir_node *n)
{
	const struct ir_attr *on = ir_is(n->op, IRF_COMM)
		? ir_attr(d->m, n, IR_ATTR_ON) : NULL;
	uint32_t i;

	for (i = 0; d->pp && on && i < on->ndims; i++) {
		if (on->dims[i] == d->pp) {
			return true;
		}
	}
	return false;
}

/* Marks the sinks: the effects of a program beside its results. */
static void
mark_sinks(struct dce *d, region_id id)
{
	const struct ir_region *r = &d->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(d->m, r->nodes.at[i]);

		if (n->region) {
			mark_sinks(d, n->region);
		} else if (crosses_pipeline(d, n)) {
			mark(d, n->result);
		} else if (ir_is(n->op, IRF_SINK) && ir_is(n->op, IRF_STASH)) {
			sym_t name = ir_attr(d->m, n, IR_ATTR_NAME)->text;
			struct stash s = { r->nodes.at[i], d->stash[name] };

			VEC_PUSH(d->a, &d->stashes, s);
			d->stash[name] = d->stashes.n;
		} else if (ir_is(n->op, IRF_SINK)) {
			d->kept[r->nodes.at[i]] = true;
			mark_all(d, ir_args(d->m, n), n->nargs);
		}
	}
}

static void
mark_func(struct dce *d, const struct ir_func *f)
{
	const struct ir_region *body = &d->m->regions.at[f->body];
	uint32_t i;

	mark_sinks(d, f->body);
	mark_all(d, body->results.at, body->results.n);
	for (i = 0; f->is_model && i < body->nodes.n; i++) {
		const struct ir_node *n = ir_node(d->m, body->nodes.at[i]);

		if (ir_is(n->op, IRF_UNIQUE) && n->nresults) {
			mark(d, n->result);
		}
	}
}

/* Gives a repeat new results: those with keep[k]. */
static void
renumber_results(struct dce *d, struct ir_node *n, const bool *keep)
{
	struct ir_module *m = d->m;
	value_id first = m->values.n;
	uint32_t i, k = 0;

	for (i = 0; i < n->nresults; i++) {
		struct ir_value v = m->values.at[n->result + i];
		struct moved move = { n->result + i, m->values.n };

		if (keep[i]) {
			v.index = k++;
			VEC_PUSH(&m->ctx->perm, &m->values, v);
			VEC_PUSH(d->a, &d->moved, move);
		}
	}
	n->result = k ? first : 0;
	n->nresults = (uint16_t)k;
}

static void
drop_carried(struct dce *d, struct ir_node *n)
{
	struct ir_module *m = d->m;
	struct ir_region *r = &m->regions.at[n->region];
	value_id *args = ir_args(m, n);
	bool keep[IR_MAX_ARGS];
	uint32_t i, k = 0;

	for (i = 0; i < n->nargs; i++) {
		keep[i] = d->live[n->result + i] || d->live[r->params.at[i]];
		k += keep[i];
	}
	if (k == n->nargs) {
		return;
	}
	d->carried += n->nargs - k;
	renumber_results(d, n, keep);
	for (i = k = 0; i < n->nargs; i++) {
		if (keep[i]) {
			args[k] = args[i];
			r->params.at[k] = r->params.at[i];
			m->values.at[r->params.at[k]].index = k;
			r->results.at[k] = r->results.at[i];
			k++;
		}
	}
	n->nargs = (uint16_t)k;
	r->params.n = r->results.n = k;
}

static bool
has_live(const struct dce *d, const struct ir_node *n)
{
	const struct ir_region *r = &d->m->regions.at[n->region];
	uint32_t i;

	for (i = 0; i < n->nresults; i++) {
		if (d->live[n->result + i]) {
			return true;
		}
	}
	for (i = 0; n->region && i < r->nodes.n; i++) {
		const struct ir_node *inner = ir_node(d->m, r->nodes.at[i]);

		if (d->kept[r->nodes.at[i]] ||
		    (inner->region && has_live(d, inner))) {
			return true;
		}
	}
	return false;
}

static inline bool
is_live(const struct dce *d, node_id id, const struct ir_node *n)
{
	return d->kept[id] || (n->nresults && d->live[n->result]) ||
	       ((n->nresults > 1 || n->region) && has_live(d, n));
}

static void
sweep(struct dce *d, region_id id)
{
	struct ir_region *r = &d->m->regions.at[id];
	uint32_t i, kept = 0;

	for (i = 0; i < r->nodes.n; i++) {
		struct ir_node *n = &d->m->nodes.at[r->nodes.at[i]];

		if (!is_live(d, r->nodes.at[i], n)) {
			d->nodes++;
			continue;
		}
		r->nodes.at[kept++] = r->nodes.at[i];
		if (ir_is(n->op, IRF_REGION)) {
			drop_carried(d, n);
			sweep(d, n->region);
		}
	}
	r->nodes.n = kept;
}

static void
replace_moved(struct dce *d)
{
	value_id *map;
	uint32_t i;

	if (!d->moved.n) {
		return;
	}
	map = arena_alloc(d->a, d->m->values.n * sizeof *map);
	for (i = 0; i < d->moved.n; i++) {
		map[d->moved.at[i].from] = d->moved.at[i].to;
	}
	ir_replace_uses(d->m, map);
}

bool
pass_dce(struct pass_ctx *p, struct ir_module *m)
{
	struct dce d = { .m = m, .a = &p->ctx->tmp };
	func_id f;

	d.pp = ir_axis_find(m, intern_str(&m->ctx->syms, "pp"));
	d.live = arena_alloc(d.a, m->values.n * sizeof *d.live);
	/* one entry more: mark() also writes past ntodo */
	d.todo = arena_alloc_raw(d.a, (m->values.n + 1) * sizeof *d.todo);
	d.kept = arena_alloc(d.a, m->nodes.n * sizeof *d.kept);
	d.stash = arena_alloc(d.a, m->ctx->syms.text.n * sizeof *d.stash);
	for (f = 1; f < m->funcs.n; f++) {
		mark_func(&d, &m->funcs.at[f]);
	}
	mark_sources(&d);
	for (f = 1; f < m->funcs.n; f++) {
		sweep(&d, m->funcs.at[f].body);
	}
	replace_moved(&d);
	pass_count(p, "nodes removed", d.nodes);
	pass_count(p, "carried values removed", d.carried);
	pass_count(p, "layers removed",
		   pass_drop_funcs(m, pass_live_funcs(m)));
	return true;
}

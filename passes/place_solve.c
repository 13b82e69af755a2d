/*
 * The choice along one axis: how every value is placed, and in which way
 * every node runs, so that the sum of prices is least.  It is exact, since
 * solve.c is: values, nodes and what outlasts a region (stored tensors,
 * gradients, saves, carried values) are variables, and all prices are
 * between two of them.
 *
 * A value that several nodes want converted is converted once: its variable
 * says how it is made, and to what else it is converted for whoever asks.
 */
#include "passes/place_choice.h"

#include <math.h>

/* The rule of an optimizer is one kernel: its maps cost a part of theirs. */
#define FUSED 0.1

/* ---- nodes ---- */

static bool
may_split(const struct choice *c, struct ir_along s)
{
	return s.how != IR_IS_SPLIT ||
	       (c->update ? c->p->late : c->p->may)[s.dim];
}

static bool
is_whole(const struct ir_way *w, uint32_t nargs)
{
	bool whole = w->out.how == IR_IS_WHOLE;
	uint32_t k;

	for (k = 0; k < nargs; k++) {
		whole = whole && w->in[k].how == IR_IS_WHOLE;
	}
	return whole;
}

static bool
way_is_open(const struct choice *c, const struct ir_node *n,
	    const struct ir_way *w)
{
	const struct place *p = c->p;
	bool routed = w->out.how == IR_IS_ROUTED;
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		if (!may_split(c, w->in[k])) {
			return false;
		}
		routed |= w->in[k].how == IR_IS_ROUTED;
	}
	if (!may_split(c, w->out) || (routed && p->kind != PLACE_EXPERT)) {
		return false;
	}
	if (w->talks && p->kind == PLACE_TIME) {
		return false;
	}
	if (routed && !place_one_route(p, n, w)) {
		return false;
	}
	if (p->kind == PLACE_CONTEXT && ir_is(n->op, IRF_PAIRS)) {
		return w->talks == p->plan->ring || is_whole(w, n->nargs);
	}
	return true;
}

/* All of the node; those that no axis changes are looked for once. */
static struct place_ways
all_ways(struct place *p, node_id id)
{
	const struct ir_node *n = ir_node(p->m, id);
	bool same = ir_same_ways((enum ir_op)n->op);
	struct ir_way ways[IR_MAX_WAYS];
	struct place_ways w = p->facts->ways[id];

	if (!w.at) {
		w.n = ir_ways(p->m, n, p->axis, ways);
		w.at = arena_dup(same ? p->facts->arena : &p->scratch, ways,
				 w.n * sizeof *ways);
	}
	if (same) {
		p->facts->ways[id] = w;
	}
	return w;
}

static void
plain_node(struct choice *c, node_id id)
{
	struct place *p = c->p;
	struct ir_node n = *ir_node(p->m, id);
	struct place_ways w = all_ways(p, id);
	struct thing *t = &c->node[id];
	double price[IR_MAX_WAYS];
	uint32_t i, k;

	t->way = arena_room(&p->scratch, w.n * sizeof *t->way);
	for (i = 0; i < w.n; i++) {
		if (way_is_open(c, &n, &w.at[i])) {
			price[t->n] = c->times * place_run(p, id, &w.at[i]) *
				      (c->update ? FUSED : 1);
			t->way[t->n++] = &w.at[i];
		}
	}
	place_result(c, n.result, id);
	place_new_var(c, t, id);
	solve_factor(c->s, 1, &t->var, price);
	for (k = 0; k < n.nargs; k++) {
		place_link_operand(c, id, k);
	}
	place_link_result(c, id);
}

/* ---- sources, sinks, repeats ---- */

/* Data comes in split by what its axis is there for. */
static void
input_options(struct choice *c, struct thing *t, const struct ir_type *type)
{
	const struct place *p = c->p;
	uint32_t i;

	for (i = 0; i < type->ndims && !c->update; i++) {
		dim_id d = type->dims[i];

		if (p->may[d] && (d == p->facts->batch ||
				  p->kind == PLACE_CONTEXT)) {
			place_add_option(c, t, along(IR_IS_SPLIT, d));
		}
	}
	if (t->n == 0) {
		place_add_option(c, t, along(IR_IS_WHOLE, 0));
	}
}

/* What every rank can make for itself, all of it or a piece. */
static void
const_options(struct choice *c, struct thing *t, const struct ir_type *type)
{
	uint32_t i;

	place_add_option(c, t, along(IR_IS_WHOLE, 0));
	for (i = 0; i < type->ndims; i++) {
		if (c->p->may[type->dims[i]]) {
			place_add_option(c, t, along(IR_IS_SPLIT,
						     type->dims[i]));
		}
	}
}

static void
source_node(struct choice *c, node_id id)
{
	struct place *p = c->p;
	const struct ir_node *n = ir_node(p->m, id);
	const struct ir_type *type = ir_type(p->m, n->result);
	struct thing *t = &c->value[n->result], *from = NULL;
	uint32_t i;

	if (n->op == IR_INPUT) {
		input_options(c, t, type);
	} else if (n->op != IR_GRADIENT &&
		   !ir_is(n->op, IRF_STORED | IRF_STASH)) {
		const_options(c, t, type);
	} else {
		from = place_cell(c, id, type);
		for (i = 0; i < from->n; i++) {
			place_add_option(c, t, from->opt[i].at);
		}
		/* what it may be converted to */
		for (i = 0; i < t->n && t->opt[i].at.how; i++) {
		}
		if (i == t->n && c->uses[n->result] > 1) {
			place_add_option(c, t, along(IR_IS_WHOLE, 0));
		}
	}
	place_value_var(c, n->result, id);
	if (from) {
		place_link_same(c, from, n->result);
	}
}

static void
sink_node(struct choice *c, node_id id)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	value_id v = ir_args(c->p->m, n)[0];

	place_link_into(c, place_cell(c, id, ir_type(c->p->m, v)), v,
		  place_cell_kind((enum ir_op)n->op) == CELL_GRADIENT);
}

static void scan_region(struct choice *c, region_id r);

/*
 * Activations that go from trip to trip are no parts of a sum over tensor
 * ranks: each would be rounded in every trip, and added up at the end.
 */
static void
drop_parts(struct choice *c, struct thing *t, const struct ir_type *type)
{
	if (c->p->kind == PLACE_TENSOR && c->p->facts->batch &&
	    ir_type_has(type, c->p->facts->batch)) {
		t->n -= t->opt[t->n - 1].at.how == IR_IS_PART;
	}
}

static void
repeat_node(struct choice *c, node_id id)
{
	struct place *p = c->p;
	struct ir_node n = *ir_node(p->m, id);
	double outer = c->times, inner = outer * (double)
		ir_attr_int(p->m, &n, IR_ATTR_COUNT, 1);
	uint32_t i;

	for (i = 0; i < n.nresults; i++) {
		value_id param = p->m->regions.at[n.region].params.at[i];
		struct thing *t = &c->carried[n.result + i];

		place_all_options(c, t, ir_type(p->m, param));
		drop_parts(c, t, ir_type(p->m, param));
		place_new_var(c, t, id);
		place_link_into(c, t, ir_args(p->m, &n)[i], false);
		c->times = inner;	/* it is converted in each trip */
		place_value(c, param, id);
		c->times = outer;
		place_link_same(c, t, param);
		place_value(c, n.result + i, id);
		place_link_same(c, t, n.result + i);
	}
	c->times = inner;
	scan_region(c, n.region);
	for (i = 0; i < n.nresults; i++) {
		place_link_into(c, &c->carried[n.result + i],
			  p->m->regions.at[n.region].results.at[i], false);
	}
	c->times = outer;
}

static void
scan_region(struct choice *c, region_id r)
{
	uint32_t i;

	for (i = 0; i < c->p->m->regions.at[r].nodes.n; i++) {
		node_id id = c->p->m->regions.at[r].nodes.at[i];
		const struct ir_node *n = ir_node(c->p->m, id);

		c->node[id].stands = true;
		if (ir_is(n->op, IRF_REGION)) {
			repeat_node(c, id);
		} else if (ir_is(n->op, IRF_SOURCE)) {
			source_node(c, id);
		} else if (ir_is(n->op, IRF_SINK)) {
			sink_node(c, id);
		} else {
			plain_node(c, id);
		}
	}
}

/* What the model returns is whole, but for the sum over microbatches. */
static void
scan_results(struct choice *c, region_id body)
{
	uint32_t i;

	for (i = 0; i < c->p->m->regions.at[body].results.n; i++) {
		value_id v = c->p->m->regions.at[body].results.at[i];
		struct thing *t = &c->handed[v];

		if (t->made) {
			continue;
		}
		if (c->p->kind == PLACE_TIME) {
			place_all_options(c, t, ir_type(c->p->m, v));
		} else {
			place_add_option(c, t, along(IR_IS_WHOLE, 0));
		}
		place_new_var(c, t, c->p->m->values.at[v].node);
		place_link_into(c, t, v, false);
	}
}

/* ---- what was there, and what comes out ---- */

static void
count_uses(struct choice *c)
{
	const struct ir_module *m = c->p->m;
	uint32_t i, k;

	for (i = 1; i < c->p->nnodes; i++) {
		const struct ir_node *n = ir_node(m, i);

		for (k = 0; k < n->nargs; k++) {
			value_id v = ir_args(m, n)[k];

			c->uses[v]++;
			c->routable[v] |= place_can_route((enum ir_op)n->op, k);
		}
	}
	for (i = 1; i < m->regions.n; i++) {
		for (k = 0; k < m->regions.at[i].results.n; k++) {
			c->uses[m->regions.at[i].results.at[k]]++;
		}
	}
}

/* Over how many ranks a value that is placed so is split. */
static double
ranks_of(const struct place *p, const struct ir_type *t)
{
	axis_id axes[IR_MAX_AXES], a;
	uint32_t i, k, cuts;
	double n = 1;

	for (i = 0; i < t->ndims; i++) {
		cuts = ir_cuts(t, i, axes);
		for (k = 0; k < cuts; k++) {
			n *= (double)p->m->axes.at[axes[k]].size;
		}
	}
	for (a = 1; t->routed >> (a - 1); a++) {
		n *= t->routed >> (a - 1) & 1
			? (double)p->m->axes.at[a].size : 1;
	}
	return n;
}

static void
find_asked(struct place *p)
{
	uint32_t i;

	for (i = 0; i < p->m->args.n; i++) {
		value_id v = p->m->args.at[i];

		p->asked[v] = fmax(p->asked[v], ranks_of(p, &p->wants[i]));
	}
}

static void
choice_init(struct choice *c, struct place *p)
{
	struct arena *a = &p->scratch;
	size_t names = p->m->ctx->syms.text.n + 1;
	int k;

	c->p = p;
	c->s = solve_new(a);
	c->s->memo = place_planned(p);
	c->value = arena_alloc(a, p->nvalues * sizeof *c->value);
	c->carried = arena_alloc(a, p->nvalues * sizeof *c->carried);
	c->handed = arena_alloc(a, p->nvalues * sizeof *c->handed);
	c->node = arena_alloc(a, p->nnodes * sizeof *c->node);
	c->uses = arena_alloc(a, p->nvalues * sizeof *c->uses);
	c->routable = arena_alloc(a, p->nvalues);
	c->weight_type = arena_alloc(a, names * sizeof *c->weight_type);
	c->picked = arena_alloc(a, names);
	for (k = 0; k < CELL_KINDS; k++) {
		c->cell[k] = arena_alloc(a, names * sizeof *c->cell[k]);
	}
	count_uses(c);
}

static void
scan_funcs(struct choice *c)
{
	const struct ir_module *m = c->p->m;
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		c->update = f != c->p->model;
		c->times = c->update ? 1 : (double)c->p->plan->nmicrobatches;
		scan_region(c, m->funcs.at[f].body);
		if (!c->update) {
			scan_results(c, m->funcs.at[f].body);
		}
	}
}

static bool
complain(const struct choice *c, uint32_t var)
{
	const struct place *p = c->p;
	const struct ir_module *m = p->m;
	node_id id = var < c->owner.n ? c->owner.at[var] : 0;
	const struct ir_node *n = ir_node(m, id);

	diag_error(&m->ctx->diags, n->span, "nothing can be split along `%s` "
		   "= %lld as the plan says: %s stands in the way",
		   ir_axis_name(m, p->axis), (long long)p->ranks,
		   id ? ir_ops[n->op].name : "the model");
	return false;
}

bool
place_solve(struct place *p)
{
	struct choice c = { 0 };
	struct solve_result r;
	struct arena tmp;
	bool ok;

	arena_release(&p->scratch);
	choice_init(&c, p);
	find_asked(p);
	c.times = 1;
	place_find_weights(&c);
	scan_funcs(&c);
	arena_init(&tmp, &p->m->ctx->mem);
	r = solve_run(c.s, &tmp);
	ok = r.feasible;
	if (ok) {
		place_take(&c, r.choice);
		place_remember(p, c.s->domain.n, r.forced);
		pass_count(p->p, "placements chosen", c.s->domain.n);
	}
	arena_release(&tmp);
	if (!ok && p->strict) {
		p->strict = false;
		return place_solve(p);
	}
	return ok || complain(&c, r.bad_var);
}

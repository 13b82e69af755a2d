/*
 * The choice along one axis: how every value is placed and in which way every
 * node runs, at the least sum of prices.  The result is exact, as solve.c is.
 * Values, nodes and what outlives a region (stored tensors, gradients, saves,
 * carried values) are variables; each price is of one or two of them.  This
 * file builds the problem; place_due.c computes its prices.
 *
 * A value is converted once for all nodes that need the same conversion: its
 * variable says how it is made, and which converted copy its users share.
 */
#include "passes/place/place_choice.h"

#include <math.h>

/* ---- nodes ---- */

/*
 * The operand of attention, and of its backward, that is the keys: where no
 * ring passes them on they are gathered, since no kernel runs over a part of
 * the keys of all queries.
 */
#define KEYS 1

static bool
may_be(const struct choice *c, value_id v, uint32_t slot)
{
	return c->alike[c->p->facts->like[v]].open >> slot & 1;
}

static bool
is_whole(const struct place_way *w, uint32_t nargs)
{
	bool whole = w->out == PLACE_WHOLE;
	uint32_t k;

	for (k = 0; k < nargs; k++) {
		whole = whole && w->in[k] == PLACE_WHOLE;
	}
	return whole;
}

static bool
way_is_open(const struct choice *c, const struct ir_node *n,
	    const struct place_way *w)
{
	const struct place *p = c->p;
	const value_id *args = ir_args(p->m, n);
	bool routed = w->out == PLACE_ROUTED;
	uint32_t k;

	for (k = 0; k < n->nargs; k++) {
		if (!may_be(c, args[k], w->in[k])) {
			return false;
		}
		routed |= w->in[k] == PLACE_ROUTED;
	}
	if (!may_be(c, n->result, w->out) ||
	    (w->colls && p->kind == PLACE_TIME)) {
		return false;
	}
	if (routed && !place_one_route(p, n, w)) {
		return false;
	}
	if (p->kind == PLACE_CONTEXT && ir_is(n->op, IRF_PAIRS)) {
		return is_whole(w, n->nargs) ||
		       (w->colls == p->plan->ring &&
			(p->plan->ring || w->in[KEYS] == PLACE_WHOLE));
	}
	return true;
}

static void
plain_node(struct choice *c, node_id id)
{
	const struct ir_node *n = ir_node(c->p->m, id);
	struct place_ways all = place_ask_ways(c, id);
	struct runner *x = &c->node[id];
	uint32_t i, k;

	x->way = arena_alloc_raw(c->arena, all.n * sizeof *x->way);
	for (i = 0; i < all.n; i++) {
		if (way_is_open(c, n, &all.at[i])) {
			x->way[x->n++] = all.at[i];
		}
	}
	place_result(c, n->result, id);
	x->made = true;
	x->var = place_new_var(c, x->n, id);
	place_add_due(c, (struct due){
		.kind = DUE_RUNS, .of = id,
		.table = solve_add_unary(c->s, x->var)
	});
	for (k = 0; k < n->nargs; k++) {
		place_link_operand(c, id, k);
	}
	place_link_result(c, id);
}

/* ---- sources, sinks, repeats ---- */

/* Slots that split it: by any allowed dim, or by the batch only. */
static place_list
splits(const struct choice *c, const struct place_like *l, uint32_t *n,
       bool all)
{
	const struct place *p = c->p;
	place_list list = 0;
	uint32_t i;

	for (i = 0; i < l->ndims; i++) {
		dim_id d = l->dims[i];

		if (p->may[d] && (all || d == p->facts->batch)) {
			list = place_list_add(list, (*n)++, PLACE_SPLIT + i);
		}
	}
	return list;
}

/* Input data is split by the dim that the axis is meant for. */
static place_list
input_options(const struct choice *c, const struct place_like *l)
{
	uint32_t n = 0;
	place_list list = c->update ? 0
		: splits(c, l, &n, c->p->kind == PLACE_CONTEXT);

	return list ? list : place_list_add(0, 0, PLACE_WHOLE);
}

/* Constants: each rank can make the whole or its piece. */
static place_list
const_options(const struct choice *c, const struct place_like *l)
{
	uint32_t n = 0;

	return splits(c, l, &n, true) << 4 |
	       place_list_add(0, 0, PLACE_WHOLE);
}

/* A stored value: as it was written, or converted to whole. */
static place_list
cell_options(const struct place_like *l, const struct cell *from)
{
	bool whole = false;
	place_list list = 0;
	uint32_t i;

	for (i = 0; i < from->n; i++) {
		uint32_t slot = place_slot(l, from->opt[i]);

		whole |= slot == PLACE_WHOLE;
		list = place_list_add(list, i, slot);
	}
	return whole || !l->many ? list : place_list_add(list, i, PLACE_WHOLE);
}

static void
source_node(struct choice *c, node_id id)
{
	struct place *p = c->p;
	value_id v = ir_node(p->m, id)->result;
	const struct place_like *l = place_like(p, v);
	struct cell *from;

	if (!p->facts->cell[id]) {
		place_value(c, v, ir_node(p->m, id)->op == IR_INPUT
			    ? input_options(c, l) : const_options(c, l), id);
		return;
	}
	from = place_cell(c, id);
	place_value(c, v, cell_options(l, from), id);
	place_link_same(c, from, v);
}

static void
sink_node(struct choice *c, node_id id)
{
	const struct ir_node *n = ir_node(c->p->m, id);

	place_link_into(c, place_cell(c, id), ir_args(c->p->m, n)[0],
			place_cell_kind((enum ir_op)n->op) == CELL_GRADIENT);
}

static void scan_region(struct choice *c, region_id r);

/*
 * Carried activations are no partial sums over tensor ranks: each term would be
 * rounded in every iteration, and only the end would add them up.
 */
static void
drop_parts(const struct choice *c, struct cell *x, const struct ir_type *type)
{
	if (c->p->kind == PLACE_TENSOR && c->p->facts->batch &&
	    ir_type_has(type, c->p->facts->batch)) {
		x->n -= x->opt[x->n - 1].how == IR_IS_PART;
	}
}

static void
value_of_all(struct choice *c, value_id v, node_id owner)
{
	place_value(c, v, c->alike[c->p->facts->like[v]].all, owner);
}

static void
repeat_node(struct choice *c, node_id id)
{
	struct place *p = c->p;
	const struct ir_node *n = ir_node(p->m, id);
	const struct ir_region *body = &p->m->regions.at[n->region];
	double outer = c->iters, inner = outer * (double)
		ir_attr_int(p->m, n, IR_ATTR_COUNT, 1);
	struct cell *x = arena_alloc(c->arena, n->nresults * sizeof *x);
	region_id here = c->region;
	uint32_t i;

	c->carried[n->region] = x;
	for (i = 0; i < n->nresults; i++) {
		value_id param = body->params.at[i];

		place_all_options(c, &x[i], param);
		drop_parts(c, &x[i], ir_type(p->m, param));
		place_new_cell(c, &x[i], id);
		place_link_into(c, &x[i], ir_args(p->m, n)[i], false);
		c->iters = inner;	/* conversions run in each iteration */
		c->region = n->region;
		value_of_all(c, param, id);
		c->region = here;
		c->iters = outer;
		place_link_same(c, &x[i], param);
		value_of_all(c, n->result + i, id);
		place_link_same(c, &x[i], n->result + i);
	}
	c->iters = inner;
	scan_region(c, n->region);
	c->region = n->region;
	for (i = 0; i < n->nresults; i++) {
		place_link_into(c, &x[i], body->results.at[i], false);
	}
	c->region = here;
	c->iters = outer;
}

static void
scan_region(struct choice *c, region_id r)
{
	region_id outer = c->region;
	uint32_t i;

	c->region = r;
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
	c->region = outer;
}

/* Results of the model are whole along each axis but time. */
static void
scan_results(struct choice *c, const struct ir_region *body)
{
	uint32_t i, k;

	c->handed = arena_alloc(c->arena,
				body->results.n * sizeof *c->handed);
	for (i = 0; i < body->results.n; i++) {
		value_id v = body->results.at[i];
		struct cell *x = &c->handed[i];

		for (k = 0; k < i && body->results.at[k] != v; k++) {
		}
		if (k < i) {
			*x = c->handed[k];
			continue;
		}
		if (c->p->kind == PLACE_TIME) {
			place_all_options(c, x, v);
		} else {
			place_add_option(x, along(IR_IS_WHOLE, 0));
		}
		place_new_cell(c, x, c->p->m->values.at[v].node);
		place_link_into(c, x, v, false);
	}
}

/* ---- building and solving ---- */

/* Over how many ranks, as they are priced, a value of this type is split. */
static double
ranks_of(const struct place *p, const struct ir_type *t)
{
	axis_id axes[IR_MAX_AXES], a;
	uint32_t i, k, cuts;
	double n = 1;

	for (i = 0; i < t->ndims; i++) {
		cuts = ir_cuts(t, i, axes);
		for (k = 0; k < cuts; k++) {
			n *= p->lengths[axes[k]];
		}
	}
	for (a = 1; t->routed >> (a - 1); a++) {
		n *= t->routed >> (a - 1) & 1 ? p->lengths[a] : 1;
	}
	return n;
}

static void
find_asked(struct place *p)
{
	uint32_t i;

	for (i = 0; i < p->m->args.n; i++) {
		value_id v = p->m->args.at[i];

		p->asked[v] = fmax(p->asked[v],
				   ranks_of(p, ir_type_of(p->m->ctx,
							  p->wants[i])));
	}
}

/*
 * Room for about as much as the last problem of the program has.  Lists that
 * grow leave what they had behind, as problems are kept: that was half of them.
 */
static void
make_room(struct choice *c)
{
	const struct choice *last = c->older;
	uint32_t nvars, ndue;

	if (!last) {
		return;
	}
	nvars = last->owner.n + last->owner.n / 16;
	ndue = last->due.n + last->due.n / 8;
	solve_reserve(c->s, nvars, last->s->tables.n + last->s->tables.n / 8);
	c->owner.cap = nvars;
	c->owner.at = arena_alloc_raw(c->arena, nvars * sizeof *c->owner.at);
	c->due.cap = ndue;
	c->due.at = arena_alloc_raw(c->arena, ndue * sizeof *c->due.at);
}

static void
choice_init(struct choice *c)
{
	struct place *p = c->p;
	const struct place_facts *f = p->facts;
	struct arena *a = c->arena;
	uint32_t i;

	c->s = solve_new(a);
	c->s->memo = p->p->memo;
	make_room(c);
	c->value = arena_alloc(a, p->nvalues * sizeof *c->value);
	c->node = arena_alloc(a, p->nnodes * sizeof *c->node);
	c->alike = arena_alloc(a, f->likes.n * sizeof *c->alike);
	c->cell = arena_alloc(a, f->cells.n * sizeof *c->cell);
	c->carried = arena_alloc(a, p->m->regions.n * sizeof *c->carried);
	for (i = 1; i < f->likes.n; i++) {
		c->alike[i].all = place_all(p, &f->likes.at[i]);
		c->alike[i].open = place_open(p, &f->likes.at[i]);
	}
}

static void
scan_funcs(struct choice *c)
{
	const struct ir_module *m = c->p->m;
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		const struct ir_region *body =
			&m->regions.at[m->funcs.at[f].body];

		c->update = f != c->p->model;
		scan_region(c, m->funcs.at[f].body);
		if (!c->update) {
			scan_results(c, body);
		}
	}
}

/* The problem along the axis at hand, without prices. */
static struct choice *
shape(struct place *p)
{
	struct choice *c = place_shaped(p);

	if (!c) {
		c = place_new_shape(p);
		c->iters = 1;
		choice_init(c);
		place_find_weights(c);
		scan_funcs(c);
	}
	return c;
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

double
place_least_us(struct place *p)
{
	struct choice *c = shape(p);
	struct solve_result r;
	struct arena tmp;

	find_asked(p);
	place_fill(c);
	arena_init(&tmp, &p->m->ctx->mem);
	c->s->cost_only = true;
	r = solve_run(c->s, &tmp);
	c->s->cost_only = false;
	arena_release(&tmp);
	return r.feasible && r.exact ? r.cost : 0;
}

bool
place_solve(struct place *p)
{
	struct solve_result r;
	struct choice *c;
	struct arena tmp;
	bool ok;

	arena_release(&p->scratch);
	c = shape(p);
	find_asked(p);
	place_fill(c);
	arena_init(&tmp, &p->m->ctx->mem);
	r = solve_run(c->s, &tmp);
	ok = r.feasible;
	if (ok) {
		place_take(c, r.choice);
		place_remember(p, c->s->domain.n, r.forced);
		pass_count(p->p, "placements chosen", c->s->domain.n);
	}
	arena_release(&tmp);
	if (!ok && p->strict) {
		p->strict = false;
		return place_solve(p);
	}
	return ok || complain(c, r.bad_var);
}

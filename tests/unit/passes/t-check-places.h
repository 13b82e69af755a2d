/*
 * Damage to placements: collectives, the mesh, where sources lie.  Each
 * function changes one place, or says that there is nothing to change.
 */
#ifndef TESTS_UNIT_T_CHECK_PLACES_H
#define TESTS_UNIT_T_CHECK_PLACES_H

#include "t-check.h"

static bool
is_op(const struct mutant *k, const struct site *x, enum ir_op op)
{
	return node_at(k, x)->op == op;
}

static bool
colls(const struct mutant *k, const struct site *x)
{
	return ir_is(node_at(k, x)->op, IRF_CONVERTS);
}

/* ---- collectives ---- */

static bool
drop_collective(struct mutant *k, const struct site *x)
{
	const struct ir_node *n = node_at(k, x);

	if (!colls(k, x)) {
		return false;
	}
	use_instead(k, n->result, ir_args(k->m, n)[0]);
	unlist(k, x);
	return true;
}

/* What goes in is said to lie already as what came out. */
static bool
drop_collective_and_lie(struct mutant *k, const struct site *x)
{
	const struct ir_node *n = node_at(k, x);

	if (!colls(k, x)) {
		return false;
	}
	k->m->values.at[ir_args(k->m, n)[0]].type =
		k->m->values.at[n->result].type;
	return drop_collective(k, x);
}

static bool
swap_collectives(struct mutant *k, const struct site *x)
{
	const struct ir_region *r = &k->m->regions.at[x->region];
	uint32_t i;

	for (i = x->at + 1; colls(k, x) && i < r->nodes.n; i++) {
		if (ir_is(ir_node(k->m, r->nodes.at[i])->op, IRF_CONVERTS)) {
			move(k, x->region, i, x->at);
			return true;
		}
	}
	return false;
}

static axis_id
other_axis(const struct mutant *k, axis_id a)
{
	axis_id b;

	for (b = 1; b < k->m->axes.n; b++) {
		if (b != a && k->m->axes.at[b].size == k->m->axes.at[a].size &&
		    !k->m->axes.at[b].time) {
			return b;
		}
	}
	return 0;
}

static bool
other_on(struct mutant *k, const struct site *x)
{
	struct ir_attr *on = attr_of(k, x->node, IR_ATTR_ON);
	axis_id b = on ? other_axis(k, on->dims[0]) : 0;

	if (b) {
		on->dims[0] = b;
	}
	return b != 0;
}

static bool
no_on(struct mutant *k, const struct site *x)
{
	if (colls(k, x) || !attr_of(k, x->node, IR_ATTR_ON)) {
		return false;
	}
	drop_attr(k, x->node, IR_ATTR_ON);
	return true;
}

/* In a stage, all ranks of the pipeline are waited for. */
static bool
wait_for_pipes(struct mutant *k, const struct site *x)
{
	axis_id pp = ir_axis_find(k->m, intern_str(&k->m->ctx->syms, "pp"));
	struct ir_along part = { IR_IS_PART, 0 };
	struct site y = *x;
	struct ir_type type, sum;
	struct ir_new n;
	int i;

	if (!pp || is_update(k, x->func) || node_at(k, x)->nresults != 1 ||
	    node_at(k, x)->region || ir_is(node_at(k, x)->op, IRF_SOURCE)) {
		return false;
	}
	type = sum = *ir_type(k->m, node_at(k, x)->result);
	if (!ir_dtypes[type.dtype].is_float) {
		return false;
	}
	ir_set_along(&sum, pp, part);
	for (i = 0; i < 2; i++) {
		struct ir_attr *on;

		ir_new_init(&n, i ? IR_ALL_REDUCE : IR_ONCE,
			    (struct span){ 0, 0 });
		on = ir_new_attr(&n, IR_ATTR_ON);
		on->dims[on->ndims++] = pp;
		if (!put_behind(k, &y, &n, i ? &type : &sum)) {
			return false;
		}
		y.at++;
		y.node = k->m->regions.at[y.region].nodes.at[y.at];
	}
	return true;
}

/* ---- the mesh ---- */

static bool
axis_sizes_swapped(struct mutant *k, uint32_t i)
{
	axis_id a = i / 8 + 1, b = i % 8 + 1;
	struct ir_axis *x;
	int64_t size;

	if (a >= b || b >= k->m->axes.n) {
		return false;
	}
	x = k->m->axes.at;
	size = x[a].size;
	x[a].size = x[b].size;
	x[b].size = size;
	return x[a].size != x[b].size;
}

static bool
axes_swapped(struct mutant *k, uint32_t i)
{
	axis_id a = i / 8 + 1, b = i % 8 + 1;
	struct ir_axis x;

	if (a >= b || b >= k->m->axes.n) {
		return false;
	}
	x = k->m->axes.at[a];
	k->m->axes.at[a] = k->m->axes.at[b];
	k->m->axes.at[b] = x;
	return true;
}

static bool
axis_size(struct mutant *k, uint32_t i)
{
	axis_id a = i / 2 + 1;

	if (a >= k->m->axes.n || (k->m->axes.at[a].size == 1 && i % 2 == 0)) {
		return false;
	}
	k->m->axes.at[a].size += i % 2 ? 1 : -1;
	return true;
}

static bool
axis_balanced(struct mutant *k, uint32_t i)
{
	if (i + 1 >= k->m->axes.n || k->m->axes.at[i + 1].time) {
		return false;
	}
	k->m->axes.at[i + 1].balanced = !k->m->axes.at[i + 1].balanced;
	return true;
}

/* Nothing in the function knows of the axis any more. */
static void
forget_on(struct mutant *k, region_id id, axis_id a)
{
	uint32_t i, j;

	for (i = k->m->regions.at[id].nodes.n; i-- > 0;) {
		struct site x = { 0, id, i, k->m->regions.at[id].nodes.at[i] };
		struct ir_attr *on = attr_of(k, x.node, IR_ATTR_ON);

		if (node_at(k, &x)->region) {
			forget_on(k, node_at(k, &x)->region, a);
		}
		for (j = 0; on && j < on->ndims; j++) {
			if (on->dims[j] == a) {
				memmove(on->dims + j, on->dims + j + 1,
					(--on->ndims - j) * sizeof *on->dims);
			}
		}
		if (!on || on->ndims) {
			continue;
		}
		if (colls(k, &x)) {
			drop_collective(k, &x);
		} else {
			drop_attr(k, x.node, IR_ATTR_ON);
		}
	}
}

static bool
axis_forgotten(struct mutant *k, func_id f, uint32_t i)
{
	region_id body = k->m->funcs.at[f].body;

	if (i + 1 >= k->m->axes.n || k->m->axes.at[i + 1].size == 1) {
		return false;
	}
	forget_on(k, body, i + 1);
	each_value(k, body, forget_in_type, i + 1, 0);
	return true;
}

/* In all functions: every rank does all of the work. */
static bool
axis_forgotten_everywhere(struct mutant *k, uint32_t i)
{
	func_id f;

	for (f = 1; f < k->m->funcs.n; f++) {
		if (!axis_forgotten(k, f, i)) {
			return false;
		}
	}
	return true;
}

/* In all stages, but not in the updates. */
static bool
axis_forgotten_in_stages(struct mutant *k, uint32_t i)
{
	func_id f;

	for (f = 1; f < k->m->funcs.n; f++) {
		if (!is_update(k, f) && !axis_forgotten(k, f, i)) {
			return false;
		}
	}
	return true;
}

static void
swap_on(struct mutant *k, region_id id, axis_id a, axis_id b)
{
	uint32_t i, j;

	for (i = 0; i < k->m->regions.at[id].nodes.n; i++) {
		node_id n = k->m->regions.at[id].nodes.at[i];
		struct ir_attr *on = attr_of(k, n, IR_ATTR_ON);

		for (j = 0; on && j < on->ndims; j++) {
			on->dims[j] = on->dims[j] == a ? b
				: on->dims[j] == b ? a : on->dims[j];
		}
		if (ir_node(k->m, n)->region) {
			swap_on(k, ir_node(k->m, n)->region, a, b);
		}
	}
}

static bool
axes_exchanged(struct mutant *k, func_id f, uint32_t i)
{
	axis_id a = i / 8 + 1, b = i % 8 + 1;
	region_id body = k->m->funcs.at[f].body;

	if (a >= b || b >= k->m->axes.n) {
		return false;
	}
	each_value(k, body, swap_in_type, a, b);
	swap_on(k, body, a, b);
	return true;
}

static bool
cuts_turned(struct mutant *k, func_id f, uint32_t i)
{
	if (i == 0) {
		each_value(k, k->m->funcs.at[f].body, turn_in_type, 0, 0);
	}
	return i == 0;
}

/* ---- where a source lies ---- */

/* Whole along an axis, and cut right after. */
static bool
source_whole(struct mutant *k, const struct site *x)
{
	struct ir_along whole = { IR_IS_WHOLE, 0 }, was;
	struct ir_type cut;
	struct ir_new n;
	struct ir_attr *on;
	axis_id a;
	value_id v = node_at(k, x)->result;

	if (!ir_is(node_at(k, x)->op, IRF_SOURCE)) {
		return false;
	}
	cut = *ir_type(k->m, v);
	for (a = 1; a < k->m->axes.n; a++) {
		was = ir_along(&cut, a);
		if (was.how != IR_IS_SPLIT || k->m->axes.at[a].time) {
			continue;
		}
		ir_set_along(own_type(k->m, v), a, whole);
		ir_new_init(&n, IR_SHARD, (struct span){ 0, 0 });
		on = ir_new_attr(&n, IR_ATTR_ON);
		on->dims[on->ndims++] = a;
		ir_new_dim(&n, IR_ATTR_OF, was.dim);
		return put_behind(k, x, &n, &cut);
	}
	return false;
}

/* A part of a sum, and added up right after. */
static bool
source_cut(struct mutant *k, const struct site *x)
{
	struct ir_along cut = { IR_IS_SPLIT, 0 };
	struct ir_type whole;
	struct ir_new n;
	struct ir_attr *on;
	axis_id a;
	value_id v = node_at(k, x)->result;

	if (!ir_is(node_at(k, x)->op, IRF_SOURCE)) {
		return false;
	}
	whole = *ir_type(k->m, v);
	for (a = 1; a < k->m->axes.n && whole.ndims; a++) {
		if (ir_along(&whole, a).how != IR_IS_WHOLE ||
		    k->m->axes.at[a].time || k->m->axes.at[a].size == 1) {
			continue;
		}
		cut.dim = whole.dims[0];
		ir_set_along(own_type(k->m, v), a, cut);
		ir_new_init(&n, IR_ALL_GATHER, (struct span){ 0, 0 });
		on = ir_new_attr(&n, IR_ATTR_ON);
		on->dims[on->ndims++] = a;
		ir_new_dim(&n, IR_ATTR_OF, cut.dim);
		return put_behind(k, x, &n, &whole);
	}
	return false;
}

/* Said to be a part of a sum, and added up. */
static bool
source_part(struct mutant *k, const struct site *x)
{
	struct ir_along part = { IR_IS_PART, 0 };
	struct ir_type whole;
	struct ir_new n;
	struct ir_attr *on;
	axis_id a;
	value_id v = node_at(k, x)->result;

	if (!ir_is(node_at(k, x)->op, IRF_SOURCE)) {
		return false;
	}
	whole = *ir_type(k->m, v);
	for (a = 1; a < k->m->axes.n; a++) {
		if (ir_along(&whole, a).how != IR_IS_WHOLE ||
		    k->m->axes.at[a].time || k->m->axes.at[a].size == 1) {
			continue;
		}
		ir_set_along(own_type(k->m, v), a, part);
		ir_new_init(&n, IR_ALL_REDUCE, (struct span){ 0, 0 });
		on = ir_new_attr(&n, IR_ATTR_ON);
		on->dims[on->ndims++] = a;
		return put_behind(k, x, &n, &whole);
	}
	return false;
}

/* Cut by another dim, and brought back right after. */
static bool
source_moved(struct mutant *k, const struct site *x)
{
	struct ir_along to = { IR_IS_SPLIT, 0 }, was;
	value_id v = node_at(k, x)->result;
	struct ir_type cut;
	struct ir_new n;
	struct ir_attr *on;
	axis_id a;
	uint32_t i;

	if (!ir_is(node_at(k, x)->op, IRF_SOURCE)) {
		return false;
	}
	cut = *ir_type(k->m, v);
	for (a = 1; a < k->m->axes.n; a++) {
		was = ir_along(&cut, a);
		for (i = 0; i < cut.ndims && cut.dims[i] == was.dim; i++) {
		}
		if (was.how != IR_IS_SPLIT || k->m->axes.at[a].time ||
		    i == cut.ndims) {
			continue;
		}
		to.dim = cut.dims[i];
		ir_set_along(own_type(k->m, v), a, to);
		ir_new_init(&n, IR_ALL_TO_ALL, (struct span){ 0, 0 });
		on = ir_new_attr(&n, IR_ATTR_ON);
		on->dims[on->ndims++] = a;
		ir_new_dim(&n, IR_ATTR_OF, to.dim);
		ir_new_dim(&n, IR_ATTR_TO, was.dim);
		return put_behind(k, x, &n, &cut);
	}
	return false;
}

static bool
otherwise(struct mutant *k, const struct site *x, enum ir_op op)
{
	return is_op(k, x, op) && (source_whole(k, x) || source_cut(k, x));
}

static bool
source_lies(struct mutant *k, const struct site *x)
{
	struct ir_along whole = { IR_IS_WHOLE, 0 };
	value_id v = node_at(k, x)->result;
	struct ir_type was;
	axis_id a;

	if (!ir_is(node_at(k, x)->op, IRF_SOURCE)) {
		return false;
	}
	was = *ir_type(k->m, v);
	for (a = 1; a < k->m->axes.n; a++) {
		ir_set_along(own_type(k->m, v), a, whole);
		if (!ir_type_equal(&was, ir_type(k->m, v))) {
			return true;
		}
	}
	return false;
}

static bool
starts_otherwise(struct mutant *k, const struct site *x)
{
	struct ir_attr *init = is_op(k, x, IR_WEIGHT)
		? attr_of(k, x->node, IR_ATTR_INIT) : NULL;

	if (init) {
		init->text = intern_str(&k->m->ctx->syms, strcmp(ir_text(
			k->m->ctx, init->text), "ones") ? "ones" : "zeros");
	}
	return init != NULL;
}

#endif

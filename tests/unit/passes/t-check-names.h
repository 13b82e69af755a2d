/*
 * Damage to what passes from node to node by name: iterations, transfers,
 * saves, sums, stores; and to functions and schedules.
 */
#ifndef TESTS_UNIT_T_CHECK_NAMES_H
#define TESTS_UNIT_T_CHECK_NAMES_H

#include "t-check-places.h"

/* ---- iterations ---- */

static bool
is_repeat(const struct mutant *k, const struct site *x)
{
	return node_at(k, x)->region != 0;
}

static bool
start_later(struct mutant *k, const struct site *x)
{
	if (is_repeat(k, x)) {
		add_int(k, x->node, IR_ATTR_START, 1, 0);
	}
	return is_repeat(k, x);
}

static bool
start_earlier(struct mutant *k, const struct site *x)
{
	if (!is_repeat(k, x) || ir_attr_int(k->m, node_at(k, x),
					    IR_ATTR_START, 0) == 0) {
		return false;
	}
	add_int(k, x->node, IR_ATTR_START, -1, 0);
	return true;
}

static bool
one_trip_more(struct mutant *k, const struct site *x)
{
	if (is_repeat(k, x)) {
		add_int(k, x->node, IR_ATTR_COUNT, 1, 0);
	}
	return is_repeat(k, x);
}

static bool
one_trip_less(struct mutant *k, const struct site *x)
{
	if (!is_repeat(k, x) || ir_attr_int(k->m, node_at(k, x),
					    IR_ATTR_COUNT, 1) == 1) {
		return false;
	}
	add_int(k, x->node, IR_ATTR_COUNT, -1, 0);
	return true;
}

static bool
turned_round(struct mutant *k, const struct site *x)
{
	struct ir_attr *r = attr_of(k, x->node, IR_ATTR_REVERSE);

	if (r) {
		drop_attr(k, x->node, IR_ATTR_REVERSE);
	}
	return r != NULL;
}

/* Of stage i and its update: iterations, all alike. */
static bool
whole_stage(struct mutant *k, uint32_t stage, int64_t start, int64_t count)
{
	const char *name;
	char stem[32];
	uint32_t i, changed = 0;

	for (i = 0; stage < k->s->nstages && i < k->sites.n; i++) {
		const struct site *x = &k->sites.at[i];

		if (!is_repeat(k, x)) {
			continue;
		}
		name = ir_text(k->m->ctx, k->m->funcs.at[x->func].name);
		snprintf(stem, sizeof stem, "stage%u_", stage);
		if (strncmp(name, stem, strlen(stem)) != 0) {
			snprintf(stem, sizeof stem, "pipe%u_",
				 k->s->rank_of[stage]);
			if (k->s->nstages > k->s->nranks ||
			    strncmp(name, stem, strlen(stem)) != 0) {
				continue;
			}
		}
		add_int(k, x->node, IR_ATTR_START, start, 0);
		add_int(k, x->node, IR_ATTR_COUNT, count, 1);
		changed++;
	}
	return changed > 0;
}

/* What a stage's forward saves of an iteration first; 0 if nothing. */
static sym_t
first_save(const struct mutant *k, uint32_t stage)
{
	const char *forward = arena_printf(&k->m->ctx->tmp,
					   "stage%u_forward", stage);
	uint32_t i;

	for (i = 0; i < k->sites.n; i++) {
		const struct site *x = &k->sites.at[i];
		const struct ir_attr *name = ir_attr(k->m, node_at(k, x),
						     IR_ATTR_NAME);

		if (is_op(k, x, IR_SAVE) && strchr(ir_text(k->m->ctx,
		    name->text), '{') && strcmp(ir_text(k->m->ctx,
		    k->m->funcs.at[x->func].name), forward) == 0) {
			return name->text;
		}
	}
	return 0;
}

/* Whether another stage has iterations of the same repeat. */
static bool
others_have_trips(const struct mutant *k, uint32_t stage)
{
	sym_t save = first_save(k, stage);
	uint32_t s;

	for (s = 0; s < k->s->nstages; s++) {
		if (save && s != stage && first_save(k, s) == save) {
			return true;
		}
	}
	return false;
}

static bool
layer_twice(struct mutant *k, uint32_t i)
{
	return whole_stage(k, i, 0, 1);
}

static bool
layer_left_out(struct mutant *k, uint32_t i)
{
	return whole_stage(k, i, 0, -1);
}

/* Beside others: of all iterations, it would be another model's names. */
static bool
layers_shifted(struct mutant *k, uint32_t i)
{
	return k->s->nstages > 1 && i < k->s->nstages &&
	       others_have_trips(k, i) && whole_stage(k, i, 1, 0);
}

static bool
layer_moved(struct mutant *k, uint32_t i)
{
	return i + 1 < k->s->nstages && whole_stage(k, i, 0, 1) &&
	       whole_stage(k, i + 1, 1, -1);
}

/* ---- what stages hand each other ---- */

static bool
drop_sink(struct mutant *k, const struct site *x, enum ir_op op)
{
	if (is_op(k, x, op)) {
		unlist(k, x);
		return true;
	}
	return false;
}

static bool
copy_of(struct mutant *k, const struct site *x, enum ir_op op)
{
	if (!is_op(k, x, op)) {
		return false;
	}
	copy(k, x);
	return true;
}

static bool
rename_op(struct mutant *k, const struct site *x, enum ir_op op)
{
	return is_op(k, x, op) && rename_node(k, x, "mutant");
}

/* What it was, without it: a number that every rank makes. */
static bool
const_instead(struct mutant *k, const struct site *x, enum ir_op op)
{
	struct ir_type type;
	struct ir_new n;
	const char *why;
	value_id v;

	if (!is_op(k, x, op)) {
		return false;
	}
	type = *ir_type(k->m, node_at(k, x)->result);
	ir_new_init(&n, IR_CONST, (struct span){ 0, 0 });
	ir_new_num(&n, IR_ATTR_VALUE, 0.5);
	n.types[0] = type;
	v = ir_append(k->m, x->region, &n, &why);
	if (!v) {
		return false;
	}
	*own_type(k->m, v) = type;
	use_instead(k, node_at(k, x)->result, v);
	unlist(k, x);
	move(k, x->region, k->m->regions.at[x->region].nodes.n - 1, x->at);
	return true;
}

/* As another of that op in the function, whose type it has. */
static bool
twice_of_another(struct mutant *k, const struct site *x, enum ir_op op)
{
	uint32_t i;

	for (i = 0; is_op(k, x, op) && i < k->sites.n; i++) {
		const struct site *y = &k->sites.at[i];

		if (y->func == x->func && y->node != x->node &&
		    is_op(k, y, op) && attr_of(k, y->node, IR_ATTR_NAME)->text
		    != attr_of(k, x->node, IR_ATTR_NAME)->text) {
			return rename_node(k, x, ir_text(k->m->ctx,
				attr_of(k, y->node, IR_ATTR_NAME)->text));
		}
	}
	return false;
}

#define DAMAGE(id, how, op) \
	static bool \
	id(struct mutant *k, const struct site *x) \
	{ \
		return how(k, x, op); \
	}

DAMAGE(drop_send, drop_sink, IR_SEND)
DAMAGE(copy_send, copy_of, IR_SEND)
DAMAGE(rename_send, rename_op, IR_SEND)
DAMAGE(other_send, twice_of_another, IR_SEND)
DAMAGE(drop_recv, const_instead, IR_RECV)
DAMAGE(copy_recv, copy_of, IR_RECV)
DAMAGE(rename_recv, rename_op, IR_RECV)
DAMAGE(other_recv, twice_of_another, IR_RECV)
DAMAGE(drop_save, drop_sink, IR_SAVE)
DAMAGE(copy_save, copy_of, IR_SAVE)
DAMAGE(rename_save, rename_op, IR_SAVE)
DAMAGE(other_save, twice_of_another, IR_SAVE)
DAMAGE(drop_saved, const_instead, IR_SAVED)
DAMAGE(copy_saved, copy_of, IR_SAVED)
DAMAGE(rename_saved, rename_op, IR_SAVED)
DAMAGE(other_saved, twice_of_another, IR_SAVED)
DAMAGE(drop_accumulate, drop_sink, IR_ACCUMULATE)
DAMAGE(copy_accumulate, copy_of, IR_ACCUMULATE)
DAMAGE(rename_accumulate, rename_op, IR_ACCUMULATE)
DAMAGE(other_accumulate, twice_of_another, IR_ACCUMULATE)
DAMAGE(drop_gradient, const_instead, IR_GRADIENT)
DAMAGE(copy_gradient, copy_of, IR_GRADIENT)
DAMAGE(rename_gradient, rename_op, IR_GRADIENT)
DAMAGE(other_gradient, twice_of_another, IR_GRADIENT)
DAMAGE(drop_store, drop_sink, IR_STORE)
DAMAGE(copy_store, copy_of, IR_STORE)
DAMAGE(rename_store, rename_op, IR_STORE)
DAMAGE(other_store, twice_of_another, IR_STORE)
DAMAGE(recv_otherwise, otherwise, IR_RECV)
DAMAGE(saved_otherwise, otherwise, IR_SAVED)
DAMAGE(input_otherwise, otherwise, IR_INPUT)
DAMAGE(gradient_otherwise, otherwise, IR_GRADIENT)
DAMAGE(weight_otherwise, otherwise, IR_WEIGHT)
DAMAGE(state_otherwise, otherwise, IR_STATE)
DAMAGE(copy_weight, copy_of, IR_WEIGHT)
DAMAGE(rename_weight, rename_op, IR_WEIGHT)

/* The other end of a transfer. */
static const struct site *
other_end(const struct mutant *k, const struct site *x)
{
	uint32_t i;

	for (i = 0; i < k->sites.n; i++) {
		const struct site *y = &k->sites.at[i];

		if (is_op(k, y, IR_RECV) && y->func != x->func &&
		    ir_attr(k->m, node_at(k, y), IR_ATTR_NAME)->text ==
		    ir_attr(k->m, node_at(k, x), IR_ATTR_NAME)->text) {
			return y;
		}
	}
	return NULL;
}

/* Neither end; who received it takes a number instead. */
static bool
drop_transfer(struct mutant *k, const struct site *x)
{
	const struct site *y = is_op(k, x, IR_SEND) ? other_end(k, x) : NULL;

	return y && drop_sink(k, x, IR_SEND) && const_instead(k, y, IR_RECV);
}

static bool
peer_up(struct mutant *k, const struct site *x)
{
	struct ir_attr *a = attr_of(k, x->node, IR_ATTR_STAGE);

	if (a) {
		a->i++;
	}
	return a != NULL;
}

static bool
peer_down(struct mutant *k, const struct site *x)
{
	struct ir_attr *a = attr_of(k, x->node, IR_ATTR_STAGE);

	if (!a || a->i == 0) {
		return false;
	}
	a->i--;
	return true;
}

static bool
renamed_at_both_ends(struct mutant *k, const struct site *x)
{
	sym_t name;
	uint32_t i;

	if (!is_op(k, x, IR_SEND)) {
		return false;
	}
	name = attr_of(k, x->node, IR_ATTR_NAME)->text;
	for (i = 0; i < k->sites.n; i++) {
		const struct site *y = &k->sites.at[i];

		if (ir_is(node_at(k, y)->op, IRF_PEER) &&
		    !is_op(k, y, IR_SHARE) &&
		    attr_of(k, y->node, IR_ATTR_NAME)->text == name) {
			rename_node(k, y, "mutant");
		}
	}
	return true;
}

static bool
save_of_one_trip(struct mutant *k, const struct site *x)
{
	const char *name, *open;

	if (!ir_is(node_at(k, x)->op, IRF_STASH)) {
		return false;
	}
	name = ir_text(k->m->ctx, attr_of(k, x->node, IR_ATTR_NAME)->text);
	open = strchr(name, '{');
	return open && rename_node(k, x, arena_printf(&k->m->ctx->perm,
		"%.*s0", (int)(open - name), name));
}

/* To the end of its list. */
static bool
save_late(struct mutant *k, const struct site *x)
{
	if (!is_op(k, x, IR_SAVE)) {
		return false;
	}
	move(k, x->region, x->at, k->m->regions.at[x->region].nodes.n - 1);
	return true;
}

static bool
saved_early(struct mutant *k, const struct site *x)
{
	if (!is_op(k, x, IR_SAVED) || !is_update(k, x->func)) {
		return false;
	}
	move(k, x->region, x->at, 0);
	return true;
}

/* ---- sums, stores, shares ---- */

/* The weight of that name, which is no sum over time. */
static bool
accumulate_weight(struct mutant *k, const struct site *x)
{
	uint32_t i;

	for (i = 0; is_op(k, x, IR_ACCUMULATE) && i < k->sites.n; i++) {
		const struct site *y = &k->sites.at[i];

		if (y->func == x->func && is_op(k, y, IR_WEIGHT) &&
		    y->region == x->region && y->at < x->at) {
			ir_args(k->m, node_at(k, x))[0] =
				node_at(k, y)->result;
			return true;
		}
	}
	return false;
}

/* Another value of the same dims that is there already. */
static bool
store_another(struct mutant *k, const struct site *x)
{
	const struct ir_type *t, *s;
	uint32_t i;

	if (!is_op(k, x, IR_STORE)) {
		return false;
	}
	t = ir_type(k->m, ir_args(k->m, node_at(k, x))[0]);
	for (i = 0; i < x->at; i++) {
		const struct ir_node *n = ir_node(k->m, k->m->regions.at[
						  x->region].nodes.at[i]);

		if (n->nresults != 1 || n->region) {
			continue;
		}
		s = ir_type(k->m, n->result);
		if (ir_type_same(s, t) && !ir_type_equal(s, t)) {
			ir_args(k->m, node_at(k, x))[0] = n->result;
			return true;
		}
	}
	return false;
}

static bool
drop_share(struct mutant *k, const struct site *x)
{
	if (!is_op(k, x, IR_SHARE)) {
		return false;
	}
	use_instead(k, node_at(k, x)->result,
		    ir_args(k->m, node_at(k, x))[0]);
	unlist(k, x);
	return true;
}

static bool
drop_all_shares(struct mutant *k, uint32_t place)
{
	uint32_t i, n = 0;

	for (i = 0; i < k->sites.n && place == 0; i++) {
		struct site *x = &k->sites.at[i];
		uint32_t at = 0;

		if (!is_op(k, x, IR_SHARE)) {
			continue;
		}
		while (k->m->regions.at[x->region].nodes.at[at] != x->node) {
			at++;
		}
		x->at = at;
		n += drop_share(k, x);
	}
	return n > 0;
}

DAMAGE(rename_share, rename_op, IR_SHARE)
DAMAGE(other_share, twice_of_another, IR_SHARE)

/* The next share, and the gradient that it is of, come first. */
static bool
swap_shares(struct mutant *k, const struct site *x)
{
	const struct ir_region *r = &k->m->regions.at[x->region];
	uint32_t i;

	for (i = x->at + 1; is_op(k, x, IR_SHARE) && i < r->nodes.n; i++) {
		if (ir_node(k->m, r->nodes.at[i])->op == IR_SHARE) {
			move(k, x->region, i, x->at - 1);
			move(k, x->region, i, x->at - 1);
			return true;
		}
	}
	return false;
}

static bool
put_share(struct mutant *k, const struct site *x)
{
	struct ir_type type;
	struct ir_new n;

	if (!is_op(k, x, IR_GRADIENT)) {
		return false;
	}
	type = *ir_type(k->m, node_at(k, x)->result);
	ir_new_init(&n, IR_SHARE, (struct span){ 0, 0 });
	ir_new_text(&n, IR_ATTR_NAME, attr_of(k, x->node,
					      IR_ATTR_NAME)->text);
	return put_behind(k, x, &n, &type);
}

/* The gradient passes its share by. */
static bool
past_share(struct mutant *k, const struct site *x)
{
	const struct ir_region *r = &k->m->regions.at[x->region];
	value_id v = node_at(k, x)->result;
	uint32_t i, j;

	for (i = x->at + 1; is_op(k, x, IR_SHARE) && i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(k->m, r->nodes.at[i]);

		for (j = 0; j < n->nargs; j++) {
			if (ir_args(k->m, n)[j] == v) {
				ir_args(k->m, n)[j] = ir_args(k->m,
							node_at(k, x))[0];
				return true;
			}
		}
	}
	return false;
}

/* Each rank of the pipeline takes its own part for the sum. */
static bool
pipes_not_added(struct mutant *k, const struct site *x)
{
	axis_id pp = ir_axis_find(k->m, intern_str(&k->m->ctx->syms, "pp"));
	struct ir_along whole = { IR_IS_WHOLE, 0 };
	const struct ir_attr *on = attr_of(k, x->node, IR_ATTR_ON);

	if (!is_op(k, x, IR_ALL_REDUCE) || !pp || on->dims[0] != pp) {
		return false;
	}
	ir_set_along(own_type(k->m, ir_args(k->m, node_at(k, x))[0]), pp,
		     whole);
	return drop_collective(k, x);
}

/* A sum over tensors is read before they are in it. */
static bool
read_early(struct mutant *k, const struct site *x)
{
	if (!is_op(k, x, IR_GRADIENT) || !is_update(k, x->func) ||
	    strcmp(ir_text(k->m->ctx, attr_of(k, x->node, IR_ATTR_NAME)
			   ->text), "gradient_norm.squared") != 0) {
		return false;
	}
	move(k, x->region, x->at, 0);
	return true;
}

/* What the node is made of, once more, in another list. */
static value_id
clone(struct mutant *k, value_id v, region_id to, const value_id *instead)
{
	struct ir_module *m = k->m;
	struct ir_node n = *ir_node(m, m->values.at[v].node);
	struct ir_new c;
	const char *why;
	value_id made;
	uint32_t i;

	if (instead[v]) {
		return instead[v];
	}
	ir_new_init(&c, n.op, n.span);
	for (i = 0; i < n.nattrs; i++) {
		*ir_new_attr(&c, m->attrs.at[n.attrs + i].key) =
			m->attrs.at[n.attrs + i];
	}
	for (i = 0; i < n.nargs; i++) {
		ir_new_arg(&c, clone(k, ir_args(m, &n)[i], to, instead));
	}
	c.types[0] = *ir_type(m, n.result);
	made = ir_append(m, to, &c, &why);
	m->values.at[made].type = m->values.at[n.result].type;
	return made;
}

static bool
made_of(const struct mutant *k, value_id v, value_id of)
{
	const struct ir_node *n = ir_node(k->m, k->m->values.at[v].node);
	uint32_t i;

	for (i = 0; i < n->nargs; i++) {
		if (ir_args(k->m, n)[i] == of ||
		    made_of(k, ir_args(k->m, n)[i], of)) {
			return true;
		}
	}
	return false;
}

/* The sink of that operand; 0 if there is none. */
static const struct site *
sum_of(const struct mutant *k, func_id f, value_id part)
{
	uint32_t i;

	for (i = 0; i < k->sites.n; i++) {
		const struct site *x = &k->sites.at[i];

		if (x->func == f && is_op(k, x, IR_ACCUMULATE) &&
		    made_of(k, ir_args(k->m, node_at(k, x))[0], part)) {
			return x;
		}
	}
	return NULL;
}

/* A second holder of a tensor counts it in the norm. */
static bool
counted_by_two(struct mutant *k, const struct site *x)
{
	struct ir_module *m = k->m;
	value_id *instead = arena_alloc(&m->ctx->perm, m->values.n *
					sizeof *instead), v;
	const struct site *y, *sum;
	struct ir_new n;
	const char *why;
	uint32_t i;

	if (!is_op(k, x, IR_SHARE) || sum_of(k, x->func,
					     node_at(k, x)->result)) {
		return false;
	}
	for (i = 0; i < k->sites.n; i++) {
		y = &k->sites.at[i];
		sum = is_op(k, y, IR_SHARE) && attr_of(k, y->node,
			IR_ATTR_NAME)->text == attr_of(k, x->node,
			IR_ATTR_NAME)->text
			? sum_of(k, y->func, node_at(k, y)->result) : NULL;
		if (!sum) {
			continue;
		}
		instead[node_at(k, y)->result] = node_at(k, x)->result;
		ir_new_init(&n, IR_ACCUMULATE, (struct span){ 0, 0 });
		i = m->regions.at[x->region].nodes.n;
		v = clone(k, ir_args(m, node_at(k, sum))[0], x->region,
			  instead);
		ir_new_arg(&n, v);
		ir_new_text(&n, IR_ATTR_NAME, attr_of(k, sum->node,
						      IR_ATTR_NAME)->text);
		ir_append_sink(m, x->region, &n, &why);
		for (; i < m->regions.at[x->region].nodes.n; i++) {
			move(k, x->region, m->regions.at[x->region].nodes.n -
			     1, x->at + 1);
		}
		return true;
	}
	return false;
}

/* ---- functions and schedules ---- */

static bool
empty_function(struct mutant *k, func_id f, uint32_t i)
{
	struct ir_region *r = &k->m->regions.at[k->m->funcs.at[f].body];

	if (i > 0 || r->results.n || !r->nodes.n) {
		return false;
	}
	r->nodes.n = 0;
	return true;
}

static bool
rename_function(struct mutant *k, func_id f, uint32_t i)
{
	if (i == 0) {
		k->m->funcs.at[f].name = intern_str(&k->m->ctx->syms,
						    "mutant");
	}
	return i == 0;
}

static bool
swap_functions(struct mutant *k, func_id f, uint32_t i)
{
	func_id g = f + 1 + i;
	region_id body;

	if (g >= k->m->funcs.n || i > 2) {
		return false;
	}
	body = k->m->funcs.at[f].body;
	k->m->funcs.at[f].body = k->m->funcs.at[g].body;
	k->m->funcs.at[g].body = body;
	return true;
}

static bool
no_result(struct mutant *k, func_id f, uint32_t i)
{
	struct ir_region *r = &k->m->regions.at[k->m->funcs.at[f].body];

	if (i > 0 || !r->results.n) {
		return false;
	}
	r->results.n = 0;
	return true;
}

/* The i-th action of all, and its rank. */
static struct sched_list *
action(struct mutant *k, uint32_t *i)
{
	uint32_t r;

	for (r = 0; r < k->s->nranks; r++) {
		if (*i < k->s->ranks[r].actions.n) {
			return &k->s->ranks[r];
		}
		*i -= k->s->ranks[r].actions.n;
	}
	return NULL;
}

static bool
swap_actions(struct mutant *k, uint32_t i)
{
	struct sched_list *l = action(k, &i);
	struct sched_action a;

	if (!l || i + 1 >= l->actions.n) {
		return false;
	}
	a = l->actions.at[i];
	l->actions.at[i] = l->actions.at[i + 1];
	l->actions.at[i + 1] = a;
	return true;
}

static bool
drop_action(struct mutant *k, uint32_t i)
{
	struct sched_list *l = action(k, &i);

	if (l) {
		memmove(&l->actions.at[i], &l->actions.at[i + 1],
			(--l->actions.n - i) * sizeof *l->actions.at);
	}
	return l != NULL;
}

static bool
action_twice(struct mutant *k, uint32_t i)
{
	struct sched_list *l = action(k, &i);

	if (l) {
		VEC_PUSH(&k->m->ctx->perm, &l->actions, l->actions.at[i]);
	}
	return l != NULL;
}

static bool
action_of_another_rank(struct mutant *k, uint32_t i)
{
	struct sched_list *l = action(k, &i);
	struct sched_action a;

	if (!l || k->s->nranks == 1) {
		return false;
	}
	a = l->actions.at[i];
	memmove(&l->actions.at[i], &l->actions.at[i + 1],
		(--l->actions.n - i) * sizeof *l->actions.at);
	l = l == &k->s->ranks[0] ? l + 1 : l - 1;
	VEC_PUSH(&k->m->ctx->perm, &l->actions, a);
	return true;
}

static bool
stages_swapped(struct mutant *k, uint32_t i)
{
	uint32_t was;

	if (i + 1 >= k->s->nstages) {
		return false;
	}
	was = k->s->rank_of[i];
	k->s->rank_of[i] = k->s->rank_of[i + 1];
	k->s->rank_of[i + 1] = was;
	return was != k->s->rank_of[i];
}

/* ---- the plan ---- */

static bool
plan_number(struct mutant *k, uint32_t i)
{
	struct ir_setting *s;

	if (i >= k->m->settings.n) {
		return false;
	}
	s = &k->m->settings.at[i];
	if (strncmp(ir_text(k->m->ctx, s->key), "plan.", 5) != 0 ||
	    s->kind != SET_NUM ||
	    strcmp(ir_text(k->m->ctx, s->key), "plan.zero") == 0) {
		return false;
	}
	s->num[0] += 1;
	return true;
}

#endif

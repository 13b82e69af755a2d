/*
 * The functions of the stages.  Each is built by walking the model's body and
 * copying the nodes that belong to it.  If a copied node uses a value that the
 * function lacks, the value is recomputed, received, or read from what forward
 * saved, and the function that computes it gets the matching `send` or `save`.
 * So only values that are used cross.  Functions are built in the order of data
 * flow: forward from the first stage, then backward from the last.
 */
#include "passes/stage/stage.h"

#include <string.h>

/* ---- nodes ---- */

static void
like_node(const struct ir_module *m, node_id id, struct ir_new *n)
{
	const struct ir_node *like = ir_node(m, id);
	uint32_t i;

	ir_new_init(n, like->op, like->span);
	for (i = 0; i < like->nattrs; i++) {
		struct ir_attr a = m->attrs.at[like->attrs + i];

		*ir_new_attr(n, a.key) = a;
	}
}

static value_id
append(struct ir_module *m, region_id to, struct ir_new *n)
{
	const char *why = "?";
	value_id v = 0;
	bool ok = n->nresults == 0 || ir_is(n->op, IRF_SINK)
		? ir_append_sink(m, to, n, &why)
		: (v = ir_append(m, to, n, &why)) != 0;

	if (!ok) {
		die("a %s that does not fit: %s", ir_ops[n->op].name, why);
	}
	return v;
}

value_id
stage_append_repeat(struct ir_module *m, region_id to, node_id like,
		    const struct ir_new *carried, region_id body,
		    const struct stage_range *iters)
{
	struct ir_new n, old;
	uint32_t i;

	like_node(m, like, &old);
	n = *carried;
	n.op = old.op;
	n.span = old.span;
	n.region = body;
	for (i = 0; i < old.nattrs; i++) {
		if (old.attrs[i].key != IR_ATTR_COUNT &&
		    old.attrs[i].key != IR_ATTR_START) {
			*ir_new_attr(&n, old.attrs[i].key) = old.attrs[i];
		}
	}
	ir_new_int(&n, IR_ATTR_COUNT, iters->count);
	if (iters->start) {
		ir_new_int(&n, IR_ATTR_START, iters->start);
	}
	return append(m, to, &n);
}

/*
 * put() appends a sink of that name, take() the source that reads it; where a
 * function is only followed (see struct stage_fn), nothing.
 */
static void
put(struct stage *st, enum ir_op op, region_id r, value_id v, sym_t name,
    uint32_t peer)
{
	struct ir_new n;

	if (!r) {
		return;
	}
	ir_new_init(&n, op, (struct span){ 0, 0 });
	ir_new_arg(&n, v);
	ir_new_text(&n, IR_ATTR_NAME, name);
	if (ir_is(op, IRF_PEER)) {
		ir_new_int(&n, IR_ATTR_STAGE, peer);
	}
	append(st->m, r, &n);
}

static value_id
take(struct stage *st, enum ir_op op, region_id r, value_id like, sym_t name,
     uint32_t peer)
{
	struct ir_new n;

	if (!r) {
		return like;
	}
	ir_new_init(&n, op, (struct span){ 0, 0 });
	n.types[0] = *ir_type(st->m, like);
	n.hint = st->m->values.at[like].hint;
	ir_new_text(&n, IR_ATTR_NAME, name);
	if (ir_is(op, IRF_PEER)) {
		ir_new_int(&n, IR_ATTR_STAGE, peer);
	}
	return append(st->m, r, &n);
}

static sym_t
name(struct stage *st, const char *text)
{
	return intern_str(&st->m->ctx->syms, text);
}

/* ---- values of the model's body ---- */

uint32_t
stage_fn_of(const struct stage *st, enum stage_phase phase, uint32_t stage)
{
	return (uint32_t)phase * st->nstages + stage;
}

/* Sends v under a name such as "x.3": the fourth send of its stage. */
static value_id
transfer(struct stage *st, uint32_t from, uint32_t to, value_id v)
{
	struct stage_fn *a = &st->fns[from], *b = &st->fns[to];
	sym_t hint = st->m->values.at[v].hint;
	sym_t s = name(st, arena_printf(st->a, "%s.%u", hint
		? ir_text(st->m->ctx, hint) : a->phase == STAGE_FORWARD
		? "x" : "dx", st->sends[a->stage]++));

	put(st, IR_SEND, a->region, stage_bring(st, from, v), s, b->stage);
	return take(st, IR_RECV, b->region, v, s, a->stage);
}

/* Saves v, e.g. as "top.2.0": stage 2's first save outside of repeats. */
static value_id
keep(struct stage *st, uint32_t from, uint32_t to, value_id v)
{
	uint32_t s = st->fns[from].stage;
	sym_t text = name(st, arena_printf(st->a, "top.%u.%u", s,
					   st->saves[s]++));

	put(st, IR_SAVE, st->fns[from].region, stage_bring(st, from, v),
	    text, 0);
	return take(st, IR_SAVED, st->fns[to].region, v, text, 0);
}

/* Gets a value that another function computes. */
static value_id
cross(struct stage *st, uint32_t f, value_id v)
{
	struct stage_fn *fn = &st->fns[f];
	uint32_t t = st->top[v], from = st->made[t] - 1;
	uint32_t back = stage_fn_of(st, STAGE_BACKWARD, fn->stage);
	const struct stage_fn *g = &st->fns[from];

	if (!st->made[t]) {
		die("value %u is used before it is made", v);
	}
	if (fn->phase == STAGE_FORWARD) {
		return transfer(st, from, f, v);
	}
	if (fn->phase == STAGE_WEIGHTS &&
	    (st->fns[back].has[t] || g->phase != STAGE_FORWARD ||
	     g->stage > fn->stage)) {
		return keep(st, back, f, v);
	}
	if (g->phase != STAGE_FORWARD) {
		return transfer(st, from, f, v);
	}
	if (g->stage <= fn->stage) {
		return keep(st, fn->stage, f, v);
	}
	return transfer(st, stage_fn_of(st, STAGE_BACKWARD, g->stage), f, v);
}

/* The same node in region `to`; where that is 0, its first result itself. */
static value_id
copy_to(struct ir_module *m, region_id to, node_id like, const value_id *args)
{
	return to ? ir_append_like(m, to, like, args)
		  : ir_node(m, like)->result;
}

static value_id
copy_plain(struct stage *st, uint32_t f, node_id id, region_id to)
{
	struct ir_module *m = st->m;
	value_id args[IR_MAX_ARGS];
	uint32_t i;

	for (i = 0; i < ir_node(m, id)->nargs; i++) {
		args[i] = stage_bring(st, f, ir_args(m, ir_node(m, id))[i]);
	}
	return copy_to(m, to, id, args);
}

static value_id
bring_top(struct stage *st, uint32_t f, value_id v)
{
	uint32_t t = st->top[v];

	if (!st->fns[f].has[t]) {
		value_id x = st->copied[v]
			? copy_plain(st, f, st->m->values.at[v].node,
				     st->fns[f].region)
			: cross(st, f, v);

		st->fns[f].has[t] = x;
	}
	return st->fns[f].has[t];
}

/* ---- values of a repeat's body ---- */

static sym_t
variable(struct stage *st, node_id repeat)
{
	const struct ir_attr *a = ir_attr(st->m, ir_node(st->m, repeat),
					  IR_ATTR_VAR);

	return a ? a->text
		 : name(st, arena_printf(st->a, "iteration%u", repeat));
}

/* "split4.{i}": one name per iteration of each repeat around the value. */
static sym_t
split_name(struct stage *st, value_id v)
{
	region_id r;
	struct buf b;

	if (!st->crossed[v]) {
		st->crossed[v] = ++st->ncrossed;
	}
	buf_init(&b, st->a);
	buf_printf(&b, "split%u", st->crossed[v] - 1);
	for (r = st->home[v]; r != st->body; r = st->outer[r]) {
		sym_t var = variable(st, st->m->regions.at[r].owner);

		buf_printf(&b, ".{%s}", ir_text(st->m->ctx, var));
	}
	return name(st, buf_text(&b));
}

static uint32_t
slot_of(const struct stage *st, uint32_t f)
{
	return st->fns[f].phase == STAGE_WEIGHTS;
}

static void
set_local(struct stage *st, uint32_t f, value_id v, value_id x)
{
	struct stage_local l = { x, f + 1 };

	st->local[slot_of(st, f)][v] = l;
}

/* The copy of v in the function; v is in a body that is being copied. */
static value_id
bring_local(struct stage *st, uint32_t f, value_id v)
{
	uint32_t slot = slot_of(st, f);
	const struct stage_local *l = &st->local[slot][v];
	const struct stage_local *in = &st->local[0][v];
	region_id to = st->copy_of[slot][st->home[v]];
	value_id x;

	if (l->fn == f + 1) {
		return l->value;
	}
	if (st->copied[v]) {
		x = copy_plain(st, f, st->m->values.at[v].node, to);
	} else if (slot == 1 && in->fn == stage_fn_of(st, STAGE_BACKWARD,
						st->fns[f].stage) + 1) {
		sym_t s = split_name(st, v);

		put(st, IR_SAVE, st->copy_of[0][st->home[v]], in->value, s,
		    0);
		x = take(st, IR_SAVED, to, v, s, 0);
	} else {
		die("value %u is used where it is not made", v);
	}
	set_local(st, f, v, x);
	return x;
}

value_id
stage_bring(struct stage *st, uint32_t f, value_id v)
{
	return st->top[v] ? bring_top(st, f, v) : bring_local(st, f, v);
}

static void
set_result(struct stage *st, uint32_t f, value_id v, value_id x)
{
	if (st->top[v]) {
		st->fns[f].has[st->top[v]] = x;
		st->made[st->top[v]] = f + 1;
	} else {
		set_local(st, f, v, x);
	}
}

/* ---- nodes of a function ---- */

/* Whether the function's copy of the repeat has carried value k. */
static bool
carries(const struct stage *st, uint32_t f, node_id repeat, uint32_t k)
{
	const struct ir_node *n = ir_node(st->m, repeat);
	const struct ir_region *r = &st->m->regions.at[n->region];
	bool on = st->chain[n->result + k] || st->chain[r->params.at[k]];

	return !st->split || st->fns[f].phase == STAGE_FORWARD ||
	       on == (st->fns[f].phase == STAGE_BACKWARD);
}

static bool
belongs(const struct stage *st, uint32_t f, node_id id)
{
	const struct ir_node *n = ir_node(st->m, id);
	uint32_t k;

	if (n->nresults == 1 && st->copied[n->result]) {
		return false;
	}
	if (!st->split || st->fns[f].phase == STAGE_FORWARD) {
		return true;
	}
	if (n->region && st->fns[f].phase == STAGE_WEIGHTS) {
		return true;
	}
	for (k = 0; n->region && k < n->nresults; k++) {
		if (carries(st, f, id, k)) {
			return true;
		}
	}
	return !n->region && (n->nresults == 1 && st->chain[n->result]) ==
	       (st->fns[f].phase == STAGE_BACKWARD);
}

static void copy_nodes(struct stage *st, uint32_t f, region_id from,
		       region_id to);

/* Gives the copied repeat its carried values and its body's parameters. */
static void
enter_repeat(struct stage *st, uint32_t f, node_id id, bool first,
	     region_id body, struct ir_new *carried)
{
	struct ir_module *m = st->m;
	struct ir_node n = *ir_node(m, id);
	uint32_t k;

	ir_new_init(carried, n.op, n.span);
	carried->nresults = 0;
	for (k = 0; k < n.nresults; k++) {
		value_id v = m->regions.at[n.region].params.at[k];
		struct ir_type type = *ir_type(m, v);

		if (!carries(st, f, id, k)) {
			continue;
		}
		/* a later range starts from the result of an earlier one */
		ir_new_arg(carried, stage_bring(st, f, first ? ir_args(m, &n)[k]
					  : n.result + k));
		carried->types[carried->nresults++] = type;
		set_local(st, f, v, !body ? v
			  : ir_param_add(m, body, &type,
					 m->values.at[v].hint));
	}
	if (st->split && !ir_attr(m, &n, IR_ATTR_VAR)) {
		ir_new_text(carried, IR_ATTR_VAR, variable(st, id));
	}
}

static void
add_result(struct ir_module *m, region_id to, value_id v)
{
	if (to) {
		VEC_PUSH(&m->ctx->perm, &m->regions.at[to].results, v);
	}
}

static void
copy_repeat(struct stage *st, uint32_t f, node_id id, bool first,
	    const struct stage_range *iters, region_id to)
{
	struct ir_module *m = st->m;
	struct ir_node n = *ir_node(m, id);
	region_id body = to ? ir_region_add(m, 0) : 0;
	struct ir_new carried;
	uint32_t k;
	value_id v;

	enter_repeat(st, f, id, first, body, &carried);
	st->copy_of[slot_of(st, f)][n.region] = body;
	copy_nodes(st, f, n.region, body);
	for (k = 0; k < n.nresults; k++) {
		if (carries(st, f, id, k)) {
			v = stage_bring(st, f, m->regions.at[n.region].results
				  .at[k]);
			add_result(m, body, v);
		}
	}
	v = to ? stage_append_repeat(m, to, id, &carried, body, iters) : 0;
	for (k = 0; k < n.nresults; k++) {
		if (carries(st, f, id, k) && to) {
			m->values.at[v].hint = m->values.at[n.result + k].hint;
			set_result(st, f, n.result + k, v++);
		} else if (carries(st, f, id, k)) {
			set_result(st, f, n.result + k, n.result + k);
		}
	}
}

static void
copy_node(struct stage *st, uint32_t f, node_id id, region_id to)
{
	const struct ir_node *n = ir_node(st->m, id);
	value_id result = n->result, v;

	if (n->region) {
		struct stage_range iters = stage_range_of(st->m, n);

		copy_repeat(st, f, id, true, &iters, to);
		return;
	}
	v = copy_plain(st, f, id, to);
	if (v) {
		set_result(st, f, result, v);
	}
}

static void
copy_nodes(struct stage *st, uint32_t f, region_id from, region_id to)
{
	uint32_t i;

	for (i = 0; i < st->m->regions.at[from].nodes.n; i++) {
		node_id id = st->m->regions.at[from].nodes.at[i];

		if (belongs(st, f, id)) {
			copy_node(st, f, id, to);
		}
	}
}

/* ---- sums whose terms are accumulated separately ---- */

struct parts {
	struct stage *st;
	const struct stage_item *sink;
	VEC(node_id) through;	/* linear ops passed, from the sink on */
};

static void
put_part(struct parts *p, value_id v)
{
	struct stage *st = p->st;
	uint32_t f = stage_fn_of(st, st->split ? STAGE_WEIGHTS
				 : STAGE_BACKWARD,
				 stage_of_part(st, v, p->sink->stage));
	value_id x = stage_bring(st, f, v);
	uint32_t i;

	for (i = p->through.n; i-- > 0;) {
		x = copy_to(st->m, st->fns[f].region, p->through.at[i], &x);
	}
	copy_to(st->m, st->fns[f].region, p->sink->node, &x);
}

static void
put_parts(struct parts *p, value_id v)
{
	const struct ir_module *m = p->st->m;
	node_id id = m->values.at[v].node;
	bool add = ir_node(m, id)->op == IR_ADD;
	uint32_t i, n = p->through.n;

	if (!stage_maker(p->st, v)->apart) {
		put_part(p, v);
		return;
	}
	if (!add) {
		VEC_PUSH(p->st->a, &p->through, id);
	}
	for (i = 0; i < ir_node(m, id)->nargs; i++) {
		put_parts(p, ir_args(m, ir_node(m, id))[i]);
	}
	p->through.n = n;
}

static void
put_sum(struct stage *st, const struct stage_item *sink)
{
	struct parts p = { .st = st, .sink = sink };

	put_parts(&p, ir_args(st->m, ir_node(st->m, sink->node))[0]);
}

/* ---- functions ---- */

static void
fill(struct stage *st, uint32_t f)
{
	struct stage_fn *fn = &st->fns[f];
	uint32_t i;

	for (i = 0; i < st->items.n; i++) {
		const struct stage_item *it = &st->items.at[i];
		struct stage_range r = stage_trips(st, it, fn->stage);
		bool first = fn->phase == STAGE_FORWARD
			? r.start == it->iters.start
			: r.start + r.count == it->iters.start +
					       it->iters.count;

		if (it->backward != (fn->phase != STAGE_FORWARD) ||
		    !belongs(st, f, it->node) || it->apart) {
			continue;
		}
		if (it->spread && it->stage == fn->stage) {
			put_sum(st, it);
		} else if (it->cut && r.count) {
			copy_repeat(st, f, it->node, first, &r, fn->region);
		} else if (!it->cut && it->stage == fn->stage) {
			copy_node(st, f, it->node, fn->region);
		}
	}
}

static void
add_function(struct stage *st, enum stage_phase phase, uint32_t stage)
{
	static const char *const names[2][STAGE_NPHASES] = {
		{ "forward", "backward", NULL },
		{ "forward", "input", "weights" }
	};
	struct stage_fn *fn = &st->fns[stage_fn_of(st, phase, stage)];
	struct ir_module *m = st->m;
	const char *what = names[st->split][phase];
	struct span span = m->funcs.at[ir_model(m)].span;
	func_id f = ir_func_add(m, name(st, arena_printf(st->a, "stage%u_%s",
							 stage, what)),
				false, span);

	fn->region = !st->only || st->only[stage] ? m->funcs.at[f].body : 0;
	fn->stage = stage;
	fn->phase = phase;
	fn->has = arena_alloc(st->a, (st->ntop + 1) * sizeof *fn->has);
}

static void
allocate(struct stage *st)
{
	struct arena *a = st->a;
	uint32_t nregions = st->m->regions.n, i, n = st->nvalues;
	size_t nfns = (size_t)STAGE_NPHASES * st->nstages;

	st->fns = arena_alloc(a, nfns * sizeof *st->fns);
	st->made = arena_alloc(a, (st->ntop + 1) * sizeof *st->made);
	st->crossed = arena_alloc(a, n * sizeof *st->crossed);
	st->sends = arena_alloc(a, st->nstages * sizeof *st->sends);
	st->saves = arena_alloc(a, st->nstages * sizeof *st->saves);
	for (i = 0; i < 2; i++) {
		st->local[i] = arena_alloc(a, n * sizeof *st->local[i]);
		st->copy_of[i] = arena_alloc(a, nregions *
					     sizeof *st->copy_of[i]);
	}
}

void
stage_emit(struct stage *st)
{
	struct ir_module *m = st->m;
	uint32_t s, k, last = st->nstages - 1;

	allocate(st);
	for (s = 0; s < st->nstages; s++) {
		for (k = 0; k < (st->split ? STAGE_NPHASES : 2u); k++) {
			add_function(st, k, s);
		}
	}
	for (s = 0; s < st->nstages; s++) {
		fill(st, stage_fn_of(st, STAGE_FORWARD, s));
	}
	for (k = 0; k < m->regions.at[st->body].results.n; k++) {
		value_id v = m->regions.at[st->body].results.at[k];

		v = stage_bring(st, stage_fn_of(st, STAGE_FORWARD, last), v);
		add_result(m, st->fns[last].region, v);
	}
	for (s = st->nstages; s-- > 0;) {
		fill(st, stage_fn_of(st, STAGE_BACKWARD, s));
		if (st->split) {
			fill(st, stage_fn_of(st, STAGE_WEIGHTS, s));
		}
	}
}

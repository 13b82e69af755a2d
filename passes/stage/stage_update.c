/*
 * The update of each pipeline rank: the layers without operands, restricted to
 * the tensors that its stages use.
 *
 * Ranks hold the tensors that their stages use (stage_holders.c).  A repeat of
 * the update becomes one repeat per run of iterations with the same holders.  A
 * tensor that several ranks hold is shared: each rank adds the others'
 * gradients to its own, so that all update it alike; a sum over all tensors
 * counts it on its first rank only.
 */
#include "passes/stage/stage_holders.h"

#include <stdlib.h>
#include <string.h>

/* The runs of iterations that a repeat is cut into, alike on all ranks. */
struct cut {
	node_id repeat;
	VEC(int64_t) ends;	/* where runs end, ascending */
	/*
	 * by run, the last for all iterations together; by rank: whether a sink
	 * of it runs there
	 */
	bool *kept;
};

struct update {
	struct stage *st;
	struct ir_module *m;
	struct stage_holders held;
	size_t nsyms;		/* names before this file adds any */
	bool *cell;		/* by name: a sum, not a tensor */
	sym_t *owner;		/* by node: the tensor a sink belongs to */
	bool *same; /* by node: one tensor for all iterations */
	uint32_t *seen;		/* by value: the last search to visit it */
	uint32_t searches;
	bool failed;
	/* the function at hand */
	uint32_t pipe;
	value_id *map;		/* its copy, by value */
	value_id *shared;	/* by name: its `share` outside of repeats */
	/* the repeat at hand */
	const struct stage_range *iters;	/* NULL: not in a repeat */
	bool fixed;		/* only sinks that are `same` */
	VEC(struct cut) cuts;	/* of repeats cut so far */
};

static sym_t
name_of(const struct update *u, const struct ir_node *n)
{
	return ir_attr(u->m, n, IR_ATTR_NAME)->text;
}

/* ---- tensors of sinks ---- */

static sym_t
known(const struct update *u, sym_t name)
{
	return stage_is_held(&u->held, name) ? name : 0;
}

/* The tensor that a source reads, or 0. */
static sym_t
source_of(const struct update *u, const struct ir_node *n)
{
	return ir_is(n->op, IRF_SOURCE) && !ir_is(n->op, IRF_UNIQUE) &&
	       ir_op_takes(n->op, IR_ATTR_NAME) != IR_TAKES_NOT
		? known(u, name_of(u, n)) : 0;
}

/* Finds the tensor that v is computed from; repeats are not entered. */
static void
find_tensors(struct update *u, value_id v, sym_t *found)
{
	const struct ir_node *n = ir_node(u->m, u->m->values.at[v].node);
	sym_t name;
	uint32_t i;

	if (u->seen[v] == u->searches || !u->m->values.at[v].node ||
	    n->region) {
		return;
	}
	u->seen[v] = u->searches;
	for (i = 0; i < n->nargs; i++) {
		find_tensors(u, ir_args(u->m, n)[i], found);
	}
	name = source_of(u, n);
	if (name && *found && name != *found) {
		u->failed = true;
	}
	*found = *found ? *found : name;
}

/*
 * A sink's tensor: by its name, without suffixes (`w.exp_avg`), or by its
 * value.
 */
static sym_t
owner_of(struct update *u, const struct ir_node *sink)
{
	struct ir_ctx *c = u->m->ctx;
	const char *text = ir_text(c, name_of(u, sink)), *dot;
	sym_t found = known(u, name_of(u, sink));

	for (dot = strrchr(text, '.'); dot && !found;
	     dot = strrchr(text, '.')) {
		text = arena_strndup(&c->tmp, text, (size_t)(dot - text));
		found = known(u, intern_str(&c->syms, text));
	}
	if (!found) {
		u->searches++;
		find_tensors(u, ir_args(u->m, sink)[0], &found);
	}
	if (u->failed) {
		diag_error(&c->diags, sink->span, "what is put into `%s` is "
			   "made from several tensors, which may lie on "
			   "several pipeline ranks",
			   ir_text(c, name_of(u, sink)));
	}
	return found;
}

/* Whether the name denotes one tensor in all iterations. */
static bool
is_same(const struct update *u, sym_t name, sym_t var)
{
	const struct ir_ctx *c = u->m->ctx;

	return name && !(var && pass_mentions(ir_text(c, name),
					      ir_text(c, var)));
}

/* `repeat` is the outermost repeat around the region, or NULL. */
static void
find_owners(struct update *u, region_id id, const struct ir_node *repeat)
{
	const struct ir_attr *var = repeat ? ir_attr(u->m, repeat, IR_ATTR_VAR)
					   : NULL;
	uint32_t i;

	for (i = 0; i < u->m->regions.at[id].nodes.n && !u->failed; i++) {
		node_id k = u->m->regions.at[id].nodes.at[i];
		const struct ir_node *n = ir_node(u->m, k);

		if (n->region) {
			find_owners(u, n->region, repeat ? repeat : n);
		} else if (ir_is(n->op, IRF_SINK)) {
			u->owner[k] = owner_of(u, n);
			u->same[k] = is_same(u, u->owner[k],
					     var ? var->text : 0);
			u->cell[name_of(u, n)] |= n->op == IR_ACCUMULATE &&
						  !known(u, name_of(u, n));
		}
	}
}

/* ---- copies ---- */

/* Whether this rank has the node in the iterations at hand. */
static bool
keeps(struct update *u, node_id id)
{
	const struct ir_node *n = ir_node(u->m, id);
	sym_t owner = u->owner[id];

	if (!ir_is(n->op, IRF_SINK)) {
		return true;
	}
	if (u->iters && u->same[id] != u->fixed) {
		return false;
	}
	if (!owner && n->op != IR_ACCUMULATE) {
		return true;
	}
	return u->cell[name_of(u, n)]
		? stage_holding(&u->held, owner, u->iters)->first == u->pipe
		: stage_holds(&u->held, u->pipe, owner, u->iters);
}

/*
 * `part` is this rank's partial sum over tensors; returns the all-reduced one.
 */
static value_id
whole_sum(struct update *u, value_id part, region_id to)
{
	struct ir_along sum = { .how = IR_IS_PART };
	type_id whole = u->m->values.at[part].type;
	struct ir_type t = *ir_type(u->m, part);
	struct ir_new n;
	struct ir_attr *on;
	const char *why;
	value_id v;

	ir_set_along(&t, u->st->pp, sum);
	u->m->values.at[part].type = ir_type_keep(u->m->ctx, &t);
	ir_new_init(&n, IR_ALL_REDUCE,
		    u->m->nodes.at[u->m->values.at[part].node].span);
	ir_new_arg(&n, part);
	on = ir_new_attr(&n, IR_ATTR_ON);
	on->dims[on->ndims++] = u->st->pp;
	v = ir_append(u->m, to, &n, &why);
	if (!v) {
		die("a bad all_reduce: %s", why);
	}
	u->m->values.at[v].type = whole;
	return v;
}

static value_id
share(struct update *u, sym_t name, value_id part, region_id to)
{
	type_id type = u->m->values.at[part].type;
	struct ir_new n;
	const char *why;
	value_id v;

	if (!u->iters && u->shared[name]) {
		return u->shared[name];
	}
	ir_new_init(&n, IR_SHARE,
		    u->m->nodes.at[u->m->values.at[part].node].span);
	ir_new_arg(&n, part);
	ir_new_text(&n, IR_ATTR_NAME, name);
	v = ir_append(u->m, to, &n, &why);
	if (!v) {
		die("a bad share: %s", why);
	}
	u->m->values.at[v].type = type;
	u->shared[name] = u->iters ? 0 : v;
	return v;
}

static void copy_nodes(struct update *u, region_id from, region_id to);

static void
copy_repeat(struct update *u, node_id id, const struct stage_range *iters,
	    region_id to)
{
	struct ir_module *m = u->m;
	struct ir_node n = *ir_node(m, id);
	region_id body = ir_region_add(m, 0);
	struct ir_new carried;
	uint32_t i;
	value_id v;

	ir_new_init(&carried, n.op, n.span);
	carried.nresults = n.nresults;
	for (i = 0; i < n.nargs; i++) {
		v = m->regions.at[n.region].params.at[i];
		carried.types[i] = *ir_type(m, v);
		ir_new_arg(&carried, u->map[ir_args(m, &n)[i]]);
		u->map[v] = ir_param_add(m, body, &carried.types[i], 0);
	}
	copy_nodes(u, n.region, body);
	for (i = 0; i < n.nresults; i++) {
		v = u->map[m->regions.at[n.region].results.at[i]];
		VEC_PUSH(&m->ctx->perm, &m->regions.at[body].results, v);
	}
	v = stage_append_repeat(m, to, id, &carried, body, iters);
	for (i = 0; i < n.nresults; i++) {
		u->map[n.result + i] = v + i;
	}
}

static void
copy_node(struct update *u, node_id id, region_id to)
{
	struct ir_node n = *ir_node(u->m, id);
	value_id args[IR_MAX_OPERANDS], v;
	sym_t name;
	uint32_t i;

	for (i = 0; i < n.nargs; i++) {
		args[i] = u->map[ir_args(u->m, &n)[i]];
	}
	v = ir_append_like(u->m, to, id, args);
	if (n.op == IR_GRADIENT) {
		name = name_of(u, &n);
		if (u->cell[name] && u->st->npipes > 1) {
			v = whole_sum(u, v, to);
		} else if (!u->cell[name] &&
			   stage_holding(&u->held, name, u->iters)->several) {
			v = share(u, name, v, to);
		}
	}
	if (v) {
		u->map[n.result] = v;
	}
}

static void
copy_nodes(struct update *u, region_id from, region_id to)
{
	uint32_t i;

	for (i = 0; i < u->m->regions.at[from].nodes.n; i++) {
		node_id id = u->m->regions.at[from].nodes.at[i];
		const struct ir_node *n = ir_node(u->m, id);

		if (n->region) {
			struct stage_range iters = stage_range_of(u->m, n);

			copy_repeat(u, id, &iters, to);
		} else if (keeps(u, id)) {
			copy_node(u, id, to);
		}
	}
}

/* ---- repeats by runs of iterations with the same holders ---- */

static void
add_ends(struct update *u, sym_t name, const struct stage_range *r,
	 struct cut *c)
{
	const struct stage_holders *h = &u->held;
	uint32_t k;

	for (k = h->head[name]; k; k = h->mentions.at[k - 1].next) {
		const struct stage_mention *x = &h->mentions.at[k - 1];
		int64_t end = x->iters.start + x->iters.count;

		if (!x->all && x->iters.start > r->start &&
		    x->iters.start < r->start + r->count) {
			VEC_PUSH(u->st->a, &c->ends, x->iters.start);
		}
		if (!x->all && end > r->start && end < r->start + r->count) {
			VEC_PUSH(u->st->a, &c->ends, end);
		}
	}
}

static void
find_ends(struct update *u, region_id id, const struct stage_range *r,
	  bool *done, struct cut *c)
{
	uint32_t i;

	for (i = 0; i < u->m->regions.at[id].nodes.n; i++) {
		node_id k = u->m->regions.at[id].nodes.at[i];
		const struct ir_node *n = ir_node(u->m, k);
		sym_t name = u->owner[k] ? u->owner[k] : source_of(u, n);

		if (n->region) {
			find_ends(u, n->region, r, done, c);
		} else if (name && !done[name]) {
			done[name] = true;
			add_ends(u, name, r, c);
		}
	}
}

static int
by_number(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Marks ranks that run a sink in the iterations at hand, as keeps() decides. */
static void
find_keepers(struct update *u, node_id id, bool *kept)
{
	const struct ir_node *n = ir_node(u->m, id);
	sym_t owner = u->owner[id];
	const struct stage_holders *h = &u->held;
	const struct stage_holding *x;
	uint32_t k;

	if (u->same[id] != u->fixed) {
		return;
	}
	if (!owner && n->op != IR_ACCUMULATE) {
		memset(kept, true, u->st->npipes);
		return;
	}
	x = stage_holding(&u->held, owner, u->iters);
	kept[x->first] |= !x->several || u->cell[name_of(u, n)];
	if (!x->several || u->cell[name_of(u, n)]) {
		return;
	}
	for (k = h->head[owner]; k; k = h->mentions.at[k - 1].next) {
		const struct stage_mention *y = &h->mentions.at[k - 1];

		kept[u->st->rank_of[y->stage]] |= stage_overlaps(y, u->iters);
	}
}

static void
find_kept(struct update *u, region_id id, bool *kept)
{
	uint32_t i;

	for (i = 0; i < u->m->regions.at[id].nodes.n; i++) {
		node_id k = u->m->regions.at[id].nodes.at[i];
		const struct ir_node *n = ir_node(u->m, k);

		if (n->region) {
			find_kept(u, n->region, kept);
		} else if (ir_is(n->op, IRF_SINK)) {
			find_keepers(u, k, kept);
		}
	}
}

/* First for each run, then for tensors that are the same in all iterations. */
static void
find_all_kept(struct update *u, const struct stage_range *all, struct cut *c)
{
	region_id body = ir_node(u->m, c->repeat)->region;
	struct stage_range r = *all;
	uint32_t npipes = u->st->npipes, i;

	c->kept = arena_alloc(u->st->a, (c->ends.n + 1) * npipes);
	u->iters = &r;
	for (i = 0; i < c->ends.n; i++) {
		r.count = c->ends.at[i] - r.start;
		find_kept(u, body, c->kept + i * npipes);
		r.start = c->ends.at[i];
	}
	r = *all;
	u->fixed = true;
	find_kept(u, body, c->kept + c->ends.n * npipes);
	u->fixed = false;
	u->iters = NULL;
}

static const struct cut *
cut_of(struct update *u, node_id id, const struct stage_range *all)
{
	bool *done;
	struct cut c = { .repeat = id };
	uint32_t i, n = 0;

	for (i = 0; i < u->cuts.n; i++) {
		if (u->cuts.at[i].repeat == id) {
			return &u->cuts.at[i];
		}
	}
	done = arena_alloc(u->st->a, u->nsyms * sizeof *done);
	find_ends(u, ir_node(u->m, id)->region, all, done, &c);
	VEC_PUSH(u->st->a, &c.ends, all->start + all->count);
	qsort(c.ends.at, c.ends.n, sizeof *c.ends.at, by_number);
	for (i = 1; i < c.ends.n; i++) {
		if (c.ends.at[i] != c.ends.at[n]) {
			c.ends.at[++n] = c.ends.at[i];
		}
	}
	c.ends.n = n + 1;
	find_all_kept(u, all, &c);
	VEC_PUSH(u->st->a, &u->cuts, c);
	return &u->cuts.at[u->cuts.n - 1];
}

/* Copies run `at` if this rank has a sink in it. */
static void
copy_run(struct update *u, const struct cut *c, uint32_t at,
	 const struct stage_range *r, region_id to)
{
	u->iters = r;
	if (c->kept[at * u->st->npipes + u->pipe]) {
		copy_repeat(u, c->repeat, r, to);
	}
	u->iters = NULL;
}

static void
cut_repeat(struct update *u, node_id id, region_id to)
{
	struct ir_node n = *ir_node(u->m, id);
	struct stage_range all = stage_range_of(u->m, &n), r = all;
	const struct cut *c = cut_of(u, id, &all);
	uint32_t i;

	if (n.nresults && (u->st->npipes == 1 || c->ends.n == 1)) {
		copy_repeat(u, id, &all, to);
		return;
	}
	if (n.nresults) {
		diag_error(
			&u->m->ctx->diags, n.span,
			"this repeat of an update carries values from "
			"iteration to iteration, and its iterations lie on "
			"several pipeline ranks");
		u->failed = true;
		return;
	}
	for (i = 0; i < c->ends.n; i++) {
		r.count = c->ends.at[i] - r.start;
		copy_run(u, c, i, &r, to);
		r.start = c->ends.at[i];
	}
	u->fixed = true;
	copy_run(u, c, i, &all, to);
	u->fixed = false;
}

static bool
is_update(const struct ir_module *m, func_id f)
{
	const struct ir_region *r = &m->regions.at[m->funcs.at[f].body];

	return !m->funcs.at[f].is_model && !r->params.n && !r->results.n;
}

static void
add_pipe(struct update *u, uint32_t pipe, uint32_t nfuncs)
{
	struct ir_module *m = u->m;
	struct ir_ctx *c = m->ctx;
	sym_t name = intern_str(&c->syms, arena_printf(&c->tmp,
				"pipe%u_update", pipe));
	struct span span = m->funcs.at[ir_model(m)].span;
	func_id f = ir_func_add(m, name, false, span);
	region_id to = m->funcs.at[f].body;
	uint32_t i;

	u->pipe = pipe;
	memset(u->shared, 0, u->nsyms * sizeof *u->shared);
	for (f = 1; f < nfuncs; f++) {
		region_id from = m->funcs.at[f].body;

		for (i = 0; is_update(m, f) && !u->failed &&
		     i < m->regions.at[from].nodes.n; i++) {
			node_id id = m->regions.at[from].nodes.at[i];

			if (ir_node(m, id)->region) {
				cut_repeat(u, id, to);
			} else if (keeps(u, id)) {
				copy_node(u, id, to);
			}
		}
	}
}

/* Finds who holds which tensors, and to which of them sinks belong. */
static void
find_holders(struct update *u, uint32_t nfuncs)
{
	struct ir_module *m = u->m;
	struct arena *a = u->st->a;
	func_id f;

	u->held = (struct stage_holders){ .st = u->st, .nsyms = u->nsyms };
	stage_find_holders(&u->held);
	u->cell = arena_alloc(a, u->nsyms * sizeof *u->cell);
	u->owner = arena_alloc(a, m->nodes.n * sizeof *u->owner);
	u->same = arena_alloc(a, m->nodes.n * sizeof *u->same);
	u->seen = arena_alloc(a, m->values.n * sizeof *u->seen);
	u->map = arena_alloc(a, m->values.n * sizeof *u->map);
	for (f = 1; f < nfuncs && !u->failed; f++) {
		if (is_update(m, f)) {
			find_owners(u, m->funcs.at[f].body, NULL);
		}
	}
}

bool
stage_update(struct stage *st, uint32_t nfuncs)
{
	struct ir_module *m = st->m;
	struct update u = { .st = st, .m = m };
	bool any = false;
	uint32_t i;
	func_id f;

	u.nsyms = m->ctx->syms.text.n;
	u.shared = arena_alloc(st->a, u.nsyms * sizeof *u.shared);
	for (f = 1; f < nfuncs; f++) {
		any |= is_update(m, f);
	}
	if (any) {	/* without updates nobody asks */
		find_holders(&u, nfuncs);
	}
	for (i = 0; i < st->npipes && !u.failed; i++) {
		add_pipe(&u, i, nfuncs);
	}
	return !u.failed;
}

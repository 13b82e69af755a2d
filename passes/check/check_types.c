/*
 * Types and placements across nodes. ir_verify checks each node against the
 * ways of its op, but not whether a node that writes a name and a node that
 * reads it agree on the type. This file does.
 */
#include "passes/check/check.h"

#include <string.h>

static bool
is_stored(const struct ir_node *n)
{
	return ir_is(n->op, IRF_SOURCE) && ir_is(n->op, IRF_STORED);
}

static bool
in_update(const struct check *c, const struct check_use *u)
{
	return check_fn_of(c, u)->phase == CHECK_UPDATE;
}

static const char *
text_of(const struct check *c, const struct ir_type *t)
{
	return ir_type_text(c->m, t);
}

/* ---- one name, one placement ---- */

static bool
same_attr(const struct check *c, const struct ir_node *a,
	  const struct ir_node *b, enum ir_attr_key key)
{
	const struct ir_attr *x = ir_attr(c->m, a, key);
	const struct ir_attr *y = ir_attr(c->m, b, key);

	return !x == !y && (!x || (x->text == y->text && x->num == y->num));
}

/*
 * All reads of a tensor or an input must agree on its type and its initial
 * value. Each rank has one piece of it in memory, and a function that expects
 * another placement would take that piece for another.
 */
static void
one_place(struct check *c, const struct check_use *u,
	  const struct check_use *first)
{
	const struct ir_node *n = check_node(c, u);
	const struct ir_node *like = check_node(c, first);

	if (n->op != like->op) {
		check_fail(c, u, "found a %s, expected a %s: one name is one "
			   "tensor", ir_ops[n->op].name, ir_ops[like->op].name);
	} else if (!ir_type_equal(check_type(c, u), check_type(c, first))) {
		check_fail(c, u, "found it as %s, expected %s, as everywhere",
			   text_of(c, check_type(c, u)),
			   text_of(c, check_type(c, first)));
	} else if (!same_attr(c, n, like, IR_ATTR_INIT) ||
		   !same_attr(c, n, like, IR_ATTR_STD)) {
		check_fail(c, u, "it starts otherwise than elsewhere");
	} else {
		return;
	}
	check_note(c, first, "the other is here");
}

/*
 * A store must have the type of the reads. With another placement a rank would
 * be left with elements that belong to another rank.
 */
static void
stored_as_read(struct check *c, const struct check_use *u,
	       const struct check_use *first)
{
	if (!first) {
		check_fail(c, u, "no rank reads what is stored here");
	} else if (!in_update(c, u)) {
		check_fail(c, u, "a store in a stage, expected it in an "
			   "update: the step is not over");
	} else if (!ir_type_equal(check_type(c, u), check_type(c, first))) {
		check_fail(c, u, "found %s, expected %s, as it is read",
			   text_of(c, check_type(c, u)),
			   text_of(c, check_type(c, first)));
		check_note(c, first, "it is read here");
	}
}

/* ---- accumulated values ---- */

/*
 * In a stage, an accumulated value must be a partial sum along the axis of
 * time, or it would count once per microbatch. An update runs after all of
 * them.
 */
static void
sums_over_time(struct check *c, const struct check_use *u)
{
	const struct ir_type *t = check_type(c, u);

	if (!c->time || in_update(c, u) ||
	    ir_along(t, c->time).how == IR_IS_PART ||
	    c->m->axes.at[c->time].size == 1) {
		return;
	}
	check_fail(c, u, "found %s along `%s`, expected a part of a sum: it "
		   "is added %lld times", ir_along_text(c->m,
		   ir_along(t, c->time)), ir_axis_name(c->m, c->time),
		   (long long)c->m->axes.at[c->time].size);
}

/*
 * A read must have the type of what was accumulated: if it says `whole` where
 * there are partial sums, an all-reduce is missing. When it is read the sum
 * over time is complete; a sum made in the updates is then a partial sum along
 * `pp`.
 */
static void
read_as_added(struct check *c, const struct check_use *read,
	      const struct check_use *add)
{
	struct ir_along whole = { IR_IS_WHOLE, 0 };
	struct ir_type t = *check_type(c, add);

	if (c->time) {
		ir_set_along(&t, c->time, whole);
	}
	if (in_update(c, add) && c->npipes > 1) {
		struct ir_along part = { IR_IS_PART, 0 };

		ir_set_along(&t, c->pp, part);
	}
	if (!ir_type_equal(&t, check_type(c, read))) {
		check_fail(c, read, "found it as %s, expected %s, as it is "
			   "added up", text_of(c, check_type(c, read)),
			   text_of(c, &t));
		check_note(c, add, "it is added up here, as %s",
			   text_of(c, check_type(c, add)));
	}
}

/* ---- inputs ---- */

/* Whether the axis splits one of these dims; *has: the type has one of them. */
static bool
is_cut(const struct ir_type *t, axis_id a, const bool *dims, bool *has)
{
	struct ir_along s = ir_along(t, a);
	uint32_t i;

	*has = false;
	for (i = 0; i < t->ndims; i++) {
		*has |= dims[t->dims[i]];
	}
	return s.how == IR_IS_SPLIT && dims[s.dim];
}

static void
want_cut(struct check *c, const struct check_use *u, const char *axis,
	 const bool *dims, const struct plan_split *said, const char *what)
{
	axis_id a = ir_axis_find(c->m, intern_str(&c->m->ctx->syms, axis));
	const struct ir_type *t = check_type(c, u);
	bool has;

	if (!a || c->m->axes.at[a].size == 1 || (said && said->n) ||
	    is_cut(t, a, dims, &has) || !has) {
		return;
	}
	check_fail(c, u, "%s is %s along `%s`, expected split by %s: the "
		   "same work would be done %lld times", text_of(c, t),
		   ir_along_text(c->m, ir_along(t, a)), axis, what,
		   (long long)c->m->axes.at[a].size);
}

/* The dims along which attention runs, found as in the pass `place`. */
static bool *
context_dims(struct check *c)
{
	bool *dims = arena_alloc(c->a, c->m->dims.n);
	node_id id;

	for (id = 1; id < c->m->nodes.n && c->plan.cp > 1; id++) {
		const struct ir_node *n = ir_node(c->m, id);
		const struct ir_factor *s, *t;
		struct ir_rule r;

		if (!ir_is(n->op, IRF_PAIRS)) {
			continue;
		}
		ir_bind(c->m, n, &r);
		s = ir_rule_factor(&r, "s");
		t = ir_rule_factor(&r, "t");
		if (s && t && s->dims[0] == t->dims[0]) {
			dims[s->dims[0]] = true;
		}
	}
	return dims;
}

/*
 * Each rank must read its own tokens: if an input is not split along a data
 * axis, all ranks of the axis do the same work.
 */
static void
inputs_cut(struct check *c, const struct check_use *u, const bool *batch,
	   const bool *context)
{
	const struct plan_split *said = c->plan.split;

	want_cut(c, u, "mb", batch, NULL, "`batch`");
	want_cut(c, u, "dp", batch, &said[PLAN_DP], "`batch`");
	want_cut(c, u, "ep", batch, &said[PLAN_EP], "`batch`");
	want_cut(c, u, "cp", context, &said[PLAN_CP], "what attention runs "
		 "along");
}

/* ---- whole functions ---- */

static bool
mentions(const struct ir_type *t, axis_id a)
{
	return a && ir_along(t, a).how != IR_IS_WHOLE;
}

static bool
says_on(const struct check *c, const struct ir_node *n, axis_id a)
{
	const struct ir_attr *on = ir_attr(c->m, n, IR_ATTR_ON);
	uint32_t i;

	for (i = 0; on && i < on->ndims; i++) {
		if (a && on->dims[i] == a) {
			return true;
		}
	}
	return false;
}

static void
fail_node(struct check *c, const struct check_fn *f, const struct ir_node *n,
	  const char *what)
{
	bool update = f->phase == CHECK_UPDATE;

	diag_error(&c->m->ctx->diags, n->span, "%s %u, %s: %s%s%s: %s",
		   update ? "pipe" : "stage", update ? f->pipe : f->stage,
		   ir_text(c->m->ctx, c->m->funcs.at[f->func].name),
		   ir_ops[n->op].name, n->nresults ? " of type " : "",
		   n->nresults ? text_of(c, ir_type(c->m, n->result)) : "",
		   what);
}

/*
 * A stage runs on one pipeline rank, so no node in it may involve `pp`: it
 * would wait forever for the others. An update has no microbatch, so no axis of
 * time.
 */
static void
axes_at_home(struct check *c, const struct check_fn *f,
	     const struct ir_node *n)
{
	axis_id a = f->phase == CHECK_UPDATE ? c->time : c->pp;
	uint32_t k;

	for (k = 0; k < n->nresults; k++) {
		if (mentions(ir_type(c->m, n->result + k), a) ||
		    says_on(c, n, a)) {
			fail_node(c, f, n, a == c->time
				  ? "found a value along time in an update, "
				    "where it is over"
				  : "found `pp` in a stage, which one rank of "
				    "the pipeline runs alone");
			return;
		}
	}
}

/*
 * The pass `stage` leaves no unused values. So if one is unused, the node that
 * used it was lost: a gradient is not accumulated, or a weight not stored.  A
 * rank without weights needs no sum over the pipeline, and takes part in it,
 * since others wait.
 */
static void
all_used(struct check *c, const struct check_fn *f, const struct ir_node *n)
{
	if (n->nresults == 1 && !n->region && !c->reads[n->result] &&
	    !(ir_is(n->op, IRF_COMM) && says_on(c, n, c->pp))) {
		fail_node(c, f, n, "nothing uses it, expected something for "
			  "which it is made");
	}
}

static void
check_nodes(struct check *c, const struct check_fn *f, region_id id)
{
	const struct ir_region *r = &c->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);

		axes_at_home(c, f, n);
		all_used(c, f, n);
		if (n->region) {
			check_nodes(c, f, n->region);
		}
	}
}

/* Only the forward of the last stage returns what the model returns. */
static void
results(struct check *c, const struct check_fn *f)
{
	const struct ir_func *fn = &c->m->funcs.at[f->func];
	bool want = f->phase == CHECK_FORWARD && f->stage + 1 == c->nstages;
	uint32_t n = c->m->regions.at[fn->body].results.n;

	if (want != (n > 0)) {
		diag_error(&c->m->ctx->diags, fn->span, "layer `%s` returns "
			   "%u values, expected %s", ir_text(c->m->ctx,
			   fn->name), n, want ? "what the model returns"
			   : "none: only the last stage's forward does");
	}
}

/* ---- all names and functions ---- */

static void
one_name(struct check *c, sym_t key, const bool *batch, const bool *context)
{
	const struct check_use *first = NULL, *add = NULL;
	uint32_t i, end = c->key_begin[key + 1];

	for (i = c->key_begin[key]; i < end; i++) {
		const struct check_use *u = &c->uses.at[c->by_key[i]];
		const struct ir_node *n = check_node(c, u);

		first = !first && is_stored(n) ? u : first;
		add = !add && n->op == IR_ACCUMULATE ? u : add;
	}
	for (i = c->key_begin[key]; i < end; i++) {
		const struct check_use *u = &c->uses.at[c->by_key[i]];
		const struct ir_node *n = check_node(c, u);

		if (is_stored(n)) {
			one_place(c, u, first);
			if (n->op == IR_INPUT && !in_update(c, u)) {
				inputs_cut(c, u, batch, context);
			}
		} else if (n->op == IR_STORE) {
			stored_as_read(c, u, first);
		} else if (n->op == IR_ACCUMULATE) {
			sums_over_time(c, u);
			if (add != u && !ir_type_equal(check_type(c, add),
						       check_type(c, u))) {
				check_fail(c, u, "found %s, expected %s, as "
					   "it is added up elsewhere",
					   text_of(c, check_type(c, u)),
					   text_of(c, check_type(c, add)));
				check_note(c, add, "the other is here");
			}
		} else if (n->op == IR_GRADIENT && add) {
			read_as_added(c, u, add);
		}
	}
}

void
check_types(struct check *c)
{
	bool *batch = arena_alloc(c->a, c->m->dims.n);
	const bool *context = context_dims(c);
	uint32_t i;
	sym_t key;

	batch[ir_dim_find(c->m, intern_str(&c->m->ctx->syms, "batch"))] = true;
	batch[0] = false;
	for (key = 1; key < c->keys.text.n; key++) {
		one_name(c, key, batch, context);
	}
	for (i = 0; i < c->nfns; i++) {
		if (c->fns[i].func) {
			check_nodes(c, &c->fns[i], c->m->funcs.at[
				    c->fns[i].func].body);
			results(c, &c->fns[i]);
		}
	}
}

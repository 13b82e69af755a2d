/*
 * Kernel groups that are loops around scalar expressions: from a nest's steps
 * to functions over items.
 */
#include "codegen/cpu/cpu_nest.h"

#include <string.h>

/* ---- what a nest asks of the kernel ---- */

struct nest *
emit_build(struct asker *a, const struct cg_nest *x,
	   const struct nest_input *like, const char **why)
{
	struct cg_cpu *c = a->c;
	struct nest *n = arena_alloc(c->a, sizeof *n);
	struct cg_site site = { c->m, c->a, c->at, a->out };
	struct nest_input in = *like;
	struct nest_leaf *leaves = arena_alloc(c->a, sizeof *leaves *
					       (x->leaves.n + 1));
	uint32_t i, k;

	for (i = 0; i < x->leaves.n; i++) {
		leaves[i].value = x->leaves.at[i].value;
		for (k = 0; k < IR_MAX_DIMS; k++) {
			leaves[i].stride[k] = x->leaves.at[i].stride[k];
			leaves[i].moved[k] = x->leaves.at[i].from[k] != NULL;
		}
	}
	nest_input_site(&in, &site);
	in.k = x->k;
	in.nodes = x->nodes.at;
	in.nnodes = x->nodes.n;
	in.stores = true;
	in.leaves = leaves;
	in.nleaves = x->leaves.n;
	for (i = 0; in.box && i < in.box->ndims; i++) {
		in.moves[i] = x->from[i] != NULL;
	}
	return nest_build(n, &in, why) ? n : NULL;
}

/* ---- memory ---- */

static struct ll_value *
table_data(struct emit *e, const struct nest_table *t)
{
	struct ll_value **words = arena_alloc(e->c->a, sizeof *words *
					      (size_t)(t->n + 1));
	int64_t i;

	for (i = 0; i < t->n; i++) {
		words[i] = ll_num(e->l, ll_type(LL_F64, 1), t->at[i]);
	}
	return ll_data(e->l, NULL, words, (uint32_t)t->n);
}

/* Where each memory of the step begins. */
static void
find_memory(struct emit *e, const bool *used)
{
	struct nest *n = e->n;
	uint32_t i;

	e->at = arena_alloc(e->c->a, sizeof *e->at * (n->memory.n + 1));
	for (i = 0; i < n->memory.n; i++) {
		const struct nest_memory *m = &n->memory.at[i];

		if (!used[i]) {
			continue;
		}
		switch (m->where) {
		case NEST_OPERAND:
			e->at[i] = cg_cpu_at(e->c, e->step, cg_operand(e->c->a,
				e->out, m->value, m->sink, m->written));
			break;
		case NEST_TEMP:
			e->shared = e->shared ? e->shared
				: cg_cpu_shared(e->c, e->step);
			e->at[i] = ll_plus_n(e->l, e->shared,
					     n->temps.at[m->i].offset);
			break;
		case NEST_LEAF:
			e->at[i] = e->box->leaves.at[m->i].at;
			break;
		case NEST_TABLE:
			e->at[i] = table_data(e, &n->tables.at[m->i]);
			break;
		}
	}
}

static void
mark_used(const struct nest *n, nest_id id, bool *used, bool *seen)
{
	const struct nest_expr *x = nest_at(n, id);

	if (!id || seen[id]) {
		return;
	}
	seen[id] = true;
	if (x->op == NEST_LOAD) {
		used[x->ref] = true;
	}
	mark_used(n, x->a, used, seen);
	mark_used(n, x->b, used, seen);
	mark_used(n, x->c, used, seen);
}

static void
make_expr(void *user, nest_id id)
{
	emit_expr(user, id);
}

void
emit_open(struct emit *e, const struct nest_step *s)
{
	static const struct nest_step none;
	struct nest *n = e->n;
	bool *used = arena_alloc(e->c->a, n->memory.n + 1);
	bool *seen = arena_alloc(e->c->a, n->exprs.n);
	uint32_t i;

	e->s = s ? s : &none;
	e->lanes = 1;
	nest_scope_init(&e->scope, n, e->c->a, make_expr, e);
	e->sum = arena_alloc(e->c->a, sizeof *e->sum * n->exprs.n);
	for (i = 0; i < e->s->roots.n; i++) {
		const struct nest_root *r =
			&n->roots.at[e->s->roots.at[i]];

		used[r->memory] = true;
		mark_used(n, r->value, used, seen);
		mark_used(n, r->place, used, seen);
	}
	for (i = 0; !s && i < n->memory.n; i++) {
		used[i] = true;
	}
	find_memory(e, used);
}

/* ---- steps ---- */

/* The item's own parts of sums are nothing at first. */
static void
clear_parts(struct emit *e)
{
	uint32_t i;

	for (i = 0; i < e->s->roots.n; i++) {
		const struct nest_root *r =
			&e->n->roots.at[e->s->roots.at[i]];
		struct ll_value *at, *zero = ll_num(e->l,
						    ll_type(LL_F32, 1), 0);
		int64_t elems;
		struct ll_loop k;

		if (!r->part) {
			continue;
		}
		elems = e->n->temps.at[e->n->memory.at[r->memory].i].elems;
		at = ll_plus(e->l, e->at[r->memory], ll_bin(e->l, LL_MUL,
			e->item, ll_i64(e->l, 4 * elems)));
		ll_loop(e->l, &k, ll_i64(e->l, 0), ll_i64(e->l, elems), 1,
			NULL, 0);
		ll_store(e->l, zero, ll_plus(e->l, at, ll_bin(e->l, LL_MUL,
			k.i, ll_i64(e->l, 4))));
		ll_loop_end(e->l, &k, NULL);
	}
}

static void
one_step(void *user, struct nest *n, const struct nest_step *s)
{
	struct asker *a = user;
	struct emit e = { .c = a->c, .l = a->c->ll, .out = a->out, .n = n };
	struct ll_value *from, *to;
	struct ll_loop k;

	e.step = cg_cpu_step(a->c, a->out, "nest", s->nitems);
	emit_open(&e, s);
	ll_loop(e.l, &k, ll_param(e.l, e.step, 2), ll_param(e.l, e.step, 3),
		1, NULL, 0);
	e.item = k.i;
	from = ll_bin(e.l, LL_MUL, k.i, ll_i64(e.l, s->per));
	to = ll_bin(e.l, LL_ADD, from, ll_i64(e.l, s->per));
	to = ll_select(e.l, ll_test(e.l, LL_LT, to, ll_i64(e.l, s->nrow)),
		       to, ll_i64(e.l, s->nrow));
	clear_parts(&e);
	emit_rows(&e, from, to);
	ll_loop_end(e.l, &k, NULL);
	ll_return(e.l, NULL);
}

bool
cg_nest_steps(struct cg_cpu *c, struct cg_kernel *out,
	      const struct cg_nest *x, const char **why)
{
	const struct nest_input like = { 0 };
	struct asker a = { c, out };
	struct nest *n;

	if (nest_is_scatter(c->m, x->nodes.at, x->nodes.n)) {
		return emit_scatter(&a, x, why);
	}
	n = emit_build(&a, x, &like, why);
	if (!n) {
		return false;
	}
	nest_emit(n, out, one_step, &a);
	return true;
}

bool
cg_nest_value(struct cg_cpu *c, struct cg_kernel *out,
	      const struct cg_nest *x, value_id value, int64_t *offset,
	      const char **why)
{
	const struct nest_input like = { .only = value };
	struct asker a = { c, out };
	struct nest *n = emit_build(&a, x, &like, why);

	if (!n) {
		return false;
	}
	nest_emit(n, out, one_step, &a);
	*offset = nest_value_offset(n);
	return true;
}

bool
cg_nest_box(struct cg_cpu *c, struct cg_kernel *out, struct ll_value *step,
	    const struct cg_nest *x, const char **why)
{
	const struct nest_input like = { .box = &x->space };
	struct asker a = { c, out };
	struct nest *n = emit_build(&a, x, &like, why);
	struct nest_steps steps;
	uint32_t i;

	if (!n) {
		return false;
	}
	nest_make_steps(n, &steps);
	for (i = 0; i < steps.at.n; i++) {
		struct emit e = { .c = c, .l = c->ll, .out = out, .n = n,
				  .box = x, .step = step };

		emit_open(&e, &steps.at.at[i]);
		emit_box(&e);
	}
	return true;
}

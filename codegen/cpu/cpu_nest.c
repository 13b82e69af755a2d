/*
 * Kernels that are loops around scalar expressions: each step of a nest
 * becomes a function over items.
 */
#include "codegen/cpu/cpu_nest.h"

#include <string.h>

/* ---- steps ---- */

/* Sets the item's partial sums to zero. */
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
	struct emit_target *a = user;
	struct emit e = { .c = a->c, .l = a->c->ll, .out = a->out, .n = n };
	struct ll_value *from, *to;
	struct ll_loop k;

	e.step = cg_cpu_step(a->c, a->out, "nest", s->nitems);
	emit_open_step(&e, s);
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
	struct emit_target a = { c, out };
	struct nest *n;

	if (nest_is_scatter(c->m, x->nodes.at, x->nodes.n)) {
		return emit_scatter_steps(&a, x, why);
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
	struct emit_target a = { c, out };
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
	struct emit_target a = { c, out };
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

		emit_open_step(&e, &steps.at.at[i]);
		emit_box(&e);
	}
	return true;
}

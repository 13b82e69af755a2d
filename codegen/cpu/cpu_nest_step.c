/*
 * A nest, and a step of it that is about to be emitted: where the memory lies
 * that it reads and writes.
 */
#include "codegen/cpu/cpu_nest.h"

/* ---- nests ---- */

void
cg_nest_all(struct cg_cpu *c, const struct kernel *k, struct cg_nest *n)
{
	uint32_t i;

	*n = (struct cg_nest){ .k = k };
	for (i = 0; i < k->nodes.n; i++) {
		VEC_PUSH(c->a, &n->nodes, k->nodes.at[i]);
	}
}

static bool
panel_of(void *machine, value_id v, struct cg_panel *out)
{
	return cg_cpu_panel(machine, v, out);
}

struct nest *
emit_build(struct emit_target *a, const struct cg_nest *x,
	   const struct nest_input *like, const char **why)
{
	struct cg_cpu *c = a->c;
	struct nest *n = arena_alloc(c->a, sizeof *n);
	struct cg_site site = { c->m, c->a, c->at, a->out, c->apart };
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
	in.panel = panel_of;
	in.machine = c;
	in.k = x->k;
	in.nodes = x->nodes.at;
	in.nnodes = x->nodes.n;
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

/* Finds where each piece of memory that the step uses begins. */
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
emit_open_step(struct emit *e, const struct nest_step *s)
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

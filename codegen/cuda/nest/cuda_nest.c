/*
 * Kernel groups that are loop nests, on a GPU: as steps of their own, or
 * inside of a function that another emitter writes.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <string.h>

/* ---- nodes and leaves ---- */

struct cu_nest
cu_nest_of(struct arena *a, const struct kernel *x, const struct ir_type *space)
{
	struct cu_nest n = { .k = x, .space = *space };
	uint32_t i;

	for (i = 0; i < x->nodes.n; i++) {
		VEC_PUSH(a, &n.nodes, x->nodes.at[i]);
	}
	return n;
}

void
cu_nest_add_leaf(struct arena *a, struct cu_nest *n, struct cu_leaf leaf)
{
	memcpy(leaf.from, n->from, sizeof leaf.from);
	VEC_PUSH(a, &n->leaves, leaf);
}

/* ---- steps ---- */

struct step_writer {
	struct cu_kernel *k;
	const struct cu_nest *x;
	/* names of tables, written once for all steps */
	const char **table;
};

static void
one_step(void *user, struct nest *n, const struct nest_step *s)
{
	struct step_writer *w = user;
	struct cu_func f = { .k = w->k };
	struct cu_emit e = { .f = &f, .n = n, .box = w->x, .whole = true,
			     .table = w->table };

	cu_nest_open(&e, s);
	w->table = e.table;
	cu_rows_step(w->k, &e);
}

bool
cu_nest_steps(struct cu_kernel *k, const struct cu_nest *x)
{
	const struct nest_input like = { 0 };
	struct step_writer w = { .k = k, .x = x };
	struct nest *n;

	if (nest_is_scatter(k->c->m, x->nodes.at, x->nodes.n)) {
		return cu_scatter(k, x);
	}
	n = cu_nest_build(k, x, &like);
	if (!n) {
		return false;
	}
	nest_emit(n, k->out, one_step, &w);
	return true;
}

bool
cu_nest_value(struct cu_kernel *k, const struct cu_nest *x, value_id value,
	      int64_t *offset)
{
	const struct nest_input like = { .only = value };
	struct nest *n = cu_nest_build(k, x, &like);
	struct step_writer w = { .k = k, .x = x };

	if (!n) {
		return false;
	}
	nest_emit(n, k->out, one_step, &w);
	*offset = nest_value_offset(n);
	return true;
}

/* ---- boxes ---- */

static const char *
bound(struct cu_func *f, struct cu_lazy *l, const char *type,
      const char *name, uint32_t i, const char *text)
{
	const char *v;

	if (!text) {
		return NULL;
	}
	v = arena_printf(f->k->c->a, "nest_%s%u", name, i);
	cu_lazy_add(l, v, arena_printf(f->k->c->a, "%s %s = (%s)(%s);", type,
				       v, type, text));
	return v;
}

/* The first index of a leaf in its dim d: mostly the box's. */
static const char *
bound_leaf(struct cu_func *f, struct cu_lazy *l, const struct cu_nest *x,
	   const char *const *was, const struct cu_leaf *leaf, uint32_t first,
	   uint32_t d)
{
	const struct ir_type *t = ir_type(f->k->c->m, leaf->value);
	uint32_t b;

	for (b = 0; leaf->from[d] && b < x->space.ndims; b++) {
		if (x->space.dims[b] == t->dims[d] && was[b] &&
		    strcmp(was[b], leaf->from[d]) == 0) {
			return x->from[b];
		}
	}
	return bound(f, l, "int", "leaf_from", first + d, leaf->from[d]);
}

static const char *
leaf_type(const struct cu_func *f, const struct cu_leaf *leaf)
{
	enum ir_dtype own = ir_type(f->k->c->m, leaf->value)->dtype;

	return arena_printf(f->k->c->a, "const %s *",
			    cu_elem_type(leaf->own_type ? own : IR_F32));
}

/* Copies the caller's C text to variables, since variables declared here could
 * hide its names. */
static void
bind_texts(struct cu_func *f, struct cu_lazy *l, struct cu_nest *x)
{
	struct arena *a = f->k->c->a;
	struct cu_leaf *leaves = arena_alloc(a, sizeof *leaves *
					     (x->leaves.n + 1));
	const char *was[IR_MAX_DIMS];
	uint32_t i, d;

	memcpy(was, x->from, sizeof was);
	for (d = 0; d < x->space.ndims; d++) {
		const char *type = cu_int_type(0, cu_local_size(f->k->c,
				x->space.dims[d], x->space.cut[d]));

		x->from[d] = bound(f, l, type, "from", d, x->from[d]);
		x->live[d] = bound(f, l, type, "live", d, x->live[d]);
	}
	for (i = 0; i < x->leaves.n; i++) {
		leaves[i] = x->leaves.at[i];
		leaves[i].at = bound(f, l, leaf_type(f, &leaves[i]), "leaf", i,
				     leaves[i].at);
		for (d = 0; d < IR_MAX_DIMS; d++) {
			leaves[i].from[d] = bound_leaf(f, l, x, was,
				&leaves[i], IR_MAX_DIMS * i, d);
		}
	}
	x->leaves.at = leaves;
}

bool
cu_nest_box(struct cu_func *f, const struct cu_nest *x, int64_t threads,
	    const char *thread)
{
	const struct nest_input like = { .box = &x->space };
	struct nest *n = cu_nest_build(f->k, x, &like);
	struct cu_nest own = *x;
	const char **table = NULL;
	struct nest_steps steps;
	struct cu_lazy late;
	uint32_t i;

	if (!n) {
		return false;
	}
	nest_make_steps(n, &steps);
	cu_line(f, "{");
	cu_lazy_open(f, &late);
	bind_texts(f, &late, &own);
	for (i = 0; i < steps.at.n; i++) {
		struct cu_emit e = { .f = f, .n = n, .box = &own,
				     .table = table,
				     .ready = i == 0 ? x->ready : NULL };

		cu_line(f, "{");
		cu_nest_open(&e, &steps.at.at[i]);
		table = e.table;
		cu_rows_box(&e, threads, thread);
		cu_line(f, "}");
	}
	cu_lazy_close(f, &late);
	cu_line(f, "}");
	return true;
}

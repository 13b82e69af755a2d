/*
 * Passes of a row: what is computed of each element, in the loop of a thread or
 * of a team, and where results and the item's partial sums are stored.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <string.h>

/* ---- elements ---- */

/* Arrays that collect the lanes of roots, with what is stored there already if
 * they add to it. */
static void
root_arrays(struct cu_emit *e, const struct nest_pass *p)
{
	uint32_t i;

	for (i = 0; i < p->roots.n; i++) {
		const struct nest_root *r = &e->n->roots.at[p->roots.at[i]];
		uint8_t dtype = e->n->memory.at[r->memory].dtype;
		const char *name = arena_printf(e->a, "y%u", p->roots.at[i]);

		if (!cu_root_lanes(e, r)) {
			continue;
		}
		if (r->add) {
			cu_declare_old_lanes(e, r, name);
			continue;
		}
		cu_line(e->f, "%s %s[%u];", dtype == IR_F64 ? "f64"
			: dtype == IR_IDX ? "i32" : "f32", name, e->lanes);
	}
}

static void
put_part(struct cu_emit *e, const struct cu_team *t, uint32_t root,
	 const char *v)
{
	const struct nest_root *r = &e->n->roots.at[root];
	int64_t elems = e->n->temps.at[e->n->memory.at[r->memory].i].elems;

	if (t->part[root]) {
		cu_line(e->f, "%s += (f32)%s;", t->part[root], v);
	} else {
		cu_store(e, r, arena_printf(e->a, "(f32)%s", v),
			 arena_printf(e->a, "%s * %lld", t->item,
				      (long long)elems));
	}
}

/* Stores the roots of one lane.  All are computed before any is stored, since
 * they may be the same tensor. */
static void
put_roots(struct cu_emit *e, const struct cu_team *t,
	  const struct nest_pass *p)
{
	uint32_t i;

	for (i = 0; i < p->roots.n; i++) {
		cu_expr(e, e->n->roots.at[p->roots.at[i]].value);
	}
	if (t->live && p->roots.n > 0) {
		cu_line(e->f, "if (%s) {", t->live);
	}
	for (i = 0; i < p->roots.n; i++) {
		uint32_t root = p->roots.at[i];
		const struct nest_root *r = &e->n->roots.at[root];
		const char *v = cu_expr(e, r->value);

		if (r->part) {
			put_part(e, t, root, v);
		} else if (cu_root_lanes(e, r)) {
			cu_line(e->f, r->add ? "y%u[k] += %s;"
				: nest_at(e->n, r->value)->kind == NEST_INT
				? "y%u[k] = (i32)%s;" : "y%u[k] = %s;", root,
				v);
		} else {
			cu_store(e, r, v, NULL);
		}
	}
	if (t->live && p->roots.n > 0) {
		cu_line(e->f, "}");
	}
}

/* The body of a pass.  Values that it makes stay in scope, except those made
 * inside of the loop over lanes. */
static void
body(struct cu_emit *e, const struct cu_team *t, const struct nest_pass *p)
{
	uint32_t since, i;

	if (e->lanes > 1) {
		nest_scope_hoist_pass(&e->scope, p, (uint64_t)1 << e->vec);
	}
	for (i = 0; i < p->sums.n; i++) {
		cu_load_lanes(e, nest_at(e->n, p->sums.at[i])->a);
	}
	for (i = 0; i < p->roots.n; i++) {
		cu_load_lanes(e, e->n->roots.at[p->roots.at[i]].value);
	}
	if (e->lanes > 1) {
		root_arrays(e, p);
	}
	cu_lanes_open(e);
	since = e->scope.order.n;
	for (i = 0; i < p->sums.n; i++) {
		cu_sum_add(e, p->sums.at[i]);
	}
	put_roots(e, t, p);
	cu_lanes_close(e);
	if (e->lanes > 1) {
		nest_scope_leave(&e->scope, since);
		for (i = 0; i < p->roots.n; i++) {
			const struct nest_root *r =
				&e->n->roots.at[p->roots.at[i]];

			if (cu_root_lanes(e, r)) {
				cu_store_lanes(e, r, t->live, arena_printf(e->a,
						"y%u", p->roots.at[i]));
			}
		}
	}
}

/* ---- loops of a pass ---- */

/* C text: the end of a loop that may be shorter than its size; NULL: it is
 * not. */
static const char *
box_end(const struct cu_emit *e, uint32_t loop)
{
	int box = e->n->loops.at[loop].box;

	return e->whole || box < 0 ? NULL : e->box->live[box];
}

static int64_t
most_iterations(const struct cu_emit *e, uint32_t loop)
{
	int box = e->n->loops.at[loop].box;

	return !e->whole && box >= 0 && e->box->count[box]
		? e->box->count[box] : cu_loop_size(e, loop);
}

/* The loops of a pass in one thread. */
static void
loops_of_thread(struct cu_emit *e, const struct cu_team *t,
		const struct nest_pass *p, uint32_t first)
{
	uint32_t loop, i;
	uint64_t inner = 0;
	const char *end;

	if (first == p->nloops) {
		body(e, t, p);
		return;
	}
	for (i = first; i < p->nloops; i++) {
		inner |= (uint64_t)1 << p->loops[i];
	}
	nest_scope_hoist_pass(&e->scope, p, inner);
	loop = p->loops[first];
	end = box_end(e, loop);
	end = end ? end : arena_printf(e->a, "%lld",
				       (long long)most_iterations(e, loop));
	e->index[loop] = arena_printf(e->a, "i%u", loop);
	cu_line(e->f, "for (int i%u = 0; i%u < %s; i%u++) {", loop, loop, end,
		loop);
	{
		uint32_t within = e->scope.order.n;

		loops_of_thread(e, t, p, first + 1);
		nest_scope_leave(&e->scope, within);
	}
	cu_line(e->f, "}");
	e->index[loop] = NULL;
}

static void
loops_of_team(struct cu_emit *e, const struct cu_team *t,
	      const struct nest_pass *p)
{
	uint32_t depth = e->f->depth, since;
	struct cu_lazy l;

	nest_scope_hoist_pass(&e->scope, p, cu_pass_loops(p));
	since = e->scope.order.n;
	cu_team_loop_open(e, t, p, cu_pass_lanes(e, p), &l);
	body(e, t, p);
	cu_team_loop_close(e, p, depth, &l);
	nest_scope_leave(&e->scope, since);
}

/* ---- partial sums that stay in registers ---- */

static void
put_part_sum(struct cu_emit *e, const struct cu_team *t, uint32_t root,
	     const char *sum)
{
	const struct nest_root *r = &e->n->roots.at[root];
	int64_t elems = e->n->temps.at[e->n->memory.at[r->memory].i].elems;
	struct nest_root put = *r;

	put.add = false;
	cu_store(e, &put, sum, arena_printf(e->a, "%s * %lld", t->item,
					    (long long)elems));
}

/* If warps have rows of their own, the first warp sums over all warps. */
static void
open_first_warp(struct cu_emit *e, uint32_t root, int64_t n)
{
	cu_line(e->f, "UNROLL");
	cu_line(e->f, "for (int t = 0; t < %lld; t++) {", (long long)n);
	cu_line(e->f, "p%u[t] = over_strips_sum_f32(p%u[t]);", root, root);
	cu_line(e->f, "}");
	cu_line(e->f, "if (WARP == 0) {");
}

void
cu_part_end(struct cu_emit *e, const struct cu_team *t,
	    const struct nest_pass *p, uint32_t root, const char *sum)
{
	uint32_t depth = e->f->depth, since = e->scope.order.n;
	struct cu_lazy l;

	if (t->kind == CU_WARP) {
		open_first_warp(e, root, cu_part_sums(e, p, t));
	}
	if (p->nloops == 0) {
		cu_line(e->f, "if (%s == 0) {", t->me);
		put_part_sum(e, t, root, sum);
		while (e->f->depth > depth) {
			cu_line(e->f, "}");
		}
		nest_scope_leave(&e->scope, since);
		return;
	}
	cu_team_loop_open(e, t, p, cu_pass_lanes(e, p), &l);
	cu_lanes_open(e);
	put_part_sum(e, t, root, sum);
	cu_lanes_close(e);
	cu_team_loop_close(e, p, depth, &l);
	nest_scope_leave(&e->scope, since);
}

/* ---- passes ---- */

/* A pass without loops: one member stores its roots. */
static void
pass_of_row(struct cu_emit *e, const struct cu_team *t,
	    const struct nest_pass *p)
{
	uint32_t since = e->scope.order.n;

	if (t->kind == CU_ONE) {
		body(e, t, p);
		return;
	}
	cu_line(e->f, "if (%s == 0) {", t->me);
	body(e, t, p);
	cu_line(e->f, "}");
	nest_scope_leave(&e->scope, since);
}

static void
pass_alone(struct cu_emit *e, const struct cu_team *t,
	   const struct nest_pass *p)
{
	uint32_t k;

	for (k = 0; k < p->sums.n; k++) {
		cu_sum_begin(e, p->sums.at[k]);
	}
	if (p->nloops == 0) {
		pass_of_row(e, t, p);
	} else if (t->kind == CU_ONE) {
		loops_of_thread(e, t, p, 0);
	} else {
		loops_of_team(e, t, p);
	}
	for (k = 0; k < p->sums.n; k++) {
		cu_sum_end(e, p->sums.at[k], t->kind);
	}
}

void
cu_passes(struct cu_emit *e, const struct cu_team *t)
{
	uint32_t since = e->scope.order.n, done = UINT32_MAX, i;

	if (!e->filled) {
		memset(e->in_kept, 0, e->n->exprs.n);
	}
	for (i = 0; i < e->s->passes.n; i++) {
		const struct nest_pass *p = &e->s->passes.at[i];
		nest_id above = cu_sum_above(e, t, i);

		e->loops = cu_pass_loops(p);
		if (above) {
			cu_pass_above(e, t, p, above);
			done = cu_next_with_loops(e, i);
		} else if (i != done) {
			pass_alone(e, t, p);
		}
	}
	nest_scope_leave(&e->scope, since);
}

/*
 * Reductions of a row: each member of the team sums up its own elements in a
 * register, and then all members theirs.  A maximum and the sum of the
 * exponentials above it, which are two passes, can be one.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <float.h>
#include <string.h>

/* ---- one reduction ---- */

static const char *
sum_word(const struct nest_expr *x)
{
	return x->op == NEST_SUM ? "sum" : x->op == NEST_MOST ? "most"
		: "least";
}

static const char *
neutral(const struct nest_expr *x, const char *type)
{
	bool whole = type[0] == 'i';

	if (x->op == NEST_SUM) {
		return whole ? "0" : "0.0f";
	}
	if (whole) {
		return strcmp(type, "int") == 0
			? x->op == NEST_MOST ? "-2147483647" : "2147483647"
			: x->op == NEST_MOST ? "-i64_most()" : "i64_most()";
	}
	return x->op == NEST_MOST ? "-f_inf()" : "f_inf()";
}

void
cu_sum_begin(struct cu_emit *e, nest_id id)
{
	const char *type = cu_expr_type(e, id);

	cu_line(e->f, "%s s%u = %s;", type, id,
		neutral(nest_at(e->n, id), type));
}

void
cu_sum_add(struct cu_emit *e, nest_id id)
{
	const struct nest_expr *x = nest_at(e->n, id);
	const char *v = cu_expr(e, x->a);

	if (x->op == NEST_SUM) {
		cu_line(e->f, "s%u += %s;", id, v);
	} else if (x->kind == NEST_FLOAT) {
		cu_line(e->f, "s%u = %s(s%u, %s);", id,
			x->op == NEST_MOST ? "f_max" : "f_min", id, v);
	} else {
		cu_line(e->f, "s%u = %s %c s%u ? %s : s%u;", id, v,
			x->op == NEST_MOST ? '>' : '<', id, v, id);
	}
}

void
cu_sum_end(struct cu_emit *e, nest_id id, enum cu_team_kind team)
{
	static const char *const over[] = {
		[CU_WARP] = "warp", [CU_BLOCK] = "block",
		[CU_STRIPS] = "strips"
	};
	const char *name = arena_printf(e->a, "s%u", id);

	if (team != CU_ONE) {
		cu_line(e->f, "%s = over_%s_%s_%s(%s);", name, over[team],
			sum_word(nest_at(e->n, id)), cu_expr_type(e, id), name);
	}
	cu_expr_set(e, id, name);
}

/* ---- a maximum, and a sum of what is above it, in one pass ---- */

uint32_t
cu_next_with_loops(const struct cu_emit *e, uint32_t pass)
{
	do {
		pass++;
	} while (pass < e->s->passes.n && e->s->passes.at[pass].nloops == 0);
	return pass;
}

/* Whether it is that maximum, or the lowest finite number where that is -inf,
 * which cu_pass_above() sees to itself. */
static bool
is_from_most(const struct cu_emit *e, nest_id id, nest_id most)
{
	const struct nest_expr *x = nest_at(e->n, id);

	return x->op == NEST_MAX && x->a == most &&
	       nest_at(e->n, x->b)->op == NEST_NUM &&
	       nest_at(e->n, x->b)->num == -FLT_MAX;
}

nest_id
cu_sum_above(struct cu_emit *e, const struct cu_team *t, uint32_t pass)
{
	uint32_t next = cu_next_with_loops(e, pass);
	const struct nest_pass *p = &e->s->passes.at[pass];
	const struct nest_pass *q = &e->s->passes.at[next];
	const struct nest_expr *most, *sum, *power, *above;

	if (next == e->s->passes.n || t->kind == CU_ONE ||
	    p->nloops == 0 || cu_pass_loops(p) != cu_pass_loops(q) ||
	    p->sums.n != 1 || q->sums.n != 1 || p->roots.n > 0 ||
	    q->roots.n > 0 || cu_pass_iterations(e, p, t) > 0) {
		return 0;
	}
	most = nest_at(e->n, p->sums.at[0]);
	sum = nest_at(e->n, q->sums.at[0]);
	power = nest_at(e->n, sum->a);
	above = nest_at(e->n, power->a);
	return most->op == NEST_MOST && most->kind == NEST_FLOAT &&
	       sum->op == NEST_SUM && sum->over == most->over &&
	       power->op == NEST_EXP && above->op == NEST_SUB &&
	       above->a == most->a &&
	       is_from_most(e, above->b, p->sums.at[0]) &&
	       strcmp(cu_expr_type(e, q->sums.at[0]), "f32") == 0
	       ? q->sums.at[0] : 0;
}

/* A line for each lane, with its element between two texts. */
static void
each_lane(struct cu_emit *e, nest_id of, const char *before, const char *after)
{
	uint32_t since = e->scope.order.n;

	cu_lanes_open(e);
	cu_line(e->f, "%s%s%s", before, cu_expr(e, of), after);
	cu_lanes_close(e);
	if (e->lanes > 1) {
		nest_scope_leave(&e->scope, since);
	}
}

/*
 * The elements of a member.  The sum is of exp(x - top), where top is the
 * maximum so far: where that grows, the sum shrinks.  While all elements are
 * -inf, they are taken from 0, since -inf less -inf is no number.
 */
static void
body_above(struct cu_emit *e, const struct nest_pass *p, nest_id sum)
{
	nest_id most = p->sums.at[0], x = nest_at(e->n, most)->a;
	const char *top = cu_new_name(e, "top"), *from = cu_new_name(e, "from");

	if (e->lanes > 1) {
		nest_scope_hoist_pass(&e->scope, p, (uint64_t)1 << e->vec);
	}
	cu_load_lanes(e, x);
	cu_line(e->f, "f32 %s = s%u;", top, most);
	each_lane(e, x, arena_printf(e->a, "%s = f_max(%s, ", top, top), ");");
	cu_line(e->f, "f32 %s = %s == -f_inf() ? 0.0f : %s;", from, top, top);
	cu_line(e->f, "s%u *= f_exp(s%u - %s);", sum, most, from);
	each_lane(e, x, arena_printf(e->a, "s%u += f_exp(", sum),
		  arena_printf(e->a, " - %s);", from));
	cu_line(e->f, "s%u = %s;", most, top);
}

/* A member without elements has a maximum of -inf, and so has a row of which
 * this rank has none. */
void
cu_pass_above(struct cu_emit *e, const struct cu_team *t,
	   const struct nest_pass *p, nest_id sum)
{
	uint32_t depth = e->f->depth, since;
	const char *own = cu_new_name(e, "own"), *all = cu_new_name(e, "all");
	nest_id most = p->sums.at[0];
	struct cu_lazy l;

	cu_sum_begin(e, most);
	cu_sum_begin(e, sum);
	nest_scope_hoist_pass(&e->scope, p, cu_pass_loops(p));
	since = e->scope.order.n;
	cu_team_loop_open(e, t, p, cu_pass_lanes(e, p), &l);
	body_above(e, p, sum);
	cu_team_loop_close(e, p, depth, &l);
	nest_scope_leave(&e->scope, since);
	cu_line(e->f, "f32 %s = s%u;", own, most);
	cu_sum_end(e, most, t->kind);
	cu_line(e->f, "f32 %s = s%u == -f_inf() ? 0.0f : s%u;", all, most,
		most);
	cu_line(e->f, "s%u *= f_exp(%s - %s);", sum, own, all);
	cu_sum_end(e, sum, t->kind);
}

/*
 * Passes of a row: each member of the team has its share of the elements, as
 * vectors where memory allows; reductions go through registers, then over the
 * team.  What two passes read is loaded once and kept, if it is little.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <string.h>

#define MOST_UNROLLED 8	/* most unrolled iterations of a member */
#define LOADS 112	/* most registers for loads of unrolled iterations */
#define KEEP 64		/* most registers that keep loads for later passes */

/* ---- sums ---- */

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

static void
sum_begin(struct cu_emit *e, nest_id id)
{
	const char *type = cu_expr_type(e, id);

	cu_line(e->f, "%s s%u = %s;", type, id,
		neutral(nest_at(e->n, id), type));
}

static void
sum_add(struct cu_emit *e, nest_id id)
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

static void
sum_end(struct cu_emit *e, nest_id id, enum cu_team_kind team)
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

/* ---- what a pass has ---- */

int64_t
cu_pass_elems(const struct cu_emit *e, const struct nest_pass *p)
{
	int64_t n = 1;
	uint32_t i;

	for (i = 0; i < p->nloops; i++) {
		n *= cu_loop_size(e, p->loops[i]);
	}
	return n;
}

static uint64_t
mask_of(const struct nest_pass *p)
{
	uint64_t mask = 0;
	uint32_t i;

	for (i = 0; i < p->nloops; i++) {
		mask |= (uint64_t)1 << p->loops[i];
	}
	return mask;
}

/* Sets or clears the pass's indices, for questions about offsets. */
static void
mark_indices(struct cu_emit *e, const struct nest_pass *p, const char *text)
{
	uint32_t i;

	for (i = 0; i < p->nloops; i++) {
		e->index[p->loops[i]] = text;
	}
}

static uint32_t
own_lanes(struct cu_emit *e, const struct nest_pass *p)
{
	nest_id *of = arena_alloc(e->a, sizeof *of * (p->sums.n + 1));
	uint32_t i, lanes;

	for (i = 0; i < p->sums.n; i++) {
		of[i] = nest_at(e->n, p->sums.at[i])->a;
	}
	mark_indices(e, p, "0");
	lanes = cu_best_lanes(e, of, p->sums.n, p->roots.at, p->roots.n,
			      p->loops[p->nloops - 1]);
	mark_indices(e, p, NULL);
	return lanes;
}

/* Passes over the same elements have the same lanes, so that one finds what
 * another has loaded. */
uint32_t
cu_pass_lanes(struct cu_emit *e, const struct nest_pass *p)
{
	uint32_t i, lanes = 1, n;

	for (i = 0; p->nloops > 0 && i < e->s->passes.n; i++) {
		const struct nest_pass *q = &e->s->passes.at[i];

		if (mask_of(q) == mask_of(p)) {
			n = own_lanes(e, q);
			lanes = n > lanes ? n : lanes;
		}
	}
	return lanes;
}

/* ---- iterations ---- */

static void
count_loads(struct cu_emit *e, nest_id id, uint64_t loops, uint8_t *seen,
	    uint8_t *count)
{
	const struct nest_expr *x = nest_at(e->n, id);

	if (!id || seen[id] || x->over || !(x->loops & loops)) {
		return;
	}
	seen[id] = 1;
	if (x->op == NEST_LOAD) {
		count[id] = (uint8_t)(count[id] + (count[id] < 2));
		return;
	}
	count_loads(e, x->a, loops, seen, count);
	count_loads(e, x->b, loops, seen, count);
	count_loads(e, x->c, loops, seen, count);
}

static void
count_pass(struct cu_emit *e, const struct nest_pass *p, uint8_t *count)
{
	uint8_t *seen = arena_alloc(e->a, e->n->exprs.n);
	uint32_t i;

	for (i = 0; i < p->sums.n; i++) {
		count_loads(e, nest_at(e->n, p->sums.at[i])->a, mask_of(p),
			    seen, count);
	}
	for (i = 0; i < p->roots.n; i++) {
		count_loads(e, e->n->roots.at[p->roots.at[i]].value,
			    mask_of(p), seen, count);
	}
}

/* The most values of one element that a pass over these elements loads. */
static int64_t
most_loads(struct cu_emit *e, const struct nest_pass *p)
{
	uint8_t *count = arena_alloc(e->a, e->n->exprs.n);
	int64_t most = 0;
	uint32_t i, k;

	for (i = 0; i < e->s->passes.n; i++) {
		const struct nest_pass *q = &e->s->passes.at[i];
		int64_t n = 0;

		if (mask_of(q) != mask_of(p)) {
			continue;
		}
		memset(count, 0, e->n->exprs.n);
		count_pass(e, q, count);
		for (k = 1; k < e->n->exprs.n; k++) {
			n += count[k];
		}
		most = n > most ? n : most;
	}
	return most;
}

/* So many registers, or what a thread of the team has beside some for indices:
 * 65,536 are those of a multiprocessor. */
static int64_t
registers(const struct cu_team *t, int64_t most)
{
	int64_t has = t->kind == CU_BLOCK ? 65536 / t->members - 16 : most;

	return has < most ? has : most;
}

/* Iterations of a member's loop if they are unrolled: few, whose loads fit
 * registers.  Else 0. */
static int64_t
pass_iterations(struct cu_emit *e, const struct nest_pass *p,
	      const struct cu_team *t)
{
	uint32_t lanes = cu_pass_lanes(e, p);
	int64_t all = cu_pass_elems(e, p) / lanes, n;

	n = (all + t->members - 1) / t->members;
	return t->kind != CU_ONE && n > 0 && n <= MOST_UNROLLED &&
	       (n == 1 ||
		n * lanes * most_loads(e, p) <= registers(t, LOADS)) ? n : 0;
}

int64_t
cu_part_sums(struct cu_emit *e, const struct nest_pass *p,
	     const struct cu_team *t)
{
	int64_t n;

	if (p->nloops == 0) {
		return 1;
	}
	n = pass_iterations(e, p, t);
	return n * cu_pass_lanes(e, p);
}

/* ---- what is kept from pass to pass ---- */

/* Declares arrays for loads that several passes over the same elements as pass
 * `first` share. */
static void
keep_like(struct cu_emit *e, const struct cu_team *t, uint32_t first,
	  int64_t *left)
{
	const struct nest_pass *p = &e->s->passes.at[first], *q;
	uint8_t *count = arena_alloc(e->a, e->n->exprs.n);
	int64_t n = pass_iterations(e, p, t);
	uint32_t lanes = cu_pass_lanes(e, p), i;
	int64_t each = n * lanes;

	for (i = first; i < e->s->passes.n; i++) {
		q = &e->s->passes.at[i];
		if (mask_of(q) == mask_of(p)) {
			count_pass(e, q, count);
		}
	}
	for (i = 1; n && i < e->n->exprs.n && *left >= each; i++) {
		const struct nest_expr *x = nest_at(e->n, i);

		if (count[i] < 2 || e->kept[i] || x->op != NEST_LOAD ||
		    (lanes > 1 && !cu_is_vector(e, i, p->loops[p->nloops - 1],
						lanes))) {
			continue;
		}
		e->kept[i] = arena_printf(e->a, "x%u", i);
		e->kept_loops[i] = mask_of(p);
		*left -= each;
		cu_line(e->f, "%s %s[%lld];", x->kind == NEST_INT ? "i32"
			: cu_expr_type(e, i), e->kept[i], (long long)each);
	}
}

void
cu_keep_loads(struct cu_emit *e, const struct cu_team *t)
{
	int64_t left = registers(t, KEEP);
	uint32_t i;

	for (i = 0; i < e->s->passes.n; i++) {
		if (e->s->passes.at[i].nloops > 0) {
			keep_like(e, t, i, &left);
		}
	}
}

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
		cu_line(e->f, "UNROLL");
		cu_line(e->f, "for (int k = 0; k < %u; k++) {", e->lanes);
	}
	since = e->scope.order.n;
	for (i = 0; i < p->sums.n; i++) {
		sum_add(e, p->sums.at[i]);
	}
	put_roots(e, t, p);
	if (e->lanes > 1) {
		cu_line(e->f, "}");
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

/* Indices of the pass from the number of a vector. */
static void
set_indices(struct cu_emit *e, struct cu_lazy *l, const struct nest_pass *p,
	    const char *j, uint32_t lanes)
{
	int64_t by = 1, size;
	uint32_t i;

	for (i = p->nloops; i-- > 0; ) {
		uint32_t loop = p->loops[i];
		const char *at = by == 1 ? arena_printf(e->a, "(u32)%s", j)
			: arena_printf(e->a, "(u32)%s / %lldu", j,
				       (long long)by);

		size = cu_loop_size(e, loop);
		size = i + 1 == p->nloops ? size / lanes : size;
		if (i > 0) {
			at = arena_printf(e->a, "%s %% %lldu", at,
					  (long long)(size > 0 ? size : 1));
		}
		at = i + 1 == p->nloops && lanes > 1
			? arena_printf(e->a, "(int)(%s) * %u", at, lanes)
			: arena_printf(e->a, "(int)(%s)", at);
		e->index[loop] = arena_printf(e->a, "i%u", loop);
		cu_lazy_add(l, e->index[loop],
			    arena_printf(e->a, "int i%u = %s;", loop, at));
		by *= size > 0 ? size : 1;
	}
}

/* How far a long loop is unrolled: how many iterations have their loads in
 * flight at once. */
static const char *
unrolling(struct cu_emit *e, const struct nest_pass *p, uint32_t lanes)
{
	int64_t each = lanes * most_loads(e, p);

	return 4 * each <= LOADS ? "UNROLL_4" : 2 * each <= LOADS ? "UNROLL_2"
								  : "ROLLED";
}

/* Opens the loop over the member's vectors. */
static void
open_team_loop(struct cu_emit *e, const struct cu_team *t,
	       const struct nest_pass *p, uint32_t lanes, struct cu_lazy *l)
{
	int64_t n = pass_iterations(e, p, t);
	int64_t all = cu_pass_elems(e, p) / lanes;
	const char *j = cu_new_name(e, "j"), *set;

	set = arena_printf(e->a, "int %s = t * %lld + %s;", j,
			   (long long)t->members, t->me);
	if (n == 0) {
		cu_line(e->f, "%s", unrolling(e, p, lanes));
		cu_line(e->f, "for (int %s = %s; %s < %lld; %s += %lld) {", j,
			t->me, j, (long long)all, j, (long long)t->members);
		cu_lazy_open(e->f, l);
	} else {
		cu_line(e->f, "UNROLL");
		cu_line(e->f, "for (int t = 0; t < %lld; t++) {",
			(long long)n);
		if (all % t->members != 0) {
			cu_line(e->f, "%s", set);
			cu_line(e->f, "if (%s < %lld) {", j, (long long)all);
			cu_lazy_open(e->f, l);
		} else {
			cu_lazy_open(e->f, l);
			cu_lazy_add(l, j, set);
		}
	}
	set_indices(e, l, p, j, lanes);
	e->lanes = lanes;
	e->vec = p->loops[p->nloops - 1];
}

static void
close_team_loop(struct cu_emit *e, const struct nest_pass *p, uint32_t depth,
		struct cu_lazy *l)
{
	uint32_t i;

	e->lanes = 1;
	for (i = 0; i < p->nloops; i++) {
		e->index[p->loops[i]] = NULL;
	}
	cu_lazy_close(e->f, l);
	while (e->f->depth > depth) {
		cu_line(e->f, "}");
	}
}

static void
loops_of_team(struct cu_emit *e, const struct cu_team *t,
	      const struct nest_pass *p)
{
	uint32_t depth = e->f->depth, since;
	struct cu_lazy l;

	nest_scope_hoist_pass(&e->scope, p, mask_of(p));
	since = e->scope.order.n;
	open_team_loop(e, t, p, cu_pass_lanes(e, p), &l);
	body(e, t, p);
	close_team_loop(e, p, depth, &l);
	nest_scope_leave(&e->scope, since);
}

/* ---- a maximum, and a sum of what is above it, in one pass ---- */

/* The next pass with loops after this one; as many as there are: none. */
static uint32_t
next_with_loops(const struct cu_emit *e, uint32_t pass)
{
	do {
		pass++;
	} while (pass < e->s->passes.n && e->s->passes.at[pass].nloops == 0);
	return pass;
}

/* The sum of exp(x - m) in the next pass after that of the maximum m of x, if
 * rows are too long to be kept, so that each pass would read them; 0: none. */
static nest_id
sum_above(struct cu_emit *e, const struct cu_team *t, uint32_t pass)
{
	uint32_t next = next_with_loops(e, pass);
	const struct nest_pass *p = &e->s->passes.at[pass];
	const struct nest_pass *q = &e->s->passes.at[next];
	const struct nest_expr *most, *sum, *power, *above;

	if (next == e->s->passes.n || t->kind == CU_ONE ||
	    p->nloops == 0 || mask_of(p) != mask_of(q) || p->sums.n != 1 ||
	    q->sums.n != 1 || p->roots.n > 0 || q->roots.n > 0 ||
	    pass_iterations(e, p, t) > 0) {
		return 0;
	}
	most = nest_at(e->n, p->sums.at[0]);
	sum = nest_at(e->n, q->sums.at[0]);
	power = nest_at(e->n, sum->a);
	above = nest_at(e->n, power->a);
	return most->op == NEST_MOST && most->kind == NEST_FLOAT &&
	       sum->op == NEST_SUM && sum->over == most->over &&
	       power->op == NEST_EXP && above->op == NEST_SUB &&
	       above->a == most->a && above->b == p->sums.at[0] &&
	       strcmp(cu_expr_type(e, q->sums.at[0]), "f32") == 0
	       ? q->sums.at[0] : 0;
}

/* A line for each lane, with its element between two texts. */
static void
each_lane(struct cu_emit *e, nest_id of, const char *before, const char *after)
{
	uint32_t since = e->scope.order.n;

	if (e->lanes > 1) {
		cu_line(e->f, "UNROLL");
		cu_line(e->f, "for (int k = 0; k < %u; k++) {", e->lanes);
	}
	cu_line(e->f, "%s%s%s", before, cu_expr(e, of), after);
	if (e->lanes > 1) {
		cu_line(e->f, "}");
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

/* Both passes in one, over elements that are read once.  A member without
 * elements has a maximum of -inf, and so has a row of which this rank has
 * none. */
static void
pass_above(struct cu_emit *e, const struct cu_team *t,
	   const struct nest_pass *p, nest_id sum)
{
	uint32_t depth = e->f->depth, since;
	const char *own = cu_new_name(e, "own"), *all = cu_new_name(e, "all");
	nest_id most = p->sums.at[0];
	struct cu_lazy l;

	sum_begin(e, most);
	sum_begin(e, sum);
	nest_scope_hoist_pass(&e->scope, p, mask_of(p));
	since = e->scope.order.n;
	open_team_loop(e, t, p, cu_pass_lanes(e, p), &l);
	body_above(e, p, sum);
	close_team_loop(e, p, depth, &l);
	nest_scope_leave(&e->scope, since);
	cu_line(e->f, "f32 %s = s%u;", own, most);
	sum_end(e, most, t->kind);
	cu_line(e->f, "f32 %s = s%u == -f_inf() ? 0.0f : s%u;", all, most,
		most);
	cu_line(e->f, "s%u *= f_exp(%s - %s);", sum, own, all);
	sum_end(e, sum, t->kind);
}

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
	open_team_loop(e, t, p, cu_pass_lanes(e, p), &l);
	if (e->lanes > 1) {
		cu_line(e->f, "UNROLL");
		cu_line(e->f, "for (int k = 0; k < %u; k++) {", e->lanes);
	}
	put_part_sum(e, t, root, sum);
	if (e->lanes > 1) {
		cu_line(e->f, "}");
	}
	close_team_loop(e, p, depth, &l);
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
		sum_begin(e, p->sums.at[k]);
	}
	if (p->nloops == 0) {
		pass_of_row(e, t, p);
	} else if (t->kind == CU_ONE) {
		loops_of_thread(e, t, p, 0);
	} else {
		loops_of_team(e, t, p);
	}
	for (k = 0; k < p->sums.n; k++) {
		sum_end(e, p->sums.at[k], t->kind);
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
		nest_id above = sum_above(e, t, i);

		e->loops = mask_of(p);
		if (above) {
			pass_above(e, t, p, above);
			done = next_with_loops(e, i);
		} else if (i != done) {
			pass_alone(e, t, p);
		}
	}
	nest_scope_leave(&e->scope, since);
}

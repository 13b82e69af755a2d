/*
 * What members of a team have of a row's pass: vectors of its elements in turn,
 * as wide as memory allows, in a loop that is unrolled if it is short.  What
 * several passes read is loaded once and kept, if it is little.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <string.h>

#define MOST_UNROLLED 8	/* most unrolled iterations of a member */
#define LOADS 112	/* most registers for loads of unrolled iterations */
#define KEEP 64		/* most registers that keep loads for later passes */

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

int64_t
cu_pass_vectors(const struct cu_emit *e, const struct nest_pass *p,
		uint32_t lanes)
{
	int64_t last = cu_loop_size(e, p->loops[p->nloops - 1]);

	return last ? cu_pass_elems(e, p) / last * ((last + lanes - 1) / lanes)
		    : 0;
}

uint64_t
cu_pass_loops(const struct nest_pass *p)
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
			      p->loops[p->nloops - 1], e->whole);
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

		if (cu_pass_loops(q) == cu_pass_loops(p)) {
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
		count_loads(e, nest_at(e->n, p->sums.at[i])->a,
			    cu_pass_loops(p), seen, count);
	}
	for (i = 0; i < p->roots.n; i++) {
		count_loads(e, e->n->roots.at[p->roots.at[i]].value,
			    cu_pass_loops(p), seen, count);
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

		if (cu_pass_loops(q) != cu_pass_loops(p)) {
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

/* They are unrolled if they are few, whose loads fit registers. */
int64_t
cu_pass_iterations(struct cu_emit *e, const struct nest_pass *p,
		   const struct cu_team *t)
{
	uint32_t lanes = cu_pass_lanes(e, p);
	int64_t all = cu_pass_vectors(e, p, lanes), n;

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
	n = cu_pass_iterations(e, p, t);
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
	int64_t n = cu_pass_iterations(e, p, t);
	uint32_t lanes = cu_pass_lanes(e, p), i;
	int64_t each = n * lanes;

	for (i = first; i < e->s->passes.n; i++) {
		q = &e->s->passes.at[i];
		if (cu_pass_loops(q) == cu_pass_loops(p)) {
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
		e->kept_loops[i] = cu_pass_loops(p);
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

/* ---- the loop over the vectors of a member ---- */

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
		size = i + 1 == p->nloops ? (size + lanes - 1) / lanes : size;
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

void
cu_team_loop_open(struct cu_emit *e, const struct cu_team *t,
		  const struct nest_pass *p, uint32_t lanes,
		  struct cu_lazy *l)
{
	int64_t n = cu_pass_iterations(e, p, t);
	int64_t all = cu_pass_vectors(e, p, lanes);
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

void
cu_team_loop_close(struct cu_emit *e, const struct nest_pass *p,
		   uint32_t depth, struct cu_lazy *l)
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

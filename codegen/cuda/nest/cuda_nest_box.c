/*
 * A nest inside of another kernel's function: the threads of a block compute
 * the box that the kernel has made, with leaves in its scratch.  Threads have
 * vectors of rows in turn, whose loads are in flight together; if rows are
 * reduced, warps have them in turn.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <string.h>

/* ---- rows of a box ---- */

static uint64_t
all_loops(const struct cu_emit *e)
{
	return e->n->loops.n < 64 ? ((uint64_t)1 << e->n->loops.n) - 1
				  : ~(uint64_t)0;
}

static int64_t
box_sizes(const struct cu_emit *e, int64_t *size)
{
	int64_t n = 1;
	uint32_t i;

	for (i = 0; i < e->s->nrows; i++) {
		int box = e->n->loops.at[e->s->rows[i]].box;

		size[i] = box >= 0 && e->box->count[box]
			? e->box->count[box] : e->s->size[i];
		n *= size[i];
	}
	return n;
}

/* "i1 < live1 && i2 < live2"; NULL: always true. */
static const char *
all_live(struct cu_emit *e)
{
	const char *text = NULL;
	uint32_t i;

	for (i = 0; i < e->s->nrows; i++) {
		uint32_t loop = e->s->rows[i];
		int box = e->n->loops.at[loop].box;
		const char *one;

		if (box < 0 || !e->box->live[box]) {
			continue;
		}
		one = arena_printf(e->a, "%s < %s", e->index[loop],
				   e->box->live[box]);
		text = text ? arena_printf(e->a, "%s && %s", text, one) : one;
	}
	return text;
}

/* How threads share a box whose rows have no reductions. */
struct box_turns {
	int64_t size[NEST_LOOPS];	/* of row loops */
	int64_t vectors;		/* or pairs of vectors */
	int64_t threads;
	uint32_t lanes;
	/* a loop of two, both of which one thread has, so that what they share
	 * is computed once; -1: none */
	int pair;
	int64_t at_once;	/* whose loads are in flight together */
	bool uneven;		/* some threads have one less */
};

/* Whether all lanes of a vector read the same element. */
static bool
is_shared(const struct cu_emit *e, nest_id id)
{
	return !(nest_at(e->n, id)->loops >>
		 e->s->rows[e->s->nrows - 1] & 1);
}

/* Declares arrays for the operands that are loaded before anything is stored;
 * returns how many vectors there are. */
static uint32_t
keep_early(struct cu_emit *e, const struct box_turns *b, nest_id id,
	   uint8_t *seen, bool declare)
{
	const struct nest_expr *x = nest_at(e->n, id);
	int64_t each = b->at_once * (b->pair < 0 ? 1 : 2);
	uint32_t n;
	bool shared;

	if (!id || seen[id] || e->scope.made[id] || x->over) {
		return 0;
	}
	seen[id] = 1;
	if (x->op != NEST_LOAD) {
		n = keep_early(e, b, x->a, seen, declare);
		n += keep_early(e, b, x->b, seen, declare);
		n += keep_early(e, b, x->c, seen, declare);
		return n;
	}
	shared = is_shared(e, id);
	if (e->n->memory.at[x->ref].where != NEST_OPERAND || (!shared &&
	    !cu_is_vector(e, id, e->s->rows[e->s->nrows - 1], b->lanes))) {
		return 0;
	}
	if (declare) {
		e->kept[id] = arena_printf(e->a, "x%u", id);
		e->kept_loops[id] = 0;
		cu_line(e->f, "%s %s[%lld];", x->kind == NEST_INT ? "i32"
			: cu_expr_type(e, id), e->kept[id],
			(long long)(shared ? each : each * b->lanes));
	}
	return !shared;
}

/* Loads what all lanes of a vector share or, if it is `loaded`, names it. */
static void
set_shared(struct cu_emit *e, bool loaded)
{
	nest_id id;

	for (id = 1; id < e->n->exprs.n; id++) {
		const struct nest_expr *x = nest_at(e->n, id);

		if (!e->kept[id] || !is_shared(e, id)) {
			continue;
		}
		if (!loaded) {
			cu_line(e->f, "%s[t] = %s;", e->kept[id],
				cu_widen(e->a, (enum ir_dtype)e->n->memory.at[
					x->ref].dtype,
					 cu_element(e, x->a, x->ref, NULL)));
		}
		cu_expr_set(e, id, arena_printf(e->a, "%s[t]", e->kept[id]));
	}
}

static uint32_t
keep_all_early(struct cu_emit *e, const struct box_turns *b, bool declare)
{
	uint8_t *seen = arena_alloc(e->a, e->n->exprs.n);
	uint32_t i, n = 0;

	cu_row_mark(e, "0");
	for (i = 0; i < e->s->roots.n; i++) {
		n += keep_early(e, b, e->n->roots.at[e->s->roots.at[i]].value,
				seen, declare);
	}
	cu_row_mark(e, NULL);
	return n;
}

static struct box_turns
turns_of(struct cu_emit *e, int64_t threads)
{
	struct box_turns b = { .threads = threads, .pair = -1, .at_once = 1,
			       .lanes = cu_row_lanes(e) };
	int64_t loads;
	uint32_t i;

	b.vectors = box_sizes(e, b.size) / b.lanes;
	for (i = 0; b.lanes > 1 && b.pair < 0 && i + 1 < e->s->nrows; i++) {
		int box = e->n->loops.at[e->s->rows[i]].box;

		if (b.size[i] == 2 && (box < 0 || !e->box->live[box])) {
			b.pair = (int)e->s->rows[i];
			b.size[i] = 1;
			b.vectors /= 2;
		}
	}
	loads = b.lanes > 1 ? keep_all_early(e, &b, false) : 0;
	b.at_once = cost_at_once(loads, b.lanes, b.pair >= 0, b.vectors,
				 threads);
	b.uneven = b.vectors % (b.at_once * threads) != 0;
	return b;
}

/* Opens a loop over the vectors of a thread whose loads are in flight
 * together, the first of which is vector `first`. */
static void
open_turns(struct cu_emit *e, const struct box_turns *b, const char *first,
	   struct cu_lazy *l)
{
	int each = b->pair < 0 ? 1 : 2;
	const char *r = b->at_once == 1 ? first
		: arena_printf(e->a, each > 1 ? "(%s + t / 2 * %lld)"
			       : "(%s + t * %lld)", first,
			       (long long)b->threads);
	const char *live;

	cu_line(e->f, "UNROLL");
	cu_line(e->f, "for (int t = 0; t < %lld; t++) {",
		(long long)b->at_once * each);
	cu_row_indices(e, l, r, false, b->size, b->lanes);
	if (b->pair >= 0) {
		e->index[b->pair] = "(t % 2)";
	}
	live = all_live(e);
	if (b->uneven && b->at_once > 1) {
		live = arena_printf(e->a, "%s < %lld%s%s", r,
				    (long long)b->vectors, live ? " && " : "",
				    live ? live : "");
	}
	cu_line(e->f, live ? "if (%s) {" : "{", live);
	e->lanes = b->lanes;
	e->vec = e->s->nrows ? e->s->rows[e->s->nrows - 1] : 0;
}

static void
close_turns(struct cu_emit *e, struct cu_lazy *l)
{
	e->lanes = 1;
	cu_line(e->f, "}");
	cu_lazy_close(e->f, l);
	cu_line(e->f, "}");
	cu_row_mark(e, NULL);
}

/* Loads of operands, which are in flight together. */
static void
load_early(struct cu_emit *e, const struct box_turns *b, const char *first)
{
	uint32_t since = e->scope.order.n, i;
	struct cu_lazy l;

	keep_all_early(e, b, true);
	open_turns(e, b, first, &l);
	set_shared(e, false);
	memset(e->in_kept, 0, e->n->exprs.n);
	e->loops = 0;
	e->early = true;
	for (i = 0; i < e->s->roots.n; i++) {
		cu_load_lanes(e, e->n->roots.at[e->s->roots.at[i]].value);
	}
	e->early = false;
	close_turns(e, &l);
	nest_scope_leave(&e->scope, since);
	e->filled = true;
}

static void
put_ready(struct cu_emit *e)
{
	if (e->ready) {
		buf_puts(&e->f->text, e->ready);
		e->ready = NULL;
	}
}

static void
box_by_threads(struct cu_emit *e, int64_t threads, const char *thread)
{
	const struct cu_team one = { .kind = CU_ONE, .members = 1, .me = "0" };
	struct box_turns b = turns_of(e, threads);
	const char *r = cu_new_name(e, "r");
	int64_t each = threads * b.at_once;
	bool once = b.vectors == each;
	struct cu_lazy l;
	uint32_t since;

	if (once) {
		cu_line(e->f, "const int %s = %s;", r, thread);
	} else {
		put_ready(e);
	}
	nest_scope_hoist_roots(&e->scope, e->s->roots.at, e->s->roots.n,
			       all_loops(e));
	if (!once) {
		cu_line(e->f, "ROLLED");
		cu_line(e->f, "for (int %s = %s; %s < %lld; %s += %lld) {", r,
			thread, r, (long long)b.vectors, r, (long long)each);
	}
	if (b.lanes > 1) {
		load_early(e, &b, r);
	}
	put_ready(e);
	since = e->scope.order.n;
	open_turns(e, &b, r, &l);
	if (b.lanes > 1) {
		set_shared(e, true);
	}
	cu_passes(e, &one);
	close_turns(e, &l);
	nest_scope_leave(&e->scope, since);
	e->filled = false;
	if (!once) {
		cu_line(e->f, "}");
	}
}

static void
box_by_warps(struct cu_emit *e, int64_t threads, const char *thread)
{
	const struct cu_team warp = { .kind = CU_WARP, .members = 32,
				      .me = "LANE" };
	int64_t size[NEST_LOOPS], n = box_sizes(e, size);
	const char *r = cu_new_name(e, "r"), *live;
	struct cu_lazy l;

	put_ready(e);
	nest_scope_hoist_roots(&e->scope, e->s->roots.at, e->s->roots.n,
			       all_loops(e));
	cu_line(e->f, "for (int %s = (%s) / 32; %s < %lld; %s += %lld) {", r,
		thread, r, (long long)n, r, (long long)(threads / 32));
	cu_row_indices(e, &l, r, false, size, 1);
	live = all_live(e);
	if (live) {
		cu_line(e->f, "if (%s) {", live);
	}
	e->vec = e->s->nrows ? e->s->rows[e->s->nrows - 1] : 0;
	cu_keep_loads(e, &warp);
	cu_passes(e, &warp);
	if (live) {
		cu_line(e->f, "}");
	}
	cu_lazy_close(e->f, &l);
	cu_line(e->f, "}");
	cu_row_mark(e, NULL);
}

void
cu_rows_box(struct cu_emit *e, int64_t threads, const char *thread)
{
	if (cu_longest_pass(e) >= 32 && threads % 32 == 0) {
		box_by_warps(e, threads, thread);
	} else {
		box_by_threads(e, threads, thread);
	}
}

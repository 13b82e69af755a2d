/*
 * Sums of rows by index on a GPU, as in the gradient of an embedding, without
 * atomic additions of floats: a first step finds the place of each row, a
 * second links each row to the next row of its place, and in a third a block
 * sums a place's rows in their order.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#define THREADS 256

struct cu_scatter_steps {
	struct cu_kernel *k;
	struct nest_scatter of;
	/* in shared scratch: i32 by row, by place, by row */
	int64_t to, head, next;
};

static void
begin_step(struct cu_scatter_steps *s, struct cu_func *f, struct cu_emit *e,
	   int64_t n)
{
	*f = (struct cu_func){ .k = s->k };
	*e = (struct cu_emit){ .f = f, .n = s->of.n, .whole = true };
	cu_func_begin(s->k, "scatter", f);
	f->grid->threads = THREADS;
	f->grid->blocks[0] = (n + THREADS - 1) / THREADS;
	cu_nest_open(e, NULL);
}

static void
declare_list(struct cu_func *f, const char *name, int64_t offset)
{
	cu_line(f, "i32 *%s = (i32 *)(a.shared + %lld);", name,
		(long long)offset);
}

/* Stores the place of each row, and marks all places as empty. */
static void
find_places(struct cu_scatter_steps *s)
{
	int64_t rows = s->of.rows, places = s->of.places;
	struct cu_emit e;
	struct cu_func f;
	const char *to;

	begin_step(s, &f, &e, rows > places ? rows : places);
	cu_comment(&f, "%lld rows to %lld places", (long long)rows,
		   (long long)places);
	declare_list(&f, "to", s->to);
	declare_list(&f, "head", s->head);
	cu_line(&f, "int row = BLOCK_X * %d + TID;", THREADS);
	cu_line(&f, "if (row < %lld) {", (long long)places);
	cu_line(&f, "head[row] = -1;");
	cu_line(&f, "}");
	cu_line(&f, "if (row < %lld) {", (long long)rows);
	e.index[s->of.row] = "row";
	to = cu_expr(&e, s->of.to);
	cu_line(&f, "to[row] = (i32)%s;", to);
	cu_line(&f, "}");
	cu_func_end(&f);
}

/*
 * Each row searches the next row of its place.  The head of a place is the
 * maximum of rows - 1 - row, so that it is the first row whatever the order of
 * execution.
 */
static void
link_rows(struct cu_scatter_steps *s)
{
	long long rows = (long long)s->of.rows;
	struct cu_emit e;
	struct cu_func f;

	begin_step(s, &f, &e, s->of.rows);
	declare_list(&f, "to", s->to);
	declare_list(&f, "head", s->head);
	declare_list(&f, "next", s->next);
	cu_line(&f, "int row = BLOCK_X * %d + TID, place, at;", THREADS);
	cu_line(&f, "if (row < %lld) {", rows);
	cu_line(&f, "place = to[row];");
	cu_line(&f, "at = %lld;", rows);
	cu_line(&f, "if (place >= 0) {");
	cu_line(&f, "for (at = row + 1; at < %lld && to[at] != place; at++) {",
		rows);
	cu_line(&f, "}");
	cu_line(&f, "atomic_max_i32(&head[place], %lld - row);", rows - 1);
	cu_line(&f, "}");
	cu_line(&f, "next[row] = at < %lld ? at : -1;", rows);
	cu_line(&f, "}");
	cu_func_end(&f);
}

/* ---- adding up ---- */

/* Declares the first row of the block's place; opens a block of C. */
static void
open_place(struct cu_scatter_steps *s, struct cu_emit *e)
{
	long long last = (long long)s->of.rows - 1;

	declare_list(e->f, "next", s->next);
	declare_list(e->f, "head", s->head);
	if (s->of.all) {
		cu_line(e->f, "int place = BLOCK_X, first = head[place];");
		cu_line(e->f, "first = first < 0 ? -1 : %lld - first;", last);
		cu_line(e->f, "{");
		return;
	}
	declare_list(e->f, "to", s->to);
	cu_line(e->f, "int first = BLOCK_X, place = to[first];");
	cu_line(e->f, "if (place >= 0 && head[place] == %lld - first) {",
		last);
}

/* Indices of columns from the number of a vector. */
static void
set_columns(struct cu_scatter_steps *s, struct cu_emit *e, struct cu_lazy *l,
	    uint32_t lanes)
{
	int64_t by = 1, size;
	uint32_t i;

	cu_lazy_open(e->f, l);
	for (i = s->of.ncols; i-- > 0; ) {
		uint32_t loop = s->of.col[i];
		uint32_t own = i + 1 == s->of.ncols ? lanes : 1;

		size = s->of.n->loops.at[loop].size / own;
		size = size > 0 ? size : 1;
		e->index[loop] = arena_printf(e->a, "i%u", loop);
		cu_lazy_add(l, e->index[loop], arena_printf(e->a,
			"int i%u = (int)((u32)j / %lldu %% %lldu) * %u;", loop,
			(long long)by, (long long)size, own));
		by *= size;
	}
}

static void
add_rows(struct cu_scatter_steps *s, struct cu_emit *e)
{
	const char *type = cu_expr_type(e, s->of.x);
	uint32_t since = e->scope.order.n;

	cu_line(e->f, "%s sum[%u] = { 0 };", type, e->lanes);
	cu_line(e->f, "int row = first;");
	cu_line(e->f, "while (row >= 0) {");
	cu_line(e->f, "int after = next[row];");
	e->index[s->of.row] = "row";
	cu_load_lanes(e, s->of.x);
	if (e->lanes > 1) {
		cu_line(e->f, "UNROLL");
		cu_line(e->f, "for (int k = 0; k < %u; k++) {", e->lanes);
		cu_line(e->f, "sum[k] += %s;", cu_expr(e, s->of.x));
		cu_line(e->f, "}");
	} else {
		cu_line(e->f, "sum[0] += %s;", cu_expr(e, s->of.x));
	}
	cu_line(e->f, "row = after;");
	cu_line(e->f, "}");
	e->index[s->of.row] = NULL;
	nest_scope_leave(&e->scope, since);
}

static void
put_sums(struct cu_scatter_steps *s, struct cu_emit *e)
{
	const struct nest *n = s->of.n;
	uint32_t i, since = e->scope.order.n;

	e->index[s->of.place] = "place";
	for (i = 0; i < n->roots.n; i++) {
		const struct nest_root *r = &n->roots.at[i];
		bool lanes = cu_root_lanes(e, r);

		cu_line(e->f, "{");
		if (lanes) {
			cu_line(e->f, "%s y[%u]%s;",
				n->memory.at[r->memory].dtype == IR_F64
				? "f64" : "f32", e->lanes,
				r->add ? "" : " = { 0 }");
			if (r->add) {
				cu_load_stored_lanes(e, r, "y");
			}
		}
		if (e->lanes > 1) {
			cu_line(e->f, "UNROLL");
			cu_line(e->f, "for (int k = 0; k < %u; k++) {",
				e->lanes);
		}
		if (lanes) {
			cu_line(e->f, "y[k] += sum[k];");
		} else {
			cu_store(e, r, e->lanes > 1 ? "sum[k]" : "sum[0]",
				 NULL);
		}
		if (e->lanes > 1) {
			cu_line(e->f, "}");
		}
		if (lanes) {
			cu_store_lanes(e, r, NULL, "y");
		}
		cu_line(e->f, "}");
		nest_scope_leave(&e->scope, since);
	}
	e->index[s->of.place] = NULL;
}

static uint32_t
lanes_of(struct cu_scatter_steps *s, struct cu_emit *e)
{
	struct nest *n = s->of.n;
	uint32_t *roots = arena_alloc(e->a, sizeof *roots * (n->roots.n + 1));
	uint32_t i, lanes;

	if (s->of.ncols == 0) {
		return 1;
	}
	for (i = 0; i < n->roots.n; i++) {
		roots[i] = i;
	}
	for (i = 0; i < n->loops.n; i++) {
		e->index[i] = "0";
	}
	lanes = cu_best_lanes(e, &s->of.x, 1, roots, n->roots.n,
			      s->of.col[s->of.ncols - 1]);
	for (i = 0; i < n->loops.n; i++) {
		e->index[i] = NULL;
	}
	return lanes;
}

static void
add_up(struct cu_scatter_steps *s)
{
	int64_t count = s->of.all ? s->of.places : s->of.rows, cols;
	struct cu_lazy l;
	struct cu_emit e;
	struct cu_func f;
	uint32_t lanes;

	begin_step(s, &f, &e, 0);
	lanes = lanes_of(s, &e);
	cols = s->of.cols / lanes;
	f.grid->blocks[0] = count;
	f.grid->threads = cols > THREADS ? THREADS : (cols + 31) / 32 * 32;
	cu_comment(&f, "%lld columns, %u at once", (long long)s->of.cols,
		   lanes);
	open_place(s, &e);
	cu_line(&f, "for (int j = TID; j < %lld; j += %lld) {",
		(long long)cols, (long long)f.grid->threads);
	set_columns(s, &e, &l, lanes);
	e.lanes = lanes;
	e.vec = s->of.ncols ? s->of.col[s->of.ncols - 1] : 0;
	add_rows(s, &e);
	put_sums(s, &e);
	cu_lazy_close(&f, &l);
	cu_close(&f, 2);
	cu_func_end(&f);
}

bool
cu_scatter(struct cu_kernel *k, const struct cu_nest *x)
{
	const struct nest_input like = { .bare = true };
	struct nest *n = cu_nest_build(k, x, &like);
	struct cu_scatter_steps s = { .k = k };

	if (!n || !nest_find_scatter(n, &s.of)) {
		k->why = n && n->why ? n->why : k->why;
		return false;
	}
	s.to = cg_reserve_shared(k->out, 64, 4 * s.of.rows);
	s.next = cg_reserve_shared(k->out, 4, 4 * s.of.rows);
	s.head = cg_reserve_shared(k->out, 4, 4 * s.of.places);
	if (s.of.cols == 0 || (s.of.all ? s.of.places : s.of.rows) == 0) {
		return true;
	}
	find_places(&s);
	if (s.of.rows > 0) {
		link_rows(&s);
	}
	add_up(&s);
	return true;
}

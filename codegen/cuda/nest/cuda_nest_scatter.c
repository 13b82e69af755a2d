/*
 * Sums of rows by index on a GPU, as in the gradient of an embedding, without
 * atomic additions of floats: a first step finds the place of each row, two
 * more link each row to the next row of its place, and in the last a block sums
 * a place's rows in their order.
 *
 * Rows are linked in chunks of as many as a block has threads; then one block
 * joins the chunks, from the last to the first: the first row of each place, of
 * the chunks so far, follows the last one of the chunk before.  So the work
 * grows as the rows do, and some microseconds of it, for each chunk, are one
 * after another.
 *
 * Where sums are added to something, only places are touched that a row goes
 * to.  If that holds nothing yet, each block of the same grid has some of the
 * places instead, and stores them all: sums, or zeros.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#define THREADS 256
#define CHUNK 1024	/* rows */
/* blocks of a multiprocessor, at least, that store all places */
#define BLOCKS 8

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

/* Begins a step of blocks that have a chunk.  Returns its rows. */
static int64_t
begin_chunks(struct cu_scatter_steps *s, struct cu_func *f, int64_t blocks)
{
	int64_t most = (s->of.rows + 31) / 32 * 32;
	struct cu_emit e;

	begin_step(s, f, &e, 0);
	f->grid->threads = most < CHUNK ? most : CHUNK;
	f->grid->blocks[0] = blocks;
	f->grid->smem_bytes = 4 * f->grid->threads;
	declare_list(f, "to", s->to);
	declare_list(f, "next", s->next);
	return f->grid->threads;
}

/* Each row searches the next row of its place in its chunk, four rows at once;
 * -1: there is none. */
static void
link_rows(struct cu_scatter_steps *s)
{
	long long rows = (long long)s->of.rows, chunk;
	struct cu_func f;

	chunk = (long long)begin_chunks(s, &f, (s->of.rows + CHUNK - 1) /
						CHUNK);
	cu_line(&f, "i32 *const places = (i32 *)SMEM;");
	cu_line(&f, "const int row = BLOCK_X * %lld + TID;", chunk);
	cu_line(&f, "const int place = row < %lld ? to[row] : -1;", rows);
	cu_line(&f, "int at = place < 0 ? %lld : TID + 1;", chunk);
	cu_line(&f, "places[TID] = place;");
	cu_line(&f, "sync_block();");
	cu_line(&f, "while (at %% 4 != 0 && places[at] != place) {");
	cu_line(&f, "at++;");
	cu_line(&f, "}");
	cu_line(&f, "while (at %% 4 == 0 && at < %lld) {", chunk);
	cu_line(&f, "i32 x[4];");
	cu_line(&f, "get_i32_4(x, &places[at]);");
	cu_line(&f, "if ((x[0] == place) | (x[1] == place) | (x[2] == place) | "
		"(x[3] == place)) {");
	cu_line(&f, "at += x[0] == place ? 0 : x[1] == place ? 1 : "
		"x[2] == place ? 2 : 3;");
	cu_line(&f, "break;");
	cu_line(&f, "}");
	cu_line(&f, "at += 4;");
	cu_line(&f, "}");
	cu_line(&f, "if (row < %lld) {", rows);
	cu_line(&f, "next[row] = at < %lld ? row - TID + at : -1;", chunk);
	cu_line(&f, "}");
	cu_func_end(&f);
}

/*
 * `head` has the first row of each place, of the chunks that are joined.  What
 * is known of the rows of a chunk is read while the one after it is joined.
 */
static void
join_chunks(struct cu_scatter_steps *s)
{
	long long rows = (long long)s->of.rows, chunk, last;
	struct cu_func f;

	chunk = (long long)begin_chunks(s, &f, 1);
	last = (rows - 1) / chunk * chunk;
	declare_list(&f, "head", s->head);
	cu_comment(&f, "whether one of the chunk comes before the row");
	cu_line(&f, "i32 *const follows = (i32 *)SMEM;");
	cu_line(&f, "int row = %lld + TID;", last);
	cu_line(&f, "int place = row < %lld ? to[row] : -1;", rows);
	cu_line(&f, "int after = row < %lld ? next[row] : -1;", rows);
	buf_puts(&f.text, "#pragma unroll 1\n");
	cu_line(&f, "for (int from = %lld; from >= 0; from -= %lld) {", last,
		chunk);
	cu_line(&f, "const int before = from > 0 ? to[row - %lld] : -1;",
		chunk);
	cu_line(&f, "const int then = from > 0 ? next[row - %lld] : -1;",
		chunk);
	cu_line(&f, "follows[TID] = 0;");
	cu_line(&f, "sync_block();");
	cu_line(&f, "if (after >= 0) {");
	cu_line(&f, "follows[after - from] = 1;");
	cu_line(&f, "} else if (place >= 0) {");
	cu_line(&f, "next[row] = head[place];");
	cu_line(&f, "}");
	cu_line(&f, "sync_block();");
	cu_line(&f, "if (place >= 0 && !follows[TID]) {");
	cu_line(&f, "head[place] = row;");
	cu_line(&f, "}");
	cu_line(&f, "row -= %lld;", chunk);
	cu_line(&f, "place = before;");
	cu_line(&f, "after = then;");
	cu_line(&f, "}");
	cu_func_end(&f);
}

/* ---- adding up ---- */

/* C text: false if all places are to be written, since what the sums are added
 * to holds nothing yet; NULL: it always does, or never. */
static const char *
has_old(struct cu_scatter_steps *s, struct cu_emit *e)
{
	const char *all = NULL, *old;
	uint32_t i;

	for (i = 0; i < s->of.n->roots.n && !s->of.all; i++) {
		old = cu_root_old(e, &s->of.n->roots.at[i]);
		all = !old ? all : all ? arena_printf(e->a, "%s && %s", all,
						      old) : old;
	}
	return all;
}

/* Places of the block, one after another: declares the first row of each, and
 * opens a block of C for it. */
static void
open_all_places(struct cu_scatter_steps *s, struct cu_emit *e)
{
	cu_line(e->f, "for (int place = BLOCK_X; place < %lld; place += "
		"NBLOCKS_X) {", (long long)s->of.places);
	cu_line(e->f, "int first = head[place];");
}

/* The place of the block's row, if it is the first row there. */
static void
open_row_place(struct cu_scatter_steps *s, struct cu_emit *e)
{
	long long rows = (long long)s->of.rows;

	declare_list(e->f, "to", s->to);
	if (e->f->grid->blocks[0] > rows) {
		cu_line(e->f, "int first = BLOCK_X;");
		cu_line(e->f, "int place = first < %lld ? to[first] : -1;",
			rows);
	} else {
		cu_line(e->f, "int first = BLOCK_X, place = to[first];");
	}
	cu_line(e->f, "if (place >= 0 && head[place] == first) {");
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
		if (lanes && r->add) {
			cu_declare_old_lanes(e, r, "y");
		} else if (lanes) {
			cu_line(e->f, "%s y[%u] = { 0 };",
				n->memory.at[r->memory].dtype == IR_F64
				? "f64" : "f32", e->lanes);
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
			      s->of.col[s->of.ncols - 1], false);
	for (i = 0; i < n->loops.n; i++) {
		e->index[i] = NULL;
	}
	return lanes;
}

/* The sums of a place, by all threads of the block. */
static void
add_place(struct cu_scatter_steps *s, struct cu_emit *e, uint32_t lanes)
{
	struct cu_lazy l;

	cu_line(e->f, "for (int j = TID; j < %lld; j += %lld) {",
		(long long)(s->of.cols / lanes),
		(long long)e->f->grid->threads);
	set_columns(s, e, &l, lanes);
	e->lanes = lanes;
	e->vec = s->of.ncols ? s->of.col[s->of.ncols - 1] : 0;
	add_rows(s, e);
	put_sums(s, e);
	e->lanes = 1;
	cu_lazy_close(e->f, &l);
	cu_close(e->f, 1);
}

static void
add_up(struct cu_scatter_steps *s)
{
	int64_t most = BLOCKS * s->k->c->units, cols;
	const char *old;
	struct cu_emit e;
	struct cu_func f;
	uint32_t lanes;

	begin_step(s, &f, &e, 0);
	old = has_old(s, &e);
	lanes = lanes_of(s, &e);
	cols = s->of.cols / lanes;
	most = s->of.places < most ? s->of.places : most;
	f.grid->blocks[0] = s->of.all ? s->of.places
		: old && s->of.rows < most ? most : s->of.rows;
	f.grid->threads = cols > THREADS ? THREADS : (cols + 31) / 32 * 32;
	cu_comment(&f, "%lld columns, %u at once", (long long)s->of.cols,
		   lanes);
	declare_list(&f, "next", s->next);
	declare_list(&f, "head", s->head);
	if (old) {
		cu_line(&f, "if (!(%s)) {", old);
	}
	if (old || s->of.all) {
		open_all_places(s, &e);
		add_place(s, &e, lanes);
		cu_close(&f, 1);
	}
	if (old) {
		cu_line(&f, "return;");
		cu_close(&f, 1);
	}
	if (!s->of.all) {
		open_row_place(s, &e);
		add_place(s, &e, lanes);
		cu_close(&f, 1);
	}
	cu_func_end(&f);
}

bool
cu_scatter(struct cu_kernel *k, const struct cu_nest *x)
{
	const struct nest_input like = { .bare = true };
	struct nest *n = cu_nest_build(k, x, &like);
	struct cu_scatter_steps s = { .k = k };
	bool whole;

	if (!n || !nest_find_scatter(n, true, &s.of)) {
		k->why = n && n->why ? n->why : k->why;
		return false;
	}
	s.to = cg_reserve_shared(k->out, 64, 4 * s.of.rows);
	s.next = cg_reserve_shared(k->out, 4, 4 * s.of.rows);
	s.head = cg_reserve_shared(k->out, 4, 4 * s.of.places);
	whole = s.of.all || (n->roots.n > 0 && n->roots.at[0].old);
	if (s.of.cols == 0 || (whole ? s.of.places : s.of.rows) == 0) {
		return true;
	}
	find_places(&s);
	if (s.of.rows > 0) {
		link_rows(&s);
		join_chunks(&s);
	}
	add_up(&s);
	return true;
}

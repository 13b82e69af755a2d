/*
 * Who computes a row of a nest on a GPU.  Without reductions a thread has as
 * many elements as make 16 bytes.  Rows that are contiguous across rows have a
 * thread each or, if they are long and few, one thread in every warp of a
 * block; rows whose own elements are contiguous have a warp, or a block.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#define THREADS 256
#define SHORT_ROW 8	/* most elements of a row for one thread */
#define WARP_ROW 1024	/* ... and for a warp */
#define MANY_ROWS 32768	/* rows that are enough for a thread each */
#define STRIPS 16
#define PART_SUMS 32	/* most registers of a thread for one partial sum */

/* ---- rows of a step ---- */

static int64_t
row_count(const struct nest_step *s)
{
	int64_t n = 1;
	uint32_t i;

	for (i = 0; i < s->nrows; i++) {
		n *= s->size[i];
	}
	return n;
}

/* Vectors of so many rows, along the last row loop. */
static int64_t
vector_count(const struct nest_step *s, uint32_t lanes)
{
	int64_t last = s->nrows ? s->size[s->nrows - 1] : 1;

	return last ? row_count(s) / last * ((last + lanes - 1) / lanes) : 0;
}

int64_t
cu_longest_pass(const struct cu_emit *e)
{
	int64_t most = 1;
	uint32_t i;

	for (i = 0; i < e->s->passes.n; i++) {
		int64_t n = cu_pass_elems(e, &e->s->passes.at[i]);

		most = n > most ? n : most;
	}
	return most;
}

static bool
has_loops(const struct nest_step *s)
{
	uint32_t i;

	for (i = 0; i < s->passes.n; i++) {
		if (s->passes.at[i].nloops > 0) {
			return true;
		}
	}
	return false;
}

void
cu_row_indices(struct cu_emit *e, struct cu_lazy *l, const char *r, bool wide,
	       const int64_t *size, uint32_t lanes)
{
	uint32_t i, n = e->s->nrows;
	int64_t by = 1;

	cu_lazy_open(e->f, l);
	for (i = n; i-- > 0; ) {
		uint32_t loop = e->s->rows[i];
		int64_t own = i + 1 == n ? (size[i] + lanes - 1) / lanes
					 : size[i];
		const char *at = arena_printf(e->a, wide ? "(u64)%s"
					      : "(u32)%s", r);
		const char *type = cu_int_type(0, size[i]);

		own = own > 0 ? own : 1;
		if (size[i] == 1) {
			e->index[loop] = "0";
			continue;
		}
		if (by > 1) {
			at = arena_printf(e->a, "%s / %lldu", at,
					  (long long)by);
		}
		if (i > 0) {
			at = arena_printf(e->a, "%s %% %lldu", at,
					  (long long)own);
		}
		e->index[loop] = arena_printf(e->a, "i%u", loop);
		cu_lazy_add(l, e->index[loop], arena_printf(e->a,
			i + 1 == n && lanes > 1 ? "%s i%u = (%s)(%s) * %u;"
			: "%s i%u = (%s)(%s);", type, loop, type, at, lanes));
		by *= own;
	}
}

void
cu_row_mark(struct cu_emit *e, const char *text)
{
	uint32_t i;

	for (i = 0; i < e->s->nrows; i++) {
		e->index[e->s->rows[i]] = text;
	}
}

uint32_t
cu_row_lanes(struct cu_emit *e)
{
	uint32_t lanes;

	if (e->s->nrows == 0 || has_loops(e->s)) {
		return 1;
	}
	cu_row_mark(e, "0");
	lanes = cu_best_lanes(e, NULL, 0, e->s->roots.at, e->s->roots.n,
			      e->s->rows[e->s->nrows - 1], e->whole);
	cu_row_mark(e, NULL);
	return lanes;
}

/* ---- a thread for each ---- */

static void
comment_rows(struct cu_emit *e, const char *who, uint32_t lanes)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, e->a);
	for (i = 0; i < e->s->nrows; i++) {
		buf_printf(&b, i ? "x%lld" : "%lld",
			   (long long)e->s->size[i]);
	}
	if (lanes > 1) {
		buf_printf(&b, ", %u at once", lanes);
	}
	cu_comment(e->f, "rows %s of %lld: %s", buf_text(&b),
		   (long long)cu_longest_pass(e), who);
}

static void
rows_alone(struct cu_emit *e)
{
	struct cu_lazy l;
	struct cu_team t = { .kind = CU_ONE, .members = 1, .me = "0" };
	uint32_t lanes = cu_row_lanes(e);
	int64_t n = vector_count(e->s, lanes);
	bool wide = n > INT32_MAX - THREADS;

	e->f->grid->threads = THREADS;
	e->f->grid->blocks[0] = (n + THREADS - 1) / THREADS;
	comment_rows(e, "a thread each", lanes);
	cu_line(e->f, wide ? "i64 r = (i64)BLOCK_X * %d + TID;"
		: "int r = BLOCK_X * %d + TID;", THREADS);
	cu_line(e->f, "if (r < %lld) {", (long long)n);
	cu_row_indices(e, &l, "r", wide, e->s->size, lanes);
	e->lanes = lanes;
	e->vec = e->s->nrows ? e->s->rows[e->s->nrows - 1] : 0;
	cu_passes(e, &t);
	e->lanes = 1;
	cu_lazy_close(e->f, &l);
	cu_line(e->f, "}");
}

/* ---- teams ---- */

static void
rows_by_warps(struct cu_emit *e)
{
	struct cu_lazy l;
	struct cu_team t = { .kind = CU_WARP, .members = 32, .me = "LANE" };
	int64_t n = row_count(e->s), warps = THREADS / 32;

	e->f->grid->threads = THREADS;
	e->f->grid->blocks[0] = (n + warps - 1) / warps;
	comment_rows(e, "a warp each", 1);
	cu_line(e->f, "i64 r = (i64)BLOCK_X * %lld + WARP;",
		(long long)warps);
	cu_line(e->f, "if (r < %lld) {", (long long)n);
	cu_row_indices(e, &l, "r", n > INT32_MAX, e->s->size, 1);
	cu_keep_loads(e, &t);
	cu_passes(e, &t);
	cu_lazy_close(e->f, &l);
	cu_line(e->f, "}");
}

/* Threads of a block that has a row: some vectors each. */
static int64_t
block_threads(struct cu_emit *e, int64_t most)
{
	int64_t n = 1, one;
	uint32_t i;

	cu_row_mark(e, "0");
	for (i = 0; i < e->s->passes.n; i++) {
		const struct nest_pass *p = &e->s->passes.at[i];

		one = p->nloops ? cu_pass_vectors(e, p, cu_pass_lanes(e, p))
				: 1;
		n = one > n ? one : n;
	}
	cu_row_mark(e, NULL);
	if (n > 2 * most) {
		return most;
	}
	n = n > 512 ? (n + 1) / 2 : n;
	n = (n + 31) / 32 * 32;
	return n < 64 ? 64 : n > most ? most : n;
}

static void
rows_by_blocks(struct cu_emit *e)
{
	struct cu_lazy l;
	struct cu_team t = { .kind = CU_BLOCK, .me = "TID" };
	int64_t n = row_count(e->s);

	t.members = block_threads(e, 1024);
	e->f->grid->threads = t.members;
	e->f->grid->blocks[0] = n;
	e->f->grid->smem_bytes = 32 * 8;
	comment_rows(e, "a block each", 1);
	cu_row_indices(e, &l, "BLOCK_X", false, e->s->size, 1);
	cu_keep_loads(e, &t);
	cu_passes(e, &t);
	cu_lazy_close(e->f, &l);
}

static void
rows_by_strips(struct cu_emit *e)
{
	struct cu_lazy l;
	struct cu_team t = { .kind = CU_STRIPS, .members = STRIPS,
			     .me = "WARP", .live = "live" };
	int64_t n = row_count(e->s);

	e->f->grid->threads = 32 * STRIPS;
	e->f->grid->blocks[0] = (n + 31) / 32;
	e->f->grid->smem_bytes = 32 * STRIPS * 8;
	comment_rows(e, "a thread of each warp", 1);
	cu_line(e->f, "int r = BLOCK_X * 32 + LANE, live = r < %lld;",
		(long long)n);
	cu_line(e->f, "r = live ? r : %lld;", (long long)n - 1);
	cu_row_indices(e, &l, "r", false, e->s->size, 1);
	cu_keep_loads(e, &t);
	cu_passes(e, &t);
	cu_lazy_close(e->f, &l);
}

/* ---- sums over rows by parts ---- */

static int64_t
part_elems(const struct cu_emit *e, const struct nest_root *r)
{
	return e->n->temps.at[e->n->memory.at[r->memory].i].elems;
}

/* Whether the root's place does not depend on the row. */
static bool
same_place(const struct cu_emit *e, const struct nest_root *r)
{
	uint32_t i;

	for (i = 0; i < e->s->nrows; i++) {
		if (nest_at(e->n, r->place)->loops >> e->s->rows[i] & 1) {
			return false;
		}
	}
	return true;
}

static const struct nest_pass *
pass_of(const struct cu_emit *e, uint32_t root)
{
	uint32_t i, k;

	for (i = 0; i < e->s->passes.n; i++) {
		for (k = 0; k < e->s->passes.at[i].roots.n; k++) {
			if (e->s->passes.at[i].roots.at[k] == root) {
				return &e->s->passes.at[i];
			}
		}
	}
	die("a root of no pass");
}

/* Whether a partial sum stays in registers through all rows. */
static bool
part_stays(struct cu_emit *e, const struct cu_team *t, uint32_t root)
{
	const struct nest_root *r = &e->n->roots.at[root];
	int64_t n = cu_part_sums(e, pass_of(e, root), t);

	return same_place(e, r) && n > 0 && n <= PART_SUMS;
}

static void
clear_part(struct cu_emit *e, const struct cu_team *t,
	   const struct nest_root *r)
{
	long long elems = part_elems(e, r);

	cu_line(e->f, "for (int j = TID; j < %lld; j += %lld) {", elems,
		(long long)t->members);
	cu_line(e->f, "((f32 *)(a.shared + %lld))[item * %lld + j] = 0.0f;",
		(long long)e->n->temps.at[
			e->n->memory.at[r->memory].i].offset, elems);
	cu_line(e->f, "}");
}

/*
 * Declares registers for partial sums that stay in registers.  Others are
 * added up in memory, always by the same thread, and are cleared first.
 */
static void
begin_parts(struct cu_emit *e, struct cu_team *t)
{
	bool cleared = false;
	uint32_t i, lanes;

	for (i = 0; i < e->s->roots.n; i++) {
		uint32_t root = e->s->roots.at[i];
		const struct nest_pass *p = pass_of(e, root);

		if (!e->n->roots.at[root].part) {
			continue;
		}
		if (!part_stays(e, t, root)) {
			clear_part(e, t, &e->n->roots.at[root]);
			cleared = true;
			continue;
		}
		lanes = cu_pass_lanes(e, p);
		cu_line(e->f, "f32 p%u[%lld] = { 0 };", root,
			(long long)cu_part_sums(e, p, t));
		t->part[root] = p->nloops == 0
			? arena_printf(e->a, "p%u[0]", root)
			: lanes == 1 ? arena_printf(e->a, "p%u[t]", root)
			: arena_printf(e->a, "p%u[t * %u + k]", root, lanes);
	}
	if (cleared) {
		cu_line(e->f, "sync_block();");
	}
}

/*
 * Whether warps have rows of their own, so that a block synchronizes only
 * after all rows.  Partial sums must then be in registers.
 */
static bool
warps_suit(struct cu_emit *e)
{
	const struct cu_team t = { .kind = CU_WARP, .members = 32 };
	bool numbers = true, stay = true;
	uint32_t i;

	cu_row_mark(e, "0");
	for (i = 0; i < e->s->roots.n; i++) {
		uint32_t root = e->s->roots.at[i];

		if (e->n->roots.at[root].part) {
			numbers &= pass_of(e, root)->nloops == 0;
			stay &= part_stays(e, &t, root);
		}
	}
	cu_row_mark(e, NULL);
	return stay && (cu_longest_pass(e) <= WARP_ROW ||
			(numbers && e->s->per >= THREADS / 32));
}

/* Stores partial sums that are in registers. */
static void
end_parts(struct cu_emit *e, struct cu_team *t)
{
	const char **part = t->part;
	uint32_t i;

	t->part = arena_alloc(e->a, sizeof *t->part * (e->n->roots.n + 1));
	for (i = 0; i < e->s->roots.n; i++) {
		uint32_t root = e->s->roots.at[i];

		if (part[root]) {
			cu_part_end(e, t, pass_of(e, root), root, part[root]);
		}
	}
}

static void
rows_by_parts(struct cu_emit *e)
{
	bool warps = warps_suit(e);
	struct cu_team t = { .kind = warps ? CU_WARP : CU_BLOCK,
			     .me = warps ? "LANE" : "TID", .item = "item" };
	const struct nest_step *s = e->s;
	bool wide = row_count(s) > INT32_MAX;
	const char *type = wide ? "i64" : "int";
	struct cu_lazy l;

	t.part = arena_alloc(e->a, sizeof *t.part * (e->n->roots.n + 1));
	t.members = warps ? 32 : block_threads(e, 512);
	e->f->grid->threads = warps ? THREADS : t.members;
	e->f->grid->blocks[0] = s->nitems;
	e->f->grid->smem_bytes = warps ? THREADS * 8 : 32 * 8;
	comment_rows(
		e,
		warps ? "a block has some of them, a warp each; parts of sums" :
			"a block has some of them, and parts of sums",
		1);
	cu_line(e->f, "int item = BLOCK_X;");
	cu_line(e->f, "%s to = (%s)(item + 1) * %lld;", type, type,
		(long long)s->per);
	cu_line(e->f, "to = to < %lld ? to : %lld;", (long long)s->nrow,
		(long long)s->nrow);
	cu_row_mark(e, "0");
	begin_parts(e, &t);
	cu_line(e->f, "for (%s r = (%s)item * %lld%s; r < to; r += %d) {",
		type, type, (long long)s->per, warps ? " + WARP" : "",
		warps ? THREADS / 32 : 1);
	cu_row_indices(e, &l, "r", wide, s->size, 1);
	cu_keep_loads(e, &t);
	cu_passes(e, &t);
	cu_lazy_close(e->f, &l);
	cu_line(e->f, "}");
	cu_row_mark(e, NULL);
	end_parts(e, &t);
}

/* ---- a whole step ---- */

/*
 * Counts all rows of a step as items: on a CPU, lanes are not counted.
 */
static void
own_items(struct cu_emit *e, struct nest_step *s)
{
	*s = *e->s;
	s->nrow = row_count(s);
	if (s->parts) {
		s->nitems = nest_parts(s->nrow, e->n->in.parts);
		s->per = (s->nrow + s->nitems - 1) / s->nitems;
	}
	e->s = s;
}

void
cu_rows_step(struct cu_kernel *k, struct cu_emit *e)
{
	int64_t rows, most;
	struct nest_step s;

	own_items(e, &s);
	rows = row_count(e->s);
	most = cu_longest_pass(e);
	if (rows == 0 && !s.parts) {
		return;
	}
	cu_func_begin(k, "nest", e->f);
	if (s.parts) {
		rows_by_parts(e);
	} else if (!has_loops(e->s)) {
		rows_alone(e);
	} else if (s.row_lanes) {
		if (most <= 2 * STRIPS || rows >= MANY_ROWS ||
		    rows > INT32_MAX - 32) {
			rows_alone(e);
		} else {
			rows_by_strips(e);
		}
	} else if (most <= SHORT_ROW) {
		rows_alone(e);
	} else if (most <= WARP_ROW || rows > INT32_MAX) {
		rows_by_warps(e);
	} else {
		rows_by_blocks(e);
	}
	cu_func_end(e->f);
}

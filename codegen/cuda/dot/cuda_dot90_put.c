/*
 * What becomes of a tile's sums, which lie in registers of a team.
 *
 * A thread has 2 adjacent columns of every 8, in rows r0 and r0 + 8 of each
 * unit of 16 rows that its warp has: of every 64 (PTX ISA, "Register Fragments
 * for wgmma.mma_async.m64nNk16"), or of 32 in a row (tcgen05.ld). f32 results
 * go from there to memory, 32 bytes of 4 threads at a time.  An epilogue runs
 * on shared memory, on some columns at a time: they are copied there as f32,
 * as the leaf of a nest, while its loads from memory are in flight.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

/* ---- to memory ---- */

bool
dot90_part_suits(const struct cu_dot *d, int64_t cols, int64_t part)
{
	const struct cg_dims *n = &d->dims[2];
	int64_t last = n->size[n->n - 1];

	if (cols % part != 0) {
		return false;
	}
	return d->result != CU_DOT_BOX ||
	       (cu_blocks_are_boxes(n->size, n->n, part) &&
		(!d->whole_last || part % last == 0 ||
		 (n->n == 1 && last <= part)));
}

bool
dot90_has_leaf(const struct cu_dot *d)
{
	return d->result == CU_DOT_BOX || d->dtype != IR_F32;
}

const char *
dot90_thread(const struct dot90 *p)
{
	return p->teams > 1 ? "(TID % 128)" : p->first ? "(TID - 128)" : "TID";
}

/* Emits the store of two adjacent sums, or adds them to what is stored; `end`:
 * C text, the end of the row, or NULL. */
static void
put_pair(struct cu_func *f, const struct dot90 *p, const char *end, bool add)
{
	const struct cu_dot *d = p->d;
	bool pairs = d->n.size % 2 == 0 && d->pitch % 2 == 0;
	int i;

	if (pairs) {
		if (end) {
			cu_line(f, "if (c < %s) {", end);
		}
		cu_line(f, "f32x2 *to = (f32x2 *)(at + c), v;");
		if (add) {
			cu_line(f, "v = *to;");
			cu_line(f, "v.x += s[j];");
			cu_line(f, "v.y += s[j + 1];");
		} else {
			cu_line(f, "v.x = s[j];");
			cu_line(f, "v.y = s[j + 1];");
		}
		cu_line(f, "*to = v;");
		if (end) {
			cu_line(f, "}");
		}
		return;
	}
	for (i = 0; i < 2; i++) {
		cu_line(f, "if (c + %d < %s) {", i, end ? end : "n");
		cu_line(f, "at[c + %d] %s s[j + %d];", i, add ? "+=" : "=", i);
		cu_line(f, "}");
	}
}

/* Writes a function that stores a row, or adds to it: indices of d must be
 * constants. */
static void
put_row(struct cu_func *f, const struct dot90 *p, bool add)
{
	struct cu_func g = { .k = f->k, .grid = f->grid, .depth = 1 };
	struct buf *b = &f->k->text;
	bool ragged = p->d->n.size % p->cols != 0 || p->d->n.size % 2;

	buf_init(&g.text, f->k->c->a);
	cu_line(&g, "int j;");
	buf_printf(b, "\n/* Sums of one row, of which n are in the result. "
		   "*/\nFN void\n%s(f32 *at, const f32 *s, int c0, "
		   "int n)\n{\n", dot90_func(f, p, add ? "add_row" : "row"));
	buf_puts(&g.text, "#pragma unroll\n");
	cu_line(&g, "for (j = 0; j < %lld; j += 4) {",
		(long long)(p->cols / 2));
	cu_line(&g, "const int c = c0 + j * 2;");
	put_pair(&g, p, ragged ? "n" : NULL, add);
	cu_line(&g, "}");
	if (!ragged) {
		cu_line(&g, "(void)n;");
	}
	buf_puts(b, buf_text(&g.text));
	buf_puts(b, "}\n");
}

static void
put_rows(struct cu_func *f, const struct dot90 *p, const struct cu_place *m,
	 bool add)
{
	long long n = (long long)p->d->n.size;
	long long pitch = (long long)p->d->pitch;
	int64_t i;

	put_row(f, p, add);
	for (i = 0; i < 2 * dot90_units(p); i++) {
		long long row = (long long)(i / 2 * p->has->unit_rows +
					    i % 2 * 8);

		cu_line(f, "if (r0 + %lld < %s) {", row, m->live);
		cu_line(f, "%s(to + %lld, d + %lld, lc, %lld - n0);",
			dot90_func(f, p, add ? "add_row" : "row"), row * pitch,
			(long long)(i / 2 * p->cols / 2 + i % 2 * 2), n);
		cu_line(f, "}");
	}
}

static void
put_direct(struct cu_func *f, const struct dot90 *p,
	   const struct cu_place *m)
{
	const struct cu_dot *d = p->d;
	bool add = d->result == CU_DOT_ADD;

	cu_line(f, "f32 *to = (f32 *)%s + ((i64)batch * %lld + m0 + r0) * %lld "
		"+ n0;", cu_operand(f, d->target), (long long)d->m.size,
		(long long)d->pitch);
	if (add) {
		cu_line(f, "if (%s) {", cu_old(f, d->sink));
		put_rows(f, p, m, true);
		cu_line(f, "} else {");
	}
	put_rows(f, p, m, false);
	if (add) {
		cu_line(f, "}");
	}
}

/* ---- through shared memory ---- */

/*
 * A leaf is of a unit of rows, those of one warp, where blocks of so many rows
 * are boxes of the result too: then warps wait for no other warp.
 * Else it is the team's, of all rows of a tile.
 */
#define WARP_ROWS 16

static struct cg_split
warp_split(const struct dot90 *p)
{
	return cu_split_of(&p->d->dims[1], WARP_ROWS, WARP_ROWS);
}

bool
dot90_by_warps(const struct dot90 *p)
{
	const struct cu_dot *d = p->d;
	struct cg_split s = warp_split(p);

	if (d->result != CU_DOT_BOX) {
		return true;
	}
	return p->split.most == p->rows && d->m.size % p->rows == 0 &&
	       p->split.blocks * p->rows == d->m.size &&
	       s.most == WARP_ROWS && s.blocks * WARP_ROWS == d->m.size;
}

int64_t
dot90_leaf_rows(const struct dot90 *p)
{
	return dot90_by_warps(p) ? dot90_team_threads(p) / 32 * WARP_ROWS
				 : p->rows;
}

/* A function that copies a thread's sums of two rows. */
static void
put_to_leaf(struct cu_func *f, const struct dot90 *p)
{
	struct buf *b = &f->k->text;
	long long ld = (long long)dot90_leaf_ld(p);

	buf_printf(b, "\n/* Sums of %lld columns, of two rows. */\nFN void\n"
		   "%s(f32 *to, const f32 *s)\n{\n\tint j;\n\n"
		   "#pragma unroll\n\tfor (j = 0; j < %lld; j += 4) {\n",
		   (long long)p->part, dot90_func(f, p, "leaf"),
		   (long long)p->part / 2);
	buf_puts(b, "\t\tf32x2 v;\n\n\t\tv.x = s[j];\n\t\tv.y = s[j + 1];\n"
		 "\t\t*(f32x2 *)(to + j * 2) = v;\n"
		 "\t\tv.x = s[j + 2];\n\t\tv.y = s[j + 3];\n");
	buf_printf(b, "\t\t*(f32x2 *)(to + j * 2 + %lld) = v;\n\t}\n}\n",
		   8 * ld);
}

/* The units that are copied at once: one, or all of them. */
static int64_t
rows_at_once(const struct dot90 *p)
{
	return dot90_by_warps(p) ? 1 : dot90_units(p);
}

/* Rows of a leaf; those of a pair's second one come after the first one's. */
static int64_t
lines_of(const struct dot90 *p)
{
	return dot90_by_warps(p) ? WARP_ROWS : p->rows;
}

/* C text: lines that copy the sums of part `i` to the leaf.  Indices of sums
 * must be constants. */
static const char *
filling(const struct cu_func *f, const struct dot90 *p)
{
	struct cu_func g = { .k = f->k, .grid = f->grid, .depth = f->depth };
	long long ld = (long long)dot90_leaf_ld(p);
	bool warps = dot90_by_warps(p);
	int64_t across = dot90_width(p) / p->part, each = rows_at_once(p);
	int64_t parts = across * dot90_units(p), i, k;
	struct arena *a = f->k->c->a;
	const char *sync = warps ? "sync_warp();"
		: arena_printf(a, "sync_named(1 + team, %lld);",
			       (long long)dot90_team_threads(p));
	/* the caller's names may be hidden where this is emitted */
	const char *at = warps ? "LANE / 4"
		: arena_printf(a, "%lld * group + TID / 32 %% 4 * %lld + "
			       "LANE / 4", (long long)dot90_group_rows(p),
			       (long long)p->has->warp_rows);

	buf_init(&g.text, f->k->c->a);
	cu_comment(&g, "Nobody reads the part before, then this part is "
		   "complete.");
	cu_line(&g, "%s", sync);
	for (i = 0; i < parts / each; i++) {
		cu_line(&g, "%sif (i == %lld) {", i ? "} else " : "",
			(long long)i);
		for (k = 0; k < each * dot90_each(p); k++) {
			int64_t row = warps ? i / across : k / dot90_each(p);
			int64_t of = k % dot90_each(p);

			cu_line(&g, "%s(leaf + (%s + %lld) * %lld + lc, "
				"d + %lld);", dot90_func(f, p, "leaf"),
				at, (long long)(warps ? 0 : row *
						p->has->unit_rows) +
				(long long)(of * lines_of(p)), ld,
				(long long)(dot90_piece_at(p, row *
						dot90_each(p) + of) +
					    i % across * p->part / 2));
		}
	}
	cu_line(&g, "}");
	cu_line(&g, "%s", sync);
	return buf_text(&g.text);
}

/* ---- 16-bit elements as they are, or with sums added ---- */

/* What 8 sums are added to: zeros if that holds nothing yet. */
static void
load_added(struct cu_func *f, const struct cu_dot *d)
{
	if (d->sink) {
		cu_line(f, "v[t].x = v[t].y = v[t].z = v[t].w = 0;");
		cu_line(f, "if (%s) {", cu_old(f, d->sink));
	}
	cu_line(f, "v[t] = *(const u32x4 *)at;");
	if (d->sink) {
		cu_line(f, "}");
	}
}

/*
 * Rounds to 16 bits; a thread has 8 columns of a row at a time, the last of
 * which may be what lies between two rows.  What it adds to is loaded first,
 * all of it.
 */
static void
put_rounded(struct cu_func *f, const struct dot90 *p,
	    const struct cu_place *m)
{
	const struct cu_dot *d = p->d;
	const char *type = cu_elem_type(d->dtype);
	bool add = d->result == CU_DOT_ADD;
	long long n = (long long)d->n.size, eights = (long long)p->part / 8;
	long long pitch = (long long)d->pitch;
	long long turns = (WARP_ROWS * eights + 31) / 32;
	int i;

	if (!add) {
		buf_puts(&f->text, filling(f, p));
	}
	cu_line(f, "u32x4 v[%lld];", turns);
	cu_line(f, "const i64 first = (((i64)batch * %lld + m0) * %lld + part "
		"* %lld) * 2;", (long long)d->m.size, pitch,
		(long long)p->part);
	for (i = add ? 0 : 1; i < 2; i++) {
		buf_puts(&f->text, "#pragma unroll\n");
		cu_line(f, "for (int t = 0; t < %lld; t++) {", turns);
		cu_line(f, "const int e = t * 32 + LANE, r = e / %lld;",
			eights);
		cu_line(f, "const int c = e %% %lld * 8;", eights);
		cu_line(f, "char *const at = %s + first + ((i64)(warp_row + "
			"r) * %lld + c) * 2;", cu_operand(f, i == 0
			? d->added : d->target), pitch);
		cu_line(f, "if (r < %d && warp_row + r < %s%s) {", WARP_ROWS,
			m->live, n % p->part == 0 ? ""
			: arena_printf(f->k->c->a, " && part * %lld + c < %lld",
				       (long long)p->part, n));
		if (i == 0) {
			load_added(f, d);
			cu_close(f, 2);
			buf_puts(&f->text, filling(f, p));
		}
	}
	cu_line(f, "const f32 *const s = leaf + r * %lld + c;",
		(long long)dot90_leaf_ld(p));
	for (i = 0; i < 4; i++) {
		const char *lo = add ? arena_printf(f->k->c->a,
			"%s_f32((%s)v[t].%c) + ", type, type, "xyzw"[i]) : "";
		const char *hi = add ? arena_printf(f->k->c->a,
			"%s_f32((%s)(v[t].%c >> 16)) + ", type, type,
			"xyzw"[i]) : "";

		cu_line(f, "v[t].%c = pack_%s(%ss[%d], %ss[%d]);", "xyzw"[i],
			type, lo, 2 * i, hi, 2 * i + 1);
	}
	cu_line(f, "st16(at, v[t]);");
	cu_close(f, 2);
}

/* ---- through a nest ---- */

struct cu_nest
dot90_nest(struct cu_func *f, const struct dot90 *p, const struct dot90_sums *x)
{
	const struct cu_dot *d = p->d;
	struct arena *a = f->k->c->a;
	struct cu_nest nest = cu_nest_of(a, d->x,
					 ir_type(f->k->c->m, d->value));
	struct cg_split one = { .cut = d->dims[0].n - 1, .step = 1,
				.inner = 1, .blocks = d->batch.size,
				.most = 1 };
	struct cg_split cols = cu_split_of(&d->dims[2], p->part, p->part);
	struct cu_place batch, n;
	int64_t i;

	one.chunks = d->dims[0].size[one.cut];
	batch = cu_place_of(f, "b", &d->dims[0], &one, "batch");
	n = cu_place_of(f, "c", &d->dims[2], &cols, "part");
	cu_line(f, "(void)b0, (void)c0;");
	for (i = 0; i < dot90_each(p); i++) {
		struct cu_leaf leaf = {
			.value = p->paired ? p->term[i].d->value : d->value,
			.at = i == 0 ? x->at : arena_printf(a, "(%s + %lld)",
				x->at, (long long)(i * x->apart)),
			.own_type = x->own_type, .bytes = x->bytes
		};

		cu_place_leaf(a, &nest, &leaf, &d->dims[0], &one, &batch, 0);
		cu_place_leaf(a, &nest, &leaf, &d->dims[1], x->rows, x->m,
			      x->ld);
		cu_place_leaf(a, &nest, &leaf, &d->dims[2], &cols, &n, 1);
		cu_nest_add_leaf(a, &nest, leaf);
	}
	return nest;
}

static bool
put_nest(struct cu_func *f, const struct dot90 *p, const struct cu_place *m)
{
	struct cg_split rows = warp_split(p);
	struct dot90_sums sums = { .at = "leaf",
		.apart = lines_of(p) * dot90_leaf_ld(p),
		.ld = dot90_leaf_ld(p), .rows = &p->d->rows, .m = m };
	struct cu_place own;
	struct cu_nest nest;

	if (dot90_by_warps(p)) {
		cu_line(f, "const int rows16 = row * %lld + warp_row / %d;",
			(long long)(p->rows / WARP_ROWS), WARP_ROWS);
		own = cu_place_of(f, "w", &p->d->dims[1], &rows, "rows16");
		cu_line(f, "(void)w0;");
		sums.rows = &rows;
		sums.m = &own;
	}
	nest = dot90_nest(f, p, &sums);
	nest.ready = filling(f, p);
	return dot90_by_warps(p) ? cu_nest_box(f, &nest, 32, "LANE")
		: cu_nest_box(f, &nest, dot90_team_threads(p), dot90_thread(p));
}

static bool
put_box(struct cu_func *f, const struct dot90 *p, const struct cu_place *m)
{
	const struct cu_dot *d = p->d;
	long long parts = dot90_width(p) / p->part;
	int64_t rows = dot90_units(p) / rows_at_once(p);
	bool warps = dot90_by_warps(p), done = true;

	put_to_leaf(f, p);
	cu_line(f, "f32 *leaf = (f32 *)(SMEM + %lld + %lld * team);",
		(long long)dot90_leaf_at(p), (long long)dot90_team_bytes(p));
	if (warps) {
		cu_line(f, "leaf += %s / 32 * %lld;", dot90_thread(p),
			(long long)dot90_warp_bytes(p) / 4);
	}
	if (p->among_others) {
		cu_comment(f, "Boxes of the tile before may still be read.");
		dot90_store_end(f);
	}
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int i = 0; i < %lld; i++) {",
		parts * (long long)rows);
	cu_line(f, "const int part = col * %lld + i%s;", parts, warps
		? arena_printf(f->k->c->a, " %% %lld", parts) : "");
	if (warps) {
		cu_line(f, "const int warp_row = %lld * group + i / %lld * "
			"%lld + TID / 32 %% 4 * %lld;",
			(long long)dot90_group_rows(p), parts,
			(long long)p->has->unit_rows,
			(long long)p->has->warp_rows);
	}
	if (d->n.size % dot90_width(p) != 0) {
		cu_line(f, "if (part * %lld >= %lld) {", (long long)p->part,
			(long long)d->n.size);
		cu_line(f, warps ? "continue;" : "break;");
		cu_line(f, "}");
	}
	if (d->result == CU_DOT_BOX) {
		done = put_nest(f, p, m);
	} else {
		put_rounded(f, p, m);
	}
	cu_line(f, "}");
	if (p->among_others && !warps) {
		cu_line(f, "sync_named(1 + team, %lld);",
			(long long)dot90_team_threads(p));
	}
	return done;
}

bool
dot90_put_tile(struct cu_func *f, const struct dot90 *p,
	       const struct cu_place *m)
{
	if (p->part) {
		return put_box(f, p, m);
	}
	if (p->box) {
		dot90_store_tile(f, p, m);
		return true;
	}
	put_direct(f, p, m);
	return true;
}

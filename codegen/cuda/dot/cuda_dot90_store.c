/*
 * 16-bit results that the copying unit stores.
 *
 * Each warp does this for itself.  It rounds 16 rows of its sums at a time and
 * writes them to shared memory by stmatrix, swizzled, so that neither it nor
 * the copying unit has bank conflicts; then it orders the store and goes on
 * with the next box, or with the products of the next tile, whose operands
 * arrive meanwhile.  It waits for a buffer only before it fills it again.  The
 * copying unit leaves out what lies beyond the last row or column.
 *
 * What sums are added to comes the same way: once the products of a tile's
 * first stage are issued, and the copying unit has read the last tile's boxes,
 * a thread of each warp has the boxes of its rows loaded, which hold the sums
 * later.  They arrive while the tile's products are made.  A sum of gradients
 * that holds nothing yet is not loaded: its boxes are stored as others are.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#define BOX_ROWS 16	/* a unit of rows */

/* Rows up to the end that boxes must not cross. */
static int64_t
rows_of(const struct cg_dims *m, const struct cg_split *s)
{
	return m->size[s->cut] * s->inner;
}

static bool
boxes_suit(struct dot90 *p, enum cu_dot_result result)
{
	const struct cu_dot *d = p->d;
	int64_t rows = rows_of(&d->dims[1], &p->split);
	int64_t all = d->batch.size * d->m.size / rows;
	int64_t cols = p->cols < 64 ? p->cols : 64;

	p->box = 0;
	if (d->result != result || cu_elem_bytes(d->dtype) != 2 ||
	    d->pitch % 8 != 0 ||
	    (p->split.chunks > 1 && p->split.most != p->rows)) {
		/* a box might hold rows of another tile */
		return false;
	}
	p->box = cols;
	p->out = (struct cg_map){
		.operand = d->target,
		.elem = d->dtype == IR_BF16 ? RT_ELEM_BF16 : RT_ELEM_F16,
		.ndims = all > 1 ? 3 : 2, .size = { d->n.size, rows, all },
		.stride = { 0, 2 * d->pitch, 2 * d->pitch * rows },
		.box = { cols, BOX_ROWS, 1 }, .swizzle = 2 * cols
	};
	return true;
}

bool
dot90_store_suits(struct dot90 *p)
{
	return boxes_suit(p, CU_DOT_STORE);
}

bool
dot90_add_suits(struct dot90 *p)
{
	if (p->has->tensor || p->has->promotes || !boxes_suit(p, CU_DOT_ADD)) {
		return false;
	}
	p->in = p->out;
	p->in.operand = p->d->added;
	return true;
}

int64_t
dot90_store_boxes(const struct dot90 *p)
{
	return dot90_units(p) * (p->cols / p->box);
}

int64_t
dot90_store_bytes(const struct dot90 *p)
{
	return p->groups * 4 * p->waiting * BOX_ROWS * p->box * 2;
}

/* C text: register i of a box, two sums, which may be added to those there. */
static const char *
pair_text(struct arena *a, const char *type, int i, bool add)
{
	return add ? arena_printf(a, "pack_%s(%s_f32((%s)r[%d]) + s[8 * j "
		"+ %d], %s_f32((%s)(r[%d] >> 16)) + s[8 * j + %d])", type,
		type, type, i, 2 * i, type, type, i, 2 * i + 1)
		: arena_printf(a, "pack_%s(s[8 * j + %d], s[8 * j + %d])",
			       type, 2 * i, 2 * i + 1);
}

/* Writes a function that stores one box of sums s, which begins at x, y of the
 * result; `add`: adds them to what is in the box, which is there. */
static void
put_box(struct cu_func *f, const struct dot90 *p, bool add)
{
	struct cu_func g = { .k = f->k, .grid = f->grid, .depth = 1 };
	const char *type = cu_elem_type(p->d->dtype);
	bool deep = p->out.ndims == 3;
	struct buf *b = &f->k->text;
	int i;

	buf_init(&g.text, f->k->c->a);
	cu_line(&g, "const u32 at = to + LANE %% 16 * %lld + (LANE / 16 ^ "
		"LANE %s) * 16;", 2 * (long long)p->box,
		p->box == 64 ? "% 8" : "/ 2 % 4");
	cu_line(&g, "int j;");
	buf_puts(&g.text, "\n");
	if (!add) {
		cu_line(&g, "if (LANE == 0) {");
		cu_line(&g, "tma_wait_read(%lld);", (long long)p->waiting - 1);
		cu_line(&g, "}");
		cu_line(&g, "sync_warp();");
	}
	buf_puts(&g.text, "#pragma unroll\n");
	cu_line(&g, "for (j = 0; j < %lld; j++) {", (long long)p->box / 16);
	cu_line(&g, "u32 r[4];");
	buf_puts(&g.text, "\n");
	if (add) {
		cu_line(&g, "ldsm4(r, at ^ (u32)(32 * j));");
	}
	for (i = 0; i < 4; i++) {
		cu_line(&g, "r[%d] = %s;", i,
			pair_text(f->k->c->a, type, i, add));
	}
	cu_line(&g, "stsm4(at ^ (u32)(32 * j), r);");
	cu_line(&g, "}");
	cu_line(&g, "fence_async();");
	cu_line(&g, "sync_warp();");
	cu_line(&g, "if (LANE == 0) {");
	cu_line(&g, "tma_store%d(map, to, x, y%s);", deep ? 3 : 2,
		deep ? ", z" : "");
	cu_line(&g, "tma_commit();");
	cu_line(&g, "}");
	buf_printf(b, "\n/* %d rows of %lld sums, to be stored at x, y%s. */\n"
		   "FN void\n%s(const tensor_map *map, u32 to, const f32 "
		   "*s, int x, int y%s)\n{\n%s}\n", BOX_ROWS,
		   (long long)p->box, deep ? ", z" : "",
		   dot90_func(f, p, add ? "add_box" : "box"),
		   deep ? ", int z" : "", buf_text(&g.text));
}

/* Places of the result that this kernel's boxes hold. */
static void
place_boxes(struct cu_func *f, const struct dot90 *p, const struct cu_place *m)
{
	const struct cu_dot *d = p->d;
	struct arena *a = f->k->c->a;
	long long rows = (long long)rows_of(&d->dims[1], &p->split);
	long long outer = (long long)d->m.size / rows;

	cu_line(f, "const u32 wait = ring + %lld + (u32)(WARP%s) * %lld;",
		(long long)dot90_leaf_at(p), p->first ? " - 4" : "",
		(long long)dot90_warp_bytes(p));
	cu_line(f, "const int y = %s%s + %lld * group + WARP %% 4 * %lld;",
		m->start, outer > 1 ? arena_printf(a, " %% %lld", rows) : "",
		(long long)dot90_group_rows(p), (long long)p->has->warp_rows);
	if (p->out.ndims == 3) {
		cu_line(f, "const int z_at = batch%s;", outer > 1
			? arena_printf(a, " * %lld + %s / %lld", outer,
				       m->start, rows) : "");
	}
}

/* C text: where box i of a warp begins in the result. */
static const char *
box_at(struct arena *a, const struct dot90 *p, int64_t i)
{
	int64_t cols = p->cols / p->box;

	return arena_printf(a, "n0 + %lld, y + %lld%s",
			    (long long)(i % cols * p->box),
			    (long long)(i / cols * p->has->unit_rows),
			    p->out.ndims == 3 ? ", z_at" : "");
}

static void
put_boxes(struct cu_func *f, const struct dot90 *p, bool add)
{
	long long each = (long long)(BOX_ROWS * p->box * 2);
	int64_t n = dot90_store_boxes(p), i;

	put_box(f, p, add);
	if (add) {
		cu_line(f, "mbar_wait(added, with);");
		cu_line(f, "with ^= 1;");
	}
	for (i = 0; i < n; i++) {
		cu_line(f, "%s(&a.map[%u], wait + %lld, d + %lld, %s);",
			dot90_func(f, p, add ? "add_box" : "box"), p->out_at,
			each * (long long)(i % p->waiting),
			(long long)(i * p->box / 2),
			box_at(f->k->c->a, p, i));
	}
}

void
dot90_store_tile(struct cu_func *f, const struct dot90 *p,
		 const struct cu_place *m)
{
	bool both = p->adds && p->d->sink;

	if (!p->adds) {
		place_boxes(f, p, m);
	}
	if (both) {
		cu_line(f, "if (%s) {", cu_old(f, p->d->sink));
	}
	put_boxes(f, p, p->adds);
	if (both) {
		cu_line(f, "} else {");
		put_boxes(f, p, false);
		cu_line(f, "}");
	}
}

/* ---- what sums are added to ---- */

static long long
first_bar(const struct dot90 *p)
{
	return 16 * (long long)p->ring;
}

void
dot90_add_bars(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "for (int i = 0; i < 8; i++) {");
	cu_line(f, "mbar_init(full + %lld + 8 * i, 1);", first_bar(p));
	cu_line(f, "}");
}

void
dot90_add_open(struct cu_func *f, const struct dot90 *p)
{
	cu_line(f, "const u32 added = full + %lld + 8 * (u32)(WARP - 4);",
		first_bar(p));
	cu_line(f, "int with = 0;");
}

void
dot90_add_place(struct cu_func *f, const struct dot90 *p,
		const struct cu_place *m)
{
	place_boxes(f, p, m);
}

void
dot90_add_load(struct cu_func *f, const struct dot90 *p)
{
	long long each = (long long)(BOX_ROWS * p->box * 2);
	int64_t n = dot90_store_boxes(p), i;
	struct arena *a = f->k->c->a;
	const char *if_old = !p->d->sink ? "" : arena_printf(a, " && %s",
		cu_old(f, p->d->sink));
	const char *if_whole = p->splits == 1 ? "" : arena_printf(a,
		" && tile < %lld", (long long)(p->whole / p->cluster));

	cu_line(f, "if (LANE == 0%s%s) {", if_old, if_whole);
	cu_line(f, "tma_wait_read(0);");
	cu_line(f, "mbar_expect(added, %lld);", each * (long long)n);
	for (i = 0; i < n; i++) {
		cu_line(f, "tma_load%u(wait + %lld, &a.map[%u], added, %s);",
			p->in.ndims, each * (long long)i, p->in_at,
			box_at(a, p, i));
	}
	cu_line(f, "}");
}

void
dot90_store_end(struct cu_func *f)
{
	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "tma_wait_read(0);");
	cu_line(f, "}");
}

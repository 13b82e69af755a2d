/*
 * Tiles whose k is in parts, so that the last wave is as full as the others.
 *
 * As many tiles as there are multiprocessors make a wave.  Those of all full
 * waves are made whole; of the rest, which would leave multiprocessors idle,
 * or of all if there are not even so many, each is made by several blocks, of
 * a part of k each.  Parts wait in shared room as they lie in registers, so
 * that they come and go 16 bytes at once, and a step behind adds them up in
 * the order of k and does what the team would have done: sums are the same
 * bits in every run.  Blocks that took over from each other in the middle of a
 * tile ("stream-K") would fill the last wave wholly, but then how a tile is
 * cut, and so its bits, depended on where it lies; with parts that are alike
 * at most one of as many as k has is lost.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

#define MOST_PARTS ((int64_t)64 << 20)	/* bytes of sums that wait */
#define MOST_SPLITS 16
#define LEAST_STAGES 4		/* of a part */

int64_t
dot90_most_splits(const struct cu_dot *d)
{
	int64_t most = dot90_stages(d) / LEAST_STAGES;

	return most < 1 ? 1 : most < MOST_SPLITS ? most : MOST_SPLITS;
}

/* Blocks of as many columns add up a tile; 0: none suits what is behind. */
static int64_t
sum_cols(const struct dot90 *p)
{
	static const int64_t cols[] = { 64, 32, 128, 256, 16 };
	size_t i;

	for (i = 0; i < sizeof cols / sizeof cols[0]; i++) {
		if (p->cols % cols[i] == 0 &&
		    dot90_part_suits(p->d, p->cols, cols[i])) {
			return cols[i];
		}
	}
	return 0;
}

bool
dot90_parts(struct dot90 *p, int64_t splits)
{
	int64_t units = p->blocks / p->cluster * p->cluster;
	int64_t stages = dot90_stages(p->d);

	p->steps = (stages + splits - 1) / splits;
	p->splits = (stages + p->steps - 1) / p->steps;
	p->whole = p->splits == 1 ? p->tiles : p->tiles / units * units;
	p->items = p->whole + (p->tiles - p->whole) * p->splits;
	p->sum_cols = p->splits == 1 ? 0 : sum_cols(p);
	return p->splits == splits && p->items < INT32_MAX &&
	       (splits == 1 || (p->whole < p->tiles && p->sum_cols > 0 &&
				dot90_parts_bytes(p) <= MOST_PARTS));
}

int64_t
dot90_parts_bytes(const struct dot90 *p)
{
	return 4 * p->rows * p->cols * (p->items - p->whole);
}

/* ---- text of items ---- */

const char *
dot90_split(const struct dot90 *p, struct arena *a)
{
	long long whole = (long long)(p->whole / p->cluster);
	long long rest = (long long)(p->tiles / p->cluster) - whole;

	if (p->splits == 1) {
		return "0";
	}
	return whole ? arena_printf(a, "tile < %lld ? 0 : (tile - %lld) / "
				    "%lld", whole, whole, rest)
		: arena_printf(a, "tile / %lld", rest);
}

void
dot90_steps_emit(struct cu_func *f, const struct dot90 *p)
{
	long long whole = (long long)(p->whole / p->cluster);
	long long rest = (long long)(p->tiles / p->cluster) - whole;
	long long all = (long long)dot90_stages(p->d), last;
	struct buf *b = &f->k->text;

	if (p->splits == 1) {
		return;
	}
	last = all - (long long)(p->steps * (p->splits - 1));
	buf_printf(b, "\n/* Stages of k: of a whole tile, of a part, of the "
		   "last part. */\nFN int\n%s_steps(int tile)\n{\n",
		   f->grid->func);
	if (whole) {
		buf_printf(b, "\tif (tile < %lld) {\n\t\treturn %lld;\n\t}\n",
			   whole, all);
	}
	buf_printf(b, "\treturn tile < %lld ? %lld : %lld;\n}\n", whole + rest *
		   (long long)(p->splits - 1), (long long)p->steps, last);
}

const char *
dot90_steps(struct cu_func *f, const struct dot90 *p, const char *tile)
{
	struct arena *a = f->k->c->a;

	return p->splits == 1 ? arena_printf(a, "%lld", (long long)p->steps)
		: arena_printf(a, "%s_steps(%s)", f->grid->func, tile);
}

/* ---- parts that wait ---- */

void
dot90_put_part(struct cu_func *f, const struct dot90 *p)
{
	struct arena *a = f->k->c->a;
	const char *at = arena_printf(a, p->whole ? "(tile - %lld)" : "tile",
				      (long long)(p->whole / p->cluster));
	long long threads = (long long)dot90_team_threads(p);

	buf_printf(&f->k->text, "\n/* A part, as it lies in registers. */\n"
		   "FN void\n%s_part(f32 *to, const f32 *s)\n{\n\tint j;\n\n"
		   "#pragma unroll\n\tfor (j = 0; j < %lld; j += 4) {\n"
		   "\t\t*(f32x4 *)(to + j * %lld) = f32x4_of(s[j], s[j + 1], "
		   "s[j + 2], s[j + 3]);\n\t}\n}\n", f->grid->func,
		   (long long)(p->rows * p->cols) / threads, threads);
	if (p->cluster > 1) {
		at = arena_printf(a, "(%s * %lld + cluster_rank())", at,
				  (long long)p->cluster);
	}
	cu_line(f, "%s_part((f32 *)(a.shared + %lld) + (i64)%s * %lld + %s * "
		"4, d);", f->grid->func, (long long)p->d->parts, at,
		(long long)(p->rows * p->cols), dot90_thread(p));
}

/* ---- the step that adds them up ---- */

/* Sums of a block's columns, as if it had multiplied. */
static void
add_parts(struct cu_func *f, const struct dot90 *p, const struct dot90 *q)
{
	long long threads = (long long)dot90_team_threads(p);
	long long tile = (long long)(p->rows * p->cols);
	int64_t rows = dot90_group_rows(p) / 64, i;
	long long n = (long long)q->cols / 2;

	cu_line(f, "f32 d[%lld];", (long long)rows * n);
	cu_line(f, "const f32 *from = (const f32 *)(a.shared + %lld) + (i64)e "
		"* %lld + (TID + sub * %lld) * 4;", (long long)p->d->parts,
		tile, n / 4 * threads);
	cu_line(f, "int i, j;");
	buf_puts(&f->text, "#pragma unroll\n");
	cu_line(f, "for (j = 0; j < %lld; j++) {", (long long)rows * n);
	cu_line(f, "d[j] = 0.0f;");
	cu_line(f, "}");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (i = 0; i < %lld; i++) {", (long long)p->splits);
	buf_puts(&f->text, "#pragma unroll\n");
	cu_line(f, "for (j = 0; j < %lld; j += 4) {", n);
	for (i = 0; i < rows; i++) {
		long long at = (long long)i * n;

		cu_line(f, "const f32x4 v%d = *(const f32x4 *)(from + (j + "
			"%lld) * %lld);", (int)i,
			(long long)(i * p->cols / 2), threads);
		cu_line(f, "d[j + %lld] += v%d.x;", at, (int)i);
		cu_line(f, "d[j + %lld] += v%d.y;", at + 1, (int)i);
		cu_line(f, "d[j + %lld] += v%d.z;", at + 2, (int)i);
		cu_line(f, "d[j + %lld] += v%d.w;", at + 3, (int)i);
	}
	cu_line(f, "}");
	cu_line(f, "from += %lld;", (long long)(p->tiles - p->whole) * tile);
	cu_line(f, "}");
}

/* A tile of one team, in blocks of fewer columns. */
static struct dot90
sum_of(const struct dot90 *p)
{
	struct dot90 q = *p;

	q.cols = p->sum_cols;
	q.col_blocks = p->col_blocks * (p->cols / q.cols);
	q.teams = 1;
	q.ring = q.first = 0;
	q.splits = 1;
	q.whole = q.tiles;
	q.part = 0;
	if (dot90_store_suits(&q)) {
		q.waiting = dot90_store_boxes(&q);
	} else if (dot90_has_leaf(q.d)) {
		q.part = q.cols;
	}
	return q;
}

bool
dot90_sum(const struct dot90 *p)
{
	struct dot90 q = sum_of(p);
	long long subs = (long long)(p->cols / q.cols);
	long long whole = (long long)(p->whole / p->cluster);
	struct cu_place m, n;
	struct cu_func f;
	bool done;

	cu_begin(p->d->k, "sum", &f);
	f.minblocks = 2;
	f.grid->threads = dot90_team_threads(p);
	f.grid->blocks[0] = (p->tiles - p->whole) * subs;
	f.grid->smem_bytes = dot90_leaf_bytes(&q);
	if (q.box) {
		VEC_PUSH(f.k->c->a, &f.grid->maps, q.out);
	}
	dot90_order_emit(&f, p);
	cu_say(&f, "%lld tiles of %lld x %lld, %lld parts of each",
	       (long long)(p->tiles - p->whole), (long long)p->rows,
	       (long long)p->cols, (long long)p->splits);
	cu_line(&f, "const int e = BLOCK_X / %lld, sub = BLOCK_X %% %lld;",
		subs, subs);
	cu_line(&f, "const int team = 0, group = TID / 128;");
	if (q.box) {
		cu_line(&f, "const u32 ring = smem_addr(SMEM);");
	}
	dot90_sums_at(&f, p);
	cu_line(&f, "int row, col, z;");
	cu_line(&f, p->cluster > 1
		? "%s_tile(e / 2 + %lld, e %% 2, &row, &col, &z);"
		: "%s_tile(e + %lld, &row, &col, &z);", f.grid->func, whole);
	cu_line(&f, "const int batch = z;");
	cu_line(&f, "col = col * %lld + sub;", subs);
	dot90_places(&f, &q, &m, &n);
	if (q.d->n.size % p->cols != 0) {
		cu_line(&f, "if (n0 >= %lld) {", (long long)q.d->n.size);
		cu_line(&f, "return;");
		cu_line(&f, "}");
	}
	add_parts(&f, p, &q);
	done = dot90_put(&f, &q, &m);
	if (q.box) {
		dot90_store_end(&f);
	}
	dot90_used(&f, &m, &n);
	cu_line(&f, "(void)team, (void)group, (void)r0, (void)lc;");
	cu_end(&f);
	return done;
}

/*
 * Split k: the step that adds partial sums in the order of k, and does with
 * the sums what the team that makes a whole tile does.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

/* Emits the sums of a block's columns, in the registers where a product would
 * leave them. */
static void
add_parts(struct cu_func *f, const struct dot90 *p, const struct dot90 *q)
{
	long long threads = (long long)dot90_team_threads(p);
	long long tile = (long long)(p->rows * p->cols);
	int64_t pieces = dot90_units(p) * dot90_each(p), i;
	long long n = (long long)dot90_width(q) / 2;

	cu_line(f, "f32 d[%lld];", (long long)pieces * n);
	cu_line(f, "const f32 *from = (const f32 *)(a.shared + %lld) + (i64)e "
		"* %lld + (TID + sub * %lld) * 4;", (long long)p->d->parts,
		tile, n / 4 * threads);
	cu_line(f, "int i, j;");
	buf_puts(&f->text, "#pragma unroll\n");
	cu_line(f, "for (j = 0; j < %lld; j++) {", (long long)pieces * n);
	cu_line(f, "d[j] = 0.0f;");
	cu_line(f, "}");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (i = 0; i < %lld; i++) {", (long long)p->splits);
	buf_puts(&f->text, "#pragma unroll\n");
	cu_line(f, "for (j = 0; j < %lld; j += 4) {", n);
	for (i = 0; i < pieces; i++) {
		long long at = (long long)i * n;

		cu_line(f, "const f32x4 v%d = *(const f32x4 *)(from + (j + "
			"%lld) * %lld);", (int)i,
			(long long)dot90_piece_at(p, i), threads);
		cu_line(f, "d[j + %lld] += v%d.x;", at, (int)i);
		cu_line(f, "d[j + %lld] += v%d.y;", at + 1, (int)i);
		cu_line(f, "d[j + %lld] += v%d.z;", at + 2, (int)i);
		cu_line(f, "d[j + %lld] += v%d.w;", at + 3, (int)i);
	}
	cu_line(f, "}");
	cu_line(f, "from += %lld;", (long long)(p->tiles - p->whole) * tile);
	cu_line(f, "}");
}

/* The same tiles, for one team and in blocks of fewer columns. */
static struct dot90
sum_of(const struct dot90 *p)
{
	struct dot90 q = *p;

	q.cols = p->sum_cols * dot90_each(p);
	q.col_blocks = p->col_blocks * (p->cols / q.cols);
	q.teams = 1;
	q.ring = q.first = 0;
	q.splits = 1;
	q.whole = q.tiles;
	q.part = 0;
	q.adds = q.among_others = q.beside = false;
	q.warp_bytes = 0;
	if (dot90_store_suits(&q)) {
		q.waiting = dot90_store_boxes(&q);
	} else if (dot90_has_leaf(q.d)) {
		q.part = p->sum_cols;
	}
	return q;
}

/* The blocks of one contraction, whose place is known. */
static bool
put_columns(struct cu_func *f, const struct dot90 *p)
{
	struct dot90 q = sum_of(p);
	struct cu_place m, n;
	bool done;

	if (dot90_leaf_bytes(&q) > f->grid->smem_bytes) {
		f->grid->smem_bytes = dot90_leaf_bytes(&q);
	}
	if (q.box) {
		q.out_at = f->grid->maps.n;
		VEC_PUSH(f->k->c->a, &f->grid->maps, q.out);
		cu_line(f, "const u32 ring = smem_addr(SMEM);");
	}
	cu_line(f, "col = col * %lld + sub;", (long long)(p->cols / q.cols));
	dot90_places(f, &q, &m, &n);
	if (q.d->n.size % dot90_width(p) != 0) {
		cu_line(f, "if (n0 >= %lld) {", (long long)q.d->n.size);
		cu_line(f, "return;");
		cu_line(f, "}");
	}
	add_parts(f, p, &q);
	done = dot90_put_tile(f, &q, &m);
	if (q.box) {
		dot90_store_end(f);
	}
	dot90_used(f, &m, &n);
	return done;
}

bool
dot90_emit_sum(struct dot90 *p)
{
	long long subs = (long long)(dot90_width(p) / p->sum_cols);
	long long whole = (long long)(p->whole / p->cluster);
	struct cu_func f;
	bool done = true;
	uint32_t i;

	cu_func_begin(p->d->k, "sum", &f);
	f.minblocks = 2;
	f.grid->threads = dot90_team_threads(p);
	f.grid->blocks[0] = (p->tiles - p->whole) * subs;
	dot90_order_emit(&f, p);
	cu_comment(&f, "%lld tiles of %lld x %lld, %lld parts of each",
		   (long long)(p->tiles - p->whole), (long long)p->rows,
		   (long long)p->cols, (long long)p->splits);
	cu_line(&f, "const int e = BLOCK_X / %lld, sub = BLOCK_X %% %lld;",
		subs, subs);
	cu_line(&f, "const int team = 0, group = TID / 128;");
	dot90_sums_at(&f, p);
	cu_line(&f, "int row, col, z;");
	cu_line(&f, p->cluster > 1
		? "%s_tile(e / 2 + %lld, e %% 2, &row, &col, &z);"
		: "%s_tile(e + %lld, &row, &col, &z);", f.grid->func, whole);
	cu_line(&f, "const int batch = z;");
	for (i = 0; done && i < dot90_nmembers(p); i++) {
		dot90_open_member(&f, p, i);
		done = put_columns(&f, dot90_member(p, i));
	}
	dot90_close_members(&f, p);
	cu_line(&f, "(void)team, (void)group, (void)r0, (void)lc;");
	cu_func_end(&f);
	return done;
}

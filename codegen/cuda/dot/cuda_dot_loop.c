/*
 * The loop over k of a contraction whose threads copy operands themselves, with
 * sums in registers in the end: by FMA in f32; cuda_dot_mma.c has that by
 * mma.sync, cuda_dot_async.c those by wgmma and tcgen05.
 */
#include "codegen/cuda/dot/cuda_dot.h"

/* ---- f32: a thread multiplies and adds ---- */

/*
 * A thread has rows and columns in groups of four, so that adjacent threads
 * read adjacent words of shared memory.
 */

/* Reads groups of four numbers of a line, `apart` elements apart. */
static void
read_line(struct cu_func *f, const char *to, int64_t n, int64_t apart,
	  const char *at)
{
	int64_t i;

	for (i = 0; i < n / 4; i++) {
		cu_line(f, "v = *(const struct f32x4 *)(SMEM + %s + %lld);",
			at, (long long)(i * apart * 4));
		cu_line(f, "%s[%lld] = v.x, %s[%lld] = v.y, %s[%lld] = v.z, "
			"%s[%lld] = v.w;", to, (long long)(4 * i), to,
			(long long)(4 * i + 1), to, (long long)(4 * i + 2), to,
			(long long)(4 * i + 3));
	}
}

static void
multiply_fma(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;
	long long per_row = (long long)(t->n / t->wn);
	int64_t a = cu_side_bytes(&l->side[0]);
	int64_t b = cu_side_bytes(&l->side[1]);
	struct arena *mem = f->k->c->a;

	cu_line(f, "UNROLL");
	cu_line(f, "for (q = 0; q < %lld; q++) {", (long long)t->k);
	cu_line(f, "f32 rows[%lld], cols[%lld];", (long long)t->wm,
		(long long)t->wn);
	cu_line(f, "struct f32x4 v;");
	read_line(f, "rows", t->wm, t->m / (t->wm / 4),
		  arena_printf(mem, "get * %lld + q * %lld + TID / %lld * 16",
			       (long long)(a + b),
			       (long long)(a / t->k), per_row));
	read_line(f, "cols", t->wn, t->n / (t->wn / 4),
		  arena_printf(mem, "get * %lld + %lld + q * %lld + "
			       "TID %% %lld * 16", (long long)(a + b),
			       (long long)a, (long long)(b / t->k), per_row));
	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {", (long long)t->wm);
	cu_line(f, "UNROLL");
	cu_line(f, "for (j = 0; j < %lld; j++) {", (long long)t->wn);
	cu_line(f, "acc[i][j] = fma_f32(rows[i], cols[j], acc[i][j]);");
	cu_close(f, 3);
}

static void
emit_fma(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_line(f, "const int nk = (%s - %s + %lld) / %lld;", l->to, l->from,
		(long long)t->k - 1, (long long)t->k);
	cu_line(f, "f32 acc[%lld][%lld];", (long long)t->wm,
		(long long)t->wn);
	cu_line(f, "int it, get = 0, put = %lld;", (long long)t->stages - 1);
	cu_line(f, "UNROLL");
	cu_line(f, "for (it = 0; it < %lld; it++) {",
		(long long)(t->wm * t->wn));
	cu_line(f, "acc[it / %lld][it %% %lld] = 0;", (long long)t->wn,
		(long long)t->wn);
	cu_line(f, "}");
	cu_loop_ahead(f, l);
	cu_line(f, "for (it = 0; it < nk; it++) {");
	cu_line(f, "int q, i, j;");
	cu_line(f, "cp_async_wait(%lld);", (long long)t->stages - 2);
	cu_line(f, "sync_block();");
	cu_loop_next(f, l);
	multiply_fma(f, l);
	cu_line(f, "get = get == %lld ? 0 : get + 1;",
		(long long)t->stages - 1);
	cu_line(f, "}");
}

/* ---- all of them ---- */

void
cu_loop_emit(struct cu_func *f, const struct cu_loop *l)
{
	if (l->tile->by == CU_BY_TCGEN05) {
		cu_loop_tensor(f, l);
	} else if (l->tile->by == CU_BY_WGMMA) {
		cu_loop_wgmma(f, l);
	} else if (cu_tile_widens(l->tile)) {
		cu_widen_loop(f, l);
	} else if (l->unit == CU_DOT_FMA) {
		emit_fma(f, l);
	} else {
		cu_loop_mma(f, l);
	}
	cu_line(f, "cp_async_wait(0);");
}

/* ---- sums that are complete ---- */

/* Declares the row of numbers i and e, or of j and e. */
static void
put_row(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	if (cu_tile_widens(t)) {
		cu_widen_row(f, l);
	} else if (l->unit == CU_DOT_FMA) {
		cu_line(f, "const int row = i / 4 * %lld + TID / %lld * 4 + "
			"i %% 4;", (long long)(t->m / (t->wm / 4)),
			(long long)(t->n / t->wn));
	} else {
		cu_line(f, "const int row = WARP %% %lld * %lld + i * 16 + "
			"e * 8 + LANE / 4;", (long long)(t->m / t->wm),
			(long long)t->wm);
	}
}

void
cu_pairs_begin(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;
	bool fma = l->unit == CU_DOT_FMA;

	cu_line(f, "{");
	cu_line(f, "int i, j, e;");
	if (cu_tile_widens(t)) {
		cu_widen_pairs(f, l);
		return;
	}
	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {",
		(long long)(fma ? t->wm : t->wm / 16));
	cu_line(f, "UNROLL");
	cu_line(f, "for (j = 0; j < %lld; j++) {",
		(long long)(fma ? t->wn / 4 : t->wn / 8));
	cu_line(f, "UNROLL");
	cu_line(f, "for (e = 0; e < 2; e++) {");
	put_row(f, l);
	if (fma) {
		cu_line(f, "const int col = j * %lld + TID %% %lld * 4 + "
			"e * 2;", (long long)(t->n / (t->wn / 4)),
			(long long)(t->n / t->wn));
		cu_line(f, "const f32 x = acc[i][j * 4 + e * 2];");
		cu_line(f, "const f32 y = acc[i][j * 4 + e * 2 + 1];");
		return;
	}
	cu_line(f, "const int col = WARP / %lld * %lld + j * 8 + "
		"LANE %% 4 * 2;", (long long)(t->m / t->wm),
		(long long)t->wn);
	cu_line(f, "const f32 x = acc[i][j][e * 2];");
	cu_line(f, "const f32 y = acc[i][j][e * 2 + 1];");
}

void
cu_pairs_end(struct cu_func *f)
{
	cu_close(f, 4);
}

/* C text: the first column that a thread has sums of; and how far behind it the
 * one of numbers i, j and e is. */
static const char *
first_col(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	return l->unit == CU_DOT_FMA && !cu_tile_widens(t)
		? arena_printf(f->k->c->a, "TID %% %lld * 4",
			       (long long)(t->n / t->wn))
		: arena_printf(f->k->c->a, "WARP / %lld * %lld + %s * 2",
			       (long long)(t->m / t->wm), (long long)t->wn,
			       cu_tile_widens(t) ? "LANE / 4" : "LANE % 4");
}

static const char *
next_col(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	return cu_tile_widens(t) ? "i * 16"
		: l->unit != CU_DOT_FMA ? "j * 8"
		: arena_printf(f->k->c->a, "j * %lld + e * 2",
			       (long long)(t->n / (t->wn / 4)));
}

const char *
cu_pairs_places(struct cu_func *f, const struct cu_loop *l, const char *place)
{
	const struct cu_tile *t = l->tile;
	bool widens = cu_tile_widens(t);
	bool fma = l->unit == CU_DOT_FMA && !widens;
	int64_t each = fma ? t->wm : widens ? t->wm / 8 : t->wm / 16;
	const char *i = widens ? "j" : "i";
	const char *at = fma ? "i" : widens ? "j * 2 + e" : "i * 2 + e";

	cu_line(f, "i64 places[%lld];", (long long)(fma ? each : 2 * each));
	cu_line(f, "UNROLL");
	cu_line(f, "for (int %s = 0; %s < %lld; %s++) {", i, i,
		(long long)each, i);
	if (!fma) {
		cu_line(f, "UNROLL");
		cu_line(f, "for (int e = 0; e < 2; e++) {");
	}
	put_row(f, l);
	cu_line(f, "places[%s] = %s + (%s);", at, place, first_col(f, l));
	cu_close(f, fma ? 1 : 2);
	return arena_printf(f->k->c->a, "places[%s] + %s", at,
			    next_col(f, l));
}

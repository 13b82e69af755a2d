/*
 * Sums by plain multiply-and-add, in f32 to the last bit: a thread has rows
 * and columns in groups of four, so that threads side by side read shared
 * memory side by side.
 */
#include "codegen/cuda/dot/cuda_dot.h"

/* Reads groups of four of a line, `apart` elements apart. */
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
multiply(struct cu_func *f, const struct cu_loop *l)
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
	cu_line(f, "}");
	cu_line(f, "}");
	cu_line(f, "}");
}

void
cu_fma_emit(struct cu_func *f, const struct cu_loop *l)
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
	multiply(f, l);
	cu_line(f, "get = get == %lld ? 0 : get + 1;",
		(long long)t->stages - 1);
	cu_line(f, "}");
}

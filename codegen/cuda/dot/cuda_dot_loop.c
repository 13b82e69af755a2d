/*
 * The loop over k: what makes sums of tiles, and what hands them on.
 *
 * Stages of shared memory are filled in a ring.  A thread says that it wants
 * tile i + stages - 1 when all have left tile i - 1, whose place it takes, and
 * waits until all but the newest are there: copying is so many tiles ahead.
 */
#include "codegen/cuda/dot/cuda_dot.h"

int64_t
cu_loop_smem(const struct cu_loop *l)
{
	return l->tile->stages *
	       (cu_side_bytes(&l->side[0]) + cu_side_bytes(&l->side[1]));
}

void
cu_loop_emit(struct cu_func *f, const struct cu_loop *l)
{
	if (l->unit == CU_DOT_FMA) {
		cu_fma_emit(f, l);
	} else {
		cu_mma_emit(f, l);
	}
	cu_line(f, "cp_async_wait(0);");
}

/* Tiles of both operands into stage `slot`, of k from `k` on. */
static void
load(struct cu_func *f, const struct cu_loop *l, const char *slot,
     const char *k)
{
	int64_t a = cu_side_bytes(&l->side[0]);
	int64_t b = cu_side_bytes(&l->side[1]);
	int i;

	for (i = 0; i < 2; i++) {
		cu_line(f, "%s(%s * %lld + %lld, %s, %s, %s%s);", l->load[i],
			slot, (long long)(a + b), i ? (long long)a : 0,
			l->args[i], k, l->end, l->table[i]);
	}
}

void
cu_loop_ahead(struct cu_func *f, const struct cu_loop *l)
{
	long long ahead = (long long)l->tile->stages - 1;

	cu_line(f, "for (it = 0; it < %lld; it++) {", ahead);
	cu_line(f, "if (it < nk) {");
	load(f, l, "it", arena_printf(f->k->c->a, "%s + it * %lld", l->from,
				      (long long)l->tile->k));
	cu_line(f, "}");
	cu_line(f, "cp_async_commit();");
	cu_line(f, "}");
}

void
cu_loop_next(struct cu_func *f, const struct cu_loop *l)
{
	long long ahead = (long long)l->tile->stages - 1;

	cu_line(f, "if (it + %lld < nk) {", ahead);
	load(f, l, "put", arena_printf(f->k->c->a, "%s + (it + %lld) * %lld",
				       l->from, ahead,
				       (long long)l->tile->k));
	cu_line(f, "}");
	cu_line(f, "cp_async_commit();");
	cu_line(f, "put = put == %lld ? 0 : put + 1;", ahead);
}

/* ---- sums that are complete ---- */

void
cu_pairs_begin(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;
	bool fma = l->unit == CU_DOT_FMA;

	cu_line(f, "{");
	cu_line(f, "int i, j, e;");
	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {",
		(long long)(fma ? t->wm : t->wm / 16));
	cu_line(f, "UNROLL");
	cu_line(f, "for (j = 0; j < %lld; j++) {",
		(long long)(fma ? t->wn / 4 : t->wn / 8));
	cu_line(f, "UNROLL");
	cu_line(f, "for (e = 0; e < 2; e++) {");
	if (fma) {
		cu_line(f, "const int row = i / 4 * %lld + TID / %lld * 4 + "
			"i %% 4;", (long long)(t->m / (t->wm / 4)),
			(long long)(t->n / t->wn));
		cu_line(f, "const int col = j * %lld + TID %% %lld * 4 + "
			"e * 2;", (long long)(t->n / (t->wn / 4)),
			(long long)(t->n / t->wn));
		cu_line(f, "const f32 x = acc[i][j * 4 + e * 2];");
		cu_line(f, "const f32 y = acc[i][j * 4 + e * 2 + 1];");
		return;
	}
	cu_line(f, "const int row = WARP %% %lld * %lld + i * 16 + e * 8 + "
		"LANE / 4;", (long long)(t->m / t->wm), (long long)t->wm);
	cu_line(f, "const int col = WARP / %lld * %lld + j * 8 + "
		"LANE %% 4 * 2;", (long long)(t->m / t->wm),
		(long long)t->wn);
	cu_line(f, "const f32 x = acc[i][j][e * 2];");
	cu_line(f, "const f32 y = acc[i][j][e * 2 + 1];");
}

void
cu_pairs_end(struct cu_func *f)
{
	int i;

	for (i = 0; i < 4; i++) {
		cu_line(f, "}");
	}
}

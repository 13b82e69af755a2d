/*
 * The loop over k of a contraction whose threads copy operands themselves, and
 * whose products run beside that: by wgmma or tcgen05.
 */
#include "codegen/cuda/dot/cuda_dot.h"

/* ---- a warpgroup multiplies by wgmma ---- */

/* Declares a descriptor of operand `which` in stage `get`.  A warpgroup has 64
 * rows. */
static void
descriptor(struct cu_func *f, const struct cu_loop *l, int which)
{
	const struct cu_side *s = &l->side[which];
	long long a = (long long)cu_side_bytes(&l->side[0]);
	long long b = (long long)cu_side_bytes(&l->side[1]);

	cu_line(f, "const u64 %s = wg_desc(smem_addr(SMEM) + get * %lld + %s, "
		"%lld, 1024, 128);", which ? "y" : "x", a + b,
		which ? arena_printf(f->k->c->a, "%lld", a) : "WARP / 4 * 8192",
		s->along_k ? 16 : (long long)s->k * 128);
}

/* All products of a stage into `sums`; the first one adds if `add`. */
static void
multiply_wgmma(struct cu_func *f, const struct cu_loop *l, const char *sums,
	       const char *add)
{
	static const char *const types[CU_DOT_NUNITS] = {
		[CU_DOT_BF16] = "bf16", [CU_DOT_F16] = "f16",
		[CU_DOT_E4M3] = "e4m3"
	};
	const struct cu_side *s = l->side;
	/* steps of 32 bytes along k, in units of 16 bytes */
	int x = s[0].along_k ? 2 : 128, y = s[1].along_k ? 2 : 128, k;
	/* only elements of 16 bits are transposed */
	const char *turns = cu_unit_bytes(l->unit) != 2 ? ""
		: arena_printf(f->k->c->a, ", %d, %d", !s[0].along_k,
			       !s[1].along_k);

	cu_line(f, "{");
	descriptor(f, l, 0);
	descriptor(f, l, 1);
	cu_line(f, "wg_fence();");
	for (k = 0; k < 4; k++) {
		cu_line(f, "wg_%s_64x%lld(%s, x + %d, y + %d, %s%s);",
			types[l->unit], (long long)l->tile->n, sums, x * k,
			y * k, k == 0 ? add : "1", turns);
	}
	cu_line(f, "wg_commit();");
	cu_line(f, "}");
}

/* Waits for copies of a stage, and lets wgmma read them. */
static void
stage_here(struct cu_func *f, const struct cu_loop *l)
{
	cu_line(f, "cp_async_wait(%lld);", cu_loop_lead(l) - 1);
	cu_comment(f, "wgmma reads what this thread has copied");
	cu_line(f, "fence_async();");
	cu_line(f, "sync_block();");
}

static void
stage_next(struct cu_func *f, const struct cu_loop *l)
{
	cu_loop_next(f, l);
	cu_line(f, "get = get == %lld ? 0 : get + 1;",
		(long long)l->tile->stages - 1);
}

/*
 * Products of tile i run while those of tile i - 1 are waited for.  After the
 * barrier of tile i all threads have waited for those of tile i - 2, whose
 * stage is filled next.  The first product defines the sums: with zeros that
 * the loop begins with NVRTC 13 would run products one by one.
 */
static void
loop_wgmma(struct cu_func *f, const struct cu_loop *l)
{
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (it = 0; it < nk; it++) {");
	stage_here(f, l);
	multiply_wgmma(f, l, "&acc[0][0][0]", "it > 0");
	stage_next(f, l);
	cu_line(f, "wg_wait(1);");
	cu_line(f, "}");
	cu_line(f, "wg_wait(0);");
	cu_line(f, "wg_sums(&acc[0][0][0], %lld);",
		(long long)l->tile->n / 2);
}

/*
 * Sums of f8e4m3, which wgmma adds up with some 14 bits: threads add what it
 * makes of CU_PROMOTED tiles at a time to sums in f32.  To add those of one
 * half while products of the other run, in two sets of registers, was tried:
 * NVRTC 13 then runs products one by one.
 */
static void
loop_promoted(struct cu_func *f, const struct cu_loop *l)
{
	long long n = (long long)l->tile->n / 2;

	cu_line(f, "f32 part[%lld];", n);
	cu_clear_sums(f, l->tile, "acc");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (it = 0; it < nk; it++) {");
	stage_here(f, l);
	multiply_wgmma(f, l, "part", arena_printf(f->k->c->a, "it %% %d > 0",
						  CU_PROMOTED));
	stage_next(f, l);
	cu_line(f, "if (it %% %d < %d && it + 1 < nk) {", CU_PROMOTED,
		CU_PROMOTED - 1);
	cu_line(f, "wg_wait(1);");
	cu_line(f, "} else {");
	cu_line(f, "wg_wait(0);");
	cu_promote(f, n, "acc[0][j / 4][j % 4]");
	cu_close(f, 2);
}

void
cu_loop_wgmma(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_line(f, "const int nk = (%s - %s + %lld) / %lld;", l->to, l->from,
		(long long)t->k - 1, (long long)t->k);
	cu_line(f, "f32 acc[1][%lld][4];", (long long)t->n / 8);
	cu_line(f, "int it, get = 0, put = %lld;", cu_loop_lead(l));
	cu_loop_ahead(f, l);
	if (l->unit == CU_DOT_E4M3) {
		loop_promoted(f, l);
		return;
	}
	loop_wgmma(f, l);
	if (l->none) {
		cu_line(f, "if (nk <= 0) {");
		cu_clear_sums(f, t, "acc");
		cu_line(f, "}");
	}
}

/* ---- one thread multiplies by tcgen05 ---- */

/* Barriers of all stages, then the address of the sums. */
static void
tensor_open(struct cu_func *f, const struct cu_tile *t, int64_t bars)
{
	long long n = (long long)t->stages;

	cu_line(f, "const u32 ring = smem_addr(SMEM), done = ring + %lld;",
		(long long)bars);
	cu_line(f, "const int warp = (int)shfl_u32((u32)WARP, 0);");
	cu_line(f, "if (TID == 0) {");
	cu_line(f, "for (int i = 0; i < %lld; i++) {", n);
	cu_line(f, "mbar_init(done + 8 * i, 1);");
	cu_line(f, "}");
	cu_line(f, "fence_mbar_init();");
	cu_line(f, "}");
	cu_line(f, "if (warp == 0) {");
	cu_line(f, "tc_alloc(done + %lld, %lld);", 8 * n, (long long)t->n);
	cu_line(f, "tc_relinquish();");
	cu_line(f, "}");
	cu_line(f, "tc_fence_before();");
	cu_line(f, "sync_block();");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "const u32 sums = *(const u32 *)(SMEM + %lld);",
		(long long)bars + 8 * n);
}

static void
tensor_close(struct cu_func *f, const struct cu_tile *t)
{
	cu_line(f, "tc_fence_before();");
	cu_line(f, "sync_block();");
	cu_line(f, "if (warp == 0) {");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "tc_dealloc(sums, %lld);", (long long)t->n);
	cu_line(f, "}");
}

void
cu_loop_open(struct cu_func *f, const struct cu_tile *t, int64_t bars)
{
	if (t->by == CU_BY_TCGEN05) {
		tensor_open(f, t, bars);
	}
	cu_launch_wait(f);
}

void
cu_loop_leave(struct cu_func *f, const struct cu_tile *t)
{
	if (t->by == CU_BY_TCGEN05) {
		tensor_close(f, t);
	}
	cu_line(f, "return;");
}

static void
multiply_tensor(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_side *s = l->side;
	const struct cu_products x = {
		.unit = l->unit, .by_k = { s[0].along_k, s[1].along_k },
		.cols = l->tile->n, .left_bytes = cu_side_bytes(&s[0]),
		.stage_bytes = cu_side_bytes(&s[0]) + cu_side_bytes(&s[1]),
		.stage = "get", .sums = "sums", .add = "it > 0"
	};

	cu_line(f, "if (warp == 0 && elect_one()) {");
	cu_line(f, "const u32 form = %s;", cu_tensor_form(f->k->c->a, &x));
	cu_line(f, "tc_fence_after();");
	cu_tensor_products(f, &x);
	cu_line(f, "tc_commit(done + 8 * get);");
	cu_line(f, "}");
}

/* A thread's sums: warp w has 32 rows of half of the columns, which lie as
 * those of warps that multiply. */
static void
tensor_sums(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;
	int64_t each = t->wn < 64 ? t->wn : 64, i, j;

	cu_line(f, "mbar_wait(done + 8 * ((nk - 1) %% %lld), (nk - 1) / %lld "
		"& 1);", (long long)t->stages, (long long)t->stages);
	cu_line(f, "tc_fence_after();");
	for (i = 0; i < t->wm / 16; i++) {
		for (j = 0; j < t->wn; j += each) {
			cu_line(f, "tc_ld%lld(&acc[%lld][%lld][0], sums + "
				"((u32)WARP %% 4 << 21) + WARP / 4 * %lld + "
				"%lld);", (long long)each, (long long)i,
				(long long)j / 8, (long long)t->wn,
				(long long)(i << 20 | j));
		}
	}
	cu_line(f, "tc_wait(&acc[0][0][0], %lld);",
		(long long)(t->wm * t->wn / 32));
}

/*
 * The commit of tile i arrives at its stage's barrier when its products are
 * done.  The stage of tile i - 2 is waited for before it is filled, when those
 * of tiles i - 1 and i are ordered; `phase` is the parity of that wait, which
 * the first two tiles pass.  A thread that fills no more waits for the last
 * tile alone: all that its barrier counted before has been waited for.
 */
void
cu_loop_tensor(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_line(f, "const int nk = (%s - %s + %lld) / %lld;", l->to, l->from,
		(long long)t->k - 1, (long long)t->k);
	cu_line(f, "f32 acc[%lld][%lld][4];", (long long)t->wm / 16,
		(long long)t->wn / 8);
	cu_line(f, "int it, get = 0, put = %lld, phase = 1;", cu_loop_lead(l));
	cu_loop_ahead(f, l);
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (it = 0; it < nk; it++) {");
	cu_line(f, "cp_async_wait(%lld);", cu_loop_lead(l) - 1);
	cu_comment(f, "tcgen05 reads what this thread has copied");
	cu_line(f, "fence_async();");
	cu_line(f, "sync_block();");
	multiply_tensor(f, l);
	cu_line(f, "if (it + %lld < nk) {", cu_loop_lead(l));
	cu_line(f, "mbar_wait(done + 8 * put, phase);");
	cu_line(f, "}");
	cu_loop_next(f, l);
	cu_line(f, "phase ^= put == 0;");
	cu_line(f, "get = get == %lld ? 0 : get + 1;",
		(long long)t->stages - 1);
	cu_line(f, "}");
	if (l->none) {
		cu_line(f, "if (nk <= 0) {");
		cu_clear_sums(f, t, "acc");
		cu_line(f, "} else {");
	}
	tensor_sums(f, l);
	if (l->none) {
		cu_line(f, "}");
	}
	tensor_close(f, t);
}

/*
 * The loop over k of a contraction whose threads copy operands themselves, with
 * sums in registers in the end: FMA in f32, or tensor cores, by mma.sync, wgmma
 * or tcgen05.
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

/* ---- tensor cores: a warp multiplies by mma.sync ---- */

/*
 * A warp has its part of the tile in registers, and reads 16 rows by 32 bytes
 * along k of both operands at a time, the next ones while it multiplies.
 *
 * Which thread has which element: PTX ISA, "Matrix Fragments for
 * mma.m16n8k16", and those of k8 with .tf32 and of k32 with 8 bits, which are
 * the same bytes, as ldmatrix returns them.
 */
struct mma {
	struct cu_func *f;
	const struct cu_loop *l;
	int64_t atom;		/* elements of 32 bytes along k */
	int64_t line[2];
	const char *warp[2];	/* C text: first row and column of the warp */
	const char *name[2];	/* functions that read from shared memory */
};

static const char *
instruction(enum cu_dot_unit u)
{
	static const char *const names[CU_DOT_NUNITS] = {
		[CU_DOT_TF32] = "mma_tf32", [CU_DOT_BF16] = "mma_bf16",
		[CU_DOT_F16] = "mma_f16", [CU_DOT_E4M3] = "mma_e4m3",
		[CU_DOT_E5M2] = "mma_e5m2"
	};

	return names[u];
}

/* C text: what a chunk's place in line `line` is XORed with. */
static const char *
swizzle(int64_t line_bytes)
{
	return line_bytes >= 128 ? "line % 8"
		: line_bytes == 64 ? "line / 2 % 4" : "line / 4 % 2";
}

/*
 * 16 rows by two chunks of k: matrices of 8 rows by 16 bytes, in the order of
 * the instruction's registers: of A rows before k, of B k before rows.
 */
static void
read_along_k(const struct mma *m, int which, struct buf *out)
{
	buf_printf(out, "\tconst int line = %s + %s, place = q * 2 + %s;\n"
		   "\tint i;\n\n", m->warp[which],
		   which ? "LANE % 8 + LANE / 16 * 8" : "LANE % 16",
		   which ? "LANE / 8 % 2" : "LANE / 16");
	buf_printf(out, "\tUNROLL\n\tfor (i = 0; i < %lld; i++) {\n"
		   "\t\tldsm4(x[i], smem_addr(SMEM) + (u32)(at + "
		   "(line + i * 16) * %lld +\n\t\t\t(place ^ (%s)) * 16));\n"
		   "\t}\n", (long long)((which ? m->l->tile->wn
					       : m->l->tile->wm) / 16),
		   (long long)m->line[which], swizzle(m->line[which]));
	if (m->l->unit == CU_DOT_TF32) {
		buf_printf(out, "\tUNROLL\n\tfor (i = 0; i < %lld; i++) {\n"
			   "\t\tx[i / 4][i %% 4] = to_tf32(bits_f32("
			   "x[i / 4][i %% 4]));\n\t}\n",
			   (long long)((which ? m->l->tile->wn
					      : m->l->tile->wm) / 4));
	}
}

/* The same, transposed, of lines that are positions of k. */
static void
read_along_rows(const struct mma *m, int which, struct buf *out)
{
	buf_printf(out, "\tconst int line = q * 16 + %s;\n"
		   "\tconst int place = %s / 8 + %s;\n\tint i;\n\n",
		   which ? "LANE % 16" : "LANE % 8 + LANE / 16 * 8",
		   m->warp[which], which ? "LANE / 16" : "LANE / 8 % 2");
	buf_printf(out, "\tUNROLL\n\tfor (i = 0; i < %lld; i++) {\n"
		   "\t\tldsm4_t(x[i], smem_addr(SMEM) + (u32)(at + line * "
		   "%lld +\n\t\t\t((place + i * 2) ^ (%s)) * 16));\n\t}\n",
		   (long long)((which ? m->l->tile->wn
				      : m->l->tile->wm) / 16),
		   (long long)m->line[which], swizzle(m->line[which]));
}

/* Numbers of 4 bytes, one by one: ldmatrix does not transpose them. */
static void
read_numbers(const struct mma *m, int which, struct buf *out)
{
	buf_puts(out, "\tint i;\n\n");
	buf_printf(out, "\tUNROLL\n\tfor (i = 0; i < %lld; i++) {\n",
		   (long long)((which ? m->l->tile->wn
				      : m->l->tile->wm) / 4));
	buf_printf(out, "\t\tconst int line = q * 8 + LANE %% 4 + i %s * 4;\n"
		   "\t\tconst int row = %s + i / 4 * 16 + LANE / 4 + i %s * 8;"
		   "\n\n", which ? "% 2" : "/ 2 % 2", m->warp[which],
		   which ? "/ 2 % 2" : "% 2");
	buf_printf(out, "\t\tx[i / 4][i %% 4] = to_tf32(*(const f32 *)(SMEM + "
		   "at + line * %lld +\n\t\t\t(row / 4 ^ (line %% 4 * 2)) * 16 "
		   "+ row %% 4 * 4));\n\t}\n", (long long)m->line[which]);
}

static void
put_reader(const struct mma *m, int which)
{
	struct buf *out = &m->f->k->text;

	buf_printf(out, "\n/* What a warp multiplies: %s, step q of a stage "
		   "*/\nFN void\n%s(u32 (*x)[4], int at, int q)\n{\n",
		   which ? "columns" : "rows", m->name[which]);
	if (m->l->side[which].along_k) {
		read_along_k(m, which, out);
	} else if (m->l->unit == CU_DOT_TF32) {
		read_numbers(m, which, out);
	} else {
		read_along_rows(m, which, out);
	}
	buf_puts(out, "}\n");
}

/* Sums of nothing. */
static void
put_zeros_to(struct cu_func *f, const struct cu_tile *t, const char *sums)
{
	cu_line(f, "UNROLL");
	cu_line(f, "for (it = 0; it < %lld; it++) {",
		(long long)(t->wm * t->wn / 32));
	cu_line(f, "%s[it / %lld][it / 4 %% %lld][it %% 4] = 0;", sums,
		(long long)t->wn / 2, (long long)t->wn / 8);
	cu_line(f, "}");
}

static void
put_zeros(struct cu_func *f, const struct cu_tile *t)
{
	put_zeros_to(f, t, "acc");
}

/* Sums of 8 bits, which mma.sync adds up with some 14 bits: threads add what it
 * makes of 512 of k to sums in f32, as they do for wgmma. */
static bool
promotes(const struct mma *m)
{
	return cu_unit_bytes(m->l->unit) == 1;
}

static void
declare(const struct mma *m)
{
	const struct cu_tile *t = m->l->tile;
	struct cu_func *f = m->f;

	cu_line(f, "const int nk = (%s - %s + %lld) / %lld;", m->l->to,
		m->l->from, (long long)t->k - 1, (long long)t->k);
	cu_line(f, "f32 acc[%lld][%lld][4];", (long long)t->wm / 16,
		(long long)t->wn / 8);
	if (promotes(m)) {
		cu_line(f, "f32 part[%lld][%lld][4];", (long long)t->wm / 16,
			(long long)t->wn / 8);
	}
	cu_line(f, "u32 rows[2][%lld][4], cols[2][%lld][4];",
		(long long)t->wm / 16, (long long)t->wn / 16);
	cu_line(f, "int it, get = 0, put = %lld;", (long long)t->stages - 1);
	put_zeros(f, t);
	if (promotes(m)) {
		put_zeros_to(f, t, "part");
	}
}

/* Reads both operands of step `q` from stage `get`. */
static void
read_both(const struct mma *m, const char *to, const char *q)
{
	int64_t a = cu_side_bytes(&m->l->side[0]);
	int64_t b = cu_side_bytes(&m->l->side[1]);

	cu_line(m->f, "%s(rows[%s], get * %lld, %s);", m->name[0], to,
		(long long)(a + b), q);
	cu_line(m->f, "%s(cols[%s], get * %lld + %lld, %s);", m->name[1], to,
		(long long)(a + b), (long long)a, q);
}

static void
wait(const struct mma *m)
{
	cu_line(m->f, "cp_async_wait(%lld);",
		(long long)m->l->tile->stages - 2);
	cu_line(m->f, "sync_block();");
}

static void
multiply_mma(const struct mma *m)
{
	const struct cu_tile *t = m->l->tile;
	struct cu_func *f = m->f;

	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {", (long long)t->wm / 16);
	cu_line(f, "UNROLL");
	cu_line(f, "for (j = 0; j < %lld; j++) {", (long long)t->wn / 8);
	cu_line(f, "%s(%s[i][j], rows[q %% 2][i], &cols[q %% 2][j / 2]"
		"[j %% 2 * 2]);", instruction(m->l->unit),
		promotes(m) ? "part" : "acc");
	cu_close(f, 2);
}

static void
promote_mma(const struct mma *m)
{
	const struct cu_tile *t = m->l->tile;
	long long stages = CU_PROMOTED * 128 / (long long)t->k;
	struct cu_func *f = m->f;

	cu_line(f, "if (it %% %lld == %lld || it + 1 == nk) {", stages,
		stages - 1);
	cu_line(f, "int e;");
	cu_line(f, "UNROLL");
	cu_line(f, "for (e = 0; e < %lld; e++) {",
		(long long)(t->wm * t->wn / 32));
	cu_line(f, "f32 *const x = &part[e / %lld][e / 4 %% %lld][e %% 4];",
		(long long)t->wn / 2, (long long)t->wn / 8);
	cu_line(f, "acc[e / %lld][e / 4 %% %lld][e %% 4] += *x;",
		(long long)t->wn / 2, (long long)t->wn / 8);
	cu_line(f, "*x = 0;");
	cu_close(f, 2);
}

/*
 * A step's operands are read during the step before; those of a tile's first
 * step during the last step of the tile before, after the tile's only barrier.
 */
static void
loop_mma(const struct mma *m)
{
	const struct cu_tile *t = m->l->tile;
	long long steps = (long long)(t->k / m->atom);
	struct cu_func *f = m->f;

	cu_line(f, "for (it = 0; it < nk; it++) {");
	cu_line(f, "int q, i, j;");
	cu_line(f, "UNROLL");
	cu_line(f, "for (q = 0; q < %lld; q++) {", steps);
	cu_line(f, "if (q == %lld) {", steps - 1);
	wait(m);
	cu_line(f, "get = get == %lld ? 0 : get + 1;",
		(long long)t->stages - 1);
	cu_line(f, "}");
	cu_line(f, "if (q < %lld || it + 1 < nk) {", steps - 1);
	read_both(m, "(q + 1) % 2", arena_printf(f->k->c->a,
						 "(q + 1) %% %lld", steps));
	cu_line(f, "}");
	cu_line(f, "if (q == 0) {");
	cu_loop_next(f, m->l);
	cu_line(f, "}");
	multiply_mma(m);
	cu_line(f, "}");
	if (promotes(m)) {
		promote_mma(m);
	}
	cu_line(f, "}");
}

static void
emit_mma(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;
	struct arena *a = f->k->c->a;
	struct mma m = { .f = f, .l = l,
			 .atom = 32 / cu_unit_bytes(l->unit) };
	int i;

	m.warp[0] = arena_printf(a, "WARP %% %lld * %lld",
				 (long long)(t->m / t->wm), (long long)t->wm);
	m.warp[1] = arena_printf(a, "WARP / %lld * %lld",
				 (long long)(t->m / t->wm), (long long)t->wn);
	for (i = 0; i < 2; i++) {
		int64_t n = l->side[i].along_k ? l->side[i].k
					       : l->side[i].rows;

		m.line[i] = n * cu_unit_bytes(l->unit);
		m.name[i] = arena_printf(a, "%s_%s", f->grid->func,
					 i ? "cols" : "rows");
		put_reader(&m, i);
	}
	declare(&m);
	cu_loop_ahead(f, l);
	wait(&m);
	if (l->none) {
		cu_line(f, "if (nk > 0) {");
	}
	read_both(&m, "0", "0");
	if (l->none) {
		cu_line(f, "}");
	}
	loop_mma(&m);
}

/* ---- tensor cores: a warpgroup multiplies by wgmma ---- */

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
	put_zeros(f, l->tile);
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

static void
emit_wgmma(struct cu_func *f, const struct cu_loop *l)
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
		put_zeros(f, t);
		cu_line(f, "}");
	}
}

/* ---- tensor cores: one thread multiplies by tcgen05 ---- */

/* Barriers of all stages, then the address of the sums. */
static void
tensor_open(struct cu_func *f, const struct cu_loop *l)
{
	long long n = (long long)l->tile->stages;

	cu_line(f, "const u32 ring = smem_addr(SMEM), done = ring + %lld;",
		(long long)l->bars);
	cu_line(f, "const int warp = (int)shfl_u32((u32)WARP, 0);");
	cu_line(f, "if (TID == 0) {");
	cu_line(f, "for (int i = 0; i < %lld; i++) {", n);
	cu_line(f, "mbar_init(done + 8 * i, 1);");
	cu_line(f, "}");
	cu_line(f, "fence_mbar_init();");
	cu_line(f, "}");
	cu_line(f, "if (warp == 0) {");
	cu_line(f, "tc_alloc(done + %lld, %lld);", 8 * n,
		(long long)l->tile->n);
	cu_line(f, "tc_relinquish();");
	cu_line(f, "}");
	cu_line(f, "tc_fence_before();");
	cu_line(f, "sync_block();");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "const u32 sums = *(const u32 *)(SMEM + %lld);",
		(long long)l->bars + 8 * n);
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

static void
tensor_close(struct cu_func *f, const struct cu_loop *l)
{
	cu_line(f, "tc_fence_before();");
	cu_line(f, "sync_block();");
	cu_line(f, "if (warp == 0) {");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "tc_dealloc(sums, %lld);", (long long)l->tile->n);
	cu_line(f, "}");
}

/*
 * The commit of tile i arrives at its stage's barrier when its products are
 * done.  The stage of tile i - 2 is waited for before it is filled, when those
 * of tiles i - 1 and i are ordered; `phase` is the parity of that wait, which
 * the first two tiles pass.  A thread that fills no more waits for the last
 * tile alone: all that its barrier counted before has been waited for.
 */
static void
emit_tensor(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_line(f, "const int nk = (%s - %s + %lld) / %lld;", l->to, l->from,
		(long long)t->k - 1, (long long)t->k);
	cu_line(f, "f32 acc[%lld][%lld][4];", (long long)t->wm / 16,
		(long long)t->wn / 8);
	cu_line(f, "int it, get = 0, put = %lld, phase = 1;", cu_loop_lead(l));
	tensor_open(f, l);
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
		put_zeros(f, t);
		cu_line(f, "} else {");
	}
	tensor_sums(f, l);
	if (l->none) {
		cu_line(f, "}");
	}
	tensor_close(f, l);
}

void
cu_loop_emit(struct cu_func *f, const struct cu_loop *l)
{
	if (l->tile->by == CU_BY_TCGEN05) {
		emit_tensor(f, l);
	} else if (l->tile->by == CU_BY_WGMMA) {
		emit_wgmma(f, l);
	} else if (cu_tile_widens(l->tile)) {
		cu_widen_loop(f, l);
	} else if (l->unit == CU_DOT_FMA) {
		emit_fma(f, l);
	} else {
		emit_mma(f, l);
	}
	cu_line(f, "cp_async_wait(0);");
}

/* ---- sums that are complete ---- */

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
	cu_close(f, 4);
}

/*
 * The loop over k of a contraction whose warps multiply by mma.sync.
 *
 * A warp has its part of the tile in registers, and reads 16 rows by 32 bytes
 * along k of both operands at a time, the next ones while it multiplies.
 *
 * Which thread has which element: PTX ISA, "Matrix Fragments for
 * mma.m16n8k16", and those of k8 with .tf32 and of k32 with 8 bits, which are
 * the same bytes, as ldmatrix returns them.
 */
#include "codegen/cuda/dot/cuda_dot.h"

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
	cu_clear_sums(f, t, "acc");
	if (promotes(m)) {
		cu_clear_sums(f, t, "part");
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

void
cu_loop_mma(struct cu_func *f, const struct cu_loop *l)
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

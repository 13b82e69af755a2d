/*
 * The loop over k of a contraction whose right operand is a weight of 4 bits,
 * in groups, or of 8 bits, by mma.sync in bf16 or f16.
 *
 * A stage is 128 of k, which are a group, of the left operand as it is and of
 * the right one as it lies in memory.  A warp widens the numbers that it
 * multiplies in registers, which is exact.  A group is summed up from zero, and
 * each sum times the group's scale is added in f32; scales of 8 bits are
 * applied after the contraction.
 *
 * The instruction's 16 rows are columns of the weight, and its 8 columns are
 * rows of the left operand: so few rows waste less, and both operands are in
 * registers as they are made.  Rows i and i + 8 of the instruction are columns
 * 2 i and 2 i + 1, which a thread so has sums of, side by side.
 *
 * Products may take k in any order, if both operands do.  So lane t of the four
 * that share a column takes the t-th quarter of 128: 16 bytes of a group, at
 * once, or twice 16 of 8 bits.  Eight numbers are for two products, and of the
 * left operand the lane needs the same eight, which are 16 bytes, too.
 *
 * No read has bank conflicts.  Eight lanes read 64 bytes of two lines of the
 * weight at once: of every other pair, the lines of a group take turns, as the
 * two halves of a lane's 32 bytes do.  Of the left operand, whose lines have 16
 * chunks, chunk 4 t + w lies at w * 4 + t, of which bit 2 differs between
 * adjacent lines.  Bit 1 differs between w of 0, 1 and 2, 3, so that eight
 * threads that copy adjacent chunks write to different banks.
 */
#include "codegen/cuda/dot/cuda_dot.h"

#define WORDS 4		/* of a lane's quarter of a group */

static bool
has_groups(const struct cu_loop *l)
{
	return l->tile->by == CU_BY_GROUPS;
}

/* The columns of a lane, and a chunk of the first of them: the other is in the
 * other half of 128 bytes, or 128 bytes further on. */
static void
declare_columns(struct cu_func *f, const struct cu_loop *l)
{
	cu_line(f, "const int pair = WARP / %lld * %lld + LANE / 4;",
		(long long)(l->tile->m / l->tile->wm),
		(long long)l->tile->wn / 2);
	cu_line(f, has_groups(l)
		? "const int even = pair * 128 + pair %% 2 * 64 + LANE %% 4 "
		  "* 16;"
		: "const int even = pair * 256 + pair %% 2 * 16 + LANE %% 4 "
		  "* 32;");
}

static void
declare(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_comment(f, "a warp widens %lld bytes of a stage",
		   (long long)(t->wn * (has_groups(l) ? t->k / 2 + 2 : t->k)));
	cu_line(f, "const int nk = (%s - %s + %lld) / %lld;", l->to, l->from,
		(long long)t->k - 1, (long long)t->k);
	cu_comment(f, "a row of the left operand, and where its chunks are");
	cu_line(f, "const int lane_row = (WARP %% %lld * %lld + LANE / 4) * "
		"256;", (long long)(t->m / t->wm), (long long)t->wm);
	cu_line(f, "const int turn = LANE %% 4 ^ LANE / 4 %% 2 * 4;");
	declare_columns(f, l);
	cu_line(f, "f32 acc[%lld][%lld][4];", (long long)t->wn / 16,
		(long long)t->wm / 8);
	cu_line(f, "int it, get = 0, put = %lld;", (long long)t->stages - 1);
	cu_line(f, "UNROLL");
	cu_line(f, "for (it = 0; it < %lld; it++) {",
		(long long)(t->wm * t->wn / 32));
	cu_line(f, "acc[it / %lld][it / 4 %% %lld][it %% 4] = 0;",
		(long long)t->wm / 2, (long long)t->wm / 8);
	cu_line(f, "}");
}

/* Sums of a group. */
static void
begin_group(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_line(f, "f32 part[%lld][%lld][4];", (long long)t->wn / 16,
		(long long)t->wm / 8);
	cu_line(f, "UNROLL");
	cu_line(f, "for (e = 0; e < %lld; e++) {",
		(long long)(t->wm * t->wn / 32));
	cu_line(f, "part[e / %lld][e / 4 %% %lld][e %% 4] = 0;",
		(long long)t->wm / 2, (long long)t->wm / 8);
	cu_line(f, "}");
}

/* Reads a chunk of both columns of a lane: all of its quarter or, of 8 bits,
 * half of it, w / 2. */
static void
read_columns(struct cu_func *f, const struct cu_loop *l)
{
	bool groups = has_groups(l);

	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {",
		(long long)l->tile->wn / 16);
	cu_line(f, "const u32x4 x = lds16(right + %s + i * %d);",
		groups ? "even" : "(even ^ w / 2 * 16)", groups ? 1024 : 2048);
	cu_line(f, "const u32x4 y = lds16(right + %s + i * %d);",
		groups ? "(even ^ 64)" : "(even ^ w / 2 * 16) + 128",
		groups ? 1024 : 2048);
	cu_line(f, "cols[i][0][0] = x.x, cols[i][0][1] = x.y;");
	cu_line(f, "cols[i][0][2] = x.z, cols[i][0][3] = x.w;");
	cu_line(f, "cols[i][1][0] = y.x, cols[i][1][1] = y.y;");
	cu_line(f, "cols[i][1][2] = y.z, cols[i][1][3] = y.w;");
	cu_line(f, "}");
}

/* Widens eight of k of each column, for two products: a word, or two of 8
 * bits. */
static void
widen(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;
	const char *to = l->unit == CU_DOT_BF16 ? "bf16" : "f16";
	const char *from = has_groups(l) ? "int4"
		: l->side[1].from == IR_INT8 ? "int8" : "e4m3";
	int q, c;

	cu_line(f, "u32 two[%lld][2][4];", (long long)t->wn / 16);
	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {", (long long)t->wn / 16);
	for (q = 0; q < 8; q++) {
		c = q % 2;
		if (has_groups(l)) {
			cu_line(f, "two[i][%d][%d] = int4_%s(cols[i][%d][w] "
				">> %d);", q / 4, q % 4, to, c, q / 2 * 4);
		} else {
			cu_line(f, "two[i][%d][%d] = %s_%s(cols[i][%d][w %% 2 "
				"* 2 + %d] >> %d);", q / 4, q % 4, from, to, c,
				q / 4, q / 2 % 2 * 16);
		}
	}
	cu_line(f, "}");
}

/* Of each row what it is multiplied with: 16 bytes. */
static void
multiply(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;
	const char *type = l->unit == CU_DOT_BF16 ? "bf16" : "f16";
	const char *sums = has_groups(l) ? "part" : "acc";

	cu_line(f, "u32 cols[%lld][2][4];", (long long)t->wn / 16);
	cu_line(f, "UNROLL");
	cu_line(f, "for (w = 0; w < %d; w++) {", WORDS);
	cu_line(f, "if (w %% %d == 0) {", has_groups(l) ? WORDS : WORDS / 2);
	read_columns(f, l);
	cu_line(f, "}");
	widen(f, l);
	cu_line(f, "UNROLL");
	cu_line(f, "for (j = 0; j < %lld; j++) {", (long long)t->wm / 8);
	cu_line(f, "const u32x4 x = lds16(left + lane_row + j * 2048 +");
	cu_line(f, "\t((w * 4 ^ w / 2 * 2) ^ turn) * 16);");
	cu_line(f, "const u32 row[4] = { x.x, x.y, x.z, x.w };");
	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {", (long long)t->wn / 16);
	cu_line(f, "mma_%s(%s[i][j], two[i][0], row);", type, sums);
	cu_line(f, "mma_%s(%s[i][j], two[i][1], row + 2);", type, sums);
	cu_close(f, 3);
}

static void
add_scaled(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_line(f, "const int odd = (%s / %lld + it) %% 2;", l->from,
		(long long)t->k);
	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {", (long long)t->wn / 16);
	cu_line(f, "const u32x2 x = lds8(right + %lld + pair * 8 + i * 64);",
		(long long)(t->n * t->k / 2));
	cu_line(f, "const f32 scale[2] = { int4_scale(x.x, odd), "
		"int4_scale(x.y, odd) };");
	cu_line(f, "UNROLL");
	cu_line(f, "for (j = 0; j < %lld; j++) {", (long long)t->wm / 8);
	cu_line(f, "UNROLL");
	cu_line(f, "for (e = 0; e < 4; e++) {");
	cu_line(f, "acc[i][j][e] = fma_f32(part[i][j][e], scale[e / 2], "
		"acc[i][j][e]);");
	cu_close(f, 3);
}

void
cu_widen_loop(struct cu_func *f, const struct cu_loop *l)
{
	long long a = (long long)cu_side_bytes(&l->side[0]);
	long long all = a + (long long)cu_side_bytes(&l->side[1]);

	declare(f, l);
	cu_loop_ahead(f, l);
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (it = 0; it < nk; it++) {");
	cu_line(f, "const char *const left = (const char *)SMEM + get * %lld;",
		all);
	cu_line(f, "const char *const right = left + %lld;", a);
	cu_line(f, "int i, j, w%s;", has_groups(l) ? ", e" : "");
	cu_line(f, "cp_async_wait(%lld);", (long long)l->tile->stages - 2);
	cu_line(f, "sync_block();");
	cu_loop_next(f, l);
	if (has_groups(l)) {
		begin_group(f, l);
	}
	multiply(f, l);
	if (has_groups(l)) {
		add_scaled(f, l);
	}
	cu_line(f, "get = get == %lld ? 0 : get + 1;",
		(long long)l->tile->stages - 1);
	cu_line(f, "}");
}

void
cu_widen_row(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_line(f, "const int row = WARP %% %lld * %lld + j * 8 + "
		"LANE %% 4 * 2 + e;", (long long)(t->m / t->wm),
		(long long)t->wm);
}

void
cu_widen_pairs(struct cu_func *f, const struct cu_loop *l)
{
	const struct cu_tile *t = l->tile;

	cu_line(f, "UNROLL");
	cu_line(f, "for (i = 0; i < %lld; i++) {", (long long)t->wn / 16);
	cu_line(f, "UNROLL");
	cu_line(f, "for (j = 0; j < %lld; j++) {", (long long)t->wm / 8);
	cu_line(f, "UNROLL");
	cu_line(f, "for (e = 0; e < 2; e++) {");
	cu_widen_row(f, l);
	cu_line(f, "const int col = WARP / %lld * %lld + i * 16 + "
		"LANE / 4 * 2;", (long long)(t->m / t->wm),
		(long long)t->wn);
	cu_line(f, "const f32 x = acc[i][j][e], y = acc[i][j][2 + e];");
}

/*
 * Of 16 columns: 11 for each of two words of a group, of which there are four,
 * and 8 more for their reads and scales, or 11 of a word of 8 bits, of which
 * there are twice as many; 4 for the sums of 8 rows, whose products take as
 * many slots as there are; of 8 rows a read for each word; and what copies and
 * the loop take.  NVRTC 13.0 for sm_90a: 205 where this is 202, 314 where it
 * is 310.
 */
double
cu_widen_slots(const struct cu_tile *t)
{
	double cols = (double)t->wn / 16, rows = (double)t->wm / 8;
	bool groups = t->by == CU_BY_GROUPS;

	return cols * (WORDS * (groups ? 2 : 4) * 11 + 8) +
	       cols * rows * (2 * WORDS + (groups ? 4 : 0)) + rows * WORDS +
	       90;
}

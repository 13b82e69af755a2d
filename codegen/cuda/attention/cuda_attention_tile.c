/*
 * Matrices in shared memory, and products of them by mma or in f32.  Rows are
 * padded to an odd number of 16 bytes, so that the eight rows that ldmatrix
 * reads at once are in different banks, for any width and with constant
 * strides.
 */
#include "codegen/cuda/attention/cuda_attention.h"

static bool
is_exact(const struct attn *t)
{
	return t->tile == IR_F32;
}

struct ca_tile
ca_place_tile(const struct attn *t, int64_t *smem, int64_t rows, int64_t cols)
{
	struct ca_tile x = { .at = attn_round_up(*smem, 16), .rows = rows,
			     .cols = attn_round_up(cols, 16) };

	x.pitch = x.cols * cu_elem_bytes(t->tile) + 16;
	*smem = x.at + x.rows * x.pitch;
	return x;
}

static int64_t
pass_pitch(int64_t cols)
{
	return cols + 4;
}

int64_t
ca_pass_bytes(const struct attn *t, const struct ca_form *form)
{
	return is_exact(t) ? 4 * form->warps * form->mt * 16 *
			     pass_pitch(form->cols) : 0;
}

/* ---- text ---- */

void
ca_unrolled_for(struct cu_func *f, const char *var, int64_t n)
{
	cu_line(f, "#pragma unroll");
	cu_line(f, "for (int %s = 0; %s < %lld; %s++) {", var, var,
		(long long)n, var);
}

void
ca_declare_lanes(struct cu_func *f, const struct ca_form *form)
{
	cu_comment(f, "rows g and g + 8 of each tile are this thread's");
	cu_line(f, "const int g = LANE / 4;");
	cu_line(f, "const int wrow = WARP * %lld;",
		(long long)(16 * form->mt));
}

void
ca_declare_zeros(struct cu_func *f, const struct ca_form *form,
		 const char *name, int64_t n)
{
	cu_line(f, "f32 %s[%lld][%lld][4];", name, (long long)form->mt,
		(long long)(n / 8));
	ca_unrolled_for(f, "i", form->mt);
	ca_unrolled_for(f, "j", n / 8);
	cu_line(f, "%s[i][j][0] = %s[i][j][1] = 0;", name, name);
	cu_line(f, "%s[i][j][2] = %s[i][j][3] = 0;", name, name);
	cu_close(f, 2);
}

/* ---- loads ---- */

#define BYTES 8			/* elements of 8 bits of one load */

static bool
is_multiple(const struct attn *t, const struct attn_view *v, int64_t n)
{
	uint32_t i;

	if (v->pos % n || v->head % n || v->memory.offset % n ||
	    v->shared % 16) {
		return false;
	}
	for (i = 0; i < t->nbatch; i++) {
		if (v->batch[i] % n) {
			return false;
		}
	}
	for (i = 0; i < v->memory.nmoved; i++) {
		if (v->memory.moved[i].stride % n) {
			return false;
		}
	}
	return true;
}

/* Elements of an asynchronous copy of 16 bytes; 0: elements are converted. */
static int64_t
at_once(const struct attn *t, const struct ca_load *l)
{
	int64_t n = 16 / cu_elem_bytes(t->tile);

	return l->from->dtype == t->tile && l->from->col == 1 &&
	       l->cols % n == 0 && is_multiple(t, l->from, n) ? n : 0;
}

/* Elements of 8 bits that a thread loads together; 0: one. */
static int64_t
bytes_at_once(const struct attn *t, const struct ca_load *l)
{
	return cu_elem_bytes(l->from->dtype) == 1 && l->from->col == 1 &&
	       l->cols % BYTES == 0 && is_multiple(t, l->from, BYTES) ? BYTES
									: 0;
}

/* C text: where a row begins, in elements from the first one. */
static const char *
row_offset(struct cu_func *f, const struct ca_load *l)
{
	struct arena *a = f->k->c->a;
	const char *number = "row";

	if (l->index) {
		number = arena_printf(a, "%s[(i64)row * %lld]", l->index,
				      (long long)l->from->index_pos);
	}
	return arena_printf(a, "(i64)%s * %lld", number,
			    (long long)l->from->pos);
}

/* C text: whether a row exists. */
static const char *
row_exists(struct cu_func *f, const struct ca_load *l)
{
	struct arena *a = f->k->c->a;

	return l->low ? arena_printf(a, "row >= %s && row < %s", l->low,
				     l->live)
		: arena_printf(a, "row < %s", l->live);
}

/* C text: whether a row and column `col`, before `l->col` is added, exist. */
static const char *
exists(struct cu_func *f, const struct ca_load *l)
{
	struct arena *a = f->k->c->a;
	const char *row = row_exists(f, l);

	if (l->col) {
		return arena_printf(a, "%s && %s + col < %lld", row, l->col,
				    (long long)l->cols);
	}
	return l->to->cols > l->cols
		? arena_printf(a, "%s && col < %lld", row, (long long)l->cols)
		: row;
}

static void
copy_at_once(struct cu_func *f, const struct attn *t, const struct ca_load *l)
{
	cu_line(f, "const int is = %s;", exists(f, l));
	cu_line(f, "cp_async16(sm + %lld%s%s + row * %lld + col * %lld, %s + "
		"(is ? %s%s%s + col : 0), is ? 16 : 0);",
		(long long)l->to->at, l->stage ? " + " : "",
		l->stage ? l->stage : "", (long long)l->to->pitch,
		(long long)cu_elem_bytes(t->tile), l->base, row_offset(f, l),
		l->col ? " + " : "", l->col ? l->col : "");
}

/* Loads bytes and stores them in the type of the tile. */
static void
widen_at_once(struct cu_func *f, const struct attn *t, const struct ca_load *l)
{
	const char *type = cu_elem_type(t->tile);
	bool is_f32 = t->tile == IR_F32;

	cu_line(f, "f32 x[%d] = { 0 };", BYTES);
	cu_line(f, "if (%s) {", exists(f, l));
	cu_line(f, "get_%s_%d(x, %s + %s%s%s + col);",
		cu_elem_type(l->from->dtype), BYTES, l->base,
		row_offset(f, l), l->col ? " + " : "", l->col ? l->col : "");
	cu_line(f, "}");
	cu_line(f, "char *to = (char *)SMEM + %lld%s%s + row * %lld + col * "
		"%lld;",
		(long long)l->to->at, l->stage ? " + " : "",
		l->stage ? l->stage : "", (long long)l->to->pitch,
		(long long)cu_elem_bytes(t->tile));
	cu_line(f, "put_%s_%d(to, x);", type, is_f32 ? 4 : BYTES);
	if (is_f32) {
		cu_line(f, "put_f32_4(to + 16, x + 4);");
	}
}

/* If all copies of a thread have the same column, addresses differ by
 * constants; otherwise they would stay in registers from tile to tile. */
static void
load_at_once(struct cu_func *f, const struct attn *t, const struct ca_load *l,
	     int64_t n, bool widens)
{
	int64_t parts = l->to->cols / n, step = l->threads / parts;

	if (l->threads % parts == 0 && l->to->rows % step == 0) {
		if (widens) {	/* unrolled whole it spills registers */
			cu_line(f, "#pragma unroll 2");
			cu_line(f, "for (int i = 0; i < %lld; i++) {",
				(long long)(l->to->rows / step));
		} else {
			ca_unrolled_for(f, "i", l->to->rows / step);
		}
		cu_line(f, "const int row = TID / %lld + i * %lld;",
			(long long)parts, (long long)step);
		cu_line(f, "const int col = TID %% %lld * %lld;",
			(long long)parts, (long long)n);
	} else {
		cu_line(f, "for (int i = TID; i < %lld; i += %lld) {",
			(long long)(l->to->rows * parts),
			(long long)l->threads);
		cu_line(f, "const int row = i / %lld;", (long long)parts);
		cu_line(f, "const int col = i %% %lld * %lld;",
			(long long)parts, (long long)n);
	}
	(widens ? widen_at_once : copy_at_once)(f, t, l);
	cu_line(f, "}");
}

static void
load_one(struct cu_func *f, const struct attn *t, const struct ca_load *l)
{
	struct arena *a = f->k->c->a;
	const char *type = cu_elem_type(t->tile), *x;

	cu_line(f, "int row = i / %lld, col = i %% %lld;",
		(long long)l->to->cols, (long long)l->to->cols);
	cu_line(f, "%s *to = (%s *)(SMEM + %lld%s%s + row * %lld) + col;",
		type, type, (long long)l->to->at, l->stage ? " + " : "",
		l->stage ? l->stage : "", (long long)l->to->pitch);
	if (l->col) {
		cu_line(f, "col += %s;", l->col);
	}
	x = arena_printf(a, "%s[%s + (i64)col * %lld]", l->base,
			 row_offset(f, l), (long long)l->from->col);
	if (l->from->dtype != t->tile) {
		x = arena_printf(a, "(f32)(%s)",
				 cu_widen(a, l->from->dtype, x));
		x = cu_narrow(a, t->tile, x);
	}
	cu_line(f, "*to = %s && col < %lld ? %s : 0;", row_exists(f, l),
		(long long)l->cols, x);
}

void
ca_load_tile(struct cu_func *f, const struct attn *t, const struct ca_load *l)
{
	int64_t n = at_once(t, l), bytes = bytes_at_once(t, l);

	if (n || bytes) {
		load_at_once(f, t, l, n ? n : bytes, !n);
		return;
	}
	cu_line(f, "for (int i = TID; i < %lld; i += %lld) {",
		(long long)(l->to->rows * l->to->cols),
		(long long)l->threads);
	load_one(f, t, l);
	cu_line(f, "}");
}

/* ---- products of 16 bits ---- */

static const char *
more(const struct ca_product *p)
{
	return p->b_more ? p->b_more : "0";
}

/* Products of two tiles of b, y, with all tiles of a, x. */
static void
multiply(struct cu_func *f, const struct attn *t, const struct ca_form *form,
	 const struct ca_product *p)
{
	const char *mma = t->tile == IR_BF16 ? "mma_bf16" : "mma_f16";

	ca_unrolled_for(f, "i", form->mt);
	cu_line(f, "%s(%s[i][2 * j], x[i], y);", mma, p->sum);
	cu_line(f, "%s(%s[i][2 * j + 1], x[i], y + 2);", mma, p->sum);
	cu_line(f, "}");
}

static void
product_16(struct cu_func *f, const struct attn *t, const struct ca_form *form,
	   const struct ca_product *p)
{
	cu_line(f, "const u32 xa = sm + %lld + (wrow + LANE %% 16) * %lld + "
		"LANE / 16 * 16;", (long long)p->a, (long long)p->a_pitch);
	cu_line(f, "const u32 ya = sm + %lld + %s + (LANE %% 8 + LANE / 16 * "
		"8) * %lld + LANE / 8 %% 2 * 16;", (long long)p->b, more(p),
		(long long)p->b_pitch);
	/* unrolled 8 times, 128 columns need more registers than there are */
	cu_line(f, "#pragma unroll 4");
	cu_line(f, "for (int k = 0; k < %lld; k++) {",
		(long long)(p->k / 16));
	cu_line(f, "u32 x[%lld][4];", (long long)form->mt);
	ca_unrolled_for(f, "i", form->mt);
	cu_line(f, "ldsm4(x[i], xa + i * %lld + k * 32);",
		(long long)(16 * p->a_pitch));
	cu_line(f, "}");
	ca_unrolled_for(f, "j", p->n / 16);
	cu_line(f, "u32 y[4];");
	cu_line(f, "ldsm4(y, ya + j * %lld + k * 32);",
		(long long)(16 * p->b_pitch));
	multiply(f, t, form, p);
	cu_close(f, 2);
}

/* A thread has the same elements of sums as of a left operand. */
static void
product_on_16(struct cu_func *f, const struct attn *t,
	      const struct ca_form *form, const struct ca_product *p)
{
	const char *pack = t->tile == IR_BF16 ? "pack_bf16" : "pack_f16";
	int q;

	cu_line(f, "const u32 ya = sm + %lld + %s + LANE %% 16 * %lld + "
		"LANE / 16 * 16;", (long long)p->b, more(p),
		(long long)p->b_pitch);
	ca_unrolled_for(f, "k", p->k / 16);
	cu_line(f, "u32 x[%lld][4];", (long long)form->mt);
	ca_unrolled_for(f, "i", form->mt);
	for (q = 0; q < 4; q++) {
		cu_line(f, "x[i][%d] = %s(%s[i][2 * k + %d][%d], "
			"%s[i][2 * k + %d][%d]);", q, pack, p->w, q / 2,
			q % 2 * 2, p->w, q / 2, q % 2 * 2 + 1);
	}
	cu_line(f, "}");
	ca_unrolled_for(f, "j", p->n / 16);
	cu_line(f, "u32 y[4];");
	cu_line(f, "ldsm4_t(y, ya + k * %lld + j * 32);",
		(long long)(16 * p->b_pitch));
	multiply(f, t, form, p);
	cu_close(f, 2);
}

/* ---- products of f32, one by one ---- */

/* Products of numbers x of rows and y of columns. */
static void
multiply_exact(struct cu_func *f, const struct ca_form *form,
	       const struct ca_product *p, const char *row0, const char *y0,
	       const char *y1)
{
	cu_line(f, "f32 x[%lld];", (long long)(2 * form->mt));
	ca_unrolled_for(f, "i", 2 * form->mt);
	cu_line(f, "x[i] = %s;", row0);
	cu_line(f, "}");
	ca_unrolled_for(f, "j", p->n / 8);
	cu_line(f, "f32 y0 = %s, y1 = %s;", y0, y1);
	ca_unrolled_for(f, "i", form->mt);
	cu_line(f, "f32 *z = %s[i][j];", p->sum);
	cu_line(f, "z[0] = fma_f32(x[2 * i], y0, z[0]);");
	cu_line(f, "z[1] = fma_f32(x[2 * i], y1, z[1]);");
	cu_line(f, "z[2] = fma_f32(x[2 * i + 1], y0, z[2]);");
	cu_line(f, "z[3] = fma_f32(x[2 * i + 1], y1, z[3]);");
	cu_close(f, 2);
}

static void
product_exact(struct cu_func *f, const struct ca_form *form,
	      const struct ca_product *p)
{
	struct arena *a = f->k->c->a;
	long long ap = p->a_pitch / 4, bp = p->b_pitch / 4;

	cu_line(f, "%s", CA_COLUMNS);
	cu_line(f, "const f32 *xa = (const f32 *)(SMEM + %lld) + (wrow + g) "
		"* %lld;", (long long)p->a, ap);
	cu_line(f, "const f32 *ya = (const f32 *)(SMEM + %lld + %s) + c * "
		"%lld;", (long long)p->b, more(p), bp);
	cu_line(f, "#pragma unroll 4");
	cu_line(f, "for (int k = 0; k < %lld; k++) {", (long long)p->k);
	multiply_exact(f, form, p,
		       arena_printf(a, "xa[i * %lld + k]", 8 * ap),
		       arena_printf(a, "ya[j * %lld + k]", 8 * bp),
		       arena_printf(a, "ya[j * %lld + %lld + k]", 8 * bp,
				    bp));
	cu_line(f, "}");
}

static void
product_on_exact(struct cu_func *f, const struct ca_form *form,
		 const struct ca_product *p)
{
	struct arena *a = f->k->c->a;
	long long ap = pass_pitch(form->cols), bp = p->b_pitch / 4;

	cu_line(f, "%s", CA_COLUMNS);
	cu_line(f, "f32 *pass = (f32 *)(SMEM + %lld) + (wrow + g) * %lld;",
		(long long)p->pass, ap);
	ca_unrolled_for(f, "i", 2 * form->mt);
	ca_unrolled_for(f, "j", p->k / 8);
	cu_line(f, "pass[i * %lld + j * 8 + c] = %s[i / 2][j][i %% 2 * 2];",
		8 * ap, p->w);
	cu_line(f, "pass[i * %lld + j * 8 + c + 1] = "
		"%s[i / 2][j][i %% 2 * 2 + 1];", 8 * ap, p->w);
	cu_close(f, 2);
	cu_line(f, "sync_warp();");
	cu_line(f, "const f32 *ya = (const f32 *)(SMEM + %lld + %s) + c;",
		(long long)p->b, more(p));
	cu_line(f, "#pragma unroll 4");
	cu_line(f, "for (int k = 0; k < %lld; k++) {", (long long)p->k);
	multiply_exact(f, form, p,
		       arena_printf(a, "pass[i * %lld + k]", 8 * ap),
		       arena_printf(a, "ya[k * %lld + j * 8]", bp),
		       arena_printf(a, "ya[k * %lld + j * 8 + 1]", bp));
	cu_line(f, "}");
	if (!p->is_last) {
		cu_line(f, "sync_warp();");
	}
}

/* ---- either ---- */

void
ca_multiply(struct cu_func *f, const struct attn *t, const struct ca_form *form,
	    const struct ca_product *p)
{
	cu_line(f, "{");
	if (is_exact(t)) {
		product_exact(f, form, p);
	} else {
		product_16(f, t, form, p);
	}
	cu_line(f, "}");
}

void
ca_multiply_on(struct cu_func *f, const struct attn *t,
	       const struct ca_form *form, const struct ca_product *p)
{
	cu_line(f, "{");
	if (is_exact(t)) {
		product_on_exact(f, form, p);
	} else {
		product_on_16(f, t, form, p);
	}
	cu_line(f, "}");
}

void
ca_stage_sums(struct cu_func *f, const struct ca_form *form, const char *sum,
	      const char *by, bool by_row, int64_t n, int64_t at)
{
	int64_t pitch = ca_stage_pitch(n);
	int h;

	cu_line(f, "{");
	cu_line(f, "%s", CA_COLUMNS);
	cu_line(f, "f32 *to = (f32 *)(SMEM + %lld) + (wrow + g) * %lld + c;",
		(long long)at, (long long)pitch);
	ca_unrolled_for(f, "i", form->mt);
	ca_unrolled_for(f, "j", n / 8);
	for (h = 0; h < 2; h++) {
		const char *times = by_row
			? arena_printf(f->k->c->a, "%s[i][%d]", by, h) : by;

		cu_line(f, "to[(i * 16 + %d) * %lld + j * 8] = "
			"%s[i][j][%d] * %s;", 8 * h, (long long)pitch, sum,
			2 * h, times);
		cu_line(f, "to[(i * 16 + %d) * %lld + j * 8 + 1] = "
			"%s[i][j][%d] * %s;", 8 * h, (long long)pitch, sum,
			2 * h + 1, times);
	}
	cu_close(f, 3);
}

/* ---- numbers ---- */

const char *
ca_f32(struct cu_func *f, double x)
{
	return arena_printf(f->k->c->a, "%.9ef", x);
}

const char *
ca_exp2(const struct attn *t)
{
	return is_exact(t) ? "f_exp2" : "f_fast_exp2";
}

void
ca_empty_step(struct attn *t)
{
	struct cu_func f;

	cu_func_begin(t->k, "attention_none", &f);
	cu_func_end(&f);
}

/*
 * Tiles of operands: from global to shared memory.
 *
 * What is contiguous and aligned, as matrices mostly are, is copied
 * asynchronously (cp.async) in chunks of 16 bytes, or of 8 or 4, with zeros
 * where the operand ends.  Everything else is read element by element and
 * converted on the way.
 */
#include "codegen/cuda/dot/cuda_dot.h"

static const struct {
	int64_t bytes;
	const char *type;
	enum ir_dtype dtype;
} units[CU_DOT_NUNITS] = {
	[CU_DOT_FMA] = { 4, "f32", IR_F32 },
	[CU_DOT_TF32] = { 4, "f32", IR_TF32 },
	[CU_DOT_BF16] = { 2, "bf16", IR_BF16 },
	[CU_DOT_F16] = { 2, "f16", IR_F16 },
	[CU_DOT_E4M3] = { 1, "e4m3", IR_F8E4M3 },
	[CU_DOT_E5M2] = { 1, "e5m2", IR_F8E5M2 }
};

int64_t
cu_unit_bytes(enum cu_dot_unit u)
{
	return units[u].bytes;
}

bool
cu_unit_is(enum cu_dot_unit u, enum ir_dtype t)
{
	return units[u].dtype == t || (units[u].bytes == 4 &&
				       (t == IR_F32 || t == IR_TF32));
}

/* ---- how ---- */

/* Elements of a line in shared memory, and number of lines. */
static int64_t
line_of(const struct cu_side *s)
{
	return s->along_k ? s->k : s->rows + s->pad;
}

static int64_t
lines_of(const struct cu_side *s)
{
	return s->along_k ? s->rows : s->k;
}

int64_t
cu_side_bytes(const struct cu_side *s)
{
	if (s->is_widened && s->row) {
		return s->rows * (s->k / 2 + 4);
	}
	return lines_of(s) * line_of(s) * s->bytes;
}

/* Elements along `dense` that one copy may have. */
static int64_t
width_of(const struct cu_dot *d, int which, const struct cg_factor *dense,
	 const struct cg_factor *other, int64_t most)
{
	most = cu_factor_width(dense, which, most);
	most = cu_factor_apart(other, which, most);
	most = cu_factor_apart(&d->batch, which, most);
	return cu_view_width(d->k, &d->view[which], most);
}

/* The largest power of two that all first positions of blocks are multiples
 * of. */
static int64_t
begins_at(const struct cg_split *s, const struct cg_dims *d, int64_t most)
{
	while (most > 1 && ((s->chunks > 1 && s->step * s->inner % most) ||
			    (s->cut > 0 && d->size[s->cut] * s->inner %
					   most))) {
		most /= 2;
	}
	return most;
}

static bool
dense_rows(const struct cu_dot *d, int which)
{
	return !d->row_at[which] &&
	       cu_factor_dense(which ? &d->n : &d->m, which);
}

static bool
dense_k(const struct cu_dot *d, int which)
{
	return !d->k_at[which] && cu_factor_dense(&d->over, which);
}

/* Those of 8 bits are copied as they are, which needs them along k. */
bool
cu_dot_widens(const struct cu_dot *d, enum cu_tile_by *by)
{
	bool half = d->unit == CU_DOT_BF16 || d->unit == CU_DOT_F16;
	enum ir_dtype t = d->view[1].dtype;

	*by = d->row ? CU_BY_GROUPS : CU_BY_BYTES;
	return half && (d->row || ((t == IR_INT8 || t == IR_F8E4M3) &&
		cu_unit_is(d->unit, d->view[0].dtype) && dense_k(d, 1) &&
		width_of(d, 1, &d->over, &d->n, 16) >= 4));
}

/* Elements of an asynchronous copy of 16, 8 or 4 bytes; 0: converted one by
 * one. */
static int64_t
choose_width(const struct cu_dot *d, int which, struct cu_side *s)
{
	const struct cg_factor *rows = which ? &d->n : &d->m;
	int64_t bytes = s->bytes, width = 16 / bytes;

	if (bytes == units[s->unit].bytes && !cu_unit_is(s->unit, s->from)) {
		return 0;
	}
	if (s->unit == CU_DOT_FMA && !dense_rows(d, which)) {
		return 1;
	}
	if (s->along_k ? !dense_k(d, which) : !dense_rows(d, which)) {
		return bytes == 4 ? 1 : 0;
	}
	width = s->along_k ? width_of(d, which, &d->over, rows, width)
		: begins_at(which ? &d->cols : &d->rows,
			    &d->dims[which ? 2 : 1],
			    width_of(d, which, rows, &d->over, width));
	return width * bytes >= 4 ? width : 0;
}

/* Bytes of a copy of a row in groups, which all rows begin at multiples of. */
static int64_t
width_of_row(const struct cu_side *s)
{
	int64_t groups = s->row / IR_GROUP;

	return !s->is_widened || groups % 2 ? 0
		: groups % 8 == 0 ? 16 : groups % 4 == 0 ? 8 : 4;
}

void
cu_side_of(const struct cu_dot *d, int which, struct cu_side *s)
{
	const struct cg_factor *rows = which ? &d->n : &d->m;
	const struct cg_split *split = which ? &d->cols : &d->rows;
	struct arena *a = d->k->c->a;

	*s = (struct cu_side){ .from = d->view[which].dtype, .unit = d->unit,
			       .rows = which ? d->tile.n : d->tile.m,
			       .k = d->tile.k, .threads = d->tile.threads };
	s->pad = d->unit == CU_DOT_FMA ? 4 : 0;
	s->row = which ? d->row : 0;
	s->is_widened = cu_tile_widens(&d->tile);
	s->bytes = which && d->tile.by == CU_BY_BYTES ? 1
						     : units[d->unit].bytes;
	s->described = cu_tile_async(&d->tile);
	/* ldmatrix transposes elements of 2 bytes only */
	s->along_k = s->is_widened || (d->unit != CU_DOT_FMA &&
		     (units[d->unit].bytes == 1 || !dense_rows(d, which)));
	s->width = s->row ? width_of_row(s) : choose_width(d, which, s);
	s->rows_end = d->row_at[which] || split->most < s->rows ||
		      split->step * split->chunks !=
		      d->dims[which ? 2 : 1].size[split->cut];
	s->k_end = d->k_at[which] || d->over.size % s->k != 0;
	s->row_at = d->row_at[which] ? d->row_at[which]
				     : cu_factor_at(a, rows, which, "r");
	s->k_at = d->k_at[which] ? d->k_at[which]
				 : cu_factor_at(a, &d->over, which, "q");
	s->table = d->table[which];
}

/* ---- C text ---- */

struct side_text {
	struct cu_kernel *k;
	const struct cu_side *s;
	struct buf *out;
	int64_t bytes, chunk;	/* bytes of an element; elements of a chunk */
};

/* C text: what a chunk's place in its line is XORed with. */
static const char *
swizzle(const struct side_text *t)
{
	int64_t places = line_of(t->s) / t->chunk;

	if (t->s->unit == CU_DOT_FMA) {
		return "0";
	}
	if (t->s->unit == CU_DOT_TF32 && !t->s->along_k) {
		return "line % 4 * 2";	/* read one by one, not by ldmatrix */
	}
	return places >= 8 ? "line % 8"
		: places == 4 ? "line / 2 % 4" : "line / 4 % 2";
}

/* C text: where a chunk of a line of 128 elements is, as warps read it that
 * widen the right operand. */
static const char *
widened_place(const struct side_text *t)
{
	return t->bytes == 1 ? "place ^ line / 2 % 2"
		: "place % 4 * 4 ^ place / 4 ^ place / 2 % 2 * 2 ^ "
		  "line % 2 * 4";
}

/* C text: how many of `most` bytes exist; the copy fills the rest with
 * zeros. */
static const char *
bytes_there(const struct side_text *t, const char *left, int64_t most)
{
	struct arena *a = t->k->c->a;

	if (t->bytes == most) {
		return arena_printf(a, "(%s) > 0 ? %lld : 0", left,
				    (long long)most);
	}
	return arena_printf(a, "(%s) >= %lld ? %lld : (%s) > 0 ? (%s) * %lld "
			    ": 0", left, (long long)(most / t->bytes),
			    (long long)most, left, left, (long long)t->bytes);
}

/* C text: bytes of a copy at (r, q) that are inside of the operand. */
static const char *
copied_bytes(const struct side_text *t, int64_t most)
{
	struct arena *a = t->k->c->a;
	const char *n;

	if (t->s->along_k) {
		return t->s->k_end ? bytes_there(t, "end - q", most)
			: arena_printf(a, "%lld", (long long)most);
	}
	n = t->s->rows_end ? bytes_there(t, "first + live - r", most)
		: arena_printf(a, "%lld", (long long)most);
	return t->s->k_end ? arena_printf(a, "q >= end ? 0 : %s", n) : n;
}

static void
put_copies(const struct side_text *t)
{
	int64_t width = t->s->width, bytes = width * t->bytes, v;

	for (v = 0; v < t->chunk; v += width) {
		const char *n = copied_bytes(t, bytes);

		if (v > 0) {
			buf_printf(t->out, "\t\t%s += %lld;\n",
				   t->s->along_k ? "q" : "r",
				   (long long)width);
		}
		buf_printf(t->out, "\t\tcp_async%lld(smem_addr(SMEM) + (u32)"
			   "(at + %lld), from + %s + %s,\n\t\t\t%s);\n",
			   (long long)bytes, (long long)(v * t->bytes),
			   t->s->row_at, t->s->k_at, n);
	}
}

/* Copies and converts elements one by one. */
static void
put_numbers(const struct side_text *t)
{
	struct arena *a = t->k->c->a;
	const struct cu_side *s = t->s;
	const char *x = arena_printf(a, "from[%s + %s]", s->row_at, s->k_at);
	const char *type = units[s->unit].type;

	if (s->row) {
		x = arena_printf(a, "int4_f32(from + %s, q, %lld)", s->row_at,
				 (long long)s->row);
	} else if (!cu_unit_is(s->unit, s->from)) {
		x = cu_widen(a, s->from, x);
		x = cu_narrow(a, units[s->unit].dtype, x);
	}
	buf_printf(t->out, "\t\tROLLED\n\t\tfor (e = 0; e < %lld; e++) {\n",
		   (long long)t->chunk);
	buf_printf(t->out, "\t\t\t((%s *)(SMEM + at))[e] = ", type);
	if (s->k_end) {
		buf_puts(t->out, "q >= end ? 0 : ");
	}
	if (s->rows_end && !s->along_k) {
		buf_puts(t->out, "r >= first + live ? 0 : ");
	}
	buf_printf(t->out, "%s;\n\t\t\t%s++;\n\t\t}\n", x,
		   s->along_k ? "q" : "r");
}

static void
put_head(const struct side_text *t, const char *name)
{
	const struct cu_side *s = t->s;

	buf_printf(t->out, "\n/* %lld rows by %lld of k, %s, %s */\nFN void\n"
		   "%s(int to, const %s *from, int first, int live, int k, "
		   "int end%s%s)\n{\n\tint j;\n\n",
		   (long long)s->rows, (long long)s->k,
		   s->along_k ? "along k" : "along rows",
		   s->width ? arena_printf(t->k->c->a, "%lld bytes at once",
					   (long long)cu_side_copied(s))
			    : "one by one",
		   name, cu_elem_type(s->from), s->table ? ", " : "",
		   s->table ? s->table : "");
	if (!s->k_end || (s->is_widened && s->row)) {
		buf_puts(t->out, "\t(void)end;\n");
	}
	if (!s->rows_end) {
		buf_puts(t->out, "\t(void)live;\n");
	}
}

/* Opens the loop over a thread's chunks. */
static void
put_loop(const struct side_text *t, int64_t lines, int64_t places)
{
	int64_t all = lines * places, threads = t->s->threads;

	/* slow copies are not unrolled, to save registers */
	buf_printf(t->out, "\t%s\n\tfor (j = 0; j < %lld; j++) {\n"
		   "\t\tconst int c = TID + j * %lld;\n",
		   t->s->width * t->bytes == 16 || t->s->unit == CU_DOT_FMA
			? "UNROLL" : "ROLLED",
		   (long long)((all + threads - 1) / threads),
		   (long long)threads);
	if (all % threads != 0) {
		buf_printf(t->out, "\t\tif (c >= %lld) {\n\t\t\tbreak;\n"
			   "\t\t}\n", (long long)all);
	}
}

static void
put_chunks(const struct side_text *t)
{
	const struct cu_side *s = t->s;
	int64_t places = (s->along_k ? s->k : s->rows) / t->chunk;

	put_loop(t, lines_of(s), places);
	buf_printf(t->out, "\t\tconst int line = c / %lld, place = c %% %lld;"
		   "\n", (long long)places, (long long)places);
	buf_printf(t->out, "\t\tconst int at = to + line * %lld + (%s) * 16;"
		   "\n", (long long)(line_of(s) * t->bytes),
		   s->is_widened ? widened_place(t)
		   : arena_printf(t->k->c->a, "place ^ (%s)", swizzle(t)));
	if (s->along_k) {
		buf_printf(t->out, "\t\tconst int r = first + %s;\n"
			   "\t\tint q = k + place * %lld;\n",
			   s->rows_end ? "(line < live ? line : live - 1)"
				       : "line", (long long)t->chunk);
	} else {
		buf_printf(t->out, "\t\tint r = first + place * %lld;\n"
			   "\t\tconst int q = k + line;\n",
			   (long long)t->chunk);
	}
	if (s->width == 0) {
		buf_puts(t->out, "\t\tint e;\n");
	}
	buf_puts(t->out, "\n");
	if (s->width) {
		put_copies(t);
	} else {
		put_numbers(t);
	}
	buf_puts(t->out, "\t}\n}\n");
}

/*
 * The layout of wgmma and tcgen05 for lines that are positions of k: blocks of
 * 64 rows, of each of which a line has 128 bytes.  Four threads copy a line,
 * whose offset may come from a list, so that they find it once; eight threads
 * that write at the same time have lines whose chunks are in different banks.
 */
static void
put_lines(const struct side_text *t)
{
	struct cu_side s = *t->s;
	struct side_text line = *t;

	line.s = &s;
	buf_printf(t->out, "\tconst int u = TID / 4;\n\tconst int line = "
		   "(u & ~5) | (u & 1) << 2 | (u >> 2 & 1);\n"
		   "\tconst int q = k + line;\n\tconst i64 there = %s;\n\n",
		   s.k_at);
	s.k_at = "there";
	buf_printf(t->out, "\tUNROLL\n\tfor (j = 0; j < %lld; j++) {\n"
		   "\t\tconst int place = TID %% 4 + j * 4;\n"
		   "\t\tconst int at = to + (place / 8 * %lld + line) * 128 +\n"
		   "\t\t\t(place %% 8 ^ line %% 8) * 16;\n"
		   "\t\tint r = first + place * %lld;\n\n",
		   (long long)(s.rows / t->chunk / 4), (long long)s.k,
		   (long long)t->chunk);
	put_copies(&line);
	buf_puts(t->out, "\t}\n}\n");
}

/* ---- groups of 4 bits ---- */

/* C text: where in the row of column r something is. */
static const char *
in_row(const struct side_text *t, const char *more)
{
	return arena_printf(t->k->c->a, "from + %s + %s", t->s->row_at, more);
}

/* The numbers of a chunk, which lie as in memory, from `at` to `put`.  Rows of
 * an odd number of groups begin at multiples of 2 bytes. */
static void
put_chunk(const struct side_text *t)
{
	int64_t i, width = t->s->width;

	for (i = 0; width && i < 16; i += width) {
		buf_printf(t->out, "\t\tcp_async%lld(smem_addr(SMEM) + (u32)put"
			   " + %lld, at + %lld, %lld);\n",
			   (long long)width, (long long)i, (long long)i,
			   (long long)width);
	}
	if (width == 0) {
		buf_puts(t->out, "\t\tconst u16 *const x = (const u16 *)at;\n"
			 "\t\tsts16(SMEM + put, u32x4_of(\n"
			 "\t\t\tx[0] | (u32)x[1] << 16, x[2] | (u32)x[3] << 16,"
			 "\n\t\t\tx[4] | (u32)x[5] << 16, "
			 "x[6] | (u32)x[7] << 16));\n");
	}
}

/* A word for each column that has the scale of its group: in the upper half if
 * the group is an odd one. */
static void
put_scales(const struct side_text *t)
{
	const struct cu_side *s = t->s;
	struct arena *a = t->k->c->a;
	long long first = (long long)s->row / 2;

	put_loop(t, 1, s->rows);
	buf_printf(t->out, "\t\tconst int r = first + %s;\n", s->rows_end
		   ? "(c < live ? c : live - 1)" : "c");
	buf_printf(t->out, "\t\tconst int put = to + %lld + c * 4;\n",
		   (long long)(s->rows * s->k / 2));
	if (s->width) {
		buf_printf(t->out, "\t\tcp_async4(smem_addr(SMEM) + (u32)put, "
			   "%s, 4);\n", in_row(t, arena_printf(a,
				"%lld + k / %d * 4", first, 2 * IR_GROUP)));
	} else {
		buf_printf(t->out, "\t\tconst u32 x = *(const u16 *)(%s);\n"
			   "\t\t*(u32 *)(SMEM + put) = x << k / %d %% 2 * 16;"
			   "\n", in_row(t, arena_printf(a,
				"%lld + k / %d * 2", first, IR_GROUP)),
			   IR_GROUP);
	}
	buf_puts(t->out, "\t}\n");
}

/* Lines of 64 bytes, the numbers of a group, whose first chunk is the first
 * quarter of them; of every other pair the second line comes first. */
static void
put_groups(const struct side_text *t)
{
	const struct cu_side *s = t->s;

	put_loop(t, s->rows, 4);
	buf_printf(t->out, "\t\tconst int r = first + %s;\n"
		   "\t\tconst int put = to + (c ^ c / 8 %% 2 * 4) * 16;\n"
		   "\t\tconst i8 *const at = %s;\n\n", s->rows_end
			? "(c / 4 < live ? c / 4 : live - 1)" : "c / 4",
		   in_row(t, "k / 2 + c % 4 * 16"));
	put_chunk(t);
	buf_puts(t->out, "\t}\n");
	put_scales(t);
	buf_puts(t->out, "}\n");
}

/* Transposes: single elements that are contiguous along k, to lines along
 * rows. */
static void
put_transposed(const struct side_text *t)
{
	const struct cu_side *s = t->s;

	put_loop(t, s->k, s->rows);
	buf_printf(t->out, "\t\tconst int row = c / %lld, q = k + c %% %lld;\n"
		   "\t\tconst int r = first + %s;\n\n", (long long)s->k,
		   (long long)s->k, s->rows_end
			? "(row < live ? row : live - 1)" : "row");
	buf_printf(t->out, "\t\tcp_async4(smem_addr(SMEM) + (u32)(to + (q - k)"
		   " * %lld + row * 4), from + %s + %s,\n\t\t\t%s);\n",
		   (long long)(4 * line_of(s)), s->row_at, s->k_at,
		   s->k_end ? "q < end ? 4 : 0" : "4");
	buf_puts(t->out, "\t}\n}\n");
}

/*
 * Writes a function NAME(int to, const T *from, int first, int live, int k,
 * int end, TABLE) that starts to copy a tile to byte `to` of shared memory:
 * rows first .. first + live - 1, and k below end.
 */
static void
emit_side(struct cu_kernel *k, const struct cu_side *s, const char *name)
{
	struct side_text t = { .k = k, .s = s, .out = &k->text };

	t.bytes = s->bytes;
	t.chunk = 16 / t.bytes;
	put_head(&t, name);
	if (s->is_widened && s->row) {
		put_groups(&t);
	} else if (s->unit == CU_DOT_FMA && s->width == 1) {
		put_transposed(&t);
	} else if (s->described && !s->along_k) {
		put_lines(&t);
	} else {
		put_chunks(&t);
	}
}

void
cu_loop_side(struct cu_func *f, const struct cu_dot *d, int which,
	     struct cu_loop *l)
{
	cu_side_of(d, which, &l->side[which]);
	l->load[which] = arena_printf(f->k->c->a, "%s_%s", f->grid->func,
				      which ? "b" : "a");
	emit_side(f->k, &l->side[which], l->load[which]);
}

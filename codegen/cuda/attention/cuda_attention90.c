/*
 * What attention for sm_90a is made of: operands as the copying unit loads
 * them, and products of a warpgroup.  A box has 64 columns of a tile's rows:
 * in shared memory rows of 128 bytes, swizzled as wgmma requires, one box
 * after another.
 */
#include "codegen/cuda/attention/cuda_attention90.h"

/* An H100's L2 cache has 50 MB. */
#define CACHED_BYTES (INT64_C(32) << 20)

int64_t
ca90_cached_bytes(const struct attn *t)
{
	int64_t bytes = t->k->c->cached_bytes;

	return bytes ? bytes : CACHED_BYTES;
}

/* By a shuffle from lane 0 the assembler sees that all lanes have the same:
 * descriptors that follow from it stay in uniform registers, from where
 * products take them, and are not moved there for each product. */
void
ca90_declare_group(struct cu_func *f)
{
	cu_line(f, "const int group = (int)shfl_u32((u32)WARP / 4 - 1, 0);");
}

/* ---- operands ---- */

static bool
put_dim(struct cg_map *m, int64_t size, int64_t stride, int64_t box)
{
	return (m->ndims > 1 && size == 1) ||
	       cu_map_add(m, 2, size, stride, box);
}

/* Dims are columns, rows, heads and sequences; dims of size 1 are left out. */
bool
ca_side_of(const struct attn *t, uint32_t in, int64_t rows, struct ca_side *x)
{
	int64_t cols = in == ATTN_V || in == ATTN_G ? t->dv : t->d;
	const struct attn_view *v = &t->in[in];
	bool keys = in == ATTN_K || in == ATTN_V;
	uint32_t i;

	*x = (struct ca_side){ .number = in, .keys = keys, .rows = rows,
			       .cols = cols };
	x->chunks = ca_ceil_div(cols, CA90_BOX_COLS);
	x->bytes = x->chunks * rows * CA90_BOX_ROW;
	if (v->place != ATTN_OPERAND || v->is_selected ||
	    v->dtype != t->tile || cols % 8 ||
	    !cu_view_aligned(t->k, &v->memory)) {
		return false;
	}
	x->map.operand = v->memory.operand;
	x->map.elem = t->tile == IR_F16 ? RT_ELEM_F16 : RT_ELEM_BF16;
	x->map.offset = 2 * v->memory.offset;
	x->map.swizzle = CA90_BOX_ROW;
	if (!put_dim(&x->map, cols, v->col, CA90_BOX_COLS) ||
	    !put_dim(&x->map, keys ? t->keys : t->queries, v->pos, rows) ||
	    !put_dim(&x->map, keys ? t->kv : t->heads, v->head, 1)) {
		return false;
	}
	for (i = t->nbatch; i-- > 0; ) {
		if (!put_dim(&x->map, t->batch_size[i], v->batch[i], 1)) {
			return false;
		}
	}
	return true;
}

void
ca_side_load(struct cu_func *f, const struct attn *t,
	     const struct ca_side *x, const char *to, const char *bar,
	     const char *pos)
{
	int64_t apart = 1, i;
	struct buf b;
	uint32_t k;

	buf_init(&b, f->k->c->a);
	buf_printf(&b, ", %s", pos);
	if ((x->keys ? t->kv : t->heads) > 1) {
		buf_printf(&b, ", %s", x->keys ? "kv" : "head");
	}
	for (k = t->nbatch; k-- > 0; apart *= t->batch_size[k]) {
		if (t->batch_size[k] > 1) {
			buf_printf(&b, ", bat / %lld %% %lld",
				   (long long)apart,
				   (long long)t->batch_size[k]);
		}
	}
	for (i = 0; i < x->chunks; i++) {
		cu_line(f, "tma_load%u(%s + %lld, &a.map[%u], %s, %lld%s);",
			x->map.ndims, to,
			(long long)(i * x->rows * CA90_BOX_ROW), x->number,
			bar, (long long)(i * CA90_BOX_COLS), buf_text(&b));
	}
}

/* ---- products ---- */

int64_t
ca_wide(int64_t cols)
{
	return cols <= 64 ? 64 : cols <= 96 ? 96 : 128;
}

const char *
ca_type(const struct attn *t)
{
	return t->tile == IR_BF16 ? "bf16" : "f16";
}

long long
ca_side_column(const struct ca_side *x, int64_t i)
{
	return (long long)(i / 4 * x->rows * CA90_BOX_ROW / 16 + i % 4 * 2);
}

void
ca_wg_pairs(struct cu_func *f, const struct attn *t, const char *sum,
	    const struct ca_side *x, const char *x_at,
	    const struct ca_side *y, const char *y_at)
{
	int64_t steps = ca_ceil_div(x->cols, 16), i;

	for (i = 0; i < steps; i++) {
		cu_line(f, "wg_%s_64x%lld(&%s[0][0][0], %s + %lld, %s + "
			"%lld, %d, 0, 0);", ca_type(t), (long long)y->rows,
			sum, x_at, ca_side_column(x, i), y_at,
			ca_side_column(y, i), i > 0);
	}
	cu_line(f, "wg_commit();");
}

void
ca_wg_on(struct cu_func *f, const struct attn *t, const char *sum,
	 int64_t cols, const char *w, const struct ca_side *y,
	 const char *y_at)
{
	int64_t i;

	for (i = 0; i < y->rows / 16; i++) {
		cu_line(f, "wg_%s_rs_64x%lld(&%s[0][0][0], %s[%lld], %s + "
			"%lld, 1, 1);", ca_type(t), (long long)cols, sum, w,
			(long long)i, y_at, (long long)(i * CA90_BOX_ROW));
	}
	cu_line(f, "wg_commit();");
}

void
ca_wg_wait(struct cu_func *f, int behind, const char *sum, int64_t cols)
{
	cu_line(f, "wg_wait(%d);", behind);
	ca_wg_pin(f, sum, cols);
}

void
ca_wg_pin(struct cu_func *f, const char *sum, int64_t cols)
{
	cu_line(f, "wg_sums(&%s[0][0][0], %lld);", sum,
		(long long)(cols / 2));
}

void
ca_wg_pack(struct cu_func *f, const struct attn *t, const char *w,
	   const char *s, int64_t cols)
{
	int i;

	ca_unrolled_for(f, "k", cols / 16);
	for (i = 0; i < 4; i++) {
		cu_line(f, "%s[k][%d] = pack_%s(%s[0][2 * k + %d][%d], "
			"%s[0][2 * k + %d][%d]);", w, i, ca_type(t), s, i / 2,
			i % 2 * 2, s, i / 2, i % 2 * 2 + 1);
	}
	cu_line(f, "wg_regs(%s[k], 4);", w);
	cu_line(f, "}");
}

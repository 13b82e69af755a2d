/*
 * What attention for sm_100a is made of: tensor memory, products of one thread,
 * and loads and stores of a warp.  A warp loads 16 lanes as wgmma would leave
 * them, and stores 16-bit elements of that layout as the left operand of the
 * next product.
 */
#include "codegen/cuda/attention/cuda_attention90.h"

void
ca_tc_open(struct cu_func *f, const char *at, int64_t byte)
{
	cu_line(f, "if (WARP == 1) {");
	cu_line(f, "tc_alloc(%s, %d);", at, CA_TC_COLUMNS);
	cu_line(f, "tc_relinquish();");
	cu_line(f, "}");
	cu_line(f, "tc_fence_before();");
	cu_line(f, "sync_block();");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "const u32 all = *(const u32 *)(SMEM + %lld);",
		(long long)byte);
}

void
ca_tc_close(struct cu_func *f)
{
	cu_line(f, "tc_fence_before();");
	cu_line(f, "sync_block();");
	cu_line(f, "if (WARP == 1) {");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "tc_dealloc(all, %d);", CA_TC_COLUMNS);
	cu_line(f, "}");
}

void
ca_tc_form(struct cu_func *f, const struct attn *t, const char *name,
	   int64_t cols, bool across)
{
	cu_line(f, "const u32 %s = tc_form(%s, %lld, 0, %d);", name,
		t->tile == IR_BF16 ? "TC_BF16" : "TC_F16", (long long)cols,
		across);
}

void
ca_tc_pairs(struct cu_func *f, const char *sum, const struct ca_side *x,
	    const char *x_at, const struct ca_side *y, const char *y_at)
{
	int64_t steps = ca_ceil_div(x->cols, 16), i;

	for (i = 0; i < steps; i++) {
		cu_line(f, "tc_mma_f16(%s, %s + %lld, %s + %lld, pairs, %d);",
			sum, x_at, ca_side_column(x, i), y_at,
			ca_side_column(y, i), i > 0);
	}
}

void
ca_tc_on(struct cu_func *f, const char *sum, const char *w,
	 const struct ca_side *y, const char *y_at, const char *form,
	 const char *more)
{
	int64_t i;

	for (i = 0; i < y->rows / 16; i++) {
		cu_line(f, "tc_mma_f16_left(%s, %s + %lld, %s + %lld, %s, %s);",
			sum, w, (long long)(8 * i), y_at,
			(long long)(i * CA90_BOX_ROW), form, i ? "1" : more);
	}
}

void
ca_tc_load(struct cu_func *f, const char *to, const char *at, int64_t cols)
{
	ca_unrolled_for(f, "j", cols / CA_TC_AT_ONCE);
	cu_line(f, "tc_ld32(&%s[4 * j][0], %s + %d * j);", to, at,
		CA_TC_AT_ONCE);
	cu_line(f, "}");
}

/* Each store is of twice as many columns of s, two to a column. */
void
ca_tc_store(struct cu_func *f, const struct attn *t, const char *at,
	    const char *s, int64_t cols)
{
	ca_unrolled_for(f, "j", cols / (2 * CA_TC_AT_ONCE));
	cu_line(f, "u32 w[16];");
	ca_unrolled_for(f, "k", 16);
	cu_line(f, "w[k] = pack_%s(%s[8 * j + k / 2][k %% 2 * 2], "
		"%s[8 * j + k / 2][k %% 2 * 2 + 1]);", ca_type(t), s, s);
	cu_line(f, "}");
	cu_line(f, "tc_st32_pairs(%s + %d * j, w);", at, CA_TC_AT_ONCE);
	cu_line(f, "}");
}

void
ca_tc_arrive(struct cu_func *f, const char *bar)
{
	cu_line(f, "tc_fence_before();");
	cu_line(f, "sync_warp();");
	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "mbar_arrive(%s);", bar);
	cu_line(f, "}");
}

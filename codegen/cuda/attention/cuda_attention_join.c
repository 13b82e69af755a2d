/*
 * The step that joins items of single queries.  A warp has a head of a query:
 * it adds up what its items made, in the order of keys, and puts the row.
 */
#include "codegen/cuda/attention/cuda_attention_single.h"

#define WARPS 8
#define MOST_BLOCKS 4		/* for each multiprocessor */

/* Adds up items; declares all_top, x, fade and acc. */
static void
add_up(struct ca_single *x, struct cu_func *f, int64_t each)
{
	struct attn *t = x->s.t;

	cu_line(f, "f32 all_top = %s, x = 0, fade = 1, acc[%lld];", CA_LEAST,
		(long long)each);
	ca_unrolled_for(f, "j", each);
	cu_line(f, "acc[j] = 0;");
	cu_line(f, "}");
	cu_line(f, "for (int i = 0; i < n; i++) {");
	cu_line(f, "const i64 slot = (i64)(%s[query] + i) * %lld + head;",
		ca_single_at(x, "i32", x->in.first), (long long)t->heads);
	cu_line(f, "const f32 *sums = %s + 2 * slot;",
		ca_single_at(x, "f32", x->in.sums));
	cu_line(f, "const f32 *row = %s + slot * %lld;",
		ca_single_at(x, "f32", x->in.results), (long long)x->cols);
	cu_line(f, "const f32 had = all_top, more = sums[0];");
	ca_parts_join(f, t, ca_f32(f, ca_forward_by(&x->s)));
	cu_line(f, "all_top = top;");
	cu_line(f, "x = fma_f32(sums[1], by, x * old_by);");
	ca_unrolled_for(f, "j", each);
	cu_line(f, "if (j * 32 + LANE < %lld) {", (long long)x->cols);
	cu_line(f, "acc[j] = fma_f32(row[j * 32 + LANE], by, "
		"acc[j] * old_by);");
	cu_close(f, 3);
}

/* Divides the row by its sum, and has it in shared memory. */
static void
finish(struct ca_single *x, struct cu_func *f, int64_t each, int64_t pitch)
{
	if (x->s.t->values[ATTN_SINK]) {
		cu_line(f, "{");
		ca_forward_declare_sink(&x->s);
		ca_forward_add_sink(&x->s);
		cu_line(f, "}");
	}
	cu_line(f, "const f32 by_row = x > 0 ? f_div(fade, x) : 0.0f;");
	cu_line(f, "f32 *to = (f32 *)SMEM + WARP * %lld;", (long long)pitch);
	ca_unrolled_for(f, "j", each);
	cu_line(f, "if (j * 32 + LANE < %lld) {", (long long)x->cols);
	cu_line(f, "to[j * 32 + LANE] = acc[j] * by_row;");
	cu_close(f, 2);
	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "to[%lld] = x > 0 ? fma_f32(all_top, %s, f_log(x)) : 0.0f;",
		(long long)(pitch - 4), ca_forward_unit(&x->s));
	cu_line(f, "}");
	cu_line(f, "sync_warp();");
}

static bool
put(struct ca_single *x, struct cu_func *f, int64_t pitch)
{
	struct attn *t = x->s.t;
	struct ca_put p = { .r = ATTN_OUT, .pitch = pitch, .rows = 1,
			    .cols = x->cols, .from = "0", .row = "query",
			    .live = "1", .head = "head", .threads = 32,
			    .thread = "LANE" };

	p.more = arena_printf(f->k->c->a, "WARP * %lld", 4 * (long long)pitch);
	if (!ca_put_rows(f, t, &p)) {
		return false;
	}
	p.r = ATTN_LSE;
	p.at = 4 * (pitch - 4);
	p.cols = 1;
	return !t->made[ATTN_LSE].value || ca_put_rows(f, t, &p);
}

bool
ca_single_join(struct ca_single *x)
{
	struct cu_func *f = &x->s.f;
	struct attn *t = x->s.t;
	int64_t rows = t->queries * t->heads, each = ca_ceil_div(x->cols, 32);
	int64_t blocks = ca_ceil_div(rows, WARPS), pitch = x->cols + 4;
	int64_t most = MOST_BLOCKS * t->k->c->units;
	bool ok;

	x->s.f = (struct cu_func){ 0 };
	cu_func_begin(t->k, "attention_join", f);
	f->grid->threads = 32 * WARPS;
	f->grid->blocks[0] = blocks < most ? blocks : most;
	f->grid->smem_bytes = 4 * WARPS * pitch;
	cu_launch_wait(f);
	cu_line(f, "const int bat = 0;");
	cu_line(f, "(void)bat;");
	cu_line(f, "for (int row = BLOCK_X * %d + WARP; row < %lld; "
		"row += NBLOCKS_X * %d) {", WARPS, (long long)rows, WARPS);
	cu_line(f, "const int query = row / %lld, head = row %% %lld;",
		(long long)t->heads, (long long)t->heads);
	cu_line(f, "const int n = (int)shfl_u32((u32)%s[query], 0);",
		ca_single_at(x, "i32", x->in.count));
	cu_line(f, "if (n > 0) {");
	add_up(x, f, each);
	finish(x, f, each, pitch);
	ok = put(x, f, pitch);
	cu_line(f, "sync_warp();");
	cu_close(f, 2);
	cu_func_end(f);
	return ok;
}

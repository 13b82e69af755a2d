/*
 * The gradients of attention with tcgen05 (sm_100a).  One thread issues all
 * products, of 128 rows and 128 columns, or 64 where heads are wide; all that
 * they make lies in tensor memory, row i in lane i:
 *
 *	S = X0 Y0^T	dP = X1 Y1^T	DV += P Y1	DX += dS Y0
 *
 * P lies where S was and dS where dP was, two elements to a column, as left
 * operands.  Each of eight warps has 16 rows, and loads S and dP as wgmma would
 * leave them: masks, weights, and what becomes of sums are the text of
 * cuda_attention_back.c.
 *
 * Products are issued in the order S(t + 1), DX(t), dP(t + 1), DV(t + 1).  So
 * warps compute P while DX of the tile before and dP are made, and dS while DV
 * and S of the next tile are.
 *
 * How it is synchronized: commits arrive at `made` when S is complete, and at
 * its second barrier when dP is; eight warps arrive at `ready` when they have
 * loaded S and stored P, and at its second barrier when they have loaded dP and
 * stored dS.  S(t + 1) waits for the first of these, dP(t + 1) for the second,
 * so no barrier is two phases ahead of a warp.  Tiles Y0 and Y1 have a ring
 * each.  Y0 is freed by the commit after DX, its last product; the numbers of
 * its columns have been read when dS is stored.  Y1 is freed by the one after
 * DV, or after dP: with two stages six products, or five, before its place is
 * needed, while that of Y0 is freed two, or one, before.  Where P and dS lie is
 * overwritten in the order of the products that read and write there.
 */
#include "codegen/cuda/attention/cuda_attention90_back.h"

/* Bytes, after the barriers of the ring: made, ready, the address of tensor
 * memory; then those of tiles 1 of the ring. */
#define BARS_AT 64
#define FULL1_AT (BARS_AT + 48)
/* Columns of tensor memory where sums are; S is at 0, and dP behind it. */
static int
dx_at(const struct ca90_back *p)
{
	return (int)(2 * p->s.form.cols);
}

static int
dv_at(const struct ca90_back *p)
{
	return dx_at(p) + (int)p->s.out_slope;
}

/* ---- barriers ---- */

void
ca90_back_bars(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "for (int i = 0; i < 2; i++) {");
	cu_line(f, "mbar_init(bars + %d + 8 * i, 1);", BARS_AT);
	cu_line(f, "mbar_init(bars + %d + 8 * i, %d);", BARS_AT + 16,
		CA90_CONSUMERS / 32);
	cu_line(f, "}");
	cu_line(f, "for (int i = 0; i < %d; i++) {",
		2 * (int)p->stages1);
	cu_line(f, "mbar_init(bars + %d + 8 * i, 1);", FULL1_AT);
	cu_line(f, "}");
}

void
ca90_back_open(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "const u32 made = bars + %d, ready = made + 16;", BARS_AT);
	cu_line(f, "const u32 full1 = bars + %d, empty1 = full1 + %d;",
		FULL1_AT, 8 * (int)p->stages1);
	ca_tc_open(f, "made + 32", p->bars + BARS_AT + 32);
}

/* ---- the thread that multiplies ---- */

/* S or dP of this iteration, and the commit that tells warps. */
static void
put_pairs(struct ca90_back *p, int which)
{
	static const char *const sum[] = { "all", "slopes" };
	static const char *const made[] = { "made", "made + 8" };
	static const char *const x[] = { "x0", "x1" }, *const y[] = { "y0",
								      "y1" };
	struct cu_func *f = &p->s.f;

	ca90_back_tile(p, y[which], which, ca90_back_stage(p, which), false);
	ca_tc_pairs(f, sum[which], &p->x[which], x[which], &p->y[which],
		    y[which]);
	cu_line(f, "tc_commit(%s);", made[which]);
}

/* DX of the iteration before: tile 0 of its columns is free then. */
static void
put_slope(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "if (it > 0) {");
	cu_line(f, "const int last = (it - 1) %% %d;", (int)p->s.form.stages);
	cu_line(f, "mbar_wait(ready + 8, it - 1 & 1);");
	cu_line(f, "tc_fence_after();");
	ca90_back_tile(p, "z0", 0, "last", true);
	ca_tc_on(f, "dx", "slopes", &p->y[0], "z0", "on", "it > 1");
	cu_line(f, "tc_commit(empty + 8 * last);");
	cu_line(f, "}");
}

/* Weights are stored, or at least scores loaded.  The last product with tile 1
 * of the columns frees it. */
static void
put_weights(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	if (!p->s.weight) {
		cu_line(f, "tc_commit(empty1 + 8 * stage1);");
	}
	cu_line(f, "mbar_wait(ready, it & 1);");
	cu_line(f, "tc_fence_after();");
	if (p->s.weight) {
		ca90_back_tile(p, "z1", 1, "stage1", true);
		ca_tc_on(f, "dv", "all", &p->y[1], "z1", "wide", "it > 0");
		cu_line(f, "tc_commit(empty1 + 8 * stage1);");
	}
}

/* The last commit of the thread is one that is waited for. */
static void
each_tile(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int it = 0; it <= count; it++) {");
	cu_line(f, "const int stage = it %% %d, stage1 = it %% %d;",
		(int)p->s.form.stages, (int)p->stages1);
	cu_line(f, "if (it < count) {");
	ca90_back_wait(p, 0);
	put_pairs(p, 0);
	cu_line(f, "}");
	put_slope(p);
	cu_line(f, "if (it < count) {");
	ca90_back_wait(p, 1);
	put_pairs(p, 1);
	put_weights(p);
	cu_close(f, 2);
	cu_line(f, "tc_commit(made);");
}

void
ca90_back_multiply(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct cu_func *f = &s->f;
	int i;

	cu_line(f, "if (WARP == 1 && count > 0 && elect_one()) {");
	ca_tc_form(f, s->t, "pairs", s->form.cols, false);
	ca_tc_form(f, s->t, "on", s->out_slope, true);
	cu_line(f, "const u32 slopes = all + %d, dx = all + %d;",
		(int)s->form.cols, dx_at(p));
	if (s->weight) {
		ca_tc_form(f, s->t, "wide", s->out_weight, true);
		cu_line(f, "const u32 dv = all + %d;", dv_at(p));
	}
	for (i = 0; i < 2; i++) {
		cu_line(f, "const u64 x%d = tc_desc(sm + %lld, 16, 1024, 128);",
			i, (long long)p->x[i].at);
	}
	cu_line(f, "mbar_wait(bars, 0);");
	each_tile(p);
	cu_line(f, "}");
}

/* ---- the warps with rows ---- */

static void
wait_made(struct cu_func *f, const char *bar, const char *nth)
{
	cu_line(f, "mbar_wait(%s, %s & 1);", bar, nth);
	cu_line(f, "tc_fence_after();");
}

static void
load_columns(struct cu_func *f, const char *to, int at, int64_t cols)
{
	struct arena *a = f->k->c->a;

	ca_tc_load(f, arena_printf(a, "%s[0]", to),
		   arena_printf(a, "own + %d", at), cols);
}

static void
wait_loads(struct cu_func *f, const char *to, int64_t cols)
{
	cu_line(f, "tc_wait(&%s[0][0][0], %lld);", to, (long long)(cols / 2));
}

/* Stores s as a left operand. */
static void
store_left(struct ca90_back *p, int at)
{
	struct cu_func *f = &p->s.f;

	ca_tc_store(f, p->s.t, arena_printf(f->k->c->a, "own + %d", at), "s[0]",
		    p->s.form.cols);
	cu_line(f, "tc_wait_st();");
}

/* If columns are queries, their numbers arrive with the stage. */
static void
weigh_tile(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct cu_func *f = &s->f;
	int64_t cols = s->form.cols;

	if (s->keys) {
		cu_line(f, "const int stage = it %% %d;",
			(int)s->form.stages);
	}
	ca90_back_columns(p);
	cu_line(f, "f32 s[1][%lld][4], ds[1][%lld][4];", (long long)(cols / 8),
		(long long)(cols / 8));
	if (s->keys) {
		ca90_back_wait(p, 0);
	}
	wait_made(f, "made", "it");
	load_columns(f, "s", 0, cols);
	wait_loads(f, "s", cols);
	if (!s->weight) {
		ca_tc_arrive(f, "ready");
	}
	ca_back_weigh(s);
	if (s->weight) {
		store_left(p, 0);
		ca_tc_arrive(f, "ready");
	}
	wait_made(f, "made + 8", "it");
	load_columns(f, "ds", (int)cols, cols);
	wait_loads(f, "ds", cols);
	ca_back_slope(s);
	store_left(p, (int)cols);
	ca_tc_arrive(f, "ready + 8");
}

/* All products are complete. */
static void
take_sums(struct ca90_back *p)
{
	const struct ca_back *s = &p->s;
	struct cu_func *f = &p->s.f;

	wait_made(f, "made", "count");
	load_columns(f, "dx", dx_at(p), s->out_slope);
	wait_loads(f, "dx", s->out_slope);
	if (s->weight) {
		load_columns(f, "dv", dv_at(p), s->out_weight);
		wait_loads(f, "dv", s->out_weight);
	}
}

bool
ca90_back_weigh(struct ca90_back *p)
{
	struct ca_back *s = &p->s;
	struct cu_func *f = &s->f;

	cu_line(f, "regs_more(%d);", CA_TC_MORE);
	cu_comment(f, "rows g and g + 8 of the warp's 16 are this thread's");
	cu_line(f, "const int g = LANE / 4;");
	cu_line(f, "const int wrow = WARP %% 4 * 32 + (WARP / 4 - 1) * 16;");
	cu_line(f, "const u32 own = all + ((u32)wrow << 16);");
	if (!s->keys) {
		ca_declare_pointer(f, s->t, &s->t->in[ATTN_L], "l", "head");
		ca_declare_pointer(f, s->t, &s->t->in[ATTN_DELTA], "dt",
				   "head");
		ca_back_rows(s);
	}
	ca_back_begin(s);
	cu_line(f, "if (count > 0) {");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int it = 0; it < count; it++) {");
	weigh_tile(p);
	cu_line(f, "}");
	take_sums(p);
	cu_line(f, "}");
	return ca_back_put(s);
}

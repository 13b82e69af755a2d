/*
 * Attention forward with tcgen05 (sm_100a).  An item is 256 queries of a head.
 * One thread issues all products; two warpgroups have 128 queries each, whose
 * scores and sums lie in tensor memory:
 *
 *	S = Q K^T	128 lanes of a column for each key
 *	O += P V	the same, of a column for each column of V; P lies where
 *			S was, two weights to a column
 *
 * A warp loads the scores of its 32 queries as wgmma would leave them, so that
 * masks, weights and results are the text of cuda_attention_forward.c, and
 * stores weights.  Where some query of the warp has a new largest score it
 * rescales its part of O: a factor of 1 changes no bit, so that what is left
 * out does not depend on the order of anything.  One warpgroup computes weights
 * while products of the other run.
 *
 * How it is synchronized: a commit of the thread that multiplies arrives at
 * `made` when a tile's scores are complete, and with them all sums of the tiles
 * before; the four warps of a warpgroup arrive at `ready` when their weights
 * lie in tensor memory and their sums are rescaled, and when they have taken
 * the sums of an item.  So each arrives once for each arrival at the other, and
 * neither barrier is two phases ahead.  Stages of the rings are freed by
 * commits.  Weights are overwritten by scores of the next tile in the
 * order of the products that read and write them.
 */
#include "codegen/cuda/attention/cuda_attention90_forward.h"

#define GROUP_COLUMNS 256
#define SUMS_AT 128	/* columns of scores, then of sums */
#define BARS_AT 80	/* bytes, after the barriers of the rings */

/* ---- barriers, and the allocation ---- */

void
ca90_tensor_bars(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "for (int i = 0; i < 2; i++) {");
	cu_line(f, "mbar_init(bars + %d + 8 * i, 1);", BARS_AT);
	cu_line(f, "mbar_init(bars + %d + 8 * i, 4);", BARS_AT + 16);
	cu_line(f, "}");
}

void
ca90_tensor_open(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "const u32 made = bars + %d, ready = made + 16;", BARS_AT);
	ca_tc_open(f, "made + 32", p->bars + BARS_AT + 32);
}

/* ---- the thread that multiplies ---- */

/* Scores of tile t, once its keys have arrived. */
static void
put_scores(struct ca90_forward *p)
{
	const struct ca_side *x = &p->side[ATTN_Q], *y = &p->side[ATTN_K];
	struct cu_func *f = &p->s.f;

	cu_line(f, "const u64 x = tc_desc(sm, 16, 1024, 128) + %lld * group;",
		(long long)p->unit->part * CA90_BOX_ROW / 16);
	cu_line(f, "const u64 y = tc_desc(%s, 16, 1024, 128);",
		ca90_place(p, ATTN_K, ca90_stage_of(p, "t")));
	ca_tc_pairs(f, "d", x, "x", y, "y");
}

/* Sums of tile t - 1, once its values have arrived. */
static void
put_values(struct ca90_forward *p)
{
	const struct ca_side *y = &p->side[ATTN_V];
	struct cu_func *f = &p->s.f;

	cu_line(f, "const u64 y = tc_desc(%s, %lld, 1024, 128);",
		ca90_place(p, ATTN_V, ca90_stage_of(p, "t - 1")),
		(long long)(y->rows * CA90_BOX_ROW));
	ca_tc_on(f, arena_printf(f->k->c->a, "d + %d", SUMS_AT), "d", y, "y",
		 "on", "t > 1");
}

static void
wait_ready(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "mbar_wait(ready + 8 * group, done);");
	cu_line(f, "tc_fence_after();");
}

static void
free_stage(struct ca90_forward *p, uint32_t in, const char *tile)
{
	cu_line(&p->s.f, "tc_commit(%s);",
		ca90_bar(p, in, true, ca90_stage_of(p, tile)));
}

/* A group's products in turn t, and what they complete.  The last commit of the
 * thread is one that is waited for. */
static void
put_turn(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "const u32 d = all + %d * group;", GROUP_COLUMNS);
	wait_ready(p);
	if (p->s.out) {
		cu_line(f, "if (t > 0) {");
		put_values(p);
		cu_line(f, "}");
		cu_line(f, "if (t < tiles) {");
	} else {
		cu_line(f, "{");
	}
	put_scores(p);
	cu_line(f, "}");
	cu_line(f, "if (group == 1) {");
	cu_line(f, "if (t < tiles) {");
	free_stage(p, ATTN_K, "t");
	cu_line(f, "}");
	cu_line(f, "if (t == tiles - 1) {");
	cu_line(f, "tc_commit(%s);", ca90_bar(p, ATTN_Q, true, ""));
	cu_line(f, "}");
	if (p->s.out) {
		cu_line(f, "if (t > 0) {");
		free_stage(p, ATTN_V, "t - 1");
		cu_line(f, "}");
	}
	cu_line(f, "}");
	cu_line(f, "tc_commit(made + 8 * group);");
}

void
ca90_tensor_multiply(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "if (WARP == 1) {");
	ca_tc_form(f, p->s.t, "pairs", p->s.form.cols, false);
	if (p->s.out) {
		ca_tc_form(f, p->s.t, "on", p->s.form.out, true);
	}
	cu_line(f, "u32 slot = 0;");
	cu_line(f, "int turn = 0, done = 1;");
	ca90_open_items(p);
	if (p->takes) {
		ca90_free_queries(p);
	}
	cu_line(f, "if (tiles == 0) {");
	ca90_free_queries(p);
	cu_line(f, "} else if (elect_one()) {");
	ca90_wait_queries(p);
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int t = 0; t %s tiles; t++) {",
		p->s.out ? "<=" : "<");
	cu_line(f, "if (t < tiles) {");
	ca90_wait_full(p, ATTN_K, "t");
	cu_line(f, "}");
	if (p->s.out) {
		cu_line(f, "if (t > 0) {");
		ca90_wait_full(p, ATTN_V, "t - 1");
		cu_line(f, "}");
	}
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int group = 0; group < 2; group++) {");
	put_turn(p);
	cu_line(f, "}");
	cu_line(f, "done ^= 1;");
	cu_line(f, "}");
	cu_line(f, "}");
	cu_line(f, "slot += (u32)tiles;");
	cu_line(f, "turn ^= 1;");
	cu_close(f, 2);
}

/* ---- a warpgroup with its queries ---- */

static void
wait_made(struct cu_func *f)
{
	cu_line(f, "mbar_wait(made + 8 * group, parity);");
	cu_line(f, "tc_fence_after();");
	cu_line(f, "parity ^= 1;");
}

static void
put_ready(struct cu_func *f)
{
	ca_tc_arrive(f, "ready + 8 * group");
}

/* Loads to[2][cols / 8][4], from column `at` on. */
static void
load(struct cu_func *f, const char *to, int at, int64_t cols)
{
	struct arena *a = f->k->c->a;

	ca_unrolled_for(f, "i", 2);
	ca_tc_load(f, arena_printf(a, "%s[i]", to),
		   arena_printf(a, "own + i * " CA_TC_NEXT_ROWS " + %d", at),
		   cols);
	cu_line(f, "}");
	cu_line(f, "tc_wait(&%s[0][0][0], %lld);", to, (long long)cols);
}

/* Weights, where scores were. */
static void
store_weights(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	ca_unrolled_for(f, "i", 2);
	ca_tc_store(f, p->s.t, "own + i * " CA_TC_NEXT_ROWS, "s[i]",
		    p->s.form.cols);
	cu_line(f, "}");
}

/* The sums of the warp's queries, 16 at a time. */
static void
rescale(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;
	long long out = (long long)p->s.form.out;

	cu_line(f, "if (t > 0 && warp_any(fades[0][0] != 1 || fades[0][1] != 1 "
		"|| fades[1][0] != 1 || fades[1][1] != 1)) {");
	ca_unrolled_for(f, "i", 2);
	cu_line(f, "const u32 at = own + %d + i * " CA_TC_NEXT_ROWS ";",
		SUMS_AT);
	cu_line(f, "f32 x[%lld];", out / 2);
	ca_unrolled_for(f, "j", out / CA_TC_AT_ONCE);
	cu_line(f, "tc_ld32(x + 16 * j, at + %d * j);", CA_TC_AT_ONCE);
	cu_line(f, "}");
	cu_line(f, "tc_wait(x, %lld);", out / 2);
	ca_unrolled_for(f, "e", out / 2);
	cu_line(f, "x[e] *= fades[i][e / 2 %% 2];");
	cu_line(f, "}");
	ca_unrolled_for(f, "j", out / CA_TC_AT_ONCE);
	cu_line(f, "tc_st32(at + %d * j, x + 16 * j);", CA_TC_AT_ONCE);
	cu_close(f, 3);
}

static void
weigh_tile(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;
	long long cols = (long long)p->s.form.cols;

	cu_line(f, "const int key0 = begin + t * %lld;", cols);
	cu_line(f, "(void)key0;");
	cu_line(f, "f32 s[2][%lld][4];", cols / 8);
	wait_made(f);
	load(f, "s", 0, cols);
	if (!p->s.out) {
		put_ready(f);
	}
	ca_forward_weigh(&p->s);
	if (p->s.out) {
		store_weights(p);
		rescale(p);
		cu_line(f, "tc_wait_st();");
		put_ready(f);
	}
}

static void
each_tile(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	if (p->s.out) {
		cu_line(f, "f32 fades[2][2];");
	}
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int t = 0; t < tiles; t++) {");
	weigh_tile(p);
	cu_line(f, "}");
}

/* Sums of an item; zeros if no query sees a key. */
static void
take_sums(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "const int out0 = 0;");
	ca_declare_zeros(f, &p->s.form, "o", p->s.form.out);
	cu_line(f, "if (tiles > 0) {");
	wait_made(f);
	load(f, "o", SUMS_AT, p->s.form.out);
	put_ready(f);
	cu_line(f, "}");
}

bool
ca90_tensor_weigh(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;
	bool done;

	cu_line(f, "regs_more(%d);", CA_TC_MORE);
	cu_comment(f, "rows g, g + 8, g + 16 and g + 24 of the warp's 32 are "
		   "this thread's");
	cu_line(f, "const int g = LANE / 4;");
	cu_line(f, "const int wrow = (WARP - 4) * 32, group = WARP / 4 - 1;");
	cu_line(f, "const u32 own = all + %d * group + ((u32)WARP %% 4 << "
		"21);", GROUP_COLUMNS);
	cu_line(f, "int parity = 0;");
	if (p->takes) {
		cu_line(f, "int turn = 0;");
	}
	ca90_open_items(p);
	if (p->takes) {
		ca90_free_queries(p);
		cu_line(f, "turn ^= 1;");
	}
	ca_forward_begin(&p->s);
	each_tile(p);
	if (p->s.out) {
		take_sums(p);
	}
	done = ca90_put_results(p);
	cu_line(f, "}");
	return done;
}

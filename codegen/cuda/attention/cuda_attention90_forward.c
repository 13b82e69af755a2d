/*
 * Attention forward with wgmma and the copying unit (sm_90a), as
 * FlashAttention-3 (Shah et al. 2024).  A block has 128 queries of a head.
 * One warpgroup orders copies of tiles of keys and values into rings of two
 * stages; two multiply, 64 queries each.  Scores of the next tile are computed
 * before the values of the last one are summed, and become weights meanwhile,
 * so products and exponentials overlap.
 *
 * Rings are synchronized as in cuda_dot90_text.c: the copying unit writes a
 * stage after `empty` shows that both warpgroups are done with it, and wgmma
 * reads it after `full` has counted its bytes; no fence is needed.
 */
#include "codegen/cuda/attention/cuda_attention90.h"
#include "codegen/cuda/attention/cuda_attention_forward.h"

#define STAGES 2
#define BARRIERS 128		/* bytes */

struct forward90 {
	struct ca_forward s;
	struct ca_side side[3];		/* ATTN_Q, ATTN_K, ATTN_V */
	int64_t bars;			/* bytes, in shared memory */
};

/* ---- how it is cut up ---- */

static bool
lay_out(struct forward90 *p, int64_t cols)
{
	struct ca_forward *s = &p->s;
	struct attn *t = s->t;
	int64_t stage, at;

	s->form = (struct ca_form){ .warps = CA90_CONSUMERS / 32, .mt = 1,
				    .cols = cols, .stages = STAGES,
				    .teams = 1,
				    .reached = cols == 128 ? 1.2 : 1 };
	s->form.out = s->out ? ca_wide(t->dv) : 0;
	if (!ca_side_of(t, ATTN_Q, CA90_ROWS, &p->side[ATTN_Q]) ||
	    !ca_side_of(t, ATTN_K, cols, &p->side[ATTN_K]) ||
	    (s->out && !ca_side_of(t, ATTN_V, cols, &p->side[ATTN_V]))) {
		return false;
	}
	p->side[ATTN_K].at = p->side[ATTN_Q].bytes;
	at = p->side[ATTN_K].at + STAGES * p->side[ATTN_K].bytes;
	if (s->out) {
		p->side[ATTN_V].at = at;
		at += STAGES * p->side[ATTN_V].bytes;
	}
	s->lse = 4 * CA90_ROWS * ca_stage_pitch(s->form.out);
	stage = s->lse + 4 * CA90_ROWS;
	p->bars = attn_round_up(at > stage ? at : stage, 8);
	s->smem = p->bars + BARRIERS;
	return s->smem <= t->k->c->arch->smem_bytes;
}

/* Whether these kernels can do it; else cuda_attention_forward.c does. */
static bool
suits(struct forward90 *p)
{
	struct ca_forward *s = &p->s;
	struct attn *t = s->t;

	s->rows = CA90_ROWS;
	s->threads = CA90_CONSUMERS;
	s->thread = "(TID - 128)";
	s->meet = "sync_named(1, 256);";
	s->late = s->out;
	s->blocks = ca_ceil_div(t->queries, CA90_ROWS);
	return t->k->c->arch->wgmma && t->tile != IR_F32 &&
	       t->queries > CA90_FEW && t->keys > CA90_FEW &&
	       (!s->out || t->dv <= CA_MOST_OUT);
}

int64_t
ca_forward90_cols(struct attn *t, struct cu_candidates *w)
{
	static const int64_t cols[] = { 128, 64 };
	struct forward90 p = { .s = ca_forward_of(t) };
	int64_t best = 0;
	size_t i;

	for (i = 0; suits(&p) && i < 2; i++) {
		if (lay_out(&p, cols[i]) &&
		    ca_candidates_add(t, w, &p.s.form, p.s.rows,
				      ca_forward_products(&p.s))) {
			best = cols[i];
		}
	}
	return best;
}

/* ---- the warpgroup that copies ---- */

/* C text: a barrier of ring `in` and its stage `stage`; and the stage
 * itself. */
static const char *
bar(struct forward90 *p, uint32_t in, bool empty, const char *stage)
{
	return arena_printf(p->s.f.k->c->a, "bars + %d + 8 * (%s)",
			    8 + 16 * STAGES * (in == ATTN_V) +
			    8 * STAGES * empty, stage);
}

static const char *
place(struct forward90 *p, uint32_t in, const char *stage)
{
	return arena_printf(p->s.f.k->c->a, "sm + %lld + %lld * (%s)",
			    (long long)p->side[in].at,
			    (long long)p->side[in].bytes, stage);
}

static void
put_barriers(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "const u32 sm = smem_addr(SMEM);");
	cu_line(f, "const u32 bars = sm + %lld;", (long long)p->bars);
	cu_line(f, "if (TID == 0) {");
	cu_line(f, "mbar_init(bars, 1);");
	cu_line(f, "for (int i = 0; i < %d; i++) {", STAGES);
	cu_line(f, "mbar_init(%s, 1);", bar(p, ATTN_K, false, "i"));
	cu_line(f, "mbar_init(%s, %d);", bar(p, ATTN_K, true, "i"),
		CA90_CONSUMERS / 32);
	if (p->s.out) {
		cu_line(f, "mbar_init(%s, 1);", bar(p, ATTN_V, false, "i"));
		cu_line(f, "mbar_init(%s, %d);", bar(p, ATTN_V, true, "i"),
			CA90_CONSUMERS / 32);
	}
	cu_line(f, "}");
	cu_line(f, "fence_mbar_init();");
	cu_line(f, "}");
	cu_line(f, "sync_block();");
}

static void
put_producer(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;
	uint32_t in;

	cu_line(f, "regs_fewer(40);");
	cu_line(f, "if (TID == 0 && tiles > 0) {");
	cu_line(f, "mbar_expect(bars, %lld);",
		(long long)p->side[ATTN_Q].bytes);
	ca_side_load(f, p->s.t, &p->side[ATTN_Q], "sm", "bars", "row0");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int t = 0; t < tiles; t++) {");
	cu_comment(f, "The first round does not wait: the phase before the "
		   "first one has ended.");
	cu_line(f, "const int stage = t %% %d, parity = ~(t / %d) & 1;",
		STAGES, STAGES);
	cu_line(f, "const int key0 = begin + t * %lld;",
		(long long)p->s.form.cols);
	for (in = ATTN_K; in <= (p->s.out ? ATTN_V : ATTN_K); in++) {
		cu_line(f, "mbar_wait(%s, parity);",
			bar(p, in, true, "stage"));
		cu_line(f, "mbar_expect(%s, %lld);",
			bar(p, in, false, "stage"),
			(long long)p->side[in].bytes);
		ca_side_load(f, p->s.t, &p->side[in], place(p, in, "stage"),
			     bar(p, in, false, "stage"), "key0");
	}
	cu_close(f, 2);
}

/* ---- those that multiply ---- */

static void
wait_full(struct forward90 *p, uint32_t in, const char *tile)
{
	struct arena *a = p->s.f.k->c->a;

	cu_line(&p->s.f, "mbar_wait(%s, (%s) / %d & 1);",
		bar(p, in, false, arena_printf(a, "(%s) %% %d", tile,
					       STAGES)),
		tile, STAGES);
}

/* Frees a stage.  Each warp arrives, since it has waited for its own part of
 * the products alone. */
static void
release(struct forward90 *p, uint32_t in, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "mbar_arrive(%s);",
		bar(p, in, true, arena_printf(f->k->c->a, "(%s) %% %d", tile,
					      STAGES)));
	cu_line(f, "}");
}

/* s = q k^T, of tile `tile`. */
static void
put_scores(struct forward90 *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "{");
	cu_line(f, "const u64 y = wg_desc(%s, 16, 1024, 128);",
		place(p, ATTN_K, arena_printf(f->k->c->a, "(%s) %% %d", tile,
					      STAGES)));
	ca_wg_pairs(f, p->s.t, "s", &p->side[ATTN_Q], "x", &p->side[ATTN_K],
		    "y");
	cu_line(f, "}");
}

/* o += p v, of tile `tile`. */
static void
put_values(struct forward90 *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "{");
	cu_line(f, "const u64 y = wg_desc(%s, %lld, 1024, 128);",
		place(p, ATTN_V, arena_printf(f->k->c->a, "(%s) %% %d", tile,
					      STAGES)),
		(long long)(p->side[ATTN_V].rows * CA90_BOX_ROW));
	ca_wg_on(f, p->s.t, "o", p->s.form.out, "p", &p->side[ATTN_V], "y");
	cu_line(f, "}");
}

/* Without a mask key0 is not used. */
static void
open_tile(struct forward90 *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "f32 s[1][%lld][4];", (long long)(p->s.form.cols / 8));
	cu_line(f, "const int key0 = begin + %s * %lld;", tile,
		(long long)p->s.form.cols);
	cu_line(f, "(void)key0;");
}

/* The first tile, whose scores overlap with nothing. */
static void
first_tile(struct forward90 *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	open_tile(p, tile);
	wait_full(p, ATTN_K, tile);
	cu_line(f, "wg_fence();");
	put_scores(p, tile);
	ca_wg_wait(f, 0, "s", p->s.form.cols);
	release(p, ATTN_K, tile);
	ca_forward_weigh(&p->s);
}

static void
next_tile(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;

	open_tile(p, "t");
	wait_full(p, ATTN_K, "t");
	cu_line(f, "wg_fence();");
	put_scores(p, "t");
	wait_full(p, ATTN_V, "t - 1");
	put_values(p, "t - 1");
	ca_wg_wait(f, 1, "s", p->s.form.cols);
	release(p, ATTN_K, "t");
	ca_forward_weigh(&p->s);
	cu_line(f, "wg_made(sum[0][0] + sum[0][1]);");
	ca_wg_wait(f, 0, "o", p->s.form.out);
	release(p, ATTN_V, "t - 1");
	ca_unrolled_for(f, "j", p->s.form.out / 8);
	ca_unrolled_for(f, "e", 4);
	cu_line(f, "o[0][j][e] *= fades[0][e / 2];");
	cu_close(f, 2);
	ca_wg_pack(f, p->s.t, "p", "s", p->s.form.cols);
}

static void
each_tile(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;
	long long cols = (long long)p->s.form.cols;

	cu_line(f, "const u64 x = wg_desc(sm + %d * (WARP / 4 - 1), 16, 1024, "
		"128);", CA90_GROUP_ROWS * CA90_BOX_ROW);
	cu_line(f, "mbar_wait(bars, 0);");
	if (!p->s.out) {
		buf_puts(&f->text, "#pragma unroll 1\n");
		cu_line(f, "for (int t = 0; t < tiles; t++) {");
		first_tile(p, "t");
		cu_line(f, "}");
		return;
	}
	cu_line(f, "f32 fades[1][2];");
	cu_line(f, "u32 p[%lld][4];", cols / 16);
	cu_line(f, "{");
	first_tile(p, "0");
	ca_wg_pack(f, p->s.t, "p", "s", p->s.form.cols);
	cu_line(f, "}");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int t = 1; t < tiles; t++) {");
	next_tile(p);
	cu_line(f, "}");
	wait_full(p, ATTN_V, "tiles - 1");
	cu_line(f, "wg_fence();");
	put_values(p, "tiles - 1");
	ca_wg_wait(f, 0, "o", p->s.form.out);
}

static bool
put_consumers(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;

	/* 128 threads of 40 and 256 of 232: 64512 of 65536 registers */
	cu_line(f, "regs_more(232);");
	cu_comment(f, "rows g and g + 8 of the warp's 16 are this thread's");
	cu_line(f, "const int g = LANE / 4;");
	cu_line(f, "const int wrow = (WARP - 4) * 16;");
	ca_forward_begin(&p->s);
	cu_line(f, "if (tiles > 0) {");
	each_tile(p);
	cu_line(f, "}");
	cu_comment(f, "Results overwrite what both warpgroups are done with.");
	cu_line(f, "%s", p->s.meet);
	return ca_forward_put(&p->s);
}

/* ---- all of it ---- */

bool
ca_forward90(struct attn *t, int64_t cols)
{
	struct forward90 p = { .s = ca_forward_of(t) };
	struct cu_func *f = &p.s.f;
	uint32_t i;
	bool done;

	if (!suits(&p) || !lay_out(&p, cols)) {
		die("%lld columns were a candidate", (long long)cols);
	}
	cu_func_begin(t->k, "attention", f);
	for (i = ATTN_Q; i <= (p.s.out ? ATTN_V : ATTN_K); i++) {
		VEC_PUSH(t->k->c->a, &f->grid->maps, p.side[i].map);
	}
	ca_forward_open(&p.s);
	f->grid->threads = CA90_PRODUCER + CA90_CONSUMERS;
	ca_forward_place(&p.s);
	ca_forward_keys(&p.s);
	cu_line(f, "const int tiles = (end - begin + %lld) / %lld;",
		(long long)(p.s.form.cols - 1), (long long)p.s.form.cols);
	put_barriers(&p);
	cu_line(f, "if (TID < %d) {", CA90_PRODUCER);
	put_producer(&p);
	cu_line(f, "} else {");
	done = put_consumers(&p);
	cu_line(f, "}");
	if (done) {
		cu_func_end(f);
	}
	return done;
}

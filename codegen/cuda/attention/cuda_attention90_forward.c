/*
 * Attention forward with the copying unit: with wgmma (sm_90a), as
 * FlashAttention-3 (Shah et al. 2024); what differs with tcgen05 (sm_100a) is
 * in cuda_attention90_tensor.c.  An item is 128 queries of a head; a block
 * takes one item after another.  One warpgroup orders copies of queries,
 * and of tiles of keys and values into rings of two stages, those of the next
 * item too; two multiply, 64 queries each.  Scores of the next tile are
 * computed before the values of the last one are summed, and become weights
 * meanwhile.  The two warpgroups take turns in ordering products, so that one
 * computes exponentials while the other multiplies.
 *
 * Rings are synchronized as in cuda_dot90_text.c: the copying unit writes a
 * stage after `empty` shows that both warpgroups are done with it, and wgmma
 * reads it after `full` has counted its bytes; no fence is needed.
 */
#include "codegen/cuda/attention/cuda_attention90_forward.h"

#define BARRIERS 128		/* bytes */

/* The shares of mma's rate are guesses: 0.6 of wgmma's, which is twice as much,
 * and 0.75 of tcgen05's, four times as much.  Products with 64 keys by tcgen05
 * read more of the shared memory in a cycle than it has. */
static const struct ca90_unit wgmma = {
	.part = CA90_GROUP_ROWS, .tiles = 1, .arrivals = CA90_CONSUMERS / 32,
	.reached = { 1.2, 1 }
}, tcgen05 = {
	.tensor = true, .part = 2 * CA90_GROUP_ROWS, .tiles = 2, .arrivals = 1,
	.reached = { 3, 2.4 }
};

/* ---- how it is cut up ---- */

static bool
lay_out(struct ca90_forward *p, int64_t cols)
{
	struct ca_forward *s = &p->s;
	struct attn *t = s->t;
	int64_t stage, at;

	s->form = (struct ca_form){ .warps = CA90_CONSUMERS / 32,
				    .mt = p->unit->tiles,
				    .cols = cols, .stages = CA90_STAGES,
				    .teams = 1,
				    .reached = p->unit->reached[cols < 128] };
	s->form.out = s->out ? ca_wide(t->dv) : 0;
	if (!ca_side_of(t, ATTN_Q, s->rows, &p->side[ATTN_Q]) ||
	    !ca_side_of(t, ATTN_K, cols, &p->side[ATTN_K]) ||
	    (s->out && !ca_side_of(t, ATTN_V, cols, &p->side[ATTN_V]))) {
		return false;
	}
	p->side[ATTN_K].at = p->side[ATTN_Q].bytes;
	at = p->side[ATTN_K].at + CA90_STAGES * p->side[ATTN_K].bytes;
	if (s->out) {
		p->side[ATTN_V].at = at;
		at += CA90_STAGES * p->side[ATTN_V].bytes;
	}
	stage = s->out ? 4 * s->rows * ca_stage_pitch(s->form.out) : 0;
	p->lasts = attn_round_up(at + stage + 4 * s->rows, 8) + BARRIERS <=
		   t->k->c->arch->smem_bytes;
	s->stage = p->lasts ? at : 0;
	s->lse = s->stage + stage;
	stage = s->lse + 4 * s->rows;
	p->bars = attn_round_up(at > stage ? at : stage, 8);
	s->smem = p->bars + BARRIERS;
	return s->smem <= t->k->c->arch->smem_bytes;
}

/* Whether these kernels can do it; else cuda_attention_forward.c does. */
static bool
suits(struct ca90_forward *p)
{
	struct ca_forward *s = &p->s;
	struct attn *t = s->t;

	p->unit = t->k->c->arch->tcgen05 ? &tcgen05 : &wgmma;
	s->rows = 2 * p->unit->part;
	s->threads = CA90_CONSUMERS / 2;
	s->thread = "(TID % 128)";
	s->meet = "sync_named(1 + group, 128);";
	s->part = p->unit->part;
	s->nth = "group";
	s->late = s->out && p->unit->tensor;
	s->blocks = ca_ceil_div(t->queries, s->rows);
	return (t->k->c->arch->wgmma || p->unit->tensor) &&
	       t->tile != IR_F32 &&
	       t->queries > CA90_FEW && t->keys > CA90_FEW &&
	       (!s->out || t->dv <= CA_MOST_OUT);
}

int64_t
ca_forward90_cols(struct attn *t, struct cu_candidates *w)
{
	static const int64_t cols[] = { 128, 64 };
	struct ca90_forward p = { .s = ca_forward_of(t) };
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

/* ---- barriers ---- */

/* A commit of products says nothing of what threads have read: with tcgen05
 * the warps that have read which item it is arrive as well. */
static int64_t
query_arrivals(const struct ca90_forward *p)
{
	return p->unit->arrivals + (p->takes && p->unit->tensor
				    ? 1 + CA90_CONSUMERS / 32 : 0);
}

static void
put_barriers(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;
	uint32_t in;

	cu_line(f, "const u32 sm = smem_addr(SMEM);");
	cu_line(f, "const u32 bars = sm + %lld;", (long long)p->bars);
	cu_line(f, "if (TID == 0) {");
	cu_fetch_maps(f);
	cu_line(f, "for (int i = 0; i < %d; i++) {", CA90_STAGES);
	for (in = ATTN_Q; in <= (p->s.out ? ATTN_V : ATTN_K); in++) {
		if (in == ATTN_Q) {
			cu_line(f, "if (i == 0) {");
		}
		cu_line(f, "mbar_init(%s, 1);", ca90_bar(p, in, false, "i"));
		cu_line(f, "mbar_init(%s, %lld);", ca90_bar(p, in, true, "i"),
			(long long)(in == ATTN_Q ? query_arrivals(p)
				    : p->unit->arrivals));
		if (in == ATTN_Q) {
			cu_line(f, "}");
		}
	}
	cu_line(f, "}");
	if (p->unit->tensor) {
		ca90_tensor_bars(p);
	}
	cu_line(f, "fence_mbar_init();");
	cu_line(f, "}");
	if (p->unit->tensor) {
		ca90_tensor_open(p);
	} else {
		cu_line(f, "sync_block();");
	}
	cu_launch_wait(f);
}

/* ---- the warpgroup that copies ---- */

/* Orders a copy into a stage once it is free.  The first time that a stage is
 * used this does not wait: the phase before the first one has ended. */
static void
put_copy(struct ca90_forward *p, uint32_t in, const char *parity,
	 const char *pos)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "mbar_wait(%s, %s);", ca90_bar(p, in, true, "stage"),
		parity);
	if (in == ATTN_Q) {
		ca90_say_item(p);
	}
	cu_line(f, "mbar_expect(%s, %lld);", ca90_bar(p, in, false, "stage"),
		(long long)p->side[in].bytes);
	ca_side_load(f, p->s.t, &p->side[in], ca90_place(p, in, "stage"),
		     ca90_bar(p, in, false, "stage"), pos);
}

static void
put_producer(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "regs_fewer(%d);", p->unit->tensor ? CA_TC_FEWER : 40);
	cu_line(f, "if (TID < 32) {");
	cu_line(f, "u32 slot = 0;");
	cu_line(f, "int turn = 1;");
	ca90_open_taking(p);
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int t = 0; t < tiles; t++) {");
	cu_line(f, "const u32 stage = (slot + t) %% %d;", CA90_STAGES);
	cu_line(f, "const int parity = ~((slot + t) / %d) & 1;", CA90_STAGES);
	cu_line(f, "const int key0 = begin + t * %lld;",
		(long long)p->s.form.cols);
	put_copy(p, ATTN_K, "parity", "key0");
	cu_line(f, "if (t == 0) {");
	put_copy(p, ATTN_Q, "turn", "row0");
	cu_line(f, "}");
	if (p->s.out) {
		put_copy(p, ATTN_V, "parity", "key0");
	}
	cu_line(f, "}");
	ca90_close_taking(p);
	cu_line(f, "}");
}

/* ---- those that multiply ---- */

/* Frees a stage.  Each warp arrives, since it has waited for its own part of
 * the products alone. */
static void
release(struct ca90_forward *p, uint32_t in, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "mbar_arrive(%s);",
		ca90_bar(p, in, true, ca90_stage_of(p, tile)));
	cu_line(f, "}");
}

/* s = q k^T, of tile `tile`. */
static void
put_scores(struct ca90_forward *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "{");
	cu_line(f, "const u64 y = wg_desc(%s, 16, 1024, 128);",
		ca90_place(p, ATTN_K, ca90_stage_of(p, tile)));
	ca_wg_pairs(f, p->s.t, "s", &p->side[ATTN_Q], "x", &p->side[ATTN_K],
		    "y");
	cu_line(f, "}");
}

/* o += p v, of tile `tile`. */
static void
put_values(struct ca90_forward *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "{");
	cu_line(f, "const u64 y = wg_desc(%s, %lld, 1024, 128);",
		ca90_place(p, ATTN_V, ca90_stage_of(p, tile)),
		(long long)(p->side[ATTN_V].rows * CA90_BOX_ROW));
	ca_wg_on(f, p->s.t, "o", p->s.form.out, "p", &p->side[ATTN_V], "y");
	cu_line(f, "}");
}

/* Without a mask key0 is not used. */
static void
open_tile(struct ca90_forward *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "f32 s[1][%lld][4];", (long long)(p->s.form.cols / 8));
	cu_line(f, "const int key0 = begin + %s * %lld;", tile,
		(long long)p->s.form.cols);
	cu_line(f, "(void)key0;");
}

/* The first tile, whose scores overlap with nothing. */
static void
first_tile(struct ca90_forward *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	open_tile(p, tile);
	ca90_wait_full(p, ATTN_K, tile);
	cu_line(f, "wg_fence();");
	put_scores(p, tile);
	ca_wg_wait(f, 0, "s", p->s.form.cols);
	release(p, ATTN_K, tile);
	ca90_weigh(p, p->s.out);
}

/*
 * The products of a turn are ordered one after another.  Then the other
 * warpgroup orders its own, and this one computes weights.
 */
static void
next_tile(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	open_tile(p, "t");
	ca90_wait_full(p, ATTN_K, "t");
	ca90_wait_full(p, ATTN_V, "t - 1");
	cu_line(f, "sync_named(3 + group, 256);");
	cu_line(f, "wg_fence();");
	put_scores(p, "t");
	put_values(p, "t - 1");
	cu_line(f, "arrive_named(4 - group, 256);");
	ca_wg_wait(f, 1, "s", p->s.form.cols);
	release(p, ATTN_K, "t");
	ca90_weigh(p, false);
	cu_line(f, "wg_made(sum[0][0] + sum[0][1]);");
	ca_wg_wait(f, 0, "o", p->s.form.out);
	release(p, ATTN_V, "t - 1");
	cu_line(f, "if (rises) {");
	ca_unrolled_for(f, "j", p->s.form.out / 8);
	ca_unrolled_for(f, "e", 4);
	cu_line(f, "o[0][j][e] *= fades[e / 2];");
	cu_close(f, 3);
	ca_wg_pack(f, p->s.t, "p", "s", p->s.form.cols);
}

/* The queries are free again once there are all scores. */
static void
each_tile(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;
	long long cols = (long long)p->s.form.cols;

	if (!p->s.out) {
		buf_puts(&f->text, "#pragma unroll 1\n");
		cu_line(f, "for (int t = 0; t < tiles; t++) {");
		first_tile(p, "t");
		cu_line(f, "}");
		ca90_free_queries(p);
		return;
	}
	cu_line(f, "u32 p[%lld][4];", cols / 16);
	cu_line(f, "{");
	first_tile(p, "0");
	ca_wg_pack(f, p->s.t, "p", "s", p->s.form.cols);
	cu_line(f, "}");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int t = 1; t < tiles; t++) {");
	next_tile(p);
	cu_line(f, "}");
	ca90_free_queries(p);
	ca90_wait_full(p, ATTN_V, "tiles - 1");
	cu_line(f, "wg_fence();");
	put_values(p, "tiles - 1");
	ca_wg_wait(f, 0, "o", p->s.form.out);
	release(p, ATTN_V, "tiles - 1");
}

/* What a block makes of an item. */
static bool
put_item(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;

	if (p->s.out) {
		cu_line(f, "const int out0 = 0;");
		ca_declare_zeros(f, &p->s.form, "o", p->s.form.out);
	}
	ca_forward_begin(&p->s);
	ca90_weigh_begin(p);
	cu_line(f, "f32 fades[2];");
	ca90_wait_queries(p);
	cu_line(f, "if (tiles > 0) {");
	each_tile(p);
	cu_line(f, "} else {");
	ca90_free_queries(p);
	cu_line(f, "}");
	cu_line(f, "slot += (u32)tiles;");
	cu_line(f, "turn ^= 1;");
	return ca90_put_results(p);
}

static bool
put_consumers(struct ca90_forward *p)
{
	struct cu_func *f = &p->s.f;
	bool done;

	/* 128 threads of 40 and 256 of 232: 64512 of 65536 registers */
	cu_line(f, "regs_more(232);");
	cu_comment(f, "rows g and g + 8 of the warp's 16 are this thread's");
	cu_line(f, "const int g = LANE / 4;");
	cu_line(f, "const int wrow = (WARP - 4) * 16;");
	ca90_declare_group(f);
	cu_line(f, "const u64 x = wg_desc(sm + %d * group, 16, 1024, 128);",
		CA90_GROUP_ROWS * CA90_BOX_ROW);
	cu_line(f, "u32 slot = 0;");
	cu_line(f, "int turn = 0;");
	if (p->s.out) {
		cu_comment(f, "The first turn is that of group 0.");
		cu_line(f, "if (group == 1) {");
		cu_line(f, "arrive_named(3, 256);");
		cu_line(f, "}");
	}
	ca90_open_items(p);
	done = put_item(p);
	cu_line(f, "}");
	if (p->s.out) {
		cu_comment(f, "The last turn of group 1 gave it back.");
		cu_line(f, "if (group == 0) {");
		cu_line(f, "sync_named(3, 256);");
		cu_line(f, "}");
	}
	return done;
}

/* ---- all of it ---- */

bool
ca_forward90(struct attn *t, int64_t cols)
{
	struct ca90_forward p = { .s = ca_forward_of(t) };
	struct cu_func *f = &p.s.f;
	uint32_t i;
	bool done;

	if (!suits(&p) || !lay_out(&p, cols)) {
		die("%lld columns were a candidate", (long long)cols);
	}
	cu_func_begin(t->k, p.s.out ? "attention" : "attention_logs", f);
	for (i = ATTN_Q; i <= (p.s.out ? ATTN_V : ATTN_K); i++) {
		VEC_PUSH(t->k->c->a, &f->grid->maps, p.side[i].map);
	}
	ca_forward_open(&p.s);
	if (!p.unit->tensor && cols == COST_JOINT_KEYS && p.s.out) {
		cu_comment(f, "a tile that no mask cuts: some %.0f issue slots "
			   "of a thread", cost_forward_slots((double)t->d,
			   (double)t->dv) / 2);
	}
	ca90_share_out(&p);
	f->grid->threads = CA90_PRODUCER + CA90_CONSUMERS;
	f->grid->blocks[0] = p.blocks;
	put_barriers(&p);
	cu_line(f, "if (TID < %d) {", CA90_PRODUCER);
	put_producer(&p);
	if (p.unit->tensor) {
		ca90_tensor_multiply(&p);
		/* lanes must converge before the barrier that follows */
		cu_line(f, "sync_warp();");
	}
	cu_line(f, "} else {");
	done = p.unit->tensor ? ca90_tensor_weigh(&p) : put_consumers(&p);
	cu_line(f, "}");
	if (p.unit->tensor) {
		ca_tc_close(f);
	}
	if (done) {
		cu_func_end(f);
	}
	return done;
}

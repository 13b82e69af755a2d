/*
 * Attention forward with wgmma and the copying unit (sm_90a), as
 * FlashAttention-3 (Shah et al. 2024).  An item is 128 queries of a head; a
 * block takes one item after another.  One warpgroup orders copies of queries,
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
#include "codegen/cuda/attention/cuda_attention90.h"
#include "codegen/cuda/attention/cuda_attention_forward.h"

#define STAGES 2
#define BARRIERS 128		/* bytes */
/* Keys and values that items are allowed to read again and again before others
 * begin: they stay in the L2 cache, which has 50 MB. */
#define CACHED_BYTES (INT64_C(32) << 20)

struct forward90 {
	struct ca_forward s;
	struct ca_side side[3];		/* ATTN_Q, ATTN_K, ATTN_V */
	int64_t bars;			/* bytes, in shared memory */
	/* Sums are staged beside the tiles, and a block takes several items;
	 * else there is no space for both. */
	bool lasts;
	int64_t items, blocks, heads;	/* heads of a section */
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
	stage = s->out ? 4 * CA90_ROWS * ca_stage_pitch(s->form.out) : 0;
	p->lasts = attn_round_up(at + stage + 4 * CA90_ROWS, 8) + BARRIERS <=
		   t->k->c->arch->smem_bytes;
	s->stage = p->lasts ? at : 0;
	s->lse = s->stage + stage;
	stage = s->lse + 4 * CA90_ROWS;
	p->bars = attn_round_up(at > stage ? at : stage, 8);
	s->smem = p->bars + BARRIERS;
	return s->smem <= t->k->c->arch->smem_bytes;
}

/* How items are ordered and given to blocks. */
static void
share_out(struct forward90 *p)
{
	struct ca_forward *s = &p->s;
	const struct attn *t = s->t;
	int64_t units = t->k->c->units;
	int64_t all = t->heads * t->batches;
	/* bytes of keys and values for each of the queries' heads */
	int64_t bytes = 2 * t->keys * (t->d + t->dv) / t->shared;

	p->items = s->blocks * all;
	p->blocks = p->lasts && units < p->items ? units : p->items;
	p->heads = CACHED_BYTES / (bytes > 0 ? bytes : 1);
	p->heads = p->heads < 1 ? 1 : p->heads < all ? p->heads : all;
}

/* Whether these kernels can do it; else cuda_attention_forward.c does. */
static bool
suits(struct forward90 *p)
{
	struct ca_forward *s = &p->s;
	struct attn *t = s->t;

	s->rows = CA90_ROWS;
	s->threads = CA90_CONSUMERS / 2;
	s->thread = "(TID % 128)";
	s->meet = "sync_named(1 + group, 128);";
	s->part = CA90_GROUP_ROWS;
	s->nth = "group";
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

/* ---- items ---- */

/*
 * Opens the loop over a block's items, and declares where the item is: head,
 * bat, row0, live, kv, its keys, and tiles of them.  In a section of heads,
 * whose keys stay in the cache, the last queries see most keys and come first;
 * every second round of all blocks is in the opposite order, so that no block
 * has the longest item of each.
 */
static void
open_items(struct forward90 *p)
{
	struct ca_forward *s = &p->s;
	struct cu_func *f = &s->f;
	const struct attn *t = s->t;
	long long all = (long long)(t->heads * t->batches);
	long long heads = (long long)p->heads, blocks = (long long)s->blocks;

	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int i = 0; i < %lld; i += NBLOCKS_X) {",
		(long long)p->items);
	cu_line(f, "const int item = i + (i / NBLOCKS_X %% 2 ? NBLOCKS_X - 1 - "
		"BLOCK_X : BLOCK_X);");
	cu_line(f, "if (item >= %lld) {", (long long)p->items);
	cu_line(f, "break;");
	cu_line(f, "}");
	cu_line(f, "const int section = item / %lld, in = item %% %lld;",
		heads * blocks, heads * blocks);
	if (all % heads) {
		cu_line(f, "const int wide = ca_min(%lld, %lld - section * "
			"%lld);", heads, all, heads);
	} else {
		cu_line(f, "const int wide = %lld;", heads);
	}
	cu_line(f, "const int nth = section * %lld + in %% wide;", heads);
	cu_line(f, "const int head = nth %% %lld, bat = nth / %lld;",
		(long long)t->heads, (long long)t->heads);
	cu_line(f, "const int row0 = (%lld - in / wide) * %lld;", blocks - 1,
		(long long)s->rows);
	cu_line(f, "const int live = ca_min(%lld, %lld - row0);",
		(long long)s->rows, (long long)t->queries);
	cu_line(f, "const int kv = %s;", ca_kv_head(f, t, "head"));
	ca_forward_keys(s);
	cu_line(f, "(void)head, (void)bat, (void)kv%s;", attn_is_masked(t)
		? ", (void)sure_from, (void)sure_to" : "");
	cu_line(f, "const int tiles = (end - begin + %lld) / %lld;",
		(long long)(s->form.cols - 1), (long long)s->form.cols);
}

/* ---- barriers ---- */

/* C text: a barrier of ring `in` and its stage `stage`; and the stage
 * itself.  Queries have one stage. */
static const char *
bar(struct forward90 *p, uint32_t in, bool empty, const char *stage)
{
	if (in == ATTN_Q) {
		return empty ? "bars + 8" : "bars";
	}
	return arena_printf(p->s.f.k->c->a, "bars + %d + 8 * (%s)",
			    16 + 16 * STAGES * (in == ATTN_V) +
			    8 * STAGES * empty, stage);
}

static const char *
place(struct forward90 *p, uint32_t in, const char *stage)
{
	if (in == ATTN_Q) {
		return "sm";
	}
	return arena_printf(p->s.f.k->c->a, "sm + %lld + %lld * (%s)",
			    (long long)p->side[in].at,
			    (long long)p->side[in].bytes, stage);
}

static void
put_barriers(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;
	uint32_t in;

	cu_line(f, "const u32 sm = smem_addr(SMEM);");
	cu_line(f, "const u32 bars = sm + %lld;", (long long)p->bars);
	cu_line(f, "if (TID == 0) {");
	cu_line(f, "for (int i = 0; i < %d; i++) {", STAGES);
	for (in = ATTN_Q; in <= (p->s.out ? ATTN_V : ATTN_K); in++) {
		if (in == ATTN_Q) {
			cu_line(f, "if (i == 0) {");
		}
		cu_line(f, "mbar_init(%s, 1);", bar(p, in, false, "i"));
		cu_line(f, "mbar_init(%s, %d);", bar(p, in, true, "i"),
			CA90_CONSUMERS / 32);
		if (in == ATTN_Q) {
			cu_line(f, "}");
		}
	}
	cu_line(f, "}");
	cu_line(f, "fence_mbar_init();");
	cu_line(f, "}");
	cu_line(f, "sync_block();");
}

/* C text: the place in a ring of tile `tile` of this item; `slot` tiles came
 * before the item. */
static const char *
slot(struct forward90 *p, const char *tile)
{
	return arena_printf(p->s.f.k->c->a, "(slot + %s)", tile);
}

static const char *
stage_of(struct forward90 *p, const char *tile)
{
	return arena_printf(p->s.f.k->c->a, "%s %% %d", slot(p, tile),
			    STAGES);
}

/* ---- the warpgroup that copies ---- */

/* Orders a copy into a stage once it is free.  The first time that a stage is
 * used this does not wait: the phase before the first one has ended. */
static void
put_copy(struct forward90 *p, uint32_t in, const char *parity, const char *pos)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "mbar_wait(%s, %s);", bar(p, in, true, "stage"), parity);
	cu_line(f, "mbar_expect(%s, %lld);", bar(p, in, false, "stage"),
		(long long)p->side[in].bytes);
	ca_side_load(f, p->s.t, &p->side[in], place(p, in, "stage"),
		     bar(p, in, false, "stage"), pos);
}

static void
put_producer(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "regs_fewer(40);");
	cu_line(f, "if (TID < 32) {");
	cu_line(f, "u32 slot = 0;");
	cu_line(f, "int turn = 1;");
	open_items(p);
	cu_line(f, "if (LANE == 0 && tiles > 0) {");
	buf_puts(&f->text, "#pragma unroll 1\n");
	cu_line(f, "for (int t = 0; t < tiles; t++) {");
	cu_line(f, "const u32 stage = (slot + t) %% %d;", STAGES);
	cu_line(f, "const int parity = ~((slot + t) / %d) & 1;", STAGES);
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
	cu_line(f, "slot += (u32)tiles;");
	cu_line(f, "turn ^= 1;");
	cu_close(f, 3);
}

/* ---- those that multiply ---- */

static void
wait_full(struct forward90 *p, uint32_t in, const char *tile)
{
	cu_line(&p->s.f, "mbar_wait(%s, %s / %d & 1);",
		bar(p, in, false, stage_of(p, tile)), slot(p, tile), STAGES);
}

/* Frees a stage.  Each warp arrives, since it has waited for its own part of
 * the products alone. */
static void
release(struct forward90 *p, uint32_t in, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "mbar_arrive(%s);", bar(p, in, true, stage_of(p, tile)));
	cu_line(f, "}");
}

/* s = q k^T, of tile `tile`. */
static void
put_scores(struct forward90 *p, const char *tile)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "{");
	cu_line(f, "const u64 y = wg_desc(%s, 16, 1024, 128);",
		place(p, ATTN_K, stage_of(p, tile)));
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
		place(p, ATTN_V, stage_of(p, tile)),
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

/*
 * The products of a turn are ordered one after another.  Then the other
 * warpgroup orders its own, and this one computes weights.
 */
static void
next_tile(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;

	open_tile(p, "t");
	wait_full(p, ATTN_K, "t");
	wait_full(p, ATTN_V, "t - 1");
	cu_line(f, "sync_named(3 + group, 256);");
	cu_line(f, "wg_fence();");
	put_scores(p, "t");
	put_values(p, "t - 1");
	cu_line(f, "arrive_named(4 - group, 256);");
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

/* The queries are free again once there are all scores. */
static void
release_queries(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "if (LANE == 0) {");
	cu_line(f, "mbar_arrive(%s);", bar(p, ATTN_Q, true, ""));
	cu_line(f, "}");
}

static void
each_tile(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;
	long long cols = (long long)p->s.form.cols;

	cu_line(f, "mbar_wait(%s, turn);", bar(p, ATTN_Q, false, ""));
	if (!p->s.out) {
		buf_puts(&f->text, "#pragma unroll 1\n");
		cu_line(f, "for (int t = 0; t < tiles; t++) {");
		first_tile(p, "t");
		cu_line(f, "}");
		release_queries(p);
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
	release_queries(p);
	wait_full(p, ATTN_V, "tiles - 1");
	cu_line(f, "wg_fence();");
	put_values(p, "tiles - 1");
	ca_wg_wait(f, 0, "o", p->s.form.out);
	release(p, ATTN_V, "tiles - 1");
}

/* What a block makes of an item. */
static bool
put_item(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;

	if (p->s.out) {
		cu_line(f, "const int out0 = 0;");
	}
	ca_forward_begin(&p->s);
	cu_line(f, "if (tiles > 0) {");
	each_tile(p);
	cu_line(f, "slot += (u32)tiles;");
	cu_line(f, "turn ^= 1;");
	cu_line(f, "}");
	if (p->lasts) {
		cu_comment(f, "the last results have left shared memory");
		cu_line(f, "%s", p->s.meet);
	} else {
		cu_comment(f, "Results overwrite what both warpgroups are done "
			   "with.");
		cu_line(f, "sync_named(5, 256);");
	}
	return ca_forward_put(&p->s);
}

static bool
put_consumers(struct forward90 *p)
{
	struct cu_func *f = &p->s.f;
	bool done;

	/* 128 threads of 40 and 256 of 232: 64512 of 65536 registers */
	cu_line(f, "regs_more(232);");
	cu_comment(f, "rows g and g + 8 of the warp's 16 are this thread's");
	cu_line(f, "const int g = LANE / 4;");
	cu_line(f, "const int wrow = (WARP - 4) * 16, group = WARP / 4 - 1;");
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
	open_items(p);
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
	struct forward90 p = { .s = ca_forward_of(t) };
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
	share_out(&p);
	f->grid->threads = CA90_PRODUCER + CA90_CONSUMERS;
	f->grid->blocks[0] = p.blocks;
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

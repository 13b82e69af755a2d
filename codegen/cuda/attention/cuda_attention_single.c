/*
 * Attention of single queries, with mma: keys of one query for all heads of a
 * kv head, which are the rows of tiles.  So keys and values are read once for
 * these heads, where they lie, and by several blocks at the same time.  Tiles
 * are loaded while others are multiplied, with as many on their way as fit, as
 * memory is what limits this.
 *
 * Each number is computed by the operations of a block of queries
 * (cuda_attention_forward.c) in their order, so a query's bits do not depend on
 * which of both computes it.  Rows of keys that it does not see are zeros here.
 *
 * Results that are wider than a warp's sums are made by several items, each of
 * which computes the scores; of latents, by warps of one item that share them.
 */
#include "codegen/cuda/attention/cuda_attention_single.h"

#define PAIR_WARPS 4		/* warps with 255 registers, of two blocks */
#define MOST_STAGES 4

/* ---- how it is cut up ---- */

static void
lay_out(struct ca_single *x, int64_t stages)
{
	struct ca_forward *s = &x->s;
	struct attn *t = s->t;

	s->smem = 0;
	s->q = ca_place_tile(t, &s->smem, s->rows, t->d);
	s->k = ca_place_tile(t, &s->smem, s->form.cols, t->d);
	s->v = s->k;
	if (!x->wide) {
		s->v = ca_place_tile(t, &s->smem, s->form.cols, s->form.out);
	}
	s->smem = attn_round_up(s->smem, 16);
	x->stages = stages;
	x->stage_bytes = s->smem - s->k.at;
	s->smem += (stages - 1) * x->stage_bytes;
	s->pass = s->smem;
	s->smem += ca_pass_bytes(t, &s->form);
	x->scores = attn_round_up(s->smem, 16);
	s->smem = x->scores + (x->wide ? 4 * s->rows * s->form.cols : 0);
	ca_parts_place(s);
}

/* As many stages as fit beside those of another block; or as fit at all. */
static bool
choose_stages(struct ca_single *x)
{
	int64_t most = x->s.t->k->c->arch->smem_bytes, n;

	for (n = MOST_STAGES; n > 1 && x->s.form.warps <= PAIR_WARPS; n--) {
		lay_out(x, n);
		if (2 * x->s.smem <= most) {
			return true;
		}
	}
	for (n = MOST_STAGES; n > 0; n--) {
		lay_out(x, n);
		if (x->s.smem <= most) {
			return true;
		}
	}
	return false;
}

/* Whether values are the first columns of keys. */
static bool
is_latent(const struct attn *t)
{
	const struct attn_view *k = &t->in[ATTN_K], *v = &t->in[ATTN_V];

	return t->dv <= t->d && k->memory.stored == v->memory.stored &&
	       k->memory.offset == v->memory.offset &&
	       k->memory.nmoved == 0 && v->memory.nmoved == 0 &&
	       k->index.stored == v->index.stored &&
	       k->index.offset == v->index.offset &&
	       k->index_pos == v->index_pos && k->pos == v->pos &&
	       k->head == v->head && k->col == 1 && v->col == 1 &&
	       k->dtype == v->dtype;
}

/* Lays out items whose warps have so many tiles of 16 heads. */
static bool
lay_out_heads(struct ca_single *x, int64_t tiles)
{
	struct ca_forward *s = &x->s;

	s->form.warps = tiles * (x->wide ? x->outs : 1);
	s->rows = 16 * tiles;
	s->threads = 32 * s->form.warps;
	x->units = ca_ceil_div(s->t->shared, s->rows);
	return choose_stages(x);
}

/* With as many heads as fit: beside two tiles of keys, if warps share
 * scores. */
static void
open_heads(struct ca_single *x)
{
	x->wide = cost_single_is_wide(&x->of);
	/* slopes of heads take registers, too */
	x->s.kept = x->wide && !x->of.slopes;
	if (!lay_out_heads(x, cost_single_tiles(&x->of, x->wide)) ||
	    (x->wide && x->stages < 2)) {
		die("single queries take more shared memory than is counted");
	}
}

struct ca_single *
ca_single_open(const struct ca_forward *s)
{
	struct attn *t = s->t;
	struct ca_single *x = arena_alloc(t->k->c->a, sizeof *x);

	*x = (struct ca_single){ .s = *s, .block = s->rows };
	x->of = (struct cost_single){ .queries = t->queries, .keys = t->keys,
				      .heads = t->heads, .kv = t->kv,
				      .d = t->d, .v = t->dv,
				      .within = is_latent(t),
				      .exact = t->tile == IR_F32,
				      .slopes = t->alibi > 0,
				      .shared_bytes =
					      t->k->c->arch->smem_bytes };
	x->s.form.mt = 1;
	x->s.form.chunk = 0;
	x->s.heads = true;
	x->outs = cost_single_outs(&x->of);
	x->cols = cost_single_cols(&x->of);
	if (!cost_single_fits(&x->of)) {
		return NULL;
	}
	if (cost_single_tile_keys(&x->of) != s->form.cols) {
		die("tiles of %lld keys, where %lld are counted",
		    (long long)s->form.cols,
		    (long long)cost_single_tile_keys(&x->of));
	}
	open_heads(x);
	x->always = cost_single_is_always(&x->of, x->wide);
	x->in = cost_single_scratch(&x->of, x->always);
	x->scratch = attn_alloc_shared(t->g, x->in.bytes);
	return x;
}

/* ---- loads ---- */

static void
load_heads(struct ca_single *x)
{
	struct attn_view view = x->s.t->in[ATTN_Q];
	struct attn *t = x->s.t;
	struct ca_load l = { .from = &view, .to = &x->s.q, .live = "live",
			     .cols = t->d, .threads = x->s.threads };

	l.base = arena_printf(t->k->c->a, "(q + (i64)query * %lld)",
			      (long long)view.pos);
	view.pos = view.head;
	ca_load_tile(&x->s.f, t, &l);
}

/* Loads tile n (C text) of keys, or values. */
static void
load_keys(struct ca_single *x, uint32_t in)
{
	struct arena *a = x->s.t->k->c->a;
	struct attn *t = x->s.t;
	const struct attn_view *v = &t->in[in];
	bool k = in == ATTN_K;
	struct ca_load l = { .from = v, .to = k ? &x->s.k : &x->s.v,
			     .base = k ? "k" : "v", .low = "from - next",
			     .live = "(end - next)", .stage = "stage",
			     .col = k ? NULL : "out0",
			     .cols = k ? t->d : t->dv,
			     .threads = x->s.threads };

	l.index = arena_printf(a, "(%s + (i64)next * %lld)",
			       k ? "k_at" : "v_at", (long long)v->index_pos);
	ca_load_tile(&x->s.f, t, &l);
}

/* Loads tile `n` (C text), if there is one, as a group. */
static void
load_tile(struct ca_single *x, const char *n)
{
	struct cu_func *f = &x->s.f;

	cu_line(f, "if (%s < tiles) {", n);
	cu_line(f, "const int next = begin + (%s) * %lld;", n,
		(long long)x->s.form.cols);
	cu_line(f, "const int stage = (%s) %% %lld * %lld;", n,
		(long long)x->stages, (long long)x->stage_bytes);
	load_keys(x, ATTN_K);
	if (!x->wide) {
		load_keys(x, ATTN_V);
	}
	cu_line(f, "}");
	cu_line(f, "cp_async_commit();");
}

/* ---- an item ---- */

/* C text: a number of shared scratch that all threads read; of lane 0, so that
 * the assembler sees that a warp does not diverge. */
static const char *
common(struct ca_single *x, const char *number)
{
	return arena_printf(x->s.t->k->c->a, "(int)shfl_u32((u32)(%s), 0)",
			    number);
}

/* Declares what the item is: its query, heads and keys. */
static void
find_item(struct ca_single *x)
{
	struct cu_func *f = &x->s.f;
	struct attn *t = x->s.t;
	long long units = (long long)x->units, rows = (long long)x->s.rows;
	long long of_kv = (long long)ca_single_items_of_kv(x);
	long long each = (long long)t->kv * of_kv;
	int i;

	cu_line(f, "const int slot = item / %lld;", each);
	cu_line(f, "const i32 *listed = %s + 3 * slot;",
		ca_single_at(x, "i32", x->in.items));
	cu_line(f, "const int query = %s;", common(x, "listed[0]"));
	cu_line(f, "const int kv = item %% %lld / %lld;", each, of_kv);
	cu_line(f, "const int nth = item %% %lld * %lld;", units, rows);
	cu_comment(f, "neighbours read the same rows");
	cu_line(f, "const int out0 = %s * %lld;",
		x->wide ? arena_printf(t->k->c->a, "WARP %% %lld",
				       (long long)x->outs)
		: arena_printf(t->k->c->a, "(item / %lld %% %lld)", units,
			       (long long)x->outs),
		(long long)x->s.form.out);
	cu_line(f, "const int head0 = kv * %lld + nth;",
		(long long)t->shared);
	cu_line(f, "const int live = ca_min(%lld, %lld - nth);", rows,
		(long long)t->shared);
	cu_line(f, "const int from = %s;",
		common(x, ca_keys_from(f, t, "query")));
	cu_line(f, "const int to = %s;", common(x, ca_keys_to(f, t, "query")));
	cu_line(f, "const int low = from / %d * %d;", CA_PART_UNIT,
		CA_PART_UNIT);
	cu_line(f, "const int size = ca_part_keys(to - low);");
	cu_line(f, "const int begin = low + %s * size;",
		common(x, "listed[1]"));
	cu_line(f, "const int end = ca_min(to, low + %s * size);",
		common(x, "listed[2]"));
	cu_line(f, "const int tiles = end > begin ? (end - begin + %lld) / "
		"%lld : 0;", (long long)x->s.form.cols - 1,
		(long long)x->s.form.cols);
	ca_declare_pointer(f, t, &t->in[ATTN_Q], "q", "head0");
	for (i = ATTN_K; i <= ATTN_V; i++) {
		ca_declare_pointer(f, t, &t->in[i], i == ATTN_K ? "k" : "v",
				   "kv");
		ca_declare_index(f, t, &t->in[i],
				 i == ATTN_K ? "k_at" : "v_at");
	}
}

/* Waits for tile n, and begins to load one that takes a stage which is free. */
static void
next_tile(struct ca_single *x)
{
	struct cu_func *f = &x->s.f;

	if (x->stages > 1) {
		cu_line(f, "cp_async_wait(%lld);", (long long)x->stages - 2);
		cu_line(f, "sync_block();");
		load_tile(x, arena_printf(f->k->c->a, "n + %lld",
					  (long long)x->stages - 1));
		return;
	}
	cu_line(f, "sync_block();");
	load_tile(x, "n");
	cu_line(f, "cp_async_wait(0);");
	cu_line(f, "sync_block();");
}

/*
 * Makes s, the scores of a tile, of what each warp makes of some of its keys.
 * A lane has the same rows and columns of eight in all warps.  Scores are read
 * before warps meet for the next tile.
 */
static void
share_scores(struct ca_single *x)
{
	struct ca_forward *s = &x->s;
	struct cu_func *f = &s->f;
	int64_t n = attn_round_up(ca_ceil_div(s->form.cols, x->outs), 16);
	struct ca_product p = { .sum = "some", .a = s->q.at,
				.a_pitch = s->q.pitch, .b = s->k.at,
				.b_pitch = s->k.pitch, .n = n,
				.k = s->q.cols };

	cu_line(f, "char *shared = (char *)SMEM + %lld + wrow * %lld + "
		"LANE * 16;", (long long)x->scores,
		(long long)(4 * s->form.cols));
	cu_line(f, "const int key = WARP %% %lld * %lld;", (long long)x->outs,
		(long long)n);
	cu_line(f, "if (key < %lld) {", (long long)s->form.cols);
	ca_declare_zeros(f, &s->form, "some", n);
	p.b_more = arena_printf(f->k->c->a, "had_stage + key * %lld",
				(long long)s->k.pitch);
	ca_multiply(f, s->t, &s->form, &p);
	ca_unrolled_for(f, "j", n / 8);
	cu_line(f, "put_f32_4(shared + (key / 8 + j) * 512, some[0][j]);");
	cu_close(f, 2);
	cu_comment(f, "all scores of the tile are there");
	cu_line(f, "sync_block();");
	ca_unrolled_for(f, "j", s->form.cols / 8);
	cu_line(f, "get_f32_4(s[0][j], shared + j * 512);");
	cu_line(f, "}");
}

static void
each_tile(struct ca_single *x)
{
	struct ca_forward *s = &x->s;
	struct cu_func *f = &s->f;
	struct ca_product qk = { .sum = "s", .a = s->q.at,
				 .a_pitch = s->q.pitch, .b = s->k.at,
				 .b_pitch = s->k.pitch, .b_more = "had_stage",
				 .n = s->form.cols, .k = s->q.cols };
	struct ca_product pv = { .sum = "o", .w = "s", .b = s->v.at,
				 .b_pitch = s->v.pitch, .b_more = "had_stage",
				 .n = s->form.out, .k = s->form.cols,
				 .pass = s->pass, .is_last = true };

	cu_line(f, "for (int n = 0; n < tiles; n++) {");
	cu_line(f, "const int key0 = begin + n * %lld;",
		(long long)s->form.cols);
	cu_line(f, "const int had_stage = n %% %lld * %lld;",
		(long long)x->stages, (long long)x->stage_bytes);
	next_tile(x);
	if (x->wide) {
		cu_line(f, "f32 s[1][%lld][4];",
			(long long)(s->form.cols / 8));
		share_scores(x);
		pv.b_more = "had_stage + out0 * 2";
	} else {
		ca_declare_zeros(f, &s->form, "s", s->form.cols);
		ca_multiply(f, s->t, &s->form, &qk);
	}
	ca_forward_weigh(s);
	ca_multiply_on(f, s->t, &s->form, &pv);
	cu_line(f, "if (n + 1 == tiles || (key0 + %lld - low) %% size == 0) {",
		(long long)s->form.cols);
	ca_parts_next(s);
	cu_close(f, 2);
}

/* Stores the item's numbers in its slot. */
static void
keep(struct ca_single *x)
{
	struct ca_forward *s = &x->s;
	struct cu_func *f = &s->f;

	ca_parts_take(s);
	cu_line(f, "{");
	cu_line(f, "%s", CA_COLUMNS);
	cu_line(f, "const i64 first = (i64)slot * %lld + head0;",
		(long long)s->t->heads);
	ca_unrolled_for(f, "h", 2);
	cu_line(f, "const int row = wrow + h * 8 + g;");
	cu_line(f, "if (row < live) {");
	cu_line(f, "f32 *to_sums = %s + 2 * (first + row);",
		ca_single_at(x, "f32", x->in.sums));
	cu_line(f, "f32 *to_row = %s + (first + row) * %lld + out0 + c;",
		ca_single_at(x, "f32", x->in.results), (long long)x->cols);
	cu_line(f, "if (out0 == 0 && LANE %% 4 == 0) {");
	cu_line(f, "to_sums[0] = most[0][h];");
	cu_line(f, "to_sums[1] = sum[0][h];");
	cu_line(f, "}");
	ca_unrolled_for(f, "j", s->form.out / 8);
	cu_line(f, "to_row[j * 8] = o[0][j][2 * h];");
	cu_line(f, "to_row[j * 8 + 1] = o[0][j][2 * h + 1];");
	cu_close(f, 4);
}

static void
compute_item(struct ca_single *x)
{
	struct ca_forward *s = &x->s;
	struct cu_func *f = &s->f;
	int64_t i;

	cu_comment(f, "shared memory is read no more for the item before");
	cu_line(f, "sync_block();");
	load_heads(x);
	for (i = 0; i < x->stages - 1; i++) {
		load_tile(x, arena_printf(f->k->c->a, "%lld", (long long)i));
	}
	ca_declare_zeros(f, &s->form, "o", s->form.out);
	ca_forward_begin(s);
	ca_parts_begin(s);
	each_tile(x);
	cu_line(f, "cp_async_wait(0);");
	keep(x);
}

/* Blocks that take items, of all there may be. */
static int64_t
blocks_of(const struct ca_single *x)
{
	const struct cg_cuda *c = x->s.t->k->c;
	int64_t all = x->in.slots * x->s.t->kv * ca_single_items_of_kv(x);
	int64_t most = c->units * (c->arch->smem_bytes / x->s.smem);

	return all < most ? all : most;
}

static void
declare_lanes(struct ca_single *x)
{
	if (!x->wide) {
		ca_declare_lanes(&x->s.f, &x->s.form);
		return;
	}
	cu_line(&x->s.f, "const int g = LANE / 4;");
	cu_line(&x->s.f, "const int wrow = WARP / %lld * 16;",
		(long long)x->outs);
}

void
ca_single_items(struct ca_single *x)
{
	struct cu_func *f = &x->s.f;
	struct attn *t = x->s.t;
	long long each = (long long)(t->kv * ca_single_items_of_kv(x));

	cu_func_begin(t->k, "attention_single", f);
	f->minblocks = 1;
	f->grid->threads = x->s.threads;
	f->grid->smem_bytes = x->s.smem;
	f->grid->blocks[0] = blocks_of(x);
	cu_comment(f, "%lld kv heads of %lld heads of %lld, %lld keys; tiles "
		   "of %lld x %lld, %lld stages", (long long)t->kv,
		   (long long)t->shared, (long long)t->d, (long long)t->keys,
		   (long long)x->s.rows, (long long)x->s.form.cols,
		   (long long)x->stages);
	declare_lanes(x);
	cu_line(f, "const u32 sm = smem_addr(SMEM);");
	ca_parts_declare(&x->s);
	cu_launch_wait(f);
	ca_declare_ranges(f, t);
	cu_line(f, "const int items = %s * (int)%lld;",
		common(x, arena_printf(t->k->c->a, "*%s",
				ca_single_at(x, "i32", 0))), each);
	cu_line(f, "for (int item = BLOCK_X; item < items; "
		"item += NBLOCKS_X) {");
	find_item(x);
	compute_item(x);
	cu_line(f, "}");
	cu_func_end(f);
}

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
 */
#include "codegen/cuda/attention/cuda_attention_single.h"

#define MOST_WARPS 4		/* each has 16 heads */
#define MOST_STAGES 4
/* Queries of a step that are always single ones. */
#define ALWAYS 16

/* ---- how it is cut up ---- */

static void
lay_out(struct ca_single *x, int64_t stages)
{
	struct ca_forward *s = &x->s;
	struct attn *t = s->t;

	s->smem = 0;
	s->q = ca_place_tile(t, &s->smem, s->rows, t->d);
	s->k = ca_place_tile(t, &s->smem, s->form.cols, t->d);
	s->v = ca_place_tile(t, &s->smem, s->form.cols, s->form.out);
	s->smem = attn_round_up(s->smem, 16);
	x->stages = stages;
	x->stage_bytes = s->smem - s->k.at;
	s->smem += (stages - 1) * x->stage_bytes;
	s->pass = s->smem;
	s->smem += ca_pass_bytes(t, &s->form);
	ca_parts_place(s);
}

/* As many stages as fit beside those of another block; or as fit at all. */
static bool
choose_stages(struct ca_single *x)
{
	int64_t most = x->s.t->k->c->arch->smem_bytes, n;

	for (n = MOST_STAGES; n > 1; n--) {
		lay_out(x, n);
		if (2 * x->s.smem <= most) {
			return true;
		}
	}
	for (n = 2; n > 0; n--) {
		lay_out(x, n);
		if (x->s.smem <= most) {
			return true;
		}
	}
	return false;
}

struct ca_single *
ca_single_open(const struct ca_forward *s)
{
	struct attn *t = s->t;
	struct ca_single *x = arena_alloc(t->k->c->a, sizeof *x);
	int64_t tiles = ca_ceil_div(t->shared, 16);

	*x = (struct ca_single){ .s = *s, .block = s->rows,
				 .always = t->queries <= ALWAYS };
	x->s.form.warps = tiles < MOST_WARPS ? tiles : MOST_WARPS;
	x->s.form.mt = 1;
	x->s.form.chunk = 0;
	x->s.heads = true;
	x->s.rows = 16 * x->s.form.warps;
	x->s.threads = 32 * x->s.form.warps;
	x->units = ca_ceil_div(t->shared, x->s.rows);
	x->outs = ca_out_blocks(t->dv);
	x->cols = x->outs * x->s.form.out;
	if (!choose_stages(x)) {
		return NULL;
	}
	ca_single_place(x);
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
	load_keys(x, ATTN_V);
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
	long long each = (long long)t->kv * units;
	int i;

	cu_line(f, "const int slot = item / %lld;", each);
	cu_line(f, "const i32 *listed = %s + 3 * slot;",
		ca_single_at(x, "i32", x->items));
	cu_line(f, "const int query = %s;", common(x, "listed[0]"));
	cu_line(f, "const int kv = item %% %lld / %lld;", each, units);
	cu_line(f, "const int nth = item %% %lld * %lld;", units, rows);
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
	ca_declare_zeros(f, &s->form, "s", s->form.cols);
	ca_multiply(f, s->t, &s->form, &qk);
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
		ca_single_at(x, "f32", x->sums));
	cu_line(f, "f32 *to_row = %s + (first + row) * %lld + out0 + c;",
		ca_single_at(x, "f32", x->results), (long long)x->cols);
	cu_line(f, "if (BLOCK_Y == 0 && LANE %% 4 == 0) {");
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
	int64_t all = x->slots * x->s.t->kv * x->units;
	int64_t most = c->units * (c->arch->smem_bytes / x->s.smem);

	return all < most ? all : most;
}

void
ca_single_items(struct ca_single *x)
{
	struct cu_func *f = &x->s.f;
	struct attn *t = x->s.t;
	long long each = (long long)(t->kv * x->units);

	cu_func_begin(t->k, "attention_single", f);
	f->minblocks = 1;
	f->grid->threads = x->s.threads;
	f->grid->smem_bytes = x->s.smem;
	f->grid->blocks[0] = blocks_of(x);
	f->grid->blocks[1] = x->outs;
	cu_comment(f, "%lld kv heads of %lld heads of %lld, %lld keys; tiles "
		   "of %lld x %lld, %lld stages", (long long)t->kv,
		   (long long)t->shared, (long long)t->d, (long long)t->keys,
		   (long long)x->s.rows, (long long)x->s.form.cols,
		   (long long)x->stages);
	ca_declare_lanes(f, &x->s.form);
	cu_line(f, "const u32 sm = smem_addr(SMEM);");
	cu_line(f, "const int out0 = BLOCK_Y * %lld;",
		(long long)x->s.form.out);
	ca_parts_declare(&x->s);
	cu_launch_wait(f);
	ca_declare_ranges(f, t);
	cu_line(f, "const int items = %s * (int)%lld;",
		common(x, arena_printf(t->k->c->a, "*%s",
				ca_single_at(x, "i32", x->nitems))), each);
	cu_line(f, "for (int item = BLOCK_X; item < items; "
		"item += NBLOCKS_X) {");
	find_item(x);
	compute_item(x);
	cu_line(f, "}");
	cu_func_end(f);
}

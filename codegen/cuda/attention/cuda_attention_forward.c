/*
 * Attention forward and the logs of its sums, with mma.  A block has some
 * queries of a head, and iterates over the keys that they see.  Values of a
 * tile of keys are loaded while scores are computed, the next keys while
 * scores become weights: FlashAttention-2 (Dao 2023), with two barriers for
 * each tile.
 */
#include "codegen/cuda/attention/cuda_attention_forward.h"

/* ---- how it is cut up ---- */

/* Forms, in order of preference; later ones need less shared memory. */
static const struct ca_form forms[] = {
	{ .warps = 4, .mt = 2, .cols = 64, .reached = 0.62 },
	{ .warps = 4, .mt = 2, .cols = 32, .reached = 0.55 },
	{ .warps = 4, .mt = 1, .cols = 64, .reached = 0.50 },
	{ .warps = 4, .mt = 1, .cols = 32, .reached = 0.45 },
	{ .warps = 2, .mt = 1, .cols = 32, .reached = 0.35 },
	{ .warps = 4, .mt = 1, .cols = 32, .chunk = 64, .reached = 0.25 }
};

/* Most sums and scores of a thread: as many as NVRTC 13 fits into 255 registers
 * beside everything else. */
static int64_t
most_sums(const struct attn *t, int64_t d)
{
	bool plain = t->window <= 0 && !attn_is_between(t) &&
		     t->spread[ATTN_QUERIES] == UINT32_MAX &&
		     t->spread[ATTN_KEYS] == UINT32_MAX;

	return d > 192 ? 128 : d > 128 || !plain ? 160 : 192;
}

bool
ca_forward_lay_out(struct ca_forward *s, const struct ca_form *form)
{
	struct attn *t = s->t;
	int64_t d = form->chunk ? form->chunk : t->d, stage;

	s->form = *form;
	s->form.out = s->out ? ca_out_cols(t->dv) : 0;
	s->rows = form->warps * form->mt * 16;
	s->threads = form->warps * 32;
	s->blocks = ca_ceil_div(t->queries, s->rows);
	s->smem = 0;
	s->q = ca_place_tile(t, &s->smem, s->rows, d);
	s->k = ca_place_tile(t, &s->smem, form->cols, d);
	if (s->out) {
		s->v = ca_place_tile(t, &s->smem, form->cols, s->form.out);
	}
	s->pass = s->smem;
	s->smem += ca_pass_bytes(t, form);
	s->lse = 4 * s->rows * ca_stage_pitch(s->form.out);
	stage = s->lse + 4 * s->rows;
	s->smem = s->smem > stage ? s->smem : stage;
	if (s->parts) {
		ca_parts_place(s);
	}
	return s->smem <= t->k->c->arch->smem_bytes &&
	       form->mt * (s->form.out + form->cols) / 2 <= most_sums(t, d);
}

/* Whether a form can be used.  Where keys are in parts, two of the largest
 * blocks fit a multiprocessor, or smaller ones are used. */
static bool
is_legal(struct ca_forward *s, const struct ca_form *form)
{
	int64_t most = s->t->k->c->arch->smem_bytes;

	return !ca_is_idle(s->t, form) && ca_forward_lay_out(s, form) &&
	       (!s->parts || form->mt == 1 || 2 * s->smem <= most);
}

/* Where keys are in parts: a tile has as many keys whatever else a step has,
 * since a query's bits depend on it.  0: any. */
static int64_t
fixed_cols(struct ca_forward *s)
{
	size_t n = sizeof forms / sizeof forms[0], i;

	for (i = 2; s->parts && i < n; i++) {
		if (is_legal(s, &forms[i])) {
			return forms[i].cols;
		}
	}
	return 0;
}

/* Few queries, and f32, do not use the largest blocks. */
const struct ca_form *
ca_forward_choose(struct ca_forward *s, struct cu_candidates *w)
{
	size_t n = sizeof forms / sizeof forms[0], i;
	const struct ca_form *best = NULL;
	int64_t cols = fixed_cols(s);

	i = s->t->queries <= 64 || s->t->tile == IR_F32 ? 2 : 0;
	for (; i < n; i++) {
		if ((!cols || forms[i].cols == cols) &&
		    is_legal(s, &forms[i]) &&
		    ca_candidates_add(s->t, w, &forms[i], s->rows,
				      ca_forward_products(s))) {
			best = &forms[i];
		}
	}
	return best;
}

/* ---- before the loop ---- */

void
ca_forward_open(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;

	f->minblocks = 1;
	f->grid->threads = s->threads;
	f->grid->smem_bytes = s->smem;
	f->grid->blocks[0] = s->blocks * t->heads * t->batches;
	f->grid->blocks[1] = s->out ? ca_out_blocks(t->dv) : 1;
	cu_comment(f,
		   "%lld sequences, %lld heads of %lld, %lld x %lld scores%s; "
		   "blocks of %lld x %lld",
		   (long long)t->batches, (long long)t->heads, (long long)t->d,
		   (long long)t->queries, (long long)t->keys,
		   t->causal ? ", causal" : "", (long long)s->rows,
		   (long long)s->form.cols);
}

/* Declares head and bat of a block's number (C text). */
static void
declare_head(struct ca_forward *s, const char *block)
{
	cu_line(&s->f, "const int head = %s %% %lld;", block,
		(long long)s->t->heads);
	cu_line(&s->f, "const int bat = %s / %lld %% %lld;", block,
		(long long)s->t->heads, (long long)s->t->batches);
}

void
ca_forward_place(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;

	declare_head(s, "BLOCK_X");
	cu_comment(f, "the last queries see most: first");
	cu_line(f, "const int row0 = (%lld - BLOCK_X / %lld) * %lld;",
		(long long)(s->blocks - 1),
		(long long)(t->heads * t->batches), (long long)s->rows);
	cu_line(f, "const int live = ca_min(%lld, %lld - row0);",
		(long long)s->rows, (long long)t->queries);
	if (s->out) {
		cu_line(f, "const int out0 = BLOCK_Y * %lld;",
			(long long)s->form.out);
	}
}

static void
load_queries(struct ca_forward *s, const char *part)
{
	struct ca_load l = { .from = &s->t->in[ATTN_Q], .to = &s->q,
			     .live = "live", .col = part, .cols = s->t->d,
			     .threads = s->threads };

	l.base = arena_printf(s->f.k->c->a, "(q + (i64)row0 * %lld)",
			      (long long)s->t->in[ATTN_Q].pos);
	ca_load_tile(&s->f, s->t, &l);
}

static void
load_keys(struct ca_forward *s, uint32_t in, const char *at, const char *part)
{
	struct arena *a = s->f.k->c->a;
	struct attn *t = s->t;
	bool k = in == ATTN_K;
	const struct attn_view *v = &t->in[in];
	struct ca_load l = { .from = v, .to = k ? &s->k : &s->v, .col = part,
			     .cols = k ? t->d : t->dv, .threads = s->threads };

	l.live = arena_printf(a, "%lld - %s", (long long)t->keys, at);
	if (v->is_selected) {
		l.base = k ? "k" : "v";
		l.index = arena_printf(a, "(%s + (i64)(%s) * %lld)",
				       k ? "k_at" : "v_at", at,
				       (long long)v->index_pos);
	} else {
		l.base = arena_printf(a, "(%s + (i64)(%s) * %lld)",
				      k ? "k" : "v", at, (long long)v->pos);
	}
	ca_load_tile(&s->f, t, &l);
}

void
ca_forward_keys(struct ca_forward *s)
{
	ca_declare_ranges(&s->f, s->t);
	ca_declare_keys(&s->f, s->t, s->form.cols);
	ca_declare_sure(&s->f, s->t);
}

void
ca_forward_declare_sink(struct ca_forward *s)
{
	const struct attn_view *v = &s->t->in[ATTN_SINK];
	struct cu_func *f = &s->f;

	ca_declare_pointer(f, s->t, v, "sink", "head");
	cu_line(f, "const f32 first = (f32)(%s) * %s;",
		cu_widen(f->k->c->a, v->dtype, "sink[0]"),
		ca_f32(f, s->raw ? 1 / s->t->scale : CA_LOG2E));
}

/* A sink's weight is in the sum of one of a row's four threads; where keys are
 * in parts it is added at the end. */
void
ca_forward_begin(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	long long mt = s->form.mt;
	bool sink = s->t->values[ATTN_SINK] && !s->parts;

	cu_line(f, "f32 most[%lld][2], sum[%lld][2];", mt, mt);
	if (sink) {
		ca_forward_declare_sink(s);
	}
	ca_unrolled_for(f, "i", s->form.mt);
	if (sink) {
		cu_line(f, "most[i][0] = most[i][1] = first;");
		cu_line(f, "sum[i][0] = sum[i][1] = LANE %% 4 == 0;");
	} else {
		cu_line(f, "most[i][0] = most[i][1] = %s;", CA_LEAST);
		cu_line(f, "sum[i][0] = sum[i][1] = 0;");
	}
	cu_line(f, "}");
}

/* ---- a tile of keys ---- */

static void
make_scores(struct ca_forward *s)
{
	struct ca_product p = { .sum = "s", .a = s->q.at,
				.a_pitch = s->q.pitch, .b = s->k.at,
				.b_pitch = s->k.pitch, .n = s->form.cols,
				.k = s->q.cols };
	struct cu_func *f = &s->f;

	ca_declare_zeros(f, &s->form, "s", s->form.cols);
	if (!s->form.chunk) {
		ca_multiply(f, s->t, &s->form, &p);
		return;
	}
	cu_line(f, "for (int part = 0; part < %lld; part += %lld) {",
		(long long)s->t->d, (long long)s->form.chunk);
	cu_line(f, "sync_block();");
	load_queries(s, "part");
	load_keys(s, ATTN_K, "key0", "part");
	cu_line(f, "cp_async_commit();");
	cu_line(f, "cp_async_wait(0);");
	cu_line(f, "sync_block();");
	ca_multiply(f, s->t, &s->form, &p);
	cu_line(f, "}");
}

static void
mask(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;
	struct ca_sees see = { .rows = true, .at = "key0",
			       .cols = s->form.cols, .none = CA_LEAST };

	if (attn_is_masked(t)) {
		see.some = arena_printf(f->k->c->a, "key0 + %lld > sure_to || "
					"key0 < sure_from",
					(long long)s->form.cols);
	}
	ca_mask_scores(f, t, &s->form, &see);
}

/* Weights of a row, relative to the largest score so far; earlier sums are
 * rescaled. */
static void
weigh_row(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	const char *by = ca_f32(f, ca_forward_by(s));

	cu_line(f, "f32 top = most[i][h], less, fade, add = 0;");
	ca_unrolled_for(f, "j", s->form.cols / 8);
	cu_line(f, "top = f_max(top, f_max(s[i][j][2 * h], "
		"s[i][j][2 * h + 1]));");
	cu_line(f, "}");
	cu_line(f, "top = f_max(top, shfl_xor_f32(top, 1));");
	cu_line(f, "top = f_max(top, shfl_xor_f32(top, 2));");
	cu_comment(f, "of a row that has seen no key yet all weights are 0");
	cu_line(f, "less = top > 0.5f * %s ? top * %s : 0.0f;", CA_LEAST, by);
	cu_comment(f, "exactly 1 if no score is larger");
	cu_line(f, "fade = %s((most[i][h] - top) * %s);", ca_exp2(s->t), by);
	cu_line(f, "most[i][h] = top;");
	ca_unrolled_for(f, "j", s->form.cols / 8);
	ca_unrolled_for(f, "e", 2);
	cu_line(f, "f32 w = %s(fma_f32(s[i][j][2 * h + e], %s, -less));",
		ca_exp2(s->t), by);
	cu_line(f, "s[i][j][2 * h + e] = w;");
	cu_line(f, "add += w;");
	cu_close(f, 2);
	cu_line(f, "sum[i][h] = fma_f32(sum[i][h], fade, add);");
	if (s->late) {
		cu_line(f, "fades[i][h] = fade;");
	} else if (s->out) {
		ca_unrolled_for(f, "j", s->form.out / 8);
		cu_line(f, "o[i][j][2 * h] *= fade;");
		cu_line(f, "o[i][j][2 * h + 1] *= fade;");
		cu_line(f, "}");
	}
}

void
ca_forward_scores(struct ca_forward *s)
{
	struct cu_func *f = &s->f;

	if (s->heads) {
		ca_add_alibi_of_heads(f, s->t, &s->form, "key0");
	} else {
		ca_add_alibi(f, s->t, &s->form, true, "key0");
	}
	if (!s->raw) {
		ca_unrolled_for(f, "i", s->form.mt);
		ca_unrolled_for(f, "j", s->form.cols / 8);
		ca_unrolled_for(f, "e", 4);
		if (s->t->softcap > 0) {
			cu_line(f, "s[i][j][e] = %s * f_tanh(s[i][j][e] * %s);",
				ca_f32(f, s->t->softcap * CA_LOG2E),
				ca_f32(f, s->t->scale / s->t->softcap));
		} else {
			cu_line(f, "s[i][j][e] *= %s;",
				ca_f32(f, s->t->scale * CA_LOG2E));
		}
		cu_close(f, 3);
	}
	if (s->heads) {
		ca_mask_keys(f, &s->form, "key0", CA_LEAST);
	} else {
		mask(s);
	}
}

void
ca_forward_weigh(struct ca_forward *s)
{
	struct cu_func *f = &s->f;

	ca_forward_scores(s);
	ca_unrolled_for(f, "i", s->form.mt);
	ca_unrolled_for(f, "h", 2);
	weigh_row(s);
	cu_close(f, 2);
}

static void
each_keys(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	struct ca_product p = { .sum = "o", .w = "s", .b = s->v.at,
				.b_pitch = s->v.pitch, .n = s->form.out,
				.k = s->form.cols, .pass = s->pass,
				.is_last = true };
	bool ahead = !s->form.chunk;

	cu_line(f, "for (int key0 = begin; key0 < end; key0 += %lld) {",
		(long long)s->form.cols);
	cu_line(f, "cp_async_wait(0);");
	cu_line(f, "sync_block();");
	if (s->parts) {
		ca_parts_of_rows(s);
	}
	if (s->out) {
		load_keys(s, ATTN_V, "key0", "out0");
		cu_line(f, "cp_async_commit();");
	}
	make_scores(s);
	cu_line(f, "cp_async_wait(0);");
	cu_line(f, "sync_block();");
	if (ahead) {
		cu_line(f, "if (key0 + %lld < end) {",
			(long long)s->form.cols);
		load_keys(s, ATTN_K, arena_printf(f->k->c->a, "(key0 + %lld)",
				(long long)s->form.cols), NULL);
		cu_line(f, "}");
		cu_line(f, "cp_async_commit();");
	}
	ca_forward_weigh(s);
	if (s->out) {
		ca_multiply_on(f, s->t, &s->form, &p);
	}
	cu_line(f, "}");
}

/* ---- results ---- */

void
ca_forward_add_sink(struct ca_forward *s)
{
	struct cu_func *f = &s->f;

	cu_line(f, "const f32 had = all_top, more = first;");
	ca_parts_join(f, s->t, ca_f32(f, ca_forward_by(s)));
	cu_line(f, "x = fma_f32(x, old_by, by);");
	cu_line(f, "all_top = top;");
	cu_line(f, "fade = old_by;");
}

const char *
ca_forward_unit(struct ca_forward *s)
{
	return ca_f32(&s->f, s->raw ? s->t->scale : CA_LN2);
}

static void
finish_sums(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	bool sink = s->t->values[ATTN_SINK] && s->parts;

	if (s->out) {
		cu_line(f, "f32 by_row[%lld][2];", (long long)s->form.mt);
	}
	if (sink) {
		ca_forward_declare_sink(s);
	}
	ca_unrolled_for(f, "i", s->form.mt);
	ca_unrolled_for(f, "h", 2);
	cu_line(f, "f32 x = sum[i][h];");
	if (!s->parts) {
		cu_line(f, "x += shfl_xor_f32(x, 1);");
		cu_line(f, "x += shfl_xor_f32(x, 2);");
	}
	if (sink) {
		cu_line(f, "f32 all_top = most[i][h], fade;");
		cu_line(f, "{");
		ca_forward_add_sink(s);
		cu_line(f, "}");
		cu_line(f, "most[i][h] = all_top;");
	}
	if (s->out) {
		cu_line(f, "by_row[i][h] = x > 0 ? f_div(%s, x) : 0.0f;",
			sink ? "fade" : "1.0f");
	}
	cu_line(f, "if (LANE %% 4 == 0) {");
	cu_line(f, "((f32 *)(SMEM + %lld))[wrow + i * 16 + h * 8 + g] = x > "
		"0 ? fma_f32(most[i][h], %s, f_log(x)) : 0.0f;",
		(long long)s->lse, ca_forward_unit(s));
	cu_close(f, 3);
}

/* What these threads put, staged `pitch` elements apart at byte `at`. */
static struct ca_put
put_of(struct ca_forward *s, enum attn_result r, int64_t at, int64_t pitch)
{
	struct ca_put p = { .r = r, .at = at, .pitch = pitch, .rows = s->rows,
			    .row = "row0", .live = "live", .head = "head",
			    .threads = s->threads, .thread = s->thread };
	struct arena *a = s->f.k->c->a;
	long long part = (long long)s->part;

	if (s->nth) {
		p.rows = s->part;
		p.more = arena_printf(a, "%s * %lld", s->nth,
				      4 * part * (long long)pitch);
		p.row = arena_printf(a, "(row0 + %s * %lld)", s->nth, part);
		p.live = arena_printf(a, "(live - %s * %lld)", s->nth, part);
	}
	return p;
}

bool
ca_forward_put(struct ca_forward *s)
{
	struct cu_func *f = &s->f;
	struct ca_put out = put_of(s, ATTN_OUT, s->stage,
				   ca_stage_pitch(s->form.out));
	struct ca_put lse = put_of(s, ATTN_LSE, s->lse, 1);

	out.cols = s->form.out;
	out.from = "out0";
	lse.cols = 1;
	lse.from = "0";
	finish_sums(s);
	if (s->out) {
		ca_stage_sums(f, &s->form, "o", "by_row", true, s->form.out,
			      s->stage);
	}
	cu_line(f, "%s", s->meet);
	if (s->out) {
		ca_forward_again(s, &out);
	}
	if (s->t->made[ATTN_LSE].value) {
		cu_line(f, "if (BLOCK_Y == 0) {");
		if (!s->nth) {
			cu_comment(f, "computed again: no register is left to "
				   "keep them in during the loop");
			declare_head(s, "block_x_again()");
			cu_line(f, "(void)bat;");
		}
		if (!ca_put_rows(f, s->t, &lse)) {
			return false;
		}
		cu_line(f, "}");
	}
	return !s->out || ca_put_rows(f, s->t, &out);
}

/* ---- all of it ---- */

struct ca_forward
ca_forward_of(struct attn *t)
{
	return (struct ca_forward){ .t = t, .thread = "TID",
				    .meet = "sync_block();",
				    .out = t->made[ATTN_OUT].value != 0,
				    .parts = ca_has_parts(t),
				    .raw = t->scale > 0 && t->softcap <= 0 };
}

static void
declare_keys(struct ca_forward *s, uint32_t in, const char *name,
	     const char *index)
{
	const struct attn_view *v = &s->t->in[in];

	ca_declare_pointer(&s->f, s->t, v, name, "kv");
	if (v->is_selected) {
		ca_declare_index(&s->f, s->t, v, index);
	}
}

bool
ca_forward_emit(struct ca_forward *s, const char *ends)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;

	cu_func_begin(t->k, "attention", f);
	ca_forward_open(s);
	ca_declare_lanes(f, &s->form);
	cu_line(f, "const u32 sm = smem_addr(SMEM);");
	ca_forward_place(s);
	cu_launch_wait(f);
	if (ends) {
		cu_line(f, "if (%s) {", ends);
		cu_line(f, "return;");
		cu_line(f, "}");
	}
	cu_line(f, "const int kv = %s;", ca_kv_head(f, t, "head"));
	ca_declare_pointer(f, t, &t->in[ATTN_Q], "q", "head");
	declare_keys(s, ATTN_K, "k", "k_at");
	if (s->out) {
		declare_keys(s, ATTN_V, "v", "v_at");
	}
	ca_forward_keys(s);
	if (!s->form.chunk) {
		load_queries(s, NULL);
		load_keys(s, ATTN_K, "begin", NULL);
		cu_line(f, "cp_async_commit();");
	}
	if (s->out) {
		ca_declare_zeros(f, &s->form, "o", s->form.out);
	}
	ca_forward_begin(s);
	if (s->parts) {
		ca_parts_of_block(s);
	}
	each_keys(s);
	cu_line(f, "cp_async_wait(0);");
	if (s->parts) {
		ca_parts_end(s);
	}
	/* results replace what was loaded to shared memory, which other threads
	 * may still wait for if no key is seen */
	cu_line(f, "sync_block();");
	if (!ca_forward_put(s)) {
		return false;
	}
	cu_func_end(f);
	return true;
}

/*
 * The gradients of attention, with mma.  A block has some rows: queries of a
 * head, for DQ, or keys of a kv head with all heads that share it, for DK and
 * DV.  It iterates over the columns that these rows see or are seen by, and
 * recomputes weights from the logs of their sums.  No two blocks add to the
 * same element, so the same plan gives the same bits; that costs seven
 * products instead of the five that sums in any order would need.
 */
#include "codegen/cuda/attention/cuda_attention_back.h"

/* ---- how it is cut up ---- */

static const struct ca_form forms[] = {
	{ .warps = 4, .mt = 2, .cols = 64, .stages = 2, .reached = 0.44 },
	{ .warps = 4, .mt = 2, .cols = 32, .stages = 2, .reached = 0.42 },
	{ .warps = 4, .mt = 1, .cols = 64, .stages = 2, .reached = 0.40 },
	{ .warps = 4, .mt = 1, .cols = 32, .stages = 2, .reached = 0.38 },
	{ .warps = 4, .mt = 1, .cols = 32, .stages = 1, .reached = 0.34 },
	{ .warps = 2, .mt = 1, .cols = 32, .stages = 1, .reached = 0.30 },
	{ .warps = 2, .mt = 1, .cols = 16, .stages = 1, .reached = 0.26 },
	{ .warps = 4, .mt = 1, .cols = 32, .stages = 1, .chunk = 64,
	  .reached = 0.24 }
};
/* cost of a block that does not share its multiprocessor, beside one that
 * does */
#define ALONE 2

/* Shared memory with which two blocks share a multiprocessor, so that one loads
 * while the other computes. */
#define HALF_BYTES (80 << 10)
/* Most sums and scores of a thread; everything else needs the rest of 255
 * registers. */
#define MOST_SUMS_QUERIES 192
#define MOST_SUMS_KEYS 160

static int64_t
larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void
lay_out_stage(struct ca_back *s, const struct ca_form *form)
{
	struct attn *t = s->t;
	int64_t d = t->d, dv = t->dv, begin = attn_round_up(s->smem, 16), i;

	if (form->chunk) {
		d = dv = form->chunk;
	} else {
		d = larger(d, s->slope ? s->out_blocks * s->out_slope : 0);
		dv = larger(dv, s->weight ? s->out_blocks * s->out_weight
					  : 0);
	}
	s->smem = begin;
	s->y0 = ca_place_tile(t, &s->smem, form->cols, d);
	s->y1 = ca_place_tile(t, &s->smem, form->cols, dv);
	s->lse = s->smem;
	s->delta = s->lse + 4 * form->cols;
	s->from = s->delta + 4 * form->cols;
	s->to = s->from + 4 * form->cols;
	i = s->to + 4 * form->cols;
	s->stage = attn_round_up(i - begin, 16);
	s->smem = begin + form->stages * s->stage;
}

static bool
lay_out(struct ca_back *s, const struct ca_form *form, int64_t most)
{
	struct attn *t = s->t;
	int64_t d = form->chunk ? form->chunk : t->d;
	int64_t dv = form->chunk ? form->chunk : t->dv;
	int64_t sums = s->out_slope / 2 + s->out_weight / 2 + form->cols;

	s->form = *form;
	s->rows = form->warps * form->mt * 16;
	s->threads = form->warps * 32;
	s->blocks = ca_ceil_div(s->keys ? t->keys : t->queries, s->rows);
	s->smem = 0;
	s->x0 = ca_place_tile(t, &s->smem, s->rows, d);
	if (s->slope) {
		s->x1 = ca_place_tile(t, &s->smem, s->rows, dv);
	}
	if (form->chunk) {
		s->z = ca_place_tile(t, &s->smem, form->cols,
				     s->out_slope + s->out_weight);
	}
	lay_out_stage(s, form);
	s->pass = s->smem;
	s->smem += ca_pass_bytes(t, form);
	s->smem = larger(s->smem, 4 * s->rows * ca_stage_pitch(
		larger(s->out_slope, s->out_weight)));
	return s->smem <= most && form->mt * sums <=
		(s->keys ? MOST_SUMS_KEYS : MOST_SUMS_QUERIES) &&
	       (form->mt == 1 || (t->tile != IR_F32 &&
		(s->keys ? t->keys : t->queries) > 64));
}

/* NULL: none is better than what was taken before. */
const struct ca_form *
ca_back_choose(struct ca_back *s, struct cu_candidates *w)
{
	size_t n = sizeof forms / sizeof forms[0], i;
	int64_t all = s->t->k->c->arch->smem_bytes;
	int64_t half = larger(all / 2, HALF_BYTES);
	const struct ca_form *best = NULL;

	for (i = 0; i < n; i++) {
		bool shares = i < n - 1 && lay_out(s, &forms[i], half);

		if (!ca_is_idle(s->t, &forms[i]) &&
		    (shares || lay_out(s, &forms[i], all)) &&
		    ca_candidates_add(s->t, w, &forms[i], s->rows,
				      ca_back_products(s) *
					      (shares ? 1 : ALONE))) {
			best = &forms[i];
		}
	}
	return best;
}

/* ---- before the loop ---- */

void
ca_back_open(struct ca_back *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;
	int64_t heads = s->keys ? t->kv : t->heads;

	f->minblocks = 1;
	f->grid->threads = s->threads;
	f->grid->smem_bytes = s->smem;
	f->grid->blocks[0] = s->blocks * heads * t->batches * s->apart;
	f->grid->cluster = s->apart;
	f->grid->blocks[1] = s->out_blocks;
	cu_comment(f,
		   "%lld sequences, %lld heads of %lld, %lld x %lld scores%s; "
		   "blocks of %lld %s x %lld",
		   (long long)t->batches, (long long)t->heads, (long long)t->d,
		   (long long)t->queries, (long long)t->keys,
		   t->causal ? ", causal" : "", (long long)s->rows,
		   s->keys ? "keys" : "queries", (long long)s->form.cols);
}

void
ca_back_place(struct ca_back *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;
	int64_t heads = s->keys ? t->kv : t->heads, n = s->apart;

	cu_line(f, "const int %s = BLOCK_X / %lld %% %lld;",
		s->keys ? "kv" : "head", (long long)n, (long long)heads);
	cu_line(f, "const int bat = BLOCK_X / %lld %% %lld;",
		(long long)(n * heads), (long long)t->batches);
	cu_comment(f, "the %s of causal attention are in most pairs: first",
		   s->keys ? "first keys" : "last queries");
	cu_line(f, "const int row0 = (%lld %c BLOCK_X / %lld) * %lld;",
		(long long)(s->keys ? 0 : s->blocks - 1), s->keys ? '+' : '-',
		(long long)(n * heads * t->batches), (long long)s->rows);
	cu_line(f, "const int live = ca_min(%lld, %lld - row0);",
		(long long)s->rows,
		(long long)(s->keys ? t->keys : t->queries));
	if (s->out_blocks > 1 || s->form.chunk) {
		cu_line(f, "const int out0 = BLOCK_Y * %lld;",
			(long long)(s->out_slope + s->out_weight));
	}
}

void
ca_back_kv(struct ca_back *s)
{
	if (!s->keys) {
		cu_line(&s->f, "const int kv = %s;",
			ca_kv_head(&s->f, s->t, "head"));
	}
}

void
ca_back_columns(struct ca_back *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;
	long long cols = s->form.cols;

	ca_declare_ranges(f, t);
	if (s->keys) {
		ca_declare_queries(f, t, cols);
	} else {
		ca_declare_keys(f, t, cols);
	}
	cu_line(f, "const int tiles = end > begin ? (end - begin + %lld) / "
		"%lld : 0;", cols - 1, cols);
	if (s->apart > 1) {
		cu_comment(f, "this block's heads of those that look at these "
			   "keys");
		cu_line(f, "const int head0 = %s + cluster_rank() * %lld;",
			ca_first_head(f, t, "kv", false),
			(long long)(t->shared / s->apart));
		cu_line(f, "const int count = %lld * tiles;",
			(long long)(t->shared / s->apart));
	} else if (s->keys) {
		cu_comment(f, "all heads that look at these keys");
		cu_line(f, "const int head0 = %s;",
			ca_first_head(f, t, "kv", false));
		cu_line(f, "const int count = (%s - head0) * tiles;",
			ca_first_head(f, t, "kv", true));
	} else {
		cu_line(f, "const int count = tiles;");
	}
}

void
ca_back_rows(struct ca_back *s)
{
	struct cu_func *f = &s->f;
	struct attn *t = s->t;
	struct arena *a = f->k->c->a;
	long long mt = s->form.mt;
	const char *at;

	cu_line(f, "f32 less[%lld][2], delta[%lld][2];", mt, mt);
	ca_declare_sure(f, t);
	ca_unrolled_for(f, "i", 2 * mt);
	cu_line(f, "int query = ca_min(row0 + wrow + i * 8 + g, %lld);",
		(long long)(t->queries - 1));
	at = arena_printf(a, "l[(i64)query * %lld]",
			  (long long)t->in[ATTN_L].pos);
	cu_line(f, "less[i / 2][i %% 2] = (f32)(%s) * %s;",
		cu_widen(a, t->in[ATTN_L].dtype, at), ca_f32(f, CA_LOG2E));
	at = arena_printf(a, "dt[(i64)query * %lld]",
			  (long long)t->in[ATTN_DELTA].pos);
	cu_line(f, "delta[i / 2][i %% 2] = (f32)(%s);",
		cu_widen(a, t->in[ATTN_DELTA].dtype, at));
	cu_line(f, "}");
}

/* ---- loads ---- */

/* The input of a tile of rows or of columns: which is 0 or 1. */
static uint32_t
input_of(const struct ca_back *s, bool rows, int which)
{
	if (rows == s->keys) {
		return which ? ATTN_V : ATTN_K;
	}
	return which ? ATTN_G : ATTN_Q;
}

static const char *const names[ATTN_NINPUTS] = {
	[ATTN_Q] = "q", [ATTN_K] = "k", [ATTN_V] = "v", [ATTN_G] = "dout",
	[ATTN_L] = "l", [ATTN_DELTA] = "dt"
};

/* Declares pointers to inputs: those of the whole block, or those of an
 * iteration. */
static void
open_inputs(struct ca_back *s, bool columns)
{
	struct attn *t = s->t;
	uint32_t i;

	for (i = 0; i < ATTN_NINPUTS; i++) {
		bool key = i == ATTN_K || i == ATTN_V;
		/* the head differs from iteration to iteration */
		bool often = s->keys && !key;

		if (!t->values[i] || !names[i] || columns != often ||
		    (!s->slope && (i == ATTN_V || i == ATTN_DELTA)) ||
		    (i == ATTN_G && !s->slope && !s->weight)) {
			continue;
		}
		ca_declare_pointer(&s->f, t, &t->in[i], names[i],
				   key ? "kv" : "head");
	}
}

static void
load(struct ca_back *s, bool rows, int which, const struct ca_tile *to,
     const char *part)
{
	struct arena *a = s->f.k->c->a;
	uint32_t in = input_of(s, rows, which);
	struct attn *t = s->t;
	struct ca_load l = { .from = &t->in[in], .to = to, .col = part,
			     .cols = which ? t->dv : t->d,
			     .threads = s->threads };
	const char *at = rows ? "row0" : "col0";

	l.base = arena_printf(a, "(%s + (i64)%s * %lld)", names[in], at,
			      (long long)t->in[in].pos);
	l.live = rows ? "live" : "there";
	l.stage = rows || s->form.stages == 1 ? NULL : "into";
	ca_load_tile(&s->f, t, &l);
}

/* Loads one number of a query of a tile, column `i` (C text). */
static void
load_number(struct ca_back *s, uint32_t in, int64_t at, const char *i)
{
	struct cu_func *f = &s->f;
	const struct attn_view *v = &s->t->in[in];
	const char *into = s->form.stages > 1 ? "into + " : "", *x;
	bool scaled = in == ATTN_L && s->scales;

	x = arena_printf(f->k->c->a, "%s[(i64)(col0 + %s) * %lld]",
			 names[in], i, (long long)v->pos);
	if (v->dtype == IR_F32 && !scaled) {
		cu_line(f, "cp_async4(sm + %s%lld + %s * 4, %s < there ? "
			"&%s : %s, %s < there ? 4 : 0);", into,
			(long long)at, i, i, x, names[in], i);
	} else {
		cu_line(f, "*(f32 *)(SMEM + %s%lld + %s * 4) = %s < there "
			"? (f32)(%s)%s : 0.0f;", into, (long long)at, i, i,
			cu_widen(f->k->c->a, v->dtype, x), scaled
			? arena_printf(f->k->c->a, " * %s",
				       ca_f32(f, CA_LOG2E)) : "");
	}
}

void
ca_back_numbers(struct ca_back *s)
{
	const char *into = s->form.stages > 1 ? "into + " : "";
	const char *i = s->loads ? "i" : "TID";
	struct cu_func *f = &s->f;

	if (!s->keys) {
		return;
	}
	if (s->loads) {
		cu_line(f, "for (int i = %s; i < %lld; i += %lld) {", s->loads,
			(long long)s->form.cols, (long long)s->loaders);
	} else {
		cu_line(f, "if (TID < %lld) {", (long long)s->form.cols);
	}
	load_number(s, ATTN_L, s->lse, i);
	if (s->slope) {
		load_number(s, ATTN_DELTA, s->delta, i);
	}
	if (attn_is_masked(s->t)) {
		cu_line(f, "int query = col0 + ca_min(%s, there - 1);", i);
		cu_line(f, "*(int *)(SMEM + %s%lld + %s * 4) = %s;", into,
			(long long)s->from, i,
			ca_keys_from(f, s->t, "query"));
		cu_line(f, "*(int *)(SMEM + %s%lld + %s * 4) = %s;", into,
			(long long)s->to, i, ca_keys_to(f, s->t, "query"));
	}
	cu_line(f, "}");
}

/* Whether a block's columns are of one head, so that no division tells which
 * head an iteration's are of. */
static bool
has_one_head(const struct ca_back *s)
{
	return !s->keys || (s->t->heads_together && s->t->shared == s->apart);
}

const char *
ca_back_nth_tile(const struct ca_back *s, const char *it)
{
	struct arena *a = s->t->k->c->a;

	it = s->nth ? s->nth : has_one_head(s) ? it
		: arena_printf(a, "%s %% tiles", it);
	return !s->turns ? it
		: arena_printf(a, "(half ? tiles - 1 - %s : %s)", it, it);
}

const char *
ca_back_nth_head(const struct ca_back *s, const char *it)
{
	return has_one_head(s) ? "0"
		: arena_printf(s->t->k->c->a, "%s / tiles", it);
}

void
ca_back_tile(struct ca_back *s, const char *it, bool loaded)
{
	bool masked = attn_is_masked(s->t), alibi = s->t->alibi > 0;
	struct cu_func *f = &s->f;

	if (loaded || masked || alibi ||
	    (!s->keys && s->t->keys % s->form.cols)) {
		cu_line(f, "const int col0 = begin + %s * %lld;",
			ca_back_nth_tile(s, it), (long long)s->form.cols);
	}
	if (loaded || (s->keys && s->t->window > 0 &&
		       !attn_is_between(s->t))) {
		cu_line(f, "const int there = ca_min(%lld, %lld - col0);",
			(long long)s->form.cols,
			(long long)(s->keys ? s->t->queries : s->t->keys));
	}
	if ((loaded || alibi) && s->keys) {
		cu_line(f, "const int head = head0 + %s;",
			ca_back_nth_head(s, it));
	}
}

static void
load_columns(struct ca_back *s)
{
	open_inputs(s, true);
	if (!s->form.chunk) {
		load(s, false, 0, &s->y0, NULL);
		load(s, false, 1, &s->y1, NULL);
	}
	ca_back_numbers(s);
}

/* ---- a tile of columns ---- */

static const char *
stage(const struct ca_back *s)
{
	return s->form.stages > 1 ? "use" : NULL;
}

/* Emits scores (which 0), or dout times v (which 1), of rows and columns. */
static void
pairs(struct ca_back *s, int which, const char *sum)
{
	struct cu_func *f = &s->f;
	const struct ca_tile *x = which ? &s->x1 : &s->x0;
	const struct ca_tile *y = which ? &s->y1 : &s->y0;
	struct ca_product p = { .sum = sum, .a = x->at, .a_pitch = x->pitch,
				.b = y->at, .b_pitch = y->pitch,
				.b_more = stage(s), .n = s->form.cols,
				.k = x->cols };

	ca_declare_zeros(f, &s->form, sum, s->form.cols);
	if (!s->form.chunk) {
		ca_multiply(f, s->t, &s->form, &p);
		return;
	}
	cu_line(f, "for (int part = 0; part < %lld; part += %lld) {",
		(long long)(which ? s->t->dv : s->t->d),
		(long long)s->form.chunk);
	cu_line(f, "sync_block();");
	load(s, true, which, x, "part");
	load(s, false, which, y, "part");
	cu_line(f, "cp_async_commit();");
	cu_line(f, "cp_async_wait(0);");
	cu_line(f, "sync_block();");
	ca_multiply(f, s->t, &s->form, &p);
	cu_line(f, "}");
}

/* Emits the product of weights and columns, added to sums of rows; is_last: no
 * other one follows in this turn of the loop. */
static void
add_up(struct ca_back *s, int which, const char *sum, const char *w,
       bool is_last)
{
	struct cu_func *f = &s->f;
	const struct ca_tile *y = which ? &s->y1 : &s->y0;
	struct ca_product p = { .sum = sum, .w = w, .b = y->at,
				.b_pitch = y->pitch, .b_more = stage(s),
				.n = which ? s->out_weight : s->out_slope,
				.k = s->form.cols, .pass = s->pass,
				.is_last = is_last };

	if (s->form.chunk) {
		p.b = s->z.at;
		p.b_pitch = s->z.pitch;
		cu_line(f, "sync_block();");
		load(s, false, which, &s->z, "out0");
		cu_line(f, "cp_async_commit();");
		cu_line(f, "cp_async_wait(0);");
		cu_line(f, "sync_block();");
	} else if (s->out_blocks > 1) {
		p.b_more = arena_printf(f->k->c->a, "%s%sout0 * %lld",
					stage(s) ? stage(s) : "",
					stage(s) ? " + " : "",
					(long long)cu_elem_bytes(s->t->tile));
	}
	ca_multiply_on(f, s->t, &s->form, &p);
}

/* Clears weights of pairs that do not see each other. */
static void
mask(struct ca_back *s)
{
	struct cu_func *f = &s->f;
	struct arena *a = f->k->c->a;
	struct attn *t = s->t;
	const char *use = stage(s) ? "use + " : "";
	struct ca_sees see = { .rows = !s->keys, .at = "col0",
			       .cols = s->form.cols, .none = "0" };

	if (attn_is_masked(t) && s->keys) {
		see.from = arena_printf(a, "((int *)(SMEM + %s%lld))[at]",
					use, (long long)s->from);
		see.to = arena_printf(a, "((int *)(SMEM + %s%lld))[at]",
				      use, (long long)s->to);
		/* the numbers of a tile's queries may be in any order */
		see.some = attn_is_between(t) ? "1" :
			arena_printf(a, "%s < row0 + live || %s > row0",
				     ca_keys_to(f, t, "col0"),
				     ca_keys_from(f, t, "(col0 + there - 1)"));
	} else if (attn_is_masked(t)) {
		see.some = arena_printf(a, "col0 + %lld > sure_to || "
					"col0 < sure_from",
					(long long)s->form.cols);
	}
	ca_mask_scores(f, t, &s->form, &see);
}

/* Declares `name`, a number of each of the thread's columns. */
static void
column_number(struct ca_back *s, const char *name, int64_t at, const char *by)
{
	const char *use = stage(s);

	cu_line(&s->f, "const f32 *%s_at = (const f32 *)(SMEM + %s%s%lld) + "
		"j * 8 + LANE %% 4 * 2;", name, use ? use : "",
		use ? " + " : "", (long long)at);
	cu_line(&s->f, "f32 %s[2];", name);
	cu_line(&s->f, "%s[0] = %s_at[0]%s;", name, name, by);
	cu_line(&s->f, "%s[1] = %s_at[1]%s;", name, name, by);
}

/* Declares `less`, the lse of each of the thread's columns, in powers of 2. */
static void
column_less(struct ca_back *s)
{
	column_number(s, "less", s->lse, s->scales ? ""
		      : arena_printf(s->f.k->c->a, " * %s",
				     ca_f32(&s->f, CA_LOG2E)));
}

void
ca_back_weigh(struct ca_back *s)
{
	double by = s->t->softcap > 0 ? s->t->softcap : s->t->scale;
	struct cu_func *f = &s->f;

	ca_add_alibi(f, s->t, &s->form, !s->keys, "col0");
	ca_unrolled_for(f, "j", s->form.cols / 8);
	if (s->keys) {
		column_less(s);
	}
	ca_unrolled_for(f, "i", s->form.mt);
	ca_unrolled_for(f, "e", 4);
	if (s->t->softcap > 0) {
		cu_line(f, "s[i][j][e] = f_tanh(s[i][j][e] * %s);",
			ca_f32(f, s->t->scale / s->t->softcap));
	}
	cu_line(f, "s[i][j][e] = %s(fma_f32(s[i][j][e], %s, -less%s));",
		ca_exp2(s->t), ca_f32(f, by * CA_LOG2E),
		s->keys ? "[e % 2]" : "[i][e / 2]");
	cu_close(f, 3);
	mask(s);
}

/*
 * The derivative of a capped score, 1 - tanh^2, from the weight: weights have
 * replaced scores, and an array beside them would not fit into registers.  The
 * weight is 2^(the capped score - less); one that has become 0 makes the
 * product 0 whatever the factor is, as long as that is finite.
 */
static void
cap_slope(struct ca_back *s)
{
	const char *less = s->keys ? "[e % 2]" : "[i][e / 2]";
	struct cu_func *f = &s->f;

	cu_line(f, "f32 part = (f_log(f_max(s[i][j][e], 1e-37f)) * %s + "
		"less%s) * %s;", ca_f32(f, CA_LOG2E), less,
		ca_f32(f, 1 / (s->t->softcap * CA_LOG2E)));
	cu_line(f, "s[i][j][e] *= fma_f32(-part, part, 1.0f);");
}

void
ca_back_slope(struct ca_back *s)
{
	struct cu_func *f = &s->f;

	ca_unrolled_for(f, "j", s->form.cols / 8);
	if (s->keys) {
		column_number(s, "delta", s->delta, "");
	}
	if (s->keys && s->t->softcap > 0) {
		column_less(s);
	}
	ca_unrolled_for(f, "i", s->form.mt);
	ca_unrolled_for(f, "e", 4);
	if (s->t->softcap > 0) {
		cap_slope(s);
	}
	cu_line(f, "s[i][j][e] *= ds[i][j][e] - delta%s;",
		s->keys ? "[e % 2]" : "[i][e / 2]");
	cu_close(f, 3);
}

static void
with_columns(struct ca_back *s)
{
	pairs(s, 0, "s");
	ca_back_weigh(s);
	if (s->weight) {
		add_up(s, 1, "dv", "s", !s->slope);
	}
	if (s->slope) {
		pairs(s, 1, "ds");
		ca_back_slope(s);
		add_up(s, 0, "dx", "s", true);
	}
}

/* The loop over columns.  With two stages one tile is loaded while the other is
 * used. */
static void
each_columns(struct ca_back *s)
{
	struct cu_func *f = &s->f;
	bool two = s->form.stages > 1;

	cu_line(f, two ? "for (int it = -1; it < count; it++) {"
		: "for (int it = 0; it < count; it++) {");
	if (two) {
		cu_line(f, "cp_async_wait(0);");
		cu_line(f, "sync_block();");
		cu_line(f, "if (it + 1 < count) {");
		cu_line(f, "const int into = (it + 1) %% 2 * %lld;",
			(long long)s->stage);
		ca_back_tile(s, "(it + 1)", true);
		load_columns(s);
		cu_line(f, "}");
		cu_line(f, "cp_async_commit();");
		cu_line(f, "if (it >= 0) {");
		cu_line(f, "const int use = it %% 2 * %lld;",
			(long long)s->stage);
		ca_back_tile(s, "it", false);
	} else {
		cu_line(f, "sync_block();");
		ca_back_tile(s, "it", true);
		load_columns(s);
		cu_line(f, "cp_async_commit();");
		cu_line(f, "cp_async_wait(0);");
		cu_line(f, "sync_block();");
	}
	with_columns(s);
	if (two) {
		cu_line(f, "}");
	}
	cu_line(f, "}");
}

/* ---- results ---- */

int
ca_back_meetings(const struct ca_back *s)
{
	return s->apart > 1 ? 2 * (s->slope + s->weight) : 0;
}

/*
 * Adds the sums that the blocks of a cluster have staged at byte 0, always in
 * the order of the blocks, so that the same bits come out in every run.  Each
 * block adds some of the rows, from `first` on.
 */
static void
add_blocks(struct ca_back *s, int64_t cols)
{
	long long pitch = ca_stage_pitch(cols), parts = cols / 4;
	long long rows = ca_ceil_div(s->rows, s->apart);
	struct cu_func *f = &s->f;

	cu_comment(f, "what the blocks of the cluster have staged, added in "
		   "their order");
	cu_line(f, "cluster_sync();");
	cu_line(f, "for (int i = %s; i < %lld; i += %lld) {", s->thread,
		rows * parts, (long long)s->threads);
	cu_line(f, "const int at = (first + i / %lld) * %lld + i %% %lld * 4;",
		parts, pitch, parts);
	cu_line(f, "if (i / %lld < mine) {", parts);
	cu_line(f, "u32x4 x = lds16_at(map_cta(sm + at * 4, 0));");
	cu_line(f, "f32 y[4] = { bits_f32(x.x), bits_f32(x.y), bits_f32(x.z), "
		"bits_f32(x.w) };");
	buf_puts(&f->text, "#pragma unroll\n");
	cu_line(f, "for (int r = 1; r < %lld; r++) {", (long long)s->apart);
	cu_line(f, "x = lds16_at(map_cta(sm + at * 4, r));");
	cu_line(f, "y[0] += bits_f32(x.x);");
	cu_line(f, "y[1] += bits_f32(x.y);");
	cu_line(f, "y[2] += bits_f32(x.z);");
	cu_line(f, "y[3] += bits_f32(x.w);");
	cu_line(f, "}");
	cu_line(f, "f32 *to = (f32 *)(SMEM + %lld) + i / %lld * %lld + i %% "
		"%lld * 4;", (long long)s->gather, parts, pitch, parts);
	cu_line(f, "to[0] = y[0];");
	cu_line(f, "to[1] = y[1];");
	cu_line(f, "to[2] = y[2];");
	cu_line(f, "to[3] = y[3];");
	cu_close(f, 2);
	cu_comment(f, "no block ends, or stages again, while others read");
	cu_line(f, "cluster_sync();");
}

static bool
put(struct ca_back *s, enum attn_result r, const char *sum, double by,
    int64_t cols)
{
	struct cu_func *f = &s->f;
	struct ca_put p = { .r = r, .rows = s->rows, .cols = cols,
			    .pitch = ca_stage_pitch(cols), .row = "row0",
			    .live = "live", .head = s->keys ? "kv" : "head",
			    .threads = s->threads, .thread = s->thread,
			    .from = "0" };

	if (s->out_blocks > 1 || s->form.chunk) {
		p.from = "out0";
	}
	if (s->apart > 1) {
		p.at = s->gather;
		p.rows = ca_ceil_div(s->rows, s->apart);
		p.row = "(row0 + first)";
		p.live = "mine";
	}
	cu_line(f, "%s", s->meet);
	ca_stage_sums(f, &s->form, sum, ca_f32(f, by), false, cols, 0);
	if (s->apart > 1) {
		add_blocks(s, cols);
	} else {
		cu_line(f, "%s", s->meet);
	}
	return ca_put_rows(f, s->t, &p);
}

bool
ca_back_put(struct ca_back *s)
{
	long long rows = ca_ceil_div(s->rows, s->apart);

	if (s->apart > 1) {
		cu_line(&s->f, "const int first = cluster_rank() * %lld;",
			rows);
		cu_line(&s->f, "const int mine = ca_min(%lld, live - first);",
			rows);
	}
	if (s->weight &&
	    !put(s, ATTN_DV, "dv", 1, s->out_weight)) {
		return false;
	}
	return !s->slope || put(s, s->keys ? ATTN_DK : ATTN_DQ, "dx",
				s->t->scale, s->out_slope);
}

void
ca_back_begin(struct ca_back *s)
{
	if (s->slope) {
		ca_declare_zeros(&s->f, &s->form, "dx", s->out_slope);
	}
	if (s->weight) {
		ca_declare_zeros(&s->f, &s->form, "dv", s->out_weight);
	}
}

bool
ca_back_emit(struct ca_back *s, const struct ca_form *form)
{
	if (!lay_out(s, form, s->t->k->c->arch->smem_bytes)) {
		return false;
	}
	cu_func_begin(s->t->k, s->keys ? "attention_keys" : "attention_queries",
		      &s->f);
	ca_back_open(s);
	ca_declare_lanes(&s->f, &s->form);
	cu_line(&s->f, "const u32 sm = smem_addr(SMEM);");
	ca_back_place(s);
	cu_launch_wait(&s->f);
	ca_back_kv(s);
	open_inputs(s, false);
	ca_back_columns(s);
	if (!s->keys) {
		ca_back_rows(s);
	}
	if (!s->form.chunk) {
		load(s, true, 0, &s->x0, NULL);
		if (s->slope) {
			load(s, true, 1, &s->x1, NULL);
		}
		if (s->form.stages == 1) {
			/* a rank may have no column, and so no other group */
			cu_line(&s->f, "cp_async_commit();");
		}
	}
	ca_back_begin(s);
	each_columns(s);
	cu_line(&s->f, "cp_async_wait(0);");
	if (!ca_back_put(s)) {
		return false;
	}
	cu_func_end(&s->f);
	return true;
}

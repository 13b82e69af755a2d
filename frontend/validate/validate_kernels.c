/*
 * Reads rows of kernels: which formula prices each, and what else the kernel
 * that a profiler shows includes.  `impl` tells how the software runs a kernel,
 * never how well: no constant depends on it.
 */
#include "frontend/validate/validate.h"

#include <string.h>

enum column { KERNEL, GPU, DTYPE, M, N, K, BATCH, HEADS, KV_HEADS, HEAD_DIM,
	      SEQ_Q, SEQ_KV, CAUSAL, DIRECTION, TIME_US, TFLOPS, IMPL, SOURCE,
	      NCOLUMNS };

static const char *const columns[NCOLUMNS] = {
	"kernel", "gpu", "dtype", "m", "n", "k", "batch", "heads", "kv_heads",
	"head_dim", "seq_q", "seq_kv", "causal", "direction", "time_us",
	"tflops", "impl", "source"
};

struct kernel_rows {
	struct val *v;
	int at[NCOLUMNS];
	uint32_t row;
	const struct target_device *device;
	enum target_rate rate;
	double flops;		/* what `tflops` counts; 0: not known */
};

static const char *
cell(const struct kernel_rows *x, enum column c)
{
	return tsv_cell(&x->v->table, x->row, x->at[c]);
}

static bool
cell_is(const struct kernel_rows *x, enum column c, const char *text)
{
	return strcmp(cell(x, c), text) == 0;
}

static bool
cell_begins(const struct kernel_rows *x, enum column c, const char *text)
{
	return strncmp(cell(x, c), text, strlen(text)) == 0;
}

/* Reads numbers that a row must have; false unless all are positive. */
static bool
read_numbers(const struct kernel_rows *x, const enum column *c, double *out,
	     int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (!tsv_number(&x->v->table, x->row, x->at[c[i]], &out[i]) ||
		    out[i] <= 0) {
			if (!tsv_is_blank(cell(x, c[i]))) {
				(void)val_unread(x->v, x->row, x->at[c[i]],
						 "a number above 0");
			}
			return false;
		}
	}
	return true;
}

static bool
rate_of(const char *dtype, enum target_rate *out)
{
	static const struct { const char *name; enum target_rate rate; } at[] =
	{
		{ "fp16", TARGET_FP16 }, { "bf16", TARGET_BF16 },
		{ "bfloat16", TARGET_BF16 }, { "fp16/bf16", TARGET_BF16 },
		{ "fp8", TARGET_FP8 }, { "int8", TARGET_INT8 },
		{ "fp4", TARGET_FP4 }, { "nvfp4", TARGET_FP4 },
		{ "tf32", TARGET_TF32 }, { "fp32", TARGET_FP32 }
	};
	size_t i;

	for (i = 0; i < sizeof at / sizeof *at; i++) {
		if (strcmp(at[i].name, dtype) == 0) {
			*out = at[i].rate;
			return true;
		}
	}
	return false;
}

/* ---- one kind of row at a time; the reason, if it cannot be ---- */

static const char *
price_contraction(struct kernel_rows *x, struct val_row *r)
{
	static const enum column need[] = { M, N, K };
	struct cost_contraction c = { .batch = 1, .out_bytes = 2 };
	double v[3];

	if (!read_numbers(x, need, v, 3)) {
		return "m, n or k is missing";
	}
	c.m = v[0];
	c.n = v[1];
	c.k = v[2];
	c.rate = x->rate;
	x->flops = 2 * c.m * c.n * c.k;
	val_add(r, cost_contraction(x->device, &c));
	/* its linear layer first quantizes A, in each call */
	if (c.rate == TARGET_FP8 && cell_begins(x, IMPL, "TensorRT-LLM")) {
		val_add(r, cost_bytes(x->device, COST_QUANTIZE,
				      5 * c.m * c.k));
	}
	r->marked = c.m >= 256;
	r->kind = r->marked ? "contraction, m >= 256"
			    : "contraction, m < 256";
	return NULL;
}

/*
 * The prefill of a server has three more kernels: prefix sums of lengths, and
 * rotating queries and keys while moving keys and values into the cache.
 */
static void
price_prefill(struct kernel_rows *x, const struct cost_attention *a,
	      struct val_row *r)
{
	double bytes = 4 * a->batch * a->head_dim *
		       (a->heads * a->queries + 2 * a->kv_heads * a->keys);
	struct cost launches = { .us = 2 * x->device->launch_us,
				 .launch_us = 2 * x->device->launch_us };

	val_add(r, cost_bytes(x->device, COST_MAP, bytes));
	val_add(r, launches);
	r->marked = true;
	r->kind = "attention prefill";
}

static const char *
price_attention(struct kernel_rows *x, struct val_row *r)
{
	static const enum column need[] = {
		BATCH, HEADS, KV_HEADS, HEAD_DIM, SEQ_Q, SEQ_KV
	};
	bool both = cell_is(x, DIRECTION, "fwd+bwd");
	struct cost_attention a = { .rate = x->rate };
	double v[6];

	if (!read_numbers(x, need, v, 6)) {
		return "a size is missing";
	}
	if (!both && !cell_is(x, DIRECTION, "fwd")) {
		return "its direction is neither fwd nor fwd+bwd";
	}
	if (!cell_is(x, CAUSAL, "y") && !cell_is(x, CAUSAL, "n")) {
		return val_unread(x->v, x->row, x->at[CAUSAL], "y or n");
	}
	a.batch = v[0];
	a.heads = v[1];
	a.kv_heads = v[2];
	a.head_dim = v[3];
	a.queries = v[4];
	a.keys = v[5];
	a.causal = cell_is(x, CAUSAL, "y");
	a.narrow = cell_is(x, IMPL, "FlashAttention-2");
	/*
	 * flops as its authors count them: half if causal, 2.5 times for
	 * backward
	 */
	x->flops = 4 * v[0] * v[1] * v[3] * v[4] * v[5] *
		   (a.causal ? 0.5 : 1) * (both ? 3.5 : 1);
	val_add(r, cost_attention(x->device, &a));
	if (both) {
		val_add(r, cost_attention_backward(x->device, &a));
	}
	r->kind = "attention";
	if (cell_is(x, KERNEL, "attention prefill")) {
		price_prefill(x, &a, r);
	}
	return NULL;
}

/* A kernel that moves `times` * m * n elements. */
static const char *
price_moves(struct kernel_rows *x, struct val_row *r, enum cost_kind kind,
	    double times)
{
	static const enum column need[] = { M, N };
	double v[2];

	if (!read_numbers(x, need, v, 2)) {
		return "m or n is missing";
	}
	val_add(r, cost_bytes(x->device, kind, times * v[0] * v[1] *
			      cost_rate_bytes(x->rate)));
	r->kind = cell(x, KERNEL);
	return NULL;
}

static const char *
by_kernel(struct kernel_rows *x, struct val_row *r)
{
	if (cell_begins(x, KERNEL, "GEMM") || cell_begins(x, KERNEL,
							  "mlp_up_proj") ||
	    cell_begins(x, KERNEL, "mlp_down_proj") || cell_begins(x, KERNEL,
		"attn_pre_proj") || cell_begins(x, KERNEL, "attn_post_proj")) {
		return price_contraction(x, r);
	}
	if (cell_begins(x, KERNEL, "attention")) {
		return price_attention(x, r);
	}
	if (cell_is(x, KERNEL, "add")) {
		return price_moves(x, r, COST_MAP, 3);
	}
	if (cell_is(x, KERNEL, "input_layernorm")) {
		return price_moves(x, r, COST_ROWS, 2);
	}
	if (cell_is(x, KERNEL, "emb")) {
		return price_moves(x, r, COST_GATHER, 2);
	}
	if (cell_is(x, KERNEL, "mlp_act") || cell_is(x, KERNEL, "attn_rope")) {
		return "mlp_act, attn_rope: the row does not say how wide "
		       "one rank's part is";
	}
	return "no formula is for this kernel";
}

static const char *
price(struct kernel_rows *x, struct val_row *r)
{
	const struct target_group *g = val_target(x->v, cell(x, GPU));
	const char *why;
	double v;

	if (!g) {
		return "its gpu is no target";
	}
	x->device = &g->device;
	if (!rate_of(cell(x, DTYPE), &x->rate)) {
		return "its dtype has no rate";
	}
	why = by_kernel(x, r);
	if (why) {
		return why;
	}
	if (tsv_number(&x->v->table, x->row, x->at[TIME_US], &v) && v > 0) {
		r->measured_us = v;
	} else if (x->flops > 0 && tsv_number(&x->v->table, x->row,
					      x->at[TFLOPS], &v) && v > 0) {
		r->measured_us = x->flops / v / 1e6;
	} else {
		return "neither time_us nor tflops is a number";
	}
	return NULL;
}

bool
val_kernels(struct val *v)
{
	struct arena *a = &v->d->ctx.perm;
	struct kernel_rows x = { .v = v };

	v->marks = "contractions with m >= 256, attention prefill";
	if (!tsv_columns(&v->table, &v->d->ctx.diags, "kernels", columns,
			 NCOLUMNS, x.at)) {
		return false;
	}
	for (x.row = 0; x.row < v->table.nrows; x.row++) {
		struct val_row r = { .source = cell(&x, SOURCE),
				     .kind = cell(&x, KERNEL),
				     .device = cell(&x, GPU),
				     .span = v->table.spans[x.row],
				     .row = x.row };

		x.flops = 0;
		v->unread = (struct span){ 0, 0 };
		r.what = arena_printf(a, "%s %s %s m %s n %s k %s b %s h "
			"%s/%s d %s s %s/%s %s %s", cell(&x, KERNEL),
			cell(&x, GPU), cell(&x, DTYPE), cell(&x, M),
			cell(&x, N), cell(&x, K), cell(&x, BATCH),
			cell(&x, HEADS), cell(&x, KV_HEADS),
			cell(&x, HEAD_DIM), cell(&x, SEQ_Q),
			cell(&x, SEQ_KV), cell(&x, DIRECTION),
			cell(&x, IMPL));
		r.why = price(&x, &r);
		r.unread = v->unread;
		val_push(v, &r);
	}
	return true;
}

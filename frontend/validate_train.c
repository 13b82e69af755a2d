/*
 * Rows of training runs: each is turned into a model in the language, which
 * is compiled, so that what is wrong with a shape shows; a step's time is not
 * predicted yet.
 */
#include "frontend/validate.h"

#include <string.h>

#include "frontend/frontend.h"

enum column { MODEL, LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, MLP, VOCAB, SEQ,
	      GPU, GPUS_PER_NODE, N_GPUS, NODE_LINK, TP, PP, DP, CP, VPP, MBS,
	      GBS, SP, RECOMPUTE, ZERO, PRECISION, STEP_S, MEM_GB, MEM_KIND,
	      SOURCE, TRAITS, NCOLUMNS };

static const char *const columns[NCOLUMNS] = {
	"model", "layers", "hidden", "heads", "kv_heads", "ffn", "mlp",
	"vocab", "seq", "gpu", "gpus_per_node", "n_gpus", "node_link_gb_s",
	"tp", "pp", "dp", "cp", "vpp", "mbs", "gbs", "sp", "recompute",
	"zero", "precision", "step_s", "mem_gb", "mem_kind", "source",
	"traits"
};

/* What a block's MLP is, by the column of that name. */
static const struct { const char *name, *text; } mlps[] = {
	{ "gelu", "linear(gelu(linear(n -> ffn)) -> hidden)" },
	{ "relu2", "linear(relu2(linear(n -> ffn)) -> hidden)" },
	{ "swiglu",
	  "linear(silu(linear(n -> ffn)) * linear(n -> ffn) -> hidden)" }
};
#define NMLPS (sizeof mlps / sizeof *mlps)

struct runs {
	struct val *v;
	int at[NCOLUMNS];
	uint32_t row;
};

static const char *
cell(const struct runs *x, enum column c)
{
	return tsv_cell(&x->v->table, x->row, x->at[c]);
}

static bool
whole(const struct runs *x, enum column c, int64_t *out)
{
	const char *s = cell(x, c);

	return num_parse_int(s, strlen(s), out) && *out > 0;
}

/* The row's model; a table does not tell norms, biases or positions apart. */
static const char *
model_text(const struct runs *x, const char *mlp)
{
	return arena_printf(&x->v->d->ctx.perm,
		"model run {\n"
		"  dim hidden = %s, heads = %s, kv = %s, hd = hidden / heads,\n"
		"      ffn = %s, vocab = %s, seq = %s, batch = %s;\n"
		"  dtype bf16;\n"
		"  x = embed(tokens, vocab -> hidden);\n"
		"  repeat %s as i {\n"
		"    n = rmsnorm(x, eps = 1e-5);\n"
		"    q = linear(n -> heads, hd);\n"
		"    k = linear(n -> kv, hd);\n"
		"    w = linear(n -> kv, hd);\n"
		"    a = attention(q, k, w, causal);\n"
		"    x = x + linear(a -> hidden);\n"
		"    n = rmsnorm(x, eps = 1e-5);\n"
		"    x = x + %s;\n"
		"  }\n"
		"  x = rmsnorm(x, eps = 1e-5);\n"
		"  loss = cross_entropy(linear(x -> vocab), labels);\n"
		"}\n", cell(x, HIDDEN), cell(x, HEADS), cell(x, KV_HEADS),
		cell(x, FFN), cell(x, VOCAB), cell(x, SEQ), cell(x, GBS),
		cell(x, LAYERS), mlp);
}

/* Its weights have no names, as no checkpoint is to hold them. */
static struct ir_module *
compile(struct ir_ctx *c, const char *text)
{
	bool on = c->diags.on[WARN_UNNAMED_WEIGHT];
	struct ir_module *m = NULL;
	uint32_t base;

	c->diags.on[WARN_UNNAMED_WEIGHT] = false;
	if (source_add(&c->sources, "<row>", text, strlen(text), &base)) {
		m = fe_compile(c, c->sources.files.n - 1);
	}
	c->diags.on[WARN_UNNAMED_WEIGHT] = on;
	return m;
}

/* What a model cannot have, before it is written down. */
static const char *
bad_shape(const struct runs *x)
{
	static const enum column need[] = {
		LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, SEQ, GBS
	};
	int64_t v[8];
	int i;

	for (i = 0; i < 8; i++) {
		if (!whole(x, need[i], &v[i]) || v[i] > 1000000000) {
			return "a size of its model is no whole number";
		}
	}
	if (v[0] > 10000 || v[1] % v[2] != 0 || v[2] % v[3] != 0) {
		return "its heads do not divide its width";
	}
	return NULL;
}

static const char *
price(struct runs *x, struct val_row *r)
{
	const char *why = bad_shape(x);
	struct ir_module *m;
	struct pass_sums sums;
	double step_s;
	size_t i;

	for (i = 0; i < NMLPS; i++) {
		if (strcmp(mlps[i].name, cell(x, MLP)) == 0) {
			break;
		}
	}
	if (why || i == NMLPS) {
		return why ? why : "its mlp is none of gelu, relu2, swiglu";
	}
	if (!tsv_number(&x->v->table, x->row, x->at[STEP_S], &step_s) ||
	    step_s <= 0) {
		return "step_s is no number";
	}
	r->measured_us = step_s * 1e6;
	m = compile(&x->v->d->ctx, model_text(x, mlps[i].text));
	if (!m || !pass_sum(m, &sums)) {
		return "its model does not compile";
	}
	r->what = arena_printf(&x->v->d->ctx.perm, "%s, %lld parameters, on "
			       "%s %s", cell(x, MODEL),
			       (long long)sums.total, cell(x, N_GPUS),
			       cell(x, GPU));
	return "the time of a whole step is not modelled yet";
}

bool
val_train(struct val *v)
{
	struct runs x = { .v = v };

	v->marks = "";
	if (!tsv_columns(&v->table, &v->d->ctx.diags, "training runs",
			 columns, NCOLUMNS, x.at)) {
		return false;
	}
	for (x.row = 0; x.row < v->table.nrows; x.row++) {
		struct val_row r = {
			.source = cell(&x, SOURCE), .kind = cell(&x, MODEL),
			.device = cell(&x, GPU), .what = cell(&x, MODEL),
			.span = v->table.spans[x.row]
		};

		r.why = price(&x, &r);
		VEC_PUSH(&v->d->ctx.perm, &v->rows, r);
	}
	return v->d->ctx.diags.errors == 0;
}

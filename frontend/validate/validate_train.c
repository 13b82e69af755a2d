/*
 * Reads rows of training runs: each becomes a model in the language and pins of
 * a plan, goes through all passes, and is priced on its cluster.  Traits
 * describe how the measured software executes.
 */
#include "frontend/validate/validate.h"

#include <string.h>

#include "frontend/frontend.h"
#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"

enum column { MODEL, LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, MLP, VOCAB, SEQ,
	      GPU, GPUS_PER_NODE, N_GPUS, NODE_LINK, TP, PP, DP, CP, VPP, MBS,
	      GBS, SP, RECOMPUTE, ZERO, PRECISION, STEP_S, MEM_GB, MEM_KIND,
	      SOFTWARE, SOURCE, TRAITS, NCOLUMNS };

static const char *const columns[NCOLUMNS] = {
	"model", "layers", "hidden", "heads", "kv_heads", "ffn", "mlp",
	"vocab", "seq", "gpu", "gpus_per_node", "n_gpus", "node_link_gb_s",
	"tp", "pp", "dp", "cp", "vpp", "mbs", "gbs", "sp", "recompute",
	"zero", "precision", "step_s", "mem_gb", "mem_kind", "software",
	"source", "traits"
};

/* The MLP of a block, by the column of that name. */
struct mlp {
	const char *name, *text;
	const char *biased;	/* the same with biases; NULL: never has any */
};

static const struct mlp mlps[] = {
	{ "gelu", "linear(gelu(linear(n -> ffn)) -> hidden)",
	  "linear(gelu(linear(n -> ffn, bias)) -> hidden, bias)" },
	{ "relu2", "linear(relu2(linear(n -> ffn)) -> hidden)", NULL },
	{ "swiglu",
	  "linear(silu(linear(n -> ffn)) * linear(n -> ffn) -> hidden)", NULL }
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
read_count(const struct runs *x, enum column c, int64_t *out)
{
	const char *s = cell(x, c);

	return num_parse_int(s, strlen(s), out) && *out > 0;
}

/* The first date that its software or its source gives; 0: none. */
static int
month_of_run(const struct runs *x)
{
	int month = val_month(cell(x, SOFTWARE));

	return month ? month : val_month(cell(x, SOURCE));
}

/*
 * The model of a row.  Tables do not distinguish norms or positions: models
 * with GELU are taken to have learned ones, as GPT-2, and all later kinds rope.
 * Biases follow from the software.
 */
static const char *
model_text(struct arena *a, const struct runs *x, const struct mlp *mlp)
{
	bool biased = mlp->biased &&
		      val_software(cell(x, SOFTWARE), month_of_run(x), a,
				   &(struct price_traits){ 0 });
	const char *b = biased ? ", bias" : "";
	bool half = strcmp(cell(x, PRECISION), "fp16") == 0;

	return arena_printf(a,
		"model run {\n"
		"  dim hidden = %s, heads = %s, kv = %s, hd = hidden / heads,\n"
		"      ffn = %s, vocab = %s, seq = %s, batch = %s;\n"
		"  dtype %s;\n"
		"  x = embed(tokens, vocab -> hidden);\n"
		"  repeat %s as i {\n"
		"    n = rmsnorm(x, eps = 1e-5);\n"
		"    q = linear(n -> heads, hd%s);\n"
		"    k = linear(n -> kv, hd%s);\n"
		"    w = linear(n -> kv, hd%s);\n"
		"    a = attention(%s, w, causal);\n"
		"    x = x + linear(a -> hidden%s);\n"
		"    n = rmsnorm(x, eps = 1e-5);\n"
		"    x = x + %s;\n"
		"  }\n"
		"  x = rmsnorm(x, eps = 1e-5);\n"
		"  loss = cross_entropy(linear(x -> vocab), labels);\n"
		"}\n"
		"train { optimizer = adamw(lr = 1e-4); clip = 1.0; }\n",
		cell(x, HIDDEN), cell(x, HEADS), cell(x, KV_HEADS),
		cell(x, FFN), cell(x, VOCAB), cell(x, SEQ), cell(x, GBS),
		half ? "f16" : "bf16", cell(x, LAYERS), b, b, b,
		mlp->biased ? "q, k" : "rope(q), rope(k)", b,
		biased ? mlp->biased : mlp->text);
}

/* Why the sizes of a row are no model, or NULL. */
static const char *
bad_shape(const struct runs *x)
{
	static const enum column need[] = {
		LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, SEQ, GBS,
		GPUS_PER_NODE, N_GPUS
	};
	int64_t v[10];
	int i;

	for (i = 0; i < 10; i++) {
		if (!read_count(x, need[i], &v[i]) || v[i] > 1000000000) {
			return val_unread(x->v, x->row, x->at[need[i]],
					  "a whole number from 1 to 10^9");
		}
	}
	if (v[0] > 10000 || v[1] % v[2] != 0 || v[2] % v[3] != 0) {
		return "its heads do not divide its hidden size";
	}
	return NULL;
}

/* ---- the plan and the cluster ---- */

static const char counts[] = "1 2 3 ..", numbers[] = "the numbers from 0 on";

/* Values of cells besides `-` and nothing, which mean the usual. */
static const struct {
	enum column of;
	const char *words;
} legal[] = {
	{ NODE_LINK, numbers }, { TP, counts }, { PP, counts }, { DP, counts },
	{ CP, counts }, { VPP, counts }, { MBS, counts }, { SP, "0 1" },
	{ RECOMPUTE, "none selective full unknown" }, { ZERO, "0 1 2 3" },
	{ PRECISION, "bf16 fp16 fp8" }, { MEM_GB, numbers }
};
#define NLEGAL (sizeof legal / sizeof *legal)

static bool
is_word_of(const char *words, const char *s)
{
	size_t n = strlen(s);
	const char *p = words;

	for (; (p = strstr(p, s)) != NULL; p += n) {
		if ((p == words || p[-1] == ' ') &&
		    (p[n] == ' ' || p[n] == '\0')) {
			return true;
		}
	}
	return false;
}

static bool
is_legal(const struct runs *x, enum column c, const char *words)
{
	const char *s = cell(x, c);
	double number;
	int64_t count;

	if (words == counts) {
		return read_count(x, c, &count) || tsv_is_blank(s);
	}
	if (words == numbers) {
		return tsv_number(&x->v->table, x->row, x->at[c], &number)
			? number >= 0 : tsv_is_blank(s);
	}
	return tsv_is_blank(s) || is_word_of(words, s);
}

static const char *
bad_cell(const struct runs *x)
{
	size_t i;

	for (i = 0; i < NLEGAL; i++) {
		if (!is_legal(x, legal[i].of, legal[i].words)) {
			return val_unread(x->v, x->row, x->at[legal[i].of],
					  arena_printf(&x->v->d->ctx.perm,
						       "one of %s",
						       legal[i].words));
		}
	}
	return NULL;
}

/* A column that may be `-` or empty. */
static const char *
or_one(const struct runs *x, enum column c)
{
	int64_t v;

	return read_count(x, c, &v) ? cell(x, c) : "1";
}

/*
 * Ranks along dp, which are what is left of the devices where the row does not
 * say them; 0: its degrees are not its devices.
 */
static int64_t
data_ranks(const struct runs *x)
{
	static const enum column others[] = { TP, PP, CP };
	int64_t devices = 0, rest = 1, v, i;

	read_count(x, N_GPUS, &devices);
	for (i = 0; i < 3; i++) {
		if (read_count(x, others[i], &v) && !num_mul(rest, v, &rest)) {
			return 0;
		}
	}
	return devices % rest == 0 && (!read_count(x, DP, &v) ||
				       v == devices / rest)
		? devices / rest : 0;
}

/*
 * Software that overlaps tensor-parallel communication uses sequence
 * parallelism even if the row does not say so: an all-reduce is not pipelined.
 */
static bool
by_sequence(const struct runs *x)
{
	return strcmp(cell(x, SP), "1") == 0 ||
	       (strcmp(cell(x, SP), "0") != 0 &&
		strstr(cell(x, TRAITS), "tp_overlap=1") != NULL);
}

static bool
is_selective(const struct runs *x)
{
	return strcmp(cell(x, RECOMPUTE), "selective") == 0;
}

/* Whether its software, or the row's own trait, computes every second
 * contraction of a layer again: what no plan does, so its plan has none, and a
 * trait says the rest. */
static bool
is_alternate(const struct runs *x)
{
	struct arena *a = &x->v->d->ctx.perm;
	struct price_traits t = { 0 };
	struct price_fault fault;

	val_software(cell(x, SOFTWARE), month_of_run(x), a, &t);
	return is_selective(x) &&
	       price_traits_parse(&t, cell(x, TRAITS), true, a, &fault) &&
	       drv_assume(x->v->d, &t) && t.alternate;
}

static const char *
plan_text(struct arena *a, const struct runs *x)
{
	const char *rebuilt = cell(x, RECOMPUTE), *zero = cell(x, ZERO);
	int64_t chunks = 1;

	read_count(x, VPP, &chunks);
	return arena_printf(a, "tp=%s,pp=%s,dp=%lld,cp=%s,microbatch=%s,"
		"interleave=%lld,schedule=%s,sequence=%s,recompute=%s,zero=%s",
		or_one(x, TP), or_one(x, PP), (long long)data_ranks(x),
		or_one(x, CP),
		or_one(x, MBS), (long long)chunks,
		chunks > 1 ? "interleaved" : "1f1b",
		by_sequence(x) ? "on" : "off",
		is_selective(x) && !is_alternate(x) ? "attention"
		: strcmp(rebuilt, "full") == 0 ? "full" : "none",
		*zero >= '1' && *zero <= '3' ? zero : "0");
}

/* The cluster of a row; each node has as many network ports as devices. */
static bool
build_cluster(struct runs *x, struct target_group *g)
{
	const struct target_group *known = val_target(x->v, cell(x, GPU));
	double link = 0;
	int64_t devices, ranks;

	if (!known || !read_count(x, GPUS_PER_NODE, &devices) ||
	    !read_count(x, N_GPUS, &ranks)) {
		return false;
	}
	*g = *known;
	g->devices = devices < ranks ? devices : ranks;
	g->nodes = (ranks + g->devices - 1) / g->devices;
	tsv_number(&x->v->table, x->row, x->at[NODE_LINK], &link);
	if (link > 0) {
		g->network.ports = g->devices;
		g->network.bytes_us = link * 1e3 / (double)g->devices;
		if (g->network.latency_us <= 0) {
			g->network.latency_us = 5;
		}
	}
	return true;
}

/* ---- the prediction ---- */

/*
 * How the row's software executes, and what the row adds.  Software that
 * overlaps tensor-parallel communication also overlaps sends; models with GELU
 * have layer norms, for which every framework has a kernel.
 */
static const char *
find_traits(struct runs *x, const struct mlp *mlp, struct price_traits *t)
{
	struct arena *a = &x->v->d->ctx.perm;
	struct price_fault fault;

	*t = (struct price_traits){
		.blocking = strstr(cell(x, TRAITS), "tp_overlap=1") == NULL,
		.narrow_products = strcmp(cell(x, PRECISION), "fp8") == 0
	};
	val_software(cell(x, SOFTWARE), month_of_run(x), a, t);
	t->lone_norms &= !mlp->biased;
	if (!price_traits_parse(t, cell(x, TRAITS), true, a, &fault)) {
		return fault.why;
	}
	if (!drv_assume(x->v->d, t)) {
		return "--assume is wrong";
	}
	t->alternate = is_alternate(x);
	return NULL;
}

static struct answer_kind
run_kind(const struct runs *x, const struct target_group *g,
	 const struct price_traits *t)
{
	int64_t pp = 1, tp = 1, cp = 1, sequence = 1;

	read_count(x, PP, &pp);
	read_count(x, TP, &tp);
	read_count(x, CP, &cp);
	read_count(x, SEQ, &sequence);
	return answer_kind(answer_generation(g->device.arch), pp, tp * cp,
			   sequence, t->unfused);
}

static const char *
predict(struct runs *x, struct ir_ctx *c, const struct mlp *mlp,
	struct val_row *r)
{
	struct price_traits traits;
	struct ir_module *m = val_compile(c, model_text(&c->perm, x, mlp));
	struct target_devs devs;
	struct target_group g = { 0 };
	const char *why = NULL;
	struct memory mem;
	struct sched *s;
	struct ranks ranks;
	struct price p;

	if (!m || !plan_pin(m, plan_text(&c->perm, x)) ||
	    pass_apply(m, "split", false) != PASS_OK) {
		return val_first_error(x->v, c);
	}
	s = ranks_schedule(m, NULL, &c->perm);
	if (!s || !ranks_open(&ranks, m, s, NULL, &why)) {
		return why ? why : val_first_error(x->v, c);
	}
	if (!build_cluster(x, &g)) {
		return "there is no target of that name";
	}
	why = find_traits(x, mlp, &traits);
	if (why) {
		return why;
	}
	devs = target_devs_all(&g);
	if (!price_step(&ranks, &devs, &traits, &c->perm, &p, &why)) {
		return why;
	}
	tsv_number(&x->v->table, x->row, x->at[MEM_GB], &r->measured_gib);
	if (r->measured_gib > 0 || x->v->d->opts.at[OPT_ROWS].given) {
		if (!memory_plan(&ranks, NULL,
				 (int64_t)g.device.reserve_bytes, &c->perm,
				 &mem, &why)) {
			return why;
		}
		r->arena_gib = (double)mem.rank[mem.fullest].total /
			       (1 << 30);
	}
	r->predicted_us = p.step_us;
	r->run = run_kind(x, &g, &traits);
	r->math_us = p.parts_us[PRICE_MATRIX] + p.parts_us[PRICE_ATTENTION];
	r->memory_us = p.parts_us[PRICE_MAPS];
	r->launch_us = p.parts_us[PRICE_COMM];
	return NULL;
}

/* Compares its plan with the one that the search finds. */
static const char *
search(struct runs *x, const struct mlp *mlp, struct val_row *r)
{
	struct arena *a = &x->v->d->ctx.perm;
	struct val_run run = { .model = model_text(a, x, mlp),
			       .pins = plan_text(a, x) };

	return build_cluster(x, &run.group) ? val_search(x->v, &run, r)
				      : "there is no target of that name";
}

static const char *
price(struct runs *x, struct val_row *r)
{
	const char *why = bad_shape(x);
	struct ir_ctx c;
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
	why = bad_cell(x);
	if (why || data_ranks(x) == 0) {
		return why ? why : "its degrees are not its n_gpus";
	}
	if (!tsv_number(&x->v->table, x->row, x->at[STEP_S], &step_s) ||
	    step_s <= 0) {
		return val_unread(x->v, x->row, x->at[STEP_S],
				  "a number of seconds");
	}
	r->measured_us = step_s * 1e6;
	r->what = arena_printf(&x->v->d->ctx.perm, "%s on %s %s, %s",
			       cell(x, MODEL), cell(x, N_GPUS), cell(x, GPU),
			       plan_text(&x->v->d->ctx.perm, x));
	if (x->v->d->opts.at[OPT_SEARCH].given) {
		return search(x, &mlps[i], r);
	}
	ir_ctx_init(&c, NULL);
	why = predict(x, &c, &mlps[i], r);
	ir_ctx_release(&c);
	return why;
}

bool
val_train(struct val *v)
{
	struct runs x = { .v = v };

	v->marks = "";
	if (!drv_assume(v->d, &(struct price_traits){ 0 })) {
		return false;
	}
	if (!tsv_columns(&v->table, &v->d->ctx.diags, "training runs",
			 columns, NCOLUMNS, x.at)) {
		return false;
	}
	for (x.row = 0; x.row < v->table.nrows; x.row++) {
		struct val_row r = {
			.source = cell(&x, SOURCE), .kind = cell(&x, MODEL),
			.device = cell(&x, GPU), .what = cell(&x, MODEL),
			.span = v->table.spans[x.row], .row = x.row
		};

		v->unread = (struct span){ 0, 0 };
		r.why = price(&x, &r);
		r.unread = v->unread;
		val_push(v, &r);
	}
	return v->d->ctx.diags.errors == 0;
}

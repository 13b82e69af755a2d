/*
 * What a line of a table of serving describes: model, machine, formats and
 * degrees.  frontend/validate/serving.def has what published lines leave to
 * the reader's knowledge of models and engines.
 */
#include "frontend/validate/validate_serve.h"

#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/*
 * fp8: also multiplied so, those of 4 bits at the device's rate for 4.  fp4:
 * where the device does not multiply 4 bits, kernels widen them to what the
 * model is declared in, as they do weight-only types.  The first row counts
 * whose beginning of the precision's name and part of the model's fit.
 */
static const struct {
	const char *name, *model;
	struct serve_format format;	/* bytes 0: as declared */
	bool fp8, fp4, experts_only;
} precisions[] = {
	{ "fp8", "", { "f8e4m3", 1, 0 }, true, false, false },
	/* its config.json: mxfp4, blocks of 32 with a scale of 8 bits, and
	 * modules_to_not_convert has all but the experts */
	{ "fp4", "gpt-oss", { "f4e2m1", 0.5 + 1 / 32.0, 0 }, true, true, true },
	{ "fp4", "", { "f4e2m1", 0.5 + 1 / 16.0, 0 }, true, true, false },
	{ "mxfp4", "", { "f4e2m1", 0.5 + 1 / 32.0, 0 }, true, true, true },
	{ "nvfp4", "", { "f4e2m1", 0.5 + 1 / 16.0, 0 }, true, true, false },
	{ "int8-weight-only", "", { "int8", 1, 1 }, false, false, false },
	{ "w8a16", "", { "int8", 1, 1 }, false, false, false },
	{ "int4-weight-only", "", { "int4", 0.5 + 2 / 32.0, 0 }, false, false,
	  false },
	/* groups of 128 with a scale of 16 bits and a zero point of 4 */
	{ "awq", "", { "int4", 0.5 + 2.5 / 128, 0 }, false, false, false },
	{ "gptq", "", { "int4", 0.5 + 2.5 / 128, 0 }, false, false, false },
	{ "w4a16", "", { "int4", 0.5 + 2.5 / 128, 0 }, false, false, false },
	/* llama.cpp: blocks of 32 with a scale of 16 bits */
	{ "q4-0", "", { "int4", 0.5 + 2 / 32.0, 0 }, false, false, false },
	{ "q8-0", "", { "int8", 1 + 2 / 32.0, 1 + 2 / 32.0 }, false, false,
	  false },
	{ "bf16", "", { "", 0, 0 }, false, false, false },
	{ "bfloat16", "", { "", 0, 0 }, false, false, false },
	{ "fp16", "", { "", 0, 0 }, false, false, false },
	{ "float16", "", { "", 0, 0 }, false, false, false },
	{ "f16", "", { "", 0, 0 }, false, false, false },
	{ "as-loaded", "", { "", 0, 0 }, false, false, false }
};

/* ---- the model ---- */

/* Latent attention and shared experts, as config.json of DeepSeek-V3 has. */
static const char deepseek[] =
	"model row {\n"
	"dim hidden = 7168, heads = 128, nope = 128, rot = 64, vd = 128;\n"
	"dim qk = nope + rot, kvo = nope + vd, qrank = 1536, rank = 512;\n"
	"dim kvr = rank + rot, ffn = 18432, mid = 2048, expert = 256;\n"
	"dim choice = 8, vocab = 129280, seq = 1048576;\n"
	"dtype bf16;\n"
	"layer mla(x[batch, seq, hidden]) {\n"
	"  n = rmsnorm(x, eps = 1e-6);\n"
	"  c = rmsnorm(linear(n -> qrank), eps = 1e-6);\n"
	"  qn, qr = split(linear(c -> heads, qk), qk -> nope, rot);\n"
	"  l, r = split(linear(n -> kvr), kvr -> rank, rot);\n"
	"  l = cache(rmsnorm(l, eps = 1e-6));\n"
	"  r = cache(rope(r));\n"
	"  kn, v = split(linear(l -> heads, kvo), kvo -> nope, vd);\n"
	"  a = attention(concat(qn, rope(qr) -> qk), concat(kn, r -> qk),\n"
	"    v, causal, uncached);\n"
	"  return x + linear(a -> hidden);\n}\n"
	"layer dense(x[batch, seq, hidden]) {\n"
	"  x = mla(x);\n"
	"  m = rmsnorm(x, eps = 1e-6);\n"
	"  g = silu(linear(m -> ffn)) * linear(m -> ffn);\n"
	"  return x + linear(g -> hidden);\n}\n"
	"layer moe(x[batch, seq, hidden]) {\n"
	"  x = mla(x);\n"
	"  m = rmsnorm(x, eps = 1e-6);\n"
	"  s = sigmoid(linear(m -> expert));\n"
	"  e = topk(s, expert -> choice, groups = 8, top_groups = 4);\n"
	"  w = gather(s, e);\n"
	"  w = w / sum(w, choice);\n"
	"  g = silu(linear(m, e -> mid)) * linear(m, e -> mid);\n"
	"  y = linear(g, e -> hidden);\n"
	"  g = silu(linear(m -> mid)) * linear(m -> mid);\n"
	"  return x + linear(g -> hidden) + sum(y * w, choice);\n}\n"
	"x = embed(tokens, vocab -> hidden);\n"
	"repeat 3 { x = dense(x); }\n"
	"repeat 58 { x = moe(x); }\n"
	"logits = linear(rmsnorm(x, eps = 1e-6) -> vocab);\n}\n";

static const char *
block_text(const char *name, int64_t window, const char *rest,
	   struct arena *a)
{
	return arena_printf(a, "layer %s(x[batch, seq, hidden]) {\n"
		"  n = rmsnorm(x, eps = 1e-5);\n"
		"  q = rope(linear(n -> heads, hd), theta = 1e6);\n"
		"  k = rope(linear(n -> kv, hd), theta = 1e6);\n"
		"  a = attention(q, k, linear(n -> kv, hd), causal%s);\n"
		"  x = x + linear(a -> hidden);\n"
		"  m = rmsnorm(x, eps = 1e-5);\n%s}\n", name,
		window ? arena_printf(a, ", window = %lld", (long long)window)
		       : "", rest);
}

/* An MLP that every token passes, of the dim of that name. */
static const char *
mlp_text(const char *dim, bool gated, struct arena *a)
{
	return gated
		? arena_printf(a, "  g = silu(linear(m -> %s)) * "
			       "linear(m -> %s);\n", dim, dim)
		: arena_printf(a, "  g = gelu(linear(m -> %s));\n", dim);
}

static const char *
dense_text(const char *dim, bool gated, struct arena *a)
{
	return arena_printf(a, "%s  return x + linear(g -> hidden);\n",
			    mlp_text(dim, gated, a));
}

/* Experts, and the one that all tokens share, if there is one. */
static const char *
routed_text(const struct serving_shape *x, struct arena *a)
{
	return arena_printf(a,
		"  s = softmax(linear(m -> expert));\n"
		"  e = topk(s, expert -> choice);\n"
		"  w = gather(s, e);\n"
		"  w = w / sum(w, choice);\n"
		"  g = silu(linear(m, e -> ffn)) * linear(m, e -> ffn);\n"
		"  y = linear(g, e -> hidden);\n"
		"%s  return x + %ssum(y * w, choice);\n",
		x->shared ? mlp_text("shared", true, a) : "",
		x->shared ? "linear(g -> hidden) + " : "");
}

static const char *
dims_text(const struct serving_shape *x, struct arena *a)
{
	return arena_printf(a,
		"dim hidden = %lld, heads = %lld, kv = %lld, hd = %lld;\n"
		"dim ffn = %lld, vocab = %lld, seq = 1048576;\n%s%s%s",
		(long long)x->hidden, (long long)x->heads, (long long)x->kv,
		(long long)x->hd, (long long)x->ffn, (long long)x->vocab,
		x->experts
		? arena_printf(a, "dim expert = %lld, choice = %lld;\n",
			       (long long)x->experts, (long long)x->choice)
		: "",
		x->shared ? arena_printf(a, "dim shared = %lld;\n",
					 (long long)x->shared) : "",
		x->plain ? arena_printf(a, "dim plain = %lld;\n",
					(long long)x->plain) : "");
}

static const char *
model_text(const struct serving_shape *x, struct arena *a)
{
	const char *rest = x->experts ? routed_text(x, a)
				      : dense_text("ffn", x->gated != 0, a);
	const char *other = x->window ? block_text("other", x->window, rest, a)
		: x->plain ? block_text("other", 0,
					dense_text("plain", true, a), a)
		: NULL;

	if (x->layers == 0) {
		return deepseek;
	}
	return arena_printf(a, "model row {\n%sdtype bf16;\n"
		"%s%sx = embed(tokens, vocab -> hidden);\n"
		"repeat %lld { x = block(x);%s }\n"
		"logits = linear(rmsnorm(x, eps = 1e-5) -> vocab);\n}\n",
		dims_text(x, a), block_text("block", 0, rest, a),
		other ? other : "", (long long)x->layers / (other ? 2 : 1),
		other ? " x = other(x);" : "");
}

/* GPT-2's block, whose sizes the notes of the line have. */
static bool
noted_shape(const struct serving *s, struct serving_shape *out)
{
	double layers = serving_note(s, "layers=", 0);
	double hidden = serving_note(s, "hidden=", 0);
	double heads = serving_note(s, "heads=", 0);
	double vocab = serving_note(s, "vocab=", 0);

	if (layers < 1 || layers > 4096 || heads < 1 || hidden < heads ||
	    hidden > 1 << 20 || vocab < 2 || vocab > 1 << 24 ||
	    (int64_t)hidden % (int64_t)heads != 0 ||
	    (int64_t)(hidden / heads) % 2 != 0) {
		return false;
	}
	*out = (struct serving_shape){
		.layers = (int64_t)layers, .hidden = (int64_t)hidden,
		.heads = (int64_t)heads, .kv = (int64_t)heads,
		.hd = (int64_t)(hidden / heads), .ffn = (int64_t)(4 * hidden),
		.vocab = (int64_t)vocab
	};
	return true;
}

static const char *
find_model(struct serving *s)
{
	struct ir_ctx *c = &s->v->d->ctx;
	struct serving_shape shape;
	struct serving_model *new;
	struct ir_module *m;
	uint32_t i;

	if (!noted_shape(s, &shape) &&
	    !serving_named_shape(serving_cell(s, SERVING_MODEL), &shape)) {
		return arena_printf(&c->perm, "no shape of %s is known",
				    serving_cell(s, SERVING_MODEL));
	}
	for (i = 0; i < s->models.n; i++) {
		s->of = s->models.at[i];
		if (memcmp(&s->of->shape, &shape, sizeof shape) == 0) {
			return NULL;
		}
	}
	new = arena_alloc(&c->perm, sizeof *new);
	new->shape = shape;
	m = val_compile(c, model_text(&shape, &c->perm));
	if (!m || !serve_open(m, NULL, false, &new->model)) {
		die("the shape of %s", serving_cell(s, SERVING_MODEL));
	}
	VEC_PUSH(&c->perm, &s->models, new);
	s->of = new;
	return NULL;
}

/* ---- the machine ---- */

static const char *
find_target(struct serving *s, int64_t n, bool *has_fp4)
{
	struct ir_ctx *c = &s->v->d->ctx;
	const char *name = serving_cell(s, SERVING_GPU);
	const char *to = serving_named_target(&c->perm, name, has_fp4);
	int64_t node;

	if (!to) {
		return arena_printf(&c->perm, "no target for %s", name);
	}
	if (!fe_target(c, to, &s->target)) {
		die("a device of serving_names.def is no target: %s", to);
	}
	node = s->target.groups.at[0].device.node_devices;
	to = n <= node ? arena_printf(&c->perm, "%sx%lld", to, (long long)n)
		: arena_printf(&c->perm, "%sx%lldx%lld", to, (long long)node,
			       (long long)((n + node - 1) / node));
	return fe_target(c, to, &s->target) ? NULL : "no such target";
}

static const struct serve_format cache8 = { "f8e4m3", 1, 0 };

/* Of kernels that widen 4 bits int4's on an A100 are published, and those that
 * engines have for fp4 are not. */
static const char not_said[] = "no precision is said, and 16 bits are assumed";
static const char widened[] = "weights of 4 bits are widened by as many "
	"instructions as llmc's kernels have; no engine's were measured";

static const char *
find_precision(struct serving *s, bool has_fp4)
{
	struct arena *a = &s->v->d->ctx.perm;
	const char *said = serving_cell(s, SERVING_PRECISION);
	const char *text = tsv_is_blank(said) ? "as-loaded"
					      : serving_plain(a, said);
	const char *model = serving_cell(s, SERVING_MODEL);
	size_t i;

	for (i = 0; i < COUNT(precisions); i++) {
		if (strncmp(text, precisions[i].name,
			    strlen(precisions[i].name)) == 0 &&
		    serving_says(model, precisions[i].model)) {
			bool widens = precisions[i].fp4 && !has_fp4;

			s->note = widens ? widened
				: tsv_is_blank(said) ? not_said : NULL;
			s->asked.fp8 = precisions[i].fp8 && !widens;
			s->asked.fp4 = precisions[i].fp4 && !widens;
			s->asked.experts_only = precisions[i].experts_only;
			s->asked.weights = precisions[i].format.bytes > 0
				? &precisions[i].format : NULL;
			s->asked.cache = s->asked.fp8 &&
				serving_narrows_cache(s) ? &cache8 : NULL;
			return NULL;
		}
	}
	return arena_printf(a, "no rate for %s on %s", said,
			    s->target.groups.at[0].device.name);
}

/* Rows of a tile of DeepGEMM's contiguous layout. */
#define EXPERT_TILE 128

/*
 * Tables that call all ranks of a mixture of experts `tp` have some that do
 * not divide its heads; no engine splits heads over more ranks than these.
 */
#define MOST_TENSOR 16

/*
 * Experts are on as many ranks as attention is, so what `moe_tp` and `ep` have
 * beyond `tp` are ranks with sequences of their own, where the line leaves
 * their number empty; 1: none.
 */
static double
ranks_of_experts(const struct serving *s)
{
	double all = serving_note(s, "moe_tp=", 0) *
		     serving_number(s, SERVING_EP, 1);
	double tp = serving_number(s, SERVING_TP, 1) *
		    serving_number(s, SERVING_PP, 1);

	return serving_note(s, "attention_dp=", 0) < 1 && tp >= 1 &&
	       all > tp && fmod(all, tp) == 0 ? all / tp : 1;
}

/*
 * Ranks of attention with sequences of their own: as the line says, or by what
 * the name of the run has in flight, as `_c320_`, beside the number of a rank.
 */
static double
data_ranks(const struct serving *s)
{
	double each = serving_number(s, SERVING_CONCURRENCY, 0);
	double apart = serving_note(s, "attention_dp=", 0);
	double all = serving_note(s, "_c", 0);
	const char *whole = arena_printf(&s->v->d->ctx.perm, "_c%.0f_", all);

	if (apart >= 1) {
		return apart;
	}
	/* a name that was cut off may have lost digits */
	return each >= 1 && all > each && fmod(all, each) == 0 &&
	       strstr(serving_text(s, s->notes), whole)
		? all / each : ranks_of_experts(s);
}

/*
 * Requests in flight of all ranks.  A line gives those of one rank, unless they
 * are as many as the name of its run says.
 */
static double
in_flight(const struct serving *s, double apart)
{
	double each = serving_number(s, SERVING_CONCURRENCY, 0);
	const char *whole = arena_printf(&s->v->d->ctx.perm, "_c%.0f_", each);

	return strstr(serving_text(s, s->notes), whole) ? each : each * apart;
}

/*
 * How many ranks the run had, where its columns have more: as its name says,
 * or as many as its experts are on.  Configurations of runs of varied lengths
 * have experts on one rank of `tp` or on all.
 */
static double
named_ranks(const struct serving *s)
{
	double experts = serving_number(s, SERVING_EP, 1);

	return serving_least_length(s) < 1 && experts > 1
		? experts : serving_note(s, "_tp", 0);
}

/* Far above any machine: products of two have no more than 53 bits. */
#define MOST_DEGREE (1 << 20)

static bool
is_degree(double n)
{
	return n >= 0 && n <= MOST_DEGREE;
}

/*
 * Attention over data ranks with experts apart is `ep` here; experts apart on
 * ranks that split attention's heads have the same bytes as `tp`.
 *
 * Engines divide the ranks of a replica once more for the experts, so `ep` of
 * them are among the tp.  Some tables multiply both: where the name of the run
 * says `tp8_ep8`, its ranks are 8, whatever the columns that were derived from
 * it say.
 */
static const char *
find_split(struct serving *s, int64_t *devices_of)
{
	const struct serving_shape *x = &s->of->shape;
	double apart = data_ranks(s);
	double named = named_ranks(s);
	int64_t n = (int64_t)fmin(serving_number(s, SERVING_NGPUS, 1),
				  2 * MOST_DEGREE), rest;

	if (!is_degree(apart) || !is_degree((double)n) ||
	    !is_degree(serving_number(s, SERVING_TP, 1)) ||
	    !is_degree(serving_number(s, SERVING_PP, 1))) {
		return "its degrees do not divide its devices";
	}
	s->split.tp = (int64_t)serving_number(s, SERVING_TP, (double)n);
	s->split.pp = (int64_t)serving_number(s, SERVING_PP, 1);
	if (named >= 1 && named < (double)n && s->split.pp == 1) {
		n = (int64_t)named;
		s->split.tp = apart > 1 ? 1 : n;
	}
	if (ranks_of_experts(s) > 1) {
		n *= (int64_t)fmin(ranks_of_experts(s), MOST_DEGREE);
	} else if (apart > 1 && s->split.tp == n && n % (int64_t)apart == 0) {
		s->split.tp = n / (int64_t)apart;
	}
	if (x->experts && x->heads && s->split.tp > 1 &&
	    (serving_has(s, SERVING_DATA_RANKS) ||
	     s->split.tp > MOST_TENSOR || x->heads % s->split.tp != 0)) {
		s->split.tp = 1;
	}
	if (n < 1 || s->split.tp < 1 || s->split.pp < 1 ||
	    n % (s->split.tp * s->split.pp) != 0) {
		return "its degrees do not divide its devices";
	}
	rest = n / (s->split.tp * s->split.pp);
	s->split.ep = x->experts && rest > 1 ? rest : 1;
	s->split.replicas = rest / s->split.ep;
	s->concurrency = in_flight(s, apart);
	*devices_of = n;
	return NULL;
}

const char *
serving_describe(struct serving *s)
{
	double least = serving_least_length(s), mean = (1 + least) / 2;
	const char *why = find_model(s);
	bool has_fp4 = false;
	int64_t n = 1;

	why = why ? why : find_split(s, &n);
	why = why ? why : find_target(s, n, &has_fp4);
	why = why ? why : find_precision(s, has_fp4);
	s->asked.prompt = mean * serving_number(s, SERVING_INPUT, 0);
	s->asked.output = mean * serving_number(s, SERVING_OUTPUT, 0);
	s->spread = (1 - least) / (1 + least);
	if (!why) {
		serving_find_roles(s, data_ranks(s) > 1);
	}
	s->asked.maps_alone = !serving_has(s, SERVING_FUSES_MAPS);
	s->asked.rounds_alone = s->asked.maps_alone &&
				!serving_has(s, SERVING_FUSES_ROUNDING);
	s->asked.widened_apart = true;
	s->asked.direct = serving_has(s, SERVING_DIRECT);
	s->asked.host_calls = serving_has(s, SERVING_HOST_CALLS);
	s->asked.sorted = !why && serving_has(s, SERVING_SORTS) &&
		strstr(serving_text(s, s->notes), "top_p=")
		? (double)s->of->shape.vocab : 0;
	s->asked.expert_rows = s->asked.fp8 &&
		serving_has(s, SERVING_EXPERT_TILES) ? EXPERT_TILE : 0;
	s->asked.heads_apart = !why && serving_heads_are_apart(s);
	s->asked.context = (s->asked.prompt + s->asked.output) / mean;
	return why ? why : s->asked.prompt < 1 || s->asked.output < 1
		? "its requests have no length" : NULL;
}

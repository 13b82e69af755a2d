/*
 * Published measurements of serving beside passes/serve.  A line of the table
 * has up to three figures, and each becomes a row: the time for a token, the
 * time to the first, and tokens a second, as the time that a token takes of
 * the whole machine.
 */
#include "frontend/validate/validate.h"

#include "passes/serve/serve.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum column { MODEL, GPU, NGPUS, TP, PP, EP, PRECISION, FRAMEWORK, INPUT,
	      OUTPUT, CONCURRENCY, SCENARIO, RATE, TTFT, TPOT, SOURCE,
	      NCOLUMNS };

static const char *const columns[NCOLUMNS] = {
	"model", "gpu", "n_gpus", "tp", "pp", "ep", "precision", "framework",
	"input_len", "output_len", "batch_or_concurrency", "scenario",
	"throughput_out_tok_s", "ttft_ms", "tpot_ms", "source"
};

struct serving_shape {
	const char *name;
	int layers, hidden, heads, kv, hd, ffn, experts, choice, vocab;
};

static const struct serving_shape shapes[] = {
#define SHAPE(name, layers, hidden, heads, kv, hd, ffn, experts, choice, \
	      vocab) \
	{ name, layers, hidden, heads, kv, hd, ffn, experts, choice, vocab },
#include "frontend/validate/serving.def"
};

/* What is true of an engine by default. */
enum trait { NARROW_CACHE, PROMPTS_FIRST };

static const struct {
	const char *name;
	enum trait trait;
} engines[] = {
#define ENGINE(name, trait, why) { name, trait },
#include "frontend/validate/serving.def"
};
#define NSHAPES (sizeof shapes / sizeof *shapes)
#define NENGINES (sizeof engines / sizeof *engines)

/* Devices by the beginning of their name in a table. */
static const struct {
	const char *begins, *target;
} devices[] = {
	{ "h100-sxm", "h100-sxm" }, { "h100-80gb-hbm3", "h100-sxm" },
	{ "h200", "h200-sxm" }, { "b200", "b200" }, { "b300", "b300" },
	{ "gb200", "gb200" }, { "l40s", "l40s" }, { "a100", "a100-sxm" }
};

static const struct {
	const char *name;
	struct serve_format format;	/* bytes 0: as declared */
	bool fp8;
} precisions[] = {
	{ "fp8", { "f8e4m3", 1 }, true },
	{ "int8 weight-only", { "int8", 1 }, false },
	{ "int4 weight-only", { "int4", 0.5 + 2 / 32.0 }, false },
	{ "bf16", { "", 0 }, false }, { "fp16", { "", 0 }, false },
	{ "as loaded", { "", 0 }, false }
};

/* Tokens of a step, at most: the default of published engines. */
#define STEP_TOKENS 8192
#define MOST_CLIENTS 65536

struct serving {
	struct val *v;
	int at[NCOLUMNS];
	uint32_t row;
	const struct serving_shape *shape;
	struct serve_model model[NSHAPES];
	bool is_open[NSHAPES];
	struct target target;
	struct serve_asked asked;
	double concurrency;
	struct serve_split split;
};

static const char *
cell(const struct serving *s, enum column c)
{
	return tsv_cell(&s->v->table, s->row, s->at[c]);
}

static double
number(const struct serving *s, enum column c, double absent)
{
	double v;

	return tsv_number(&s->v->table, s->row, s->at[c], &v) ? v : absent;
}

/* In lower case, with hyphens. */
static const char *
plain(struct arena *a, const char *text)
{
	char *out = arena_strndup(a, text, strlen(text)), *p;

	for (p = out; *p; p++) {
		*p = *p == ' ' || *p == '_' ? '-'
					    : (char)tolower((unsigned char)*p);
	}
	return out;
}

/* ---- what a line describes ---- */

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
model_text(const struct serving_shape *x, struct arena *a)
{
	const char *dense =
		"  g = silu(linear(m -> ffn)) * linear(m -> ffn);\n"
		"  return x + linear(g -> hidden);\n";
	const char *routed =
		"  s = softmax(linear(m -> expert));\n"
		"  e = topk(s, expert -> choice);\n"
		"  w = gather(s, e);\n"
		"  w = w / sum(w, choice);\n"
		"  g = silu(linear(m, e -> ffn)) * linear(m, e -> ffn);\n"
		"  y = linear(g, e -> hidden);\n"
		"  return x + sum(y * w, choice);\n";
	const char *experts = x->experts
		? arena_printf(a, "dim expert = %d, choice = %d;\n",
			       x->experts, x->choice) : "";

	if (x->layers == 0) {
		return deepseek;
	}
	return arena_printf(a, "model row {\n"
		"dim hidden = %d, heads = %d, kv = %d, hd = %d, ffn = %d;\n"
		"dim vocab = %d, seq = 1048576;\n%sdtype bf16;\n"
		"layer block(x[batch, seq, hidden]) {\n"
		"  n = rmsnorm(x, eps = 1e-5);\n"
		"  q = rope(linear(n -> heads, hd), theta = 1e6);\n"
		"  k = rope(linear(n -> kv, hd), theta = 1e6);\n"
		"  a = attention(q, k, linear(n -> kv, hd), causal);\n"
		"  x = x + linear(a -> hidden);\n"
		"  m = rmsnorm(x, eps = 1e-5);\n%s}\n"
		"x = embed(tokens, vocab -> hidden);\n"
		"repeat %d { x = block(x); }\n"
		"logits = linear(rmsnorm(x, eps = 1e-5) -> vocab);\n}\n",
		x->hidden, x->heads, x->kv, x->hd, x->ffn, x->vocab, experts,
		x->experts ? routed : dense, x->layers);
}

static const char *
find_shape(struct serving *s)
{
	struct ir_ctx *c = &s->v->d->ctx;
	const char *name = plain(&c->perm, cell(s, MODEL));
	struct ir_module *m;
	size_t i;

	for (i = 0; i < NSHAPES; i++) {
		if (strstr(name, shapes[i].name)) {
			break;
		}
	}
	if (i == NSHAPES || strchr(name, '+')) {
		return arena_printf(&c->perm, "no shape of %s is known",
				    cell(s, MODEL));
	}
	s->shape = &shapes[i];
	if (!s->is_open[i]) {
		m = val_compile(c, model_text(s->shape, &c->perm));
		if (!m || !serve_open(m, NULL, &s->model[i])) {
			die("the shape of %s", shapes[i].name);
		}
		s->is_open[i] = true;
	}
	return NULL;
}

static const char *
find_target(struct serving *s)
{
	struct ir_ctx *c = &s->v->d->ctx;
	const char *name = plain(&c->perm, cell(s, GPU));
	int64_t n = (int64_t)number(s, NGPUS, 1);
	size_t i;

	for (i = 0; i < sizeof devices / sizeof *devices; i++) {
		const char *to = devices[i].target;

		if (strncmp(name, devices[i].begins,
			    strlen(devices[i].begins)) != 0) {
			continue;
		}
		to = n <= 8 ? arena_printf(&c->perm, "%sx%lld", to,
					   (long long)n)
			    : arena_printf(&c->perm, "%sx8x%lld", to,
					   (long long)(n + 7) / 8);
		return fe_target(c, to, &s->target) ? NULL : "no such target";
	}
	return arena_printf(&c->perm, "no target for %s", cell(s, GPU));
}

static const struct serve_format cache8 = { "f8e4m3", 1 };

static bool
has_trait(const struct serving *s, enum trait trait)
{
	size_t i;

	for (i = 0; i < NENGINES; i++) {
		if (engines[i].trait == trait &&
		    strstr(cell(s, FRAMEWORK), engines[i].name)) {
			return true;
		}
	}
	return false;
}

static const char *
find_precision(struct serving *s)
{
	const char *text = cell(s, PRECISION);
	size_t i;

	for (i = 0; i < sizeof precisions / sizeof *precisions; i++) {
		if (strncmp(text, precisions[i].name,
			    strlen(precisions[i].name)) == 0) {
			s->asked.fp8 = precisions[i].fp8;
			s->asked.weights = precisions[i].format.bytes > 0
				? &precisions[i].format : NULL;
			s->asked.cache = precisions[i].fp8 &&
				has_trait(s, NARROW_CACHE) ? &cache8 : NULL;
			return NULL;
		}
	}
	return arena_printf(&s->v->d->ctx.perm, "no rate for %s", text);
}

/*
 * Attention over data ranks with experts apart is `ep` here; experts apart on
 * ranks that split attention's heads have the same bytes as `tp`.
 */
static const char *
find_split(struct serving *s)
{
	int64_t n = (int64_t)number(s, NGPUS, 1);
	int64_t rest;

	s->split.tp = (int64_t)number(s, TP, (double)n);
	s->split.pp = (int64_t)number(s, PP, 1);
	if (s->split.tp < 1 || s->split.pp < 1 ||
	    n % (s->split.tp * s->split.pp) != 0) {
		return "its degrees do not divide its devices";
	}
	rest = n / (s->split.tp * s->split.pp);
	s->split.ep = s->shape->experts && number(s, EP, 1) > 1 ? rest : 1;
	s->split.replicas = rest / s->split.ep;
	return NULL;
}

/* ---- what is predicted of it ---- */

/*
 * Requests, for each that is in flight: what scripts around AIPerf and vLLM's
 * benchmark usually ask for; from memory.
 */
#define WAVES 10

/*
 * Requests begin at once, and each that ends is followed by another.  Where an
 * engine reads prompts beside tokens of others, only the first wave waits for
 * its own prompts: later its requests end in different steps.  Where prompts
 * are first, all begin to decode together, end together, and every wave waits.
 * The mean has the first wave in it, and a median would not.
 */
static void
at_concurrency(const struct serving *s, const struct serve_answer_in *in,
	       const struct serve_program *p, struct serve_plan *out)
{
	struct arena *a = &in->model->m->ctx->perm;
	struct serve_traffic t = {
		.chunk = STEP_TOKENS, .is_serial = true,
		.prompts_first = has_trait(s, PROMPTS_FIRST)
	};
	struct serve_load l = serve_load_of(in->asked, 1, STEP_TOKENS);
	struct serve_memory m;
	struct serve_waits w;

	serve_memory(p, in->target, in->asked, &l, &m);
	t.clients = fmax(ceil(s->concurrency / (double)p->split.replicas), 1);
	t.sequences = fmin(t.clients, floor(m.tokens /
			   (in->asked->prompt + in->asked->output / 2)));
	if (t.sequences < 1) {
		return;
	}
	t.requests = WAVES * (uint32_t)t.clients;
	serve_queue(in, p, &t, a, &w);
	out->ttft_us = serve_mean(w.ttft, w.n);
	out->tpot_us = serve_mean(w.tpot, w.n);
}

static void
push(struct serving *s, const char *kind, double measured, double predicted,
     const char *why)
{
	struct arena *a = &s->v->d->ctx.perm;
	struct val_row r = {
		.measured_us = measured, .predicted_us = predicted,
		.why = why, .kind = kind, .source = cell(s, FRAMEWORK),
		.device = cell(s, GPU), .span = s->v->table.spans[s->row]
	};

	r.what = arena_printf(a, "%s %s, %s in %s out, %s at once: %s",
			      cell(s, MODEL), cell(s, PRECISION),
			      cell(s, INPUT), cell(s, OUTPUT),
			      cell(s, CONCURRENCY), kind);
	VEC_PUSH(a, &s->v->rows, r);
}

/* Why there is no prediction; NULL: there is one. */
static const char *
predict(struct serving *s, struct serve_plan *out, bool load)
{
	struct arena *a = &s->v->d->ctx.perm;
	struct serve_answer_in in = {
		.model = &s->model[s->shape - shapes], .target = &s->target,
		.asked = &s->asked
	};
	struct serve_program p;
	struct serve_answer x;

	if (load) {
		in.pins.split = s->split;
		serve_search(&in, a, &x);
		*out = x.best;
	} else {
		serve_program(in.model, in.target, s->split.tp, s->split.ep,
			      a, &p);
		if (p.why) {
			return p.why;
		}
		p.split = s->split;
		at_concurrency(s, &in, &p, out);
	}
	return out->ttft_us > 0 ? NULL : "the model does not fit";
}

static const char *
describe(struct serving *s)
{
	const char *why = find_shape(s);

	why = why ? why : find_target(s);
	why = why ? why : find_precision(s);
	why = why ? why : find_split(s);
	s->asked.prompt = number(s, INPUT, 0);
	s->asked.output = number(s, OUTPUT, 0);
	s->asked.context = s->asked.prompt + s->asked.output;
	s->concurrency = number(s, CONCURRENCY, 0);
	return why ? why : s->asked.prompt < 1 || s->asked.output < 1
		? "its requests have no length" : NULL;
}

static void
read_line(struct serving *s)
{
	double tpot = number(s, TPOT, 0), ttft = number(s, TTFT, 0);
	double rate = number(s, RATE, 0);
	bool load = strstr(cell(s, SCENARIO), "max throughput") != NULL;
	const char *why = describe(s);
	struct serve_plan x = { 0 };

	if (!why && !load && s->concurrency < 1) {
		why = "it does not say how many requests are in flight";
	} else if (!why && s->concurrency > MOST_CLIENTS) {
		why = "it has more than 65536 requests in flight";
	}
	if (!why) {
		why = predict(s, &x, load);
	}
	if (tpot > 0) {
		push(s, "tpot", tpot * 1e3, x.tpot_us, why);
	}
	if (ttft > 0) {
		push(s, "ttft", ttft * 1e3, x.ttft_us, why);
	}
	if (rate > 0 && load) {
		push(s, "throughput", 1e6 / rate, why ? 0 : 1e6 / x.tokens_s,
		     why);
	}
}

bool
val_serve(struct val *v)
{
	struct serving *s = arena_alloc(&v->d->ctx.perm, sizeof *s);

	s->v = v;
	if (!tsv_columns(&v->table, &v->d->ctx.diags, v->what, columns,
			 NCOLUMNS, s->at)) {
		return false;
	}
	for (s->row = 0; s->row < v->table.nrows; s->row++) {
		read_line(s);
	}
	return true;
}

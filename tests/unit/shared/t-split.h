/*
 * Random pairs of a small model and a plan for it, as a row of numbers, so
 * that a pair which fails can be made smaller number by number.
 */
#ifndef TESTS_UNIT_T_SPLIT_H
#define TESTS_UNIT_T_SPLIT_H

#include "ir/ir.h"

/* N(id, lowest, highest): drawn from there, and shrunk towards the lowest. */
#define NUMBERS(N) \
	N(BATCH, 1, 6) N(SEQ, 1, 7) N(HIDDEN, 1, 5) N(GROUPS, 1, 3) \
	N(KV, 1, 3) N(HD, 1, 2) N(FFN, 1, 9) N(VOCAB, 2, 13) \
	N(LAYERS, 1, 5) N(EXPERTS, 0, 5) N(TOP, 1, 3) N(FIRST, 0, 2) \
	N(LAYERNORM, 0, 1) N(ACT, 0, 2) N(BIAS, 0, 1) N(TIED, 0, 1) \
	N(LEARNED, 0, 1) N(CAUSAL, 0, 1) N(WINDOW, 0, 3) N(DROP, 0, 1) \
	N(SHARED, 0, 1) N(OPTIMIZER, 0, 2) N(CLIP, 0, 1) N(BF16, 0, 1) \
	N(DP, 1, 4) N(EP, 1, 4) N(CP, 1, 4) N(TP, 1, 6) N(PP, 1, 4) \
	N(MICRO, 1, 3) N(ZERO, 0, 3) N(SEQUENCE, 0, 1) N(GATHER, 0, 1) \
	N(BALANCED, 0, 1) N(SCHEDULE, 0, 5) N(CHUNKS, 1, 3) \
	N(RECOMPUTE, 0, 5) N(SHUFFLE, 0, 9) N(MESH, 0, 3) N(UNEVEN, 0, 1) \
	N(LATENT, 0, 0)

enum number {
#define N(id, low, high) NR_##id,
	NUMBERS(N)
#undef N
	NR_COUNT
};

static const struct {
	const char *name;
	int low, high;
} numbers[] = {
#define N(id, low, high) { #id, low, high },
	NUMBERS(N)
#undef N
};

struct pair {
	int n[NR_COUNT];
};

#ifndef MOST_RANKS
#define MOST_RANKS 16
#endif

static uint32_t
draw(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33) % below;
}

static int
ranks_of(const struct pair *p)
{
	return p->n[NR_DP] * p->n[NR_EP] * p->n[NR_CP] * p->n[NR_TP] *
	       p->n[NR_PP];
}

/* What cannot be is left out before anyone has to refuse it. */
static void
make_sense(struct pair *p)
{
	int *n = p->n;

	n[NR_EP] = n[NR_EXPERTS] == 0 ? 1
		: n[NR_EP] > n[NR_EXPERTS] ? n[NR_EXPERTS] : n[NR_EP];
	n[NR_TOP] = n[NR_TOP] > n[NR_EXPERTS] && n[NR_EXPERTS]
		? n[NR_EXPERTS] : n[NR_TOP];
	n[NR_FIRST] = n[NR_EXPERTS] ? n[NR_FIRST] : 0;
	n[NR_CP] = n[NR_CP] > n[NR_SEQ] ? n[NR_SEQ] : n[NR_CP];
	n[NR_BALANCED] = n[NR_CP] > 1 && 2 * n[NR_CP] <= n[NR_SEQ]
		? n[NR_BALANCED] : 0;
	while (n[NR_DP] * n[NR_EP] > n[NR_BATCH]) {
		n[n[NR_DP] > 1 ? NR_DP : NR_EP]--;
	}
	n[NR_CHUNKS] = n[NR_PP] > 1 ? n[NR_CHUNKS] : 1;
	while (n[NR_PP] * n[NR_CHUNKS] > n[NR_LAYERS] + n[NR_FIRST]) {
		n[n[NR_CHUNKS] > 1 ? NR_CHUNKS : NR_PP]--;
	}
	while (ranks_of(p) > MOST_RANKS) {
		n[n[NR_TP] > 2 ? NR_TP : n[NR_PP] > 2 ? NR_PP
			: n[NR_DP] > 1 ? NR_DP : n[NR_CP] > 1 ? NR_CP
			: NR_TP]--;
	}
	n[NR_CHUNKS] = n[NR_PP] > 1 ? n[NR_CHUNKS] : 1;
}

static struct pair
random_pair(uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 12345;
	struct pair p;
	int i;

	for (i = 0; i < NR_COUNT; i++) {
		int low = numbers[i].low, high = numbers[i].high;

		p.n[i] = low;
		if (high > low) {
			p.n[i] += (int)draw(&state,
					    (uint32_t)(high - low + 1));
		}
	}
	/* most draws of these would hide the others */
	if (draw(&state, 3)) {
		p.n[NR_WINDOW] = 0;
	}
	if (draw(&state, 3)) {
		p.n[NR_SHUFFLE] = 0;
	}
	make_sense(&p);
	return p;
}

/* ---- the model ---- */

static void
put_half(struct buf *b, const int *n, bool experts)
{
	const char *bias = n[NR_BIAS] ? ", bias" : "";
	const char *norm = n[NR_LAYERNORM] ? "layernorm" : "rmsnorm";
	const char *drop = n[NR_DROP] ? ", p = 0.25)" : "";
	static const char *const act[] = { "silu", "gelu", "relu2" };

	buf_printf(b, "    m = %s(x) @ \"n2\";\n", norm);
	if (!experts) {
		if (n[NR_ACT] == 0) {
			buf_printf(b, "    g = silu(linear(m -> ffn) @ "
				   "\"gate\") * linear(m -> ffn) @ \"up\";\n");
		} else {
			buf_printf(b, "    g = %s(linear(m -> ffn%s) @ "
				   "\"up\");\n", act[n[NR_ACT]], bias);
		}
		buf_printf(b, "    return x + %slinear(g -> hidden%s) @ "
			   "\"down\"%s;\n", n[NR_DROP] ? "dropout(" : "",
			   bias, drop);
		return;
	}
	buf_puts(b, "    s = softmax(linear(m -> expert) @ \"router\");\n"
		 "    e = topk(s, expert -> choice);\n"
		 "    w = gather(s, e);\n    w = w / sum(w, choice);\n");
	if (n[NR_ACT] == 0) {
		buf_puts(b, "    g = silu(linear(m, e -> ffn) @ "
			 "\"experts.{expert}.w1\") * linear(m, e -> ffn) @ "
			 "\"experts.{expert}.w3\";\n");
	} else {
		buf_printf(b, "    g = %s(linear(m, e -> ffn) @ "
			   "\"experts.{expert}.w1\");\n", act[n[NR_ACT]]);
	}
	buf_puts(b, "    y = linear(g, e -> hidden) @ "
		 "\"experts.{expert}.w2\";\n");
	if (n[NR_SHARED]) {
		buf_puts(b, "    h = linear(gelu(linear(m -> ffn) @ \"su\") "
			 "-> hidden) @ \"sd\";\n"
			 "    return x + h + sum(y * w, choice);\n");
	} else {
		buf_puts(b, "    return x + sum(y * w, choice);\n");
	}
}

/*
 * Queries, keys and values: of the layer's input, or, as NR_LATENT says (which
 * is never drawn here), keys and values of one latent that all heads have and a
 * cache keeps.  1: beside it a part is rotated that all heads have, too, as
 * DeepSeek's attention has it, and queries may have a latent of their own.  2:
 * heads share keys, which are rotated after the product.
 */
static void
put_keys(struct buf *b, const int *n)
{
	const char *bias = n[NR_BIAS] ? ", bias" : "";
	const char *norm = n[NR_LAYERNORM] ? "layernorm" : "rmsnorm";
	const char *rope = n[NR_LEARNED] ? "" : "rope";

	if (n[NR_LATENT] == 1) {
		if (n[NR_SHARED]) {
			buf_printf(b, "    c = %s(linear(n -> qrank) @ \"qa\")"
				   " @ \"qn\";\n", norm);
		}
		buf_printf(b, "    qn, qr = split(linear(%s -> heads, qk%s) @ "
			   "\"q\", qk -> nope, rot);\n"
			   "    l, r = split(linear(n -> kvr%s) @ \"kva\", "
			   "kvr -> rank, rot);\n"
			   "    l = cache(%s(l) @ \"ln\");\n"
			   "    r = cache(%s(r));\n"
			   "    kn, v = split(linear(l -> heads, kvo%s) @ "
			   "\"kvb\", kvo -> nope, vd);\n"
			   "    q = concat(qn, %s(qr) -> qk);\n"
			   "    k = concat(kn, r -> qk);\n",
			   n[NR_SHARED] ? "c" : "n", bias, bias, norm, rope,
			   bias, rope);
		return;
	}
	if (n[NR_LATENT]) {
		buf_printf(b, "    l = cache(%s(linear(n -> rank%s) @ \"kva\")"
			   " @ \"ln\");\n", norm, bias);
	}
	buf_printf(b, "    q = linear(n -> heads, hd%s) @ \"q\";\n"
		   "    k = linear(%s -> kv, hd%s) @ \"k\";\n"
		   "    v = linear(%s -> kv, hd%s) @ \"v\";\n", bias,
		   n[NR_LATENT] ? "l" : "n", bias,
		   n[NR_LATENT] ? "l" : "n", bias);
}

static void
put_layer(struct buf *b, const int *n, const char *name, bool experts)
{
	const char *bias = n[NR_BIAS] ? ", bias" : "";
	const char *norm = n[NR_LAYERNORM] ? "layernorm" : "rmsnorm";
	/* 2, which is never drawn: neither, and scores fall */
	const char *rope = n[NR_LEARNED] || n[NR_LATENT] == 1 ? "" : "rope";
	const char *fall = n[NR_LEARNED] == 2 ? ", alibi = 8" : "";
	char window[32] = "";

	if (n[NR_WINDOW]) {
		snprintf(window, sizeof window, ", window = %d",
			 n[NR_WINDOW]);
	}
	buf_printf(b, "  layer %s(x[batch, seq, hidden]) {\n"
		   "    n = %s(x) @ \"n1\";\n", name, norm);
	put_keys(b, n);
	buf_printf(b, "    a = attention(%s(q), %s(k), v%s%s%s%s);\n"
		   "    x = x + linear(a -> hidden%s) @ \"o\";\n", rope, rope,
		   n[NR_CAUSAL] || n[NR_WINDOW] ? ", causal" : "", window,
		   fall, n[NR_LATENT] ? ", uncached" : "", bias);
	put_half(b, n, experts);
	buf_puts(b, "  }\n");
}

static void
put_train(struct buf *b, const int *n)
{
	static const char *const rule[] = {
		"adamw(lr = 1e-2, weight_decay = 0.1)", "sgd(lr = 0.5)",
		"sgd(lr = 0.5, momentum = 0.9)",
		/* never drawn: the same with small steps */
		"adamw(lr = 1e-3, weight_decay = 0.1)", "sgd(lr = 0.05)",
		"sgd(lr = 0.05, momentum = 0.9)"
	};

	buf_printf(b, "train {\n  batch = %d;\n  optimizer = %s;\n",
		   n[NR_BATCH], rule[n[NR_OPTIMIZER]]);
	if (n[NR_CLIP]) {
		buf_puts(b, "  clip = 0.5;\n");
	}
	buf_puts(b, "}\n");
}

static const char *
model_text(struct arena *a, const struct pair *p)
{
	const int *n = p->n;
	struct buf b;

	buf_init(&b, a);
	buf_printf(&b, "model m {\n  dim hidden = %d, kv = %d, heads = %d, "
		   "hd = %d, ffn = %d;\n  dim vocab = %d, seq = %d;\n",
		   2 * n[NR_HIDDEN], n[NR_KV], n[NR_KV] * n[NR_GROUPS],
		   2 * n[NR_HD], n[NR_FFN], n[NR_VOCAB], n[NR_SEQ]);
	if (n[NR_EXPERTS]) {
		buf_printf(&b, "  dim expert = %d, choice = %d;\n",
			   n[NR_EXPERTS], n[NR_TOP]);
	}
	if (n[NR_LATENT]) {
		/* where ffn is whole groups of weights, so is rank */
		buf_printf(&b, "  dim rank = %d, qrank = %d, nope = %d, "
			   "rot = 2, vd = %d;\n  dim qk = nope + rot, "
			   "kvo = nope + vd, kvr = rank + rot;\n", n[NR_FFN],
			   n[NR_FFN] + 1, 2 * n[NR_HD] - 1, n[NR_HD]);
	}
	buf_printf(&b, "  dtype %s;\n", n[NR_BF16] ? "bf16" : "f32");
	if (n[NR_FIRST] || !n[NR_EXPERTS]) {
		put_layer(&b, n, "dense", false);
	}
	if (n[NR_EXPERTS]) {
		put_layer(&b, n, "moe", true);
	}
	buf_puts(&b, "  x = embed(tokens, vocab -> hidden) @ \"wte\"");
	buf_puts(&b, n[NR_LEARNED] == 1 ? "\n    + weight(seq, hidden) @ "
		 "\"wpe\";\n" : ";\n");
	if (n[NR_FIRST]) {
		buf_printf(&b, "  repeat %d as i { x = dense(x) @ "
			   "\"h.{i}\"; }\n", n[NR_FIRST]);
	}
	buf_printf(&b, "  repeat %d as i from %d { x = %s(x) @ \"h.{i}\"; }\n",
		   n[NR_LAYERS], n[NR_FIRST],
		   n[NR_EXPERTS] ? "moe" : "dense");
	buf_printf(&b, "  x = %s(x) @ \"nf\";\n"
		   "  logits = linear(x -> vocab%s;\n"
		   "  loss = cross_entropy(logits, labels);\n}\n",
		   n[NR_LAYERNORM] ? "layernorm" : "rmsnorm",
		   n[NR_TIED] ? ", tied = \"wte\")" : ") @ \"head\"");
	put_train(&b, n);
	return buf_text(&b);
}

/* ---- the plan ---- */

static void
put_stages(struct buf *b, const struct pair *p)
{
	int left = p->n[NR_LAYERS] + p->n[NR_FIRST], i;
	int stages = p->n[NR_PP] * p->n[NR_CHUNKS];

	buf_puts(b, ",stages=");
	for (i = 0; i < stages; i++) {
		/* as many as may be early, one each later */
		int most = left - (stages - 1 - i);
		int here = i + 1 == stages ? left
			: i == 0 && stages > 1 && left > stages ? 0
			: most > 1 ? 1 + (p->n[NR_SEQ] + i) % most : 1;

		if (i > 0 && i + 1 < stages && here < 1) {
			here = 1;
		}
		buf_printf(b, "%s%d", i ? "+" : "", here);
		left -= here;
	}
}

/* One of the words for all, or above 2 a set of its own for each stage. */
static void
put_recompute(struct buf *b, const int *n)
{
	static const char *const sets[] = {
		"none", "attention", "full", "(n+a)", "(q+v+x)", "m", "none"
	};
	uint64_t state = (uint64_t)(n[NR_RECOMPUTE] * 64 + n[NR_VOCAB]);
	int i;

	buf_puts(b, ",recompute=");
	if (n[NR_RECOMPUTE] < 3) {
		buf_puts(b, sets[n[NR_RECOMPUTE]]);
		return;
	}
	for (i = 0; i < n[NR_PP] * n[NR_CHUNKS]; i++) {
		buf_printf(b, "%s%s*1", i ? "+" : "", sets[draw(&state, 7)]);
	}
}

static inline const char *
plan_text(struct arena *a, const struct pair *p)
{
	static const char *const schedules[] = {
		"1f1b", "gpipe", "zb_h1", "zb_h2", "interleaved", "zbv"
	};
	static const char *const meshes[] = {
		"pp+dp+ep+cp+tp", "tp+cp+ep+dp+pp", "dp+pp+tp+ep+cp",
		"ep+tp+dp+cp+pp"
	};
	const int *n = p->n;
	int chunks = n[NR_CHUNKS];
	int share = n[NR_BATCH] / (n[NR_DP] * n[NR_EP]);
	const char *s = chunks == 1 ? schedules[n[NR_SCHEDULE] % 4]
		: chunks == 2 && n[NR_SCHEDULE] == 5 ? "zbv" : "interleaved";
	struct buf b;

	buf_init(&b, a);
	buf_printf(&b, "dp=%d,ep=%d,cp=%d,tp=%d,pp=%d,microbatch=%d,zero=%d,"
		   "sequence=%s,context=%s,balanced=%s,schedule=%s,"
		   "interleave=%d,mesh=%s,chunks=%d", n[NR_DP], n[NR_EP],
		   n[NR_CP], n[NR_TP], n[NR_PP],
		   n[NR_MICRO] < share ? n[NR_MICRO] : share, n[NR_ZERO],
		   n[NR_SEQUENCE] ? "on" : "off", n[NR_GATHER] ? "gather"
		   : "ring", n[NR_BALANCED] ? "on" : "off", s, chunks,
		   meshes[n[NR_MESH]], 1 << (n[NR_MICRO] + n[NR_MESH]) % 3);
	put_recompute(&b, n);
	if (n[NR_UNEVEN] && n[NR_PP] > 1) {
		put_stages(&b, p);
	}
	return buf_text(&b);
}

/* As a target would: collectives are joined, more or less of them, and
 * contractions of one operand share launches. */
static inline void
split_joins(struct ir_module *m, uint64_t seed)
{
	static const double bytes[] = { 0, 32, 512, 1 << 20 };
	struct ir_setting s = { .kind = SET_NUM, .n = 1 };

	s.key = intern_str(&m->ctx->syms, "join.link");
	s.num[0] = bytes[seed & 3];
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
	s.key = intern_str(&m->ctx->syms, "join.work");
	s.num[0] = bytes[seed >> 2 & 3];
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
	s.key = intern_str(&m->ctx->syms, "join.tiles");
	s.num[0] = 1;
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
}

#endif

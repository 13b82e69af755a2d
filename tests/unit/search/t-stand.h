/* A search before its first plan, and plans that are drawn for it. */
#ifndef T_STAND_H
#define T_STAND_H

#include "t-search.h"
#include "passes/bound/bound.h"

static const char plain[] =
	"model m {\n"
	"  dim hidden = 256, ffn = 512, vocab = 1024, seq = 128, batch = 16;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 6 as i {\n"
	"    n = rmsnorm(x);\n"
	"    x = x + linear(silu(linear(n -> ffn)) -> hidden);\n"
	"  }\n"
	"  x = rmsnorm(x);\n"
	"  loss = cross_entropy(linear(x -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* Of one sequence a rank has so few rows that a CPU needs no tiles for them. */
static const char rows[] =
	"model m {\n"
	"  dim hidden = 1056, ffn = 1056, vocab = 32, seq = 8, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 6 as i {\n"
	"    x = x + linear(linear(x -> ffn) -> hidden);\n"
	"  }\n"
	"  loss = cross_entropy(linear(x -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* Six layers of experts and nothing else. */
#define LAYERS_OF_EXPERTS(ffn, experts, seq, batch) \
	"model m {\n" \
	"  dim hidden = 1024, ffn = " #ffn ", expert = " #experts ",\n" \
	"      choice = 2, vocab = 512, seq = " #seq ", batch = " #batch ";\n" \
	"  dtype bf16;\n" \
	"  x = embed(tokens, vocab -> hidden);\n" \
	"  repeat 6 as i {\n" \
	"    n = rmsnorm(x);\n" \
	"    s = softmax(linear(n -> expert));\n" \
	"    e = topk(s, expert -> choice);\n" \
	"    w = gather(s, e);\n" \
	"    y = linear(gelu(linear(n, e -> ffn)), e -> hidden);\n" \
	"    x = x + sum(y * w, choice);\n" \
	"  }\n" \
	"  loss = cross_entropy(linear(x -> vocab), labels);\n" \
	"}\n" \
	"train { optimizer = adamw(lr = 1e-4); }\n"

/* Few tokens for large experts. */
static const char wide[] = LAYERS_OF_EXPERTS(8192, 32, 32, 64);

/*
 * Norms of queries and keys, which attention may compute with its rows; and
 * values by a factor that is saved, too, and has no sequences.
 */
static const char normed[] =
	"model m {\n"
	"  dim hidden = 512, heads = 8, kv = 2, hd = 64, ffn = 1024,\n"
	"      vocab = 512, seq = 256, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 4 as i {\n"
	"    n = rmsnorm(x);\n"
	"    q = rmsnorm(linear(n -> heads, hd));\n"
	"    k = rmsnorm(linear(n -> kv, hd));\n"
	"    v = linear(n -> kv, hd) * sigmoid(weight(hd));\n"
	"    a = attention(rope(q), rope(k), v, causal);\n"
	"    x = x + linear(a -> hidden);\n"
	"    n = layernorm(x);\n"
	"    x = x + linear(gelu(linear(n -> ffn)) -> hidden);\n"
	"  }\n"
	"  loss = cross_entropy(linear(layernorm(x) -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* Latents, experts with a shared one, and layers of two kinds. */
static const char latent[] =
	"model m {\n"
	"  dim hidden = 512, heads = 8, nope = 32, rot = 16, vd = 32;\n"
	"  dim qk = nope + rot, kvo = nope + vd, qrank = 128, rank = 64;\n"
	"  dim kvr = rank + rot, ffn = 1024, mid = 256;\n"
	"  dim expert = 8, choice = 2, vocab = 512, seq = 128, batch = 32;\n"
	"  dtype bf16;\n"
	"  layer attend(x[batch, seq, hidden]) {\n"
	"    n = rmsnorm(x);\n"
	"    c = rmsnorm(linear(n -> qrank));\n"
	"    qn, qr = split(linear(c -> heads, qk), qk -> nope, rot);\n"
	"    l, r = split(linear(n -> kvr), kvr -> rank, rot);\n"
	"    r = rope(r, interleaved);\n"
	"    kn, v = split(linear(rmsnorm(l) -> heads, kvo),\n"
	"                  kvo -> nope, vd);\n"
	"    q = concat(qn, rope(qr, interleaved) -> qk);\n"
	"    a = attention(q, concat(kn, r -> qk), v, causal);\n"
	"    return x + linear(a -> hidden);\n"
	"  }\n"
	"  layer gated(x[batch, seq, hidden]) {\n"
	"    x = attend(x);\n"
	"    m = rmsnorm(x);\n"
	"    g = silu(linear(m -> ffn)) * linear(m -> ffn);\n"
	"    return x + linear(g -> hidden);\n"
	"  }\n"
	"  layer chosen(x[batch, seq, hidden]) {\n"
	"    x = attend(x);\n"
	"    m = rmsnorm(x);\n"
	"    s = sigmoid(cast(linear(m -> expert), dtype = f32));\n"
	"    e = topk(s, expert -> choice);\n"
	"    w = gather(s, e);\n"
	"    w = cast(w / sum(w, choice) * 2.5, dtype = bf16);\n"
	"    g = silu(linear(m, e -> mid)) * linear(m, e -> mid);\n"
	"    y = linear(g, e -> hidden);\n"
	"    g = silu(linear(m -> mid)) * linear(m -> mid);\n"
	"    return x + linear(g -> hidden) + sum(y * w, choice);\n"
	"  }\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 3 as i { x = gated(x); }\n"
	"  repeat 4 as i from 3 { x = chosen(x); }\n"
	"  loss = cross_entropy(linear(rmsnorm(x) -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); clip = 1.0; }\n";

/* Contractions in 8 bits, windows and dropout. */
static const char narrow[] =
	"model m {\n"
	"  dim hidden = 512, heads = 8, kv = 2, hd = 64, ffn = 1024,\n"
	"      vocab = 512, seq = 256, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 5 as i {\n"
	"    n = rmsnorm(x);\n"
	"    q = rope(linear(n -> heads, hd));\n"
	"    k = rope(linear(n -> kv, hd));\n"
	"    v = linear(n -> kv, hd);\n"
	"    a = attention(q, k, v, causal, window = 64);\n"
	"    x = x + linear(a -> hidden);\n"
	"    f = linear(gelu(linear(layernorm(x) -> ffn)) -> hidden);\n"
	"    x = x + dropout(f, p = 0.1);\n"
	"  }\n"
	"  loss = cross_entropy(linear(layernorm(x) -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); matmul = f8e4m3; }\n";

/* An inner repeat reads weights of the layer around it, three times. */
static const char shared[] =
	"model m {\n"
	"  dim hidden = 512, ffn = 1024, vocab = 512, seq = 64, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 5 as i {\n"
	"    u = linear(rmsnorm(x) -> ffn) @ \"layers.{i}.up\";\n"
	"    x = x + linear(silu(u) -> hidden);\n"
	"    repeat 3 as j {\n"
	"      u = linear(rmsnorm(x) -> ffn, tied = \"layers.{i}.up\");\n"
	"      x = x + linear(silu(u) -> hidden);\n"
	"    }\n"
	"  }\n"
	"  loss = cross_entropy(linear(layernorm(x) -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* A weight is a first operand: it is read once for all sequences. */
static const char turned[] =
	"model m {\n"
	"  dim hidden = 4096, ffn = 16384, vocab = 512, seq = 8, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 5 as i {\n"
	"    u = dot(weight(ffn, hidden), rmsnorm(x), hidden);\n"
	"    x = x + linear(silu(u) -> hidden);\n"
	"  }\n"
	"  loss = cross_entropy(linear(layernorm(x) -> vocab), labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); }\n";

/* Models of a batch of 32 and of three numbers of layers, from this one on. */
static const struct drawn_model {
	const char *text;
	uint32_t layers;
	bool moe, large;
} drawn_models[] = {
	{ dense, 3, false, false },
	{ heavy, 3, false, true },
	{ experts, 2, true, false },
};

enum {
	DRAWN_MODELS = sizeof drawn_models / sizeof drawn_models[0],
	MODEL_BYTES = 4096
};

static inline const char *
draw_model(const struct drawn_model *x, char text[MODEL_BYTES])
{
	snprintf(text, MODEL_BYTES, x->text, 32, x->layers + draw(3));
	return text;
}

/* A search before its first plan. */
struct stand {
	struct ir_ctx c;
	struct target t;
	struct price_traits traits;
	struct memo memo;
	struct space space;
	struct piece_store pieces;
	struct bound bounds;
};

/* On nodes of several kinds, if the name has a `+`; with launches and calls of
 * several kernels or collectives, if it `joins`. */
static inline void
stand_as(struct stand *x, const char *model, const char *name, bool joins)
{
	struct ir_ctx *c = &x->c;
	struct ir_module *m;

	memset(x, 0, sizeof *x);
	ir_ctx_init(c, NULL);
	x->t = strchr(name, '+') ? cluster(c, name) : target(c, name);
	m = trained(c, model);
	if (joins) {
		price_set_joins(m, &x->t);
	}
	x->space = (struct space){ .m = m, .target = &x->t,
				   .traits = &x->traits };
	memo_init(&x->memo, &c->mem, MEMO_BYTES);
	assert_true(space_open(&x->space));
	piece_open(&x->pieces, &x->space, &x->memo);
	assert_true(bound_open(&x->bounds, &x->space, &x->pieces,
			       false));
}

static inline void
stand(struct stand *x, const char *model, const char *cluster)
{
	stand_as(x, model, cluster, false);
}

static inline void
leave(struct stand *x)
{
	piece_release(&x->pieces);
	space_release(&x->space);
	memo_release(&x->memo);
	ir_ctx_release(&x->c);
}

struct drawn {
	struct space_degrees g;
	struct space_plan t;
	struct piece_key key;
};

/* What may be on hosts, and what of that on their drives. */
static inline uint32_t
draw_offload(const struct space *s)
{
	uint32_t offload = s->t->device.host_bytes_us > 0 && draw(2) == 0
		? draw(16) & ~(uint32_t)PLAN_NVME_OPTIMIZER : 0;
	bool drives = s->t->device.nvme_bytes_us > 0;

	if (offload & PLAN_OFFLOAD_OPTIMIZER && drives && draw(2)) {
		offload |= PLAN_NVME_OPTIMIZER;
	}
	if (offload & PLAN_OFFLOAD_PARAMS && drives && draw(2)) {
		offload |= PLAN_NVME_PARAMS;
	}
	return offload;
}

/* A plan with one stage.  False: it is none. */
static inline bool
draw_plan(const struct space *s, bool moe, struct drawn *x)
{
	struct space_degrees *g = &x->g;

	memset(x, 0, sizeof *x);
	g->tp = 1 << draw(4);
	g->cp = 1 << draw(2);
	g->ep = moe ? 1 << draw(3) : 1;
	g->dp = 1 << draw(4);
	g->pp = 1;
	g->used = g->tp * g->cp * g->ep * g->dp;
	x->t = (struct space_plan){ .g = g, .microbatch = 1 << draw(4),
				    .chunks = 1, .sched = sched_find("1f1b") };
	x->t.nmicrobatches = space_microbatches(s, g, x->t.microbatch);
	x->key = (struct piece_key){
		.tp = g->tp, .cp = g->cp, .ep = g->ep, .zero = (int)draw(4),
		.data = g->dp > 1, .sequence = draw(2),
		.offload = draw_offload(s)
	};
	return g->used <= target_devices(s->target) &&
	       x->t.microbatch * g->dp * g->ep <= s->batch &&
	       (g->cp == 1 || 2 * g->cp <= s->context_most) &&
	       (x->key.zero == 0 || g->dp * g->cp * g->ep > 1);
}

#endif

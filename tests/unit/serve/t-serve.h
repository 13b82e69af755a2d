/*
 * For tests of what serving takes: small models, and their programs on targets.
 */
#ifndef T_SERVE_H
#define T_SERVE_H

#include <string.h>

#include "frontend/frontend.h"
#include "passes/serve/serve.h"

#define HIDDEN 256
#define HEADS 8
#define KV 4
#define HD 32
#define FFN 512
#define VOCAB 1024
#define LAYERS 4
#define EXPERTS 4
#define RANK 64			/* of latents, and of what turns beside them */
#define ROT 32
#define WINDOW 256

#define DIMS \
	"dim hidden = 256, heads = 8, kv = 4, hd = 32, ffn = 512;\n" \
	"dim vocab = 1024, expert = 4, choice = 2, seq = 4096;\n" \
	"dim nope = 32, rot = 32, vd = 32, qk = nope + rot;\n" \
	"dim kvo = nope + vd, rank = 64, kvr = rank + rot;\n" \
	"dtype bf16;\n"

#define GQA(more) \
	"  n = rmsnorm(x, eps = 1e-5);\n" \
	"  a = attention(rope(linear(n -> heads, hd)),\n" \
	"    rope(linear(n -> kv, hd)), linear(n -> kv, hd), causal" more \
	");\n" \
	"  x = x + linear(a -> hidden);\n"

#define LATENT(r) \
	"  n = rmsnorm(x, eps = 1e-5);\n" \
	"  qn, qr = split(linear(n -> heads, qk), qk -> nope, rot);\n" \
	"  l, r = split(linear(n -> kvr), kvr -> rank, rot);\n" \
	"  l = cache(rmsnorm(l, eps = 1e-6));\n" \
	"  r = " r ";\n" \
	"  kn, v = split(linear(l -> heads, kvo), kvo -> nope, vd);\n" \
	"  a = attention(concat(qn, rope(qr) -> qk), concat(kn, r -> qk),\n" \
	"    v, causal, uncached);\n" \
	"  x = x + linear(a -> hidden);\n"

/* A cache that has keys and values in one, and one of which values are made. */
#define JOINED(kv) \
	"  n = rmsnorm(x, eps = 1e-5);\n" kv \
	"  a = attention(linear(n -> heads, nope), k, v, causal,\n" \
	"    uncached);\n" \
	"  x = x + linear(a -> hidden);\n"
#define SPLIT JOINED("  k, v = split(cache(linear(n -> heads, kvo)),\n" \
		     "    kvo -> nope, vd);\n")
#define MIXED JOINED("  k = cache(linear(n -> heads, nope));\n" \
		     "  v = linear(cache(linear(n -> rank)) -> heads, vd);\n")

#define MLA LATENT("cache(rope(r))")
/* keys are rotated again in each step */
#define TURNED LATENT("rope(cache(r))")

#define DENSE \
	"  m = rmsnorm(x, eps = 1e-5);\n" \
	"  g = silu(linear(m -> ffn)) * linear(m -> ffn);\n" \
	"  return x + linear(g -> hidden);\n"

#define MOE \
	"  m = rmsnorm(x, eps = 1e-5);\n" \
	"  s = softmax(linear(m -> expert));\n" \
	"  e = topk(s, expert -> choice);\n" \
	"  w = gather(s, e);\n" \
	"  w = w / sum(w, choice);\n" \
	"  g = silu(linear(m, e -> ffn)) * linear(m, e -> ffn);\n" \
	"  y = linear(g, e -> hidden);\n" \
	"  return x + sum(y * w, choice);\n"

#define WITH_HEAD(attention, ffn, head) \
	"model small {\n" DIMS "layer block(x[batch, seq, hidden]) {\n" \
	attention ffn "}\n" \
	"x = embed(tokens, vocab -> hidden) @ \"table\";\n" \
	"repeat 4 { x = block(x); }\n" \
	"logits = linear(rmsnorm(x, eps = 1e-5) -> vocab" head ");\n}\n"
#define MODEL(attention, ffn) WITH_HEAD(attention, ffn, "")
#define TIED(attention, ffn) WITH_HEAD(attention, ffn, ", tied = \"table\"")

struct served {
	struct ir_ctx c;
	struct serve_model model;
	struct target target;
	struct serve_asked asked;
	bool is_shared;		/* ranks along ep have the same sequences */
};

static inline void
open_as(struct served *s, const char *text, bool absorbs)
{
	struct ir_module *m;
	uint32_t base;

	memset(s, 0, sizeof *s);
	ir_ctx_init(&s->c, NULL);
	source_add(&s->c.sources, "model", text, strlen(text), &base);
	m = fe_compile(&s->c, s->c.sources.files.n - 1);
	assert_non_null(m);
	assert_true(serve_open(m, NULL, absorbs, &s->model));
	assert_true(fe_target(&s->c, "h100x8", &s->target));
	s->asked = (struct serve_asked){ .prompt = 768, .output = 256,
					 .context = 1024 };
}

static inline void
open_model(struct served *s, const char *text)
{
	open_as(s, text, true);
}

static inline void
program(struct served *s, int64_t tp, int64_t pp, int64_t ep,
	struct serve_program *p)
{
	struct serve_split split = { .tp = tp, .ep = ep,
				     .is_shared = s->is_shared };

	serve_program(&s->model, &s->target, &split, &s->c.perm, p);
	assert_null(p->why);
	p->split.pp = pp;
}

#endif

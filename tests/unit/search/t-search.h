/* Models, clusters, and what the search finds for them. */
#ifndef T_SEARCH_H
#define T_SEARCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/memo.h"
#include "passes/pass.h"
#include "passes/search/search.h"

#define DENSE \
	"  dtype bf16;\n" \
	"  x = embed(tokens, vocab -> hidden);\n" \
	"  repeat %d as i {\n" \
	"    n = rmsnorm(x);\n" \
	"    q = linear(n -> heads, hd);\n" \
	"    k = linear(n -> kv, hd);\n" \
	"    v = linear(n -> kv, hd);\n" \
	"    a = attention(rope(q), rope(k), v, causal);\n" \
	"    x = x + linear(a -> hidden);\n" \
	"    n = rmsnorm(x);\n" \
	"    x = x + linear(silu(linear(n -> ffn)) * linear(n -> ffn)\n" \
	"                   -> hidden);\n" \
	"  }\n" \
	"  x = rmsnorm(x);\n" \
	"  loss = cross_entropy(linear(x -> vocab), labels);\n" \
	"}\n" \
	"train { optimizer = adamw(lr = 1e-4); clip = 1.0; }\n"

/* What ends a layer of experts, and a model of these. */
#define EXPERTS \
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

static const char dense[] =
	"model m {\n"
	"  dim hidden = 256, heads = 8, kv = 4, hd = hidden / heads,\n"
	"      ffn = 512, vocab = 1024, seq = 128, batch = %d;\n"
	DENSE;

/* Its kernels are no launches. */
static const char heavy[] =
	"model m {\n"
	"  dim hidden = 4096, heads = 32, kv = 32, hd = hidden / heads,\n"
	"      ffn = 16384, vocab = 32768, seq = 2048, batch = %d;\n"
	DENSE;

/* Two kinds of layer, the second with experts. */
static const char experts[] =
	"model m {\n"
	"  dim hidden = 128, heads = 4, hd = hidden / heads, ffn = 256,\n"
	"      expert = 4, choice = 2, vocab = 512, seq = 64,\n"
	"      batch = %d;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat 2 as i {\n"
	"    n = rmsnorm(x);\n"
	"    q = linear(n -> heads, hd);\n"
	"    a = attention(q, q, q, causal);\n"
	"    x = x + linear(a -> hidden);\n"
	"    n = rmsnorm(x);\n"
	"    x = x + linear(gelu(linear(n -> ffn)) -> hidden);\n"
	"  }\n"
	"  repeat %d as i {\n"
	EXPERTS;

/* Its first layer and its last one read one table. */
static const char tied[] =
	"model m {\n"
	"  dim hidden = 256, heads = 8, kv = 2, hd = 32, ffn = 512,\n"
	"      vocab = 4096, seq = 256, batch = 32;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden) @ \"wte\";\n"
	"  repeat 9 as i {\n"
	"    n = layernorm(x);\n"
	"    a = attention(linear(n -> heads, hd), linear(n -> kv, hd),\n"
	"                  linear(n -> kv, hd), causal);\n"
	"    x = x + linear(a -> hidden);\n"
	"    n = layernorm(x);\n"
	"    x = x + linear(gelu(linear(n -> ffn)) -> hidden);\n"
	"  }\n"
	"  x = linear(layernorm(x) -> vocab, tied = \"wte\");\n"
	"  loss = cross_entropy(x, labels);\n"
	"}\n"
	"train { optimizer = adamw(lr = 1e-4); clip = 1.0; }\n";

/* Models whose sizes, sequences and layers are drawn. */
static const char drawn_dense[] =
	"model m {\n"
	"  dim hidden = %u, heads = 8, kv = 4, hd = hidden / heads,\n"
	"      ffn = %u, vocab = 512, seq = %u, batch = %u;\n"
	DENSE;

static const char drawn_experts[] =
	"model m {\n"
	"  dim hidden = %u, heads = 4, hd = hidden / heads, ffn = %u,\n"
	"      expert = 8, choice = 2, vocab = 512, seq = %u, batch = %u;\n"
	"  dtype bf16;\n"
	"  x = embed(tokens, vocab -> hidden);\n"
	"  repeat %u as i {\n"
	"    n = rmsnorm(x);\n"
	"    q = linear(n -> heads, hd);\n"
	"    a = attention(q, q, q, causal);\n"
	"    x = x + linear(a -> hidden);\n"
	EXPERTS;

static uint64_t seed, drawn;

static inline uint32_t
draw(uint32_t n)
{
	uint32_t out[4];

	ir_philox(seed, drawn++, out);
	return out[0] % n;
}

static inline int64_t
env(const char *name, int64_t absent)
{
	const char *s = getenv(name);

	return s ? atoll(s) : absent;
}

static inline struct ir_module *
compile(struct ir_ctx *c, const char *text)
{
	struct ir_module *m = NULL;
	uint32_t base;

	c->diags.on[WARN_UNNAMED_WEIGHT] = false;
	assert_true(source_add(&c->sources, "<model>", text, strlen(text),
			       &base));
	m = fe_compile(c, c->sources.files.n - 1);
	diag_flush(&c->diags, stderr);
	assert_non_null(m);
	return m;
}

/* The model up to where the search stands. */
static inline struct ir_module *
trained(struct ir_ctx *c, const char *text)
{
	struct ir_module *m = compile(c, text);

	assert_int_equal(pass_apply(m, "fold-dims,inline,autodiff", false),
			 PASS_OK);
	return m;
}

static inline struct target
target(struct ir_ctx *c, const char *name)
{
	struct target t;

	assert_true(fe_target(c, name, &t));
	return t;
}

/* Nodes of several kinds: what stands between the `+`. */
static inline struct target
cluster(struct ir_ctx *c, const char *names)
{
	char *rest = arena_printf(&c->perm, "%s", names), *name;
	struct target all = { .name = names }, t;
	uint32_t i;

	while ((name = strtok_r(rest, "+", &rest))) {
		t = target(c, name);
		for (i = 0; i < t.groups.n; i++) {
			VEC_PUSH(&c->perm, &all.groups, t.groups.at[i]);
		}
	}
	target_settle(&all, &c->perm);
	return all;
}

/* With a memo of its own. */
static inline bool
run_search(struct ir_module *m, const struct search_options *o,
	   struct arena *a, struct search_report *out)
{
	struct memo memo;
	bool ok;

	memo_init(&memo, &m->ctx->mem, MEMO_BYTES);
	ok = search_run(m, o, &memo, a, out);
	memo_release(&memo);
	return ok;
}

/*
 * What the search says with these pins; step_us is 0: nothing.  Adds shardings.
 */
static inline struct search_found
counted(const struct ir_module *base, const struct target *t, const char *pins,
	uint64_t *placed)
{
	struct search_options o = { .target = t };
	struct search_found best = { .step_us = 0 };
	struct search_report r;
	struct ir_module *m;
	struct ir_ctx c;

	ir_ctx_child(&c, base->ctx);
	m = ir_copy(base, &c);
	if ((!*pins || plan_pin(m, pins)) &&
	    run_search(m, &o, &base->ctx->perm, &r) && r.found.n) {
		best = r.found.at[0];
		*placed += r.placements;
	}
	ir_ctx_release(&c);
	return best;
}

static inline struct search_found
search(const struct ir_module *base, const struct target *t, const char *pins)
{
	uint64_t placed = 0;

	return counted(base, t, pins, &placed);
}

static inline double
found(const struct ir_module *base, const struct target *t, const char *pins)
{
	return search(base, t, pins).step_us;
}

#endif

/*
 * Any bytes as a file of a plan, and as the text of --pin, for a model that
 * every degree can split.  A plan that is legal prints as one that reads back
 * the same, and is legal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "passes/plan/plan.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char model[] =
	"model m {\n"
	"  dim layers = 12, hidden = 32, heads = 8, kv = 4, hd = 4;\n"
	"  dim ffn = 16, vocab = 64, seq = 16, expert = 8;\n"
	"  x = embed(tokens, vocab -> hidden) @ \"e\";\n"
	"  repeat layers as i {\n"
	"    q = linear(x -> heads, hd) @ \"q{i}\";\n"
	"    k = linear(x -> kv, hd) @ \"k{i}\";\n"
	"    v = linear(x -> kv, hd) @ \"v{i}\";\n"
	"    a = attention(q, k, v, causal);\n"
	"    x = x + linear(a -> hidden) @ \"o{i}\";\n"
	"    u = silu(linear(x -> ffn) @ \"u{i}\");\n"
	"    x = x + linear(u -> hidden) @ \"d{i}\";\n"
	"  }\n"
	"  loss = cross_entropy(linear(x -> vocab) @ \"h\", labels);\n"
	"}\n"
	"train { batch = 48; optimizer = adamw(lr = 1e-3); }\n";

static uint32_t
add(struct ir_ctx *c, const char *text, size_t n)
{
	uint32_t base;

	CHECK(source_add(&c->sources, "fuzz", text, n, &base));
	return c->sources.files.n - 1;
}

static struct ir_module *
open_model(struct ir_ctx *c)
{
	struct ir_module *m;
	struct ast_file *f;

	ir_ctx_init(c, NULL);
	f = fe_parse(c, add(c, model, strlen(model)));
	m = f ? fe_lower(c, f) : NULL;
	CHECK(m && c->diags.errors == 0);
	return m;
}

static void
check_plan(struct ir_ctx *c, struct ir_module *m)
{
	struct buf once, twice;
	struct plan p;
	bool ok = plan_read(m, &p);

	CHECK(ok == (c->diags.errors == 0));
	if (!ok) {
		return;
	}
	buf_init(&once, &c->perm);
	buf_init(&twice, &c->perm);
	plan_print(m, &p, &once);
	CHECK(fe_read_plan(c, m, add(c, buf_text(&once), once.n)));
	CHECK(plan_read(m, &p));
	plan_print(m, &p, &twice);
	CHECK(once.n == twice.n && memcmp(once.at, twice.at, once.n) == 0);
	CHECK(ir_verify(m));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ir_module *m;
	struct ir_ctx c;
	char *text = malloc(size + 1);
	bool ok;

	CHECK(text);
	if (size > 0) {
		memcpy(text, data, size);
	}
	text[size] = '\0';
	m = open_model(&c);
	ok = fe_read_plan(&c, m, add(&c, text, size));
	CHECK(ok == (c.diags.errors == 0));
	if (ok) {
		check_plan(&c, m);
	}
	ir_ctx_release(&c);
	/* a schedule may be a file, and any file is no input of a fuzzer */
	if (!strstr(text, "schedule")) {
		m = open_model(&c);
		ok = plan_pin(m, text);
		CHECK(ok == (c.diags.errors == 0));
		if (ok) {
			check_plan(&c, m);
		}
		ir_ctx_release(&c);
	}
	free(text);
	return 0;
}

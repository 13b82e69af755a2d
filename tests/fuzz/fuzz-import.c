/*
 * Any bytes as a config.json.  What is imported is a model that parses, and
 * what is refused is refused with a word; where it compiles, its config.json
 * is imported again, as a model that compiles to the same IR.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/import/import.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t
add(struct ir_ctx *c, const char *text, size_t n)
{
	uint32_t base;

	CHECK(source_add(&c->sources, "config.json", text, n, &base));
	return c->sources.files.n - 1;
}

/* The model of a config.json, or NULL after errors. */
static struct ir_module *
import(struct ir_ctx *c, const char *config, size_t n)
{
	struct imp_request rq = { .file = add(c, config, n) };
	uint32_t errors = c->diags.errors;
	struct ast_file *ast;
	struct buf text;

	buf_init(&text, &c->perm);
	if (!imp_model(c, &rq, &text)) {
		CHECK(c->diags.errors > errors);
		return NULL;
	}
	CHECK(c->diags.errors == errors);
	ast = fe_parse(c, add(c, buf_text(&text), text.n));
	CHECK(ast);
	return fe_lower(c, ast);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ir_module *m, *again;
	struct buf config, a, b;
	struct ir_ctx c;
	char *text;

	ir_ctx_init(&c, NULL);
	text = arena_alloc(&c.perm, size + 2);
	if (size > 0) {
		memcpy(text, data, size);
	}
	m = import(&c, text, size);
	CHECK(m || c.diags.errors > 0);
	if (m) {
		buf_init(&config, &c.perm);
		CHECK(fe_config_json(m, &config));
		again = import(&c, buf_text(&config), config.n);
		CHECK(again);
		buf_init(&a, &c.perm);
		buf_init(&b, &c.perm);
		ir_print(m, &a);
		ir_print(again, &b);
		CHECK(a.n == b.n && memcmp(a.at, b.at, a.n) == 0);
	}
	ir_ctx_release(&c);
	return 0;
}

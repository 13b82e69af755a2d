/*
 * Any bytes as a text of the language.  What parses prints as a text that
 * parses to the same tree; what lowers is sound, and its IR reads back; a
 * plan that is legal prints as one that reads back the same.
 *
 *	clang -g -O1 -I. -fsanitize=fuzzer,address,undefined \
 *		tests/fuzz/fuzz-dsl.c [frontend/ without the driver] \
 *		passes/[*].c ir/[*].c
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "passes/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Says which promise broke, and what was reported on the way. */
static void
check(bool holds, struct ir_ctx *c, const char *promise)
{
	if (!holds) {
		fprintf(stderr, "broken: %s\n", promise);
		diag_flush(&c->diags, stderr);
		abort();
	}
}

static uint32_t
add(struct ir_ctx *c, const char *text, size_t size)
{
	uint32_t base;

	check(source_add(&c->sources, "fuzz", text, size, &base), c,
	      "a source of this size is taken");
	return c->sources.files.n - 1;
}

/* The tree as text, in memory of its own. */
static const char *
tree_text(struct ir_ctx *c, const struct ast_file *f, size_t *size)
{
	struct buf b;

	buf_init(&b, &c->perm);
	fe_print_ast(c, f, &b);
	*size = b.n;
	return buf_text(&b);
}

static void
check_tree(struct ir_ctx *c, const struct ast_file *f)
{
	size_t n, again;
	const char *text = tree_text(c, f, &n), *second;
	struct ast_file *g = fe_parse(c, add(c, text, n));

	check(g != NULL, c, "what is printed parses");
	second = tree_text(c, g, &again);
	check(n == again && memcmp(text, second, n) == 0, c,
	      "the printed text parses to the same tree");
}

static void
check_ir(struct ir_ctx *c, struct ir_module *m)
{
	struct ir_module *back;
	struct buf text, second;

	check(ir_verify(m), c, "what lowers is sound");
	buf_init(&text, &c->perm);
	ir_print(m, &text);
	back = ir_read(c, add(c, buf_text(&text), text.n));
	check(back != NULL, c, "the IR of what lowers reads back");
	buf_init(&second, &c->perm);
	ir_print(back, &second);
	check(text.n == second.n &&
	      memcmp(text.at, second.at, text.n) == 0, c,
	      "the IR reads back as it was");
}

static void
check_plan(struct ir_ctx *c, struct ir_module *m)
{
	struct buf text, second;
	struct plan p;
	bool ok = plan_read(m, &p);

	check(ok == (c->diags.errors == 0), c,
	      "no plan means an error, and only that");
	if (!ok) {
		return;
	}
	buf_init(&text, &c->perm);
	plan_print(m, &p, &text);
	check(fe_read_plan(c, m, add(c, buf_text(&text), text.n)) &&
	      plan_read(m, &p), c, "the plan that is printed reads");
	buf_init(&second, &c->perm);
	plan_print(m, &p, &second);
	check(text.n == second.n &&
	      memcmp(text.at, second.at, text.n) == 0, c,
	      "the plan reads back as it was");
	check(ir_verify(m), c, "a plan leaves the module sound");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ir_ctx c;
	struct ast_file *f;
	struct ir_module *m;
	char *text;

	ir_ctx_init(&c, NULL);
	text = arena_alloc(&c.perm, size + 1);
	if (size > 0) {
		memcpy(text, data, size);
	}
	f = fe_parse(&c, add(&c, text, size));
	check((f == NULL) == (c.diags.errors > 0), &c,
	      "no tree means an error, and only that");
	if (f) {
		check_tree(&c, f);
		m = fe_lower(&c, f);
		check((m == NULL) == (c.diags.errors > 0), &c,
		      "no module means an error, and only that");
		if (m) {
			check_ir(&c, m);
			check_plan(&c, m);
		}
	}
	ir_ctx_release(&c);
	return 0;
}

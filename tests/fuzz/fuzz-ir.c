/*
 * fuzz-ir.c - any bytes as the text form of the IR.  What reads prints; what
 * is printed reads again and prints the same; and nothing is refused or
 * found broken without a word.
 *
 *	clang -g -O1 -I. -fsanitize=fuzzer,address,undefined \
 *		tests/fuzz/fuzz-ir.c ir/[every .c] -lm
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "passes/plan/plan.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ir_module *
read_text(struct ir_ctx *c, const char *text, size_t n)
{
	struct ir_module *m;
	uint32_t base;

	CHECK(source_add(&c->sources, "fuzz.ir", text, n, &base));
	m = ir_read(c, c->sources.files.n - 1);
	CHECK((m != NULL) == (c->diags.errors == 0));
	return m;
}

/* A sound module prints, reads, verifies and prints the same. */
static void
check_print(const struct ir_module *m, struct buf *once)
{
	struct ir_ctx c;
	struct ir_module *again;
	struct buf twice;

	ir_ctx_init(&c, NULL);
	again = read_text(&c, buf_text(once), once->n);
	CHECK(again != NULL);
	CHECK(again->dims.n == m->dims.n && again->funcs.n == m->funcs.n);
	CHECK(ir_verify(again));
	buf_init(&twice, &c.perm);
	ir_print(again, &twice);
	CHECK(twice.n == once->n);
	CHECK(memcmp(buf_text(&twice), buf_text(once), once->n) == 0);
	ir_ctx_release(&c);
}

/* A plan that is legal is written as settings that say the same. */
static void
check_plan(struct ir_module *m)
{
	struct diags *d = &m->ctx->diags;
	struct buf once, twice;
	struct plan p;
	bool ok = plan_read(m, &p);

	CHECK(ok == (d->errors == 0));
	if (!ok) {
		return;
	}
	buf_init(&once, &m->ctx->perm);
	plan_print(m, &p, &once);
	CHECK(plan_write(m, &p));
	CHECK(ir_verify(m));
	CHECK(plan_read(m, &p));
	buf_init(&twice, &m->ctx->perm);
	plan_print(m, &p, &twice);
	CHECK(twice.n == once.n);
	CHECK(memcmp(buf_text(&twice), buf_text(&once), once.n) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *sink;
	struct ir_module *m;
	struct ir_ctx c;
	struct buf once;
	char *text;

	if (!sink) {
		sink = fopen("/dev/null", "w");
		CHECK(sink != NULL);
	}
	text = malloc(size + 1);
	CHECK(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	ir_ctx_init(&c, NULL);
	m = read_text(&c, text, size);
	if (m) {
		bool sound = ir_verify(m);

		CHECK(sound == (c.diags.errors == 0));
		buf_init(&once, &c.perm);
		ir_print(m, &once);
		if (sound) {
			check_print(m, &once);
			if (fe_check_ir(m)) {	/* as llmc asks first */
				check_plan(m);
			}
		}
	}
	diag_flush(&c.diags, sink);
	ir_ctx_release(&c);
	free(text);
	return 0;
}

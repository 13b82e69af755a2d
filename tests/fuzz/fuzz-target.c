/*
 * Any bytes as a file of target blocks, or as a name on the command line.
 * What is read prints, reads again and prints the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/frontend.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
read_text(struct ir_ctx *c, const char *text, size_t n, struct target *t)
{
	uint32_t base;
	bool ok;

	CHECK(source_add(&c->sources, "fuzz.target", text, n, &base));
	ok = fe_read_target(c, c->sources.files.n - 1, t);
	CHECK(ok == (c->diags.errors == 0));
	return ok;
}

static void
check_file(const char *text, size_t n)
{
	struct target t, again;
	struct buf once, twice;
	struct ir_ctx c;

	ir_ctx_init(&c, NULL);
	if (read_text(&c, text, n, &t)) {
		CHECK(target_devices(&t) > 0 &&
		      target_devices(&t) <= TARGET_MAX_DEVICES);
		buf_init(&once, &c.perm);
		buf_init(&twice, &c.perm);
		target_print(&t, &once);
		CHECK(read_text(&c, buf_text(&once), once.n, &again));
		target_print(&again, &twice);
		CHECK(once.n == twice.n &&
		      memcmp(once.at, twice.at, once.n) == 0);
	}
	ir_ctx_release(&c);
}

/* What has a `/`, or ends so, would be a file. */
static void
check_name(const char *text)
{
	struct target t;
	struct ir_ctx c;

	if (strpbrk(text, "/.-")) {
		return;
	}
	ir_ctx_init(&c, NULL);
	CHECK(fe_target(&c, text, &t) == (c.diags.errors == 0));
	ir_ctx_release(&c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	CHECK(text);
	if (size > 0) {
		memcpy(text, data, size);
	}
	text[size] = '\0';
	check_file(text, size);
	check_name(text);
	free(text);
	return 0;
}

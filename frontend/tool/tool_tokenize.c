/*
 * llmc tokenize: text, lines of JSON or either of them compressed to a token
 * file.  runtime/tokenize does it; this is the command.
 */
#include "frontend/tool/tool.h"
#include "runtime/tokenize/tokenize.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const struct span nowhere;

static int
misused(struct driver *d, const char *what)
{
	diag_error(&d->ctx.diags, nowhere, "`llmc tokenize` needs %s", what);
	return DRV_BAD_USAGE;
}

static int
count_threads(const struct driver *d)
{
	const struct opt_value *v = drv_given(d, OPT_THREADS);

	return !v ? rt_tokenize_threads()
		: v->num > INT16_MAX ? INT16_MAX : (int)v->num;
}

int
drv_tokenize(struct driver *d)
{
	VEC(const char *) inputs = { 0 };
	const char *path = drv_text(d, OPT_OUTPUT);
	struct rt_token_options o = {
		.tokenizer = drv_text(d, OPT_TOKENIZER),
		.field = drv_text(d, OPT_FIELD), .end = drv_text(d, OPT_END),
		.bare = drv_given(d, OPT_BARE), .threads = count_threads(d) };
	struct rt_token_counts counts;
	struct rt_error err = { .offset = -1 };
	uint32_t i;

	if (!o.tokenizer) {
		return misused(d, "--tokenizer FILE, a tokenizer.json "
			       "or a *.gguf");
	}
	if (!path || strcmp(path, "-") == 0) {
		return misused(d, "-o FILE to write tokens to, which cannot "
			       "be standard output");
	}
	VEC_PUSH(&d->ctx.perm, &inputs, d->opts.input);
	for (i = 0; i < d->opts.more.n; i++) {
		VEC_PUSH(&d->ctx.perm, &inputs, d->opts.more.at[i]);
	}
	o.inputs = inputs.at;
	o.ninputs = inputs.n;
	if (isatty(STDERR_FILENO)) {
		o.progress = stderr;
		/* main's own progress would be written across this */
		alarm(0);
	}
	if (rt_tokens_write(path, &o, &counts, &err) != RT_OK) {
		diag_error(&d->ctx.diags, nowhere, "%s", err.message);
		return DRV_BAD_INPUT;
	}
	buf_printf(&d->out, "%s: %" PRId64 " tokens of %" PRId64 " document%s, "
		   "%" PRId64 " bytes of text\n", path, counts.tokens,
		   counts.documents, counts.documents == 1 ? "" : "s",
		   counts.bytes);
	return DRV_OK;
}

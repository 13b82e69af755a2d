/*
 * What tests/cli/run/served-bf16.sh links into a program that serves, in place
 * of `generate`: each letter of the prompt is a token, from a on, and SEQ of
 * them are a sequence.  They go through the program's engine, as many positions
 * in a step as it takes, and the logits of each are a line.
 */
#include "runtime/serve/server.h"

#include <stdlib.h>

enum { SEQ = 8 };

enum rt_status __wrap_rt_generate(const struct rt_engine *e,
				  const struct rt_generate_options *o,
				  FILE *out, struct rt_generated *got,
				  struct rt_error *err);

static void
print_row(FILE *out, const float *logits, int64_t vocab)
{
	int64_t i;

	for (i = 0; i < vocab; i++) {
		fprintf(out, "%s%.9g", i ? " " : "", (double)logits[i]);
	}
	fprintf(out, "\n");
}

static enum rt_status
run_sequence(const struct rt_engine *e, const char *letters, float *logits,
	     FILE *out, struct rt_error *err)
{
	int32_t token[SEQ], position[SEQ], slot[SEQ], zero[SEQ] = { 0 };
	int64_t most = e->tokens < e->rows ? e->tokens : e->rows, i, k, n;
	enum rt_status status = RT_OK;

	for (i = 0; i < SEQ; i++) {
		token[i] = letters[i] - 'a';
		position[i] = slot[i] = (int32_t)i;
	}
	for (i = 0; i < SEQ && status == RT_OK; i += n) {
		n = SEQ - i < most ? SEQ - i : most;

		struct rt_serve_step s = { .n = n, .token = token + i,
			.position = position + i, .slot = slot + i,
			.first = zero, .last = position + i, .nkeys = i + n,
			.key = slot, .nrows = n, .row = position };

		status = e->begin(e->user, &s, err);
		status = status == RT_OK ? e->end(e->user, logits, err)
					 : status;
		for (k = 0; k < n && status == RT_OK; k++) {
			print_row(out, logits + k * e->vocab, e->vocab);
		}
	}
	return status;
}

enum rt_status
__wrap_rt_generate(const struct rt_engine *e,
		   const struct rt_generate_options *o, FILE *out,
		   struct rt_generated *got, struct rt_error *err)
{
	float *logits = calloc((size_t)(e->rows * e->vocab), sizeof *logits);
	enum rt_status status = RT_OK;
	size_t at;

	*got = (struct rt_generated){ 0 };
	if (!logits) {
		return rt_no_memory(err, NULL);
	}
	for (at = 0; at + SEQ <= o->prompt_bytes && status == RT_OK;
	     at += SEQ) {
		status = run_sequence(e, o->prompt + at, logits, out, err);
	}
	free(logits);
	return status;
}

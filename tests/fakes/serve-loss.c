/*
 * What tests/cli/run/perplexity.sh links into a program that serves, in place
 * of `generate`: each byte of the prompt is a token, and SEQ tokens are a
 * sequence.  They go through the program's engine, as many positions in a step
 * as it takes, and the mean loss is printed of each token but the first of a
 * sequence.
 */
#include "runtime/serve/server.h"

#include <math.h>
#include <stdlib.h>

enum { SEQ = 128, MOST_STEP = 64 };

enum rt_status __wrap_rt_generate(const struct rt_engine *e,
				  const struct rt_generate_options *o,
				  FILE *out, struct rt_generated *got,
				  struct rt_error *err);

struct losses {
	const struct rt_engine *e;
	int32_t token[SEQ], position[SEQ], slot[SEQ], zero[MOST_STEP];
	int32_t row[MOST_STEP];
	float *logits;
	double sum;
	int64_t n;
};

/* The negative logarithm of a token's chance. */
static double
loss(const float *logits, int64_t vocab, int32_t token)
{
	double most = -INFINITY, sum = 0;
	int64_t i;

	for (i = 0; i < vocab; i++) {
		most = fmax(most, (double)logits[i]);
	}
	for (i = 0; i < vocab; i++) {
		sum += exp((double)logits[i] - most);
	}
	return log(sum) + most - (double)logits[token];
}

/* Positions from `from` on, n of them, which all have logits. */
static enum rt_status
run_step(struct losses *x, int64_t from, int64_t n, struct rt_error *err)
{
	const struct rt_engine *e = x->e;
	struct rt_serve_step s = { .n = n, .token = x->token + from,
		.position = x->position + from, .slot = x->slot + from,
		.first = x->zero, .last = x->position + from,
		.nkeys = from + n, .key = x->slot, .nrows = n, .row = x->row };
	enum rt_status status = e->begin(e->user, &s, err);
	int64_t i;

	status = status == RT_OK ? e->end(e->user, x->logits, err) : status;
	for (i = 0; i < n && from + i + 1 < SEQ && status == RT_OK; i++) {
		x->sum += loss(x->logits + i * e->vocab, e->vocab,
			       x->token[from + i + 1]);
		x->n++;
	}
	return status;
}

static enum rt_status
run_sequence(struct losses *x, const char *bytes, struct rt_error *err)
{
	int64_t most = x->e->tokens < x->e->rows ? x->e->tokens : x->e->rows;
	enum rt_status status = RT_OK;
	int64_t i;

	most = most < MOST_STEP ? most : MOST_STEP;
	for (i = 0; i < SEQ; i++) {
		x->token[i] = (unsigned char)bytes[i];
	}
	for (i = 0; i < SEQ && status == RT_OK; i += most) {
		status = run_step(x, i, SEQ - i < most ? SEQ - i : most, err);
	}
	return status;
}

enum rt_status
__wrap_rt_generate(const struct rt_engine *e,
		   const struct rt_generate_options *o, FILE *out,
		   struct rt_generated *got, struct rt_error *err)
{
	int64_t slots = e->blocks * e->block;
	enum rt_status status = RT_OK;
	struct losses x = { .e = e };
	size_t at;
	int32_t i;

	*got = (struct rt_generated){ 0 };
	if (e->context < SEQ || slots < SEQ + e->block) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "an engine of "
			       "shorter sequences");
	}
	x.logits = calloc((size_t)(e->rows * e->vocab), sizeof *x.logits);
	if (!x.logits) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < SEQ; i++) {
		x.position[i] = i;
		x.slot[i] = (int32_t)slots - 1 - i;
		x.row[i % MOST_STEP] = i % MOST_STEP;
	}
	for (at = 0; at + SEQ <= o->prompt_bytes && status == RT_OK;
	     at += SEQ) {
		status = run_sequence(&x, o->prompt + at, err);
	}
	fprintf(out, "%lld tokens: %.7f\n", (long long)x.n,
		x.sum / (double)x.n);
	free(x.logits);
	return status;
}

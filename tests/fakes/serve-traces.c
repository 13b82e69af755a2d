/*
 * What tests/cli/run/served-traces.sh links into a program that serves, in
 * place of `generate`: drawn requests go through the program's engine, first
 * each alone and a token at a time, then in drawn steps beside others, their
 * prompts cut anywhere, and as many steps in flight as the engine takes.  Steps
 * have all sizes, and each position has the same logits to the last bit.
 */
#include "runtime/abi.h"
#include "runtime/serve/server.h"

#include <stdlib.h>
#include <string.h>

enum {
	TRACES = 300, MOST_SEQS = 6, MOST_LENGTH = 12, MOST_STEP = 72,
	MOST_FLIGHTS = 8
};

enum rt_status __wrap_rt_generate(const struct rt_engine *e,
				  const struct rt_generate_options *o,
				  FILE *out, struct rt_generated *got,
				  struct rt_error *err);

struct trace {
	const struct rt_engine *e;
	uint64_t state;
	int64_t nseqs, length[MOST_SEQS], done[MOST_SEQS];
	int32_t token[MOST_SEQS][MOST_LENGTH], slot[MOST_SEQS][MOST_LENGTH];
	float *want, *got;	/* [sequence][position][vocab]; [row][vocab] */
	int64_t sizes[MOST_STEP + 1];	/* steps of so many positions */
	/* the step */
	struct rt_serve_step s;
	int32_t stoken[MOST_STEP], position[MOST_STEP], sslot[MOST_STEP];
	int32_t first[MOST_STEP], last[MOST_STEP], row[MOST_STEP];
	int32_t *key;
	int64_t row_of[MOST_STEP];	/* its place in `want` */
	/* steps that began and ended, and what those in flight have */
	int64_t begun, ended, together;
	struct flight {
		int64_t n, nrows, row_of[MOST_STEP];
	} flights[MOST_FLIGHTS];
};

static int64_t
draw(struct trace *t, int64_t below)
{
	t->state = t->state * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((t->state >> 33) % (uint64_t)below);
}

static void
draw_trace(struct trace *t)
{
	int64_t all = t->e->blocks, q, i, n = 0;

	t->nseqs = 1 + draw(t, MOST_SEQS);
	for (q = 0; q < t->nseqs; q++) {
		t->length[q] = 1 + draw(t, MOST_LENGTH);
		t->done[q] = 0;
		for (i = 0; i < t->length[q]; i++, n++) {
			t->token[q][i] = (int32_t)draw(t, t->e->vocab);
			/* 7 and all are coprime: each slot once */
			t->slot[q][i] = (int32_t)(n * 7 % all * t->e->block);
		}
	}
}

/* The next positions of a sequence, whose keys begin at a multiple. */
static void
add(struct trace *t, int64_t q, int64_t n)
{
	int64_t to = t->done[q] + n, i, at;
	struct rt_serve_step *s = &t->s;
	int64_t base = (s->nkeys + t->e->align - 1) / t->e->align *
		       t->e->align;

	for (i = 0; i < to; i++) {
		t->key[base + i] = t->slot[q][i];
	}
	s->nkeys = base + to;
	for (i = t->done[q]; i < to; i++) {
		at = s->n++;
		t->stoken[at] = t->token[q][i];
		t->position[at] = (int32_t)i;
		t->sslot[at] = t->slot[q][i];
		t->first[at] = (int32_t)base;
		t->last[at] = (int32_t)(base + i);
		if (s->nrows < t->e->rows) {
			t->row_of[s->nrows] = q * MOST_LENGTH + i;
			t->row[s->nrows++] = (int32_t)at;
		}
	}
	t->done[q] = to;
}

static void
clear(struct trace *t)
{
	t->s = (struct rt_serve_step){ .token = t->stoken,
		.position = t->position, .slot = t->sslot, .first = t->first,
		.last = t->last, .key = t->key, .row = t->row };
	memset(t->key, 0, (size_t)t->e->keys * sizeof *t->key);
}

static enum rt_status
compute(struct trace *t, float *logits, struct rt_error *err)
{
	enum rt_status status = t->e->begin(t->e->user, &t->s, err);

	return status == RT_OK ? t->e->end(t->e->user, logits, err) : status;
}

/* Each position in a step of its own: its logits are what is wanted. */
static enum rt_status
run_alone(struct trace *t, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t q, i;

	for (q = 0; q < t->nseqs; q++) {
		for (i = 0; i < t->length[q] && status == RT_OK; i++) {
			clear(t);
			add(t, q, 1);
			status = compute(t, t->want + t->row_of[0] *
					 t->e->vocab, err);
		}
	}
	memset(t->done, 0, sizeof t->done);
	return status;
}

static bool
is_same(const struct trace *t, const struct flight *f)
{
	size_t bytes = (size_t)t->e->vocab * sizeof *t->want;
	int64_t i;

	for (i = 0; i < f->nrows; i++) {
		if (memcmp(t->got + i * t->e->vocab, t->want + f->row_of[i] *
			   t->e->vocab, bytes) != 0) {
			return false;
		}
	}
	return true;
}

/* False: no sequence has any left. */
static bool
draw_step(struct trace *t)
{
	int64_t most = 1 + draw(t, t->e->tokens), left, q, n;
	bool any = false;

	clear(t);
	for (q = 0; q < t->nseqs; q++) {
		left = t->length[q] - t->done[q];
		any = any || left > 0;
		left = left < most - t->s.n ? left : most - t->s.n;
		n = left > 0 ? draw(t, left + 1) : 0;
		if (n > 0 && t->s.nkeys + t->e->align + t->done[q] + n <=
		    t->e->keys) {
			add(t, q, n);
		}
	}
	return any;
}

static enum rt_status
begin(struct trace *t, struct rt_error *err)
{
	struct flight *f = &t->flights[t->begun++ % MOST_FLIGHTS];

	f->n = t->s.n;
	f->nrows = t->s.nrows;
	memcpy(f->row_of, t->row_of, sizeof f->row_of);
	t->sizes[f->n]++;
	if (t->begun - t->ended > t->together) {
		t->together = t->begun - t->ended;
	}
	return t->e->begin(t->e->user, &t->s, err);
}

static enum rt_status
end(struct trace *t, struct rt_error *err)
{
	const struct flight *f = &t->flights[t->ended++ % MOST_FLIGHTS];
	enum rt_status status = t->e->end(t->e->user, t->got, err);

	return status != RT_OK || is_same(t, f) ? status :
		rt_fail(err, RT_FORMAT, RT_NOWHERE, "a step of %lld positions "
			"has other logits", (long long)f->n);
}

static enum rt_status
run_together(struct trace *t, struct rt_error *err)
{
	enum rt_status status = RT_OK;

	while (status == RT_OK && draw_step(t)) {
		if (t->s.n > 0 && t->begun - t->ended == t->e->in_flight) {
			status = end(t, err);
		}
		if (t->s.n > 0 && status == RT_OK) {
			status = begin(t, err);
		}
	}
	while (status == RT_OK && t->begun > t->ended) {
		status = end(t, err);
	}
	return status;
}

/* How many weights of all programs lie in panels. */
static int64_t
in_panels(void)
{
	int64_t n = 0, i, k;

	for (i = 0; i < llmc_plan.nprograms; i++) {
		const struct rt_program *p = &llmc_plan.programs[i];

		for (k = 0; k < p->nholds; k++) {
			n += p->holds[k].lanes > 0;
		}
	}
	return n;
}

enum rt_status
__wrap_rt_generate(const struct rt_engine *e,
		   const struct rt_generate_options *o, FILE *out,
		   struct rt_generated *got, struct rt_error *err)
{
	struct trace *t = calloc(1, sizeof *t);
	enum rt_status status = RT_OK;
	int64_t by[4] = { 0 }, i;

	(void)o;
	*got = (struct rt_generated){ 0 };
	if (!t || e->tokens > MOST_STEP || e->context < MOST_LENGTH ||
	    e->in_flight > MOST_FLIGHTS) {
		return rt_no_memory(err, NULL);
	}
	t->e = e;
	t->state = 1;
	t->key = calloc((size_t)e->keys, sizeof *t->key);
	t->want = calloc((size_t)(MOST_SEQS * MOST_LENGTH * e->vocab),
			 sizeof *t->want);
	t->got = calloc((size_t)(e->rows * e->vocab), sizeof *t->got);
	for (i = 0; i < TRACES && status == RT_OK; i++) {
		draw_trace(t);
		status = run_alone(t, err);
		status = status == RT_OK ? run_together(t, err) : status;
	}
	for (i = 1; i <= MOST_STEP; i++) {
		by[i > 32 ? 3 : i > 8 ? 2 : i > 1] += t->sizes[i];
	}
	fprintf(out, "steps: %lld of 1 position, %lld of up to 8, %lld of up "
		"to 32, %lld of more\n", (long long)by[0], (long long)by[1],
		(long long)by[2], (long long)by[3]);
	fprintf(out, "weights in panels: %lld\nsteps in flight: %lld\n",
		(long long)in_panels(), (long long)t->together);
	free(t->key);
	free(t->want);
	free(t->got);
	free(t);
	return status;
}

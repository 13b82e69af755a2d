/*
 * What the program of an answer brings.  The answer is of the best batch, and
 * the step of a program has so many positions, logits and keys as settings say:
 * so here is the largest batch that its steps hold, and what steps would hold
 * that of the answer.
 */
#include "passes/serve/serve.h"

#include <math.h>

/* What is in a step of one of the batches of so many sequences. */
static struct cost_load
step_load(const struct serve_asked *q, const struct serve_plan *x)
{
	return serve_load_of(q, fmax(x->sequences / (double)x->split.pp, 1),
			     x->chunk);
}

static void
find_needs(const struct serve_asked *q, const struct serve_plan *x,
	   struct serve_made *out)
{
	struct cost_load l = step_load(q, x);

	out->needs_tokens = ceil(l.decoding + l.chunk);
	out->needs_rows = ceil(l.decoding + l.prompts);
	out->needs_keys = ceil(cost_step_keys(&l, 1) / SERVE_KEYS_UNIT) *
			  SERVE_KEYS_UNIT;
}

bool
serve_holds_best(const struct serve_made *x)
{
	return x->tokens >= x->needs_tokens && x->rows >= x->needs_rows &&
	       x->keys >= x->needs_keys;
}

/* Positions of prompts beside n sequences: as many as a step's other positions,
 * logits and keys are for, of one prompt whatever keys there are. */
static double
chunk_beside(const struct serve_asked *q, const struct serve_made *x, double n)
{
	struct cost_load l = serve_load_of(q, n, 0);
	double prompts = fmax(x->rows - n, 1) * q->prompt;
	double chunk = fmin(x->tokens - n, prompts);

	if (chunk > q->prompt) {
		chunk = fmax(fmin(chunk, x->keys - cost_step_keys(&l, 1)),
			     q->prompt);
	}
	return fmax(chunk, 1);
}

/*
 * The most sequences that steps hold beside a prompt, and with whose prompts
 * they keep up; 1 at least.
 */
static double
most_held(const struct serve_asked *q, const struct serve_made *x)
{
	double n = fmin(x->tokens, x->rows) - 1;

	for (; n > 1; n--) {
		double chunk = chunk_beside(q, x, n);
		struct cost_load l = serve_load_of(q, n, chunk);

		if (cost_step_keys(&l, 1) <= x->keys &&
		    n * q->prompt / q->output <= chunk) {
			break;
		}
	}
	return fmax(n, 1);
}

/* Where steps do not keep up even with the prompts of one sequence, each step
 * has a chunk, and no more tokens come than prompts are read for. */
static void
bound_by_prompts(struct serve_plan *x)
{
	if (x->mixed > 1) {
		x->tpot_us = (double)x->split.pp * x->mixed_us;
		x->tokens_s = (double)x->split.replicas * x->sequences * 1e6 /
			      (x->mixed * x->tpot_us);
	}
}

void
serve_price_made(const struct serve_answer_in *in, struct arena *a,
		 struct serve_answer *x)
{
	struct serve_split split = x->best.split;
	double pp = (double)split.pp, n;
	struct serve_made *m = &x->program;
	struct serve_program p;

	find_needs(in->asked, &x->best, m);
	if (serve_holds_best(m)) {
		m->own = x->best;
		return;
	}
	serve_program(in->model, in->target, &split, a, &p);
	p.split.pp = split.pp;
	p.split.replicas = split.replicas;
	n = fmin(most_held(in->asked, m),
		 fmax(floor(x->best.sequences / pp), 1));
	serve_plan_of(in, &p, fmin(n * pp, x->best.sequences),
		      chunk_beside(in->asked, m, n), &m->own);
	bound_by_prompts(&m->own);
}

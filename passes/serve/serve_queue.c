/*
 * What requests wait: a deterministic simulation of the queue before one
 * replica.  Between two events all steps are the same: a run of them is one
 * event.  Those that decode are in a heap, the one that ends first on top.
 */
#include "passes/serve/serve.h"

#include <math.h>
#include <stdlib.h>

/* A request: when it came and had its first token, in us. */
struct serve_request {
	double came, first;
	double left;		/* of its prompt */
	double part;		/* of it in the last step */
	double late;		/* its batch passes the stages, in a round */
	double output;		/* tokens that it answers */
	double ends;		/* the step that makes its last token */
};

#define APART_US 1		/* between two that are serial: below a step */
#define KNOWN_STEPS 512		/* a power of two */

struct known_step {
	double sequences, tokens, us;
};

struct queueing {
	const struct serve_answer_in *in;
	const struct serve_program *p;
	const struct serve_traffic *t;
	struct serve_request *at;
	/* of them, in order; `timed` have a time at which they come */
	uint32_t timed, came, admitted, begun, ended;
	/* those that decode: a heap by the step and then the order of coming */
	uint32_t *heap, decoding;
	double now, step;
	double looked;		/* a step at which it looked for requests */
	struct known_step known[KNOWN_STEPS];
};

static double
cycle_us(struct queueing *q, double sequences, double tokens)
{
	uint32_t i = ((uint32_t)sequences * 31 + (uint32_t)tokens) %
		     KNOWN_STEPS;
	struct known_step *k = &q->known[i];

	if (k->us == 0 || k->sequences != sequences || k->tokens != tokens) {
		struct serve_time unused;

		k->sequences = sequences;
		k->tokens = tokens;
		k->us = serve_cycle_us(q->in, q->p, sequences, tokens,
				       &unused);
	}
	return k->us;
}

/* ---- those that decode ---- */

static bool
is_earlier(const struct queueing *q, uint32_t a, uint32_t b)
{
	return q->at[a].ends < q->at[b].ends ||
	       (q->at[a].ends == q->at[b].ends && a < b);
}

static void
push(struct queueing *q, uint32_t request)
{
	uint32_t i = q->decoding++;

	while (i > 0 && is_earlier(q, request, q->heap[(i - 1) / 2])) {
		q->heap[i] = q->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	q->heap[i] = request;
}

static uint32_t
pop(struct queueing *q)
{
	uint32_t top = q->heap[0], last = q->heap[--q->decoding], i = 0;

	while (2 * i + 1 < q->decoding) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < q->decoding &&
		    is_earlier(q, q->heap[child + 1], q->heap[child])) {
			child++;
		}
		if (is_earlier(q, last, q->heap[child])) {
			break;
		}
		q->heap[i] = q->heap[child];
		i = child;
	}
	q->heap[i] = last;
	return top;
}

/* ---- those that come ---- */

/* Until the next request, of a Poisson process. */
static double
gap_us(const struct queueing *q, uint32_t i)
{
	uint32_t bits[4];

	ir_philox(1, i, bits);
	return -log((bits[0] + 0.5) / 4294967296.0) * 1e6 / q->t->rate;
}

/* Request i's part of a length: evenly within `spread` of the mean. */
static double
length_of(const struct queueing *q, double mean, uint32_t i, uint32_t which)
{
	uint32_t bits[4];

	if (q->t->spread <= 0) {
		return mean;
	}
	ir_philox(2, i, bits);
	return fmax(floor(mean * (1 + q->t->spread *
		    (2 * ((bits[which] + 0.5) / 4294967296.0) - 1)) + 0.5), 1);
}

/* Times of arrival of an open queue; of a closed one only the first are. */
static void
open_queue(struct queueing *q)
{
	const struct serve_traffic *t = q->t;
	double output = q->in->asked->output, when = 0;
	double clients = fmax(t->clients, t->sequences);
	uint32_t i;

	for (i = 0; i < t->requests; i++) {
		struct serve_request *r = &q->at[i];

		r->left = length_of(q, q->in->asked->prompt, i, 0);
		r->output = length_of(q, output, i, 1);
		if (t->rate > 0) {
			when += gap_us(q, i);
			r->came = when;
		} else {
			r->came = i >= clients ? INFINITY :
				  t->is_serial ? i * APART_US : 0;
		}
	}
	q->timed = (uint32_t)fmin(clients, t->requests);
	if (t->rate > 0 || !t->is_staggered) {
		return;
	}
	/* they are in the middle of what they answer, evenly apart */
	for (i = 0; i < t->sequences && i < t->requests; i++) {
		q->at[i].left = 0;
		q->at[i].first = -1;
		q->at[i].ends = ceil(output * (i + 1) / t->sequences);
		push(q, i);
	}
	q->came = q->admitted = q->begun = i;
}

static void
admit(struct queueing *q)
{
	double since = q->decoding > 0 && q->t->poll > 0
		? fmod(q->step - q->looked, q->t->poll) : 0;

	q->looked = q->step - since;
	while (since == 0 && q->came < q->t->requests &&
	       q->at[q->came].came <= q->now) {
		q->came++;
	}
	while (q->admitted < q->came &&
	       q->admitted - q->ended < q->t->sequences) {
		q->admitted++;
	}
}

/* Ends those whose last token is there; a closed queue gets as many. */
static void
end_requests(struct queueing *q, struct serve_waits *out)
{
	double came = q->now;

	while (q->decoding > 0 && q->at[q->heap[0]].ends <= q->step) {
		const struct serve_request *r = &q->at[pop(q)];

		q->ended++;
		if (r->first >= 0 && r - q->at >= q->t->skipped) {
			out->ttft[out->n] = r->first - r->came;
			out->tpot[out->n++] = fmax(q->now + r->late -
						   r->first, 0) /
					      fmax(r->output - 1, 1);
		}
		if (q->t->rate <= 0 && q->timed < q->t->requests) {
			q->at[q->timed++].came = came;
			came += q->t->is_serial ? APART_US : 0;
		}
	}
}

/*
 * Until the first token of a request that has `part` of a round's prompt
 * tokens, if one batch takes it.  Prompts are in the batches that begin after
 * they came: this batch has no fewer, and passes all stages.  That others have
 * fewer shortens the round, not its way.
 */
static double
first_us(struct queueing *q, double decoding, double tokens, double part)
{
	double pp = (double)q->p->split.pp;

	return cycle_us(q, decoding, fmax(tokens, pp * fmin(part,
			q->t->chunk / pp)));
}

/* What its last batch begins later than its first: of more tokens than one
 * batch takes each batch that follows has a part. */
static double
late_us(const struct queueing *q, double round_us, double part)
{
	double pp = (double)q->p->split.pp;

	return fmax(ceil(part * pp / q->t->chunk) - 1, 0) / pp * round_us;
}

/*
 * A step with prompt tokens of those that wait, beside a token of each that
 * decodes; or, prompts first, without one, so that those stay where they are.
 */
static void
mixed_step(struct queueing *q)
{
	double tokens = 0, most = q->t->chunk, began = q->now;
	uint32_t from = q->begun, i;
	double decoding = q->t->prompts_first ? 0 : q->decoding;

	if (q->t->step_tokens > 0) {
		most = fmin(most, fmax(q->t->step_tokens - decoding, 1));
	}
	for (i = from; i < q->admitted && tokens < most; i++) {
		double part = fmin(q->at[i].left, most - tokens);

		tokens += part;
		q->at[i].part = part;
		q->at[i].left -= part;
	}
	q->now += cycle_us(q, decoding, tokens);
	q->step += q->t->prompts_first ? 0 : 1;
	q->looked = q->step;
	for (i = from; i < q->admitted && q->at[i].left <= 0; i++) {
		q->at[i].late = late_us(q, q->now - began, q->at[i].part);
		q->at[i].first = began + q->at[i].late +
				 first_us(q, decoding, tokens, q->at[i].part);
		q->at[i].ends = q->step + ceil((q->at[i].output - 1) /
					       serve_step_tokens(
					       q->in->asked));
		q->begun++;
		push(q, i);
	}
}

/* Steps in which all decode, up to the next event. */
static void
decode_steps(struct queueing *q)
{
	double us = cycle_us(q, q->decoding, 0);
	double n = q->at[q->heap[0]].ends - q->step;

	if (q->came < q->t->requests && q->admitted - q->ended <
	    q->t->sequences) {
		n = fmin(n, fmax(ceil((q->at[q->came].came - q->now) / us),
				 q->looked + q->t->poll - q->step));
	}
	n = fmax(n, 1);
	q->now += n * us;
	q->step += n;
}

static int
by_length(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void
serve_queue(const struct serve_answer_in *in, const struct serve_program *p,
	    const struct serve_traffic *t, struct arena *a,
	    struct serve_waits *out)
{
	struct queueing *q = arena_alloc(a, sizeof *q);
	size_t bytes = t->requests * sizeof(double);
	uint32_t last = t->counted ? t->skipped + t->counted : t->requests;

	q->in = in;
	q->p = p;
	q->t = t;
	q->at = arena_alloc(a, t->requests * sizeof *q->at);
	q->heap = arena_alloc(a, t->requests * sizeof *q->heap);
	*out = (struct serve_waits){ .ttft = arena_alloc(a, bytes),
				     .tpot = arena_alloc(a, bytes) };
	open_queue(q);
	while (q->ended < last) {
		admit(q);
		if (q->begun < q->admitted) {
			mixed_step(q);
		} else if (q->decoding > 0) {
			decode_steps(q);
		} else {
			q->now = q->at[q->came].came;
		}
		end_requests(q, out);
	}
	out->total_us = q->now;
	qsort(out->ttft, out->n, sizeof *out->ttft, by_length);
	qsort(out->tpot, out->n, sizeof *out->tpot, by_length);
}

double
serve_mean(const double *x, uint32_t n)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		sum += x[i];
	}
	return n ? sum / n : 0;
}

double
serve_quantile(const double *sorted, uint32_t n, double part)
{
	return n ? sorted[(uint32_t)(part * (n - 1) + 0.5)] : 0;
}

/*
 * Draws tokens; see draw.h.
 *
 * Numbers are the same on every machine: exponentials are computed here, since
 * those of C libraries differ in their last bit, and sums go up in the order of
 * ids, or from the likeliest on.
 */
#include "runtime/serve/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 16	/* entries of a loop whose length a compiler knows */

struct rt_drawer {
	int64_t vocab;
	float *logits;		/* with the penalties */
	float *weights;		/* e^(logit - largest), by temperature */
	int32_t *heap, *counts;
	int64_t nheap;
};

struct rt_draw
rt_draw_plain(void)
{
	return (struct rt_draw){ .repetition = 1, .temperature = 1,
				 .top_p = 1, .ntop = -1 };
}

enum rt_status
rt_drawer_open(struct rt_drawer **out, int64_t vocab, struct rt_error *err)
{
	struct rt_drawer *d = calloc(1, sizeof *d);
	size_t n = (size_t)vocab + LANES;

	*out = d;
	if (d) {
		d->vocab = vocab;
		d->logits = calloc(n, sizeof *d->logits);
		d->weights = calloc(n, sizeof *d->weights);
		d->heap = calloc(n, sizeof *d->heap);
		d->counts = calloc(n, sizeof *d->counts);
	}
	if (d && d->logits && d->weights && d->heap && d->counts) {
		return RT_OK;
	}
	rt_drawer_free(d);
	*out = NULL;
	return rt_no_memory(err, NULL);
}

void
rt_drawer_free(struct rt_drawer *d)
{
	if (d) {
		free(d->logits);
		free(d->weights);
		free(d->heap);
		free(d->counts);
		free(d);
	}
}

/* ---- numbers ---- */

/* Uniform in [0, 1): splitmix64 of a seed, a choice and an index. */
static double
uniform(uint64_t seed, uint64_t choice, uint64_t i)
{
	uint64_t z = seed * 0xd1342543de82ef95u + choice * 0xaef17502108ef2d9u +
		     (i + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (double)(z >> 11) * 0x1p-53;
}

/*
 * e^x for x <= 0, to 2e-7 of itself; 0 below -87, where floats end.  x is n
 * logarithms of 2 and a rest of at most half of one, whose power is a
 * polynomial: Taylor's of degree 7.
 */
static float
power_of_e(float x)
{
	float n, r, p;
	uint32_t bits;

	x = x > -87 ? x : -87;
	/* the largest float with whole numbers rounds to one */
	n = x * 1.44269504f + 12582912.0f;
	n -= 12582912.0f;
	r = x - n * 0.693359375f + n * 2.12194440e-4f;
	p = 1.98412698e-4f;
	p = p * r + 1.38888889e-3f;
	p = p * r + 8.33333333e-3f;
	p = p * r + 4.16666667e-2f;
	p = p * r + 1.66666667e-1f;
	p = p * r + 0.5f;
	p = p * r + 1;
	p = p * r + 1;
	bits = (uint32_t)((int32_t)n + 127) << 23;
	memcpy(&n, &bits, sizeof n);
	return x > -87 ? p * n : 0;
}

/* Weights of logits under a temperature; returns their sum. */
static double
weigh(struct rt_drawer *d, const float *logits, float largest,
      double temperature)
{
	float scale = (float)(1 / temperature), part[LANES];
	double sum = 0;
	int64_t i, j;

	for (i = 0; i < d->vocab; i += LANES) {
		int64_t n = d->vocab - i < LANES ? d->vocab - i : LANES;

		memset(part, 0, sizeof part);
		memcpy(part, logits + i, (size_t)n * sizeof *part);
		for (j = 0; j < LANES; j++) {
			part[j] = power_of_e((part[j] - largest) * scale);
		}
		memcpy(d->weights + i, part, (size_t)n * sizeof *part);
		for (j = 0; j < n; j++) {
			sum += (double)part[j];
		}
	}
	return sum;
}

static int32_t
likeliest(const float *logits, int64_t n)
{
	int64_t i, best = 0;

	for (i = 1; i < n; i++) {
		if (logits[i] > logits[best] || isnan(logits[best])) {
			best = i;
		}
	}
	return (int32_t)best;
}

/* ---- penalties ---- */

/* Tokens may occur often: the first time that one is met here, all of its
 * occurrences count, and its count is 0 after that. */
static const float *
punish(struct rt_drawer *d, const struct rt_draw *how, const float *logits,
       const int32_t *tokens, int64_t n, int64_t nprompt)
{
	int64_t i;

	if (how->repetition == 1 && how->presence == 0 &&
	    how->frequency == 0) {
		return logits;
	}
	memcpy(d->logits, logits, (size_t)d->vocab * sizeof *logits);
	if (how->repetition != 1) {
		for (i = 0; i < n; i++) {
			d->counts[tokens[i]] = 1;
		}
		for (i = 0; i < n; i++) {
			float *l = &d->logits[tokens[i]];

			if (d->counts[tokens[i]]) {
				*l = *l > 0 ? *l / (float)how->repetition
					    : *l * (float)how->repetition;
			}
			d->counts[tokens[i]] = 0;
		}
	}
	for (i = nprompt; i < n; i++) {
		d->counts[tokens[i]]++;
	}
	for (i = nprompt; i < n; i++) {
		int32_t *count = &d->counts[tokens[i]];

		if (*count) {
			d->logits[tokens[i]] -= (float)(how->presence +
				how->frequency * (double)*count);
		}
		*count = 0;
	}
	return d->logits;
}

/* ---- the likeliest tokens, one after the other ---- */

static bool
is_likelier(const float *logits, int32_t a, int32_t b)
{
	return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void
sift(struct rt_drawer *d, const float *logits, int64_t i)
{
	int32_t moved = d->heap[i];
	int64_t child;

	for (;;) {
		child = 2 * i + 1;
		if (child >= d->nheap) {
			break;
		}
		if (child + 1 < d->nheap &&
		    is_likelier(logits, d->heap[child + 1], d->heap[child])) {
			child++;
		}
		if (!is_likelier(logits, d->heap[child], moved)) {
			break;
		}
		d->heap[i] = d->heap[child];
		i = child;
	}
	d->heap[i] = moved;
}

/* Only tokens whose weight is a part of the likeliest's can be drawn. */
static void
make_heap(struct rt_drawer *d, const float *logits, float least)
{
	int64_t i;

	d->nheap = 0;
	for (i = 0; i < d->vocab; i++) {
		if (d->weights[i] > 0 && d->weights[i] >= least) {
			d->heap[d->nheap++] = (int32_t)i;
		}
	}
	for (i = d->nheap / 2 - 1; i >= 0; i--) {
		sift(d, logits, i);
	}
}

/*
 * The next token of the heap changes its place with the heap's last, so that
 * after k of them they are the last k of the array, likeliest last.
 */
static int32_t
next_likeliest(struct rt_drawer *d, const float *logits)
{
	int32_t top = d->heap[0];

	d->heap[0] = d->heap[--d->nheap];
	if (d->nheap > 0) {
		sift(d, logits, 0);
	}
	d->heap[d->nheap] = top;
	return top;
}

/* ---- drawing ---- */

/*
 * Of the tokens that top_k and min_p leave, the fewest likeliest whose weights
 * are top_p of the sum; one of them by its weight.
 */
static int32_t
draw_filtered(struct rt_drawer *d, const struct rt_draw *how,
	      const float *logits, double sum, double u)
{
	int64_t all, k, n = 0, i;
	double kept = 0;

	make_heap(d, logits, (float)how->min_p);
	all = d->nheap;
	k = how->top_k > 0 && how->top_k < all ? how->top_k : all;
	if (k < all || how->min_p > 0) {
		sum = 0;
		for (i = 0; i < k; i++) {
			sum += (double)d->weights[next_likeliest(d, logits)];
		}
	}
	for (n = 0; n < k && (n == 0 || kept < how->top_p * sum); n++) {
		if (all - n - 1 < d->nheap) {
			next_likeliest(d, logits);
		}
		kept += (double)d->weights[d->heap[all - n - 1]];
	}
	u *= kept;
	for (i = 0; i < n - 1; i++) {
		u -= (double)d->weights[d->heap[all - i - 1]];
		if (u < 0) {
			break;
		}
	}
	return d->heap[all - i - 1];
}

static int32_t
draw_any(const struct rt_drawer *d, double sum, double u)
{
	int64_t i, last = 0;

	u *= sum;
	for (i = 0; i < d->vocab; i++) {
		last = d->weights[i] > 0 ? i : last;
		u -= (double)d->weights[i];
		if (u < 0) {
			return (int32_t)i;
		}
	}
	return (int32_t)last;
}

/* Logprobs are the model's: of logits before settings. */
static void
report(struct rt_drawer *d, const struct rt_draw *how, const float *logits,
       struct rt_drawn *out)
{
	float largest = logits[likeliest(logits, d->vocab)];
	double shift = (double)largest + log(weigh(d, logits, largest, 1));
	int64_t i;

	out->logprob = (double)logits[out->token] - shift;
	if (how->ntop <= 0) {
		return;
	}
	make_heap(d, logits, 0);
	for (i = 0; i < how->ntop && d->nheap > 0; i++) {
		out->top[i] = next_likeliest(d, logits);
		out->top_logprob[i] = (double)logits[out->top[i]] - shift;
	}
	out->ntop = i;
}

enum rt_status
rt_draw_token(struct rt_drawer *d, const struct rt_draw *how,
	      const float *logits, const int32_t *tokens, int64_t n,
	      int64_t nprompt, int64_t choice, struct rt_drawn *out,
	      struct rt_error *err)
{
	const float *l = punish(d, how, logits, tokens, n, nprompt);
	float largest;
	double sum, u;

	*out = (struct rt_drawn){ .token = likeliest(l, d->vocab) };
	largest = l[out->token];
	if (!isfinite(largest)) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the largest logit "
			       "after %lld tokens is %g", (long long)n,
			       (double)largest);
	}
	if (how->temperature > 0) {
		sum = weigh(d, l, largest, how->temperature);
		u = uniform(how->seed, (uint64_t)choice,
			    (uint64_t)(n - nprompt));
		out->token = how->top_k == 0 && how->min_p <= 0 &&
			     how->top_p >= 1 ? draw_any(d, sum, u)
			: draw_filtered(d, how, l, sum, u);
	}
	if (how->ntop >= 0) {
		report(d, how, logits, out);
	}
	return RT_OK;
}

/*
 * Draws tokens; see draw.h.
 *
 * Numbers are the same on every machine: exponentials are computed here, since
 * those of C libraries differ in their last bit, and sums have one order: of
 * ids in LANES parts, or from the likeliest on.
 */
#include "runtime/serve/schedule/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 16	/* entries of a loop whose length a compiler knows */

#define DEPTHS 128	/* parts of a vocabulary, by how likely tokens are */

/* Which tokens a heap is to have. */
struct heap_size {
	float scale;		/* of logits: 1 / temperature */
	float least;		/* weight */
	int64_t count;
	double sum;
};

struct rt_drawer {
	int64_t vocab;
	float *logits;		/* as they are changed */
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

/* Elements of each of its arrays. */
static size_t
size_of(int64_t vocab)
{
	return (size_t)vocab + LANES;
}

int64_t
rt_drawer_bytes(int64_t vocab)
{
	return (int64_t)(sizeof(struct rt_drawer) + size_of(vocab) *
			 (2 * sizeof(float) + 2 * sizeof(int32_t)));
}

enum rt_status
rt_drawer_open(struct rt_drawer **out, int64_t vocab, struct rt_error *err)
{
	struct rt_drawer *d = calloc(1, sizeof *d);
	size_t n = size_of(vocab);

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
 * e^x of each x <= 0, to 2e-7 of itself; 0 below -87, where floats end.  x is n
 * logarithms of 2 and a rest of at most half of one, whose power is a
 * polynomial: Taylor's of degree 7.  In steps, each of which a compiler makes
 * vectors of.
 */
static void
powers_of_e(float *x)
{
	float n[LANES], r[LANES], p[LANES], scale[LANES];
	int32_t bits[LANES];
	int i;

	for (i = 0; i < LANES; i++) {
		r[i] = x[i] > -87 ? x[i] : -87;
		/* where floats are whole numbers, adding rounds to one */
		n[i] = r[i] * 1.44269504f + 12582912.0f;
		n[i] -= 12582912.0f;
		r[i] = r[i] - n[i] * 0.693359375f + n[i] * 2.12194440e-4f;
	}
	for (i = 0; i < LANES; i++) {
		p[i] = 1.98412698e-4f;
		p[i] = p[i] * r[i] + 1.38888889e-3f;
		p[i] = p[i] * r[i] + 8.33333333e-3f;
		p[i] = p[i] * r[i] + 4.16666667e-2f;
		p[i] = p[i] * r[i] + 1.66666667e-1f;
		p[i] = p[i] * r[i] + 0.5f;
		p[i] = p[i] * r[i] + 1;
		p[i] = p[i] * r[i] + 1;
	}
	for (i = 0; i < LANES; i++) {
		bits[i] = ((int32_t)n[i] + 127) * (1 << 23);
	}
	memcpy(scale, bits, sizeof scale);
	for (i = 0; i < LANES; i++) {
		x[i] = x[i] > -87 ? p[i] * scale[i] : 0;
	}
}

/* Logits are multiplied by it: never by infinity. */
static float
scale_of(double temperature)
{
	return (float)(1 / (temperature > 1e-30 ? temperature : 1e-30));
}

/* Weights of logits under a temperature; returns their sum. */
static double
weigh(struct rt_drawer *d, const float *logits, float largest,
      double temperature)
{
	float scale = scale_of(temperature), x[LANES];
	double sums[LANES] = { 0 }, sum = 0;
	int64_t i;
	int j;

	for (i = 0; i < d->vocab; i += LANES) {
		int64_t n = d->vocab - i < LANES ? d->vocab - i : LANES;

		for (j = (int)n; j < LANES; j++) {
			x[j] = -INFINITY;
		}
		memcpy(x, logits + i, (size_t)n * sizeof *x);
		for (j = 0; j < LANES; j++) {
			x[j] = (x[j] - largest) * scale;
		}
		powers_of_e(x);
		/* the array has space for all lanes */
		memcpy(d->weights + i, x, sizeof x);
		for (j = 0; j < LANES; j++) {
			sums[j] += (double)x[j];
		}
	}
	for (j = 0; j < LANES; j++) {
		sum += sums[j];
	}
	return sum;
}

/* Whether one of LANES numbers is v. */
static bool
has(const float *x, float v)
{
	int n = 0, j;

	for (j = 0; j < LANES; j++) {
		n += x[j] == v;
	}
	return n > 0;
}

/* The first of the largest; what is no number is less than any. */
static int32_t
likeliest(const float *logits, int64_t n)
{
	float most[LANES], largest = -INFINITY;
	int64_t i, j;

	for (j = 0; j < LANES; j++) {
		most[j] = -INFINITY;
	}
	for (i = 0; i + LANES <= n; i += LANES) {
		for (j = 0; j < LANES; j++) {
			most[j] = logits[i + j] > most[j] ? logits[i + j]
							  : most[j];
		}
	}
	for (; i < n; i++) {
		most[0] = logits[i] > most[0] ? logits[i] : most[0];
	}
	for (j = 0; j < LANES; j++) {
		largest = most[j] > largest ? most[j] : largest;
	}
	/* vectors without it are passed by */
	for (i = 0; i + LANES <= n && !has(logits + i, largest);) {
		i += LANES;
	}
	for (; i < n; i++) {
		if (logits[i] == largest) {
			return (int32_t)i;
		}
	}
	return 0;
}

/* ---- what changes logits before a draw ---- */

/* Tokens may occur often: the first time that one is met here, all of its
 * occurrences count, and its count is 0 after that. */
static void
punish(struct rt_drawer *d, const struct rt_draw *how, const int32_t *tokens,
       int64_t n, int64_t nprompt)
{
	int64_t i;

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
}

/* What may not be drawn is infinitely unlikely. */
static void
forbid(struct rt_drawer *d, const uint64_t *allowed)
{
	int64_t i;

	for (i = 0; i < d->vocab; i++) {
		if (!(allowed[i / 64] >> i % 64 & 1)) {
			d->logits[i] = -INFINITY;
		}
	}
}

/* The logits that a draw is of. */
static const float *
change(struct rt_drawer *d, const struct rt_draw *how, const float *logits,
       const int32_t *tokens, int64_t n, int64_t nprompt,
       const uint64_t *allowed)
{
	bool punishes = how->repetition != 1 || how->presence != 0 ||
			how->frequency != 0;
	int64_t i;

	if (!punishes && how->nbias == 0 && !allowed) {
		return logits;
	}
	memcpy(d->logits, logits, (size_t)d->vocab * sizeof *logits);
	if (punishes) {
		punish(d, how, tokens, n, nprompt);
	}
	for (i = 0; i < how->nbias; i++) {
		d->logits[how->bias[i].token] += how->bias[i].logit;
	}
	if (allowed) {
		forbid(d, allowed);
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

/* How far a logit is below the largest, in halves of what e is a power of. */
static int
depth(float below)
{
	return below < (DEPTHS - 1) * 0.5f ? (int)(below * 2) : DEPTHS - 1;
}

/*
 * Makes a heap of the likeliest tokens with a weight of at least `least`: of so
 * many that at least `count` of them, or a weight of `sum`, are there.
 */
static void
make_heap(struct rt_drawer *d, const float *logits, float largest,
	  const struct heap_size *size)
{
	int64_t count[DEPTHS] = { 0 }, i;
	double weight[DEPTHS] = { 0 }, sum = 0;
	int last = 0, at;

	for (i = 0; i < d->vocab; i++) {
		if (d->weights[i] > 0 && d->weights[i] >= size->least) {
			at = depth((largest - logits[i]) * size->scale);
			count[at]++;
			weight[at] += (double)d->weights[i];
		}
	}
	d->nheap = count[0];
	sum = weight[0];
	while (last < DEPTHS - 1 && d->nheap < size->count &&
	       !(sum > size->sum)) {
		d->nheap += count[++last];
		sum += weight[last];
	}
	d->nheap = 0;
	for (i = 0; i < d->vocab; i++) {
		if (d->weights[i] > 0 && d->weights[i] >= size->least &&
		    depth((largest - logits[i]) * size->scale) <= last) {
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
	      const float *logits, float largest, double sum, double u)
{
	bool some = how->top_k > 0 || how->min_p > 0;
	int64_t k = how->top_k > 0 ? how->top_k : d->vocab, n = 0, i;
	struct heap_size size = { .scale = scale_of(how->temperature),
		.least = (float)how->min_p, .count = k,
		/* of sums in another order, so with a margin */
		.sum = some ? INFINITY : how->top_p * sum * 1.001 };
	int64_t all;
	double kept = 0;

	make_heap(d, logits, largest, &size);
	all = d->nheap;
	k = k < all ? k : all;
	if (some) {
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
	struct heap_size size = { .scale = 1, .count = how->ntop,
				  .sum = INFINITY };
	double shift = (double)largest + log(weigh(d, logits, largest, 1));
	int64_t i;

	out->logprob = (double)logits[out->token] - shift;
	if (how->ntop <= 0) {
		return;
	}
	make_heap(d, logits, largest, &size);
	for (i = 0; i < how->ntop && d->nheap > 0; i++) {
		out->top[i] = next_likeliest(d, logits);
		out->top_logprob[i] = (double)logits[out->top[i]] - shift;
	}
	out->ntop = i;
}

enum rt_status
rt_draw_token(struct rt_drawer *d, const struct rt_draw *how,
	      const float *logits, const int32_t *tokens, int64_t n,
	      int64_t nprompt, int64_t choice, const uint64_t *allowed,
	      struct rt_drawn *out, struct rt_error *err)
{
	const float *l = change(d, how, logits, tokens, n, nprompt, allowed);
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
			: draw_filtered(d, how, l, largest, sum, u);
	}
	if (how->ntop >= 0) {
		report(d, how, logits, out);
	}
	return RT_OK;
}

enum rt_status
rt_draw_given(struct rt_drawer *d, const struct rt_draw *how,
	      const float *logits, int32_t token, struct rt_drawn *out,
	      struct rt_error *err)
{
	float largest = logits[likeliest(logits, d->vocab)];

	*out = (struct rt_drawn){ .token = token };
	if (!isfinite(largest)) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the largest logit "
			       "before a token of the prompt is %g",
			       (double)largest);
	}
	report(d, how, logits, out);
	return RT_OK;
}

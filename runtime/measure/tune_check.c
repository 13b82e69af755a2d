/*
 * Checks what candidates compute: a contraction against the host's float64,
 * all else against the first candidate.
 *
 * Numbers of a contraction are odd multiples of 2^-b below 1, with b such that
 * any partial sum has at most 24 bits: f32 has all of them, whatever the order
 * in which it adds.  So a result is the one right number of its type, and a
 * wrong, lost or doubled product shows.
 */
#include "runtime/measure/tune_inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a buffer that are compared; bits of the numbers, at most. */
enum { DRAWN = 256, MOST_BITS = 5 };

/* How far apart candidates may be that add in another order, and round what
 * they pass on to 16 bits. */
#define CLOSE 2e-2

/* ---- products on the host ---- */

static int64_t
positions(const struct rt_tune_factor *f)
{
	int64_t all = 1, i;

	for (i = 0; i < f->n; i++) {
		all *= f->size[i];
	}
	return all;
}

/* Adds where position i of a factor lies in both operands. */
static void
add_place(const struct rt_tune_factor *f, int64_t i, int64_t at[2])
{
	int64_t r;

	for (r = f->n - 1; r >= 0; r--) {
		at[0] += i % f->size[r] * f->stride[r][0];
		at[1] += i % f->size[r] * f->stride[r][1];
		i /= f->size[r];
	}
}

/* Bits such that k products of such numbers, and one of them, are exact. */
static int
bits_of(const struct rt_tune_case *x)
{
	const struct rt_tune_product *p = x->product;
	int most = MOST_BITS, own, i, length;

	for (i = 0; i < 3; i++) {
		own = rt_tune_elem_bits(x->buffers[p->buffer[i]].elem);
		if (own == 0) {
			return 0;
		}
		most = i < 2 && own < most ? own : most;
	}
	frexp((double)positions(&p->k) + 1, &length);
	while (most > 0 && 2 * most + length > 24) {
		most--;
	}
	return most;
}

static bool
holds(const struct rt_tune_case *x, int64_t buffer, int64_t at)
{
	const struct rt_tune_buffer *b = &x->buffers[buffer];

	return at >= 0 && at < b->bytes / rt_tune_elem_bytes(b->elem);
}

/* Where element i of a buffer lies. */
static int64_t
place_of(const struct rt_tune_buffer *b, int64_t i)
{
	return b->row > 0 ? i / b->row * b->pitch + i % b->row : i;
}

static int64_t
elements(const struct rt_tune_buffer *b)
{
	int64_t n = b->bytes / rt_tune_elem_bytes(b->elem);

	return b->row > 0 ? n / b->pitch * b->row : n;
}

/* Element i of the result.  False: an operand lies outside of its buffer. */
static bool
product_at(const struct rt_tune_case *x, int bits, int64_t i, double *out)
{
	const struct rt_tune_product *p = x->product;
	int64_t n = positions(&p->n), m = positions(&p->m);
	int64_t k = positions(&p->k), base[2], at[2], q;
	double sum = p->adds ? rt_tune_number(bits, (uint32_t)p->buffer[2],
			place_of(&x->buffers[p->buffer[2]], i)) : 0;

	memcpy(base, p->offset, sizeof base);
	add_place(&p->batch, i / n / m, base);
	add_place(&p->m, i / n % m, base);
	add_place(&p->n, i % n, base);
	for (q = 0; q < k; q++) {
		memcpy(at, base, sizeof at);
		add_place(&p->k, q, at);
		if (!holds(x, p->buffer[0], at[0]) ||
		    !holds(x, p->buffer[1], at[1])) {
			return false;
		}
		sum += rt_tune_number(bits, (uint32_t)p->buffer[0], at[0]) *
		       rt_tune_number(bits, (uint32_t)p->buffer[1], at[1]);
	}
	*out = rt_tune_round(x->buffers[p->buffer[2]].elem, sum);
	return true;
}

/* ---- elements ---- */

/* The first, the last, and others. */
static int64_t
drawn(int64_t n, int i)
{
	uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
	return i == 0 ? 0 : i == 1 ? n - 1
		: (int64_t)((x ^ x >> 32) % (uint64_t)n);
}

static enum rt_status
read_element(struct rt_tune_bench *b, uint32_t buffer, int64_t at, double *out,
	     struct rt_error *err)
{
	struct rt_gpu *g = &b->t->g;
	int64_t elem = b->x->buffers[buffer].elem;
	int64_t bytes = rt_tune_elem_bytes(elem);
	enum rt_status status = GPU(&g->api, to_host, b->t->bounce,
				    b->buffers[buffer] + (uint64_t)(bytes *
				    place_of(&b->x->buffers[buffer], at)),
				    (size_t)bytes, g->stream);

	if (status == RT_OK) {
		status = rt_gpu_wait(&b->t->d, err);
	}
	*out = status == RT_OK ? rt_tune_get(b->t->bounce, elem) : 0;
	return status;
}

static void
compare(struct rt_tune_way *w, uint32_t buffer, int64_t at, double want,
	double got, double most)
{
	w->checked++;
	if (fabs(got - want) <= most || (isnan(got) && isnan(want))) {
		return;
	}
	if (w->wrong++ == 0) {
		w->first.buffer = buffer;
		w->first.at = at;
		w->first.want = want;
		w->first.got = got;
	}
}

static enum rt_status
check_product(struct rt_tune_bench *b, struct rt_tune_way *w, int bits,
	      struct rt_error *err)
{
	const struct rt_tune_product *p = b->x->product;
	uint32_t out = (uint32_t)p->buffer[2];
	int64_t n = positions(&p->batch) * positions(&p->m) *
		    positions(&p->n), at;
	enum rt_status status = RT_OK;
	double want, got;
	int i;

	for (i = 0; i < DRAWN && status == RT_OK; i++) {
		at = drawn(n, i);
		if (!holds(b->x, out, place_of(&b->x->buffers[out], at)) ||
		    !product_at(b->x, bits, at, &want)) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "element "
				"%lld of a product, or what it is the sum of, "
				"lies outside of its buffer", (long long)at);
		}
		status = read_element(b, out, at, &got, err);
		if (status == RT_OK) {
			compare(w, out, at, want, got, 0);
		}
	}
	return status;
}

/* ---- candidates among each other ---- */

/* The elements of all buffers that are written; `first` has those of the first
 * candidate, which fills it in. */
static enum rt_status
check_others(struct rt_tune_bench *b, uint32_t way, double *first,
	     struct rt_error *err)
{
	enum rt_status status = RT_OK;
	double got, size;
	uint32_t i;
	int64_t n;
	int k;

	for (i = 0; i < b->x->nbuffers; i++, first += DRAWN) {
		n = elements(&b->x->buffers[i]);
		if (!b->x->buffers[i].written || n < 1) {
			continue;
		}
		for (size = 0, k = 0; k < DRAWN && way > 0; k++) {
			size += isfinite(first[k])
				? first[k] * first[k] / DRAWN : 0;
		}
		for (k = 0; k < DRAWN && status == RT_OK; k++) {
			int64_t at = drawn(n, k);

			status = read_element(b, i, at, &got, err);
			first[k] = way == 0 ? got : first[k];
			if (status == RT_OK && way > 0) {
				compare(&b->x->ways[way], i, at, first[k],
					got, CLOSE * (sqrt(size) +
						      fabs(first[k])));
			}
		}
	}
	return status;
}

static enum rt_status
check_way(struct rt_tune_bench *b, uint32_t way, int bits, double *first,
	  struct rt_error *err)
{
	struct rt_tune_way *w = &b->x->ways[way];
	enum rt_status status = RT_OK;
	uint32_t i;

	w->checked = w->wrong = 0;
	w->by_host = bits > 0;
	for (i = 0; i < b->x->nbuffers && status == RT_OK; i++) {
		if (way == 0 || b->x->buffers[i].written) {
			status = rt_tune_fill(b, i, bits, err);
		}
	}
	if (status == RT_OK) {
		status = rt_tune_pieces(b, way, err);
	}
	if (status == RT_OK) {
		status = rt_tune_launch(b, way, 0, err);
	}
	if (status == RT_OK) {
		status = rt_gpu_wait(&b->t->d, err);
	}
	return status != RT_OK ? status
		: bits > 0 ? check_product(b, w, bits, err)
		: check_others(b, way, first, err);
}

enum rt_status
rt_tuner_check(struct rt_tuner *t, const struct rt_tune_case *x,
	       struct rt_error *err)
{
	struct rt_tune_bench b = { .t = t, .x = x, .nsets = 1 };
	double *first = calloc((size_t)x->nbuffers * DRAWN + 1, sizeof *first);
	int bits = x->product ? bits_of(x) : 0;
	enum rt_status status = first ? rt_tune_open(&b, err)
				      : rt_no_memory(err, NULL);
	uint32_t i;

	for (i = 0; i < x->nways && status == RT_OK; i++) {
		status = check_way(&b, i, bits, first, err);
	}
	rt_tune_close(&b);
	free(first);
	return status;
}

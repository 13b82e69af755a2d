/*
 * Contractions and attention on all cores: kernels that the compiler made, on
 * numbers drawn here, with results held to their definition in double.  Items
 * are handed out as the workers of a rank get them (device/pool.c); the
 * threads spin, so that cpu time tells whether somebody else had a core.
 */
#include "runtime/abi.h"
#include "runtime/measure/measure_cpu.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- elements ---- */

static size_t
elem_bytes(enum rt_rate r)
{
	return r == RT_RATE_BF16 ? 2 : 4;
}

/* Rounds to nearest even; for finite numbers. */
uint16_t
rt_to_bf16(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double
element_at(const void *from, enum rt_rate rate, int64_t i)
{
	uint32_t bits;
	float f;

	if (rate != RT_RATE_BF16) {
		return (double)((const float *)from)[i];
	}
	bits = (uint32_t)((const uint16_t *)from)[i] << 16;
	memcpy(&f, &bits, sizeof f);
	return (double)f;
}

/* Numbers in [-1, 1) that are the same everywhere. */
static void
fill_random(void *to, enum rt_rate rate, int64_t n, uint32_t seed)
{
	uint32_t x = seed;
	int64_t i;

	for (i = 0; i < n; i++) {
		float v;

		x = x * 1664525 + 1013904223;
		v = (float)(int32_t)x / 2147483648.0f;
		if (rate == RT_RATE_BF16) {
			((uint16_t *)to)[i] = rt_to_bf16(v);
		} else {
			((float *)to)[i] = v;
		}
	}
}

/* ---- a kernel that is called again and again ---- */

enum { MOST_VALUES = 9 }; /* inputs, then the result */

struct running {
	struct rt_pool *pool;
	const struct rt_made *made;
	const struct rt_step *step;
	struct rt_call call;
	char *operands[MOST_VALUES];
	void *values[MOST_VALUES];
	size_t bytes[MOST_VALUES];
	int nvalues;
	char *shared, *own; /* own: of all threads */
	size_t shared_bytes, own_bytes; /* own: of one thread */
	double *busy_us; /* by thread, of the step */
	_Alignas(64) _Atomic int64_t next; /* item of the step */
};

/* Pieces that a thread's share of the items is cut into, as by a rank. */
#define PIECES 8

static void
run_items(void *user, int i, int n)
{
	struct running *r = user;
	int64_t items = r->step->items, piece = items / (n * PIECES), from, to;
	char *own = r->own + (size_t)i * r->own_bytes;
	double us = rt_thread_us();

	piece = n == 1 ? items : piece < 1 ? 1 : piece;
	while ((from = atomic_fetch_add(&r->next, piece)) < items) {
		to = from + piece < items ? from + piece : items;
		r->step->run(&r->call, own, from, to);
	}
	r->busy_us[i] = rt_thread_us() - us;
}

static double
most_busy_us(const struct running *r)
{
	double most = 0;
	int i;

	for (i = 0; i < rt_pool_threads(r->pool); i++) {
		most = fmax(most, r->busy_us[i]);
	}
	return most;
}

static enum rt_status
run_kernel(void *user, int runs, struct rt_timing *out, struct rt_error *err)
{
	struct running *r = user;
	const struct rt_kernel *k = r->made->kernel;
	double wall_us = rt_wall_us(), cpu_us = rt_cpu_us();
	int64_t s;
	int run;

	(void)err;
	out->busy_us = 0;
	for (run = 0; run < runs; run++) {
		for (s = 0; s < k->nsteps; s++) {
			r->step = &k->steps[s];
			atomic_store(&r->next, 0);
			rt_pool_run(r->pool, run_items, r);
			out->busy_us += most_busy_us(r);
		}
	}
	out->wall_us = rt_wall_us() - wall_us;
	out->cpu_us = rt_cpu_us() - cpu_us;
	return RT_OK;
}

static void
release(struct running *r)
{
	int i;

	for (i = 0; i < r->nvalues; i++) {
		rt_pages_free(r->values[i], r->bytes[i]);
	}
	rt_pages_free(r->shared, r->shared_bytes);
	rt_pages_free(r->own, r->own_bytes *
		      (size_t)rt_pool_threads(r->pool));
	free(r->busy_us);
	free(r);
}

/* Zeroed values of `bytes` each; NULL: no memory. */
static struct running *
prepare_kernel(struct rt_pool *pool, const struct rt_made *made,
	       const size_t *bytes, int nvalues)
{
	size_t threads = (size_t)rt_pool_threads(pool);
	struct running *r = aligned_alloc(64, (sizeof *r + 63) / 64 * 64);
	bool ok;
	int64_t i;

	if (!r) {
		return NULL;
	}
	*r = (struct running){ .pool = pool, .made = made,
			       .nvalues = nvalues };
	r->shared_bytes = (size_t)made->shared_bytes;
	r->own_bytes = ((size_t)made->own_bytes + 4095) / 4096 * 4096;
	r->shared = rt_pages(r->shared_bytes);
	r->own = rt_pages(r->own_bytes * threads);
	r->busy_us = calloc(threads, sizeof *r->busy_us);
	ok = r->shared && r->own && r->busy_us;
	for (i = 0; i < nvalues; i++) {
		r->bytes[i] = bytes[i];
		r->values[i] = rt_pages(bytes[i]);
		ok = ok && r->values[i];
	}
	if (!ok) {
		release(r);
		return NULL;
	}
	for (i = 0; i < made->kernel->nat; i++) {
		r->operands[i] = r->values[made->values[i]];
	}
	r->call = (struct rt_call){ .at = r->operands,
				    .pieces = made->pieces,
				    .shared = r->shared };
	return r;
}

/* Times it, and then holds its results to their definition. */
static enum rt_status
measure_kernel(struct running *r, const struct rt_pace *pace,
	       bool (*agrees)(const struct running *r, const void *shape),
	       const void *shape, struct rt_sample *out, struct rt_error *err)
{
	enum rt_status status = rt_sample_measure(pace,
						  rt_pool_threads(r->pool),
						  run_kernel, r, out, err);

	if (status == RT_OK && !agrees(r, shape)) {
		status = rt_fail(err, RT_FORMAT, (struct rt_where){ NULL, NULL,
			-1 }, "%s computes wrong numbers",
			r->made->kernel->what);
	}
	release(r);
	return status;
}

/* ---- contractions ---- */

/* Where element [k,j] of B lies: its numbers are as good in panels as in rows,
 * so none are turned. */
static int64_t
place_in_b(const struct rt_matmul_shape *x, int64_t lanes, int64_t k,
	   int64_t j)
{
	int64_t per = x->bits == 8 ? 4 : 4 / (int64_t)elem_bytes(x->rate);

	if (!x->weights) {
		return k * x->n + j;
	}
	if (lanes == 0) {
		return j * x->k + k;
	}
	return j / lanes * lanes * x->k +
	       (k / per * lanes + j % lanes) * per + k % per;
}

static int64_t
lanes_of(const struct rt_made *made, uint32_t value)
{
	int64_t i;

	for (i = 0; made->lanes && i < made->kernel->nat; i++) {
		if (made->values[i] == value) {
			return made->lanes[i];
		}
	}
	return 0;
}

/* The largest number of B in 8 bits and in 4; else its numbers are below 1. */
#define MOST_NARROW 127
#define MOST_INT4 7

/* Bytes of n numbers of whole rows of B. */
static size_t
weight_bytes(const struct rt_matmul_shape *x, int64_t n)
{
	return (size_t)(x->bits == 4 ? n / 2 + n / RT_GROUP * 2
			: x->bits == 8 ? n
				       : n * (int64_t)elem_bytes(x->rate));
}

/* Scales are powers of two, as kernels may multiply by them before the sum, in
 * fewer bits. */
static double
group_scale(int64_t group)
{
	return group % 2 ? 0.5 : 1;
}

/* Number `at` of rows that lie as RT_ELEM_I4 has them, before their scales. */
static double
int4_at(const struct rt_matmul_shape *x, const uint8_t *b, int64_t at)
{
	int64_t row = at / x->k, i = at % x->k;
	int bits;

	b += weight_bytes(x, row * x->k);
	bits = b[i / 8 * 4 + i % 2 * 2 + i % 8 / 4] >> i / 2 % 2 * 4 & 15;
	return (bits < 8 ? bits : bits - 16) * group_scale(i / RT_GROUP);
}

static double
weight_at(const struct running *r, const struct rt_matmul_shape *x, int64_t at)
{
	const int8_t *b = r->values[1];

	return x->bits == 4 ? int4_at(x, r->values[1], at)
		: x->bits == 8 ? b[at] : element_at(b, x->rate, at);
}

/* Sums of k products below `most` in fp32, in any order, and then rounded. */
static bool
element_agrees(const struct running *r, const struct rt_matmul_shape *x,
	       int64_t i, int64_t j)
{
	double want = 0, rounding = x->rate == RT_RATE_BF16 ? 0x1p-8 : 0;
	double most = x->bits == 4 ? MOST_INT4 : x->bits ? MOST_NARROW : 1;
	int64_t lanes = lanes_of(x->made, 1), k, b;

	for (k = 0; k < x->k; k++) {
		b = place_in_b(x, lanes, k, j);
		want += element_at(r->values[0], x->rate, i * x->k + k) *
			weight_at(r, x, b);
	}
	return fabs(want - element_at(r->values[x->bits ? 3 : 2], x->rate,
				      i * x->n + j)) <=
	       most * 1e-6 * sqrt((double)x->k) * 8 + fabs(want) * rounding;
}

/* So many elements are checked, and the corners; of few elements all. */
#define CHECKED 61

static bool
matmul_agrees(const struct running *r, const void *shape)
{
	const struct rt_matmul_shape *x = shape;
	int64_t n = x->m * x->n, step = n / CHECKED + 1, at;

	for (at = 0; at < n; at += step) {
		if (!element_agrees(r, x, at / x->n, at % x->n)) {
			return false;
		}
	}
	return element_agrees(r, x, x->m - 1, x->n - 1) &&
	       element_agrees(r, x, x->m - 1, 0) &&
	       element_agrees(r, x, 0, x->n - 1);
}

static void
fill_narrow(int8_t *to, int64_t n, uint32_t seed)
{
	uint32_t x = seed;
	int64_t i;

	for (i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		to[i] = (int8_t)((int32_t)(x >> 24) % (2 * MOST_NARROW + 1) -
				 MOST_NARROW);
	}
}

/* Rows of numbers from -7 to 7, each with its scales after them. */
static void
fill_int4(const struct rt_matmul_shape *x, uint8_t *to, uint32_t seed)
{
	uint32_t bits = seed;
	int64_t row, i, g;
	int two, k;

	for (row = 0; row < x->n; row++) {
		for (i = 0; i < x->k / 2; i++) {
			for (two = k = 0; k < 2; k++) {
				bits = bits * 1664525 + 1013904223;
				two = two << 4 | (((int)(bits >> 24) % 15 -
						   MOST_INT4) & 15);
			}
			*to++ = (uint8_t)two;
		}
		for (g = 0; g < x->k / RT_GROUP; g++, to += 2) {
			/* 1 and 1/2 in bf16 */
			to[0] = group_scale(g) < 1 ? 0x00 : 0x80;
			to[1] = 0x3f;
		}
	}
}

enum rt_status
rt_cpu_matmul(struct rt_pool *p, const struct rt_matmul_shape *x,
	      const struct rt_pace *pace, struct rt_sample *out,
	      struct rt_error *err)
{
	size_t elem = elem_bytes(x->rate);
	size_t result = (size_t)(x->m * x->n) * elem;
	const size_t bytes[] = {
		(size_t)(x->m * x->k) * elem,
		weight_bytes(x, x->k * x->n),
		x->bits ? elem : result, result
	};
	struct running *r = prepare_kernel(p, x->made, bytes, x->bits ? 4 : 3);

	if (!r) {
		return rt_no_memory(err, NULL);
	}
	fill_random(r->values[0], x->rate, x->m * x->k, 1);
	if (x->bits == 4) {
		fill_int4(x, r->values[1], 2);
	} else if (x->bits == 8) {
		fill_narrow(r->values[1], x->k * x->n, 2);
	} else {
		fill_random(r->values[1], x->rate, x->k * x->n, 2);
	}
	return measure_kernel(r, pace, matmul_agrees, x, out, err);
}

/* ---- attention ---- */

/* One query of one head by the definition, in double. */
static bool
query_agrees(const struct running *r, const struct rt_attention_shape *x,
	     int64_t head, int64_t query)
{
	const float *q = r->values[0], *k = r->values[1], *v = r->values[2];
	const float *result = r->values[3];
	int64_t d = x->head_dim, row = x->heads * d, j, i;
	int64_t keys = x->causal ? query + 1 : x->length;
	double total = 0, want[RT_MOST_HEAD_DIM] = { 0 };

	for (j = 0; j < keys; j++) {
		int64_t at = j * row + head * d;
		double s = 0;

		for (i = 0; i < d; i++) {
			s += (double)q[query * row + head * d + i] *
			     (double)k[at + i];
		}
		s = exp(s / sqrt((double)d));
		total += s;
		for (i = 0; i < d; i++) {
			want[i] += s * (double)v[at + i];
		}
	}
	for (i = 0; i < d; i++) {
		double got = (double)result[query * row + head * d + i];

		if (!(fabs(want[i] / total - got) <= 1e-4)) {
			return false;
		}
	}
	return true;
}

static bool
attention_agrees(const struct running *r, const void *shape)
{
	const struct rt_attention_shape *x = shape;

	return query_agrees(r, x, 0, 0) &&
	       query_agrees(r, x, x->heads - 1, x->length / 2) &&
	       query_agrees(r, x, x->heads - 1, x->length - 1);
}

enum rt_status
rt_cpu_attention(struct rt_pool *p, const struct rt_attention_shape *x,
		 const struct rt_pace *pace, struct rt_sample *out,
		 struct rt_error *err)
{
	int64_t n = x->heads * x->length * x->head_dim;
	size_t one = (size_t)n * sizeof(float);
	const size_t bytes[] = { one, one, one, one };
	struct running *r;
	int i;

	if (x->head_dim > RT_MOST_HEAD_DIM) {
		return rt_fail(err, RT_RANGE, (struct rt_where){ NULL, NULL,
			-1 }, "a head has at most %d elements",
			RT_MOST_HEAD_DIM);
	}
	r = prepare_kernel(p, x->made, bytes, 4);
	if (!r) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < 3; i++) {
		fill_random(r->values[i], RT_RATE_FP32, n, 3 + (uint32_t)i);
	}
	return measure_kernel(r, pace, attention_agrees, x, out, err);
}

/* ---- attention to keys of a cache ---- */

/* What its values are, by number. */
enum {
	QUERIES, KEYS, VALUES, INDEX, FIRST, LAST, FOUND_KEYS, FOUND_VALUES,
	RESULTS
};

/*
 * Keys lie in blocks of 16, as a server's cache has them, and these are not in
 * their order: block i is at i times a number that has no common factor with
 * how many there are.
 */
#define BLOCK 16

static int64_t
stride_of(int64_t blocks)
{
	int64_t stride = blocks * 5 / 8 + 1, a, b, rest;

	for (;; stride++) {
		for (a = blocks, b = stride; b > 0; a = b, b = rest) {
			rest = a % b;
		}
		if (a == 1) {
			return stride;
		}
	}
}

static void
place_keys(struct running *r, const struct rt_attention_shape *x)
{
	int64_t n = x->sequences * x->length, blocks = n / BLOCK, i;
	int64_t stride = stride_of(blocks);
	int32_t *index = r->values[INDEX];
	float *first = r->values[FIRST], *last = r->values[LAST];

	for (i = 0; i < n; i++) {
		index[i] = (int32_t)(i / BLOCK * stride % blocks * BLOCK +
				     i % BLOCK);
	}
	for (i = 0; i < x->sequences; i++) {
		first[i] = (float)(i * x->length);
		last[i] = (float)(i * x->length + x->length - 1);
	}
}

/* One head of a sequence's query by the definition, in double. */
static bool
keys_agree_at(const struct running *r, const struct rt_attention_shape *x,
	      int64_t sequence, int64_t head)
{
	int64_t d = x->head_dim, q = (sequence * x->heads + head) * d, j, i;
	int64_t kv = head / (x->heads / x->kv);
	const int32_t *index = r->values[INDEX];
	double total = 0, want[RT_MOST_HEAD_DIM] = { 0 };
	double rounding = x->rate == RT_RATE_BF16 ? 0x1p-8 : 0;

	for (j = 0; j < x->length; j++) {
		int64_t row = index[sequence * x->length + j];
		int64_t at = (row * x->kv + kv) * d;
		double s = 0;

		for (i = 0; i < d; i++) {
			s += element_at(r->values[QUERIES], x->rate, q + i) *
			     element_at(r->values[KEYS], x->rate, at + i);
		}
		s = exp(s / sqrt((double)d));
		total += s;
		for (i = 0; i < d; i++) {
			want[i] += s * element_at(r->values[VALUES], x->rate,
						  at + i);
		}
	}
	for (i = 0; i < d; i++) {
		double got = element_at(r->values[RESULTS], x->rate, q + i);

		want[i] /= total;
		if (!(fabs(want[i] - got) <= 1e-5 +
		      fabs(want[i]) * rounding)) {
			return false;
		}
	}
	return true;
}

static bool
keys_agree(const struct running *r, const void *shape)
{
	const struct rt_attention_shape *x = shape;

	return keys_agree_at(r, x, 0, 0) &&
	       keys_agree_at(r, x, x->sequences / 2, x->heads / 2) &&
	       keys_agree_at(r, x, x->sequences - 1, x->heads - 1);
}

enum rt_status
rt_cpu_keys(struct rt_pool *p, const struct rt_attention_shape *x,
	    const struct rt_pace *pace, struct rt_sample *out,
	    struct rt_error *err)
{
	int64_t keys = x->sequences * x->length, row = x->kv * x->head_dim;
	int64_t queries = x->sequences * x->heads * x->head_dim;
	size_t elem = elem_bytes(x->rate);
	const size_t bytes[] = {
		[QUERIES] = (size_t)queries * elem,
		[KEYS] = (size_t)(keys * row) * elem,
		[VALUES] = (size_t)(keys * row) * elem,
		[INDEX] = (size_t)keys * sizeof(int32_t),
		[FIRST] = (size_t)x->sequences * sizeof(float),
		[LAST] = (size_t)x->sequences * sizeof(float),
		/* these are read where they lie in the cache */
		[FOUND_KEYS] = elem, [FOUND_VALUES] = elem,
		[RESULTS] = (size_t)queries * elem
	};
	struct running *r;

	if (x->head_dim > RT_MOST_HEAD_DIM || x->length % BLOCK) {
		return rt_fail(err, RT_RANGE, (struct rt_where){ NULL, NULL,
			-1 }, "a head has at most %d elements, and a sequence "
			"whole blocks of %d keys", RT_MOST_HEAD_DIM, BLOCK);
	}
	r = prepare_kernel(p, x->made, bytes, 9);
	if (!r) {
		return rt_no_memory(err, NULL);
	}
	fill_random(r->values[QUERIES], x->rate, queries, 3);
	fill_random(r->values[KEYS], x->rate, keys * row, 4);
	fill_random(r->values[VALUES], x->rate, keys * row, 5);
	place_keys(r, x);
	return measure_kernel(r, pace, keys_agree, x, out, err);
}

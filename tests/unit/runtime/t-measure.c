/* Repetitions and what is believed of them; kernels; rings of processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/abi.h"
#include "runtime/measure/measure_cpu.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include "tests/unit/shared/t-amx.h"
#endif

/* ---- repetitions, on a clock that a list keeps ---- */

struct script {
	const struct rt_timing *reps;	/* after the warm-up, of one run */
	int n, at, warm;
};

static enum rt_status
play(void *user, int runs, struct rt_timing *out, struct rt_error *err)
{
	struct script *s = user;

	(void)err;
	if (s->warm > 0) {
		s->warm--;
		*out = (struct rt_timing){ 1.0 * runs, -1, -1 };
		return RT_OK;
	}
	*out = s->reps[s->at++ % s->n];
	return RT_OK;
}

/* The warm-up is a first run and up to twelve more within the budget. */
#define WARM 13

static struct rt_sample
sample(const struct rt_timing *reps, int n, struct rt_pace pace)
{
	struct script s = { reps, n, 0, WARM };
	struct rt_sample out;
	struct rt_error err;

	assert_int_equal(rt_sample_measure(&pace, 2, play, &s, &out, &err),
			 RT_OK);
	return out;
}

static const struct rt_pace eight = { 1e4, 1, 8, 8, 1 };

static void
test_quartile(void **state)
{
	static const struct rt_timing reps[] = {
		{ 80, -1, -1 }, { 10, -1, -1 }, { 30, -1, -1 }, { 20, -1, -1 },
		{ 70, -1, -1 }, { 60, -1, -1 }, { 40, -1, -1 }, { 50, -1, -1 }
	};
	struct rt_sample s = sample(reps, 8, eight);

	(void)state;
	assert_int_equal(s.reps, 8);
	assert_int_equal(s.kept, 8);
	assert_false(s.disturbed);
	assert_true(s.best_us == 10 && s.low_us == 20 && s.median_us == 40);
}

/* Three with both cores to themselves are enough, however slow the rest. */
static void
test_disturbed_reps(void **state)
{
	static const struct rt_timing reps[] = {
		{ 5, 5, 4 }, { 30, 60, 30 }, { 31, 62, 31 }, { 5, 5, 4 },
		{ 32, 64, 32 }, { 5, 5, 4 }, { 5, 5, 4 }, { 5, 5, 4 }
	};
	struct rt_sample s = sample(reps, 8, eight);

	(void)state;
	assert_int_equal(s.kept, 3);
	assert_false(s.disturbed);
	assert_true(s.low_us == 30 && s.median_us == 31);
	assert_true(s.share == 1);
}

/* With fewer, cpu time counts, and where nobody knows that, the least. */
static void
test_disturbed_sample(void **state)
{
	static const struct rt_timing known[] = {
		{ 90, 90, 41 }, { 60, 62, 43 }, { 80, 80, 42 }
	};
	static const struct rt_timing unknown[] = {
		{ 90, 90, -1 }, { 60, 62, -1 }, { 80, 80, -1 }
	};
	struct rt_sample s = sample(known, 3, eight);

	(void)state;
	assert_true(s.disturbed && s.by_cpu && s.low_us == 41);
	s = sample(unknown, 3, eight);
	assert_true(s.disturbed && !s.by_cpu && s.low_us == 60);
}

/* Patience goes on where all were disturbed, and ends. */
static void
test_patience(void **state)
{
	static const struct rt_timing reps[] = { { 100, 100, 50 } };
	struct rt_pace pace = { 1000, 3, 2, 5, 1 };

	(void)state;
	assert_int_equal(sample(reps, 1, pace).reps, 30);
	pace.patience = 1e9;
	assert_int_equal(sample(reps, 1, pace).reps, RT_SAMPLE_REPS);
}

/* ---- kernels; those of the compiler run in tests/cli/calibrate.sh ---- */

enum { M = 7, N = 5, K = 3, HEADS = 2, LENGTH = 8, HEAD_DIM = 4 };

static atomic_int spoiled;	/* results that a kernel gets wrong */

/* B, and a row of C, are worked on in scratch. */
static void
copy_b(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	float *b = (float *)(void *)c->shared;

	(void)own;
	memcpy(b + from * N, (const float *)(void *)c->at[2] + from * N,
	       (size_t)(to - from) * N * sizeof *b);
}

static void
multiply_rows(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	const float *a = (const void *)c->at[1], *b = (void *)c->shared;
	float *row = (float *)(void *)own, *out = (float *)(void *)c->at[0];
	int64_t i, j, k;

	assert_int_equal(c->pieces[0]->at[0].count, K);
	for (i = from; i < to; i++) {
		memset(row, 0, N * sizeof *row);
		for (j = 0; j < N; j++) {
			for (k = 0; k < K; k++) {
				row[j] += a[i * K + k] * b[k * N + j];
			}
		}
		row[0] += i == M - 1 ? (float)spoiled : 0;
		memcpy(out + i * N, row, N * sizeof *row);
	}
}

static void
attend_queries(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	const float *q = (const void *)c->at[0], *k = (const void *)c->at[1];
	const float *v = (const void *)c->at[2];
	float *out = (float *)(void *)c->at[3];
	int64_t i, h, j, d;

	(void)own;
	for (i = from * HEADS; i < to * HEADS; i++) {
		float total = 0;

		h = i % HEADS;
		memset(out + i * HEAD_DIM, 0, HEAD_DIM * sizeof *out);
		for (j = 0; j <= i / HEADS; j++) {
			int64_t at = (j * HEADS + h) * HEAD_DIM;
			float s = 0;

			for (d = 0; d < HEAD_DIM; d++) {
				s += q[i * HEAD_DIM + d] * k[at + d];
			}
			s = expf(s / sqrtf(HEAD_DIM));
			total += s;
			for (d = 0; d < HEAD_DIM; d++) {
				out[i * HEAD_DIM + d] += s * v[at + d];
			}
		}
		for (d = 0; d < HEAD_DIM; d++) {
			out[i * HEAD_DIM + d] /= total;
		}
		out[i * HEAD_DIM] += (float)spoiled;
	}
}

enum { SEQUENCES = 3, KV = 1 };

/* Each item is a head of a sequence, whose keys are found by the index. */
static void
attend_keys(const struct rt_call *c, char *own, int64_t from, int64_t to)
{
	const float *q = (const void *)c->at[0], *k = (const void *)c->at[1];
	const float *v = (const void *)c->at[2], *first = (void *)c->at[4];
	const float *last = (const void *)c->at[5];
	const int32_t *index = (const void *)c->at[3];
	float *out = (float *)(void *)c->at[6];
	int64_t i, j, d;

	(void)own;
	for (i = from; i < to; i++) {
		float sums[HEAD_DIM + 1] = { 0 };

		for (j = (int64_t)first[i / HEADS];
		     j <= (int64_t)last[i / HEADS]; j++) {
			int64_t at = index[j] * KV * HEAD_DIM;
			float s = 0;

			for (d = 0; d < HEAD_DIM; d++) {
				s += q[i * HEAD_DIM + d] * k[at + d];
			}
			s = expf(s / sqrtf(HEAD_DIM));
			sums[HEAD_DIM] += s;
			for (d = 0; d < HEAD_DIM; d++) {
				sums[d] += s * v[at + d];
			}
		}
		for (d = 0; d < HEAD_DIM; d++) {
			out[i * HEAD_DIM + d] = sums[d] / sums[HEAD_DIM];
		}
		out[i * HEAD_DIM] += (float)spoiled;
	}
}

static const struct rt_pace once = { 1, 1, 1, 1, 1 };

static void
test_matmul(void **state)
{
	static const uint32_t values[] = { 2, 0, 1 };	/* C, A, B */
	static const struct rt_pieces whole = { 1, K, { { 0, K } } };
	static const struct rt_pieces *const pieces[] = { &whole };
	static const struct rt_step steps[] = {
		{ .run = copy_b, .items = K },
		{ .run = multiply_rows, .items = M }
	};
	static const struct rt_kernel kernel = {
		.what = "a product", .nsteps = 2, .steps = steps, .nat = 3
	};
	const struct rt_made made = { &kernel, values, pieces,
				      K * N * sizeof(float),
				      N * sizeof(float), NULL };
	const struct rt_matmul_shape x = {
		RT_RATE_FP32, false, M, N, K, &made, false
	};
	struct rt_sample s;
	struct rt_error err;
	struct rt_pool *p;
	int threads;

	(void)state;
	for (threads = 1; threads <= 3; threads++) {
		assert_int_equal(rt_pool_start(&p, threads, &err), RT_OK);
		spoiled = 0;
		assert_int_equal(rt_cpu_matmul(p, &x, &once, &s, &err),
				 RT_OK);
		assert_true(s.low_us > 0);
		spoiled = 1;
		assert_int_equal(rt_cpu_matmul(p, &x, &once, &s, &err),
				 RT_FORMAT);
		assert_string_equal(err.message,
				    "a product computes wrong numbers");
		rt_pool_stop(p);
	}
}

static void
test_attention(void **state)
{
	static const uint32_t values[] = { 0, 1, 2, 3 };
	static const struct rt_step step = { .run = attend_queries,
					     .items = LENGTH };
	static const struct rt_kernel kernel = {
		.what = "attention", .nsteps = 1, .steps = &step, .nat = 4
	};
	static const struct rt_made made = { .kernel = &kernel,
					      .values = values };
	struct rt_attention_shape x = {
		.heads = HEADS, .length = LENGTH, .head_dim = HEAD_DIM,
		.causal = true, .made = &made
	};
	struct rt_sample s;
	struct rt_error err;
	struct rt_pool *p;

	(void)state;
	assert_int_equal(rt_pool_start(&p, 2, &err), RT_OK);
	spoiled = 0;
	assert_int_equal(rt_cpu_attention(p, &x, &once, &s, &err), RT_OK);
	spoiled = 1;
	assert_int_equal(rt_cpu_attention(p, &x, &once, &s, &err), RT_FORMAT);
	spoiled = 0;
	/* the kernel sees the past alone */
	x.causal = false;
	assert_int_equal(rt_cpu_attention(p, &x, &once, &s, &err), RT_FORMAT);
	x.head_dim = RT_MOST_HEAD_DIM + 1;
	assert_int_equal(rt_cpu_attention(p, &x, &once, &s, &err), RT_RANGE);
	rt_pool_stop(p);
}

static void
test_keys(void **state)
{
	static const uint32_t values[] = { 0, 1, 2, 3, 4, 5, 8 };
	static const struct rt_step step = { .run = attend_keys,
					     .items = SEQUENCES * HEADS };
	static const struct rt_kernel kernel = {
		.what = "attention", .nsteps = 1, .steps = &step, .nat = 7
	};
	static const struct rt_made made = { .kernel = &kernel,
					      .values = values };
	struct rt_attention_shape x = {
		.heads = HEADS, .length = 64, .head_dim = HEAD_DIM,
		.made = &made, .sequences = SEQUENCES, .kv = KV,
		.rate = RT_RATE_FP32
	};
	struct rt_sample s;
	struct rt_error err;
	struct rt_pool *p;

	(void)state;
	assert_int_equal(rt_pool_start(&p, 2, &err), RT_OK);
	spoiled = 0;
	assert_int_equal(rt_cpu_keys(p, &x, &once, &s, &err), RT_OK);
	spoiled = 1;
	assert_int_equal(rt_cpu_keys(p, &x, &once, &s, &err), RT_FORMAT);
	spoiled = 0;
	/* the kernel lets heads share keys */
	x.kv = HEADS;
	assert_int_equal(rt_cpu_keys(p, &x, &once, &s, &err), RT_FORMAT);
	x.length = 65;
	assert_int_equal(rt_cpu_keys(p, &x, &once, &s, &err), RT_RANGE);
	rt_pool_stop(p);
}

/* Without a kernel there is nothing that multiplies. */
static void
test_no_kernel(void **state)
{
	struct rt_matmul_shape x = { RT_RATE_FP32, false, M, N, K, NULL,
				     false };
	static const struct rt_kernel kernel = { .what = "none" };
	const struct rt_made made = { .kernel = &kernel };
	struct rt_sample s;
	struct rt_meter m;
	struct rt_error err;

	(void)state;
	assert_int_equal(rt_meter_cpu(&m, once, &err), RT_OK);
	assert_int_equal(m.ops->matmul(&m, &x, &s, &err), RT_RANGE);
	x.rate = RT_RATE_FP16;
	x.made = &made;
	assert_int_equal(m.ops->matmul(&m, &x, &s, &err), RT_RANGE);
	m.ops->close(&m);
}

/* What ldtilecfg left where it does not trap: without the permission. */
static void
test_saved_config(void **state)
{
#if defined(__x86_64__)
	enum { AT = 2752, BYTES = AT + 64 };
	static char fp[BYTES];
	uint32_t magic = AMX_MAGIC;

	(void)state;
	fp[AT] = 1;
	fp[AMX_HEADER_AT + AMX_CONFIG_BIT / 8] = 1 << AMX_CONFIG_BIT % 8;
	assert_null(amx_saved_config(fp, AT));
	memcpy(fp + AMX_MAGIC_AT, &magic, sizeof magic);
	assert_null(amx_saved_config(fp, 0));
	assert_ptr_equal(amx_saved_config(fp, AT), fp + AT);
	fp[AMX_HEADER_AT + AMX_CONFIG_BIT / 8] = 0;
	assert_null(amx_saved_config(fp, AT));
#else
	(void)state;
	skip();
#endif
}

static void
test_bf16(void **state)
{
	(void)state;
	assert_int_equal(rt_to_bf16(1.0f), 0x3f80);
	/* half way: to the even one, down and up */
	assert_int_equal(rt_to_bf16(1.00390625f), 0x3f80);
	assert_int_equal(rt_to_bf16(1.01171875f), 0x3f82);
	assert_int_equal(rt_to_bf16(-3.0f), 0xc040);
}

/* ---- processes ---- */

static void
test_coll(void **state)
{
	static const struct rt_pace few = { 1, 1, 1, 2, 1 };
	struct rt_sample s;
	struct rt_error err;
	int op, ranks;

	(void)state;
	for (op = 0; op < RT_COLLECTIVES; op++) {
		for (ranks = 2; ranks <= 4; ranks++) {
			/* parts that are no whole lines too */
			struct rt_coll_shape x = {
				(enum rt_collective)op, ranks, 4 * 333
			};

			assert_int_equal(rt_cpu_comm(&x, &few, &s, &err),
					 RT_OK);
			assert_true(s.low_us > 0);
		}
	}
}

static void
test_refused(void **state)
{
	static const struct rt_pace few = { 1, 1, 1, 2, 1 };
	struct rt_coll_shape x = { RT_SEND, 1, 4096 };
	struct rt_sample s;
	struct rt_error err;

	(void)state;
	assert_int_equal(rt_cpu_comm(&x, &few, &s, &err), RT_RANGE);
	x.ranks = 2;
	x.bytes = 64;
	assert_int_equal(rt_cpu_comm(&x, &few, &s, &err), RT_RANGE);
}

/* Whether the kernel was asked for huge pages where `at` is. */
static bool
is_huge(const void *at)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long long lo, hi, p = (unsigned long long)(uintptr_t)at;
	bool is_here = false, is = false;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "%llx-%llx ", &lo, &hi) == 2) {
			is_here = lo <= p && p < hi;
		} else if (is_here && strncmp(line, "VmFlags:", 8) == 0) {
			is = strstr(line, " hg") != NULL;
		}
	}
	fclose(f);
	return is;
}

/* What is timed lies in pages as a rank's arena does. */
static void
test_huge_pages(void **state)
{
	size_t bytes = (size_t)8 << 20;
	char *p;

	(void)state;
	if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0 ||
	    access("/proc/self/smaps", R_OK) != 0) {
		skip();
	}
	p = rt_pages(bytes);
	assert_non_null(p);
	assert_true(is_huge(p + bytes / 2));
	rt_pages_free(p, bytes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quartile),
		cmocka_unit_test(test_disturbed_reps),
		cmocka_unit_test(test_disturbed_sample),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_matmul),
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_no_kernel),
		cmocka_unit_test(test_saved_config),
		cmocka_unit_test(test_bf16),
		cmocka_unit_test(test_coll),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_huge_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

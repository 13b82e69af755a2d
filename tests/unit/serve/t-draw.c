/*
 * Drawn tokens: which ones settings allow, how often each comes, and logprobs,
 * against the definitions in double by sorting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/schedule/draw.h"

enum { VOCAB = 37 };

static uint32_t state_of_draws = 5;

static double
draw01(void)
{
	state_of_draws = state_of_draws * 1664525u + 1013904223u;
	return (double)(state_of_draws >> 8) / (1 << 24);
}

static struct rt_drawer *
open_drawer(int64_t vocab)
{
	struct rt_error err = { .message = "" };
	struct rt_drawer *d = NULL;

	assert_int_equal(rt_drawer_open(&d, vocab, &err), RT_OK);
	return d;
}

static struct rt_drawn
drawn(struct rt_drawer *d, const struct rt_draw *how, const float *logits)
{
	struct rt_error err = { .message = "" };
	struct rt_drawn out;

	if (rt_draw_token(d, how, logits, NULL, 0, 0, 0, NULL, &out, &err) !=
	    RT_OK) {
		fail_msg("%s", err.message);
	}
	return out;
}

static const float *sorted_by;

static int
by_logit(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return sorted_by[x] != sorted_by[y]
		? (sorted_by[x] < sorted_by[y]) - (sorted_by[x] > sorted_by[y])
		: (x > y) - (x < y);
}

/* Probabilities by definition, from a sorted list; returns the gap between the
 * sum where top_p ends and top_p: near 0 the last token may differ. */
static double
define(const struct rt_draw *how, const float *logits, double *p)
{
	double w[VOCAB], sum = 0, kept = 0, gap = 1;
	int32_t id[VOCAB];
	int64_t i, n = 0, m;

	sorted_by = logits;
	for (i = 0; i < VOCAB; i++) {
		id[i] = (int32_t)i;
		p[i] = 0;
	}
	qsort(id, VOCAB, sizeof *id, by_logit);
	for (i = 0; i < VOCAB; i++) {
		w[i] = exp((double)(logits[id[i]] - logits[id[0]]) /
			   how->temperature);
		if ((how->top_k == 0 || i < how->top_k) && w[i] >= how->min_p) {
			sum += w[i];
			n++;
		}
		gap = fmin(gap, fabs(w[i] - how->min_p));
	}
	for (m = 0; m < n && (m == 0 || kept < how->top_p * sum); m++) {
		kept += w[m];
		gap = fmin(gap, fabs(kept - how->top_p * sum));
	}
	for (i = 0; i < m; i++) {
		p[id[i]] = w[i] / kept;
	}
	return how->top_p >= 1 && how->min_p == 0 ? 1 : gap;
}

static void
check_frequencies(struct rt_drawer *d, struct rt_draw *how, const float *logits)
{
	enum { TIMES = 3000 };
	int64_t times[VOCAB] = { 0 }, i;
	double p[VOCAB];

	if (define(how, logits, p) < 1e-4) {
		return;
	}
	for (i = 0; i < TIMES; i++) {
		how->seed = (uint64_t)i;
		times[drawn(d, how, logits).token]++;
	}
	for (i = 0; i < VOCAB; i++) {
		double sigma = sqrt(TIMES * p[i] * (1 - p[i])) + 1;

		if (p[i] == 0) {
			assert_int_equal(times[i], 0);
		}
		assert_true(fabs((double)times[i] - TIMES * p[i]) < 5 * sigma);
	}
}

static void
test_frequencies(void **state)
{
	struct rt_drawer *d = open_drawer(VOCAB);
	struct rt_draw how = rt_draw_plain();
	float logits[VOCAB];
	int64_t i, round;

	(void)state;
	for (round = 0; round < 200; round++) {
		for (i = 0; i < VOCAB; i++) {
			logits[i] = (float)(8 * draw01() - 4);
		}
		/* some are equal, some impossible */
		logits[3] = logits[30] = logits[7];
		logits[9] = -INFINITY;
		how.temperature = 0.2 + 2 * draw01();
		how.top_k = draw01() < 0.5 ? 0 : (int64_t)(1 + 40 * draw01());
		how.min_p = draw01() < 0.5 ? 0 : 0.3 * draw01();
		how.top_p = draw01() < 0.4 ? 1 : draw01();
		check_frequencies(d, &how, logits);
	}
	rt_drawer_free(d);
}

static void
test_likeliest(void **state)
{
	static const float logits[] = { 1, 3, 2, 3, -INFINITY };
	struct rt_drawer *d = open_drawer(5);
	struct rt_draw how = rt_draw_plain();

	(void)state;
	how.temperature = 0;
	assert_int_equal(drawn(d, &how, logits).token, 1);
	for (how.seed = 0; how.seed < 50; how.seed++) {
		how.temperature = 1;
		how.top_k = 1;
		how.top_p = 1;
		assert_int_equal(drawn(d, &how, logits).token, 1);
		how.top_k = 0;
		how.top_p = 0;
		assert_int_equal(drawn(d, &how, logits).token, 1);
	}
	rt_drawer_free(d);
}

/* Of several of the largest the first, wherever they are. */
static void
test_first_likeliest(void **state)
{
	enum { MOST = 100 };
	struct rt_draw how = rt_draw_plain();
	struct rt_drawer *d;
	float logits[MOST];
	int n, at, i;

	(void)state;
	how.temperature = 0;
	for (n = 1; n <= MOST; n++) {
		d = open_drawer(n);
		for (at = 0; at < n; at++) {
			for (i = 0; i < n; i++) {
				logits[i] = i < at ? (float)(i % 7) : NAN;
			}
			logits[at] = 8;
			logits[n - 1] = 8;
			logits[at + (n - at) / 2] = 8;
			assert_int_equal(drawn(d, &how, logits).token, at);
		}
		rt_drawer_free(d);
	}
}

static void
test_penalties(void **state)
{
	static const float logits[] = { 2, -1, 1.5f, 0 };
	static const int32_t tokens[] = { 0, 1, 2, 2 };
	struct rt_drawer *d = open_drawer(4);
	struct rt_draw how = rt_draw_plain();
	struct rt_error err = { .message = "" };
	struct rt_drawn t;

	(void)state;
	how.temperature = 0;
	/* 2 / 2 of the prompt's 0; 1.5 / 2 of 2 */
	how.repetition = 2.2;
	rt_draw_token(d, &how, logits, tokens, 4, 2, 0, NULL, &t, &err);
	assert_int_equal(t.token, 0);
	/* 0 stands in the prompt, which presence does not count */
	how.repetition = 1;
	how.presence = 5;
	rt_draw_token(d, &how, logits, tokens, 4, 2, 0, NULL, &t, &err);
	assert_int_equal(t.token, 0);
	rt_draw_token(d, &how, logits, tokens, 4, 0, 0, NULL, &t, &err);
	assert_int_equal(t.token, 3);
	/* 1.5 - 2 * 0.7 is above 0, 1.5 - 2 * 0.8 below */
	how.presence = 0;
	how.frequency = 0.7;
	how.repetition = 100;
	rt_draw_token(d, &how, logits, tokens + 2, 2, 0, 0, NULL, &t, &err);
	assert_int_equal(t.token, 0);
	how.repetition = 1;
	how.frequency = 2.1;
	rt_draw_token(d, &how, logits, tokens, 3, 0, 0, NULL, &t, &err);
	assert_int_equal(t.token, 3);
	rt_drawer_free(d);
}

/* Biases are added to what penalties leave; what is not allowed is not drawn,
 * and logprobs are of the model's logits all the same. */
static void
test_biases_and_bounds(void **state)
{
	static const struct rt_bias bias[] = { { 1, 3 }, { 3, -100 } };
	const float logits[5] = { 2, 0, 1.5f, 1, -7 };
	const int32_t tokens[] = { 1 };
	uint64_t allowed = 0x1f;
	struct rt_drawer *d = open_drawer(5);
	struct rt_draw how = rt_draw_plain();
	struct rt_error err = { .message = "" };
	struct rt_drawn t, plain;
	int64_t i;

	(void)state;
	how.temperature = 0;
	how.ntop = 1;
	plain = drawn(d, &how, logits);
	assert_int_equal(plain.token, 0);
	how.bias = bias;
	how.nbias = 2;
	rt_draw_token(d, &how, logits, tokens, 1, 0, 0, NULL, &t, &err);
	assert_int_equal(t.token, 1);
	how.presence = 1.5;
	rt_draw_token(d, &how, logits, tokens, 1, 0, 0, &allowed, &t, &err);
	assert_int_equal(t.token, 0);
	allowed = 0x18;
	rt_draw_token(d, &how, logits, tokens, 1, 0, 0, &allowed, &t, &err);
	assert_int_equal(t.token, 4);
	assert_int_equal(t.top[0], 0);
	assert_true(t.top_logprob[0] == plain.top_logprob[0]);
	assert_true(t.logprob - plain.logprob < -8.99);
	how.temperature = 2;
	how.nbias = 0;
	for (i = 0; i < 200; i++) {
		how.seed = (uint64_t)i;
		how.top_k = i % 3;
		how.top_p = i % 2 ? 1 : 0.8;
		rt_draw_token(d, &how, logits, tokens, 1, 0, 0, &allowed, &t,
			      &err);
		assert_in_range(t.token, 3, 4);
	}
	allowed = 0;
	assert_int_equal(rt_draw_token(d, &how, logits, tokens, 1, 0, 0,
				       &allowed, &t, &err), RT_FORMAT);
	rt_drawer_free(d);
}

static void
test_logprobs(void **state)
{
	struct rt_drawer *d = open_drawer(VOCAB);
	struct rt_draw how = rt_draw_plain();
	float logits[VOCAB];
	int64_t i, round, k;

	(void)state;
	how.ntop = 5;
	for (round = 0; round < 100; round++) {
		double sum = 0;
		struct rt_drawn t;

		for (i = 0; i < VOCAB; i++) {
			logits[i] = (float)(30 * draw01() - 20);
			sum += exp((double)logits[i]);
		}
		how.seed = (uint64_t)round;
		how.temperature = 0.1 + draw01();
		t = drawn(d, &how, logits);
		assert_true(fabs(t.logprob - ((double)logits[t.token] -
					      log(sum))) < 1e-6);
		assert_int_equal(t.ntop, 5);
		for (k = 0; k < 5; k++) {
			int64_t above = 0;

			for (i = 0; i < VOCAB; i++) {
				above += logits[i] > logits[t.top[k]];
			}
			assert_int_equal(above, k);
			assert_true(fabs(t.top_logprob[k] -
				((double)logits[t.top[k]] - log(sum))) < 1e-6);
		}
	}
	rt_drawer_free(d);
}

static void
test_no_number(void **state)
{
	float logits[] = { NAN, NAN, NAN };
	struct rt_drawer *d = open_drawer(3);
	struct rt_draw how = rt_draw_plain();
	struct rt_error err = { .message = "" };
	struct rt_drawn t;

	(void)state;
	assert_int_equal(rt_draw_token(d, &how, logits, NULL, 0, 0, 0, NULL, &t,
				       &err), RT_FORMAT);
	assert_string_equal(err.message, "the largest logit after 0 tokens is "
			    "nan");
	logits[1] = -2;
	assert_int_equal(drawn(d, &how, logits).token, 1);
	rt_drawer_free(d);
}

/* However cold it is, the likeliest comes. */
static void
test_cold(void **state)
{
	static const double colds[] = { 1e-6, 1e-30, 1e-40, 1e-300 };
	struct rt_drawer *d = open_drawer(VOCAB);
	struct rt_draw how = rt_draw_plain();
	float logits[VOCAB];
	size_t i;
	int k;

	(void)state;
	for (i = 0; i < VOCAB; i++) {
		logits[i] = (float)(i * 7 % VOCAB) / 8;
	}
	logits[5] = VOCAB;
	for (i = 0; i < sizeof colds / sizeof *colds; i++) {
		for (k = 0; k < 3; k++) {
			how.temperature = colds[i];
			how.top_k = k == 1 ? 3 : 0;
			how.top_p = k == 2 ? 0.5 : 1;
			assert_int_equal(drawn(d, &how, logits).token, 5);
		}
	}
	rt_drawer_free(d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cold),
		cmocka_unit_test(test_frequencies),
		cmocka_unit_test(test_likeliest),
		cmocka_unit_test(test_first_likeliest),
		cmocka_unit_test(test_penalties),
		cmocka_unit_test(test_biases_and_bounds),
		cmocka_unit_test(test_logprobs),
		cmocka_unit_test(test_no_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

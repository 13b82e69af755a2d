/*
 * What a measurement says of an engine whose steps take so long by a clock of
 * the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/unit/serve/t-engine.h"

static double clock_ms;

static double
now_ms(void)
{
	return clock_ms;
}

/* Each step takes 10 ms, and the first one, which does not count, 50 more. */
static void
take_time(void)
{
	clock_ms += clock_ms == 1000 ? 60 : 10;
}

static int64_t replicas, in_flight;

static enum rt_status
measure(const struct rt_speed_options *o, struct rt_speed *m,
	struct rt_error *err)
{
	struct fake_engine f;
	enum rt_status status;

	assert_true(fake_open(&f, (struct rt_engine){ .tokens = 8, .rows = 4,
		.keys = 256, .align = 16, .block = 16, .blocks = 32,
		.context = 64, .vocab = 23, .replicas = replicas,
		.in_flight = in_flight }));
	f.pause = take_time;
	clock_ms = 1000;
	status = rt_serve_speed(&f.e, o, m, err);
	fake_close(&f);
	return status;
}

static void
one(void **state)
{
	struct rt_speed_options o = { 1, 20, 5, 7, now_ms, false };
	struct rt_error err;
	struct rt_speed m;

	(void)state;
	assert_int_equal(measure(&o, &m, &err), RT_OK);
	/* three chunks of the prompt, then four steps of one position */
	assert_float_equal(m.first_ms, 30, 1e-9);
	assert_float_equal(m.prompts_ms, 30, 1e-9);
	assert_float_equal(m.prompts_per_s, 20 / 0.03, 1e-6);
	assert_float_equal(m.token_ms, 10, 1e-9);
	assert_float_equal(m.tokens_per_s, 100, 1e-9);
	assert_float_equal(m.all_ms, 70, 1e-9);
	assert_float_equal(m.all_per_s, 5 / 0.07, 1e-6);
}

/* Sequences 0 to 4 of mixed lengths of 16 and 10, by hand: prompts of 8, 17,
 * 11, 21 and 15 tokens, answers of 5, 9, 13, 7 and 11. */
static void
mixed(void **state)
{
	struct rt_speed_options o = { 5, 16, 10, 7, now_ms, .mixed = true };
	struct rt_error err = { .message = "" };
	struct rt_speed m;

	(void)state;
	assert_int_equal(measure(&o, &m, &err), RT_OK);
	assert_float_equal(m.all_per_s * m.all_ms / 1e3, 5 + 9 + 13 + 7 + 11,
			   1e-9);
	/* of 8 positions, 72 of prompts and all but the first of each answer */
	assert_true(m.all_ms >= 10 * (8 + 17 + 11 + 21 + 15 + 45 - 5) / 8.0);
	o.sequences = 1;
	assert_int_equal(measure(&o, &m, &err), RT_OK);
	assert_float_equal(m.first_ms, 10, 1e-9);
	assert_float_equal(m.all_ms, 50, 1e-9);
	/* the longest are 45 and 21, and 64 fit */
	o.prompt = 30;
	o.tokens = 14;
	assert_int_equal(measure(&o, &m, &err), RT_RANGE);
	assert_non_null(strstr(err.message, "45 tokens, and 21 more"));
}

static void
several(void **state)
{
	struct rt_speed_options o = { 3, 16, 30, 7, now_ms, false };
	struct rt_error err;
	struct rt_speed m;

	(void)state;
	assert_int_equal(measure(&o, &m, &err), RT_OK);
	/* prompts end in steps 2, 5 and 7: those that decode take positions */
	assert_float_equal(m.first_ms, 50, 1e-9);
	assert_float_equal(m.prompts_ms, 70, 1e-9);
	assert_float_equal(m.prompts_per_s, 48 / 0.07, 1e-6);
	assert_float_equal(m.token_ms, 10, 1e-9);
	assert_float_equal(m.tokens_per_s, 300, 1e-6);
}

/* There are more replicas than sequences, and all of them warm up. */
static void
replicated(void **state)
{
	struct rt_speed_options o = { 1, 20, 5, 7, now_ms, false };
	struct rt_error err;
	struct rt_speed m;

	(void)state;
	replicas = 3;
	assert_int_equal(measure(&o, &m, &err), RT_OK);
	replicas = 0;
	assert_int_equal(m.nsteps, 4);
	assert_float_equal(m.first_ms, 30, 1e-9);
	assert_float_equal(m.tokens_per_s, 100, 1e-9);
}

/* Two steps are in flight, one of two sequences and one of one: a token of each
 * takes both.  One sequence alone is in one of them. */
static void
two_in_flight(void **state)
{
	struct rt_speed_options o = { 3, 16, 30, 7, now_ms, false };
	struct rt_error err;
	struct rt_speed m;

	(void)state;
	in_flight = 2;
	assert_int_equal(measure(&o, &m, &err), RT_OK);
	assert_float_equal(m.token_ms, 20, 1e-9);
	assert_float_equal(m.tokens_per_s, 150, 1e-6);
	o.sequences = 1;
	assert_int_equal(measure(&o, &m, &err), RT_OK);
	in_flight = 0;
	assert_float_equal(m.first_ms, 20, 1e-9);
	assert_float_equal(m.token_ms, 10, 1e-9);
	assert_float_equal(m.tokens_per_s, 100, 1e-6);
	assert_int_equal(m.nsteps, 29);
}

/*
 * An engine of stages, of which each computes one step at a time: of n
 * positions in 2 + n / 2 ms.  Rank 0 is the first stage, and waits for it.
 */
enum { STAGES = 3 };

struct staged {
	struct fake_engine f;
	double free_ms[STAGES];	/* when each has computed its last step */
	double ends_ms[STAGES];	/* of the steps in flight, as a ring */
	int64_t begun, ended;
};

static enum rt_status
staged_begin(void *user, const struct rt_serve_step *s, struct rt_error *err)
{
	struct staged *x = user;
	double at = clock_ms;
	int k;

	for (k = 0; k < STAGES; k++) {
		at = (at > x->free_ms[k] ? at : x->free_ms[k]) + 2 +
		     0.5 * (double)s->n;
		x->free_ms[k] = at;
	}
	clock_ms = x->free_ms[0];
	x->ends_ms[x->begun++ % STAGES] = at;
	return fake_begin(&x->f, s, err);
}

static enum rt_status
staged_end(void *user, float *logits, struct rt_error *err)
{
	struct staged *x = user;
	double at = x->ends_ms[x->ended++ % STAGES];

	clock_ms = at > clock_ms ? at : clock_ms;
	return fake_end(&x->f, logits, err);
}

static struct rt_speed
measure_stages(int64_t flights, int64_t sequences, int64_t prompt)
{
	struct rt_speed_options o = { sequences, prompt, 30, 7, now_ms, false };
	struct rt_error err;
	struct rt_speed m;
	struct rt_engine e;
	struct staged x = { .begun = 0 };

	assert_true(fake_open(&x.f, (struct rt_engine){ .tokens = 16,
		.rows = 16, .keys = 1024, .align = 16, .block = 16,
		.blocks = 64, .context = 128, .vocab = 23,
		.in_flight = flights }));
	e = x.f.e;
	e.begin = staged_begin;
	e.end = staged_end;
	e.user = &x;
	clock_ms = 1000;
	assert_int_equal(rt_serve_speed(&e, &o, &m, &err), RT_OK);
	assert_int_equal(x.f.together, flights);
	fake_close(&x.f);
	return m;
}

/*
 * What passes/serve prices: as many batches as stages, so that a round of S
 * sequences takes as many steps of their part of S; and chunks of a prompt that
 * follow each other in the stages.
 */
static void
stages(void **state)
{
	struct rt_speed m;

	(void)state;
	m = measure_stages(3, 6, 1);
	assert_float_equal(m.token_ms, 3 * (2 + 0.5 * 2), 1e-9);
	assert_float_equal(m.tokens_per_s, 6 / 0.009, 1e-6);
	m = measure_stages(1, 6, 1);
	assert_float_equal(m.token_ms, 3 * (2 + 0.5 * 6), 1e-9);
	assert_float_equal(m.tokens_per_s, 6 / 0.015, 1e-6);
	/* four chunks of 16 positions */
	m = measure_stages(3, 1, 64);
	assert_float_equal(m.first_ms, (4 + 3 - 1) * (2 + 0.5 * 16), 1e-9);
	assert_float_equal(m.token_ms, 3 * (2 + 0.5), 1e-9);
	m = measure_stages(1, 1, 64);
	assert_float_equal(m.first_ms, 4 * 3 * (2 + 0.5 * 16), 1e-9);
}

static void
one_token(void **state)
{
	struct rt_speed_options o = { 2, 16, 1, 7, now_ms, false };
	struct rt_error err;
	struct rt_speed m;

	(void)state;
	assert_int_equal(measure(&o, &m, &err), RT_OK);
	assert_int_equal(m.nsteps, 0);
	assert_float_equal(m.first_ms, 40, 1e-9);
}

static void
too_long(void **state)
{
	struct rt_speed_options o = { 1, 60, 5, 7, now_ms, false };
	struct rt_error err = { .message = "" };
	struct rt_speed m;

	(void)state;
	assert_int_equal(measure(&o, &m, &err), RT_RANGE);
	assert_non_null(strstr(err.message, "at most 64 together"));
	/* nothing is allocated by numbers that were not checked */
	o.tokens = INT64_MAX;
	assert_int_equal(measure(&o, &m, &err), RT_RANGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one),
		cmocka_unit_test(mixed),
		cmocka_unit_test(several),
		cmocka_unit_test(replicated),
		cmocka_unit_test(two_in_flight),
		cmocka_unit_test(stages),
		cmocka_unit_test(one_token),
		cmocka_unit_test(too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

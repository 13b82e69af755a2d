/* Repetitions and what is believed of them; every tile; rings of processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/measure/measure_cpu.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include "tests/unit/shared/t-amx.h"
#endif

/* ---- repetitions, on a clock that a list keeps ---- */

struct script {
	const struct rt_stretch *reps;	/* after the warm-up, of one run */
	int n, at, warm;
};

static enum rt_status
play(void *user, int runs, struct rt_stretch *out, struct rt_error *err)
{
	struct script *s = user;

	(void)err;
	if (s->warm > 0) {
		s->warm--;
		*out = (struct rt_stretch){ 1.0 * runs, -1, -1 };
		return RT_OK;
	}
	*out = s->reps[s->at++ % s->n];
	return RT_OK;
}

/* The warm-up is a first run and up to twelve more within the budget. */
#define WARM 13

static struct rt_sample
sample(const struct rt_stretch *reps, int n, struct rt_pace pace)
{
	struct script s = { reps, n, 0, WARM };
	struct rt_sample out;
	struct rt_error err;

	assert_int_equal(rt_sample_take(&pace, 2, play, &s, &out, &err),
			 RT_OK);
	return out;
}

static const struct rt_pace eight = { 1e4, 1, 8, 8, 1 };

static void
test_quartile(void **state)
{
	static const struct rt_stretch reps[] = {
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
	static const struct rt_stretch reps[] = {
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
	static const struct rt_stretch known[] = {
		{ 90, 90, 41 }, { 60, 62, 43 }, { 80, 80, 42 }
	};
	static const struct rt_stretch unknown[] = {
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
	static const struct rt_stretch reps[] = { { 100, 100, 50 } };
	struct rt_pace pace = { 1000, 3, 2, 5, 1 };

	(void)state;
	assert_int_equal(sample(reps, 1, pace).reps, 30);
	pace.patience = 1e9;
	assert_int_equal(sample(reps, 1, pace).reps, RT_SAMPLE_REPS);
}

/* ---- tiles ---- */

static void
test_tiles(void **state)
{
	static const struct rt_pace once = { 1, 1, 1, 1, 1 };
	struct rt_attend x = { 3, 256, 384, 64, true };
	struct rt_sample s;
	struct rt_pool *p;
	struct rt_error err;
	size_t i;
	int there = 0, causal;

	(void)state;
	assert_int_equal(rt_pool_start(&p, 3, &err), RT_OK);
	for (i = 0; i < rt_ntiles; i++) {
		if (!rt_tiles[i].there()) {
			continue;
		}
		there++;
		assert_true(rt_tile_agrees(p, &rt_tiles[i]));
		if (rt_tiles[i].rate != RT_RATE_FP32) {
			continue;
		}
		for (causal = 0; causal < 2; causal++) {
			x.causal = causal;
			assert_int_equal(rt_cpu_attend(p, &rt_tiles[i], &x,
						       &once, &s, &err),
					 RT_OK);
		}
	}
	rt_pool_stop(p);
	assert_true(there >= 2);
}

/*
 * What calibrate runs on a CPU with AMX, on one that has none.  The handler
 * checks the configuration that reaches ldtilecfg.
 */
static void
test_emulated_tile(void **state)
{
#if defined(__x86_64__)
	struct rt_pool *p;
	struct rt_error err;
	size_t i;
	bool agrees = false;

	(void)state;
	for (i = 0; i < rt_ntiles; i++) {
		if (strcmp(rt_tiles[i].name, "amx") != 0) {
			continue;
		}
		if (rt_tiles[i].there()) {
			puts("CPU code: real AMX of calibrate");
			skip();	/* test_tiles had it */
		}
		amx_begin();
		assert_int_equal(rt_pool_start(&p, 2, &err), RT_OK);
		agrees = rt_tile_agrees(p, &rt_tiles[i]);
		rt_pool_stop(p);
		amx_end();
	}
	assert_true(agrees);
	assert_true(amx_all.configs >= 2 && amx_all.products > 100);
	puts("CPU code: emulated AMX of calibrate");
#else
	(void)state;
	skip();
#endif
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
			struct rt_coll x = { (enum rt_collective)op, ranks,
					     4 * 333 };

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
	struct rt_coll x = { RT_SEND, 1, 4096 };
	struct rt_sample s;
	struct rt_error err;

	(void)state;
	assert_int_equal(rt_cpu_comm(&x, &few, &s, &err), RT_RANGE);
	x.ranks = 2;
	x.bytes = 64;
	assert_int_equal(rt_cpu_comm(&x, &few, &s, &err), RT_RANGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quartile),
		cmocka_unit_test(test_disturbed_reps),
		cmocka_unit_test(test_disturbed_sample),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_tiles),
		cmocka_unit_test(test_emulated_tile),
		cmocka_unit_test(test_saved_config),
		cmocka_unit_test(test_bf16),
		cmocka_unit_test(test_coll),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

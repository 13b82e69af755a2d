/*
 * How functions of known cost go on ranks: what traits hide, what they add,
 * and that without any a step is the sum of its kernels.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "passes/price/price.h"

static struct mem mem;
static struct arena arena;

/* Two stages on two ranks, four microbatches, one layer's worth each; the first
 * backward of a stage takes so much less. */
static struct price
step_of(const struct price_traits *traits, double first_us)
{
	static const struct price_func forward = {
		.us = { [PRICE_MATRIX] = 600, [PRICE_COMM] = 400 },
		.total_us = 1000, .data_us = 300, .tensor_us = 100,
		.kernels = 10
	}, update = {
		.us = { [PRICE_MAPS] = 50, [PRICE_COMM] = 150 },
		.total_us = 200, .data_us = 150, .kernels = 2
	};
	struct sched_briefs briefs = { 0 };
	const char *why;
	struct sched *s = sched_make(&arena, "1f1b", 2, 1, 4, &why);
	struct price p = { .hop_us = 30 };
	uint32_t i;

	assert_non_null(s);
	p.stage = arena_alloc(&arena, 2 * sizeof *p.stage);
	p.update = arena_alloc(&arena, 2 * sizeof *p.update);
	for (i = 0; i < 2; i++) {
		p.stage[i][SCHED_F] = forward;
		price_add(&p.stage[i][SCHED_B], &forward, 2);
		p.stage[i][SCHED_B].first_us = first_us;
		p.update[i] = update;
	}
	assert_true(price_pipeline(s, traits, &briefs, &arena, &p));
	price_busiest(s, &p);
	return p;
}

static struct price
step(const struct price_traits *traits)
{
	return step_of(traits, 0);
}

static struct price_traits
traits(const char *text)
{
	struct price_traits t = { 0 };
	struct price_fault fault;

	assert_true(price_traits_parse(&t, text, false, &arena, &fault));
	return t;
}

static double
step_us(const char *text)
{
	struct price_traits t = traits(text);

	return step(&t).step_us;
}

/* Four of each on a rank, one more to fill and drain, and hops between. */
static void
test_plain(void **state)
{
	struct price_traits none = { 0 };
	struct price p = step(&none);

	(void)state;
	assert_true(p.pipe_us >= 5 * 3000 + 2 * 30);
	assert_true(p.pipe_us <= 5 * 3000 + 8 * 30);
	assert_true(p.update_us == 200);
	assert_true(p.step_us == p.pipe_us + p.update_us);
	assert_true(p.parts_us[PRICE_HOST] == 0);
}

/* The last rank has no time to wait, so all of its first backward's counts; a
 * rank has one such backward for each stage. */
static void
test_first(void **state)
{
	struct price_traits none = { 0 };
	struct price all = step(&none), p = step_of(&none, 90);
	struct price more = step_of(&none, -90);

	(void)state;
	assert_true(p.first[0].total_us == 2000 - 90);
	assert_true(p.run[0][SCHED_B].total_us == 2000);
	assert_true(p.pipe_us <= all.pipe_us - 90);
	assert_true(p.pipe_us >= all.pipe_us - 2 * 90);
	assert_true(p.parts_us[PRICE_MAPS] == all.parts_us[PRICE_MAPS] - 90);
	assert_true(p.parts_us[PRICE_MATRIX] == all.parts_us[PRICE_MATRIX]);
	assert_true(more.pipe_us >= all.pipe_us + 90);
}

/* What hides less is shorter, and what it hid is shown. */
static void
test_first_beside(void **state)
{
	struct price_traits none = { 0 };
	struct price_func f = { .total_us = 1000, .beside_us = 200,
				.first_us = 50, .first_beside_us = 20 };
	struct price_func mean = f;
	double shown = price_shown_us(&none, &f);

	(void)state;
	f.us[PRICE_MAPS] = mean.us[PRICE_MAPS] = 500;
	f.us[PRICE_COMM] = mean.us[PRICE_COMM] = 500;
	price_set_mean(&mean, 5);
	assert_true(mean.us[PRICE_MAPS] == 490 && mean.beside_us == 196);
	price_set_first(&f);
	assert_true(f.us[PRICE_MAPS] == 450 && f.beside_us == 180);
	/* of what is beside 60% is hidden */
	assert_true(fabs(price_shown_us(&none, &f) - (shown - 50 + 12)) < 1e-9);
	assert_true(f.first_us == 0 && f.first_beside_us == 0);
}

/* Exchange hides, is never gone, and never hides behind itself. */
static void
test_overlap(void **state)
{
	struct price_traits t = traits("dp_overlap=1");
	struct price p = step(&t);

	(void)state;
	assert_true(p.step_us < step_us(""));
	assert_true(p.step_us > 5 * 3 * 700);
	assert_true(p.update_us >= 50 && p.update_us < 200);
	assert_true(p.run[0][SCHED_F].us[PRICE_MATRIX] == 600);
	assert_true(p.run[0][SCHED_F].us[PRICE_COMM] > 100);
	assert_true(step_us("tp_overlap=1") < step_us(""));
	assert_true(step_us("tp_overlap=1 dp_overlap=1") < p.step_us);
}

/* Waiting costs the sender; a slow host counts most where it is slowest. */
static void
test_waits(void **state)
{
	struct price_traits t = traits("launches=eager");
	struct price p = step(&t);

	(void)state;
	assert_true(step_us("sends=blocking") > step_us(""));
	assert_true(p.step_us > step_us(""));
	assert_true(p.parts_us[PRICE_HOST] > 0);
	/* ten kernels take the host less than a millisecond */
	assert_true(p.run[0][SCHED_F].total_us < 1500);
	assert_true(p.run[0][SCHED_F].total_us >= 1000);
	/* what a rank does not run takes no time */
	assert_true(p.run[0][SCHED_W].total_us == 0);
}

static void
test_parse(void **state)
{
	struct price_traits t = traits("attention=unfused,maps=alone");
	struct price_fault fault;

	(void)state;
	assert_true(t.unfused && t.lone_maps && !t.eager);
	assert_true(price_traits_parse(&t, "maps=fused what - x=1", true,
				       &arena, &fault));
	assert_true(t.unfused && !t.lone_maps);
	assert_false(price_traits_parse(&t, "maps=alone, sends=blockin", false,
					&arena, &fault));
	assert_int_equal(fault.lo, 12);
	assert_int_equal(fault.hi, 25);
	assert_non_null(strstr(fault.why, "did you mean `blocking`"));
	assert_false(price_traits_parse(&t, "send=async", false, &arena,
					&fault));
	assert_non_null(strstr(fault.why, "did you mean `sends`"));
	assert_false(price_traits_parse(&t, "maps", false, &arena, &fault));
	/* a word is wrong wherever it stands */
	assert_false(price_traits_parse(&t, "maps=both", true, &arena,
					&fault));
}

static int
setup(void **state)
{
	(void)state;
	mem_init(&mem);
	arena_init(&arena, &mem);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	arena_release(&arena);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_first_beside),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_parse)
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

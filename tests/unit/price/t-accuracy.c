/*
 * The interval of published runs: that 90% of those of a source lie in it that
 * it was computed without, and how kinds of runs weigh.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "passes/answer/answer.h"

static void
test_generation(void **state)
{
	(void)state;
	assert_int_equal(answer_generation("sm_90a"), 9);
	assert_int_equal(answer_generation("sm_100"), 10);
	assert_int_equal(answer_generation("sm_75"), 7);
	assert_int_equal(answer_generation("x86-64-v4"), 0);
	assert_int_equal(answer_generation(""), 0);
}

static void
test_kind(void **state)
{
	struct answer_kind k = answer_kind(9, 1, 1, 2048, false);

	(void)state;
	assert_int_equal(k.split, ANSWER_BY_DATA);
	assert_int_equal(k.length, ANSWER_SHORT);
	k = answer_kind(9, 1, 2, 2049, true);
	assert_int_equal(k.split, ANSWER_BY_TENSOR);
	assert_int_equal(k.length, ANSWER_MIDDLE);
	assert_int_equal(k.scores, ANSWER_UNFUSED);
	k = answer_kind(9, 2, 1, 8193, false);
	assert_int_equal(k.split, ANSWER_BY_PIPELINE);
	assert_int_equal(k.length, ANSWER_LONG);
}

/* Each run by the interval of its kind, from all sources but its own. */
static void
test_coverage(void **state)
{
	struct mem mem;
	uint32_t i, inside = 0, below = 0;
	struct arena a;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	for (i = 0; i < answer_npublished; i++) {
		const struct answer_published *r = &answer_published[i];
		struct answer_accuracy y;

		answer_accuracy(&r->kind, r->source, &a, &y);
		assert_true(y.low < y.high && y.low > 0);
		inside += r->took >= y.low && r->took <= y.high;
		below += r->took < y.low;
	}
	print_message("%u of %u runs, %u below\n", inside, answer_npublished,
		      below);
	assert_true(inside >= 0.85 * answer_npublished);
	assert_true(inside <= 0.95 * answer_npublished);
	arena_release(&a);
}

/* Runs of the plan's own kind move its interval more than others do. */
static void
test_weight(void **state)
{
	struct answer_kind unfused = answer_kind(8, 2, 2, 2048, true);
	struct answer_kind none = answer_kind(0, 2, 2, 2048, false);
	struct answer_accuracy own, other;
	struct mem mem;
	struct arena a;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	answer_accuracy(&unfused, NULL, &a, &own);
	assert_true(own.alike > 0 && own.sources > 0);
	assert_int_equal(own.runs, answer_npublished);
	answer_accuracy(&none, NULL, &a, &other);
	assert_int_equal(other.alike, 0);
	assert_int_equal(other.sources, 0);
	assert_true(own.low != other.low || own.high != other.high);
	assert_true(answer_least_difference(&a) > 0);
	assert_true(answer_least_difference(&a) < other.high - 1);
	arena_release(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generation),
		cmocka_unit_test(test_kind),
		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_weight)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

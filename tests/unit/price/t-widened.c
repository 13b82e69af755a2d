/*
 * Weights of 8 and 4 bits that kernels of GPUs widen to 16: what that takes
 * beside loads and products, and what it takes apart from them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "passes/price/cost.h"
#include "tests/unit/shared/t-context.h"

static const struct target_group *
target(const char *name)
{
	struct target *t = arena_alloc(&ctx.perm, sizeof *t);

	assert_true(fe_target(&ctx, name, t));
	return t->groups.at;
}

/* Weights that kernels widen are multiplied by mma.sync; and of 4 bits few rows
 * wait for the instructions that widen, where memory is fast. */
static void
test_widened(void **state)
{
	static const struct {
		const char *name;
		double many, few;	/* at least, of math */
	} on[] = { { "a100-sxm", 1, 1 }, { "h100-sxm", 1.4, 1 },
		   { "b200", 2.9, 1.001 } };
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		const struct target_device *d = &target(on[i].name)->device;
		struct cost_contraction c = {
			.m = 8192, .n = 8192, .k = 8192, .batch = 1,
			.rate = TARGET_BF16, .out_bytes = 2,
			.stored_bytes = 66. / 128
		};
		struct cost few, many = cost_contraction(d, &c);
		double slower, widens;

		c.widened = true;
		slower = cost_contraction(d, &c).math_us / many.math_us;
		assert_true(slower >= on[i].many && slower < on[i].many * 1.25);
		c.m = 1;
		few = cost_contraction(d, &c);
		widens = few.math_us / few.memory_us;
		assert_true(on[i].few > 1 ? widens > 1 : widens < 1);
		c.stored_bytes = 1;
		few = cost_contraction(d, &c);
		assert_true(i == 2 || few.math_us < few.memory_us);
	}
}

/*
 * Marlin's own bench on an A100 (vllm-project/vllm, pull request 2497): int4 in
 * groups of 128 is read at 1,158 GB/s for one row, and a matrix in 16 bits
 * takes 3.12 times as long, which is 1,470 GB/s.  Hidden behind loads, widening
 * would leave all of those.
 */
static void
test_widened_apart(void **state)
{
	const struct target_device *d = &target("a100-sxm")->device;
	struct cost_contraction c = { .m = 1, .n = 18000, .k = 18000,
				      .batch = 1, .rate = TARGET_BF16,
				      .out_bytes = 2 };
	double bytes = c.n * c.k * 66 / 128, launch = d->launch_us;
	double wide = cost_contraction(d, &c).us - launch, beside, apart;

	(void)state;
	c.widened = true;
	c.stored_bytes = 66. / 128;
	beside = cost_contraction(d, &c).us - launch;
	c.widened_apart = true;
	apart = cost_contraction(d, &c).us - launch;
	assert_true(fabs(2 * c.n * c.k / wide / 1470e3 - 1) < 0.1);
	assert_true(fabs(bytes / apart / 1158e3 - 1) < 0.1);
	assert_true(bytes / beside > 1.2 * 1158e3);
	assert_true(fabs(apart - beside - cost_widening_us(d, &c)) < 1e-9 *
		    apart);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_widened, setup, teardown),
		cmocka_unit_test_setup_teardown(test_widened_apart, setup,
						teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

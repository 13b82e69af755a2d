/*
 * What becomes of a contraction's sums takes time as far as nobody multiplies
 * meanwhile, and no bound counts it.
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

static double
put_us(const struct target_device *d, const struct cost_contraction *x,
       double math_us)
{
	return cost_put_us(d, &x->put, x->batch * x->m * x->n, math_us);
}

/*
 * What follows the products: an instruction of a thread and element is 1/128 of
 * a unit's cycle.  Whoever multiplies meanwhile hides some of it; never all,
 * nor more than the products, and bounds count none.
 */
static void
test_put(void **state)
{
	struct target t;
	const struct target_device *d;
	struct cost_contraction c = { .m = 4096, .n = 14336, .k = 4096,
				      .batch = 1, .rate = TARGET_BF16,
				      .out_bytes = 2, .own_tail = true };
	double us, least, all, put, more;
	int i;

	(void)state;
	assert_true(fe_target(&ctx, "h100-sxm", &t));
	d = &t.groups.at[0].device;
	us = cost_contraction(d, &c).us;
	c.put.slots = 16;
	all = c.m * c.n * 16 / 128 / d->clock_mhz / (double)d->units;
	assert_true(fabs(cost_contraction(d, &c).us / (us + all) - 1) < 1e-9);
	/* too little for smaller tiles */
	c.put.beside = COST_BESIDE_TURNS;
	assert_true(fabs(cost_contraction(d, &c).us / (us + all) - 1) < 1e-9);
	c.k = 256;
	assert_true(put_us(d, &c, us / 16) < all);
	c.put.beside = COST_BESIDE_THREAD;
	assert_true(put_us(d, &c, us) < all / 4);
	for (i = 0; i < 2000; i++) {
		c.m = 16 + i * 5281 % 9001;
		c.n = 16 + i * 3907 % 9007;
		c.k = 16 + i * 1327 % 9011;
		c.put.slots = 1 + i % 300;
		c.put.beside = (enum cost_beside)(i % 3);
		us = cost_contraction(d, &c).math_us;
		least = cost_contraction_split_us(d, &c);
		put = put_us(d, &c, us);
		c.put.slots *= 2;
		more = put_us(d, &c, us);
		assert_true(put > 0 && more > put);
		assert_true(cost_contraction(d, &c).us * (1 + 1e-12) >= least);
		assert_true(cost_contraction_split_us(d, &c) == least);
	}
	c.put.slots = 0;
	assert_true(put_us(d, &c, us) == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_put, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

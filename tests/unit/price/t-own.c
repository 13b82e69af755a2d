/*
 * Prices that are counted in llmc's own kernels: what becomes of a
 * contraction's sums, as far as nobody multiplies meanwhile, and attention on
 * sm_90a; and bounds of them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
	/* other warps hide nearly all of it, unless products are short */
	c.put.beside = COST_BESIDE_WARPS;
	c.put.warps_slots = 20;
	assert_true(cost_put_by_warps(d, &c.put, c.m * c.n, us));
	assert_true(put_us(d, &c, us) < all / 3);
	assert_false(cost_put_by_warps(d, &c.put, c.m * c.n, us / 64));
	assert_true(put_us(d, &c, us / 64) <= all);
	for (i = 0; i < 2000; i++) {
		c.m = 16 + i * 5281 % 9001;
		c.n = 16 + i * 3907 % 9007;
		c.k = 16 + i * 1327 % 9011;
		c.put.slots = 1 + i % 300;
		c.put.warps_slots = 2 + i % 299;
		c.put.beside = (enum cost_beside)(i % 4);
		us = cost_contraction(d, &c).math_us;
		least = cost_contraction_split_us(d, &c);
		put = put_us(d, &c, us);
		c.put.slots *= 2;
		c.put.warps_slots *= 2;
		more = put_us(d, &c, us);
		assert_true(put > 0 && more > put);
		assert_true(cost_contraction(d, &c).us * (1 + 1e-12) >= least);
		assert_true(cost_contraction_split_us(d, &c) == least);
	}
	c.put.slots = 0;
	assert_true(put_us(d, &c, us) == 0);
}

/*
 * Attention of Llama 3 8B with 4096 tokens took 257 us forward on an H200
 * (docs/gpu.md), which computes as fast as an H100, by a kernel that issued
 * 494 instructions of a warp for a tile; the one that there is now issues
 * fewer.  No kernel takes less than bounds count of it, and twice the heads no
 * less than one.
 */
static void
test_attention(void **state)
{
	struct cost_gradients g = { .batches = 1, .kv = 8, .shared = 4,
				    .queries = 4096, .keys = 4096, .d = 128,
				    .dv = 128, .causal = true, .units = 132,
				    .scratch = COST_JOINT_SCRATCH };
	struct cost_gradients twice;
	struct target t;
	const struct target_device *d;
	struct cost_joint j;
	double us, pairs;
	int i;

	(void)state;
	assert_true(fe_target(&ctx, "h100-sxm", &t));
	d = &t.groups.at[0].device;
	us = cost_forward_of_us(d, &g, 2 * 494);
	printf("forward %.0f us, then %.0f\n", us, cost_forward_us(d, &g));
	assert_true(fabs(us / 257 - 1) < 0.05);
	assert_true(cost_forward_us(d, &g) < us);
	for (i = 0; i < 500; i++) {
		g.kv = 1 + i % 7;
		g.shared = 1 + i % 5;
		g.d = g.dv = 8 * (1 + i % 16);
		g.queries = g.keys = 65 + i * 531 % 9000;
		g.causal = i % 3 != 0;
		twice = g;
		twice.kv *= 2;
		pairs = (double)(g.kv * g.shared * g.queries * g.keys) *
			(g.causal ? 0.5 : 1);
		us = cost_forward_us(d, &g);
		assert_true(us >= cost_forward_least_us(d, pairs,
							(double)g.d));
		assert_true(cost_forward_us(d, &twice) >= us);
		us = cost_gradients_us(d, &g, cost_joint_choose(&g, &j)
				       ? &j : NULL);
		assert_true(us >= cost_gradients_least_us(d, pairs,
							  (double)g.d));
		us = cost_gradients_us(d, &g, NULL);
		assert_true(us >= cost_gradients_least_us(d, pairs,
							  (double)g.d));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_put, setup, teardown),
		cmocka_unit_test_setup_teardown(test_attention, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

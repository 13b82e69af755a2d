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
#include <string.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "passes/price/price.h"
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

/* The gradient of silu times an operand, of two results, after products of so
 * many positions: how it is priced, and what follows the products if who
 * multiplies does it. */
static struct price_func
gated(const struct target_group *t, int depth, double *own_us)
{
	const char *text = arena_printf(&ctx.perm, "llmc-ir 1\ndim m = 8192\n"
		"dim k = %d\ndim q = 14336\nmodel {\n"
		"  %%0 = weight name=\"x\" : bf16[m, k]\n"
		"  %%1 = weight name=\"w\" : bf16[q, k]\n"
		"  %%2 = weight name=\"o\" : bf16[m, q]\n"
		"  %%4 = dot %%0, %%1 over=k : bf16[m, q]\n"
		"  %%5 = sigmoid %%2 : bf16[m, q]\n"
		"  %%6 = silu %%2 : bf16[m, q]\n"
		"  %%7 = mul %%4, %%6 : bf16[m, q]\n"
		"  %%8 = mul %%2, %%5 : bf16[m, q]\n"
		"  %%9 = sub %%5, %%8 : bf16[m, q]\n"
		"  %%10 = mul %%4, %%9 : bf16[m, q]\n"
		"  return %%7, %%10\n}\n", depth);
	struct price_traits traits = { .blocking = false };
	struct pricing p = { .t = t, .traits = &traits };
	struct price_func f = { .kernels = 0 };
	const struct kernel_list *l;
	struct cost_contraction x;
	double products_us;
	uint32_t base;

	source_add(&ctx.sources, "t.ir", text, strlen(text), &base);
	p.m = ir_read(&ctx, ctx.sources.files.n - 1);
	assert_non_null(p.m);
	l = kernels_find(p.m, 1, NULL, &ctx.perm)->top;
	assert_int_equal(l->at.n, 1);
	price_kernel(&p, l->at.at, &f);
	x = price_dot(&p, l->at.at);
	products_us = cost_contraction(&t->device, &x).math_us;
	x.put.slots = price_more_slots(p.m, l->at.at, PRICE_PUT_TEAMS, false);
	x.put.beside = COST_BESIDE_TURNS;
	*own_us = put_us(&t->device, &x, products_us);
	return f;
}

/*
 * What an epilogue reads and writes, an operand and a result more, 235 MB each,
 * lies beside products only where other warps put tiles away.  Of few positions
 * they would take longer than who multiplies, which takes as long for any
 * number of them; and then all of it shows.
 */
static void
test_beside(void **state)
{
	double bytes = 2. * 2 * 8192 * 14336, own_us, all_us;
	uint32_t own = 0, others = 0;
	struct target t;
	int k;

	(void)state;
	assert_true(fe_target(&ctx, "h100-sxm", &t));
	all_us = cost_bytes(&t.groups.at[0].device, COST_MAP, bytes).us -
		 t.groups.at[0].device.launch_us;
	for (k = 384; k <= 1024; k += 64) {
		struct price_func f = gated(t.groups.at, k, &own_us);
		bool by_others = f.put_us < own_us * (1 - 1e-9);

		printf("%d: %.1f us after the products, bytes %.1f%s\n", k,
		       f.put_us, f.us[PRICE_MAPS],
		       by_others ? ", by other warps" : "");
		assert_true(by_others ? f.us[PRICE_MAPS] < all_us / 8
			    : fabs(f.us[PRICE_MAPS] / all_us - 1) < 1e-9);
		own += !by_others;
		others += by_others;
	}
	assert_true(own > 2 && others > 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_put, setup, teardown),
		cmocka_unit_test_setup_teardown(test_beside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_attention, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

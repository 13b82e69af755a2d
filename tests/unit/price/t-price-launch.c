/*
 * Contractions of one launch, as they are priced: they take no less than bounds
 * count of each, and whether they share a launch has one answer.
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

static const struct target_group *
target(const char *name)
{
	struct target *t = arena_alloc(&ctx.perm, sizeof *t);

	assert_true(fe_target(&ctx, name, t));
	return t->groups.at;
}

/* The time of a launch; least: what bounds count of it. */
static double
launch_us(const struct target_device *d, const struct cost_contraction *x,
	  uint32_t n, bool sums, bool by_rows, double *least)
{
	double all = 0;
	uint32_t i;

	*least = 0;
	for (i = 0; i < n; i++) {
		all += sums ? cost_contraction_summed_us(d, x, n, i)
			: cost_contraction_among_us(d, x, n, i, by_rows);
		*least += cost_contraction_split_us(d, &x[i]) +
			  price_least_launch_us(d, true);
	}
	return all;
}

/*
 * Contractions of one launch, of random shapes, take no less than bounds count
 * of each; one alone takes what it takes without.  Query, key and value of
 * Llama 3 8B on eight ranks read their input once together.
 */
static void
test_launch(void **state)
{
	const struct target_device *d = &target("h100-sxm")->device;
	struct cost_contraction x[KERNEL_MAX_LAUNCH] = { { 0 } };
	double alone = 0, least, us;
	uint32_t n, i, r;

	(void)state;
	for (r = 0; r < 400; r++) {
		n = 1 + r % KERNEL_MAX_LAUNCH;
		x[0] = (struct cost_contraction){
			.m = 16 + r * 5281 % 9001,
			.k = 16 + r * 3907 % 9007, .batch = 1,
			.rate = TARGET_BF16, .out_bytes = 2, .own_tail = true,
			.n = 16 + r * 5281 % 9001
		};
		for (i = 0; i < n; i++) {
			x[i] = x[0];
			*(r % 2 ? &x[i].m : &x[i].n) =
				16 + (r + 1) * (i + 3) * 1327 % 9011;
		}
		us = launch_us(d, x, n, false, r % 2, &least);
		assert_true(us >= least * (1 - 1e-12));
		if (n == 1) {
			assert_true(fabs(us / cost_contraction(d, x).us - 1) <
				    1e-12);
		}
	}
	for (i = 0; i < 3; i++) {
		x[i] = x[0];
		x[i].m = 8192;
		x[i].k = 4096;
		x[i].n = i ? 128 : 512;
		alone += cost_contraction(d, &x[i]).us;
	}
	us = launch_us(d, x, 3, false, false, &least);
	printf("alone %.1f us, in one launch %.1f, at least %.1f\n", alone, us,
	       least);
	assert_true(us < 0.8 * alone);
}

/*
 * Contractions that add up, of random depths, take no less than bounds count of
 * each, and no less than one of all depths; one takes what it takes alone.  The
 * gradient of what query, key and value of Llama 3 8B on eight ranks read is
 * stored once, not three times.
 */
static void
test_sums(void **state)
{
	const struct target_device *d = &target("h100-sxm")->device;
	struct cost_contraction x[KERNEL_MAX_LAUNCH] = { { 0 } }, all;
	double alone = 0, least, us;
	uint32_t n, i, r;

	(void)state;
	for (r = 0; r < 400; r++) {
		n = 1 + r % KERNEL_MAX_LAUNCH;
		all = (struct cost_contraction){
			.m = 16 + r * 5281 % 9001, .n = 16 + r * 3907 % 9007,
			.batch = 1, .rate = TARGET_BF16, .out_bytes = 2,
			.own_tail = true
		};
		for (i = 0; i < n; i++) {
			x[i] = all;
			x[i].k = 16 + (r + 1) * (i + 3) * 1327 % 9011;
		}
		for (i = 0; i < n; i++) {
			all.k += x[i].k;
		}
		us = launch_us(d, x, n, true, false, &least);
		assert_true(us >= least * (1 - 1e-12));
		assert_true(us >= cost_contraction(d, &all).us * (1 - 1e-12));
		if (n == 1) {
			assert_true(us <= cost_contraction(d, x).us *
					  (1 + 1e-12));
		}
	}
	for (i = 0; i < 3; i++) {
		x[i] = x[0];
		x[i].m = 8192;
		x[i].n = 4096;
		x[i].k = i < 2 ? 128 : 512;
		alone += cost_contraction(d, &x[i]).us;
	}
	us = launch_us(d, x, 3, true, false, &least);
	printf("alone %.1f us, added up in one launch %.1f, at least %.1f\n",
	       alone, us, least);
	assert_true(us < 0.75 * alone);
}

/* A pair takes no less than bounds count of each, either: one result is stored,
 * half of it for each. */
static void
test_pairs(void **state)
{
	const struct target_device *d = &target("h100-sxm")->device;
	struct cost_contraction x[2];
	double least, half;
	uint32_t r;

	(void)state;
	for (r = 0; r < 400; r++) {
		x[0] = (struct cost_contraction){
			.m = 16 + r * 5281 % 9001, .n = 16 + r * 3907 % 9007,
			.k = 16 + r * 1327 % 9011, .batch = 1,
			.rate = TARGET_BF16, .out_bytes = 2, .own_tail = true
		};
		x[1] = x[0];
		launch_us(d, x, 2, false, false, &least);
		x[0].out_bytes = x[1].out_bytes = 1;
		assert_true(launch_us(d, x, 2, false, false, &half) >=
			    least * (1 - 1e-12));
	}
}

/* Launches that are counted of n contractions, by llmc or by other software;
 * adds their time to *us, unless that is NULL. */
static double
launches_in(const char *text, uint32_t n, bool eager, double *us)
{
	struct price_traits traits = { .eager = eager };
	struct pricing p = { .t = target("h100-sxm"), .traits = &traits };
	struct price_func f = { 0 };
	const struct kernel_list *l;
	uint32_t base, i;

	source_add(&ctx.sources, "t.ir", text, strlen(text), &base);
	p.m = ir_read(&ctx, ctx.sources.files.n - 1);
	assert_non_null(p.m);
	l = kernels_find(p.m, 1, NULL, &ctx.perm)->top;
	assert_int_equal(l->at.n, n);
	for (i = 0; i < l->at.n; i++) {
		assert_non_null(l->at.at[i].launch);
		price_kernel(&p, &l->at.at[i], &f);
		/* all members have one answer, and so has code generation */
		assert_int_equal(price_shares_launch(&p, &l->at.at[i]),
				 price_shares_launch(&p, &l->at.at[0]));
	}
	assert_int_equal(f.kernels == 1, price_shares_launch(&p, l->at.at));
	for (i = 0; us && i < PRICE_NPARTS; i++) {
		*us += f.us[i];
	}
	return f.kernels;
}

/* Launches that are counted of query, key and value for so many tokens of so
 * many numbers, by llmc or by other software.  The last one's weight has rows
 * of `last`. */
static double
launches(int tokens, int depth, int last, bool eager)
{
	const char *text = arena_printf(&ctx.perm, "llmc-ir 1\ndim m = %d\n"
		"dim k = %d\ndim q = 4096\ndim v = 1024\ndim w = %d\n"
		"set join.tiles = 1\nmodel {\n"
		"  %%0 = weight name=\"x\" : bf16[m, k]\n"
		"  %%1 = weight name=\"q\" : bf16[q, k]\n"
		"  %%2 = weight name=\"k\" : bf16[v, k]\n"
		"  %%3 = weight name=\"v\" : bf16[k, w]\n"
		"  %%4 = dot %%0, %%1 over=k : bf16[m, q]\n"
		"  %%5 = dot %%0, %%2 over=k : bf16[m, v]\n"
		"  %%6 = dot %%0, %%3 over=k : bf16[m, w]\n"
		"  return %%4, %%5, %%6\n}\n", tokens, depth, last);
	return launches_in(text, 3, eager, NULL);
}

/* The same of two that add up, over so many positions each. */
static double
summed(int one, int other)
{
	return launches_in(arena_printf(&ctx.perm, "llmc-ir 1\n"
		"dim m = 8192\ndim q = 4096\ndim i = %d\ndim j = %d\n"
		"set join.tiles = 1\nmodel {\n"
		"  %%0 = weight name=\"x\" : bf16[m, i]\n"
		"  %%1 = weight name=\"w\" : bf16[q, i]\n"
		"  %%2 = weight name=\"y\" : bf16[m, j]\n"
		"  %%3 = weight name=\"u\" : bf16[q, j]\n"
		"  %%4 = dot %%0, %%1 over=i : bf16[m, q]\n"
		"  %%5 = dot %%2, %%3 over=j : bf16[m, q]\n"
		"  %%6 = add %%4, %%5 : bf16[m, q]\n"
		"  return %%6\n}\n", one, other), 2, false, NULL);
}

/* The same of a pair, of so many positions, whose factors are kept or not; and
 * the time of both. */
static double
paired(int depth, bool kept, double *us)
{
	const char *last = kept ? "return %3, %4, %6" : "return %6";

	return launches_in(arena_printf(&ctx.perm, "llmc-ir 1\n"
		"dim m = 8192\ndim k = %d\ndim q = 1792\n"
		"set join.tiles = 1\nmodel {\n"
		"  %%0 = weight name=\"x\" : bf16[m, k]\n"
		"  %%1 = weight name=\"g\" : bf16[q, k]\n"
		"  %%2 = weight name=\"u\" : bf16[q, k]\n"
		"  %%3 = dot %%0, %%1 over=k : bf16[m, q]\n"
		"  %%4 = dot %%0, %%2 over=k : bf16[m, q]\n"
		"  %%5 = silu %%3 : bf16[m, q]\n"
		"  %%6 = mul %%5, %%4 : bf16[m, q]\n"
		"  %s\n}\n", depth, last), 2, false, us);
}

/* One, but three where a launch of all has no such kernels, as where the
 * copying unit cannot load a weight of one of them, or they fill less than half
 * of their stages; and of other software, whose host launches each. */
static void
test_launches(void **state)
{
	double kept = 0, alone = 0;

	(void)state;
	assert_true(launches(8192, 4096, 1024, false) == 1);
	assert_true(launches(8, 4096, 1024, false) == 3);
	assert_true(launches(8192, 4096, 1023, false) == 3);
	assert_true(launches(8192, 4096, 1024, true) == 3);
	assert_true(launches(8192, 32, 1024, false) == 1);
	assert_true(launches(8192, 24, 1024, false) == 3);
	assert_true(summed(16, 4096) == 1);
	assert_true(summed(16, 24) == 2);
	/* two results less are stored, 29 MB each: beside products, but for
	 * those of the last tiles, 4.3 MB */
	assert_true(paired(4096, true, &kept) == 1);
	assert_true(paired(4096, false, &alone) == 1);
	printf("a pair takes %.1f us, whose factors are kept %.1f\n", alone,
	       kept);
	assert_true(kept - alone > 2 && kept - alone < 8);
	assert_true(paired(24, true, NULL) == 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_launch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sums, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pairs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_launches, setup, teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

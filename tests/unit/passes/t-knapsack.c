/*
 * Draws stages and ways to recompute, and compares what knapsack_choose chooses
 * with all choices that there are.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "passes/solve/knapsack.h"

#define STAGES 4
#define WAYS 6

struct drawn {
	struct knapsack_stage at[STAGES];
	double us[STAGES][WAYS], bytes[STAGES][WAYS];
	struct knapsack x;
};

/* Every other draw has stages alike, as a rank's are, with other slots. */
static void
draw(struct drawn *d, uint32_t seed)
{
	uint64_t r = seed + 1;
	uint32_t i, k;

	d->x = (struct knapsack){ .at = d->at, .n = 1 + seed % STAGES,
				  .nways = 1 + seed / STAGES % WAYS,
				  .below_us = INFINITY, .most = 1u << 16 };
	for (i = 0; i < d->x.n; i++) {
		for (k = 0; k < d->x.nways; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			d->us[i][k] = (double)(r >> 40 & 255);
			d->bytes[i][k] = (double)(r >> 48 & 255);
			if (i && seed % 2) {
				d->us[i][k] = d->us[0][k];
				d->bytes[i][k] = d->bytes[0][k] *
						 (double)(STAGES + 1 - i) /
						 (double)(STAGES + 1);
			}
		}
		d->at[i] = (struct knapsack_stage){ d->us[i], d->bytes[i] };
	}
	d->x.room = (double)(r >> 32 & 127) * d->x.n;
}

static double
time_of(const struct drawn *d, const uint32_t *way)
{
	double us = 0, bytes = 0;
	uint32_t i;

	for (i = 0; i < d->x.n; i++) {
		us += d->us[i][way[i]];
		bytes += d->bytes[i][way[i]];
	}
	return bytes <= d->x.room ? us : INFINITY;
}

/* The least time of all choices. */
static double
least_of(const struct drawn *d)
{
	uint32_t way[STAGES] = { 0 }, i = 0;
	double least = INFINITY;

	while (i < d->x.n) {
		least = fmin(least, time_of(d, way));
		for (i = 0; i < d->x.n && ++way[i] == d->x.nways; i++) {
			way[i] = 0;
		}
	}
	return least;
}

static void
test_least(void **state)
{
	uint32_t seed, way[STAGES], nfits = 0, nleft = 0;
	struct mem mem;
	struct arena a;
	struct drawn d;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	for (seed = 0; seed < 4000; seed++) {
		double least;

		draw(&d, seed);
		least = least_of(&d);
		assert_int_equal(knapsack_choose(&a, &d.x, way),
				 isfinite(least));
		nfits += isfinite(least);
		if (isfinite(least)) {
			assert_true(fabs(time_of(&d, way) - least) < 1e-6);
			d.x.below_us = least + 0.5;
			assert_true(knapsack_choose(&a, &d.x, way));
			assert_true(fabs(time_of(&d, way) - least) < 1e-6);
			d.x.below_us = INFINITY;
			d.x.near_us = 20;
			assert_true(knapsack_choose(&a, &d.x, way));
			assert_true(time_of(&d, way) <= least + 20.001);
			d.x.near_us = 0;
			assert_true(!isfinite(d.x.left_us));
			d.x.most = 1;	/* any that fits */
			assert_true(knapsack_choose(&a, &d.x, way));
			assert_true(isfinite(time_of(&d, way)));
			assert_true(fmin(time_of(&d, way), d.x.left_us) <=
				    least + 1e-6);
			nleft += isfinite(d.x.left_us);
		}
		arena_release(&a);
	}
	assert_in_range(nfits, 1000, 3000);
	assert_in_range(nleft, 100, 3000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least)
	};

	return cmocka_run_group_tests_name("knapsack", tests, NULL, NULL);
}

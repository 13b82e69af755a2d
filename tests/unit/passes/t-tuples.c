/*
 * Draws times and bytes of ways, and compares the order of tuples_next with
 * that of all choices; and counts what it looks at where ways are many.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "passes/solve/tuples.h"

enum { WAYS = 9, MANY = 400 };

static uint64_t drawn;

static double
draw(uint32_t n)
{
	drawn = drawn * 6364136223846793005u + 1442695040888963407u;
	return (double)((drawn >> 33) % n);
}

static void
draw_ways(struct tuples *x, double us[][MANY], double bytes[][MANY],
	  uint32_t times)
{
	uint32_t i, w;

	for (i = 0; i < x->n; i++) {
		for (w = 0; w < x->nways; w++) {
			us[i][w] = draw(times);
			bytes[i][w] = draw(10);
		}
		x->us[i] = us[i];
		x->bytes[i] = bytes[i];
	}
}

static uint32_t
count(const struct tuples *x)
{
	return x->n > 1 ? x->nways * x->nways : x->nways;
}

/* Whether choice i comes before j: by what docs of tuples.h promise. */
static bool
is_before(const struct tuples *x, uint32_t i, uint32_t j)
{
	double a = x->us[0][i % x->nways], c = x->us[0][j % x->nways];
	double b = x->n > 1 ? x->us[1][i / x->nways] : a;
	double d = x->n > 1 ? x->us[1][j / x->nways] : c;

	if (x->evenly && fmax(a, b) != fmax(c, d)) {
		return fmax(a, b) < fmax(c, d);
	}
	return a + b != c + d ? a + b < c + d : a != c ? a < c : i < j;
}

static double
bytes_of(const struct tuples *x, uint32_t i)
{
	return x->bytes[0][i % x->nways] +
	       (x->n > 1 ? x->bytes[1][i / x->nways] : 0);
}

/* The first choice that is not among those of `was`, and has room. */
static uint32_t
first_of(const struct tuples *x, double room, const bool *was)
{
	uint32_t all = count(x), best = all, i;

	for (i = 0; i < all; i++) {
		if (!was[i] && bytes_of(x, i) <= room &&
		    (best == all || is_before(x, i, best))) {
			best = i;
		}
	}
	return best;
}

/* Each choice with room comes once, the quickest first, over several turns. */
static void
test_order(void **state)
{
	static double us[TUPLES_STAGES][MANY], bytes[TUPLES_STAGES][MANY];
	uint32_t seed, found = 0;
	struct mem mem;
	struct arena a;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	for (seed = 0; seed < 2000; seed++) {
		struct tuples x = { .n = 1 + seed % 2,
				    .nways = 1 + seed / 2 % WAYS,
				    .evenly = seed % 3 == 0 };
		uint32_t nth[TUPLES_STAGES], best;
		double room = draw(22);
		bool was[WAYS * WAYS] = { 0 };

		draw_ways(&x, us, bytes, 1 + seed % 7 * 5);
		x.seen = arena_alloc(&a, x.nways * sizeof *x.seen);
		do {
			best = first_of(&x, room, was);
			if (draw(3) == 0 || !x.order) {
				tuples_open(&a, &x);
			}
			if (!tuples_next(&x, room, nth)) {
				break;
			}
			assert_int_equal(nth[0] + (x.n > 1 ? nth[1] : 0) *
					 x.nways, best);
			was[best] = true;
			found++;
		} while (best < count(&x));
		assert_int_equal(best, count(&x));
		arena_release(&a);
	}
	assert_true(found > 10000);
}

/*
 * Plans that come close have some hundred ways.  All of their choices take no
 * more than a look at each way for each of them.
 */
static void
test_many(void **state)
{
	static double us[TUPLES_STAGES][MANY], bytes[TUPLES_STAGES][MANY];
	struct tuples x = { .n = 2, .nways = MANY };
	uint32_t nth[TUPLES_STAGES], n = 0;
	struct mem mem;
	struct arena a;

	(void)state;
	mem_init(&mem);
	arena_init(&a, &mem);
	draw_ways(&x, us, bytes, 1000000);
	x.seen = arena_alloc(&a, x.nways * sizeof *x.seen);
	tuples_open(&a, &x);
	while (tuples_next(&x, 1e9, nth)) {
		n++;
	}
	assert_int_equal(n, count(&x));
	assert_true(x.looked <= (uint64_t)(n + 1) * MANY);
	arena_release(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_many)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The order in which degrees are looked at: orders are drawn, and stay orders
 * of all degrees, whatever is moved.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "passes/space/space.h"

#define MOST 40

static uint64_t state = 1;

static uint32_t
draw(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

/* Degrees of few shardings, in an order that is drawn. */
struct drawn {
	struct space_degrees at[MOST];
	struct space s;
	uint32_t order[MOST], was[MOST], n;
};

static void
draw_order(struct drawn *x)
{
	uint32_t i, k;

	memset(x, 0, sizeof *x);
	x->n = 1 + draw(MOST);
	for (i = 0; i < x->n; i++) {
		x->at[i] = (struct space_degrees){
			.nth = i, .tp = 1 << draw(3), .cp = 1 + draw(2),
			.ep = 1 + draw(2), .pp = i + 1, .dp = 1
		};
		k = draw(i + 1);
		x->order[i] = x->order[k];
		x->order[k] = i;
	}
	memcpy(x->was, x->order, sizeof x->was);
	x->s.degrees.at = x->at;
	x->s.degrees.n = x->s.degrees.cap = x->n;
}

static bool
are_alike(const struct drawn *x, uint32_t a, uint32_t b)
{
	return space_same_sharding(&x->at[a], &x->at[b]);
}

/* The place of degrees in an order; n: they are not there. */
static uint32_t
place_of(const uint32_t *order, uint32_t n, uint32_t g)
{
	uint32_t i;

	for (i = 0; i < n && order[i] != g; i++) {
	}
	return i;
}

static void
check_all_are_there(const struct drawn *x)
{
	uint32_t i;

	for (i = 0; i < x->n; i++) {
		assert_true(place_of(x->order, x->n, i) < x->n);
	}
}

/* Whether all but those up to `first` stand as they did to each other. */
static void
check_rest(const struct drawn *x, uint32_t first)
{
	uint32_t i, last = 0, at;

	for (i = first; i < x->n; i++) {
		at = place_of(x->was, x->n, x->order[i]);
		assert_true(i == first || at > last);
		last = at;
	}
}

static void
test_vary(void **unused)
{
	uint32_t most, shardings, i, k, n;
	struct drawn x;

	(void)unused;
	for (n = 0; n < 2000; n++) {
		draw_order(&x);
		most = draw(16);
		for (i = 0, shardings = 0; i < x.n; i++) {
			for (k = 0; k < i && !are_alike(&x, k, i); k++) {
			}
			shardings += k == i;
		}
		space_vary(&x.s, x.order, most);
		check_all_are_there(&x);
		most = most < shardings ? most : shardings;
		for (i = 0; i < most; i++) {	/* each the first of its own */
			for (k = 0; !are_alike(&x, x.was[k], x.order[i]);
			     k++) {
			}
			assert_int_equal(x.was[k], x.order[i]);
			for (k = 0; k < i; k++) {
				assert_false(are_alike(&x, x.order[k],
						       x.order[i]));
			}
		}
		check_rest(&x, most);
	}
}

static void
test_lead(void **unused)
{
	struct drawn x;
	struct plan p;
	uint32_t g, n;

	(void)unused;
	for (n = 0; n < 500; n++) {
		draw_order(&x);
		g = draw(x.n);
		memset(&p, 0, sizeof p);
		space_set_degrees(&p, &x.at[g]);
		space_lead(&x.s, x.order, &p);
		check_all_are_there(&x);
		assert_int_equal(x.order[0], g);
		check_rest(&x, 1);
		/* degrees that are not of the space lead nothing */
		memcpy(x.was, x.order, sizeof x.was);
		p.pp = MOST + 1;
		space_lead(&x.s, x.order, &p);
		assert_memory_equal(x.order, x.was, sizeof x.was);
	}
}

/* Rows are whole, and begin where their first degrees did to other rows. */
static void
test_cluster(void **unused)
{
	uint32_t most, rows, shardings, i, k, n;
	struct drawn x;

	(void)unused;
	for (n = 0; n < 2000; n++) {
		draw_order(&x);
		most = 1 + draw(x.n);
		space_cluster(&x.s, x.order, most);
		check_all_are_there(&x);
		assert_memory_equal(x.order + most, x.was + most,
				    (x.n - most) * sizeof *x.was);
		for (i = 0, rows = 0, shardings = 0; i < most; i++) {
			rows += space_is_new_row(&x.s, x.order, i);
			for (k = 0; k < i && !are_alike(&x, x.was[k],
							x.was[i]); k++) {
			}
			if (k == i) {	/* a new sharding, so the next row */
				shardings++;
			}
		}
		assert_int_equal(rows, shardings);
		for (i = 1; i < most; i++) {
			uint32_t a = place_of(x.was, x.n, x.order[i - 1]);
			uint32_t b = place_of(x.was, x.n, x.order[i]);

			assert_true(a < b ||
				    space_is_new_row(&x.s, x.order, i));
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vary),
		cmocka_unit_test(test_lead),
		cmocka_unit_test(test_cluster)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Which positions a rank has: by hand, and as properties of all small cuts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ir/ir.h"

static struct ir_ctx c;
static struct ir_module *m;

static axis_id
axis(const char *name, int64_t size, bool balanced)
{
	axis_id a = ir_axis_add(m, intern_str(&c.syms, name), size,
				(struct span){ 0, 0 });

	m->axes.at[a].balanced = balanced;
	return a;
}

static int
setup(void **state)
{
	(void)state;
	ir_ctx_init(&c, NULL);
	m = ir_module_new(&c);
	axis("two", 2, false);
	axis("three", 3, false);
	axis("ends", 2, true);
	axis("more", 3, true);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	ir_ctx_release(&c);
	return 0;
}

/* Positions as "0 1 2", of the rank at these coordinates. */
static void
has(int64_t size, uint32_t cut, const uint32_t *at, const char *want)
{
	struct ir_pieces p;
	struct buf b;
	int64_t i;

	buf_init(&b, &c.perm);
	ir_pieces(m, size, cut, at, &p);
	for (i = 0; i < p.total; i++) {
		buf_printf(&b, "%s%lld", i ? " " : "",
			   (long long)ir_pieces_at(&p, i));
	}
	assert_string_equal(buf_text(&b), want);
}

#define AT(...) ((uint32_t[IR_MAX_AXES + 1]){ 0, __VA_ARGS__ })

static void
test_by_hand(void **state)
{
	(void)state;
	has(7, 0, AT(1, 1, 1, 1), "0 1 2 3 4 5 6");
	has(7, 2, AT(0, 0), "0 1 2");
	has(7, 2, AT(0, 2), "6");
	has(4, 2, AT(0, 2), "");
	has(7, 1 | 2 << 4, AT(1, 0), "4");
	has(7, 1 | 2 << 4, AT(0, 1), "2 3");
	has(7, 1 | 2 << 4, AT(0, 2), "");
	/* a piece from either end */
	has(8, 3, AT(0, 0, 0), "0 1 6 7");
	has(8, 3, AT(0, 0, 1), "2 3 4 5");
	has(7, 3, AT(0, 0, 0), "0 1 6");
	has(7, 3, AT(0, 0, 1), "2 3 4 5");
	has(7, 4, AT(0, 0, 0, 2), "4 5 6");
	has(7, 4, AT(0, 0, 0, 0), "0 1");
	has(7, 4, AT(0, 0, 0, 1), "2 3");
	has(24, 4 | 3 << 4, AT(0, 0, 0, 1), "4 5 18 19");
}

/* Every position is somewhere, once, and found where it is. */
static void
test_all_cuts(void **state)
{
	uint32_t cut, at[IR_MAX_AXES + 1], rank, k;
	int64_t size, i;

	(void)state;
	for (cut = 0; cut < 4096; cut++) {
		uint32_t a = cut & 15, b = cut >> 4 & 15, d = cut >> 8;

		if (a > 4 || b > 4 || d > 4 || (a && (a == b || a == d)) ||
		    (b && (!a || b == d)) || (d && !b)) {
			continue;
		}
		for (size = 1; size < 30; size++) {
			int seen[30] = { 0 }, ranks = 0;

			for (rank = 0; rank < 36; rank++) {
				struct ir_pieces p;

				k = rank;
				memset(at, 0, sizeof at);
				at[1] = k % 2;
				at[2] = k / 2 % 3;
				at[3] = k / 6 % 2;
				at[4] = k / 12;
				ir_pieces(m, size, cut, at, &p);
				assert_true(p.n <= ir_pieces_most(m, cut));
				for (i = 0; i < p.total; i++) {
					int64_t x = ir_pieces_at(&p, i);

					seen[x]++;
					assert_int_equal(
						ir_pieces_find(&p, x), i);
				}
				ranks++;
			}
			for (i = 1; i < size; i++) {
				assert_int_equal(seen[i], seen[0]);
			}
			assert_true(seen[0] > 0 && ranks % seen[0] == 0);
		}
	}
}

static void
test_local(void **state)
{
	struct ir_type t = { .ndims = 3, .cut = { 1, 0, 3 } };
	uint32_t *at = AT(1, 0, 1);
	struct ir_local l;
	int64_t i, n = 0;

	(void)state;
	t.dims[0] = ir_dim_add(m, intern_str(&c.syms, "a"), 5, 0,
			       (struct span){ 0, 0 });
	t.dims[1] = ir_dim_add(m, intern_str(&c.syms, "b"), 2, 0,
			       (struct span){ 0, 0 });
	t.dims[2] = ir_dim_add(m, intern_str(&c.syms, "c"), 7, 0,
			       (struct span){ 0, 0 });
	ir_local(m, &t, at, &l);
	assert_int_equal(l.elems, 2 * 2 * 4);
	assert_int_equal(ir_local_at(&l, 0), 3 * 14 + 2);
	assert_int_equal(ir_local_at(&l, 15), 4 * 14 + 7 + 5);
	for (i = 0; i < 70; i++) {
		int64_t k = ir_local_find(&l, i);

		n += k >= 0;
		assert_true(k < 0 || ir_local_at(&l, k) == i);
	}
	assert_int_equal(n, l.elems);
	ir_local(m, &t, NULL, &l);
	assert_int_equal(l.elems, 70);
	assert_int_equal(ir_local_at(&l, 33), 33);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_by_hand, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_all_cuts, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_local, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

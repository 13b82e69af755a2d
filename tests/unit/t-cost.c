/* The cost formulas of the ops, by hand-counted examples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/t-eval.h"

static void
test_pairs(void **state)
{
	int64_t s, k, w, i, j, n;
	int causal;

	(void)state;
	for (s = 1; s <= 7; s++) {
		for (k = 1; k <= 7; k++) {
			for (w = 0; w <= 9; w++) {
				for (causal = 0; causal < 2; causal++) {
					n = 0;
					for (i = 0; i < s * k; i++) {
						j = i % k;
						n += (!causal ||
						      j <= i / k + k - s) &&
						     (!w ||
						      j > i / k + k - s - w);
					}
					assert_true(ir_attention_pairs(
						s, k, causal, w) ==
						(double)n);
				}
			}
		}
	}
	assert_true(ir_attention_pairs(131072, 131072, true, 0) ==
		    131072. * 131073 / 2);
}

static void
costs(value_id v, double flops, double bytes)
{
	struct ir_cost c;

	ir_cost(t.m, ir_node(t.m, t.m->values.at[v].node), &c);
	assert_true(c.flops == flops);
	assert_true(c.bytes == bytes);
}

static void
test_cost(void **state)
{
	dim_id b, s, h, k, d, n;
	value_id x, y, q, i;

	(void)state;
	open_module();
	b = dim("b", 2);
	s = dim("s", 5);
	h = dim("h", 4);
	k = dim("k", 2);
	d = dim("d", 8);
	n = dim("n", 7);
	q = source("q", 0, false, DIMS(b, s, h, d));
	x = source("k", 0, false, DIMS(b, s, k, d));
	i = source("i", n, false, DIMS(b, s));
	begin(IR_ATTENTION, "a");
	args(q, x, x);
	ir_new_attr(&t.n, IR_ATTR_CAUSAL);
	ir_new_int(&t.n, IR_ATTR_WINDOW, 3);
	/* 1 + 2 + 3 + 3 + 3 pairs, for 2 sequences and 4 heads */
	costs(done(), 2 * (12 * 8) * 8 * 2, 4 * (2 * 320 + 2 * 160));
	begin(IR_CAST, "c");
	args(q, 0, 0);
	t.n.types[0].dtype = IR_BF16;
	y = done();
	costs(y, 0, 4 * 320 + 2 * 320);
	begin(IR_SIGMOID, "m");
	args(y, 0, 0);
	costs(done(), 3 * 320, 2 * (320 + 320));
	x = source("w", 0, false, DIMS(h, n, d));
	begin(IR_DOT, "d");
	args(q, x, 0);
	ir_new_dim(&t.n, IR_ATTR_OVER, h);
	ir_new_dim(&t.n, IR_ATTR_OVER, d);
	costs(done(), 2 * 70 * 32, 4 * (320 + 224 + 70));
	x = source("t", 0, false, DIMS(n, d));
	begin(IR_GATHER, "g");
	args(x, i, 0);
	ir_new_dim(&t.n, IR_ATTR_OF, n);
	costs(done(), 0, 2 * 80 * 4 + 10 * 4);
	costs(x, 0, 0);
	close_module();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

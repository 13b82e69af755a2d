/*
 * The cost formulas of the ops, by hand-counted examples; and counts that are
 * written down once, for many lengths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/shared/t-eval.h"

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
	y = source("r", 0, false, DIMS(b, s));
	begin(IR_ATTENTION_BETWEEN, "e");
	args(q, x, x);
	ir_new_arg(&t.n, y);
	ir_new_arg(&t.n, y);
	ir_new_attr(&t.n, IR_ATTR_CAUSAL);
	ir_new_int(&t.n, IR_ATTR_EXPECT, 2);
	/* 5 * 2 pairs are fewer than the 15 of the causal mask */
	costs(done(), 2 * (10 * 8) * 8 * 2, 4 * (2 * 320 + 2 * 160 + 2 * 10));
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

/* An axis of the mesh, four bits of a cut each. */
static uint32_t
axis(int64_t size, bool balanced)
{
	struct ir_axis a = { .size = size, .balanced = balanced };

	if (!t.m->axes.n) {
		VEC_PUSH(&t.c.perm, &t.m->axes, (struct ir_axis){ 0 });
	}
	VEC_PUSH(&t.c.perm, &t.m->axes, a);
	return t.m->axes.n - 1;
}

static double
value(const struct ir_counts *c, count_id x)
{
	double *v = arena_alloc(&t.c.perm, c->at.n * sizeof *v);

	ir_counts_run(t.m, c->at.at, c->at.n, v);
	assert_true(v[0] == 0);
	return v[x];
}

/* One of each kind, for lengths that no count knows beforehand. */
static void
test_counts(void **state)
{
	count_id len, part, both, ranks, shares, most, pairs[2], unless;
	struct ir_counts c;
	uint32_t p, q, i;
	dim_id d;

	(void)state;
	open_module();
	d = dim("d", 0);
	p = axis(1, false);
	q = axis(1, true);
	ir_counts_open(&c, &t.c.perm);
	len = ir_count_len(&c, d, 0);
	part = ir_count_len(&c, d, p | q << 4);
	both = ir_count_add(&c, len, ir_count_mul(&c, part,
		ir_count_number(&c, 2.5)));
	ranks = ir_count_ranks(&c, 1u << (p - 1) | 1u << (q - 1));
	shares = ir_count_shares(&c, len, ranks);
	most = ir_count_most(&c, ir_count_least(&c, shares, part),
			     ir_count_div(&c, len, ir_count_number(&c, 3)));
	unless = ir_count_unless(&c, ir_count_ranks(&c, 1u << (p - 1)), len);
	for (i = 0; i < 2; i++) {
		pairs[i] = ir_count_pairs(&c, part, len, i, 4);
	}
	for (i = 0; i < 200; i++) {
		double n, k, r;

		t.m->dims.at[d].size = draw(1, 1000);
		t.m->axes.at[p].size = draw(1, 5);
		t.m->axes.at[q].size = draw(1, 5);
		n = (double)t.m->dims.at[d].size;
		k = (double)ir_most(t.m, t.m->dims.at[d].size, p | q << 4);
		r = (double)(t.m->axes.at[p].size * t.m->axes.at[q].size);
		assert_true(value(&c, len) == n && value(&c, part) == k);
		assert_true(value(&c, both) == n + k * 2.5);
		assert_true(value(&c, ranks) == r);
		assert_true(value(&c, shares) == ceil(n / r));
		assert_true(value(&c, most) ==
			    fmax(fmin(ceil(n / r), k), n / 3));
		assert_true(value(&c, unless) ==
			    (t.m->axes.at[p].size > 1 ? 1 : n));
		assert_true(value(&c, pairs[0]) == ir_attention_pairs(
			(int64_t)k, (int64_t)n, false, 4));
		assert_true(value(&c, pairs[1]) == ir_attention_pairs(
			(int64_t)k, (int64_t)n, true, 4));
	}
	close_module();
}

/* What is asked for again is there, and what changes nothing is none. */
static void
test_counts_once(void **state)
{
	struct ir_type x = { .dtype = IR_BF16, .ndims = 1 };
	struct ir_counts c;
	count_id a, b, one;
	uint32_t n, i;
	dim_id d;

	(void)state;
	open_module();
	d = dim("d", 6);
	ir_counts_open(&c, &t.c.perm);
	a = ir_count_len(&c, d, 0);
	one = ir_count_number(&c, 1);
	b = ir_count_mul(&c, a, a);
	n = c.at.n;
	assert_int_equal(ir_count_number(&c, 0), 0);
	assert_int_equal(one, IR_COUNT_ONE);
	assert_int_equal(ir_count_len(&c, d, 0), a);
	assert_int_equal(ir_count_mul(&c, a, a), b);
	assert_int_equal(ir_count_mul(&c, one, b), b);
	assert_int_equal(ir_count_mul(&c, b, one), b);
	assert_int_equal(ir_count_add(&c, 0, b), b);
	assert_int_equal(ir_count_add(&c, b, 0), b);
	assert_int_equal(ir_count_div(&c, b, one), b);
	assert_int_equal(ir_count_shares(&c, b, ir_count_ranks(&c, 0)), b);
	assert_int_equal(ir_count_least(&c, b, b), b);
	assert_int_equal(ir_count_most(&c, a, a), a);
	assert_int_equal(c.at.n, n);
	x.dims[0] = d;
	b = ir_count_type(&c, &x);
	n = c.at.n;
	assert_int_equal(ir_count_type(&c, &x), b);
	assert_int_equal(c.at.n, n);
	assert_true(value(&c, b) == 6 * 2);
	x.dtype = IR_F32;
	assert_true(value(&c, ir_count_type(&c, &x)) == 6 * 4);
	assert_int_equal(ir_count_elems(&c, &x), a);
	x.routed = 1;
	assert_int_not_equal(ir_count_elems(&c, &x), a);
	for (i = 0; i < 3; i++) {	/* nothing is left of before */
		ir_counts_clear(&c);
		assert_int_equal(c.at.n, 2);
		b = ir_count_add(&c, ir_count_number(&c, i),
				 ir_count_len(&c, d, 0));
		assert_true(value(&c, b) == 6 + (double)i);
	}
	close_module();
}

/* A node's flops are counted once, and hold for other lengths. */
static void
test_counts_flops(void **state)
{
	dim_id b, s, h, d, n;
	value_id q, w, out[2];
	struct ir_counts c;
	count_id flops[2];
	int i, k;

	(void)state;
	open_module();
	b = dim("b", 2);
	s = dim("s", 5);
	h = dim("h", 4);
	d = dim("d", 8);
	n = dim("n", 7);
	q = source("q", 0, false, DIMS(b, s, h, d));
	begin(IR_ATTENTION, "a");
	args(q, q, q);
	ir_new_attr(&t.n, IR_ATTR_CAUSAL);
	out[0] = done();
	w = source("w", 0, false, DIMS(h, n, d));
	begin(IR_DOT, "d");
	args(q, w, 0);
	ir_new_dim(&t.n, IR_ATTR_OVER, h);
	ir_new_dim(&t.n, IR_ATTR_OVER, d);
	out[1] = done();
	ir_counts_open(&c, &t.c.perm);
	for (k = 0; k < 2; k++) {
		flops[k] = ir_count_flops(&c, t.m, ir_node(t.m,
			t.m->values.at[out[k]].node));
	}
	for (i = 0; i < 50; i++) {
		t.m->dims.at[b].size = draw(1, 9);
		t.m->dims.at[s].size = draw(1, 99);
		t.m->dims.at[n].size = draw(1, 999);
		for (k = 0; k < 2; k++) {
			const struct ir_node *at_k = ir_node(t.m,
				t.m->values.at[out[k]].node);
			struct ir_cost x;

			ir_cost(t.m, at_k, &x);
			assert_true(x.flops > 0);
			assert_true(value(&c, flops[k]) == x.flops);
			assert_true(ir_flops(t.m, at_k) == x.flops);
			assert_true(ir_local_flops(t.m, at_k) == x.flops);
		}
		assert_true(value(&c, flops[1]) == 2. * 4 * 8 *
			(double)(t.m->dims.at[b].size *
				 t.m->dims.at[s].size *
				 t.m->dims.at[n].size));
	}
	close_module();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_counts_once),
		cmocka_unit_test(test_counts_flops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The counter-based generator: known answers, moments, frozen bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "ir/ir.h"

/* Philox-4x32-10 once more, from the paper: four words of counter. */
static void
philox_paper(uint32_t c[4], uint32_t k0, uint32_t k1)
{
	int i;

	for (i = 0; i < 10; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
		uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
		uint32_t r[4] = { (uint32_t)(p1 >> 32) ^ c[1] ^ k0,
				  (uint32_t)p1,
				  (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
				  (uint32_t)p0 };

		memcpy(c, r, sizeof r);
	}
}

/* Random123's kat_vectors; the two with a full counter by way of the above */
static void
test_philox(void **state)
{
	static const uint32_t in[3][6] = {
		{ 0, 0, 0, 0, 0, 0 },
		{ 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
		  0xffffffff },
		{ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822,
		  0x299f31d0 }
	};
	static const uint32_t want[3][4] = {
		{ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
		{ 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
		{ 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 }
	};
	uint32_t c[4], got[4];
	uint64_t key = 1, n = 1;
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		memcpy(c, in[i], sizeof c);
		philox_paper(c, in[i][4], in[i][5]);
		assert_memory_equal(c, want[i], sizeof c);
	}
	ir_philox(0, 0, got);
	assert_memory_equal(got, want[0], sizeof got);
	for (i = 0; i < 1000; i++) {
		uint32_t w[4] = { (uint32_t)n, (uint32_t)(n >> 32), 0, 0 };

		ir_philox(key, n, got);
		philox_paper(w, (uint32_t)key, (uint32_t)(key >> 32));
		assert_memory_equal(got, w, sizeof w);
		key = key * 6364136223846793005u + 1442695040888963407u;
		n = n * 3935559000370003845u + 2691343689449507681u;
	}
}

/* These bits are promised: checkpoints' first weights depend on them. */
static void
test_rng_frozen(void **state)
{
	uint64_t a = ir_rng_key("model.embed_tokens.weight", 0);

	(void)state;
	assert_true(a == 0x22b2aecced89bb86u);
	assert_true(ir_rng_key("model.embed_tokens.weight", 1) ==
		    0xf0ee6cb736d700acu);
	assert_true(ir_rng_normal(a, 0) == 0x1.abd195dc413a4p-3);
	assert_true(ir_rng_normal(a, (uint64_t)1 << 40) ==
		    0x1.e8e720bed43a7p-4);
	assert_int_equal(ir_rng_below(a, 5, 50257), 30366);
}

/* Element k is word k % 4 of block (k / 4, step), against rate * 2^32. */
static void
test_keeps(void **state)
{
	uint64_t key = ir_rng_key("h.0.dropout0", 7), step = 1, k;
	uint32_t w[4];
	int i, kept = 0, same = 0;

	(void)state;
	for (i = 0; i < 1000; i++) {
		k = (uint64_t)i * 0x9e3779b97f4a7c15u >> (i % 50);
		w[0] = (uint32_t)(k / 4);
		w[1] = (uint32_t)(k / 4 >> 32);
		w[2] = (uint32_t)step;
		w[3] = (uint32_t)(step >> 32);
		philox_paper(w, (uint32_t)key, (uint32_t)(key >> 32));
		assert_true(ir_rng_keeps(key, step, k, 0.3) ==
			    (w[k % 4] >= 1288490188u));
		step = step * 3 % 0x100000000fu;
	}
	for (i = 0; i < 100000; i++) {
		bool a = ir_rng_keeps(key, 1, (uint64_t)i, 0.1);

		kept += a;
		same += a == ir_rng_keeps(key, 2, (uint64_t)i, 0.1);
		assert_true(ir_rng_keeps(key, 1, (uint64_t)i, 0));
	}
	/* five standard errors; two steps agree in 0.81 + 0.01 of them */
	assert_in_range(kept, 90000 - 475, 90000 + 475);
	assert_in_range(same, 82000 - 610, 82000 + 610);
	/* promised bits, as those above */
	for (i = 0, k = 0; i < 64; i++) {
		k |= (uint64_t)ir_rng_keeps(key, 5, (uint64_t)i, 0.5) << i;
	}
	assert_true(k == 0x4dda35a3e1e30b97u);
}

static void
test_normal(void **state)
{
	double m1 = 0, m2 = 0, m4 = 0, x;
	uint64_t key = ir_rng_key("moments", 3);
	uint32_t w[4];
	const int n = 400000;
	int i, k, sum;

	(void)state;
	for (i = 0; i < n; i++) {
		x = ir_rng_normal(key, (uint64_t)i);
		m1 += x / n;
		m2 += x * x / n;
		m4 += x * x * x * x / n;
		if (i < 100) {
			ir_philox(key, (uint64_t)i, w);
			for (k = 0, sum = 0; k < 4; k++) {
				sum += (int)(w[k] % 65536 + w[k] / 65536);
			}
			assert_true(x == (sum - 262140) / sqrt(2863311530.));
		}
	}
	/* five standard errors: 1/sqrt n, sqrt(1.85/n), sqrt(73/n) */
	assert_true(fabs(m1) < 0.008);
	assert_true(fabs(m2 - 1) < 0.011);
	assert_true(fabs(m4 - 2.85) < 0.07);
}

static void
test_below(void **state)
{
	uint64_t key = ir_rng_key("below", 0);
	int64_t n, v;
	int count[10] = { 0 }, i;
	uint32_t w[4];

	(void)state;
	for (i = 0; i < 100000; i++) {
		count[ir_rng_below(key, (uint64_t)i, 10)]++;
	}
	for (i = 0; i < 10; i++) {
		assert_in_range(count[i], 9500, 10500);
	}
	for (i = 0; i < 2000; i++) {
		n = i % 2 ? IR_MAX_SIZE - i : 1 + i;
		v = ir_rng_below(key, (uint64_t)i, n);
		ir_philox(key, (uint64_t)i, w);
		assert_true(v >= 0 && v < n);
		/* long double holds 64 bits of the exact quotient here */
		assert_true(fabsl((long double)v + 0.5L -
				  ((long double)w[1] + w[0] / 0x1p32L) /
				  0x1p32L * (long double)n) < 0.5001L);
	}
	assert_int_equal(ir_rng_below(key, 1, 1), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_philox),
		cmocka_unit_test(test_rng_frozen),
		cmocka_unit_test(test_keeps),
		cmocka_unit_test(test_normal),
		cmocka_unit_test(test_below),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

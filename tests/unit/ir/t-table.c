/* Hashes, and what is found again by them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ir/base.h"

static struct mem mem;

static int
setup(void **state)
{
	static struct arena a;

	mem_init(&mem);
	arena_init(&a, &mem);
	*state = &a;
	return 0;
}

static int
teardown(void **state)
{
	arena_release(*state);
	return 0;
}

/* ---- tables ---- */

#define ENTRIES 3000

/* Few of them, of which some have the same 32 bits in the table. */
static uint64_t
hash_of(uint32_t entry)
{
	uint64_t x = entry % 700;

	return x << 40 | x << 8 | (entry & 1);
}

/* All entries before n, and none that was forgotten, newest first. */
static void
check_all(const struct table *t, uint32_t n)
{
	uint32_t entry, at = 0, k;

	for (entry = 1; entry < 2800; entry++) {
		uint64_t hash = hash_of(entry);

		for (k = n - 1, at = 0; k; k--) {
			if (hash_of(k) != hash) {
				continue;
			}
			do {
				uint32_t last = at;

				at = table_find(t, hash, at);
				assert_true(at != 0 && at < n);
				assert_true(!last || at < last);
			} while (hash_of(at) != hash);
			assert_int_equal(at, k);
		}
		while ((at = table_find(t, hash, at)) != 0) {
			assert_true(hash_of(at) != hash);
		}
	}
}

static void
test_table(void **state)
{
	struct arena *a = *state;
	struct table t = { 0 };
	uint32_t i;

	assert_int_equal(table_find(&t, 5, 0), 0);
	table_cut(&t, 1);
	for (i = 1; i < ENTRIES; i++) {
		assert_int_equal(table_add(a, &t, hash_of(i)), i);
		if (i == 1 || i == 64 || i == 65 || i == 700) {
			check_all(&t, i + 1);
		}
	}
	check_all(&t, ENTRIES);
	for (i = ENTRIES; i > 1; i -= 1 + i / 2) {
		table_cut(&t, i);
		check_all(&t, i);
	}
	table_cut(&t, 1);
	check_all(&t, 1);
	assert_int_equal(table_add(a, &t, 5), 1);
	assert_int_equal(table_find(&t, 5, 0), 1);
	assert_int_equal(table_find(&t, 5, 1), 0);
}

/* Only the slots grow: a table that was copied beside is as it was. */
static void
test_grow(void **state)
{
	struct table t = { 0 }, old;
	uint32_t i;

	for (i = 1; i <= 60; i++) {
		table_add(*state, &t, i);
	}
	old = t;
	for (; i <= 1000; i++) {
		table_add(*state, &t, i);
	}
	for (i = 1; i <= 1000; i++) {
		assert_int_equal(table_find(&t, i, 0), i);
	}
	assert_true(t.nslots >= 1000);
	assert_int_equal(old.links.n, 61);
}

/* ---- hashes ---- */

static struct hash
hash_two(uint64_t x, uint64_t y)
{
	struct hash h = { 1, 2 };

	hash_add(&h, x);
	hash_add(&h, y);
	return h;
}

static void
test_hash(void **state)
{
	struct hash h = hash_two(3, 4);
	uint32_t k;

	(void)state;
	assert_true(hash_same(h, hash_two(3, 4)));
	assert_false(hash_same(h, hash_two(4, 3)));
	assert_false(hash_same(h, (struct hash){ h.a, h.b + 1 }));
	assert_false(hash_same(h, (struct hash){ h.a + 1, h.b }));
	for (k = 0; k < 64; k++) {
		struct hash x = hash_two(3 ^ (uint64_t)1 << k, 4);
		struct hash y = hash_two(3, 4 ^ (uint64_t)1 << k);

		assert_true(x.a != h.a && x.b != h.b);
		assert_true(y.a != h.a && y.b != h.b && y.a != x.a);
	}
}

#define SLOTS 4096

/* Sizes as doubles, which differ in their upper bits alone. */
static void
test_spread(void **state)
{
	static uint32_t in[SLOTS];
	uint32_t i, most = 0;

	(void)state;
	for (i = 1; i <= SLOTS; i++) {
		uint64_t hash = hash_word(1, num_bits(i * 128.0));
		uint32_t *n = &in[hash_word(hash, 7) % SLOTS];

		*n += 1;
		most = *n > most ? *n : most;
	}
	assert_in_range(most, 1, 12);
	assert_true(num_bits(1.0) == UINT64_C(0x3ff0000000000000));
	assert_true(num_bits(0.0) != num_bits(-0.0));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_table), TEST(test_grow), TEST(test_hash),
		TEST(test_spread),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}

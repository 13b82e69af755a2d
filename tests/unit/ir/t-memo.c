/*
 * The memo: what is kept is found until it is dropped, no two keys are taken
 * for one another, and nothing is kept beyond the budget or without a memo.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ir/memo.h"

static struct {
	struct mem mem;
	struct memo memo;
} t;

static int
setup(void **state)
{
	(void)state;
	mem_init(&t.mem);
	memo_init(&t.memo, &t.mem, 1 << 20);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	memo_release(&t.memo);
	return 0;
}

/* Many keys share one half with others. */
static struct hash
key_of(uint32_t i)
{
	return (struct hash){ i % 50, i / 50 % 40 };
}

static bool
keep(enum memo_kind kind, uint32_t i)
{
	struct arena *a = memo_arena(&t.memo, kind);

	if (a) {
		memo_keep(&t.memo, kind, key_of(i), arena_dup(a, &i, sizeof i));
	}
	return a != NULL;
}

static uint32_t
found(enum memo_kind kind, uint32_t i)
{
	const uint32_t *x = memo_find(&t.memo, kind, key_of(i));

	return x ? *x : UINT32_MAX;
}

static void
keys(void **state)
{
	const uint32_t *first, *again;
	uint32_t i;

	(void)state;
	assert_true(keep(MEMO_DOTS, 0));
	first = memo_find(&t.memo, MEMO_DOTS, key_of(0));
	for (i = 1; i < 2000; i++) {
		assert_int_equal(found(MEMO_DOTS, i), UINT32_MAX);
		assert_true(keep(MEMO_DOTS, i));
	}
	for (i = 0; i < 2000; i++) {
		assert_int_equal(found(MEMO_DOTS, i), i);
		assert_int_equal(found(MEMO_PRICES, i), UINT32_MAX);
	}
	again = memo_find(&t.memo, MEMO_DOTS, key_of(0));
	assert_ptr_equal(first, again);
	assert_true(keep(MEMO_DOTS, 2000));	/* of the key of 0 */
	assert_int_equal(found(MEMO_DOTS, 0), 2000);
	assert_int_equal(*first, 0);
	assert_int_equal(t.memo.of[MEMO_DOTS].asked, 1 + 1999 + 2000 + 2);
	assert_int_equal(t.memo.of[MEMO_DOTS].found, 1 + 2000 + 2);
	assert_int_equal(t.memo.of[MEMO_PRICES].found, 0);
}

/* What was kept before stays when the budget is spent. */
static void
budget(void **state)
{
	uint32_t n = 0, i;

	(void)state;
	while (keep(n % 2 ? MEMO_ORDERS : MEMO_DOTS, n)) {
		n++;
	}
	assert_in_range(n, (1 << 20) / 256, (1 << 20) / 16);
	assert_false(keep(MEMO_PACKS, 1));
	for (i = n - 2000; i < n; i++) {
		assert_int_equal(found(i % 2 ? MEMO_ORDERS : MEMO_DOTS, i), i);
	}
	memo_drop(&t.memo, MEMO_ORDERS);
	assert_true(keep(MEMO_PACKS, 1));
	assert_int_equal(found(MEMO_ORDERS, n - 1 - n % 2), UINT32_MAX);
	assert_int_equal(found(MEMO_PACKS, 1), 1);
}

/* Shortened schedules have a sixteenth of it. */
static void
share(void **state)
{
	uint32_t n = 0;

	(void)state;
	while (keep(MEMO_BRIEFS, n)) {
		n++;
	}
	assert_in_range(memo_bytes(&t.memo, MEMO_BRIEFS), 1 << 16, 1 << 17);
	assert_true(keep(MEMO_DOTS, 1));
}

/*
 * What follows from content alone is found by the next run, and no run drops
 * it; the rest is a run's own.
 */
static void
lasting(void **state)
{
	struct memo first, next;

	(void)state;
	memo_init(&first, &t.mem, 1 << 20);
	memo_init(&next, &t.mem, 1 << 20);
	first.lasting = next.lasting = &t.memo;
	assert_non_null(memo_arena(&first, MEMO_PACKS));
	memo_keep(&first, MEMO_PACKS, key_of(1), &first);
	memo_keep(&first, MEMO_PRICES, key_of(1), &first);
	memo_drop(&first, MEMO_PACKS);
	assert_ptr_equal(memo_find(&next, MEMO_PACKS, key_of(1)), &first);
	assert_ptr_equal(memo_find(&first, MEMO_PRICES, key_of(1)), &first);
	assert_null(memo_find(&next, MEMO_PRICES, key_of(1)));
	assert_null(memo_find(&next, MEMO_PACKS, key_of(2)));
	memo_release(&first);
	assert_ptr_equal(memo_find(&next, MEMO_PACKS, key_of(1)), &first);
	memo_release(&next);
}

/* What a trial keeps, only a trial that succeeds leaves. */
static void
trial(void **state)
{
	uint32_t i;
	size_t bytes, last;

	(void)state;
	for (i = 0; i < 100; i++) {
		assert_true(keep(MEMO_RANKS, i));
	}
	bytes = memo_bytes(&t.memo, MEMO_RANKS);
	memo_try(&t.memo, MEMO_RANKS);
	assert_int_equal(found(MEMO_RANKS, 7), UINT32_MAX);
	for (i = 50; i < 500; i++) {
		assert_true(keep(MEMO_RANKS, i));
		assert_int_equal(found(MEMO_RANKS, i), i);
	}
	/* lists of keys keep their capacity */
	last = memo_bytes(&t.memo, MEMO_RANKS) - 450 * 16;
	memo_tried(&t.memo, MEMO_RANKS, false);
	assert_in_range(memo_bytes(&t.memo, MEMO_RANKS), bytes, last);
	for (i = 0; i < 500; i++) {
		assert_int_equal(found(MEMO_RANKS, i),
				 i < 100 ? i : UINT32_MAX);
	}
	memo_try(&t.memo, MEMO_RANKS);
	assert_true(keep(MEMO_RANKS, 200));
	memo_tried(&t.memo, MEMO_RANKS, true);
	assert_int_equal(found(MEMO_RANKS, 200), 200);
	assert_int_equal(found(MEMO_RANKS, 99), 99);
}

/* A first trial, before which there is nothing. */
static void
first_trial(void **state)
{
	(void)state;
	memo_try(&t.memo, MEMO_RANKS);
	memo_tried(&t.memo, MEMO_RANKS, false);
	memo_try(&t.memo, MEMO_RANKS);
	assert_true(keep(MEMO_RANKS, 1));
	memo_tried(&t.memo, MEMO_RANKS, false);
	assert_int_equal(found(MEMO_RANKS, 1), UINT32_MAX);
	memo_try(&t.memo, MEMO_RANKS);
	assert_true(keep(MEMO_RANKS, 2));
	memo_drop(&t.memo, MEMO_RANKS);
	memo_tried(&t.memo, MEMO_RANKS, false);
	assert_true(keep(MEMO_RANKS, 3));
	assert_int_equal(found(MEMO_RANKS, 3), 3);
}

static void
none(void **state)
{
	(void)state;
	assert_null(memo_arena(NULL, MEMO_DOTS));
	assert_null(memo_find(NULL, MEMO_DOTS, key_of(1)));
	memo_drop(NULL, MEMO_DOTS);
	memo_try(NULL, MEMO_RANKS);
	memo_tried(NULL, MEMO_RANKS, false);
}

static void
printed(void **state)
{
	struct arena a;
	struct buf b;

	(void)state;
	arena_init(&a, &t.mem);
	buf_init(&b, &a);
	memo_print(&t.memo, &b);
	assert_int_equal(b.n, 0);
	assert_true(keep(MEMO_DOTS, 7));
	assert_int_equal(found(MEMO_DOTS, 7), 7);
	assert_int_equal(found(MEMO_DOTS, 8), UINT32_MAX);
	memo_print(&t.memo, &b);
	assert_string_equal(buf_text(&b), "#          1  memo: prices of "
			    "contractions, of 2 looked for\n");
	arena_release(&a);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keys), TEST(budget), TEST(share), TEST(lasting),
		TEST(trial), TEST(first_trial), TEST(none), TEST(printed)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Blocks of the cache: nobody gets a block that is used, what is found has the
 * tokens that were asked for, and blocks that were given back are all there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/serve/schedule/kv.h"

enum { SIZE = 2, BLOCKS = 12 };

static struct rt_kv *
open_kv(int64_t blocks, bool share)
{
	struct rt_error err = { .message = "" };
	struct rt_kv *kv = NULL;

	assert_int_equal(rt_kv_open(&kv, blocks, SIZE, share, &err), RT_OK);
	return kv;
}

static void
test_equal_prefixes(void **state)
{
	static const int32_t a[] = { 1, 2, 3, 4 }, b[] = { 3, 4 };
	struct rt_kv *kv = open_kv(4, true);
	uint64_t one, two, found = 99;
	int32_t x = rt_kv_new(kv), y = rt_kv_new(kv);

	(void)state;
	one = rt_kv_fill(kv, x, RT_KV_ROOT, a);
	two = rt_kv_fill(kv, y, one, a + 2);
	assert_int_equal(rt_kv_find(kv, RT_KV_ROOT, a, &found), x);
	assert_int_equal(found, one);
	assert_int_equal(rt_kv_find(kv, found, a + 2, &found), y);
	assert_int_equal(found, two);
	/* the same tokens after others are another content */
	assert_int_equal(rt_kv_find(kv, RT_KV_ROOT, b, &found), -1);
	/* full of the same: its children are found, it is not */
	x = rt_kv_new(kv);
	assert_int_equal(rt_kv_fill(kv, x, RT_KV_ROOT, a), one);
	rt_kv_free(kv);
}

static void
test_contents_outlive_users(void **state)
{
	static const int32_t a[] = { 1, 2, 3, 4 };
	struct rt_kv *kv = open_kv(3, true);
	int32_t x = rt_kv_new(kv), y = rt_kv_new(kv), z;
	uint64_t one = rt_kv_fill(kv, x, RT_KV_ROOT, a), c;

	(void)state;
	rt_kv_fill(kv, y, one, a + 2);
	rt_kv_give_back(kv, y);
	rt_kv_give_back(kv, x);
	assert_int_equal(rt_kv_unused(kv), 3);
	/* the block without content goes first, then the end of the sequence */
	z = rt_kv_new(kv);
	assert_true(z != x && z != y);
	assert_int_equal(rt_kv_new(kv), y);
	assert_int_equal(rt_kv_find(kv, one, a + 2, &c), -1);
	assert_int_equal(rt_kv_find(kv, RT_KV_ROOT, a, &c), x);
	assert_int_equal(rt_kv_new(kv), -1);
	rt_kv_free(kv);
}

static void
test_without_sharing(void **state)
{
	static const int32_t a[] = { 1, 2 };
	struct rt_kv *kv = open_kv(2, false);
	uint64_t c;

	(void)state;
	rt_kv_fill(kv, rt_kv_new(kv), RT_KV_ROOT, a);
	assert_int_equal(rt_kv_find(kv, RT_KV_ROOT, a, &c), -1);
	rt_kv_free(kv);
}

/* What the test knows of a sequence that has blocks. */
struct holder {
	int32_t tokens[8 * SIZE], blocks[8];
	int64_t n;
};

/* Tokens of a block that has a content, by the test's own account. */
static int32_t truth[BLOCKS][8 * SIZE];
static int64_t depth[BLOCKS], users[BLOCKS];

static uint32_t
draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % below;
}

static void
get_blocks(struct rt_kv *kv, struct holder *h, uint32_t *seed)
{
	int64_t want = 1 + draw(seed, 7), i;
	uint64_t content = RT_KV_ROOT;

	for (i = 0; i < want * SIZE; i++) {
		h->tokens[i] = (int32_t)draw(seed, 2);
	}
	for (h->n = 0; h->n < want; h->n++) {
		const int32_t *t = h->tokens + h->n * SIZE;
		int32_t b = rt_kv_find(kv, content, t, &content);
		size_t bytes = (size_t)(h->n + 1) * SIZE * sizeof *t;

		if (b >= 0) {
			assert_int_equal(depth[b], h->n + 1);
			assert_memory_equal(truth[b], h->tokens, bytes);
		} else {
			b = rt_kv_new(kv);
			if (b < 0) {
				break;
			}
			assert_int_equal(users[b], 0);
			content = rt_kv_fill(kv, b, content, t);
			memcpy(truth[b], h->tokens, bytes);
			depth[b] = h->n + 1;
		}
		users[b]++;
		h->blocks[h->n] = b;
	}
}

static void
test_drawn(void **state)
{
	struct rt_kv *kv = open_kv(BLOCKS, true);
	struct holder all[5] = { { .n = 0 } };
	int64_t used, i, round;
	uint32_t seed = 1;

	(void)state;
	for (round = 0; round < 20000; round++) {
		struct holder *h = &all[draw(&seed, 5)];

		while (h->n > 0) {
			h->n--;
			users[h->blocks[h->n]]--;
			rt_kv_give_back(kv, h->blocks[h->n]);
		}
		get_blocks(kv, h, &seed);
		for (i = used = 0; i < BLOCKS; i++) {
			used += users[i] > 0;
		}
		assert_int_equal(rt_kv_unused(kv), BLOCKS - used);
	}
	rt_kv_free(kv);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_prefixes),
		cmocka_unit_test(test_contents_outlive_users),
		cmocka_unit_test(test_without_sharing),
		cmocka_unit_test(test_drawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

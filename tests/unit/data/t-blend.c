/*
 * Blends: shares that are exact at any moment, the same sequences for whoever
 * asks, in whatever order.
 */
#include "tests/unit/data/t-safetensors.h"

#include <inttypes.h>
#include <math.h>

#include "runtime/data/data.h"

enum { LENGTH = 4, FILES = 5 };

/* a.bin has 3 sequences, b.bin 5, ..: token = 200 * file + its number. */
static const char *const names[] = { "a.bin", "b.bin", "c.bin", "d.bin",
				     "e.bin", NULL };
static const int64_t sequences[FILES] = { 3, 5, 7, 16, 40 };

static void
make_files(const char *dir)
{
	struct bytes b;
	int64_t i, k, token;

	for (i = 0; i < FILES; i++) {
		b.n = (size_t)(sequences[i] * LENGTH + 1) * 2;
		b.at = calloc(b.n, 1);
		assert_non_null(b.at);
		for (k = 0; k <= sequences[i] * LENGTH; k++) {
			token = 200 * i + k;
			b.at[2 * k] = (unsigned char)token;
			b.at[2 * k + 1] = (unsigned char)(token >> 8);
		}
		put_bytes(dir, names[i], b);
	}
}

static char paths[FILES][256];
static const char *path_of[FILES];

/* Opens the first n files with these weights. */
static enum rt_status
open_weighted(struct rt_blend **b, const char *dir, const int64_t *weights,
	      int64_t n, struct rt_error *err)
{
	struct rt_source s[RT_BLEND_SOURCES + 1];
	struct rt_blend_options o = { s, n, LENGTH, 1000 };
	int64_t i;

	for (i = 0; i < n; i++) {
		snprintf(paths[i % FILES], sizeof paths[0], "%s",
			 path_in(dir, names[i % FILES]));
		path_of[i % FILES] = paths[i % FILES];
		s[i] = (struct rt_source){ &path_of[i % FILES], 1,
					   weights[i] };
	}
	memset(err, 0, sizeof *err);
	return rt_blend_open(b, &o, err);
}

static struct rt_blend *
opened(const char *dir, const int64_t *weights, int64_t n)
{
	struct rt_error err;
	struct rt_blend *b;

	assert_int_equal(open_weighted(&b, dir, weights, n, &err), RT_OK);
	assert_int_equal(rt_blend_count(b), n);
	return b;
}

/* The file and the sequence in it that sequence k is read from. */
static int64_t
read_from(const struct rt_blend *b, int64_t k, int64_t *file)
{
	int32_t out[LENGTH + 1];
	struct rt_error err;
	int64_t i;

	assert_int_equal(rt_blend_get(b, k, 0, LENGTH + 1, out, &err), RT_OK);
	for (i = 1; i <= LENGTH; i++) {
		assert_int_equal(out[i], out[0] + i);
	}
	*file = out[0] / 200;
	assert_int_equal(out[0] % 200 % LENGTH, 0);
	return out[0] % 200 / LENGTH;
}

/* After any number of sequences each source has had its share, almost. */
static void
check_shares(const char *dir, const int64_t *weights, int64_t n, int64_t most)
{
	struct rt_blend *b = opened(dir, weights, n);
	int64_t had[FILES] = { 0 }, sum = 0, k, i, within, source;

	for (i = 0; i < n; i++) {
		sum += weights[i];
	}
	for (k = 0; k < most; k++) {
		source = rt_blend_source(b, k, &within);
		assert_int_equal(within, had[source]);
		had[source]++;
		for (i = 0; i < n; i++) {
			assert_true(fabs((double)had[i] - (double)(k + 1) *
					 (double)weights[i] / (double)sum) <
				    1);
		}
	}
	for (i = 0; i < n; i++) {
		struct rt_blended s = rt_blend_after(b, i, most);

		assert_int_equal(s.consumed, had[i]);
		assert_int_equal(s.sequences, sequences[i]);
		assert_true(fabs(s.share - (double)weights[i] / (double)sum) <
			    1e-12);
	}
	rt_blend_free(b);
}

static void
test_shares(void **state)
{
	static const int64_t seven[] = { 700000000, 300000000 };
	static const int64_t many[] = { 1, 1, 1, 1, 1 };
	static const int64_t skew[] = { 1, 997, 2 };
	int64_t weights[FILES], i, n, round;
	char *dir = make_dir();
	uint32_t x = 1;

	(void)state;
	make_files(dir);
	check_shares(dir, seven, 2, 100);
	check_shares(dir, many, 5, 100);
	check_shares(dir, skew, 3, 3000);
	for (round = 0; round < 60; round++) {
		n = 2 + round % (FILES - 1);
		for (i = 0; i < n; i++) {
			x = x * 1664525 + 1013904223;
			weights[i] = 1 + (x >> 16) % (round % 3 ? 12 : 900);
		}
		check_shares(dir, weights, n, 2000);
	}
	remove_dir(dir, names);
}

/*
 * What sequence k is depends on the seed and k alone: not on who asks, what was
 * asked before, nor how many are asked for at once.
 */
static void
test_any_order(void **state)
{
	static const int64_t weights[] = { 5, 2, 9, 1, 3 };
	char *dir = make_dir();
	struct rt_blend *b[2];
	int64_t k, file, other, at;
	uint64_t ids[2];
	struct rt_error err;

	(void)state;
	make_files(dir);
	b[0] = opened(dir, weights, FILES);
	b[1] = opened(dir, weights, FILES);
	rt_blend_shuffle(b[0], 3);
	rt_blend_shuffle(b[1], 3);
	for (k = 0; k < 700; k++) {
		at = read_from(b[0], k, &file);
		read_from(b[1], (k * 389 + 1) % 700, &other);
		assert_int_equal(read_from(b[1], k, &other), at);
		assert_int_equal(other, file);
	}
	assert_int_equal(rt_blend_identity(b[0], &ids[0], &err), RT_OK);
	assert_int_equal(rt_blend_identity(b[1], &ids[1], &err), RT_OK);
	assert_true(ids[0] == ids[1]);
	rt_blend_free(b[0]);
	rt_blend_free(b[1]);
	remove_dir(dir, names);
}

/* Each source has epochs of its own: no sequence is left out of one. */
static void
test_epochs(void **state)
{
	static const int64_t weights[] = { 1, 3 };
	int64_t seen[2][5] = { { 0 } }, k, file, at;
	char *dir = make_dir();
	struct rt_blend *b;

	(void)state;
	make_files(dir);
	b = opened(dir, weights, 2);
	rt_blend_shuffle(b, 11);
	/* 12 of the first, 4 epochs; 36 of the second, 7 and one more */
	for (k = 0; k < 48; k++) {
		at = read_from(b, k, &file);
		seen[file][at]++;
	}
	for (k = 0; k < 3; k++) {
		assert_int_equal(seen[0][k], 4);
	}
	for (k = 0; k < 5; k++) {
		assert_true(seen[1][k] == 7 || seen[1][k] == 8);
	}
	/* slots are b a b b: the sixth of b is sequence 7 */
	assert_int_equal(rt_blend_sequences(b), 7);
	rt_blend_free(b);
	remove_dir(dir, names);
}

/* One source is what it is without a blend, whatever its weight. */
static void
test_one_source(void **state)
{
	static const int64_t weight[] = { 123456789 };
	struct rt_tokens_options o = { path_of, 1, LENGTH, 1000 };
	int32_t out[2][LENGTH + 1];
	uint64_t ids[2];
	char *dir = make_dir();
	struct rt_error err;
	struct rt_tokens *t;
	struct rt_blend *b;
	int64_t k;

	(void)state;
	make_files(dir);
	b = opened(dir, weight, 1);
	assert_int_equal(rt_tokens_open(&t, &o, &err), RT_OK);
	rt_tokens_shuffle(t, 9);
	rt_blend_shuffle(b, 9);
	for (k = 0; k < 20; k++) {
		rt_tokens_get(t, k, 0, LENGTH + 1, out[0], &err);
		rt_blend_get(b, k, 0, LENGTH + 1, out[1], &err);
		assert_memory_equal(out[0], out[1], sizeof out[0]);
	}
	assert_int_equal(rt_tokens_identity(t, &ids[0], &err), RT_OK);
	assert_int_equal(rt_blend_identity(b, &ids[1], &err), RT_OK);
	assert_true(ids[0] == ids[1]);
	assert_int_equal(rt_blend_sequences(b), 3);
	rt_tokens_free(t);
	rt_blend_free(b);
	remove_dir(dir, names);
}

/* Weights without a short common period are rounded, and none to nothing. */
static void
test_long_period(void **state)
{
	static const int64_t weights[] = { 1, 999999999999999, 314159265 };
	char *dir = make_dir();
	struct rt_blended s;
	struct rt_blend *b;

	(void)state;
	make_files(dir);
	b = opened(dir, weights, 3);
	s = rt_blend_after(b, 0, 2 * RT_BLEND_PERIOD);
	assert_int_equal(s.consumed, 2);
	s = rt_blend_after(b, 2, RT_BLEND_PERIOD);
	assert_int_equal(s.consumed, 1);
	s = rt_blend_after(b, 1, RT_BLEND_PERIOD);
	assert_int_equal(s.consumed, RT_BLEND_PERIOD - 2);
	rt_blend_free(b);
	remove_dir(dir, names);
}

/* Other weights, or another order, are other data. */
static void
test_identity(void **state)
{
	static const int64_t weights[][2] = { { 1, 1 }, { 2, 3 }, { 3, 2 },
					      { 20, 30 } };
	uint64_t ids[4];
	char *dir = make_dir();
	struct rt_error err;
	struct rt_blend *b;
	size_t i;

	(void)state;
	make_files(dir);
	for (i = 0; i < 4; i++) {
		b = opened(dir, weights[i], 2);
		assert_int_equal(rt_blend_identity(b, &ids[i], &err), RT_OK);
		rt_blend_free(b);
	}
	assert_true(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
	assert_true(ids[1] == ids[3]);
	remove_dir(dir, names);
}

static void
test_refusals(void **state)
{
	int64_t weights[RT_BLEND_SOURCES + 1] = { 1, 0 };
	int32_t out[LENGTH + 1];
	char *dir = make_dir();
	struct rt_error err;
	struct rt_blend *b;
	int64_t i;

	(void)state;
	make_files(dir);
	assert_int_equal(open_weighted(&b, dir, weights, 0, &err), RT_RANGE);
	assert_null(b);
	assert_int_equal(open_weighted(&b, dir, weights, 2, &err), RT_RANGE);
	assert_string_equal(err.message, "found 2 sources of data, expected 1 "
			    "to 64, each of a weight above 0");
	for (i = 0; i <= RT_BLEND_SOURCES; i++) {
		weights[i] = 1;
	}
	assert_int_equal(open_weighted(&b, dir, weights, RT_BLEND_SOURCES + 1,
				       &err), RT_RANGE);
	assert_int_equal(open_weighted(&b, dir, weights, RT_BLEND_SOURCES,
				       &err), RT_OK);
	assert_int_equal(rt_blend_get(b, -1, 0, LENGTH, out, &err), RT_RANGE);
	assert_int_equal(rt_blend_get(b, 0, 0, LENGTH + 2, out, &err),
			 RT_RANGE);
	rt_blend_free(b);
	rt_blend_free(NULL);
	remove(path_in(dir, "b.bin"));
	assert_int_equal(open_weighted(&b, dir, weights, 2, &err), RT_IO);
	assert_null(b);
	remove_dir(dir, names);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_one_source),
		cmocka_unit_test(test_long_period),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Weights in groups of 4 bits, as ranks round them when they load: whatever
 * rows and groups a rank has, each has the numbers and the scale that the whole
 * weight has.  What is not finite is refused.
 */
#include "tests/unit/data/t-store.h"

#include <math.h>

#include "runtime/elems.h"
#include "runtime/data/tensor_store.h"

enum { ROWS = 6, HEADS = 8, HD = 64, K = HEADS * HD };

/* Numbers of many sizes; a group of zeros, and one with its largest twice. */
static float
number(int64_t row, int64_t k)
{
	int64_t i = row * K + k;
	float f = (float)((i * 7919 % 2003) - 1001) / 1024;

	if (row == 1 && k / RT_GROUP == 2) {
		return 0;
	}
	if (row == 2 && k < RT_GROUP) {
		return k == 5 ? -3.5f : k == 9 ? 3.5f : f / 4;
	}
	return ldexpf(f, (int)(row * 5 + k / RT_GROUP) - 12);
}

/* The scale of a group: of the largest, 7 is made. */
static float
scale_of(int64_t row, int64_t group)
{
	float most = 0;
	uint32_t bits;
	int64_t k;

	for (k = group * RT_GROUP; k < (group + 1) * RT_GROUP; k++) {
		most = fmaxf(most, fabsf(number(row, k)));
	}
	most = (float)((double)most / 7);
	memcpy(&bits, &most, 4);	/* the nearest bf16, even on a tie */
	bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
	memcpy(&most, &bits, 4);
	return most;
}

/* Element k of a row of n that lies at `at`, and its scale. */
static int
stored(const unsigned char *at, int64_t k)
{
	uint32_t word;
	int n;

	memcpy(&word, at + k / 8 * 4, 4);
	n = word >> (k % 2 * 16 + k % 8 / 2 * 4) & 15;
	return n < 8 ? n : n - 16;
}

static float
stored_scale(const unsigned char *at, int64_t n, int64_t k)
{
	unsigned char bytes[4] = { 0 };
	float f;

	memcpy(bytes + 2, at + n / 2 + k / RT_GROUP * 2, 2);
	memcpy(&f, bytes, 4);
	return f;
}

static void
check_row(const unsigned char *at, int64_t row, int64_t first, int64_t n)
{
	int64_t k;

	for (k = 0; k < n; k++) {
		float scale = scale_of(row, (first + k) / RT_GROUP);
		double want = scale > 0 ? rint((double)number(row, first + k) /
					       (double)scale) : 0;

		assert_true(stored_scale(at, n, k) == scale);
		assert_true(stored(at, k) == fmin(fmax(want, -7), 7));
	}
}

/* Reads what a rank has: these rows, and these heads of them. */
static void
read_rank(const struct rt_st *st, struct rt_pieces rows,
	  struct rt_pieces heads, unsigned char *arena, struct rt_error *err)
{
	static const char *const dims[] = { "rows", "heads", "hd" };
	static const int64_t sizes[] = { ROWS, HEADS, HD };
	struct rt_pieces hd = { 1, HD, { { 0, HD } } };
	struct rt_spread spreads[] = { { ROWS, 0, &rows },
				       { HEADS, 0, &heads }, { HD, 0, &hd } };
	const struct rt_spread *lists[] = { &spreads[0], &spreads[1],
					    &spreads[2] };
	struct rt_tensor t = { .name = "w", .loaded = 1, .elem = RT_ELEM_I4,
			       .ndims = 3, .dims = dims, .sizes = sizes,
			       .rounded = 6 };
	struct rt_hold h = { .tensor = &t, .dims = lists, .writes = 1 };
	struct rt_program program = { 0 };
	int64_t program_of = 0;
	struct rt_plan p = { .program_of = &program_of, .tensors = &t };
	struct rt_store s = { .plan = &p, .program = &program,
			      .arena = (char *)arena };

	rt_store_read(&s, st, &h, NULL, err);
}

static void
check_rank(const struct rt_st *st, struct rt_pieces rows,
	   struct rt_pieces heads)
{
	static unsigned char arena[ROWS * K];
	int64_t i, r, local = 0, n = heads.total * HD;
	struct rt_error err = { 0 };

	memset(arena, 0xff, sizeof arena);
	read_rank(st, rows, heads, arena, &err);
	assert_string_equal(err.message, "");
	for (i = 0; i < rows.n; i++) {
		for (r = 0; r < rows.at[i].count; r++) {
			check_row(arena + rt_elems_bytes(RT_ELEM_I4,
							 n * local++),
				  rows.at[i].start + r,
				  heads.at[0].start * HD, n);
		}
	}
	assert_int_equal(arena[rt_elems_bytes(RT_ELEM_I4, n * local)], 0xff);
}

static struct rt_st *
open_weights(const char *dir, float (*number_at)(int64_t row, int64_t k))
{
	struct rt_error err = { 0 };
	struct rt_st *st;
	struct bytes b;
	int64_t i;

	b = make("{'w':{'dtype':'F32','shape':[6,512],'data_offsets':"
		 "[0,12288]}}", 12288);
	for (i = 0; i < ROWS * K; i++) {
		float f = number_at(i / K, i % K);

		memcpy(b.at + b.n - 12288 + 4 * i, &f, 4);
	}
	put_bytes(dir, "x.safetensors", b);
	rt_st_open(&st, path_in(dir, "x.safetensors"), NULL, &err);
	assert_string_equal(err.message, "");
	return st;
}

static void
test_groups(void **state)
{
	static const char *const names[] = { "x.safetensors", NULL };
	static const struct rt_pieces rows[] = {
		{ 1, ROWS, { { 0, ROWS } } },
		{ 2, 3, { { 0, 1 }, { 4, 2 } } },
	};
	static const struct rt_pieces heads[] = {
		{ 1, HEADS, { { 0, HEADS } } },
		{ 1, 2, { { 0, 2 } } },
		{ 1, 4, { { 4, 4 } } },
	};
	char *dir = make_dir();
	struct rt_st *st = open_weights(dir, number);
	int64_t i, j;

	(void)state;
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 3; j++) {
			check_rank(st, rows[i], heads[j]);
		}
	}
	rt_st_free(st);
	remove_dir(dir, names);
}

static float
with_nan(int64_t row, int64_t k)
{
	return row == 1 && k == 200 ? NAN : number(row, k);
}

static float
with_infinity(int64_t row, int64_t k)
{
	return row == 5 && k == 511 ? -INFINITY : number(row, k);
}

static void
test_finite(void **state)
{
	static const char *const names[] = { "x.safetensors", NULL };
	static const struct {
		float (*number_at)(int64_t row, int64_t k);
		const char *what;
	} all[] = {
		{ with_nan, "element 712 is NaN" },
		{ with_infinity, "element 3071 is infinite" }
	};
	static unsigned char arena[ROWS * K];
	const struct rt_pieces rows = { 1, ROWS, { { 0, ROWS } } };
	const struct rt_pieces heads = { 1, HEADS, { { 0, HEADS } } };
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct rt_error err = { 0 };
		char *dir = make_dir();
		struct rt_st *st = open_weights(dir, all[i].number_at);

		read_rank(st, rows, heads, arena, &err);
		assert_int_equal(err.status, RT_FORMAT);
		assert_non_null(strstr(err.message, all[i].what));
		rt_st_free(st);
		remove_dir(dir, names);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_finite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Attention to keys that an index selects: what a query gets has the same bits
 * alone and among others, wherever its keys are in the index, if the first is
 * that of a block.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "codegen/cg.h"
#include "tests/unit/shared/t-cpu.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 700
#define KV 2
#define HEADS 6
#define D 24
#define SEEN 290	/* keys of the query: two blocks and a part */
#define BLOCK 128
#define MOST_KEYS 2048
#define MOST_QUERIES 80

static struct {
	struct ir_ctx c;
	float q[MOST_QUERIES][HEADS * D], out[MOST_QUERIES][HEADS * D];
	float first[MOST_QUERIES], last[MOST_QUERIES];
	float keys[ROWS][KV][D], values[ROWS][KV][D];
	int32_t index[MOST_KEYS];
	uint64_t rng;
} s;

static uint32_t
below(uint32_t n)
{
	s.rng ^= s.rng << 13;
	s.rng ^= s.rng >> 7;
	s.rng ^= s.rng << 17;
	return (uint32_t)(s.rng >> 20) % n;
}

/* -1 to 1 */
static float
drawn(void)
{
	return (float)below(1 << 20) / (1 << 19) - 1;
}

static void
draw_cache(void)
{
	float *at[2] = { &s.keys[0][0][0], &s.values[0][0][0] };
	int i, k;

	for (i = 0; i < 2; i++) {
		for (k = 0; k < ROWS * KV * D; k++) {
			at[i][k] = drawn();
		}
	}
}

static const char *
text_of(int queries, int keys)
{
	return arena_printf(&s.c.perm, "llmc-ir 1\ndim b = 1\ndim s = %d\n"
		"dim t = %d\ndim rows = %d\ndim k = %d\ndim h = %d\n"
		"dim d = %d\nmodel {\n"
		"  %%0 = weight name=\"q\" : f32[b, s, h, d]\n"
		"  %%1 = weight name=\"keys\" : f32[rows, k, d]\n"
		"  %%2 = weight name=\"values\" : f32[rows, k, d]\n"
		"  %%3 = input name=\"index\" : idx<rows>[b, t]\n"
		"  %%4 = weight name=\"first\" : f32[b, s]\n"
		"  %%5 = weight name=\"last\" : f32[b, s]\n"
		"  %%6 = gather %%1, %%3 of=rows : f32[b, t, k, d]\n"
		"  %%7 = gather %%2, %%3 of=rows : f32[b, t, k, d]\n"
		"  %%8 = attention_between %%0, %%6, %%7, %%4, %%5 : "
		"f32[b, s, h, d]\n"
		"  return %%8\n}\n", queries, keys, ROWS, KV, HEADS, D);
}

/* One kernel: what it reads and writes, by number of the value. */
static void
run(const char *cpu, int queries, int keys)
{
	const char *text = text_of(queries, keys);
	char *values[9] = { (char *)s.q, (char *)s.keys, (char *)s.values,
			    (char *)s.index, (char *)s.first, (char *)s.last };
	struct rt_call call = { 0 };
	struct cg_singles x;
	char *at[9], *own;
	int64_t i;

	values[8] = (char *)s.out;
	assert_true(cg_singles_open(&s.c, cpu, &text, 1, &x));
	for (i = 0; i < x.at[0].kernel->nat; i++) {
		assert_non_null(values[x.at[0].values[i]]);
		at[i] = values[x.at[0].values[i]];
	}
	call.at = at;
	call.pieces = x.at[0].pieces;
	call.shared = malloc((size_t)x.at[0].shared_bytes + 64);
	own = aligned_alloc(64, (size_t)(x.at[0].own_bytes + 127) / 64 * 64);
	assert_true(call.shared && own);
	/* nothing is copied before */
	assert_int_equal(x.at[0].kernel->nsteps, 1);
	for (i = x.at[0].kernel->steps[0].items; i-- > 0;) {
		x.at[0].kernel->steps[0].run(&call, own, i, i + 1);
	}
	free(call.shared);
	free(own);
	cg_singles_close(&x);
}

/* Other queries and keys; then ours, `query`, with keys from `from` on. */
static void
draw_step(int queries, int keys, int query, int from, const void *q,
	  const int32_t *rows)
{
	int i, h;

	for (i = 0; i < keys; i++) {
		s.index[i] = (int32_t)below(ROWS);
	}
	for (i = 0; i < queries; i++) {
		s.first[i] = (float)below((uint32_t)keys);
		s.last[i] = (float)below((uint32_t)keys);
		for (h = 0; h < HEADS * D; h++) {
			s.q[i][h] = drawn();
		}
	}
	memcpy(s.q[query], q, sizeof s.q[0]);
	memcpy(s.index + from, rows, SEEN * sizeof *rows);
	s.first[query] = (float)from;
	s.last[query] = (float)(from + SEEN - 1);
}

static void
test_rows(void **state)
{
	/* how many queries and keys, our query, its first key */
	static const int steps[][4] = {
		{ 1, SEEN, 0, 0 }, { 1, 2048, 0, 9 * BLOCK },
		{ 7, 600, 3, BLOCK }, { 70, 2000, 69, 11 * BLOCK },
		{ 33, 1000, 16, 2 * BLOCK }
	};
	static float q[HEADS * D], want[HEADS * D];
	static int32_t rows[SEEN];
	uint32_t c, i;

	(void)state;
	draw_cache();
	for (c = 0; c < t_ncpus(); c++) {
		if (strstr(t_cpu(c), "amx")) {	/* attention has no tiles */
			continue;
		}
		for (i = 0; i < HEADS * D; i++) {
			q[i] = drawn();
		}
		for (i = 0; i < SEEN; i++) {
			rows[i] = (int32_t)below(ROWS);
		}
		for (i = 0; i < sizeof steps / sizeof steps[0]; i++) {
			const int *x = steps[i];

			draw_step(x[0], x[1], x[2], x[3], q, rows);
			run(t_cpu(c), x[0], x[1]);
			if (i == 0) {
				memcpy(want, s.out[0], sizeof want);
				continue;
			}
			if (memcmp(want, s.out[x[2]], sizeof want) != 0) {
				fail_msg("query %d of %d with keys from %d "
					 "on %s", x[2], x[0], x[3], t_cpu(c));
			}
		}
	}
}

static int
begin(void **state)
{
	(void)state;
	s.rng = 88172645463325252u;
	ir_ctx_init(&s.c, NULL);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	ir_ctx_release(&s.c);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	return cmocka_run_group_tests(tests, begin, end);
}

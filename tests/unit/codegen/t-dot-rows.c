/*
 * A row of a contraction has the same bits however many rows are computed with
 * it, and wherever it is among them: for few rows, whole tiles and parts of
 * tiles, for every kind of CPU that this one can stand for.
 */
#include "tests/unit/codegen/t-dot.h"

static const int64_t counts[] = { 128, 1, 2, 7, 8, 16, 33 };
#define COUNTS (sizeof counts / sizeof counts[0])

/* For each number of rows: a product as it is, and one with more on top. */
static const char *
rows_text(struct arena *a, const char *dtype, int n, int k)
{
	struct buf head, body, end;
	uint32_t i, v = 2;

	buf_init(&head, a);
	buf_init(&body, a);
	buf_init(&end, a);
	buf_printf(&head, "llmc-ir 1\ndim n = %d\ndim k = %d\n", n, k);
	buf_printf(&body, "  %%0 = weight name=\"b\" : %s[n, k]\n"
		   "  %%1 = weight name=\"bias\" : %s[n]\n", dtype, dtype);
	for (i = 0; i < COUNTS; i++, v += 4) {
		buf_printf(&head, "dim m%u = %lld\n", i, (long long)counts[i]);
		buf_printf(&body, "  %%%u = weight name=\"a%u\" : %s[m%u, k]\n"
			   "  %%%u = dot %%%u, %%0 over=k : %s[m%u, n]\n"
			   "  %%%u = dot %%%u, %%0 over=k : %s[m%u, n]\n"
			   "  %%%u = add %%%u, %%1 : %s[m%u, n]\n", v, i,
			   dtype, i, v + 1, v, dtype, i, v + 2, v, dtype, i,
			   v + 3, v + 2, dtype, i);
		buf_printf(&end, "%s%%%u, %%%u", i ? ", " : "", v + 1, v + 3);
	}
	return arena_printf(a, "%smodel {\n%s  return %s\n}\n",
			    buf_text(&head), buf_text(&body), buf_text(&end));
}

/* Numbers whose sums are rounded in every step. */
static void
draw(struct t_kernels *t, struct t_buffer *b)
{
	int64_t i;

	for (i = 0; i < b->elems; i++) {
		/* exponents of 2^-4 to 1, any sign and mantissa */
		uint32_t bits = t_below(t, 1u << 31) & 0x807fffff;
		uint32_t exp = t_below(t, 4);

		bits |= t_below(t, 2) << 31 | (123 + exp) << 23;
		if (b->type.dtype == IR_F32) {
			memcpy(b->at + 4 * i, &bits, 4);
			continue;
		}
		if (b->type.dtype == IR_F16) {
			bits = (bits & 0x80000000) | (11 + exp) << 26 |
			       (bits & 0x7fffff) << 3;
		}
		b->at[2 * i] = (char)(bits >> 16);
		b->at[2 * i + 1] = (char)(bits >> 24);
	}
}

/* Rows of the i-th operand, from row 5 of the first one on. */
static void
same_rows(struct t_kernels *t)
{
	struct t_buffer *all = t_named(t, "a0", false), *some;
	uint32_t i;

	assert_non_null(all);
	draw(t, all);
	draw(t, t_named(t, "b", false));
	draw(t, t_named(t, "bias", false));
	for (i = 1; i < COUNTS; i++) {
		int64_t row = t_bytes(all->type.dtype) * all->elems / counts[0];

		some = t_named(t, arena_printf(&t->c.perm, "a%u", i), false);
		assert_non_null(some);
		memcpy(some->at, all->at + 5 * row, (size_t)(counts[i] * row));
	}
}

static void
compare_rows(struct t_kernels *t, const char *cpu)
{
	const struct ir_region *r =
		&t->m->regions.at[t->m->funcs.at[1].body];
	struct t_buffer *all, *some;
	uint32_t i;

	for (i = 2; i < 2 * COUNTS; i++) {
		int64_t row;

		all = t_buffer(t, r->results.at[i % 2], 0);
		some = t_buffer(t, r->results.at[i], 0);
		row = t_bytes(all->type.dtype) * all->elems / counts[0];
		if (memcmp(some->at, all->at + 5 * row,
			   (size_t)(counts[i / 2] * row)) != 0) {
			fail_msg("%lld rows have other bits on %s",
				 (long long)counts[i / 2], cpu);
		}
	}
}

static void
run(struct arena *a, const char *dtype, const char *cpu, int n, int k)
{
	struct t_kernels t;
	uint32_t i;

	t_kernels_open(&t, rows_text(a, dtype, n, k), cpu, (uint64_t)n);
	assert_false(t.fell_back);
	for (i = 0; i < t.list->at.n; i++) {	/* this makes all buffers */
		t_run_kernel(&t, i);
	}
	same_rows(&t);
	for (i = 0; i < t.list->at.n; i++) {
		t_run_kernel(&t, i);
	}
	compare_rows(&t, cpu);
	t_kernels_close(&t);
}

static void
test_rows(void **state)
{
	static const char *const dtypes[] = { "f32", "bf16", "f16" };
	uint32_t i, c;

	for (c = 0; c < t_ncpus(); c++) {
		for (i = 0; i < 3; i++) {
			/* AMX is for bf16 */
			if (i != 1 && strstr(t_cpu(c), "amx")) {
				continue;
			}
			/* whole lines and tiles, or the rest of both */
			run(*state, dtypes[i], t_cpu(c),
			    (c + i) % 2 ? 100 : 37, (c + i) % 2 ? 1056 : 1001);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	return cmocka_run_group_tests(tests, t_object_setup, t_object_done);
}

/*
 * Contractions as code: random shapes, orders of dims, batches, dtypes, views
 * and epilogues, for every kind of CPU that this one can stand for, against
 * the reference interpreter.
 */
#include "tests/unit/codegen/t-dot.h"
#include "tests/unit/shared/t-dot-text.h"

#include "codegen/cpu/dot/cpu_dot.h"
#include "tests/unit/shared/t-left-out.h"

#define ROUNDS 60
#define DAYS 4		/* in which make check tries so many */

/* ---- tests ---- */

/* Returns how many weights lie in panels. */
static uint32_t
run(const char *text, const char *cpu, uint64_t seed, double most)
{
	struct t_kernels t = { .nbuffers = 0 };
	uint32_t panels = 0, v;
	double off;

	t_kernels_open(&t, text, cpu, seed);
	if (t.fell_back) {
		fail_msg("a nest on %s:\n%s", cpu, text);
	}
	off = t_kernels_compare(&t);
	if (!(off <= most)) {
		fail_msg("%g off on %s, seed %llu:\n%s", off, cpu,
			 (unsigned long long)seed, text);
	}
	for (v = 1; v < t.m->values.n; v++) {
		panels += t.panel[v].lanes > 0;
	}
	t_kernels_close(&t);
	return panels;
}

static double
most_of(const char *text)
{
	return strstr(text, "bf16") ? 0.02 : strstr(text, "f16") ? 0.005
								 : 1e-5;
}

/* Is the i-th text one of today's?  Sanitizers see a third of these. */
static bool
is_todays(uint64_t i)
{
	return t_today(i, t_short() ? 3 * DAYS : DAYS);
}

static void
test_random(void **state)
{
	const char *from = getenv("DOT_SEED");
	uint64_t seed = from ? strtoull(from, NULL, 10) : 1, i;
	uint64_t rounds = from ? 1 : ROUNDS;

	for (i = 0; i < rounds; i++, seed++) {
		const char *text;

		if (!from && !is_todays(i)) {
			continue;
		}
		text = random_text(*state, seed, 8);

		run(text, t_cpu(i), seed, most_of(text));
	}
}

/* A weight that lies in panels is never read by a nest in place of a
 * contraction, unless its product is turned into a gradient. */
static void
test_random_panels(void **state)
{
	const char *from = getenv("DOT_SEED");
	uint64_t seed = from ? strtoull(from, NULL, 10) : 1, i;
	uint64_t rounds = from ? 1 : ROUNDS, tried = 0;
	uint32_t panels = 0;

	for (i = 0; i < rounds; i++, seed++) {
		const char *text;

		if (!from && !is_todays(i)) {
			continue;
		}
		tried++;
		text = drawn_text(*state, seed, 7, true);
		panels += run(text, t_cpu(i), seed, 1.5 * most_of(text));
	}
	assert_true(from || panels * 6 > tried);
}

/* What does not fit into its scratch at once, along rows and along k. */
static void
test_large(void **state)
{
	static const int64_t sizes[][3] = { { 3000, 17, 1000 },
					    { 250, 20, 9001 },
					    { 1100, 9, 9001 } };
	uint32_t i;

	for (i = 0; i < 3; i++) {
		run(arena_printf(*state, "llmc-ir 1\ndim m = %lld\n"
			"dim n = %lld\ndim k = %lld\nmodel {\n"
			"  %%0 = weight name=\"a\" : f32[m, k]\n"
			"  %%1 = weight name=\"b\" : f32[n, k]\n"
			"  %%2 = dot %%0, %%1 over=k : f32[m, n]\n"
			"  return %%2\n}\n", (long long)sizes[i][0],
			(long long)sizes[i][1], (long long)sizes[i][2]),
		    "native", i, 1e-5);
	}
}

static void
test_boxes(void **state)
{
	uint32_t i, c;

	(void)state;
	for (i = 0; i < DOT_BOXES; i++) {
		for (c = 0; c < t_ncpus(); c++) {
			run(dot_boxes[i], t_cpu(c), i, 1e-5);
		}
	}
}

/* Every order of dims. */
static const char *
amx_text(struct arena *a, uint32_t i)
{
	static const int sizes[][3] = { { 40, 70, 100 }, { 32, 32, 32 },
					{ 33, 16, 31 }, { 7, 100, 1201 } };
	const int *s = sizes[i / 4 % 4];

	return arena_printf(a, "llmc-ir 1\ndim m = %d\ndim n = %d\n"
		"dim k = %d\nmodel {\n"
		"  %%0 = weight name=\"a\" : bf16[%s]\n"
		"  %%1 = weight name=\"b\" : bf16[%s]\n"
		"  %%2 = dot %%0, %%1 over=k : bf16[m, n]\n"
		"  %%3 = weight name=\"c\" : bf16[m, n]\n"
		"  %%4 = add %%2, %%3 : bf16[m, n]\n  return %%%d\n}\n",
		s[0], s[1], s[2], i & 1 ? "k, m" : "m, k",
		i & 2 ? "k, n" : "n, k", i & 16 ? 4 : 2);
}

/* Tiles in every order of dims, and after a sum. */
static void
test_amx(void **state)
{
	const char *cpu = t_cpu_amx();
	uint64_t before = amx_all.products;
	uint32_t i;

	if (!cpu) {
		skip();
	}
	for (i = 0; i < 32; i++) {
		run(amx_text(*state, i), cpu, i, 0.02);
	}
	assert_true(t_amx_is_real() || amx_all.products - before > 1000);
}

/* Both operands packed in steps before, for one stretch of k and for two. */
static void
test_packed_before(void **state)
{
	static const int sizes[][3] = { { 700, 700, 128 }, { 500, 600, 1100 } };
	const char *cpu = t_cpu_amx();
	uint32_t i;

	if (!cpu) {
		skip();
	}
	for (i = 0; i < 2; i++) {
		run(arena_printf(*state, "llmc-ir 1\ndim m = %d\n"
			"dim n = %d\ndim k = %d\nmodel {\n"
			"  %%0 = weight name=\"a\" : bf16[m, k]\n"
			"  %%1 = weight name=\"b\" : bf16[n, k]\n"
			"  %%2 = dot %%0, %%1 over=k : bf16[m, n]\n"
			"  return %%2\n}\n", sizes[i][0], sizes[i][1],
			sizes[i][2]), cpu, i, 0.02);
	}
}

/*
 * Tiles multiply faster than the third cache reads: of a large contraction an
 * item may want at most so many bytes that others packed in a cycle of its
 * products, at the rate of the instruction.
 */
static void
test_far_bytes(void **state)
{
	static const int64_t sizes[][3] = { { 2048, 2048, 2048 },
					    { 4096, 4096, 4096 },
					    { 1024, 4096, 1024 } };
	const char *why;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		const int64_t *s = sizes[i];
		struct cg_kernel out = { .what = "dot" };
		struct cg_cpu c = { .a = *state };
		struct dot d = { .c = &c, .out = &out, .batch.size = 1,
				 .m.size = s[0], .n.size = s[1],
				 .over.size = s[2],
				 .dims = { { 1, { 1 }, { -1 } },
					   { 1, { s[0] }, { 0 } },
					   { 1, { s[1] }, { 1 } } } };
		double far, cycles;

		c.ll = ll_new(*state, "sapphirerapids", false, &why);
		assert_non_null(c.ll);
		d.unit = dot_unit(&c, IR_BF16);
		assert_int_equal(d.unit.kind, DOT_TILES);
		assert_true(dot_plan(&d));
		far = 4 * (double)dot_panel_words_of(&d.unit, s[2]) *
		      (double)((d.own[0] ? 0 : d.rows.most) +
			       (d.own[1] ? 0 : d.cols.most));
		cycles = (double)d.rows.most * (double)d.cols.most *
			 (double)s[2] / 2 / 256;
		if (far > 8 * cycles) {
			fail_msg("%g bytes in %g cycles of %lld rows by %lld "
				 "columns", far, cycles,
				 (long long)d.rows.most,
				 (long long)d.cols.most);
		}
		ll_free(c.ll);
	}
}

/* Panels that are widened are packed for many rows, and read as they are for
 * some. */
static void
test_widened_panels(void **state)
{
	static const int64_t rows[] = { 16, 1024 };
	const char *why;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct cg_kernel out = { .what = "dot" };
		struct cg_cpu c = { .a = *state };
		struct dot d = { .c = &c, .out = &out, .batch.size = 1,
				 .m.size = rows[i], .n.size = 1024,
				 .over.size = 1024,
				 .source[1].base = LL_BF16,
				 .dims = { { 1, { 1 }, { -1 } },
					   { 1, { rows[i] }, { 0 } },
					   { 1, { 1024 }, { 1 } } } };

		c.ll = ll_new(*state, "x86-64-v4", false, &why);
		assert_non_null(c.ll);
		d.unit = dot_unit(&c, IR_BF16);
		assert_int_equal(d.unit.kind, DOT_FMA);
		dot_set_panels(&d.unit, true, LL_BF16);
		assert_int_equal(d.unit.parts, 2);
		assert_true(dot_plan(&d));
		assert_true(d.unit.panels == (i == 0));
		assert_int_equal(d.parts, i == 0 ? 0 : 2);
		ll_free(c.ll);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_random_panels),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_amx),
		cmocka_unit_test(test_packed_before),
		cmocka_unit_test(test_far_bytes),
		cmocka_unit_test(test_widened_panels),
	};

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	return cmocka_run_group_tests(tests, t_object_setup, t_object_done);
}

/* Kernels of one op that are loaded into the process: what they compute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "codegen/cg.h"
#include "tests/unit/shared/t-cpu.h"

#include <stdlib.h>
#include <string.h>

#define MODEL(body) "llmc-ir 1\ndim m = 3\ndim n = 5\ndim k = 4\n" \
	"model {\n" body "}\n"
#define WEIGHTS "  %0 = weight name=\"a\" : f32[m, k]\n" \
		"  %1 = weight name=\"b\" : f32[k, n]\n"
#define PRODUCT WEIGHTS "  %2 = dot %0, %1 over=k : f32[m, n]\n" \
		"  return %2\n"
#define SUM "  %0 = weight name=\"a\" : f32[m, k]\n" \
	    "  %1 = add %0, %0 : f32[m, k]\n  return %1\n"

static struct ir_ctx ctx;

static int
begin(void **state)
{
	(void)state;
	ir_ctx_init(&ctx, NULL);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	ir_ctx_release(&ctx);
	t_cpus_say();
	return 0;
}

/* All items of all steps on this thread, as a rank's workers call them. */
static void
run(const struct cg_single *s, char *const *values)
{
	char *at[3], *shared = aligned_alloc(64, 1 << 20);
	char *own = aligned_alloc(64, 1 << 20);
	const struct rt_call call = { .at = at, .pieces = s->pieces,
				      .shared = shared };
	int64_t i;

	assert_true(shared && own);
	assert_true(s->shared_bytes <= 1 << 20 && s->own_bytes <= 1 << 20);
	for (i = 0; i < s->kernel->nat; i++) {
		at[i] = values[s->values[i]];
	}
	for (i = 0; i < s->kernel->nsteps; i++) {
		s->kernel->steps[i].run(&call, own, 0,
					s->kernel->steps[i].items);
	}
	free(shared);
	free(own);
}

static void
test_two(void **state)
{
	static const char *const texts[] = { MODEL(PRODUCT), MODEL(SUM) };
	float a[12], b[20], out[15] = { 0 }, twice[12] = { 0 };
	char *product[] = { (char *)a, (char *)b, (char *)out };
	char *sum[] = { (char *)a, (char *)twice };
	struct cg_singles s;
	int i, j, k;

	(void)state;
	assert_true(cg_singles_open(&ctx, "native", texts, 2, &s));
	assert_int_equal(s.n, 2);
	assert_true(s.lanes >= 1 && *s.cpu);
	for (i = 0; i < 20; i++) {
		b[i] = (float)(i % 7);
		a[i % 12] = (float)(i % 12 - 4);
	}
	run(&s.at[0], product);
	run(&s.at[1], sum);
	for (i = 0; i < 3; i++) {
		for (j = 0; j < 5; j++) {
			float want = 0;

			for (k = 0; k < 4; k++) {
				want += a[4 * i + k] * b[5 * k + j];
			}
			assert_true(out[5 * i + j] == want);
		}
	}
	for (i = 0; i < 12; i++) {
		assert_true(twice[i] == 2 * a[i]);
	}
	cg_singles_close(&s);
	cg_singles_close(&s);
	t_cpu_list[T_NATIVE].ran = true;
}

static void
refused(const char *cpu, const char *text, const char *words)
{
	struct cg_singles s;
	uint32_t n = ctx.diags.records.n, i;
	bool said = false;

	assert_false(cg_singles_open(&ctx, cpu, &text, 1, &s));
	assert_null(s.library);
	for (i = n; i < ctx.diags.records.n; i++) {
		said |= strstr(ctx.diags.records.at[i].text, words) != NULL;
	}
	assert_true(said);
}

static void
test_refused(void **state)
{
	(void)state;
	refused("no-such-cpu", MODEL(PRODUCT), "no-such-cpu");
	refused("native", "llmc-ir 1\nmodel {\n", "");
	refused("native", MODEL(WEIGHTS "  %2 = dot %0, %1 over=k : f32[m, n]\n"
		"  %3 = softmax %2 over=n : f32[m, n]\n"
		"  %4 = dot %3, %2 over=n : f32[m, m]\n  return %4\n"), "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

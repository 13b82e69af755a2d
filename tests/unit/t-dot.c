/*
 * Contractions as code: random shapes, orders of dims, batches, dtypes and
 * epilogues, for every kind of CPU that this one can stand for, against the
 * reference interpreter.
 */
#include "tests/unit/t-kernel.h"

#define ROUNDS 40

/* CPUs whose code can be run here. */
static bool
can_run(const char *cpu)
{
	__builtin_cpu_init();
	if (strcmp(cpu, "x86-64-v4") == 0) {
		return __builtin_cpu_supports("avx512f") &&
		       __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512vl");
	}
	if (strcmp(cpu, "x86-64-v3") == 0) {
		return __builtin_cpu_supports("avx2") &&
		       __builtin_cpu_supports("fma");
	}
	return true;
}

/* ---- texts ---- */

struct shape {
	int64_t b, m, m2, n, n2, k, k2;
};

static const char *
text_of(struct t_kernels *t, struct arena *a, const struct shape *s,
	const char *dtype, const char *dims_a, const char *dims_b,
	const char *over, const char *rest)
{
	(void)t;
	return arena_printf(a,
		"llmc-ir 1\n"
		"dim b = %lld\ndim m = %lld\ndim m2 = %lld\n"
		"dim n = %lld\ndim n2 = %lld\ndim k = %lld\ndim k2 = %lld\n"
		"model {\n"
		"  %%0 = weight name=\"a\" : %s[%s]\n"
		"  %%1 = weight name=\"b\" : %s[%s]\n"
		"  %%y.2 = dot %%0, %%1 over=%s : %s\n"
		"}\n",
		(long long)s->b, (long long)s->m, (long long)s->m2,
		(long long)s->n, (long long)s->n2, (long long)s->k,
		(long long)s->k2, dtype, dims_a, dtype, dims_b, over, rest);
}

static void
run(struct t_kernels *t, const char *text, const char *cpu, uint64_t seed,
    double most)
{
	double off;

	t_kernels_open(t, text, cpu, seed);
	off = t_kernels_compare(t);
	if (!(off <= most)) {
		fail_msg("%g off on %s, seed %llu:\n%s", off, cpu,
			 (unsigned long long)seed, text);
	}
	t_kernels_close(t);
}

static const char *const cpus[] = { "native", "x86-64-v3", "x86-64-v4" };

static void
test_plain(void **state)
{
	struct arena *a = *state;
	struct t_kernels t;
	struct shape s = { 1, 37, 1, 53, 1, 71, 1 };
	uint32_t c;

	for (c = 0; c < 3; c++) {
		if (!can_run(cpus[c])) {
			continue;
		}
		run(&t, text_of(&t, a, &s, "f32", "m, k", "n, k", "k",
				"f32[m, n]\n  return %y.2"), cpus[c], 1, 1e-5);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
	};

	return cmocka_run_group_tests(tests, t_object_setup,
				      t_object_teardown);
}

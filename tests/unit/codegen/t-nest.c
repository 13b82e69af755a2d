/*
 * Loop nests of scalar expressions, as machine code, against the interpreter.
 */
#include "tests/unit/codegen/t-kernels.h"
#include "tests/unit/shared/t-left-out.h"
#include "tests/unit/shared/t-nest-bodies.h"

static bool rows_apart;	/* of what is checked */
static uint32_t gaps;

static void
check(const char *mesh, const char *body, const char *type, const int *size,
      double most, uint32_t refused)
{
	struct mem mem;
	struct arena a;
	struct tk t;
	const char *text;

	mem_init(&mem);
	arena_init(&a, &mem);
	text = arena_printf(&a, HEAD "%s {\n%s}\n", mesh,
			    size[0], size[1], size[2], size[3], size[4],
			    *mesh ? "layer stage0_forward()" : "model",
			    put_types(&a, body, type));
	tk_open_text(&t, NULL, text);
	t.rows_apart = rows_apart;
	tk_check(&t, most);
	gaps += t.gaps;
	if (t.refused != refused) {
		fail_msg("%u kernels were refused: %s", t.refused, body);
	}
	if (getenv("T_NEST_SHOW")) {
		printf("%-4s %.1e %.60s\n", type, t.worst, strstr(body, "\n"));
	}
	ir_ctx_release(&t.c);
	arena_release(&a);
}

static bool
model(uint64_t seed, bool split)
{
	double most;
	struct tk t;
	bool ok = model_open(&t, seed, split, &most);

	if (ok) {
		tk_check(&t, most);
		if (getenv("T_NEST_SHOW")) {
			printf("seed %d: %u ranks, %u kernels, %.1e, "
			       "%u refused\n", (int)seed, t.nranks,
			       t.ran, t.worst, t.refused);
		}
		assert_true(t.ran > 0);
	}
	ir_ctx_release(&t.c);
	return ok;
}

static void
test_models(void **state)
{
	uint64_t seed, n = t_cases(4);

	(void)state;
	for (seed = 1; seed <= n; seed++) {
		assert_true(model(seed, false));
	}
}

static void
test_split_models(void **state)
{
	uint32_t done = 0, n = t_cases(6);
	uint64_t seed;

	(void)state;
	for (seed = 1; done < n; seed++) {
		done += model(seed, true);
	}
}

/* Rows lie apart, with NaNs in between. */
static void
test_apart(void **state)
{
	rows_apart = true;
	gaps = 0;
	test_maps(state);
	test_rows(state);
	test_moves(state);
	test_sums_of_products(state);
	rows_apart = false;
	printf("%u operands with gaps\n", gaps);
	assert_true(gaps > 20);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_shared_rows),
		cmocka_unit_test(test_ranks_of),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_sums_of_products),
		cmocka_unit_test(test_sinks),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_split_models),
	};

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, t_object_done);
}

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

/* Every second one of models on each day. */
static void
test_models(void **state)
{
	uint32_t done = 0, n = t_some(2, 4);
	uint64_t seed;

	(void)state;
	for (seed = 1; done < n; seed++) {
		if (t_today(seed, 2)) {
			assert_true(model(seed, false));
			done++;
		}
	}
}

static void
test_split_models(void **state)
{
	uint32_t done = 0, n = t_some(3, 6);
	uint64_t seed;

	(void)state;
	for (seed = 1; done < n; seed++) {
		done += t_today(seed, 2) && model(seed, true);
	}
}

/* Rows lie apart, with NaNs in between: half of the bodies on each day. */
static void
test_apart(void **state)
{
	static void (*const tests[])(void **state) = {
		test_maps, test_rows, test_moves, test_sums_of_products
	};
	uint32_t i;

	rows_apart = true;
	gaps = 0;
	for (i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		if (t_today(i, 2)) {
			tests[i](state);
		}
	}
	rows_apart = false;
	printf("%u operands with gaps\n", gaps);
	assert_true(gaps > (t_short() ? 5 : 20));
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

/*
 * Contractions of whole models, on one rank and on all ranks of a plan, each
 * kernel against the interpreter.
 */
#include "tests/unit/codegen/t-kernels.h"

#include "frontend/frontend.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "tests/unit/shared/t-left-out.h"
#include "tests/unit/shared/t-split.h"

/*
 * Forward, backward and update; with a plan, those of all ranks.  cpu NULL:
 * whose turn it is.
 */
static bool
model(uint64_t seed, const char *passes, const char *cpu, uint32_t *dotted,
      uint32_t *chosen)
{
	struct pair p = random_pair(seed);
	const char *text;
	struct tk t;
	bool ok;
	uint32_t base;

	memset(&t, 0, sizeof t);
	t.dots = true;
	t.cpu = cpu;
	p.n[NR_PP] = p.n[NR_CHUNKS] = 1;
	p.n[NR_BF16] |= cpu != NULL;
	ir_ctx_init(&t.c, NULL);
	text = model_text(&t.c.perm, &p);
	source_add(&t.c.sources, "model", text, strlen(text), &base);
	t.m = fe_compile(&t.c, t.c.sources.files.n - 1);
	assert_non_null(t.m);
	ok = (strcmp(passes, "split") != 0 ||
	      plan_pin(t.m, plan_text(&t.c.perm, &p))) &&
	     pass_apply(t.m, passes, false) == PASS_OK;
	if (ok) {
		/* of few rows of an expert the largest sum may be one that
		 * cancels */
		tk_check(&t, p.n[NR_BF16] ? 0x1p-6 : 1e-4);
		*dotted += t.dotted;
		*chosen += t.chosen;
	}
	ir_ctx_release(&t.c);
	return ok;
}

static void
test_models(void **state)
{
	uint32_t dotted = 0, split = 0, chosen = 0, routed = 0, done = 0;
	uint32_t n = t_cases(3);
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 2; seed++) {
		assert_true(model(seed, "train", NULL, &dotted, &chosen));
	}
	for (seed = 1; done < n; seed++) {
		done += model(seed, "split", NULL, &split, &routed);
	}
	printf("%u and %u contractions, %u and %u with experts\n", dotted,
	       split, chosen, routed);
	assert_true(dotted > 10 && split > 10 && chosen > 5 && routed > 5);
}

/* In bf16, by AMX's tiles. */
static void
test_tiles(void **state)
{
	const char *cpu = t_cpu_amx();
	uint32_t dotted = 0, chosen = 0;

	(void)state;
	if (!cpu) {
		skip();
	}
	assert_true(model(3, "train", cpu, &dotted, &chosen));
	assert_true(dotted > 5 && chosen > 1);
	printf("%u contractions, %u with experts, %llu products of tiles\n",
	       dotted, chosen, (unsigned long long)amx_all.products);
	assert_true(t_amx_is_real() || amx_all.products > dotted + chosen);
}

/* Rows of odd numbers of elements lie apart, with NaNs in between: what is
 * stored by a tile, rounded after it, and read along rows and along k. */
static void
test_apart(void **state)
{
	static const char *const types[] = { "f32", "bf16" };
	static const char *const dims[][2] = { { "m, k", "n, k" },
		{ "m, k", "k, n" }, { "k, m", "n, k" }, { "k, m", "k, n" } };
	uint32_t i;

	(void)state;
	for (i = 0; i < 8; i++) {
		const char *type = types[i / 4];
		struct mem mem;
		struct arena a;
		struct tk t;

		mem_init(&mem);
		arena_init(&a, &mem);
		tk_open_text(&t, NULL, arena_printf(&a, "llmc-ir 1\n"
			"dim m = 133\ndim n = 139\ndim k = 147\nmodel {\n"
			"  %%0 = weight name=\"a\" : %s[%s]\n"
			"  %%1 = weight name=\"b\" : %s[%s]\n"
			"  %%2 = dot %%0, %%1 over=k : %s[m, n]\n"
			"  return %%2\n}\n", type, dims[i % 4][0], type,
			dims[i % 4][1], type));
		t.dots = t.rows_apart = true;
		tk_check(&t, i < 4 ? 1e-5 : 0x1p-6);
		assert_int_equal(t.dotted, 1);
		assert_true(t.gaps > 0);
		ir_ctx_release(&t.c);
		arena_release(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_tiles),
		cmocka_unit_test(test_apart),
	};

	if (getenv("BINARY_TESTS")) {	/* a release is not about these */
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, t_object_done);
}

/*
 * How published software is taken to run: the date of a row, and which rows of
 * software.def it selects.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/validate/validate.h"
#include "passes/price/price.h"

static void
test_month(void **state)
{
	(void)state;
	assert_int_equal(val_month("Korthikanti et al. arXiv:2205.05198"),
			 202205);
	assert_int_equal(val_month("NeMo (DGXC recipe v24.11.1)"), 202411);
	assert_int_equal(val_month("README.md @v25.04 =@v25.05"), 202504);
	assert_int_equal(val_month("Megatron-LM (2022)"), 202206);
	assert_int_equal(val_month("torchtitan 2024-09"), 202406);
	/* no dates: a size, a version, a number in a word, a month 13 */
	assert_int_equal(val_month("run_gpt2_1558M.sh"), 0);
	assert_int_equal(val_month("Megatron-LM v2.x, 4096 tokens"), 0);
	assert_int_equal(val_month("x2022 2022x 20223"), 0);
	assert_int_equal(val_month("arXiv:2213.05198"), 0);
	assert_int_equal(val_month("v24.13 arXiv:"), 0);
	assert_int_equal(val_month(""), 0);
}

static struct price_traits
traits_of(const char *name, int month, bool *biases)
{
	struct price_traits t = { 0 };
	struct arena a;
	struct mem mem;

	mem_init(&mem);
	arena_init(&a, &mem);
	*biases = val_software(name, month, &a, &t);
	arena_release(&a);
	return t;
}

static void
test_traits(void **state)
{
	struct price_traits t;
	bool biases;

	(void)state;
	/* what a framework does, and what its date adds */
	t = traits_of("PyTorch FSDP", 0, &biases);
	assert_true(biases && t.lone_maps && t.wide_sums && t.sm80_code);
	assert_false(t.first_flash || t.lone_softmax);
	assert_true(t.lone_norms);
	t = traits_of("PyTorch FSDP", 202306, &biases);
	assert_true(t.first_flash && !t.lone_softmax);
	t = traits_of("PyTorch FSDP", 202307, &biases);
	assert_false(t.first_flash);
	t = traits_of("PyTorch tensor parallel", 0, &biases);	/* not TE */
	assert_true(t.lone_norms);
	t = traits_of("anything", 202011, &biases);
	assert_true(t.first_flash && t.lone_softmax);
	/* by name, in whatever case, a later row over an earlier one */
	t = traits_of("LLM-Foundry / PyTorch", 202406, &biases);
	assert_true(!biases && t.first_flash);
	t = traits_of("Megatron-LM", 202109, &biases);
	assert_true(t.lone_sums);
	t = traits_of("Megatron-LM", 202110, &biases);
	assert_false(t.lone_sums);
	t = traits_of("Megatron-DeepSpeed 1F1B", 202205, &biases);
	assert_true(t.lone_sums);
	t = traits_of("NeMo (DGXC recipe v25.04)", 202504, &biases);
	assert_false(t.lone_sums || t.sm80_code || t.lone_norms);
	assert_true(t.wide_sums);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_month),
		cmocka_unit_test(test_traits)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

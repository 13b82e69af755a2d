/*
 * Loads and stores of vectors in checked code: the emulator sees each of the
 * prelude's, as it sees those of single elements, and so reports each kernel of
 * tests/gpu/moves.cu.  One that the compiler does not instrument hides the
 * races of all kernels that use it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "t-emulate.h"

#define BOTH(name) "read_" #name, "written_" #name
#define VALUE(load, store) "read_" #load, "written_" #store
static const char *const kernels[] = {
	BOTH(f32_4), BOTH(f32_2), BOTH(i32_4), BOTH(i32_2),
	BOTH(bf16_8), BOTH(bf16_4), BOTH(bf16_2),
	BOTH(f16_8), BOTH(f16_4), BOTH(f16_2),
	BOTH(e4m3_8), BOTH(e4m3_4), BOTH(e5m2_8), BOTH(e5m2_4), BOTH(f64_2),
	"read_i8_4", "read_i8_8",
	VALUE(ld16, st16), VALUE(ld8, st8), VALUE(lds16, sts16),
	VALUE(lds8, sts8)
};

static void
each_is_seen(void **state)
{
	char *text = t_source("tests/gpu/moves.cu");
	char *memory = aligned_alloc(64, 1024);
	struct rt_grid g = { .blocks = { 1, 1, 1 }, .threads = 64,
			     .cluster = 1, .smem_bytes = 1024 };
	struct rt_error err = { 0 };
	struct rt_emu *e = NULL;
	struct t_images x;
	int unseen = 0;
	size_t i;

	(void)state;
	t_images_init(&x);
	t_images_add(&x, "moves", text);
	if (rt_emu_open(&e, &x.all, RT_EMU_CHECK, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	for (i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
		memset(&err, 0, sizeof err);
		g.func = kernels[i];
		if (rt_emu_launch(e, &g, &memory, &err) == RT_OK ||
		    !strstr(err.message, "of shared memory, wh")) {
			print_error("%s: \"%s\"\n", kernels[i], err.message);
			unseen++;
		}
	}
	rt_emu_close(e);
	free(memory);
	free(text);
	assert_int_equal(unseen, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_is_seen) };

	if (!rt_emu_possible()) {
		return 77;
	}
	return cmocka_run_group_tests_name("moves", tests, NULL, NULL);
}

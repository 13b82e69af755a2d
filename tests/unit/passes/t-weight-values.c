/*
 * What counts as a weight: one that ops converted, moved, scaled and gathered
 * between ranks does; what takes any data does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "passes/pass.h"
#include "tests/unit/shared/t-context.h"

static const char head[] =
	"llmc-ir 1\n"
	"dim n = 16\n"
	"dim k = 8\n"
	"axis dp = 2\n"
	"axis tp = 2\n"
	"\n"
	"model {\n"
	"  %0 = weight name=\"w\" : bf16[n:tp, k:dp]\n"
	"  %1 = weight name=\"v\" : f32[n, k]\n"
	"  %2 = input name=\"x\" : f32[n, k]\n"
	"  %3 = input name=\"y\" : f32[n:tp, k]\n"
	"  %4 = const value=0.5 : f32[]\n";

/* The result of the node of this index. */
static value_id
value(const struct ir_module *m, uint32_t i)
{
	const struct ir_region *r = &m->regions.at[m->funcs.at[1].body];

	assert_true(i < r->nodes.n);
	return ir_node(m, r->nodes.at[i])->result;
}

/* Behind these lines, of which the last is node 4 + n, that is the weight that
 * node `of` is; of = -1: it is none. */
static void
weight_is(int of, uint32_t n, const char *lines)
{
	char *text = arena_printf(&ctx.perm, "%s%s  return %%%u\n}\n", head,
				  lines, 4 + n);
	struct ir_module *m;
	uint32_t base;
	value_id v;

	assert_true(source_add(&ctx.sources, "test.ir", text, strlen(text),
			       &base));
	m = ir_read(&ctx, ctx.sources.files.n - 1);
	if (!m) {
		diag_flush(&ctx.diags, stderr);
		fail_msg("not read:\n%s", text);
	}
	v = value(m, 4 + n);
	assert_int_equal(pass_weight_of(m, v),
			 of < 0 ? 0 : value(m, (uint32_t)of));
	assert_int_equal(pass_is_weight(m, v), of >= 0);
}

static void
test_on_one_rank(void **state)
{
	(void)state;
	weight_is(1, 1, "  %5 = cast %1 : bf16[n, k]\n");
	weight_is(1, 1, "  %5 = arrange %1 over=(k, n) : f32[k, n]\n");
	weight_is(1, 1, "  %5 = mul %1, %4 : f32[n, k]\n");
	weight_is(1, 1, "  %5 = mul %4, %1 : f32[n, k]\n");
	weight_is(-1, 1, "  %5 = neg %2 : f32[n, k]\n");
	weight_is(-1, 1, "  %5 = add %1, %2 : f32[n, k]\n");
	weight_is(-1, 1, "  %5 = mul %4, %4 : f32[]\n");
}

/* Of ZeRO, ranks have pieces of a weight that they gather before its use. */
static void
test_between_ranks(void **state)
{
	(void)state;
	weight_is(0, 1, "  %5 = all_gather %0 on=dp of=k : bf16[n:tp, k]\n");
	weight_is(0, 3, "  %5 = all_gather %0 on=dp of=k : bf16[n:tp, k]\n"
		  "  %6 = cast %5 : f32[n:tp, k]\n"
		  "  %7 = all_gather %6 on=tp of=n : f32[n, k]\n");
	weight_is(-1, 1, "  %5 = all_gather %3 on=tp of=n : f32[n, k]\n");
	weight_is(-1, 2, "  %5 = all_gather %3 on=tp of=n : f32[n, k]\n"
		  "  %6 = add %1, %5 : f32[n, k]\n");
}

/* The first operand that is one, however late it is found. */
static void
test_first(void **state)
{
	(void)state;
	weight_is(0, 4, "  %5 = all_gather %0 on=dp of=k : bf16[n:tp, k]\n"
		  "  %6 = cast %5 : f32[n:tp, k]\n"
		  "  %7 = all_gather %6 on=tp of=n : f32[n, k]\n"
		  "  %8 = add %7, %1 : f32[n, k]\n");
	weight_is(1, 4, "  %5 = all_gather %0 on=dp of=k : bf16[n:tp, k]\n"
		  "  %6 = cast %5 : f32[n:tp, k]\n"
		  "  %7 = all_gather %6 on=tp of=n : f32[n, k]\n"
		  "  %8 = add %1, %7 : f32[n, k]\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_on_one_rank, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_between_ranks, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_first, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

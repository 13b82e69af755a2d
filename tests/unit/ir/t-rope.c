/*
 * Rotary frequencies and their extensions, beside figures of the formulas of
 * transformers 4.57 (modeling_rope_utils.py), computed in float64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "ir/ir.h"

static const struct {
	const char *attrs;
	int64_t d;
	double want[8];
} cases[] = {
	/* linear */
	{ "theta=1e6 factor=2.5", 8,
	  { 0.40000000000000002, 0.012649110640673516,
	    0.00040000000000000002, 1.2649110640673518e-05 } },
	/* llama3 */
	{ "theta=5e5 factor=8 low=1 high=4 original=8192", 16,
	  { 1, 0.19392274474868576, 0.037606030930863933,
	    0.0072926647372171093, 0.00052484616099295468,
	    3.4281021959525912e-05, 6.6478698711812354e-06,
	    1.2891731721515574e-06 } },
	/* yarn: DeepSeek-V3's, and gpt-oss's, which does not truncate */
	{ "theta=10000 factor=40 fast=32 original=4096", 16,
	  { 1, 0.31622776601683794, 0.10000000000000001,
	    0.023914724805023366, 0.0051250000000000002,
	    0.00084986212117025195, 2.5000000000000001e-05,
	    7.9056941504209488e-06 } },
	{ "theta=150000 factor=32 fast=32 slow=1 untruncated original=4096",
	  16,
	  { 1, 0.22541800020287084, 0.050813274815461475,
	    0.0067949594897322189, 0.00045648391922324086,
	    1.818833668168956e-05, 4.0999784818029804e-06,
	    9.242089502428302e-07 } },
	/* longrope */
	{ "theta=10000 stretch=(1, 1.25, 2.5, 40)", 8,
	  { 1, 0.080000000000000002, 0.0040000000000000001,
	    2.5000000000000001e-05 } },
};

static void
published(void **state)
{
	size_t k;

	(void)state;
	for (k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct ir_module *m;
		struct ir_ctx c;
		char text[512];
		double got[8];
		uint32_t base, i;

		snprintf(text, sizeof text, "llmc-ir 1\nmodule t\n"
			 "dim s = 4\ndim d = %lld\n\nmodel {\n"
			 "  %%0 = input name=\"x\" : f32[s, d]\n"
			 "  %%1 = rope %%0 seq=s %s : f32[s, d]\n"
			 "  return %%1\n}\n", (long long)cases[k].d,
			 cases[k].attrs);
		ir_ctx_init(&c, NULL);
		assert_true(source_add(&c.sources, "t", text, strlen(text),
				       &base));
		m = ir_read(&c, c.sources.files.n - 1);
		if (!m) {
			diag_flush(&c.diags, stderr);
			fail_msg("cannot read\n%s", text);
		}
		for (i = 1; ir_node(m, i)->op != IR_ROPE; i++) {
		}
		ir_rope_frequencies(m, ir_node(m, i), cases[k].d, got);
		for (i = 0; i < cases[k].d / 2; i++) {
			double off = fabs(got[i] / cases[k].want[i] - 1);

			if (off > 1e-14) {
				fail_msg("%s: pair %u is %.17g, not %.17g",
					 cases[k].attrs, i, got[i],
					 cases[k].want[i]);
			}
		}
		ir_ctx_release(&c);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

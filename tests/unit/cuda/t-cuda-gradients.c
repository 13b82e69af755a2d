/*
 * One kernel makes all gradients of attention where that is predicted to be
 * faster, or the plan has its tile, and it can; two do so elsewhere.  The price
 * is that of what is emitted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/cg.h"
#include "codegen/cuda/cuda.h"

#define UNITS 132		/* multiprocessors of an H100 SXM */

struct example {
	const char *arch, *dtype, *how;
	int64_t b, s, d;
	bool joint;
};

static struct ir_ctx ctx;

/* 32 heads of queries, 8 of keys; its gradients alone. */
static struct ir_module *
module_of(const struct example *x)
{
	const char *t = x->dtype, *how = x->how;
	struct ir_module *m;
	struct buf b;
	uint32_t base;

	ir_ctx_init(&ctx, NULL);
	buf_init(&b, &ctx.perm);
	buf_printf(&b, "llmc-ir 1\ndim b = %lld\ndim s = %lld\ndim h = 32\n"
		   "dim k = 8\ndim d = %lld\nmodel {\n", (long long)x->b,
		   (long long)x->s, (long long)x->d);
	buf_printf(&b, "  %%0 = weight name=\"q\" : %s[b, s, h, d]\n"
		   "  %%1 = weight name=\"k\" : %s[b, s, k, d]\n"
		   "  %%2 = weight name=\"v\" : %s[b, s, k, d]\n"
		   "  %%3 = weight name=\"o\" : %s[b, s, h, d]\n", t, t, t, t);
	buf_printf(&b, "  %%4 = weight name=\"t\" : f32[b, s, h]\n"
		   "  %%5 = attention_lse %%0, %%1 %s : f32[b, s, h]\n", how);
	buf_printf(&b, "  %%6 = attention_dq %%0, %%1, %%2, %%3, %%5, %%4 %s :"
		   " %s[b, s, h, d]\n", how, t);
	buf_printf(&b, "  %%7 = attention_dk %%0, %%1, %%2, %%3, %%5, %%4 %s :"
		   " %s[b, s, k, d]\n", how, t);
	buf_printf(&b, "  %%8 = attention_dv %%0, %%1, %%3, %%5 %s : "
		   "%s[b, s, k, d]\n  return %%6, %%7, %%8\n}\n", how, t);
	assert_true(source_add(&ctx.sources, "text", buf_text(&b), b.n,
			       &base));
	m = ir_read(&ctx, ctx.sources.files.n - 1);
	assert_non_null(m);
	assert_true(ir_verify(m));
	return m;
}

static const struct kernel *
gradients_in(struct ir_module *m)
{
	const struct kernel_list *l =
		kernels_find(m, ir_model(m), NULL, &ctx.perm)->top;
	const struct kernel *k = NULL;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		if (l->at.at[i].kind == KERNEL_ATTENTION) {
			assert_null(k);
			k = &l->at.at[i];
		}
	}
	assert_non_null(k);
	return k;
}

/* Whether its code is one kernel; `tile`: of the plan, or NULL. */
static bool
emits_one(struct ir_module *m, const struct kernel *k, const char *arch,
	  const char *tile)
{
	struct cg_tiling tiles = { .rows = &tile, .nrows = 1 };
	struct cg_cuda c = { .m = m, .a = &ctx.perm, .units = UNITS,
			     .arch = cu_arch_find(arch) };
	struct cg_kernel out;
	const char *why = NULL;

	c.tiling = tile ? cu_tiling_open(&ctx.perm, &tiles) : NULL;
	if (!cg_cuda_kernel_by(&c, k, cu_attention_steps, &out, &why)) {
		fail_msg("%s", why);
	}
	return strstr(out.source, "attention_joint") != NULL;
}

static bool
is_priced_as_one(struct ir_module *m, const struct kernel *k,
		 const char *arch)
{
	static const struct price_traits none;
	const struct target_group on = { .device = {
		.arch = arch, .units = UNITS } };
	const struct pricing p = { .m = m, .t = &on, .traits = &none };

	return !price_has_two_kernels(&p, k);
}

static void
check(const struct example *x, const char *tile)
{
	struct ir_module *m = module_of(x);
	const struct kernel *k = gradients_in(m);
	bool emitted = emits_one(m, k, x->arch, tile), priced;

	if (tile) {
		struct plan_value v = { 0 };

		VEC_PUSH(&ctx.perm, &v.items, ((struct plan_item){
			.word = tile, .times = 1 }));
		assert_true(plan_set(m, "tiles", (struct span){ 0, 0 }, &v));
	}
	priced = is_priced_as_one(m, k, x->arch);
	ir_ctx_release(&ctx);
	if (emitted != x->joint || priced != x->joint) {
		fail_msg("%s %s %s %d x %d of %d: %s kernel, priced as %s",
			 x->arch, x->dtype, x->how, (int)x->b, (int)x->s,
			 (int)x->d, emitted ? "one" : "two",
			 priced ? "one" : "two");
	}
}

static void
by_prediction(void **state)
{
	static const struct example all[] = {
		{ "sm_90a", "bf16", "causal", 1, 8192, 128, true },
		{ "sm_90a", "bf16", "causal", 1, 4096, 128, true },
		{ "sm_90a", "bf16", "", 1, 4096, 104, true },
		{ "sm_90a", "f16", "causal softcap=30", 1, 8192, 120, true },
		{ "sm_90a", "bf16", "causal", 1, 2048, 128, true },
		{ "sm_90a", "bf16", "causal", 1, 512, 128, false },
		{ "sm_90a", "bf16", "causal", 16, 512, 128, true },
		{ "sm_90a", "bf16", "causal window=4096", 1, 8192, 128,
		  false },
		{ "sm_90a", "bf16", "causal", 1, 8192, 64, false },
		/* no box has rows of so many elements */
		{ "sm_90a", "bf16", "causal", 1, 8192, 100, false },
		{ "sm_90a", "f32", "causal", 1, 8192, 128, false },
		/* sums of more than four launches */
		{ "sm_90a", "bf16", "causal", 64, 4096, 128, false },
		{ "sm_80", "bf16", "causal", 1, 8192, 128, false },
		{ "sm_100a", "bf16", "causal", 1, 8192, 128, false }
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		check(&all[i], NULL);
	}
}

#define JOINT(s) "attention queries+keys+values bf16 1x32/8x" s "x" s "x128 " \
	"causal: m=128 n=64 k=128 stages=2 teams=1"

static void
by_plan(void **state)
{
	static const struct example all[] = {
		{ "sm_90a", "bf16", "causal", 1, 8192, 128, false },
		{ "sm_90a", "bf16", "causal", 1, 512, 128, true },
		{ "sm_90a", "bf16", "causal", 1, 512, 128, false }
	};

	(void)state;
	check(&all[0], "attention keys+values bf16 1x32/8x8192x8192x128 "
	      "causal: m=128 n=64 k=128 stages=3 teams=1");
	check(&all[1], JOINT("512"));
	check(&all[2], JOINT("4096"));	/* of another length */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_prediction),
		cmocka_unit_test(by_plan)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

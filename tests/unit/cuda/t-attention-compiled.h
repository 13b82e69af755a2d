/*
 * What NVRTC says about kernels of attention.  A part of t-attention-gpu.h,
 * with its `s` and `b`.
 */
#ifndef T_ATTENTION_COMPILED_H
#define T_ATTENTION_COMPILED_H

#include "tests/unit/cuda/t-attention-gpu.h"

static uint32_t
sources_of(const char *source, const char *arch, struct cg_source *out)
{
	struct cg_cuda c = { .units = USUAL_UNITS,
			     .joint_scratch = b.joint };
	struct cg_kernel k;
	const char *why = NULL;
	uint32_t base, i;

	s.text = source;
	ir_ctx_init(&s.c, NULL);
	assert_true(source_add(&s.c.sources, "text", source, strlen(source),
			       &base));
	s.m = ir_read(&s.c, s.c.sources.files.n - 1);
	assert_non_null(s.m);
	assert_true(ir_verify(s.m));
	s.nkernels = 0;
	add_kernels(kernels_find(s.m, ir_model(s.m), NULL, &s.c.perm)->top);
	c.m = s.m;
	c.a = &s.c.perm;
	c.arch = cu_arch_find(arch);
	for (i = 0; i < s.nkernels; i++) {
		assert_true(cg_cuda_kernel_by(&c, s.kernels[i],
					      cu_attention_steps, &k, &why));
		out[i] = (struct cg_source){ k.name, k.source };
	}
	return s.nkernels;
}

/* No spill, no warning; T_SHOW=1 says what functions take. */
static void
check_compiled(const char *source, const char *arch)
{
	struct cg_source sources[MOST_KERNELS];
	struct cg_make make = { .sources = sources, .arch = arch };
	struct cg_images out;
	uint32_t i, k;

	make.nsources = sources_of(source, arch, sources);
	make.texts = cg_prelude(&s.c.perm, &make.ntexts);
	if (!cg_images(&s.c, &make, &out)) {
		for (i = 0; i < s.c.diags.records.n; i++) {
			print_message("%s\n", s.c.diags.records.at[i].text);
		}
		fail_msg("%s", sources[0].text);
	}
	for (i = 0; out.made_by && i < make.nsources; i++) {
		for (k = 0; k < out.at[i].funcs.n; k++) {
			const struct cg_func *f = &out.at[i].funcs.at[k];

			if (getenv("T_SHOW")) {
				printf("%s %s: %lld registers, %lld of "
				       "stack, %lld spilled\n", arch,
				       f->name, (long long)f->registers,
				       (long long)f->stack_bytes,
				       (long long)f->spill_bytes);
				continue;
			}
			assert_int_equal(f->spill_bytes, 0);
			assert_int_equal(f->stack_bytes, 0);
		}
		assert_true(getenv("T_SHOW") || out.at[i].slow.n == 0);
	}
	assert_true(getenv("T_SHOW") || s.c.diags.records.n == 0);
	ir_ctx_release(&s.c);
}

#endif

/*
 * Products of a stage by tcgen05, which one thread issues: of what the copying
 * unit or threads have copied.  And what becomes of sums of f8e4m3 by wgmma.
 */
#include "codegen/cuda/dot/cuda_dot.h"

void
cu_promote(struct cu_func *f, int64_t n, const char *to)
{
	cu_line(f, "wg_sums(part, %lld);", (long long)n);
	cu_line(f, "UNROLL");
	cu_line(f, "for (int j = 0; j < %lld; j++) {", (long long)n);
	cu_line(f, "%s += part[j];", to);
	cu_line(f, "}");
}

const char *
cu_tensor_form(struct arena *a, const struct cu_products *p)
{
	static const char *const types[CU_DOT_NUNITS] = {
		[CU_DOT_TF32] = "TC_TF32", [CU_DOT_BF16] = "TC_BF16",
		[CU_DOT_F16] = "TC_F16", [CU_DOT_E4M3] = "TC_E4M3"
	};

	return arena_printf(a, "tc_form(%s, %lld, %d, %d)", types[p->unit],
			    (long long)p->cols, !p->by_k[0], !p->by_k[1]);
}

void
cu_tensor_products(struct cu_func *f, const struct cu_products *p)
{
	static const char *const kinds[CU_DOT_NUNITS] = {
		[CU_DOT_TF32] = "tf32", [CU_DOT_BF16] = "f16",
		[CU_DOT_F16] = "f16", [CU_DOT_E4M3] = "f8"
	};
	long long all = (long long)p->stage_bytes, left =
		(long long)p->left_bytes;
	/* steps of descriptors, in units of 16 bytes */
	int x = p->by_k[0] ? 2 : 128, y = p->by_k[1] ? 2 : 128, k;

	cu_line(f, "const u64 x = tc_desc(ring + %lld * %s, %d, 1024, 128);",
		all, p->stage, p->by_k[0] ? 16 : 8192);
	/* With two descriptors that do not depend on each other, NVRTC 13.0
	 * chooses their registers otherwise in every run. */
	if (p->by_k[0] == p->by_k[1]) {
		cu_line(f, "const u64 y = x + %lld;", left / 16);
	} else {
		cu_line(f, "const u64 y = tc_desc(ring + %lld * %s + %lld, "
			"%d, 1024, 128);", all, p->stage, left,
			p->by_k[1] ? 16 : 8192);
	}
	for (k = 0; k < 4; k++) {
		cu_line(f, "tc_mma_%s(%s, x + %d, y + %d, form, %s);",
			kinds[p->unit], p->sums, x * k, y * k,
			k ? "1" : p->add);
	}
}

void
cu_clear_sums(struct cu_func *f, const struct cu_tile *t, const char *sums)
{
	cu_line(f, "UNROLL");
	cu_line(f, "for (it = 0; it < %lld; it++) {",
		(long long)(t->wm * t->wn / 32));
	cu_line(f, "%s[it / %lld][it / 4 %% %lld][it %% 4] = 0;", sums,
		(long long)t->wn / 2, (long long)t->wn / 8);
	cu_line(f, "}");
}

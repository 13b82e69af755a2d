/*
 * Which emitter a kernel group goes to.  Loop nests do what the emitters of
 * contractions refuse.
 */
#include "codegen/cuda/cuda.h"

static bool
emit(struct cu_kernel *k, const struct kernel *x)
{
	if (x->members.n > 0) {
		return cu_dot_launch_steps(k, x);
	}
	switch (x->kind) {
	case KERNEL_CONTRACTION:
		if (cu_dot_steps(k, x)) {
			return true;
		}
		cu_kernel_reset(k);
		if (cu_experts_steps(k, x)) {
			return true;
		}
		break;
	case KERNEL_ATTENTION:
		return cu_attention_steps(k, x);
	case KERNEL_COLLECTIVE:
	case KERNEL_REPEAT:
	case KERNEL_CALL:
		die("%s is no kernel to emit", kernel_kind_name(x->kind));
	default:
		break;
	}
	return cu_nest_all(k, x);
}

bool
cg_cuda_kernel(struct cg_cuda *c, const struct kernel *x,
	       struct cg_kernel *out, const char **why)
{
	return cg_cuda_kernel_by(c, x, emit, out, why);
}

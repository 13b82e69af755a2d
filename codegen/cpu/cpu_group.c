/*
 * Which emitter a kernel goes to: the one for its kind, or, if that refuses
 * it, a nest of loops, which can compute any kernel but attention.
 */
#include "codegen/cpu/cpu.h"

/* Drops the arguments and scratch of an emitter that refused the kernel. */
static void
forget(struct cg_kernel *out)
{
	out->operands.n = out->spreads.n = out->nums.n = 0;
	out->shared_bytes = out->own_bytes = 0;
}

static bool
all_as_nest(struct cg_cpu *c, struct cg_kernel *out, const struct kernel *k,
	    const char **why)
{
	struct cg_nest n;

	cg_nest_all(c, k, &n);
	n.space = *k->work->shape;
	forget(out);
	return cg_nest_steps(c, out, &n, why);
}

bool
cg_cpu_kernel(struct cg_cpu *c, const struct kernel *k, struct cg_kernel *out,
	      const char **why)
{
	struct buf what;

	*out = (struct cg_kernel){ 0 };
	buf_init(&what, c->a);
	kernel_print(c->m, k, &what);
	out->what = buf_text(&what);
	switch (k->kind) {
	case KERNEL_CONTRACTION:
		if (cg_dot_steps(c, out, k, why)) {
			return true;
		}
		forget(out);
		if (out->steps.n == 0 && cg_experts_steps(c, out, k, why)) {
			return true;
		}
		break;
	case KERNEL_ATTENTION:
		return cg_attention_steps(c, out, k, why);
	case KERNEL_COLLECTIVE:
	case KERNEL_REPEAT:
	case KERNEL_CALL:
		die("%s is no kernel to emit", kernel_kind_name(k->kind));
	default:
		break;
	}
	return out->steps.n == 0 && all_as_nest(c, out, k, why);
}

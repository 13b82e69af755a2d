/*
 * What is launched at a place of a list: a kernel, or all contractions of a
 * launch (passes/kernels/fuse_launch.c) where they are one kernel.
 */
#include "codegen/host/host.h"

static bool
is_apart(struct cg_code *c, struct host_class *k, const struct kernel *all)
{
	struct host_use u;

	host_use_kernel(c, k, all, &u);
	return !u.kernel || u.kernel->apart;
}

const struct kernel *
host_launched(struct cg_code *c, struct host_class *k,
	      const struct kernel_list *l, uint32_t i)
{
	const struct kernel *x = &l->at.at[i];
	struct kernel *all;

	if (!x->launch) {
		return x;
	}
	all = arena_alloc(c->a, sizeof *all);
	kernel_of_launch(l, i - x->launch->at, c->a, all);
	return is_apart(c, k, all) ? x : x->launch->at > 0 ? NULL : all;
}

bool
host_emit_launch(struct cg_code *c, struct host_class *k,
		 const struct kernel_list *l, uint32_t i)
{
	const struct kernel *x = &l->at.at[i];
	struct kernel all;

	if (x->launch && x->launch->at == 0 &&
	    price_shares_launch(&c->pricing, x)) {
		kernel_of_launch(l, i, c->a, &all);
		host_emit_kernel(c, k, &all);
	}
	x = host_launched(c, k, l, i);
	return !x || x->members.n > 0 || host_emit_kernel(c, k, x);
}

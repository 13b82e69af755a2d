/*
 * How much is worth a collective of its own, by the target: the bytes that a
 * link moves while one starts, and those that memory moves meanwhile.  They
 * are settings of the module, as a plan is: kernels are the same for whoever
 * asks, with a target at hand or not.  Without them nothing is joined.
 */
#include "passes/kernels.h"

#include <math.h>

#include "passes/cost.h"

static void
set(struct ir_module *m, const char *key, double v)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .num = { floor(v) } };

	if (!ir_setting(m, key)) {
		s.key = intern_str(&m->ctx->syms, key);
		VEC_PUSH(&m->ctx->perm, &m->settings, s);
	}
}

void
kernels_join_for(struct ir_module *m, const struct target_group *t)
{
	const struct target_device *d = &t->device;
	struct cost_group g = { t->devices, 1, 1, false };
	double start_us, rate = d->link_bytes_us * d->link_eff;

	if (t->devices < 2) {
		g = (struct cost_group){ 1, t->nodes, 1, false };
		rate = t->network.bytes_us;
	}
	start_us = cost_collective(t, COST_ALL_REDUCE, &g, 1, NULL).launch_us;
	if (start_us * rate < 1) {
		return;
	}
	set(m, "join.link", start_us * rate);
	/* a CPU does one thing at a time: nothing goes on beside talk */
	if (!target_is_cpu(d)) {
		set(m, "join.work", start_us * d->memory_bytes_us *
				    d->memory_eff);
	}
}

/*
 * How long the optimizer's state is on its way where the plan keeps it on the
 * host: the state of each tensor comes in over the host link, and goes
 * back.  Both are taken to share the link, as copies in turns do, and to run
 * beside the kernel, which works on the tensor that came before.
 */
#include "passes/price/price.h"

#include "passes/plan/plan.h"

/* A tensor that is kept and no weight. */
static bool
is_state(const struct ir_node *n)
{
	return ir_is(n->op, IRF_STORED) && !ir_is(n->op, IRF_PARAM);
}

/* Whether the kernel reads a state of that name. */
static bool
reads(const struct ir_module *m, const struct kernel *k, sym_t name)
{
	uint32_t i;

	for (i = 0; i < k->inputs.n; i++) {
		node_id id = m->values.at[k->inputs.at[i].value].node;
		const struct ir_node *n = ir_node(m, id);

		if (id && is_state(n) &&
		    ir_attr(m, n, IR_ATTR_NAME)->text == name) {
			return true;
		}
	}
	return false;
}

double
price_host_us(const struct pricing *p, const struct kernel *k)
{
	double bytes = 0;
	uint32_t i;

	if (k->kind != KERNEL_OPTIMIZER || !plan_offload(p->m)) {
		return 0;
	}
	for (i = 0; i < k->inputs.n; i++) {
		node_id id = p->m->values.at[k->inputs.at[i].value].node;

		bytes += id && is_state(ir_node(p->m, id))
			? k->inputs.at[i].bytes : 0;
	}
	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, k->nodes.at[i]);

		if (n->op == IR_STORE && reads(p->m, k, ir_attr(p->m, n,
						IR_ATTR_NAME)->text)) {
			bytes += kernel_bytes(p->m, ir_args(p->m, n)[0]);
		}
	}
	return bytes > 0 ? bytes / p->t->device.host_bytes_us : 0;
}

/*
 * A pass plug-in: counts the nodes of each op, without changing anything.
 * README.md beside this says how to build and run it.
 */
#include "passes/pass.h"

static void
count_region(const struct ir_module *m, region_id r, int64_t *counts)
{
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);

		counts[n->op]++;
		if (ir_is(n->op, IRF_REGION)) {
			count_region(m, n->region, counts);
		}
	}
}

static bool
count_ops(struct pass_ctx *p, struct ir_module *m)
{
	int64_t counts[IR_OP_COUNT] = { 0 };
	func_id f;
	int op;

	for (f = 1; f < m->funcs.n; f++) {
		count_region(m, m->funcs.at[f].body, counts);
	}
	for (op = 0; op < IR_OP_COUNT; op++) {
		pass_count(p, ir_ops[op].name, counts[op]);
	}
	return true;
}

static const struct pass passes[] = {
	{ "count-ops", 0, 0, 0, count_ops, "counts the nodes of each op" }
};

const struct pass_plugin *
llmc_pass_plugin(void)
{
	static const struct pass_plugin plugin = {
		IR_ABI_VERSION, "count-ops", "1.0", passes, 1
	};

	return &plugin;
}

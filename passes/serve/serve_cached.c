/*
 * What a step computes of what is cached: keys and values, of all positions of
 * its sequences, where attention does not read the cache itself.
 */
#include "passes/serve/serve.h"

/* Whether attention of the region reads v as its keys or values. */
static bool
is_keys(const struct ir_module *m, const struct ir_region *region, value_id v)
{
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);
		const value_id *args = ir_args(m, n);

		if (ir_is(n->op, IRF_PAIRS) && (args[1] == v || args[2] == v)) {
			return true;
		}
	}
	return false;
}

bool
serve_lies_cached(const struct ir_module *m, value_id v)
{
	const struct ir_node *n = ir_node(m, m->values.at[v].node);

	while (n->op == IR_SLICE) {
		n = ir_node(m, m->values.at[ir_args(m, n)[0]].node);
	}
	return n->op == IR_CACHE;
}

void
serve_find_computed(const struct ir_module *m, region_id id, bool *of_cache)
{
	const struct ir_region *region = &m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);
		bool is = false;

		if (n->region) {
			serve_find_computed(m, n->region, of_cache);
			continue;
		}
		for (k = 0; k < n->nargs && !ir_is(n->op, IRF_PAIRS); k++) {
			value_id v = ir_args(m, n)[k];

			is |= of_cache[v] || serve_lies_cached(m, v);
		}
		if (n->result) {
			of_cache[n->result] = is && n->op != IR_CACHE &&
				!(serve_lies_cached(m, n->result) &&
				  is_keys(m, region, n->result));
		}
	}
}

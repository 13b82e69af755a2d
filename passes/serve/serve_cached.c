/*
 * What a step computes of what is cached: keys and values, of all positions of
 * its sequences, where attention does not read the cache itself.
 */
#include "passes/serve/serve.h"

/* Whether attention of the region reads v as its keys. */
static bool
is_keys(const struct ir_module *m, const struct ir_region *region, value_id v)
{
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);

		if (ir_is(n->op, IRF_PAIRS) && ir_args(m, n)[1] == v) {
			return true;
		}
	}
	return false;
}

void
serve_find_computed(const struct ir_module *m, region_id id, bool *of_cache)
{
	const struct ir_region *region = &m->regions.at[id];
	uint32_t i, k;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);
		bool is = n->op == IR_CACHE &&
			  !is_keys(m, region, n->result);

		if (n->region) {
			serve_find_computed(m, n->region, of_cache);
			continue;
		}
		for (k = 0; k < n->nargs && !ir_is(n->op, IRF_PAIRS); k++) {
			is |= of_cache[ir_args(m, n)[k]];
		}
		if (n->result) {
			of_cache[n->result] = is;
		}
	}
}

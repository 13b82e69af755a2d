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

/* The cache that v is, or is a slice of; NULL: of none.  Adds up where slices
 * begin. */
static const struct ir_node *
cache_of(const struct ir_module *m, value_id v, int64_t *at)
{
	const struct ir_node *n = ir_node(m, m->values.at[v].node);

	for (*at = 0; n->op == IR_SLICE;
	     n = ir_node(m, m->values.at[ir_args(m, n)[0]].node)) {
		*at += ir_attr_int(m, n, IR_ATTR_AT, 0);
	}
	return n->op == IR_CACHE ? n : NULL;
}

bool
serve_lies_cached(const struct ir_module *m, value_id v)
{
	int64_t at;

	return cache_of(m, v, &at) != NULL;
}

bool
serve_lies_within(const struct ir_module *m, value_id v, value_id k)
{
	int64_t at_v, at_k;
	const struct ir_node *n = cache_of(m, v, &at_v);

	return n && n == cache_of(m, k, &at_k) && at_v == at_k;
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

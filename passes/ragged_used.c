/*
 * What the logits need of a model that is served: all else, such as the loss,
 * has no copy in the step.
 */
#include "passes/ragged.h"

bool
ragged_is_used(const struct ragged *r, node_id id)
{
	const struct ir_node *n = ir_node(r->m, id);
	uint32_t i;

	for (i = 0; i < n->nresults && !r->used[n->result + i]; i++) {
	}
	return i < n->nresults;
}

bool
ragged_is_carried(const struct ragged *r, const struct ir_node *n, uint32_t k)
{
	return r->used[n->result + k] ||
	       r->used[r->m->regions.at[n->region].params.at[k]];
}

/* An iteration may need what no one needs after the last. */
static void
find_used_in(struct ragged *r, const struct ir_node *n)
{
	const struct ir_region *in = &r->m->regions.at[n->region];
	bool again = true;
	uint32_t k;

	while (again) {
		again = false;
		for (k = 0; k < n->nargs; k++) {
			value_id yield = in->results.at[k];

			if (ragged_is_carried(r, n, k)) {
				again |= !r->used[yield];
				r->used[yield] = true;
				r->used[ir_args(r->m, n)[k]] = true;
			}
		}
		ragged_find_used(r, n->region);
	}
}

void
ragged_find_used(struct ragged *r, region_id id)
{
	struct ir_module *m = r->m;
	uint32_t i = m->regions.at[id].nodes.n, k;

	while (i-- > 0) {
		node_id at = m->regions.at[id].nodes.at[i];
		const struct ir_node *n = ir_node(m, at);

		if (!ragged_is_used(r, at)) {
			continue;
		}
		for (k = 0; k < n->nargs && !n->region; k++) {
			r->used[ir_args(m, n)[k]] = true;
		}
		if (n->region) {
			find_used_in(r, n);
		}
	}
}

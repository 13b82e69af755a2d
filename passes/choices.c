/*
 * Finds contractions whose results choose experts: a rounding there changes
 * the choice, so passes that round leave them as they are.
 */
#include "passes/pass.h"

void
pass_find_choices(const struct ir_module *m, const struct ir_region *r,
		  bool *chooses)
{
	uint32_t i, k;

	for (i = r->nodes.n; i-- > 0;) {
		const struct ir_node *n = ir_node(m, r->nodes.at[i]);

		if (n->nresults != 1 || ir_is(n->op, IRF_CONTRACTS) ||
		    (!chooses[n->result] &&
		     ir_type(m, n->result)->dtype != IR_IDX)) {
			continue;
		}
		for (k = 0; k < n->nargs; k++) {
			chooses[ir_args(m, n)[k]] = true;
		}
	}
}

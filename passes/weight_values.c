/*
 * Tells weights from activations: a weight that ops only converted, moved or
 * scaled still counts as a weight.
 */
#include "passes/pass.h"

#define LOOKS 32	/* values visited; past that, not a weight */

bool
pass_is_weight(const struct ir_module *m, value_id v)
{
	value_id todo[LOOKS] = { v };
	uint32_t n = 1, looks = 0, i;
	bool any = false;

	while (n > 0) {
		node_id maker = m->values.at[todo[--n]].node;
		const struct ir_node *x = ir_node(m, maker);

		if (!maker || ++looks > LOOKS) {
			return false;
		}
		if (ir_is(x->op, IRF_PARAM)) {
			any = true;
			continue;
		}
		if (x->nargs == 0 &&
		    ir_op_takes(x->op, IR_ATTR_VALUE) == IR_TAKES_NOT) {
			return false;
		}
		if (x->nargs > 0 &&
		    (!ir_is(x->op, IRF_MAP | IRF_MOVES | IRF_ROWWISE) ||
		     n + x->nargs > LOOKS)) {
			return false;
		}
		for (i = 0; i < x->nargs; i++) {
			todo[n++] = ir_args(m, x)[i];
		}
	}
	return any;
}

/*
 * Tells weights from activations: a weight that ops only converted, moved,
 * scaled or exchanged between ranks still counts as a weight.
 */
#include "passes/pass.h"

#define LOOKS 32	/* values visited; past that, not a weight */
#define KEEPS_WEIGHTS \
	(IRF_MAP | IRF_MOVES | IRF_ROWWISE | IRF_CONVERTS | IRF_COMM)

value_id
pass_weight_of(const struct ir_module *m, value_id v)
{
	value_id todo[LOOKS] = { v }, first = 0;
	uint32_t n = 1, looks = 0, i;

	while (n > 0) {
		value_id at = todo[--n];
		node_id maker = m->values.at[at].node;
		const struct ir_node *x = ir_node(m, maker);

		if (!maker || ++looks > LOOKS) {
			return 0;
		}
		if (ir_is(x->op, IRF_PARAM)) {
			first = first ? first : at;
			continue;
		}
		if (x->nargs == 0 &&
		    ir_op_takes(x->op, IR_ATTR_VALUE) == IR_TAKES_NOT) {
			return 0;
		}
		if (x->nargs > 0 &&
		    (!ir_is(x->op, KEEPS_WEIGHTS) || n + x->nargs > LOOKS)) {
			return 0;
		}
		for (i = x->nargs; i > 0; i--) {	/* the first is next */
			todo[n++] = ir_args(m, x)[i - 1];
		}
	}
	return first;
}

bool
pass_is_weight(const struct ir_module *m, value_id v)
{
	return pass_weight_of(m, v) != 0;
}

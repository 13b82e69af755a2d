/*
 * Private to ir/rule/: a rule that is being bound to operands.
 */
#ifndef IR_RULE_BINDING_H
#define IR_RULE_BINDING_H

#include "ir/ir.h"

/*
 * The state of binding, with the dims of each operand that are not bound yet.
 */
struct rule_binding {
	struct ir_module *m;
	enum ir_op op;
	const struct ir_type *const *types;
	struct ir_rule *r;
	struct {
		dim_id dims[IR_MAX_DIMS];
		uint8_t n;
	} left[IR_MAX_OPERANDS];
	const char **why;
};

/* Says why it does not bind, or has no type; false. */
bool ir_rule_fail(struct rule_binding *b, const char *fmt, ...)
	BASE_PRINTF(2, 3);
/* For messages. */
const char *ir_rule_dim(struct rule_binding *b, dim_id d);
const char *ir_rule_operand(struct rule_binding *b, int k);

#endif

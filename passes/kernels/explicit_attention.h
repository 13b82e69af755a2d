/*
 * Attention that a model writes as contractions and a softmax, for the passes
 * that recompute or split it.
 */
#ifndef PASSES_ATTENTION_H
#define PASSES_ATTENTION_H

#include "passes/pass.h"

struct attention {
	const struct ir_rule *rule;	/* of the contraction with the values */
	uint32_t operand;	/* its operand of weights, per query and key */
	const value_id *inner;	/* from scores to weights, masks included */
	uint32_t ninner;
};

typedef void attention_fn(void *user, const struct attention *a);
/* Calls f for each that the module has. */
void attention_each(struct ir_module *m, attention_fn *f, void *user);

#endif

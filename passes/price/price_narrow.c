/*
 * The trait narrow_products: software whose layers multiply 8 bits in all three
 * contractions of a weight, forward and backward, where `train.matmul` narrows
 * the forward one alone.
 *
 * Operands of 16 bits are brought to 8 by a kernel that reads each once and
 * writes it twice, as it is and turned round, since matrix units of 8 bits
 * want both operands along k: that is how Transformer Engine does it (FP8
 * Primer, "handling transposes").  A scale of the values that are there now is
 * known only when all of them are, so no kernel that makes them can do it.
 * With the trait fused_narrowing scales are of earlier steps, and it can.
 *
 * What several contractions read is narrowed once; the gradient of a weight
 * finds both operands narrowed by the other two contractions; and weights are
 * narrowed once a step, which is not counted.
 */
#include "passes/price/price.h"

#include "passes/pass.h"

/* The body of a repeat that a node is in; NULL: it is in none. */
static const struct ir_region *
body_of(const struct ir_module *m, node_id id)
{
	uint32_t i, j;

	for (i = 1; i < m->regions.n; i++) {
		const struct ir_region *r = &m->regions.at[i];

		for (j = 0; r->owner && j < r->nodes.n; j++) {
			if (r->nodes.at[j] == id) {
				return r;
			}
		}
	}
	return NULL;
}

static node_id
contraction_of(const struct pricing *p, const struct kernel *k)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_CONTRACTS) && !ir_is(n->op, IRF_PAIRS)) {
			return k->nodes.at[i];
		}
	}
	return 0;
}

bool
price_is_narrowed(const struct pricing *p, const struct kernel *k)
{
	node_id id = p->traits->narrow_products ? contraction_of(p, k) : 0;

	return id && p->t->device.flops_us[TARGET_FP8] > 0 &&
	       body_of(p->m, id) &&
	       ir_dtypes[ir_type(p->m, ir_args(p->m, ir_node(p->m, id))[0])
				 ->dtype].bits == 16;
}

/* The operand of a weight's contraction that is no weight; 0: it has none. */
static value_id
narrowed(const struct ir_module *m, const struct ir_node *n)
{
	const value_id *args = ir_args(m, n);
	bool left, right;

	if (!ir_is(n->op, IRF_CONTRACTS) || ir_is(n->op, IRF_PAIRS)) {
		return 0;
	}
	left = pass_is_weight(m, args[0]);
	right = pass_is_weight(m, args[n->nargs - 1]);
	return left == right ? 0 : args[left ? n->nargs - 1 : 0];
}

/* Whether a contraction before this one in its body narrows v. */
static bool
is_known(const struct ir_module *m, node_id id, value_id v)
{
	const struct ir_region *r = body_of(m, id);
	uint32_t i;

	for (i = 0; r->nodes.at[i] != id; i++) {
		if (narrowed(m, ir_node(m, r->nodes.at[i])) == v) {
			return true;
		}
	}
	return false;
}

/* Of an element of 2 bytes: itself, and 1 byte twice. */
#define NARROW_TIMES 2

double
price_narrowing_bytes(const struct pricing *p, const struct kernel *k)
{
	node_id id = contraction_of(p, k);
	value_id v = narrowed(p->m, ir_node(p->m, id));

	return v && !p->traits->fused_narrowing && !is_known(p->m, id, v)
		? NARROW_TIMES * kernel_bytes(p->m, v) : 0;
}

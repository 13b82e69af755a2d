/*
 * The lists of what a kernel is called with, for all back ends: an entry that
 * is there already is not appended again.
 */
#include "codegen/kernel.h"

int64_t
cg_local_size(const struct ir_module *m, const uint32_t *at, dim_id d,
	      uint32_t cut)
{
	struct ir_pieces p;

	ir_pieces(m, ir_dim_size(m, d), cut, at, &p);
	return p.total;
}

int64_t
cg_reserve_shared(struct cg_kernel *k, int64_t align, int64_t bytes)
{
	int64_t at = (k->shared_bytes + align - 1) / align * align;

	k->shared_bytes = at + bytes;
	return at;
}

uint32_t
cg_operand(struct arena *a, struct cg_kernel *k, value_id value,
	   node_id sink, bool written)
{
	struct cg_operand o = { value, sink, written };
	uint32_t i;

	for (i = 0; i < k->operands.n; i++) {
		struct cg_operand *had = &k->operands.at[i];

		if (had->value == value && had->sink == sink) {
			had->written |= written;
			return i;
		}
	}
	VEC_PUSH(a, &k->operands, o);
	return i;
}

uint32_t
cg_spread(struct arena *a, struct cg_kernel *k, int64_t size, uint32_t cut)
{
	struct cg_spread s = { size, cut };
	uint32_t i;

	for (i = 0; i < k->spreads.n; i++) {
		if (k->spreads.at[i].size == size &&
		    k->spreads.at[i].cut == cut) {
			return i;
		}
	}
	VEC_PUSH(a, &k->spreads, s);
	return i;
}

uint32_t
cg_num(struct arena *a, struct cg_kernel *k, enum cg_num_kind kind,
       node_id node)
{
	struct cg_num x = { kind, node };
	uint32_t i;

	for (i = 0; i < k->nums.n; i++) {
		if (k->nums.at[i].kind == kind && k->nums.at[i].node == node) {
			return i;
		}
	}
	VEC_PUSH(a, &k->nums, x);
	return i;
}

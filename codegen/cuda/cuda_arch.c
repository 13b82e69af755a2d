/*
 * The architectures that llmc has kernels for, and what they offer.  A new one
 * is a row here.
 */
#include "codegen/cg.h"
#include "codegen/cuda/cuda.h"

#include <string.h>

static const struct cu_arch archs[] = {
	{ "sm_80", "compute_80", 8, 0, COST_SHARED_80, 65536,
	  false, false, false },
	{ "sm_86", "compute_86", 8, 6, COST_SHARED_SMALL, 65536,
	  false, false, false },
	{ "sm_89", "compute_89", 8, 9, COST_SHARED_SMALL, 65536,
	  false, false, true },
	{ "sm_90a", "", 9, 0, COST_SHARED_90, 65536,
	  true, false, true },
	{ "sm_100a", "", 10, 0, COST_SHARED_90, 65536,
	  false, true, true },
	{ "sm_103a", "", 10, 3, COST_SHARED_90, 65536,
	  false, true, true },
	{ "sm_120a", "", 12, 0, COST_SHARED_SMALL, 65536,
	  false, false, true }
};

const struct cu_arch *
cu_arch_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof archs / sizeof archs[0]; i++) {
		if (strcmp(archs[i].name, name) == 0) {
			return &archs[i];
		}
	}
	return NULL;
}

static int64_t
columns(const struct ir_module *m, value_id v)
{
	const struct ir_type *t = ir_type(m, v);

	return ir_dim_size(m, t->dims[t->ndims - 1]);
}

/* Whether both operands of a contraction with experts have a type that tcgen05
 * multiplies there, or are multiplied exactly. */
static bool
suits_experts(const struct ir_module *m, value_id v)
{
	enum ir_dtype t = (enum ir_dtype)ir_type(m, v)->dtype;

	return t == IR_BF16 || t == IR_F16 || t == IR_F8E4M3 || t == IR_F32 ||
	       t == IR_F64;
}

/* Whether a node multiplies with mma on architectures with tcgen05, which have
 * something faster. */
static bool
lacks_tensor(const struct ir_module *m, const struct ir_node *n)
{
	const value_id *args = ir_args(m, n);

	switch ((enum ir_op)n->op) {
	case IR_DOT_AT:
	case IR_DOT_AT_F32:
		return !suits_experts(m, args[0]) || !suits_experts(m, args[2]);
	case IR_DOT_TO:
		return !suits_experts(m, args[0]) || !suits_experts(m, args[1]);
	case IR_ATTENTION_DQ:
	case IR_ATTENTION_BETWEEN_DQ:
		return columns(m, args[0]) > CG_TENSOR_HEAD ||
		       columns(m, args[2]) > CG_TENSOR_VALUES;
	default:
		return false;
	}
}

const char *
cg_arch_lacks(const char *name, const struct ir_module *m)
{
	const struct cu_arch *x = cu_arch_find(name);
	uint32_t i;

	for (i = 1; x && x->tcgen05 && i < m->nodes.n; i++) {
		if (lacks_tensor(m, &m->nodes.at[i])) {
			return "tcgen05";
		}
	}
	return NULL;
}

bool
cg_arch_known(const char *name, struct arena *a, const char **why)
{
	const size_t n = sizeof archs / sizeof archs[0];
	struct diag_near near;
	struct buf all;
	size_t i;

	if (cu_arch_find(name)) {
		return true;
	}
	diag_near_init(&near, name);
	buf_init(&all, a);
	for (i = 0; i < n; i++) {
		diag_near_try(&near, archs[i].name);
		buf_printf(&all, "%s%s", i == 0 ? "" : i + 1 < n ? ", "
			   : " and ", archs[i].name);
	}
	*why = arena_printf(a, "there are no kernels for `%s`%s: there are "
			    "for %s", name, strncmp(name, "sm_", 3) == 0
			    ? diag_near_text(&near, a) : "",
			    buf_text(&all));
	return false;
}

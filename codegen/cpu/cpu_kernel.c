/*
 * What all emitters for a CPU share: step functions, and how they read the
 * arguments of their kernel (rt_call).
 */
#include "codegen/cpu/cpu.h"

#include <stddef.h>

/* ---- elements ---- */

bool
cg_cpu_elem(enum ir_dtype dtype, enum ll_base *elem)
{
	switch (dtype) {
	case IR_F64:
		*elem = LL_F64;
		return true;
	case IR_F32:
	case IR_TF32:
		*elem = LL_F32;
		return true;
	case IR_BF16:
		*elem = LL_BF16;
		return true;
	case IR_F16:
		*elem = LL_F16;
		return true;
	default:
		return false;
	}
}

/* ---- steps ---- */

struct ll_value *
cg_cpu_step(struct cg_cpu *c, struct cg_kernel *k, const char *what,
	    int64_t items)
{
	const struct ll_type ptr = ll_type(LL_PTR, 1);
	const struct ll_type i64 = ll_type(LL_I64, 1);
	const struct ll_type params[] = { ptr, ptr, i64, i64 };
	struct cg_step s = { .items = items };

	s.func = ll_func(c->ll, arena_printf(c->a, "%s%u", what, c->nfuncs),
			 ll_type(LL_VOID, 1), params, 4, false);
	c->nfuncs++;
	VEC_PUSH(c->a, &k->steps, s);
	return s.func;
}

/* Word `i` of the array that a member of rt_call points to. */
static struct ll_value *
word_of(struct cg_cpu *c, struct ll_value *step, size_t offset, uint32_t i,
	enum ll_base base)
{
	struct ll_value *at = ll_plus_n(c->ll, ll_param(c->ll, step, 0),
					(int64_t)offset);

	at = ll_load(c->ll, ll_type(LL_PTR, 1), at);
	return ll_load(c->ll, ll_type(base, 1),
		       ll_plus_n(c->ll, at, 8 * (int64_t)i));
}

struct ll_value *
cg_cpu_at(struct cg_cpu *c, struct ll_value *step, uint32_t operand)
{
	return word_of(c, step, offsetof(struct rt_call, at), operand,
		       LL_PTR);
}

struct ll_value *
cg_cpu_pieces(struct cg_cpu *c, struct ll_value *step, uint32_t spread)
{
	return word_of(c, step, offsetof(struct rt_call, pieces), spread,
		       LL_PTR);
}

struct ll_value *
cg_cpu_num(struct cg_cpu *c, struct ll_value *step, uint32_t num)
{
	return word_of(c, step, offsetof(struct rt_call, num), num, LL_I64);
}

struct ll_value *
cg_cpu_shared(struct cg_cpu *c, struct ll_value *step)
{
	return ll_load(c->ll, ll_type(LL_PTR, 1),
		       ll_plus_n(c->ll, ll_param(c->ll, step, 0),
				 (int64_t)offsetof(struct rt_call, shared)));
}

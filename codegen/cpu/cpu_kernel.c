/*
 * What all emitters for a CPU share: step functions, and how they read the
 * arguments of their kernel (rt_call).
 */
#include "codegen/cpu/cpu.h"

#include <math.h>
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

static struct ll_value *
bits(struct ll *l, enum ll_op op, struct ll_value *v, int64_t with)
{
	return ll_bin(l, op, v, ll_int(l, ll_typeof(l, v), with));
}

/*
 * The exponent and mantissa of an f8, where f32 has them, are the number
 * divided by 2 to the difference of the biases; subnormal ones, too.
 */
struct ll_value *
cg_cpu_widen_f8(struct ll *l, struct ll_value *v, enum ir_dtype dtype)
{
	const struct ll_type i32 = ll_typeof(l, v);
	const struct ll_type f32 = ll_type(LL_F32, i32.lanes);
	bool is_e4m3 = dtype == IR_F8E4M3;
	struct ll_value *size, *x, *sign, *none;

	size = bits(l, LL_AND, v, 0x7f);
	sign = bits(l, LL_AND, v, INT64_C(0x80000000));
	none = ll_test(l, LL_GE, size, ll_int(l, i32, is_e4m3 ? 0x7f : 0x7d));
	x = ll_bits(l, bits(l, LL_SHL, size, is_e4m3 ? 20 : 21), f32);
	x = ll_bin(l, LL_MUL, x, ll_num(l, f32, ldexp(1, is_e4m3 ? 120
							 : 112)));
	x = ll_bits(l, ll_select(l, none, ll_num(l, f32, NAN), x), i32);
	return ll_bits(l, ll_bin(l, LL_OR, x, sign), f32);
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

/*
 * Structs of abi.h as words, whose members are set by name; all others are 0.
 * And sizes on a rank.
 */
#include "codegen/host/host.h"

_Static_assert(RT_GROUP == IR_GROUP, "groups of an int4");

struct ll_value **
host_words(struct cg_code *c, size_t n)
{
	struct ll_value **w = arena_alloc(c->a, (n + 1) * sizeof *w);
	struct ll_value *zero = ll_i64(c->ll, 0);
	size_t i;

	for (i = 0; i < n; i++) {
		w[i] = zero;
	}
	return w;
}

void
host_fill_words(struct cg_code *c, struct ll_value **w, const void *x,
		size_t bytes)
{
	const int64_t *at = x;
	size_t i;

	for (i = 0; i < bytes / 8; i++) {
		w[i] = ll_i64(c->ll, at[i]);
	}
}

struct ll_value *
host_data(struct cg_code *c, struct ll_value *const *words, size_t n)
{
	return n ? ll_data(c->ll, NULL, words, (uint32_t)n) : ll_null(c->ll);
}

int
host_elem(enum ir_dtype t)
{
	switch (t) {
	case IR_F64:
		return RT_ELEM_F64;
	case IR_F32:
	case IR_TF32:
		return RT_ELEM_F32;
	case IR_BF16:
		return RT_ELEM_BF16;
	case IR_F16:
		return RT_ELEM_F16;
	case IR_IDX:
		return RT_ELEM_I32;
	default:
		return -1;
	}
}

int
host_stored_elem(enum ir_dtype t)
{
	return t == IR_INT8 ? RT_ELEM_I8
		: t == IR_INT4 ? RT_ELEM_I4
		: t == IR_F8E4M3 ? RT_ELEM_E4M3 : host_elem(t);
}

int
host_coll_elem(enum ir_dtype t)
{
	return ir_dtypes[t].bits == 8 ? RT_ELEM_U8 : host_elem(t);
}

int64_t
host_local(const struct host_class *k, dim_id d, uint32_t cut)
{
	return cg_local_size(k->c->m, k->at, d, cut);
}

int64_t
host_bytes(const struct host_class *k, value_id v)
{
	const struct ir_type *t = ir_type(k->c->m, v);
	int64_t n = 1, size;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		size = host_local(k, t->dims[i], t->cut[i]);
		n *= i + 1 < t->ndims ? size
			: cg_row_pitch(k->c->m, k->c->apart, v, size);
	}
	return (int64_t)((double)n * ir_elem_bytes(t->dtype));
}

int64_t
host_part_bytes(const struct host_class *k, const struct kernel *x,
		value_id v, uint32_t part)
{
	return part && parts_has(k->c->m, x, v)
		? host_bytes(k, v) / x->parts->n * part : 0;
}

bool
host_panel(const struct host_class *k, value_id v, struct cg_panel *out)
{
	struct cg_cpu cpu = k->cpu;

	return !k->c->arch && cg_cpu_panel(&cpu, v, out);
}

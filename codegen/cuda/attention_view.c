/*
 * Where attention finds its operands, and by which strides: views of what
 * lies in memory are read through; all else is made by a step before.
 */
#include "codegen/cuda/attention.h"

int64_t
ca_local(const struct ca_group *g, const struct ir_type *type, uint32_t i)
{
	return cu_local(g->k->c, type->dims[i], type->cut[i]);
}

static int64_t
size_of(const struct ca_group *g, const struct ir_type *type, uint32_t i,
	dim_id whole)
{
	return type->dims[i] == whole ? ir_dim_size(g->k->c->m, whole)
				      : ca_local(g, type, i);
}

int64_t
ca_elems(const struct ca_group *g, const struct ir_type *type, dim_id whole)
{
	int64_t elems = 1;
	uint32_t i;

	for (i = 0; i < type->ndims; i++) {
		elems *= size_of(g, type, i, whole);
	}
	return elems;
}

static void
row_major(const struct ca_group *g, const struct ir_type *type, dim_id whole,
	  int64_t stride[IR_MAX_DIMS])
{
	int64_t n = 1;
	uint32_t i;

	for (i = type->ndims; i-- > 0; ) {
		stride[i] = n;
		n *= size_of(g, type, i, whole);
	}
}

/* The strides by what the dims are to attention. */
static void
name_strides(const struct ca *t, const struct ir_type *type, bool keys,
	     const int64_t *stride, struct ca_view *v)
{
	dim_id pos = t->dim[keys ? CA_KEYS : CA_QUERIES];
	dim_id head = t->dim[keys ? CA_KV : CA_HEADS];
	uint32_t i;

	for (i = 0; i < t->nbatch; i++) {
		v->batch[i] = stride[ir_type_at(type, t->batch[i])];
	}
	v->pos = stride[ir_type_at(type, pos)];
	v->head = stride[ir_type_at(type, head)];
	v->col = type->ndims > t->nbatch + 2 ? stride[type->ndims - 1] : 1;
}

void
ca_view_shared(const struct ca_group *g, const struct ca *t,
	       const struct ir_type *type, dim_id whole, bool keys,
	       int64_t at, enum ir_dtype dtype, struct ca_view *out)
{
	int64_t stride[IR_MAX_DIMS];

	row_major(g, type, whole, stride);
	*out = (struct ca_view){ .place = CA_SHARED, .shared = at,
				 .dtype = dtype };
	name_strides(t, type, keys, stride, out);
}

bool
ca_view_memory(struct ca_group *g, const struct ca *t, value_id v,
	       bool keys, bool written, struct ca_view *out)
{
	const struct ir_type *type = ir_type(g->k->c->m, v);
	int64_t stride[IR_MAX_DIMS];

	*out = (struct ca_view){ .place = CA_OPERAND,
				 .dtype = (enum ir_dtype)type->dtype };
	if (!written) {
		if (!cu_view(g->k, g->x, v, &out->memory)) {
			return false;
		}
		name_strides(t, type, keys, out->memory.stride, out);
		return true;
	}
	out->memory = (struct cg_view){ .dtype = out->dtype };
	out->memory.operand = cg_operand(g->k->c->a, g->k->out, v, 0, true);
	row_major(g, type, 0, stride);
	name_strides(t, type, keys, stride, out);
	return true;
}

const char *
ca_at(struct cu_func *f, const struct ca_view *v)
{
	if (v->place == CA_OPERAND) {
		return cu_view_at(f, &v->memory);
	}
	return arena_printf(f->k->c->a, "((%s *)(a.shared + %lld))",
			    cu_type(v->dtype), (long long)v->shared);
}

void
ca_pointer(struct cu_func *f, const struct ca *t, const struct ca_view *v,
	   const char *name, const char *head)
{
	int64_t apart = 1;
	struct buf b;
	uint32_t i;

	buf_init(&b, f->k->c->a);
	buf_printf(&b, "%s *%s = %s", cu_type(v->dtype), name, ca_at(f, v));
	if (t->heads > 1 || t->kv > 1) {
		buf_printf(&b, " + (i64)(%s) * %lld", head,
			   (long long)v->head);
	}
	for (i = t->nbatch; i-- > 0; ) {
		if (t->batch_size[i] > 1) {
			buf_printf(&b, " + (i64)(bat / %lld %% %lld) * %lld",
				   (long long)apart,
				   (long long)t->batch_size[i],
				   (long long)v->batch[i]);
		}
		apart *= ca_some(t->batch_size[i]);
	}
	cu_line(f, "%s;", buf_text(&b));
}

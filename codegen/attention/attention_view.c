/*
 * Strides of attention's operands: views of stored tensors are read through;
 * everything else is stored in shared scratch by an earlier step.
 */
#include "codegen/attention/attention.h"

int64_t
attn_local_size(const struct attn_group *g, const struct ir_type *type,
		uint32_t i)
{
	return cg_local_size(g->m, g->at, type->dims[i], type->cut[i]);
}

static int64_t
size_of(const struct attn_group *g, const struct ir_type *type, uint32_t i,
	dim_id whole)
{
	return type->dims[i] == whole ? ir_dim_size(g->m, whole)
				      : attn_local_size(g, type, i);
}

int64_t
attn_elems(const struct attn_group *g, const struct ir_type *type,
	   dim_id whole)
{
	int64_t elems = 1;
	uint32_t i;

	for (i = 0; i < type->ndims; i++) {
		elems *= size_of(g, type, i, whole);
	}
	return elems;
}

static void
row_major(const struct attn_group *g, const struct ir_type *type,
	  dim_id whole, int64_t stride[IR_MAX_DIMS])
{
	int64_t n = 1;
	uint32_t i;

	for (i = type->ndims; i-- > 0; ) {
		stride[i] = n;
		n *= size_of(g, type, i, whole);
	}
}

/* The stride of a dim; 0: the type, as that of sinks, does not have it. */
static int64_t
stride_of(const struct ir_type *type, const int64_t *stride, dim_id d)
{
	int at = ir_type_at(type, d);

	return at < 0 ? 0 : stride[at];
}

/* Names strides by the role of their dims. */
static void
name_strides(const struct attn *t, const struct ir_type *type, bool keys,
	     const int64_t *stride, struct attn_view *v)
{
	dim_id pos = t->dim[keys ? ATTN_KEYS : ATTN_QUERIES];
	dim_id head = t->dim[keys ? ATTN_KV : ATTN_HEADS];
	uint32_t i;

	for (i = 0; i < t->nbatch; i++) {
		v->batch[i] = stride_of(type, stride, t->batch[i]);
	}
	v->pos = stride_of(type, stride, pos);
	v->head = stride_of(type, stride, head);
	v->col = type->ndims > t->nbatch + 2 ? stride[type->ndims - 1] : 1;
}

void
attn_view_shared(const struct attn *t, const struct ir_type *type,
		 dim_id whole, bool keys, int64_t at, enum ir_dtype dtype,
		 struct attn_view *out)
{
	int64_t stride[IR_MAX_DIMS];

	row_major(t->g, type, whole, stride);
	*out = (struct attn_view){ .place = ATTN_SHARED, .shared = at,
				   .dtype = dtype };
	name_strides(t, type, keys, stride, out);
}

bool
attn_view_memory(const struct attn *t, value_id v, bool keys, bool written,
		 struct attn_view *out)
{
	struct attn_group *g = t->g;
	const struct cg_site site = { g->m, g->a, g->at, g->out, NULL };
	const struct ir_type *type = ir_type(g->m, v);
	int64_t stride[IR_MAX_DIMS];

	*out = (struct attn_view){ .place = ATTN_OPERAND,
				   .dtype = (enum ir_dtype)type->dtype };
	g->why = g->back->refuses ? g->back->refuses(out->dtype) : NULL;
	if (g->why) {
		return false;
	}
	if (!written) {
		if (!cg_view(&site, g->x, v, &out->memory)) {
			return false;
		}
		name_strides(t, type, keys, out->memory.stride, out);
		return true;
	}
	out->memory = (struct cg_view){ .dtype = out->dtype };
	out->memory.operand = cg_operand(g->a, g->out, v, 0, true);
	row_major(g, type, 0, stride);
	name_strides(t, type, keys, stride, out);
	return true;
}

/* What the node casts to a wider type; the node itself if it does not. */
static const struct ir_node *
before_cast(const struct attn_group *g, const struct ir_node *n)
{
	value_id v = n->op == IR_CAST ? ir_args(g->m, n)[0] : 0;

	return v && ir_dtypes[ir_type(g->m, v)->dtype].bits <
		    ir_dtypes[ir_type(g->m, n->result)->dtype].bits
		? ir_node(g->m, g->m->values.at[v].node) : n;
}

bool
attn_view_selected(const struct attn *t, value_id v, struct attn_view *out)
{
	struct attn_group *g = t->g;
	const struct cg_site site = { g->m, g->a, g->at, g->out, NULL };
	const struct ir_node *n = ir_node(g->m, g->m->values.at[v].node);
	const struct ir_type *rows, *index;
	dim_id of;
	uint32_t i;

	*out = (struct attn_view){ .place = ATTN_OPERAND, .is_selected = true };
	n = before_cast(g, n);
	if (n->op != IR_GATHER) {
		return false;
	}
	rows = ir_type(g->m, ir_args(g->m, n)[0]);
	index = ir_type(g->m, ir_args(g->m, n)[1]);
	of = ir_attr(g->m, n, IR_ATTR_OF)->dims[0];
	out->dtype = (enum ir_dtype)rows->dtype;
	if (!g->back->selects(t, out->dtype) ||
	    rows->cut[ir_type_at(rows, of)] ||
	    ir_type_at(index, t->dim[ATTN_KEYS]) < 0 ||
	    !cg_view(&site, g->x, ir_args(g->m, n)[0], &out->memory) ||
	    !cg_view(&site, g->x, ir_args(g->m, n)[1], &out->index)) {
		return false;
	}
	for (i = 0; i < t->nbatch; i++) {
		out->batch[i] = stride_of(rows, out->memory.stride,
					  t->batch[i]);
		out->index_batch[i] = stride_of(index, out->index.stride,
						t->batch[i]);
	}
	out->pos = stride_of(rows, out->memory.stride, of);
	out->index_pos = stride_of(index, out->index.stride,
				   t->dim[ATTN_KEYS]);
	out->head = stride_of(rows, out->memory.stride, t->dim[ATTN_KV]);
	out->col = out->memory.stride[rows->ndims - 1];
	return true;
}

int64_t
attn_alloc_shared(struct attn_group *g, int64_t bytes)
{
	return cg_reserve_shared(g->out, g->back->align, bytes);
}

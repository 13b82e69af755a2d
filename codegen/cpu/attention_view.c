/*
 * Where attention finds its operands: views of what lies in memory are read
 * through, by strides; all else is made by a step before.
 */
#include "codegen/cpu/attention_group.h"

/* How the elements of a value lie in the value that it is a view of. */
struct layout {
	value_id base;
	int64_t offset;
	uint32_t n;
	dim_id dims[IR_MAX_DIMS];
	int64_t stride[IR_MAX_DIMS];
};

bool
att_elem(uint8_t dtype, enum ll_base *elem)
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

int64_t
att_local(const struct att_group *g, const struct ir_type *type, uint32_t i)
{
	return cg_cpu_local(g->c, type->dims[i], type->cut[i]);
}

/* Row-major over what the rank has; `whole` has all positions of a dim. */
static void
lay_out(const struct att_group *g, const struct ir_type *type, dim_id whole,
	struct layout *out)
{
	int64_t stride = 1;
	uint32_t i;

	*out = (struct layout){ .n = type->ndims };
	for (i = type->ndims; i-- > 0; ) {
		out->dims[i] = type->dims[i];
		out->stride[i] = stride;
		stride *= type->dims[i] == whole
			? ir_dim_size(g->c->m, whole)
			: att_local(g, type, i);
	}
}

int64_t
att_elems(const struct att_group *g, const struct ir_type *type, dim_id whole)
{
	int64_t elems = 1;
	uint32_t i;

	for (i = 0; i < type->ndims; i++) {
		elems *= type->dims[i] == whole
			? ir_dim_size(g->c->m, whole)
			: att_local(g, type, i);
	}
	return elems;
}

static bool
in_memory(const struct att_group *g, value_id v)
{
	uint32_t i;

	for (i = 0; i < g->k->inputs.n; i++) {
		if (g->k->inputs.at[i].value == v) {
			return true;
		}
	}
	return false;
}

static uint32_t
find_dim(const struct layout *l, dim_id d)
{
	uint32_t i;

	for (i = 0; i < l->n && l->dims[i] != d; i++) {
	}
	return i;
}

static void
remove_dim(struct layout *l, uint32_t at)
{
	l->n--;
	for (; at < l->n; at++) {
		l->dims[at] = l->dims[at + 1];
		l->stride[at] = l->stride[at + 1];
	}
}

static bool layout_of(const struct att_group *g, value_id v,
		      struct layout *out);

/* The layout of what a view makes of its operand's. */
static bool
layout_behind(const struct att_group *g, const struct ir_node *n,
	      struct layout *out)
{
	const struct ir_attr *of = ir_attr(g->c->m, n, IR_ATTR_OF);
	const struct ir_attr *to = ir_attr(g->c->m, n, IR_ATTR_TO);
	const struct ir_type *type = ir_type(g->c->m, n->result);
	uint32_t i;

	switch (n->op) {
	case IR_SLICE:
	case IR_SELECT:
		i = find_dim(out, of->dims[0]);
		out->offset += out->stride[i] *
			       ir_attr_int(g->c->m, n, IR_ATTR_AT, 0);
		if (n->op == IR_SLICE) {
			out->dims[i] = to->dims[0];
		} else {
			remove_dim(out, i);
		}
		return true;
	case IR_EXPAND:
		for (i = 0; i < type->ndims; i++) {
			if (find_dim(out, type->dims[i]) == out->n) {
				out->dims[out->n] = type->dims[i];
				out->stride[out->n++] = 0;
			}
		}
		return true;
	case IR_ARRANGE:	/* dims are found by name */
	case IR_CACHE:
		return true;
	default:
		return false;
	}
}

static bool
layout_of(const struct att_group *g, value_id v, struct layout *out)
{
	node_id maker = g->c->m->values.at[v].node;
	const struct ir_node *n = ir_node(g->c->m, maker);

	if (in_memory(g, v)) {
		lay_out(g, ir_type(g->c->m, v), 0, out);
		out->base = v;
		return true;
	}
	return maker && n->nargs == 1 && !att_has(g, maker) &&
	       layout_of(g, ir_args(g->c->m, n)[0], out) &&
	       layout_behind(g, n, out);
}

/* The strides by what the dims are to attention. */
static void
strides(const struct att *t, const struct layout *l, dim_id pos, dim_id head,
	dim_id col, struct att_view *v)
{
	uint32_t i;

	for (i = 0; i < t->nbatch; i++) {
		v->batch[i] = l->stride[find_dim(l, t->batch[i])];
	}
	v->pos = l->stride[find_dim(l, pos)];
	v->head = l->stride[find_dim(l, head)];
	v->col = col ? l->stride[find_dim(l, col)] : 1;
	v->offset = l->offset;
}

void
att_view_shared(const struct att_group *g, const struct att *t,
		const struct ir_type *type, dim_id whole, bool keys,
		int64_t at, struct att_view *out)
{
	dim_id pos = t->dim[keys ? ATT_KEYS : ATT_QUERIES];
	dim_id head = t->dim[keys ? ATT_KV : ATT_HEADS];
	struct layout l;

	lay_out(g, type, whole, &l);
	*out = (struct att_view){ .place = ATT_SHARED, .shared = at,
				  .elem = LL_F32 };
	strides(t, &l, pos, head, type->ndims > t->nbatch + 2
				  ? type->dims[type->ndims - 1] : 0, out);
}

bool
att_view_memory(const struct att_group *g, const struct att *t, value_id v,
		bool keys, bool written, struct att_view *out)
{
	const struct ir_type *type = ir_type(g->c->m, v);
	dim_id pos = t->dim[keys ? ATT_KEYS : ATT_QUERIES];
	dim_id head = t->dim[keys ? ATT_KV : ATT_HEADS];
	struct layout l;

	*out = (struct att_view){ .place = ATT_OPERAND };
	if (!att_elem(type->dtype, &out->elem)) {
		*g->why = "attention on a CPU takes numbers of 16 bits and "
			  "more: cast them first";
		return false;
	}
	if (written) {
		lay_out(g, type, 0, &l);
		l.base = v;
	} else if (!layout_of(g, v, &l)) {
		*g->why = NULL;
		return false;
	}
	out->operand = cg_operand(g->c->a, g->out, l.base, 0, written);
	strides(t, &l, pos, head, type->ndims > t->nbatch + 2
				  ? type->dims[type->ndims - 1] : 0, out);
	return true;
}

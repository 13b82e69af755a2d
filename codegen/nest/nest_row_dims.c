/*
 * A node that reduces dims: which dims are those of its rows, which are those
 * of a row's elements, and where a number of each row lies.
 */
#include "codegen/nest/nest_row.h"

#include <string.h>

uint32_t
nest_row_cut(const struct nest *n, const struct ir_node *node,
	     const struct ir_factor *f, dim_id d)
{
	uint32_t k;

	for (k = 0; k < node->nargs; k++) {
		const struct ir_type *t = ir_type(n->in.m,
					ir_args(n->in.m, node)[k]);
		int i = f->in >> k & 1 ? ir_type_at(t, d) : -1;

		if (i >= 0) {
			return t->cut[i];
		}
	}
	return 0;
}

/* Factors that are reduced: those that are not in the result, and `over` of
 * norms. */
static bool
is_over(const struct ir_node *node, const struct ir_factor *f)
{
	if (f->out) {
		return strcmp(f->name, "over") == 0 && node->op != IR_SCATTER;
	}
	return (node->op != IR_DOT_AT && node->op != IR_DOT_AT_F32) ||
	       strcmp(f->name, "of") != 0;
}

void
nest_row_bind(struct nest *n, const struct ir_node *node, struct nest_row *s)
{
	const struct ir_type *out = ir_type(n->in.m, node->result);
	uint32_t i, k;

	memset(s, 0, sizeof *s);
	s->n = n;
	s->node = node;
	s->size = 1;
	ir_bind(n->in.m, node, &s->r);
	for (k = 0; k < s->r.nf; k++) {
		const struct ir_factor *f = &s->r.f[k];

		for (i = 0; is_over(node, f) && i < f->n; i++) {
			struct ir_type *o = &s->over;

			o->dims[o->ndims] = f->dims[i];
			o->cut[o->ndims] = nest_row_cut(n, node, f, f->dims[i]);
			s->over_mask |= nest_dim_of(n, f->dims[i],
						    o->cut[o->ndims++])->mask;
			s->size *= (double)ir_dim_size(n->in.m, f->dims[i]);
		}
	}
	for (i = 0; i < out->ndims; i++) {
		if (!ir_type_has(&s->over, out->dims[i])) {
			s->rows.dims[s->rows.ndims] = out->dims[i];
			s->rows.cut[s->rows.ndims++] = out->cut[i];
		}
	}
}

uint32_t
nest_row_axes(const struct nest_row *s)
{
	const struct ir_attr *on = ir_attr(s->n->in.m, s->node, IR_ATTR_ON);
	uint32_t i, axes = 0;

	for (i = 0; on && i < on->ndims; i++) {
		axes |= (uint32_t)1 << on->dims[i];
	}
	return axes;
}

void
nest_row_index(struct nest_row *s, struct nest_env *env)
{
	uint32_t i;

	env->n = 0;
	for (i = 0; i < s->rows.ndims; i++) {
		nest_env_bind(env, s->rows.dims[i], nest_dim_of(s->n,
			s->rows.dims[i], s->rows.cut[i])->index);
	}
}

nest_id
nest_row_offset(struct nest_row *s, const struct nest_env *env)
{
	nest_id at[IR_MAX_DIMS];
	uint32_t i;

	for (i = 0; i < s->rows.ndims; i++) {
		at[i] = nest_env_at(env, s->rows.dims[i]);
	}
	return nest_offset(s->n, 0, &s->rows, at);
}

int64_t
nest_row_count(const struct nest *n, const struct ir_type *t)
{
	int64_t v = 1;
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		v *= nest_local_size(n, t->dims[i], t->cut[i]);
	}
	return v;
}

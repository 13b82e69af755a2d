/*
 * Indices by the names of dims, and operands at such an index.  Operands are
 * pulled through nest.value_at, so that this file and those that read operands
 * stay below nest_pull.c.
 */
#include "codegen/nest/nest.h"

void
nest_env_bind(struct nest_env *env, dim_id d, nest_id at)
{
	uint32_t i;

	for (i = 0; i < env->n && env->dim[i] != d; i++) {
	}
	env->dim[i] = d;
	env->at[i] = at;
	env->n += i == env->n;
}

void
nest_env_init(const struct nest *n, value_id v, const nest_id *at,
	      struct nest_env *env)
{
	const struct ir_type *t = ir_type(n->in.m, v);
	uint32_t i;

	env->n = 0;
	for (i = 0; i < t->ndims; i++) {
		nest_env_bind(env, t->dims[i], at[i]);
	}
}

nest_id
nest_env_at(const struct nest_env *env, dim_id d)
{
	uint32_t i;

	for (i = 0; i < env->n && env->dim[i] != d; i++) {
	}
	return i < env->n ? env->at[i] : 0;
}

nest_id
nest_operand(struct nest *n, const struct ir_node *node, uint32_t k,
	     const struct nest_env *env)
{
	value_id v = ir_args(n->in.m, node)[k];
	const struct ir_type *t = ir_type(n->in.m, v);
	nest_id at[IR_MAX_DIMS];
	uint32_t i;

	for (i = 0; i < t->ndims; i++) {
		at[i] = nest_env_at(env, t->dims[i]);
		if (!at[i]) {
			die("%s: operand %u has a dim without an index",
			    ir_ops[node->op].name, k);
		}
	}
	return n->value_at(n, v, at);
}

/* The offset along dims from..to, where positions of the last one are `size`
 * apart. */
static nest_id
offset_along(struct nest *n, const struct ir_type *t, const nest_id *at,
	     uint32_t from, uint32_t to, int64_t size)
{
	nest_id e = nest_int(n, 0);
	uint32_t i;

	for (i = to; i-- > from; ) {
		e = nest_binary(n, NEST_ADD, e, nest_binary(n, NEST_MUL, at[i],
						nest_int(n, size)));
		size *= nest_local_size(n, t->dims[i], t->cut[i]);
	}
	return e;
}

nest_id
nest_offset(struct nest *n, value_id v, const struct ir_type *t,
	    const nest_id *at)
{
	uint32_t last = t->ndims - 1u;
	int64_t row;
	nest_id e;

	if (!v || !n->in.apart || !n->in.apart[v]) {
		return offset_along(n, t, at, 0, t->ndims, 1);
	}
	row = nest_local_size(n, t->dims[last], t->cut[last]);
	e = offset_along(n, t, at, 0, last,
			 cg_row_pitch(n->in.m, n->in.apart, v, row));
	return nest_binary(n, NEST_ADD, e, at[last]);
}

/* a * x + b */
static nest_id
scaled_add(struct nest *n, int64_t a, nest_id x, nest_id b)
{
	return nest_binary(n, NEST_ADD, nest_binary(n, NEST_MUL, x,
						    nest_int(n, a)), b);
}

nest_id
nest_panel_offset(struct nest *n, const struct ir_type *t, const nest_id *at,
		  const struct cg_panel *p)
{
	int64_t per = 32 / ir_dtypes[t->dtype].bits, size = 1;
	nest_id lanes = nest_int(n, p->lanes), words = nest_int(n, per);
	nest_id row, k, lane, elem;
	uint32_t i = t->ndims;

	while (size < p->row) {
		i--;
		size *= nest_local_size(n, t->dims[i], t->cut[i]);
	}
	k = offset_along(n, t, at, i, t->ndims, 1);
	row = offset_along(n, t, at, 0, i, 1);
	lane = nest_binary(n, NEST_REM, row, lanes);
	row = nest_binary(n, NEST_DIV, row, lanes);
	elem = nest_binary(n, NEST_REM, k, words);
	k = nest_binary(n, NEST_DIV, k, words);
	k = scaled_add(n, p->row / per, row, k);
	k = scaled_add(n, p->lanes, k, lane);
	return scaled_add(n, per, k, elem);
}

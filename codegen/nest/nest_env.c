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

nest_id
nest_offset(struct nest *n, const struct ir_type *t, const nest_id *at)
{
	nest_id e = nest_int(n, 0);
	int64_t stride = 1;
	uint32_t i;

	for (i = t->ndims; i-- > 0; ) {
		e = nest_binary(n, NEST_ADD, e, nest_binary(n, NEST_MUL, at[i],
						nest_int(n, stride)));
		stride *= nest_local_size(n, t->dims[i], t->cut[i]);
	}
	return e;
}

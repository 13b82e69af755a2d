/*
 * Nodes that reduce dims: sums, norms, softmax, cross-entropy, and
 * contractions that have no kernel of their own.  Their values are made of the
 * statistics of a row.
 */
#include "codegen/nest/nest_row.h"

bool
nest_is_rowwise(const struct ir_node *node)
{
	switch (node->op) {
	case IR_SUM:
	case IR_MEAN:
	case IR_AMAX:
	case IR_SOFTMAX:
	case IR_RMSNORM:
	case IR_LAYERNORM:
	case IR_CROSS_ENTROPY:
	case IR_LOG_SUM_EXP:
	case IR_DOT:
	case IR_DOT_F32:
	case IR_DOT_AT:
	case IR_DOT_AT_F32:
	case IR_DOT_TO:
	case IR_SCATTER:
		return true;
	default:
		return false;
	}
}

static nest_id
norm(struct nest_row *s, const struct nest_env *env)
{
	struct nest *n = s->n;
	bool centred = s->node->op == IR_LAYERNORM;
	nest_id x = nest_operand(n, s->node, 0, env), v, mean, eps;

	mean = centred ? nest_row_mean(s, env) : nest_num(n, 0);
	v = nest_row_statistic(s, centred, env);
	if (!x || !v || !mean) {
		return 0;
	}
	eps = nest_num(n, ir_attr_num(n->in.m, s->node, IR_ATTR_EPS, 0));
	v = nest_binary(n, NEST_MUL, v, nest_num(n, 1 / s->size));
	v = nest_unary(n, NEST_SQRT, nest_binary(n, NEST_ADD, v, eps));
	v = nest_binary(n, NEST_DIV, nest_num(n, 1), v);
	v = nest_binary(n, NEST_MUL, nest_binary(n, NEST_SUB, x, mean), v);
	v = nest_binary(n, NEST_MUL, v, nest_operand(n, s->node, 1, env));
	return centred ? nest_binary(n, NEST_ADD, v,
				     nest_operand(n, s->node, 2, env)) : v;
}

static nest_id
log_sum_exp(struct nest_row *s, const struct nest_env *env)
{
	struct nest *n = s->n;
	nest_id x = nest_row_statistic(s, NEST_PART_ABOVE, env);

	x = nest_unary(n, NEST_LOG, x);
	return nest_binary(n, NEST_ADD,
			   nest_row_statistic(s, NEST_PART_MOST, env), x);
}

nest_id
nest_rowwise(struct nest *n, const struct ir_node *node, const nest_id *at)
{
	struct nest_env env;
	struct nest_row s;
	nest_id x, sum;

	nest_row_bind(n, node, &s);
	nest_env_init(n, node->result, at, &env);
	switch (node->op) {
	case IR_MEAN:
		return nest_row_mean(&s, &env);
	case IR_SOFTMAX:
		x = nest_row_exponential(&s, NEST_PART_ABOVE, &env);
		sum = nest_row_statistic(&s, NEST_PART_ABOVE, &env);
		sum = nest_binary(n, NEST_DIV, nest_num(n, 1), sum);
		return nest_binary(n, NEST_MUL, x, sum);
	case IR_CROSS_ENTROPY:
		x = log_sum_exp(&s, &env);
		return nest_binary(n, NEST_SUB, x, nest_row_label(&s, &env));
	case IR_LOG_SUM_EXP:
		return log_sum_exp(&s, &env);
	case IR_RMSNORM:
	case IR_LAYERNORM:
		return norm(&s, &env);
	default:
		return nest_row_statistic(&s, 0, &env);
	}
}

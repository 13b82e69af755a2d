/*
 * Elementwise ops as expressions of their operands' elements.
 */
#include "codegen/nest/nest.h"

#include <math.h>

static nest_id
times(struct nest *n, nest_id x, double v)
{
	return nest_binary(n, NEST_MUL, x, nest_num(n, v));
}

static nest_id
plus(struct nest *n, nest_id x, double v)
{
	return nest_binary(n, NEST_ADD, x, nest_num(n, v));
}

static nest_id
mul(struct nest *n, nest_id x, nest_id y)
{
	return nest_binary(n, NEST_MUL, x, y);
}

static nest_id
map_one(struct nest *n, enum ir_op op, nest_id x)
{
	static const uint8_t same[][2] = {
		{ IR_EXP, NEST_EXP }, { IR_LOG, NEST_LOG },
		{ IR_SQRT, NEST_SQRT }, { IR_TANH, NEST_TANH },
		{ IR_SIGMOID, NEST_SIGMOID }, { IR_ERF, NEST_ERF }
	};
	nest_id zero = nest_num(n, 0), one;
	size_t i;

	for (i = 0; i < sizeof same / sizeof *same; i++) {
		if (same[i][0] == op) {
			return nest_unary(n, same[i][1], x);
		}
	}
	switch (op) {
	case IR_CAST:
	case IR_CACHE:
		return x;
	case IR_NEG:
		return times(n, x, -1);
	case IR_RSQRT:
		x = nest_unary(n, NEST_SQRT, x);
		return nest_binary(n, NEST_DIV, nest_num(n, 1), x);
	case IR_COS:
		return nest_unary(n, NEST_COS, nest_cast(n, x, NEST_WIDE));
	case IR_STEP:
		one = nest_num(n, 1);
		return nest_select(n, nest_binary(n, NEST_LT, zero, x), one,
				   zero);
	case IR_RELU:
		return nest_binary(n, NEST_MAX, x, zero);
	case IR_GELU_ERF:
		one = plus(n, nest_unary(n, NEST_ERF, times(n, x, 1 / sqrt(2))),
			   1);
		return mul(n, times(n, x, 0.5), one);
	default:
		return 0;
	}
}

static nest_id
map_two(struct nest *n, enum ir_op op, nest_id x, nest_id y)
{
	static const uint8_t of[][2] = {
		{ IR_ADD, NEST_ADD }, { IR_SUB, NEST_SUB },
		{ IR_MUL, NEST_MUL }, { IR_DIV, NEST_DIV },
		{ IR_QUANTIZE, NEST_DIV }, { IR_RESCALE, NEST_MUL },
		{ IR_MIN, NEST_MIN }, { IR_MAX, NEST_MAX }
	};
	size_t i;

	for (i = 0; i < sizeof of / sizeof *of; i++) {
		if (of[i][0] == op) {
			return nest_binary(n, of[i][1], x, y);
		}
	}
	return 0;
}

/* A map that ops.def defines by other maps. */
static nest_id
defined_map(struct nest *n, const struct ir_node *node,
	    const struct ir_definition *d, nest_id x)
{
	nest_id stack[IR_MAX_DEFINE];
	uint32_t top = 0, i;

	for (i = 0; i < d->n; i++) {
		const struct ir_define_step *s = &d->step[i];

		switch (s->kind) {
		case IR_DEFINE_OPERAND:
			stack[top++] = x;
			break;
		case IR_DEFINE_NUMBER:
			stack[top++] = nest_num(n, s->number);
			break;
		case IR_DEFINE_ATTR:
			stack[top++] = nest_num(n, ir_attr_num(n->in.m, node,
							       s->key, 0));
			break;
		case IR_DEFINE_MAP:
			if (ir_ops[s->op].nargs == 2) {
				top--;
				stack[top - 1] = map_two(n, s->op,
							 stack[top - 1],
							 stack[top]);
			} else {
				stack[top - 1] = map_one(n, s->op,
							 stack[top - 1]);
			}
			break;
		}
	}
	return stack[0];
}

nest_id
nest_map(struct nest *n, const struct ir_node *x, nest_id a, nest_id b)
{
	struct ir_definition d;

	if (ir_define(x->op, &d)) {
		return defined_map(n, x, &d, a);
	}
	return x->nargs == 2 ? map_two(n, x->op, a, b) : map_one(n, x->op, a);
}

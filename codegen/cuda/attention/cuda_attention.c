/*
 * A kernel group of attention for a GPU: how nests, copies and sets of
 * codegen/attention/attention.c are written here.
 */
#include "codegen/cuda/attention/cuda_attention.h"

#include <string.h>

void
ca_nest(const struct attn_group *g, const struct attn_nest *from,
	struct cu_nest *n)
{
	uint32_t i;

	*n = (struct cu_nest){ .k = from->x, .space = from->space };
	for (i = 0; i < from->nodes.n; i++) {
		VEC_PUSH(g->a, &n->nodes, from->nodes.at[i]);
	}
	for (i = 0; i < from->leaves.n; i++) {
		const struct attn_leaf *had = &from->leaves.at[i];
		struct cu_leaf leaf = { .value = had->value };

		leaf.at = arena_printf(g->a, "((f32 *)(a.shared + %lld))",
				       (long long)had->shared);
		memcpy(leaf.stride, had->stride, sizeof leaf.stride);
		VEC_PUSH(g->a, &n->leaves, leaf);
	}
}

static bool
nest(struct attn_group *g, const struct attn_nest *from)
{
	struct cu_nest n;

	ca_nest(g, from, &n);
	return cu_nest_steps(g->k, &n);
}

static bool
nest_value(struct attn_group *g, const struct attn_nest *from, value_id v,
	   int64_t *at)
{
	struct cu_nest n;

	ca_nest(g, from, &n);
	return cu_nest_value(g->k, &n, v, at);
}

static bool
is_back(const struct attn *t)
{
	return t->made[ATTN_DQ].value || t->made[ATTN_DK].value ||
	       t->made[ATTN_DV].value;
}

/* Products of 16 bits, if all that is multiplied is so. */
static void
open_set(struct attn *t)
{
	const struct ir_module *m = t->g->m;
	uint32_t i;

	t->k = t->g->k;
	t->tile = (enum ir_dtype)ir_type(m, t->values[ATTN_Q])->dtype;
	for (i = ATTN_K; i <= ATTN_G; i++) {
		if (t->values[i] &&
		    ir_type(m, t->values[i])->dtype != t->tile) {
			t->tile = IR_F32;
		}
	}
	if (t->tile != IR_BF16 && t->tile != IR_F16) {
		t->tile = IR_F32;
	}
	t->whole = is_back(t) ? ca_back_is_whole(t) : ca_forward_is_whole(t);
}

static bool
emit_set(struct attn *t)
{
	return is_back(t) ? ca_back(t) : ca_forward(t);
}

static const struct attn_back back = {
	.align = 256,
	.open = open_set,
	.emit = emit_set,
	.nest = nest,
	.nest_value = nest_value,
	.follow = ca_follow,
	.copy = ca_copy
};

bool
cu_attention_steps(struct cu_kernel *k, const struct kernel *x)
{
	struct attn_group *g = arena_alloc(k->c->a, sizeof *g);

	*g = (struct attn_group){ .back = &back, .m = k->c->m, .a = k->c->a,
				  .at = k->c->at, .out = k->out, .x = x,
				  .k = k };
	if (!attn_steps(g)) {
		k->why = g->why ? g->why : k->why;
		return false;
	}
	ca_helpers(k);
	return true;
}

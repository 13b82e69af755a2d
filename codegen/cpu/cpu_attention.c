/*
 * Kernel groups of attention on a CPU: codegen/attention/ takes a group apart
 * and leads; this file says how each set of nodes is emitted here.
 */
#include "codegen/cpu/cpu_attention.h"

static bool
nest(struct attn_group *g, const struct attn_nest *from)
{
	struct cg_nest n;

	att_make_nest(&g->sets[0], from, &n);
	return cg_nest_steps(g->cpu, g->out, &n, &g->why);
}

static bool
nest_value(struct attn_group *g, const struct attn_nest *from, value_id v,
	   int64_t *at)
{
	struct cg_nest n;

	att_make_nest(&g->sets[0], from, &n);
	return cg_nest_value(g->cpu, g->out, &n, v, at, &g->why);
}

/* ---- all of it ---- */

/*
 * Whether LSE needs no step of its own: one set alone uses it, and has all keys
 * of a query at once.
 */
static bool
is_folded(const struct attn_group *g, uint32_t set)
{
	const struct attn *t = &g->sets[set], *user = NULL;
	value_id lse = t->made[ATTN_LSE].value;
	uint32_t i;

	if (!lse || t->made[ATTN_OUT].value || kernel_makes(g->x, lse)) {
		return false;
	}
	for (i = 0; i < g->after.n; i++) {
		if (g->after.at[i].from & attn_bit(set, ATTN_LSE)) {
			return false;
		}
	}
	for (i = 0; i < g->nsets; i++) {
		if (g->sets[i].values[ATTN_L] != lse) {
			continue;
		}
		if (user) {
			return false;
		}
		user = &g->sets[i];
	}
	return user && att_keys_block(user->keys) >= user->keys &&
	       (user->made[ATTN_DK].value || user->made[ATTN_DV].value) &&
	       (!user->made[ATTN_DQ].value || att_is_joint(user));
}

static const char *
refuses(enum ir_dtype dtype)
{
	enum ll_base elem;

	return cg_cpu_elem(dtype, &elem) ? NULL
		: "attention on a CPU takes numbers of 16 bits and more: "
		  "cast them first";
}

/* What it reads it widens. */
static bool
selects(const struct attn *t, enum ir_dtype dtype)
{
	(void)t;
	return dtype == IR_F8E4M3 || dtype == IR_F8E5M2 || !refuses(dtype);
}

static void
open_set(struct attn *t)
{
	t->l = t->g->cpu->ll;
	t->lanes = ll_lanes(t->l, LL_F32);
	t->tile = IR_F32;
	t->whole = true;
}

static bool
emit_set(struct attn *t)
{
	bool keys = t->made[ATTN_DK].value || t->made[ATTN_DV].value;

	if (t->made[ATTN_OUT].value || t->made[ATTN_LSE].value) {
		return att_forward(t);
	}
	return (!keys || att_keys_gradients(t)) &&
	       (!t->made[ATTN_DQ].value || att_is_joint(t) ||
		att_queries_gradient(t));
}

static const struct attn_back back = {
	.align = 64,
	.refuses = refuses,
	.selects = selects,
	.open = open_set,
	.is_folded = is_folded,
	.emit = emit_set,
	.nest = nest,
	.nest_value = nest_value,
	.follow = att_follow,
	.copy = att_copy_rows
};

bool
cg_attention_steps(struct cg_cpu *c, struct cg_kernel *out,
		   const struct kernel *k, const char **why)
{
	struct attn_group *g = arena_alloc(c->a, sizeof *g);
	bool ok;

	*g = (struct attn_group){ .back = &back, .m = c->m, .a = c->a,
				  .at = c->at, .out = out, .x = k,
				  .cpu = c };
	ok = attn_steps(g);
	*why = g->why;
	return ok;
}

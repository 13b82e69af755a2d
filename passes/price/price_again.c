/*
 * Frameworks that build a layer again for its backward pass run all of it,
 * its last contraction and what is behind that too, though nobody asks for
 * their result; a plan that says recompute = full builds only what is
 * asked for.
 */
#include "passes/price/price.h"

#include <string.h>

static bool
all_again(struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "plan.recompute");

	return s && s->kind != SET_NUM &&
	       strcmp(intern_text(&m->ctx->syms, s->text), "full") == 0;
}

/* Does the region, or one in it, make the same value once more? */
static bool
made_in(const struct ir_module *m, region_id r, const struct ir_node *of)
{
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);

		if (n->region && made_in(m, n->region, of)) {
			return true;
		}
		if (n->op == of->op && n->span.lo == of->span.lo &&
		    n->span.hi == of->span.hi && n->result &&
		    ir_type_equal(ir_type(m, n->result),
				  ir_type(m, of->result))) {
			return true;
		}
	}
	return false;
}

static bool
is_lost(const struct pricing *p, const struct kernel *k, region_id back)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(p->m, k->nodes.at[i]);

		if (ir_is(n->op, IRF_CONTRACTS)) {
			return !made_in(p->m, back, n);
		}
	}
	return false;
}

/* What is lost stands behind the last contraction that is not. */
static void
price_body(struct pricing *p, const struct kernel_list *l, region_id back,
	   struct price_func *f)
{
	struct price_func once = { 0 };
	bool lost = false;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			price_body(p, k->body, back, &once);
			continue;
		}
		if (k->kind == KERNEL_CONTRACTION) {
			lost = is_lost(p, k, back);
		}
		if (lost) {
			price_kernel(p, k, &once);
		}
	}
	price_add(f, &once, (double)l->count);
}

void
price_again(struct pricing *p, const struct kernels *forward, func_id back,
	    struct price_func *f)
{
	uint32_t i;

	if (!all_again(p->m)) {
		return;
	}
	for (i = 0; i < forward->top->at.n; i++) {
		const struct kernel *k = &forward->top->at.at[i];

		if (k->body) {
			price_body(p, k->body, p->m->funcs.at[back].body, f);
		}
	}
}

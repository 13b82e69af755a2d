/*
 * chunk: in how many parts ranks talk beside a contraction.
 *
 * Needs the rank programs, since a function's kernels are found only there.
 * It says `chunks` of a talk that runs by parts together with the contraction
 * that makes its operand, or the first one that reads what it brings; whoever
 * finds the kernels of the program takes it from there (parts.c).  The plan
 * says how many, or the target's prices do.
 */
#include "passes/pass.h"
#include "passes/plan.h"
#include "passes/price.h"

/* The node again, with one attribute more. */
static void
say(struct ir_module *m, node_id id, int64_t n)
{
	struct ir_node *node = &m->nodes.at[id];
	struct ir_attr chunks = { .key = IR_ATTR_CHUNKS, .i = n }, a;
	uint32_t first = m->attrs.n, i;

	for (i = 0; i < node->nattrs; i++) {
		a = m->attrs.at[node->attrs + i];
		VEC_PUSH(&m->ctx->perm, &m->attrs, a);
	}
	VEC_PUSH(&m->ctx->perm, &m->attrs, chunks);
	node->attrs = first;
	node->nattrs++;
}

static int64_t
say_all(struct ir_module *m, const struct kernel_list *l)
{
	int64_t n = 0;
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *k = &l->at.at[i];

		if (k->body) {
			n += say_all(m, k->body);
		} else if (k->kind == KERNEL_COLLECTIVE && k->parts.n &&
			   !ir_attr(m, ir_node(m, k->nodes.at[0]),
				    IR_ATTR_CHUNKS)) {
			say(m, k->nodes.at[0], k->parts.n);
			n++;
		}
	}
	return n;
}

/* For prices; false: the ranks do not fit together, as pass check will say. */
static bool
open_ranks(struct ir_module *m, struct ranks *r)
{
	struct sched *s = ranks_schedule(m, &m->ctx->tmp);
	const char *why;

	return s && ranks_open(r, m, s, &why);
}

bool
pass_chunk(struct pass_ctx *p, struct ir_module *m)
{
	static const struct price_traits plain;
	struct ranks r;
	struct pricing x = { .r = &r, .m = m, .t = p->group,
			     .traits = &plain };
	int64_t chunks = plan_chunks(m), n = 0;
	struct kernels **all;
	func_id f;

	if (chunks == 1 || (!chunks && (!p->group || !open_ranks(m, &r)))) {
		return m->ctx->diags.errors == 0;
	}
	all = kernels_all(m, &m->ctx->tmp);
	for (f = 1; f < m->funcs.n; f++) {
		parts_choose(&x, chunks, all[f]->top);
		n += say_all(m, all[f]->top);
	}
	pass_count(p, "talks in parts", n);
	return true;
}

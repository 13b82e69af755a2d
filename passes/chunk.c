/*
 * chunk: splits collectives into parts that overlap with a contraction.
 *
 * The contraction is the one that computes the collective's operand, or the
 * first that reads its result.  The number of parts is the plan's `chunks`, or
 * the one that the target's prices favor; it becomes the attribute `chunks` of
 * the collective, which kernels/parts.c reads.  It runs on rank programs, since
 * only in them are the kernels of a function known.
 */
#include "ir/memo.h"
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"

/* Adds the attribute `chunks` = n to the node. */
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
		} else if (k->kind == KERNEL_COLLECTIVE && k->parts &&
			   !ir_attr(m, ir_node(m, k->nodes.at[0]),
				    IR_ATTR_CHUNKS)) {
			say(m, k->nodes.at[0], k->parts->n);
			n++;
		}
	}
	return n;
}

/*
 * Finds the ranks, to price them.  False if they do not fit together, which
 * pass `check` reports.  They are not cached: this pass changes the programs.
 */
static bool
open_ranks(struct ir_module *m, struct memo *memo, struct ranks *r)
{
	struct sched *s = ranks_schedule(m, memo, &m->ctx->tmp);
	const char *why;

	return s && ranks_open(r, m, s, NULL, &why);
}

/* By function: its device group. */
static void
find_devs(const struct target *t, const struct ranks *r,
	   const struct target_group **dev)
{
	struct target_devs all;
	uint32_t i, k;
	func_id f;

	price_devs(r, t, &r->m->ctx->tmp, &all);
	for (f = 0; f < r->m->funcs.n; f++) {
		dev[f] = all.all;
	}
	for (i = 0; i < r->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			dev[r->of_stage[i][k]] =
				target_devs_of(&all, r->sched->rank_of[i]);
		}
	}
	for (i = 0; i < r->npipes; i++) {
		dev[r->update[i]] = target_devs_of(&all, i);
	}
}

bool
pass_chunk(struct pass_ctx *p, struct ir_module *m)
{
	static const struct price_traits plain;
	struct ranks r = { 0 };
	struct pricing x = { .r = &r, .m = m, .traits = &plain };
	int64_t chunks = plan_chunks(m), n = 0;
	const struct target_group **dev;
	struct ranks_found *found;
	struct kernels **all;
	struct arena *kept;
	func_id f;

	if (chunks == 1 ||
	    (!chunks && (!p->target || !open_ranks(m, p->memo, &r)))) {
		return m->ctx->diags.errors == 0;
	}
	dev = arena_alloc(&m->ctx->tmp, m->funcs.n * sizeof *dev);
	if (!chunks) {
		find_devs(p->target, &r, dev);
	}
	kept = r.sched ? memo_arena(p->memo, MEMO_RANKS) : NULL;
	all = kernels_all(m, p->memo, kept ? kept : &m->ctx->tmp);
	for (f = 1; f < m->funcs.n; f++) {
		x.t = dev[f];
		price_choose_parts(&x, chunks, all[f]->top);
		n += say_all(m, all[f]->top);
	}
	/* cached, now under the hash of the changed programs */
	found = kept ? ranks_found_of(&r, p->memo) : NULL;
	if (found) {
		found->kernels = all;
	}
	pass_count(p, "collectives in parts", n);
	return true;
}

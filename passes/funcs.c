/*
 * Which functions the model reaches, and their sizes once inlined.  A layer
 * calls only layers defined before it (the verifier checks that), so one walk
 * in id order visits callees first, and no recursion over calls is needed.
 */
#include "passes/pass.h"

#include <string.h>

static void
mark_callees(const struct ir_module *m, region_id r, bool *live)
{
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);

		if (ir_is(n->op, IRF_CALLS)) {
			live[n->callee] = true;
		} else if (ir_is(n->op, IRF_REGION)) {
			mark_callees(m, n->region, live);
		}
	}
}

bool *
pass_live_funcs(const struct ir_module *m)
{
	bool *live = arena_alloc(&m->ctx->tmp, m->funcs.n * sizeof *live);
	func_id model = ir_model(m), f;

	if (!model) {
		memset(live, true, m->funcs.n * sizeof *live);
		return live;
	}
	for (f = m->funcs.n; f-- > 1;) {
		/* a function without results runs for its sinks */
		live[f] |= f == model ||
			m->regions.at[m->funcs.at[f].body].results.n == 0;
		if (live[f]) {
			mark_callees(m, m->funcs.at[f].body, live);
		}
	}
	return live;
}

static void
move_callees(struct ir_module *m, region_id r, const func_id *to)
{
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		struct ir_node *n = &m->nodes.at[region->nodes.at[i]];

		if (ir_is(n->op, IRF_CALLS)) {
			n->callee = to[n->callee];
		} else if (ir_is(n->op, IRF_REGION)) {
			move_callees(m, n->region, to);
		}
	}
}

uint32_t
pass_drop_funcs(struct ir_module *m, const bool *live)
{
	func_id *to = arena_alloc(&m->ctx->tmp, m->funcs.n * sizeof *to);
	uint32_t f, kept = 1, dropped;

	for (f = 1; f < m->funcs.n; f++) {
		if (live[f]) {
			to[f] = kept;
			m->funcs.at[kept++] = m->funcs.at[f];
		}
	}
	dropped = m->funcs.n - kept;
	m->funcs.n = kept;
	for (f = 1; f < kept && dropped; f++) {
		move_callees(m, m->funcs.at[f].body, to);
	}
	return dropped;
}

static struct pass_flat
flat_region(const struct ir_module *m, region_id r,
	    const struct pass_flat *known)
{
	const struct ir_region *region = &m->regions.at[r];
	struct pass_flat sum = { 0, 0 };
	uint32_t i;

	for (i = 0; i < region->nodes.n && sum.nodes <= PASS_MAX_NODES; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);
		struct pass_flat one = { 1, 0 };

		if (ir_is(n->op, IRF_CALLS)) {
			/* the call counts too: an empty layer costs a visit */
			one = known[n->callee];
			one.nodes++;
		} else if (ir_is(n->op, IRF_REGION)) {
			one = flat_region(m, n->region, known);
			one.nodes++;
			one.depth++;
		}
		sum.nodes += one.nodes;
		sum.depth = one.depth > sum.depth ? one.depth : sum.depth;
	}
	return sum;
}

bool
pass_flat_fits(const struct ir_module *m, func_id f)
{
	if (pass_flat_sizes(m)[f].nodes <= PASS_MAX_NODES) {
		return true;
	}
	diag_error(&m->ctx->diags, m->funcs.at[f].span, "with all calls "
		   "followed this has more than %lld nodes",
		   (long long)PASS_MAX_NODES);
	return false;
}

struct pass_flat *
pass_flat_sizes(const struct ir_module *m)
{
	struct pass_flat *known = arena_alloc(&m->ctx->tmp,
					      m->funcs.n * sizeof *known);
	func_id f;

	for (f = 1; f < m->funcs.n; f++) {
		known[f] = flat_region(m, m->funcs.at[f].body, known);
	}
	return known;
}

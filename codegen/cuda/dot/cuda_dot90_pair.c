/*
 * Two contractions of one left operand as one by wgmma or tcgen05, where what
 * follows the second one's product reads the result of the first, element by
 * element, as a gated MLP does.
 *
 * Half of a tile's columns are the first one's, the other half are the same
 * columns of the second one.  In a stage the columns of one right operand lie
 * after those of the other, each loaded by a map of its own, and instructions
 * that multiply know nothing of it: they make as many columns as those of any
 * tile.  So registers, tensor memory and stages are those of a tile of that
 * size, the left operand is loaded once for both, and a thread has the sums of
 * both at the same places of both results.  The epilogue is the maps of both,
 * with two leaves; it stores the first result where others read it.
 */
#include "codegen/cuda/dot/cuda_dot90.h"

bool
dot90_pair_steps(struct cu_kernel *k, const struct kernel *x)
{
	uint32_t n = x->members.n, i;
	struct cu_dot *d = arena_alloc(k->c->a, n * sizeof *d);
	struct cu_candidates candidates;
	struct dot90 p;

	for (i = 0; i < n; i++) {
		const struct kernel *of = &x->members.at[i];
		node_id head = cg_dot_head(k->c->m, of, false);

		if (!head ||
		    !cu_dot_find_as(k, x, head,
				    ir_node(k->c->m, head)->result, &d[i])) {
			return false;
		}
	}
	cu_candidates_begin(d, n, " beside ", &candidates);
	if (!dot90_open_terms(d, n, &p)) {
		return false;
	}
	p.paired = true;
	if (!dot90_choose(&p) || !dot90_steps(&p)) {
		return false;
	}
	cu_candidates_close(k, &candidates);
	return true;
}

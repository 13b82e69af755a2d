/*
 * The pass `place` (passes.def) gives every value a placement.  The search
 * also calls the function below, before it places anything.
 */
#ifndef PASSES_PLACE_BOUND_H
#define PASSES_PLACE_BOUND_H

#include "passes/pass.h"
#include "passes/plan/plan.h"

/*
 * A lower bound, in microseconds for one sequence of all ranks of the axis
 * together, of what one axis of a plan adds to the time of contractions that
 * all ranks share evenly: the bytes that collectives must move, and the
 * operations that ranks do twice.
 * Only regions that are set in `counted` count, once for each iteration.
 * `shown` is the part of a collective that kernels can never hide, and `waited`
 * that of one in which each rank sends to each other one.
 *
 * Proof.  Along one axis the problem of `place` has all placements that it may
 * choose, and its optimum is found exactly.  Each price is at most the real
 * one: bytes are those of a rank if no other axis is there (the caller divides
 * by those that may split them, too), a collective takes at least its bytes
 * at the rate of the quickest algorithm for long messages, and starts, maps
 * and weights count for nothing.  A node that is not split along an axis does
 * its work on each of its ranks.
 *
 * Of several axes, the bounds of each may be added, if each is divided by the
 * lengths of the others: (1 - a)(1 - b) >= 0 for parts a and b, so work that
 * is split along neither of two axes is more than the sum of what each axis
 * alone adds.
 */
double place_bound(struct pass_ctx *ctx, const struct ir_module *m,
		   const struct plan *plan, enum plan_axis axis,
		   const bool *counted, double shown, double waited);

#endif

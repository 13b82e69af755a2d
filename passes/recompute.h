/*
 * Between recompute.c (how), recompute_set.c (what) and recompute_split.c
 * (where).  Nobody else includes this.
 */
#ifndef PASSES_RECOMPUTE_H
#define PASSES_RECOMPUTE_H

#include "passes/pass.h"
#include "passes/plan.h"

/*
 * Cuts repeats so that each drops one set, if the stages of the plan differ.
 * By region of a repeat of the model's body that saves: the words of its set.
 * NULL after an error.
 */
const char **recompute_split(struct pass_ctx *p, struct ir_module *m,
			     const struct plan *plan);
/*
 * Sets drops[v] for each saved value v that `what` names: "none", "full",
 * "attention", or names of values and ops.  Both are by value, of nvalues.
 * A warning that nothing is saved by a name says "no repeat" and `where`.
 * False after an error.
 */
bool recompute_set(struct ir_module *m, const char *what, const char *where,
		   uint32_t nvalues, const bool *saved, bool *drops);

#endif

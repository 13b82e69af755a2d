/*
 * Between recompute.c (how) and recompute_set.c (what).  Nobody else includes
 * this.
 */
#ifndef PASSES_RECOMPUTE_H
#define PASSES_RECOMPUTE_H

#include "passes/pass.h"

/*
 * Sets drops[v] for each saved value v that `what` names: "full", "attention",
 * or names of values and ops.  Both are by value, of nvalues.  False after an
 * error.
 */
bool recompute_set(struct ir_module *m, const char *what, uint32_t nvalues,
		   const bool *saved, bool *drops);

#endif

/*
 * Private header of recompute.c, recompute_find.c (what can be computed again),
 * recompute_set.c (what is dropped), recompute_split.c (repeats cut by stage),
 * and search/pareto_front.c, which prices recomputation.
 */
#ifndef PASSES_RECOMPUTE_H
#define PASSES_RECOMPUTE_H

#include "passes/pass.h"
#include "passes/plan/plan.h"

/* What repeats save for their backward. */
struct recompute_saves {
	struct ir_module *m;
	uint32_t nvalues, nregions;	/* of the program as it was */
	region_id body;		/* the model's */
	region_id *home;	/* by value */
	region_id *parent;	/* by region */
	region_id *back; /* by region: where its iterations run backward */
	node_id *save_of;	/* by name: who saves under it */
	bool *saved;		/* by value */
};

/* In ctx->tmp. */
void recompute_find(struct ir_module *m, struct recompute_saves *s);
/* What the save keeps that a `saved` takes; 0 if nobody saves it. */
value_id recompute_kept(const struct recompute_saves *s,
			const struct ir_node *saved);
/* Whether v can be made in the backward iteration from other values. */
bool recompute_can(const struct recompute_saves *s, value_id v);
/*
 * The value that was computed, which `place` may have converted: a name that
 * means one of them means the other, wherever it lies.
 */
value_id recompute_root(const struct ir_module *m, value_id v);
/* The region of the model's outermost repeat that v is made in. */
region_id recompute_block(const struct recompute_saves *s, value_id v);
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
/* What `attention` alone stands for. */
void recompute_attention(struct ir_module *m, uint32_t nvalues,
			 const bool *saved, bool *drops);

#endif

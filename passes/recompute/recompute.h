/*
 * Private header of pass recompute: recompute.c, recompute_find.c (which values
 * can be recomputed), recompute_set.c (which are dropped), recompute_split.c
 * (cuts repeats by stage); and of pareto_front.c, which prices it.
 */
#ifndef PASSES_RECOMPUTE_H
#define PASSES_RECOMPUTE_H

#include "passes/pass.h"
#include "passes/plan/plan.h"
#include "passes/recompute/pareto_front.h"

/* The values that repeats save for backward. */
struct recompute_saves {
	struct ir_module *m;
	uint32_t nvalues, nregions;	/* before it was changed */
	region_id body;		/* the model's */
	region_id *home;	/* by value: its region */
	region_id *parent;	/* by region: around it */
	region_id *back; /* by region: its backward region, or 0 */
	node_id *save_of;	/* by name: the `save` node, or 0 */
	bool *saved;		/* by value */
};

/* Uses ctx->tmp for *s. */
void recompute_find(struct ir_module *m, struct recompute_saves *s);
/* The value that a `saved` node reads; 0 if there is no such save. */
value_id recompute_kept(const struct recompute_saves *s,
			const struct ir_node *saved);
/*
 * The computed value that v is a copy of, if `place` converted its placement.
 * A name in `recompute` means both values.
 */
value_id recompute_root(const struct ir_module *m, value_id v);
/* The body of the outermost repeat around v. */
region_id recompute_block(const struct recompute_saves *s, value_id v);
/*
 * If stages of the plan drop different sets, cuts repeats so that each drops
 * one set.  Returns the words of the set by region, for the bodies of outermost
 * repeats that save.  NULL after an error.
 */
const char **recompute_split(struct pass_ctx *p, struct ir_module *m,
			     const struct plan *plan);
/*
 * Sets drops[v] for each value v in saved[] that `what` names: "none", "full",
 * "attention", or names of values and ops.  Warns of a name that nothing in
 * any[] has: of the layers of some stages, others may have what a word means.
 * False after an error.
 */
bool recompute_set(struct ir_module *m, const char *what, uint32_t nvalues,
		   const bool *any, const bool *saved, bool *drops);
/* recompute_set for the word "attention". */
void recompute_attention(struct ir_module *m, uint32_t nvalues,
			 const bool *saved, bool *drops);

#endif

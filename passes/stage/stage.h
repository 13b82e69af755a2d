/*
 * Private header of pass `stage`, which cuts a training program into functions
 * per stage, and one update per pipeline rank.
 */
#ifndef PASSES_STAGE_H
#define PASSES_STAGE_H

#include "passes/pass.h"
#include "passes/plan/plan.h"

enum stage_phase {
	STAGE_FORWARD,
	STAGE_BACKWARD,		/* if split: gradients of inputs only */
	STAGE_WEIGHTS,
	STAGE_NPHASES
};

/* Iterations start .. start + count - 1 of a repeat. */
struct stage_range {
	int64_t start, count;
};

/* A node directly in the model's body. */
struct stage_item {
	node_id node;
	bool backward;
	bool cut;		/* a repeat cut between the stages */
	bool spread;	/* accumulates a sum, or a value of another stage */
	bool apart;		/* part of such a sum: not emitted */
	uint32_t stage;		/* if not cut */
	int64_t first;		/* if cut: layers before its first iteration */
	struct stage_range iters;	/* if cut */
};

/*
 * One emitted function: one phase of one stage.  One that nobody wants is only
 * followed, for what it gets from others: values are then the model's own.
 */
struct stage_fn {
	region_id region;	/* 0: it is followed */
	uint32_t stage;
	enum stage_phase phase;
	value_id *has;		/* by top number: its value here, or 0 */
};

/* The copy, in the function at hand, of a value of a repeat's body. */
struct stage_local {
	value_id value;
	uint32_t fn;		/* index of the function, plus 1 */
};

struct stage {
	struct pass_ctx *p;
	struct ir_module *m;
	struct arena *a;	/* tmp */
	struct plan plan;
	const bool *only;	/* by stage: see stage_some; NULL: all */
	uint32_t nstages, npipes;
	uint32_t *rank_of;	/* by stage */
	bool split;		/* backward is two functions */
	axis_id pp;		/* 0: one pipeline rank only */

	/* stage_units.c */
	region_id body;		/* of the model */
	VEC(struct stage_item) items;
	int64_t *begin;	/* by stage: layers before it; then all layers */
	uint32_t nvalues;	/* of the module before the pass */
	region_id *home;	/* its region */
	region_id *outer;	/* by region: the one its repeat is in */
	uint32_t *top;	/* by value of the model's body: a number, from 1 */
	uint32_t *item_of;	/* by top number */
	uint32_t ntop;
	uint8_t *copied;	/* by value: recomputed at each use */

	/* stage_split.c */
	bool *chain;		/* by value: needed for gradients of inputs */

	/* stage_emit.c */
	struct stage_fn *fns;	/* phase * nstages + stage */
	uint32_t *made;		/* by top number: its function, plus 1 */
	/* by value; the second: for STAGE_WEIGHTS */
	struct stage_local *local[2];
	region_id *copy_of[2];	/* by region: the latest copy */
	uint32_t *crossed;	/* by value: its number in names, plus 1 */
	uint32_t ncrossed;
	uint32_t *sends, *saves;	/* by stage: count of names used */
};

/*
 * Finds which nodes are forward, which backward, and the stage of each.  False
 * after an error.
 */
bool stage_units(struct stage *st);
/* The iterations of a cut item that the stage runs. */
struct stage_range stage_trips(const struct stage *st,
			       const struct stage_item *it, uint32_t stage);
struct stage_range stage_range_of(const struct ir_module *m,
				  const struct ir_node *repeat);
/* Calls f with each operand and yielded value in the node and its regions. */
void stage_uses(const struct stage *st, node_id id,
		void (*f)(void *user, value_id v), void *user);

/* Finds sums whose terms are accumulated separately. */
void stage_sums(struct stage *st);
/* The item that computes a value. */
struct stage_item *stage_maker(const struct stage *st, value_id v);
/* The stage that accumulates term v of a sum whose sink is on `stage`. */
uint32_t stage_of_part(const struct stage *st, value_id v, uint32_t stage);

/* Marks values that the gradients sent to other stages depend on. */
void stage_chain(struct stage *st);

/* Emits the functions of all stages. */
void stage_emit(struct stage *st);
uint32_t stage_fn_of(const struct stage *st, enum stage_phase phase,
		     uint32_t stage);
/* The copy of the model's value v in function f; created if there is none. */
value_id stage_bring(struct stage *st, uint32_t f, value_id v);
/* Appends a repeat like `like`, with this body and these iterations. */
value_id stage_append_repeat(struct ir_module *m, region_id to, node_id like,
			     const struct ir_new *carried, region_id body,
			     const struct stage_range *iters);

/* Emits the updates of all pipeline ranks from the first nfuncs functions. */
bool stage_update(struct stage *st, uint32_t nfuncs);

#endif

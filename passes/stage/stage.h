/*
 * Private header of pass `stage`, which cuts a training program into functions
 * of stages and updates.
 */
#ifndef PASSES_STAGE_H
#define PASSES_STAGE_H

#include "passes/pass.h"
#include "passes/plan/plan.h"

enum stage_phase {
	STAGE_FORWARD,
	STAGE_BACKWARD,		/* its part for the inputs, if it is split */
	STAGE_WEIGHTS,
	STAGE_NPHASES
};

/* Iterations start .. start + count - 1 of a repeat. */
struct stage_range {
	int64_t start, count;
};

/* A node of the model's own body. */
struct stage_item {
	node_id node;
	bool backward;
	bool cut;		/* its iterations are spread over stages */
	bool spread;		/* accumulates a sum, or another stage's */
	bool apart;		/* a node of such a sum, which is not made */
	uint32_t stage;		/* if not */
	int64_t first;		/* cut: its first iteration among all layers */
	struct stage_range iters;	/* cut */
};

/* One function that is made: a stage's part of one phase. */
struct stage_fn {
	region_id region;
	uint32_t stage;
	enum stage_phase phase;
	value_id *has;		/* by top number: the value there, or 0 */
};

/*
 * The value in the function at hand that replaces a value of a repeat's body.
 */
struct stage_local {
	value_id value;
	uint32_t fn;		/* that it stands in, and 1 */
};

struct stage {
	struct pass_ctx *p;
	struct ir_module *m;
	struct arena *a;	/* tmp */
	struct plan plan;
	uint32_t nstages, npipes;
	uint32_t *rank_of;	/* by stage */
	bool split;		/* backward is two functions */
	axis_id pp;		/* 0: one pipeline rank */

	/* stage_units.c */
	region_id body;		/* of the model */
	VEC(struct stage_item) items;
	int64_t *begin;		/* by stage, and one more: layers before it */
	uint32_t nvalues;	/* of the module as it came */
	region_id *home;	/* by value */
	region_id *outer;	/* by region: the one around its repeat */
	uint32_t *top;		/* by value: its number in the body, from 1 */
	uint32_t *item_of;	/* by top number */
	uint32_t ntop;
	uint8_t *copied;	/* by value: made again wherever it is used */

	/* stage_split.c */
	bool *chain;		/* by value: gradients of inputs need it */

	/* stage_emit.c */
	struct stage_fn *fns;	/* phase * nstages + stage */
	uint32_t *made;		/* by top number: function, and 1 */
	struct stage_local *local[2];	/* by value; the second: of weights */
	region_id *copy_of[2];	/* by region: its last copy */
	uint32_t *crossed;	/* by value: number in names, and 1 */
	uint32_t ncrossed;
	uint32_t *sends, *saves;	/* by stage: names given */
};

/*
 * Which nodes are forward and which backward, and where each belongs.  False
 * after an error.
 */
bool stage_units(struct stage *st);
/* The iterations of a cut item that are on the stage. */
struct stage_range stage_trips(const struct stage *st,
			       const struct stage_item *it, uint32_t stage);
struct stage_range stage_range_of(const struct ir_module *m,
				  const struct ir_node *repeat);
/* Calls f with every operand and yield in and below the node. */
void stage_uses(const struct stage *st, node_id id,
		void (*f)(void *user, value_id v), void *user);

/* Finds the sums that are accumulated in parts. */
void stage_sums(struct stage *st);
/* The item that makes a value. */
struct stage_item *stage_maker(const struct stage *st, value_id v);
/* The stage that makes a part of a sum which is accumulated on `stage`. */
uint32_t stage_of_part(const struct stage *st, value_id v, uint32_t stage);

/* Marks what the gradients need that a stage sends on. */
void stage_chain(struct stage *st);

/* The functions of all stages. */
void stage_emit(struct stage *st);
uint32_t stage_fn_of(const struct stage *st, enum stage_phase phase,
		     uint32_t stage);
/*
 * The value in the function that replaces a value of the model; made if needed.
 */
value_id stage_bring(struct stage *st, uint32_t f, value_id v);
/* A repeat like that one with this body, over these iterations. */
value_id stage_append_repeat(struct ir_module *m, region_id to, node_id like,
			     const struct ir_new *carried, region_id body,
			     const struct stage_range *iters);

/* The functions of all pipeline ranks, from the first nfuncs functions. */
bool stage_update(struct stage *st, uint32_t nfuncs);

#endif

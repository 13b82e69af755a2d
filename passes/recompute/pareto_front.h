/*
 * The Pareto front of recomputing in a block: of all sets of values that a
 * plan's `recompute` can name, those that no other set beats in both bytes and
 * time.  It knows the program and what the pass `recompute` does to it; prices
 * are the caller's.
 *
 * A block is an outermost repeat of a flat program with its backward.  The
 * program may be placed: then collectives are recomputed, too.  The pass
 * `recompute` must not have run.
 */
#ifndef PASSES_PARETO_FRONT_H
#define PASSES_PARETO_FRONT_H

#include "ir/ir.h"

/*
 * Whether v, which a repeat saves, can be recomputed in its backward; else all
 * ways to recompute keep it.
 */
bool recompute_can(const struct ir_module *m, value_id v);

struct front_prices {
	/* time to run a node again, in us; called for nodes with operands */
	double (*us)(void *user, node_id n);
	/* bytes of a kept value; NULL: its bytes on the fullest rank */
	double (*bytes)(void *user, value_id v);
	void *user;
};

/* For one iteration of the block. */
struct front_point {
	const char *recompute;	/* as in a plan: "none", "full", "q silu" */
	double bytes;		/* kept for backward */
	double extra_us;	/* time to compute the others again */
};

struct front {
	VEC(struct front_point) at;	/* more bytes, less time */
	uint32_t all;		/* points that there are */
	bool exact;		/* false: some points are left out */
};

/* Sets *out to the blocks that save values; returns their number. */
uint32_t front_blocks(struct ir_module *m, struct arena *a, node_id **out);

/* A block that was analysed. */
struct front_block;
/* Analyses a block.  The result lives in ctx->tmp and refers to p. */
struct front_block *front_open(struct ir_module *m, node_id block,
			       const struct front_prices *p);
/*
 * Sets *out to the block's front.  The first point keeps the fewest bytes, the
 * last recomputes nothing.  Prices are rounded to bytes and picoseconds.  If
 * there are more than `most` points, evenly spread ones are taken, with both
 * ends; `most` 0 is no limit.
 */
void front_find(struct front_block *b, uint32_t most, struct arena *a,
		struct front *out);
/* The point of given words; those of other blocks have no effect here. */
void front_at(struct front_block *b, const char *words,
	      struct front_point *out);

#endif

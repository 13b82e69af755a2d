/*
 * The Pareto front of recomputing in a block: of all sets of values that a
 * plan's `recompute` can name, those that no other set beats in both bytes and
 * time.  A search passes prices in and chooses a point for each stage.  A block
 * is an outermost repeat of a flat program with its backward, before or after
 * `place`; placed, collectives between its values count as recomputed.  The
 * pass `recompute` must not have run.
 */
#ifndef PASSES_FRONT_H
#define PASSES_FRONT_H

#include "ir/ir.h"

struct front_prices {
	/* time to run a node again, in us; called for nodes with operands */
	double (*us)(void *user, node_id n);
	/* bytes of a value that is kept; NULL: those on its fullest rank */
	double (*bytes)(void *user, value_id v);
	void *user;
};

/* For one iteration of the block. */
struct front_point {
	const char *recompute;	/* "none", "full", "q silu": struct plan's */
	double bytes;		/* kept for backward */
	double extra_us;	/* time to compute the rest again */
};

struct front {
	VEC(struct front_point) at;	/* bytes grow, time falls */
	bool exact;		/* false: some points are left out */
};

/* Sets *out to the blocks that save values, in order; returns how many. */
uint32_t front_blocks(struct ir_module *m, struct arena *a, node_id **out);

/* A block that was analysed. */
struct front_block;
/* Analyses a block; the result is in ctx->tmp and keeps p. */
struct front_block *front_open(struct ir_module *m, node_id block,
			       const struct front_prices *p);
/* Prices it again, after prices or axis lengths have changed. */
void front_price(struct front_block *b);
/*
 * Its front: the first point keeps the fewest bytes, the last pays nothing.
 * Exact in bytes and picoseconds, to which prices are rounded.  Of more points
 * than `most`, so many that are evenly spread, both ends among them; 0: all.
 */
void front_find(struct front_block *b, uint32_t most, struct arena *a,
		struct front *out);
/* The point of given words, some of which may be of other blocks only. */
void front_at(struct front_block *b, const char *words,
	      struct front_point *out);

#endif

/*
 * What recomputing a part of a block costs and saves: of all sets that a
 * plan's `recompute` can name, those that none beats in both.  A search takes
 * prices in and chooses a point for each stage.
 *
 * A block is an outermost repeat of a flat program with its backward, before
 * or behind `place`; placed, the collectives between its values count among
 * what is rebuilt.  The pass `recompute` must not have run.
 */
#ifndef PASSES_FRONT_H
#define PASSES_FRONT_H

#include "ir/ir.h"

struct front_prices {
	/* a node run once more, in us; asked of nodes with operands */
	double (*us)(void *user, node_id n);
	/* a value that is kept; NULL: as many as its fullest rank has */
	double (*bytes)(void *user, value_id v);
	void *user;
};

/* Of one trip of the block. */
struct front_point {
	const char *recompute;	/* "none", "full", "q silu": struct plan's */
	double bytes;		/* kept for backward */
	double extra_us;	/* to build the rest again */
};

struct front {
	VEC(struct front_point) at;	/* bytes grow, time falls */
	bool exact;		/* false: so many that some are left out */
};

/* The blocks that save anything, in order; how many. All in arena a. */
uint32_t front_blocks(struct ir_module *m, struct arena *a, node_id **out);

/* A block that is looked at: what is known of it is found once. */
struct front_block;
/* One of them, in ctx->tmp; p is kept. */
struct front_block *front_open(struct ir_module *m, node_id block,
			       const struct front_prices *p);
/* Once more, after prices have changed, or how long axes are. */
void front_price(struct front_block *b);
/*
 * Its front: the first point keeps the fewest bytes, the last pays nothing.
 * Exact in bytes and picoseconds, to which prices are rounded.  Of more points
 * than `most`, so many that are evenly spread, both ends among them; 0: all.
 */
void front_find(struct front_block *b, uint32_t most, struct arena *a,
		struct front *out);
/* What the block comes to if these words are dropped; names may be others'. */
void front_at(struct front_block *b, const char *words,
	      struct front_point *out);

#endif

/*
 * What a step of rank programs takes on a target: kernels and collectives of
 * each function, the schedule as it runs, the update.  docs/cost.md is the
 * page about it; cost.h prices the single kernel.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_PRICE_H
#define PASSES_PRICE_H

#include "passes/cost.h"
#include "passes/ranks.h"

/* How measured software runs, where that is not as llmc's code does. */
struct price_traits {
	bool unfused;		/* attention writes its scores to memory */
	bool eager;		/* maps never ride on a contraction */
	bool overlap_data;	/* gradients are reduced behind backward */
	bool overlap_tensor;	/* tensor collectives run behind compute */
};

enum price_part {
	PRICE_MATRIX, PRICE_ATTENTION, PRICE_MAPS, PRICE_TALK,
	PRICE_NPARTS
};

extern const char *const price_part_names[PRICE_NPARTS];

/* Of one function run once, in microseconds. */
struct price_func {
	double us[PRICE_NPARTS];
	double total_us;
	uint32_t kernels;	/* about so many are launched */
};

struct price {
	struct price_func (*stage)[SCHED_NKINDS];	/* by stage */
	struct price_func *update;	/* by rank of the pipeline */
	double pipe_us;		/* from the first forward to the last one */
	double update_us;	/* of the slowest */
	double step_us;
	double busy_us;		/* of the busiest rank in pipe_us */
	double hop_us;		/* of a value from stage to stage */
	double parts_us[PRICE_NPARTS];	/* of the busiest rank, and update */
};

/* ---- price.c ---------------------------------------------------------- */

/* In arena a. False: *why says what is not priced. */
bool price_step(const struct ranks *r, const struct target_group *t,
		const struct price_traits *traits, struct arena *a,
		struct price *out, const char **why);
void price_print(const struct ranks *r, const struct price *p,
		 struct buf *out);

/* ---- price_node.c ----------------------------------------------------- */

struct pricing {
	const struct ranks *r;
	struct ir_module *m;
	const struct target_group *t;
	const struct price_traits *traits;
	bool *escapes;		/* by value: some kernel has to write it */
	bool *read;		/* by value: some chain of maps reads it */
	const char *why;	/* it cannot be priced */
};

/* Positions of dim i of the type on the fullest rank. */
int64_t price_local(const struct ir_module *m, const struct ir_type *t,
		    uint32_t i);
/* Bytes of a value there. */
double price_bytes(const struct ir_module *m, value_id v);
/* Adds one run of the node. */
void price_node(struct pricing *p, const struct ir_node *n,
		struct price_func *f);
/* The group that differs along these axes, bit a each. */
struct cost_group price_group(const struct ranks *r,
			      const struct target_group *t, uint32_t axes);

#endif

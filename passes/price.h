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
#include "passes/kernels.h"
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
	double kernels;		/* about so many are launched */
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

/* Every function, run once, in arena a; the rest of *out is 0. */
void price_functions(const struct ranks *r, const struct target_group *t,
		     const struct price_traits *traits, struct arena *a,
		     struct price *out);
/*
 * From the times of functions to that of a step: `stage`, `update` and
 * `hop_us` are read, all else is written.  False: the schedule stalls.
 */
bool price_pipeline(const struct sched *s, const struct price_traits *traits,
		    struct arena *a, struct price *out);
/* Both, in arena a. False: *why says what is not priced. */
bool price_step(const struct ranks *r, const struct target_group *t,
		const struct price_traits *traits, struct arena *a,
		struct price *out, const char **why);
void price_print(const struct ranks *r, const struct price *p,
		 struct buf *out);

/* Adds so many runs of it. */
void price_add(struct price_func *to, const struct price_func *from,
	       double times);

/* ---- price_kernel.c --------------------------------------------------- */

struct pricing {
	const struct ranks *r;
	struct ir_module *m;
	const struct target_group *t;
	const struct price_traits *traits;
};

/* Adds a list's kernels, times its trips. */
void price_list(struct pricing *p, const struct kernel_list *l,
		struct price_func *f);
/* What goes from a stage to the next, in microseconds. */
double price_hop(const struct pricing *p);
/* Adds one run of a kernel. */
void price_kernel(struct pricing *p, const struct kernel *k,
		  struct price_func *f);
/* The group that differs along these axes, bit a each. */
struct cost_group price_group(const struct ranks *r,
			      const struct target_group *t, uint32_t axes);

/* ---- price_offload.c -------------------------------------------------- */

/* What the kernel waits for its host; 0, if nothing of it is there. */
double price_host_us(const struct pricing *p, const struct kernel *k);

#endif

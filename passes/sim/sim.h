/*
 * The interpreter for many ranks: runs all rank programs of a split training
 * program in one process, in float64, with what ranks say to each other
 * simulated.  What a split program computes is held against the program that
 * it came from; a program whose ranks would hang, or would not speak of the
 * same thing, is reported.
 *
 * Replicas must be equal to the last bit, parts are added in the order of
 * ranks, and each rank has the positions that a type gives it, no more.
 */
#ifndef PASSES_SIM_H
#define PASSES_SIM_H

#include "passes/stage/ranks.h"

/* A whole tensor, put together from what ranks have. */
struct sim_tensor {
	const char *name;	/* full */
	struct ir_type type;	/* without placements */
	int64_t elems;
	double *data;
};

/* A step's; valid until the next one, that of the last one for good. */
struct sim_result {
	uint32_t step;		/* from 1 */
	struct sim_tensor *results;	/* of the last stage's forward */
	uint32_t nresults;
	/* the sums of all microbatches, as they were before the update */
	VEC(struct sim_tensor) gradients;
	/* weights and states that have been stored, after the update */
	VEC(struct sim_tensor) stored;
};

struct sim_options {
	uint64_t seed;
	uint32_t steps;
	int64_t max_bytes;	/* as of ir_eval_options, all ranks together */
	/* whole tensors to start from; get, has and input are looked at */
	const struct ir_weights *weights;
	/* Called after each step; false stops. May be NULL. */
	bool (*after)(void *user, const struct sim_result *r);
	void *user;
};

/*
 * Whether all ranks together may hold no more than that, as far as it is
 * known before they run.  False if reported.
 */
bool sim_fits(const struct ranks *r, int64_t max_bytes);
/* False after reporting what went wrong on which ranks. */
bool sim_run(const struct ranks *r, const struct sim_options *o,
	     struct sim_result *out);
/* NULL if there is none of that name. */
const struct sim_tensor *sim_gradient(const struct sim_result *r,
				      const char *name);
const struct sim_tensor *sim_stored(const struct sim_result *r,
				    const char *name);

#endif

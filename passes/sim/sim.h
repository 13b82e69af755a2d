/*
 * Runs all rank programs of a split training program in one process, in
 * float64, with the communication simulated. Tests compare the results with
 * those of the program before it was split. A program whose ranks would hang,
 * or would exchange values that do not match, is reported.
 *
 * Replicas must be equal to the last bit, partial sums are added in the order
 * of ranks, and each rank has only the positions that the type gives it.
 */
#ifndef PASSES_SIM_H
#define PASSES_SIM_H

#include "passes/stage/ranks.h"

/* A whole tensor, assembled from the pieces of the ranks. */
struct sim_tensor {
	const char *name;	/* not shortened */
	struct ir_type type;	/* without placements */
	int64_t elems;
	double *data;
};

/*
 * The results of a step, valid until the next step ends; those of the last step
 * stay valid.
 */
struct sim_result {
	uint32_t step;		/* from 1 */
	struct sim_tensor *results;	/* returned by the last forward */
	uint32_t nresults;
	/* summed over all microbatches, before the update */
	VEC(struct sim_tensor) gradients;
	/* weights and states stored so far, after the update */
	VEC(struct sim_tensor) stored;
};

struct sim_options {
	uint64_t seed;
	uint32_t steps;
	int64_t max_bytes; /* as in ir_eval_options, for all ranks together */
	/* whole tensors to start from; only get, has and input are called */
	const struct ir_weights *weights;
	/* called after each step; false stops; may be NULL */
	bool (*after)(void *user, const struct sim_result *r);
	void *user;
};

/*
 * Whether all ranks together stay within so many bytes, as far as is known
 * before they run. False after reporting that they do not.
 */
bool sim_fits(const struct ranks *r, int64_t max_bytes);
/* False after reporting what went wrong on which ranks. */
bool sim_run(const struct ranks *r, const struct sim_options *o,
	     struct sim_result *out);
/* Both return NULL if there is none of that name. */
const struct sim_tensor *sim_gradient(const struct sim_result *r,
				      const char *name);
const struct sim_tensor *sim_stored(const struct sim_result *r,
				    const char *name);

#endif

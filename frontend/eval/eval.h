/*
 * llmc eval: computes what a model returns, or what the rank programs of a
 * plan return, in float64 on the interpreter of ir/.  frontend/tool calls
 * eval_model() and eval_split(); tests also train with a store by hand.
 * The folder knows the options and the output text of frontend/driver.h, the
 * files of weights that runtime/ reads, and nothing of targets or prices.
 */
#ifndef FRONTEND_EVAL_H
#define FRONTEND_EVAL_H

#include "frontend/driver.h"
#include "passes/sim/sim.h"

/* ---- eval.c: one model ------------------------------------------------ */

/* Evaluates the model; results and checksums go to d->out. */
bool eval_model(struct driver *d, struct ir_module *m);
/* --seed, or `seed` of the model's train block, or 0. */
uint64_t eval_seed(const struct driver *d, const struct ir_module *m);
/* --max-bytes, or the default. */
int64_t eval_max_bytes(const struct driver *d);
/* Whether --steps is within its limits; reports it if not. */
bool eval_steps_legal(struct driver *d);
/*
 * Whether an evaluation of the model, and of its update if `trains`, needs at
 * most opt->max_bytes and a bounded number of operations.  A comparison keeps
 * the tensors of `compared_steps` steps.  What lasts from step to step is
 * subtracted from opt->max_bytes.  False after reporting.
 */
bool eval_fits(struct ir_module *m, struct ir_eval_options *opt, bool trains,
	       int64_t compared_steps);

/* ---- eval_split.c: all ranks of a plan -------------------------------- */

/*
 * Runs the rank programs of `m`; the losses go to d->out.  With `unsplit`,
 * the model that they were split from, each step is compared with it.
 */
bool eval_split(struct driver *d, struct ir_module *m,
		struct ir_module *unsplit);

/* ---- eval_compare.c: steps of an unsplit model ------------------------ */

struct eval_steps;

/* What differs most, relative to the largest element of its tensor. */
struct eval_worst {
	double off;		/* INFINITY: something is missing */
	uint32_t step;
	const char *kind, *name;	/* "the gradient of", "h.0.w" */
	uint64_t tensors;	/* how many were compared */
};

/*
 * Runs `steps` optimizer steps of an unsplit training module and keeps the
 * loss, the gradients and the stored tensors of each; NULL after an error.
 */
struct eval_steps *eval_steps_run(struct ir_module *m,
				  const struct ir_eval_options *options,
				  uint32_t steps);
double eval_steps_loss(const struct eval_steps *k, uint32_t step);
/* Compares one step of all ranks with the same step of the unsplit model. */
void eval_steps_compare(const struct eval_steps *k,
			const struct sim_result *r, struct eval_worst *w);

/* ---- eval_store.c: tensors that last from step to step ---------------- */

struct eval_store;

/* What was never stored is read from `first` (or NULL: the generator). */
struct eval_store *eval_store_open(struct ir_module *m,
				   const struct ir_weights *first);
const struct ir_weights *eval_store_source(struct eval_store *s);
/* Sets the value of the input `step`, which is 1 in the first step. */
void eval_store_begin(struct eval_store *s, int64_t step);
/*
 * Runs the model's update with these options.  From then on what the step
 * stored is read, and gradients are zero again.
 */
bool eval_store_end(struct eval_store *s, const struct ir_eval_options *opt);
/* The layer that updates weights, or 0. */
func_id eval_update(const struct ir_module *m);

/* ---- eval_weights.c: checkpoints -------------------------------------- */

struct eval_weights;

/* NULL after an error. */
struct eval_weights *eval_weights_open(struct ir_module *m,
				       const char *path);
const struct ir_weights *eval_weights_source(struct eval_weights *w);
/* False if tensors of the file were never read, after reporting them. */
bool eval_weights_check(struct eval_weights *w, bool allow_unused);
/* NULL is allowed. */
void eval_weights_close(struct eval_weights *w);

#endif

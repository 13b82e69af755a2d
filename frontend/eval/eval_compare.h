/*
 * A split program beside the one that it came from; eval_compare.c.
 */
#ifndef FRONTEND_COMPARE_H
#define FRONTEND_COMPARE_H

#include "passes/sim/sim.h"

struct drv_course;

/* What differs most, relative to the largest element of its tensor. */
struct drv_worst {
	double off;		/* INFINITY: something is missing */
	uint32_t step;
	const char *kind, *name;	/* "the gradient of", "h.0.w" */
	uint64_t tensors;	/* that were looked at */
};

/*
 * Runs so many optimizer steps of an unsplit training module and keeps what
 * they made; NULL after an error.
 */
struct drv_course *drv_course_run(struct ir_module *m,
				  const struct ir_eval_options *options,
				  uint32_t steps);
double drv_course_loss(const struct drv_course *k, uint32_t step);
/* Holds one step of all ranks against it. */
void drv_course_hold(const struct drv_course *k, const struct sim_result *r,
		     struct drv_worst *w);

#endif

/*
 * The multiple-choice knapsack: for each stage one of several ways, which take
 * time and keep bytes, so that all bytes fit and the time is least.
 */
#ifndef PASSES_SOLVE_KNAPSACK_H
#define PASSES_SOLVE_KNAPSACK_H

#include "ir/base.h"

/* By way: what a stage takes and keeps with it. */
struct knapsack_stage {
	const double *us, *bytes;
};

struct knapsack {
	const struct knapsack_stage *at;
	uint32_t n, nways;
	double room;		/* bytes of all stages together */
	double near_us;		/* times that are so near are as good */
	double below_us;	/* answers that take so much are of no use */
	/*
	 * Partial answers that are open at once: if there are more, only those
	 * with the least bounds are looked at.
	 */
	uint32_t most;
	/* set to the least bound of those that were not: no other answer that
	 * is better by near_us takes less */
	double left_us;
	/* added to: the moves and partial answers that were looked at */
	uint64_t looked;
};

/*
 * Sets a way for each stage, so that together they keep at most `room`, and no
 * other ways that do take less by more than near_us, unless these take
 * below_us, or left_us and more.  False: none do.  Temporary memory is in
 * arena a.
 */
bool knapsack_choose(struct arena *a, struct knapsack *x, uint32_t *way);

#endif

/*
 * All choices of a way for each of one or two stages, which take time and keep
 * bytes, the quickest first.
 */
#ifndef PASSES_SOLVE_TUPLES_H
#define PASSES_SOLVE_TUPLES_H

#include "ir/base.h"

#define TUPLES_STAGES 2

struct tuples {
	uint32_t n, nways;	/* stages; ways of each */
	/* by stage, then by way: its time, and bytes that a choice keeps at
	 * least, which add up */
	const double *us[TUPLES_STAGES], *bytes[TUPLES_STAGES];
	/* the slowest stage is to be as quick as it can be, before all else */
	bool evenly;
	bool *seen;		/* by choice, tuples_choices of them */
};

/* How many choices n stages have. */
uint32_t tuples_choices(uint32_t n, uint32_t nways);
/*
 * Sets a way for each stage: of the choices that were not seen and keep at
 * least no more than `room`, the quickest, which then was.  False: none is
 * left.
 */
bool tuples_next(struct tuples *x, double room, uint32_t *nth);

#endif

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
	/* by way of the first stage, none at first: how many ways of the other
	 * stage, the quickest first, were seen with it or keep too much */
	uint32_t *seen;
	uint32_t *order;	/* tuples_open sets it: the quickest first */
	uint64_t looked;	/* added to: choices that were looked at */
};

/* Prepares for tuples_next, which goes on where x->seen ends. */
void tuples_open(struct arena *a, struct tuples *x);
/*
 * Sets a way for each stage: of the choices that were not seen and keep at
 * least no more than `room`, the quickest, which then was.  False: none is
 * left.  There is never more room than there was.
 */
bool tuples_next(struct tuples *x, double room, uint32_t *nth);

#endif

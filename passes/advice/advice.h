/*
 * What would help where no plan fits: why none does, and the nearest changes of
 * pins, target or batch with which one does.  It knows plans, targets and what
 * search.h promises, and nothing of how a plan is found: a change is tried by
 * another search.  The pass `search` is here, too, since it ends with that.
 */
#ifndef PASSES_ADVICE_H
#define PASSES_ADVICE_H

#include "passes/search/search.h"

/* ---- advice.c ---------------------------------------------------------- */

/*
 * A change of pins, target or model with which a plan fits, and the best plan
 * with it.
 */
struct advice {
	const char *what;	/* "on 2 nodes of 8 devices" */
	struct search_found best;
};

#define ADVICE_STOPPED "what else would help was not looked for any longer"

struct advice_misfit {
	const char *why;	/* the reason, in one line */
	/* if nothing helped: the numbers of devices and least bytes, or NULL */
	const char *never;
	/* not all changes were tried, since that takes too long */
	bool stopped;
	VEC(struct advice) advice;
};

/*
 * Sets *out to why search_run found nothing with these options, and to the
 * nearest changes with which it finds a plan.  The module is not changed.
 */
void advice_find(const struct ir_module *m, const struct search_options *o,
		 const struct search_report *r, struct memo *memo,
		 struct arena *a, struct advice_misfit *out);
/* As "on 2 nodes of 8 devices: a step of 3.2 ms, 60.3 GiB on .." */
const char *advice_text(const struct advice *x, struct arena *a);

#endif

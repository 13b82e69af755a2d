/*
 * The search: of all plans for a model on a target, the one whose step is the
 * shortest among those that fit.  docs/search.md is the page about it.
 *
 * The space is that of search_space.c, and what the user has pinned.  Plans
 * are looked at in the order of a bound from below, and none is left out
 * whose bound is below what was found: so the answer is exact in the space.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_SEARCH_H
#define PASSES_SEARCH_H

#include "passes/plan.h"
#include "passes/price.h"

/* What pass `search` is asked; the driver owns it. */
struct search_options {
	const struct target *target;	/* NULL: it does nothing */
	struct price_traits traits;
	uint32_t top;		/* plans to report, the best first; 0 is 1 */
};

/* A plan that was found, with all that the search knows of it. */
struct search_found {
	struct plan plan;	/* whole; in the options' arena */
	double step_us;
	int64_t bytes;		/* of the fullest rank */
	uint32_t fullest;	/* its place in the pipeline */
};

/* What it takes to fit, of plans that do not. */
struct search_near {
	struct plan plan;
	int64_t bytes;		/* of the fullest rank */
	uint32_t fullest;
	double step_us;		/* of a pipeline that never waits */
};

struct search_report {
	VEC(struct search_found) found;	/* the best first */
	struct search_near least;	/* of all looked at, the smallest */
	bool any_near;
	double bound_us;	/* no plan of the space is below it */
	int64_t memory_bytes;	/* of a device, less the reserve */
	/* how the space shrank */
	double space;		/* plans in it */
	uint64_t groups, cut;	/* degrees; those that a bound cut off */
	uint64_t widths;	/* placements that were made */
	uint64_t priced;	/* plans composed of prices */
	uint64_t full;		/* of these, did not fit */
	uint64_t run;		/* schedules that were run */
};

/* ---- search.c --------------------------------------------------------- */

/*
 * Of a flat training program before `recompute`, whose plan settings are
 * pins.  What *out points to is in arena a.  False after errors, which say
 * what binds if nothing fits.
 */
bool search_run(struct ir_module *m, const struct search_options *o,
		struct arena *a, struct search_report *out);

#endif

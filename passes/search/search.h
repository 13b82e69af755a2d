/*
 * The search: of all plans for a model on a target, the one whose step is the
 * shortest among those that fit.  docs/search.md is the page about it.
 *
 * The space is that of search_space.c and search_each.c, and what the user
 * has pinned.  Plans are looked at in the order of a lower bound, and those
 * whose bound is above what was found are left out.  Some bounds are proven;
 * others are rules of docs/search.md that were measured, and may leave out a
 * plan that is better: the report counts what only rules have ruled out.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_SEARCH_H
#define PASSES_SEARCH_H

#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"

#define SEARCH_CONTEXT_PIECE 1024	/* positions of a rank, at the least */

struct search_report;

/* What pass `search` is asked; the driver owns it. */
struct search_options {
	const struct target *target;	/* NULL: it does nothing */
	struct price_traits traits;
	uint32_t top;		/* plans to report, the best first; 0 is 1 */
	uint64_t effort;	/* search_effort to stop at; 0: no limit */
	struct search_report *report;	/* filled in too, or NULL */
	/* what code needs on a rank beside its arena; NULL: nothing */
	const struct memory_scratch *scratch;
};

/* A plan that was found, with all that the search knows of it. */
struct search_found {
	struct plan plan;	/* whole; in the options' arena */
	double step_us;
	int64_t bytes;		/* of the fullest rank */
	int64_t room;		/* that its device has for it */
	uint32_t fullest;	/* its place in the pipeline */
};

/* What it takes to fit, of plans that do not. */
struct search_near {
	struct plan plan;
	int64_t bytes;		/* of the fullest rank */
	int64_t room;		/* that its device has for it */
	const char *device;	/* "a100-sxm" */
	uint32_t fullest;
	double step_us;		/* of a pipeline that never waits */
};

struct search_report {
	VEC(struct search_found) found;	/* the best first */
	struct search_near least;	/* of all looked at, the smallest */
	bool any_near;
	/*
	 * Of degrees that were never placed, the smallest: no more than its
	 * weights, gradients and states, spread evenly.
	 */
	struct search_near bare;
	bool any_bare;
	/*
	 * Of plans that no host has memory for, the one that asks least of a
	 * node's: `bytes` and `room` are of that node.
	 */
	struct search_near host;
	bool any_host;
	/* `effort` was reached: `found` has only plans whose rank programs were
	 * made by then, and there may be better ones */
	bool stopped;
	bool refused;		/* by the passes behind it, whatever the plan */
	const char *pins;	/* "tp, zero", or "" */
	double bound_us;	/* no plan of the space is below it */
	/* how the space shrank */
	double space;		/* plans in it */
	uint64_t groups;	/* degrees */
	uint64_t groups_cut;	/* not looked at: bounds were above */
	uint64_t groups_full;	/* their states alone do not fit */
	uint64_t cut;		/* plans whose bound was above what was found */
	uint64_t widths;	/* placements that were made */
	uint64_t unplaced;	/* by rules: docs/search.md */
	uint64_t priced;	/* plans composed of prices */
	uint64_t full;		/* of these, did not fit */
	uint64_t run;		/* schedules that were run */
	uint64_t nodes;		/* of all rank programs that were made */
};

/* ---- search.c --------------------------------------------------------- */

/*
 * Of a flat training program before `recompute`, whose plan settings are
 * pins.  What *out points to is in arena a.  False after errors, which say
 * what binds if nothing fits.
 */
bool search_run(struct ir_module *m, const struct search_options *o,
		struct arena *a, struct search_report *out);
/*
 * The work that a search has done, in plans priced: a placement counts as a
 * hundred of them, and 40 nodes of rank programs, which are made and priced
 * for the best plans, as one.  10,000 take 0.3 to 1.3 s.
 */
uint64_t search_effort(const struct search_report *r);
/* "pp=4 dp=2 tp=8", what is above 1; in the arena. */
const char *search_degrees(const struct plan *p, struct arena *a);

/* ---- search_advice.c --------------------------------------------------- */

/* A change with which a plan is found, and the best one then. */
struct search_advice {
	const char *what;	/* "on 2 nodes of 8 devices" */
	struct search_found best;
};

#define SEARCH_STOPPED "what else would help was not looked for any longer"

struct search_misfit {
	const char *why;	/* in one line */
	const char *never;	/* how small it gets, if nothing helps; NULL */
	bool stopped;		/* more may help, and would take long to find */
	VEC(struct search_advice) advice;
};

/*
 * Why search_run found nothing with these options, and the nearest changes
 * with which it does, each by a search of its own; the module stays as it is.
 */
void search_misfit(const struct ir_module *m, const struct search_options *o,
		   const struct search_report *r, struct arena *a,
		   struct search_misfit *out);
/* "on 2 nodes of 8 devices: a step of 3.2 ms, 60.3 GiB on the fullest rank" */
const char *search_advice_text(const struct search_advice *x,
			       struct arena *a);

/* ---- search_print.c ---------------------------------------------------- */

/* The best plans as a table, a line each. */
void search_print_top(const struct search_report *r, struct buf *out);
/* How large the space was, and what became of it. */
void search_print_report(const struct search_report *r, struct buf *out);

#endif

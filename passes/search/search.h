/*
 * The search: of all plans for a model on a target, it finds the one with the
 * shortest step among those that fit. docs/search.md describes it.
 *
 * The space is that of search_space.c and search_each.c, within what the user
 * has pinned.  Plans are tried in the order of a lower bound, and those whose
 * bound is above the best found are left out.  Some bounds are proven; others
 * are rules of docs/search.md that were measured, and may leave out a better
 * plan: the report counts what only rules have ruled out.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_SEARCH_H
#define PASSES_SEARCH_H

#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"

#define SEARCH_CONTEXT_PIECE 1024	/* positions of a rank, at the least */

struct memo;
struct search_report;

/* Options of pass `search`; the driver owns them. */
struct search_options {
	const struct target *target;	/* NULL: the pass does nothing */
	struct price_traits traits;
	uint32_t top;		/* plans to report, the best first; 0 is 1 */
	uint64_t effort;	/* search_effort to stop at; 0: no limit */
	struct search_report *report;	/* filled in too, or NULL */
	/* what code needs on a rank beside its arena; NULL: nothing */
	const struct memory_scratch *scratch;
};

/* A plan that was found. */
struct search_found {
	struct plan plan;	/* complete; in the report's arena */
	double step_us;
	int64_t bytes;		/* of the fullest rank */
	int64_t capacity;		/* that its device has for it */
	uint32_t fullest;	/* its rank in the pipeline */
};

/* A plan that does not fit, and the bytes that it lacks. */
struct search_near {
	struct plan plan;
	int64_t bytes;		/* of the fullest rank */
	int64_t capacity;		/* that its device has for it */
	const char *device;	/* "a100-sxm" */
	uint32_t fullest;
};

struct search_report {
	VEC(struct search_found) found;	/* the best first */
	/* of all plans tried, the one that lacks least */
	struct search_near least;
	bool any_near;
	/*
	 * Of degrees that were never placed, those that need least: their
	 * weights, gradients and optimizer state alone, spread evenly.
	 */
	struct search_near bare;
	bool any_bare;
	/*
	 * Of plans that no host has memory for, the one that needs least of a
	 * node: `bytes` and `capacity` are of that node.
	 */
	struct search_near host;
	bool any_host;
	/* `effort` was reached: `found` has only plans whose rank programs were
	 * made by then, and there may be better ones */
	bool stopped;
	/* by passes that run after it, whatever the plan */
	bool refused;
	const char *pins;	/* "tp, zero", or "" */
	/* no plan of the space takes less, if the rules hold */
	double bound_us;
	/* size of the space, and what became of it */
	double space;		/* plans in it */
	uint64_t groups;	/* degrees */
	/* not tried: their bound was above what was found */
	uint64_t groups_cut;
	/* weights, gradients and states alone do not fit */
	uint64_t groups_full;
	uint64_t cut;		/* plans whose bound was above what was found */
	uint64_t placements;	/* placements that were made */
	/* shardings left out by rules: docs/search.md */
	uint64_t unplaced;
	uint64_t priced;	/* plans composed of prices */
	uint64_t full;		/* plans that did not fit */
	uint64_t run;		/* schedules that were run */
	uint64_t nodes;		/* of all rank programs that were made */
};

/* ---- search.c --------------------------------------------------------- */

/*
 * Searches plans for a flat training program before `recompute`, whose
 * settings `plan.*` are pins.  What *out points to is in arena a.  The memo,
 * which is the search's alone until it returns, may be NULL: that takes two
 * or three times as long.  False after errors of the program or the pins; a
 * search that finds nothing returns true.
 */
bool search_run(struct ir_module *m, const struct search_options *o,
		struct memo *memo, struct arena *a,
		struct search_report *out);
/*
 * The work that a search has done, in plans priced: a placement counts as a
 * hundred of them, and 96 nodes of rank programs, which are made and priced
 * for the best plans, as one.  10,000 take 0.3 to 1.3 s.
 */
uint64_t search_effort(const struct search_report *r);
/* "pp=4 dp=2 tp=8", what is above 1; in the arena. */
const char *search_degrees(const struct plan *p, struct arena *a);

/* ---- search_advice.c --------------------------------------------------- */

/*
 * A change of pins, target or model with which a plan fits, and the best plan
 * then.
 */
struct search_advice {
	const char *what;	/* "on 2 nodes of 8 devices" */
	struct search_found best;
};

#define SEARCH_STOPPED "what else would help was not looked for any longer"

struct search_misfit {
	const char *why;	/* in one line */
	/* if nothing helped: the least bytes of all that was tried; or NULL */
	const char *never;
	/* not all changes were tried, since that takes long */
	bool stopped;
	VEC(struct search_advice) advice;
};

/*
 * Why search_run found nothing with these options, and the nearest changes with
 * which it does, each found by a search of its own.  The module is not changed.
 */
void search_misfit(const struct ir_module *m, const struct search_options *o,
		   const struct search_report *r, struct memo *memo,
		   struct arena *a, struct search_misfit *out);
/* "on 2 nodes of 8 devices: a step of 3.2 ms, 60.3 GiB on the fullest rank" */
const char *search_advice_text(const struct search_advice *x,
			       struct arena *a);

/* ---- search_print.c ---------------------------------------------------- */

/* Prints the best plans as a table, a line each. */
void search_print_top(const struct search_report *r, struct buf *out);
/* Prints how large the space was, and what became of it. */
void search_print_report(const struct search_report *r, struct buf *out);

#endif

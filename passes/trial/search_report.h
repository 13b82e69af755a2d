/*
 * What a search is asked, and what it says in the end.
 */
#ifndef PASSES_SEARCH_REPORT_H
#define PASSES_SEARCH_REPORT_H

#include <signal.h>

#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/price/price.h"

struct pass_ahead;
struct search_report;

/* Options of pass `search`; the driver owns them. */
struct search_options {
	const struct target *target;	/* NULL: the pass does nothing */
	struct price_traits traits;
	uint32_t top;		/* plans to report, the best first; 0 is 1 */
	bool distinct;		/* of those, no two are search_is_alike */
	uint64_t effort;	/* stop at this search_effort; 0: no limit */
	/*
	 * Seconds of wall time after which nothing is placed any longer; 0: a
	 * number of nodes limits that instead, which gives the same answer on
	 * any machine.
	 */
	double seconds;
	/* set by a signal: end with the best so far; or NULL */
	const volatile sig_atomic_t *interrupted;
	bool shows;		/* prints progress to a terminal */
	/* another thread looks ahead: the same answer in less time */
	bool two_threads;
	bool no_advice;		/* if nothing fits, say so and no more */
	/* receives the programs of the best plan, or NULL */
	struct pass_ahead *ahead;
	/* of `offload`, what code does: the optimizer's state to the host */
	bool compiled;
	bool keeps_priced;	/* for the report's `all` */
	struct search_report *report;	/* filled in by the pass, or NULL */
	/* scratch that code needs on a rank beside its arena, or NULL */
	const struct memory_scratch *scratch;
};

/* A plan that was found. */
struct search_found {
	struct plan plan;	/* complete; in the report's arena */
	double step_us;
	int64_t bytes;		/* of the fullest rank */
	int64_t capacity;		/* what its device has free */
	uint32_t fullest;	/* its place in the pipeline */
};

/* A plan that was priced, by its pieces. */
struct search_priced {
	int64_t tp, cp, ep, pp, dp;
	int64_t microbatch, nmicrobatches, interleave;
	const char *schedule;
	int zero;
	bool sequence, offload;
	bool tight;		/* stages recompute so that it fits */
	double step_us;
	int64_t bytes;		/* of the fullest rank */
};

/* A plan that does not fit, with its bytes and the capacity. */
struct search_near {
	struct plan plan;
	int64_t bytes;		/* of the fullest rank */
	int64_t capacity;		/* what its device has free */
	const char *device;	/* "a100-sxm" */
	uint32_t fullest;
};

/* Whether plans may have weights and gradients on hosts. */
enum search_hosts {
	SEARCH_HOSTS_NONE,	/* never */
	SEARCH_HOSTS_UNKNOWN,	/* if the target said what memory they have */
	SEARCH_HOSTS_KNOWN	/* where these have the memory */
};

struct search_report {
	VEC(struct search_found) found;	/* the best first */
	/* all that were priced and fit, in the order of the search, if the
	 * options ask for them; one may be there several times */
	VEC(struct search_priced) all;
	/* of the plans tried that do not fit, the one that lacks least */
	struct search_near least;
	bool any_near;
	/*
	 * Of degrees whose weights, gradients and optimizer state alone do not
	 * fit, those for which these, evenly spread, need the fewest bytes.
	 */
	struct search_near bare;
	bool any_bare;
	/*
	 * Of plans that do not fit in the memory of hosts, the one that needs
	 * least: `bytes` and `capacity` are those of its fullest node.
	 */
	struct search_near host;
	bool any_host;
	enum search_hosts hosts;
	/* of one copy of weights, gradients and optimizer state; of all memory
	 * of devices, hosts and drives: set with SEARCH_HOSTS_KNOWN */
	double needs_bytes, has_bytes;
	/* `effort` was reached: `found` has only plans whose rank programs were
	 * made by then, and there may be better ones */
	bool stopped;
	/* a pass that runs later refuses the model with any plan */
	bool refused;
	const char *pins;	/* "tp, zero", or "" */
	/* several kinds of node, of which only the target's order is tried */
	bool in_order;
	double bound_us;	/* no plan of the space takes less */
	/*
	 * What plans take at least of which bound_us says nothing; INFINITY:
	 * none of them is quicker than those found.  Stages of one rank have
	 * other ways to recompute, which take more in sum or share slots
	 * otherwise; points of the fronts that no programs were made of.
	 */
	double ways_us, unmade_us;
	/* size of the space, and what became of it */
	double space;		/* plans in it */
	uint64_t groups;	/* sets of degrees */
	/* of these, not tried: their bound was above the plans found */
	uint64_t groups_cut;
	/* whose weights, gradients and optimizer state alone do not fit */
	uint64_t groups_full;
	/* plans above those found: by a bound before they were placed, or by
	 * their pieces */
	uint64_t above, cut;
	uint64_t placements;	/* placements that were made */
	uint64_t placed_nodes;	/* of all programs that were placed */
	uint64_t staged_nodes;	/* of those that were staged as pieces */
	uint64_t open;		/* plans that were not looked at any longer */
	uint64_t priced;	/* plans composed of prices */
	uint64_t looked;	/* pooling.looked of all ranks */
	uint64_t full;		/* plans that did not fit */
	uint64_t run;		/* schedules that were run */
	uint64_t nodes;		/* in all rank programs that were made */
};

/* ---- search_state.c ---------------------------------------------------- */

/*
 * The work that a search has done: 8 nodes of programs that were placed count
 * as one, as do 96 that were staged, 8 plans priced, 96 nodes of rank programs,
 * which are made and priced for the best plans, and 8,192 partial
 * choices of how stages recompute.
 */
uint64_t search_effort(const struct search_report *r);
/*
 * Whether plans differ in details alone, such as the microbatch, interleaving,
 * the layers of stages or what they recompute: they have the same degrees,
 * schedule, ZeRO stage and offload.
 */
bool search_is_alike(const struct plan *a, const struct plan *b);

#endif

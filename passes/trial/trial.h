/*
 * A plan that is tried: whether it fits, with which ways to recompute, and what
 * it takes, bounds before prices.  It knows the plans found so far only by the
 * limit that they are; which plans are tried is the search's (passes/search).
 * trial_try.c tries one sharding; trial_compose.c computes time, trial_fit.c
 * and trial_host.c bytes; trial.c is the plan itself.
 *
 * Each section is named after the .c file that defines it.
 */
#ifndef PASSES_TRIAL_H
#define PASSES_TRIAL_H

#include "passes/trial/search_state.h"

/* fmax and fmin, without rules for NaN: no argument is, and calls are many. */
static inline double
larger(double a, double b)
{
	return a > b ? a : b;
}

static inline double
lesser(double a, double b)
{
	return a < b ? a : b;
}

/*
 * Whether a rank's memory suffices.  The verdict of a plan is the largest of
 * those of its ranks.
 */
enum trial_verdict {
	TRIAL_FITS,
	/* its bound is above the plans found, by the ranks that fit so far */
	TRIAL_CUT,
	TRIAL_OPEN,	/* no ways are found to fit, but some may */
	TRIAL_FULL	/* it does not fit, whatever it recomputes */
};

/*
 * What became of a plan.  The outcome of several tries is the largest of
 * theirs.
 */
enum trial_outcome {
	OUTCOME_NONE, /* it cannot be placed */
	OUTCOME_CUT, /* its bound is above the plans found */
	OUTCOME_FITS, /* it fits with the quickest way to recompute */
	OUTCOME_CUT_TIGHT, /* its bound with a slower way is above these */
	OUTCOME_TIGHT, /* it fits only with a slower way */
	OUTCOME_FULL /* it does not fit */
};

/* A plan that is being tried. */
struct trial {
	struct search *s;
	struct space_plan *t;
	struct piece_key key;
	uint32_t nstages;
	int64_t *layers;
	/* ways to recompute; NULL: as pinned, which is choice 0 then */
	const struct piece_choices *ways_of;
	const struct piece_choices *known;	/* for bounds, before that */
	uint32_t *choice;	/* by stage: index in ways_of */
	/* the same of the quickest way: with saves or parameters on hosts it
	 * need not be the one with the least kernels, which is 0 */
	uint32_t *quickest;
	struct piece_cost *cost;	/* as pinned */
	/* by choice: the cost of its programs; NULL: not made yet */
	struct piece_cost **made;
	/* by stage, with choice 0; NULL: not known yet */
	struct piece_bytes *plain;
	/* by way, of the first of equal stages; NULL: not known yet */
	struct trial_sure **sure;
	double *slot;		/* by stage of a rank, while they are summed */
	double *fixed;		/* by rank: bytes for the whole step */
	/* by rank: bytes while its update runs, of which no slot is left */
	double *update_temp;
	uint32_t *like;		/* by stage: first of a row of equal stages */
	struct piece_update *update;	/* NULL: not needed yet */
	/* by stage: its price is that of the stage before */
	bool *again;
	/* by stage: what it takes at least with any way to recompute */
	double (*least)[SCHED_NKINDS];
	/* by rank: its stages have their choices; else they may have any */
	bool *chosen;
	uint32_t *rank_of;	/* by stage: its place in the pipeline */
	uint32_t *dev;		/* by rank: its device group */
	uint32_t *dev_of;	/* by stage: its device group */
	uint32_t *stages;	/* by rank: `chunks` each */
	int64_t *first;		/* by stage: its first layer */
	struct price p;
	/* the time that the step may be shorter with choices not looked at;
	 * by rank, of one microbatch */
	double left_us, *left;
	/* the same if stages of a rank might share slots in groups */
	double grouped_us;
	bool evenly;	/* the slowest stage of a rank counts before the sum */
	uint32_t *ways;		/* search_seen.ways; NULL: not kept */
	bool looked;		/* it was tried, not left out by a bound */
	/* it may fit with more on drives and less in the memory of hosts */
	bool drives_help;
	/* lower bound of its pipeline, with the choices composed last */
	double bound_us;
	double any_us;		/* the same with any choices */
	uint32_t busiest;	/* the rank with the most work */
	double *work;		/* by rank: that bound without waiting */
	/* lower bound of the step for all choices that were tried */
	double least_us;
	/* by rank: bytes that it may have of saves on its node's host, and
	 * whether that is for other ranks of the pipeline, too */
	double *share;
	bool *shared;
};

struct trial_fit {
	double most;		/* bytes of the fullest rank */
	double over;		/* bytes beyond its capacity; below 0: left */
	uint32_t fullest;
};

/* ---- trial.c ---------------------------------------------------- */

/* A trial of t whose ZeRO, layers and choices are not set; in s->space.tmp. */
struct trial trial_begin(struct search *s, struct space_plan *t);
/*
 * Whether the bytes of plans that do not fit must be computed for the report:
 * no plan limits the search, and this is not the first walk.
 */
bool trial_is_asked(const struct trial *x);
void trial_set_layers(struct trial *x, int64_t *layers);
/* Whether what a way computes again is not all that it takes: saves and
 * parameters on hosts cross the link. */
bool trial_has_link(const struct trial *x);
/* Whether a stage does not take the quickest way to recompute, so as to fit. */
bool trial_is_tight(const struct trial *x);
/* The plan without its layers by stage and what these recompute. */
void trial_keys(const struct trial *x, struct plan *p);
/* The complete plan, in the report's arena. */
void trial_plan(const struct trial *x, struct plan *p);
/*
 * Notes a plan that does not fit with the quickest way to recompute, and whose
 * step or its bound is `us`, if that is close to the best.
 */
void trial_note_close(const struct trial *x, double us);

/* ---- trial_compose.c ------------------------------------------------- */

/*
 * The cost of the programs that recompute by that choice; NULL: they cannot be
 * made.
 */
struct piece_cost *trial_cost(struct trial *x, uint32_t choice);
struct piece_update *trial_update(struct trial *x);
/* Sets whether all ranks have their choices. */
void trial_set_chosen(struct trial *x, bool chosen);
/*
 * Prices stages with their choices, and sets bound_us: that of any choices on
 * ranks that are not `chosen`.  False: the programs of a choice cannot be made.
 */
bool trial_bound(struct trial *x);
/* Lower bound of the step: bound_us with its update. */
double trial_step_us(struct trial *x);
/*
 * Lower bound of the step, if stages of its ranks have other choices that take
 * no less in sum; its update was priced.
 */
double trial_others_us(struct trial *x);
/*
 * Raises what functions of a stage take with a way to what its saves take on
 * the link, if hosts have these.
 */
void trial_raise_to_saves(const struct trial *x, uint32_t stage,
			  const struct piece_choice *way,
			  double least[SCHED_NKINDS]);
/*
 * What functions of a stage take on the link if hosts have its parameters, with
 * any way to recompute; what else they take is `least`, which it raises.
 */
void trial_raise_to_params(struct trial *x, uint32_t stage,
			   double least[SCHED_NKINDS]);
/*
 * Whether bound_us, with the time of its update or without, is above the plans
 * found.
 */
bool trial_is_above(struct trial *x, bool with_update);
/*
 * Whether the bound of a plan is above the plans found, one rank of which takes
 * at least `us` for a microbatch, and all others what they take with any way;
 * its update was priced.
 */
bool trial_is_slow(struct trial *x, uint32_t rank, double us);
/*
 * Runs the schedule with the update that was priced, and sets x->p.  False: the
 * schedule stalls.
 */
bool trial_run(struct trial *x);
/* Lowers least_us to the bound of a choice that was tried. */
void trial_least(struct trial *x, double us);

/* ---- trial_bytes.c ---------------------------------------------------- */

/* Sets x->fixed and x->update_temp. */
void trial_set_fixed(struct trial *x);
/*
 * Bytes of the window for what layers [lo, hi) have on the host: of parameters,
 * and if saves are there, of `slots` of one layer, by kind.
 */
double trial_window_bytes(struct trial *x, const double *slots, int64_t lo,
			  int64_t hi);
/* Sets x->plain. */
void trial_set_plain(struct trial *x);
/* Sets what a stage keeps by its choice, from the programs of the choice. */
void trial_stage_bytes(struct trial *x, uint32_t stage, struct piece_bytes *b);
/*
 * Bytes of a rank while it runs microbatches, without tensors that live all
 * step; b: what each of its stages keeps.
 */
double trial_moving_bytes(struct trial *x, uint32_t rank,
			  const struct piece_bytes *b);
/*
 * The same, or of its update, if that is more.  If b is of programs of the
 * plan's lengths, the arena of the rank programs takes no less beside tensors.
 */
double trial_rank_bytes(struct trial *x, uint32_t rank,
			const struct piece_bytes *b);

/* ---- trial_fit.c ------------------------------------------------------ */

/* Chooses how stages recompute, so that all ranks fit. */
enum trial_verdict trial_fits(struct trial *x, struct trial_fit *f);
/*
 * What is known before the programs for the plan's lengths are made.
 * TRIAL_FULL: on some rank, or host, no ways fit, by what those for one
 * sequence keep.  TRIAL_CUT: the plan is above the plans found with all ways
 * that may fit; of plans whose saves stay on devices, where the quickest do
 * not.  Else TRIAL_FITS.
 */
enum trial_verdict trial_may_fit(struct trial *x);

/* ---- trial_kept.c ----------------------------------------------------- */

/* What a rank has at least with any ways to recompute; x->fixed is set. */
double trial_kept_bytes(struct trial *x, uint32_t rank,
			const struct piece_kept *kept);
/* Whether a rank is too large by that. */
bool trial_is_surely_full(struct trial *x);

/* ---- trial_host.c ---------------------------------------------------- */

/*
 * Whether each node's host may have memory for the bytes that its ranks keep
 * there, with some ways to recompute.  True where the target does not state the
 * memory of hosts.
 */
bool trial_may_fit_hosts(struct trial *x);
/* ---- trial_try.c ------------------------------------------------------ */

/* Tries the plan with the sharding of x->key. */
enum trial_outcome trial_sharding(struct trial *x);

#endif

/*
 * Private header of the files that try one plan: search_zero.c chooses ZeRO,
 * `sequence` and offload, search_try.c orders bounds and prices,
 * search_compose.c computes time, search_fit.c bytes.
 */
#ifndef PASSES_SEARCH_TRIAL_H
#define PASSES_SEARCH_TRIAL_H

#include "passes/search/search_parts.h"

/* How exactly the cost of recomputing is known. */
enum trial_state {
	TRIAL_MADE,	/* from programs made for it */
	/*
	 * guessed, except that before a plan is declared not to fit, the
	 * programs of the way that keeps least are made
	 */
	TRIAL_GUESSED,
	TRIAL_HOPED	/* guessed, also for that way */
};

/*
 * Whether ranks have the capacity; of several ranks, the last of these that
 * holds for one.
 */
enum trial_verdict {
	TRIAL_FITS,
	/* no guessed way fits, but the one that keeps least may */
	TRIAL_MAY_FIT,
	/* its bound is above what was found, by the ranks that fit so far */
	TRIAL_CUT,
	TRIAL_FULL,
	TRIAL_HOPELESS	/* it fits with no way to recompute */
};

/*
 * What became of a plan; of several tries, the last of these that holds for
 * one.
 */
enum trial_outcome {
	OUTCOME_NONE, /* it cannot be placed */
	OUTCOME_CUT, /* its bound is above what was found */
	OUTCOME_FITS,
	OUTCOME_CUT_TIGHT, /* the same, with what it has to recompute */
	OUTCOME_TIGHT, /* it fits only by recomputing */
	OUTCOME_FULL /* it does not fit */
};

/* A plan that is being tried. */
struct trial {
	struct search *s;
	struct search_try *t;
	struct search_key key;
	uint32_t nstages;
	int64_t *layers;
	uint32_t *choice;	/* by stage: how it recomputes */
	enum trial_state state;
	struct search_cost *cost;
	/* by choice: with its programs; NULL: not made yet */
	struct search_cost **made;
	struct search_bytes *plain;	/* by stage: without recomputing */
	double *update_temp;	/* by stage: temporary bytes of its update */
	double *fixed;		/* by rank: bytes of tensors that stay */
	uint32_t *like;		/* by stage: the first stage that is the same */
	struct search_update *update;	/* NULL: not yet */
	/* by stage: it has the price of the one before */
	bool *again;
	uint32_t *rank_of;	/* by stage */
	uint32_t *dev;		/* by rank */
	uint32_t *dev_of;	/* by stage */
	uint32_t *stages;	/* by rank: `chunks` each */
	int64_t *first;		/* by stage: its first layer */
	struct price p;
	/* in use instead of its sharding; or NULL */
	const struct search_proxy *proxy;
	bool may_win;		/* by the bounds of the proxy */
	/* some layers by stage were tried with which it may fit */
	bool may_fit;
	uint32_t full;		/* see search_seen */
	uint32_t *ways;		/* of search_seen; NULL: not kept */
	bool looked;		/* no lower bound of its sharding left it out */
	/* lower bound of its pipeline, as it was composed last */
	double bound_us;
	/* by rank: the same, if that rank has the most work */
	double *bounds;
	uint32_t busiest;	/* the rank with the most work */
	double *plain_us;	/* by rank: bounds without recomputing */
	double pipe_us;		/* lower bound of the pipeline with this ZeRO */
	/* lower bound of the step over all that was tried */
	double least_us;
};

struct trial_fit {
	double most;		/* bytes of the fullest rank */
	double over;		/* of these, beyond its capacity */
	uint32_t fullest;
};

/* ---- search_try.c ----------------------------------------------------- */

/* Whether its bound is above what was found, with its choices so far. */
bool trial_is_cut(struct trial *x);
/* Whether one rank alone makes it so, with its guessed time to recompute. */
bool trial_is_busy(struct trial *x, uint32_t rank);
/* Lowers least_us to what was tried. */
void trial_least(struct trial *x, double us);
/* The best plan of its sharding in the guessing walk; NULL: none. */
struct search_best *trial_best(const struct trial *x);
/* Tries the plan with the sharding of its key. */
enum trial_outcome trial_sharding(struct trial *x);
/*
 * Tries the plan with the lower bounds of a proxy first.  If the plan cannot
 * win or fit with these, its own sharding is not made.  OUTCOME_NONE: it may
 * win and fit.
 */
enum trial_outcome trial_proxy(struct trial *x);

/* ---- search_compose.c ------------------------------------------------- */

/*
 * The cost of the programs that recompute in that way; NULL: they cannot be
 * made.
 */
struct search_cost *trial_cost(struct trial *x, uint32_t choice);
struct search_update *trial_update(struct trial *x);
/*
 * Sets the prices of stages as they recompute, except where x->again is set.
 * False: a choice cannot be made.
 */
bool trial_compose(struct trial *x);
/* A lower bound of the pipeline of a plan that is composed. */
double trial_bound_us(struct trial *x);
/* A lower bound of the guessed time to recompute on a rank. */
double trial_rebuild_us(const struct trial *x, uint32_t rank);
/* Sets the prices of updates, once layers are chosen. */
void trial_compose_update(struct trial *x);
/* Time of the slowest update, without what the pipeline may hide of it. */
double trial_update_us(const struct trial *x);
/* Time that data ranks spend on exchange while the pipeline runs. */
double trial_data_us(struct trial *x);
/* Runs the schedule and sets the price.  False: it stalls. */
bool trial_run(struct trial *x);

/* ---- search_fit.c ----------------------------------------------------- */

/*
 * Whether bytes of plans that do not fit are to be reported: no plan was found,
 * and this is not the guessing walk, after which there is another.
 */
bool trial_is_asked(const struct trial *x);

/* Sets how stages recompute so that all ranks fit. */
enum trial_verdict trial_fits(struct trial *x, struct trial_fit *f);

/* The complete plan, in the report's arena. */
void trial_plan(const struct trial *x, struct plan *p);

/* ---- search_host.c ---------------------------------------------------- */

/*
 * Whether each node's host has memory for what its ranks keep there; true where
 * the target does not state what it has.
 */
bool trial_fits_hosts(struct trial *x);

#endif

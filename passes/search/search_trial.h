/*
 * Between search_zero.c (which widths), search_try.c (when), search_compose.c
 * (what it takes) and search_fit.c (whether it fits).
 */
#ifndef PASSES_SEARCH_TRIAL_H
#define PASSES_SEARCH_TRIAL_H

#include "passes/search/search_parts.h"

/* What is known of how it rebuilds. */
enum trial_state {
	TRIAL_MADE,	/* its programs */
	TRIAL_GUESSED,	/* what that takes and keeps, but for the way that
			 * keeps least, before no other one fits */
	TRIAL_HOPED	/* the same, and that this one fits */
};

/* What ranks have room for; of several, what the last of these says. */
enum trial_scratch {
	TRIAL_FITS,
	TRIAL_MAY_FIT,	/* so it is hoped */
	TRIAL_LATE,	/* it is cut by the ranks that fit till now */
	TRIAL_FULL,
	TRIAL_HOPELESS	/* however it recomputes */
};

/* What became of a plan: the worst of several, in this order. */
enum trial_outcome {
	OUTCOME_NONE, /* there is no such placement */
	OUTCOME_CUT, /* its bound is above what was found */
	OUTCOME_FITS,
	OUTCOME_CUT_TIGHT, /* the same, by what it has to recompute */
	OUTCOME_TIGHT, /* it fits by recomputing only */
	OUTCOME_FULL /* it does not fit */
};

/* One plan on its way to a price. */
struct trial {
	struct search *s;
	struct search_try *t;
	struct search_key key;
	uint32_t nstages;
	int64_t *layers;
	uint32_t *choice;	/* by stage: how it recomputes */
	enum trial_state state;
	struct search_cost *cost;
	struct search_cost **made;	/* by choice; NULL: not yet */
	struct search_bytes *plain;	/* by stage: as it is placed */
	double *update_temp;	/* by stage: while it is updated */
	double *fixed;		/* by rank: bytes that do not move */
	uint32_t *like;		/* by stage: the first of those of its size */
	struct search_update *update;	/* NULL: not yet */
	bool *again;		/* by stage: takes what the one before does */
	uint32_t *rank_of;	/* by stage */
	uint32_t *dev;		/* by rank */
	uint32_t *dev_of;	/* by stage */
	uint32_t *stages;	/* by rank: `chunks` each */
	int64_t *first;		/* by stage: its first layer */
	struct price p;
	const struct search_stand *stand;	/* for its width; or NULL */
	bool may_win;		/* as it is stood in for */
	bool room;		/* layers were spread so that it may fit */
	uint32_t full;		/* see search_seen */
	uint32_t *ways;		/* of search_seen; NULL: nobody keeps them */
	bool looked;		/* no floor has cut it */
	double bound_us;	/* of its pipeline, as it was composed last */
	double *bounds;		/* the same by rank: if it were the busiest */
	uint32_t busiest;	/* the rank that is */
	double *plain_us;	/* by rank: bounds if nothing is rebuilt */
	double pipe_us;		/* a pipeline with this ZeRO, at the least */
	double least_us;	/* whatever was tried takes no less */
};

struct trial_fit {
	double most;		/* bytes of the fullest rank */
	double over;		/* of these, what it has no room for */
	uint32_t fullest;
};

/* ---- search_try.c ----------------------------------------------------- */

/* Whether it is above what was found, with its choices till now. */
bool trial_is_late(struct trial *x);
/* Whether a rank alone makes it so, as it is guessed to rebuild. */
bool trial_is_busy(struct trial *x, uint32_t rank);
/* What was tried takes no less. */
void trial_least(struct trial *x, double us);
/* Of its width, as guessed; NULL: none. */
struct search_best *trial_best(const struct trial *x);
/* As wide as the key says. */
enum trial_outcome trial_width(struct trial *x);
/*
 * Tried as another width first, which takes and holds no more, that one is not
 * made if it cannot win or does not fit.  OUTCOME_NONE: it may.
 */
enum trial_outcome trial_stand_in(struct trial *x);

/* ---- search_compose.c ------------------------------------------------- */

/* Of the programs that recompute so; NULL: there are none. */
struct search_cost *trial_cost(struct trial *x, uint32_t choice);
struct search_update *trial_update(struct trial *x);
/*
 * The stages, as they recompute, but for those that take what the one before
 * does.  False: a choice cannot be made.
 */
bool trial_compose(struct trial *x);
/* What its pipeline takes at the least: of a plan that is composed. */
double trial_bound_us(struct trial *x);
/* What a rank is guessed to rebuild takes at the least. */
double trial_rebuild_us(const struct trial *x, uint32_t rank);
/* Its updates, once layers are chosen. */
void trial_compose_update(struct trial *x);
/* What the slowest update takes, behind all that may hide of it. */
double trial_update_us(const struct trial *x);
/* What data ranks exchange while the pipeline runs: if it runs but once. */
double trial_data_us(struct trial *x);
/* Runs the schedule: sets the price.  False: it stalls. */
bool trial_run(struct trial *x);

/* ---- search_fit.c ----------------------------------------------------- */

/*
 * Somebody asks what a plan would take that does not fit: none was found that
 * does, and not on the first way through the space, since there is another.
 */
bool trial_is_asked(const struct trial *x);

/* Sets how stages recompute so that all ranks have room. */
enum trial_scratch trial_fits(struct trial *x, struct trial_fit *f);

/* The whole plan, in the report's arena. */
void trial_plan(const struct trial *x, struct plan *p);

/* ---- search_host.c ---------------------------------------------------- */

/*
 * Whether each node's host has what its ranks keep there, as far as the target
 * says what it has.
 */
bool trial_fits_hosts(struct trial *x);

#endif

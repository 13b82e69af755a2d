/*
 * What a search knows while it tries plans: the space, prices and bounds, what
 * it has found so far, and when it ends.
 */
#ifndef PASSES_SEARCH_STATE_H
#define PASSES_SEARCH_STATE_H

#include "passes/bound/bound.h"
#include "passes/trial/search_report.h"

/* What earlier walks over the space found out about a plan. */
struct search_seen {
	double us;		/* lower bound of its step; 0: not tried yet */
	bool none;		/* it cannot fit */
	/* index in s->ways of the first way that was tried; 0: none */
	uint32_t ways;
};

/*
 * ZeRO, offload and `sequence` of a plan; `way`: ZeRO, plus 4 times the bits
 * of offload, plus 128 with `sequence`.
 */
struct search_way {
	uint32_t next;		/* next way of the same plan; 0: none */
	float us;		/* lower bound of its step */
	uint8_t way;
	uint8_t outcome;		/* enum trial_outcome */
	bool drives_help;		/* see struct trial */
};

/*
 * A plan whose programs do not fit: its rank that lacks most bytes.  No other
 * plan whose stages of that rank are the same fits; of plans that differ in
 * what these recompute it says where to look first.
 */
struct search_unfit {
	struct plan plan;
	uint32_t rank;		/* place in the pipeline */
	/* INFINITY: a pass refuses the programs, or hosts lack memory */
	double lacks;
};

/* A plan that may be better than the best with ways between those priced. */
struct search_close {
	struct plan plan;
	double us;		/* its step, or its bound */
	double least_us;	/* what that may be then, as a guess */
	bool widened;		/* it has them, or there is no time for more */
};

struct search_ahead;

/* A search: its walks set this, and the plans that they try read it and add to
 * what is found. */
struct search {
	const struct search_options *o;
	struct search_report *out;
	struct arena *a;	/* the report's */
	struct space space;
	struct piece_store pieces;
	struct bound bounds;
	struct memo *memo;	/* may be NULL */
	struct sched_briefs briefs;
	uint32_t *order;	/* in which degrees are looked at, by index */
	VEC(struct search_seen) *seen;	/* by degrees, then by plan */
	VEC(struct search_way) ways;	/* entry 0 is unused */
	VEC(struct search_unfit) unfit;
	/* plans whose programs fit; the best first */
	VEC(struct search_found) settled;
	/* plans that recompute, and may be the best with more ways to do so,
	 * and at the end the best; in no order */
	VEC(struct search_close) close;
	struct pass_ahead made;		/* programs of the best settled plan */
	double open_us;		/* least bound of plans not looked at */
	double begin_s;		/* when the search began, by the wall clock */
	double shown_s;		/* since then, when progress was printed */
	double worst_us;	/* plans above it are not tried */
	uint32_t enough;	/* worst_us falls once so many are found */
	/* in the first walk, which makes no programs that recompute */
	bool guessing;
	bool aiming;	/* at what that found: limits do not count */
	struct search_ahead *ahead;	/* another thread, or NULL */
	bool is_ahead;		/* it is that thread's: it notes nothing */
};

/* ---- search_state.c ---------------------------------------------------- */

/*
 * How many plans the user wants, and how many are kept until programs are made.
 */
uint32_t search_nwanted(const struct search *s);
uint32_t search_nkept(const struct search *s);
/* Lowers s->worst_us to the plans found, once these are s->enough. */
void search_set_worst(struct search *s);
/* Seconds of the wall clock since the search began. */
double search_seconds(const struct search *s);
/* Counts in the report what was placed and staged so far. */
void search_count(struct search *s);
/*
 * Whether the search has done as much work as its options allow; if so, it says
 * so in the report.  nodes: those of a program that is not counted yet.
 */
bool search_is_stopped(struct search *s, uint64_t nodes);
/* Whether no more is to be placed, or the user wants the answer at once. */
bool search_is_over(const struct search *s);
/* Whether half of its limit is used up: then nothing is begun that only may
 * make an answer a little better. */
bool search_is_late(const struct search *s);
bool search_is_interrupted(const struct search *s);
/*
 * What programs of that plan were found to lack on a rank that has n stages
 * `of` with these words of `recompute`; 0: nothing is known.
 */
double search_lacks(const struct search *s, const struct plan *p, uint32_t rank,
		    const uint32_t *of, uint32_t n, const char *const *words);
/* The step of the plan if its programs were made and fit, else NULL. */
const struct search_found *search_settled(const struct search *s,
					  const struct plan *p);
/* The step of the n-th settled plan, from 1; INFINITY: there are fewer.  With
 * `distinct`, of the n-th that is like no better one. */
double search_settled_us(const struct search *s, uint32_t n);
/*
 * Whether both plans are the same, but for layers and `recompute` by stage.
 */
bool search_is_same(const struct plan *a, const struct plan *b);
/* Whether a better settled plan is like the i-th. */
bool search_is_double(const struct search *s, uint32_t i);

#endif

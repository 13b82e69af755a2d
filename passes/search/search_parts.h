/* Private header of the search: how it walks over the space. */
#ifndef PASSES_SEARCH_PARTS_H
#define PASSES_SEARCH_PARTS_H

#include "passes/search/search.h"
#include "passes/trial/trial.h"

/* ---- search_walk.c ----------------------------------------------------- */

/* Looks at the plans of those degrees in the order, or only counts them. */
void search_look_at(struct search *s, uint32_t at);

/* ---- search_ahead.c ---------------------------------------------------- */

/* Makes another thread's search, if the options ask for one. */
void search_ahead_open(struct search *s);
void search_ahead_close(struct search *s);
/* A walk over the first n degrees of the order begins: so does the thread. */
void search_ahead_begin(struct search *s, uint32_t n);
/*
 * Before the walk looks at the row that begins with those degrees of the order:
 * takes what the thread has made for it, which it waits for.
 */
void search_ahead_turn_to(struct search *s, uint32_t at);
void search_ahead_end(struct search *s);

/* ---- search_zero.c ----------------------------------------------------- */

/*
 * Tries one plan with the choices that it leaves open: ZeRO, `sequence`,
 * offload, layers by stage and recompute.
 */
void search_try_plan(struct search *s, struct space_plan *t,
		     struct search_seen *seen);
/*
 * Tries a plan again, with its own ZeRO, `sequence` and offload only.  widens:
 * its placement gets ways to recompute between those of the plan and the next.
 * False: there are none, so the plan was not tried.
 */
bool search_retry_plan(struct search *s, const struct plan *p, bool widens);

/* ---- search_settle.c --------------------------------------------------- */

/*
 * Makes the rank programs of the best plans found, and keeps those that fit in
 * s->settled, with the prices and bytes of their programs.  For one that does
 * not fit it is noted what they lack.  False: no program was made.
 */
bool search_settle(struct search *s);

#endif

/*
 * The search: of all plans for a model on a target that fit, it finds the one
 * with the shortest step.  docs/search.md describes it.
 *
 * It knows which plans there are (passes/space), of which the user's pins leave
 * fewer, what they cost (passes/pieces) and what they take at least
 * (passes/bound), and walks over them, trying one after the other
 * (passes/trial).  Plans are left out only if a lower bound, whose proof stands
 * at its function, is above the best found, or if they do not fit.  Where the
 * search ends early, the report has the least bound of what it did not look at.
 *
 * Each section is named after the .c file that defines it.
 */
#ifndef PASSES_SEARCH_H
#define PASSES_SEARCH_H

#include "passes/trial/search_report.h"

struct memo;

/* ---- search.c --------------------------------------------------------- */

/*
 * Searches plans for a flat training program, before the pass `recompute`.  Its
 * settings `plan.*` are pins.  What *out points to is in arena a.  The memo may
 * be NULL, which takes two or three times as long; only the search may use it
 * until it returns.  False after errors of the program or the pins; true if
 * the search finds nothing.
 */
bool search_run(struct ir_module *m, const struct search_options *o,
		struct memo *memo, struct arena *a,
		struct search_report *out);
/* The degrees above 1 as text, like "pp=4 dp=2 tp=8"; in the arena. */
const char *search_degrees(const struct plan *p, struct arena *a);

#endif

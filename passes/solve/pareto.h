/*
 * The Pareto front of choices whose costs overlap: each cost is paid once, when
 * the first of the words that cause it is chosen.  Of all sets of words, those
 * that no other set beats in both bytes and time.
 */
#ifndef PASSES_PARETO_H
#define PASSES_PARETO_H

#include "ir/base.h"

#define PARETO_MAX_WORDS 63

struct pareto_amount {
	int64_t bytes, ps;
};

/* A cost that is paid once, if any of its words, a bit each, is chosen. */
struct pareto_cost {
	uint64_t words;
	struct pareto_amount a;
};

struct pareto_point {
	uint64_t chosen;	/* words */
	uint64_t key;		/* of a choice that is partial, in pareto.c */
	struct pareto_amount a;
};

struct pareto {
	const struct pareto_cost *costs;	/* no two of the same words */
	uint32_t ncosts, nwords;
	int64_t kept;		/* bytes, if nothing is chosen */
	/* set by pareto_find: more bytes, less time; in its arena */
	struct pareto_point *at;
	uint32_t n;
	bool exact;		/* false: some points are left out */
};

void pareto_find(struct pareto *x, struct arena *a);

#endif

/*
 * For each stage one of several ways, which take time and keep bytes, so that
 * all bytes fit: a lower bound of the time.
 */
#ifndef PASSES_SOLVE_LAGRANGE_H
#define PASSES_SOLVE_LAGRANGE_H

#include "ir/base.h"

struct lagrange {
	uint32_t n, nways;	/* stages; ways of each */
	/* by stage, then by way: what it takes, INFINITY if there is no such
	 * way, and what it keeps */
	double *us, *bytes;
	double room;		/* bytes of all stages together */
};

/* Opens it, whose times and bytes the caller then sets, in arena a. */
void lagrange_open(struct arena *a, struct lagrange *x, uint32_t n,
		   uint32_t nways, double room);
/* What ways that fit take at least. */
double lagrange_least_us(const struct lagrange *x);

#endif

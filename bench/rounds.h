/*
 * Times of rounds, as the drivers of benches take them: wall time and that of
 * all threads of the process.
 */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Prints what is wrong with the bench of that name, and exits. */
static inline void
bench_fail(const char *name, const char *what)
{
	fprintf(stderr, "%s: %s\n", name, what);
	exit(1);
}

/* Zeroed memory in huge pages, as a rank's is; NULL: there is none. */
static inline char *
bench_space(int64_t bytes)
{
	size_t page = bytes < 2 << 20 ? 64 : 2 << 20;
	size_t all = ((size_t)bytes + page) / page * page;
	char *p = aligned_alloc(page, all);

	if (p) {
		madvise(p, all, MADV_HUGEPAGE);
		memset(p, 0, all);
	}
	return p;
}

static inline double
bench_now(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench_round {
	double wall, cpu;	/* seconds */
};

/* Before a round: when it begins; after it: how long it took. */
static inline void
bench_begin(struct bench_round *r)
{
	r->wall = bench_now(CLOCK_MONOTONIC);
	r->cpu = bench_now(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void
bench_end(struct bench_round *r)
{
	r->wall = bench_now(CLOCK_MONOTONIC) - r->wall;
	r->cpu = bench_now(CLOCK_PROCESS_CPUTIME_ID) - r->cpu;
}

static inline int
bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts n times: the first is the best, the middle one the median. */
static inline void
bench_sort(double *at, int n)
{
	qsort(at, (size_t)n, sizeof *at, bench_compare);
}

#endif

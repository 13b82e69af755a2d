/* What both programs of bench/comm do alike. */
#ifndef BENCH_COMM_SIZES_H
#define BENCH_COMM_SIZES_H

#include <stdio.h>
#include <stdlib.h>

#define LEAST_BYTES 64L

/* With BENCH_SMOKE the programs only show that they still run. */
static inline long
most_bytes(void)
{
	return getenv("BENCH_SMOKE") ? 4096 : 256L << 20;
}

enum { ROUNDS = 5 };

/* Exchanges of a round. */
static inline int
times(long bytes)
{
	long n = (64L << 20) / bytes;

	return n < 2 ? 2 : n > 1000 ? 1000 : (int)n;
}

static inline int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The best and the median round. */
static inline void
tell(const char *who, long ranks, long bytes, double us[ROUNDS])
{
	qsort(us, ROUNDS, sizeof(*us), by_size);
	printf("%s %ld %ld %.3f %.3f\n", who, ranks, bytes, us[0],
	       us[ROUNDS / 2]);
	fflush(stdout);
}

#endif

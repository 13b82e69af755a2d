/* How many cases are tried. */
#ifndef T_CASES_H
#define T_CASES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SLOW_TESTS=skip, as under sanitizers. */
static inline bool
t_short(void)
{
	const char *slow = getenv("SLOW_TESTS");

	return slow && strcmp(slow, "skip") == 0;
}

/* SLOW_TESTS=1, as in make soak and make mutations. */
static inline bool
t_soaks(void)
{
	const char *slow = getenv("SLOW_TESTS");

	return slow && strcmp(slow, "1") == 0;
}

static inline uint32_t
t_some_of(const char *test, uint32_t some, uint32_t all)
{
	uint32_t n = t_soaks() ? all : t_short() ? (some + 7) / 8 : some;

	printf("%s: %u of %u cases\n", test, n, all);
	return n;
}

/* How many are tried, and said to be, of so many that go the same ways of our
 * code: some by make check, an eighth of those under sanitizers, and all by
 * make soak. */
#define t_some(some, all) t_some_of(__func__, some, all)
#define t_cases(all) t_some(all, all)

/*
 * Of cases in rows and columns, of which each goes the ways of its row and of
 * its column, as types do on CPUs: whether one is tried.  make check tries the
 * first row whole and every second one of the others, sanitizers every fourth
 * one of all, make soak all.
 */
static inline bool
t_in_grid(uint32_t row, uint32_t col)
{
	return t_soaks() || (t_short() ? (row + col) % 4 == 0
			     : row == 0 || (row + col) % 2 == 0);
}

#endif

/* How many cases are tried, and which of them today. */
#ifndef T_CASES_H
#define T_CASES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* In days since 1970; TESTS_DAY=N is any other. */
static inline uint64_t
t_day(void)
{
	const char *day = getenv("TESTS_DAY");

	return day && *day ? strtoull(day, NULL, 10)
			   : (uint64_t)time(NULL) / 86400;
}

/*
 * Of cases 0, 1, 2.. that each take long: whether one is tried.  make check
 * tries every `days`-th, others tomorrow, and so all in so many days; there are
 * no fewer cases than days.  make soak tries all.  A choice within a choice
 * comes to all only if no number divides the days of both.
 */
static inline bool
t_today(uint64_t i, uint32_t days)
{
	static uint64_t day;	/* the same until the end, also at midnight */
	static bool known;

	if (!known) {
		known = true;
		day = t_day();
		printf("TESTS_DAY=%llu\n", (unsigned long long)day);
	}
	return t_soaks() || (i + day) % days == 0;
}

/*
 * Of cases in rows and columns, of which each goes the ways of its row and of
 * its column, as types do on CPUs: whether one is tried.  Of three columns and
 * two rows, one is on each day.
 */
static inline bool
t_in_grid(uint32_t row, uint32_t col)
{
	return t_today(3 * row + col, t_short() ? 12 : 6);
}

#endif

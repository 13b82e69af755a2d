/* How many cases are tried. */
#ifndef T_CASES_H
#define T_CASES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* SLOW_TESTS=skip, as under sanitizers. */
static inline bool
t_short(void)
{
	const char *slow = getenv("SLOW_TESTS");

	return slow && strcmp(slow, "skip") == 0;
}

/* How many are tried of so many that go the same ways of our code. */
static inline uint32_t
t_cases(uint32_t all)
{
	return t_short() ? (all + 7) / 8 : all;
}

#endif

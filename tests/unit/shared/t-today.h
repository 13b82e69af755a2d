/* Programs whose tests each take long run some of them on each day. */
#ifndef T_TODAY_H
#define T_TODAY_H

#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/shared/t-cases.h"

#define T_TODAY_MOST 32

/* Runs today's of n tests, as t_today has it; T_ONLY='*apart' instead those of
 * all that have such names. */
static inline int
t_run_today(const struct CMUnitTest *tests, size_t n, uint32_t days)
{
	struct CMUnitTest some[T_TODAY_MOST];
	const char *only = getenv("T_ONLY");
	size_t k = 0, i;

	if (n > T_TODAY_MOST || n < days) {
		fprintf(stderr, "%zu tests in %u days\n", n, days);
		return 1;
	}
	for (i = 0; i < n; i++) {
		if (only || t_today(i, days)) {
			some[k++] = tests[i];
		}
	}
	if (only) {
		cmocka_set_test_filter(only);
	}
	printf("%zu of %zu tests\n", k, n);
	return _cmocka_run_group_tests("today", some, k, NULL, NULL);
}

#endif

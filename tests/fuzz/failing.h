/* Memory for fuzzers, of which one request fails. */
#ifndef FUZZ_FAILING_H
#define FUZZ_FAILING_H

#include <stdlib.h>

/* What `user` points to says how many requests are granted before the one that
 * fails; all after it are granted again. */
static inline void *
failing_realloc(void *user, void *p, size_t n)
{
	int *left = user;

	if (n == 0) {
		free(p);
		return NULL;
	}
	return (*left)-- == 0 ? NULL : realloc(p, n);
}

#endif

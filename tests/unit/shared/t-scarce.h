/*
 * Memory that runs out where the test says so: a `struct mem` of these grants
 * so many requests, then longjmps to `out`.  Include cmocka's headers first.
 */
#ifndef T_SCARCE_H
#define T_SCARCE_H

#include "ir/base.h"

#include <stdlib.h>

struct scarce {
	long left;		/* requests that are granted; negative: all */
	long live;		/* blocks not given back */
	jmp_buf out;
};

static void *
scarce_get(void *user, size_t bytes)
{
	struct scarce *s = user;
	void *p = s->left != 0 ? malloc(bytes) : NULL;

	s->left -= s->left > 0;
	s->live += p != NULL;
	return p;
}

static void
scarce_put(void *user, void *p)
{
	struct scarce *s = user;

	s->live -= p != NULL;
	free(p);
}

static void
scarce_oom(void *user, size_t bytes)
{
	struct scarce *s = user;

	(void)bytes;
	longjmp(s->out, 1);
}

static inline struct mem
scarce_mem(struct scarce *s)
{
	return (struct mem){ .get = scarce_get, .put = scarce_put,
			     .oom = scarce_oom, .user = s };
}

#endif

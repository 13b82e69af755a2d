/*
 * Private to runtime/: the threads that run a kernel's items.
 */
#ifndef RT_POOL_H
#define RT_POOL_H

#include <stdbool.h>

#include "runtime/error.h"

struct rt_workers;

struct rt_workers_options {
	int64_t n;		/* the caller is one of them */
	const int *cores;	/* one for each worker to stay on; NULL: any */
	bool crowded;		/* more threads than cores: never spin */
};

enum rt_status rt_workers_start(struct rt_workers **out,
				const struct rt_workers_options *o,
				struct rt_error *err);
/* Calls work(user, worker, from, to) until every item has been done once.
 * Returns when they are done, even if some workers have not woken up. */
void rt_workers_run(struct rt_workers *w,
		    void (*work)(void *user, int64_t worker, int64_t from,
				 int64_t to),
		    void *user, int64_t items);
int64_t rt_workers_count(const struct rt_workers *w);
/* NULL is allowed. */
void rt_workers_stop(struct rt_workers *w);

#endif

/*
 * Private to trace.c, tally.c and bench.c: slices of measured steps, and the
 * file that one step of them becomes.
 */
#ifndef RT_TRACE_H
#define RT_TRACE_H

#include "runtime/train/rank.h"

enum rt_queue {
	RT_QUEUE_SCHEDULE, RT_QUEUE_KERNELS, RT_QUEUE_COLLECTIVES,
	RT_QUEUE_TRANSFERS, RT_NQUEUES
};

enum { RT_SLICE_BYTES = 192 };

/* Sent from rank to rank as it is: no pointers. */
struct rt_slice {
	char what[RT_SLICE_BYTES];	/* cut if it is longer */
	double begin_ms, end_ms;
	double ms;	/* of it, without waiting or communicating */
	double us;		/* predicted; 0: not known */
	int64_t queue;		/* enum rt_queue */
	int64_t stage, microbatch;	/* stage -1: not an action */
	int64_t receives;	/* 1: waits for another stage */
};

/* Begins as zeros. */
struct rt_trace {
	const struct rt_func *draw;	/* of the program: not in the trace */
	struct rt_slice *at;
	size_t n, capacity;
	size_t *step;		/* where each step begins */
	size_t nsteps;
	size_t func;		/* where the current function begins */
	bool lost;		/* memory ran out */
	bool cut;		/* a step has too many slices */
	const char *path;
	char *beside;		/* what is renamed to it */
	FILE *file;		/* on rank 0 only */
};

/* Opens the file, so that it is known before the steps whether it can be. */
enum rt_status rt_trace_open(struct rt_trace *t, const char *path,
			     struct rt_error *err);
/* A step begins. */
enum rt_status rt_trace_step(struct rt_trace *t, struct rt_error *err);
void rt_trace_add(struct rt_trace *t, const struct rt_tallied_call *c);
/* Writes a step, counted from 0.  A collective. */
enum rt_status rt_trace_write(struct rt_trace *t, struct rt_run *r,
			      int64_t step, struct rt_error *err);
void rt_trace_release(struct rt_trace *t);

#endif

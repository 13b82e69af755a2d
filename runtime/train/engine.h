/*
 * The engine of a plan that serves (runtime/serve/server.h): its steps are
 * computed by all ranks.
 */
#ifndef RT_ENGINE_H
#define RT_ENGINE_H

#include "runtime/serve/server.h"
#include "runtime/train/rank.h"
#include "runtime/train/served_memory.h"

struct rt_plan_engine;

/* The queues that it needs; none, of a plan that does not serve. */
struct rt_queues rt_plan_engine_queues(const struct rt_plan *p);
/* Of a plan that serves, with so many steps in flight at most; 0: one for each
 * stage, which is the most.  After a failure it has to be closed, too. */
enum rt_status rt_plan_engine_open(struct rt_plan_engine **out,
				   struct rt_run *r, int64_t in_flight,
				   struct rt_error *err);
void rt_plan_engine_close(struct rt_plan_engine *x);
/* On rank 0: what computes steps. */
const struct rt_engine *rt_plan_engine_of(const struct rt_plan_engine *x);
/* On rank 0: tells the others that it is there, or that no step follows. */
enum rt_status rt_plan_engine_pulse(struct rt_plan_engine *x, bool last,
				    struct rt_error *err);
/* On all others: computes steps until there is none. */
enum rt_status rt_plan_engine_follow(struct rt_plan_engine *x,
				     struct rt_error *err);

#endif

/*
 * What tests/cli/run/verify.sh links into a plan, around functions of the
 * runtime: the ranks begin with another weight, see other data, or add up
 * wrongly, all alike in each run.  The unsplit program is left alone.
 */
#include "runtime/train/rank.h"

#include <string.h>

enum rt_status __real_rt_run_start(struct rt_run *r, struct rt_error *err);
enum rt_status __wrap_rt_run_start(struct rt_run *r, struct rt_error *err);
enum rt_status __real_rt_comm_join(struct rt_comm *c, const struct rt_coll *t,
				   int64_t microbatch, char *const *at,
				   int64_t trip, struct rt_error *err);
enum rt_status __wrap_rt_comm_join(struct rt_comm *c, const struct rt_coll *t,
				   int64_t microbatch, char *const *at,
				   int64_t trip, struct rt_error *err);

/* One element, on one rank, of a matrix that no other rank has. */
enum rt_status
__wrap_rt_run_start(struct rt_run *r, struct rt_error *err)
{
	enum rt_status status = __real_rt_run_start(r, err);
#ifdef WRONG_WEIGHT
	int64_t i;

	for (i = 0; r->plan == &llmc_plan && r->rank == 1 &&
	     i < r->program->nholds; i++) {
		const struct rt_hold *h = &r->program->holds[i];

		if (h->tensor->loaded && h->tensor->ndims >= 2 &&
		    strstr(h->tensor->name, WRONG_WEIGHT)) {
			((float *)(void *)(r->env.arena + h->offset))[5] +=
				0.01f;
			break;
		}
	}
#endif
#ifdef WRONG_DATA
	if (r->plan == &llmc_plan) {
		r->env.seed++;
	}
#endif
	return status;
}

enum rt_status
__wrap_rt_comm_join(struct rt_comm *c, const struct rt_coll *t,
		    int64_t microbatch, char *const *at, int64_t trip,
		    struct rt_error *err)
{
	enum rt_status status = __real_rt_comm_join(c, t, microbatch, at, trip,
						    err);
#ifdef WRONG_SUM
	for (; t; t = t->next, at += 2) {
		if (t->op == RT_COLL_SUM && t->elem == RT_ELEM_F32 &&
		    t->ndims >= 2) {
			((float *)(void *)at[1])[0] *= 1.05f;
		}
	}
#endif
	return status;
}

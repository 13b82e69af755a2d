/*
 * The state that a run begins with.  Training, evaluation, verification and
 * sampling all begin so; a checkpoint that training resumes from replaces it.
 */
#include "runtime/train/rank.h"

enum rt_status
rt_load_initial(struct rt_run *r, const struct rt_options *o,
		struct rt_progress *p, struct rt_error *err)
{
	struct rt_store store = rt_run_store(r);
	enum rt_status status;

	*p = (struct rt_progress){
		.seed = (uint64_t)rt_options_seed(o, r->plan)
	};
	r->env.seed = (int64_t)p->seed;
	status = rt_run_start(r, err);
	if (status == RT_OK && o->weights) {
		status = rt_weights_load(&store, o->weights,
					 o->allow_unused, err);
	}
	return status;
}

enum rt_status
rt_load_saved(struct rt_run *r, const struct rt_options *o,
	      struct rt_progress *p, struct rt_error *err)
{
	struct rt_store store = rt_run_store(r);

	*p = (struct rt_progress){ 0 };
	return o->weights ? rt_load_initial(r, o, p, err) :
		rt_checkpoint_load(&store, o->checkpoint, p, err);
}

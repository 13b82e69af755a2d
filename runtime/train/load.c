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
	struct rt_weights_options w = {
		.path = o->weights, .allow_unused = o->allow_unused,
		.allow_missing = o->allow_missing, .renames = o->renames.at,
		.nrenames = o->renames.n
	};
	enum rt_status status;

	*p = (struct rt_progress){
		.seed = (uint64_t)rt_options_seed(o, r->plan)
	};
	r->env.seed = (int64_t)p->seed;
	status = rt_run_start(r, err);
	if (status == RT_OK && o->weights) {
		status = rt_weights_load(&store, &w, err);
	}
	if (status == RT_OK && w.fresh > 0) {
		snprintf(p->remark, sizeof p->remark, "%lld tensors are not "
			 "in %s and start as in a new run: %s%s",
			 (long long)w.fresh, rt_show_path(o->weights).text,
			 w.first, w.fresh > 1 ? " .." : "");
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

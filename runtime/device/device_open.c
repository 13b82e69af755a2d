/*
 * Which device runs a plan.
 */
#include "runtime/device/device.h"

#include <string.h>

#include "runtime/device/this_machine.h"

enum rt_status
rt_device_choose(const struct rt_plan *plan, const char *word,
		 enum rt_on *on, struct rt_error *err)
{
	bool gpu = plan->arch != NULL;

	*on = strcmp(word, "emulate") == 0 ? RT_ON_EMULATE
		: strcmp(word, "cpu") == 0 ? RT_ON_CPU
		: strcmp(word, "cuda") == 0 ? RT_ON_CUDA
		: gpu ? RT_ON_CUDA : RT_ON_CPU;
	if ((*on == RT_ON_CPU) != !gpu) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, gpu ? "the kernels "
			"of this plan are for %s: --device cuda runs them, "
			"--device emulate does so without a GPU, and not "
			"--device %s" : "the kernels of this plan are for "
			"CPUs%.0s: leave out --device %s",
			gpu ? plan->arch : "", word);
	}
	return RT_OK;
}

enum rt_status
rt_device_open(struct rt_device *d, enum rt_on on, const struct rt_plan *plan,
	       int64_t rank, struct rt_comm *comm, struct rt_workers *workers,
	       const struct rt_device_options *options, struct rt_error *err)
{
	rt_device_cpu(d, plan, rank, comm, workers);
	d->on = on;
	d->options = options;
	return on == RT_ON_EMULATE ? rt_device_emulate(d, err)
		: on == RT_ON_CUDA ? rt_device_cuda(d, err) : RT_OK;
}

enum rt_status
rt_device_beside(struct rt_device *d, const struct rt_device *of,
		 const struct rt_plan *plan, int64_t rank, struct rt_error *err)
{
	enum rt_status status;

	*d = *of;
	d->plan = plan;
	d->program = &plan->programs[plan->program_of[rank]];
	d->self = NULL;
	status = d->on == RT_ON_EMULATE ? rt_device_emulate(d, err)
		: d->on == RT_ON_CUDA ? rt_device_cuda_beside(d, of, err)
		: RT_OK;
	if (status != RT_OK) {
		/* it has the kind of the other one, but nothing to close */
		*d = (struct rt_device){ 0 };
	}
	return status;
}

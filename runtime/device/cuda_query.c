/*
 * Which GPU a rank uses, whether the plan's kernels and arena fit it, and its
 * context.
 */
#include "runtime/device/cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cuda_device.h: CU_STREAM_NON_BLOCKING, CUdevice_attribute. */
enum { NON_BLOCKING = 1 };
/* The first architecture whose kernels can wait for the one before them, and
 * the first driver whose graphs have such edges (CUDA's programming guide). */
enum { WAITS = 90, EARLY_IN_GRAPHS = 12030 };
enum { ATTR_MAJOR = 75, ATTR_MINOR = 76, ATTR_SMEM = 97 };

static enum rt_status
look_closely(const struct rt_gpu_api *api, struct rt_gpu_facts *f,
	     struct rt_error *err)
{
	enum rt_status status = GPU(api, device_get, &f->dev, f->ordinal);
	int smem = 0;

	if (status == RT_OK) {
		status = GPU(api, device_name, f->name, (int)sizeof f->name,
			     f->dev);
	}
	if (status == RT_OK) {
		status = GPU(api, device_attribute, &f->major, ATTR_MAJOR,
			     f->dev);
	}
	if (status == RT_OK) {
		status = GPU(api, device_attribute, &f->minor, ATTR_MINOR,
			     f->dev);
	}
	if (status == RT_OK) {
		status = GPU(api, device_attribute, &smem, ATTR_SMEM, f->dev);
	}
	f->smem_bytes = smem;
	return status == RT_OK ? GPU(api, device_uuid, f->uuid, f->dev)
			       : status;
}

/* A launcher may have made only one GPU visible to each rank. */
enum rt_status
rt_gpu_query(const struct rt_gpu_api *api, int64_t local_rank,
	     struct rt_gpu_facts *f, struct rt_error *err)
{
	enum rt_status status;

	memset(f, 0, sizeof *f);
	status = GPU(api, driver_version, &f->driver);
	if (status == RT_OK) {
		status = GPU(api, device_count, &f->count);
	}
	if (status == RT_OK && f->count < 1) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "there is a driver, "
			"and no GPU that this process sees "
			"(CUDA_VISIBLE_DEVICES hides them, if it is set); "
			RT_GPU_ELSE);
	}
	if (status != RT_OK) {
		return status;
	}
	f->ordinal = (int)(local_rank % f->count);
	return look_closely(api, f, err);
}

/* "sm_90a": 90, and true */
static int
arch_of(const char *s, bool *alone)
{
	char *end;
	long n = strncmp(s, "sm_", 3) == 0 ? strtol(s + 3, &end, 10) : 0;

	*alone = n > 0 && *end == 'a';
	return (int)n;
}

enum rt_status
rt_gpu_context(struct rt_gpu *g, struct rt_error *err)
{
	size_t free_bytes = 0, total = 0;
	enum rt_status status = GPU(&g->api, context_retain, &g->context,
				    g->facts.dev);

	if (status == RT_OK) {
		status = GPU(&g->api, context_set, g->context);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, memory, &free_bytes, &total);
	}
	g->facts.free_bytes = (int64_t)free_bytes;
	g->facts.total_bytes = (int64_t)total;
	g->follows = &g->last_is_kernel;
	return status == RT_OK ? GPU(&g->api, stream_create, &g->stream,
				     NON_BLOCKING) : status;
}

void
rt_gpu_end_stream(struct rt_gpu *g)
{
	void **const events[] = { &g->from, &g->to, &g->ready };
	int i;

	for (i = 0; i < 3; i++) {
		if (*events[i]) {
			g->api.event_destroy(*events[i]);
		}
		*events[i] = NULL;
	}
	if (g->stream) {
		g->api.stream_destroy(g->stream);
	}
	g->stream = NULL;
}

void
rt_gpu_leave(struct rt_gpu *g)
{
	if (g->context) {
		g->api.context_release(g->facts.dev);
	}
	rt_gpu_unload(&g->api);
}

/* A cubin runs on its architecture and on later ones of the same major number,
 * unless its name ends in a letter; PTX runs on all later ones. */
enum rt_status
rt_gpu_fits(const struct rt_plan *p, const struct rt_gpu_facts *f,
	    struct rt_error *err)
{
	int here = f->major * 10 + f->minor, there;
	const struct rt_images *m = p->images;
	bool alone, ptx;

	there = arch_of(p->arch, &alone);
	if (!m || !m->made_by) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the kernels of this "
			"plan are not compiled yet: `llmc finish` does it "
			"where NVRTC is; " RT_GPU_ELSE);
	}
	ptx = m->n > 0 && m->at[0].ptx && !alone;
	if (here == there || (here > there && ptx) ||
	    (!alone && here > there && here / 10 == there / 10)) {
		return RT_OK;
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "the plan's kernels are for "
		"%s, and this GPU is an sm_%d, %s: compile it for a target "
		"that has these, or with --arch", p->arch, here, f->name);
}

bool
rt_gpu_early(const struct rt_plan *p, const struct rt_gpu_facts *f)
{
	bool alone;

	return arch_of(p->arch, &alone) >= WAITS &&
	       f->driver >= EARLY_IN_GRAPHS;
}

enum rt_status
rt_gpu_scratch(const struct rt_gpu_facts *f, int64_t arena_bytes,
	       struct rt_error *err)
{
	if (arena_bytes <= f->free_bytes) {
		return RT_OK;
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "the plan needs %.2f GiB of "
		"the GPU, and %.2f of %.2f GiB are free (%s): end what else "
		"uses it, or compile for less memory",
		(double)arena_bytes / (1 << 30),
		(double)f->free_bytes / (1 << 30),
		(double)f->total_bytes / (1 << 30), f->name);
}

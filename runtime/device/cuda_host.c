/*
 * An arena of which a part lies in the memory of the GPU's host: one range of
 * addresses, backed by the device's memory up to `host_at` of the program and
 * by pinned pages of the host from there on.  So programs add offsets as ever,
 * and kernels read and write those pages over the link.
 */
#include "runtime/device/cuda_device.h"

#include <stdio.h>

enum {
	ATTR_HOST_NUMA_ID = 134,	/* CUdevice_attribute */
	PINNED = 1,			/* CUmemAllocationType */
	ON_DEVICE = 1, ON_HOST_NUMA = 3,	/* CUmemLocationType */
	READ_WRITE = 3,			/* CUmemAccess_flags */
	PAGE = 2 << 20			/* of either, on all GPUs so far */
};

int64_t
rt_gpu_own_bytes(const struct rt_program *p)
{
	return p->host_at ? p->host_at : p->arena_bytes;
}

int64_t
rt_gpu_same_memory(const struct rt_program *p, int64_t offset, int64_t bytes)
{
	return offset < p->host_at && bytes > p->host_at - offset
		? p->host_at - offset : bytes;
}

/* The host's memory that is closest to the device. */
static int
closest(const struct rt_gpu *g)
{
	int id = 0;

	return g->api.device_attribute(&id, ATTR_HOST_NUMA_ID, g->facts.dev)
		== 0 && id >= 0 ? id : 0;
}

static enum rt_status
no_pages(int64_t bytes, struct rt_error *err)
{
	struct rt_error why = { 0 };

	why = err ? *err : why;
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "the plan keeps %.2f GiB in "
		"the memory of the GPU's host, which cannot be had (%s): end "
		"what else uses that memory, or compile with offload = none",
		(double)bytes / (1 << 30), why.message);
}

/* Backs `bytes` of the range from `at` on. */
static enum rt_status
back(struct rt_device *d, int place, int id, uint64_t at, int64_t bytes,
     uint64_t *handle, struct rt_error *err)
{
	const struct rt_gpu_memory m = { .type = PINNED, .place = place,
					 .id = id };
	struct rt_gpu *g = d->self;
	enum rt_status status = GPU(&g->api, memory_create, handle,
				    (size_t)bytes, &m, 0);

	if (status == RT_OK) {
		status = GPU(&g->api, memory_map, at, (size_t)bytes, 0,
			     *handle, 0);
		if (status != RT_OK) {
			g->api.memory_release(*handle);
			*handle = 0;
		}
	}
	return status;
}

enum rt_status
rt_gpu_alloc_split(struct rt_device *d, struct rt_error *err)
{
	const struct rt_program *p = d->program;
	struct rt_gpu *g = d->self;
	struct rt_gpu_split *s = &g->split;
	const struct rt_gpu_access all = { ON_DEVICE, g->facts.dev,
					   READ_WRITE };
	enum rt_status status;

	s->own_bytes = p->host_at;
	s->host_bytes = (p->arena_bytes - p->host_at + PAGE - 1) / PAGE *
			PAGE;
	status = GPU(&g->api, range_reserve, &s->at,
		     (size_t)(s->own_bytes + s->host_bytes), PAGE, 0, 0);
	if (status == RT_OK) {
		status = back(d, ON_DEVICE, g->facts.dev, s->at, s->own_bytes,
			      &s->own, err);
	}
	if (status == RT_OK) {
		status = back(d, ON_HOST_NUMA, closest(g),
			      s->at + (uint64_t)s->own_bytes, s->host_bytes,
			      &s->host, err);
		if (status != RT_OK) {
			return no_pages(s->host_bytes, err);
		}
	}
	if (status == RT_OK) {
		status = GPU(&g->api, range_access, s->at,
			     (size_t)(s->own_bytes + s->host_bytes), &all, 1);
	}
	g->arena = status == RT_OK ? s->at : 0;
	return status;
}

void
rt_gpu_free_split(struct rt_gpu *g)
{
	struct rt_gpu_split *s = &g->split;

	if (s->own) {
		g->api.memory_unmap(s->at, (size_t)s->own_bytes);
		g->api.memory_release(s->own);
	}
	if (s->host) {
		g->api.memory_unmap(s->at + (uint64_t)s->own_bytes,
				    (size_t)s->host_bytes);
		g->api.memory_release(s->host);
	}
	if (s->at) {
		g->api.range_free(s->at, (size_t)(s->own_bytes +
						  s->host_bytes));
		g->arena = 0;
	}
	*s = (struct rt_gpu_split){ 0 };
}

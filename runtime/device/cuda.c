/*
 * A GPU as a device: its memory, its streams, and the calls of a step, which
 * cuda_graph.c keeps as graphs.  What differs between steps is in memory
 * (rt_call.live, inputs), not in arguments.
 */
#include "runtime/device/cuda_device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/device/this_machine.h"

/* ---- memory ---- */

static enum rt_status
gpu_read(struct rt_device *d, int64_t offset, void *to, int64_t bytes,
	 struct rt_error *err)
{
	enum rt_status status = rt_gpu_settle_all(d, err);
	struct rt_gpu *g = d->self;
	int64_t done, n;

	for (done = 0; done < bytes && status == RT_OK; done += n) {
		n = bytes - done < RT_GPU_BOUNCE ? bytes - done
						 : RT_GPU_BOUNCE;
		n = rt_gpu_same_memory(d->program, offset + done, n);
		status = GPU(&g->api, to_host, g->bounce,
			     g->arena + (uint64_t)(offset + done), (size_t)n,
			     rt_gpu_stream(g));
		if (status == RT_OK) {
			status = rt_gpu_wait(d, err);
		}
		if (status == RT_OK) {
			memcpy((char *)to + done, g->bounce, (size_t)n);
		}
	}
	return status;
}

/* Copies into this rank's device memory, through pinned memory. */
static enum rt_status
write_pinned(struct rt_device *d, uint64_t to, const void *from, int64_t bytes,
	     struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	int64_t done, n;

	for (done = 0; done < bytes && status == RT_OK; done += n) {
		n = bytes - done < RT_GPU_BOUNCE ? bytes - done
						 : RT_GPU_BOUNCE;
		memcpy(g->bounce, (const char *)from + done, (size_t)n);
		status = GPU(&g->api, to_device, to + (uint64_t)done,
			     g->bounce, (size_t)n, rt_gpu_stream(g));
		if (status == RT_OK) {
			status = rt_gpu_wait(d, err);
		}
	}
	return status;
}

static enum rt_status
gpu_write(struct rt_device *d, int64_t offset, const void *from,
	  int64_t bytes, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = rt_gpu_settle_all(d, err);
	int64_t done, n;

	for (done = 0; done < bytes && status == RT_OK; done += n) {
		n = rt_gpu_same_memory(d->program, offset + done,
				       bytes - done);
		status = write_pinned(d, g->arena + (uint64_t)(offset + done),
				      (const char *)from + done, n, err);
	}
	return status;
}

static enum rt_status
set_zero(struct rt_device *d, int64_t offset, int64_t bytes,
	 struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	int64_t done, n;

	for (done = 0; done < bytes && status == RT_OK; done += n) {
		n = rt_gpu_same_memory(d->program, offset + done,
				       bytes - done);
		status = GPU(&g->api, set, g->arena +
			     (uint64_t)(offset + done), 0, (size_t)n,
			     rt_gpu_stream(g));
	}
	return status;
}

static enum rt_status
gpu_zero(struct rt_device *d, int64_t offset, int64_t bytes,
	 struct rt_error *err)
{
	enum rt_status status = rt_gpu_settle_all(d, err);

	return status == RT_OK ? set_zero(d, offset, bytes, err) : status;
}

static int
by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)*(const void *const *)a;
	uintptr_t y = (uintptr_t)*(const void *const *)b;

	return x < y ? -1 : x > y;
}

/* The pieces of all microbatches, each once. */
static enum rt_status
gpu_pieces(struct rt_device *d, const struct rt_pieces *const *pieces,
	   int64_t n, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_pieces *all = calloc((size_t)n + 1, sizeof *all);
	enum rt_status status;
	int64_t i, k = 0;

	g->by_microbatch = pieces;
	g->known = calloc((size_t)n + 1, sizeof *g->known);
	if (!all || !g->known) {
		free(all);
		return rt_no_memory(err, NULL);
	}
	if (n > 0) {
		memcpy(g->known, pieces, (size_t)n * sizeof *g->known);
		qsort(g->known, (size_t)n, sizeof *g->known, by_address);
	}
	for (i = 0; i < n; i++) {
		if (i == 0 || g->known[i] != g->known[k - 1]) {
			all[k] = *g->known[i];
			g->known[k++] = g->known[i];
		}
	}
	g->nknown = k;
	status = GPU(&g->api, alloc, &g->pieces,
		     (size_t)(k + 1) * sizeof *all);
	if (status == RT_OK) {
		status = write_pinned(d, g->pieces, all,
				      k * (int64_t)sizeof *all, err);
	}
	free(all);
	return status;
}

static enum rt_status
gpu_set_step(struct rt_device *d, const double *numbers, struct rt_error *err)
{
	struct rt_gpu *g = d->self;

	rt_device_live(numbers, d->live);
	return write_pinned(d, g->live, d->live, sizeof d->live, err);
}

/* ---- a step ---- */

static enum rt_status
gpu_step(struct rt_device *d, const struct rt_kernel *k,
	 const struct rt_step *s, const struct rt_call *c,
	 const struct rt_place *at, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_call call = *c;
	enum rt_status status;
	struct rt_error why;
	bool skip;

	if (!s->grid) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s is a kernel for "
			"a CPU, and this device is a GPU",
			rt_show_name(k->what).text);
	}
	status = rt_gpu_graph_kernel(d, k, s->grid, &call, &skip, &why);
	if (status == RT_OK && skip) {
		return RT_OK;
	}
	if (status == RT_OK) {
		status = rt_gpu_settle(d, k, &call, &why);
	}
	if (status == RT_OK && d->timed) {
		status = g->api.event_record(g->from, rt_gpu_stream(g))
			? RT_IO : RT_OK;
	}
	if (status == RT_OK) {
		g->last = k->what;
		status = rt_gpu_launch(d, k, s->grid, &call, g->stream, &why);
	}
	if (status == RT_OK && (g->eager || d->timed)) {
		if (d->timed) {
			g->api.event_record(g->to, rt_gpu_stream(g));
		}
		status = rt_gpu_wait(d, &why);
	}
	return status == RT_OK ? RT_OK :
		rt_fail(err, status, RT_NOWHERE, "%s (%s)%s: %s",
			s->grid->func, rt_show_name(k->what).text,
			rt_place_text(at).text, why.message);
}

static enum rt_status
gpu_last_ms(struct rt_device *d, double *ms, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	float f = 0;
	enum rt_status status = GPU(&g->api, event_elapsed, &f, g->from,
				    g->to);

	*ms = (double)f;
	return status;
}

static enum rt_status
gpu_coll(struct rt_device *d, const struct rt_coll *t, char *const *at,
	 const struct rt_place *place, struct rt_error *err)
{
	bool skip = false, transfer = t->op == RT_COLL_SEND ||
		t->op == RT_COLL_RECV || t->op == RT_COLL_FREE;
	enum rt_status status = transfer
		? rt_gpu_graph_transfer(d, t, at, place, err)
		: rt_gpu_graph_coll(d, t, &at, place, &skip, err);

	return status == RT_OK && !skip ? rt_gpu_coll(d, t, at, place, err)
					: status;
}

static enum rt_status
gpu_begin(struct rt_device *d, struct rt_error *err)
{
	enum rt_status status = rt_gpu_settle_all(d, err);

	return status == RT_OK ? rt_gpu_graphs_open(d, err) : status;
}

static enum rt_status
gpu_wait_all(struct rt_device *d, struct rt_error *err)
{
	enum rt_status status = rt_gpu_settle_all(d, err);

	return status == RT_OK ? rt_gpu_wait(d, err) : status;
}

static enum rt_status
gpu_end(struct rt_device *d, struct rt_error *err)
{
	enum rt_status status = gpu_wait_all(d, err);

	return status == RT_OK ? rt_gpu_graph_agree(d, err) : status;
}

/* ---- opening and closing ---- */

/* Unlike the driver, NCCL releases memory that work on a stream may still use:
 * so that has ended first, or never will. */
static void
drain(struct rt_device *d)
{
	struct rt_gpu *g = d->self;
	double start = rt_now_ms();
	struct timespec t = { 0, 20000 };

	while (g->stream &&
	       g->api.stream_query(g->stream) == RT_GPU_NOT_READY &&
	       rt_now_ms() - start < d->options->timeout_s * 1e3) {
		nanosleep(&t, NULL);
	}
}

/* What a device has of its own, whether or not it is beside another. */
static void
close_own(struct rt_gpu *g)
{
	struct rt_gpu_api *api = &g->api;
	int i;

	for (i = 0; i < 2 * RT_GPU_SENT; i++) {
		if (g->sent[i].event) {
			api->event_destroy(g->sent[i].event);
		}
	}
	if (g->ready) {
		api->event_destroy(g->ready);
		g->ready = NULL;
	}
	rt_gpu_images_free(g);
	if (g->pieces) {
		api->release(g->pieces);
	}
	free(g->known);
}

static void
gpu_close(struct rt_device *d)
{
	struct rt_gpu *g = d->self;
	struct rt_gpu_api *api = &g->api;
	int i;

	rt_gpu_graphs_free(g);
	if (g->is_beside) {
		drain(d);
		rt_gpu_graphs_close(g);
		close_own(g);
		free(g);
		d->self = NULL;
		return;
	}
	rt_nccl_close(d);
	drain(d);
	rt_gpu_graphs_close(g);
	rt_nccl_unload(d);
	close_own(g);
	rt_gpu_end_stream(g);
	if (g->bounce) {
		api->unpin(g->bounce);
	}
	rt_gpu_free_split(g);
	for (i = 0; i < 2; i++) {
		uint64_t at = i == 0 ? g->live : g->arena;

		if (at) {
			api->release(at);
		}
	}
	rt_gpu_leave(g);
	free(g);
	d->self = NULL;
}

static const struct rt_device_kind cuda = {
	.name = "cuda", .step = gpu_step, .coll = gpu_coll,
	.read = gpu_read, .write = gpu_write, .zero = gpu_zero,
	.pieces = gpu_pieces, .set_step = gpu_set_step, .begin = gpu_begin,
	.end = gpu_end, .enter = rt_gpu_graph_enter,
	.leave = rt_gpu_graph_leave, .wait = gpu_wait_all,
	.last_ms = gpu_last_ms, .close = gpu_close
};

static enum rt_status
make_memory(struct rt_device *d, struct rt_error *err)
{
	int64_t bytes = d->program->arena_bytes;
	struct rt_gpu *g = d->self;
	enum rt_status status;

	bytes = bytes ? bytes : 1;
	status = g->nccl ? rt_nccl_alloc(d, (size_t)bytes, &g->arena, err)
			 : RT_OK;
	if (status == RT_OK && d->program->host_at) {
		status = rt_gpu_alloc_split(d, err);
	} else if (status == RT_OK && !g->arena) {
		status = GPU(&g->api, alloc, &g->arena, (size_t)bytes);
	}
	if (status == RT_NOMEM) {
		g->facts.free_bytes = 0;
		status = rt_gpu_scratch(&g->facts, rt_gpu_own_bytes(d->program),
					err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, alloc, &g->live, sizeof d->live);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, pin, &g->bounce, RT_GPU_BOUNCE, 0);
	}
	if (status == RT_OK) {
		status = write_pinned(d, g->live, d->live, sizeof d->live,
				      err);
	}
	if (status == RT_OK) {
		status = set_zero(d, 0, bytes, err);
	}
	return status == RT_OK ? rt_gpu_wait(d, err) : status;
}

static enum rt_status
make_streams(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	int least;
	enum rt_status status = GPU(&g->api, priorities, &least,
				    &g->priority);

	if (status == RT_OK) {
		status = GPU(&g->api, event_create, &g->from, 0);
	}
	return status == RT_OK ? GPU(&g->api, event_create, &g->to, 0)
			       : status;
}

static enum rt_status
make_context(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = rt_gpu_context(g, err);

	return status == RT_OK ?
		       rt_gpu_scratch(&g->facts,
				      rt_gpu_own_bytes(d->program), err) :
		       status;
}

/* Whether any GPU is shared by two ranks.  All ranks get the same answer. */
static enum rt_status
find_sharing(struct rt_device *d, struct rt_error *err)
{
	int64_t n = d->plan->nranks, i, j;
	struct rt_gpu *g = d->self;
	uint64_t *at = calloc((size_t)n * 2, sizeof *at);
	enum rt_status status;

	if (!at) {
		return rt_no_memory(err, NULL);
	}
	memcpy(at + 2 * d->comm->world.rank, g->facts.uuid, 16);
	status = rt_comm_sum_u64(d->comm, at, 2 * n, err);
	for (i = 0; i < n && status == RT_OK; i++) {
		for (j = 0; j < i; j++) {
			g->staged = g->staged || memcmp(at + 2 * i, at + 2 * j,
							16) == 0;
		}
	}
	free(at);
	return status;
}

static enum rt_status
open_gpu(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status;

	status = rt_gpu_load(&g->api, d->options->libcuda, err);
	if (status == RT_OK) {
		status = rt_gpu_query(&g->api, d->comm->world.local_rank,
				      &g->facts, err);
	}
	if (status == RT_OK) {
		status = rt_gpu_fits(d->plan, &g->facts, err);
	}
	if (status == RT_OK) {
		g->early = !d->options->late &&
			rt_gpu_early(d->plan, &g->facts);
		status = make_context(d, err);
	}
	if (status == RT_OK) {
		status = make_streams(d, err);
	}
	if (status == RT_OK && d->plan->nranks > 1) {
		status = find_sharing(d, err);
	}
	if (status == RT_OK && d->plan->nranks > 1 && !g->staged) {
		status = rt_nccl_load(d, err);
	}
	if (status == RT_OK) {
		status = make_memory(d, err);
	}
	if (status == RT_OK) {
		status = rt_gpu_images(d, err);
	}
	if (status == RT_OK && g->nccl) {
		status = rt_nccl_open(d, err);
	}
	return status;
}

enum rt_status
rt_device_cuda(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = calloc(1, sizeof *g);
	enum rt_status status;

	if (!g) {
		return rt_no_memory(err, NULL);
	}
	d->self = g;
	d->kind = &cuda;
	d->host = NULL;
	status = open_gpu(d, err);
	if (status != RT_OK) {
		rt_device_close(d);
		return status;
	}
	d->arena = (char *)(uintptr_t)g->arena;
	d->free_bytes = g->facts.free_bytes - rt_gpu_own_bytes(d->program);
	d->remark = g->staged ? RT_GPU_SHARED : NULL;
	return RT_OK;
}

enum rt_status
rt_device_cuda_beside(struct rt_device *d, const struct rt_device *of,
		      struct rt_error *err)
{
	const struct rt_gpu *from = of->self;
	struct rt_gpu *g = calloc(1, sizeof *g);
	enum rt_status status;

	if (!g) {
		return rt_no_memory(err, NULL);
	}
	*g = (struct rt_gpu){ .api = from->api, .is_beside = true,
		.facts = from->facts, .context = from->context,
		.stream = from->stream, .from = from->from, .to = from->to,
		.arena = from->arena, .live = from->live,
		.bounce = from->bounce, .eager = from->eager,
		.staged = from->staged, .priority = from->priority,
		.nccl = from->nccl, .hosted = from->hosted,
		.early = from->early, .follows = from->follows };
	d->self = g;
	status = rt_gpu_images(d, err);
	if (status != RT_OK) {
		rt_device_close(d);
	}
	return status;
}

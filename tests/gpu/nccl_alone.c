/*
 * A communicator of one rank, through NCCL itself, on any machine that has a
 * GPU.  Memory is NCCL's and registered; all-reduce, all-gather and
 * reduce-scatter in f32 and i32 run by themselves, as a group of as many calls
 * as a plan joins, and in a graph that is launched three times.  While it is
 * captured another thread allocates memory, as one of NCCL's own may.  In the
 * end graphs, communicators and memory are released, in that order.
 *
 * What it did is a line.  The exit status is 77 where there is no GPU or no
 * NCCL, and 1 if something is wrong.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device/cuda_device.h"

enum {
	ELEMS = 3000, BYTES = 4 * ELEMS, ARENA = 1 << 20,
	CALLS = RT_MAX_JOINED, KINDS = 5
};

static struct rt_image image = { .name = "none" };
static struct rt_images images = { .at = &image, .made_by = "nothing" };
static const int64_t groups[] = { 2 }, program_of[] = { 0 };
static const struct rt_program program = { .arena_bytes = ARENA };
const struct rt_plan llmc_plan = {
	.abi = RT_ABI_VERSION, .compiler = "llmc", .model = "nccl",
	.target = "a GPU", .arch = "sm_90a", .images = &images, .naxes = 2,
	.axes = (const struct rt_axis[]){ { "", 1, 0 }, { "dp", 1, 0 } },
	.nranks = 1, .npipes = 1, .nstages = 1, .nmicrobatches = 1,
	.ngroups = 1, .groups = groups, .program_of = program_of,
	.nprograms = 1, .programs = &program, .json = "{}\n", .llp = "plan {}\n"
};

/* Whole numbers, which each type has, so that a sum of one rank is exact. */
static const struct kind {
	enum rt_nccl_op op;
	int coll, elem;
} kinds[KINDS] = {
	{ RT_NCCL_REDUCE, RT_COLL_SUM, RT_ELEM_F32 },
	{ RT_NCCL_REDUCE, RT_COLL_MAX, RT_ELEM_F32 },
	{ RT_NCCL_REDUCE, RT_COLL_SUM, RT_ELEM_I32 },
	{ RT_NCCL_GATHER, RT_COLL_COPY, RT_ELEM_F32 },
	{ RT_NCCL_SCATTER, RT_COLL_SUM, RT_ELEM_F32 }
};

struct alone {
	struct rt_gpu g;
	struct rt_device d;
	struct rt_device_options options;
	struct rt_comm *comm;
	const struct rt_nccl_comm *c;
	struct rt_coll colls[CALLS];
	uint32_t *host;		/* as much as ARENA */
	int checked;
	struct rt_error err;
};

static enum rt_status
open_gpu(struct alone *x)
{
	struct rt_error *err = &x->err;
	struct rt_gpu *g = &x->g;
	enum rt_status status = rt_gpu_context(g, err);
	int least;

	if (status == RT_OK) {
		status = GPU(&g->api, priorities, &least, &g->priority);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_create, &g->ready, 2);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_create, &g->to, 2);
	}
	return status == RT_OK ? GPU(&g->api, pin, (void **)&x->host, ARENA, 0)
			       : status;
}

static enum rt_status
open_nccl(struct alone *x)
{
	struct rt_comm_options co = { .plan = &llmc_plan,
		.world = { 0, 1, 0, 1, "alone", "", 0 }, .timeout_s = 60,
		.report_fd = STDERR_FILENO };
	struct rt_error *err = &x->err;
	enum rt_status status = rt_comm_open(&x->comm, &co, 64, err);
	struct rt_group *group;

	x->d.comm = x->comm;
	if (status == RT_OK) {
		status = rt_nccl_alloc(&x->d, ARENA, &x->g.arena, err);
	}
	if (status == RT_OK && !x->g.arena) {
		status = GPU(&x->g.api, alloc, &x->g.arena, ARENA);
	}
	if (status == RT_OK) {
		status = rt_nccl_open(&x->d, err);
	}
	if (status == RT_OK) {
		status = rt_group_find(x->comm, groups[0], 0, &group, err);
	}
	if (status == RT_OK) {
		x->c = rt_nccl_group(&x->d, group);
	}
	return status == RT_OK && !x->c
		? rt_fail(err, RT_RANGE, RT_NOWHERE, "no communicator was made")
		: status;
}

/* ---- calls ---- */

static char *
place(const struct alone *x, int i, int out)
{
	return (char *)(uintptr_t)x->g.arena + (2 * i + out) * BYTES;
}

static uint32_t
word(int elem, int i, int k)
{
	float f = (float)(k % 1000 - 500 + i);
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return elem == RT_ELEM_I32 ? (uint32_t)(k - 500 + i) : u;
}

/* Inputs, and outputs that are none of what is to come. */
static enum rt_status
fill(struct alone *x)
{
	struct rt_error *err = &x->err;
	struct rt_gpu *g = &x->g;
	enum rt_status status;
	int i, k;

	memset(x->host, 0x5a, ARENA);
	for (i = 0; i < CALLS; i++) {
		for (k = 0; k < ELEMS; k++) {
			x->host[2 * i * ELEMS + k] =
				word(kinds[i % KINDS].elem, i, k);
		}
	}
	status = GPU(&g->api, to_device, g->arena, x->host, ARENA, g->stream);
	return status == RT_OK ? rt_gpu_wait(&x->d, err) : status;
}

static enum rt_status
check(struct alone *x, int n, const char *how)
{
	struct rt_error *err = &x->err;
	struct rt_gpu *g = &x->g;
	enum rt_status status = GPU(&g->api, to_host, x->host, g->arena, ARENA,
				    g->stream);
	int i, k;

	status = status == RT_OK ? rt_gpu_wait(&x->d, err) : status;
	for (i = 0; i < n * ELEMS && status == RT_OK; i++) {
		k = i / ELEMS;
		if (x->host[(2 * k + 1) * ELEMS + i % ELEMS] !=
		    word(kinds[k % KINDS].elem, k, i % ELEMS)) {
			status = rt_fail(err, RT_IO, RT_NOWHERE, "%s: element "
				"%d of call %d is another", how, i % ELEMS, k);
		}
	}
	x->checked += status == RT_OK;
	return status;
}

/* Calls `first` .. `first` + n - 1 as one, after the kernels' stream, which
 * then waits for it. */
static enum rt_status
call(struct alone *x, int first, int n)
{
	struct rt_nccl_call list[CALLS];
	struct rt_error *err = &x->err;
	struct rt_gpu *g = &x->g;
	enum rt_status status = GPU(&g->api, event_record, g->ready,
				    g->stream);
	int i;

	for (i = 0; i < n; i++) {
		int k = first + i;
		const struct kind *kind = &kinds[k % KINDS];

		x->colls[k] = (struct rt_coll){ .what = "a call",
			.op = kind->coll, .elem = kind->elem };
		list[i] = (struct rt_nccl_call){ kind->op, &x->colls[k],
			place(x, k, 0), place(x, k, 1), ELEMS };
	}
	if (status == RT_OK) {
		status = GPU(&g->api, stream_wait, x->c->stream, g->ready, 0);
	}
	if (status == RT_OK) {
		status = rt_nccl_calls(&x->d, x->c, list, n, err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_record, g->to, x->c->stream);
	}
	return status == RT_OK
		? GPU(&g->api, stream_wait, g->stream, g->to, 0) : status;
}

static enum rt_status
run_eager(struct alone *x)
{
	enum rt_status status = fill(x);
	int i;

	for (i = 0; i < CALLS && status == RT_OK; i++) {
		status = call(x, i, 1);
	}
	status = status == RT_OK ? check(x, CALLS, "alone") : status;
	status = status == RT_OK ? fill(x) : status;
	status = status == RT_OK ? call(x, 0, CALLS) : status;
	return status == RT_OK ? check(x, CALLS, "as a group") : status;
}

/* Another thread allocates and releases, which a capture of this one's calls
 * allows. */
struct other {
	struct rt_gpu *g;
	struct rt_error err;
	enum rt_status status;
};

static void *
allocate(void *of)
{
	struct other *o = of;
	struct rt_gpu *g = o->g;
	struct rt_error *err = &o->err;
	uint64_t at = 0;

	o->status = GPU(&g->api, context_set, g->context);
	if (o->status == RT_OK) {
		o->status = GPU(&g->api, alloc, &at, BYTES);
	}
	if (at) {
		g->api.release(at);
	}
	return NULL;
}

static enum rt_status
allocate_elsewhere(struct alone *x)
{
	struct other o = { .g = &x->g };
	pthread_t thread;

	if (pthread_create(&thread, NULL, allocate, &o) != 0) {
		return rt_fail(&x->err, RT_IO, RT_NOWHERE, "no thread");
	}
	pthread_join(thread, NULL);
	x->err = o.status == RT_OK ? x->err : o.err;
	return o.status;
}

static enum rt_status
capture(struct alone *x)
{
	struct rt_error *err = &x->err;
	struct rt_gpu *g = &x->g;
	enum rt_status status = GPU(&g->api, capture, g->stream, 1);
	void *graph = NULL;

	g->capturing = status == RT_OK;
	if (status == RT_OK) {
		status = call(x, 0, 1);
	}
	if (status == RT_OK) {
		status = allocate_elsewhere(x);
	}
	if (status == RT_OK) {
		status = call(x, 1, CALLS - 1);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, end_capture, g->stream, &graph);
		g->capturing = false;
	}
	g->execs = calloc(1, sizeof *g->execs);
	if (status == RT_OK && !g->execs) {
		status = rt_no_memory(err, NULL);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, instantiate, g->execs, graph, 8);
		g->nexecs = status == RT_OK;
	}
	if (graph) {
		g->api.graph_destroy(graph);
	}
	return status;
}

static enum rt_status
run_graph(struct alone *x)
{
	struct rt_error *err = &x->err;
	struct rt_gpu *g = &x->g;
	enum rt_status status = capture(x);
	int i;

	for (i = 0; i < 3 && status == RT_OK; i++) {
		status = fill(x);
		if (status == RT_OK) {
			status = GPU(&g->api, graph_launch, g->execs[0],
				     g->stream);
		}
		status = status == RT_OK ? check(x, CALLS, "in a graph")
					 : status;
	}
	return status;
}

/* ---- all of it ---- */

static void
close_all(struct alone *x)
{
	struct rt_gpu *g = &x->g;

	rt_gpu_graphs_free(g);
	rt_nccl_close(&x->d);
	rt_nccl_unload(&x->d);
	rt_gpu_end_stream(g);
	if (x->host) {
		g->api.unpin(x->host);
	}
	if (g->arena) {
		g->api.release(g->arena);
	}
	rt_gpu_leave(g);
	rt_comm_free(x->comm);
}

static enum rt_status
run(struct alone *x)
{
	enum rt_status status = open_gpu(x);

	status = status == RT_OK ? open_nccl(x) : status;
	status = status == RT_OK ? run_eager(x) : status;
	return status == RT_OK ? run_graph(x) : status;
}

int
main(void)
{
	static struct alone x;
	enum rt_status status;
	int skipped = 0;

	x.options = (struct rt_device_options){ .timeout_s = 60,
		.libcuda = getenv("LLMC_LIBCUDA"),
		.libnccl = getenv("LLMC_LIBNCCL") };
	x.d = (struct rt_device){ .plan = &llmc_plan, .program = &program,
				  .options = &x.options, .self = &x.g };
	status = rt_gpu_load(&x.g.api, x.options.libcuda, &x.err);
	if (status == RT_OK) {
		status = rt_gpu_query(&x.g.api, 0, &x.g.facts, &x.err);
	}
	if (status == RT_OK) {
		status = rt_nccl_load(&x.d, &x.err);
	}
	skipped = status != RT_OK;
	if (status == RT_OK) {
		status = run(&x);
	}
	if (status == RT_OK) {
		printf("NCCL %s on %s, a communicator of one rank: %d calls, "
		       "alone, as a group and in a graph; %d times all came "
		       "back\n", rt_nccl_version(&x.d), x.g.facts.name, CALLS,
		       x.checked);
	}
	x.d.failed = status != RT_OK;
	close_all(&x);
	if (status != RT_OK) {
		fprintf(stderr, "nccl: %s\n", x.err.message);
	}
	return skipped ? 77 : status == RT_OK ? 0 : 1;
}

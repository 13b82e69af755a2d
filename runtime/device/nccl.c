/*
 * The one file that knows NCCL. It is loaded by dlopen, and only those parts of
 * its binary interface are used that are unchanged since 2.18. The newest that
 * every run needs is ncclConfig_t of 2.18; where the library is of 2.19 or
 * later, the arena is memory of NCCL's, which NVLink SHARP can reduce in, and
 * is registered.
 *
 * All ranks create all communicators at the start, in one order: those of the
 * plan's groups, then two for each pair of neighbours in the pipeline, one for
 * each direction and each with a stream of its own: so activations never wait
 * for gradients.  The id of each is sent by the transport of the host.  A group
 * that only some stages of the pipeline share gets its communicator at its
 * first collective.
 *
 * Collectives of different communicators must begin in one order on all ranks
 * (NCCL's user guide, "Using multiple NCCL communicators concurrently").  All
 * ranks call them in one order.  From NCCL 2.26 on, NCCL_LAUNCH_ORDER_IMPLICIT
 * makes the GPU begin them in the order of the calls, and then groups of each
 * set of axes have a stream of their own: a gradient that dp reduces does not
 * hold up tp.  In graphs this takes a driver for CUDA 12.9: with older ones
 * NCCL would run them one after another, and groups share one stream.
 *
 * Communicators are non-blocking, so that a call that takes too long can be
 * given up.
 */
#include "runtime/device/cuda_device.h"
#include "runtime/device/this_machine.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>


enum { LEAST = 21800, ORDERED = 22600, ORDERED_DRIVER = 12090 };
enum { ID_BYTES = 128 };
#define LEAST_TEXT "2.18"
enum { DONE = 0, UNHANDLED = 1, IN_PROGRESS = 7 };
/* What ncclMemAlloc rounds up to: the least that the driver maps at once. */
enum { ALLOCATES = 2 << 20 };
/* nccl.h: ncclRedOp_t, ncclDataType_t. */
enum { SUM = 0, MAX = 2 };
enum { U8 = 1, I32 = 2, F16 = 6, F32 = 7, F64 = 8, BF16 = 9 };
enum { NON_BLOCKING = 1 };

struct id {
	char bytes[ID_BYTES];
};

/* ncclConfig_t of 2.18: later libraries fill in what came later. */
struct config {
	size_t size;
	unsigned magic, version;
	int blocking, cga_size, min_ctas, max_ctas;
	const char *net;
	int split_share;
};

/*
 * The version that introduced each function.  One that is newer than the
 * library is NULL. reason() calls ncclGetErrorString, which returns
 * text and so is not in the table.
 */
#define NCCL_FUNCTIONS(N) \
	N(version, 20000, "ncclGetVersion", (int *)) \
	N(error_string, 20000, "ncclGetErrorString", (int)) \
	N(make_id, 20000, "ncclGetUniqueId", (struct id *)) \
	N(init, 21400, "ncclCommInitRankConfig", \
	  (void **, int n, struct id, int rank, struct config *)) \
	N(async_error, 20400, "ncclCommGetAsyncError", (void *, int *)) \
	N(finalize, 21400, "ncclCommFinalize", (void *)) \
	N(destroy, 20000, "ncclCommDestroy", (void *)) \
	N(abort, 20400, "ncclCommAbort", (void *)) \
	N(reg, 21900, "ncclCommRegister", \
	  (void *, void *, size_t, void **)) \
	N(dereg, 21900, "ncclCommDeregister", (void *, void *)) \
	N(mem_alloc, 21900, "ncclMemAlloc", (void **, size_t)) \
	N(mem_free, 21900, "ncclMemFree", (void *)) \
	N(all_reduce, 20000, "ncclAllReduce", \
	  (const void *, void *, size_t, int type, int op, void *, void *)) \
	N(all_gather, 20000, "ncclAllGather", \
	  (const void *, void *, size_t, int type, void *, void *)) \
	N(reduce_scatter, 20000, "ncclReduceScatter", \
	  (const void *, void *, size_t, int type, int op, void *, void *)) \
	N(send, 20700, "ncclSend", \
	  (const void *, size_t, int type, int peer, void *, void *)) \
	N(recv, 20700, "ncclRecv", \
	  (void *, size_t, int type, int peer, void *, void *)) \
	N(group_start, 20000, "ncclGroupStart", (void)) \
	N(group_end, 20000, "ncclGroupEnd", (void))

struct nccl_api {
	void *library;
#define N(member, since, symbol, arguments) int (*member) arguments;
	NCCL_FUNCTIONS(N)
#undef N
};

struct rt_nccl {
	struct nccl_api api;
	char version[16];
	bool ordered;		/* sets of axes have their own streams */
	/* of groups: by axes, or one of axes 0 */
	struct group_stream {
		int64_t axes;
		void *stream;
	} *streams;
	struct rt_nccl_comm *comms;
	void **handles;		/* registrations of the arena */
	int64_t n, nstreams;
	void *arena;		/* by mem_alloc */
	bool aborted;
};

static const struct {
	size_t at;
	int since;
	const char *symbol;
} functions[] = {
#define N(member, since, symbol, arguments) \
	{ offsetof(struct nccl_api, member), since, symbol },
	NCCL_FUNCTIONS(N)
#undef N
};

/* ---- the library ---- */

struct version {
	char text[16];
};

/* Before 2.9 a version was 1000, 100 and 1 times its three parts. */
static struct version
version_text(int v)
{
	int major = v < 10000 ? 1000 : 10000;
	struct version x;

	snprintf(x.text, sizeof x.text, "%d.%d.%d", v / major % 100,
		 v % major / 100, v % 100);
	return x;
}

static enum rt_status
find_functions(struct nccl_api *api, int version, const char *file,
	       struct rt_error *err)
{
	size_t i;
	void *f;

	for (i = 0; i < sizeof functions / sizeof *functions; i++) {
		f = dlsym(api->library, functions[i].symbol);
		if (functions[i].since > version) {
			f = NULL;
		} else if (!f) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s says "
				"that it is NCCL %s, and has no %s, which is "
				"there since %s", rt_show_path(file).text,
				version_text(version).text,
				functions[i].symbol,
				version_text(functions[i].since).text);
		}
		memcpy((char *)api + functions[i].at, &f, sizeof f);
	}
	return RT_OK;
}

/* Reads the version before any other symbol: a library that is too old is
 * reported as such, and not by what it lacks. */
static enum rt_status
find_version(struct nccl_api *api, const char *file, int *v,
	     struct rt_error *err)
{
	void *f = dlsym(api->library, "ncclGetVersion");

	if (!f) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s has no "
			"ncclGetVersion: it is not NCCL, of which "
			LEAST_TEXT " or later is needed",
			rt_show_path(file).text);
	}
	memcpy(&api->version, &f, sizeof f);
	if (api->version(v) != DONE || *v < LEAST) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s is NCCL %s, "
			"and " LEAST_TEXT " or later is needed",
			rt_show_path(file).text, version_text(*v).text);
	}
	return RT_OK;
}

static enum rt_status
load_library(struct rt_nccl *n, const char *file, int *out,
	     struct rt_error *err)
{
	static const char *const usual[] = { "libnccl.so.2", NULL };
	enum rt_status status;
	int v = 0;

	n->api.library = rt_gpu_library(file, usual, &file);
	if (!n->api.library) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s is missing, by "
			"which GPUs communicate: install NCCL " LEAST_TEXT
			" or later, or name the file by LLMC_LIBNCCL",
			rt_show_path(file).text);
	}
	status = find_version(&n->api, file, &v, err);
	if (status == RT_OK) {
		status = find_functions(&n->api, v, file, err);
	}
	memcpy(n->version, version_text(v).text, sizeof n->version);
	*out = v;
	return status;
}

static const char *
reason_of(const struct rt_nccl *n, int r)
{
	const char *(*text)(int);

	memcpy(&text, &n->api.error_string, sizeof text);
	return text(r);
}

/* NCCL's own explanation is in its log, and rarely in this text. */
static enum rt_status
call_failed(const struct rt_nccl *n, const char *what, int r,
	    struct rt_error *err)
{
	return rt_fail(err, RT_IO, RT_NOWHERE, "%s failed: %s (%d); NCCL %s, "
		       "NCCL_DEBUG=WARN says more", what, reason_of(n, r), r,
		       n->version);
}

/* Waits until a communicator has done what it was asked to do. */
static enum rt_status
finish_call(const struct rt_device *d, void *comm, int r, const char *what,
	    struct rt_error *err)
{
	const struct rt_nccl *n = ((const struct rt_gpu *)d->self)->nccl;
	double start = rt_now_ms();
	struct timespec t = { 0, 100000 };
	int state;

	while (r == IN_PROGRESS) {
		if (rt_now_ms() - start > d->options->timeout_s * 1e3) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "%s has not "
				"ended in %.0f s: a rank is missing, or does "
				"not reach the others (NCCL_SOCKET_IFNAME "
				"names the network to use)", what,
				d->options->timeout_s);
		}
		nanosleep(&t, NULL);
		state = n->api.async_error(comm, &r);
		r = state == DONE ? r : state;
	}
	return r == DONE ? RT_OK : call_failed(n, what, r, err);
}

const struct rt_gpu_sent *
rt_gpu_hanging(const struct rt_gpu *g)
{
	const struct rt_gpu_sent *first = NULL, *s;

	for (s = g->sent; s < g->sent + 2 * RT_GPU_SENT; s++) {
		if (s->event && (!first || s->number < first->number) &&
		    g->api.event_query(s->event) == RT_GPU_NOT_READY) {
			first = s;
		}
	}
	return first;
}

void
rt_gpu_graphs_free(struct rt_gpu *g)
{
	struct rt_gpu_api *api = &g->api;
	void *graph = NULL;

	if (g->capturing) {
		g->capturing = false;
		api->end_capture(rt_gpu_stream(g), &graph);
		if (graph) {
			api->graph_destroy(graph);
		}
	}
	while (g->nexecs > 0) {
		api->exec_destroy(g->execs[--g->nexecs]);
	}
	free(g->execs);
	g->execs = NULL;
}

/* ---- communicators ---- */

/* The first member of the group creates the id. */
static enum rt_status
make_comm(struct rt_device *d, const struct rt_group *g, void *stream,
	  int64_t from, int64_t to, struct rt_error *err)
{
	struct rt_nccl *n = ((struct rt_gpu *)d->self)->nccl;
	struct rt_nccl_comm *c = &n->comms[n->n];
	struct config config = { sizeof config, 0xcafebeef, LEAST, 0, INT_MIN,
				 INT_MIN, INT_MIN, NULL, INT_MIN };
	enum rt_status status;
	struct id id = { "" };
	int r = DONE;

	*c = (struct rt_nccl_comm){ .axes = g->axes, .holders = g->holders,
		.from = from, .to = to, .stream = stream, .n = g->n,
		.me = g->me };
	if (g->me == 0) {
		r = n->api.make_id(&id);
	}
	/* members that wait for an id must get one even after an error */
	status = rt_comm_show_first(d->comm, g, &id, sizeof id, err);
	if (r != DONE) {
		return call_failed(n, "ncclGetUniqueId", r, err);
	}
	if (status != RT_OK) {
		return status;
	}
	r = n->api.init(&c->comm, (int)g->n, id, (int)g->me, &config);
	n->n += c->comm != NULL;
	return finish_call(d, c->comm, r, "ncclCommInitRankConfig", err);
}

/* The stream of groups of these axes. */
static enum rt_status
find_stream(struct rt_device *d, int64_t axes, void **out,
	    struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_nccl *n = g->nccl;
	struct group_stream *more;
	enum rt_status status;
	int64_t i;

	axes = n->ordered ? axes : 0;
	for (i = 0; i < n->nstreams; i++) {
		if (n->streams[i].axes == axes) {
			*out = n->streams[i].stream;
			return RT_OK;
		}
	}
	more = realloc(n->streams, (size_t)(i + 1) * sizeof *more);
	if (!more) {
		return rt_no_memory(err, NULL);
	}
	n->streams = more;
	more[i].axes = axes;
	status = GPU(&g->api, stream_urgent, &more[i].stream, NON_BLOCKING,
		     g->priority);
	n->nstreams += status == RT_OK;
	*out = more[i].stream;
	return status;
}

static enum rt_status
make_group(struct rt_device *d, const struct rt_group *g, struct rt_error *err)
{
	void *stream = NULL;
	enum rt_status status = find_stream(d, g->axes, &stream, err);

	return status == RT_OK ? make_comm(d, g, stream, -1, -1, err) : status;
}

/*
 * Registers the arena with each communicator, on all ranks or on none: if some
 * ranks of a communicator alone pass registered memory, what NCCL does is not
 * defined (its user guide, "User Buffer Registration").  Some networks cannot
 * register memory: NCCL then copies.  A communicator that is created later is
 * not registered.
 */
static enum rt_status
register_arena(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_nccl *n = g->nccl;
	uint64_t failed = !n->api.reg || !n->api.dereg ||
			  d->program->host_at;
	enum rt_status status;
	int64_t i;

	for (i = 0; i < n->n && !failed; i++) {
		failed = n->api.reg(n->comms[i].comm,
				    (void *)(uintptr_t)g->arena,
				    (size_t)d->program->arena_bytes,
				    &n->handles[i]) != DONE;
		n->handles[i] = failed ? NULL : n->handles[i];
	}
	status = rt_comm_sum_u64(d->comm, &failed, 1, err);
	for (i = 0; i < n->n && failed; i++) {
		if (n->handles[i]) {
			n->api.dereg(n->comms[i].comm, n->handles[i]);
			n->handles[i] = NULL;
		}
	}
	return status;
}

/* A plan of one rank has no communicator, but in tests/gpu/nccl_alone.c. */
static enum rt_status
make_groups(struct rt_device *d, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t least = d->plan->nranks > 1 ? 2 : 1;
	struct rt_group *g;
	int64_t i;

	for (i = 0; i < d->plan->ngroups && status == RT_OK; i++) {
		status = rt_group_find(d->comm, d->plan->groups[i], 0, &g,
				       err);
		if (status == RT_OK && g->n >= least && !rt_nccl_group(d, g)) {
			status = make_group(d, g, err);
		}
	}
	return status;
}

static enum rt_status
make_edge(struct rt_device *d, int64_t from, int64_t to, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_group *group;
	void *stream = NULL;
	enum rt_status status = rt_group_find(d->comm, (int64_t)1 <<
		d->plan->pp, (int64_t)1 << from | (int64_t)1 << to, &group,
		err);

	if (status == RT_OK) {
		status = GPU(&g->api, stream_urgent, &stream, NON_BLOCKING,
			     g->priority);
	}
	if (status == RT_OK) {
		int64_t before = g->nccl->n;

		status = make_comm(d, group, stream, from, to, err);
		if (g->nccl->n == before) {
			g->api.stream_destroy(stream);
		}
	}
	return status;
}

/* Stages are neighbours on a ring, which several virtual stages may go
 * around. */
static enum rt_status
make_edges(struct rt_device *d, struct rt_error *err)
{
	int64_t n = d->plan->npipes, at[RT_MAX_AXES + 1], i;
	enum rt_status status = RT_OK;

	if (!d->plan->pp || n < 2 || d->plan->nchannels == 0) {
		return RT_OK;
	}
	rt_mesh_at(d->plan, d->comm->world.rank, at);
	for (i = 0; i < (n == 2 ? 1 : n) && status == RT_OK; i++) {
		int64_t j = (i + 1) % n;

		if (at[d->plan->pp] != i && at[d->plan->pp] != j) {
			continue;
		}
		status = make_edge(d, i, j, err);
		if (status == RT_OK) {
			status = make_edge(d, j, i, err);
		}
	}
	return status;
}

const struct rt_nccl_comm *
rt_nccl_group(const struct rt_device *d, const struct rt_group *g)
{
	const struct rt_nccl *n = ((const struct rt_gpu *)d->self)->nccl;
	int64_t i;

	for (i = 0; i < n->n; i++) {
		if (n->comms[i].from < 0 && n->comms[i].axes == g->axes &&
		    n->comms[i].holders == g->holders) {
			return &n->comms[i];
		}
	}
	return NULL;
}

const struct rt_nccl_comm *
rt_nccl_edge(const struct rt_device *d, int64_t from, int64_t to)
{
	const struct rt_nccl *n = ((const struct rt_gpu *)d->self)->nccl;
	int64_t i;

	for (i = 0; i < n->n; i++) {
		if (n->comms[i].from == from && n->comms[i].to == to) {
			return &n->comms[i];
		}
	}
	return NULL;
}

/* Memory for one more communicator. */
static enum rt_status
grow(struct rt_nccl *n, struct rt_error *err)
{
	size_t most = (size_t)n->n + 1;
	struct rt_nccl_comm *comms = realloc(n->comms, most * sizeof *comms);
	void **handles;

	if (!comms) {
		return rt_no_memory(err, NULL);
	}
	n->comms = comms;
	handles = realloc(n->handles, most * sizeof *handles);
	if (!handles) {
		return rt_no_memory(err, NULL);
	}
	n->handles = handles;
	handles[n->n] = NULL;
	return RT_OK;
}

enum rt_status
rt_nccl_join(struct rt_device *d, const struct rt_group *g,
	     const struct rt_nccl_comm **out, struct rt_error *err)
{
	struct rt_nccl *n = ((struct rt_gpu *)d->self)->nccl;
	enum rt_status status = grow(n, err);

	if (status == RT_OK) {
		status = make_group(d, g, err);
	}
	*out = status == RT_OK ? rt_nccl_group(d, g) : NULL;
	return status;
}

/* NCCL reads the variable once, at its first call but that for its version. */
static void
order_launches(struct rt_device *d, int version)
{
	static const char name[] = "NCCL_LAUNCH_ORDER_IMPLICIT";
	struct rt_gpu *g = d->self;
	const char *value;

	if (version < ORDERED || g->facts.driver < ORDERED_DRIVER) {
		return;
	}
	setenv(name, "1", 0);
	value = getenv(name);
	g->nccl->ordered = value && strcmp(value, "1") == 0;
}

enum rt_status
rt_nccl_load(struct rt_device *d, struct rt_error *err)
{
	struct rt_nccl *n = calloc(1, sizeof *n);
	struct rt_gpu *g = d->self;
	enum rt_status status;
	int version = 0;

	if (!n) {
		return rt_no_memory(err, NULL);
	}
	g->nccl = n;
	status = load_library(n, d->options->libnccl, &version, err);
	if (status == RT_OK) {
		order_launches(d, version);
	}
	return status;
}

/* NCCL reports a driver that has no memory left as an unhandled CUDA error. */
static enum rt_status
alloc_failed(const struct rt_device *d, size_t bytes, int r,
	     struct rt_error *err)
{
	const struct rt_gpu *g = d->self;
	size_t left = 0, total = 0;
	const double gib = 1 << 30;

	bytes = (bytes + ALLOCATES - 1) / ALLOCATES * ALLOCATES;
	if (r != UNHANDLED || g->api.memory(&left, &total) != 0 ||
	    left >= bytes) {
		return call_failed(g->nccl, "ncclMemAlloc of the plan's memory",
				   r, err);
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "the plan needs %.3f GiB of "
		"the GPU, which NCCL allocates in pieces of 2 MiB, and %.3f of "
		"%.3f GiB are free (%s): end what else uses it, or compile for "
		"less memory", (double)bytes / gib, (double)left / gib,
		(double)total / gib, g->facts.name);
}

enum rt_status
rt_nccl_alloc(struct rt_device *d, size_t bytes, uint64_t *out,
	      struct rt_error *err)
{
	struct rt_nccl *n = ((struct rt_gpu *)d->self)->nccl;
	uint64_t lack = !n->api.mem_alloc || !n->api.mem_free ||
			d->program->host_at;
	enum rt_status status = rt_comm_sum_u64(d->comm, &lack, 1, err);
	int r;

	*out = 0;
	if (status != RT_OK || lack > 0) {
		return status;
	}
	r = n->api.mem_alloc(&n->arena, bytes);
	if (r != DONE) {
		n->arena = NULL;
		return alloc_failed(d, bytes, r, err);
	}
	*out = (uint64_t)(uintptr_t)n->arena;
	return RT_OK;
}

enum rt_status
rt_nccl_open(struct rt_device *d, struct rt_error *err)
{
	size_t most = (size_t)(d->plan->ngroups + 2 * d->plan->npipes + 1);
	struct rt_nccl *n = ((struct rt_gpu *)d->self)->nccl;
	enum rt_status status;

	n->comms = calloc(most, sizeof *n->comms);
	n->handles = calloc(most, sizeof *n->handles);
	if (!n->comms || !n->handles) {
		return rt_no_memory(err, NULL);
	}
	status = make_groups(d, err);
	if (status == RT_OK) {
		status = make_edges(d, err);
	}
	return status == RT_OK ? register_arena(d, err) : status;
}

void
rt_nccl_abort(struct rt_device *d)
{
	struct rt_nccl *n = ((struct rt_gpu *)d->self)->nccl;
	int64_t i;

	rt_gpu_graphs_free(d->self);
	for (i = 0; n && i < n->n && !n->aborted; i++) {
		n->api.abort(n->comms[i].comm);
	}
	if (n) {
		n->aborted = true;
	}
}

static void
close_comm(struct rt_device *d, int64_t i)
{
	struct rt_gpu *g = d->self;
	struct rt_nccl *n = g->nccl;
	struct rt_nccl_comm *c = &n->comms[i];
	struct rt_error err;

	if (!n->aborted) {
		if (n->handles[i]) {
			n->api.dereg(c->comm, n->handles[i]);
		}
		/* one whose finalization has not ended would hold up destroy */
		if (finish_call(d, c->comm, n->api.finalize(c->comm),
				"ncclCommFinalize", &err) == RT_OK) {
			n->api.destroy(c->comm);
		} else {
			n->api.abort(c->comm);
		}
	}
	if (c->from >= 0) {
		g->api.stream_destroy(c->stream);
	}
}

/* After a failure other ranks may never call finalize, so communicators are
 * aborted. */
void
rt_nccl_close(struct rt_device *d)
{
	struct rt_gpu *g = d->self;
	struct rt_nccl *n = g->nccl;
	int64_t i;

	if (!n) {
		return;
	}
	rt_gpu_graphs_free(g);
	if (d->failed) {
		rt_nccl_abort(d);
	}
	for (i = 0; i < n->n; i++) {
		close_comm(d, i);
	}
	for (i = 0; i < n->nstreams; i++) {
		g->api.stream_destroy(n->streams[i].stream);
	}
	n->n = n->nstreams = 0;
}

void
rt_nccl_unload(struct rt_device *d)
{
	struct rt_gpu *g = d->self;
	struct rt_nccl *n = g->nccl;

	if (!n) {
		return;
	}
	if (n->arena) {
		n->api.mem_free(n->arena);
		g->arena = 0;
	}
	if (n->api.library) {
		dlclose(n->api.library);
	}
	free(n->streams);
	free(n->comms);
	free(n->handles);
	free(n);
	g->nccl = NULL;
}

const char *
rt_nccl_version(const struct rt_device *d)
{
	const struct rt_nccl *n = ((const struct rt_gpu *)d->self)->nccl;

	return n ? n->version : "";
}

/* ---- calls ---- */

enum rt_status
rt_nccl_poll(struct rt_device *d, struct rt_error *err)
{
	struct rt_nccl *n = ((struct rt_gpu *)d->self)->nccl;
	const struct rt_gpu_sent *s;
	enum rt_status status;
	char what[160];
	int64_t i;
	int r = DONE, state;

	for (i = 0; i < n->n && (r == DONE || r == IN_PROGRESS); i++) {
		state = n->api.async_error(n->comms[i].comm, &r);
		r = state == DONE ? r : state;
	}
	if (r == DONE || r == IN_PROGRESS) {
		return RT_OK;
	}
	s = rt_gpu_hanging(d->self);
	snprintf(what, sizeof what, "%s%s", s ? rt_show_name(s->coll->what).text
		 : "a collective", s ? rt_place_text(&s->place).text : "");
	status = call_failed(n, what, r, err);
	rt_nccl_abort(d);
	return status;
}

static int
type_of(int64_t elem)
{
	static const int types[] = {
		[RT_ELEM_F64] = F64, [RT_ELEM_F32] = F32,
		[RT_ELEM_BF16] = BF16, [RT_ELEM_F16] = F16,
		[RT_ELEM_I32] = I32,	  [RT_ELEM_U8] = U8
	};

	return types[elem];
}

static int
call(const struct nccl_api *api, const struct rt_nccl_comm *c,
     const struct rt_nccl_call *x)
{
	int type = type_of(x->coll->elem), other = (int)(1 - c->me);
	int fold = x->coll->op == RT_COLL_MAX ? MAX : SUM;
	size_t n = (size_t)x->n;

	switch (x->op) {
	case RT_NCCL_REDUCE:
		return api->all_reduce(x->in, x->out, n, type, fold, c->comm,
				       c->stream);
	case RT_NCCL_GATHER:
		return api->all_gather(x->in, x->out, n, type, c->comm,
				       c->stream);
	case RT_NCCL_SCATTER:
		return api->reduce_scatter(x->in, x->out, n, type, fold,
					   c->comm, c->stream);
	case RT_NCCL_SEND:
		return api->send(x->in, n, type, other, c->comm, c->stream);
	default:
		return api->recv(x->out, n, type, other, c->comm, c->stream);
	}
}

/*
 * A send or receive is a group, though it is alone: on a communicator that does
 * not block, NCCL may say that one outside of a group is done before it is on
 * its stream (issue 1495 of NVIDIA/nccl), where an event that follows would not
 * wait for it.
 */
enum rt_status
rt_nccl_calls(struct rt_device *d, const struct rt_nccl_comm *c,
	      const struct rt_nccl_call *calls, int64_t n,
	      struct rt_error *err)
{
	const struct nccl_api *api = &((struct rt_gpu *)d->self)->nccl->api;
	bool group = n > 1 || calls->op == RT_NCCL_SEND ||
		     calls->op == RT_NCCL_RECV;
	int r = group ? api->group_start() : DONE, last;
	int64_t i;

	for (i = 0; i < n && (r == DONE || r == IN_PROGRESS); i++) {
		r = call(api, c, &calls[i]);
	}
	if (group) {
		/* called after an error as well: a group must not stay open */
		last = api->group_end();
		r = r == DONE || r == IN_PROGRESS ? last : r;
	}
	return finish_call(d, c->comm, r, "it", err);
}

enum rt_status
rt_nccl_exchange(struct rt_device *d, const struct rt_nccl_comm *c,
		 int64_t elem, const struct rt_nccl_part *parts, int64_t n,
		 struct rt_error *err)
{
	const struct nccl_api *api = &((struct rt_gpu *)d->self)->nccl->api;
	int type = type_of(elem), r = api->group_start(), last;
	int64_t i;

	for (i = 0; i < n && (r == DONE || r == IN_PROGRESS); i++) {
		const struct rt_nccl_part *p = &parts[i];

		r = p->send ? api->send(p->at, (size_t)p->n, type,
					(int)p->peer, c->comm, c->stream)
			: api->recv(p->at, (size_t)p->n, type, (int)p->peer,
				    c->comm, c->stream);
	}
	/* called after an error as well: a group must not stay open */
	last = api->group_end();
	r = r == DONE || r == IN_PROGRESS ? last : r;
	return finish_call(d, c->comm, r, "it", err);
}

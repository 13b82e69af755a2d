/*
 * A libcuda.so.1 of the tests.  Its memory cannot be touched but by its own
 * calls and kernels; work on a stream is done as late as is legal, when
 * somebody asks whether it is done; kernels are run by the emulator, and
 * the plan is that of the program that loaded it, which exports it (-Wl,-E).
 * What a real driver would not accept is an error here.
 *
 * FAKE_DEVICES=N         devices (1); process i of a host gets device i % N
 * FAKE_MEMORY=BYTES      of each (1 GiB)
 * FAKE_HOST_MEMORY=BYTES that a device can map
 * FAKE_ARCH=80           9.0 else
 * FAKE_VERSION=11040     13000 else
 * FAKE_FAIL=N            the N-th call fails
 * FAKE_LOG=FILE          a line at the end: calls, launches, launches of graphs
 *                        and how many graphs there were, leaks, streams of the
 *                        greatest priority; another: kernels that may begin
 *                        before the one before them has ended
 * FAKE_TIMES="7 3 5"     kernels are not run, and those of the i-th module that
 *                        was loaded take so many ms each, 100 behind the last;
 *                        events tell such time, which copies take too
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake-driver.h"


struct event {
	uint64_t asked, done;	/* records */
	double ms;
	struct fake_stream *captured;	/* recorded while that was */
	int in_graph;		/* its last record is in a graph */
	struct event *next;	/* of those that graphs have */
};

struct fake_stream {
	struct fake_op *head, **tail;
	struct graph *graph;	/* it is being captured */
	struct fake_stream *shadow;	/* while a graph is launched */
	int busy;
	/* of what was enqueued last; NULL: a graph, or nothing since one was
	 * captured */
	int (*last)(struct fake_op *op);
};

struct graph {
	struct fake_op *head, **tail;
	struct fake_stream *origin;
	int mode;
	pthread_t thread;	/* that captures it */
	int spoiled;		/* the capture was, by a call */
};

/* Of a capture: whose calls it forbids; none are RELAXED, which is 2. */
enum { GLOBAL = 0, THREAD_LOCAL = 1 };

enum { MOST = 4096 };

static struct {
	int calls, launches, graphs, execs, bad, urgent, early;
	int live[8];
	size_t mapped;		/* of the host's memory */
	struct fake_stream *streams[MOST];
	int nstreams;
	/* events of graphs, which may still run when they are destroyed */
	struct event *edges, last;
	double ms;		/* FAKE_TIMES: what went by */
} fake;

void
fake_live(int kind, int more)
{
	fake.live[kind] += more;
}

void
fake_mapped(size_t bytes)
{
	fake.mapped += bytes;
}

void
fake_launched(bool early)
{
	fake.launches++;
	fake.early += early;
}

bool
fake_after(const struct fake_stream *s, int (*run)(struct fake_op *))
{
	return s->last == run;
}

void
fake_spend(double ms)
{
	fake.ms += ms;
}

long
fake_number(const char *name, long otherwise)
{
	const char *s = getenv(name);

	return s && *s ? atol(s) : otherwise;
}

/* Every call comes by here. */
int
fake_enter(void)
{
	return ++fake.calls == fake_number("FAKE_FAIL", 0) ? INJECTED : 0;
}

/* When it is unloaded: a program that looks for leaks finds none. */
__attribute__((destructor)) static void
free_edges(void)
{
	while (fake.edges && fake.edges != &fake.last) {
		struct event *next = fake.edges->next;

		free(fake.edges);
		fake.edges = next;
	}
}

__attribute__((destructor)) static void
leave(void)
{
	const char *path = getenv("FAKE_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;
	int i, leaks = 0;

	for (i = 0; i < 8; i++) {
		leaks += fake.live[i];
	}
	if (f) {
		fprintf(f, "calls %d launches %d graphs %d of %d leaks %d "
			"urgent %d\nearly %d\n", fake.calls, fake.launches,
			fake.graphs, fake.execs, leaks, fake.urgent,
			fake.early);
		if (fake.mapped) {
			fprintf(f, "mapped %zu bytes of the host's memory\n",
				fake.mapped);
		}
		fclose(f);
	}
	if (leaks) {
		fprintf(stderr, "fake driver: leaks of contexts %d, memory %d, "
			"pinned %d, streams %d, events %d, modules %d, graphs "
			"%d, %d\n", fake.live[0], fake.live[1], fake.live[2],
			fake.live[3], fake.live[4], fake.live[5],
			fake.live[6], fake.live[7]);
	}
}

/* ---- streams ---- */

static double
now_ms(void)
{
	struct timespec t;

	if (getenv("FAKE_TIMES")) {
		return fake.ms;
	}
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

struct fake_op *
fake_op(int (*run)(struct fake_op *), size_t bytes)
{
	struct fake_op *op = calloc(1, sizeof *op + bytes);

	op->run = run;
	op->bytes = bytes;
	return op;
}

/* Who is counted by op->graphs learns of each graph that comes and goes. */
static void
hold(const struct fake_op *op)
{
	if (op->graphs) {
		++*op->graphs;
	}
}

static void
free_graph(struct graph *g)
{
	struct fake_op *op, *next;

	for (op = g->head; op; op = next) {
		next = op->next;
		if (op->graphs) {
			--*op->graphs;
		}
		free(op);
	}
	free(g);
}

void
fake_queue(struct fake_stream *s, struct fake_op *op)
{
	op->stream = s;
	op->next = NULL;
	s->last = op->run;
	if (s->graph) {
		op->captured = 1;
		hold(op);
		*s->graph->tail = op;
		s->graph->tail = &op->next;
	} else {
		*s->tail = op;
		s->tail = &op->next;
		if (op->launched) {
			op->launched(op);
		}
	}
}

static int
run_record(struct fake_op *op)
{
	struct event *e = op->event;

	if (op->version > e->done) {
		e->done = op->version;
	}
	e->ms = now_ms();
	return FAKE_DONE;
}

static int
run_wait(struct fake_op *op)
{
	return ((struct event *)op->event)->done >= op->version
		? FAKE_DONE : FAKE_LATER;
}

/* Until it is through, or waits; true if anything was done. */
static int
advance(struct fake_stream *s)
{
	struct fake_op *op;
	int any = 0, r;

	if (s->busy) {
		return 0;
	}
	s->busy = 1;
	while ((op = s->head) != NULL && !fake.bad) {
		r = op->run(op);
		if (r == FAKE_LATER) {
			break;
		}
		any = 1;
		if (r != FAKE_DONE) {
			fake.bad = r;
		}
		s->head = op->next;
		if (!s->head) {
			s->tail = &s->head;
		}
		free(op);
	}
	s->busy = 0;
	return any;
}

/* Others move only if this one cannot: as late as is legal. */
static int
ask(struct fake_stream *s)
{
	int i, any;

	do {
		any = advance(s);
		for (i = 0; s->head && !any && i < fake.nstreams; i++) {
			any = fake.streams[i] != s &&
			      advance(fake.streams[i]);
		}
	} while (s->head && any && !fake.bad);
	return fake.bad ? fake.bad : s->head ? NOT_READY : 0;
}

static struct fake_stream *
new_stream(void)
{
	struct fake_stream *s = calloc(1, sizeof *s);

	s->tail = &s->head;
	if (fake.nstreams < MOST) {
		fake.streams[fake.nstreams++] = s;
	}
	return s;
}

static void
free_ops(struct fake_op *op)
{
	while (op) {
		struct fake_op *next = op->next;

		free(op);
		op = next;
	}
}

static void
free_stream(struct fake_stream *s)
{
	int i;

	for (i = 0; i < fake.nstreams && fake.streams[i] != s; i++) {
	}
	if (i < fake.nstreams) {
		fake.streams[i] = fake.streams[--fake.nstreams];
	}
	free_ops(s->head);
	free(s);
}

static int
stream_create(void **out, unsigned flags)
{
	(void)flags;
	ENTER;
	*out = new_stream();
	fake.live[STREAM]++;
	return 0;
}

static int
stream_urgent(void **out, unsigned flags, int priority)
{
	int r = priority >= -5 && priority <= 0 ? stream_create(out, flags)
						: INVALID;

	fake.urgent += r == 0 && priority == -5;
	return r;
}

static int
stream_destroy(void *stream)
{
	ask(stream);
	free_stream(stream);
	fake.live[STREAM]--;
	return 0;
}

/*
 * Whether a captured stream or event has done its work is not asked, as that is
 * not scheduled; a call that does invalidates the capture, which then ends
 * without a graph.  So do calls that a capture does not see, as an allocation:
 * of any thread or, where the capture's mode says so, of its own (CUDA
 * programming guide, "Prohibited and Unhandled Operations"; CUDA driver API,
 * cuThreadExchangeStreamCaptureMode).
 */
static int
spoil(struct graph *g, int why)
{
	if (g) {
		g->spoiled = 1;
	}
	return why;
}

static int
forbids(const struct graph *g)
{
	return g && (g->mode == GLOBAL ||
		     (g->mode == THREAD_LOCAL &&
		      pthread_equal(g->thread, pthread_self())));
}

int
fake_unseen(void)
{
	int i, any = 0;

	for (i = 0; i < fake.nstreams; i++) {
		struct graph *g = fake.streams[i]->graph;

		any |= forbids(g) ? spoil(g, UNSUPPORTED) : 0;
	}
	return any;
}

static int
stream_query(void *stream)
{
	struct fake_stream *s = stream;

	ENTER;
	return s->graph ? spoil(s->graph, UNSUPPORTED) : ask(s);
}

/* ---- events ---- */

static int
event_create(void **out, unsigned flags)
{
	(void)flags;
	ENTER;
	*out = calloc(1, sizeof(struct event));
	fake.live[EVENT]++;
	return 0;
}

static int
event_destroy(void *event)
{
	int i;
	struct fake_op *op;

	/* what still waits for it does not any more */
	for (i = 0; i < fake.nstreams; i++) {
		for (op = fake.streams[i]->head; op; op = op->next) {
			if (op->event == event) {
				ask(fake.streams[i]);
				break;
			}
		}
	}
	free(event);
	fake.live[EVENT]--;
	return 0;
}

static int
event_record(void *event, void *stream)
{
	struct fake_stream *s = stream;
	struct event *e = event;
	struct fake_op *op;

	ENTER;
	op = fake_op(run_record, 0);
	op->event = e;
	/* a capture records nothing: it makes an edge of a graph */
	op->version = s->graph ? 0 : ++e->asked;
	e->captured = s->graph ? s : NULL;
	e->in_graph = s->graph != NULL;
	fake_queue(s, op);
	return 0;
}

/*
 * Nothing in a graph depends on what is outside of it, but by the order of its
 * stream, and nothing outside on an event that was recorded in it: the CUDA
 * Driver API's CUresult has CUDA_ERROR_STREAM_CAPTURE_ISOLATION ("a dependency
 * would have been created which crosses the capture sequence boundary") and
 * CUDA_ERROR_CAPTURED_EVENT ("not permitted on an event which was last recorded
 * in a capturing stream").
 */
static int
stream_wait(void *stream, void *event, unsigned flags)
{
	struct fake_stream *s = stream;
	struct event *e = event;
	struct fake_op *op;

	(void)flags;
	ENTER;
	if (s->graph && (e->asked || e->in_graph) && !e->captured) {
		return spoil(s->graph, ISOLATION);
	}
	if (!s->graph && e->in_graph && !e->captured) {
		return CAPTURED_EVENT;
	}
	op = fake_op(run_wait, 0);
	if (e->captured && !s->graph) {
		/* it joins what is being captured */
		s->graph = e->captured->graph;
	}
	op->event = e;
	op->version = e->asked;
	fake_queue(s, op);
	return 0;
}

static int
event_query(void *event)
{
	struct event *e = event;

	ENTER;
	if (e->in_graph) {
		return spoil(e->captured ? e->captured->graph : NULL,
			     CAPTURED_EVENT);
	}
	return e->done >= e->asked ? 0 : NOT_READY;
}

static int
event_elapsed(float *ms, void *from, void *to)
{
	struct event *a = from, *b = to;

	ENTER;
	if (a->done < a->asked || b->done < b->asked) {
		return NOT_READY;
	}
	*ms = (float)(b->ms - a->ms);
	return 0;
}

/* ---- graphs ---- */

static int
capture(void *stream, int mode)
{
	struct fake_stream *s = stream;

	ENTER;
	s->graph = calloc(1, sizeof *s->graph);
	s->graph->mode = mode;
	s->graph->thread = pthread_self();
	s->graph->tail = &s->graph->head;
	s->graph->origin = s;
	s->last = NULL;
	fake.live[GRAPH]++;
	return 0;
}

/* Each other stream must have ended in an event that the first waits for. */
static int
joined(const struct graph *g)
{
	const struct fake_op *op, *other, *last;

	for (op = g->head; op; op = op->next) {
		int waited = op->stream == g->origin;

		for (last = op, other = op->next; other; other = other->next) {
			if (other->stream == op->stream) {
				last = other;
			}
			if (other->stream == g->origin &&
			    other->run == run_wait && last->event &&
			    other->event == last->event) {
				waited = 1;
			}
		}
		if (!waited) {
			return 0;
		}
	}
	return 1;
}

static int
end_capture(void *stream, void **out)
{
	struct fake_stream *s = stream;
	struct graph *g = s->graph;
	struct fake_op *op;
	int i;

	if (!g || g->origin != s) {
		return INVALID;
	}
	for (op = g->head; op; op = op->next) {
		if (op->event) {
			((struct event *)op->event)->captured = NULL;
		}
	}
	for (i = 0; i < fake.nstreams; i++) {
		if (fake.streams[i]->graph == g) {
			fake.streams[i]->graph = NULL;
		}
	}
	*out = g;
	ENTER;
	if (g->spoiled || !joined(g)) {
		*out = NULL;
		fake.live[GRAPH]--;
		i = g->spoiled ? INVALIDATED : UNJOINED;
		free_graph(g);
		return i;
	}
	return 0;
}

static struct fake_op *
copy_of(const struct fake_op *op)
{
	struct fake_op *c = fake_op(op->run, op->bytes);

	memcpy(c, op, sizeof *op + op->bytes);
	c->next = NULL;
	return c;
}

/* An edge of a graph: an event of its own for each that was recorded. */
static void
own_events(struct graph *e)
{
	struct fake_op *op, *other;

	for (op = e->head; op; op = op->next) {
		struct event *x, *was = op->event;

		if (op->run != run_record && op->run != run_wait) {
			continue;
		}
		if (was->next) {
			continue;
		}
		x = calloc(1, sizeof *x);
		x->next = fake.edges ? fake.edges : &fake.last;
		fake.edges = x;
		for (other = op; other; other = other->next) {
			other->event = other->event == was ? x : other->event;
		}
	}
}

static int
instantiate(void **out, void *graph, unsigned long long flags)
{
	struct graph *g = graph, *e;
	struct fake_op *op;

	(void)flags;
	ENTER;
	e = calloc(1, sizeof *e);
	e->tail = &e->head;
	e->origin = g->origin;
	for (op = g->head; op; op = op->next) {
		*e->tail = copy_of(op);
		hold(*e->tail);
		e->tail = &(*e->tail)->next;
	}
	own_events(e);
	*out = e;
	fake.live[EXEC]++;
	fake.execs++;
	return 0;
}

static int
graph_destroy(void *graph)
{
	free_graph(graph);
	fake.live[GRAPH]--;
	return 0;
}

static int
exec_destroy(void *exec)
{
	free_graph(exec);
	fake.live[EXEC]--;
	return 0;
}

/* The streams of the graph are used again, and events are recorded anew. */
static int
graph_launch(void *exec, void *stream)
{
	struct graph *g = exec;
	struct fake_op *op, *c;

	ENTER;
	fake.graphs++;
	if (stream != g->origin) {
		return INVALID;
	}
	for (op = g->head; op; op = op->next) {
		struct event *e = op->event;

		c = copy_of(op);
		if (e && op->run == run_record) {
			c->version = ++e->asked;
		} else if (e) {
			c->version = e->asked;
		}
		fake_queue(op->stream, c);
	}
	g->origin->last = NULL;
	return 0;
}

/* ---- contexts ---- */

static int
error_string(int r, const char **out)
{
	*out = r == INJECTED ? "a failure that was asked for"
		: r == NO_MEMORY ? "out of memory"
		: r == INVALID ? "invalid argument"
		: r == NO_IMAGE ? "no kernel image is available"
		: r == 100 ? "no CUDA-capable device is detected"
		: r == UNJOINED ? "a stream of the capture was not joined"
		: r == UNSUPPORTED ? "not permitted while a stream is captured"
		: r == INVALIDATED ? "a call invalidated the capture"
		: r == ISOLATION ? "a dependency crosses a capture's boundary"
		: r == CAPTURED_EVENT ? "the event was recorded in a capture"
		: r == LAUNCH_FAILED ? fake_why : NULL;
	return 0;
}

static int
context_retain(void **out, int dev)
{
	(void)dev;
	ENTER;
	*out = &fake;
	fake.live[CONTEXT]++;
	return 0;
}

static int
context_release(int dev)
{
	(void)dev;
	fake.live[CONTEXT]--;
	return 0;
}

static int
context_set(void *context)
{
	ENTER;
	return context == &fake ? 0 : INVALID;
}

static const struct fake_name names[] = {
	{ "cuGetErrorString", error_string },
	{ "cuDevicePrimaryCtxRetain", context_retain },
	{ "cuDevicePrimaryCtxRelease", context_release },
	{ "cuCtxSetCurrent", context_set },
	{ "cuStreamCreate", stream_create },
	{ "cuStreamCreateWithPriority", stream_urgent },
	{ "cuStreamDestroy", stream_destroy },
	{ "cuStreamQuery", stream_query },
	{ "cuStreamWaitEvent", stream_wait },
	{ "cuStreamBeginCapture", capture },
	{ "cuStreamEndCapture", end_capture },
	{ "cuGraphInstantiateWithFlags", instantiate },
	{ "cuGraphLaunch", graph_launch },
	{ "cuGraphDestroy", graph_destroy },
	{ "cuGraphExecDestroy", exec_destroy },
	{ "cuEventCreate", event_create },
	{ "cuEventDestroy", event_destroy },
	{ "cuEventRecord", event_record }, { "cuEventQuery", event_query },
	{ "cuEventElapsedTime", event_elapsed },
	{ NULL, NULL }
};

int
cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
		    int *found)
{
	static const struct fake_name *const lists[] = {
		names, fake_device_names, fake_memory_names,
		fake_kernel_names
	};
	const struct fake_name *at;
	size_t i;

	(void)version;
	(void)flags;
	*found = 0;
	for (i = 0; i < sizeof lists / sizeof *lists; i++) {
		for (at = lists[i]; at->name; at++) {
			if (strcmp(at->name, name) == 0) {
				*out = at->f;
				return 0;
			}
		}
	}
	*found = 1;
	return 500;
}

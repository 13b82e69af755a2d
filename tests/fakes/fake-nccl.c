/*
 * A libnccl.so.2 of the tests, over files that ranks of a host map: what is
 * called is work on a stream of the driver of the tests, done when that does
 * it, in captured graphs too.  Sends wait for nobody; all else does.
 *
 * What the real one refuses, or hangs at, is an error here:
 *
 * A communicator that a graph refers to, captured or instantiated, is not
 * destroyed by NCCL 2.26 and later: finalizing it never ends, and destroying
 * or aborting it never returns (src/init.cc polls "until all graphs referencing
 * us die"; NVIDIA's "CUDA Graph Best Practice", Process Hang).
 *
 * Ranks of a communicator pass registered memory together or not at all: the
 * user guide, "User Buffer Registration", calls the mixture undefined.
 *
 * A collective is captured by all ranks of its communicator or by none: the
 * user guide, "Using NCCL with CUDA Graphs" ("must be uniform over all ranks").
 *
 * Collectives of two communicators that run at once may deadlock unless the
 * library is of 2.26 and NCCL_LAUNCH_ORDER_IMPLICIT is 1, and then all ranks
 * must launch them in one order (the user guide, "Using multiple NCCL
 * communicators concurrently").  FAKE_NCCL_ORDER has the order of each rank.
 * Sends and receives of a pipeline are left out: its two directions are two
 * communicators that run at once in every schedule.
 *
 * A communicator whose last call is in progress takes no other one but
 * ncclCommGetAsyncError and ncclCommAbort: src/init.cc, ncclCommEnsureReady,
 * which returns ncclInvalidArgument.  Until that says that it is done, it may
 * not be on its stream.  A send or receive outside of a group says that it is
 * done before that, too, on communicators that do not block (issue 1495 of
 * NVIDIA/nccl): an event that is recorded then does not wait for it.
 *
 * Collectives of a group are enqueued at its end, and groups may be nested
 * (the user guide, "Group Calls").
 *
 * Ranks call the same collective with one count and one type: what else happens
 * is undefined, "including hangs, crashes, or data corruption" (the user guide,
 * "Collective Operations").  What is received is what is sent.
 *
 * Input and output of a collective do not overlap, or lie in place: at the same
 * address, or of an all-gather's output and a reduce-scatter's input at the
 * rank's own part (the user guide, "In-place Operations").
 *
 * ncclCommDestroy comes after ncclCommFinalize is done, if that was called, and
 * nothing comes after it, or after ncclCommAbort (the user guide,
 * "Communicator Creation and Management Functions").  Registered memory is not
 * freed ("User Buffer Registration").
 *
 * What would hang or is undefined ends the process with exit status 98 and a
 * line that says so.
 *
 * Compiled with -DFAKE_NCCL_OLD it has no functions of 2.19 and later; with
 * -DFAKE_NCCL_BROKEN it has no ncclSend.
 *
 * FAKE_NCCL_DIR=FOLDER   where ranks meet
 * FAKE_NCCL_VERSION=N    22809 else
 * FAKE_NCCL_FAIL=N       the N-th call fails
 * FAKE_NCCL_SILENT=N     from the N-th collective on this rank's are not done
 * FAKE_NCCL_UNREGISTERED=R   rank R of each communicator registers nothing
 * FAKE_NCCL_ORDER=FOLDER the collectives that a process launched, in a file
 * FAKE_NCCL_LOG=FILE     a line at the end: calls by kind, what is left over
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake-nccl.h"

struct comm *fake_comms;

__attribute__((destructor)) static void
forget_comms(void)
{
	while (fake_comms) {
		struct comm *next = fake_comms->next;
		int i;

		for (i = 0; i < fake_comms->nlate; i++) {
			free(fake_comms->late[i].op);
		}
		free(fake_comms->late);
		free(fake_comms);
		fake_comms = next;
	}
}

struct id {
	char bytes[128];
};

struct config {
	size_t size;
	unsigned magic, version;
	int blocking;
};

static struct {
	int calls, comms, registered, by[KINDS];
	const struct driver *driver;
	struct driver found;
	int grouped;		/* so many groups are open */
	int spoiled;		/* a call in them failed so */
	int members, joined;	/* collectives in it; such groups */
	struct comm *comm;	/* theirs */
	struct work group;	/* sends and receives */
	void *group_stream;
} fake;

long
fake_setting(const char *name, long otherwise)
{
	const char *s = getenv(name);

	return s && *s ? atol(s) : otherwise;
}

void
fake_refuse(const char *why)
{
	fprintf(stderr, "fake NCCL: %s\n", why);
	_exit(98);
}

#define COUNT do { \
	if (++fake.calls == fake_setting("FAKE_NCCL_FAIL", 0)) return SYSTEM; \
	} while (0)

static void *
look_up(void *lib, const char *name)
{
	void *f = lib ? dlsym(lib, name) : NULL;

	if (!f) {
		fprintf(stderr, "fake NCCL: no %s\n", name);
		exit(99);
	}
	return f;
}

const struct driver *
fake_driver(void)
{
	struct driver *d = &fake.found;
	void *lib, *f;

	if (fake.driver) {
		return fake.driver;
	}
	lib = dlopen(getenv("LLMC_LIBCUDA"), RTLD_NOW | RTLD_NOLOAD);
	f = look_up(lib, "fake_op");
	memcpy(&d->op, &f, sizeof f);
	f = look_up(lib, "fake_queue");
	memcpy(&d->queue, &f, sizeof f);
	f = look_up(lib, "fake_open_memory");
	memcpy(&d->open, &f, sizeof f);
	f = look_up(lib, "fake_has");
	memcpy(&d->has, &f, sizeof f);
	f = look_up(lib, "fake_allocate");
	memcpy(&d->allocate, &f, sizeof f);
	f = look_up(lib, "fake_deallocate");
	memcpy(&d->deallocate, &f, sizeof f);
	f = look_up(lib, "fake_live");
	memcpy(&d->live, &f, sizeof f);
	dlclose(lib);
	return fake.driver = d;
}

__attribute__((destructor)) static void
leave(void)
{
	const char *path = getenv("FAKE_NCCL_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;

	if (f) {
		fprintf(f, "calls %d reduce %d gather %d scatter %d send %d "
			"recv %d exchange %d joined %d left %d %d\n",
			fake.calls, fake.by[REDUCE], fake.by[GATHER],
			fake.by[SCATTER], fake.by[SEND], fake.by[RECV],
			fake.by[EXCHANGE], fake.joined, fake.comms,
			fake.registered);
		fclose(f);
	}
}

/* ---- what a communicator may be asked ---- */

static void
check_alive(const struct comm *c)
{
	if (c->dead) {
		fake_refuse("a call on a communicator that is destroyed");
	}
}

static int
all_here(const struct comm *c)
{
	return atomic_load(&c->shm->here) >= (uint64_t)c->n;
}

/* Whether it takes a call. */
static int
is_ready(const struct comm *c)
{
	check_alive(c);
	return !c->pending && !c->finalizing && all_here(c);
}

/* Its calls come to their streams. */
static void
enqueue_late(struct comm *c)
{
	int i, n = c->nlate;

	c->nlate = 0;
	for (i = 0; i < n; i++) {
		fake_driver()->queue(c->late[i].stream, c->late[i].op);
	}
}

static void
add_late(struct comm *c, const struct work *w, void *stream)
{
	struct fake_op *op = fake_driver()->op(fake_run_work, sizeof *w);

	op->graphs = &c->graphs;
	op->launched = fake_note_launch;
	memcpy(op->data, w, sizeof *w);
	fake.by[w->kind]++;
	c->late = realloc(c->late, (size_t)(c->nlate + 1) * sizeof *c->late);
	c->late[c->nlate++] = (struct late){ op, stream };
}

/* ---- calls of work ---- */

static int
overlap(const char *a, size_t n, const char *b, size_t m)
{
	return a && b && a < b + m && b < a + n;
}

/* Whether input and output are apart, or in place. */
static int
may_lie(const struct comm *c, const struct work *w, size_t part, size_t all)
{
	const char *whole = w->kind == GATHER ? w->out : w->in;
	const char *own = w->kind == GATHER ? w->in : w->out;

	return !overlap(w->in, w->kind == SCATTER ? all : part, w->out,
			w->kind == GATHER ? all : part) ||
	       own == whole + (w->kind == REDUCE ? 0
			       : (size_t)c->rank * part);
}

static int
do_queue(const struct work *w, void *stream)
{
	struct comm *c = w->comm;
	size_t part = fake_bytes_of(w->type) * w->n, all;

	all = part * (size_t)(w->kind == GATHER || w->kind == SCATTER ? c->n
			      : 1);
	if (!is_ready(c) || all > SLOT_BYTES ||
	    (fake.grouped && fake.comm && fake.comm != c) ||
	    (w->in && !fake_driver()->has(w->in, w->kind == SCATTER ? all
					  : part)) ||
	    (w->out && !fake_driver()->has(w->out, w->kind == GATHER ? all
					   : part))) {
		return ARGUMENT;
	}
	if (!may_lie(c, w, part, all)) {
		fake_refuse("input and output of a collective overlap");
	}
	add_late(c, w, stream);
	if (fake.grouped) {
		fake.comm = c;
		fake.members++;
		return OK;
	}
	c->pending = 1;
	return w->kind == SEND || w->kind == RECV ? OK : IN_PROGRESS;
}

static int
queue(enum kind kind, const void *in, void *out, size_t n, int type, int fold,
      struct comm *c, void *stream)
{
	const struct work w = { .comm = c, .kind = kind, .in = in, .out = out,
				.n = n, .type = type, .fold = fold };
	int r;

	COUNT;
	r = do_queue(&w, stream);
	fake.spoiled = fake.grouped && r != OK ? r : fake.spoiled;
	return r;
}

/* One that is part of a group waits for its end. */
static int
part_of_group(enum kind kind, void *at, size_t n, int type, int peer,
	      struct comm *c, void *stream)
{
	struct work *w = &fake.group;
	size_t bytes = n * fake_bytes_of(type);

	COUNT;
	if (!is_ready(c) || w->nparts == PARTS || peer < 0 || peer >= c->n ||
	    peer == c->rank || !fake_driver()->has(at, bytes) ||
	    (w->nparts && (w->comm != c || fake.group_stream != stream))) {
		return fake.spoiled = ARGUMENT;
	}
	w->comm = c;
	w->kind = EXCHANGE;
	w->n = n;
	w->type = type;
	fake.group_stream = stream;
	w->parts[w->nparts++] = (struct part){ kind, peer, at, bytes };
	return OK;
}

/* ---- what it exports ---- */

int ncclGetVersion(int *);
const char *ncclGetErrorString(int);
const char *ncclGetLastError(void *);
int ncclGetUniqueId(struct id *);
int ncclCommInitRankConfig(void **, int, struct id, int, struct config *);
int ncclCommGetAsyncError(void *, int *);
int ncclCommFinalize(void *);
int ncclCommDestroy(void *);
int ncclCommAbort(void *);
int ncclCommRegister(void *, void *, size_t, void **);
int ncclCommDeregister(void *, void *);
int ncclMemAlloc(void **, size_t);
int ncclMemFree(void *);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int ncclAllGather(const void *, void *, size_t, int, void *, void *);
int ncclReduceScatter(const void *, void *, size_t, int, int, void *, void *);
int ncclSend(const void *, size_t, int, int, void *, void *);
int ncclRecv(void *, size_t, int, int, void *, void *);
int ncclGroupStart(void);
int ncclGroupEnd(void);

int
ncclGetVersion(int *out)
{
	*out = (int)fake_setting("FAKE_NCCL_VERSION", 22809);
	return OK;
}

const char *
ncclGetErrorString(int r)
{
	return r == SYSTEM ? "a failure that was asked for"
		: r == ARGUMENT ? "invalid argument" : "internal error";
}

const char *
ncclGetLastError(void *comm)
{
	(void)comm;
	return "";
}

int
ncclGetUniqueId(struct id *id)
{
	static int n;

	COUNT;
	memset(id, 0, sizeof *id);
	snprintf(id->bytes, sizeof id->bytes, "%s/segment-%d-%d",
		 getenv("FAKE_NCCL_DIR"), (int)getpid(), n++);
	return OK;
}

/* Those who are missing are waited for by who asks (blocking is 0). */
int
ncclCommInitRankConfig(void **out, int n, struct id id, int rank,
		       struct config *config)
{
	struct comm *c;
	int fd;

	COUNT;
	if (n > RANKS || config->magic != 0xcafebeef || config->blocking) {
		return ARGUMENT;
	}
	c = calloc(1, sizeof *c);
	if (!c) {
		return SYSTEM;
	}
	fd = open(id.bytes, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *c->shm) != 0) {
		free(c);
		return SYSTEM;
	}
	c->shm = mmap(NULL, sizeof *c->shm, PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);
	close(fd);
	c->n = n;
	c->rank = rank;
	snprintf(c->name, sizeof c->name, "%s", strrchr(id.bytes, '/') + 1);
	c->next = fake_comms;
	fake_comms = c;
	atomic_fetch_add(&c->shm->here, 1);
	fake.comms++;
	c->pending = 1;
	*out = c;
	return IN_PROGRESS;
}

/* What it asks for is done by the time that this says so, and not before. */
int
ncclCommGetAsyncError(void *comm, int *r)
{
	struct comm *c = comm;

	COUNT;
	check_alive(c);
	*r = !all_here(c) || (c->finalizing && c->graphs) ? IN_PROGRESS : OK;
	if (*r == OK) {
		enqueue_late(c);
		c->pending = 0;
		c->finalized = c->finalizing;
	}
	return OK;
}

int
ncclCommFinalize(void *comm)
{
	struct comm *c = comm;

	if (!is_ready(c)) {
		return ARGUMENT;
	}
	c->finalizing = 1;
	return IN_PROGRESS;
}

static int
destroy(struct comm *c, const char *call)
{
	check_alive(c);
	if (c->graphs) {
		fprintf(stderr, "fake NCCL: %s would never return: calls in "
			"graphs refer to the communicator, %d of them\n",
			call, c->graphs);
		_exit(98);
	}
	/* what is still queued finds it dead */
	munmap(c->shm, sizeof *c->shm);
	c->dead = 1;
	fake.comms--;
	fake.registered -= c->registered;
	return OK;
}

int
ncclCommDestroy(void *comm)
{
	const struct comm *c = comm;

	check_alive(c);
	if (c->pending || c->finalizing > c->finalized) {
		fake_refuse("ncclCommDestroy of a communicator whose last call "
			    "is in progress");
	}
	return destroy(comm, "ncclCommDestroy");
}

int
ncclCommAbort(void *comm)
{
	return destroy(comm, "ncclCommAbort");
}

#ifndef FAKE_NCCL_OLD
int
ncclCommRegister(void *comm, void *at, size_t bytes, void **handle)
{
	struct comm *c = comm;

	COUNT;
	if (!is_ready(c) || !fake_driver()->has(at, bytes)) {
		return ARGUMENT;
	}
	if (fake_setting("FAKE_NCCL_UNREGISTERED", -1) == c->rank) {
		return SYSTEM;
	}
	c->registered++;
	c->lo = at;
	c->hi = c->lo + bytes;
	fake.registered++;
	*handle = comm;
	return OK;
}

int
ncclCommDeregister(void *comm, void *handle)
{
	struct comm *c = comm;

	if (!is_ready(c) || comm != handle || !c->lo) {
		return ARGUMENT;
	}
	c->registered--;
	c->lo = NULL;
	fake.registered--;
	return OK;
}

/* The actual size may be larger, says nccl.h: it is a multiple of what the
 * driver maps at once, 2 MiB. */
int
ncclMemAlloc(void **out, size_t bytes)
{
	const size_t least = 2 << 20;
	uint64_t at = 0;
	int r;

	COUNT;
	r = fake_driver()->allocate((bytes + least - 1) / least * least, 0,
				    &at);
	*out = (void *)(uintptr_t)at;
	fake_driver()->live(MEMORY, r == 0);
	return r ? UNHANDLED : OK;
}

int
ncclMemFree(void *at)
{
	const struct comm *c;
	int r;

	for (c = fake_comms; c; c = c->next) {
		if (!c->dead && c->lo == at) {
			fake_refuse("ncclMemFree of memory that is registered");
		}
	}
	r = fake_driver()->deallocate((uint64_t)(uintptr_t)at, 0);

	fake_driver()->live(MEMORY, -(r == 0));
	return r ? UNHANDLED : OK;
}
#endif

int
ncclAllReduce(const void *in, void *out, size_t n, int type, int op, void *c,
	      void *stream)
{
	return queue(REDUCE, in, out, n, type, op, c, stream);
}

int
ncclAllGather(const void *in, void *out, size_t n, int type, void *c,
	      void *stream)
{
	return queue(GATHER, in, out, n, type, 0, c, stream);
}

int
ncclReduceScatter(const void *in, void *out, size_t n, int type, int op,
		  void *c, void *stream)
{
	return queue(SCATTER, in, out, n, type, op, c, stream);
}

#ifndef FAKE_NCCL_BROKEN
int
ncclSend(const void *in, size_t n, int type, int peer, void *c, void *stream)
{
	return fake.grouped
		? part_of_group(SEND, (void *)in, n, type, peer, c, stream)
		: queue(SEND, in, NULL, n, type, 0, c, stream);
}
#endif

int
ncclRecv(void *out, size_t n, int type, int peer, void *c, void *stream)
{
	return fake.grouped
		? part_of_group(RECV, out, n, type, peer, c, stream)
		: queue(RECV, NULL, out, n, type, 0, c, stream);
}

int
ncclGroupStart(void)
{
	COUNT;
	if (fake.grouped++ == 0) {
		memset(&fake.group, 0, sizeof fake.group);
		fake.members = fake.spoiled = 0;
		fake.comm = NULL;
	}
	return OK;
}

/* A group of one is a call like any other. */
static void
single(struct work *w)
{
	w->kind = w->parts[0].kind;
	w->in = w->kind == SEND ? w->parts[0].at : NULL;
	w->out = w->kind == RECV ? w->parts[0].at : NULL;
	w->nparts = 0;
}

/* What sends and receives of a group become. */
static int
end_parts(void)
{
	struct work *w = &fake.group;
	size_t bytes = fake_exchange_head();
	int i;

	for (i = 0; i < w->nparts; i++) {
		bytes += w->parts[i].kind == SEND ? w->parts[i].bytes : 0;
	}
	if (w->nparts == 0) {
		return OK;
	}
	if (bytes > SLOT_BYTES || (fake.comm && fake.comm != w->comm)) {
		return ARGUMENT;
	}
	fake.comm = w->comm;
	if (w->nparts > 1 || w->comm->n > 2) {
		w->n = w->type = 0;
	} else {
		single(w);
	}
	add_late(w->comm, w, fake.group_stream);
	return OK;
}

int
ncclGroupEnd(void)
{
	int r;

	if (fake.grouped == 0) {
		return USAGE;
	}
	if (--fake.grouped > 0) {
		return OK;
	}
	COUNT;
	r = fake.spoiled ? fake.spoiled : end_parts();
	if (r != OK || !fake.comm) {
		return r;
	}
	fake.joined += fake.members > 1;
	fake.comm->pending = 1;
	return IN_PROGRESS;
}

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
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fake-driver.h"

enum { RANKS = 16, SLOTS = 8, SLOT_BYTES = 1 << 18 };
enum { PARTS = 2 * RANKS };
enum {
	OK = 0, UNHANDLED = 1, SYSTEM = 2, INTERNAL = 3, ARGUMENT = 4,
	IN_PROGRESS = 7
};

struct shm {
	_Atomic uint64_t here;
	_Atomic uint64_t posted[RANKS], taken[RANKS];
	_Atomic int registered[RANKS][SLOTS], captured[RANKS][SLOTS];
	char data[RANKS][SLOTS][SLOT_BYTES];
};

struct comm {
	struct shm *shm;
	int n, rank, registered, dead;
	int finalizing, running;	/* running: a collective is */
	const char *lo, *hi;	/* what is registered */
	char name[32];		/* the same on all ranks */
	int graphs;		/* that have a call on it */
	uint64_t op;		/* of this rank, so far */
	struct comm *next;	/* made before it; dead ones stay */
};

static struct comm *comms;

__attribute__((destructor)) static void
forget_comms(void)
{
	while (comms) {
		struct comm *next = comms->next;

		free(comms);
		comms = next;
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

enum kind { REDUCE, GATHER, SCATTER, SEND, RECV, EXCHANGE, KINDS };

/* Of an exchange. */
struct part {
	enum kind kind;
	int peer;
	char *at;
	size_t bytes;
};

struct work {
	struct comm *comm;
	enum kind kind;
	const char *in;
	char *out;
	size_t n;
	int type, fold, done;
	uint64_t op;
	int nparts;
	struct part parts[PARTS];
};

static struct {
	int calls, comms, registered, colls, by[KINDS];
	const struct driver {
		struct fake_op *(*op)(int (*)(struct fake_op *), size_t);
		void (*queue)(struct fake_stream *, struct fake_op *);
		void (*open)(int);
		int (*has)(const void *, size_t);
		int (*allocate)(size_t, int, uint64_t *);
		int (*deallocate)(uint64_t, int);
		void (*live)(int, int);
	} *driver;
	struct driver found;
	int grouped;		/* a group is open */
	int members, joined;	/* collectives in it; such groups */
	struct work group;
	void *group_stream;
} fake;

static long
number(const char *name, long otherwise)
{
	const char *s = getenv(name);

	return s && *s ? atol(s) : otherwise;
}

#define COUNT do { \
	if (++fake.calls == number("FAKE_NCCL_FAIL", 0)) return SYSTEM; \
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

static const struct driver *
driver(void)
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

/* ---- numbers ---- */

static size_t
bytes_of(int type)
{
	return type <= 1 ? 1 : type == 8 ? 8 : type == 6 || type == 9 ? 2 : 4;
}

static double
get(const char *at, int type)
{
	uint16_t h;
	uint32_t w;
	int32_t i;
	double d;
	float f;

	switch (type) {
	case 2:
		memcpy(&i, at, 4);
		return i;
	case 8:
		memcpy(&d, at, 8);
		return d;
	case 9:
		memcpy(&h, at, 2);
		w = (uint32_t)h << 16;
		memcpy(&f, &w, 4);
		return (double)f;
	default:
		memcpy(&f, at, 4);
		return (double)f;
	}
}

static void
put(char *at, int type, double v)
{
	int32_t i = (int32_t)v;
	float f = (float)v;
	uint32_t w;
	uint16_t h;

	switch (type) {
	case 2:
		memcpy(at, &i, 4);
		break;
	case 8:
		memcpy(at, &v, 8);
		break;
	case 9:
		memcpy(&w, &f, 4);
		h = (uint16_t)((w + 0x7fff + (w >> 16 & 1)) >> 16);
		memcpy(at, &h, 2);
		break;
	default:
		memcpy(at, &f, 4);
	}
}

/* ---- work ---- */

static int
all_at(const struct comm *c, _Atomic uint64_t *counts, uint64_t least)
{
	int i;

	for (i = 0; i < c->n; i++) {
		if (atomic_load(&counts[i]) < least) {
			return 0;
		}
	}
	return 1;
}

static void
finish(const struct work *w)
{
	struct comm *c = w->comm;
	size_t size = bytes_of(w->type), from = 0, i;
	uint64_t slot = w->op % SLOTS;
	double sum, v;
	int r;

	if (w->kind == GATHER) {
		for (r = 0; r < c->n; r++) {
			memcpy(w->out + (size_t)r * w->n * size,
			       c->shm->data[r][slot], w->n * size);
		}
		return;
	}
	if (w->kind == RECV) {
		memcpy(w->out, c->shm->data[1 - c->rank][slot], w->n * size);
		return;
	}
	from = w->kind == SCATTER ? (size_t)c->rank * w->n : 0;
	for (i = 0; i < w->n; i++) {
		sum = get(c->shm->data[0][slot] + (from + i) * size, w->type);
		for (r = 1; r < c->n; r++) {
			v = get(c->shm->data[r][slot] + (from + i) * size,
				w->type);
			sum = w->fold == 2 ? (v > sum ? v : sum) : sum + v;
		}
		put(w->out + i * size, w->type, sum);
	}
}

/* ---- exchanges ---- */

/* A slot begins with where each peer's part is, and how long. */
struct posted {
	size_t at[RANKS], bytes[RANKS];
};

static void
post_parts(const struct work *w, char *slot)
{
	struct posted p = { { 0 }, { 0 } };
	size_t at = sizeof p;
	int i;

	for (i = 0; i < w->nparts; i++) {
		const struct part *x = &w->parts[i];

		if (x->kind == SEND) {
			memcpy(slot + at, x->at, x->bytes);
			p.at[x->peer] = at;
			p.bytes[x->peer] = x->bytes;
			at += x->bytes;
		}
	}
	memcpy(slot, &p, sizeof p);
}

/* What a peer sends must be what is awaited of it. */
static int
take_parts(const struct work *w)
{
	const struct comm *c = w->comm;
	struct posted p;
	int i;

	for (i = 0; i < w->nparts; i++) {
		const struct part *x = &w->parts[i];
		const char *slot = c->shm->data[x->peer][w->op % SLOTS];

		if (x->kind != RECV) {
			continue;
		}
		memcpy(&p, slot, sizeof p);
		if (p.bytes[c->rank] != x->bytes) {
			return INTERNAL;
		}
		memcpy(x->at, slot + p.at[c->rank], x->bytes);
	}
	return FAKE_DONE;
}

static void
refuse(const char *why)
{
	fprintf(stderr, "fake NCCL: %s\n", why);
	_exit(98);
}

/* Is all of it registered? */
static int
is_registered(const struct comm *c, const struct work *w)
{
	const char *at = w->kind == EXCHANGE ? w->parts[0].at
		: w->in ? w->in : w->out;

	return c->lo && at >= c->lo && at < c->hi;
}

/* Of a collective that begins: who else runs, and what is registered. */
static void
check_begin(struct comm *c, const struct work *w, int captured)
{
	const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
	int ordered = order && strcmp(order, "1") == 0 &&
		number("FAKE_NCCL_VERSION", 22809) >= 22600;
	const struct comm *other;

	atomic_store(&c->shm->registered[c->rank][w->op % SLOTS],
		     is_registered(c, w));
	atomic_store(&c->shm->captured[c->rank][w->op % SLOTS], captured);
	c->running = w->kind != SEND && w->kind != RECV;
	for (other = comms; other; other = other->next) {
		if (other != c && other->running && !other->dead &&
		    c->running && !ordered) {
			refuse("collectives of two communicators run at once, "
			       "in an order that nothing fixes");
		}
	}
}

static void
check_end(struct comm *c, const struct work *w, int captured)
{
	int i, mine = is_registered(c, w);

	for (i = 0; i < c->n; i++) {
		if (atomic_load(&c->shm->registered[i][w->op % SLOTS]) !=
		    mine) {
			refuse("some ranks alone pass registered memory");
		}
		if (atomic_load(&c->shm->captured[i][w->op % SLOTS]) !=
		    captured) {
			refuse("some ranks alone captured a collective");
		}
	}
	c->running = 0;
}

/* Writes that the host launched it. */
static void
note_launch(struct fake_op *op)
{
	const struct work *w = (const void *)op->data;
	const char *folder = getenv("FAKE_NCCL_ORDER");
	char path[512];
	FILE *f;

	if (!folder || w->kind == SEND || w->kind == RECV) {
		return;
	}
	snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
	f = fopen(path, "a");
	if (f) {
		fprintf(f, "%s %d\n", w->comm->name, w->kind);
		fclose(f);
	}
}

static void
post(const struct work *w, size_t size)
{
	struct comm *c = w->comm;
	char *slot = c->shm->data[c->rank][w->op % SLOTS];

	driver()->open(1);
	if (w->kind == EXCHANGE) {
		post_parts(w, slot);
	} else {
		memcpy(slot, w->in, size);
	}
	driver()->open(0);
	atomic_store(&c->shm->posted[c->rank], w->op + 1);
}

/* A rank posts what it has, and ends when all have. */
static int
run_work(struct fake_op *op)
{
	struct work *w = (void *)op->data;
	struct comm *c = w->comm;
	struct shm *shm = c->shm;
	size_t size = bytes_of(w->type) * w->n *
		      (size_t)(w->kind == SCATTER ? c->n : 1);
	long silent = number("FAKE_NCCL_SILENT", 0);
	struct timespec t = { 0, 20000 };
	int r = FAKE_DONE;

	if (c->dead) {
		return FAKE_DONE;
	}
	if (!w->done) {
		w->op = c->op;
		if (silent && fake.colls >= silent) {
			return FAKE_LATER;
		}
		if (w->kind != RECV && w->op >= SLOTS &&
		    !all_at(c, shm->taken, w->op - SLOTS + 1)) {
			return FAKE_LATER;
		}
		fake.colls++;
		c->op++;
		w->done = 1;
		check_begin(c, w, op->captured);
		if (w->kind != RECV) {
			post(w, size);
		}
	}
	if (w->kind == SEND) {
		atomic_store(&shm->taken[c->rank], w->op + 1);
		return FAKE_DONE;
	}
	if (w->kind == RECV
	    ? atomic_load(&shm->posted[1 - c->rank]) < w->op + 1
	    : !all_at(c, shm->posted, w->op + 1)) {
		nanosleep(&t, NULL);
		return FAKE_LATER;
	}
	if (w->kind != RECV) {
		check_end(c, w, op->captured);
	}
	driver()->open(1);
	if (w->kind == EXCHANGE) {
		r = take_parts(w);
	} else {
		finish(w);
	}
	driver()->open(0);
	atomic_store(&shm->taken[c->rank], w->op + 1);
	return r;
}

static int
queue(enum kind kind, const void *in, void *out, size_t n, int type, int fold,
      struct comm *c, void *stream)
{
	size_t size = bytes_of(type) * n, most;
	struct work w = { .comm = c, .kind = kind, .in = in, .out = out,
			  .n = n, .type = type, .fold = fold };
	struct fake_op *op;

	COUNT;
	most = size * (size_t)(kind == GATHER || kind == SCATTER ? c->n : 1);
	if (most > SLOT_BYTES ||
	    (in && !driver()->has(in, kind == SCATTER ? most : size)) ||
	    (out && !driver()->has(out, kind == GATHER ? most : size))) {
		return ARGUMENT;
	}
	op = driver()->op(run_work, sizeof w);
	op->graphs = &c->graphs;
	op->launched = note_launch;
	memcpy(op->data, &w, sizeof w);
	fake.by[kind]++;
	fake.members += fake.grouped;
	driver()->queue(stream, op);
	return IN_PROGRESS;
}

/* One that is part of a group waits for its end. */
static int
part_of_group(enum kind kind, void *at, size_t n, int type, int peer,
	      struct comm *c, void *stream)
{
	struct work *w = &fake.group;
	size_t bytes = n * bytes_of(type);

	COUNT;
	if (w->nparts == PARTS || peer < 0 || peer >= c->n ||
	    peer == c->rank || !driver()->has(at, bytes) ||
	    (w->nparts && (w->comm != c || fake.group_stream != stream))) {
		return ARGUMENT;
	}
	w->comm = c;
	w->kind = EXCHANGE;
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
	*out = (int)number("FAKE_NCCL_VERSION", 22809);
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
	c->next = comms;
	comms = c;
	atomic_fetch_add(&c->shm->here, 1);
	fake.comms++;
	*out = c;
	return IN_PROGRESS;
}

int
ncclCommGetAsyncError(void *comm, int *r)
{
	struct comm *c = comm;

	COUNT;
	*r = atomic_load(&c->shm->here) < (uint64_t)c->n ||
	     (c->finalizing && c->graphs) ? IN_PROGRESS : OK;
	return OK;
}

int
ncclCommFinalize(void *comm)
{
	((struct comm *)comm)->finalizing = 1;
	return ((struct comm *)comm)->graphs ? IN_PROGRESS : OK;
}

static int
destroy(struct comm *c, const char *call)
{
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
	if (!driver()->has(at, bytes)) {
		return ARGUMENT;
	}
	if (number("FAKE_NCCL_UNREGISTERED", -1) == c->rank) {
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
	((struct comm *)comm)->registered--;
	((struct comm *)comm)->lo = NULL;
	fake.registered--;
	return comm == handle ? OK : ARGUMENT;
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
	r = driver()->allocate((bytes + least - 1) / least * least, 0, &at);
	*out = (void *)(uintptr_t)at;
	driver()->live(MEMORY, r == 0);
	return r ? UNHANDLED : OK;
}

int
ncclMemFree(void *at)
{
	int r = driver()->deallocate((uint64_t)(uintptr_t)at, 0);

	driver()->live(MEMORY, -(r == 0));
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
	if (fake.grouped) {
		return ARGUMENT;
	}
	memset(&fake.group, 0, sizeof fake.group);
	fake.grouped = 1;
	fake.members = 0;
	return OK;
}

int
ncclGroupEnd(void)
{
	struct work *w = &fake.group;
	struct fake_op *op;
	size_t bytes = sizeof(struct posted);
	int i;

	fake.grouped = 0;
	COUNT;
	fake.joined += fake.members > 1;
	for (i = 0; i < w->nparts; i++) {
		bytes += w->parts[i].kind == SEND ? w->parts[i].bytes : 0;
	}
	if (w->nparts == 0 || bytes > SLOT_BYTES) {
		return w->nparts == 0 ? OK : ARGUMENT;
	}
	op = driver()->op(run_work, sizeof *w);
	op->graphs = &w->comm->graphs;
	op->launched = note_launch;
	memcpy(op->data, w, sizeof *w);
	fake.by[EXCHANGE]++;
	driver()->queue(fake.group_stream, op);
	return IN_PROGRESS;
}

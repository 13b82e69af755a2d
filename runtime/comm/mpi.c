/*
 * MPI as a carrier of messages.  The library is loaded only when ranks of
 * several hosts use it, so that a program starts where there is no MPI.
 *
 * MPI_Init and MPI_Finalize wait for all ranks, without a timeout. So a thread
 * of its own calls both, and the thread that needs the result waits with a
 * clock.  All other calls return at once.
 */
#include "runtime/comm/msg.h"

#include <mpi.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Handles are addresses inside the library in Open MPI, and numbers in
 * others. */
#ifdef OPEN_MPI
#define IMPLEMENTATION "Open MPI"
#define FILES "libmpi.so.40", "libmpi.so", NULL
#define FOR_HANDLES(X) \
	X(MPI_Comm, world, "ompi_mpi_comm_world", NULL) \
	X(MPI_Datatype, byte, "ompi_mpi_byte", NULL) \
	X(MPI_Errhandler, returns, "ompi_mpi_errors_return", NULL)
#else
#define IMPLEMENTATION "MPICH or its like"
#define FILES "libmpi.so.12", "libmpich.so.12", "libmpi.so"
#define FOR_HANDLES(X) \
	X(MPI_Comm, world, NULL, MPI_COMM_WORLD) \
	X(MPI_Datatype, byte, NULL, MPI_BYTE) \
	X(MPI_Errhandler, returns, NULL, MPI_ERRORS_RETURN)
#endif

#define FOR_CALLS(X) \
	X(MPI_Comm_get_attr, int, (MPI_Comm, int, void *, int *)) \
	X(MPI_Comm_rank, int, (MPI_Comm, int *)) \
	X(MPI_Comm_set_errhandler, int, (MPI_Comm, MPI_Errhandler)) \
	X(MPI_Comm_size, int, (MPI_Comm, int *)) \
	X(MPI_Error_string, int, (int, char *, int *)) \
	X(MPI_Finalize, int, (void)) \
	X(MPI_Get_count, int, (const MPI_Status *, MPI_Datatype, int *)) \
	X(MPI_Get_library_version, int, (char *, int *)) \
	X(MPI_Init_thread, int, (int *, char ***, int, int *)) \
	X(MPI_Iprobe, int, (int, int, MPI_Comm, int *, MPI_Status *)) \
	X(MPI_Irecv, int, (void *, int, MPI_Datatype, int, int, MPI_Comm, \
			   MPI_Request *)) \
	X(MPI_Isend, int, (const void *, int, MPI_Datatype, int, int, \
			   MPI_Comm, MPI_Request *)) \
	X(MPI_Test, int, (MPI_Request *, int *, MPI_Status *))

/* Large enough for any implementation: the one loaded may not be the
 * header's. */
enum { VERSION_BYTES = 16384 };

_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "a handle fits");

/* What the thread is asked to do, and what it has done. */
enum phase { INIT, RUNS, FINALIZE, ENDED };

struct rt_mpi_lib {
	void *file;
	pthread_t keeper;
	pthread_mutex_t lock;
	pthread_cond_t turn;
	enum phase phase;
	int result, level;	/* MPI's, of the last phase */
#define X(type, name, symbol, value) type name;
	FOR_HANDLES(X)
#undef X
#define X(name, type, arguments) type (*name) arguments;
	FOR_CALLS(X)
#undef X
};

static const struct symbol {
	const char *name;
	size_t at;
} symbols[] = {
#define X(name, type, arguments) { #name, offsetof(struct rt_mpi_lib, name) },
	FOR_CALLS(X)
#undef X
};

static const struct symbol handles[] = {
#define X(type, name, symbol, value) \
	{ symbol, offsetof(struct rt_mpi_lib, name) },
	FOR_HANDLES(X)
#undef X
};

/* ---- loading ---- */

/* All MPI libraries have the same names of functions, but not the same handles:
 * refuses a library of another implementation than the header's. */
static enum rt_status
fail_other_library(struct rt_mpi_lib *l, struct rt_error *err)
{
	int (*version)(char *, int *) = NULL;
	void *f = dlsym(l->file, "MPI_Get_library_version");
	char text[VERSION_BYTES] = "one without a name", *tab = NULL;
	int n;

	if (f) {
		memcpy(&version, &f, sizeof(f));
		version(text, &n);
		text[strcspn(text, ",\n")] = '\0';
		tab = strchr(text, '\t');
	}
	if (tab) {
		*tab = ' ';
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE,
		       "the MPI library here is %s, and this program was built "
		       "for " IMPLEMENTATION ": start it with that one's "
		       "mpirun and library", rt_show_name(text).text);
}

static enum rt_status
find_symbols(struct rt_mpi_lib *l, const struct symbol *list, size_t n,
	     struct rt_error *err)
{
	size_t i;

	for (i = 0; i < n; i++) {
		void *f = list[i].name ? dlsym(l->file, list[i].name) : NULL;

		if (list[i].name && !f) {
			return fail_other_library(l, err);
		}
		if (f) {
			/* POSIX lets a data pointer hold a function's
			 * address */
			memcpy((char *)l + list[i].at, &f, sizeof(f));
		}
	}
	return RT_OK;
}

/* RTLD_GLOBAL: MPI's own plug-ins are loaded later and need its symbols. */
static enum rt_status
load_library(struct rt_mpi_lib *l, struct rt_error *err)
{
	static const char *const files[] = { FILES };
	char text[VERSION_BYTES] = "";
	enum rt_status s;
	size_t i;
	int n;

	for (i = 0; i < 3 && !l->file && files[i]; i++) {
		l->file = dlopen(files[i], RTLD_NOW | RTLD_GLOBAL);
	}
	if (!l->file) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "%s is missing: ranks of several hosts "
			       "communicate by " IMPLEMENTATION "; install it "
			       "on all of them",
			       files[0]);
	}
#define X(type, name, symbol, value) l->name = value;
	FOR_HANDLES(X)
#undef X
	s = find_symbols(l, handles, sizeof(handles) / sizeof(*handles), err);
	if (s == RT_OK) {
		s = find_symbols(l, symbols, sizeof(symbols) / sizeof(*symbols),
				 err);
	}
	if (s == RT_OK) {
		l->MPI_Get_library_version(text, &n);
	}
	/* others are compatible with MPICH, and their text contains MPICH's
	 * name */
	if (s == RT_OK && strncmp(text, "Open MPI", 8) == 0 &&
	    strcmp(IMPLEMENTATION, "Open MPI") != 0) {
		s = fail_other_library(l, err);
	}
	return s;
}

/* ---- the thread that calls MPI_Init and MPI_Finalize ---- */

static void
set_phase(struct rt_mpi_lib *l, enum phase phase)
{
	pthread_mutex_lock(&l->lock);
	l->phase = phase;
	pthread_cond_broadcast(&l->turn);
	pthread_mutex_unlock(&l->lock);
}

static void *
keep(void *user)
{
	struct rt_mpi_lib *l = user;
	sigset_t all;

	/* signals are handled by the main thread */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	l->result = l->MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED,
				       &l->level);
	set_phase(l, RUNS);
	pthread_mutex_lock(&l->lock);
	while (l->phase != FINALIZE) {
		pthread_cond_wait(&l->turn, &l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	l->result = l->MPI_Finalize();
	set_phase(l, ENDED);
	return NULL;
}

/* Whether the thread has reached that phase before the timeout. */
static bool
await_phase(struct rt_mpi_lib *l, enum phase phase, double timeout_us)
{
	struct timespec until;
	double s = timeout_us * 1e-6;
	bool come;

	clock_gettime(CLOCK_MONOTONIC, &until);
	s = s < 1e9 ? s : 1e9;
	until.tv_sec += (time_t)s;
	until.tv_nsec += (long)((s - (double)(time_t)s) * 1e9);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&l->lock);
	while (l->phase < phase &&
	       pthread_cond_timedwait(&l->turn, &l->lock, &until) !=
		       ETIMEDOUT) {
	}
	come = l->phase >= phase;
	pthread_mutex_unlock(&l->lock);
	return come;
}

static bool
start_keeper(struct rt_mpi_lib *l)
{
	pthread_condattr_t a;

	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&l->turn, &a);
	pthread_condattr_destroy(&a);
	return pthread_create(&l->keeper, NULL, keep, l) == 0;
}

/* ---- calls ---- */

static enum rt_status
failed(const struct rt_mpi_lib *l, const char *call, int result,
       struct rt_error *err)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int n = 0;

	l->MPI_Error_string(result, text, &n);
	return rt_fail(err, RT_IO, RT_NOWHERE, "%s failed: %s", call,
		       rt_show_name(text).text);
}

#define CHECK(l, call, arguments) do { \
		int result_ = (l)->call arguments; \
		if (result_ != MPI_SUCCESS) { \
			return failed((l), #call, result_, err); \
		} \
	} while (0)

static enum rt_status
look(struct rt_mpi_lib *l, struct rt_msg_self *self, struct rt_error *err)
{
	int rank, size, any = 0, *most = NULL;

	if (l->result != MPI_SUCCESS) {
		return failed(l, "MPI_Init_thread", l->result, err);
	}
	if (l->level < MPI_THREAD_SERIALIZED) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "this MPI library allows calls of one thread "
			       "only (level %d, %d is needed)", l->level,
			       MPI_THREAD_SERIALIZED);
	}
	CHECK(l, MPI_Comm_set_errhandler, (l->world, l->returns));
	CHECK(l, MPI_Comm_rank, (l->world, &rank));
	CHECK(l, MPI_Comm_size, (l->world, &size));
	CHECK(l, MPI_Comm_get_attr, (l->world, MPI_TAG_UB, &most, &any));
	*self = (struct rt_msg_self){ rank, size, any ? *most : 32767 };
	return RT_OK;
}

/* The library is never closed: its thread may still be inside it. */
static enum rt_status
start(void **out, const struct rt_comm *c, struct rt_msg_self *self,
      struct rt_error *err)
{
	struct rt_mpi_lib *l = calloc(1, sizeof(*l));
	enum rt_status s;

	*out = NULL;
	if (!l) {
		return rt_no_memory(err, NULL);
	}
	s = load_library(l, err);
	if (s != RT_OK) {
		free(l);
		return s;
	}
	if (!start_keeper(l)) {
		free(l);
		return rt_fail(err, RT_IO, RT_NOWHERE, "no thread to start "
			       "MPI with: %s", strerror(errno));
	}
	if (!await_phase(l, RUNS, c->timeout_us)) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "waited %.1f s for all "
			       "ranks to start MPI: one of them did not",
			       c->timeout_us * 1e-6);
	}
	*out = l;
	return look(l, self, err);
}

static bool
stop(void *lib, double timeout_us)
{
	struct rt_mpi_lib *l = lib;

	set_phase(l, FINALIZE);
	if (!await_phase(l, ENDED, timeout_us)) {
		return false;
	}
	pthread_join(l->keeper, NULL);
	free(l);
	return true;
}

static void
is_under_way(struct rt_msg_post *p, MPI_Request r, int64_t rank,
	     bool received)
{
	*p = (struct rt_msg_post){ .rank = rank, .busy = true,
				   .received = received };
	memcpy(&p->handle, &r, sizeof(r));
}

static enum rt_status
isend(void *lib, const void *at, int64_t bytes, int64_t rank, int64_t tag,
      struct rt_msg_post *p, struct rt_error *err)
{
	struct rt_mpi_lib *l = lib;
	MPI_Request r;

	CHECK(l, MPI_Isend, (at, (int)bytes, l->byte, (int)rank, (int)tag,
			     l->world, &r));
	is_under_way(p, r, rank, false);
	return RT_OK;
}

static enum rt_status
irecv(void *lib, void *at, int64_t bytes, int64_t rank, int64_t tag,
      struct rt_msg_post *p, struct rt_error *err)
{
	struct rt_mpi_lib *l = lib;
	MPI_Request r;

	CHECK(l, MPI_Irecv, (at, (int)bytes, l->byte, (int)rank, (int)tag,
			     l->world, &r));
	is_under_way(p, r, rank, true);
	return RT_OK;
}

static enum rt_status
test(void *lib, struct rt_msg_post *p, struct rt_error *err)
{
	struct rt_mpi_lib *l = lib;
	MPI_Request r;
	MPI_Status status;
	int done = 0, n = 0;

	memcpy(&r, &p->handle, sizeof(r));
	CHECK(l, MPI_Test, (&r, &done, &status));
	memcpy(&p->handle, &r, sizeof(r));
	if (done) {
		if (p->received) {
			CHECK(l, MPI_Get_count, (&status, l->byte, &n));
		}
		p->bytes = n;
		p->busy = false;
	}
	return RT_OK;
}

static enum rt_status
probe(void *lib, int64_t tag, int64_t *rank, struct rt_error *err)
{
	struct rt_mpi_lib *l = lib;
	MPI_Status status;
	int any = 0;

	CHECK(l, MPI_Iprobe, (MPI_ANY_SOURCE, (int)tag, l->world, &any,
			      &status));
	*rank = any ? status.MPI_SOURCE : -1;
	return RT_OK;
}

enum rt_status
rt_mpi_calls_find(const struct rt_msg_calls **out, struct rt_error *err)
{
	static const struct rt_msg_calls calls = { start, stop, NULL, isend,
		irecv, test, probe, NULL, NULL };

	(void)err;
	*out = &calls;
	return RT_OK;
}

/*
 * Saves behind the steps of training: see data.h.
 *
 * A save has phases, each a job without communication that a thread of this
 * rank does: rank 0 makes the files; all ranks write; rank 0 completes.  Ranks
 * go to the next phase together, when a poll finds that all jobs are done.
 */
#include "runtime/data/checkpoint.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/elems.h"

enum phase { IDLE, CREATE, WRITE, COMPLETE };

struct rt_behind {
	struct rt_alloc alloc;
	struct rt_store from;	/* the run's */
	/* the copy as a store: holds that this rank writes, other offsets */
	struct rt_store copy;
	struct rt_program program;
	struct rt_hold *holds;
	const struct rt_hold **origin;	/* of each, in the run */
	int64_t bytes;
	const char *folder;
	int64_t keep;
	struct rt_progress at;
	struct rt_saving v;
	enum phase phase;
	/* the job of this phase */
	pthread_t thread;
	bool running;		/* the thread has not been joined */
	pthread_mutex_t lock;	/* of what follows */
	bool done;
	enum rt_status status;
	struct rt_error err;
};

/* ---- the copy ------------------------------------------------------- */

static int64_t
hold_bytes(const struct rt_store *s, const struct rt_hold *h)
{
	int64_t n = 1, d;

	for (d = 0; d < h->tensor->ndims; d++) {
		n *= rt_pieces_of(s->plan, h->dims[d], s->rank, 0)->total;
	}
	return rt_elems_bytes((enum rt_elem)h->tensor->elem, n);
}

/* What a hold takes of the copy, in which elements stay aligned. */
static int64_t
copy_bytes(const struct rt_store *s, const struct rt_hold *h)
{
	return (hold_bytes(s, h) + 63) / 64 * 64;
}

int64_t
rt_behind_bytes(const struct rt_plan *p, int64_t rank)
{
	struct rt_store s = { .plan = p, .rank = rank,
			      .program = &p->programs[p->program_of[rank]] };
	int64_t bytes = 0, i;

	for (i = 0; i < s.program->nholds; i++) {
		const struct rt_hold *h = &s.program->holds[i];

		bytes += rt_store_writes(&s, h) ? copy_bytes(&s, h) : 0;
	}
	return bytes;
}

/* Finds what this rank writes, and where the copy has it. */
static enum rt_status
lay_out(struct rt_behind *b, struct rt_error *err)
{
	const struct rt_program *g = b->from.program;
	int64_t i, n = 0;

	b->holds = rt_resize(&b->alloc, NULL, (size_t)g->nholds,
			     sizeof *b->holds);
	b->origin = rt_resize(&b->alloc, NULL, (size_t)g->nholds,
			      sizeof *b->origin);
	if (!b->holds || !b->origin) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < g->nholds; i++) {
		const struct rt_hold *h = &g->holds[i];

		if (!rt_store_writes(&b->from, h)) {
			continue;
		}
		b->holds[n] = *h;
		b->holds[n].offset = b->bytes;
		b->origin[n++] = h;
		b->bytes += copy_bytes(&b->from, h);
	}
	b->program = *g;
	b->program.nholds = n;
	b->program.holds = b->holds;
	b->copy.arena = rt_resize(&b->alloc, NULL, (size_t)b->bytes, 1);
	return b->copy.arena ? RT_OK : rt_no_memory(err, NULL);
}

static enum rt_status
copy_holds(struct rt_behind *b, struct rt_error *err)
{
	struct rt_device *d = b->from.device;
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < b->program.nholds && status == RT_OK; i++) {
		int64_t bytes = hold_bytes(&b->from, b->origin[i]);
		char *to = b->copy.arena + b->holds[i].offset;

		if (b->from.arena) {
			memcpy(to, b->from.arena + b->origin[i]->offset,
			       (size_t)bytes);
		} else {
			status = d->kind->read(d, b->origin[i]->offset, to,
					       bytes, err);
		}
	}
	return status;
}

/* ---- jobs ----------------------------------------------------------- */

static void *
do_job(void *user)
{
	struct rt_behind *b = user;
	struct rt_error err = { 0 };
	enum rt_status status = b->phase == CREATE
		? rt_saving_create(&b->v, &err) : b->phase == WRITE
		? rt_saving_write(&b->v, &err)
		: rt_saving_complete(&b->v, &err);

	pthread_mutex_lock(&b->lock);
	b->status = status;
	b->err = err;
	b->done = true;
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

/* Starts the job of a phase; signals stay with the other threads. */
static void
start_job(struct rt_behind *b, enum phase phase)
{
	bool has_job = phase == WRITE || b->from.rank == 0;
	sigset_t all, before;
	int number = 0;

	b->phase = phase;
	b->done = !has_job;
	b->status = RT_OK;
	if (!has_job) {
		return;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	number = pthread_create(&b->thread, NULL, do_job, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	b->running = number == 0;
	if (number != 0) {
		b->status = rt_files_fail(&b->err, b->folder, "start a thread "
					  "to save into the folder", number);
		b->done = true;
	}
}

static void
join_job(struct rt_behind *b)
{
	if (b->running) {
		pthread_join(b->thread, NULL);
		b->running = false;
	}
}

static bool
is_done(struct rt_behind *b)
{
	bool done;

	pthread_mutex_lock(&b->lock);
	done = b->done;
	pthread_mutex_unlock(&b->lock);
	return done;
}

static void
end_save(struct rt_behind *b, enum rt_status status)
{
	rt_saving_end(&b->v, status);
	b->phase = IDLE;
}

/* When the jobs of all ranks are done: the next phase, or the end. */
static enum rt_status
next_phase(struct rt_behind *b, int64_t *step, struct rt_error *err)
{
	enum rt_status status;

	join_job(b);
	if (b->status != RT_OK) {
		*err = b->err;
	}
	status = rt_store_agree_status(&b->from, b->status, err);
	if (status == RT_OK && b->phase == WRITE) {
		status = rt_saving_add_sums(&b->v, err);
	}
	if (status != RT_OK) {
		end_save(b, status);
	} else if (b->phase == COMPLETE) {
		*step = b->at.step;
		end_save(b, RT_OK);
	} else {
		start_job(b, b->phase + 1);
	}
	return status;
}

/* ---- all of it ------------------------------------------------------ */

enum rt_status
rt_behind_poll(struct rt_behind *b, bool wait, int64_t *step,
	       struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t left;

	*step = -1;
	while (status == RT_OK && b->phase != IDLE) {
		if (wait) {
			join_job(b);
		}
		left = !is_done(b);
		status = rt_comm_max_i64(b->from.comm, &left, 1, err);
		if (status == RT_OK && left == 0) {
			status = next_phase(b, step, err);
		}
		if (!wait) {
			break;
		}
	}
	return status;
}

enum rt_status
rt_behind_begin(struct rt_behind *b, const struct rt_progress *p,
		struct rt_error *err)
{
	enum rt_status status;

	b->at = *p;
	rt_saving_init(&b->v, &b->copy, &b->at, b->folder, b->keep);
	status = rt_saving_begin(&b->v, err);
	if (status == RT_OK) {
		status = copy_holds(b, err);
	}
	status = rt_store_agree_status(&b->from, status, err);
	if (status != RT_OK) {
		end_save(b, status);
		return status;
	}
	start_job(b, CREATE);
	return RT_OK;
}

enum rt_status
rt_behind_open(struct rt_behind **out, const struct rt_store *s,
	       const char *folder, int64_t keep, struct rt_error *err)
{
	struct rt_alloc alloc = rt_alloc_or_libc(NULL);
	struct rt_behind *b = rt_resize(&alloc, NULL, 1, sizeof *b);
	enum rt_status status;

	*out = NULL;
	if (!b) {
		return rt_store_agree_status(s, rt_no_memory(err, NULL), err);
	}
	memset(b, 0, sizeof *b);
	b->alloc = alloc;
	b->from = b->copy = *s;
	b->copy.program = &b->program;
	b->copy.device = NULL;
	b->copy.arena = NULL;
	b->folder = folder;
	b->keep = keep;
	pthread_mutex_init(&b->lock, NULL);
	status = rt_store_agree_status(s, lay_out(b, err), err);
	if (status != RT_OK) {
		rt_behind_close(b);
		return status;
	}
	*out = b;
	return RT_OK;
}

bool
rt_behind_is_busy(const struct rt_behind *b)
{
	return b && b->phase != IDLE;
}

void
rt_behind_close(struct rt_behind *b)
{
	struct rt_alloc alloc;

	if (!b) {
		return;
	}
	alloc = b->alloc;
	join_job(b);
	if (b->phase != IDLE) {
		end_save(b, RT_IO);
	}
	pthread_mutex_destroy(&b->lock);
	rt_release(&alloc, b->copy.arena);
	rt_release(&alloc, b->holds);
	rt_release(&alloc, (void *)b->origin);
	rt_release(&alloc, b);
}

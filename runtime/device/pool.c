/*
 * Threads that run a kernel's items.  Between launches they spin, and later
 * sleep.
 *
 * A launch must not wait for a thread that is still waking up: workers enter a
 * round only while it is open, and the caller, once no item is left, closes it
 * and waits for those inside.
 */
#define _GNU_SOURCE	/* pthread_setaffinity_np */

#include "runtime/delay.h"
#include "runtime/device/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 100 us of pauses: longer than the time between two launches. */
#define SPINS_AWAKE 2000
/* How often the caller spins until it yields its core. */
#define SPINS_AT_ONCE 512
/* Each worker's share is cut into so many pieces, so that all end together. */
#define PIECES 8
/* The state of a round: its number, whether it is open, how many are inside. */
#define OPEN ((uint64_t)1 << 31)
#define INSIDE (OPEN - 1)

struct pool_worker {
	struct rt_workers *pool;
	pthread_t thread;
	int64_t i;
};

struct rt_workers {
	_Alignas(64) _Atomic uint32_t round;	/* what sleepers wait for */
	_Alignas(64) _Atomic uint64_t state;
	_Alignas(64) _Atomic int64_t next;	/* the next item */
	_Alignas(64) _Atomic uint32_t sleepers;
	_Atomic bool stop;
	/* of this round */
	void (*work)(void *user, int64_t worker, int64_t from, int64_t to);
	void *user;
	int64_t items, piece;
	/* constant after the start */
	int64_t n, started;
	int spins;
	struct pool_worker *worker;
};

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() atomic_signal_fence(memory_order_seq_cst)
#endif

static void
take_items(struct rt_workers *p, int64_t worker)
{
	int64_t from, to;

	for (;;) {
		from = atomic_fetch_add_explicit(&p->next, p->piece,
						 memory_order_relaxed);
		if (from >= p->items) {
			return;
		}
		to = from + p->piece < p->items ? from + p->piece : p->items;
		p->work(p->user, worker, from, to);
	}
}

/* Waits until the round is no longer `seen`. */
static uint32_t
wait_for_round(struct rt_workers *p, uint32_t seen)
{
	uint32_t now;
	int i;

	for (i = 0; i < p->spins; i++) {
		now = atomic_load_explicit(&p->round, memory_order_acquire);
		if (now != seen) {
			return now;
		}
		PAUSE();
	}
	while ((now = atomic_load(&p->round)) == seen) {
		atomic_fetch_add(&p->sleepers, 1);
		syscall(SYS_futex, &p->round, FUTEX_WAIT_PRIVATE, seen, NULL,
			NULL, 0);
		atomic_fetch_sub(&p->sleepers, 1);
	}
	return now;
}

/* Counts itself in, if that round is still open. */
static bool
enter(struct rt_workers *p, uint32_t round)
{
	uint64_t s = atomic_load_explicit(&p->state, memory_order_relaxed);

	while (s >> 32 == round && s & OPEN) {
		if (atomic_compare_exchange_weak_explicit(&p->state, &s, s + 1,
				memory_order_acquire, memory_order_relaxed)) {
			return true;
		}
	}
	return false;
}

static void *
serve(void *user)
{
	struct pool_worker *w = user;
	struct rt_workers *p = w->pool;
	uint32_t seen = 0;

	for (;;) {
		seen = wait_for_round(p, seen);
		if (atomic_load(&p->stop)) {
			return NULL;
		}
		if (enter(p, seen)) {
			take_items(p, w->i);
			atomic_fetch_sub_explicit(&p->state, 1,
						  memory_order_release);
		}
	}
}

static void
next_round(struct rt_workers *p)
{
	uint32_t round = atomic_load(&p->round) + 1;

	atomic_store(&p->state, (uint64_t)round << 32 | OPEN);
	atomic_store(&p->round, round);
	if (atomic_load(&p->sleepers) > 0) {
		syscall(SYS_futex, &p->round, FUTEX_WAKE_PRIVATE, INT_MAX,
			NULL, NULL, 0);
	}
}

static void
close_round(struct rt_workers *p)
{
	uint64_t s = atomic_fetch_and(&p->state, ~OPEN);
	int spins = 0;

	while (s & INSIDE) {
		PAUSE();
		if (++spins % SPINS_AT_ONCE == 0) {
			sched_yield();
		}
		s = atomic_load_explicit(&p->state, memory_order_acquire);
	}
}

void
rt_workers_run(struct rt_workers *p,
	       void (*work)(void *user, int64_t worker, int64_t from,
			    int64_t to),
	       void *user, int64_t items)
{
	if (items <= 0) {
		return;
	}
	if (p->n == 1 || items == 1) {
		work(user, 0, 0, items);
		return;
	}
	p->work = work;
	p->user = user;
	p->items = items;
	p->piece = items / (p->n * PIECES);
	p->piece = p->piece < 1 ? 1 : p->piece;
	atomic_store_explicit(&p->next, 0, memory_order_relaxed);
	next_round(p);
	take_items(p, 0);
	close_round(p);
}

int64_t
rt_workers_count(const struct rt_workers *p)
{
	return p->n;
}

/* Failing to bind a thread to a core is no reason not to run. */
static void
stay_on(pthread_t thread, int core)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(core, &one);
	pthread_setaffinity_np(thread, sizeof one, &one);
}

static enum rt_status
start_all(struct rt_workers *p, const struct rt_workers_options *o,
	  struct rt_error *err)
{
	int64_t i;

	for (i = 1; i < o->n; i++) {
		p->worker[i] = (struct pool_worker){ .pool = p, .i = i };
		if (pthread_create(&p->worker[i].thread, NULL, serve,
				   &p->worker[i]) != 0) {
			return rt_fail(err, RT_IO, (struct rt_where){ NULL,
				NULL, -1 }, "cannot start thread %lld of %lld: "
				"take fewer with --threads", (long long)i + 1,
				(long long)o->n);
		}
		p->started++;
		if (o->cores) {
			stay_on(p->worker[i].thread, o->cores[i]);
		}
	}
	return RT_OK;
}

enum rt_status
rt_workers_start(struct rt_workers **out, const struct rt_workers_options *o,
		 struct rt_error *err)
{
	struct rt_workers *p = aligned_alloc(64, sizeof *p);
	sigset_t held, before;
	enum rt_status s;

	*out = NULL;
	if (!p) {
		return rt_no_memory(err, NULL);
	}
	*p = (struct rt_workers){ .n = o->n, .started = 1,
		.spins = o->crowded ? 0 : SPINS_AWAKE };
	p->worker = calloc((size_t)o->n, sizeof *p->worker);
	if (!p->worker) {
		free(p);
		return rt_no_memory(err, NULL);
	}
	rt_delay_all(&held);
	pthread_sigmask(SIG_BLOCK, &held, &before);
	s = start_all(p, o, err);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (s != RT_OK) {
		rt_workers_stop(p);
		return s;
	}
	if (o->cores) {
		stay_on(pthread_self(), o->cores[0]);
	}
	*out = p;
	return RT_OK;
}

void
rt_workers_stop(struct rt_workers *p)
{
	int64_t i;

	if (!p) {
		return;
	}
	atomic_store(&p->stop, true);
	next_round(p);
	for (i = 1; i < p->started; i++) {
		pthread_join(p->worker[i].thread, NULL);
	}
	free(p->worker);
	free(p);
}

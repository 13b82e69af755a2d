/* Threads, affinity, clocks and memory for the CPU meter. */
#define _GNU_SOURCE	/* sched_getaffinity, MADV_HUGEPAGE */

#include "runtime/measure/measure_cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- clocks ---- */

static double
clock_us(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

double
rt_wall_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

double
rt_cpu_us(void)
{
	return clock_us(CLOCK_PROCESS_CPUTIME_ID);
}

double
rt_thread_us(void)
{
	return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

/* Longer than any wait between threads that all run. */
#define SPINS_AT_ONCE 512

void
rt_spin(unsigned *spins)
{
	if (++*spins % SPINS_AT_ONCE == 0) {
		sched_yield();
		return;
	}
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* ---- cores ---- */

int
rt_cores_get(struct rt_cores *c)
{
	cpu_set_t set;
	int n;

	_Static_assert(sizeof set == sizeof c->bytes, "1024 cores");
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof set, &set) != 0) {
		CPU_SET(0, &set);
	}
	memcpy(c->bytes, &set, sizeof set);
	n = CPU_COUNT(&set);
	return n < 1 ? 1 : n;
}

void
rt_cores_set(const struct rt_cores *c)
{
	cpu_set_t set;

	memcpy(&set, c->bytes, sizeof set);
	sched_setaffinity(0, sizeof set, &set);
}

void
rt_cores_pin(const struct rt_cores *c, int i)
{
	cpu_set_t set, one;
	int core;

	memcpy(&set, c->bytes, sizeof set);
	CPU_ZERO(&one);
	for (core = 0; core < CPU_SETSIZE; core++) {
		if (CPU_ISSET(core, &set) && i-- == 0) {
			CPU_SET(core, &one);
			sched_setaffinity(0, sizeof one, &one);
			return;
		}
	}
}

/* ---- pages ---- */

static void *
map(size_t bytes, int flags)
{
	void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
		       MAP_ANONYMOUS | flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Huge ones, as a rank asks for its arena (comm/shm.c). */
void *
rt_pages(size_t bytes)
{
	void *p = map(bytes, MAP_PRIVATE);

	if (p) {
		madvise(p, bytes, MADV_HUGEPAGE);
	}
	return p;
}

void *
rt_shared_pages(size_t bytes)
{
	return map(bytes, MAP_SHARED);
}

void
rt_pages_free(void *p, size_t bytes)
{
	if (p) {
		munmap(p, bytes ? bytes : 1);
	}
}

/* ---- the pool ---- */

struct spinner {
	struct rt_pool *pool;
	pthread_t thread;
	int i;
	double busy_us; /* CPU time in the last timed region */
};

struct rt_pool {
	int threads, started;
	struct rt_cores cores; /* affinity of the caller before */
	struct spinner *workers; /* 1 .. threads - 1 */
	void (*work)(void *user, int i, int n);
	void *user;
	atomic_uint round; /* counts regions */
	atomic_int busy; /* workers that are still in the region */
	atomic_bool stop;
};

static void *
serve(void *user)
{
	struct spinner *w = user;
	struct rt_pool *p = w->pool;
	unsigned seen = 0, spins = 0;

	rt_cores_pin(&p->cores, w->i);
	for (;;) {
		while (atomic_load_explicit(&p->round, memory_order_acquire) ==
		       seen) {
			rt_spin(&spins);
		}
		seen++;
		if (atomic_load(&p->stop)) {
			return NULL;
		}
		p->work(p->user, w->i, p->threads);
		atomic_fetch_sub_explicit(&p->busy, 1, memory_order_release);
	}
}

enum rt_status
rt_pool_start(struct rt_pool **out, int threads, struct rt_error *err)
{
	struct rt_pool *p = calloc(1, sizeof *p);
	int i;

	*out = NULL;
	if (!p || !(p->workers = calloc((size_t)threads, sizeof *p->workers))) {
		free(p);
		return rt_no_memory(err, NULL);
	}
	p->threads = threads;
	p->started = 1;
	rt_cores_get(&p->cores);
	for (i = 1; i < threads; i++) {
		p->workers[i] = (struct spinner){ .pool = p, .i = i };
		if (pthread_create(&p->workers[i].thread, NULL, serve,
				   &p->workers[i]) != 0) {
			rt_pool_stop(p);
			return rt_fail(err, RT_IO, (struct rt_where){ NULL,
				NULL, -1 }, "cannot start thread %d of %d",
				i + 1, threads);
		}
		p->started++;
	}
	rt_cores_pin(&p->cores, 0);
	*out = p;
	return RT_OK;
}

void
rt_pool_run(struct rt_pool *p, void (*work)(void *user, int i, int n),
	    void *user)
{
	unsigned spins = 0;

	p->work = work;
	p->user = user;
	atomic_store(&p->busy, p->threads - 1);
	atomic_fetch_add_explicit(&p->round, 1, memory_order_release);
	work(user, 0, p->threads);
	while (atomic_load_explicit(&p->busy, memory_order_acquire) > 0) {
		rt_spin(&spins);
	}
}

/* ---- timed ---- */

struct timed_region {
	struct rt_pool *pool;
	void (*work)(void *user, int i, int n);
	void *user;
};

static void
timed_work(void *user, int i, int n)
{
	struct timed_region *t = user;
	double us = rt_thread_us();

	t->work(t->user, i, n);
	t->pool->workers[i].busy_us = rt_thread_us() - us;
}

void
rt_pool_time(struct rt_pool *p, void (*work)(void *user, int i, int n),
	     void *user, struct rt_timing *out)
{
	struct timed_region t = { p, work, user };
	double wall_us = rt_wall_us(), cpu_us = rt_cpu_us();
	int i;

	rt_pool_run(p, timed_work, &t);
	out->wall_us = rt_wall_us() - wall_us;
	out->cpu_us = rt_cpu_us() - cpu_us;
	out->busy_us = 0;
	for (i = 0; i < p->threads; i++) {
		if (p->workers[i].busy_us > out->busy_us) {
			out->busy_us = p->workers[i].busy_us;
		}
	}
}

int
rt_pool_threads(const struct rt_pool *p)
{
	return p->threads;
}

void
rt_pool_stop(struct rt_pool *p)
{
	int i;

	if (!p) {
		return;
	}
	atomic_store(&p->stop, true);
	atomic_fetch_add_explicit(&p->round, 1, memory_order_release);
	for (i = 1; i < p->started; i++) {
		pthread_join(p->workers[i].thread, NULL);
	}
	rt_cores_set(&p->cores);
	free(p->workers);
	free(p);
}

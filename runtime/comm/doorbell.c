/*
 * How a rank waits for another one of its host: it spins for some microseconds,
 * then yields its core, then sleeps in the kernel (futex) until it is woken.
 */
#define _GNU_SOURCE	/* syscall, sched_getaffinity */

#include "runtime/comm/shm.h"

#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A rank that sleeps wakes up so often to see whether another one has died. */
#define NAP_NS 20000000

double
rt_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

void
rt_cores_of(struct rt_core_set *c)
{
	cpu_set_t set;

	_Static_assert(sizeof(set) == sizeof(c->bytes), "1024 cores");
	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	memcpy(c->bytes, &set, sizeof(set));
}

/* With more ranks than cores, spinning keeps the awaited rank off its core. */
struct rt_patience
rt_patience_of(const struct rt_core_set *const *sets, int64_t n)
{
	static const struct rt_patience roomy = { 4000, 50 };
	static const struct rt_patience crowded = { 100, 20 };
	int64_t cores = 0, i;
	size_t b;

	for (b = 0; b < sizeof(sets[0]->bytes); b++) {
		unsigned any = 0;

		for (i = 0; i < n; i++) {
			any |= sets[i]->bytes[b];
		}
		for (; any; any &= any - 1) {
			cores++;
		}
	}
	return n > cores ? crowded : roomy;
}

bool
rt_doorbell_reached(struct rt_doorbell *b, unsigned want)
{
	return (int)(atomic_load_explicit(&b->count, memory_order_acquire) -
		     want) >= 0;
}

void
rt_doorbell_ring(struct rt_doorbell *b)
{
	atomic_fetch_add(&b->count, 1);
	if (atomic_load(&b->sleepers) > 0) {
		syscall(SYS_futex, &b->count, FUTEX_WAKE, 0x7fffffff, NULL,
			NULL, 0);
	}
}

static void
nap(struct rt_doorbell *b, unsigned want)
{
	const struct timespec t = { 0, NAP_NS };
	unsigned seen;

	atomic_fetch_add(&b->sleepers, 1);
	seen = atomic_load(&b->count);
	if ((int)(seen - want) < 0) {
		syscall(SYS_futex, &b->count, FUTEX_WAIT, seen, &t, NULL, 0);
	}
	atomic_fetch_sub(&b->sleepers, 1);
}

bool
rt_doorbell_await(struct rt_doorbell *b, unsigned want, struct rt_patience p)
{
	unsigned i;

	for (i = 0; i < p.spins; i++) {
		if (rt_doorbell_reached(b, want)) {
			return true;
		}
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	for (i = 0; i < p.yields; i++) {
		if (rt_doorbell_reached(b, want)) {
			return true;
		}
		sched_yield();
	}
	nap(b, want);
	return rt_doorbell_reached(b, want);
}

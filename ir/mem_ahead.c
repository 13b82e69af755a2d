/*
 * Fresh pages, ahead of who asks for them: the first touch of each costs the
 * system more than most passes do with it (a sixth of a search), and another
 * core can wait for that.  Nothing is written: pages are only given, so it
 * does not matter how far this comes, nor whether it runs at all.
 *
 * A thread for each stretch, the next one when half of it is in use; so there
 * is nothing to wait for, and nobody to wake.
 */
#include "ir/base.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAST_BYTES ((size_t)1 << 20)	/* a stretch; then as much as is used */
#define MOST_BYTES ((size_t)4 << 20)
/* Somebody else may want to map something in between. */
#define CALL_BYTES ((size_t)256 << 10)

struct mem_ahead {
	char *from, *next, *to;	/* next: the stretch that comes */
	char *at, *end;		/* the one that is under way */
	pthread_t thread;
	pid_t of;		/* a child has no thread of its parent's */
	bool started;
	atomic_bool done, enough;
};

#ifdef MADV_POPULATE_WRITE

static void *
populate(void *user)
{
	struct mem_ahead *a = user;
	char *at;

	for (at = a->at; at < a->end && !atomic_load(&a->enough);
	     at += CALL_BYTES) {
		size_t left = (size_t)(a->end - at);

		if (madvise(at, left < CALL_BYTES ? left : CALL_BYTES,
			    MADV_POPULATE_WRITE) != 0) {
			break;
		}
	}
	atomic_store(&a->done, true);
	return NULL;
}

static void
join(struct mem_ahead *a)
{
	if (a->started && a->of == getpid()) {
		pthread_join(a->thread, NULL);
	}
	a->started = false;
}

/* Signals are for who runs the compiler. */
static bool
start(struct mem_ahead *a)
{
	sigset_t all, before;
	int bad;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	bad = pthread_create(&a->thread, NULL, populate, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	a->of = getpid();
	return a->started = bad == 0;
}

struct mem_ahead *
mem_ahead_open(char *from, char *to)
{
	struct mem_ahead *a;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		return NULL;
	}
	a = calloc(1, sizeof *a);
	if (a) {
		a->from = a->next = from;
		a->to = to;
	}
	return a;
}

void
mem_ahead_look(struct mem_ahead *a, const char *top)
{
	size_t used, bytes, left;

	if (!a || a->next == a->to || (a->started && !atomic_load(&a->done))) {
		return;
	}
	used = (size_t)(top - a->from);
	bytes = used < LEAST_BYTES ? LEAST_BYTES
		: used < MOST_BYTES ? used : MOST_BYTES;
	if (top + bytes / 2 < a->next) {
		return;
	}
	join(a);
	a->at = top > a->next ? a->from + used : a->next;
	left = (size_t)(a->to - a->at);
	a->end = a->next = a->at + (bytes < left ? bytes : left);
	atomic_store(&a->done, false);
	if (!start(a)) {
		a->next = a->to;	/* and no more of it */
	}
}

void
mem_ahead_close(struct mem_ahead *a)
{
	if (a) {
		atomic_store(&a->enough, true);
		join(a);
		free(a);
	}
}

#else

struct mem_ahead *
mem_ahead_open(char *from, char *to)
{
	(void)from;
	(void)to;
	return NULL;
}

void
mem_ahead_look(struct mem_ahead *a, const char *top)
{
	(void)a;
	(void)top;
}

void
mem_ahead_close(struct mem_ahead *a)
{
	(void)a;
}

#endif

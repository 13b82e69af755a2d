/*
 * Threads of a GPU, in turn on one thread of the system.  A fibre runs one
 * thread after another; once a thread waits, the fibre is that thread's until
 * it ends, and another fibre starts the next thread. So threads that never wait
 * cost no switch.
 */
#include "runtime/emulate/emulate_inner.h"
#include "runtime/emulate/emulate_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	STACK_BYTES = 256 << 10,
	GUARD_BYTES = 4096,
	SAID_BYTES = 256
};

/* A global, as the functions that kernels call have no argument for it. */
_Thread_local struct rt_emu *emu_now;

/* ---- stacks ---- */

/* Of the address sanitizer; NULL without it. */
extern void __asan_unpoison_memory_region(const volatile void *at, size_t n)
	__attribute__((weak));

/* Else who uses these pages next inherits the marks of what used them. */
static void
forget_stacks(const struct rt_emu *e)
{
	size_t n = (size_t)(e->stack_bytes * e->stack_capacity);

	if (__asan_unpoison_memory_region) {
		__asan_unpoison_memory_region(e->stacks, n);
	}
}

void
emu_stacks_free(struct rt_emu *e)
{
	if (e->stacks) {
		forget_stacks(e);
		munmap(e->stacks, (size_t)(e->stack_bytes * e->stack_capacity));
	}
	free(e->fibers);
	e->stacks = e->stacks_end = NULL;
	e->fibers = NULL;
	e->stack_capacity = 0;
}

/* Below each stack is a page without access. */
static enum rt_status
make_stacks(struct rt_emu *e, int64_t n, struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };
	int64_t i;

	emu_stacks_free(e);
	e->stack_bytes = STACK_BYTES;
	e->fibers = calloc((size_t)n, sizeof *e->fibers);
	e->stacks = mmap(NULL, (size_t)(n * e->stack_bytes),
			 PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!e->fibers || e->stacks == MAP_FAILED) {
		e->stacks = NULL;
		return rt_no_memory(err, NULL);
	}
	e->stacks_end = e->stacks + n * e->stack_bytes;
	e->stack_capacity = n;
	forget_stacks(e);
	for (i = 0; i < n; i++) {
		e->fibers[i].stack = e->stacks + i * e->stack_bytes;
		if (mprotect(e->fibers[i].stack, GUARD_BYTES, PROT_NONE)) {
			return rt_fail(err, RT_NOMEM, where, "%lld stacks "
				       "are more than the system gives",
				       (long long)n);
		}
	}
	return RT_OK;
}

enum rt_status
emu_stacks(struct rt_emu *e, int64_t n, struct rt_error *err)
{
	enum rt_status s = n <= e->stack_capacity ? RT_OK
		: make_stacks(e, n, err);
	unsigned capacity = 1;
	struct emu_task **ready;

	while (capacity < (unsigned)n) {
		capacity *= 2;
	}
	if (s != RT_OK || (e->ready && capacity <= e->mask + 1)) {
		return s;
	}
	ready = realloc(e->ready, capacity * sizeof *ready);
	if (!ready) {
		return rt_no_memory(err, NULL);
	}
	e->ready = ready;
	e->mask = capacity - 1;
	return RT_OK;
}

/* ---- scheduling ---- */

uint64_t
emu_random(struct rt_emu *e)
{
	uint64_t z = e->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void
emu_wake(struct rt_emu *e, struct emu_task *t)
{
	unsigned at = e->tail++, other;

	if (e->seed) {
		other = e->head + (unsigned)(emu_random(e) %
					     (e->tail - e->head));
		e->ready[at & e->mask] = e->ready[other & e->mask];
		at = other;
	}
	e->ready[at & e->mask] = t;
}

void
emu_wake_all(struct rt_emu *e, struct emu_task *const *t, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		emu_wake(e, t[i]);
	}
}

static void
set_current(struct rt_emu *e, struct emu_task *t)
{
	e->now = t;
	*e->self = &t->seen;
}

static struct emu_task *
next_fresh(struct rt_emu *e)
{
	struct emu_block *b;

	while (e->fresh_block < e->nblocks) {
		b = &e->blocks[e->fresh_block];
		if (e->fresh_task < b->ntasks) {
			return &b->tasks[e->fresh_task++];
		}
		e->fresh_block++;
		e->fresh_task = 0;
	}
	return NULL;
}

static bool
any_fresh(const struct rt_emu *e)
{
	return e->fresh_block < e->nblocks - 1 ||
		(e->fresh_block < e->nblocks && e->fresh_task <
		 e->blocks[e->fresh_block].ntasks);
}

static void fiber_main(void);

static void *
fresh_fiber(struct rt_emu *e)
{
	struct emu_fiber *f = e->free_fibers;
	/* tops of stacks are a few lines apart, else all would use one set of a
	 * cache */
	size_t skew = (size_t)(f - e->fibers) % 61 * 64;

	e->free_fibers = f->next;
	return emu_switch_fresh(f->stack, STACK_BYTES - skew, f->sp,
				fiber_main);
}

static size_t
print_wait(char *to, size_t capacity, const struct emu_task *t)
{
	size_t n = (size_t)snprintf(to, capacity,
				    "%sthread %d of block %d for ",
				    capacity < SAID_BYTES ? ", " : "",
				    t->seen.tid, t->seen.block[0]);

	n = n < capacity ? n : capacity - 1;
	n += (size_t)snprintf(to + n, capacity - n, t->waits, t->which,
			      t->other);
	return n < capacity ? n : capacity - 1;
}

/* Lists the threads that wait, each with its reason, up to a few. */
static _Noreturn void
deadlock(struct rt_emu *e)
{
	const struct emu_task *t, *last = NULL;
	char text[SAID_BYTES] = "";
	size_t n = 0;
	int i, j, said = 0;

	for (i = 0; i < e->nblocks; i++) {
		for (j = 0; j < e->blocks[i].ntasks && said < 3; j++) {
			t = &e->blocks[i].tasks[j];
			if (t->waits && !(last && last->block == t->block &&
					  last->waits == t->waits &&
					  last->which == t->which)) {
				n += print_wait(text + n, sizeof text - n, t);
				last = t;
				said++;
			}
		}
	}
	emu_fail(e, "all threads wait: %s", text);
}

/* Switches to another thread; returns when the saved one is woken. */
static void
switch_away(struct rt_emu *e, void **save)
{
	struct emu_task *t;

	while (e->head == e->tail) {
		if (any_fresh(e)) {
			emu_switch(save, fresh_fiber(e));
			return;
		}
		if (!e->deliver(e)) {
			deadlock(e);
		}
	}
	t = e->ready[e->head++ & e->mask];
	if (save == &t->sp) {
		set_current(e, t);
		return;
	}
	set_current(e, t);
	emu_switch(save, t->sp);
}

void
emu_wait(struct rt_emu *e, const char *what, unsigned which, unsigned other)
{
	struct emu_task *t = e->now;

	t->waits = what;
	t->which = which;
	t->other = other;
	switch_away(e, &t->sp);
	t->waits = NULL;
}

/* ---- fibres ---- */

static struct emu_fiber *
own_fiber(struct rt_emu *e)
{
	char here;
	size_t at = (size_t)(&here - e->stacks);

	return &e->fibers[at / (size_t)e->stack_bytes];
}

static void
run_task(struct rt_emu *e, struct emu_task *t)
{
	set_current(e, t);
	e->entry->run(e->args);
	e->end(e, e->now);
	e->now->block->left--;
	e->left--;
}

/* Starts new threads while no thread that has waited can continue. */
static void
fiber_main(void)
{
	struct rt_emu *e = emu_now;
	struct emu_fiber *self = own_fiber(e);

	for (;;) {
		if (e->left == 0) {
			emu_switch(&self->sp, e->main_sp);
		}
		if (e->head == e->tail && any_fresh(e)) {
			run_task(e, next_fresh(e));
			continue;
		}
		if (e->head == e->tail && !e->deliver(e)) {
			deadlock(e);
		}
		if (e->head != e->tail) {
			self->next = e->free_fibers;
			e->free_fibers = self;
			switch_away(e, &self->sp);
		}
	}
}

bool
emu_run(struct rt_emu *e)
{
	int64_t i;

	e->head = e->tail = 0;
	e->fresh_block = e->fresh_task = 0;
	e->failed = false;
	e->free_fibers = NULL;
	for (i = e->stack_capacity; i-- > 0;) {
		e->fibers[i].next = e->free_fibers;
		e->free_fibers = &e->fibers[i];
	}
	emu_switch(&e->main_sp, fresh_fiber(e));
	if (e->failed) {	/* threads have not returned from their calls */
		forget_stacks(e);
	}
	return !e->failed;
}

/* ---- mistakes ---- */

void
emu_fail(struct rt_emu *e, const char *fmt, ...)
{
	struct rt_where where = { NULL, NULL, -1 };
	const struct emu_thread *t = &e->now->seen;
	char text[320];
	void *nowhere;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	rt_fail(e->err, RT_RANGE, where, "%s: block %d,%d,%d: thread %d: %s",
		e->kernel, t->block[0], t->block[1], t->block[2], t->tid,
		text);
	e->failed = true;
	emu_switch(&nowhere, e->main_sp);
	abort();
}

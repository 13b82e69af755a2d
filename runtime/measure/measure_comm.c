/*
 * Collectives between processes of one machine, over memory that they share.
 * They are ring algorithms, as in the cost model: in each step a rank reads one
 * part from its predecessor, once that has completed the step before.
 *
 * The caller is rank 0; the others are forked and end with it: a rank that
 * waits checks from time to time that the others are alive.
 */
#define _GNU_SOURCE	/* MAP_ANONYMOUS */

#include "runtime/measure/measure_cpu.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One rank's part of the shared memory: cache lines that only it writes. */
struct ring_slot {
	_Alignas(64) atomic_uint step; /* completed in this round */
	_Alignas(64) double rounds_us; /* of one repetition */
	/* of one repetition, with what is between rounds */
	double cpu_us, wall_us;
};

struct segment {
	_Alignas(64) atomic_uint arrived, open; /* a barrier */
	_Alignas(64) atomic_int runs; /* of the next repetition; 0: exit */
	atomic_bool lost; /* a rank died */
	pid_t master;
	struct ring_slot slots[];
};

/* The state of one rank. */
struct ring {
	struct segment *segment;
	struct rt_coll_shape x;
	int rank;
	int64_t n; /* elements of a rank's larger side */
	float *in, *out; /* of rank 0; those of other ranks follow */
	pid_t *children; /* on rank 0: of ranks 1 .. ranks - 1 */
	struct rt_cores cores;
};

/* ---- waiting ---- */

/* So many polls take about a millisecond. */
#define LOOKS 20000

static bool
someone_left(const struct ring *t)
{
	int i;

	if (t->rank > 0) {
		return getppid() != t->segment->master;
	}
	for (i = 1; i < t->x.ranks; i++) {
		if (waitpid(t->children[i], NULL, WNOHANG) != 0) {
			t->children[i] = 0;
			return true;
		}
	}
	return false;
}

/* Waits until *at is `want` or, with `past`, more; false: a rank died. */
static bool
wait_for(const struct ring *t, atomic_uint *at, unsigned want)
{
	unsigned spins = 0;

	while ((int)(atomic_load_explicit(at, memory_order_acquire) - want) <
	       0) {
		rt_spin(&spins);
		if (spins % LOOKS == 0 && (atomic_load(&t->segment->lost) ||
					   someone_left(t))) {
			atomic_store(&t->segment->lost, true);
			return false;
		}
	}
	return true;
}

static bool
barrier(const struct ring *t)
{
	struct segment *h = t->segment;
	unsigned round = atomic_load(&h->open);

	if (atomic_fetch_add(&h->arrived, 1) + 1 == (unsigned)t->x.ranks) {
		atomic_store(&h->arrived, 0);
		atomic_fetch_add(&h->open, 1);
		return true;
	}
	return wait_for(t, &h->open, round + 1);
}

/* ---- one round ---- */

static float *
of_rank(const struct ring *t, float *base, int rank)
{
	return base + (int64_t)rank * t->n;
}

static int
ring_rank(const struct ring *t, int place)
{
	return (place % t->x.ranks + t->x.ranks) % t->x.ranks;
}

/*
 * Part number `part` of the elements of a rank, in whole cache lines but for
 * the last.
 */
static void
part_of(const struct ring *t, int part, int64_t *from, int64_t *n)
{
	int64_t lines = (t->n + 15) / 16;
	int64_t end = lines * (part + 1) / t->x.ranks * 16;

	*from = lines * part / t->x.ranks * 16;
	*n = (end < t->n ? end : t->n) - *from;
}

static void
add(float *restrict to, const float *restrict a, const float *restrict b,
    int64_t n)
{
	int64_t i;

	for (i = 0; i + 16 <= n; i += 16) {
		int j;

		for (j = 0; j < 16; j++) {
			to[i + j] = a[i + j] + b[i + j];
		}
	}
	for (; i < n; i++) {
		to[i] = a[i] + b[i];
	}
}

/* Waits for the predecessor to complete the step before; false: a rank died. */
static bool
begin_step(const struct ring *t, unsigned step)
{
	int front = ring_rank(t, t->rank - 1);

	return wait_for(t, &t->segment->slots[front].step, step);
}

static void
end_step(const struct ring *t, unsigned step)
{
	atomic_store_explicit(&t->segment->slots[t->rank].step, step + 1,
			      memory_order_release);
}

/*
 * Reduce-scatter: parts are summed along the ring; rank r ends with the sum of
 * part r + 1.
 */
static bool
scatter(const struct ring *t, unsigned *step)
{
	int front = ring_rank(t, t->rank - 1), s;
	int64_t from, n;

	for (s = 0; s < t->x.ranks - 1; s++, (*step)++) {
		float *theirs = of_rank(t, s ? t->out : t->in, front);

		part_of(t, ring_rank(t, t->rank - 1 - s), &from, &n);
		if (!begin_step(t, *step)) {
			return false;
		}
		add(of_rank(t, t->out, t->rank) + from,
		    of_rank(t, t->in, t->rank) + from, theirs + from, n);
		end_step(t, *step);
	}
	return true;
}

/* All-gather along the ring; `first`: the part that a rank starts with. */
static bool
gather(const struct ring *t, int first, unsigned *step)
{
	int front = ring_rank(t, t->rank - 1), s;
	int64_t from, n;

	for (s = 0; s < t->x.ranks - 1; s++, (*step)++) {
		part_of(t, ring_rank(t, first - 1 - s), &from, &n);
		if (!begin_step(t, *step)) {
			return false;
		}
		memcpy(of_rank(t, t->out, t->rank) + from,
		       of_rank(t, t->out, front) + from,
		       (size_t)n * sizeof(float));
		end_step(t, *step);
	}
	return true;
}

/* The rank's own part of an all-gather is copied before the first step. */
static bool
gather_own(const struct ring *t)
{
	unsigned step = 1;
	int64_t from, n;

	part_of(t, t->rank, &from, &n);
	memcpy(of_rank(t, t->out, t->rank) + from,
	       of_rank(t, t->in, t->rank) + from, (size_t)n * sizeof(float));
	end_step(t, 0);
	return gather(t, t->rank, &step);
}

static bool
send(const struct ring *t)
{
	if (t->rank == 0) {
		end_step(t, 0);
		return wait_for(t, &t->segment->slots[1].step, 1);
	}
	if (t->rank == 1) {
		if (!begin_step(t, 1)) {
			return false;
		}
		memcpy(of_rank(t, t->out, 1), of_rank(t, t->in, 0),
		       (size_t)t->n * sizeof(float));
		end_step(t, 0);
	}
	return true;
}

static bool
exchange(const struct ring *t)
{
	unsigned step = 0;

	switch (t->x.op) {
	case RT_ALL_REDUCE:
		return scatter(t, &step) &&
		       gather(t, ring_rank(t, t->rank + 1), &step);
	case RT_REDUCE_SCATTER:
		return scatter(t, &step);
	case RT_ALL_GATHER:
		return gather_own(t);
	default:
		return send(t);
	}
}

/*
 * Writes one element of each cache line, unchanged: what a rank sends was just
 * computed, and so is in its own caches and not in those of its peers.
 */
static void
renew(const struct ring *t)
{
	volatile float *in = of_rank(t, t->in, t->rank);
	int64_t i;

	for (i = 0; i < t->n; i += 16) {
		in[i] = in[i];
	}
}

/* The time from when all ranks are ready until all are done. */
static bool
time_rounds(const struct ring *t, int runs)
{
	struct ring_slot *own = &t->segment->slots[t->rank];
	double cpu_us = rt_cpu_us(), wall_us = rt_wall_us(), us;

	own->rounds_us = 0;
	for (; runs > 0; runs--) {
		renew(t);
		atomic_store(&own->step, 0);
		if (!barrier(t)) {
			return false;
		}
		us = rt_wall_us();
		if (!exchange(t) || !barrier(t)) {
			return false;
		}
		own->rounds_us += rt_wall_us() - us;
	}
	own->cpu_us = rt_cpu_us() - cpu_us;
	own->wall_us = rt_wall_us() - wall_us;
	return barrier(t);
}

/* ---- the ranks ---- */

/* Input element i of a rank: integers, whose sums are exact. */
static float
given(int rank, int64_t i)
{
	return (float)(i % 1021 + rank);
}

static void
fill_inputs(const struct ring *t)
{
	float *in = of_rank(t, t->in, t->rank);
	int64_t i;

	for (i = 0; i < t->n; i++) {
		in[i] = given(t->rank, i);
	}
	/* allocates the pages before anything is timed */
	memset(of_rank(t, t->out, t->rank), 0, (size_t)t->n * sizeof(float));
}

/* The expected result at element i; of copies, what rank `owner` sent. */
static float
want(const struct ring *t, int owner, int64_t i)
{
	int n = t->x.ranks;

	if (t->x.op == RT_ALL_GATHER || t->x.op == RT_SEND) {
		return given(owner, i);
	}
	return (float)(n * (i % 1021)) + (float)(n * (n - 1) / 2);
}

static bool
results_agree(const struct ring *t)
{
	int to, part;
	int64_t from, n, i;

	for (to = t->x.op == RT_SEND ? 1 : 0; to < t->x.ranks; to++) {
		for (part = 0; part < t->x.ranks; part++) {
			int owner = t->x.op == RT_SEND ? 0 : part;

			if (t->x.op == RT_REDUCE_SCATTER &&
			    part != ring_rank(t, to + 1)) {
				continue;
			}
			part_of(t, part, &from, &n);
			for (i = from; i < from + n; i++) {
				if (of_rank(t, t->out, to)[i] !=
				    want(t, owner, i)) {
					return false;
				}
			}
		}
		if (t->x.op == RT_SEND) {
			break;
		}
	}
	return true;
}

/* The main loop of a child; it does not return. */
static void
follow(struct ring *t)
{
	int runs;

	rt_cores_pin(&t->cores, t->rank);
	fill_inputs(t);
	while (barrier(t) && (runs = atomic_load(&t->segment->runs)) > 0) {
		if (!time_rounds(t, runs)) {
			break;
		}
	}
	_exit(0);
}

static enum rt_status
gone(struct rt_error *err)
{
	return rt_fail(err, RT_IO, (struct rt_where){ NULL, NULL, -1 },
		       "a process that took part in a collective is gone");
}

static enum rt_status
run_rounds(void *user, int runs, struct rt_timing *out, struct rt_error *err)
{
	struct ring *t = user;
	double share = 0;
	int i;

	atomic_store(&t->segment->runs, runs);
	if (!barrier(t) || !time_rounds(t, runs)) {
		return gone(err);
	}
	for (i = 0; i < t->x.ranks; i++) {
		const struct ring_slot *s = &t->segment->slots[i];

		share += s->wall_us > 0 ? s->cpu_us / s->wall_us : 1;
	}
	out->wall_us = t->segment->slots[0].rounds_us;
	out->cpu_us = share * out->wall_us;
	return RT_OK;
}

static enum rt_status
start(struct ring *t, struct rt_error *err)
{
	int i;

	t->segment->master = getpid();
	rt_cores_get(&t->cores);
	for (i = 1; i < t->x.ranks; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			return rt_fail(err, RT_IO, (struct rt_where){ NULL,
				NULL, -1 }, "cannot start a process: %s",
				strerror(errno));
		}
		if (pid == 0) {
			t->rank = i;
			follow(t);
		}
		t->children[i] = pid;
	}
	rt_cores_pin(&t->cores, 0);
	fill_inputs(t);
	return RT_OK;
}

/* Lets the children exit; kills those that do not. */
static void
finish(struct ring *t, bool all_well)
{
	int i;

	atomic_store(&t->segment->runs, 0);
	if (!all_well || !barrier(t)) {
		for (i = 1; i < t->x.ranks; i++) {
			if (t->children[i] > 0) {
				kill(t->children[i], SIGKILL);
			}
		}
	}
	for (i = 1; i < t->x.ranks; i++) {
		if (t->children[i] > 0) {
			waitpid(t->children[i], NULL, 0);
		}
	}
	rt_cores_set(&t->cores);
}

enum rt_status
rt_cpu_comm(const struct rt_coll_shape *x, const struct rt_pace *pace,
	    struct rt_sample *out, struct rt_error *err)
{
	size_t slots = sizeof(struct segment) +
		       (size_t)x->ranks * sizeof(struct ring_slot);
	int64_t n = x->bytes / (int64_t)sizeof(float);
	size_t head = (slots + 4095) / 4096 * 4096;
	size_t side = ((size_t)n * sizeof(float) * (size_t)x->ranks + 4095) /
		      4096 * 4096;
	pid_t children[1024] = { 0 };
	enum rt_status status;
	struct ring t = { .x = *x, .n = n, .children = children };
	char *pages;

	if (x->ranks < 2 || x->ranks > 1024 || n < 16 * x->ranks) {
		return rt_fail(err, RT_RANGE, (struct rt_where){ NULL, NULL,
			-1 }, "2 to 1024 ranks, and a line for each");
	}
	pages = rt_shared_pages(head + 2 * side);
	if (!pages) {
		return rt_no_memory(err, NULL);
	}
	t.segment = (struct segment *)(void *)pages;
	t.in = (float *)(void *)(pages + head);
	t.out = (float *)(void *)(pages + head + side);
	status = start(&t, err);
	if (status == RT_OK) {
		status = rt_sample_measure(pace, x->ranks, run_rounds, &t, out,
					   err);
	}
	finish(&t, status == RT_OK);
	if (status == RT_OK && !results_agree(&t)) {
		status = rt_fail(err, RT_FORMAT, (struct rt_where){ NULL, NULL,
			-1 }, "a collective of %d processes gave something "
			"else", x->ranks);
	}
	rt_pages_free(pages, head + 2 * side);
	return status;
}

/*
 * measure_comm.c - collectives between processes of one machine, over pages
 * that they share.  They go round a ring, as the cost model has it: in each
 * step a rank reads one part from the rank in front of it, once that is done
 * with the step before.
 *
 * The caller is rank 0; the others are forked, and end with it: whoever
 * waits looks from time to time whether those it waits for are still there.
 */
#define _GNU_SOURCE	/* MAP_ANONYMOUS beside the rest */

#include "runtime/measure/measure_cpu.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One rank's part of the shared pages: a line that only it writes. */
struct slot {
	_Alignas(64) atomic_uint step; /* done, of this round */
	_Alignas(64) double rounds_us; /* of one stretch */
	double cpu_us, wall_us; /* with all that is between its rounds */
};

struct segment {
	_Alignas(64) atomic_uint arrived, open; /* a barrier */
	_Alignas(64) atomic_int runs; /* of the next stretch; 0: go home */
	atomic_bool lost; /* somebody is gone */
	pid_t master;
	struct slot slots[];
};

/* One rank's view. */
struct coll {
	struct segment *segment;
	struct rt_coll_shape x;
	int rank;
	int64_t n; /* elements of a rank's larger side */
	float *in, *out; /* of rank 0; the others' follow */
	pid_t *children; /* rank 0: those of 1 .. ranks - 1 */
	struct rt_cores cores;
};

/* ---- waiting ---- */

/* So many looks take about a millisecond. */
#define LOOKS 20000

static bool
someone_left(const struct coll *t)
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

/* Until *at is `want` or, with `past`, more; false if nobody will set it. */
static bool
wait_for(const struct coll *t, atomic_uint *at, unsigned want)
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
barrier(const struct coll *t)
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
of_rank(const struct coll *t, float *base, int rank)
{
	return base + (int64_t)rank * t->n;
}

static int
ring(const struct coll *t, int place)
{
	return (place % t->x.ranks + t->x.ranks) % t->x.ranks;
}

/* The part of a rank's elements: whole lines but for the last. */
static void
part_of(const struct coll *t, int part, int64_t *from, int64_t *n)
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

/* Takes a step: waits for the rank in front, reads from it, says so. */
static bool
begin_step(const struct coll *t, unsigned step)
{
	int front = ring(t, t->rank - 1);

	return wait_for(t, &t->segment->slots[front].step, step);
}

static void
end_step(const struct coll *t, unsigned step)
{
	atomic_store_explicit(&t->segment->slots[t->rank].step, step + 1,
			      memory_order_release);
}

/* Parts add up on their way; that of rank + 1 ends here. */
static bool
scatter(const struct coll *t, unsigned *step)
{
	int front = ring(t, t->rank - 1), s;
	int64_t from, n;

	for (s = 0; s < t->x.ranks - 1; s++, (*step)++) {
		float *theirs = of_rank(t, s ? t->out : t->in, front);

		part_of(t, ring(t, t->rank - 1 - s), &from, &n);
		if (!begin_step(t, *step)) {
			return false;
		}
		add(of_rank(t, t->out, t->rank) + from,
		    of_rank(t, t->in, t->rank) + from, theirs + from, n);
		end_step(t, *step);
	}
	return true;
}

/* Whole parts go round; `first` is the one that a rank begins with. */
static bool
gather(const struct coll *t, int first, unsigned *step)
{
	int front = ring(t, t->rank - 1), s;
	int64_t from, n;

	for (s = 0; s < t->x.ranks - 1; s++, (*step)++) {
		part_of(t, ring(t, first - 1 - s), &from, &n);
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

/* A gather's own part comes from elsewhere, and is there before a step. */
static bool
gather_own(const struct coll *t)
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
send(const struct coll *t)
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
exchange(const struct coll *t)
{
	unsigned step = 0;

	switch (t->x.op) {
	case RT_ALL_REDUCE:
		return scatter(t, &step) &&
		       gather(t, ring(t, t->rank + 1), &step);
	case RT_REDUCE_SCATTER:
		return scatter(t, &step);
	case RT_ALL_GATHER:
		return gather_own(t);
	default:
		return send(t);
	}
}

/*
 * Writes a number of each line, as it is: what a rank gives away was computed
 * a moment ago, and so lies in its own caches and not in those of its peers.
 */
static void
renew(const struct coll *t)
{
	volatile float *in = of_rank(t, t->in, t->rank);
	int64_t i;

	for (i = 0; i < t->n; i += 16) {
		in[i] = in[i];
	}
}

/* The clock runs from when all are ready until all are done. */
static bool
rounds(const struct coll *t, int runs)
{
	struct slot *own = &t->segment->slots[t->rank];
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

/* What rank r gives: whole numbers, whose sums are exact. */
static float
given(int rank, int64_t i)
{
	return (float)(i % 1021 + rank);
}

static void
fill(const struct coll *t)
{
	float *in = of_rank(t, t->in, t->rank);
	int64_t i;

	for (i = 0; i < t->n; i++) {
		in[i] = given(t->rank, i);
	}
	/* pages are there before the clock runs */
	memset(of_rank(t, t->out, t->rank), 0, (size_t)t->n * sizeof(float));
}

/* What rank `to` has got at element i; its own side of each op. */
static float
want(const struct coll *t, int owner, int64_t i)
{
	int n = t->x.ranks;

	if (t->x.op == RT_ALL_GATHER || t->x.op == RT_SEND) {
		return given(owner, i);
	}
	return (float)(n * (i % 1021)) + (float)(n * (n - 1) / 2);
}

static bool
agrees(const struct coll *t)
{
	int to, part;
	int64_t from, n, i;

	for (to = t->x.op == RT_SEND ? 1 : 0; to < t->x.ranks; to++) {
		for (part = 0; part < t->x.ranks; part++) {
			int owner = t->x.op == RT_SEND ? 0 : part;

			if (t->x.op == RT_REDUCE_SCATTER &&
			    part != ring(t, to + 1)) {
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

/* A child's life; it never comes back. */
static void
follow(struct coll *t)
{
	int runs;

	rt_cores_pin(&t->cores, t->rank);
	fill(t);
	while (barrier(t) && (runs = atomic_load(&t->segment->runs)) > 0) {
		if (!rounds(t, runs)) {
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
run_rounds(void *user, int runs, struct rt_stretch *out, struct rt_error *err)
{
	struct coll *t = user;
	double share = 0;
	int i;

	atomic_store(&t->segment->runs, runs);
	if (!barrier(t) || !rounds(t, runs)) {
		return gone(err);
	}
	for (i = 0; i < t->x.ranks; i++) {
		const struct slot *s = &t->segment->slots[i];

		share += s->wall_us > 0 ? s->cpu_us / s->wall_us : 1;
	}
	out->wall_us = t->segment->slots[0].rounds_us;
	out->cpu_us = share * out->wall_us;
	return RT_OK;
}

static enum rt_status
start(struct coll *t, struct rt_error *err)
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
	fill(t);
	return RT_OK;
}

/* Those that still wait are sent home; whoever does not hear is ended. */
static void
finish(struct coll *t, bool all_well)
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
		       (size_t)x->ranks * sizeof(struct slot);
	int64_t n = x->bytes / (int64_t)sizeof(float);
	size_t head = (slots + 4095) / 4096 * 4096;
	size_t side = ((size_t)n * sizeof(float) * (size_t)x->ranks + 4095) /
		      4096 * 4096;
	pid_t children[1024] = { 0 };
	enum rt_status status;
	struct coll t = { .x = *x, .n = n, .children = children };
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
		status = rt_sample_take(pace, x->ranks, run_rounds, &t, out,
					err);
	}
	finish(&t, status == RT_OK);
	if (status == RT_OK && !agrees(&t)) {
		status = rt_fail(err, RT_FORMAT, (struct rt_where){ NULL, NULL,
			-1 }, "a collective of %d processes gave something "
			"else", x->ranks);
	}
	rt_pages_free(pages, head + 2 * side);
	return status;
}

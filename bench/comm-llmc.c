/* All-reduces of processes on this host, or by MPI; see bench/comm. */
#define _GNU_SOURCE	/* sched_setaffinity */

#include "runtime/comm/comm.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/comm-sizes.h"

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void
or_die(enum rt_status s, const struct rt_error *err)
{
	if (s != RT_OK) {
		fprintf(stderr, "%s\n", err->message);
		exit(1);
	}
}

static void
measure(struct rt_comm *c, const char *who, int64_t rank, int64_t bytes,
	int64_t ranks)
{
	struct rt_pieces *at = calloc((size_t)ranks, sizeof(*at));
	struct rt_spread s = { bytes / 4, 0, at };
	const struct rt_spread *dims[] = { &s };
	struct rt_coll t = { .what = "all_reduce", .op = RT_COLL_SUM,
		.axes = 2, .elem = RT_ELEM_F32, .ndims = 1, .in = dims,
		.out = dims };
	char *x = rt_comm_arena(c);
	double us[ROUNDS];
	struct rt_error err;
	int64_t i;
	int r;

	for (i = 0; i < ranks; i++) {
		at[i].n = 1;
		at[i].total = at[i].at[0].count = bytes / 4;
	}
	for (r = -1; r < ROUNDS; r++) {
		double start;

		or_die(rt_comm_barrier(c, "a round", &err), &err);
		start = now_us();
		for (i = 0; i < times(bytes); i++) {
			or_die(rt_comm_coll(c, &t, 0, x, x, -1, &err), &err);
		}
		if (r >= 0) {
			us[r] = (now_us() - start) / (double)times(bytes);
		}
	}
	if (rank == 0) {
		tell(who, ranks, bytes, us);
	}
	free(at);
}

static const char *
get_variable(void *user, const char *name)
{
	(void)user;
	return getenv(name);
}

static void
bind_to(int64_t core)
{
	cpu_set_t set;
	int n = (int)sysconf(_SC_NPROCESSORS_ONLN);

	CPU_ZERO(&set);
	CPU_SET((int)core % n, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

int
main(int argc, char **argv)
{
	int64_t ranks = argc > 1 ? atoi(argv[1]) : 2, bytes;
	struct rt_axis axes[] = { { NULL, 0, 0 }, { "tp", ranks, 0 } };
	struct rt_plan p = { .abi = RT_ABI_VERSION, .naxes = 2, .axes = axes,
		.nranks = ranks, .npipes = 1, .nmicrobatches = 1 };
	struct rt_comm_options o = { .plan = &p, .timeout_s = 60,
		.report_fd = 2 };
	bool mpi = argc > 2 && strcmp(argv[2], "mpi") == 0;
	struct rt_error err;
	struct rt_comm *c;
	bool child;
	int status;

	if (mpi) {
		or_die(rt_world_find(&o.world, get_variable, NULL, &err),
		       &err);
		o.via = RT_VIA_MPI;
	} else {
		or_die(rt_local_start(ranks, 1, &o.world, &child, &status,
				      &err), &err);
		if (!child) {
			return status;
		}
		/* as mpirun does it */
		bind_to(o.world.local_rank);
	}
	or_die(rt_comm_open(&c, &o, most_bytes(), &err), &err);
	for (bytes = LEAST_BYTES; bytes <= most_bytes(); bytes *= 4) {
		measure(c, mpi ? "by-mpi" : "llmc", o.world.rank, bytes,
			ranks);
	}
	rt_comm_free(c);
	return 0;
}

/*
 * Ranks as processes, for tests of how they communicate.
 */
#ifndef T_COMM_H
#define T_COMM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/comm/comm.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 8, GAVE_UP = 7, WRONG = 9 };

static inline double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What a rank runs: returns how its process exits. */
typedef int rank_main(const struct rt_comm_options *o, void *user);

struct ranks {
	int64_t n;
	pid_t pids[MOST_RANKS];
	int pipes[MOST_RANKS];	/* what each says */
	char said[MOST_RANKS][2048];
	int exits[MOST_RANKS];	/* -1: by a signal */
	double ended_s[MOST_RANKS];
};

/*
 * One test by its name, whose ranks mpirun has started and MPI connects: its
 * first ranks_start with as many never returns.
 */
static bool ranks_by_mpi;

static inline const char *
ranks_variable(void *user, const char *name)
{
	(void)user;
	return getenv(name);
}

static inline void
ranks_be_one(const struct rt_plan *p, double timeout_s, rank_main *body,
	     void *user)
{
	struct rt_comm_options o = { .plan = p, .timeout_s = timeout_s,
		.report_fd = -1, .via = RT_VIA_MPI };
	struct rt_error err;

	if (rt_world_find(&o.world, ranks_variable, NULL, &err) != RT_OK) {
		fprintf(stderr, "%s\n", err.message);
		exit(WRONG);
	}
	if (o.world.size == p->nranks) {
		exit(body(&o, user));
	}
}

/*
 * COMM_VIA=tcp: ranks that are forked here meet by TCP, at a file of their
 * own beside the working directory's others.
 */
static char ranks_place[128];

static inline const char *
ranks_meet(void *user, const char *name)
{
	(void)user;
	return strcmp(name, "LLMC_RENDEZVOUS") == 0 ? ranks_place :
	       strncmp(name, "LLMC_SECRET", 11) == 0 ||
	       strcmp(name, "LLMC_MESSAGE_SUMS") == 0 ? getenv(name) : NULL;
}

static inline void
ranks_by_tcp(struct rt_comm_options *o)
{
	const char *via = getenv("COMM_VIA");

	if (via && strcmp(via, "tcp") == 0) {
		snprintf(ranks_place, sizeof(ranks_place), "file:%s.place",
			 o->world.job);
		o->via = RT_VIA_TCP;
		o->variables.get = ranks_meet;
	}
}

/*
 * Ranks without a communicator of their own: o->world and o->report_fd are set.
 */
static inline void
ranks_start(struct ranks *r, const struct rt_plan *p, double timeout_s,
	    rank_main *body, void *user)
{
	static int jobs;
	int64_t i;

	r->n = p->nranks;
	jobs++;
	if (ranks_by_mpi) {
		ranks_be_one(p, timeout_s, body, user);
		r->n = 0;
		/* no process's: whoever kills one kills nobody */
		memset(r->pids, 0x7f, sizeof(r->pids));
	}
	for (i = 0; i < r->n; i++) {
		int ends[2];
		pid_t parent = getpid();

		assert_int_equal(pipe(ends), 0);
		r->pids[i] = fork();
		assert_true(r->pids[i] >= 0);
		if (r->pids[i] == 0) {
			struct rt_comm_options o = { .plan = p,
				.world = { i, r->n, i, r->n, "test", "", 0 },
				.timeout_s = timeout_s, .report_fd = -1 };

			close(ends[0]);
			dup2(ends[1], 2);
			snprintf(o.world.job, sizeof(o.world.job),
				 "t-%ld-%d", (long)parent, jobs);
			ranks_by_tcp(&o);
			exit(body(&o, user));
		}
		close(ends[1]);
		r->pipes[i] = ends[0];
	}
}

static inline void
ranks_hear(struct ranks *r, int64_t i)
{
	size_t n = 0;
	ssize_t got;

	while ((got = read(r->pipes[i], r->said[i] + n,
			   sizeof(r->said[i]) - 1 - n)) > 0) {
		n += (size_t)got;
	}
	r->said[i][n] = '\0';
	close(r->pipes[i]);
}

/* Waits for all but `but`, at most so long: then the rest is killed. */
static inline void
ranks_wait(struct ranks *r, double most_s, int64_t but)
{
	double until = seconds() + most_s;
	int64_t left = r->n - (but >= 0), i;
	bool ended[MOST_RANKS] = { false };

	while (left > 0) {
		for (i = 0; i < r->n; i++) {
			int how;

			if (i != but && !ended[i] &&
			    waitpid(r->pids[i], &how, WNOHANG) ==
				    r->pids[i]) {
				r->exits[i] = WIFEXITED(how) ?
					WEXITSTATUS(how) : -1;
				r->ended_s[i] = seconds();
				ended[i] = true;
				left--;
			}
		}
		if (left > 0 && seconds() > until) {
			for (i = 0; i < r->n; i++) {
				if (!ended[i]) {
					kill(r->pids[i], SIGKILL);
				}
			}
			until += 1e6;
		}
		poll(NULL, 0, 1);
	}
	for (i = 0; i < r->n; i++) {
		if (i != but) {
			ranks_hear(r, i);
		}
	}
}

/* All ranks end well. */
static inline void
ranks_run(const struct rt_plan *p, rank_main *body, void *user)
{
	struct ranks r;
	int64_t i;

	ranks_start(&r, p, 60, body, user);
	ranks_wait(&r, 120, -1);
	for (i = 0; i < r.n; i++) {
		if (r.exits[i] != 0) {
			fail_msg("rank %d of %d ends with %d: %s", (int)i,
				 (int)r.n, r.exits[i], r.said[i]);
		}
	}
}

/* All tests, or the one that is named: by MPI, unless COMM_VIA is set. */
static inline int
ranks_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
	void *state = NULL;
	size_t i;

	if (argc < 2) {
		return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
	}
	ranks_by_mpi = !getenv("COMM_VIA");
	for (i = 0; i < n; i++) {
		if (strcmp(tests[i].name, argv[1]) == 0 && !ranks_by_mpi) {
			return _cmocka_run_group_tests("tests", tests + i, 1,
						       NULL, NULL);
		}
		if (strcmp(tests[i].name, argv[1]) == 0) {
			tests[i].test_func(&state);
		}
	}
	fprintf(stderr, "%s is no test for so many ranks\n", argv[1]);
	return WRONG;
}

/* In a rank: says why, on its pipe. */
static inline int
gave_up(struct rt_comm *c, const struct rt_error *err)
{
	fprintf(stderr, "%s\n", err->message);
	if (c) {
		rt_comm_abort(c, err->message);
	}
	rt_comm_free(c);
	return GAVE_UP;
}

/* ---- plans that only have ranks ---- */

enum { PLAN_MICROBATCHES = 3 };

/* Of the first naxes, the none in front counted. */
static inline struct rt_plan
plan_of(const struct rt_axis *axes, int64_t naxes)
{
	struct rt_plan p = { .abi = RT_ABI_VERSION, .naxes = naxes,
		.axes = axes, .nranks = 1, .npipes = 1,
		.nmicrobatches = PLAN_MICROBATCHES, .model = "t" };
	int64_t a;

	for (a = 1; a < naxes; a++) {
		p.nranks *= axes[a].time ? 1 : axes[a].size;
	}
	return p;
}

/* ---- numbers at random, the same on all ranks ---- */

static inline uint64_t
draw(uint64_t *seed)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline int64_t
draw_below(uint64_t *seed, int64_t n)
{
	return (int64_t)(draw(seed) % (uint64_t)n);
}

#endif

/* Ranks from the environment, launcher by launcher; a mesh's numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/comm/comm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An environment is "NAME=value" strings, NULL after the last. */
static const char *
get(void *user, const char *name)
{
	const char *const *v;
	size_t n = strlen(name);

	for (v = user; *v; v++) {
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=') {
			return *v + n + 1;
		}
	}
	return NULL;
}

static struct rt_world
found(const char *const *env)
{
	struct rt_error err = { RT_OK, -1, "" };
	struct rt_world w;

	if (rt_world_find(&w, get, (void *)(uintptr_t)env, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	return w;
}

static void
expect(const char *const *env, const char *how, int64_t rank, int64_t size,
       int64_t local_rank, int64_t local_size, const char *job)
{
	struct rt_world w = found(env);

	assert_string_equal(w.how, how);
	assert_int_equal(w.rank, rank);
	assert_int_equal(w.size, size);
	assert_int_equal(w.local_rank, local_rank);
	assert_int_equal(w.local_size, local_size);
	if (job) {
		assert_string_equal(w.job, job);
	}
}

static void
refused(const char *const *env, const char *message)
{
	struct rt_error err = { RT_OK, -1, "" };
	struct rt_world w;

	assert_int_equal(
		rt_world_find(&w, get, (void *)(uintptr_t)env, &err),
		RT_FORMAT);
	assert_string_equal(err.message, message);
}

#define ENV(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void
test_torchrun(void **state)
{
	(void)state;
	expect(ENV("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1",
		   "LOCAL_WORLD_SIZE=4", "GROUP_RANK=1", "MASTER_PORT=29500",
		   "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=2"),
	       "torchrun", 5, 8, 1, 4, "torchrun-none-29500-2");
	/* by hand, on one host */
	expect(ENV("RANK=2", "WORLD_SIZE=3"), "torchrun", 2, 3, 2, 3, NULL);
	/* one torchrun on each node, which srun or mpirun started */
	expect(ENV("RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1",
		   "LOCAL_WORLD_SIZE=2", "SLURM_PROCID=0", "SLURM_NTASKS=1",
		   "SLURM_STEP_ID=0", "OMPI_COMM_WORLD_RANK=0"),
	       "torchrun", 1, 2, 1, 2, NULL);
}

static void
test_open_mpi(void **state)
{
	(void)state;
	expect(ENV("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
		   "OMPI_COMM_WORLD_LOCAL_RANK=1",
		   "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_RANK=3",
		   "PMIX_NAMESPACE=1234561"),
	       "Open MPI", 3, 4, 1, 2, "Open MPI-1234561");
	expect(ENV("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1",
		   "OMPI_MCA_ess_base_jobid=77"),
	       "Open MPI", 0, 1, 0, 1, "Open MPI-77");
}

static void
test_pmix(void **state)
{
	(void)state;
	expect(ENV("PMIX_RANK=6", "PMIX_NAMESPACE=slurm.pmix.9.0",
		   "SLURM_PROCID=6", "SLURM_LOCALID=2", "SLURM_NTASKS=7",
		   "SLURM_NODEID=1", "SLURM_STEP_ID=0",
		   "SLURM_STEP_TASKS_PER_NODE=4,3"),
	       "PMIx", 6, 7, 2, 3, "PMIx-slurm.pmix.9.0");
	refused(ENV("PMIX_RANK=1"),
		"the variable PMIX_RANK is '1', but PMIX_SIZE, the number of "
		"ranks, is not set: set both, or none");
}

static void
test_hydra(void **state)
{
	struct rt_world w;
	char job[64];

	(void)state;
	snprintf(job, sizeof(job), "Hydra-%ld", (long)getppid());
	expect(ENV("PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALRANKID=1",
		   "MPI_LOCALNRANKS=2"),
	       "Hydra", 1, 4, 1, 2, job);
	w = found(ENV("PMI_RANK=1", "PMI_SIZE=4"));
	assert_int_equal(w.local_rank, 1);
	assert_int_equal(w.local_size, 4);
}

static void
test_slurm(void **state)
{
	(void)state;
	expect(ENV("SLURM_PROCID=9", "SLURM_NTASKS=11", "SLURM_LOCALID=1",
		   "SLURM_NODEID=2", "SLURM_STEP_TASKS_PER_NODE=4(x2),3",
		   "SLURM_JOB_ID=42", "SLURM_STEP_ID=3"),
	       "Slurm", 9, 11, 1, 3, "Slurm-42-3");
	/* the script of a job is no step of it */
	expect(ENV("SLURM_PROCID=0", "SLURM_NTASKS=11", "SLURM_JOB_ID=42"),
	       "alone", 0, 1, 0, 1, NULL);
	refused(ENV("SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0",
		    "SLURM_LOCALID=0", "SLURM_NODEID=1",
		    "SLURM_STEP_TASKS_PER_NODE=2"),
		"the variable SLURM_STEP_TASKS_PER_NODE is '2', expected the "
		"tasks of each node, as 4(x2),3, for at least 1 more nodes");
	refused(ENV("SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0",
		    "SLURM_STEP_TASKS_PER_NODE=1(x2)"),
		"the variable SLURM_LOCALID is not set, but 1 of 2 ranks are "
		"on this host: which of them is this?");
}

static void
test_alone(void **state)
{
	(void)state;
	expect(ENV("HOME=/root", "RANK="), "alone", 0, 1, 0, 1, NULL);
}

static void
test_nonsense(void **state)
{
	(void)state;
	refused(ENV("RANK=two", "WORLD_SIZE=4"),
		"the variable RANK is 'two', expected a number from 0 to 3");
	refused(ENV("RANK=4", "WORLD_SIZE=4"),
		"the variable RANK is '4', expected a number from 0 to 3");
	refused(ENV("RANK=-1", "WORLD_SIZE=4"),
		"the variable RANK is '-1', expected a number from 0 to 3");
	refused(ENV("RANK=1 ", "WORLD_SIZE=4"),
		"the variable RANK is '1 ', expected a number from 0 to 3");
	refused(ENV("RANK=0", "WORLD_SIZE=0"),
		"the variable WORLD_SIZE is '0', expected a number from 1 to "
		"1000000");
	refused(ENV("RANK=0", "WORLD_SIZE=99999999999999999999999"),
		"the variable WORLD_SIZE is '99999999999999999999999', "
		"expected a number from 1 to 1000000");
	refused(ENV("RANK=3"),
		"the variable RANK is '3', but WORLD_SIZE, the number of "
		"ranks, is not set: set both, or none");
	refused(ENV("RANK=0", "WORLD_SIZE=4", "LOCAL_RANK=2",
		    "LOCAL_WORLD_SIZE=2"),
		"the variable LOCAL_RANK is '2', expected a number from 0 to "
		"1");
	refused(ENV("RANK=0", "WORLD_SIZE=4", "LOCAL_RANK=0",
		    "LOCAL_WORLD_SIZE=5"),
		"the variable LOCAL_WORLD_SIZE is '5', expected a number from "
		"1 to 4");
	refused(ENV("RANK=0", "WORLD_SIZE=4", "LOCAL_RANK=1",
		    "LOCAL_WORLD_SIZE=2"),
		"the variable RANK says rank 0, but LOCAL_RANK says 1: a "
		"rank's number on its host cannot be larger");
	refused(ENV("RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2"),
		"the variable LOCAL_RANK is not set, but 2 of 4 ranks are on "
		"this host: which of them is this?");
}

static void
test_long_job(void **state)
{
	char id[400];
	struct rt_world a, b;

	(void)state;
	snprintf(id, sizeof(id), "TORCHELASTIC_RUN_ID=%0300d", 1);
	a = found(ENV("RANK=0", "WORLD_SIZE=1", id));
	snprintf(id, sizeof(id), "TORCHELASTIC_RUN_ID=%0300d", 2);
	b = found(ENV("RANK=0", "WORLD_SIZE=1", id));
	assert_string_not_equal(a.job, b.job);
	assert_int_equal(strlen(a.job), strlen("torchrun-") + 16);
}

static void
test_mesh(void **state)
{
	static const struct rt_axis axes[] = { { NULL, 0, 0 }, { "dp", 2, 0 },
		{ "mb", 4, 1 }, { "one", 1, 0 }, { "tp", 3, 0 } };
	struct rt_plan p = { .naxes = 5, .axes = axes, .nranks = 6 };
	int64_t at[RT_MAX_AXES + 1], r;
	char text[64], few[9];

	(void)state;
	for (r = 0; r < 6; r++) {
		rt_mesh_at(&p, r, at);
		assert_int_equal(at[1], r / 3);
		assert_int_equal(at[2], 0);
		assert_int_equal(at[4], r % 3);
		assert_int_equal(rt_mesh_number(&p, at), r);
	}
	rt_mesh_text(&p, 5, text, sizeof(text));
	assert_string_equal(text, "rank 5 (dp=1 tp=2)");
	rt_mesh_text(&p, 5, few, sizeof(few));
	assert_string_equal(few, "rank 5 (");
	p.naxes = 1;
	rt_mesh_text(&p, 0, text, sizeof(text));
	assert_string_equal(text, "rank 0");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torchrun),
		cmocka_unit_test(test_open_mpi),
		cmocka_unit_test(test_pmix),
		cmocka_unit_test(test_hydra),
		cmocka_unit_test(test_slurm),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_long_job),
		cmocka_unit_test(test_mesh)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

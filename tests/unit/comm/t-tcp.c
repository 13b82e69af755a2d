/*
 * Ranks that meet by TCP: where, as the environment says; and who
 * is let in, turned away or missed.
 */
#include "tests/unit/comm/t-tcp.h"

/* ---- where ---- */

static struct rt_rendezvous
found(const char *const *env, const char *place, int64_t port, int64_t nports)
{
	struct rt_variables v = { get, (void *)(uintptr_t)env };
	struct rt_error err = { RT_OK, -1, "" };
	struct rt_rendezvous r;

	if (rt_rendezvous_find(&r, &v, &err) != RT_OK) {
		fail_msg("%s", err.message);
	}
	assert_string_equal(r.place, place);
	if (!r.by_file && port > 0) {
		assert_int_equal(r.port, port);
	}
	assert_int_equal(r.nports, nports);
	return r;
}

static void
refused(const char *const *env, enum rt_status status, const char *text)
{
	struct rt_variables v = { get, (void *)(uintptr_t)env };
	struct rt_error err = { RT_OK, -1, "" };
	struct rt_rendezvous r;

	assert_int_equal(rt_rendezvous_find(&r, &v, &err), status);
	if (!strstr(err.message, text)) {
		fail_msg("'%s' is not in: %s", text, err.message);
	}
}

static void
test_mine(void **state)
{
	struct rt_rendezvous r;

	(void)state;
	r = found(ENV("LLMC_RENDEZVOUS=node7:4000", "MASTER_ADDR=a",
		      "MASTER_PORT=1"), "node7", 4000, 1);
	assert_string_equal(r.from, "LLMC_RENDEZVOUS");
	found(ENV("LLMC_RENDEZVOUS=[fe::1]:65535"), "fe::1", 65535, 1);
	r = found(ENV("LLMC_RENDEZVOUS=file:/a/b:c"), "/a/b:c", 0, 0);
	assert_true(r.by_file);
	refused(ENV("LLMC_RENDEZVOUS=node7"), RT_FORMAT, "expected host:port");
	refused(ENV("LLMC_RENDEZVOUS=node7:0"), RT_FORMAT, "is 'node7:0'");
	refused(ENV("LLMC_RENDEZVOUS=node7:65536"), RT_FORMAT, "expected");
	refused(ENV("LLMC_RENDEZVOUS=a:b:3"), RT_FORMAT, "expected");
	refused(ENV("LLMC_RENDEZVOUS=:3"), RT_FORMAT, "expected");
	refused(ENV("LLMC_RENDEZVOUS=file:"), RT_FORMAT, "file:/path");
	refused(ENV("LLMC_RENDEZVOUS=", "HOME=/"), RT_RANGE,
		"set MASTER_ADDR and MASTER_PORT");
}

static void
test_torchrun(void **state)
{
	struct rt_rendezvous a, b;

	(void)state;
	a = found(ENV("MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"), "10.0.0.1",
		  29500, 1);
	/* its agent has that port for itself */
	b = found(ENV("MASTER_ADDR=n", "MASTER_PORT=29500",
		      "TORCHELASTIC_RUN_ID=x",
		      "TORCHELASTIC_USE_AGENT_STORE=True"), "n", 29501, 8);
	assert_true(a.key != b.key);
	found(ENV("MASTER_ADDR=n", "MASTER_PORT=65533",
		  "TORCHELASTIC_USE_AGENT_STORE=True"), "n", 65525, 8);
	found(ENV("MASTER_ADDR=n", "MASTER_PORT=29500",
		  "TORCHELASTIC_USE_AGENT_STORE=False"), "n", 29500, 1);
	refused(ENV("MASTER_ADDR=n", "MASTER_PORT=29x"), RT_FORMAT,
		"MASTER_PORT is '29x', expected a number from 1 to 65535");
	refused(ENV("MASTER_ADDR=n"), RT_RANGE, "MASTER_PORT");
}

static void
test_slurm(void **state)
{
	struct rt_rendezvous a, b;

	(void)state;
	a = found(ENV("SLURM_JOB_ID=42", "SLURM_STEP_ID=0",
		      "SLURM_JOB_NODELIST=n[003-010,015],gpu7"), "n003", 0, 8);
	assert_in_range(a.port, 10000, 29999);
	b = found(ENV("SLURM_JOB_ID=42", "SLURM_STEP_ID=1",
		      "SLURM_STEP_NODELIST=r[1-2]n[7,9]-ib",
		      "SLURM_JOB_NODELIST=n1"), "r1n7-ib", 0, 8);
	assert_true(a.key != b.key);
	found(ENV("SLURM_JOB_ID=42", "SLURM_JOB_NODELIST=one,two"), "one", 0,
	      8);
	refused(ENV("SLURM_JOB_ID=42", "SLURM_JOB_NODELIST=n[x]"), RT_FORMAT,
		"SLURM_JOB_NODELIST is 'n[x]', expected hosts");
	refused(ENV("SLURM_JOB_ID=42", "SLURM_JOB_NODELIST=n[1"), RT_FORMAT,
		"expected hosts");
}

/* ---- who ---- */

/* One says nothing, one nonsense, one hangs up; the file is gone after all. */
static void
test_strangers(void **state)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };
	char noise[4096];
	int port, silent, noisy, i;

	(void)state;
	new_place();
	memset(noise, 'x', sizeof(noise));
	start(&r, &p, 0, 3, 30);
	port = port_of_first();
	silent = stranger(port, "", 0);
	noisy = stranger(port, noise, sizeof(noise));
	close(stranger(port, "", 0));
	start(&r, &p, 1, 3, 30);
	start(&r, &p, 2, 3, 30);
	ranks_wait(&r, 60, -1);
	for (i = 0; i < 3; i++) {
		if (r.exits[i] != 0) {
			fail_msg("rank %d: %s", i, r.said[i]);
		}
	}
	close(silent);
	close(noisy);
	assert_int_equal(access(ranks_place + 5, F_OK), -1);
}

static void
test_missing(void **state)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };

	(void)state;
	new_place();
	start(&r, &p, 0, 3, 0.5);
	start(&r, &p, 2, 3, 30);
	ranks_wait(&r, 60, -1);
	expect_said(&r, 0, "2 of 3 ranks have come to ");
	expect_said(&r, 0, " within 0.5 s; missing: 1");
	expect_said(&r, 1, "2 of 3 ranks have come to ");
}

static void
test_no_first(void **state)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };

	(void)state;
	new_place();
	start(&r, &p, 1, 3, 0.3);
	ranks_wait(&r, 60, -1);
	expect_said(&r, 0, "rank 0 has not come to the place that ");
	expect_said(&r, 0, "within 0.3 s: there is no such file");
}

/* The second is turned away, and the run goes on with the first. */
static void
test_twice(void **state)
{
	static const char text[] =
		"two processes say that they are rank 1: one on ";
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };
	siginfo_t first;
	int64_t i;

	(void)state;
	new_place();
	start(&r, &p, 0, 3, 60);
	start(&r, &p, 1, 3, 60);
	start(&r, &p, 1, 3, 60);
	assert_int_equal(waitid(P_ALL, 0, &first, WEXITED | WNOWAIT), 0);
	start(&r, &p, 2, 3, 60);
	ranks_wait(&r, 120, -1);
	for (i = 0; i < r.n; i++) {
		if (r.pids[i] == first.si_pid) {
			expect_said(&r, i, text);
		} else if (r.exits[i] != 0) {
			fail_msg("process %d: %s", (int)i, r.said[i]);
		}
	}
	assert_non_null(strstr(r.said[0], text));
	assert_non_null(strstr(r.said[0], "turned away "));
}

/* So is one that runs another plan; who waits for it says so in the end. */
static void
test_another_plan(void **state)
{
	static const char text[] = "rank 2 runs another plan than rank 0: "
		"start the same plan on all ranks";
	struct rt_plan p = plan_of(three, 2), other = p;
	struct ranks r = { .n = 0 };
	siginfo_t first;

	(void)state;
	other.model = "another";
	new_place();
	start(&r, &p, 0, 3, 60);
	start(&r, &other, 2, 3, 60);
	assert_int_equal(waitid(P_ALL, 0, &first, WEXITED | WNOWAIT), 0);
	assert_int_equal(first.si_pid, r.pids[1]);
	start(&r, &p, 2, 3, 60);
	start(&r, &p, 1, 3, 60);
	ranks_wait(&r, 120, -1);
	expect_said(&r, 1, text);
	assert_int_equal(r.exits[0] | r.exits[2] | r.exits[3], 0);
	assert_non_null(strstr(r.said[0], text));

	r.n = 0;
	new_place();
	start(&r, &p, 0, 3, 2);
	start(&r, &other, 2, 3, 60);
	ranks_wait(&r, 120, -1);
	expect_said(&r, 0, "1 of 3 ranks have come to ");
	expect_said(&r, 0, "missing: 1, 2; turned away ");
	expect_said(&r, 0, text);
}

static void
test_ends_early(void **state)
{
	struct rt_plan p = plan_of(three, 2);
	struct ranks r = { .n = 0 };

	(void)state;
	new_place();
	start(&r, &p, 0, 3, 30);
	start(&r, &p, 2, 3, 30);
	port_of_first();
	poll(NULL, 0, 200);
	kill(r.pids[1], SIGKILL);
	ranks_wait(&r, 60, -1);
	expect_said(&r, 0, "rank 2 (dp=2) ended before all ranks had met");
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mine),
		cmocka_unit_test(test_torchrun),
		cmocka_unit_test(test_slurm),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_no_first),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_another_plan),
		cmocka_unit_test(test_ends_early)
	};

	(void)argc;
	(void)argv;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * A rank that waits for messages: what it makes of others that
 * end, and what it still says in time.  Who carries messages, the clock, and
 * how long others keep the core, are the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/comm/msg.h"

static double now_us, yield_us;

double __wrap_rt_now_us(void);
int __wrap_sched_yield(void);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);

double
__wrap_rt_now_us(void)
{
	return now_us += 0.05;
}

int
__wrap_sched_yield(void)
{
	now_us += yield_us;
	return 0;
}

int
__wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	now_us += (double)t->tv_nsec * 1e-3;
	return 0;
}

/* ---- who carries messages ---- */

/* From when on that is so; what comes lies there until it is looked for. */
struct carrier {
	double comes_us, ends_us, killed_us;
	enum rt_msg_peer ends;	/* how rank 1 does */
	bool come, over;
};

static void
look(struct carrier *l)
{
	l->come = now_us >= l->comes_us;
	l->over = now_us >= l->ends_us;
}

static enum rt_status
send_it(void *lib, const void *at, int64_t bytes, int64_t rank, int64_t tag,
	struct rt_msg_post *p, struct rt_error *err)
{
	(void)lib;
	(void)at;
	(void)bytes;
	(void)tag;
	(void)err;
	*p = (struct rt_msg_post){ .rank = rank };
	return RT_OK;
}

/* What was not there when it looked is not done, whatever it has seen. */
static enum rt_status
test_it(void *lib, struct rt_msg_post *p, struct rt_error *err)
{
	struct carrier *l = lib;

	if (now_us > l->killed_us) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "killed");
	}
	p->busy = !l->come;
	look(l);
	return RT_OK;
}

static enum rt_status
probe(void *lib, int64_t tag, int64_t *rank, struct rt_error *err)
{
	(void)tag;
	(void)err;
	look(lib);
	*rank = -1;
	return RT_OK;
}

static enum rt_msg_peer
look_at(void *lib, int64_t rank)
{
	const struct carrier *l = lib;

	return rank == 1 && l->over ? l->ends : RT_MSG_HERE;
}

/* ---- a rank of two that waits for the other ---- */

#define NEVER 1e12

static char said[2048];

static enum rt_status
waits(struct carrier *l, double timeout_us, bool is_printed,
      struct rt_error *err)
{
	static const struct rt_axis axes[] = { { NULL, 0, 0 },
					       { "dp", 2, 0 } };
	static const struct rt_plan plan = { .nranks = 2, .axes = axes,
					     .naxes = 2 };
	struct rt_msg_calls calls = { .send = send_it, .test = test_it,
				      .probe = probe, .peer_state = look_at };
	struct rt_msg m = { .calls = &calls, .lib = l, .started = true };
	volatile sig_atomic_t asked = is_printed;
	struct rt_activity activity = { "the end", -1, -1, 0 };
	struct rt_msg_post post = { .rank = 1, .busy = true,
				    .received = true };
	struct rt_comm c = { .plan = &plan, .world = { .rank = 0, .size = 2 },
			     .timeout_us = timeout_us, .end_asked = &asked,
			     .msg = &m };
	enum rt_status status;
	ssize_t n;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	c.report_fd = ends[1];
	now_us = 0;
	memset(err, 0, sizeof *err);
	status = rt_msg_wait_for(&c, &post, 1, &activity, NULL, err);
	close(ends[1]);
	n = read(ends[0], said, sizeof said - 1);
	assert_true(n >= 0);
	said[n] = '\0';
	close(ends[0]);
	return status;
}

static void
has(const char *text, const char *part)
{
	if (!strstr(text, part)) {
		fail_msg("'%s' is not in: %s", part, text);
	}
}

/* ---- others that end ---- */

/* Both lie there when the rank looks whether the other is still there. */
static void
test_last_message_and_farewell(void **state)
{
	struct carrier l = { .comes_us = 3000, .ends_us = 3000,
			     .killed_us = NEVER, .ends = RT_MSG_LEFT };
	struct rt_error err;
	int i;

	(void)state;
	/* at whatever moment of its rounds they come */
	for (i = 0; i < 500; i++) {
		l.come = l.over = false;
		l.comes_us = l.ends_us = 3000 + 10 * i;
		yield_us = 100;
		if (waits(&l, NEVER, false, &err) != RT_OK) {
			fail_msg("at %g us: %s", l.comes_us, err.message);
		}
		assert_string_equal(said, "");
	}
}

static void
test_left_early(void **state)
{
	struct carrier l = { .comes_us = NEVER, .ends_us = 3000,
			     .killed_us = NEVER, .ends = RT_MSG_LEFT };
	struct rt_error err;

	(void)state;
	yield_us = 100;
	assert_int_equal(waits(&l, NEVER, false, &err), RT_IO);
	assert_string_equal(err.message, "rank 1 (dp=1) has ended while "
			    "rank 0 waited for it in the end");
	has(said, err.message);
}

static void
test_died(void **state)
{
	struct carrier l = { .comes_us = NEVER, .ends_us = 3000,
			     .killed_us = NEVER, .ends = RT_MSG_DEAD };
	struct rt_error err;

	(void)state;
	yield_us = 100;
	assert_int_equal(waits(&l, NEVER, false, &err), RT_IO);
	assert_string_equal(err.message, "rank 1 (dp=1) died while rank 0 "
			    "waited for it in the end");
	has(said, err.message);
}

/* ---- in time ---- */

/*
 * mpirun tells ranks to end, and kills them a second later: on a host where
 * each yield takes as long as eight others' turns they say where they waited.
 */
static void
test_told_on_a_busy_host(void **state)
{
	struct carrier l = { .comes_us = NEVER, .ends_us = NEVER,
			     .killed_us = 1e6 };
	struct rt_error err;

	(void)state;
	for (yield_us = 0.5; yield_us < 1e5; yield_us *= 1.7) {
		assert_int_equal(waits(&l, NEVER, true, &err), RT_IO);
		has(err.message, "killed");
		has(said, "rank 0 (dp=0): waited 0.");
		has(said, " in the end: arrived: 0; missing: 1; asked to end "
		    "meanwhile, as all are when one dies");
	}
}

static void
test_late(void **state)
{
	struct carrier l = { .comes_us = NEVER, .ends_us = NEVER,
			     .killed_us = NEVER };
	struct rt_error err;

	(void)state;
	for (yield_us = 0.5; yield_us < 1e5; yield_us *= 1.7) {
		assert_int_equal(waits(&l, 1e6, false, &err), RT_IO);
		has(err.message, "waited 1.");
		has(err.message, " s in the end: arrived: 0; missing: 1; "
		    "whoever of these lives says itself what it does");
		/* and its last words had their time */
		assert_true(now_us < 1e6 + 2 * yield_us + 1e5);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last_message_and_farewell),
		cmocka_unit_test(test_left_early),
		cmocka_unit_test(test_died),
		cmocka_unit_test(test_told_on_a_busy_host),
		cmocka_unit_test(test_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

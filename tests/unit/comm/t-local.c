/*
 * Ranks that one process starts: signals, ends, and what each rank is informed
 * of.
 */
#include "tests/unit/comm/t-comm.h"

struct start {
	int64_t n;
	double grace_s;
	int (*body)(const struct rt_world *w);
};

/*
 * rt_local_start in a process of its own, since it waits for its children:
 * exits with the status, and says the message on its pipe.
 */
static pid_t
start(const struct start *s, int *said)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rt_error err = { RT_OK, -1, "" };
		struct rt_world w;
		enum rt_status got;
		bool child;
		int status;

		close(ends[0]);
		dup2(ends[1], 2);
		got = rt_local_start(s->n, s->grace_s, &w, &child, &status,
				     &err);
		if (child) {
			exit(s->body(&w));
		}
		if (got != RT_OK) {
			fprintf(stderr, "%s\n", err.message);
		}
		exit(status);
	}
	close(ends[1]);
	*said = ends[0];
	return pid;
}

/* How it ended, and all that was said. */
static int
end_of(pid_t pid, int said, char *text, size_t size)
{
	size_t n = 0;
	ssize_t got;
	int how;

	while ((got = read(said, text + n, size - 1 - n)) > 0) {
		n += (size_t)got;
	}
	text[n] = '\0';
	close(said);
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_true(WIFEXITED(how));
	return WEXITSTATUS(how);
}

static void
expect(const struct start *s, int status, const char *text)
{
	char got[1024];
	int said;
	pid_t pid = start(s, &said);
	int how = end_of(pid, said, got, sizeof(got));

	assert_string_equal(got, text);
	assert_int_equal(how, status);
}

static int
well(const struct rt_world *w)
{
	return w->size == 3 && w->local_size == 3 && w->rank >= 0 &&
	       w->rank < 3 && w->local_rank == w->rank &&
	       strcmp(w->how, "local") == 0 ? 0 : 1;
}

static int
second_fails(const struct rt_world *w)
{
	return w->rank == 1 ? 5 : 0;
}

static int
second_crashes(const struct rt_world *w)
{
	if (w->rank == 1) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	poll(NULL, 0, 50);
	return 3;
}

static int
others_hang(const struct rt_world *w)
{
	if (w->rank != 2) {
		poll(NULL, 0, 60000);
	}
	return 4;
}

/* All find the same, or learn it from one that gave up. */
static int
all_find(const struct rt_world *w)
{
	char text[64] = "no data";

	if (w->rank > 0) {
		snprintf(text, sizeof(text), "rank %d gave up: no data",
			 (int)w->rank);
	}
	if (rt_local_is_news(w, text)) {
		fputs("some rank found no data\n", stderr);
	}
	if (rt_local_is_news(w, "rank 0 (tp=0): no data")) {
		fputs("what rank 0 told is no news\n", stderr);
	}
	if (!rt_local_is_news(w, "another thing") ||
	    !rt_local_is_news(w, "no data of the second file") ||
	    !rt_local_is_news(w, "f: no data") ||
	    !rt_local_is_news(w, "data")) {
		fputs("another thing is lost\n", stderr);
	}
	return 1;
}

static void
test_ends(void **state)
{
	double began = seconds();

	(void)state;
	expect(&(struct start){ 3, 1, well }, 0, "");
	expect(&(struct start){ 3, 1, second_fails }, 5, "");
	expect(&(struct start){ 3, 1, second_crashes }, 128 + SIGSEGV,
	       "rank 1 was killed by signal 11 (Segmentation fault); the "
	       "others were notified\n");
	expect(&(struct start){ 3, 0.3, others_hang }, 4, "");
	expect(&(struct start){ 3, 1, all_find }, 1,
	       "some rank found no data\n");
	assert_true(seconds() - began < 20);
}

/* ---- signals ---- */

static int
count_signals(const struct rt_world *w)
{
	sigset_t set;
	int n = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fprintf(stderr, "%d", (int)w->rank);
	while (sigtimedwait(&set, NULL, &(struct timespec){ n ? 0 : 20,
		300000000 }) > 0) {
		n++;
	}
	return n == 1 ? 0 : 20 + n;
}

/* Once each, though all of the process group were meant. */
static void
test_signals(void **state)
{
	struct start s = { 3, 5, count_signals };
	char got[64], c;
	int said, i;
	pid_t pid = start(&s, &said);

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(read(said, &c, 1), 1);
	}
	kill(pid, SIGTERM);
	assert_int_equal(end_of(pid, said, got, sizeof(got)), 0);
}

static int
say_and_sleep(const struct rt_world *w)
{
	fprintf(stderr, "%d %ld\n", (int)w->rank, (long)getpid());
	poll(NULL, 0, 60000);
	return 0;
}

/* Whatever ends the parent ends its children. */
static void
test_parent_dies(void **state)
{
	struct start s = { 2, 5, say_and_sleep };
	char line[64] = "";
	int said, i;
	pid_t pid = start(&s, &said);

	(void)state;
	/* two whole lines, in whatever pieces they come */
	for (i = 0; i < 2;) {
		size_t n = strlen(line);

		assert_int_equal(read(said, line + n, 1), 1);
		i += line[n] == '\n';
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* the pipe ends when nobody is left to write to it */
	assert_int_equal(read(said, line, 1), 0);
	close(said);
}

/* ---- from the start to the end, as a program does it ---- */

static int
meet_and_die(const struct rt_world *w)
{
	static const struct rt_axis axes[] = { { NULL, 0, 0 },
		{ "tp", 4, 0 } };
	struct rt_plan p = { .abi = RT_ABI_VERSION, .naxes = 2, .axes = axes,
		.nranks = 4, .npipes = 1, .nmicrobatches = 1, .model = "t" };
	struct rt_comm_options o = { .plan = &p, .world = *w, .timeout_s = 30,
		.report_fd = -1 };
	struct rt_error err;
	struct rt_comm *c;

	if (rt_comm_open(&c, &o, 4096, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	if (rt_comm_barrier(c, "the start", &err) != RT_OK) {
		return gave_up(c, &err);
	}
	if (w->rank == 2) {
		raise(SIGKILL);
	}
	if (rt_comm_barrier(c, "the end", &err) != RT_OK) {
		fprintf(stderr, "%s\n", err.message);
		rt_comm_free(c);
		return GAVE_UP;
	}
	return 0;
}

static void
test_whole(void **state)
{
	struct start s = { 4, 10, meet_and_die };
	char got[2048];
	int said;
	pid_t pid = start(&s, &said);

	(void)state;
	assert_int_equal(end_of(pid, said, got, sizeof(got)), 128 + SIGKILL);
	assert_non_null(strstr(got, "rank 2 (tp=2) died while rank 0 waited "
			       "for "));
	assert_non_null(strstr(got, "rank 2 (tp=2) died while rank 3 waited "
			       "for "));
	assert_non_null(strstr(got, "rank 2 was killed by signal 9 (Killed); "
			       "the others were notified\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_parent_dies),
		cmocka_unit_test(test_whole)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

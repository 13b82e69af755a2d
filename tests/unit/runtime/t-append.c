/* Files that grow by whole records, also where there is no space for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/append.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char path[64];

static int
set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	(void)state;
	snprintf(path, sizeof path, "%.40s/t-append.XXXXXX",
		 tmp ? tmp : "/tmp");
	fd = mkstemp(path);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	return fd < 0 ? -1 : close(fd);
}

static int
tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

static void
put_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void
assert_file(const char *wanted)
{
	FILE *f = fopen(path, "r");
	char got[256];
	size_t n;

	assert_non_null(f);
	n = fread(got, 1, sizeof got - 1, f);
	got[n] = '\0';
	fclose(f);
	assert_string_equal(got, wanted);
}

/* Files may have n bytes; 0: as many as before. */
static void
limit(rlim_t n)
{
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = n ? n : r.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static enum rt_status
add(struct rt_append *a, const char *text)
{
	struct rt_error err;

	return rt_append_record(a, text, strlen(text), &err);
}

static void
open_it(struct rt_append *a, bool anew, const char *mend)
{
	struct rt_error err;

	assert_int_equal(rt_append_open(a, path, anew, mend, &err), RT_OK);
}

static void
close_it(struct rt_append *a)
{
	struct rt_error err;

	assert_int_equal(rt_append_close(a, &err), RT_OK);
}

static void
test_room(void **state)
{
	struct rt_append a;
	int anew;

	(void)state;
	for (anew = 0; anew < 2; anew++) {
		put_file("zero\n");
		open_it(&a, anew, "\n");
		assert_int_equal(add(&a, "one\n"), RT_OK);
		limit(16);
		/* "two" would end in the middle */
		assert_int_equal(add(&a, "two, and more\n"), RT_IO);
		assert_file(anew ? "one\n" : "zero\none\n");
		assert_int_equal(add(&a, "three\n"), RT_OK);
		assert_int_equal(add(&a, "four, too long\n"), RT_IO);
		limit(0);
		assert_int_equal(add(&a, "five\n"), RT_OK);
		assert_int_equal(a.lost, 2);
		close_it(&a);
		assert_file(anew ? "one\nthree\nfive\n" :
			    "zero\none\nthree\nfive\n");
	}
}

/* A part that another run has left. */
static void
test_cut_before(void **state)
{
	struct rt_append a;

	(void)state;
	put_file("one\ntw");
	open_it(&a, false, "\n");
	/* no space even for the mend and the record together */
	limit(9);
	assert_int_equal(add(&a, "three\n"), RT_IO);
	assert_file("one\ntw");
	limit(0);
	assert_int_equal(add(&a, "three\n"), RT_OK);
	assert_int_equal(add(&a, "four\n"), RT_OK);
	close_it(&a);
	assert_file("one\ntw\nthree\nfour\n");
}

/* What a pipe has taken it does not give back. */
static void
pipes(const char *mend, bool goes_on)
{
	struct rt_error err;
	struct rt_append a;
	char large[100000];
	int fds[2], i, n;

	memset(large, 'x', sizeof large);
	assert_int_equal(pipe(fds), 0);
	a = (struct rt_append){ .fd = fds[1], .path = strdup("pipe"),
				.mend = mend };
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rt_append_record(&a, large, sizeof large, &err),
			 RT_IO);
	assert_true(a.torn);
	for (i = 0; i < (int)sizeof large; i += n) {
		n = (int)read(fds[0], large, sizeof large);
		if (n < (int)sizeof large) {
			break;
		}
	}
	assert_int_equal(add(&a, "next\n"), goes_on ? RT_OK : RT_IO);
	close_it(&a);
	n = (int)read(fds[0], large, sizeof large);
	assert_int_equal(n, goes_on ? 6 : 0);
	assert_true(!goes_on || memcmp(large, "\nnext\n", 6) == 0);
	close(fds[0]);
}

static void
test_pipe(void **state)
{
	(void)state;
	pipes("\n", true);
	pipes(NULL, false);
}

static void
test_not_opened(void **state)
{
	struct rt_error err;
	struct rt_append a;

	(void)state;
	assert_int_equal(rt_append_open(&a, "/dev/null/x", false, "\n", &err),
			 RT_IO);
	assert_non_null(strstr(err.message, "/dev/null/x: cannot be opened"));
	close_it(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_cut_before),
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_not_opened),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

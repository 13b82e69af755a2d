/*
 * Ranks of a host that meet while others are in their way:
 * another user who has the name of their socket, or calls them; and a first
 * rank whose numbers make no sense.
 */
#define _GNU_SOURCE	/* struct ucred */

#include "tests/unit/comm/t-comm.h"

#include "runtime/comm/shm_meet.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { NOBODY = 65534, RANKS = 3 };

static const struct rt_axis axes[] = { { NULL, 0, 0 }, { "dp", RANKS, 0 } };

/* What the one in the way saw, in pages that all processes share. */
struct seen {
	_Atomic int ready, calls, bytes;
};

static struct seen *
new_seen(void)
{
	struct seen *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(s != MAP_FAILED);
	return s;
}

static void
await(_Atomic int *what)
{
	int i;

	for (i = 0; i < 60000 && *what == 0; i++) {
		poll(NULL, 0, 1);
	}
	assert_int_not_equal(*what, 0);
}

static socklen_t
name_of(struct sockaddr_un *a, const char *job)
{
	int n;

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "llmc-%ld-%s",
		     (long)geteuid(), job);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)n);
}

/* The sum of all ranks' numbers, once they have met. */
static int
meet(const struct rt_comm_options *o, void *user)
{
	int64_t most = o->world.rank;
	struct rt_error err;
	struct rt_comm *c;

	(void)user;
	if (rt_comm_open(&c, o, 4096, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	if (rt_comm_max_i64(c, &most, 1, &err) != RT_OK) {
		return gave_up(c, &err);
	}
	rt_comm_free(c);
	return most == o->plan->nranks - 1 ? 0 : WRONG;
}

static void
start(struct ranks *r, const struct rt_plan *p, const char *job, int64_t rank,
      double timeout_s)
{
	struct rt_comm_options o = { .plan = p,
		.world = { rank, RANKS, rank, RANKS, "test", "", 0 },
		.timeout_s = timeout_s };
	int ends[2];

	snprintf(o.world.job, sizeof(o.world.job), "%s", job);
	assert_int_equal(pipe(ends), 0);
	r->pids[r->n] = fork();
	assert_true(r->pids[r->n] >= 0);
	if (r->pids[r->n] == 0) {
		close(ends[0]);
		dup2(ends[1], 2);
		o.report_fd = 2;
		exit(meet(&o, NULL));
	}
	close(ends[1]);
	r->pipes[r->n++] = ends[0];
}

static void
all_met(const struct ranks *r)
{
	int64_t i;

	for (i = 0; i < r->n; i++) {
		if (r->exits[i] != 0) {
			fail_msg("rank %d ends with %d: %s", (int)i,
				 r->exits[i], r->said[i]);
		}
	}
}

/* As another user.  Its name of the socket is that of the one it was. */
static pid_t
fork_stranger(void (*body)(const struct sockaddr_un *a, socklen_t n,
			   struct seen *s), const char *job, struct seen *s)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct sockaddr_un a;
		socklen_t n = name_of(&a, job);

		if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
			_exit(1);
		}
		body(&a, n, s);
		_exit(0);
	}
	return pid;
}

static void
end_stranger(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Takes the name and all that is brought there. */
static void
squat(const struct sockaddr_un *a, socklen_t n, struct seen *s)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), sock;
	char heard[4096];

	if (bind(fd, (const void *)a, n) != 0 || listen(fd, 8) != 0) {
		_exit(1);
	}
	s->ready = 1;
	while ((sock = accept(fd, NULL, NULL)) >= 0) {
		ssize_t got = read(sock, heard, sizeof(heard));

		s->calls++;
		s->bytes += got > 0 ? (int)got : 0;
		close(sock);
	}
}

/* Takes the name and never listens: nobody can ask whose it is. */
static void
keep_name(const struct sockaddr_un *a, socklen_t n, struct seen *s)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (bind(fd, (const void *)a, n) != 0) {
		_exit(1);
	}
	s->ready = 1;
	pause();
}

static void
meet_beside(void (*body)(const struct sockaddr_un *a, socklen_t n,
			 struct seen *s), const char *says)
{
	struct rt_plan p = plan_of(axes, 2);
	struct ranks r = { .n = 0 };
	struct seen *s = new_seen();
	char job[64];
	pid_t pid;
	int64_t i;

	if (geteuid() != 0) {
		skip();
	}
	snprintf(job, sizeof(job), "t-shm-meet-%ld", (long)getpid());
	pid = fork_stranger(body, job, s);
	await(&s->ready);
	for (i = RANKS - 1; i >= 0; i--) {
		start(&r, &p, job, i, 60);
	}
	ranks_wait(&r, 120, -1);
	end_stranger(pid);
	all_met(&r);
	assert_int_equal(s->bytes, 0);
	if (!strstr(r.said[RANKS - 1], says)) {
		fail_msg("'%s' is not in: %s", says, r.said[RANKS - 1]);
	}
	munmap(s, sizeof(*s));
}

static void
test_name_is_taken(void **state)
{
	(void)state;
	meet_beside(squat, " of user 65534 has the name by which this host's "
		    "ranks meet");
}

static void
test_name_is_kept(void **state)
{
	(void)state;
	meet_beside(keep_name, "another process has the name by which");
}

/* Calls the first rank, as many times as it may, and says nothing. */
static void
call_often(const struct sockaddr_un *a, socklen_t n, struct seen *s)
{
	int fd, i;

	for (i = 0; i < 20000; i++) {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		if (fd >= 0 && connect(fd, (const void *)a, n) == 0) {
			s->calls++;
		}
		close(fd);
		if (s->calls == 0) {
			poll(NULL, 0, 1);
		}
	}
}

static void
test_strangers_call(void **state)
{
	struct rt_plan p = plan_of(axes, 2);
	struct ranks r = { .n = 0 };
	struct seen *s = new_seen();
	char job[64];
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		skip();
	}
	snprintf(job, sizeof(job), "t-shm-call-%ld", (long)getpid());
	pid = fork_stranger(call_often, job, s);
	start(&r, &p, job, 0, 60);
	await(&s->calls);
	start(&r, &p, job, 1, 60);
	start(&r, &p, job, 2, 60);
	ranks_wait(&r, 120, -1);
	end_stranger(pid);
	all_met(&r);
	munmap(s, sizeof(*s));
}

/* Where the first rank does not come, those who wait say who has its name. */
static void
test_no_first(void **state)
{
	struct rt_plan p = plan_of(axes, 2);
	struct ranks r = { .n = 0 };
	struct seen *s = new_seen();
	char job[64];
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		skip();
	}
	snprintf(job, sizeof(job), "t-shm-none-%ld", (long)getpid());
	pid = fork_stranger(squat, job, s);
	await(&s->ready);
	start(&r, &p, job, 1, 0.5);
	ranks_wait(&r, 120, -1);
	end_stranger(pid);
	assert_int_equal(s->bytes, 0);
	if (r.exits[0] != GAVE_UP ||
	    !strstr(r.said[0], " of user 65534")) {
		fail_msg("ends with %d: %s", r.exits[0], r.said[0]);
	}
	munmap(s, sizeof(*s));
}

/* ---- numbers that make no sense ---- */

/* What a first rank of ours would say, but for one thing. */
struct lie {
	const char *name;
	int64_t ranks[RANKS], arena_bytes;
	int64_t segment_bytes;
};

static const struct lie lies[] = {
	{ "far", { 0, 1, INT64_C(1) << 40 }, 4096, 16 << 20 },
	{ "negative", { 0, 1, -1 }, 4096, 16 << 20 },
	{ "twice", { 0, 1, 0 }, 4096, 16 << 20 },
	{ "another", { 1, 0, 2 }, 4096, 16 << 20 },
	{ "long", { 0, 1, 2 }, INT64_C(1) << 40, 16 << 20 },
	{ "no-bytes", { 0, 1, 2 }, -1, 16 << 20 },
	{ "small-segment", { 0, 1, 2 }, 4096, 1 }
};

static int
new_file(int64_t bytes)
{
	int fd = memfd_create("t", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	return fd;
}

static void
answer(int sock, const struct lie *l)
{
	static struct rt_shm_answer a;
	union {
		char bytes[CMSG_SPACE(sizeof(int) * (RANKS + 1))];
		struct cmsghdr align;
	} space;
	struct iovec v = { &a, sizeof(a) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1,
		.msg_control = space.bytes, .msg_controllen = sizeof(space) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	int fds[RANKS + 1], i;

	memset(&space, 0, sizeof(space));
	a.ok = 1;
	fds[0] = new_file(l->segment_bytes);
	for (i = 0; i < RANKS; i++) {
		a.ranks[i] = l->ranks[i];
		a.arena_bytes[i] = i == 2 ? l->arena_bytes : 4096;
		fds[i + 1] = new_file(4096);
	}
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(h), fds, sizeof(fds));
	assert_int_equal(sendmsg(sock, &m, MSG_NOSIGNAL), sizeof(a));
	for (i = 0; i <= RANKS; i++) {
		close(fds[i]);
	}
}

static void
test_lies(void **state)
{
	struct rt_plan p = plan_of(axes, 2);
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		struct ranks r = { .n = 0 };
		struct rt_shm_hello h;
		struct sockaddr_un a;
		char job[64];
		socklen_t n;
		int sock;

		snprintf(job, sizeof(job), "t-shm-%s-%ld", lies[i].name,
			 (long)getpid());
		n = name_of(&a, job);
		assert_int_equal(bind(fd, (void *)&a, n), 0);
		assert_int_equal(listen(fd, 8), 0);
		start(&r, &p, job, 1, 30);
		sock = accept(fd, NULL, NULL);
		assert_true(sock >= 0);
		assert_int_equal(read(sock, &h, sizeof(h)), sizeof(h));
		assert_int_equal(h.magic, RT_SHM_MAGIC);
		answer(sock, &lies[i]);
		ranks_wait(&r, 60, -1);
		if (r.exits[0] != GAVE_UP ||
		    !strstr(r.said[0], "makes no sense")) {
			fail_msg("%s: ends with %d: %s", lies[i].name,
				 r.exits[0], r.said[0]);
		}
		close(sock);
		close(fd);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name_is_taken),
		cmocka_unit_test(test_name_is_kept),
		cmocka_unit_test(test_strangers_call),
		cmocka_unit_test(test_no_first),
		cmocka_unit_test(test_lies)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

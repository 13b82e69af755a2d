/*
 * Processes that meet by TCP as ranks of several hosts, and others
 * that call them.
 */
#ifndef T_TCP_H
#define T_TCP_H

#include "tests/unit/comm/t-comm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* An environment is "NAME=value" strings, NULL after the last. */
static inline const char *
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

#define ENV(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const struct rt_axis three[] = { { NULL, 0, 0 }, { "dp", 3, 0 } };

static inline int
meet_and_sum(const struct rt_comm_options *o, void *user)
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

/* A process that says it is that rank of so many, in that environment. */
static inline void
start_in(const char *const *env, struct ranks *r, const struct rt_plan *p,
	 int64_t rank, int64_t size, double timeout_s)
{
	struct rt_comm_options o = { .plan = p,
		.world = { rank, size, 0, 1, "test", "", 0 },
		.timeout_s = timeout_s, .report_fd = 2,
		.via = RT_VIA_TCP, .variables = { get,
				(void *)(uintptr_t)env } };
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	r->pids[r->n] = fork();
	assert_true(r->pids[r->n] >= 0);
	if (r->pids[r->n] == 0) {
		close(ends[0]);
		dup2(ends[1], 2);
		exit(meet_and_sum(&o, NULL));
	}
	close(ends[1]);
	r->pipes[r->n++] = ends[0];
}

/* They meet at a file. */
static inline void
start(struct ranks *r, const struct rt_plan *p, int64_t rank, int64_t size,
      double timeout_s)
{
	static char place[sizeof(ranks_place) + 32];
	static const char *const env[] = { place, NULL };

	snprintf(place, sizeof(place), "LLMC_RENDEZVOUS=%s", ranks_place);
	start_in(env, r, p, rank, size, timeout_s);
}

static inline void
new_place(void)
{
	snprintf(ranks_place, sizeof(ranks_place), "file:t-tcp-%ld.place",
		 (long)getpid());
	unlink(ranks_place + 5);
}

/* Where the first rank listens, once it has said so. */
static inline int
port_of_first(void)
{
	unsigned long long key;
	int version, port = 0, i;

	for (i = 0; i < 2000 && port == 0; i++) {
		FILE *f = fopen(ranks_place + 5, "r");

		if (f && fscanf(f, "llmc-rendezvous %d %llx %d", &version,
				&key, &port) != 3) {
			port = 0;
		}
		if (f) {
			fclose(f);
		}
		poll(NULL, 0, 5);
	}
	assert_true(port > 0);
	return port;
}

static inline int
stranger(int port, const void *says, size_t bytes)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_port = htons((uint16_t)port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(send(fd, says, bytes, MSG_NOSIGNAL), bytes);
	return fd;
}

static inline void
expect_said(const struct ranks *r, int64_t i, const char *text)
{
	if (r->exits[i] != GAVE_UP || !strstr(r->said[i], text)) {
		fail_msg("process %d ends with %d and says: %s", (int)i,
			 r->exits[i], r->said[i]);
	}
}

#endif

/*
 * The names of the sockets by which the ranks of a host find the first of them.
 *
 * A name is abstract: it is no file, so nothing is left behind.  It can be
 * guessed, and another user may have taken it.  Then the first rank appends a
 * random number, and the others try all names with that prefix: the kernel
 * lists them, and tells the owner of each.  A folder that only this user can
 * write to would avoid this, but another user could just as well have made that
 * folder first in /tmp or /dev/shm.
 */
#define _GNU_SOURCE	/* struct ucred, getrandom */

#include "runtime/comm/shm_meet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	/* between bind and listen a socket has its name, but no owner that can
	 * be asked for */
	ASKED = 20, ASK_MS = 10,
	NAMES = 4,		/* tries; all but the first are random */
	RANDOM = 16,		/* hexadecimal digits */
	FIELDS = 7 /* of a line of /proc/net/unix before the name */
};

struct socket_name {
	struct sockaddr_un a;
	socklen_t n;
};

/* The job's name; `more` is appended, or is "". */
static struct socket_name
name_of(const struct rt_comm *c, const char *more)
{
	struct socket_name x = { .a = { .sun_family = AF_UNIX } };
	int n = snprintf(x.a.sun_path + 1, sizeof(x.a.sun_path) - 1,
			 "llmc-%ld-%s%s", (long)geteuid(), c->world.job, more);

	n = n < (int)sizeof(x.a.sun_path) - 1 ? n :
		(int)sizeof(x.a.sun_path) - 2;
	x.n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			  (size_t)n);
	return x;
}

bool
rt_shm_is_ours(int fd, struct rt_shm_stranger *other)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) != 0) {
		return false;
	}
	if (who.uid != geteuid()) {
		*other = (struct rt_shm_stranger){ true, true, who.pid,
						   who.uid };
		return false;
	}
	return true;
}

struct rt_shm_stranger_text
rt_shm_stranger_text(const struct rt_shm_stranger *s)
{
	struct rt_shm_stranger_text t = { "another process" };

	if (s->known) {
		snprintf(t.text, sizeof(t.text), "process %lld of user %lld",
			 (long long)s->pid, (long long)s->uid);
	}
	return t;
}

/* Non-blocking: a listener may never accept. */
static int
new_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		      0);
}

/* -1, with EPERM if a process of another user listens there. */
static int
call_name(const struct socket_name *x, struct rt_shm_stranger *other)
{
	int fd = new_socket(), why;

	if (fd < 0) {
		return -1;
	}
	if (connect(fd, (const void *)&x->a, x->n) == 0) {
		if (rt_shm_is_ours(fd, other)) {
			fcntl(fd, F_SETFL, 0);
			return fd;
		}
		errno = EPERM;
	}
	why = errno;
	close(fd);
	errno = why;
	return -1;
}

/* Whether it listens for this user. A socket that is bound and does not listen
 * counts as another user's. */
static bool
is_taken_by_us(const struct socket_name *x, struct rt_shm_stranger *other)
{
	int fd, i;

	for (i = 0; i < ASKED; i++) {
		fd = call_name(x, other);
		if (fd >= 0) {
			close(fd);
			return true;
		}
		if (errno != ECONNREFUSED) {
			return false;
		}
		poll(NULL, 0, ASK_MS);
	}
	return false;
}

static enum rt_status
refused(struct rt_error *err, const char *what)
{
	return rt_fail(err, RT_IO, RT_NOWHERE, "cannot %s: %s", what,
		       strerror(errno));
}

/* -1: err says why; -2: another process has that name. */
static int
listen_at(const struct rt_comm *c, const char *more,
	  struct rt_shm_stranger *other, struct rt_error *err)
{
	struct socket_name x = name_of(c, more);
	int fd = new_socket();

	if (fd < 0) {
		refused(err, "open a socket");
		return -1;
	}
	if (bind(fd, (const void *)&x.a, x.n) == 0) {
		if (listen(fd, RT_SHM_MOST) == 0) {
			return fd;
		}
		refused(err, "listen on a socket");
		close(fd);
		return -1;
	}
	if (errno == EADDRINUSE && !is_taken_by_us(&x, other)) {
		close(fd);
		other->met = true;
		return -2;
	}
	rt_fail(err, RT_IO, RT_NOWHERE, "the first rank of job %s is here "
		"already: %s", rt_show_name(c->world.job).text,
		strerror(EADDRINUSE));
	close(fd);
	return -1;
}

int
rt_shm_listen(const struct rt_comm *c, struct rt_shm_stranger *other,
	      struct rt_error *err)
{
	char more[32] = "";
	int fd = -2, i;

	for (i = 0; i < NAMES && fd == -2; i++) {
		uint64_t random;

		fd = listen_at(c, more, other, err);
		if (getrandom(&random, sizeof(random), 0) !=
		    (ssize_t)sizeof(random)) {
			break;
		}
		snprintf(more, sizeof(more), "-%016llx",
			 (unsigned long long)random);
	}
	if (fd == -2) {
		refused(err, "find a name for a socket");
	}
	return fd < 0 ? -1 : fd;
}

/* The name in a line of the kernel's list; it begins with an @. */
static char *
name_in(char *line)
{
	int i;

	line[strcspn(line, "\n")] = '\0';
	for (i = 0; i < FIELDS && line; i++) {
		line += strspn(line, " ");
		line = strchr(line, ' ');
	}
	return line && line[1] == '@' ? line + 2 : NULL;
}

/* Tries every such name: names that another user has are skipped. */
static int
call_names(const struct rt_comm *c, struct rt_shm_stranger *other)
{
	struct socket_name x = name_of(c, "-");
	const char *begin = x.a.sun_path + 1;
	size_t n = strlen(begin);
	char line[512];
	FILE *f = fopen("/proc/net/unix", "re");
	int fd = -1;

	while (f && fd < 0 && fgets(line, sizeof(line), f)) {
		const char *name = name_in(line);

		if (name && strncmp(name, begin, n) == 0 &&
		    strlen(name) == n + RANDOM) {
			struct socket_name y = name_of(c, name + n - 1);

			fd = call_name(&y, other);
		}
	}
	if (f) {
		fclose(f);
	}
	return fd;
}

int
rt_shm_call(const struct rt_comm *c, bool all, struct rt_shm_stranger *other)
{
	struct socket_name x = name_of(c, "");
	int fd = call_name(&x, other);

	return fd < 0 && all ? call_names(c, other) : fd;
}

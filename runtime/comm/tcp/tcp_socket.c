/*
 * TCP sockets with deadlines: no call waits longer than its caller allows, and
 * every socket is closed on exec.
 */
#define _GNU_SOURCE	/* accept4, SOCK_NONBLOCK */

#include "runtime/comm/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * A host that is gone closes nothing. An idle connection is probed after 5 s,
 * five times; what is under way is limited by the timeout of the collective.
 * (TCP_USER_TIMEOUT would also cut off a rank that computes for long and so
 * reads nothing.)
 */
enum { IDLE_S = 5, BETWEEN_S = 2, ASKED = 5 };

union any {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

enum rt_status
rt_tcp_refused(struct rt_error *err, const char *what)
{
	return rt_fail(err, RT_IO, RT_NOWHERE, "cannot %s: %s", what,
		       strerror(errno));
}

/* ---- addresses ---- */

static socklen_t
to_system(const struct rt_tcp_address *a, union any *s)
{
	memset(s, 0, sizeof(*s));
	if (a->family == 4) {
		s->v4.sin_family = AF_INET;
		s->v4.sin_port = htons((uint16_t)a->port);
		memcpy(&s->v4.sin_addr, a->bytes, 4);
		return sizeof(s->v4);
	}
	s->v6.sin6_family = AF_INET6;
	s->v6.sin6_port = htons((uint16_t)a->port);
	memcpy(&s->v6.sin6_addr, a->bytes, 16);
	return sizeof(s->v6);
}

/* An IPv4 address that is mapped into IPv6 is IPv4. */
static bool
from_system(const union any *s, struct rt_tcp_address *a)
{
	memset(a, 0, sizeof(*a));
	if (s->any.sa_family == AF_INET) {
		a->family = 4;
		a->port = ntohs(s->v4.sin_port);
		memcpy(a->bytes, &s->v4.sin_addr, 4);
		return true;
	}
	if (s->any.sa_family != AF_INET6) {
		return false;
	}
	a->family = 6;
	a->port = ntohs(s->v6.sin6_port);
	memcpy(a->bytes, &s->v6.sin6_addr, 16);
	if (IN6_IS_ADDR_V4MAPPED(&s->v6.sin6_addr)) {
		a->family = 4;
		memmove(a->bytes, a->bytes + 12, 4);
		memset(a->bytes + 4, 0, 12);
	}
	return true;
}

struct rt_tcp_text
rt_tcp_text(const struct rt_tcp_address *a)
{
	struct rt_tcp_text t = { "" };
	char host[INET6_ADDRSTRLEN] = "?";
	bool v6 = a->family == 6;

	inet_ntop(v6 ? AF_INET6 : AF_INET, a->bytes, host, sizeof(host));
	snprintf(t.text, sizeof(t.text), v6 ? "[%s]:%d" : "%s:%d", host,
		 (int)a->port);
	return t;
}

bool
rt_tcp_is_loopback(const struct rt_tcp_address *a)
{
	static const uint8_t v6[16] = { [15] = 1 };

	return a->family == 4 ? a->bytes[0] == 127 :
	       a->family == 6 && memcmp(a->bytes, v6, 16) == 0;
}

int64_t
rt_tcp_look_up(const char *host, struct rt_tcp_address *out, int64_t most)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all, *i;
	int64_t n = 0;

	if (getaddrinfo(host, NULL, &hints, &all) != 0) {
		return 0;
	}
	for (i = all; i && n < most; i = i->ai_next) {
		union any s;

		if (i->ai_addrlen > sizeof(s)) {
			continue;
		}
		memset(&s, 0, sizeof(s));
		memcpy(&s, i->ai_addr, i->ai_addrlen);
		n += from_system(&s, &out[n]);
	}
	freeaddrinfo(all);
	return n;
}

int64_t
rt_tcp_own_addresses(struct rt_tcp_address *out, int64_t most)
{
	struct ifaddrs *all, *i;
	int64_t n = 0;
	int round;

	if (getifaddrs(&all) != 0) {
		return 0;
	}
	for (round = 0; round < 2; round++) {
		for (i = all; i && n < most; i = i->ifa_next) {
			sa_family_t f = i->ifa_addr ? i->ifa_addr->sa_family
						    : AF_UNSPEC;
			union any s;

			if (!(i->ifa_flags & IFF_UP) ||
			    (f != AF_INET && f != AF_INET6)) {
				continue;
			}
			memset(&s, 0, sizeof(s));
			memcpy(&s, i->ifa_addr, f == AF_INET ? sizeof(s.v4)
							     : sizeof(s.v6));
			/* link-local addresses need the interface as well */
			n += (f == AF_INET ||
			      !IN6_IS_ADDR_LINKLOCAL(&s.v6.sin6_addr)) &&
			     from_system(&s, &out[n]) &&
			     rt_tcp_is_loopback(&out[n]) == (round == 1);
		}
	}
	freeifaddrs(all);
	return n;
}

bool
rt_tcp_this_end(int fd, struct rt_tcp_address *out)
{
	union any s;
	socklen_t n = sizeof(s);

	memset(&s, 0, sizeof(s));
	return getsockname(fd, &s.any, &n) == 0 && from_system(&s, out);
}

/* ---- deadlines ---- */

int
rt_tcp_left_ms(double until_us)
{
	double left = (until_us - rt_now_us()) * 1e-3;

	return left <= 0 ? 0 : left > 1e6 ? 1000000 : (int)left + 1;
}

static bool
poll_until(int fd, short what, double until_us)
{
	for (;;) {
		struct pollfd p = { fd, what, 0 };
		int n = poll(&p, 1, rt_tcp_left_ms(until_us));

		if (n > 0) {
			return true;
		}
		if (n == 0 && rt_now_us() >= until_us) {
			errno = ETIMEDOUT;
			return false;
		}
		if (n < 0 && errno != EINTR) {
			return false;
		}
	}
}

bool
rt_tcp_read(int fd, void *at, size_t bytes, double until_us)
{
	char *to = at;

	while (bytes > 0) {
		ssize_t n = recv(fd, to, bytes, MSG_DONTWAIT);

		if (n > 0) {
			to += n;
			bytes -= (size_t)n;
		} else if (n == 0) {
			errno = 0;
			return false;
		} else if (errno != EINTR &&
			   ((errno != EAGAIN && errno != EWOULDBLOCK) ||
			    !poll_until(fd, POLLIN, until_us))) {
			return false;
		}
	}
	return true;
}

bool
rt_tcp_write(int fd, const void *at, size_t bytes, double until_us)
{
	const char *from = at;

	while (bytes > 0) {
		ssize_t n = send(fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0) {
			from += n;
			bytes -= (size_t)n;
		} else if (errno != EINTR &&
			   ((errno != EAGAIN && errno != EWOULDBLOCK) ||
			    !poll_until(fd, POLLOUT, until_us))) {
			return false;
		}
	}
	return true;
}

/* ---- connections ---- */

/* Options that cannot be set keep the system's defaults. */
static void
set_options(int fd)
{
	static const struct {
		int level, name, value;
	} all[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, BETWEEN_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, ASKED },
	};
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		setsockopt(fd, all[i].level, all[i].name, &all[i].value,
			   sizeof(all[i].value));
	}
}

static int
new_socket(int family)
{
	return socket(family == 4 ? AF_INET : AF_INET6,
		      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int
close_failed(int fd)
{
	int why = errno;

	if (fd >= 0) {
		close(fd);
	}
	errno = why;
	return -1;
}

static int
listen_at(const struct rt_tcp_address *a, int backlog)
{
	int fd = new_socket(a->family), yes = 1, no = 0;
	union any s;
	socklen_t n = to_system(a, &s);

	/* a port that the last run has just left may be used again */
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
	    (a->family == 6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)) !=
		     0) ||
	    bind(fd, &s.any, n) != 0 || listen(fd, backlog) != 0) {
		return close_failed(fd);
	}
	return fd;
}

/* Falls back to IPv4 where the host has no IPv6. */
int
rt_tcp_listen(const struct rt_tcp_address *a, int backlog)
{
	struct rt_tcp_address all = { .family = 6, .port = a->port };
	int fd;

	if (a->family != 0) {
		return listen_at(a, backlog);
	}
	fd = listen_at(&all, backlog);
	if (fd >= 0 || errno == EADDRINUSE) {
		return fd;
	}
	all.family = 4;
	return listen_at(&all, backlog);
}

/* Whether a socket is connected to itself: where nobody listens at a port of
 * this host, the system may pick that very port for this end. */
static bool
is_itself(int fd, const struct rt_tcp_address *to)
{
	struct rt_tcp_address own;

	return rt_tcp_this_end(fd, &own) && own.port == to->port &&
	       own.family == to->family &&
	       memcmp(own.bytes, to->bytes, sizeof(own.bytes)) == 0;
}

int
rt_tcp_connect(const struct rt_tcp_address *a, double until_us)
{
	int fd = new_socket(a->family), why = 0;
	socklen_t size = sizeof(why), n;
	union any s;

	if (fd < 0) {
		return -1;
	}
	n = to_system(a, &s);
	set_options(fd);
	if (connect(fd, &s.any, n) != 0 &&
	    (errno != EINPROGRESS || !poll_until(fd, POLLOUT, until_us))) {
		return close_failed(fd);
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0 || why) {
		errno = why ? why : errno;
		return close_failed(fd);
	}
	if (is_itself(fd, a)) {
		errno = ECONNREFUSED;
		return close_failed(fd);
	}
	return fd;
}

int
rt_tcp_accept(int listener, struct rt_tcp_address *from)
{
	union any s;
	socklen_t n = sizeof(s);
	int fd;

	memset(&s, 0, sizeof(s));
	fd = accept4(listener, &s.any, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		from_system(&s, from);
		set_options(fd);
	}
	return fd;
}

/*
 * The first rank: accepts the others, sends each the addresses of all, and
 * tells all why if they cannot run.
 */
#define _GNU_SOURCE	/* getrandom */

#include "runtime/comm/tcp/tcp_meet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* How long ranks that come late still get the reason why there is no run. */
#define FAREWELL_US 1e6
/* A port that was just in use may not be free at once. */
#define PORT_US 3e6

/* Clock and signals are checked at least so often. */
enum { LOOK_MS = 200 };

/* ---- where it listens ---- */

static bool
is_own(const struct rt_tcp_address *a)
{
	struct rt_tcp_address all[RT_TCP_ADDRESSES];
	int64_t n = rt_tcp_own_addresses(all, RT_TCP_ADDRESSES), i;

	for (i = 0; i < n; i++) {
		if (all[i].family == a->family &&
		    memcmp(all[i].bytes, a->bytes, sizeof(a->bytes)) == 0) {
			return true;
		}
	}
	return rt_tcp_is_loopback(a);
}

static bool
is_number(const char *place)
{
	uint8_t bytes[16];

	return inet_pton(AF_INET, place, bytes) == 1 ||
	       inet_pton(AF_INET6, place, bytes) == 1;
}

/*
 * The named addresses that this host has; it listens at these alone. If a host
 * knows its own name as loopback only, or if a file names no address, the
 * answer is: all of them.
 */
static int64_t
named(const struct rt_tcp_meeting *m, struct rt_tcp_address *out)
{
	const struct rt_world *w = &m->c->world;
	bool alone = w->local_size == w->size, outside = false;
	const char *place = m->at.by_file && alone ? "127.0.0.1" : m->at.place;
	int64_t n = m->at.by_file && !alone ? 0 :
		rt_tcp_look_up(place, out, RT_TCP_ADDRESSES), own = 0, i;

	if (is_number(place)) {
		return n;
	}
	for (i = 0; i < n; i++) {
		if (is_own(&out[i])) {
			outside |= !rt_tcp_is_loopback(&out[i]);
			out[own++] = out[i];
		}
	}
	if (!outside && !alone &&
	    (m->at.by_file || strcmp(place, "localhost") != 0)) {
		out[0] = (struct rt_tcp_address){ .family = 0 };
		return 1;
	}
	for (i = 0, n = 0; i < own; i++) {
		if (!outside || !rt_tcp_is_loopback(&out[i])) {
			out[n++] = out[i];
		}
	}
	return n;
}

/* Listens at the first of these addresses that is free with that port. */
static bool
listen_at(struct rt_tcp_meeting *m, const struct rt_tcp_address *all,
	  int64_t n, int64_t port)
{
	int why = EADDRNOTAVAIL;
	int64_t i;

	for (i = 0; i < n && m->listener < 0; i++) {
		struct rt_tcp_address a = all[i];

		a.port = (int32_t)port;
		m->listener = rt_tcp_listen(&a, 4096);
		m->loopback = a.family != 0 && rt_tcp_is_loopback(&a);
		/* an address in use may be free soon */
		why = why == EADDRINUSE ? why : errno;
	}
	errno = why;
	return m->listener >= 0;
}

static enum rt_status
listen_for_all(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + PORT_US;
	struct rt_tcp_address all[RT_TCP_ADDRESSES], own;
	int64_t n = named(m, all), i;

	if (m->at.by_file) {
		if (getrandom(&m->at.key, sizeof(m->at.key), 0) < 0 ||
		    getrandom(m->at.token, sizeof(m->at.token), 0) < 0 ||
		    !listen_at(m, all, n, 0) ||
		    !rt_tcp_this_end(m->listener, &own)) {
			return rt_tcp_refused(err, "listen for the others");
		}
		own.family = all[0].family == 0 ? 0 : own.family;
		return rt_tcp_place_write(m, &own, err);
	}
	for (;;) {
		for (i = 0; i < m->at.nports; i++) {
			if (listen_at(m, all, n, m->at.port + i)) {
				return RT_OK;
			}
		}
		if (errno != EADDRINUSE || rt_now_us() > until) {
			break;
		}
		poll(NULL, 0, 20);
	}
	return rt_fail(err, RT_IO, RT_NOWHERE, "rank 0 cannot listen at %s: "
		       "%s%s", m->where, strerror(errno),
		       errno == EADDRNOTAVAIL ?
		       "; name an address of rank 0's host" : "");
}

/* ---- accepting ranks ---- */

/* Sends the reason of a failure to all ranks, those too that come a little
 * later. */
static enum rt_status
refuse_all(struct rt_tcp_meeting *m, const struct rt_error *why)
{
	double until = rt_now_us() + FAREWELL_US;
	int64_t size = m->c->world.size, i;

	for (i = 1; i < size; i++) {
		if (m->ends[i].fd >= 0) {
			rt_tcp_send_verdict(m, m->ends[i].fd,
					    &m->ends[i].session, why, NULL, 0,
					    until);
			m->notified++;
		}
	}
	while (m->listener >= 0 && m->notified < size - 1 &&
	       rt_now_us() < until &&
	       rt_tcp_guests_wait(m, 0, rt_tcp_left_ms(until)) == 0) {
		for (i = 0; i < RT_TCP_GUESTS; i++) {
			struct rt_tcp_guest *g = &m->guests[i];

			if (g->fd >= 0 && g->whole) {
				rt_tcp_send_verdict(m, g->fd, &g->session, why,
						    NULL, 0, until);
				close(g->fd);
				g->fd = -1;
				m->notified++;
			}
		}
	}
	return why->status;
}

/* Whether the other rank's plan and sizes are those of the first one. */
static enum rt_status
check_hello(const struct rt_tcp_meeting *m, const struct rt_tcp_hello *h,
	    struct rt_error *err)
{
	if (h->abi != m->own.abi || h->plan != m->own.plan) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE,
			       "rank %lld runs another plan than rank 0: "
			       "start the same plan on all ranks",
			       (long long)h->rank);
	}
	if (h->size != m->own.size) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE,
			       "rank %lld on %s says that there are %lld "
			       "ranks, rank 0 that there are %lld",
			       (long long)h->rank, rt_show_name(h->host).text,
			       (long long)h->size, (long long)m->own.size);
	}
	if (h->rank < 0 || h->rank >= h->size) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "a process on %s "
			       "says that it is rank %lld of %lld",
			       rt_show_name(h->host).text, (long long)h->rank,
			       (long long)h->size);
	}
	if (h->checks != m->own.checks) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "rank %lld on %s "
			       "has " RT_TCP_CHECKS " %s, rank 0 has it %s: "
			       "set the same on all ranks",
			       (long long)h->rank, rt_show_name(h->host).text,
			       h->checks ? "on" : "off",
			       m->own.checks ? "on" : "off");
	}
	if (h->rank == 0 || m->ends[h->rank].fd >= 0) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "two processes say "
			       "that they are rank %lld: one on %s, one on %s",
			       (long long)h->rank,
			       rt_show_name(m->hellos[h->rank].host).text,
			       rt_show_name(h->host).text);
	}
	return RT_OK;
}

/* Answers at once that the rank is accepted: from now on the run ends if it
 * does. */
static void
admit_guest(struct rt_tcp_meeting *m, struct rt_tcp_guest *g, int64_t *come)
{
	int64_t rank = g->hello.rank;
	struct rt_error why;

	if (check_hello(m, &g->hello, &why) != RT_OK) {
		rt_tcp_reject(m, g, &why);
		return;
	}
	if (!rt_tcp_send_verdict(m, g->fd, &g->session, NULL, NULL, 0,
				 rt_now_us())) {
		close(g->fd);
		g->fd = -1;
		return;
	}
	m->ends[rank].fd = g->fd;
	m->ends[rank].session = g->session;
	m->hellos[rank] = g->hello;
	g->fd = -1;
	(*come)++;
}

static enum rt_status
report_missing(struct rt_tcp_meeting *m, int64_t come, struct rt_error *err)
{
	struct rt_line list = { "", 0 };
	int64_t i, n = 0;

	for (i = 1; i < m->c->world.size; i++) {
		if (m->ends[i].fd < 0) {
			rt_line_rank(&list, n++, i);
		}
	}
	rt_line_more_ranks(&list, n);
	return rt_fail(err, RT_IO, RT_NOWHERE, "%lld of %lld ranks have come "
		       "to %s within %g s; missing: %s%s%s", (long long)come,
		       (long long)m->c->world.size, m->where,
		       m->c->timeout_us * 1e-6, list.at,
		       m->turned_away ? "; turned away " : "",
		       m->last_away);
}

/* Signals that end a process by default, and that other processes send. */
static const int ends[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1,
	SIGUSR2 };

/* A pending signal that would end this process; 0: none. */
static int
end_signal(void)
{
	sigset_t pending;
	size_t i;

	sigemptyset(&pending);
	sigpending(&pending);
	for (i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct sigaction a;

		/* a blocked signal that is ignored is pending as well */
		if (sigismember(&pending, ends[i]) == 1 &&
		    sigaction(ends[i], NULL, &a) == 0 &&
		    a.sa_handler != SIG_IGN) {
			return ends[i];
		}
	}
	return 0;
}

/* Accepts all ranks.  One that was accepted sends nothing until it gets its
 * table, unless it has ended. */
static enum rt_status
accept_all(struct rt_tcp_meeting *m, struct rt_error *err)
{
	int64_t size = m->c->world.size, come = 1, i;

	while (come < size) {
		int sig = end_signal();

		for (i = 1; i < size; i++) {
			m->polls[i - 1] = (struct pollfd){ m->ends[i].fd,
							   POLLIN, 0 };
		}
		if (sig) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "rank 0 was "
				       "asked to end by signal %d before all "
				       "ranks had met", sig);
		}
		if (rt_now_us() > m->until_us) {
			return report_missing(m, come, err);
		}
		i = rt_tcp_left_ms(m->until_us);
		if (rt_tcp_guests_wait(m, size - 1, i < LOOK_MS ? (int)i
								: LOOK_MS)) {
			return rt_tcp_refused(err, "wait for the other ranks");
		}
		for (i = 1; i < size; i++) {
			if (m->polls[i - 1].revents) {
				return rt_tcp_report_ended(m, i, err);
			}
		}
		for (i = 0; i < RT_TCP_GUESTS; i++) {
			if (m->guests[i].fd >= 0 && m->guests[i].whole) {
				admit_guest(m, &m->guests[i], &come);
			}
		}
	}
	return RT_OK;
}

/*
 * The address at which each rank listens, as that rank can reach it. A rank of
 * this host that came by loopback is reached by others at the address of this
 * one.
 */
static void
table_for(const struct rt_tcp_meeting *m, int64_t rank)
{
	struct rt_tcp_address here;
	int64_t i;
	bool outside = rt_tcp_this_end(m->ends[rank].fd, &here) &&
		       !rt_tcp_is_loopback(&here);

	for (i = 1; i < m->c->world.size; i++) {
		m->table[i] = m->hellos[i].at;
		if (outside && rt_tcp_is_loopback(&m->table[i])) {
			here.port = m->table[i].port;
			m->table[i] = here;
		}
	}
}

static enum rt_status
notify_all(struct rt_tcp_meeting *m, bool with_table, struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us;
	int64_t n = m->c->world.size, i;

	for (i = 1; i < n; i++) {
		if (with_table) {
			table_for(m, i);
		}
		if (!rt_tcp_send_verdict(m, m->ends[i].fd, &m->ends[i].session,
					 NULL,
					 m->table, with_table ? (size_t)n *
					 sizeof(*m->table) : 0, until)) {
			return rt_tcp_report_ended(m, i, err);
		}
	}
	return RT_OK;
}

/* Each rank reports whether it has connected to all others. */
static enum rt_status
read_reports(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us + RT_TCP_SLACK_US;
	int64_t size = m->c->world.size, left = size - 1, i;

	for (i = 0; i < size; i++) {
		m->polls[i] = (struct pollfd){ m->ends[i].fd, POLLIN, 0 };
	}
	while (left > 0) {
		int n = poll(m->polls, (nfds_t)size, rt_tcp_left_ms(until));

		if (n == 0 && rt_now_us() > until) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "%lld ranks "
				       "have not reached all others within "
				       "%g s", (long long)left,
				       m->c->timeout_us * 1e-6);
		}
		for (i = 1; i < size; i++) {
			struct rt_tcp_verdict v;

			if (m->polls[i].fd < 0 || !m->polls[i].revents) {
				continue;
			}
			if (!rt_tcp_read_verdict(m->ends[i].fd,
						 &m->ends[i].session,
						 &v, NULL, 0,
						 rt_now_us() + RT_TCP_SAY_US)) {
				return rt_tcp_report_ended(m, i, err);
			}
			if (!v.ok) {
				return rt_fail(err, RT_IO, RT_NOWHERE, "%s",
					       v.why);
			}
			m->polls[i].fd = -1;
			left--;
		}
	}
	return RT_OK;
}

/* While a file names this rank's address, signals that would end it are
 * delayed, so that the file is removed before they act. */
static enum rt_status
meet_all(struct rt_tcp_meeting *m, struct rt_error *err)
{
	sigset_t wait, before;
	enum rt_status s;
	size_t i;

	sigemptyset(&wait);
	for (i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		sigaddset(&wait, ends[i]);
	}
	pthread_sigmask(SIG_BLOCK, &wait, &before);
	s = listen_for_all(m, err);
	if (s == RT_OK) {
		s = rt_tcp_keys(m, err);
	}
	if (s == RT_OK) {
		s = accept_all(m, err);
	}
	rt_tcp_place_remove(m);
	if (s != RT_OK) {
		refuse_all(m, err);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return s;
}

enum rt_status
rt_tcp_host(struct rt_tcp_meeting *m, struct rt_error *err)
{
	enum rt_status s;

	m->hellos[0] = m->own;
	if (getrandom(&m->token, sizeof(m->token), 0) < 0) {
		return rt_tcp_refused(err, "draw a random number");
	}
	s = meet_all(m, err);
	if (s != RT_OK) {
		return s;
	}
	s = notify_all(m, true, err);
	if (s == RT_OK) {
		s = read_reports(m, err);
	}
	if (s == RT_OK) {
		s = notify_all(m, false, err);
	}
	return s == RT_OK ? RT_OK : refuse_all(m, err);
}

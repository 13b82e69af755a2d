/*
 * tcp-host.c - the first rank lets the others in, tells them of each other,
 * and tells all why if they cannot run.
 */
#define _GNU_SOURCE	/* getrandom */

#include "runtime/tcp-meet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* So long those that come late still hear why there is no run. */
#define FAREWELL_US 1e6
/* A port that was just left may not be free at once. */
#define PORT_US 3e6

enum { LISTED = 8 };

/* All that come are heard, whatever their hosts call this one. */
static bool
listen_at(struct rt_tcp_meeting *m, int64_t port)
{
	struct rt_tcp_address a = { .port = (int32_t)port };
	bool here = strcmp(m->at.place, "localhost") == 0 ||
		    strncmp(m->at.place, "127.", 4) == 0;

	if (!m->at.by_file && here) {
		a.family = 4;
		a.bytes[0] = 127;
		a.bytes[3] = 1;
	}
	m->listener = rt_tcp_listen(&a, 4096);
	return m->listener >= 0;
}

static enum rt_status
listen_for_all(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + PORT_US;
	struct rt_tcp_address own;
	int64_t i;

	if (m->at.by_file) {
		if (getrandom(&m->at.key, sizeof(m->at.key), 0) < 0 ||
		    !listen_at(m, 0) || !rt_tcp_this_end(m->listener, &own)) {
			return rt_tcp_refused(err, "listen for the others");
		}
		return rt_tcp_place_write(m, own.port, err);
	}
	for (;;) {
		for (i = 0; i < m->at.nports; i++) {
			if (listen_at(m, m->at.port + i)) {
				return RT_OK;
			}
		}
		if (errno != EADDRINUSE || rt_now_us() > until) {
			break;
		}
		poll(NULL, 0, 20);
	}
	return rt_fail(err, RT_IO, RT_NOWHERE, "rank 0 cannot listen at %s: "
		       "%s", m->where, strerror(errno));
}

/* All hear why it ends here, those too that come a little later. */
static enum rt_status
send_home(struct rt_tcp_meeting *m, const struct rt_error *why)
{
	double until = rt_now_us() + FAREWELL_US;
	struct rt_tcp_greeting g = { RT_TCP_MAGIC, RT_TCP_VERSION, m->at.key };
	struct rt_tcp_verdict v = rt_tcp_verdict_of(m, why);
	int64_t i;

	for (i = 1; i < m->c->world.size; i++) {
		if (m->socks[i] >= 0) {
			rt_tcp_write(m->socks[i], &v, sizeof(v), until);
			m->told++;
		}
	}
	while (m->listener >= 0 && m->told < m->c->world.size - 1 &&
	       rt_tcp_can_read(m->listener, until)) {
		int fd = rt_tcp_accept(m->listener);
		struct rt_tcp_hello h;

		/* what nobody reads would cut off the answer */
		if (fd >= 0 && rt_tcp_write(fd, &g, sizeof(g), until) &&
		    rt_tcp_read(fd, &h, sizeof(h), until)) {
			rt_tcp_write(fd, &v, sizeof(v), until);
			m->told++;
		}
		if (fd >= 0) {
			close(fd);
		}
	}
	return why->status;
}

/* Is what a rank brings what the first one has? */
static enum rt_status
judge(const struct rt_tcp_meeting *m, struct rt_tcp_hello *h,
      struct rt_error *err)
{
	h->host[sizeof(h->host) - 1] = '\0';
	if (h->version != RT_TCP_VERSION || h->abi != m->own.abi ||
	    h->plan != m->own.plan) {
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
	if (h->rank == 0 || m->socks[h->rank] >= 0) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "two processes say "
			       "that they are rank %lld: one on %s, one on %s",
			       (long long)h->rank,
			       rt_show_name(m->hellos[h->rank].host).text,
			       rt_show_name(h->host).text);
	}
	return RT_OK;
}

/* One that cannot be seated is told at once, as it has no place. */
static enum rt_status
seat(struct rt_tcp_meeting *m, struct rt_tcp_guest *g, int64_t *come,
     struct rt_error *err)
{
	enum rt_status s;

	if (g->hello.magic != RT_TCP_MAGIC) {
		close(g->fd);
		g->fd = -1;
		return RT_OK;
	}
	s = judge(m, &g->hello, err);
	if (s == RT_OK) {
		m->socks[g->hello.rank] = g->fd;
		m->hellos[g->hello.rank] = g->hello;
		(*come)++;
	} else {
		struct rt_tcp_verdict v = rt_tcp_verdict_of(m, err);

		rt_tcp_write(g->fd, &v, sizeof(v), rt_now_us() + RT_TCP_SAY_US);
		close(g->fd);
		m->told++;
	}
	g->fd = -1;
	return s;
}

/* One more, if there is room for strangers; it hears where it is. */
static void
greet(struct rt_tcp_meeting *m)
{
	struct rt_tcp_greeting hi = { RT_TCP_MAGIC, RT_TCP_VERSION, m->at.key };
	int fd = rt_tcp_accept(m->listener), i;

	for (i = 0; i < RT_TCP_STRANGERS && m->guests[i].fd >= 0; i++) {
	}
	if (fd < 0) {
		return;
	}
	if (i == RT_TCP_STRANGERS ||
	    !rt_tcp_write(fd, &hi, sizeof(hi), rt_now_us())) {
		close(fd);
		return;
	}
	m->guests[i] = (struct rt_tcp_guest){ .fd = fd, .since = rt_now_us() };
}

static enum rt_status
hear_guest(struct rt_tcp_meeting *m, struct rt_tcp_guest *g, bool can,
	   int64_t *come, struct rt_error *err)
{
	ssize_t n = can ? read(g->fd, (char *)&g->hello + g->heard,
			       sizeof(g->hello) - g->heard) : 0;

	g->heard += n > 0 ? (size_t)n : 0;
	if (g->heard == sizeof(g->hello)) {
		return seat(m, g, come, err);
	}
	if ((can && (n == 0 || (n < 0 && errno != EAGAIN))) ||
	    rt_now_us() - g->since > RT_TCP_SAY_US) {
		close(g->fd);
		g->fd = -1;
	}
	return RT_OK;
}

static enum rt_status
say_missing(struct rt_tcp_meeting *m, int64_t come, struct rt_error *err)
{
	char list[96] = "";
	int64_t i, n = 0;

	for (i = 1; i < m->c->world.size; i++) {
		if (m->socks[i] < 0 && n++ < LISTED) {
			size_t at = strlen(list);

			snprintf(list + at, sizeof(list) - at, "%s%lld",
				 at ? ", " : "", (long long)i);
		}
	}
	return rt_fail(err, RT_IO, RT_NOWHERE, "%lld of %lld ranks have come "
		       "to %s within %g s; missing: %s%s", (long long)come,
		       (long long)m->c->world.size, m->where,
		       m->c->timeout_us * 1e-6, list,
		       n > LISTED ? " and more" : "");
}

/* Who has come says nothing more now, unless it has ended. */
static enum rt_status
gather(struct rt_tcp_meeting *m, struct rt_error *err)
{
	int64_t size = m->c->world.size, come = 1, i;
	enum rt_status s = RT_OK;

	while (come < size && s == RT_OK) {
		struct pollfd *guests = m->polls + size;

		m->polls[0] = (struct pollfd){ m->listener, POLLIN, 0 };
		for (i = 1; i < size; i++) {
			m->polls[i] = (struct pollfd){ m->socks[i], POLLIN,
						       0 };
		}
		for (i = 0; i < RT_TCP_STRANGERS; i++) {
			guests[i] = (struct pollfd){ m->guests[i].fd, POLLIN,
						     0 };
		}
		if (rt_now_us() > m->until_us) {
			return say_missing(m, come, err);
		}
		i = rt_tcp_left_ms(m->until_us);
		if (poll(m->polls, (nfds_t)(size + RT_TCP_STRANGERS),
			 i < 200 ? (int)i : 200) < 0 && errno != EINTR) {
			return rt_tcp_refused(err, "wait for the other ranks");
		}
		for (i = 1; i < size; i++) {
			if (m->polls[i].revents) {
				return rt_tcp_say_ended(m, i, err);
			}
		}
		for (i = 0; i < RT_TCP_STRANGERS && s == RT_OK; i++) {
			if (m->guests[i].fd >= 0) {
				s = hear_guest(m, &m->guests[i],
					       guests[i].revents != 0, &come,
					       err);
			}
		}
		if (m->polls[0].revents) {
			greet(m);
		}
	}
	return s;
}

/*
 * Where all listen, as that rank can reach it.  A rank of this host that has
 * come by loopback is, to others, where they found this one.
 */
static void
table_for(const struct rt_tcp_meeting *m, int64_t rank)
{
	struct rt_tcp_address here;
	int64_t i;
	bool outside = rt_tcp_this_end(m->socks[rank], &here) &&
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
tell_all(struct rt_tcp_meeting *m, bool with_table, struct rt_error *err)
{
	struct rt_tcp_verdict v = rt_tcp_verdict_of(m, NULL);
	double until = rt_now_us() + m->c->timeout_us;
	int64_t n = m->c->world.size, i;

	for (i = 1; i < n; i++) {
		if (with_table) {
			table_for(m, i);
		}
		if (!rt_tcp_write(m->socks[i], &v, sizeof(v), until) ||
		    (with_table &&
		     !rt_tcp_write(m->socks[i], m->table, (size_t)n *
				   sizeof(*m->table), until))) {
			return rt_tcp_say_ended(m, i, err);
		}
	}
	return RT_OK;
}

/* Each says whether it has reached all others. */
static enum rt_status
hear_all(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us + RT_TCP_SLACK_US;
	int64_t size = m->c->world.size, left = size - 1, i;

	for (i = 0; i < size; i++) {
		m->polls[i] = (struct pollfd){ m->socks[i], POLLIN, 0 };
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
			if (!rt_tcp_read(m->socks[i], &v, sizeof(v),
					 rt_now_us() + RT_TCP_SAY_US)) {
				return rt_tcp_say_ended(m, i, err);
			}
			v.why[sizeof(v.why) - 1] = '\0';
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

enum rt_status
rt_tcp_host(struct rt_tcp_meeting *m, struct rt_error *err)
{
	size_t n = (size_t)m->c->world.size;
	enum rt_status s = RT_NOMEM;

	m->hellos = calloc(n, sizeof(*m->hellos));
	m->polls = calloc(n + RT_TCP_STRANGERS, sizeof(*m->polls));
	if (!m->hellos || !m->polls) {
		return rt_no_memory(err, NULL);
	}
	m->hellos[0] = m->own;
	if (getrandom(&m->token, sizeof(m->token), 0) < 0) {
		return rt_tcp_refused(err, "draw a random number");
	}
	s = listen_for_all(m, err);
	if (s == RT_OK) {
		s = gather(m, err);
	}
	if (s == RT_OK) {
		s = tell_all(m, true, err);
	}
	if (s == RT_OK) {
		s = hear_all(m, err);
	}
	if (s == RT_OK) {
		s = tell_all(m, false, err);
	}
	if (s != RT_OK) {
		send_home(m, err);
	}
	rt_tcp_place_remove(m);
	return s;
}

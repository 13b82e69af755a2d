/*
 * tcp-visit.c - how a rank finds the first one, and through it all others.
 */
#include "runtime/tcp-meet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of one try to find the first rank; then the next address is tried. */
#define TRY_US 2e6

/* Is it the first rank of this run?  What keeps one from knowing, in why. */
static bool
is_first(const struct rt_tcp_meeting *m, int fd, char *why, size_t room,
	 bool *other_version)
{
	struct rt_tcp_greeting g;

	*other_version = false;
	if (!rt_tcp_read(fd, &g, sizeof(g), rt_now_us() + TRY_US)) {
		snprintf(why, room, "whoever listens there says nothing");
		return false;
	}
	if (g.magic != RT_TCP_MAGIC) {
		snprintf(why, room, "another program listens there");
		return false;
	}
	if (g.key != m->at.key) {
		snprintf(why, room, "another run's first rank listens there");
		return false;
	}
	*other_version = g.version != RT_TCP_VERSION;
	return !*other_version;
}

/* The first rank's connection among these addresses and ports, or -1. */
static int
try_all(const struct rt_tcp_meeting *m, struct rt_tcp_address *all, int64_t n,
	char *why, size_t room, bool *other_version)
{
	int64_t ports = m->at.by_file ? 1 : m->at.nports, i, k;

	for (i = 0; i < n; i++) {
		for (k = 0; k < ports; k++) {
			double until = rt_now_us() + TRY_US;
			struct rt_tcp_address a = all[i];
			int fd;

			a.port = m->at.by_file ? a.port :
				(int32_t)(m->at.port + k);
			fd = rt_tcp_connect(&a, until < m->until_us ? until
							: m->until_us);
			if (fd < 0) {
				snprintf(why, room, "%s: %s",
					 rt_tcp_text(&a).text,
					 strerror(errno));
				continue;
			}
			if (is_first(m, fd, why, room, other_version)) {
				return fd;
			}
			close(fd);
			if (*other_version) {
				return -1;
			}
		}
	}
	return -1;
}

static enum rt_status
come_to_first(struct rt_tcp_meeting *m, struct rt_error *err)
{
	struct rt_tcp_address all[RT_TCP_ADDRESSES];
	char why[128] = "";
	bool other_version = false;
	int pause_ms = 5;

	for (;;) {
		int64_t n = m->at.by_file ? rt_tcp_place_read(m, all) :
			rt_tcp_look_up(m->at.place, all, RT_TCP_ADDRESSES);

		if (n == 0) {
			snprintf(why, sizeof(why), m->at.by_file ?
				 "there is no such file, or no place in it" :
				 "no such host is known");
		}
		m->socks[0] = try_all(m, all, n, why, sizeof(why),
				      &other_version);
		if (m->socks[0] >= 0) {
			return RT_OK;
		}
		if (other_version) {
			return rt_fail(err, RT_FORMAT, RT_NOWHERE, "rank 0 "
				"runs another plan than rank %lld: start the "
				"same plan on all ranks",
				(long long)m->own.rank);
		}
		if (rt_now_us() > m->until_us) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "rank 0 has "
				"not come to %s within %g s: %s", m->where,
				m->c->timeout_us * 1e-6, why);
		}
		poll(NULL, 0, pause_ms);
		pause_ms = pause_ms < 200 ? pause_ms * 2 : 200;
	}
}

/* What the first rank says; later than it gives up itself. */
static enum rt_status
hear_first(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us + 2 * RT_TCP_SLACK_US;
	struct rt_tcp_verdict v;

	if (!rt_tcp_read(m->socks[0], &v, sizeof(v), until)) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "%s ended%s before all "
			       "ranks had met", rt_rank_text(m->c, 0).text,
			       errno == ETIMEDOUT ? ", or is stuck," : "");
	}
	v.why[sizeof(v.why) - 1] = '\0';
	m->token = v.token;
	return v.ok ? RT_OK : rt_fail(err, RT_IO, RT_NOWHERE, "%s", v.why);
}

static enum rt_status
call_those_below(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us;
	struct rt_tcp_call call = { RT_TCP_MAGIC, m->token, m->own.rank };
	int64_t i;

	for (i = 1; i < m->own.rank; i++) {
		m->socks[i] = rt_tcp_connect(&m->table[i], until);
		if (m->socks[i] < 0 ||
		    !rt_tcp_write(m->socks[i], &call, sizeof(call), until)) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "rank %lld on "
				"%s cannot reach rank %lld at %s: %s; all "
				"hosts must reach each other at any port",
				(long long)m->own.rank, m->own.host,
				(long long)i, rt_tcp_text(&m->table[i]).text,
				strerror(errno));
		}
	}
	return RT_OK;
}

/* Whoever does not know the token, or comes twice, is let go. */
static bool
let_in(struct rt_tcp_meeting *m)
{
	int fd = rt_tcp_accept(m->listener);
	struct rt_tcp_call call;

	if (fd < 0) {
		return false;
	}
	if (rt_tcp_read(fd, &call, sizeof(call), rt_now_us() + RT_TCP_SAY_US) &&
	    call.magic == RT_TCP_MAGIC && call.token == m->token &&
	    call.rank > m->own.rank && call.rank < m->own.size &&
	    m->socks[call.rank] < 0) {
		m->socks[call.rank] = fd;
		return true;
	}
	close(fd);
	return false;
}

/* The first rank speaks meanwhile only if something has gone wrong. */
static enum rt_status
await_those_above(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us;
	int64_t left = m->own.size - 1 - m->own.rank;

	while (left > 0) {
		struct pollfd p[2] = { { m->listener, POLLIN, 0 },
				       { m->socks[0], POLLIN, 0 } };
		int n = poll(p, 2, rt_tcp_left_ms(until));

		if (n == 0 && rt_now_us() > until) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "%lld of the "
				"others have not reached rank %lld on %s "
				"within %g s", (long long)left,
				(long long)m->own.rank, m->own.host,
				m->c->timeout_us * 1e-6);
		}
		if (n > 0 && p[1].revents) {
			return hear_first(m, err) == RT_OK ?
				rt_tcp_say_ended(m, 0, err) : RT_IO;
		}
		if (n > 0 && p[0].revents) {
			left -= let_in(m);
		}
	}
	return RT_OK;
}

/*
 * Others find this rank where the first one does; if that is by loopback,
 * the first one knows a better address, at the same port.
 */
static enum rt_status
listen_for_others(struct rt_tcp_meeting *m, struct rt_error *err)
{
	struct rt_tcp_address at, listens;

	if (!rt_tcp_this_end(m->socks[0], &at)) {
		return rt_tcp_refused(err, "find this host's address");
	}
	at.port = 0;
	m->own.at = at;
	if (rt_tcp_is_loopback(&at) &&
	    m->c->world.local_size < m->c->world.size) {
		at.family = 0;
	}
	m->listener = rt_tcp_listen(&at, 4096);
	if (m->listener < 0 || !rt_tcp_this_end(m->listener, &listens)) {
		return rt_tcp_refused(err, "listen for other ranks");
	}
	m->own.at.port = listens.port;
	return RT_OK;
}

enum rt_status
rt_tcp_visit(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until;
	struct rt_tcp_verdict v;
	enum rt_status s = come_to_first(m, err);

	if (s == RT_OK) {
		s = listen_for_others(m, err);
	}
	if (s != RT_OK) {
		return s;
	}
	until = rt_now_us() + RT_TCP_SAY_US;
	/* if it does not listen any more, it has said why */
	rt_tcp_write(m->socks[0], &m->own, sizeof(m->own), until);
	s = hear_first(m, err);
	if (s == RT_OK &&
	    !rt_tcp_read(m->socks[0], m->table, (size_t)m->own.size *
			 sizeof(*m->table), rt_now_us() + RT_TCP_SAY_US)) {
		s = rt_tcp_say_ended(m, 0, err);
	}
	if (s != RT_OK) {
		return s;
	}
	s = call_those_below(m, err);
	if (s == RT_OK) {
		s = await_those_above(m, err);
	}
	v = rt_tcp_verdict_of(m, s == RT_OK ? NULL : err);
	rt_tcp_write(m->socks[0], &v, sizeof(v), rt_now_us() + RT_TCP_SAY_US);
	return s == RT_OK ? hear_first(m, err) : s;
}

/*
 * How a rank finds the first one, and through it all others.
 */
#include "runtime/comm/tcp/tcp_meet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of one attempt to reach the first rank; then the next address is tried. */
#define TRY_US 2e6
/*
 * A listener that proves nothing may be another program at the port of the
 * first rank, which then comes soon or listens at the next port; or it is the
 * first rank, with another secret.  It is asked again for so long.
 */
#define DOUBT_US 1e7
/* The first rank answers at once, however slow its host is; a connection that
 * does not must not block this one for ever. */
#define ACK_US 3e7

/* How a connection attempt ended; later values end the search. */
enum outcome {
	NOBODY,			/* no rank of this job is there */
	CLOSED,			/* it may have had no free slot */
	UNPROVEN,		/* it claims to be of this job */
	REFUSED,		/* a rank of this job refuses */
	LET_IN
};

struct tcp_call {
	int fd;
	struct rt_tcp_session session;
	char why[RT_ERROR_BYTES];
};

/* ---- one attempt ---- */

static enum outcome
read_greeting(int fd, uint64_t key, struct rt_tcp_greeting *g, double until,
	      char *why, size_t why_size)
{
	size_t old = offsetof(struct rt_tcp_greeting, rank);

	if (!rt_tcp_read(fd, g, old, until)) {
		snprintf(why, why_size, "whoever listens there says nothing");
		return errno == 0 ? CLOSED : NOBODY;
	}
	if (g->magic != RT_TCP_MAGIC) {
		snprintf(why, why_size, "another program listens there");
		return NOBODY;
	}
	if (g->key != key) {
		snprintf(why, why_size,
			 "another run's first rank listens there");
		return NOBODY;
	}
	if (g->version != RT_TCP_VERSION) {
		snprintf(why, why_size, "found version %lld of how ranks meet, "
			 "expected %d: the plans were made by two versions of "
			 "llmc", (long long)g->version, (int)RT_TCP_VERSION);
		return UNPROVEN;
	}
	if (!rt_tcp_read(fd, (char *)g + old, sizeof(*g) - old, until)) {
		snprintf(why, why_size,
			 "whoever listens there says too little");
		return CLOSED;
	}
	return LET_IN;
}

/*
 * Listens for the other ranks at the address by which this rank reached the
 * first one.  If that is loopback, though the first one listens at other
 * addresses too, it knows a better address for the same port.
 */
static bool
listen_for_others(struct rt_tcp_meeting *m, int fd, bool loopback)
{
	struct rt_tcp_address at, listens;

	if (m->listener >= 0) {
		close(m->listener);
		m->listener = -1;
	}
	if (!rt_tcp_this_end(fd, &at)) {
		return false;
	}
	at.port = 0;
	m->own.at = at;
	if (rt_tcp_is_loopback(&at) && !loopback &&
	    m->c->world.local_size < m->c->world.size) {
		at.family = 0;
	}
	m->listener = rt_tcp_listen(&at, 4096);
	if (m->listener < 0 || !rt_tcp_this_end(m->listener, &listens)) {
		return false;
	}
	m->own.at.port = listens.port;
	return true;
}

/* Sends who this rank is, and reads whether it is accepted. */
static enum outcome
send_hello(struct rt_tcp_meeting *m, const struct rt_tcp_greeting *g,
	   struct tcp_call *c)
{
	struct rt_tcp_hello h = m->own;
	struct rt_tcp_verdict v;

	rt_tcp_prove(m, g, &h, &c->session);
	/* if the first rank has closed, its reason can still be read */
	rt_tcp_write(c->fd, &h, sizeof(h), rt_now_us() + RT_TCP_SAY_US);
	if (!rt_tcp_read_verdict(c->fd, &c->session, &v, NULL, 0,
				 rt_now_us() + ACK_US)) {
		bool forged = errno == EBADMSG;

		snprintf(c->why, sizeof(c->why), forged ? "whoever listens "
			 "there does not know this job's secret: give all "
			 "ranks the same LLMC_SECRET or LLMC_SECRET_FILE, or "
			 "none" : "whoever listens there let this rank go");
		return forged ? UNPROVEN : CLOSED;
	}
	snprintf(c->why, sizeof(c->why), "%s", v.why);
	m->token = g->rank == 0 ? v.token : m->token;
	return v.ok ? LET_IN : REFUSED;
}

/* Whether the rank that listens there is that rank of this job. */
static enum outcome
call_rank(struct rt_tcp_meeting *m, const struct rt_tcp_address *a,
	  int64_t rank, double until, struct tcp_call *c)
{
	struct rt_tcp_greeting g;
	enum outcome o;

	c->fd = rt_tcp_connect(a, until);
	if (c->fd < 0) {
		snprintf(c->why, sizeof(c->why), "%s: %s",
			 rt_tcp_text(a).text, strerror(errno));
		return NOBODY;
	}
	o = read_greeting(c->fd, m->at.key, &g, until, c->why, sizeof(c->why));
	if (o == UNPROVEN) {
		/* so much of a hello is the same in all versions */
		rt_tcp_write(c->fd, &m->own,
			     offsetof(struct rt_tcp_hello, plan), until);
	}
	if (o == LET_IN && g.rank != rank) {
		snprintf(c->why, sizeof(c->why), "rank %lld listens there",
			 (long long)g.rank);
		o = NOBODY;
	}
	if (o == LET_IN && rank == 0 &&
	    !listen_for_others(m, c->fd, g.loopback != 0)) {
		snprintf(c->why, sizeof(c->why), "cannot listen for other "
			 "ranks: %s", strerror(errno));
		o = NOBODY;
	}
	if (o == LET_IN) {
		o = send_hello(m, &g, c);
	}
	if (o != LET_IN) {
		close(c->fd);
	}
	return o;
}

/* ---- the first rank ---- */

/* Tries these addresses and ports, and returns the outcome that says most. */
static enum outcome
try_all(struct rt_tcp_meeting *m, const struct rt_tcp_address *all, int64_t n,
	struct tcp_call *c)
{
	int64_t ports = m->at.by_file ? 1 : m->at.nports, i, k;
	enum outcome best = NOBODY;
	char why[sizeof(c->why)] = "";

	for (i = 0; i < n; i++) {
		for (k = 0; k < ports; k++) {
			double until = rt_now_us() + TRY_US;
			struct rt_tcp_address a = all[i];
			enum outcome o;

			a.port = m->at.by_file ? a.port :
				(int32_t)(m->at.port + k);
			o = call_rank(m, &a, 0, until < m->until_us ? until
						: m->until_us, c);
			if (o >= REFUSED) {
				return o;
			}
			if (o >= best) {
				best = o;
				memcpy(why, c->why, sizeof(why));
			}
		}
	}
	memcpy(c->why, why, sizeof(why));
	return best;
}

static int64_t
where_to_look(struct rt_tcp_meeting *m, struct rt_tcp_address *all, char *why,
	      size_t why_size)
{
	int64_t n;

	if (m->at.by_file) {
		return rt_tcp_place_read(m, all, why, why_size);
	}
	n = rt_tcp_look_up(m->at.place, all, RT_TCP_ADDRESSES);
	if (n == 0) {
		snprintf(why, why_size, "no such host is known");
	}
	return n;
}

static enum rt_status
give_up(const struct rt_tcp_meeting *m, const struct tcp_call *c, double since,
	struct rt_error *err)
{
	return rt_fail(err, RT_IO, RT_NOWHERE, "rank 0 has not come to %s "
		       "within %g s: %s", m->where,
		       since > 0 ? DOUBT_US * 1e-6 : m->c->timeout_us * 1e-6,
		       c->why);
}

static enum rt_status
come_to_first(struct rt_tcp_meeting *m, struct rt_error *err)
{
	struct rt_tcp_address all[RT_TCP_ADDRESSES];
	struct tcp_call c = { .fd = -1 };
	double doubt = 0;	/* since when a listener has proved nothing */
	int pause_ms = 5;

	for (;;) {
		int64_t n = where_to_look(m, all, c.why, sizeof(c.why));
		enum outcome o = NOBODY;
		enum rt_status s = rt_tcp_keys(m, err);

		if (s != RT_OK) {
			return s;
		}
		if (n > 0) {
			o = try_all(m, all, n, &c);
		}
		if (o == LET_IN) {
			m->ends[0].fd = c.fd;
			m->ends[0].session = c.session;
			return RT_OK;
		}
		if (o == REFUSED) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "%s", c.why);
		}
		if (o == UNPROVEN && doubt == 0) {
			doubt = rt_now_us();
			rt_tcp_report(m, c.why);
		}
		if (rt_now_us() > m->until_us) {
			return give_up(m, &c, 0, err);
		}
		if (doubt > 0 && rt_now_us() - doubt > DOUBT_US) {
			return give_up(m, &c, doubt, err);
		}
		poll(NULL, 0, pause_ms);
		pause_ms = pause_ms < 200 ? pause_ms * 2 : 200;
	}
}

/* Reads what the first rank decides; waits longer than it does itself. */
static enum rt_status
read_first(struct rt_tcp_meeting *m, void *more, size_t bytes,
	   struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us + 2 * RT_TCP_SLACK_US;
	struct rt_tcp_verdict v;

	if (!rt_tcp_read_verdict(m->ends[0].fd, &m->ends[0].session, &v, more,
				 bytes, until)) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "%s ended%s before all "
			       "ranks had met", rt_rank_text(m->c, 0).text,
			       errno == ETIMEDOUT ? ", or is stuck," :
			       errno == EBADMSG ? ", or was forged," : "");
	}
	return v.ok ? RT_OK : rt_fail(err, RT_IO, RT_NOWHERE, "%s", v.why);
}

/* ---- all others ---- */

/* Calls again if the rank had no free slot. */
static enum outcome
call_one(struct rt_tcp_meeting *m, int64_t rank, double until,
	 struct tcp_call *c)
{
	int pause_ms = 5;
	enum outcome o;

	while ((o = call_rank(m, &m->table[rank], rank, until, c)) == CLOSED &&
	       rt_now_us() < until) {
		poll(NULL, 0, pause_ms);
		pause_ms = pause_ms < 200 ? pause_ms * 2 : 200;
	}
	return o;
}

static enum rt_status
call_those_below(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us;
	int64_t i;

	for (i = 1; i < m->own.rank; i++) {
		struct tcp_call c = { .fd = -1 };

		if (call_one(m, i, until, &c) != LET_IN) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "rank %lld on "
				"%s cannot reach rank %lld at %s: %s; all "
				"hosts must reach each other at any port",
				(long long)m->own.rank, m->own.host,
				(long long)i, rt_tcp_text(&m->table[i]).text,
				c.why);
		}
		m->ends[i].fd = c.fd;
		m->ends[i].session = c.session;
	}
	return RT_OK;
}

/* Disconnects whoever is not a rank above this one, or connects twice. */
static bool
admit_guest(struct rt_tcp_meeting *m, struct rt_tcp_guest *g)
{
	int64_t rank = g->hello.rank;
	struct rt_error why;

	if (rank <= m->own.rank || rank >= m->own.size ||
	    g->hello.plan != m->own.plan || m->ends[rank].fd >= 0) {
		rt_fail(&why, RT_FORMAT, RT_NOWHERE, "rank %lld expects no "
			"rank %lld there now", (long long)m->own.rank,
			(long long)rank);
		rt_tcp_reject(m, g, &why);
		return false;
	}
	if (!rt_tcp_send_verdict(m, g->fd, &g->session, NULL, NULL, 0,
				 rt_now_us())) {
		close(g->fd);
		g->fd = -1;
		return false;
	}
	m->ends[rank].fd = g->fd;
	m->ends[rank].session = g->session;
	g->fd = -1;
	return true;
}

/* Waits for ranks above this one. The first rank sends something meanwhile only
 * if the run has failed. */
static enum rt_status
await_those_above(struct rt_tcp_meeting *m, struct rt_error *err)
{
	double until = rt_now_us() + m->c->timeout_us;
	int64_t left = m->own.size - 1 - m->own.rank, i;

	while (left > 0) {
		int ms = rt_tcp_left_ms(until);

		m->polls[0] = (struct pollfd){ m->ends[0].fd, POLLIN, 0 };
		if (rt_tcp_guests_wait(m, 1, ms < 200 ? ms : 200) != 0) {
			return rt_tcp_refused(err, "wait for the other ranks");
		}
		if (rt_now_us() > until) {
			return rt_fail(err, RT_IO, RT_NOWHERE, "%lld of the "
				"others have not reached rank %lld on %s "
				"within %g s", (long long)left,
				(long long)m->own.rank, m->own.host,
				m->c->timeout_us * 1e-6);
		}
		if (m->polls[0].revents) {
			return read_first(m, NULL, 0, err) == RT_OK ?
				rt_tcp_report_ended(m, 0, err) : RT_IO;
		}
		for (i = 0; i < RT_TCP_GUESTS; i++) {
			if (m->guests[i].fd >= 0 && m->guests[i].whole) {
				left -= admit_guest(m, &m->guests[i]);
			}
		}
	}
	return RT_OK;
}

enum rt_status
rt_tcp_join(struct rt_tcp_meeting *m, struct rt_error *err)
{
	enum rt_status s = come_to_first(m, err);

	if (s == RT_OK) {
		s = read_first(m, m->table,
			       (size_t)m->own.size * sizeof(*m->table), err);
	}
	if (s != RT_OK) {
		return s;
	}
	rt_tcp_key_of_token(m);
	s = call_those_below(m, err);
	if (s == RT_OK) {
		s = await_those_above(m, err);
	}
	rt_tcp_send_verdict(m, m->ends[0].fd, &m->ends[0].session,
			    s == RT_OK ? NULL : err, NULL, 0,
			    rt_now_us() + RT_TCP_SAY_US);
	return s == RT_OK ? read_first(m, NULL, 0, err) : s;
}

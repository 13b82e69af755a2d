/*
 * Connections to a listening rank that have not yet proved to be ranks of its
 * job.
 *
 * Nothing waits for one of them, and each has some seconds. If there are more
 * than slots, the oldest one of the address with the most connections is
 * closed: so many connections from one host shut out no other host, and a rank
 * that was closed connects again.
 */
#include "runtime/comm/tcp/tcp_meet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COME_AT_ONCE = 64 };
/* After the first few that are rejected, one is reported so often. */
#define NAMED_US 1e7

static void
close_guest(struct rt_tcp_guest *g)
{
	close(g->fd);
	g->fd = -1;
}

void
rt_tcp_guests_close(struct rt_tcp_meeting *m)
{
	int i;

	for (i = 0; m->guests && i < RT_TCP_GUESTS; i++) {
		if (m->guests[i].fd >= 0) {
			close_guest(&m->guests[i]);
		}
	}
}

static bool
is_same_host(const struct rt_tcp_address *a, const struct rt_tcp_address *b)
{
	return a->family == b->family &&
	       memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static int
guests_of(const struct rt_tcp_meeting *m, const struct rt_tcp_address *from)
{
	int n = 0, i;

	for (i = 0; i < RT_TCP_GUESTS; i++) {
		n += m->guests[i].fd >= 0 &&
		     is_same_host(&m->guests[i].from, from);
	}
	return n;
}

void
rt_tcp_report(const struct rt_tcp_meeting *m, const char *text)
{
	if (m->c->report_fd >= 0) {
		dprintf(m->c->report_fd, "%s: %s\n",
			rt_rank_text(m->c, m->own.rank).text, text);
	}
}

enum rt_status
rt_tcp_report_ended(const struct rt_tcp_meeting *m, int64_t rank,
		    struct rt_error *err)
{
	return rt_fail(err, RT_IO, RT_NOWHERE,
		       "%s ended before all ranks had met",
		       rt_rank_text(m->c, rank).text);
}

/* A free slot; if there is none, one is freed.  NULL: none can be. */
static struct rt_tcp_guest *
place_for_one(struct rt_tcp_meeting *m)
{
	struct rt_tcp_guest *g, *oldest = NULL;
	int most = 0, i;

	for (i = 0; i < RT_TCP_GUESTS; i++) {
		if (m->guests[i].fd < 0) {
			return &m->guests[i];
		}
	}
	for (i = 0; i < RT_TCP_GUESTS; i++) {
		int n = guests_of(m, &m->guests[i].from);

		g = &m->guests[i];
		if (!g->whole &&
		    (n > most || (n == most && g->since < oldest->since))) {
			most = n;
			oldest = g;
		}
	}
	if (oldest) {
		close_guest(oldest);
	}
	return oldest;
}

/* Accepts connections; each is sent the greeting. */
static void
let_come(struct rt_tcp_meeting *m)
{
	int i;

	for (i = 0; i < COME_AT_ONCE; i++) {
		struct rt_tcp_address from;
		int fd = rt_tcp_accept(m->listener, &from);
		struct rt_tcp_guest *g;

		if (fd < 0) {
			return;
		}
		g = place_for_one(m);
		if (!g) {
			close(fd);
			continue;
		}
		*g = (struct rt_tcp_guest){ .fd = fd, .since = rt_now_us(),
					    .from = from };
		if (!rt_tcp_send_greeting(m, g)) {
			close_guest(g);
		}
	}
}

/* The hello of another version may be shorter. */
static bool
is_of_another_version(const struct rt_tcp_guest *g)
{
	const struct rt_tcp_hello *h = &g->hello;

	return g->heard >= offsetof(struct rt_tcp_hello, plan) &&
	       h->magic == RT_TCP_MAGIC && h->version != RT_TCP_VERSION;
}

static void
judge(struct rt_tcp_meeting *m, struct rt_tcp_guest *g)
{
	struct rt_error why;

	g->hello.host[sizeof(g->hello.host) - 1] = '\0';
	if (is_of_another_version(g)) {
		rt_fail(&why, RT_FORMAT, RT_NOWHERE, "found version %lld of "
			"how ranks meet, expected %d: the plans were made by "
			"two versions of llmc",
			(long long)g->hello.version, (int)RT_TCP_VERSION);
		rt_tcp_reject(m, g, &why);
	} else if (g->heard < sizeof(g->hello)) {
		return;
	} else if (g->hello.magic != RT_TCP_MAGIC) {
		close_guest(g);
	} else if (!rt_tcp_proven(m, g)) {
		rt_fail(&why, RT_FORMAT, RT_NOWHERE, "it does not know this "
			"job's secret: give all ranks the same LLMC_SECRET or "
			"LLMC_SECRET_FILE, or none");
		rt_tcp_reject(m, g, &why);
	} else {
		g->whole = true;
	}
}

static void
hear(struct rt_tcp_meeting *m, struct rt_tcp_guest *g, bool can)
{
	ssize_t n = can ? read(g->fd, (char *)&g->hello + g->heard,
			       sizeof(g->hello) - g->heard) : 0;

	if (n > 0) {
		g->heard += (size_t)n;
		judge(m, g);
	} else if ((can && (n == 0 || (errno != EAGAIN && errno != EINTR))) ||
		   rt_now_us() - g->since > RT_TCP_SAY_US) {
		close_guest(g);
	}
}

int
rt_tcp_guests_wait(struct rt_tcp_meeting *m, int64_t n, int ms)
{
	struct pollfd *listener = m->polls + n, *guests = listener + 1;
	int i, some;

	*listener = (struct pollfd){ m->listener, POLLIN, 0 };
	for (i = 0; i < RT_TCP_GUESTS; i++) {
		guests[i] = (struct pollfd){ m->guests[i].fd, POLLIN, 0 };
	}
	some = poll(m->polls, (nfds_t)(n + 1 + RT_TCP_GUESTS), ms);
	if (some < 0 && errno != EINTR) {
		return -1;
	}
	for (i = 0; i < RT_TCP_GUESTS; i++) {
		if (m->guests[i].fd >= 0) {
			hear(m, &m->guests[i],
			     some > 0 && guests[i].revents != 0);
		}
	}
	if (some > 0 && listener->revents) {
		let_come(m);
	}
	return 0;
}

void
rt_tcp_reject(struct rt_tcp_meeting *m, struct rt_tcp_guest *g,
	      const struct rt_error *why)
{
	struct rt_tcp_hello *h = &g->hello;
	bool named = g->heard == sizeof(*h);
	char what[sizeof(m->last_away)];
	bool again;

	snprintf(what, sizeof(what), "rank %lld%s%s: %s", (long long)h->rank,
		 named ? " on " : "",
		 named ? rt_show_name(h->host).text : "", why->message);
	/* one that tries again and again is reported once */
	again = m->turned_away > 0 && strcmp(what, m->last_away) == 0;
	m->turned_away += !again;
	if ((!again && m->turned_away <= RT_TCP_REPORTS) ||
	    rt_now_us() - m->reported > NAMED_US) {
		char text[sizeof(what) + 128];

		m->reported = rt_now_us();
		snprintf(text, sizeof(text), "turned away %s, which says that "
			 "it is %s", rt_tcp_text(&g->from).text, what);
		rt_tcp_report(m, text);
	}
	memcpy(m->last_away, what, sizeof(what));
	if (named) {
		rt_tcp_send_verdict(m, g->fd, &g->session, why, NULL, 0,
				    rt_now_us());
	}
	close_guest(g);
}

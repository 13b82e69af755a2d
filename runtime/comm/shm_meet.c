/*
 * How the ranks of a host find each other.
 *
 * The first rank listens on a socket whose name is derived from the job; the
 * others send it file descriptors of their arenas (files in memory), and get
 * those of all arenas and of the shared segment. When each rank has taken its
 * place, the first one lets all start. A rank that ends before that closes its
 * socket, so nobody waits for it.
 *
 * Both ends check that the other is a process of the same user before they send
 * anything. Received numbers are checked all the same before one is used as an
 * index or a size.
 */
#define _GNU_SOURCE	/* accept4 */

#include "runtime/comm/shm_meet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MOST = RT_SHM_MOST,
	/* the first rank's answer may arrive a little after its deadline */
	SLACK_US = 2000000,
	HELLO_US = 2000000,
	/* how long the first rank reports its failure to ranks that come
	 * late */
	FAREWELL_US = 1000000,
	/* listing all sockets of the system is slow, and seldom needed */
	TRY_MS = 5, TRIES_BETWEEN_LISTS = 10
};

struct meeting {
	struct rt_comm *c;
	double until_us;
	struct rt_shm_hello own;
	/* of the segment, then of arenas by local number; -1: none */
	int fds[MOST + 1];
	/* of the first rank */
	int listener, socks[MOST];
	int64_t turned_away;
	/* of the others */
	int sock;
	struct rt_shm_answer answer;
};

/* ---- pages of all ranks ---- */

static enum rt_status
call_refused(struct rt_error *err, const char *what)
{
	return rt_fail(err, RT_IO, RT_NOWHERE, "cannot %s: %s", what,
		       strerror(errno));
}

static enum rt_status
no_more_files(struct rt_error *err)
{
	return rt_fail(err, RT_IO, RT_NOWHERE, "cannot take in another rank: "
		       "too many open files; raise the limit, ulimit -n");
}

/* Whether the answer names each rank of the plan at most once. */
static bool
is_sound(const struct meeting *m)
{
	const struct rt_shm *s = m->c->shm;
	bool sound = m->answer.ranks[s->me] == m->own.rank &&
		     rt_shm_holds(m->fds[0], (int64_t)s->segment_bytes);
	int64_t i, k;

	for (i = 0; i < s->n && sound; i++) {
		sound = m->answer.ranks[i] >= 0 &&
			m->answer.ranks[i] < m->c->world.size &&
			(i == s->me ||
			 rt_shm_holds(m->fds[i + 1], m->answer.arena_bytes[i]));
		for (k = 0; k < i && sound; k++) {
			sound = m->answer.ranks[k] != m->answer.ranks[i];
		}
	}
	return sound;
}

static enum rt_status
map_all(struct meeting *m, struct rt_error *err)
{
	struct rt_shm *s = m->c->shm;
	int64_t i;

	if (!is_sound(m)) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the first rank of "
			       "this host is no rank of this plan: what it "
			       "says of the others makes no sense");
	}
	s->segment = rt_shm_map_file(m->fds[0], (int64_t)s->segment_bytes,
				     PROT_READ | PROT_WRITE);
	if (!s->segment) {
		return call_refused(err, "map pages that all ranks share");
	}
	s->lock_fd = rt_shm_open_again(m->fds[0]);
	if (s->lock_fd < 0) {
		return call_refused(err, "open /proc/self/fd");
	}
	for (i = 0; i < s->n; i++) {
		s->rank_of[i] = m->answer.ranks[i];
		s->local_of[s->rank_of[i]] = i;
		s->peers[i].arena_bytes = m->answer.arena_bytes[i];
		s->peers[i].arena = i == s->me ? m->c->arena :
			rt_shm_map_file(m->fds[i + 1], m->answer.arena_bytes[i],
				 PROT_READ);
		if (!s->peers[i].arena) {
			return call_refused(err, "map another rank's arena");
		}
	}
	return rt_watch_enter(m->c, err);
}

/* ---- the first rank ---- */

/* Accepts a connection if it is of this user; else -1. */
static int
accept_ours(const struct meeting *m)
{
	int sock = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC), why = errno;
	struct rt_shm_stranger other;

	if (sock >= 0 && !rt_shm_is_ours(sock, &other)) {
		close(sock);
		sock = -1;
		why = EPERM;
	}
	errno = why;
	return sock;
}

/* Closes the arenas' files and all connections, but not the listener. */
static void
close_files(struct meeting *m)
{
	int i;

	for (i = 0; i <= MOST; i++) {
		if (m->fds[i] >= 0) {
			close(m->fds[i]);
			m->fds[i] = -1;
		}
		if (i < MOST && m->socks[i] >= 0) {
			close(m->socks[i]);
			m->socks[i] = -1;
		}
	}
}

/*
 * Sends the reason of a failure to all ranks, those too that come a little
 * later. If this process may open no more files, it first closes those that it
 * has received; the deadline ends it if that does not help or if strangers keep
 * coming.
 */
static enum rt_status
refuse_all(struct meeting *m, struct rt_error *why)
{
	double until = rt_now_us() + FAREWELL_US;
	int64_t n = m->turned_away, i;

	m->answer.ok = 0;
	snprintf(m->answer.why, sizeof(m->answer.why), "%s", why->message);
	for (i = 1; i < m->c->shm->n; i++) {
		if (m->socks[i] >= 0) {
			rt_shm_send(m->socks[i], &m->answer, sizeof(m->answer),
				    NULL, 0);
			n++;
		}
	}
	close_files(m);
	while (m->listener >= 0 && n < m->c->shm->n - 1 &&
	       rt_now_us() < until && rt_shm_can_read(m->listener, until)) {
		int sock = accept_ours(m);
		struct rt_shm_hello h;
		int none;

		if (sock < 0) {
			continue;
		}
		/* unread data would reset the connection before the answer is
		 * read */
		rt_shm_read(sock, until, &h, sizeof(h), &none, 0, &none);
		rt_shm_send(sock, &m->answer, sizeof(m->answer), NULL, 0);
		close(sock);
		n++;
	}
	return why->status;
}

/* A name that is taken is no reason to stop, but is reported. */
static enum rt_status
listen_for(struct meeting *m, struct rt_error *err)
{
	struct rt_shm_stranger other = { .met = false };

	m->listener = rt_shm_listen(m->c, &other, err);
	if (m->listener >= 0 && other.met && m->c->report_fd >= 0) {
		dprintf(m->c->report_fd, "%s: %s has the name by which this "
			"host's ranks meet (job %s): they meet by another "
			"one\n", rt_rank_text(m->c, m->own.rank).text,
			rt_shm_stranger_text(&other).text,
			rt_show_name(m->c->world.job).text);
	}
	return m->listener >= 0 ? RT_OK : RT_IO;
}

/* Whether the other rank's plan and sizes are those of the first one. */
static enum rt_status
check_hello(struct meeting *m, const struct rt_shm_hello *h,
	    struct rt_error *err)
{
	const struct rt_world *w = &m->c->world;

	if (h->magic != RT_SHM_MAGIC || h->abi != m->own.abi ||
	    h->plan != m->own.plan) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE,
			       "rank %lld runs another plan than rank %lld: "
			       "start the same plan on all ranks",
			       h->magic == RT_SHM_MAGIC ? (long long)h->rank
							: -1,
			       (long long)w->rank);
	}
	if (h->rank < 0 || h->rank >= w->size || h->size != w->size ||
	    h->local_size != w->local_size || h->local_rank < 1 ||
	    h->local_rank >= w->local_size || h->arena_bytes < 0) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE,
			       "rank %lld says that it is %lld of %lld on its "
			       "host and of %lld in all, rank %lld that there "
			       "are %lld and %lld",
			       (long long)h->rank, (long long)h->local_rank,
			       (long long)h->local_size, (long long)h->size,
			       (long long)w->rank, (long long)w->local_size,
			       (long long)w->size);
	}
	if (m->socks[h->local_rank] >= 0 ||
	    m->c->shm->local_of[h->rank] >= 0) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE,
			       "two processes say that they are rank %lld, or "
			       "%lld on this host",
			       (long long)h->rank, (long long)h->local_rank);
	}
	return RT_OK;
}

/* Whether the launcher reports a rank that has ended before it could
 * connect. */
static enum rt_status
read_news(const struct meeting *m, struct rt_error *err)
{
	int fd = m->c->world.news;
	struct rt_news n;
	char how[48] = "ended";

	if (fd <= 0 || read(fd, &n, sizeof(n)) != (ssize_t)sizeof(n)) {
		return RT_OK;
	}
	if (n.signal) {
		snprintf(how, sizeof(how), "was killed by signal %lld",
			 (long long)n.signal);
	}
	return rt_fail(err, RT_IO, RT_NOWHERE,
		       "%s %s before all ranks had met",
		       rt_rank_text(m->c, n.rank).text, how);
}

/* Accepts one rank.  Processes of other users are disconnected without an
 * answer. */
static enum rt_status
accept_rank(struct meeting *m, int64_t *come, struct rt_error *err)
{
	int sock = accept_ours(m), fd = -1, nfds;
	struct rt_shm_hello h;
	enum rt_status s;

	if (sock < 0) {	/* the other end has already closed */
		return errno == EMFILE || errno == ENFILE ? no_more_files(err)
							  : RT_OK;
	}
	if (rt_shm_read(sock, rt_now_us() + HELLO_US, &h, sizeof(h), &fd, 1,
			 &nfds) != (ssize_t)sizeof(h) || nfds != 1) {
		close(sock);
		if (nfds == 1) {
			close(fd);
		}
		return nfds < 0 ? no_more_files(err)
			: rt_fail(err, RT_IO, RT_NOWHERE,
				  "a rank ended before all had met");
	}
	s = check_hello(m, &h, err);
	if (s != RT_OK) {
		m->answer.ok = 0;
		snprintf(m->answer.why, sizeof(m->answer.why), "%s",
			 err->message);
		rt_shm_send(sock, &m->answer, sizeof(m->answer), NULL, 0);
		close(sock);
		close(fd);
		m->turned_away++;
		return s;
	}
	m->socks[h.local_rank] = sock;
	m->fds[h.local_rank + 1] = fd;
	m->answer.ranks[h.local_rank] = h.rank;
	m->answer.arena_bytes[h.local_rank] = h.arena_bytes;
	m->c->shm->local_of[h.rank] = h.local_rank;
	(*come)++;
	return RT_OK;
}

static enum rt_status
report_ended(struct meeting *m, int64_t local, struct rt_error *err)
{
	return rt_fail(err, RT_IO, RT_NOWHERE,
		       "%s ended before all ranks had met",
		       rt_rank_text(m->c, m->answer.ranks[local]).text);
}

/* Names the ranks that have not come; only those that came have said which they
 * are. */
static enum rt_status
report_missing(struct meeting *m, int64_t come, struct rt_error *err)
{
	struct rt_line list = { "", 0 };
	int64_t i, n = 0;

	for (i = 1; i < m->c->shm->n; i++) {
		if (m->socks[i] < 0) {
			rt_line_rank(&list, n++, i);
		}
	}
	rt_line_more_ranks(&list, n);
	return rt_fail(err, RT_IO, RT_NOWHERE,
		       "%lld of this host's %lld ranks have come within "
		       "%g s; missing, by their numbers on this host: %s",
		       (long long)come, (long long)m->c->shm->n,
		       m->c->timeout_us * 1e-6, list.at);
}

static enum rt_status
accept_all(struct meeting *m, struct rt_error *err)
{
	int64_t n = m->c->shm->n, come = 1, i;
	int news = m->c->world.news;

	while (come < n) {
		struct pollfd p[MOST + 1];
		enum rt_status s;

		p[0] = (struct pollfd){ m->listener, POLLIN, 0 };
		for (i = 1; i < n; i++) {
			p[i] = (struct pollfd){ m->socks[i], POLLIN, 0 };
		}
		p[n] = (struct pollfd){ news > 0 ? news : -1, POLLIN, 0 };
		if (poll(p, (nfds_t)n + 1, rt_shm_left_ms(m->until_us)) == 0) {
			return report_missing(m, come, err);
		}
		for (i = 1; i < n; i++) {
			/* no rank sends anything more before it gets the
			 * answer */
			if (m->socks[i] >= 0 && p[i].revents) {
				return report_ended(m, i, err);
			}
		}
		s = read_news(m, err);
		if (s == RT_OK && p[0].revents) {
			s = accept_rank(m, &come, err);
		}
		if (s != RT_OK) {
			return s;
		}
	}
	return RT_OK;
}

/* Reads a byte from each of the others, then sends a byte to each. */
static enum rt_status
start_all(struct meeting *m, struct rt_error *err)
{
	int64_t i;
	char byte = 0;
	int none;

	for (i = 1; i < m->c->shm->n; i++) {
		if (rt_shm_read(m->socks[i], m->until_us, &byte, 1, &none, 0,
				&none) != 1) {
			return report_ended(m, i, err);
		}
	}
	for (i = 1; i < m->c->shm->n; i++) {
		rt_shm_send(m->socks[i], &byte, 1, NULL, 0);
	}
	return RT_OK;
}

static enum rt_status
host_ranks(struct meeting *m, struct rt_error *err)
{
	struct rt_shm *s = m->c->shm;
	enum rt_status status;
	int64_t i;

	m->fds[0] = rt_shm_new_file("llmc-segment", (int64_t)s->segment_bytes);
	if (m->fds[0] < 0) {
		return call_refused(err, "make pages that all ranks share");
	}
	m->answer.ranks[0] = m->own.rank;
	m->answer.arena_bytes[0] = m->own.arena_bytes;
	s->local_of[m->own.rank] = 0;
	status = listen_for(m, err);
	if (status == RT_OK) {
		status = accept_all(m, err);
	}
	if (status == RT_OK) {
		m->answer.ok = 1;
		status = map_all(m, err);
	}
	for (i = 1; i < s->n && status == RT_OK; i++) {
		if (!rt_shm_send(m->socks[i], &m->answer, sizeof(m->answer),
				 m->fds, (int)s->n + 1)) {
			status = report_ended(m, i, err);
		}
	}
	if (status == RT_OK) {
		status = start_all(m, err);
	}
	return status == RT_OK ? RT_OK : refuse_all(m, err);
}

/* ---- the others ---- */

static enum rt_status
connect_to_first(struct meeting *m, struct rt_error *err)
{
	struct rt_shm_stranger other = { .met = false };
	int64_t tries;

	for (tries = 1;; tries++) {
		m->sock = rt_shm_call(m->c, tries % TRIES_BETWEEN_LISTS == 0,
				      &other);
		if (m->sock >= 0) {
			return RT_OK;
		}
		if (errno == EMFILE || errno == ENFILE) {
			return no_more_files(err);
		}
		if (rt_now_us() > m->until_us) {
			return rt_fail(err, RT_IO, RT_NOWHERE,
				       "the first rank of this host has not "
				       "come within %g s (job %s)%s%s",
				       m->c->timeout_us * 1e-6,
				       rt_show_name(m->c->world.job).text,
				       other.met ? "; its name has " : "",
				       other.met ?
				       rt_shm_stranger_text(&other).text : "");
		}
		if (read_news(m, err) != RT_OK) {
			return RT_IO;
		}
		poll(NULL, 0, TRY_MS);
	}
}

/* Rank 0, where all ranks are on this host. */
static enum rt_status
first_ended(const struct meeting *m, struct rt_error *err)
{
	const struct rt_world *w = &m->c->world;

	return rt_fail(err, RT_IO, RT_NOWHERE, "%s ended, or is stuck, before "
		       "all ranks had met", w->local_size == w->size ?
		       rt_rank_text(m->c, 0).text :
		       "the first rank of this host");
}

/* The first rank's reason, which came instead of what was expected. */
static enum rt_status
read_refusal(struct meeting *m, struct rt_error *err)
{
	if (m->answer.ok || !memchr(m->answer.why, '\0',
				    sizeof(m->answer.why))) {
		return first_ended(m, err);
	}
	return rt_fail(err, RT_IO, RT_NOWHERE, "%s", m->answer.why);
}

static enum rt_status
join_first(struct meeting *m, struct rt_error *err)
{
	struct rt_shm *s = m->c->shm;
	double until = m->until_us + SLACK_US;
	enum rt_status status = connect_to_first(m, err);
	char byte = 0;
	int nfds, none;
	ssize_t n;

	if (status != RT_OK) {
		return status;
	}
	/* if the first rank has closed, its reason can still be read */
	rt_shm_send(m->sock, &m->own, sizeof(m->own), &m->fds[s->me + 1], 1);
	close(m->fds[s->me + 1]);
	m->fds[s->me + 1] = -1;
	if (rt_shm_read(m->sock, until, &m->answer, sizeof(m->answer), m->fds,
			MOST + 1, &nfds) != (ssize_t)sizeof(m->answer)) {
		return first_ended(m, err);
	}
	if (nfds < 0) {
		return no_more_files(err);
	}
	if (!m->answer.ok || nfds != s->n + 1) {
		return read_refusal(m, err);
	}
	status = map_all(m, err);
	if (status != RT_OK) {
		return status;
	}
	rt_shm_send(m->sock, &byte, 1, NULL, 0);
	/* a byte means go; an answer is the reason why not */
	n = rt_shm_read(m->sock, until, &m->answer, sizeof(m->answer), &none,
			 0, &none);
	if (n == (ssize_t)sizeof(m->answer)) {
		return read_refusal(m, err);
	}
	return n == 1 ? RT_OK : first_ended(m, err);
}

/* ---- both ---- */

static void
close_all(struct meeting *m)
{
	close_files(m);
	if (m->listener >= 0) {
		close(m->listener);
	}
	if (m->sock >= 0) {
		close(m->sock);
	}
}

static enum rt_status
make_arena(struct meeting *m, struct rt_error *err)
{
	struct rt_comm *c = m->c;
	int fd = rt_shm_new_file("llmc-arena", c->arena_bytes);

	if (fd < 0) {
		return call_refused(err, "make the arena");
	}
	m->fds[c->shm->me + 1] = fd;
	c->arena = rt_shm_map_file(fd, c->arena_bytes, PROT_READ | PROT_WRITE);
	if (!c->arena) {
		return call_refused(err, "map the arena");
	}
	return RT_OK;
}

enum rt_status
rt_shm_meet(struct rt_comm *c, struct rt_error *err)
{
	const struct rt_world *w = &c->world;
	struct rt_error own;
	struct meeting *m;
	enum rt_status s;

	if (c->shm->n > MOST) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE,
			       "%lld ranks on this host, at most %d",
			       (long long)c->shm->n, (int)MOST);
	}
	m = malloc(sizeof(*m));
	if (!m) {
		return rt_no_memory(err, NULL);
	}
	memset(m, 0, sizeof(*m));
	memset(m->fds, -1, sizeof(m->fds));
	memset(m->socks, -1, sizeof(m->socks));
	m->listener = m->sock = -1;
	m->c = c;
	m->until_us = rt_now_us() + c->timeout_us;
	m->own = (struct rt_shm_hello){ RT_SHM_MAGIC, rt_plan_sum(c->plan),
		c->plan->abi, w->rank, w->size, w->local_rank, w->local_size,
		c->arena_bytes };
	s = make_arena(m, &own);
	if (s == RT_OK) {
		s = w->local_rank == 0 ? host_ranks(m, &own)
				       : join_first(m, &own);
	}
	if (s != RT_OK && err) {
		*err = own;
	}
	close_all(m);
	free(m);
	return s;
}

/*
 * tcp-meet.c - ranks of several hosts come together: what the first one and
 * the others share.
 */
#include "runtime/tcp-meet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum rt_status
rt_tcp_refused(struct rt_error *err, const char *what)
{
	return rt_fail(err, RT_IO, RT_NOWHERE, "cannot %s: %s", what,
		       strerror(errno));
}

struct rt_tcp_verdict
rt_tcp_verdict_of(const struct rt_tcp_meeting *m, const struct rt_error *why)
{
	struct rt_tcp_verdict v;

	memset(&v, 0, sizeof(v));
	v.token = m->token;
	v.ok = why == NULL;
	snprintf(v.why, sizeof(v.why), "%s", why ? why->message : "");
	return v;
}

enum rt_status
rt_tcp_say_ended(const struct rt_tcp_meeting *m, int64_t rank,
		 struct rt_error *err)
{
	return rt_fail(err, RT_IO, RT_NOWHERE,
		       "%s ended before all ranks had met",
		       rt_rank_text(m->c, rank).text);
}

/* "node1, ports 29501 to 29508" */
static void
name_place(struct rt_tcp_meeting *m)
{
	const struct rt_rendezvous *r = &m->at;

	if (r->by_file) {
		snprintf(m->where, sizeof(m->where), "the place that %s "
			 "names (%s)", rt_show_path(r->place).text, r->from);
	} else if (r->nports == 1) {
		snprintf(m->where, sizeof(m->where), "%s, port %lld (%s)",
			 rt_show_name(r->place).text, (long long)r->port,
			 r->from);
	} else {
		snprintf(m->where, sizeof(m->where), "%s, ports %lld to %lld "
			 "(%s)", rt_show_name(r->place).text,
			 (long long)r->port,
			 (long long)(r->port + r->nports - 1), r->from);
	}
}

/* A connection to each rank is more than a process may open at first. */
static void
allow_files(int64_t n)
{
	struct rlimit l;
	rlim_t want = (rlim_t)n + 256;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < want) {
		l.rlim_cur = want < l.rlim_max ? want : l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

static void
close_all(struct rt_tcp_meeting *m, bool met)
{
	int64_t i;

	for (i = 0; i < RT_TCP_STRANGERS; i++) {
		if (m->guests[i].fd >= 0) {
			close(m->guests[i].fd);
		}
	}
	for (i = 0; i < m->c->world.size && !met; i++) {
		if (m->socks[i] >= 0) {
			close(m->socks[i]);
			m->socks[i] = -1;
		}
	}
	if (m->listener >= 0) {
		close(m->listener);
	}
	free(m->table);
	free(m->hellos);
	free(m->polls);
}

enum rt_status
rt_tcp_meet(const struct rt_comm *c, int *socks, struct rt_error *err)
{
	const struct rt_world *w = &c->world;
	struct rt_tcp_meeting *m = calloc(1, sizeof(*m));
	struct rt_error own = { .status = RT_OK };
	enum rt_status s;
	int64_t i;

	if (!m) {
		return rt_no_memory(err, NULL);
	}
	m->c = c;
	m->until_us = rt_now_us() + c->timeout_us;
	m->socks = socks;
	m->listener = -1;
	for (i = 0; i < w->size; i++) {
		socks[i] = -1;
	}
	for (i = 0; i < RT_TCP_STRANGERS; i++) {
		m->guests[i].fd = -1;
	}
	m->own = (struct rt_tcp_hello){ .magic = RT_TCP_MAGIC,
		.plan = rt_plan_sum(c->plan), .version = RT_TCP_VERSION,
		.abi = c->plan->abi, .rank = w->rank, .size = w->size };
	gethostname(m->own.host, sizeof(m->own.host) - 1);
	allow_files(w->size);
	m->table = calloc((size_t)w->size, sizeof(*m->table));
	s = m->table ? rt_rendezvous_find(&m->at, &c->variables, &own)
		     : rt_no_memory(&own, NULL);
	if (s == RT_OK) {
		name_place(m);
		s = w->rank == 0 ? rt_tcp_host(m, &own) : rt_tcp_visit(m, &own);
	}
	if (s != RT_OK && err) {
		*err = own;
	}
	close_all(m, s == RT_OK);
	free(m);
	return s;
}

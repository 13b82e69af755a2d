/*
 * How ranks of several hosts meet: what the first rank and the others share.
 */
#include "runtime/comm/tcp/tcp_meet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Writes "node1, ports 29501 to 29508". */
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

/* Raises the limit of open files: each rank needs a connection to every
 * other. */
static void
allow_files(int64_t n)
{
	struct rlimit l;
	rlim_t want = (rlim_t)n + RT_TCP_GUESTS + 256;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < want) {
		l.rlim_cur = want < l.rlim_max ? want : l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

static void
close_all(struct rt_tcp_meeting *m, bool met)
{
	int64_t i;

	rt_tcp_guests_close(m);
	for (i = 0; i < m->c->world.size && !met; i++) {
		if (m->ends[i].fd >= 0) {
			close(m->ends[i].fd);
			m->ends[i].fd = -1;
		}
	}
	if (m->listener >= 0) {
		close(m->listener);
	}
	free(m->table);
	free(m->hellos);
	free(m->polls);
	free(m->guests);
}

static bool
make_tables(struct rt_tcp_meeting *m)
{
	size_t n = (size_t)m->c->world.size;
	int i;

	m->table = calloc(n, sizeof(*m->table));
	m->hellos = calloc(n, sizeof(*m->hellos));
	m->polls = calloc(n + 1 + RT_TCP_GUESTS, sizeof(*m->polls));
	m->guests = calloc(RT_TCP_GUESTS, sizeof(*m->guests));
	for (i = 0; m->guests && i < RT_TCP_GUESTS; i++) {
		m->guests[i].fd = -1;
	}
	return m->table && m->hellos && m->polls && m->guests;
}

/* A job with a secret authenticates messages by default. */
static enum rt_status
read_checks(struct rt_tcp_meeting *m, struct rt_error *err)
{
	const struct rt_variables *v = &m->c->variables;
	const char *s = v->get ? v->get(v->user, RT_TCP_CHECKS) : NULL;

	if (!s || !*s) {
		m->own.checks = m->secret.given;
	} else if (strcmp(s, "on") == 0 || strcmp(s, "off") == 0) {
		m->own.checks = strcmp(s, "on") == 0;
	} else {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the variable "
			       RT_TCP_CHECKS " is '%s', expected on or off",
			       rt_show_name(s).text);
	}
	return RT_OK;
}

static enum rt_status
prepare(struct rt_tcp_meeting *m, struct rt_error *err)
{
	const struct rt_comm *c = m->c;
	enum rt_status s;

	m->own = (struct rt_tcp_hello){ .magic = RT_TCP_MAGIC,
		.plan = rt_plan_sum(c->plan), .version = RT_TCP_VERSION,
		.abi = c->plan->abi, .rank = c->world.rank,
		.size = c->world.size };
	gethostname(m->own.host, sizeof(m->own.host) - 1);
	allow_files(c->world.size);
	if (!make_tables(m)) {
		return rt_no_memory(err, NULL);
	}
	s = rt_secret_read(&m->secret, &c->variables, err);
	if (s == RT_OK) {
		s = read_checks(m, err);
	}
	if (s == RT_OK) {
		s = rt_rendezvous_find(&m->at, &c->variables, err);
	}
	if (s == RT_OK) {
		name_place(m);
	}
	return s;
}

enum rt_status
rt_tcp_meet(const struct rt_comm *c, struct rt_tcp_end *ends, bool *checks,
	    struct rt_error *err)
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
	m->ends = ends;
	m->listener = -1;
	for (i = 0; i < w->size; i++) {
		ends[i].fd = -1;
	}
	s = prepare(m, &own);
	if (s == RT_OK) {
		s = w->rank == 0 ? rt_tcp_host(m, &own) : rt_tcp_join(m, &own);
	}
	*checks = m->own.checks;
	if (s != RT_OK && err) {
		*err = own;
	}
	close_all(m, s == RT_OK);
	free(m);
	return s;
}

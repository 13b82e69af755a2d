/*
 * Where ranks of several hosts find the first one, as the environment says.
 *
 * A host and port that the user or launcher has set are used as they are.  A
 * derived port may belong to another program by chance: then the first rank
 * listens at the first free one of several ports, and the others try them all.
 */
#include "runtime/comm/comm.h"

#include "runtime/error.h"

#include <stdio.h>
#include <string.h>

#define NOWHERE ((struct rt_where){ NULL, NULL, -1 })
#define MINE "LLMC_RENDEZVOUS"

enum {
	PORTS = 8,
	MOST_PORT = 65535,
	/* below the ports that systems assign by themselves */
	FIRST_DERIVED = 10000,
	DERIVED = 20000
};

static const char *
variable_of(const struct rt_variables *v, const char *name)
{
	const char *s = v->get ? v->get(v->user, name) : NULL;

	return s && *s ? s : NULL;
}

/* FNV-1a; each text is followed by a separator. */
static uint64_t
add_text(uint64_t h, const char *s)
{
	for (; s && *s; s++) {
		h = (h ^ (unsigned char)*s) * 1099511628211u;
	}
	return (h ^ 0xff) * 1099511628211u;
}

static uint64_t
key_of(const char *a, const char *b)
{
	return add_text(add_text(14695981039346656037u, a), b);
}

/* -1: not a port */
static int64_t
read_port(const char *s)
{
	int64_t v = 0;
	size_t i;

	for (i = 0; s[i] >= '0' && s[i] <= '9' && v <= MOST_PORT; i++) {
		v = v * 10 + (s[i] - '0');
	}
	return i > 0 && !s[i] && v >= 1 && v <= MOST_PORT ? v : -1;
}

static bool
set_place(struct rt_rendezvous *r, const char *s, size_t n)
{
	if (n == 0 || n >= sizeof(r->place)) {
		return false;
	}
	memcpy(r->place, s, n);
	r->place[n] = '\0';
	return true;
}

/* ---- places that the user sets ---- */

/* "host:port", "[::1]:port" */
static bool
read_host_port(struct rt_rendezvous *r, const char *s)
{
	const char *colon = strrchr(s, ':');
	size_t n = colon ? (size_t)(colon - s) : 0;

	if (!colon) {
		return false;
	}
	r->port = read_port(colon + 1);
	r->nports = 1;
	if (n > 2 && s[0] == '[' && s[n - 1] == ']') {
		return r->port > 0 && set_place(r, s + 1, n - 2);
	}
	return r->port > 0 && !memchr(s, ':', n) && set_place(r, s, n);
}

static enum rt_status
from_mine(struct rt_rendezvous *r, const char *s, struct rt_error *err)
{
	r->from = MINE;
	r->key = key_of(s, NULL);
	r->by_file = strncmp(s, "file:", 5) == 0;
	if (r->by_file ? set_place(r, s + 5, strlen(s + 5)) :
	    read_host_port(r, s)) {
		return RT_OK;
	}
	return rt_fail(err, RT_FORMAT, NOWHERE, "the variable " MINE " is "
		       "'%s', expected host:port, as node1:29500, or "
		       "file:/path in a folder that all hosts share",
		       rt_show_name(s).text);
}

/* If torchrun's agent already keeps a store at that port, and says so, the port
 * is not free: ranks then use one derived from it. */
static enum rt_status
from_master(struct rt_rendezvous *r, const struct rt_variables *v,
	    const char *host, const char *port, struct rt_error *err)
{
	const char *kept = variable_of(v, "TORCHELASTIC_USE_AGENT_STORE");

	r->from = "MASTER_ADDR and MASTER_PORT";
	r->key = key_of(port, variable_of(v, "TORCHELASTIC_RUN_ID"));
	r->port = read_port(port);
	r->nports = 1;
	if (r->port < 0) {
		return rt_fail(err, RT_FORMAT, NOWHERE, "the variable "
			       "MASTER_PORT is '%s', expected a number from 1 "
			       "to %d", rt_show_name(port).text,
			       (int)MOST_PORT);
	}
	if (!set_place(r, host, strlen(host))) {
		return rt_fail(err, RT_FORMAT, NOWHERE, "the variable "
			       "MASTER_ADDR is '%s', expected the name of a "
			       "host", rt_show_name(host).text);
	}
	if (kept && strcmp(kept, "True") == 0) {
		r->nports = PORTS;
		r->port = r->port + PORTS > MOST_PORT ? r->port - PORTS
						      : r->port + 1;
	}
	return RT_OK;
}

/* ---- derived places ---- */

/* The first name of a list of Slurm: a003 of "a[003-010,015],b7". */
static bool
first_host(struct rt_rendezvous *r, const char *list)
{
	size_t n = 0;
	const char *s;

	for (s = list; *s && *s != ','; s++) {
		if (*s == '[') {
			size_t digits = strspn(s + 1, "0123456789");
			const char *end = strchr(s, ']');

			if (!end || digits == 0 ||
			    n + digits >= sizeof(r->place)) {
				return false;
			}
			memcpy(r->place + n, s + 1, digits);
			n += digits;
			s = end;
		} else if (n + 1 < sizeof(r->place)) {
			r->place[n++] = *s;
		} else {
			return false;
		}
	}
	r->place[n] = '\0';
	return n > 0;
}

static enum rt_status
from_slurm(struct rt_rendezvous *r, const struct rt_variables *v,
	   const char *name, const char *job, struct rt_error *err)
{
	const char *list = variable_of(v, name);

	r->from = name;
	r->key = key_of(job, variable_of(v, "SLURM_STEP_ID"));
	r->port = FIRST_DERIVED + (int64_t)(r->key % DERIVED);
	r->nports = PORTS;
	if (!first_host(r, list)) {
		return rt_fail(err, RT_FORMAT, NOWHERE, "the variable %s is "
			       "'%s', expected hosts, as node[01-04],gpu7",
			       name, rt_show_name(list).text);
	}
	return RT_OK;
}

/* ---- the first source that is set ---- */

bool
rt_rendezvous_given(const struct rt_variables *v)
{
	return variable_of(v, MINE) != NULL;
}

enum rt_status
rt_rendezvous_find(struct rt_rendezvous *r, const struct rt_variables *v,
		   struct rt_error *err)
{
	static const char *const lists[] = { "SLURM_STEP_NODELIST",
		"SLURM_JOB_NODELIST" };
	const char *host = variable_of(v, "MASTER_ADDR");
	const char *port = variable_of(v, "MASTER_PORT");
	const char *job = variable_of(v, "SLURM_JOB_ID");
	size_t i;

	memset(r, 0, sizeof(*r));
	if (variable_of(v, MINE)) {
		return from_mine(r, variable_of(v, MINE), err);
	}
	if (host && port) {
		return from_master(r, v, host, port, err);
	}
	for (i = 0; i < 2 && job; i++) {
		if (variable_of(v, lists[i])) {
			return from_slurm(r, v, lists[i], job, err);
		}
	}
	return rt_fail(err, RT_RANGE, NOWHERE, "ranks that meet by TCP must "
		       "know where: set MASTER_ADDR and MASTER_PORT, or "
		       MINE " to host:port, the first rank's, or to file:/path "
		       "in a folder that all hosts share");
}

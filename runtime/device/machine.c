/*
 * Cores and memory of this host, and a rank's share of them.
 */
#define _GNU_SOURCE	/* sched_getaffinity */

#include "runtime/device/cgroup.h"
#include "runtime/device/this_machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_NODES 256

double
rt_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- cores ---- */

static void
take_core(struct rt_machine *m, cpu_set_t *left, int core)
{
	if (core >= 0 && core < RT_MAX_CORES && CPU_ISSET(core, left)) {
		CPU_CLR(core, left);
		m->cores[m->ncores++] = core;
	}
}

/* A list as in sysfs: "0-3,8-11". */
static void
take_list(struct rt_machine *m, cpu_set_t *left, const char *s)
{
	char *end;
	long from, to;

	while (*s >= '0' && *s <= '9') {
		from = to = strtol(s, &end, 10);
		if (*end == '-') {
			to = strtol(end + 1, &end, 10);
		}
		for (; from <= to && from < RT_MAX_CORES; from++) {
			take_core(m, left, (int)from);
		}
		s = *end == ',' ? end + 1 : end;
	}
}

/* Takes cores node by node, then those of no node. */
static void
find_cores(struct rt_machine *m)
{
	char path[64], line[4096];
	cpu_set_t left;
	int i;

	_Static_assert(CPU_SETSIZE == RT_MAX_CORES, "as many as a set has");
	CPU_ZERO(&left);
	if (sched_getaffinity(0, sizeof left, &left) != 0) {
		CPU_SET(0, &left);
	}
	m->ncores = 0;
	for (i = 0; i < MAX_NODES; i++) {
		FILE *f;

		snprintf(path, sizeof path,
			 "/sys/devices/system/node/node%d/cpulist", i);
		f = fopen(path, "r");
		if (f && fgets(line, sizeof line, f)) {
			take_list(m, &left, line);
		}
		if (f) {
			fclose(f);
		}
	}
	for (i = 0; i < RT_MAX_CORES; i++) {
		take_core(m, &left, i);
	}
}

/* ---- memory ---- */

/* What the system has free, limited by control groups. */
static int64_t
free_memory(void)
{
	int64_t kib = rt_number_in("/proc/meminfo", "MemAvailable:");

	return rt_least(kib < 0 ? -1 : kib * 1024,
			rt_cgroup_memory("").free_bytes);
}

void
rt_machine_look(struct rt_machine *m)
{
	find_cores(m);
	m->online = sysconf(_SC_NPROCESSORS_ONLN);
	m->online = m->online < m->ncores ? m->ncores : m->online;
	m->free_bytes = free_memory();
}

/* ---- shares ---- */

/* The ranks of a host share its cores, unless their launcher has bound each to
 * its own: then a rank sees fewer cores than the host has. */
static bool
is_common(const struct rt_machine *m, const struct rt_world *w)
{
	return m->ncores == m->online || w->local_size == 1 ||
	       strcmp(w->how, "local") == 0;
}

struct rt_share
rt_machine_share(const struct rt_machine *m, const struct rt_world *w,
		 int64_t wanted, int64_t most, bool bind)
{
	bool common = is_common(m, w);
	int64_t all = common ? m->ncores : m->online;
	int64_t fair = all / w->local_size;
	struct rt_share s = { wanted, NULL, false };

	if (fair > m->ncores) {
		fair = m->ncores;
	}
	if (s.threads < 1) {
		s.threads = fair < 1 ? 1 : fair;
	}
	if (s.threads > most && most > 0) {
		s.threads = most;
	}
	s.crowded = s.threads * w->local_size > all ||
		    s.threads > m->ncores;
	if (bind && common && !s.crowded) {
		s.cores = m->cores + w->local_rank * s.threads;
	}
	return s;
}

/*
 * machine.c - cores and memory of this host, and a rank's share of them.
 */
#define _GNU_SOURCE	/* sched_getaffinity */

#include "runtime/rank.h"

#include <sched.h>
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

/* A list as the system writes it: "0-3,8-11". */
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

/* Node by node, then whatever no node has. */
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

/* The number behind a key, or of a file of one number; -1: none there. */
static int64_t
number_in(const char *path, const char *key)
{
	FILE *f = fopen(path, "r");
	char line[256];
	long long n = -1;

	while (f && n < 0 && fgets(line, sizeof line, f)) {
		if (strncmp(line, key, strlen(key)) == 0 &&
		    sscanf(line + strlen(key), "%lld", &n) != 1) {
			n = -1;
		}
	}
	if (f) {
		fclose(f);
	}
	return n;
}

static int64_t
least(int64_t a, int64_t b)
{
	return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

/* What the system has, and what a container leaves of it. */
static int64_t
free_memory(void)
{
	static const char two[] = "/sys/fs/cgroup/memory.max";
	static const char used2[] = "/sys/fs/cgroup/memory.current";
	static const char one[] =
		"/sys/fs/cgroup/memory/memory.limit_in_bytes";
	static const char used1[] =
		"/sys/fs/cgroup/memory/memory.usage_in_bytes";
	int64_t kib = number_in("/proc/meminfo", "MemAvailable:");
	int64_t limit = number_in(two, ""), used = number_in(used2, "");

	if (limit < 0) {
		limit = number_in(one, "");
		used = number_in(used1, "");
	}
	limit = limit < 0 || used < 0 ? -1 : limit > used ? limit - used : 0;
	return least(kib < 0 ? -1 : kib * 1024, limit);
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

/*
 * Cores are shared by the ranks of a host, unless who started them has given
 * each its own already: then a rank sees fewer than there are.
 */
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

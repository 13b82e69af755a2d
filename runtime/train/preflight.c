/*
 * The command `preflight`: what the ranks run on, whether it is the same
 * everywhere, and whether one of them is slower than the others.  What a device
 * cannot run at all was refused when it was opened.
 */
#define _GNU_SOURCE	/* gethostname */

#include "runtime/train/preflight.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	GPU_BYTES = 256 << 20,	/* of a copy, if the arena is large enough */
	HOST_BYTES = 32 << 20,
	SMALL_BYTES = 256,
	WARM = 3, TIMES = 10,
	SMALL_TIMES = 100,
	ROUNDS = 5,		/* of work on the host; the fastest counts */
	WORK = 100000,		/* dependent steps of a round */
	LISTED = 8
};
/* A rank is slow that takes this part longer than the median. */
#define OFF 0.1

/* Sent from rank to rank as it is: 8-byte words. */
struct seen {
	char name[72], host[64], nccl[32], uuid[40];
	int64_t major, minor, driver, free_bytes, arena_bytes;
	double copy_gbs, small_us;
};

/* ---- one rank ---- */

/*
 * Copies from one half of the arena to the other, timed by the GPU; nothing is
 * in the arena yet.
 */
static enum rt_status
time_copies(struct rt_device *d, int64_t bytes, int64_t times, double *ms,
	    struct rt_error *err)
{
	int64_t half = rt_gpu_own_bytes(d->program) / 512 * 256, i;
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	float took = 0;

	for (i = 0; i < WARM + times && status == RT_OK; i++) {
		if (i == WARM) {
			status = GPU(&g->api, event_record, g->from,
				     g->stream);
		}
		if (status == RT_OK) {
			status = GPU(&g->api, copy, g->arena + (uint64_t)half,
				     g->arena, (size_t)bytes, g->stream);
		}
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_record, g->to, g->stream);
	}
	if (status == RT_OK) {
		status = rt_gpu_wait(d, err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_elapsed, &took, g->from, g->to);
	}
	*ms = (double)took / (double)times;
	return status;
}

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static enum rt_status
time_gpu(struct rt_device *d, struct seen *s, struct rt_error *err)
{
	int64_t half = rt_gpu_own_bytes(d->program) / 512 * 256;
	int64_t bytes = least(half, GPU_BYTES);
	enum rt_status status;
	double ms = 0;

	if (half == 0) {
		return RT_OK;
	}
	status = time_copies(d, bytes, TIMES, &ms, err);
	if (status == RT_OK && ms > 0) {
		s->copy_gbs = 2 * (double)bytes / ms * 1e-6;
	}
	if (status == RT_OK) {
		status = time_copies(d, least(half, SMALL_BYTES), SMALL_TIMES,
				     &ms, err);
	}
	if (status == RT_OK) {
		s->small_us = ms * 1e3;
	}
	return status;
}

/* A chain of dependent steps, which measures the clock of a core. */
static double
do_work(void)
{
	volatile double from = 1;
	double v = from;
	int i;

	for (i = 0; i < WORK; i++) {
		v = v * 0.999 + 0.001;
	}
	from = v;
	return from;
}

/* The fastest of some rounds: others may use the core meanwhile. */
static void
time_host(const struct rt_device *d, struct seen *s)
{
	int64_t half = d->program->arena_bytes / 512 * 256, i;
	int64_t bytes = least(half, HOST_BYTES);

	for (i = 0; i < ROUNDS; i++) {
		double ms = rt_now_ms(), gbs, us;

		do_work();
		us = (rt_now_ms() - ms) * 1e3;
		s->small_us = i == 0 || us < s->small_us ? us : s->small_us;
		ms = rt_now_ms();
		if (bytes > 0 && d->host) {
			memcpy(d->host + half, d->host, (size_t)bytes);
		}
		ms = rt_now_ms() - ms;
		gbs = ms > 0 ? 2 * (double)bytes / ms * 1e-6 : 0;
		s->copy_gbs = gbs > s->copy_gbs ? gbs : s->copy_gbs;
	}
}

static enum rt_status
look_at_device(struct rt_run *r, struct seen *s, struct rt_error *err)
{
	const struct rt_gpu *g = r->device->self;
	struct rt_machine m;

	s->arena_bytes = r->program->arena_bytes;
	gethostname(s->host, sizeof s->host - 1);
	if (r->device->on == RT_ON_CUDA) {
		memcpy(s->name, g->facts.name, sizeof g->facts.name);
		s->major = g->facts.major;
		s->minor = g->facts.minor;
		s->driver = g->facts.driver;
		s->free_bytes = g->facts.free_bytes;
		snprintf(s->uuid, sizeof s->uuid, "%016llx%016llx",
			 (unsigned long long)g->facts.uuid[0],
			 (unsigned long long)g->facts.uuid[1]);
		if (g->nccl) {
			snprintf(s->nccl, sizeof s->nccl, "%s",
				 rt_nccl_version(r->device));
		}
		return time_gpu(r->device, s, err);
	}
	rt_machine_look(&m);
	snprintf(s->name, sizeof s->name, "%s", rt_cpu_name().text);
	s->free_bytes = m.free_bytes;
	time_host(r->device, s);
	return RT_OK;
}

static void
show_rank(const struct rt_run *r, int64_t rank, const struct seen *s,
	  FILE *out)
{
	const double gib = 1 << 30;
	char who[96];

	rt_mesh_text(r->plan, rank, who, sizeof who);
	fprintf(out, "%-10s %s", who, s->name[0] ? s->name : "CPU");
	if (s->major) {
		fprintf(out, ", sm_%lld%lld", (long long)s->major,
			(long long)s->minor);
	}
	fprintf(out, ": arena %.3f GiB", (double)s->arena_bytes / gib);
	if (s->free_bytes >= 0) {
		fprintf(out, " of %.3f free", (double)s->free_bytes / gib);
	}
	if (s->copy_gbs > 0) {
		fprintf(out, ", copies at %.0f GB/s", s->copy_gbs);
	}
	fprintf(out, ", small work %.2f us; on %s", s->small_us,
		rt_show_name(s->host).text);
	if (s->uuid[0]) {
		fprintf(out, ", GPU %s", s->uuid);
	}
	putc('\n', out);
}

/* ---- all ranks: are they alike? ---- */

/* One property of a rank as text; "": it has none. */
static struct rt_shown
version_of(const struct seen *s, int kind)
{
	struct rt_shown t = { "" };

	if (kind == 0) {
		snprintf(t.text, sizeof t.text, "%s", s->name);
	} else if (kind == 1 && s->driver) {
		snprintf(t.text, sizeof t.text, "driver for CUDA %lld.%lld",
			 (long long)s->driver / 1000,
			 (long long)s->driver % 1000 / 10);
	} else if (kind == 2 && s->nccl[0]) {
		snprintf(t.text, sizeof t.text, "NCCL %s", s->nccl);
	}
	return t;
}

/* Lists ranks that differ from the first rank. */
static void
show_differences(const struct seen *all, int64_t n, FILE *out)
{
	int64_t rank, found = 0;
	int kind;

	for (rank = 1; rank < n; rank++) {
		for (kind = 0; kind < 3; kind++) {
			struct rt_shown a = version_of(&all[0], kind);
			struct rt_shown b = version_of(&all[rank], kind);

			if (strcmp(a.text, b.text) != 0 &&
			    found++ < LISTED) {
				fprintf(out, "%-10s rank %lld on %s has %s, "
					"rank 0 on %s %s\n", "warning",
					(long long)rank,
					rt_show_name(all[rank].host).text,
					b.text[0] ? b.text : "none",
					rt_show_name(all[0].host).text,
					a.text[0] ? a.text : "none");
			}
		}
	}
	if (found > LISTED) {
		fprintf(out, "%-10s and %lld more differences\n", "warning",
			(long long)(found - LISTED));
	}
	if (found == 0 && n > 1) {
		fprintf(out, "%-10s devices%s are the same on all ranks\n",
			"alike", all[0].nccl[0] ? ", drivers and NCCL" :
			all[0].driver ? " and drivers" : "");
	}
}

/* ---- is one of them slow? ---- */

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The time of a rank; of a rate, its inverse. */
static double
cost_of(const struct seen *s, bool copies)
{
	return !copies ? s->small_us : s->copy_gbs > 0 ? 1 / s->copy_gbs : 0;
}

/*
 * Prints slow ranks and returns how many; of an even number of ranks the faster
 * of both middle ones is the median.
 */
static int64_t
show_slow(const struct rt_run *r, const struct seen *all, bool copies,
	  double *costs, FILE *out)
{
	int64_t n = r->plan->nranks, i, found = 0;
	double middle;

	for (i = 0; i < n; i++) {
		costs[i] = cost_of(&all[i], copies);
	}
	qsort(costs, (size_t)n, sizeof *costs, by_size);
	middle = costs[(n - 1) / 2];
	for (i = 0; i < n; i++) {
		double mine = cost_of(&all[i], copies);
		char who[96];

		if (!(middle > 0) || mine <= middle * (1 + OFF) ||
		    found++ >= LISTED) {
			continue;
		}
		rt_mesh_text(r->plan, i, who, sizeof who);
		fprintf(out, "%-10s %s on %s: %s takes %.2f times as long as "
			"in the middle of all ranks\n", "slow", who,
			rt_show_name(all[i].host).text,
			copies ? "a copy" : "small work", mine / middle);
	}
	if (found > LISTED) {
		fprintf(out, "%-10s and %lld more ranks\n", "slow",
			(long long)(found - LISTED));
	}
	return found;
}

static enum rt_status
show_stragglers(const struct rt_run *r, const struct seen *all, FILE *out,
		struct rt_error *err)
{
	double *costs = malloc((size_t)r->plan->nranks * sizeof *costs);
	int64_t found;

	if (!costs) {
		return rt_no_memory(err, NULL);
	}
	found = show_slow(r, all, true, costs, out) +
		show_slow(r, all, false, costs, out);
	if (found == 0 && r->plan->nranks > 1) {
		fprintf(out, "%-10s none: copies and small work take at most "
			"%.0f%% longer than in the middle of all ranks\n",
			"slow", OFF * 100);
	}
	free(costs);
	return RT_OK;
}

/* ---- all of it ---- */

static void
show_device(const struct rt_run *r, FILE *out)
{
	const struct rt_device *d = r->device;
	const struct rt_gpu *g = d->self;

	fprintf(out, "%-10s %s\n", "device", d->kind->name);
	if (d->on == RT_ON_CUDA) {
		fprintf(out, "%-10s CUDA %d.%d; kernels are of %s\n",
			"driver", g->facts.driver / 1000,
			g->facts.driver % 1000 / 10,
			d->plan->images->made_by);
	}
	if (d->on == RT_ON_CUDA && g->nccl) {
		fprintf(out, "%-10s %s\n", "NCCL", rt_nccl_version(d));
	}
}

static enum rt_status
show_all(const struct rt_run *r, const struct seen *all, FILE *out,
	 struct rt_error *err)
{
	int64_t rank;

	show_device(r, out);
	for (rank = 0; rank < r->plan->nranks; rank++) {
		show_rank(r, rank, &all[rank], out);
	}
	show_differences(all, r->plan->nranks, out);
	return show_stragglers(r, all, out, err);
}

enum rt_status
rt_preflight(struct rt_run *r, FILE *out, struct rt_error *err)
{
	int64_t n = r->plan->nranks;
	struct seen *all = calloc((size_t)n, sizeof *all);
	enum rt_status status;

	_Static_assert(sizeof(struct seen) % 8 == 0, "seen is whole words");
	out = r->rank == 0 ? out : NULL;
	if (!all) {
		return rt_no_memory(err, NULL);
	}
	status = look_at_device(r, &all[r->rank], err);
	if (status == RT_OK) {
		status = rt_comm_sum_u64(r->comm, (void *)all, n *
			(int64_t)(sizeof *all / 8), err);
	}
	if (status == RT_OK && out) {
		status = show_all(r, all, out, err);
	}
	if (status == RT_OK) {
		status = rt_preflight_links(r, out, err);
	}
	free(all);
	return status;
}

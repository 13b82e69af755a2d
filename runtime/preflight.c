/*
 * preflight.c - what ranks run on and how fast they reach each other, before
 * a long run: all that a device refuses it has refused when it was opened.
 */
#include "runtime/cuda.h"
#include "runtime/rank.h"

#include <stdlib.h>
#include <string.h>

/* What is sent, if the arena has as much; and how often. */
#define TALK_BYTES (64 << 20)
enum { WARM = 3, TIMES = 10 };

/* As it travels: 8-byte words. */
struct seen {
	char name[72];
	int64_t major, minor, free_bytes, arena_bytes;
	double copy_gbs;
};

/* ---- one rank ---- */

/* Half of the arena to the other half: nothing is in there yet. */
static enum rt_status
time_copy(struct rt_device *d, double *gbs, struct rt_error *err)
{
	int64_t half = d->program->arena_bytes / 512 * 256, i;
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	float ms = 0;

	half = half < 4 * TALK_BYTES ? half : 4 * TALK_BYTES;
	if (half == 0) {
		return RT_OK;
	}
	for (i = 0; i < WARM + TIMES && status == RT_OK; i++) {
		if (i == WARM) {
			status = GPU(&g->api, event_record, g->from,
				     g->stream);
		}
		if (status == RT_OK) {
			status = GPU(&g->api, copy, g->arena + (uint64_t)half,
				     g->arena, (size_t)half, g->stream);
		}
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_record, g->to, g->stream);
	}
	if (status == RT_OK) {
		status = rt_gpu_wait(d, err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_elapsed, &ms, g->from, g->to);
	}
	if (status == RT_OK && ms > 0) {
		*gbs = 2 * (double)half * TIMES / (double)ms * 1e-6;
	}
	return status;
}

static enum rt_status
look(struct rt_run *r, struct seen *s, struct rt_error *err)
{
	const struct rt_gpu *g = r->device->self;
	struct rt_machine m;

	s->arena_bytes = r->program->arena_bytes;
	if (r->device->on == RT_ON_CUDA) {
		memcpy(s->name, g->facts.name, sizeof g->facts.name);
		s->major = g->facts.major;
		s->minor = g->facts.minor;
		s->free_bytes = g->facts.free_bytes;
		return time_copy(r->device, &s->copy_gbs, err);
	}
	rt_machine_look(&m);
	snprintf(s->name, sizeof s->name, "%s", rt_cpu_name().text);
	s->free_bytes = m.free_bytes;
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
	putc('\n', out);
}

/* ---- between ranks ---- */

/* "dp+tp" */
static void
axes_text(const struct rt_plan *p, int64_t axes, char *out, size_t room)
{
	size_t n = 0;
	int64_t a;

	out[0] = '\0';
	for (a = 1; a < p->naxes && n < room; a++) {
		if (axes >> a & 1 && a != p->time) {
			n += (size_t)snprintf(out + n, room - n, "%s%s",
					      n ? "+" : "", p->axes[a].name);
		}
	}
}

/* All-reduces of one group, all groups of the kind at once. */
static enum rt_status
time_group(struct rt_run *r, const struct rt_nccl_comm *c, int64_t bytes,
	   double *ms, struct rt_error *err)
{
	const struct rt_talk t = { .what = "all_reduce of preflight",
		.op = RT_TALK_SUM, .elem = RT_ELEM_F32 };
	struct rt_gpu *g = r->device->self;
	char *at = r->device->arena;
	enum rt_status status = RT_OK;
	int64_t i;

	*ms = rt_now_ms();
	for (i = 0; i < WARM + TIMES && status == RT_OK; i++) {
		if (i == WARM) {
			*ms = rt_now_ms();
		}
		status = rt_nccl_call(r->device, c, RT_NCCL_REDUCE, &t, at,
				      at, bytes / 4, err);
		if (status == RT_OK) {
			status = GPU(&g->api, event_record, g->to, c->stream);
		}
		if (status == RT_OK) {
			status = GPU(&g->api, stream_wait, g->stream, g->to,
				     0);
		}
		if (status == RT_OK && (i == WARM - 1 ||
					i == WARM + TIMES - 1)) {
			status = rt_gpu_wait(r->device, err);
		}
	}
	*ms = (rt_now_ms() - *ms) / TIMES;
	return status;
}

/* What a link of a ring carries: each sends 2 (n - 1) / n of it. */
static enum rt_status
show_group(struct rt_run *r, int64_t axes, FILE *out, struct rt_error *err)
{
	int64_t bytes = TALK_BYTES, i;
	const struct rt_nccl_comm *c;
	struct rt_group *g;
	enum rt_status status = rt_group_find(r->comm, axes, 0, &g, err);
	char name[96];
	double ms = 0;

	if (status != RT_OK || g->n < 2) {
		return status;
	}
	c = rt_nccl_group(r->device, g);
	for (i = 0; i < r->plan->nprograms; i++) {
		bytes = r->plan->programs[i].arena_bytes < bytes
			? r->plan->programs[i].arena_bytes : bytes;
	}
	bytes = bytes / 256 * 256;
	if (!c || bytes == 0) {
		return RT_OK;
	}
	status = time_group(r, c, bytes, &ms, err);
	axes_text(r->plan, axes, name, sizeof name);
	if (status == RT_OK && out) {
		fprintf(out, "%-10s %lld ranks, %.1f MiB all-reduced in %.3f "
			"ms: %.1f GB/s of each link\n", name, (long long)g->n,
			(double)bytes / (1 << 20), ms, 2 * (double)bytes *
				(double)(g->n - 1) / (double)g->n / ms * 1e-6);
	}
	return status;
}

static enum rt_status
show_talks(struct rt_run *r, FILE *out, struct rt_error *err)
{
	const struct rt_gpu *g = r->device->self;
	enum rt_status status = RT_OK;
	int64_t i;

	if (r->device->on != RT_ON_CUDA || r->plan->nranks < 2) {
		return RT_OK;
	}
	if (!g->nccl) {
		if (out) {
			fprintf(out, "%-10s %s\n", "talks", RT_GPU_SHARED);
		}
		return RT_OK;
	}
	if (out) {
		fprintf(out, "%-10s %s\n", "NCCL",
			rt_nccl_version(r->device));
	}
	for (i = 0; i < r->plan->ngroups && status == RT_OK; i++) {
		status = show_group(r, r->plan->groups[i], out, err);
	}
	return status;
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
}

enum rt_status
rt_preflight(struct rt_run *r, FILE *out, struct rt_error *err)
{
	int64_t n = r->plan->nranks, rank;
	struct seen *all = calloc((size_t)n, sizeof *all);
	enum rt_status status;

	_Static_assert(sizeof(struct seen) % 8 == 0, "seen is whole words");
	out = r->rank == 0 ? out : NULL;
	if (!all) {
		return rt_no_memory(err, NULL);
	}
	status = look(r, &all[r->rank], err);
	if (status == RT_OK) {
		status = rt_comm_sum_u64(r->comm, (void *)all, n *
			(int64_t)(sizeof *all / 8), err);
	}
	if (status == RT_OK && out) {
		show_device(r, out);
	}
	for (rank = 0; rank < n && status == RT_OK && out; rank++) {
		show_rank(r, rank, &all[rank], out);
	}
	if (status == RT_OK) {
		status = show_talks(r, out, err);
	}
	free(all);
	return status;
}

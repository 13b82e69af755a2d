/*
 * Measures the links of the groups of a plan beside what the plan's target
 * promises.  All groups of a kind run at once, as in a step, and the slowest
 * counts.
 */
#include "runtime/train/preflight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/json.h"

/*
 * Bytes to send, if the arena has as many, by NCCL and through the host; and
 * how often.
 */
enum { BY_NCCL = 64 << 20, BY_HOST = 8 << 20, WARM = 2, TIMES = 5 };
/* Less than this part of the promised bandwidth is reported. */
#define LITTLE 0.7

/* ---- what the target promises ---- */

/* An all-reduce on an axis; NaN: nothing is promised. */
struct promise {
	double gbs, us;
};

/* Reads the number of that axis out of an object. */
static double
number_of(struct rt_json *j, const char *axis)
{
	double v = NAN;
	const char *key;
	size_t i = 0;

	if (!rt_json_open(j, '{')) {
		return NAN;
	}
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		size_t from = j->at;

		if (rt_json_skip(j) && strcmp(key, axis) == 0) {
			char text[32] = "";
			size_t n = j->at - from;

			n = n < sizeof text ? n : sizeof text - 1;
			memcpy(text, j->text + from, n);
			v = strchr(text, 'n') ? NAN : strtod(text, NULL);
		}
	}
	return v;
}

/* Reads "link_gbs" and "link_us" in "plan" of plan.json. */
static void
read_plan(struct rt_json *j, const char *axis, struct promise *out)
{
	const char *key;
	size_t i = 0;

	if (!rt_json_open(j, '{')) {
		return;
	}
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "link_gbs") == 0) {
			out->gbs = number_of(j, axis);
		} else if (strcmp(key, "link_us") == 0) {
			out->us = number_of(j, axis);
		} else {
			rt_json_skip(j);
		}
	}
}

static struct promise
promise_of_axis(const struct rt_plan *p, const char *axis)
{
	struct promise out = { NAN, NAN };
	struct rt_error err;
	struct rt_json j = { .text = strdup(p->json ? p->json : ""),
			     .err = &err };
	const char *key;
	size_t i = 0;

	j.len = j.text ? strlen(j.text) : 0;
	if (j.text && rt_json_open(&j, '{')) {
		while (rt_json_more(&j, '}', &i) && rt_json_key(&j, &key)) {
			if (strcmp(key, "plan") == 0) {
				read_plan(&j, axis, &out);
			} else {
				rt_json_skip(&j);
			}
		}
	}
	free(j.text);
	return out;
}

/* On several axes the slowest link carries the whole. */
static double
promised_ms(const struct rt_plan *p, const struct rt_group *g, double bytes)
{
	double gbs = INFINITY, us = 0, n = (double)g->n;
	int64_t a;

	for (a = 1; a < p->naxes; a++) {
		struct promise one;

		if (!(g->axes >> a & 1)) {
			continue;
		}
		one = promise_of_axis(p, p->axes[a].name);
		if (!(one.gbs > 0) || !(one.us >= 0)) {
			return NAN;
		}
		gbs = one.gbs < gbs ? one.gbs : gbs;
		us = one.us > us ? one.us : us;
	}
	return us * 1e-3 + 2 * (n - 1) / n * bytes / gbs * 1e-6;
}

/* ---- what is measured ---- */

static bool
has_nccl(const struct rt_run *r)
{
	const struct rt_gpu *g = r->device->self;

	return r->device->on == RT_ON_CUDA && g->nccl;
}

/* "dp+tp" */
static void
axes_text(const struct rt_plan *p, int64_t axes, char *out, size_t capacity)
{
	size_t n = 0;
	int64_t a;

	out[0] = '\0';
	for (a = 1; a < p->naxes && n < capacity; a++) {
		if (axes >> a & 1 && a != p->time) {
			n += (size_t)snprintf(out + n, capacity - n, "%s%s",
					      n ? "+" : "", p->axes[a].name);
		}
	}
}

static enum rt_status
reduce_by_nccl(struct rt_run *r, const struct rt_nccl_comm *c, int64_t bytes,
	       struct rt_error *err)
{
	const struct rt_coll t = { .what = "all_reduce of preflight",
		.op = RT_COLL_SUM, .elem = RT_ELEM_F32 };
	struct rt_gpu *g = r->device->self;
	char *at = r->device->arena;
	const struct rt_nccl_call call = { RT_NCCL_REDUCE, &t, at, at,
					   bytes / 4 };
	enum rt_status status = rt_nccl_calls(r->device, c, &call, 1, err);

	if (status == RT_OK) {
		status = GPU(&g->api, event_record, g->to, c->stream);
	}
	return status == RT_OK ? GPU(&g->api, stream_wait, g->stream, g->to, 0)
			       : status;
}

/* An all-reduce as the plan's collectives run without NCCL. */
static enum rt_status
reduce_by_host(struct rt_run *r, const struct rt_group *g, int64_t bytes,
	       struct rt_error *err)
{
	int64_t n = r->plan->nranks, i;
	struct rt_pieces *all = calloc((size_t)n, sizeof *all);
	struct rt_spread row = { .size = bytes / 4, .at = all };
	const struct rt_spread *dims[] = { &row };
	struct rt_coll t = { .what = "all_reduce of preflight",
		.op = RT_COLL_SUM, .axes = g->axes, .elem = RT_ELEM_F32,
		.ndims = 1, .in = dims, .out = dims };
	char *at = rt_comm_arena(r->comm);
	enum rt_status status;

	if (!all) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n; i++) {
		all[i].n = 1;
		all[i].total = all[i].at[0].count = bytes / 4;
	}
	status = rt_comm_coll(r->comm, &t, 0, at, at, -1, err);
	free(all);
	return status;
}

static enum rt_status
time_group(struct rt_run *r, const struct rt_group *g, int64_t bytes,
	   double *ms, struct rt_error *err)
{
	const struct rt_nccl_comm *c = has_nccl(r)
		? rt_nccl_group(r->device, g) : NULL;
	enum rt_status status = RT_OK;
	int64_t i;

	*ms = rt_now_ms();
	for (i = 0; i < WARM + TIMES && status == RT_OK; i++) {
		if (i == WARM) {
			*ms = rt_now_ms();
		}
		status = c ? reduce_by_nccl(r, c, bytes, err)
			   : reduce_by_host(r, g, bytes, err);
		if (status == RT_OK && c && (i == WARM - 1 ||
					     i == WARM + TIMES - 1)) {
			status = rt_gpu_wait(r->device, err);
		}
	}
	*ms = (rt_now_ms() - *ms) / TIMES;
	return status;
}

/* ---- printing ---- */

/* The slowest of all groups of the kind, and a rank of it. */
static enum rt_status
find_slowest(struct rt_run *r, double *ms, int64_t *rank,
	     struct rt_error *err)
{
	int64_t n = r->plan->nranks, i;
	double *all = calloc((size_t)n, sizeof *all);
	enum rt_status status;

	if (!all) {
		return rt_no_memory(err, NULL);
	}
	all[r->rank] = *ms;
	status = rt_comm_sum_f64(r->comm, r->axes, all, n, err);
	for (i = 0; i < n && status == RT_OK; i++) {
		if (i == 0 || all[i] > *ms) {
			*ms = all[i];
			*rank = i;
		}
	}
	free(all);
	return status;
}

/* A ring sends 2 (n - 1) / n of the bytes over each link. */
static void
print_link(const struct rt_run *r, const struct rt_group *g, double bytes,
	   double ms, int64_t rank, FILE *out)
{
	double n = (double)g->n, promised = promised_ms(r->plan, g, bytes);
	char name[96], who[96];

	axes_text(r->plan, g->axes, name, sizeof name);
	rt_mesh_text(r->plan, rank, who, sizeof who);
	fprintf(out, "%-10s %lld ranks, %.1f MiB all-reduced in %.3f ms: %.1f "
		"GB/s of each link", name, (long long)g->n,
		bytes / (1 << 20), ms, 2 * bytes * (n - 1) / n / ms * 1e-6);
	/* emulated GPUs, and ranks that share a GPU, have no links */
	if (r->device->on != RT_ON_CPU && !has_nccl(r)) {
		fprintf(out, ", by this host's memory\n");
		return;
	}
	if (!(promised > 0)) {
		fprintf(out, "; what it should be is not known\n");
		return;
	}
	fprintf(out, ", %.2f of what %s promises\n", promised / ms,
		r->plan->target);
	if (promised / ms < LITTLE) {
		fprintf(out, "%-10s %s: %.3f ms where %.3f were promised, "
			"slowest around %s: look for other jobs, and at how "
			"these hosts and devices are joined\n", "warning",
			name, ms, promised, who);
	}
}

static enum rt_status
show_group(struct rt_run *r, int64_t axes, FILE *out, struct rt_error *err)
{
	bool nccl = has_nccl(r);
	int64_t bytes = nccl ? BY_NCCL : BY_HOST, rank = 0, i;
	struct rt_group *g;
	enum rt_status status = rt_group_find(r->comm, axes, 0, &g, err);
	double ms = 0;

	if (status != RT_OK || g->n < 2) {
		return status;
	}
	for (i = 0; i < r->plan->nprograms; i++) {
		int64_t own = rt_gpu_own_bytes(&r->plan->programs[i]);

		bytes = own < bytes ? own : bytes;
	}
	bytes = bytes / 256 * 256;
	if (bytes == 0 || (nccl && !rt_nccl_group(r->device, g))) {
		return RT_OK;
	}
	status = time_group(r, g, bytes, &ms, err);
	if (status == RT_OK) {
		status = find_slowest(r, &ms, &rank, err);
	}
	if (status == RT_OK && out) {
		print_link(r, g, (double)bytes, ms, rank, out);
	}
	return status;
}

enum rt_status
rt_preflight_links(struct rt_run *r, FILE *out, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	if (r->plan->nranks < 2) {
		return RT_OK;
	}
	if (r->device->on == RT_ON_CUDA && !has_nccl(r) && out) {
		fprintf(out, "%-10s %s\n", "links", RT_GPU_SHARED);
	}
	for (i = 0; i < r->plan->ngroups && status == RT_OK; i++) {
		status = show_group(r, r->plan->groups[i], out, err);
	}
	return status;
}

/*
 * Times candidate tilings of one kernel side by side on a GPU.
 *
 * Candidates take turns, so that changes of the clock affect all of them.
 * Between two of them the L2 cache is overwritten, as other kernels of a step
 * would do.  That is enqueued before the first event, and so also gives the
 * host time to enqueue everything between the events.
 */
#include "runtime/measure/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda_device.h"

/* cuda_device.h: CU_STREAM_NON_BLOCKING, CUdevice_attribute. */
enum { NON_BLOCKING = 1, ATTR_L2_BYTES = 38 };

enum { COLD = 2, ROUNDS = 9, MOST_WAYS = 64 };
enum { PATTERN = 1 << 20, LEAST_L2 = 1 << 20, LIVE_BYTES = 64 };

struct rt_tuner {
	struct rt_gpu g;
	struct rt_device d;
	struct rt_plan plan;
	uint64_t flush;		/* buffer that is written to flush L2 */
	size_t flush_bytes;
	void *bounce;		/* pinned host memory of PATTERN bytes */
};

/* A case and its memory on the GPU. */
struct bench {
	struct rt_tuner *t;
	const struct rt_tune_case *x;
	uint64_t *buffers, shared;
	struct tuned_way {
		char **at;
		const struct rt_pieces **pieces;
		int64_t *nums;
		double ms[ROUNDS];
	} *ways;
};

/* ---- drawn numbers ---- */

/* k / 256 with odd k of 8 bits: exact in every float type, never 0. */
static float
element(uint32_t i)
{
	uint32_t x = (i + 1) * 2654435761u;

	x = (x ^ x >> 15) * 2246822519u;
	return ((float)(int)(x >> 24) - 127.5f) / 128;
}

static void
put_element(char *to, int64_t elem, float v)
{
	uint32_t bits;
	uint16_t half;
	double wide = (double)v;

	memcpy(&bits, &v, sizeof bits);
	switch (elem) {
	case RT_ELEM_F64:
		memcpy(to, &wide, sizeof wide);
		break;
	case RT_ELEM_F32:
		memcpy(to, &bits, sizeof bits);
		break;
	case RT_ELEM_BF16:
		half = (uint16_t)(bits >> 16);
		memcpy(to, &half, sizeof half);
		break;
	case RT_ELEM_F16:	/* from 2^-8 to 1, where f16 is not subnormal */
		half = (uint16_t)((bits >> 16 & 0x8000) |
				  (((bits >> 23 & 0xff) - 112) << 10) |
				  (bits >> 13 & 0x3ff));
		memcpy(to, &half, sizeof half);
		break;
	default:		/* 8-bit floats: about 1, of either sign */
		*to = (char)(0x30 | (bits >> 24 & 0x80) | (bits >> 16 & 0xf));
		break;
	}
}

static size_t
elem_bytes(int64_t elem)
{
	return elem == RT_ELEM_F64 ? 8 : elem == RT_ELEM_F32 ? 4
		: elem == RT_ELEM_BF16 || elem == RT_ELEM_F16 ? 2 : 1;
}

/* Indices are 0, which is valid for any dim; floats repeat a pattern. */
static enum rt_status
fill(struct rt_tuner *t, uint64_t at, const struct rt_tune_buffer *b,
     struct rt_error *err)
{
	size_t bytes = (size_t)b->bytes, done = PATTERN, n, i;
	enum rt_status status;

	if (b->elem == RT_ELEM_I32) {
		return GPU(&t->g.api, set, at, 0, bytes, t->g.stream);
	}
	for (i = 0; i < PATTERN; i += elem_bytes(b->elem)) {
		put_element((char *)t->bounce + i, b->elem,
			    element((uint32_t)i));
	}
	done = done < bytes ? done : bytes;
	status = GPU(&t->g.api, to_device, at, t->bounce, done, t->g.stream);
	for (; done < bytes && status == RT_OK; done += n) {
		n = done < bytes - done ? done : bytes - done;
		status = GPU(&t->g.api, copy, at + done, at, n, t->g.stream);
	}
	return status == RT_OK ? rt_gpu_wait(&t->d, err) : status;
}

/* ---- a case ---- */

static enum rt_status
allocate(struct rt_tuner *t, int64_t bytes, uint64_t *out,
	 struct rt_error *err)
{
	return GPU(&t->g.api, alloc, out, bytes > 0 ? (size_t)bytes : 1);
}

static enum rt_status
make_buffers(struct bench *b, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t shared = 0;
	uint32_t i;

	for (i = 0; i < b->x->nbuffers && status == RT_OK; i++) {
		const struct rt_tune_buffer *x = &b->x->buffers[i];

		status = allocate(b->t, x->bytes, &b->buffers[i], err);
		if (status == RT_OK && x->bytes > 0) {
			status = fill(b->t, b->buffers[i], x, err);
		}
	}
	for (i = 0; i < b->x->nways; i++) {
		if (b->x->ways[i].shared_bytes > shared) {
			shared = b->x->ways[i].shared_bytes;
		}
	}
	return status == RT_OK ? allocate(b->t, shared, &b->shared, err)
			       : status;
}

static bool
make_way(struct bench *b, uint32_t i)
{
	const struct rt_tune_way *x = &b->x->ways[i];
	const struct rt_kernel *k = x->kernel;
	struct tuned_way *w = &b->ways[i];
	int64_t j;

	w->at = calloc((size_t)k->nat + 1, sizeof *w->at);
	w->pieces = calloc((size_t)k->npieces + 1, sizeof *w->pieces);
	w->nums = calloc((size_t)k->nnum + 1, sizeof *w->nums);
	if (!w->at || !w->pieces || !w->nums) {
		return false;
	}
	for (j = 0; j < k->nat; j++) {
		w->at[j] = (char *)(uintptr_t)b->buffers[x->operands[j]];
	}
	for (j = 0; j < k->npieces; j++) {
		w->pieces[j] = &x->pieces[j];
	}
	return true;
}

/* Copies the pieces of a candidate to the GPU. */
static enum rt_status
put_pieces(struct bench *b, uint32_t i, struct rt_error *err)
{
	const struct rt_kernel *k = b->x->ways[i].kernel;
	size_t bytes = (size_t)k->npieces * sizeof(struct rt_pieces);
	struct rt_gpu *g = &b->t->g;
	enum rt_status status;

	if (g->pieces) {
		g->api.release(g->pieces);
	}
	g->pieces = 0;
	g->known = b->ways[i].pieces;
	g->nknown = k->npieces;
	if (bytes == 0) {
		return RT_OK;
	}
	if (bytes > PATTERN) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%lld dims, which is "
			       "too many", (long long)k->npieces);
	}
	memcpy(b->t->bounce, b->x->ways[i].pieces, bytes);
	status = GPU(&g->api, alloc, &g->pieces, bytes);
	if (status == RT_OK) {
		status = GPU(&g->api, to_device, g->pieces, b->t->bounce,
			     bytes, g->stream);
	}
	return status == RT_OK ? rt_gpu_wait(&b->t->d, err) : status;
}

static enum rt_status
launch_all(struct bench *b, uint32_t i, struct rt_error *err)
{
	const struct rt_tune_way *x = &b->x->ways[i];
	const struct rt_kernel *k = x->kernel;
	struct rt_call c = { .at = b->ways[i].at,
			     .pieces = b->ways[i].pieces,
			     .num = b->ways[i].nums,
			     .shared = (char *)(uintptr_t)b->shared };
	enum rt_status status = RT_OK;
	int64_t s;

	for (s = 0; s < k->nsteps && status == RT_OK; s++) {
		status = rt_gpu_launch(&b->t->d, k, k->steps[s].grid, &c,
				       b->t->g.stream, err);
	}
	return status;
}

static enum rt_status
time_once(struct bench *b, uint32_t i, double *ms, struct rt_error *err)
{
	struct rt_gpu *g = &b->t->g;
	enum rt_status status = put_pieces(b, i, err);
	float f = 0;

	if (status == RT_OK) {
		status = GPU(&g->api, set, b->t->flush, 0x5a,
			     b->t->flush_bytes, g->stream);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_record, g->from, g->stream);
	}
	if (status == RT_OK) {
		status = launch_all(b, i, err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_record, g->to, g->stream);
	}
	if (status == RT_OK) {
		status = rt_gpu_wait(&b->t->d, err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_elapsed, &f, g->from, g->to);
	}
	*ms = (double)f;
	return status;
}

static int
by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static enum rt_status
take_turns(struct bench *b, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct rt_error why;
	double ms;
	int round;
	uint32_t i;

	for (round = -COLD; round < ROUNDS; round++) {
		for (i = 0; i < b->x->nways; i++) {
			status = time_once(b, i, &ms, &why);
			if (status != RT_OK) {
				return rt_fail(err, status, RT_NOWHERE,
					"%s: %s", rt_show_name(
					b->x->ways[i].kernel->what).text,
					why.message);
			}
			if (round >= 0) {
				b->ways[i].ms[round] = ms;
			}
		}
	}
	for (i = 0; i < b->x->nways; i++) {
		qsort(b->ways[i].ms, ROUNDS, sizeof(double), by_time);
		b->x->ways[i].us = b->ways[i].ms[ROUNDS / 2] * 1e3;
	}
	return status;
}

static void
release_case(struct bench *b)
{
	struct rt_gpu *g = &b->t->g;
	uint32_t i;

	for (i = 0; b->buffers && i < b->x->nbuffers; i++) {
		if (b->buffers[i]) {
			g->api.release(b->buffers[i]);
		}
	}
	if (b->shared) {
		g->api.release(b->shared);
	}
	for (i = 0; b->ways && i < b->x->nways; i++) {
		free(b->ways[i].at);
		free(b->ways[i].pieces);
		free(b->ways[i].nums);
	}
	g->known = NULL;
	g->nknown = 0;
	free(b->buffers);
	free(b->ways);
}

enum rt_status
rt_tuner_run(struct rt_tuner *t, const struct rt_tune_case *x,
	     struct rt_error *err)
{
	struct bench b = { .t = t, .x = x };
	enum rt_status status;
	uint32_t i;

	if (x->nways > MOST_WAYS) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%u ways, and %d is "
			       "the limit", x->nways, MOST_WAYS);
	}
	b.buffers = calloc(x->nbuffers + 1, sizeof *b.buffers);
	b.ways = calloc(x->nways + 1, sizeof *b.ways);
	status = b.buffers && b.ways ? make_buffers(&b, err)
				     : rt_no_memory(err, NULL);
	for (i = 0; i < x->nways && status == RT_OK; i++) {
		status = make_way(&b, i) ? RT_OK : rt_no_memory(err, NULL);
	}
	if (status == RT_OK) {
		status = take_turns(&b, err);
	}
	release_case(&b);
	return status;
}

/* ---- life ---- */

static enum rt_status
look(struct rt_tuner *t, const char *arch, struct rt_error *err)
{
	struct rt_gpu_facts *f = &t->g.facts;
	enum rt_status status = rt_gpu_query(&t->g.api, 0, f, err);
	char want[16];

	if (status != RT_OK) {
		return status;
	}
	snprintf(want, sizeof want, "sm_%d", f->major * 10 + f->minor);
	if (strncmp(arch, want, strlen(want)) == 0 &&
	    (!arch[strlen(want)] || strcmp(arch + strlen(want), "a") == 0)) {
		return RT_OK;
	}
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "kernels are for %s, and "
		"the GPU here is an sm_%d, %s: what is fast there is not "
		"known here", arch, f->major * 10 + f->minor, f->name);
}

static enum rt_status
make_streams(struct rt_tuner *t, struct rt_error *err)
{
	struct rt_gpu *g = &t->g;
	enum rt_status status = GPU(&g->api, context_retain, &g->context,
				    g->facts.dev);

	if (status == RT_OK) {
		status = GPU(&g->api, context_set, g->context);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, stream_create, &g->stream,
			     NON_BLOCKING);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_create, &g->from, 0);
	}
	return status == RT_OK ? GPU(&g->api, event_create, &g->to, 0)
			       : status;
}

static enum rt_status
make_memory(struct rt_tuner *t, struct rt_error *err)
{
	struct rt_gpu *g = &t->g;
	static const int64_t step = 1;
	int l2 = 0;
	enum rt_status status = GPU(&g->api, device_attribute, &l2,
				    ATTR_L2_BYTES, g->facts.dev);

	t->flush_bytes = 2 * (size_t)(l2 > LEAST_L2 ? l2 : LEAST_L2);
	if (status == RT_OK) {
		status = GPU(&g->api, alloc, &t->flush, t->flush_bytes);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, alloc, &g->live, LIVE_BYTES);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, pin, &t->bounce, PATTERN, 0);
	}
	if (status == RT_OK) {
		memcpy(t->bounce, &step, sizeof step);
		status = GPU(&g->api, to_device, g->live, t->bounce,
			     sizeof step, g->stream);
	}
	return status == RT_OK ? rt_gpu_wait(&t->d, err) : status;
}

/* Cuts advice to use another device, which only ranks can follow. */
static void
cut_advice(struct rt_error *err)
{
	char *p = strstr(err->message, "; " RT_GPU_ELSE);

	if (p) {
		*p = '\0';
	}
}

enum rt_status
rt_tuner_open(struct rt_tuner **out, const char *libcuda, const char *arch,
	      struct rt_error *err)
{
	struct rt_tuner *t = calloc(1, sizeof *t);
	enum rt_status status;

	*out = t;
	if (!t) {
		return rt_no_memory(err, NULL);
	}
	t->d.self = &t->g;
	t->d.plan = &t->plan;
	t->plan.arch = arch;
	status = rt_gpu_load(&t->g.api, libcuda, err);
	if (status == RT_OK) {
		status = look(t, arch, err);
	}
	if (status == RT_OK) {
		status = make_streams(t, err);
	}
	if (status == RT_OK) {
		status = make_memory(t, err);
	}
	if (status != RT_OK) {
		cut_advice(err);
		rt_tuner_close(t);
		*out = NULL;
	}
	return status;
}

enum rt_status
rt_tuner_load(struct rt_tuner *t, const struct rt_images *m,
	      struct rt_error *err)
{
	t->plan.images = m;
	return rt_gpu_images(&t->d, err);
}

const char *
rt_tuner_name(const struct rt_tuner *t)
{
	return t->g.facts.name;
}

void
rt_tuner_close(struct rt_tuner *t)
{
	struct rt_gpu *g;
	int i;

	if (!t) {
		return;
	}
	g = &t->g;
	rt_gpu_images_free(g);
	if (g->from) {
		g->api.event_destroy(g->from);
	}
	if (g->to) {
		g->api.event_destroy(g->to);
	}
	if (g->stream) {
		g->api.stream_destroy(g->stream);
	}
	for (i = 0; i < 3; i++) {
		uint64_t at = i == 0 ? g->pieces : i == 1 ? g->live
							  : t->flush;

		if (at) {
			g->api.release(at);
		}
	}
	if (t->bounce) {
		g->api.unpin(t->bounce);
	}
	if (g->context) {
		g->api.context_release(g->facts.dev);
	}
	rt_gpu_unload(&g->api);
	free(t);
}

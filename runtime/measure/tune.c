/*
 * Times candidates of one kernel side by side on a GPU.
 *
 * Candidates take turns, so that changes of the clock affect all of them.
 * Between two of them the L2 cache is overwritten, as other kernels of a step
 * would do.  That is enqueued before the first event, and so also gives the
 * host time to enqueue everything between the events.  Of what is small there
 * are several copies, each of which is used once between two events: nothing
 * that a launch reads is in the cache, and the events' own time is shared.
 */
#include "runtime/measure/tune_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cuda_device.h: CUdevice_attribute. */
enum { ATTR_CLOCK_KHZ = 13, ATTR_L2_BYTES = 38 };

enum { COLD = 2, ROUNDS = 9, MOST_WAYS = 64, MOST_SETS = 8 };
enum { LEAST_L2 = 1 << 20 };

/* ---- a case ---- */

static enum rt_status
put_numbers(struct rt_tune_bench *b, uint32_t buffer, int bits,
	    struct rt_error *err)
{
	const struct rt_tune_buffer *x = &b->x->buffers[buffer];
	int64_t each = rt_tune_elem_bytes(x->elem), n = x->bytes / each;
	int64_t from = 0, i, some = RT_TUNE_BOUNCE / each;
	struct rt_gpu *g = &b->t->g;
	enum rt_status status = RT_OK;
	char *to = b->t->bounce;

	for (; from < n && status == RT_OK; from += some) {
		some = n - from < some ? n - from : some;
		for (i = 0; i < some; i++) {
			if (bits) {
				rt_tune_put(to + i * each, x->elem,
					rt_tune_number(bits, buffer,
						       from + i));
			} else {
				rt_tune_put_any(to + i, from + i);
			}
		}
		status = GPU(&g->api, to_device, b->buffers[buffer] +
			     (uint64_t)(from * each), to,
			     (size_t)(some * each), g->stream);
		if (status == RT_OK) {
			status = rt_gpu_wait(&b->t->d, err);
		}
	}
	return status;
}

/* Indices are 0, which is valid for any dim. */
enum rt_status
rt_tune_fill(struct rt_tune_bench *b, uint32_t buffer, int bits,
	     struct rt_error *err)
{
	const struct rt_tune_buffer *x = &b->x->buffers[buffer];
	int own = rt_tune_elem_bits(x->elem);
	struct rt_gpu *g = &b->t->g;

	if (x->bytes < 1) {
		return RT_OK;
	}
	if (x->elem == RT_ELEM_I32) {
		return GPU(&g->api, set, b->buffers[buffer], 0,
			   (size_t)x->bytes, g->stream);
	}
	if (bits == 0 && rt_tune_elem_bytes(x->elem) > 1) {
		bits = own;
	}
	return put_numbers(b, buffer, own ? bits : 0, err);
}

static enum rt_status
allocate(struct rt_tuner *t, int64_t bytes, uint64_t *out,
	 struct rt_error *err)
{
	return GPU(&t->g.api, alloc, out, bytes > 0 ? (size_t)bytes : 1);
}

static enum rt_status
make_set(struct rt_tune_bench *b, int64_t set, struct rt_error *err)
{
	uint64_t *at = b->buffers + set * b->x->nbuffers;
	enum rt_status status = RT_OK;
	uint32_t i;

	for (i = 0; i < b->x->nbuffers && status == RT_OK; i++) {
		status = allocate(b->t, b->x->buffers[i].bytes, &at[i], err);
	}
	return status;
}

static bool
make_way(struct rt_tune_bench *b, uint32_t i)
{
	const struct rt_tune_way *x = &b->x->ways[i];
	const struct rt_kernel *k = x->kernel;
	struct rt_tune_turn *w = &b->ways[i];
	int64_t j, set;

	w->at = calloc((size_t)(k->nat * b->nsets) + 1, sizeof *w->at);
	w->pieces = calloc((size_t)k->npieces + 1, sizeof *w->pieces);
	w->nums = calloc((size_t)k->nnum + 1, sizeof *w->nums);
	w->ms = calloc((size_t)b->x->rounds + ROUNDS, sizeof *w->ms);
	if (!w->at || !w->pieces || !w->nums || !w->ms) {
		return false;
	}
	for (set = 0; set < b->nsets; set++) {
		for (j = 0; j < k->nat; j++) {
			w->at[set * k->nat + j] = (char *)(uintptr_t)
				b->buffers[set * b->x->nbuffers +
					   x->operands[j]];
		}
	}
	for (j = 0; j < k->npieces; j++) {
		w->pieces[j] = &x->pieces[j];
	}
	for (j = 0; j < k->nnum; j++) {
		w->nums[j] = x->nums[j];
	}
	return true;
}

enum rt_status
rt_tune_open(struct rt_tune_bench *b, struct rt_error *err)
{
	const struct rt_tune_case *x = b->x;
	enum rt_status status = RT_OK;
	int64_t shared = 0, set;
	uint32_t i;

	b->buffers = calloc((size_t)(x->nbuffers * b->nsets) + 1,
			    sizeof *b->buffers);
	b->ways = calloc(x->nways + 1, sizeof *b->ways);
	if (!b->buffers || !b->ways) {
		return rt_no_memory(err, NULL);
	}
	for (set = 0; set < b->nsets && status == RT_OK; set++) {
		status = make_set(b, set, err);
	}
	for (i = 0; i < x->nways && status == RT_OK; i++) {
		if (x->ways[i].shared_bytes > shared) {
			shared = x->ways[i].shared_bytes;
		}
		status = make_way(b, i) ? RT_OK : rt_no_memory(err, NULL);
	}
	return status == RT_OK ? allocate(b->t, shared, &b->shared, err)
			       : status;
}

enum rt_status
rt_tune_pieces(struct rt_tune_bench *b, uint32_t i, struct rt_error *err)
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
	if (bytes > RT_TUNE_BOUNCE) {
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

enum rt_status
rt_tune_launch(struct rt_tune_bench *b, uint32_t i, int64_t set,
	       struct rt_error *err)
{
	const struct rt_tune_way *x = &b->x->ways[i];
	const struct rt_kernel *k = x->kernel;
	struct rt_call c = { .at = b->ways[i].at + set * k->nat,
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

/* The time of a launch: on each set in turn, between two events. */
static enum rt_status
time_once(struct rt_tune_bench *b, uint32_t i, double *ms,
	  struct rt_error *err)
{
	struct rt_gpu *g = &b->t->g;
	enum rt_status status = rt_tune_pieces(b, i, err);
	int64_t set;
	float f = 0;

	if (status == RT_OK) {
		status = GPU(&g->api, set, b->t->flush, 0x5a,
			     b->t->flush_bytes, g->stream);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, event_record, g->from, g->stream);
	}
	for (set = 0; set < b->nsets && status == RT_OK; set++) {
		status = rt_tune_launch(b, i, set, err);
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
	*ms = (double)f / (double)b->nsets;
	return status;
}

static int
by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static enum rt_status
take_turns(struct rt_tune_bench *b, struct rt_error *err)
{
	int rounds = b->x->rounds ? b->x->rounds : ROUNDS, round;
	enum rt_status status = RT_OK;
	struct rt_error why;
	double ms;
	uint32_t i;

	for (round = -COLD; round < rounds; round++) {
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
		qsort(b->ways[i].ms, (size_t)rounds, sizeof(double), by_time);
		b->x->ways[i].us = b->ways[i].ms[rounds / 2] * 1e3;
	}
	return status;
}

void
rt_tune_close(struct rt_tune_bench *b)
{
	struct rt_gpu *g = &b->t->g;
	struct rt_error ignored;
	uint32_t i;

	rt_gpu_wait(&b->t->d, &ignored);
	for (i = 0; b->buffers && i < b->x->nbuffers * b->nsets; i++) {
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
		free(b->ways[i].ms);
	}
	g->known = NULL;
	g->nknown = 0;
	free(b->buffers);
	free(b->ways);
}

/* As many as are larger than twice the L2 cache, if there are few kernels
 * between two events, and memory is left. */
static int64_t
count_sets(const struct rt_tuner *t, const struct rt_tune_case *x)
{
	int64_t all = 1, n, free_bytes = t->g.facts.free_bytes;
	uint32_t i;

	for (i = 0; i < x->nbuffers; i++) {
		all += x->buffers[i].bytes;
	}
	n = (int64_t)t->flush_bytes / all + 1;
	n = n < MOST_SETS ? n : MOST_SETS;
	while (n > 1 && n * all > free_bytes / 2) {
		n--;
	}
	return n;
}

/* All sets have the numbers of the first. */
static enum rt_status
fill_all(struct rt_tune_bench *b, struct rt_error *err)
{
	struct rt_gpu *g = &b->t->g;
	uint32_t n = b->x->nbuffers, i;
	enum rt_status status = RT_OK;
	int64_t set;

	for (i = 0; i < n && status == RT_OK; i++) {
		size_t bytes = (size_t)b->x->buffers[i].bytes;

		status = rt_tune_fill(b, i, 0, err);
		for (set = 1; set < b->nsets && status == RT_OK && bytes > 0;
		     set++) {
			status = GPU(&g->api, copy, b->buffers[set * n + i],
				     b->buffers[i], bytes, g->stream);
		}
	}
	return status == RT_OK ? rt_gpu_wait(&b->t->d, err) : status;
}

enum rt_status
rt_tuner_run(struct rt_tuner *t, const struct rt_tune_case *x,
	     struct rt_error *err)
{
	struct rt_tune_bench b = { .t = t, .x = x };
	enum rt_status status;

	if (x->nways > MOST_WAYS) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%u ways, and %d is "
			       "the limit", x->nways, MOST_WAYS);
	}
	b.nsets = count_sets(t, x);
	status = rt_tune_open(&b, err);
	if (status == RT_OK) {
		status = fill_all(&b, err);
	}
	if (status == RT_OK) {
		status = take_turns(&b, err);
	}
	rt_tune_close(&b);
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
	enum rt_status status = rt_gpu_context(g, err);

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
	static const int64_t live[RT_LIVE] = { 1 };	/* the step */
	int l2 = 0, khz = 0;
	enum rt_status status = GPU(&g->api, device_attribute, &l2,
				    ATTR_L2_BYTES, g->facts.dev);

	if (status == RT_OK) {
		status = GPU(&g->api, device_attribute, &khz, ATTR_CLOCK_KHZ,
			     g->facts.dev);
	}
	t->clock_mhz = khz / 1e3;
	t->flush_bytes = 2 * (size_t)(l2 > LEAST_L2 ? l2 : LEAST_L2);
	if (status == RT_OK) {
		status = GPU(&g->api, alloc, &t->flush, t->flush_bytes);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, alloc, &g->live, sizeof live);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, pin, &t->bounce, RT_TUNE_BOUNCE, 0);
	}
	if (status == RT_OK) {
		memcpy(t->bounce, live, sizeof live);
		status = GPU(&g->api, to_device, g->live, t->bounce,
			     sizeof live, g->stream);
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

double
rt_tuner_clock_mhz(const struct rt_tuner *t)
{
	return t->clock_mhz;
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
	rt_gpu_end_stream(g);
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
	rt_gpu_leave(g);
	free(t);
}

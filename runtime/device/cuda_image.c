/*
 * Compiled kernels on a GPU: loading, arguments, launching.
 */
#include "runtime/device/cuda_device.h"

#include <stdlib.h>
#include <string.h>

/* cuda_device.h: CUfunction_attribute, CUlaunchAttributeID. */
enum { MAX_SMEM = 8, ANY_CLUSTER = 14 };
enum { CLUSTER = 4, EARLY = 6 };

enum { PORTABLE_CLUSTER = 8, PLAIN_SMEM = 48 << 10 };
/* Addresses for which a function's map is kept encoded, in turn. */
enum { MAP_WAYS = 4 };

struct encoded {
	char bytes[MAP_WAYS][RT_MAP_BYTES];
	uint64_t at[MAP_WAYS];
	int64_t next;
};

struct rt_gpu_function {
	const struct rt_grid *grid;	/* NULL: unused */
	void *f;
	struct encoded *maps;
};

/* ---- images ---- */

/* Nothing but this and NCCL loads images, so the driver's error is about this
 * image; the message names the versions of compiler and driver. */
static enum rt_status
load_image(struct rt_device *d, int64_t i, struct rt_error *err)
{
	const struct rt_image *m = &d->plan->images->at[i];
	struct rt_gpu *g = d->self;
	const char *why = NULL;
	int r = RT_GPU_NO_IMAGE;

	if (m->cubin) {
		r = g->api.module_load(&g->modules[i], m->cubin);
	}
	if (r != 0 && m->ptx) {
		r = g->api.module_load(&g->modules[i], m->ptx);
	}
	if (r == 0) {
		return RT_OK;
	}
	g->modules[i] = NULL;
	g->api.error_string(r, &why);
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "kernel %s cannot be loaded: "
		"%s (%d); it was compiled by %s, and the driver here is for "
		"CUDA %d.%d, the GPU an sm_%d%d", m->name,
		why ? why : "no reason given", r, d->plan->images->made_by,
		g->facts.driver / 1000,
		g->facts.driver % 1000 / 10, g->facts.major, g->facts.minor);
}

enum rt_status
rt_gpu_images(struct rt_device *d, struct rt_error *err)
{
	int64_t n = d->plan->images->n, i;
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;

	g->modules = calloc((size_t)n + 1, sizeof *g->modules);
	if (!g->modules) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n && status == RT_OK; i++) {
		status = load_image(d, i, err);
	}
	return status;
}

void
rt_gpu_images_free(struct rt_gpu *g)
{
	size_t i;
	void **m;

	for (m = g->modules; m && *m; m++) {
		g->api.module_unload(*m);
	}
	free(g->modules);
	for (i = 0; i < g->capacity; i++) {
		free(g->functions[i].maps);
	}
	free(g->functions);
}

/* ---- functions ---- */

static struct rt_gpu_function *
find_function(const struct rt_gpu *g, const struct rt_grid *grid)
{
	size_t i = (uintptr_t)grid / 8 * 0x9e3779b1u;

	for (i &= g->capacity - 1; g->functions[i].grid &&
	     g->functions[i].grid != grid;) {
		i = (i + 1) & (g->capacity - 1);
	}
	return &g->functions[i];
}

static bool
grow_table(struct rt_gpu *g)
{
	struct rt_gpu_function *old = g->functions;
	size_t n = g->capacity, i;

	g->capacity = n ? n * 2 : 256;
	g->functions = calloc(g->capacity, sizeof *g->functions);
	if (!g->functions) {
		g->functions = old;
		g->capacity = n;
		return false;
	}
	for (i = 0; i < n; i++) {
		if (old[i].grid) {
			*find_function(g, old[i].grid) = old[i];
		}
	}
	free(old);
	return true;
}

static enum rt_status
set_up(struct rt_device *d, const struct rt_grid *grid,
       struct rt_gpu_function *f, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;

	if (grid->image < 0 || grid->image >= d->plan->images->n) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "no such image in "
			       "this plan");
	}
	if (grid->smem_bytes > g->facts.smem_bytes) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "it takes %lld bytes "
			"of shared memory, and a block of this GPU has %lld",
			(long long)grid->smem_bytes,
			(long long)g->facts.smem_bytes);
	}
	status = GPU(&g->api, module_function, &f->f, g->modules[grid->image],
		     grid->func);
	if (status == RT_OK && grid->smem_bytes > PLAIN_SMEM) {
		status = GPU(&g->api, function_set, f->f, MAX_SMEM,
			     (int)grid->smem_bytes);
	}
	if (status == RT_OK && grid->cluster > PORTABLE_CLUSTER) {
		status = GPU(&g->api, function_set, f->f, ANY_CLUSTER, 1);
	}
	if (status == RT_OK && grid->nmaps > 0) {
		f->maps = calloc((size_t)grid->nmaps, sizeof *f->maps);
		status = f->maps ? RT_OK : rt_no_memory(err, NULL);
	}
	return status;
}

static enum rt_status
function_of(struct rt_device *d, const struct rt_grid *grid,
	    struct rt_gpu_function **out, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status;

	if (g->nfunctions * 2 >= g->capacity && !grow_table(g)) {
		return rt_no_memory(err, NULL);
	}
	*out = find_function(g, grid);
	if ((*out)->grid) {
		return RT_OK;
	}
	status = set_up(d, grid, *out, err);
	if (status != RT_OK) {
		free((*out)->maps);
		memset(*out, 0, sizeof **out);
		return status;
	}
	(*out)->grid = grid;
	g->nfunctions++;
	return RT_OK;
}

/* ---- maps ---- */

/* cuda_device.h: CUtensorMapDataType. */
static int
type_of(int64_t elem)
{
	switch ((enum rt_elem)elem) {
	case RT_ELEM_F64:
		return 8;
	case RT_ELEM_F32:
		return 7;
	case RT_ELEM_BF16:
		return 9;
	case RT_ELEM_F16:
		return 6;
	case RT_ELEM_I32:
		return 3;
	case RT_ELEM_U8:
	case RT_ELEM_I8:
	case RT_ELEM_E4M3:
	case RT_ELEM_I4:
		break;
	}
	return 0;
}

/* Promotes rows of 256 bytes from L2; elements outside read as 0. */
static enum rt_status
encode_map(const struct rt_gpu *g, const struct rt_map *m, uint64_t at,
	   void *out, struct rt_error *err)
{
	_Alignas(RT_MAP_ALIGN) char map[RT_MAP_BYTES];
	uint64_t size[5], stride[5];
	unsigned box[5], apart[5];
	enum rt_status status;
	int64_t i;
	int swizzle = m->swizzle == 128 ? 3 : m->swizzle == 64 ? 2
		: m->swizzle == 32 ? 1 : 0;

	for (i = 0; i < m->ndims; i++) {
		size[i] = (uint64_t)m->size[i];
		box[i] = (unsigned)m->box[i];
		apart[i] = 1;
		if (i > 0) {
			stride[i - 1] = (uint64_t)m->stride[i];
		}
	}
	status = GPU(&g->api, map, map, type_of(m->elem), (unsigned)m->ndims,
		     (void *)(uintptr_t)at, size, stride, box, apart, 0,
		     swizzle, 3, 0);
	memcpy(out, map, sizeof map);
	return status;
}

/* Encodes a map unless it is encoded for this address already. */
static enum rt_status
put_map(const struct rt_gpu *g, struct encoded *e, const struct rt_map *m,
	const struct rt_call *c, char *out, struct rt_error *err)
{
	uint64_t at = (uint64_t)(uintptr_t)c->at[m->operand] +
		      (uint64_t)m->offset;
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < MAP_WAYS && e->at[i] != at; i++) {
	}
	if (i == MAP_WAYS) {
		i = e->next++ % MAP_WAYS;
		e->at[i] = 0;
		status = encode_map(g, m, at, e->bytes[i], err);
		e->at[i] = status == RT_OK ? at : 0;
	}
	memcpy(out, e->bytes[i], RT_MAP_BYTES);
	return status;
}

/* ---- launching ---- */

bool
rt_gpu_pieces_at(const struct rt_gpu *g, const struct rt_pieces *p,
		 uint64_t *at)
{
	const struct rt_gpu_window *w = &g->window;
	int64_t low = 0, high = g->nknown;

	if (w->stand_ins && p >= w->stand_ins &&
	    p < w->stand_ins + w->nspreads) {
		*at = w->pieces + (uint64_t)(p - w->stand_ins) * sizeof *p;
		return true;
	}
	while (low < high) {
		int64_t middle = low + (high - low) / 2;

		if ((uintptr_t)g->known[middle] < (uintptr_t)p) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	*at = g->pieces + (uint64_t)low * sizeof *p;
	return low < g->nknown && g->known[low] == p;
}

/* Replaces pointers to pieces by those of their copies on the GPU. */
static enum rt_status
move_pieces(const struct rt_gpu *g, const struct rt_kernel *k,
	    uint64_t *words, struct rt_error *err)
{
	int64_t i;

	for (i = 0; i < k->npieces; i++) {
		const struct rt_pieces *p =
			(const struct rt_pieces *)(uintptr_t)words[i];

		if (!rt_gpu_pieces_at(g, p, &words[i])) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "it asks "
				"for pieces that the plan has not");
		}
	}
	return RT_OK;
}

void *
rt_gpu_stream(struct rt_gpu *g)
{
	*g->follows = false;
	return g->stream;
}

/* Sets its attributes, of which there are up to two. */
static void
set_attributes(struct rt_gpu_config *config, const struct rt_grid *grid,
	       bool early)
{
	struct rt_gpu_attribute *first = config->attributes, *at = first;

	if (grid->cluster > 1) {
		*at++ = (struct rt_gpu_attribute){
			.id = CLUSTER,
			.value = { (unsigned)grid->cluster, 1, 1 }
		};
	}
	if (early) {
		*at++ = (struct rt_gpu_attribute){ .id = EARLY,
						   .value = { 1 } };
	}
	config->nattributes = (unsigned)(at - first);
}

/*
 * A function has one argument, a struct.  The driver knows from the image where
 * it belongs: arguments begin at byte 0x210 of a bank of constants, and one
 * with tensor maps, which are aligned to 64 bytes, at 0x240 (sm_90a, NVRTC
 * 13.0).  A buffer of all arguments (CU_LAUNCH_PARAM_BUFFER_POINTER) would be
 * copied to 0x210.
 */
enum rt_status
rt_gpu_launch(struct rt_device *d, const struct rt_kernel *k,
	      const struct rt_grid *grid, const struct rt_call *c,
	      void *stream, struct rt_error *err)
{
	_Alignas(RT_MAP_ALIGN) char args[RT_ARGS_BYTES];
	struct rt_gpu_attribute attributes[2];
	void *params[] = { args };
	struct rt_gpu_config config = { .attributes = attributes };
	struct rt_gpu_function *f = NULL;
	struct rt_gpu *g = d->self;
	struct rt_call call = *c;
	enum rt_status status = function_of(d, grid, &f, err);
	bool after = stream == g->stream && *g->follows;
	int64_t i;

	if (status != RT_OK) {
		return status;
	}
	call.live = (const int64_t *)(uintptr_t)g->live;
	status = rt_args_words(k, grid, &call, args, err);
	if (status == RT_OK) {
		status = move_pieces(g, k, (uint64_t *)(void *)args + k->nat,
				     err);
	}
	for (i = 0; i < grid->nmaps && status == RT_OK; i++) {
		status = put_map(g, &f->maps[i], &grid->maps[i], c, args +
				 rt_args_maps(k) + i * RT_MAP_BYTES, err);
	}
	if (status != RT_OK) {
		return status;
	}
	for (i = 0; i < 3; i++) {
		config.blocks[i] = (unsigned)grid->blocks[i];
		config.threads[i] = i == 0 ? (unsigned)grid->threads : 1;
	}
	config.smem_bytes = (unsigned)grid->smem_bytes;
	config.stream = stream;
	set_attributes(&config, grid, after && g->early);
	status = GPU(&g->api, launch, &config, f->f, params, NULL);
	if (stream == g->stream) {
		*g->follows = status == RT_OK;
	}
	return status;
}

/*
 * Images, functions, tensor maps and launches on a driver that this file is:
 * what it is called with, how often, and that whatever call or allocation
 * fails, nothing half-made stays.  Whole runs are tests/cli/gpu/gpu.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda_device.h"

/* ---- memory that runs out ---- */

static int callocs_left = -1;	/* -1: all succeed */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *
__wrap_calloc(size_t n, size_t size)
{
	if (callocs_left == 0) {
		return NULL;
	}
	callocs_left -= callocs_left > 0;
	return __real_calloc(n, size);
}

/* ---- the driver ---- */

enum { IMAGES = 3, FAILURE = 77, BROKEN = 0x7f };

static struct {
	int calls, fail_at;	/* the one that fails; 0: none */
	int modules, functions, encodes, launches;
	int attribute, value;	/* of function_set */
	bool early;		/* of the last launch */
	const void *refused;	/* image that it does not take */
	const void *loaded[IMAGES];
	const char *name;	/* of the last function */
	struct rt_gpu_config config;
	unsigned cluster;
	_Alignas(64) char args[RT_ARGS_BYTES];
	struct {
		int type, swizzle;
		unsigned rank, box[5];
		uint64_t at, size[5], stride[5];
	} map;
} f;

static int
enter(void)
{
	return ++f.calls == f.fail_at ? FAILURE : 0;
}

static int
error_string(int r, const char **out)
{
	*out = r == FAILURE ? "planted" : r == RT_GPU_NO_IMAGE
		? "no kernel image" : NULL;
	return 0;
}

static int
module_load(void **out, const void *image)
{
	int r = enter();

	if (r || image == f.refused) {
		return r ? r : RT_GPU_NO_IMAGE;
	}
	f.loaded[f.modules % IMAGES] = image;
	*out = &f.loaded[f.modules++ % IMAGES];
	return 0;
}

static int
module_unload(void *module)
{
	assert_non_null(module);
	f.modules--;
	return 0;
}

static int
module_function(void **out, void *module, const char *name)
{
	int r = enter();

	assert_non_null(module);
	f.functions += !r;
	f.name = name;
	*out = &f.functions;
	return r;
}

static int
function_set(void *function, int what, int value)
{
	(void)function;
	f.attribute = what;
	f.value = value;
	return enter();
}

static int
encode(void *out, int type, unsigned rank, void *at, const uint64_t *size,
       const uint64_t *stride, const unsigned *box, const unsigned *apart,
       int interleave, int swizzle, int promotion, int fill)
{
	int r = enter();
	unsigned i;

	(void)apart;
	(void)interleave;
	(void)promotion;
	(void)fill;
	assert_int_equal((uintptr_t)out % RT_MAP_ALIGN, 0);
	f.map.type = type;
	f.map.swizzle = swizzle;
	f.map.rank = rank;
	f.map.at = (uint64_t)(uintptr_t)at;
	for (i = 0; i < rank; i++) {
		f.map.size[i] = size[i];
		f.map.box[i] = box[i];
		f.map.stride[i] = i ? stride[i - 1] : 0;
	}
	memset(out, r ? BROKEN : 0x40 + ++f.encodes % 16, RT_MAP_BYTES);
	return r;
}

static int
launch(const struct rt_gpu_config *c, void *function, void **params,
       void **extra)
{
	const struct rt_gpu_attribute *a = c->attributes;
	unsigned i;

	assert_non_null(function);
	assert_non_null(params);
	assert_null(extra);
	f.config = *c;
	f.cluster = 1;
	f.early = false;
	for (i = 0; i < c->nattributes; i++) {
		if (a[i].id == 4) {
			f.cluster = a[i].value[0];
		} else {
			assert_int_equal(a[i].id, 6);
			assert_int_equal(a[i].value[0], 1);
			f.early = true;
		}
	}
	memcpy(f.args, params[0], sizeof f.args);
	assert_true(f.encodes == 0 || f.args[64] != BROKEN);
	f.launches++;
	return enter();
}

/* ---- a device on it ---- */

static char data[64];	/* what operands point to */
static const struct rt_image image_rows[IMAGES] = {
	{ .name = "dot0", .cubin = "cubin0", .ptx = "ptx0" },
	{ .name = "dot1", .cubin = "cubin1" },
	{ .name = "services", .cubin = "cubin2", .ptx = "ptx2" }
};
static const struct rt_images images = { .n = IMAGES, .at = image_rows,
					 .made_by = "NVRTC 13.0, sm_90a" };
static const struct rt_pieces pieces[2];

struct bench {
	struct rt_gpu g;
	struct rt_device d;
	struct rt_plan plan;
	const struct rt_pieces *known[2];
	struct rt_error err;
};

static void
set_up(struct bench *b)
{
	memset(&f, 0, sizeof f);
	memset(b, 0, sizeof *b);
	b->g.api.error_string = error_string;
	b->g.api.module_load = module_load;
	b->g.api.module_unload = module_unload;
	b->g.api.module_function = module_function;
	b->g.api.function_set = function_set;
	b->g.api.map = encode;
	b->g.api.launch = launch;
	b->g.facts = (struct rt_gpu_facts){ .name = "Test", .major = 9,
		.driver = 12040, .smem_bytes = 227 << 10 };
	b->g.live = 0x1000;
	b->g.pieces = 0x2000;
	b->g.follows = &b->g.last_is_kernel;
	b->known[0] = &pieces[0];
	b->known[1] = &pieces[1];
	b->g.known = b->known;
	b->g.nknown = 2;
	b->plan.images = &images;
	b->plan.arch = "sm_90a";
	b->d.self = &b->g;
	b->d.plan = &b->plan;
}

static void
tear_down(struct bench *b)
{
	rt_gpu_images_free(&b->g);
	assert_int_equal(f.modules, 0);
}

static enum rt_status
open_images(struct bench *b)
{
	return rt_gpu_images(&b->d, &b->err);
}

/* ---- calls of a kernel ---- */

static const struct rt_kernel kernel = { .what = "contraction 1x2x3",
					 .nat = 2, .npieces = 1, .nnum = 1 };
static const struct rt_map a_map = { .operand = 1, .offset = 16,
	.elem = RT_ELEM_BF16, .ndims = 2, .size = { 64, 32 },
	.stride = { 0, 256 }, .box = { 64, 8 }, .swizzle = 128 };

static struct rt_grid
plain_grid(void)
{
	return (struct rt_grid){ .image = 1, .func = "dot1_f",
		.blocks = { 7, 2, 1 }, .threads = 96, .cluster = 1,
		.smem_bytes = 48 << 10 };
}

static enum rt_status
call(struct bench *b, const struct rt_grid *g, char *second,
     const struct rt_pieces *of)
{
	char *const at[] = { data, second };
	const int64_t num[] = { 42 };
	struct rt_call c = { .at = at, .pieces = &of, .num = num,
			     .shared = data + 8 };

	return rt_gpu_launch(&b->d, &kernel, g, &c, b->g.stream, &b->err);
}

static uint64_t
word(int i)
{
	uint64_t w;

	memcpy(&w, f.args + 8 * i, sizeof w);
	return w;
}

/* ---- images ---- */

static void
test_images(void **state)
{
	struct bench b;

	(void)state;
	set_up(&b);
	assert_int_equal(open_images(&b), RT_OK);
	assert_ptr_equal(f.loaded[0], image_rows[0].cubin);
	assert_ptr_equal(f.loaded[2], image_rows[2].cubin);
	tear_down(&b);
	set_up(&b);
	f.refused = image_rows[2].cubin;
	assert_int_equal(open_images(&b), RT_OK);
	assert_ptr_equal(f.loaded[2], image_rows[2].ptx);
	tear_down(&b);
	set_up(&b);
	f.refused = image_rows[1].cubin;	/* and it has no PTX */
	assert_int_equal(open_images(&b), RT_RANGE);
	assert_non_null(strstr(b.err.message, "kernel dot1 cannot be loaded: "
		"no kernel image (209); it was compiled by NVRTC 13.0, "
		"sm_90a, and the driver here is for CUDA 12.4, the GPU an "
		"sm_90"));
	tear_down(&b);
}

/* ---- what a launch is ---- */

static void
test_words(void **state)
{
	struct rt_grid g = plain_grid();
	struct bench b;

	(void)state;
	set_up(&b);
	assert_int_equal(open_images(&b), RT_OK);
	assert_int_equal(call(&b, &g, data + 1, &pieces[1]), RT_OK);
	assert_string_equal(f.name, "dot1_f");
	assert_int_equal(word(0), (uintptr_t)data);
	assert_int_equal(word(1), (uintptr_t)data + 1);
	assert_int_equal(word(2), 0x2000 + sizeof(struct rt_pieces));
	assert_int_equal(word(3), 42);
	assert_int_equal(word(4), (uintptr_t)data + 8);
	assert_int_equal(word(5), 0x1000);
	assert_int_equal(f.config.blocks[0], 7);
	assert_int_equal(f.config.blocks[1], 2);
	assert_int_equal(f.config.threads[0], 96);
	assert_int_equal(f.config.threads[1], 1);
	assert_int_equal(f.config.smem_bytes, 48 << 10);
	assert_int_equal(f.cluster, 1);
	assert_int_equal(f.attribute, 0);	/* 48 KiB need not be asked */
	tear_down(&b);
}

static void
test_attributes(void **state)
{
	struct rt_grid g = plain_grid(), h = plain_grid();
	struct bench b;

	(void)state;
	set_up(&b);
	assert_int_equal(open_images(&b), RT_OK);
	g.smem_bytes++;
	g.cluster = 2;
	assert_int_equal(call(&b, &g, data, pieces), RT_OK);
	assert_int_equal(f.attribute, 8);
	assert_int_equal(f.value, (48 << 10) + 1);
	assert_int_equal(f.cluster, 2);
	h.cluster = 16;				/* more than is portable */
	assert_int_equal(call(&b, &h, data, pieces), RT_OK);
	assert_int_equal(f.attribute, 14);
	tear_down(&b);
}

/* A launch behind another kernel says that it may begin early, where that is
 * legal; not behind anything else. */
static void
test_early(void **state)
{
	struct rt_grid g = plain_grid(), pair = plain_grid();
	struct bench b;
	int i;

	(void)state;
	set_up(&b);
	assert_int_equal(open_images(&b), RT_OK);
	pair.cluster = 2;
	for (i = 0; i < 2; i++) {
		b.g.early = i;
		assert_ptr_equal(rt_gpu_stream(&b.g), b.g.stream);
		assert_int_equal(call(&b, &g, data, pieces), RT_OK);
		assert_false(f.early);
		assert_int_equal(call(&b, &pair, data, pieces), RT_OK);
		assert_int_equal(f.early, i);
		assert_int_equal(f.cluster, 2);
		assert_int_equal(call(&b, &g, data, pieces), RT_OK);
		assert_int_equal(f.early, i);
	}
	b.plan.arch = "sm_89";
	assert_false(rt_gpu_early(&b.plan, &b.g.facts));
	b.plan.arch = "sm_90a";
	assert_true(rt_gpu_early(&b.plan, &b.g.facts));
	b.g.facts.driver = 12020;
	assert_false(rt_gpu_early(&b.plan, &b.g.facts));
	tear_down(&b);
}

/* A map is encoded once for an address, as long as four take turns. */
static void
test_maps(void **state)
{
	static const struct {
		int at, encodes;
	} turns[] = { { 0, 1 }, { 0, 1 }, { 1, 2 }, { 0, 2 }, { 2, 3 },
		      { 3, 4 }, { 1, 4 }, { 4, 5 }, { 0, 6 }, { 4, 6 } };
	struct rt_grid g = plain_grid();
	struct bench b;
	size_t i;

	(void)state;
	set_up(&b);
	assert_int_equal(open_images(&b), RT_OK);
	g.nmaps = 1;
	g.maps = &a_map;
	for (i = 0; i < sizeof turns / sizeof *turns; i++) {
		assert_int_equal(call(&b, &g, data + turns[i].at, pieces),
				 RT_OK);
		assert_int_equal(f.encodes, turns[i].encodes);
	}
	assert_int_equal(f.map.at, (uintptr_t)data + 0 + 16);
	assert_int_equal(f.args[64], 0x40 + 5);		/* that of `4` */
	assert_int_equal(f.map.type, 9);
	assert_int_equal(f.map.swizzle, 3);
	assert_int_equal(f.map.rank, 2);
	assert_int_equal(f.map.size[1], 32);
	assert_int_equal(f.map.stride[1], 256);
	assert_int_equal(f.map.box[1], 8);
	tear_down(&b);
}

/* ---- what is refused ---- */

static void
refused(struct bench *b, const struct rt_grid *g,
	const struct rt_pieces *of, const char *why)
{
	int launches = f.launches;

	assert_int_equal(call(b, g, data, of), RT_RANGE);
	assert_non_null(strstr(b->err.message, why));
	assert_int_equal(f.launches, launches);
}

static void
test_refused(void **state)
{
	static const struct rt_pieces other;
	struct rt_grid g = plain_grid(), many = plain_grid();
	struct rt_map maps[32] = { { 0 } };
	struct bench b;

	(void)state;
	set_up(&b);
	assert_int_equal(open_images(&b), RT_OK);
	g.image = IMAGES;
	refused(&b, &g, pieces, "no such image in this plan");
	g.image = -1;
	refused(&b, &g, pieces, "no such image in this plan");
	g = plain_grid();
	g.smem_bytes = (227 << 10) + 1;
	refused(&b, &g, pieces, "it takes 232449 bytes of shared memory, and "
		"a block of this GPU has 232448");
	g = plain_grid();
	refused(&b, &g, &other, "it asks for pieces that the plan has not");
	b.g.nknown = 0;
	refused(&b, &g, pieces, "it asks for pieces that the plan has not");
	many.maps = maps;
	many.nmaps = 32;
	refused(&b, &many, pieces, "contraction 1x2x3 takes 4160 bytes of "
		"arguments, and a GPU's function 4096 at most");
	tear_down(&b);
}

/* ---- many, and failures ---- */

static void
test_many(void **state)
{
	static struct rt_grid grids[600];
	struct bench b;
	int round, i;

	(void)state;
	set_up(&b);
	assert_int_equal(open_images(&b), RT_OK);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 600; i++) {
			grids[i] = plain_grid();
			assert_int_equal(call(&b, &grids[i], data, pieces),
					 RT_OK);
		}
		assert_int_equal(f.functions, 600);
	}
	tear_down(&b);
}

/* Images, then three grids, of which one has maps and wants attributes. */
static enum rt_status
all_of_it(struct bench *b, struct rt_grid *g)
{
	enum rt_status status = b->g.modules ? RT_OK : open_images(b);
	int i;

	for (i = 0; i < 3 && status == RT_OK; i++) {
		status = call(b, &g[i], data, pieces);
	}
	return status;
}

static void
make_grids(struct rt_grid *g)
{
	g[0] = g[1] = g[2] = plain_grid();
	g[1].image = 0;
	g[1].nmaps = 1;
	g[1].maps = &a_map;
	g[1].smem_bytes = 200 << 10;
	g[2].cluster = 16;
}

/* What failed once is done when it is asked for again. */
static void
test_failures(void **state)
{
	enum rt_status status;
	struct rt_grid g[3];
	struct bench b;
	int n = 0;

	(void)state;
	make_grids(g);
	do {
		set_up(&b);
		f.fail_at = ++n;
		status = all_of_it(&b, g);
		if (status != RT_OK) {
			assert_non_null(strstr(b.err.message,
					       "planted (77)"));
			/* without its images a run has ended */
			if (n > IMAGES) {
				assert_int_equal(all_of_it(&b, g), RT_OK);
				assert_in_range(f.functions, 3, 4);
			}
		}
		tear_down(&b);
	} while (status != RT_OK || n <= IMAGES);
	assert_in_range(n, IMAGES + 8, IMAGES + 16);
}

static void
test_no_memory(void **state)
{
	enum rt_status status;
	struct rt_grid g[3];
	struct bench b;
	int n = -1;

	(void)state;
	make_grids(g);
	do {
		set_up(&b);
		callocs_left = ++n;
		status = all_of_it(&b, g);
		callocs_left = -1;
		assert_true(status == RT_OK || status == RT_NOMEM);
		assert_int_equal(all_of_it(&b, g), RT_OK);
		tear_down(&b);
	} while (status != RT_OK);
	assert_int_equal(n, 3);	/* modules, functions, maps */
}

/* ---- which GPU ---- */

static void
test_fits(void **state)
{
	static const struct {
		const char *arch;
		int here;
		bool ptx, fits;
	} rows[] = {
		{ "sm_90a", 90, true, true }, { "sm_90a", 100, true, false },
		{ "sm_90a", 89, true, false }, { "sm_80", 80, false, true },
		{ "sm_80", 86, false, true }, { "sm_80", 90, false, false },
		{ "sm_80", 90, true, true }, { "sm_86", 80, true, false },
		{ "sm_89", 86, false, false }
	};
	struct rt_image one = { .name = "x", .cubin = "c" };
	struct rt_images of = { .n = 1, .at = &one };
	struct rt_gpu_facts facts = { .name = "Test" };
	struct rt_plan p = { .images = &of };
	struct rt_error err;
	size_t i;

	(void)state;
	p.arch = "sm_80";
	assert_int_equal(rt_gpu_fits(&p, &facts, &err), RT_RANGE);
	assert_non_null(strstr(err.message, "are not compiled yet: `llmc "
			       "finish`"));
	of.made_by = "NVRTC 13.0";
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		p.arch = rows[i].arch;
		one.ptx = rows[i].ptx ? "p" : NULL;
		facts.major = rows[i].here / 10;
		facts.minor = rows[i].here % 10;
		assert_int_equal(rt_gpu_fits(&p, &facts, &err),
				 rows[i].fits ? RT_OK : RT_RANGE);
	}
}

static void
test_messages(void **state)
{
	struct rt_gpu_facts facts = { .name = "Test", .free_bytes = 1 << 30,
				      .total_bytes = (int64_t)2 << 30 };
	struct rt_error err;
	struct bench b;

	(void)state;
	set_up(&b);
	assert_int_equal(rt_gpu_check(&b.g.api, RT_GPU_NO_MEMORY,
		offsetof(struct rt_gpu_api, alloc), &err), RT_NOMEM);
	assert_string_equal(err.message, "cuMemAlloc failed: no reason given "
			    "(2)");
	assert_int_equal(rt_gpu_check(&b.g.api, FAILURE,
		offsetof(struct rt_gpu_api, map), &err), RT_IO);
	assert_string_equal(err.message, "cuTensorMapEncodeTiled failed: "
			    "planted (77)");
	assert_int_equal(rt_gpu_scratch(&facts, 1 << 30, &err), RT_OK);
	assert_int_equal(rt_gpu_scratch(&facts, (1 << 30) + 1, &err), RT_RANGE);
	assert_non_null(strstr(err.message, "needs 1.00 GiB of the GPU, and "
			       "1.00 of 2.00 GiB are free (Test)"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_early),
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_fits),
		cmocka_unit_test(test_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

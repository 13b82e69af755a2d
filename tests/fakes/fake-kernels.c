/*
 * Kernels of the driver of the tests: which of a plan's images and functions
 * are asked for, and launches, which the emulator runs.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake-driver.h"
#include "runtime/emulate/emulate.h"

enum { CLUSTER = 4, EARLY = 6 };
/* CUfunction_attribute. */
enum { DYNAMIC_SMEM = 8, ANY_CLUSTER = 14 };
enum { MOST = 4096 };

struct module {
	int image, size;	/* of the plan, or of its other size */
	double ms;		/* FAKE_TIMES */
};

struct function {
	const struct module *module;
	int smem_most;
	bool any_cluster;
	char name[64];
};

char fake_why[384];

struct launch {
	const struct function *f;
	unsigned blocks[3], threads, smem, cluster;
	bool early;
	size_t bytes;
	_Alignas(64) char args[];
};

enum { SIZES = 8 };

/* The plan of the program that loaded this, and the emulator, which is the
 * file EMULATOR. */
static struct {
	const struct rt_plan *plan;
	const struct rt_emulator *calls;
	/* of the plan, and its other sizes: of kernels that begin when the
	 * one before has ended, and of those that may begin early */
	struct rt_emu *emu[SIZES][2];
} host;

static const void *
find(void *library, const char *name)
{
	const void *p = dlsym(library, name);

	if (!p) {
		fprintf(stderr, "fake driver: there is no %s\n", name);
		_exit(99);
	}
	return p;
}

static const struct rt_plan *
plan(void)
{
	if (!host.plan) {
		host.plan = find(RTLD_DEFAULT, "llmc_plan");
		host.calls = find(dlopen(EMULATOR, RTLD_NOW | RTLD_LOCAL),
				  "rt_emulator");
	}
	return host.plan;
}

/* When it is unloaded: a program that looks for leaks finds none. */
__attribute__((destructor)) static void
give_back(void)
{
	for (int i = 0; i < 2 * SIZES; i++) {
		struct rt_emu **e = &host.emu[i / 2][i % 2];

		if (*e) {
			host.calls->close(*e);
			*e = NULL;
		}
	}
}

/* Those of the plan, or of one of its other sizes, from 1. */
static const struct rt_images *
images_of(int size)
{
	return size ? plan()->sizes[size - 1]->images : plan()->images;
}

static int
run_kernel(struct fake_op *op)
{
	struct launch *l = (void *)op->data;
	_Alignas(64) char args[4096];
	struct rt_error err = { .status = RT_OK };
	struct rt_emu *emu = host.emu[l->f->module->size][l->early];
	struct rt_grid g = { .image = l->f->module->image,
		.func = l->f->name, .blocks = { l->blocks[0], l->blocks[1],
						l->blocks[2] },
		.threads = l->threads, .cluster = l->cluster,
		.smem_bytes = l->smem };

	if (getenv("FAKE_TIMES")) {
		fake_spend(l->f->module->ms);
		return FAKE_DONE;
	}
	memcpy(args, l->args, l->bytes);
	fake_open_memory(1);
	host.calls->launch(emu, &g, args, &err);
	fake_open_memory(0);
	snprintf(fake_why, sizeof fake_why, "%s", err.message);
	return err.status ? LAUNCH_FAILED : FAKE_DONE;
}

/* An attribute of the launch, or NULL. */
static const struct fake_attribute *
attribute(const struct fake_config *c, int id)
{
	const struct fake_attribute *at = c->attributes;
	unsigned i;

	for (i = 0; i < c->nattributes && at[i].id != id; i++) {
	}
	return i < c->nattributes ? &at[i] : NULL;
}

/*
 * What a launch may ask for (CUDA programming guide, "Technical Specifications
 * per Compute Capability"; "Thread Block Clusters" has 8 blocks that any GPU
 * takes, a grid of whole clusters, and compute capability 9.0).
 */
static bool
may_launch(const struct fake_config *c, const struct function *f)
{
	const struct fake_attribute *x = attribute(c, CLUSTER);
	const unsigned one[3] = { 1, 1, 1 }, *by = x ? x->value : one;
	const unsigned most[3] = { 0x7fffffff, 0xffff, 0xffff };
	const unsigned threads[3] = { 1024, 1024, 64 };
	unsigned together = by[0] * by[1] * by[2];
	uint64_t all = 1;
	int i;

	for (i = 0; i < 3; i++) {
		if (c->blocks[i] < 1 || c->blocks[i] > most[i] ||
		    c->threads[i] < 1 || c->threads[i] > threads[i] ||
		    by[i] < 1 || c->blocks[i] % by[i]) {
			return false;
		}
		all *= c->threads[i];
	}
	return all <= 1024 && (int)c->smem_bytes <= f->smem_most &&
	       together <= (f->any_cluster ? 16 : 8) &&
	       (!x || fake_number("FAKE_ARCH", 90) >= 90);
}

/* Bytes of a function's argument, as its image says; -1: there is none. */
static int64_t
argument_bytes(const struct function *f, bool early)
{
	struct rt_emu **emu = &host.emu[f->module->size][early];
	struct rt_error err = { .status = RT_OK };

	if (getenv("FAKE_TIMES")) {
		return 0;
	}
	if (!*emu && host.calls->open(emu, images_of(f->module->size),
				      early ? RT_EMU_EARLY : 0, &err)) {
		snprintf(fake_why, sizeof fake_why, "%s", err.message);
		return -1;
	}
	return host.calls->args(*emu, f->module->image, f->name);
}

/*
 * A kernel may begin before the last one has ended only if it waits, so that
 * what was enqueued between them is not passed by: CUDA's programming guide
 * has edges of such launches in graphs from CUDA 12.3 on, and the instructions
 * from compute capability 9.0 on.  Kernels run in their order here, and the
 * emulator reports one that touches memory before it waits.
 */
static bool
may_be_early(const struct fake_stream *s)
{
	return fake_after(s, run_kernel) && atoi(plan()->arch + 3) >= 90 &&
	       fake_number("FAKE_VERSION", 13000) >= 12030;
}

/*
 * A buffer of all arguments (`extra`) is refused.  CUDA copies it as it is to
 * where arguments begin, which an H200 showed; one that ptxas aligned, as those
 * with tensor maps are, begins later.
 */
static int
launch(const struct fake_config *c, void *function, void **params,
       void **extra)
{
	const struct function *f = function;
	const struct fake_attribute *x = attribute(c, EARLY);
	struct fake_op *op;
	bool early = x && x->value[0];
	struct launch *l;
	int64_t bytes;

	ENTER;
	if (early && !may_be_early(c->stream)) {
		return INVALID;
	}
	if (extra || !params || !may_launch(c, f)) {
		return INVALID;
	}
	bytes = argument_bytes(f, early);
	if (bytes < 0) {
		return LAUNCH_FAILED;
	}
	op = fake_op(run_kernel, sizeof *l + (size_t)bytes);
	l = (void *)op->data;
	l->f = f;
	memcpy(l->blocks, c->blocks, sizeof l->blocks);
	l->threads = c->threads[0];
	l->smem = c->smem_bytes;
	x = attribute(c, CLUSTER);
	l->cluster = x ? x->value[0] : 1;
	l->early = early;
	l->bytes = (size_t)bytes;
	memcpy(l->args, params[0], l->bytes);
	fake_launched(early);
	fake_queue(c->stream, op);
	return 0;
}

/* What FAKE_TIMES says of the next module. */
static double
next_ms(void)
{
	static int nmodules;
	const char *s = getenv("FAKE_TIMES");
	char *end;
	double ms = 100;
	int i;

	for (i = 0; i <= nmodules; i++, s = end) {
		ms = strtod(s, &end);
		if (end == s) {
			ms = 100;
			break;
		}
	}
	nmodules++;
	return ms;
}

static int
image_of(const void *cubin, int *size)
{
	int64_t i;

	for (*size = 0; *size <= plan()->nsizes; ++*size) {
		const struct rt_images *x = images_of(*size);

		for (i = 0; i < x->n; i++) {
			if (x->at[i].cubin == cubin) {
				return (int)i;
			}
		}
	}
	return -1;
}

static int
module_load(void **out, const void *image)
{
	int planted = getenv("FAKE_TIMES") != NULL, size = 0, i;
	struct module *m;

	ENTER;
	i = planted ? 0 : image_of(image, &size);
	if (i < 0) {
		return NO_IMAGE;
	}
	m = calloc(1, sizeof *m);
	m->image = i;
	m->size = size;
	m->ms = planted ? next_ms() : 0;
	*out = m;
	fake_live(MODULE, 1);
	return 0;
}

static int
module_unload(void *module)
{
	free(module);
	fake_live(MODULE, -1);
	return 0;
}

static int
module_function(void **out, void *module, const char *name)
{
	static struct function functions[MOST];
	static int n;

	ENTER;
	functions[n].module = module;
	functions[n].smem_most = 48 << 10;
	snprintf(functions[n].name, sizeof functions[n].name, "%s", name);
	*out = &functions[n++];
	return 0;
}

static int
function_set(void *function, int what, int value)
{
	struct function *f = function;

	ENTER;
	if (what == DYNAMIC_SMEM && value <= fake_most_smem()) {
		f->smem_most = value;
		return 0;
	}
	if (what == ANY_CLUSTER && fake_number("FAKE_ARCH", 90) >= 90) {
		f->any_cluster = value;
		return 0;
	}
	return INVALID;
}

static int
encode(void *out, int type, unsigned rank, void *at, const uint64_t *size,
       const uint64_t *stride, const unsigned *box, const unsigned *apart,
       int interleave, int swizzle, int promotion, int fill)
{
	static const enum rt_elem elems[] = {
		[0] = RT_ELEM_U8, [3] = RT_ELEM_I32, [6] = RT_ELEM_F16,
		[7] = RT_ELEM_F32, [8] = RT_ELEM_F64, [9] = RT_ELEM_BF16
	};
	const unsigned known = 1 << 0 | 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8 |
			       1 << 9;
	struct rt_map m = { .ndims = rank,
			    .swizzle = swizzle ? 16 << swizzle : 0 };
	struct rt_error err = { .status = RT_OK };
	unsigned i;

	ENTER;
	/* the emulator's maps know no others; 256 bytes are promoted at most */
	if (type < 0 || type > 9 || !(known >> type & 1) || rank < 1 ||
	    rank > 5 || interleave || swizzle < 0 || swizzle > 3 ||
	    promotion < 0 || promotion > 3 || fill) {
		return INVALID;
	}
	m.elem = elems[type];
	for (i = 0; i < rank && apart[i] == 1; i++) {
	}
	if (i < rank) {
		return INVALID;
	}
	if (getenv("FAKE_TIMES")) {
		return (uintptr_t)out % 64 ? INVALID : 0;
	}
	for (i = 0; i < rank; i++) {
		m.size[i] = (int64_t)size[i];
		m.box[i] = box[i];
		m.stride[i] = i > 0 ? (int64_t)stride[i - 1] : 0;
	}
	plan();
	host.calls->map(out, &m, at, &err);
	snprintf(fake_why, sizeof fake_why, "%s", err.message);
	return err.status || (uintptr_t)out % 64 ? INVALID : 0;
}

const struct fake_name fake_kernel_names[] = {
	{ "cuModuleLoadData", module_load },
	{ "cuModuleUnload", module_unload },
	{ "cuModuleGetFunction", module_function },
	{ "cuFuncSetAttribute", function_set },
	{ "cuLaunchKernelEx", launch }, { "cuTensorMapEncodeTiled", encode },
	{ NULL, NULL }
};

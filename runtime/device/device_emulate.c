/*
 * An emulated GPU as a device.  Its memory is the host's, so ranks of a host
 * share their arenas and communicate as they do without a GPU.  The emulator
 * itself is a shared object in the folder of this program: only plans for
 * GPUs have it there.
 *
 * Checked code finds races and is some ten times slower than plain code.  By
 * default a kernel is compiled both ways; its first launch of a rank runs
 * checked code, every later one plain code.
 */
#include "runtime/device/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/emulate/emulate.h"
#include "runtime/device/this_machine.h"

/* One of both may be NULL; with both, `seen` says which functions have run. */
struct emulated {
	const struct rt_emulator *calls;
	struct rt_emu *checked, *plain;
	bool *seen;
};

/* ---- the shared object -------------------------------------------------- */

/* The path of the emulator: in the folder of this program. */
static bool
emulator_path(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (!slash || (size_t)(slash + 1 - path) + sizeof RT_EMULATOR_FILE >
	    size) {
		return false;
	}
	strcpy(slash + 1, RT_EMULATOR_FILE);
	return true;
}

/* It stays loaded until the process ends. */
static enum rt_status
load_emulator(const struct rt_emulator **out, struct rt_error *err)
{
	char path[PATH_MAX + sizeof RT_EMULATOR_FILE];
	const struct rt_emulator *e;
	void *file;

	if (!emulator_path(path, sizeof path) || access(path, R_OK) != 0) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "the emulator, "
			RT_EMULATOR_FILE ", is not beside this program: llmc "
			"writes it into the folder of a plan for GPUs; copy it "
			"along with `rank`");
	}
	file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	e = file ? dlsym(file, "rt_emulator") : NULL;
	if (!e) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the emulator "
			       "cannot be loaded: %s", dlerror());
	}
	if (e->abi != RT_ABI_VERSION) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the emulator "
			"beside this program is of version %lld, and %d is "
			"expected: take it from the folder that this program "
			"was compiled to", (long long)e->abi, RT_ABI_VERSION);
	}
	*out = e;
	return RT_OK;
}

/* ---- launches ----------------------------------------------------------- */

/* The code that a function runs as this time. */
static struct rt_emu *
code_of(const struct emulated *x, const struct rt_grid *g)
{
	int64_t i;

	if (!x->plain || !x->checked) {
		return x->plain ? x->plain : x->checked;
	}
	i = x->calls->function(x->checked, g->image, g->func);
	return i >= 0 && !x->seen[i] ? x->checked : x->plain;
}

static void
mark_seen(const struct emulated *x, const struct rt_grid *g)
{
	int64_t i = x->seen ? x->calls->function(x->checked, g->image,
						 g->func) : -1;

	if (i >= 0) {
		x->seen[i] = true;
	}
}

static enum rt_status
write_maps(const struct emulated *x, const struct rt_kernel *k,
	   const struct rt_grid *g, const struct rt_call *c, char *args,
	   struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < g->nmaps && status == RT_OK; i++) {
		status = x->calls->map(
			args + rt_args_maps(k) + i * RT_MAP_BYTES, &g->maps[i],
			c->at[g->maps[i].operand], err);
	}
	return status;
}

static enum rt_status
launch(struct rt_device *d, const struct rt_kernel *k,
       const struct rt_grid *g, const struct rt_call *c, struct rt_error *err)
{
	_Alignas(RT_MAP_ALIGN) char args[RT_ARGS_BYTES];
	const struct emulated *x = d->self;
	struct rt_emu *emu = code_of(x, g);
	int64_t bytes = rt_args_bytes(k, g);
	int64_t want = x->calls->args(emu, g->image, g->func);
	struct rt_call call = *c;
	enum rt_status status;

	if (want != bytes) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, want < 0
			? "there is no such function in its source (%lld)"
			: "its source takes %lld bytes of arguments, and the "
			"plan gives %lld", (long long)want, (long long)bytes);
	}
	call.live = d->live;
	status = rt_args_words(k, g, &call, args, err);
	if (status == RT_OK) {
		status = write_maps(x, k, g, c, args, err);
	}
	if (status == RT_OK) {
		status = x->calls->launch(emu, g, args, err);
	}
	mark_seen(x, g);
	return status;
}

static enum rt_status
emulated_step(struct rt_device *d, const struct rt_kernel *k,
	      const struct rt_step *s, const struct rt_call *c,
	      const struct rt_place *at, struct rt_error *err)
{
	enum rt_status status;
	struct rt_error why;

	if (!s->grid) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s is a kernel for "
			"a CPU, and this device emulates a GPU",
			rt_show_name(k->what).text);
	}
	status = launch(d, k, s->grid, c, &why);
	return status == RT_OK ? RT_OK :
		rt_fail(err, status, RT_NOWHERE, "%s (%s)%s: %s",
			s->grid->func, rt_show_name(k->what).text,
			rt_place_text(at).text, why.message);
}

/* The host's memory needs no packing, but a plan whose scratch is too small
 * for a GPU is refused here, too. */
static enum rt_status
emulated_coll(struct rt_device *d, const struct rt_coll *t, char *const *at,
	      const struct rt_place *place, struct rt_error *err)
{
	enum rt_status status = rt_coll_fits(d, t, place->microbatch, err);

	return status == RT_OK ? rt_comm_join(d->comm, t, place->microbatch,
					      at, place->layer, err) : status;
}

/* Checked: sums that the step stores first hold NaN before it. */
static enum rt_status
emulated_set_step(struct rt_device *d, const double *numbers,
		  struct rt_error *err)
{
	const struct emulated *x = d->self;
	const struct rt_program *p = d->program;
	int64_t i;

	(void)err;
	for (i = 0; i < p->nstored && x->checked; i++) {
		memset(d->host + p->stored[i].offset, 0xff,
		       (size_t)p->stored[i].bytes);
	}
	rt_device_live(numbers, d->live);
	return RT_OK;
}

/* ---- life cycle --------------------------------------------------------- */

static void
emulated_close(struct rt_device *d)
{
	struct emulated *x = d->self;

	if (x->calls) {
		x->calls->close(x->checked);
		x->calls->close(x->plain);
	}
	free(x->seen);
	free(x);
	d->self = NULL;
}

static const struct rt_device_kind emulated = {
	.name = "emulate", .step = emulated_step, .coll = emulated_coll,
	.read = rt_host_read, .write = rt_host_write, .zero = rt_host_zero,
	.set_step = emulated_set_step, .close = emulated_close
};

/* Checked kernels may access the arena, pieces and `live`, and nothing else
 * of this process. */
static enum rt_status
allow(struct rt_device *d, struct rt_error *err)
{
	const struct emulated *x = d->self;
	enum rt_status status = x->calls->allow(x->checked, d->arena,
						d->program->arena_bytes, err);
	int64_t i, n;

	if (status == RT_OK) {
		status = x->calls->allow(x->checked, d->live, sizeof d->live,
					 err);
	}
	for (i = 0; i < d->plan->nspreads && status == RT_OK; i++) {
		const struct rt_spread *s = &d->plan->spreads[i];

		n = d->plan->nranks * (s->by_time ? d->plan->nmicrobatches
						  : 1);
		status = x->calls->allow(x->checked, s->at,
					 n * (int64_t)sizeof *s->at, err);
	}
	return status;
}

static enum rt_status
open_code(struct rt_device *d, enum rt_check check, struct rt_error *err)
{
	struct emulated *x = d->self;
	enum rt_status status = load_emulator(&x->calls, err);

	if (status == RT_OK && check != RT_CHECK_NEVER) {
		status = x->calls->open(&x->checked, d->plan->images,
					RT_EMU_CHECK | RT_EMU_EARLY, err);
		status = status == RT_OK ? allow(d, err) : status;
	}
	if (status == RT_OK && check != RT_CHECK_ALWAYS) {
		status = x->calls->open(&x->plain, d->plan->images, 0, err);
	}
	if (status == RT_OK && check == RT_CHECK_FIRST) {
		x->seen = calloc((size_t)x->calls->functions(x->checked) + 1,
				 sizeof *x->seen);
		status = x->seen ? RT_OK : rt_no_memory(err, NULL);
	}
	return status;
}

enum rt_status
rt_device_emulate(struct rt_device *d, struct rt_error *err)
{
	struct emulated *x;
	enum rt_status status;

	if (!d->plan->images) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "there are no "
			       "kernels of a GPU in this plan");
	}
	x = calloc(1, sizeof *x);
	if (!x) {
		return rt_no_memory(err, NULL);
	}
	d->kind = &emulated;
	d->self = x;
	status = open_code(d, d->options ? d->options->check
			   : RT_CHECK_NEVER, err);
	if (status != RT_OK) {
		rt_device_close(d);
	}
	return status;
}

/*
 * device_emulate.c - an emulated GPU as a device.  Its memory is the host's,
 * and so the arena is the one that ranks of a host share: they talk as they
 * do without a GPU.
 *
 * Checked code finds races and is some ten times slower, so unless somebody
 * says otherwise a kernel is checked the first time that it is launched, and
 * then runs as plain code: two libraries of the same text.
 */
#include "runtime/device/device.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/emulate/emulate.h"
#include "runtime/device/this_machine.h"

/* One of both may be NULL; with both, `seen` says which functions have run. */
struct emulated {
	struct rt_emu *checked, *plain;
	bool *seen;
};

/* The code that a function runs as this time. */
static struct rt_emu *
code_of(const struct emulated *x, const struct rt_grid *g)
{
	int64_t i;

	if (!x->plain || !x->checked) {
		return x->plain ? x->plain : x->checked;
	}
	i = rt_emu_function(x->checked, g->image, g->func);
	return i >= 0 && !x->seen[i] ? x->checked : x->plain;
}

static void
mark_seen(const struct emulated *x, const struct rt_grid *g)
{
	int64_t i = x->seen ? rt_emu_function(x->checked, g->image, g->func)
			    : -1;

	if (i >= 0) {
		x->seen[i] = true;
	}
}

static enum rt_status
put_maps(const struct rt_kernel *k, const struct rt_grid *g,
	 const struct rt_call *c, char *args, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < g->nmaps && status == RT_OK; i++) {
		status = rt_emu_map(args + rt_args_maps(k) + i * RT_MAP_BYTES,
				    &g->maps[i], c->at[g->maps[i].operand],
				    err);
	}
	return status;
}

static enum rt_status
launch(struct rt_device *d, const struct rt_kernel *k,
       const struct rt_grid *g, const struct rt_call *c, struct rt_error *err)
{
	_Alignas(RT_MAP_ALIGN) char args[RT_ARGS_BYTES];
	struct rt_emu *emu = code_of(d->self, g);
	int64_t bytes = rt_args_bytes(k, g);
	int64_t want = rt_emu_args(emu, g->image, g->func);
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
		status = put_maps(k, g, c, args, err);
	}
	if (status == RT_OK) {
		status = rt_emu_launch(emu, g, args, err);
	}
	mark_seen(d->self, g);
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

/* The host's memory needs no packing; the plan must have room for it. */
static enum rt_status
emulated_coll(struct rt_device *d, const struct rt_coll *t, char *const *at,
	      const struct rt_place *place, struct rt_error *err)
{
	enum rt_status status = rt_coll_fits(d, t, place->microbatch, err);

	return status == RT_OK ? rt_comm_join(d->comm, t, place->microbatch,
					      at, place->trip, err) : status;
}

static enum rt_status
emulated_set_step(struct rt_device *d, int64_t step, struct rt_error *err)
{
	(void)err;
	d->live[0] = step;
	return RT_OK;
}

static void
emulated_close(struct rt_device *d)
{
	struct emulated *x = d->self;

	rt_emu_close(x->checked);
	rt_emu_close(x->plain);
	free(x->seen);
	free(x);
	d->self = NULL;
}

static const struct rt_device_kind emulated = {
	.name = "emulate", .step = emulated_step, .coll = emulated_coll,
	.read = rt_host_read, .write = rt_host_write, .zero = rt_host_zero,
	.set_step = emulated_set_step, .close = emulated_close
};

/* Checked kernels may touch the arena, pieces, and `live`: not what else
 * this process has. */
static enum rt_status
allow(struct rt_device *d, struct rt_emu *emu, struct rt_error *err)
{
	enum rt_status status = rt_emu_allow(emu, d->arena,
					     d->program->arena_bytes, err);
	int64_t i, n;

	if (status == RT_OK) {
		status = rt_emu_allow(emu, d->live, sizeof d->live, err);
	}
	for (i = 0; i < d->plan->nspreads && status == RT_OK; i++) {
		const struct rt_spread *s = &d->plan->spreads[i];

		n = d->plan->nranks * (s->by_time ? d->plan->nmicrobatches
						  : 1);
		status = rt_emu_allow(emu, s->at, n * (int64_t)sizeof *s->at,
				      err);
	}
	return status;
}

static enum rt_status
open_code(struct rt_device *d, enum rt_check check, struct rt_error *err)
{
	struct emulated *x = d->self;
	enum rt_status status = RT_OK;

	if (check != RT_CHECK_NEVER) {
		status = rt_emu_open(&x->checked, d->plan->images,
				     RT_EMU_CHECK, err);
		status = status == RT_OK ? allow(d, x->checked, err) : status;
	}
	if (status == RT_OK && check != RT_CHECK_ALWAYS) {
		status = rt_emu_open(&x->plain, d->plan->images, 0, err);
	}
	if (status == RT_OK && check == RT_CHECK_FIRST) {
		x->seen = calloc((size_t)rt_emu_functions(x->checked) + 1,
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

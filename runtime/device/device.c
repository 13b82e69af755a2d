/*
 * A rank's memory as the host sees it, and the CPU as a device.
 */
#include "runtime/device/device.h"

#include <string.h>

#include "runtime/device/this_machine.h"

/* The unit in which workers zero memory. */
#define ZERO_BYTES (1 << 20)

/* ---- the CPU ---- */

struct cpu_work {
	void (*run)(const struct rt_call *c, char *own, int64_t from,
		    int64_t to);
	const struct rt_call *call;
	char *own;
	int64_t own_bytes;
};

static void
do_work(void *user, int64_t worker, int64_t from, int64_t to)
{
	const struct cpu_work *w = user;

	w->run(w->call, w->own + worker * w->own_bytes, from, to);
}

static enum rt_status
cpu_step(struct rt_device *d, const struct rt_kernel *k,
	 const struct rt_step *s, const struct rt_call *c,
	 const struct rt_place *at, struct rt_error *err)
{
	struct cpu_work w = { s->run, c, c->shared + d->program->shared_bytes,
			  d->program->own_bytes };

	(void)at;
	if (!s->run) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s is a kernel for "
			"a GPU, and this device is a CPU",
			rt_show_name(k->what).text);
	}
	rt_workers_run(d->workers, do_work, &w, s->items);
	return RT_OK;
}

struct zero {
	char *at;
	int64_t bytes;
};

static void
zero_some(void *user, int64_t worker, int64_t from, int64_t to)
{
	const struct zero *z = user;
	int64_t lo = from * ZERO_BYTES, hi = to * ZERO_BYTES;

	(void)worker;
	hi = hi < z->bytes ? hi : z->bytes;
	memset(z->at + lo, 0, (size_t)(hi - lo));
}

enum rt_status
rt_host_zero(struct rt_device *d, int64_t offset, int64_t bytes,
	     struct rt_error *err)
{
	struct zero z = { d->host + offset, bytes };

	(void)err;
	rt_workers_run(d->workers, zero_some, &z,
		       (bytes + ZERO_BYTES - 1) / ZERO_BYTES);
	return RT_OK;
}

void
rt_device_live(const double *numbers, int64_t live[RT_LIVE])
{
	uint32_t bits;
	float f;
	int i;

	live[0] = (int64_t)numbers[0];
	for (i = 1; i < RT_NUMBERS; i++) {
		f = (float)numbers[i];
		memcpy(&bits, &f, sizeof bits);
		live[i] = bits;
	}
	live[RT_NUMBERS] = 0;
}

enum rt_status
rt_host_read(struct rt_device *d, int64_t offset, void *to, int64_t bytes,
	     struct rt_error *err)
{
	(void)err;
	memcpy(to, d->host + offset, (size_t)bytes);
	return RT_OK;
}

enum rt_status
rt_host_write(struct rt_device *d, int64_t offset, const void *from,
	      int64_t bytes, struct rt_error *err)
{
	(void)err;
	memcpy(d->host + offset, from, (size_t)bytes);
	return RT_OK;
}

static const struct rt_device_kind cpu = {
	.name = "cpu", .step = cpu_step, .read = rt_host_read,
	.write = rt_host_write, .zero = rt_host_zero
};

void
rt_device_cpu(struct rt_device *d, const struct rt_plan *plan, int64_t rank,
	      struct rt_comm *comm, struct rt_workers *workers)
{
	char *arena = rt_comm_arena(comm);

	*d = (struct rt_device){ .kind = &cpu, .on = RT_ON_CPU, .plan = plan,
		.program = &plan->programs[plan->program_of[rank]],
		.comm = comm, .workers = workers, .arena = arena,
		.host = arena, .free_bytes = -1 };
}

void
rt_device_close(struct rt_device *d)
{
	if (d->kind && d->kind->close) {
		d->kind->close(d);
	}
	memset(d, 0, sizeof *d);
}

/* ---- reading the arena ---- */

enum rt_status
rt_device_view(struct rt_device *d, int64_t offset, int64_t bytes, void *copy,
	       const char **at, struct rt_error *err)
{
	*at = d->host ? d->host + offset : copy;
	return d->host ? RT_OK : d->kind->read(d, offset, copy, bytes, err);
}

enum rt_status
rt_device_number(struct rt_device *d, int64_t offset, int64_t elem,
		 int64_t i, double *out, struct rt_error *err)
{
	int64_t bytes = rt_elem_bytes((enum rt_elem)elem);
	const char *at;
	char copy[8];
	enum rt_status status =
		rt_device_view(d, offset + i * bytes, bytes, copy, &at, err);

	if (status == RT_OK) {
		*out = rt_elem_number(at, elem, 0);
	}
	return status;
}

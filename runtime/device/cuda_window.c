/*
 * The window of a GPU: fixed addresses at which kernels of a graph find what
 * differs between microbatches alone, inputs, results and pieces.
 *
 * A microbatch's own are copied there before a graph runs, and its results
 * back afterwards, on the stream of the kernels.  So the arguments of kernels
 * are the same in all microbatches whose other values lie in the same places.
 */
#include "runtime/device/cuda_device.h"

#include <stdlib.h>

enum { SLOT_ALIGN = 256 };

/* An input or a result, of one microbatch. */
struct rt_gpu_slot {
	const struct rt_port *port;
	bool result;
	uint64_t window;
};

static enum rt_status
add_copy(struct rt_gpu_copies *p, const struct rt_gpu_copy *c,
	 struct rt_error *err)
{
	struct rt_gpu_copy *more;
	int64_t i;

	for (i = 0; i < p->n; i++) {
		if (p->at[i].window == c->window) {
			return RT_OK;
		}
	}
	more = realloc(p->at, (size_t)(p->n + 1) * sizeof *more);
	if (!more) {
		return rt_no_memory(err, NULL);
	}
	p->at = more;
	p->at[p->n++] = *c;
	return RT_OK;
}

static int64_t
port_bytes(const struct rt_device *d, const struct rt_port *port, int64_t mb)
{
	int64_t bytes = rt_elem_bytes((enum rt_elem)port->elem), i;

	for (i = 0; i < port->ndims; i++) {
		bytes *= rt_pieces_of(d->plan, port->dims[i],
				      d->comm->world.rank, mb)->total;
	}
	return bytes;
}

enum rt_status
rt_gpu_window_operand(const struct rt_device *d, int64_t mb, char **at,
		      struct rt_gpu_copies *copies, struct rt_error *err)
{
	const struct rt_gpu_window *w =
		&((const struct rt_gpu *)d->self)->window;
	uint64_t own = (uint64_t)(uintptr_t)*at;
	int64_t i;

	for (i = 0; i < w->nslots; i++) {
		const struct rt_gpu_slot *s = &w->slots[i];
		struct rt_gpu_copy c = { (uint64_t)(uintptr_t)d->arena +
			(uint64_t)(s->port->offset +
				   mb * s->port->apart),
			s->window, port_bytes(d, s->port, mb),
			s->result };

		if (own >= c.there && own < c.there + (uint64_t)c.bytes) {
			*at = (char *)(uintptr_t)(c.window + own - c.there);
			return add_copy(copies, &c, err);
		}
	}
	return RT_OK;
}

enum rt_status
rt_gpu_window_pieces(const struct rt_device *d, int64_t mb,
		     const struct rt_pieces **at, struct rt_gpu_copies *copies,
		     struct rt_error *err)
{
	const struct rt_gpu *g = d->self;
	int64_t n = d->plan->nspreads, i;

	for (i = 0; i < n; i++) {
		struct rt_gpu_copy c = { 0, g->window.pieces +
			(uint64_t)i * sizeof **at, sizeof **at, false };

		if (d->plan->spreads[i].by_time &&
		    g->by_microbatch[mb * n + i] == *at &&
		    rt_gpu_pieces_at(g, *at, &c.there)) {
			*at = &g->window.stand_ins[i];
			return add_copy(copies, &c, err);
		}
	}
	return RT_OK;
}

static int64_t
slot_bytes(const struct rt_device *d, const struct rt_port *port)
{
	int64_t most = 0, bytes, mb;

	for (mb = 0; mb < d->plan->nmicrobatches; mb++) {
		bytes = port_bytes(d, port, mb);
		most = bytes > most ? bytes : most;
	}
	return (most + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

/* Lays out and allocates the window: ports by microbatch, then pieces. */
static enum rt_status
lay_out(struct rt_device *d, struct rt_gpu_window *x, struct rt_error *err)
{
	const struct rt_program *p = d->program;
	struct rt_gpu *g = d->self;
	int64_t bytes = 0, i;
	enum rt_status status;

	for (i = 0; i < p->ninputs + p->nresults; i++) {
		bool result = i >= p->ninputs;
		const struct rt_port *port = result
			? &p->results[i - p->ninputs] : &p->inputs[i];

		if (d->plan->nmicrobatches > 1 && port->apart > 0) {
			x->slots[x->nslots++] = (struct rt_gpu_slot){
				port, result, (uint64_t)bytes };
			bytes += slot_bytes(d, port);
		}
	}
	status = GPU(&g->api, alloc, &x->base,
		     (size_t)(bytes + (d->plan->nspreads + 1) *
			      (int64_t)sizeof(struct rt_pieces)));
	x->pieces = x->base + (uint64_t)bytes;
	for (i = 0; i < x->nslots; i++) {
		x->slots[i].window += x->base;
	}
	return status;
}

enum rt_status
rt_gpu_window_open(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu_window *w = &((struct rt_gpu *)d->self)->window;
	const struct rt_program *p = d->program;

	w->slots = calloc((size_t)(p->ninputs + p->nresults) + 1,
			  sizeof *w->slots);
	w->stand_ins = calloc((size_t)d->plan->nspreads + 1,
			      sizeof *w->stand_ins);
	w->nspreads = d->plan->nspreads;
	if (!w->slots || !w->stand_ins) {
		return rt_no_memory(err, NULL);
	}
	return lay_out(d, w, err);
}

void
rt_gpu_window_close(struct rt_gpu *g)
{
	struct rt_gpu_window *w = &g->window;

	if (w->base) {
		g->api.release(w->base);
	}
	free(w->slots);
	free(w->stand_ins);
	*w = (struct rt_gpu_window){ .base = 0 };
}

enum rt_status
rt_gpu_window_copy(struct rt_gpu *g, const struct rt_gpu_copies *x, bool back,
		   struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < x->n && status == RT_OK; i++) {
		const struct rt_gpu_copy *c = &x->at[i];

		if (!back || c->result) {
			status = GPU(&g->api, copy,
				     back ? c->there : c->window,
				     back ? c->window : c->there,
				     (size_t)c->bytes,
				     rt_gpu_stream(g));
		}
	}
	return status;
}

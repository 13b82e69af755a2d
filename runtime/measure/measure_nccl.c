/*
 * Collectives between the CUDA devices of this process, issued by one thread in
 * one NCCL group.  Time is measured on the last rank, which is the receiver of
 * a send.
 */
#include "runtime/measure/measure_cuda.h"

#include <stdlib.h>
#include <string.h>

static const struct rt_where nowhere = { NULL, NULL, -1 };

/* nccl.h: ncclFloat32, ncclSum. */
enum { NCCL_FP32 = 7, NCCL_SUM = 0 };

struct rank {
	void *comm, *stream;
	rt_cu_address in, out;
};

struct nccl_group {
	struct rt_cuda *c;
	struct rt_coll_shape x;
	size_t n; /* elements of a rank's larger side */
	struct rank ranks[RT_CU_DEVICES];
	void *from, *to;
};

static void *
pointer(rt_cu_address at)
{
	return (void *)(uintptr_t)at;
}

/* Enqueues the part of rank i. */
static enum rt_status
call(struct nccl_group *t, int i, struct rt_error *err)
{
	struct rank *r = &t->ranks[i];
	size_t own = t->n / (size_t)t->x.ranks;

	switch (t->x.op) {
	case RT_ALL_REDUCE:
		return CALL(t->c, nccl_all_reduce, pointer(r->in),
			    pointer(r->out), t->n, NCCL_FP32, NCCL_SUM,
			    r->comm, r->stream);
	case RT_ALL_GATHER:
		return CALL(t->c, nccl_all_gather, pointer(r->in),
			    pointer(r->out), own, NCCL_FP32, r->comm,
			    r->stream);
	case RT_REDUCE_SCATTER:
		return CALL(t->c, nccl_reduce_scatter, pointer(r->in),
			    pointer(r->out), own, NCCL_FP32, NCCL_SUM,
			    r->comm, r->stream);
	default:
		break;
	}
	if (i == 0) {
		return CALL(t->c, nccl_send, pointer(r->in), t->n, NCCL_FP32,
			    t->x.ranks - 1, r->comm, r->stream);
	}
	return i < t->x.ranks - 1 ? RT_OK
		: CALL(t->c, nccl_recv, pointer(r->out), t->n, NCCL_FP32, 0,
		       r->comm, r->stream);
}

static enum rt_status
once(struct nccl_group *t, struct rt_error *err)
{
	enum rt_status status = CHECK(t->c, t->c->api.nccl_start(),
					 nccl_start);
	int i;

	for (i = 0; i < t->x.ranks && status == RT_OK; i++) {
		status = call(t, i, err);
	}
	/* a group that was started must be ended, also after an error */
	if (status != RT_OK) {
		t->c->api.nccl_end();
		return status;
	}
	return CHECK(t->c, t->c->api.nccl_end(), nccl_end);
}

static enum rt_status
wait_all(struct nccl_group *t, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int i;

	for (i = 0; i < t->x.ranks && status == RT_OK; i++) {
		status = CALL(t->c, context_set, t->c->contexts[i]);
		if (status == RT_OK) {
			status = CALL(t->c, stream_wait, t->ranks[i].stream);
		}
	}
	return status;
}

static enum rt_status
run_coll(void *user, int runs, struct rt_timing *out, struct rt_error *err)
{
	struct nccl_group *t = user;
	void *last = t->ranks[t->x.ranks - 1].stream;
	enum rt_status status = wait_all(t, err);
	float ms = 0;
	int i;

	/* wait_all() left the context of the last rank current */
	if (status == RT_OK) {
		status = CALL(t->c, event_record, t->from, last);
	}
	for (i = 0; i < runs && status == RT_OK; i++) {
		status = once(t, err);
	}
	if (status == RT_OK) {
		status = CALL(t->c, context_set,
			      t->c->contexts[t->x.ranks - 1]);
	}
	if (status == RT_OK) {
		status = CALL(t->c, event_record, t->to, last);
	}
	if (status == RT_OK) {
		status = CALL(t->c, event_wait, t->to);
	}
	if (status == RT_OK) {
		status = CALL(t->c, event_elapsed, &ms, t->from, t->to);
	}
	out->wall_us = (double)ms * 1e3;
	return status == RT_OK ? wait_all(t, err) : status;
}

/* All inputs are ones: sums are the number of ranks, copies are ones. */
static enum rt_status
check_results(struct nccl_group *t, struct rt_error *err)
{
	bool sums = t->x.op == RT_ALL_REDUCE || t->x.op == RT_REDUCE_SCATTER;
	int last = t->x.ranks - 1;
	size_t n = t->x.op == RT_REDUCE_SCATTER
		? t->n / (size_t)t->x.ranks : t->n;
	float want = sums ? (float)t->x.ranks : 1, got[2] = { 0, 0 };
	rt_cu_address out = t->ranks[last].out;
	enum rt_status status;

	status = CALL(t->c, context_set, t->c->contexts[last]);
	if (status == RT_OK) {
		status = CALL(t->c, to_host, &got[0], out, sizeof *got);
	}
	if (status == RT_OK) {
		status = CALL(t->c, to_host, &got[1], out + 4 * (n - 1),
			      sizeof *got);
	}
	if (status == RT_OK && (got[0] != want || got[1] != want)) {
		status = rt_fail(err, RT_FORMAT, nowhere, "a collective of "
				 "%d devices gave %g and %g where %g is right",
				 t->x.ranks, (double)got[0], (double)got[1],
				 (double)want);
	}
	return status;
}

static enum rt_status
make_rank(struct nccl_group *t, int i, struct rt_error *err)
{
	struct rank *r = &t->ranks[i];
	struct rt_cuda *c = t->c;
	size_t bytes = t->n * sizeof(float);

	if (CALL(c, context_set, c->contexts[i]) != RT_OK ||
	    CALL(c, stream_create, &r->stream, 0) != RT_OK ||
	    CALL(c, alloc, &r->in, bytes) != RT_OK ||
	    CALL(c, alloc, &r->out, bytes) != RT_OK ||
	    CALL(c, set, r->in, 0x3f800000, t->n, r->stream) != RT_OK ||
	    CALL(c, set, r->out, 0, t->n, r->stream) != RT_OK) {
		return RT_IO;
	}
	return RT_OK;
}

static enum rt_status
make(struct nccl_group *t, struct rt_error *err)
{
	struct rt_cuda *c = t->c;
	void *comms[RT_CU_DEVICES] = { 0 };
	enum rt_status status = RT_OK;
	int i, last = t->x.ranks - 1;

	for (i = 0; i < t->x.ranks && status == RT_OK; i++) {
		status = make_rank(t, i, err);
	}
	if (status == RT_OK) {
		status = CALL(c, nccl_init, comms, t->x.ranks, c->devices);
	}
	for (i = 0; i < t->x.ranks; i++) {
		t->ranks[i].comm = comms[i];
	}
	if (status == RT_OK) {
		status = CALL(c, context_set, c->contexts[last]);
	}
	if (status == RT_OK) {
		status = CALL(c, event_create, &t->from, 0);
	}
	return status == RT_OK ? CALL(c, event_create, &t->to, 0) : status;
}

/* Also after a failure half-way; the first device is current afterwards. */
static void
unmake(struct nccl_group *t)
{
	struct rt_cu_api *api = &t->c->api;
	int i;

	for (i = 0; i < t->x.ranks; i++) {
		struct rank *r = &t->ranks[i];

		api->context_set(t->c->contexts[i]);
		if (r->comm) {
			api->nccl_destroy(r->comm);
		}
		api->release(r->in);
		api->release(r->out);
		if (r->stream) {
			api->stream_destroy(r->stream);
		}
	}
	if (t->from) {
		api->event_destroy(t->from);
	}
	if (t->to) {
		api->event_destroy(t->to);
	}
	api->context_set(t->c->contexts[0]);
}

enum rt_status
rt_cuda_comm(struct rt_meter *m, const struct rt_coll_shape *x,
	     struct rt_sample *out, struct rt_error *err)
{
	struct nccl_group *t = calloc(1, sizeof *t);
	enum rt_status status;

	if (!t) {
		return rt_no_memory(err, NULL);
	}
	t->c = m->self;
	t->x = *x;
	/* a multiple of the number of ranks */
	t->n = (size_t)x->bytes / sizeof(float) / (size_t)x->ranks *
	       (size_t)x->ranks;
	if (x->ranks < 2 || x->ranks > t->c->n || t->n == 0) {
		free(t);
		return rt_fail(err, RT_RANGE, nowhere, "2 to %d ranks, and a "
			       "number for each", m->facts.ranks);
	}
	status = make(t, err);
	if (status == RT_OK) {
		status = rt_sample_measure(&m->pace, 1, run_coll, t, out, err);
	}
	if (status == RT_OK) {
		status = check_results(t, err);
	}
	unmake(t);
	free(t);
	return status;
}

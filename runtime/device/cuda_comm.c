/*
 * Collectives between GPUs.
 *
 * All-reduce, reduce-scatter and all-gather of equal parts are NCCL's own, and
 * so are sends along the pipeline.  Others are done by parts
 * (cuda_comm_parts.c).  They run on streams beside that of the kernels: a
 * collective waits for all kernels launched before it; a kernel waits for the
 * collectives that touch its operands, as far as the operands' sizes are known,
 * else for all.  So gradients are reduced while the backward of other layers
 * runs.  A send along the pipeline is waited for where the plan says that its
 * memory is used again: a kernel that waited earlier might wait for a rank that
 * waits for this one.
 *
 * Collectives by parts among very many ranks, and all collectives of ranks that
 * share a GPU, go through the host: operands are copied into the rank's arena
 * there, the host's transport runs the collective, and the result is copied
 * back.
 */
#include "runtime/device/cuda_device.h"

#include <string.h>
#include <time.h>

#include "runtime/device/this_machine.h"

/* cuda_device.h: CU_EVENT_DISABLE_TIMING. */
enum { UNTIMED = 2 };

/* ---- order ---- */

static enum rt_status
settle_sent(struct rt_gpu *g, struct rt_gpu_sent *s, struct rt_error *err)
{
	s->open = false;
	return GPU(&g->api, stream_wait, rt_gpu_stream(g), s->event, 0);
}

static bool
sent_touches(const struct rt_gpu_sent *s, const char *at, int64_t bytes)
{
	int i;

	for (i = 0; i < 3; i++) {
		if (s->lo[i] && at < s->hi[i] &&
		    (bytes < 0 || at + bytes > s->lo[i])) {
			return true;
		}
	}
	return false;
}

static bool
kernel_touches(const struct rt_device *d, const struct rt_gpu_sent *s,
	       const struct rt_kernel *k, const struct rt_call *c)
{
	int64_t i;

	if (!k->at_bytes ||
	    sent_touches(s, c->shared, d->program->shared_bytes)) {
		return true;
	}
	for (i = 0; i < k->nat; i++) {
		if (sent_touches(s, c->at[i], k->at_bytes[i])) {
			return true;
		}
	}
	return false;
}

enum rt_status
rt_gpu_settle(struct rt_device *d, const struct rt_kernel *k,
	      const struct rt_call *c, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	struct rt_gpu_sent *s;

	for (s = g->sent; s < g->sent + 2 * RT_GPU_SENT && status == RT_OK;
	     s++) {
		if (s->open && s->coll->op != RT_COLL_SEND &&
		    kernel_touches(d, s, k, c)) {
			status = settle_sent(g, s, err);
		}
	}
	return status;
}

/* Of those from `from` to before `to`; only_received: what is being received
 * alone. */
static enum rt_status
settle_range(struct rt_gpu *g, int64_t from, int64_t to, bool only_received,
	     struct rt_error *err)
{
	enum rt_status status = RT_OK;

	for (; from < to && status == RT_OK; from++) {
		struct rt_gpu_sent *s = &g->sent[from];

		if (s->open &&
		    (!only_received || s->coll->op == RT_COLL_RECV)) {
			status = settle_sent(g, s, err);
		}
	}
	return status;
}

enum rt_status
rt_gpu_settle_all(struct rt_device *d, struct rt_error *err)
{
	return settle_range(d->self, 0, 2 * RT_GPU_SENT, false, err);
}

enum rt_status
rt_gpu_settle_colls(struct rt_device *d, struct rt_error *err)
{
	return settle_range(d->self, 0, RT_GPU_SENT, false, err);
}

enum rt_status
rt_gpu_settle_received(struct rt_device *d, struct rt_error *err)
{
	return settle_range(d->self, RT_GPU_SENT, 2 * RT_GPU_SENT, true, err);
}

/* Waits for all sends of a channel but the last copies - 1. */
static enum rt_status
settle_channel(struct rt_device *d, const struct rt_coll *t,
	       struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	int64_t newer = 0, i;

	for (i = g->nsent[1] - 1; i >= 0 && i >= g->nsent[1] - RT_GPU_SENT &&
	     status == RT_OK; i--) {
		struct rt_gpu_sent *s =
			&g->sent[RT_GPU_SENT + i % RT_GPU_SENT];

		if (s->coll->op == RT_COLL_SEND &&
		    s->coll->channel == t->channel &&
		    newer++ >= t->copies - 1 && s->open) {
			status = settle_sent(g, s, err);
		}
	}
	return status;
}

/* ---- classifying collectives ---- */

static int64_t
elems_of(const struct rt_device *d, const struct rt_coll *t,
	 const struct rt_spread *const *spreads, int64_t rank, int64_t mb)
{
	int64_t n = 1, i;

	for (i = 0; i < t->ndims; i++) {
		n *= rt_pieces_of(d->plan, spreads[i], rank, mb)->total;
	}
	return n;
}

static bool
are_same_pieces(const struct rt_device *d, const struct rt_coll *t,
		const struct rt_spread *const *a, int64_t ra,
		const struct rt_spread *const *b, int64_t rb, int64_t mb)
{
	int64_t i;

	for (i = 0; i < t->ndims; i++) {
		if (!rt_pieces_equal(rt_pieces_of(d->plan, a[i], ra, mb),
				     rt_pieces_of(d->plan, b[i], rb, mb))) {
			return false;
		}
	}
	return true;
}

/* Whether what rank r has of `part` is, in memory, the i-th of n slabs of
 * `whole`. */
static bool
is_slab(const struct rt_device *d, const struct rt_coll *t,
	const struct rt_spread *const *part,
	const struct rt_spread *const *whole, int64_t r, int64_t i, int64_t n,
	int64_t mb)
{
	const struct rt_pieces *p, *w;
	bool outer = true, found = false;
	int64_t k;

	for (k = 0; k < t->ndims; k++) {
		p = rt_pieces_of(d->plan, part[k], r, mb);
		w = rt_pieces_of(d->plan, whole[k], r, mb);
		if (rt_pieces_equal(p, w)) {
			outer = outer && p->total == 1;
			continue;
		}
		if (!outer || found || p->n != 1 || w->n != 1 ||
		    p->total * n != w->total ||
		    p->at[0].start != w->at[0].start + i * p->total) {
			return false;
		}
		found = true;
		outer = false;
	}
	return found;
}

static void
find_way(const struct rt_device *d, const struct rt_group *g, int64_t mb,
	 struct rt_gpu_leg *leg)
{
	const struct rt_coll *t = leg->call.coll;
	bool in = true, out = true, gather = t->op == RT_COLL_COPY;
	bool scatter = t->op == RT_COLL_SUM, reduce = !gather;
	int64_t me = d->comm->world.rank, i;

	for (i = 0; i < g->n; i++) {
		int64_t r = g->ranks[i];

		in = in && are_same_pieces(d, t, t->in, me, t->in, r, mb);
		out = out && are_same_pieces(d, t, t->out, me, t->out, r, mb);
		gather = gather && is_slab(d, t, t->in, t->out, r, i, g->n,
					   mb);
		scatter = scatter && is_slab(d, t, t->out, t->in, r, i, g->n,
					     mb);
	}
	reduce = reduce && in && out &&
		 are_same_pieces(d, t, t->in, me, t->out, me, mb);
	leg->call.op = reduce ? RT_NCCL_REDUCE : gather ? RT_NCCL_GATHER
		: RT_NCCL_SCATTER;
	leg->call.n = elems_of(d, t, leg->call.op == RT_NCCL_SCATTER ? t->out
			       : t->in, me, mb);
	leg->way = reduce || (gather && out) || (scatter && in)
		? RT_GPU_CALL : rt_gpu_parts_way(d, t, g, mb);
}

/* ---- waiting for the GPU ---- */

/* A wait spins for so long: most waits end within it. */
#define SPIN_MS 0.2
#define NAP_NS 20000
#define POLL_MS 50

static void
nap(void)
{
	struct timespec t = { 0, NAP_NS };

	nanosleep(&t, NULL);
}

static enum rt_status
too_late(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	const struct rt_gpu_sent *s = rt_gpu_hanging(g);
	enum rt_status status;

	if (s) {
		status = rt_fail(err, RT_IO, RT_NOWHERE, "%s%s has not ended "
			"in %.0f s: another rank of its group has died or "
			"hangs", rt_show_name(s->coll->what).text,
			rt_place_text(&s->place).text, d->options->timeout_s);
	} else {
		status = rt_fail(err, RT_IO, RT_NOWHERE, "the GPU has not "
			"ended in %.0f s what it was given, last %s: another "
			"rank may have died or hang; --no-graph tells which "
			"collective it was", d->options->timeout_s,
			g->last ? rt_show_name(g->last).text : "a copy");
	}
	rt_nccl_abort(d);
	return status;
}

enum rt_status
rt_gpu_wait(struct rt_device *d, struct rt_error *err)
{
	double start = rt_now_ms(), polled = start, now;
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	int r;

	while ((r = g->api.stream_query(g->stream)) == RT_GPU_NOT_READY) {
		now = rt_now_ms();
		if (now - polled > POLL_MS && g->nccl) {
			polled = now;
			status = rt_nccl_poll(d, err);
			if (status == RT_OK &&
			    now - start > d->options->timeout_s * 1e3) {
				status = too_late(d, err);
			}
			if (status != RT_OK) {
				return status;
			}
		}
		if (now - start > SPIN_MS) {
			nap();
		}
	}
	return rt_gpu_check(&g->api, r,
			    offsetof(struct rt_gpu_api, stream_query), err);
}

/* ---- through the host ---- */

/* Copies the collectives' inputs to the host, or their outputs from there. */
static enum rt_status
carry_all(struct rt_device *d, const struct rt_coll *t, char *const *at,
	  int64_t mb, bool back, struct rt_error *err)
{
	char *mirror = rt_comm_arena(d->comm);
	int64_t rank = d->comm->world.rank, from, bytes;
	enum rt_status status = RT_OK;

	for (; t && status == RT_OK; t = t->next, at += 2) {
		if (t->op == RT_COLL_FREE ||
		    t->op == (back ? RT_COLL_SEND : RT_COLL_RECV)) {
			continue;
		}
		from = at[back] - d->arena;
		bytes = rt_elem_bytes((enum rt_elem)t->elem) *
			elems_of(d, t, back ? t->out : t->in, rank, mb);
		status = back
			? d->kind->write(d, from, mirror + from, bytes, err)
			: d->kind->read(d, from, mirror + from, bytes, err);
	}
	return status;
}

static enum rt_status
run_on_host(struct rt_device *d, const struct rt_coll *t, char *const *at,
	    const struct rt_place *place, struct rt_error *err)
{
	char *mirror = rt_comm_arena(d->comm), *there[2 * RT_MAX_JOINED];
	int64_t mb = place->microbatch, n = 0;
	enum rt_status status = carry_all(d, t, at, mb, false, err);
	const struct rt_coll *x;

	for (x = t; x && n < 2 * RT_MAX_JOINED; x = x->next, n += 2) {
		there[n] = mirror + (at[n] - d->arena);
		there[n + 1] = mirror + (at[n + 1] - d->arena);
	}
	if (status == RT_OK) {
		status = rt_comm_join(d->comm, t, mb, there, place->layer, err);
	}
	return status == RT_OK ? carry_all(d, t, at, mb, true, err) : status;
}

/* ---- by NCCL ---- */

/* The next entry of the ring of collectives, or of transfers. */
static enum rt_status
next_sent(struct rt_device *d, bool transfer, struct rt_gpu_sent **out,
	  struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_gpu_sent *s = &g->sent[transfer * RT_GPU_SENT +
					 g->nsent[transfer] % RT_GPU_SENT];
	enum rt_status status = s->open ? settle_sent(g, s, err) : RT_OK;

	if (status == RT_OK && !s->event) {
		status = GPU(&g->api, event_create, &s->event, UNTIMED);
	}
	if (status == RT_OK && !g->ready) {
		status = GPU(&g->api, event_create, &g->ready, UNTIMED);
	}
	s->number = g->nsent[0] + g->nsent[1];
	g->nsent[transfer] += status == RT_OK;
	*out = s;
	return status;
}

/* Lets it wait for the earlier collectives that it depends on. */
static enum rt_status
wait_for_colls(struct rt_device *d, const struct rt_gpu_sent *mine,
	       struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	struct rt_gpu_sent *s;
	int i;

	for (s = g->sent; s < g->sent + 2 * RT_GPU_SENT && status == RT_OK;
	     s++) {
		for (i = 0; i < 3 && s->open && status == RT_OK; i++) {
			if (mine->lo[i] && s->coll->op != RT_COLL_SEND &&
			    sent_touches(s, mine->lo[i],
					 mine->hi[i] - mine->lo[i])) {
				status = settle_sent(g, s, err);
			}
		}
	}
	return status;
}

/* Lets the communicator's stream wait for all kernels launched so far. */
static enum rt_status
wait_for_kernels(struct rt_device *d, const struct rt_nccl_comm *c,
		 struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status = GPU(&g->api, event_record, g->ready,
				    rt_gpu_stream(g));

	return status == RT_OK ? GPU(&g->api, stream_wait, c->stream, g->ready,
				     0) : status;
}

/* Records the memory that it reads, writes and packs into on this rank. */
static void
record_leg(const struct rt_device *d, const struct rt_gpu_leg *leg,
	   const struct rt_place *at, struct rt_gpu_sent *s)
{
	const struct rt_coll *t = leg->call.coll;
	const char *in = leg->call.in, *out = leg->call.out;
	int64_t bytes = rt_elem_bytes((enum rt_elem)t->elem);
	int64_t me = d->comm->world.rank, mb = at->microbatch;

	s->coll = t;
	s->place = *at;
	s->lo[0] = t->op == RT_COLL_RECV ? NULL : in;
	s->hi[0] = s->lo[0] ? in + bytes * elems_of(d, t, t->in, me, mb)
			    : NULL;
	s->lo[1] = t->op == RT_COLL_SEND ? NULL : out;
	s->hi[1] = s->lo[1] ? out + bytes * elems_of(d, t, t->out, me, mb)
			    : NULL;
	s->lo[2] = leg->way == RT_GPU_CALL ? NULL
		: d->arena + d->program->comm_offset;
	s->hi[2] = s->lo[2] ? s->lo[2] + d->program->comm_bytes : NULL;
}

/* Records each of the joined collectives; all of them end with the call. */
static enum rt_status
record_legs(struct rt_device *d, const struct rt_gpu_leg *legs, int64_t n,
	    const struct rt_place *at, struct rt_gpu_sent **sent,
	    struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < n && status == RT_OK; i++) {
		const struct rt_coll *t = legs[i].call.coll;

		status = next_sent(d, t->op == RT_COLL_SEND ||
				   t->op == RT_COLL_RECV, &sent[i], err);
		if (status == RT_OK) {
			record_leg(d, &legs[i], at, sent[i]);
			status = wait_for_colls(d, sent[i], err);
		}
	}
	return status;
}

static enum rt_status
enqueue_legs(struct rt_device *d, const struct rt_nccl_comm *c,
	     const struct rt_group *group, const struct rt_gpu_leg *legs,
	     int64_t n, const struct rt_place *at, struct rt_error *err)
{
	struct rt_gpu_sent *sent[RT_MAX_JOINED];
	struct rt_gpu *g = d->self;
	enum rt_status status = record_legs(d, legs, n, at, sent, err);
	int64_t i;

	if (status == RT_OK) {
		status = wait_for_kernels(d, c, err);
	}
	if (status == RT_OK) {
		status = rt_gpu_legs(d, c, group, legs, n, at->microbatch,
				     err);
	}
	for (i = 0; i < n && status == RT_OK; i++) {
		status = GPU(&g->api, event_record, sent[i]->event, c->stream);
		sent[i]->open = status == RT_OK;
	}
	/* a send may wait for a rank that waits for this rank's next one */
	for (i = 0; i < n && status == RT_OK && !g->capturing &&
	     legs->call.op != RT_NCCL_SEND && (g->eager || d->timed); i++) {
		status = settle_sent(g, sent[i], err);
		status = status == RT_OK ? rt_gpu_wait(d, err) : status;
	}
	return status;
}

static enum rt_status
along_pipeline(struct rt_device *d, const struct rt_coll *t, char *const *at,
	       const struct rt_place *place, struct rt_error *err)
{
	bool send = t->op == RT_COLL_SEND;
	struct rt_gpu_leg leg = { RT_GPU_CALL, { send ? RT_NCCL_SEND
		: RT_NCCL_RECV, t, at[0], at[1], 0 } };
	int64_t mine[RT_MAX_AXES + 1], rank = d->comm->world.rank, here;
	const struct rt_nccl_comm *c;

	if (t->op == RT_COLL_FREE) {
		return settle_channel(d, t, err);
	}
	rt_mesh_at(d->plan, rank, mine);
	here = d->plan->pp ? mine[d->plan->pp] : 0;
	c = rt_nccl_edge(d, send ? here : t->peer, send ? t->peer : here);
	if (!c) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "no communicator "
			"for places %lld and %lld of the pipeline",
			(long long)here, (long long)t->peer);
	}
	leg.call.n = elems_of(d, t, send ? t->in : t->out, rank,
			      place->microbatch);
	return enqueue_legs(d, c, NULL, &leg, 1, place, err);
}

/* Creating a communicator waits for other ranks, which may wait for collectives
 * under way: so those are flushed first. */
static enum rt_status
create_comm(struct rt_device *d, const struct rt_group *group,
	    const struct rt_nccl_comm **c, struct rt_error *err)
{
	enum rt_status status = rt_gpu_settle_all(d, err);

	if (status == RT_OK) {
		status = rt_gpu_wait(d, err);
	}
	return status == RT_OK ? rt_nccl_join(d, group, c, err) : status;
}

/* False: NCCL cannot do some of them. */
static bool
find_legs(const struct rt_device *d, const struct rt_coll *t, char *const *at,
	  const struct rt_group *g, int64_t mb, struct rt_gpu_leg *legs,
	  int64_t *n)
{
	for (*n = 0; t && *n < RT_MAX_JOINED; t = t->next, at += 2) {
		struct rt_gpu_leg *leg = &legs[(*n)++];

		leg->call.coll = t;
		leg->call.in = at[0];
		leg->call.out = at[1];
		find_way(d, g, mb, leg);
		if (leg->way == RT_GPU_HOST) {
			return false;
		}
	}
	return !t;
}

static enum rt_status
coll(struct rt_device *d, const struct rt_coll *t, char *const *at,
     const struct rt_place *place, struct rt_error *err)
{
	struct rt_gpu_leg legs[RT_MAX_JOINED];
	struct rt_gpu *g = d->self;
	const struct rt_nccl_comm *c;
	struct rt_group *group;
	enum rt_status status;
	int64_t n;

	if (!g->nccl) {
		return run_on_host(d, t, at, place, err);
	}
	if (t->op == RT_COLL_SEND || t->op == RT_COLL_RECV ||
	    t->op == RT_COLL_FREE) {
		return along_pipeline(d, t, at, place, err);
	}
	status = rt_group_find(d->comm, t->axes, t->holders, &group, err);
	if (status != RT_OK) {
		return status;
	}
	c = rt_nccl_group(d, group);
	if (!c && group->n > 1 && !g->capturing) {
		status = create_comm(d, group, &c, err);
	}
	if (status != RT_OK) {
		return status;
	}
	if (c && find_legs(d, t, at, group, place->microbatch, legs, &n)) {
		return enqueue_legs(d, c, group, legs, n, place, err);
	}
	if (g->capturing) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "goes through the "
			"host, and cannot be part of a graph: --no-graph");
	}
	g->hosted = true;
	return run_on_host(d, t, at, place, err);
}

enum rt_status
rt_gpu_coll(struct rt_device *d, const struct rt_coll *t, char *const *at,
	    const struct rt_place *place, struct rt_error *err)
{
	struct rt_error why;
	enum rt_status status = coll(d, t, at, place, &why);

	return status == RT_OK ? RT_OK :
		rt_fail(err, status, RT_NOWHERE, "%s%s: %s",
			rt_show_name(t->what).text, rt_place_text(place).text,
			why.message);
}

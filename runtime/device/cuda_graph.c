/*
 * Graphs of a step.
 *
 * The first time that an action runs, each of its kernels is launched and
 * waited for, so that a fault is reported with the kernel's name.  The second
 * time its calls are captured, and from then on they are replayed without the
 * program's function.
 *
 * Sends and receives along the pipeline are in no graph: a graph ends when all
 * that it began has ended, and waiting for a send may be waiting for a rank
 * that waits for this one.  They divide the calls of an action into parts, and
 * each part is one graph.
 *
 * Parts whose calls are the same share a graph.  What differs between
 * microbatches alone is in memory, not in arguments: inputs and pieces of the
 * microbatch are copied into a window at fixed addresses before a graph runs,
 * and results are copied from there afterwards.  So there is a graph for each
 * place in which the values of a microbatch lie, however many microbatches a
 * step has.
 *
 * NCCL demands that the graphs that ranks launch together come from one capture
 * (its user guide, "Using NCCL with CUDA Graphs"), so parts share a graph on
 * all ranks of a place in the pipeline or on none of them.
 */
#include "runtime/device/cuda_device.h"

#include <stdlib.h>
#include <string.h>

/* cuda_device.h: CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, and a graph's kernels
 * keep the priorities of the streams that they were captured on
 * (CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY). */
enum { THREAD_LOCAL = 1, KEEP_PRIORITIES = 8 };

/* What an action does with its calls. */
enum mode { PLAIN, LEARN, RECORD };

struct graph_part {
	uint64_t digest[2];	/* of its calls */
	int64_t calls;
	bool alone;		/* never shares a graph */
	/* the first part with these calls, maybe itself */
	int64_t like_tape, like_part;
	int64_t exec;		/* of rt_gpu.execs */
	struct rt_gpu_copies copies;
	/* the transfer after it; NULL: none, the action has ended */
	const struct rt_coll *transfer;
	char *at[2];
	struct rt_place place;
};

/* The calls of an action. */
struct graph_tape {
	bool ran, learned, recorded;
	struct graph_part *parts;
	int64_t nparts;
};

struct rt_gpu_graphs {
	struct graph_tape *tapes;	/* of the actions, then of the update */
	int64_t ntapes;
	bool agreed;		/* on which parts share a graph */
	bool hosted;		/* on some rank, a collective is the host's */
	/* the action that runs */
	enum mode mode;
	int64_t tape, part, microbatch;
	bool begun, skips;	/* calls of the part; they are in a graph */
	/* the operands and pieces of a call, as the graph has them */
	char *at[RT_ARGS_BYTES / 8];
	const struct rt_pieces *piece_at[RT_ARGS_BYTES / 8];
};

/* ---- digests ---- */

static uint64_t
mix(uint64_t h, uint64_t word, uint64_t by)
{
	h = (h ^ word) * by;
	h = (h ^ h >> 29) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}

static void
digest_word(struct graph_part *p, uint64_t word)
{
	p->digest[0] = mix(p->digest[0], word, 0xbf58476d1ce4e5b9u);
	p->digest[1] = mix(p->digest[1] + 1, word, 0x94d049bb133111ebu);
}

static void
digest_pointer(struct graph_part *p, const void *at)
{
	digest_word(p, (uint64_t)(uintptr_t)at);
}

/* Positions of a dim on a rank, beside where those of a first one begin: how a
 * collective runs depends on nothing else. */
static void
digest_pieces(struct graph_part *p, const struct rt_pieces *x, int64_t first)
{
	int64_t i;

	digest_word(p, (uint64_t)x->n);
	for (i = 0; i < x->n; i++) {
		digest_word(p, (uint64_t)(x->at[i].start - first));
		digest_word(p, (uint64_t)x->at[i].count);
	}
}

/* Of dims that microbatches share; those of others are the plan's. */
static void
digest_dims(const struct rt_device *d, struct graph_part *p,
	    const struct rt_coll *t, const struct rt_group *group, int64_t mb)
{
	int64_t i, r;

	for (i = 0; i < t->ndims; i++) {
		const struct rt_pieces *x = rt_pieces_of(d->plan, t->in[i],
			group->ranks[0], mb);
		int64_t first = x->n > 0 ? x->at[0].start : 0;

		for (r = 0; r < group->n && t->in[i]->by_time; r++) {
			digest_pieces(p, rt_pieces_of(d->plan, t->in[i],
				group->ranks[r], mb), first);
		}
		for (r = 0; r < group->n && t->out[i]->by_time; r++) {
			digest_pieces(p, rt_pieces_of(d->plan, t->out[i],
				group->ranks[r], mb), first);
		}
	}
}

/* ---- the calls of an action ---- */

static struct graph_part *
current_part(const struct rt_gpu_graphs *x)
{
	return &x->tapes[x->tape].parts[x->part];
}

static enum rt_status
begin_capture(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	/* a graph cannot wait for what began outside of it */
	enum rt_status status = rt_gpu_settle_received(d, err);

	if (status == RT_OK) {
		status = GPU(&g->api, capture, rt_gpu_stream(g), THREAD_LOCAL);
	}
	g->capturing = status == RT_OK;
	return status;
}

/* Before each call: *skip means that a graph has it already. */
static enum rt_status
begin_call(struct rt_device *d, bool *skip, struct rt_error *err)
{
	struct rt_gpu_graphs *x = ((struct rt_gpu *)d->self)->graphs;
	const struct graph_part *p = current_part(x);
	enum rt_status status = RT_OK;

	if (!x->begun) {
		x->begun = true;
		x->skips = x->mode == RECORD &&
			   (p->like_tape != x->tape || p->like_part != x->part);
		if (x->mode == RECORD && !x->skips) {
			status = begin_capture(d, err);
		}
	}
	*skip = x->skips;
	return status;
}

enum rt_status
rt_gpu_graph_kernel(struct rt_device *d, const struct rt_kernel *k,
		    const struct rt_grid *grid, struct rt_call *c, bool *skip,
		    struct rt_error *err)
{
	struct rt_gpu_graphs *x = ((struct rt_gpu *)d->self)->graphs;
	enum rt_status status;
	struct rt_call windowed = *c;
	struct graph_part *p;
	int64_t i;

	*skip = false;
	if (!x || x->mode == PLAIN ||
	    k->nat + k->npieces > RT_ARGS_BYTES / 8) {
		return RT_OK;
	}
	status = begin_call(d, skip, err);
	p = current_part(x);
	windowed.at = x->at;
	windowed.pieces = x->piece_at;
	digest_pointer(p, k);
	digest_pointer(p, grid);
	digest_pointer(p, c->shared);
	for (i = 0; i < k->nat && status == RT_OK; i++) {
		x->at[i] = c->at[i];
		status = rt_gpu_window_operand(d, x->microbatch, &x->at[i],
					       &p->copies, err);
		digest_pointer(p, x->at[i]);
	}
	for (i = 0; i < k->npieces && status == RT_OK; i++) {
		x->piece_at[i] = c->pieces[i];
		status = rt_gpu_window_pieces(d, x->microbatch,
					      &x->piece_at[i],
					      &p->copies, err);
		digest_pointer(p, x->piece_at[i]);
	}
	for (i = 0; i < k->nnum; i++) {
		digest_word(p, (uint64_t)c->num[i]);
	}
	p->calls++;
	if (x->mode == RECORD) {
		*c = windowed;
	}
	return status;
}

/* Input and output of a collective, in the window if they are of the
 * microbatch alone. */
static enum rt_status
window_ends(struct rt_device *d, struct graph_part *p, char **to,
	    char *const *from, struct rt_error *err)
{
	const struct rt_gpu *g = d->self;
	enum rt_status status = RT_OK;
	int i;

	for (i = 0; i < 2 && status == RT_OK; i++) {
		to[i] = from[i];
		status = rt_gpu_window_operand(d, g->graphs->microbatch,
					       &to[i], &p->copies, err);
		digest_pointer(p, to[i]);
	}
	return status;
}

enum rt_status
rt_gpu_graph_coll(struct rt_device *d, const struct rt_coll *t,
		  char *const **at, const struct rt_place *place, bool *skip,
		  struct rt_error *err)
{
	struct rt_gpu_graphs *x = ((struct rt_gpu *)d->self)->graphs;
	struct rt_group *group;
	enum rt_status status;
	struct graph_part *p;
	int64_t i;

	*skip = false;
	if (!x || x->mode == PLAIN) {
		return RT_OK;
	}
	status = begin_call(d, skip, err);
	if (status == RT_OK) {
		status = rt_group_find(d->comm, t->axes, t->holders, &group,
				       err);
	}
	p = current_part(x);
	/* ranks of other places are not asked what they share */
	p->alone = p->alone || t->holders || t->axes >> d->plan->pp & 1;
	p->calls++;
	for (i = 0; t && i < RT_MAX_JOINED && status == RT_OK;
	     t = t->next, i++) {
		digest_pointer(p, t);
		digest_dims(d, p, t, group, place->microbatch);
		status = window_ends(d, p, &x->at[2 * i], *at + 2 * i, err);
	}
	*at = x->mode == RECORD ? x->at : *at;
	return status;
}

/* ---- parts ---- */

static const struct graph_part *
shared_part(const struct rt_gpu_graphs *x, const struct graph_part *p)
{
	return &x->tapes[p->like_tape].parts[p->like_part];
}

static enum rt_status
replay_part(struct rt_device *d, const struct graph_part *p,
	    struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	enum rt_status status;

	if (p->calls == 0) {
		return RT_OK;
	}
	status = rt_gpu_settle_received(d, err);
	if (status == RT_OK) {
		status = rt_gpu_window_copy(g, &p->copies, false, err);
	}
	if (status == RT_OK) {
		status = GPU(&g->api, graph_launch,
			     g->execs[shared_part(g->graphs, p)->exec],
			     rt_gpu_stream(g));
	}
	return status == RT_OK ? rt_gpu_window_copy(g, &p->copies, true, err)
			       : status;
}

/* Its graph, which nccl.c destroys before communicators. */
static enum rt_status
keep_graph(struct rt_gpu *g, struct graph_part *p, void *graph,
	   struct rt_error *err)
{
	void **more = realloc(g->execs, (size_t)(g->nexecs + 1) * sizeof *more);
	enum rt_status status;

	if (!more) {
		return rt_no_memory(err, NULL);
	}
	g->execs = more;
	status = GPU(&g->api, instantiate, &more[g->nexecs], graph,
		     KEEP_PRIORITIES);
	p->exec = g->nexecs;
	g->nexecs += status == RT_OK;
	return status;
}

static enum rt_status
end_capture(struct rt_device *d, struct graph_part *p, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	void *graph = NULL;
	enum rt_status status = rt_gpu_settle_colls(d, err);

	if (status == RT_OK) {
		status = GPU(&g->api, end_capture, rt_gpu_stream(g), &graph);
		g->capturing = false;
	}
	if (status == RT_OK) {
		status = keep_graph(g, p, graph, err);
	}
	if (graph) {
		g->api.graph_destroy(graph);
	}
	return status;
}

static enum rt_status
begin_part(struct rt_gpu_graphs *x, struct rt_error *err)
{
	struct graph_tape *t = &x->tapes[x->tape];
	struct graph_part *more;

	x->begun = false;
	if (x->mode == RECORD && x->part < t->nparts) {
		t->parts[x->part].digest[0] = t->parts[x->part].digest[1] = 0;
		t->parts[x->part].calls = 0;
		return RT_OK;
	}
	more = realloc(t->parts, (size_t)(x->part + 1) * sizeof *more);
	if (!more) {
		return rt_no_memory(err, NULL);
	}
	t->parts = more;
	t->nparts = x->part + 1;
	t->parts[x->part] = (struct graph_part){ .like_tape = x->tape,
					   .like_part = x->part };
	return RT_OK;
}

static enum rt_status
end_part(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_gpu_graphs *x = g->graphs;
	struct graph_part *p = current_part(x);
	const struct graph_part *like = shared_part(x, p);
	enum rt_status status = RT_OK;

	if (x->mode == LEARN) {
		return RT_OK;
	}
	if (g->capturing) {
		status = end_capture(d, p, err);
	} else if (p->calls > 0 &&
		   (memcmp(p->digest, like->digest, sizeof p->digest) != 0 ||
		    p->calls != like->calls)) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the calls of an "
			"action are not those of the step before");
	}
	return status == RT_OK ? replay_part(d, p, err) : status;
}

enum rt_status
rt_gpu_graph_transfer(struct rt_device *d, const struct rt_coll *t,
		      char *const *at, const struct rt_place *place,
		      struct rt_error *err)
{
	struct rt_gpu_graphs *x = ((struct rt_gpu *)d->self)->graphs;
	enum rt_status status;
	struct graph_part *p;

	if (!x || x->mode == PLAIN) {
		return RT_OK;
	}
	status = end_part(d, err);
	p = current_part(x);
	p->transfer = t;
	p->at[0] = at[0];
	p->at[1] = at[1];
	p->place = *place;
	x->part++;
	return status == RT_OK ? begin_part(x, err) : status;
}

/* ---- actions ---- */

static enum rt_status
replay(struct rt_device *d, const struct graph_tape *t, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < t->nparts && status == RT_OK; i++) {
		const struct graph_part *p = &t->parts[i];

		status = replay_part(d, p, err);
		if (status == RT_OK && p->transfer) {
			status = rt_gpu_coll(d, p->transfer, p->at, &p->place,
					     err);
		}
	}
	return status;
}

/* The same on all ranks, since they agree on their graphs together. */
static bool
may_keep(const struct rt_device *d)
{
	const struct rt_gpu *g = d->self;

	return !d->options->no_graph && !d->timed && !g->staged &&
	       !g->graphs->hosted;
}

enum rt_status
rt_gpu_graph_enter(struct rt_device *d, int64_t action, int64_t microbatch,
		   bool *done, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_gpu_graphs *x = g->graphs;
	struct graph_tape *t = &x->tapes[action];

	*done = false;
	x->mode = !may_keep(d) ? PLAIN : !t->learned ? LEARN : RECORD;
	g->eager = !d->timed && (x->mode == LEARN || !t->ran);
	t->ran = true;
	if (x->mode == RECORD && t->recorded) {
		x->mode = PLAIN;
		*done = true;
		return replay(d, t, err);
	}
	x->tape = action;
	x->part = 0;
	x->microbatch = microbatch;
	return x->mode == PLAIN ? RT_OK : begin_part(x, err);
}

enum rt_status
rt_gpu_graph_leave(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_gpu_graphs *x = g->graphs;
	struct graph_tape *t = &x->tapes[x->tape];
	enum rt_status status = x->mode == PLAIN ? RT_OK : end_part(d, err);

	t->learned = t->learned || x->mode == LEARN;
	t->recorded = t->recorded || x->mode == RECORD;
	x->mode = PLAIN;
	g->eager = false;
	return status;
}

/* ---- which parts share a graph ---- */

/* Finds the first part of the actions with the same calls. */
static void
find_like(struct rt_gpu_graphs *x, struct graph_part *p)
{
	int64_t i, j;

	for (i = 0; i < x->ntapes - 1; i++) {
		for (j = 0; j < x->tapes[i].nparts; j++) {
			const struct graph_part *q = &x->tapes[i].parts[j];

			if (q == p) {
				return;
			}
			if (!q->alone && q->calls == p->calls &&
			    memcmp(q->digest, p->digest,
				   sizeof p->digest) == 0) {
				p->like_tape = i;
				p->like_part = j;
				return;
			}
		}
	}
}

/*
 * Undoes what not all ranks of this place share.  Over n ranks, n times the sum
 * of squares is the square of the sum only if all numbers are the same; both
 * are whole numbers below 2^53.
 */
static enum rt_status
agree(struct rt_device *d, struct graph_part **parts, int64_t n,
      struct rt_error *err)
{
	double *sums = calloc((size_t)(4 * n + 1), sizeof *sums);
	int64_t axes = 0, i, a;
	enum rt_status status;

	for (a = 1; a < d->plan->naxes; a++) {
		axes |= a == d->plan->pp || a == d->plan->time ? 0
			: (int64_t)1 << a;
	}
	if (!sums) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n; i++) {
		double v[2] = { (double)parts[i]->like_tape,
				(double)parts[i]->like_part };

		sums[4 * i] = v[0];
		sums[4 * i + 1] = v[0] * v[0];
		sums[4 * i + 2] = v[1];
		sums[4 * i + 3] = v[1] * v[1];
	}
	sums[4 * n] = 1;
	status = rt_comm_sum_f64(d->comm, axes, sums, 4 * n + 1, err);
	for (i = 0; i < 2 * n && status == RT_OK; i++) {
		if (sums[4 * n] * sums[2 * i + 1] !=
		    sums[2 * i] * sums[2 * i]) {
			parts[i / 2]->alone = true;
		}
	}
	free(sums);
	return status;
}

static struct graph_part **
list_parts(struct rt_gpu_graphs *x, int64_t *n)
{
	struct graph_part **list;
	int64_t i, j;

	for (i = *n = 0; i < x->ntapes - 1; i++) {
		*n += x->tapes[i].nparts;
	}
	list = calloc((size_t)*n + 1, sizeof *list);
	for (i = *n = 0; list && i < x->ntapes - 1; i++) {
		for (j = 0; j < x->tapes[i].nparts; j++) {
			list[(*n)++] = &x->tapes[i].parts[j];
		}
	}
	return list;
}

/*
 * A collective that goes through the host cannot be captured.  Groups differ in
 * whether theirs does, and no rank keeps graphs if any group has one: NCCL
 * demands that a collective is captured by all ranks or by none.
 */
static enum rt_status
agree_on_host(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	uint64_t hosted = g->hosted;
	enum rt_status status = d->plan->nranks > 1
		? rt_comm_sum_u64(d->comm, &hosted, 1, err) : RT_OK;

	g->graphs->hosted = hosted > 0;
	return status;
}

/* After the first step in which all actions of all ranks were learned. */
enum rt_status
rt_gpu_graph_agree(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu_graphs *x = ((struct rt_gpu *)d->self)->graphs;
	enum rt_status status;
	struct graph_part **list;
	int64_t n, i, j;

	if (x->agreed || !may_keep(d) || !x->tapes[0].learned) {
		return RT_OK;
	}
	x->agreed = true;
	status = agree_on_host(d, err);
	if (status != RT_OK || x->hosted) {
		return status;
	}
	list = list_parts(x, &n);
	if (!list) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n; i++) {
		if (!list[i]->alone) {
			find_like(x, list[i]);
		}
	}
	if (d->plan->nranks > 1) {
		status = agree(d, list, n, err);
	}
	for (i = 0; i < x->ntapes - 1; i++) {
		for (j = 0; j < x->tapes[i].nparts; j++) {
			if (x->tapes[i].parts[j].alone) {
				x->tapes[i].parts[j].like_tape = i;
				x->tapes[i].parts[j].like_part = j;
			}
		}
	}
	free(list);
	return status;
}

/* ---- life ---- */

enum rt_status
rt_gpu_graphs_open(struct rt_device *d, struct rt_error *err)
{
	struct rt_gpu *g = d->self;
	struct rt_gpu_graphs *x = g->graphs;

	if (x) {
		return RT_OK;
	}
	g->graphs = x = calloc(1, sizeof *x);
	if (!x) {
		return rt_no_memory(err, NULL);
	}
	x->ntapes = d->program->nactions + 1;
	x->tapes = calloc((size_t)x->ntapes, sizeof *x->tapes);
	if (!x->tapes) {
		return rt_no_memory(err, NULL);
	}
	return rt_gpu_window_open(d, err);
}

void
rt_gpu_graphs_close(struct rt_gpu *g)
{
	struct rt_gpu_graphs *x = g->graphs;
	int64_t i, j;

	rt_gpu_window_close(g);
	for (i = 0; x && x->tapes && i < x->ntapes; i++) {
		for (j = 0; j < x->tapes[i].nparts; j++) {
			free(x->tapes[i].parts[j].copies.at);
		}
		free(x->tapes[i].parts);
	}
	if (x) {
		free(x->tapes);
		free(x);
	}
	g->graphs = NULL;
}

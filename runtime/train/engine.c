/*
 * The engine of a plan that serves: a step is the forward of its program, of
 * the smallest size that holds it.  Rank 0 decides what is in it and sends that
 * to all ranks; the logits come back from the lowest rank that has them.  Along
 * the axis dp ranks are alike, but what is in their steps is not: they are
 * replicas, and compute one step each at a time.
 *
 * Of a pipeline as many steps may be in flight as it has stages.  Messages
 * between rank 0 and others wait in queues, so that a rank goes on with the
 * next step once it has computed its part of one.  All ranks compute steps in
 * the order in which they began, and a rank one at a time: what a stage finds
 * in its cache is what the steps before have left there, as if each had ended.
 * What a stage sends to the next stays in its arena until that has received it,
 * which the stage waits for before its next step: so steps in flight need no
 * more memory of a device than one.
 *
 * The first block of the cache belongs to no sequence: positions of a step that
 * are left over write there.
 */
#include "runtime/train/engine.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK RT_SERVED_BLOCK
/* Where a sequence's keys begin: attention takes so many keys at a time. */
#define ALIGN 128
enum { STEP_ENDS = -1 };	/* positions of the step after the last */

/* What all ranks need of a step, as it goes from rank 0 to the others. */
struct wire {
	int64_t *head;
	int64_t n, nkeys, nrows, size;
	int32_t *token, *position, *slot, *first, *last;	/* [tokens] */
	int32_t *row, *key;		/* [rows], [keys] */
};

/* Numbers of a wire before its arrays: n, nkeys, nrows, size. */
enum { HEAD = RT_SERVED_HEAD };

static const char step_text[] = "what is in a step";
static const char logits_text[] = "the logits of a step";

/* The program of a step of at most so many positions and logits. */
struct size {
	const struct rt_plan *plan;
	int64_t tokens, rows;
	const struct rt_port *logits;	/* on the rank that shows them */
	struct rt_device device;	/* the run's, but for the largest */
	struct rt_run *run;
};

struct rt_plan_engine {
	struct rt_run *r;	/* of the largest size */
	struct rt_engine e;
	struct rt_served sizes;		/* of the largest */
	struct size *size;	/* ascending */
	int64_t nsizes;
	int64_t shows;	/* the lowest rank that has logits, of replica 0 */
	int64_t replicas, dp;	/* dp: the axis that they are along, or 0 */
	int64_t mine;		/* the replica of this rank */
	struct wire w;		/* of the step that is being begun */
	int64_t wire_bytes;
	/* on the rank that shows logits of its replica, [rows][vocab]: in
	 * their type, and for rank 0, if that is another one */
	char *values;
	float *floats;
	/* on rank 0: steps that began and ended, and how many logits each in
	 * flight has, [step][replica], as a ring */
	int64_t begun, ended, *nrows;
};

/* ---- its sizes ---- */

static const struct rt_port *
find_port(const struct rt_plan *p, const char *name)
{
	const struct rt_port *port = NULL;
	int64_t i;

	for (i = 0; i < p->nprograms && !port; i++) {
		port = rt_find_input(&p->programs[i], name);
	}
	return port;
}

/* Logits of rows are in the lowest rank that has any. */
static const struct rt_port *
find_logits(const struct rt_plan *p, int64_t *rank)
{
	const struct rt_port *logits = NULL;
	int64_t i;

	for (i = p->nranks - 1; i >= 0; i--) {
		const struct rt_program *q = &p->programs[p->program_of[i]];

		if (q->nresults > 0) {
			*rank = i;
			logits = &q->results[0];
		}
	}
	return logits;
}

static int64_t
port_size(const struct rt_plan *p, const char *name)
{
	return find_port(p, name)->dims[0]->size;
}

static struct rt_served
sizes_of(const struct rt_plan *p)
{
	return (struct rt_served){ .tokens = port_size(p, "tokens"),
		.rows = port_size(p, "row"), .keys = port_size(p, "key"),
		.slots = find_port(p, "slot")->below,
		.vocab = find_port(p, "tokens")->below,
		.stages = p->npipes, .ranks = p->nranks };
}

struct rt_queues
rt_plan_engine_queues(const struct rt_plan *p)
{
	struct rt_served s;

	if (p->context <= 0) {
		return (struct rt_queues){ 0 };
	}
	s = sizes_of(p);
	return rt_served_queues(&s);
}

static void
find_bounds(struct rt_plan_engine *x)
{
	x->sizes = sizes_of(x->r->plan);
	x->e.tokens = x->sizes.tokens;
	x->e.vocab = x->sizes.vocab;
	x->e.rows = x->sizes.rows;
	x->e.keys = x->sizes.keys;
	x->e.block = BLOCK;
	x->e.align = ALIGN;
	x->e.blocks = rt_served_blocks(x->sizes.slots);
	x->e.context = x->r->plan->context;
}

static void
find_replicas(struct rt_plan_engine *x)
{
	const struct rt_plan *p = x->r->plan;
	int64_t at[RT_MAX_AXES + 1], a;

	rt_mesh_at(p, x->r->rank, at);
	x->replicas = 1;
	for (a = 1; a < p->naxes; a++) {
		if (strcmp(p->axes[a].name, "dp") == 0) {
			x->dp = a;
			x->replicas = p->axes[a].size;
			x->mine = at[a];
		}
	}
	x->e.replicas = x->replicas;
}

/* The replica of a rank. */
static int64_t
replica_of(const struct rt_plan_engine *x, int64_t rank)
{
	int64_t at[RT_MAX_AXES + 1];

	rt_mesh_at(x->r->plan, rank, at);
	return x->dp ? at[x->dp] : 0;
}

/* The rank of replica i that shows logits. */
static int64_t
shower(const struct rt_plan_engine *x, int64_t i)
{
	int64_t at[RT_MAX_AXES + 1];

	rt_mesh_at(x->r->plan, x->shows, at);
	if (x->dp) {
		at[x->dp] = i;
	}
	return rt_mesh_number(x->r->plan, at);
}

/* Size i; the last is that of the run. */
static enum rt_status
open_size(struct rt_plan_engine *x, int64_t i, struct rt_error *err)
{
	const struct rt_plan *whole = x->r->plan;
	bool is_largest = i == whole->nsizes;
	struct size *s = &x->size[i];
	enum rt_status status;

	s->plan = is_largest ? whole : whole->sizes[i];
	s->tokens = find_port(s->plan, "tokens")->dims[0]->size;
	s->rows = find_port(s->plan, "row")->dims[0]->size;
	s->logits = find_logits(s->plan, &x->shows);
	if (is_largest) {
		s->run = x->r;
		return RT_OK;
	}
	status = rt_device_beside(&s->device, x->r->device, s->plan,
				  x->r->rank, err);
	return status == RT_OK
		? rt_run_open(&s->run, s->plan, x->r->rank, &s->device,
			      x->r->env.seed, err) : status;
}

static enum rt_status
open_sizes(struct rt_plan_engine *x, struct rt_error *err)
{
	int64_t n = x->r->plan->nsizes + 1, i;
	enum rt_status status = RT_OK;

	x->size = calloc((size_t)n, sizeof *x->size);
	if (!x->size) {
		return rt_no_memory(err, NULL);
	}
	x->nsizes = n;
	for (i = 0; i < n && status == RT_OK; i++) {
		status = open_size(x, i, err);
	}
	return status;
}

static void
close_sizes(struct rt_plan_engine *x)
{
	int64_t i;

	for (i = 0; i + 1 < x->nsizes; i++) {
		rt_run_free(x->size[i].run);
		x->size[i].device.failed = x->r->device->failed;
		rt_device_close(&x->size[i].device);
	}
	free(x->size);
}

static bool
get_room(struct rt_plan_engine *x)
{
	struct rt_queues q = rt_served_queues(&x->sizes);
	int64_t t = x->e.tokens;
	int64_t *head;
	int32_t *at;

	x->wire_bytes = q.down_bytes;
	head = calloc(1, (size_t)x->wire_bytes);
	x->nrows = calloc((size_t)(x->e.in_flight * x->replicas),
			  sizeof *x->nrows);
	x->w.head = head;
	if (!head || !x->nrows) {
		return false;
	}
	at = (int32_t *)(void *)(head + HEAD);
	x->w = (struct wire){ head, 0, 0, 0, 0, at, at + t, at + 2 * t,
		at + 3 * t, at + 4 * t, at + 5 * t, at + 5 * t + x->e.rows };
	if (x->r->rank != shower(x, x->mine)) {
		return true;
	}
	x->values = calloc(RT_SERVED_LOGITS - 1, (size_t)q.up_bytes);
	if (x->r->rank == 0) {
		return x->values;
	}
	x->floats = calloc(1, (size_t)q.up_bytes);
	return x->values && x->floats;
}

/* ---- inputs ---- */

static void
put_float(int32_t *to, int64_t n)
{
	float f = (float)n;

	memcpy(to, &f, sizeof f);
}

/* The position of each key: those of a sequence follow each other. */
static void
put_key_positions(const struct wire *w, int32_t *to)
{
	int64_t i;

	for (i = 0; i < w->n; i++) {
		int32_t k = w->first[i];

		/* the last position of a sequence has all of its keys */
		if (i + 1 < w->n && w->first[i + 1] == k) {
			continue;
		}
		for (; k <= w->last[i]; k++) {
			put_float(&to[k], w->position[i] - (w->last[i] - k));
		}
	}
}

/* Element i of an input. */
static void
put_input(const struct wire *w, const char *name, int64_t size, int32_t *to)
{
	static const struct {
		const char *name;
		size_t at;
		bool is_float;
	} kinds[] = {
		{ "tokens", offsetof(struct wire, token), false },
		{ "position", offsetof(struct wire, position), false },
		{ "positions", offsetof(struct wire, position), true },
		{ "slot", offsetof(struct wire, slot), false },
		{ "key", offsetof(struct wire, key), false },
		{ "first", offsetof(struct wire, first), true },
		{ "last", offsetof(struct wire, last), true },
		{ "row", offsetof(struct wire, row), false },
	};
	size_t k = 0, n = sizeof kinds / sizeof *kinds;
	const int32_t *from;
	int64_t i;

	while (k < n && strcmp(kinds[k].name, name) != 0) {
		k++;
	}
	memset(to, 0, (size_t)size * sizeof *to);
	if (k == n) {
		if (strcmp(name, "key_positions") == 0) {
			put_key_positions(w, to);
		}
		return;
	}
	memcpy(&from, (const char *)w + kinds[k].at, sizeof from);
	for (i = 0; i < size; i++) {
		if (kinds[k].is_float) {
			put_float(&to[i], from[i]);
		} else {
			to[i] = from[i];
		}
	}
}

static enum rt_status
fill_inputs(struct rt_plan_engine *x, struct rt_run *r, struct rt_error *err)
{
	const struct rt_program *p = r->program;
	enum rt_status status = RT_OK;
	int64_t i, size;
	int32_t *to;

	for (i = 0; i < p->ninputs && status == RT_OK; i++) {
		const struct rt_port *in = &p->inputs[i];

		size = in->dims[0]->size;
		status = rt_feed_staging(r, in->offset,
					 size * (int64_t)sizeof *to, &to, err);
		if (status == RT_OK) {
			put_input(&x->w, in->name, size, to);
		}
		if (status == RT_OK && !r->device->host) {
			status = r->device->kind->write(r->device,
				in->offset, (const char *)to,
				size * (int64_t)sizeof *to, err);
		}
	}
	return status;
}

/* ---- a step, on every rank ---- */

/* Numbers that become floats, in pieces. */
struct widening {
	const char *from;
	enum rt_elem elem;
	float *to;
	int64_t n;
};

#define PIECE (1 << 11)

static void
widen_some(void *user, int64_t worker, int64_t from, int64_t to)
{
	const struct widening *w = user;
	int64_t n;

	(void)worker;
	from *= PIECE;
	n = (to * PIECE < w->n ? to * PIECE : w->n) - from;
	rt_elems_convert(rt_elem_dtype(w->elem),
			 w->from + from * rt_elem_bytes(w->elem),
			 RT_ELEM_F32, w->to + from, n);
}

/* On the rank that has them: the logits of its last step as floats. */
static enum rt_status
read_logits(struct rt_plan_engine *x, float *to, struct rt_error *err)
{
	const struct size *s = &x->size[x->w.size];
	struct widening w = { .elem = (enum rt_elem)s->logits->elem,
			      .to = to, .n = x->w.nrows * x->e.vocab };
	enum rt_status status;

	status = rt_device_view(s->run->device, s->logits->offset,
				w.n * rt_elem_bytes(w.elem), x->values,
				&w.from, err);
	if (status == RT_OK) {
		rt_workers_run(x->r->workers, widen_some, &w,
			       (w.n + PIECE - 1) / PIECE);
	}
	return status;
}

/* Rank 0 reads its own when the step ends. */
static enum rt_status
send_logits(struct rt_plan_engine *x, struct rt_error *err)
{
	int64_t n = x->w.nrows * x->e.vocab;
	enum rt_status status;

	if (n == 0 || x->r->rank == 0 || x->r->rank != shower(x, x->mine)) {
		return RT_OK;
	}
	status = read_logits(x, x->floats, err);
	return status != RT_OK ? status
		: rt_comm_send_queued(x->r->comm, logits_text, 0, x->floats,
				      n * (int64_t)sizeof *x->floats, err);
}

/*
 * Steps use one memory, of which the next stage may still read what the last
 * one sent: whether it was of this size or of another.
 */
static enum rt_status
compute(struct rt_plan_engine *x, struct rt_error *err)
{
	struct rt_run *r = x->size[x->w.size].run;
	enum rt_status status = RT_OK;

	if (x->r->plan->npipes > 1) {
		status = rt_comm_settle(x->r->comm, "what a stage has sent",
					err);
	}
	if (status == RT_OK) {
		status = fill_inputs(x, r, err);
	}
	if (status == RT_OK) {
		status = rt_run_forward(r, NULL, err);
	}
	/* who waits for another rank's message helps no collective along */
	if (status == RT_OK && r->device->kind->wait) {
		status = r->device->kind->wait(r->device, err);
	}
	return status == RT_OK ? send_logits(x, err) : status;
}

/* ---- rank 0 ---- */

static void
pad(int32_t *to, int64_t from, int64_t n, int32_t with)
{
	int64_t i;

	for (i = from; i < n; i++) {
		to[i] = with;
	}
}

/* The smallest that holds the step. */
static int64_t
choose_size(const struct rt_plan_engine *x, const struct rt_serve_step *s)
{
	int64_t i = 0;

	while (x->size[i].tokens < s->n || x->size[i].rows < s->nrows) {
		i++;
	}
	return i;
}

static void
pack(struct rt_plan_engine *x, struct wire *w, const struct rt_serve_step *s)
{
	int64_t size = choose_size(x, s), t = x->size[size].tokens, i;

	w->head[0] = s->n;
	w->head[1] = s->nkeys;
	w->head[2] = s->nrows;
	w->head[3] = size;
	for (i = 0; i < s->n; i++) {
		w->token[i] = s->token[i];
		w->position[i] = s->position[i];
		w->slot[i] = s->slot[i] + BLOCK;
		w->first[i] = s->first[i];
		w->last[i] = s->last[i];
	}
	for (i = 0; i < s->nkeys; i++) {
		w->key[i] = s->key[i] + BLOCK;
	}
	for (i = 0; i < s->nrows; i++) {
		w->row[i] = s->row[i];
	}
	pad(w->token, s->n, t, 0);
	pad(w->position, s->n, t, 0);
	pad(w->slot, s->n, t, 0);
	pad(w->first, s->n, t, 0);
	pad(w->last, s->n, t, 0);
	pad(w->key, s->nkeys, x->e.keys, 0);
	pad(w->row, s->nrows, x->size[size].rows, 0);
}

/* Sends what `w` has to all other ranks of a replica; to those of all: -1. */
static enum rt_status
send_step(struct rt_plan_engine *x, int64_t replica, struct rt_error *err)
{
	int64_t bytes = rt_served_step_bytes(&x->sizes, x->w.head[1]), r;
	enum rt_status status = RT_OK;

	for (r = 1; r < x->r->plan->nranks && status == RT_OK; r++) {
		if (replica < 0 || replica_of(x, r) == replica) {
			status = rt_comm_send_queued(x->r->comm, step_text, r,
						     x->w.head, bytes, err);
		}
	}
	return status;
}

static void
read_head(struct wire *w)
{
	w->n = w->head[0];
	w->nkeys = w->head[1];
	w->nrows = w->head[2];
	w->size = w->head[3];
}

/* The replica of rank 0 is the first, and its part is computed last, once all
 * others can begin. */
static enum rt_status
begin(void *user, const struct rt_serve_step *s, struct rt_error *err)
{
	struct rt_plan_engine *x = user;
	int64_t *nrows = x->nrows + x->begun++ % x->e.in_flight * x->replicas;
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = x->replicas - 1; i >= 0 && status == RT_OK; i--) {
		nrows[i] = s[i].nrows;
		pack(x, &x->w, &s[i]);
		status = send_step(x, i, err);
	}
	read_head(&x->w);
	return status == RT_OK && x->w.n > 0 ? compute(x, err) : status;
}

static enum rt_status
end(void *user, float *logits, struct rt_error *err)
{
	struct rt_plan_engine *x = user;
	const int64_t *nrows = x->nrows + x->ended++ % x->e.in_flight *
			       x->replicas;
	enum rt_status status = RT_OK;
	int64_t i, from, bytes, got;

	for (i = 0; i < x->replicas && status == RT_OK; i++) {
		float *at = logits + i * x->e.rows * x->e.vocab;

		bytes = nrows[i] * x->e.vocab * (int64_t)sizeof *at;
		from = shower(x, i);
		if (bytes > 0 && from == 0) {
			status = read_logits(x, at, err);
		} else if (bytes > 0) {
			status = rt_comm_receive_queued(x->r->comm,
				logits_text, from, at, bytes, &got, err);
		}
	}
	return status;
}

enum rt_status
rt_plan_engine_pulse(struct rt_plan_engine *x, bool last, struct rt_error *err)
{
	memset(x->w.head, 0, HEAD * sizeof *x->w.head);
	x->w.head[0] = last ? STEP_ENDS : 0;
	return send_step(x, -1, err);
}

static enum rt_status
idle(void *user, struct rt_error *err)
{
	return rt_plan_engine_pulse(user, false, err);
}

const struct rt_engine *
rt_plan_engine_of(const struct rt_plan_engine *x)
{
	return &x->e;
}

/* ---- the other ranks ---- */

static enum rt_status
receive_step(struct rt_plan_engine *x, struct rt_error *err)
{
	enum rt_status status;
	int64_t bytes;

	status = rt_comm_receive_queued(x->r->comm, step_text, 0, x->w.head,
					x->wire_bytes, &bytes, err);
	read_head(&x->w);
	pad(x->w.key, x->w.nkeys, x->e.keys, 0);
	return status;
}

/* A step without positions is one by which rank 0 says that it is there. */
enum rt_status
rt_plan_engine_follow(struct rt_plan_engine *x, struct rt_error *err)
{
	enum rt_status status = receive_step(x, err);

	while (status == RT_OK && x->w.n != STEP_ENDS) {
		status = x->w.n > 0 ? compute(x, err) : RT_OK;
		if (status == RT_OK) {
			status = receive_step(x, err);
		}
	}
	return status;
}

/* ---- life ---- */

/* As many as were asked for, 0: as there are stages. */
static void
find_in_flight(struct rt_plan_engine *x, int64_t asked)
{
	int64_t most = x->r->plan->npipes;

	find_logits(x->r->plan, &x->shows);
	/* rank 0 keeps those of its last step */
	most = x->shows == 0 ? 1 : most;
	x->e.in_flight = asked && asked < most ? asked : most;
}

enum rt_status
rt_plan_engine_open(struct rt_plan_engine **out, struct rt_run *r,
		    int64_t in_flight, struct rt_error *err)
{
	struct rt_plan_engine *x = calloc(1, sizeof *x);

	*out = x;
	if (!x) {
		return rt_no_memory(err, NULL);
	}
	x->r = r;
	find_bounds(x);
	find_replicas(x);
	x->e.user = x;
	x->e.begin = begin;
	x->e.end = end;
	x->e.idle = r->plan->nranks > 1 ? idle : NULL;
	find_in_flight(x, in_flight);
	return get_room(x) ? open_sizes(x, err) : rt_no_memory(err, NULL);
}

void
rt_plan_engine_close(struct rt_plan_engine *x)
{
	if (x) {
		close_sizes(x);
		free(x->w.head);
		free(x->nrows);
		free(x->values);
		free(x->floats);
		free(x);
	}
}

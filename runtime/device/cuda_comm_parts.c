/*
 * Collectives for which NCCL has no call of its own, as all-to-alls, and pieces
 * that are uneven or not contiguous.
 *
 * A part is the overlap of what one rank has and what another one wants, in the
 * order of the latter.  Contiguous parts are sent from where they are; others
 * are packed into the plan's scratch before the call, or unpacked from it
 * after, by two functions of services.cu, on the collective's stream.  So one
 * collective uses the scratch at a time; comm_parts.c computes its size.
 *
 * Where all parts are alike, NCCL's all-gather or reduce-scatter works on
 * packed parts; else each part is sent to the rank that wants it, and sums are
 * made here, in the order of ranks.
 */
#include "runtime/device/cuda_device.h"

#include <string.h>

#include "runtime/device/this_machine.h"

/* As in services.cu. */
enum { MOVE_BOXES = 16, MOVE_NUMS = 179, FOLD_PARTS = 128, FOLD_NUMS = 132 };
enum { THREADS = 256, MOST_BLOCKS = 1024 };

/* A collective that is being run. */
struct in_coll {
	struct rt_device *d;
	const struct rt_nccl_comm *c;
	const struct rt_group *g;
	const struct rt_coll *t;
	char *in, *out;
	int64_t mb, bytes;	/* of an element */
	int64_t used;		/* of the scratch */
	struct rt_overlap part;	/* the current part */
};

/* ---- parts ---- */

static void
find_part(const struct rt_device *d, const struct rt_coll *t, int64_t from,
	  int64_t to, int64_t mb, struct rt_overlap *x)
{
	const struct rt_pieces *in[RT_MAX_DIMS], *out[RT_MAX_DIMS];

	rt_coll_pieces(d->plan, t, t->in, from, mb, in);
	rt_coll_pieces(d->plan, t, t->out, to, mb, out);
	rt_overlap(in, out, t->ndims, x);
}

static int64_t
part_elems(const struct rt_overlap *x, int layout)
{
	int64_t n = 1, i;

	for (i = 0; i < x->ndims; i++) {
		n *= x->size[i][layout];
	}
	return n;
}

/* Elements before a dense part. */
static int64_t
part_begin(const struct rt_overlap *x, int layout)
{
	int64_t at = 0, i;

	for (i = 0; i < x->ndims; i++) {
		at = at * x->size[i][layout] + x->runs[i][0].at[layout];
	}
	return at;
}

/* ---- boxes ---- */

/* Dims from the outermost; neighbours that are whole on both sides are
 * merged. */
struct boxes {
	int64_t ndims, nruns[RT_MAX_DIMS], stride[RT_MAX_DIMS][2];
	struct rt_overlap_run runs[RT_MAX_DIMS][RT_MAX_PIECES * RT_MAX_PIECES];
};

static void
add_dim(struct boxes *b, const struct rt_overlap *x, int64_t dim,
	const int64_t stride[2], int64_t unit)
{
	int64_t at = RT_MAX_DIMS - ++b->ndims, i;
	int k;

	b->nruns[at] = x->nruns[dim];
	for (i = 0; i < x->nruns[dim]; i++) {
		struct rt_overlap_run *r = &b->runs[at][i];

		*r = x->runs[dim][i];
		for (k = 0; k < RT_LAYOUTS; k++) {
			r->at[k] *= unit;
		}
		r->n *= unit;
	}
	memcpy(b->stride[at], stride, sizeof b->stride[at]);
}

/* Finds the boxes between two layouts; the last dims of `b` are in use. */
static void
find_boxes(const struct rt_overlap *x, int from, int to, int64_t bytes,
	   struct boxes *b)
{
	int64_t stride[2] = { bytes, bytes }, unit = 1, d;

	b->ndims = 0;
	for (d = x->ndims - 1; d >= 0; d--) {
		const int64_t *size = x->size[d];

		if (d > 0 && x->nruns[d] == 1 &&
		    size[from] == size[RT_PACKED] &&
		    size[to] == size[RT_PACKED]) {
			unit *= size[RT_PACKED];
			continue;
		}
		add_dim(b, x, d, stride, unit);
		stride[0] *= size[from] * unit;
		stride[1] *= size[to] * unit;
		unit = 1;
	}
	if (x->ndims == 0) {
		static const struct rt_overlap one = {
			.nruns = { 1 }, .runs = { { { { 0, 0, 0 }, 1 } } }
		};

		add_dim(b, &one, 0, stride, 1);
	}
}

/* The largest unit of bytes that divides all extents and addresses. */
static int64_t
unit_of(const struct boxes *b, const char *from, const char *to, int i,
	int j, int64_t bytes)
{
	uint64_t all = (uintptr_t)from | (uintptr_t)to | 16;
	int64_t d, k;

	for (d = RT_MAX_DIMS - b->ndims; d < RT_MAX_DIMS; d++) {
		bool last = d == RT_MAX_DIMS - 1;

		for (k = 0; k < b->nruns[d]; k++) {
			const struct rt_overlap_run *r = &b->runs[d][k];

			all |= (uint64_t)(r->at[i] * b->stride[d][0]);
			all |= (uint64_t)(r->at[j] * b->stride[d][1]);
			all |= (uint64_t)(last ? r->n * bytes : 0);
		}
		all |= (uint64_t)(last ? 0 : b->stride[d][0] | b->stride[d][1]);
	}
	return (int64_t)(all & -all);
}

/* ---- the two functions ---- */

/* The services are in the last image of a plan. */
static void
make_grid(const struct rt_device *d, const char *func, struct rt_grid *out)
{
	*out = (struct rt_grid){ .image = d->plan->images->n - 1,
		.func = func, .blocks = { 1, 1, 1 }, .threads = THREADS,
		.cluster = 1 };
}

static enum rt_status
launch_service(struct in_coll *x, struct rt_grid *grid, const char *func,
	       char **at, int64_t nat, const int64_t *num, int64_t nnum,
	       int64_t threads, struct rt_error *err)
{
	struct rt_kernel k = { .what = func, .nat = nat, .nnum = nnum };
	struct rt_call c = { .at = at, .num = num };
	int64_t blocks = (threads + THREADS - 1) / THREADS;

	if (!grid->func) {
		make_grid(x->d, func, grid);
	}
	grid->blocks[0] = blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
	return rt_gpu_launch(x->d, &k, grid, &c, x->c->stream, err);
}

struct part_move {
	struct boxes b;
	int64_t num[MOVE_NUMS], threads, unit;
	char *at[2];
};

static enum rt_status
move_some(struct in_coll *x, struct part_move *m, struct rt_error *err)
{
	struct rt_gpu *g = x->d->self;
	enum rt_status status;

	if (m->num[2] == 0) {
		return RT_OK;
	}
	status = launch_service(x, &g->move, "move", m->at, 2, m->num,
				MOVE_NUMS, m->threads, err);
	m->num[2] = m->threads = 0;
	return status;
}

/* Appends the k-th box, in the order of runs. */
static int64_t
append_box(struct part_move *m, int64_t k, int from, int to, int64_t bytes)
{
	const struct boxes *b = &m->b;
	int64_t *w = &m->num[19 + 10 * m->num[2]++], d, n = 1;

	w[0] = w[1] = 0;
	for (d = b->ndims - 1; d >= 0; d--) {
		int64_t at = RT_MAX_DIMS - b->ndims + d;
		const struct rt_overlap_run *r = &b->runs[at][k % b->nruns[at]];

		k /= b->nruns[at];
		w[0] += r->at[from] * b->stride[at][0];
		w[1] += r->at[to] * b->stride[at][1];
		w[2 + d] = d == b->ndims - 1 ? r->n * bytes / m->unit : r->n;
		n *= w[2 + d];
	}
	return n;
}

/* Moves the current part from one layout, at a, to another, at b. */
static enum rt_status
move_part(struct in_coll *x, int from, int to, char *a, char *b,
	  struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct part_move m = { .at = { a, b } };
	int64_t n = 1, k, d, work;

	find_boxes(&x->part, from, to, x->bytes, &m.b);
	m.unit = unit_of(&m.b, a, b, from, to, x->bytes);
	m.num[0] = m.unit;
	m.num[1] = m.b.ndims;
	for (d = 0; d < m.b.ndims; d++) {
		int64_t at = RT_MAX_DIMS - m.b.ndims + d;
		bool last = d == m.b.ndims - 1;

		n *= m.b.nruns[at];
		m.num[3 + d] = last ? m.unit : m.b.stride[at][0];
		m.num[11 + d] = last ? m.unit : m.b.stride[at][1];
	}
	for (k = 0; k < n && status == RT_OK; k++) {
		work = append_box(&m, k, from, to, x->bytes);
		m.threads = work > m.threads ? work : m.threads;
		if (m.num[2] == MOVE_BOXES) {
			status = move_some(x, &m, err);
		}
	}
	return status == RT_OK ? move_some(x, &m, err) : status;
}

static enum rt_status
fold_parts(struct in_coll *x, char *const *parts, int64_t elems,
	   struct rt_error *err)
{
	int64_t num[FOLD_NUMS] = { x->t->elem, x->t->op == RT_COLL_MAX, elems,
				   x->g->n }, i;
	struct rt_gpu *g = x->d->self;

	for (i = 0; i < x->g->n; i++) {
		num[4 + i] = (int64_t)(uintptr_t)parts[i];
	}
	return launch_service(x, &g->fold, "fold", &x->out, 1, num, FOLD_NUMS,
			      elems, err);
}

/* ---- choosing the way ---- */

/* Of an all-gather all members want the same, and of a reduce-scatter all have
 * the same: so the parts of one member show those of all. */
static bool
are_alike(const struct rt_device *d, const struct rt_coll *t,
	  const struct rt_group *g, int64_t mb, bool gather)
{
	int64_t bytes = rt_elem_bytes((enum rt_elem)t->elem);
	int64_t me = d->comm->world.rank, first = 0, i, k;
	const struct rt_spread *const *s = gather ? t->out : t->in;
	int own = gather ? RT_IN : RT_OUT, other = gather ? RT_OUT : RT_IN;
	struct rt_overlap x;

	for (i = 0; i < g->n; i++) {
		for (k = 0; k < t->ndims; k++) {
			if (!rt_pieces_equal(
				rt_pieces_of(d->plan, s[k], me, mb),
				rt_pieces_of(d->plan, s[k], g->ranks[i], mb))) {
				return false;
			}
		}
		find_part(d, t, gather ? g->ranks[i] : me,
			  gather ? me : g->ranks[i], mb, &x);
		first = i == 0 ? x.elems : first;
		if (x.elems != first || x.elems != part_elems(&x, own) ||
		    !x.dense[own] || x.dense[other] ||
		    x.elems * bytes != rt_pack_bytes(&x, bytes)) {
			return false;
		}
	}
	return true;
}

/* Whether all members contribute the whole of what is summed, so that the order
 * of ranks is fixed. */
static bool
sums_are_whole(const struct rt_device *d, const struct rt_coll *t,
	       const struct rt_group *g, int64_t mb)
{
	int64_t i, k;
	struct rt_overlap x;

	for (i = 0; i < g->n; i++) {
		for (k = 0; k < t->ndims; k++) {
			if (!rt_pieces_equal(
				rt_pieces_of(d->plan, t->in[k], g->ranks[0],
					     mb),
				rt_pieces_of(d->plan, t->in[k], g->ranks[i],
					     mb))) {
				return false;
			}
		}
		find_part(d, t, g->ranks[0], g->ranks[i], mb, &x);
		if (x.elems != part_elems(&x, RT_OUT)) {
			return false;
		}
	}
	return true;
}

enum rt_gpu_way
rt_gpu_parts_way(const struct rt_device *d, const struct rt_coll *t,
		 const struct rt_group *g, int64_t mb)
{
	bool copies = t->op == RT_COLL_COPY;

	if (g->n > FOLD_PARTS) {
		return RT_GPU_HOST;
	}
	if (copies && are_alike(d, t, g, mb, true)) {
		return RT_GPU_UNPACK;
	}
	if (t->op == RT_COLL_SUM && are_alike(d, t, g, mb, false)) {
		return RT_GPU_PACK;
	}
	return copies || sums_are_whole(d, t, g, mb) ? RT_GPU_PARTS
						     : RT_GPU_HOST;
}

/* ---- running ---- */

static enum rt_status
take_scratch(struct in_coll *x, char **out, struct rt_error *err)
{
	const struct rt_program *p = x->d->program;

	*out = x->d->arena + p->comm_offset + x->used;
	x->used += rt_pack_bytes(&x->part, x->bytes);
	return x->used <= p->comm_bytes ? RT_OK
		: rt_fail(err, RT_RANGE, RT_NOWHERE, "it needs more than the "
			  "%lld bytes that the plan has for parts",
			  (long long)p->comm_bytes);
}

static void
set_collective(struct in_coll *x, const struct rt_nccl_call *leg)
{
	x->t = leg->coll;
	x->in = leg->in;
	x->out = leg->out;
	x->bytes = rt_elem_bytes((enum rt_elem)leg->coll->elem);
}

static void
find_current(struct in_coll *x, int64_t from, int64_t to)
{
	find_part(x->d, x->t, x->g->ranks[from], x->g->ranks[to], x->mb,
		  &x->part);
}

/* Where the data for a member is; packed, if it has to be. */
static enum rt_status
pack_part(struct in_coll *x, int64_t to, char **at, struct rt_error *err)
{
	enum rt_status status = RT_OK;

	find_current(x, x->g->me, to);
	*at = x->in + part_begin(&x->part, RT_IN) * x->bytes;
	if (rt_packs_out(&x->part)) {
		status = take_scratch(x, at, err);
		if (status == RT_OK) {
			status =
				move_part(x, RT_IN, RT_PACKED, x->in, *at, err);
		}
	}
	return status;
}

/* Where the current part is received, which comes from another rank. */
static enum rt_status
receive_address(struct in_coll *x, char **at, struct rt_error *err)
{
	int64_t bytes = x->part.elems * x->bytes, i;
	int64_t had = x->bytes;

	*at = x->out + part_begin(&x->part, RT_OUT) * x->bytes;
	if (x->part.elems == 0) {
		return RT_OK;
	}
	if (rt_packs_in(&x->part, x->t->op != RT_COLL_COPY)) {
		return take_scratch(x, at, err);
	}
	for (i = 0; i < x->t->ndims; i++) {
		had *= rt_pieces_of(x->d->plan, x->t->in[i],
				    x->g->ranks[x->g->me], x->mb)->total;
	}
	return *at >= x->in + had || *at + bytes <= x->in ? RT_OK
		: rt_fail(err, RT_RANGE, RT_NOWHERE, "what comes would lie on "
			  "what is sent");
}

/* Packs what is sent, and lists all sends and receives. */
static enum rt_status
prepare_exchange(struct in_coll *x, char **from, struct rt_nccl_part *list,
		 int64_t *n, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	char *at = NULL;
	int64_t i;

	*n = 0;
	for (i = 0; i < x->g->n && status == RT_OK; i++) {
		bool me = i == x->g->me;

		if (me && x->t->op == RT_COLL_COPY) {
			continue;
		}
		status = pack_part(x, i, &at, err);
		from[i] = at;
		if (status != RT_OK || me) {
			continue;
		}
		if (x->part.elems > 0) {
			list[(*n)++] = (struct rt_nccl_part){
				i, x->part.elems, at, true };
		}
		find_current(x, i, x->g->me);
		status = receive_address(x, &from[i], err);
		if (x->part.elems > 0) {
			list[(*n)++] = (struct rt_nccl_part){
				i, x->part.elems, from[i], false };
		}
	}
	return status;
}

/* Copies or sums what was received into its place. */
static enum rt_status
place_parts(struct in_coll *x, char *const *from, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	if (x->t->op != RT_COLL_COPY) {
		find_current(x, x->g->me, x->g->me);
		return x->part.elems > 0 ? fold_parts(x, from, x->part.elems,
						      err)
					 : RT_OK;
	}
	for (i = 0; i < x->g->n && status == RT_OK; i++) {
		find_current(x, i, x->g->me);
		if (x->part.elems == 0) {
			continue;
		}
		if (i != x->g->me) {
			status = x->part.dense[RT_OUT] ? RT_OK
				: move_part(x, RT_PACKED, RT_OUT, from[i],
					    x->out, err);
		} else if (x->in + part_begin(&x->part, RT_IN) * x->bytes !=
			   x->out + part_begin(&x->part, RT_OUT) * x->bytes ||
			   !x->part.dense[RT_IN] || !x->part.dense[RT_OUT]) {
			status =
				move_part(x, RT_IN, RT_OUT, x->in, x->out, err);
		}
	}
	return status;
}

static enum rt_status
each_part(struct in_coll *x, struct rt_error *err)
{
	struct rt_nccl_part list[2 * FOLD_PARTS];
	char *from[FOLD_PARTS] = { NULL };
	int64_t n = 0;
	enum rt_status status = prepare_exchange(x, from, list, &n, err);

	if (status == RT_OK && n > 0) {
		status = rt_nccl_exchange(x->d, x->c, x->t->elem, list, n,
					  err);
	}
	return status == RT_OK ? place_parts(x, from, err) : status;
}

/* For a single call on packed parts, one after another in the scratch: packs
 * the input, and fills in the call. */
static enum rt_status
before_call(struct in_coll *x, enum rt_gpu_way way, struct rt_nccl_call *call,
	    struct rt_error *err)
{
	bool gather = way == RT_GPU_UNPACK;
	enum rt_status status = RT_OK;
	char *at = NULL, *first = NULL;
	int64_t i;

	for (i = 0; i < x->g->n && status == RT_OK; i++) {
		find_current(x, gather ? i : x->g->me, gather ? x->g->me : i);
		status = take_scratch(x, &at, err);
		first = i ? first : at;
		if (status == RT_OK && !gather) {
			status = move_part(x, RT_IN, RT_PACKED, x->in, at, err);
		}
	}
	call->op = gather ? RT_NCCL_GATHER : RT_NCCL_SCATTER;
	call->in = gather ? x->in : first;
	call->out = gather ? first : x->out;
	call->n = x->part.elems;
	return status;
}

/* Copies the result of the call into its place. */
static enum rt_status
unpack_parts(struct in_coll *x, char *from, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < x->g->n && status == RT_OK; i++) {
		find_current(x, i, x->g->me);
		status = move_part(x, RT_PACKED, RT_OUT, from, x->out, err);
		from += x->part.elems * x->bytes;
	}
	return status;
}

enum rt_status
rt_gpu_legs(struct rt_device *d, const struct rt_nccl_comm *c,
	    const struct rt_group *g, const struct rt_gpu_leg *legs, int64_t n,
	    int64_t mb, struct rt_error *err)
{
	struct in_coll x = { .d = d, .c = c, .g = g, .mb = mb };
	struct rt_nccl_call calls[RT_MAX_JOINED];
	enum rt_status status = RT_OK;
	int64_t ncalls = 0, i;

	for (i = 0; i < n && status == RT_OK; i++) {
		const struct rt_nccl_call *leg = &legs[i].call;

		calls[ncalls] = *leg;
		set_collective(&x, leg);
		if (legs[i].way == RT_GPU_UNPACK ||
		    legs[i].way == RT_GPU_PACK) {
			status = before_call(&x, legs[i].way, &calls[ncalls],
					     err);
		}
		ncalls += legs[i].way != RT_GPU_PARTS;
	}
	if (status == RT_OK && ncalls > 0) {
		status = rt_nccl_calls(d, c, calls, ncalls, err);
	}
	for (i = ncalls = 0; i < n && status == RT_OK; i++) {
		set_collective(&x, &legs[i].call);
		if (legs[i].way == RT_GPU_UNPACK) {
			status = unpack_parts(&x, calls[ncalls].out, err);
		} else if (legs[i].way == RT_GPU_PARTS) {
			status = each_part(&x, err);
		}
		ncalls += legs[i].way != RT_GPU_PARTS;
	}
	return status;
}

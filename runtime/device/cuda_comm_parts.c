/*
 * cuda_comm_parts.c - talks for which NCCL has no call of its own, as
 * all-to-alls and pieces that are uneven, or do not lie side by side.
 *
 * A part is what one rank has of what another one wants, in the order in
 * which that one has it.  What lies side by side is sent from where it is;
 * all else is packed in the plan's room for talks before it, or unpacked
 * behind it, by two functions of services.cu, on the stream of the talk.  So
 * the room is one talk's at a time; comm_parts.c says how much of it.
 *
 * Where all parts are alike it is NCCL's all-gather or reduce-scatter between
 * packed ones; else each goes to whom wants it, and sums are taken here, in
 * the order of ranks.
 */
#include "runtime/device/cuda_device.h"

#include <string.h>

#include "runtime/device/this_machine.h"

/* Of services.cu. */
enum { MOVE_BOXES = 16, MOVE_NUMS = 179, FOLD_PARTS = 128, FOLD_NUMS = 132 };
enum { THREADS = 256, MOST_BLOCKS = 1024 };

/* A talk that is under way. */
struct in_coll {
	struct rt_device *d;
	const struct rt_nccl_comm *c;
	const struct rt_group *g;
	const struct rt_coll *t;
	char *in, *out;
	int64_t mb, bytes;	/* of an element */
	int64_t used;		/* of the room */
	struct rt_overlap part;	/* the one at hand */
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
whole(const struct rt_overlap *x, int layout)
{
	int64_t n = 1, i;

	for (i = 0; i < x->ndims; i++) {
		n *= x->size[i][layout];
	}
	return n;
}

/* Elements to where a dense part begins. */
static int64_t
begin(const struct rt_overlap *x, int layout)
{
	int64_t at = 0, i;

	for (i = 0; i < x->ndims; i++) {
		at = at * x->size[i][layout] + x->runs[i][0].at[layout];
	}
	return at;
}

/* ---- boxes ---- */

/* Dims from the outermost; those that are whole at both ends are one. */
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

/* From one layout to another; the last dims of `b` are in use. */
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

/* The largest unit that divides all that is moved, and where it lies. */
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

/* Those that have the services are the last image of a plan. */
static void
make_grid(const struct rt_device *d, const char *func, struct rt_grid *out)
{
	*out = (struct rt_grid){ .image = d->plan->images->n - 1,
		.func = func, .blocks = { 1, 1, 1 }, .threads = THREADS,
		.cluster = 1 };
}

static enum rt_status
launch(struct in_coll *x, struct rt_grid *grid, const char *func, char **at,
       int64_t nat, const int64_t *num, int64_t nnum, int64_t threads,
       struct rt_error *err)
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

struct moving {
	struct boxes b;
	int64_t num[MOVE_NUMS], threads, unit;
	char *at[2];
};

static enum rt_status
move_some(struct in_coll *x, struct moving *m, struct rt_error *err)
{
	struct rt_gpu *g = x->d->self;
	enum rt_status status;

	if (m->num[2] == 0) {
		return RT_OK;
	}
	status = launch(x, &g->move, "move", m->at, 2, m->num, MOVE_NUMS,
			m->threads, err);
	m->num[2] = m->threads = 0;
	return status;
}

/* The k-th of all boxes, in the order of their runs. */
static int64_t
put_box(struct moving *m, int64_t k, int from, int to, int64_t bytes)
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

/* The part at hand from one layout to another, which begin at these. */
static enum rt_status
move(struct in_coll *x, int from, int to, char *a, char *b,
     struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct moving m = { .at = { a, b } };
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
		work = put_box(&m, k, from, to, x->bytes);
		m.threads = work > m.threads ? work : m.threads;
		if (m.num[2] == MOVE_BOXES) {
			status = move_some(x, &m, err);
		}
	}
	return status == RT_OK ? move_some(x, &m, err) : status;
}

static enum rt_status
fold(struct in_coll *x, char *const *parts, int64_t elems,
     struct rt_error *err)
{
	int64_t num[FOLD_NUMS] = { x->t->elem, x->t->op == RT_COLL_MAX, elems,
				   x->g->n }, i;
	struct rt_gpu *g = x->d->self;

	for (i = 0; i < x->g->n; i++) {
		num[4 + i] = (int64_t)(uintptr_t)parts[i];
	}
	return launch(x, &g->fold, "fold", &x->out, 1, num, FOLD_NUMS, elems,
		      err);
}

/* ---- which way ---- */

/*
 * Of an all-gather all want the same, and of a reduce-scatter all have the
 * same: so what one member finds, all find.
 */
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
		if (x.elems != first || x.elems != whole(&x, own) ||
		    !x.dense[own] || x.dense[other] ||
		    x.elems * bytes != rt_pack_bytes(&x, bytes)) {
			return false;
		}
	}
	return true;
}

/* What is added up is whole in each part, so that the order is known. */
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
		if (x.elems != whole(&x, RT_OUT)) {
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

/* ---- talking ---- */

static enum rt_status
take_room(struct in_coll *x, char **out, struct rt_error *err)
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
about(struct in_coll *x, const struct rt_nccl_call *leg)
{
	x->t = leg->coll;
	x->in = leg->in;
	x->out = leg->out;
	x->bytes = rt_elem_bytes((enum rt_elem)leg->coll->elem);
}

static void
look_at(struct in_coll *x, int64_t from, int64_t to)
{
	find_part(x->d, x->t, x->g->ranks[from], x->g->ranks[to], x->mb,
		  &x->part);
}

/* Where what goes to a member lies; packed, if it has to be. */
static enum rt_status
pack(struct in_coll *x, int64_t to, char **at, struct rt_error *err)
{
	enum rt_status status = RT_OK;

	look_at(x, x->g->me, to);
	*at = x->in + begin(&x->part, RT_IN) * x->bytes;
	if (rt_packs_out(&x->part)) {
		status = take_room(x, at, err);
		if (status == RT_OK) {
			status = move(x, RT_IN, RT_PACKED, x->in, *at, err);
		}
	}
	return status;
}

/* Where the part at hand goes, which comes from another rank. */
static enum rt_status
make_place(struct in_coll *x, char **at, struct rt_error *err)
{
	int64_t bytes = x->part.elems * x->bytes, i;
	int64_t had = x->bytes;

	*at = x->out + begin(&x->part, RT_OUT) * x->bytes;
	if (x->part.elems == 0) {
		return RT_OK;
	}
	if (rt_packs_in(&x->part, x->t->op != RT_COLL_COPY)) {
		return take_room(x, at, err);
	}
	for (i = 0; i < x->t->ndims; i++) {
		had *= rt_pieces_of(x->d->plan, x->t->in[i],
				    x->g->ranks[x->g->me], x->mb)->total;
	}
	return *at >= x->in + had || *at + bytes <= x->in ? RT_OK
		: rt_fail(err, RT_RANGE, RT_NOWHERE, "what comes would lie on "
			  "what is sent");
}

/* Packs what goes out, and lists all that is sent and got. */
static enum rt_status
prepare(struct in_coll *x, char **from, struct rt_nccl_part *list, int64_t *n,
	struct rt_error *err)
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
		status = pack(x, i, &at, err);
		from[i] = at;
		if (status != RT_OK || me) {
			continue;
		}
		if (x->part.elems > 0) {
			list[(*n)++] = (struct rt_nccl_part){
				i, x->part.elems, at, true };
		}
		look_at(x, i, x->g->me);
		status = make_place(x, &from[i], err);
		if (x->part.elems > 0) {
			list[(*n)++] = (struct rt_nccl_part){
				i, x->part.elems, from[i], false };
		}
	}
	return status;
}

/* What came, to where it is wanted. */
static enum rt_status
put_parts(struct in_coll *x, char *const *from, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	if (x->t->op != RT_COLL_COPY) {
		look_at(x, x->g->me, x->g->me);
		return x->part.elems > 0 ? fold(x, from, x->part.elems, err)
					 : RT_OK;
	}
	for (i = 0; i < x->g->n && status == RT_OK; i++) {
		look_at(x, i, x->g->me);
		if (x->part.elems == 0) {
			continue;
		}
		if (i != x->g->me) {
			status = x->part.dense[RT_OUT] ? RT_OK
				: move(x, RT_PACKED, RT_OUT, from[i], x->out,
				       err);
		} else if (x->in + begin(&x->part, RT_IN) * x->bytes !=
			   x->out + begin(&x->part, RT_OUT) * x->bytes ||
			   !x->part.dense[RT_IN] || !x->part.dense[RT_OUT]) {
			status = move(x, RT_IN, RT_OUT, x->in, x->out, err);
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
	enum rt_status status = prepare(x, from, list, &n, err);

	if (status == RT_OK && n > 0) {
		status = rt_nccl_exchange(x->d, x->c, x->t->elem, list, n,
					  err);
	}
	return status == RT_OK ? put_parts(x, from, err) : status;
}

/*
 * By one call, from or to parts that lie one behind the other in the room:
 * packs what goes out, and says what to call.
 */
static enum rt_status
before_call(struct in_coll *x, enum rt_gpu_way way, struct rt_nccl_call *call,
	    struct rt_error *err)
{
	bool gather = way == RT_GPU_UNPACK;
	enum rt_status status = RT_OK;
	char *at = NULL, *first = NULL;
	int64_t i;

	for (i = 0; i < x->g->n && status == RT_OK; i++) {
		look_at(x, gather ? i : x->g->me, gather ? x->g->me : i);
		status = take_room(x, &at, err);
		first = i ? first : at;
		if (status == RT_OK && !gather) {
			status = move(x, RT_IN, RT_PACKED, x->in, at, err);
		}
	}
	call->op = gather ? RT_NCCL_GATHER : RT_NCCL_SCATTER;
	call->in = gather ? x->in : first;
	call->out = gather ? first : x->out;
	call->n = x->part.elems;
	return status;
}

/* What came, from where the call has put it. */
static enum rt_status
unpack(struct in_coll *x, char *from, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < x->g->n && status == RT_OK; i++) {
		look_at(x, i, x->g->me);
		status = move(x, RT_PACKED, RT_OUT, from, x->out, err);
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
		about(&x, leg);
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
		about(&x, &legs[i].call);
		if (legs[i].way == RT_GPU_UNPACK) {
			status = unpack(&x, calls[ncalls].out, err);
		} else if (legs[i].way == RT_GPU_PARTS) {
			status = each_part(&x, err);
		}
		ncalls += legs[i].way != RT_GPU_PARTS;
	}
	return status;
}

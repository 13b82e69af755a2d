/*
 * Collectives with too many elements for a letter.  What a rank wants is cut
 * into boxes that lie in one piece of each dim. Every member that contributes
 * to a box sends its part packed, and the rank copies it to its place or sums
 * it there. All members work on their k-th box at a time, so the scratch holds
 * one box of each.
 */
#include "runtime/comm/msg.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of an equal sum that are reduced at once.  The slices of the other
 * members need scratch. */
enum { CHUNK_BYTES = 4 << 20 };

struct box {
	struct rt_pieces own[RT_MAX_DIMS];
	const struct rt_pieces *dims[RT_MAX_DIMS];
	int64_t elems;
};

/* ---- boxes ---- */

static void
set_dim(struct box *b, int64_t d, int64_t start, int64_t count)
{
	b->own[d].n = 1;
	b->own[d].total = b->own[d].at[0].count = count;
	b->own[d].at[0].start = start;
	b->dims[d] = &b->own[d];
	b->elems *= count;
}

/*
 * Cuts a cell of those sizes into boxes of at most `most` elements; returns how
 * many. If k is one of them, writes where it begins and its extent in each dim.
 */
static int64_t
cut(const int64_t *sizes, int64_t ndims, int64_t most, int64_t k,
    int64_t *from, int64_t *count)
{
	int64_t split = ndims - 1, inner = 1, n, d, by;

	for (; split > 0 && inner * sizes[split] <= most; split--) {
		inner *= sizes[split];
	}
	by = most / inner < 1 ? 1 : most / inner;
	n = (sizes[split] + by - 1) / by;
	for (d = ndims - 1; d > split; d--) {
		from[d] = 0;
		count[d] = sizes[d];
	}
	from[split] = k % n * by;
	count[split] = sizes[split] - from[split] < by ?
		sizes[split] - from[split] : by;
	for (k /= n, d = split - 1; d >= 0; d--) {
		from[d] = k % sizes[d];
		count[d] = 1;
		k /= sizes[d];
		n *= sizes[d];
	}
	return n;
}

/* Box k of what has these dims, if there is one; returns how many boxes there
 * are. */
static int64_t
box_at(const struct rt_pieces *const *dims, int64_t ndims, int64_t most,
       int64_t k, struct box *b)
{
	int64_t cells = 1, cell, d, total = 0;
	int64_t sizes[RT_MAX_DIMS], from[RT_MAX_DIMS], count[RT_MAX_DIMS];

	b->elems = 0;
	for (d = 0; d < ndims; d++) {
		cells *= dims[d]->n;
	}
	for (cell = 0; cell < cells; cell++) {
		int64_t starts[RT_MAX_DIMS], rest = cell, n, size = 1;

		for (d = ndims - 1; d >= 0; d--) {
			int64_t i = rest % dims[d]->n;

			starts[d] = dims[d]->at[i].start;
			sizes[d] = dims[d]->at[i].count;
			size *= sizes[d];
			rest /= dims[d]->n;
		}
		if (size == 0) {
			continue;
		}
		n = cut(sizes, ndims, most, k - total, from, count);
		if (k >= total && k < total + n) {
			b->elems = 1;
			for (d = 0; d < ndims; d++) {
				set_dim(b, d, starts[d] + from[d], count[d]);
			}
		}
		total += n;
	}
	return total;
}

/* The part of the box that lies in `dims`, in their order. */
static void
meet_box(const struct rt_pieces *const *dims, int64_t ndims,
	 const struct box *b, struct box *out)
{
	int64_t d, i;

	out->elems = b->elems > 0;
	for (d = 0; d < ndims && out->elems > 0; d++) {
		int64_t lo = b->own[d].at[0].start;
		int64_t hi = lo + b->own[d].at[0].count;
		struct rt_pieces *p = &out->own[d];

		p->n = p->total = 0;
		for (i = 0; i < dims[d]->n; i++) {
			int64_t start = dims[d]->at[i].start;
			int64_t end = start + dims[d]->at[i].count;

			start = start > lo ? start : lo;
			end = end < hi ? end : hi;
			if (start < end) {
				p->at[p->n].start = start;
				p->at[p->n++].count = end - start;
				p->total += end - start;
			}
		}
		out->dims[d] = p;
		out->elems *= p->total;
	}
}

/* ---- a collective, box by box ---- */

struct move {
	struct rt_comm *c;
	const struct rt_meeting *m;
	enum rt_elem elem;
	int64_t bytes, most;	/* of an element; elements of a box, at most */
	int64_t ndims;
	char *out;
	const struct rt_pieces *want[RT_MAX_DIMS], *have[RT_MAX_DIMS];
	struct rt_part *parts;	/* of the current box, by member */
	struct box *met;	/* the part of the box that each contributes */
};

static void
copy_pieces(const struct move *v, const struct rt_pieces *const *from_dims,
	    const char *from, const struct rt_pieces *const *dims, char *to)
{
	struct rt_part part = { .at = from };

	memcpy(part.dims, from_dims, sizeof(part.dims));
	rt_gather_parts(&part, 1, dims, v->ndims, v->elem, RT_COLL_COPY, to,
			v->c->msg->acc);
}

static char *
scratch_of(const struct move *v, int64_t i)
{
	return v->c->msg->scratch + i * v->most * v->bytes;
}

/* Sends to each member what this rank contributes to its k-th box; returns how
 * many boxes there are. */
static enum rt_status
send_boxes(struct move *v, int64_t k, int64_t *boxes, struct rt_error *err)
{
	const struct rt_group *g = v->m->group;
	enum rt_status s = RT_OK;
	struct box theirs = { .elems = 0 }, met = theirs;
	int64_t i;

	for (i = 0; i < g->n && s == RT_OK; i++) {
		const struct rt_pieces *dims[RT_MAX_DIMS];
		char *scratch = scratch_of(v, i);
		int64_t n;

		rt_meeting_pieces(v->c, v->m, v->m->coll->out, g->ranks[i],
				  dims);
		n = box_at(dims, v->ndims, v->most, k, &theirs);
		*boxes = n > *boxes ? n : *boxes;
		meet_box(v->have, v->ndims, &theirs, &met);
		if (i == g->me || met.elems == 0) {
			continue;
		}
		copy_pieces(v, v->have, v->m->in, met.dims, scratch);
		s = rt_msg_post_send(v->c, scratch, met.elems * v->bytes,
				     g->ranks[i], RT_TAG_DATA, err);
	}
	return s;
}

static enum rt_status
get_boxes(struct move *v, const struct box *mine, struct rt_error *err)
{
	const struct rt_group *g = v->m->group;
	enum rt_status s = RT_OK;
	int64_t i;

	for (i = 0; i < g->n && s == RT_OK; i++) {
		const struct rt_pieces *dims[RT_MAX_DIMS];
		char *scratch = scratch_of(v, g->n + i);

		rt_meeting_pieces(v->c, v->m, v->m->coll->in, g->ranks[i],
				  dims);
		meet_box(dims, v->ndims, mine, &v->met[i]);
		if (v->met[i].elems > 0 && i != g->me) {
			s = rt_msg_post_receive(v->c, scratch,
						v->met[i].elems * v->bytes,
						g->ranks[i], RT_TAG_DATA, err);
		}
	}
	return s;
}

/* Copies or sums what was received of the box, and what this rank has of it,
 * into place. */
static void
put_together(struct move *v, const struct box *mine)
{
	const struct rt_group *g = v->m->group;
	char *sum = scratch_of(v, 2 * g->n);
	int64_t n = 0, i;

	for (i = 0; i < g->n; i++) {
		struct rt_part *p = &v->parts[n];

		if (v->met[i].elems == 0) {
			continue;
		}
		*p = (struct rt_part){ .at = scratch_of(v, g->n + i) };
		memcpy(p->dims, i == g->me ? v->have : v->met[i].dims,
		       sizeof(p->dims));
		p->at = i == g->me ? v->m->in : p->at;
		n++;
	}
	if (v->m->coll->op != RT_COLL_COPY) {
		rt_gather_parts(v->parts, n, mine->dims, v->ndims, v->elem,
				(enum rt_coll_op)v->m->coll->op, sum,
				v->c->msg->acc);
		copy_pieces(v, mine->dims, sum, v->want, v->out);
		return;
	}
	for (i = 0; i < n; i++) {
		/* the part of this rank is cut to the box */
		if (v->parts[i].at != v->m->in) {
			copy_pieces(v, v->parts[i].dims, v->parts[i].at,
				    v->want, v->out);
		}
	}
}

static enum rt_status
move_boxes(struct move *v, struct rt_error *err)
{
	enum rt_status s = RT_OK;
	int64_t boxes = 1, k;
	struct box mine = { .elems = 0 };

	if (v->m->coll->op == RT_COLL_COPY) {
		copy_pieces(v, v->have, v->m->in, v->want, v->out);
	}
	for (k = 0; k < boxes && s == RT_OK; k++) {
		rt_msg_start_posts(v->c);
		box_at(v->want, v->ndims, v->most, k, &mine);
		s = get_boxes(v, &mine, err);
		if (s == RT_OK) {
			s = send_boxes(v, k, &boxes, err);
		}
		if (s == RT_OK) {
			s = rt_msg_wait_posts(v->c, &v->m->activity,
					      v->m->group, err);
		}
		if (s == RT_OK && mine.elems > 0) {
			put_together(v, &mine);
		}
	}
	return s;
}

static bool
overlap(const char *a, int64_t na, const char *b, int64_t nb)
{
	return a < b + nb && b < a + na;
}

/* An output that overlaps the input is written aside until all is sent. */
static enum rt_status
move_any(struct move *v, struct rt_error *err)
{
	const struct rt_meeting *m = v->m;
	int64_t in = rt_meeting_bytes(v->c, m, v->c->world.rank), out;
	enum rt_status s = RT_NOMEM;

	rt_meeting_pieces(v->c, m, m->coll->out, v->c->world.rank, v->want);
	rt_meeting_pieces(v->c, m, m->coll->in, v->c->world.rank, v->have);
	out = rt_pieces_elems(v->want, v->ndims) * v->bytes;
	v->out = m->out;
	if (overlap(m->in, in, m->out, out)) {
		v->out = malloc((size_t)out + 1);
	}
	v->parts = malloc((size_t)m->group->n * sizeof(*v->parts));
	v->met = calloc((size_t)m->group->n, sizeof(*v->met));
	if (v->out && v->parts && v->met) {
		s = move_boxes(v, err);
	} else {
		rt_no_memory(err, NULL);
	}
	if (s == RT_OK && v->out != m->out) {
		memcpy(m->out, v->out, (size_t)out);
	}
	free(v->met);
	free(v->parts);
	if (v->out != m->out) {
		free(v->out);
	}
	return s;
}

/* ---- sums of equal pieces: each member sums a slice ---- */

struct slices {
	struct move *v;
	int64_t from, n;	/* the current chunk, in elements */
};

static int64_t
slice(const struct slices *x, int64_t member)
{
	return rt_slice_at(member, x->v->m->group->n, x->n);
}

static int64_t
slice_bytes(const struct slices *x, int64_t member)
{
	return (slice(x, member + 1) - slice(x, member)) * x->v->bytes;
}

/* Sends each other member its slice of `in`, or this rank's slice of `out`, and
 * receives the same from it. */
static enum rt_status
trade_slices(const struct slices *x, bool back, struct rt_error *err)
{
	const struct rt_meeting *m = x->v->m;
	const struct rt_group *g = m->group;
	enum rt_status s = RT_OK;
	int64_t i, mine = slice_bytes(x, g->me);
	char *out = m->out + x->from * x->v->bytes;
	char *in = m->in + x->from * x->v->bytes;
	char *scratch = x->v->c->msg->scratch;

	rt_msg_start_posts(x->v->c);
	for (i = 0; i < g->n && s == RT_OK; i++) {
		int64_t at = slice(x, i) * x->v->bytes;
		int64_t get = back ? slice_bytes(x, i) : mine;

		if (i != g->me && get > 0) {
			s = rt_msg_post_receive(x->v->c, back ? out + at :
						scratch + i * mine, get,
						g->ranks[i],
						RT_TAG_DATA, err);
		}
	}
	for (i = 1; i < g->n && s == RT_OK; i++) {
		/* not all to the same rank at once */
		int64_t who = (g->me + i) % g->n;
		int64_t at = slice(x, back ? g->me : who) * x->v->bytes;
		int64_t put = back ? mine : slice_bytes(x, who);

		if (put > 0) {
			s = rt_msg_post_send(x->v->c, back ? out + at : in + at,
					     put, g->ranks[who], RT_TAG_DATA,
					     err);
		}
	}
	return s == RT_OK ? rt_msg_wait_posts(x->v->c, &m->activity, g, err) :
			    s;
}

static void
sum_slice(const struct slices *x)
{
	const struct move *v = x->v;
	const struct rt_group *g = v->m->group;
	int64_t n = slice(x, g->me + 1) - slice(x, g->me), i;
	int64_t at = (x->from + slice(x, g->me)) * v->bytes;
	struct rt_pieces row = { .n = 1, .total = n };
	const struct rt_pieces *dims[1] = { &row };

	row.at[0].count = n;
	for (i = 0; i < g->n; i++) {
		v->parts[i] = (struct rt_part){ .dims = { &row } };
		v->parts[i].at = i == g->me ? v->m->in + at :
			v->c->msg->scratch + i * n * v->bytes;
	}
	rt_gather_parts(v->parts, g->n, dims, 1, v->elem,
			(enum rt_coll_op)v->m->coll->op, v->m->out + at,
			v->c->msg->acc);
}

static enum rt_status
sum_equal(struct move *v, struct rt_error *err)
{
	int64_t elems = rt_meeting_bytes(v->c, v->m, v->c->world.rank) /
			v->bytes;
	struct slices x = { v, 0, 0 };
	enum rt_status s = RT_OK;

	v->parts = malloc((size_t)v->m->group->n * sizeof(*v->parts));
	if (!v->parts) {
		return rt_no_memory(err, NULL);
	}
	for (; x.from < elems && s == RT_OK; x.from += x.n) {
		x.n = elems - x.from;
		if (x.n > CHUNK_BYTES / v->bytes) {
			x.n = CHUNK_BYTES / v->bytes;
		}
		s = trade_slices(&x, false, err);
		if (s == RT_OK) {
			sum_slice(&x);
			s = trade_slices(&x, true, err);
		}
	}
	free(v->parts);
	return s;
}

enum rt_status
rt_msg_move(struct rt_comm *c, const struct rt_meeting *m,
	    struct rt_error *err)
{
	enum rt_elem elem = (enum rt_elem)m->coll->elem;
	struct move v = { .c = c, .m = m, .elem = elem,
		.bytes = rt_elem_bytes(elem), .ndims = m->coll->ndims };

	if (m->coll->op != RT_COLL_COPY && rt_meeting_equal(c, m)) {
		return sum_equal(&v, err);
	}
	/* scratch holds what goes to each member, comes from each, and the
	 * sum */
	v.most = c->msg->scratch_bytes / (2 * m->group->n + 1) / v.bytes;
	return move_any(&v, err);
}

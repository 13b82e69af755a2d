/*
 * Copies or reduces, into this rank's memory, the elements that several ranks
 * have of what this rank wants.  Of each dim both sides have pieces; where a
 * piece here and a piece there overlap is a run, contiguous on both sides.
 */
#include "runtime/comm/transport.h"

#include <string.h>

enum {
	MAX_DIMS = RT_MAX_DIMS + 1,
	MAX_RUNS = RT_MAX_PIECES * RT_MAX_PIECES,
	COPY_BYTES = 4 << 20
};

/* A run of a dim: where it begins in the part and in the box, and its
 * length. */
struct dim_run {
	int64_t in, out, n;
};

struct part_walk {
	enum rt_elem elem;
	enum rt_coll_op op;
	int64_t bytes;		/* of an element */
	int64_t ndims;
	const struct rt_pieces *dims[MAX_DIMS];	/* of what is wanted */
	/* trailing dims that all ranks have alike, folded into one */
	struct rt_pieces unit;
	/* the current box, in local positions; contiguous */
	int64_t from[MAX_DIMS], count[MAX_DIMS];
	/* of the current part in the box */
	struct dim_run runs[MAX_DIMS][MAX_RUNS];
	int64_t nruns[MAX_DIMS];
	int64_t sizes[MAX_DIMS];	/* of the part */
	const struct rt_part *part;
	char *to;		/* memory of the box; sums in their wide type */
	bool first;		/* elements are set, not added to */
};

int64_t
rt_pieces_elems(const struct rt_pieces *const *dims, int64_t ndims)
{
	int64_t n = 1, d;

	for (d = 0; d < ndims; d++) {
		n *= dims[d]->total;
	}
	return n;
}

bool
rt_pieces_equal(const struct rt_pieces *a, const struct rt_pieces *b)
{
	int64_t i;

	if (a == b) {
		return true;
	}
	if (a->n != b->n || a->total != b->total) {
		return false;
	}
	for (i = 0; i < a->n; i++) {
		if (a->at[i].start != b->at[i].start ||
		    a->at[i].count != b->at[i].count) {
			return false;
		}
	}
	return true;
}

/* ---- runs ---- */

static int64_t
min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t
max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void
add_run(struct part_walk *w, int64_t d, struct dim_run r)
{
	struct dim_run *end = w->runs[d] + w->nruns[d];

	if (w->nruns[d] > 0 && end[-1].in + end[-1].n == r.in &&
	    end[-1].out + end[-1].n == r.out) {
		end[-1].n += r.n;
		return;
	}
	*end = r;
	w->nruns[d]++;
}

/* Finds the positions of the box's dim that the part has; returns how many. */
static int64_t
find_runs(struct part_walk *w, int64_t d, const struct rt_pieces *in)
{
	const struct rt_pieces *out = w->dims[d];
	int64_t from = w->from[d], to = from + w->count[d];
	int64_t i, j, here = 0, there, n = 0;

	w->nruns[d] = 0;
	for (i = 0; i < out->n; here += out->at[i++].count) {
		/* positions of the dim that this piece has in the box */
		int64_t shift = out->at[i].start - here;
		int64_t lo = max(here, from) + shift;
		int64_t hi = min(here + out->at[i].count, to) + shift;

		there = 0;
		for (j = 0; j < in->n; there += in->at[j++].count) {
			int64_t a = max(lo, in->at[j].start);
			int64_t b = min(hi, in->at[j].start + in->at[j].count);

			if (a < b) {
				add_run(w, d, (struct dim_run){
					there + a - in->at[j].start,
					a - shift - from, b - a });
				n += b - a;
			}
		}
	}
	return n;
}

/* ---- one part ---- */

void
rt_copy_part(const struct rt_part *p, char *to, const char *from,
	     int64_t bytes)
{
	int64_t done, n;

	for (done = 0; done < bytes; done += n) {
		n = min(bytes - done, COPY_BYTES);
		memmove(to + done, from + done, (size_t)n);
		if (p->read) {
			p->read(p->user, from + done, n);
		}
	}
}

static void
move_run(const struct part_walk *w, int64_t in, int64_t out, int64_t n)
{
	const char *from = w->part->at + in * w->bytes;

	if (w->op == RT_COLL_COPY) {
		rt_copy_part(w->part, w->to + out * w->bytes, from,
			     n * w->bytes);
		return;
	}
	out *= rt_acc_bytes(w->elem);
	if (w->first) {
		rt_widen(w->elem, w->to + out, from, n);
	} else {
		rt_fold(w->elem, w->op, w->to + out, from, n);
	}
	if (w->part->read) {
		w->part->read(w->part->user, from, n * w->bytes);
	}
}

/* Whether the positions of the last cut dim are contiguous on both sides. */
static bool
is_dense(const struct part_walk *w)
{
	int64_t d = w->ndims - 1;

	return w->nruns[d] == 1 && w->runs[d][0].n == w->sizes[d] &&
	       w->runs[d][0].n == w->count[d];
}

static void
move_dims(const struct part_walk *w, int64_t d, int64_t in, int64_t out)
{
	int64_t last = w->ndims - 1, r, i;

	for (r = 0; r < w->nruns[d]; r++) {
		const struct dim_run *run = &w->runs[d][r];
		int64_t a = in * w->sizes[d] + run->in;
		int64_t b = out * w->count[d] + run->out;

		if (d == last) {
			move_run(w, a, b, run->n);
			continue;
		}
		/* else a dim that is cut inside moves element by element */
		if (d == last - 1 && is_dense(w)) {
			move_run(w, a * w->sizes[last], b * w->sizes[last],
				 run->n * w->sizes[last]);
			continue;
		}
		for (i = 0; i < run->n; i++) {
			move_dims(w, d + 1, a + i, b + i);
		}
	}
}

/* Finds the runs of the part in the box; returns how many elements they
 * have. */
static int64_t
find_part_runs(struct part_walk *w, const struct rt_part *part)
{
	int64_t n = 1, d;

	for (d = 0; d < w->ndims && n > 0; d++) {
		const struct rt_pieces *in = d == w->ndims - 1 ? &w->unit :
			part->dims[d];

		w->sizes[d] = in->total;
		n *= find_runs(w, d, in);
	}
	w->part = part;
	return n;
}

/* ---- boxes ---- */

static void
copy_box(struct part_walk *w, const struct rt_part *parts, int64_t n)
{
	int64_t i;

	for (i = 0; i < n; i++) {
		if (find_part_runs(w, &parts[i]) > 0) {
			move_dims(w, 0, 0, 0);
		}
	}
}

static void
sum_box(struct part_walk *w, const struct rt_part *parts, int64_t n, char *out)
{
	int64_t elems = 1, i, d;

	for (d = 0; d < w->ndims; d++) {
		elems *= w->count[d];
	}
	for (i = 0; i < n; i++) {
		int64_t has = find_part_runs(w, &parts[i]);

		w->first = i == 0 && has == elems;
		if (i == 0 && !w->first) {
			rt_neutral(w->elem, w->op, w->to, elems);
		}
		if (has > 0) {
			move_dims(w, 0, 0, 0);
		}
	}
	rt_narrow(w->elem, out, w->to, elems);
}

/* Sums box by box, each of at most `most` elements. */
static void
sum_boxes(struct part_walk *w, const struct rt_part *parts, int64_t n,
	  int64_t most, char *out)
{
	int64_t inner = 1, total = 1, split, d, i, done;

	for (d = 0; d < w->ndims; d++) {
		total *= w->dims[d]->total;
	}
	for (split = w->ndims - 1; split > 0; split--) {
		if (inner * w->dims[split]->total > most) {
			break;
		}
		inner *= w->dims[split]->total;
	}
	for (done = 0; done < total;) {
		int64_t rest = done / inner;
		int64_t at = rest % w->dims[split]->total;
		int64_t elems;

		w->from[split] = at;
		w->count[split] = min(max(most / inner, 1),
				      w->dims[split]->total - at);
		rest /= w->dims[split]->total;
		for (i = split - 1; i >= 0; i--) {
			w->from[i] = rest % w->dims[i]->total;
			w->count[i] = 1;
			rest /= w->dims[i]->total;
		}
		elems = inner * w->count[split];
		sum_box(w, parts, n, out + done * w->bytes);
		done += elems;
	}
}

/* Folds trailing dims of which all parts have the same pieces into one. */
static void
fold_dims(struct part_walk *w, const struct rt_part *parts, int64_t n,
	  const struct rt_pieces *const *dims, int64_t ndims)
{
	int64_t unit = 1, d, i;

	for (; ndims > 0; ndims--) {
		for (i = 0; i < n; i++) {
			if (!rt_pieces_equal(dims[ndims - 1],
					     parts[i].dims[ndims - 1])) {
				break;
			}
		}
		if (i < n) {
			break;
		}
		unit *= dims[ndims - 1]->total;
	}
	w->unit.n = 1;
	w->unit.total = unit;
	w->unit.at[0].start = 0;
	w->unit.at[0].count = unit;
	for (d = 0; d < ndims; d++) {
		w->dims[d] = dims[d];
	}
	w->dims[ndims] = &w->unit;
	w->ndims = ndims + 1;
	for (d = 0; d < w->ndims; d++) {
		w->from[d] = 0;
		w->count[d] = w->dims[d]->total;
	}
}

void
rt_gather_parts(const struct rt_part *parts, int64_t n,
		const struct rt_pieces *const *dims, int64_t ndims,
		enum rt_elem elem, enum rt_coll_op op, char *out, char *acc)
{
	struct part_walk w;

	w.elem = elem;
	w.op = op;
	w.bytes = rt_elem_bytes(elem);
	fold_dims(&w, parts, n, dims, ndims);
	if (rt_pieces_elems(dims, ndims) == 0) {
		return;
	}
	if (op == RT_COLL_COPY) {
		w.to = out;
		copy_box(&w, parts, n);
		return;
	}
	w.to = acc;
	sum_boxes(&w, parts, n, RT_ACC_BYTES / rt_acc_bytes(elem), out);
}

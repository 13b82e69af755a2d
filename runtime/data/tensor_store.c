/* Which elements of the tensors in files a rank holds: see tensor_store.h. */
#include "runtime/data/tensor_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- parts --------------------------------------------------------- */

static int64_t
product(const int64_t *sizes, int64_t from, int64_t to)
{
	int64_t n = 1;

	for (; from < to; from++) {
		n *= sizes[from];
	}
	return n;
}

int64_t
rt_tensor_parts(const struct rt_tensor *t)
{
	return product(t->sizes, 0, t->stacked);
}

int64_t
rt_part_elems(const struct rt_tensor *t)
{
	return product(t->sizes, t->stacked, t->ndims);
}

/*
 * The stacked dim whose name in braces begins `text`; of several with that name
 * the first that is not in `used`, else the last.  -1: none.
 */
static int64_t
dim_in_braces(const struct rt_tensor *t, const char *text, unsigned used)
{
	int64_t found = -1, d;
	size_t n;

	if (*text != '{') {
		return -1;
	}
	for (d = 0; d < t->stacked; d++) {
		n = strlen(t->dims[d]);
		if (strncmp(text + 1, t->dims[d], n) != 0 ||
		    text[1 + n] != '}') {
			continue;
		}
		if (!(used & 1u << d)) {
			return d;
		}
		found = d;
	}
	return found;
}

enum rt_status
rt_part_name(const struct rt_tensor *t, int64_t part, char out[RT_NAME_BYTES],
	     struct rt_error *err)
{
	struct rt_where where = { NULL, t->name, -1 };
	const char *text = t->name;
	unsigned used = 0;
	int64_t d, index;
	size_t n = 0;

	while (*text && n + 24 < RT_NAME_BYTES) {
		d = dim_in_braces(t, text, used);
		if (d < 0) {
			out[n++] = *text++;
			continue;
		}
		used |= 1u << d;
		index = part / product(t->sizes, d + 1, t->stacked) %
			t->sizes[d];
		n += (size_t)snprintf(out + n, 24, "%" PRId64, index);
		text += strlen(t->dims[d]) + 2;
	}
	out[n] = '\0';
	if (*text) {
		return rt_fail(err, RT_FORMAT, where,
			       "found a name of %zu bytes or more, expected "
			       "fewer than %d", strlen(t->name),
			       RT_NAME_BYTES - 24);
	}
	if (used != (1u << t->stacked) - 1) {
		return rt_fail(err, RT_FORMAT, where,
			       "found a name without all of its %" PRId64
			       " stacked dims in braces, expected them: the "
			       "plan is broken", t->stacked);
	}
	return RT_OK;
}

/* ---- spans ---------------------------------------------------------- */

static bool
is_whole(const struct rt_pieces *p, int64_t size)
{
	return p->n == 1 && p->at[0].count == size;
}

/* The first piece from `i` on that is not empty. */
static int64_t
next_piece(const struct rt_pieces *p, int64_t i)
{
	while (i < p->n && p->at[i].count == 0) {
		i++;
	}
	return i;
}

void
rt_spans_begin(struct rt_spans *r, const struct rt_plan *p,
	      const struct rt_hold *h, int64_t rank)
{
	const struct rt_tensor *t = h->tensor;
	int64_t d, stride = 1;

	memset(r, 0, sizeof(*r));
	r->tensor = t;
	for (d = t->ndims - 1; d >= 0; d--) {
		if (d == t->stacked - 1) {
			stride = 1;
		}
		r->stride[d] = stride;
		stride *= t->sizes[d];
		r->pieces[d] = rt_pieces_of(p, h->dims[d], rank, 0);
		r->done |= r->pieces[d]->total == 0;
		r->piece[d] = next_piece(r->pieces[d], 0);
	}
	r->inner = 1;
	d = t->ndims;
	while (d > t->stacked && is_whole(r->pieces[d - 1], t->sizes[d - 1])) {
		r->inner *= t->sizes[--d];
	}
	r->ndims = d;
	r->by_piece = d > t->stacked;
	r->dense = r->by_piece &&
		   r->pieces[d - 1]->total >= t->sizes[d - 1] / 8;
}

/* Advances along dim d; false: it is back at its start. */
static bool
step_dim(struct rt_spans *r, int64_t d)
{
	const struct rt_pieces *p = r->pieces[d];
	bool whole_piece = r->by_piece && d == r->ndims - 1;

	if (!whole_piece && ++r->pos[d] < p->at[r->piece[d]].count) {
		return true;
	}
	r->pos[d] = 0;
	r->piece[d] = next_piece(p, r->piece[d] + 1);
	if (r->piece[d] < p->n) {
		return true;
	}
	r->piece[d] = next_piece(p, 0);
	return false;
}

bool
rt_spans_next(struct rt_spans *r, struct rt_span *span)
{
	int64_t d, at;

	if (r->done) {
		return false;
	}
	memset(span, 0, sizeof(*span));
	span->n = r->inner;
	for (d = 0; d < r->ndims; d++) {
		at = r->pieces[d]->at[r->piece[d]].start + r->pos[d];
		*(d < r->tensor->stacked ? &span->part : &span->at) +=
			at * r->stride[d];
	}
	if (r->by_piece) {
		span->n *= r->pieces[d - 1]->at[r->piece[d - 1]].count;
	}
	span->local = r->local;
	r->local += span->n;
	while (d > 0 && !step_dim(r, d - 1)) {
		d--;
	}
	r->done = d == 0;
	return true;
}

/* ---- replicas ------------------------------------------------------ */

static bool
same_pieces(const struct rt_pieces *a, const struct rt_pieces *b)
{
	int64_t i;

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

/* What another program holds of a tensor; `guess`: its probable index. */
static const struct rt_hold *
hold_of(const struct rt_program *g, const struct rt_tensor *t, int64_t guess)
{
	int64_t i;

	if (guess < g->nholds && g->holds[guess].tensor == t) {
		return &g->holds[guess];
	}
	for (i = 0; i < g->nholds; i++) {
		if (g->holds[i].tensor == t) {
			return &g->holds[i];
		}
	}
	return NULL;
}

bool
rt_store_writes(const struct rt_store *s, const struct rt_hold *h)
{
	const struct rt_plan *p = s->plan;
	const struct rt_hold *other;
	int64_t rank, d;

	if (!h->writes) {
		return false;
	}
	for (rank = 0; rank < s->rank; rank++) {
		other = hold_of(&p->programs[p->program_of[rank]], h->tensor,
				h - s->program->holds);
		if (!other || !other->writes) {
			continue;
		}
		d = 0;
		while (d < h->tensor->ndims &&
		       same_pieces(rt_pieces_of(p, h->dims[d], s->rank, 0),
				   rt_pieces_of(p, other->dims[d], rank, 0))) {
			d++;
		}
		if (d == h->tensor->ndims) {
			return false;
		}
	}
	return true;
}

/* ---- agreement ----------------------------------------------------- */

enum rt_status
rt_store_agree_status(const struct rt_store *s, enum rt_status mine,
		      struct rt_error *err)
{
	struct rt_where nowhere = { NULL, NULL, -1 };
	int64_t who = mine == RT_OK ? 0 : (s->rank + 1) * 8 + mine;
	uint64_t words[RT_ERROR_BYTES / 8] = { 0 };
	struct rt_error theirs = { 0 };
	char text[RT_ERROR_BYTES + 1];
	enum rt_status status;

	_Static_assert(RT_ERROR_BYTES % 8 == 0, "a message is whole words");
	status = rt_comm_max_i64(s->comm, &who, 1, &theirs);
	if (status == RT_OK && who == 0) {
		return RT_OK;
	}
	if (status == RT_OK && who / 8 - 1 == s->rank) {
		memcpy(words, err->message, strlen(err->message));
	}
	if (status == RT_OK) {
		status = rt_comm_sum_u64(s->comm, words, RT_ERROR_BYTES / 8,
					 &theirs);
	}
	/* The rank's own error is the more useful one. */
	if (mine != RT_OK) {
		return mine;
	}
	if (status != RT_OK) {
		*err = theirs;
		return status;
	}
	memcpy(text, words, RT_ERROR_BYTES);
	text[RT_ERROR_BYTES] = '\0';
	return rt_fail(err, (enum rt_status)(who % 8), nowhere,
		       "rank %" PRId64 ": %s", who / 8 - 1, text);
}

/*
 * Fills the inputs of a microbatch from sequences of tokens: the positions that
 * this rank has of `tokens`; of `labels`, which are the same sequences one
 * token later; and, where the model reads them, of what documents make of
 * positions, and which labels count in the loss.
 */
#include "runtime/train/rank.h"

#include <stdlib.h>
#include <string.h>

struct input_filler {
	const struct rt_feed *feed;
	const struct rt_port *port;
	const struct feed_kind *kind;
	int64_t size;		/* positions of a sequence */
	int32_t *to;
};

/*
 * What a sequence has of a document: its number, its first and last position,
 * and the last of its prefix, which is before `first` if it has none.
 */
struct document {
	int64_t number, first, last, prefix_last;
	bool ends;		/* else the sequence ends in it */
};

/* An input of a model that is made from token files. */
struct feed_kind {
	const char *name;
	/* n numbers of a sequence from position `from` on, to f->to */
	enum rt_status (*fill)(const struct input_filler *f, int64_t sequence,
			       int64_t from, int64_t n, struct rt_error *err);
	/* of fill_documents: the number of a position in a document */
	int64_t (*number)(const struct document *d, int64_t position);
	bool sums;		/* of all positions of the batch, one number */
};

static enum rt_status
fill_tokens(const struct input_filler *f, int64_t sequence, int64_t from,
	    int64_t n, struct rt_error *err)
{
	return f->feed->get(f->feed, sequence, from, n, f->to, err);
}

static enum rt_status
fill_labels(const struct input_filler *f, int64_t sequence, int64_t from,
	    int64_t n, struct rt_error *err)
{
	return f->feed->get(f->feed, sequence, from + 1, n, f->to, err);
}

/* Stores a number in the element type of the input. */
static enum rt_status
put_number(const struct input_filler *f, int64_t i, int64_t v,
	   struct rt_error *err)
{
	bool whole = f->port->elem == RT_ELEM_I32;
	int64_t below = whole ? f->port->below : ((int64_t)1 << 24) + 1;
	float number = (float)v;

	if (v >= below) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "a sequence of the "
			       "data needs number %lld of `%s`, and the model "
			       "has 0 to %lld%s", (long long)v, f->port->name,
			       (long long)below - 1, whole ? ": give the dim "
			       "that it indexes the size of a sequence" : "");
	}
	if (whole) {
		f->to[i] = (int32_t)v;
	} else {
		memcpy(&f->to[i], &number, sizeof number);
	}
	return RT_OK;
}

/* The numbers of the positions of a document that are among from .. from + n -
 * 1. */
static enum rt_status
put_document(const struct input_filler *f, const struct document *d,
	     int64_t from, int64_t n, struct rt_error *err)
{
	int64_t i = d->first > from ? d->first : from;
	enum rt_status status = RT_OK;

	for (; i <= d->last && i < from + n && status == RT_OK; i++) {
		status = put_number(f, i - from, f->kind->number(d, i), err);
	}
	return status;
}

/*
 * Documents of a sequence count from 0; the token that ends one is its last.  A
 * sequence that begins in the middle of a document, or ends there, has a part
 * of it, which is a document here.
 */
static enum rt_status
fill_documents(const struct input_filler *f, int64_t sequence, int64_t from,
	       int64_t n, struct rt_error *err)
{
	const struct rt_marks *m = &f->feed->marks;
	int64_t size = f->size, at, i, part;
	struct document d = { .prefix_last = -1 };
	enum rt_status status = RT_OK;
	int32_t tokens[1024];

	for (at = 0; at < size && d.first < from + n && status == RT_OK;
	     at += part) {
		part = size - at < 1024 ? size - at : 1024;
		status = f->feed->get(f->feed, sequence, at, part, tokens,
				      err);
		for (i = at; i < at + part && status == RT_OK; i++) {
			int32_t token = tokens[i - at];

			if (token == m->prefix_end &&
			    d.prefix_last < d.first) {
				d.prefix_last = i;
			}
			if (token == m->document_end || i == size - 1) {
				d.last = i;
				d.ends = token == m->document_end;
				status = put_document(f, &d, from, n, err);
				d = (struct document){ d.number + 1, i + 1, 0,
						       i, false };
			}
		}
	}
	return status;
}

static int64_t
document_number(const struct document *d, int64_t position)
{
	(void)position;
	return d->number;
}

static int64_t
position_in(const struct document *d, int64_t position)
{
	return position - d->first;
}

static int64_t
first_of(const struct document *d, int64_t position)
{
	(void)position;
	return d->first;
}

static int64_t
last_of(const struct document *d, int64_t position)
{
	(void)position;
	return d->last;
}

static int64_t
prefix_last_of(const struct document *d, int64_t position)
{
	return position < d->prefix_last ? d->prefix_last : position;
}

/* Whether the label of a position is of the same document, after its prefix:
 * the label of the last position is the first token of the next document. */
static int64_t
label_counts(const struct document *d, int64_t position)
{
	return position >= d->prefix_last &&
	       !(d->ends && position == d->last);
}

/* 0 where the label is the one that does not count. */
static enum rt_status
leave_out_ignored(const struct input_filler *f, int64_t sequence, int64_t from,
		  int64_t n, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t at, i, part;
	int32_t labels[1024];

	for (at = 0; at < n && status == RT_OK; at += part) {
		part = n - at < 1024 ? n - at : 1024;
		status = f->feed->get(f->feed, sequence, from + at + 1, part,
				      labels, err);
		for (i = 0; i < part && status == RT_OK; i++) {
			if (labels[i] == f->feed->marks.ignored) {
				f->to[at + i] = 0;	/* 0.0 too */
			}
		}
	}
	return status;
}

/* 1 for positions whose labels count in the loss, 0 for others. */
static enum rt_status
fill_loss_mask(const struct input_filler *f, int64_t sequence, int64_t from,
	       int64_t n, struct rt_error *err)
{
	const struct rt_marks *m = &f->feed->marks;
	enum rt_status status = RT_OK;
	int64_t i;

	if (m->document_end >= 0) {
		status = fill_documents(f, sequence, from, n, err);
	}
	for (i = 0; i < n && m->document_end < 0 && status == RT_OK; i++) {
		status = put_number(f, i, 1, err);
	}
	return status == RT_OK && m->ignored >= 0
		? leave_out_ignored(f, sequence, from, n, err) : status;
}

static const struct feed_kind kinds[] = {
	{ "tokens", fill_tokens, NULL, false },
	{ "labels", fill_labels, NULL, false },
	{ "documents", fill_documents, document_number, false },
	{ "positions", fill_documents, position_in, false },
	{ "document_first", fill_documents, first_of, false },
	{ "document_last", fill_documents, last_of, false },
	{ "prefix_last", fill_documents, prefix_last_of, false },
	{ "loss_mask", fill_loss_mask, label_counts, false },
	{ "loss_tokens", fill_loss_mask, label_counts, true },
};

/* Of what is made from marks: the option that is missing, or NULL. */
static const char *
missing_mark(const struct feed_kind *k, const struct rt_marks *m)
{
	bool mask = k->number == label_counts;

	if (mask && m->ignored < 0 && m->document_end < 0) {
		return "the label that does not count, --ignore-label N, or "
		       "the token that ends a document, --document-end N";
	}
	if (k->number && m->document_end < 0 &&
	    (!mask || m->prefix_end >= 0)) {
		return "the token that ends a document, --document-end N";
	}
	return k->number == prefix_last_of && m->prefix_end < 0
		? "the token that ends a prefix, --prefix-end N" : NULL;
}

/* NULL after an error: files of tokens have no such input. */
static const struct feed_kind *
kind_of(const struct rt_port *p, const struct rt_feed *feed,
	struct rt_error *err)
{
	size_t i = 0, n = sizeof kinds / sizeof *kinds;
	const char *mark;

	while (i < n && strcmp(p->name, kinds[i].name) != 0) {
		i++;
	}
	if (i == n || p->ndims != (kinds[i].sums ? 0 : 2) ||
	    (p->elem != RT_ELEM_I32 &&
	     (p->elem != RT_ELEM_F32 || !kinds[i].number)) ||
	    (p->elem == RT_ELEM_I32 && kinds[i].sums)) {
		rt_fail(err, RT_RANGE, RT_NOWHERE, "the input `%s` is none of "
			"tokens, labels, documents, positions, "
			"document_first, document_last, prefix_last, loss_mask "
			"and loss_tokens, f32[], and "
			"cannot be read from token files: --data draw draws "
			"it", rt_show_name(p->name).text);
		return NULL;
	}
	mark = missing_mark(&kinds[i], &feed->marks);
	if (mark) {
		rt_fail(err, RT_RANGE, RT_NOWHERE, "the model reads `%s`: give "
			"%s", p->name, mark);
		return NULL;
	}
	return &kinds[i];
}

/* The positions that this rank has of one sequence. */
static enum rt_status
fill_row(struct input_filler *f, int64_t sequence, const struct rt_pieces *seq,
	 struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < seq->n && status == RT_OK; i++) {
		status = f->kind->fill(f, sequence, seq->at[i].start,
				       seq->at[i].count, err);
		f->to += seq->at[i].count;
	}
	return status;
}

/*
 * Where inputs are assembled: in the arena if the host can write to it, else in
 * a staging buffer.
 */
enum rt_status
rt_feed_staging(struct rt_run *r, int64_t offset, int64_t bytes, int32_t **out,
	     struct rt_error *err)
{
	char *more;

	if (r->device->host) {
		*out = (int32_t *)(void *)(r->device->host + offset);
		return RT_OK;
	}
	if (bytes > r->staging_bytes) {
		more = realloc(r->staging, (size_t)bytes);
		if (!more) {
			return rt_no_memory(err, NULL);
		}
		r->staging = more;
		r->staging_bytes = bytes;
	}
	*out = (int32_t *)(void *)r->staging;
	return RT_OK;
}

/*
 * The sum of the numbers of all sequences of the batch, whichever rank has
 * them: a rank reads the sequences of the others for it.
 */
static enum rt_status
sum_batch(const struct input_filler *f, int64_t batch, float *out,
	  struct rt_error *err)
{
	struct input_filler row = *f;
	enum rt_status status = RT_OK;
	int64_t i, k, sum = 0;
	float number;

	row.to = malloc((size_t)f->size * sizeof *row.to);
	if (!row.to) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < batch && status == RT_OK; i++) {
		status = f->kind->fill(&row, f->feed->first + i, 0, f->size,
				       err);
		for (k = 0; k < f->size && status == RT_OK; k++) {
			memcpy(&number, &row.to[k], sizeof number);
			sum += (int64_t)number;
		}
	}
	free(row.to);
	*out = (float)sum;
	return status;
}

/* One number of the batch, which all of its microbatches get. */
static enum rt_status
fill_sum(struct rt_run *r, struct input_filler *f, int64_t offset,
	 struct rt_error *err)
{
	enum rt_status status = rt_feed_staging(r, offset, sizeof r->batch_sum,
					     &f->to, err);

	if (status == RT_OK && r->microbatch == 0) {
		status = sum_batch(f, r->plan->batch, &r->batch_sum, err);
	}
	if (status == RT_OK) {
		memcpy(f->to, &r->batch_sum, sizeof r->batch_sum);
	}
	return status != RT_OK || r->device->host ? status
		: r->device->kind->write(r->device, offset, r->staging,
					 sizeof r->batch_sum, err);
}

static enum rt_status
fill_port(struct rt_run *r, const struct rt_port *p,
	  const struct rt_feed *feed, struct rt_error *err)
{
	struct input_filler f = { .feed = feed, .port = p };
	const struct rt_pieces *batch, *seq;
	enum rt_status status = RT_OK;
	int64_t offset = p->offset + r->microbatch * p->apart, bytes, i, j;

	f.kind = kind_of(p, feed, err);
	f.size = p->ndims == 2 ? p->dims[1]->size
			       : rt_plan_length(r->plan, &bytes);
	if (!f.kind) {
		return RT_RANGE;
	}
	if (f.kind->sums) {
		return fill_sum(r, &f, offset, err);
	}
	batch = rt_pieces_of(r->plan, p->dims[0], r->rank, r->microbatch);
	seq = rt_pieces_of(r->plan, p->dims[1], r->rank, r->microbatch);
	bytes = batch->total * seq->total * (int64_t)sizeof *f.to;
	status = rt_feed_staging(r, offset, bytes, &f.to, err);
	for (i = 0; i < batch->n; i++) {
		for (j = 0; j < batch->at[i].count && status == RT_OK; j++) {
			status = fill_row(&f, feed->first +
					  batch->at[i].start + j, seq, err);
		}
	}
	return status != RT_OK || r->device->host ? status
		: r->device->kind->write(r->device, offset, r->staging, bytes,
					 err);
}

enum rt_status
rt_feed_fill_inputs(struct rt_run *r, const struct rt_feed *feed,
		    struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < r->program->ninputs && status == RT_OK; i++) {
		status = fill_port(r, &r->program->inputs[i], feed, err);
	}
	return status;
}

enum rt_status
rt_feed_open(struct rt_blend **out, const struct rt_plan *p,
	     const struct rt_source *sources, int64_t n, struct rt_error *err)
{
	struct rt_blend_options o = { .sources = sources, .nsources = n };

	o.length = rt_plan_length(p, &o.below);
	if (o.length == 0) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "this model reads "
			       "no tokens: --data draw draws what it reads");
	}
	return rt_blend_open(out, &o, err);
}

static enum rt_status
get_tokens(const struct rt_feed *f, int64_t sequence, int64_t from, int64_t n,
	   int32_t *out, struct rt_error *err)
{
	return rt_blend_get(f->user, sequence, from, n, out, err);
}

struct rt_feed
rt_feed_of(struct rt_blend *b, int64_t first, const struct rt_marks *marks)
{
	return (struct rt_feed){ get_tokens, b, first, *marks };
}

const struct rt_port *
rt_find_input(const struct rt_program *p, const char *name)
{
	int64_t i;

	for (i = 0; i < p->ninputs; i++) {
		if (strcmp(p->inputs[i].name, name) == 0) {
			return &p->inputs[i];
		}
	}
	return NULL;
}

int64_t
rt_plan_length(const struct rt_plan *p, int64_t *below)
{
	int64_t i;

	for (i = 0; i < p->nprograms; i++) {
		const struct rt_port *t = rt_find_input(&p->programs[i],
							"tokens");

		t = t ? t : rt_find_input(&p->programs[i], "labels");
		if (t && t->ndims == 2) {
			*below = t->below;
			return t->dims[1]->size;
		}
	}
	*below = 0;
	return 0;
}

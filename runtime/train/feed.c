/*
 * Fills the inputs of a microbatch from sequences of tokens: the positions that
 * this rank has of `tokens`, and of `labels`, which are the same sequences one
 * token later.
 */
#include "runtime/train/rank.h"

#include <stdlib.h>
#include <string.h>

struct input_filler {
	const struct rt_feed *feed;
	int64_t later;		/* 1: labels */
	int32_t *to;
};

/* The positions that this rank has of one sequence. */
static enum rt_status
fill_row(struct input_filler *f, int64_t sequence, const struct rt_pieces *seq,
	 struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < seq->n && status == RT_OK; i++) {
		status = f->feed->get(f->feed, sequence,
				      seq->at[i].start + f->later,
				      seq->at[i].count, f->to, err);
		f->to += seq->at[i].count;
	}
	return status;
}

/*
 * Where inputs are assembled: in the arena if the host can write to it, else in
 * a staging buffer.
 */
static enum rt_status
find_staging(struct rt_run *r, int64_t offset, int64_t bytes, int32_t **out,
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

static enum rt_status
fill_port(struct rt_run *r, const struct rt_port *p,
	  const struct rt_feed *feed, struct rt_error *err)
{
	struct input_filler f = { feed, strcmp(p->name, "labels") == 0, NULL };
	const struct rt_pieces *batch, *seq;
	enum rt_status status = RT_OK;
	int64_t offset = p->offset + r->microbatch * p->apart, bytes, i, j;

	if ((!f.later && strcmp(p->name, "tokens") != 0) || p->ndims != 2 ||
	    p->elem != RT_ELEM_I32) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the input `%s` is "
			"neither tokens nor labels, and cannot be read from "
			       "token files: --data draw draws it",
			       rt_show_name(p->name).text);
	}
	batch = rt_pieces_of(r->plan, p->dims[0], r->rank, r->microbatch);
	seq = rt_pieces_of(r->plan, p->dims[1], r->rank, r->microbatch);
	bytes = batch->total * seq->total * (int64_t)sizeof *f.to;
	status = find_staging(r, offset, bytes, &f.to, err);
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
rt_feed_open(struct rt_tokens **out, const struct rt_plan *p,
	     const struct rt_paths *files, struct rt_error *err)
{
	struct rt_tokens_options o = { .paths = files->at, .npaths = files->n };

	o.length = rt_plan_length(p, &o.below);
	if (o.length == 0) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "this model reads "
			       "no tokens: --data draw draws what it reads");
	}
	return rt_tokens_open(out, &o, err);
}

static enum rt_status
get_tokens(const struct rt_feed *f, int64_t sequence, int64_t from, int64_t n,
	   int32_t *out, struct rt_error *err)
{
	return rt_tokens_get(f->user, sequence, from, n, out, err);
}

struct rt_feed
rt_feed_of_tokens(struct rt_tokens *t, int64_t first)
{
	return (struct rt_feed){ get_tokens, t, first };
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

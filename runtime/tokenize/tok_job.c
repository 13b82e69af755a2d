/*
 * A part of an input becomes ids: a stretch of one document, or whole
 * documents in lines of JSON.
 */
#include "runtime/tokenize/tok.h"

#include <inttypes.h>
#include <string.h>

static enum rt_status
no_memory(struct tok_job *job)
{
	return rt_no_memory(&job->err, job->path);
}

/* The message of an error in text that begins at a byte of the file. */
static enum rt_status
place(struct tok_job *job, enum rt_status status, int64_t base)
{
	struct rt_where where = { job->path, NULL, -1 };
	struct rt_error old = job->err;

	if (status == RT_NOMEM) {
		return no_memory(job);
	}
	where.offset = base + old.offset;
	return rt_fail(&job->err, status, where, "%s", old.message);
}

static enum rt_status
before_document(struct tok_job *job, const struct tok_framing *f)
{
	return f->bare || rt_encode_before(f->t, &job->ids) ? RT_OK
							    : no_memory(job);
}

static enum rt_status
after_document(struct tok_job *job, const struct tok_framing *f)
{
	job->documents++;
	return (f->bare || rt_encode_after(f->t, &job->ids)) &&
	       (f->end < 0 || rt_ids_add(&job->ids, (uint32_t)f->end))
		? RT_OK : no_memory(job);
}

static enum rt_status
run_text(struct tok_job *job, struct rt_encoder *e,
	 const struct tok_framing *f)
{
	enum rt_status status = RT_OK;

	if (job->part != RT_PART_LATER) {
		status = before_document(job, f);
	}
	if (status == RT_OK) {
		status = rt_encode(e, job->text.at, job->text.n, job->part,
				   &job->ids, &job->err);
		status = status == RT_OK ? RT_OK : place(job, status,
							 job->base);
	}
	return status == RT_OK && job->ends ? after_document(job, f) : status;
}

/* The text of a record's field; *at: where it lies. */
static bool
read_record(struct rt_json *j, const char *field, const char **text,
	    size_t *n, int64_t *at)
{
	const char *key;
	bool found = false;
	size_t i = 0;

	if (!rt_json_check_utf8(j) || !rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		if (!rt_json_key(j, &key)) {
			return false;
		}
		if (strcmp(key, field) != 0) {
			if (!rt_json_skip(j)) {
				return false;
			}
			continue;
		}
		rt_json_peek(j);
		*at = j->base + (int64_t)j->at;
		found = true;
		if (!rt_json_any_text(j, text, n)) {
			return false;
		}
	}
	if (!rt_json_end(j, " \t\r")) {
		return false;
	}
	return found || rt_json_fail(j, RT_FORMAT, j->text, "found a record "
				     "without the field `%s`: --field names "
				     "the one with the text",
				     rt_show_name(field).text);
}

static enum rt_status
run_line(struct tok_job *job, struct rt_encoder *e,
	 const struct tok_framing *f, char *line, size_t n)
{
	struct rt_json j = { .text = line, .len = n, .path = job->path,
			     .base = job->base + (line - job->text.at),
			     .err = &job->err };
	const char *text = NULL;
	enum rt_status status;
	size_t text_bytes = 0;
	int64_t at = 0;

	if (n == strspn(line, " \t\r")) {
		return RT_OK;
	}
	if (!read_record(&j, f->field, &text, &text_bytes, &at)) {
		return j.status;
	}
	status = before_document(job, f);
	if (status == RT_OK) {
		status = rt_encode(e, text, text_bytes, RT_PART_WHOLE,
				   &job->ids, &job->err);
		if (status != RT_OK) {
			job->err.offset = 0;
			status = place(job, status, at);
		}
	}
	return status == RT_OK ? after_document(job, f) : status;
}

static enum rt_status
run_lines(struct tok_job *job, struct rt_encoder *e,
	  const struct tok_framing *f)
{
	char *at = job->text.at, *end = at + job->text.n, *next;
	enum rt_status status = RT_OK;

	while (at < end && status == RT_OK) {
		next = memchr(at, '\n', (size_t)(end - at));
		next = next ? next : end;
		*next = '\0';	/* the slack has a byte for the last one */
		status = run_line(job, e, f, at, (size_t)(next - at));
		at = next + 1;
	}
	return status;
}

void
rt_tok_job_run(struct tok_job *job, struct rt_encoder *e,
	       const struct tok_framing *f)
{
	job->ids.n = 0;
	job->documents = 0;
	job->status = job->lines ? run_lines(job, e, f) : run_text(job, e, f);
}

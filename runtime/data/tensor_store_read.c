/*
 * Reads what a rank holds out of tensors in files.
 *
 * Long spans are read straight to their place.  Short ones that are close to
 * each other come out of a window that is read at once, so that a matrix whose
 * columns are sharded does not cost one system call a row.
 */
#include "runtime/data/tensor_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/elems.h"
#include "runtime/data/safetensors.h"

/* ---- what is stored ------------------------------------------------- */

/* A list of sizes, truncated where it is too long for a message. */
struct shape_text {
	char text[120];
	size_t n;
};

static void
list_add(struct shape_text *l, const char *name, int64_t size)
{
	size_t free_bytes = sizeof(l->text) - l->n;
	int n;

	n = snprintf(l->text + l->n, free_bytes, "%s%s%s%" PRId64,
		     l->n ? ", " : "", name, *name ? "=" : "", size);
	l->n += n > 0 && (size_t)n < free_bytes ? (size_t)n : free_bytes - 1;
}

static enum rt_status
fail_shape(const char *path, const char *name, const struct rt_tensor *t,
	   const struct rt_st_tensor *stored, struct rt_error *err)
{
	struct rt_where where = { path, name, -1 };
	struct shape_text ours = { 0 }, theirs = { 0 };
	int64_t d;

	for (d = t->stacked; d < t->ndims; d++) {
		list_add(&ours, t->dims[d], t->sizes[d]);
	}
	for (d = 0; d < stored->ndim; d++) {
		list_add(&theirs, "", stored->shape[d]);
	}
	return rt_fail(err, RT_FORMAT, where,
		       "found [%s], expected [%s] or products of neighbours "
		       "in it", theirs.text, ours.text);
}

/* Of numbers that are nothing without their scales. */
static const char *
about_scales(enum rt_dtype stored)
{
	return stored == RT_F8_E4M3 || stored == RT_I8
		? "; 8 bits are read as quantization_config of a config.json "
		  "beside the file says, and there is none" : "";
}

/* Whether the stored elements can become those of the tensor. */
static enum rt_status
check_elems(const struct rt_tensor *t, const struct rt_st_tensor *stored,
	    struct rt_where where, struct rt_error *err)
{
	enum rt_elem to = (enum rt_elem)t->elem;
	const char *found = rt_dtype_name(stored->dtype);
	const char *more = about_scales(stored->dtype);

	if (t->rounded) {
		return rt_elems_are_real(stored->dtype) ? RT_OK :
			rt_fail(err, RT_FORMAT, where, "found %s, expected "
				"BF16, F16, F32 or F64%s", found, more);
	}
	return rt_elems_convertible(stored->dtype, to) ? RT_OK :
		rt_fail(err, RT_FORMAT, where, "found %s, expected %s%s%s",
			found, rt_dtype_name(rt_elem_dtype(to)),
			to == RT_ELEM_I32 ? ""
			: " or another of F64, F32, BF16 and F16", more);
}

enum rt_status
rt_find_part(const struct rt_st *st, const char *path,
	     const struct rt_tensor *t, int64_t part,
	     const struct rt_st_tensor **found, struct rt_error *err)
{
	const struct rt_st_tensor *stored;
	struct rt_where where = { path, NULL, -1 };
	char name[RT_NAME_BYTES];
	enum rt_status status;
	const char *near;

	status = rt_part_name(t, part, name, err);
	if (status != RT_OK) {
		return status;
	}
	where.tensor = name;
	stored = rt_st_find(st, name);
	if (!stored) {
		near = rt_st_nearest(st, name);
		return rt_fail(err, RT_FORMAT, where,
			       "not found among %zu, expected it%s%s%s",
			       rt_st_count(st),
			       near ? "; the nearest that is there is '" : "",
			       near ? rt_show_name(near).text : "",
			       near ? "'" : "");
	}
	if (!rt_st_fits(stored, t->sizes + t->stacked,
			t->ndims - t->stacked)) {
		return fail_shape(path, name, t, stored, err);
	}
	*found = stored;
	return check_elems(t, stored, where, err);
}

/* ---- reading ------------------------------------------------------- */

struct part_reader {
	const struct rt_st *st;
	const struct rt_st_tensor *stored;
	enum rt_elem elem;
	int bytes; /* of an element in the file */
	bool dense;
	int64_t from, to; /* elements of `stored` in the window */
	unsigned char window[RT_WINDOW_BYTES];
};

/*
 * Points *out at n elements, which must fit into the window, and reads them if
 * they are not in it.
 */
static enum rt_status
fetch(struct part_reader *r, int64_t at, int64_t n, const unsigned char **out,
      struct rt_error *err)
{
	int64_t all = rt_st_elems(r->stored), most = n;
	enum rt_status status;

	if (at < r->from || at + n > r->to) {
		if (r->dense) {
			most = RT_WINDOW_BYTES / r->bytes;
		}
		if (most > all - at) {
			most = all - at;
		}
		r->to = r->from = at;
		status = rt_st_read_raw(r->st, r->stored, at * r->bytes,
					most * r->bytes, r->window, err);
		if (status != RT_OK) {
			return status;
		}
		r->to = at + most;
	}
	*out = r->window + (at - r->from) * r->bytes;
	return RT_OK;
}

/* sum: NULL, or what the checksum is added to. */
static enum rt_status
read_span(struct part_reader *r, const struct rt_span *span, char *out,
	  uint64_t *sum, struct rt_error *err)
{
	bool same = r->stored->dtype == rt_elem_dtype(r->elem);
	int64_t bytes = rt_elem_bytes(r->elem), i, n;
	const unsigned char *from = NULL;
	enum rt_status status;

	if (same && span->n * bytes >= RT_WINDOW_BYTES / 2) {
		status = rt_st_read_raw(r->st, r->stored, span->at * bytes,
					span->n * bytes, out, err);
		if (status == RT_OK && sum) {
			*sum += rt_elems_sum(r->bytes, out, span->at, span->n);
		}
		return status;
	}
	for (i = 0; i < span->n; i += n) {
		n = span->n - i;
		if (n > RT_WINDOW_BYTES / r->bytes) {
			n = RT_WINDOW_BYTES / r->bytes;
		}
		status = fetch(r, span->at + i, n, &from, err);
		if (status != RT_OK) {
			return status;
		}
		if (sum) {
			*sum += rt_elems_sum(r->bytes, from, span->at + i, n);
		}
		rt_elems_convert(r->stored->dtype, from, r->elem,
				 out + i * bytes, n);
	}
	return RT_OK;
}

/* Goes on to another part, whose tensor exists: rt_find_part() found it. */
static enum rt_status
turn_to(struct part_reader *r, const struct rt_tensor *t, int64_t part,
	struct rt_error *err)
{
	char name[RT_NAME_BYTES];
	enum rt_status status;

	status = rt_part_name(t, part, name, err);
	if (status != RT_OK) {
		return status;
	}
	r->stored = rt_st_find(r->st, name);
	r->bytes = rt_dtype_bits(r->stored->dtype) / 8;
	r->from = r->to = 0;
	return RT_OK;
}

/* Splits spans that are longer than a window. */
static enum rt_status
store_span(struct part_reader *r, struct rt_window *w, const struct rt_hold *h,
	   const struct rt_span *span, uint64_t *sum, struct rt_error *err)
{
	int64_t bytes = rt_elem_bytes((enum rt_elem)h->tensor->elem);
	int64_t most = rt_window_most(w) / bytes, i;
	enum rt_status status = RT_OK;
	char *to;

	for (i = 0; i < span->n && status == RT_OK; i += most) {
		struct rt_span s = { span->part, span->at + i,
				     span->local + i, span->n - i };

		s.n = s.n < most ? s.n : most;
		status = rt_window_write(w, h->offset + s.local * bytes,
					 s.n * bytes, &to, err);
		if (status == RT_OK) {
			status = read_span(r, &s, to, sum, err);
		}
		if (most > span->n - i) {
			break;
		}
	}
	return status;
}

enum rt_status
rt_store_read(const struct rt_store *s, const struct rt_st *st,
	      const struct rt_hold *h, uint64_t *sums, struct rt_error *err)
{
	int64_t part = -1;
	enum rt_status status;
	struct rt_spans spans;
	struct rt_window w;
	struct rt_span span;
	struct part_reader r;

	if (h->tensor->rounded) {
		return rt_store_round(s, st, h, sums, err);
	}
	r.st = st;
	r.elem = (enum rt_elem)h->tensor->elem;
	rt_spans_begin(&spans, s->plan, h, s->rank);
	r.dense = spans.dense;
	status = rt_window_open(&w, s->device, s->arena, err);
	while (status == RT_OK && rt_spans_next(&spans, &span)) {
		if (span.part != part) {
			part = span.part;
			status = turn_to(&r, h->tensor, part, err);
		}
		if (status == RT_OK) {
			status = store_span(&r, &w, h, &span,
					    sums ? &sums[part] : NULL, err);
		}
	}
	return rt_window_close(&w, status, err);
}

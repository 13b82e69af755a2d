/*
 * .safetensors files that all ranks write together: see safetensors_write.h.
 *
 * In a file tensors are sorted by element size, the largest first, and then by
 * name, so that each begins at a multiple of its element size: readers that map
 * the file require it.
 */
#include "runtime/data/safetensors_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/elems.h"

/* ---- the layout ---------------------------------------------------- */

static int
by_place(const void *a, const void *b)
{
	const struct rt_stored *s = a, *t = b;
	int64_t larger;

	if (s->file != t->file) {
		return s->file - t->file;
	}
	larger = rt_elem_bytes((enum rt_elem)t->tensor->elem) -
		 rt_elem_bytes((enum rt_elem)s->tensor->elem);
	if (larger != 0) {
		return larger > 0 ? 1 : -1;
	}
	return strcmp(s->name, t->name);
}

static enum rt_status
add_parts(struct rt_layout *l, const struct rt_tensor *t, struct rt_error *err)
{
	int64_t parts = rt_tensor_parts(t), part;
	char name[RT_NAME_BYTES];
	struct rt_stored *s;
	enum rt_status status;

	for (part = 0; part < parts && !t->scales_of; part++) {
		status = rt_part_name(t, part, name, err);
		if (status != RT_OK) {
			return status;
		}
		s = &l->at[l->n];
		memset(s, 0, sizeof(*s));
		s->name = rt_join(&l->alloc, name, strlen(name), "");
		if (!s->name) {
			return rt_no_memory(err, NULL);
		}
		s->tensor = t;
		s->part = part;
		s->file = t->loaded ? RT_STORED_MODEL : RT_STORED_STATE;
		s->bytes = rt_part_elems(t) *
			   rt_elem_bytes((enum rt_elem)t->elem);
		l->n++;
	}
	return RT_OK;
}

/* The sizes of a part, those of joined dims as their product. */
static void
add_shape(struct rt_text *h, const struct rt_tensor *t, int64_t joins)
{
	int64_t d = t->stacked, size;

	while (d < t->ndims) {
		rt_text_add(h, "%s", d > t->stacked ? "," : "");
		size = t->sizes[d++];
		while (d < t->ndims && joins & (int64_t)1 << d) {
			size *= t->sizes[d++];
		}
		rt_text_add(h, "%" PRId64, size);
	}
}

/* The header of a file, padded so that the data begins at a multiple of 8. */
static enum rt_status
make_header(struct rt_layout *l, int file, struct rt_error *err)
{
	struct rt_text *h = &l->files[file].header;
	const struct rt_tensor *t;
	struct rt_stored *s;
	int64_t at = 0;
	uint64_t length;
	size_t i;

	h->alloc = l->alloc;
	/* Readers of transformers require this entry. */
	rt_text_add(h, "%8s{\"__metadata__\":{\"format\":\"pt\"}", "");
	for (i = 0; i < l->n; i++) {
		s = &l->at[i];
		t = s->tensor;
		if (s->file != file) {
			continue;
		}
		rt_text_add(h, ",");
		rt_text_string(h, s->name);
		rt_text_add(h, ":{\"dtype\":\"%s\",\"shape\":[",
			    rt_dtype_name(rt_elem_dtype(
				    (enum rt_elem)t->elem)));
		add_shape(h, t, l->joins ? t->joins : 0);
		s->begin = at;
		at += s->bytes;
		rt_text_add(h, "],\"data_offsets\":[%" PRId64 ",%" PRId64
			    "]}", s->begin, at);
	}
	rt_text_add(h, "}");
	while (h->n % 8 != 0 && !h->failed) {
		rt_text_add(h, " ");
	}
	if (h->failed) {
		return rt_no_memory(err, NULL);
	}
	length = h->n - 8;
	memcpy(h->at, &length, 8);
	l->files[file].bytes = (int64_t)h->n + at;
	return RT_OK;
}

/* Allocates for all tensors of the plan, in `nfiles` files. */
static enum rt_status
allocate(struct rt_layout *l, const struct rt_plan *p, struct rt_error *err)
{
	size_t n = 0, i;

	l->alloc = rt_alloc_or_libc(NULL);
	l->first = rt_resize(&l->alloc, NULL, (size_t)p->ntensors,
			     sizeof(*l->first));
	if (!l->first) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < (size_t)p->ntensors; i++) {
		l->first[i] = n;
		n += p->tensors[i].scales_of ? 0
			: (size_t)rt_tensor_parts(&p->tensors[i]);
	}
	l->at = rt_resize(&l->alloc, NULL, n, sizeof(*l->at));
	l->place = rt_resize(&l->alloc, NULL, n, sizeof(*l->place));
	if (!l->at || !l->place) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < n; i++) {
		l->place[i] = SIZE_MAX;
	}
	return RT_OK;
}

/* Once each part has its file: the order in them, and their headers. */
static enum rt_status
arrange(struct rt_layout *l, const struct rt_plan *p, int nfiles,
	struct rt_error *err)
{
	enum rt_status status = RT_OK;
	size_t k;
	int file;

	l->files = rt_resize(&l->alloc, NULL, (size_t)nfiles,
			     sizeof(*l->files));
	if (!l->files) {
		return rt_no_memory(err, NULL);
	}
	memset(l->files, 0, (size_t)nfiles * sizeof(*l->files));
	l->nfiles = nfiles;
	if (l->n > 0) {
		qsort(l->at, l->n, sizeof(*l->at), by_place);
	}
	for (k = 0; k < l->n; k++) {
		l->place[rt_layout_first(l, p, l->at[k].tensor) +
			 (size_t)l->at[k].part] = k;
	}
	for (file = 0; file < nfiles && status == RT_OK; file++) {
		status = make_header(l, file, err);
	}
	return status;
}

enum rt_status
rt_layout_init(struct rt_layout *l, const struct rt_plan *p,
	       struct rt_error *err)
{
	enum rt_status status;
	int64_t i;

	memset(l, 0, sizeof(*l));
	status = allocate(l, p, err);
	for (i = 0; i < p->ntensors && status == RT_OK; i++) {
		status = add_parts(l, &p->tensors[i], err);
	}
	return status == RT_OK ? arrange(l, p, RT_STORED_FILES, err) : status;
}

static int
by_name(const void *a, const void *b)
{
	const struct rt_stored *s = a, *t = b;

	return strcmp(s->name, t->name);
}

/* Fills one file after the other, in the order of names; returns how many. */
static int
fill_files(struct rt_layout *l, int64_t most_bytes)
{
	int64_t bytes = 0;
	int file = 0;
	size_t k;

	if (l->n > 0) {
		qsort(l->at, l->n, sizeof(*l->at), by_name);
	}
	for (k = 0; k < l->n; k++) {
		if (bytes > 0 && bytes + l->at[k].bytes > most_bytes) {
			file++;
			bytes = 0;
		}
		bytes += l->at[k].bytes;
		l->at[k].file = file;
	}
	return file + 1;
}

enum rt_status
rt_layout_init_export(struct rt_layout *l, const struct rt_plan *p,
		      int64_t most_bytes, struct rt_error *err)
{
	enum rt_status status;
	int64_t i;

	memset(l, 0, sizeof(*l));
	l->joins = true;
	status = allocate(l, p, err);
	for (i = 0; i < p->ntensors && status == RT_OK; i++) {
		if (p->tensors[i].loaded) {
			status = add_parts(l, &p->tensors[i], err);
		}
	}
	return status == RT_OK
		? arrange(l, p, fill_files(l, most_bytes), err) : status;
}

void
rt_layout_release(struct rt_layout *l)
{
	size_t i;
	int file;

	for (i = 0; i < l->n; i++) {
		rt_release(&l->alloc, l->at[i].name);
	}
	for (file = 0; file < l->nfiles; file++) {
		rt_text_release(&l->files[file].header);
	}
	rt_release(&l->alloc, l->files);
	rt_release(&l->alloc, l->at);
	rt_release(&l->alloc, l->place);
	rt_release(&l->alloc, l->first);
}

size_t
rt_layout_first(const struct rt_layout *l, const struct rt_plan *p,
		const struct rt_tensor *t)
{
	return l->first[t - p->tensors];
}

/* ---- writing ------------------------------------------------------- */

struct part_writer {
	const struct rt_layout *layout;
	const struct rt_store *store;
	struct rt_window window;
	int file, fd;
	const char *path;
	uint64_t *sums, *elems;
};

/*
 * `left`: elements of the tensor from the span on.  The window reads ahead that
 * far, since the next span most likely follows this one in memory.
 */
static enum rt_status
write_span(struct part_writer *x, const struct rt_hold *h,
	   const struct rt_span *span, int64_t left, struct rt_error *err)
{
	const struct rt_layout *l = x->layout;
	int64_t bytes = rt_elem_bytes((enum rt_elem)h->tensor->elem);
	int64_t most = rt_window_most(&x->window) / bytes, i, n;
	size_t k = l->place[rt_layout_first(l, x->store->plan, h->tensor) +
			    (size_t)span->part];
	enum rt_status status = RT_OK;
	char *from;

	if (k == SIZE_MAX || l->at[k].file != x->file) {
		return RT_OK;
	}
	for (i = 0; i < span->n && status == RT_OK; i += n) {
		n = span->n - i < most ? span->n - i : most;
		status = rt_window_read(&x->window, h->offset +
					(span->local + i) * bytes, n * bytes,
					(left - i) * bytes, &from, err);
		if (status != RT_OK) {
			break;
		}
		status = rt_files_write(
			rt_files_or_system(x->store->files), x->fd, x->path,
			from, n * bytes, (int64_t)l->files[x->file].header.n +
				l->at[k].begin + (span->at + i) * bytes, err);
		x->sums[k] += rt_elems_sum((int)bytes, from, span->at + i, n);
	}
	x->elems[k] += (uint64_t)span->n;
	return status;
}

static int64_t
elems_of(const struct rt_store *s, const struct rt_hold *h)
{
	int64_t n = 1, d;

	for (d = 0; d < h->tensor->ndims; d++) {
		n *= rt_pieces_of(s->plan, h->dims[d], s->rank, 0)->total;
	}
	return n;
}

/* Whether a part of the tensor is in that file; scales are in none. */
static bool
is_in_file(const struct rt_layout *l, const struct rt_plan *p,
	   const struct rt_tensor *t, int file)
{
	size_t first = rt_layout_first(l, p, t);
	int64_t parts = t->scales_of ? 0 : rt_tensor_parts(t), i;

	for (i = 0; i < parts; i++) {
		size_t k = l->place[first + (size_t)i];

		if (k != SIZE_MAX && l->at[k].file == file) {
			return true;
		}
	}
	return false;
}

enum rt_status
rt_layout_write(const struct rt_layout *l, const struct rt_store *s, int file,
		int fd, const char *path, uint64_t *sums, uint64_t *elems,
		struct rt_error *err)
{
	struct part_writer x = { .layout = l, .store = s, .file = file, .fd =
				fd,
			    .path = path, .sums = sums, .elems = elems };
	const struct rt_program *g = s->program;
	const struct rt_hold *h;
	enum rt_status status = rt_window_open(&x.window, s->device, s->arena,
					       err);
	struct rt_spans spans;
	struct rt_span span;

	for (h = g->holds; h < g->holds + g->nholds; h++) {
		if (!is_in_file(l, s->plan, h->tensor, file) ||
		    !rt_store_writes(s, h)) {
			continue;
		}
		rt_spans_begin(&spans, s->plan, h, s->rank);
		while (status == RT_OK && rt_spans_next(&spans, &span)) {
			status = write_span(&x, h, &span, elems_of(s, h) -
					    span.local, err);
		}
	}
	return rt_window_close(&x.window, status, err);
}

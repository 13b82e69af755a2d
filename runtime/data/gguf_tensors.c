/*
 * The tensors of a GGUF file: what is said of each before the data, and that
 * the data is that of all of them.  One that has the matrices of all experts of
 * a layer becomes one tensor for each: see gguf.h.
 */
#include "runtime/data/gguf_reading.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 4, MOST_EXPERTS = 4096, MOST_PARTS = 1 << 20 };

/* ---- one of them ------------------------------------------------------ */

/* Sizes, the last of which comes first in the file. */
static void
read_shape(struct gguf_reading *r, struct rt_st_tensor *t)
{
	uint64_t n = rt_gguf_number(r, 4), size;
	int64_t elems = 1;
	int i;

	if (n < 1 || n > MOST_DIMS) {
		rt_gguf_fail(r, r->at - 4, "found %" PRIu64 " dimensions, "
			     "expected 1 to %d", n, MOST_DIMS);
	}
	t->ndim = r->status == RT_OK ? (int)n : 0;
	for (i = t->ndim - 1; i >= 0 && r->status == RT_OK; i--) {
		size = rt_gguf_number(r, 8);
		if (size < 1 || size > (uint64_t)(INT64_MAX / 64 / elems)) {
			rt_gguf_fail(r, r->at - 8, "found size %" PRIu64
				     ", expected 1 to what 2^57 elements allow",
				     size);
			return;
		}
		t->shape[i] = (int64_t)size;
		elems *= t->shape[i];
	}
}

/* The bytes that the file has of it; 0 after an error. */
static int64_t
read_type(struct gguf_reading *r, struct rt_st_tensor *t,
	  struct rt_gguf_view *v)
{
	uint64_t number = rt_gguf_number(r, 4);

	if (r->status != RT_OK) {
		return 0;
	}
	v->type = rt_gguf_type(number);
	if (!v->type) {
		rt_gguf_fail(r, r->at - 4, "found type %" PRIu64 ", %s, "
			     "expected one of %s", number,
			     rt_gguf_type_name(number), rt_gguf_types);
		return 0;
	}
	t->dtype = v->type->dtype;
	v->columns = t->shape[t->ndim - 1];
	v->elem_bytes = rt_dtype_bits(t->dtype) / 8;
	if (v->columns % v->type->block != 0) {
		rt_gguf_fail(r, r->at - 4, "found rows of %" PRId64 " elements "
			     "of %s, expected a multiple of %d", v->columns,
			     v->type->name, v->type->block);
		return 0;
	}
	return rt_st_elems(t) / v->type->block * v->type->bytes;
}

/* Halves or thirds of heads that take turns: a bias has a row for each
 * element. */
static void
find_turns(struct gguf_reading *r, struct rt_st_tensor *t,
	   struct rt_gguf_view *v, const struct rt_gguf_name *name, int64_t at)
{
	int64_t rows = t->shape[0], heads = name->heads;
	int parts = name->thirds ? 3 : 2;

	if (heads == 0) {
		return;
	}
	if (rows % (parts * heads) != 0) {
		rt_gguf_fail(r, at, "found %" PRId64 " rows, expected a "
			     "multiple of %d for each head", rows, parts);
	}
	v->head_rows = rows / (name->thirds ? 3 * heads : heads);
	v->third_rows = name->thirds ? rows / 3 : 0;
	v->columns = t->ndim == 1 ? 1 : rt_st_elems(t) / rows;
}

static void
check_experts(struct gguf_reading *r, const struct rt_st_tensor *t, int64_t at)
{
	if (t->ndim != 3 || t->shape[0] > MOST_EXPERTS) {
		rt_gguf_fail(r, at, "found %" PRId64 " matrices of experts in "
			     "%d dimensions, expected at most %d in 3",
			     t->shape[0], t->ndim, MOST_EXPERTS);
	}
}

/* A matrix for each head or expert, or the only one; of biases, a vector. */
static void
find_matrices(struct gguf_reading *r, struct rt_st_tensor *t,
	      struct rt_gguf_view *v, enum rt_gguf_part part, int64_t at)
{
	bool is_bias = part == RT_GGUF_GATES || part == RT_GGUF_GATED;

	if (t->ndim == 2 && r->model->family->of == RT_GGUF_GPT2) {
		v->matrices = 1;
		v->rows = t->shape[0];
		v->cols = t->shape[1];
		return;
	}
	if (t->ndim != 3 && !(is_bias && t->ndim == 2)) {
		rt_gguf_fail(r, at, "found %d dimensions, expected 3: a matrix "
			     "of each head or expert", t->ndim);
		return;
	}
	v->matrices = t->shape[0];
	v->rows = t->shape[1];
	v->cols = t->ndim == 3 ? t->shape[2] : 1;
}

static void
read_name(struct gguf_reading *r, struct rt_gguf_name *name)
{
	char theirs[RT_GGUF_MOST_NAME + 1];
	int64_t at = r->at;
	uint64_t n = rt_gguf_text(r, theirs, sizeof(theirs));

	if (r->status == RT_OK && (n < 1 || n > RT_GGUF_MOST_NAME ||
				   strlen(theirs) != n)) {
		rt_gguf_fail(r, at, "found a name of %" PRIu64 " bytes, or one "
			     "with a NUL, expected 1 to %d", n,
			     RT_GGUF_MOST_NAME);
	}
	rt_gguf_name(r->model, theirs, name);
}

/* Its bytes in the file are those from `begin` of the data on. */
static void
read_tensor(struct gguf_reading *r, size_t i)
{
	struct rt_st_tensor *t = &r->st->header.tensors[i];
	struct rt_gguf_view *v = &r->views[i];
	int64_t at = r->at, bytes;
	uint64_t offset;

	read_name(r, &r->names[i]);
	t->name = r->tensor = r->names[i].text;
	read_shape(r, t);
	bytes = read_type(r, t, v);
	offset = rt_gguf_number(r, 8);
	if (offset % (uint64_t)r->alignment != 0 ||
	    offset > (uint64_t)(INT64_MAX / 2) || bytes > INT64_MAX / 2) {
		rt_gguf_fail(r, r->at - 8, "found offset %" PRIu64
			     ", expected a multiple of the alignment", offset);
	}
	if (r->status == RT_OK) {
		find_turns(r, t, v, &r->names[i], at);
		t->shard = v->shard = (size_t)(r->s - r->st->shards);
		t->begin = (int64_t)offset;
		t->end = t->begin + bytes;
	}
	if (r->status == RT_OK && r->names[i].experts) {
		check_experts(r, t, at);
	}
	if (r->status == RT_OK && r->names[i].is_row && t->ndim == 1) {
		t->shape[t->ndim++] = t->shape[0];
		t->shape[0] = 1;
	}
	if (r->status == RT_OK && r->names[i].part != RT_GGUF_WHOLE) {
		find_matrices(r, t, v, r->names[i].part, at);
	}
	if (r->status == RT_OK && r->names[i].plus_one) {
		v->less = 1;
		if (strcmp(v->type->name, "F32") != 0) {
			rt_gguf_fail(r, at, "found a norm of %s, expected F32",
				     v->type->name);
		}
	}
	r->tensor = NULL;
}

/* ---- among each other -------------------------------------------------- */

static int
by_offset(const void *a, const void *b)
{
	const struct rt_st_tensor *t = *(const struct rt_st_tensor *const *)a;
	const struct rt_st_tensor *u = *(const struct rt_st_tensor *const *)b;

	return t->begin != u->begin ? (t->begin < u->begin ? -1 : 1)
		: t->end != u->end ? (t->end < u->end ? -1 : 1)
		: strcmp(t->name, u->name);
}

/* Each begins where the one before it ends, and the last ends in the file. */
static void
check_cover(struct gguf_reading *r, const struct rt_st_tensor **order,
	    size_t n)
{
	int64_t have = r->s->file_bytes - r->s->data_at, end = 0, from;
	size_t i;

	for (i = 0; i < n && r->status == RT_OK; i++) {
		r->tensor = order[i]->name;
		from = rt_gguf_padded(r, end);
		if (order[i]->begin != from) {
			rt_gguf_fail(r, -1, "found its data elsewhere, "
				     "expected it at offset %" PRId64 ", where "
				     "that of the one before ends", from);
		} else if (order[i]->end > have) {
			rt_gguf_fail(r, -1, "found %" PRId64 " bytes of data "
				     "in the file, expected all of it", have);
		}
		end = order[i]->end;
	}
	r->tensor = NULL;
	if (have != end && have != rt_gguf_padded(r, end)) {
		rt_gguf_fail(r, r->s->data_at + end, "found %" PRId64 " bytes "
			     "after the last tensor, expected none",
			     have - end);
	}
}

/* Of those from the first on. */
static void
check_all(struct gguf_reading *r, size_t first)
{
	struct rt_header *h = &r->st->header;
	const struct rt_st_tensor **order;
	size_t n = h->n - first, i;

	order = rt_resize(&r->st->alloc, NULL, n + 1, sizeof(*order));
	if (!order) {
		r->status = rt_no_memory(r->err, r->s->path);
		return;
	}
	for (i = 0; i < n; i++) {
		order[i] = &h->tensors[first + i];
	}
	qsort(order, n, sizeof(*order), by_offset);
	check_cover(r, order, n);
	rt_release(&r->st->alloc, order);
}

/* ---- as they are read --------------------------------------------------- */

/* Arrays for n tensors. */
static bool
allocate(struct gguf_reading *r, size_t n)
{
	const struct rt_alloc *a = &r->st->alloc;
	struct rt_header *h = &r->st->header;

	h->tensors = rt_resize(a, NULL, n + 1, sizeof(*h->tensors));
	r->views = r->st->views = rt_resize(a, NULL, n + 1,
					    sizeof(*r->views));
	r->names = rt_resize(a, NULL, n + 1, sizeof(*r->names));
	h->text = (char *)r->names;
	if (!h->tensors || !r->views || !r->names) {
		r->status = rt_no_memory(r->err, r->s->path);
		return false;
	}
	memset(h->tensors, 0, (n + 1) * sizeof(*h->tensors));
	memset(r->views, 0, (n + 1) * sizeof(*r->views));
	h->capacity = n + 1;
	h->n = 0;
	return true;
}

/* Appends one that is `part` of so many equal parts of what the file has. */
static void
add_part(struct gguf_reading *r, const struct rt_st_tensor *all,
	 const struct rt_gguf_view *view, const struct rt_gguf_name *name,
	 int64_t part, int64_t parts)
{
	struct rt_header *h = &r->st->header;
	struct rt_st_tensor *t = &h->tensors[h->n];
	struct rt_gguf_view *v = &r->views[h->n];
	struct rt_gguf_name *own = &r->names[h->n++];
	const char *star = name->experts ? strchr(name->text, '*') : NULL;
	int64_t bytes = (all->end - all->begin) / parts;

	*t = *all;
	*v = *view;
	*own = *name;
	if (star) {
		snprintf(own->text, sizeof(own->text), "%.*s%" PRId64 "%s",
			 (int)(star - name->text), name->text, part, star + 1);
		t->ndim = 2;
		t->shape[0] = all->shape[1];
		t->shape[1] = all->shape[2];
	}
	t->name = own->text;
	t->begin = v->at = all->begin + part * bytes;
	t->end = t->begin + bytes;
	/* What is read through a view is said to be as it is read. */
	if (v->type->widen || v->head_rows > 0 || v->less != 0 ||
	    name->part != RT_GGUF_WHOLE) {
		t->view = v;
		t->begin = 0;
		t->end = rt_st_elems(t) * v->elem_bytes;
	}
}

/* Of tensors of the file, those that are read. */
static void
add_parts(struct gguf_reading *r)
{
	const struct rt_alloc *a = &r->st->alloc;
	struct rt_st_tensor *tensors = r->st->header.tensors;
	struct rt_gguf_view *views = r->views;
	struct rt_gguf_name *names = r->names;
	size_t n = r->st->header.n, all = 0, i;
	int64_t part, parts;

	for (i = 0; i < n; i++) {
		all += names[i].experts ? (size_t)tensors[i].shape[0] : 1;
	}
	if (all > n && all > MOST_PARTS) {
		rt_gguf_fail(r, -1, "found %zu tensors with those of experts, "
			     "expected at most %d", all, MOST_PARTS);
		return;
	}
	allocate(r, all);
	for (i = 0; i < n && r->status == RT_OK; i++) {
		parts = names[i].experts ? tensors[i].shape[0] : 1;
		for (part = 0; part < parts; part++) {
			add_part(r, &tensors[i], &views[i], &names[i], part,
				 parts);
		}
	}
	rt_release(a, tensors);
	rt_release(a, views);
	rt_release(a, names);
}

/* Those of one name are in the order of the files. */
static int
by_name(const void *a, const void *b)
{
	const struct rt_st_tensor *t = a, *u = b;
	int order = strcmp(t->name, u->name);

	if (order == 0 && t->shard != u->shard) {
		return t->shard < u->shard ? -1 : 1;
	}
	return order != 0 ? order : t->view < u->view ? -1 : t->view > u->view;
}

static enum rt_gguf_part
part_of(const struct gguf_reading *r, const struct rt_st_tensor *t)
{
	return t->view ? r->names[t->view - r->views].part : RT_GGUF_WHOLE;
}

/* Says where numbers of a matrix are read. */
static void
place(struct rt_gguf_view *v, int64_t each, int64_t base, int64_t by_row,
      int64_t by_col)
{
	v->each = each;
	v->base = base;
	v->by_row = by_row;
	v->by_col = by_col;
}

/* What is read is of f32, and has these sizes; the first two of `matrices` as
 * one if there are two. */
static void
reshape(struct rt_st_tensor *t, struct rt_gguf_view *v, int64_t rows,
	int64_t cols, int ndim)
{
	v->elem_bytes = sizeof(float);
	t->dtype = RT_F32;
	t->ndim = ndim;
	t->shape[0] = ndim == 2 ? v->matrices * rows : v->matrices;
	t->shape[ndim - 2] = ndim == 2 ? t->shape[0] : rows;
	t->shape[ndim - 1] = cols;
	t->begin = 0;
	t->end = rt_st_elems(t) * v->elem_bytes;
}

/* Makes one tensor of keys, or gates, and what goes with them. */
static void
join(struct gguf_reading *r, struct rt_st_tensor *t,
     const struct rt_st_tensor *other)
{
	struct rt_gguf_view *v = &r->views[t->view - r->views];
	struct rt_gguf_view *w = &r->views[other->view - r->views];
	bool of_heads = part_of(r, t) == RT_GGUF_KEYS;
	int64_t each;

	if (v->matrices != w->matrices || (of_heads ? v->rows != w->cols
		: v->rows != w->rows || v->cols != w->cols)) {
		rt_gguf_fail(r, -1, "found %" PRId64 " matrices of %" PRId64
			     " by %" PRId64 " beside %" PRId64 " of %" PRId64
			     " by %" PRId64 ", expected what goes with them",
			     v->matrices, v->rows, v->cols, w->matrices,
			     w->rows, w->cols);
		return;
	}
	v->joined = w;
	if (of_heads) {
		each = v->rows * (v->cols + w->rows);
		place(v, each, 0, 1, v->rows);
		place(w, each, v->cols * v->rows, v->rows, 1);
		reshape(t, v, v->cols + w->rows, v->rows, 2);
		return;
	}
	each = 2 * v->rows * v->cols;
	place(v, each, 0, 2, 2 * v->rows);
	place(w, each, 1, 2, 2 * v->rows);
	if (t->ndim == 2) {
		reshape(t, v, 1, 2 * v->rows, 2);
	} else {
		reshape(t, v, v->cols, 2 * v->rows, 3);
	}
}

/* What fails from here on is of that tensor, and of its file. */
static void
turn_to(struct gguf_reading *r, const struct rt_st_tensor *t)
{
	r->tensor = t->name;
	r->s = &r->st->shards[t->shard];
}

/* Of tensors in order, makes what is read of those that are parts. */
static void
join_all(struct gguf_reading *r)
{
	struct rt_header *h = &r->st->header;
	enum rt_gguf_part part, first;
	size_t i, n = 0;

	for (i = 0; i < h->n && r->status == RT_OK; i++, n++) {
		struct rt_st_tensor *t = &h->tensors[i], *next = t + 1;

		part = part_of(r, t);
		turn_to(r, t);
		if (part == RT_GGUF_TURNED_PART) {
			struct rt_gguf_view *v = &r->views[t->view - r->views];

			place(v, v->rows * v->cols, 0, 1, v->rows);
			reshape(t, v, v->cols, v->rows, t->ndim);
		}
		if (part == RT_GGUF_WHOLE || part == RT_GGUF_TURNED_PART) {
			h->tensors[n] = *t;
			continue;
		}
		first = part <= RT_GGUF_VALUES ? RT_GGUF_KEYS : RT_GGUF_GATES;
		if (i + 1 == h->n || strcmp(t->name, next->name) != 0 ||
		    part_of(r, next) != 2 * first + 1 - part) {
			rt_gguf_fail(r, -1, "found one of two tensors that are "
				     "read as this, expected both: %s",
				     first == RT_GGUF_KEYS
				     ? "attn_k_b and attn_v_b"
				     : "ffn_gate_exps and ffn_up_exps");
			break;
		}
		h->tensors[n] = part == first ? *t : *next;
		join(r, &h->tensors[n], part == first ? next : t);
		i++;
	}
	h->n = r->status == RT_OK ? n : 0;
	r->tensor = NULL;
}

static void
sort(struct gguf_reading *r)
{
	struct rt_header *h = &r->st->header;
	size_t i;

	qsort(h->tensors, h->n, sizeof(*h->tensors), by_name);
	join_all(r);
	for (i = 0; i < h->n && !r->st->kept && r->status == RT_OK; i++) {
		if (h->tensors[i].view && h->tensors[i].view->each > 0) {
			r->st->kept = rt_gguf_kept_new(&r->st->alloc);
			r->status = r->st->kept ? RT_OK
				: rt_no_memory(r->err, r->s->path);
		}
	}
	for (i = 1; i < h->n && r->status == RT_OK; i++) {
		turn_to(r, &h->tensors[i]);
		if (strcmp(h->tensors[i - 1].name, r->tensor) == 0) {
			rt_gguf_fail(r, -1, "found the name 2 times, expected "
				     "each tensor once");
		}
	}
	r->tensor = NULL;
}

void
rt_gguf_begin_tensors(struct gguf_reading *r, uint64_t n)
{
	if (r->status == RT_OK) {
		allocate(r, (size_t)n);
	}
}

void
rt_gguf_read_part(struct gguf_reading *r, uint64_t n)
{
	struct rt_header *h = &r->st->header;
	size_t first = h->n;
	uint64_t i;

	if (r->status != RT_OK) {
		return;
	}
	/* as many as there are names for */
	if (n >= h->capacity - first) {
		rt_gguf_fail(r, -1, "found %" PRIu64 " tensors after %zu of "
			     "other files, expected at most %zu, as "
			     "split.tensors.count says", n, first,
			     h->capacity - 1 - first);
	}
	for (i = 0; i < n && r->status == RT_OK; i++) {
		read_tensor(r, h->n);
		h->n++;
	}
	if (r->status == RT_OK) {
		r->s->data_at = rt_gguf_padded(r, r->at);
		check_all(r, first);
	}
}

void
rt_gguf_end_tensors(struct gguf_reading *r)
{
	if (r->status == RT_OK) {
		add_parts(r);
	}
	if (r->status == RT_OK) {
		sort(r);
	}
}

/*
 * Finds the matrices of a checkpoint that are stored quantised, by the names of
 * the tensors that each is made of: see quantised.h.
 */
#include "runtime/data/quantised.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/elems.h"

/*
 * The tensors of a matrix: what their names end in, after that of the module.
 * Of rows for one method and type of numbers the first counts whose scales are
 * there; without any it is the first.
 */
static const struct form {
	const char *method, *numbers;
	enum rt_dtype dtype; /* of the numbers */
	enum rt_packing packing;
	const char *scales, *zeros, *order;
} forms[] = {
	{ "fp8", "weight", RT_F8_E4M3, RT_IN_ROWS, "weight_scale_inv", NULL,
	  NULL },
	{ "fp8", "weight", RT_F8_E4M3, RT_IN_ROWS, "weight_scale", NULL, NULL },
	{ "modelopt", "weight", RT_F8_E4M3, RT_IN_ROWS, "weight_scale", NULL,
	  NULL },
	{ "compressed-tensors", "weight", RT_F8_E4M3, RT_IN_ROWS,
	  "weight_scale", NULL, NULL },
	{ "compressed-tensors", "weight", RT_I8, RT_IN_ROWS, "weight_scale",
	  "weight_zero_point", NULL },
	{ "compressed-tensors", "weight_packed", RT_I32, RT_IN_ROWS,
	  "weight_scale", "weight_zero_point", "weight_g_idx" },
	{ "gptq", "qweight", RT_I32, RT_DOWN, "scales", "qzeros", "g_idx" },
	{ "awq", "qweight", RT_I32, RT_ACROSS, "scales", "qzeros", NULL },
};

enum { NFORMS = sizeof(forms) / sizeof(forms[0]) };

/* What a quantised module, or its cache, has beside weights: of activations. */
static const char *const beside[] = {
	"input_scale", "input_zero_point", "output_scale", "activation_scale",
	"q_scale", "k_scale", "v_scale", "k_zero_point", "v_zero_point",
};

enum { NBESIDE = sizeof(beside) / sizeof(beside[0]) };

#define GONE SIZE_MAX

struct folding {
	struct rt_st *st;
	const struct rt_quantisation *q;
	/* by index in the header: 0, GONE, or 1 more than that of the matrix
	 * whose numbers it is */
	size_t *role;
	size_t npacked;
	struct rt_error *err;
};

bool
rt_may_be_quantised(const struct rt_header *h)
{
	size_t i;

	for (i = 0; i < h->n; i++) {
		enum rt_dtype d = h->tensors[i].dtype;

		if (d == RT_F8_E4M3 || d == RT_I8 ||
		    (d == RT_I32 && h->tensors[i].ndim == 2)) {
			return true;
		}
	}
	return false;
}

/* ---- tensors of a module --------------------------------------------- */

/* The bytes of `name` before its last point, if `tail` is what follows it. */
static bool
ends_in(const char *name, const char *tail, size_t *module)
{
	const char *point = strrchr(name, '.');

	*module = point ? (size_t)(point - name) : 0;
	return point && strcmp(point + 1, tail) == 0;
}

/* The tensor of a module, of whose name `like` begins with n bytes; or NULL. */
static struct rt_st_tensor *
sibling(const struct folding *f, const char *like, size_t n, const char *tail)
{
	struct rt_header *h = &f->st->header;
	size_t low = 0, high = h->n, middle;
	int order;

	while (low < high) {
		const char *name;

		middle = low + (high - low) / 2;
		name = h->tensors[middle].name;
		order = strncmp(like, name, n);
		order = order ? order : '.' - (unsigned char)name[n];
		order = order ? order : strcmp(tail, name + n + 1);
		if (order == 0) {
			return &h->tensors[middle];
		}
		if (order < 0) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return NULL;
}

/* The row of the table that a tensor is the numbers of, or NULL. */
static const struct form *
form_of(const struct folding *f, const struct rt_st_tensor *t, size_t *module)
{
	const struct form *first = NULL;
	size_t i;

	for (i = 0; i < NFORMS; i++) {
		const struct form *k = &forms[i];

		if (strcmp(k->method, f->q->method) != 0 ||
		    k->dtype != t->dtype ||
		    !ends_in(t->name, k->numbers, module)) {
			continue;
		}
		first = first ? first : k;
		if (sibling(f, t->name, *module, k->scales)) {
			return k;
		}
	}
	return first;
}

/* ---- messages -------------------------------------------------------- */

static struct rt_where
where_of(const struct folding *f, const struct rt_st_tensor *t)
{
	return (struct rt_where){ rt_st_path(f->st, t), t->name, -1 };
}

static enum rt_status
fail_missing(const struct folding *f, const struct rt_st_tensor *t,
	     const char *tail)
{
	return rt_fail(f->err, RT_FORMAT, where_of(f, t), "found %s and no "
		       "'%s' of its module, expected one: quantization_config "
		       "is of %s", rt_dtype_name(t->dtype), tail,
		       f->q->method);
}

struct shown_shape {
	char text[64];
};

static struct shown_shape
show_shape(const struct rt_st_tensor *t)
{
	struct shown_shape s = { "" };
	size_t at = 0;
	int i;

	for (i = 0; i < t->ndim && at < sizeof(s.text); i++) {
		at += (size_t)snprintf(s.text + at, sizeof(s.text) - at,
				       "%s%" PRId64, i ? ", " : "",
				       t->shape[i]);
	}
	return s;
}

/* Whether a shape is [a, b], dims of 1 left out of both; or reports it. */
static enum rt_status
check_shape(const struct folding *f, const struct rt_st_tensor *t, int64_t a,
	    int64_t b)
{
	int64_t want[2], nwant = 0, k = 0;
	bool same = true;
	int i;

	if (a != 1) {
		want[nwant++] = a;
	}
	if (b != 1) {
		want[nwant++] = b;
	}
	for (i = 0; i < t->ndim; i++) {
		if (t->shape[i] != 1) {
			same = same && k < nwant && t->shape[i] == want[k];
			k++;
		}
	}
	return same && k == nwant ? RT_OK
		: rt_fail(f->err, RT_FORMAT, where_of(f, t), "found [%s], "
			  "expected [%" PRId64 ", %" PRId64 "] by its matrix "
			  "and quantization_config", show_shape(t).text, a, b);
}

static enum rt_status
check_type(const struct folding *f, const struct rt_st_tensor *t, bool is,
	   const char *expected)
{
	return is ? RT_OK
		: rt_fail(f->err, RT_FORMAT, where_of(f, t), "found %s, "
			  "expected %s", rt_dtype_name(t->dtype), expected);
}

/* ---- a matrix -------------------------------------------------------- */

static int64_t
parts(int64_t n, int64_t size)
{
	return size == 0 ? 1 : n / size + (n % size != 0);
}

/* [rows, columns] of what weight_shape says; in whole words without it. */
static enum rt_status
read_shape(const struct folding *f, struct rt_packed *p, size_t module)
{
	const struct rt_st_tensor *t, *numbers = &p->numbers;
	int64_t in_word = 32 / p->scheme.bits;
	enum rt_status status;
	double v[2];

	p->rows = numbers->shape[0];
	p->columns = numbers->shape[1] * in_word;
	t = sibling(f, numbers->name, module, "weight_shape");
	if (!t) {
		return RT_OK;
	}
	if (rt_st_elems(t) != 2) {
		return check_shape(f, t, 2, 1);
	}
	status = rt_st_read_f64(f->st, t, 0, 2, v, f->err);
	if (status == RT_OK &&
	    (v[0] != (double)p->rows || !(v[1] <= (double)p->columns) ||
	     !(v[1] > (double)(p->columns - in_word)) ||
	     v[1] != (double)(int64_t)v[1])) {
		return rt_fail(f->err, RT_FORMAT, where_of(f, t), "found "
			       "[%.10g, %.10g], expected the shape that '%s' "
			       "packs, [%" PRId64 ", %" PRId64 "] or less than "
			       "a word below", v[0], v[1],
			       rt_show_name(numbers->name).text, p->rows,
			       p->columns);
	}
	p->columns = status == RT_OK ? (int64_t)v[1] : p->columns;
	return status;
}

static enum rt_status
measure(const struct folding *f, struct rt_packed *p, const struct form *form,
	size_t module)
{
	const struct rt_st_tensor *t = &p->numbers;
	int64_t in_word = 32 / p->scheme.bits;

	if (t->ndim != 2 || t->shape[0] < 1 || t->shape[1] < 1 ||
	    t->shape[0] > INT32_MAX / 8 || t->shape[1] > INT32_MAX / 8) {
		return rt_fail(f->err, RT_FORMAT, where_of(f, t), "found [%s], "
			       "expected [rows, columns] of a matrix",
			       show_shape(t).text);
	}
	p->packing = form->packing;
	p->rows = t->shape[form->packing != RT_IN_ROWS];
	p->columns = t->shape[form->packing == RT_IN_ROWS];
	if (form->dtype == RT_I32 && form->packing == RT_IN_ROWS) {
		return read_shape(f, p, module);
	}
	p->columns *= form->packing == RT_DOWN ? in_word : 1;
	p->rows *= form->packing == RT_ACROSS ? in_word : 1;
	return RT_OK;
}

static enum rt_status
check_scales(const struct folding *f, const struct rt_packed *p)
{
	enum rt_status status;

	status = check_type(f, &p->scales, rt_elems_are_real(p->scales.dtype),
			    "F32, BF16 or F16 as scales");
	if (status != RT_OK) {
		return status;
	}
	return p->packing == RT_IN_ROWS
		? check_shape(f, &p->scales, p->scale_rows, p->groups)
		: check_shape(f, &p->scales, p->groups, p->scale_rows);
}

static enum rt_status
check_zeros(const struct folding *f, const struct rt_packed *p)
{
	int64_t rows = p->scale_rows, words = parts(rows, 32 / p->scheme.bits);
	const struct rt_st_tensor *t = &p->zeros;
	bool packs = p->numbers.dtype == RT_I32;
	enum rt_status status;

	status = check_type(f, t, t->dtype == (packs ? RT_I32 : RT_I8),
			    packs ? "I32" : "I8");
	if (status != RT_OK) {
		return status;
	}
	return p->packing != RT_IN_ROWS ? check_shape(f, t, p->groups, words)
		: check_shape(f, t, packs ? words : rows, p->groups);
}

/* Takes a tensor that the matrix may have; false: it must, and has not. */
static bool
take(const struct folding *f, const struct rt_packed *p, size_t module,
     const char *tail, bool must, struct rt_st_tensor *out)
{
	const struct rt_st_tensor *t = tail
		? sibling(f, p->numbers.name, module, tail) : NULL;

	if (t) {
		*out = *t;
	}
	return t || !must;
}

/* The tensors of a matrix of that scheme, and whether they fit. */
static enum rt_status
take_all(const struct folding *f, struct rt_packed *p, const struct form *form,
	 size_t module)
{
	enum rt_status status;

	memset(&p->scales, 0, sizeof(p->scales));
	memset(&p->zeros, 0, sizeof(p->zeros));
	memset(&p->order, 0, sizeof(p->order));
	if (!take(f, p, module, form->scales, true, &p->scales)) {
		return fail_missing(f, &p->numbers, form->scales);
	}
	if (p->scheme.has_zeros &&
	    !take(f, p, module, form->zeros, true, &p->zeros)) {
		return fail_missing(f, &p->numbers, form->zeros);
	}
	take(f, p, module, form->order, false, &p->order);
	status = measure(f, p, form, module);
	if (status == RT_OK) {
		p->groups = parts(p->columns, p->scheme.columns);
		p->scale_rows = parts(p->rows, p->scheme.rows);
		p->row_bytes = p->numbers.shape[1] *
			       rt_dtype_bits(p->numbers.dtype) / 8;
		status = check_scales(f, p);
	}
	if (status == RT_OK && p->scheme.has_zeros) {
		status = check_zeros(f, p);
	}
	if (status == RT_OK && p->order.name) {
		status = check_type(f, &p->order, p->order.dtype == RT_I32,
				    "I32");
	}
	if (status == RT_OK && p->order.name) {
		status = check_shape(f, &p->order, p->columns, 1);
	}
	return status;
}

/* Whether the numbers of a form can be of that scheme. */
static bool
is_of(const struct form *form, const struct rt_scheme *s)
{
	return s->is_float == (form->dtype == RT_F8_E4M3) &&
	       (s->bits == 8 || form->dtype == RT_I32);
}

/* By the first scheme that fits; the error is of the last that does not. */
static enum rt_status
match(const struct folding *f, struct rt_packed *p, const struct form *form,
      size_t module)
{
	enum rt_status status = RT_FORMAT;
	bool tried = false;
	int64_t i;

	for (i = 0; i < f->q->nschemes && status == RT_FORMAT; i++) {
		if (is_of(form, &f->q->schemes[i])) {
			p->scheme = f->q->schemes[i];
			status = take_all(f, p, form, module);
			tried = true;
		}
	}
	return tried ? status
		: rt_fail(f->err, RT_FORMAT, where_of(f, &p->numbers),
			  "found %s, expected numbers as the groups of "
			  "quantization_config have them",
			  rt_dtype_name(p->numbers.dtype));
}

/* A module that is not to be quantised, by its whole name. */
static enum rt_status
check_ignored(const struct folding *f, const struct rt_st_tensor *t, size_t n)
{
	const struct rt_pairs *p = &f->q->ignored;
	size_t i;

	for (i = 0; i < p->n; i++) {
		if (strncmp(p->at[i].key, t->name, n) == 0 && !p->at[i].key[n])
			{
			return rt_fail(f->err, RT_FORMAT, where_of(f, t),
				       "found %s, expected a wider type: "
				       "`ignore` of quantization_config has "
				       "its module",
				       rt_dtype_name(t->dtype));
		}
	}
	return RT_OK;
}

/* A tensor that is numbers: its matrix, and which others are a part of it. */
static enum rt_status
fold(struct folding *f, struct rt_st_tensor *t, const struct form *form,
     size_t module)
{
	const char *const tails[] = { form->scales, form->zeros, form->order,
				      "weight_shape" };
	struct rt_packed *p = &f->st->packed[f->npacked];
	struct rt_st_tensor *other;
	enum rt_status status;
	size_t i;

	p->numbers = *t;
	status = check_ignored(f, t, module);
	if (status == RT_OK) {
		status = match(f, p, form, module);
	}
	for (i = 0; status == RT_OK && i < sizeof(tails) / sizeof(tails[0]);
	     i++) {
		other = tails[i] ? sibling(f, t->name, module, tails[i])
				 : NULL;
		if (other) {
			f->role[other - f->st->header.tensors] = GONE;
		}
	}
	f->role[t - f->st->header.tensors] = ++f->npacked;
	return status;
}

/* ---- the checkpoint -------------------------------------------------- */

static bool
is_beside(const struct rt_st_tensor *t)
{
	size_t i, module;

	for (i = 0; i < NBESIDE && !ends_in(t->name, beside[i], &module);
	     i++) {
	}
	return i < NBESIDE;
}

static enum rt_status
fold_all(struct folding *f)
{
	struct rt_header *h = &f->st->header;
	enum rt_status status = RT_OK;
	const struct form *form;
	size_t i, module;

	for (i = 0; i < h->n && status == RT_OK; i++) {
		form = form_of(f, &h->tensors[i], &module);
		if (form) {
			status = fold(f, &h->tensors[i], form, module);
		} else if (is_beside(&h->tensors[i])) {
			f->role[i] = GONE;
		}
	}
	return status;
}

/* The tensor that stands for a matrix; *name: where its name goes. */
static void
stand_for(struct rt_st_tensor *t, const struct rt_packed *p, char **name)
{
	size_t module = (size_t)(strrchr(t->name, '.') - t->name);

	memcpy(*name, t->name, module);
	memcpy(*name + module, ".weight", sizeof(".weight"));
	t->name = *name;
	*name += module + sizeof(".weight");
	t->dtype = RT_F32;
	t->ndim = 2;
	t->shape[0] = p->rows;
	t->shape[1] = p->columns;
	t->begin = 0;
	t->end = 4 * p->rows * p->columns;
	t->packed = p;
}

static int
by_name(const void *a, const void *b)
{
	const struct rt_st_tensor *t = a, *u = b;

	return strcmp(t->name, u->name);
}

/* Puts matrices in place of what they are made of. */
static enum rt_status
replace(struct folding *f)
{
	struct rt_header *h = &f->st->header;
	char *name = f->st->packed_names;
	size_t i, n = 0;

	for (i = 0; i < h->n; i++) {
		if (f->role[i] == GONE) {
			continue;
		}
		h->tensors[n] = h->tensors[i];
		if (f->role[i]) {
			stand_for(&h->tensors[n],
				  &f->st->packed[f->role[i] - 1], &name);
		}
		n++;
	}
	h->n = n;
	qsort(h->tensors, n, sizeof(*h->tensors), by_name);
	for (i = 1; i < n; i++) {
		if (strcmp(h->tensors[i - 1].name, h->tensors[i].name) == 0) {
			return rt_fail(f->err, RT_FORMAT,
				       where_of(f, &h->tensors[i]), "found "
				       "another tensor of that name beside "
				       "the quantised one, expected one");
		}
	}
	return RT_OK;
}

/* Memory for all matrices that there can be; false: none is left. */
static bool
allocate(struct folding *f)
{
	const struct rt_header *h = &f->st->header;
	size_t i, n = 0, bytes = 0, module;
	struct rt_st *st = f->st;

	for (i = 0; i < h->n; i++) {
		if (form_of(f, &h->tensors[i], &module)) {
			bytes += module + sizeof(".weight");
			n++;
		}
	}
	st->packed = rt_resize(&st->alloc, NULL, n, sizeof(*st->packed));
	st->packed_names = rt_resize(&st->alloc, NULL, bytes, 1);
	st->unpacker = rt_unpacker_new(&st->alloc);
	f->role = rt_resize(&st->alloc, NULL, h->n, sizeof(*f->role));
	if (!st->packed || !st->packed_names || !st->unpacker || !f->role) {
		return false;
	}
	memset(st->packed, 0, n * sizeof(*st->packed));
	memset(f->role, 0, h->n * sizeof(*f->role));
	return true;
}

enum rt_status
rt_quantised_find(struct rt_st *st, const struct rt_quantisation *q,
		  struct rt_error *err)
{
	struct folding f = { .st = st, .q = q, .err = err };
	enum rt_status status;

	status = allocate(&f) ? fold_all(&f) : rt_no_memory(err, NULL);
	if (status == RT_OK) {
		status = replace(&f);
	}
	rt_release(&st->alloc, f.role);
	return status;
}

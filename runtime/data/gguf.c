/*
 * What stands before the data of a GGUF file, version 3: see gguf.h.  All
 * numbers are little-endian:
 *
 *	"GGUF", u32 version, u64 tensors, u64 keys
 *	keys times: text name, u32 type, value
 *	tensors times: text name, u32 dims, u64 size[dims], u32 type,
 *		u64 offset
 *	zeros up to a multiple of the key general.alignment, or 32; the data
 *
 * A text is a u64 and so many bytes; the first size is that of a row's
 * elements.  The format is of ggml-org/ggml; as for .safetensors, every byte of
 * the data belongs to a tensor, or is one of the zeros before the next.
 */
#include "runtime/data/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	BUFFER_BYTES = 65536,
	VERSION = 3,
	LEAST_KEY_BYTES = 8 + 4 + 1,
	LEAST_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8,
	MOST_KEY_BYTES = 65535,
	MOST_DIMS = 4,
	ALIGNMENT = 32,
	MOST_ALIGNMENT = 1 << 16,
	MOST_WORD = 64, /* bytes of a text that is looked at */
};

/* Types of values, by their numbers. */
enum value { U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64,
	     NVALUES };

static const int value_bytes[NVALUES] = {
	[U8] = 1, [I8] = 1, [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4,
	[F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8
};

/* What is read of a file; `at` is the byte after the last one that was. */
struct gguf_reading {
	struct rt_st *st;
	struct rt_shard *s;
	struct rt_error *err;
	enum rt_status status;
	const char *tensor; /* that is read; or NULL */
	int64_t at;
	int64_t from, held; /* what `buffer` has */
	unsigned char *buffer;
	/* of the keys */
	struct rt_gguf_model model;
	char architecture[MOST_WORD + 1];
	int64_t alignment;
	/* by tensor */
	struct rt_gguf_view *views;
	char (*names)[RT_GGUF_NAME_BYTES];
};

static const struct {
	enum rt_gguf_type type;
	enum rt_dtype dtype;
	int64_t block, bytes; /* elements, and their bytes in the file */
} types[] = {
	{ RT_GGUF_F32, RT_F32, 1, 4 },
	{ RT_GGUF_F16, RT_F16, 1, 2 },
	{ RT_GGUF_BF16, RT_BF16, 1, 2 },
	{ RT_GGUF_Q8_0, RT_F32, RT_GGUF_BLOCK, RT_GGUF_BLOCK_BYTES },
};

enum { NTYPES = sizeof(types) / sizeof(types[0]) };

/* ---- bytes ----------------------------------------------------------- */

static struct rt_where
where(const struct gguf_reading *r, int64_t at)
{
	return rt_shard_where(r->s, NULL, at);
}

/* The next n bytes, at most those of the buffer; NULL: the file has ended. */
static const unsigned char *
take(struct gguf_reading *r, int64_t n)
{
	int64_t left = r->s->file_bytes - r->at, some;
	const unsigned char *at;

	if (r->status != RT_OK) {
		return NULL;
	}
	if (n > left) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, r->at),
				    "found the end of the file %" PRId64
				    " bytes on, expected %" PRId64 " more",
				    left, n);
		return NULL;
	}
	if (r->at < r->from || r->at + n > r->from + r->held) {
		some = left < BUFFER_BYTES ? left : BUFFER_BYTES;
		r->held = 0;
		r->status = rt_shard_read(r->s, NULL, r->at, some, r->buffer,
					  r->err);
		if (r->status != RT_OK) {
			return NULL;
		}
		r->from = r->at;
		r->held = some;
	}
	at = r->buffer + (r->at - r->from);
	r->at += n;
	return at;
}

static uint64_t
number(struct gguf_reading *r, int bytes)
{
	const unsigned char *p = take(r, bytes);
	uint64_t v = 0;
	int i;

	for (i = 0; p && i < bytes; i++) {
		v |= (uint64_t)p[i] << 8 * i;
	}
	return v;
}

/* Moves past n of `each` bytes. */
static void
skip(struct gguf_reading *r, uint64_t n, int each, const char *what)
{
	int64_t left = r->s->file_bytes - r->at;

	if (r->status != RT_OK) {
		return;
	}
	if (n > (uint64_t)left / (uint64_t)each) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, r->at), "found "
				    "%" PRIu64 " %s, expected at most the "
				    "%" PRId64 " that the file has bytes for",
				    n, what, left / each);
		return;
	}
	r->at += (int64_t)n * each;
}

/* The bytes of a text, of which those that fit go to `out`, with a NUL. */
static uint64_t
text(struct gguf_reading *r, char *out, size_t size)
{
	uint64_t n = number(r, 8);
	size_t some = n < size - 1 ? (size_t)n : size - 1;
	const unsigned char *p;

	out[0] = '\0';
	if (r->status == RT_OK &&
	    n > (uint64_t)(r->s->file_bytes - r->at)) {
		skip(r, n, 1, "bytes of a text");
		return n;
	}
	p = take(r, (int64_t)some);
	if (p) {
		memcpy(out, p, some);
		out[some] = '\0';
		skip(r, n - some, 1, "bytes of a text");
	}
	return n;
}

/* ---- keys ------------------------------------------------------------ */

static bool
check_value(struct gguf_reading *r, uint64_t type)
{
	if (r->status == RT_OK && type >= NVALUES) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, r->at - 4),
				    "found a value of type %" PRIu64
				    ", expected 0 to %d", type, NVALUES - 1);
	}
	return r->status == RT_OK;
}

static void
skip_array(struct gguf_reading *r)
{
	uint64_t type = number(r, 4), n = number(r, 8), i;
	char none[1];

	if (!check_value(r, type)) {
		return;
	}
	if (type == ARRAY) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, r->at - 12),
				    "found a list of lists, expected none");
	} else if (type != TEXT) {
		skip(r, n, value_bytes[type], "elements of a list");
	}
	for (i = 0; type == TEXT && i < n && r->status == RT_OK; i++) {
		text(r, none, sizeof(none));
	}
}

/* A whole number of at least so many that a key says; other types are an
 * error. */
static int64_t
whole(struct gguf_reading *r, const char *key, uint64_t type, uint64_t least)
{
	static const bool is_whole[NVALUES] = {
		[U8] = true, [U16] = true, [U32] = true, [I32] = true,
		[U64] = true, [I64] = true
	};
	int64_t at = r->at;
	uint64_t v = is_whole[type] ? number(r, value_bytes[type]) : UINT64_MAX;

	if (r->status == RT_OK && (v < least || v > INT32_MAX)) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, at), "found "
				    "a value of '%s' that is no whole number "
				    "of %" PRIu64 " to %d, expected one",
				    rt_show_name(key).text, least, INT32_MAX);
	}
	return (int64_t)v;
}

/* Whether a key is ARCHITECTURE.tail, of the architecture that came before. */
static bool
is_of_model(const struct gguf_reading *r, const char *key, const char *tail)
{
	size_t n = strlen(r->architecture);

	return n > 0 && strncmp(key, r->architecture, n) == 0 &&
	       key[n] == '.' && strcmp(key + n + 1, tail) == 0;
}

static void
read_architecture(struct gguf_reading *r, uint64_t type)
{
	int64_t at = r->at;

	if (r->architecture[0]) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, at), "found "
				    "general.architecture twice, expected it "
				    "once");
	} else if (type == TEXT) {
		text(r, r->architecture, sizeof(r->architecture));
	}
	if (r->status == RT_OK &&
	    !rt_gguf_family(r->architecture, &r->model)) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, at), "found "
				    "general.architecture '%s', expected %s",
				    rt_show_name(r->architecture).text,
				    rt_gguf_families);
	}
}

/* What llama-gguf-split --merge makes has a split.count of 0. */
static void
read_split(struct gguf_reading *r, const char *key, uint64_t type)
{
	int64_t at = r->at;

	if (whole(r, key, type, 0) > 1 && r->status == RT_OK) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, at), "found "
				    "one of several files (split.count), "
				    "expected a whole one: llama-gguf-split "
				    "--merge makes it");
	}
}

static void
read_key(struct gguf_reading *r)
{
	char key[MOST_WORD + 1], none[1];
	int64_t at = r->at;
	uint64_t n = text(r, key, sizeof(key)), type = number(r, 4);

	if (r->status == RT_OK && (n < 1 || n > MOST_KEY_BYTES)) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, at), "found "
				    "a key of %" PRIu64 " bytes, expected 1 to "
				    "%d", n, MOST_KEY_BYTES);
	}
	if (!check_value(r, type)) {
		return;
	}
	if (strcmp(key, "general.architecture") == 0) {
		read_architecture(r, type);
	} else if (strcmp(key, "general.alignment") == 0) {
		r->alignment = whole(r, key, type, 1);
	} else if (is_of_model(r, key, "attention.head_count")) {
		r->model.heads = whole(r, key, type, 1);
	} else if (is_of_model(r, key, "attention.head_count_kv")) {
		r->model.key_heads = whole(r, key, type, 1);
	} else if (!r->architecture[0] &&
		   rt_ends_in(key, ".attention.head_count_kv")) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, at), "found "
				    "'%s' before general.architecture, "
				    "expected it after that",
				    rt_show_name(key).text);
	} else if (strcmp(key, "split.count") == 0) {
		read_split(r, key, type);
	} else if (type == TEXT) {
		text(r, none, sizeof(none));
	} else if (type == ARRAY) {
		skip_array(r);
	} else {
		skip(r, 1, value_bytes[type], "values");
	}
}

static void
check_keys(struct gguf_reading *r)
{
	int64_t a = r->alignment;

	if (r->status != RT_OK) {
		return;
	}
	if (!r->architecture[0]) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, -1), "found no "
				    "general.architecture before the tensors, "
				    "expected %s", rt_gguf_families);
	} else if (a > MOST_ALIGNMENT || (a & (a - 1)) != 0) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, -1), "found "
				    "general.alignment %" PRId64 ", expected "
				    "a power of 2 of at most %d", a,
				    MOST_ALIGNMENT);
	}
	if (r->model.key_heads == 0) {
		r->model.key_heads = r->model.heads;
	}
	if (r->status == RT_OK && r->model.turns && r->model.heads == 0) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, -1), "found no "
				    "%s.attention.head_count after "
				    "general.architecture, expected one, as "
				    "it says how rows lie", r->architecture);
	}
}

/* ---- tensors --------------------------------------------------------- */

static void
fail_tensor(struct gguf_reading *r, int64_t at, const char *fmt,
	    int64_t found)
{
	struct rt_where w = where(r, at);

	w.tensor = r->tensor;
	if (r->status == RT_OK) {
		r->status = rt_fail(r->err, RT_FORMAT, w, fmt, found);
	}
}

/* Sizes, the last of which comes first in the file. */
static void
read_shape(struct gguf_reading *r, struct rt_st_tensor *t)
{
	uint64_t n = number(r, 4), size;
	int64_t elems = 1;
	int i;

	if (r->status == RT_OK && (n < 1 || n > MOST_DIMS)) {
		fail_tensor(r, r->at - 4, "found %" PRId64 " dimensions, "
			    "expected 1 to 4", (int64_t)n);
	}
	t->ndim = r->status == RT_OK ? (int)n : 0;
	for (i = t->ndim - 1; i >= 0 && r->status == RT_OK; i--) {
		size = number(r, 8);
		if (r->status == RT_OK &&
		    (size < 1 || size > (uint64_t)(INT64_MAX / 64 / elems))) {
			fail_tensor(r, r->at - 8, "found size %" PRId64
				    ", expected 1 to what 2^57 elements allow",
				    (int64_t)size);
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
	uint64_t type = number(r, 4);
	size_t i;

	if (r->status != RT_OK) {
		return 0;
	}
	for (i = 0; i < NTYPES && (uint64_t)types[i].type != type; i++) {
	}
	if (i == NTYPES) {
		fail_tensor(r, r->at - 4, "found type %" PRId64 ", expected 0 "
			    "(F32), 1 (F16), 8 (Q8_0) or 30 (BF16)",
			    (int64_t)type);
		return 0;
	}
	v->is_q8 = types[i].type == RT_GGUF_Q8_0;
	v->columns = t->shape[t->ndim - 1];
	v->elem_bytes = rt_dtype_bits(types[i].dtype) / 8;
	if (v->columns % types[i].block != 0) {
		fail_tensor(r, r->at - 4, "found rows of %" PRId64 " elements "
			    "of Q8_0, expected a multiple of 32", v->columns);
		return 0;
	}
	t->dtype = types[i].dtype;
	return rt_st_elems(t) / types[i].block * types[i].bytes;
}

/* Halves of heads that take turns: a bias has a row for each element. */
static void
find_turns(struct gguf_reading *r, struct rt_st_tensor *t,
	   struct rt_gguf_view *v, int64_t heads, int64_t at)
{
	int64_t rows = t->shape[0];

	if (heads > 0 && rows % (2 * heads) != 0) {
		fail_tensor(r, at, "found %" PRId64 " rows, expected a "
			    "multiple of 2 for each head", rows);
	}
	if (heads > 0 && r->status == RT_OK) {
		v->head_rows = rows / heads;
		v->columns = t->ndim == 1 ? 1 : rt_st_elems(t) / rows;
	}
}

/* One that is read as it is stored needs no view. */
static void
set_view(struct rt_st_tensor *t, struct rt_gguf_view *v, int64_t offset,
	 int64_t bytes)
{
	v->at = offset;
	t->begin = offset;
	t->end = offset + bytes;
	t->view = v->is_q8 || v->head_rows > 0 ? v : NULL;
}

static void
read_tensor(struct gguf_reading *r, size_t i)
{
	struct rt_st_tensor *t = &r->st->header.tensors[i];
	char theirs[RT_GGUF_MOST_NAME + 1];
	struct rt_gguf_view *v = &r->views[i];
	int64_t at = r->at, bytes, heads;
	uint64_t n = text(r, theirs, sizeof(theirs)), offset;

	if (r->status == RT_OK && (n < 1 || n > RT_GGUF_MOST_NAME ||
				   strlen(theirs) != n)) {
		fail_tensor(r, at, "found a name of %" PRId64 " bytes, or one "
			    "with a NUL, expected 1 to 64", (int64_t)n);
	}
	heads = rt_gguf_name(&r->model, theirs, r->names[i]);
	t->name = r->tensor = r->names[i];
	read_shape(r, t);
	bytes = read_type(r, t, v);
	offset = number(r, 8);
	if (r->status == RT_OK &&
	    (offset % (uint64_t)r->alignment != 0 ||
	     offset > (uint64_t)(INT64_MAX / 2) ||
	     bytes > INT64_MAX / 2)) {
		fail_tensor(r, r->at - 8, "found offset %" PRId64
			    ", expected a multiple of the alignment",
			    (int64_t)offset);
	}
	if (r->status == RT_OK) {
		find_turns(r, t, v, heads, at);
		set_view(t, v, (int64_t)offset, bytes);
	}
	r->tensor = NULL;
}

/* ---- tensors among each other ----------------------------------------- */

static int
by_offset(const void *a, const void *b)
{
	const struct rt_st_tensor *t = *(const struct rt_st_tensor *const *)a;
	const struct rt_st_tensor *u = *(const struct rt_st_tensor *const *)b;

	return t->begin != u->begin ? (t->begin < u->begin ? -1 : 1)
		: t->end != u->end ? (t->end < u->end ? -1 : 1)
		: strcmp(t->name, u->name);
}

static int64_t
padded(const struct gguf_reading *r, int64_t n)
{
	return (n + r->alignment - 1) / r->alignment * r->alignment;
}

/* Each begins where the one before it ends, and the last ends in the file. */
static void
check_cover(struct gguf_reading *r, const struct rt_st_tensor **order,
	    size_t n)
{
	int64_t have = r->s->file_bytes - r->s->data_at, end = 0;
	size_t i;

	for (i = 0; i < n && r->status == RT_OK; i++) {
		r->tensor = order[i]->name;
		if (order[i]->begin != padded(r, end)) {
			fail_tensor(r, -1, "found its data elsewhere, expected "
				    "it at offset %" PRId64 ", where that of "
				    "the one before ends", padded(r, end));
		} else if (order[i]->end > have) {
			fail_tensor(r, -1, "found %" PRId64 " bytes of data in "
				    "the file, expected all of it", have);
		}
		end = order[i]->end;
	}
	r->tensor = NULL;
	if (r->status == RT_OK && have != end && have != padded(r, end)) {
		fail_tensor(r, r->s->data_at + end, "found %" PRId64 " bytes "
			    "after the last tensor, expected none",
			    have - end);
	}
}

static void
check_all(struct gguf_reading *r)
{
	struct rt_header *h = &r->st->header;
	const struct rt_st_tensor **order;
	size_t i;

	order = rt_resize(&r->st->alloc, NULL, h->n + 1, sizeof(*order));
	if (!order) {
		r->status = rt_no_memory(r->err, r->s->path);
		return;
	}
	for (i = 0; i < h->n; i++) {
		order[i] = &h->tensors[i];
	}
	qsort(order, h->n, sizeof(*order), by_offset);
	check_cover(r, order, h->n);
	rt_release(&r->st->alloc, order);
}

static int
by_name(const void *a, const void *b)
{
	const struct rt_st_tensor *t = a, *u = b;

	return strcmp(t->name, u->name);
}

/* Sorts them; what is read through a view is said to be as it is read. */
static void
settle(struct gguf_reading *r)
{
	struct rt_header *h = &r->st->header;
	size_t i;

	qsort(h->tensors, h->n, sizeof(*h->tensors), by_name);
	for (i = 0; i < h->n && r->status == RT_OK; i++) {
		struct rt_st_tensor *t = &h->tensors[i];

		if (i > 0 && strcmp(t[-1].name, t->name) == 0) {
			r->tensor = t->name;
			fail_tensor(r, -1, "found the name %" PRId64 " times, "
				    "expected each tensor once", 2);
		}
		if (t->view) {
			t->begin = 0;
			t->end = rt_st_elems(t) * rt_dtype_bits(t->dtype) / 8;
		}
	}
	r->tensor = NULL;
}

/* ---- all of it ------------------------------------------------------- */

/* Sets *tensors and *keys. */
static void
read_head(struct gguf_reading *r, uint64_t *tensors, uint64_t *keys)
{
	const unsigned char *magic = take(r, 4);
	uint64_t version;

	if (magic && memcmp(magic, "GGUF", 4) != 0) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, 0), "found no "
				    "'GGUF' at the beginning, expected it");
	}
	version = number(r, 4);
	if (r->status == RT_OK && version != VERSION) {
		r->status = rt_fail(r->err, RT_FORMAT, where(r, 4), "found "
				    "version %" PRIu64 " of GGUF, expected %d",
				    version, VERSION);
	}
	*tensors = number(r, 8);
	*keys = number(r, 8);
	if (r->status == RT_OK) {
		int64_t at = r->at;

		skip(r, *tensors, LEAST_TENSOR_BYTES, "tensors");
		r->at = at;
		skip(r, *keys, LEAST_KEY_BYTES, "keys");
		r->at = at;
	}
}

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
		return false;
	}
	memset(h->tensors, 0, (n + 1) * sizeof(*h->tensors));
	memset(r->views, 0, (n + 1) * sizeof(*r->views));
	h->capacity = n + 1;
	return true;
}

static void
read_all(struct gguf_reading *r)
{
	uint64_t tensors = 0, keys = 0, i;

	read_head(r, &tensors, &keys);
	for (i = 0; i < keys && r->status == RT_OK; i++) {
		read_key(r);
	}
	check_keys(r);
	if (r->status == RT_OK && !allocate(r, (size_t)tensors)) {
		r->status = rt_no_memory(r->err, r->s->path);
	}
	for (i = 0; i < tensors && r->status == RT_OK; i++) {
		read_tensor(r, (size_t)i);
		r->st->header.n++;
	}
	if (r->status == RT_OK) {
		r->s->data_at = padded(r, r->at);
		check_all(r);
	}
	if (r->status == RT_OK) {
		settle(r);
	}
}

bool
rt_gguf_is_path(const char *path)
{
	return rt_ends_in(path, ".gguf");
}

enum rt_status
rt_gguf_open(struct rt_st **out, const char *path, const struct rt_alloc *alloc,
	     struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	struct gguf_reading r = { .err = err, .alignment = ALIGNMENT };
	char *copy = rt_join(&a, path, strlen(path), "");

	*out = NULL;
	r.st = rt_st_new(a, 1);
	r.buffer = rt_resize(&a, NULL, BUFFER_BYTES, 1);
	if (!copy || !r.st || !r.buffer) {
		rt_release(&a, copy);
		r.status = rt_no_memory(err, path);
	} else {
		r.status = rt_st_add_shard(r.st, copy, err);
		r.s = &r.st->shards[0];
	}
	if (r.status == RT_OK) {
		read_all(&r);
	}
	rt_release(&a, r.buffer);
	if (r.status != RT_OK) {
		rt_st_free(r.st);
		return r.status;
	}
	*out = r.st;
	return RT_OK;
}

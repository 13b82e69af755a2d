/*
 * The header of a .safetensors file.  The index over several is
 * safetensors_index.c, reading their data safetensors_read.c.
 *
 * A file is a little-endian u64 N, N bytes of JSON, and the data:
 *
 *	{"name": {"dtype": "BF16", "shape": [2, 3],
 *		"data_offsets": [begin, end]}, ..., "__metadata__": {...}}
 *
 * padded with spaces; offsets count from byte 8 + N.  The tensors cover the
 * data with neither holes nor overlap, so that every byte of a file belongs to
 * exactly one tensor.  The format is huggingface/safetensors; this reader is
 * stricter than theirs where tolerance would only hide a mistake: it refuses
 * unknown keys, white space other than 0x20 after the header, and names with a
 * NUL.
 */
#include "runtime/rt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/json.h"
#include "runtime/data/gguf.h"
#include "runtime/data/quantised.h"
#include "runtime/data/safetensors.h"

enum {
	LENGTH_BYTES = 8, /* the u64 before the header */
};

/* ---- the text of a header ------------------------------------------ */

static bool
no_memory(struct rt_json *j)
{
	return rt_json_fail(j, RT_NOMEM, NULL, "out of memory");
}

/* Makes sure that an array has capacity for one more element. */
static bool
grow_array(struct rt_json *j, const struct rt_alloc *alloc, void **array,
	   size_t n, size_t *capacity, size_t size)
{
	size_t more = *capacity ? *capacity * 2 : 16;
	void *p;

	if (n < *capacity) {
		return true;
	}
	p = more > *capacity ? rt_resize(alloc, *array, more, size) : NULL;
	if (!p) {
		return no_memory(j);
	}
	*array = p;
	*capacity = more;
	return true;
}

static int
by_key(const void *a, const void *b)
{
	const struct rt_st_pair *p = a, *q = b;

	return strcmp(p->key, q->key);
}

bool
rt_st_parse_pairs(struct rt_json *j, const struct rt_alloc *alloc,
		  struct rt_pairs *p)
{
	struct rt_st_pair *pair;
	const char *late;
	void *array;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i)) {
		array = p->at;
		if (!grow_array(j, alloc, &array, p->n, &p->capacity,
				sizeof(*p->at)))
			{
			return false;
		}
		p->at = array;
		pair = &p->at[p->n];
		if (!rt_json_key(j, &pair->key) ||
		    !rt_json_string(j, &pair->value)) {
			return false;
		}
		p->n++;
	}
	if (p->n > 0) {
		qsort(p->at, p->n, sizeof(*p->at), by_key);
	}
	for (i = 1; i < p->n && j->status == RT_OK; i++) {
		pair = &p->at[i];
		if (strcmp(pair[-1].key, pair->key) == 0) {
			late = pair[-1].key > pair->key ? pair[-1].key :
							  pair->key;
			return rt_json_fail(
				j, RT_FORMAT, late,
				"found key '%s' twice, expected each key once",
				rt_show_name(late).text);
		}
	}
	return j->status == RT_OK;
}

static bool
parse_dtype(struct rt_json *j, enum rt_dtype *out)
{
	const char *name;
	int i;

	if (!rt_json_string(j, &name)) {
		return false;
	}
	for (i = 0; i < RT_DTYPE_COUNT; i++) {
		if (strcmp(name, rt_dtype_name((enum rt_dtype)i)) == 0) {
			*out = (enum rt_dtype)i;
			return true;
		}
	}
	return rt_json_fail(j, RT_FORMAT, name,
			    "found dtype '%s', expected one of the %d of the "
			    "format, such as BF16 or F32",
			    rt_show_name(name).text, RT_DTYPE_COUNT);
}

static bool
parse_shape(struct rt_json *j, struct rt_st_tensor *t)
{
	size_t i = 0;

	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		if (i > RT_ST_MAX_DIMS) {
			return rt_json_fail(
				j, RT_FORMAT, j->text + j->at,
				"found a shape of more than %d dimensions, "
				"expected at most that",
				RT_ST_MAX_DIMS);
		}
		if (!rt_json_int(j, &t->shape[i - 1])) {
			return false;
		}
	}
	t->ndim = (int)i;
	return j->status == RT_OK;
}

static bool
parse_offsets(struct rt_json *j, struct rt_st_tensor *t)
{
	const char *start;
	int64_t v[2];
	size_t i = 0;

	rt_json_open(j, '[');
	start = j->text + j->at;
	while (rt_json_more(j, ']', &i)) {
		if (i > 2) {
			return rt_json_fail(
				j, RT_FORMAT, j->text + j->at,
				"found more than 2 data_offsets, expected "
				"[begin, end]");
		}
		if (!rt_json_int(j, &v[i - 1])) {
			return false;
		}
	}
	if (j->status == RT_OK && i != 2) {
		return rt_json_fail(j, RT_FORMAT, start,
				    "found %zu data_offsets, expected 2: "
				    "[begin, end]",
				    i);
	}
	if (j->status == RT_OK && v[0] > v[1]) {
		return rt_json_fail(j, RT_FORMAT, start,
				    "found data_offsets that begin at %" PRId64
				    " and end at %" PRId64
				    ", expected begin <= end",
				    v[0], v[1]);
	}
	if (j->status == RT_OK) {
		t->begin = v[0];
		t->end = v[1];
	}
	return j->status == RT_OK;
}

/* The size by shape and dtype must be the size by the offsets. */
static bool
check_size(struct rt_json *j, const struct rt_st_tensor *t)
{
	const char *name = rt_dtype_name(t->dtype);
	int bits = rt_dtype_bits(t->dtype), i;
	int64_t elems = 1, bytes;

	for (i = 0; i < t->ndim; i++) {
		if (t->shape[i] > 0 && elems > INT64_MAX / t->shape[i]) {
			return rt_json_fail(
				j, RT_FORMAT, t->name,
				"found a shape of more than %" PRId64
				" elements, expected at most that",
				INT64_MAX);
		}
		elems *= t->shape[i];
	}
	if (elems > INT64_MAX / bits) {
		return rt_json_fail(j, RT_FORMAT, t->name,
				    "found %" PRId64
				    " elements of %s (%d bits each), "
				    "expected fewer than 2^63 bits",
				    elems, name, bits);
	}
	if (elems * bits % 8 != 0) {
		return rt_json_fail(
			j, RT_FORMAT, t->name,
			"found %" PRId64
			" elements of %s (%d bits each), which is %" PRId64
			" bits, expected whole bytes",
			elems, name, bits, elems * bits);
	}
	bytes = elems * bits / 8;
	if (bytes != t->end - t->begin) {
		return rt_json_fail(j, RT_FORMAT, t->name,
				    "found data_offsets [%" PRId64 ", %" PRId64
				    "] of %" PRId64 " bytes, expected %" PRId64
				    " bytes: %" PRId64 " elements of %s",
				    t->begin, t->end, t->end - t->begin, bytes,
				    elems, name);
	}
	return true;
}

/* The object after a tensor's name. */
static bool
parse_tensor(struct rt_json *j, struct rt_st_tensor *t)
{
	static const char *const keys[] = { "dtype", "shape", "data_offsets" };
	enum { DTYPE, SHAPE, OFFSETS, N_KEYS } k;
	unsigned seen = 0;
	const char *key;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		for (k = DTYPE; k < N_KEYS && strcmp(key, keys[k]) != 0; k++) {
			continue;
		}
		if (k == N_KEYS) {
			return rt_json_fail(
				j, RT_FORMAT, key,
				"found key '%s', expected dtype, shape or "
				"data_offsets",
				rt_show_name(key).text);
		}
		if (seen & 1u << k) {
			return rt_json_fail(j, RT_FORMAT, key,
					    "found key '%s' twice, expected it "
					    "once",
					    keys[k]);
		}
		seen |= 1u << k;
		if (k == DTYPE) {
			parse_dtype(j, &t->dtype);
		} else if (k == SHAPE) {
			parse_shape(j, t);
		} else {
			parse_offsets(j, t);
		}
	}
	for (k = DTYPE; k < N_KEYS; k++) {
		if (j->status == RT_OK && !(seen & 1u << k)) {
			return rt_json_fail(j, RT_FORMAT, t->name,
					    "found no key '%s', expected one",
					    keys[k]);
		}
	}
	return j->status == RT_OK && check_size(j, t);
}

/* The whole header object; fills h->tensors in the order of the file. */
static bool
parse_entries(struct rt_json *j, const struct rt_alloc *alloc,
	      struct rt_header *h)
{
	bool seen_metadata = false;
	struct rt_st_tensor *t;
	const char *name;
	void *array;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &name)) {
		if (strcmp(name, "__metadata__") == 0) {
			if (seen_metadata) {
				return rt_json_fail(
					j, RT_FORMAT, name,
					"found '__metadata__' twice, expected "
					"it at most once");
			}
			seen_metadata = true;
			rt_st_parse_pairs(j, alloc, &h->metadata);
			continue;
		}
		array = h->tensors;
		if (!grow_array(j, alloc, &array, h->n, &h->capacity,
				sizeof(*t))) {
			return false;
		}
		h->tensors = array;
		t = &h->tensors[h->n];
		memset(t, 0, sizeof(*t));
		t->name = name;
		j->tensor = name;
		if (!parse_tensor(j, t)) {
			return false;
		}
		j->tensor = NULL;
		h->n++;
	}
	return rt_json_end(j, " ");
}

/* ---- tensors among each other -------------------------------------- */

static int
by_name(const void *a, const void *b)
{
	const struct rt_st_tensor *t = a, *u = b;

	return strcmp(t->name, u->name);
}

static bool
check_names(struct rt_json *j, struct rt_header *h)
{
	const struct rt_st_tensor *t;
	const char *late;
	size_t i;

	if (h->n > 0) {
		qsort(h->tensors, h->n, sizeof(*h->tensors), by_name);
	}
	for (i = 1; i < h->n; i++) {
		t = &h->tensors[i];
		if (strcmp(t[-1].name, t->name) == 0) {
			late = t[-1].name > t->name ? t[-1].name : t->name;
			j->tensor = late;
			return rt_json_fail(
				j, RT_FORMAT, late,
				"found the name twice, expected each tensor "
				"once");
		}
	}
	return true;
}

/* An empty tensor comes before a tensor that begins at the same offset. */
static int
by_offset(const void *a, const void *b)
{
	const struct rt_st_tensor *t = *(const struct rt_st_tensor *const *)a;
	const struct rt_st_tensor *u = *(const struct rt_st_tensor *const *)b;

	if (t->begin != u->begin) {
		return t->begin < u->begin ? -1 : 1;
	}
	if (t->end != u->end) {
		return t->end < u->end ? -1 : 1;
	}
	return strcmp(t->name, u->name);
}

/* One tensor must begin where the one before it, NULL for none, ends. */
static bool
check_next(struct rt_json *j, const struct rt_st_tensor *prev,
	   const struct rt_st_tensor *t)
{
	int64_t end = prev ? prev->end : 0;

	j->tensor = t->name;
	if (!prev && t->begin != 0) {
		return rt_json_fail(j, RT_FORMAT, t->name,
				    "found the first data at offset %" PRId64
				    ", expected it at 0",
				    t->begin);
	}
	if (t->begin != end) {
		return rt_json_fail(
			j, RT_FORMAT, t->name,
			"found offset %" PRId64 ", expected %" PRId64
			", where '%s' ends: %s of %" PRId64 " bytes",
			t->begin, end, rt_show_name(prev->name).text,
			t->begin < end ? "an overlap" : "a hole",
			t->begin < end ? end - t->begin : t->begin - end);
	}
	j->tensor = NULL;
	return true;
}

/* In order of offset, the tensors cover the data exactly. */
static bool
check_cover(struct rt_json *j, const struct rt_alloc *alloc,
	    struct rt_header *h)
{
	const struct rt_st_tensor **order;
	bool ok = true;
	size_t i;

	order = rt_resize(alloc, NULL, h->n, sizeof(*order));
	if (!order) {
		return no_memory(j);
	}
	for (i = 0; i < h->n; i++) {
		order[i] = &h->tensors[i];
	}
	qsort(order, h->n, sizeof(*order), by_offset);
	for (i = 0; i < h->n && ok; i++) {
		ok = check_next(j, i > 0 ? order[i - 1] : NULL, order[i]);
	}
	if (ok && h->n > 0) {
		h->data_bytes = order[h->n - 1]->end;
	}
	rt_release(alloc, order);
	return ok;
}

/* ---- one header ---------------------------------------------------- */

void
rt_header_release(const struct rt_alloc *alloc, struct rt_header *h)
{
	rt_release(alloc, h->text);
	rt_release(alloc, h->tensors);
	rt_release(alloc, h->metadata.at);
	memset(h, 0, sizeof(*h));
}

/* Reads and checks the length field. */
static enum rt_status
read_length(const struct rt_shard *s, int64_t *out, struct rt_error *err)
{
	unsigned char b[LENGTH_BYTES];
	enum rt_status status;
	uint64_t n = 0;
	int i;

	if (s->file_bytes < LENGTH_BYTES) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(s, NULL, 0),
			       "found a file of %" PRId64 " bytes, expected at "
			       "least %d for the length of the header",
			       s->file_bytes, LENGTH_BYTES);
	}
	status = rt_shard_read(s, NULL, 0, LENGTH_BYTES, b, err);
	if (status != RT_OK) {
		return status;
	}
	for (i = LENGTH_BYTES - 1; i >= 0; i--) {
		n = n << 8 | b[i];
	}
	if (n > RT_ST_MAX_HEADER_BYTES) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(s, NULL, 0),
			       "found a header of %" PRIu64
			       " bytes, expected at most %d; is this a "
			       "safetensors file?",
			       n, RT_ST_MAX_HEADER_BYTES);
	}
	if ((int64_t)n > s->file_bytes - LENGTH_BYTES) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(s, NULL, 0),
			       "found a header of %" PRIu64
			       " bytes, expected at most the "
			       "%" PRId64 " that follow its length",
			       n, s->file_bytes - LENGTH_BYTES);
	}
	*out = (int64_t)n;
	return RT_OK;
}

/* The last tensor ends where the file does. */
static bool
check_file_end(struct rt_json *j, const struct rt_shard *s,
	       const struct rt_header *h)
{
	int64_t have = s->file_bytes - s->data_at, want = h->data_bytes;
	bool lacks = have < want;

	if (have == want) {
		return true;
	}
	j->status = rt_fail( j->err, RT_FORMAT, rt_shard_where(s, NULL,
							       s->data_at +
							       (lacks ? have :
								want)),
			    "found %" PRId64
			    " bytes after the header, expected %" PRId64
			    ", where the last tensor ends: %s %" PRId64
			    " bytes", have, want, lacks ? "the file lacks" :
			    "no tensor has", lacks ? want - have : have - want);
	return false;
}

enum rt_status
rt_header_read(const struct rt_alloc *alloc, struct rt_shard *s,
	       struct rt_header *h, struct rt_error *err)
{
	struct rt_json j = { 0 };
	enum rt_status status;
	int64_t n = 0;

	memset(h, 0, sizeof(*h));
	status = read_length(s, &n, err);
	if (status != RT_OK) {
		return status;
	}
	status = rt_shard_read_text(alloc, s, LENGTH_BYTES, n, &h->text, err);
	if (status != RT_OK) {
		return status;
	}
	s->data_at = LENGTH_BYTES + n;
	j.text = h->text;
	j.len = (size_t)n;
	j.base = LENGTH_BYTES;
	j.path = s->path;
	j.err = err;
	if (n == 0 || h->text[0] != '{') {
		rt_json_fail(&j, RT_FORMAT, h->text,
			     "found a header of %" PRId64
			     " bytes that does not begin with '{', expected a "
			     "JSON object",
			     n);
		goto fail;
	}
	if (!rt_json_check_utf8(&j) || !parse_entries(&j, alloc, h) ||
	    !check_names(&j, h) || !check_cover(&j, alloc, h) ||
	    !check_file_end(&j, s, h)) {
		goto fail;
	}
	return RT_OK;
fail:
	rt_header_release(alloc, h);
	return j.status;
}

const struct rt_st_tensor *
rt_header_find(const struct rt_header *h, const char *name)
{
	struct rt_st_tensor key;

	if (h->n == 0) {
		return NULL;
	}
	key.name = name;
	return bsearch(&key, h->tensors, h->n, sizeof(key), by_name);
}

/* ---- opening ------------------------------------------------------- */

void
rt_st_free(struct rt_st *st)
{
	struct rt_alloc alloc;
	size_t i;

	if (!st) {
		return;
	}
	alloc = st->alloc;
	for (i = 0; i < st->n_shards; i++) {
		rt_shard_release(&alloc, &st->shards[i]);
	}
	rt_release(&alloc, st->shards);
	rt_header_release(&alloc, &st->header);
	rt_release(&alloc, st->packed);
	rt_release(&alloc, st->packed_names);
	rt_unpacker_free(st->unpacker);
	rt_gguf_kept_free(st->kept);
	rt_release(&alloc, st->views);
	rt_release(&alloc, st->gguf);
	rt_release(&alloc, st);
}

struct rt_st *
rt_st_new(struct rt_alloc alloc, size_t n)
{
	struct rt_st *st;

	st = rt_resize(&alloc, NULL, 1, sizeof(*st));
	if (!st) {
		return NULL;
	}
	memset(st, 0, sizeof(*st));
	st->alloc = alloc;
	st->shards = rt_resize(&alloc, NULL, n, sizeof(*st->shards));
	if (!st->shards) {
		rt_release(&alloc, st);
		return NULL;
	}
	return st;
}

enum rt_status
rt_st_add_shard(struct rt_st *st, char *path, struct rt_error *err)
{
	return rt_shard_open(&st->shards[st->n_shards++], path, err);
}

enum rt_status
rt_st_open(struct rt_st **out, const char *path, const struct rt_alloc *alloc,
	   struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	enum rt_status status = RT_NOMEM;
	struct rt_st *st;
	char *copy;

	*out = NULL;
	st = rt_st_new(a, 1);
	copy = rt_join(&a, path, strlen(path), "");
	if (!st || !copy) {
		rt_release(&a, copy);
		rt_no_memory(err, path);
		goto fail;
	}
	status = rt_st_add_shard(st, copy, err);
	if (status != RT_OK) {
		goto fail;
	}
	status = rt_header_read(&a, &st->shards[0], &st->header, err);
	if (status != RT_OK) {
		goto fail;
	}
	*out = st;
	return RT_OK;
fail:
	rt_st_free(st);
	return status;
}

enum rt_status
rt_st_parse(struct rt_st **out, const void *buf, size_t len, int64_t file_bytes,
	    const struct rt_alloc *alloc, struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	enum rt_status status;
	struct rt_st *st;

	*out = NULL;
	st = rt_st_new(a, 1);
	if (!st) {
		return rt_no_memory(err, NULL);
	}
	st->shards[st->n_shards++] = rt_shard_of_memory(buf, len, file_bytes);
	status = rt_header_read(&a, &st->shards[0], &st->header, err);
	if (status != RT_OK) {
		rt_st_free(st);
		return status;
	}
	*out = st;
	return RT_OK;
}

/* ---- asking -------------------------------------------------------- */

size_t
rt_st_count(const struct rt_st *st)
{
	return st->header.n;
}

const struct rt_st_tensor *
rt_st_at(const struct rt_st *st, size_t i)
{
	return &st->header.tensors[i];
}

const struct rt_st_tensor *
rt_st_find(const struct rt_st *st, const char *name)
{
	return rt_header_find(&st->header, name);
}

const char *
rt_st_metadata(const struct rt_st *st, const char *key)
{
	const struct rt_pairs *p = &st->header.metadata;
	struct rt_st_pair want = { key, NULL };
	const struct rt_st_pair *found;

	if (p->n == 0) {
		return NULL;
	}
	found = bsearch(&want, p->at, p->n, sizeof(want), by_key);
	return found ? found->value : NULL;
}

const char *
rt_st_path(const struct rt_st *st, const struct rt_st_tensor *t)
{
	return st->shards[t->shard].path;
}

/*
 * Reads tensors of a GGUF file that are stored otherwise than they are read:
 * see gguf.h.
 */
#include "runtime/data/gguf.h"

#include "runtime/elems.h"

#include <pthread.h>
#include <string.h>

enum { RAW_BYTES = 16384 }; /* of blocks, at a time */

/* The row of the file that has row r: of each head rows 0, 1, 2, .. are rows 0,
 * n / 2, 1, n / 2 + 1, .. here; or query, key and value of a head follow each
 * other here. */
static int64_t
stored_row(const struct rt_gguf_view *v, int64_t r)
{
	int64_t half = v->head_rows / 2, in;

	if (v->third_rows > 0) {
		in = r / v->head_rows;
		return in % 3 * v->third_rows + in / 3 * v->head_rows +
		       r % v->head_rows;
	}
	if (half == 0) {
		return r;
	}
	in = r % v->head_rows;
	return r - in + in % half * 2 + in / half;
}

/* Numbers `first` on of the file's blocks, as f32. */
static enum rt_status
read_blocks(const struct rt_shard *s, const struct rt_st_tensor *t,
	    const struct rt_gguf_view *v, int64_t first, int64_t n, char *out,
	    struct rt_error *err)
{
	const struct rt_gguf_type *type = v->type;
	unsigned char raw[RAW_BYTES];
	float wide[RT_GGUF_BLOCK];
	int64_t block = first / type->block, skip = first % type->block;
	enum rt_status status = RT_OK;

	while (n > 0 && status == RT_OK) {
		int64_t blocks = (skip + n + type->block - 1) / type->block;
		int64_t some, i;

		blocks = blocks < RAW_BYTES / type->bytes
			? blocks : RAW_BYTES / type->bytes;
		status = rt_shard_read(s, t, s->data_at + v->at +
				       block * type->bytes,
				       blocks * type->bytes, raw, err);
		for (i = 0; i < blocks && status == RT_OK; i++) {
			type->widen(raw + i * type->bytes, wide);
			some = n < type->block - skip ? n
						      : type->block - skip;
			memcpy(out, wide + skip, (size_t)some * sizeof(*wide));
			out += some * (int64_t)sizeof(*wide);
			n -= some;
			skip = 0;
		}
		block += blocks;
	}
	return status;
}

/* From n numbers of f32, which lie anywhere. */
static void
subtract(char *at, int64_t n, float less)
{
	float f;

	for (; n > 0; n--, at += sizeof(f)) {
		memcpy(&f, at, sizeof(f));
		f -= less;
		memcpy(at, &f, sizeof(f));
	}
}

/* ---- matrices in another order ------------------------------------------- */

/*
 * One matrix as it is read, since whoever reads asks for some of its rows at a
 * time, and each has numbers of all rows of the file.
 */
struct rt_gguf_kept {
	struct rt_alloc alloc;
	pthread_mutex_t lock;
	const struct rt_gguf_view *of; /* NULL: none is kept */
	int64_t which;
	float *numbers, *rows; /* BAND rows of the file */
	int64_t capacity, rows_capacity;
};

enum { BAND = 16 }; /* rows of the file that are moved at a time */

struct rt_gguf_kept *
rt_gguf_kept_new(const struct rt_alloc *alloc)
{
	struct rt_gguf_kept *k = rt_resize(alloc, NULL, 1, sizeof(*k));

	if (k) {
		memset(k, 0, sizeof(*k));
		k->alloc = *alloc;
		pthread_mutex_init(&k->lock, NULL);
	}
	return k;
}

void
rt_gguf_kept_free(struct rt_gguf_kept *k)
{
	struct rt_alloc a;

	if (k) {
		a = k->alloc;
		pthread_mutex_destroy(&k->lock);
		rt_release(&a, k->numbers);
		rt_release(&a, k->rows);
		rt_release(&a, k);
	}
}

static bool
reserve(const struct rt_alloc *a, float **at, int64_t *capacity, int64_t n)
{
	float *more;

	if (n > *capacity) {
		more = rt_resize(a, *at, (size_t)n, sizeof(*more));
		if (!more) {
			return false;
		}
		*at = more;
		*capacity = n;
	}
	return true;
}

/* Numbers `first` on of a tensor of the file, of whatever type, as f32. */
static enum rt_status
read_f32(const struct rt_shard *s, const struct rt_st_tensor *t,
	 const struct rt_gguf_view *v, int64_t first, int64_t n, float *out,
	 struct rt_error *err)
{
	int64_t bytes = v->type->bytes, i;
	const char *raw = (const char *)out;
	enum rt_status status;

	if (v->type->widen) {
		return read_blocks(s, t, v, first, n, (char *)out, err);
	}
	status = rt_shard_read(s, t, s->data_at + v->at + first * bytes,
			       n * bytes, out, err);
	/* from the last one, as each takes more than it took */
	for (i = n - 1; i >= 0 && bytes == 2 && status == RT_OK; i--) {
		uint16_t bits;

		memcpy(&bits, raw + 2 * i, sizeof(bits));
		out[i] = v->type->dtype == RT_F16
			? (float)rt_widen_float(bits, 5, 10, false)
			: (float)rt_widen_float(bits, 8, 7, false);
	}
	return status;
}

/* Puts the numbers of one matrix of the file where they are read. */
static enum rt_status
put_matrix(struct rt_gguf_kept *k, const struct rt_st *st,
	   const struct rt_st_tensor *t, const struct rt_gguf_view *v,
	   int64_t which, struct rt_error *err)
{
	const struct rt_shard *s = &st->shards[v->shard];
	enum rt_status status = RT_OK;
	int64_t row, n, r, c;

	if (!reserve(&k->alloc, &k->rows, &k->rows_capacity, BAND * v->cols)) {
		return rt_no_memory(err, s->path);
	}
	for (row = 0; row < v->rows && status == RT_OK; row += n) {
		float *to = k->numbers + v->base + row * v->by_row;

		n = v->rows - row < BAND ? v->rows - row : BAND;
		status = read_f32(s, t, v, (which * v->rows + row) * v->cols,
				  n * v->cols, k->rows, err);
		for (c = 0; c < v->cols && status == RT_OK; c++) {
			for (r = 0; r < n; r++) {
				to[c * v->by_col + r * v->by_row] =
					k->rows[r * v->cols + c];
			}
		}
	}
	return status;
}

static enum rt_status
keep(struct rt_gguf_kept *k, const struct rt_st *st,
     const struct rt_st_tensor *t, int64_t which, struct rt_error *err)
{
	const struct rt_gguf_view *v = t->view;
	enum rt_status status;

	if (k->of == v && k->which == which) {
		return RT_OK;
	}
	k->of = NULL;
	if (!reserve(&k->alloc, &k->numbers, &k->capacity, v->each)) {
		return rt_no_memory(err, st->shards[v->shard].path);
	}
	status = put_matrix(k, st, t, v, which, err);
	if (status == RT_OK && v->joined) {
		status = put_matrix(k, st, t, v->joined, which, err);
	}
	if (status == RT_OK) {
		k->of = v;
		k->which = which;
	}
	return status;
}

static enum rt_status
read_placed(const struct rt_st *st, const struct rt_st_tensor *t,
	    int64_t first, int64_t n, char *out, struct rt_error *err)
{
	struct rt_gguf_kept *k = st->kept;
	int64_t each = t->view->each, some, at;
	enum rt_status status = RT_OK;

	pthread_mutex_lock(&k->lock);
	for (; n > 0 && status == RT_OK; first += some, n -= some) {
		at = first % each;
		some = n < each - at ? n : each - at;
		status = keep(k, st, t, first / each, err);
		if (status == RT_OK) {
			memcpy(out, k->numbers + at,
			       (size_t)some * sizeof(*k->numbers));
		}
		out += some * (int64_t)sizeof(*k->numbers);
	}
	pthread_mutex_unlock(&k->lock);
	return status;
}

enum rt_status
rt_gguf_read(const struct rt_st *st, const struct rt_st_tensor *t,
	     int64_t first, int64_t n, void *out, struct rt_error *err)
{
	const struct rt_shard *s = &st->shards[t->shard];
	const struct rt_gguf_view *v = t->view;
	int64_t size = v->elem_bytes, some;
	enum rt_status status = RT_OK;
	char *to = out;

	if (v->each > 0) {
		return read_placed(st, t, first, n, out, err);
	}
	for (; n > 0 && status == RT_OK; first += some, n -= some) {
		int64_t r = first / v->columns, c = first % v->columns;
		int64_t at = stored_row(v, r) * v->columns + c;

		some = v->head_rows == 0 || n < v->columns - c
			? n : v->columns - c;
		status = v->type->widen
			? read_blocks(s, t, v, at, some, to, err)
			: rt_shard_read(s, t, s->data_at + v->at + at * size,
					some * size, to, err);
		if (v->less != 0 && status == RT_OK) {
			subtract(to, some, v->less);
		}
		to += some * size;
	}
	return status;
}

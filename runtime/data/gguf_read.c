/*
 * Reads tensors of a GGUF file that are stored otherwise than they are read:
 * see gguf.h.
 */
#include "runtime/data/gguf.h"

#include "runtime/elems.h"

#include <string.h>

enum { RAW_BYTES = 16384 }; /* of blocks, at a time */

/* The row of the file that has row r: of each head rows 0, 1, 2, .. are rows 0,
 * n / 2, 1, n / 2 + 1, .. here. */
static int64_t
stored_row(const struct rt_gguf_view *v, int64_t r)
{
	int64_t half = v->head_rows / 2, in;

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

/* ---- two tensors that are read as one ----------------------------------- */

/* Numbers `first` on of one of both, in whatever type they are, as f32. */
static enum rt_status
read_f32(const struct rt_shard *s, const struct rt_st_tensor *t,
	 const struct rt_gguf_view *v, int64_t first, int64_t n, float *out,
	 struct rt_error *err)
{
	int64_t bytes = v->type->bytes, i;
	enum rt_status status;
	const char *raw = (const char *)out;

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

/* Of one head, [keys + values, rank], numbers `first` on; `keys` has place for
 * its keys, [rank, keys] in the file. */
static enum rt_status
read_head(const struct rt_shard *s, const struct rt_st_tensor *t, int64_t head,
	  int64_t first, int64_t n, float *keys, float *out,
	  struct rt_error *err)
{
	const struct rt_gguf_view *k = t->view, *v = k->joined;
	int64_t rank = k->shape[1], nkeys = k->shape[2];
	int64_t each = rank * nkeys, values = v->shape[1] * rank;
	enum rt_status status = RT_OK;

	if (first < each) {
		status = read_f32(s, t, k, head * each, each, keys, err);
	}
	for (; n > 0 && first < each && status == RT_OK; first++, n--) {
		*out++ = keys[first % rank * nkeys + first / rank];
	}
	return n == 0 || status != RT_OK ? status
		: read_f32(s, t, v, head * values + first - each, n, out, err);
}

static enum rt_status
read_joined(const struct rt_st *st, const struct rt_st_tensor *t,
	    int64_t first, int64_t n, float *out, struct rt_error *err)
{
	const struct rt_shard *s = &st->shards[t->shard];
	const struct rt_gguf_view *k = t->view;
	int64_t each = k->shape[1] * (k->shape[2] + k->joined->shape[1]), some;
	float *keys = rt_resize(&st->alloc, NULL, (size_t)(k->shape[1] *
				k->shape[2]), sizeof(*keys));
	enum rt_status status = keys ? RT_OK : rt_no_memory(err, s->path);

	for (; n > 0 && status == RT_OK; first += some, n -= some) {
		some = each - first % each;
		some = n < some ? n : some;
		status = read_head(s, t, first / each, first % each, some, keys,
				   out, err);
		out += some;
	}
	rt_release(&st->alloc, keys);
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

	if (v->joined) {
		return read_joined(st, t, first, n, out, err);
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

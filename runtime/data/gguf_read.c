/*
 * Reads tensors of a GGUF file that are stored otherwise than they are read:
 * see gguf.h.
 */
#include "runtime/data/gguf.h"

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
	    int64_t first, int64_t n, char *out, struct rt_error *err)
{
	const struct rt_gguf_type *type = t->view->type;
	unsigned char raw[RAW_BYTES];
	float wide[RT_GGUF_BLOCK];
	int64_t block = first / type->block, skip = first % type->block;
	enum rt_status status = RT_OK;

	while (n > 0 && status == RT_OK) {
		int64_t blocks = (skip + n + type->block - 1) / type->block;
		int64_t some, i;

		blocks = blocks < RAW_BYTES / type->bytes
			? blocks : RAW_BYTES / type->bytes;
		status = rt_shard_read(s, t, s->data_at + t->view->at +
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

enum rt_status
rt_gguf_read(const struct rt_st *st, const struct rt_st_tensor *t,
	     int64_t first, int64_t n, void *out, struct rt_error *err)
{
	const struct rt_shard *s = &st->shards[t->shard];
	const struct rt_gguf_view *v = t->view;
	int64_t size = v->elem_bytes, some;
	enum rt_status status = RT_OK;
	char *to = out;

	for (; n > 0 && status == RT_OK; first += some, n -= some) {
		int64_t r = first / v->columns, c = first % v->columns;
		int64_t at = stored_row(v, r) * v->columns + c;

		some = v->head_rows == 0 || n < v->columns - c
			? n : v->columns - c;
		status = v->type->widen ? read_blocks(s, t, at, some, to, err)
			: rt_shard_read(s, t, s->data_at + v->at + at * size,
					some * size, to, err);
		if (v->less != 0 && status == RT_OK) {
			subtract(to, some, v->less);
		}
		to += some * size;
	}
	return status;
}

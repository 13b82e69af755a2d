/*
 * Reads tensors of a GGUF file that are stored otherwise than they are read:
 * see gguf.h.
 */
#include "runtime/data/gguf.h"

#include <string.h>

#include "runtime/elems.h"

enum { MOST_BLOCKS = 256 }; /* at a time */

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

static float
scale_of(const unsigned char *block)
{
	return (float)rt_widen_float((uint64_t)block[0] |
				     (uint64_t)block[1] << 8, 5, 10, false);
}

/* Numbers `first` on of the file's blocks, as f32. */
static enum rt_status
read_blocks(const struct rt_shard *s, const struct rt_st_tensor *t,
	    int64_t first, int64_t n, char *out, struct rt_error *err)
{
	unsigned char raw[MOST_BLOCKS * RT_GGUF_BLOCK_BYTES];
	int64_t block = first / RT_GGUF_BLOCK, skip = first % RT_GGUF_BLOCK;
	enum rt_status status = RT_OK;

	while (n > 0 && status == RT_OK) {
		int64_t some = (skip + n + RT_GGUF_BLOCK - 1) / RT_GGUF_BLOCK;
		int64_t i;

		some = some < MOST_BLOCKS ? some : MOST_BLOCKS;
		status = rt_shard_read(s, t, s->data_at + t->view->at + block *
				       RT_GGUF_BLOCK_BYTES, some *
				       RT_GGUF_BLOCK_BYTES, raw, err);
		for (i = skip; i < some * RT_GGUF_BLOCK && n > 0 &&
		     status == RT_OK; i++, n--) {
			const unsigned char *b = raw + i / RT_GGUF_BLOCK *
						 RT_GGUF_BLOCK_BYTES;
			int8_t q;
			float f;

			memcpy(&q, b + 2 + i % RT_GGUF_BLOCK, 1);
			f = scale_of(b) * (float)q;
			memcpy(out, &f, sizeof(f));
			out += sizeof(f);
		}
		block += some;
		skip = 0;
	}
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

	for (; n > 0 && status == RT_OK; first += some, n -= some) {
		int64_t r = first / v->columns, c = first % v->columns;
		int64_t at = stored_row(v, r) * v->columns + c;

		some = v->head_rows == 0 || n < v->columns - c
			? n : v->columns - c;
		status = v->is_q8 ? read_blocks(s, t, at, some, to, err)
			: rt_shard_read(s, t, s->data_at + v->at + at * size,
					some * size, to, err);
		to += some * size;
	}
	return status;
}

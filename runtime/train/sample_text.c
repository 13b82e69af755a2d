/*
 * The text of `rank sample --tokenizer`.
 */
#include "runtime/train/sample_text.h"

#include <stdlib.h>

enum rt_status
sample_text_open(struct sample_text *x, const char *path,
		 struct rt_error *err)
{
	enum rt_status status = RT_OK;

	*x = (struct sample_text){ .ids.alloc = rt_alloc_or_libc(NULL) };
	if (path) {
		status = rt_tokenizer_open(&x->tokenizer, path, NULL, err);
	}
	rt_stream_open(&x->stream, x->tokenizer);
	return status;
}

void
sample_text_close(struct sample_text *x)
{
	rt_stream_close(&x->stream);
	if (x->tokenizer) {
		rt_tokenizer_free(x->tokenizer);
	}
	rt_ids_release(&x->ids);
}

enum rt_status
sample_text_begin(struct sample_text *x, const char *name, const char *text,
		  size_t n, struct rt_error *err)
{
	struct rt_where where = { name, NULL, -1 };
	struct rt_encoder *e = NULL;
	struct rt_error why = { 0 };
	enum rt_status status = rt_encoder_open(&e, x->tokenizer, err);

	if (status != RT_OK) {
		return status;
	}
	if (!rt_encode_before(x->tokenizer, &x->ids)) {
		status = rt_no_memory(err, NULL);
	} else {
		status = rt_encode(e, text, n, RT_PART_WHOLE, &x->ids, &why);
		where.offset = why.offset;
		if (status != RT_OK) {
			rt_fail(err, status, where, "%s", why.message);
		}
	}
	rt_encoder_free(e);
	return status == RT_OK ? rt_stream_begin(&x->stream, x->ids.at,
						 x->ids.n, err) : status;
}

enum rt_status
sample_text_add(struct sample_text *x, int64_t id, FILE *out,
		struct rt_error *err)
{
	char *text;
	size_t n;
	enum rt_status status = rt_stream_add(&x->stream, id, &text, &n, err);

	if (status == RT_OK && out && n > 0) {
		fwrite(text, 1, n, out);
		fflush(out);
	}
	free(text);
	return status;
}

/*
 * The text of `rank sample --tokenizer`.  The text of an id depends on those
 * before it: blanks, and characters of several ids.  So a few shown ids and the
 * new ones are decoded together, and what that is longer than the text of the
 * shown ones alone is written, once it ends in a whole character.
 */
#include "runtime/train/sample_text.h"

#include <stdlib.h>
#include <string.h>

#define BEFORE 8	/* ids of the prompt that are decoded along */
#define CUT "\xef\xbf\xbd"	/* what a part of a character becomes */

enum rt_status
sample_text_open(struct sample_text *x, const char *path,
		 struct rt_error *err)
{
	*x = (struct sample_text){ .ids.alloc = rt_alloc_or_libc(NULL) };
	return path ? rt_tokenizer_open(&x->tokenizer, path, NULL, err)
		    : RT_OK;
}

void
sample_text_close(struct sample_text *x)
{
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
	x->shown = x->ids.n;
	x->from = x->shown > BEFORE ? x->shown - BEFORE : 0;
	return status;
}

static bool
ends_cut(const char *text, size_t n)
{
	return n >= strlen(CUT) &&
	       memcmp(text + n - strlen(CUT), CUT, strlen(CUT)) == 0;
}

enum rt_status
sample_text_add(struct sample_text *x, int64_t id, FILE *out,
		struct rt_error *err)
{
	const uint32_t *from;
	char *old = NULL, *text = NULL;
	size_t nold = 0, n = 0;
	enum rt_status status;

	if (id >= 0 && !rt_ids_add(&x->ids, (uint32_t)id)) {
		return rt_no_memory(err, NULL);
	}
	from = x->ids.at + x->from;
	status = rt_decode(x->tokenizer, from, x->shown - x->from, true, &old,
			   &nold, err);
	if (status == RT_OK) {
		status = rt_decode(x->tokenizer, from, x->ids.n - x->from,
				   true, &text, &n, err);
	}
	if (status == RT_OK && n > nold && (id < 0 || !ends_cut(text, n))) {
		if (out) {
			fwrite(text + nold, 1, n - nold, out);
			fflush(out);
		}
		x->from = x->shown;
		x->shown = x->ids.n;
	}
	free(old);
	free(text);
	return status;
}

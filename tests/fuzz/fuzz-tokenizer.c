/*
 * fuzz-tokenizer.c - any bytes as a tokenizer.json, and what comes after the
 * first NUL as text for it.  What is accepted gives ids in its range, decodes
 * them, and gives the same ids for the parts of a text that may be cut.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/tokenize/tokenize.h"

#define CHECK(x) ((x) ? (void)0 : abort())

enum { MOST_TEXT = 300, MOST_JSON = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_error(const struct rt_error *err, enum rt_status status)
{
	CHECK(err->status == status);
	CHECK(status == RT_FORMAT || status == RT_RANGE);
	CHECK(memchr(err->message, '\0', sizeof err->message) != NULL);
	CHECK(err->message[0] != '\0');
}

static void
check_cuts(struct rt_encoder *e, const struct rt_tokenizer *t,
	   const char *text, size_t n, const struct rt_ids *whole)
{
	struct rt_ids parts = { .alloc = whole->alloc };
	struct rt_error err = { 0 };
	size_t at;

	for (at = 1; at < n; at++) {
		if (((unsigned char)text[at] & 0xc0) == 0x80 ||
		    !rt_may_cut(t, text, at)) {
			continue;
		}
		parts.n = 0;
		CHECK(rt_encode(e, text, at, RT_PART_FIRST, &parts, &err) ==
		      RT_OK);
		CHECK(rt_encode(e, text + at, n - at, RT_PART_LATER, &parts,
				&err) == RT_OK);
		CHECK(parts.n == whole->n && (parts.n == 0 ||
		      memcmp(parts.at, whole->at, 4 * parts.n) == 0));
	}
	rt_ids_release(&parts);
}

static void
use(const struct rt_tokenizer *t, const char *text, size_t n)
{
	struct rt_ids ids = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err = { 0 };
	enum rt_status status;
	struct rt_encoder *e;
	char *back;
	size_t i;

	CHECK(rt_encoder_open(&e, t, &err) == RT_OK);
	status = rt_encode(e, text, n, RT_PART_WHOLE, &ids, &err);
	if (status != RT_OK) {
		check_error(&err, status);
	} else {
		for (i = 0; i < ids.n; i++) {
			CHECK(ids.at[i] < rt_tokenizer_limit(t));
		}
		check_cuts(e, t, text, n, &ids);
		status = rt_decode(t, ids.at, ids.n, true, &back, &i, &err);
		if (status != RT_OK) {
			check_error(&err, status);
		}
		free(back);
	}
	rt_ids_release(&ids);
	rt_encoder_free(e);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	size_t json = nul ? (size_t)(nul - data) : size;
	size_t n = nul ? size - json - 1 : 0;
	struct rt_error err = { 0 };
	struct rt_tokenizer *t;
	enum rt_status status;

	if (json > MOST_JSON) {
		return 0;
	}
	status = rt_tokenizer_parse(&t, "fuzz", data, json, NULL, &err);
	if (status != RT_OK) {
		check_error(&err, status);
		return 0;
	}
	use(t, nul ? (const char *)nul + 1 : "", n < MOST_TEXT ? n : MOST_TEXT);
	rt_tokenizer_free(t);
	return 0;
}

/*
 * fuzz-tokens.c - any bytes as a token file, and as an index beside one.  What
 * is accepted can be read to its end.
 *
 * The first byte says what the rest is: its lowest bit, an index; the others,
 * how long the .bin beside it is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/tokens.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_error(const struct rt_error *err, enum rt_status status)
{
	CHECK(err->status == status);
	CHECK(status == RT_FORMAT || status == RT_RANGE);
	CHECK(err->offset >= -1);
	CHECK(memchr(err->message, '\0', sizeof(err->message)) != NULL);
	CHECK(err->message[0] != '\0');
}

/* All tokens, in pieces of 999, and none behind the last. */
static void
read_all(const struct rt_token_file *f)
{
	struct rt_error err = { 0 };
	enum rt_status status;
	int32_t out[999];
	int64_t at, i, n;

	CHECK(f->count >= 0);
	CHECK(f->data_at + f->count * rt_token_bytes(f->type) ==
	      f->bin.file_bytes);
	for (at = 0; at < f->count; at += n) {
		n = f->count - at < 999 ? f->count - at : 999;
		status = rt_token_file_read_tokens(f, at, n, 60000, out, &err);
		if (status != RT_OK) {
			check_error(&err, status);
			continue;
		}
		for (i = 0; i < n; i++) {
			CHECK(out[i] >= 0 && out[i] < 60000);
		}
	}
	CHECK(rt_token_file_read_tokens(f, f->count, 1, 60000, out, &err) ==
	      RT_RANGE);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t zeros[127 * 16];
	struct rt_token_file f = { 0 };
	struct rt_error err = { 0 };
	enum rt_status status;
	struct rt_shard idx;
	size_t bin_bytes;

	if (size == 0) {
		return 0;
	}
	bin_bytes = (size_t)(data[0] >> 1) * 16;
	if (data[0] & 1) {
		idx = rt_shard_of_memory(data + 1, size - 1, (int64_t)size - 1);
		f.bin = rt_shard_of_memory(zeros, bin_bytes,
					   (int64_t)bin_bytes);
		status = rt_token_file_read(&f, &idx, &err);
	} else {
		f.bin = rt_shard_of_memory(data + 1, size - 1, (int64_t)size -
					   1);
		status = rt_token_file_read(&f, NULL, &err);
	}
	if (status == RT_OK) {
		read_all(&f);
	} else {
		check_error(&err, status);
	}
	return 0;
}

/*
 * fuzz-safetensors.c - any bytes as a weights file, as a header, and as an
 * index.  What is accepted must keep every promise of rt.h.
 *
 *	clang -g -O1 -I. -fsanitize=fuzzer,address,undefined \
 *		tests/fuzz/fuzz-safetensors.c runtime/[every .c]
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt.h"
#include "tests/fuzz/failing.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A failure has a status and one clean line to say why. */
static void
check_error(const struct rt_error *err, enum rt_status status)
{
	const char *p;

	CHECK(err->status == status);
	CHECK(err->offset >= -1);
	CHECK(err->message[0] != '\0');
	CHECK(memchr(err->message, '\0', sizeof(err->message)) != NULL);
	for (p = err->message; *p; p++) {
		CHECK((unsigned char)*p >= 0x20 && *p != 0x7f);
	}
}

/* Reads a tensor both ways; its data lies in a file of `size` bytes. */
static void
check_tensor(const struct rt_st *st, const struct rt_st_tensor *t, size_t size)
{
	int64_t bytes = t->end - t->begin, elems = rt_st_elems(t);
	enum rt_status status;
	struct rt_error err;
	unsigned char *raw;
	double *out;

	CHECK(t->begin >= 0 && bytes >= 0 && (size_t)t->end <= size);
	CHECK(t->ndim >= 0 && t->ndim <= RT_ST_MAX_DIMS && t->shard == 0);
	CHECK(elems * rt_dtype_bits(t->dtype) == bytes * 8);
	raw = malloc((size_t)bytes + 1);
	out = malloc(((size_t)elems + 1) * sizeof(*out));
	CHECK(raw && out);
	CHECK(rt_st_read_raw(st, t, 0, bytes, raw, &err) == RT_OK);
	CHECK(rt_st_read_raw(st, t, 1, bytes, raw, &err) == RT_RANGE);
	status = rt_st_read_f64(st, t, 0, elems, out, &err);
	CHECK(status == RT_OK || status == RT_FORMAT);
	if (status != RT_OK) {
		check_error(&err, status);
	}
	free(out);
	free(raw);
}

/* The data may be `lent` bytes of a file of `size`. */
static void
check_file(const uint8_t *data, size_t lent, size_t size,
	   const struct rt_alloc *alloc)
{
	const struct rt_st_tensor *t;
	enum rt_status status;
	struct rt_error err;
	struct rt_st *st;
	int64_t sum = 0;
	size_t i;

	status = rt_st_parse(&st, data, lent, (int64_t)size, alloc, &err);
	if (status != RT_OK) {
		CHECK(st == NULL);
		check_error(&err, status);
		return;
	}
	for (i = 0; i < rt_st_count(st); i++) {
		t = rt_st_at(st, i);
		CHECK(i == 0 || strcmp(t[-1].name, t->name) < 0);
		CHECK(rt_st_find(st, t->name) == t);
		if (lent == size) {
			check_tensor(st, t, size);
		}
		sum += t->end - t->begin;
	}
	CHECK((size_t)sum <= size);
	rt_st_metadata(st, "format");
	rt_st_free(st);
}

static void
check_index(const uint8_t *data, size_t size, const struct rt_alloc *alloc)
{
	struct rt_st_index ix;
	enum rt_status status;
	struct rt_error err;
	size_t i;

	status = rt_st_index_parse(&ix, data, size, alloc, &err);
	if (status != RT_OK) {
		check_error(&err, status);
		return;
	}
	CHECK(ix.total_bytes >= -1);
	for (i = 0; i < ix.n; i++) {
		CHECK(ix.map[i].value[0] != '\0' && ix.map[i].value[0] != '/');
		CHECK(i == 0 || strcmp(ix.map[i - 1].key, ix.map[i].key) < 0);
	}
	rt_st_index_release(&ix);
}

/*
 * The input up to its last '}' as a header and the rest as data: spares
 * the fuzzer from keeping the length field right.
 */
static void
check_header(const uint8_t *data, size_t size, const struct rt_alloc *alloc)
{
	size_t n = size, i;
	uint8_t *file;

	while (n > 0 && data[n - 1] != '}') {
		n--;
	}
	file = malloc(8 + size);
	CHECK(file);
	for (i = 0; i < 8; i++) {
		file[i] = (uint8_t)((uint64_t)n >> 8 * i);
	}
	if (size > 0) {
		memcpy(file + 8, data, size);
	}
	check_file(file, 8 + size, 8 + size, alloc);
	check_file(file, 8 + n, 8 + size, alloc);
	free(file);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int left = (int)(size % 9);
	struct rt_alloc failing = { failing_realloc, &left };

	check_file(data, size, size, NULL);
	check_header(data, size, NULL);
	check_index(data, size, NULL);
	check_header(data, size, &failing);
	left = (int)(size % 4);
	check_index(data, size, &failing);
	return 0;
}

/*
 * fuzz-gguf.c - any bytes as a file of llama.cpp.  What is accepted has tensors
 * in order, all of whose numbers can be read, whole and in part.  If it has a
 * tokenizer, that gives ids in its range, and decodes them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/tokenize/tokenize.h"
#include "tests/fuzz/failing.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_tensor(const struct rt_st *st, const struct rt_st_tensor *t, size_t size)
{
	int64_t elems = rt_st_elems(t), first = elems / 3, i;
	struct rt_error err;
	double *all, *some;

	CHECK(t->ndim >= 1 && t->ndim <= RT_ST_MAX_DIMS);
	/* at most five in a byte */
	CHECK(elems > 0 && (uint64_t)elems <= (uint64_t)size * 5);
	all = malloc((size_t)elems * sizeof(*all));
	some = malloc((size_t)elems * sizeof(*some));
	CHECK(all && some);
	CHECK(rt_st_read_f64(st, t, 0, elems, all, &err) == RT_OK);
	CHECK(rt_st_read_f64(st, t, first, elems - first, some, &err) == RT_OK);
	for (i = first; i < elems; i++) {
		CHECK(memcmp(&all[i], &some[i - first], sizeof(*all)) == 0);
	}
	free(all);
	free(some);
}

static void
check_file(const char *path, size_t size, const struct rt_alloc *alloc)
{
	struct rt_error err = { 0 };
	enum rt_status status;
	struct rt_st *st;
	size_t i;

	status = rt_st_open_any(&st, path, alloc, &err);
	if (status != RT_OK) {
		CHECK(!st && err.status == status && err.message[0]);
		return;
	}
	for (i = 0; i < rt_st_count(st); i++) {
		const struct rt_st_tensor *t = rt_st_at(st, i);

		CHECK(i == 0 || strcmp(t[-1].name, t->name) < 0);
		CHECK(rt_st_find(st, t->name) == t);
		check_tensor(st, t, size);
	}
	rt_st_free(st);
}

static void
check_ids(const struct rt_tokenizer *t)
{
	static const char text[] = "It's  2024,\n\n the <s>\xc3\xa9"
				   "\xe2\x96\x81!";
	struct rt_ids ids = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err = { 0 };
	struct rt_encoder *e;
	char *back;
	size_t i;

	CHECK(rt_encoder_open(&e, t, &err) == RT_OK);
	if (rt_encode(e, text, sizeof text - 1, RT_PART_WHOLE, &ids, &err) ==
	    RT_OK) {
		for (i = 0; i < ids.n; i++) {
			CHECK(ids.at[i] < rt_tokenizer_limit(t));
		}
		CHECK(rt_decode(t, ids.at, ids.n, true, &back, &i, &err) ==
		      RT_OK);
		free(back);
	}
	rt_ids_release(&ids);
	rt_encoder_free(e);
}

static void
check_tokenizer(const char *path, const struct rt_alloc *alloc)
{
	struct rt_error err = { 0 };
	enum rt_status status;
	struct rt_tokenizer *t;

	status = rt_tokenizer_open(&t, path, alloc, &err);
	if (status != RT_OK) {
		CHECK(!t && err.status == status && err.message[0]);
	} else {
		if (!alloc) {
			check_ids(t);
		}
		rt_tokenizer_free(t);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int left = (int)(size % 13);
	struct rt_alloc failing = { failing_realloc, &left };
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "fuzz-%ld.gguf", (long)getpid());
	f = fopen(path, "wb");
	CHECK(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
	check_file(path, size, NULL);
	check_file(path, size, &failing);
	check_tokenizer(path, NULL);
	left = (int)(size % 59);
	check_tokenizer(path, &failing);
	unlink(path);
	return 0;
}

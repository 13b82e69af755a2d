/*
 * fuzz-gguf.c - any bytes as a file of llama.cpp.  What is accepted has tensors
 * in order, all of whose numbers can be read, whole and in part.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/rt.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Lets one request in the course of an input fail. */
static void *
failing_realloc(void *user, void *p, size_t n)
{
	int *left = user;

	if (n == 0) {
		free(p);
		return NULL;
	}
	return (*left)-- == 0 ? NULL : realloc(p, n);
}

static void
check_tensor(const struct rt_st *st, const struct rt_st_tensor *t, size_t size)
{
	int64_t elems = rt_st_elems(t), first = elems / 3, i;
	struct rt_error err;
	double *all, *some;

	CHECK(t->ndim >= 1 && t->ndim <= RT_ST_MAX_DIMS);
	/* two bits and more for each */
	CHECK(elems > 0 && (uint64_t)elems <= (uint64_t)size * 4);
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
	unlink(path);
	return 0;
}

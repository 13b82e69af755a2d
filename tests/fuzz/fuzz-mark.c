/*
 * fuzz-mark.c - any bytes as a checkpoint.json.  The fuzzer cannot know the
 * sum at its end, so that is put there too.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/checkpoint.h"
#include "runtime/elems.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const char *text, size_t n)
{
	struct rt_error err = { 0 };
	enum rt_status status;
	struct rt_manifest m;
	size_t i;

	status = rt_manifest_parse(&m, "checkpoint.json", text, n, &err);
	if (status != RT_OK) {
		CHECK(status == RT_FORMAT && err.status == status);
		CHECK(err.message[0] && m.text == NULL);
		return;
	}
	CHECK(m.step >= 0 && m.sequences >= m.step && m.model);
	CHECK(m.step < INT64_MAX / 2);
	for (i = 0; i < m.n; i++) {
		CHECK(m.tensors[i].bytes >= 0);
		CHECK(i == 0 ||
		      strcmp(m.tensors[i - 1].name, m.tensors[i].name) < 0);
		CHECK(rt_manifest_find(&m, m.tensors[i].name) == &m.tensors[i]);
	}
	rt_manifest_release(&m);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 64);
	int n;

	CHECK(text);
	if (size > 0) {
		memcpy(text, data, size);
	}
	check(text, size);
	n = snprintf(text + size, 64, "  \"sum\": \"%016" PRIx64 "\"\n}\n",
		     rt_elems_sum(1, text, 0, (int64_t)size));
	check(text, size + (size_t)n);
	free(text);
	return 0;
}

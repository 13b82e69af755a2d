/*
 * Any bytes as JSON, as of plan.json and what others write, skipped and walked
 * through by its keys: nothing is refused without a word.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/json.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
open_text(struct rt_json *j, char *text, const uint8_t *data, size_t size,
	  struct rt_error *err)
{
	memset(j, 0, sizeof *j);
	memset(err, 0, sizeof *err);
	if (size > 0) {
		memcpy(text, data, size);
	}
	text[size] = '\0';
	j->text = text;
	j->len = size;
	j->err = err;
	return rt_json_check_utf8(j);
}

/* Whether the members of an outermost object are all well formed. */
static bool
walk(struct rt_json *j)
{
	const char *key;
	size_t i = 0;

	if (!rt_json_open(j, '{')) {
		return false;
	}
	while (rt_json_more(j, '}', &i)) {
		if (rt_json_key(j, &key)) {
			CHECK(strlen(key) <= j->len);
			rt_json_skip(j);
		}
	}
	return j->status == RT_OK && rt_json_end(j, " \t\r\n");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct rt_error err;
	struct rt_json j;

	CHECK(text);
	if (open_text(&j, text, data, size, &err)) {
		CHECK((rt_json_skip(&j) && rt_json_end(&j, " \t\r\n")) ||
		      (j.status != RT_OK && err.message[0]));
	}
	if (open_text(&j, text, data, size, &err)) {
		CHECK(walk(&j) || (j.status != RT_OK && err.message[0]));
	}
	free(text);
	return 0;
}

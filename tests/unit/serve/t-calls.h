/*
 * Templates that have tools, and requests with some: what tests of calls share.
 */
#ifndef T_CALLS_H
#define T_CALLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/serve/api/reply.h"

enum {
	CHATML, LLAMA, MISTRAL, MISTRAL7, MISTRAL11, MISTRAL13, PHI, DEEPSEEK,
	DEEPSEEK31, NFORMS
};

static const char *const names[NFORMS] = {
	"chatml", "llama-3", "mistral", "mistral-v7", "mistral-v11",
	"mistral-v13", "phi-4-mini", "deepseek", "deepseek-v3.1"
};
static struct rt_codec codec[NFORMS];

static int
open_codecs(void **state)
{
	struct rt_error err = { .message = "" };
	int i, failed = 0;

	(void)state;
	for (i = 0; i < NFORMS; i++) {
		failed |= rt_codec_open(&codec[i], NULL, names[i], 256, &err);
	}
	return failed;
}

static int
close_codecs(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < NFORMS; i++) {
		rt_codec_close(&codec[i]);
	}
	return 0;
}

/* ---- requests ---- */

#define HI "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]"
#define TOOLS "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": " \
	"\"get\", \"description\": \"A \\u00e9 \\\"b\\\"\\\\\"," \
	" \"parameters\": {\"type\":\"object\",\"properties\":{\"x\":" \
	"{\"enum\":[1,2]}}," \
	"\"required\":[\"x\"],\"additionalProperties\":false}}}, " \
	"{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]"

/* Reads a body, which the request keeps. */
static enum rt_status
read_request(struct rt_request *q, struct rt_codec *c, const char *text,
	     struct rt_error *err)
{
	struct rt_text body = { .alloc = rt_alloc_or_libc(NULL) };
	enum rt_status status;

	rt_text_add(&body, "%s", text);
	*err = (struct rt_error){ .message = "" };
	status = rt_request_read(q, true, body.at, body.n, c, err);
	q->body = body;
	return status;
}

/* Marks of DeepSeek. */
#define BAR "\357\275\234"
#define GAP "\342\226\201"
#define DEEP(words) "<" BAR words BAR ">"
#define DEEP_CALLS DEEP("tool" GAP "calls" GAP "begin")
#define DEEP_CALLS_END DEEP("tool" GAP "calls" GAP "end")
#define DEEP_CALL DEEP("tool" GAP "call" GAP "begin") "function" \
	DEEP("tool" GAP "sep")
#define DEEP_CALL_END "\n```" DEEP("tool" GAP "call" GAP "end")
/* of V3.1 */
#define CHAIN_CALL DEEP("tool" GAP "call" GAP "begin")
#define CHAIN_SEP DEEP("tool" GAP "sep")
#define CHAIN_END DEEP("tool" GAP "call" GAP "end")
#define CHAIN_ANSWER DEEP("Assistant") "</think>"
#define DEEP_RESULT DEEP("tool" GAP "output" GAP "begin")
#define DEEP_RESULT_END DEEP("tool" GAP "output" GAP "end")
#define DEEP_END DEEP("end" GAP "of" GAP "sentence")

#endif

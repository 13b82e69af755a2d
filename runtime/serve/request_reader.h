/*
 * Private to request.c and request_prompts.c: the body that is read.
 */
#ifndef RT_REQUEST_READER_H
#define RT_REQUEST_READER_H

#include "runtime/json.h"
#include "runtime/serve/request.h"

struct field;

struct request_reader {
	struct rt_json j;
	struct rt_request *r;
	struct rt_codec *codec;
	const struct field *field;
	const char *name;	/* of the field */
	struct rt_error *err;
	const char *start;	/* of the value that is read */
	bool has_prompt;
};

/* Fail: a field is not what is expected, "'FIELD' is .."; memory is out. */
bool rt_request_wrong(struct request_reader *x, const char *expected);
bool rt_request_no_memory(struct request_reader *x);
/* Appends a list of tokens. */
bool rt_request_ids(struct request_reader *x, struct rt_ids *out);
/* A text, tokens, or a list of either. */
bool rt_request_prompts(struct request_reader *x);
bool rt_request_messages(struct request_reader *x);
/* Makes the prompt of the messages. */
bool rt_request_conversation(struct request_reader *x);

#endif

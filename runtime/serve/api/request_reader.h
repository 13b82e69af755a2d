/*
 * Private to request.c and request_*.c: the body that is read.
 */
#ifndef RT_REQUEST_READER_H
#define RT_REQUEST_READER_H

#include "runtime/json.h"
#include "runtime/serve/api/request.h"

enum field_kind {
	FLAG, WHOLE, NUMBER, NAME, STOP, STOP_IDS, LOGPROBS, SEED,
	STREAM_OPTIONS, PROMPT, MESSAGES, BIAS, FORMAT, SCHEMA, PATTERN,
	CHOICES, OUTPUTS, TOOLS, TOOL_CHOICE, EFFORT, TEMPLATE_KWARGS,
	SHOWS_REASONING,
	ALWAYS,		/* is done whatever is asked: true */
	IGNORED,	/* says nothing about the answer */
	REFUSED,	/* may be there if it asks for nothing */
};

enum { TEXT = 1, CHAT = 2, BOTH = 3 };

/* Types of JSON but for null, as bits. */
enum json_type {
	A_NUMBER = 1, A_TRUTH = 2, A_TEXT = 4, A_LIST = 8, AN_OBJECT = 16,
};

struct field {
	const char *name;
	int where;
	enum field_kind kind;
	/* where it is kept; of IGNORED and REFUSED its types */
	size_t at;
	/* its bounds; of REFUSED the number that asks for nothing, and 1 if a
	 * word does */
	double least, most;
};

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

/* ---- request_values.c ---- */

/* Fail: a field is not what is expected, "'FIELD' is .."; memory is out. */
bool rt_request_wrong(struct request_reader *x, const char *expected);
bool rt_request_no_memory(struct request_reader *x);
/* Begins the message of an error with what it is about. */
void rt_request_blame(struct request_reader *x, const char *fmt, ...)
	RT_PRINTF(2, 3);
/* Whether a value that comes next has one of these types; it fails if not. */
bool rt_request_typed(struct request_reader *x, unsigned types);
/* What asks for nothing: false, a number, an empty text, list or object, or a
 * word: "none", "auto" or ["text"]. */
bool rt_request_refused(struct request_reader *x);
bool rt_request_number(struct request_reader *x, double *out);
/* A number within the bounds of the field. */
bool rt_request_bounded(struct request_reader *x, bool whole, double *out);
bool rt_request_whole(struct request_reader *x);
bool rt_request_seed(struct request_reader *x);
bool rt_request_logprobs(struct request_reader *x);
bool rt_request_biases(struct request_reader *x);
bool rt_request_stops(struct request_reader *x);

/* ---- request_tools.c ---- */

bool rt_request_tools(struct request_reader *x);
bool rt_request_tool_choice(struct request_reader *x);
/* The calls of a message of the assistant. */
bool rt_request_calls(struct request_reader *x, struct rt_message *m);
/* Whether the tools can be told and chosen so, once all fields are read. */
bool rt_request_check_tools(struct request_reader *x);

/* ---- request_reasoning.c ---- */

bool rt_request_effort(struct request_reader *x);
bool rt_request_template_kwargs(struct request_reader *x);
bool rt_request_shows_reasoning(struct request_reader *x);
/* Whether answers think, and are told apart, once all fields are read. */
bool rt_request_check_reasoning(struct request_reader *x);

/* ---- request_prompts.c ---- */

/* Appends a list of tokens. */
bool rt_request_ids(struct request_reader *x, struct rt_ids *out);
/* A text, tokens, or a list of either. */
bool rt_request_prompts(struct request_reader *x);
/* Takes from texts what was put before them, once all fields are read. */
bool rt_request_unframe(struct request_reader *x);
bool rt_request_messages(struct request_reader *x);
/* Makes the prompt of the messages. */
bool rt_request_conversation(struct request_reader *x);

#endif

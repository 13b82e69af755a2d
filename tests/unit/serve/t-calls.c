/*
 * Calls: what requests may ask for, and that an answer has the same calls
 * whether it comes as one object or as a stream in any parts.
 */
#include "tests/unit/serve/t-calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t seed = 5;

static uint32_t
draw(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

/* ---- requests ---- */

static const struct {
	const char *body, *message;	/* NULL: it is right */
} bodies[] = {
	{ "{" HI "," TOOLS "}", NULL },
	{ "{" HI "," TOOLS ",\"tool_choice\":\"auto\","
	  "\"parallel_tool_calls\":false}", NULL },
	{ "{\"tool_choice\":\"required\"," TOOLS "," HI "}", NULL },
	{ "{\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
	  "\"now\"}}," TOOLS "," HI "}", NULL },
	{ "{\"tool_choice\":\"none\"," TOOLS "," HI ",\"json_schema\":{}}",
	  NULL },
	{ "{\"tool_choice\":\"auto\",\"tools\":[]," HI "}", NULL },
	{ "{\"tool_choice\":\"required\"," HI "}", "'tool_choice' asks for a "
	  "call, and there are no 'tools'" },
	{ "{\"tool_choice\":\"required\"," TOOLS "," HI ","
	  "\"add_generation_prompt\":false}", "'tool_choice' asks for a call, "
	  "which an answer begins with, so 'add_generation_prompt' is true "
	  "beside it" },
	{ "{\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
	  "\"set\"}}," TOOLS "," HI "}", "'tool_choice' is a function that is "
	  "not in 'tools'" },
	{ "{\"tool_choice\":\"any\"," HI "}", "'tool_choice' is none, auto, "
	  "required, or a function: {\"type\": \"function\", \"function\": "
	  "{\"name\": ..}}" },
	{ "{\"tool_choice\":{\"type\":\"allowed_tools\"}," HI "}",
	  "'tool_choice' is none, auto, required, or a function: {\"type\": "
	  "\"function\", \"function\": {\"name\": ..}}" },
	{ "{" TOOLS "," HI ",\"json_schema\":{}}", "'tools' and a schema of "
	  "answers do not go together here, unless 'tool_choice' is none" },
	{ "{\"tools\":[{\"type\":\"web_search\"}]," HI "}", "'tools' is a list "
	  "of functions: other types are not known here" },
	{ "{\"tools\":[{\"type\":\"function\"}]," HI "}", "'tools' is a list "
	  "of functions, each with a name" },
	{ "{\"tools\":[{\"function\":{\"name\":\"a b\"}}]," HI "}", "'tools' "
	  "is of functions whose names have 1 to 64 letters, digits, _, - and "
	  "." },
	{ "{\"tools\":[{\"function\":{\"name\":\"a\"}},{\"function\":{\"name\":"
	  "\"a\"}}]," HI "}", "'tools' has the function 'a' twice" },
	{ "{\"tools\":{}," HI "}", "'tools' is a list, found an object" },
	/* a schema is of no account until an answer has to follow it */
	{ "{\"tools\":[{\"function\":{\"name\":\"a\",\"parameters\":"
	  "{\"contains\":1}}}]," HI "}", NULL },
	{ "{\"tools\":[{\"function\":{\"name\":\"a\",\"parameters\":"
	  "{\"contains\":1}}}],\"tool_choice\":\"required\"," HI "}",
	  "'tools': the "
	  "parameters of 'a': #/contains in the schema is no keyword that is "
	  "known here" },
	{ "{\"tools\":[{\"function\":{\"name\":\"a\",\"parameters\":"
	  "null}}],\"tool_choice\":\"required\"," HI "}", NULL },
	{ "{\"tools\":[{\"function\":{\"name\":\"a\",\"parameters\":{\"type\":"
	  "\"string\"}}}],\"tool_choice\":\"required\"," HI "}", "'tools': the "
	  "parameters of 'a' are not an object: 'type' says so" },
	{ "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\""
	  ",\"function\":{\"name\":\"a\",\"arguments\":\"{\"}}]}]}",
	  "'messages' is a conversation in which the arguments of a call are "
	  "no JSON" },
	{ "{\"messages\":[{\"role\":\"user\",\"tool_calls\":[{\"id\":\"1\""
	  ",\"function\":{\"name\":\"a\",\"arguments\":\"{}\"}}]}]}",
	  "'messages': message 1 has tool_calls, and is not the assistant's" },
};

enum { NBODIES = sizeof bodies / sizeof *bodies };

static void
test_requests(void **state)
{
	struct rt_codec gemma;
	struct rt_error err;
	struct rt_request q;
	size_t i;

	(void)state;
	for (i = 0; i < NBODIES; i++) {
		enum rt_status status = read_request(&q, &codec[i % NFORMS],
						     bodies[i].body, &err);

		assert_string_equal(err.message, bodies[i].message
				    ? bodies[i].message : "");
		assert_int_equal(status == RT_OK, !bodies[i].message);
		rt_request_release(&q);
	}
	assert_int_equal(rt_codec_open(&gemma, NULL, "gemma", 256, &err),
			 RT_OK);
	assert_int_equal(read_request(&q, &gemma, bodies[0].body, &err),
			 RT_RANGE);
	assert_string_equal(err.message, "'tools' are not known to the chat "
		"template of this model, 'gemma'; 'tool_choice' may be none");
	rt_request_release(&q);
	assert_int_equal(read_request(&q, &gemma, "{\"messages\":[{\"role\":"
		"\"tool\",\"content\":\"1\"}]}", &err), RT_RANGE);
	assert_string_equal(err.message, "'messages': message 1 is of a "
		"conversation with tools, which the chat template 'gemma' does "
		"not have");
	rt_request_release(&q);
	rt_codec_close(&gemma);
	assert_int_equal(read_request(&q, &codec[LLAMA], "{\"messages\":[{"
		"\"role\":\"system\",\"content\":\"1\"}]," TOOLS "}", &err),
		RT_RANGE);
	assert_string_equal(err.message, "'messages': the chat template "
		"'llama-3' tells of tools beside a message of the user, and "
		"there is none");
	rt_request_release(&q);
}

/* Indents make the text of tools much longer than the tools. */
static void
test_long_tools(void **state)
{
	struct rt_text body = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err;
	struct rt_request q;
	int i;

	(void)state;
	rt_text_add(&body, "{" HI ",\"tools\":[{\"function\":{\"name\":\"a\","
		    "\"parameters\":{\"default\":");
	for (i = 0; i < 40; i++) {
		rt_text_add(&body, "[");
	}
	for (i = 0; i < 10000; i++) {
		rt_text_add(&body, "%s1", i ? "," : "");
	}
	for (i = 0; i < 40; i++) {
		rt_text_add(&body, "]");
	}
	rt_text_add(&body, "}}}]}");
	assert_int_equal(read_request(&q, &codec[CHATML], body.at, &err),
			 RT_OK);
	rt_request_release(&q);
	assert_int_equal(read_request(&q, &codec[LLAMA], body.at, &err),
			 RT_RANGE);
	assert_string_equal(err.message, "'tools' come to more than 1048576 "
			    "bytes of the prompt");
	rt_request_release(&q);
	rt_text_release(&body);
}

/* Any byte of a body may be another one: no reader goes astray. */
static void
test_damaged_requests(void **state)
{
	uint32_t round;

	(void)state;
	for (round = 0; round < 20000; round++) {
		const char *from = bodies[draw(NBODIES)].body;
		struct rt_error err;
		struct rt_request q;
		char body[1024];

		snprintf(body, sizeof body, "%s", from);
		body[draw((uint32_t)strlen(from))] =
			"{}[]\",:\\0u\xc3 1-"[draw(14)];
		read_request(&q, &codec[draw(NFORMS)], body, &err);
		rt_request_release(&q);
	}
}

/* ---- answers ---- */

enum { MOST = 40 };

struct answer {
	struct rt_text content, arguments[MOST], names[MOST];
	char ids[MOST][16], finish[16];
	size_t n;
};

static void
answer_init(struct answer *a)
{
	size_t i;

	memset(a, 0, sizeof *a);
	a->content.alloc = rt_alloc_or_libc(NULL);
	rt_text_add(&a->content, "%s", "");
	for (i = 0; i < MOST; i++) {
		a->arguments[i].alloc = a->names[i].alloc = a->content.alloc;
	}
}

static void
answer_release(struct answer *a)
{
	size_t i;

	rt_text_release(&a->content);
	for (i = 0; i < MOST; i++) {
		rt_text_release(&a->arguments[i]);
		rt_text_release(&a->names[i]);
	}
}

static void
add_string(struct rt_json *j, struct rt_text *to)
{
	const char *s;
	size_t n;

	if (!rt_json_null(j)) {
		assert_true(rt_json_any_text(j, &s, &n));
		rt_text_bytes(to, s, n);
	}
}

static void
read_call(struct rt_json *j, struct answer *a, int64_t at)
{
	const char *key, *s;
	size_t i = 0, k = 0;

	assert_true(rt_json_open(j, '{'));
	while (rt_json_more(j, '}', &i)) {
		assert_true(rt_json_key(j, &key));
		if (strcmp(key, "index") == 0) {
			assert_true(rt_json_int(j, &at));
		} else if (strcmp(key, "id") == 0) {
			assert_true(rt_json_string(j, &s) && at < MOST);
			assert_int_equal(strlen(s), 9);
			assert_string_equal(a->ids[at], "");
			snprintf(a->ids[at], sizeof a->ids[at], "%s", s);
		} else if (strcmp(key, "function") == 0) {
			assert_true(rt_json_open(j, '{') && at < MOST);
			while (rt_json_more(j, '}', &k)) {
				assert_true(rt_json_key(j, &key));
				add_string(j, *key == 'n' ? &a->names[at]
							  : &a->arguments[at]);
			}
		} else {
			assert_string_equal(key, "type");
			assert_true(rt_json_skip(j));
		}
	}
	a->n = (size_t)at >= a->n ? (size_t)at + 1 : a->n;
}

/* A message, or a part of one. */
static void
read_message(struct rt_json *j, struct answer *a)
{
	const char *key;
	size_t i = 0, k = 0;

	assert_true(rt_json_open(j, '{'));
	while (rt_json_more(j, '}', &i)) {
		assert_true(rt_json_key(j, &key));
		if (strcmp(key, "content") == 0) {
			add_string(j, &a->content);
		} else if (strcmp(key, "tool_calls") == 0) {
			assert_true(rt_json_open(j, '['));
			while (rt_json_more(j, ']', &k)) {
				read_call(j, a, (int64_t)k - 1);
			}
		} else {
			assert_true(rt_json_skip(j));
		}
	}
}

static void
read_object(char *text, size_t n, struct answer *a)
{
	struct rt_error err = { .message = "" };
	struct rt_json j = { .text = text, .len = n, .err = &err };
	const char *key, *s;
	size_t i = 0, k = 0, m = 0;

	assert_true(rt_json_check_utf8(&j) && rt_json_open(&j, '{'));
	while (rt_json_more(&j, '}', &i)) {
		assert_true(rt_json_key(&j, &key));
		if (strcmp(key, "choices") != 0) {
			assert_true(rt_json_skip(&j));
			continue;
		}
		assert_true(rt_json_open(&j, '[') && rt_json_more(&j, ']', &k));
		assert_true(rt_json_open(&j, '{'));
		while (rt_json_more(&j, '}', &m)) {
			assert_true(rt_json_key(&j, &key));
			if (strcmp(key, "message") == 0 ||
			    strcmp(key, "delta") == 0) {
				read_message(&j, a);
			} else if (strcmp(key, "finish_reason") == 0 &&
				   !rt_json_null(&j)) {
				assert_true(rt_json_string(&j, &s));
				snprintf(a->finish, sizeof a->finish, "%s", s);
			} else if (strcmp(key, "finish_reason") != 0) {
				assert_true(rt_json_skip(&j));
			}
		}
		assert_false(rt_json_more(&j, ']', &k));
	}
	assert_string_equal(err.message, "");
}

static void
read_answer(struct rt_reply *r, struct answer *a)
{
	char *at = r->out.at, *end;

	answer_init(a);
	assert_true(r->ended && !r->failed);
	if (!r->request.stream) {
		read_object(at, r->out.n, a);
		return;
	}
	while (strncmp(at, "data: [DONE]", 12) != 0) {
		assert_int_equal(strncmp(at, "data: ", 6), 0);
		end = strstr(at, "\n\n");
		assert_non_null(end);
		read_object(at + 6, (size_t)(end - at - 6), a);
		at = end + 2;
	}
}

static uint64_t number = 1;	/* of replies */

static struct rt_reply *
open_reply(int form, const char *more, bool stream)
{
	struct rt_error err;
	struct rt_request q;
	struct rt_reply *r;
	char body[2048];

	snprintf(body, sizeof body, "{" HI "," TOOLS "%s,\"stream\":%s}", more,
		 stream ? "true" : "false");
	read_request(&q, &codec[form], body, &err);
	assert_string_equal(err.message, "");
	assert_int_equal(rt_reply_open(&r, &q, &codec[form], "m", number, 2,
				       &err), RT_OK);
	return r;
}

/* Answers by a text, whose bytes are tokens. */
static void
answer_by(int form, const char *more, bool stream, const char *text, size_t n,
	  struct answer *a)
{
	struct rt_reply *r = open_reply(form, more, stream);
	struct rt_choice *c = &r->choices[0];
	size_t i;

	for (i = 0; i < n; i++) {
		struct rt_drawn t = { .token = (unsigned char)text[i] };

		if (!rt_choice_add(c, &t)) {
			break;
		}
	}
	rt_choice_end(c, RT_ENDED_STOP, (int64_t)i);
	read_answer(r, a);
	rt_reply_free(r);
}

/* What an answer is, in a line. */
static void
describe(const struct answer *a, char *to, size_t size)
{
	size_t n = 0, i;

	n += (size_t)snprintf(to + n, size - n, "%s", a->content.at);
	for (i = 0; i < a->n && n < size; i++) {
		n += (size_t)snprintf(to + n, size - n, "|%s%s",
			a->names[i].n ? a->names[i].at : "",
			a->arguments[i].n ? a->arguments[i].at : "");
	}
	if (n < size) {
		snprintf(to + n, size - n, "|%s", a->finish);
	}
}

#define GET1 "{\"name\": \"get\", \"arguments\": {\"x\": 1}}"
#define ONE ",\"parallel_tool_calls\":false"
#define MUST ",\"tool_choice\":\"required\""

static const struct {
	int form;
	const char *more, *text, *answer;
} answers[] = {
	{ CHATML, "", "Hello.", "Hello.|stop" },
	{ CHATML, "", "<tool_call>\n" GET1 "\n</tool_call>",
	  "|get{\"x\": 1}|tool_calls" },
	{ CHATML, "", "So:\n\n<tool_call>" GET1 "</tool_call>\n",
	  "So:|get{\"x\": 1}|tool_calls" },
	{ CHATML, "", "<tool_call>\n" GET1 "\n</tool_call>\n<tool_call>\n"
	  "{\"arguments\": {\"s\": \"}\\\"\"}, \"name\": \"now\"}",
	  "|get{\"x\": 1}|now{\"s\": \"}\\\"\"}|tool_calls" },
	{ CHATML, ONE, "<tool_call>\n" GET1 "\n</tool_call>\n<tool_call>\n"
	  GET1, "|get{\"x\": 1}|tool_calls" },
	/* no tool, no JSON, no object, or not the mark: it is said */
	{ CHATML, "", "<tool_call>{\"name\": \"set\", \"arguments\": {}}",
	  "<tool_call>{\"name\": \"set\", \"arguments\": {}}|stop" },
	{ CHATML, "", "<tool_call>{\"arguments\": {}, \"name\": \"set\"}",
	  "<tool_call>{\"arguments\": {}, \"name\": \"set\"}|stop" },
	{ CHATML, "", "<tool_call>get()</tool_call>",
	  "<tool_call>get()</tool_call>|stop" },
	{ CHATML, "", "<tool_call>{\"name\": \"get\", \"arguments\": \"x\"}",
	  "<tool_call>{\"name\": \"get\", \"arguments\": \"x\"}|stop" },
	{ CHATML, "", "<tool_call>{\"name\": \"get\"}</tool_call>",
	  "<tool_call>{\"name\": \"get\"}</tool_call>|stop" },
	{ CHATML, "", "a <tool_cold> \n ", "a <tool_cold> \n |stop" },
	{ CHATML, "", GET1, GET1 "|stop" },
	/* other members, and what comes after a call */
	{ CHATML, "", "<tool_call>{\"id\": 12, \"name\":\"now\" , \"x\": [{}],"
	  "\"arguments\":{} , \"y\":null}</tool_call>Done.",
	  "Done.|now{}|tool_calls" },
	/* cut in its arguments, and before them */
	{ CHATML, "", "<tool_call>{\"name\": \"get\", \"arguments\": {\"x",
	  "|get{\"x|tool_calls" },
	{ CHATML, "", "<tool_call>{\"name\": \"get\", \"argum",
	  "<tool_call>{\"name\": \"get\", \"argum|stop" },
	{ CHATML, MUST, "{\"name\": \"get\", \"argum", "|stop" },
	{ CHATML, MUST, GET1 "\n</tool_call>\n<tool_c",
	  "|get{\"x\": 1}|tool_calls" },
	{ CHATML, MUST, "\n" GET1 "\n</tool_call>",
	  "|get{\"x\": 1}|tool_calls" },
	{ LLAMA, "", "\n{\"name\": \"get\", \"parameters\": {\"x\": 2}}",
	  "|get{\"x\": 2}|tool_calls" },
	{ LLAMA, "", GET1 "; " GET1, "|get{\"x\": 1}|get{\"x\": 1}|"
	  "tool_calls" },
	{ LLAMA, "", "So: " GET1, "So: " GET1 "|stop" },
	{ LLAMA, "", "{\"a\": 1}", "{\"a\": 1}|stop" },
	{ MISTRAL, "", "[TOOL_CALLS] [" GET1 ", {\"name\": \"now\", "
	  "\"arguments\": {}, \"id\": \"a\"}]",
	  "|get{\"x\": 1}|now{}|tool_calls" },
	{ MISTRAL, "", "[TOOL_CALLS] " GET1, "[TOOL_CALLS] " GET1 "|stop" },
	{ MISTRAL, MUST, " [" GET1 "]", "|get{\"x\": 1}|tool_calls" },
	{ MISTRAL, ",\"stop\":\"1\"", "[TOOL_CALLS] [" GET1 "]",
	  "|get{\"x\": |tool_calls" },
	{ MISTRAL7, "", "So.[TOOL_CALLS][" GET1 "]",
	  "So.|get{\"x\": 1}|tool_calls" },
	/* a name before its arguments, with an id and without one */
	{ MISTRAL11, "", "[TOOL_CALLS]get[CALL_ID]abcdefghi[ARGS]{\"x\": 1}",
	  "|get{\"x\": 1}|tool_calls" },
	{ MISTRAL13, "", "So.[TOOL_CALLS]get[ARGS]{\"x\": {}}[TOOL_CALLS]now"
	  "[ARGS]{}", "So.|get{\"x\": {}}|now{}|tool_calls" },
	{ MISTRAL13, ONE, "[TOOL_CALLS]get[ARGS]{\"x\": 1}[TOOL_CALLS]now",
	  "|get{\"x\": 1}|tool_calls" },
	{ MISTRAL13, "", "[TOOL_CALLS]get[ARGS]{\"x\": 1} Done.",
	  " Done.|get{\"x\": 1}|tool_calls" },
	{ MISTRAL13, "", "[TOOL_CALLS]set[ARGS]{}", "[TOOL_CALLS]set[ARGS]{}|"
	  "stop" },
	{ MISTRAL13, "", "[TOOL_CALLS]get{}", "[TOOL_CALLS]get{}|stop" },
	{ MISTRAL13, "", "[TOOL_CALLS]get[ARGS][1]", "[TOOL_CALLS]get[ARGS][1]|"
	  "stop" },
	{ MISTRAL13, "", "[TOOL_CALLS]get[AR", "[TOOL_CALLS]get[AR|stop" },
	{ MISTRAL13, "", "[TOOL_CALLS]get[ARGS]{\"x",
	  "|get{\"x|tool_calls" },
	{ MISTRAL11, "", "[TOOL_CALLS]get[CALL_ID]a[CALL_ID]b[ARGS]{}",
	  "[TOOL_CALLS]get[CALL_ID]a[CALL_ID]b[ARGS]{}|stop" },
	{ MISTRAL13, MUST, "get[ARGS]{\"x\": 1}",
	  "|get{\"x\": 1}|tool_calls" },
	{ PHI, "", "<|tool_call|>[" GET1 ", {\"name\": \"now\", \"arguments\":"
	  " {}}]<|/tool_call|>", "|get{\"x\": 1}|now{}|tool_calls" },
	{ PHI, "", "<|tool_call|>[" GET1 "]<|/tool_call|>\nSo.",
	  "\nSo.|get{\"x\": 1}|tool_calls" },
	{ PHI, MUST, "[" GET1 "]", "|get{\"x\": 1}|tool_calls" },
	{ DEEPSEEK, "", "So." DEEP_CALLS DEEP_CALL "get\n```json\n{\"x\": 1}"
	  DEEP_CALL_END "\n" DEEP_CALL "now\n```json\n{}" DEEP_CALL_END
	  DEEP_CALLS_END, "So.|get{\"x\": 1}|now{}|tool_calls" },
	{ DEEPSEEK, "", DEEP_CALLS DEEP_CALL "get\n```json\n{\"x\": 1}"
	  DEEP_CALL_END DEEP_CALLS_END "So.", "So.|get{\"x\": 1}|tool_calls" },
	{ DEEPSEEK, "", DEEP_CALLS "get", DEEP_CALLS "get|stop" },
	{ DEEPSEEK, "", DEEP_CALLS DEEP_CALL "get\n```json\n{\"x\": 1}\n``",
	  "|get{\"x\": 1}|tool_calls" },
	{ DEEPSEEK, MUST, DEEP_CALL "get\n```json\n{\"x\": 1}" DEEP_CALL_END
	  DEEP_CALLS_END, "|get{\"x\": 1}|tool_calls" },
	{ DEEPSEEK31, "", "So." DEEP_CALLS CHAIN_CALL "get" CHAIN_SEP
	  "{\"x\": 1}" CHAIN_END CHAIN_CALL "now" CHAIN_SEP "{}" CHAIN_END
	  DEEP_CALLS_END, "So.|get{\"x\": 1}|now{}|tool_calls" },
	{ DEEPSEEK31, "", DEEP_CALLS CHAIN_CALL "get" CHAIN_SEP "{\"x\": 1}"
	  CHAIN_END DEEP_CALLS_END "So.", "So.|get{\"x\": 1}|tool_calls" },
	{ DEEPSEEK31, "", DEEP_CALLS CHAIN_CALL "set" CHAIN_SEP "{}" CHAIN_END,
	  DEEP_CALLS CHAIN_CALL "set" CHAIN_SEP "{}" CHAIN_END "|stop" },
	/* the form of V3 */
	{ DEEPSEEK31, "", DEEP_CALLS DEEP_CALL "get\n```json\n{\"x\": 1}",
	  DEEP_CALLS DEEP_CALL "get\n```json\n{\"x\": 1}|stop" },
	{ DEEPSEEK31, "", DEEP_CALLS CHAIN_CALL "get" CHAIN_SEP "{\"x",
	  "|get{\"x|tool_calls" },
	{ DEEPSEEK31, ONE, DEEP_CALLS CHAIN_CALL "get" CHAIN_SEP "{\"x\": 1}"
	  CHAIN_END CHAIN_CALL "now", "|get{\"x\": 1}|tool_calls" },
	{ DEEPSEEK31, MUST, CHAIN_CALL "get" CHAIN_SEP "{\"x\": 1}" CHAIN_END
	  DEEP_CALLS_END, "|get{\"x\": 1}|tool_calls" },
};

enum { NANSWERS = sizeof answers / sizeof *answers };

static void
test_answers(void **state)
{
	char got[1024], parts[1024];
	struct answer a, b;
	size_t i;

	(void)state;
	for (i = 0; i < NANSWERS; i++) {
		size_t n = strlen(answers[i].text);

		answer_by(answers[i].form, answers[i].more, false,
			  answers[i].text, n, &a);
		answer_by(answers[i].form, answers[i].more, true,
			  answers[i].text, n, &b);
		describe(&a, got, sizeof got);
		describe(&b, parts, sizeof parts);
		assert_string_equal(got, answers[i].answer);
		assert_string_equal(parts, answers[i].answer);
		assert_memory_equal(a.ids, b.ids, sizeof a.ids);
		assert_true(a.n < 2 || strcmp(a.ids[0], a.ids[1]) != 0);
		answer_release(&a);
		answer_release(&b);
	}
}

/* Calls of replies that a service made one after another, whose numbers are so
 * far apart: each has an id of its own. */
static void
test_ids(void **state)
{
	static const char text[] = "<tool_call>{\"name\":\"now\","
		"\"arguments\":{}}</tool_call><tool_call>{\"name\":\"now\","
		"\"arguments\":{}}</tool_call>";
	char ids[8][16];
	size_t i, k;

	(void)state;
	for (i = 0; i < 8; i += 2) {
		struct answer a;

		answer_by(CHATML, "", false, text, sizeof text - 1, &a);
		assert_int_equal(a.n, 2);
		memcpy(ids[i], a.ids, sizeof ids[i] * 2);
		answer_release(&a);
		number += 0x9e3779b97f4a7c15u;
	}
	for (i = 0; i < 8; i++) {
		for (k = 0; k < i; k++) {
			assert_string_not_equal(ids[i], ids[k]);
		}
	}
}

/* Texts in which any byte is another one, and any part is left out: a stream
 * has the calls that one object has. */
static void
test_damaged_answers(void **state)
{
	char text[512], got[2048], parts[2048];
	struct answer a, b;
	int round, k;

	(void)state;
	for (round = 0; round < 5000; round++) {
		uint32_t i = draw(NANSWERS);
		size_t n, from, len;

		snprintf(text, sizeof text, "%s%s", answers[i].text,
			 draw(2) ? answers[draw(NANSWERS)].text : "");
		n = strlen(text);
		for (k = (int)draw(3); k > 0; k--) {
			text[draw((uint32_t)n)] =
				"{}[]\",:\\<> \n;1a\xc3\xa9"[draw(16)];
		}
		from = draw((uint32_t)n);
		len = draw(4) ? 0 : draw((uint32_t)(n - from));
		memmove(text + from, text + from + len, n - from - len);
		n -= len;
		answer_by(answers[i].form, answers[i].more, false, text, n, &a);
		answer_by(answers[i].form, answers[i].more, true, text, n, &b);
		describe(&a, got, sizeof got);
		describe(&b, parts, sizeof parts);
		assert_string_equal(got, parts);
		answer_release(&a);
		answer_release(&b);
	}
}

/* ---- answers that have to call ---- */

/* Draws an answer of which each byte is allowed. */
static void
answer_forced(int form, const char *more, struct answer *a)
{
	struct rt_reply *r = open_reply(form, more, draw(2));
	struct rt_choice *c = &r->choices[0];
	struct rt_error err = { .message = "" };
	bool over = false, may_end = false, goes_on = true;
	uint64_t bits[5];
	int64_t i, n = 0;

	assert_non_null(c->guide);
	while (!over && goes_on) {
		struct rt_drawn t = { .token = 0 };

		assert_int_equal(rt_guide_allow(c->guide, bits, &may_end,
						&err), RT_OK);
		if (may_end && draw(2)) {
			break;
		}
		assert_in_range(n, 0, 5000);
		/* few blanks, so that answers end */
		for (i = draw(256); !(bits[i % 256 / 64] >> i % 64 & 1) ||
		     ((i % 256 == ' ' || i % 256 == '\n') && draw(20)); i++) {
		}
		t.token = (int32_t)(i % 256);
		assert_int_equal(rt_guide_take(c->guide, t.token, &over, &err),
				 RT_OK);
		goes_on = rt_choice_add(c, &t);
		n++;
	}
	rt_choice_end(c, RT_ENDED_STOP, n);
	read_answer(r, a);
	rt_reply_free(r);
}

static void
assert_called(const struct answer *a, size_t i)
{
	char text[256], *to = text;
	const char *at = a->arguments[i].at;

	for (; *at; at++) {
		*to = *at;
		to += *at != ' ' && *at != '\n';
	}
	*to = '\0';
	if (strcmp(a->names[i].at, "now") == 0) {
		assert_string_equal(text, "{}");
	} else {
		assert_string_equal(a->names[i].at, "get");
		assert_true(strcmp(text, "{\"x\":1}") == 0 ||
			    strcmp(text, "{\"x\":2}") == 0);
	}
}

static void
test_forced(void **state)
{
	static const char *const more[] = { MUST, MUST ONE,
		",\"tool_choice\":{\"type\":\"function\",\"function\":"
		"{\"name\":\"get\"}}" };
	size_t several = 0, i;
	struct answer a;
	int round;

	(void)state;
	for (round = 0; round < 300; round++) {
		int form = round % NFORMS, how = round / NFORMS % 3;

		answer_forced(form, more[how], &a);
		assert_string_equal(a.content.at, "");
		assert_string_equal(a.finish, "tool_calls");
		assert_in_range(a.n, 1, MOST);
		assert_true(how == 0 || a.n == 1);
		several += a.n > 1;
		for (i = 0; i < a.n; i++) {
			assert_called(&a, i);
			assert_true(how < 2 ||
				    strcmp(a.names[i].at, "get") == 0);
		}
		answer_release(&a);
	}
	assert_true(several > 10);
}

/* ---- special tokens ---- */

enum { CALLS_TOKEN = 335, ARGS_TOKEN, TOKENS };

/* A tokenizer of bytes and more with marks of calls that are special, so that
 * texts leave them out. */
static void
open_marked(struct rt_codec *c)
{
	static const char end[] = "],\"normalizer\"",
		marks[] = ",{\"id\":335,\"content\":\"[TOOL_CALLS]\","
		"\"special\":true},{\"id\":336,\"content\":\"[ARGS]\","
		"\"special\":true}";
	const char *top = getenv("top_srcdir");
	struct rt_error err = { .message = "" };
	char path[1024], file[8192], *at;
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/qwen.json",
		 top ? top : ".");
	f = fopen(path, "rb");
	assert_non_null(f);
	n = fread(file, 1, sizeof file - 1, f);
	fclose(f);
	file[n] = '\0';
	at = strstr(file, end);
	assert_non_null(at);
	snprintf(path, sizeof path, "t-calls-%ld.json", (long)getpid());
	f = fopen(path, "wb");
	assert_non_null(f);
	fprintf(f, "%.*s%s%s", (int)(at - file), file, marks, at);
	assert_int_equal(fclose(f), 0);
	rt_codec_open(c, path, "mistral-v13", TOKENS, &err);
	unlink(path);
	assert_string_equal(err.message, "");
}

static void
open_now(struct rt_reply **r, struct rt_codec *c, const char *more)
{
	struct rt_error err;
	struct rt_request q;
	char body[2048];

	snprintf(body, sizeof body, "{" HI "," TOOLS "%s}", more);
	read_request(&q, c, body, &err);
	assert_string_equal(err.message, "");
	assert_int_equal(rt_reply_open(r, &q, c, "m", 1, 2, &err), RT_OK);
}

/* Adds the tokens of a text, or one, which the grammar must allow. */
static void
add_tokens(struct rt_choice *c, const char *text, int32_t token)
{
	struct rt_error err = { .message = "" };
	struct rt_ids ids = { .alloc = rt_alloc_or_libc(NULL) };
	uint64_t bits[TOKENS / 64 + 1];
	bool may_end, over = false;
	size_t i;

	assert_int_equal(rt_codec_encode((struct rt_codec *)c->reply->codec,
					 text, strlen(text), false, &ids, &err),
			 RT_OK);
	if (token >= 0) {
		assert_true(rt_ids_add(&ids, (uint32_t)token));
	}
	for (i = 0; i < ids.n; i++) {
		struct rt_drawn t = { .token = (int32_t)ids.at[i] };

		if (c->guide) {
			assert_int_equal(rt_guide_allow(c->guide, bits,
							&may_end, &err), RT_OK);
			assert_true(bits[t.token / 64] >> t.token % 64 & 1);
			assert_int_equal(rt_guide_take(c->guide, t.token, &over,
						       &err), RT_OK);
		}
		rt_choice_add(c, &t);
	}
	rt_ids_release(&ids);
}

/* Marks that are special tokens are a part of answers that may call, and may
 * be drawn in those that have to. */
static void
test_special_marks(void **state)
{
	static const char *const more[] = { "", MUST };
	struct rt_codec c;
	struct rt_reply *r;
	struct answer a;
	char got[256];
	size_t i;

	(void)state;
	open_marked(&c);
	for (i = 0; i < 2; i++) {
		open_now(&r, &c, more[i]);
		if (i == 0) {
			add_tokens(r->choices, "", CALLS_TOKEN);
		}
		add_tokens(r->choices, "now", ARGS_TOKEN);
		add_tokens(r->choices, "{}", CALLS_TOKEN);
		add_tokens(r->choices, "get", ARGS_TOKEN);
		add_tokens(r->choices, "{\"x\": 1}", -1);
		rt_choice_end(r->choices, RT_ENDED_STOP, 9);
		read_answer(r, &a);
		describe(&a, got, sizeof got);
		assert_string_equal(got, "|now{}|get{\"x\": 1}|tool_calls");
		answer_release(&a);
		rt_reply_free(r);
	}
	rt_codec_close(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_long_tools),
		cmocka_unit_test(test_damaged_requests),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_damaged_answers),
		cmocka_unit_test(test_forced),
		cmocka_unit_test(test_special_marks),
	};

	return cmocka_run_group_tests(tests, open_codecs, close_codecs);
}

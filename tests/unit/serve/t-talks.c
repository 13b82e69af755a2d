/*
 * Conversations with tools, as templates write them: how models are told of
 * tools, what they called, and what came of that.
 */
#include "tests/unit/serve/t-calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TALK "{\"messages\": [{\"role\": \"system\", \"content\": " \
	"\"Be brief.\"}, {\"role\": \"user\", \"content\": \"Hi\"}, " \
	"{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [" \
	"{\"id\": \"abcdefghi\", \"type\": \"function\", \"function\": " \
	"{\"name\": \"get\", \"arguments\": \"{\\\"x\\\":1}\"}}]}, " \
	"{\"role\": \"tool\", \"tool_call_id\": \"abcdefghi\", \"content\": " \
	"\"\\\"a\\\"\"}]," TOOLS

#define FUNCTIONS "{\"type\": \"function\", \"function\": " GET_FUNCTION \
	"}, {\"type\": \"function\", \"function\": {\"name\": \"now\"}}"
#define GET_FUNCTION "{\"name\": \"get\", \"description\": \"A \303\251 " \
	"\\\"b\\\"\\\\\", \"parameters\": {\"type\": \"object\", " \
	"\"properties\": {\"x\": {\"enum\": [1, 2]}}, \"required\": " \
	"[\"x\"], \"additionalProperties\": false}}"

/* As Hugging Face's templates of Qwen3-8B, Llama-3.1-8B-Instruct (without its
 * dates), Mistral-7B-Instruct-v0.3, Phi-4-mini-instruct and DeepSeek-R1 write
 * it, and mistral-common 1.13 with tokenizers of versions 7, 11 and 13.
 * DeepSeek's is told of tools by vLLM's tool_chat_template_deepseekv3.jinja.
 * DeepSeek-V3.1's is written as its template and its model card say. */
static const char *const talks[NFORMS] = {
	"<|im_start|>system\nBe brief.\n\n# Tools\n\nYou may call one or more "
	"functions to assist with the user query.\n\nYou are provided with "
	"function signatures within <tools></tools> XML tags:\n<tools>\n"
	"{\"type\": \"function\", \"function\": {\"name\": \"get\", "
	"\"description\": \"A \303\251 \\\"b\\\"\\\\\", \"parameters\": "
	"{\"type\": \"object\", \"properties\": {\"x\": {\"enum\": [1, 2]}}, "
	"\"required\": [\"x\"], \"additionalProperties\": false}}}\n"
	"{\"type\": \"function\", \"function\": {\"name\": \"now\"}}\n"
	"</tools>\n\nFor each function call, return a json object with "
	"function name and arguments within <tool_call></tool_call> XML tags:\n"
	"<tool_call>\n{\"name\": <function-name>, \"arguments\": "
	"<args-json-object>}\n</tool_call><|im_end|>\n"
	"<|im_start|>user\nHi<|im_end|>\n"
	"<|im_start|>assistant\n<tool_call>\n{\"name\": \"get\", "
	"\"arguments\": {\"x\": 1}}\n</tool_call><|im_end|>\n"
	"<|im_start|>user\n<tool_response>\n\"a\"\n</tool_response><|im_end|>\n"
	"<|im_start|>assistant\n",
	"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
	"Environment: ipython\n\nBe brief.<|eot_id|><|start_header_id|>user"
	"<|end_header_id|>\n\nGiven the following functions, please respond "
	"with a JSON for a function call with its proper arguments that best "
	"answers the given prompt.\n\nRespond in the format {\"name\": "
	"function name, \"parameters\": dictionary of argument name and its "
	"value}.Do not use variables.\n\n"
	"{\n    \"type\": \"function\",\n    \"function\": {\n"
	"        \"name\": \"get\",\n"
	"        \"description\": \"A \303\251 \\\"b\\\"\\\\\",\n"
	"        \"parameters\": {\n            \"type\": \"object\",\n"
	"            \"properties\": {\n                \"x\": {\n"
	"                    \"enum\": [\n                        1,\n"
	"                        2\n                    ]\n"
	"                }\n            },\n            \"required\": [\n"
	"                \"x\"\n            ],\n"
	"            \"additionalProperties\": false\n        }\n    }\n}\n\n"
	"{\n    \"type\": \"function\",\n    \"function\": {\n"
	"        \"name\": \"now\"\n    }\n}\n\nHi<|eot_id|>"
	"<|start_header_id|>assistant<|end_header_id|>\n\n{\"name\": \"get\", "
	"\"parameters\": {\"x\": 1}}<|eot_id|>"
	"<|start_header_id|>ipython<|end_header_id|>\n\n\"\\\"a\\\"\"<|eot_id|>"
	"<|start_header_id|>assistant<|end_header_id|>\n\n",
	"<s>[AVAILABLE_TOOLS] [{\"type\": \"function\", \"function\": "
	"{\"name\": \"get\", \"description\": \"A \303\251 \\\"b\\\"\\\\\", "
	"\"parameters\": {\"type\": \"object\", \"properties\": {\"x\": "
	"{\"enum\": [1, 2]}}, \"required\": [\"x\"], "
	"\"additionalProperties\": false}}}, {\"type\": \"function\", "
	"\"function\": {\"name\": \"now\"}}][/AVAILABLE_TOOLS][INST] "
	"Be brief.\n\nHi[/INST][TOOL_CALLS] [{\"name\": \"get\", "
	"\"arguments\": {\"x\": 1}, \"id\": \"abcdefghi\"}]</s>"
	"[TOOL_RESULTS] {\"content\": \"a\", \"call_id\": \"abcdefghi\"}"
	"[/TOOL_RESULTS]",
	"<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][AVAILABLE_TOOLS]["
	FUNCTIONS "][/AVAILABLE_TOOLS][INST]Hi[/INST][TOOL_CALLS][{\"name\": "
	"\"get\", \"arguments\": {\"x\": 1}, \"id\": \"abcdefghi\"}]</s>"
	"[TOOL_RESULTS]abcdefghi[TOOL_CONTENT]\"a\"[/TOOL_RESULTS]",
	"<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][AVAILABLE_TOOLS]["
	FUNCTIONS "][/AVAILABLE_TOOLS][INST]Hi[/INST][TOOL_CALLS]get"
	"[CALL_ID]abcdefghi[ARGS]{\"x\": 1}</s>[TOOL_RESULTS]abcdefghi"
	"[TOOL_CONTENT]\"a\"[/TOOL_RESULTS]",
	"<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][AVAILABLE_TOOLS]["
	FUNCTIONS "][/AVAILABLE_TOOLS][INST]Hi[/INST][TOOL_CALLS]get[ARGS]"
	"{\"x\": 1}</s>[TOOL_RESULTS]\"a\"[/TOOL_RESULTS]",
	"<|system|>Be brief.<|tool|>[" GET_FUNCTION ", {\"name\": \"now\"}]"
	"<|/tool|><|end|><|user|>Hi<|end|><|assistant|><|tool_call|>[{\"name\""
	": \"get\", \"arguments\": {\"x\": 1}}]<|/tool_call|><|end|><|tool|>"
	"\"a\"<|end|><|assistant|>",
	DEEP("begin" GAP "of" GAP "sentence") "Be brief.\n\n# Tools\n\nYou may "
	"call one or more functions to assist with the user query.\n\nYou are "
	"provided with function signatures within <tools></tools> XML tags:\n"
	"<tools>\n{\"type\": \"function\", \"function\": " GET_FUNCTION "}\n"
	"{\"type\": \"function\", \"function\": {\"name\": \"now\"}}\n"
	"</tools>\n\nFor function call returns, you should first print "
	DEEP_CALLS "\n\nFor each function call, you should return object like:"
	"\n" DEEP_CALL "<function_name>\n```json\n"
	"<function_arguments_in_json_format>" DEEP_CALL_END "\n\nAt the end of "
	"function call returns, you should print " DEEP_CALLS_END DEEP_END
	DEEP("User") "Hi" DEEP("Assistant") DEEP_CALLS DEEP_CALL
	"get\n```json\n{\"x\": 1}" DEEP_CALL_END DEEP_CALLS_END DEEP_END
	DEEP("tool" GAP "outputs" GAP "begin") DEEP_RESULT "\"a\""
	DEEP_RESULT_END DEEP("tool" GAP "outputs" GAP "end"),
	DEEP("begin" GAP "of" GAP "sentence") "Be brief.\n\n## Tools\nYou "
	"have access to the following tools:\n\n### get\nDescription: "
	"A \303\251 \"b\"\\\n\nParameters: {\"type\": \"object\", "
	"\"properties\": {\"x\": {\"enum\": [1, 2]}}, \"required\": "
	"[\"x\"], \"additionalProperties\": false}\n\n### now\n"
	"Description: \n\nParameters: {}\n\nIMPORTANT: ALWAYS adhere to "
	"this exact format for tool use:\n" DEEP_CALLS CHAIN_CALL
	"tool_call_name" CHAIN_SEP "tool_call_arguments" CHAIN_END
	"{{additional_tool_calls}}" DEEP_CALLS_END "\n\nWhere:\n\n"
	"- `tool_call_name` must be an exact match to one of the available "
	"tools\n- `tool_call_arguments` must be valid JSON that strictly "
	"follows the tool's Parameters Schema\n- For multiple tool calls, "
	"chain them directly without separators or spaces\n"
	DEEP("User") "Hi" CHAIN_ANSWER DEEP_CALLS CHAIN_CALL "get" CHAIN_SEP
	"{\"x\": 1}" CHAIN_END DEEP_CALLS_END DEEP_END
	DEEP_RESULT "\"a\"" DEEP_RESULT_END,
};

/* The text of a prompt whose tokens are bytes. */
static void
assert_prompt(const struct rt_request *q, const char *want)
{
	char *got = calloc(q->ids.n + 1, 1);
	size_t i;

	assert_non_null(got);
	for (i = 0; i < q->ids.n; i++) {
		got[i] = (char)q->ids.at[i];
	}
	assert_string_equal(got, want);
	free(got);
}

static void
test_talks(void **state)
{
	static const char *const marks[NFORMS] = {
		"<tool_call>", "", "[TOOL_CALLS]", "[TOOL_CALLS]",
		"[TOOL_CALLS]", "[TOOL_CALLS]", "<|tool_call|>", DEEP_CALLS,
		DEEP_CALLS
	};
	struct rt_error err;
	struct rt_request q;
	char want[4096];
	int i;

	(void)state;
	for (i = 0; i < NFORMS; i++) {
		read_request(&q, &codec[i], TALK "}", &err);
		assert_string_equal(err.message, "");
		assert_prompt(&q, talks[i]);
		rt_request_release(&q);
		read_request(&q, &codec[i], TALK ",\"tool_choice\":"
			     "\"required\"}", &err);
		snprintf(want, sizeof want, "%s%s", talks[i], marks[i]);
		assert_prompt(&q, want);
		rt_request_release(&q);
		/* who may not be called is not told of */
		read_request(&q, &codec[i], "{\"tool_choice\":\"none\","
			     TOOLS "," HI "}", &err);
		assert_true(q.ids.n < 120);
		rt_request_release(&q);
	}
}

static const struct {
	int form;
	const char *prompt;
} later[] = {
	{ MISTRAL7, "<s>So.[TOOL_CALLS][{\"name\": \"a\", "
	  "\"arguments\": {}, \"id\": \"\"}, {\"name\": \"b\", "
	  "\"arguments\": {}, \"id\": \"\"}]</s>[TOOL_RESULTS]"
	  "[TOOL_CONTENT]1[/TOOL_RESULTS][TOOL_RESULTS][TOOL_CONTENT]2"
	  "[/TOOL_RESULTS][INST]Hi[/INST]" },
	{ MISTRAL11, "<s>So.[TOOL_CALLS]a[ARGS]{}[TOOL_CALLS]b[ARGS]{}"
	  "</s>[TOOL_RESULTS][TOOL_CONTENT]1[/TOOL_RESULTS]"
	  "[TOOL_RESULTS][TOOL_CONTENT]2[/TOOL_RESULTS][INST]Hi"
	  "[/INST]" },
	{ MISTRAL13, "<s>So.[TOOL_CALLS]a[ARGS]{}[TOOL_CALLS]b[ARGS]{}"
	  "</s>[TOOL_RESULTS]1[/TOOL_RESULTS][TOOL_RESULTS]2"
	  "[/TOOL_RESULTS][INST]Hi[/INST]" },
	{ PHI, "<|assistant|>So.<|tool_call|>[{\"name\": \"a\", "
	  "\"arguments\": {}}, {\"name\": \"b\", \"arguments\": {}}]"
	  "<|/tool_call|><|end|><|tool|>1<|end|><|tool|>2<|end|>"
	  "<|user|>Hi<|end|><|assistant|>" },
	{ DEEPSEEK, DEEP("begin" GAP "of" GAP "sentence")
	  DEEP("Assistant") "So." DEEP_CALLS DEEP_CALL
	  "a\n```json\n{}" DEEP_CALL_END "\n" DEEP_CALL
	  "b\n```json\n{}" DEEP_CALL_END DEEP_CALLS_END DEEP_END
	  DEEP("tool" GAP "outputs" GAP "begin") DEEP_RESULT "1"
	  DEEP_RESULT_END "\n" DEEP_RESULT "2" DEEP_RESULT_END
	  DEEP("tool" GAP "outputs" GAP "end") DEEP("User") "Hi"
	  DEEP("Assistant") },
	{ DEEPSEEK31, DEEP("begin" GAP "of" GAP "sentence")
	  CHAIN_ANSWER "So." DEEP_CALLS CHAIN_CALL "a" CHAIN_SEP "{}"
	  CHAIN_END CHAIN_CALL "b" CHAIN_SEP "{}" CHAIN_END
	  DEEP_CALLS_END DEEP_END DEEP_RESULT "1" DEEP_RESULT_END
	  DEEP_RESULT "2" DEEP_RESULT_END DEEP("User") "Hi"
	  CHAIN_ANSWER },
};

/* Two calls and what came of them; content beside calls. */
static void
test_two_calls(void **state)
{
	static const char body[] = "{\"messages\": [{\"role\": \"assistant\", "
		"\"content\": \"So.\", \"tool_calls\": [{\"function\": "
		"{\"name\": \"a\", \"arguments\": {}}}, {\"id\": null, "
		"\"function\": {\"arguments\": \"\", \"name\": \"b\"}}]}, "
		"{\"role\": \"tool\", \"content\": \"1\"}, {\"role\": "
		"\"tool\", \"content\": [{\"type\": \"text\", \"text\": "
		"\"2\"}]}, {\"role\": \"user\", \"content\": \"Hi\"}]}";
	struct rt_error err;
	struct rt_request q;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof later / sizeof *later; i++) {
		read_request(&q, &codec[later[i].form], body, &err);
		assert_string_equal(err.message, "");
		assert_prompt(&q, later[i].prompt);
		rt_request_release(&q);
	}
	read_request(&q, &codec[CHATML], body, &err);
	assert_string_equal(err.message, "");
	assert_prompt(&q, "<|im_start|>assistant\nSo.\n<tool_call>\n"
		"{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n"
		"<tool_call>\n{\"name\": \"b\", \"arguments\": {}}\n"
		"</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n1\n"
		"</tool_response>\n<tool_response>\n2\n</tool_response>"
		"<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
		"<|im_start|>assistant\n");
	rt_request_release(&q);
}

/* What the assistant says after results of calls goes on in their turn. */
static void
test_after_results(void **state)
{
	static const char body[] = "{\"messages\": [{\"role\": \"tool\", "
		"\"content\": \"1\"}, {\"role\": \"assistant\", \"content\": "
		"\"So.\"}, {\"role\": \"user\", \"content\": \"Hi\"}]}";
	struct rt_error err;
	struct rt_request q;

	(void)state;
	read_request(&q, &codec[DEEPSEEK], body, &err);
	assert_string_equal(err.message, "");
	assert_prompt(&q, DEEP("begin" GAP "of" GAP "sentence")
		      DEEP("tool" GAP "outputs" GAP "begin") DEEP_RESULT "1"
		      DEEP_RESULT_END DEEP("tool" GAP "outputs" GAP "end")
		      "So." DEEP_END DEEP("User") "Hi" DEEP("Assistant"));
	rt_request_release(&q);
	read_request(&q, &codec[DEEPSEEK31], body, &err);
	assert_string_equal(err.message, "");
	assert_prompt(&q, DEEP("begin" GAP "of" GAP "sentence") DEEP_RESULT "1"
		      DEEP_RESULT_END "So." DEEP_END DEEP("User") "Hi"
		      CHAIN_ANSWER);
	rt_request_release(&q);
}

/* An answer goes on in the last message, or nothing begins one. */
static void
test_ends(void **state)
{
	static const char talk[] = "{\"messages\": [{\"role\": \"user\", "
		"\"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
		"\"So\"}], \"add_generation_prompt\": false%s}";
	static const char *const ends[][2] = {
		{ "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nSo",
		  "<|im_end|>\n" },
		{ "<|begin_of_text|><|start_header_id|>user<|end_header_id|>"
		  "\n\nHi<|eot_id|><|start_header_id|>assistant"
		  "<|end_header_id|>\n\nSo", "<|eot_id|>" },
		{ "<s>[INST] Hi[/INST] So", "</s>" },
	};
	struct rt_error err;
	struct rt_request q;
	char body[512], want[512];
	int i;

	(void)state;
	for (i = CHATML; i <= MISTRAL; i++) {
		snprintf(body, sizeof body, talk,
			 ", \"continue_final_message\": true");
		read_request(&q, &codec[i], body, &err);
		assert_string_equal(err.message, "");
		assert_prompt(&q, ends[i][0]);
		rt_request_release(&q);
		snprintf(body, sizeof body, talk, "");
		read_request(&q, &codec[i], body, &err);
		assert_string_equal(err.message, "");
		snprintf(want, sizeof want, "%s%s", ends[i][0], ends[i][1]);
		assert_prompt(&q, want);
		rt_request_release(&q);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_talks),
		cmocka_unit_test(test_two_calls),
		cmocka_unit_test(test_after_results),
		cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, open_codecs, close_codecs);
}

/*
 * Chat templates.  Each row is what the tokenizer_config.json of models that
 * are named so makes of a conversation, and each form of calls what it makes of
 * tools, without what it says of today's date.
 */
#include "runtime/serve/chat/chat_forms.h"

#include <string.h>

/* ---- forms of calls ---- */

/* Hermes, Qwen 2.5 and Qwen 3. */
static const struct rt_call_form tagged = {
	.mark = "<tool_call>",
	.closed = "\n</tool_call>",
	.after = "\n</tool_call>",
	.between = "\n</tool_call>\n<tool_call>\n",
	.arguments = "arguments",
	.tools_in = TOOLS_END_SYSTEM,
	.tools = { "# Tools\n\nYou may call one or more functions to assist "
		   "with the user query.\n\nYou are provided with function "
		   "signatures within <tools></tools> XML tags:\n<tools>\n",
		   "\n",
		   "\n</tools>\n\nFor each function call, return a json "
		   "object with function name and arguments within "
		   "<tool_call></tool_call> XML tags:\n<tool_call>\n"
		   "{\"name\": <function-name>, \"arguments\": "
		   "<args-json-object>}\n</tool_call>" },
	.turn = { "<|im_start|>assistant\n", "<|im_end|>\n" },
	.says = true,
	.said = "\n",
	.calls = { "<tool_call>\n", "\n</tool_call>\n<tool_call>\n",
		   "\n</tool_call>" },
	.results = { "<|im_start|>user\n", "<|im_end|>\n" },
	.one_turn = true,
	.result = { "<tool_response>\n", "\n", "\n</tool_response>" },
};

/* Llama 3.1, 3.2 and 3.3. */
static const struct rt_call_form plain = {
	.arguments = "parameters",
	.tools_in = TOOLS_BEGIN_USER,
	.system = "Environment: ipython\n\n",
	.tools = { "Given the following functions, please respond with a JSON "
		   "for a function call with its proper arguments that best "
		   "answers the given prompt.\n\nRespond in the format "
		   "{\"name\": function name, \"parameters\": dictionary of "
		   "argument name and its value}.Do not use variables.\n\n",
		   "\n\n", "\n\n" },
	.indent = 4,
	.turn = { "<|start_header_id|>assistant<|end_header_id|>\n\n",
		  "<|eot_id|>" },
	.calls = { "", "; ", "" },
	.results = { "<|start_header_id|>ipython<|end_header_id|>\n\n",
		     "<|eot_id|>" },
	.result = { "", "", "" },
	.quoted = true,
};

/* Mistral 7B 0.3, Mixtral 8x22B and what came with their tokenizer. */
static const struct rt_call_form listed = {
	.mark = "[TOOL_CALLS]",
	.list = true,
	.arguments = "arguments",
	.tools_in = TOOLS_BEFORE_USER,
	.tools = { "[AVAILABLE_TOOLS] [", ", ", "][/AVAILABLE_TOOLS]" },
	.turn = { "[TOOL_CALLS] ", "</s>" },
	.calls = { "[", ", ", "]" },
	.with_id = true,
	.results = { "[TOOL_RESULTS] ", "[/TOOL_RESULTS]" },
	.result = { "{\"content\": ", "", "" },
	.result_id = true,
};

/* Phi-4-mini. */
static const struct rt_call_form piped = {
	.mark = "<|tool_call|>",
	.list = true,
	.ended = "<|/tool_call|>",
	.arguments = "arguments",
	.tools_in = TOOLS_END_SYSTEM,
	.tools = { "<|tool|>[", ", ", "]<|/tool|>" },
	.joined = true,
	.bare = true,
	.turn = { "<|assistant|>", "<|end|>" },
	.says = true,
	.said = "",
	.calls = { "<|tool_call|>[", ", ", "]<|/tool_call|>" },
	.results = { "<|tool|>", "<|end|>" },
	.result = { "", "", "" },
};

/* What Mistral's tokenizers from version 7 on have alike. */
#define MISTRAL_TOOLS \
	.mark = "[TOOL_CALLS]", \
	.arguments = "arguments", \
	.tools = { "[AVAILABLE_TOOLS][", ", ", "][/AVAILABLE_TOOLS]" }, \
	.turn = { "", "</s>" }, \
	.says = true, \
	.said = "", \
	.results = { "[TOOL_RESULTS]", "[/TOOL_RESULTS]" }, \
	.result = { "", "", "" }

/* Version 7: Mistral Large 2411 and Small 3.1. */
static const struct rt_call_form listed_after = {
	MISTRAL_TOOLS,
	.list = true,
	.tools_in = TOOLS_BEFORE_USER,
	.calls = { "[TOOL_CALLS][", ", ", "]" },
	.with_id = true,
	.result_after_id = "[TOOL_CONTENT]",
};

/* Version 11: Mistral Small 3.2. */
static const struct rt_call_form named_with_id = {
	MISTRAL_TOOLS,
	.before_name = "", .after_name = "[ARGS]", .id = "[CALL_ID]",
	.after = "", .between = "[TOOL_CALLS]",
	.tools_in = TOOLS_BEFORE_USER,
	.calls = { "[TOOL_CALLS]", "[TOOL_CALLS]", "" },
	.with_id = true,
	.result_after_id = "[TOOL_CONTENT]",
};

/* Version 13: Magistral and Devstral of July 2025, and what came later. */
static const struct rt_call_form named = {
	MISTRAL_TOOLS,
	.before_name = "", .after_name = "[ARGS]", .id = "[CALL_ID]",
	.after = "", .between = "[TOOL_CALLS]",
	.tools_in = TOOLS_BEFORE_FIRST,
	.calls = { "[TOOL_CALLS]", "[TOOL_CALLS]", "" },
};

/* The marks of DeepSeek: words between wide bars, with wide blanks. */
#define BAR "\xef\xbd\x9c"
#define GAP "\xe2\x96\x81"
#define DEEP_BEGIN "<" BAR "begin" GAP "of" GAP "sentence" BAR ">"
#define DEEP_END "<" BAR "end" GAP "of" GAP "sentence" BAR ">"
#define DEEP_CALLS "<" BAR "tool" GAP "calls" GAP "begin" BAR ">"
#define DEEP_CALLS_END "<" BAR "tool" GAP "calls" GAP "end" BAR ">"
#define DEEP_CALL "<" BAR "tool" GAP "call" GAP "begin" BAR ">"
#define DEEP_CALL_END "<" BAR "tool" GAP "call" GAP "end" BAR ">"
#define DEEP_SEP "<" BAR "tool" GAP "sep" BAR ">"
#define DEEP_RESULTS "<" BAR "tool" GAP "outputs" GAP "begin" BAR ">"
#define DEEP_RESULTS_END "<" BAR "tool" GAP "outputs" GAP "end" BAR ">"
#define DEEP_RESULT "<" BAR "tool" GAP "output" GAP "begin" BAR ">"
#define DEEP_RESULT_END "<" BAR "tool" GAP "output" GAP "end" BAR ">"
#define DEEP_ASSISTANT "<" BAR "Assistant" BAR ">"
/* of a model that may think before it answers, and does not */
#define DEEP_ANSWER DEEP_ASSISTANT "</think>"

/* DeepSeek-V3 and R1.  Their template has no place for tools: how they are told
 * of is from vLLM's examples/tool_chat_template_deepseekv3.jinja. */
static const struct rt_call_form fenced = {
	.mark = DEEP_CALLS,
	.before_name = DEEP_CALL "function" DEEP_SEP,
	.after_name = "\n```json\n",
	.closed = "\n```" DEEP_CALL_END,
	.ended = DEEP_CALLS_END,
	.after = "\n```" DEEP_CALL_END DEEP_CALLS_END,
	.between = "\n```" DEEP_CALL_END "\n",
	.tools_in = TOOLS_END_SYSTEM,
	.tools = { "# Tools\n\nYou may call one or more functions to assist "
		   "with the user query.\n\nYou are provided with function "
		   "signatures within <tools></tools> XML tags:\n<tools>\n",
		   "\n",
		   "\n</tools>\n\nFor function call returns, you should first "
		   "print " DEEP_CALLS "\n\nFor each function call, you "
		   "should return object like:\n" DEEP_CALL "function" DEEP_SEP
		   "<function_name>\n```json\n"
		   "<function_arguments_in_json_format>\n```" DEEP_CALL_END
		   "\n\nAt the end of function call returns, you should print "
		   DEEP_CALLS_END DEEP_END },
	.turn = { DEEP_ASSISTANT, DEEP_END },
	.says = true,
	.said = "",
	.calls = { DEEP_CALLS, "\n", DEEP_CALLS_END },
	.results = { DEEP_RESULTS, DEEP_RESULTS_END },
	.one_turn = true,
	.goes_on = true,
	.result = { DEEP_RESULT, "\n", DEEP_RESULT_END },
};

/* DeepSeek-V3.1: how it is told of tools is from its model card. */
static const struct rt_call_form chained = {
	.mark = DEEP_CALLS,
	.before_name = DEEP_CALL,
	.after_name = DEEP_SEP,
	.closed = DEEP_CALL_END,
	.ended = DEEP_CALLS_END,
	.after = DEEP_CALL_END DEEP_CALLS_END,
	.between = DEEP_CALL_END,
	.tools_in = TOOLS_END_SYSTEM,
	.tools = { "## Tools\nYou have access to the following tools:\n", "",
		   "\nIMPORTANT: ALWAYS adhere to this exact format for tool "
		   "use:\n" DEEP_CALLS DEEP_CALL "tool_call_name" DEEP_SEP
		   "tool_call_arguments" DEEP_CALL_END
		   "{{additional_tool_calls}}" DEEP_CALLS_END "\n\nWhere:\n\n"
		   "- `tool_call_name` must be an exact match to one of the "
		   "available tools\n- `tool_call_arguments` must be valid "
		   "JSON that strictly follows the tool's Parameters Schema\n"
		   "- For multiple tool calls, chain them directly without "
		   "separators or spaces\n" },
	.heading = { "\n### ", "\nDescription: ", "\n\nParameters: " },
	.ending = "\n",
	.turn = { DEEP_ANSWER, DEEP_END },
	.says = true,
	.said = "",
	.calls = { DEEP_CALLS, "", DEEP_CALLS_END },
	.results = { "", "" },
	.one_turn = true,
	.goes_on = true,
	.result = { DEEP_RESULT, "", DEEP_RESULT_END },
};

/* ---- templates ---- */

/* gpt-oss, as github.com/openai/harmony has it; without today's date. */
#define OSS_BEGIN \
	"<|start|>system<|message|>You are ChatGPT, a large language model " \
	"trained by OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: "
#define OSS_CHANNELS \
	"\n\n# Valid channels: analysis, commentary, final. Channel must be " \
	"included for every message.<|end|>"

/* The first whose sign or mark is found is taken: that of Phi-4 stands beside
 * ChatML's, that of Llama 2 beside Mistral's, and those of Mistral's later
 * tokenizers beside those of earlier ones.  Versions 11 and 13 have the same
 * tokens, of which a template tells more. */
static const struct rt_chat chats[] = {
	{ "phi-4", "<|im_sep|>", NULL, NULL, OWN,
	  { "<|im_start|>system<|im_sep|>", "<|im_end|>" },
	  { "<|im_start|>user<|im_sep|>", "<|im_end|>" },
	  { "<|im_start|>assistant<|im_sep|>", "<|im_end|>" },
	  "<|im_start|>assistant<|im_sep|>", false, NULL, NULL, NULL, NULL },
	{ "phi-4-mini", "<|/tool_call|>", "<|/tool|>", NULL, OWN,
	  { "<|system|>", "<|end|>" },
	  { "<|user|>", "<|end|>" },
	  { "<|assistant|>", "<|end|>" },
	  "<|assistant|>", false, &piped, NULL, NULL, NULL },
	{ "chatml", "<|im_start|>", NULL, NULL, OWN,
	  { "<|im_start|>system\n", "<|im_end|>\n" },
	  { "<|im_start|>user\n", "<|im_end|>\n" },
	  { "<|im_start|>assistant\n", "<|im_end|>\n" },
	  "<|im_start|>assistant\n", false, &tagged, NULL, NULL, NULL },
	{ "llama-3", "<|start_header_id|>", NULL, "<|begin_of_text|>", OWN,
	  { "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>" },
	  { "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>" },
	  { "<|start_header_id|>assistant<|end_header_id|>\n\n",
	    "<|eot_id|>" },
	  "<|start_header_id|>assistant<|end_header_id|>\n\n", true, &plain,
	  NULL, NULL, NULL },
	{ "gemma", "<start_of_turn>", NULL, "<bos>", FIRST_USER,
	  { "", "\n\n" },
	  { "<start_of_turn>user\n", "<end_of_turn>\n" },
	  { "<start_of_turn>model\n", "<end_of_turn>\n" },
	  "<start_of_turn>model\n", true, NULL, NULL, NULL, NULL },
	/* its tokens are R1's, too */
	{ "deepseek-v3.1", NULL, DEEP_ANSWER, DEEP_BEGIN, OWN,
	  { "", "" },
	  { "<" BAR "User" BAR ">", "" },
	  { DEEP_ANSWER, DEEP_END },
	  DEEP_ANSWER, false, &chained, NULL, NULL, NULL },
	{ "deepseek", "<" BAR "User" BAR ">", NULL, DEEP_BEGIN, OWN,
	  { "", "" },
	  { "<" BAR "User" BAR ">", "" },
	  { DEEP_ASSISTANT, DEEP_END },
	  DEEP_ASSISTANT, false, &fenced, NULL, NULL, NULL },
	/* its marks are no tokens: an answer ends where the next turn begins */
	{ "llama-2", NULL, "<<SYS>>", "", FIRST_USER,
	  { "<<SYS>>\n", "\n<</SYS>>\n\n" },
	  { "<s>[INST] ", " [/INST]" },
	  { " ", " </s>" },
	  "", true, NULL, NULL, NULL, NULL },
	{ "mistral-v11", NULL, "[CALL_ID]", "<s>", OWN,
	  { "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" },
	  { "[INST]", "[/INST]" },
	  { "", "</s>" },
	  "", false, &named_with_id, NULL, NULL, NULL },
	{ "mistral-v13", "[ARGS]", NULL, "<s>", OWN,
	  { "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" },
	  { "[INST]", "[/INST]" },
	  { "", "</s>" },
	  "", false, &named, NULL, NULL, NULL },
	{ "mistral-v7", "[SYSTEM_PROMPT]", NULL, "<s>", OWN,
	  { "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" },
	  { "[INST]", "[/INST]" },
	  { "", "</s>" },
	  "", false, &listed_after, NULL, NULL, NULL },
	{ "mistral", "[INST]", NULL, "<s>", LAST_USER,
	  { "", "\n\n" },
	  { "[INST] ", "[/INST]" },
	  { " ", "</s>" },
	  "", false, &listed, NULL, NULL, NULL },
	/* what the system says is the developer's message there */
	{ "gpt-oss", "<|constrain|>", "<|channel|>", OSS_BEGIN, OWN,
	  { "<|start|>developer<|message|># Instructions\n\n", "<|end|>" },
	  { "<|start|>user<|message|>", "<|end|>" },
	  { "<|start|>assistant<|channel|>final<|message|>", "<|end|>" },
	  "<|start|>assistant", false, NULL, OSS_CHANNELS, "gpt-oss",
	  "<|return|>" },
	{ "none", NULL, NULL, NULL, OWN,
	  { "", "\n" }, { "", "\n" }, { "", "\n" }, "", false, NULL,
	  NULL, NULL, NULL },
};

#define NCHATS (sizeof chats / sizeof *chats)

static const char *const stops[] = {
	"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
	"<|end_of_text|>", "<end_of_turn>", "<eos>", "</s>",
	DEEP_END, "<|return|>", "<|call|>",
};

const struct rt_chat *
rt_chat_named(const char *name, struct rt_error *err)
{
	size_t i;

	for (i = 0; i < NCHATS; i++) {
		if (strcmp(chats[i].name, name) == 0) {
			return &chats[i];
		}
	}
	rt_fail(err, RT_RANGE, RT_NOWHERE, "there is no chat template '%s': "
		"chatml, phi-4, phi-4-mini, llama-2, llama-3, mistral, "
		"mistral-v7, mistral-v11, mistral-v13, gemma, deepseek, "
		"deepseek-v3.1, gpt-oss and none are there",
		rt_show_name(name).text);
	return NULL;
}

const struct rt_chat *
rt_chat_of(const struct rt_tokenizer *t)
{
	const char *jinja = rt_tokenizer_chat(t);
	size_t i, found = NCHATS - 1;

	for (i = 0; i < found && jinja; i++) {
		const char *sign = chats[i].sign ? chats[i].sign
						 : chats[i].mark;

		found = strstr(jinja, sign) ? i : found;
	}
	for (i = 0; i < found && found == NCHATS - 1; i++) {
		if (chats[i].mark && rt_tokenizer_id(t, chats[i].mark) >= 0) {
			found = i;
		}
	}
	return &chats[found];
}

const char *
rt_chat_name(const struct rt_chat *c)
{
	return c->name;
}

bool
rt_chat_is_framed(const struct rt_chat *c)
{
	return !c->begin;
}

const char *
rt_chat_stop(const struct rt_chat *c, size_t i)
{
	size_t n = sizeof stops / sizeof *stops;

	return i < n ? stops[i] : i > n ? NULL
		: c->ends ? c->ends : c->assistant.after;
}

const char *
rt_chat_reasoning(const struct rt_chat *c)
{
	return c->reasoning;
}

const struct rt_call_form *
rt_chat_calls(const struct rt_chat *c)
{
	return c->calls;
}

bool
rt_chat_file_has_tools(const struct rt_tokenizer *t)
{
	const char *jinja = rt_tokenizer_chat(t);

	return !jinja || strstr(jinja, "tools");
}

const char *
rt_call_mark(const struct rt_call_form *f)
{
	return f->mark;
}

bool
rt_call_has(const struct rt_call_form *f, const char *text)
{
	const char *all[] = { f->mark, f->before_name, f->after_name, f->id,
			      f->closed, f->ended };
	size_t i;

	for (i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i] && *text && strstr(all[i], text)) {
			return true;
		}
	}
	return false;
}

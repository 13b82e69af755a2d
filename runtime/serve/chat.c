/*
 * Chat templates.  Each row is what the tokenizer_config.json of models that
 * are named so makes of a conversation, and each form of calls what it makes of
 * tools, without what it says of today's date.
 */
#include "runtime/serve/chat_forms.h"

#include <string.h>

/* ---- forms of calls ---- */

/* Hermes, Qwen 2.5 and Qwen 3. */
static const struct rt_call_form tagged = {
	.mark = "<tool_call>",
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

/* ---- templates ---- */

/* The first whose sign or mark is found is taken: that of Phi-4 stands beside
 * ChatML's, and that of Llama 2 beside Mistral's. */
static const struct rt_chat chats[] = {
	{ "phi-4", "<|im_sep|>", NULL, NULL, OWN,
	  { "<|im_start|>system<|im_sep|>", "<|im_end|>" },
	  { "<|im_start|>user<|im_sep|>", "<|im_end|>" },
	  { "<|im_start|>assistant<|im_sep|>", "<|im_end|>" },
	  "<|im_start|>assistant<|im_sep|>", false, NULL },
	{ "chatml", "<|im_start|>", NULL, NULL, OWN,
	  { "<|im_start|>system\n", "<|im_end|>\n" },
	  { "<|im_start|>user\n", "<|im_end|>\n" },
	  { "<|im_start|>assistant\n", "<|im_end|>\n" },
	  "<|im_start|>assistant\n", false, &tagged },
	{ "llama-3", "<|start_header_id|>", NULL, "<|begin_of_text|>", OWN,
	  { "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>" },
	  { "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>" },
	  { "<|start_header_id|>assistant<|end_header_id|>\n\n",
	    "<|eot_id|>" },
	  "<|start_header_id|>assistant<|end_header_id|>\n\n", true, &plain },
	{ "gemma", "<start_of_turn>", NULL, "<bos>", FIRST_USER,
	  { "", "\n\n" },
	  { "<start_of_turn>user\n", "<end_of_turn>\n" },
	  { "<start_of_turn>model\n", "<end_of_turn>\n" },
	  "<start_of_turn>model\n", true, NULL },
	{ "deepseek", "<\xef\xbd\x9cUser\xef\xbd\x9c>", NULL,
	  "<\xef\xbd\x9c" "begin\xe2\x96\x81of\xe2\x96\x81sentence"
	  "\xef\xbd\x9c>", OWN,
	  { "", "" },
	  { "<\xef\xbd\x9cUser\xef\xbd\x9c>", "" },
	  { "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>",
	    "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence"
	    "\xef\xbd\x9c>" },
	  "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>", false, NULL },
	/* its marks are no tokens: an answer ends where the next turn begins */
	{ "llama-2", NULL, "<<SYS>>", "", FIRST_USER,
	  { "<<SYS>>\n", "\n<</SYS>>\n\n" },
	  { "<s>[INST] ", " [/INST]" },
	  { " ", " </s>" },
	  "", true, NULL },
	{ "mistral", "[INST]", NULL, "<s>", LAST_USER,
	  { "", "\n\n" },
	  { "[INST] ", "[/INST]" },
	  { " ", "</s>" },
	  "", false, &listed },
	{ "none", NULL, NULL, NULL, OWN,
	  { "", "\n" }, { "", "\n" }, { "", "\n" }, "", false, NULL },
};

#define NCHATS (sizeof chats / sizeof *chats)

static const char *const stops[] = {
	"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
	"<|end_of_text|>", "<end_of_turn>", "<eos>", "</s>",
	"<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
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
		"chatml, phi-4, llama-2, llama-3, mistral, gemma, deepseek and "
		"none are there", rt_show_name(name).text);
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
rt_chat_stop(size_t i)
{
	return i < sizeof stops / sizeof *stops ? stops[i] : NULL;
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

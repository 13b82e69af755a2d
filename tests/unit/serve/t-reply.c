/*
 * What clients say and are sent: chat templates, bodies of requests, and that a
 * stream in parts is the text that one object has, whatever bytes tokens are
 * and wherever texts that end an answer fall.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/json.h"
#include "runtime/serve/api/reply.h"

static struct rt_codec bytes;

static int
open_bytes(void **state)
{
	struct rt_error err = { .message = "" };

	(void)state;
	return rt_codec_open(&bytes, NULL, "chatml", 256, &err);
}

static int
close_bytes(void **state)
{
	(void)state;
	rt_codec_close(&bytes);
	return 0;
}

/* ---- templates ---- */

#define BAR "\357\275\234"

static const struct {
	const char *name, *text;
} templates[] = {
	{ "chatml", "<|im_start|>system\nBe brief.<|im_end|>\n"
	  "<|im_start|>user\n Hi <|im_end|>\n"
	  "<|im_start|>assistant\nHello.<|im_end|>\n"
	  "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n" },
	{ "phi-4", "<|im_start|>system<|im_sep|>Be brief.<|im_end|>"
	  "<|im_start|>user<|im_sep|> Hi <|im_end|>"
	  "<|im_start|>assistant<|im_sep|>Hello.<|im_end|>"
	  "<|im_start|>user<|im_sep|>Why?<|im_end|>"
	  "<|im_start|>assistant<|im_sep|>" },
	{ "llama-2", "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] "
	  "Hello. </s><s>[INST] Why? [/INST]" },
	{ "llama-3", "<|begin_of_text|><|start_header_id|>system"
	  "<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user"
	  "<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
	  "<|end_header_id|>\n\nHello.<|eot_id|><|start_header_id|>user"
	  "<|end_header_id|>\n\nWhy?<|eot_id|><|start_header_id|>assistant"
	  "<|end_header_id|>\n\n" },
	{ "mistral", "<s>[INST]  Hi [/INST] Hello.</s>[INST] Be brief.\n\nWhy?"
	  "[/INST]" },
	{ "mistral-v7", "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST] Hi "
	  "[/INST]Hello.</s>[INST]Why?[/INST]" },
	{ "mistral-v11", "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST] Hi "
	  "[/INST]Hello.</s>[INST]Why?[/INST]" },
	{ "mistral-v13", "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST] Hi "
	  "[/INST]Hello.</s>[INST]Why?[/INST]" },
	{ "phi-4-mini", "<|system|>Be brief.<|end|><|user|> Hi <|end|>"
	  "<|assistant|>Hello.<|end|><|user|>Why?<|end|><|assistant|>" },
	{ "gemma", "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n"
	  "<start_of_turn>model\nHello.<end_of_turn>\n"
	  "<start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n" },
	{ "deepseek", "<" BAR "begin\342\226\201of\342\226\201sentence" BAR
	  ">Be brief.<" BAR "User" BAR "> Hi <" BAR "Assistant" BAR ">Hello.<"
	  BAR "end\342\226\201of\342\226\201sentence" BAR "><" BAR "User" BAR
	  ">Why?<" BAR "Assistant" BAR ">" },
	{ "deepseek-v3.1", "<" BAR "begin\342\226\201of\342\226\201sentence"
	  BAR ">Be brief.<" BAR "User" BAR "> Hi <" BAR "Assistant" BAR
	  "></think>Hello.<" BAR "end\342\226\201of\342\226\201sentence" BAR
	  "><" BAR "User" BAR ">Why?<" BAR "Assistant" BAR "></think>" },
	{ "gpt-oss", "<|start|>system<|message|>You are ChatGPT, a large "
	  "language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n\n"
	  "Reasoning: medium\n\n# Valid channels: analysis, commentary, final. "
	  "Channel must be included for every message.<|end|><|start|>developer"
	  "<|message|># Instructions\n\nBe brief.<|end|><|start|>user"
	  "<|message|> Hi <|end|><|start|>assistant<|channel|>final<|message|>"
	  "Hello.<|end|><|start|>user<|message|>Why?<|end|>"
	  "<|start|>assistant" },
	{ "none", "Be brief.\n Hi \nHello.\nWhy?\n" },
};

/* The template that a file of tests/data/tokenizers is taken to have. */
static const char *
chat_of(const char *name)
{
	const char *top = getenv("top_srcdir");
	struct rt_error err = { .status = RT_OK };
	const struct rt_chat *chat;
	struct rt_tokenizer *t;
	char path[1024];

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s",
		 top ? top : ".", name);
	rt_tokenizer_open(&t, path, NULL, &err);
	assert_string_equal(err.message, "");
	chat = rt_chat_of(t);
	rt_tokenizer_free(t);
	return rt_chat_name(chat);
}

enum { GGUF_BYTES = 8192 };

/* Reads qwen.gguf; returns its bytes. */
static size_t
read_gguf(char file[GGUF_BYTES])
{
	const char *top = getenv("top_srcdir");
	char path[1024];
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/qwen.gguf",
		 top ? top : ".");
	f = fopen(path, "rb");
	assert_non_null(f);
	n = fread(file, 1, GGUF_BYTES, f);
	fclose(f);
	return n;
}

/* The template that a file of these bytes is taken to have. */
static const char *
chat_in(const char *file, size_t n)
{
	struct rt_error err = { .message = "" };
	struct rt_tokenizer *t;
	const char *name;
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "t-reply-%ld.gguf", (long)getpid());
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(file, 1, n, f), n);
	fclose(f);
	rt_tokenizer_open(&t, path, NULL, &err);
	unlink(path);
	assert_string_equal(err.message, "");
	name = rt_chat_name(rt_chat_of(t));
	rt_tokenizer_free(t);
	return name;
}

/* The same of qwen.gguf, whose template has these 15 bytes in place of
 * message['role']. */
static const char *
chat_with(const char *sign)
{
	static const char was[] = "message['role']";
	char file[GGUF_BYTES];
	size_t n = read_gguf(file), i;

	for (i = 0; memcmp(file + i, was, 15) != 0; i++) {
		assert_true(i + 15 < n);
	}
	memcpy(file + i, sign, 15);
	return chat_in(file, n);
}

/* The same of a template that is this text. */
static const char *
chat_by(const char *template)
{
	static const char key[] = "tokenizer.chat_template";
	char file[GGUF_BYTES], *at = file;
	size_t n = read_gguf(file);
	uint64_t length;

	while (memcmp(at, key, strlen(key)) != 0) {
		assert_true((size_t)(++at - file) + sizeof key < n);
	}
	/* its type, its length, its bytes */
	at += strlen(key) + 4;
	memcpy(&length, at, sizeof length);
	assert_in_range(length, strlen(template), n);
	memset(at + 8, ' ', length);
	memcpy(at + 8, template, strlen(template));
	return chat_in(file, n);
}

/* By the signs of a template that a file has, else by tokens. */
static void
test_found(void **state)
{
	(void)state;
	assert_string_equal(chat_of("qwen.json"), "chatml");
	assert_string_equal(chat_of("qwen.gguf"), "chatml");
	assert_string_equal(chat_of("mistral.json"), "mistral");
	assert_string_equal(chat_of("tekken.gguf"), "mistral");
	assert_string_equal(chat_of("llama2.json"), "none");
	assert_string_equal(chat_of("llama2.gguf"), "llama-2");
	assert_string_equal(chat_of("gpt2.gguf"), "none");
	/* two families' signs stand beside each other */
	assert_string_equal(chat_with("r+'<|im_sep|>' "), "phi-4");
	assert_string_equal(chat_with("r+'<|im_sap|>' "), "chatml");
	assert_string_equal(chat_with("r+'<|/tool|>'  "), "phi-4-mini");
	assert_string_equal(chat_by("<" BAR "User" BAR "></think>"),
			    "deepseek");
	assert_string_equal(chat_by("<" BAR "Assistant" BAR "></think>"),
			    "deepseek-v3.1");
	assert_string_equal(chat_by("<|channel|>"), "gpt-oss");
}

static void
test_templates(void **state)
{
	static const struct rt_message m[] = {
		{ .role = "system", .content = "Be brief." },
		{ .role = "user", .content = " Hi " },
		{ .role = "assistant", .content = "Hello." },
		{ .role = "user", .content = "Why?" } };
	static const struct rt_message cook = { .role = "cook",
						.content = "x" };
	static const struct rt_conversation v = { .messages = m, .n = 4 },
		wrong = { .messages = &cook, .n = 1 };
	struct rt_error err = { .message = "" };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof templates / sizeof *templates; i++) {
		const struct rt_chat *c = rt_chat_named(templates[i].name,
							&err);
		struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };

		assert_non_null(c);
		assert_int_equal(rt_chat_write(c, &v, &t, &err), RT_OK);
		assert_string_equal(t.at, templates[i].text);
		assert_int_equal(rt_chat_write(c, &wrong, &t, &err),
				 RT_RANGE);
		rt_text_release(&t);
	}
	assert_null(rt_chat_named("chatmi", &err));
	assert_string_equal(err.message, "there is no chat template 'chatmi': "
		"chatml, phi-4, phi-4-mini, llama-2, llama-3, mistral, "
		"mistral-v7, mistral-v11, mistral-v13, gemma, deepseek, "
		"deepseek-v3.1, gpt-oss and none are there");
}

/* ---- requests ---- */

static const struct {
	bool chat;
	const char *body, *message;	/* NULL: it is right */
} bodies[] = {
	{ false, "{\"prompt\": \"a\"}", NULL },
	{ false, "{\"prompt\": [1, 2], \"n\": 3, \"stop\": [\"x\", \"yz\"], "
	  "\"logprobs\": 5, \"seed\": -1, \"user\": \"u\"}", NULL },
	{ false, "{\"prompt\": [[1], [2]], \"temperature\": null, "
	  "\"best_of\": 1, \"suffix\": \"\"}", NULL },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\":"
	  " \"text\", \"text\": \"a\"}, {\"text\": \"b\", \"type\": \"text\"}]"
	  "}], \"response_format\": {\"type\": \"text\"}, \"tools\": []}",
	  NULL },
	/* an answer that is sent back as it came, with what has no value */
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}"
	  ", {\"content\": \"b\", \"refusal\": null, \"role\": \"assistant\", "
	  "\"function_call\": null, \"tool_calls\": null}, {\"tool_calls\": "
	  "null, \"role\": \"user\", \"content\": \"c\"}], \"cache_prompt\": "
	  "true, \"skip_special_tokens\": true, \"add_generation_prompt\": "
	  "true}", NULL },
	{ true, "{\"messages\": [{\"role\": \"assistant\", \"content\": null, "
	  "\"tool_calls\": [{\"id\": \"x\"}]}]}", "'messages' is a "
	  "conversation in which a call has no name or no arguments" },
	{ false, "{\"prompt\": \"a\", \"seed\": 9223372036854775807}", NULL },
	{ false, "{\"prompt\": \"a\", \"seed\": -9223372036854775808}", NULL },
	{ false, "{\"prompt\": \"a\", \"seed\": 18446744073709551616}",
	  "'seed' is a whole number of 64 bits" },
	{ false, "{\"prompt\": \"a\", \"seed\": 1.5}", "'seed' is a whole "
	  "number of 64 bits" },
	{ false, "{\"prompt\": \"a\", \"seed\": true}", "'seed' is a "
	  "number, found true or false" },
	{ false, "{\"prompt\": \"a\", \"skip_special_tokens\": false}",
	  "'skip_special_tokens' is true here, and cannot be false" },
	{ true, "{\"response_format\": {\"type\": \"json_schema\", "
	  "\"json_schema\": {\"name\": \"x\", \"strict\": true, \"schema\": "
	  "{\"type\": \"object\"}}}, \"messages\": [{\"role\": \"user\", "
	  "\"content\": \"a\"}]}", NULL },
	{ false, "{\"response_format\": {\"type\": \"json_object\"}, "
	  "\"logit_bias\": {\"3\": -100, \"255\": 2.5}, \"min_tokens\": 16, "
	  "\"prompt\": \"a\"}", NULL },
	{ false, "{\"response_format\": {\"schema\": {\"const\": 1}, "
	  "\"type\": \"json_object\"}, \"prompt\": \"a\"}", NULL },
	{ false, "{\"prompt\": \"a\", \"guided_json\": \"{\\\"type\\\": "
	  "\\\"string\\\"}\", \"json_schema\": null}", NULL },
	{ true, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}"
	  "], \"continue_final_message\": true, \"add_generation_prompt\": "
	  "false}", NULL },
	{ true, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}"
	  "], \"continue_final_message\": true}", "'continue_final_message' "
	  "goes on in the last message, so 'add_generation_prompt' is false "
	  "beside it" },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}"
	  "], \"continue_final_message\": true, \"add_generation_prompt\": "
	  "false}", "'messages': an answer goes on in a last message that is "
	  "the assistant's and has no calls" },
	{ false, "{\"prompt\": \"a\", \"guided_choice\": [\"b\", \"c\"]}",
	  NULL },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
	  "\"guided_regex\": \"[0-9]+\"}", NULL },
	{ false, "{\"prompt\": \"a\", \"structured_outputs\": {\"json\": null, "
	  "\"regex\": \"a|b\"}}", NULL },
	{ false, "{\"prompt\": \"a\", \"structured_outputs\": {\"json\": "
	  "{\"type\": \"null\"}}}", NULL },
	{ false, "{\"prompt\": \"a\", \"structured_outputs\": "
	  "{\"json_object\": true}}", NULL },
	{ false, "{\"prompt\": \"a\", \"structured_outputs\": {\"grammar\": "
	  "\"root\"}}", "'structured_outputs' has one of json, json_object, "
	  "regex and choice, found 'grammar'" },
	{ false, "{\"prompt\": \"a\", \"structured_outputs\": {\"regex\": "
	  "\"a\", \"choice\": [\"b\"]}}", "'structured_outputs' has two forms "
	  "of an answer" },
	{ false, "{\"prompt\": \"a\", \"guided_choice\": []}",
	  "'guided_choice': there is nothing to choose" },
	{ false, "{\"prompt\": \"a\", \"guided_regex\": \"a(\"}",
	  "'guided_regex': a pattern has a group without an end, at character "
	  "2" },
	{ false, "{\"prompt\": \"a\", \"guided_regex\": \"a\", "
	  "\"guided_choice\": [\"b\"]}", "'guided_choice' is a second one for "
	  "an answer that has a schema" },
	{ false, "{\"prompt\": \"a\", \"json_schema\": {\"items\": "
	  "{\"contains\": 1}}}", "'json_schema': #/items/contains in the "
	  "schema is no keyword that is known here" },
	{ false, "{\"prompt\": \"a\", \"guided_json\": \"{\\\"enum\\\":[\"}",
	  "'guided_json': found the end of the text, expected a value" },
	{ false, "{\"prompt\": \"a\", \"guided_json\": \"{} 1\"}",
	  "'guided_json': found '1', expected only spaces after the closing "
	  "'}'" },
	{ false, "{\"prompt\": \"a\", \"guided_json\": {}, \"json_schema\": "
	  "{}}", "'json_schema' is a second one for an answer that has a "
	  "schema" },
	{ false, "{\"response_format\": {\"type\": \"json_schema\"}}",
	  "'response_format' has no schema" },
	{ false, "{\"response_format\": {\"type\": \"json\"}}",
	  "'response_format' has a type: text, json_object or json_schema" },
	{ false, "{\"response_format\": {\"schema\": {}, \"json_schema\": "
	  "{\"schema\": {}}}}", "'response_format' has two schemas" },
	{ false, "{\"response_format\": {\"type\": \"text\", \"schema\": "
	  "{}}}", "'response_format' is a text, which has no schema" },
	{ false, "{\"response_format\": {\"type\": \"json_schema\", "
	  "\"json_schema\": {\"scheme\": {}}}}", "'response_format' has more "
	  "beside a schema than its name, description and strict" },
	{ false, "{\"logit_bias\": {\"256\": 1}}", "'logit_bias' has the "
	  "token '256', and the model has 0 to 255" },
	{ false, "{\"logit_bias\": {\"-1\": 1}}", "'logit_bias' has the "
	  "token '-1', and the model has 0 to 255" },
	{ false, "{\"logit_bias\": {\"1\": 101}}", "'logit_bias' is a number "
	  "from -100 to 100" },
	{ false, "{\"prompt\": \"a\", \"max_tokens\": 3, \"min_tokens\": 4}",
	  "'min_tokens' is more than the tokens that an answer may have" },
	{ false, "{\"n_predict\": 3}", "there is no field 'n_predict'; here "
	  "it is 'max_tokens'" },
	{ false, "{\"grammar\": \"x\"}", "there is no field 'grammar'; here it "
	  "is 'json_schema'" },
	{ false, "", "the body, byte 0: found the end of the text, expected "
	  "'{'" },
	{ false, "{\"prompt\": \"a\",}", "the body, byte 15: found '}', "
	  "expected a string in double quotes" },
	{ false, "{\"prompt\": \"a\", \"promt\": null, \"min_p\": "
	  "0.00000000000000000000000000000000000000000000000000000000000000001"
	  ", \"seed\": 18446744073709551615}", NULL },
	{ false, "{\"prompt\": \"a\", \"temperature\": -Infinity}",
	  "'temperature': found 'I', expected a digit" },
	{ false, "{\"prompt\": \"a\", \"seed\": 18446744073709551616}",
	  "'seed' is a whole number of 64 bits" },
	/* what only begins as null does is not told to be null */
	{ false, "{\"prompt\": \"a\", \"user\": nope}", "'user': found 'n', "
	  "expected a value" },
	{ false, "{\"prompt\": \"a\", \"suffix\": \"none\"}",
	  "'suffix' is not known here: leave it out" },
	{ true, "{\"modalities\": [\"text\", \"audio\"]}",
	  "'modalities' is not known here: leave it out" },
	{ false, "{\"bad_words\": [\"text\"]}",
	  "'bad_words' is not known here: leave it out" },
	{ false, "{\"prompt\": \"a\", \"bad_words\": [ ], \"suffix\": "
	  "\"\"}", NULL },
	{ false, "{\"response_format\": {\"type\": \"json_schema\", "
	  "\"json_schema\": {\"strict\": 1}}}", "'response_format': found "
	  "'1', expected true or false" },
	{ false, "{\"prompt\": \"a\", \"max_tokens\": 100000000000000000"
	  "00000000000000000000000000000000000000000000000000000000000000000}",
	  "'max_tokens' is a whole number from 0 to 1000000000" },
	{ false, "{\"prompt\": \"a\", \"stream_options\": "
	  "{\"include_usage\": null, \"include_obfuscation\": true}}", NULL },
	{ false, "{\"prompt\": \"a\", \"stream_options\": "
	  "{\"continuous_usage_stats\": true}}", NULL },
	{ false, "{\"prompt\": \"a\", \"stream_options\": "
	  "{\"usage\": true}}", "'stream_options' is an object of "
	  "'include_usage', 'continuous_usage_stats' and "
	  "'include_obfuscation'" },
	{ false, "{}", "'prompt' is missing" },
	{ true, "{}", "'messages' is missing" },
	{ true, "{\"messages\": []}", "'messages': a conversation has "
	  "at least one message, this has none" },
	{ true, "{\"messages\": [{\"role\": \"cook\", \"content\": \"a\"}]}",
	  "'messages': message 1 has the role 'cook', expected system, user, "
	  "assistant or tool" },
	{ true, "{\"messages\": [{\"role\": \"user\"}]}", "'messages' is a "
	  "list of messages, each with a role and a content" },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\":"
	  " \"image_url\"}]}]}", "'messages' has a part of a "
	  "content that is 'image_url': here all are 'text'" },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
	  "{\"role\": 3}]}", "'messages': message 2: found '3', expected a "
	  "string in double quotes" },
	{ false, "{\"prompt\": \"\"}", "'prompt' is empty: a prompt has at "
	  "least one token" },
	{ false, "{\"prompt\": []}", "'prompt' is empty: a prompt has at "
	  "least one token" },
	{ false, "{\"prompt\": [256]}", "'prompt' has the token 256, and the "
	  "model has 0 to 255" },
	{ false, "{\"prompt\": 3}", "'prompt' is a text or a list, found a "
	  "number" },
	{ false, "{\"prompt\": \"a\", \"temperature\": -1}", "'temperature' "
	  "is a number from 0 to 100" },
	{ false, "{\"prompt\": \"a\", \"top_p\": 1e999}", "'top_p' is a "
	  "number from 0 to 1" },
	{ false, "{\"prompt\": \"a\", \"max_tokens\": 1.5}", "'max_tokens' is "
	  "a whole number from 0 to 1000000000" },
	{ false, "{\"prompt\": \"a\", \"n\": 129}", "'n' is a whole number "
	  "from 1 to 128" },
	{ false, "{\"prompt\": [\"a\", \"b\"], \"n\": 65}", "2 prompts and "
	  "'n' = 65 are more than 128 answers" },
	{ false, "{\"prompt\": \"a\", \"stop\": \"\"}", "'stop' is at most 16 "
	  "texts, none of them empty" },
	{ false, "{\"prompt\": \"a\", \"echo\": true, \"logprobs\": 1, "
	  "\"max_tokens\": 0}", NULL },
	{ false, "{\"prompt\": \"a\", \"echo\": true, \"max_tokens\": 0}",
	  "'max_tokens' is at least 1, or 0 beside 'echo' and 'logprobs', "
	  "which are of the prompt then" },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
	  "\"max_tokens\": 0}", "'max_tokens' is a whole number from 1 to "
	  "1000000000" },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
	  "\"top_logprobs\": 2}", "'top_logprobs' asks for 'logprobs', too" },
	/* what asks for nothing, as clients of vLLM write its defaults */
	{ false, "{\"prompt\": \"a\", \"use_beam_search\": false, "
	  "\"length_penalty\": 1.0, \"bad_words\": [], \"priority\": 0, "
	  "\"n\": 2, \"best_of\": 2, \"request_id\": \"x\", "
	  "\"return_token_ids\": false, \"spaces_between_special_tokens\": "
	  "true}", NULL },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
	  "\"add_special_tokens\": false, \"chat_template_kwargs\": {}, "
	  "\"include_reasoning\": true, \"modalities\": [\"text\"], "
	  "\"function_call\": \"none\"}", NULL },
	{ false, "{\"prompt\": \"a\", \"length_penalty\": 0.5}",
	  "'length_penalty' is not known here: leave it out" },
	{ false, "{\"prompt\": \"a\", \"use_beam_search\": true}",
	  "'use_beam_search' is not known here: leave it out" },
	{ false, "{\"prompt\": \"a\", \"n\": 2, \"best_of\": 3}", "'best_of' "
	  "is 3 and 'n' is 2: here no answers are left out, so leave "
	  "'best_of' out" },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
	  "\"add_special_tokens\": true}", "'add_special_tokens' is not known "
	  "here: leave it out" },
	/* parts that say more than their text, and refusals */
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"text\": "
	  "\"a\", \"cache_control\": {\"type\": \"ephemeral\"}, \"type\": "
	  "\"text\", \"annotations\": []}]}, {\"role\": \"assistant\", "
	  "\"content\": [{\"type\": \"refusal\", \"refusal\": \"b\"}]}, "
	  "{\"role\": \"user\", \"content\": \"c\"}]}", NULL },
	{ true, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\":"
	  " \"text\"}]}]}", "'messages' is of contents whose parts have a "
	  "'text' each" },
	{ false, "{\"prompt\": \"a\", \"suffix\": \"b\"}", "'suffix' is not "
	  "known here: leave it out" },
	{ false, "{\"prompt\": \"a\", \"prompt\": \"b\"}", "'prompt' is there "
	  "twice" },
	{ false, "{\"prompt\": \"a\", \"max_tokens\": \"3\"}", "'max_tokens' "
	  "is a number, found a text" },
	{ true, "{\"messages\": \"x\"}", "'messages' is a list, found a "
	  "text" },
	{ false, "{\"prompt\": \"a\", \"temprature\": 1}", "there is no field "
	  "'temprature'; the nearest is 'temperature'" },
	{ true, "{\"prompt\": \"a\"}", "'prompt' is a field of "
	  "/v1/completions, and this is /v1/chat/completions" },
	{ false, "{\"messages\": []}", "'messages' is a field of "
	  "/v1/chat/completions, and this is /v1/completions" },
	{ false, "{\"prompt\": \"a\"} x", "the body, byte 16: found 'x', "
	  "expected only spaces after the closing '}'" },
	{ false, "{\"prompt\": \"\377\"}", "the body, byte 12: found byte "
	  "0xff, which does not "
	  "begin a UTF-8 character, expected UTF-8 text" },
};

static void
test_requests(void **state)
{
	struct rt_request q;
	size_t i, n;
	char *body;

	(void)state;
	for (i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		struct rt_error err = { .message = "" };
		enum rt_status status;

		n = strlen(bodies[i].body);
		body = malloc(n + 1);
		assert_non_null(body);
		memcpy(body, bodies[i].body, n + 1);
		status = rt_request_read(&q, bodies[i].chat, body, n, &bytes,
					 &err);
		assert_string_equal(err.message, bodies[i].message
				    ? bodies[i].message : "");
		assert_int_equal(status == RT_OK, !bodies[i].message);
		rt_request_release(&q);
		free(body);
	}
}

/*
 * Fields of OpenAI, vLLM and llama.cpp by their paths, `t`, `c` or both, and
 * what they may be: n(umber), b(oolean), s(tring), l(ist), o(bject), 0 for
 * null.  Without a path they are no fields here.
 */
static const struct {
	const char *name, *paths, *types;
} typed[] = {
	{ "model", "tc", "s0" }, { "prompt", "t", "sl" },
	{ "messages", "c", "l" }, { "max_tokens", "tc", "n0" },
	{ "max_completion_tokens", "c", "n0" }, { "min_tokens", "tc", "n0" },
	{ "n", "tc", "n0" }, { "best_of", "t", "n0" },
	{ "temperature", "tc", "n0" }, { "top_p", "tc", "n0" },
	{ "top_k", "tc", "n0" }, { "min_p", "tc", "n0" },
	{ "repetition_penalty", "tc", "n0" },
	{ "presence_penalty", "tc", "n0" },
	{ "frequency_penalty", "tc", "n0" }, { "logit_bias", "tc", "o0" },
	{ "seed", "tc", "n0" }, { "stop", "tc", "sl0" },
	{ "stop_token_ids", "tc", "l0" }, { "ignore_eos", "tc", "b0" },
	{ "include_stop_str_in_output", "tc", "b0" },
	{ "response_format", "tc", "o0" }, { "json_schema", "tc", "bso0" },
	{ "guided_json", "tc", "bso0" }, { "guided_choice", "tc", "l0" },
	{ "guided_regex", "tc", "s0" }, { "structured_outputs", "tc", "o0" },
	{ "tools", "c", "l0" }, { "tool_choice", "c", "so0" },
	{ "parallel_tool_calls", "c", "b0" }, { "logprobs", "t", "nb0" },
	{ "logprobs", "c", "b0" }, { "top_logprobs", "c", "n0" },
	{ "stream", "tc", "b0" }, { "stream_options", "tc", "o0" },
	{ "echo", "tc", "b0" }, { "add_generation_prompt", "c", "b0" },
	{ "continue_final_message", "c", "b0" },
	{ "add_special_tokens", "tc", "b0" },
	{ "skip_special_tokens", "tc", "b0" },
	{ "include_reasoning", "c", "b0" },
	{ "reasoning_effort", "c", "s0" }, { "user", "tc", "s0" },
	{ "metadata", "tc", "o0" }, { "store", "tc", "b0" },
	{ "service_tier", "tc", "s0" }, { "safety_identifier", "tc", "s0" },
	{ "prompt_cache_key", "tc", "s0" }, { "cache_prompt", "tc", "b0" },
	{ "prompt_cache_retention", "tc", "s0" }, { "request_id", "tc", "s0" },
	{ "guided_decoding_backend", "tc", "s0" },
	{ "spaces_between_special_tokens", "tc", "b0" },
	{ "suffix", "t", "s0" }, { "functions", "c", "l0" },
	{ "function_call", "c", "so0" }, { "modalities", "c", "l0" },
	{ "documents", "c", "l0" }, { "chat_template_kwargs", "c", "o0" },
	{ "use_beam_search", "tc", "b0" }, { "length_penalty", "tc", "n0" },
	{ "priority", "tc", "n0" }, { "bad_words", "tc", "l0" },
	{ "allowed_token_ids", "tc", "l0" }, { "return_token_ids", "tc", "b0" },
	{ "return_tokens_as_token_ids", "tc", "b0" },
	{ "return_token_strs", "tc", "b0" },
	{ "audio", "", "0" }, { "prediction", "", "0" },
	{ "verbosity", "", "0" }, { "web_search_options", "", "0" },
	{ "prompt_logprobs", "", "0" }, { "truncate_prompt_tokens", "", "0" },
	{ "chat_template", "", "0" }, { "mm_processor_kwargs", "", "0" },
	{ "logits_processors", "", "0" }, { "kv_transfer_params", "", "0" },
	{ "vllm_xargs", "", "0" }, { "cache_salt", "", "0" },
	{ "guided_grammar", "", "0" }, { "structural_tag", "", "0" },
	{ "guided_whitespace_pattern", "", "0" }, { "n_predict", "", "0" },
	{ "typical_p", "", "0" }, { "mirostat", "", "0" },
	{ "samplers", "", "0" }, { "id_slot", "", "0" },
};

/* Reads a body of one field with a value of a type; its message is in err. */
static bool
is_typed(const char *name, bool chat, size_t type, struct rt_error *err)
{
	static const char *const values[] = { "1", "false", "\"\"", "[]", "{}",
					      "null" };
	struct rt_request q;
	char body[128];
	int n = snprintf(body, sizeof body, "{\"%s\": %s}", name,
			 values[type]);

	rt_request_read(&q, chat, body, (size_t)n, &bytes, err);
	rt_request_release(&q);
	return !strstr(err->message, ", found ") &&
	       !strstr(err->message, "there is no field");
}

/* A field is taken with each type that it may have, though its value may not
 * do, and with any other it is told what that is. */
static void
test_types(void **state)
{
	static const char letters[] = "nbslo0";
	static const char *const found[] = { "a number", "true or false",
					     "a text", "a list", "an object",
					     "null" };
	char words[64];
	size_t i, k;
	int chat;

	(void)state;
	for (i = 0; i < 2 * sizeof typed / sizeof *typed; i++) {
		const char *name = typed[i / 2].name;
		const char *paths = typed[i / 2].paths;

		chat = i % 2;
		if (*paths && !strchr(paths, chat ? 'c' : 't')) {
			continue;
		}
		for (k = 0; letters[k]; k++) {
			struct rt_error err = { .message = "" };
			bool legal = strchr(typed[i / 2].types, letters[k]);

			if (is_typed(name, chat, k, &err) != legal) {
				fail_msg("%s, %s: %s", name, found[k],
					 err.message);
			}
			if (!legal) {
				snprintf(words, sizeof words, "%s'%s'",
					 *paths ? "" : "field ", name);
				assert_non_null(strstr(err.message, words));
			}
			if (!legal && *paths) {
				snprintf(words, sizeof words, ", found %s",
					 found[k]);
				assert_non_null(strstr(err.message, words));
			}
		}
	}
}

/* Of two lengths of an answer the order does not decide. */
static void
test_lengths(void **state)
{
	static const char *const bodies_of[] = {
		"{\"max_tokens\": 5, \"max_completion_tokens\": 7, "
		"\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
		"{\"max_completion_tokens\": 7, \"max_tokens\": 5, "
		"\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
	};
	struct rt_error err = { .message = "" };
	struct rt_request q;
	char body[256];
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		strcpy(body, bodies_of[i]);
		assert_int_equal(rt_request_read(&q, true, body, strlen(body),
						 &bytes, &err), RT_OK);
		assert_int_equal(q.most, 7);
		assert_string_equal(q.most_field, "max_completion_tokens");
		rt_request_release(&q);
	}
}

/* What a tokenizer puts before documents is before each text or before none;
 * it is never before tokens. */
static void
test_framed(void **state)
{
	static const struct {
		const char *more;
		size_t n, ends[3];
		uint32_t first, third;
	} cases[] = {
		{ "", 6, { 2, 4, 6 }, 1, 7 },
		{ ", \"add_special_tokens\": true", 6, { 2, 4, 6 }, 1, 7 },
		{ ", \"add_special_tokens\": false", 4, { 1, 3, 4 }, 0, 8 },
	};
	const char *top = getenv("top_srcdir");
	struct rt_error err = { .message = "" };
	struct rt_codec c;
	char path[1024], body[256];
	struct rt_request q;
	size_t i, k;

	(void)state;
	snprintf(path, sizeof path, "%s/tests/data/tokenizers/llama2.json",
		 top ? top : ".");
	assert_int_equal(rt_codec_open(&c, path, "none", 600, &err), RT_OK);
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(body, sizeof body, "{\"prompt\": [\"a\", [7, 8], "
			 "\"a\"]%s}", cases[i].more);
		assert_int_equal(rt_request_read(&q, false, body, strlen(body),
						 &c, &err), RT_OK);
		assert_int_equal(q.ids.n, cases[i].n);
		for (k = 0; k < 3; k++) {
			assert_int_equal(q.ends[k], cases[i].ends[k]);
		}
		if (cases[i].first) {
			assert_int_equal(q.ids.at[0], cases[i].first);
		} else {
			assert_int_equal(q.ids.at[0], q.ids.at[3]);
		}
		assert_int_equal(q.ids.at[2], cases[i].third);
		rt_request_release(&q);
	}
	rt_codec_close(&c);
}

/* Any byte of a body may be another one: no reader goes astray. */
static void
test_damaged_requests(void **state)
{
	uint32_t seed = 7;
	size_t i, n, round;

	(void)state;
	for (round = 0; round < 20000; round++) {
		struct rt_error err = { .message = "" };
		struct rt_request q;
		char body[512];

		i = round % 4;
		n = strlen(bodies[i].body);
		memcpy(body, bodies[i].body, n + 1);
		seed = seed * 1664525u + 1013904223u;
		body[(seed >> 8) % n] = "{}[]\",:\\0u\xc3 1-"[round / 4 % 14];
		rt_request_read(&q, bodies[i].chat, body, n, &bytes, &err);
		rt_request_release(&q);
	}
}

/* ---- replies ---- */

static uint32_t seed_of_replies = 3;

static uint32_t
draw(uint32_t below)
{
	seed_of_replies = seed_of_replies * 1664525u + 1013904223u;
	return (seed_of_replies >> 8) % below;
}

static struct rt_reply *
open_reply(bool chat, bool stream, const char *const *stops, size_t nstops,
	   bool keeps)
{
	struct rt_error err = { .message = "" };
	struct rt_request q;
	struct rt_reply *r;
	char text[] = "{\"prompt\": \"a\"}", say[] =
		"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}";
	char *body = chat ? say : text;
	size_t i;

	assert_int_equal(rt_request_read(&q, chat, body, strlen(body), &bytes,
					 &err), RT_OK);
	q.stream = stream;
	q.keeps_stop = keeps;
	for (i = 0; i < nstops; i++) {
		q.stops[q.nstops++] = stops[i];
	}
	assert_int_equal(rt_reply_open(&r, &q, &bytes, "m", 1, 2, &err),
			 RT_OK);
	return r;
}

/* Feeds tokens; returns how many were taken. */
static size_t
feed(struct rt_reply *r, const unsigned char *tokens, size_t n)
{
	struct rt_choice *c = &r->choices[0];
	size_t i;

	for (i = 0; i < n; i++) {
		struct rt_drawn t = { .token = tokens[i] };

		if (!rt_choice_add(c, &t)) {
			rt_choice_end(c, RT_ENDED_STOP, (int64_t)i + 1);
			return i + 1;
		}
	}
	rt_choice_end(c, RT_ENDED_LENGTH, (int64_t)n);
	return n;
}

/* Appends the text of the choice of one object. */
static void
read_text(char *json, size_t n, struct rt_text *out)
{
	struct rt_error err = { .message = "" };
	struct rt_json j = { .text = json, .len = n, .err = &err };
	const char *key, *s;
	size_t i = 0, k = 0, m = 0, len;

	assert_true(rt_json_check_utf8(&j) && rt_json_open(&j, '{'));
	while (rt_json_more(&j, '}', &i)) {
		assert_true(rt_json_key(&j, &key));
		if (strcmp(key, "choices") != 0) {
			assert_true(rt_json_skip(&j));
			continue;
		}
		assert_true(rt_json_open(&j, '['));
		assert_true(rt_json_more(&j, ']', &k));
		assert_true(rt_json_open(&j, '{'));
		while (rt_json_more(&j, '}', &m)) {
			assert_true(rt_json_key(&j, &key));
			if (strcmp(key, "text") == 0) {
				assert_true(rt_json_any_text(&j, &s, &len));
				rt_text_bytes(out, s, len);
			} else {
				assert_true(rt_json_skip(&j));
			}
		}
		assert_false(rt_json_more(&j, ']', &k));
	}
	assert_int_equal(j.status, RT_OK);
}

static void
read_stream(struct rt_reply *r, struct rt_text *out)
{
	char *at = r->out.at, *end;

	assert_non_null(at);
	while (strncmp(at, "data: [DONE]", 12) != 0) {
		assert_int_equal(strncmp(at, "data: ", 6), 0);
		end = strstr(at, "\n\n");
		assert_non_null(end);
		read_text(at + 6, (size_t)(end - at - 6), out);
		at = end + 2;
	}
}

/* What the answer is by definition: all of the text, up to the first stop or
 * to the end of the shortest that is there. */
static void
define(const unsigned char *tokens, size_t n, const char *const *stops,
       size_t nstops, bool keeps, struct rt_text *out)
{
	struct rt_error err = { .message = "" };
	uint32_t ids[64];
	char *text = NULL;
	size_t len = 0, kept = 0, at, i;

	for (i = 0; i < n; i++) {
		ids[i] = tokens[i];
	}
	assert_int_equal(rt_decode(bytes.tokenizer, ids, n, true, &text, &len,
				   &err), RT_OK);
	for (at = 0; at < len; at++) {
		for (i = 0; i < nstops; i++) {
			size_t stop = strlen(stops[i]);

			if (strncmp(text + at, stops[i], stop) == 0) {
				kept = kept == 0 || stop < kept ? stop : kept;
				len = at;
			}
		}
	}
	rt_text_bytes(out, text, len + (keeps ? kept : 0));
	free(text);
}

static void
test_streams(void **state)
{
	static const char *const all[] = { "ab", "abc", "ba", "\303\251a",
		"aaab", "b\303\251" };
	static const unsigned char alphabet[] = "aabb\303\251\303\251\n\"";
	size_t round, i;

	(void)state;
	for (round = 0; round < 3000; round++) {
		struct rt_text want = { .alloc = rt_alloc_or_libc(NULL) };
		struct rt_text got = want, parts = want;
		const char *stops[3];
		unsigned char tokens[40];
		size_t n = 1 + draw(12), nstops = draw(4), taken;
		bool keeps = draw(3) == 0;
		struct rt_reply *r;

		for (i = 0; i < n; i++) {
			tokens[i] = draw(30) ? alphabet[draw(10)]
				: (unsigned char)(1 + draw(255));
		}
		for (i = 0; i < nstops; i++) {
			stops[i] = all[draw(6)];
		}
		define(tokens, n, stops, nstops, keeps, &want);
		r = open_reply(false, false, stops, nstops, keeps);
		taken = feed(r, tokens, n);
		read_text(r->out.at, r->out.n, &got);
		rt_reply_free(r);
		r = open_reply(false, true, stops, nstops, keeps);
		assert_int_equal(feed(r, tokens, n), taken);
		read_stream(r, &parts);
		rt_reply_free(r);
		assert_int_equal(got.n, want.n);
		assert_int_equal(parts.n, want.n);
		if (want.n > 0) {
			assert_memory_equal(got.at, want.at, want.n);
			assert_memory_equal(parts.at, want.at, want.n);
		}
		rt_text_release(&want);
		rt_text_release(&got);
		rt_text_release(&parts);
	}
}

static void
test_objects(void **state)
{
	static const char *const stop = "!";
	struct rt_reply *r = open_reply(true, false, &stop, 1, false);

	(void)state;
	feed(r, (const unsigned char *)"Hi!", 3);
	assert_string_equal(r->out.at, "{\"id\":\"chatcmpl-0000000000000001\","
		"\"object\":\"chat.completion\",\"created\":2,\"model\":\"m\","
		"\"choices\":[{\"index\":0,\"message\":{\"role\":"
		"\"assistant\",\"content\":\"Hi\",\"refusal\":null},"
		"\"logprobs\":null,\"finish_reason\":\"stop\"}],"
		"\"usage\":{\"prompt_tokens\":51,\"completion_tokens\":3,"
		"\"total_tokens\":54}}");
	rt_reply_free(r);
	r = open_reply(true, true, NULL, 0, false);
	feed(r, (const unsigned char *)"H", 1);
	assert_non_null(strstr(r->out.at, "\"choices\":[{\"index\":0,\"delta\":"
		"{\"role\":\"assistant\",\"content\":\"H\"},\"logprobs\":null,"
		"\"finish_reason\":null}]}\n\n"));
	assert_non_null(strstr(r->out.at, "\"delta\":{\"content\":\"\"},"
		"\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n"
		"data: [DONE]\n\n"));
	rt_reply_free(r);
	r = open_reply(true, true, NULL, 0, false);
	r->request.usage = r->request.usage_so_far = true;
	feed(r, (const unsigned char *)"Hi", 2);
	assert_non_null(strstr(r->out.at, "\"content\":\"H\"},"
		"\"logprobs\":null,\"finish_reason\":null}],"
		"\"usage\":{\"prompt_tokens\":51,"
		"\"completion_tokens\":1,\"total_tokens\":52}}\n\n"));
	assert_non_null(strstr(r->out.at, "\"content\":\"i\"},"
		"\"logprobs\":null,\"finish_reason\":null}],"
		"\"usage\":{\"prompt_tokens\":51,"
		"\"completion_tokens\":2,\"total_tokens\":53}}\n\n"));
	rt_reply_free(r);
	r = open_reply(true, true, NULL, 0, false);
	rt_reply_fail(r, "the \"engine\" failed");
	assert_string_equal(r->out.at, "data: {\"error\":{\"message\":"
		"\"the \\\"engine\\\" failed\",\"type\":\"server_error\","
		"\"param\":null,\"code\":null}}\n\n");
	rt_reply_free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_templates),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_framed),
		cmocka_unit_test(test_damaged_requests),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_objects),
	};

	return cmocka_run_group_tests(tests, open_bytes, close_bytes);
}

/*
 * What models think before an answer: that it is told apart from what they say,
 * whole, as a stream and wherever tokens cut it; what prompts say of thinking;
 * and what requests ask of it.
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

#include "runtime/serve/api/reasoned.h"
#include "runtime/serve/api/reply.h"

#define CHANNEL(name) "<|channel|>" name "<|message|>"
#define NEXT(name) "<|end|><|start|>assistant" CHANNEL(name)

/* ---- texts ---- */

static const struct {
	const char *form;
	bool inside;
	const char *text, *thought, *said;
} texts[] = {
	{ "qwen3", false, "<think>\nA b.\n\nC\n</think>\n\nYes.\n",
	  "A b.\n\nC", "Yes.\n" },
	{ "qwen3", false, " \n<think></think>x", "", "x" },
	{ "qwen3", false, "\n Just <think>said</think>", "",
	  "\n Just <think>said</think>" },
	{ "qwen3", false, "<thin", "", "<thin" },
	{ "qwen3", false, "<think>cut</thi", "cut</thi", "" },
	{ "qwen3", false, "<think>cut\n\n", "cut", "" },
	{ "qwen3", false, "<think>a</think></think>b", "a", "</think>b" },
	{ "deepseek_r1", true, "Hm.\n</think>\n\nNo", "Hm.", "No" },
	{ "deepseek-r1", true, "<think>\nHm.\n</think>\n\nNo", "Hm.", "No" },
	{ "deepseek-r1", true, "all of it <think> is", "all of it <think> is",
	  "" },
	{ "deepseek-r1", true, " <", " <", "" },
	{ "deepseek-r1", true, "", "", "" },
	{ "mistral", false, "[THINK]a[/THI[/THINK]b[THINK]", "a[/THI",
	  "b[THINK]" },
	{ "gpt-oss", false, CHANNEL("analysis") "So.\n" NEXT("final") "4 < 5",
	  "So.\n", "4 < 5" },
	{ "gpt-oss", false, CHANNEL("analysis") "A" NEXT("commentary") "B"
	  NEXT("final <|constrain|>json") "{}", "A\nB", "{}" },
	{ "gpt-oss", false, CHANNEL("analysis") "cut <|en", "cut <|en", "" },
	{ "gpt-oss", false, CHANNEL("final") "At once.", "", "At once." },
	{ "gpt-oss", false, CHANNEL("finals") "Not at once.", "Not at once.",
	  "" },
	{ "gpt-oss", false, "No head.", "", "No head." },
	{ "gpt-oss", false, "<b>No</b> head.", "", "<b>No</b> head." },
	{ "gpt-oss", false, "<", "", "<" },
	{ "gpt-oss", false, " to=functions.f<|channel|>commentary "
	  "<|constrain|>json<|message|>{}", "{}", "" },
	{ "gpt-oss", false, "<|channel|>fin", "", "" },
};

#define NTEXTS (sizeof texts / sizeof *texts)

static const char *
shown(const struct rt_text *t)
{
	return t->n ? t->at : "";
}

static void
test_texts(void **state)
{
	struct rt_error err = { .message = "" };
	size_t i, k;

	(void)state;
	for (i = 0; i < NTEXTS; i++) {
		const char *text = texts[i].text;
		size_t n = strlen(text);

		for (k = 0; k <= n + 1; k++) {
			struct rt_reasoned *x = rt_reasoned_open(
				rt_reasoning_named(texts[i].form, &err),
				texts[i].inside);
			size_t at;

			/* in two parts, or byte by byte */
			for (at = k > n ? 0 : k; at < n; at++) {
				rt_reasoned_read(x, text, at, false);
				at = k > n ? at : n;
			}
			rt_reasoned_read(x, text, n, true);
			assert_string_equal(shown(rt_reasoned_thought(x)),
					    texts[i].thought);
			assert_string_equal(shown(rt_reasoned_said(x)),
					    texts[i].said);
			rt_reasoned_free(x);
		}
	}
	/* as vLLM calls them */
	assert_string_equal(rt_reasoning_named("openai_gptoss", &err)->name,
			    "gpt-oss");
	assert_string_equal(rt_reasoning_named("deepseek_v3", &err)->name,
			    "deepseek-v3.1");
	assert_null(rt_reasoning_named("deepseek", &err));
	assert_string_equal(err.message, "there is no form of reasoning "
		"'deepseek': deepseek-r1, deepseek-v3.1, qwen3, mistral and "
		"gpt-oss are there");
}

static uint32_t seed = 5;

static uint32_t
draw(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

/* Texts of marks, parts of these and other bytes: read in drawn parts they are
 * what they are as a whole, and none of their bytes is said and thought. */
static void
test_drawn(void **state)
{
	static const char *const forms[] = { "qwen3", "mistral", "gpt-oss" };
	static const char *const pieces[] = { "<think>", "</think>", "[THINK]",
		"[/THINK]", "<|channel|>", "final", "analysis", "<|message|>",
		"<|end|>", "<|start|>", "<", "</th", "[", "<|", "\n", "\n\n",
		" ", "a", "\303\251" };
	struct rt_error err = { .message = "" };
	size_t round, i, n, at;

	(void)state;
	for (round = 0; round < 9000; round++) {
		const struct rt_reasoning *f = rt_reasoning_named(
			forms[round % 3], &err);
		bool inside = !f->channels && draw(2);
		struct rt_reasoned *whole = rt_reasoned_open(f, inside);
		struct rt_reasoned *parts = rt_reasoned_open(f, inside);
		char text[256] = "";

		for (n = draw(16), i = 0; i < n; i++) {
			strcat(text, pieces[draw(19)]);
		}
		n = strlen(text);
		rt_reasoned_read(whole, text, n, true);
		for (at = 0; at < n; at += 1 + draw(9)) {
			rt_reasoned_read(parts, text, at, false);
		}
		rt_reasoned_read(parts, text, n, true);
		assert_string_equal(shown(rt_reasoned_thought(parts)),
				    shown(rt_reasoned_thought(whole)));
		assert_string_equal(shown(rt_reasoned_said(parts)),
				    shown(rt_reasoned_said(whole)));
		assert_int_equal(rt_reasoned_thinks(parts),
				 rt_reasoned_thinks(whole));
		assert_true(rt_reasoned_thought(whole)->n +
			    rt_reasoned_said(whole)->n <= n);
		rt_reasoned_free(whole);
		rt_reasoned_free(parts);
	}
}

/* ---- prompts ---- */

#define BAR "\357\275\234"
#define USER "{\"role\":\"user\",\"content\":\"Hi\"}"
#define THOUGHT "{\"role\":\"assistant\",\"content\":\"<think>\\nA\\n" \
	"</think>\\n\\nB\"}"
#define APART "{\"role\":\"assistant\",\"reasoning_content\":\"A\\n\"," \
	"\"content\":\"B\"}"
#define CHATML_USER "<|im_start|>user\nHi<|im_end|>\n"
#define CHATML_ASKS "<|im_start|>assistant\n"

static const struct {
	const char *chat, *form;	/* NULL: none */
	const char *messages, *more;
	const char *end;		/* of the prompt */
	bool inside;
} prompts[] = {
	{ "chatml", NULL, USER "," THOUGHT "," USER, "",
	  CHATML_ASKS "<think>\nA\n</think>\n\nB<|im_end|>\n" CHATML_USER
	  CHATML_ASKS, false },
	/* thoughts before the last question are left out, as Qwen 3's template
	 * does, and those after it stay */
	{ "chatml", "qwen3", USER "," THOUGHT "," USER, "", CHATML_USER
	  CHATML_ASKS "B<|im_end|>\n" CHATML_USER CHATML_ASKS, false },
	{ "chatml", "qwen3", USER "," APART "," USER, "", CHATML_USER
	  CHATML_ASKS "B<|im_end|>\n" CHATML_USER CHATML_ASKS, false },
	{ "chatml", "qwen3", USER "," APART, "", CHATML_USER CHATML_ASKS
	  "<think>\nA\n</think>\n\nB<|im_end|>\n" CHATML_ASKS, false },
	{ "chatml", "qwen3", USER "," THOUGHT, "", CHATML_USER CHATML_ASKS
	  "<think>\nA\n</think>\n\nB<|im_end|>\n" CHATML_ASKS, false },
	{ "chatml", "qwen3", USER, ",\"chat_template_kwargs\":"
	  "{\"enable_thinking\":false}", CHATML_ASKS "<think>\n\n</think>\n\n",
	  false },
	{ "chatml", "qwen3", USER, ",\"reasoning_effort\":\"none\"",
	  CHATML_ASKS "<think>\n\n</think>\n\n", false },
	{ "chatml", "qwen3", USER, ",\"reasoning_effort\":\"high\"",
	  CHATML_USER CHATML_ASKS, false },
	/* thoughts follow no schema, so they have to begin */
	{ "chatml", "qwen3", USER, ",\"response_format\":{\"type\":"
	  "\"json_object\"}", CHATML_ASKS "<think>\n", true },
	/* a call comes at once */
	{ "chatml", "qwen3", USER, ",\"tools\":[{\"function\":{\"name\":\"f\"}"
	  "}],\"tool_choice\":\"required\"", CHATML_ASKS
	  "<think>\n\n</think>\n\n<tool_call>", false },
	{ "chatml", "qwen3", USER "," THOUGHT, ",\"continue_final_message\":"
	  "true,\"add_generation_prompt\":false", CHATML_ASKS
	  "<think>\nA\n</think>\n\nB", false },
	{ "chatml", "deepseek-r1", USER "," THOUGHT, "", CHATML_USER
	  CHATML_ASKS "B<|im_end|>\n" CHATML_ASKS "<think>\n", true },
	{ "deepseek", "deepseek-r1", USER, "", "<" BAR "User" BAR ">Hi<" BAR
	  "Assistant" BAR "><think>\n", true },
	{ "deepseek-v3.1", "deepseek-v3.1", USER, "", "<" BAR "User" BAR ">Hi<"
	  BAR "Assistant" BAR "></think>", false },
	{ "deepseek-v3.1", "deepseek_v3.1", USER, ",\"chat_template_kwargs\":"
	  "{\"thinking\":true}", "<" BAR "User" BAR ">Hi<" BAR "Assistant" BAR
	  "><think>", true },
	{ "gpt-oss", NULL, USER, ",\"reasoning_effort\":\"low\"",
	  "\n\nReasoning: low\n\n# Valid channels: analysis, commentary, "
	  "final. Channel must be included for every message.<|end|>"
	  "<|start|>user<|message|>Hi<|end|><|start|>assistant", false },
};

static void
open_codec(struct rt_codec *c, const char *chat, const char *form)
{
	struct rt_error err = { .message = "" };

	assert_int_equal(rt_codec_open(c, NULL, chat, 256, &err), RT_OK);
	if (form) {
		assert_int_equal(rt_codec_set_reasoning(c, form, &err), RT_OK);
	}
}

/* Reads a body of these messages and more. */
static enum rt_status
read_request(struct rt_codec *c, const char *messages, const char *more,
	     struct rt_request *q, struct rt_error *err)
{
	static char body[1024];
	int n = snprintf(body, sizeof body, "{\"messages\":[%s]%s}", messages,
			 more);

	*err = (struct rt_error){ .message = "" };
	return rt_request_read(q, true, body, (size_t)n, c, err);
}

static void
test_prompts(void **state)
{
	struct rt_error err;
	struct rt_request q;
	struct rt_codec c;
	char *text;
	size_t i, n, end;

	(void)state;
	for (i = 0; i < sizeof prompts / sizeof *prompts; i++) {
		open_codec(&c, prompts[i].chat, prompts[i].form);
		read_request(&c, prompts[i].messages, prompts[i].more, &q,
			     &err);
		assert_string_equal(err.message, "");
		assert_int_equal(rt_decode(c.tokenizer, q.ids.at, q.ids.n,
					   false, &text, &n, &err), RT_OK);
		end = strlen(prompts[i].end);
		assert_true(n >= end);
		assert_string_equal(text + n - end, prompts[i].end);
		assert_int_equal(q.inside, prompts[i].inside);
		free(text);
		rt_request_release(&q);
		rt_codec_close(&c);
	}
}

/* ---- what is refused ---- */

static const struct {
	const char *chat, *form, *more, *message;
} refused[] = {
	{ "chatml", NULL, "\"reasoning_effort\":\"low\"", "'reasoning_effort' "
	  "is of servers that tell thoughts apart: start this one with "
	  "--reasoning, or leave it out" },
	{ "chatml", NULL, "\"reasoning_effort\":\"none\"", "" },
	{ "chatml", NULL, "\"include_reasoning\":false", "'include_reasoning' "
	  "is of servers that tell thoughts apart: start this one with "
	  "--reasoning, or leave it out" },
	{ "chatml", NULL, "\"chat_template_kwargs\":{}", "" },
	{ "chatml", "qwen3", "\"reasoning_effort\":\"most\"",
	  "'reasoning_effort' is none, minimal, low, medium, high or xhigh, "
	  "not 'most'" },
	{ "chatml", "qwen3", "\"chat_template_kwargs\":{\"tools\":1}",
	  "'chat_template_kwargs' is of enable_thinking, thinking and "
	  "reasoning_effort here, not 'tools'" },
	{ "chatml", "qwen3", "\"chat_template_kwargs\":{\"thinking\":1}",
	  "'chat_template_kwargs.thinking': found '1', expected true or "
	  "false" },
	{ "chatml", "qwen3", "\"chat_template_kwargs\":{"
	  "\"reasoning_effort\":\"most\"}", "'chat_template_kwargs."
	  "reasoning_effort' is none, minimal, low, medium, high or xhigh, not "
	  "'most'" },
	{ "chatml", "qwen3", "\"chat_template_kwargs\":{\"thinking\":true,"
	  "\"thinking\":false}", "'chat_template_kwargs.thinking' is there "
	  "twice" },
	{ "chatml", "qwen3", "\"reasoning_effort\":\"low\","
	  "\"chat_template_kwargs\":{\"enable_thinking\":false}",
	  "'chat_template_kwargs.enable_thinking' and 'reasoning_effort' say "
	  "the opposite of reasoning" },
	{ "gpt-oss", NULL, "\"reasoning_effort\":\"none\"", "'reasoning_effort'"
	  " asks for no reasoning, and this model always reasons" },
};

static void
test_refused(void **state)
{
	struct rt_error err = { .message = "" };
	struct rt_request q;
	struct rt_codec c;
	char more[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof refused / sizeof *refused; i++) {
		open_codec(&c, refused[i].chat, refused[i].form);
		snprintf(more, sizeof more, ",%s", refused[i].more);
		read_request(&c, USER, more, &q, &err);
		assert_string_equal(err.message, refused[i].message);
		rt_request_release(&q);
		rt_codec_close(&c);
	}
	open_codec(&c, "chatml", NULL);
	assert_int_equal(rt_codec_set_reasoning(&c, "gpt-oss", &err),
			 RT_RANGE);
	assert_string_equal(err.message, "models of the chat template 'chatml' "
			    "do not reason as 'gpt-oss' has it");
	rt_codec_close(&c);
}

/* ---- replies ---- */

/* The reply to a request whose answer begins with n bytes of a text, of which
 * the last one ends it. */
static struct rt_reply *
stopped(struct rt_codec *c, const char *more, const char *text, size_t n)
{
	struct rt_error err;
	struct rt_request q;
	struct rt_reply *r;
	size_t i;

	assert_int_equal(read_request(c, USER, more, &q, &err), RT_OK);
	assert_int_equal(rt_reply_open(&r, &q, c, "m", 1, 2, &err), RT_OK);
	for (i = 0; i < n; i++) {
		struct rt_drawn t = { .token = (unsigned char)text[i] };

		assert_int_equal(rt_choice_add(&r->choices[0], &t),
				 i + 1 < n || n == strlen(text));
	}
	rt_choice_end(&r->choices[0], RT_ENDED_STOP, (int64_t)n);
	return r;
}

/* The same of all of a text, which ends by itself. */
static struct rt_reply *
answer(struct rt_codec *c, const char *more, const char *text)
{
	return stopped(c, more, text, strlen(text));
}

/* All that a stream has of a member, joined. */
static void
join(const char *stream, const char *member, char *to)
{
	size_t n = strlen(member);

	for (*to = '\0'; (stream = strstr(stream, member)); ) {
		stream += n;
		strncat(to, stream, strcspn(stream, "\""));
	}
}

static void
test_replies(void **state)
{
	static const char text[] = "<think>\nHm!\n</think>\n\nYes <think>.";
	char parts[256];
	struct rt_reply *r;
	struct rt_codec c;

	(void)state;
	open_codec(&c, "chatml", "qwen3");
	r = answer(&c, "", text);
	assert_non_null(strstr(r->out.at, "\"content\":\"Yes <think>.\","
		"\"refusal\":null,\"reasoning\":\"Hm!\","
		"\"reasoning_content\":\"Hm!\"}"));
	assert_non_null(strstr(r->out.at, "\"completion_tokens_details\":{"
					  "\"reasoning_tokens\":20}}"));
	rt_reply_free(r);
	r = answer(&c, ",\"include_reasoning\":false", text);
	assert_non_null(strstr(r->out.at, "\"content\":\"Yes <think>.\","
					  "\"refusal\":null}"));
	rt_reply_free(r);
	/* an answer that may think and does not has no tokens of thoughts */
	r = answer(&c, "", " Yes");
	assert_non_null(strstr(r->out.at, "\"reasoning_tokens\":0}"));
	assert_null(strstr(r->out.at, "\"reasoning\""));
	rt_reply_free(r);
	/* what is cut in thoughts says nothing */
	r = answer(&c, "", "<think>Hm");
	assert_non_null(strstr(r->out.at, "\"content\":null,\"refusal\":null,"
					  "\"reasoning\":\"Hm\""));
	rt_reply_free(r);
	r = answer(&c, ",\"include_reasoning\":false", "<think>Hm");
	assert_non_null(strstr(r->out.at, "\"content\":null,\"refusal\":null}"
			       ));
	rt_reply_free(r);
	r = answer(&c, ",\"stream\":true", text);
	join(r->out.at, "\"reasoning\":\"", parts);
	assert_string_equal(parts, "Hm!");
	join(r->out.at, "\"reasoning_content\":\"", parts);
	assert_string_equal(parts, "Hm!");
	join(r->out.at, "\"content\":\"", parts);
	assert_string_equal(parts, "Yes <think>.");
	assert_non_null(strstr(r->out.at, "\"delta\":{\"role\":\"assistant\","
		"\"reasoning\":\"H\",\"reasoning_content\":\"H\"}"));
	rt_reply_free(r);
	/* a text that ends an answer does so in either */
	r = stopped(&c, ",\"stop\":\"m!\"", text, 11);
	assert_non_null(strstr(r->out.at, "\"content\":null,\"refusal\":null,"
					  "\"reasoning\":\"H\""));
	rt_reply_free(r);
	r = stopped(&c, ",\"stop\":[\"</think>\\n\\nN\",\"s <\"]", text, 27);
	assert_non_null(strstr(r->out.at, "\"content\":\"Ye\",\"refusal\":null,"
					  "\"reasoning\":\"Hm!\""));
	rt_reply_free(r);
	r = answer(&c, ",\"chat_template_kwargs\":{\"enable_thinking\":false}",
		   "<think>");
	assert_non_null(strstr(r->out.at, "\"content\":\"<think>\""));
	rt_reply_free(r);
	rt_codec_close(&c);
}

/* What follows a schema is said, also where it looks like marks: here the whole
 * answer has to, after a token that is no head. */
static void
test_guided(void **state)
{
	static const char more[] = ",\"response_format\":{\"type\":"
		"\"json_schema\",\"json_schema\":{\"name\":\"c\",\"schema\":{"
		"\"const\":\"a<|end|><|channel|>final<|message|>b\"}}}";
	static const char text[] = "H\"a<|end|>" CHANNEL("final") "b\"";
	char streamed[1024], parts[256];
	struct rt_reply *r;
	struct rt_codec c;

	(void)state;
	open_codec(&c, "gpt-oss", NULL);
	r = answer(&c, more, text);
	assert_non_null(strstr(r->out.at, "\"content\":\"\\\"a<|end|>"
		CHANNEL("final") "b\\\"\",\"refusal\":null}"));
	rt_reply_free(r);
	snprintf(streamed, sizeof streamed, "%s,\"stream\":true", more);
	r = answer(&c, streamed, text);
	join(r->out.at, "\"content\":\"", parts);
	assert_string_equal(parts, "\\a<|end|>" CHANNEL("final") "b\\");
	rt_reply_free(r);
	rt_codec_close(&c);
}

/* Where the prompt does not begin thoughts, a schema holds from the first token
 * on: nothing that the model reads before its value is left out. */
static void
test_guided_at_once(void **state)
{
	static const struct {
		const char *chat, *form, *messages, *more;
	} rows[] = {
		{ "mistral", "mistral", USER,
		  "\"reasoning_effort\":\"none\"" },
		{ "chatml", "qwen3", USER,
		  "\"add_generation_prompt\":false" },
		{ "deepseek", "deepseek-r1", USER ",{\"role\":\"assistant\","
		  "\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\","
		  "\"arguments\":\"{}\"}}]},{\"role\":\"tool\","
		  "\"tool_call_id\":\"a\",\"content\":\"1\"}", "\"seed\":1" },
	};
	struct rt_error err;
	struct rt_request q;
	struct rt_codec c;
	char more[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		open_codec(&c, rows[i].chat, rows[i].form);
		snprintf(more, sizeof more, ",%s,\"guided_choice\":[\"a\"]",
			 rows[i].more);
		read_request(&c, rows[i].messages, more, &q, &err);
		assert_string_equal(err.message, "");
		assert_non_null(q.grammar);
		assert_null(q.reasoning);
		rt_request_release(&q);
		rt_codec_close(&c);
	}
}

/* Calls are in what is said, and in no thought. */
static void
test_calls(void **state)
{
	static const char tools[] = ",\"tools\":[{\"function\":{\"name\":\"f\"}"
				    "}]";
	static const char text[] = "<think>\n<tool_call>{\"name\": \"f\", "
		"\"arguments\": {\"a\": 1}}</tool_call>?\n</think>\n\nWell."
		"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 2}}\n"
		"</tool_call>";
	char more[256], parts[256];
	struct rt_reply *r;
	struct rt_codec c;

	(void)state;
	open_codec(&c, "chatml", "qwen3");
	snprintf(more, sizeof more, "%s,\"stream\":true", tools);
	r = answer(&c, more, text);
	join(r->out.at, "\"reasoning\":\"", parts);
	assert_non_null(strstr(parts, "<tool_call>{"));
	join(r->out.at, "\"content\":\"", parts);
	assert_string_equal(parts, "Well.");
	assert_null(strstr(r->out.at, "\"index\":1,\"id\""));
	assert_non_null(strstr(r->out.at, "\"name\":\"f\""));
	rt_reply_free(r);
	r = answer(&c, tools, text);
	assert_non_null(strstr(r->out.at, "\"content\":\"Well.\""));
	assert_non_null(strstr(r->out.at, "\"reasoning\":\"<tool_call>"));
	assert_non_null(strstr(r->out.at, "\"arguments\":\"{\\\"a\\\": 2}\"}}]"
					  "},"));
	assert_null(strstr(r->out.at, "\"arguments\":\"{\\\"a\\\": 1}\""));
	assert_non_null(strstr(r->out.at,
			       "\"finish_reason\":\"tool_calls\""));
	rt_reply_free(r);
	rt_codec_close(&c);
}

/* ---- marks that are special tokens ---- */

static const char *const oss_tokens[] = { "<|return|>", "<|constrain|>",
	"<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|call|>" };

enum { OSS_FIRST = 332, OSS_VOCAB = 339 };

/* Writes o200k.json with these tokens beside its own. */
static void
write_tokenizer(const char *to)
{
	static char text[1 << 16];
	const char *top = getenv("top_srcdir"), *at;
	char path[1024];
	size_t i, n;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/o200k.json",
		 top ? top : ".");
	f = fopen(path, "rb");
	assert_non_null(f);
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	assert_true(n < sizeof text - 1);
	text[n] = '\0';
	at = strstr(text, "\"added_tokens\"");
	assert_non_null(at);
	at = strchr(at, ']');
	assert_non_null(at);
	f = fopen(to, "wb");
	assert_non_null(f);
	fwrite(text, 1, (size_t)(at - text), f);
	for (i = 0; i < sizeof oss_tokens / sizeof *oss_tokens; i++) {
		fprintf(f, ",{\"id\":%zu,\"content\":\"%s\",\"single_word\":"
			"false,\"lstrip\":false,\"rstrip\":false,"
			"\"normalized\":false,\"special\":true}",
			OSS_FIRST + i, oss_tokens[i]);
	}
	fputs(at, f);
	fclose(f);
}

static bool
is_stop(const struct rt_codec *c, const char *token)
{
	int64_t id = rt_tokenizer_id(c->tokenizer, token);
	size_t i;

	assert_true(id >= 0);
	for (i = 0; i < c->stops.n; i++) {
		if (c->stops.at[i] == (uint32_t)id) {
			return true;
		}
	}
	return false;
}

/* gpt-oss is known by its tokens; those of channels have no text in an answer,
 * and do not end it. */
static void
test_special_tokens(void **state)
{
	static const char text[] = CHANNEL("analysis") "So." NEXT("final")
				   "Four.";
	struct rt_ids ids = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err = { .message = "" };
	struct rt_request q;
	struct rt_reply *r;
	struct rt_codec c;
	char path[64];
	size_t i;

	(void)state;
	snprintf(path, sizeof path, "t-reasoned-%ld.json", (long)getpid());
	write_tokenizer(path);
	rt_codec_open(&c, path, NULL, OSS_VOCAB, &err);
	unlink(path);
	assert_string_equal(err.message, "");
	assert_string_equal(rt_chat_name(c.chat), "gpt-oss");
	assert_true(is_stop(&c, "<|return|>") && is_stop(&c, "<|call|>"));
	assert_false(is_stop(&c, "<|end|>"));
	assert_int_equal(read_request(&c, USER, "", &q, &err), RT_OK);
	assert_int_equal(rt_reply_open(&r, &q, &c, "m", 1, 2, &err), RT_OK);
	assert_int_equal(rt_codec_encode(&c, text, strlen(text), false, &ids,
					 &err), RT_OK);
	for (i = 0; i < ids.n; i++) {
		struct rt_drawn t = { .token = (int32_t)ids.at[i] };

		assert_true(rt_choice_add(&r->choices[0], &t));
	}
	rt_choice_end(&r->choices[0], RT_ENDED_STOP, (int64_t)ids.n);
	assert_non_null(strstr(r->out.at, "\"content\":\"Four.\",\"refusal\":"
					  "null,\"reasoning\":\"So.\""));
	rt_reply_free(r);
	rt_ids_release(&ids);
	rt_codec_close(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_drawn),
		cmocka_unit_test(test_prompts),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_guided),
		cmocka_unit_test(test_guided_at_once),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_special_tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

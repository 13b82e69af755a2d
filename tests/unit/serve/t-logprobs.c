/*
 * Logprobs of texts: what tokens are called, and where in the text each begins,
 * of prompts that are echoed and of answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/json.h"
#include "runtime/serve/api/reply.h"

enum { MOST = 256 };

/* What a reply says of its one answer. */
struct told {
	const char *text;
	size_t n, ntokens, noffsets;
	const char *tokens[MOST];
	int64_t offsets[MOST];
};

static void
open_codec(struct rt_codec *c, const char *name)
{
	const char *top = getenv("top_srcdir");
	struct rt_error err = { .message = "" };
	char path[1024];

	snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s",
		 top ? top : ".", name);
	rt_codec_open(c, path, "none", 600, &err);
	assert_string_equal(err.message, "");
}

/* A reply to a body with `echo` and `logprobs`; the tokens of its prompt have
 * been scored. */
static struct rt_reply *
open_scored(struct rt_codec *c, char *body, const struct rt_drawn *like)
{
	struct rt_error err = { .message = "" };
	struct rt_drawn t = *like;
	struct rt_request q;
	struct rt_reply *r;
	const uint32_t *ids;
	int64_t n, i;

	rt_request_read(&q, false, body, strlen(body), c, &err);
	assert_string_equal(err.message, "");
	assert_int_equal(rt_reply_open(&r, &q, c, "m", 1, 2, &err), RT_OK);
	ids = rt_choice_prompt(r->choices, &n);
	for (i = 1; i < n; i++) {
		t.token = (int32_t)ids[i];
		rt_choice_score(r->choices, &t);
	}
	return r;
}

static void
read_lists(struct rt_json *j, struct told *x)
{
	size_t i = 0, k, n;
	const char *key;

	assert_true(rt_json_open(j, '{'));
	while (rt_json_more(j, '}', &i)) {
		assert_true(rt_json_key(j, &key));
		if (strcmp(key, "tokens") == 0) {
			assert_true(rt_json_open(j, '['));
			for (k = 0; rt_json_more(j, ']', &k);) {
				assert_true(x->ntokens < MOST);
				assert_true(rt_json_any_text(
					j, &x->tokens[x->ntokens++], &n));
			}
		} else if (strcmp(key, "text_offset") == 0) {
			assert_true(rt_json_open(j, '['));
			for (k = 0; rt_json_more(j, ']', &k);) {
				assert_true(rt_json_int(
					j, &x->offsets[x->noffsets++]));
			}
		} else {
			assert_true(rt_json_skip(j));
		}
	}
}

static void
read_told(struct rt_reply *r, struct told *x)
{
	struct rt_error err = { .message = "" };
	struct rt_json j = { .err = &err };
	const char *key;
	size_t i = 0;

	*x = (struct told){ .text = NULL };
	j.text = strstr(r->out.at, "\"choices\":[");
	assert_non_null(j.text);
	j.text += strlen("\"choices\":[");
	j.len = r->out.n - (size_t)(j.text - r->out.at);
	assert_true(rt_json_open(&j, '{'));
	while (rt_json_more(&j, '}', &i)) {
		assert_true(rt_json_key(&j, &key));
		if (strcmp(key, "text") == 0) {
			assert_true(rt_json_any_text(&j, &x->text, &x->n));
		} else if (strcmp(key, "logprobs") == 0) {
			read_lists(&j, x);
		} else {
			assert_true(rt_json_skip(&j));
		}
	}
	assert_int_equal(j.status, RT_OK);
	assert_int_equal(x->ntokens, x->noffsets);
}

/* The byte at which the n-th character of a text begins. */
static size_t
byte_of(const struct told *x, int64_t n)
{
	size_t at = 0;

	while (n > 0) {
		assert_true(at < x->n);
		do {
			at++;
		} while ((x->text[at] & 0xc0) == 0x80);
		n--;
	}
	return at;
}

/* A reply to such a body of which no token is drawn, and what it says. */
static struct rt_reply *
open_told(struct rt_codec *c, char *body, struct told *x)
{
	const struct rt_drawn like = { .logprob = -1 };
	struct rt_reply *r = open_scored(c, body, &like);
	int64_t n;

	rt_choice_end(r->choices, RT_ENDED_LENGTH, 0);
	read_told(r, x);
	rt_choice_prompt(r->choices, &n);
	assert_int_equal(x->noffsets, n);
	return r;
}

/* Bytes of a token of the prompt. */
static size_t
bytes_of(const struct rt_codec *c, const struct rt_reply *r, size_t i)
{
	struct rt_error err = { .message = "" };
	char *bytes;
	int64_t all;
	size_t n;

	assert_int_equal(rt_token_text(c->tokenizer, rt_choice_prompt(
				r->choices, &all)[i], true, &bytes, &n, &err),
			 RT_OK);
	free(bytes);
	return n;
}

/*
 * Each token that has a text stands at its place, and the next one after it.
 * One that is a part of a character, or ends it, is called by its bytes; where
 * these come to no character, U+FFFD stands for them and may for what follows.
 * One before the text of documents has none there.
 */
static void
check_places(const struct told *x, const char *framed)
{
	size_t i, at, end, n;

	for (i = 0; i < x->ntokens; i++) {
		const char *s = x->tokens[i];

		at = byte_of(x, x->offsets[i]);
		end = i + 1 < x->ntokens ? byte_of(x, x->offsets[i + 1])
					 : x->n;
		assert_true(at <= end);
		if (strncmp(s, "bytes:", 6) == 0 ||
		    strncmp(x->text + at, "\357\277\275", 3) == 0 ||
		    (at == end && framed && strcmp(s, framed) == 0)) {
			continue;
		}
		/* a blank that a tokenizer puts before a text is none of its */
		s += *s == ' ' && end - at < strlen(s);
		n = strlen(s);
		assert_int_equal(end - at, n);
		assert_memory_equal(x->text + at, s, n);
	}
}

static uint32_t seed = 11;

static uint32_t
draw(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static const struct {
	const char *file, *framed, *special;
} files[] = {
	{ "gpt2.json", NULL, "<|endoftext|>" },
	{ "llama2.json", "<s>", "</s>" },
	{ "mistral.json", "<s>", "[INST]" },
	{ "llama3.json", "<|begin_of_text|>", "<|eot_id|>" },
	{ "gemma.json", "<bos>", "<eos>" },
	{ "qwen.json", NULL, "<|im_end|>" },
	{ "deepseek.json", "<\357\275\234begin\342\226\201of\342\226\201"
	  "sentence\357\275\234>", "a" },
};

/* Texts of words, blanks, special tokens and characters of several tokens, as
 * texts and as their tokens, which go on in an answer. */
static void
test_places(void **state)
{
	static const char *const words[] = { "the", " ", "  ", "\\n", "a",
		" and", "\303\251", "\342\202\254", "\360\237\230\200", ".",
		"\\\"", "x" };
	const struct rt_drawn like = { .logprob = -1 };
	size_t f, i, n, round;

	(void)state;
	for (f = 0; f < sizeof files / sizeof *files; f++) {
		struct rt_codec c;

		open_codec(&c, files[f].file);
		for (round = 0; round < 60; round++) {
			char body[1024] = "{\"echo\":true,\"logprobs\":0,"
					  "\"prompt\":\"";
			struct rt_drawn t = like;
			struct rt_reply *r;
			const uint32_t *ids;
			struct told x;
			int64_t nids;

			for (n = 1 + draw(12), i = 0; i < n; i++) {
				strcat(body, draw(9) ? words[draw(12)]
						     : files[f].special);
			}
			strcat(body, "\"}");
			r = open_scored(&c, body, &like);
			ids = rt_choice_prompt(r->choices, &nids);
			for (n = draw(8), i = 0; i < n; i++) {
				t.token = (int32_t)ids[draw((uint32_t)nids)];
				if (!rt_tokenizer_is_special(c.tokenizer,
							     t.token)) {
					rt_choice_add(r->choices, &t);
				}
			}
			rt_choice_end(r->choices, RT_ENDED_LENGTH, 1);
			read_told(r, &x);
			check_places(&x, files[f].framed);
			rt_reply_free(r);
		}
		rt_codec_close(&c);
	}
}

/* What a text is made of, and what a tokenizer of normal form C makes of it:
 * letters and marks, marks in another order, three jamo, and a character that
 * is taken apart, which no tokenizer composes again. */
static const struct {
	const char *is, *becomes;
} units[] = {
	{ "a", "a" }, { " ", " " }, { "the", "the" },
	{ "e\314\201", "\303\251" },
	{ "e\314\202\314\201", "\341\272\277" },
	{ "q\314\207\314\243", "q\314\243\314\207" },
	{ "\341\204\200\341\205\241\341\206\250", "\352\260\201" },
	{ "\340\245\230", "\340\244\225\340\244\274" },
	{ "\303\251", "\303\251" }, { "\360\237\230\200", "\360\237\230\200" },
};

enum { NUNITS = sizeof units / sizeof *units };

static int64_t
count_chars(const char *s)
{
	int64_t n = 0;

	for (; *s; s++) {
		n += (*s & 0xc0) != 0x80;
	}
	return n;
}

/* The units of a text, and at which byte of what it becomes the next token
 * begins. */
struct composed {
	size_t unit[16], n, byte;
};

/* A token is in the unit that its first byte is in, and the first of a unit is
 * where it begins. */
static void
check_composed(struct composed *x, int64_t offset)
{
	int64_t from = 0, to;
	size_t at = 0, i, len;

	for (i = 0; i < x->n; i++) {
		len = strlen(units[x->unit[i]].becomes);
		to = from + count_chars(units[x->unit[i]].is);
		if (x->byte < at + len) {
			assert_true(from <= offset && offset < to);
			assert_true(x->byte > at || offset == from);
			return;
		}
		at += len;
		from = to;
	}
	fail_msg("byte %zu is in none of %zu units", x->byte, x->n);
}

static void
test_composed(void **state)
{
	struct rt_codec c;
	size_t round, i;

	(void)state;
	open_codec(&c, "qwen.json");
	for (round = 0; round < 400; round++) {
		char body[1024] = "{\"echo\":true,\"logprobs\":0,"
				  "\"prompt\":\"";
		struct composed x = { .n = 1 + draw(16) };
		struct rt_reply *r;
		struct told told;

		for (i = 0; i < x.n; i++) {
			x.unit[i] = draw(NUNITS);
			strcat(body, units[x.unit[i]].is);
		}
		strcat(body, "\"}");
		r = open_told(&c, body, &told);
		for (i = 0; i < told.noffsets; i++) {
			check_composed(&x, told.offsets[i]);
			x.byte += bytes_of(&c, r, i);
		}
		rt_reply_free(r);
	}
	rt_codec_close(&c);
}

/* Marks that change places are counted before all of them have come: who
 * writes many does not make each token wait for the others. */
static void
test_marks(void **state)
{
	enum { PAIRS = 60, WAIT = 34 };		/* bytes, of marks of 2 each */
	char body[1024] = "{\"echo\":true,\"logprobs\":0,\"prompt\":\"";
	struct rt_reply *r;
	struct rt_codec c;
	struct told told;
	size_t i, byte = 0;

	(void)state;
	open_codec(&c, "qwen.json");
	for (i = 0; i < PAIRS; i++) {
		strcat(body, "\314\243\314\201");
	}
	strcat(body, "\"}");
	r = open_told(&c, body, &told);
	for (i = 0; i < told.noffsets; i++) {
		assert_true(2 * (size_t)told.offsets[i] + WAIT >= byte);
		assert_true(told.offsets[i] <= 2 * PAIRS);
		byte += bytes_of(&c, r, i);
	}
	rt_reply_free(r);
	rt_codec_close(&c);
}

/* Of a prompt that is tokens special ones have no text. */
static void
test_tokens(void **state)
{
	char body[] = "{\"prompt\":[1,330,2,331,332],\"echo\":true,"
		      "\"logprobs\":0}";
	struct rt_codec c;
	struct rt_reply *r;
	struct told x;

	(void)state;
	open_codec(&c, "llama2.json");
	r = open_told(&c, body, &x);
	assert_int_equal(x.ntokens, 5);
	assert_int_equal(x.offsets[0], 0);
	assert_int_equal(x.offsets[1], 0);
	assert_int_equal(x.offsets[2], x.offsets[3]);
	assert_true(x.offsets[3] > 0 && x.offsets[4] > x.offsets[3]);
	assert_string_equal(x.tokens[2], "</s>");
	rt_reply_free(r);
	rt_codec_close(&c);
}

/* Names differ where tokens do; two tokens of one text are one name. */
static void
test_names(void **state)
{
	char body[] = "{\"prompt\":\"a\\u00e9\",\"echo\":true,"
		      "\"logprobs\":5,\"max_tokens\":1}";
	struct rt_drawn t = { .logprob = -1.5, .ntop = 4,
		.top = { 0xc3, 'b', 0xa9, '\\' },
		.top_logprob = { -0.5, -1, -2, -3 } };
	struct rt_codec c;
	struct rt_reply *r;

	(void)state;
	rt_codec_open(&c, NULL, "none", 256, NULL);
	r = open_scored(&c, body, &t);
	t.token = 'b';
	rt_choice_add(r->choices, &t);
	rt_choice_end(r->choices, RT_ENDED_LENGTH, 1);
	assert_non_null(strstr(r->out.at, "\"text\":\"a\303\251b\","));
	assert_non_null(strstr(r->out.at, "\"tokens\":[\"a\",\"bytes:\\\\xc3\","
		"\"bytes:\\\\xa9\",\"b\"],\"token_logprobs\":"
		"[null,-1.5,-1.5,-1.5],\"top_logprobs\":[null,"
		"{\"bytes:\\\\xc3\":-0.5,\"b\":-1,\"bytes:\\\\xa9\":-2,"
		"\"\\\\\":-3},{"));
	assert_non_null(strstr(r->out.at, "}],\"text_offset\":[0,1,1,2]}"));
	rt_reply_free(r);
	rt_codec_close(&c);
}

/* A token that was drawn is among the likeliest, or is named after them. */
static void
test_own(void **state)
{
	char body[] = "{\"prompt\":\"ab\",\"echo\":true,\"logprobs\":1}";
	struct rt_drawn t = { .logprob = -3, .ntop = 1, .top = { 'b' },
		.top_logprob = { -0.5 } };
	struct rt_codec c;
	struct rt_reply *r;

	(void)state;
	rt_codec_open(&c, NULL, "none", 256, NULL);
	r = open_scored(&c, body, &t);
	t.token = 'c';
	rt_choice_add(r->choices, &t);
	t.ntop = 0;
	rt_choice_add(r->choices, &t);
	rt_choice_end(r->choices, RT_ENDED_LENGTH, 2);
	assert_non_null(strstr(r->out.at, "\"top_logprobs\":[null,"
		"{\"b\":-0.5},{\"b\":-0.5,\"c\":-3},{\"c\":-3}]"));
	rt_reply_free(r);
	rt_codec_close(&c);
}

/* A byte and a word may have one text; a token may be none of the file. */
static void
test_twice(void **state)
{
	char body[] = "{\"prompt\":\"a\",\"echo\":true,\"logprobs\":5}";
	struct rt_drawn t = { .logprob = -1, .ntop = 4,
		.top_logprob = { -0.5, -1, -2, -3 } };
	struct rt_codec c;
	struct rt_reply *r;
	int64_t id;

	(void)state;
	open_codec(&c, "llama2.json");
	id = rt_tokenizer_id(c.tokenizer, "a");
	assert_true(id > 0);
	t.top[0] = t.top[2] = (int32_t)rt_tokenizer_id(c.tokenizer, "<0x61>");
	t.top[1] = (int32_t)id;
	t.top[3] = 590;
	assert_true(t.top[0] > 0);
	r = open_scored(&c, body, &t);
	t.token = 590;
	rt_choice_add(r->choices, &t);
	rt_choice_end(r->choices, RT_ENDED_LENGTH, 1);
	assert_non_null(strstr(r->out.at, "{\"a\":-0.5,\"token_id:590\":-3}"));
	assert_non_null(strstr(r->out.at, ",\"token_id:590\"]"));
	rt_reply_free(r);
	rt_codec_close(&c);
}

/* The bytes of a token are its own, also of a part of a character; one that is
 * not of the tokenizer has none. */
static void
test_chats(void **state)
{
	char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
		      "\"logprobs\":true}";
	static const int32_t tokens[] = { 0xc3, 0xa9, 999 };
	struct rt_error err = { .message = "" };
	struct rt_request q;
	struct rt_codec c;
	struct rt_reply *r;
	size_t i;

	(void)state;
	rt_codec_open(&c, NULL, "none", 256, &err);
	assert_int_equal(rt_request_read(&q, true, body, strlen(body), &c,
					 &err), RT_OK);
	assert_int_equal(rt_reply_open(&r, &q, &c, "m", 1, 2, &err), RT_OK);
	for (i = 0; i < 3; i++) {
		struct rt_drawn t = { .token = tokens[i] };

		rt_choice_add(r->choices, &t);
	}
	rt_choice_end(r->choices, RT_ENDED_LENGTH, 3);
	assert_non_null(strstr(r->out.at, "\"content\":\"\303\251\""));
	assert_non_null(strstr(r->out.at, "{\"token\":\"\357\277\275\","
			       "\"bytes\":[195],"));
	assert_non_null(strstr(r->out.at, "{\"token\":\"\357\277\275\","
			       "\"bytes\":[169],"));
	assert_non_null(strstr(r->out.at, "{\"token\":\"token_id:999\","
			       "\"bytes\":null,"));
	rt_reply_free(r);
	rt_codec_close(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_composed),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_chats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

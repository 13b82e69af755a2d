/*
 * A request from its body to its reply, with memory that runs out at the n-th
 * allocation, for each n: it ends with an error, or as if nothing had been, and
 * all memory is given back.  And how much a service asks for is what it says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/serve/api/reply.h"
#include "tests/unit/serve/t-engine.h"
#include "tests/unit/shared/t-cases.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

/* Allocations that are granted, negative: all; and what is not given back. */
static int64_t granted = -1, live;
static bool refused, once;	/* once: the next one is granted again */
static int64_t bytes;		/* that were asked for of calloc */

static bool
grant(void)
{
	if (granted == 0) {
		refused = true;
		granted = once ? -1 : 0;
		return false;
	}
	granted -= granted > 0;
	return true;
}

void *
__wrap_malloc(size_t n)
{
	void *p = grant() ? __real_malloc(n) : NULL;

	live += p != NULL;
	return p;
}

void *
__wrap_calloc(size_t n, size_t size)
{
	void *p = grant() ? __real_calloc(n, size) : NULL;

	live += p != NULL;
	bytes += (int64_t)(n * size);
	return p;
}

void *
__wrap_realloc(void *p, size_t n)
{
	void *q = grant() ? __real_realloc(p, n) : NULL;

	live += q && !p;
	return q;
}

void
__wrap_free(void *p)
{
	live -= p != NULL;
	__real_free(p);
}

static const char by_schema[] = "{\"messages\": [{\"role\": \"user\", "
	"\"content\": \"a question\"}], \"n\": 2, \"seed\": 1, "
	"\"max_tokens\": 40, "
	"\"logprobs\": true, \"top_logprobs\": 2, \"stop\": [\"never\"], "
	"\"logit_bias\": {\"3\": 1}, \"json_schema\": {\"properties\": "
	"{\"a\": {\"enum\": [1, \"x\"]}, \"b\": {\"items\": {\"$ref\": "
	"\"#\"}}, \"c\": {\"oneOf\": [{\"type\": \"null\"}, {\"type\": "
	"[\"integer\", \"string\"]}]}}, \"required\": [\"b\", \"d\"], "
	"\"additionalProperties\": true}}";

static const char with_tools[] = "{\"messages\": [{\"role\": \"user\", "
	"\"content\": \"a\"}, {\"role\": \"assistant\", \"tool_calls\": "
	"[{\"id\": \"1\", \"function\": {\"name\": \"f\", \"arguments\": "
	"\"{}\"}}]}, {\"role\": \"tool\", \"content\": \"b\", "
	"\"tool_call_id\": \"1\"}], \"n\": 2, \"seed\": 1, \"stream\": "
	"true, \"max_tokens\": 90, \"tool_choice\": \"required\", "
	"\"tools\": [{\"type\": \"function\", \"function\": {\"name\": "
	"\"f\", \"parameters\": {\"properties\": {\"x\": {\"multipleOf\": "
	"2, \"minimum\": 1, \"maximum\": 9}, \"y\": {\"prefixItems\": "
	"[{\"const\": 1}], \"type\": \"array\"}}, \"required\": [\"x\"]}}},"
	" {\"function\": {\"name\": \"g\"}}]}";

static const char echoed[] = "{\"prompt\": [\"a \\u00e9\", \"b\"], "
	"\"echo\": true, \"logprobs\": 3, \"n\": 2, \"seed\": 1, "
	"\"max_tokens\": 9}";

/* Thoughts of a random model, which no mark ends. */
static const char thinking[] = "{\"messages\": [{\"role\": \"user\", "
	"\"content\": \"Hi\"}, {\"role\": \"assistant\", \"reasoning\": "
	"\"A\", \"content\": \"B\"}], \"max_tokens\": 40, \"seed\": 3}";

static const struct request_case {
	const char *chat;	/* NULL: of texts */
	const char *body;
	int64_t step;		/* of the allocations that fail */
	const char *reasoning;	/* or NULL */
} cases[] = { { "chatml", by_schema, 1, NULL },
	      { "mistral", with_tools, 3, NULL },
	      { "llama-3", with_tools, 11, NULL }, { NULL, echoed, 3, NULL },
	      { "chatml", thinking, 1, "deepseek-r1" } };

static struct rt_codec codec;
static struct fake_engine engine;

static bool
on_token(void *user, const struct rt_drawn *t)
{
	return rt_choice_add(user, t);
}

static void
on_score(void *user, const struct rt_drawn *t)
{
	rt_choice_score(user, t);
}

static void
on_end(void *user, enum rt_ended why, int64_t ndrawn)
{
	rt_choice_end(user, why, ndrawn);
}

static enum rt_status
run_steps(struct rt_scheduler *s, struct rt_reply *r, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i, n;

	for (i = 0; i < r->nchoices && status == RT_OK; i++) {
		struct rt_choice *c = &r->choices[i];
		struct rt_ask ask = { .choice = i, .most = r->request.most,
			.draw = r->request.draw, .guide = c->guide,
			.score = r->request.echo ? on_score : NULL,
			.token = on_token, .end = on_end, .user = c };

		ask.prompt = (const void *)rt_choice_prompt(c, &n);
		ask.nprompt = n;
		status = rt_scheduler_add(s, &ask, &c->seq, err);
	}
	while (status == RT_OK && r->nended < r->nchoices) {
		status = rt_scheduler_step(s, err);
	}
	return status;
}

/* All of a request; its reply is copied to `out` unless something failed. */
static bool
serve(bool chat, const char *body, char *out, size_t size)
{
	struct rt_error err = { .message = "" };
	struct rt_scheduler *s = NULL;
	struct rt_reply *r = NULL;
	struct rt_request q;
	char text[1024];
	bool ok = rt_scheduler_open(&s, &engine.e, true, &err) == RT_OK;

	assert_true(strlen(body) < sizeof text);
	memcpy(text, body, strlen(body) + 1);
	if (ok) {
		ok = rt_request_read(&q, chat, text, strlen(body), &codec,
				     &err) == RT_OK;
		if (!ok) {
			rt_request_release(&q);
		}
	}
	ok = ok && rt_reply_open(&r, &q, &codec, "m", 1, 2, &err) == RT_OK;
	ok = ok && run_steps(s, r, &err) == RT_OK && !r->failed;
	/* its sequences call the reply when they end */
	rt_scheduler_free(s);
	if (ok) {
		assert_true(r->ended && r->out.n < size);
		memcpy(out, r->out.at, r->out.n + 1);
	} else {
		assert_true(refused);
	}
	if (r) {
		rt_reply_free(r);
	}
	/* the next request spells the tokens out anew */
	rt_spellings_free(codec.spellings[0]);
	codec.spellings[0] = NULL;
	return ok;
}

static void
try_every_allocation(const struct request_case *c)
{
	static char whole[1 << 16], got[1 << 16];
	struct rt_engine e = { .tokens = 64, .rows = 4, .keys = 4096,
		.align = 16, .block = 16, .blocks = 256, .context = 2048,
		.vocab = 256 };
	struct rt_error err = { .message = "" };
	int64_t n, before, failed = 0, mode;
	int64_t step = c->step * (t_short() ? 5 : 1);

	assert_int_equal(rt_codec_open(&codec, NULL, c->chat, 256, &err),
			 RT_OK);
	if (c->reasoning) {
		assert_int_equal(rt_codec_set_reasoning(&codec, c->reasoning,
							&err), RT_OK);
	}
	assert_true(fake_open(&engine, e));
	assert_true(serve(c->chat, c->body, whole, sizeof whole));
	before = live;
	for (mode = 0; mode < 2; mode++) {
		once = mode == 1;
		for (n = 0, refused = true; refused; n += step) {
			refused = false;
			granted = n;
			if (serve(c->chat, c->body, got, sizeof got)) {
				assert_string_equal(got, whole);
			} else {
				failed++;
			}
			granted = -1;
			assert_int_equal(live, before);
		}
	}
	assert_true(failed * c->step > 50);
	fake_close(&engine);
	rt_codec_close(&codec);
}

static void
test_every_allocation(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		try_every_allocation(&cases[i]);
	}
}

/* What is in the account of memory is what is allocated, to the byte. */
static void
test_account(void **state)
{
	static const struct rt_engine engines[] = {
		{ .tokens = 64, .rows = 4, .keys = 1024, .align = 16,
		  .block = 16, .blocks = 64, .context = 256, .vocab = 256 },
		{ .tokens = 3, .rows = 16, .keys = 48, .align = 16,
		  .block = 8, .blocks = 1000, .context = 40, .vocab = 999,
		  .replicas = 3, .in_flight = 4 }
	};
	struct rt_serve_options o = rt_serve_plain();
	struct rt_error err = { .message = "" };
	struct rt_scheduler *s;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof engines / sizeof *engines; i++) {
		struct rt_serve_memory m = rt_serve_memory(&engines[i], &o);

		bytes = 0;
		assert_int_equal(rt_scheduler_open(&s, &engines[i], true,
						   &err), RT_OK);
		assert_int_equal(bytes, m.index + m.steps);
		rt_scheduler_free(s);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_allocation),
		cmocka_unit_test(test_account),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

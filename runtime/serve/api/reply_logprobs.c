/*
 * Logprobs of the tokens of an answer, and of a prompt that is echoed, in the
 * forms of chats and of texts; see reply.h.
 */
#include "runtime/serve/api/reply.h"

#include <math.h>
#include <stdlib.h>

/* JSON has no infinity: OpenAI's own answers have this instead. */
static double
json_logprob(double v)
{
	return isfinite(v) ? v : -9999;
}

/* A token that the tokenizer lacks has no text. */
static char *
token_text(const struct rt_choice *c, int32_t token, bool raw, size_t *n,
	   struct rt_text *out)
{
	struct rt_error err;
	char *text = NULL;

	*n = 0;
	if (rt_token_text(c->stream.tokenizer, (uint32_t)token, raw, &text, n,
			  &err) == RT_NOMEM) {
		out->failed = true;
	}
	return text;
}

static void
add_token_text(const struct rt_choice *c, int32_t token, struct rt_text *out)
{
	size_t n;
	char *text = token_text(c, token, false, &n, out);

	rt_text_chars(out, text ? text : "", n);
	free(text);
}

static void
add_token_bytes(const struct rt_choice *c, int32_t token, struct rt_text *out)
{
	size_t n, i;
	char *bytes = token_text(c, token, true, &n, out);

	rt_text_add(out, ",\"bytes\":[");
	for (i = 0; i < n; i++) {
		rt_text_add(out, "%s%u", i ? "," : "",
			    (unsigned)(unsigned char)bytes[i]);
	}
	rt_text_add(out, "]");
	free(bytes);
}

static void
add_chat_logprob(const struct rt_choice *c, int32_t token, double logprob,
		 struct rt_text *out)
{
	rt_text_add(out, "{\"token\":");
	add_token_text(c, token, out);
	add_token_bytes(c, token, out);
	rt_text_add(out, ",\"logprob\":%.9g", json_logprob(logprob));
}

/* Of texts; known = false: of the first token, which nothing comes before. */
static void
add_text_logprob(struct rt_choice *c, const struct rt_drawn *t, bool known,
		 size_t offset)
{
	struct rt_text *l = c->logprobs;
	const char *comma = l[0].n ? "," : "";
	int64_t i;

	rt_text_add(&l[0], "%s", comma);
	add_token_text(c, t->token, &l[0]);
	rt_text_add(&l[3], "%s%zu", comma, offset);
	if (!known) {
		rt_text_add(&l[1], "null");
		rt_text_add(&l[2], "null");
		return;
	}
	rt_text_add(&l[1], "%s%.9g", comma, json_logprob(t->logprob));
	rt_text_add(&l[2], "%s{", comma);
	for (i = 0; i < t->ntop; i++) {
		rt_text_add(&l[2], "%s", i ? "," : "");
		add_token_text(c, t->top[i], &l[2]);
		rt_text_add(&l[2], ":%.9g", json_logprob(t->top_logprob[i]));
	}
	rt_text_add(&l[2], "}");
}

/* The next token of a prompt that is echoed. */
static void
add_prompt_logprob(struct rt_choice *c, const struct rt_drawn *t, bool known)
{
	size_t n;
	char *text = token_text(c, t->token, true, &n, &c->text);
	bool is_text = !rt_tokenizer_is_special(c->stream.tokenizer, t->token);
	size_t end = c->scored + (is_text ? n : 0);

	free(text);
	add_text_logprob(c, t, known, c->scored);
	c->scored = end < c->offset ? end : c->offset;
}

void
rt_logprobs_begin(struct rt_choice *c, int32_t token)
{
	struct rt_drawn first = { .token = token };

	add_prompt_logprob(c, &first, false);
}

void
rt_choice_score(struct rt_choice *c, const struct rt_drawn *t)
{
	add_prompt_logprob(c, t, true);
}

void
rt_logprobs_add(struct rt_choice *c, const struct rt_drawn *t)
{
	struct rt_text *l = c->logprobs;
	const char *comma = l[0].n ? "," : "";
	int64_t i;

	if (c->reply->request.chat) {
		rt_text_add(l, "%s", comma);
		add_chat_logprob(c, t->token, t->logprob, l);
		rt_text_add(l, ",\"top_logprobs\":[");
		for (i = 0; i < t->ntop; i++) {
			rt_text_add(l, "%s", i ? "," : "");
			add_chat_logprob(c, t->top[i], t->top_logprob[i], l);
			rt_text_add(l, "}");
		}
		rt_text_add(l, "]}");
		return;
	}
	add_text_logprob(c, t, true, c->offset);
	c->offset = c->text.n;
}

static const char *
or_nothing(const struct rt_text *t)
{
	return t->n ? t->at : "";
}

void
rt_logprobs_write(struct rt_choice *c, struct rt_text *out)
{
	struct rt_text *l = c->logprobs;
	int64_t k;

	if (!c->reply->request.logprobs || l[0].n == 0) {
		rt_text_add(out, "\"logprobs\":null");
	} else if (c->reply->request.chat) {
		rt_text_add(out, "\"logprobs\":{\"content\":[");
		rt_text_add(out, "%s", or_nothing(l));
		rt_text_add(out, "],\"refusal\":null}");
	} else {
		rt_text_add(out, "\"logprobs\":{\"tokens\":[%s],",
			    or_nothing(&l[0]));
		rt_text_add(out, "\"token_logprobs\":[%s],",
			    or_nothing(&l[1]));
		rt_text_add(out, "\"top_logprobs\":[%s],",
			    or_nothing(&l[2]));
		rt_text_add(out, "\"text_offset\":[%s]}", or_nothing(&l[3]));
	}
	for (k = 0; k < 4; k++) {
		out->failed = out->failed || l[k].failed;
		l[k].n = 0;
	}
}

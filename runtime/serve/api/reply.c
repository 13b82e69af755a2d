/*
 * Replies; see reply.h.
 */
#include "runtime/serve/api/reply.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/api/calls.h"
#include "runtime/serve/api/reasoned.h"

/* ---- life ---- */

/* An answer to a request with tools; its text begins with the mark of calls
 * that the prompt ends with. */
static enum rt_status
open_calls(struct rt_choice *c, struct rt_error *err)
{
	const struct rt_reply *r = c->reply;
	const struct rt_call_form *f = rt_chat_calls(r->codec->chat);

	c->calls = rt_calls_open(f, &r->request.tools);
	if (rt_request_must_call(&r->request) && rt_call_mark(f)) {
		rt_text_add(&c->text, "%s", rt_call_mark(f));
		c->plain = c->text.n;
	}
	return c->calls ? RT_OK : rt_no_memory(err, NULL);
}

static enum rt_status
open_choice(struct rt_reply *r, int64_t i, struct rt_error *err)
{
	struct rt_choice *c = &r->choices[i];
	enum rt_status status = RT_OK;
	const uint32_t *prompt;
	int64_t n, k;

	*c = (struct rt_choice){ .reply = r, .index = i,
				 .text.alloc = rt_alloc_or_libc(NULL) };
	for (k = 0; k < 4; k++) {
		c->logprobs[k].alloc = c->text.alloc;
	}
	c->part.alloc = c->text.alloc;
	rt_stream_open(&c->stream, r->codec->tokenizer);
	rt_stream_open(&c->prompt, r->codec->tokenizer);
	prompt = rt_choice_prompt(c, &n);
	if (r->request.echo) {
		size_t at = (size_t)(i / r->request.n);
		size_t from = at ? r->request.text_ends[at - 1] : 0;

		rt_text_bytes(&c->text, r->request.text.at + from,
			      r->request.text_ends[at] - from);
		c->plain = c->echoed = c->text.n;
	}
	if (r->request.echo && r->request.logprobs) {
		rt_logprobs_begin(c, (int32_t)prompt[0]);
	}
	if (r->request.grammar) {
		status = rt_guide_open(&c->guide, r->request.grammar,
				       r->request.spellings, err);
	}
	if (status == RT_OK && rt_request_may_call(&r->request)) {
		status = open_calls(c, err);
	}
	if (status == RT_OK && r->request.reasoning) {
		c->reasoned = rt_reasoned_open(r->request.reasoning,
					       r->request.inside);
		status = c->reasoned ? RT_OK : rt_no_memory(err, NULL);
	}
	if (status != RT_OK) {
		return status;
	}
	/* an answer of a chat begins anew, a text is continued */
	return rt_stream_begin(&c->stream, prompt,
			       r->request.chat ? 0 : (size_t)n, err);
}

enum rt_status
rt_reply_open(struct rt_reply **out, struct rt_request *request,
	      const struct rt_codec *codec, const char *model, uint64_t id,
	      int64_t created, struct rt_error *err)
{
	struct rt_reply *r = calloc(1, sizeof *r);
	enum rt_status status = RT_OK;
	int64_t n = (int64_t)request->nprompts * request->n, i;

	*out = NULL;
	if (!r) {
		rt_request_release(request);
		return rt_no_memory(err, NULL);
	}
	r->request = *request;
	r->codec = codec;
	r->model = model;
	r->created = created;
	r->number = id;
	r->out.alloc = rt_alloc_or_libc(NULL);
	snprintf(r->id, sizeof r->id, "%s-%016" PRIx64,
		 request->chat ? "chatcmpl" : "cmpl", id);
	r->choices = calloc((size_t)n, sizeof *r->choices);
	if (!r->choices) {
		status = rt_no_memory(err, NULL);
	}
	for (i = 0; i < n && status == RT_OK; i++) {
		r->nchoices++;
		status = open_choice(r, i, err);
	}
	if (status != RT_OK) {
		rt_reply_free(r);
		return status;
	}
	*out = r;
	return RT_OK;
}

void
rt_reply_free(struct rt_reply *r)
{
	int64_t i, k;

	for (i = 0; i < r->nchoices; i++) {
		struct rt_choice *c = &r->choices[i];

		rt_guide_free(c->guide);
		rt_calls_free(c->calls);
		rt_reasoned_free(c->reasoned);
		rt_stream_close(&c->stream);
		rt_stream_close(&c->prompt);
		rt_text_release(&c->text);
		rt_text_release(&c->part);
		for (k = 0; k < 4; k++) {
			rt_text_release(&c->logprobs[k]);
		}
	}
	free(r->choices);
	rt_request_release(&r->request);
	rt_text_release(&r->out);
	free(r);
}

/* ---- errors ---- */

void
rt_error_write(struct rt_text *out, const char *type, const char *code,
	       const char *message)
{
	/* a message about a field begins with its name */
	const char *field = *message == '\'' ? message + 1 : "";
	size_t n = strcspn(field, "'");

	rt_text_add(out, "{\"error\":{\"message\":");
	rt_text_string(out, message);
	rt_text_add(out, ",\"type\":\"%s\",\"param\":", type);
	if (field[n]) {
		rt_text_chars(out, field, n);
	} else {
		rt_text_add(out, "null");
	}
	rt_text_add(out, ",\"code\":%s%s%s}}", code ? "\"" : "",
		    code ? code : "null", code ? "\"" : "");
}

void
rt_reply_fail(struct rt_reply *r, const char *message)
{
	if (r->ended) {
		return;
	}
	rt_text_add(&r->out, r->request.stream ? "data: " : "");
	rt_error_write(&r->out, "server_error", NULL, message);
	rt_text_add(&r->out, r->request.stream ? "\n\n" : "");
	r->failed = r->ended = true;
}

/* ---- objects ---- */

static const char *
or_nothing(const struct rt_text *t)
{
	return t->n ? t->at : "";
}

static void
begin_object(struct rt_reply *r, const char *chat, const char *text)
{
	rt_text_add(&r->out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":"
		    "%" PRId64 ",\"model\":", r->id,
		    r->request.chat ? chat : text, r->created);
	rt_text_string(&r->out, r->model);
	rt_text_add(&r->out, ",\"choices\":[");
}

static void
add_usage(struct rt_reply *r)
{
	int64_t prompt = (int64_t)r->request.ids.n, drawn = 0, thought = 0, i;

	for (i = 0; i < r->nchoices; i++) {
		drawn += r->choices[i].ndrawn;
		if (r->choices[i].reasoned &&
		    rt_reasoned_thinks(r->choices[i].reasoned)) {
			thought += r->choices[i].nthought;
		}
	}
	rt_text_add(&r->out, "\"usage\":{\"prompt_tokens\":%" PRId64
		    ",\"completion_tokens\":%" PRId64 ",\"total_tokens\":%"
		    PRId64, prompt, drawn, prompt + drawn);
	if (r->request.reasoning) {
		rt_text_add(&r->out, ",\"completion_tokens_details\":{"
			    "\"reasoning_tokens\":%" PRId64 "}", thought);
	}
	rt_text_add(&r->out, "}");
}

/* What an answer has without its thoughts, which calls are in. */
static const struct rt_text *
after_thoughts(const struct rt_choice *c)
{
	return c->reasoned ? rt_reasoned_said(c->reasoned) : &c->text;
}

/* What an answer says: all of it, but for thoughts and calls. */
static const struct rt_text *
said(const struct rt_choice *c)
{
	return c->calls ? rt_calls_said(c->calls) : after_thoughts(c);
}

/* What it thinks, if that is sent; else NULL. */
static const struct rt_text *
thought(const struct rt_choice *c)
{
	return c->reasoned && c->reply->request.shows_reasoning
		? rt_reasoned_thought(c->reasoned) : NULL;
}

/* Appends what it thinks from a byte on by the names that clients have for it:
 * vLLM's, and that of DeepSeek, SGLang and llama.cpp. */
static void
write_thought(const struct rt_choice *c, size_t from, struct rt_text *out)
{
	const struct rt_text *t = thought(c);

	rt_text_add(out, "\"reasoning\":");
	rt_text_chars(out, t->at + from, t->n - from);
	rt_text_add(out, ",\"reasoning_content\":");
	rt_text_chars(out, t->at + from, t->n - from);
}

static bool
has_thoughts(const struct rt_choice *c, size_t from)
{
	return thought(c) && thought(c)->n > from;
}

static bool
has_calls(const struct rt_choice *c)
{
	return c->calls && rt_calls_count(c->calls) > 0;
}

/* A number that its calls have their ids from. */
static uint64_t
number_of(const struct rt_choice *c)
{
	return c->reply->number ^ (uint64_t)c->index << 32;
}

static const char *
reason(const struct rt_choice *c)
{
	return c->why == RT_ENDED_LENGTH ? "\"length\""
		: has_calls(c) ? "\"tool_calls\"" : "\"stop\"";
}

/* What a chat says from what was sent up to a byte, and what is new of its
 * thoughts and calls. */
static void
write_delta(struct rt_choice *c, size_t to, struct rt_text *out)
{
	bool calls = c->calls && rt_calls_has_news(c->calls);
	bool thoughts = has_thoughts(c, c->thought_sent);
	const char *comma = "";

	rt_text_add(out, "\"delta\":{");
	if (!c->begun) {
		rt_text_add(out, "\"role\":\"assistant\"");
		comma = ",";
	}
	if (thoughts) {
		rt_text_add(out, "%s", comma);
		write_thought(c, c->thought_sent, out);
		c->thought_sent = thought(c)->n;
		comma = ",";
	}
	if (to > c->sent || !(calls || thoughts)) {
		rt_text_add(out, "%s\"content\":", comma);
		rt_text_chars(out, said(c)->at ? said(c)->at + c->sent : "",
			      to - c->sent);
		comma = ",";
	}
	if (calls) {
		rt_text_add(out, "%s\"tool_calls\":", comma);
		rt_calls_write_news(c->calls, after_thoughts(c)->at,
				    number_of(c), out);
	}
	rt_text_add(out, "},");
}

/* An event with what is said from what was sent up to a byte. */
static void
send_event(struct rt_choice *c, size_t to)
{
	struct rt_reply *r = c->reply;
	struct rt_text *out = &r->out;

	rt_text_add(out, "data: ");
	begin_object(r, "chat.completion.chunk", "text_completion");
	rt_text_add(out, "{\"index\":%" PRId64 ",", c->index);
	if (r->request.chat) {
		write_delta(c, to, out);
	} else {
		rt_text_add(out, "\"text\":");
		rt_text_chars(out, c->text.at ? c->text.at + c->sent : "",
			      to - c->sent);
		rt_text_add(out, ",");
	}
	rt_logprobs_write(c, out);
	rt_text_add(out, ",\"finish_reason\":%s}]",
		    c->ended ? reason(c) : "null");
	if (r->request.usage && r->request.usage_so_far) {
		rt_text_add(out, ",");
		add_usage(r);
	} else if (r->request.usage) {
		rt_text_add(out, ",\"usage\":null");
	}
	rt_text_add(out, "}\n\n");
	c->sent = to;
	c->begun = true;
}

static void
end_stream(struct rt_reply *r)
{
	if (r->request.usage) {
		rt_text_add(&r->out, "data: ");
		begin_object(r, "chat.completion.chunk", "text_completion");
		rt_text_add(&r->out, "],");
		add_usage(r);
		rt_text_add(&r->out, "}\n\n");
	}
	rt_text_add(&r->out, "data: [DONE]\n\n");
}

static void
write_message(struct rt_choice *c, struct rt_text *out)
{
	bool has_others = has_calls(c) ||
			  (c->reasoned && rt_reasoned_thinks(c->reasoned));

	rt_text_add(out, "\"message\":{\"role\":\"assistant\","
		    "\"content\":");
	if (has_others && said(c)->n == 0) {
		rt_text_add(out, "null");
	} else {
		rt_text_chars(out, or_nothing(said(c)), said(c)->n);
	}
	rt_text_add(out, ",\"refusal\":null");
	if (has_thoughts(c, 0)) {
		rt_text_add(out, ",");
		write_thought(c, 0, out);
	}
	if (has_calls(c)) {
		rt_text_add(out, ",\"tool_calls\":");
		rt_calls_write(c->calls, after_thoughts(c)->at, number_of(c),
			       out);
	}
	rt_text_add(out, "}");
}

static void
write_whole(struct rt_reply *r)
{
	struct rt_text *out = &r->out;
	int64_t i;

	begin_object(r, "chat.completion", "text_completion");
	for (i = 0; i < r->nchoices; i++) {
		struct rt_choice *c = &r->choices[i];

		rt_text_add(out, "%s{\"index\":%" PRId64 ",", i ? "," : "",
			    i);
		if (r->request.chat) {
			write_message(c, out);
		} else {
			rt_text_add(out, "\"text\":");
			rt_text_chars(out, or_nothing(&c->text), c->text.n);
		}
		rt_text_add(out, ",");
		rt_logprobs_write(c, out);
		rt_text_add(out, ",\"finish_reason\":%s}", reason(c));
	}
	rt_text_add(out, "],");
	add_usage(r);
	rt_text_add(out, "}");
}

/* ---- texts that end an answer ---- */

/*
 * Cuts the text before or after the first of them.  If there is none, `plain`
 * goes to where one may begin that has not come to its end.
 */
static void
find_stop(struct rt_choice *c)
{
	const struct rt_request *q = &c->reply->request;
	size_t n = c->text.n, at = c->plain, i;
	const char *text = c->text.at;

	for (c->plain = n; at < n; at++) {
		size_t stop = SIZE_MAX;	/* the shortest that is there */

		for (i = 0; i < q->nstops; i++) {
			size_t len = strlen(q->stops[i]), left = n - at;
			size_t same = len < left ? len : left;

			if (memcmp(text + at, q->stops[i], same) != 0) {
				continue;
			}
			if (same == len) {
				stop = len < stop ? len : stop;
			}
			c->plain = at < c->plain ? at : c->plain;
		}
		if (stop < SIZE_MAX) {
			c->plain = at + (q->keeps_stop ? stop : 0);
			c->text.n = c->plain;
			c->text.at[c->plain] = '\0';
			c->cut = true;
			return;
		}
	}
}

/* Goes on in what is known of the text.  What follows a guide begins with the
 * token after thoughts, so what their last one has beside is left out, and
 * marks that the guide has are a part of it. */
static void
read_thoughts(struct rt_choice *c)
{
	bool was_over = rt_reasoned_is_over(c->reasoned);

	rt_reasoned_read(c->reasoned, c->text.at, c->plain, false);
	if (c->guide && !was_over && rt_reasoned_is_over(c->reasoned)) {
		rt_reasoned_say(c->reasoned, c->text.n);
	}
	c->text.failed = rt_reasoned_said(c->reasoned)->failed ||
			 rt_reasoned_thought(c->reasoned)->failed;
}

bool
rt_choice_is_guided(const struct rt_choice *c)
{
	return !c->reasoned || rt_reasoned_is_over(c->reasoned);
}

/* Adds what is known of the text now; sets `cut` where a text ends it, or a
 * call after which no other may come. */
static void
add_text(struct rt_choice *c, int64_t token)
{
	const struct rt_reply *r = c->reply;
	struct rt_error err;
	const char *mark;
	char *text = NULL;
	size_t n = 0;

	if (rt_codec_text(&c->stream, token, &text, &n, &err) != RT_OK) {
		c->text.failed = true;
	}
	rt_text_bytes(&c->text, text, n);
	free(text);
	mark = rt_codec_mark(r->codec, token,
			     (c->calls ? RT_MARKS_CALLS : 0) |
			     (c->reasoned ? RT_MARKS_REASONING : 0));
	rt_text_add(&c->text, "%s", mark ? mark : "");
	find_stop(c);
	if (c->reasoned && !c->text.failed) {
		read_thoughts(c);
	}
	if (c->calls && !c->text.failed) {
		rt_calls_read(c->calls, after_thoughts(c)->at,
			      c->reasoned ? after_thoughts(c)->n : c->plain);
		c->text.failed = said(c)->failed;
		c->cut = c->cut || (!r->request.tools.several &&
				    rt_calls_ended(c->calls) > 0);
	}
}

/* Whether there is something to send of what is known to be part of it. */
static bool
has_news(const struct rt_choice *c)
{
	return c->calls || c->reasoned
		? said(c)->n > c->sent || has_thoughts(c, c->thought_sent) ||
		  (c->calls && rt_calls_has_news(c->calls))
		: c->plain > c->sent;
}

bool
rt_choice_add(struct rt_choice *c, const struct rt_drawn *t)
{
	struct rt_reply *r = c->reply;

	c->ndrawn++;
	c->nthought += !rt_choice_is_guided(c);
	add_text(c, t->token);
	if (r->request.logprobs) {
		rt_logprobs_add(c, t);
	}
	if (c->text.failed || r->out.failed) {
		rt_reply_fail(r, "out of memory");
	}
	if (r->request.stream && !r->ended && !c->cut && has_news(c)) {
		send_event(c, c->calls || c->reasoned ? said(c)->n
						      : c->plain);
	}
	return !c->cut && !r->ended;
}

void
rt_choice_end(struct rt_choice *c, enum rt_ended why, int64_t ndrawn)
{
	struct rt_reply *r = c->reply;

	c->ended = true;
	c->ndrawn = ndrawn;
	c->seq = NULL;
	if (!c->cut) {
		add_text(c, -1);
	}
	if (c->reasoned && !c->text.failed) {
		rt_reasoned_read(c->reasoned, c->text.at, c->text.n, true);
	}
	if (c->calls && !c->text.failed) {
		rt_calls_end(c->calls, after_thoughts(c)->at,
			     after_thoughts(c)->n);
		c->text.failed = said(c)->failed;
	}
	c->why = c->cut ? RT_ENDED_STOP : why;
	r->nended++;
	if (c->text.failed) {
		rt_reply_fail(r, "out of memory");
	}
	if (r->ended) {
		return;
	}
	if (why == RT_ENDED_CANCELLED || why == RT_ENDED_BROKEN) {
		rt_reply_fail(r, why == RT_ENDED_CANCELLED
			? "the request was cancelled"
			: "the model's logits are no finite numbers");
		return;
	}
	if (r->request.stream) {
		send_event(c, said(c)->n);
	}
	if (r->nended == r->nchoices) {
		if (r->request.stream) {
			end_stream(r);
		} else {
			write_whole(r);
		}
		r->ended = true;
		if (r->out.failed) {
			/* a part of an object is of no use */
			r->out.n = 0;
			r->failed = true;
		}
	}
}

/*
 * The command `generate`: one text, continued on a terminal.
 */
#include <stdlib.h>

#include "runtime/serve/chat/codec.h"
#include "runtime/serve/schedule/scheduler.h"

struct generation {
	struct rt_codec codec;
	struct rt_stream stream;
	struct rt_ids prompt;
	FILE *out;
	struct rt_generated got;
	bool ended;
	enum rt_ended why;
	enum rt_status status;
	struct rt_error *err;
};

struct rt_generate_options
rt_generate_plain(void)
{
	return (struct rt_generate_options){ .prompt = "", .tokens = 256,
		.temperature = 1, .top_p = 1, .repetition = 1 };
}

static bool
write_text(struct generation *g, int64_t token)
{
	char *text = NULL;
	size_t n = 0;

	g->status = rt_codec_text(&g->stream, token, &text, &n, g->err);
	if (n > 0) {
		fwrite(text, 1, n, g->out);
		fflush(g->out);
	}
	free(text);
	return g->status == RT_OK;
}

static bool
on_token(void *user, const struct rt_drawn *t)
{
	return write_text(user, t->token);
}

static void
on_end(void *user, enum rt_ended why, int64_t ndrawn)
{
	struct generation *g = user;

	g->ended = true;
	g->why = why;
	g->got.drawn = ndrawn;
}

static enum rt_status
read_prompt(struct generation *g, const struct rt_generate_options *o,
	    struct rt_error *err)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_message m = { .role = "user", .content = o->prompt };
	struct rt_conversation v = { .messages = &m, .n = 1 };
	enum rt_status status = RT_OK;

	if (o->chat) {
		status = rt_chat_write(g->codec.chat, &v, &t, err);
	}
	if (status == RT_OK) {
		status = rt_codec_encode(&g->codec, o->chat ? t.at : o->prompt,
			o->chat ? t.n : o->prompt_bytes, !o->chat ||
			rt_chat_is_framed(g->codec.chat), &g->prompt, err);
	}
	rt_text_release(&t);
	if (status == RT_OK && g->prompt.n == 0) {
		status = rt_fail(err, RT_FORMAT, RT_NOWHERE, "a prompt has at "
				 "least one token, this is empty");
	}
	return status == RT_OK ? rt_stream_begin(&g->stream, g->prompt.at,
			o->chat ? 0 : g->prompt.n, err) : status;
}

static enum rt_status
run(struct generation *g, const struct rt_engine *e,
    const struct rt_generate_options *o, struct rt_error *err)
{
	struct rt_ask ask = { .nprompt = (int64_t)g->prompt.n,
		.most = o->tokens, .draw = rt_draw_plain(),
		/* ids are below 2^31, or add() refuses them */
		.prompt = (const void *)g->prompt.at,
		.stops = (const void *)g->codec.stops.at,
		.nstops = o->ignore_eos ? 0 : (int64_t)g->codec.stops.n,
		.token = on_token, .end = on_end, .user = g };
	struct rt_scheduler *s;
	struct rt_sequence *q;
	enum rt_status status = rt_scheduler_open(&s, e, true, err);

	if (status != RT_OK) {
		return status;
	}
	ask.draw.repetition = o->repetition;
	ask.draw.presence = o->presence;
	ask.draw.frequency = o->frequency;
	ask.draw.temperature = o->temperature;
	ask.draw.top_k = o->top_k;
	ask.draw.top_p = o->top_p;
	ask.draw.min_p = o->min_p;
	ask.draw.seed = o->seed;
	status = rt_scheduler_add(s, &ask, &q, err);
	while (status == RT_OK && !g->ended) {
		status = rt_scheduler_step(s, err);
	}
	g->got.stopped = g->why == RT_ENDED_STOP;
	if (g->why == RT_ENDED_LENGTH && g->got.drawn < o->tokens) {
		g->got.full = rt_scheduler_longest(s);
	}
	rt_scheduler_free(s);
	if (status == RT_OK && g->why == RT_ENDED_BROKEN) {
		return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the model's logits "
			       "after %lld more tokens are no finite numbers",
			       (long long)g->got.drawn);
	}
	return status == RT_OK ? g->status : status;
}

enum rt_status
rt_generate(const struct rt_engine *e, const struct rt_generate_options *o,
	    FILE *out, struct rt_generated *got, struct rt_error *err)
{
	struct generation g = { .out = out, .err = err,
				.prompt.alloc = rt_alloc_or_libc(NULL) };
	enum rt_status status;

	status = rt_codec_open(&g.codec, o->tokenizer, o->chat, e->vocab, err);
	rt_stream_open(&g.stream, g.codec.tokenizer);
	if (status == RT_OK) {
		status = read_prompt(&g, o, err);
	}
	if (status == RT_OK) {
		status = run(&g, e, o, err);
	}
	if (status == RT_OK && write_text(&g, -1)) {
		putc('\n', out);
		fflush(out);	/* before what is said of it elsewhere */
	}
	status = status == RT_OK ? g.status : status;
	*got = g.got;
	rt_stream_close(&g.stream);
	rt_ids_release(&g.prompt);
	rt_codec_close(&g.codec);
	return status;
}

/*
 * Tokens and text; see codec.h.
 */
#include "runtime/serve/chat/codec.h"

#include <stdlib.h>

static enum rt_status
find_stops(struct rt_codec *c, struct rt_error *err)
{
	size_t i;

	for (i = 0; rt_chat_stop(c->chat, i); i++) {
		int64_t id = rt_tokenizer_id(c->tokenizer,
					     rt_chat_stop(c->chat, i));

		if (id >= 0 && id < c->vocab &&
		    !rt_ids_add(&c->stops, (uint32_t)id)) {
			return rt_no_memory(err, NULL);
		}
	}
	for (i = 0; i < RT_TOKENIZER_ENDS; i++) {
		int64_t id = rt_tokenizer_end(c->tokenizer, i);

		if (id >= 0 && id < c->vocab &&
		    !rt_ids_add(&c->stops, (uint32_t)id)) {
			return rt_no_memory(err, NULL);
		}
	}
	return RT_OK;
}

static void
release_marks(struct rt_codec *c)
{
	while (c->nmarks > 0) {
		free(c->marks[--c->nmarks].text);
	}
}

/* Finds the special tokens that stand around calls and thoughts. */
static enum rt_status
find_marks(struct rt_codec *c, struct rt_error *err)
{
	const struct rt_call_form *f = rt_chat_calls(c->chat);
	int64_t id;

	release_marks(c);
	for (id = 0; id < c->vocab && c->nmarks < RT_CODEC_MARKS; id++) {
		char *text = NULL;
		int of = 0;
		size_t n;

		if (!rt_tokenizer_has(c->tokenizer, id) ||
		    !rt_tokenizer_is_special(c->tokenizer, id)) {
			continue;
		}
		if (rt_token_text(c->tokenizer, (uint32_t)id, false, &text, &n,
				  err) == RT_NOMEM) {
			return RT_NOMEM;
		}
		if (text && f && rt_call_has(f, text)) {
			of |= RT_MARKS_CALLS;
		}
		if (text && c->reasoning &&
		    rt_reasoning_has(c->reasoning, text)) {
			of |= RT_MARKS_REASONING;
		}
		if (of) {
			c->marks[c->nmarks++] =
				(struct rt_codec_mark){ id, text, of };
		} else {
			free(text);
		}
	}
	return RT_OK;
}

/* What is known of calls in answers. */
static enum rt_status
find_calls(struct rt_codec *c, bool by_file, struct rt_error *err)
{
	const struct rt_call_form *f = rt_chat_calls(c->chat);

	c->has_tools = f && (!by_file || rt_chat_file_has_tools(c->tokenizer));
	return f ? find_marks(c, err) : RT_OK;
}

enum rt_status
rt_codec_set_reasoning(struct rt_codec *c, const char *name,
		       struct rt_error *err)
{
	const char *own = rt_chat_reasoning(c->chat);
	const struct rt_reasoning *f = rt_reasoning_named(name, err), *other;

	if (!f) {
		return RT_RANGE;
	}
	other = own ? rt_reasoning_named(own, err) : f;
	if (f != other || (f->channels && !own)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "models of the chat "
			"template '%s' do not reason as '%s' has it",
			rt_chat_name(c->chat), f->name);
	}
	c->reasoning = f;
	return find_marks(c, err);
}

enum rt_status
rt_codec_open(struct rt_codec *c, const char *tokenizer, const char *chat,
	      int64_t vocab, struct rt_error *err)
{
	enum rt_status status;

	*c = (struct rt_codec){ .vocab = vocab,
				.stops.alloc = rt_alloc_or_libc(NULL),
				.lock = PTHREAD_MUTEX_INITIALIZER };
	if (!tokenizer && vocab != 256) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the model has %lld "
			"tokens, so what they mean is not known: give "
			"--tokenizer FILE", (long long)vocab);
	}
	status = tokenizer ? rt_tokenizer_open(&c->tokenizer, tokenizer, NULL,
					       err)
			   : rt_tokenizer_of_bytes(&c->tokenizer, NULL, err);
	if (status == RT_OK && tokenizer) {
		rt_tokenizer_warn_beyond(c->tokenizer, tokenizer, vocab);
	}
	if (status == RT_OK) {
		c->chat = chat ? rt_chat_named(chat, err)
			       : rt_chat_of(c->tokenizer);
		status = c->chat ? find_stops(c, err) : RT_RANGE;
	}
	if (status == RT_OK) {
		status = find_calls(c, !chat, err);
	}
	return status == RT_OK && rt_chat_reasoning(c->chat)
		? rt_codec_set_reasoning(c, rt_chat_reasoning(c->chat), err)
		: status;
}

void
rt_codec_close(struct rt_codec *c)
{
	while (c->nidle > 0) {
		rt_encoder_free(c->idle[--c->nidle]);
	}
	pthread_mutex_destroy(&c->lock);
	rt_spellings_free(c->spellings[0]);
	rt_spellings_free(c->spellings[1]);
	release_marks(c);
	if (c->tokenizer) {
		rt_tokenizer_free(c->tokenizer);
	}
	rt_ids_release(&c->stops);
}

static enum rt_status
borrow_encoder(struct rt_codec *c, struct rt_encoder **out,
	       struct rt_error *err)
{
	*out = NULL;
	pthread_mutex_lock(&c->lock);
	if (c->nidle > 0) {
		*out = c->idle[--c->nidle];
	}
	pthread_mutex_unlock(&c->lock);
	return *out ? RT_OK : rt_encoder_open(out, c->tokenizer, err);
}

static void
return_encoder(struct rt_codec *c, struct rt_encoder *e)
{
	pthread_mutex_lock(&c->lock);
	if (c->nidle < RT_IDLE_ENCODERS) {
		c->idle[c->nidle++] = e;
		e = NULL;
	}
	pthread_mutex_unlock(&c->lock);
	rt_encoder_free(e);
}

enum rt_status
rt_codec_encode(struct rt_codec *c, const char *text, size_t n, bool framed,
		struct rt_ids *out, struct rt_error *err)
{
	struct rt_encoder *e;
	enum rt_status status = borrow_encoder(c, &e, err);

	if (status != RT_OK) {
		return status;
	}
	if (framed && !rt_encode_before(c->tokenizer, out)) {
		status = rt_no_memory(err, NULL);
	}
	if (status == RT_OK) {
		status = rt_encode(e, text, n, RT_PART_WHOLE, out, err);
	}
	return_encoder(c, e);
	return status;
}

/* ---- grammars ---- */

struct codec_tokens {
	const struct rt_codec *codec;
	bool calls;
	bool no_memory;
};

static char *
token_bytes(void *user, int64_t token, size_t *n)
{
	struct codec_tokens *x = user;
	const struct rt_codec *c = x->codec;
	struct rt_error err;
	char *text = NULL;
	size_t i;

	*n = 0;
	if (!rt_tokenizer_has(c->tokenizer, token) ||
	    (rt_tokenizer_is_special(c->tokenizer, token) &&
	     !(x->calls && rt_codec_mark(c, token, RT_MARKS_CALLS)))) {
		return NULL;
	}
	for (i = 0; i < c->stops.n; i++) {
		if (c->stops.at[i] == (uint32_t)token) {
			return NULL;
		}
	}
	if (rt_token_text(c->tokenizer, (uint32_t)token, true, &text, n,
			  &err) == RT_NOMEM) {
		x->no_memory = true;
	}
	return text;
}

enum rt_status
rt_codec_spellings(struct rt_codec *c, bool calls,
		   const struct rt_spellings **out, struct rt_error *err)
{
	struct codec_tokens x = { .codec = c, .calls = calls };
	/* without marks both are the same */
	struct rt_spellings **at = &c->spellings[calls && c->nmarks > 0];
	enum rt_status status = RT_OK;

	pthread_mutex_lock(&c->lock);
	if (!*at) {
		status = rt_spellings_open(at, c->vocab, token_bytes, &x, err);
	}
	if (status == RT_OK && x.no_memory) {
		rt_spellings_free(*at);
		*at = NULL;
		status = rt_no_memory(err, NULL);
	}
	*out = *at;
	pthread_mutex_unlock(&c->lock);
	return status;
}

/* ---- text of tokens ---- */

const char *
rt_codec_mark(const struct rt_codec *c, int64_t token, int of)
{
	size_t i;

	for (i = 0; i < c->nmarks; i++) {
		if (c->marks[i].token == token && c->marks[i].of & of) {
			return c->marks[i].text;
		}
	}
	return NULL;
}

enum rt_status
rt_codec_text(struct rt_stream *x, int64_t token, char **text, size_t *n,
	      struct rt_error *err)
{
	if (token < 0 || rt_tokenizer_has(x->tokenizer, token)) {
		return rt_stream_add(x, token, text, n, err);
	}
	*text = NULL;
	*n = 0;
	return RT_OK;
}

/*
 * Private to runtime/serve: what is sent for a request, in OpenAI's form: one
 * object, or a stream of server-sent events.
 *
 * A reply has a choice for each answer, made of the tokens that its sequence
 * draws.  Its bytes gather in `out` until somebody sends them.
 */
#ifndef RT_REPLY_H
#define RT_REPLY_H

#include "runtime/serve/api/request.h"
#include "runtime/serve/schedule/scheduler.h"

enum { RT_REPLY_ID_BYTES = 48 };

struct rt_reply;

struct rt_choice {
	struct rt_reply *reply;
	int64_t index, ndrawn;
	struct rt_sequence *seq;	/* for whoever runs it; NULL: none */
	struct rt_guide *guide;	/* or NULL */
	struct rt_calls *calls;	/* in the text; NULL: none are read */
	struct rt_reasoned *reasoned;	/* the text; NULL: it is all said */
	size_t thought_sent;	/* bytes of its thoughts that were sent */
	int64_t nthought;	/* tokens that came before they were over */
	struct rt_stream stream;
	struct rt_text text;
	size_t sent;		/* bytes of what it says that were sent */
	size_t plain;		/* bytes that no text that ends it is in */
	bool cut;		/* a text that ends it came */
	bool begun, ended;
	enum rt_ended why;
	/* of tokens that were not sent: of chats one list of objects; of texts
	 * tokens, logprobs, likeliest ones, offsets */
	struct rt_text logprobs[4];
	size_t echoed;		/* bytes of the prompt in the text */
	struct rt_stream prompt;	/* whose tokens are scored */
	struct rt_text part;	/* what these say, and is not yet counted */
	/* where the next token begins in the text: bytes and characters */
	size_t counted, offset;
};

struct rt_reply {
	const struct rt_codec *codec;
	struct rt_request request;
	const char *model;
	uint64_t number;
	char id[RT_REPLY_ID_BYTES];	/* with the number */
	int64_t created;	/* seconds since 1970 */
	struct rt_choice *choices;
	int64_t nchoices, nended;
	struct rt_text out;
	bool ended;		/* nothing is added to `out` any more */
	bool failed;
	void *user;		/* whoever runs it */
};

/* Owns the request from here on, on failure as well. */
enum rt_status rt_reply_open(struct rt_reply **out, struct rt_request *request,
			     const struct rt_codec *codec, const char *model,
			     uint64_t id, int64_t created,
			     struct rt_error *err);
void rt_reply_free(struct rt_reply *r);
/* The tokens of the prompt that a choice answers. */
static inline const uint32_t *
rt_choice_prompt(const struct rt_choice *c, int64_t *n)
{
	const struct rt_request *q = &c->reply->request;
	size_t i = (size_t)(c->index / q->n);
	size_t from = i ? q->ends[i - 1] : 0;

	*n = (int64_t)(q->ends[i] - from);
	return q->ids.at + from;
}

/* Whether its guide holds for what comes next: thoughts follow none. */
bool rt_choice_is_guided(const struct rt_choice *c);
/* The next token of a choice; false: a text that ends it has come. */
bool rt_choice_add(struct rt_choice *c, const struct rt_drawn *t);
/* The last call for a choice; after those of all, the reply has ended. */
void rt_choice_end(struct rt_choice *c, enum rt_ended why, int64_t ndrawn);
/* Ends a reply with an error. */
void rt_reply_fail(struct rt_reply *r, const char *message);
/* Appends an error as an object of OpenAI's form; `code`: or NULL. */
void rt_error_write(struct rt_text *out, const char *type, const char *code,
		    const char *message);

/* ---- reply_logprobs.c ---- */

/* The first token of a prompt that is echoed with logprobs, and each after it,
 * before any is drawn. */
void rt_logprobs_begin(struct rt_choice *c, int32_t token);
void rt_choice_score(struct rt_choice *c, const struct rt_drawn *t);
/* A token that was drawn; its text is in the answer's. */
void rt_logprobs_add(struct rt_choice *c, const struct rt_drawn *t);
/* Appends the member `logprobs`, of tokens since the last time. */
void rt_logprobs_write(struct rt_choice *c, struct rt_text *out);

#endif

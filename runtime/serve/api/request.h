/*
 * Private to runtime/serve: what a client asks for, as the body of a request of
 * OpenAI's form says it.
 */
#ifndef RT_REQUEST_H
#define RT_REQUEST_H

#include "runtime/serve/chat/codec.h"
#include "runtime/serve/schedule/draw.h"

enum {
	RT_REQUEST_STOPS = 16,		/* texts that end an answer */
	RT_REQUEST_ANSWERS = 128,	/* to all prompts of a request */
	RT_REQUEST_MESSAGES = 4096,
	RT_REQUEST_BIASES = 1024,	/* tokens whose logits are changed */
	RT_REQUEST_TOOLS = 128,
	RT_REQUEST_CALLS = 4096,	/* of all messages */
};

enum rt_tool_choice {
	RT_TOOLS_UNSAID,	/* the model's choice, if there are any */
	RT_TOOLS_NONE,		/* the model is not told of them */
	RT_TOOLS_AUTO,
	RT_TOOLS_REQUIRED,	/* an answer is one call or more */
	RT_TOOLS_NAMED,		/* an answer is a call of this one */
};

struct rt_tools {
	struct rt_tool *at;
	size_t n;
	struct rt_text json;	/* what they and past calls point into */
	enum rt_tool_choice choice;
	const char *named;
	bool several;		/* an answer may have several calls */
};

struct rt_request {
	bool chat;		/* messages, not prompts */
	bool stream, usage, echo, ignore_eos, logprobs;
	bool framed;		/* texts come after what begins documents */
	bool usage_so_far;	/* each event of a stream has the counts */
	bool keeps_stop;	/* the text that ends it is a part of it */
	/* of a conversation: the prompt ends with what begins an answer; or an
	 * answer goes on in the last message */
	bool begins, goes_on;
	bool has_seed;
	/* of a conversation: whether answers think; the prompt ends in
	 * thoughts; they are sent */
	bool thinks, inside, shows_reasoning;
	const char *thinks_field;	/* that says so, or not; or NULL */
	const char *effort;	/* how much they are to think; or NULL */
	/* how its thoughts are told apart from what it says; NULL: they are
	 * not */
	const struct rt_reasoning *reasoning;
	int64_t n;		/* answers to each prompt */
	int64_t best_of;	/* of so many; 0: not said */
	int64_t most;		/* tokens of an answer; -1: not said */
	const char *most_field;	/* that says it; or NULL */
	int64_t least;		/* before one may end */
	int64_t top;		/* of logprobs */
	int64_t seed;
	struct rt_draw draw;
	struct rt_bias *biases;	/* of draw */
	/* what an answer follows, and how tokens are spelled; or NULL */
	struct rt_grammar *grammar;
	const struct rt_spellings *spellings;
	const char *model;	/* or NULL */
	/* texts and tokens that end an answer */
	const char *stops[RT_REQUEST_STOPS];
	size_t nstops;
	struct rt_ids stop_ids;
	/* prompt i is ids[ends[i - 1]] .. ids[ends[i] - 1] */
	struct rt_ids ids;
	size_t ends[RT_REQUEST_ANSWERS], nprompts;
	bool is_text[RT_REQUEST_ANSWERS];	/* not tokens */
	struct rt_text text;	/* of prompts that are echoed */
	size_t text_ends[RT_REQUEST_ANSWERS];
	/* stops, the model, messages and names of tools point into it */
	struct rt_text body;
	struct rt_message *messages;
	size_t nmessages;
	struct rt_tools tools;
	struct rt_past_call *calls;
	size_t ncalls;
};

/*
 * Reads a body, which is changed and must outlive the request.  RT_FORMAT and
 * RT_RANGE are the client's fault.
 */
enum rt_status rt_request_read(struct rt_request *r, bool chat, char *body,
			       size_t n, struct rt_codec *c,
			       struct rt_error *err);
/* Whether the model is told of tools, and whether it has to call one. */
bool rt_request_may_call(const struct rt_request *r);
bool rt_request_must_call(const struct rt_request *r);
/* Also releases what rt_request_read failed to read. */
void rt_request_release(struct rt_request *r);

/* ---- request_fit.c ---- */

/*
 * Whether prompts and answers fit a model of `vocab` tokens whose sequences
 * have at most `longest`; an answer whose length is not said gets one.
 * RT_RANGE: they do not; *too_long: it is for the length.
 */
enum rt_status rt_request_fit(struct rt_request *r, int64_t longest,
			      int64_t vocab, bool *too_long,
			      struct rt_error *err);

/* ---- token_paths.c ---- */

/*
 * Bodies of two paths, which are changed; answers are appended to `out`.
 * rt_tokens_of() takes a prompt or a conversation as other paths do, and
 * rt_tokens_text() a list of tokens.  *model is the name that the body says,
 * or NULL, and lasts as long as the body.  RT_FORMAT and RT_RANGE are the
 * client's fault.
 */
enum rt_status rt_tokens_of(struct rt_codec *c, int64_t context,
			    struct rt_text *body, struct rt_text *out,
			    const char **model, struct rt_error *err);
enum rt_status rt_tokens_text(struct rt_codec *c, struct rt_text *body,
			      struct rt_text *out, const char **model,
			      struct rt_error *err);

#endif

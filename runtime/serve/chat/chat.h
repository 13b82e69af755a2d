/*
 * Private to runtime/serve: the text of a conversation, as models were trained
 * to read it.
 */
#ifndef RT_CHAT_H
#define RT_CHAT_H

#include "runtime/serve/chat/reasoning.h"
#include "runtime/text.h"
#include "runtime/tokenize/tokenize.h"

struct rt_chat;
struct rt_call_form;

/* A function that a model may call.  Its JSON is bytes from .. to - 1 of the
 * conversation's `json`, and so is the schema of its parameters. */
struct rt_tool {
	const char *name;
	size_t from, to, schema_from, schema_to;
	size_t function_from, function_to;	/* without its type */
	const char *about;	/* its description, of about_bytes; or NULL */
	size_t about_bytes;
};

/* A call that the assistant made; its arguments are bytes of `json`. */
struct rt_past_call {
	const char *id, *name;
	size_t from, to;
};

struct rt_message {
	const char *role, *content;	/* system, user, assistant or tool */
	const char *call_id;	/* of a tool: what it answers; or NULL */
	const char *thought;	/* by the assistant before that; or NULL */
	/* of the assistant: calls[first_call] and those after it */
	size_t first_call, ncalls;
};

struct rt_conversation {
	const struct rt_message *messages;
	size_t n;
	const struct rt_past_call *calls;
	const struct rt_tool *tools;	/* that the prompt has */
	size_t ntools;
	const char *json;
	/* what begins an answer does not come last; and the last message, which
	 * is the assistant's, is not ended */
	bool no_answer, goes_on;
	bool calls_next;	/* the next answer begins with a call's mark */
	/* how the model thinks, or NULL; whether it is to, and whether the
	 * prompt ends with what begins thoughts also where it need not */
	const struct rt_reasoning *reasoning;
	bool thinks, opens;
	const char *effort;	/* how much; NULL: medium */
};

enum { RT_TOOLS_BYTES = 1 << 20 };	/* of the text that tells of tools */

/* The template of that name; or NULL, and err lists all. */
const struct rt_chat *rt_chat_named(const char *name, struct rt_error *err);
/* The one whose marks are in the template that the file has, or else are tokens
 * of the tokenizer; else `none`. */
const struct rt_chat *rt_chat_of(const struct rt_tokenizer *t);
const char *rt_chat_name(const struct rt_chat *c);
/* Whether the text begins with what the tokenizer puts before documents. */
bool rt_chat_is_framed(const struct rt_chat *c);
/* The i-th text that ends what models say where it is a token: of any template,
 * and of this one; NULL: there are no more. */
const char *rt_chat_stop(const struct rt_chat *c, size_t i);
/* The name of the form of reasoning that answers always have; or NULL. */
const char *rt_chat_reasoning(const struct rt_chat *c);
/* How models of a template call functions; NULL: they do not. */
const struct rt_call_form *rt_chat_calls(const struct rt_chat *c);
/* What stands before calls; NULL: nothing. */
const char *rt_call_mark(const struct rt_call_form *f);
/* Whether a text is a part of what stands around calls, as their tokens are. */
bool rt_call_has(const struct rt_call_form *f, const char *text);
/* Whether a template of the tokenizer's file, if there is one, has tools. */
bool rt_chat_file_has_tools(const struct rt_tokenizer *t);
/* Whether what comes before the next answer ends in thoughts. */
bool rt_chat_is_inside(const struct rt_chat *c,
		       const struct rt_conversation *v);
/*
 * Appends the conversation, and what comes before the next answer.
 * RT_RANGE: a role that is not known, no message, or tools that have no place;
 * err says which.
 */
enum rt_status rt_chat_write(const struct rt_chat *c,
			     const struct rt_conversation *v,
			     struct rt_text *out, struct rt_error *err);

#endif

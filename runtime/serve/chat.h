/*
 * Private to runtime/serve: the text of a conversation, as models were trained
 * to read it.
 */
#ifndef RT_CHAT_H
#define RT_CHAT_H

#include "runtime/text.h"
#include "runtime/tokenize/tokenize.h"

struct rt_chat;

struct rt_message {
	const char *role, *content;	/* system, user or assistant */
};

/* The template of that name; or NULL, and err lists all. */
const struct rt_chat *rt_chat_named(const char *name, struct rt_error *err);
/* The one whose marks are in the template that the file has, or else are tokens
 * of the tokenizer; else `none`. */
const struct rt_chat *rt_chat_of(const struct rt_tokenizer *t);
const char *rt_chat_name(const struct rt_chat *c);
/* Whether the text begins with what the tokenizer puts before documents. */
bool rt_chat_is_framed(const struct rt_chat *c);
/* The i-th token that ends what models of any template say; NULL: the end. */
const char *rt_chat_stop(size_t i);
/*
 * Appends the conversation, and what comes before the next answer.
 * RT_RANGE: a role that is not known, or no message; err says which.
 */
enum rt_status rt_chat_write(const struct rt_chat *c,
			     const struct rt_message *m, size_t n,
			     struct rt_text *out, struct rt_error *err);

#endif

/*
 * Private to runtime/serve: how models write what they think before an answer,
 * so that it is told apart from what they say.
 */
#ifndef RT_REASONING_H
#define RT_REASONING_H

#include <stdbool.h>

#include "runtime/error.h"

struct rt_reasoning {
	const char *name;
	const char *in_vllm;	/* its name there; NULL: the same */
	/* Messages of the answer are on channels, of which `final` is what it
	 * says.  Else thoughts are between two marks, and come first. */
	bool channels;
	const char *open, *close;
	/* what the prompt ends with so that an answer begins with thoughts; and
	 * so that it has none, NULL: it always has */
	const char *opened, *closed;
	bool prompt_opens;	/* that is there wherever an answer thinks */
	bool by_default;	/* it thinks, if nothing is said of that */
	/* a conversation has what was thought since the user's last message */
	bool keeps;
};

/* The form of that name, here or in vLLM, in which - and _ are the same; or
 * NULL, and err lists all. */
const struct rt_reasoning *rt_reasoning_named(const char *name,
					      struct rt_error *err);
/* Whether a special token is a part of what tells thoughts apart. */
bool rt_reasoning_has(const struct rt_reasoning *f, const char *text);

#endif

/*
 * Private to chat.c, chat_write.c and calls.c: what a row of chat templates is.
 */
#ifndef RT_CHAT_FORMS_H
#define RT_CHAT_FORMS_H

#include "runtime/serve/chat/chat.h"

/* Where the system's message goes, for models that have no such role. */
enum chat_system { OWN, FIRST_USER, LAST_USER };

struct chat_part {
	const char *before, *after;
};

struct chat_list {
	const char *before, *between, *after;
};

enum chat_tools_in {
	TOOLS_END_SYSTEM,	/* at the end of the system's message */
	TOOLS_BEGIN_USER,	/* at the beginning of the user's first one */
	TOOLS_BEFORE_FIRST,	/* before the user's first one */
	TOOLS_BEFORE_USER,	/* before the user's last one */
};

/* How models are told of functions, call them, and are told what came of it. */
struct rt_call_form {
	/* before each call, or before all of them; NULL: an answer that begins
	 * with a brace is a call */
	const char *mark;
	bool list;		/* calls are a list of JSON */
	const char *arguments;	/* a call's member; its other one is `name` */
	/* around a name that stands before its arguments, which are all of the
	 * JSON, and before an id that may be there after the name; or NULL */
	const char *before_name, *after_name, *id;
	/* after each call that is in no list, and after all of them; or NULL */
	const char *closed, *ended;
	/* of answers that have to call in no list: after the last call, and
	 * between two; NULL: there is one */
	const char *after, *between;

	enum chat_tools_in tools_in;
	const char *system;	/* begins the system's message; or NULL */
	struct chat_list tools;
	int indent;		/* of tools as JSON; 0: they have one line */
	bool joined;		/* right after what the system says */
	bool bare;		/* of a tool the function alone */
	/* of a tool its name, its description and the schema of its parameters
	 * as a text, in place of JSON; before each of them, and after all */
	const char *heading[3], *ending;

	/* a message of the assistant that calls: what it says, unless it is
	 * dropped, and its calls */
	struct chat_part turn;
	bool says;
	const char *said;	/* after what it says */
	struct chat_list calls;
	bool with_id;

	/* results: in turns of their own, or those that follow each other in
	 * one */
	struct chat_part results;
	bool one_turn;
	bool goes_on;		/* the assistant's next turn begins with them */
	struct chat_list result; /* `between` two of a turn */
	bool quoted;		/* a result is a string of JSON */
	bool result_id;		/* its call's id is a member beside it */
	const char *result_after_id;	/* between that id and it; or NULL */
};

struct rt_chat {
	const char *name;
	const char *mark;	/* a token that no other family has, or NULL */
	const char *sign;	/* of a template in Jinja; NULL: the mark */
	const char *begin;	/* NULL: what the tokenizer puts before */
	enum chat_system system_in;
	struct chat_part system, user, assistant;
	const char *answer;	/* before the next answer */
	bool trims;		/* blanks around a message are left out */
	const struct rt_call_form *calls;	/* NULL: it has no tools */
	/* of models that read how much they are to think: what is after that
	 * word, which `begin` is before; or NULL */
	const char *after_effort;
	const char *reasoning;	/* the form that its answers have; or NULL */
	/* ends an answer; NULL: what is after messages of the assistant, which
	 * is else within answers */
	const char *ends;
};

#endif

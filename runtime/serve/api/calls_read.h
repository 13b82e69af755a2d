/*
 * Private to calls.c and calls_write.c: what is known of calls while the text
 * of an answer is read.
 */
#ifndef RT_CALLS_READ_H
#define RT_CALLS_READ_H

#include "runtime/serve/api/calls.h"
#include "runtime/serve/chat/chat_forms.h"

enum calls_state {
	SAYING,
	BEGINNING,		/* after a mark */
	ITEM,			/* before the brace of a call */
	NAME,			/* that stands before its arguments */
	KEY, IN_KEY, COLON, VALUE, IN_VALUE,
	NEXT,			/* after a member of a call */
	AFTER,			/* a call */
	CLOSED,			/* what is after a call, or a list of them */
};

/* Where in the text its name and its arguments are. */
struct call {
	size_t name_from, name_to, from, to;
	bool named, begun, over;	/* its arguments */
	bool written;
	size_t sent;		/* its arguments up to here */
};

struct rt_calls {
	const struct rt_call_form *f;
	const struct rt_tools *tools;
	enum calls_state state;
	size_t at;		/* bytes that were read */
	/* those from here on are neither said nor of a call yet */
	size_t kept;
	struct rt_text said;
	struct call *call;
	size_t n, cap, ended;
	/* of the call that is read: where its key or value begins, and what
	 * it is in */
	size_t from, key_to;
	size_t depth;
	bool quoted, escaped;
};

#endif

/*
 * Private to runtime/serve/http: what is answered at each path, however a
 * request came.
 */
#ifndef RT_PATHS_H
#define RT_PATHS_H

#include "runtime/serve/http/http.h"
#include "runtime/text.h"

struct rt_path;

/* What is known of a request before its body comes; headers may be NULL. */
struct rt_path_head {
	const char *method, *path;
	const char *type, *length, *coding, *authorization;
	int nlengths;		/* headers that say how long the body is */
	bool has_blank;		/* a header's name has one, or is empty */
	const char *expect;	/* 100-continue: it waits to send the body */
};

struct rt_path_call {
	struct rt_service *service;
	const struct rt_http_options *o;
	const struct rt_path *path;
	const char *rest;	/* of the path, after that of its row */
	struct rt_text body;
};

/* What is sent: a text, or what comes of a reply until it ends. */
struct rt_path_answer {
	unsigned status;
	const char *type;		/* of the content */
	const char *header, *value;	/* one more; or NULL */
	char id[RT_REPLY_ID_BYTES];	/* of the reply; or "" */
	struct rt_text text;
	struct rt_reply *reply;		/* who sends it leaves it; or NULL */
};

/* Finds the path; true: the request is refused before its body comes. */
bool rt_path_refuses(struct rt_path_call *c, const struct rt_path_head *h,
		     struct rt_path_answer *out);
/* Of a body that is larger than may be. */
void rt_path_too_large(const struct rt_path_call *c,
		       struct rt_path_answer *out);
/* The body has come; it may be the reply's after this. */
void rt_path_answer(struct rt_path_call *c, struct rt_path_answer *out);

#endif

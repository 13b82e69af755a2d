/*
 * A row for each path that is answered; see paths.h.
 */
#include "runtime/serve/http/paths.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/serve/http/metrics.h"

typedef void path_answer(struct rt_path_call *c, struct rt_path_answer *out);

static path_answer complete_text, complete_chat, tokenize, detokenize,
	list_models, show_model, show_health, show_metrics;

/* A path that ends in `/` is that of all that begin so. */
static const struct rt_path {
	const char *method, *path;
	bool with_key;
	path_answer *answer;
} paths[] = {
	{ "POST", "/v1/completions", true, complete_text },
	{ "POST", "/v1/chat/completions", true, complete_chat },
	{ "POST", "/tokenize", true, tokenize },
	{ "POST", "/detokenize", true, detokenize },
	{ "GET", "/v1/models", true, list_models },
	{ "GET", "/v1/models/", true, show_model },
	{ "GET", "/health", false, show_health },
	{ "GET", "/metrics", false, show_metrics },
};

#define NPATHS (sizeof paths / sizeof *paths)

static void
begin_json(struct rt_path_answer *out, unsigned status)
{
	*out = (struct rt_path_answer){ .status = status,
		.type = "application/json",
		.text.alloc = rt_alloc_or_libc(NULL) };
}

static void
set_error(struct rt_path_answer *out, unsigned status, const char *code,
	  const char *message)
{
	begin_json(out, status);
	rt_error_write(&out->text, status == 429 ? "rate_limit_error"
		       : status >= 500 ? "server_error"
		       : "invalid_request_error", code, message);
}

static void
set_failure(struct rt_path_answer *out, enum rt_status why,
	    const struct rt_error *err)
{
	set_error(out, why == RT_NOMEM ? 500 : 400, NULL, err->message);
}

/* ---- models, health and counts ---- */

static void
add_model(struct rt_text *t, const struct rt_path_call *c)
{
	rt_text_add(t, "{\"id\":");
	rt_text_string(t, rt_service_model(c->service));
	rt_text_add(t, ",\"object\":\"model\",\"created\":0,"
		    "\"owned_by\":\"llmc\",\"max_model_len\":%lld}",
		    (long long)rt_service_context(c->service));
}

static void
list_models(struct rt_path_call *c, struct rt_path_answer *out)
{
	begin_json(out, 200);
	rt_text_add(&out->text, "{\"object\":\"list\",\"data\":[");
	add_model(&out->text, c);
	rt_text_add(&out->text, "]}");
}

/* Whether the model has another name. */
static bool
refuses_model(const struct rt_path_call *c, const char *name,
	      struct rt_path_answer *out)
{
	const char *model = rt_service_model(c->service);
	struct rt_error err = { .message = "" };

	if (strcmp(name, model) == 0) {
		return false;
	}
	rt_fail(&err, RT_RANGE, RT_NOWHERE, "there is no model '%s': this is "
		"%s", rt_show_name(name).text, model);
	set_error(out, 404, "model_not_found", err.message);
	return true;
}

static void
show_model(struct rt_path_call *c, struct rt_path_answer *out)
{
	if (!refuses_model(c, c->rest, out)) {
		begin_json(out, 200);
		add_model(&out->text, c);
	}
}

static void
show_health(struct rt_path_call *c, struct rt_path_answer *out)
{
	bool ending = rt_service_is_ending(c->service);

	begin_json(out, ending ? 503 : 200);
	rt_text_add(&out->text, "{\"status\":\"%s\"}",
		    ending ? "ending" : "ok");
}

static void
show_metrics(struct rt_path_call *c, struct rt_path_answer *out)
{
	struct rt_service_counts counts = rt_service_counts(c->service);

	begin_json(out, 200);
	out->type = "text/plain; version=0.0.4";
	rt_metrics_write(&counts, &out->text);
}

/* ---- replies ---- */

static void
set_refusal(struct rt_path_answer *out, enum rt_submitted why,
	    const struct rt_error *err)
{
	switch (why) {
	case RT_SUBMIT_FULL:
		set_error(out, 429, "rate_limit_exceeded",
			  "the queue is full: try again");
		break;
	case RT_SUBMIT_ENDING:
		set_error(out, 503, NULL, "the service ends");
		break;
	case RT_SUBMIT_LONG:
		set_error(out, 400, "context_length_exceeded", err->message);
		break;
	case RT_SUBMIT_WRONG:
		set_error(out, 400, NULL, err->message);
		break;
	case RT_SUBMITTED:
	case RT_SUBMIT_FAILED:
		set_error(out, 500, NULL, err->message);
		break;
	}
	if (why == RT_SUBMIT_FULL || why == RT_SUBMIT_ENDING) {
		out->header = "Retry-After";
		out->value = "1";
	}
}

static void
set_reply(struct rt_path_answer *out, struct rt_reply *reply)
{
	begin_json(out, 200);
	out->reply = reply;
	memcpy(out->id, reply->id, sizeof out->id);
	if (reply->request.stream) {
		out->type = "text/event-stream";
		out->header = "Cache-Control";
		out->value = "no-cache";
	}
}

static void
complete(struct rt_path_call *c, bool chat, struct rt_path_answer *out)
{
	struct rt_service *s = c->service;
	struct rt_error err = { .message = "" };
	enum rt_submitted result;
	struct rt_reply *reply;
	struct rt_request q;
	enum rt_status status;

	status = rt_request_read(&q, chat, c->body.at, c->body.n,
				 rt_service_codec(s), &err);
	if (status != RT_OK) {
		set_failure(out, status, &err);
	}
	if (status != RT_OK || (q.model && refuses_model(c, q.model, out))) {
		rt_request_release(&q);
		return;
	}
	/* the client may go before its request does */
	q.model = NULL;
	q.body = c->body;
	c->body = (struct rt_text){ .alloc = q.body.alloc };
	result = rt_service_submit(s, &q, &reply, &err);
	if (result == RT_SUBMITTED) {
		set_reply(out, reply);
	} else {
		set_refusal(out, result, &err);
	}
}

static void
complete_text(struct rt_path_call *c, struct rt_path_answer *out)
{
	complete(c, false, out);
}

static void
complete_chat(struct rt_path_call *c, struct rt_path_answer *out)
{
	complete(c, true, out);
}

/* ---- tokens ---- */

static void
answer_tokens(struct rt_path_call *c, bool text, struct rt_path_answer *out)
{
	struct rt_service *s = c->service;
	struct rt_error err = { .message = "" };
	const char *model = NULL;
	struct rt_path_answer no;
	enum rt_status status;

	begin_json(out, 200);
	status = text ? rt_tokens_text(rt_service_codec(s), &c->body,
				       &out->text, &model, &err)
		: rt_tokens_of(rt_service_codec(s), rt_service_context(s),
			       &c->body, &out->text, &model, &err);
	if (status == RT_OK && !(model && refuses_model(c, model, &no))) {
		return;
	}
	rt_text_release(&out->text);
	if (status == RT_OK) {
		*out = no;
	} else {
		set_failure(out, status, &err);
	}
}

static void
tokenize(struct rt_path_call *c, struct rt_path_answer *out)
{
	answer_tokens(c, false, out);
}

static void
detokenize(struct rt_path_call *c, struct rt_path_answer *out)
{
	answer_tokens(c, true, out);
}

/* ---- requests ---- */

/* Takes as long for any wrong key of one length. */
static bool
has_key(const char *key, const char *given)
{
	static const char scheme[] = "Bearer ";
	size_t n = sizeof scheme - 1, i;
	unsigned differ = 0;

	if (!key) {
		return true;
	}
	if (!given || strncasecmp(given, scheme, n) != 0 ||
	    strlen(given + n) != strlen(key)) {
		return false;
	}
	for (i = 0; key[i]; i++) {
		differ |= (unsigned)(unsigned char)(key[i] ^ given[n + i]);
	}
	return differ == 0;
}

/* A media type has no case, and may have parameters. */
static bool
is_json(const char *type)
{
	static const char json[] = "application/json";
	size_t n = sizeof json - 1;

	return type && strncasecmp(type, json, n) == 0 &&
	       (!type[n] || strchr("; \t", type[n]));
}

/* The path after that of a row, or NULL: it is not of the row. */
static const char *
rest_of(const char *path, const struct rt_path *row)
{
	size_t n = strlen(row->path);

	return strncmp(path, row->path, n) != 0 ||
	       (path[n] && row->path[n - 1] != '/') ? NULL : path + n;
}

static bool
has_method(const char *method, const struct rt_path *row)
{
	return strcmp(method, row->method) == 0 ||
	       (strcmp(method, "HEAD") == 0 && strcmp(row->method, "GET") == 0);
}

/* NULL: there is none; *other is one with another method then, or NULL. */
static const struct rt_path *
find_path(const struct rt_path_head *h, const struct rt_path **other)
{
	size_t i;

	*other = NULL;
	for (i = 0; i < NPATHS; i++) {
		if (rest_of(h->path, &paths[i])) {
			*other = &paths[i];
			if (has_method(h->method, &paths[i])) {
				return &paths[i];
			}
		}
	}
	return NULL;
}

static void
set_nowhere(struct rt_path_answer *out, const char *path)
{
	struct rt_error err = { .message = "" };

	rt_fail(&err, RT_RANGE, RT_NOWHERE, "there is nothing at '%s': "
		"/v1/completions, /v1/chat/completions, /tokenize, "
		"/detokenize, /v1/models, /health and /metrics are there",
		rt_show_name(path).text);
	set_error(out, 404, NULL, err.message);
}

static void
set_other_method(struct rt_path_answer *out, const char *method)
{
	set_error(out, 405, NULL, strcmp(method, "GET") == 0
		  ? "this is asked with GET" : "this is asked with POST");
	out->header = "Allow";
	out->value = method;
}

/* Who waits for a word before he sends the body is told at once. */
static bool
is_too_large(const struct rt_path_call *c, const struct rt_path_head *h)
{
	unsigned long long most = (unsigned long long)c->o->body_bytes;
	bool waits = h->expect && strcasecmp(h->expect, "100-continue") == 0;

	return h->length && strtoull(h->length, NULL, 10) >
			    (waits ? most : most * RT_HTTP_DROPS);
}

/*
 * Where a proxy may see the end of a request elsewhere (RFC 9112, 5.1, 6.1 and
 * 6.3), what follows would be another request: its connection is closed.
 */
static bool
set_unclear(struct rt_path_answer *out, const struct rt_path_head *h)
{
	const char *why = h->nlengths > 1
		? "a request has one Content-Length or Transfer-Encoding, this "
		  "has several"
		: h->has_blank ? "a header's name has a blank, or is empty"
		: h->coding && strcasecmp(h->coding, "chunked") != 0
		? "the Transfer-Encoding of a request is chunked, or there is "
		  "none" : NULL;

	if (why) {
		set_error(out, 400, NULL, why);
		out->header = "Connection";
		out->value = "close";
	}
	return why;
}

bool
rt_path_refuses(struct rt_path_call *c, const struct rt_path_head *h,
		struct rt_path_answer *out)
{
	const struct rt_path *other;

	c->path = find_path(h, &other);
	if (set_unclear(out, h)) {
		return true;
	}
	if (!other) {
		set_nowhere(out, h->path);
	} else if (!c->path) {
		set_other_method(out, other->method);
	} else if (c->path->with_key && !has_key(c->o->key,
						 h->authorization)) {
		set_error(out, 401, "invalid_api_key", "the API key is "
			  "missing or wrong: Authorization: Bearer KEY");
		out->header = "WWW-Authenticate";
		out->value = "Bearer";
	} else if (is_too_large(c, h)) {
		rt_path_too_large(c, out);
	} else if (strcmp(c->path->method, "POST") == 0 && !is_json(h->type)) {
		set_error(out, 415, NULL, "a request is JSON: Content-Type: "
			  "application/json");
	} else {
		c->rest = rest_of(h->path, c->path);
		return false;
	}
	return true;
}

void
rt_path_too_large(const struct rt_path_call *c, struct rt_path_answer *out)
{
	struct rt_error err = { .message = "" };

	rt_fail(&err, RT_RANGE, RT_NOWHERE, "the request is too large: its "
		"body may have %lld bytes", (long long)c->o->body_bytes);
	set_error(out, 413, NULL, err.message);
}

void
rt_path_answer(struct rt_path_call *c, struct rt_path_answer *out)
{
	struct rt_error err = { .message = "" };

	/* readers look at a NUL after the last byte */
	rt_text_add(&c->body, "%s", "");
	if (c->body.failed) {
		set_failure(out, rt_no_memory(&err, NULL), &err);
	} else {
		c->path->answer(c, out);
	}
}

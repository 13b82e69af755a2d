/*
 * HTTP by GNU libmicrohttpd, which is loaded when a service begins, so that
 * programs start where it is missing.
 *
 * Each connection has a thread, which may wait: for a reply, or for the next
 * bytes of one.  Meanwhile it looks whether the client is still there.
 */
#define _GNU_SOURCE	/* POLLRDHUP */

#include "runtime/serve/http/http.h"

#include <microhttpd.h>

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/serve/http/metrics.h"

#define LIBRARY "libmicrohttpd.so.12"

#define FOR_CALLS(X) \
	X(MHD_start_daemon, struct MHD_Daemon *, (unsigned int, uint16_t, \
		MHD_AcceptPolicyCallback, void *, MHD_AccessHandlerCallback, \
		void *, ...)) \
	X(MHD_stop_daemon, void, (struct MHD_Daemon *)) \
	X(MHD_quiesce_daemon, MHD_socket, (struct MHD_Daemon *)) \
	X(MHD_get_daemon_info, const union MHD_DaemonInfo *, \
	  (struct MHD_Daemon *, enum MHD_DaemonInfoType, ...)) \
	X(MHD_get_connection_info, const union MHD_ConnectionInfo *, \
	  (struct MHD_Connection *, enum MHD_ConnectionInfoType, ...)) \
	X(MHD_set_connection_option, enum MHD_Result, \
	  (struct MHD_Connection *, enum MHD_CONNECTION_OPTION, ...)) \
	X(MHD_lookup_connection_value, const char *, \
	  (struct MHD_Connection *, enum MHD_ValueKind, const char *)) \
	X(MHD_create_response_from_buffer, struct MHD_Response *, \
	  (size_t, void *, enum MHD_ResponseMemoryMode)) \
	X(MHD_create_response_from_callback, struct MHD_Response *, \
	  (uint64_t, size_t, MHD_ContentReaderCallback, void *, \
	   MHD_ContentReaderFreeCallback)) \
	X(MHD_add_response_header, enum MHD_Result, \
	  (struct MHD_Response *, const char *, const char *)) \
	X(MHD_queue_response, enum MHD_Result, \
	  (struct MHD_Connection *, unsigned int, struct MHD_Response *)) \
	X(MHD_destroy_response, void, (struct MHD_Response *))

struct http_library {
	void *file;
#define X(name, type, arguments) type (*name) arguments;
	FOR_CALLS(X)
#undef X
};

static const struct http_symbol {
	const char *name;
	size_t at;
} symbols[] = {
#define X(name, type, arguments) { #name, offsetof(struct http_library, name) },
	FOR_CALLS(X)
#undef X
};

struct rt_http {
	struct http_library lib;
	struct rt_service *service;
	struct rt_http_options o;
	struct MHD_Daemon *daemon;
	int64_t port;
	_Atomic int64_t open;	/* requests whose reply is not sent yet */
};

/* One request, until its reply is sent. */
struct http_exchange {
	struct rt_http *http;
	struct MHD_Connection *connection;
	const struct http_route *route;
	const char *rest;	/* of the path, after the route's */
	struct rt_text body;
	struct rt_reply *reply;		/* a stream's, while it is sent */
};

typedef enum MHD_Result http_answer(struct http_exchange *x);

static http_answer complete_text, complete_chat, tokenize, detokenize,
	list_models, show_model, show_health, show_metrics;

/* A path that ends in `/` is that of all that begin so. */
static const struct http_route {
	const char *method, *path;
	bool with_key;
	http_answer *answer;
} routes[] = {
	{ "POST", "/v1/completions", true, complete_text },
	{ "POST", "/v1/chat/completions", true, complete_chat },
	{ "POST", "/tokenize", true, tokenize },
	{ "POST", "/detokenize", true, detokenize },
	{ "GET", "/v1/models", true, list_models },
	{ "GET", "/v1/models/", true, show_model },
	{ "GET", "/health", false, show_health },
	{ "GET", "/metrics", false, show_metrics },
};

#define NROUTES (sizeof routes / sizeof *routes)

/* ---- answers ---- */

struct http_header {
	const char *name, *value;
};

static enum MHD_Result
queue(struct http_exchange *x, unsigned status, struct MHD_Response *r,
      const char *type, struct http_header more)
{
	const struct http_library *l = &x->http->lib;
	enum MHD_Result result = MHD_NO;

	if (r) {
		l->MHD_add_response_header(r, "Content-Type", type);
		if (more.name) {
			l->MHD_add_response_header(r, more.name, more.value);
		}
		result = l->MHD_queue_response(x->connection, status, r);
		l->MHD_destroy_response(r);
	}
	return result;
}

static enum MHD_Result
send_text(struct http_exchange *x, unsigned status, struct rt_text *t,
	  const char *type, struct http_header more)
{
	struct MHD_Response *r = NULL;

	if (!t->failed) {
		r = x->http->lib.MHD_create_response_from_buffer(t->n, t->at,
			MHD_RESPMEM_MUST_COPY);
	}
	rt_text_release(t);
	return queue(x, status, r, type, more);
}

static enum MHD_Result
send_error(struct http_exchange *x, unsigned status, const char *code,
	   const char *message, struct http_header more)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };

	rt_error_write(&t, status == 429 ? "rate_limit_error" : status >= 500
		       ? "server_error" : "invalid_request_error", code,
		       message);
	return send_text(x, status, &t, "application/json", more);
}

static const struct http_header no_header = { NULL, NULL };

static void
add_model(struct rt_text *t, const struct http_exchange *x)
{
	rt_text_add(t, "{\"id\":");
	rt_text_string(t, rt_service_model(x->http->service));
	rt_text_add(t, ",\"object\":\"model\",\"created\":0,"
		    "\"owned_by\":\"llmc\",\"max_model_len\":%lld}",
		    (long long)rt_service_context(x->http->service));
}

static enum MHD_Result
list_models(struct http_exchange *x)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };

	rt_text_add(&t, "{\"object\":\"list\",\"data\":[");
	add_model(&t, x);
	rt_text_add(&t, "]}");
	return send_text(x, 200, &t, "application/json", no_header);
}

static enum MHD_Result
refuse_model(struct http_exchange *x, const char *name)
{
	struct rt_error err = { .message = "" };

	rt_fail(&err, RT_RANGE, RT_NOWHERE, "there is no model '%s': "
		"this is %s", rt_show_name(name).text,
		rt_service_model(x->http->service));
	return send_error(x, 404, "model_not_found", err.message, no_header);
}

static enum MHD_Result
show_model(struct http_exchange *x)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };

	if (strcmp(x->rest, rt_service_model(x->http->service)) != 0) {
		return refuse_model(x, x->rest);
	}
	add_model(&t, x);
	return send_text(x, 200, &t, "application/json", no_header);
}

static enum MHD_Result
show_health(struct http_exchange *x)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };

	rt_text_add(&t, "{\"status\":\"ok\"}");
	return send_text(x, 200, &t, "application/json", no_header);
}

static enum MHD_Result
show_metrics(struct http_exchange *x)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_service_counts c = rt_service_counts(x->http->service);

	rt_metrics_write(&c, &t);
	return send_text(x, 200, &t, "text/plain; version=0.0.4", no_header);
}

/* ---- replies ---- */

/*
 * A client that closed its side is gone: those of HTTP keep it open for the
 * reply.
 */
static bool
is_gone(void *user)
{
	struct http_exchange *x = user;
	const union MHD_ConnectionInfo *i;
	struct pollfd p = { .events = POLLRDHUP };

	i = x->http->lib.MHD_get_connection_info(x->connection,
		MHD_CONNECTION_INFO_CONNECTION_FD);
	p.fd = i ? i->connect_fd : -1;
	return poll(&p, 1, 0) != 0 &&
	       p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}

/* While a thread waits for a reply, its client owes nothing. */
static int64_t
take_bytes(struct http_exchange *x, struct rt_reply *reply, char *to,
	   size_t most)
{
	struct rt_http *h = x->http;
	int64_t n;

	h->lib.MHD_set_connection_option(x->connection,
		MHD_CONNECTION_OPTION_TIMEOUT, 0u);
	n = rt_service_take(h->service, reply, to, most, is_gone, x);
	h->lib.MHD_set_connection_option(x->connection,
		MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)h->o.timeout_s);
	return n;
}

static ssize_t
read_stream(void *user, uint64_t pos, char *to, size_t most)
{
	struct http_exchange *x = user;
	int64_t n = take_bytes(x, x->reply, to, most);

	(void)pos;
	return n > 0 ? (ssize_t)n : n == 0 ? MHD_CONTENT_READER_END_OF_STREAM
		: MHD_CONTENT_READER_END_WITH_ERROR;
}

static enum MHD_Result
send_stream(struct http_exchange *x, struct rt_reply *reply)
{
	struct MHD_Response *r;

	x->reply = reply;
	r = x->http->lib.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN,
		RT_HTTP_BLOCK, read_stream, x, NULL);
	return queue(x, 200, r, "text/event-stream",
		     (struct http_header){ "Cache-Control", "no-cache" });
}

static enum MHD_Result
send_whole(struct http_exchange *x, struct rt_reply *reply)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(NULL) };
	char block[RT_HTTP_BLOCK];
	bool failed;
	int64_t n;

	while ((n = take_bytes(x, reply, block, sizeof block)) > 0) {
		rt_text_bytes(&t, block, (size_t)n);
	}
	failed = rt_service_leave(x->http->service, reply);
	if (n < 0) {
		rt_text_release(&t);
		return MHD_NO;
	}
	return send_text(x, failed ? 500 : 200, &t, "application/json",
			 no_header);
}

static enum MHD_Result
refuse(struct http_exchange *x, enum rt_submitted why,
       const struct rt_error *err)
{
	static const struct http_header later = { "Retry-After", "1" };

	switch (why) {
	case RT_SUBMIT_FULL:
		return send_error(x, 429, "rate_limit_exceeded",
				  "the queue is full: try again", later);
	case RT_SUBMIT_ENDING:
		return send_error(x, 503, NULL, "the service ends", later);
	case RT_SUBMIT_LONG:
		return send_error(x, 400, "context_length_exceeded",
				  err->message, no_header);
	case RT_SUBMIT_WRONG:
		return send_error(x, 400, NULL, err->message, no_header);
	case RT_SUBMITTED:
	case RT_SUBMIT_FAILED:
		break;
	}
	return send_error(x, 500, NULL, err->message, no_header);
}

static enum MHD_Result
complete(struct http_exchange *x, bool chat)
{
	struct rt_service *s = x->http->service;
	struct rt_error err = { .message = "" };
	struct rt_request q;
	struct rt_reply *reply;
	enum rt_submitted result;
	enum rt_status status;

	rt_text_add(&x->body, "%s", "");
	status = x->body.failed ? rt_no_memory(&err, NULL)
		: rt_request_read(&q, chat, x->body.at, x->body.n,
				  rt_service_codec(s), &err);
	if (status == RT_OK && q.model &&
	    strcmp(q.model, rt_service_model(s)) != 0) {
		enum MHD_Result sent = refuse_model(x, q.model);

		rt_request_release(&q);
		return sent;
	}
	if (status != RT_OK) {
		if (!x->body.failed) {
			rt_request_release(&q);
		}
		return send_error(x, status == RT_NOMEM ? 500 : 400, NULL,
				  err.message, no_header);
	}
	/* the client may go before its request does */
	q.model = NULL;
	q.body = x->body;
	x->body = (struct rt_text){ .alloc = q.body.alloc };
	result = rt_service_submit(s, &q, &reply, &err);
	if (result != RT_SUBMITTED) {
		return refuse(x, result, &err);
	}
	return reply->request.stream ? send_stream(x, reply)
				     : send_whole(x, reply);
}

static enum MHD_Result
complete_text(struct http_exchange *x)
{
	return complete(x, false);
}

static enum MHD_Result
complete_chat(struct http_exchange *x)
{
	return complete(x, true);
}

/* ---- tokens ---- */

static enum MHD_Result
answer_tokens(struct http_exchange *x, bool text)
{
	struct rt_service *s = x->http->service;
	struct rt_text out = { .alloc = rt_alloc_or_libc(NULL) };
	struct rt_error err = { .message = "" };
	const char *model = NULL;
	enum MHD_Result sent;
	enum rt_status status;

	rt_text_add(&x->body, "%s", "");
	if (x->body.failed) {
		status = rt_no_memory(&err, NULL);
	} else if (text) {
		status = rt_tokens_text(rt_service_codec(s), &x->body, &out,
					&model, &err);
	} else {
		status = rt_tokens_of(rt_service_codec(s),
				      rt_service_context(s), &x->body, &out,
				      &model, &err);
	}
	if (status == RT_OK &&
	    (!model || strcmp(model, rt_service_model(s)) == 0)) {
		return send_text(x, 200, &out, "application/json", no_header);
	}
	sent = status == RT_OK ? refuse_model(x, model)
		: send_error(x, status == RT_NOMEM ? 500 : 400, NULL,
			     err.message, no_header);
	rt_text_release(&out);
	return sent;
}

static enum MHD_Result
tokenize(struct http_exchange *x)
{
	return answer_tokens(x, false);
}

static enum MHD_Result
detokenize(struct http_exchange *x)
{
	return answer_tokens(x, true);
}

/* ---- requests ---- */

static const char *
header_of(const struct http_exchange *x, const char *name)
{
	return x->http->lib.MHD_lookup_connection_value(x->connection,
		MHD_HEADER_KIND, name);
}

/* Takes as long for any wrong key of one length. */
static bool
has_key(const struct http_exchange *x)
{
	static const char scheme[] = "Bearer ";
	const char *key = x->http->o.key, *given;
	size_t n = sizeof scheme - 1, i;
	unsigned differ = 0;

	given = header_of(x, "Authorization");
	if (!key) {
		return true;
	}
	if (!given || strncmp(given, scheme, n) != 0 ||
	    strlen(given + n) != strlen(key)) {
		return false;
	}
	for (i = 0; key[i]; i++) {
		differ |= (unsigned)(unsigned char)(key[i] ^ given[n + i]);
	}
	return differ == 0;
}

/* The path after that of a route, or NULL: it is not of the route. */
static const char *
rest_of(const char *path, const struct http_route *route)
{
	size_t n = strlen(route->path);

	return strncmp(path, route->path, n) != 0 ||
	       (path[n] && route->path[n - 1] != '/') ? NULL : path + n;
}

/* The reason to refuse a request before its body comes, or MHD_YES. */
static bool
is_refused_early(struct http_exchange *x, const char *method, const char *path,
		 enum MHD_Result *result)
{
	const char *type = header_of(x, "Content-Type");
	const char *length = header_of(x, "Content-Length");
	const struct http_route *other = NULL;
	size_t i;

	for (i = 0; i < NROUTES && !x->route; i++) {
		if (rest_of(path, &routes[i])) {
			x->rest = rest_of(path, &routes[i]);
			other = &routes[i];
			x->route = strcmp(method, other->method) == 0 ||
				   (strcmp(method, "HEAD") == 0 &&
				    strcmp(other->method, "GET") == 0)
				? other : NULL;
		}
	}
	if (!other) {
		*result = send_error(x, 404, NULL, "there is nothing here: "
			"/v1/completions, /v1/chat/completions, /tokenize, "
			"/detokenize, /v1/models, /health and /metrics are "
			"there", no_header);
	} else if (!x->route) {
		*result = send_error(x, 405, NULL,
			strcmp(other->method, "GET") == 0
				? "this is asked with GET"
				: "this is asked with POST",
			(struct http_header){ "Allow", other->method });
	} else if (x->route->with_key && !has_key(x)) {
		*result = send_error(x, 401, "invalid_api_key",
			"the API key is missing or wrong: Authorization: Bearer KEY",
			(struct http_header){ "WWW-Authenticate", "Bearer" });
	} else if (length && strtoull(length, NULL, 10) >
		   (unsigned long long)x->http->o.body_bytes) {
		*result = send_error(x, 413, NULL, "the request is too large",
				     no_header);
	} else if (strcmp(x->route->method, "POST") == 0 &&
		   (!type || strncmp(type, "application/json", 16) != 0)) {
		*result = send_error(x, 415, NULL, "a request is JSON: "
			"Content-Type: application/json", no_header);
	} else {
		return false;
	}
	return true;
}

static enum MHD_Result
on_request(void *user, struct MHD_Connection *connection, const char *path,
	   const char *method, const char *version, const char *upload,
	   size_t *n, void **mine)
{
	struct rt_http *h = user;
	struct http_exchange *x = *mine;
	enum MHD_Result result = MHD_YES;

	(void)version;
	if (!x) {
		x = calloc(1, sizeof *x);
		if (!x) {
			return MHD_NO;
		}
		*x = (struct http_exchange){ .http = h,
			.connection = connection,
			.body.alloc = rt_alloc_or_libc(NULL) };
		*mine = x;
		atomic_fetch_add(&h->open, 1);
		is_refused_early(x, method, path, &result);
		return result;
	}
	if (*n > 0) {
		if (x->body.n + *n > (size_t)h->o.body_bytes) {
			return MHD_NO;
		}
		rt_text_bytes(&x->body, upload, *n);
		*n = 0;
		return MHD_YES;
	}
	return x->route->answer(x);
}

static void
on_end(void *user, struct MHD_Connection *connection, void **mine,
       enum MHD_RequestTerminationCode how)
{
	struct http_exchange *x = *mine;

	(void)user;
	(void)connection;
	(void)how;
	if (x) {
		if (x->reply) {
			rt_service_leave(x->http->service, x->reply);
		}
		rt_text_release(&x->body);
		atomic_fetch_sub(&x->http->open, 1);
		free(x);
	}
	*mine = NULL;
}

/* ---- life ---- */

static enum rt_status
load_library(struct http_library *l, struct rt_error *err)
{
	size_t i;

	l->file = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!l->file) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s is missing: "
			"install libmicrohttpd12", LIBRARY);
	}
	for (i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *f = dlsym(l->file, symbols[i].name);

		if (!f) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s has no "
				"%s", LIBRARY, symbols[i].name);
		}
		/* POSIX lets a data pointer hold a function's address */
		memcpy((char *)l + symbols[i].at, &f, sizeof f);
	}
	return RT_OK;
}

static void
start_daemon(struct rt_http *h, const struct addrinfo *a)
{
	unsigned flags = MHD_USE_THREAD_PER_CONNECTION |
			 MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
			 MHD_USE_ITC;

	if (a->ai_family == AF_INET6) {
		flags |= MHD_USE_IPv6;
	}
	h->daemon = h->lib.MHD_start_daemon(flags, (uint16_t)h->o.port, NULL,
		NULL, on_request, h,
		MHD_OPTION_SOCK_ADDR, a->ai_addr,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->o.clients,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)h->o.timeout_s,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)RT_HTTP_STACK,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)RT_HTTP_POOL,
		MHD_OPTION_NOTIFY_COMPLETED, on_end, h,
		MHD_OPTION_END);
}

static enum rt_status
listen_there(struct rt_http *h, struct rt_error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *a = NULL;
	const union MHD_DaemonInfo *info;
	char port[16];
	int e;

	snprintf(port, sizeof port, "%lld", (long long)h->o.port);
	e = getaddrinfo(h->o.host, port, &hints, &a);
	if (e != 0) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the host '%s' is "
			"not found: %s", rt_show_name(h->o.host).text,
			gai_strerror(e));
	}
	errno = 0;
	start_daemon(h, a);
	freeaddrinfo(a);
	if (!h->daemon) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "cannot listen on port "
			"%lld of %s: %s", (long long)h->o.port,
			rt_show_name(h->o.host).text, strerror(errno));
	}
	info = h->lib.MHD_get_daemon_info(h->daemon,
					  MHD_DAEMON_INFO_BIND_PORT);
	h->port = info ? info->port : h->o.port;
	return RT_OK;
}

enum rt_status
rt_http_open(struct rt_http **out, struct rt_service *s,
	     const struct rt_http_options *o, struct rt_error *err)
{
	struct rt_http *h = calloc(1, sizeof *h);
	enum rt_status status;

	*out = NULL;
	if (!h) {
		return rt_no_memory(err, NULL);
	}
	h->service = s;
	h->o = *o;
	status = load_library(&h->lib, err);
	if (status == RT_OK) {
		status = listen_there(h, err);
	}
	if (status != RT_OK) {
		rt_http_close(h);
		return status;
	}
	*out = h;
	return RT_OK;
}

int64_t
rt_http_port(const struct rt_http *h)
{
	return h->port;
}

void
rt_http_quiesce(struct rt_http *h)
{
	MHD_socket s = h->lib.MHD_quiesce_daemon(h->daemon);

	if (s != MHD_INVALID_SOCKET) {
		close(s);
	}
}

/* The library cuts off what it has not sent: that has five seconds. */
static void
wait_sent(struct rt_http *h)
{
	const struct timespec look = { 0, 10000000 };
	int i;

	for (i = 0; i < 500 && atomic_load(&h->open) > 0; i++) {
		nanosleep(&look, NULL);
	}
}

void
rt_http_close(struct rt_http *h)
{
	if (h->daemon) {
		wait_sent(h);
		h->lib.MHD_stop_daemon(h->daemon);
	}
	if (h->lib.file) {
		dlclose(h->lib.file);
	}
	free(h);
}

/*
 * HTTP by GNU libmicrohttpd, which is loaded when a service begins, so that
 * programs start where it is missing.
 *
 * Each connection has a thread, which may wait: for a reply, or for the next
 * bytes of one.  Meanwhile it looks whether the client is still there.
 */
#define _GNU_SOURCE	/* POLLRDHUP */

#include "runtime/serve/http/paths.h"

#include <microhttpd.h>

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

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
	X(MHD_get_connection_values, int, \
	  (struct MHD_Connection *, enum MHD_ValueKind, \
	   MHD_KeyValueIterator, void *)) \
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
	struct rt_path_call call;
	size_t nbody;			/* bytes of the body that have come */
	struct rt_reply *reply;		/* a stream's, while it is sent */
};

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

static struct MHD_Response *
stream(struct http_exchange *x, struct rt_reply *reply)
{
	x->reply = reply;
	return x->http->lib.MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, RT_HTTP_BLOCK, read_stream, x, NULL);
}

/* Takes a reply until it ends; false: its client has gone. */
static bool
take_all(struct http_exchange *x, struct rt_path_answer *a)
{
	char block[RT_HTTP_BLOCK];
	int64_t n;

	while ((n = take_bytes(x, a->reply, block, sizeof block)) > 0) {
		rt_text_bytes(&a->text, block, (size_t)n);
	}
	if (rt_service_leave(x->http->service, a->reply)) {
		a->status = 500;
	}
	return n == 0;
}

static enum MHD_Result
send_answer(struct http_exchange *x, struct rt_path_answer *a)
{
	const struct http_library *l = &x->http->lib;
	enum MHD_Result result = MHD_NO;
	struct MHD_Response *r = NULL;

	if (a->reply && a->reply->request.stream) {
		r = stream(x, a->reply);
	} else if (!a->reply || take_all(x, a)) {
		r = a->text.failed ? NULL
			: l->MHD_create_response_from_buffer(a->text.n,
				a->text.at, MHD_RESPMEM_MUST_COPY);
	}
	rt_text_release(&a->text);
	if (r) {
		l->MHD_add_response_header(r, "Content-Type", a->type);
		if (a->header) {
			l->MHD_add_response_header(r, a->header, a->value);
		}
		if (*a->id) {
			l->MHD_add_response_header(r, "X-Request-Id", a->id);
		}
		result = l->MHD_queue_response(x->connection, a->status, r);
		l->MHD_destroy_response(r);
	}
	return result;
}

/* ---- requests ---- */

static const char *
header_of(const struct http_exchange *x, const char *name)
{
	return x->http->lib.MHD_lookup_connection_value(x->connection,
		MHD_HEADER_KIND, name);
}

static enum MHD_Result
see_header(void *user, enum MHD_ValueKind kind, const char *name,
	   const char *value)
{
	struct rt_path_head *h = user;

	(void)kind;
	(void)value;
	h->nlengths += strcasecmp(name, "Content-Length") == 0 ||
		       strcasecmp(name, "Transfer-Encoding") == 0;
	h->has_blank = h->has_blank || !*name || strpbrk(name, " \t");
	return MHD_YES;
}

static enum MHD_Result
begin_request(struct http_exchange *x, const char *method, const char *path)
{
	struct rt_path_head h = { .method = method, .path = path,
		.type = header_of(x, "Content-Type"),
		.length = header_of(x, "Content-Length"),
		.coding = header_of(x, "Transfer-Encoding"),
		.authorization = header_of(x, "Authorization"),
		.expect = header_of(x, "Expect") };
	struct rt_path_answer a;

	x->http->lib.MHD_get_connection_values(x->connection, MHD_HEADER_KIND,
		see_header, &h);
	return rt_path_refuses(&x->call, &h, &a) ? send_answer(x, &a)
						 : MHD_YES;
}

/* The rest of a body that is too large is read, and dropped; false: there is
 * too much of it. */
static bool
add_body(struct http_exchange *x, const char *from, size_t n)
{
	size_t most = (size_t)x->http->o.body_bytes;

	if (x->nbody + n > most) {
		x->call.body.n = 0;
	} else {
		rt_text_bytes(&x->call.body, from, n);
	}
	x->nbody += n;
	return x->nbody <= most * RT_HTTP_DROPS;
}

static enum MHD_Result
end_request(struct http_exchange *x)
{
	struct rt_path_answer a;

	if (x->nbody > (size_t)x->http->o.body_bytes) {
		rt_path_too_large(&x->call, &a);
	} else {
		rt_path_answer(&x->call, &a);
	}
	return send_answer(x, &a);
}

static enum MHD_Result
on_request(void *user, struct MHD_Connection *connection, const char *path,
	   const char *method, const char *version, const char *upload,
	   size_t *n, void **mine)
{
	struct rt_http *h = user;
	struct http_exchange *x = *mine;

	(void)version;
	if (!x) {
		x = calloc(1, sizeof *x);
		if (!x) {
			return MHD_NO;
		}
		*x = (struct http_exchange){ .http = h,
			.connection = connection,
			.call = { .service = h->service, .o = &h->o,
				  .body.alloc = rt_alloc_or_libc(NULL) } };
		*mine = x;
		atomic_fetch_add(&h->open, 1);
		return begin_request(x, method, path);
	}
	if (*n > 0) {
		bool ok = add_body(x, upload, *n);

		*n = 0;
		return ok ? MHD_YES : MHD_NO;
	}
	return end_request(x);
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
		rt_text_release(&x->call.body);
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

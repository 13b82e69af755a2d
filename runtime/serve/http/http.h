/*
 * Private to runtime/serve: the service, spoken to by HTTP.
 */
#ifndef RT_HTTP_H
#define RT_HTTP_H

#include "runtime/serve/http/service.h"

struct rt_http;

#define RT_HTTP_STACK (256 << 10)	/* bytes, of a connection's thread */
#define RT_HTTP_POOL (32 << 10)		/* of what it receives and sends */
#define RT_HTTP_BLOCK 4096		/* of a stream, at a time */
/* Bodies that are too large are read up to so many times their size, so that
 * clients which do not look before all is sent are told, too. */
#define RT_HTTP_DROPS 16
/* Of a connection, beside the body of its request. */
#define RT_HTTP_CLIENT_BYTES (RT_HTTP_STACK + RT_HTTP_POOL + RT_HTTP_BLOCK)

struct rt_http_options {
	const char *host;	/* a name or an address */
	int64_t port;		/* 0: any that is free */
	const char *key;	/* that requests must have; NULL: none */
	int64_t clients;	/* connections at a time */
	int64_t body_bytes;	/* most of a request */
	int64_t timeout_s;	/* of a connection that says nothing */
};

enum rt_status rt_http_open(struct rt_http **out, struct rt_service *s,
			    const struct rt_http_options *o,
			    struct rt_error *err);
/* The port that it listens on. */
int64_t rt_http_port(const struct rt_http *h);
/* Takes no new connections. */
void rt_http_quiesce(struct rt_http *h);
void rt_http_close(struct rt_http *h);

#endif

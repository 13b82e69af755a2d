/*
 * Private to comm/: ranks of several hosts, by TCP alone.
 *
 * A rank needs only the address of the first rank. All connect there first, and
 * then each to each other. Messages have the host's byte order and layout: all
 * ranks run one program.
 */
#ifndef RT_TCP_H
#define RT_TCP_H

#include "runtime/comm/msg.h"
#include "runtime/comm/secret.h"

/* ---- sockets (tcp_socket.c) ------------------------------------------- */

/* As it is sent; IPv4 has the first four bytes. */
struct rt_tcp_address {
	uint8_t bytes[16];
	int32_t family;		/* 4, 6; 0: none */
	int32_t port;
};

struct rt_tcp_text {
	char text[64];
};

/* RT_IO: "cannot WHAT: " and what errno says. */
enum rt_status rt_tcp_refused(struct rt_error *err, const char *what);
struct rt_tcp_text rt_tcp_text(const struct rt_tcp_address *a);
bool rt_tcp_is_loopback(const struct rt_tcp_address *a);
/* Addresses of a host, by its name or number; returns how many, at most
 * `most`. */
int64_t rt_tcp_look_up(const char *host, struct rt_tcp_address *out,
		       int64_t most);
/* Addresses of this host, loopback last. */
int64_t rt_tcp_own_addresses(struct rt_tcp_address *out, int64_t most);
/* The address of this end of a connection, or of a listener; false: it has
 * none. */
bool rt_tcp_this_end(int fd, struct rt_tcp_address *out);
/* -1 and errno.  Family 0: on all addresses of the host, IPv6 too. */
int rt_tcp_listen(const struct rt_tcp_address *a, int backlog);
/* -1 and errno, ETIMEDOUT if it took too long. */
int rt_tcp_connect(const struct rt_tcp_address *a, double until_us);
/* The connection, and the address of its other end; or -1. */
int rt_tcp_accept(int listener, struct rt_tcp_address *from);
/* All of the bytes before then; else false and errno, 0 if the other end
 * closed. */
bool rt_tcp_read(int fd, void *at, size_t bytes, double until_us);
bool rt_tcp_write(int fd, const void *at, size_t bytes, double until_us);
int rt_tcp_left_ms(double until_us);

/* ---- meeting (tcp_meet.c) --------------------------------------------- */

/* What both ends of a connection share after they have authenticated. */
struct rt_tcp_session {
	uint8_t key[RT_SHA256_BYTES];
	bool caller;		/* this end has connected to the other */
	uint64_t said, heard;	/* verdicts sent and received */
};

/* A connection to another rank; fd is -1 for this rank itself. */
struct rt_tcp_end {
	int fd;
	struct rt_tcp_session session;
};

/* Connects to each rank; *checks: messages are to be authenticated. */
enum rt_status rt_tcp_meet(const struct rt_comm *c, struct rt_tcp_end *ends,
			   bool *checks, struct rt_error *err);
/* The key for messages that this end sends (`said`), or receives. */
void rt_tcp_message_key(const struct rt_tcp_session *s, bool said,
			uint8_t key[RT_SIPHASH_KEY]);

/* ---- messages (tcp.c) -------------------------------------------------- */

extern const struct rt_msg_calls rt_tcp_calls;

#endif

/*
 * tcp-meet.h - private to tcp-*.c: how ranks of several hosts come together.
 *
 * The first rank listens where the environment says; whoever comes is greeted,
 * says which rank of which plan it is and where it listens itself, and hears
 * where all others do.  Each connects to those below it, and once all have
 * told the first rank that they are done, it says go.
 *
 * Who listens speaks first: another program's port is left before anything
 * is sent there.  Whoever does not know the token of this meeting is a
 * stranger, and is turned away without a word.
 */
#ifndef RT_TCP_MEET_H
#define RT_TCP_MEET_H

#include "runtime/tcp.h"

#define RT_TCP_MAGIC 0x31706374636d6c6cu	/* "llmctcp1" */
/* So long one may take to say a few bytes. */
#define RT_TCP_SAY_US 5e6
/* So much later than the first rank the others give up, as it knows more. */
#define RT_TCP_SLACK_US 1e6

enum {
	/* of what is said while they meet, and of messages */
	RT_TCP_VERSION = 1,
	RT_TCP_STRANGERS = 64,
	RT_TCP_ADDRESSES = 32
};

struct rt_tcp_greeting {
	uint64_t magic;
	int64_t version;
	uint64_t key;
};

struct rt_tcp_hello {
	uint64_t magic, plan;
	int64_t version, abi, rank, size;
	struct rt_tcp_address at;
	char host[64];
};

/* With `ok` from the first rank the addresses of all follow. */
struct rt_tcp_verdict {
	uint64_t token;
	int64_t ok;
	char why[RT_ERROR_BYTES];
};

struct rt_tcp_call {
	uint64_t magic, token;
	int64_t rank;
};

struct rt_tcp_guest {
	int fd;			/* -1: free */
	double since;
	size_t heard;
	struct rt_tcp_hello hello;
};

struct rt_tcp_meeting {
	const struct rt_comm *c;
	struct rt_rendezvous at;
	double until_us;
	int *socks;		/* by rank */
	int listener;
	uint64_t token;
	char where[352];	/* "node1:29500 (LLMC_RENDEZVOUS)" */
	struct rt_tcp_hello own;
	struct rt_tcp_address *table;	/* by rank, where they listen */
	/* of the first rank alone */
	struct rt_tcp_hello *hellos;	/* by rank */
	/* that have not said who they are */
	struct rt_tcp_guest guests[RT_TCP_STRANGERS];
	struct pollfd *polls;
	int64_t told;		/* that know that there is no run */
};

/* ---- what both say (tcp-meet.c) --------------------------------------- */

enum rt_status rt_tcp_refused(struct rt_error *err, const char *what);
/* NULL: all is well. */
struct rt_tcp_verdict rt_tcp_verdict_of(const struct rt_tcp_meeting *m,
					const struct rt_error *why);
enum rt_status rt_tcp_say_ended(const struct rt_tcp_meeting *m, int64_t rank,
				struct rt_error *err);

/* ---- a file that says where (tcp-place.c) ----------------------------- */

/* It comes whole, under its name, or not at all. */
enum rt_status rt_tcp_place_write(const struct rt_tcp_meeting *m,
				  int64_t port, struct rt_error *err);
/* How many addresses it names; 0: there is none, or no such file yet. */
int64_t rt_tcp_place_read(struct rt_tcp_meeting *m,
			  struct rt_tcp_address *out);
/* Only its own: the next run's may have come in its place. */
void rt_tcp_place_remove(const struct rt_tcp_meeting *m);

/* ---- the first rank, and the others (tcp-host.c, tcp-visit.c) --------- */

enum rt_status rt_tcp_host(struct rt_tcp_meeting *m, struct rt_error *err);
enum rt_status rt_tcp_visit(struct rt_tcp_meeting *m, struct rt_error *err);

#endif

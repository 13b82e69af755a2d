/*
 * Private to comm/tcp/: how ranks of several hosts meet.
 *
 * The first rank listens where the environment says. Each other rank connects,
 * is greeted, sends which rank of which plan it is and where it listens itself,
 * and gets the addresses of all. Each connects to all ranks below it; once all
 * have reported to the first rank that they are done, it lets them start.
 *
 * The listener sends first, so nothing is ever sent to another program that
 * listens at that port.  Both ends of a connection draw a random number, and
 * prove by a code over both numbers, and over all that was sent, that they know
 * the job's secret: so what was recorded on one connection is useless on
 * another.  Without a secret the key is public, and the same codes find only
 * mistakes. A connection that proves nothing is closed, with no effect on the
 * others.
 */
#ifndef RT_TCP_MEET_H
#define RT_TCP_MEET_H

#include <poll.h>

#include "runtime/comm/tcp/tcp.h"

#define RT_TCP_MAGIC 0x31706374636d6c6cu	/* "llmctcp1" */
/* "on" or "off": whether messages are authenticated; by default if there is a
 * secret. */
#define RT_TCP_CHECKS "LLMC_MESSAGE_SUMS"
/* How long the other end may take to send a few bytes. */
#define RT_TCP_SAY_US 5e6
/* The others give up so much later than the first rank, as it knows more. */
#define RT_TCP_SLACK_US 1e6

enum {
	/* of the meeting and of messages */
	RT_TCP_VERSION = 2,
	RT_TCP_GUESTS = 256,
	RT_TCP_ADDRESSES = 32,
	RT_TCP_REPORTS = 16
};

/* The first three fields are the same in all versions. */
struct rt_tcp_greeting {
	uint64_t magic;
	int64_t version;
	uint64_t key;		/* of the meeting; not secret */
	int64_t rank;
	int64_t loopback;	/* other hosts cannot reach it */
	uint8_t nonce[RT_SHA256_BYTES];
};

/* The first three fields are the same in all versions. */
struct rt_tcp_hello {
	uint64_t magic;
	int64_t version, rank;
	uint64_t plan;
	int64_t abi, size;
	int64_t checks;		/* messages are to be authenticated */
	struct rt_tcp_address at;
	char host[64];
	uint8_t nonce[RT_SHA256_BYTES];
	uint8_t proof[RT_SHA256_BYTES];
};

/* With `ok` from the first rank, the addresses of all may follow. */
struct rt_tcp_verdict {
	int64_t ok;
	uint64_t token;		/* of the meeting; sent by the first rank */
	char why[RT_ERROR_BYTES];
	uint8_t proof[RT_SHA256_BYTES];	/* of what follows, too */
};

/* A connection that has not been authenticated. */
struct rt_tcp_guest {
	int fd;			/* -1: free */
	double since;
	size_t heard;
	bool whole;		/* its hello is complete, and authenticated */
	struct rt_tcp_address from;
	struct rt_tcp_greeting greeting;
	struct rt_tcp_hello hello;
	struct rt_tcp_session session;
};

struct rt_tcp_meeting {
	const struct rt_comm *c;
	struct rt_rendezvous at;
	double until_us;
	struct rt_tcp_end *ends;	/* by rank */
	int listener;
	bool loopback;		/* the first rank listens at loopback alone */
	uint64_t token;
	char where[352];	/* "node1:29500 (LLMC_RENDEZVOUS)" */
	struct rt_secret secret;
	uint8_t key[RT_SHA256_BYTES];	/* for the proofs of this moment */
	struct rt_tcp_hello own;
	struct rt_tcp_address *table;	/* by rank, its address */
	struct rt_tcp_guest *guests;
	struct pollfd *polls;	/* of ranks, the listener and guests */
	int64_t turned_away;
	double reported; /* when a rejected connection was last reported */
	/* what the last rejected one sent, and why it was rejected */
	char last_away[512];
	/* of the first rank alone */
	struct rt_tcp_hello *hellos;	/* by rank */
	int64_t notified;	/* ranks that know that there is no run */
};

/* ---- authentication (tcp_proof.c) -------------------------------------- */

/* Draws the nonces and keys of this rank; RT_IO: the system has no
 * randomness. */
enum rt_status rt_tcp_keys(struct rt_tcp_meeting *m, struct rt_error *err);
/* Proofs from now on use the token of this meeting. */
void rt_tcp_key_of_token(struct rt_tcp_meeting *m);
/* Sends a verdict; NULL: all is well. To a rank that has been authenticated, it
 * has a code over `more` as well. */
bool rt_tcp_send_verdict(struct rt_tcp_meeting *m, int fd,
			 struct rt_tcp_session *s, const struct rt_error *why,
			 const void *more, size_t bytes, double until_us);
/* Receives what rt_tcp_send_verdict sent.  False and errno: nothing came, or
 * (EBADMSG) the sender lacks the secret.  `more` follows one that is ok. */
bool rt_tcp_read_verdict(int fd, struct rt_tcp_session *s,
			 struct rt_tcp_verdict *v, void *more, size_t bytes,
			 double until_us);
bool rt_tcp_send_greeting(const struct rt_tcp_meeting *m,
			  struct rt_tcp_guest *g);
void rt_tcp_prove(const struct rt_tcp_meeting *m,
		  const struct rt_tcp_greeting *g, struct rt_tcp_hello *h,
		  struct rt_tcp_session *s);
/* Whether the sender of the hello knows the secret; then starts the session. */
bool rt_tcp_proven(const struct rt_tcp_meeting *m, struct rt_tcp_guest *g);

/* ---- connections not yet authenticated (tcp_unproven.c) ------------------ */

/* Writes a line to this rank's report, in addition to its final error. */
void rt_tcp_report(const struct rt_tcp_meeting *m, const char *text);
enum rt_status rt_tcp_report_ended(const struct rt_tcp_meeting *m, int64_t rank,
				   struct rt_error *err);

/*
 * Waits until one of the first n of m->polls is ready, or a guest's hello is
 * complete, or `ms` have passed; meanwhile accepts, reads and closes guests. -1
 * and errno.
 */
int rt_tcp_guests_wait(struct rt_tcp_meeting *m, int64_t n, int ms);
/* Closes a guest; sends it the reason if it can use it, and reports it. */
void rt_tcp_reject(struct rt_tcp_meeting *m, struct rt_tcp_guest *g,
		   const struct rt_error *why);
void rt_tcp_guests_close(struct rt_tcp_meeting *m);

/* ---- the file that holds the address (tcp_place.c) -------------------- */

/* Appears complete, under its name, or not at all. */
enum rt_status rt_tcp_place_write(struct rt_tcp_meeting *m,
				  const struct rt_tcp_address *at,
				  struct rt_error *err);
/* How many addresses the file has; 0: `why` says why it cannot be used. */
int64_t rt_tcp_place_read(struct rt_tcp_meeting *m, struct rt_tcp_address *out,
			  char *why, size_t why_size);
/* Removes the file if it is this run's: the next run may have replaced it. */
void rt_tcp_place_remove(const struct rt_tcp_meeting *m);

/* ---- the first rank, and the others (tcp_host.c, tcp_join.c) --------- */

enum rt_status rt_tcp_host(struct rt_tcp_meeting *m, struct rt_error *err);
enum rt_status rt_tcp_join(struct rt_tcp_meeting *m, struct rt_error *err);

#endif

/*
 * tcp_meet.h - private to tcp-*.c: how ranks of several hosts come together.
 *
 * The first rank listens where the environment says; whoever comes is greeted,
 * says which rank of which plan it is and where it listens itself, and hears
 * where all others do.  Each connects to those below it, and once all have
 * told the first rank that they are done, it says go.
 *
 * Who listens speaks first: another program's port is left before anything
 * is sent there.  Of each connection both ends draw a number, and prove by a
 * sum over both, and over all that was said, that they know the job's secret;
 * so nothing that was heard on one connection is of use on another.  Without
 * a secret the key is everybody's, and the same sums find only mistakes.
 * Whoever proves nothing is turned away, and changes nothing for the others.
 */
#ifndef RT_TCP_MEET_H
#define RT_TCP_MEET_H

#include <poll.h>

#include "runtime/comm/tcp.h"

#define RT_TCP_MAGIC 0x31706374636d6c6cu	/* "llmctcp1" */
/* "on" or "off": sums of messages; with a secret, on is what is not said. */
#define RT_TCP_CHECKS "LLMC_MESSAGE_SUMS"
/* So long one may take to say a few bytes. */
#define RT_TCP_SAY_US 5e6
/* So much later than the first rank the others give up, as it knows more. */
#define RT_TCP_SLACK_US 1e6

enum {
	/* of what is said while they meet, and of messages */
	RT_TCP_VERSION = 2,
	RT_TCP_GUESTS = 256,
	RT_TCP_ADDRESSES = 32,
	RT_TCP_REPORTS = 16
};

/* The first three are so in each version. */
struct rt_tcp_greeting {
	uint64_t magic;
	int64_t version;
	uint64_t key;		/* of the meeting; no secret */
	int64_t rank;
	int64_t loopback;	/* other hosts cannot reach it */
	uint8_t nonce[RT_SHA256_BYTES];
};

/* The same of these three. */
struct rt_tcp_hello {
	uint64_t magic;
	int64_t version, rank;
	uint64_t plan;
	int64_t abi, size;
	int64_t checks;		/* messages have sums */
	struct rt_tcp_address at;
	char host[64];
	uint8_t nonce[RT_SHA256_BYTES];
	uint8_t proof[RT_SHA256_BYTES];
};

/* With `ok` from the first rank the addresses of all may follow. */
struct rt_tcp_verdict {
	int64_t ok;
	uint64_t token;		/* of the meeting; from the first rank */
	char why[RT_ERROR_BYTES];
	uint8_t proof[RT_SHA256_BYTES];	/* over what follows, too */
};

/* Who has come and has not been let in. */
struct rt_tcp_guest {
	int fd;			/* -1: free */
	double since;
	size_t heard;
	bool whole;		/* has said all, and proven it */
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
	bool loopback;		/* it listens there alone */
	uint64_t token;
	char where[352];	/* "node1:29500 (LLMC_RENDEZVOUS)" */
	struct rt_secret secret;
	uint8_t key[RT_SHA256_BYTES];	/* of the proofs that are due now */
	struct rt_tcp_hello own;
	struct rt_tcp_address *table;	/* by rank, where they listen */
	struct rt_tcp_guest *guests;
	struct pollfd *polls;	/* of ranks, the listener and guests */
	int64_t turned_away;
	double reported;	/* when the last of them was named */
	char last_away[512];	/* who the last said it was, and why */
	/* of the first rank alone */
	struct rt_tcp_hello *hellos;	/* by rank */
	int64_t told;		/* that know that there is no run */
};

/* ---- what both say (tcp_meet.c) --------------------------------------- */

enum rt_status rt_tcp_refused(struct rt_error *err, const char *what);
enum rt_status rt_tcp_say_ended(const struct rt_tcp_meeting *m, int64_t rank,
				struct rt_error *err);
/* A line of this rank's own, beside what it will end with. */
void rt_tcp_report(const struct rt_tcp_meeting *m, const char *text);

/* ---- proofs (tcp_proof.c) ---------------------------------------------- */

/* Draws the nonces and keys of this rank; RT_IO: there are none. */
enum rt_status rt_tcp_keys(struct rt_tcp_meeting *m, struct rt_error *err);
/* From now on proofs are those of this meeting's token. */
void rt_tcp_key_of_token(struct rt_tcp_meeting *m);
/* NULL: all is well.  With a rank's end the sum over `more` is this one's. */
bool rt_tcp_say(struct rt_tcp_meeting *m, int fd, struct rt_tcp_session *s,
		const struct rt_error *why, const void *more, size_t bytes,
		double until_us);
/*
 * What rt_tcp_say said; false and errno: nothing came, or (EBADMSG) it is not
 * from who knows the secret.  `more` follows a verdict that is ok.
 */
bool rt_tcp_hear(int fd, struct rt_tcp_session *s, struct rt_tcp_verdict *v,
		 void *more, size_t bytes, double until_us);
bool rt_tcp_greet(const struct rt_tcp_meeting *m, struct rt_tcp_guest *g);
void rt_tcp_prove(const struct rt_tcp_meeting *m,
		  const struct rt_tcp_greeting *g, struct rt_tcp_hello *h,
		  struct rt_tcp_session *s);
/* Whether the hello was made by who knows the secret; then the session. */
bool rt_tcp_proven(const struct rt_tcp_meeting *m, struct rt_tcp_guest *g);

/* ---- who comes (tcp_unproven.c) ------------------------------------------ */

/*
 * Waits until one of the first n of m->polls is ready, or a guest is whole, or
 * `ms` are over; meanwhile guests come, speak, and go.  -1 and errno.
 */
int rt_tcp_guests_wait(struct rt_tcp_meeting *m, int64_t n, int ms);
/* It is told why, if that is of use, and so is whoever reads this rank. */
void rt_tcp_turn_away(struct rt_tcp_meeting *m, struct rt_tcp_guest *g,
		      const struct rt_error *why);
void rt_tcp_guests_close(struct rt_tcp_meeting *m);

/* ---- a file that says where (tcp_place.c) ----------------------------- */

/* It comes whole, under its name, or not at all. */
enum rt_status rt_tcp_place_write(struct rt_tcp_meeting *m,
				  const struct rt_tcp_address *at,
				  struct rt_error *err);
/* How many addresses it names; 0: `why` says why it is of no use. */
int64_t rt_tcp_place_read(struct rt_tcp_meeting *m,
			  struct rt_tcp_address *out, char *why, size_t room);
/* Only its own: the next run's may have come in its place. */
void rt_tcp_place_remove(const struct rt_tcp_meeting *m);

/* ---- the first rank, and the others (tcp_host.c, tcp_join.c) --------- */

enum rt_status rt_tcp_host(struct rt_tcp_meeting *m, struct rt_error *err);
enum rt_status rt_tcp_visit(struct rt_tcp_meeting *m, struct rt_error *err);
/* Does a first rank wait there, whose meeting has that key? */
bool rt_tcp_is_alive(const struct rt_tcp_address *all, int64_t n, uint64_t key);

#endif

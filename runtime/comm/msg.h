/*
 * Private to comm/: ranks of several hosts, by messages.
 *
 * A carrier, MPI or TCP, only moves messages from one rank to another. What is
 * summed, in which order, and how long a rank waits is decided here.
 */
#ifndef RT_MSG_H
#define RT_MSG_H

#include <signal.h>

#include "runtime/comm/shm.h"

/* ---- the carrier (mpi.c, or mpi_none.c without MPI; tcp.c) -------------- */

/* A message that is being sent or received. */
struct rt_msg_post {
	void *handle; /* the carrier's; large enough to hold an MPI_Request */
	int64_t rank;		/* the other end */
	int64_t bytes;		/* once it is done: bytes received */
	bool busy, received;
};

/* This process as the carrier numbers it, and the largest valid tag. */
struct rt_msg_self {
	int64_t rank, size, most_tag;
};

/* LEFT: it has ended well, and nobody waits for it. BROKEN: bytes received from
 * it are not those that it sent. */
enum rt_msg_peer { RT_MSG_HERE, RT_MSG_LEFT, RT_MSG_DEAD, RT_MSG_BROKEN };

struct rt_msg_calls {
	/* Connects to the other ranks; RT_IO when that takes longer than the
	 * timeout. After a failure *lib may be set: parts of it are in use. */
	enum rt_status (*start)(void **lib, const struct rt_comm *c,
				struct rt_msg_self *self,
				struct rt_error *err);
	/* Tells the others that this rank ends; whether all did so within the
	 * timeout. */
	bool (*stop)(void *lib, double timeout_us);
	/* Ends without telling the others.  NULL: messages may still be under
	 * way, so their memory is never freed. */
	void (*drop)(void *lib);
	/* At most RT_MSG_MOST bytes, which must stay unchanged until the post
	 * is done. */
	enum rt_status (*send)(void *lib, const void *at, int64_t bytes,
			       int64_t rank, int64_t tag,
			       struct rt_msg_post *p, struct rt_error *err);
	enum rt_status (*recv)(void *lib, void *at, int64_t bytes,
			       int64_t rank, int64_t tag,
			       struct rt_msg_post *p, struct rt_error *err);
	/* Clears p->busy if the post is done. */
	enum rt_status (*test)(void *lib, struct rt_msg_post *p,
			       struct rt_error *err);
	/* The rank that has sent something with that tag; -1: none. */
	enum rt_status (*probe)(void *lib, int64_t tag, int64_t *rank,
				struct rt_error *err);
	/* The state of that rank; NULL: the carrier does not know it. */
	enum rt_msg_peer (*peer_state)(void *lib, int64_t rank);
	/* Sleeps until a message arrives, at most so long; NULL: cannot. */
	void (*await)(void *lib, int ms);
};

enum { RT_MSG_MOST = 1 << 30 };

/* NULL and RT_RANGE: this program was built without MPI. */
enum rt_status rt_mpi_calls_find(const struct rt_msg_calls **out,
				 struct rt_error *err);

/* ---- waiting (msg_wait.c) --------------------------------------------- */

/* Tags.  Those of a channel and microbatch begin at RT_TAG_SENT. */
enum {
	RT_TAG_LETTER, RT_TAG_DATA, RT_TAG_NOTICE, RT_TAG_QUEUED, RT_TAG_SENT
};

/* What a member of a group sends to all others at the start of a collective. */
struct rt_letter {
	uint64_t id;
	struct rt_event about;
	_Alignas(64) char mail[RT_MAIL_BYTES];
};

/* Sent to all other ranks by a rank that gives up. */
struct rt_notice {
	int64_t late;		/* it has waited longer than the timeout */
	int64_t said;		/* it has printed why */
	char why[RT_ERROR_BYTES];
};

struct rt_msg_sent {
	int64_t n, settled;
	struct {
		struct rt_msg_post *parts;
		int64_t nparts;
	} *at;			/* the last nmicrobatches, as a ring */
};

/* Messages to a rank: how many, and how many of them it has. */
struct rt_msg_queue {
	int64_t n, settled;
	struct rt_msg_kept {
		struct rt_msg_post post;
		char *bytes;
	} *at;			/* the last `depth`, as a ring */
};

struct rt_msg {
	const struct rt_msg_calls *calls;
	void *lib;
	bool started;
	bool over; /* some rank gave up: from now on nobody is waited for */
	int64_t under_way;	/* sends that may not have been received yet */
	unsigned nevents;	/* in all; event i lies at i % RT_EVENTS */
	struct rt_event events[RT_EVENTS];
	struct rt_letter own;
	struct rt_letter *letters;	/* by member */
	struct rt_msg_post *posts;	/* two for each member */
	int64_t nposts;		/* of the current posts */
	char *scratch;		/* packed elements that are sent and received */
	int64_t scratch_bytes;
	struct rt_msg_sent *sent;	/* by channel */
	struct rt_msg_queue *queues;	/* by rank */
	struct rt_notice last_words;
	int64_t told_by;	/* one more than whose these are; 0: its own */
	char *acc;
};

/* Starts an empty list of posts; the two after it add to it. */
void rt_msg_start_posts(struct rt_comm *c);
enum rt_status rt_msg_post_send(struct rt_comm *c, const void *at,
				int64_t bytes, int64_t rank, int64_t tag,
				struct rt_error *err);
enum rt_status rt_msg_post_receive(struct rt_comm *c, void *at, int64_t bytes,
				   int64_t rank, int64_t tag,
				   struct rt_error *err);
/* Waits until all posts of the list are done. */
enum rt_status rt_msg_wait_posts(struct rt_comm *c, const struct rt_activity *s,
				 const struct rt_group *g,
				 struct rt_error *err);
/* The same for any posts. */
enum rt_status rt_msg_wait_for(struct rt_comm *c, struct rt_msg_post *posts,
			       int64_t n, const struct rt_activity *s,
			       const struct rt_group *g, struct rt_error *err);
void rt_msg_note(struct rt_comm *c, const char *what, int64_t layer,
		 int64_t microbatch);
/* The last event that this rank recorded. */
struct rt_event rt_msg_event(const struct rt_comm *c);
/* Notifies all others, and waits a little until they have received it. */
void rt_msg_give_up(struct rt_comm *c, const char *why);
/* The same of what this rank has printed. */
void rt_msg_abort(struct rt_comm *c, const char *why);
bool rt_msg_heard(struct rt_comm *c, struct rt_heard *out);

/* ---- queues (msg_queue.c) --------------------------------------------- */

/* False: no memory; it is to be closed then, too. */
bool rt_msg_open_queues(struct rt_comm *c);
/* Waits until the other ranks have all messages; whether they do. */
bool rt_msg_settle_queues(struct rt_comm *c);
void rt_msg_close_queues(struct rt_comm *c);
enum rt_status rt_msg_put(struct rt_comm *c, const struct rt_activity *s,
			  int64_t rank, const void *at, int64_t bytes,
			  struct rt_error *err);
enum rt_status rt_msg_get(struct rt_comm *c, const struct rt_activity *s,
			  int64_t rank, void *at, int64_t most, int64_t *bytes,
			  struct rt_error *err);

/* ---- large collectives (msg_move.c) ----------------------------------- */

/* SUM, MAX and COPY of what is too large for letters. */
enum rt_status rt_msg_move(struct rt_comm *c, const struct rt_meeting *m,
			   struct rt_error *err);

#endif

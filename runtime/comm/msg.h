/*
 * msg.h - private to runtime/: ranks of several hosts, by messages.
 *
 * Whoever carries them, MPI or TCP, only takes messages from one rank to
 * another.  What is added up, in which order, and how long anybody waits is
 * decided here.
 */
#ifndef RT_MSG_H
#define RT_MSG_H

#include <signal.h>

#include "runtime/comm/shm.h"

/* ---- who carries them (mpi.c, or mpi_none.c without; tcp.c) ------------ */

/* A message under way. */
struct rt_msg_post {
	void *handle;		/* room for MPI's, which may be smaller */
	int64_t rank;		/* the other end */
	int64_t bytes;		/* when it is done: that came */
	bool busy, received;
};

/* Who this process is to the carrier, and the largest tag. */
struct rt_msg_self {
	int64_t rank, size, most_tag;
};

/*
 * LEFT: it has said farewell, and is not to be waited for.  BROKEN: what came
 * from it is not what it sent.
 */
enum rt_msg_peer { RT_MSG_HERE, RT_MSG_LEFT, RT_MSG_DEAD, RT_MSG_BROKEN };

struct rt_msg_calls {
	/*
	 * Meets the other ranks; RT_IO when that takes longer than the
	 * timeout.  After a failure *lib may be set: some of it is in use.
	 */
	enum rt_status (*start)(void **lib, const struct rt_comm *c,
				struct rt_msg_self *self,
				struct rt_error *err);
	/* Says farewell to the others; whether all came to that in time. */
	bool (*stop)(void *lib, double timeout_us);
	/*
	 * Ends without a farewell.  NULL: messages may still be under way, so
	 * their room stays until the process ends.
	 */
	void (*drop)(void *lib);
	/* At most RT_MSG_MOST bytes, which stay until the post is done. */
	enum rt_status (*send)(void *lib, const void *at, int64_t bytes,
			       int64_t rank, int64_t tag,
			       struct rt_msg_post *p, struct rt_error *err);
	enum rt_status (*recv)(void *lib, void *at, int64_t bytes,
			       int64_t rank, int64_t tag,
			       struct rt_msg_post *p, struct rt_error *err);
	/* Clears p->busy if it is done. */
	enum rt_status (*test)(void *lib, struct rt_msg_post *p,
			       struct rt_error *err);
	/* Who has sent something of that tag; -1: nobody. */
	enum rt_status (*probe)(void *lib, int64_t tag, int64_t *rank,
				struct rt_error *err);
	/* How that rank is; NULL: nobody knows. */
	enum rt_msg_peer (*look_at)(void *lib, int64_t rank);
	/* Sleeps until something has come, at most so long; or NULL. */
	void (*await)(void *lib, int ms);
};

enum { RT_MSG_MOST = 1 << 30 };

/* NULL and RT_RANGE: this program was built without. */
enum rt_status rt_mpi_calls_find(const struct rt_msg_calls **out,
				 struct rt_error *err);

/* ---- waiting (msg_wait.c) --------------------------------------------- */

/* Tags; of channel and microbatch they begin at RT_TAG_SENT. */
enum { RT_TAG_LETTER, RT_TAG_DATA, RT_TAG_NOTICE, RT_TAG_SENT };

/* What a member of a group tells all others when they meet. */
struct rt_letter {
	uint64_t id;
	struct rt_event about;
	_Alignas(64) char mail[RT_MAIL_BYTES];
};

/* A rank's last words. */
struct rt_notice {
	int64_t late;		/* it has waited too long */
	char why[RT_ERROR_BYTES];
};

struct rt_msg_sent {
	int64_t n, settled;
	struct {
		struct rt_msg_post *parts;
		int64_t nparts;
	} *at;			/* the last nmicrobatches, by turns */
};

struct rt_msg {
	const struct rt_msg_calls *calls;
	void *lib;
	bool started;
	bool over;		/* somebody gave up: nobody is waited for */
	int64_t under_way;	/* sends that may not have been taken yet */
	unsigned nevents;	/* ever; event i lies at i % RT_EVENTS */
	struct rt_event events[RT_EVENTS];
	struct rt_letter own;
	struct rt_letter *letters;	/* by member */
	struct rt_msg_post *posts;	/* two for each member */
	int64_t nposts;		/* of those at hand */
	char *room;		/* what goes out and comes in, packed */
	int64_t room_bytes;
	struct rt_msg_sent *sent;	/* by channel */
	struct rt_notice last_words;
	char *acc;
};

/* Forgets the posts at hand; then adds one. */
void rt_msg_begin(struct rt_comm *c);
enum rt_status rt_msg_put(struct rt_comm *c, const void *at, int64_t bytes,
			  int64_t rank, int64_t tag, struct rt_error *err);
enum rt_status rt_msg_get(struct rt_comm *c, void *at, int64_t bytes,
			  int64_t rank, int64_t tag, struct rt_error *err);
/* Until all posts at hand are done. */
enum rt_status rt_msg_end(struct rt_comm *c, const struct rt_scene *s,
			  const struct rt_group *g, struct rt_error *err);
/* The same of any. */
enum rt_status rt_msg_await(struct rt_comm *c, struct rt_msg_post *posts,
			    int64_t n, const struct rt_scene *s,
			    const struct rt_group *g, struct rt_error *err);
void rt_msg_note(struct rt_comm *c, const char *what, int64_t trip,
		 int64_t microbatch);
/* The last event that this rank noted. */
struct rt_event rt_msg_event(const struct rt_comm *c);
enum rt_status rt_msg_differ(struct rt_comm *c, const struct rt_scene *s,
			     const struct rt_event *theirs, int64_t rank,
			     struct rt_error *err);
/* Tells all others, and waits a little for them to take it. */
void rt_msg_give_up(struct rt_comm *c, const char *why);

/* ---- pieces that travel (msg_move.c) ---------------------------------- */

/* SUM, MAX and COPY of what is too large for letters. */
enum rt_status rt_msg_move(struct rt_comm *c, const struct rt_meeting *m,
			   struct rt_error *err);

#endif

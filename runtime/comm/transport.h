/*
 * Private to comm/ and device/: the functions that comm.c calls of a transport,
 * and what all transports share.
 */
#ifndef RT_TRANSPORT_H
#define RT_TRANSPORT_H

#include <stdatomic.h>

#include "runtime/comm/comm.h"
#include "runtime/error.h"
#include "runtime/text.h"

#define RT_NOWHERE ((struct rt_where){ NULL, NULL, -1 })

/* ---- groups (comm.c) ------------------------------------------------ */

/* Ranks that differ on `axes` only; of these, those of the stages in
 * `holders`. */
struct rt_group {
	int64_t axes, holders;
	int64_t n, me;		/* number of members; index of this rank */
	int64_t *ranks;		/* ascending */
	int64_t row;		/* the transport's number of its kind */
	uint32_t met;		/* how often it has met */
};

/* This rank's group of that kind; created at the first call. */
enum rt_status rt_group_find(struct rt_comm *c, int64_t axes, int64_t holders,
			     struct rt_group **out, struct rt_error *err);

/* Copies bytes of the first member of a group to all members. */
enum rt_status rt_comm_show_first(struct rt_comm *c, const struct rt_group *g,
				  void *at, int64_t bytes,
				  struct rt_error *err);

/* What a rank is doing: for messages, and to see that all members do the
 * same. */
struct rt_activity {
	const char *what;
	int64_t layer, microbatch;	/* -1: of none */
	uint64_t id;
};

/* A collective of a group; by dim, the pieces of each member. */
struct rt_meeting {
	struct rt_group *group;
	struct rt_activity activity;
	const struct rt_coll *coll;
	char *in, *out;
	const struct rt_meeting *next;	/* joined to the same call; or NULL */
};

/* ---- facts about a collective (collective.c) ---------------------------- */

/* The pieces that a rank contributes, or wants, by dim. */
void rt_coll_pieces(const struct rt_plan *p, const struct rt_coll *t,
		    const struct rt_spread *const *spreads, int64_t rank,
		    int64_t microbatch, const struct rt_pieces **out);
void rt_meeting_pieces(const struct rt_comm *c, const struct rt_meeting *m,
		       const struct rt_spread *const *spreads, int64_t rank,
		       const struct rt_pieces **out);
/* Bytes that a rank contributes. */
int64_t rt_meeting_bytes(const struct rt_comm *c, const struct rt_meeting *m,
			 int64_t rank);
/* Whether all members contribute and want the same pieces. */
bool rt_meeting_equal(const struct rt_comm *c, const struct rt_meeting *m);
/* The largest number of bytes that any member contributes, to all of them. */
int64_t rt_meeting_most(const struct rt_comm *c, const struct rt_meeting *m);
struct rt_part;
/* Runs it on what each member has shown; parts: scratch, one for each. */
enum rt_status rt_meeting_by_mail(struct rt_comm *c,
				  const struct rt_meeting *m,
				  struct rt_part *parts, char *acc,
				  struct rt_error *err);
/* Where the slice of a member begins, in elements of a chunk of n. */
int64_t rt_slice_at(int64_t member, int64_t members, int64_t n);
/* The same for the same plan, and different for another in all likelihood. */
uint64_t rt_plan_sum(const struct rt_plan *p);
/* Pages of zeros; NULL and errno if there are none. */
void *rt_private_pages(size_t bytes);

/* ---- transports (shm.c, msg_collective.c) ------------------------------- */

enum { RT_MAIL_BYTES = 16384 };

struct rt_heard {
	int64_t rank;		/* who told it */
	bool said;		/* and printed it before */
	const char *why;
};

struct rt_transport {
	const char *name;
	/* Maps the arena and connects to the other ranks. */
	enum rt_status (*open)(struct rt_comm *c, struct rt_error *err);
	void (*close)(struct rt_comm *c);
	/* A number for groups of that kind; -1: too many. */
	int64_t (*row)(struct rt_comm *c, int64_t axes, int64_t holders);
	/* Records what this rank begins to do. */
	void (*note)(struct rt_comm *c, const char *what, int64_t layer,
		     int64_t microbatch);
	/* Each member contributes `bytes` up to RT_MAIL_BYTES and finds those
	 * of the others at theirs[member], until the group meets again. */
	enum rt_status (*show)(struct rt_comm *c, struct rt_group *g,
			       const struct rt_activity *s, const void *mine,
			       int64_t bytes, const char **theirs,
			       struct rt_error *err);
	/* SUM, MAX and COPY */
	enum rt_status (*meet)(struct rt_comm *c, const struct rt_meeting *m,
			       struct rt_error *err);
	/* `bytes` at `at`, to or from that rank. */
	enum rt_status (*send)(struct rt_comm *c, const struct rt_meeting *m,
			       int64_t bytes, int64_t rank,
			       struct rt_error *err);
	enum rt_status (*recv)(struct rt_comm *c, const struct rt_meeting *m,
			       int64_t bytes, int64_t rank,
			       struct rt_error *err);
	/* Waits until all sends of the channel but the last copies - 1 have
	 * been received. */
	enum rt_status (*settle)(struct rt_comm *c, const struct rt_meeting *m,
				 struct rt_error *err);
	/* The same of all channels and all copies. */
	enum rt_status (*settle_all)(struct rt_comm *c,
				     const struct rt_activity *s,
				     struct rt_error *err);
	/* A message of a queue, to or from that rank. */
	enum rt_status (*put)(struct rt_comm *c, const struct rt_activity *s,
			      int64_t rank, const void *at, int64_t bytes,
			      struct rt_error *err);
	/* *bytes may be more than the most that it has copied. */
	enum rt_status (*get)(struct rt_comm *c, const struct rt_activity *s,
			      int64_t rank, void *at, int64_t most,
			      int64_t *bytes, struct rt_error *err);
	/* Tells all others why this rank gives up, which it has printed. */
	void (*abort)(struct rt_comm *c, const char *why);
	/* What a rank told when it gave up; false: none has so far. */
	bool (*heard)(struct rt_comm *c, struct rt_heard *out);
};

extern const struct rt_transport rt_shm, rt_by_mpi, rt_by_tcp;

struct rt_shm;
struct rt_msg;

struct rt_comm {
	const struct rt_plan *plan;
	struct rt_queues queues;
	struct rt_world world;
	double timeout_us;
	int report_fd;
	struct rt_variables variables;
	const volatile sig_atomic_t *end_asked;
	char *arena;
	int64_t arena_bytes;
	const struct rt_transport *via;
	struct rt_shm *shm;
	struct rt_msg *msg;
	struct rt_group *groups;
	int64_t ngroups;
	/* scratch: what each member of a group has shown */
	const char **theirs;
};

/* "rank 3 (dp=0 tp=1)", by value, for messages. */
struct rt_rank_text {
	char text[96];
};
struct rt_rank_text rt_rank_text(const struct rt_comm *c, int64_t rank);
/* ", layer 4, microbatch 2", or less */
struct rt_rank_text rt_activity_text(const struct rt_activity *s);
/* A list of ranks in a message: eight are named, the others counted. */
void rt_line_rank(struct rt_line *t, int64_t found, int64_t rank);
void rt_line_more_ranks(struct rt_line *t, int64_t found);
/* The pipeline's axis and this rank's place on it; the rank at another
 * place. */
int64_t rt_rank_at_pipe(const struct rt_plan *p, int64_t rank, int64_t pipe);

/* ---- pieces (comm_move.c) ----------------------------------------------- */

/* What a member has of each dim, and where that lies. `read`, if not NULL, is
 * called with each range that has been read. */
struct rt_part {
	const struct rt_pieces *dims[RT_MAX_DIMS];
	const char *at;
	void (*read)(void *user, const char *at, int64_t bytes);
	void *user;
};

/*
 * Of the elements that `dims` describe, writes the sum or maximum in the order
 * of parts, or a copy, to `out`; each is in some part. `acc` is RT_ACC_BYTES of
 * scratch.  `out` overlaps no part, except that a sum of equal dims may be in
 * place.
 */
enum { RT_ACC_BYTES = 32768 };
void rt_gather_parts(const struct rt_part *parts, int64_t n,
		     const struct rt_pieces *const *dims, int64_t ndims,
		     enum rt_elem elem, enum rt_coll_op op, char *out,
		     char *acc);
/* Copies bytes of a part, and calls its reader. */
void rt_copy_part(const struct rt_part *p, char *to, const char *from,
		  int64_t bytes);
int64_t rt_pieces_elems(const struct rt_pieces *const *dims, int64_t ndims);
bool rt_pieces_equal(const struct rt_pieces *a, const struct rt_pieces *b);

/* ---- numbers (reduce.c) ---------------------------------------------- */

/* Converts n elements to the type in which they are summed: f64, f32 or i32. */
void rt_widen(enum rt_elem e, void *restrict acc, const void *restrict from,
	      int64_t n);
/* acc = acc op from */
void rt_fold(enum rt_elem e, enum rt_coll_op op, void *restrict acc,
	     const void *restrict from, int64_t n);
/* Rounded once, to the nearest even. */
void rt_narrow(enum rt_elem e, void *restrict to, const void *restrict acc,
	       int64_t n);
/* The element that changes no other when folded with it. */
void rt_neutral(enum rt_elem e, enum rt_coll_op op, void *acc, int64_t n);
/* Bytes of an element while it is summed. */
int64_t rt_acc_bytes(enum rt_elem e);

#endif

/*
 * Private to comm/: pages that all ranks of a host share.
 *
 * Each rank's arena is a file in memory that the others map read-only. Beside
 * the arenas lies the shared segment: for each rank what it does, for each
 * group a slot where its members meet, mailboxes for small collectives, and a
 * post for each point-to-point transfer.
 */
#ifndef RT_SHM_H
#define RT_SHM_H

#include "runtime/comm/transport.h"

/* ---- doorbells (doorbell.c) ---------------------------------------------- */

/* A counter that one rank increments and others wait for (a futex). */
struct rt_doorbell {
	atomic_uint count, sleepers;
};

/* How often a waiting rank spins and yields before it sleeps. */
struct rt_patience {
	unsigned spins, yields;
};

/* The cores that a rank may run on, as a bit set. */
struct rt_core_set {
	unsigned char bytes[128];
};

void rt_cores_of(struct rt_core_set *c);
/* For ranks that may run on these cores. */
struct rt_patience rt_patience_of(const struct rt_core_set *const *sets,
				  int64_t n);
bool rt_doorbell_reached(struct rt_doorbell *b, unsigned want);
void rt_doorbell_ring(struct rt_doorbell *b);
/* Waits until the count has reached `want`, or some time; whether it has. */
bool rt_doorbell_await(struct rt_doorbell *b, unsigned want,
		       struct rt_patience p);
double rt_now_us(void);

/* ---- the segment (shm_layout.c) ----------------------------------------- */

enum {
	RT_ROWS = 64, /* kinds of groups: sets of axes and of holders */
	RT_EVENTS = 32,
	RT_EVENT_TEXT = 56
};

/* What a rank began to do, and when. */
struct rt_event {
	double at_us;
	int64_t layer, microbatch;
	char what[RT_EVENT_TEXT];
};

/* ", layer 4, microbatch 2", or less. */
struct rt_rank_text rt_event_text(const struct rt_event *e);
/* Two ranks of a group run different collectives. */
enum rt_status rt_event_mismatch(const struct rt_comm *c,
				 const struct rt_activity *s,
				 const struct rt_event *theirs, int64_t rank,
				 struct rt_error *err);

enum { RT_AWAY, RT_HERE, RT_LEFT };

struct rt_rank_slot {
	_Alignas(64) atomic_int state;
	atomic_uint nevents;	/* in all; event i lies at i % RT_EVENTS */
	_Atomic int64_t waits_for;	/* a rank + 1; 0: it does not wait */
	struct rt_event events[RT_EVENTS];
};

/*
 * A rank's slot in a group: which collective it has come to. Two entries take
 * turns: a rank that writes the next but one knows that all members have come
 * to the next one, and so have read this one.
 */
struct rt_meeting_slot {
	_Alignas(64) struct rt_doorbell doorbell;
	uint64_t ids[2];
};

/* A transfer, by channel, sender and microbatch. */
struct rt_post {
	_Alignas(64) struct rt_doorbell sent, taken;
	int64_t at, bytes;	/* in the sender's arena */
};

/* A queue between rank 0 and another: how many messages were put in it and
 * taken out.  Their bytes follow, `depth` times a number and the most. */
struct rt_queue {
	_Alignas(64) struct rt_doorbell sent, taken;
};

struct rt_segment {
	/* 0: no; 1: a rank is writing why; 2: it has written it */
	atomic_int given_up;
	int64_t who, dead;	/* ranks; dead: the one that died, or -1 */
	bool said;		/* `who` has printed it */
	char why[RT_ERROR_BYTES];
	/* the kind of group of each row; 0: free */
	_Atomic uint64_t keys[RT_ROWS];
};

struct rt_sent {
	int64_t n, settled;
	struct {
		struct rt_post *post;
		unsigned want;
		int64_t rank;	/* who receives it */
	} *at;			/* the last nmicrobatches, as a ring */
};

/* A rank of this host, this one included. */
struct rt_peer {
	struct rt_shm *shm;
	const char *arena;
	int64_t arena_bytes;
	/* a bit for each stretch of the arena that has been read */
	unsigned char *held;
};

struct rt_shm {
	struct rt_segment *segment;
	/* offsets in the segment */
	size_t segment_bytes, rank_slots, slots, mail, posts;
	size_t queues, down_bytes, up_bytes;	/* of a queue each */
	int64_t n, me;		/* ranks of this host */
	int64_t *rank_of;	/* by number on this host */
	int64_t *local_of;	/* by rank; -1: another host's */
	struct rt_peer *peers;	/* by number on this host */
	int lock_fd;		/* -1: alone */
	struct rt_patience patience;
	struct rt_sent *sent;	/* by channel */
	int64_t held_bytes;	/* limit of resident pages of other arenas */
	char *acc;
};

/* Computes the offsets and segment_bytes. */
void rt_segment_lay_out(struct rt_shm *s, const struct rt_plan *p,
			const struct rt_queues *q);
struct rt_rank_slot *rt_segment_slot(const struct rt_shm *s, int64_t local);
struct rt_meeting_slot *rt_segment_meeting(const struct rt_shm *s, int64_t row,
			     int64_t local);
char *rt_segment_letter(const struct rt_shm *s, int64_t row, int64_t local,
		   unsigned turn);
struct rt_post *rt_segment_board(const struct rt_shm *s,
				 const struct rt_plan *p, int64_t channel,
				 int64_t local, int64_t microbatch);
/* The queue between rank 0 and that rank, and the place of message i: its
 * bytes' number, and then they. */
struct rt_queue *rt_segment_queue(const struct rt_shm *s, int64_t local,
				  bool up);
int64_t *rt_segment_message(struct rt_queue *q, const struct rt_queues *of,
			    bool up, unsigned i);
/* The row of groups of that kind, the same on all ranks; -1: all are taken. */
int64_t rt_segment_row(struct rt_shm *s, int64_t axes, int64_t holders);

/* ---- failures (watch.c) ---------------------------------------------- */

/* What a rank waits for. */
struct rt_wait {
	struct rt_doorbell *doorbell;
	unsigned want;
	int64_t rank;		/* the rank that will ring it */
	const struct rt_activity *activity;
	const struct rt_group *group;	/* the group, of a barrier; or NULL */
};

enum rt_status rt_watch_wait(struct rt_comm *c, const struct rt_wait *w,
			     struct rt_error *err);
void rt_watch_note(struct rt_comm *c, const char *what, int64_t layer,
		   int64_t microbatch);
/* Reports that two ranks of a group run different collectives. */
enum rt_status rt_watch_mismatch(struct rt_comm *c, const struct rt_activity *s,
				 int64_t rank, struct rt_error *err);
/* Makes all other ranks fail; `dead` is the rank that died, or -1. */
void rt_watch_give_up(struct rt_comm *c, int64_t dead, bool said,
		      const char *why);
bool rt_watch_heard(struct rt_comm *c, struct rt_heard *out);
/* Marks this rank as alive until its process ends, in whatever way. */
enum rt_status rt_watch_enter(struct rt_comm *c, struct rt_error *err);

/* ---- queues (queue.c) -------------------------------------------------- */

enum rt_status rt_shm_put(struct rt_comm *c, const struct rt_activity *s,
			  int64_t rank, const void *at, int64_t bytes,
			  struct rt_error *err);
enum rt_status rt_shm_get(struct rt_comm *c, const struct rt_activity *s,
			  int64_t rank, void *at, int64_t most, int64_t *bytes,
			  struct rt_error *err);

/* ---- meeting (shm_meet.c) -------------------------------------------- */

/* Finds the ranks of this host and maps the segment and their arenas. */
enum rt_status rt_shm_meet(struct rt_comm *c, struct rt_error *err);

#endif

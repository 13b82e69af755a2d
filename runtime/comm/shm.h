/*
 * shm.h - private to runtime/: pages that all ranks of a host share.
 *
 * Each rank's arena is a file in memory that the others map to read.  Beside
 * them lies the hall: who is here, what each does, seats where groups meet,
 * mail boxes for small numbers, and posts for what is sent.
 */
#ifndef RT_SHM_H
#define RT_SHM_H

#include "runtime/comm/transport.h"

/* ---- bells (doorbell.c) -------------------------------------------------- */

/* A count that one rank raises and others wait for. */
struct rt_doorbell {
	atomic_uint count, sleepers;
};

/* Spins, yields, then sleeps. */
struct rt_patience {
	unsigned spins, yields;
};

/* Cores that a rank may run on, a bit each. */
struct rt_core_set {
	unsigned char bytes[128];
};

void rt_cores_of(struct rt_core_set *c);
/* For ranks that may run on these. */
struct rt_patience rt_patience_of(const struct rt_core_set *const *sets,
				  int64_t n);
bool rt_doorbell_count(struct rt_doorbell *b, unsigned want);
void rt_doorbell_ring(struct rt_doorbell *b);
/* Until it has rung, or some time; whether it has. */
bool rt_doorbell_await(struct rt_doorbell *b, unsigned want,
		       struct rt_patience p);
double rt_now_us(void);

/* ---- the hall (shm_layout.c) -------------------------------------------- */

enum {
	RT_ROWS = 64,		/* groups, by what they differ on */
	RT_EVENTS = 32,
	RT_EVENT_TEXT = 56
};

/* What a rank began to do, at some time. */
struct rt_event {
	double at_us;
	int64_t trip, microbatch;
	char what[RT_EVENT_TEXT];
};

enum { RT_AWAY, RT_HERE, RT_LEFT };

struct rt_desk {
	_Alignas(64) atomic_int state;
	atomic_uint nevents;	/* ever; event i lies at i % RT_EVENTS */
	_Atomic int64_t waits_for;	/* a rank + 1; 0: it does not */
	struct rt_event events[RT_EVENTS];
};

/*
 * Of a rank in a group: what it is about.  By turns: who writes the next but
 * one knows that all have come to the next, and so have read this one.
 */
struct rt_meeting_slot {
	_Alignas(64) struct rt_doorbell doorbell;
	uint64_t ids[2];
};

/* Of a channel, a sender and a microbatch. */
struct rt_post {
	_Alignas(64) struct rt_doorbell sent, taken;
	int64_t at, bytes;	/* in the sender's arena */
};

struct rt_segment {
	/* 0: all is well; 1: somebody writes why it is not; 2: has written */
	atomic_int given_up;
	int64_t who, dead;	/* ranks; dead: -1, or who died */
	char why[RT_ERROR_BYTES];
	/* what each row is for; 0: free */
	_Atomic uint64_t keys[RT_ROWS];
};

struct rt_sent {
	int64_t n, settled;
	struct {
		struct rt_post *post;
		unsigned want;
	} *at;			/* the last nmicrobatches, by turns */
};

/* Another rank of this host, or this one. */
struct rt_peer {
	struct rt_shm *shm;
	const char *arena;
	int64_t arena_bytes;
	unsigned char *held;	/* a bit for each stretch that was read */
};

struct rt_shm {
	struct rt_segment *segment;
	size_t segment_bytes, desks, slots, mail, posts; /* offsets in it */
	int64_t n, me;		/* ranks of this host */
	int64_t *rank_of;	/* by number on this host */
	int64_t *local_of;	/* by rank; -1: another host's */
	struct rt_peer *peers;	/* by number on this host */
	int lock_fd;		/* -1: alone */
	struct rt_patience patience;
	struct rt_sent *sent;	/* by channel */
	int64_t held_bytes;	/* of peers' pages, at most */
	char *acc;
};

/* Fills in the offsets and segment_bytes. */
void rt_segment_lay_out(struct rt_shm *s, const struct rt_plan *p);
struct rt_desk *rt_segment_slot(const struct rt_shm *s, int64_t local);
struct rt_meeting_slot *rt_segment_meeting(const struct rt_shm *s, int64_t row,
			     int64_t local);
char *rt_segment_letter(const struct rt_shm *s, int64_t row, int64_t local,
		   unsigned turn);
struct rt_post *rt_segment_board(const struct rt_shm *s,
				 const struct rt_plan *p, int64_t channel,
				 int64_t local, int64_t microbatch);
/* The row of groups of that kind, the same on all ranks; -1: no more. */
int64_t rt_segment_row(struct rt_shm *s, int64_t axes, int64_t holders);

/* ---- watching (watch.c) ---------------------------------------------- */

/* For what a rank waits. */
struct rt_wait {
	struct rt_doorbell *doorbell;
	unsigned want;
	int64_t rank;		/* who rings it */
	const struct rt_scene *scene;
	const struct rt_group *group;	/* that meets; or NULL */
};

enum rt_status rt_watch_wait(struct rt_comm *c, const struct rt_wait *w,
			     struct rt_error *err);
void rt_watch_note(struct rt_comm *c, const char *what, int64_t trip,
		   int64_t microbatch);
/* Two ranks of a group are at different things. */
enum rt_status rt_watch_differ(struct rt_comm *c, const struct rt_scene *s,
			       int64_t rank, struct rt_error *err);
/* All others shall fail; `dead` is who died, or -1. */
void rt_watch_give_up(struct rt_comm *c, int64_t dead, const char *why);
/* This rank is here until its process ends, however that comes. */
enum rt_status rt_watch_enter(struct rt_comm *c, struct rt_error *err);

/* ---- coming together (shm_meet.c) ------------------------------------ */

/* Finds the ranks of this host and maps the hall and their arenas. */
enum rt_status rt_shm_meet(struct rt_comm *c, struct rt_error *err);

#endif

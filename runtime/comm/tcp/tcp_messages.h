/*
 * Private to tcp.c, tcp_read.c and tcp_write.c: messages on their way, over a
 * connection to each other rank.
 */
#ifndef RT_TCP_MESSAGES_H
#define RT_TCP_MESSAGES_H

#include <stddef.h>

#include "runtime/comm/tcp/tcp.h"

enum {
	/* a letter fits in it */
	RT_TCP_SMALL_BYTES = 32768,
	/* of one connection, before the others are served */
	RT_TCP_TURN_BYTES = 4 << 20
};

_Static_assert(sizeof(struct rt_letter) <= RT_TCP_SMALL_BYTES,
	       "letters go at once");

/*
 * SMALL is followed by `bytes` bytes, GIVE by those of the offer with that id.
 * BYE is the last message of a rank that ends well, QUIT of one that ends
 * because another gave up.  OWN is never sent.
 */
enum tcp_kind { SMALL = 0x6c6c6d63, OFFER, WANT, GIVE, BYE, QUIT, OWN };

struct tcp_head {
	int64_t kind, tag, bytes, id;
	/* authentication code of the fields above; 0: messages have none */
	uint64_t sum;
};

/* A doubly linked ring. */
struct ring_link {
	struct ring_link *next, *last;
};

/* A posted send, or a posted buffer to receive into. */
struct request {
	struct ring_link all, queue;
	struct tcp_head head;
	char *at;
	/* bytes of the head, of what lies at `at`, and of the code */
	int64_t bytes, moved;
	int64_t summed; /* bytes at `at` that the code includes so far */
	struct rt_siphash hash;
	uint64_t sum;
	bool begun;
	int64_t got;		/* bytes received */
	bool done, ours; /* ours: made by this file, so nobody tests it */
};

/* Received before a buffer was posted: the whole message, or its offer. */
struct early {
	struct ring_link queue;
	struct tcp_head head;
	bool whole;		/* all of its bytes are here */
	struct request *claim;	/* the posted buffer that waits for the rest */
	struct request *from;	/* a send of this rank to itself */
	char at[];
};

/* Authentication of one direction of a connection. */
struct tcp_auth {
	uint8_t key[RT_SIPHASH_KEY];
	uint64_t count;		/* heads so far */
};

struct peer {
	int fd;
	bool dead, left, spoke;	/* spoke: the reason for its end is known */
	bool broken;		/* an authentication code was wrong */
	bool waits;		/* for the socket to become writable */
	/* wants: posted buffers without data */
	struct ring_link out, offers, wants, early;
	struct ring_link taken;	/* buffers whose data was asked for */
	struct tcp_head head;	/* the head that is being read, */
	int64_t heard;		/* bytes of it so far, */
	char *to;		/* then where its bytes go, */
	int64_t left_bytes, extra_bytes; /* and those beyond the buffer */
	int64_t sum_bytes;	/* then bytes of the code */
	uint64_t sum;
	struct rt_siphash hash;
	struct tcp_auth out_sums, in_sums;
	struct request *filled;
	struct early *kept;
};

struct rt_tcp {
	int64_t me, size, next_id;
	int poll_fd;
	bool checks;		/* messages are authenticated */
	struct peer *peers;
	struct ring_link all;	/* requests that are not freed yet */
};

#define RING_OF(type, member, l) \
	((struct type *)(void *)((char *)(l) - offsetof(struct type, member)))

static inline void
make_ring(struct ring_link *l)
{
	l->next = l->last = l;
}

/* Appends to a ring. */
static inline void
ring_append(struct ring_link *ring, struct ring_link *l)
{
	l->next = ring;
	l->last = ring->last;
	ring->last->next = l;
	ring->last = l;
}

static inline void
ring_remove(struct ring_link *l)
{
	l->next->last = l->last;
	l->last->next = l->next;
	make_ring(l);
}

/* ---- requests, and what is written (tcp_write.c) ---------------------- */

/* NULL: no memory. */
struct request *rt_tcp_request(struct rt_tcp *l, enum tcp_kind kind,
			       int64_t tag, int64_t bytes, void *at);
void rt_tcp_request_free(struct request *r);
void rt_tcp_request_finish(struct request *r, int64_t got);
/* The codes of a head and of the bytes after it differ in a first word, so that
 * one is never valid as the other. */
void rt_tcp_begin_sum(struct rt_siphash *h, const struct tcp_auth *s,
		      bool behind);
uint64_t rt_tcp_head_sum(const struct tcp_auth *s,
			 const struct tcp_head *head);
/* Bytes of the code after so many bytes. */
int64_t rt_tcp_sum_behind(const struct rt_tcp *l, int64_t bytes);
/* What is queued, as far as it goes without waiting. */
void rt_tcp_write_out(struct rt_tcp *l, struct peer *p);
void rt_tcp_queue(struct rt_tcp *l, struct peer *p, struct request *r);
/* Queues a head without bytes. */
bool rt_tcp_queue_head(struct rt_tcp *l, struct peer *p, enum tcp_kind kind,
		       int64_t tag, int64_t bytes, int64_t id);

/* ---- posted buffers, and what is read (tcp_read.c) -------------------- */

/* The first in the ring with that tag, or that id. */
struct request *rt_tcp_find(const struct ring_link *ring, int64_t tag,
			    int64_t id);
struct early *rt_tcp_find_early(const struct peer *p, int64_t tag);
/* A message that nobody has posted a buffer for; NULL: no memory. */
struct early *rt_tcp_keep(struct peer *p, const struct tcp_head *h);
void rt_tcp_drop_early(struct early *e);
/* A message larger than the buffer is an error, which the receiver finds by its
 * size. */
void rt_tcp_deliver(struct early *e, struct request *r);
/* Of a posted buffer: takes what came before, or waits for it. */
bool rt_tcp_match(struct rt_tcp *l, struct peer *p, struct request *r);
/* What has arrived, without waiting. */
void rt_tcp_read_in(struct rt_tcp *l, struct peer *p);

#endif

/*
 * Messages over one TCP connection to each other rank.
 *
 * Small messages are sent at once, after a head that describes them; a receiver
 * that has not posted a buffer yet keeps them. Large ones are offered, and sent
 * once the receiver has posted a buffer: so no rank holds more than it has
 * asked for, however far ahead another one is.  All pending reads and writes
 * make progress whenever this rank makes any call.
 *
 * Where messages are authenticated, each head has a code, and 8 bytes of
 * another follow the bytes after the head. Both include a counter, and the key
 * belongs to this connection and direction: so bytes that were changed, left
 * out, reordered or replayed are refused.
 */
#define _GNU_SOURCE	/* epoll_create1 */

#include "runtime/comm/tcp/tcp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	/* a letter fits in it */
	SMALL_BYTES = 32768,
	/* of one connection, before the others are served */
	TURN_BYTES = 4 << 20,
	/* authenticated at once, while they are in a cache */
	SUM_AT_ONCE = 1 << 18,
	EVENTS = 64
};

_Static_assert(sizeof(struct rt_letter) <= SMALL_BYTES, "letters go at once");

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

#define OF(type, member, l) \
	((struct type *)(void *)((char *)(l) - offsetof(struct type, member)))

static void
make_ring(struct ring_link *l)
{
	l->next = l->last = l;
}

/* Appends to a ring. */
static void
ring_append(struct ring_link *ring, struct ring_link *l)
{
	l->next = ring;
	l->last = ring->last;
	ring->last->next = l;
	ring->last = l;
}

static void
ring_remove(struct ring_link *l)
{
	l->next->last = l->last;
	l->last->next = l->next;
	make_ring(l);
}

static struct request *
new_request(struct rt_tcp *l, enum tcp_kind kind, int64_t tag, int64_t bytes,
	    void *at)
{
	struct request *r = calloc(1, sizeof(*r));

	if (r) {
		r->head = (struct tcp_head){ kind, tag, bytes, l->next_id++,
					     0 };
		r->at = at;
		r->bytes = bytes;
		make_ring(&r->queue);
		ring_append(&l->all, &r->all);
	}
	return r;
}

static void
free_request(struct request *r)
{
	ring_remove(&r->all);
	ring_remove(&r->queue);
	free(r);
}

static void
finish_request(struct request *r, int64_t got)
{
	ring_remove(&r->queue);
	r->got = got;
	r->done = true;
	if (r->ours) {
		free_request(r);
	}
}

/* ---- authentication ---- */

/* The codes of a head and of the bytes after it differ in a first word, so that
 * one is never valid as the other. */
static void
begin_sum(struct rt_siphash *h, const struct tcp_auth *s, bool behind)
{
	uint64_t what = s->count * 2 + behind;

	rt_siphash_begin(h, s->key);
	rt_siphash_add(h, &what, sizeof(what));
}

static uint64_t
head_sum(const struct tcp_auth *s, const struct tcp_head *head)
{
	struct rt_siphash h;

	begin_sum(&h, s, false);
	rt_siphash_add(&h, head, offsetof(struct tcp_head, sum));
	return rt_siphash_end(&h);
}

/* Bytes of the code after so many bytes. */
static int64_t
sum_behind(const struct rt_tcp *l, int64_t bytes)
{
	return l->checks && bytes > 0 ? (int64_t)sizeof(uint64_t) : 0;
}

/* The request is the next to be sent. */
static void
begin_sums(const struct rt_tcp *l, struct peer *p, struct request *r)
{
	r->begun = true;
	if (l->checks) {
		r->head.sum = head_sum(&p->out_sums, &r->head);
		begin_sum(&r->hash, &p->out_sums, true);
		p->out_sums.count++;
	}
}

/* How much of what follows the head may be sent now; `body` bytes of it have
 * been. */
static int64_t
sum_some(const struct rt_tcp *l, struct request *r, int64_t body)
{
	int64_t n = r->bytes - r->summed;

	if (!l->checks || r->bytes == 0) {
		return r->bytes;
	}
	if (r->summed <= body && n > 0) {
		n = n < SUM_AT_ONCE ? n : SUM_AT_ONCE;
		rt_siphash_add(&r->hash, r->at + r->summed, (size_t)n);
		r->summed += n;
		if (r->summed == r->bytes) {
			r->sum = rt_siphash_end(&r->hash);
		}
	}
	return r->summed;
}

/* ---- writing ---- */

static void
lose_peer(struct rt_tcp *l, struct peer *p)
{
	if (p->fd >= 0) {
		epoll_ctl(l->poll_fd, EPOLL_CTL_DEL, p->fd, NULL);
		close(p->fd);
		p->fd = -1;
		p->dead = !p->left;
	}
}

static void
watch(struct rt_tcp *l, struct peer *p, bool waits)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = p };

	if (p->waits != waits) {
		p->waits = waits;
		e.events |= waits ? EPOLLOUT : 0;
		epoll_ctl(l->poll_fd, EPOLL_CTL_MOD, p->fd, &e);
	}
}

/* Sends what is left of a head, the bytes after it, and the code. */
static ssize_t
write_some(const struct rt_tcp *l, struct peer *p, struct request *r)
{
	int64_t head = sizeof(r->head), body = r->moved - head, ready, after;
	struct iovec v[3];
	struct msghdr m = { .msg_iov = v };

	if (!r->begun) {
		begin_sums(l, p, r);
	}
	if (body < 0) {
		v[m.msg_iovlen++] = (struct iovec){
			(char *)&r->head + r->moved, (size_t)-body };
		body = 0;
	}
	ready = sum_some(l, r, body);
	if (body < ready) {
		v[m.msg_iovlen++] = (struct iovec){ r->at + body,
						    (size_t)(ready - body) };
	}
	if (ready == r->bytes && sum_behind(l, r->bytes) > 0) {
		after = body > r->bytes ? body - r->bytes : 0;
		v[m.msg_iovlen++] = (struct iovec){ (char *)&r->sum + after,
			sizeof(r->sum) - (size_t)after };
	}
	return sendmsg(p->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
write_out(struct rt_tcp *l, struct peer *p)
{
	int64_t moved = 0;

	while (p->fd >= 0 && p->out.next != &p->out && moved < TURN_BYTES) {
		struct request *r = OF(request, queue, p->out.next);
		ssize_t n = write_some(l, p, r);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			break;
		}
		if (n < 0) {
			/* what arrived before may still be read */
			watch(l, p, false);
			return;
		}
		moved += n;
		r->moved += n;
		if (r->moved == (int64_t)sizeof(r->head) + r->bytes +
				sum_behind(l, r->bytes)) {
			finish_request(r, r->bytes);
		}
	}
	if (p->fd >= 0) {
		watch(l, p, p->out.next != &p->out);
	}
}

static void
queue_out(struct rt_tcp *l, struct peer *p, struct request *r)
{
	ring_remove(&r->queue);
	ring_append(&p->out, &r->queue);
	if (!p->waits) {
		write_out(l, p);
	}
}

/* Queues a head without bytes. */
static bool
queue_head(struct rt_tcp *l, struct peer *p, enum tcp_kind kind, int64_t tag,
	   int64_t bytes, int64_t id)
{
	struct request *r = new_request(l, kind, tag, 0, NULL);

	if (r) {
		r->head.bytes = bytes;
		r->head.id = id;
		r->ours = true;
		queue_out(l, p, r);
	}
	return r != NULL;
}

/* ---- posted buffers and early messages ---- */

/* The first in the ring with that tag, or that id. */
static struct request *
find_request(const struct ring_link *ring, int64_t tag, int64_t id)
{
	const struct ring_link *i;

	for (i = ring->next; i != ring; i = i->next) {
		struct request *r = OF(request, queue, i);

		if (id < 0 ? r->head.tag == tag : r->head.id == id) {
			return r;
		}
	}
	return NULL;
}

static struct early *
find_early(const struct peer *p, int64_t tag)
{
	const struct ring_link *i;

	for (i = p->early.next; i != &p->early; i = i->next) {
		struct early *e = OF(early, queue, i);

		if (e->head.tag == tag && !e->claim) {
			return e;
		}
	}
	return NULL;
}

static void
drop_early(struct early *e)
{
	ring_remove(&e->queue);
	free(e);
}

/* A message larger than the buffer is an error, which the receiver finds by its
 * size. */
static void
deliver_early(struct early *e, struct request *r)
{
	const char *from = e->from ? e->from->at : e->at;
	int64_t n = e->head.bytes < r->bytes ? e->head.bytes : r->bytes;

	if (n > 0) {
		memcpy(r->at, from, (size_t)n);
	}
	if (e->from) {
		finish_request(e->from, e->head.bytes);
	}
	finish_request(r, e->head.bytes);
	drop_early(e);
}

/* Asks for an offered message, under the offer's number. */
static bool
accept_offer(struct rt_tcp *l, struct peer *p, struct request *r,
	     const struct tcp_head *offer)
{
	if (offer->bytes > r->bytes) {
		finish_request(r, offer->bytes);
		return true;
	}
	r->head.id = offer->id;
	r->got = offer->bytes;
	ring_remove(&r->queue);
	ring_append(&p->taken, &r->queue);
	return queue_head(l, p, WANT, offer->tag, offer->bytes, offer->id);
}

static bool
match_early(struct rt_tcp *l, struct peer *p, struct request *r)
{
	struct early *e = find_early(p, r->head.tag);
	struct tcp_head offer;

	if (!e) {
		ring_append(&p->wants, &r->queue);
		return true;
	}
	if (e->head.kind == OFFER) {
		offer = e->head;
		drop_early(e);
		return accept_offer(l, p, r, &offer);
	}
	if (e->whole) {
		deliver_early(e, r);
	} else {
		e->claim = r;
	}
	return true;
}

/* ---- reading ---- */

static struct early *
keep_early(struct peer *p, const struct tcp_head *h)
{
	int64_t size = h->kind == SMALL ? h->bytes : 0;
	struct early *e = malloc(sizeof(*e) + (size_t)size);

	if (e) {
		memset(e, 0, sizeof(*e));
		e->head = *h;
		ring_append(&p->early, &e->queue);
	}
	return e;
}

/* Reads into a posted buffer; bytes beyond its end are dropped. */
static void
read_into(struct peer *p, struct request *r, int64_t bytes)
{
	p->filled = r;
	p->to = r->at;
	p->left_bytes = bytes < r->bytes ? bytes : r->bytes;
	p->extra_bytes = bytes - p->left_bytes;
	r->got = bytes;
}

static bool
begin_small(struct peer *p)
{
	struct request *r = find_request(&p->wants, p->head.tag, -1);

	if (p->head.bytes < 0 || p->head.bytes > SMALL_BYTES) {
		return false;
	}
	if (r) {
		read_into(p, r, p->head.bytes);
		return true;
	}
	p->kept = keep_early(p, &p->head);
	if (!p->kept) {
		return false;
	}
	p->to = p->kept->at;
	p->left_bytes = p->head.bytes;
	return true;
}

/* Acts on a head; false: it is not valid. */
static bool
begin_message(struct rt_tcp *l, struct peer *p)
{
	const struct tcp_head *h = &p->head;
	struct request *r;

	p->filled = NULL;
	p->kept = NULL;
	p->left_bytes = p->extra_bytes = 0;
	if (h->bytes < 0) {
		return false;
	}
	switch (h->kind) {
	case SMALL:
		return begin_small(p);
	case OFFER:
		r = find_request(&p->wants, h->tag, -1);
		return r ? accept_offer(l, p, r, h) : !!keep_early(p, h);
	case WANT:
		r = find_request(&p->offers, 0, h->id);
		if (r) {
			r->head.kind = GIVE;
			queue_out(l, p, r);
		}
		return r != NULL;
	case GIVE:
		r = find_request(&p->taken, 0, h->id);
		if (!r || h->bytes != r->got) {
			return false;
		}
		read_into(p, r, h->bytes);
		return true;
	case BYE:
		p->left = true;
		return true;
	case QUIT:
		p->spoke = true;
		return true;
	default:
		return false;
	}
}

/* All of a message has arrived. */
static void
end_message(struct peer *p)
{
	struct early *e = p->kept;

	p->heard = 0;
	if (p->filled) {
		finish_request(p->filled, p->filled->got);
	} else if (e) {
		e->whole = true;
		p->spoke |= e->head.tag == RT_TAG_NOTICE;
		if (e->claim) {
			deliver_early(e, e->claim);
		}
	}
	p->filled = NULL;
	p->kept = NULL;
}

/* Where the next bytes go; those beyond the buffer go to `nowhere`. */
static char *
next_place(struct peer *p, char *nowhere, size_t size, size_t *n)
{
	int64_t head = sizeof(p->head);

	if (p->heard < head) {
		*n = (size_t)(head - p->heard);
		return (char *)&p->head + p->heard;
	}
	if (p->left_bytes > 0) {
		*n = (size_t)p->left_bytes;
		return p->to;
	}
	if (p->extra_bytes > 0) {
		*n = p->extra_bytes < (int64_t)size ? (size_t)p->extra_bytes
						    : size;
		return nowhere;
	}
	*n = (size_t)p->sum_bytes;
	return (char *)&p->sum + sizeof(p->sum) - p->sum_bytes;
}

/* A head is complete; false: it is invalid, or not valid now. */
static bool
read_head(struct rt_tcp *l, struct peer *p)
{
	if (l->checks) {
		p->broken |= p->head.sum != head_sum(&p->in_sums, &p->head);
		begin_sum(&p->hash, &p->in_sums, true);
		p->in_sums.count++;
	}
	if (p->broken || !begin_message(l, p)) {
		return false;
	}
	p->sum_bytes = sum_behind(l, p->left_bytes + p->extra_bytes);
	return true;
}

/* Accounts for n bytes that arrived; false: they are invalid. */
static bool
read_bytes(struct rt_tcp *l, struct peer *p, const char *at, int64_t n)
{
	if (p->heard < (int64_t)sizeof(p->head)) {
		p->heard += n;
		if (p->heard < (int64_t)sizeof(p->head)) {
			return true;
		}
		if (!read_head(l, p)) {
			return false;
		}
	} else if (p->left_bytes > 0 || p->extra_bytes > 0) {
		if (l->checks) {
			rt_siphash_add(&p->hash, at, (size_t)n);
		}
		if (p->left_bytes > 0) {
			p->to += n;
			p->left_bytes -= n;
		} else {
			p->extra_bytes -= n;
		}
	} else {
		p->sum_bytes -= n;
		p->broken |= p->sum_bytes == 0 &&
			     p->sum != rt_siphash_end(&p->hash);
	}
	if (p->broken) {
		return false;
	}
	if (p->left_bytes == 0 && p->extra_bytes == 0 && p->sum_bytes == 0) {
		end_message(p);
	}
	return true;
}

static void
read_in(struct rt_tcp *l, struct peer *p)
{
	char nowhere[4096];
	int64_t turn = 0;

	while (p->fd >= 0 && turn < TURN_BYTES) {
		size_t size;
		char *at = next_place(p, nowhere, sizeof(nowhere), &size);
		ssize_t n = recv(p->fd, at, size, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			return;
		}
		if (n <= 0 || !read_bytes(l, p, at, n)) {
			lose_peer(l, p);
			return;
		}
		turn += n;
	}
}

/* Reads and writes all that is possible without waiting. */
static void
move_along(struct rt_tcp *l)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(l->poll_fd, events, EVENTS, 0), i;

	for (i = 0; i < n; i++) {
		struct peer *p = events[i].data.ptr;

		if (events[i].events & EPOLLOUT) {
			write_out(l, p);
		}
		if (p->fd >= 0 && events[i].events & ~(uint32_t)EPOLLOUT) {
			read_in(l, p);
		}
	}
}

/* ---- the carrier's functions ---- */

/* A message to this rank itself stays here until it is received. */
static bool
send_self(struct peer *p, struct request *r)
{
	struct tcp_head h = { OWN, r->head.tag, r->bytes, 0, 0 };
	struct early *e = keep_early(p, &h);
	struct request *posted = find_request(&p->wants, h.tag, -1);

	if (e) {
		e->from = r;
		e->whole = true;
	}
	if (e && posted) {
		deliver_early(e, posted);
	}
	return e != NULL;
}

static enum rt_status
send_to(void *lib, const void *at, int64_t bytes, int64_t rank, int64_t tag,
	struct rt_msg_post *post, struct rt_error *err)
{
	struct rt_tcp *l = lib;
	struct peer *p = &l->peers[rank];
	struct request *r = new_request(l, SMALL, tag, bytes,
					(void *)(uintptr_t)at);
	bool good = true;

	if (!r) {
		return rt_no_memory(err, NULL);
	}
	*post = (struct rt_msg_post){ .handle = r, .rank = rank,
				      .busy = true };
	if (rank == l->me) {
		good = send_self(p, r);
	} else if (p->fd < 0) {
		/* whoever waits for it learns why it cannot be sent */
		good = true;
	} else if (bytes <= SMALL_BYTES) {
		queue_out(l, p, r);
	} else {
		ring_append(&p->offers, &r->queue);
		good = queue_head(l, p, OFFER, tag, bytes, r->head.id);
	}
	return good ? RT_OK : rt_no_memory(err, NULL);
}

static enum rt_status
recv_from(void *lib, void *at, int64_t bytes, int64_t rank, int64_t tag,
	  struct rt_msg_post *post, struct rt_error *err)
{
	struct rt_tcp *l = lib;
	struct request *r = new_request(l, GIVE, tag, bytes, at);

	if (!r) {
		return rt_no_memory(err, NULL);
	}
	*post = (struct rt_msg_post){ .handle = r, .rank = rank, .busy = true,
				      .received = true };
	return match_early(l, &l->peers[rank], r) ? RT_OK
					    : rt_no_memory(err, NULL);
}

static enum rt_status
test(void *lib, struct rt_msg_post *post, struct rt_error *err)
{
	struct request *r = post->handle;

	(void)err;
	if (!r->done) {
		move_along(lib);
	}
	if (r->done) {
		post->bytes = r->got;
		post->busy = false;
		post->handle = NULL;
		free_request(r);
	}
	return RT_OK;
}

static enum rt_status
probe(void *lib, int64_t tag, int64_t *rank, struct rt_error *err)
{
	struct rt_tcp *l = lib;
	int64_t i;

	(void)err;
	*rank = -1;
	move_along(l);
	for (i = 0; i < l->size && *rank < 0; i++) {
		const struct early *e = find_early(&l->peers[i], tag);

		*rank = e && e->whole ? i : -1;
	}
	return RT_OK;
}

static void
await_message(void *lib, int ms)
{
	struct pollfd p = { ((struct rt_tcp *)lib)->poll_fd, POLLIN, 0 };

	poll(&p, 1, ms);
}

/* A message that a rank sent before it died is reported rather than its
 * death. */
static enum rt_msg_peer
peer_state(void *lib, int64_t rank)
{
	const struct peer *p = &((struct rt_tcp *)lib)->peers[rank];

	return p->broken ? RT_MSG_BROKEN : p->left ? RT_MSG_LEFT :
	       p->dead && !p->spoke ? RT_MSG_DEAD : RT_MSG_HERE;
}

/* ---- opening and closing ---- */

static void
release_ring(struct ring_link *ring)
{
	while (ring->next != ring) {
		drop_early(OF(early, queue, ring->next));
	}
}

/* QUIT, so that the others do not report this rank as the one that died. */
static void
tcp_drop(void *lib)
{
	struct rt_tcp *l = lib;
	int64_t i;

	for (i = 0; i < l->size; i++) {
		if (l->peers[i].fd >= 0 && !l->peers[i].left) {
			queue_head(l, &l->peers[i], QUIT, 0, 0, 0);
		}
	}
	for (i = 0; i < l->size; i++) {
		release_ring(&l->peers[i].early);
		if (l->peers[i].fd >= 0) {
			close(l->peers[i].fd);
		}
	}
	while (l->all.next != &l->all) {
		free_request(OF(request, all, l->all.next));
	}
	if (l->poll_fd >= 0) {
		close(l->poll_fd);
	}
	free(l->peers);
	free(l);
}

/* Whether all others have ended or died, and our BYE has been sent to them. */
static bool
all_left(const struct rt_tcp *l)
{
	int64_t i;

	for (i = 0; i < l->size; i++) {
		const struct peer *p = &l->peers[i];

		if (i != l->me && p->fd >= 0 &&
		    (!p->left || p->out.next != &p->out)) {
			return false;
		}
	}
	return true;
}

/* A rank that sends BYE has nothing else under way. */
static bool
stop(void *lib, double timeout_us)
{
	struct rt_tcp *l = lib;
	double until = rt_now_us() + timeout_us;
	int64_t i;

	for (i = 0; i < l->size; i++) {
		if (l->peers[i].fd >= 0) {
			queue_head(l, &l->peers[i], BYE, 0, 0, 0);
		}
	}
	for (;;) {
		bool all;

		move_along(l);
		all = all_left(l);
		if (all || rt_now_us() > until) {
			tcp_drop(l);
			return all;
		}
		await_message(l, 50);
	}
}

static enum rt_status
add_peers(struct rt_tcp *l, const struct rt_tcp_end *ends, struct rt_error *err)
{
	int64_t i;

	for (i = 0; i < l->size; i++) {
		struct epoll_event e = { .events = EPOLLIN,
					 .data.ptr = &l->peers[i] };

		l->peers[i].fd = ends[i].fd;
		rt_tcp_message_key(&ends[i].session, true,
				   l->peers[i].out_sums.key);
		rt_tcp_message_key(&ends[i].session, false,
				   l->peers[i].in_sums.key);
		if (ends[i].fd >= 0 && epoll_ctl(l->poll_fd, EPOLL_CTL_ADD,
						 ends[i].fd, &e) != 0) {
			for (i++; i < l->size; i++) {
				if (ends[i].fd >= 0) {
					close(ends[i].fd);
				}
			}
			return rt_fail(err, RT_IO, RT_NOWHERE, "cannot watch "
				       "connections: %s", strerror(errno));
		}
	}
	return RT_OK;
}

static struct rt_tcp *
new_lib(const struct rt_comm *c)
{
	struct rt_tcp *l = calloc(1, sizeof(*l));
	int64_t i;

	if (!l) {
		return NULL;
	}
	*l = (struct rt_tcp){ .me = c->world.rank, .size = c->world.size,
			      .poll_fd = epoll_create1(EPOLL_CLOEXEC) };
	make_ring(&l->all);
	l->peers = calloc((size_t)l->size, sizeof(*l->peers));
	if (!l->peers || l->poll_fd < 0) {
		l->size = 0;
		tcp_drop(l);
		return NULL;
	}
	for (i = 0; i < l->size; i++) {
		struct peer *p = &l->peers[i];

		p->fd = -1;
		make_ring(&p->out);
		make_ring(&p->offers);
		make_ring(&p->wants);
		make_ring(&p->early);
		make_ring(&p->taken);
	}
	return l;
}

static enum rt_status
start(void **out, const struct rt_comm *c, struct rt_msg_self *self,
      struct rt_error *err)
{
	struct rt_tcp_end *ends = calloc((size_t)c->world.size, sizeof(*ends));
	struct rt_tcp *l = new_lib(c);
	enum rt_status s;

	*self = (struct rt_msg_self){ c->world.rank, c->world.size,
				      INT64_MAX };
	s = ends && l ? rt_tcp_meet(c, ends, &l->checks, err)
		      : rt_no_memory(err, NULL);
	if (s == RT_OK) {
		s = add_peers(l, ends, err);
	}
	free(ends);
	if (s != RT_OK && l) {
		tcp_drop(l);
		l = NULL;
	}
	*out = l;
	return s;
}

const struct rt_msg_calls rt_tcp_calls = { start, stop, tcp_drop, send_to,
	recv_from, test, probe, peer_state, await_message };

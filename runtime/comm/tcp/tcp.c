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

#include "runtime/comm/tcp/tcp_messages.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 64 };

/* Reads and writes all that is possible without waiting. */
static void
move_along(struct rt_tcp *l)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(l->poll_fd, events, EVENTS, 0), i;

	for (i = 0; i < n; i++) {
		struct peer *p = events[i].data.ptr;

		if (events[i].events & EPOLLOUT) {
			rt_tcp_write_out(l, p);
		}
		if (p->fd >= 0 && events[i].events & ~(uint32_t)EPOLLOUT) {
			rt_tcp_read_in(l, p);
		}
	}
}

/* ---- the carrier's functions ---- */

/* A message to this rank itself stays here until it is received. */
static bool
send_self(struct peer *p, struct request *r)
{
	struct tcp_head h = { OWN, r->head.tag, r->bytes, 0, 0 };
	struct early *e = rt_tcp_keep(p, &h);
	struct request *posted = rt_tcp_find(&p->wants, h.tag, -1);

	if (e) {
		e->from = r;
		e->whole = true;
	}
	if (e && posted) {
		rt_tcp_deliver(e, posted);
	}
	return e != NULL;
}

static enum rt_status
send_to(void *lib, const void *at, int64_t bytes, int64_t rank, int64_t tag,
	struct rt_msg_post *post, struct rt_error *err)
{
	struct rt_tcp *l = lib;
	struct peer *p = &l->peers[rank];
	struct request *r = rt_tcp_request(l, SMALL, tag, bytes,
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
	} else if (bytes <= RT_TCP_SMALL_BYTES) {
		rt_tcp_queue(l, p, r);
	} else {
		ring_append(&p->offers, &r->queue);
		good = rt_tcp_queue_head(l, p, OFFER, tag, bytes, r->head.id);
	}
	return good ? RT_OK : rt_no_memory(err, NULL);
}

static enum rt_status
recv_from(void *lib, void *at, int64_t bytes, int64_t rank, int64_t tag,
	  struct rt_msg_post *post, struct rt_error *err)
{
	struct rt_tcp *l = lib;
	struct request *r = rt_tcp_request(l, GIVE, tag, bytes, at);

	if (!r) {
		return rt_no_memory(err, NULL);
	}
	*post = (struct rt_msg_post){ .handle = r, .rank = rank, .busy = true,
				      .received = true };
	return rt_tcp_match(l, &l->peers[rank], r) ? RT_OK
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
		rt_tcp_request_free(r);
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
		const struct early *e = rt_tcp_find_early(&l->peers[i], tag);

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
		rt_tcp_drop_early(RING_OF(early, queue, ring->next));
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
			rt_tcp_queue_head(l, &l->peers[i], QUIT, 0, 0, 0);
		}
	}
	for (i = 0; i < l->size; i++) {
		release_ring(&l->peers[i].early);
		if (l->peers[i].fd >= 0) {
			close(l->peers[i].fd);
		}
	}
	while (l->all.next != &l->all) {
		rt_tcp_request_free(RING_OF(request, all, l->all.next));
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
			rt_tcp_queue_head(l, &l->peers[i], BYE, 0, 0, 0);
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

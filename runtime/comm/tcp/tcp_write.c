/*
 * What is sent over a connection: requests in their order, each with its head,
 * and with its codes where messages are authenticated.
 */
#include "runtime/comm/tcp/tcp_messages.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* authenticated at once, while they are in a cache */
enum { SUM_AT_ONCE = 1 << 18 };

struct request *
rt_tcp_request(struct rt_tcp *l, enum tcp_kind kind, int64_t tag, int64_t bytes,
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

void
rt_tcp_request_free(struct request *r)
{
	ring_remove(&r->all);
	ring_remove(&r->queue);
	free(r);
}

void
rt_tcp_request_finish(struct request *r, int64_t got)
{
	ring_remove(&r->queue);
	r->got = got;
	r->done = true;
	if (r->ours) {
		rt_tcp_request_free(r);
	}
}

/* ---- authentication ---- */

void
rt_tcp_begin_sum(struct rt_siphash *h, const struct tcp_auth *s, bool behind)
{
	uint64_t what = s->count * 2 + behind;

	rt_siphash_begin(h, s->key);
	rt_siphash_add(h, &what, sizeof(what));
}

uint64_t
rt_tcp_head_sum(const struct tcp_auth *s, const struct tcp_head *head)
{
	struct rt_siphash h;

	rt_tcp_begin_sum(&h, s, false);
	rt_siphash_add(&h, head, offsetof(struct tcp_head, sum));
	return rt_siphash_end(&h);
}

int64_t
rt_tcp_sum_behind(const struct rt_tcp *l, int64_t bytes)
{
	return l->checks && bytes > 0 ? (int64_t)sizeof(uint64_t) : 0;
}

/* The request is the next to be sent. */
static void
begin_sums(const struct rt_tcp *l, struct peer *p, struct request *r)
{
	r->begun = true;
	if (l->checks) {
		r->head.sum = rt_tcp_head_sum(&p->out_sums, &r->head);
		rt_tcp_begin_sum(&r->hash, &p->out_sums, true);
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
	if (ready == r->bytes && rt_tcp_sum_behind(l, r->bytes) > 0) {
		after = body > r->bytes ? body - r->bytes : 0;
		v[m.msg_iovlen++] = (struct iovec){ (char *)&r->sum + after,
			sizeof(r->sum) - (size_t)after };
	}
	return sendmsg(p->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void
rt_tcp_write_out(struct rt_tcp *l, struct peer *p)
{
	int64_t moved = 0;

	while (p->fd >= 0 && p->out.next != &p->out &&
	       moved < RT_TCP_TURN_BYTES) {
		struct request *r = RING_OF(request, queue, p->out.next);
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
					rt_tcp_sum_behind(l, r->bytes)) {
			rt_tcp_request_finish(r, r->bytes);
		}
	}
	if (p->fd >= 0) {
		watch(l, p, p->out.next != &p->out);
	}
}

void
rt_tcp_queue(struct rt_tcp *l, struct peer *p, struct request *r)
{
	ring_remove(&r->queue);
	ring_append(&p->out, &r->queue);
	if (!p->waits) {
		rt_tcp_write_out(l, p);
	}
}

bool
rt_tcp_queue_head(struct rt_tcp *l, struct peer *p, enum tcp_kind kind,
		  int64_t tag, int64_t bytes, int64_t id)
{
	struct request *r = rt_tcp_request(l, kind, tag, 0, NULL);

	if (r) {
		r->head.bytes = bytes;
		r->head.id = id;
		r->ours = true;
		rt_tcp_queue(l, p, r);
	}
	return r != NULL;
}

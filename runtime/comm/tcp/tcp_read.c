/*
 * What arrives over a connection: into posted buffers, or kept until there is
 * one; a head or a code that is not valid ends the connection.
 */
#include "runtime/comm/tcp/tcp_messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- posted buffers and early messages ---- */

struct request *
rt_tcp_find(const struct ring_link *ring, int64_t tag, int64_t id)
{
	const struct ring_link *i;

	for (i = ring->next; i != ring; i = i->next) {
		struct request *r = RING_OF(request, queue, i);

		if (id < 0 ? r->head.tag == tag : r->head.id == id) {
			return r;
		}
	}
	return NULL;
}

struct early *
rt_tcp_find_early(const struct peer *p, int64_t tag)
{
	const struct ring_link *i;

	for (i = p->early.next; i != &p->early; i = i->next) {
		struct early *e = RING_OF(early, queue, i);

		if (e->head.tag == tag && !e->claim) {
			return e;
		}
	}
	return NULL;
}

void
rt_tcp_drop_early(struct early *e)
{
	ring_remove(&e->queue);
	free(e);
}

void
rt_tcp_deliver(struct early *e, struct request *r)
{
	const char *from = e->from ? e->from->at : e->at;
	int64_t n = e->head.bytes < r->bytes ? e->head.bytes : r->bytes;

	if (n > 0) {
		memcpy(r->at, from, (size_t)n);
	}
	if (e->from) {
		rt_tcp_request_finish(e->from, e->head.bytes);
	}
	rt_tcp_request_finish(r, e->head.bytes);
	rt_tcp_drop_early(e);
}

/* Asks for an offered message, under the offer's number. */
static bool
accept_offer(struct rt_tcp *l, struct peer *p, struct request *r,
	     const struct tcp_head *offer)
{
	if (offer->bytes > r->bytes) {
		rt_tcp_request_finish(r, offer->bytes);
		return true;
	}
	r->head.id = offer->id;
	r->got = offer->bytes;
	ring_remove(&r->queue);
	ring_append(&p->taken, &r->queue);
	return rt_tcp_queue_head(l, p, WANT, offer->tag, offer->bytes,
				 offer->id);
}

bool
rt_tcp_match(struct rt_tcp *l, struct peer *p, struct request *r)
{
	struct early *e = rt_tcp_find_early(p, r->head.tag);
	struct tcp_head offer;

	if (!e) {
		ring_append(&p->wants, &r->queue);
		return true;
	}
	if (e->head.kind == OFFER) {
		offer = e->head;
		rt_tcp_drop_early(e);
		return accept_offer(l, p, r, &offer);
	}
	if (e->whole) {
		rt_tcp_deliver(e, r);
	} else {
		e->claim = r;
	}
	return true;
}

/* ---- reading ---- */

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

struct early *
rt_tcp_keep(struct peer *p, const struct tcp_head *h)
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
	struct request *r = rt_tcp_find(&p->wants, p->head.tag, -1);

	if (p->head.bytes < 0 || p->head.bytes > RT_TCP_SMALL_BYTES) {
		return false;
	}
	if (r) {
		read_into(p, r, p->head.bytes);
		return true;
	}
	p->kept = rt_tcp_keep(p, &p->head);
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
		r = rt_tcp_find(&p->wants, h->tag, -1);
		return r ? accept_offer(l, p, r, h) : !!rt_tcp_keep(p, h);
	case WANT:
		r = rt_tcp_find(&p->offers, 0, h->id);
		if (r) {
			r->head.kind = GIVE;
			rt_tcp_queue(l, p, r);
		}
		return r != NULL;
	case GIVE:
		r = rt_tcp_find(&p->taken, 0, h->id);
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
		rt_tcp_request_finish(p->filled, p->filled->got);
	} else if (e) {
		e->whole = true;
		p->spoke |= e->head.tag == RT_TAG_NOTICE;
		if (e->claim) {
			rt_tcp_deliver(e, e->claim);
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
		p->broken |=
			p->head.sum != rt_tcp_head_sum(&p->in_sums, &p->head);
		rt_tcp_begin_sum(&p->hash, &p->in_sums, true);
		p->in_sums.count++;
	}
	if (p->broken || !begin_message(l, p)) {
		return false;
	}
	p->sum_bytes = rt_tcp_sum_behind(l, p->left_bytes + p->extra_bytes);
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

void
rt_tcp_read_in(struct rt_tcp *l, struct peer *p)
{
	char nowhere[4096];
	int64_t turn = 0;

	while (p->fd >= 0 && turn < RT_TCP_TURN_BYTES) {
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

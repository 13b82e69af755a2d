/*
 * Messages of the host between rank 0 and another rank, which wait in queues:
 * which are legal, before the transport moves any byte; and the queues of one
 * host, rings of messages in the shared segment, each with one writer and one
 * reader.
 */
#include "runtime/comm/shm.h"

#include <string.h>

/* ---- of any transport ---- */

static enum rt_status
check(const struct rt_comm *c, int64_t rank, bool up, int64_t bytes,
      struct rt_error *err)
{
	int64_t most = up ? c->queues.up_bytes : c->queues.down_bytes;

	if (rank < 0 || rank >= c->world.size || rank == c->world.rank ||
	    (rank != 0 && c->world.rank != 0) || c->queues.depth < 1 ||
	    bytes < 0 || bytes > most) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "no queue between "
			"ranks %lld and %lld has messages of %lld bytes",
			(long long)c->world.rank, (long long)rank,
			(long long)bytes);
	}
	return RT_OK;
}

enum rt_status
rt_comm_send_queued(struct rt_comm *c, const char *what, int64_t rank,
		    const void *at, int64_t bytes, struct rt_error *err)
{
	struct rt_activity s = { what, -1, -1, 0 };
	enum rt_status status = check(c, rank, rank == 0, bytes, err);

	if (status == RT_OK) {
		rt_comm_note(c, what, -1, -1);
		status = c->via->put(c, &s, rank, at, bytes, err);
	}
	return status;
}

enum rt_status
rt_comm_receive_queued(struct rt_comm *c, const char *what, int64_t rank,
		       void *at, int64_t most, int64_t *bytes,
		       struct rt_error *err)
{
	struct rt_activity s = { what, -1, -1, 0 };
	enum rt_status status = check(c, rank, rank != 0, most, err);

	if (status == RT_OK) {
		rt_comm_note(c, what, -1, -1);
		status = c->via->get(c, &s, rank, at, most, bytes, err);
	}
	return status != RT_OK || *bytes <= most ? status :
		rt_fail(err, RT_FORMAT, RT_NOWHERE, "%s sends %lld bytes, rank "
			"%lld expects at most %lld in %s",
			rt_rank_text(c, rank).text, (long long)*bytes,
			(long long)c->world.rank, (long long)most,
			rt_show_name(what).text);
}

enum rt_status
rt_comm_settle(struct rt_comm *c, const char *what, struct rt_error *err)
{
	struct rt_activity s = { what, -1, -1, 0 };

	rt_comm_note(c, what, -1, -1);
	return c->via->settle_all(c, &s, err);
}

/* ---- in shared memory ---- */

/* The one to or from that rank; *up: this is of the ones to rank 0. */
static struct rt_queue *
find_queue(const struct rt_comm *c, int64_t rank, bool sends, bool *up)
{
	int64_t other = c->world.rank == 0 ? rank : c->world.rank;

	*up = sends == (c->world.rank != 0);
	return rt_segment_queue(c->shm, c->shm->local_of[other], *up);
}

static enum rt_status
await(struct rt_comm *c, const struct rt_wait *w, struct rt_error *err)
{
	return rt_doorbell_reached(w->doorbell, w->want)
		? RT_OK : rt_watch_wait(c, w, err);
}

enum rt_status
rt_shm_put(struct rt_comm *c, const struct rt_activity *s, int64_t rank,
	   const void *at, int64_t bytes, struct rt_error *err)
{
	bool up;
	struct rt_queue *q = find_queue(c, rank, true, &up);
	unsigned n = atomic_load(&q->sent.count);
	/* the message before it has been taken out of its place */
	struct rt_wait w = { &q->taken, n + 1 - (unsigned)c->queues.depth,
		rank, s, NULL };
	enum rt_status status = await(c, &w, err);
	int64_t *to = rt_segment_message(q, &c->queues, up, n);

	if (status == RT_OK) {
		*to = bytes;
		memcpy(to + 1, at, (size_t)bytes);
		rt_doorbell_ring(&q->sent);
	}
	return status;
}

enum rt_status
rt_shm_get(struct rt_comm *c, const struct rt_activity *s, int64_t rank,
	   void *at, int64_t most, int64_t *bytes, struct rt_error *err)
{
	bool up;
	struct rt_queue *q = find_queue(c, rank, false, &up);
	unsigned n = atomic_load(&q->taken.count);
	struct rt_wait w = { &q->sent, n + 1, rank, s, NULL };
	enum rt_status status = await(c, &w, err);
	const int64_t *from = rt_segment_message(q, &c->queues, up, n);

	if (status != RT_OK) {
		return status;
	}
	*bytes = *from;
	memcpy(at, from + 1, (size_t)(*from < most ? *from : most));
	rt_doorbell_ring(&q->taken);
	return RT_OK;
}

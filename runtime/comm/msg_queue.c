/*
 * Queues between rank 0 and each other rank, by messages: what is sent is kept
 * here until the other rank has it.
 */
#include "runtime/comm/msg.h"

#include <stdlib.h>
#include <string.h>

static struct rt_msg_kept *
kept(struct rt_comm *c, int64_t rank, int64_t i)
{
	return &c->msg->queues[rank].at[i % c->queues.depth];
}

/* Waits for the messages to that rank before number `until`. */
static enum rt_status
settle_until(struct rt_comm *c, const struct rt_activity *s, int64_t rank,
	     int64_t until, struct rt_error *err)
{
	struct rt_msg_queue *q = &c->msg->queues[rank];
	enum rt_status status = RT_OK;

	for (; q->settled < until && status == RT_OK; q->settled++) {
		status = rt_msg_wait_for(c, &kept(c, rank, q->settled)->post,
					 1, s, NULL, err);
		c->msg->under_way--;
	}
	return status;
}

/* Forgets what has been received. */
static enum rt_status
settle_some(struct rt_comm *c, struct rt_error *err)
{
	struct rt_msg *m = c->msg;
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < c->world.size && status == RT_OK; i++) {
		struct rt_msg_queue *q = &m->queues[i];

		while (status == RT_OK && q->settled < q->n) {
			struct rt_msg_post *p = &kept(c, i, q->settled)->post;

			status = m->calls->test(m->lib, p, err);
			if (status != RT_OK || p->busy) {
				break;
			}
			q->settled++;
			m->under_way--;
		}
	}
	return status;
}

bool
rt_msg_open_queues(struct rt_comm *c)
{
	struct rt_msg *m = c->msg;
	int64_t i;

	m->queues = calloc((size_t)c->world.size, sizeof(*m->queues));
	for (i = 0; m->queues && i < c->world.size; i++) {
		m->queues[i].at = calloc((size_t)c->queues.depth + 1,
					 sizeof(*m->queues[i].at));
		if (!m->queues[i].at) {
			return false;
		}
	}
	return m->queues;
}

bool
rt_msg_settle_queues(struct rt_comm *c)
{
	struct rt_activity end = { "the end", -1, -1, 0 };
	bool all = true;
	int64_t i;

	for (i = 0; i < c->world.size; i++) {
		all &= settle_until(c, &end, i, c->msg->queues[i].n, NULL) ==
		       RT_OK;
	}
	return all;
}

void
rt_msg_close_queues(struct rt_comm *c)
{
	struct rt_msg *m = c->msg;
	int64_t i, k;

	for (i = 0; m->queues && i < c->world.size; i++) {
		for (k = 0; m->queues[i].at && k < c->queues.depth; k++) {
			free(m->queues[i].at[k].bytes);
		}
		free(m->queues[i].at);
	}
	free(m->queues);
}

enum rt_status
rt_msg_put(struct rt_comm *c, const struct rt_activity *s, int64_t rank,
	   const void *at, int64_t bytes, struct rt_error *err)
{
	struct rt_msg *m = c->msg;
	struct rt_msg_queue *q = &m->queues[rank];
	struct rt_msg_kept *k = kept(c, rank, q->n);
	enum rt_status status;
	char *more;

	status = settle_until(c, s, rank, q->n + 1 - c->queues.depth, err);
	if (status == RT_OK) {
		status = settle_some(c, err);
	}
	if (status != RT_OK) {
		return status;
	}
	more = realloc(k->bytes, (size_t)bytes + 1);
	if (!more) {
		return rt_no_memory(err, NULL);
	}
	k->bytes = more;
	memcpy(more, at, (size_t)bytes);
	status = m->calls->send(m->lib, more, bytes, rank, RT_TAG_QUEUED,
				&k->post, err);
	if (status == RT_OK) {
		q->n++;
		m->under_way++;
	}
	return status;
}

enum rt_status
rt_msg_get(struct rt_comm *c, const struct rt_activity *s, int64_t rank,
	   void *at, int64_t most, int64_t *bytes, struct rt_error *err)
{
	enum rt_status status = settle_some(c, err);

	rt_msg_start_posts(c);
	if (status == RT_OK) {
		status = rt_msg_post_receive(c, at, most, rank, RT_TAG_QUEUED,
					     err);
	}
	if (status == RT_OK) {
		status = rt_msg_wait_posts(c, s, NULL, err);
	}
	*bytes = c->msg->posts[0].bytes;
	return status;
}

/*
 * The layout of the segment that the ranks of a host share.
 */
#include "runtime/comm/shm.h"

static size_t
take(size_t *end, size_t each, int64_t n)
{
	size_t at = (*end + 4095) / 4096 * 4096;

	*end = at + each * (size_t)n;
	return at;
}

/* Of a message with its number of bytes. */
static size_t
message_bytes(int64_t most)
{
	return sizeof(int64_t) + ((size_t)most + 7) / 8 * 8;
}

/* By messages, what is kept of each is what it has (msg_queue.c). */
int64_t
rt_queue_bytes(const struct rt_queues *q, bool up)
{
	return (int64_t)((sizeof(struct rt_queue) + (size_t)q->depth *
			  message_bytes(up ? q->up_bytes : q->down_bytes) +
			  63) / 64 * 64);
}

/* Unused pages of the segment cost no memory. */
void
rt_segment_lay_out(struct rt_shm *s, const struct rt_plan *p,
		   const struct rt_queues *q)
{
	size_t end = sizeof(struct rt_segment);

	s->rank_slots = take(&end, sizeof(struct rt_rank_slot), s->n);
	s->slots = take(&end, sizeof(struct rt_meeting_slot), RT_ROWS * s->n);
	s->mail = take(&end, RT_MAIL_BYTES, RT_ROWS * s->n * 2);
	s->posts = take(&end, sizeof(struct rt_post),
			p->nchannels * s->n * p->nmicrobatches);
	s->down_bytes = (size_t)rt_queue_bytes(q, false);
	s->up_bytes = (size_t)rt_queue_bytes(q, true);
	s->queues = take(&end, s->down_bytes + s->up_bytes,
			 q->depth > 0 ? s->n : 0);
	s->segment_bytes = (end + 4095) / 4096 * 4096;
}

static char *
at(const struct rt_shm *s, size_t part, size_t each, int64_t i)
{
	return (char *)s->segment + part + each * (size_t)i;
}

struct rt_rank_slot *
rt_segment_slot(const struct rt_shm *s, int64_t local)
{
	return (void *)at(s, s->rank_slots, sizeof(struct rt_rank_slot), local);
}

struct rt_meeting_slot *
rt_segment_meeting(const struct rt_shm *s, int64_t row, int64_t local)
{
	return (void *)at(s, s->slots, sizeof(struct rt_meeting_slot),
			  row * s->n + local);
}

char *
rt_segment_letter(const struct rt_shm *s, int64_t row, int64_t local,
		  unsigned turn)
{
	return at(s, s->mail, RT_MAIL_BYTES,
		  (row * s->n + local) * 2 + (int64_t)(turn & 1));
}

struct rt_post *
rt_segment_board(const struct rt_shm *s, const struct rt_plan *p,
		 int64_t channel, int64_t local, int64_t microbatch)
{
	return (void *)at(s, s->posts, sizeof(struct rt_post),
			  (channel * s->n + local) * p->nmicrobatches +
				  microbatch);
}

struct rt_queue *
rt_segment_queue(const struct rt_shm *s, int64_t local, bool up)
{
	return (void *)(at(s, s->queues, s->down_bytes + s->up_bytes, local) +
			(up ? s->down_bytes : 0));
}

int64_t *
rt_segment_message(struct rt_queue *q, const struct rt_queues *of, bool up,
		   unsigned i)
{
	size_t each = message_bytes(up ? of->up_bytes : of->down_bytes);

	return (void *)((char *)(q + 1) +
			i % (unsigned)of->depth * each);
}

static uint64_t
mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* The first rank to ask claims a free row; the others find it by its key. */
int64_t
rt_segment_row(struct rt_shm *s, int64_t axes, int64_t holders)
{
	uint64_t key = mix(mix((uint64_t)axes + 1) ^ (uint64_t)holders) | 1;
	int64_t i;

	for (i = 0; i < RT_ROWS; i++) {
		uint64_t old = 0;

		if (atomic_compare_exchange_strong(&s->segment->keys[i], &old,
						   key) ||
		    old == key) {
			return i;
		}
	}
	return -1;
}

/*
 * What a program that serves keeps in the memory of hosts; see the header.
 */
#include "runtime/train/served_memory.h"

int64_t
rt_served_blocks(int64_t slots)
{
	return slots / RT_SERVED_BLOCK - 1;
}

int64_t
rt_served_step_bytes(const struct rt_served *s, int64_t keys)
{
	return RT_SERVED_HEAD * (int64_t)sizeof(int64_t) +
	       (int64_t)sizeof(int32_t) * (5 * s->tokens + s->rows + keys);
}

struct rt_queues
rt_served_queues(const struct rt_served *s)
{
	return (struct rt_queues){ s->stages,
		rt_served_step_bytes(s, s->keys),
		s->rows * s->vocab * (int64_t)sizeof(float) };
}

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/*
 * All ranks are told of steps, and the last stage of each replica sends logits,
 * but for rank 0, if it has them itself.  A rank has a step that it computes,
 * and one that shows logits has those as they are and as floats, which are no
 * more than what it sends.
 */
struct rt_served_memory
rt_served_memory(const struct rt_served *s)
{
	struct rt_queues q = rt_served_queues(s);
	struct rt_serve_options o = rt_serve_plain();
	struct rt_engine e = { .tokens = s->tokens, .rows = s->rows,
		.keys = s->keys, .block = RT_SERVED_BLOCK,
		.blocks = rt_served_blocks(s->slots), .vocab = s->vocab,
		.replicas = s->replicas, .in_flight = s->stages };
	struct rt_serve_memory m = rt_serve_memory(&e, &o);
	int64_t senders = s->replicas - (s->stages == 1);
	int64_t shows = least(s->replicas, s->host_ranks);

	return (struct rt_served_memory){
		.queues = (s->ranks - 1) * rt_queue_bytes(&q, false) +
			  senders * rt_queue_bytes(&q, true),
		.steps = m.steps + s->host_ranks * q.down_bytes +
			 shows * RT_SERVED_LOGITS * q.up_bytes,
		.index = m.index, .client = m.client
	};
}
